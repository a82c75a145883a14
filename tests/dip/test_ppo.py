"""PPO: loss and advantages by hand, values of joint orders two ways, a reward that is learned."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.dip import atlas, finetune, orders, ppo, preference, rules, value
from dipllm_lib.dip.arm_list import ArmSettings
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.records import Record
from dipllm_lib.lm import adapters
from dipllm_lib.run import profiles

SETTINGS = replace(
    profiles.load("smoke", 0).dip, scratch_hidden=16, scratch_layers=1, scratch_heads=2
)
WANTED = FinetuneSettings.of(SETTINGS)
SIZES = ArmSettings(ppo_batches=3, ppo_batch=2, ppo_draws=3, ppo_others=4, ppo_lr=1e-2)


@pytest.fixture
def backbone():
    torch.set_num_threads(1)
    model = finetune.backbone(SETTINGS, 0)
    adapters.attach(model, "ppo", 0)
    return model


@pytest.fixture
def records(searches):
    return [Record.from_json(row) for row in searches[:6]]


def test_loss_by_hand():
    """Ratios 1, 2, 1/2, clip 0.2: the lower of both, so gains are cut at 1.2 and losses kept."""
    new = torch.log(torch.tensor([1.0, 2.0, 2.0, 0.5]))
    gain = torch.tensor([1.0, 1.0, -1.0, -1.0])
    value_, cut = ppo.ppo_loss(new, torch.zeros(4), gain, 0.2)
    assert value_.item() == pytest.approx(-(1 + 1.2 - 2 - 0.8) / 4)
    assert cut.tolist() == [False, True, True, True]


def test_advantages_by_hand():
    """Two draws 1 and 0: each minus the other, 1 and -1; equal draws 0; all over one deviation."""
    found = ppo.advantages([np.array([1.0, 0.0]), np.array([0.5, 0.5])])
    scale = np.sqrt(0.5)  # of 1, -1, 0, 0
    assert np.concatenate(found) == pytest.approx([1 / scale, -1 / scale, 0, 0])
    assert ppo.advantages([np.ones(3)])[0].tolist() == [0, 0, 0]


def test_worth_is_the_value_against_the_recorded_policies(records):
    """With opponents that always play one candidate it is that one phase, adjudicated here."""
    record = records[0]
    for own in record.powers:
        own.average = np.eye(len(own.candidates))[-1]
    wanted = [(own.power, own.candidates[:2]) for own in record.powers[:3]]
    rng = np.random.default_rng(0)
    found = ppo.worth(record, wanted, 5, value.heuristic, rng)
    for (power, joints), values in zip(wanted, found, strict=True):
        for joint, worth in zip(joints, values, strict=True):
            given = {own.power: own.candidates[-1] for own in record.powers} | {power: joint}
            after, _ = rules.resolve(record.boards, orders.expand(record.boards, [given]))
            assert worth == pytest.approx(float(value.heuristic(after)[0, power]))


def test_draws_are_legal_and_carry_their_probability(backbone, records):
    """What was noted when drawing is what the packed pass gives, so that the first ratio is 1."""
    found = ppo.draws(backbone, records[:2], 3, np.random.default_rng(4))
    again = ppo.draws(backbone, records[:2], 3, np.random.default_rng(4))
    for record, own, same in zip(records, found, again):
        turns = {turn.power: turn for turn in record.turns}
        for draw, other in zip(own, same, strict=True):
            assert draw.joints == other.joints
            for joint in draw.joints:
                turns[draw.power].check(joint)
            scored = preference.fixed(backbone, [[draw.sample]], "legal")[0].numpy()
            assert scored[draw.index] == pytest.approx(draw.old, abs=1e-5)


def stay(boards):
    """(N, 7) share of the units of a power that are fleets on their start: something to learn."""
    start = rules.start()
    same = (boards.unit == 2) & (boards.loc == start.loc) & (boards.power == start.power)
    counts = [(same & (boards.power == p)).sum(axis=1) for p in range(atlas.N_POWERS)]
    return np.stack(counts, axis=1).astype(np.float32)


def test_a_reward_is_learned_and_the_reference_holds(backbone, records):
    sizes = replace(SIZES, ppo_batches=10, ppo_draws=4, ppo_batch=1, ppo_kl=0.0, ppo_lr=2e-2)
    first = [records[0]]
    history = ppo.ppo(backbone, "ppo", first, stay, WANTED, sizes, 0)
    assert len(history) == 10 and history["step"].iloc[-1] == 20
    assert history["kl"].iloc[0] == pytest.approx(0, abs=1e-5)
    assert history["reward"].iloc[-3:].mean() > history["reward"].iloc[:3].mean() + 0.15
    assert history["kl"].iloc[-1] > 0.1 and history["clipped"].max() > 0
    held = finetune.backbone(SETTINGS, 0)
    adapters.attach(held, "ppo", 0)
    strong = ppo.ppo(held, "ppo", first, stay, WANTED, replace(sizes, ppo_kl=10.0), 0)
    assert strong["kl"].iloc[-3:].mean() < history["kl"].iloc[-3:].mean()


def test_the_same_seed_gives_the_same_weights_and_resumes(records, tmp_path, monkeypatch):
    monkeypatch.setattr(preference, "EVERY", 1)

    def trained(path=None, stop=None):
        torch.set_num_threads(1)
        model = finetune.backbone(SETTINGS, 0)
        adapters.attach(model, "ppo", 0)
        batch = ppo._ppo_batch

        def killed(trainer, *rest):
            if trainer.done == stop:
                raise KeyboardInterrupt
            return batch(trainer, *rest)

        monkeypatch.setattr(ppo, "_ppo_batch", killed)
        try:
            ppo.ppo(model, "ppo", records, value.heuristic, WANTED, SIZES, 5, path)
        finally:
            monkeypatch.setattr(ppo, "_ppo_batch", batch)
        return torch.cat([p.detach().flatten() for _, p in adapters.trainable(model)])

    whole, path = trained(), tmp_path / "ppo.safetensors"
    with pytest.raises(KeyboardInterrupt):
        trained(path, stop=4)
    assert torch.equal(trained(path), whole)

"""Fine-tuning toward joint targets: the loss and its identities, splits, training, resume."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.dip import atlas, finetune, orders, rules, states, text
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.policies import RandomLegal
from dipllm_lib.lm import adapters, steps
from dipllm_lib.run import profiles

SETTINGS = replace(
    profiles.load("smoke", 0).dip,
    scratch_hidden=16,
    scratch_layers=1,
    scratch_heads=2,
    finetune_epochs=2,
    finetune_pack="turn",
    finetune_batch=4,
    finetune_joint_orders=3,
    finetune_lr=1e-2,
)


def make_rows(games=3, candidates=5):
    """Power-turns of 1901 from random play with random targets, as in 02_samples.jsonl."""
    rows, player = [], RandomLegal()
    for g in range(games):
        rng = np.random.default_rng([4, g])
        now = rules.start()
        for _ in range(3):
            turns = orders.turns(now)
            for turn in turns:
                joints = sorted(set(player.sample(turn, candidates, rng)))
                rows.append({
                    "game": f"g{g}",
                    "phase": turn.phase,
                    "power": atlas.POWERS[turn.power],
                    "state": states.to_state(now),
                    "joints": [[orders.to_text(int(o)) for o in joint] for joint in joints],
                    "target": rng.dirichlet(np.full(len(joints), 0.7)).tolist(),
                    "log_tau": [0.0] * len(joints),
                })
            joints = {t.power: player.act([t], [rng])[0] for t in turns}
            now, _ = rules.resolve(now, orders.expand(now, [joints]))
    return rows


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture
def backbone():
    torch.set_num_threads(1)
    return finetune.backbone(SETTINGS, 0)


def weights(backbone):
    return torch.cat([p.detach().flatten() for _, p in adapters.trainable(backbone)])


def test_sample_by_hand(backbone, rows):
    """Kept are the three most probable joint orders, renormalised."""
    row = rows[0] | {"target": [0.1, 0.4, 0.0, 0.3, 0.2]}
    (sample,) = finetune.build([row], backbone, SETTINGS)
    assert sample.kept == (1, 3, 4) and sample.weights == pytest.approx([4 / 9, 3 / 9, 2 / 9])
    assert sample.mass == pytest.approx(0.9)
    assert (
        backbone.tokenizer.text(sample.prompt).strip()
        == text.prompt(finetune.row_turn(row)).strip()
    )
    two = {"joints": row["joints"][:2], "target": [1.0, 0.0], "log_tau": [0.0, 0.0]}
    assert finetune.build([row | two], backbone, SETTINGS)[0].kept == (0,)


def test_token_loss_equals_plain_likelihood(backbone, rows):
    """One unpadded forward pass per text, full softmax, against the packed batch."""
    samples = finetune.build(rows[:5], backbone, SETTINGS)
    expected = 0.0
    for sample in samples:
        for k, weight in zip(sample.kept, sample.weights, strict=True):
            ids = torch.tensor([[*sample.prompt, *sample.paths[k].tokens]])
            table = torch.log_softmax(backbone.model(input_ids=ids).logits[0].double(), -1)
            told = range(len(sample.prompt), ids.shape[1])
            expected -= weight * sum(table[t - 1, ids[0, t]].item() for t in told)
    assert finetune.loss(backbone, samples, "tokens").item() == pytest.approx(expected, rel=1e-5)


def test_legal_loss_minus_entropy_is_the_kl(backbone, rows):
    """With all candidates kept, sum of w log w + L(legal) = KL(pi* || pi_phi)."""
    samples = finetune.build(rows[:6], backbone, replace(SETTINGS, finetune_joint_orders=99))
    value = finetune.loss(backbone, samples, "legal").item()
    entropy = -sum(float(w @ np.log(w)) for w in (s.target[s.target > 0] for s in samples))
    assert finetune.evaluate(backbone, samples)["kl"].sum() == pytest.approx(
        value - entropy, rel=1e-5
    )


def test_kl_equals_the_agents_probabilities(backbone, rows):
    samples, agent = finetune.build(rows[:4], backbone, SETTINGS), LMAgent(backbone, 1.0)
    table = finetune.evaluate(backbone, samples)
    for row, sample, (kl, covered) in zip(rows, samples, table[["kl", "covered"]].to_numpy()):
        turn = finetune.row_turn(row)
        found = agent.log_prob(turn, [orders.parse_joint(turn, t) for t in row["joints"]])
        assert kl == pytest.approx(float(sample.target @ (np.log(sample.target) - found)), rel=1e-5)
        assert covered == pytest.approx(np.exp(found).sum(), rel=1e-5)


def test_split_keeps_games_apart(rows):
    train, heldout = finetune.split(rows, 10, 15, np.random.default_rng(0))
    assert len(train) == 10 and len(heldout) == 15
    assert not {r["game"] for r in train} & {r["game"] for r in heldout}
    assert (train, heldout) == finetune.split(rows, 10, 15, np.random.default_rng(0))
    with pytest.raises(ValueError, match="3 games do not suffice"):
        finetune.split(rows, 10, 1000, np.random.default_rng(0))


def test_split_by_positions_keeps_them_whole(rows):
    def sizes(some):
        found = {}
        for row in some:
            key = row["game"], row["phase"]
            found[key] = found.get(key, 0) + 1
        return found

    train, heldout = finetune.split(rows, 20, 15, np.random.default_rng(0), "position")
    assert 14 <= len(train) <= 20 and 8 <= len(heldout) <= 15
    assert not {r["game"] for r in train} & {r["game"] for r in heldout}
    whole = sizes(rows)
    assert all(whole[key] == n for part in (train, heldout) for key, n in sizes(part).items())
    assert train == [row for row in rows if row in train]


def test_bad_rows_and_settings_are_one_line(backbone, rows):
    for change, match in [
        ({"target": [0.5, 0.4]}, "the target is no distribution"),
        ({"power": "FRANCE", "phase": "W1901A", "state": no_units()}, "FRANCE has no orders"),
    ]:
        with pytest.raises(ValueError, match=match):
            finetune.build([rows[0] | change], backbone, SETTINGS)
    with pytest.raises(ValueError, match="g0 S1901M AUSTRIA: .* tokens, raise finetune_max_length"):
        finetune.build(rows[:1], backbone, replace(SETTINGS, finetune_max_length=40))
    adapters.attach(backbone, "orders", 0)
    for name, value in {"objective": "ppo", "softmax": "all"}.items():
        settings = replace(SETTINGS, **{f"finetune_{name}": value})
        with pytest.raises(ValueError, match=f"unknown finetune.{name} '{value}': use one of"):
            finetune.train(backbone, "orders", [1], [1], settings, 0)


def no_units():
    """A position where only Austria has something to do."""
    state = states.to_state(rules.start())
    state["units"] = {p: ["A VIE"] if p == "AUSTRIA" else [] for p in atlas.POWERS}
    return state


def prepared(rows):
    backbone = finetune.backbone(SETTINGS, 0)
    adapters.attach(backbone, "orders", 0)
    train, heldout = (finetune.build(part, backbone, SETTINGS) for part in (rows[:24], rows[-8:]))
    return backbone, train, heldout


def gradient(backbone, samples, **changes):
    """Of one logical batch, as `step` cuts it: taken where AdamW would be called."""
    settings = replace(FinetuneSettings.of(SETTINGS), **changes)
    trainer = steps.Trainer(
        backbone, "orders", 0.0, 9, 0, clip=1e9, checkpointing=settings.checkpointing
    )
    found = []

    def keep():
        found.append(torch.cat([p.grad.flatten() for _, p in trainer.parameters]))

    trainer.optimiser.step = keep
    facts = finetune.step(trainer, samples, settings)
    return found[0], facts


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("softmax", ["tokens", "legal"])
def test_one_gradient_however_the_batch_is_cut(rows, rank, softmax):
    """Positions with powers as branches, passes of any size and recomputed activations, against
    one plain pass per joint order; the loss is the mean over power-turns.
    """
    backbone = finetune.backbone(SETTINGS, 0)
    adapters.attach(backbone, "orders", rank)
    for name, parameter in adapters.trainable(backbone):
        if "lora_B" in name:  # zero at the start: half the gradient would be
            torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(1))
    samples = finetune.build(rows[:10], backbone, SETTINGS)
    alone = [
        replace(s, kept=(k,), weights=s.weights[i : i + 1])
        for s in samples
        for i, k in enumerate(s.kept)
    ]
    plain = torch.zeros(())
    for one in alone:
        plain = plain + finetune.loss(backbone, [one], softmax) / len(samples)
    plain.backward()
    exact = torch.cat([p.grad.flatten() for _, p in adapters.trainable(backbone)])
    lengths = []
    for changes in (
        {},
        {"tokens": 1},
        {"pack": "position"},
        {"pack": "position", "tokens": 400},
        {"pack": "position", "checkpointing": True},
    ):
        found, facts = gradient(backbone, samples, softmax=softmax, **changes)
        assert (found - exact).norm() < 1e-5 * exact.norm(), changes
        assert facts["loss"] == pytest.approx(plain.item(), rel=1e-5)
        assert facts["turns"] == pytest.approx(10) and 1 < facts["effective"] <= 3
        lengths.append(facts["tokens"])
    assert lengths[0] == lengths[1] > 1.8 * lengths[2] == 1.8 * lengths[3]


def test_positions_are_the_items_of_a_batch(rows):
    """Five positions of seven powers or fewer; three a step and two epochs make four steps."""
    backbone, train, heldout = prepared(rows)
    assert [len(row) for row in finetune.packed_rows(train, "position")] == [7, 7, 1, 7, 2]
    settings = replace(FinetuneSettings.of(SETTINGS), pack="position", batch=3, warmup=1)
    history = finetune.train(
        backbone, "orders", train, heldout, replace(settings, schedule="cosine"), 0
    )
    assert len(history) == 5 and history["turns"].iloc[1:].sum() == pytest.approx(2 * 24)
    assert history["lr"].iloc[1:].tolist() == pytest.approx([5e-3, 1e-2, 7.5e-3, 2.5e-3])
    assert history["mass"].iloc[1:].between(0.5, 1).all() and history["kl"].count() >= 2


def test_training_moves_the_model_to_the_target(rows):
    backbone, train, _ = prepared(rows[::3])
    settings = replace(SETTINGS, finetune_epochs=90, finetune_lr=2e-2, finetune_evaluations=3)
    history = finetune.train(backbone, "orders", train[:8], train[:8], settings, 0)
    assert history["step"].tolist() == list(range(181))
    kl = history["kl"].dropna()
    assert kl.index.tolist() == [0, 60, 120, 180]
    assert kl.iloc[-1] < 0.6 * kl.iloc[0]
    assert history["loss"].iloc[-6:].mean() < 0.5 * history["loss"].iloc[1:7].mean()
    card = finetune.model_card(backbone, "orders", settings, history, "02_q_decomposition")
    assert card.count("\n- ") == 5 and f"{kl.iloc[0]:.3f} before, {kl.iloc[-1]:.3f} nats" in card
    assert "Trained: all weights, " in card  # rank 0
    assert card.count("table 02_kl") == 1


def test_legal_softmax_trains_too(rows):
    backbone, train, _ = prepared(rows)
    settings = replace(SETTINGS, finetune_softmax="legal", finetune_epochs=30)
    kl = finetune.train(backbone, "orders", train[:8], train[:8], settings, 0)["kl"].dropna()
    assert kl.iloc[-1] < 0.5 * kl.iloc[0]


@pytest.mark.parametrize("pack", ["turn", "position"])
def test_stopped_training_resumes_to_the_same_weights(rows, tmp_path, monkeypatch, pack):
    """Draws of joint orders too belong to a step, not to the time at which it runs."""
    backbone, train, heldout = prepared(rows)
    wanted = FinetuneSettings.of(
        replace(SETTINGS, finetune_epochs={"turn": 2, "position": 6}[pack])
    )
    wanted = replace(wanted, pack=pack, batch={"turn": 4, "position": 2}[pack])
    wanted = replace(wanted, objective="bc_sample", bc_source="pi_star")
    whole = finetune.train(backbone, "orders", train, heldout, wanted, 0)
    file, step = tmp_path / "t.safetensors", steps.Trainer.step

    def stop(self, *args, **names):
        if self.done == 8:
            raise KeyboardInterrupt
        return step(self, *args, **names)

    stopped, train, heldout = prepared(rows)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(steps.Trainer, "step", stop)
        finetune.train(stopped, "orders", train, heldout, wanted, 0, file, every=3)
    assert steps.read_record(file)["history"][-1]["step"] == 6
    resumed, train, heldout = prepared(rows)
    history = finetune.train(resumed, "orders", train, heldout, wanted, 0, file, every=3)
    assert torch.equal(weights(resumed), weights(backbone))
    assert history.equals(whole)


def test_checkpoint_of_other_settings_is_started_over(rows, tmp_path):
    file = tmp_path / "t.safetensors"
    backbone, train, heldout = prepared(rows)
    finetune.train(backbone, "orders", train, heldout, SETTINGS, 1, file)
    other, train, heldout = prepared(rows)
    finetune.train(other, "orders", train, heldout, SETTINGS, 0, file)
    plain, train, heldout = prepared(rows)
    finetune.train(plain, "orders", train, heldout, SETTINGS, 0)
    assert torch.equal(weights(other), weights(plain))


KILLED = """
import pathlib, runpy, sys
import torch
from dipllm_lib.dip import finetune
torch.set_num_threads(1)
tests = runpy.run_path(sys.argv[1])
backbone, train, heldout = tests["prepared"](tests["make_rows"]())
file = pathlib.Path(sys.argv[2])
settings = tests["replace"](tests["SETTINGS"], finetune_epochs=int(sys.argv[3]))
finetune.train(backbone, "orders", train, heldout, settings, 0, file, every=2)
"""


@pytest.mark.slow
def test_training_after_kill_9_gives_the_same_checkpoint(tmp_path):
    """A process killed in the middle and started again ends with an undisturbed one's bytes."""
    whole, broken = tmp_path / "whole.safetensors", tmp_path / "broken.safetensors"
    command = [sys.executable, "-c", KILLED, __file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    epochs = "15"
    subprocess.run([*command, str(whole), epochs], check=True, timeout=300, env=environment)
    process = subprocess.Popen([*command, str(broken), epochs], env=environment)
    while not broken.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert 0 < steps.read_record(broken)["history"][-1]["step"] < 90
    subprocess.run([*command, str(broken), epochs], check=True, timeout=300, env=environment)
    assert broken.read_bytes() == whole.read_bytes()


def test_one_entry_point_for_every_backbone(rows):
    """Two backbones on the same rows: the same batches, their own weights and text."""
    found = {}
    for hidden, rank in ((16, 0), (32, 2)):
        settings = replace(SETTINGS, scratch_hidden=hidden, lora_rank=rank, finetune_epochs=1)
        found[rank] = finetune.fit(rows[:21], rows[:7], settings, 0)
    assert found[0].history["tokens"].tolist() == found[2].history["tokens"].tolist()
    for one in found.values():
        assert one.history["kl"].iloc[0] == pytest.approx(one.before["kl"].mean())
        assert one.history["kl"].iloc[-1] == pytest.approx(one.after["kl"].mean())
    assert found[0].after["kl"].mean() < found[0].before["kl"].mean()
    again = finetune.fit(rows[:21], rows[:7], replace(SETTINGS, finetune_epochs=1), 0)
    assert torch.equal(weights(again.backbone), weights(found[0].backbone))

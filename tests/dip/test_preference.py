"""DPO: pairs, the loss by hand, a training that starts at log 2 and resumes in the same weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.dip import finetune, preference, samples, targets
from dipllm_lib.dip.arm_list import ArmSettings
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.lm import adapters
from dipllm_lib.run import profiles

SETTINGS = replace(
    profiles.load("smoke", 0).dip, scratch_hidden=16, scratch_layers=1, scratch_heads=2
)
WANTED = replace(FinetuneSettings.of(SETTINGS), steps=6, batch=2)
SIZES = ArmSettings(dpo_pairs=2, dpo_lr=1e-2, dpo_beta=0.5)


@pytest.fixture
def backbone():
    torch.set_num_threads(1)
    model = finetune.backbone(SETTINGS, 0)
    adapters.attach(model, "dpo", 0)
    return model


@pytest.fixture
def found(searches, backbone):
    return samples.build(list(targets.sample_rows(searches, "final")), backbone, WANTED)


def weights(backbone):
    return torch.cat([p.detach().flatten() for _, p in adapters.trainable(backbone)])


def test_loss_by_hand():
    """Gains 0.5 and -1: margin 1.5 for the pair (0, 1), -1.5 for (1, 0)."""
    new, old = torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0])
    value, margins = preference.dpo_loss(new, old, [(0, 1), (1, 0)], 2.0)
    assert margins.tolist() == [1.5, -1.5]
    assert value.item() == pytest.approx((np.log1p(np.exp(-3)) + np.log1p(np.exp(3))) / 2)


def test_pairs_follow_target_and_anchor(found):
    """Chosen as often as pi* says, rejected as tau without the chosen one, or uniformly."""
    target, tau = np.array([0.7, 0.3, 0.0]), np.array([0.5, 0.2, 0.3])
    one = next(s for s in found if len(s.target) >= 3)
    one = replace(one, paths=one.paths[:3], target=target, log_tau=np.log(tau), f=None)
    for rejected, others in (("tau", tau), ("uniform", np.ones(3))):
        drawn = preference.pairs(one, 3000, rejected, np.random.default_rng(3))
        table = np.zeros((3, 3))
        np.add.at(table, tuple(np.array(drawn).T), 1 / len(drawn))
        expected = target[:, None] * others / (others.sum() - others)[:, None]
        np.fill_diagonal(expected, 0.0)
        assert np.trace(table) == 0 and np.abs(table - expected).max() < 0.035
    with pytest.raises(ValueError, match="no 'log_tau'"):
        preference.pairs(replace(one, log_tau=None), 1, "tau", np.random.default_rng(0))


def test_training_starts_at_log_two_and_moves_to_the_chosen(backbone, found):
    """The model is its own reference at first; then the ones always chosen gain on the others."""
    one = [replace(s, target=np.eye(len(s.target))[0]) for s in found[:14]]
    before = finetune.evaluate(backbone, one)["kl"].mean()
    history = preference.dpo(backbone, "dpo", one, replace(WANTED, steps=16), SIZES, 0)
    assert history["loss"].iloc[0] == pytest.approx(np.log(2), abs=1e-6)
    assert history["margin"].iloc[0] == pytest.approx(0, abs=1e-5)
    late = history.iloc[-4:].mean()
    assert late["loss"] < 0.5 and late["margin"] > 1 and late["right"] > 0.8
    assert list(history["step"]) == list(range(1, 17)) and (history["tokens"] > 0).all()
    assert finetune.evaluate(backbone, one)["kl"].mean() < before


def test_a_killed_training_ends_in_the_same_weights(backbone, found, tmp_path, monkeypatch):
    monkeypatch.setattr(preference, "EVERY", 1)
    start = {n: p.detach().clone() for n, p in adapters.trainable(backbone)}
    whole = preference.dpo(backbone, "dpo", found, WANTED, SIZES, 0)
    expected = weights(backbone)

    def restart():
        with torch.no_grad():
            for name, parameter in adapters.trainable(backbone):
                parameter.copy_(start[name])

    restart()
    step, path = preference._dpo_step, tmp_path / "dpo.safetensors"

    def killed(trainer, *rest):
        if trainer.done == 4:
            raise KeyboardInterrupt
        return step(trainer, *rest)

    monkeypatch.setattr(preference, "_dpo_step", killed)
    with pytest.raises(KeyboardInterrupt):
        preference.dpo(backbone, "dpo", found, WANTED, SIZES, 0, path)
    monkeypatch.setattr(preference, "_dpo_step", step)
    restart()
    again = preference.dpo(backbone, "dpo", found, WANTED, SIZES, 0, path)
    assert torch.equal(weights(backbone), expected) and again.equals(whole)

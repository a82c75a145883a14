"""Logical batches: the loss by hand, exact accumulation, z0, plans, what training does."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto import fitting, roles
from dipllm_lib.kto.fitting import Item, Objective, Rates, Role
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.lm import adapters, steps

RATES = Rates(1e-3, 1e-2, 1e-4)


def item(context, actions, good, omega=None, game="g"):
    omega = np.ones(len(actions)) if omega is None else np.array(omega)
    return Item(context, np.array(actions), omega, np.array(good, dtype=bool), game)


def made(tiny, given, objective=Objective(), part=0, count=5, checkpointing=False):
    backbone = tiny()
    adapters.attach(backbone, "executor", 2, seed=1)
    with torch.no_grad():  # B of a new adapter is zero: pi = pi_ref, and z0 would be 0
        for _, parameter in adapters.trainable(backbone):
            parameter.add_(0.05)
    policy = LMPolicy(backbone, "executor")
    role = Role(policy, "executor", count, RATES, 0, part=part, checkpointing=checkpointing)
    return role, fitting.referred(given, LMPolicy(backbone, BASE)), objective


def test_hand_value(offers):
    """r = (.5, -.2), labels (1, 0), z0 = .1, kappa = .1: (.4900013 + .4925006) / 2."""
    contexts = offers("AB")
    rows = [torch.log(torch.full((11,), 1 / 11, dtype=torch.float64)) for _ in contexts]
    refs = [row.numpy().copy() for row in rows]
    refs[0][4] -= 0.5
    refs[1][5] += 0.2
    batch = [
        Item(c, np.array([a]), np.ones(1), np.array([good]), "g", ref)
        for c, a, good, ref in zip(contexts, (4, 5), (True, False), refs, strict=True)
    ]
    total = fitting.terms(rows, batch, torch.tensor(0.1), Objective())
    assert total.item() / 2 == pytest.approx(0.4912509, abs=1e-7)
    weighed = [Item(b.context, b.actions, np.array([w]), b.desirable, "g", b.reference)
               for b, w in zip(batch, (2.0, 0.5), strict=True)]  # fmt: skip
    total = fitting.terms(rows, weighed, torch.tensor(0.1), Objective())
    assert total.item() == pytest.approx(2 * 0.4900013 + 0.5 * 0.4925006, abs=1e-6)
    total = fitting.terms(rows, weighed, torch.tensor(0.1), Objective("kto"))
    assert total.item() == pytest.approx(2 * 0.4912509, abs=1e-7)


def test_cross_entropy_is_the_mean_of_log_p(tiny, gifts):
    backbone = tiny()
    policy = LMPolicy(backbone)
    batch = [item(gifts[0], [0, 0, 1], [1, 1, 1]), item(gifts[5], [1], [1])]
    rows = policy.scores([b.context for b in batch])
    total = fitting.terms(rows, batch, torch.zeros(()), Objective("ce"))
    first, second = policy.log_probs([b.context for b in batch])
    assert -total.item() == pytest.approx(2 * first[0] + first[1] + second[1], abs=1e-5)


def gradients(role, batch, objective):
    """The gradient of one step, before clipping and the optimiser."""
    seen = []
    role.trainer.optimiser.step = lambda: seen.append(
        torch.cat([p.grad.flatten().clone() for _, p in role.trainer.parameters])
    )
    role.trainer.clip = 1e9
    facts = role.step(batch, objective)
    return seen[0], facts


@pytest.mark.parametrize("form", ["exact_batch", "exact_context"])
def test_accumulation_and_checkpointing_give_the_gradient_of_the_whole_batch(tiny, gifts, form):
    """Parts of 1, 2 and 3 of five contexts; z0 is that of all five, or each context's own."""
    given = [item(c, [0, 1, 0], [1, 0, 0], [1.0, 0.5, 2.0]) for c in gifts[:5]]
    found = []
    for part, again in ((0, False), (1, False), (2, False), (3, False), (0, True)):
        role, batch, _ = made(tiny, given, part=part, checkpointing=again)
        found.append(gradients(role, batch, Objective(z0=form)))
    whole, facts = found[0]
    assert facts["z0"] > 1e-6 and facts["contexts"] == 5 and facts["samples"] == 15
    for own, other in found[1:]:
        assert (own - whole).abs().max() < 1e-6
        assert other["loss"] == pytest.approx(facts["loss"], abs=1e-6)
        assert other["z0"] == pytest.approx(facts["z0"], abs=1e-6)


def test_z0_is_the_enumerated_divergence(tiny, gifts):
    role, batch, objective = made(tiny, [item(c, [0], [1]) for c in gifts[:3]])
    rows = role.policy.log_probs(gifts[:3])
    pairs = zip(rows, batch, strict=True)
    by_hand = np.mean([np.exp(row) @ (row - one.reference) for row, one in pairs])
    assert role.step(batch, objective)["z0"] == pytest.approx(by_hand, rel=1e-3)


def test_at_the_reference_the_loss_is_a_half_and_z0_is_zero(tiny, gifts):
    backbone = tiny()
    adapters.attach(backbone, "executor", 2)
    role = Role(LMPolicy(backbone, "executor"), "executor", 3, RATES, 0)
    batch = fitting.referred([item(gifts[0], [0, 1], [1, 0])], LMPolicy(backbone, BASE))
    facts = role.step(batch, Objective())
    assert facts["loss"] == pytest.approx(0.5, abs=1e-6)
    assert facts["z0"] == pytest.approx(0.0, abs=1e-6)


def test_training_raises_what_is_desirable(tiny, gifts):
    given = [item(c, [0, 1], [1, 0]) for c in gifts]
    role, batch, objective = made(tiny, given, count=30)
    before = np.exp(role.policy.log_probs(gifts))[:, 0].mean()
    history = fitting.fit(role, batch, objective, 8, 0)
    after = np.exp(role.policy.log_probs(gifts))[:, 0].mean()
    assert after > before + 0.1
    rates = [row["lr"] for row in history]
    assert (rates[0], max(rates), rates[-1]) == (1e-3, 1e-2, 1e-4)
    assert set(history[0]) == set(fitting.HISTORY) and history[0]["step"] == 1


def test_plan_takes_turns_and_every_context_once_an_epoch(gifts, offers):
    given = [item(c, [0], [1], game="b") for c in gifts] + [
        item(c, [0], [1], game="a") for c in offers()
    ]
    order = fitting.plan(given, 8, 4, 0, "executor")
    assert order == fitting.plan(given, 8, 4, 0, "executor")
    assert [given[batch[0]].game for batch in order] == ["a", "b"] * 4
    assert sorted(sum(order[1:6:2], [])) == list(range(11))  # three batches of b: 4, 4, 3
    assert [len(batch) for batch in order[::2]] == [4, 2, 4, 2]
    assert order != fitting.plan(given, 8, 4, 1, "executor")
    with pytest.raises(ValueError, match="needs items"):
        fitting.plan([], 8, 4, 0)


def test_a_stopped_training_ends_with_the_same_weights(tiny, gifts, tmp_path):
    given = [item(c, [0, 1], [1, 0]) for c in gifts]
    whole, batch, objective = made(tiny, given, count=6)
    expected = fitting.fit(whole, batch, objective, 4, 0)
    half, batch, _ = made(tiny, given, count=6)
    file = tmp_path / "role.safetensors"
    order = fitting.plan(batch, 6, 4, 0, "executor", "pt_kto")
    lines = []
    for own in order[:3]:
        facts = half.step([batch[i] for i in own], objective)
        lines.append({name: facts.get(name, half.trainer.done) for name in fitting.HISTORY})
    half.trainer.save(file, {"key": "k", "history": lines})
    rest, batch, _ = made(tiny, given, count=6)
    assert fitting.fit(rest, batch, objective, 4, 0, file, "k") == expected
    for name, weight in roles.state(whole.policy.backbone, "executor").items():
        assert np.array_equal(weight, roles.state(rest.policy.backbone, "executor")[name])
    assert steps.read_record(file)["key"] == "k"


def test_bad_objectives_are_one_line():
    with pytest.raises(ValueError, match="unknown objective 'dpo'"):
        Objective("dpo")
    with pytest.raises(ValueError, match="z0 'mismatched'"):
        Objective(z0="mismatched")

"""The closed gradients against autograd through `loss`, and independence of problems."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.kto import loss, tabular
from dipllm_lib.kto.tabular import Data, Learner, Objective

RNG = np.random.default_rng(5)
ROWS = np.array([0, 0, 0, 1, 1, 1, 1])
ACTIONS = np.array([0, 1, 2, 0, 1, 1, 2])
MASS = np.array([0.1, 0.2, 0.1, 0.2, 0.15, 0.05, 0.2])
VALUES = np.array([0.5, -1.2, 0.3, 0.9, -0.4, 0.8, -2.0])
DATA = Data(ROWS, ACTIONS, MASS, VALUES)
OWN = tabular.log_softmax(RNG.normal(size=(2, 3)))
REFERENCE = tabular.log_softmax(RNG.normal(size=(2, 3)))


def by_autograd(objective: Objective) -> np.ndarray:
    """dL/d log pi through the functions of `loss`; mass enters as a weight."""
    own = torch.tensor(OWN, requires_grad=True)
    ref, n = torch.tensor(REFERENCE), len(MASS)
    mass = torch.tensor(MASS) * n
    logs, r = own[ROWS, ACTIONS], (own - ref)[ROWS, ACTIONS]
    values, labels = torch.tensor(VALUES), torch.tensor(VALUES > 0)
    kl = loss.z0_exact(list(own), list(ref))
    size = float((torch.tensor(MASS) * values.abs()).sum())
    if objective.name in ("kto", "pt_kto"):
        share = torch.tensor([MASS[ROWS == 0].sum(), MASS[ROWS == 1].sum()])
        point = {"exact_batch": (kl * share).sum(), "exact_context": kl[ROWS], "zero": 0.0}
        omega = torch.ones(n) if objective.name == "kto" else loss.omega(values, size)
        value = loss.pt_kto(r, labels, omega * mass, point[objective.z0], objective.kappa)
    elif objective.name == "sft":
        good = labels.nonzero()[:, 0]
        value = -(torch.tensor(MASS)[good] * logs[good]).sum() / torch.tensor(MASS)[good].sum()
    elif objective.name == "wmle":
        raw = torch.exp(values / size / objective.tau)
        value = -(torch.tensor(MASS) * raw / (torch.tensor(MASS) * raw).sum() * logs).sum()
    else:
        value = pairs(objective, r, values)
    value.backward()
    return own.grad.numpy()


def pairs(objective, r, values) -> torch.Tensor:
    """All pairs of a row, each repeated in proportion to the product of its masses."""
    found = [
        (i, j, MASS[i] * MASS[j] / MASS[ROWS == ROWS[i]].sum())
        for i in range(len(ROWS))
        for j in range(len(ROWS))
        if ROWS[i] == ROWS[j] and VALUES[i] > VALUES[j]
    ]
    total = sum(m for *_, m in found)
    gaps = [(VALUES[i] - VALUES[j], m / total) for i, j, m in found]
    scale = sum(g * m for g, m in gaps)
    value = torch.zeros((), dtype=torch.float64)
    for (i, j, _), (gap, m) in zip(found, gaps, strict=True):
        plus, minus = r[i : i + 1], r[j : j + 1]
        if objective.name == "literal_sign":
            value = value + m * loss.literal_sign(plus, minus, objective.kappa)
        else:
            one = loss.pt_pair(plus, minus, torch.tensor([gap]), objective.kappa, mean=scale)
            value = value + m * one
    return value


@pytest.mark.parametrize("z0", ["exact_batch", "exact_context", "zero"])
@pytest.mark.parametrize("name", ["kto", "pt_kto"])
def test_gradients_with_a_reference_point_are_autograds(name, z0):
    objective = Objective(name, kappa=0.7, z0=z0)
    found = tabular.by_log_prob(tabular.prepare(DATA, objective), OWN, REFERENCE, objective)
    assert found == pytest.approx(by_autograd(objective), abs=1e-12)


@pytest.mark.parametrize("name", ["sft", "wmle", "pt_pair", "literal_sign"])
def test_the_other_gradients_are_autograds(name):
    objective = Objective(name, kappa=0.7)
    found = tabular.by_log_prob(tabular.prepare(DATA, objective), OWN, REFERENCE, objective)
    assert found == pytest.approx(by_autograd(objective), abs=1e-12)


def test_the_policy_gradient_has_a_baseline_per_row():
    objective = Objective("a2c")
    found = tabular.by_log_prob(tabular.prepare(DATA, objective), OWN, REFERENCE, objective)
    assert found.sum(axis=1) == pytest.approx([0.0, 0.0])
    base = (0.1 * 0.5 - 0.2 * 1.2 + 0.1 * 0.3) / 0.4
    size = (MASS * np.abs(VALUES)).sum()
    assert found[0, 1] == pytest.approx(-0.2 * (-1.2 - base) / size)


def test_problems_that_are_trained_together_do_not_touch():
    """Two problems in one table give what each gives alone."""
    other = replace(DATA, values=VALUES[::-1].copy())
    both = Data(
        np.concatenate([ROWS, ROWS + 2]),
        np.tile(ACTIONS, 2),
        np.tile(MASS, 2),
        np.concatenate([VALUES, VALUES[::-1]]),
        groups=np.array([0, 0, 1, 1]),
    )
    for name in tabular.OBJECTIVES:
        objective = Objective(name, steps=7)
        learner = Learner(np.zeros((4, 3)))
        learner.optimise(both, objective)
        for k, alone in enumerate((DATA, other)):
            single = Learner(np.zeros((2, 3)))
            single.optimise(alone, objective)
            rows = learner.logits[2 * k : 2 * k + 2]
            assert rows == pytest.approx(single.logits, abs=1e-12), name


def test_the_first_step_of_every_sigmoid_objective_has_the_size_of_a_policy_gradient():
    objective = Objective("pt_kto", steps=1, rate=0.3)
    learner = Learner(np.log(np.array([[0.5, 0.3, 0.2]])))
    p, value = np.array([0.5, 0.3, 0.2]), np.array([1.0, -0.5, 0.25])
    data = Data(np.zeros(3, int), np.arange(3), p, value)
    learner.optimise(data, objective)
    inner = p * value / (p @ np.abs(value))
    expected = np.log(p) + 0.3 * (inner - inner.sum() * p)
    assert learner.logits[0] == pytest.approx(expected, abs=1e-12)


def test_class_weights_of_the_experiment_on_balance():
    counts = tabular.prepare(DATA, Objective(balance="counts"))
    plain = tabular.prepare(DATA, Objective())
    good, bad = MASS[VALUES > 0].sum(), MASS[VALUES <= 0].sum()
    ratio = counts.weight / plain.weight
    assert ratio[VALUES > 0] == pytest.approx(bad / max(good, bad))
    assert ratio[VALUES <= 0] == pytest.approx(good / max(good, bad))


def test_an_illegal_action_stays_illegal():
    learner = Learner(np.array([[0.0, 0.0, -np.inf]]))
    data = Data(np.zeros(2, int), np.arange(2), np.full(2, 0.5), np.array([1.0, -1.0]))
    learner.optimise(data, Objective())
    assert learner.probs[0, 2] == 0.0 and learner.probs[0, 0] > 0.6


def test_drawn_counts_replace_the_masses():
    data = tabular.drawn(DATA, np.array([2, 0, 1, 1, 0, 0, 4]))
    assert data.mass == pytest.approx(np.array([2, 1, 1, 4]) / 8)
    assert data.values.tolist() == [0.5, 0.3, 0.9, -2.0]


def test_what_an_objective_refuses():
    with pytest.raises(ValueError, match="unknown objective 'dpo'"):
        Objective("dpo")
    with pytest.raises(ValueError, match="z0 'mismatched'"):
        Objective(z0="mismatched")

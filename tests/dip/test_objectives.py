"""The four objectives: hand numbers, identities between them, weights, what they need."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dipllm_lib.dip import decompose, finetune, objectives, orders, samples
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.lm import tree_scores
from dipllm_lib.run import profiles

SHARED = runpy.run_path(str(Path(__file__).with_name("test_finetune.py")))
SETTINGS = SHARED["SETTINGS"]
ALL = FinetuneSettings.of(replace(SETTINGS, finetune_joint_orders=99))
PI = np.array([0.1, 0.2, 0.3, 0.4])


def sample(target=PI, log_tau=None, f=None) -> samples.Sample:
    """A power-turn whose texts do not matter."""
    n = len(target)
    none = np.zeros(0)
    return samples.Sample("g", "S1901M", "ITALY", (), ((),) * n, target, (), none, log_tau, f)


def chosen(this, settings, factor=0.0):
    (found,) = objectives.weigh([this], settings, np.random.default_rng(0), factor)
    return found


def settings(**changes) -> FinetuneSettings:
    return replace(ALL, **changes)


def test_eq6_on_samples_of_the_target_aims_at_its_square():
    """exp f = 1, 2, 3, 4: the squares are 1, 4, 9, 16 of 30; KL 0.07588."""
    eq6 = settings(objective="paper_eq6", eq6_data="pi_star")
    aim = objectives.aim(sample(), eq6)
    assert np.allclose(aim, np.array([1, 4, 9, 16]) / 30, atol=1e-15)
    assert decompose.kl(PI, aim) == pytest.approx(0.07588, abs=5e-6)
    joints = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert np.allclose(aim, decompose.bound_sample(joints, np.log(PI)), atol=1e-15)
    found = chosen(sample(), eq6)
    assert found.kept == (3, 2, 1, 0) and np.allclose(found.weights, aim[::-1])


def test_eq6_as_default_is_exact_kl():
    exact = chosen(sample(), settings(joint_orders=3))
    eq6 = chosen(sample(), settings(objective="paper_eq6", joint_orders=3))
    assert exact.kept == eq6.kept == (3, 2, 1)
    assert np.allclose(exact.weights, np.array([4, 3, 2]) / 9, atol=1e-15)
    assert np.allclose(exact.weights, eq6.weights, atol=1e-15)


def test_eq6_with_data_of_the_anchor_by_hand():
    """tau = .4 .3 .2 .1 times exp f = 1 2 3 4: 4 6 6 4 of 20, whatever tau sums to."""
    anchor = np.log(np.array([0.4, 0.3, 0.2, 0.1]) / 2)
    aim = objectives.aim(sample(log_tau=anchor), settings(objective="paper_eq6", eq6_data="tau"))
    assert np.allclose(aim, [0.2, 0.3, 0.3, 0.2])


def test_raw_weights_are_exp_f_up_to_one_factor():
    """Exponents of 900 overflow as they are; the mean sum is 1 and ratios between turns stay."""
    raw = settings(objective="paper_eq6", eq6_weights="raw")
    low, high = sample(f=np.log(PI) + 899), sample(f=np.log(PI) + 899 + np.log(3))
    factor = objectives.log_factor([low, high], raw)
    found = objectives.weigh([low, high], raw, np.random.default_rng(0), factor)
    assert [f.weights.sum() for f in found] == pytest.approx([0.5, 1.5])
    assert found[1].weights / found[0].weights == pytest.approx(3)
    assert found[0].weights[::-1] == pytest.approx(PI * 0.5)
    facts = objectives.facts(found)
    assert facts["turns"] == pytest.approx(4 / 2.5)  # (.5 + 1.5)^2 / (.25 + 2.25)
    assert objectives.log_factor([low, high], ALL) == 0.0


def test_argmax_and_samples():
    best = chosen(sample(), settings(objective="bc_argmax"))
    assert best.kept == (3,) and best.weights.tolist() == [1.0]
    drawn = settings(objective="bc_sample", bc_source="pi_star", joint_orders=20000)
    found = chosen(sample(), drawn)
    assert found.kept == (0, 1, 2, 3) and found.weights.sum() == pytest.approx(1)
    assert np.allclose(found.weights, PI, atol=0.02)  # six standard errors
    anchor = np.log(np.array([0.0, 1.0, 3.0, 0.0]), out=np.full(4, -np.inf), where=[0, 1, 1, 0])
    found = chosen(sample(log_tau=anchor), replace(drawn, bc_source="tau"))
    assert found.kept == (1, 2) and np.allclose(found.weights, [0.25, 0.75], atol=0.02)
    few = replace(drawn, joint_orders=3)
    rng = np.random.default_rng(1)
    counts = np.concatenate([objectives.weigh([sample()], few, rng)[0].weights for _ in range(9)])
    assert set(np.round(counts * 3).astype(int)) <= {1, 2, 3}


def test_effective_sample_size_by_hand():
    """Of .5 .25 .25: 1 / .375; equal weights count fully, scale does not matter."""
    assert objectives.effective(np.array([0.5, 0.25, 0.25])) == pytest.approx(8 / 3)
    assert objectives.effective(np.full(7, 1e200)) == pytest.approx(7)
    assert objectives.effective(np.zeros(3)) == 0.0
    table = objectives.table([chosen(sample(), settings(joint_orders=2))])
    assert table.iloc[0].tolist() == pytest.approx([4, 2, 49 / 25, 1, 0.7])


def test_missing_fields_are_one_line():
    for changes, name in [
        ({"objective": "paper_eq6", "eq6_weights": "raw"}, "f"),
        ({"objective": "paper_eq6", "eq6_data": "tau"}, "log_tau"),
        ({"objective": "bc_sample"}, "log_tau"),
    ]:
        with pytest.raises(ValueError, match=f"g S1901M ITALY: the sample has no '{name}'"):
            objectives.log_factor([sample()], settings(**changes))
    for changes in ({"eq6_data": "q"}, {"bc_source": "q"}, {"pack": "game"}, {"schedule": "step"}):
        with pytest.raises(ValueError, match="unknown finetune.*: use one of"):
            settings(**changes)
    with pytest.raises(ValueError, match="finetune.joint_orders is 0: needs at least 1"):
        settings(joint_orders=0)


@pytest.fixture(scope="module")
def real():
    """A backbone and the rows of one position."""
    torch.set_num_threads(1)
    rows = SHARED["make_rows"](1)
    first = [row for row in rows if row["phase"] == rows[0]["phase"]]
    return finetune.backbone(SETTINGS, 0), first


def test_exponents_are_read_and_checked(real):
    backbone, rows = real
    f = (np.log(rows[0]["target"]) + 3).tolist()
    (found,) = finetune.build([rows[0] | {"f": f}], backbone, SETTINGS)
    assert np.allclose(found.f, f) and found.log_tau.tolist() == [0.0] * len(f)
    for wrong, match in [
        (f[::-1], "not the softmax of the exponents f"),
        (f[1:], "'f' must hold one number for each joint order"),
    ]:
        with pytest.raises(ValueError, match=match):
            finetune.build([rows[0] | {"f": wrong}], backbone, SETTINGS)


def gradient(backbone, value):
    backbone.model.zero_grad()
    value.backward()
    return torch.cat([p.grad.flatten() for p in backbone.model.parameters()])


def apart(one, two):
    return ((one - two).norm() / two.norm()).item()


def test_unit_targets_in_one_pass_equal_the_leaves(real):
    """Eq. 5 written out: over prefixes weighted by pi*, the unit targets of Eq. 4 against the
    model, each unit's order given the earlier ones; the loss over joint orders has its gradient.
    """
    backbone, rows = real
    every = finetune.build(rows, backbone, ALL)
    total = 0.0
    for row, this in zip(rows, every, strict=True):
        turn = finetune.row_turn(row)
        joints = [orders.parse_joint(turn, texts) for texts in row["joints"]]
        tree = decompose.PrefixTree(joints, np.log(this.target))
        lengths = unit_lengths(backbone, joints)
        scores = tree_scores.score(backbone, [[(this.prompt, this.paths)]], "tokens")
        entries, done = scores.entries[0][0], set()
        for k, joint in enumerate(joints):
            for d in range(len(joint)):
                if joint[: d + 1] in done:
                    continue
                done.add(joint[: d + 1])
                prefix = np.exp(tree.value(joint[:d]) - tree.log_z)
                start = sum(lengths[k][:d])
                unit = scores.values[entries[k][start : start + lengths[k][d]]].sum()
                total = total - prefix * tree.unit_targets[k, d] * unit
    packed = finetune.loss(backbone, objectives.weigh(every, ALL), "tokens", "position")
    assert packed.item() == pytest.approx(total.item(), rel=1e-5)
    assert apart(gradient(backbone, packed), gradient(backbone, total)) < 1e-5


def unit_lengths(backbone, joints):
    """Tokens of each order with its separator."""
    text = finetune.text
    result = []
    for joint in joints:
        ends = [text.NEXT] * (len(joint) - 1) + [text.END]
        parts = [text.order_text(o) + end for o, end in zip(joint, ends, strict=True)]
        result.append([len(backbone.encode(part)) for part in parts])
    return result


def test_expected_gradient_of_samples_of_the_target_is_that_of_exact_kl(real):
    """Weights of one draw each, averaged with the target's probabilities; and of many draws."""
    backbone, rows = real
    every = finetune.build(rows[:2], backbone, ALL)
    exact = gradient(backbone, finetune.loss(backbone, objectives.weigh(every, ALL), "tokens"))
    mean = torch.zeros_like(exact)
    for this in every:
        for k, probability in enumerate(this.target):
            one = replace(this, kept=(k,), weights=np.ones(1))
            mean += probability * gradient(backbone, finetune.loss(backbone, [one], "tokens"))
    assert apart(mean, exact) < 1e-5
    many = settings(objective="bc_sample", bc_source="pi_star", joint_orders=200_000)
    drawn = objectives.weigh(every, many, np.random.default_rng(3))
    assert apart(gradient(backbone, finetune.loss(backbone, drawn, "tokens")), exact) < 0.02
    argmax = objectives.weigh(every, settings(objective="bc_argmax"))
    assert apart(gradient(backbone, finetune.loss(backbone, argmax, "tokens")), exact) > 0.05


def test_eq6_loss_equals_exact_kl_to_rounding(real):
    backbone, rows = real
    every = finetune.build(rows, backbone, SETTINGS)
    wanted = FinetuneSettings.of(SETTINGS)
    both = [
        finetune.loss(backbone, objectives.weigh(every, which), "legal", "position")
        for which in (wanted, replace(wanted, objective="paper_eq6"))
    ]
    assert both[0].item() == pytest.approx(both[1].item(), rel=1e-12)


def test_every_objective_trains(real):
    """The aim of each differs, the way to it does not: the smoke settings name no switch."""
    assert FinetuneSettings.of(profiles.load("smoke", 0).dip).objective == "exact_kl"
    backbone, rows = real
    rows = [row | {"f": np.log(row["target"]).tolist()} for row in rows]
    every = finetune.build(rows, backbone, SETTINGS)
    finetune.adapters.attach(backbone, "orders", 0)
    for name in ("bc_argmax", "bc_sample", "paper_eq6"):
        small = replace(FinetuneSettings.of(SETTINGS), objective=name, eq6_weights="raw", epochs=6)
        history = finetune.train(backbone, "orders", every, every, small, 0)
        loss = history["loss"].iloc[1:]
        assert loss.iloc[-2:].mean() < loss.iloc[:2].mean()
        assert history["turns"].iloc[1:].between(2.5, 4).all()
        assert (history["effective"].iloc[1:] >= 1).all()

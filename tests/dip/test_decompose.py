"""Unit values and unit targets: the hand example, theorem 1, monotony, the bounds, bad input."""

import itertools

import numpy as np
import pytest

from dipllm_lib.dip import decompose, hedge

# two units with two orders each, exp f = [[1, 2], [3, 4]]
PAIRS = [(10, 20), (10, 21), (11, 20), (11, 21)]
F = np.log(np.array([1.0, 2.0, 3.0, 4.0]))
TARGET = np.array([0.1, 0.2, 0.3, 0.4])


def table(rng, sd, units=3, orders=6):
    joints = list(itertools.product(range(orders), repeat=units))
    return joints, rng.normal(0.0, sd, len(joints))


def test_hand_example():
    tree = decompose.PrefixTree(PAIRS, F)
    ids, first = tree.children(())
    assert ids.tolist() == [10, 11]
    np.testing.assert_allclose(first, [0.3, 0.7], rtol=1e-15)
    np.testing.assert_allclose(tree.children((10,))[1], [1 / 3, 2 / 3], rtol=1e-15)
    np.testing.assert_allclose(tree.children((11,))[1], [3 / 7, 4 / 7], rtol=1e-15)
    np.testing.assert_allclose(tree.joint(), TARGET, rtol=1e-15)
    np.testing.assert_allclose(
        tree.unit_values, np.log([[3, 1], [3, 2], [7, 3], [7, 4]]), rtol=1e-14
    )
    assert tree.log_z == pytest.approx(np.log(10.0), rel=1e-15)


def test_hand_bounds():
    best = decompose.bound_max(PAIRS, F)
    np.testing.assert_allclose(best, [1 / 9, 2 / 9, 2 / 7, 8 / 21], rtol=1e-14)
    assert decompose.kl(TARGET, best) == pytest.approx(0.00254, abs=5e-6)
    squared = decompose.bound_sample(PAIRS, F)
    np.testing.assert_allclose(squared, np.array([1, 4, 9, 16]) / 30, rtol=1e-14)
    assert decompose.kl(TARGET, squared) == pytest.approx(0.07588, abs=5e-6)
    alone = decompose.independent(PAIRS, F)
    np.testing.assert_allclose(alone, [0.12, 0.18, 0.28, 0.42], rtol=1e-14)
    assert decompose.kl(TARGET, alone) == pytest.approx(0.00402, abs=5e-6)


@pytest.mark.parametrize("sd", [0.1, 1.0, 3.0, 10.0])
def test_theorem_1_and_monotony(sd):
    joints, f = table(np.random.default_rng(7), sd)
    assert decompose.theorem1_error(joints, f) < 1e-14
    tree = decompose.PrefixTree(joints, f)
    values = np.column_stack([np.full(len(f), tree.log_z), tree.unit_values])
    assert np.all(values[:, :-1] >= values[:, 1:] - 1e-12)  # Q^d >= Q^(d+1) along a path
    np.testing.assert_array_equal(tree.unit_values[:, -1], f)  # the last unit value is f itself


def test_unit_targets_by_enumeration():
    joints, f = table(np.random.default_rng(3), 2.0, units=3, orders=4)
    keep = np.random.default_rng(4).permutation(len(joints))[:20]
    joints, f = [joints[k] for k in keep], f[keep]
    policy = np.exp(f) / np.exp(f).sum()
    targets = decompose.PrefixTree(joints, f).unit_targets
    for k, joint in enumerate(joints):
        for d in range(3):
            above = sum(p for p, other in zip(policy, joints) if other[:d] == joint[:d])
            here = sum(p for p, other in zip(policy, joints) if other[: d + 1] == joint[: d + 1])
            assert targets[k, d] == pytest.approx(here / above, rel=1e-12)


def test_children_sum_to_one_and_unmassed_branches_are_zero():
    tree = decompose.PrefixTree(PAIRS, np.array([-np.inf, -np.inf, 0.0, 1.0]))
    np.testing.assert_array_equal(tree.children(())[1], [0.0, 1.0])
    np.testing.assert_array_equal(tree.children((10,))[1], [0.0, 0.0])
    np.testing.assert_allclose(tree.joint(), hedge.softmax(tree.f), atol=1e-16)


def test_lower_bound_of_appendix_c():
    joints, f = table(np.random.default_rng(5), 1.0)
    tree = decompose.PrefixTree(joints, f)
    for prefix in [(2,), (2, 3)]:
        below = [value for joint, value in zip(joints, f) if joint[: len(prefix)] == prefix]
        assert tree.value(prefix) > max(below)


@pytest.mark.parametrize("sd", [1.0, 3.0])
def test_exact_has_no_gap_and_the_bounds_have_one(sd):
    """Three units with six orders: KL(pi* || .) is 0 for the exact form and clearly above it for
    both bounds.
    """
    for seed in range(5):
        joints, f = table(np.random.default_rng(seed), sd)
        target = hedge.softmax(f)
        assert abs(decompose.kl(target, decompose.PrefixTree(joints, f).joint())) < 1e-13
        assert 0.01 < decompose.kl(target, decompose.bound_max(joints, f)) < 0.2
        assert 0.2 < decompose.kl(target, decompose.bound_sample(joints, f)) < 1.5


@pytest.mark.parametrize(
    "candidates, f, message",
    [
        ([], [], "need one exponent"),
        ([(1, 2)], [0.0, 1.0], "need one exponent"),
        ([(1, 2), (1,)], [0.0, 1.0], "common number of orders"),
        ([(1, 2), (1, 2)], [0.0, 1.0], "listed twice"),
        ([(1, 2), (1, 3)], [0.0, np.nan], "finite"),
    ],
)
def test_bad_input(candidates, f, message):
    with pytest.raises(ValueError, match=message):
        decompose.PrefixTree(candidates, np.array(f))

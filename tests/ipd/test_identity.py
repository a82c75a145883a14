"""The identity vector: layout, order and clipping, and what each arm of the ablation is told."""

import numpy as np
import pytest

from dipllm_lib.ipd import identity, tabular
from dipllm_lib.run import seeding

LOW = np.log(1e-6)


def rng():
    return seeding.child(3, "identity")


def test_order_and_clipping_by_hand():
    """Own order s0, CC, CD, DC, DD; z has Start last and C before D in each pair."""
    z = identity.code(np.array([[0.9, 0.8, 0.5, 0.25, 0.0]]))
    pairs = [(0.8, 0.2), (0.5, 0.5), (0.25, 0.75)]
    assert z[0, :6] == pytest.approx(np.log(np.ravel(pairs)))
    assert z[0, 6:8] == pytest.approx([LOW, 0.0]) and z[0, 8:] == pytest.approx(np.log([0.9, 0.1]))
    assert identity.code(tabular.named("AllC")).tolist() == [[0.0, LOW] * 5]


def test_published_identity_is_zero_for_learners_only():
    vectors = tabular.sample("uniform", 40, rng())
    z = identity.shown("opponent", 3, vectors, "uniform", rng())
    assert z.shape == (43, 10) and not z[:3].any()
    assert np.array_equal(z[3:], identity.code(vectors)) and z[3:].any(axis=1).all()
    assert identity.shown("none", 3, vectors, "uniform", rng()) is None
    assert not identity.shown("opponent", 4, np.empty((0, 5)), "uniform", rng()).any()


def test_controls_hide_the_flag_or_the_information():
    vectors = tabular.sample("uniform", 40, rng())
    honest = identity.shown("opponent", 3, vectors, "uniform", rng())
    hidden = identity.shown("tabular", 3, vectors, "uniform", rng())
    assert hidden.any(axis=1).all() and np.array_equal(hidden[3:], honest[3:])
    mixed = identity.shown("permuted", 3, vectors, "uniform", rng())
    assert np.array_equal(np.sort(mixed, axis=0), np.sort(honest, axis=0))
    assert not np.array_equal(mixed, honest)
    assert {tuple(row) for row in mixed} == {tuple(row) for row in honest}  # rows stay whole


def test_unknown_identity_is_refused():
    with pytest.raises(ValueError, match="identity 'all': use one of none, opponent"):
        identity.shown("all", 3, np.zeros((2, 5)), "uniform", rng())

"""Distributions of one unit's orders, by hand."""

import numpy as np
import pytest

from dipllm_lib.dip import openings, orders, rules
from dipllm_lib.dip.policies import RandomLegal


@pytest.fixture
def germany():
    return orders.turn(rules.start(), 0, 3)


@pytest.fixture
def target(germany):
    """Four joint orders with probabilities .1 .2 .3 .4."""
    texts = [
        ["A BER - KIE", "A MUN - RUH", "F KIE - DEN"],
        ["A BER - KIE", "A MUN - SIL", "F KIE - DEN"],
        ["A BER - KIE", "A MUN - RUH", "F KIE - HOL"],
        ["A BER - PRU", "A MUN - SIL", "F KIE - DEN"],
    ]
    joints = [orders.parse_joint(germany, t) for t in texts]
    return openings.Target(joints, [0.1, 0.2, 0.3, 0.4])


def test_marginal_by_hand(germany, target):
    table = openings.marginal_table(germany, "A MUN", {"target": target}, 1, None)
    assert table["order"].tolist() == ["A MUN - SIL", "A MUN - RUH"]
    assert table["target"].tolist() == pytest.approx([0.6, 0.4])


def test_conditional_by_hand(germany, target):
    """Given BER-KIE and KIE-DEN: RUH .1, SIL .2, so 1/3 and 2/3; uniform play gives each 1/n."""
    fixed = {"A BER": "A BER - KIE", "F KIE": "F KIE - DEN"}
    sources = {"random": RandomLegal(), "target": target}
    table = openings.conditional_table(germany, "A MUN", fixed, sources)
    assert table["order"][:2].tolist() == ["A MUN - SIL", "A MUN - RUH"]
    assert table["target"][:3].tolist() == pytest.approx([2 / 3, 1 / 3, 0])
    assert len(table) == len(germany.options((0,)))
    assert table["random"].to_numpy() == pytest.approx(1 / len(table))


def test_conditional_without_weight_is_nan(germany, target):
    fixed = {"A BER": "A BER H", "F KIE": "F KIE - DEN"}
    table = openings.conditional_table(germany, "A MUN", fixed, {"target": target})
    assert table["target"].isna().all()


def test_target_as_a_policy(germany, target):
    drawn = target.sample(germany, 4000, np.random.default_rng(0))
    shares = np.array([drawn.count(joint) for joint in target.joints]) / 4000
    assert np.abs(shares - [0.1, 0.2, 0.3, 0.4]).max() < 0.03
    other = orders.parse_joint(germany, ["A BER H", "A MUN H", "F KIE H"])
    assert target.log_prob(germany, [target.joints[1], other])[0] == pytest.approx(np.log(0.2))
    assert target.log_prob(germany, [other])[0] == -np.inf


def test_bad_questions_are_one_line(germany, target):
    with pytest.raises(ValueError, match="A PAR has no orders"):
        openings.marginal_table(germany, "A PAR", {"target": target}, 1, None)
    with pytest.raises(ValueError, match="orders of F KIE are not fixed"):
        openings.conditional_table(germany, "A MUN", {"A BER": "A BER H"}, {"target": target})
    with pytest.raises(ValueError, match="no distribution"):
        openings.Target(target.joints, [0.1, 0.2, 0.3, 0.5])

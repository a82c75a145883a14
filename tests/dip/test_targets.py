"""Tables of notebook 02 and samples: the hand example of the decomposition as a search record."""

import numpy as np
import pytest

from dipllm_lib.dip import orders, rules, samples, search, targets

TEXTS = [
    ["A BER - KIE", "A MUN - RUH", "F KIE - DEN"],
    ["A BER - KIE", "A MUN - BUR", "F KIE - DEN"],
    ["A BER H", "A MUN - RUH", "F KIE - DEN"],
    ["A BER H", "A MUN - BUR", "F KIE - DEN"],
]
GERMANY = 3


@pytest.fixture
def record() -> search.Record:
    """exp f = 1, 2, 3, 4 over two units with two orders each; the third unit has one."""
    b = rules.start(1)
    turn = orders.turn(b, 0, GERMANY)
    joints = [orders.parse_joint(turn, texts) for texts in TEXTS]
    f = np.log([1.0, 2.0, 3.0, 4.0])
    final = np.array([0.1, 0.2, 0.3, 0.4])
    uniform = np.full(4, 0.25)
    power = search.PowerRecord(GERMANY, joints, np.log(uniform), f / 10, uniform, final, f, 0.1)
    return search.Record(b, [power], np.zeros((1, 1)), 4, [turn])


def test_candidates_come_with_their_unit_values(record):
    table = targets.candidate_table(record.powers[0], "final")
    assert table["target"].tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1])
    # Q1 of an order is the log of the mass below it: .7 for BER H, .3 for BER - KIE
    assert np.exp(table["Q1"]).tolist() == pytest.approx([0.7, 0.7, 0.3, 0.3])
    assert np.exp(table["Q3"]).tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_unit_targets_along_the_best_joint_order(record):
    table = targets.unit_table(record.powers[0], "final")
    assert table["order"].tolist() == ["A BER H", "A MUN - BUR", "F KIE - DEN"]
    assert table["unit_target"].tolist() == pytest.approx([0.7, 4 / 7, 1.0])
    assert table["product"].iloc[-1] == pytest.approx(0.4)


def test_theorem1_and_bounds_by_hand(record):
    row = targets.theorem1_table([record]).iloc[0]
    assert (row["phase"], row["turns"], row["units"]) == ("movement", 1, 3)
    assert row["max_error"] < 1e-15
    table = targets.bounds_table([record], np.random.default_rng(0), 10).set_index("decomposition")
    assert table.loc["exact (Eq. 3)", "kl"] == pytest.approx(0, abs=1e-15)
    assert table.loc["bound, best completion", "kl"] == pytest.approx(0.00254, abs=5e-6)
    squares = "bound, one weight per joint order"
    assert table.loc[squares, "kl"] == pytest.approx(0.07588, abs=5e-6)
    assert table.loc["independent units", "kl"] == pytest.approx(0.00402, abs=5e-6)


def test_samples_hold_the_target_and_leave_out_turns_without_a_choice(record):
    row = record.to_json() | {"game": "g"}
    (sample,) = targets.sample_rows([row], "final")
    assert (sample["game"], sample["phase"], sample["power"]) == ("g", "S1901M", "GERMANY")
    assert sample["joints"] == TEXTS
    assert sample["target"] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert samples.row_joints(sample) == record.powers[0].candidates
    power = record.powers[0]
    one = search.PowerRecord(
        GERMANY, power.candidates[:1], *(np.zeros(1),) * 2, np.ones(1), np.ones(1), np.zeros(1), 0.1
    )
    alone = search.Record(record.boards, [one], np.zeros((1, 1)), 1, record.turns)
    assert list(targets.sample_rows([alone.to_json() | {"game": "g"}], "final")) == []

"""Windows of the coordinator by hand: which letter, which payoff, which reference."""

import numpy as np
import pytest

from dipllm_lib.kto import coordinator, influence_graph, influence_windows
from dipllm_lib.kto.coordinator import LETTERS
from dipllm_lib.kto.policies import TabularPolicy

VARIANTS = coordinator.variants(10)


class Says:
    """A coordinator that says a letter of a game, with probability .8."""

    def __init__(self, letters):
        self.letters = letters

    def log_probs(self, contexts):
        rows = []
        for context in contexts:
            row = np.full(6, 0.04)
            row[LETTERS.index(self.letters[context.key[0]])] = 0.8
            rows.append(np.log(row))
        return rows


def test_windows_follow_the_letter():
    letters = {"ultimatum": "C", "gift": "A", "repeated": "F", "bargaining": "B"}
    # under C the executor keeps everything, which people refuse; else it is uniform
    keep = np.full(11, -50.0)
    keep[0] = 50.0
    key = ("Ultimatum", 10, 0, -1), "C", ""
    executor = TabularPolicy({key: keep})
    table = influence_windows.windows(executor, Says(letters), VARIANTS, 3, 5, 0)
    assert table["game"].tolist() == [k for k in letters for _ in range(3)]
    assert table["letter"].tolist() == [v for v in letters.values() for _ in range(3)]
    assert table["chance"].to_numpy() == pytest.approx(0.8)
    by = table.groupby("game")
    assert (by.get_group("gift")["payoff"] == by.get_group("gift")["payoff_a"]).all()
    # the windows are those that the coordinator was trained on
    rewards = coordinator.rewards(executor, VARIANTS, 3, 5, 0)
    own = table[table["game"] == "ultimatum"]
    assert own["payoff"].tolist() == rewards[0][:, 2].tolist()
    assert own["payoff_a"].tolist() == rewards[0][:, 0].tolist()
    assert influence_windows.chosen(table)[0] == ("ultimatum", "C", own["payoff"].iloc[0])


def test_references_by_hand():
    found = influence_windows.references(10)
    assert list(found) == ["ultimatum", "gift", "repeated", "bargaining"]
    assert found["ultimatum"] == found["bargaining"] == (0.5, 0.0)
    assert found["gift"] == pytest.approx((1 / 3, 2 / 3))  # 1 and 1 + 2 * .5, of 3
    mean, other = found["repeated"]
    assert mean == other and 0.5 < mean < 0.7  # AllC pays 1 of 1, AllD .2
    line = influence_graph.timeline([("gift", "F", 0.4), ("gift", "B", 0.4)], found)
    assert line["rho"].tolist() == pytest.approx([2 / 3, 1 / 3])

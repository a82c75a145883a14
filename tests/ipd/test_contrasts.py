"""Contrasts by seed, worked out by hand."""

import pandas as pd
import pytest

from dipllm_lib.ipd import contrasts
from dipllm_lib.run import seeding

TABLE = pd.DataFrame({
    "seed": [0, 0, 0, 0, 1, 1, 1, 1],
    "phase": [1, 1, 2, 2, 1, 1, 2, 2],
    "noise": ["on", "off"] * 4,
    "cooperation": [0.1, 0.0, 0.5, 0.3, 0.2, 0.0, 0.8, 0.4],
})


def test_last_third():
    assert contrasts.last_third(range(1, 10)) == [7, 8, 9]
    assert contrasts.last_third([4, 2, 1, 3, 4]) == [3, 4]
    assert contrasts.last_third([5]) == [5]


def test_values_and_differences_by_seed():
    late = contrasts.by_seed(TABLE, "cooperation", {"phase": 2, "noise": "on"})
    first = contrasts.by_seed(TABLE, "cooperation", {"phase": 1, "noise": "on"})
    assert late.to_dict() == {0: 0.5, 1: 0.8}
    assert contrasts.difference(late, first).tolist() == pytest.approx([0.4, 0.6])
    assert contrasts.difference(late, 0.2).tolist() == pytest.approx([0.3, 0.6])
    both = contrasts.by_seed(TABLE, "cooperation", {"phase": [1, 2], "noise": "off"})
    assert both.tolist() == pytest.approx([0.15, 0.2])


def test_verdicts():
    assert contrasts.verdict(0.1, 0.2) == "shown"
    assert contrasts.verdict(-0.2, -0.1) == "reversed"
    assert contrasts.verdict(0.0, 0.2) == contrasts.verdict(-0.1, 0.0) == "open"


def test_judged_and_what_is_behind_it():
    values = {
        "a": pd.Series([0.4, 0.6, 0.5], index=[3, 5, 6]),
        "b": pd.Series([-1.0, 1.0, 0.0], index=[3, 5, 6]),
        "few": pd.Series([0.4, 0.6], index=[3, 5]),
    }
    found = contrasts.judged(values, seeding.child(0, "judged"), 200)
    assert found[["contrast", "seeds", "verdict"]].to_numpy().tolist() == [
        ["a", 3, "shown"], ["b", 3, "open"], ["few", 2, "open"],
    ]  # fmt: skip
    assert found.loc[0, ["mean", "low", "high"]].tolist() == pytest.approx([0.5, 0.4, 0.6])
    assert contrasts.per_seed({"few": values["few"]}).to_numpy().tolist() == [
        ["few", 3, 0.4], ["few", 5, 0.6],
    ]  # fmt: skip


def test_seeds_that_are_no_pairs_and_empty_selections_are_refused():
    whole = contrasts.by_seed(TABLE, "cooperation", {"noise": "on"})
    with pytest.raises(ValueError, match="are no pairs"):
        contrasts.difference(whole, whole.iloc[:1])
    with pytest.raises(ValueError, match="selects {} rows"):
        contrasts.by_seed(TABLE, "cooperation", {"noise": "half"})
    with pytest.raises(ValueError, match="selects {0: 4, 1: 2} rows"):
        contrasts.by_seed(TABLE.iloc[:6], "cooperation", {"phase": [1, 2]})
    with pytest.raises(ValueError, match="no column arm"):
        contrasts.by_seed(TABLE, "cooperation", {"arm": "mixed"})

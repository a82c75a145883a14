"""csv and tex as golden text."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.run import tables

TABLE = pd.DataFrame({
    "agent": ["a_b", "None"],
    "SoS": [1 / 3, 2e-7],
    "SoS_low": [0.25, 1e-7],
    "SoS_high": [0.45, 3e-7],
    "games": [42, 7],
    "won": [True, False],
    "note": ["x, y", None],
})


def test_csv_golden():
    assert tables.to_csv(TABLE) == (
        "agent,SoS,SoS_low,SoS_high,games,won,note\n"
        'a_b,0.333333,0.25,0.45,42,True,"x, y"\n'
        "None,2e-07,1e-07,3e-07,7,False,\n"
    )


def test_csv_digits():
    assert tables.to_csv(pd.DataFrame({"x": [1 / 3]}), digits=10) == "x\n0.3333333333\n"


def test_csv_round_trip():
    back = tables.from_csv(tables.to_csv(TABLE))
    assert back["agent"].tolist() == ["a_b", "None"]
    assert back["games"].dtype.kind == "i" and back["won"].dtype == bool
    assert back["note"].isna().tolist() == [False, True]
    assert tables.to_csv(back) == tables.to_csv(TABLE)


def test_tex_golden():
    assert tables.to_tex(TABLE[["agent", "SoS", "SoS_low", "SoS_high", "games"]]) == (
        "\\begin{tabular}{llr}\n"
        "\\toprule\n"
        "agent & SoS & games \\\\\n"
        "\\midrule\n"
        "a\\_b & 0.333 ± 0.100 & 42 \\\\\n"
        "None & 0.000 ± 0.000 & 7 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_triples():
    columns = ["x", "x_low", "x_high", "y", "y_low", "mean", "low", "high"]
    assert tables.triples(columns) == [("x", "x_low", "x_high"), ("mean", "low", "high")]


@pytest.mark.parametrize(
    "bad",
    [
        pd.DataFrame({"x": []}),
        pd.DataFrame([[1, 2]], columns=["x", "x"]),
        pd.DataFrame({1: [2]}),
    ],
)
def test_bad_tables(bad):
    with pytest.raises(ValueError, match="a table must|columns of a table"):
        tables.to_csv(bad)


def test_the_table_is_not_changed():
    before = TABLE.copy()
    tables.to_tex(TABLE)
    pd.testing.assert_frame_equal(TABLE, before)
    assert np.isfinite(TABLE["SoS"]).all()

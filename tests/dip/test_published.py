"""The paper columns hold what is printed, and the joins put ours beside the right number."""

import itertools

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import arena, atlas, beside, published, report
from dipllm_lib.run import seeding, tables

# typed from the paper a second time, in another form than the module's
AGENTS = """
Table 1: DipLLM 23.0 22.3 29.3 50.3 27.4 ± 0.1 0.2 0.2 0.7 0.1
Table 1: Cicero 20.8 20.5 28.7 50.1 29.4 ± 0.3 0.2 0.2 0.5 0.2
Table 1: DNVI 6.6 4.3 5.0 35.8 59.9 ± 0.1 0.1 0.1 0.3 0.7
Table 1: DORA 5.7 4.7 3.9 33.0 62.3 ± 0.1 0.1 0.2 0.6 0.8
Table 1: DipNet 1.8 1.1 1.1 30.1 68.8 ± 0.1 0.1 0.1 0.4 0.7
Table 2: no AF, no FT 0.2 0.0 4.3 95.7
Table 2: FT only 0.8 0.0 19.2 80.8
Table 2: AF only 9.9 6.7 40.0 53.3
Table 2: AF and FT 29.4 25.2 45.9 29.0
Table 5: DipLLM 60.7 69.7 68.2 27.1 3.2
Table 5: o3-mini 16.3 13.9 11.7 51.9 34.2
Table 5: DeepSeek-R1 14.6 10.8 8.5 49.3 39.9
Table 5: GPT-4o 3.7 1.8 2.5 40.2 57.9
Table 7: DipLLM 29.3 25.2 29.3 45.8 29.0
Table 7: PPO 23.4 20.2 23.4 45.4 34.4
Table 7: DPO 1.2 0.7 1.3 38.2 61.1
Fig. 4: Prompt – 12.5 0.6 0.3 0.4 0.3 0.4
Fig. 4: SFT 17.6 – 0.7 0.4 0.3 0.3 0.3
Fig. 4: DipNet 83.3 70.1 – 0.1 4.6 0.9 0.7
Fig. 4: DORA 88.7 76.3 11.8 – 7.1 2.0 1.9
Fig. 4: DNVI 89.0 83.2 15.6 6.4 – 2.1 2.4
Fig. 4: Cicero 87.9 86.5 24.1 20.6 25.5 – 13.4
Fig. 4: DipLLM 89.0 88.9 29.4 21.0 25.0 16.7 –
Fig. 7: A MUN - SIL .13 .54 .47
Fig. 7: A MUN - RUH .15 .37 .42
Fig. 7: other .72 .09 .11
Fig. 1: DipNet 65
Fig. 1: DORA 15
Fig. 1: DNVI 15
Fig. 1: Cicero 35
Fig. 1: DipLLM 0.5
"""
COLUMNS = """
Table 6: 0, 5, 10
Table 6: sos 16.7, 18.1, 20.2
Table 6: win 13.1, 14.7, 15.6
Table 6: most_sc 17.5, 19.3, 21.6
Table 6: survived 47.1, 47.8, 47.4
Table 6: defeated 38.3, 37.5, 37.0
Fig. 5: 1, 2, 4, 8, 16
Fig. 5: sos 16.7, 16.6, 16.4, 15.7, 15.3
Fig. 6: 0, 100, 200, 300, 400, 500
Fig. 6: DipLLM 9.9, 18.7, 23.9, 26.0, 28.7, 29.0
Fig. 6: DipNet fine-tuned 14.3, 16.1, 16.9, 19.1, 20.6, 22.3
"""
HEADS = {
    "Table 1": "sos win most_sc survived defeated",
    "Table 2": "sos win survived defeated",
    "Table 5": "sos win most_sc survived defeated",
    "Table 6": "sos win most_sc survived defeated",
    "Table 7": "sos win most_sc survived defeated",
    "Fig. 1": "data_games",
    "Fig. 4": "Prompt SFT DipNet DORA DNVI Cicero DipLLM",
    "Fig. 5": "sos",
    "Fig. 7": "before after target",
}


def number(word: str) -> float:
    return np.nan if word == "–" else float(word)


def test_every_number_of_a_table_by_agent():
    typed = [line.split(": ", 1) for line in AGENTS.strip().splitlines()]
    for where, group in itertools.groupby(typed, key=lambda pair: pair[0]):
        found = published.table(where).wide()
        assert list(found.columns) == HEADS[where].split()
        names = []
        for _, line in group:
            numbers, _, errors = line.partition(" ± ")
            words = numbers.rsplit(" ", found.shape[1])
            names.append(words[0])
            np.testing.assert_array_equal(found.loc[words[0]], [number(w) for w in words[1:]])
            long = published.table(where).long().set_index("row").loc[[words[0]], "paper_pm"]
            assert long.dropna().tolist() == [float(w) for w in errors.split()]
        assert list(found.index) == names


def test_every_number_of_a_table_by_measure():
    for where in ("Table 6", "Fig. 5", "Fig. 6"):
        lines = [line.split(": ", 1)[1] for line in COLUMNS.strip().splitlines() if where in line]
        found = published.table(where).wide()
        assert list(found.index) == [int(word) for word in lines[0].split(", ")]
        heads = []
        for line in lines[1:]:
            first, *rest = line.split(", ")
            head, value = first.rsplit(" ", 1)
            heads.append(head)
            assert found[head].tolist() == [float(word) for word in (value, *rest)]
        assert list(found.columns) == heads
        assert where == "Fig. 6" or heads == HEADS[where].split()


def test_no_table_is_unchecked():
    typed = {line.split(": ")[0] for line in (AGENTS + COLUMNS).strip().splitlines()}
    assert typed - {""} == set(published.TABLES)
    assert sum(len(published.table(where).long()) for where in published.TABLES) == 164
    assert published.TIME_SHARE == (10, 20)
    with pytest.raises(ValueError, match="no published numbers at 'Table 9'"):
        published.table("Table 9")


def test_the_arithmetic_of_the_paper():
    """What the printed numbers say of each other: shares that add up, means of means."""
    for where, slack in (
        ("Table 1", 0.15),
        ("Table 2", 0.15),
        ("Table 5", 0.15),
        ("Table 7", 0.11),
    ):
        wide = published.table(where).wide()
        total = wide[["win", "survived", "defeated"]].sum(axis=1)
        assert (total - 100).abs().max() < slack
    gone = published.table("Table 6").wide()[["win", "survived", "defeated"]].sum(axis=1)
    assert gone.round(1).tolist() == [98.5, 100.0, 100.0]
    matrix = published.table("Fig. 4").wide()
    pool = ["DipLLM", "Cicero", "DNVI", "DORA", "DipNet"]
    means = matrix.loc[pool, pool].mean(axis=1)
    np.testing.assert_allclose(means, [23.0, 20.9, 6.6, 5.7, 1.6], atol=0.051)
    # Fig. 5 begins, and Table 6 without search, where Fig. 4 stands
    assert matrix.loc["DipLLM", "Cicero"] == 16.7
    assert published.table("Fig. 5").wide().loc[1, "sos"] == 16.7
    assert published.table("Table 6").wide().loc[0, "sos"] == 16.7


def line(agent, opponents="anchor", games=70, **values):
    row = {"agent": agent, "opponents": opponents, "games": games}
    for measure in published.FIVE:
        mean = values.get(measure, 10.0)
        row |= {measure: mean, f"{measure}_low": mean - 1, f"{measure}_high": mean + 1}
    return row


def test_ours_stand_beside_the_right_row():
    ours = pd.DataFrame([line("Hold", sos=1.0), line("lm", sos=15.5, win=2.0), line("anchor")])
    joined = beside.scores("Table 1", ours, {"lm": "DipLLM", "anchor": "DipNet", "Hold": None})
    assert list(joined.columns) == beside.COLUMNS
    assert list(dict.fromkeys(joined["row"])) == [*published.table("Table 1").rows, "–"]
    assert joined["paper"].count() == 25 and joined["ours"].count() == 15
    keyed = joined.set_index(["row", "agent", "column"])
    lm = keyed.loc[("DipLLM", "lm", "sos")]
    assert lm.tolist() == [23.0, 0.1, 15.5, 14.5, 16.5, 70]
    assert keyed.loc[("DipLLM", "lm", "win"), ["paper", "ours"]].tolist() == [22.3, 2.0]
    hold = keyed.loc[("–", "Hold", "sos")]
    assert pd.isna(hold["paper"]) and hold["ours"] == 1.0
    assert np.isnan(keyed.loc[("Cicero", "–", "sos"), "ours"])
    again = tables.from_csv(tables.to_csv(joined))
    pd.testing.assert_frame_equal(again, joined.astype({"games": float}))


def test_a_name_that_stands_nowhere_is_an_error():
    ours = pd.DataFrame([line("lm"), line("lm")])
    with pytest.raises(ValueError, match="has no row 'Ciscero' for lm"):
        beside.scores("Table 1", ours, {"lm": "Ciscero"})
    with pytest.raises(ValueError, match="has no row 3 for lm"):
        beside.scores("Table 1", ours, {"lm": 3})
    with pytest.raises(ValueError, match="lm is there twice"):
        beside.scores("Table 1", ours, {"lm": "DipLLM"})
    with pytest.raises(ValueError, match="no agent 'search'"):
        beside.scores("Table 1", ours[:1], {"search": "Cicero"})


def test_rows_of_numbers_take_numbers_that_the_paper_has_not():
    ours = pd.DataFrame([line("lm", f"search {n}", sos=20.0 - n) for n in (4, 0, 1)])
    names = {"search 4": 4, "search 0": 0, "search 1": 1}
    joined = beside.scores("Fig. 5", ours, names, by="opponents")
    assert joined["row"].tolist() == [0, 1, 2, 4, 8, 16]
    np.testing.assert_array_equal(joined["paper"], [np.nan, 16.7, 16.6, 16.4, 15.7, 15.3])
    np.testing.assert_array_equal(joined["ours"], [20.0, 19.0, np.nan, 16.0, np.nan, np.nan])
    shown = beside.shown(joined)["sos"]
    assert shown.loc[("1", "search 1", "70")] == "16.7 | 19.0 [18.0, 20.0]"


def test_the_matrix_keeps_rows_and_columns_apart():
    pairs = [
        ("lm", "anchor", 15.0),
        ("anchor", "lm", 12.0),
        ("lm", "Hold", 40.0),
        ("lm", "lm", 1.0),
    ]
    ours = pd.DataFrame([line(one, six, sos=value) for one, six, value in pairs])
    names = {"lm": "DipLLM", "anchor": "DipNet", "Hold": None}
    joined = beside.matrix(ours, names).set_index(["agent", "opponents"])
    assert joined.loc[("lm", "anchor"), ["paper", "ours"]].tolist() == [29.4, 15.0]
    assert joined.loc[("anchor", "lm"), ["paper", "ours"]].tolist() == [0.7, 12.0]
    assert joined.loc[("lm", "Hold"), ["row", "column"]].tolist() == ["DipLLM", "–"]
    assert joined["paper"].count() == 42 and joined["ours"].count() == 3
    shown = beside.shown(joined.reset_index())
    assert list(shown.columns) == [
        "Prompt | –", "SFT | –", "DipNet | anchor", "DORA | –", "DNVI | –", "Cicero | –",
        "DipLLM | lm", "– | Hold",
    ]  # fmt: skip
    assert len(shown) == 7
    assert shown.loc[("DipLLM", "lm"), "DipNet | anchor"] == "29.4 | 15.0 [14.0, 16.0]"
    assert shown.loc[("DipLLM", "lm"), "SFT | –"] == "88.9 | –"
    with pytest.raises(ValueError, match="lm against six anchor is there twice"):
        beside.matrix(pd.concat([ours, ours[:1]]), names)


def test_shown_tables_have_a_line_per_agent():
    ours = pd.DataFrame([line("lm", sos=15.5), line("Hold")])
    shown = beside.shown(beside.scores("Table 2", ours, {"lm": "AF and FT", "Hold": None}))
    assert list(shown.columns) == ["sos", "win", "survived", "defeated"]
    assert shown.loc[("AF and FT", "lm", "70"), "sos"] == "29.4 | 15.5 [14.5, 16.5]"
    assert shown.loc[("AF only", "–", "–"), "sos"] == "9.9 | –"
    assert shown.loc[("–", "Hold", "70"), "win"] == "– | 10.0 [9.0, 11.0]"


def test_amounts_meet_where_the_share_is_the_same():
    ours = pd.DataFrame([
        line(agent, sos=10.0 + n) | {"data_games": n}
        for agent in ("tuned", "lm")
        for n in (0, 2, 24)
    ])
    joined = beside.amounts(ours, {"lm": "DipLLM", "tuned": "DipNet fine-tuned"}, 24)
    assert joined["curve"].tolist() == ["DipLLM"] * 7 + ["DipNet fine-tuned"] * 7
    lm = joined[joined["curve"] == "DipLLM"].set_index("share")
    assert lm.loc[1.0, ["paper_games", "paper", "data_games", "ours"]].tolist() == [
        500,
        29.0,
        24,
        34,
    ]
    assert lm.loc[0.0, ["paper", "ours"]].tolist() == [9.9, 10.0]
    assert lm.loc[2 / 24, "ours"] == 12.0 and np.isnan(lm.loc[2 / 24, "paper"])
    assert (lm["agent"] == "lm").all() and np.isnan(lm.loc[0.2, "ours"])
    with pytest.raises(ValueError, match="no curve 'Cicero'"):
        beside.amounts(ours, {"lm": "Cicero"}, 24)


def test_openings_and_data():
    table = pd.DataFrame({
        "unit": ["A MUN"] * 3 + ["F KIE"],
        "order": ["A MUN - SIL", "A MUN H", "A MUN - BUR", "F KIE - DEN"],
        "before": [0.2, 0.5, 0.3, 1.0],
        "after": [0.6, 0.4, 0.0, 1.0],
        "target": [0.5, 0.5, 0.0, 1.0],
    })
    found = beside.openings(table, 400, np.random.default_rng(0), 500)
    keyed = found.set_index(["row", "column"])
    assert keyed.loc[("A MUN - SIL", "after"), ["paper", "ours"]].tolist() == [0.54, 0.6]
    assert keyed.loc[("A MUN - RUH", "before"), ["paper", "ours"]].tolist() == [0.15, 0.0]
    assert keyed.loc[("other", "before"), ["paper", "ours"]].tolist() == [0.72, 0.8]
    spread = keyed.loc[("A MUN - SIL", "after")]
    half = 1.96 * np.sqrt(0.6 * 0.4 / 400)
    assert spread["ours_high"] - spread["ours_low"] == pytest.approx(2 * half, rel=0.15)
    exact = keyed.loc[("other", "target"), ["ours_low", "ours", "ours_high"]].tolist()
    assert exact == [0.5, 0.5, 0.5]
    games = beside.data({"lm": 24, "anchor": 0}, {"lm": "DipLLM", "anchor": "DipNet", "x": None})
    assert games["row"].tolist() == ["DipNet", "DORA", "DNVI", "Cicero", "DipLLM"]
    assert games["paper_games"].tolist() == [65000, 15000, 15000, 35000, 500]
    assert games.set_index("row").loc["DipLLM", ["agent", "data_games"]].tolist() == ["lm", 24]


def test_percent_is_the_form_of_report_scores():
    rows = pd.DataFrame([
        {"one": one, "six": "anchor", "game": g, "power": atlas.POWERS[g % 7]}
        | {measure: 0.01 * (g + shift) for measure in arena.MEASURES}
        for shift, one in enumerate(("lm", "search"))
        for g in range(14)
    ])
    long = arena.summary(rows, seeding.child(0, "x"), 50)
    wanted = report.scores([rows], seeding.child(0, "x"), 50)
    pd.testing.assert_frame_equal(beside.percent(long), wanted)
    alone = long.rename(columns={"one": "agent"}).drop(columns="six")
    assert "opponents" not in beside.percent(alone)
    joined = beside.scores("Table 7", beside.percent(alone), {"lm": "DipLLM"})
    assert joined["ours"].iloc[0] == pytest.approx(100 * rows["sos"][:14].mean())


def test_published_gaps():
    table = pd.DataFrame({"contrast": ["FT", "PPO", "list"], "measure": ["sos", "win", "sos"]})
    places = {"FT": ("Table 2", "AF and FT", "AF only"), "PPO": ("Table 7", "PPO", "DipLLM")}
    found = beside.gaps(table, places)["paper"]
    np.testing.assert_allclose(found, [19.5, -5.0, np.nan])

"""The table of known situations, and random games on both engines."""

from dipllm_lib.dip import boards, cases, report


def test_ours_is_right_in_every_case_and_the_package_errs_in_its_five():
    table = cases.table().set_index("situation")
    assert (table["ours"] == table["right"]).all()
    wrong = table.index[table["package"] != table["right"]]
    assert [name[:2] for name in wrong] == ["B1", "B2", "B3", "B4", "B5"]


def test_a_position_holds_exactly_the_units_of_the_orders():
    b = cases.position({"FRANCE": ["A PAR - BUR"], "ITALY": ["F SPA/NC S F MAO"]})
    assert boards.phase_name(b) == "F1901M"
    assert boards.units(b)[0].tolist() == [0, 0, 1, 0, 1, 0, 0]
    assert boards.centres(b).sum() == 0


def test_the_outcome_lists_moves_without_a_word_and_retreats():
    orders = {"FRANCE": ["A PAR - BUR", "A MAR S A PAR - BUR"], "ITALY": ["A PIE - MAR"]}
    state = {"retreats": {"GERMANY": {"A BUR": ["MUN", "BEL"]}}}
    words = {"A PAR": [], "A PIE": ["bounce"]}
    assert cases.outcome(orders, words, state) == "A PAR - BUR; A BUR dislodged (BEL MUN)"
    assert cases.outcome(orders, {"A PAR": ["bounce"], "A PIE": ["bounce"]}, {"retreats": {}}) == (
        "nobody moves"
    )


def test_random_games_replay_on_the_package():
    games = cases.random_games(2, 3, last_year=1902)
    table = report.replay_table(games).set_index("cause")
    assert table.loc["none", "phases"] == sum(g.positions().n for g in games)

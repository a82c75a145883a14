"""One turn of Diplomacy as a matrix game, and both theorems on the whole suite."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import (
    atlas,
    hedge,
    matrix_games,
    orders,
    policies,
    rules,
    subgames,
    theory,
    value,
)

ANCHOR = policies.SoftDumbBot(0.3, 0.1)
POWERS = ("FRANCE", "GERMANY")


@pytest.fixture(scope="module")
def games():
    return theory.suite(np.random.default_rng(4), random_games=3)


def test_payoffs_are_what_the_rules_say():
    """Every cell again, one joint order at a time, on its own road through the rules."""
    settings = dataclasses.replace(theory.CANDIDATES, candidates=5, extend=2)
    board = subgames.front(3)
    found = subgames.diplomacy(board, POWERS, ANCHOR, settings, np.random.default_rng(0))
    first, second = (atlas.power(name) for name in POWERS)
    plain = np.empty(found.payoff.shape)
    for a, row in enumerate(found.row_joints):
        for b, column in enumerate(found.column_joints):
            given = orders.expand(board, [{first: row, second: column}])
            share = value.heuristic(rules.resolve(board, given)[0])[0].astype(np.float64)
            plain[a, b] = (1 + share[first] - share[second]) / 2
    plain = (plain - plain.min()) / (plain.max() - plain.min())
    np.testing.assert_allclose(found.payoff, plain, atol=1e-12)
    assert found.payoff.min() == 0 and found.payoff.max() == 1
    assert found.row_anchor.sum() == pytest.approx(1)
    assert found.row_anchor.min() >= subgames.UNIFORM / len(found.row_joints)


def test_a_front_by_hand():
    """A HOL - KIE goes through, all others hold. France has five centres and takes Kiel; Germany
    keeps Munich, Berlin and Holland, which France has left. Nobody stands on a foreign centre.
    """
    board = subgames.front(3)
    turns = orders.turns(board, 0)
    assert [turn.name for turn in turns] == list(POWERS)
    france = orders.sorted_joint(turns[0], ["A PAR H", "A MAR H", "A HOL - KIE"])
    germany = orders.sorted_joint(turns[1], ["A BUR H", "A PIE H", "A BER H"])
    payoff = subgames.payoff_matrix(board, turns, [[france], [germany]], value.heuristic)
    share = 36 / (36 + 9)  # squares of 6 and 3 centres: the fall turn hands Kiel over
    np.testing.assert_allclose(payoff, [[(1 + share - (1 - share)) / 2]], rtol=1e-6)


def test_no_pure_choice_is_safe(games):
    """The Diplomacy games need mixing: max min < min max by a clear gap."""
    for game in games[-2:]:
        assert game.name.startswith("Diplomacy")
        low, high = game.payoff.min(axis=1).max(), game.payoff.max(axis=0).min()
        assert high - low > 0.2


def test_theorem_1_on_every_game_of_joint_orders(games):
    table = theory.theorem1(games, [0.001, 0.1], 300)
    assert table.game.nunique() == 5 and len(table) == 10
    assert set(table.units) == {2, 3, 4} and (table.error < 1e-12).all()


def test_theorem_2_along_the_iterations(games):
    table = theory.theorem2(games, [0.001, 0.01, 0.1], 16000)
    assert theory.marks(16000)[0] == 10 and theory.marks(16000)[-1] == 16000
    assert theory.marks(5) == (5,) and len(table) == len(games) * 6 * 9
    last = table[table["T"] == 16000]
    normalised = last[(last.rule == "normalised") & (last.game != "rock-paper-scissors")]
    assert normalised.holds.all()
    literal = last[(last.rule == "literal") & (last.lam <= 0.01)]
    assert not literal[literal.game.str.startswith("Diplomacy")].holds.any()
    # the gain falls with T under the normalised rule, and stays under the literal one
    for rule, falls in (("normalised", True), ("literal", False)):
        part = table[(table.rule == rule) & (table.lam == 0.001)]
        part = part[part.game.str.startswith("Diplomacy")].set_index("T").gain
        assert (part.loc[16000].mean() < 0.1 * part.loc[10].mean()) == falls


def test_tables_by_hand():
    """Two games of one kind, two marks: only the last mark counts, except along the curve."""
    rows = [
        ("Blotto, 2 fields", "normalised", 0.01, 10, 0.4, 0.1, False),
        ("Blotto, 2 fields", "normalised", 0.01, 100, 0.1, 0.1, True),
        ("Blotto, 3 fields", "normalised", 0.01, 10, 0.6, 0.3, False),
        ("Blotto, 3 fields", "normalised", 0.01, 100, 0.5, 0.3, False),
        ("random 7", "normalised", 0.01, 10, 0.2, 0.2, True),
        ("random 7", "normalised", 0.01, 100, 0.0, 0.2, True),
    ]
    columns = ["game", "rule", "lam", "T", "gain", "bound", "holds"]
    found = pd.DataFrame(rows, columns=columns)
    summary = theory.summary(found, np.random.default_rng(0), 20).iloc[0]
    assert summary[["gain", "bound", "games", "within"]].tolist() == pytest.approx([0.2, 0.2, 3, 2])
    families = theory.by_family(found).set_index("family")
    assert families.loc["Blotto", ["gain", "games", "within"]].tolist() == pytest.approx([
        0.3,
        2,
        1,
    ])
    assert families.loc["random", "within"] == 1
    curve = theory.curves(found).set_index(["family", "T"])["gain"]
    assert curve.loc["Blotto"].tolist() == pytest.approx([0.5, 0.3])


def test_bad_subgames():
    board, settings = subgames.front(3), theory.CANDIDATES
    with pytest.raises(ValueError, match="FRANCE and ITALY must both have something to decide"):
        subgames.diplomacy(board, ("FRANCE", "ITALY"), ANCHOR, settings, np.random.default_rng(0))

    def flat(after):
        return np.full((after.n, 7), 1 / 7)

    with pytest.raises(ValueError, match="no game is left"):
        subgames.diplomacy(board, POWERS, ANCHOR, settings, np.random.default_rng(0), flat)


def test_anchors_stay_positive(games):
    for game in games:
        assert (
            matrix_games.delta(game.row_anchor) < 8 and matrix_games.delta(game.column_anchor) < 8
        )
        assert hedge.entropy(game.row_anchor) > 0

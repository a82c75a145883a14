"""A game that is known move by move: every number of the case study worked out by hand."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.dip import (
    atlas,
    boards,
    case_study,
    game,
    orders,
    policies,
    text,
    value,
)
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.lm import backbones
from dipllm_lib.run import profiles

GERMANY = atlas.power("GERMANY")
SETTINGS = dataclasses.replace(
    profiles.load("smoke", 0).dip, search_iterations=3, search_candidates=5, search_draws=12
)
# France keeps Germany out of Burgundy, Austria is kept out of Munich, Germany takes two centres
SCRIPT = {
    "S1901M": {
        "GERMANY": ["A BER - KIE", "A MUN - BUR", "F KIE - DEN"],
        "FRANCE": ["A PAR - BUR", "A MAR - PIE", "F BRE H"],
        "AUSTRIA": ["A VIE - TYR", "A BUD H", "F TRI H"],
    },
    "F1901M": {
        "GERMANY": ["A KIE - HOL", "A MUN S A KIE", "F DEN H"],
        "AUSTRIA": ["A TYR - MUN", "A BUD H", "F TRI H"],
        "FRANCE": ["A PAR - BUR", "A PIE H", "F BRE H"],
    },
}


class Script:
    """Plays the orders of a script and holds otherwise, as a policy with probabilities would."""

    def __init__(self, name: str, script: dict):
        self.name, self.script = name, script

    def _joint(self, turn):
        given = self.script.get(turn.phase, {}).get(turn.name)
        if given is None:
            return policies.Hold().act([turn], [np.random.default_rng(0)])[0]
        return orders.sorted_joint(turn, given)

    def act(self, turns, rngs):
        return [self._joint(turn) for turn in turns]

    def sample(self, turn, n, rng):
        return [self._joint(turn)] * n


def played(script: dict, last_year: int = 1901, number: int = 0) -> game.Game:
    """Germany is `lm`, the other six `anchor`; all follow the script."""
    one, six = Script("lm", script), Script("anchor", script)
    seats = [one if power == GERMANY else six for power in range(7)]
    return game.play([seats], 0, [("case", number)], game.EndRules(last_year))[0]


def cast(script: dict, model=None, value_fn=value.heuristic, last_year: int = 1901):
    tau = policies.SoftDumbBot(0.3, 0.05)
    model = policies.SoftDumbBot(0.1, 0.05) if model is None else model
    end = game.EndRules(last_year)
    return case_study.Cast(model, tau, Script("anchor", script), value_fn, end, SETTINGS)


@pytest.fixture(scope="module")
def battle() -> case_study.Case:
    """The script, seen by Germany; the others surely do what they did."""
    return case_study.examine(played(SCRIPT), GERMANY, cast(SCRIPT), 3, 0, 50)


def test_values_are_those_of_the_positions(battle):
    """Heuristic value: 3 centres each and 4 Russian ones; in fall Germany stands on Denmark, and
    nobody on a foreign centre else (Tyrolia, Piedmont are none); at the end the fleet has Denmark,
    the army Holland, France nothing new."""
    share = battle.values[:, GERMANY]
    assert battle.phases == ["S1901M", "F1901M", "COMPLETED"]
    assert share[0] == pytest.approx(9 / 70)
    assert share[1] == pytest.approx(3.5**2 / (3.5**2 + 45 + 16))
    assert battle.game.final_centres[GERMANY] == 5
    assert share[2] == pytest.approx(25 / (25 + 45 + 16))
    table = battle.value_table()
    assert table["Germany"].tolist() == pytest.approx(share.tolist())


def test_the_account_adds_up_and_what_was_certain_is_no_luck(battle):
    account = battle.account.set_index("phase")
    change = account["after"] - account["before"]
    assert account[["drift", "choice", "others"]].sum(axis=1).to_numpy() == pytest.approx(
        change.to_numpy(), abs=1e-12
    )
    parts = case_study.total(battle.account)
    assert sum(parts.values()) == pytest.approx(25 / 86 - 9 / 70)
    assert account["others"].abs().max() < 1e-6  # the draws are what happened
    assert (account["choice_low"] == account["choice_high"]).all()  # and do not vary
    for decision in battle.decisions:
        target, worth = decision.table["target"], decision.table["value"]
        assert account["expected"][decision.phase] == pytest.approx(target @ worth)
        assert account["chosen"][decision.phase] == worth[decision.played]
        assert decision.table["hindsight"].to_numpy() == pytest.approx(worth.to_numpy())


def test_what_others_did_against_what_they_do_is_a_part_of_its_own():
    """Six powers that hold were expected; Russia takes Sweden: 5 centres in place of 4."""
    russia = {"S1901M": ["F STP/SC - BOT"], "F1901M": ["F BOT - SWE"]}
    rest = ["A MOS H", "A WAR H", "F SEV H"]
    script = {k: SCRIPT[k] | {"RUSSIA": [*rest, *russia[k]]} for k in SCRIPT}
    case = case_study.examine(played(script), GERMANY, cast({}), 2, 0, 20)
    spring, fall = case.account.to_dict("records")
    # had all held in spring, the army would be in Burgundy: no centre, so no other value
    assert spring["chosen"] == pytest.approx(3.5**2 / (3.5**2 + 45 + 16))
    assert spring["others"] == pytest.approx(0, abs=1e-7)
    assert fall["chosen"] == pytest.approx(25 / 86)
    assert fall["others"] == pytest.approx(25 / 95 - 25 / 86)
    played_row = case.decisions[1].table.iloc[case.decisions[1].played]
    assert played_row["hindsight"] == pytest.approx(25 / 95) == fall["after"]


def test_what_was_played_is_a_row_and_policies_are_their_own_probabilities(battle):
    tau, model = policies.SoftDumbBot(0.3, 0.05), policies.SoftDumbBot(0.1, 0.05)
    for decision in battle.decisions:
        table = decision.table
        assert table["played"].sum() == 1 and table["target"].sum() == pytest.approx(1)
        size = int(table["q"].notna().sum())
        assert (np.diff(table["target"][:size]) <= 0).all()
        for column, policy in (("tau", tau), ("pi", model)):
            found = np.exp(policy.log_prob(decision.turn, decision.joints))
            assert table[column].to_numpy() == pytest.approx(found)
        joint = decision.joints[decision.played]
        assert joint == battle.game.joint(decision.k, GERMANY)
    rest = battle.candidates(2)
    sums = rest.groupby("phase", sort=False)[["tau", "pi"]].sum()
    assert sums.to_numpy() == pytest.approx(np.ones((2, 2)))
    assert rest["joint"].tolist().count(case_study.OTHER) == 2


def test_the_table_of_decisions(battle):
    table = battle.decision_table()
    for row, decision in zip(table.itertuples(), battle.decisions, strict=True):
        kept = decision.table[decision.table["target"] > 0]
        gap = kept["target"] * np.log(kept["target"] / kept["pi"])
        assert row.kl_pi == pytest.approx(gap.sum())
        assert row.orders == 3 and row.rank in (0, decision.played + 1)
        assert row.target == decision.table["target"][decision.played]
    mean, low, high = case_study.nearer(battle.decisions, np.random.default_rng(0), 200)
    assert mean == pytest.approx((table["kl_tau"] - table["kl_pi"]).mean())
    assert low <= mean <= high


def test_nearness_counts_what_the_model_may_say(battle):
    """A candidate off its list is left out with its share of the target; a decision without any is
    no decision.
    """
    first, second = battle.decisions[:2]
    target = first.table["target"].to_numpy()
    off = first.log_pi.copy()
    off[np.argmax(target)] = -np.inf
    share = np.where(np.isfinite(off), target, 0.0)
    kept = share > 0
    gap = (share[kept] / share.sum()) @ (first.log_pi - first.log_tau)[kept]
    few = dataclasses.replace(first, log_pi=off)
    none = dataclasses.replace(second, log_pi=np.full_like(second.log_pi, -np.inf))
    assert few.divergence(few.log_pi) == np.inf
    found = case_study.nearer([few, none], np.random.default_rng(0), 50)
    assert found == pytest.approx((gap,) * 3)
    with pytest.raises(ValueError, match="at least one value"):
        case_study.nearer([none], np.random.default_rng(0), 50)


def test_decisive_is_far_from_expected_whatever_the_drift(battle):
    def with_account(**columns):
        account = battle.account.assign(**columns)
        return dataclasses.replace(battle, account=account).decisive(1)[0].phase

    assert with_account(drift=[9, 0], choice=[0.1, -0.3], others=[0.1, 0.0]) == "F1901M"
    assert with_account(drift=[0, 9], choice=[0.3, -0.3], others=[0.0, 0.2]) == "S1901M"
    assert [d.phase for d in battle.decisive(5)] == ["S1901M", "F1901M"]


def test_the_last_count_ends_the_game_in_every_branch():
    """A value net that only knows finished games: what would be over is worth its real share."""

    def after_all(b):
        over = (b.phase == boards.OVER)[:, None]
        return np.where(over, value.heuristic(b), 1 / 7)

    case = case_study.examine(played(SCRIPT), GERMANY, cast(SCRIPT, value_fn=after_all), 1, 0, 10)
    spring, fall = (d.table for d in case.decisions)
    assert np.allclose(spring["hindsight"], 1 / 7) and fall["hindsight"].min() != 1 / 7
    wrong = cast(SCRIPT, value_fn=after_all, last_year=1902)
    with pytest.raises(ValueError, match="F1901M: its orders lead to .* give the end rules"):
        case_study.examine(played(SCRIPT), GERMANY, wrong, 1, 0, 10)


def test_a_language_model_in_all_phases_and_the_same_case_again():
    backbone = backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)
    model = LMAgent(backbone, 1.0, "lm")
    known, script = played(SCRIPT, 1902), SCRIPT
    given = cast(script, model, last_year=1902)
    case, again = (case_study.examine(known, GERMANY, given, 2, 0, 20) for _ in range(2))
    assert {d.phase[-1] for d in case.decisions} >= {"M", "A"}
    assert case.account.equals(again.account)
    assert case.candidates(3).equals(again.candidates(3))
    for d in case.decisions:
        assert d.log_pi == pytest.approx(model.log_prob(d.turn, d.joints), abs=1e-4)
    assert len(case.account) == known.boards.n - 1


def test_the_game_is_chosen_by_its_rank():
    one = {"S1901M": {"GERMANY": ["A BER H", "A MUN H", "F KIE - DEN"]}}
    none = {"S1901M": {}}
    games = [played(script, 1901, n) for n, script in enumerate((SCRIPT, none, one, none))]
    assert [int(g.final_centres[GERMANY]) for g in games] == [5, 3, 4, 3]
    rows = [g.to_saved() for g in games]
    others = [row | {"agents": ["x"] * 7, "id": "no"} for row in rows]
    for rule, number in (("best", 0), ("worst", 1), ("median", 3)):
        found = case_study.choose(others + rows, "lm", "anchor", rule)
        assert found.id == games[number].id
    assert case_study.choose(rows[:3], "lm", "anchor", "median").id == games[2].id
    with pytest.raises(ValueError, match="no game of 'lm' against six 'search' among 4"):
        case_study.choose(rows, "lm", "search", "best")
    with pytest.raises(ValueError, match="unknown rule 'nicest': use one of median"):
        case_study.choose(rows, "lm", "anchor", "nicest")

"""The iterated prisoner's dilemma: sequences by hand, prompts, and agreement with `ipd`."""

import itertools

import numpy as np
import pytest

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.kto import games, repeated
from dipllm_lib.kto.repeated import IteratedPD, MemoryOne
from dipllm_lib.run import seeding

# Published values come from unrounded rates; `tabular.HUMAN` has three digits.
ROUNDED = 0.0025
RULES = "Repeated game. Both cooperate 3. Both defect 1. I alone defect 5. I alone cooperate 0."
NAMED = {name: MemoryOne(tuple(tabular.named(name))) for name in ("TFT", "AllD", "WSLS", "GRIM")}


def rng(*names):
    return seeding.child(0, "kto", "repeated", *names)


def script(letters):
    """A chooser that plays the letters."""
    return lambda game, state, player, rng: "CD".index(letters[len(state.history)])


def letters(episode, player):
    return "".join("CD"[actions[player]] for actions in episode.final.history)


@pytest.mark.parametrize(
    "name, other, own",
    [
        ("TFT", "CDDCDC", "CCDDCD"),
        ("AllD", "CDDCDC", "DDDDDD"),
        ("WSLS", "CDDCDC", "CCDCCD"),
        ("GRIM", "CDCCCC", "CCDDDD"),
    ],
)
def test_sequences_by_hand(name, other, own):
    game = IteratedPD(6)
    for seat in (0, 1):
        choosers = (NAMED[name], script(other))
        episode = games.play(game, choosers if seat == 0 else choosers[::-1], rng())
        assert letters(episode, seat) == own
        cells = {"CC": 3, "CD": 0, "DC": 5, "DD": 1}
        mean = np.mean([cells[a + b] for a, b in zip(own, other, strict=True)])
        assert episode.payoffs[seat] == pytest.approx(mean)


def test_prompts_in_words():
    game = IteratedPD(10)
    state = game.reset(rng())
    assert game.observe(state, 0) == RULES + " Round 1 of 10. I"
    state = game.step(game.step(state, (0, 1)), (1, 1))
    assert game.observe(state, 0) == RULES + " Mine first CD DD. Round 3 of 10. I"
    text = RULES + " Setting A. Forecast defect 90. Mine first DC DD. Round 3 of 10. I"
    assert game.observe(state, 1, "A", "Forecast defect 90.") == text
    assert game.legal(state, 0) == (" cooperate.", " defect.")


def test_prompts_with_continuation_and_other_payoffs():
    game = IteratedPD(delta=0.9, pays=Payoffs(3, 0, 4, 1))
    text = "Both cooperate 3. Both defect 1. I alone defect 4. I alone cooperate 0."
    state = game.reset(rng())
    assert game.observe(state, 1) == f"Repeated game. {text} Goes on with chance 90. I"


def test_neutral_names_and_their_order_are_drawn():
    game = IteratedPD(3, labels="neutral")
    states = {game.reset(rng(k)) for k in range(40)}
    assert len(states) == 4
    for state in states:
        c, d = state.names
        assert game.legal(state, 0) == (f" {c}.", f" {d}.") and {c, d} == {"J", "F"}
        cells = f"Both {c} 3. Both {d} 1. I alone {d} 5. I alone {c} 0."
        if state.defect_first:
            cells = f"Both {d} 1. Both {c} 3. I alone {c} 0. I alone {d} 5."
        after = game.step(state, (repeated.COOPERATE, repeated.DEFECT))
        start = f"Repeated game. {cells} Mine first"
        assert game.observe(after, 0) == f"{start} {c}{d}. Round 2 of 3. I"
        assert game.observe(after, 1) == f"{start} {d}{c}. Round 2 of 3. I"
    assert game.reset(rng("x")) == game.reset(rng("x"))


def test_the_window_is_eight_rounds():
    game = IteratedPD(12)
    state = game.reset(rng())
    for t in range(11):
        state = game.step(state, (int(t == 2), 0))
    assert "Mine first CC CC CC CC CC CC CC CC. Round 12 of 12." in game.observe(state, 0)
    assert game.infoset(state, 0)[-1] == (1,) * 8
    assert IteratedPD(12, window=0).observe(state, 0) == RULES + " Round 12 of 12. I"


def test_both_seats_are_alike():
    for a, b in itertools.product((0, 1), repeat=2):
        game = IteratedPD(2)
        state = game.step(game.step(game.reset(rng()), (a, b)), (b, b))
        other = game.step(game.step(game.reset(rng()), (b, a)), (b, b))
        assert game.payoffs(state) == game.payoffs(other)[::-1]


def test_best_values_agree_with_enumeration_of_all_plans():
    game, q = IteratedPD(3), tabular.sample("uniform", 4, rng("pool"))
    plans = list(itertools.product((0, 1), repeat=1 + 4 + 4))
    for row, best in zip(q, repeated.best_value(game, q), strict=True):
        seen, values = exact.as_seen(row)[0], []
        for plan in plans:
            values.append(_plan_value(game, seen, plan))
        assert max(values) == pytest.approx(best, abs=1e-12)
        first = repeated.action_values(game, row)[0, 0].max() / 3
        assert first == pytest.approx(best, abs=1e-12)


def _plan_value(game, seen, plan):
    """Mean payoff of a plan: action of round 1, of round 2 and of round 3 after each outcome."""
    matrix, at, total = game.pays.matrix[::-1, ::-1], {0: 1.0}, 0.0
    for t in range(3):
        after = {}
        for o, weight in at.items():
            own = plan[0] if t == 0 else plan[4 * t - 4 + o]
            for other, p in ((0, seen[o]), (1, 1 - seen[o])):
                total += weight * p * matrix[own, other] / 3
                key = 1 + 2 * own + other
                after[key] = after.get(key, 0.0) + weight * p
        at = after
    return total


@pytest.mark.parametrize(
    "delta, value, reply",
    [(0.5, 2.264, "00000"), (0.75, 1.888, "01010"), (0.9, 2.112, "11111"),
     (0.95, 2.212, "11111"), (0.99, 2.304, "11111")],
)  # fmt: skip
def test_best_reply_to_pooled_people(delta, value, reply):
    game, human = IteratedPD(delta=delta), np.array(tabular.HUMAN)
    assert float(repeated.best_value(game, human)[0]) == pytest.approx(value, abs=ROUNDED)
    best = ["".join(str(int(x)) for x in v[1:]) for v in repeated.best_vectors(game, human)]
    assert reply[1:] in best
    q = repeated.action_values(game, human)
    assert q.shape == (1, 5, 2)
    assert (1 - delta) * q[0, 0].max() == pytest.approx(repeated.best_value(game, human)[0])


@pytest.mark.parametrize(
    "vector, own, other",
    [("AllC", 2.329, 3.448), ("GTFT", 2.036, 2.759), ("WSLS", 1.775, 2.553), ("TFT", 1.724, 1.724),
     ("human", 1.612, 1.612), ("extort", 1.524, 1.262), ("AllD", 1.403, 0.899)],
)  # fmt: skip
def test_long_run_means_against_pooled_people(vector, own, other):
    special = {"human": np.array(tabular.HUMAN), "extort": np.array(repeated.EXTORT2)}
    p = special[vector] if vector in special else tabular.named(vector)
    x, y = exact.stationary(p, np.array(tabular.HUMAN), repeated.STANDARD)
    assert (float(x[0]), float(y[0])) == pytest.approx((own, other), abs=ROUNDED)
    slow, _ = repeated.pair_values(IteratedPD(delta=0.9999), p, np.array(tabular.HUMAN))
    assert slow[0] == pytest.approx(own, abs=2e-3)


def test_textbook_thresholds():
    def pays(name, delta):
        values = repeated.action_values(IteratedPD(delta=delta), tabular.named(name))[0, 1]
        return values[repeated.COOPERATE] - values[repeated.DEFECT]

    assert pays("GRIM", 0.5) == pytest.approx(0.0, abs=1e-12)
    assert pays("GRIM", 0.49) < 0 < pays("GRIM", 0.51)
    assert pays("TFT", 2 / 3) == pytest.approx(0.0, abs=1e-12)
    assert pays("TFT", 0.65) < 0 < pays("TFT", 0.68)
    for q in tabular.sample("uniform", 20, rng("extort")):
        x, y = exact.stationary(np.array(repeated.EXTORT2), q, repeated.STANDARD)
        assert x[0] - 1 == pytest.approx(2 * (y[0] - 1), abs=1e-9)


def test_a_known_last_round_is_defected():
    values = repeated.action_values(IteratedPD(5), tabular.named("TFT"))
    assert np.all(values[-1, :, repeated.DEFECT] > values[-1, :, repeated.COOPERATE])


def test_random_lengths_have_the_mean_of_the_discounted_value():
    game, p, q = IteratedPD(delta=0.8), tabular.named("TFT"), tabular.named("WSLS")
    stream, players = rng("length"), (MemoryOne(tuple(p)), MemoryOne((0.3, 0.9, 0.2, 0.5, 0.4)))
    got = [games.play(game, players, stream).payoffs[0] for _ in range(4000)]
    want = repeated.pair_values(game, p, np.array(players[1].vector))[0][0]
    assert abs(np.mean(got) - want) < 4 * np.std(got) / np.sqrt(len(got))
    assert repeated.pair_values(IteratedPD(4), p, q)[0][0] == 3.0


def test_sequences_of_axelrod():
    axl = pytest.importorskip("axelrod", reason="axelrod is not installed")
    players = {"TFT": axl.TitForTat, "WSLS": axl.WinStayLoseShift, "AllD": axl.Defector}
    for name, player in {**players, "GRIM": axl.Grudger}.items():
        match = axl.Match((player(), axl.CyclerCCD()), turns=12)
        theirs = ["".join(str(a) for a in pair) for pair in match.play()]
        game = IteratedPD(12)
        ours = games.play(game, (NAMED[name], script("CCD" * 4)), rng()).final.history
        assert ["CD"[a] + "CD"[b] for a, b in ours] == theirs


def test_bad_input():
    with pytest.raises(ValueError, match="continuation 1.0"):
        IteratedPD(delta=1.0)
    with pytest.raises(ValueError, match="labels 'moral'"):
        IteratedPD(labels="moral")
    with pytest.raises(ValueError, match="rounds 0"):
        IteratedPD(0)
    with pytest.raises(ValueError, match="best_vectors needs continuation"):
        repeated.best_vectors(IteratedPD(3), tabular.named("TFT"))
    with pytest.raises(ValueError, match="outside"):
        MemoryOne((2, 0, 0, 0, 0))

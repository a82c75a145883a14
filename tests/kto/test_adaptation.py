"""The three measures by their definitions: constant, switching and planted players, censoring."""

import numpy as np
import pytest

from dipllm_lib.kto import adaptation, games, lm_labels, repeated
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import Context, TabularPolicy
from dipllm_lib.kto.repeated import IteratedPD, MemoryOne, State
from dipllm_lib.run import seeding

GAME = IteratedPD(40)


class Rule:
    """A policy from a function of the number of finished rounds and the last outcome."""

    def __init__(self, rule):
        self.rule = rule

    def log_probs(self, contexts):
        rows = [self.rule(*context.key) for context in contexts]
        return [np.log(np.maximum([p, 1 - p], 1e-300)) for p in rows]


def ask(game, state, player):
    key = len(state.history), repeated.last_outcome(state, player)
    return Context(key, "", game.legal(state, player))


def history(partner):
    choosers = (MemoryOne((0.5,) * 5), MemoryOne(partner))
    return games.play(GAME, choosers, seeding.child(0, "adaptation")).final


def windows(policy, partner=(0.5,) * 5, context=ask, game=GAME):
    state = history(partner)
    found = [
        adaptation.probes(policy, game, state, 0, w, context)
        for w in (adaptation.EARLY, adaptation.LATE)
    ]
    return found


def test_total_variation_by_hand():
    p, q = np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[0.8, 0.2], [0.0, 1.0]])
    assert adaptation.total_variation(p, q) == pytest.approx([0.3, 1.0])


def test_a_fixed_memory_one_policy_is_consistent():
    vector = (0.9, 0.8, 0.3, 0.6, 0.1)
    early, late = windows(Rule(lambda t, x: vector[x]))
    assert early.shape == (5, 4, 2) and early[0, :, 0] == pytest.approx(vector[1:])
    assert adaptation.consistency(early, late) == 1.0
    table = TabularPolicy({})  # uniform everywhere, through the game's own contexts
    assert adaptation.consistency(*windows(table, context=None)) == 1.0


def test_a_switch_from_always_c_to_always_d_is_not():
    early, late = windows(Rule(lambda t, x: float(t < 15)))
    assert adaptation.consistency(early, late) == pytest.approx(0.0)
    half = windows(Rule(lambda t, x: 1.0 if t < 15 or x <= 2 else 0.0))
    assert adaptation.consistency(*half) == pytest.approx(0.5)  # the same at CC and CD


def test_probes_keep_the_history_but_for_its_last_outcome():
    seen = []

    def context(game, state, player):
        seen.append(state)
        return ask(game, state, player)

    state = history((0.5,) * 5)
    adaptation.probes(Rule(lambda t, x: 0.5), GAME, state, 1, (2, 24), context)
    assert [len(s.history) for s in seen] == [1] * 4 + [23] * 4
    assert [s.history[-1][::-1] for s in seen] == list(adaptation.OUTCOMES) * 2  # seat 1
    assert all(s.history[:-1] == state.history[:22] for s in seen[4:])
    with pytest.raises(ValueError, match="probes at .*need 2 or more"):
        adaptation.probes(Rule(lambda t, x: 0.5), GAME, state, 0, (1, 2), ask)
    short = State(10, state.names, history=state.history[:10])
    with pytest.raises(ValueError, match="and 39 rounds"):
        adaptation.probes(Rule(lambda t, x: 0.5), GAME, short, 0, adaptation.LATE, ask)


def test_adaptivity_of_a_copycat_and_of_a_stone():
    copy = (
        windows(Rule(lambda t, x: 1.0), (1.0,) * 5)[1],
        windows(Rule(lambda t, x: 0.2), (0.0,) * 5)[1],
    )
    assert adaptation.adaptivity(*copy) == pytest.approx(0.8)
    stone = Rule(lambda t, x: 0.4)
    late = windows(stone, (1.0,) * 5)[1], windows(stone, (0.0,) * 5)[1]
    assert adaptation.adaptivity(*late) == 0.0


def test_a_planted_change_is_found():
    """Regret 5 for seven rounds after round 20, then 0: five rounds of mean <= .5 begin at k = 7;
    with a line of 1 one bad round in five is allowed."""
    regret = np.zeros(40)
    regret[20:27] = 5.0
    assert adaptation.rounds_to_adapt(regret, 20, 5.0) == (7, False)
    assert adaptation.rounds_to_adapt(regret, 20, 5.0, line=0.2) == (6, False)
    assert adaptation.rounds_to_adapt(np.zeros(40), 20, 5.0) == (0, False)


def test_censoring():
    never = np.full(40, 5.0)
    assert adaptation.rounds_to_adapt(never, 20, 5.0) == (20, True)
    never[36:] = 0.0  # four good rounds are not five
    assert adaptation.rounds_to_adapt(never, 20, 5.0) == (20, True)
    never[35:] = 0.0
    assert adaptation.rounds_to_adapt(never, 20, 5.0) == (15, False)
    with pytest.raises(ValueError, match="4 rounds after the change at 36"):
        adaptation.rounds_to_adapt(never, 36, 5.0)


def test_recovery_is_counted_from_what_is_at_stake():
    """A tenth of the range is never lost here, so everybody adapts at once; of what a uniform
    choice loses, .04 a round, the player loses all for six rounds and a quarter from then on."""
    even = np.full(40, 0.04)
    regret = np.where(np.arange(40) < 26, 0.04, 0.01)
    assert adaptation.rounds_to_adapt(regret, 20, 1.0) == (0, False)
    # two bad rounds and three good ones are .11 of .2, one and four are .08
    assert adaptation.rounds_to_recover(regret, even, 20) == (5, False)
    assert adaptation.rounds_to_recover(regret, even, 20, share=0.6) == (4, False)
    assert adaptation.rounds_to_recover(even, even, 20) == (20, True)
    assert adaptation.rounds_to_recover(even, even * 0, 20) == (20, True)
    assert adaptation.rounds_to_recover(even * 0, even * 0, 20) == (0, False)
    with pytest.raises(ValueError, match="4 rounds after the change at 36"):
        adaptation.rounds_to_recover(regret, even, 36)


def test_a_language_model_can_be_probed(tiny):
    game = IteratedPD(40, window=8)
    policy = LMPolicy(tiny())

    def context(game, state, player):
        return lm_labels.context(game, state, player, "A")

    found = adaptation.probes(policy, game, history((0.5,) * 5), 0, adaptation.EARLY, context)
    assert found.shape == (5, 4, 2) and found.sum(axis=2) == pytest.approx(1.0)
    assert np.ptp(found[:, :, 0]) > 1e-4  # it reads the history

"""Values against the games' own exact ones, the filter against `partner_types`, learned players."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto import arena as arenas
from dipllm_lib.kto import bargaining_exact, memory_players, partner_types, pool, repeated
from dipllm_lib.kto.arena import Bayes, Log
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.memory_players import ARMS, Player, Size
from dipllm_lib.kto.repeated import IteratedPD, State
from dipllm_lib.kto.rule_change import RuleChange
from dipllm_lib.run import seeding

GAME = arenas.repeated_game()


def uniform(log):
    return np.full((len(log.states), GAME.actions), 1 / GAME.actions)


def test_values_are_those_of_the_repeated_game():
    found = arenas.fixed_values(GAME, 12)
    for name in arenas.PARTNERS:
        own = repeated.action_values(IteratedPD(12), np.array(pool.VECTORS[name]))
        assert np.abs(found[GAME.index(f"{name} 5/3/1/0")] - own).max() < 1e-9
    other = IteratedPD(12, pays=arenas.PAYS["5/2.75/2.5/0"])
    own = repeated.action_values(other, np.array(pool.VECTORS["GTFT"]))
    assert np.abs(found[GAME.index("GTFT 5/2.75/2.5/0")] - own).max() < 1e-9


def test_values_see_a_change_coming():
    """AllC to TFT before the last round: the defection of round 1 is paid for in round 2."""
    kinds = [GAME.index("AllC 5/3/1/0"), GAME.index("TFT 5/3/1/0")]
    found = arenas.values(GAME, np.array([kinds]))[0]
    assert found[1, 1] == pytest.approx([3, 5]) and found[1, 3] == pytest.approx([0, 1])
    assert found[0, 0] == pytest.approx([3 + 5, 5 + 1])


def test_bargaining_by_hand():
    game = arenas.bargaining()
    found = arenas.fixed_values(game, 2)
    for k, most in ((0, 0.7), (1, 0.4), (2, 0.1)):
        assert found[k, 1, 0].max() == pytest.approx(most)
        assert found[k, 0, 0].max() == pytest.approx(2 * most)
        assert found[k, 1, 0].argmax() == round(10 * most)


def test_bargaining_is_the_game_with_two_rounds():
    """Whoever refuses gets all a round later, worth delta: the exact game keeps 1 - delta."""
    game = arenas.bargaining()
    for k, delta in enumerate(arenas.DELTAS):
        plan = bargaining_exact.backward(AlternatingOffers(grid=10, rounds=2, delta=delta))
        assert game.pays[k, plan.keep[0], 0] == pytest.approx(plan.values[0, 0])
        assert (game.good[k, 0] == plan.accepts[0]).all()


def test_a_change_pays_what_the_game_pays():
    kinds = [GAME.index(f"GTFT {rule}") for rule in arenas.PAYS]
    types, told = memory_players.paths(GAME, 12, [kinds[0]], kinds[1], 5, True)
    log, _ = memory_players.play(uniform, GAME, types, told, seeding.child(0, "pays"))
    before, after = (IteratedPD(12, pays=pays) for pays in arenas.PAYS.values())
    rounds = tuple(zip(log.actions[0].tolist(), log.answers[0].tolist(), strict=True))
    state = State(12, repeated.WORDS_LABELS, history=rounds)
    assert log.paid[0].tolist() == RuleChange(before, after, 5).round_payoffs(state)[:, 0].tolist()
    assert log.states[0, 1:].tolist() == [repeated.outcome(one, 0) for one in rounds]


def test_regret_adds_up_to_what_is_lost():
    """The mean payoff of the best reply minus that of the player, over many episodes."""
    kind = GAME.index("GTFT 5/3/1/0")
    types, told = memory_players.paths(GAME, 8, [kind] * 4000, kind, 8, False)
    log, chances = memory_players.play(uniform, GAME, types, told, seeding.child(0, "regret"))
    best = arenas.fixed_values(GAME, 8)[kind, 0, 0].max()
    lost = memory_players.regrets(GAME, log, chances, types)[0].sum(axis=1).mean()
    assert lost == pytest.approx(best - log.paid.sum(axis=1).mean(), abs=0.35)


def test_the_filter_is_that_of_the_game():
    arena = arenas.repeated_game()
    kind = arena.index("WSLS 5/3/1/0")
    types, told = memory_players.paths(arena, 6, [kind] * 5, kind, 6, False)
    log, _ = memory_players.play(uniform, arena, types, told, seeding.child(1, "filter"))
    own = np.array([pool.VECTORS[name] for name in arenas.PARTNERS])
    found = Bayes(arena, 7, hazard=0.05).posterior(Log(*log[:4], np.full((5, 7), -1)))
    for b in range(5):
        rounds = tuple(zip(log.actions[b].tolist(), log.answers[b].tolist(), strict=True))
        state = State(6, repeated.WORDS_LABELS, history=rounds)
        exact = partner_types.posterior(own, state, 0, hazard=0.05)
        assert found[b].reshape(2, 5).sum(axis=0) == pytest.approx(exact, abs=0.06)
    still = Bayes(arena, 7, hazard=0.0).posterior(Log(*log[:4], np.full((5, 7), -1)))
    exact = partner_types.posterior(own, state, 0)
    assert still[4].reshape(2, 5).sum(axis=0) == pytest.approx(exact)


def test_an_announcement_is_believed_and_the_partner_remembered():
    arena = arenas.repeated_game()
    pair = arena.index("TFT 5/3/1/0"), arena.index("TFT 5/2.75/2.5/0")
    types, told = memory_players.paths(arena, 8, [pair[0]] * 3, pair[1], 5, True)
    assert told[0].tolist() == [0, -1, -1, -1, -1, 1, -1, -1]
    log, _ = memory_players.play(uniform, arena, types, told, seeding.child(3, "told"))
    before, after = (Bayes(arena, 9).posterior(log.cut(t)) for t in (4, 5))
    assert before[:, arena.rules == 1].sum() < 3 * 0.06
    assert after[:, arena.rules == 0].sum() == 0.0 and after.sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="no type 'Joss'"):
        arena.index("Joss")


@pytest.mark.parametrize("arm", ARMS)
def test_one_pass_equals_round_by_round(arm):
    player = Player(GAME, arm, 12, seed=0)
    types, told = memory_players.episodes(GAME, 12, 3, seeding.child(0, "rounds"))
    log, chances = memory_players.play(player, GAME, types, told, seeding.child(1, "rounds"))
    with torch.no_grad():
        together = torch.softmax(player.logits(log.cut(11)), 2).numpy()
    assert np.abs(together - chances).max() < 1e-5


def test_what_the_arms_see():
    """A change of the first round alone reaches the store and the full history, not the window."""
    types, told = memory_players.episodes(GAME, 14, 2, seeding.child(0, "see"))
    log, _ = memory_players.play(uniform, GAME, types, told, seeding.child(1, "see"))
    other = Log(*(part.copy() for part in log))
    other.states[:, 1] = 1 + (log.states[:, 1] - 1 + 1) % 4
    for arm, hears in zip(ARMS, (False, True, True), strict=True):
        player = Player(GAME, arm, 14, seed=0)
        moved = np.abs(player(log.cut(12)) - player(other.cut(12))).max()
        assert (moved > 0) == hears, arm
    with pytest.raises(ValueError, match="unknown arm"):
        Player(GAME, "diary", 14, 0)


def test_training_lowers_regret_and_repeats():
    size = Size(rounds=12, iterations=12, updates=3, batch=24, rate=0.02)
    kind = GAME.index("AllD 5/3/1/0")
    types, told = memory_players.paths(GAME, 12, [kind] * 40, kind, 12, False)
    scores = []
    for _ in range(2):
        player = memory_players.train(GAME, ARMS[1], size, 0)
        log, chances = memory_players.play(player, GAME, types, told, seeding.child(5, "test"))
        scores.append(memory_players.regrets(GAME, log, chances, types)[0].mean())
    log, chances = memory_players.play(uniform, GAME, types, told, seeding.child(5, "test"))
    assert scores[0] == scores[1] < memory_players.regrets(GAME, log, chances, types)[0].mean()

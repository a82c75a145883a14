"""One turn of Diplomacy between two powers as a zero-sum matrix game, for theorem 2.

The two powers choose among candidate joint orders, all others give no orders (their units hold).
Every pair is adjudicated, and the payoff of the first power is (1 + u_1 - u_2) / 2, u = value of
the position after the phase; so the game is zero-sum by construction, whatever the value function.
One turn changes values little, hence payoffs are stretched to [0, 1] (an affine map, the equilibria
stay) and lam is in units of that range. Actions are true joint orders, one order a unit.
"""

from typing import Sequence

import numpy as np

from dipllm_lib.dip import atlas, boards, candidates, matrix_games, orders, payoffs, rules, value
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.payoffs import ValueFunction
from dipllm_lib.dip.search_settings import SearchSettings

UNIFORM = 0.05  # weight of the uniform policy inside the anchors: keeps delta finite and small

# two crossed fronts, all armies: each side stands among the other's centres, so both must guess
# which centre is attacked and which is covered, and no pure choice is safe
FRONTS = {
    3: {"FRANCE": ("PAR", "MAR", "HOL"), "GERMANY": ("BUR", "PIE", "BER")},
    4: {"FRANCE": ("PIC", "MAR", "HOL", "KIE"), "GERMANY": ("BUR", "PIE", "MUN", "BER")},
}
OWNED = {"FRANCE": ("PAR", "MAR", "BRE", "SPA", "BEL"), "GERMANY": ("MUN", "KIE", "BER", "HOL")}


def front(units: int) -> Boards:
    """Fall 1902 with `units` (3 or 4) armies each of FRANCE and GERMANY, and nobody else."""
    board = boards.empty(1)
    board.phase[:], board.year[:] = boards.FALL_MOVES, 1902
    for name, codes in FRONTS[units].items():
        power = atlas.power(name)
        for place in map(atlas.location, codes):
            board.unit[0, place], board.loc[0, place] = atlas.ARMY_UNIT, place
            board.power[0, place] = power
        for place in map(atlas.location, OWNED[name]):
            board.owner[0, place] = power
    return board


def payoff_matrix(
    board: Boards, turns: Sequence[orders.Turn], joints, value_fn: ValueFunction
) -> np.ndarray:
    """(m, n) values (1 + u_1 - u_2) / 2 of all pairs of candidates of two powers."""
    sizes = [len(own) for own in joints]
    table = payoffs.Payoffs(turns, board, joints)
    picks = np.stack(np.meshgrid(*(np.arange(s) for s in sizes), indexing="ij"), axis=-1)
    after, _ = rules.resolve(board, table.orders(picks.reshape(-1, 2)))
    share = np.asarray(value_fn(after), dtype=np.float64)
    first, second = (share[:, turn.power] for turn in turns)
    return ((1.0 + first - second) / 2.0).reshape(sizes)


def diplomacy(
    board: Boards,
    powers: tuple[str, str],
    anchor,
    settings,
    rng: np.random.Generator,
    value_fn: ValueFunction = value.heuristic,
    name: str = "Diplomacy, one turn",
) -> matrix_games.MatrixGame:
    """The game of two powers on `board` over candidates from `anchor` (as in a search).

    ValueError if one of them has nothing to decide there, or no choice changes the value.
    """
    settings = SearchSettings.of(settings)
    turns = [orders.turn(board, 0, atlas.power(power)) for power in powers]
    if turns[0] is None or turns[1] is None:
        raise ValueError(f"{' and '.join(powers)} must both have something to decide")
    chosen = candidates.choose(turns, anchor, settings, [rng, rng])
    joints = [own for own, _ in chosen]
    payoff = payoff_matrix(board, turns, joints, value_fn)
    low, high = payoff.min(), payoff.max()
    if high == low:
        raise ValueError(f"{name}: every pair of joint orders has the same value, no game is left")
    anchors = [(1.0 - UNIFORM) * np.exp(log_tau) + UNIFORM / len(log_tau) for _, log_tau in chosen]
    return matrix_games.MatrixGame(name, (payoff - low) / (high - low), *anchors, *joints)

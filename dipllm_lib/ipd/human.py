"""Rates of cooperation of people in the laboratory beside those of trained agents.

`tabular.HUMAN` pools 168,386 published decisions of eight studies whose payoffs differ: how often
people played C in the first round and after CC, CD, DC, DD. Read as a memory-one player it has
exact values here. Only the shapes of the rates are compared, since neither the payoffs nor the
length of the games are the same.

Shapes: A agents, T rounds.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import batch_play, best_response, exact, tabular
from dipllm_lib.ipd.batch_play import Actor, Table
from dipllm_lib.ipd.game import STATES, Payoffs
from dipllm_lib.ipd.pool_shift import ShiftSettings
from dipllm_lib.run import seeding

OVERALL = 0.449  # share of C in all of these decisions


def player(rounds: int, payoffs: Payoffs = exact.STANDARD) -> pd.DataFrame:
    """Exact values of the human rates as a memory-one player over `rounds` rounds.

    Rows: opponent AllD, TFT, human and best response; columns opponent, opponent_reward,
    opponent_cooperation, reward, all per round.
    """
    rates = np.array(tabular.HUMAN)
    rows = []
    for name in ("human", "AllD", "TFT"):
        other = rates if name == "human" else tabular.named(name)
        theirs, own = exact.finite(other, rates, rounds, payoffs)
        shares = exact.occupancy(other, rates, rounds)[0]
        rows.append((name, float(theirs[0]), float(shares[:2].sum()), float(own[0])))
    best = best_response.best_response(rates, rounds, payoffs)
    # a best response is no memory-one player: its partner's reward is not needed here
    rows.append(("best response", float(best.value[0]), float(best.cooperation[0]), float("nan")))
    columns = ["opponent", "opponent_reward", "opponent_cooperation", "reward"]
    return pd.DataFrame(rows, columns=columns)


def rates_of(codes: np.ndarray) -> np.ndarray:
    """(A, 6): P(C) in the first round and after CC, CD, DC, DD, NaN where never seen, and overall;
    codes (A, n, T) in the own view."""
    seen, own = batch_play.before(codes), batch_play.own_actions(codes)
    found = np.full((len(codes), len(STATES) + 1), np.nan)
    for i in range(len(codes)):
        visits = np.bincount(seen[i].ravel(), minlength=len(STATES))
        given = np.bincount(seen[i].ravel(), weights=own[i].ravel(), minlength=len(STATES))
        known = visits > 0
        found[i, :-1][known] = given[known] / visits[known]
        found[i, -1] = own[i].mean()
    return found


def rates(actor: Actor, agents: Sequence[tuple[int, int]], settings: ShiftSettings) -> pd.DataFrame:
    """Rates of both learners of each seed in games with each other: columns seed, seat, s0, CC, CD,
    DC, DD, overall."""
    if settings.identity != "none":
        raise ValueError("rates are measured without identity")
    table = Table(settings.games, torch.empty(len(agents), 0, 5))
    names = ("actions", "decisions", "replies")
    streams = [[seeding.child(s, "ipd", "rates", k, name) for s, k in agents] for name in names]
    chance = batch_play.draws(*streams, table, settings.rounds)
    found = rates_of(batch_play.play(actor, table, chance))
    index = pd.DataFrame(list(agents), columns=["seed", "seat"])
    return pd.concat([index, pd.DataFrame(found, columns=[*STATES, "overall"])], axis=1)


def beside(table: pd.DataFrame) -> pd.DataFrame:
    """Mean rates of the agents of `rates` and those of people: columns state, agents, human."""
    people = [*tabular.HUMAN, OVERALL]
    names = [*STATES, "overall"]
    return pd.DataFrame({"state": names, "agents": table[names].mean().to_numpy(), "human": people})

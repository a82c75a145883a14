"""What a forecast rests on: the effect of deleting each past round.

For every round r that the modeller sees, in nats,

    ground(r) = KL(p(. | h) || p(. | h without round r)),

p the modeller's distribution, later rounds move up by one. The text of a round is its outcome in
the words of the game. Attention weights are not offered as explanations.

Shapes: one row per state and round; rounds counted from 1, `ago` 1 for the last one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dipllm_lib.kto import repeated
from dipllm_lib.kto.influence import Distributions, divergence
from dipllm_lib.kto.repeated import State
from dipllm_lib.kto.wiring import Module, Situation

TOP = 5


def round_text(state: State, player: int, index: int) -> str:
    """ "Round 3: own cooperate, other's defect", in the words of the game."""
    actions = state.history[index]
    own, other = state.names[actions[player]], state.names[actions[1 - player]]
    return f"Round {index + 1}: own {own}, other's {other}"


def deleted(state: State, index: int) -> State:
    """The state without one past round."""
    return replace(state, history=state.history[:index] + state.history[index + 1 :])


def grounds(
    module: Module, given: Sequence[Situation], window: int = repeated.WINDOW
) -> pd.DataFrame:
    """Rows state, round, ago, text, effect (nats) of every past round in the window."""
    known, asked = Distributions(), []
    for k, at in enumerate(given):
        count = len(at.state.history)
        for index in range(max(0, count - window), count):
            asked.append((k, at, index, deleted(at.state, index)))
    pairs = [(at.state, at.player) for at in given] + [(s, at.player) for _, at, _, s in asked]
    known.compute([(module.policy, module.context(*pair)) for pair in pairs])
    rows = []
    for k, at, index, state in asked:
        own = known.of(module.policy, module.context(at.state, at.player))
        other = known.of(module.policy, module.context(state, at.player))
        count = len(at.state.history)
        rows.append({
            "state": k,
            "round": index + 1,
            "ago": count - index,
            "text": round_text(at.state, at.player, index),
            "effect": divergence(own, other),
        })
    return pd.DataFrame(rows, columns=["state", "round", "ago", "text", "effect"])


def top(table: pd.DataFrame, state: int, count: int = TOP) -> pd.DataFrame:
    """The rounds of one state with the largest effects, largest first; of equals the later one."""
    own = table[table["state"] == state]
    return own.sort_values(["effect", "ago"], ascending=[False, True]).head(count)


def by_age(table: pd.DataFrame) -> pd.DataFrame:
    """Rows ago, states, effect: the mean effect of a round by how long ago it was."""
    rows = [
        {"ago": int(ago), "states": len(part), "effect": float(np.mean(part["effect"]))}
        for ago, part in table.groupby("ago")
    ]
    return pd.DataFrame(rows, columns=["ago", "states", "effect"])

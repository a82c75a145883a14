"""How well a language model says the orders of recorded games: loss, measures, distance.

A row is one position with the orders of all powers as branches (`gametext`); no branch sees
another one, since orders are given at the same time. The loss is the cross-entropy per token

    L = - (1 / T) sum over the T target tokens t of a batch of log p(t | board, branch up to t)

Targets are the tokens of the orders with their separators, over the whole vocabulary (`orders`) or
among the legal next tokens as at play (`legal`, where only tokens with an alternative count), or
all tokens of the row but the first over the whole vocabulary (`text`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip import gametext, text
from dipllm_lib.dip.gametext import Row
from dipllm_lib.dip.policies import Explicit
from dipllm_lib.lm import packing, scoring
from dipllm_lib.lm.backbones import DTYPES, Backbone
from dipllm_lib.run import stats

TARGETS = ("orders", "legal", "text")
EVALUATED = 8  # rows of one pass of a measurement


def targets_of(row: Row, targets: str) -> int:
    """Number of target tokens of a row."""
    if targets == "legal":
        return sum(map(len, row.decisions))
    whole = len(row.board) - 1 + sum(map(len, row.branches))
    return row.order_tokens if targets == "orders" else whole


def log_probs(
    backbone: Backbone, rows: Sequence[Row], targets: str, precision: str = "float32"
) -> torch.Tensor:
    """Log-probability (N,) of every target token of `rows`, in their order."""
    packed = packing.pack([r.board for r in rows], [r.branches for r in rows], backbone.device)
    with torch.autocast(backbone.device.type, DTYPES[precision], enabled=precision != "float32"):
        states = packing.hidden(backbone, packed)
    return _found(backbone, rows, packed, states, targets)


def _found(
    backbone: Backbone,
    rows: Sequence[Row],
    packed: packing.Packed,
    states: torch.Tensor,
    targets: str,
) -> torch.Tensor:
    """`log_probs` from the hidden states (B, T, H) of the packed rows."""
    form = _decided if targets == "legal" else _tokens
    where = [place for i, row in enumerate(rows) for place in form(packed, i, row, targets)]
    if not where:
        return states.float().sum().reshape(1)[:0]
    lines, columns, *told = zip(*where)
    device = states.device
    states = states[torch.tensor(lines, device=device), torch.tensor(columns, device=device)]
    if targets == "legal":
        legal, ranks = told
        table = torch.log_softmax(scoring.subset_logits(backbone, states, legal), -1)
        return table.gather(1, torch.tensor(ranks, device=device)[:, None])[:, 0]
    logits = states.float() @ backbone.head.float().T
    tokens = torch.tensor(told[0], device=device)
    return -torch.nn.functional.cross_entropy(logits, tokens, reduction="none")


def _tokens(packed: packing.Packed, i: int, row: Row, targets: str) -> list[tuple[int, int, int]]:
    """(row of the batch, predicting column, token) of the target tokens of row i."""
    whole = targets == "text"
    places = [(i, t - 1, row.board[t]) for t in range(1, len(row.board))] if whole else []
    for b, (branch, task) in enumerate(zip(row.branches, row.tasks, strict=True)):
        first = 0 if whole else task
        places += [(i, packed.predictor(i, b, t), branch[t]) for t in range(first, len(branch))]
    return places


def _decided(packed: packing.Packed, i: int, row: Row, _: str) -> list[tuple]:
    """(row of the batch, predicting column, legal tokens, rank) of the decisions of row i."""
    return [
        (i, packed.predictor(i, b, t), legal, rank)
        for b, decisions in enumerate(row.decisions)
        for t, legal, rank in decisions
    ]


def nats(backbone: Backbone, rows: Sequence[Row]) -> tuple[float, float]:
    """Cross-entropy of the orders of `rows` in nats per order token: over the whole vocabulary, and
    among the legal tokens.
    """
    ordered = sorted(rows, key=lambda row: row.length)
    total = np.zeros(2)
    with torch.inference_mode():
        for first in range(0, len(ordered), EVALUATED):
            part = ordered[first : first + EVALUATED]
            packed = packing.pack(
                [r.board for r in part], [r.branches for r in part], backbone.device
            )
            states = packing.hidden(backbone, packed)
            for k, targets in enumerate(("orders", "legal")):
                found = _found(backbone, part, packed, states, targets)
                total[k] -= found.double().sum().item()
    return tuple((total / sum(row.order_tokens for row in rows)).tolist())


def divergence(
    backbone: Backbone,
    games: Sequence[Mapping],
    places: Sequence[gametext.Place],
    policy: Explicit,
    rng: np.random.Generator,
    resamples: int,
) -> pd.DataFrame:
    """How far players are from the policy that played some places of saved games.

    One row each for the uniform choice among the legal orders of each unit, the model masked to
    legal orders as at play, and `policy` itself: player, nats (mean of -log p of the recorded
    joint orders), kl (mean of log policy - log p, an estimate of KL(policy || player) in nats per
    power-turn, with interval), turns.
    """
    decided = [pair for listed in gametext.decided(games, places) for pair in listed]
    turns, joints = zip(*decided)
    choices = [text.OrderChoice(turn, backbone.encode) for turn in turns]
    own = np.array([policy.log_prob(t, [joint])[0] for t, joint in decided])
    found = {
        "uniform": np.array([_uniform(t, joint) for t, joint in decided]),
        "model": _model(backbone, turns, choices, joints),
        "policy": own,
    }
    rows = []
    for name, values in found.items():
        kl, low, high = stats.mean_interval(own - values, rng, resamples)
        row = {"player": name, "nats": -values.mean(), "kl": kl, "kl_low": low, "kl_high": high}
        rows.append(row | {"turns": len(values)})
    return pd.DataFrame(rows)


def _uniform(turn, joint) -> float:
    """log-probability of a joint order when every unit chooses uniformly among its legal orders."""
    return -sum(float(np.log(len(turn.options(joint[:d])))) for d in range(turn.slots))


def _model(backbone, turns, choices, joints) -> np.ndarray:
    prompts = [backbone.encode(text.prompt(turn)) for turn in turns]
    sequences = [[c.sequence(joint)] for c, joint in zip(choices, joints, strict=True)]
    found = scoring.log_prob(backbone, prompts, choices, sequences)
    return np.array([values[0] for values in found])

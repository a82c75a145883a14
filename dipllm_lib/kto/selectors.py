"""The three selectors, after the paper's names: which decisions were good; no language model.

    heuristic   cheap and local, before any outcome
    staged      after the outcome
    verifier    exact: regret of the action against what is known to be best

All are rules: deterministic and offline. Rows of spec section 5 by role:

    role        heuristic                   staged                    verifier
    proposer    offers at most half         accepted and V > 0        regret <= eps
    responder   refuses only below half     Fehr-Schmidt utility > 0  its type's threshold
    giver       -                           V > 0 with rho = batna    regret, or what most people do
    partner     answers like with like      next five rounds > rho    regret of Q(h, a)
    bargainer   not below a refused offer   agreement and V > 0       regret <= eps
    orders      no fault of its own         SoS a year later higher   in the top q of a search

A selector returns None where it says nothing about a decision; such a decision gives no sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipllm_lib.kto import humans, labels
from dipllm_lib.kto.labels import Sample

EPSILON = 0.02  # of the scale
AHEAD = 5  # rounds of the repeated game that the staged selector looks at
HALF = 0.5
ROLES = ("proposer", "responder", "giver", "partner", "bargainer", "orders")


@dataclass(frozen=True)
class Move:
    """What a selector may know about one decision.

    sample: the decision with payoff u, rho, V · amount: what the action leaves to the other, a
    share of the pie (proposer, bargainer) · seen: what the player saw: the share offered to it, the
    partner's gift, the partner's last action (0 cooperate, 1 defect), or the largest share that was
    already refused; None if there is nothing yet · agreed: whether it was accepted · later: own
    payoffs of the rounds that follow · envy: of the responder's type · quality: (A,) exact value of
    each action, in the game's unit · faults: of an order.
    """

    sample: Sample
    amount: float | None = None
    seen: float | None = None
    agreed: bool | None = None
    later: tuple[float, ...] = ()
    envy: float | None = None
    quality: tuple[float, ...] = ()
    faults: tuple[str, ...] = ()


def _need(move: Move, name: str) -> float:
    """A fact that the selector needs; ValueError if the move has none."""
    value = getattr(move, name)
    if value is None:
        raise ValueError(f"a selector of {move.sample.role} needs `{name}` of the move")
    return value


def heuristic(move: Move) -> bool | None:
    """Cheap and local. ValueError for an unknown role; None for the giver, who has no such rule."""
    role, action = _role(move), move.sample.action
    if role == "proposer":
        return _need(move, "amount") <= HALF
    if role == "responder":
        accepts = action == 0
        return accepts or _need(move, "seen") < HALF
    if role == "partner":
        return None if move.seen is None else action == int(move.seen)
    if role == "bargainer":
        return move.seen is None or _need(move, "amount") >= move.seen
    if role == "orders":
        return not move.faults
    return None


def staged(move: Move) -> bool | None:
    """After the outcome."""
    role, sample = _role(move), move.sample
    if role == "responder":
        offer, accepts = _need(move, "seen"), sample.action == 0
        return accepts == bool(humans.fehr_schmidt(offer, _need(move, "envy")))
    if role == "partner":
        ahead = move.later[:AHEAD]
        return float(np.mean(ahead)) > sample.reference if ahead else None
    if role in ("proposer", "bargainer"):
        return bool(_need(move, "agreed")) and sample.value > 0
    return sample.value > 0


def regret(move: Move) -> float:
    """The best value of an action minus that of the chosen one, >= 0 in the game's unit."""
    quality = np.asarray(move.quality, dtype=np.float64)
    if quality.shape != (len(move.sample.context.legal),):
        raise ValueError(f"the verifier needs a value per legal text, got {quality.shape}")
    return float(quality.max() - quality[move.sample.action])


def verifier(
    move: Move, epsilon: float = EPSILON, top: float | None = None, likely: float | None = None
) -> bool | None:
    """Exact. epsilon: least regret that counts, a share of the scale.

    top: share q of the actions that count as good, for orders · likely: P(this action) of people,
    the likeness arm of the gift game: desirable if above one half.
    """
    role, sample = _role(move), move.sample
    if likely is not None:
        return likely > HALF
    if role == "responder" and move.envy is not None:
        accepts = sample.action == 0
        return accepts == bool(_need(move, "seen") >= humans.threshold(move.envy))
    if top is not None:
        quality = np.asarray(move.quality)
        better = int((quality > quality[sample.action]).sum())
        return better < max(1, round(top * len(quality)))
    return regret(move) <= epsilon * sample.scale + 1e-12


def _role(move: Move) -> str:
    if move.sample.role not in ROLES:
        raise ValueError(f"unknown role {move.sample.role!r}: use one of {', '.join(ROLES)}")
    return move.sample.role


def apply(moves: Sequence[Move], selector: str, **options) -> list[Sample]:
    """The decisions that a selector speaks about, with its labels. options: of `verifier`."""
    rules = {"heuristic": heuristic, "staged": staged, "verifier": verifier}
    if selector not in rules:
        raise ValueError(f"unknown selector {selector!r}: use one of {', '.join(rules)}")
    told = [(move.sample, rules[selector](move, **options)) for move in moves]
    return [labels.selected(sample, good, selector) for sample, good in told if good is not None]

"""The opponent modeller: what the other does next, and which member of the pool it is.

Both are answers to a prompt that shows the last eight rounds as the opponent sees them:

    Repeated game. … Mine first CD DD. I             " cooperate.", " defect."
    Repeated game. … Mine first CD DD. Partner?      " AllC.", " AllD.", …, of the pool

trained by cross-entropy on episodes of the pool. Measured per round on episodes that were never
trained on: top-1, Brier score (of P(cooperate), 0 to 1) and log loss, beside

    majority       the more frequent action of the training episodes
    repeat last    the last action again, with the share of repetitions of the training episodes
    pi_ref         the base after stage 1 at the same prompt
    Bayes          the exact posterior over the pool with all rounds in view: the ceiling

Shapes: n decisions; P(cooperate) (n,).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.kto import lm_labels, partner_types, pool, repeated
from dipllm_lib.kto.fitting import Item
from dipllm_lib.kto.policies import Context, Policy
from dipllm_lib.kto.repeated import COOPERATE, IteratedPD
from dipllm_lib.kto.trajectories import Trajectory, collect, walk
from dipllm_lib.kto.vocabulary import PARTNERS
from dipllm_lib.run import seeding, stats

TYPES = tuple(f" {name}." for name in PARTNERS)
MATRIX = np.array(list(pool.VECTORS.values()))
FLOOR = 1e-3  # probabilities are kept this far from 0 and 1 in the log loss
NEXT, TYPE = "opponent action", "opponent type"
ROUNDS = ((1, 1), (2, 4), (5, 8), (9, 16), (17, 10_000))


@dataclass(frozen=True)
class Decision:
    """One decision of a member. round from 1 · action: what it did · last: what it did before, -1
    in round 1 · bayes: P(cooperate) of the exact filter · name: of the member."""

    state: repeated.State
    seat: int
    round: int
    action: int
    last: int
    bayes: float
    name: str


def next_context(game: IteratedPD, state: repeated.State, seat: int) -> Context:
    """What will the player in `seat` do now?"""
    prompt = game.observe(state, seat)
    return Context(("next", game.infoset(state, seat)), prompt, game.legal(state, seat))


def type_context(game: IteratedPD, state: repeated.State, seat: int) -> Context:
    """Which member of the pool sits in `seat`?"""
    prompt = game.observe(state, seat).removesuffix(" I") + " Partner?"
    return Context(("type", game.infoset(state, seat)), prompt, TYPES)


def decisions(trajectories: Sequence[Trajectory], game: IteratedPD) -> list[Decision]:
    """Every decision of the member of each episode of the repeated game with a learner."""
    found = []
    for one in trajectories:
        if one.game != "repeated":
            continue
        seat = 1 - one.learner
        own = [(s, a) for s, player, a in walk(game, one) if player == seat]
        for t, (state, action) in enumerate(own):
            last = state.history[-1][seat] if state.history else -1
            bayes = partner_types.forecast(MATRIX, state, 1 - seat)
            found.append(Decision(state, seat, t + 1, action, last, bayes, one.seats[seat]))
    return found


def items(trajectories: Sequence[Trajectory], game: IteratedPD, every: int = 3) -> list[Item]:
    """Training items of both questions; the type is asked at every `every`-th round."""
    told: dict[tuple[str, Context], list[int]] = {}
    for one in decisions(trajectories, game):
        own = next_context(game, one.state, one.seat)
        told.setdefault((NEXT, own), []).append(one.action)
        if one.round % every == 0:
            own = type_context(game, one.state, one.seat)
            told.setdefault((TYPE, own), []).append(PARTNERS.index(one.name))
    return [lm_labels.plain(own, kind, actions) for (kind, own), actions in told.items()]


def baselines(training: Sequence[Decision], test: Sequence[Decision]) -> dict[str, np.ndarray]:
    """P(cooperate) (n,) of majority, repeat last and Bayes for the test decisions."""
    share = float(np.mean([one.action == COOPERATE for one in training]))
    again = float(np.mean([one.action == one.last for one in training if one.last >= 0]))
    repeat = [
        share if one.last < 0 else again if one.last == COOPERATE else 1 - again for one in test
    ]
    return {
        "majority": np.full(len(test), share),
        "repeat last": np.array(repeat),
        "Bayes": np.array([one.bayes for one in test]),
    }


def forecasts(policy: Policy, test: Sequence[Decision], game: IteratedPD) -> np.ndarray:
    """(n,) P(cooperate) of a policy at the modeller's prompts."""
    rows = policy.log_probs([next_context(game, one.state, one.seat) for one in test])
    return np.array([np.exp(row[COOPERATE]) for row in rows])


def types(policy: Policy, test: Sequence[Decision], game: IteratedPD) -> np.ndarray:
    """(n, K) probabilities of the members of the pool."""
    rows = policy.log_probs([type_context(game, one.state, one.seat) for one in test])
    return np.exp(np.array(rows))


def posteriors(test: Sequence[Decision]) -> np.ndarray:
    """(n, K) of the exact filter."""
    return np.array([partner_types.posterior(MATRIX, one.state, 1 - one.seat) for one in test])


def measures(chance: np.ndarray, test: Sequence[Decision]) -> pd.DataFrame:
    """One row per decision: round, top1, brier, log_loss (nats); `chance` (n,) P(cooperate)."""
    acted = np.array([one.action == COOPERATE for one in test])
    kept = np.clip(chance, FLOOR, 1 - FLOOR)
    return pd.DataFrame({
        "round": [one.round for one in test],
        "top1": ((chance > 0.5) == acted).astype(float),
        "brier": (chance - acted) ** 2,
        "log_loss": -np.where(acted, np.log(kept), np.log(1 - kept)),
    })


def by_round(
    found: Mapping[str, np.ndarray], test: Sequence[Decision], seed: int, resamples: int
) -> pd.DataFrame:
    """Rows forecast, rounds, decisions, then each measure with its 95 % interval over decisions."""
    rows = []
    for name, chance in found.items():
        table = measures(chance, test)
        for first, last in (*ROUNDS, (1, ROUNDS[-1][1])):
            own = table[table["round"].between(first, last)]
            if own.empty:
                continue
            label = "all" if (first, last) == (1, ROUNDS[-1][1]) else _label(first, last)
            row = {"forecast": name, "rounds": label, "decisions": len(own)}
            rng = seeding.child(seed, "kto", "opponent", name, first, last)
            for what in ("top1", "brier", "log_loss"):
                mean, low, high = stats.mean_interval(own[what], rng, resamples)
                row |= {what: mean, f"{what}_low": low, f"{what}_high": high}
            rows.append(row)
    return pd.DataFrame(rows)


def _label(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {last}" if last < ROUNDS[-1][1] else f"{first} on"


def calibration(chance: np.ndarray, test: Sequence[Decision], bins: int = 5) -> pd.DataFrame:
    """Rows low, high, decisions, forecast (mean), happened (share of cooperation)."""
    acted = np.array([one.action == COOPERATE for one in test], dtype=float)
    place = np.minimum((chance * bins).astype(int), bins - 1)
    rows = [
        {
            "low": k / bins,
            "high": (k + 1) / bins,
            "decisions": int((place == k).sum()),
            "forecast": float(chance[place == k].mean()),
            "happened": float(acted[place == k].mean()),
        }
        for k in range(bins)
        if (place == k).any()
    ]
    return pd.DataFrame(rows)


def named(found: np.ndarray, exact: np.ndarray, test: Sequence[Decision]) -> pd.DataFrame:
    """Rows rounds, decisions, right (share whose member is the most likely one), log_loss (nats of
    the true member), and the same of the exact posterior. found, exact: (n, K)."""
    truth = np.array([PARTNERS.index(one.name) for one in test])
    rounds = np.array([one.round for one in test])
    rows = []
    for first, last in (*ROUNDS, (1, ROUNDS[-1][1])):
        own = np.flatnonzero((rounds >= first) & (rounds <= last))
        if not len(own):
            continue
        label = "all" if (first, last) == (1, ROUNDS[-1][1]) else _label(first, last)
        row = {"rounds": label, "decisions": len(own)}
        for name, table in (("opponent", found), ("Bayes", exact)):
            chance = np.maximum(table[own, truth[own]], FLOOR)
            row |= {f"right_{name}": float(np.mean(table[own].argmax(1) == truth[own]))}
            row |= {f"log_loss_{name}": float(-np.log(chance).mean())}
        rows.append(row)
    return pd.DataFrame(rows)


def unseen(episodes: int, rounds: int, seed: int) -> list[Trajectory]:
    """Episodes of a uniform player against every member, drawn apart from those of stage 2."""
    matches = [
        pool.Match("repeated", ("", name), k * episodes, episodes)
        for k, name in enumerate(PARTNERS)
    ]
    return collect(matches, rounds, seed, "unseen", {}, mix=1.0)

"""The coordinator: which of the six settings the executor is told, per game and payoff window.

It reads the rules of a variant and what setting A earned of late, and answers with a letter:

    Bargaining. Pie 100. A refusal ends it with chance 10. Then both get 0. A got 44. Choose   " C."

Its reward is the mean payoff of a window of episodes that the executor plays under that letter,
over the scale of the game; `pt_kto` with the reference = setting A's payoff in the same window, so
A itself weighs nothing. Judged on variants that it never saw, by the mean over windows, beside A,
the best fixed letter of those variants, a random letter, and the letter that the cross-entropy
method (`cem.cem_settings`) finds on the training variants of the same game.

Shapes: L = 6 letters, W windows; rewards (W, L), shares of the scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.kto import cem, games, humans, labels, lm_labels, pool, prospect
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.bargaining import State as Talks
from dipllm_lib.kto.fitting import Item
from dipllm_lib.kto.games import ACCEPT, Game
from dipllm_lib.kto.gift import GiftPD
from dipllm_lib.kto.gift import State as Gift
from dipllm_lib.kto.policies import Context, Policy
from dipllm_lib.kto.pool import Answers, Mixed, Table
from dipllm_lib.kto.repeated import IteratedPD
from dipllm_lib.kto.repeated import State as Rounds
from dipllm_lib.kto.ultimatum import State as Offer
from dipllm_lib.kto.ultimatum import Ultimatum
from dipllm_lib.run import seeding, stats

LETTERS = lm_labels.LETTERS
ANSWERS = tuple(f" {letter}." for letter in LETTERS)
TRAINING, HELD_OUT = PARTS = ("training", "held out")


@dataclass(frozen=True)
class Variant:
    """A game with parameters, and whether the coordinator learns from it."""

    kind: str
    part: str
    game: Game


def variants(rounds: int) -> list[Variant]:
    """Two per game: the one the executor was trained in, and one with other parameters."""
    own, short = pool.catalogue(rounds), pool.chance(max(2, rounds // 4))
    other = {
        "ultimatum": Ultimatum(20),
        "gift": GiftPD(3),
        "repeated": IteratedPD(delta=short, window=1),
        "bargaining": AlternatingOffers(grid=10, rounds=None, go_on=0.8),
    }
    return [
        Variant(kind, part, game)
        for part, found in zip(PARTS, (own, other), strict=True)
        for kind, game in found.items()
    ]


def reachable(variant: Variant) -> list[tuple[object, int]]:
    """(state, player) of every information set of the executor's seat."""
    game = variant.game
    if variant.kind == "ultimatum":
        return [(Offer(), 0)]
    if variant.kind == "gift":
        return [(Gift(k), 1) for k in range(11)]
    if variant.kind == "repeated":
        names = ("cooperate", "defect")
        pasts = [(), *(((a, b),) for a in (0, 1) for b in (0, 1))]
        return [(Rounds(10**6, names, history=past), 0) for past in pasts]
    first = [Talks(-1, round=seat) for seat in (0, 1)]
    found = [(state, state.round) for state in first]
    seen = range(game.grid + 1)
    return found + [(Talks(-1, round=r, keep=k), 1 - r) for r in (0, 1) for k in seen]


def table(policy: Policy, variant: Variant, letter: str, forecast: str = "") -> dict:
    """Probabilities of the executor by information set under a letter."""
    places = reachable(variant)
    contexts = [lm_labels.context(variant.game, s, i, letter, forecast) for s, i in places]
    rows = policy.log_probs(contexts)
    keys = [variant.game.infoset(s, i) for s, i in places]
    return {key: np.exp(row) for key, row in zip(keys, rows, strict=True)}


def _choosers(variant: Variant, rows: Mapping, rng: np.random.Generator) -> tuple[list, int]:
    """The executor and a partner of the pool, and the executor's seat."""
    own = Table(rows)
    if variant.kind == "ultimatum":
        chances = humans.ultimatum_responder(variant.game.offers)
        return [own, Answers(tuple(chances.tolist()), ACCEPT)], 0
    if variant.kind == "gift":
        return [Mixed(), own], 1
    names = tuple(pool.VECTORS if variant.kind == "repeated" else pool.BARGAINERS)
    other = pool.member(variant.kind, names[rng.integers(len(names))], rng)
    seat = int(rng.integers(2)) if variant.kind == "bargaining" else 0
    return ([own, other], 0) if seat == 0 else ([other, own], 1)


def window(variant: Variant, rows: Mapping, episodes: int, rng: np.random.Generator) -> float:
    """Mean payoff of the executor over `episodes`, share of the scale."""
    total = 0.0
    for _ in range(episodes):
        choosers, seat = _choosers(variant, rows, rng)
        total += games.play(variant.game, choosers, rng).payoffs[seat]
    return total / episodes / variant.game.scale


def rewards(
    policy: Policy, given: Sequence[Variant], windows: int, episodes: int, seed: int
) -> list[np.ndarray]:
    """Per variant (W, L). The windows of all letters share their chance, so that a difference is
    due to the letter."""
    found = []
    for variant in given:
        tables = [table(policy, variant, letter) for letter in LETTERS]
        own = np.empty((windows, len(LETTERS)))
        for w in range(windows):
            for k, rows in enumerate(tables):
                rng = seeding.child(seed, "kto", "window", variant.kind, variant.part, w)
                own[w, k] = window(variant, rows, episodes, rng)
        found.append(own)
    return found


def context(variant: Variant, payoff: float) -> Context:
    """The coordinator's prompt. payoff: of setting A in the last window, share of the scale."""
    start = variant.game.reset(seeding.child(0, "kto", "coordinator"))
    rules = variant.game.observe(start, 0).rsplit(" I", 1)[0]
    earned = int(np.clip(round(100 * payoff), 0, 100))
    prompt = f"{rules} A got {earned}. Choose"
    return Context((variant.kind, variant.part, earned), prompt, ANSWERS)


def items(given: Sequence[Variant], found: Sequence[np.ndarray]) -> list[Item]:
    """Training items, one per variant of the training part and window, without reference."""
    prepared, sizes = [], []
    for variant, own in zip(given, found, strict=True):
        if variant.part != TRAINING:
            continue
        for row in own:
            values = prospect.value(row - row[0], labels.SETTINGS["A"].params)
            prepared.append((context(variant, row[0]), values, variant.kind))
            sizes.append(np.abs(values))
    mean = float(np.mean(sizes)) or 1.0  # all windows equal: nothing is learned, and that is said
    return [
        Item(own, np.arange(len(LETTERS)), np.abs(v) / mean, v > 0, f"coordinator {kind}")
        for own, v, kind in prepared
    ]


def judged(
    policy: Policy,
    given: Sequence[Variant],
    found: Sequence[np.ndarray],
    sizes: cem.Sizes,
    seed: int,
    resamples: int,
) -> pd.DataFrame:
    """Rows game, part, chooser, letter (most likely), payoff, and its difference from setting A
    with a 95 % interval over windows, paired: coordinator, CEM, best fixed, random, A."""
    rows = []
    training = {v.kind: own for v, own in zip(given, found, strict=True) if v.part == TRAINING}
    for variant, own in zip(given, found, strict=True):
        chances = np.exp(policy.log_probs([context(variant, row[0]) for row in own]))
        best = int(own.mean(axis=0).argmax())
        chosen = LETTERS.index(_searched(training[variant.kind], sizes, variant.kind, seed))
        kinds = {
            "coordinator": (chances * own).sum(axis=1),
            "CEM": own[:, chosen],
            "best fixed": own[:, best],
            "random": own.mean(axis=1),
            "A": own[:, 0],
        }
        letters = (LETTERS[int(chances.mean(axis=0).argmax())], LETTERS[chosen], LETTERS[best])
        shown = dict(zip(kinds, (*letters, "", "A"), strict=True))
        for name, earned in kinds.items():
            rng = seeding.child(seed, "kto", "coordinator", variant.kind, variant.part, name)
            gap = np.round(earned - own[:, 0], 9)  # sums in another order differ by 1e-17
            gain, low, high = stats.mean_interval(gap, rng, resamples)
            row = {"game": variant.kind, "part": variant.part, "chooser": name}
            row |= {"letter": shown[name], "payoff": float(earned.mean())}
            regret = float(own[:, best].mean() - earned.mean())
            rows.append(row | {"gain": gain, "low": low, "high": high, "regret": regret})
    return pd.DataFrame(rows)


def _searched(own: np.ndarray, sizes: cem.Sizes, kind: str, seed: int) -> str:
    """The letter of the cross-entropy method; a candidate's score is one window, as drawn."""
    rng = seeding.child(seed, "kto", "coordinator cem", kind)

    def score(letters: Sequence[str]) -> np.ndarray:
        picks = rng.integers(len(own), size=len(letters))
        return own[picks, [LETTERS.index(letter) for letter in letters]]

    return cem.cem_settings(score, LETTERS, rng, sizes)[0]

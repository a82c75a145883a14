"""What the coordinator chooses, window by window: panel 3 of the influence graph.

In window w of a game the executor first plays under setting A, as it did when the coordinator was
trained; the coordinator reads what that earned and answers with a letter, the most likely one; the
executor plays the window again under that letter, on the same chance. Windows are those of
notebook 09, drawn by the same names.

`references` gives rho behind each letter, a share of the scale of the game: half the pie; what the
giver has without any gift (F: what it holds after a mean gift); the mean best reply to the members,
which the verifier judges the repeated game by under all six.

Shapes: G games, W windows of each; payoffs in shares of the scale.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.kto import coordinator, pool, repeated
from dipllm_lib.kto.coordinator import LETTERS, TRAINING, Variant
from dipllm_lib.kto.policies import Policy
from dipllm_lib.run import seeding


def windows(
    executor: Policy,
    chooser: Policy,
    given: Sequence[Variant],
    count: int,
    episodes: int,
    seed: int,
) -> pd.DataFrame:
    """Rows game, window, letter, chance (its probability), payoff, payoff_a of the training
    variants among `given`."""
    rows = []
    for variant in given:
        if variant.part == TRAINING:
            rows += _game(executor, chooser, variant, count, episodes, seed)
    return pd.DataFrame(rows)


def _game(executor, chooser, variant: Variant, count: int, episodes: int, seed: int) -> list[dict]:
    tables = {"A": coordinator.table(executor, variant, "A")}
    rows = []
    for w in range(count):
        names = seed, "kto", "window", variant.kind, variant.part, w
        first = coordinator.window(variant, tables["A"], episodes, seeding.child(*names))
        row = chooser.log_probs([coordinator.context(variant, first)])[0]
        letter = LETTERS[int(np.argmax(row))]
        if letter not in tables:
            tables[letter] = coordinator.table(executor, variant, letter)
        own = coordinator.window(variant, tables[letter], episodes, seeding.child(*names))
        facts = {"game": variant.kind, "window": w, "letter": letter}
        facts |= {"chance": float(np.exp(row.max())), "payoff": own}
        rows.append(facts | {"payoff_a": first})
    return rows


def chosen(table: pd.DataFrame) -> list[tuple[str, str, float]]:
    """(game, letter, payoff) of each window, as `influence_graph.timeline` reads it."""
    return [(row.game, row.letter, row.payoff) for row in table.itertuples()]


def references(rounds: int) -> dict[str, tuple[float, float]]:
    """game -> rho under A to E, and under F."""
    games = pool.catalogue(rounds)
    own, gift = games["repeated"], games["gift"]
    best = [repeated.best_value(own, np.array(q))[0] for q in pool.VECTORS.values()]
    mean = float(np.mean(best)) / own.scale
    held = (1.0 + gift.multiplier * float(gift.gifts.mean())) / gift.scale
    return {
        "ultimatum": (0.5, 0.0),
        "gift": (gift.batna(1) / gift.scale, held),
        "repeated": (mean, mean),
        "bargaining": (0.5, 0.0),
    }

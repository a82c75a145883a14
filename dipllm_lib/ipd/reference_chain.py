"""The mechanism without learning: what the three steps give when nobody has weights.

The certainty-equivalent player with optimism k (`certainty`) infers its opponent inside the game,
as the learner of step 1 is trained to do:

    step 1   its reward on the pool, and its cooperation with a copier, quarter by quarter
    step 2   zero-determinant players of factor chi extort it
    step 3   two fixed extorters with chi > 1 give each other P, and two such learners in self-play
             hardly cooperate: what the trained agents add are the slow changes of their weights

Every number is a mean over games with a standard error; ZD players have the largest phi and open
with D. The certainty-equivalent player is deterministic, so games of two of them differ only where
their hands tremble.

Shapes: n games, T rounds.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.ipd import certainty, exact, game, tabular
from dipllm_lib.ipd.certainty import CertaintyEquivalent
from dipllm_lib.ipd.game import Episodes, Player
from dipllm_lib.ipd.seats import Trembling
from dipllm_lib.run import seeding

QUARTERS = ("first", "second", "third", "fourth")
OPTIMISM = (0.0, 0.5, 1.0, 1.5)
CHIS = (1.5, 2.0, 3.0, 5.0)
COPIERS = ("TFT", "STFT")
PAYOFFS = exact.STANDARD


def quarters(own: np.ndarray) -> dict[str, float]:
    """Cooperation in the quarters of a game, mean over games; own (n, T), T >= 4.

    Quarters of a T that 4 does not divide differ by one round.
    """
    if own.shape[1] < len(QUARTERS):
        raise ValueError(f"{own.shape[1]} rounds have no four quarters")
    parts = np.array_split(own.mean(axis=0), len(QUARTERS))
    return {name: float(part.mean()) for name, part in zip(QUARTERS, parts, strict=True)}


def _play(left: Player, right: Player, n: int, rounds: int, seed: int, *names: str) -> Episodes:
    streams = tuple(seeding.child(seed, "ipd", "reference", *names, side) for side in ("x", "y"))
    return game.play(left, right, n, rounds, streams)


def _pay(games: Episodes) -> dict[str, float]:
    """Mean payoffs of both seats with their standard errors over games, and cooperation."""
    found = {}
    for seat, name in enumerate("xy"):
        per_game = PAYOFFS.of(*games.view(seat)).mean(axis=1)
        found[f"s_{name}"] = float(per_game.mean())
        found[f"se_{name}"] = float(per_game.std(ddof=1) / np.sqrt(len(per_game)))
        found[f"cooperation_{name}"] = float(games.view(seat)[0].mean())
    return found


def step1(
    seed: int,
    rounds: int = 100,
    pool: str = "uniform",
    games: int = 4000,
    ks: Sequence[float] = OPTIMISM,
    a: float = 1.0,
) -> pd.DataFrame:
    """The learner on its own: columns k, opponent, reward, se, cooperation, and the quarters.

    Rows: `tabular`, a pool that is symmetric under C <-> D (reward by the control of
    `certainty.measured`), and each of COPIERS. a: of its prior, Beta(a, a).
    """
    drawn = tabular.sample(pool, games, seeding.child(seed, "ipd", "reference", "pool"), a)
    rows = []
    for k in ks:
        player = CertaintyEquivalent(rounds, k, a)
        names = ("ipd", "reference", "pool", "play")
        streams = tuple(seeding.child(seed, *names, side) for side in ("x", "y"))
        found = certainty.measured(player, drawn, rounds, streams)
        rows.append({"k": k, "opponent": "tabular", "reward": found.value, "se": found.se,
                     "cooperation": found.cooperation})  # fmt: skip
        for name in COPIERS:
            played = _play(player, tabular.Tabular(tabular.named(name)), 1, rounds, seed, name)
            own = played.left
            reward = float(PAYOFFS.of(*played.view(0)).mean())
            row = {"k": k, "opponent": name, "reward": reward, "se": 0.0}
            rows.append(row | {"cooperation": float(own.mean())} | quarters(own))
    return pd.DataFrame(rows)


def step2(
    seed: int,
    rounds: int = 100,
    games: int = 2000,
    ks: Sequence[float] = (0.0, 1.0),
    chis: Sequence[float] = CHIS,
) -> pd.DataFrame:
    """ZD players against the learner: columns k, chi, s_x, se_x, cooperation_x of the extorter, the
    same of the learner with _y, factor = (s_x - P)/(s_y - P), bound = 1/(phi T)."""
    rows = []
    for k in ks:
        for chi in chis:
            extorter = tabular.Tabular(tabular.zd(chi, first=0.0))
            learner = CertaintyEquivalent(rounds, k)
            found = _pay(_play(extorter, learner, games, rounds, seed, f"zd {chi} {k}"))
            factor = exact.extortion_factor(found["s_x"], found["s_y"], found["se_y"])
            bound = (1.0 + 2.0 * chi) / rounds
            row = {"k": k, "chi": chi, **found, "factor": float(factor), "bound": bound}
            rows.append(row)
    return pd.DataFrame(rows)


def step3(
    seed: int,
    rounds: int = 100,
    games: int = 500,
    ks: Sequence[float] = (0.0, 0.5, 1.0),
    chis: Sequence[float] = CHIS,
    tremble: float = 0.02,
) -> pd.DataFrame:
    """Both alike: columns pair, tremble, s_x, s_y, cooperation_x, cooperation_y, and the quarters
    of the left one's cooperation. Rows: each ZD(chi) and each learner k against itself, without and
    with trembles; of two learners without trembles all games are the same."""
    rows = []
    for chi in chis:
        zd = tabular.zd(chi, first=0.0)
        for rate in (0.0, tremble):
            shown = tabular.Tabular(tabular.tremble(zd, rate))
            played = _play(shown, shown, games, rounds, seed, f"zd zd {chi} {rate}")
            rows.append({"pair": f"ZD{chi:g}", "tremble": rate, **_pay(played),
                         **quarters(played.left)})  # fmt: skip
    for k in ks:
        for rate in (0.0, tremble):
            player = Trembling(CertaintyEquivalent(rounds, k), rate)
            count = games if rate else 2
            played = _play(player, player, count, rounds, seed, f"self {k} {rate}")
            rows.append({"pair": f"Bayes k {k:g}", "tremble": rate, **_pay(played),
                         **quarters(played.left)})  # fmt: skip
    return pd.DataFrame(rows)


def late_cooperation(
    seed: int, rounds: int, pool: str, last: int = 20, k: float = 1.0, games: int = 2000,
    a: float = 0.5,
) -> dict[str, float]:  # fmt: skip
    """Cooperation of the learner in its `last` rounds, against `AllD` and on the pool (`tabular`).

    What a player that infers and plans still concedes; a: of a pool `beta`, whose prior it has.
    """
    own = CertaintyEquivalent(rounds, k, a if pool == "beta" else 1.0)
    drawn = tabular.sample(pool, games, seeding.child(seed, "ipd", "reference", "late"), a)
    opponents = {"AllD": (tabular.named("AllD"), 1), "tabular": (drawn, games)}
    found = {}
    for name, (vectors, n) in opponents.items():
        played = _play(own, tabular.Tabular(vectors), n, rounds, seed, "late", name)
        found[name] = float(played.left[:, -last:].mean())
    return found

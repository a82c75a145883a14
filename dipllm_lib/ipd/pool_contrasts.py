"""The contrasts of Fig. 1 and Fig. 3: directions of the paper, one number per seed.

Each is stated to be positive, except those of an ablation minus its noise floor, which are expected
to hold 0. Two arms are compared seed by seed over the same phases (or iterations) at the same
noise. `late` is the last third of the phases that were probed in both arms.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from dipllm_lib.ipd import contrasts

ABLATIONS = {"identity": "Opponent ID", "no_tabular": "No Tabular"}
HIGH = 0.5  # a seed that has come to cooperate


def _x(probes: pd.DataFrame) -> str:
    return "phase" if "phase" in probes else "iteration"


def _cross(probes: pd.DataFrame, arm: str, noise: str, at: Sequence[int]) -> pd.Series:
    """Cooperation of each seed in games with the other learner, mean over `at`."""
    where = {"arm": arm, "opponent": "learner", "noise": noise, _x(probes): list(at)}
    return contrasts.by_seed(probes, "cooperation", where)


def training(
    probes: pd.DataFrame, floors: Mapping[str, float], noises: Sequence[str]
) -> dict[str, pd.Series]:
    """Fig. 1: probes of all arms -> label -> difference of each seed.

    floors: noise -> cooperation that the decision noise alone gives; noises: which of them.
    """
    x, found = _x(probes), {}
    shared = sorted(set.intersection(*(set(p[x]) for _, p in probes.groupby("arm"))))
    late, first = contrasts.last_third(shared), shared[:1]
    for noise in noises:
        mixed = _cross(probes, "mixed", noise, late)
        began = _cross(probes, "mixed", noise, first)
        found[f"mixed: late − {x} {first[0]}, noise {noise}"] = contrasts.difference(mixed, began)
        found[f"mixed: late − floor, noise {noise}"] = mixed - floors[noise]
        for arm, name in ABLATIONS.items():
            own = _cross(probes, arm, noise, late)
            found[f"mixed − {name}: late, noise {noise}"] = contrasts.difference(mixed, own)
            found[f"{name}: late − floor, noise {noise}"] = own - floors[noise]
    return found


def high(probes: pd.DataFrame, noise: str) -> tuple[int, int]:
    """(seeds of the mixed pool whose late cooperation is above one half, all seeds)."""
    x = _x(probes)
    late = contrasts.last_third(probes.loc[probes["arm"] == "mixed", x])
    found = _cross(probes, "mixed", noise, late)
    return int((found > HIGH).sum()), len(found)


def above_all_d(probes: pd.DataFrame, noises: Sequence[str]) -> dict[str, pd.Series]:
    """Late reward against tabular agents minus that of AllD against the same ones, per arm."""
    x, found = _x(probes), {}
    gain = probes.assign(gain=probes["reward"] - probes["alld"])
    for arm in gain["arm"].unique():
        late = contrasts.last_third(gain.loc[gain["arm"] == arm, x])
        for noise in noises:
            where = {"arm": arm, "opponent": "tabular", "noise": noise, x: late}
            label = f"{ABLATIONS.get(arm, arm)}: reward − AllD, noise {noise}"
            found[label] = contrasts.by_seed(gain, "gain", where)
    return found


def half_height(probes: pd.DataFrame, noise: str = "on") -> int:
    """First probe of the mixed pool at which the mean cooperation of learners with each other has
    come half the way from its lowest to its last value; the first probe if it never falls short.
    """
    x = _x(probes)
    own = probes[(probes["arm"] == "mixed") & (probes["opponent"] == "learner")]
    curve = own[own["noise"] == noise].groupby(x)["cooperation"].mean()
    middle = (curve.min() + curve.iloc[-1]) / 2
    lowest = curve.index.get_loc(curve.idxmin())
    rising = curve.iloc[lowest:]
    return int(rising.index[(rising >= middle).to_numpy()][0])


def within(rounds: pd.DataFrame, at: int) -> dict[str, pd.Series]:
    """Fig. 3: curves inside a game at probe `at` of the mixed pool -> differences of each seed."""
    x = _x(rounds)
    own = rounds[(rounds["arm"] == "mixed") & (rounds[x] == at)]
    length = int(own["round"].max())
    last, first = (own["round"] > 3 * length / 4), (own["round"] <= length / 4)

    def mean(opponent: str, some: pd.Series) -> pd.Series:
        return own[some & (own["opponent"] == opponent)].groupby("seed")["cooperation"].mean()

    learner = contrasts.difference(mean("learner", last), mean("learner", first))
    tft = contrasts.difference(mean("TFT", last), mean("tabular", last))
    return {
        "with the learner: last quarter − first": learner,
        "last quarter: with TFT − with average tabular": tft,
    }

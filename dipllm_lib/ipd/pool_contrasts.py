"""The contrasts of Fig. 1 and Fig. 3: directions of the paper, one number per seed; and `reached`,
the plain table of what A2C came to.

Each is stated to be positive, except those of an ablation minus its noise floor, which are expected
to hold 0. Two arms are compared seed by seed over the same phases (or iterations) at the same
noise. `late` is the last third of the phases that were probed: of the mixed pool, or, between arms,
of those that all have in common.
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
    whole = sorted(set(probes.loc[probes["arm"] == "mixed", x]))
    for noise in noises:
        end = _cross(probes, "mixed", noise, contrasts.last_third(whole))
        began = _cross(probes, "mixed", noise, whole[:1])
        found[f"mixed: late − {x} {whole[0]}, noise {noise}"] = contrasts.difference(end, began)
        found[f"mixed: late − floor, noise {noise}"] = end - floors[noise]
        late = contrasts.last_third(shared)
        mixed = _cross(probes, "mixed", noise, late)
        for arm, name in ABLATIONS.items():
            own = _cross(probes, arm, noise, late)
            found[f"mixed − {name}: late, noise {noise}"] = contrasts.difference(mixed, own)
            found[f"{name}: late − floor, noise {noise}"] = own - floors[noise]
    return found


def literal(probes: pd.DataFrame, noise: str = "on") -> dict[str, pd.Series]:
    """Beta as printed against beta as a temperature, on the seeds of the arm `literal`.

    The null: cooperation does not move over the phases, and is not the defection with which the
    paper's curves begin.
    """
    own = probes[probes["arm"] == "literal"]
    probes = probes[probes["seed"].isin(own["seed"].unique())]
    read = probes[probes["arm"] == "mixed"]
    shared = sorted(set(own["phase"]) & set(read["phase"]))
    first, last = (_cross(probes, "literal", noise, [k]) for k in (shared[0], shared[-1]))
    begun = _cross(probes, "mixed", noise, shared[:1])
    where = {"arm": "literal", "opponent": "tabular", "noise": noise, "phase": shared}
    earned = contrasts.by_seed(own.assign(gain=own["reward"] - own["alld"]), "gain", where)
    return {
        f"literal: phase {shared[-1]} − phase {shared[0]}": contrasts.difference(last, first),
        f"literal − temperature: phase {shared[0]}": contrasts.difference(first, begun),
        "literal: reward − AllD": earned,
    }


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


def reached(probes: pd.DataFrame, noise: str = "off") -> pd.DataFrame:
    """How far each arm of A2C has come at its last probe, played at `noise`; means over learners.

    Columns arm, seeds, iteration, with_learner (cooperation), best (the highest such value of a
    seed at any probe), tft_early, tft_late (cooperation with TFT in the first 5 and the last 20
    rounds), gain (reward from tabular agents minus that of AllD).
    """
    own, found = probes[probes["noise"] == noise], []
    for arm, part in own.groupby("arm", sort=False):
        last = part[part["iteration"] == part["iteration"].max()].set_index("opponent")
        met = part[part["opponent"] == "learner"]
        tabular, tft = last.loc["tabular"], last.loc["TFT"]
        found.append({
            "arm": arm, "seeds": part["seed"].nunique(), "iteration": part["iteration"].max(),
            "with_learner": last.loc["learner", "cooperation"].mean(),
            "best": met.groupby(["seed", "iteration"])["cooperation"].mean().max(),
            "tft_early": tft["early"].mean(), "tft_late": tft["late"].mean(),
            "gain": (tabular["reward"] - tabular["alld"]).mean(),
        })  # fmt: skip
    return pd.DataFrame(found)

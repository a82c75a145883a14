"""Notebook 10c: tables of the objectives, from the rows of `objective_tasks` and by enumeration.

Unit of every interval is the seed. Contrasts are stated to be positive, with the verdicts of
`ipd.contrasts`: shown, reversed, open.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.ipd import contrasts
from dipllm_lib.kto import humans, objective_tasks, proposers, prospect, training, variants
from dipllm_lib.kto.prospect import ProspectParams
from dipllm_lib.run import stats
from dipllm_lib.run.profiles_kto import KTOSettings

CELLS = tuple((rho, lam) for rho in (0.05, 0.3, 0.5) for lam in (1.0, 2.25, 3.2))
WEIGHTS = {  # name -> objective and balance
    "|V|": ("pt_kto", "none"),
    "unit": ("kto", "none"),
    "|V|, counts balanced": ("pt_kto", "counts"),
    "|V|, masses balanced": ("pt_kto", "masses"),
}
SHARES = tuple(k / 10 for k in range(11))
LOOKS = {"expected value": (0.0, None), "ARTICLE, rho .5": (0.5, prospect.ARTICLE)}
Lines = dict[str, pd.Series]


def summary(
    rows: Sequence[Mapping],
    keys: Sequence[str],
    measures: Sequence[str],
    rng: np.random.Generator,
    resamples: int,
) -> pd.DataFrame:
    """Columns keys, and x, x_low, x_high of each measure over seeds, and seeds; a seed counts with
    the mean of its rows. Keys in the order in which they come."""
    table = pd.DataFrame(rows)
    found = []
    for name, part in table.groupby(list(keys), sort=False):
        line = dict(zip(keys, name, strict=True))
        for measure in measures:
            own = part.groupby("seed")[measure].mean()
            ends = stats.mean_interval(own, rng, resamples)
            line |= dict(zip((measure, f"{measure}_low", f"{measure}_high"), ends, strict=True))
        found.append(line | {"seeds": part["seed"].nunique()})
    return pd.DataFrame(found)


def same_data(rows: Sequence[Mapping], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Every arm on fixed and on own data: value, its share of the best, and the commonest offer."""
    keys = ["regime", "reference", "arm"]
    table = summary(rows, keys, ["value"], rng, resamples)
    table["share"] = table["value"] / humans.offer_values().max()
    offers = pd.DataFrame(rows).groupby(keys, sort=False)["offer"].agg(_commonest)
    return table.merge(offers.reset_index(), on=keys)


def _commonest(values: pd.Series) -> float:
    """The most frequent value, the smallest of equals."""
    return float(values.mode().min())


def cells(settings: KTOSettings) -> pd.DataFrame:
    """The nine cells of reference and lambda, by exact expectations, under each kind of weight."""
    params = [ProspectParams(0.88, 0.92, lam) for _, lam in CELLS]
    values = proposers.prospect_values([rho for rho, _ in CELLS], params)
    game = proposers.Proposers(np.tile(proposers.people(), (len(CELLS), 1)), values)
    best, rows = humans.offer_values().max(), []
    for name, (objective, balance) in WEIGHTS.items():
        used = objective_tasks.objective(settings, objective, balance)
        found = training.train(game, used, settings.objective_rounds)
        for k, (rho, lam) in enumerate(CELLS):
            value = float(found.scores[-1, k])
            offers = {
                "offer": float(proposers.OFFERS[found.probs[k].argmax()]),
                "mean_offer": float(found.probs[k] @ proposers.OFFERS),
            }
            head = {"weights": name, "rho": rho, "lam": lam}
            rows.append(head | offers | {"value": value, "share": value / best})
    return pd.DataFrame(rows)


def mixture(settings: KTOSettings) -> pd.DataFrame:
    """Over the share q of partners that accept every positive offer: the best offer, and those of a
    proposer trained in this pool and of one whose own learning responder takes the share; exact."""
    used, rounds = objective_tasks.objective(settings), settings.objective_rounds
    rows = []
    for look, (rho, params) in LOOKS.items():
        own = params or prospect.NEUTRAL
        values = proposers.prospect_values([rho] * len(SHARES), [own] * len(SHARES))
        accept = np.stack([proposers.mixed(q) for q in SHARES])
        pool = training.train(proposers.Proposers(accept, values), used, rounds)
        for k, q in enumerate(SHARES):
            learned = proposers.self_play(q, rho, own, used, rounds)
            rows.append({
                "value_function": look,
                "share": q,
                "best": proposers.best_offer(q, rho, params),
                "pool": float(proposers.OFFERS[pool.probs[k].argmax()]),
                "self_play": float(proposers.OFFERS[learned.probs[0].argmax()]),
            })
    return pd.DataFrame(rows)


def switches() -> pd.DataFrame:
    """Columns value_function, share, before, after: where the best offer moves; exact."""
    rows = []
    for look, (rho, params) in LOOKS.items():
        for q, before, after in proposers.switch_points(rho, params):
            rows.append({"value_function": look, "share": q, "before": before, "after": after})
    return pd.DataFrame(rows)


def exact(rows: Sequence[Mapping], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Learned value beside the exact one, per game and case; gap = exact - value."""
    added = [row | {"gap": row["exact"] - row["value"]} for row in rows]
    table = summary(added, ["game", "case"], ["value", "gap"], rng, resamples)
    worst = pd.DataFrame(added).assign(size=lambda t: t["gap"].abs())
    sizes = worst.groupby(["game", "case"], sort=False)["size"].max().reset_index()
    known = worst.groupby(["game", "case"], sort=False)["exact"].mean().reset_index()
    joined = table.merge(known, on=["game", "case"]).merge(sizes, on=["game", "case"])
    return joined.rename(columns={"size": "largest_gap"})


def meta(rows: Sequence[Mapping], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Held-out scores by type: ARTICLE, the parameters of CEM, the setting that it chose."""
    table = summary(
        rows, ["type", "objective"], ["article", "cem", "setting", "lam", "rho"], rng, resamples
    )
    letters = pd.DataFrame(rows).groupby("type", sort=False)["letter"].agg(lambda s: s.mode()[0])
    return table.merge(letters.reset_index(), on="type")


def _by(rows: Sequence[Mapping], measure: str, column: str, **where) -> pd.DataFrame:
    """seed x values of `column`: means of `measure` over the rows that `where` selects."""
    table = pd.DataFrame(rows)
    for name, value in where.items():
        table = table[table[name] == value]
    return table.pivot_table(index="seed", columns=column, values=measure)


def objective_lines(rows: Sequence[Mapping]) -> Lines:
    """Of `same_data`: signs, weights, and PT-KTO against every other objective."""
    best = humans.offer_values().max()
    own = _by(rows, "value", "arm", regime="own data", reference="equal split")
    low = _by(rows, "value", "arm", regime="own data", reference="low")
    start = _by(rows, "start", "arm", regime="own data", reference="equal split")
    lines = {
        "pt_kto: value − 98 % of the best": own["pt_kto"] - proposers.PASS * best,
        "start − literal sign": start["literal_sign"] - own["literal_sign"],
        "low reference: |V| − unit weights": low["pt_kto"] - low["kto"],
        "unit weights: equal split − low reference": own["kto"] - low["kto"],
    }
    for regime in ("own data", "fixed data"):
        table = _by(rows, "value", "arm", regime=regime, reference="low")
        for arm in ("sft", "wmle", "wmle, mean V", "a2c", "kto", "pt_pair"):
            lines[f"{regime}, low reference: pt_kto − {arm}"] = table["pt_kto"] - table[arm]
    return lines


def label_lines(rows: Sequence[Mapping]) -> Lines:
    """Regret per round of trajectory labels minus that of each kind of step label."""
    table = _by(rows, "regret", "arm")
    arms = [arm for arm in objective_tasks.STEPS if arm != "trajectory"]
    return {f"regret: trajectory − {arm}": table["trajectory"] - table[arm] for arm in arms}


def pool_lines(rows: Sequence[Mapping]) -> Lines:
    """Pool over self-play over no play, from people and from responders nobody has met."""
    lines = {}
    for judge, name in (("people", "people"), ("held_out", "held-out responders")):
        table = _by(rows, judge, "arm")
        lines[f"{name}: pool − self-play"] = table["pool"] - table["self-play"]
        lines[f"{name}: self-play − no play"] = table["self-play"] - table["no play"]
    return lines


def meta_lines(rows: Sequence[Mapping]) -> Lines:
    """Held-out score of the parameters of CEM, and of the chosen setting, minus ARTICLE's."""
    lines = {}
    for kind, aim in variants.TYPES.items():
        own = pd.DataFrame([r for r in rows if r["type"] == kind]).set_index("seed")
        lines[f"{kind}, {aim}: CEM − ARTICLE"] = own["cem"] - own["article"]
        lines[f"{kind}, {aim}: best setting − ARTICLE"] = own["setting"] - own["article"]
    return lines


def judged(
    asked: Mapping[str, Lines], rng: np.random.Generator, resamples: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers of all questions with their verdicts, and the value of each seed; first column
    asked."""
    answers, values = [], []
    for name, lines in asked.items():
        for kept, part in (
            (answers, contrasts.judged(lines, rng, resamples)),
            (values, contrasts.per_seed(lines)),
        ):
            part.insert(0, "asked", name)
            kept.append(part)
    return pd.concat(answers, ignore_index=True), pd.concat(values, ignore_index=True)

"""Notebook 10b: the experiments beyond the paper, from a profile's settings to their tables.

One base run: amortised PPI in the mixed pool, smaller than that of notebook 04. It belongs to the
question `shift`, which is always asked; every other question of `social` changes one thing about
the base run and is asked if the settings name it. A setting that belongs to several questions, as
the base run does, is trained once:

    wanted = tasks(settings, seed, folder)
    results = [social_runs.run(task) for task in once(wanted)]
    found = spread(wanted, results)

`found` has a result for every question and setting, in the form of `social_runs.run`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.ipd import human, mixed_pool, public_goods, social, social_tables, tabular
from dipllm_lib.ipd.game import STATES
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.ipd.public_goods import PublicGoods
from dipllm_lib.ipd.social import Plan, Task
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles import IPDSettings

BASE = "shift"  # the question of the base run


def base(settings: IPDSettings) -> PPISettings:
    """The base run: a learned Q and one token a round in every profile, so that three players,
    other payoffs and other noise change nothing else."""
    sizes = {
        name: getattr(settings, f"social_{name}")
        for name in ("first_trajectories", "first_steps", "trajectories", "steps", "phases")
    }
    own = mixed_pool.ppi(replace(settings, q="head", input="joint", **sizes))
    return social.with_pool(own, settings.social_pool)


def tasks(settings: IPDSettings, seed: int, folder: Path | str) -> list[Task]:
    """The tasks of the base run and of all questions of the settings, in the order of QUESTIONS.

    ValueError for an unknown question.
    """
    wanted = settings.social_questions
    made = _makers(settings)
    unknown = sorted(set(wanted) - set(made))
    if unknown:
        raise ValueError(f"unknown questions {unknown}: use some of {', '.join(made)}")
    plan = _plan(settings, seed, folder)
    shifted = replace(
        plan, shift_games=settings.social_shift_games, axelrod=settings.social_axelrod
    )
    own = base(settings)
    found = social.tasks(BASE, {settings.social_pool: own}, shifted)
    for question in social.QUESTIONS:
        if question in wanted:
            found += made[question](own, shifted if question == "diversity" else plan)
    return found


def _plan(settings: IPDSettings, seed: int, folder: Path | str) -> Plan:
    return Plan(
        tuple(seed * mixed_pool.SEEDS + k for k in range(settings.social_seeds)),
        str(folder),
        settings.seeds_together,
        settings.social_probe_games,
        settings.social_probe_every,
    )


def _makers(settings: IPDSettings) -> dict[str, Callable[[PPISettings, Plan], list[Task]]]:
    """Question -> (base run, plan) -> tasks."""
    own = settings

    def cost(run: PPISettings, plan: Plan) -> list[Task]:
        a2c = replace(mixed_pool.a2c(own), pool=run.pool)
        return social.cost(run, plan, a2c, own.social_rollouts)

    return {
        "diversity": lambda run, plan: social.diversity(run, plan, own.social_pools),
        "mixing": lambda run, plan: social.mixing(run, plan, own.social_shares),
        "exploration": lambda run, plan: social.exploration(run, plan, own.social_exploration),
        "payoffs": lambda run, plan: social.payoffs(run, plan, own.social_ratios),
        "goods": lambda run, plan: social.goods(run, plan, own.social_factors),
        "sizes": lambda run, plan: social.sizes(
            run, plan, own.social_widths, own.social_transformer
        ),
        "cost": cost,
    }


def once(wanted: Sequence[Task]) -> list[Task]:
    """One task for each run: the first of those with the same settings and seeds."""
    found: dict[tuple, Task] = {}
    for task in wanted:
        found.setdefault((task.own, task.seeds), task)
    return list(found.values())


def spread(wanted: Sequence[Task], results: Sequence[dict]) -> list[dict]:
    """The result of every task, results being those of `once`, named by its question and setting.

    Tables of the pool shift stay with the tasks that asked for them.
    """
    runs = once(wanted)
    by = {(task.own, task.seeds): one for task, one in zip(runs, results, strict=True)}
    found = []
    for task in wanted:
        one = by[task.own, task.seeds]
        kept = one["tables"]
        if not task.plan.shift_games:
            kept = {name: kept[name] for name in ("training", "probes")}
        named = {"question": task.question, "setting": task.setting, "tables": kept}
        found.append(one | named)
    return found


def of(found: Sequence[dict], question: str) -> list[dict]:
    """The results of one question, none if it was not asked."""
    return [one for one in found if one["question"] == question]


def listed(wanted: Sequence[Task]) -> pd.DataFrame:
    """What is asked: question, settings (names), runs (of a seed, those that are trained for it
    first), in the order of the questions."""
    rows, new = {}, once(wanted)
    for task in wanted:
        row = rows.setdefault(task.question, {"settings": {}, "runs": 0})
        row["settings"][task.setting] = None
        row["runs"] += len(task.seeds) * any(task is one for one in new)
    return pd.DataFrame([
        {
            "question": social.QUESTIONS[name],
            "settings": ", ".join(row["settings"]),
            "runs": row["runs"],
        }
        for name, row in rows.items()
    ])  # fmt: skip


def by_question(found: Sequence[dict], make: Callable[[list[dict]], pd.DataFrame]) -> pd.DataFrame:
    """Tables of each question's results under one another; first column `asked`, its short name."""
    parts = []
    for name in dict.fromkeys(one["question"] for one in found):
        part = make(of(found, name))
        parts.append(part.drop(columns="question", errors="ignore"))
        parts[-1].insert(0, "asked", name)
    return pd.concat(parts, ignore_index=True)


def rows(table: pd.DataFrame, question: str) -> pd.DataFrame:
    """The rows of one question, by its short name; none if it was not asked."""
    return table[table["asked"] == question].drop(columns="asked")


def curves(found: Sequence[dict]) -> pd.DataFrame:
    """Cooperation of the learners with each other over training, at half noise (`on` where there is
    no half): asked, setting, seed, phase, cooperation (mean of seats)."""
    rows = []
    for one in found:
        curve = social_tables.learners(one)
        for at in curve.index:
            for seed in curve.columns:
                value = float(curve.loc[at, seed])
                rows.append((one["question"], one["setting"], int(seed), int(at), value))
    return pd.DataFrame(rows, columns=["asked", "setting", "seed", "phase", "cooperation"])


def shifted(found: Sequence[dict]) -> dict[str, dict]:
    """Training pool -> the tables of the pool shift of all its seeds, joined."""
    with_shift = [one for one in found if "shift" in one["tables"]]
    pools = dict.fromkeys(one["setting"] for one in with_shift)
    tables = {}
    for pool in pools:
        own = [one for one in with_shift if one["setting"] == pool]
        asked = own[0]["question"]  # the base run may be there a second time
        own = [one for one in own if one["question"] == asked]
        names = ("shift", "cross", "rates")
        tables[pool] = {name: _numbers(social_tables.joined(own, name)) for name in names}
    return tables


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """A column without any value is one of missing numbers, not of objects."""
    return table.astype({name: np.float64 for name in table if table[name].isna().all()})


def regrets(
    shift: dict[str, dict], level: str, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Every training pool against every set of opponents at a noise level: trained, opponent,
    regret with interval over seeds, reward, best, alld, cooperation, other_cooperation, seeds.
    Opponents without an exact best response have no regret, and its interval is missing."""
    rows = []
    for pool, tables in shift.items():
        table = tables["shift"][tables["shift"]["noise"] == level]
        for opponent, part in table.groupby("opponent", sort=False):
            seeds = part.groupby("seed").mean(numeric_only=True)
            row = {"trained": pool, "opponent": opponent, "regret": float("nan")}
            row |= {"regret_low": float("nan"), "regret_high": float("nan")}
            if seeds["regret"].notna().all():
                estimate = stats.mean_interval(seeds["regret"], rng, resamples)
                row |= dict(zip(("regret", "regret_low", "regret_high"), estimate, strict=True))
            for name in ("reward", "best", "alld", "cooperation", "other_cooperation"):
                row[name] = float(seeds[name].mean())
            rows.append(row | {"seeds": len(seeds)})
    return pd.DataFrame(rows)


def rates(shift: dict[str, dict], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """P(C) in the first round, after CC, CD, DC, DD, and overall: who (a training pool, or people),
    state, mean, low, high over seeds, seeds; a rate of no seed that saw the outcome is missing."""
    rows = []
    for pool, tables in shift.items():
        seeds = tables["rates"].groupby("seed").mean(numeric_only=True)
        for state in (*STATES, "overall"):
            seen, estimate = seeds[state].dropna(), (float("nan"),) * 3
            if len(seen):
                estimate = stats.mean_interval(seen, rng, resamples)
            rows.append((pool, state, *estimate, len(seen)))
    for state, rate in zip((*STATES, "overall"), (*tabular.HUMAN, human.OVERALL), strict=True):
        rows.append(("people", state, rate, rate, rate, 0))
    return pd.DataFrame(rows, columns=["who", "state", "mean", "low", "high", "seeds"])


def cost(found: Sequence[dict]) -> pd.DataFrame:
    """CPU seconds of one seed, from results of `once`: asked, setting, seeds, first (pre-training;
    settings that begin alike share one, which counts for each), phases (all of them, probes
    excluded), until (median until cooperation with the noise of training passes one half; infinite
    where more than half of the seeds never do)."""
    table = social_tables.cost(found)
    until = social_tables.price(table).set_index("setting")["seconds"]
    rows = []
    for name in dict.fromkeys(one["setting"] for one in found):
        own = [one for one in found if one["setting"] == name]
        count = table.loc[table["setting"] == name, "seed"].nunique()
        first = sum(one["seconds"][0] for one in own if one["learner"] == "ppi") / count
        total = sum(sum(one["seconds"]) for one in own) / count
        rows.append((own[0]["question"], name, count, first, total - first, until[name]))
    columns = ["asked", "setting", "seeds", "first", "phases", "until"]
    return pd.DataFrame(rows, columns=columns)


def goods_check(
    factors: Sequence[float], rounds: int, games: int, rng: np.random.Generator
) -> pd.DataFrame:
    """The exact chain of the public good against simulation and, where there is one, a formula:
    r, agents, formula, exact, simulated, se (of it): reward per round of the first of three."""
    drawn = public_goods.sample("uniform", 3, rng)
    rows = []
    for r in factors:
        goods = PublicGoods(r)
        trios = {
            "three AllC": (("AllC",) * 3, r - 1),
            "AllC beside two AllD": (("AllC", "AllD", "AllD"), r / 3 - 1),
            "three random": (("random",) * 3, (r - 1) / 2),
            "three draws of the pool": (None, float("nan")),
        }
        for name, (kinds, formula) in trios.items():
            agents = list(drawn) if kinds is None else [public_goods.named(k) for k in kinds]
            exact = float(public_goods.finite(agents, rounds, goods)[0][0, 0])
            players = [public_goods.Tabular(agent) for agent in agents]
            actions = public_goods.play(players, games, rounds, rng.spawn(3))
            paid = goods.of(actions)[..., 0].mean(axis=1)
            se = float(paid.std(ddof=1) / np.sqrt(games))
            rows.append((r, name, formula, exact, float(paid.mean()), se))
    return pd.DataFrame(rows, columns=["r", "agents", "formula", "exact", "simulated", "se"])


def gains(settings: IPDSettings, seed: int) -> pd.DataFrame:
    """`social_tables.gains` of the pools of the settings, that of the base run among them."""
    pools = dict.fromkeys((*settings.social_pools, settings.social_pool))
    rng = seeding.child(seed, "ipd", "beyond", "gains")
    return social_tables.gains(tuple(pools), settings.rounds, rng)

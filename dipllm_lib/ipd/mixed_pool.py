"""Notebook 04: trainings in the mixed pool, from a profile's settings to tables of all arms.

A task trains one arm of one learner for a block of seeds, keeps what it needs to go on after every
phase (PPI) or block of iterations (A2C), and returns plain lists. Learners: `ppi`, amortised PPI
with the learned Q of the settings; `literal`, the same with beta as printed, for a few phases;
`mc`, PPI with Monte-Carlo rollouts inside the model, on its own pool and with fewer games; `a2c`;
`remedy`, A2C with one of a2c_settings.REMEDIES, which is the arm.

Tables of both learners have the columns arm, seed, seat, opponent, noise, cooperation, reward and
phase or iteration, so that `figures` and `contrasts` read them alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from dipllm_lib.ipd import a2c_runs, a2c_settings, evaluate, ppi_runs, ppi_settings
from dipllm_lib.ipd.a2c_settings import A2CSettings, Linear
from dipllm_lib.ipd.evaluate import ProbeSettings
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.run.profiles import IPDSettings

LEARNERS = ("ppi", "literal", "mc", "a2c", "remedy")
SEEDS = 1000  # seed s of a run trains agents s * 1000, s * 1000 + 1, ...
A2C_SEEDS = 10  # A2C's begin here: its recipe was tuned on seed 0


def ppi(settings: IPDSettings, arm: str = "mixed") -> PPISettings:
    """Settings of an arm of (amortised) PPI."""
    model = ModelSettings(
        core="gru", input=settings.input, hidden=settings.hidden, rounds=settings.rounds,
        q_head=settings.q == "head",
    )  # fmt: skip
    found = PPISettings(
        model,
        rounds=settings.rounds,
        pool=settings.pool,
        first_games=settings.first_trajectories,
        games=settings.trajectories,
        phases=settings.phases,
        first_steps=settings.first_steps,
        steps=settings.steps,
        batch=settings.batch,
        reinit=settings.reinit,
        lr=settings.lr,
        late_rate=settings.late_rate,
        q=settings.q,
        noise=settings.noise,
        rollouts=settings.rollouts,
        improvement=settings.improvement,
        rollout_reward="payoff" if settings.input == "joint" else "head",
        gate=settings.gate or math.inf,
    )
    found = ppi_settings.arm(found, arm)
    return replace(found, phases=settings.identity_phases) if arm == "identity" else found


def literal(settings: IPDSettings) -> PPISettings:
    """Amortised PPI in the mixed pool with beta read as printed, an inverse temperature of 0.01."""
    return replace(ppi(settings), improvement="literal", phases=settings.literal_phases)


def mc(settings: IPDSettings) -> PPISettings:
    """PPI with rollouts inside the model, in the mixed pool of `mc_pool`."""
    found = ppi(replace(settings, q="mc", rollouts=settings.mc_rollouts))
    sizes = {"games": settings.mc_trajectories, "phases": settings.mc_phases}
    sizes |= {"first_games": settings.mc_first_trajectories, "common": settings.mc_common}
    return replace(found, pool=settings.mc_pool, **sizes)


def a2c(settings: IPDSettings, arm: str = "mixed") -> A2CSettings:
    """Settings of an arm of A2C."""
    model = ModelSettings(
        core="gru", input=settings.input, hidden=settings.hidden, rounds=settings.rounds,
        q_head=False, learner="a2c",
    )  # fmt: skip
    found = A2CSettings(
        model,
        games=settings.a2c_batch,
        lr=settings.a2c_lr,
        lam_gae=settings.a2c_lam,
        lam_td=settings.a2c_lam,
        reward_scale=settings.a2c_reward_scale,
        entropy=Linear(*settings.a2c_entropy, settings.a2c_entropy_over),
        iterations=settings.a2c_iterations,
        block=settings.a2c_block,
        advantage_norm=settings.a2c_advantage_norm,
        pool=settings.a2c_pool,
        prediction=settings.a2c_prediction,
        chunk=settings.a2c_chunk,
    )
    return a2c_settings.arm(found, arm)


def remedy(settings: IPDSettings, name: str) -> A2CSettings:
    """Settings of a remedy of A2C."""
    return a2c_settings.remedy(a2c(settings), name)


@dataclass(frozen=True)
class Task:
    """One arm of one learner for some seeds. folder: keeps it until the notebook is complete."""

    learner: str
    arm: str
    settings: IPDSettings
    seeds: tuple[int, ...]
    folder: str

    def __post_init__(self) -> None:
        if self.learner not in LEARNERS:
            raise ValueError(f"unknown learner {self.learner!r}: use {', '.join(LEARNERS)}")

    @property
    def key(self) -> str:
        """A name for files and tasks."""
        return f"{self.learner}.{self.arm}.{self.seeds[0]}-{self.seeds[-1]}"


def tasks(
    learner: str, arms: Sequence[str], settings: IPDSettings, seed: int, folder: Path | str
) -> list[Task]:
    """The tasks of some arms, blocks of `seeds_together` seeds each."""
    counts = {"ppi": settings.seeds, "literal": settings.literal_seeds}
    counts |= {"mc": settings.mc_seeds, "a2c": settings.a2c_seeds}
    counts["remedy"] = settings.a2c_remedy_seeds
    count = counts[learner]
    first = seed * SEEDS + (A2C_SEEDS if learner in ("a2c", "remedy") else 0)
    seeds = list(range(first, first + count))
    size = settings.seeds_together
    blocks = [tuple(seeds[i : i + size]) for i in range(0, count, size)]
    return [Task(learner, arm, settings, block, str(folder)) for arm in arms for block in blocks]


def run(task: Task) -> dict:
    """Train; {learner, arm, steps, seconds, tables}: environment steps of all agents, CPU seconds,
    and `training`, `probes`, `rounds` as columns and data.
    """
    found = _a2c(task) if task.learner in ("a2c", "remedy") else _ppi(task)
    parts = {name: plain(table.assign(arm=task.arm)) for name, table in found.pop("tables").items()}
    return {"learner": task.learner, "arm": task.arm, "tables": parts} | found


def plain(table: pd.DataFrame) -> dict:
    """Columns and data, JSON-able: what is missing is None."""
    found = table.astype(object).where(table.notna(), None).to_dict("split", index=False)
    return {name: found[name] for name in ("columns", "data")}


def joined(found: Sequence[dict], name: str) -> pd.DataFrame:
    """Table `name` of the results of `run`, one under the other."""
    parts = [pd.DataFrame(one["tables"][name]["data"], columns=one["tables"][name]["columns"])
             for one in found]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def probe_settings(settings: IPDSettings, pool: str, identity: str) -> ProbeSettings:
    """The probes of an arm."""
    return ProbeSettings(settings.rounds, settings.probe_games, pool=pool, identity=identity)


def _pool(settings: PPISettings | A2CSettings, default: str) -> str:
    """Where opponents of a probe come from; those of the arm without any, from the usual pool."""
    return default if settings.pool == ppi_settings.NO_POOL else settings.pool


def _ppi(task: Task) -> dict:
    settings = task.settings
    special = {"mc": mc, "literal": literal}
    own = special[task.learner](settings) if task.learner in special else ppi(settings, task.arm)
    probes = probe_settings(settings, _pool(own, settings.pool), own.identity)
    phases = tuple(sorted({*range(1, own.phases + 1, settings.probe_every), own.phases}))
    levels = tuple(evaluate.NOISE) if own.q == "head" else ("on",)
    wanted = ppi_runs.Task(
        own, task.seeds, probes, phases, levels=levels, folder=Path(task.folder) / task.key
    )
    found = ppi_runs.train(wanted)
    agents = 2 * len(task.seeds)
    rounds = found.rounds[found.rounds["noise"] == "on"]
    tables = {"training": training(found.phases), "probes": found.probes, "rounds": rounds}
    steps = agents * own.rounds * (own.first_games + own.games * own.phases)
    gap = float(found.phases["gap"].max()) if math.isfinite(own.gate) else None
    return {"steps": steps, "seconds": float(found.seconds.sum()), "gap": gap, "tables": tables}


def training(phases: pd.DataFrame) -> pd.DataFrame:
    """`PPI.table` as rows of seed, phase, seat, opponent, noise `on`, cooperation, reward and those
    of the opponent; only opponents that were met."""
    parts = []
    for opponent in ("learner", "tabular"):
        own = phases[["seed", "phase"]].assign(seat=phases["learner"], opponent=opponent)
        own["noise"] = "on"
        for name in ("cooperation", "reward", "other_cooperation", "other_reward"):
            own[name] = phases[f"{opponent}_{name}"]
        parts.append(own[own["cooperation"].notna()])
    return pd.concat(parts, ignore_index=True)


def _a2c(task: Task) -> dict:
    settings, of = task.settings, {"a2c": a2c, "remedy": remedy}[task.learner]
    own = of(settings, task.arm)
    blocks = -(-own.iterations // own.block)
    probed = {*range(settings.a2c_probe_blocks, blocks, settings.a2c_probe_blocks), blocks}
    wanted = a2c_runs.Task(
        own,
        task.seeds,
        probe_settings(settings, own.pool, own.identity),
        tuple(sorted(probed)),
        folder=Path(task.folder) / task.key,
    )
    found = a2c_runs.train(wanted)
    rounds = found.rounds[found.rounds["noise"] == "off"]
    tables = {"training": found.training, "probes": found.probes, "rounds": rounds}
    steps = len(found.trained.agents) * own.model.rounds * own.games * own.iterations
    return {"steps": steps, "seconds": float(found.seconds.sum()), "gap": None, "tables": tables}


def cost(found: Sequence[dict]) -> pd.DataFrame:
    """Columns learner, arm, steps (environment steps of all agents), seconds (CPU), steps_a_second,
    summed over blocks."""
    names = ("learner", "arm", "steps", "seconds")
    table = pd.DataFrame([{name: one[name] for name in names} for one in found])
    table = table.groupby(["learner", "arm"], sort=False)[["steps", "seconds"]].sum().reset_index()
    return table.assign(steps_a_second=table["steps"] / table["seconds"])

"""Amortised PPI in the public goods game of three: a mixed pool with one player more.

The loop is that of `ppi`; what differs are the games. In a share of them a learner meets its
partner and one random memory-one agent, in the others two of these. D_0 holds games of three random
memory-one agents. The model sees seven codes and predicts, for either own action, how many of the
others give; Q is the learned head.

    settings = setting(base, r=2.0)
    run = PublicGoodsPPI(settings, ppi.pairs(seeds))
    run.pretrain(); run.advance(); …

Shapes: A learners, n games of each, T rounds.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.ipd import evaluate, ppi_data, ppi_runs, public_goods, public_goods_games
from dipllm_lib.ipd.ppi import MEASURES, PPI, pairs
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.ipd.public_goods import PLAYERS, PublicGoods
from dipllm_lib.run import seeding

POOL = "tabular"
# What a probe plays: the third beside two learners, or None, and the two beside one.
PROBES = {
    "learner, tabular": (POOL, None),
    "learner, AllC": ("AllC", None),
    "learner, AllD": ("AllD", None),
    "learner, all": ("all", None),
    "tabular, tabular": (None, POOL),
    "all, all": (None, "all"),
    "AllC, AllC": (None, "AllC"),
    "AllD, AllD": (None, "AllD"),
}


def setting(base: PPISettings, r: float = 2.0) -> PPISettings:
    """The settings of a run of PPI for the public goods game with factor r, without a gate."""
    model = replace(base.model, players=PLAYERS)
    return replace(base, model=model, payoffs=PublicGoods(r), gate=float("inf"))


class PublicGoodsPPI(PPI):
    """PPI whose games are public goods games; `state` and `resume` are those of PPI."""

    def _check(self) -> None:
        super()._check()
        if self.settings.model.players != PLAYERS or self.rival is not None:
            raise ValueError("public goods of three need settings of `setting`, and no rival")

    def _pool(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return public_goods.sample(self.settings.pool, n, rng, self.settings.a)

    def _random(self) -> tuple[np.ndarray, None]:
        n, found = self.settings.first_games, []
        for agent in self.agents:
            rng = ppi_data.generator(agent, "D0")
            players = [public_goods.Tabular(self._pool(rng, n)) for _ in range(PLAYERS)]
            actions = public_goods.play(players, n, self.settings.rounds, rng.spawn(PLAYERS))
            found.append(public_goods.observed(actions)[..., 0])
        return np.stack(found), None

    def _collect(self, phase: int) -> tuple[np.ndarray, None, int]:
        settings = self.settings
        sizes = settings.learner_games, settings.tabular_games, settings.rounds

        def stream(i: int, purpose: str) -> np.random.Generator:
            return ppi_data.generator(self.agents[i], purpose, phase)

        games = public_goods_games.seats(len(self.agents), self._pool, self._pool, sizes, stream)
        codes = public_goods_games.play(self.actor(phase), games)
        return codes, None, settings.learner_games

    def _means(self, codes: np.ndarray) -> np.ndarray:
        return public_goods_games.means(codes, self.settings.payoffs)

    def probe(self, games: int, levels: Sequence[str] = tuple(evaluate.NOISE)) -> np.ndarray:
        """(A, L, O, 4) MEASURES at the present phase at each noise level against each of PROBES,
        the same opponents and random numbers at all levels."""
        found = np.empty((len(self.agents), len(levels), len(PROBES), len(MEASURES)))
        for o, (name, kinds) in enumerate(PROBES.items()):
            third, both = (self._players(kind) for kind in kinds)
            sizes = (games, 0) if both is None else (0, games)

            def stream(i: int, purpose: str, name: str = name) -> np.random.Generator:
                seed, seat = self.agents[i]
                names = "ipd", "public goods probe", seat, name, purpose, self.phase
                return seeding.child(seed, *names)

            seated = (third or both, both or third, (*sizes, self.settings.rounds), stream)
            played = public_goods_games.seats(len(self.agents), *seated)
            for k, level in enumerate(levels):
                actor = self.actor(self.phase, evaluate.NOISE[level])
                found[:, k, o] = self._means(public_goods_games.play(actor, played))
        return found

    def _players(self, kind: str | None):
        """(generator, n) -> agents (n, 7) of a kind of PROBES, or None."""
        if kind is None:
            return None
        if kind == POOL:
            return self._pool
        return lambda _, n: np.tile(public_goods.named(kind), (n, 1))


@dataclass(frozen=True)
class Task:
    """A block of seeds. probe_games: of a learner per opponent and noise level · probe_phases ·
    folder: where the block is kept after every phase, None keeps nothing."""

    settings: PPISettings
    seeds: tuple[int, ...]
    probe_games: int
    probe_phases: tuple[int, ...] = ()
    folder: Path | None = None


@dataclass(frozen=True, eq=False)
class Result:
    """phases: PPI.table · probes: columns seed, phase, seat, opponent (of PROBES), noise and those
    of MEASURES · seconds: CPU seconds of pre-training and of each phase without its probe."""

    phases: pd.DataFrame
    probes: pd.DataFrame
    seconds: np.ndarray


def train(task: Task) -> Result:
    """Run a block to its last phase; a stopped one goes on with the next and returns the same."""
    run, seconds, probes = _begin(task)
    while run.phase < task.settings.phases:
        start = time.process_time()
        if run.phase < 0:
            run.pretrain()
        else:
            run.advance()
        seconds = np.append(seconds, time.process_time() - start)
        if run.phase in task.probe_phases:
            probes[run.phase] = run.probe(task.probe_games)
        _keep(task, run, seconds, probes)
    tables = [_table(run, phase, found) for phase, found in sorted(probes.items())]
    joined = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    return Result(run.table(), joined, seconds)


def _begin(task: Task) -> tuple[PublicGoodsPPI, np.ndarray, dict[int, np.ndarray]]:
    agents = pairs(task.seeds)
    if task.folder is None or not (task.folder / "state.npz").exists():
        return PublicGoodsPPI(task.settings, agents), np.empty(0), {}
    kept = ppi_runs.load(task.folder / "state.npz")
    for k in range(int(kept["phase"]) + 1):
        kept |= ppi_runs.load(task.folder / f"data.{k}.npz")
    seconds = kept.pop("seconds")
    done = [k for k in task.probe_phases if k <= int(kept["phase"])]
    probes = {k: ppi_runs.load(task.folder / f"probe.{k}.npz")["means"] for k in done}
    return PublicGoodsPPI.resume(task.settings, agents, kept), seconds, probes


def _keep(task: Task, run: PublicGoodsPPI, seconds: np.ndarray, probes: dict) -> None:
    """Write what is new, the state last: a probe or games without it count for nothing."""
    if task.folder is None:
        return
    if run.phase in probes:
        ppi_runs.save(task.folder / f"probe.{run.phase}.npz", {"means": probes[run.phase]})
    found = run.state(games=(run.phase,))
    data = {name: found.pop(name) for name in list(found) if name.startswith(ppi_runs.DATA)}
    ppi_runs.save(task.folder / f"data.{run.phase}.npz", data)
    ppi_runs.save(task.folder / "state.npz", found | {"seconds": seconds})


def _table(run: PublicGoodsPPI, phase: int, found: np.ndarray) -> pd.DataFrame:
    rows = []
    for i, k, o in np.ndindex(found.shape[:3]):
        (seed, seat), level = run.agents[i], tuple(evaluate.NOISE)[k]
        keys = dict(zip(evaluate.KEYS, (seed, phase, seat, list(PROBES)[o], level), strict=True))
        rows.append(keys | dict(zip(MEASURES, found[i, k, o].tolist(), strict=True)))
    return pd.DataFrame(rows)

"""Predictive policy improvement (PPI) of all seeds and learners in one stack.

Algorithm 1 of Weis, Woelczyk et al. 2026, for each learner, k = 1, 2, …:

    1. new weights phi_k (`reinit`), or those of the phase before
    2. fit p_phi to D_{k-1}                                                  (2)-(5), `ppi_fit`
    3. collect N games R_k with the improved policy of phi_k                 (1), `ppi_q`
    4. D_k = D_{k-1} with R_k; nothing is dropped

D_0 holds games of two random tabular agents (`ppi_data`). What is reported at phase k is R_k, so
phase 1 is the improved policy of a model that has seen D_0 only. With the learned Q of `q = head`
the method is amortised PPI, which is ours.

    run = ppi.PPI(settings, ppi.pairs(seeds))
    run.pretrain()                     # weights, D_0, steps 1 and 2 of phase 1, and the gap
    while run.phase < settings.phases:
        run.advance()                  # one phase
        keep(run.state())

`state` after any of these is plain arrays; `PPI.resume` goes on from them and gives the bytes of an
unbroken run, since every draw has a generator that is named by seed, learner, purpose and phase.

Agents i and i xor 1 are partners. Shapes: A agents, T rounds.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import batch_play, models, ppi_data, ppi_fit, ppi_q
from dipllm_lib.ipd.ppi_settings import PPISettings

AGENT = ("seed", "learner")
KINDS = ("learner", "tabular")
MEASURES = ("cooperation", "reward", "other_cooperation", "other_reward")
COLUMNS = (
    *(f"{kind}_{measure}" for kind in KINDS for measure in MEASURES),
    *(f"{part}_loss" for part in ppi_fit.PARTS),
)


def pairs(seeds: Sequence[int], learners: int = 2) -> list[tuple[int, int]]:
    """(seed, learner) of each agent of a stack, the learners of a seed side by side."""
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ValueError(f"need one or more distinct seeds, got {list(seeds)}")
    return [(seed, learner) for seed in seeds for learner in range(learners)]


class PPI:
    """A stack of agents between two phases. phase: the number of finished ones, -1 before D_0."""

    def __init__(
        self,
        settings: PPISettings,
        agents: Sequence[tuple[int, int]],
        rival: batch_play.Actor | None = None,
    ):
        """
        agents: (seed, learner) of each, partners side by side
        rival: A frozen agents that take the place of the partners; rival i meets agent i only
        """
        self.settings, self.agents, self.rival = settings, list(agents), rival
        self._check()
        torch.set_flush_denormal(True)  # of this process: denormals slow the products down
        capacity = settings.first_games + settings.phases * settings.games
        identified = settings.identity != "none"
        self.store = ppi_data.Store(len(self.agents), capacity, settings.rounds, identified)
        self.phase = -1
        self.gap = np.full(len(self.agents), np.nan)  # nats per round above the prediction limit
        self.rows: list[np.ndarray] = []  # one (A, columns) per phase
        self.fitted: dict[str, np.ndarray] = {}  # losses (A,) at the end of the latest fit
        self._fresh(0)

    def _check(self) -> None:
        if not self.agents or len(set(self.agents)) != len(self.agents):
            raise ValueError("a stack needs one or more distinct agents (seed, learner)")
        seeds = [seed for seed, _ in self.agents]
        paired = len(seeds) % 2 == 0 and seeds[::2] == seeds[1::2]
        if self.settings.learner_games and self.rival is None and not paired:
            raise ValueError(
                "games against the other learner need two learners of each seed side by side,"
                f" got {self.agents}: use ppi.pairs, tabular_share = 1, or a rival"
            )
        if self.settings.other_payoffs is not None and any(
            learner != i % 2 for i, (_, learner) in enumerate(self.agents)
        ):
            raise ValueError("learners with payoffs of their own must be 0 and 1 of each seed")
        if self.rival is not None and self.settings.q == "env":
            raise ValueError("q 'env' knows partners and tabular opponents only, not a rival")

    def _fresh(self, phase: int) -> None:
        """New weights and a new optimiser state."""
        streams = ppi_data.generators(self.agents, "weights", phase)
        self.stack = models.build(self.settings.model, streams)
        self.adam = ppi_fit.optimiser(self.stack, self.settings)

    def pretrain(self, games: np.ndarray | None = None, z: np.ndarray | None = None) -> None:
        """D_0, the first fit, and its gap to the prediction limit on held-out games.

        games: codes (A, first_games, T) in the place of D_0, as a step of the mechanism that
        carries the data of the step before; z (A, first_games, 10) with identity. ValueError if
        this run has its D_0, or for another number of games.
        """
        if self.phase >= 0:
            raise ValueError("this run has its D_0 already: call advance")
        settings = self.settings
        if games is None:
            games, z = self._random()
        if games.shape[1] != settings.first_games:
            raise ValueError(f"got {games.shape[1]} games, first_games is {settings.first_games}")
        self.store.add(games, z)
        self.fitted = self._fit(1, settings.first_steps)
        self.phase = 0
        if np.isfinite(settings.gate):
            self.gap = self.measured_gap()

    def _random(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Codes and z of D_0."""
        n = self.settings.first_games
        return ppi_data.random_games(self.agents, self.settings, n, "D0")[:2]

    def measured_gap(self) -> np.ndarray:
        """(A,) loss of the opponent's action in fresh D_0 games, above that of the best predictor
        on the same games, nats per round."""
        settings = self.settings
        games = ppi_data.random_games(self.agents, settings, settings.gate_games, "held out")
        loss = ppi_fit.held_out(self.stack, *games[:2], settings)["reply"]
        return loss - ppi_data.limit(settings, games[0], games[2])

    def _fit(self, phase: int, steps: int) -> dict[str, np.ndarray]:
        """Step 2 of a phase. steps 0: `epochs` passes over D."""
        settings, count = self.settings, self.store.count
        first = max(count - settings.window * settings.games, 0) if settings.window else 0
        steps = steps or -(-settings.epochs * (count - first) // settings.batch)
        streams = ppi_data.generators(self.agents, "batches", phase)
        return ppi_fit.fit(self.stack, self.adam, self.store, streams, steps, settings, first)

    def advance(self) -> np.ndarray:
        """One phase; the codes uint8 (A, N, T) of its games, those against learners first.

        ValueError before `pretrain`, after the last phase, or where the gate of pre-training is not
        passed.
        """
        self._gate()
        phase, settings = self.phase + 1, self.settings
        if phase > settings.phases:
            raise ValueError(f"all {settings.phases} phases are done")
        if phase > 1:
            if settings.reinit:
                self._fresh(phase)
            self.fitted = self._fit(phase, settings.steps)
        codes, z, learners = self._collect(phase)
        self.store.add(codes, z)
        self.rows.append(self._measure(codes, learners))
        self.phase = phase
        return codes

    def _collect(self, phase: int) -> tuple[np.ndarray, np.ndarray | None, int]:
        """Codes and z of the games R_k, and how many of them, the first, are against learners."""
        games = ppi_data.tables(self.agents, self.settings, phase, self.rival is not None)
        table, chance, luck = games
        rival = None if self.rival is None else (self.rival, luck)
        codes = batch_play.play(self.actor(phase), table, chance, rival)
        return codes, None if table.z is None else table.z.numpy(), table.learners

    def _gate(self) -> None:
        if self.phase < 0:
            raise ValueError("this run has no D_0 yet: call pretrain")
        bad = np.flatnonzero(~(self.gap <= self.settings.gate))
        if np.isfinite(self.settings.gate) and len(bad):
            named = ", ".join(f"{self.agents[i]}: {self.gap[i]:.4f}" for i in bad)
            raise ValueError(
                f"pre-training stopped above the prediction limit by more than"
                f" {self.settings.gate} nats, (seed, learner) {named}: give it more steps"
            )

    def actor(self, phase: int, scale: float = 1.0, purpose: str = "rollouts") -> ppi_q.Improved:
        """The agents as they play now. scale: of the decision noise · phase, purpose: names of the
        rollouts' generators."""
        streams = ppi_data.generators(self.agents, purpose, phase)
        now = replace(self.settings, noise=self.settings.noise_at(phase))
        return ppi_q.Improved(self.stack, now, scale, streams)

    def _measure(self, codes: np.ndarray, learners: int) -> np.ndarray:
        """(A, columns) of the games of a phase; NaN where there is none."""
        found = np.full((len(codes), len(COLUMNS)), np.nan)
        for k, part in enumerate((codes[:, :learners], codes[:, learners:])):
            if part.shape[1]:
                found[:, 4 * k : 4 * k + 4] = self._means(part)
        for k, name in enumerate(ppi_fit.PARTS):
            if name in self.fitted:
                found[:, 4 * len(KINDS) + k] = self.fitted[name]
        return found

    def _means(self, codes: np.ndarray) -> np.ndarray:
        """(A, 4) of MEASURES of the games codes (A, n, T)."""
        return measures(codes, self.settings)

    def table(self) -> pd.DataFrame:
        """One row per phase and agent: seed, learner, phase, gap, and COLUMNS."""
        parts = []
        for k, row in enumerate(self.rows):
            part = pd.DataFrame(self.agents, columns=list(AGENT))
            part["phase"], part["gap"] = k + 1, self.gap
            parts.append(pd.concat([part, pd.DataFrame(row, columns=list(COLUMNS))], axis=1))
        empty = pd.DataFrame(columns=[*AGENT, "phase", "gap", *COLUMNS])
        return pd.concat(parts, ignore_index=True) if parts else empty

    def state(self, games: Sequence[int] | None = None) -> dict[str, np.ndarray]:
        """Everything that the next phase depends on, as arrays with the agents on the first axis;
        `phase` and `step` are numbers. `data.0` is D_0, `data.k` the games of phase k.

        games: the phases whose games are wanted, all by default; those of a phase never change.
        """
        if self.phase < 0:
            raise ValueError("nothing to keep before pretrain")
        found = {"phase": np.array(self.phase), "gap": self.gap.copy()}
        found["rows"] = np.stack(self.rows, 1) if self.rows else np.empty((len(self.agents), 0, 0))
        found |= {f"fitted.{name}": value.copy() for name, value in self.fitted.items()}
        for name, weight in self.stack.named_parameters():
            moments = self.adam.state[weight]
            found[f"weight.{name}"] = weight.detach().numpy().copy()
            found[f"first.{name}"] = moments["exp_avg"].numpy().copy()
            found[f"second.{name}"] = moments["exp_avg_sq"].numpy().copy()
            found["step"] = np.array(moments["step"].item())
        for k in range(self.phase + 1) if games is None else games:
            found[f"data.{k}"] = self.store.codes[:, self._games(k)].copy()
            if self.store.z is not None:
                found[f"z.{k}"] = self.store.z[:, self._games(k)].copy()
        return found

    def _games(self, phase: int) -> slice:
        """Where the store has the games of a phase, 0 for D_0."""
        last = self.settings.first_games + phase * self.settings.games
        return slice(last - self.settings.games if phase else 0, last)

    @classmethod
    def resume(
        cls,
        settings: PPISettings,
        agents: Sequence[tuple[int, int]],
        state: dict[str, np.ndarray],
        rival: batch_play.Actor | None = None,
    ) -> "PPI":
        """A run that goes on from `state`. ValueError where arrays of another run do not fit."""
        run = cls(settings, agents, rival)
        run.phase, run.gap = int(state["phase"]), state["gap"].copy()
        if len(run.gap) != len(run.agents) or run.phase > settings.phases:
            raise ValueError(
                f"this state has {len(run.gap)} agents and {run.phase} phases, the run"
                f" {len(run.agents)} and {settings.phases}"
            )
        run.rows = [state["rows"][:, k].copy() for k in range(state["rows"].shape[1])]
        run.fitted = {k[7:]: v.copy() for k, v in state.items() if k.startswith("fitted.")}
        for k in range(run.phase + 1):
            run.store.add(state[f"data.{k}"], state.get(f"z.{k}"))
        run._take_weights(state)
        return run

    @torch.no_grad()
    def _take_weights(self, state: dict[str, np.ndarray]) -> None:
        for name, weight in self.stack.named_parameters():
            given = state.get(f"weight.{name}")
            if given is None or given.shape != tuple(weight.shape):
                raise ValueError(f"this state has no weights {name} of {tuple(weight.shape)}")
            weight.copy_(torch.from_numpy(given))
            self.adam.state[weight] = {
                "step": torch.tensor(float(state["step"])),
                "exp_avg": torch.from_numpy(state[f"first.{name}"].copy()),
                "exp_avg_sq": torch.from_numpy(state[f"second.{name}"].copy()),
            }


def measures(codes: np.ndarray, settings: PPISettings) -> np.ndarray:
    """(A, 4) cooperation and reward of the agent, then of its opponent; codes (A, n, T) of learners
    0, 1, 0, 1, … where these have different payoffs."""
    own, other = batch_play.own_actions(codes), batch_play.other_actions(codes)
    rows = []
    for i, (x, y) in enumerate(zip(own, other, strict=True)):
        paid, theirs = settings.payoffs_of(i % 2).of(x, y), settings.payoffs_of(1 - i % 2).of(y, x)
        rows.append([value.mean(dtype=np.float64) for value in (x, paid, y, theirs)])
    return np.array(rows)

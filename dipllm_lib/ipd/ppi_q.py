"""Action values of PPI and the improved policy.

Eq. 1 (= 6) of Weis, Woelczyk et al. 2026, for the two actions C and D:

    pi(a|x) = p_phi(a|x) exp(beta Q(x, a)) / Z
    log pi(C)/pi(D) = log p_phi(C)/p_phi(D) + beta (Q(C) - Q(D))

Printed with beta = 0.01 as an "inverse temperature" this does nothing, |Q(C) - Q(D)| being a few
units; with 0.01 as a temperature it is an arg max (`improvement`).

Q(x, a) is the expected return over H = 15 rounds, the present one included, when a is played now
and later own actions follow the prior p_phi, not pi (App. C). Three ways to it:

    mc     the mean of K rollouts inside p_phi: replies from its reply head, then one step of its
           core per round
    env    the same with the true opponent: a tabular agent's own probabilities, or the partner's
           network. The partner's later actions follow its prior too, since its improved policy
           would ask for rollouts inside rollouts
    head   a learned Q (amortised PPI): Q(C) - Q(D) plus N(0, sigma^2) at every decision, the noise
           that about K = 2 * 4.3^2 / sigma^2 independent rollouts would have

Shapes: A agents, n games, K rollouts per action.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dipllm_lib.ipd import game
from dipllm_lib.ipd.batch_play import SWAP, Table
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.ipd.models import Stack
from dipllm_lib.ipd.ppi_settings import PPISettings

SCALE = 0.1  # the Q head predicts SCALE times the return
CHUNK = 512  # games of an agent, or branches of its rollouts, that are stepped side by side


def improve(own: torch.Tensor, difference: torch.Tensor, settings: PPISettings) -> torch.Tensor:
    """Log-odds of C under Eq. 1. own: log-odds of the prior · difference: Q(C) - Q(D)."""
    beta = 1.0 / settings.beta if settings.improvement == "temperature" else settings.beta
    return own.clamp(-settings.clamp, settings.clamp) + beta * difference


def noise_floor(noise: float) -> float:
    """P(C) of an arg max over Q with N(0, noise^2) on Q(C) - Q(D) = -1: Phi(-1 / noise).

    -1 is the cost of one C against an opponent that does not respond. 0 without noise.
    """
    return 0.5 * math.erfc(1.0 / (noise * math.sqrt(2.0))) if noise > 0 else 0.0


def returns(codes: np.ndarray, settings: PPISettings) -> np.ndarray:
    """(…, T - H + 1) float32 discounted sums over H rounds from each round that has H rounds left.

    codes: uint8 (…, T) rounds in the own view; (A, …, T) of learners 0, 1, 0, 1, … where these have
    different payoffs.
    """
    index = codes.astype(np.int64) - 1
    if settings.other_payoffs is None:
        rewards = settings.payoffs.by_state[index]
    else:
        pay = [settings.payoffs_of(i % 2).by_state for i in range(len(codes))]
        rewards = np.stack([own[part] for own, part in zip(pay, index, strict=True)])
    windows = np.lib.stride_tricks.sliding_window_view(rewards, settings.horizon, axis=-1)
    weights = settings.discount ** np.arange(settings.horizon)
    return (windows @ weights).astype(np.float32)


def paid(payoffs: Payoffs) -> torch.Tensor:
    """(5,) float32 own reward of the round behind each code, 0 for s0."""
    return torch.tensor([0.0, *payoffs.by_state.tolist()])


def branch(state: Any, k: int) -> Any:
    """A model's state with every game k times in a row, (A, n, …) -> (A, n k, …)."""
    return _each(lambda x: x.repeat_interleave(k, dim=1), state)


def first_games(state: Any, count: int) -> Any:
    """A model's state of the first `count` games of every agent."""
    return _each(lambda x: x[:, :count], state)


def _each(change: Callable[[torch.Tensor], torch.Tensor], state: Any) -> Any:
    """The state, a tensor or (named) tuples of tensors and None, with every tensor changed."""
    if torch.is_tensor(state):
        return change(state)
    if state is None:
        return None
    parts = (_each(change, part) for part in state)
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def uniforms(streams: Sequence[np.random.Generator], n: int, settings: PPISettings) -> torch.Tensor:
    """(H, 2, A, n * 2K) float32: for each round of each branch one number for the opponent's reply
    and one for the own next action. Branches of a game: K for C, then K for D; with `common` both
    actions have the same numbers."""
    k, common = settings.rollouts, settings.common
    size = (settings.horizon, 2, n, 1 if common else 2, k)
    rows = np.stack([s.random(size, np.float32) for s in streams], axis=2)
    if common:
        rows = np.concatenate([rows, rows], axis=4)
    return torch.from_numpy(rows.reshape(*rows.shape[:3], n * 2 * k))


class Inside:
    """The opponent as the own model predicts it (`mc`)."""

    def __init__(self, reply: torch.Tensor, copies: int):
        """reply: (A, n, 2) logits of the opponent's C given own C and own D, at the present."""
        self.reply = reply.repeat_interleave(copies, dim=1)

    def probability(self, own: torch.Tensor) -> torch.Tensor:
        """P(C) (A, branches) of the opponent's action in the round in which `own` is played."""
        return torch.sigmoid(torch.where(own, self.reply[..., 0], self.reply[..., 1]))

    def advance(self, obs: torch.Tensor, heads: dict[str, torch.Tensor]) -> None:
        """The round is over: obs (A, branches), heads of the own model after it."""
        self.reply = heads["reply"]


class Outside:
    """The true opponents (`env`)."""

    def __init__(
        self, stack: Stack, state: Any, own: torch.Tensor, obs: torch.Tensor, table: Table, k: int
    ):
        """state, own (A, n): states and prior log-odds of all agents in the present round, obs
        (A, n) what they see; k: branches of each game."""
        p = table.learners
        self.stack, self.p = stack, p * k
        self.partner = torch.arange(own.shape[0]) ^ 1
        self.state = branch(first_games(state, p), k)
        self.prior = own[:, :p].repeat_interleave(k, dim=1)
        self.vectors = table.vectors.repeat_interleave(k, dim=1)
        self.seen = SWAP[obs].repeat_interleave(k, dim=1)

    def probability(self, own: torch.Tensor) -> torch.Tensor:
        """P(C) (A, branches); the opponent does not see `own` before it has acted."""
        tabular = self.vectors.gather(2, self.seen[:, self.p :, None])[..., 0]
        if not self.p:
            return tabular
        return torch.cat([torch.sigmoid(self.prior)[self.partner], tabular], dim=1)

    def advance(self, obs: torch.Tensor, heads: dict[str, torch.Tensor]) -> None:
        """Each agent's network takes one round of the games of its partner, in its own view."""
        self.seen = SWAP[obs]
        if self.p:
            theirs = self.seen[self.partner, : self.p]
            features, self.state = self.stack.step(self.state, theirs)
            self.prior = self.stack.read(features)["own"]


def rollout_difference(
    stack: Stack,
    state: Any,
    world: Inside | Outside,
    chance: torch.Tensor,
    settings: PPISettings,
) -> torch.Tensor:
    """(A, n) Monte-Carlo estimate of Q(C) - Q(D), the mean over K rollouts of each action.

    state: of the own model at the present round, (A, n, …) · chance: of `uniforms`.
    """
    k, (agents, branches) = settings.rollouts, chance.shape[2:]
    begin = torch.arange(2 * k) < k  # K branches begin with C, K with D
    action = begin.repeat(branches // (2 * k)).expand(agents, -1)
    state, total = branch(state, 2 * k), torch.zeros(agents, branches)
    reward = paid(settings.payoffs)
    for r in range(settings.horizon):
        last, weight = r + 1 == settings.horizon, settings.discount**r
        other = chance[r, 0] < world.probability(action)
        obs = game.DD - 2 * action.long() - other.long()
        if settings.rollout_reward == "payoff":
            total += weight * reward[obs]
            if last:
                break
        features, state = stack.step(state, obs)
        heads = stack.read(features)
        if settings.rollout_reward == "head":
            total += weight * heads["reward"]
        if not last:
            world.advance(obs, heads)
            action = chance[r, 1] < torch.sigmoid(heads["own"])
    mean = total.view(agents, -1, 2, k).mean(dim=3)
    return mean[..., 0] - mean[..., 1]


class Improved:
    """A stack of agents that plays the improved policy: an Actor of `batch_play`."""

    def __init__(
        self,
        stack: Stack,
        settings: PPISettings,
        scale: float = 1.0,
        streams: Sequence[np.random.Generator] = (),
    ):
        """
        scale: of the decision noise; 1 as in training, 0.5 half, 0 none. With rollouts the noise
            is that of K: a scale s takes K / s^2 of them, and 0 is refused with ValueError
        streams: one generator per agent, of the rollouts; not used by `head`
        """
        self.stack, self.settings, self.streams = stack, _scaled(settings, scale), streams
        self.branches = 1 if settings.q == "head" else 2 * self.settings.rollouts
        self.chunk = max(CHUNK // self.branches, 1)
        self.table: Table | None = None

    def start(self, table: Table) -> Any:
        """The state of table.n games of each agent."""
        self.table = table
        return self.stack.start(table.n, table.z)

    def act(
        self, state: Any, obs: torch.Tensor, u: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, Any]:
        """C where u < P(C) of the improved policy (or of the prior)."""
        features, state = self.stack.step(state, obs)
        heads = self.stack.read(features)
        odds = heads["own"].clamp(-self.settings.clamp, self.settings.clamp)
        if self.settings.behaviour == "improved":
            odds = improve(odds, self.difference(state, heads, obs, noise), self.settings)
        return u < torch.sigmoid(odds), state

    def difference(self, state: Any, heads: dict, obs: torch.Tensor, noise) -> torch.Tensor:
        """(A, n) Q(C) - Q(D) with the noise of this decision, in units of reward."""
        if self.settings.q == "head":
            value = (heads["q"][..., 0] - heads["q"][..., 1]) / SCALE
            return value + self.settings.noise * noise
        if self.settings.q == "mc":
            world = Inside(heads["reply"], self.branches)
        else:
            world = Outside(self.stack, state, heads["own"], obs, self.table, self.branches)
        chance = uniforms(self.streams, obs.shape[1], self.settings)
        return rollout_difference(self.stack, state, world, chance, self.settings)


def _scaled(settings: PPISettings, scale: float) -> PPISettings:
    """The settings with the decision noise times `scale`."""
    if scale < 0 or (scale == 0 and settings.q != "head" and settings.behaviour == "improved"):
        raise ValueError(f"noise scale {scale}: rollouts are never without noise, use scale > 0")
    if settings.q == "head":
        return replace(settings, noise=settings.noise * scale)
    return replace(settings, rollouts=max(round(settings.rollouts / scale**2), 1))

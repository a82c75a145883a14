"""What the stack of agents costs, beside one plain model per agent in a loop over agents.

The plain model has the same weights and heads in torch's own layers: a `GRUCell` per round, as a
reader would write it, or `nn.GRU` over whole episodes. Each agent has its own optimiser and its own
clipping. What is measured, with the settings of the profile cpu (GRU 32, 50 rounds, batches of 128
games) and two learners for each of ten seeds:

    training     a step of the fit: forward, losses, backward, clip, AdamW; rounds of all agents a
                 second, which are environment steps
    acting       a round of 512 games of every agent: step, heads, action
    rollouts     15 rounds inside the model from 4 games of every agent, K = 8 for each action

Rows are {name, ours, peer, unit, ratio}. Times are CPU times of one thread, best of several passes.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.functional import silu

from dipllm_lib.ipd import game, models, ppi_fit, ppi_q, ppi_settings
from dipllm_lib.ipd.models import Stack
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.run import seeding
from dipllm_lib.run.timing import seconds

SEED, SEEDS = 0, 10
ACTING = 512  # games of an agent that are played side by side
ROLLOUTS = 4  # games of an agent that look ahead side by side


class Plain(nn.Module):
    """Agent i of a stack (GRU, joint) in torch's own layers. cells: `GRUCell` or else `nn.GRU`.

    Their second set of biases starts at 0 and is trained, too.
    """

    def __init__(self, stack: Stack, i: int, cells: bool = True):
        super().__init__()
        core, heads = stack.core, stack.readout["heads"]
        size, self.outputs = stack.settings.hidden, stack.settings.outputs()
        codes = core.input.shape[1]
        self.cells, self.hot = cells, torch.eye(codes)
        self.core = nn.GRUCell(codes, size) if cells else nn.GRU(codes, size, batch_first=True)
        self.heads = nn.Linear(size, sum(self.outputs.values()))
        inner = torch.cat([torch.zeros(2 * size), core.candidate[i].detach()])
        given = (core.input[i].T, core.hidden[i].T, core.bias[i], inner)
        given = (*given, heads.weight[i].T, heads.bias[i])
        with torch.no_grad():
            for weight, value in zip(self.parameters(), given, strict=True):
                weight.copy_(value)

    def unroll(self, obs: torch.Tensor) -> torch.Tensor:
        """obs (n, T) -> features (n, T, H)."""
        hot = self.hot[obs]
        if not self.cells:
            return silu(self.core(hot)[0])
        h, rounds = torch.zeros(len(obs), self.core.hidden_size), []
        for t in range(obs.shape[1]):
            h = self.core(hot[:, t], h)
            rounds.append(h)
        return silu(torch.stack(rounds, 1))

    def read(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """The heads with an axis of one agent in front, as `Stack.read`."""
        split = self.heads(features).unsqueeze(0).split(list(self.outputs.values()), -1)
        found = dict(zip(self.outputs, split, strict=True))
        return found | {"own": found["own"].squeeze(-1)}


def bench_ipd(quick: bool, note: Callable[[str], None]) -> list[dict]:
    """All rows. quick: one pass instead of five."""
    settings, passes = ppi_settings.CPU, 1 if quick else 5
    agents, rounds = 2 * SEEDS, settings.rounds
    stack = models.build(settings.model, _streams(agents, "weights"))
    codes = _codes(agents, settings.batch, rounds)
    note(
        f"{agents} agents, {stack.parameters_per_agent()} parameters each, {rounds} rounds: "
        f"{settings.batch} games a training step, {ACTING} of acting, one thread"
    )
    with seeding.torch_threads(1):
        return [
            *_training(stack, codes, settings, passes),
            _acting(stack, settings, passes),
            _rollouts(stack, codes, settings, passes),
        ]


def _row(name: str, ours: float, peer: float, unit: str) -> dict:
    return {"name": name, "ours": ours, "peer": peer, "unit": unit, "ratio": ours / peer}


def _streams(agents: int, name: str) -> list[np.random.Generator]:
    return [seeding.child(SEED, "bench", "ipd", name, i) for i in range(agents)]


def _codes(agents: int, n: int, rounds: int) -> np.ndarray:
    """(A, n, T) uint8 rounds of random play."""
    rows = [rng.integers(game.CC, game.DD + 1, (n, rounds)) for rng in _streams(agents, "games")]
    return np.stack(rows).astype(np.uint8)


def _training(stack: Stack, codes: np.ndarray, settings: PPISettings, passes: int) -> list[dict]:
    """A training step of all agents at once, against both plain models."""
    ours = codes.size / seconds(stack_step(stack, codes, settings), passes)
    rows = []
    for name, cells in (("a GRUCell per agent", True), ("an nn.GRU per agent", False)):
        steps = [plain_step(Plain(stack, i, cells), codes[i], settings) for i in range(len(codes))]
        peer = codes.size / seconds(lambda: [step() for step in steps], passes)
        rows.append(_row(f"training, {SEEDS} seeds, {name}", ours, peer, "rounds/s"))
    return rows


def observations(codes: np.ndarray) -> torch.Tensor:
    """What is seen before each round of codes (…, T): s0, then the round before."""
    before = np.zeros(codes.shape, np.int64)
    before[..., 1:] = codes[..., :-1]
    return torch.from_numpy(before)


def stack_step(stack: Stack, codes: np.ndarray, settings: PPISettings) -> Callable[[], np.ndarray]:
    """A function that makes one training step of all agents and returns their losses (A,)."""
    adam, obs = ppi_fit.optimiser(stack, settings), observations(codes)

    def step() -> np.ndarray:
        adam.zero_grad()
        losses = sum(ppi_fit.losses(stack.read(stack.unroll(obs)), codes, settings).values())
        losses.sum().backward()
        stack.clip_per_agent(settings.clip_norm)
        adam.step()
        return losses.detach().numpy()

    return step


def plain_step(plain: Plain, codes: np.ndarray, settings: PPISettings) -> Callable[[], np.ndarray]:
    """The same for one agent alone, codes (n, T); the losses are (1,)."""
    adam, obs = ppi_fit.optimiser(plain, settings), observations(codes)

    def step() -> np.ndarray:
        adam.zero_grad()
        heads = plain.read(plain.unroll(obs))
        losses = sum(ppi_fit.losses(heads, codes[None], settings).values())
        losses.sum().backward()
        nn.utils.clip_grad_norm_(plain.parameters(), settings.clip_norm)
        adam.step()
        return losses.detach().numpy()

    return step


@torch.no_grad()
def _acting(stack: Stack, settings: PPISettings, passes: int) -> dict:
    """Ten rounds of play with given uniform numbers."""
    agents, rounds = stack.agents, 10
    obs = observations(_codes(agents, ACTING, rounds))
    u = torch.from_numpy(seeding.child(SEED, "bench", "u").random(obs.shape, np.float32))

    def together() -> None:
        state = stack.start(ACTING)
        for t in range(rounds):
            features, state = stack.step(state, obs[:, :, t])
            u[:, :, t] < torch.sigmoid(stack.read(features)["own"])

    def alone() -> None:
        for i, plain in enumerate(plains):
            h = torch.zeros(ACTING, settings.model.hidden)
            for t in range(rounds):
                h = plain.core(plain.hot[obs[i, :, t]], h)
                u[i, :, t] < torch.sigmoid(plain.read(silu(h))["own"][0])

    plains = [Plain(stack, i) for i in range(agents)]
    ours, peer = (obs.numel() / seconds(f, passes) for f in (together, alone))
    return _row(f"acting, {SEEDS} seeds, a GRUCell per agent", ours, peer, "rounds/s")


@torch.no_grad()
def _rollouts(stack: Stack, codes: np.ndarray, settings: PPISettings, passes: int) -> dict:
    """Monte-Carlo Q of `ppi_q` after five rounds, all agents at once and one after another."""
    obs = observations(codes[:, :ROLLOUTS, :5])
    chance = ppi_q.uniforms(_streams(stack.agents, "chance"), ROLLOUTS, settings)

    def together() -> torch.Tensor:
        return differences(stack, obs, chance, settings)

    def alone() -> list[torch.Tensor]:
        return [
            plain_differences(plain, obs[i], chance[:, :, i], settings)
            for i, plain in enumerate(plains)
        ]

    plains = [Plain(stack, i) for i in range(stack.agents)]
    count = chance.shape[2] * chance.shape[3]
    ours, peer = (count / seconds(f, passes) for f in (together, alone))
    return _row(f"rollouts, {SEEDS} seeds, a GRUCell per agent", ours, peer, "rollouts/s")


def differences(
    stack: Stack, obs: torch.Tensor, chance: torch.Tensor, settings: PPISettings
) -> torch.Tensor:
    """(A, n) Q(C) - Q(D) after obs (A, n, t) by rollouts inside the models."""
    state = stack.start(obs.shape[1])
    for t in range(obs.shape[2]):
        features, state = stack.step(state, obs[:, :, t])
    world = ppi_q.Inside(stack.read(features)["reply"], 2 * settings.rollouts)
    return ppi_q.rollout_difference(stack, state, world, chance, settings)


def plain_differences(
    plain: Plain, obs: torch.Tensor, chance: torch.Tensor, settings: PPISettings
) -> torch.Tensor:
    """(n,) the same of one agent after obs (n, t), chance (H, 2, branches)."""
    k, h = 2 * settings.rollouts, torch.zeros(len(obs), settings.model.hidden)
    for t in range(obs.shape[1]):
        h = plain.core(plain.hot[obs[:, t]], h)
    h = h.repeat_interleave(k, 0)
    heads = plain.read(silu(h))
    own = (torch.arange(k) < settings.rollouts).repeat(len(obs))
    total, paid = torch.zeros(len(h)), ppi_q.paid(settings.payoffs)
    for r in range(settings.horizon):
        reply = torch.where(own, heads["reply"][0, :, 0], heads["reply"][0, :, 1])
        other = chance[r, 0] < torch.sigmoid(reply)
        seen = game.DD - 2 * own.long() - other.long()
        total += settings.discount**r * paid[seen]
        h = plain.core(plain.hot[seen], h)
        heads = plain.read(silu(h))
        own = chance[r, 1] < torch.sigmoid(heads["own"][0])
    mean = total.view(-1, 2, settings.rollouts).mean(2)
    return mean[:, 0] - mean[:, 1]

"""Independent A2C of all seeds and learners in one stack.

One iteration of every agent, Weis, Woelczyk et al. 2026, section 4:

    1. play N games with the policy (and its floor), half of them against tabular agents
    2. advantages and returns (7), z-scores
    3. one gradient step on the loss (8), norm clipped at 1, Adam (Kingma and Ba 2015)

Agents never share a number: the loss is a sum over agents of each one's mean, norms are clipped and
learning rates kept by agent. Where A2C starts its read-out at 0, the first policy is 1/2 and every
value 0 (Meulemans et al. 2025a, appendix).

A training advances by blocks of iterations; `state` after any block is all that `load` needs to go
on bit for bit. Every block adds one row of means to the tables.

Shapes: A agents, N games, T rounds; agent i is learner i % learners of seed i // learners.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dipllm_lib.ipd import a2c_games, a2c_loss, models
from dipllm_lib.ipd.a2c_games import Games
from dipllm_lib.ipd.a2c_settings import A2CSettings
from dipllm_lib.ipd.batch_play import Actor
from dipllm_lib.ipd.evaluate import NOISE
from dipllm_lib.ipd.models import Stack
from dipllm_lib.run import seeding

OPPONENTS = ("learner", "tabular")
PLAYED = ("cooperation", "reward", "other_cooperation", "other_reward")
LEARNED = ("entropy", "value_error", "prediction", "norm")
BETAS = 0.9, 0.999


class Adam:
    """Adam whose learning rate is one number per agent, the first axis of every parameter."""

    def __init__(self, parameters: dict[str, Tensor], eps: float):
        self.parameters, self.eps, self.steps = parameters, eps, 0
        self.moments = {
            name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in parameters.items()
        }

    @torch.no_grad()
    def step(self, lr: Tensor) -> None:
        """One step along the gradients; lr (A,). Gradients are dropped."""
        self.steps += 1
        first, second = (1.0 - beta**self.steps for beta in BETAS)
        for name, p in self.parameters.items():
            mean, square = self.moments[name]
            mean.lerp_(p.grad, 1.0 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(p.grad, p.grad, value=1.0 - BETAS[1])
            size = (square / second).sqrt_().add_(self.eps)
            p -= (mean / size) * (lr / first).reshape(-1, *[1] * (p.ndim - 1))
            p.grad = None


@torch.no_grad()
def clip(parameters: dict[str, Tensor], norm: float) -> Tensor:
    """(A,) gradient norms of every agent before each is cut to at most `norm`."""
    grads = [p.grad for p in parameters.values()]
    found = sum(grad.flatten(1).square().sum(dim=1) for grad in grads).sqrt()
    scale = (norm / (found + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad *= scale.reshape(-1, *[1] * (grad.ndim - 1))
    return found


class A2C:
    """The training of a stack; `train` advances it, `state` and `load` carry it over."""

    def __init__(
        self,
        settings: A2CSettings,
        seeds: Sequence[int],
        stream: str = "main",
        frozen: Actor | None = None,
    ):
        """
        seeds: one or two learners of each are trained; an agent depends on no other seed
        stream: trainings of one stream share initial weights and all random numbers of their games
        frozen: agents whom the learners meet instead of each other, its agent i plays learner i
        """
        if not seeds or len(set(seeds)) != len(seeds):
            raise ValueError(f"a2c needs one or more distinct seeds, got {list(seeds)}")
        torch.set_flush_denormal(True)  # of this process: denormals slow the products down
        self.settings, self.seeds, self.stream = settings, list(seeds), stream
        self.frozen, self.done = frozen, 0
        self.agents = [(seed, seat) for seed in seeds for seat in range(settings.learners)]
        start = [
            seeding.child(seed, "ipd", "a2c", stream, "weights", seat) for seed, seat in self.agents
        ]
        self.stack = models.build(settings.network, start)
        self.parameters = dict(self.stack.named_parameters())
        if settings.prediction:
            width = settings.network.hidden
            shapes = {"weight": (len(self.agents), width, 1), "bias": (len(self.agents), 1, 1)}
            for name, shape in shapes.items():
                self.parameters[f"prediction.{name}"] = torch.zeros(shape, requires_grad=True)
        self.adam = Adam(self.parameters, settings.adam_eps)
        self.lr = torch.full((len(self.agents),), settings.lr)
        self.rows: list[np.ndarray] = []

    def train(self, blocks: int = 1) -> "A2C":
        """Advance by whole blocks, at most to the last iteration; returns itself."""
        for _ in range(blocks):
            last = min(self.done + self.settings.block, self.settings.iterations)
            if self.done == last:
                break
            rows = []
            while self.done < last:
                rows.append(self._iterate())
                self.done += 1
            self.rows.append(np.mean(rows, axis=0))
            self._calm()
        return self

    def _calm(self) -> None:
        """Lower the learning rate of pairs whose cooperation with each other has begun."""
        if not self.settings.calm_lr:
            return
        met = self.rows[-1][:, 0].reshape(len(self.seeds), -1).mean(axis=1)
        above = np.repeat(met > self.settings.calm_at, self.settings.learners)
        self.lr[torch.from_numpy(above)] = self.settings.calm_lr

    def _iterate(self) -> np.ndarray:
        """One gradient step of every agent; means (A, measures) of the games it was made on."""
        s = self.settings
        epsilon, weight = s.epsilon.at(self.done), s.entropy.at(self.done)
        met = self.frozen is not None
        chance = a2c_games.draw(s, self.seeds, self.stream, self.done, met)
        played = a2c_games.play(self.stack, chance, epsilon, self.frozen)
        rewards = rewards_of(s, played.own, played.other)
        advantage, returns = a2c_loss.advantages(
            s.reward_scale * rewards, played.values, s.gamma, s.lam_gae, s.lam_td
        )
        advantage = a2c_loss.normalise(advantage, s.advantage_norm, s.other_games)
        sums = dict.fromkeys(LEARNED, 0.0)
        for some, features in self._passes(played, chance.table.z):
            odds, values = a2c_games.read(self.stack, features)
            own, other = played.own[:, some], played.other[:, some]
            found = a2c_loss.parts(odds, values, own, advantage[:, some], returns[:, some], epsilon)
            loss = found["policy"] + s.value_weight * found["value"] - weight * found["entropy"]
            if s.prediction:
                told = a2c_loss.prediction(self._predicted(features), other)
                loss = loss + s.prediction * told
                sums["prediction"] += told.detach()
            (loss / played.own[0].numel()).sum().backward()
            sums["entropy"] += found["entropy"].detach()
            sums["value_error"] += found["value"].detach()
        return self._step(played, rewards, sums)

    def _passes(self, played: Games, z: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
        """Which games, and their features (A, n, T, F) with a graph, chunk by chunk."""
        size = self.settings.chunk or self.settings.games
        for first in range(0, self.settings.games, size):
            some = slice(first, first + size)
            told = None if z is None else z[:, some]
            yield some, self.stack.unroll(played.obs[:, some], z=told)

    def _predicted(self, features: Tensor) -> Tensor:
        """Log-odds (A, n, T) that the opponent now plays C."""
        weight, bias = (self.parameters[f"prediction.{name}"] for name in ("weight", "bias"))
        odds = features.flatten(1, 2) @ weight + bias
        return odds[..., 0].unflatten(1, features.shape[1:3])

    def _step(self, played: Games, rewards: Tensor, sums: dict) -> np.ndarray:
        """Clip, Adam; the row of measures (A, ...) of the iteration."""
        norms = clip(self.parameters, self.settings.norm)
        if not torch.isfinite(norms).all():
            raise FloatingPointError(f"iteration {self.done}: gradient not finite: lower lr")
        self.adam.step(self.lr)
        first, theirs = (
            self.settings.other_games,
            rewards_of(self.settings, played.other, played.own),
        )
        seen = []
        for part in (slice(0, first), slice(first, None)):
            for value in (played.own, rewards, played.other, theirs):
                some = value[:, part]
                seen.append(some.mean(dim=(1, 2)) if some.numel() else torch.zeros(len(some)))
        total = played.own[0].numel()
        learned = [sums[name] / total + torch.zeros(len(norms)) for name in LEARNED[:-1]]
        return torch.stack([*seen, *learned, norms], dim=1).double().numpy()

    def actors(self) -> dict[str, a2c_games.Actor]:
        """The agents as players for `evaluate.probe`, by noise level: the shares of the present
        floor that evaluate.NOISE names.
        """
        epsilon = self.settings.epsilon.at(max(self.done - 1, 0))
        return {name: a2c_games.Actor(self.stack, share * epsilon) for name, share in NOISE.items()}

    def table(self) -> pd.DataFrame:
        """Means of training games, one row per block, agent and kind of opponent.

        Columns seed, iteration (the last of the block, from 1), seat, opponent, noise ("on"),
        epsilon (at that iteration), cooperation, reward, other_cooperation, other_reward.
        """
        counts = dict(zip(OPPONENTS, (self.settings.other_games, self.settings.tabular_games)))
        found = []
        for iteration, row in self._blocks():
            for k, opponent in enumerate(OPPONENTS):
                if not counts[opponent]:
                    continue
                for (seed, seat), values in zip(self.agents, row, strict=True):
                    line = {"seed": seed, "iteration": iteration, "seat": seat}
                    line |= {"opponent": opponent, "noise": "on"}
                    line["epsilon"] = self.settings.epsilon.at(iteration - 1)
                    part = values[k * len(PLAYED) : (k + 1) * len(PLAYED)]
                    found.append(line | dict(zip(PLAYED, part.tolist(), strict=True)))
        return pd.DataFrame(found)

    def losses(self) -> pd.DataFrame:
        """One row per block and agent: seed, iteration, seat, then the means of LEARNED.

        entropy and prediction in nats per round, value_error in (scaled reward)², norm before
        clipping.
        """
        found = []
        for iteration, row in self._blocks():
            for (seed, seat), values in zip(self.agents, row, strict=True):
                line = {"seed": seed, "iteration": iteration, "seat": seat}
                part = values[2 * len(PLAYED) :].tolist()
                found.append(line | dict(zip(LEARNED, part, strict=True)))
        return pd.DataFrame(found)

    def _blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        for k, row in enumerate(self.rows):
            yield min((k + 1) * self.settings.block, self.settings.iterations), row

    def state(self) -> dict[str, np.ndarray]:
        """Weights, moments, learning rates, number of iterations and the tables' rows."""
        found = {"done": np.array(self.done), "lr": self.lr.numpy().copy()}
        found["rows"] = np.array(self.rows)
        for name, p in self.parameters.items():
            found[f"weight/{name}"] = p.detach().numpy().copy()
            for key, moment in zip(("mean", "square"), self.adam.moments[name]):
                found[f"{key}/{name}"] = moment.numpy().copy()
        return found

    @torch.no_grad()
    def load(self, state: dict[str, np.ndarray]) -> "A2C":
        """Take up a training of the same settings and seeds where `state` left it; returns itself.

        ValueError if names or shapes differ.
        """
        own = self.state()
        shapes = [{k: v.shape for k, v in d.items() if k != "rows"} for d in (own, state)]
        if shapes[0] != shapes[1]:
            raise ValueError("this state is of other settings or seeds: start from iteration 0")
        self.done = self.adam.steps = int(state["done"])
        self.rows = list(np.array(state["rows"]))
        self.lr.copy_(torch.from_numpy(state["lr"]))
        for name, p in self.parameters.items():
            p.copy_(torch.from_numpy(state[f"weight/{name}"]))
            for key, moment in zip(("mean", "square"), self.adam.moments[name]):
                moment.copy_(torch.from_numpy(state[f"{key}/{name}"]))
        return self


def rewards_of(settings: A2CSettings, own: Tensor, other: Tensor) -> Tensor:
    """Rewards of the payoffs, in the shape of the actions (1.0 = C)."""
    (dd, dc), (cd, cc) = settings.payoffs.matrix.tolist()
    return dd + (cd - dd) * own + (dc - dd) * other + (cc - cd - dc + dd) * own * other


@torch.no_grad()
def start_from(training: A2C, source: Stack, heads: bool = True) -> A2C:
    """Begin with the weights of another stack of as many agents; returns the training.

    heads: also its policy and value (Step 3 goes on with the extorters of Step 2); without them
    only the core is taken (a model that was pre-trained to predict). ValueError if a weight of the
    core is missing there or has another shape, if a predictor shall give a policy, or if the
    training has begun.
    """
    if training.done:
        raise ValueError(f"a2c: the training is at iteration {training.done}: start before it")
    if heads and source.settings.learner != "a2c":
        raise ValueError("a2c: this stack predicts and has no policy: take its core, heads=False")
    theirs = dict(source.named_parameters())
    for name, p in training.stack.named_parameters():
        if not heads and not name.startswith("core."):
            continue
        if name not in theirs or theirs[name].shape != p.shape:
            raise ValueError(f"a2c: the other stack has no weight {name} of shape {tuple(p.shape)}")
        p.copy_(theirs[name])
    return training


def repeated(stack: Stack, times: int) -> Stack:
    """Every agent `times` in a row: the frozen opponent of several learners of a seed."""
    return models.join([stack.slice(i) for i in range(stack.agents) for _ in range(times)])

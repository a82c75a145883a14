"""Fitting the sequence models of PPI to stored games.

    (2)  L = lambda_obs L_obs + lambda_act L_act + lambda_rew L_rew
    (3)  L_obs = - Σ_t log p(o_t | x_<t, a_{t-1})
    (4)  L_act = - Σ_t log p(a_t | x_<=t)
    (5)  L_rew = Σ_t (r_t - r_t predicted)^2

of Weis, Woelczyk et al. 2026, here as means over games and rounds. Given the own action the next
observation has two possible values. A model that is read after its own action (`interleaved`)
predicts all five, as published; elsewhere (3) is the loss of the opponent's reply. A model with a Q
head adds the mean of (q(a_t) - 0.1 G_t)^2 over the rounds that have H rounds left, G_t being the
return over these H rounds, for the action that was played only.

The loss of a stack is the sum over agents of each agent's own mean and its gradient norm is clipped
by agent, so an agent's fit does not depend on the others. AdamW, element by element, has nothing to
separate. In the last 30 % of a fit the learning rate is multiplied by `late_rate`.

Shapes: A agents, B games per batch, T rounds; codes are those of `game`, 1 = CC … 4 = DD, own view.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import softplus

from dipllm_lib.ipd import batch_play, ppi_data, ppi_q
from dipllm_lib.ipd.models import Stack
from dipllm_lib.ipd.ppi_settings import PPISettings

LATE = 0.7  # share of the steps of a fit after which the learning rate falls
TAIL = 0.1  # share of the steps at the end whose mean losses are reported
BLOCK = 250  # games of an agent per forward pass without gradient
PARTS = ("own", "reply", "observation", "reward", "q")


def optimiser(stack: Stack, settings: PPISettings) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019) over all agents of the stack."""
    return torch.optim.AdamW(
        stack.parameters(),
        lr=settings.lr,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        foreach=True,
    )


def losses(
    heads: dict[str, torch.Tensor], codes: np.ndarray, settings: PPISettings
) -> dict[str, torch.Tensor]:
    """Means by agent, each (A,): own (4), reply (3), and where the model has the heads observation
    (3), reward (5) and q, in units of 0.1 return. heads: of the features of codes (A, B, T)."""
    players = settings.model.players
    own = torch.from_numpy(codes <= players)  # codes of an own C come first
    found = {"own": surprise(heads["own"], own)}
    if players > 2:
        found["reply"] = counted(heads["reply"], own, codes, players)
    else:
        other = torch.from_numpy(batch_play.other_actions(codes).astype(bool))
        reply = torch.where(own, heads["reply"][..., 0], heads["reply"][..., 1])
        found["reply"] = surprise(reply, other)
    if "next" in heads and heads["next"].dim() > heads["reply"].dim():
        after = torch.where(own[..., None], heads["next"][..., 0, :], heads["next"][..., 1, :])
        seen = torch.from_numpy(codes.astype(np.int64))[..., None]
        found["observation"] = -after.log_softmax(-1).gather(-1, seen).mean(dim=(1, 2, 3))
    if "reward" in heads:  # that of a round is read after the next observation
        earned = ppi_q.paid(settings.payoffs)[torch.from_numpy(codes[..., :-1].astype(np.int64))]
        found["reward"] = (heads["reward"][..., 1:] - earned).square().mean(dim=(1, 2))
    if "q" in heads and settings.q_weight:
        target = ppi_q.SCALE * torch.from_numpy(ppi_q.returns(codes, settings))
        q = torch.where(own, heads["q"][..., 0], heads["q"][..., 1])
        found["q"] = (q[..., : target.shape[-1]] - target).square().mean(dim=(1, 2))
    return found


def surprise(logits: torch.Tensor, happened: torch.Tensor) -> torch.Tensor:
    """(A,) mean of -log of the probability of what happened; logits of True."""
    return softplus(torch.where(happened, -logits, logits)).mean(dim=(1, 2))


def counted(
    reply: torch.Tensor, own: torch.Tensor, codes: np.ndarray, players: int
) -> torch.Tensor:
    """(A,) mean loss of the number of others that played C, in games of n > 2 players; reply: 2n
    logits of n - 1 … 0 given the own C, then given the own D; own: bool, codes: both (A, B, T)."""
    given_c, given_d = reply.split(players, -1)
    logits = torch.where(own[..., None], given_c, given_d)
    number = torch.from_numpy((codes.astype(np.int64) - 1) % players)[..., None]
    return -logits.log_softmax(-1).gather(-1, number).mean(dim=(1, 2, 3))


def fit(
    stack: Stack,
    adam: torch.optim.AdamW,
    store: ppi_data.Store,
    streams: Sequence[np.random.Generator],
    steps: int,
    settings: PPISettings,
    first: int = 0,
) -> dict[str, np.ndarray]:
    """Train on batches of the games from `first` on; mean losses (A,) of the last steps.

    streams: one generator per agent, of the order of its games. Raises FloatingPointError when an
    agent's loss is not finite.
    """
    order = [ppi_data.Batches(s, first, store.count, settings.batch) for s in streams]
    lambdas = {
        "own": settings.action_weight,
        "reply": settings.observation_weight,
        "observation": settings.observation_weight,
        "reward": settings.reward_weight,
        "q": settings.q_weight,
    }
    tail: dict[str, list[torch.Tensor]] = {}
    for step in range(steps):
        codes, z = store.take(np.stack([batches.next() for batches in order]))
        parts = losses(stack.read(_unroll(stack, codes, z)), codes, settings)
        used = set(parts) - ({"reply"} if "observation" in parts else set())
        total = sum(lambdas[name] * parts[name] for name in PARTS if name in used)
        if not torch.isfinite(total).all():
            bad = torch.nonzero(~torch.isfinite(total)).flatten().tolist()
            raise FloatingPointError(f"step {step}: the loss of agents {bad} is not finite")
        adam.zero_grad(set_to_none=True)
        total.sum().backward()
        stack.clip_per_agent(settings.clip_norm)
        late = settings.late_rate if step >= LATE * steps else 1.0
        adam.param_groups[0]["lr"] = settings.lr * late
        adam.step()
        if step >= steps - max(round(TAIL * steps), 1):
            for name, part in parts.items():
                tail.setdefault(name, []).append(part.detach())
    adam.zero_grad(set_to_none=True)
    return {name: torch.stack(found).mean(dim=0).numpy() for name, found in tail.items()}


def _unroll(stack: Stack, codes: np.ndarray, z: np.ndarray | None) -> torch.Tensor:
    obs = torch.from_numpy(batch_play.before(codes).astype(np.int64))
    return stack.unroll(obs, None if z is None else torch.from_numpy(z))


@torch.inference_mode()
def held_out(
    stack: Stack, codes: np.ndarray, z: np.ndarray | None, settings: PPISettings
) -> dict[str, np.ndarray]:
    """Mean losses (A,) float64 on games codes (A, n, T), nothing is trained."""
    sums: dict[str, np.ndarray] = {}
    for first in range(0, codes.shape[1], BLOCK):
        part = codes[:, first : first + BLOCK]
        told = None if z is None else z[:, first : first + BLOCK]
        for name, loss in losses(stack.read(_unroll(stack, part, told)), part, settings).items():
            share = part.shape[1] / codes.shape[1]
            sums[name] = sums.get(name, 0.0) + share * loss.numpy().astype(np.float64)
    return sums

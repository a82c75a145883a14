"""Advantage actor-critic: advantages, returns and the loss of every agent of a stack.

With rewards r_t scaled by c_r, values V_t and V after the last round T equal to 0,

    delta_t = c_r r_t + gamma V_{t+1} - V_t
    A_t = sum_l (gamma lam_gae)^l delta_{t+l}                                      (7)
    G_t = V_t + sum_l (gamma lam_td)^l delta_{t+l}
    loss = - mean[A~_t log pi(a_t)] + c_v mean[(G_t - V_t)^2] - c_e mean[H(pi_t)]  (8)

of Weis, Woelczyk et al. 2026; (7) is generalised advantage estimation (Schulman et al. 2016). A and
G carry no gradient; A~ is A or its z-score. The policy is known by its log-odds of C, and acts with
a floor: pi' = (1 - eps) pi + eps / 2. Log-probability and entropy in (8) are those of pi', which is
what acted; eps = 0 is the paper.

Shapes: A agents, n games, T rounds.
"""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

NORMS = ("batch", "per_kind", "none")
TINY = 1e-8  # added to a standard deviation


def discounted_sums(delta: Tensor, factor: float) -> Tensor:
    """sum_l factor^l delta_{t+l} within the T rounds; delta and result (..., T)."""
    rounds = torch.arange(delta.shape[-1])
    ahead = rounds[:, None] - rounds[None, :]  # [later, earlier]
    weights = torch.where(ahead >= 0, float(factor) ** ahead.clamp(min=0).double(), 0.0)
    return delta @ weights.to(delta)


def advantages(
    rewards: Tensor, values: Tensor, gamma: float, lam_gae: float, lam_td: float
) -> tuple[Tensor, Tensor]:
    """(A, G) of (7), each (..., T); rewards are already multiplied by c_r."""
    after = torch.cat([values[..., 1:], torch.zeros_like(values[..., :1])], dim=-1)
    delta = rewards + gamma * after - values
    found = discounted_sums(delta, gamma * lam_gae)
    if lam_td == lam_gae:
        return found, values + found
    return found, values + discounted_sums(delta, gamma * lam_td)


def normalise(advantage: Tensor, how: str, learners: int) -> Tensor:
    """A~ (A, n, T): z-scores within every agent, as `how` of NORMS says.

    batch: over all games of an agent · per_kind: separately over its first `learners` games, those
    against learners, and over the others · none: as they are. ValueError for another word.
    """
    if how not in NORMS:
        raise ValueError(f"unknown advantage_norm {how!r}: use one of {', '.join(NORMS)}")
    if how == "none":
        return advantage
    sizes = [learners, advantage.shape[1] - learners]
    parts = advantage.split(sizes, dim=1) if how == "per_kind" else (advantage,)
    return torch.cat([_z_score(part) for part in parts if part.shape[1]], dim=1)


def _z_score(part: Tensor) -> Tensor:
    variance, mean = torch.var_mean(part, dim=(1, 2), correction=0, keepdim=True)
    return (part - mean) / (variance.sqrt() + TINY)


def floored(log_odds: Tensor, epsilon: float) -> Tensor:
    """pi'(C) of log-odds of any shape: (1 - eps) sigmoid + eps / 2."""
    return (1.0 - epsilon) * torch.sigmoid(log_odds) + epsilon / 2


def log_floored(log_odds: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """log pi'(C) and log pi'(D); exact for large log-odds where eps is 0."""
    if epsilon == 0.0:
        return logsigmoid(log_odds), logsigmoid(-log_odds)
    p = floored(log_odds, epsilon)
    return torch.log(p), torch.log1p(-p)


def parts(
    log_odds: Tensor,
    values: Tensor,
    own: Tensor,
    advantage: Tensor,
    returns: Tensor,
    epsilon: float = 0.0,
) -> dict[str, Tensor]:
    """The three terms of (8) of every agent, (A,), summed over its games and rounds.

    All inputs (A, n, T); own: 1.0 where C was played. Keys policy (to be minimised), value (squared
    error), entropy (nats). Advantage and returns must carry no gradient.
    """
    log_c, log_d = log_floored(log_odds, epsilon)
    chosen = torch.where(own > 0.5, log_c, log_d)
    entropy = -(log_c.exp() * log_c + log_d.exp() * log_d)
    terms = {"policy": -advantage * chosen, "value": (returns - values) ** 2, "entropy": entropy}
    return {name: term.sum(dim=(1, 2)) for name, term in terms.items()}


def prediction(log_odds: Tensor, other: Tensor) -> Tensor:
    """(A,) cross-entropy in nats of the opponent's next action, summed over games and rounds.

    log_odds: of C before each round; other: 1.0 where the opponent then played C; both (A, n, T).
    """
    found = binary_cross_entropy_with_logits(log_odds, other, reduction="none")
    return found.sum(dim=(1, 2))

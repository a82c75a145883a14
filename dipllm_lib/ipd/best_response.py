"""The best response to a known memory-one opponent, by backward induction.

With q~ the opponent's probability of C in the own view and V(s) the best total of the rounds that
remain after outcome s, for each s in s0, CC, CD, DC, DD:

    V(s) <- max( q~ (R + V_CC) + (1 - q~)(S + V_CD),  q~ (T + V_DC) + (1 - q~)(P + V_DD) )

No player of any memory earns more, since the opponent's next action depends on the last round
only. Ties go to D.

On a pool that is symmetric under C <-> D, AllD earns exactly (T + P)/2 on average: the opponent
cooperates with probability 1/2 in every round. The value of a pool is therefore estimated as that
number plus the mean gain over AllD on the same opponents.

Shapes: n opponents, T rounds.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.ipd.game import Payoffs

CHUNK = 10_000  # opponents at once: policies of all of a large pool would not fit in memory


class BestResponse(NamedTuple):
    """value (n,) per round · policy uint8 (n, T, 5), best action before each round after s0, CC,
    CD, DC, DD · cooperation (n,) expected share of C of the best response."""

    value: np.ndarray
    policy: np.ndarray
    cooperation: np.ndarray


@njit(cache=True)
def _solve(seen, rounds, r, s, t, p):
    """Backward for value and policy, then forward for cooperation. seen: q~ (n, 5)."""
    n = seen.shape[0]
    value, cooperation = np.empty(n), np.zeros(n)
    policy = np.zeros((n, rounds, 5), dtype=np.uint8)
    now, before, at, after = np.zeros(5), np.zeros(5), np.zeros(5), np.zeros(5)
    for i in range(n):
        now[:] = 0.0
        for k in range(rounds - 1, -1, -1):
            for o in range(5):
                q = seen[i, o]
                if_c = q * (r + now[1]) + (1.0 - q) * (s + now[2])
                if_d = q * (t + now[3]) + (1.0 - q) * (p + now[4])
                policy[i, k, o] = if_c > if_d
                before[o] = max(if_c, if_d)
            now[:] = before
        value[i] = now[0] / rounds
        at[:] = 0.0
        at[0] = 1.0
        for k in range(rounds):
            after[:] = 0.0
            for o in range(5):
                shift = 0 if policy[i, k, o] == 1 else 2
                cooperation[i] += at[o] * policy[i, k, o]
                after[1 + shift] += at[o] * seen[i, o]
                after[2 + shift] += at[o] * (1.0 - seen[i, o])
            at[:] = after
        cooperation[i] /= rounds
    return value, policy, cooperation


def best_response(q: np.ndarray, rounds: int, payoffs: Payoffs = exact.STANDARD) -> BestResponse:
    """The best response to each of the opponents q (n, 5), each in its own view."""
    if rounds < 1:
        raise ValueError(f"rounds {rounds}: need at least one round")
    return BestResponse(*_solve(exact.as_seen(q), rounds, *payoffs.by_state.tolist()))


def regret(
    reward: np.ndarray, q: np.ndarray, rounds: int, payoffs: Payoffs = exact.STANDARD
) -> np.ndarray:
    """(n,) best value per round against each of q (n, 5), minus the mean reward (n,) earned."""
    return best_response(q, rounds, payoffs).value - np.asarray(reward, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Planned:
    """Player with a policy uint8 (n, T, 5) or (T, 5) for its rounds, such as a best response."""

    policy: np.ndarray

    def __post_init__(self) -> None:
        if self.policy.ndim not in (2, 3) or self.policy.shape[-1] != 5:
            raise ValueError(f"a plan has shape (n, T, 5) or (T, 5), got {self.policy.shape}")

    def start(self, n: int) -> tuple[int, np.ndarray]:
        """The state: the number of rounds played, and the policies of n games."""
        shape = (n, *self.policy.shape[-2:])
        return 0, np.broadcast_to(self.policy, shape)

    def act(
        self, state: tuple[int, np.ndarray], obs: np.ndarray, u: np.ndarray
    ) -> tuple[np.ndarray, tuple[int, np.ndarray]]:
        """The planned action of this round; ValueError after the last."""
        t, policy = state
        if t >= policy.shape[1]:
            raise ValueError(f"a plan of {policy.shape[1]} rounds cannot play round {t + 1}")
        return policy[np.arange(len(obs)), t, obs], (t + 1, policy)


class PoolValue(NamedTuple):
    """gain: mean value of the best response minus AllD's · se: its standard error ·
    cooperation of the best response · share of opponents with a gain above 0.05."""

    gain: float
    se: float
    cooperation: float
    share: float


def pool_value(q: np.ndarray, rounds: int, payoffs: Payoffs = exact.STANDARD) -> PoolValue:
    """What knowing each of the opponents q (n, 5) is worth, over AllD, per round.

    For all 32 corners the mean is exact and `se` has no meaning.
    """
    q = tabular.check(q)
    gains, cooperations = [], []
    for k in range(0, len(q), CHUNK):
        block = q[k : k + CHUNK]
        best = best_response(block, rounds, payoffs)
        all_d, _ = exact.finite(tabular.named("AllD"), block, rounds, payoffs)
        gains.append(best.value - all_d)
        cooperations.append(best.cooperation)
    gain = np.concatenate(gains)
    return PoolValue(
        float(gain.mean()),
        float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("nan"),
        float(np.concatenate(cooperations).mean()),
        float((gain > 0.05).mean()),
    )

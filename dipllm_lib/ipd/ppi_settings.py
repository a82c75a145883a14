"""Settings of predictive policy improvement (PPI): one field per choice, and the presets.

Choices that the paper (Weis, Woelczyk et al. 2026, section 3 and A.3) prints stand as printed in
`PAPER`; what it leaves open has one field each. Two readings of one text are a named switch:

    improvement  `temperature`: log-odds move by (Q(C) - Q(D)) / beta, an arg max at beta = 0.01;
                 `literal`: by beta (Q(C) - Q(D)), which changes nothing at beta = 0.01
    behaviour    `improved` deploys pi of Eq. 1; `prior` deploys p_phi ("using p_phi", line 9 of
                 Algorithm 1)
    q            `mc`: rollouts inside the own model, as published; `head`: a learned Q, which is
                 amortised PPI and is called so in every figure; `env`: rollouts with the true
                 opponent

Three arms differ by one argument of `arm`.
"""

import math
from dataclasses import dataclass, field, replace

from dipllm_lib.ipd import identity as identities
from dipllm_lib.ipd import tabular
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.ipd.model_settings import ModelSettings

NO_POOL = "none"  # no tabular agent anywhere, and D0 of coin flips
CHOICES = {
    "pool": (*tabular.POOLS, NO_POOL),
    "identity": identities.IDENTITIES,
    "improvement": ("temperature", "literal"),
    "behaviour": ("improved", "prior"),
    "q": ("head", "mc", "env"),
    "rollout_reward": ("payoff", "head"),
}
ARMS = ("mixed", "identity", "no_tabular")


@dataclass(frozen=True)
class PPISettings:
    """One run of PPI. Counts of games are per learner. ValueError for settings that do not fit."""

    model: ModelSettings
    rounds: int = 50  # T of a game; the model may be made for more
    payoffs: Payoffs = field(default_factory=Payoffs)
    other_payoffs: Payoffs | None = None  # of learner 1, None: the same
    # opponents
    pool: str = "uniform"  # of tabular.POOLS, or `none`
    a: float = 0.5  # both parameters of the pool `beta`
    tabular_share: float = 0.5  # share of the games of a phase against tabular agents
    identity: str = "none"  # what a learner is told of its opponent, see ipd/identity.py
    # data: D0 and what each phase adds
    first_games: int = 20_000
    games: int = 6_000
    phases: int = 26
    window: int = 0  # a fit sees the last `window` phases only; 0: all of D, as published
    # fits: a number of steps, or with steps 0 a number of passes over D
    first_steps: int = 4_000
    steps: int = 130
    epochs: int = 10
    batch: int = 128  # games per step and agent
    reinit: bool = False  # new weights and optimiser state before every fit
    lr: float = 4e-3  # AdamW
    late_rate: float = 0.3  # share of lr in the last 30 % of a fit
    weight_decay: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.98)
    clip_norm: float = 1.0  # largest norm of an agent's gradient
    observation_weight: float = 1.0  # lambda_obs of Eq. 2
    action_weight: float = 1.0  # lambda_act
    reward_weight: float = 1.0  # lambda_rew, of models that have a reward head
    q_weight: float = 1.0  # of the squared error of the Q head
    # improvement, Eq. 1
    improvement: str = "temperature"
    beta: float = 0.01
    clamp: float = 8.0  # bound of the prior's log-odds, so that an arg max can be undone
    behaviour: str = "improved"
    # Q
    q: str = "head"
    horizon: int = 15  # rounds of a return
    discount: float = 1.0  # inside Q
    noise: float = 1.2  # sigma of Q(C) - Q(D) at each decision, `head` only, in units of reward
    last_noise: float | None = None  # sigma in the last phase, on a straight line; None: constant
    rollouts: int = 8  # K per action, `mc` and `env`
    common: bool = False  # the same random numbers for the rollouts of both actions
    rollout_reward: str = "payoff"  # of the sampled pair, or the model's reward head
    # gate: PPI starts when the held-out loss of the opponent's action is this close to its limit
    gate: float = 0.01  # nats per round; inf: no gate
    gate_games: int = 2_000

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise ValueError(f"unknown {name} {value!r}: use one of {', '.join(known)}")
        self._check_numbers()
        self._check_model()

    def _check_numbers(self) -> None:
        counts = ("first_games", "games", "phases", "first_steps", "steps", "epochs", "window")
        if any(getattr(self, name) < 0 for name in counts) or self.first_games < 1:
            raise ValueError(f"{', '.join(counts)} must not be negative, first_games not 0")
        if min(self.rounds, self.batch, self.rollouts, self.gate_games, self.horizon) < 1:
            raise ValueError("rounds, batch, rollouts, gate_games and horizon must be at least 1")
        if not 0.0 <= self.tabular_share <= 1.0:
            raise ValueError(f"tabular_share {self.tabular_share} lies outside [0, 1]")
        positive = (self.beta, self.lr, self.clip_norm, self.clamp, self.gate)
        sigmas = (self.noise, self.noise if self.last_noise is None else self.last_noise)
        if not all(value > 0 for value in positive) or not min(sigmas) >= 0:
            raise ValueError("beta, lr, clip_norm, clamp and gate must be > 0, noise >= 0")
        if not 0 < self.discount <= 1:
            raise ValueError(f"discount {self.discount} of Q lies outside (0, 1]")

    def _check_model(self) -> None:
        if self.model.players > 2 and (self.q != "head" or math.isfinite(self.gate)):
            raise ValueError("more than two players need q 'head' and gate inf: no limit is known")
        wanted = identities.SIZE if self.identity != "none" else 0
        if self.model.z != wanted:
            raise ValueError(
                f"identity {self.identity!r} needs a model with z = {wanted}, got {self.model.z}"
            )
        if self.model.learner != "ppi":
            raise ValueError("PPI needs a model with learner = 'ppi'")
        if self.pool == NO_POOL and self.identity != "none":
            raise ValueError("pool 'none' has no opponent to identify: set identity to 'none'")
        if self.q == "head" and not self.model.q_head:
            raise ValueError("q 'head' needs a model with q_head = True")
        paid = tuple(self.payoffs.by_state.tolist())
        if self.model.input != "joint" and self.model.rewards[1:] != paid:
            raise ValueError(
                f"the model reads rewards {self.model.rewards[1:]} of CC, CD, DC, DD, the payoffs"
                f" are {paid}: they must be equal"
            )
        if self.rollout_reward == "head" and self.model.input == "joint":
            raise ValueError("rollout_reward 'head' needs a reward head: input 'joint' has none")
        if self.other_payoffs is not None and (self.q != "head" or self.model.input != "joint"):
            raise ValueError("other_payoffs need q 'head' and a model with input 'joint'")
        if self.q == "head" and self.horizon > self.rounds:
            raise ValueError(
                f"a return over {self.horizon} rounds does not fit games of {self.rounds}:"
                " the Q head would have no target"
            )
        beyond = 0 if self.q == "head" else self.horizon  # rollouts are not cut at round T
        longest = self.rounds + (beyond if self.model.core == "transformer" else 0)
        if self.model.rounds < longest:
            raise ValueError(
                f"a {self.model.core} of {self.model.rounds} rounds: these games and their rollouts"
                f" need {longest}, set model.rounds"
            )

    def payoffs_of(self, learner: int) -> Payoffs:
        """Payoffs of learner 0 or 1 of a seed; whoever sits opposite of one has the other's."""
        if self.other_payoffs is None or learner == 0:
            return self.payoffs
        return self.other_payoffs

    def noise_at(self, phase: int) -> float:
        """sigma in a phase, from 1."""
        if self.last_noise is None or self.phases < 2:
            return self.noise
        share = min(max(phase - 1, 0) / (self.phases - 1), 1.0)
        return self.noise + share * (self.last_noise - self.noise)

    @property
    def tabular_games(self) -> int:
        """Games of a phase against tabular agents; 0 without a pool."""
        return 0 if self.pool == NO_POOL else round(self.games * self.tabular_share)

    @property
    def learner_games(self) -> int:
        """Games of a phase against the other learner (or the frozen rival)."""
        return self.games - self.tabular_games

    @property
    def name(self) -> str:
        """What the method is called in tables and figures."""
        return "amortised PPI" if self.q == "head" else f"PPI ({self.q}, K {self.rollouts})"


def arm(settings: PPISettings, name: str) -> PPISettings:
    """The settings of an arm of Fig. 1: `mixed`, `identity` (Opponent ID) or `no_tabular`.

    ValueError for another name.
    """
    if name not in ARMS:
        raise ValueError(f"unknown arm {name!r}: use one of {', '.join(ARMS)}")
    if name == "identity":
        model = replace(settings.model, z=identities.SIZE)
        return replace(settings, model=model, identity="opponent")
    return settings if name == "mixed" else replace(settings, pool=NO_POOL)


def _joint(rounds: int, hidden: int, q_head: bool = True) -> ModelSettings:
    return ModelSettings(core="gru", input="joint", hidden=hidden, rounds=rounds, q_head=q_head)


SMOKE = PPISettings(
    _joint(20, 16),
    rounds=20,
    first_games=200,
    games=100,
    phases=3,
    first_steps=30,
    steps=10,
    batch=64,
    gate=math.inf,
)
CPU = PPISettings(_joint(50, 32))
# Rollouts inside the model instead of the learned Q, with as many games of D0 to one of a phase.
CPU_MC = PPISettings(
    _joint(50, 32, q_head=False),
    pool="beta",
    first_games=5_000,
    games=1_500,
    phases=14,
    q="mc",
    common=True,
)
# As published; K, the place of the gate and the order of tokens are not printed.
PAPER = PPISettings(
    ModelSettings(core="gru", input="interleaved", hidden=128, rounds=100, q_head=False),
    rounds=100,
    first_games=200_000,
    games=20_000,
    phases=30,
    first_steps=0,
    steps=0,
    batch=256,
    reinit=True,
    lr=1e-4,
    late_rate=1.0,
    q="mc",
    rollouts=16,
    rollout_reward="head",
)
PRESETS = {"smoke": SMOKE, "cpu": CPU, "cpu_mc": CPU_MC, "paper": PAPER}

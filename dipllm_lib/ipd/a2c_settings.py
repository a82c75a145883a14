"""The settings of A2C: the four columns of the published table, and the smaller presets.

`PAPER` holds Table 2 of Weis, Woelczyk et al. 2026, one column per step of the study: step1 (one
learner, tabular agents only), step2 (two learners, each against a frozen one), step3 (the same two
against each other, with their weights of step2) and mixed. Each column is the best of a search of
its authors, so each is tuned for its step. Iterations are read off their figures; the model reads
observations only, through an embedding.

Both ablations are one argument of `arm`: `identity` tells the learner whom it plays, `no_tabular`
takes the tabular agents away.

At a small budget the published column ends in defection. `CPU` is a recipe that does not, tuned on
seeds 0, 900 and 901, none of which A2C reports; `remedy` takes it apart. A floor under the policy
was tried first; the core of a pre-trained PPI model, a pool that goes from Beta(1/2) to uniform,
and smaller steps once cooperation begins were tried beside a floor and stayed at 0 for 4,000
iterations.
"""

from dataclasses import dataclass, field, replace

from dipllm_lib.ipd import identity as identities
from dipllm_lib.ipd import tabular
from dipllm_lib.ipd.a2c_loss import NORMS
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.ipd.models import ModelSettings

# rounds of a learner when cooperation begins to rise in Fig. 1B, read off the plot
PUBLISHED_RISE = 15_000 * 4096 * 100
ARMS = {"mixed": {}, "identity": {"identity": "opponent"}, "no_tabular": {"tabular": 0.0}}


@dataclass(frozen=True)
class Linear:
    """A number that goes from `start` to `end` in `over` iterations and stays there."""

    start: float
    end: float
    over: int

    def at(self, iteration: int) -> float:
        """Its value at `iteration`, from 0."""
        share = min(1.0, iteration / self.over) if self.over else 1.0
        return self.start + share * (self.end - self.start)


def constant(value: float) -> Linear:
    """The schedule that is `value` throughout."""
    return Linear(value, value, 0)


@dataclass(frozen=True)
class A2CSettings:
    """One training of a stack; ValueError for a value that is not possible.

    model: of the learners, without z · games: per learner and iteration · tabular: share of them
    against tabular agents, 1 = Step 1, 0 = no pool · pool, beta: of the tabular agents; beta is the
    parameter of the pool `beta`, 1 = uniform · learners: per seed, 1 or 2 · identity: see
    `identity` · payoffs · gamma, lam_gae, lam_td · reward_scale: c_r · value_weight: c_v ·
    entropy: c_e · epsilon: floor of the policy · prediction: weight of the loss of predicting the
    opponent's next action · advantage_norm: see `a2c_loss` · lr, adam_eps, norm: of Adam and of the
    largest gradient of an agent · calm_lr, calm_at: a pair goes on with this learning rate after
    the first block in which its cooperation with each other is above calm_at · iterations · block:
    iterations of one row of the tables · chunk: games of a backward pass, less memory; 0 = all.
    """

    model: ModelSettings
    games: int
    lr: float
    lam_gae: float
    lam_td: float
    reward_scale: float
    entropy: Linear
    iterations: int
    block: int
    advantage_norm: str = "batch"
    tabular: float = 0.5
    pool: str = "uniform"
    beta: Linear = constant(0.5)
    learners: int = 2
    identity: str = "none"
    payoffs: Payoffs = field(default_factory=Payoffs)
    gamma: float = 0.99
    value_weight: float = 0.5
    epsilon: Linear = constant(0.0)
    prediction: float = 0.0
    adam_eps: float = 1e-5
    norm: float = 1.0
    calm_lr: float = 0.0
    calm_at: float = 1.0
    chunk: int = 0

    def __post_init__(self) -> None:
        identities.check(self.identity)
        for name, known in (("advantage_norm", NORMS), ("pool", tabular.POOLS)):
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise ValueError(f"unknown a2c {name} {value!r}: use one of {', '.join(known)}")
        if self.model.learner != "a2c" or self.model.z:
            raise ValueError("a2c needs a model of learner 'a2c' with z 0: identity sets z")
        if self.learners not in (1, 2):
            raise ValueError(f"a2c learners is {self.learners}: use 1 or 2 per seed")
        if self.games < 1 or self.tabular_games != round(self.tabular * self.games, 9):
            raise ValueError(
                f"a2c: a share {self.tabular} of {self.games} games is no whole number of games"
            )
        for name in ("iterations", "block"):
            if getattr(self, name) < 1:
                raise ValueError(f"a2c {name} is {getattr(self, name)}: needs at least 1")
        self._check_ranges()

    def _check_ranges(self) -> None:
        unit = ("tabular", "gamma", "lam_gae", "lam_td", "calm_at")
        ranges = [(name, getattr(self, name), 0.0, 1.0) for name in unit]
        ends = (("start", self.epsilon.start), ("end", self.epsilon.end))
        ranges += [(f"epsilon.{name}", value, 0.0, 1.0) for name, value in ends]
        positive = ("lr", "adam_eps", "norm", "reward_scale")
        ranges += [(name, getattr(self, name), 1e-12, float("inf")) for name in positive]
        weights = ("value_weight", "prediction", "calm_lr", "chunk")
        ranges += [(name, getattr(self, name), 0, float("inf")) for name in weights]
        for name, value, low, high in ranges:
            if not low <= value <= high:
                raise ValueError(f"a2c {name} is {value}: must lie in [{low}, {high}]")

    @property
    def tabular_games(self) -> int:
        """Games per learner and iteration against tabular agents."""
        return round(self.tabular * self.games)

    @property
    def other_games(self) -> int:
        """Games per learner and iteration against the partner or a frozen agent."""
        return self.games - self.tabular_games

    @property
    def network(self) -> ModelSettings:
        """The model with the identity vector in front where the learner is told one."""
        told = self.identity != "none"
        return replace(self.model, z=identities.SIZE) if told else self.model


def _published(settings: A2CSettings) -> dict:
    paper = PAPER["mixed"]
    names = "lr", "lam_gae", "lam_td", "reward_scale", "entropy", "advantage_norm", "prediction"
    return {name: getattr(paper, name) for name in (*names, "pool")}


def _entropy(settings: A2CSettings) -> dict:
    return {"entropy": PAPER["mixed"].entropy}


def _floor(settings: A2CSettings) -> dict:
    return {"epsilon": Linear(0.1, 0.05, settings.iterations)}


# name -> (what it is, the fields it changes)
REMEDIES = {
    "published": ("Table 2 of the paper at this size", _published),
    "no_prediction": ("recipe, opponent not predicted", lambda settings: {"prediction": 0.0}),
    "entropy": ("recipe, with the published weight of the entropy", _entropy),
    "uniform": ("recipe, uniform pool", lambda settings: {"pool": "uniform"}),
    "floor": ("recipe, with a floor under the policy", _floor),
}


def remedy(settings: A2CSettings, name: str) -> A2CSettings:
    """The settings of a remedy of REMEDIES; ValueError for another name."""
    if name not in REMEDIES:
        raise ValueError(f"unknown remedy {name!r}: use one of {', '.join(REMEDIES)}")
    return replace(settings, **REMEDIES[name][1](settings))


def arm(settings: A2CSettings, name: str) -> A2CSettings:
    """The settings of an arm of Fig. 1: `mixed`, `identity` (Opponent ID) or `no_tabular`.

    ValueError for another name.
    """
    if name not in ARMS:
        raise ValueError(f"unknown arm {name!r}: use one of {', '.join(ARMS)}")
    return replace(settings, **ARMS[name])


PAPER_MODEL = ModelSettings(
    core="gru", input="interleaved", hidden=128, rounds=100, q_head=False, learner="a2c"
)
PAPER = {
    "step1": A2CSettings(
        PAPER_MODEL, 2048, 5e-3, 0.99, 0.99, 0.2, constant(0.001), 50_000, 500,
        tabular=1.0, learners=1, chunk=256,
    ),
    "step2": A2CSettings(
        PAPER_MODEL, 2048, 5e-3, 1.0, 1.0, 0.05, constant(0.001), 100_000, 500,
        advantage_norm="none", tabular=0.0, chunk=256,
    ),
    "step3": A2CSettings(
        PAPER_MODEL, 4096, 5e-4, 0.95, 0.95, 0.02, constant(0.001), 10_000, 100,
        tabular=0.0, chunk=256,
    ),
    "mixed": A2CSettings(
        PAPER_MODEL, 4096, 1e-3, 1.0, 1.0, 0.02, constant(0.01), 200_000, 500, chunk=256,
    ),
}  # fmt: skip

# Smaller model, games and batch than published. Entropy keeps two defectors answerable; predicting
# the opponent makes the core tell opponents apart before that pays.
CPU = A2CSettings(
    replace(PAPER_MODEL, input="joint", hidden=32, rounds=50),
    games=256,
    lr=3e-3,
    lam_gae=0.95,
    lam_td=0.95,
    reward_scale=0.05,
    entropy=Linear(0.05, 0.035, 5_000),
    iterations=3_000,
    block=100,
    advantage_norm="per_kind",
    pool="beta",
    prediction=1.0,
)
SMOKE = replace(
    CPU,
    model=replace(PAPER_MODEL, input="joint", hidden=16, rounds=20),
    games=32,
    iterations=20,
    block=5,
    pool="uniform",
    entropy=Linear(0.05, 0.035, 15),
)
PRESETS = {"smoke": SMOKE, "cpu": CPU, "paper": PAPER["mixed"]}

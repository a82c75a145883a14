"""Which trainings are compared: the arms of notebook 10, each one change away from the first.

The first arm trains the scratch Llama, after it has read games, with `exact_kl` on all training
games. Every other arm names what it changes and the arm that it is held against; all else is equal:
the start, the positions in their order, the number of optimiser steps, the held-out power-turns.

    objective      Eq. 6 as printed, plain imitation of the same data (claim C6)
    decomposition  weights of the bound in place of exact unit values (claim C3)
    data           a share of the training games, the smaller inside the larger (claim C7, Fig. 6);
                   0 is the start itself
    loss           likelihood over the legal next tokens instead of all
    units          the order in which units are spoken of
    candidates     at most six orders of each unit, under the anchor
    lambda         another strength of the anchor in the target; the search itself is not repeated
    start          random weights, no games read (claim C12)
    size           smaller and larger models, from random weights
    preference     DPO and PPO instead of a target (Table 7)
    factorisation  one text for all units, supervised on the most probable joint order; units that
                   do not know of each other (Table 2)
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields

METHODS = ("fit", "independent", "dpo", "ppo", "none")
TARGETS = ("pi_star", "bound_max")
STARTS = ("games", "random")
SMALL, LARGE = (64, 2, 2), (192, 6, 4)
SHARES = ((1, 12), (1, 6), (1, 3))
FIRST, START = "exact_kl", "no games"
SUPERVISED, INDEPENDENT, LISTED = "one text", "single units", "list at play"


@dataclass(frozen=True)
class Arm:
    """One training; what it does not name is as in the first arm.

    group: the question that it belongs to · against: the arm that it is compared with · changes:
    (field, value) pairs of `FinetuneSettings` · games: share of the training games, 0: no training
    · target: `pi_star` or `bound_max` · lam: of the target, None as searched · units: rule of
    `unit_order` · candidates: `legal` or `anchor`, in training and in the divergence · size: hidden
    width, layers, heads · start: `games` (read before) or `random` weights · method: `fit`,
    `independent` (single units), `dpo`, `ppo`, or `none`: the weights of the arm `against`, asked
    in another way.
    """

    name: str
    group: str
    against: str = FIRST
    changes: tuple[tuple[str, object], ...] = ()
    games: float = 1.0
    target: str = "pi_star"
    lam: float | None = None
    units: str = "canonical"
    candidates: str = "legal"
    size: tuple[int, int, int] | None = None
    start: str = "games"
    method: str = "fit"

    def __post_init__(self):
        for name, known in (("target", TARGETS), ("start", STARTS), ("method", METHODS)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"arm {self.name!r}: unknown {name} {getattr(self, name)!r}:"
                    f" use one of {', '.join(known)}"
                )
        if not 0 <= self.games <= 1:
            raise ValueError(f"arm {self.name!r}: share of games {self.games}: use 0 to 1")
        if self.size and self.start != "random":
            raise ValueError(f"arm {self.name!r}: another size starts from random weights")

    @property
    def key(self) -> str:
        """A name for files and tasks: letters, digits and _ only, and a hash of all fields."""
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in self.name)
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{plain}_{hashlib.sha256(text.encode('utf-8')).hexdigest()[:6]}"


@dataclass(frozen=True)
class ArmSettings:
    """Size of the arms; `of` reads the fields arms_* of a profile's settings.

    hidden, layers, heads: of the scratch Llama · reading: positions of recorded games that it reads
    first · steps, batch (positions), lr: of every training · heldout: power-turns of games that are
    never trained on · dpo_pairs, dpo_beta, dpo_rejected, ppo_draws, ppo_others, ppo_epochs,
    ppo_clip, ppo_kl, ppo_lr: see `preference`.
    """

    hidden: int = 128
    layers: int = 4
    heads: int = 4
    reading: int = 3000
    steps: int = 400
    batch: int = 1
    lr: float = 5e-4
    heldout: int = 300
    dpo_pairs: int = 2
    dpo_beta: float = 0.1
    dpo_lr: float = 1e-4
    dpo_rejected: str = "tau"
    ppo_draws: int = 4
    ppo_others: int = 16
    ppo_epochs: int = 2
    ppo_batch: int = 4
    ppo_batches: int = 40
    ppo_clip: float = 0.2
    ppo_kl: float = 0.01
    ppo_lr: float = 1e-4

    def __post_init__(self):
        if self.dpo_rejected not in ("tau", "uniform"):
            raise ValueError(f"unknown dpo_rejected {self.dpo_rejected!r}: use tau or uniform")
        if self.ppo_draws < 2:
            raise ValueError("ppo_draws: at least 2, the others of a turn are the baseline")

    @classmethod
    def of(cls, settings) -> "ArmSettings":
        """The arms_* fields of a profile's settings, defaults for what it lacks; an ArmSettings as
        it is.
        """
        if isinstance(settings, cls):
            return settings
        names = [f.name for f in fields(cls) if hasattr(settings, f"arms_{f.name}")]
        return cls(**{name: getattr(settings, f"arms_{name}") for name in names})


def objectives() -> list[Arm]:
    """The first arm, the other objectives and the approximate decompositions."""
    eq6 = ("objective", "paper_eq6"), ("eq6_weights", "raw")
    bc = ("objective", "bc_sample")
    squared = ("objective", "paper_eq6"), ("eq6_data", "pi_star")
    return [
        Arm(FIRST, "objective"),
        Arm("Eq. 6, uniform, raw", "objective", changes=eq6),
        Arm("Eq. 6, pi*, raw", "objective", changes=(*eq6, ("eq6_data", "pi_star"))),
        Arm("imitate tau", "objective", changes=(bc, ("bc_source", "tau"))),
        Arm("imitate pi*", "objective", changes=(bc, ("bc_source", "pi_star"))),
        Arm("imitate best", "objective", changes=(("objective", "bc_argmax"),)),
        Arm("bound_sample", "decomposition", changes=squared),
        Arm("bound_max", "decomposition", target="bound_max"),
    ]


def data() -> list[Arm]:
    """The start, and shares of the games; all of them are the first arm."""
    shares = [Arm(f"{a}/{b} of the games", "data", games=a / b) for a, b in SHARES]
    return [Arm(START, "data", games=0.0), *shares]


def texts() -> list[Arm]:
    """How the model is asked: loss, order of units, candidate list."""
    return [
        Arm("all tokens", "loss", changes=(("softmax", "tokens"),)),
        Arm("units in random order", "units", units="random"),
        Arm("units, fewest orders first", "units", units="most_constrained"),
        Arm(LISTED, "candidates", candidates="anchor", method="none"),
        Arm("list", "candidates", LISTED, candidates="anchor"),
    ]


def targets() -> list[Arm]:
    """Other strengths of the anchor, on the recorded values of the search."""
    return [Arm(f"lambda {lam:g}", "lambda", lam=lam) for lam in (1e-3, 1e-1)]


def models() -> list[Arm]:
    """Random weights, other sizes."""
    random = Arm("random weights", "start", start="random")
    sizes = (("small", SMALL), ("large", LARGE))
    return [
        random,
        *(Arm(f"{n}, random weights", "size", random.name, size=s, start="random")
          for n, s in sizes),
    ]  # fmt: skip


def preferences() -> list[Arm]:
    """DPO and PPO from the same start."""
    return [Arm("DPO", "preference", method="dpo"), Arm("PPO", "preference", method="ppo")]


def factorisations() -> list[Arm]:
    """Trained for being asked without the factorisation (`variants`)."""
    plain = ("objective", "bc_argmax"), ("softmax", "tokens"), ("joint_orders", 1)
    return [
        Arm(SUPERVISED, "factorisation", changes=plain),
        Arm(INDEPENDENT, "factorisation", method="independent"),
    ]


def every() -> list[Arm]:
    """All arms, the first one first."""
    own = objectives(), data(), texts(), targets(), models(), preferences(), factorisations()
    return [arm for group in own for arm in group]

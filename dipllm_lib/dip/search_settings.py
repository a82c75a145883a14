"""The settings of one search, with the published form as default.

`SearchSettings.of` reads them from the settings of a profile, where each has the prefix `search_`;
a profile that does not name one of the switches has the default of this table. Names of the
switches are those of the discrepancy list: each value here is a form found in a paper or its code.
"""

from dataclasses import dataclass, fields

LIMITS = ("per_unit", "per_order")
LEARNERS = ("hedge", "regret_matching")
TYPES = ("single", "dil")
ROLLOUT_POLICIES = ("anchor", "random")

# sets of lambda of DiL-piKL (Bakhtin et al. 2022b): two for training, two for play
LAM_SETS = {
    "high": (1e-2, 1e-1),
    "low": (1e-4, 1e-1),
    "play": (1e-4, 1e-3, 1e-2, 1e-1),
    "first turn": (1e-2, 10**-1.5, 1e-1, 10**-0.5),
}


@dataclass(frozen=True)
class SearchSettings:
    """Size and switches of a search; ValueError for a value that is not known.

    iterations T · candidates K of a power · ratio: at most this many candidates per unit (limit
    `per_unit`) or different orders of one unit (`per_order`) · draws from the anchor among which
    the candidates are chosen · extend: coordinated joint orders added to them · lam, eta0, rule,
    kappa, weighting, q: the update, see `hedge.rule` · learner · types `single` (lam) or `dil`: one
    learner for each of `lams`, of `first_lams` in spring 1901; `lam_agent`, `first_lam_agent` is
    the one that plays · rollout: phases played after the resolved one before the value is taken,
    orders from `rollout_policy`.
    """

    iterations: int
    candidates: int
    ratio: float
    draws: int
    lam: float
    eta0: float = 10.0
    rule: str = "normalised"
    kappa: str = "code"
    weighting: str = "linear"
    q: str = "mean"
    limit: str = "per_unit"
    extend: int = 0
    learner: str = "hedge"
    types: str = "single"
    lams: tuple[float, ...] = LAM_SETS["play"]
    lam_agent: float = 1e-4
    first_lams: tuple[float, ...] = LAM_SETS["first turn"]
    first_lam_agent: float = 1e-2
    rollout: int = 0
    rollout_policy: str = "anchor"

    def __post_init__(self):
        known = {
            "limit": LIMITS,
            "learner": LEARNERS,
            "types": TYPES,
            "rollout_policy": ROLLOUT_POLICIES,
        }
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise ValueError(
                    f"unknown search.{name} {getattr(self, name)!r}: use one of {', '.join(values)}"
                )
        for name, least in (("iterations", 1), ("draws", 1), ("extend", 0), ("rollout", 0)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"search.{name} is {getattr(self, name)}: a search needs at least {least}"
                )
        for lams, agent in (
            (self.lams, self.lam_agent),
            (self.first_lams, self.first_lam_agent),
        ):
            if agent not in lams or min(lams) < 0:
                raise ValueError(f"lam_agent {agent} must be one of lams {lams}, none negative")

    @classmethod
    def of(cls, settings) -> "SearchSettings":
        """The search_* fields of a profile's settings; a SearchSettings is returned as it is."""
        if isinstance(settings, cls):
            return settings
        names = [f.name for f in fields(cls) if hasattr(settings, f"search_{f.name}")]
        return cls(**{name: getattr(settings, f"search_{name}") for name in names})

    def lam_types(self, first: bool) -> tuple[tuple[float, ...], int]:
        """(lams, index of the one that plays); first: on the first turn of a game."""
        if self.types == "single":
            return (self.lam,), 0
        lams, agent = (
            (self.first_lams, self.first_lam_agent) if first else (self.lams, self.lam_agent)
        )
        return tuple(lams), lams.index(agent)

"""Stage 3: from a decision and its payoff to a labelled, weighted sample.

    delta = (u - rho) / s,     V = v(delta)                          outcome `sampled`
    V = cumulative prospect value of the lottery of all delta        outcome `lottery`
    desirable = V > 0,         omega = min(|V|, 4) / mean|V|         weights `value`
    omega = 1, and V = 0 counts as undesirable                       weights `unit`, plain KTO

u payoff, rho reference point, s scale of the game (pie; T - S; 1 for a share of a board). The mean
of |V| runs over the training split of one game and setting, never over a batch. Five references:

    status_quo    0, or the state before the move        batna      payoff without agreement
    equal_split   an equal part of what there is         expected   mean under policy and forecast
    last_round    payoff of the round before

A label of a selector (module `selectors`) sets `desirable` itself, with omega = 1; the verifier may
set V = v((eps - regret) / s) instead, which then gives label and weight.

v acts in the labels, so a trained policy can react to alpha, beta and lambda only if it is told
them: each decision is labelled under six settings, A to F, and the prompt names the setting. They
form a star around A, so a difference belongs to one parameter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipllm_lib.kto import loss, prospect
from dipllm_lib.kto.policies import Context
from dipllm_lib.kto.prospect import ProspectParams

REFERENCES = ("status_quo", "equal_split", "last_round", "batna", "expected")
DEFAULTS = {  # reference of each game by its name
    "Ultimatum": "equal_split",
    "Cut": "equal_split",
    "Bargaining": "equal_split",
    "Gift": "batna",
    "Repeated": "expected",
    "Orders": "status_quo",
}
OUTCOME, SELECTORS = "outcome", ("heuristic", "staged", "verifier", "trajectory")


@dataclass(frozen=True)
class Setting:
    """One of the six: a letter, the parameters of v, and a reference, "" for the game's default."""

    letter: str
    params: ProspectParams
    reference: str = ""

    def reference_of(self, default: str) -> str:
        """The reference in a game with this default. F swaps it: status_quo, or `expected` where
        that is the default already."""
        if not self.reference:
            return default
        return "expected" if default == self.reference else self.reference


SETTINGS = {
    "A": Setting("A", prospect.ARTICLE),
    "B": Setting("B", replace(prospect.ARTICLE, lam=3.2)),
    "C": Setting("C", replace(prospect.ARTICLE, lam=1.0)),
    "D": Setting("D", replace(prospect.ARTICLE, alpha=1.0)),
    "E": Setting("E", prospect.TK92),
    "F": Setting("F", prospect.ARTICLE, "status_quo"),
}


@dataclass(frozen=True)
class Sample:
    """A labelled decision. action: index of the legal text · payoff u, reference rho, scale s in
    the game's unit · value: V, nan where a selector gives none · omega: weight, mean 1 over its
    training split · selector: `outcome`, heuristic, staged, verifier or trajectory."""

    context: Context
    action: int
    payoff: float
    reference: float
    scale: float
    setting: str
    value: float
    desirable: bool
    omega: float
    selector: str
    role: str
    game: str
    episode: int
    round: int

    def __post_init__(self) -> None:
        if not 0 <= self.action < len(self.context.legal):
            raise ValueError(
                f"sample of {self.game}: action {self.action} of {len(self.context.legal)} texts"
            )
        if self.scale <= 0 or self.omega < 0:
            raise ValueError(f"sample of {self.game}: scale must be > 0 and omega >= 0")

    @property
    def text(self) -> str:
        """The legal text that was chosen."""
        return self.context.legal[self.action]


def reference_point(
    kind: str,
    *,
    before: float = 0.0,
    total: float | None = None,
    players: int = 2,
    last: float | None = None,
    batna: float | None = None,
    expected: float | None = None,
) -> float:
    """rho in the game's unit. ValueError for an unknown kind, or where its number is missing.

    before: payoff of the state before the move · total: what all players share · last: own payoff
    of the last round · batna: own payoff without agreement · expected: mean payoff under the
    current policy and forecast.
    """
    if kind not in REFERENCES:
        raise ValueError(f"unknown reference {kind!r}: use one of {', '.join(REFERENCES)}")
    given = {
        "status_quo": before,
        "equal_split": None if total is None else total / players,
        "last_round": last,
        "batna": batna,
        "expected": expected,
    }[kind]
    if given is None:
        raise ValueError(f"reference {kind} needs its number (total, last, batna or expected)")
    return float(given)


def sampled_value(payoff, reference, scale: float, params: ProspectParams) -> np.ndarray:
    """V of payoffs that occurred; arrays of one shape, or numbers."""
    return prospect.value((np.asarray(payoff) - reference) / scale, params)


def lottery_value(
    payoffs: Sequence[float],
    chances: Sequence[float],
    reference: float,
    scale: float,
    params: ProspectParams,
) -> float:
    """V of a decision whose payoffs are a lottery over the opponent forecast, with w."""
    return prospect.prospect((np.asarray(payoffs) - reference) / scale, chances, params)


def verified_value(regret, scale: float, params: ProspectParams, epsilon: float) -> np.ndarray:
    """V = v((eps - regret) / s); regret >= 0 in the game's unit, eps a share of the scale."""
    regret = np.asarray(regret, dtype=np.float64)
    if (regret < -1e-9).any():
        raise ValueError("a regret is the best payoff minus this one: it cannot be negative")
    return prospect.value(epsilon - regret / scale, params)


def label(
    context: Context,
    action: int,
    payoff: float,
    reference: float,
    scale: float,
    setting: Setting,
    where: tuple[str, str, int, int],
) -> Sample:
    """A sample labelled by its outcome; omega is 1 until `weighted`.

    where: (game, role, episode, round).
    """
    value = float(sampled_value(payoff, reference, scale, setting.params))
    game, role, episode, round_ = where
    fixed = (setting.letter, value, value > 0, 1.0, OUTCOME, role, game, episode, round_)
    return Sample(context, action, payoff, reference, scale, *fixed)


def selected(sample: Sample, desirable: bool, selector: str) -> Sample:
    """The same decision with the label of a selector, omega 1 and no V."""
    if selector not in SELECTORS:
        raise ValueError(f"unknown selector {selector!r}: use one of {', '.join(SELECTORS)}")
    return replace(
        sample, desirable=bool(desirable), omega=1.0, selector=selector, value=float("nan")
    )


def verified(sample: Sample, regret: float, params: ProspectParams, epsilon: float) -> Sample:
    """The same decision with V, label and later its weight from the verifier's regret."""
    value = float(verified_value(regret, sample.scale, params, epsilon))
    return replace(sample, value=value, desirable=value > 0, omega=1.0, selector="verifier")


def mean_sizes(training: Sequence[Sample]) -> dict[tuple[str, str], float]:
    """(game, setting) -> mean |V| over the samples of a training split that have a V."""
    kinds = sorted({(s.game, s.setting) for s in training if not np.isnan(s.value)})
    return {
        kind: loss.mean_size([
            s.value for s in training if (s.game, s.setting) == kind and not np.isnan(s.value)
        ])
        for kind in kinds
    }


def weighted(
    samples: Sequence[Sample], sizes: Mapping[tuple[str, str], float], weights: str = "value"
) -> list[Sample]:
    """The samples with their omega; sizes: of the training split. Those without V keep 1.

    weights: `value`, or `unit` for plain KTO. ValueError where a game and setting has no size.
    """
    if weights not in ("value", "unit"):
        raise ValueError(f"unknown weights {weights!r}: use value or unit")
    found = []
    for sample in samples:
        if weights == "unit" or np.isnan(sample.value):
            found.append(replace(sample, omega=1.0))
            continue
        if (sample.game, sample.setting) not in sizes:
            raise ValueError(f"no mean |V| for {sample.game}, setting {sample.setting}")
        mean = sizes[sample.game, sample.setting]
        found.append(replace(sample, omega=float(loss.omega([sample.value], mean)[0])))
    return found


def trajectory(samples: Sequence[Sample], won: Mapping[int, bool]) -> list[Sample]:
    """The second arm: one label per episode, copied to every step of it.

    won: episode -> whether it counts as won. ValueError for an episode without a verdict.
    """
    missing = sorted({s.episode for s in samples} - set(won))
    if missing:
        raise ValueError(f"no verdict on episodes {missing[:5]}: label whole episodes")
    return [selected(s, won[s.episode], "trajectory") for s in samples]


def balance(samples: Sequence[Sample]) -> dict[tuple[str, str], tuple[float, float]]:
    """(game, role) -> (lambda_D, lambda_U): 1, 1 for outcome labels, else plain counts balanced.

    ValueError where both kinds of label meet in one game and role.
    """
    found = {}
    for kind in sorted({(s.game, s.role) for s in samples}):
        own = [s for s in samples if (s.game, s.role) == kind]
        outcomes = {s.selector == OUTCOME for s in own}
        if len(outcomes) > 1:
            raise ValueError(f"{kind}: labels of outcomes and of selectors in one training")
        labels = [s.desirable for s in own]
        plain = outcomes == {True}
        found[kind] = (1.0, 1.0) if plain else loss.class_weights(labels, "selector")
    return found

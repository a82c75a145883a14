"""Settings of the three steps of the mechanism for both learners.

    step 1   one learner per seed, games with tabular agents only
    step 2   two learners per seed, each alone against the frozen agent of step 1: two independent
             extorters, since the paper does not say where the second one of step 3 comes from
    step 3   the two extorters against each other

`pretrain` stands before step 1 of PPI: D_0 and the first fit of two agents per seed, from which
step 1 (its first agent) and step 2 (both) begin. They share D_0 and first weights, nothing else.

Where step 3 begins (`start`): the paper "initialises with the extortion policies", while its
Algorithm 1 draws new weights in every phase.

    data      the data of step 2 are D_0, and new weights are fitted to them: the only reading under
              which Algorithm 1 stands
    weights   the weights of step 2, and the D_0 of pre-training
    both      the weights and the data

A2C has no data: it goes on with its weights. It has a stream of random numbers of its own in each
step.
"""

import math
from dataclasses import dataclass, replace

from dipllm_lib.ipd import a2c_settings, mixed_pool
from dipllm_lib.ipd.a2c_settings import A2CSettings
from dipllm_lib.ipd.evaluate import FROZEN, LEARNER, POOL, ProbeSettings
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.run.profiles import IPDSettings

PRETRAIN = "pretrain"
STEPS = ("step1", "step2", "step3")
STARTS = ("data", "weights", "both")
FIXED = ("TFT", "AllC", "AllD", POOL)  # of Fig. 2B
FURTHER = ("GRIM", "WSLS", "GTFT", "ZD1.5", "ZD2", "ZD3", "ZD5", "Bayes")
AGAINST = {"step1": FIXED, "step2": (FROZEN, *FIXED), "step3": (LEARNER, *FIXED)}
COLUMN = ("games", "lr", "lam_gae", "lam_td", "reward_scale", "entropy", "advantage_norm")


@dataclass(frozen=True)
class Sizes:
    """What the steps need beyond IPDSettings. ValueError for values that are not possible.

    phases: of PPI, steps 1, 2, 3 · iterations: of A2C likewise · columns: A2C takes the learning
    rate, batch, lambdas, rescaling, entropy and normalisation that Table 2 of the paper has for
    each step · start: of step 3, empty for the default, which is `data` with new weights in every
    phase and `both` without · opponents, copies: tabular agents and perturbed frozen agents of the
    enforcement line, line_games: with each of them.
    """

    phases: tuple[int, int, int] = (8, 18, 20)
    iterations: tuple[int, int, int] = (2000, 2000, 2000)
    columns: bool = False
    start: str = ""
    opponents: int = 200
    copies: int = 20
    line_games: int = 20

    def __post_init__(self) -> None:
        if self.start not in ("", *STARTS):
            raise ValueError(f"unknown start {self.start!r} of step 3: use {', '.join(STARTS)}")
        for name in ("phases", "iterations"):
            values = getattr(self, name)
            if len(values) != len(STEPS) or min(values) < 1:
                raise ValueError(f"{name} of the steps: need three numbers >= 1, got {values}")
        if min(self.opponents, self.line_games) < 1 or self.copies < 0:
            raise ValueError("opponents and line_games must be at least 1, copies at least 0")

    def start_of(self, settings: PPISettings) -> str:
        """Where step 3 begins under these settings."""
        return self.start or ("data" if settings.reinit else "both")


def sizes(settings: IPDSettings) -> Sizes:
    """The sizes of a profile."""
    return Sizes(
        settings.step_phases,
        settings.a2c_step_iterations,
        settings.a2c_step_columns,
        settings.step3_start,
        settings.line_opponents,
        settings.line_copies,
        settings.line_games,
    )


def number(step: str) -> int:
    """0, 1 or 2; ValueError for an unknown step."""
    if step not in STEPS:
        raise ValueError(f"unknown step {step!r}: use one of {', '.join((PRETRAIN, *STEPS))}")
    return STEPS.index(step)


def learners(step: str) -> int:
    """Learners of each seed."""
    return 1 if step == "step1" else 2


def ppi(settings: IPDSettings, sizes: Sizes, step: str) -> PPISettings:
    """Settings of PPI in a step, or of `pretrain`."""
    own = mixed_pool.ppi(settings)
    if step == PRETRAIN:
        return replace(own, phases=0)
    index = number(step)
    share = 1.0 if step == "step1" else 0.0
    own = replace(own, phases=sizes.phases[index], tabular_share=share)
    if step != "step3":
        return own
    # weights of step 2 have seen other data than D_0, so nothing to hold against its limit
    own = replace(own, gate=math.inf)
    if sizes.start_of(own) == "weights":
        return own
    return replace(own, first_games=own.first_games + sizes.phases[1] * own.games)


def a2c(settings: IPDSettings, sizes: Sizes, step: str) -> A2CSettings:
    """Settings of A2C in a step."""
    own, index = mixed_pool.a2c(settings), number(step)
    if sizes.columns:
        column = a2c_settings.PAPER[step]
        own = replace(own, **{name: getattr(column, name) for name in COLUMN})
    iterations = sizes.iterations[index]
    shown = replace(own, iterations=iterations, block=min(own.block, iterations))
    share = 1.0 if step == "step1" else 0.0
    return replace(shown, tabular=share, learners=learners(step))


def probes(settings: IPDSettings, pool: str, step: str, further: bool = False) -> ProbeSettings:
    """What is played at a probe of a step; further: against the other evaluators, at the end."""
    opponents = FURTHER if further else AGAINST[step]
    return ProbeSettings(settings.rounds, settings.probe_games, opponents, pool=pool)

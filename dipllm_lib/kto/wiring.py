"""How the modules of an agent are connected, and what the executor reads under an intervention.

A `Wiring` names the modules of one agent; what is left out is not connected, and no intervention
can reach it. `Prompts` builds the executor's context of a situation with one input changed:
setting, forecast, the opponent's last action, an emptied store.

Shapes: one context per situation and intervention.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dipllm_lib.kto import lm_labels
from dipllm_lib.kto.games import Game
from dipllm_lib.kto.policies import Context, Policy

Forecast = Callable[[Any, int], str]
Memory = Callable[[Context, Any, int], Context]


@dataclass(frozen=True)
class Situation:
    """One decision state, and the letter of the setting that was chosen for it."""

    state: Any
    player: int
    setting: str = "A"


@dataclass(frozen=True)
class Wiring:
    """How the modules of one agent are connected; what is left out is not connected.

    executor, base: policy with and without the executor's adapter · forecast: what the modeller
    tells the executor · pool: its possible forecasts, equally likely · memory: adds to a context
    what was read from the store · empty: adds what an empty store says · settings: the executor is
    told the letter · cache: distributions are kept · rho_change: of the reference between A and F,
    shares of the scale · swaps: states with another last action of the opponent · modeller: policy,
    its base and its context · coordinator: the same.
    """

    game: Game
    executor: Policy
    base: Policy | None = None
    forecast: Forecast | None = None
    pool: tuple[str, ...] = ()
    memory: Memory | None = None
    empty: Memory | None = None
    settings: bool = True
    cache: bool = False
    rho_change: float = -0.5
    swaps: Callable[[Any, int], Sequence[Any]] | None = None
    modeller: "Module | None" = None
    coordinator: "Module | None" = None


@dataclass(frozen=True)
class Module:
    """A module with an adapter of its own. context: (state, player) -> what it is asked."""

    policy: Policy
    base: Policy
    context: Callable[[Any, int], Context]


class Prompts:
    """The executor's contexts in a wiring."""

    def __init__(self, wiring: Wiring):
        self.wiring = wiring

    def context(
        self,
        at: Situation,
        *,
        setting: str | None = None,
        forecast: str | None = None,
        state: Any = None,
        empty: bool = False,
    ) -> Context:
        """The context of a situation with some inputs changed; what is not wired cannot be."""
        wiring, now = self.wiring, at.state if state is None else state
        letter = (at.setting if setting is None else setting) if wiring.settings else ""
        told = self.told(now, at.player) if forecast is None else forecast
        told = told if wiring.forecast else ""
        own = lm_labels.context(wiring.game, now, at.player, letter, told)
        if wiring.memory is None:
            return own
        add = wiring.empty if empty else wiring.memory
        return add(own, now, at.player) if add is not None else own

    def told(self, state: Any, player: int) -> str:
        """The forecast of the modeller, "" for none."""
        return self.wiring.forecast(state, player) if self.wiring.forecast else ""


def without(wiring: Wiring, *names: str) -> Wiring:
    """The wiring without the named modules: adapter, forecast, memory, setting, cache, social,
    modeller, coordinator. ValueError for another name."""
    off = {
        "adapter": {"base": None},
        "forecast": {"forecast": None, "pool": ()},
        "memory": {"memory": None, "empty": None},
        "setting": {"settings": False},
        "cache": {"cache": False},
        "social": {"swaps": None},
        "modeller": {"modeller": None},
        "coordinator": {"coordinator": None},
    }
    unknown = sorted(set(names) - set(off))
    if unknown:
        raise ValueError(f"no module {unknown[0]!r}: use some of {', '.join(off)}")
    changes: dict[str, Any] = {}
    for name in names:
        changes |= off[name]
    return replace(wiring, **changes)

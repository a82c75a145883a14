"""The settings of games with press, from the fields press_* of a profile.

`SceneSettings` are what the choice of orders needs, with press or without.
"""

from dataclasses import dataclass

from dipllm_lib.dip.search_settings import SearchSettings


@dataclass(frozen=True)
class SceneSettings:
    """candidates: most probable joint orders of a power, of `draws` from the anchor · samples:
    joint orders of all powers that values are averaged over · lam: strength of the anchor, shares
    of SoS · temperature: of play · eta: price of a breach, shares of SoS. ValueError for a number
    below its least.
    """

    candidates: int
    draws: int
    samples: int
    lam: float
    temperature: float
    eta: float

    def __post_init__(self):
        least = {"candidates": 1, "draws": 1, "samples": 1, "eta": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"press.{name} is {getattr(self, name)}: need at least {bound}")
        for name in ("lam", "temperature"):
            if not getattr(self, name) > 0:
                raise ValueError(f"press.{name} is {getattr(self, name)}: need more than 0")

    @classmethod
    def of(cls, settings) -> "SceneSettings":
        """The press_* fields of a profile's settings of study 3."""
        return cls(
            settings.press_candidates,
            settings.press_draws,
            settings.press_samples,
            settings.press_lam,
            settings.press_temperature,
            settings.press_eta,
        )

    @property
    def search(self) -> SearchSettings:
        """How `dip.candidates` proposes: only the number limits the candidates."""
        return SearchSettings(1, self.candidates, float(self.candidates), self.draws, self.lam)

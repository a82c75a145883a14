"""Settings of study 3 in the three profiles; see `profiles`."""

from dataclasses import dataclass

from dipllm_lib.run.settings import Settings, setting


# fmt: off
@dataclass(frozen=True)
class KTOSettings(Settings):
    """Study 3, multi-agent KTO in language games."""

    lora_rank: int = setting(2, 6, 16, "rank of each of the three role adapters", "rank", "the text's 16; chosen below it: time")
    tabular_seeds: int = setting(2, 10, 10, "independent tabular runs", "seeds", "chosen")
    executor_steps: int = setting(40, 100, 2000, "training steps of the executor role", "steps", "chosen: time")
    contexts: int = setting(8, 8, 128, "contexts per logical batch", "contexts", "the text's 128; chosen below it: time")
    ipd_rounds: int = setting(10, 40, 100, "rounds of the iterated prisoner's dilemma", "rounds", "the text's 100; chosen below it: time")
    league_rounds: int = setting(1, 6, 20, "rounds of the tabular league", "rounds", "chosen: time")
    league_members: int = setting(6, 25, 40, "members of the league", "agents", "chosen: time")
    influence_states: int = setting(16, 128, 512, "states behind the influence graph", "states", "chosen: time")
    # structured negotiation in Diplomacy
    press_games: int = setting(7, 84, 70, "games of each main arm with press, and as many without", "games", "chosen: seats rotate, so a multiple of 7; the issue asks for 70")
    press_arm_games: int = setting(7, 28, 70, "games of each arm that compares negotiators or effects, twice that for the negotiator with three phases", "games", "chosen: time")
    press_last_year: int = setting(1901, 1904, 1908, "a game with press ends after this year's adjustments", "year", "chosen: time")
    press_candidates: int = setting(6, 12, 32, "most probable joint orders of a power in a movement phase, before those that agreements need", "joint orders", "chosen: time")
    press_draws: int = setting(16, 48, 256, "draws from the anchor among which they are the most probable", "joint orders", "chosen: 4 times the candidates or more")
    press_samples: int = setting(4, 16, 16, "joint orders of all powers, common to all comparisons of a phase", "joint orders", "specification 10.1")
    press_lam: float = setting(.01, .01, .01, "strength of the anchor in the choice of orders, lambda", "share of SoS", "as search_lam")
    press_temperature: float = setting(.1, .1, .1, "temperature of play, in all phases", "1", "as anchor_play")
    press_eta: float = setting(.02, .02, .02, "price of an own breach under the effect `priced`", "share of SoS", "specification 10.2, chosen")
    press_resamples: int = setting(200, 2000, 10000, "resamples of games behind an interval", "resamples", "chosen")
# fmt: on

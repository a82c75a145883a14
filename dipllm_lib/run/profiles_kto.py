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
    # 08: recovery of value parameters from simulated choices
    choice_sizes: tuple = setting((200, 1000), (200, 1000, 5000), (200, 1000, 5000), "choices of a simulated person", "choices", "chosen: few, as in the pass rule, many")
    choice_people: int = setting(4, 100, 1000, "simulated persons of each size", "persons", "chosen: time")
    choice_resamples: int = setting(20, 400, 2000, "resamples behind an interval of a fit", "resamples", "chosen: time")
    influence_states: int = setting(16, 128, 512, "states behind the influence graph", "states", "chosen: time")
# fmt: on

"""Settings of study 3 in the three profiles; see `profiles`."""

from dataclasses import dataclass

from dipllm_lib.run.settings import Settings, setting


# fmt: off
@dataclass(frozen=True)
class KTOSettings(Settings):
    """Study 3, multi-agent KTO in language games."""

    lora_rank: int = setting(2, 6, 16, "rank of each of the three role adapters", "rank", "the text's 16; chosen below it: time")
    tabular_seeds: int = setting(2, 10, 10, "independent tabular runs", "seeds", "chosen")
    executor_steps: int = setting(40, 400, 2000, "training steps of the executor role, over all rounds", "steps", "chosen: time")
    contexts: int = setting(8, 8, 128, "contexts per logical batch", "contexts", "the text's 128; chosen below it: time")
    ipd_rounds: int = setting(10, 40, 100, "rounds of the iterated prisoner's dilemma", "rounds", "the text's 100; chosen below it: time")
    league_rounds: int = setting(1, 6, 20, "rounds of the tabular league", "rounds", "chosen: time")
    league_members: int = setting(6, 25, 40, "members of the league", "agents", "chosen: time")
    influence_states: int = setting(16, 128, 512, "states behind the influence graph", "states", "chosen: time")
    # 08: recovery of value parameters from simulated choices
    choice_sizes: tuple = setting((200, 1000), (200, 1000, 5000), (200, 1000, 5000), "choices of a simulated person", "choices", "chosen: few, as in the pass rule, many")
    choice_people: int = setting(4, 40, 400, "simulated persons of each size", "persons", "chosen: time")
    choice_resamples: int = setting(20, 200, 1000, "resamples behind an interval of a fit", "resamples", "chosen: time")
    # the objectives side by side (notebook 10c): tables
    objective_rounds: int = setting(20, 60, 60, "rounds of a tabular training, each with a new reference policy", "rounds", "chosen: the exact learner has settled")
    objective_steps: int = setting(10, 10, 10, "gradient steps per round", "steps", "chosen")
    objective_rate: float = setting(2., 2., 2., "step size in units of the policy gradient of prospect value over mean |V|", "1", "chosen: exact self-play settles within the rounds")
    objective_kappa: float = setting(.1, .1, .1, "temperature of the sigmoid", "1/nat", "chosen: TRL's default")
    objective_tau: float = setting(.5, .5, .5, "temperature of weighted likelihood, in units of mean |V|", "1", "chosen")
    objective_episodes: int = setting(50, 200, 200, "episodes per round", "episodes", "chosen")
    objective_fixed: tuple = setting((500, 100), (2000, 300), (2000, 300), "episodes and steps of one round on data of the uniform policy", "(episodes, steps)", "chosen")
    objective_repeated: tuple = setting((6, 20), (20, 50), (100, 200), "rounds and episodes per round of training for step against trajectory labels", "(rounds, episodes)", "chosen: time")
    objective_bargain: tuple = setting((20, 400), (100, 4000), (100, 4000), "grid and drawn decisions of the bargaining without end", "(steps, decisions)", "chosen: 1/(1 + delta) lies between two steps of a coarser grid")
    objective_sweeps: int = setting(10, 20, 40, "sweeps of the bargaining without end", "sweeps", "chosen: the worth remembered has settled")
    cem_rounds: int = setting(2, 8, 8, "rounds of the cross-entropy method", "rounds", "chosen")
    cem_population: int = setting(8, 16, 16, "candidates per round, a quarter of them elite", "candidates", "chosen")
    objective_bootstrap: int = setting(200, 2000, 10000, "resamples behind an interval over seeds", "resamples", "chosen")
    # the same with a language model, one seed
    objective_lm_rounds: int = setting(2, 10, 50, "rounds, each with a new reference policy", "rounds", "chosen: time")
    objective_lm_steps: int = setting(3, 4, 20, "AdamW steps per round", "steps", "chosen: time")
    objective_lm_rate: float = setting(3e-3, 3e-4, 2e-5, "learning rate of AdamW, falls to 0 over all steps", "1/step", "lowered once: at 1e-3 three of seven objectives held to one offer by the tenth step of seed 0")
    objective_lm_episodes: int = setting(200, 500, 2000, "episodes per round and setting", "episodes", "chosen")
    # the language model of notebook 09: base, adapters, schedule
    lm_base: str = setting("scratch", "smollm2", "folder", "base of the three adapters: `scratch`, `smollm2`, `folder`", "name", "chosen: Llama-3-8B in paper, which has not been run")
    lm_folder: str = setting("", "", "Llama-3-8B", "folder of the base model, for `folder` only", "path", "chosen")
    lm_dtype: str = setting("float32", "bfloat16", "bfloat16", "precision of the base; adapters are float32", "name", "chosen: three times as fast on a CPU that has it")
    lm_targets: tuple = setting(("q_proj", "v_proj"), ("q_proj", "k_proj", "v_proj", "o_proj"), ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), "layers that carry a role adapter", "names", "chosen: half a per cent of the base")
    lm_first: float = setting(5e-6, 5e-6, 5e-6, "learning rate of the first step, before `lm_rate_factor`", "1/step", "the text")
    lm_peak: float = setting(2e-5, 2e-5, 2e-5, "learning rate of the peak", "1/step", "the text")
    lm_last: float = setting(1e-6, 1e-6, 1e-6, "learning rate of the last step", "1/step", "the text")
    lm_rate_factor: float = setting(500., 8., 1., "factor of all three rates", "1", "tuned on the executor of the ultimatum and the repeated game, seed 0, values 50, 25 and 8: a few hundred steps at 2e-5 move nothing")
    lm_forecast_factor: float = setting(500., 50., 1., "the same factor for the opponent modeller", "1", "chosen: with 8 it stays beside the base; its loss has a minimum")
    lm_rounds: int = setting(2, 8, 20, "rounds of collection, labels and training of the executor, each with a new reference policy", "rounds", "chosen: one round on fixed data ends at the offer that was likely before")
    lm_kappa: float = setting(.1, .1, .1, "temperature of the KTO loss", "1/nat", "chosen: TRL's default")
    lm_episodes: int = setting(40, 120, 1000, "episodes per match of the collection", "episodes", "chosen: time")
    lm_pretrain_rank: int = setting(0, 6, 16, "rank of the adapter of stage 1, 0: all weights", "rank", "chosen: merged afterwards")
    lm_pretrain_steps: int = setting(60, 80, 2000, "steps of stage 1", "steps", "chosen: time")
    lm_pretrain_rate: float = setting(3e-3, 1e-3, 2e-5, "peak learning rate of stage 1", "1/step", "chosen: held-out loss; paper as the text")
    lm_pretrain_contexts: int = setting(32, 16, 128, "contexts per step of stage 1", "contexts", "chosen: time")
    lm_opponent_steps: int = setting(40, 60, 1000, "training steps of the opponent modeller", "steps", "chosen: time")
    lm_coordinator_steps: int = setting(20, 40, 500, "training steps of the coordinator", "steps", "chosen: time")
    lm_windows: int = setting(2, 6, 20, "payoff windows per game variant and setting that the coordinator learns from", "windows", "chosen: time")
    lm_window: int = setting(10, 20, 50, "episodes of a payoff window", "episodes", "chosen")
    lm_test_episodes: int = setting(1, 2, 20, "held-out episodes per member of the pool, for the forecasts", "episodes", "chosen: time")
    lm_decisions: int = setting(8, 30, 300, "timed decisions per rung of the ladder", "decisions", "chosen: time")
    lm_budget: float = setting(800., 800., 800., "time budget of a decision", "ms", "the text")
    lm_separation_seeds: int = setting(2, 8, 20, "seeds of the arms with one adapter and with full weights, on the tiny base", "seeds", "chosen: time")
    lm_resamples: int = setting(200, 1000, 2000, "bootstrap resamples of the intervals of notebook 09", "resamples", "chosen")
    # the tabular league
    league_updates: int = setting(5, 10, 10, "updates of the tables per round of the league, each with fresh decisions and a new reference policy", "updates", "chosen")
    league_decisions: int = setting(200, 1000, 1000, "decisions drawn per table and update", "decisions", "chosen: time")
    league_rate: float = setting(.2, .2, .2, "step size, in units as objective_rate", "1", "chosen: with ten times as much a table is settled after one round and no later member changes it")
    league_self: float = setting(.15, .15, .15, "largest share of matches with members that learned themselves", "share", "specification 7: below .182, where the best offer to people changes first")
    league_mix: float = setting(.1, .1, .1, "share of uniform play in the first reference policy of a round", "share", "chosen: an action that died can come back when the members change")
    league_episodes: int = setting(20, 200, 1000, "episodes of each ordered pair behind the payoff matrix", "episodes", "chosen: time")
    league_bargain: tuple = setting((3, 10), (6, 20), (6, 100), "rounds and grid of alternating offers", "(rounds, steps)", "chosen: time")
    league_delta: float = setting(.9, .9, .9, "discount of alternating offers", "1", "chosen")
    league_resamples: int = setting(200, 2000, 10000, "resamples behind the intervals of the league", "resamples", "chosen")
    # memory, consistency and change of rules
    memory_seeds: int = setting(2, 6, 10, "independent learned players of each arm", "seeds", "chosen: time")
    memory_rounds: int = setting(10, 40, 100, "rounds of an episode; consistency needs 40", "rounds", "as ipd_rounds")
    memory_change: int = setting(4, 20, 20, "first round of the new rules, from 0", "round", "specification 8")
    memory_training: tuple = setting((4, 2, 16, .015), (60, 3, 24, .015), (300, 4, 64, .01), "iterations of play, updates of each, episodes, learning rate", "(iterations, updates, episodes, 1/step)", "chosen: regret has settled")
    memory_recall: tuple = setting((30, 16, 64, .05), (300, 32, 320, .05), (300, 64, 640, .05), "steps of the recall task, episodes of each, episodes of its test, learning rate", "(steps, episodes, episodes, 1/step)", "chosen: recall has settled")
    memory_lags: tuple = setting((4, 16), (4, 16, 32), (4, 16, 32), "rounds between an event and the question for it", "rounds", "specification 8")
    memory_episodes: int = setting(4, 16, 64, "test episodes per partner or change, and seed", "episodes", "chosen: time")
    memory_resamples: int = setting(200, 2000, 10000, "resamples of seeds behind an interval", "resamples", "chosen")
    # the influence graph: `influence_states` are its states
    influence_grounds: int = setting(2, 16, 64, "states whose forecast is taken again without each past round", "states", "chosen: time")
    influence_tabular_rounds: int = setting(10, 40, 60, "rounds of training of the tabular executors", "rounds", "as objective_rounds")
    influence_resamples: int = setting(200, 2000, 10000, "resamples of states behind an interval", "resamples", "chosen")
    # structured negotiation in Diplomacy
    press_games: int = setting(7, 84, 70, "games of each main arm with press, and without press as many as the largest arm has", "games", "chosen: seats rotate, so a multiple of 7; the issue asks for 70")
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

"""Three profiles, one frozen dataclass of settings per study.

A field is one line: its value in `smoke`, `cpu` and `paper`, then text, unit and source. A source is a table or
section of a paper, or "chosen: why". A profile changes numbers, never code paths; no environment variable, file or
command line changes a number. To change one, edit the settings cell of a notebook with `dataclasses.replace`.
"""

from dataclasses import dataclass, fields

import pandas as pd

from dipllm_lib.run.profiles_kto import KTOSettings
from dipllm_lib.run.settings import Settings, setting

NAMES = ("smoke", "cpu", "paper")

XU = "Xu et al. 2025"
B22A = "Bakhtin et al. 2022a, code"
B22B = "Bakhtin et al. 2022b"
WEIS = "Weis et al. 2026"


# fmt: off
@dataclass(frozen=True)
class DiplomacySettings(Settings):
    """Study 1, DipLLM. Prefixes group the fields by the notebook step that reads them."""

    # the anchor policy tau
    anchor: str = setting("bots", "human", "human", "`human` (imitates people; weights in data/inputs) or `bots` (imitates SoftDumbBot, fitted in 01)", "name", f"{XU}: DipNet, trained on games of people")
    anchor_play: float = setting(.1, .1, .1, "sampling temperature of the anchor as a player; inside a search it is 1", "1", B22A)
    anchor_temperature: float = setting(.098, .098, .098, "softness of SoftDumbBot's scores", "share of the best score", "fitted: by likelihood on 200 turns of DumbBot (softfit, seed 0), interval 0.079 to 0.126")
    anchor_uniform: float = setting(.02, .02, .02, "weight of the uniform legal policy inside SoftDumbBot", "probability", "chosen: keeps log tau finite")
    # the anchor `bots`: games of SoftDumbBot and the net that imitates them
    bots_games: int = setting(16, 150, 4000, "games of SoftDumbBot that are imitated", "games", "chosen: time")
    bots_last_year: int = setting(1903, 1908, 1920, "a game of SoftDumbBot ends after this year's adjustments", "year", "chosen: time")
    bots_turns: int = setting(40, 200, 2000, "held-out power-turns of the divergence from the teacher", "power-turns", "chosen: time")
    anchor_width: int = setting(32, 64, 128, "width of the encoder", "units", "chosen: 1.3 M weights in paper")
    anchor_layers: int = setting(2, 2, 4, "layers of the encoder", "layers", "chosen: held-out likelihood per CPU second")
    anchor_heads: int = setting(4, 4, 8, "relations per layer", "heads", "chosen: held-out likelihood per CPU second")
    anchor_hidden: int = setting(32, 64, 128, "width of the order decoder", "units", "chosen: held-out likelihood per CPU second")
    anchor_dropout: float = setting(0., .05, .05, "dropout of channels", "probability", "chosen: held-out likelihood")
    anchor_epochs: int = setting(6, 3, 4, "passes over the imitated positions", "epochs", "chosen: time")
    anchor_batch: int = setting(16, 32, 32, "positions per step", "positions", "chosen: time")
    anchor_lr: float = setting(4e-3, 2e-3, 1.5e-3, "AdamW learning rate, warm-up, then linear to 0", "1/step", "chosen: held-out likelihood")
    anchor_warmup: int = setting(20, 50, 300, "steps of the warm-up", "steps", "chosen")
    anchor_decay: float = setting(.02, .02, .02, "weight decay", "1", "chosen")
    anchor_others: float = setting(.5, .5, .2, "share of the retreat and adjustment positions seen in an epoch", "share", "chosen: they are easier")
    anchor_dtype: str = setting("float32", "bfloat16", "bfloat16", "precision of the training", "name", "chosen: twice as fast on a CPU that has it")
    # the ladder of rule-based players
    ladder_games: int = setting(7, 140, 700, "games of each pairing of neighbours in the ladder, both ways", "games", "chosen: seats rotate, so a multiple of 7")
    ladder_matrix_games: int = setting(0, 35, 700, "games of the other pairings of the ladder, 0 = none", "games", "chosen: time")
    ladder_last_year: int = setting(1903, 1908, 1920, "a ladder game ends after this year's adjustments", "year", "chosen: time")
    ladder_stalemate_years: int = setting(3, 3, 3, "years without a change of supply centres that make a draw, 0 = never", "years", B22A)
    # self-play of the anchor: data for the value net
    selfplay_games: int = setting(16, 700, 10000, "games that the anchor plays against itself", "games", "chosen: time; more games make a better value net")
    selfplay_warm_years: int = setting(2, 7, 12, "game n begins with n modulo this many years at temperature 1", "years", "chosen: varied positions, then play as in the gate")
    selfplay_last_year: int = setting(1903, 1908, 1935, "a game ends after this year's adjustments", "year", "chosen: that of the gate, since a value belongs to an end")
    selfplay_stalemate_years: int = setting(3, 3, 3, "years without a change of supply centres that make a draw, 0 = never", "years", B22A)
    selfplay_end_draws: tuple = setting((), (), ((1909, .2), (1914, .4)), "from spring of this year on, the game ends with this probability each spring", "(year, probability)", B22A)
    # the value net
    value_hidden: int = setting(32, 128, 128, "width of the two hidden layers; the pre-trained net has 128", "units", "chosen: evaluation cost inside the search")
    value_epochs: int = setting(4, 1, 3, "passes over the training positions", "epochs", "tuned in cpu: held-out loss of a training that goes on from the pre-trained net")
    value_batch: int = setting(256, 512, 1024, "positions per step", "positions", "chosen: time")
    value_lr: float = setting(3e-3, 2e-4, 1e-3, "AdamW learning rate, linear to 0", "1/step", "tuned in cpu: held-out loss, on games of other seeds")
    value_heldout: float = setting(.25, .15, .1, "share of the games kept for the error on unseen games", "share", "chosen: whole games, never positions")
    # search
    search_rule: str = setting("normalised", "normalised", "normalised", "piKL-Hedge with division by lam + kappa, or `literal` as printed", "name", f"{B22B}, Eq. 5; {XU}, Eq. 1")
    search_kappa: str = setting("code", "code", "code", "temperature schedule: `code` (step-size form), `paper` or `zero`", "name", B22A)
    search_weighting: str = setting("linear", "linear", "linear", "weight of an iteration in the averages: `linear` or `uniform`", "name", B22A)
    search_q: str = setting("mean", "mean", "mean", "values against the average (`mean`) or the latest (`current`) opponents", "name", f"{XU}, text against Eq. 1")
    search_iterations: int = setting(12, 96, 256, "iterations T of piKL-Hedge", "iterations", f"{XU}, Table 3")
    search_candidates: int = setting(6, 32, 50, "joint orders K per power", "joint orders", f"{XU}, Table 3; tuned in cpu on 84 gate games of another seed: 16, 32 gave 18.6, 20.9 % SoS")
    search_ratio: float = setting(3., 6., 6., "at most this many candidates per unit", "joint orders / unit", f"{XU}, Table 3")
    search_draws: int = setting(32, 256, 500, "draws from the anchor among which the candidates are the most probable", "joint orders", "chosen: about 8 K")
    search_lam: float = setting(.01, .01, .01, "strength of the anchor, lambda", "share of SoS", "chosen: 0.1, as printed, hugs the anchor; 1e-4 is an argmax")
    search_limit: str = setting("per_unit", "per_unit", "per_unit", "`per_unit` (joint orders up to ratio x units) or `per_order` (orders of each unit)", "name", B22B)
    search_extend: int = setting(0, 0, 0, "coordinated joint orders (own supports, convoys) added to the candidates", "joint orders", "chosen: none in the paper")
    search_learner: str = setting("hedge", "hedge", "hedge", "`hedge` (piKL-Hedge) or `regret_matching`", "name", f"{XU}, Eq. 1; {B22A}")
    search_types: str = setting("single", "single", "single", "`single` (one lambda) or `dil` (DiL-piKL, a lambda for each type)", "name", f"{XU}; {B22B}")
    search_lams: tuple = setting((1e-4, 1e-3, 1e-2, 1e-1), (1e-4, 1e-3, 1e-2, 1e-1), (1e-4, 1e-3, 1e-2, 1e-1), "lambda of each type of DiL-piKL", "share of SoS", B22B)
    search_lam_agent: float = setting(1e-4, 1e-4, 1e-4, "the type that plays", "share of SoS", B22B)
    search_first_lams: tuple = setting((1e-2, 10**-1.5, 1e-1, 10**-.5), (1e-2, 10**-1.5, 1e-1, 10**-.5), (1e-2, 10**-1.5, 1e-1, 10**-.5), "lambda of each type in spring 1901", "share of SoS", B22B)
    search_first_lam_agent: float = setting(1e-2, 1e-2, 1e-2, "the type that plays in spring 1901", "share of SoS", B22B)
    search_rollout: int = setting(0, 0, 0, "phases played before the value is taken", "phases", B22A)
    search_rollout_policy: str = setting("anchor", "anchor", "anchor", "orders of these phases: `anchor` or `random`", "name", B22A)
    search_eta0: float = setting(10., 10., 10., "step size constant of the schedule `code`", "1", B22A)
    explore: float = setting(.1, .1, .1, "probability that a power plays a uniform candidate in a data game", "probability", f"{XU}, Table 3")
    explore_s1901m: float = setting(.1, .1, .1, "the same in spring 1901", "probability", f"{XU}, Table 3")
    explore_f1901m: float = setting(.1, .1, .1, "the same in fall 1901", "probability", f"{XU}, Table 3")
    target_policy: str = setting("final", "final", "final", "joint target: softmax of the final exponents, or `average` policy", "name", f"{XU}, Eq. 2")
    # data games and the gate
    data_games: int = setting(10, 24, 500, "games played with search by all seven powers", "games", f"{XU}, section 5")
    data_last_year: int = setting(1903, 1908, 1935, "a data game ends after this year's adjustments", "year", "chosen: time")
    gate_games: int = setting(7, 210, 7000, "games of one search teacher against six anchors", "games", "chosen: seats rotate, so a multiple of 7")
    gate_last_year: int = setting(1903, 1908, 1935, "a gate game ends after this year's adjustments", "year", "chosen: time")
    # theory checks
    theory_games: int = setting(5, 20, 20, "random zero-sum matrix games", "games", "chosen: enough to count violations")
    theory_iterations: int = setting(1000, 64000, 64000, "iterations of exact piKL-Hedge on a matrix game", "iterations", "chosen: the bound is asymptotic; at 16,000 rock-paper-scissors still missed it for the smallest lambda")
    # fine-tuning
    backbone: str = setting("scratch", "smollm2", "folder", "`scratch` (Llama from its config), `smollm2` (SmolLM2-135M-Instruct), `smollm2-random` or `folder`", "name", f"{XU}: Llama-3-8B; stand-ins chosen")
    base_model: str = setting("", "", "models/Meta-Llama-3-8B", "folder or hub name of the `folder` backbone; a wheel, gguf or folder for `smollm2`", "path", f"{XU}, section 5")
    device_map: str = setting("", "", "auto", "spreads a `folder` backbone over all GPUs with `auto`", "name", "chosen")
    scratch_hidden: int = setting(128, 256, 256, "width of the scratch Llama", "units", "chosen: about 1 M and 8 M parameters")
    scratch_layers: int = setting(4, 8, 8, "layers of the scratch Llama", "layers", "chosen: about 1 M and 8 M parameters")
    scratch_heads: int = setting(4, 4, 4, "attention heads of the scratch Llama", "heads", "chosen: a fifth faster than eight")
    scratch_lr: float = setting(2e-3, 1e-3, 1e-3, "AdamW learning rate of a scratch Llama beside the main model", "1/step", "chosen")
    # next-token training of the scratch Llama on recorded games
    pretrain_positions: int = setting(60, 1000, 20000, "positions of the anchor's games with itself to read", "positions", "chosen: time")
    pretrain_heldout: int = setting(20, 100, 400, "positions of games set aside", "positions", "chosen: whole games")
    pretrain_epochs: int = setting(1, 1, 1, "passes over them", "epochs", "chosen: games are plenty")
    pretrain_batch: int = setting(4, 4, 4, "positions per step", "positions", "chosen: held-out error, 4 against 16")
    pretrain_lr: float = setting(2e-3, 1e-3, 1e-3, "peak of AdamW, warmed up, then a cosine to 0", "1/step", "chosen")
    pretrain_targets: str = setting("orders", "orders", "orders", "tokens in the loss: `orders`, `legal` (among the legal ones) or `text`", "name", "chosen: the board is given at play")
    pretrain_precision: str = setting("float32", "bfloat16", "bfloat16", "precision of the products", "name", "chosen: speed")
    pretrain_evaluations: int = setting(1, 2, 4, "held-out measurements besides the first", "measurements", "chosen: time")
    lora_rank: int = setting(0, 16, 16, "rank of the adapter, 0 trains all weights", "rank", f"{XU}, Table 4")
    lora_alpha: int = setting(32, 32, 32, "scale of the adapter", "1", f"{XU}, Table 4")
    lora_dropout: float = setting(0., .05, .05, "dropout inside the adapter", "probability", f"{XU}, Table 4")
    finetune_objective: str = setting("exact_kl", "exact_kl", "exact_kl", "training objective", "name", f"{XU}, Eq. 5")
    finetune_eq6_data: str = setting("uniform", "uniform", "uniform", "what Eq. 6 averages over: `uniform` (each candidate once), `pi_star` or `tau`", "name", f"{XU}, Eq. 6")
    finetune_eq6_weights: str = setting("per_state", "per_state", "per_state", "weights of Eq. 6 normalised in each state, or `raw`", "name", f"{XU}, Eq. 6")
    finetune_bc_source: str = setting("tau", "tau", "tau", "what `bc_sample` draws from: `tau` or `pi_star`", "name", "chosen: plain imitation of the same data")
    finetune_softmax: str = setting("legal", "legal", "tokens", "likelihood over the `legal` next tokens, as at play, or over all `tokens`", "name", f"{XU}: plain token likelihood; tuned in cpu: 300 power-turns, one run each, on 28 of one data game that 03 trains on with seed 0: KL 18.9 to 8.6 with legal, to 15.1 with tokens")
    finetune_turns: int = setting(160, 1200, 63000, "power-turns in the training data", "power-turns", "chosen: time; the paper has those of 500 games")
    finetune_heldout: int = setting(42, 84, 2000, "power-turns of games that are never trained on", "power-turns", "chosen: time")
    finetune_heldout_games: int = setting(2, 4, 20, "data games that are never trained on", "games", "chosen: a sixth in cpu")
    finetune_joint_orders: int = setting(4, 4, 50, "most probable joint orders of the target kept in the loss", "joint orders", "chosen: time; the kept mass is logged")
    finetune_epochs: int = setting(4, 1, 5, "passes over the training data", "epochs", f"{XU}, Table 4")
    finetune_batch: int = setting(2, 1, 4, "rows per optimiser step, see finetune_pack", "rows", f"{XU}, Table 4; cpu: more steps in the same time")
    finetune_pack: str = setting("position", "position", "position", "a row is a power-turn (`turn`), or a `position` with its powers as branches; finetune_batch counts rows", "name", "chosen: 2.2 times fewer tokens")
    finetune_tokens: int = setting(1024, 1024, 8192, "padded tokens of a backward pass", "tokens", "chosen: memory")
    finetune_schedule: str = setting("linear", "linear", "linear", "learning rate `linear` to 0 or `cosine`", "name", f"{XU}, Table 4")
    finetune_warmup: int = setting(0, 0, 0, "steps of rising learning rate", "steps", "chosen")
    finetune_checkpointing: bool = setting(False, False, True, "recompute activations in the backward pass", "yes or no", "chosen: memory")
    finetune_lr: float = setting(2e-3, 1e-3, 2e-4, "AdamW learning rate, linear to 0", "1/step", f"{XU}, Table 4; tuned in cpu as finetune_softmax, two values tried: KL 8.6 with 1e-3, 9.5 with 3e-3")
    finetune_evaluations: int = setting(2, 2, 4, "held-out measurements during the training, besides the one before it", "measurements", "chosen: time, one costs as much as a fifth of the training")
    opening_draws: int = setting(100, 400, 1000, "draws of a player for its opening distribution", "joint orders", "chosen: standard error below 0.05")
    finetune_max_length: int = setting(384, 512, 2048, "longest board plus joint order", "tokens", f"{XU}, Table 4")
    dtype: str = setting("float32", "bfloat16", "bfloat16", "precision of the base model", "name", "chosen: 3 to 5 times faster than float32")
    # ablations: many small trainings
    arms_hidden: int = setting(32, 128, 256, "width of the scratch Llama of the arms", "units", "chosen: about 1 M weights in cpu")
    arms_layers: int = setting(2, 4, 8, "layers of the scratch Llama of the arms", "layers", "chosen: about 1 M weights in cpu")
    arms_heads: int = setting(2, 4, 4, "attention heads of the scratch Llama of the arms", "heads", "chosen")
    arms_reading: int = setting(40, 1000, 20000, "positions of the anchor's games that the start of all arms has read", "positions", "chosen: time")
    arms_steps: int = setting(10, 400, 4000, "optimiser steps of an arm", "steps", "chosen: time; PPO has arms_ppo_batches x arms_ppo_epochs")
    arms_batch: int = setting(1, 1, 4, "positions per step, with all their powers", "positions", "chosen: more steps in the same time")
    arms_lr: float = setting(2e-3, 5e-4, 5e-4, "AdamW learning rate of an arm, linear to 0", "1/step", "chosen")
    arms_heldout: int = setting(20, 300, 2000, "power-turns of games that no arm is trained on", "power-turns", "chosen: time")
    arms_games: int = setting(7, 105, 7000, "games of each arm against six anchors", "games", "chosen: seats rotate, so a multiple of 7")
    arms_weak_games: int = setting(7, 28, 7000, "games of each arm against six RandomLegal", "games", "chosen: time")
    arms_draws: int = setting(8, 12, 256, "joint orders drawn for a turn where an arm plays with a search on top or beside the anchor", "joint orders", "chosen: time")
    arms_iterations: tuple = setting((5,), (5, 10), (5, 10), "iterations of the search on top", "iterations", f"{XU}, Table 6")
    arms_search_games: int = setting(7, 28, 7000, "games of an arm with a search on top", "games", "chosen: time")
    arms_dpo_pairs: int = setting(2, 2, 4, "pairs of joint orders per power-turn", "pairs", "chosen")
    arms_dpo_beta: float = setting(.1, .1, .1, "strength of the reference in DPO", "1", "chosen: the usual value")
    arms_dpo_lr: float = setting(1e-4, 1e-4, 1e-5, "AdamW learning rate of DPO", "1/step", "chosen")
    arms_dpo_rejected: str = setting("tau", "tau", "tau", "where the rejected joint order comes from: `tau` or `uniform` over the candidates", "name", "chosen")
    arms_ppo_batches: int = setting(3, 40, 1000, "batches of PPO", "batches", "chosen: time")
    arms_ppo_batch: int = setting(2, 4, 16, "positions of a batch", "positions", "chosen: time")
    arms_ppo_draws: int = setting(2, 4, 8, "joint orders drawn for a power-turn, each other's baseline", "joint orders", "chosen: time")
    arms_ppo_others: int = setting(4, 16, 64, "draws of the other powers that a joint order is valued on", "draws", "chosen: time")
    arms_ppo_epochs: int = setting(2, 2, 2, "steps on a batch", "steps", "chosen")
    arms_ppo_clip: float = setting(.2, .2, .2, "clip of the probability ratio", "1", "chosen: the usual value")
    arms_ppo_kl: float = setting(.01, .01, .01, "penalty on the divergence from the start", "share of SoS / nat", "chosen: lambda of the search")
    arms_ppo_lr: float = setting(1e-4, 1e-4, 1e-5, "AdamW learning rate of PPO", "1/step", "chosen")
    # the anchor net trained on the same targets
    tune_steps: int = setting(10, 200, 4000, "steps of the anchor net on the targets", "steps", "chosen: time")
    tune_batch: int = setting(4, 8, 32, "positions per step", "positions", "chosen: time")
    tune_lr: float = setting(2e-4, 2e-4, 2e-4, "AdamW learning rate, warmed up, then linear to 0", "1/step", "chosen")
    # play and evaluation
    agent_candidates: str = setting("anchor", "anchor", "anchor", "orders the model may say: `legal`, or the likeliest ones of each unit under the `anchor`", "name", f"{XU}, appendix B.2")
    agent_candidate_limit: int = setting(6, 6, 6, "orders of a unit with `anchor`", "orders", f"{XU}, appendix B.2")
    agent_top_p: float = setting(1., 1., 1., "mass of the legal tokens that is kept at play", "probability", "chosen: the released 0.95 belongs to the candidates")
    agent_phases: str = setting("all", "all", "all", "phases that the model plays: `all`, or `movement` (the anchor plays the others, as in the released code)", "name", "chosen")
    agent_temperature: float = setting(.1, .1, .1, "sampling temperature at play", "1", B22A)
    eval_games: int = setting(7, 140, 7000, "games of the fine-tuned model, the search and the best reply against six anchors", "games", "chosen: seats rotate, so a multiple of 7")
    eval_other_games: int = setting(7, 28, 7000, "games of the other language models", "games", "chosen: time")
    eval_matrix_games: int = setting(7, 28, 7000, "games of the other pairings of one against six", "games", "chosen: time")
    eval_six_games: int = setting(7, 7, 7000, "games of the pairings with the fine-tuned model on six seats", "games", "chosen: time")
    eval_steps_games: int = setting(7, 14, 7000, "games of the fine-tuned model against each kind of opponents that search", "games", "chosen: time")
    eval_population_games: int = setting(5, 50, 7000, "games of the population", "games", "chosen: ten blocks of five players in cpu, time")
    eval_cheap_games: int = setting(7, 700, 7000, "games of the players that cost little", "games", "chosen: standard error below a point")
    eval_chunk: int = setting(7, 35, 700, "games that are played together and kept together", "games", "chosen: memory; no game depends on it")
    eval_iterations: tuple = setting((1,), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16), "search iterations of the six opponents", "iterations", f"{XU}, Fig. 5")
    greedy_replies: int = setting(4, 16, 50, "draws of the other powers that the best reply is measured on", "joint orders", "chosen: time")
    cost_calls: int = setting(2, 12, 100, "timed calls per player for the cost of a decision", "calls", "chosen: interval over calls")
    cost_together: int = setting(7, 7, 7, "power-turns asked in one call", "power-turns", "chosen: one of each seat")
    case_game: str = setting("median", "median", "median", "which game of the model is shown, by its final share: `median`, `best` or `worst`", "name", "chosen: nobody looked for it")
    case_draws: int = setting(32, 256, 1024, "draws of the six others that a joint order is valued on", "draws", "chosen: time")
    case_candidates: int = setting(6, 8, 8, "candidates of a phase that are shown", "joint orders", "chosen: a page")
    eval_last_year: int = setting(1903, 1908, 1935, "an evaluation game ends after this year's adjustments", "year", "chosen: time; 1935 in the released code")
    eval_stalemate_years: int = setting(0, 0, 5, "years without a change of supply centres that make a draw, 0 = never", "years", B22A)
    bootstrap: int = setting(1000, 10000, 10000, "resamples of an interval", "resamples", "chosen")


@dataclass(frozen=True)
class IPDSettings(Settings):
    """Study 2, in-context co-player inference in the iterated prisoner's dilemma."""

    # the game and the pool
    rounds: int = setting(20, 50, 100, "rounds T of a game", "rounds", WEIS)
    pool: str = setting("uniform", "uniform", "uniform", "pool of tabular agents: `uniform`, `beta`, `corners`, `families` or `human`", "name", WEIS)
    seeds: int = setting(2, 10, 10, "independent runs of each arm", "seeds", WEIS)
    seeds_together: int = setting(2, 5, 1, "seeds of one process, trained in one pass", "seeds", "chosen: two processes in cpu")
    bootstrap: int = setting(1000, 10000, 10000, "resamples of an interval over seeds", "resamples", "chosen")
    # the model
    input: str = setting("joint", "joint", "interleaved", "how observation, action and reward enter: `joint` (one token a round), `interleaved`, `summed` or `concat`", "name", f"{WEIS}: three modalities, order not stated; chosen below it: three times cheaper")
    hidden: int = setting(16, 32, 128, "width of the GRU", "units", WEIS)
    # predictive policy improvement
    q: str = setting("head", "head", "mc", "values of the two actions: a learned `head` (amortised PPI) or rollouts inside the model (`mc`)", "name", f"{WEIS}; chosen below it: 400 times cheaper")
    noise: float = setting(1.2, 1.2, 1.2, "standard deviation of the decision noise of `head`", "reward over 15 rounds", "chosen: that of about 26 rollouts an action")
    rollouts: int = setting(8, 8, 16, "rollouts K of an action, `mc` only", "rollouts", "not stated in the paper; chosen")
    improvement: str = setting("temperature", "temperature", "temperature", "reading of beta = 0.01: `temperature` or, as printed, `literal`", "name", f"{WEIS}, Eq. 1")
    first_trajectories: int = setting(200, 20000, 200000, "trajectories of random tabular pairs before phase 1", "trajectories", f"{WEIS}, Algorithm 1")
    first_steps: int = setting(30, 4000, 0, "steps of the fit to them, 0: ten passes", "steps", f"{WEIS}, Algorithm 1")
    gate: float = setting(0., .01, .01, "PPI starts if the loss of the opponent's action is this close to its limit, 0: no gate", "nats a round", "chosen")
    phases: int = setting(3, 26, 30, "phases of predictive policy improvement", "phases", f"{WEIS}, Algorithm 1")
    identity_phases: int = setting(3, 26, 30, "phases of the ablation Opponent ID", "phases", f"{WEIS}, Algorithm 1")
    identity_games: int = setting(4, 100, 1000, "games against each player of Opponent ID that shows what its learned Q costs", "games", "chosen: time")
    identity_rollouts: tuple = setting((2,), (64,), (16, 64), "rollouts K of an action in these games", "rollouts", "not stated in the paper; chosen: time")
    identity_steps: int = setting(10, 1000, 4000, "steps of the fit of the exact best response into the same network", "steps", "chosen: time")
    trajectories: int = setting(100, 6000, 20000, "trajectories collected per phase and learner", "trajectories", f"{WEIS}, Algorithm 1")
    steps: int = setting(10, 130, 0, "steps of the fit of a phase, 0: ten passes over all data", "steps", f"{WEIS}, Algorithm 1")
    batch: int = setting(64, 128, 256, "trajectories per step", "trajectories", WEIS)
    reinit: bool = setting(False, False, True, "new weights in every phase", "yes or no", f"{WEIS}, Algorithm 1")
    lr: float = setting(4e-3, 4e-3, 1e-4, "AdamW learning rate of a fit", "1/step", WEIS)
    late_rate: float = setting(.3, .3, 1., "share of it in the last 30 % of a fit", "share", "chosen")
    # beta as printed
    literal_seeds: int = setting(1, 3, 10, "independent runs with improvement `literal`", "seeds", "chosen: a null in every seed")
    literal_phases: int = setting(2, 3, 3, "their phases", "phases", "chosen: time")
    # PPI with rollouts inside the model
    mc_seeds: int = setting(1, 3, 10, "independent runs", "seeds", "chosen: time")
    mc_pool: str = setting("beta", "beta", "beta", "pool of this arm; `beta` is Beta(1/2)", "name", "chosen: its inference pays more, so it starts earlier")
    mc_phases: int = setting(1, 14, 30, "phases", "phases", "chosen: time")
    mc_first_trajectories: int = setting(200, 5000, 200000, "trajectories of random tabular pairs before phase 1", "trajectories", "chosen: 3.3 to one of a phase in cpu, as without rollouts")
    mc_trajectories: int = setting(40, 1500, 20000, "trajectories collected per phase and learner", "trajectories", "chosen: time")
    mc_common: bool = setting(True, True, False, "the same random numbers for the rollouts of both actions", "yes or no", "not stated in the paper; chosen: without it eight rollouts are noise of 2.2 and cooperation starts at .3 from noise alone")
    mc_rollouts: int = setting(2, 8, 16, "rollouts K of an action", "rollouts", "not stated in the paper; chosen")
    # A2C
    a2c_seeds: int = setting(1, 5, 10, "independent runs", "seeds", WEIS)
    a2c_batch: int = setting(32, 256, 4096, "games per learner and A2C iteration", "games", f"{WEIS}, Table 2")
    a2c_iterations: int = setting(20, 3000, 200000, "A2C iterations in the mixed pool", "iterations", f"{WEIS}, Fig. 1")
    a2c_remedy_seeds: int = setting(1, 1, 10, "independent runs of each remedy", "seeds", "chosen: time")
    a2c_block: int = setting(5, 100, 500, "iterations of one row of the tables", "iterations", "chosen")
    a2c_probe_blocks: int = setting(2, 10, 10, "blocks between two probes", "blocks", "chosen: time")
    a2c_lr: float = setting(3e-3, 3e-3, 1e-3, "Adam learning rate", "1/step", f"{WEIS}, Table 2; chosen below it")
    a2c_lam: float = setting(.95, .95, 1., "lambda of advantages and returns", "1", f"{WEIS}, Table 2; tuned below it")
    a2c_reward_scale: float = setting(.05, .05, .02, "factor of the rewards", "1", f"{WEIS}, Table 2; tuned below it")
    a2c_entropy: tuple = setting((.05, .035), (.05, .035), (.01, .01), "weight of the entropy, first and last", "1", f"{WEIS}, Table 2; tuned below it")
    a2c_entropy_over: int = setting(15, 5000, 0, "iterations over which it falls", "iterations", "tuned")
    a2c_prediction: float = setting(1., 1., 0., "weight of the loss of predicting the opponent", "1", "not in the paper; tuned below it")
    a2c_advantage_norm: str = setting("per_kind", "per_kind", "batch", "z-scores of the advantages: `batch`, `per_kind` of game or `none`", "name", f"{WEIS}, Table 2; chosen below it")
    a2c_pool: str = setting("uniform", "beta", "uniform", "pool of A2C", "name", f"{WEIS}; chosen below it: its inference pays more")
    a2c_chunk: int = setting(0, 0, 256, "games of a backward pass, 0: all", "games", "chosen: memory")
    # the mechanism in three steps: tabular agents, a frozen learner, two extorters
    step_phases: tuple = setting((1, 1, 1), (8, 18, 20), (30, 30, 30), "phases of PPI in steps 1, 2 and 3", "phases", f"{WEIS}, Fig. 2; chosen below it: time")
    step3_start: str = setting("", "", "", "where step 3 begins: `data`, `weights` or `both` of step 2; empty: `data` with new weights in every phase, else `both`", "name", f"{WEIS}: `initialised with the extortion policies`, against Algorithm 1")
    step3_also: tuple = setting(("data", "weights"), (), ("weights", "both"), "further starts of step 3 that are run beside it, all seeds", "names", "chosen: time; in cpu `data` costs about 4.5 minutes more, `weights` 2")
    a2c_step_iterations: tuple = setting((20, 20, 20), (1500, 1500, 1000), (50000, 100000, 10000), "iterations of A2C in steps 1, 2 and 3", "iterations", f"{WEIS}, Fig. 4; chosen below it: time")
    a2c_step_columns: bool = setting(False, False, True, "A2C takes the column of each step", "yes or no", f"{WEIS}, Table 2; chosen below it: the recipe of the mixed pool")
    a2c_seeds_together: int = setting(2, 1, 1, "seeds of one process of A2C in the three steps", "seeds", "chosen: two processes in cpu")
    line_opponents: int = setting(200, 200, 200, "tabular agents of the enforcement line", "agents", "chosen: the least that says something")
    line_copies: int = setting(2, 20, 50, "perturbed copies of the frozen learner on it", "agents", "chosen: time")
    line_games: int = setting(1, 20, 100, "games of an extorter with each of them", "games", "chosen: means over few games bend the slope toward 0")
    # probes
    probe_games: int = setting(20, 200, 1000, "games of a probe per agent, opponent and noise level", "games", "chosen")
    probe_every: int = setting(1, 2, 1, "phases between two probes", "phases", "chosen: time")
    # experiments beyond the paper, notebook 10b
    social_questions: tuple = setting(("diversity", "mixing", "exploration", "payoffs", "goods", "sizes", "cost"), ("diversity", "mixing", "exploration", "payoffs", "goods"), ("diversity", "mixing", "exploration", "payoffs", "goods", "sizes", "cost"), "questions that are trained for, of `social.QUESTIONS`", "names", "chosen: time")
    social_seeds: int = setting(2, 3, 10, "independent runs of each setting", "seeds", "chosen: time; fewer than three leave every contrast open")
    social_pool: str = setting("uniform", "beta 0.5", "uniform", "pool of the base run, of `social.POOLS`", "name", "chosen: inference pays more in cpu, so a short run shows it")
    social_first_trajectories: int = setting(60, 6000, 200000, "trajectories of random tabular pairs before phase 1", "trajectories", "chosen: time; paper as published")
    social_first_steps: int = setting(4, 1500, 0, "steps of the fit to them, 0: ten passes", "steps", "chosen: time; paper as published")
    social_trajectories: int = setting(20, 3000, 20000, "trajectories collected per phase and learner", "trajectories", "chosen: time; paper as published")
    social_steps: int = setting(2, 60, 0, "steps of the fit of a phase, 0: ten passes over all data", "steps", "chosen: time; paper as published")
    social_phases: int = setting(2, 14, 30, "phases", "phases", "chosen: time; paper as published")
    social_probe_games: int = setting(4, 50, 1000, "games of a probe per agent, opponent and noise level", "games", "chosen: time")
    social_probe_every: int = setting(1, 1, 1, "phases between two probes", "phases", "chosen: an onset is a phase")
    social_shift_games: int = setting(3, 100, 1000, "games of an agent with each set of opponents of the pool shift", "games", "chosen: time")
    social_axelrod: tuple = setting((), (), (), "strategies of the package axelrod among them, of `axelrod_players.CLASSIC`", "names", "chosen: the package is none of ours")
    social_pools: tuple = setting(("uniform", "corners"), ("uniform", "beta 0.5", "beta 0.25", "beta 0.1", "corners", "families"), ("uniform", "beta 0.5", "beta 0.25", "beta 0.1", "corners", "families"), "pools of the question diversity", "names", "chosen: time")
    social_shares: tuple = setting((0., .5), (0., .1, .25, .5, .75, .9), (0., .1, .25, .5, .75, .9), "shares of games against tabular agents", "share", "chosen: time; the paper has one half")
    social_exploration: tuple = setting(("base", "sigma 0", "reinit"), ("base", "sigma 0", "sigma 0.6", "sigma 2", "sigma 1.2 to 0.4", "window 6"), ("base", "beta literal", "temperature 1", "sigma 0", "sigma 0.6", "sigma 2", "sigma 1.2 to 0.4", "window 6", "reinit"), "what explores, of `social.EXPLORATION`", "names", "chosen: new weights in every phase cost fifteen times a phase")
    social_ratios: tuple = setting((2., 4.), (2., 4.), (1.25, 1.5, 2., 3., 4.), "benefits of a C at cost 1; one more run has 2 and 3", "reward", "chosen: time; the paper has 2")
    social_factors: tuple = setting((2.,), (1.6, 2.4), (1.6, 2., 2.4), "factor r of the public good of three", "1", "chosen: time")
    social_widths: tuple = setting((8,), (8, 16, 32, 64), (8, 16, 32, 64, 128), "widths of the GRU of the question sizes", "units", "chosen: time")
    social_transformer: int = setting(16, 32, 32, "width of the Transformer beside them, 0: none", "units", "chosen: time")
    social_rollouts: tuple = setting((2,), (4, 8, 16), (4, 8, 16), "rollouts K of an action, question cost", "rollouts", "not stated in the paper; chosen")
    lola_pairs: int = setting(50, 1000, 1000, "pairs of exact gradient learners", "pairs", "chosen: an interval below .03")
# fmt: on

STUDIES = {"dip": DiplomacySettings, "ipd": IPDSettings, "kto": KTOSettings}


@dataclass(frozen=True)
class Profile:
    """One run: who it is for, its threads, and the settings of the three studies.

    threads: torch and BLAS threads of a notebook's kernel. task_threads: those of each task of `parallel.map`, the
    same on every backend. workers: processes of `parallel.map`. model_workers: those whose tasks open the main language
    model, one each. offline: nothing may contact a network.
    """

    name: str
    seed: int
    threads: int
    task_threads: int
    workers: int
    model_workers: int
    offline: bool
    dip: DiplomacySettings
    ipd: IPDSettings
    kto: KTOSettings


def load(profile: str, seed: int) -> Profile:
    """The settings of `profile` under `seed`.

    Raises TypeError for a wrong type (a bool is no seed) and ValueError for an unknown profile or a negative seed.
    """
    if not isinstance(profile, str):
        raise TypeError(f"profile must be a str, got {type(profile).__name__} {profile!r}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an int, got {type(seed).__name__} {seed!r}")
    if profile not in NAMES:
        raise ValueError(f"unknown profile {profile!r}: use one of {', '.join(NAMES)}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    return Profile(
        name=profile,
        seed=seed,
        threads=2,
        task_threads=1,
        workers={"smoke": 2, "cpu": 2, "paper": 16}[profile],
        model_workers={"smoke": 2, "cpu": 2, "paper": 1}[profile],
        offline=profile != "paper",
        **{key: cls.of(profile) for key, cls in STUDIES.items()},
    )


def sizes() -> pd.DataFrame:
    """The settings that differ between profiles: study, setting, unit and one column per profile."""
    rows = []
    for study, cls in STUDIES.items():
        for f in fields(cls):
            values = {name: str(value) for name, value in f.metadata["values"].items()}
            if len(set(values.values())) > 1:
                rows.append(
                    {"study": study, "setting": f.name, "unit": f.metadata["unit"]} | values
                )
    return pd.DataFrame(rows)

"""What notebooks 09 and 09b read and write: a part of `chain`, which it would make too long."""

from dipllm_lib.run.graph import EXACT, ROUNDING, STATISTICAL, TIMING, TRAINING, Notebook

LANGUAGE_GAMES = Notebook(
    "09_kto_language_games",
    minutes=(0.6, 8.5, 5000),
    study="kto",
    files=(
        "09_base",
        "09_games.jsonl",
        "09_samples.jsonl",
        "09_executor",
        "09_opponent",
        "09_coordinator",
    ),
    tables={
        "09_settings": EXACT,
        "09_stage1": TRAINING,
        "09_precision": TRAINING,
        "09_sizes": EXACT,
        "09_collected": STATISTICAL,
        "09_labels": STATISTICAL,
        "09_history": TRAINING,
        "09_rates": ROUNDING,
        "09_scores": TRAINING,
        "09_offers": TRAINING,
        "09_partners": TRAINING,
        "09_bargains": TRAINING,
        "09_forecasts": STATISTICAL,
        "09_types": TRAINING,
        "09_choices": STATISTICAL,
        "09_updates": TRAINING,
        "09_separation": STATISTICAL,
        "09_rungs": TIMING,
        "09_budgets": TIMING,
        "09_caching": TIMING,
        "09_snapshot": TRAINING,
        "09_verdicts": TRAINING,
    },
    figures=(
        "09_training",
        "09_two_scores",
        "09_offers",
        "09_partners",
        "09_forecasts",
        "09_choices",
        "09_ladder",
    ),
)

NEGOTIATION = Notebook(
    "09b_kto_negotiation",
    minutes=(0.3, 2.6, 300),
    study="kto",
    tables={
        "09b_games": STATISTICAL,
        "09b_definitions": EXACT,
        "09b_behaviour": STATISTICAL,
        "09b_by_kind": STATISTICAL,
        "09b_acceptance": STATISTICAL,
        "09b_difference": STATISTICAL,
        "09b_phases": STATISTICAL,
        "09b_verdicts": STATISTICAL,
    },
    figures=("09b_acceptance", "09b_keeping", "09b_difference", "09b_phases"),
)

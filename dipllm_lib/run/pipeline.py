"""The chain: which notebook reads and writes what, and the run of it.

GRAPH is the only statement of the chain; 00 prints it and a test holds each notebook's own table
against it. `reproduce` goes through it in order, one kernel at a time: an unchanged notebook is
skipped, another runs, is judged, and only then enters the manifest as complete. The first failure
stops the run in at most four lines; finished notebooks stay, so the same command goes on.
"""

import dataclasses
import math
import time
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from dipllm_lib.run import (
    execute,
    files,
    graph,
    guards,
    places,
    profiles,
    provenance,
    skip,
    sources,
)
from dipllm_lib.run.graph import CLOSE, EXACT, STATISTICAL, TIMING, Notebook, Rule, Run

STUDIES = ("dip", "ipd", "kto")

# exact in the algebra, so only rounding may differ
ROUNDING = Rule("close", rtol=1e-6, atol=1e-10)
# a training history: small differences of the first steps grow
TRAINING = Rule("close", rtol=0.05, atol=0.02)

GRAPH = (
    Notebook(
        "00_overview",
        minutes=(0.5, 0.5, 0.5),
        tables={
            "00_sizes": EXACT,
            "00_versions": TIMING,
            "00_rules": EXACT,
            "00_datc": EXACT,
            "00_datc_cases": EXACT,
            "00_speed": TIMING,
        },
        figures=("00_opening",),
    ),
    Notebook(
        "01_data_collection",
        minutes=(0.5, 7, 5000),
        reads=("inputs/anchor_human.safetensors", "inputs/value_human.safetensors"),
        files=(
            "01_anchor.safetensors",
            "01_selfplay.jsonl",
            "01_value.safetensors",
            "01_search.jsonl",
            "01_data_games.jsonl",
        ),
        tables={
            "01_ladder": STATISTICAL,
            "01_imitation": TRAINING,
            "01_anchor": TRAINING,
            "01_lambda": CLOSE,
            "01_value_error": TRAINING,
            "01_regret": CLOSE,
            "01_diagnostics": CLOSE,
            "01_reliability": TRAINING,
            "01_teacher": STATISTICAL,
            "01_games": EXACT,
            "01_replay": EXACT,
        },
        figures=("01_matrix", "01_openings", "01_regret", "01_value", "01_lambda", "01_teacher"),
    ),
    Notebook(
        "02_q_decomposition",
        minutes=(0.2, 0.5, 60),
        reads=("01_search.jsonl",),
        files=("02_samples.jsonl",),
        tables={
            "02_theorem1": ROUNDING,
            "02_bounds": CLOSE,
            "02_theorem2": CLOSE,
            "02_families": CLOSE,
        },
        figures=("02_target", "02_theorem2", "02_convergence"),
    ),
    Notebook(
        "03_fine_tuning",
        minutes=(0.3, 13, 3000),
        reads=("01_anchor.safetensors", "01_selfplay.jsonl", "02_samples.jsonl"),
        files=("03_adapter", "03_model_card.md"),
        tables={
            "03_history": TRAINING,
            "03_kl": STATISTICAL,
            "03_openings": TRAINING,
            "03_distance": STATISTICAL,
            "03_reading": TRAINING,
            "03_models": STATISTICAL,
        },
        figures=("03_loss", "03_openings"),
    ),
    Notebook(
        "04_ipd_mixed_pool",
        minutes=(0.5, 35, 50000),
        study="ipd",
        tables={
            "04_exact": CLOSE,
            "04_training": TRAINING,
            "04_probes": STATISTICAL,
            "04_rounds": STATISTICAL,
            "04_levels": STATISTICAL,
            "04_contrasts": STATISTICAL,
            "04_seeds": STATISTICAL,
            "04_inside": STATISTICAL,
            "04_literal": STATISTICAL,
            "04_mc": STATISTICAL,
            "04_a2c_training": TRAINING,
            "04_a2c_probes": STATISTICAL,
            "04_a2c_contrasts": STATISTICAL,
            "04_a2c_tried": STATISTICAL,
            "04_cost": TIMING,
        },
        figures=("04_ppi", "04_forest", "04_within", "04_rollouts", "04_a2c"),
    ),
    Notebook(
        "10_ablations",
        minutes=(0.8, 18, 5000),
        reads=(
            "01_anchor.safetensors",
            "01_search.jsonl",
            "01_selfplay.jsonl",
            "01_value.safetensors",
            "02_samples.jsonl",
        ),
        tables={
            "10_reading": TRAINING,
            "10_arms": STATISTICAL,
            "10_texts": STATISTICAL,
            "10_per_game": STATISTICAL,
            "10_scores": STATISTICAL,
            "10_table2": STATISTICAL,
            "10_steps": STATISTICAL,
            "10_amounts": STATISTICAL,
            "10_table7": STATISTICAL,
            "10_contrasts": STATISTICAL,
            "10_slopes": STATISTICAL,
            "10_beside": STATISTICAL,
            "10_remedies": STATISTICAL,
            "10_table6": STATISTICAL,
            "10_lifts": STATISTICAL,
        },
        figures=("10_divergence", "10_factorisation", "10_data", "10_search", "10_play"),
    ),
    Notebook(
        "10b_ipd_beyond",
        minutes=(0.8, 10, 50000),
        study="ipd",
        tables={
            "10b_gains": CLOSE,
            "10b_settings": STATISTICAL,
            "10b_seeds": STATISTICAL,
            "10b_curves": STATISTICAL,
            "10b_contrasts": STATISTICAL,
            "10b_values": STATISTICAL,
            "10b_shift": STATISTICAL,
            "10b_cross": STATISTICAL,
            "10b_rates": STATISTICAL,
            "10b_lola": STATISTICAL,
            "10b_goods": CLOSE,
            "10b_cost": TIMING,
        },
        figures=(
            "10b_diversity",
            "10b_mixing",
            "10b_exploration",
            "10b_payoffs",
            "10b_three",
            "10b_regret",
            "10b_learners",
            "10b_people",
            "10b_sizes",
            "10b_price",
            "10b_answers",
        ),
    ),
    Notebook(
        "11_evaluation",
        minutes=(0.5, 18, 5000),
        reads=(
            "01_anchor.safetensors",
            "01_value.safetensors",
            "02_samples.jsonl",
            "03_adapter",
            "03_kl",
            "10_arms",
            "10_scores",
        ),
        files=("11_games.jsonl",),
        tables={
            "11_per_game": STATISTICAL,
            "11_population": STATISTICAL,
            "11_games_of_five": STATISTICAL,
            "11_table1": STATISTICAL,
            "11_matrix": STATISTICAL,
            "11_differences": STATISTICAL,
            "11_powers": STATISTICAL,
            "11_planning": TRAINING,
            "11_iterations": STATISTICAL,
            "11_legality": STATISTICAL,
            "11_free_text": STATISTICAL,
            "11_links": STATISTICAL,
            "11_cost": TIMING,
        },
        figures=("11_population", "11_matrix", "11_differences", "11_iterations", "11_cost"),
    ),
    Notebook(
        "12_case_study",
        minutes=(0.3, 1, 30),
        reads=("01_anchor.safetensors", "01_value.safetensors", "03_adapter", "11_games.jsonl"),
        files=("12_story.md", "12_frames"),
        tables={
            "12_candidates": TRAINING,
            "12_decisions": TRAINING,
            "12_account": TRAINING,
            "12_values": TRAINING,
        },
        figures=(
            "12_boards",
            "12_value",
            "12_phases",
            "12_parts",
            "12_board_1",
            "12_board_2",
            "12_board_3",
            "12_decision_1",
            "12_decision_2",
            "12_decision_3",
        ),
    ),
    Notebook(
        "13_claims",
        minutes=(0.1, 0.1, 0.1),
        reads=(
            "01_teacher",
            "02_theorem1",
            "02_theorem2",
            "02_bounds",
            "03_kl",
            "03_distance",
            "03_models",
            "04_a2c_contrasts",
            "04_contrasts",
            "04_inside",
            "04_literal",
            "10_arms",
            "10_lifts",
            "10_slopes",
            "10_steps",
            "10b_contrasts",
            "11_cost",
            "11_iterations",
            "11_legality",
            "11_population",
        ),
        tables={"13_claims": STATISTICAL, "13_timing": TIMING},
    ),
)


def plan(
    profile: str,
    seed: int,
    chain: tuple[Notebook, ...] = GRAPH,
    folder: Path | None = None,
    package: Path = sources.PACKAGE,
) -> Run:
    """The checked run of `chain` with notebooks in `folder`; raises what `profiles.load` does."""
    graph.check(chain)
    folder = places.root() / "notebooks" if folder is None else folder
    return Run(profiles.load(profile, seed), chain, folder, package)


def table(profile: str) -> pd.DataFrame:
    """The graph for 00: columns notebook, reads, writes, minutes under `profile`."""
    place = profiles.NAMES.index(profile)
    rows = [
        {
            "notebook": notebook.name,
            "reads": ", ".join(notebook.reads),
            "writes": ", ".join(notebook.writes),
            "minutes": notebook.minutes[place],
        }
        for notebook in GRAPH
    ]
    return pd.DataFrame(rows)


def chosen(run: Run, first: str | None, only: str | None) -> list[Notebook]:
    """Notebooks from number `first` on, or `only` one. Raises Refused for an unknown number."""
    numbers = [notebook.number for notebook in run.graph]
    for wish in (first, only):
        if wish is not None and wish not in numbers:
            raise places.Refused(f"there is no notebook {wish}: {', '.join(numbers)}")
    return [
        notebook
        for notebook in run.graph
        if (only is None or notebook.number == only) and (first is None or notebook.number >= first)
    ]


def reproduce(
    run: Run, first: str | None = None, only: str | None = None, force: bool = False
) -> int:
    """Run the chain; returns the exit code 0, 1 or 130. Raises Refused before anything is run."""
    began = time.monotonic()
    notebooks = chosen(run, first, only)
    with guards.lock(run.data, f"data/{run.profile.name}"), guards.stoppable():
        guards.disk(run.data, guards.NEED_MB[run.profile.name])
        for folder in (run.data, run.figures):
            files.remove_leftovers(folder)
        code = _steps(run, notebooks, force)
        if code == 0 and len(notebooks) == len(run.graph):
            _enter_run(run)
    if code == 0:
        print(_total(time.monotonic() - began), flush=True)
    return code


def _total(seconds: float) -> str:
    """`total 212 s, peak memory 812 MB`; memory only if a kernel has run."""
    peak = provenance.peak_mb(children_only=True)
    return f"total {seconds:.0f} s" + (f", peak memory of a process {peak} MB" if peak else "")


def _steps(run: Run, notebooks: list[Notebook], force: bool) -> int:
    """One line per notebook; stops at the first failure or signal."""
    for notebook in notebooks:
        try:
            line = _step(run, notebook, force)
        except execute.Failed as failure:
            run.manifest.enter(notebook.name, {"state": "failed"})
            print(f"{notebook.name}  failed in {failure.where}", flush=True)
            print(f"  {failure.cause}\n  {failure.remedy}", flush=True)
            if _copy(run, notebook).exists():
                print(f"  executed copy: {_copy(run, notebook)}", flush=True)
            return 1
        except KeyboardInterrupt:
            print(f"stopped in {notebook.name}; run the same command to go on", flush=True)
            return 130
        print(f"{notebook.name}  {line}", flush=True)
    return 0


def _copy(run: Run, notebook: Notebook) -> Path:
    return run.data / "executed" / f"{notebook.name}.ipynb"


def _step(run: Run, notebook: Notebook, force: bool) -> str:
    """Skip or run one notebook; returns its line. Raises Failed."""
    reason = skip.reason(run, notebook)
    if reason is None and not force:
        return "skipped, unchanged"
    missing = skip.missing_input(run, notebook)
    if missing:
        raise execute.Failed("its inputs", *missing)
    # whatever refuses the run comes before the removal of what is there
    parameters = {"profile": run.profile.name, "seed": run.profile.seed}
    execute.check(run.source(notebook), parameters)
    marks = skip.fingerprint(run, notebook, run.manifest.read())
    skip.clear(run, notebook)
    files.remove(_copy(run, notebook))
    run.manifest.enter(notebook.name, {"state": "running"})
    start = time.time()
    execute.run(run.source(notebook), parameters, _copy(run, notebook), run.profile)
    return _complete(run, notebook, start, marks) + (", was cut off" * (reason == "cut off"))


def _complete(run: Run, notebook: Notebook, start: float, marks: dict) -> str:
    """Check the outputs and enter the notebook as complete; returns `done 212 s, 6 files`."""
    fault = skip.output_fault(run, notebook, start)
    if fault:
        remedy = "make the notebook and its line in pipeline.py agree"
        raise execute.Failed("its outputs", fault, remedy)
    seconds = time.time() - start
    outputs = notebook.outputs(run.data, run.figures)
    peak = files.read_json(run.data / f"{notebook.number}_provenance.json")["peak_mb"]
    entry = {"state": "complete", **marks, "seconds": round(seconds, 1), "peak_mb": peak}
    run.manifest.enter(notebook.name, entry)
    files.remove(run.data / "partial" / notebook.number)
    return f"done {seconds:.0f} s, {len(outputs)} files"


def _enter_run(run: Run) -> None:
    """All notebooks are complete and unchanged: say what the whole run was made of."""
    with run.manifest.change() as content:
        entries = [content["notebooks"][notebook.name] for notebook in run.graph]
        content["run"] = {
            "profile": run.profile.name,
            "seed": run.profile.seed,
            "source": sources.package_hash(run.package),
            "settings": {
                s: dataclasses.asdict(getattr(run.profile, s)) for s in ("dip", "ipd", "kto")
            },
            "versions": provenance.versions(),
            "machine": provenance.machine(run.profile, places.root()),
            "seconds": round(math.fsum(entry["seconds"] for entry in entries), 1),
        }


def lines(run: Run) -> Iterable[str]:
    """The graph with states and minutes, a line per notebook, for `list`."""
    holder = guards.holding(run.data / ".lock")
    width = max(len(notebook.name) for notebook in run.graph)
    for notebook in run.graph:
        state = skip.reason(run, notebook) or "complete"
        if state == "cut off" and holder is not None:
            state = "running"
        reads = ", ".join(notebook.reads) or "nothing"
        minutes = f"{run.minutes(notebook):g} min"
        yield f"{notebook.name:<{width}}  {state:<16}  {minutes:<10}  reads {reads}"
        yield f"{'':<{width}}  writes {', '.join(notebook.writes)}"


def clean(run: Run, cache: bool = False) -> None:
    """Name and remove a profile's outputs, with `cache` also what was made from packages."""
    with guards.lock(run.data, f"data/{run.profile.name}"):
        for folder in [run.data, run.figures] + [places.cache()] * cache:
            found = files.inside(folder) if folder.exists() else []
            size = sum(path.stat().st_size for path in found)
            print(f"removing {run.manifest.key(folder)}: {len(found)} files, {size / 1e6:.1f} MB")
            files.remove(folder)

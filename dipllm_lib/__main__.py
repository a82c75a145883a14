"""python -m dipllm_lib reproduce | verify | list | clean | reference | bench

A thin shell over `run.pipeline`, `run.verify` and `run.reference`. Exit codes: 0 done; 1 a notebook
failed, a table differs, or a request cannot be met; 2 wrong usage; 130 stopped by Ctrl-C or
SIGTERM. In a batch system, stop a run with SIGTERM: shells start background jobs with Ctrl-C
ignored.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from dipllm_lib.run import pipeline, profiles, task_env
from dipllm_lib.run.places import Refused

DIFF, POSITIONS = "rules-diff", 4000
FLAGS_OF_DIFF = {  # value without the flag, least and most
    "positions": (POSITIONS, 1, 10**8),
    "seed": (0, 0, 2**31 - 1),
    "workers": (1, 1, 64),
}


def _number(text: str) -> int:
    """A seed: an integer from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, got {text!r}")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The six commands and their flags, none of them abbreviated."""
    top = argparse.ArgumentParser(prog="python -m dipllm_lib", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    texts = {
        "reproduce": "run the notebooks that are not up to date",
        "verify": "compare the tables with the reference run",
        "list": "print the notebooks with their states",
        "clean": "remove the outputs of a profile",
    }
    made = {}
    for name, text in texts.items():
        made[name] = commands.add_parser(name, help=text, allow_abbrev=False)
        made[name].add_argument("--profile", choices=profiles.NAMES, default="cpu")
        made[name].add_argument("--seed", type=_number, default=0)
    made["reproduce"].add_argument(
        "--from", dest="first", metavar="NN", help="start at notebook NN"
    )
    made["reproduce"].add_argument("--only", metavar="NN", help="run notebook NN alone")
    made["reproduce"].add_argument("--force", action="store_true", help="run unchanged ones too")
    made["reproduce"].add_argument(
        "--backend", choices=task_env.BACKENDS, default="process", help="what runs the workers"
    )
    made["reproduce"].add_argument(
        "--address", metavar="HOST:PORT", help="a running Ray; one is started here without"
    )
    made["clean"].add_argument("--cache", action="store_true", help="remove data/cache as well")
    text = "make the finished run of cpu the reference run of this repository"
    keep = commands.add_parser("reference", help=text, allow_abbrev=False)
    keep.set_defaults(profile="cpu", seed=0)
    bench = commands.add_parser("bench", help="print the cost table", allow_abbrev=False)
    bench.add_argument("name", nargs="*", help="which measurements; `all` and no name mean all")
    bench.add_argument("--json", action="store_true", help="one JSON object a line")
    bench.add_argument("--csv", metavar="FILE", type=Path, help="write the table to a file as well")
    bench.add_argument("--quick", action="store_true", help="shorter and less exact")
    bench.add_argument("--positions", metavar="N", help=f"positions of {DIFF}, {POSITIONS} without")
    bench.add_argument("--seed", metavar="S", help=f"seed of {DIFF}, 0 without")
    bench.add_argument("--workers", metavar="W", help=f"processes of {DIFF}, 1 without")
    return top


def _note(text: str) -> None:
    """What a measurement was made on, beside its rows."""
    print(f"# {text}", file=sys.stderr, flush=True)


def _bench(chosen: argparse.Namespace) -> int:
    """Print name, ours, peer, unit and ratio of each measurement, or run the comparison DIFF."""
    if DIFF in chosen.name:
        return _compare(chosen)
    given = [f"--{flag}" for flag in FLAGS_OF_DIFF if getattr(chosen, flag) is not None]
    if given:
        return _wrong(f"{given[0]} belongs to {DIFF}: write bench {DIFF} {given[0]} ...")
    os.environ.setdefault("TQDM_DISABLE", "1")  # bars of other packages, before they are imported
    from dipllm_lib import bench_table

    try:
        names = bench_table.chosen(chosen.name)
    except ValueError as error:
        return _wrong(str(error))
    if chosen.csv and not chosen.csv.parent.is_dir():
        return _wrong(f"--csv {chosen.csv}: there is no folder {chosen.csv.parent}")
    _note(bench_table.machine())
    if not chosen.json:
        print(bench_table.heading(), flush=True)
    rows = []
    for row in bench_table.measured(names, chosen.quick, _note):
        rows.append(row)
        print(json.dumps(row) if chosen.json else bench_table.line(row), flush=True)
    if chosen.csv:
        bench_table.save(rows, chosen.csv)
    return 0


def _compare(chosen: argparse.Namespace) -> int:
    """The adjudicator against the package on random positions: 1 if something is unexplained."""
    if chosen.name != [DIFF] or chosen.quick or chosen.csv:
        return _wrong(f"{DIFF} is no measurement: run it alone, without --quick and --csv")
    numbers = []
    for flag, (without, least, most) in FLAGS_OF_DIFF.items():
        text = getattr(chosen, flag)
        numbers.append(without if text is None else _between(text, least, most))
        if numbers[-1] is None:
            return _wrong(f"--{flag} must be a whole number from {least} to {most}, got {text!r}")
    from dipllm_lib.dip import differential

    long = numbers[0] >= 10 * POSITIONS and not chosen.json  # progress goes to stdout as well
    results = differential.run(*numbers, text=DIFF if long else "")
    rows = [json.dumps(row) for row in results] if chosen.json else differential.lines(results)
    print("\n".join(rows), flush=True)
    return int(differential.failed(results))


def _between(text: str, least: int, most: int) -> int | None:
    """The whole number that a text says if it is within the bounds, else None."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
    return number if number is not None and least <= number <= most else None


def _wrong(text: str) -> int:
    """Say in one line why the command was not understood; the exit code for that."""
    print(text, file=sys.stderr)
    return 2


def main(words: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    chosen = parser().parse_args(words)
    try:
        return _bench(chosen) if chosen.command == "bench" else _pipeline(chosen)
    except (Refused, OSError) as error:  # of the system: a full disk, a folder without rights
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


@contextlib.contextmanager
def _backend(chosen: argparse.Namespace, profile: profiles.Profile) -> Iterator[None]:
    """Inside the block kernels that are started run their workers where the flags say."""
    if chosen.backend == "process":
        with task_env.variables({task_env.BACKEND: None}):
            yield
        return
    from dipllm_lib.run import ray_backend

    cpus = profile.workers * profile.task_threads
    with ray_backend.cluster(chosen.address, cpus, profile.task_threads) as (address, kinds):
        if len(kinds) > 1:
            _note(f"processors differ ({', '.join(kinds)}): so may the last bits of results")
        with task_env.variables({task_env.BACKEND: "ray", ray_backend.ADDRESS: address}):
            yield


def _pipeline(chosen: argparse.Namespace) -> int:
    """The five commands on notebooks and their outputs."""
    if chosen.command == "reproduce" and chosen.address and chosen.backend != "ray":
        return _wrong("--address belongs to Ray: write --backend ray --address HOST:PORT")
    run = pipeline.plan(chosen.profile, chosen.seed)
    if chosen.command == "reproduce":
        with _backend(chosen, run.profile):
            return pipeline.reproduce(run, chosen.first, chosen.only, chosen.force)
    if chosen.command == "verify":
        from dipllm_lib.run.verify import verify

        return verify(run)
    if chosen.command == "reference":
        from dipllm_lib.run import reference

        return reference.replace(run)
    if chosen.command == "clean":
        pipeline.clean(run, chosen.cache)
        return 0
    for line in pipeline.lines(run):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

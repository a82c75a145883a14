"""What CONTRIBUTING tells a reader to write works as it is printed there."""

import dataclasses
import subprocess
import textwrap
from pathlib import Path

import pytest

from dipllm_lib.kto import games
from dipllm_lib.lm import backbones
from dipllm_lib.run import profiles, seeding
from dipllm_lib.run.settings import Settings, setting

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(first: str) -> str:
    """The indented block of CONTRIBUTING that begins with this text, without its indent."""
    start = TEXT.index(f"    {first}")
    lines = []
    for line in TEXT[TEXT.rfind("\n", 0, start) + 1 :].splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))


def test_the_game_can_be_played():
    space = {"__name__": "recipe"}
    exec(compile(block("from dataclasses import"), "CONTRIBUTING.md", "exec"), space)
    game, rng = space["StagHunt"](), seeding.child(0, "recipe")
    for first, second, paid in ((0, 0, (2, 2)), (0, 1, (0, 1)), (1, 0, (1, 0)), (1, 1, (1, 1))):
        players = (lambda *_, k=first: k, lambda *_, k=second: (" stag.", " hare.")[k])
        assert games.play(game, players, rng).payoffs == paid
    silent = games.play(game, (lambda *_: 0, lambda *_: "Stag!"), rng)
    assert silent.payoffs == (1.0, 0.0) and silent.invalid == (1,)
    start = game.reset(rng)
    assert game.observe(start, 0, "A", games.forecast_text(" hare.", 0.5)) == (
        "Stag hunt. Both stag 2. Hare 1. Stag alone 0. Setting A. Forecast hare 50. I hunt"
    )
    assert [player for _, player in games.decisions(game, start)] == [0, 1]
    wanted = {name for name in vars(games.Game) if not name.startswith("_")}
    assert wanted <= set(dir(game))
    with pytest.raises(ValueError, match="not over"):
        game.payoffs(start)


def test_the_setting_is_one_line_with_three_values():
    line = block("stag_games: int")
    space = {"setting": setting, "Settings": Settings, "dataclass": dataclasses.dataclass}
    exec(f"@dataclass(frozen=True)\nclass Study(Settings):\n    {line}", space)
    values = [space["Study"].of(name).stag_games for name in profiles.NAMES]
    assert values == [100, 1000, 10000]
    assert (space["Study"].of("cpu").table()[["text", "unit", "source"]] != "").all(axis=None)


def test_the_line_that_changes_the_backbone_names_settings_and_a_kind():
    line = block("settings = dataclasses.replace(here.dip, backbone=")
    space = {"dataclasses": dataclasses, "here": profiles.load("cpu", 0)}
    exec(line, space)
    assert space["settings"].backbone in backbones.KINDS
    with pytest.raises(FileNotFoundError, match="model folder '/models/my-llama' not found"):
        backbones.check(space["settings"].backbone, space["settings"].base_model)


def test_the_lock_is_written_by_its_first_line(tmp_path):
    """The three lines of CONTRIBUTING, on an environment that only says what it holds."""
    make, install, write = block("rm -rf .venv && python3.11").splitlines()
    assert make == "rm -rf .venv && python3.11 -m venv .venv"
    assert install == ".venv/bin/python -m pip install -e '.[notebooks,dev]'"
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    frozen = ["numpy==2.4.6", "nvidia-nccl-cu12==2.27.5", "torch==2.13.0+cpu", "triton==3.5.0"]
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nprintf '%s\\n' " + " ".join(frozen) + "\n", encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "requirements.lock").write_text("\n".join(lines), encoding="utf-8")
    subprocess.run(["bash", "-c", write], cwd=tmp_path, check=True)
    found = (tmp_path / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert found == [lines[0], "numpy==2.4.6", "torch==2.13.0"]

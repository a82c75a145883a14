"""The data of study 1: games of rule-based players, of the anchor, of searching players, the gate.

Each task is one game named by its number, so it comes out the same in any process and in any
order. Tasks and results are plain data: settings, seed, number, the anchor's file and the value
net's arrays in, saved games and search records (JSON-able) out.

    bots_game     seven SoftDumbBots, what the anchor `bots` imitates
    anchor_game   seven anchors, whose outcomes teach the value net
    search_game   seven searching players that explore, with the record of every search
    gate_game     one searching player against six anchors

Inside a search the anchor is itself (temperature 1); at play it keeps to its likelier orders, as
the opponents of the paper's code do. Its games with itself begin with 0, 1, 2, ... years at
temperature 1 and go on as at play: varied positions, and what comes of them in actual play.
"""

import functools
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dipllm_lib.dip import anchor as neural
from dipllm_lib.dip import arena, atlas, boards, game, human_value, policies
from dipllm_lib.dip.anchor import NeuralAnchor
from dipllm_lib.dip.records import Record
from dipllm_lib.dip.teacher import Teacher
from dipllm_lib.dip.value import Layer, ValueNet
from dipllm_lib.run import files, store
from dipllm_lib.run.profiles import DiplomacySettings

Arrays = tuple[tuple[np.ndarray, np.ndarray], ...]


def bot(settings: DiplomacySettings) -> policies.SoftDumbBot:
    """The rule-based player that the anchor `bots` imitates."""
    return policies.SoftDumbBot(settings.anchor_temperature, settings.anchor_uniform)


def tau(path: str | Path) -> NeuralAnchor:
    """The anchor policy of a file, read once per process."""
    return _tau(str(path), Path(path).stat().st_mtime_ns)


@functools.lru_cache(maxsize=2)
def _tau(path: str, stamp: int) -> NeuralAnchor:
    return neural.load(Path(path), "anchor")


def save_anchor(chosen: NeuralAnchor, shelf: store.Shelf) -> tuple[str, str]:
    """Write the anchor of a run; returns its path and a mark of its content for keys of tasks."""
    path = shelf.save_bytes(chosen.to_bytes(), "01_anchor.safetensors")
    return str(path), files.sha256(path)[:8]


def anchor(settings: DiplomacySettings, path: str | Path) -> NeuralAnchor:
    """The anchor of a file as a player."""
    return tau(path).at(settings.anchor_play)


def search_player(
    settings: DiplomacySettings, path: str | Path, net: ValueNet, label: str = "search", **options
) -> Teacher:
    """The searching player of a profile; label: its name; `options` are those of `Teacher`."""
    return Teacher(tau(path), net.predict, settings, name=label, **options)


def bots_game(task: tuple[DiplomacySettings, int, int]) -> dict:
    """(settings, seed, number) -> saved game of seven SoftDumbBots."""
    settings, seed, number = task
    end = game.EndRules(settings.bots_last_year)
    seats = [bot(settings)] * atlas.N_POWERS
    return game.play([seats], seed, [("bots", number)], end)[0].to_saved()


def selfplay_end(settings: DiplomacySettings) -> game.EndRules:
    """The end of a game between anchors."""
    return game.EndRules(
        settings.selfplay_last_year,
        settings.selfplay_stalemate_years,
        settings.selfplay_end_draws,
    )


def anchor_game(task: tuple[DiplomacySettings, int, int, str]) -> dict:
    """(settings, seed, number, anchor's file) -> saved game of seven anchors."""
    settings, seed, number, path = task
    warm = number % settings.selfplay_warm_years
    player = policies.Cooling(tau(path), anchor(settings, path), boards.FIRST_YEAR + warm)
    seats, end = [player] * atlas.N_POWERS, selfplay_end(settings)
    return game.play([seats], seed, [("selfplay", number)], end)[0].to_saved()


def search_game(task: tuple[DiplomacySettings, int, int, str, Arrays]) -> dict:
    """(settings, seed, number, anchor's file, net) -> {game: saved game, records: a phase each}."""
    settings, seed, number, path, layers = task
    opening = {"S1901M": settings.explore_s1901m, "F1901M": settings.explore_f1901m}
    options = {"explore": settings.explore, "opening": opening, "keep": True}
    player = search_player(settings, path, _net(layers), **options)
    end = game.EndRules(settings.data_last_year, settings.selfplay_stalemate_years)
    played = game.play([[player] * atlas.N_POWERS], seed, [("data", number)], end)[0]
    records = [record.to_json() | {"game": played.id} for record in player.records]
    return {"game": played.to_saved(), "records": records}


def records(rows: Iterable[dict]) -> list[Record]:
    """The searches of saved rows."""
    return [Record.from_json(row) for row in rows]


def gate_game(task: tuple[DiplomacySettings, int, int, str, Arrays]) -> dict:
    """(settings, seed, number, anchor's file, net) -> saved game `number` of one searching player
    against six anchors.
    """
    settings, seed, number, path, layers = task
    player, six = search_player(settings, path, _net(layers)), anchor(settings, path)
    return arena.play_one(
        player, six, number, game.EndRules(settings.gate_last_year), seed
    ).to_saved()


def first_value(settings: DiplomacySettings) -> ValueNet | None:
    """Where the training of the value net starts: with the anchor `human` from the shipped net (see
    `human_value`), else from nothing.
    """
    return human_value.load() if settings.anchor == "human" else None


def layers(net: ValueNet) -> Arrays:
    """The value net as plain arrays, for a task."""
    return tuple(tuple(layer) for layer in (net.first, net.second, net.last))


def _net(arrays: Arrays) -> ValueNet:
    return ValueNet(*(Layer(*pair) for pair in arrays))

"""The data of study 1: the anchor's self-play, games of searching players, and the gate.

Each task is one game named by its number, so it comes out the same in any process and in any
order. Tasks and results are plain data: settings, seed, number and the value net's arrays in, saved
games and search records (JSON-able) out.

    anchor_game   seven anchors, to a real end: solo, stalemate, draw by chance or last year
    search_game   seven searching players that explore, with the record of every search
    gate_game     one searching player against six anchors
"""

import numpy as np

from dipllm_lib.dip import arena, atlas, game
from dipllm_lib.dip.policies import SoftDumbBot
from dipllm_lib.dip.teacher import Teacher
from dipllm_lib.dip.value import Layer, ValueNet
from dipllm_lib.run.profiles import DiplomacySettings

Arrays = tuple[tuple[np.ndarray, np.ndarray], ...]


def anchor(settings: DiplomacySettings) -> SoftDumbBot:
    """The anchor policy of a profile."""
    return SoftDumbBot(settings.anchor_temperature, settings.anchor_uniform, name="anchor")


def search_player(settings: DiplomacySettings, net: ValueNet, **options) -> Teacher:
    """The searching player of a profile; `options` are those of `Teacher`."""
    return Teacher(anchor(settings), net.predict, settings, name="search", **options)


def selfplay_end(settings: DiplomacySettings) -> game.EndRules:
    """The end of a game between anchors."""
    return game.EndRules(
        settings.selfplay_last_year,
        settings.selfplay_stalemate_years,
        settings.selfplay_end_draws,
    )


def anchor_game(task: tuple[DiplomacySettings, int, int]) -> dict:
    """(settings, seed, number) -> saved game of seven anchors."""
    settings, seed, number = task
    seats = [anchor(settings)] * atlas.N_POWERS
    return game.play([seats], seed, [("selfplay", number)], selfplay_end(settings))[0].to_saved()


def search_game(task: tuple[DiplomacySettings, int, int, Arrays]) -> dict:
    """(settings, seed, number, net) -> {game: saved game, records: one per phase}."""
    settings, seed, number, layers = task
    player = search_player(settings, _net(layers), explore=settings.explore, keep=True)
    end = game.EndRules(settings.data_last_year, settings.selfplay_stalemate_years)
    played = game.play([[player] * atlas.N_POWERS], seed, [("data", number)], end)[0]
    records = [record.to_json() | {"game": played.id} for record in player.records]
    return {"game": played.to_saved(), "records": records}


def gate_game(task: tuple[DiplomacySettings, int, int, Arrays]) -> dict:
    """(settings, seed, number, net) -> saved game `number` of one searching player, six anchors."""
    settings, seed, number, layers = task
    player, end = search_player(settings, _net(layers)), game.EndRules(settings.gate_last_year)
    return arena.play_one(player, anchor(settings), number, end, seed).to_saved()


def pairing(one, six, games: int, end: game.EndRules, seed: int) -> list[dict]:
    """All games of one agent against six, played together, as saved games."""
    return [played.to_saved() for played in arena.play(one, six, games, end, seed)]


def layers(net: ValueNet) -> Arrays:
    """The value net as plain arrays, for a task."""
    return tuple(tuple(layer) for layer in (net.first, net.second, net.last))


def _net(arrays: Arrays) -> ValueNet:
    return ValueNet(*(Layer(*pair) for pair in arrays))

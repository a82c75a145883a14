"""Players of `game` in stacked seats, and trembles."""

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import batch_play, game, tabular
from dipllm_lib.ipd.batch_play import MemoryOne, Table
from dipllm_lib.ipd.certainty import CertaintyEquivalent
from dipllm_lib.ipd.seats import Seated, Trembling
from dipllm_lib.run import seeding


def test_a_seated_player_plays_as_in_single_games():
    """The certainty-equivalent player against TFT: the actions of `game.play`, in every seat."""
    rounds, agents, n = 12, 3, 4
    table = Table(n, torch.empty(agents, 0, 5))
    streams = [[seeding.child(i, "seats", x) for i in range(agents)] for x in ("a", "b", "c")]
    chance = batch_play.draws(*streams, table, rounds)
    rival = Seated(CertaintyEquivalent(rounds))
    codes = batch_play.play(MemoryOne(tabular.named("TFT")), table, chance, (rival, chance))
    left = tabular.Tabular(tabular.named("TFT"))
    pair = (seeding.child(0, "x"), seeding.child(0, "y"))
    games = game.play(left, CertaintyEquivalent(rounds), 1, rounds, pair)
    expected = game.outcome(*games.view(0))[0]
    assert (codes == expected).all() and codes.shape == (agents, n, rounds)


def test_trembles_flip_where_the_number_is_below_the_rate():
    player = Trembling(tabular.Tabular(tabular.named("AllD")), 0.25)
    actions, _ = player.act(player.start(4), np.zeros(4, np.uint8), np.array([0, 0.2, 0.25, 0.9]))
    assert actions.tolist() == [1, 1, 0, 0] and actions.dtype == np.uint8
    with pytest.raises(ValueError, match="outside"):
        Trembling(player, 1.5)

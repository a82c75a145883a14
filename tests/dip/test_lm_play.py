"""Stored language models: sent to another process, asked in every way, the same games there."""

import pickle
from dataclasses import replace

import pytest
import torch

from dipllm_lib.dip import (
    agent,
    anchor_net,
    arena,
    boards,
    chunks,
    collect,
    finetune,
    game,
    lm_play,
    orders,
    policies,
    variants,
)
from dipllm_lib.lm import adapters
from dipllm_lib.run import profiles, seeding, store

PROFILE = profiles.load("smoke", 0)
SETTINGS = replace(PROFILE.dip, scratch_hidden=16, scratch_layers=1, scratch_heads=2, lora_rank=2)
END = game.EndRules(1901)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """A model with an adapter that does something, narrowed by an anchor with random weights."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("lm play")
    net = anchor_net.Net(anchor_net.Shape(16, 1, 2, 16), 0).export()
    (folder / "anchor.safetensors").write_bytes(net.to_bytes())
    model = finetune.backbone(SETTINGS, 0)
    adapters.attach(model, lm_play.NAME, 2)
    with torch.no_grad(), seeding.torch_seed(0, "test"):
        for _, parameter in adapters.trainable(model):
            parameter.add_(torch.randn(parameter.shape))
    (folder / "adapter").mkdir()
    adapters.save(model, lm_play.NAME, folder / "adapter", "")
    weights = lm_play.Weights(SETTINGS, 0, str(folder / "adapter"))
    return lm_play.Stored("lm", weights, str(folder / "anchor.safetensors"))


def answers(player):
    turns = orders.turns(boards.start(), 0)
    return player.act(turns, [seeding.child(0, "test", k) for k in range(len(turns))])


def test_a_stored_player_is_the_model_and_can_be_sent(lm):
    model = finetune.backbone(SETTINGS, 0)
    adapters.load(model, lm.weights.folder, "any")
    direct = agent.player(model, SETTINGS, collect.tau(lm.anchor), "lm")
    sent = pickle.loads(pickle.dumps(lm))
    assert sent == lm and answers(sent) == answers(direct)
    assert len(pickle.dumps(lm)) < 20_000  # settings and paths, no weights
    bare = replace(lm, weights=replace(lm.weights, folder=""))
    assert answers(bare) != answers(lm)
    nowhere = replace(lm, weights=replace(lm.weights, folder=lm.weights.folder + "nowhere"))
    with pytest.raises(FileNotFoundError, match="holds no adapter"):
        answers(nowhere)


def test_players_of_the_same_weights_share_a_model(lm):
    warm = replace(lm, name="warm", temperature=1.0)
    free = replace(lm, name="free", way=variants.LEGAL)
    found = [lm_play.opened(one) for one in (lm, warm, free, replace(lm))]
    assert found[0] is found[3] and len({id(one.backbone) for one in found}) == 1
    assert [one.name for one in found[:3]] == ["lm", "warm", "free"]
    assert [one.temperature for one in found[:3]] == [SETTINGS.agent_temperature, 1.0, 0.1]
    assert [one.narrowing.mode for one in found[:3]] == ["anchor", "anchor", "legal"]
    assert found[0].backbone is lm_play.model(lm.weights)


@pytest.mark.slow
def test_games_are_the_same_on_the_workers(lm, home):
    """Two processes with chunks of other sizes, and this one."""
    plans = [arena.Pairing(one, policies.Hold(), 7, END, 3) for one in (
        lm, replace(lm, name="free", way=variants.LEGAL)
    )]  # fmt: skip
    shelf = store.Shelf("11_evaluation", PROFILE, SETTINGS)
    found = chunks.games(shelf, plans, 4)
    with seeding.torch_threads(PROFILE.task_threads):
        here = [plan.play(range(7)) for plan in plans]
    assert [[g.to_saved() for g in own] for own in found] == [
        [g.to_saved() for g in own] for own in here
    ]
    assert found[0][0].orders != found[1][0].orders

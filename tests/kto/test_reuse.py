"""Reusing keys and values changes nothing, and saves tokens."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.kto import repeated, reuse
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.repeated import IteratedPD, State
from dipllm_lib.lm import adapters
from dipllm_lib.run import seeding


def history(rounds):
    drawn = seeding.child(0, "history").integers(2, size=(rounds, 2)).tolist()
    return State(rounds, repeated.WORDS_LABELS, history=tuple(map(tuple, drawn)))


def test_growing_histories_are_scored_alike(tiny):
    backbone = tiny()
    adapters.attach(backbone, "executor", 2)
    with torch.no_grad():
        for _, parameter in adapters.trainable(backbone):
            parameter.add_(0.05)
    for adapter in ("", "executor"):
        table = reuse.saving(backbone, adapter, IteratedPD(20), history(20))
        assert (table["apart"] < 1e-5).all()
        assert (table["saved"] > 0.4).all() and table["window"].tolist() == [8, 20]
        assert table["saved"][1] > 0.75  # without a window nothing moves


def test_the_example_is_longer_than_the_window():
    game, state = reuse.example(3)
    assert len(state.history) == game.rounds == reuse.ROUNDS > game.window
    assert reuse.example(3)[1] == state != reuse.example(4)[1]
    assert len(reuse.growing(game, state)) == reuse.ROUNDS


def test_any_order_and_other_games_do_no_harm(tiny, gifts, offers):
    backbone = tiny()
    policy, plain = reuse.ReusingPolicy(backbone), LMPolicy(backbone)
    game = IteratedPD(6, window=6)
    contexts = [*reuse.growing(game, history(6)), *gifts[:3], *offers("AF"), gifts[1], gifts[1]]
    for own, context in zip(policy.log_probs(contexts), contexts, strict=True):
        assert np.abs(own - plain.log_probs([context])[0]).max() < 1e-5
    lengths = [len(plain.encoded(context)[0]) for context in contexts]
    assert policy.read + policy.reused == sum(lengths)
    policy.forget()
    assert (policy.read, policy.reused) == (0, 0)


@pytest.mark.slow
def test_longer_answers_of_a_real_tokenizer(offers):
    from dipllm_lib.lm import backbones

    torch.set_num_threads(1)
    backbone = backbones.load("smollm2")
    policy, plain = reuse.ReusingPolicy(backbone), LMPolicy(backbone)
    contexts = [*offers("AB"), *reuse.growing(replace(IteratedPD(4), window=4), history(4))]
    for own, context in zip(policy.log_probs(contexts), contexts, strict=True):
        assert np.abs(own - plain.log_probs([context])[0]).max() < 1e-5

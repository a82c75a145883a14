"""The cost rows of a language model: their shape and arithmetic, on a scratch model."""

import pytest
import torch

from dipllm_lib.dip import lm_cost, orders, paper_text, rules, text
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.lm import backbones


class Letters:
    """In place of a tokenizer with a chat template: one id a letter."""

    def apply_chat_template(self, chat, tokenize, add_generation_prompt):
        return "|".join(part["content"] for part in chat)

    def __call__(self, written, add_special_tokens):
        return {"input_ids": [1 + ord(letter) % 100 for letter in written]}


@pytest.fixture(scope="module")
def backbone():
    torch.set_num_threads(1)
    made = backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)
    made.tokenizer.inner = Letters()
    return made


@pytest.fixture(scope="module")
def own():
    return orders.turns(rules.start())


def test_paper_prompts_are_one_a_unit(backbone, own):
    """Each knows the orders before it, and asks for as many tokens as its order has and one."""
    turn = own[0]
    joint = tuple(int(ids[0]) for ids in turn.lists)
    found = lm_cost.paper_prompts(backbone, turn, joint)
    assert len(found) == turn.slots == 3
    for slot, (ids, length) in enumerate(found):
        messages = paper_text.prompt(turn, joint[:slot])
        assert len(ids) == len(messages.system) + 1 + len(messages.user)
        assert length == len(paper_text.answer(joint[slot])) + 1


def test_order_row_by_hand(backbone, own, monkeypatch):
    """22 orders in 2 s of ours, 3 units in 6 s of the peer: 11 against 0.5 a second."""
    monkeypatch.setattr(lm_cost, "compact_seconds", lambda *_: 2.0)
    monkeypatch.setattr(lm_cost, "generate_seconds", lambda _, prompts: 2.0 * len(prompts))
    told = []
    row = lm_cost.order_row(backbone, [own], 3, 2, told.append)
    assert (row["ours"], row["peer"], row["ratio"]) == (11, 0.5, 22)
    assert "7 turns, 22 orders" in told[0] and "load" in told[0]


def test_the_peer_says_as_many_tokens_as_it_is_asked_for(backbone, monkeypatch):
    said = []
    generate = backbone.causal.generate
    monkeypatch.setattr(
        backbone.causal, "generate", lambda **given: said.append(generate(**given)) or said[-1]
    )
    assert lm_cost.generate_seconds(backbone, [([5, 6, 7], 4), ([9], 2)]) > 0
    assert [tokens.shape for tokens in said] == [(1, 7), (1, 3)]


def test_latency_rows_by_hand(backbone, own, monkeypatch):
    """Every decision takes 100 ms but one of 1000: p95 is 730 of seven, 800 were wanted."""
    times = [("ITALY", 100.0)] * 6 + [("FRANCE", 1000.0)]
    monkeypatch.setattr(lm_cost, "latencies", lambda *_: times)
    told = []
    (row,) = lm_cost.latency_rows(backbone, {"movement": [own]}, 42, told.append)
    assert row["ratio"] == pytest.approx(800 / 730) and row["ours"] == pytest.approx(1000 / 730)
    assert "p50 100 ms, p95 730 ms" in told[0] and "FRANCE: 1 decisions" in told[1]


def test_real_latencies_and_precisions(backbone, own):
    found = lm_cost.latencies(LMAgent(backbone, 1.0), own[:2])
    assert [name for name, _ in found] == ["AUSTRIA", "ENGLAND"] and min(ms for _, ms in found) > 0
    told = []
    assert lm_cost.faster_dtype(backbone, told.append) in ("float32", "bfloat16")
    assert len(told) == 2 and "bfloat16" in told[1]


def test_faster_dtype_by_hand(backbone, monkeypatch):
    """One board and ten steps: 1 + 10 x 0.1 against 0.5 + 10 x 0.2 seconds."""
    table = {128: {"float32": 1.0, "bfloat16": 0.5}, 16: {"float32": 0.1, "bfloat16": 0.2}}
    monkeypatch.setattr(lm_cost, "dtype_seconds", lambda _, tokens: table[tokens])
    assert lm_cost.faster_dtype(backbone, lambda _: None) == "float32"


def test_positions_are_of_the_middle_of_games():
    found = lm_cost.positions(1)
    assert len(found["movement"]) == 6 and found["adjustments"]
    for kind, letter in (("movement", "M"), ("retreats", "R"), ("adjustments", "A")):
        for turns in found[kind]:
            assert turns and {turn.phase[-1] for turn in turns} == {letter}
            assert 1902 <= int(turns[0].phase[1:5]) <= 1904

"""The store by hand: reading, gradients, life of the entries; recall of old events."""

import math

import numpy as np
import pytest
import torch

from dipllm_lib.kto import memory, recall
from dipllm_lib.kto.memory import KeyValueStore


def test_reading_by_hand():
    """Two entries; scores q.k / sqrt(d) = 0 and log 3, so weights 1/4 and 3/4."""
    keys = torch.tensor([[[0.0, 0.0], [math.sqrt(2) * math.log(3), 0.0]]])
    values = torch.tensor([[[8.0, 0.0], [0.0, 4.0]]])
    found = memory.attend(torch.tensor([[[1.0, 0.0]]]), keys, values)
    assert torch.allclose(found, torch.tensor([[[2.0, 3.0]]]))


def test_low_temperature_returns_the_stored_value():
    store = KeyValueStore(6, temperature=1e-3, seed=1)
    for k in range(6):
        store.write(10 * torch.eye(6)[k : k + 1])
    question = torch.eye(6)[2:3]
    keys = torch.cat(store.keys)
    best = int((keys @ store.query(question)[0]).argmax())
    assert torch.allclose(store.read(question), store.values[best], atol=1e-4)
    assert store.size == 32 and store.values[0].shape == (1, 32)


def test_gradients_reach_keys_values_and_query():
    store = KeyValueStore(5, seed=0).double()
    rounds = torch.randn(3, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for features in rounds:
        store.write(features)
    store.read(rounds[0] + 1).square().sum().backward()
    for part in (store.key, store.value, store.query):
        assert part.weight.grad.abs().sum() > 1e-6

    def value(weight, name):
        copy = KeyValueStore(5, seed=0).double()
        copy.load_state_dict(store.state_dict() | {name: weight})
        for features in rounds:
            copy.write(features)
        return copy.read(rounds[0] + 1).square().sum().item()

    for name in ("key", "value", "query"):
        weight = getattr(store, name).weight.detach()
        step = torch.zeros_like(weight)
        step[3, 2] = 1e-6
        full = f"{name}.weight"
        slope = (value(weight + step, full) - value(weight - step, full)) / 2e-6
        assert slope == pytest.approx(float(getattr(store, name).weight.grad[3, 2]), abs=1e-7)


def test_entries_keep_their_graph_until_the_episode_ends():
    store = KeyValueStore(4)
    assert torch.equal(store.read(torch.ones(2, 4)), torch.zeros(2, 32)) and len(store) == 0
    store.write(torch.ones(2, 4))
    assert store.keys[0].requires_grad and store.values[0].requires_grad
    store.detach()
    assert not store.keys[0].requires_grad and not store.values[0].requires_grad
    before = store.read(torch.ones(2, 4))
    before.sum().backward()  # one entry: its weight is 1 whatever the query
    assert store.value.weight.grad is None and len(store) == 1
    store.clear()
    assert len(store) == 0
    with pytest.raises(ValueError, match="temperature 0"):
        KeyValueStore(4, temperature=0)


def test_one_pass_equals_round_by_round():
    store, generator = KeyValueStore(3, 2, seed=4), torch.Generator().manual_seed(2)
    rounds = torch.randn(2, 6, 3, generator=generator)
    questions = torch.randn(2, 6, 2, generator=generator)
    together = store.read_all(rounds, questions)
    for t in range(6):
        assert torch.allclose(together[:, t], store.read(questions[:, t]), atol=1e-6)
        store.write(rounds[:, t])


def test_recall_needs_the_store_beyond_the_window():
    size = recall.Size(steps=200, batch=32, rate=0.05, test=640)
    assert recall.score(32, True, size, 0) >= 0.95
    assert abs(recall.score(32, False, size, 0) - 0.25) < 0.1
    rows = recall.run((0, recall.Size(steps=1, batch=4, test=4), (4,)))
    assert [row["arm"] for row in rows] == list(recall.ARMS) and rows[0]["chance"] == 0.25
    assert np.isfinite([row["recall"] for row in rows]).all()

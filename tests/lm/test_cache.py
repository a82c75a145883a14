"""Reading trees of tokens behind rows: equal to plain passes of the transformers library."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dipllm_lib.lm import adapters, backbones, cache
from dipllm_lib.lm.cache import Cache, chain, path_to
from dipllm_lib.lm.packing import Tree


@pytest.fixture
def grouped():
    """A Llama with six query heads on two key heads, and an adapter that does something."""
    torch.set_num_threads(1)
    sizes = {"vocab_size": 42, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval()
    tokenizer = backbones.WordTokenizer([f"w{i}" for i in range(41)])
    backbone = backbones.Backbone(model, tokenizer, "grouped", {})
    adapters.attach(backbone, "some", 2)
    with torch.no_grad():
        for _, parameter in adapters.trainable(backbone):
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return backbone


def plain(backbone, tokens):
    """Hidden state of the last token, by one pass without cache, mask or padding."""
    with torch.inference_mode():
        return backbone.causal.model(input_ids=torch.tensor([tokens])).last_hidden_state[0, -1]


def close(state, backbone, tokens):
    return torch.allclose(state, plain(backbone, tokens), atol=1e-5)


def test_rows_of_unlike_length_with_trees(grouped):
    """A row never sees another one, nor the padding that a longer one brings."""
    cache = Cache(grouped, 2)
    states = cache.read([1, 0], [chain([1, 2, 3, 4, 5, 6, 7]), chain([9])])
    assert close(states[6], grouped, [1, 2, 3, 4, 5, 6, 7]) and close(states[7], grouped, [9])
    cache.keep([1, 0], [range(7), range(1)])
    tree = Tree()
    left, right = tree.add([10, 11]), tree.add([10, 12, 13])
    states = cache.read([0, 1], [tree, chain([8])])
    assert close(states[left[-1]], grouped, [9, 10, 11])
    assert close(states[right[-1]], grouped, [9, 10, 12, 13])
    assert close(states[-1], grouped, [1, 2, 3, 4, 5, 6, 7, 8])


def test_one_path_of_a_tree_is_kept(grouped):
    """The other branch leaves no trace, though its columns lay between."""
    cache, tree = Cache(grouped), Tree()
    tree.add([1, 2, 3]), tree.add([1, 7, 8, 9])
    end = tree.add([1, 4, 5])[-1]
    cache.read([0], [tree])
    assert path_to(tree, end) == [0, 6, 7]
    cache.keep([0], [path_to(tree, end)])
    assert cache.lengths.tolist() == [3]
    assert close(cache.read([0], [chain([6, 6])])[-1], grouped, [1, 4, 5, 6, 6])


def test_copies_part(grouped):
    """Copies of a row with its tree take different paths; far rows are read as well as near."""
    cache, tree = Cache(grouped), Tree()
    ends = [tree.add([3, k, k])[-1] for k in (4, 5, 6)]
    cache.read([0], [tree])
    cache.copy([0, 0], [7, 2], beyond=len(tree.tokens))
    cache.keep([0, 7, 2], [path_to(tree, end) for end in ends])
    states = cache.read([0, 2, 7], [chain([1]), chain([1, 2]), chain([2])])
    assert close(states[0], grouped, [3, 4, 4, 1])
    assert close(states[2], grouped, [3, 6, 6, 1, 2])
    assert close(states[3], grouped, [3, 5, 5, 2])
    cache.clear([2])
    assert close(cache.read([2], [chain([5, 4])])[-1], grouped, [5, 4])


def test_grows_beyond_its_room(grouped):
    cache, said = Cache(grouped), [1 + k % 40 for k in range(150)]
    for first in range(0, 150, 30):
        state = cache.read([0], [chain(said[first : first + 30])])[-1]
        cache.keep([0], [range(30)])
    assert close(state, grouped, said)


def test_blocks_of_a_bfloat16_pass_change_no_bit(grouped, monkeypatch):
    """Rows of unlike length with branches, behind what some have read, in blocks of any size."""
    grouped.model.bfloat16()
    draws = torch.Generator().manual_seed(1)
    tokens = [torch.randint(42, (n,), generator=draws).tolist() for n in (9, 70, 31, 5)]
    trees = [chain(row) for row in tokens]
    trees[2].add(tokens[1][:20], behind=6)

    def states(size):
        monkeypatch.setattr(cache, "BLOCK", size)
        kept = Cache(grouped, 4)
        kept.read([1, 2], [chain(tokens[0]), chain(tokens[3])])
        kept.keep([1, 2], [range(9), range(5)])
        return kept.read([0, 1, 2, 3], trees)

    whole = states(1000)
    assert all(torch.equal(states(size), whole) for size in (1, 8, 32))
    alone = Cache(grouped).read([0], [trees[1]])
    assert torch.equal(alone, Cache(grouped, 4).read([1, 3], [trees[0], trees[1]])[9:])

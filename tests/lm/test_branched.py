"""Attention in branches: layouts by hand, and equal to one mask over the whole row."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from dipllm_lib.lm import branched, packing

CPU = torch.device("cpu")


def test_sizes_and_mask_by_hand():
    """Trunk of 2, branches of 1 and 2, one token of padding."""
    row = branched.chains(2, [1, 2], 6, CPU)
    assert row.sizes == [2, 1, 2, 1]
    assert row.mask().int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]


def test_the_nodes_of_a_branch_lie_side_by_side():
    """1 2, then branches 3 and 4 whose tokens are added in turn; last tokens have no column."""
    tree = packing.Tree()
    for sequence in ([1, 2, 3, 5, 9], [1, 2, 4, 6, 9], [1, 2, 3, 7, 9], [1, 2, 4, 8, 9]):
        tree.add(sequence)
    columns, trunk = tree.columns()
    packed = packing.pack_trees([tree], CPU)
    assert trunk == 2 and packed.ids.tolist() == [[1, 2, 3, 5, 7, 4, 6, 8]]
    assert packed.layout[0].sizes == [2, 3, 3, 0]
    assert [int(c) for c in columns] == [0, 1, 2, 3, -1, 5, 6, -1, 4, -1, 7, -1]
    seen = [np.flatnonzero(row).tolist() for row in packed.layout[0].mask().numpy()]
    assert seen[4] == [0, 1, 2, 4] and seen[7] == [0, 1, 5, 7]


class Layer(torch.nn.Module):
    num_key_value_groups = 3


@pytest.mark.parametrize("dtype, least", [("float32", 1e-6), ("bfloat16", 2e-2)])
def test_the_same_as_one_mask(dtype, least):
    """Outputs and gradients of two rows, one of them without a trunk."""
    generator = torch.Generator().manual_seed(0)
    rows = [branched.chains(5, [4, 1, 3], 15, CPU), branched.chains(0, [7, 8], 15, CPU)]
    mask = torch.stack([row.mask() for row in rows])[:, None]
    shapes = [(2, 6, 15, 8), (2, 2, 15, 8), (2, 2, 15, 8)]
    inputs = [torch.randn(s, generator=generator).to(getattr(torch, dtype)) for s in shapes]
    found = []
    for attend in (
        lambda q, k, v: branched.attend(Layer(), q, k, v, None, 0.3, layout=rows)[0],
        lambda q, k, v: scaled_dot_product_attention(
            q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), attn_mask=mask, scale=0.3
        ).transpose(1, 2),
    ):
        own = [x.clone().requires_grad_() for x in inputs]
        result = attend(*own)[:, :13] * torch.tensor([1, 1]).reshape(2, 1, 1, 1)
        result[1, 12:] = 0
        (result.float() ** 2).sum().backward()
        found.append([result.detach(), *(x.grad[:, :, :12] for x in own)])
    for ours, other in zip(*found, strict=True):
        assert (ours - other).abs().max() <= least * max(1.0, other.abs().max().item())


def test_a_model_gives_the_states_of_its_own_causal_pass(tiny):
    """Every path of a tree in one pass beside the plain pass of the path alone."""
    backbone, tree = tiny(), packing.Tree()
    sequences = [[1, 2, 3, 5, 9], [1, 2, 4, 6, 9], [1, 2, 3, 7, 9], [1, 2, 3, 7, 8, 9]]
    nodes = [tree.add(sequence) for sequence in sequences]
    packed = packing.pack_trees([tree], backbone.device)
    states = packing.hidden(backbone, packed)[0]
    for sequence, own in zip(sequences, nodes, strict=True):
        ids = torch.tensor([sequence[:-1]])
        plain = backbone.causal.model(input_ids=ids).last_hidden_state[0]
        columns = [packed.columns[0][node] for node in own[:-1]]
        assert torch.allclose(states[columns], plain, atol=1e-5)

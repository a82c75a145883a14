"""Packed trees: positions and masks by hand, and equal to one plain pass per sequence."""

import numpy as np
import pytest
import torch

from dipllm_lib.lm import packing, scoring, tree_scores
from dipllm_lib.lm.choices import Tries, path

CPU = torch.device("cpu")


def test_a_tree_by_hand():
    """5 6 7, 5 6 8 9 and 5 8: the last tokens 7, 9 and the second 8 predict nothing."""
    tree = packing.Tree()
    assert [tree.add(s) for s in ([5, 6, 7], [5, 6, 8, 9], [5, 8])] == [
        [0, 1, 2],
        [0, 1, 3, 4],
        [0, 5],
    ]
    packed = packing.pack_trees([tree], CPU)
    assert packed.ids.tolist() == [[5, 6, 8]] and packed.positions.tolist() == [[0, 1, 2]]
    assert packed.layout[0].mask().int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert [packed.predictor(0, node) for node in (1, 2, 3, 4, 5)] == [0, 1, 1, 2, 0]
    with pytest.raises(ValueError, match="nothing predicts the first token"):
        packed.predictor(0, 0)


def test_branches_do_not_see_each_other():
    """Board 1 2; powers 3 and 4; under 3 the orders 5 6 and 7 6, under 4 the orders 5 6."""
    tree = packing.Tree()
    for sequence in ([1, 2, 3, 5, 6], [1, 2, 3, 7, 6], [1, 2, 4, 5, 6]):
        tree.add(sequence)
    packed = packing.pack_trees([tree], CPU)
    assert packed.ids.tolist() == [[1, 2, 3, 5, 7, 4, 5]]
    assert packed.positions.tolist() == [[0, 1, 2, 3, 3, 2, 3]]
    seen = [np.flatnonzero(row).tolist() for row in packed.layout[0].mask().numpy()]
    assert seen == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 5], [0, 1, 5, 6]]


def test_an_empty_tree_is_one_line():
    tree = packing.Tree()
    tree.add([4])
    with pytest.raises(ValueError, match="at least two tokens"):
        packing.pack_trees([tree], CPU)
    with pytest.raises(ValueError, match="a prompt needs at least one token"):
        tree_scores.tree([((), ())])


@pytest.fixture
def rows(table):
    """Two rows of prompts that share a board, with choices of one to three slots, one forced."""
    shared = [(1, 2, 40), (1, 3, 40), (1, 3, 5, 40), (4, 40)]
    choices = [
        table(shared, [(7, 40), (8, 8, 40)], [(9, 41), (3, 41), (3, 4, 41)]),
        table([(5, 6, 41)]),
        table(shared, [(2, 41), (6, 41)]),
    ]
    sequences = [
        [(0, 0, 0), (0, 0, 2), (1, 1, 1), (2, 0, 2), (3, 1, 0)],
        [(0,)],
        [(1, 0), (1, 1)],
    ]
    board, other = [9, 8, 7, 6], [9, 8]
    made = []
    for choice, wanted in zip(choices, sequences, strict=True):
        tries = Tries(choice)
        made.append([path(tries, sequence) for sequence in wanted])
    first = [([*board, 20 + k], paths) for k, paths in enumerate(made)]
    return [first, [([*other, 30], made[2])]], choices, sequences


def plain(backbone, prompt, tokens):
    """One unpadded pass over prompt and tokens with the model's own causal mask."""
    ids = torch.tensor([[*prompt, *tokens]])
    table = torch.log_softmax(backbone.model(input_ids=ids).logits[0].double(), -1)
    return sum(table[t - 1, ids[0, t]] for t in range(len(prompt), ids.shape[1]))


def test_every_path_has_the_log_prob_of_its_own_pass(tiny, rows):
    backbone = tiny()
    found = tree_scores.score(backbone, rows[0], "tokens").paths()
    for row, values in zip(rows[0], found, strict=True):
        for (prompt, paths), own in zip(row, values, strict=True):
            alone = [plain(backbone, prompt, p.tokens).item() for p in paths]
            assert np.allclose(own, alone, rtol=0, atol=1e-5)


def test_legal_scores_equal_the_scoring_of_play(tiny, rows):
    backbone, (data, choices, sequences) = tiny(), rows
    found = tree_scores.score(backbone, data, "legal").paths()
    prompts = [prompt for prompt, _ in data[0]]
    expected = scoring.log_prob(backbone, prompts, choices, sequences)
    for own, other in zip(found[0], expected, strict=True):
        assert np.allclose(own, other, rtol=0, atol=1e-5)
    assert found[0][1] == 0.0  # the forced choice


def test_shared_tokens_are_read_once(rows):
    """Row 1: board 4, three powers; 5 paths with 12 inner nodes, 1 of 2 tokens, 2 that share 3."""
    tree, _ = tree_scores.tree(rows[0][0])
    sequences = {
        (*prompt, *p.tokens)[:end]
        for prompt, paths in rows[0][0]
        for p in paths
        for end in range(1, len(prompt) + len(p.tokens))
    }
    assert tree_scores.length(rows[0][0]) == len(sequences)
    assert len(tree.tokens) == len(sequences) + 8  # and the last tokens of eight paths


def gradient(backbone, value):
    backbone.model.zero_grad()
    value.backward()
    return torch.cat([p.grad.flatten() for p in backbone.model.parameters()])


def test_loss_over_the_trie_equals_the_loss_over_its_leaves(tiny, rows):
    """Weights of a node are those of the leaves below; value and gradient."""
    backbone, rng = tiny(), np.random.default_rng(0)
    weights = [[rng.dirichlet(np.ones(len(paths))) for _, paths in row] for row in rows[0]]
    packed = tree_scores.score(backbone, rows[0], "tokens").weighted(weights)
    leaves = 0.0
    for row, own in zip(rows[0], weights, strict=True):
        for (prompt, paths), w in zip(row, own, strict=True):
            leaves = leaves + sum(
                x * plain(backbone, prompt, p.tokens) for x, p in zip(w, paths, strict=True)
            )
    assert packed.item() == pytest.approx(leaves.item(), rel=1e-6)
    ours, theirs = gradient(backbone, packed), gradient(backbone, leaves)
    assert (ours - theirs).norm() < 1e-5 * theirs.norm()


def test_only_forced_paths_give_a_loss_of_zero(tiny, rows):
    backbone = tiny()
    found = tree_scores.score(backbone, [rows[0][0][1:2]], "legal")
    assert found.paths()[0][0].tolist() == [0.0]
    loss = found.weighted([[[1.0]]])
    loss.backward()
    assert loss.item() == 0.0
    with pytest.raises(ValueError, match="unknown softmax 'all'"):
        tree_scores.score(backbone, rows[0], "all")

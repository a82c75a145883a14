"""Log-probabilities and samples: by hand, by brute force, in batches, temperature, top-p."""

import itertools

import numpy as np
import pytest
import torch

from dipllm_lib.lm import adapters, backbones, decoding, packing, scoring


def generators(n, seed=0):
    return [np.random.default_rng([seed, i]) for i in range(n)]


@pytest.fixture
def cases(table):
    """Prompts of 1 to 9 tokens and choices with 1 to 3 slots, one of them empty, one forced."""
    shared = [(1, 2, 40), (1, 3, 40), (1, 3, 5, 40), (4, 40)]
    choices = [
        table(shared, [(7, 40), (8, 8, 40)], [(9, 41), (3, 41), (3, 4, 41)]),
        table(),
        table([(5, 6, 41)]),
        table(shared, [(2, 41), (6, 41)]),
    ]
    return [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3], [2, 2], [9, 8, 7, 6]], choices


def every(choice):
    return list(itertools.product(*(range(len(slot)) for slot in choice.slots)))


def brute_force(backbone, prompt, choice, sequence):
    """One plain forward pass per token, mask by hand, no packing and no cache."""
    total, chosen, said = 0.0, (), list(prompt)
    for index in sequence:
        options = choice.options(chosen)
        for k, token in enumerate(options[index]):
            legal = sorted({o[k] for o in options if len(o) > k and o[:k] == options[index][:k]})
            with torch.inference_mode():
                logits = backbone.model(input_ids=torch.tensor([said])).logits[0, -1].double()
            total += torch.log_softmax(logits[legal], 0)[legal.index(token)].item()
            said.append(token)
        chosen += (index,)
    return total


def test_uniform_logits_by_hand(tiny, table):
    """With a zero output matrix each decision is fair: 1/2 for 4, 1/4 for 1 2 and for 1 3."""
    backbone = tiny()
    torch.nn.init.zeros_(backbone.head)
    choice = table([(1, 2), (1, 3), (4,)], [(7,)])
    (found,) = scoring.log_prob(backbone, [[1]], [choice], [[(0, 0), (1, 0), (2, 0)]])
    assert np.allclose(found, np.log([0.25, 0.25, 0.5]), atol=1e-12)


def test_equals_brute_force_and_sums_to_one(tiny, cases):
    backbone, (prompts, choices) = tiny(), cases
    sequences = [every(choice) for choice in choices]
    found = scoring.log_prob(backbone, prompts, choices, sequences)
    for prompt, choice, wanted, row in zip(prompts, choices, sequences, found, strict=True):
        assert np.exp(row).sum() == pytest.approx(1, abs=1e-6)
        single = [brute_force(backbone, prompt, choice, sequence) for sequence in wanted]
        assert np.allclose(row, single, atol=1e-5)


def test_alone_equals_batch(tiny, cases):
    backbone, (prompts, choices) = tiny(), cases
    sequences = [every(choice) for choice in choices]
    batch = scoring.log_prob(backbone, prompts, choices, sequences)
    for prompt, choice, wanted, row in zip(prompts, choices, sequences, batch, strict=True):
        alone = [scoring.log_prob(backbone, [prompt], [choice], [[s]])[0][0] for s in wanted]
        assert np.allclose(row, alone, atol=1e-4)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.3, 1.0), (1.0, 0.6)])
def test_sample_returns_its_log_prob(tiny, cases, temperature, top_p):
    backbone, (prompts, choices) = tiny(), cases
    prompts, choices = prompts * 8, choices * 8
    found = scoring.sample(backbone, prompts, choices, generators(32), temperature, top_p)
    again = scoring.log_prob(
        backbone, prompts, choices, [[s] for s, _ in found], temperature, top_p
    )
    assert np.allclose([log for _, log in found], np.concatenate(again), atol=1e-4)
    assert found[1] == ((), 0.0) and found[2] == ((0,), 0.0)


def test_samples_do_not_depend_on_the_batch(tiny, cases):
    backbone, (prompts, choices) = tiny(), cases
    batch = scoring.sample(backbone, prompts * 3, choices * 3, generators(12))
    for i, (prompt, choice) in enumerate(zip(prompts * 3, choices * 3, strict=True)):
        (alone,) = scoring.sample(backbone, [prompt], [choice], [generators(12)[i]])
        assert alone[0] == batch[i][0]
        assert alone[1] == pytest.approx(batch[i][1], abs=1e-4)


def test_sample_frequencies_match_probabilities(tiny, cases):
    backbone, prompt, choice = tiny(), cases[0][3], cases[1][3]
    (exact,) = scoring.log_prob(backbone, [prompt], [choice], [every(choice)], temperature=0.5)
    n = 2000
    found = scoring.sample(backbone, [prompt] * n, [choice] * n, generators(n, 5), temperature=0.5)
    counts = np.array([sum(s == wanted for s, _ in found) for wanted in every(choice)])
    expected = n * np.exp(exact)
    assert ((counts - expected) ** 2 / expected).sum() < 24.3  # chi-square, 7 degrees, 0.1 %


def test_forced_choices_run_no_model(tiny, table, monkeypatch):
    backbone = tiny()
    monkeypatch.setattr(backbone.causal.model, "forward", None)
    choice = table([(5, 6)], [(7,)])
    assert scoring.sample(backbone, [[1]], [choice], generators(1)) == [((0, 0), 0.0)]
    assert scoring.log_prob(backbone, [[1]], [choice], [[(0, 0)]])[0].tolist() == [0.0]


def test_top_p_by_hand():
    """Of (.5, .3, .2) mass .7 keeps two, 5/8 and 3/8; of a tie the lower token stays; 0.01 keeps
    one.
    """
    logits = torch.tensor([[0.5, 0.3, 0.2], [0.25, 0.5, 0.25]], dtype=torch.float64).log()
    found = scoring.legal_log_softmax(logits, 1.0, 0.7).exp()
    expected = torch.tensor([[5 / 8, 3 / 8, 0], [1 / 3, 2 / 3, 0]], dtype=torch.float64)
    assert torch.allclose(found, expected)
    assert scoring.legal_log_softmax(logits, 1.0, 0.01).exp()[0].tolist() == [1, 0, 0]
    squared = scoring.legal_log_softmax(logits, 0.5, 1.0).exp()[0]
    assert torch.allclose(squared, torch.tensor([25, 9, 4], dtype=torch.float64) / 38)


def test_bad_temperature_and_prompt(tiny, cases):
    backbone, (prompts, choices) = tiny(), cases
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="temperature must be positive"):
            scoring.sample(backbone, prompts, choices, generators(4), bad)
    with pytest.raises(ValueError, match="top_p must be in"):
        scoring.log_prob(backbone, prompts, choices, [[]] * 4, 1.0, 0.0)
    with pytest.raises(ValueError, match="at least one token"):
        scoring.log_prob(backbone, [[]], [choices[0]], [[(0, 0, 0)]])


def test_bfloat16_has_no_ties(tiny, cases):
    """Logits are float32 products, so near-equal bfloat16 logits stay apart and sums stay 1."""
    backbone, choice = tiny(dtype="bfloat16"), cases[1][0]
    (found,) = scoring.log_prob(backbone, [cases[0][0]], [choice], [every(choice)])
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-9)
    assert len(np.unique(found)) == len(found)


def test_packed_branches_do_not_see_each_other(tiny):
    backbone = tiny()
    packed = [
        packing.pack([[1, 2, 3], [4]], [[[5, 6, 7], other], [[8, 9]]], backbone.device)
        for other in ([9, 9, 9, 9], [1, 2, 3, 4])
    ]
    first, second = (packing.hidden(backbone, p) for p in packed)
    assert torch.equal(first[0, :5], second[0, :5]) and not torch.equal(first[0, 5], second[0, 5])
    plain = backbone.causal.model(input_ids=torch.tensor([[1, 2, 3, 5, 6]])).last_hidden_state
    assert torch.allclose(first[0, :5], plain[0], atol=1e-5)
    assert [packed[0].predictor(0, 1, t) for t in (0, 1, 2)] == [2, 5, 6]


def test_chunks_by_hand():
    """Sorted 1 3 3 5 20: three rows of 3 are 9 columns, a row of 5 more would make 20."""
    assert packing.chunks([3, 3, 5, 20, 1], 10) == [[4, 0, 1], [2], [3]]
    assert packing.chunks([], 10) == []


def test_free_text_stops(tiny):
    backbone = tiny()
    found = scoring.sample_text(backbone, [[1], [2, 3]] * 10, generators(20), stop=41, limit=60)
    assert all(len(ids) <= 60 and 41 not in ids[:-1] for ids in found)
    assert any(ids[-1] == 41 for ids in found)
    alone = scoring.sample_text(backbone, [[2, 3]], [generators(20)[1]], stop=41, limit=60)
    assert alone == [found[1]]


def test_reading_ahead_and_small_batches_change_nothing(tiny, cases, monkeypatch):
    """The same draws whatever is read ahead, however many rows are decoded together."""
    backbone, (prompts, choices) = tiny(), cases
    prompts, choices = prompts * 6, choices * 6
    found = []
    for ahead, rows in ((0, 64), (12, 64), (1000, 64), (1000, 3), (48, 1)):
        monkeypatch.setattr(decoding, "AHEAD", ahead)
        for module in (decoding, scoring):
            monkeypatch.setattr(module, "ROWS", rows)
        found.append(scoring.sample(backbone, prompts, choices, generators(24)))
    for other in found[1:]:
        assert [chosen for chosen, _ in other] == [chosen for chosen, _ in found[0]]
        assert np.allclose([x for _, x in other], [x for _, x in found[0]], atol=1e-5)


def test_reading_ahead_saves_passes(tiny, table, monkeypatch):
    """Three slots of two decisions each: a pass per slot instead of one per decision."""
    backbone, passes = tiny(), []
    read = decoding.Cache.read
    monkeypatch.setattr(decoding.Cache, "read", lambda *given: passes.append(1) or read(*given))
    slot = [(1, 2, 40), (1, 3, 40), (4, 5, 40), (4, 6, 40)]
    for ahead, expected in ((0, 6), (48, 3)):
        monkeypatch.setattr(decoding, "AHEAD", ahead)
        passes.clear()
        scoring.sample(backbone, [[7, 8]], [table(slot, slot, slot)], generators(1))
        assert len(passes) == expected


def test_draws_of_one_choice_share_rows_and_stay_their_own(tiny, cases):
    """Forty draws of one choice object equal forty draws of forty equal objects."""
    backbone, (prompts, choices) = tiny(), cases
    copies = [type(choices[0])(*choices[0].slots) for _ in range(40)]
    shared = scoring.sample(backbone, prompts[:1] * 40, choices[:1] * 40, generators(40))
    apart = scoring.sample(backbone, prompts[:1] * 40, copies, generators(40))
    assert [chosen for chosen, _ in shared] == [chosen for chosen, _ in apart]
    assert len({chosen for chosen, _ in shared}) > 5


def test_shared_prefixes_by_hand():
    """1 2 3 4 | 1 2 3 5 share three of four; 9 9 stands alone; equal ones share all but the
    last.
    """
    prompts = [[1, 2, 3, 5], [9, 9], [1, 2, 3, 4], [1, 2, 3, 5], [1, 7, 7, 7]]
    assert decoding.shared_prefixes(prompts) == [(3, [0, 2, 3]), (0, [4]), (0, [1])]
    assert decoding.shared_prefixes([[4, 5, 6]] * 2) == [(2, [0, 1])]
    assert decoding.shared_prefixes([[1], [1]]) == [(0, [0]), (0, [1])]
    assert decoding.shared_prefixes([]) == []


def test_powers_of_one_position_are_scored_in_one_pass(tiny, table, monkeypatch):
    """The board and all they share is read once, then each one's last token and the orders but the
    last of each.
    """
    backbone, trees = tiny(), []
    read = scoring.Cache.read
    monkeypatch.setattr(
        scoring.Cache,
        "read",
        lambda self, rows, given: trees.extend(given) or read(self, rows, given),
    )
    board, choice = [1, 2, 3, 4, 5, 6], table([(8, 40), (9, 40)], [(1, 41), (2, 41)])
    prompts = [[*board, 20, k] for k in (7, 8, 9)]
    found = scoring.log_prob(backbone, prompts, [choice] * 3, [every(choice)] * 3)
    assert [len(tree.tokens) for tree in trees] == [6 + 1, 3 * (1 + 2 + 2)]
    for prompt, row in zip(prompts, found, strict=True):
        single = [brute_force(backbone, prompt, choice, sequence) for sequence in every(choice)]
        assert np.allclose(row, single, atol=1e-5)


def test_small_passes_give_the_same(tiny, cases, monkeypatch):
    backbone, (prompts, choices) = tiny(), cases
    sequences = [every(choice) for choice in choices] * 3
    whole = scoring.log_prob(backbone, prompts * 3, choices * 3, sequences)
    monkeypatch.setattr(scoring, "TOKENS", 8)
    parts = scoring.log_prob(backbone, prompts * 3, choices * 3, sequences)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(whole, parts, strict=True))


@pytest.mark.parametrize("rank", [0, 4])
def test_bfloat16_has_the_same_bits_alone_in_a_batch_and_on_a_branch(table, rank, monkeypatch):
    """Of a model of four layers, where one other rounding would grow: log-probabilities of paths
    scored alone, together, by the draws themselves and with other paths read ahead.
    """
    words = tuple(f"w{i}" for i in range(1, 42))
    sizes = {"hidden": 64, "layers": 4, "heads": 4, "words": words, "seed": 0}
    backbone = backbones.load("scratch", **sizes, dtype="bfloat16")
    if rank:
        adapters.attach(backbone, "some", rank)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for _, parameter in adapters.trainable(backbone):
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    slot = [(a, b, 40) for a in range(1, 7) for b in range(7, 11)]
    choice, board = table(slot, slot, slot), [1 + 7 * k % 39 for k in range(60)]
    prompts = [[*board, 1 + k % 5] for k in range(20)]
    drawn = scoring.sample(backbone, prompts, [choice] * 20, generators(20))
    sequences = [[s for s, _ in drawn]] * 20
    found = scoring.log_prob(backbone, prompts, [choice] * 20, sequences)
    monkeypatch.setattr(decoding, "AHEAD", 0)  # passes of one or two tokens
    for i, (prompt, (own, log)) in enumerate(zip(prompts, drawn, strict=True)):
        alone = scoring.log_prob(backbone, [prompt], [choice], [[own]])[0][0]
        assert found[i][i] == pytest.approx(alone, abs=1e-3)
        assert log == pytest.approx(alone, abs=1e-3)
        (single,) = scoring.sample(backbone, [prompt], [choice], generators(20)[i : i + 1])
        assert single[0] == own and single[1] == pytest.approx(log, abs=1e-3)


def test_greedy_text_is_the_most_probable_token(tiny):
    backbone = tiny()
    (said,) = scoring.sample_text(backbone, [[1, 2]], generators(1), 41, 5, temperature=0)
    expected = [1, 2]
    while len(expected) < 2 + len(said):
        with torch.inference_mode():
            logits = backbone.model(input_ids=torch.tensor([expected])).logits[0, -1]
        expected.append(int(logits.argmax()))
    assert said == expected[2:]
    limits = scoring.sample_text(backbone, [[1], [2], [3]], generators(3), 41, [0, 1, 2], 0)
    assert [len(ids) for ids in limits] == [0, 1, 2]

"""The language model as a policy: two passes with equal numbers, normalised, and the raw sums."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto import games
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import Context
from dipllm_lib.lm import adapters, backbones
from dipllm_lib.run import seeding


def test_both_passes_agree_and_are_normalised(tiny, offers, gifts):
    policy = LMPolicy(tiny())
    contexts = [*offers(), *gifts]
    play = policy.log_probs(contexts)
    train = policy.scores(contexts)
    assert [len(row) for row in play] == [11] * 6 + [2] * 11
    for own, other in zip(play, train, strict=True):
        assert own.dtype == np.float64
        assert np.abs(own - other.detach().double().numpy()).max() < 1e-5
        assert np.exp(own).sum() == pytest.approx(1.0, abs=1e-9)


def test_a_batch_is_its_contexts_one_by_one(tiny, offers, gifts):
    """Shared prefixes, repeated contexts and the order of a batch change nothing."""
    policy = LMPolicy(tiny())
    contexts = [gifts[3], *offers("BA"), gifts[3], *offers("A")]
    together = policy.scores(contexts)
    for context, row in zip(contexts, together, strict=True):
        alone = policy.scores([context])[0]
        assert torch.allclose(row, alone, atol=1e-5)
    assert torch.equal(together[0], together[3]) and torch.equal(together[2], together[4])
    short = LMPolicy(policy.backbone, tokens=30)
    for row, other in zip(short.scores(contexts), together, strict=True):
        assert torch.allclose(row, other, atol=1e-5)


def test_raw_sums_are_those_of_the_whole_vocabulary(tiny, gifts):
    """By hand: log-softmax of the model's own logits at the token of each answer."""
    backbone = tiny()
    raw = LMPolicy(backbone, normalise=False)
    ids = backbone.encode(gifts[0].prompt)
    with torch.inference_mode():
        logits = backbone.causal(input_ids=torch.tensor([ids])).logits[0, -1]
    expected = torch.log_softmax(logits, -1)[[backbone.encode(a)[0] for a in gifts[0].legal]]
    assert np.abs(raw.log_probs(gifts[:1])[0] - expected.double().numpy()).max() < 1e-5
    assert raw.legal_mass(gifts[:1])[0] == pytest.approx(expected.exp().sum().item(), abs=1e-6)
    own = LMPolicy(backbone).log_probs(gifts[:1])[0]
    assert np.abs(own - torch.log_softmax(expected, -1).double().numpy()).max() < 1e-5


def test_gradients_reach_the_adapter_and_equal_differences(tiny, gifts):
    backbone = tiny()
    adapters.attach(backbone, "executor", 2)
    policy = LMPolicy(backbone, "executor")
    (name, weight), *_ = [(n, p) for n, p in adapters.trainable(backbone) if "lora_B" in n]
    policy.scores(gifts[:2])[0][0].backward()
    slope, size = weight.grad[0, 0].item(), 1e-2
    found = []
    for step in (size, -2 * size):
        with torch.no_grad():
            weight[0, 0] += step
        found.append(policy.log_probs(gifts[:1])[0][0])
    assert (found[0] - found[1]) / (2 * size) == pytest.approx(slope, rel=0.02, abs=1e-5), name


def test_adapters_by_name_and_the_base(tiny, gifts):
    backbone = tiny()
    before = LMPolicy(backbone).log_probs(gifts)
    for name in ("executor", "opponent"):
        adapters.attach(backbone, name, 2)
        with torch.no_grad():
            for _, parameter in adapters.trainable(backbone):
                parameter.add_(0.1)
    base, own = LMPolicy(backbone), LMPolicy(backbone, "executor")
    assert np.array_equal(np.array(base.log_probs(gifts)), np.array(before))
    moved = np.array(own.log_probs(gifts))
    assert np.abs(moved - np.array(before)).max() > 1e-3
    assert np.array_equal(np.array(base.log_probs(gifts)), np.array(before))
    assert np.array_equal(np.array(own.log_probs(gifts)), moved)
    with pytest.raises(ValueError, match="no adapter 'judge' .* it has: executor, opponent"):
        LMPolicy(backbone, "judge")


def test_free_text_is_parsed_strictly(tiny, gifts):
    """An untrained model says one word of 511; what is not exactly an answer is Invalid."""
    policy = LMPolicy(tiny())
    said = policy.say(gifts, [seeding.child(0, "say", k) for k in range(len(gifts))])
    assert said == policy.say(gifts, [seeding.child(0, "say", k) for k in range(len(gifts))])
    for text, context in zip(said, gifts, strict=True):
        assert text.startswith(" ") and len(text.split()) == 1
        if text not in context.legal:
            with pytest.raises(games.Invalid):
                games.parse(text, context.legal)


def test_texts_that_hide_in_others_are_refused(tiny):
    context = Context("h", "Ultimatum. I", (" accept.", " accept. accept."))
    with pytest.raises(ValueError, match="token prefix"):
        LMPolicy(tiny()).scores([context])


@pytest.mark.slow
def test_smollm2_reads_numbers_digit_by_digit(offers):
    """Texts of 3, 4 and 5 tokens; both passes agree; no text is punished for its length."""
    torch.set_num_threads(1)
    policy = LMPolicy(backbones.load("smollm2"))
    contexts = offers("AB")
    lengths = [len(path.tokens) for path in policy.encoded(contexts[0])[1]]
    assert lengths == [3] + [4] * 9 + [5]
    for own, other in zip(policy.log_probs(contexts), policy.scores(contexts), strict=True):
        assert np.abs(own - other.detach().double().numpy()).max() < 1e-5

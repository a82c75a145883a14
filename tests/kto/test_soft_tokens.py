"""The soft token stands before the cue, keeps the cached prefix valid, and carries gradients."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto import soft_tokens
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.memory import KeyValueStore
from dipllm_lib.kto.policies import Context
from dipllm_lib.kto.soft_tokens import Projection, SoftPolicy
from dipllm_lib.lm.cache import Cache, chain


def vectors(backbone, count, seed=0):
    width = backbone.head.shape[1]
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def test_it_stands_directly_before_the_cue(gifts):
    own = soft_tokens.place(gifts[4], 2)
    assert own.prompt == gifts[4].prompt.replace(". I", ". <m2> I")
    assert own.prompt.endswith(". <m2> I") and own.legal == gifts[4].legal
    with pytest.raises(ValueError, match="no cue"):
        soft_tokens.place(Context("h", "Hello", (" a.",)), 0)


def test_a_cached_prefix_stays_valid(tiny, gifts):
    """What was read before the token is kept over another memory: equal to reading all anew."""
    backbone = tiny()
    policy = SoftPolicy(backbone)
    ids = policy.encoded(soft_tokens.place(gifts[3], 0))[0]
    size = backbone.head.shape[0]
    at = ids.index(size)
    assert ids[at + 1 :] == backbone.encode(" I")
    cache = Cache(backbone)
    cache.read([0], [chain(ids[:at])])
    cache.keep([0], [range(at)])
    found = []
    for seed in (0, 1):
        with soft_tokens.given(backbone, vectors(backbone, 1, seed)):
            behind = cache.read([0], [chain(ids[at:])])[-1]
            whole = Cache(backbone).read([0], [chain(ids)])[-1]
            early = Cache(backbone).read([0], [chain([size, *ids[:at]])])[1:]
        assert torch.allclose(behind, whole, atol=1e-5)
        found.append((behind, early))
    assert (found[0][0] - found[1][0]).abs().max() > 1e-3  # the memory is heard
    assert (found[0][1] - found[1][1]).abs().max() > 1e-3  # in front it changes all that follows


def test_training_and_play_agree_and_gradients_reach_the_store(tiny, gifts):
    backbone = tiny()
    store, projection = KeyValueStore(backbone.head.shape[1]), Projection(backbone)
    features = soft_tokens.embed(backbone, ["40 accept.", "30 refuse."])
    assert features.shape == (2, backbone.head.shape[1])
    for one in features:
        store.write(one[None])
    read = store.read(soft_tokens.embed(backbone, [gifts[0].prompt]))
    policy = SoftPolicy(backbone)
    contexts = [soft_tokens.place(one, k) for k, one in enumerate(gifts[:2])]
    inputs = torch.cat([projection(read), vectors(backbone, 1)])
    with soft_tokens.given(backbone, inputs):
        play = policy.log_probs(contexts)
        train = policy.scores(contexts)
    for own, other in zip(play, train, strict=True):
        assert np.abs(own - other.detach().double().numpy()).max() < 1e-5
    train[0][0].backward()
    for part in (store.key, store.value, store.query, projection.linear):
        assert part.weight.grad.abs().sum() > 0


def test_without_a_mark_it_is_the_plain_policy(tiny, gifts):
    backbone = tiny()
    plain, soft = LMPolicy(backbone).log_probs(gifts), SoftPolicy(backbone).log_probs(gifts)
    assert all(np.array_equal(a, b) for a, b in zip(plain, soft, strict=True))
    with soft_tokens.given(backbone, vectors(backbone, 1)):
        inside = SoftPolicy(backbone).log_probs(gifts)
    assert all(np.array_equal(a, b) for a, b in zip(plain, inside, strict=True))


def test_a_small_model_learns_to_answer_from_its_store(tiny, gifts):
    """One prompt, two pasts: the right answer is the other's first move, ten rounds ago, which the
    prompt does not show. All weights are trained."""
    backbone = tiny()
    width = backbone.head.shape[1]
    store, projection = KeyValueStore(width, seed=1), Projection(backbone, seed=1)
    rounds = soft_tokens.embed(backbone, ["Past accept.", "Past refuse.", "Past give."])
    policy = SoftPolicy(backbone)
    contexts = [soft_tokens.place(gifts[0], k) for k in (0, 1)]
    question = soft_tokens.embed(backbone, [gifts[0].prompt]).expand(2, -1)

    def inputs():
        store.clear()
        store.write(rounds[:2])  # the first round differs, the other nine do not
        for _ in range(9):
            store.write(rounds[2].expand(2, -1))
        return projection(store.read(question))

    weights = [p for m in (store, projection, backbone.model) for p in m.parameters()]
    optimiser = torch.optim.Adam(weights, 0.01)
    for _ in range(100):
        with soft_tokens.given(backbone, inputs()):
            first, second = policy.scores(contexts)
        optimiser.zero_grad()
        (-first[0] - second[1]).backward()
        optimiser.step()
    with torch.no_grad(), soft_tokens.given(backbone, inputs()):
        chances = np.exp(policy.log_probs(contexts))
    assert chances[0, 0] > 0.9 and chances[1, 1] > 0.9

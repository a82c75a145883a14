"""Three adapters: sizes, isolation bit for bit, saving one, and the dealing of trajectories."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto import fitting, language, roles, updates
from dipllm_lib.kto.fitting import Item, Objective, Rates, Role
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.lm import adapters
from dipllm_lib.run import profiles

TARGETS = ("q_proj", "v_proj")
RATES = Rates(1e-3, 1e-2, 1e-4)


@pytest.fixture
def three(tiny):
    """A base with three adapters that have moved, so that nothing is zero."""
    backbone = tiny()
    roles.attach(backbone, 2, TARGETS, 0)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in backbone.model.named_parameters():
            if ".lora_" in name:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return backbone


def everything(backbone):
    return {n: p.detach().clone() for n, p in backbone.model.named_parameters()}


def batch(contexts, backbone):
    items = [Item(c, np.array([0, 1]), np.ones(2), np.array([True, False]), "g") for c in contexts]
    return fitting.referred(items, LMPolicy(backbone, BASE))


def test_sizes_of_the_tiny_llama():
    backbone = language.bare(language.Recipe("scratch", "", "float32", 0, 2, TARGETS))
    assert backbone.parameters() == 803_968
    counts = roles.attach(backbone, 2, TARGETS, 0)
    assert counts == dict.fromkeys(roles.NAMES, 3_584)
    for name in roles.NAMES:
        assert roles.share(backbone, name) == pytest.approx(0.00446, abs=1e-5)


@pytest.mark.parametrize("name", roles.NAMES)
def test_ten_steps_on_one_leave_the_rest_bit_for_bit(three, gifts, name):
    role = Role(LMPolicy(three, name), name, 12, RATES, 0)
    before = everything(three)
    outputs = {n: LMPolicy(three, n).log_probs(gifts) for n in ("", *roles.NAMES)}
    for _ in range(10):
        role.step(batch(gifts[:4], three), Objective())
    for key, value in everything(three).items():
        assert torch.equal(value, before[key]) != (f".{name}." in key), key
    for other in ("", *roles.NAMES):
        now = LMPolicy(three, other).log_probs(gifts)
        assert np.array_equal(now, outputs[other]) != (other == name)


def test_roles_that_take_turns_stay_apart(three, gifts):
    """A, B, A steps give A what A, A gives it: no optimiser touches another's weights."""
    given = batch(gifts[:4], three)
    start = {name: roles.state(three, name) for name in roles.NAMES}
    found = []
    for turns in ("executor opponent executor", "executor executor"):
        for weights in start.values():
            roles.put(three, weights)
        own = {n: Role(LMPolicy(three, n), n, 5, RATES, 0) for n in roles.NAMES}
        for name in turns.split():
            own[name].step(given, Objective())
        found.append(roles.state(three, "executor"))
    for key, value in found[0].items():
        assert np.array_equal(value, found[1][key])


def test_one_optimiser_over_all_adapters_fails_the_isolation_test(three, gifts):
    """Gradients zeroed but kept: momentum and decay move the inactive adapter."""
    every = [(n, p) for n, p in three.model.named_parameters() if ".lora_" in n]
    optimiser = torch.optim.AdamW([p for _, p in every], lr=1e-2)
    for name in ("opponent", "executor"):
        adapters.switch(three, name)
        before = roles.state(three, "opponent")
        optimiser.zero_grad(set_to_none=False)
        rows = LMPolicy(three, name).scores(gifts[:2])
        (-rows[0][0]).backward()
        optimiser.step()
    after = roles.state(three, "opponent")
    assert any(not np.array_equal(before[key], after[key]) for key in before)


def test_one_adapter_is_saved_and_loaded_alone(three, tiny, gifts, tmp_path):
    expected = LMPolicy(three, "opponent").log_probs(gifts)
    adapters.save(three, "opponent", tmp_path, "# opponent\n")
    other = tiny()
    roles.attach(other, 2, TARGETS, 9, ["executor"])
    before = LMPolicy(other, "executor").log_probs(gifts)
    adapters.load(other, tmp_path, "opponent")
    assert np.array_equal(LMPolicy(other, "opponent").log_probs(gifts), expected)
    assert np.array_equal(LMPolicy(other, "executor").log_probs(gifts), before)


def test_put_gives_back_what_state_took(three):
    kept = roles.state(three, "executor")
    with torch.no_grad():
        for _, parameter in adapters.trainable(three):
            parameter.add_(1.0)
    roles.put(three, kept)
    for key, value in roles.state(three, "executor").items():
        assert np.array_equal(value, kept[key])
    with pytest.raises(ValueError, match="no weight 'x'"):
        roles.put(three, {"x": np.zeros(1)})


@pytest.mark.parametrize("count", [1, 8, 9, 23])
def test_every_trajectory_is_dealt_once(count):
    dealt = roles.deal(count, 8)
    assert len(dealt) == 8 and sorted(sum(dealt, [])) == list(range(count))
    with pytest.raises(ValueError, match="at least one"):
        roles.deal(3, 0)


def test_shards_add_up_to_the_whole(monkeypatch):
    """One shard or four, and a plain step of the role on all items: the same weights to 1e-6."""
    settings = profiles.load("smoke", 0).kto
    recipe = language.Recipe("scratch", "", "float32", 0, 2, TARGETS)
    given, states, facts = updates.sample(0), [], []
    for shards in (1, 4):
        monkeypatch.setattr(updates, "SHARDS", shards)
        own = updates.trainer(recipe, settings, 0, 1)
        facts.append(own.update(given))
        states.append({name: roles.state(own.backbone, name) for name in roles.NAMES})
    plain = updates.trainer(recipe, settings, 0, 1)
    for name in roles.NAMES:
        items = [i for one in given for i in plain.readers[name](one)]
        alone = plain.roles[name].step(items, roles.OBJECTIVES[name])
        assert alone["loss"] == pytest.approx(facts[0][name]["loss"], abs=1e-6)
        for key, value in roles.state(plain.backbone, name).items():
            for state in states:
                assert np.abs(state[name][key] - value).max() < 1e-5
        assert facts[0][name]["trajectories"] == len(given)
    with pytest.raises(ValueError, match="at least one trajectory"):
        plain.update([])


@pytest.mark.slow
def test_workers_equal_this_process():
    table, _ = updates.check(profiles.load("smoke", 0).kto, 0)
    assert (table["apart"] <= 1e-6).all() and (table["moved"] > 0).all()
    assert (table["trajectories"] == len(updates.sample(0))).all()


@pytest.mark.slow
def test_smollm2_adapters_are_half_a_per_cent():
    targets = ("q_proj", "k_proj", "v_proj", "o_proj")
    recipe = language.Recipe("smollm2", "", "bfloat16", 0, 6, targets)
    backbone = language.bare(recipe)
    assert backbone.parameters() == 134_515_008
    assert roles.attach(backbone, 6, targets, 0, ["executor"]) == {"executor": 691_200}
    assert roles.share(backbone, "executor") == pytest.approx(0.00514, abs=1e-5)

"""Interventions by hand on two states, and the zero rule, one module at a time."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.kto import influence, influence_cases, lm_labels, pool, roles, soft_tokens, wiring
from dipllm_lib.kto.influence import EDGES
from dipllm_lib.kto.policies import Context, TabularPolicy
from dipllm_lib.kto.repeated import IteratedPD, State
from dipllm_lib.kto.wiring import Module, Situation, Wiring
from dipllm_lib.run import seeding

GAME = IteratedPD(20, window=1)
TOLD = ("Partner TFT.", "Partner AllD.")
PLACES = [
    Situation(State(20, ("cooperate", "defect"), history=past), 0, letter)
    for past, letter in ((((0, 0),), "B"), (((0, 1), (1, 1)), "A"))
]


def forecast(state, player):
    return TOLD[state.history[-1][1 - player]]


def read(context, state, player):
    return Context((context.key, "read"), context.prompt, context.legal)


def empty(context, state, player):
    return Context((context.key, "empty"), context.prompt, context.legal)


def asked(state, player):
    return Context(("asked", state.history), "", ("a", "b"))


class Drawn:
    """A policy whose logits are drawn by the key of the context: every input matters."""

    def __init__(self, name):
        self.name = name

    def log_probs(self, contexts):
        rngs = [seeding.child(0, self.name, str(context.key)) for context in contexts]
        rows = [rng.normal(size=len(c.legal)) for rng, c in zip(rngs, contexts, strict=True)]
        return TabularPolicy({c.key: r for c, r in zip(contexts, rows, strict=True)}).log_probs(
            contexts
        )


FULL = Wiring(
    GAME,
    Drawn("executor"),
    Drawn("base"),
    forecast,
    TOLD,
    read,
    empty,
    cache=True,
    swaps=influence_cases.swapped,
    modeller=Module(Drawn("modeller"), Drawn("base"), asked),
    coordinator=Module(Drawn("coordinator"), Drawn("base"), asked),
)


def test_everything_connected_has_an_effect():
    found = influence.effects(FULL, PLACES)
    assert set(found.rows) == set(EDGES) and all(found.connected.values())
    for name in set(EDGES) - {"cache"}:
        assert found.rows[name].max() > 0, name
    assert found.rows["setting"][1] == 0.0  # A already
    assert found.rows["cache"].tolist() == [0.0, 0.0]


OFF = influence_cases.EDGES_OF


@pytest.mark.parametrize("module", OFF)
def test_zero_rule(module):
    """Exactly 0.0, not small, for what is disconnected; the others keep theirs."""
    cut = wiring.without(FULL, module)
    edges, found = influence.measure(cut, PLACES, 0, 50)
    for edge in edges:
        if edge.name in OFF[module]:
            assert (edge.value, edge.low, edge.high) == (0.0, 0.0, 0.0)
            assert not edge.connected and not found.rows[edge.name].any()
        elif edge.name != "cache":
            assert edge.value > 0 and edge.connected, edge.name
    if module == "setting":
        assert not any(values.any() for values in found.drift.values())
    with pytest.raises(ValueError, match="no module 'heart'"):
        wiring.without(FULL, "heart")


def test_divergence_by_hand():
    own, other = np.log([0.8, 0.2]), np.log([0.5, 0.5])
    assert influence.divergence(own, other) == pytest.approx(
        0.8 * math.log(1.6) + 0.2 * math.log(0.4)
    )
    assert influence.divergence(own, own.copy()) == 0.0
    with np.errstate(divide="ignore"):
        assert influence.divergence(np.log([1.0, 0.0]), other) == pytest.approx(math.log(2))
    assert np.exp(influence.mixture([own, other])) == pytest.approx([0.65, 0.35])
    assert influence.mixture([own, own.copy()]) is own


def rows(table):
    """A policy of P(cooperate) by (letter, forecast) at any history."""

    class Told:
        def log_probs(self, contexts):
            found = [table[context.key[1], context.key[2]] for context in contexts]
            return [np.log([p, 1 - p]) for p in found]

    return Told()


def test_effects_by_hand():
    """P(C) is .8 told TFT and .2 told AllD under A; B makes both .5, C .9; others as A."""
    base = {TOLD[0]: 0.8, TOLD[1]: 0.2}
    table = {(letter, told): p for letter in "ADEF" for told, p in base.items()}
    table |= {("B", told): 0.5 for told in TOLD} | {("C", told): 0.9 for told in TOLD}
    flat = {key: 0.5 for key in table}
    own = Wiring(GAME, rows(table), rows(flat), forecast, TOLD, swaps=influence_cases.swapped)
    at = [replace(place, setting="A") for place in PLACES]
    found = influence.effects(own, at).rows
    apart = 0.8 * math.log(1.6) + 0.2 * math.log(0.4)
    assert found["adapter"] == pytest.approx([apart, apart])
    assert found["forecast"] == pytest.approx([apart, apart])  # the pool mean is one half
    swap = 0.8 * math.log(4) + 0.2 * math.log(0.25)
    assert found["social total"] == pytest.approx([swap, swap])
    assert found["social direct"].tolist() == [0.0, 0.0]  # heard through the forecast only
    first = (0.65 * math.log(1.6) + 0.35 * math.log(2.5)) / 0.95
    second = (0.85 * math.log(9 / 8) + 0.15 * math.log(2)) / 1.25
    assert found["lambda"][0] == pytest.approx((first + second) / 2)
    assert found["alpha"].tolist() == found["rho"].tolist() == [0.0, 0.0]
    drift = influence.effects(own, at).drift["lambda"][0]  # the mean action is P(defect)
    assert drift == pytest.approx((0.3 / 0.95 + -0.1 / -1.25) / 2)
    with pytest.raises(ValueError, match="at least one decision state"):
        influence.effects(own, [])


def test_changes_of_the_settings():
    found = [influence.changed(letter, -0.5) for letter in "BCDEF"]
    assert found == pytest.approx([0.95, -1.25, 0.12, -0.04, -0.5])


def test_an_interval_of_two_states():
    edges, found = influence.measure(FULL, PLACES, 0, 400)
    one = next(edge for edge in edges if edge.name == "adapter")
    low, high = sorted(found.rows["adapter"])
    assert (one.low, one.high, one.n, one.unit) == (low, high, 2, "nats")
    assert one.value == pytest.approx((low + high) / 2)
    assert influence.measure(FULL, PLACES, 0, 400)[0] == edges


@pytest.fixture
def moved(tiny):
    """A scratch backbone with three role adapters that are not zero."""
    backbone = tiny()
    roles.attach(backbone, 2, ("q_proj", "v_proj"), 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in backbone.model.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return backbone


def test_language_model_edges_and_zero_rule(moved):
    given = influence_cases.histories(4, 10, 0)
    full = influence_cases.language(moved, 10, given)
    edges, _ = influence.measure(full, given, 0, 50)
    by = {edge.name: edge for edge in edges}
    assert by["cache"].value == by["memory"].value == 0.0 and not by["memory"].connected
    for name in ("adapter", "forecast", "modeller", "coordinator", "lambda", "social total"):
        assert by[name].value > 0, name
    for module, names in OFF.items():
        edges, _ = influence.measure(wiring.without(full, module), given, 0, 20)
        assert all(edge.value == 0.0 for edge in edges if edge.name in names), module
    table = influence_cases.disconnected(full, given)
    assert sorted(table["edge"]) == sorted(EDGES) and (table["unwired"] == 0.0).all()
    same = [by[row.edge].value for row in table.itertuples()]
    assert table["wired"].tolist() == pytest.approx(same, abs=1e-9)


def test_a_language_model_with_a_store(moved):
    """The store enters as a soft token; emptied, the token is not there."""
    given = influence_cases.histories(2, 10, 0)
    vectors = torch.randn(2, moved.head.shape[1], generator=torch.Generator().manual_seed(3))

    def remember(context, state, player):
        return soft_tokens.place(context, len(state.history) % 2)

    game = pool.catalogue(10)["repeated"]
    own = Wiring(game, soft_tokens.SoftPolicy(moved, roles.EXECUTOR), memory=remember)
    with soft_tokens.given(moved, vectors):
        found = influence.effects(own, given)
        cut = influence.effects(wiring.without(own, "memory"), given)
    assert found.rows["memory"].min() > 0 and not cut.rows["memory"].any()


def test_settings_move_bargainers_and_not_proposers():
    """K16, with exact gradients and few rounds: own loss aversion lowers what is kept."""
    found = {
        game: {row["parameter"]: row for row in influence_cases.run((game, 20, 0, 0))}
        for game in influence_cases.CASES
    }
    assert found["ultimatum"]["lambda"]["edge"] < 0.1 < found["bargaining"]["lambda"]["edge"]
    assert found["bargaining"]["lambda"]["drift"] < -0.01
    assert all(row["chance"] == 0.0 for game in found.values() for row in game.values())
    table = influence_cases.parameters(
        [row for game in found.values() for row in game.values()], 0, 20
    )
    assert table["game"].tolist() == ["ultimatum"] * 4 + ["bargaining"] * 4
    assert (table["edge_low"] == table["edge_high"]).all()  # one seed


def test_a_forecast_of_many_states_is_that_of_each(moved):
    given = influence_cases.histories(3, 6, 1)
    full = influence_cases.language(moved, 10, given)
    for at in given:
        row = full.modeller.policy.log_probs([full.modeller.context(at.state, at.player)])[0]
        name = pool.PARTNERS[int(np.argmax(row))]
        assert full.forecast(at.state, at.player) == lm_labels.partner(name)
    with pytest.raises(KeyError):
        full.forecast(State(3, ("cooperate", "defect")), 0)


def test_the_fullest_state_is_the_first_with_most_rounds_in_view():
    names = ("cooperate", "defect")
    given = [Situation(State(40, names, history=((0, 1),) * n), 0) for n in (3, 9, 30, 8)]
    assert influence_cases.fullest(given) == 1  # of eight in view, the first
    assert influence_cases.fullest(given[:1]) == 0
    assert influence_cases.fullest(given, window=20) == 2

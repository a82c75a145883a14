"""The arms of Table 2: free texts read by hand, counts, retries, and what is no arm of its own."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from dipllm_lib.dip import (
    anchor,
    boards,
    finetune,
    game,
    generate,
    orders,
    policies,
    rules,
    samples,
    states,
    text,
    variants,
)
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.dip.independent import IndependentUnits
from dipllm_lib.dip.variants import FreeText, RandomCandidate, read
from dipllm_lib.lm import adapters, backbones, scoring
from dipllm_lib.run import profiles

SETTINGS = profiles.load("smoke", 0).dip


@pytest.fixture(scope="module")
def backbone():
    torch.set_num_threads(1)
    return backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)


@pytest.fixture(scope="module")
def soft():
    return policies.SoftDumbBot(0.2, 0.05)


@pytest.fixture(scope="module")
def turns():
    """Turns of all kinds of phases from random play."""
    played = generate.played(400, np.random.default_rng(5), orders=generate.coherent)
    every = [turn for b, _ in played for i in range(0, b.n, 7) for turn in orders.turns(b, i)]
    return {kind: [t for t in every if t.phase[-1] == kind] for kind in "MRA"}


def generators(n):
    return [np.random.default_rng([9, i]) for i in range(n)]


GERMANY = orders.turn(boards.start(), 0, 3)


@pytest.mark.parametrize(
    "said, wanted, kept, whole",
    [
        (" A Ber Kie ; A Mun H ; F Kie Den\n", "A BER - KIE, A MUN H, F KIE - DEN", 3, True),
        (" F Kie Den ; A Ber Kie\n", "A BER - KIE, A MUN H, F KIE - DEN", 2, False),
        (" A Ber Kie ; A Mun Par ; F Kie Den\n", "A BER - KIE, A MUN H, F KIE - DEN", 2, False),
        (" A Mun Ruh ; A Mun Bur ; F Kie", "A BER H, A MUN - RUH, F KIE H", 1, False),
        ("\n", "A BER H, A MUN H, F KIE H", 0, False),
        (" you Ita ; ;", "A BER H, A MUN H, F KIE H", 0, False),
    ],
)
def test_movement_text_by_hand(said, wanted, kept, whole):
    """The first legal order of a unit counts wherever it stands; the others hold."""
    joint, count, valid = read(GERMANY, said)
    assert [orders.to_text(o) for o in joint] == wanted.split(", ")
    assert (count, valid) == (kept, whole)


def winter(units, centres):
    """The turn of Germany in winter 1901 with these units and centres."""
    state = states.to_state(rules.start()) | {"name": "W1901A"}
    state["units"]["GERMANY"], state["centers"]["GERMANY"] = units, centres
    return orders.turn(states.from_state(state), 0, 3)


@pytest.mark.parametrize(
    "said, wanted, kept, whole",
    [
        (" B A Ber ; B F Kie\n", "A BER B, F KIE B", 2, True),
        (" B F Kie ; B A Ber\n", "A BER B, F KIE B", 2, False),
        (" B A Ber ; B F Ber\n", "A BER B, WAIVE", 1, False),
        (" W ; W\n", "WAIVE, WAIVE", 2, True),
        (" B F Kie\n", "F KIE B, WAIVE", 1, False),
        (" B F Kie ; B A Ber ; B A Mun\n", "A BER B, F KIE B", 2, False),
        (" A Ber H\n", "WAIVE, WAIVE", 0, False),
    ],
)
def test_build_text_by_hand(said, wanted, kept, whole):
    turn = winter(["A RUH", "A DEN", "F HOL"], ["BER", "MUN", "KIE", "DEN", "HOL"])
    assert turn.slots == 2
    joint, count, valid = read(turn, said)
    turn.check(joint)
    assert ", ".join("WAIVE" if o == v.WAIVE_ID else orders.to_text(o) for o in joint) == wanted
    assert (count, valid) == (kept, whole)


def test_missing_removals_are_those_of_civil_disorder():
    """The fleet in the Barents Sea is farthest from home, then the army in Livonia."""
    turn = winter(["A BER", "A LVN", "F BAR"], ["BER"])
    for said, wanted, kept in (
        (" A Ber D ; A Lvn D\n", ["A BER", "A LVN"], 2),
        (" A Ber D\n", ["A BER", "F BAR"], 1),
        ("\n", ["A LVN", "F BAR"], 0),
    ):
        joint, count, _ = read(turn, said)
        turn.check(joint)
        assert [orders.to_text(o)[:5] for o in joint] == wanted and count == kept


def test_retreats_without_text_disband(turns):
    turn = turns["R"][0]
    joint, kept, _ = read(turn, "\n")
    turn.check(joint)
    assert kept == 0 and all(v.VOCABULARY[o, v.KIND] == boards.DISBAND for o in joint)


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_every_legal_text_is_read_as_it_is(turns, kind):
    for turn in turns[kind][:20]:
        for joint in policies.RandomLegal().sample(turn, 3, np.random.default_rng(1)):
            assert read(turn, text.joint_text(joint)) == (joint, turn.slots, True)


@pytest.mark.parametrize("kind", ["M", "R", "A"])
@pytest.mark.parametrize("tries", [1, 3])
def test_free_texts_do_not_depend_on_the_other_turns(backbone, turns, soft, kind, tries):
    some = turns[kind][:9]
    player = FreeText(backbone, 1.0, tries=tries, first=RandomCandidate(soft, 1))
    found, rows = player.act(some, generators(9)), player.take()
    for turn, joint in zip(some, found, strict=True):
        turn.check(joint)
    assert player.said == [] and len(rows) == 9
    assert player.act(some[3:5], generators(5)[3:]) == found[3:5]
    assert player.take() == rows[3:5]
    assert player.act([], []) == [] and player.take() == []


def test_retries_by_hand(backbone, soft, monkeypatch):
    """Two turns: one is legal the second time, the other never is and plays the first candidate;
    without one its last text is filled up.
    """
    texts = iter([
        [" A Ber Kie\n", " A Ber Kie\n"],
        [" A Ber Kie ; A Mun H ; F Kie Den\n", " A Mun Bur\n"],
        [" F Kie Hol ; A Mun Bur\n"],
    ] * 2)  # fmt: skip
    monkeypatch.setattr(
        scoring, "sample_text", lambda *_: [backbone.encode(t) for t in next(texts)]
    )
    own = [GERMANY, orders.turn(boards.start(), 0, 3)]
    first = RandomCandidate(soft, 1)
    player = FreeText(backbone, 1.0, tries=3, first=first)
    found = player.act(own, generators(2))
    assert [orders.to_text(o) for o in found[0]] == ["A BER - KIE", "A MUN H", "F KIE - DEN"]
    assert found[1:] == first.act(own[1:], generators(1))
    table = variants.texts_table(player.take())
    wanted = pd.DataFrame(
        [[2, 2.5, 0.5, 6, 0.5, 0.5]],
        columns=["turns", "texts", "valid", "orders", "kept", "fallback"],
        index=pd.Index(["movement"], name="phase"),
    )
    pd.testing.assert_frame_equal(table, wanted, check_dtype=False)
    player = FreeText(backbone, 1.0, tries=3)
    found = player.act(own, generators(2))
    assert [orders.to_text(o) for o in found[1]] == ["A BER H", "A MUN - BUR", "F KIE - HOL"]
    assert [row["kept"] for row in player.take()] == [3, 2]


def test_first_candidate_is_the_likeliest(turns, soft):
    turn = turns["M"][3]
    (joint,) = RandomCandidate(soft, 1).act([turn], generators(1))
    for slot, order in enumerate(joint):
        shares = soft.conditional(turn, joint[:slot])
        assert order == turn.options(joint[:slot])[np.argmax(shares)]


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_random_candidates_are_uniform_among_the_likeliest(turns, soft, kind):
    some, player = turns[kind][:6], RandomCandidate(soft, 3)
    drawn = [player.act(some, [np.random.default_rng([s, k]) for k in range(6)]) for s in range(90)]
    for k, turn in enumerate(some):
        left = player.narrowing.turns([turn], None)[0].options().tolist()
        counts = [sum(joints[k][0] == order for joints in drawn) for order in left]
        assert sum(counts) == 90 and max(abs(c - 90 / len(left)) for c in counts) < 23
    assert player.act(some[2:3], generators(3)[2:]) == player.act(some, generators(6))[2:3]


def test_a_masked_one_shot_text_is_unit_by_unit(backbone, turns):
    """All joint orders as texts of one slot, against the agent that chooses order by order."""

    class Whole:
        def __init__(self, turn, joints):
            self.texts = [tuple(backbone.encode(text.joint_text(joint))) for joint in joints]

        def options(self, chosen):
            return [] if chosen else self.texts

    for turn in [t for t in turns["M"] if t.slots == 2][:2] + [t for t in turns["A"]][:2]:
        joints = sorted(set(policies.RandomLegal().sample(turn, 9000, np.random.default_rng(0))))
        sizes = np.prod([len(ids) for ids in turn.lists]) if not turn.adjusts else len(joints)
        assert len(joints) == sizes
        prompt = backbone.encode(text.prompt(turn))
        picks = [[(k,) for k in range(len(joints))]]
        (found,) = scoring.log_prob(backbone, [prompt], [Whole(turn, joints)], picks, 0.5)
        assert np.allclose(found, LMAgent(backbone, 0.5).log_prob(turn, joints), atol=1e-5)


def test_players_of_all_arms_play(backbone):
    tau, made = anchor.human(), {}
    for arm in variants.ARMS:
        made[arm] = variants.player(arm, backbone, SETTINGS, tau)
        assert made[arm].name == arm
        own = orders.turns(boards.start())
        for turn, joint in zip(own, made[arm].act(own, generators(7)), strict=True):
            turn.check(joint)
    kinds = [type(made[arm]) for arm in variants.ARMS]
    assert kinds == [FreeText, FreeText, IndependentUnits, LMAgent, LMAgent, RandomCandidate]
    assert made[variants.RETRIES].tries == 10 and made[variants.ONE_SHOT].tries == 1
    assert made[variants.CANDIDATES].narrowing.limit == 6
    seats = [made[arm] for arm in variants.ARMS] + [made[variants.ONE_SHOT]]
    (played,) = game.play([seats], 0, [("arms", 0)], game.EndRules(1901))
    assert played.end == "last_year"


def test_unknown_arms_and_settings_are_one_line(backbone, soft):
    with pytest.raises(ValueError, match="unknown arm 'two-shot': use one of one-shot; "):
        variants.player("two-shot", backbone, SETTINGS, soft)
    only = replace(SETTINGS, agent_phases="movement")
    with pytest.raises(ValueError, match="'one-shot' plays all phases and has no top-p"):
        variants.player(variants.ONE_SHOT, backbone, only, soft)
    with pytest.raises(ValueError, match="at least once, got 0 tries"):
        FreeText(backbone, 1.0, tries=0)


def test_adapters_are_switched(turns):
    """With the adapter off the free text is that of the base model."""
    base = backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)
    turn = turns["M"][0]
    before = FreeText(base, 1.0)._texts([turn], generators(1))
    adapters.attach(base, "own", 2)
    with torch.no_grad():
        for _, p in adapters.trainable(base):
            p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0)))
    said = [FreeText(base, 1.0, adapter=name)._texts([turn], generators(1)) for name in ("own", "")]
    assert said[0] != before and said[1] == before


def test_fits_differ_in_what_they_learn(turns, monkeypatch):
    """One-shot: one joint order with unit weight, all its tokens; independent: single units."""
    turn = turns["M"][0]
    joints = sorted(set(policies.RandomLegal().sample(turn, 4, np.random.default_rng(0))))
    row = {
        "game": "g", "phase": turn.phase, "power": turn.name,
        "state": states.to_state(turn.boards),
        "joints": [[orders.to_text(int(o)) for o in joint] for joint in joints],
        "target": [0.2, 0.5, 0.3],
    }  # fmt: skip
    row["joints"] = row["joints"][:3]
    tiny = replace(SETTINGS, scratch_hidden=16, scratch_layers=1, scratch_heads=2)
    seen = []

    def train(backbone, name, own, heldout, settings, seed, checkpoint):
        wanted = finetune.FinetuneSettings.of(settings)
        seen.append((own, wanted))
        return pd.DataFrame()

    monkeypatch.setattr(finetune, "train", train)
    for arm in (variants.ONE_SHOT, variants.INDEPENDENT, variants.LEGAL):
        variants.fit(arm, [row], [row], tiny, 0)
    (one, how), (units, _), (whole, asis) = seen
    assert (how.objective, how.softmax, how.joint_orders) == ("bc_argmax", "tokens", 1)
    assert one[0].kept == (1,) and len(one) == len(whole) == 1 and len(units) == turn.slots
    assert asis.objective == tiny.finetune_objective
    assert samples.row_turn(row).slots == turn.slots

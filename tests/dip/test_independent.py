"""Independent units: products of marginals, sets of builds and removals, single-unit samples."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.dip import (
    boards,
    decompose,
    finetune,
    generate,
    hedge,
    independent,
    objectives,
    orders,
    samples,
    states,
    text,
)
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.dip.independent import IndependentUnits
from dipllm_lib.lm import backbones
from dipllm_lib.run import profiles

SETTINGS = replace(
    profiles.load("smoke", 0).dip,
    scratch_hidden=16,
    scratch_layers=1,
    scratch_heads=2,
    finetune_epochs=1,
    finetune_joint_orders=3,
    finetune_lr=1e-2,
)


@pytest.fixture(scope="module")
def backbone():
    torch.set_num_threads(1)
    return backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)


@pytest.fixture(scope="module")
def turns():
    """Turns of all kinds of phases from random play."""
    played = generate.played(400, np.random.default_rng(5), orders=generate.coherent)
    every = [turn for b, _ in played for i in range(0, b.n, 7) for turn in orders.turns(b, i)]
    return {kind: [t for t in every if t.phase[-1] == kind] for kind in "MRA"}


def generators(n):
    return [np.random.default_rng([9, i]) for i in range(n)]


def every_joint(turn, prefix=()):
    if len(prefix) == turn.slots:
        return [prefix]
    options = turn.options(prefix).tolist()
    return list(itertools.chain(*(every_joint(turn, (*prefix, o)) for o in options)))


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_acts_are_legal_and_do_not_depend_on_the_other_turns(backbone, turns, kind):
    policy, some = IndependentUnits(backbone, 0.5), turns[kind][:25]
    found = policy.act(some, generators(len(some)))
    for turn, joint in zip(some, found, strict=True):
        turn.check(joint)
    assert policy.act(some[3:5], generators(5)[3:]) == found[3:5]
    assert policy.act([], []) == []


def test_a_unit_is_asked_as_if_named_first(backbone, turns):
    """The first unit has the marginal of `LMAgent`, also where its text could go on (via); a unit
    that is named later has that of a turn in which it comes first.
    """
    agent, policy = LMAgent(backbone, 0.7), IndependentUnits(backbone, 0.7)
    two = [turn for turn in turns["M"] if turn.slots == 2]
    via = [turn for turn in two if v.VOCABULARY[turn.lists[0], v.VIA].any()]
    for turn in two[:2] + via[:2]:
        back = replace(turn, units=turn.units[::-1], lists=turn.lists[::-1])
        (tables,) = policy.marginals([turn])
        for spoken, logs in ((turn, tables[0]), (back, tables[1])):
            for order, log in zip(spoken.lists[0].tolist(), logs, strict=True):
                rest = [(order, int(other)) for other in spoken.lists[1]]
                whole = hedge.log_sum_exp(agent.log_prob(spoken, rest))
                assert log == pytest.approx(whole, abs=1e-5)
    assert len(via) >= 2


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_probabilities_sum_to_one(backbone, turns, kind):
    """Also where several builds or removals are due."""
    few = [t for t in turns[kind] if t.slots <= 3 and 1 < len(every_joint(t)) <= 500]
    some = sorted(few, key=lambda t: -t.slots)[:3]
    if kind == "A":
        large = next(t for t in turns["A"] if t.adjusts < 0 and len(t.lists[0]) > 4)
        some.append(replace(large, slots=3, units=("",) * 3, adjusts=-3))
    for turn in some:
        for policy in (IndependentUnits(backbone, 1.0), IndependentUnits(backbone, 0.1)):
            total = np.exp(policy.log_prob(turn, every_joint(turn))).sum()
            assert total == pytest.approx(1, abs=1e-5)


def test_a_set_by_hand():
    """q = .5, .3, .2 for the removals of three units, two are due: {1, 2} comes as 1, 2 with
    .5 * .3/.5 = .3 and as 2, 1 with .3 * .5/.7 = 3/14.
    """
    ids = np.array([int(v.find(v.A, p, boards.DISBAND)) for p in _armies()[:3]], np.int32)
    logs = np.log([0.5, 0.3, 0.2])
    found = [
        np.exp(independent._set_log_prob((int(ids[a]), int(ids[b])), ids, logs))
        for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    wanted = [0.3 + 3 / 14, 0.5 * 0.4 + 0.2 * 5 / 8, 0.3 * 2 / 7 + 0.2 * 3 / 8]
    assert found == pytest.approx(wanted) and sum(wanted) == pytest.approx(1)


def _armies():
    return [p for _, p in sorted({(u, p) for u, p in v.VOCABULARY[:, :2].tolist() if u == v.A})]


def test_draws_follow_the_probabilities(backbone, turns):
    turn = next(t for t in turns["A"] if t.slots == 2 and 4 <= len(every_joint(t)) <= 12)
    policy, joints = IndependentUnits(backbone, 1.0), every_joint(turn)
    drawn = policy.sample(turn, 2000, np.random.default_rng(0))
    shares = np.array([drawn.count(joint) for joint in joints]) / 2000
    assert shares.sum() == 1
    assert np.abs(shares - np.exp(policy.log_prob(turn, joints))).max() < 0.05


def make_rows(turns, seed=4):
    """Rows as in 02_samples.jsonl, with random targets."""
    rows, rng = [], np.random.default_rng(seed)
    for n, turn in enumerate(turns):
        joints = every_joint(turn) if turn.slots == 1 else []
        while len(joints) < 5 and turn.slots > 1:
            joint: orders.Joint = ()
            while len(joint) < turn.slots:
                joint += (int(rng.choice(turn.options(joint))),)
            joints.append(joint)
        joints = sorted(set(joints))[:6]
        f = rng.normal(size=len(joints))
        rows.append({
            "game": f"g{n % 3}",
            "phase": turn.phase,
            "power": turn.name,
            "state": states.to_state(turn.boards),
            "joints": [[orders.to_text(int(o)) for o in joint] for joint in joints],
            "target": hedge.softmax(f).tolist(),
            "f": f.tolist(),
            "log_tau": np.log(rng.dirichlet(np.ones(len(joints)))).tolist(),
        })
    return rows


@pytest.fixture(scope="module")
def rows(turns):
    return make_rows(turns["M"][:6] + turns["R"][:3] + turns["A"][:6])


def test_samples_hold_the_marginals(backbone, rows):
    """Their product is `decompose.independent`; anchor and exponents are marginals too."""
    for row in rows:
        turn, joints = samples.row_turn(row), samples.row_joints(row)
        own = independent.samples([row], backbone, SETTINGS)
        assert len(own) == (1 if turn.adjusts else turn.slots)
        for one in own:
            assert one.target.sum() == pytest.approx(1)
            assert np.allclose(hedge.softmax(one.f), one.target)
            assert np.exp(one.log_tau).sum() == pytest.approx(turn.slots if turn.adjusts else 1)
            assert one.position == (row["game"], row["phase"]) and len(one.kept) <= 3
        if not turn.adjusts:
            product = np.ones(len(joints))
            for d, one in enumerate(own):
                found = sorted({joint[d] for joint in joints})
                product *= [one.target[found.index(joint[d])] for joint in joints]
            wanted = decompose.independent(joints, np.array(row["f"]))
            assert np.allclose(product, wanted)


def test_a_build_is_a_share_of_all_orders(backbone, turns):
    """Two builds, {x, y} with 3/4 and {x, waive} with 1/4: x 1/2, y 3/8, waive 1/8."""
    turn = next(t for t in turns["A"] if t.adjusts > 1 and t.slots == 2)
    first = int(turn.options()[0])
    second = int(turn.options((first,))[0])
    joints = [(first, second), (first, v.WAIVE_ID)]
    row = make_rows([turn])[0] | {"target": [0.75, 0.25], "f": np.log([3.0, 1.0]).tolist()}
    row |= {"log_tau": [0.0, 0.0]}
    row["joints"] = [["WAIVE" if o == v.WAIVE_ID else orders.to_text(o) for o in j] for j in joints]
    (one,) = independent.samples([row], backbone, SETTINGS)
    assert one.target == pytest.approx([
        dict(zip((first, second, v.WAIVE_ID), (0.5, 0.375, 0.125)))[o]
        for o in sorted((first, second, v.WAIVE_ID))
    ])


def test_divergence_is_that_of_the_units_and_their_correlation(backbone, rows):
    """KL(pi* || product of q) = sum over units of KL + what a product cannot keep."""
    table = independent.evaluate(backbone, rows)
    assert table["kl"].to_numpy() == pytest.approx(
        samples.policy_kl(rows, IndependentUnits(backbone, 1.0)), abs=1e-6
    )
    for row, found in zip(rows, table.to_dict("records"), strict=True):
        if row["phase"].endswith("A"):
            continue
        own = independent.samples([row], backbone, SETTINGS)
        units = finetune.evaluate(backbone, own)["kl"].sum()
        joints, f = samples.row_joints(row), np.array(row["f"])
        lost = hedge.kl(hedge.softmax(f), decompose.independent(joints, f))
        assert found["kl"] == pytest.approx(units + lost, abs=1e-4)


def test_training_lowers_the_divergence(rows):
    fitted = independent.fit(rows, rows, replace(SETTINGS, finetune_epochs=6), 0)
    assert fitted.after["kl"].mean() < fitted.before["kl"].mean() - 0.2
    assert list(fitted.after) == ["game", "phase", "power", "kl", "covered"]
    positions = {(row["game"], row["phase"]) for row in rows}
    steps = finetune.batches(list(positions), 6, SETTINGS.finetune_batch, 0)
    assert len(fitted.history) == 1 + len(steps)  # as many as with whole power-turns


def test_objectives_read_the_samples(backbone, rows):
    own = independent.samples(rows, backbone, SETTINGS)
    wanted = finetune.FinetuneSettings.of(replace(SETTINGS, finetune_objective="bc_argmax"))
    assert all(len(one.kept) == 1 for one in objectives.weigh(own, wanted))
    with pytest.raises(ValueError, match="raise finetune_max_length"):
        independent.samples(rows, backbone, replace(SETTINGS, finetune_max_length=20))

"""The neural anchor: probabilities sum to one, two roads agree, a batch changes nothing."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from dipllm_lib.dip import (
    anchor,
    anchor_net,
    atlas,
    boards,
    encoder,
    game,
    layout,
    orders,
    relations,
)
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.human import Examples
from dipllm_lib.dip.policies import RandomLegal
from dipllm_lib.run import seeding

SHAPE = anchor_net.Shape(anchor_width=16, anchor_layers=2, anchor_heads=2, anchor_hidden=16)
FRANCE, RUSSIA, TURKEY = (atlas.power(name) for name in ("FRANCE", "RUSSIA", "TURKEY"))


@pytest.fixture(scope="module")
def net():
    """Random weights, none of them zero: a net that was never trained ignores no part."""
    found = anchor_net.Net(SHAPE, seed=3).eval()
    with torch.no_grad(), seeding.torch_seed(3, "test"):
        for weight in found.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return found


@pytest.fixture(scope="module")
def tau(net):
    return net.export("tau")


def place(b, power, texts, dislodged=False):
    for text in texts:
        unit, at = boards.parse_unit(text)
        p = atlas.PROV_OF[at]
        fields = (b.d_unit, b.d_power, b.d_loc) if dislodged else (b.unit, b.power, b.loc)
        for field, value in zip(fields, (unit, power, at)):
            field[0, p] = value


def position(phase, units, centres=(), dislodged=()):
    """N = 1: {power: texts} of units, dislodged units and centres."""
    b = boards.empty(1)
    b.year[0], b.phase[0] = boards.parse_phase(phase)
    for power, texts in dict(units).items():
        place(b, power, texts)
    for power, texts in dict(dislodged).items():
        place(b, power, texts, dislodged=True)
    for power, codes in dict(centres).items():
        b.owner[0, [atlas.location(code) for code in codes]] = power
    return b


MOVES = position("F1902M", {FRANCE: ["A PAR", "A BUR"], RUSSIA: ["A MUN"]}, {FRANCE: ["PAR"]})
RETREATS = position("S1903R", {RUSSIA: ["A PAR", "F MAO"]}, dislodged={FRANCE: ["A PAR", "F BRE"]})
BUILDS = position(
    "W1904A", {RUSSIA: ["A WAR"]}, {RUSSIA: ["WAR", "MOS", "STP", "SEV", "RUM"]}
)  # 4 builds due, 3 free home centres, STP with two coasts
REMOVALS = position(
    "W1904A", {TURKEY: ["A CON", "F BLA", "A BUL", "F AEG"]}, {TURKEY: ["CON", "ANK"]}
)


def every(turn, prefix=()):
    """All legal joint orders of a turn."""
    if len(prefix) == turn.slots:
        return [prefix]
    return [
        joint for order in turn.options(prefix).tolist() for joint in every(turn, (*prefix, order))
    ]


@pytest.mark.parametrize(
    "b, power, count",
    [
        (MOVES, FRANCE, 13 * 11),
        (RETREATS, FRANCE, 12),
        (BUILDS, RUSSIA, None),
        (REMOVALS, TURKEY, 6),
    ],
)
def test_probabilities_sum_to_one(tau, b, power, count):
    turn = orders.turn(b, 0, power)
    joints = every(turn)
    if count is not None and b is REMOVALS:
        assert len(joints) == count  # two of four units
    found = tau.log_prob(turn, joints)
    assert np.isfinite(found).all()
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-9)
    assert np.ptp(found) > 0.1  # far from uniform


def test_a_joint_order_is_the_product_of_its_steps(tau):
    """p(second | first) from sums of joint probabilities, and the first step from a cut turn."""
    turn = orders.turn(MOVES, 0, FRANCE)
    joints = every(turn)
    p = dict(zip(joints, np.exp(tau.log_prob(turn, joints))))
    for first in turn.lists[0].tolist():
        of_first = {joint: x for joint, x in p.items() if joint[0] == first}
        marginal = sum(of_first.values())
        shares = np.array([x / marginal for x in of_first.values()])
        assert shares.sum() == pytest.approx(1)
        joint = max(of_first, key=of_first.get)
        assert np.log(marginal) + np.log(shares.max()) == pytest.approx(
            tau.log_prob(turn, [joint])[0], abs=1e-9
        )


def slot_scores(net, b, turn, joint, d):
    """The formula of `decoder`, spelled out with torch for one slot of a movement turn."""
    local, whole = (torch.from_numpy(x.astype(np.int64)) for x in encoder.features(b))
    h = net.encoder(local, whole)[0]
    own = [at for at, p in zip(b.loc[0], b.power[0]) if p == turn.power]
    held = np.flatnonzero(b.owner[0] == turn.power).tolist()
    centres = h[held].mean(0) if held else torch.zeros(h.shape[1])
    context = net.context(torch.cat([h[own].mean(0), centres, h.mean(0)]))

    def query(slot):
        return (
            context + net.who.weight[turn.power] + net.unit(h[v.VOCABULARY[turn.lists[slot][0], 1]])
        )

    def static(order, bits):
        total = sum(net.relation[j] for j in range(relations.BITS) if bits >> j & 1)
        for named in (relations.FACTS.first[order], relations.FACTS.second[order]):
            if named >= 0:
                total = total + net.project[named // 81] @ h[named % 81]
        return total

    lay = layout.of_positions(b).take(layout.of_positions(b).power == turn.power)
    steps = relations.steps(b, lay, np.array(joint, np.int32))
    still = sum(1 << j for j in range(relations.BITS) if j not in relations.DYNAMIC)
    q = query(d) + net.left.weight[0]
    for e in range(d):
        k = steps.first[e] + steps.label[e]
        q = q + torch.relu(static(joint[e], steps.bits[k] & still) + query(e)) @ net.memory
    rows = range(steps.first[d], steps.first[d + 1])
    return torch.stack([
        torch.relu(static(steps.order[k], steps.bits[k]) + q) @ net.score for k in rows
    ])


def test_scores_follow_the_formula(net, tau):
    b = boards.start()
    turn = orders.turn(b, 0, FRANCE)
    joint = orders.parse_joint(turn, ["A MAR S A PAR - BUR", "A PAR - BUR", "F BRE - MAO"])
    total = 0.0
    with torch.no_grad():
        for d in range(3):
            scores = slot_scores(net, b, turn, joint, d).double()
            total += torch.log_softmax(scores, 0)[turn.lists[d].tolist().index(joint[d])].item()
    assert tau.log_prob(turn, [joint])[0] == pytest.approx(total, abs=1e-4)


def test_features_by_hand():
    b = position(
        "F1903R", {RUSSIA: ["F SPA/SC"]}, {FRANCE: ["SPA", "PAR"], RUSSIA: ["MOS"]},
        {FRANCE: ["F SPA/NC", "A GAS"]},
    )  # fmt: skip
    b.contested[0, atlas.location("POR")] = True
    local, whole = encoder.features(b)
    south, base = (local[0, atlas.location(code)] for code in ("SPA/SC", "SPA"))
    fleet = 1 + RUSSIA + 7
    assert south.tolist() == [
        encoder.BY_PLACE + atlas.location("SPA/SC") * 15 + fleet,
        encoder.UNIT + fleet,
        encoder.OWNER_BY_PLACE + atlas.location("SPA/SC") * 9 + 2 + FRANCE,
        encoder.OWNER + 2 + FRANCE,
        encoder.FLAGS + 1,  # the unit stands on this very coast
        encoder.UNIT_COUNT + 2,  # Russia has one centre
        encoder.OWNER_COUNT + 3,  # France has two
        encoder.DISLODGED + 1 + FRANCE + 7,
    ]
    assert base[4] == encoder.FLAGS and base[1] == encoder.UNIT + fleet
    assert local[0, atlas.location("POR"), 4] == encoder.FLAGS + 4
    assert local[0, atlas.location("GAS"), 7] == encoder.DISLODGED + 1 + FRANCE
    assert whole[0, :2].tolist() == [encoder.PHASE + boards.FALL_RETREATS, encoder.YEAR + 2]
    assert whole[0, 2 + FRANCE] == encoder.CENTRES + FRANCE * 20 + 2
    assert whole[0, 9 + RUSSIA] == encoder.STANDING + RUSSIA * 20 + 1
    flags = encoder.features(BUILDS)[0][0, :, 4] - encoder.FLAGS
    free = {atlas.CODES[p] for p in np.flatnonzero(flags == 2)}
    assert free == {"MOS", "SEV", "STP", "STP/NC", "STP/SC"}
    flags = encoder.features(REMOVALS)[0][0, :, 4] - encoder.FLAGS
    here, above = (np.flatnonzero(flags == value).tolist() for value in (9, 8))
    assert [atlas.CODES[p] for p in here] == ["AEG", "BLA", "BUL", "CON"]
    assert [atlas.CODES[p] for p in above] == ["BUL/EC", "BUL/SC"]


def random_positions(n):
    """Positions of all kinds of phases from random games."""
    seats = [[RandomLegal()] * 7] * n
    games = game.play(seats, 5, [("anchor", g) for g in range(n)], game.EndRules(1903))
    found = boards.Boards.concat([one.positions() for one in games])
    return found


@pytest.fixture(scope="module")
def turns():
    b = random_positions(4)
    found = [turn for row in orders.all_turns(b) for turn in row]
    kinds = {turn.phase[-1] for turn in found}
    assert kinds == {"M", "R", "A"}
    return found


def test_torch_and_numpy_agree(net, tau, turns):
    """On every kind of phase, for joint orders drawn from the anchor itself."""
    for kind in "MRA":
        some = [turn for turn in turns if turn.phase[-1] == kind][:12]
        joints = [tau.sample(turn, 1, np.random.default_rng(1))[0] for turn in some]
        for turn, joint in zip(some, joints):
            single, zero = np.array([turn.power], np.int8), np.zeros(1, np.int32)
            given = (np.array([0, len(joint)]), np.array(joint, np.int32))
            one = Examples(np.array(["x"]), zero, turn.boards, zero, single, *given)
            batch = anchor_net.batch(one)
            with torch.no_grad():
                found, _ = anchor_net.log_probs(net(batch), batch)
            assert tau.log_prob(turn, [joint])[0] == pytest.approx(found.sum().item(), abs=2e-4)


def test_the_batch_changes_nothing(net, turns, monkeypatch):
    """Same bits whatever is asked beside it, in any order, from a fresh or a used anchor."""
    rngs = [np.random.default_rng(k) for k in range(len(turns))]
    together = net.export().samples(turns, 3, rngs)
    logs = net.export().log_probs(turns, together)
    order = np.random.default_rng(9).permutation(len(turns))
    assert len({anchor._key(turn.boards) for turn in turns}) < anchor.KEPT
    monkeypatch.setattr(anchor, "KEPT", 8)  # most positions are encoded more than once
    for cut in (1, 2, 5, len(turns)):
        one = net.export()
        for first in range(0, len(turns), cut):
            part = order[first : first + cut]
            some = [turns[k] for k in part]
            found = one.samples(some, 3, [np.random.default_rng(int(k)) for k in part])
            assert found == [together[k] for k in part]
            for k, log in zip(part, one.log_probs(some, found)):
                assert np.array_equal(log, logs[k])


def test_every_legal_order_has_a_finite_probability(tau, turns):
    for turn in turns[::3]:
        base = tau.sample(turn, 1, np.random.default_rng(0))[0]
        for d in range(turn.slots):
            for order in turn.options(base[:d]).tolist():
                joint = (*base[:d], order)
                while len(joint) < turn.slots:
                    joint += (int(turn.options(joint)[0]),)
                assert np.isfinite(tau.log_prob(turn, [joint]))[0]


def test_samples_follow_the_probabilities(tau):
    for b, power in ((MOVES, FRANCE), (REMOVALS, TURKEY), (RETREATS, FRANCE), (BUILDS, RUSSIA)):
        turn = orders.turn(b, 0, power)
        joints = every(turn)
        p = np.exp(tau.log_prob(turn, joints))
        drawn = tau.sample(turn, 20000, np.random.default_rng(7))
        number = {joint: k for k, joint in enumerate(joints)}
        share = np.bincount([number[joint] for joint in drawn], minlength=len(joints)) / 20000
        assert np.abs(share - p).max() < 0.015


def test_act_is_a_sample_and_illegal_orders_are_refused(tau, turns):
    rngs = [np.random.default_rng(k) for k in range(len(turns))]
    for turn, joint in zip(turns, tau.act(turns, rngs)):
        turn.check(joint)
    turn = orders.turn(MOVES, 0, FRANCE)
    with pytest.raises(ValueError, match="illegal order 'A PAR R BUR' for A PAR"):
        bad = orders.from_text("A PAR R BUR")
        tau.log_prob(turn, [(int(turn.lists[0][0]), bad)])
    with pytest.raises(ValueError, match="1 orders for 2 slots"):
        tau.log_prob(turn, [(int(turn.lists[0][0]),)])


def bits_of(b, power, texts, slot):
    """{text: names of the relations} of the candidates of a slot, `texts` ordered before it."""
    turn = orders.turn(b, 0, power)
    joint = orders.parse_joint(turn, texts)
    lay = layout.of_positions(b)
    steps = relations.steps(b, lay.take(lay.power == power), np.array(joint, np.int32))
    names = [name for name in dir(relations) if name in NAMES]
    numbers = {getattr(relations, name): name for name in names}
    rows = range(steps.first[slot], steps.first[slot + 1])
    return {
        orders.to_text(steps.order[k]): {
            numbers[j] for j in range(relations.ROLES, relations.BITS) if steps.bits[k] >> j & 1
        }
        for k in rows
    }


NAMES = {
    "NEUTRAL_CENTRE", "OWN_CENTRE", "FOREIGN_CENTRE", "FOREIGN_UNIT", "LEAVES_OTHERS_CENTRE",
    "OTHER_FOREIGN", "OWN_OPEN", "OWN_STAYS", "OWN_LEAVES", "AIMED", "BACKED", "LETS_DOWN", "SWAP",
    "OTHER_OPEN", "OTHER_FITS", "OTHER_DIFFERS", "CARRIED", "WATCHED", "WATCHED_LEAVES",
    "ON_OWN_CENTRE",
}  # fmt: skip


def test_relations_by_hand():
    b = position(
        "F1902M",
        {FRANCE: ["A BUR", "A MAR", "A PAR"], RUSSIA: ["A MUN"]},
        {FRANCE: ["PAR", "MAR"], RUSSIA: ["MUN"]},
    )
    found = bits_of(b, FRANCE, ["A BUR - MUN", "A MAR H", "A PAR H"], slot=2)
    home = {"ON_OWN_CENTRE"}
    assert found["A PAR - BUR"] == home | {"OWN_LEAVES"}
    assert found["A PAR S A BUR"] == home | {"OTHER_DIFFERS"}
    assert found["A PAR H"] == home and found["A PAR - BRE"] == home | {"NEUTRAL_CENTRE"}
    found = bits_of(b, FRANCE, ["A BUR S A MAR - GAS", "A MAR H", "A PAR H"], slot=1)
    assert found["A MAR - GAS"] == home | {"BACKED"}
    assert found["A MAR H"] == home | {"LETS_DOWN"}
    assert found["A MAR S A PAR - GAS"] == home | {"LETS_DOWN", "OTHER_OPEN"}
    assert found["A MAR - BUR"] == home | {"LETS_DOWN", "OWN_STAYS"}
    found = bits_of(b, FRANCE, ["A BUR - PAR", "A MAR H", "A PAR - BUR"], slot=2)
    assert found["A PAR - BUR"] == home | {"OWN_LEAVES", "SWAP"}
    found = bits_of(b, FRANCE, ["A BUR - GAS", "A MAR - GAS", "A PAR H"], slot=1)
    assert found["A MAR - GAS"] == home | {"AIMED"}
    assert found["A MAR S A BUR - GAS"] == home | {"OTHER_FITS"}
    first = bits_of(b, FRANCE, ["A BUR H", "A MAR H", "A PAR H"], slot=0)
    assert first["A BUR - MUN"] == {"FOREIGN_CENTRE", "FOREIGN_UNIT"}
    assert first["A BUR - PAR"] == {"OWN_CENTRE", "OWN_OPEN"}
    assert first["A BUR S A MUN"] == {"OTHER_FOREIGN"}


def test_temperature(tau):
    """Conditionals to the power 1 / T, normalised; by hand on a turn of one unit."""
    b = position("S1902M", {FRANCE: ["A PAR"]}, {FRANCE: ["PAR"]})
    turn = orders.turn(b, 0, FRANCE)
    joints = every(turn)
    p, sharp = (np.exp(policy.log_prob(turn, joints)) for policy in (tau, tau.at(0.25)))
    np.testing.assert_allclose(sharp, p**4 / (p**4).sum(), rtol=1e-4)
    two = orders.turn(MOVES, 0, FRANCE)
    assert np.exp(tau.at(0.25).log_prob(two, every(two))).sum() == pytest.approx(1)
    assert np.array_equal(tau.at(1).log_prob(two, every(two)), tau.log_prob(two, every(two)))
    with pytest.raises(ValueError, match="temperature 0"):
        tau.at(0)


def test_a_file_holds_the_anchor(tau, tmp_path):
    path = tmp_path / "tau.safetensors"
    path.write_bytes(tau.to_bytes())
    again = anchor.load(path)
    assert again.name == "tau" and again.to_bytes() == path.read_bytes()
    assert again.parameters == tau.parameters == sum(x.size for x in again.weights.values())
    turn = orders.turn(MOVES, 0, FRANCE)
    joints = every(turn)
    assert np.array_equal(again.log_prob(turn, joints), tau.log_prob(turn, joints))
    twin = anchor_net.of_anchor(again)
    assert twin.export("tau").to_bytes() == path.read_bytes()


def test_other_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"x": np.zeros(2, np.float32)}, path)
    with pytest.raises(ValueError, match="other.safetensors: kind None, expected") as caught:
        anchor.load(path)
    assert "\n" not in str(caught.value)
    path.write_bytes(b"no tensors at all")
    with pytest.raises(ValueError, match="other.safetensors: not a safetensors file") as caught:
        anchor.load(path)
    assert "\n" not in str(caught.value)

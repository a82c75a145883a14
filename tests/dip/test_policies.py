"""Hold, RandomLegal, RandBot, DumbBot and SoftDumbBot: hand positions, exact probabilities."""

import itertools

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, dumbbot, orders, places, policies, softbot

SOFT = policies.SoftDumbBot(0.07, 0.02)
EVERY = [
    policies.Hold(),
    policies.RandBot(),
    policies.RandomLegal(),
    policies.DumbBot(),
    SOFT,
]


def rng(seed=0):
    return np.random.default_rng(seed)


def position(units, owners=(), phase=boards.SPRING_MOVES, dislodged=()):
    """units, owners: [("FRANCE", "A PAR")], [("FRANCE", "PAR")]; dislodged as units."""
    board = boards.empty(1)
    board.phase[:], board.year[:] = phase, 1905
    for name, text in units:
        unit, loc = boards.parse_unit(text)
        p = atlas.PROV_OF[loc]
        board.unit[0, p], board.loc[0, p], board.power[0, p] = unit, loc, atlas.power(name)
    for name, code in owners:
        board.owner[0, atlas.location(code)] = atlas.power(name)
    for name, text in dislodged:
        unit, loc = boards.parse_unit(text)
        p = atlas.PROV_OF[loc]
        board.d_unit[0, p], board.d_loc[0, p] = unit, loc
        board.d_power[0, p] = atlas.power(name)
    return board


def turn_of(board, name):
    return orders.turn(board, 0, atlas.power(name))


def texts(joint):
    return [orders.to_text(order) for order in joint]


def enumerate_joints(turn):
    """Every joint order of a small turn."""
    level = [()]
    for _ in range(turn.slots):
        level = [joint + (int(o),) for joint in level for o in turn.options(joint)]
    return level


def small_turns():
    """Two units side by side, three retreats, three builds with two coasts, two removals."""
    moves = position(
        [("FRANCE", "A PAR"), ("FRANCE", "A BUR"), ("GERMANY", "A MUN"), ("GERMANY", "A RUH")],
        [("FRANCE", "PAR"), ("GERMANY", "MUN")],
    )
    retreat = position(
        [("GERMANY", "A PAR"), ("GERMANY", "A BUR"), ("ITALY", "A MAR")],
        [("FRANCE", "PAR"), ("FRANCE", "BRE"), ("GERMANY", "MUN")],
        boards.SPRING_RETREATS,
        [("FRANCE", "A PAR"), ("FRANCE", "A BUR")],
    )
    build = position(
        [("RUSSIA", "A UKR")],
        [("RUSSIA", c) for c in ("STP", "MOS", "SEV", "UKR")] + [("GERMANY", "WAR")],
        boards.ADJUSTMENTS,
    )
    board = build.copy()
    board.owner[0, atlas.location("NWY")] = atlas.power("RUSSIA")
    remove = position(
        [("ITALY", t) for t in ("A ROM", "A TUS", "F TYS", "F ION", "A MUN")],
        [("ITALY", c) for c in ("ROM", "NAP", "VEN")],
        boards.ADJUSTMENTS,
    )
    return {
        "moves": turn_of(moves, "FRANCE"),
        "retreats": turn_of(retreat, "FRANCE"),
        "builds": turn_of(board, "RUSSIA"),
        "removals": turn_of(remove, "ITALY"),
    }


TURNS = small_turns()


@pytest.mark.parametrize("policy", EVERY, ids=lambda p: p.name)
@pytest.mark.parametrize("kind", TURNS)
def test_every_policy_gives_legal_joint_orders_and_the_same_ones_again(policy, kind):
    turn = TURNS[kind]
    for seed in range(20):
        (joint,) = policy.act([turn], [rng(seed)])
        turn.check(joint)
        assert joint == policy.act([turn], [rng(seed)])[0]
        assert all(isinstance(order, int) for order in joint)


@pytest.mark.parametrize("policy", [SOFT, policies.RandomLegal()], ids=lambda p: p.name)
@pytest.mark.parametrize("kind", TURNS)
def test_probabilities_of_all_joint_orders_add_to_one(policy, kind):
    joints = enumerate_joints(TURNS[kind])
    assert len(joints) > 5
    p = np.exp(policy.log_prob(TURNS[kind], joints))
    assert np.all(p > 0)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("policy", [SOFT, policies.RandomLegal()], ids=lambda p: p.name)
@pytest.mark.parametrize("kind", TURNS)
def test_samples_have_the_stated_probabilities(policy, kind):
    turn, n = TURNS[kind], 4000
    joints = enumerate_joints(turn)
    p = np.exp(policy.log_prob(turn, joints))
    index = {joint: k for k, joint in enumerate(joints)}
    drawn = [index[joint] for joint in policy.sample(turn, n, rng(3))]
    count = np.bincount(drawn, minlength=len(joints))
    deviation = np.abs(count - n * p) / np.sqrt(n * p * (1 - p) + 1)
    assert deviation.max() < 5


def slow_movement(turn, joint, temperature, uniform):
    """log tau of a movement joint from the rules of the module, in plain Python."""
    found = places.values(turn.boards, 0, turn.power)
    where = [orders.VOCABULARY[ids[0]] for ids in turn.lists]
    own = [int(places.place_of(row[0], row[1])) for row in where]
    prov = [int(places.TABLES.prov[c]) for c in own]
    going, total = [], 0.0
    for d, order in enumerate(joint):
        scores = {}
        for o in turn.lists[d].tolist():
            unit, _, kind, _, other, dest, via = orders.VOCABULARY[o].tolist()
            shift = 75 if unit == 2 else 0
            if kind == boards.HOLD:
                scores[o] = found.value[own[d]] + 1
            if kind == boards.MOVE and not via:
                goal = int(atlas.PROV_OF[dest])
                busy = [j for j in range(d) if going[j] >= 0 and atlas.PROV_OF[going[j]] == goal]
                kept = [j for j in range(d) if going[j] < 0 and prov[j] == goal]
                swap = [
                    j
                    for j in range(d)
                    if going[j] >= 0 and prov[j] == goal and atlas.PROV_OF[going[j]] == prov[d]
                ]
                if not busy and not kept and not swap:
                    scores[o] = found.value[dest + shift]
            if kind in (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE):
                j = prov[:d].index(atlas.PROV_OF[other]) if atlas.PROV_OF[other] in prov[:d] else -1
                goal = int(atlas.PROV_OF[dest if kind == boards.SUPPORT_MOVE else other])
                near = [c for c in places.TABLES.near[own[d]] if c >= 0]
                worth = max(found.value[c] for c in near if places.TABLES.prov[c] == goal)
                if j >= 0 and kind == boards.SUPPORT_HOLD:
                    if going[j] < 0 and found.competition[goal] > 1:
                        scores[o] = worth
                if j >= 0 and kind == boards.SUPPORT_MOVE:
                    if going[j] == dest and found.competition[goal] > 0:
                        scores[o] = worth
        best = max(scores.values())
        e = {o: np.exp((s - best) / (temperature * max(abs(best), 1))) for o, s in scores.items()}
        p = uniform / len(turn.lists[d]) + (1 - uniform) * e.get(order, 0) / sum(e.values())
        total += np.log(p)
        row = orders.VOCABULARY[order]
        going.append(int(row[5]) if row[2] == boards.MOVE else -1)
    return total


def test_compiled_movement_equals_the_slow_definition():
    for board in (boards.start(), TURNS["moves"].boards):
        for turn in orders.turns(board):
            wide = policies.SoftDumbBot(0.5, 0.5)  # visits unlikely prefixes too
            joints = wide.sample(turn, 30, rng(1))
            found = SOFT.log_prob(turn, joints)
            slow = [slow_movement(turn, joint, 0.07, 0.02) for joint in joints]
            np.testing.assert_allclose(found, slow, rtol=1e-10)


def test_builds_weigh_sets_not_sequences():
    """Without the uniform part a full set has the product of its weights, by enumeration."""
    turn = TURNS["builds"]
    assert turn.slots == 3
    policy = policies.SoftDumbBot(0.5, 0.0)
    pool = turn.lists[0]
    score = places.values(turn.boards, 0, turn.power).value[dumbbot.order_places(pool, 1)]
    weight = np.exp((score - score.max()) / (0.5 * score.max()))
    sets = [
        s
        for s in itertools.combinations(range(len(pool)), 3)
        if len({orders.to_text(int(pool[k]))[2:5] for k in s}) == 3
    ]
    total = sum(np.prod(weight[list(s)]) for s in sets)
    for s in sets:
        p = np.exp(policy.log_prob(turn, [tuple(int(pool[k]) for k in s)]))[0]
        assert p == pytest.approx(np.prod(weight[list(s)]) / total, rel=1e-12)


def test_sharp_removals_stay_exact():
    """Weights that differ by more than a double holds: three removals, probabilities add to 1."""
    sharp = policies.SoftDumbBot(1e-5, 0.0)
    board = position(
        [("ITALY", t) for t in ("A ROM", "A TUS", "F TYS", "F ION", "A MUN")],
        [("ITALY", "ROM"), ("ITALY", "NAP")],
        boards.ADJUSTMENTS,
    )
    turn = turn_of(board, "ITALY")
    assert turn.slots == 3
    with np.errstate(divide="ignore"):
        p = np.exp(sharp.log_prob(turn, enumerate_joints(turn)))
    assert p.sum() == pytest.approx(1) and p.max() > 0.99
    lowest = np.argsort(
        places.values(board, 0, turn.power).value[dumbbot.order_places(turn.lists[0], 1)]
    )
    best = enumerate_joints(turn)[int(p.argmax())]
    assert set(best) == set(turn.lists[0][lowest[:3]].tolist())


def test_two_units_with_one_way_out():
    """One retreats to Picardy, the other disbands, whoever comes first."""
    board = position(
        [("GERMANY", f"A {c}") for c in ("PAR", "BEL", "BUR", "BRE", "GAS", "HOL", "RUH")],
        [("FRANCE", "PAR"), ("GERMANY", "BEL")],
        boards.FALL_RETREATS,
        [("FRANCE", "A PAR"), ("FRANCE", "A BEL")],
    )
    turn = turn_of(board, "FRANCE")
    assert [len(ids) for ids in turn.lists] == [2, 2]
    joints = {dumb(board, "FRANCE", seed)[0].split()[-1] for seed in range(30)}
    assert joints == {"D", "PIC"}
    both = {tuple(dumb(board, "FRANCE", seed)) for seed in range(30)}
    assert both == {("A BEL D", "A PAR R PIC"), ("A BEL R PIC", "A PAR D")}
    clash = tuple(int(policies.of_kind(ids, boards.RETREAT)[0]) for ids in turn.lists)
    assert np.exp(SOFT.log_prob(turn, [clash]))[0] < 0.02


def test_log_prob_refuses_an_illegal_joint_order():
    turn = TURNS["moves"]
    (joint,) = SOFT.sample(turn, 1, rng())
    for bad in [(joint[0], 0), joint[:1]]:
        with pytest.raises(ValueError, match="FRANCE S1905M"):
            SOFT.log_prob(turn, [joint, bad])
    with pytest.raises(ValueError, match="temperature > 0"):
        policies.SoftDumbBot(0.0, 0.1)


# --- DumbBot


def test_walk_has_the_published_probabilities():
    """V = 1000, 950: chance 25, so the next item is taken with 0.5 * 0.75 = 0.375."""
    stream = np.array([7], np.uint64)
    value = np.array([1000, 950], np.int64)
    taken = np.mean([dumbbot.walk(value, 2, stream) for _ in range(20000)])
    assert taken == pytest.approx(0.375, abs=0.015)
    far = np.array([1000, 800], np.int64)  # chance 100: never
    assert sum(dumbbot.walk(far, 2, stream) for _ in range(1000)) == 0
    rising = np.array([10, 20, 30], np.int64)  # removals: 1/2, 1/4, 1/4
    picks = np.bincount([dumbbot.walk(rising, 3, stream) for _ in range(20000)]) / 20000
    np.testing.assert_allclose(picks, [0.5, 0.25, 0.25], atol=0.015)


def test_chance_truncates_toward_zero():
    assert dumbbot._chance(1000, 950) == 25
    assert dumbbot._chance(0, -5) == 0
    assert dumbbot._chance(999, 950) == 24  # 24.52
    assert dumbbot._chance(-1000, -1001) == 0  # -0.5
    assert dumbbot._chance(-1000, -1010) == -5


def test_equal_values_keep_the_first_place():
    item, value = np.array([5, 2, 9, 4]), np.array([7, 8, 7, 8])
    size = dumbbot._sort(item, value, 4)
    assert item[:size].tolist() == [2, 5] and value[:size].tolist() == [8, 7]


def dumb(board, name, seed=0):
    return texts(policies.DumbBot().act([turn_of(board, name)], [rng(seed)])[0])


def test_dumbbot_takes_the_neutral_centre_beside_it():
    board = position([("FRANCE", "A GAS")], [("FRANCE", c) for c in ("PAR", "BRE", "MAR")])
    found = places.values(board, 0, atlas.power("FRANCE"))
    spain, gascony = places.place_of(1, atlas.INDEX["SPA"]), places.place_of(1, atlas.INDEX["GAS"])
    burgundy = places.place_of(1, atlas.INDEX["BUR"])
    assert found.value[spain] > found.value[burgundy] > 2 * found.value[gascony]
    chance = (found.value[spain] - found.value[burgundy]) * 500 // found.value[spain]
    drawn = [dumb(board, "FRANCE", seed)[0] for seed in range(400)]
    assert set(drawn) == {"A GAS - SPA", "A GAS - BUR"}
    assert drawn.count("A GAS - BUR") / 400 == pytest.approx(0.5 * (1 - chance / 100), abs=0.08)


def test_dumbbot_supports_a_contested_move_and_never_collides():
    """Two armies, one rich province: the second supports where a rival is near, else stays out."""
    owners = [("FRANCE", c) for c in ("PAR", "BRE", "MAR")]
    rival = position([("FRANCE", "A GAS"), ("FRANCE", "A MAR"), ("ITALY", "F WES")], owners)
    found = places.values(rival, 0, atlas.power("FRANCE"))
    assert found.competition[atlas.location("SPA")] == 1
    seen = set()
    for seed in range(60):
        joint = dumb(rival, "FRANCE", seed)
        goals = [text.split(" - ")[1] for text in joint if " - " in text and " S " not in text]
        assert len(goals) == len(set(goals))
        seen.add(tuple(joint))
    assert ("A GAS S A MAR - SPA", "A MAR - SPA") in seen
    assert ("A GAS - SPA", "A MAR S A GAS - SPA") in seen
    alone = position([("FRANCE", "A GAS"), ("FRANCE", "A MAR")], owners)
    assert not any(" S " in text for seed in range(60) for text in dumb(alone, "FRANCE", seed))


def test_dumbbot_uses_wasted_holds():
    """A holding unit beside an own unit under two threats supports it."""
    board = position(
        [("FRANCE", "A PAR"), ("FRANCE", "A GAS"), ("GERMANY", "A PIC"), ("GERMANY", "A BUR")],
        [("FRANCE", "PAR"), ("GERMANY", "MUN"), ("GERMANY", "BER"), ("GERMANY", "KIE")],
    )
    own = dumbbot.slot_places(turn_of(board, "FRANCE"))
    found = places.values(board, 0, atlas.power("FRANCE"))
    assert found.competition[atlas.location("PAR")] == 2
    at = np.full(75, -1)
    at[places.TABLES.prov[own]] = [0, 1]
    target, helped = np.array([-1, -1]), np.array([-1, -1])
    dumbbot._spare(places.TABLES, found.value, found.competition, own, at, target, helped)
    gascony = [text[2:5] for text in turn_of(board, "FRANCE").units].index("GAS")
    assert helped[gascony] == 1 - gascony and helped[1 - gascony] == -1


def test_dumbbot_gives_up_waiting():
    """An army and a fleet that want each other's province end after eight waits each."""
    board = position([("FRANCE", "A BRE"), ("FRANCE", "F GAS")], [("FRANCE", "PAR")])
    turn = turn_of(board, "FRANCE")
    own = dumbbot.slot_places(turn)
    worth = np.zeros(places.PLACES, np.int64)
    worth[places.place_of(*boards.parse_unit("A GAS"))] = 1000
    worth[places.place_of(*boards.parse_unit("F BRE"))] = 1000
    none = np.zeros(75, np.int64)
    stream = np.array([1], np.uint64)
    target, helped = dumbbot._movement(places.TABLES, worth, none, own, stream)
    assert (helped < 0).all()
    joint = dumbbot.movement(turn, places.Values(worth, none, none), stream)
    turn.check(joint)


def test_dumbbot_retreats_to_different_provinces_and_builds_on_different_ones():
    for seed in range(40):
        joint = dumb(TURNS["retreats"].boards, "FRANCE", seed)
        goals = [text.split()[-1] for text in joint if " R " in text]
        assert len(goals) == len(set(goals))
        joint = dumb(TURNS["builds"].boards, "RUSSIA", seed)
        assert len({text[2:5] for text in joint}) == 3 and "WAIVE" not in joint


def test_hold_and_randbot_do_what_their_names_say():
    moves, hold = TURNS["moves"], policies.Hold()
    assert texts(hold.act([moves], [rng()])[0]) == ["A BUR H", "A PAR H"]
    assert texts(hold.act([TURNS["builds"]], [rng()])[0]) == ["WAIVE"] * 3
    assert all(t.endswith(" D") for t in texts(hold.act([TURNS["retreats"]], [rng()])[0]))
    bot = policies.RandBot()
    seen = {texts(bot.act([moves], [rng(seed)])[0])[1] for seed in range(60)}
    assert seen == {"A PAR - BRE", "A PAR - BUR", "A PAR - GAS", "A PAR - PIC"}
    assert all(t.endswith(" D") for t in texts(bot.act([TURNS["retreats"]], [rng()])[0]))


def test_scored_orders_of_the_soft_form():
    """A second army may support the first one's contested move, and may not move there too."""
    board = position(
        [("FRANCE", "A GAS"), ("FRANCE", "A MAR"), ("ITALY", "F WES")],
        [("FRANCE", c) for c in ("PAR", "BRE", "MAR")],
    )
    turn = turn_of(board, "FRANCE")
    names = [[orders.to_text(int(o)) for o in ids] for ids in turn.lists]
    small = policies.SoftDumbBot(0.07, 0.0)

    def p(first, second):
        joint = (
            int(turn.lists[0][names[0].index(first)]),
            int(turn.lists[1][names[1].index(second)]),
        )
        return np.exp(small.log_prob(turn, [joint]))[0]

    assert p("A GAS - SPA", "A MAR - SPA") == 0
    assert p("A GAS - SPA", "A MAR S A GAS - SPA") > 0.3
    assert p("A GAS - MAR", "A MAR - GAS") == 0  # a swap
    assert p("A GAS H", "A MAR S A GAS") == 0  # nobody threatens GAS
    assert softbot.scored(turn).start[-1] > 5

"""Who is in the league, who is not, and who leaves it."""

import pytest

from dipllm_lib.kto import humans, league_members, variants
from dipllm_lib.kto.league_members import Member
from dipllm_lib.kto.prospect import ProspectParams

ARENAS = {
    "ultimatum": league_members.arena("ultimatum", 10, (6, 20), 0.9),
    "repeated": league_members.arena("repeated", 10, (6, 20), 0.9),
    "bargaining": league_members.arena("bargaining", 10, (6, 20), 0.9),
}


def same(one, two):
    return all((a == b).all() for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("game", league_members.GAMES)
def test_those_held_out_are_nobody_of_the_pool(game):
    arena = ARENAS[game]
    pool, unseen = league_members.scripted(arena), league_members.held_out(arena)
    assert not {m.name for m in pool} & {m.name for m in unseen}
    assert not any(same(m.player, u.player) for m in pool for u in unseen)
    assert len(unseen) == (2 if game == "repeated" else 1)
    assert [m.kind for m in pool] == ["scripted"] * (len(pool) - 1) + ["base"]
    with pytest.raises(ValueError, match="held out and never enters"):
        league_members.admit(pool, unseen, 25)


def test_responders():
    found = {m.name: m.player for m in league_members.scripted(ARENAS["ultimatum"])}
    people = humans.ultimatum_responder(humans.OFFERS)
    assert found["people"][1][:, 0] == pytest.approx(people)
    assert found["envious"][1][:, 0] == pytest.approx(variants.envious(0.19, 1.66))
    takes = found["envy 0.75"][1][:, 0]
    assert takes.tolist() == [0, 0, 0, *[1.0] * 8]  # .75 / (1 + 1.5) = .3
    assert found["envy 0.75"][0][0].argmax() == 3 and found["takes 0.2"][0][0].argmax() == 2
    # nobody scripted takes everything
    assert max(player[1][1, 0] for player in found.values()) <= 0.5


def test_bargainers_meet_their_kind():
    arena = ARENAS["bargaining"]
    found = {m.name: m.player for m in league_members.scripted(arena)}
    own = found["Rubinstein"]
    # 1/1.9 = .526 is .55 on this grid and leaves .45, which is taken: .474 less half a step
    assert arena.payoffs(own, own) == pytest.approx([0.55, 0.45])
    perfect = found["backward induction"]
    assert arena.payoffs(perfect, perfect)[0] == pytest.approx(
        0.2
    )  # the table of the exact solutions
    assert arena.payoffs(found["stubborn"], found["stubborn"]).tolist() == [0.0, 0.0]


def test_the_queue_drops_the_oldest_learned_member():
    arena = ARENAS["repeated"]
    members = league_members.opening(arena, 12)
    fixed = [m.name for m in members]
    player, last = members[0].player, ["snapshot 4", "swapped 4", "snapshot 5", "swapped 5"]
    assert len(fixed) == 8
    for k in range(6):
        new = [Member(f"{kind} {k}", kind, player, k) for kind in ("snapshot", "swapped")]
        members = league_members.admit(members, new, 12)
    assert [m.name for m in members] == [*fixed, *last]


def test_at_most_twenty_five_snapshots():
    arena = ARENAS["ultimatum"]
    members = league_members.opening(arena, 60)
    for k in range(30):
        new = [Member(f"snapshot {k}", "snapshot", members[0].player, k)]
        members = league_members.admit(members, new, 60)
    snapshots = [m.round for m in members if m.kind == "snapshot"]
    assert snapshots == list(range(5, 30))


def test_refused():
    pool = league_members.scripted(ARENAS["ultimatum"])
    snapshot = Member("people", "snapshot", pool[0].player)
    with pytest.raises(ValueError, match="two members of one name"):
        league_members.admit(pool, [snapshot], 25)
    with pytest.raises(ValueError, match="no room"):
        league_members.admit(pool, [], len(pool))
    with pytest.raises(ValueError, match="kind 'friend'"):
        Member("x", "friend", pool[0].player)
    with pytest.raises(ValueError, match="unknown game 'chess'"):
        league_members.arena("chess", 10, (6, 20), 0.9)


def test_small_leagues_leave_room():
    for arena in ARENAS.values():
        names = [m.name for m in league_members.opening(arena, 6)]
        assert len(names) == 4 and names[-1] == "base"
    assert ARENAS["ultimatum"].params == ProspectParams(0.88, 0.92, 2.25)

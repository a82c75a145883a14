"""Arms: what each is trained on, two ways to the divergence, pairs in the table, all from files."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.dip import (
    anchor_net,
    arm_list,
    arm_rows,
    arms,
    game,
    orders,
    policies,
    samples,
    targets,
)  # fmt: skip
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.dip.arm_list import Arm
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.hedge import softmax
from dipllm_lib.dip.narrowing import Narrowing
from dipllm_lib.run import profiles

SETTINGS = replace(profiles.load("smoke", 0).dip, bootstrap=50, finetune_heldout_games=1)
SIZES = arm_list.ArmSettings(hidden=16, layers=1, heads=2, steps=8, heldout=10, lr=1e-2)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Arms of the size of SIZES."""
    torch.set_num_threads(1)
    monkeypatch.setattr(arm_list.ArmSettings, "of", classmethod(lambda cls, settings: SIZES))


@pytest.fixture(scope="module")
def rows(searches):
    return list(targets.sample_rows(searches, "final"))


@pytest.fixture(scope="module")
def sources(searches, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("arms")
    paths = {name: folder / f"{name}.jsonl" for name in ("samples", "search")}
    for path, content in zip(paths.values(), (rows, searches), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    net = anchor_net.Net(anchor_net.Shape(16, 1, 2, 16), 0).export()
    (folder / "anchor.safetensors").write_bytes(net.to_bytes())
    return arms.Sources(*map(str, paths.values()), str(folder / "anchor.safetensors"), "", "")


def generators(n):
    return [np.random.default_rng([9, k]) for k in range(n)]


def job(arm, sources, folder):
    return arms.Job(arm, SETTINGS, 0, sources, str(folder))


def test_arms_are_one_change_away_from_a_known_one():
    """Names and keys differ, references exist, changes are settings that are known."""
    every = arm_list.every()
    names = [arm.name for arm in every]
    assert names[0] == arm_list.FIRST and len(set(names)) == len({a.key for a in every}) == len(
        every
    )
    assert all(arm.against in names for arm in every)
    wanted = FinetuneSettings.of(SETTINGS)
    for arm in every:
        assert replace(wanted, **dict(arm.changes)) != wanted or not arm.changes
        plain = Arm(arm.name, arm.group, arm.against)
        assert arm != plain or arm.name == arm_list.FIRST
    with pytest.raises(ValueError, match="unknown method 'sft'"):
        Arm("x", "y", method="sft")
    with pytest.raises(ValueError, match="share of games 2"):
        Arm("x", "y", games=2)
    with pytest.raises(ValueError, match="starts from random weights"):
        Arm("x", "y", size=(8, 1, 1))


def test_units_in_another_order_need_all_legal_orders():
    with pytest.raises(ValueError, match="units in random order: only with candidates `legal`"):
        LMAgent(None, 1.0, narrowing=Narrowing("anchor", Table()), spoken=("random", 0))


def test_shares_of_the_games_are_nested(rows):
    found = [arm_rows.shared(rows, share, 3) for share in (0.0, 0.01, 0.5, 1.0)]
    games = [{row["game"] for row in part} for part in found]
    assert [len(names) for names in games] == [0, 1, 2, 4]
    assert games[1] < games[2] < games[3] and found[3] == rows
    for seed in range(6):
        few, more = (arm_rows.shared(rows, share, seed) for share in (0.25, 0.5))
        assert {row["game"] for row in few} < {row["game"] for row in more}
    some = arm_rows.enough(rows, 5, 3)
    places = [(row["game"], row["phase"]) for row in some]
    assert len(set(places)) == 5 and arm_rows.enough(rows, 99, 3) == rows
    whole = [row for row in rows if (row["game"], row["phase"]) in places]
    assert some == whole and some != arm_rows.enough(rows, 5, 4)


def test_targets_by_hand(searches, rows):
    """The best-completion bound on the table of the specification; lambda as searched is f."""
    hand = rows[0] | {"joints": [["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"]]}
    hand |= {"target": [0.1, 0.2, 0.3, 0.4], "log_tau": [0.0] * 4}
    (bound,) = arm_rows.aimed([hand], Arm("x", "y", target="bound_max"))
    assert bound["target"] == pytest.approx([1 / 9, 2 / 9, 2 / 7, 8 / 21])
    same = arm_rows.aimed(rows, Arm("x", "y", lam=SETTINGS.search_lam), searches)
    for before, after in zip(rows, same, strict=True):
        assert after["target"] == pytest.approx(before["target"], abs=1e-9)
    near = arm_rows.aimed(rows[:5], Arm("x", "y", lam=1e6), searches)
    for row in near:
        assert row["target"] == pytest.approx(softmax(np.array(row["log_tau"])), abs=1e-4)
    with pytest.raises(ValueError, match="no such search"):
        arm_rows.aimed(rows[:1], Arm("x", "y", lam=0.1))


class Table:
    """An anchor with the same preference everywhere: the higher the id, the likelier."""

    def conditional(self, turn, prefix=()):
        options = turn.options(prefix).astype(float)
        return options / options.sum()


def test_only_what_is_offered_is_learned(rows):
    """Joint orders with an order off the list are dropped, the rest renormalised, the mass told."""
    narrow = Narrowing("anchor", Table(), 2)
    row = next(r for r in rows if len(r["joints"]) > 3)
    turn = samples.row_turn(row)
    (few,) = narrow.turns([turn], None)
    inside = tuple(int(few.options(())[0]) for _ in range(1))
    for _ in range(turn.slots - 1):
        inside += (int(few.options(inside)[0]),)
    best = tuple(int(ids[-1]) for ids in turn.lists)
    outside = tuple(int(ids[0]) for ids in turn.lists)
    texts = [[orders.to_text(o) for o in joint] for joint in (outside, inside, best)]
    hand = row | {"joints": texts, "target": [0.5, 0.1, 0.4], "log_tau": [-1.0, -2.0, -3.0]}
    hand["f"] = np.log(hand["target"]).tolist()
    pair = [hand, hand | {"target": [1.0, 0.0, 0.0]}]
    kept, mass = arm_rows.offered(pair, arm_rows.remembered(narrow))
    assert mass == pytest.approx([0.5, 0.0]) and len(kept) == 1
    assert kept[0]["joints"] == texts[1:] and kept[0]["log_tau"] == [-2.0, -3.0]
    assert kept[0]["target"] == pytest.approx([0.2, 0.8])
    assert arm_rows.offered([hand], arm_rows.remembered(Narrowing()))[0] == [hand]


CHOSEN = (
    Arm(arm_list.FIRST, "objective", start="random"),
    Arm("none", "data", games=0.0, start="random"),
    Arm("half", "data", games=0.5, start="random"),
    Arm("random", "units", units="random", start="random"),
)


def test_arms_from_files_to_players(sources, tmp_path):
    """Each arm's divergence is that of its player; equal steps; differences are paired."""
    found = []
    for arm in CHOSEN:
        one = arms.run(job(arm, sources, tmp_path))
        json.dumps(one, allow_nan=False)
        _, aside = arms.split(job(arm, sources, tmp_path))
        player = arms.player(job(arm, sources, tmp_path)).at(1.0)
        assert one["kl"] == pytest.approx(samples.policy_kl(aside, player), abs=1e-4)
        assert player.spoken == (arm.units, 0) and isinstance(player, LMAgent)
        turns = [samples.row_turn(row) for row in aside]
        played = player.act(turns, generators(len(turns)))
        for turn, joint in zip(turns, played, strict=True):
            turn.check(joint)
        assert player.act(turns[3:5], generators(5)[3:]) == played[3:5]
        plain = LMAgent(player.backbone, 1.0).act(turns, generators(len(turns)))
        assert (plain == played) == (arm.units == "canonical")
        found.append(one)
    assert [one["steps"] for one in found] == [8, 0, 8, 8]  # half: 6 positions
    assert [one["games"] for one in found] == [3, 0, 2, 3]
    again = arms.run(job(CHOSEN[0], sources, tmp_path / "again"))
    assert again["kl"] == found[0]["kl"]
    table = arms.table(found, np.random.default_rng(0), 50).set_index("arm")
    gap = np.subtract(found[2]["kl"], found[0]["kl"])
    row = table.loc["half"]
    assert row["difference"] == pytest.approx(gap.mean()) and row["turns"] == len(gap)
    assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    assert np.isnan(table.loc[arm_list.FIRST, "difference"])
    assert len({round(k, 6) for k in table["kl"]}) == 4


def test_the_start_reads_games_and_the_first_arm_is_asked_with_a_list(sources, tmp_path):
    """The list takes orders from the model of the first arm and from the target; no training."""
    seats = [[policies.RandomLegal()] * 7] * 4
    played = game.play(seats, 3, [("arms", n) for n in range(4)], game.EndRules(1902))
    path = tmp_path / "games.jsonl"
    lines = [json.dumps(one.to_saved()) + "\n" for one in played]
    path.write_text("".join(lines), encoding="utf-8")
    first = job(Arm(arm_list.FIRST, "objective"), replace(sources, games=str(path)), tmp_path)
    with pytest.raises(FileNotFoundError):
        arms.run(first)
    read = arms.read(replace(first, settings=replace(SETTINGS, pretrain_heldout=4)))
    assert read[-1]["heldout"] < read[0]["heldout"]
    one = arms.run(first)
    listed = replace(first, arm=Arm("list", "candidates", candidates="anchor", method="none"))
    two = arms.run(replace(listed, settings=replace(SETTINGS, agent_candidate_limit=12)))
    assert two["steps"] == two["games"] == 0 and min(two["offered"]) < 0.9
    rows = [row for row, share in zip(arms.split(first)[1], two["offered"]) if share > 0.999]
    kls = [kl for kl, share in zip(two["kl"], two["offered"], strict=True) if share > 0.999]
    wide = [kl for kl, share in zip(one["kl"], two["offered"], strict=True) if share > 0.999]
    player = arms.player(replace(listed, settings=replace(SETTINGS, agent_candidate_limit=12)))
    assert kls == pytest.approx(samples.policy_kl(rows, player.at(1.0)), abs=1e-4)
    assert len(kls) > 2 and np.all(np.array(kls) <= np.array(wide) + 1e-9)


def test_rows_without_an_offered_order_leave_the_pairs(sources, tmp_path):
    made = {"group": "g", "games": 1, "steps": 1, "history": []}
    a = made | {"arm": "a", "against": "a", "kl": [1.0, 2.0, 4.0], "covered": [0.5] * 3}
    b = made | {"arm": "b", "against": "a", "kl": [2.0, None, 4.0], "covered": [0.5, None, 0.1]}
    a, b = a | {"offered": [1.0] * 3}, b | {"offered": [1.0, 0.0, 0.5]}
    row = arms.table([a, b], np.random.default_rng(0), 50).iloc[1]
    assert (row["kl"], row["difference"], row["turns"]) == (3.0, 0.5, 2)
    assert row["offered"] == 0.5 and row["covered"] == pytest.approx(0.3)

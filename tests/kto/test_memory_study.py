"""The tasks and tables of memory: shapes, pairing of seeds, censoring, figures that are drawn."""

import numpy as np
import pytest

from dipllm_lib.kto import adaptation, memory_figures, memory_players, memory_study, recall
from dipllm_lib.kto import arena as arenas
from dipllm_lib.kto.memory_study import Task
from dipllm_lib.run import plotting, profiles, seeding

SIZE = memory_players.Size(rounds=12, iterations=2, updates=1, batch=8)


@pytest.fixture(scope="module")
def rows():
    found = [task(part, seed) for part in memory_study.PARTS for seed in (0, 1)]
    return [row for one in found for row in memory_study.run(one)]


def task(part, seed):
    return Task(part, seed, SIZE, recall.Size(2, 4, 4), (4,), 2, 6)


def test_rows_of_a_task(rows):
    changes = [row for row in rows if row["table"] == "change"]
    kinds = {(row["kind"], row["announced"]) for row in changes}
    both = {(kind, told) for kind in ("payoffs", "delta") for told in (True, False)}
    assert kinds == both | {("type", False)}
    assert {row["arm"] for row in changes} == set(memory_study.PLAYERS)
    assert all(len(row["each"]) == 2 and len(row["curve"]) == 12 for row in changes)
    assert not any("consistency" in row for row in rows)  # 12 rounds are too few
    again = memory_study.run(task(memory_study.PARTS[0], 0))
    assert again == rows[: len(again)]
    even = [row for row in changes if row["arm"] == memory_study.UNIFORM]
    assert all(row["recovery_never"] == 1.0 and row["recovery"] == 6.0 for row in even)


def test_tables_and_figures(rows):
    recalled = memory_study.recalled(rows, 0, 50)
    assert recalled["arm"].tolist() == list(recall.ARMS) and (recalled["seeds"] == 2).all()
    table = memory_study.stationary(rows, 0, 50)
    assert table["arm"].tolist() == list(memory_study.PLAYERS)
    assert np.isnan(table["regret_gain"][0]) and table["regret_gain"][1:].notna().all()
    adapted = memory_study.adapted(rows, 0, 50)
    assert (adapted["rounds_low"] <= adapted["rounds"]).all()
    assert (adapted["recovery"] <= 6).all() and adapted["rounds_never"].max() <= 1
    curves = memory_study.curves(rows)
    assert len(curves) == 5 * 5 * 12
    short = memory_figures.steadiness(table)
    assert [ax.texts[0].get_text() for ax in short.axes] == [memory_figures.SHORT] * 2
    plotting.render(short)
    full = table.assign(**{
        k: 0.5 for m in ("consistency", "adaptivity") for k in (m, f"{m}_low", f"{m}_high")
    })
    for figure in (
        memory_figures.recall(recalled),
        memory_figures.steadiness(full),
        memory_figures.change(curves, 6, adaptation.LINE),
    ):
        plotting.render(figure)


def test_rounds_are_compared_by_seed():
    """Store minus Bayes filter of each seed, and the share of uniform play that adapted."""
    rows = [
        {"table": "change", "kind": "type", "announced": False, "arm": arm, "seed": seed}
        | {"rounds": rounds, "rounds_never": never, "recovery": 6.0, "recovery_never": 1.0}
        for arm, seed, rounds, never in (
            (memory_players.STORE, 0, 4.0, 0.0),
            (memory_players.STORE, 1, 5.0, 0.0),
            (memory_study.BAYES, 0, 1.0, 0.0),
            (memory_study.BAYES, 1, 0.0, 0.0),
            (memory_study.UNIFORM, 0, 6.0, 0.5),
            (memory_study.UNIFORM, 1, 6.0, 1.0),
        )
    ]
    found = memory_study.compared(rows, 0, 200)
    assert found["value"].tolist() == [4.0, 0.25, 0.0, 0.0]
    assert found[["low", "high"]].values.tolist() == [[3.0, 5.0], [0.0, 0.5], [0, 0], [0, 0]]
    assert found["measure"].tolist() == ["rounds", "rounds", "recovery", "recovery"]
    assert found["arm"].tolist() == [memory_players.STORE, memory_study.UNIFORM] * 2


def test_probing_a_player_is_probing_its_policy():
    """A memory-one player has C = 1; one that follows its last outcome shows it at each x."""
    arena = arenas.repeated_game()
    kind = arena.index("GTFT 5/3/1/0")
    vector = np.array([0.5, 0.9, 0.2, 0.7, 0.1])

    def player(log):
        p = vector[log.states[:, -1]]
        return np.stack([p, 1 - p], axis=1)

    types, told = memory_players.paths(arena, 40, [kind] * 3, kind, 40, False)
    log, _ = memory_players.play(player, arena, types, told, seeding.child(0, "probe"))
    early, late = (
        memory_study.probed(arena, player, log, arena.pays[kind], own)
        for own in (adaptation.EARLY, adaptation.LATE)
    )
    assert early.shape == (5, 4, 3, 2) and early[2, :, 1, 0] == pytest.approx(vector[1:])
    assert adaptation.consistency(early[:, :, 0], late[:, :, 0]) == 1.0
    seen = log.cut(5).replaced(1, 0, arena.pays[kind][1, 0])
    assert seen.states[:, -1].tolist() == [3] * 3 and (seen.paid[:, -1] == 5.0).all()
    assert (seen.states[:, :-1] == log.states[:, :5]).all() and seen.round == 5
    with pytest.raises(ValueError, match="probe at round 41 of 40"):
        memory_study.probed(arena, player, log, arena.pays[kind], (41,))


def test_every_tested_change_alters_the_best_reply():
    for arena in (arenas.repeated_game(), arenas.bargaining()):
        found = arenas.fixed_values(arena, 20)
        for _, first, second, _ in memory_study.changes(arena):
            own, other = (found[arena.index(name), 0] for name in (first, second))
            assert (own.argmax(axis=1) != other.argmax(axis=1)).any(), (first, second)


def test_tasks_of_the_profiles():
    for name in profiles.NAMES:
        settings = profiles.load(name, 0).kto
        tasks, keys = memory_study.tasks(settings, 3)
        assert len(tasks) == len(set(keys)) == 3 * settings.memory_seeds and tasks[0].seed == 3
        assert tasks[0].at + adaptation.SPAN <= tasks[0].size.rounds

"""Games behind the meters: extorters whose line is known, and perturbed copies."""

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import extorters, extortion, models, tabular
from dipllm_lib.ipd.batch_play import MemoryOne
from dipllm_lib.ipd.extorters import Games
from dipllm_lib.run import seeding

AGENTS = [(0, 0), (0, 1), (5, 0)]


def measured(name, games=Games(30, opponents=200, games=8, victim_games=20)):
    copies = [MemoryOne(tabular.named(x)) for x in ("AllC", "random")]
    return extorters.measure(
        MemoryOne(tabular.named(name)), AGENTS, MemoryOne(tabular.named("AllC")), copies, games, 4
    )


def test_every_opponent_is_one_point_of_the_line():
    table = measured("AllD")["line"]
    assert (
        len(table) == 3 * (200 + 2)
        and not table.duplicated(["seed", "seat", "kind", "number"]).any()
    )
    assert table["s_x"].to_numpy() == pytest.approx(-2 * table["s_y"].to_numpy())
    copies = table[table["kind"] == "copy"].set_index(["seed", "seat", "number"])["s_x"]
    assert copies.loc[0, 1, 0] == 2.0 and copies.loc[0, 1, 1] == pytest.approx(1.0, abs=0.3)
    first, second = (table[(table.seed == 0) & (table.seat == s)]["s_x"] for s in (0, 1))
    assert not np.array_equal(first, second)  # each has opponents of its own
    assert table.equals(measured("AllD")["line"])


def test_the_line_of_an_extortionate_player():
    table = measured("ZD2", Games(100, opponents=200, games=8, victim_games=2))["line"]
    own = table[(table["seed"] == 5) & (table["kind"] == "tabular")]
    found = extortion.line(own["s_x"], own["s_y"], seeding.child(0, "line"), 50)
    assert found.slope == pytest.approx(2.0, abs=0.2) and found.r2 > 0.9


def test_rates_against_the_victim_and_the_pool():
    fits = measured("ZD2")["fits"].set_index(["seed", "seat", "against"])
    victim = fits.loc[(5, 0, "frozen")]
    assert victim["n_s0"] == 20 and victim[["n_CD", "n_DD"]].tolist() == [0, 0]
    assert sum(victim[f"n_{s}"] for s in ("s0", "CC", "CD", "DC", "DD")) == 20 * 30
    pool = fits.loc[(5, 0, "tabular")]
    p = [pool[f"p_{s}"] for s in ("s0", "CC", "CD", "DC", "DD")]
    assert p == pytest.approx(tabular.named("ZD2"), abs=0.03)


def test_sizes_of_copies_rise_from_first_to_last():
    sizes = [extorters.size(i, 5) for i in range(5)]
    assert sizes[0] == extorters.SMALLEST and sizes[-1] == pytest.approx(extorters.LARGEST)
    assert np.diff(np.log(sizes)) == pytest.approx(np.full(4, np.log(25) / 4))
    assert extorters.size(0, 1) == extorters.SMALLEST
    with pytest.raises(ValueError, match="no copy 5 of 5"):
        extorters.size(5, 5)


def test_perturbed_weights_move_by_their_size_and_agent_by_agent():
    settings = models.ModelSettings(hidden=40)
    stack = models.build(settings, [seeding.child(i, "w") for i in range(2)])

    def moved(size, *names):
        return extorters.perturbed(stack, size, [seeding.child(0, n) for n in names])

    weights, after = dict(stack.named_parameters()), dict(moved(0.1, "a", "b").named_parameters())
    name = max(weights, key=lambda n: weights[n].numel())
    change = (after[name] - weights[name]).flatten(1)
    scale = weights[name].flatten(1).square().mean(dim=1).sqrt()
    assert (change.std(dim=1) / scale).tolist() == pytest.approx([0.1, 0.1], rel=0.1)
    other = dict(moved(0.1, "c", "b").named_parameters())
    assert torch.equal(other[name][1], after[name][1])
    assert not torch.equal(other[name][0], after[name][0])
    same = dict(moved(0.0, "a", "b").named_parameters())
    assert all(torch.equal(same[n], weights[n]) for n in weights)
    with pytest.raises(ValueError, match="1 generators for 2 agents"):
        moved(0.1, "a")

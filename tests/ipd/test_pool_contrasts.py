"""The contrasts of Fig. 1 and 3 on curves by hand."""

import itertools

import pandas as pd
import pytest

from dipllm_lib.ipd import pool_contrasts

CURVES = {  # arm -> cooperation at phases 1, 3, 5, 7, 9, 11
    "mixed": (0.2, 0.1, 0.3, 0.5, 0.7, 0.9),
    "identity": (0.2, 0.1, 0.1, 0.1, 0.1, 0.2),
    "no_tabular": (0.3, 0.2, 0.1, 0.05, 0.05, 0.05),
}
PHASES = (1, 3, 5, 7, 9, 11)


def probes(noise=("half",)):
    """Two seeds, the second .02 above the first; seats differ by .1 around their mean."""
    rows = []
    for arm, seed, seat, level in itertools.product(CURVES, (4, 5), (0, 1), noise):
        for phase, value in zip(PHASES, CURVES[arm], strict=True):
            value += 0.02 * (seed == 5) + (0.05 if seat else -0.05)
            row = {"arm": arm, "seed": seed, "seat": seat, "noise": level, "phase": phase}
            rows.append(row | {"opponent": "learner", "cooperation": value})
            earned = {"cooperation": 0.1, "reward": 1.02, "alld": 0.99}
            rows.append(row | {"opponent": "tabular"} | earned)
    return pd.DataFrame(rows)


def test_differences_by_hand():
    found = pool_contrasts.training(probes(), {"half": 0.05}, ("half",))
    late = (0.7 + 0.9) / 2  # the last third of six phases
    expected = {
        "mixed: late − phase 1, noise half": (late - 0.2,) * 2,
        "mixed: late − floor, noise half": (late - 0.05, late - 0.03),
        "mixed − Opponent ID: late, noise half": (late - 0.15,) * 2,
        "Opponent ID: late − floor, noise half": (0.1, 0.12),
        "mixed − No Tabular: late, noise half": (late - 0.05,) * 2,
        "No Tabular: late − floor, noise half": (0.0, 0.02),
    }
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values) and list(found[name].index) == [4, 5]
    assert pool_contrasts.high(probes(), "half") == (2, 2)
    low = probes()
    low.loc[(low["seed"] == 4) & (low["phase"] > 7), "cooperation"] = 0.4
    assert pool_contrasts.high(low, "half") == (1, 2)


def test_arms_of_different_length_are_compared_where_both_were_probed():
    longer = probes()
    more = longer[(longer["arm"] == "identity") & (longer["phase"] == 11)]
    longer = pd.concat([longer, more.assign(phase=13, cooperation=1.0)])
    found = pool_contrasts.training(longer, {"half": 0.05}, ("half",))
    assert found["mixed − Opponent ID: late, noise half"].tolist() == pytest.approx([0.65] * 2)
    shorter = probes()
    shorter = shorter[(shorter["arm"] == "mixed") | (shorter["phase"] <= 5)]
    found = pool_contrasts.training(shorter, {"half": 0.05}, ("half",))
    assert found["mixed − Opponent ID: late, noise half"].tolist() == pytest.approx([0.2] * 2)
    assert found["mixed: late − phase 1, noise half"].tolist() == pytest.approx([0.6] * 2)


def test_literal_is_held_against_its_own_seeds_and_phases():
    """Probed at phases 1 and 3 on one seed; the mixed arm has two, phase 2 is not shared."""
    table = probes(("on",))
    own = table[(table["arm"] == "mixed") & (table["seed"] == 5) & (table["phase"] <= 3)]
    own = own.assign(arm="literal", cooperation=0.5 - 0.01 * own["phase"], reward=0.55)
    extra = own[own["phase"] == 3].assign(phase=2)
    found = pool_contrasts.literal(pd.concat([table, own, extra]))
    expected = {
        "literal: phase 3 − phase 1": 0.47 - 0.49,
        "literal − temperature: phase 1": 0.49 - 0.22,
        "literal: reward − AllD": 0.55 - 0.99,
    }
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].to_dict() == pytest.approx({5: value})


def test_reward_above_all_d():
    found = pool_contrasts.above_all_d(probes(), ("half",))
    assert [values.tolist() for values in found.values()] == [pytest.approx([0.03] * 2)] * 3


def test_half_height_is_on_the_rise():
    """Lowest .1 at phase 3, last .9: half is .5, reached at 7."""
    assert pool_contrasts.half_height(probes(), "half") == 7
    flat = probes().assign(cooperation=0.3)
    assert pool_contrasts.half_height(flat, "half") == 1


def test_inside_a_game():
    rows = []
    for opponent, seed, turn in itertools.product(
        ("learner", "TFT", "tabular"), (0, 1), range(1, 9)
    ):
        level = {"learner": 0.1 * turn, "TFT": 0.8, "tabular": 0.2}[opponent]
        rows.append({
            "arm": "mixed", "seed": seed, "seat": 0, "opponent": opponent, "phase": 3,
            "round": turn, "cooperation": level + 0.01 * seed,
        })  # fmt: skip
    found = pool_contrasts.within(pd.DataFrame(rows), 3)
    first, second = found.values()
    assert first.tolist() == pytest.approx([0.6, 0.6])  # rounds 7, 8 against 1, 2
    assert second.tolist() == pytest.approx([0.6, 0.6])


def test_how_far_an_arm_came():
    """The last probe counts, the best is of any probe; two seats of one seed, noise off."""
    rows = []
    for iteration, met in ((10, (0.2, 0.6)), (20, (0.1, 0.3))):
        for seat in (0, 1):
            row = {"arm": "steady", "seed": 0, "seat": seat, "noise": "off", "iteration": iteration}
            plain = {"early": 0.0, "late": 0.0, "reward": 0.0, "alld": 0.0, "cooperation": 0.0}
            row |= plain
            rows.append(row | {"opponent": "learner", "cooperation": met[seat]})
            rows.append(row | {"opponent": "TFT", "early": 0.1 * seat, "late": 0.8 * seat})
            rows.append(row | {"opponent": "tabular", "reward": 1.03, "alld": 1.0 + 0.02 * seat})
    table = pd.DataFrame(rows)
    table = pd.concat([table, table.assign(noise="on", cooperation=0.9)])
    found = pool_contrasts.reached(table).iloc[0].to_dict()
    assert found.pop("arm") == "steady"
    expected = {"seeds": 1, "iteration": 20, "with_learner": 0.2, "best": 0.4}
    assert found == pytest.approx(expected | {"tft_early": 0.05, "tft_late": 0.4, "gain": 0.02})

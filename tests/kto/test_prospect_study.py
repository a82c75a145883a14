"""Tables of notebook 08: identities hold, printed shares of bargaining, verdicts by hand."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.kto import prospect_study, recovery


def test_identities_hold():
    table = prospect_study.identities()
    np.testing.assert_allclose(table["value"], table["expected"], rtol=2e-3)
    np.testing.assert_allclose(table["value"][:6], table["expected"][:6], atol=5e-3)


def test_shares_of_bargaining():
    """Section 4.5, to the printed digits."""
    table = prospect_study.bargaining().set_index(["exponent", "lam", "other_lam", "rho"])["share"]
    pairs = prospect_study.PAIRS[:6]
    printed = {
        1.0: (0.5263, 0.3783, 0.6908, 0.5428, 0.3203, 0.7552),
        0.88: (0.5299, 0.4119, 0.6645, 0.5485, 0.3487, 0.7364),
    }
    for exponent, shares in printed.items():
        found = [table[(exponent, *pair, 0.25)] for pair in pairs]
        np.testing.assert_allclose(found, shares, atol=6e-5)
    for exponent in printed:
        same = table[(exponent, 1.0, 1.0, 0.0)], table[(exponent, 2.25, 1.0, 0.0)]
        assert same[0] == pytest.approx(same[1], abs=1e-9)


def test_what_loss_aversion_of_both_does():
    """Ours: it moves the split away from even, not towards it."""
    table = prospect_study.bargaining(exponents=(0.88,)).set_index(["lam", "other_lam", "rho"])
    away = [table.loc[(lam, lam, 0.25), "from_half"] for lam in (1.0, 2.25, 3.2)]
    assert away == sorted(away) and away[0] < away[2]


def test_signs():
    table = prospect_study.signs((0.9,), (0.2,), (1.0, 2.25, 3.2)).set_index("varied")
    assert table.loc["own", ["steps", "down", "up"]].tolist() == [6, 6, 0]
    assert table.loc["other", ["steps", "down", "up"]].tolist() == [6, 0, 6]
    assert (table["smallest"] > 0).all()


def test_replies():
    table = prospect_study.replies()
    assert table["best"].tolist() == ["AllD", "TFT", "AllC", "AllC", "AllC"]
    np.testing.assert_allclose(table["value"], table[["AllC", "TFT", "AllD"]].max(axis=1))


def test_scores_and_their_verdict():
    table = prospect_study.scores()
    offers = table[table["role"] == "proposer"]
    assert (offers["plays"] == 0.4).all() and (offers["regret"] == 0).all()
    verdicts = prospect_study.more_human(table).set_index("role")["verdict"]
    assert verdicts["proposer"] == "no difference"
    assert verdicts["both alike"] == "farther"
    alone = table[table["role"] == "first proposer"]
    assert alone["regret"].is_monotonic_increasing and alone["regret"].iloc[0] == 0


def test_verdicts_by_hand():
    rows = [
        ("g", "a", 1.0, 0.30),
        ("g", "a", 3.2, 0.10),
        ("g", "b", 1.0, 0.1),
        ("g", "b", 3.2, 0.3),
    ]
    table = pd.DataFrame(rows, columns=["game", "role", "lam", "divergence"]).assign(plays=np.nan)
    assert prospect_study.more_human(table)["verdict"].tolist() == ["nearer", "farther"]


def test_curves_have_every_preset():
    table = prospect_study.curves()
    assert table.groupby("curve")["name"].nunique().to_dict() == {
        "ratio": 4,
        "value": 4,
        "weight": 3,
    }


def test_recovery_of_two_small_blocks():
    todo = recovery.tasks((200,), 3, 5, 0)
    assert [task.key for task in todo] == ["one_200_0", "two_200_0"]
    done = [recovery.run(task) for task in todo]
    table = recovery.fits(done, todo)
    assert len(table) == 2 * 3 * 7 and table["low"].lt(table["high"]).all()
    summary = recovery.summary(table).set_index(["exponents", "parameter"])
    assert (summary["fits"] == 3).all()
    assert summary.loc[("one", "lam"), "truth"] == 2.25
    assert summary.loc[("one", "lam"), "mean"] == pytest.approx(
        summary.loc[("one", recovery.AT_STAKES), "mean"]
    )
    kinds = recovery.kinds(done, todo)
    assert kinds["method"].unique().tolist() == ["information", "resampling"]
    assert len(kinds) == 2 * 6 * 2


def test_blocks_do_not_change_the_persons():
    """A person is named by size and number, not by its block or kind of fit."""
    whole = recovery.run(recovery.Task(0, 200, "one", 0, 2, 0))["rows"]
    parts = [recovery.run(recovery.Task(0, 200, "one", r, 1, 0))["rows"][0] for r in range(2)]
    assert whole == parts
    assert [task.first for task in recovery.tasks((200,), 25, 5, 0)][:3] == [0, 10, 20]
    assert [task.count for task in recovery.tasks((200,), 25, 5, 0)][:3] == [10, 10, 5]

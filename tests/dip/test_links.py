"""The links of the chain: verdicts from tables by hand."""

import pandas as pd
import pytest

from dipllm_lib.dip import links

NET = "anchor net, all games"
SCORES = pd.DataFrame([
    {"agent": "search", "sos": 20.0, "sos_low": 16.0, "sos_high": 24.0},
    {"agent": NET, "sos": 15.0, "sos_low": 12.0, "sos_high": 18.0},
])
UNTRAINED = {"difference": 0.3, "difference_low": 0.2, "difference_high": 0.4}
ARMS = pd.DataFrame([{"arm": "anchor net, no games"} | UNTRAINED])
KL = pd.DataFrame([
    {"policy": "anchor", "kl": 1.0, "kl_low": 0.8, "kl_high": 1.2},
    {"policy": "after", "kl": 5.0, "kl_low": 4.0, "kl_high": 6.0},
    {"policy": "after, board of another turn", "kl": 5.2, "kl_low": 4.2, "kl_high": 6.2},
])
DECODING = {"better cold": ("points", -1.0, -2.0, -0.5), "better hot": ("points", 2.0, 1.0, 3.0)}


def test_verdicts_by_hand():
    found = links.table(SCORES, NET, ARMS, KL, DECODING)
    assert found["link"].tolist() == [
        "target", "data", "data", "fit", "board", "decoding", "decoding"
    ]  # fmt: skip
    assert found["verdict"].tolist() == [
        "holds", "holds", "not resolved", "fails", "not resolved", "fails", "holds"
    ]  # fmt: skip
    assert found["mean"].tolist() == [20.0, 0.3, 15.0, 5.0, 5.2, -1.0, 2.0]
    assert found["statement"][3] == "the model is closer to the target than the anchor (1.00)"


def test_a_model_that_reads_the_board_and_fits():
    better = KL.assign(kl=[1.0, 0.5, 3.0], kl_low=[0.8, 0.4, 2.0], kl_high=[1.2, 0.6, 4.0])
    found = links.table(SCORES, NET, ARMS, better, {}).set_index("link")["verdict"]
    assert found["fit"] == "holds" and found["board"] == "holds"


def test_a_missing_row_is_named():
    with pytest.raises(KeyError, match="search"):
        links.table(SCORES.iloc[1:], NET, ARMS, KL, {})

"""Our KTO against TRL's: a committed batch, and a live one where TRL is installed."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from dipllm_lib.kto import loss

FIXTURE = json.loads(Path(__file__).with_name("trl_fixture.json").read_text(encoding="utf-8"))
MISSING = [name for name in ("trl", "datasets") if importlib.util.find_spec(name) is None]


def ours(found: dict, lam_d: float, lam_u: float, kappa: float) -> tuple[float, float]:
    """(loss, kl) of the sums of log-probabilities, in float32 as TRL."""
    t = {k: torch.tensor(v) for k, v in found.items() if isinstance(v, list)}
    z0 = loss.z0("mismatched", r_mismatched=t["policy_rotated"] - t["reference_rotated"])
    value = loss.kto(t["policy"] - t["reference"], t["labels"], z0, kappa, lam_d, lam_u)
    return value.item(), z0.item()


def test_the_committed_batch_of_trl_to_a_millionth():
    value, kl = ours(FIXTURE, FIXTURE["lam_d"], FIXTURE["lam_u"], FIXTURE["kappa"])
    assert FIXTURE["versions"]["trl"].startswith("1.16.")
    assert FIXTURE["kl"] > 0.5  # a batch in which the reference point matters
    assert value == pytest.approx(FIXTURE["loss"], abs=1e-6)
    assert kl == pytest.approx(FIXTURE["kl"], abs=1e-6)


def test_rotated_pairs_are_those_of_trl():
    """Prompt i reads the answer of sample i - 1, and the first that of the last."""
    assert loss.rotated(4) == [3, 0, 1, 2]
    assert loss.rotated(1) == [0] and loss.rotated(0) == []


@pytest.mark.slow
@pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not installed: pip install -e .[trl]"
)
def test_trl_itself_through_a_tiny_llama():
    sys.path.insert(0, str(Path(__file__).parent))
    import trl_run

    found = trl_run.run(trl_run.ROWS)
    value, kl = ours(found, trl_run.LAM_D, trl_run.LAM_U, trl_run.KAPPA)
    assert value == pytest.approx(found["loss"], abs=1e-6)
    assert kl == pytest.approx(found["kl"], abs=1e-6)

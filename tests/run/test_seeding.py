"""Named generators, torch's generators, threads."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from dipllm_lib.run import profiles, seeding


def test_child_is_sha256_of_the_name():
    digest = hashlib.sha256(b'[3, "dip", "selfplay", 7]').digest()
    expected = np.random.default_rng(int.from_bytes(digest, "little")).random(4)
    assert (seeding.child(3, "dip", "selfplay", 7).random(4) == expected).all()


def test_child_golden():
    assert seeding.child(0, "a", 1).integers(0, 1000, 5).tolist() == [835, 549, 920, 953, 78]


def test_names_are_told_apart():
    names = [(), (1,), ("1",), (1, 1), ("1", "1"), ("11",), (11,), ("1,1",), (0,)]
    draws = {seeding.child(0, *n).random() for n in names} | {seeding.child(1).random()}
    assert len(draws) == len(names) + 1


def test_numpy_integers_are_integers():
    assert seeding.child(np.int64(2), np.int16(5)).random() == seeding.child(2, 5).random()


@pytest.mark.parametrize("bad", [(True,), (0, 1.5), (0, None), (0, ("a",)), ("0",)])
def test_wrong_names(bad):
    with pytest.raises(TypeError, match="must be an int"):
        seeding.child(*bad)


def test_stream_of_another_process_and_hash_seed():
    code = "from dipllm_lib.run import seeding; print(seeding.child(5, 'x').random())"
    seen = set()
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seen.add(done.stdout.strip())
    assert seen == {str(seeding.child(5, "x").random())}


def test_torch_seed_forks():
    import torch

    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    with seeding.torch_seed(0, "adapter") as first:
        a = torch.rand(2)
    assert torch.equal(torch.rand(3), expected)  # the block left no trace
    with seeding.torch_seed(0, "adapter") as second:
        assert torch.equal(torch.rand(2), a)
    with seeding.torch_seed(0, "other") as other:
        assert not torch.equal(torch.rand(2), a)
    assert first == second != other
    assert 0 <= first < 2**63


def test_start_twice():
    import torch

    before = torch.get_num_threads()
    profile = profiles.load("smoke", 0)
    try:
        seeding.start(profile)
        seeding.start(profile)
        assert torch.get_num_threads() == profile.threads
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(False)


def test_numpy_threads_decide_the_bits():
    """One thread here equals a process that was started with one thread."""
    code = (
        "import hashlib, json, numpy as np\n"
        "from dipllm_lib.run import seeding\n"
        "seeding.numpy_threads({count})\n"
        "r = np.random.default_rng(0)\n"
        "product = r.normal(size=(500, 1000)) @ r.normal(size=(1000, 64))\n"
        "print(json.dumps(hashlib.sha256(product.tobytes()).hexdigest()))"
    )

    def product(variable: str) -> str:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": variable}
        command = [sys.executable, "-c", code.format(count=1)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    assert product("1") == product("2")

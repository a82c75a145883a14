"""Training steps: accumulation, schedule, clipping, checkpointing, bitwise resume."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from dipllm_lib.lm import adapters, steps


def next_token(backbone):
    """Sum over items (lists of ids of equal length) of the next-token loss."""

    def loss(items):
        ids = torch.tensor(items)
        table = backbone.causal(input_ids=ids).logits[:, :-1]
        found = torch.nn.functional.cross_entropy(
            table.transpose(1, 2), ids[:, 1:], reduction="none"
        )
        return found.mean(1).sum()

    return loss


def data(n=12):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, 40, (n, 6), generator=generator).tolist()


def trained(tiny, rank=0, dropout=0.0, part=0, count=3, total=3, checkpointing=False, **changes):
    backbone = tiny()
    adapters.attach(backbone, "t", rank, dropout=dropout)
    trainer = steps.Trainer(backbone, "t", 1e-2, total, 0, checkpointing=checkpointing, **changes)
    facts = [
        trainer.step(next_token(backbone), data()[4 * s : 4 * s + 4], part) for s in range(count)
    ]
    return backbone, trainer, facts


def weights(backbone):
    return torch.cat([p.detach().flatten() for _, p in adapters.trainable(backbone)])


def test_schedule_and_falling_loss(tiny):
    backbone = tiny()
    adapters.attach(backbone, "t", 0)
    trainer = steps.Trainer(backbone, "t", 1e-2, 20, 0)
    facts = [trainer.step(next_token(backbone), data(4)) for _ in range(20)]
    assert [f["lr"] for f in facts[:3]] == pytest.approx([1e-2, 0.95e-2, 0.9e-2])
    assert facts[-1]["lr"] == pytest.approx(1e-2 / 20)
    assert facts[-1]["loss"] < 0.5 * facts[0]["loss"]
    assert not backbone.model.training


def test_cosine_and_warm_up_by_hand(tiny):
    """W = 2 of S = 6: a third, two thirds, then x = 0, 1/4, 1/2, 3/4 of a cosine or a line."""
    cosine = [steps.rate(s, 6, "cosine", 2) for s in range(6)]
    half = 0.5**0.5
    assert cosine == pytest.approx([1 / 3, 2 / 3, 1, (1 + half) / 2, 0.5, (1 - half) / 2])
    assert [steps.rate(s, 6, "linear", 2) for s in range(2, 6)] == [1, 0.75, 0.5, 0.25]
    facts = trained(tiny, count=3, total=4, schedule="cosine", warmup=1)[2]
    assert [f["lr"] for f in facts] == pytest.approx([0.5e-2, 1e-2, 0.75e-2])
    for changes in ({"schedule": "step"}, {"warmup": 3}):
        with pytest.raises(ValueError, match="fewer warm-up steps than steps"):
            trained(tiny, **changes)


def test_count_divides_the_sum(tiny):
    """Eight items in two parts of four, counted as 16: half the loss, half the gradient."""
    facts = []
    for count in (0, 16):
        backbone = tiny()
        adapters.attach(backbone, "t", 0)
        trainer = steps.Trainer(backbone, "t", 1e-2, 5, 0)
        facts.append(trainer.step(next_token(backbone), data(8), part=4, count=count))
    for name in ("loss", "norm"):
        assert facts[1][name] == pytest.approx(facts[0][name] / 2, rel=1e-5)


def test_first_adamw_step_by_hand(tiny):
    """From zero moments AdamW moves each weight by lr times the sign of its gradient."""
    backbone = tiny()
    adapters.attach(backbone, "t", 0)
    before = weights(backbone)
    trainer = steps.Trainer(backbone, "t", 1e-2, 5, 0, clip=1e9)
    trainer.step(next_token(backbone), data(4))
    moved = (weights(backbone) - before).abs()
    assert moved.max().item() == pytest.approx(1e-2, rel=1e-3)
    assert moved.median().item() == pytest.approx(1e-2, rel=1e-2)


@pytest.mark.parametrize("part", [1, 2, 3])
def test_accumulation_equals_the_big_batch(tiny, part):
    """The gradient, not the weight after AdamW's sign-like step, is what must agree."""
    norms = [trained(tiny, part=p, count=1)[2][0] for p in (0, part)]
    assert norms[0]["loss"] == pytest.approx(norms[1]["loss"], abs=1e-6)
    assert norms[0]["norm"] == pytest.approx(norms[1]["norm"], rel=1e-6)
    gradients = []
    for size in (4, part):
        backbone = tiny()
        adapters.attach(backbone, "t", 0)
        for first in range(0, 4, size):
            (next_token(backbone)(data(4)[first : first + size]) / 4).backward()
        gradients.append(torch.cat([p.grad.flatten() for _, p in adapters.trainable(backbone)]))
    assert torch.allclose(*gradients, atol=1e-6)


def test_clipping(tiny):
    """The reported norm is that before clipping."""
    *_, facts = trained(tiny, count=1, clip=1e-3)
    *_, free = trained(tiny, count=1, clip=1e9)
    assert facts[0]["norm"] == pytest.approx(free[0]["norm"]) and free[0]["norm"] > 1e-3


def test_activation_checkpointing_gives_the_same_weights(tiny):
    plain = weights(trained(tiny, rank=2)[0])
    recomputed = weights(trained(tiny, rank=2, checkpointing=True)[0])
    assert torch.allclose(plain, recomputed, atol=1e-7)


@pytest.mark.parametrize(("rank", "dtype"), [(0, "float32"), (2, "float32"), (2, "bfloat16")])
def test_two_and_two_steps_equal_four(tiny, tmp_path, rank, dtype):
    """Bit for bit, with dropout; the checkpoint is one safetensors file. What a kill in the middle
    of a save leaves behind is no checkpoint and is overwritten.
    """
    batches = [data()[3 * s : 3 * s + 3] for s in range(4)]

    def make():
        backbone = tiny(dtype=dtype)
        adapters.attach(backbone, "t", rank, dropout=0.2)
        return backbone, steps.Trainer(backbone, "t", 1e-2, 4, 7, schedule="cosine", warmup=1)

    backbone, trainer = make()
    for batch in batches:
        trainer.step(next_token(backbone), batch)
    half, first = make()
    for batch in batches[:2]:
        first.step(next_token(half), batch)
    (tmp_path / "t.tmp").write_bytes(b"half a checkpoint")
    first.save(tmp_path / "t.safetensors", {"seen": [1, None]})
    assert [p.name for p in tmp_path.iterdir()] == ["t.safetensors"]
    torch.rand(5)
    rest, second = make()
    assert second.resume(tmp_path / "t.safetensors") == {"seen": [1, None]}
    for batch in batches[2:]:
        second.step(next_token(rest), batch)
    assert torch.equal(weights(rest), weights(backbone))
    assert weights(rest).dtype == torch.float32 and rest.head.dtype == getattr(torch, dtype)


KILLED = """
import os, pathlib, runpy, signal, sys
import torch
from dipllm_lib.lm import adapters, backbones, steps
torch.set_num_threads(1)
words = runpy.run_path(sys.argv[1].replace("test_steps", "conftest"))["WORDS"]
tests, file = runpy.run_path(sys.argv[1]), pathlib.Path(sys.argv[2])
model = backbones.load(
    "scratch", hidden=32, layers=2, heads=2, words=words, dtype="bfloat16", seed=0
)
adapters.attach(model, "t", 2, dropout=0.2)
trainer = steps.Trainer(model, "t", 1e-2, 6, 7)
if file.exists():
    trainer.resume(file)
while trainer.done < 6:
    trainer.step(tests["next_token"](model), tests["data"]()[2 * trainer.done :][:2])
    if trainer.done % 2 == 0:
        trainer.save(file, {})
    if trainer.done == int(sys.argv[3]):  # step 3 is lost
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_killed_between_steps_ends_with_the_same_bytes(tmp_path):
    whole, broken = tmp_path / "whole.safetensors", tmp_path / "broken.safetensors"
    command, environment = [sys.executable, "-c", KILLED, __file__], os.environ.copy()
    environment["OMP_NUM_THREADS"] = "1"
    codes = [
        subprocess.run([*command, str(file), dead], timeout=300, env=environment).returncode
        for file, dead in ((whole, "0"), (broken, "3"), (broken, "0"))
    ]
    assert codes == [0, -signal.SIGKILL, 0]
    assert whole.read_bytes() == broken.read_bytes()


def test_deterministic_algorithms(tiny):
    torch.use_deterministic_algorithms(True)
    try:
        runs = [weights(trained(tiny, rank=2, dropout=0.1)[0]) for _ in range(2)]
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(*runs)


def test_infinite_loss_leaves_the_weights(tiny):
    backbone, trainer, _ = trained(tiny, count=1)
    before = weights(backbone)
    with pytest.raises(FloatingPointError, match="step 1: loss inf"):
        trainer.step(lambda items: next_token(backbone)(items) * float("inf"), data(2))
    assert torch.equal(weights(backbone), before)


def test_bad_trainings_are_one_line(tiny, tmp_path):
    backbone = tiny()
    adapters.attach(backbone, "t", 2)
    with pytest.raises(ValueError, match="at least one step"):
        steps.Trainer(backbone, "t", 1e-3, 0, 0)
    with pytest.raises(ValueError, match="no adapter 'u'"):
        steps.Trainer(backbone, "u", 1e-3, 1, 0)
    with pytest.raises(ValueError, match="before the first step"):
        steps.Trainer(backbone, "t", 1e-3, 1, 0).save(tmp_path / "x.safetensors", {})
    _, trainer, _ = trained(tiny, rank=2)
    trainer.save(tmp_path / "x.safetensors", {})
    with pytest.raises(ValueError, match="belongs to another training"):
        steps.Trainer(backbone, "t", 1e-3, 7, 0).resume(tmp_path / "x.safetensors")


RATES = (5e-6, 2e-5, 1e-6)


def test_bounded_schedule_meets_its_three_rates_exactly(tiny):
    """W = 2 of S = 5: a line to the peak, then the middle of the cosine, then the last rate."""
    found = [steps.bounded(s, 5, 2, RATES) for s in range(5)]
    assert found[0] == 5e-6 and found[2] == 2e-5 and found[4] == 1e-6
    assert found[1] == pytest.approx(1.25e-5) and found[3] == pytest.approx(1.05e-5)
    for total in (3, 10, 100, 2000):
        warmup = max(1, total // 10)
        rates = [steps.bounded(s, total, warmup, RATES) for s in range(total)]
        assert (rates[0], rates[warmup], rates[-1]) == RATES == (rates[0], max(rates), min(rates))
    facts = trained(tiny, 2, count=3, total=3, warmup=1, ends=(1e-3, 1e-5))[2]
    assert [one["lr"] for one in facts] == [1e-3, 1e-2, 1e-5]
    for total, warmup in ((5, 0), (5, 4), (2, 1)):
        with pytest.raises(ValueError, match="behind the first and before the last"):
            trained(tiny, 2, total=total, warmup=warmup, ends=(1e-3, 1e-5))


def test_the_plan_of_a_checkpoint_has_ends_only_where_they_were_given(tiny):
    plans = [trained(tiny, 2, warmup=1, ends=ends)[1]._plan() for ends in (None, (1e-3, 1e-5))]
    assert plans[0] == ["t", 3, 1e-2, "linear", 1, 0] and plans[1] == [*plans[0], [1e-3, 1e-5]]


def test_run_stops_and_goes_on(tiny, tmp_path):
    """Five steps in one go, and three of them, a stop, and the rest: the same weights and lines."""

    def go(file, stop):
        backbone = tiny()
        adapters.attach(backbone, "t", 2)
        trainer = steps.Trainer(backbone, "t", 1e-2, 5, 0, warmup=1, ends=(1e-3, 1e-4))

        def row(history):
            if trainer.done == stop:
                raise KeyboardInterrupt
            at = 2 * trainer.done
            facts = trainer.step(next_token(backbone), data()[at : at + 2])
            return {"step": len(history)} | facts

        start = steps.resumed(trainer, file, "k") or [{"step": 0}]
        return backbone, steps.run(trainer, row, start, file, "k", every=3)

    whole, history = go(tmp_path / "a.safetensors", 9)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "b.safetensors", 4)
    again, resumed = go(tmp_path / "b.safetensors", 9)
    assert torch.equal(weights(whole), weights(again)) and history == resumed
    assert [line["step"] for line in history] == list(range(6))

"""Training by imitation: gradients, overfitting, reproducibility, resuming; how well orders are
predicted; the command that refits an anchor.
"""

import dataclasses
import hashlib

import numpy as np
import pandas as pd
import pytest
import torch

from dipllm_lib.dip import (
    anchor,
    anchor_card,
    anchor_net,
    atlas,
    fidelity,
    game,
    human,
    imitate,
    orders,
)
from dipllm_lib.dip.order_scores import order_scores
from dipllm_lib.dip.policies import RandomLegal, SoftDumbBot
from dipllm_lib.run import files, seeding

TINY = imitate.Fit(
    anchor_width=16, anchor_layers=1, anchor_heads=2, anchor_hidden=16, anchor_epochs=2,
    anchor_batch=8, anchor_warmup=4, anchor_dtype="float32",
)  # fmt: skip


@pytest.fixture(scope="module")
def games():
    """Eight games of SoftDumbBot to the end of 1903."""
    names = [("imitate", g) for g in range(8)]
    return game.play([[SoftDumbBot(0.07, 0.02)] * 7] * 8, 0, names, game.EndRules(1903))


@pytest.fixture(scope="module")
def examples(games):
    return human.examples(games)[0]


def total_loss(net, examples):
    batch = anchor_net.batch(examples)
    return -anchor_net.log_probs(net(batch), batch)[0].sum()


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_gradient_of_a_batch_is_the_sum_over_its_positions(examples, kind):
    net = anchor_net.Net(dataclasses.replace(TINY, anchor_dropout=0.0), seed=1)
    rows = imitate.kinds(examples)[kind][:6]
    packed = torch.autograd.grad(
        total_loss(net, examples.take(rows)), list(net.parameters()), allow_unused=True
    )
    single = [
        torch.autograd.grad(
            total_loss(net, examples.take(rows[i : i + 1])),
            list(net.parameters()),
            allow_unused=True,
        )
        for i in range(len(rows))
    ]
    for k, (name, _) in enumerate(net.named_parameters()):
        if packed[k] is None:
            assert name.startswith("unit.") and kind == 2
            continue
        added = sum(one[k] for one in single)
        torch.testing.assert_close(packed[k], added, rtol=2e-3, atol=2e-4, msg=name)


def test_compiled_scores_have_the_gradients_of_the_plain_formula():
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    shapes = ((12, 8), (32, 8), (3, 8), (8,))
    weights = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    rows = torch.from_numpy(rng.integers(-1, 12, (20, 2)))
    bits = torch.from_numpy(rng.integers(0, 2**32, 20))
    first, slot = torch.tensor([0, 5, 5, 20]), torch.tensor([0] * 5 + [2] * 15)

    def plain(projected, relation, query, vector):
        hidden = (projected[rows.clamp(min=0)] * (rows >= 0)[:, :, None]).sum(1) + query[slot]
        hidden = hidden + (bits[:, None] >> torch.arange(32) & 1).float() @ relation
        return torch.relu(hidden) @ vector

    given = torch.randn(20, generator=generator)
    ours, theirs = order_scores(*weights, rows, bits, first), plain(*weights)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    for a, b in zip(*(torch.autograd.grad(x @ given, weights) for x in (ours, theirs))):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_net_learns_twenty_turns_by_heart(examples):
    """From about 2.4 nats per order to nearly none, and the numpy anchor gives the same orders."""
    few = examples.take(imitate.kinds(examples)[0][[0, 9, 20]])
    assert len(few.board) >= 20
    settings = dataclasses.replace(
        TINY, anchor_width=32, anchor_hidden=32, anchor_dropout=0.0, anchor_epochs=250,
        anchor_lr=5e-3, anchor_decay=0.0,
    )  # fmt: skip
    with seeding.torch_threads(1):
        fitted, history = imitate.fit(few, settings, seed=0, every=25)
    assert history.loss.iloc[0] > 1 > 0.02 > history.loss.iloc[-1]
    table = fidelity.of_anchor(fitted, few)
    assert table.correct.mean() == 1 and table.log_prob.mean() > -0.02
    for turn, low, high in fidelity.turns_of(few):
        joint = tuple(few.orders[low:high].tolist())
        assert fitted.log_prob(turn, [joint])[0] == pytest.approx(
            table.log_prob[low:high].sum(), abs=1e-3
        )


def test_same_seed_same_weights_and_resumed_alike(examples, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    with seeding.torch_threads(1):
        whole, history = imitate.fit(examples, TINY, seed=4, every=5)
        again, _ = imitate.fit(examples, TINY, seed=4, every=5)
        other, _ = imitate.fit(examples, TINY, seed=5, every=5)
        halted = imitate.Trainer(examples, TINY, seed=4)
        for _ in range(5):
            halted.step()
        halted.save(path)
        said = []
        resumed, _ = imitate.fit(examples, TINY, 4, checkpoint=path, every=5, say=said.append)
    assert whole.to_bytes() == again.to_bytes() == resumed.to_bytes() != other.to_bytes()
    assert said[0] == "resumed after step 5"
    assert history.step.tolist() == [*range(5, halted.steps, 5), halted.steps]
    assert history.lr.iloc[-1] == 0
    assert imitate.Trainer(examples, TINY, seed=4).resume(path)  # now at the end
    assert not imitate.Trainer(examples, TINY, seed=6).resume(path)
    assert not imitate.Trainer(examples, TINY, seed=4).resume(tmp_path / "none")


def test_an_epoch_is_every_movement_position_once(examples):
    moves, retreats, builds = imitate.kinds(examples)
    found = imitate.plan(examples, TINY, 0, 1)
    flat = np.concatenate(found)
    assert np.array_equal(np.sort(flat[np.isin(flat, moves)]), moves)
    assert np.isin(flat, retreats).sum() == round(0.2 * len(retreats))
    assert np.isin(flat, builds).sum() == round(0.2 * len(builds))
    for rows in found:
        assert (
            len(set(examples.boards.phase[rows] % 2 + 2 * (examples.boards.phase[rows] == 4))) == 1
        )
    other = np.concatenate(imitate.plan(examples, TINY, 1, 1))
    assert not np.array_equal(flat, other)


def test_baselines_by_hand(examples):
    start = examples.take(np.flatnonzero(examples.boards.phase == 0)[:1])  # Spring 1901
    table = fidelity.of_baseline("uniform", start)
    sizes = [len(ids) for turn in orders.turns(start.boards) for ids in turn.lists]
    assert table.correct.tolist() == pytest.approx([1 / size for size in sizes])
    assert table.log_prob.tolist() == pytest.approx([-np.log(size) for size in sizes])
    holds = [orders.to_text(int(order)).endswith(" H") for order in start.orders]
    assert fidelity.of_baseline("hold", start).correct.tolist() == holds
    given = np.bincount(start.orders, minlength=len(orders.VOCABULARY))
    assert fidelity.of_baseline("frequent", start, given).correct.all()


def test_conditionals_of_a_policy(examples):
    """They sum to one, and the chosen ones multiply to the joint probability."""
    policy = SoftDumbBot(0.07, 0.02)
    some = examples.take(np.flatnonzero(examples.boards.phase % 2 == 0)[:2])
    table = fidelity.of_policy(policy, some)
    for turn, low, high in fidelity.turns_of(some):
        joint = tuple(some.orders[low:high].tolist())
        for found in fidelity.conditionals(policy, turn, joint):
            assert np.exp(found).sum() == pytest.approx(1)
        assert table.log_prob[low:high].sum() == pytest.approx(policy.log_prob(turn, [joint])[0])


def test_summary_by_hand():
    table = pd.DataFrame({
        "game": [0, 0, 1, 1], "year": [1901, 1901, 1905, 1905], "kind": ["moves"] * 4,
        "turn": [0, 0, 1, 2], "log_prob": [-1.0, -2.0, -3.0, -2.0], "correct": [1, 0, 1, 1],
    })  # fmt: skip
    found = fidelity.summary(table, np.random.default_rng(0), 200)
    assert found.years.tolist() == ["all", "1901", "1905-1909"]
    row = found.iloc[0]
    assert (row.orders, row.turns, row.accuracy, row.nats) == (4, 3, 0.75, 2.0)
    assert row.exact == pytest.approx(2 / 3)
    assert (row.accuracy_low, row.accuracy_high) == (0.5, 1.0)  # both games are game 0, or game 1


def test_divergence(examples):
    teacher, uniform = SoftDumbBot(0.07, 0.02), RandomLegal()
    turns = orders.turns(examples.boards.take([0]))
    rngs = [np.random.default_rng(k) for k in range(len(turns))]
    same = fidelity.divergence(teacher, teacher, turns, 20, rngs, np.random.default_rng(0), 100)
    assert same == (0, 0, 0)
    rngs = [np.random.default_rng(k) for k in range(len(turns))]
    mean, low, high = fidelity.divergence(
        teacher, uniform, turns, 200, rngs, np.random.default_rng(0), 100
    )
    assert 2 < low < mean < high


def test_refit_from_a_folder(games, tmp_path, capsys, monkeypatch):
    """The whole way: games in, weights and card out; bad input in one line."""
    folder, out = tmp_path / "games", tmp_path / "anchor_test.safetensors"
    lines = [files.to_json(one.to_saved()) + "\n" for one in games * 3]
    files.write_text(folder / "games.jsonl", "".join(lines))
    monkeypatch.setattr(anchor_card, "SAMPLE", 4)
    work = tmp_path / "work"
    asked = ["--games", str(folder), "--out", str(out), "--epochs", "1", "--resume", str(work)]
    assert imitate.main(asked, TINY) == 0
    card = out.with_suffix(".md").read_text(encoding="utf-8")
    assert hashlib.sha256(out.read_bytes()).hexdigest() in card
    found = anchor.load(out)
    assert found.name == "anchor_test" and found.card["games"] == {
        "train": 22,
        "validation": 1,
        "test": 1,
    }
    assert found.card["counts"]["games"] == 24 and (work / "history.csv").is_file()
    book = found.card["openings"]["FRANCE"]
    assert (
        book["games"] == 24 and list(book["joint"].values()) == sorted(book["joint"].values())[::-1]
    )
    assert sum(share for text, share in book["orders"].items() if text.startswith("A PAR")) > 0.9
    first = out.read_bytes()
    assert imitate.main(asked, TINY) == 0 and out.read_bytes() == first
    later = tmp_path / "later.safetensors"
    going_on = ["--games", str(folder), "--epochs", "1", "--lr", "0.0001", "--start", str(out)]
    assert imitate.main([*going_on, "--out", str(later)], TINY) == 0
    commands = anchor.load(later).card["commands"]
    assert [line.split("--epochs")[1] for line in commands] == [
        " 1 --lr 0.0015 --seed 0", " 1 --lr 0.0001 --seed 0 --start FILE",
    ]  # fmt: skip
    gaps = [
        np.abs(a - b).max()
        for a, b in zip(found.weights.values(), anchor.load(later).weights.values())
    ]
    assert 0 < max(gaps) < 0.01  # it went on from the weights of the first fit
    capsys.readouterr()
    for bad, words in (
        ([*going_on, "--out", "x.safetensors", "--seed", "1"], "another seed"),
        (["--games", str(folder), "--out", "x.safetensors", "--start", "none"], "no such file"),
        (["--games", str(tmp_path / "none"), "--out", "x.safetensors"], "no such folder"),
        (["--games", str(folder), "--out", "x.bin"], "must end in .safetensors"),
        (["--games", str(folder), "--out", "x.safetensors", "--epochs", "0"], "at least 1"),
    ):
        assert imitate.main(bad) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1


def test_bots_are_imitated(examples):
    """A small net is nearer to SoftDumbBot than the uniform policy is, on turns it never saw."""
    settings = dataclasses.replace(TINY, anchor_width=32, anchor_hidden=32, anchor_epochs=12)
    rows = np.arange(examples.boards.n)
    train = examples.take(rows[examples.game < 7])
    test = examples.take(np.flatnonzero((examples.game == 7) & (examples.boards.phase == 2))[:1])
    with seeding.torch_threads(1):
        fitted, _ = imitate.fit(train, settings, seed=0, every=1000)
    turns = orders.turns(test.boards)

    def distance(to):
        rngs = [np.random.default_rng(k) for k in range(len(turns))]
        teacher = SoftDumbBot(0.07, 0.02)
        return fidelity.divergence(teacher, to, turns, 50, rngs, np.random.default_rng(0), 50)[0]

    assert distance(fitted) < 0.8 * distance(RandomLegal())
    assert atlas.N_POWERS == len(turns)

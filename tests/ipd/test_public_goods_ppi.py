"""Learners in the public goods of three: games against the exact chain and by hand, the loss of the
model by hand, a run that resumes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import models, ppi, ppi_fit, ppi_settings
from dipllm_lib.ipd import public_goods as pg
from dipllm_lib.ipd import public_goods_games as games
from dipllm_lib.ipd import public_goods_ppi as pgp
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.run import seeding

BASE = replace(
    ppi_settings.SMOKE,
    model=ModelSettings(hidden=8, rounds=20),
    first_games=60,
    games=20,
    first_steps=4,
    steps=2,
    batch=16,
)
SETTINGS = pgp.setting(BASE, 1.6)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


class MemoryOne:
    """Learners that all play one vector (7,)."""

    chunk = 64

    def __init__(self, vector):
        self.vector = torch.from_numpy(np.asarray(vector, dtype=np.float32))

    def start(self, table):
        return None

    def act(self, state, obs, u, noise):
        return u < self.vector[obs], state


def stream(i, purpose):
    return seeding.child(0, "public goods games", i, purpose)


def fixed(vector):
    return lambda _, n: np.tile(vector, (n, 1))


def test_games_of_learners_against_the_exact_chain():
    """Cooperation within 4 standard errors, with the partner and without."""
    p, q, r = pg.sample("uniform", 3, seeding.child(1, "agents"))
    n, rounds, goods = 3000, 12, pg.PublicGoods(2.4)
    seated = games.seats(2, fixed(q), fixed(r), (n, n, rounds), stream)
    codes = games.play(MemoryOne(p), seated)
    assert codes.shape == (2, 2 * n, rounds)
    for part, agents in ((codes[:, :n], (p, p, q)), (codes[:, n:], (p, r, r))):
        reward, share = pg.finite(agents, rounds, goods)
        by_game = games.own_actions(part[0]).mean(axis=1)
        se = by_game.std(ddof=1) / np.sqrt(n)
        assert abs(by_game.mean() - share[0, 0]) < 4 * se
        beside = games.others(part[0]).mean(axis=1)
        se = beside.std(ddof=1) / np.sqrt(n)
        assert abs(beside.mean() - share[0, 1:].sum()) < 4 * se
        found = games.means(part[:1], goods)[0]
        assert found[1] == pytest.approx(goods.r * (found[0] + 2 * found[2]) / 3 - found[0])
        assert abs(found[1] - reward[0, 0]) < 0.05


def test_partners_see_the_same_game_from_two_seats():
    """With codes of both, the third's action of every round is known, and is the same."""
    pool = lambda rng, n: pg.sample("uniform", n, rng)  # noqa: E731
    seated = games.seats(4, pool, pool, (30, 10, 8), stream)
    codes = games.play(MemoryOne(pg.named("random")), seated)
    one, two = codes[0, :30], codes[1, :30]
    third = games.others(one).astype(int) - games.own_actions(two)
    np.testing.assert_array_equal(third, games.others(two).astype(int) - games.own_actions(one))
    assert set(np.unique(third)) == {0, 1}
    # chunks of another size, and another stack, change nothing
    small = MemoryOne(pg.named("random"))
    small.chunk = 7
    np.testing.assert_array_equal(games.play(small, seated), codes)
    alone = games.seats(2, pool, pool, (30, 10, 8), stream)
    np.testing.assert_array_equal(games.play(small, alone), codes[:2])
    with pytest.raises(ValueError, match="3 learners cannot be paired"):
        games.seats(3, pool, pool, (1, 0, 8), stream)


def test_a_sequence_by_hand():
    """Two learners that give while one other does, and AllD: all of them give throughout."""
    seated = games.seats(2, fixed(pg.named("AllD")), fixed(pg.named("AllD")), (1, 1, 4), stream)
    codes = games.play(MemoryOne(pg.named("any")), seated)
    np.testing.assert_array_equal(codes[:, 0], [[2] * 4] * 2)  # C, one of the others
    np.testing.assert_array_equal(codes[:, 1], [[3, 6, 6, 6]] * 2)  # C alone, then nobody


def test_the_loss_of_the_reply_by_hand():
    """Own C, two others gave (code 1): softmax over 2, 1, 0 given C; own D, none gave (code 6)."""
    reply = torch.log(torch.tensor([0.5, 0.3, 0.2, 0.1, 0.2, 0.7])).expand(1, 1, 2, 6)
    codes = np.array([[[1, 6]]], dtype=np.uint8)
    own = torch.tensor([[[True, False]]])
    loss = ppi_fit.counted(reply, own, codes, 3)
    assert loss.item() == pytest.approx(-(np.log(0.5) + np.log(0.7)) / 2)


def test_the_model_sees_seven_codes():
    stack = models.build(SETTINGS.model, [seeding.child(0, "w")])
    assert stack.settings.codes == 7
    obs = torch.arange(7).reshape(1, 1, 7)
    heads = stack.read(stack.unroll(obs))
    assert heads["reply"].shape == (1, 1, 7, 6) and heads["q"].shape == (1, 1, 7, 2)
    with pytest.raises(ValueError, match="codes are 0 to 6"):
        stack.unroll(obs + 1)
    # every code has weights of its own: the gradient of the table is nowhere 0
    stack.unroll(obs).sum().backward()
    assert (stack.core.input.grad.abs().sum(dim=2) > 0).all()
    with pytest.raises(ValueError, match="more than two players"):
        replace(SETTINGS.model, input="summed")
    with pytest.raises(ValueError, match="no limit is known"):
        replace(SETTINGS, gate=0.01)


def test_a_stopped_block_goes_on_and_gives_the_unbroken_result(tmp_path, monkeypatch):
    task = pgp.Task(SETTINGS, (0, 1), 4, (1, 3))
    whole = pgp.train(task)
    assert len(whole.phases) == 3 * 4 and len(whole.probes) == 2 * 4 * 3 * len(pgp.PROBES)
    kept, advance, calls = replace(task, folder=tmp_path), ppi.PPI.advance, []

    def stops(run):
        calls.append(run.phase)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return advance(run)

    monkeypatch.setattr(ppi.PPI, "advance", stops)
    with pytest.raises(KeyboardInterrupt):
        pgp.train(kept)
    found = pgp.train(kept)
    assert calls == [0, 1, 1, 2]
    assert found.phases.equals(whole.phases) and found.probes.equals(whole.probes)


def test_rewards_follow_from_cooperation_in_every_table():
    found = pgp.train(pgp.Task(SETTINGS, (0,), 4, (3,)))
    table = found.probes
    total = table["cooperation"] + 2 * table["other_cooperation"]
    np.testing.assert_allclose(table["reward"], 1.6 * total / 3 - table["cooperation"], atol=1e-12)
    beside = table.set_index("opponent")["other_cooperation"]
    assert (beside["AllC, AllC"] == 1).all() and (beside["AllD, AllD"] == 0).all()
    assert found.phases["learner_cooperation"].between(0, 1).all()
    # a block of seeds plays the same games: losses agree
    both = pgp.train(pgp.Task(SETTINGS, (0, 1), 4, ()))
    np.testing.assert_allclose(
        both.phases.query("seed == 0 and phase == 1")["reply_loss"],
        found.phases.query("phase == 1")["reply_loss"],
        atol=1e-5,
    )


def test_wrong_settings():
    with pytest.raises(ValueError, match="need settings of `setting`"):
        pgp.PublicGoodsPPI(BASE, ppi.pairs([0]))

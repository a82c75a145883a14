"""A2C: games with both seats, a stack equal to its agents alone, resume, and what it learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import a2c, a2c_games, game, models, tabular
from dipllm_lib.ipd.a2c_settings import CPU, PAPER, SMOKE, Linear, arm, constant
from dipllm_lib.ipd.batch_play import SWAP
from dipllm_lib.run import seeding

TINY = replace(
    SMOKE,
    model=replace(SMOKE.model, hidden=8, rounds=6),
    epsilon=Linear(0.1, 0.02, 15),
    prediction=0.0,
    games=8,
    iterations=12,
    block=2,
    lr=1e-2,
    reward_scale=0.2,
)


@pytest.fixture(autouse=True)
def one_thread():
    with seeding.torch_threads(1):
        yield


def weights(training):
    return {name: p.detach().clone() for name, p in training.parameters.items()}


def same(first, second):
    return all(np.array_equal(first[name], second[name]) for name in first | second)


def test_first_policy_is_one_half_and_first_values_are_zero():
    training = a2c.A2C(TINY, [4, 5])
    chance = a2c_games.draw(TINY, [4, 5], "main", 0)
    played = a2c_games.play(training.stack, chance, 0.0)
    assert not played.values.any()
    expected = (chance.draws.own < 0.5).permute(1, 2, 0).float()
    assert torch.equal(played.own, expected)
    training.train()
    assert a2c_games.play(training.stack, chance, 0.0).values.abs().max() > 0


def test_a_game_of_two_learners_is_seen_from_both_seats():
    training = a2c.A2C(TINY, [0, 1]).train(2)
    chance = a2c_games.draw(TINY, [0, 1], "main", 9)
    played = a2c_games.play(training.stack, chance, 0.1)
    swapped = torch.tensor([1, 0, 3, 2])
    assert torch.equal(played.other[:, :4], played.own[swapped, :4])
    assert torch.equal(SWAP[played.obs[:, :4]], played.obs[swapped, :4])
    own, other = (x[1].numpy().astype(np.uint8) for x in (played.own, played.other))
    assert np.array_equal(game.observe(own, other), played.obs[1].numpy())
    _, values = a2c_games.read(training.stack, training.stack.unroll(played.obs))
    assert torch.allclose(values, played.values, atol=1e-5)


def test_tabular_opponents_read_their_own_view():
    """TFT repeats the learner's last action, suspicious TFT too but opens with D."""
    training = a2c.A2C(TINY, [0])
    chance = a2c_games.draw(TINY, [0], "main", 0)
    pair = np.stack([tabular.named("TFT"), tabular.named("STFT")] * 2)
    chance.table.vectors[:] = torch.from_numpy(pair).float()
    played = a2c_games.play(training.stack, chance, 0.0)
    own, other = played.own[:, 4:], played.other[:, 4:]
    assert torch.equal(other[..., 1:], own[..., :-1]) and 0 < own.mean() < 1
    assert other[0, :, 0].tolist() == [1, 0, 1, 0]


def test_arms_share_their_random_numbers_and_differ_in_what_they_say():
    settings = replace(TINY, games=6)
    chances = {
        name: a2c_games.draw(arm(settings, name), [3], "main", 7)
        for name in ("mixed", "identity", "no_tabular")
    }
    mixed, told, alone = chances.values()
    for other in (told, alone):
        assert torch.equal(mixed.draws.own, other.draws.own)
    assert torch.equal(mixed.table.vectors, told.table.vectors)
    assert torch.equal(mixed.draws.tabular, told.draws.tabular)
    assert mixed.table.z is None and told.table.z.shape == (2, 6, 10)
    assert not told.table.z[:, :3].any() and told.table.z[:, 3:].any(dim=2).all()
    assert alone.table.learners == 6 and alone.table.vectors.shape == (2, 0, 5)
    with pytest.raises(ValueError, match="arm 'all': use one of mixed, identity, no_tabular"):
        arm(settings, "all")


def test_identity_reaches_the_policy_and_tables_know_their_opponents():
    training = a2c.A2C(arm(TINY, "identity"), [0]).train(2)
    chance = a2c_games.draw(training.settings, [0], "main", 0)
    obs = torch.zeros(2, 8, 1, dtype=torch.int64)
    odds, _ = a2c_games.read(training.stack, training.stack.unroll(obs, z=chance.table.z))
    assert len(set(odds[0, :4, 0].tolist())) == 1  # all learners look alike, tabular agents do not
    assert len(set(odds[0, 4:, 0].tolist())) == 4
    alone = a2c.A2C(arm(TINY, "no_tabular"), [0]).train()
    assert set(alone.table()["opponent"]) == {"learner"}
    assert set(training.table()["opponent"]) == {"learner", "tabular"}


def test_tables_by_hand():
    """One block of one iteration: means of the games that were played, r_X = 2 c_Y - c_X."""
    settings = replace(TINY, block=1)
    training = a2c.A2C(settings, [2, 9]).train()
    chance = a2c_games.draw(settings, [2, 9], "main", 0)
    played = a2c_games.play(a2c.A2C(settings, [2, 9]).stack, chance, 0.1)
    table = training.table().set_index(["seed", "seat", "opponent"])
    assert len(table) == 8 and set(table["iteration"]) == {1} and set(table["epsilon"]) == {0.1}
    for agent, (seed, seat) in enumerate([(2, 0), (2, 1), (9, 0), (9, 1)]):
        for opponent, games in (("learner", slice(0, 4)), ("tabular", slice(4, 8))):
            row = table.loc[(seed, seat, opponent)]
            own, other = (float(x[agent, games].mean()) for x in (played.own, played.other))
            assert row["cooperation"] == pytest.approx(own, abs=1e-6)
            assert row["reward"] == pytest.approx(2 * other - own, abs=1e-6)
            assert row["other_reward"] == pytest.approx(2 * own - other, abs=1e-6)
    losses = training.losses()
    assert losses["entropy"].tolist() == pytest.approx([np.log(2)] * 4)
    assert (losses["norm"] > 0).all() and not losses["prediction"].any()


def test_rewards_follow_other_payoffs():
    settings = replace(TINY, payoffs=game.Payoffs(3.0, 0.0, 5.0, 1.0))
    own, other = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert a2c.rewards_of(settings, own, other).tolist() == [3.0, 0.0, 5.0, 1.0]


def test_adam_is_torchs_with_a_rate_per_agent():
    rng = seeding.child(0, "adam")
    start = torch.from_numpy(rng.normal(size=(3, 4)))
    ours = {"w": start.clone().requires_grad_()}
    rates = torch.tensor([0.1, 0.02, 0.0], dtype=torch.float64)
    adam = a2c.Adam(ours, 1e-5)
    theirs = [start[i].clone().requires_grad_() for i in range(3)]
    optimisers = [
        torch.optim.Adam([p], lr=lr, eps=1e-5) for p, lr in zip(theirs, rates.tolist(), strict=True)
    ]
    for _ in range(5):
        grad = torch.from_numpy(rng.normal(size=(3, 4)))
        ours["w"].grad = grad.clone()
        adam.step(rates)
        for p, optimiser, part in zip(theirs, optimisers, grad, strict=True):
            p.grad = part.clone()
            optimiser.step()
    assert torch.allclose(ours["w"], torch.stack(theirs), atol=1e-12)
    assert torch.equal(ours["w"][2], start[2])


def test_norms_are_clipped_by_agent():
    """Gradients (3, 4) of norm 5 become norm 1, those of norm 0.5 stay."""
    p = {"a": torch.zeros(2, 1, requires_grad=True), "b": torch.zeros(2, 1, requires_grad=True)}
    p["a"].grad, p["b"].grad = torch.tensor([[3.0], [0.3]]), torch.tensor([[4.0], [0.4]])
    assert a2c.clip(p, 1.0).tolist() == pytest.approx([5.0, 0.5])
    assert p["a"].grad.flatten().tolist() == pytest.approx([0.6, 0.3], abs=1e-6)
    assert p["b"].grad.flatten().tolist() == pytest.approx([0.8, 0.4], abs=1e-6)


def test_a_seed_in_a_stack_is_the_seed_alone():
    settings = replace(TINY, iterations=10, block=1, prediction=1.0)
    stack, alone = (a2c.A2C(settings, seeds).train(10) for seeds in ([5, 6, 7], [6]))
    for name, p in weights(alone).items():
        assert torch.allclose(weights(stack)[name][2:4], p, atol=1e-4), name
    for tables in (a2c.A2C.table, a2c.A2C.losses):
        mine = tables(stack)[lambda t: t["seed"] == 6].select_dtypes("number").to_numpy()
        assert np.allclose(mine, tables(alone).select_dtypes("number").to_numpy(), atol=1e-5)


@pytest.mark.parametrize("name", ["mixed", "identity"])
@pytest.mark.parametrize("core", ["gru", "transformer"])
def test_chunks_are_the_same_step(core, name):
    model = replace(TINY.model, core=core)
    settings = arm(replace(TINY, model=model, block=3), name)
    whole, chunks = a2c.A2C(settings, [1]).train(), a2c.A2C(replace(settings, chunk=3), [1]).train()
    for key, p in weights(whole).items():
        assert torch.allclose(p, weights(chunks)[key], atol=1e-5), key
    assert np.allclose(whole.rows, chunks.rows, atol=1e-5)


def test_resume_is_bit_for_bit_and_the_same_seed_gives_the_same_bytes():
    settings = replace(TINY, calm_lr=1e-3, calm_at=0.3, prediction=0.5)
    whole, first = a2c.A2C(settings, [0, 1]).train(6), a2c.A2C(settings, [0, 1]).train(2)
    second = a2c.A2C(settings, [0, 1]).load(first.state()).train(4)
    assert whole.done == second.done == 12 and same(whole.state(), second.state())
    assert whole.table().equals(second.table()) and len(whole.table()) == 6 * 8
    assert whole.train(3).done == 12  # the last iteration is the end
    other = a2c.A2C(settings, [0, 2]).train(6)
    assert not torch.equal(whole.parameters["core.bias"], other.parameters["core.bias"])
    with pytest.raises(ValueError, match="other settings or seeds"):
        a2c.A2C(settings, [0]).load(first.state())


def test_streams_are_different_trainings():
    one, two = (a2c.A2C(TINY, [0], stream).train() for stream in ("main", "second run"))
    assert not torch.equal(one.parameters["core.bias"], two.parameters["core.bias"])


def test_a_pair_calms_down_when_it_cooperates():
    training = a2c.A2C(replace(TINY, calm_lr=1e-3, calm_at=0.4), [0, 1])
    training.rows = [np.full((4, 12), 0.9)]
    training.rows[0][:, 0] = [0.3, 0.45, 0.2, 0.7]
    training._calm()
    assert training.lr.tolist() == pytest.approx([1e-2, 1e-2, 1e-3, 1e-3])
    training.rows[0][:, 0] = 0.0  # it stays calm
    training._calm()
    assert training.lr.tolist() == pytest.approx([1e-2, 1e-2, 1e-3, 1e-3])


def test_schedules():
    assert [Linear(0.1, 0.02, 4).at(k) for k in (0, 2, 4, 9)] == pytest.approx([
        0.1,
        0.06,
        0.02,
        0.02,
    ])
    assert constant(0.5).at(0) == constant(0.5).at(7) == 0.5


def frozen_of(seeds, training=None):
    """Untrained agents play C with probability one half, in every state."""
    return a2c_games.Actor(a2c.A2C(TINY, seeds, "frozen").stack)


def test_defection_is_learned_against_a_random_player_who_stays_as_it_is():
    frozen = frozen_of([0, 1])
    before = {name: p.detach().clone() for name, p in frozen.stack.named_parameters()}
    settings = replace(
        TINY, tabular=0.0, games=32, iterations=150, block=50, entropy=constant(0.001),
        epsilon=constant(0.0), reward_scale=0.2,
    )  # fmt: skip
    training = a2c.A2C(settings, [0, 1], frozen=frozen).train(3)
    table = training.table()
    assert table["cooperation"].iloc[:4].mean() > 0.1
    assert (table["cooperation"].iloc[-4:] < 0.05).all()
    assert (table["reward"].iloc[-4:] > 0.9).all()  # 2 * 1/2 - 0
    assert table["other_cooperation"].iloc[-4:].tolist() == pytest.approx([0.5] * 4, abs=0.03)
    for name, p in frozen.stack.named_parameters():
        assert torch.equal(p, before[name]) and p.grad is None


def test_prediction_learns_the_opponent_and_none_is_made_without_it():
    settings = replace(
        TINY, tabular=1.0, learners=1, pool="human", games=64, iterations=120, block=30,
        prediction=1.0, lr=2e-2,
    )  # fmt: skip
    losses = a2c.A2C(settings, [0], "told").train(4).losses()["prediction"]
    assert losses.iloc[0] > losses.iloc[-1] + 0.05 and losses.iloc[-1] < 0.6
    assert not [name for name in a2c.A2C(TINY, [0]).parameters if name.startswith("prediction")]


def test_weights_of_a_trained_stack_are_taken():
    extorters = a2c.A2C(replace(TINY, tabular=0.0), [0, 1], frozen=frozen_of([0, 1])).train()
    step3 = a2c.start_from(a2c.A2C(TINY, [0, 1]), extorters.stack)
    assert all(torch.equal(p, step3.parameters[name]) for name, p in extorters.parameters.items())
    predictor = models.build(
        replace(TINY.model, learner="ppi"), [seeding.child(i, "start") for i in range(4)]
    )
    core = a2c.start_from(a2c.A2C(TINY, [0, 1]), predictor, heads=False)
    assert torch.equal(
        core.parameters["core.hidden"], dict(predictor.named_parameters())["core.hidden"]
    )
    assert not core.parameters["readout.heads.weight"].any()
    with pytest.raises(ValueError, match="has no policy: take its core"):
        a2c.start_from(a2c.A2C(TINY, [0, 1]), predictor)
    with pytest.raises(ValueError, match="no weight core"):
        a2c.start_from(a2c.A2C(TINY, [0]), predictor, heads=False)
    with pytest.raises(ValueError, match="start before it"):
        a2c.start_from(step3.train(), extorters.stack)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"advantage_norm": "all"}, "advantage_norm 'all': use one of batch, per_kind, none"),
        ({"pool": "mix"}, "pool 'mix': use one of uniform"),
        ({"identity": "yes"}, "identity 'yes'"),
        ({"games": 7}, "a share 0.5 of 7 games is no whole number"),
        ({"tabular": 1.5}, "tabular is 1.5: must lie in"),
        ({"learners": 3}, "learners is 3"),
        ({"gamma": 1.1}, "gamma is 1.1"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"block": 0}, "block is 0"),
        ({"epsilon": constant(2.0)}, "epsilon.start is 2.0"),
        ({"model": replace(SMOKE.model, learner="ppi")}, "learner 'a2c'"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **change)


def test_impossible_trainings_are_refused():
    for seeds in ([], [1, 1]):
        with pytest.raises(ValueError, match="distinct seeds"):
            a2c.A2C(TINY, seeds)
    with pytest.raises(ValueError, match="1 agents cannot be paired"):
        a2c.A2C(replace(TINY, learners=1), [0]).train()
    with pytest.raises(FloatingPointError, match="iteration [1-9]: gradient not finite: lower lr"):
        a2c.A2C(replace(TINY, lr=1e38), [0]).train(6)


def test_published_columns():
    """Table 2: batch, c_r, lambda, c_e, learning rate, normalisation; and what all share."""
    columns = {
        name: (
            s.games,
            s.reward_scale,
            s.lam_td,
            s.lam_gae,
            s.entropy.at(0),
            s.lr,
            s.advantage_norm,
        )
        for name, s in PAPER.items()
    }
    assert columns == {
        "step1": (2048, 0.2, 0.99, 0.99, 0.001, 5e-3, "batch"),
        "step2": (2048, 0.05, 1.0, 1.0, 0.001, 5e-3, "none"),
        "step3": (4096, 0.02, 0.95, 0.95, 0.001, 5e-4, "batch"),
        "mixed": (4096, 0.02, 1.0, 1.0, 0.01, 1e-3, "batch"),
    }
    shares = {name: (s.tabular, s.learners, s.iterations) for name, s in PAPER.items()}
    assert shares == {
        "step1": (1.0, 1, 50_000),
        "step2": (0.0, 2, 100_000),
        "step3": (0.0, 2, 10_000),
        "mixed": (0.5, 2, 200_000),
    }
    for s in PAPER.values():
        assert (s.gamma, s.value_weight, s.adam_eps, s.norm) == (0.99, 0.5, 1e-5, 1.0)
        assert s.epsilon.at(0) == s.prediction == s.calm_lr == 0.0 and s.pool == "uniform"
        assert (s.model.hidden, s.model.rounds) == (128, 100)
        rngs = [seeding.child(0, "count")]
        assert models.build(s.network, rngs).parameters_per_agent() == 62_531
    assert CPU.epsilon == constant(0.0) and CPU.prediction == 1.0 and CPU.pool == "beta"

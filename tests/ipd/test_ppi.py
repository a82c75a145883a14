"""Algorithm 1 of PPI: what each phase trains on and plays, resumed and stacked runs, the gate."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import batch_play, game, identity, ppi, ppi_data, ppi_fit, ppi_settings, tabular
from dipllm_lib.ipd.batch_play import MemoryOne
from dipllm_lib.ipd.model_settings import ModelSettings

SMALL = replace(
    ppi_settings.SMOKE,
    model=ModelSettings(hidden=8, rounds=20),
    first_games=60,
    games=20,
    first_steps=6,
    steps=3,
    batch=16,
)
MC = replace(SMALL, q="mc", rollouts=2, games=8)
TOLD = ppi_settings.arm(SMALL, "identity")
ALONE = ppi_settings.arm(SMALL, "no_tabular")


def started(settings=SMALL, seeds=(0, 1), phases=0):
    run = ppi.PPI(settings, ppi.pairs(seeds))
    run.pretrain()
    for _ in range(phases):
        run.advance()
    return run


def weights(run):
    return {name: w.detach().numpy().copy() for name, w in run.stack.named_parameters()}


def same(a, b):
    assert set(a) == set(b)
    return all(np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a)


def test_data_grow_by_exactly_n_and_nothing_is_dropped():
    run = started()
    kept = [run.state()]
    for phase in range(1, 4):
        codes = run.advance()
        assert run.store.count == 60 + 20 * phase and codes.shape == (4, 20, 20)
        assert np.array_equal(run.state()[f"data.{phase}"], codes)
        kept.append(run.state())
    for early, late in zip(kept, kept[1:]):
        old = {name: value for name, value in early.items() if name.startswith("data")}
        assert same(old, {name: late[name] for name in old})
    assert run.store.codes[:, :140].min() >= game.CC and run.table()["phase"].max() == 3


def test_phase_1_is_the_improved_policy_of_a_model_that_has_seen_d0_only():
    run = started()
    before = weights(run)
    run.advance()
    assert same(weights(run), before)
    run.advance()
    assert not same(weights(run), before)


def test_new_weights_or_warm_start():
    warm, anew = started(phases=2), started(replace(SMALL, reinit=True), phases=2)
    assert warm.state()["step"] == 6 + 3 and anew.state()["step"] == 3
    assert anew.store.count == warm.store.count == 100  # D is kept
    assert np.array_equal(anew.state()["data.1"], warm.state()["data.1"])
    first = started(replace(SMALL, reinit=True, steps=0, epochs=0), phases=0)
    start = weights(first)
    first._fresh(2)
    assert not same(weights(first), start)


@pytest.mark.parametrize("settings", [SMALL, TOLD, ALONE, MC, replace(MC, q="env")])
def test_a_resumed_run_gives_the_bytes_of_an_unbroken_one(settings):
    run, kept = started(settings), []
    while run.phase < 3:
        kept.append(run.state())
        run.advance()
    whole = run.state()
    for state in kept:
        run = ppi.PPI.resume(settings, ppi.pairs((0, 1)), state)
        while run.phase < 3:
            run.advance()
        assert same(run.state(), whole)
    assert same(started(settings, phases=1).state(), kept[1])


def test_a_seed_does_not_depend_on_who_shares_the_stack():
    settings = replace(
        SMALL, model=ModelSettings(hidden=16, rounds=20), first_steps=10, games=400, first_games=400
    )
    many, one = started(settings, seeds=(0, 1, 2)), started(settings, seeds=(1,))
    for name, loss in one.fitted.items():
        assert loss == pytest.approx(many.fitted[name][2:4], abs=1e-5)
    for name, weight in weights(one).items():
        assert np.abs(weight - weights(many)[name][2:4]).max() < 1e-4
    played, alone = many.advance()[2:4], one.advance()
    assert np.mean(batch_play.own_actions(played) == batch_play.own_actions(alone)) >= 0.999
    assert not np.array_equal(played[0], played[1])


def test_games_of_a_phase_are_half_with_the_partner_and_half_with_the_pool():
    run = started(phases=1)
    codes = run.state()["data.1"]
    assert np.array_equal(codes[[1, 0, 3, 2], :10], game.swap(codes[:, :10]))
    assert not np.array_equal(codes[[1, 0, 3, 2], 10:], game.swap(codes[:, 10:]))
    row = run.table().iloc[0]
    own, other = (f(codes[0, :10]) for f in (batch_play.own_actions, batch_play.other_actions))
    assert row["learner_cooperation"] == pytest.approx(own.mean())
    assert row["learner_reward"] == pytest.approx(2 * other.mean() - own.mean())


def test_without_pool_no_tabular_agent_is_met_and_d0_is_coin_flips():
    settings = replace(ALONE, first_games=4000)
    assert settings.tabular_games == 0 and settings.learner_games == 20
    run = started(settings, phases=1)
    codes = run.state()["data.0"][0]
    for before in range(1, 5):  # every outcome follows every outcome one time in four
        after = codes[:, 1:][codes[:, :-1] == before]
        share = np.bincount(after, minlength=5)[1:] / len(after)
        assert np.abs(share - 0.25).max() < 4 * math.sqrt(0.1875 / len(after))
    played = run.state()["data.1"]
    assert np.array_equal(played[[1, 0, 3, 2]], game.swap(played))
    assert run.table()["tabular_cooperation"].isna().all()


def test_identity_is_zero_for_learners_and_the_opponents_code_elsewhere():
    run = started(TOLD, phases=1)
    codes, z, opponents = ppi_data.random_games(run.agents, TOLD, 60, "D0")
    assert np.array_equal(run.state()["data.0"], codes) and np.array_equal(run.state()["z.0"], z)
    assert z[1] == pytest.approx(identity.code(opponents[1]).astype(np.float32))
    shown = run.state()["z.1"]
    assert not shown[:, :10].any() and shown[:, 10:].any(axis=2).all()
    table = ppi_data.tables(run.agents, TOLD, 1, rival=False)[0]
    code = identity.code(np.clip(table.vectors[3].numpy(), 0, 1))
    assert shown[3, 10:] == pytest.approx(code, abs=1e-3)


def test_arms_share_opponents_and_chance():
    tables = [ppi_data.tables(ppi.pairs((0, 1)), s, 2, rival=False) for s in (SMALL, TOLD)]
    (first, chance, _), (second, other, _) = tables
    assert torch.equal(first.vectors, second.vectors) and second.z is not None
    assert torch.equal(chance.own, other.own) and torch.equal(chance.tabular, other.tabular)
    later = ppi_data.tables(ppi.pairs((0, 1)), SMALL, 3, rival=False)
    assert not torch.equal(later[0].vectors, first.vectors)


def test_a_rival_takes_the_place_of_the_partner_and_does_not_learn():
    """Step 2: one learner of each seed against a frozen agent, here always defecting."""
    settings = replace(SMALL, tabular_share=0.0)
    run = ppi.PPI(settings, ppi.pairs((0, 1), learners=1), MemoryOne(tabular.named("AllD")))
    run.pretrain()
    assert not batch_play.other_actions(run.advance()).any()
    icl = started(SMALL, phases=1)
    frozen = weights(icl)
    run = ppi.PPI(settings, ppi.pairs((0, 1)), icl.actor(0))
    run.pretrain()
    first = run.advance()
    assert batch_play.other_actions(first).any() and same(weights(icl), frozen)
    again = ppi.PPI(settings, ppi.pairs((0, 1)), icl.actor(0))
    again.pretrain()
    assert np.array_equal(again.advance(), first)


def test_the_published_recipe_runs_at_toy_size():
    """Interleaved tokens, reward head, new weights and whole passes over D in every phase."""
    settings = replace(
        ppi_settings.PAPER,
        model=replace(ppi_settings.PAPER.model, hidden=8, rounds=10),
        rounds=10,
        first_games=40,
        games=12,
        epochs=2,
        batch=16,
        rollouts=2,
        horizon=3,
        phases=2,
        gate=math.inf,
    )
    run = started(settings, seeds=(0,), phases=1)
    assert run.state()["step"] == 5  # 2 passes over 40 games in batches of 16
    run.advance()
    assert run.state()["step"] == 7  # 2 passes over 52 games, from new weights
    found = run.table()
    assert found["reward_loss"].notna().all() and found["q_loss"].isna().all()
    assert (found["observation_loss"] > found["reply_loss"]).all()  # five outcomes against two


def test_batches_show_every_game_once_before_any_comes_again():
    batches = ppi_data.Batches(ppi_data.generator((0, 0), "test"), 10, 17, 3)
    seen = np.concatenate([batches.next() for _ in range(7)])
    for k in range(3):
        assert sorted(seen[7 * k : 7 * k + 7]) == list(range(10, 17))
    assert not np.array_equal(seen[:7], seen[7:14])


def test_losses_by_hand():
    """One game of two rounds: CD (reward -1), then DC (reward 2), returns over one round."""
    codes = np.array([[[game.CD, game.DC]]], dtype=np.uint8)
    heads = {
        "own": torch.tensor([[[1.0, 2.0]]]),
        "reply": torch.tensor([[[[0.5, 9.0], [9.0, -1.0]]]]),
        "q": torch.tensor([[[[0.3, 9.0], [9.0, 0.1]]]]),
        "reward": torch.tensor([[[7.0, -0.5]]]),
    }
    found = ppi_fit.losses(heads, codes, replace(SMALL, horizon=1))
    # own C at logit 1, own D at logit 2; other D at logit 1/2 given C, other C at -1 given D
    own = (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(2))) / 2
    reply = (math.log(1 + math.exp(0.5)) + math.log(1 + math.exp(1))) / 2
    assert found["own"].tolist() == pytest.approx([own])
    assert found["reply"].tolist() == pytest.approx([reply])
    assert found["q"].tolist() == pytest.approx([(0.4**2 + 0.1**2) / 2])  # targets -0.1, 0.2
    assert found["reward"].tolist() == pytest.approx([0.25])  # -1 is read after the first round
    assert "observation" not in found


def test_loss_of_the_five_observations_by_hand():
    """Read after each own action: CD after C with odds 3 in 7, DC after D with odds 1 in 5."""
    codes = np.array([[[game.CD, game.DC]]], dtype=np.uint8)
    heads = {name: torch.zeros((1, 1, 2, 2)) for name in ("reply", "action")}
    heads["next"] = torch.full((1, 1, 2, 2, 5), -50.0)
    heads["next"][0, 0, 0, 0] = torch.log(torch.tensor([1.0, 1.0, 3.0, 1.0, 1.0]))
    heads["next"][0, 0, 1, 1] = 0.0
    found = ppi_fit.losses(heads | {"own": torch.zeros((1, 1, 2))}, codes, SMALL)
    by_hand = (math.log(7 / 3) + math.log(5)) / 2
    assert found["observation"].tolist() == pytest.approx([by_hand])


def test_q_has_targets_only_where_the_horizon_fits():
    codes = np.full((1, 2, 20), game.CC, dtype=np.uint8)
    heads = {name: torch.zeros((1, 2, 20)) for name in ("own",)}
    heads |= {name: torch.zeros((1, 2, 20, 2)) for name in ("reply", "q")}
    heads["q"][:, :, :6] = 1.5  # 0.1 times 15 rounds of 1, rounds 1 to 6 of 20
    heads["q"][:, :, 6:] = 1e6
    assert ppi_fit.losses(heads, codes, SMALL)["q"].tolist() == pytest.approx([0.0], abs=1e-10)


def test_limit_by_hand_and_by_the_entropies():
    """Mutual C for three rounds: the opponent sees s0, CC, CC, so 1/2, 1/2, 2/3 (uniform prior)."""
    codes = np.full((1, 1, 3), game.CC, dtype=np.uint8)
    opponents = np.array([[[0.5, 0.8, 0.1, 0.1, 0.1]]])
    found = ppi_data.limit(SMALL, codes, opponents)
    assert found == pytest.approx([(2 * math.log(2) - math.log(2 / 3)) / 3])
    beta = replace(SMALL, pool="beta", a=0.5)  # 1/2, 1/2, 3/4
    found = ppi_data.limit(beta, codes, opponents)
    assert found == pytest.approx([(2 * math.log(2) - math.log(3 / 4)) / 3])
    found = ppi_data.limit(TOLD, codes, opponents)  # 1/2, 8/10, 8/10
    assert found == pytest.approx([(math.log(2) - 2 * math.log(0.8)) / 3])
    coins = ppi_data.random_games([(0, 0)], ALONE, 50, "D0")
    assert ppi_data.limit(ALONE, coins[0], coins[2]) == pytest.approx([math.log(2)], rel=1e-12)
    with pytest.raises(ValueError, match="families"):
        ppi_data.limit(replace(SMALL, pool="families"), codes, opponents)


def test_limit_of_the_specification():
    """Uniform pool, T = 50: .5646 nats for a counting predictor."""
    fifty = replace(ppi_settings.CPU)
    codes, _, opponents = ppi_data.random_games([(3, 0)], fifty, 4000, "held out")
    assert ppi_data.limit(fifty, codes, opponents) == pytest.approx([0.5646], abs=0.005)


def test_gate_stops_a_run_that_has_not_learned_to_predict():
    run = ppi.PPI(replace(SMALL, gate=0.01, gate_games=500), ppi.pairs((0,)))
    run.pretrain()
    assert run.gap.min() > 0.03  # six steps: still near log 2, the limit at T = 20 is .605
    with pytest.raises(ValueError, match=r"more than 0.01 nats, .*\(0, 0\): 0\.\d{4}, \(0, 1\)"):
        run.advance()
    loss = ppi_fit.held_out(
        run.stack, *ppi_data.random_games(run.agents, SMALL, 500, "held out")[:2], SMALL
    )
    assert loss["reply"] == pytest.approx(math.log(2), abs=0.02)


def test_window_trains_on_the_last_phases_only():
    settings = replace(SMALL, window=1)
    run = started(settings, phases=1)
    run.store.codes[:, :60] = 0  # no code: D_0 must not be touched by the next fit
    poisoned = started(settings, phases=1)
    run.advance(), poisoned.advance()
    assert same(weights(run), weights(poisoned)) and run.store.count == 100


def test_order_of_calls_and_fit_of_states():
    run = ppi.PPI(SMALL, ppi.pairs((0,)))
    for call in (run.advance, run.state):
        with pytest.raises(ValueError, match="pretrain"):
            call()
    run.pretrain()
    with pytest.raises(ValueError, match="D_0 already"):
        run.pretrain()
    with pytest.raises(ValueError, match="2 agents and 0 phases, the run 4"):
        ppi.PPI.resume(SMALL, ppi.pairs((0, 1)), run.state())
    wider = replace(SMALL, model=ModelSettings(hidden=9, rounds=20))
    with pytest.raises(ValueError, match="no weights"):
        ppi.PPI.resume(wider, ppi.pairs((0,)), run.state())
    with pytest.raises(ValueError, match="all 0 phases"):
        ppi.PPI.resume(replace(SMALL, phases=0), ppi.pairs((0,)), run.state()).advance()


def test_agents_must_be_paired():
    with pytest.raises(ValueError, match="two learners of each seed"):
        ppi.PPI(SMALL, ppi.pairs((0, 1), learners=1))
    with pytest.raises(ValueError, match="distinct seeds"):
        ppi.pairs((1, 1))
    run = ppi.PPI(replace(SMALL, tabular_share=1.0), ppi.pairs((0,), learners=1))  # Step 1
    run.pretrain()
    run.advance()
    assert run.table()["learner_cooperation"].isna().all()
    with pytest.raises(ValueError, match="not a rival"):
        ppi.PPI(replace(MC, q="env"), ppi.pairs((0,)), MemoryOne(tabular.named("TFT")))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"q": "learned"}, "unknown q 'learned': use one of head, mc, env"),
        ({"improvement": "inverse"}, "use one of temperature, literal"),
        ({"pool": "all"}, "use one of uniform, beta, corners, families, human, none"),
        ({"tabular_share": 1.2}, "outside"),
        ({"beta": 0.0}, "must be > 0"),
        ({"identity": "opponent"}, "needs a model with z = 10, got 0"),
        ({"model": ModelSettings(q_head=False, rounds=20)}, "q_head"),
        ({"horizon": 21}, "no target"),
        ({"rounds": 30}, "need 30"),
        ({"rollout_reward": "head"}, "'joint' has none"),
        ({"model": ModelSettings(input="summed", rewards=(0, 3, 0, 5, 1))}, "must be equal"),
        ({"rollouts": 0}, "at least 1"),
        ({"discount": 0.0}, "discount"),
    ],
)
def test_settings_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_rollouts_of_a_transformer_need_positions_past_the_last_round():
    model = ModelSettings(core="transformer", rounds=34)
    with pytest.raises(ValueError, match="need 35"):
        replace(MC, model=model)
    assert replace(MC, model=replace(model, rounds=35)).rounds == 20


def test_presets_hold_the_stated_numbers():
    paper, cpu = ppi_settings.PAPER, ppi_settings.CPU
    assert (paper.first_games, paper.games, paper.phases, paper.epochs) == (200_000, 20_000, 30, 10)
    assert (paper.lr, paper.weight_decay, paper.betas) == (1e-4, 1e-2, (0.9, 0.98))
    assert (paper.batch, paper.clip_norm, paper.horizon, paper.beta) == (256, 1.0, 15, 0.01)
    assert (paper.model.hidden, paper.rounds, paper.reinit, paper.q) == (128, 100, True, "mc")
    assert (cpu.first_games, cpu.first_steps, cpu.games, cpu.phases) == (20_000, 4_000, 6_000, 26)
    assert (cpu.steps, cpu.batch, cpu.noise, cpu.name) == (130, 128, 1.2, "amortised PPI")
    assert ppi_settings.CPU_MC.name == "PPI (mc, K 8)"
    with pytest.raises(ValueError, match="use one of mixed, identity, no_tabular"):
        ppi_settings.arm(cpu, "id")

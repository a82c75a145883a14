"""Next-token training on recorded games: rows by hand, the loss, held-out games, resume, cards."""

from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dipllm_lib.dip import game, gameloss, gametext, orders, policies, pretrain, states, text
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.lm import adapters, backbones, steps

SETTINGS = pretrain.PretrainSettings(positions=9, heldout=3, batch=4, lr=1e-2, evaluations=2)


@pytest.fixture(scope="module")
def games():
    """Four games of uniform players to the end of 1902."""
    seats = [[policies.RandomLegal()] * 7] * 4
    played = game.play(seats, 3, [("test", n) for n in range(4)], game.EndRules(1902))
    return [g.to_saved() for g in played]


@pytest.fixture
def backbone():
    torch.set_num_threads(1)
    return backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=0)


@pytest.fixture
def rows(games, backbone):
    places = [(n, k) for n, g in enumerate(games) for k in range(len(g["phases"]) - 1)]
    return gametext.rows(games, places, backbone.encode)


def weights(backbone):
    return torch.cat([p.detach().flatten() for p in backbone.model.parameters()])


def test_rows_by_hand(backbone):
    """Two powers, a build with a waive; the text is that of prompt and answer at play."""
    state = {
        "name": "W1901A",
        "units": {"FRANCE": ["A BUR"], "ITALY": ["A VEN", "F NAP", "A TUN"]},
        "centers": {"FRANCE": ["PAR", "MAR", "BRE"], "ITALY": ["VEN", "NAP"]},
    }
    given = {"FRANCE": ["F BRE B"], "ITALY": ["A TUN D"]}
    saved = {"id": "g", "phases": [{"name": "W1901A", "state": state, "orders": given}]}
    state = states.to_state(states.from_state(state))
    saved["phases"][0]["state"] = state
    (row,) = gametext.rows([saved], [(0, 0)], backbone.encode)
    said = [backbone.tokenizer.text(branch) for branch in row.branches]
    assert said == [" you Fra\n B F Bre ; W\n", " you Ita\n A Tun D\n"]
    assert (" " + text.board_text(state)) == backbone.tokenizer.text(row.board)
    assert row.tasks == (3, 3) and row.order_tokens == 6 + 4
    assert row.length == len(row.board) + (9 - 1) + (7 - 1)
    # B or W, A or F, Bre or Mar (fleets), then F Mar or W; A or F, Tun or Ven
    choices = [[(t, len(legal)) for t, legal, _ in part] for part in row.decisions]
    assert choices == [[(3, 2), (4, 2), (5, 2), (7, 2)], [(3, 2), (4, 2)]]
    told = [set(backbone.tokenizer.text(legal).split()) for _, legal, _ in row.decisions[0]]
    assert told == [{"B", "W"}, {"A", "F"}, {"Bre", "Mar"}, {"B", "W"}]


def test_split_sets_whole_games_aside(games):
    places, heldout = gametext.split(games, 5, 4, np.random.default_rng(0))
    assert len(places) == 5 and len(heldout) == 4
    assert places == sorted(places) and len(set(places)) == 5
    assert not {n for n, _ in places} & {n for n, _ in heldout}
    everything, _ = gametext.split(games, 999, 1, np.random.default_rng(0))
    names = [games[n]["phases"][k]["name"] for n, k in everything]
    assert "COMPLETED" not in names and "S1901M" in names
    with pytest.raises(ValueError, match="4 games do not suffice to hold out 99 positions"):
        gametext.split(games, 5, 99, np.random.default_rng(0))


def test_missing_orders_are_one_line(games):
    phase = games[0]["phases"][0]
    broken = {"id": "b", "phases": [phase | {"orders": phase["orders"] | {"ITALY": []}}]}
    with pytest.raises(ValueError, match="ITALY S1901M: 0 orders for 3 slots"):
        gametext.decided([broken], [(0, 0)])
    assert gametext.decided([broken], []) == []


def test_legal_targets_are_the_probabilities_at_play(backbone, games, rows):
    """Sum over the decisions of a row = sum over its powers of the agent's log-probability."""
    agent, places = LMAgent(backbone, 1.0), [(0, 0), (0, 1), (1, 0)]
    given = gametext.rows(games, places, backbone.encode)
    for row, listed in zip(given, gametext.decided(games, places), strict=True):
        expected = sum(agent.log_prob(turn, [joint])[0] for turn, joint in listed)
        found = gameloss.log_probs(backbone, [row], "legal")
        assert found.sum().item() == pytest.approx(expected, rel=1e-5)
        assert len(found) == gameloss.targets_of(row, "legal")
    settings = replace(SETTINGS, targets="legal", epochs=8)
    history, _ = pretrain.run(backbone, games, settings, 0)
    assert history["masked"].iloc[-1] < history["masked"].iloc[0]
    assert history["heldout"].iloc[-1] > 4  # the other tokens are not learned


@pytest.mark.parametrize("targets", ["orders", "text"])
def test_loss_equals_one_plain_pass_for_each_branch(backbone, rows, targets):
    """The board's tokens count once, in `text` only; no branch sees another one."""
    found, expected = gameloss.log_probs(backbone, rows[:3], targets), []

    def plain(ids):
        table = backbone.model(input_ids=torch.tensor([ids])).logits[0].double()
        table = torch.log_softmax(table, -1)[range(len(ids) - 1), ids[1:]]
        return table.tolist()

    for row in rows[:3]:
        expected += plain(row.board) if targets == "text" else []
        for branch, task in zip(row.branches, row.tasks, strict=True):
            first = len(row.board) - 1 + (task if targets == "orders" else 0)
            expected += plain([*row.board, *branch])[first:]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
    assert len(found) == sum(gameloss.targets_of(row, targets) for row in rows[:3])


def test_nats_do_not_depend_on_the_batch(backbone, rows):
    one = [np.multiply(gameloss.nats(backbone, [row]), row.order_tokens) for row in rows]
    mean = sum(one) / sum(row.order_tokens for row in rows)
    assert gameloss.nats(backbone, rows) == pytest.approx(mean, rel=1e-6)
    assert mean[0] == pytest.approx(np.log(backbone.tokenizer.size), abs=0.2)  # untrained


def test_training_lowers_the_error_and_repeats(backbone, games):
    settings = replace(SETTINGS, epochs=8)
    history, heldout = pretrain.run(backbone, games, settings, 0)
    assert len(heldout) == 3 and history["step"].tolist() == list(range(25))
    assert history["heldout"].notna().to_numpy().nonzero()[0].tolist() == [0, 12, 24]
    assert history["heldout"].iloc[-1] < history["heldout"].iloc[0] - 1.5
    assert history["loss"].iloc[1] == pytest.approx(history["heldout"].iloc[0], abs=0.1)
    other = backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=0)
    again, _ = pretrain.run(other, games, settings, 0)
    assert again.equals(history) and torch.equal(weights(other), weights(backbone))


def test_resume_gives_the_same_weights(games, tmp_path, monkeypatch):
    def fresh():
        return backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=0)

    torch.set_num_threads(1)
    whole, stopped, resumed = fresh(), fresh(), fresh()
    expected, _ = pretrain.run(whole, games, SETTINGS, 0)
    path, step = tmp_path / "p.safetensors", steps.Trainer.step

    def until_two(self, *args):
        if self.done == 2:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(pretrain, "EVERY", 1)
    monkeypatch.setattr(steps.Trainer, "step", until_two)
    with pytest.raises(KeyboardInterrupt):
        pretrain.run(stopped, games, SETTINGS, 0, path)
    monkeypatch.setattr(steps.Trainer, "step", step)
    history, _ = pretrain.run(resumed, games, SETTINGS, 0, path)
    assert history.equals(expected) and torch.equal(weights(resumed), weights(whole))
    other, _ = pretrain.run(fresh(), games, replace(SETTINGS, lr=2e-2), 0, path)
    assert not other.equals(expected)  # another training starts over


def test_autocast_is_near_float32(backbone, rows):
    exact = gameloss.log_probs(backbone, rows[:2], "orders")
    rounded = gameloss.log_probs(backbone, rows[:2], "orders", "bfloat16")
    assert rounded.dtype == torch.float32 and not torch.equal(exact, rounded)
    assert (exact - rounded).abs().max() < 0.05


def test_divergence_against_the_uniform_player(backbone, games):
    """Of the player that made the games the uniform choice is the truth: its rows agree."""
    places = [(0, 0), (1, 0)]
    table = gameloss.divergence(
        backbone, games, places, Uniform(), np.random.default_rng(0), 100
    ).set_index("player")
    assert table["turns"].tolist() == [14, 14, 14]
    assert table.loc["uniform", "kl"] == pytest.approx(0) and table.loc["policy", "kl"] == 0
    agent, found = LMAgent(backbone, 1.0), []
    for turn, joint in sum(gametext.decided(games, places), []):
        found.append(agent.log_prob(turn, [joint])[0])
    assert table.loc["model", "nats"] == pytest.approx(-np.mean(found), rel=1e-6)
    assert table.loc["model", "kl_low"] <= table.loc["model", "kl"] <= table.loc["model", "kl_high"]


class Uniform:
    """Exact probabilities of the uniform choice among each unit's legal orders."""

    def log_prob(self, turn, joints):
        counts = [len(turn.options(joints[0][:d])) for d in range(turn.slots)]
        return np.array([-np.log(counts).sum()])


def test_an_adapter_goes_on_from_the_trained_weights(backbone, games, tmp_path):
    """Source and card say what happened, and the weights serve as base of an adapter."""
    history, _ = pretrain.run(backbone, games, SETTINGS, 0)
    trained = backbone.fingerprint()
    card = pretrain.card(backbone, SETTINGS, history, "03_fine_tuning")
    assert len(card.splitlines()) == 7 and "seed 0, first trained on 9 positions" in card
    (tmp_path / "base").mkdir()
    adapters.save(backbone, pretrain.NAME, tmp_path / "base", card)
    other = backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=5)
    adapters.load(other, tmp_path / "base", pretrain.NAME)
    assert other.fingerprint() == trained and other.origin == backbone.origin
    adapters.attach(other, "dipllm", 2)
    assert {n for n, _ in adapters.trainable(other) if "lora_" not in n} == set()
    assert other.fingerprint() == trained


def test_settings_are_read_and_checked():
    named = {f"pretrain_{k}": v for k, v in asdict(SETTINGS).items()}
    assert pretrain.PretrainSettings.of(SimpleNamespace(**named)) == SETTINGS
    with pytest.raises(
        ValueError, match="unknown pretrain_targets 'all': use orders or legal or text"
    ):
        replace(SETTINGS, targets="all")
    with pytest.raises(ValueError, match="pretrain_batch is 0: need at least 1"):
        replace(SETTINGS, batch=0)


def test_orders_are_written_in_canonical_order(games, backbone):
    """Saved games list orders alphabetically; rows have armies first, as at play."""
    (listed,) = gametext.decided(games, [(0, 0)])
    (row,) = gametext.rows(games, [(0, 0)], backbone.encode)
    for (turn, joint), branch in zip(listed, row.branches, strict=True):
        words = backbone.tokenizer.text(branch)
        assert words == text.task_text(turn.name) + text.joint_text(joint)
        assert sorted(map(orders.to_text, joint)) == games[0]["phases"][0]["orders"][turn.name]

"""Samples for fine-tuning: power-turns with the joint target of the search, as token paths.

A sample is one power-turn: a prompt, K candidate joint orders as paths through the legal trie, and
the target pi* (K,) over them, with the anchor's log tau and the exponents f of the target where the
row has them. The loss keeps the K' most probable joint orders, renormalised, unless an objective
says otherwise (`objectives`); the mass it keeps is recorded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipllm_lib.dip import atlas, orders, states, text
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.hedge import softmax
from dipllm_lib.dip.policies import Explicit
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Path, Tries, path
from dipllm_lib.run.profiles import DiplomacySettings


@dataclass(frozen=True)
class Sample:
    """One power-turn. paths, target, log_tau, f: K candidates; kept: indices of those in the loss;
    weights: of these. log_tau (nats), f (pi* = softmax f): None if the row has none.
    """

    game: str
    phase: str
    power: str
    prompt: tuple[int, ...]
    paths: tuple[Path, ...]
    target: np.ndarray
    kept: tuple[int, ...]
    weights: np.ndarray
    log_tau: np.ndarray | None = None
    f: np.ndarray | None = None

    @property
    def position(self) -> tuple[str, str]:
        """Game and phase: the same for all powers of one position."""
        return self.game, self.phase

    @property
    def mass(self) -> float:
        """Probability of pi* that the loss keeps."""
        return float(self.target[list(self.kept)].sum())


def row_turn(row: dict) -> orders.Turn:
    """The turn of a row of 02_samples.jsonl. Raises ValueError if its power has nothing to decide
    there.
    """
    turn = orders.turn(states.from_state(row["state"]), 0, atlas.POWERS.index(row["power"]))
    if turn is None:
        raise ValueError(f"{row['game']} {row['phase']}: {row['power']} has no orders to give")
    return turn


def row_joints(row: dict) -> list[orders.Joint]:
    """The candidate joint orders of a row. Raises ValueError for one that is not legal."""
    turn = row_turn(row)
    return [orders.parse_joint(turn, texts) for texts in row["joints"]]


def policy_kl(rows: Sequence[dict], policy: Explicit) -> np.ndarray:
    """KL(pi* || policy) in nats of every row, for a policy with exact probabilities."""
    found = []
    for row in rows:
        target = np.asarray(row["target"], np.float64)
        log_probs = policy.log_prob(row_turn(row), row_joints(row))
        positive = target > 0
        found.append(float(target[positive] @ (np.log(target[positive]) - log_probs[positive])))
    return np.array(found)


def shuffled(samples: Sequence[Sample], rng: np.random.Generator) -> list[Sample]:
    """The samples, each behind the prompt of another one of the same power: a control.

    Samples of a power that has only one are left out.
    """
    result = []
    for power in sorted({sample.power for sample in samples}):
        own = [sample for sample in samples if sample.power == power]
        if len(own) > 1:
            shift = int(rng.integers(1, len(own)))
            others = own[shift:] + own[:shift]
            pairs = zip(own, others, strict=True)
            result += [replace(sample, prompt=other.prompt) for sample, other in pairs]
    return result


def split(
    rows: Sequence[dict],
    train: int,
    heldout: int,
    rng: np.random.Generator,
    pack: str = "turn",
    games: int = 1,
) -> tuple[list[dict], list[dict]]:
    """(training rows, held-out rows), at most `train` and `heldout` of them, from different games.

    At least `games` whole games are set aside, more until they hold `heldout` power-turns. pack:
    `position` draws whole positions, as many as fit, so that their powers can share a row; `turn`
    single power-turns.
    Raises ValueError if no game is left to train on.
    """
    names = sorted({row["game"] for row in rows})
    aside: set[str] = set()
    for name in rng.permutation(names).tolist():
        if len(aside) >= games and sum(row["game"] in aside for row in rows) >= heldout:
            break
        aside.add(name)
    if len(aside) == len(names):
        raise ValueError(f"{len(names)} games do not suffice to hold out {heldout} power-turns")
    parts = [], []
    for row in rows:
        parts[row["game"] in aside].append(row)
    draw = _some_positions if pack == "position" else _some
    return draw(parts[0], train, rng), draw(parts[1], heldout, rng)


def _some_positions(rows: list[dict], most: int, rng: np.random.Generator) -> list[dict]:
    """Whole positions in random order until the next would pass `most` rows; in their old order."""
    positions: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        positions.setdefault((row["game"], row["phase"]), []).append(i)
    members = list(positions.values())
    chosen: list[int] = []
    for k in rng.permutation(len(members)).tolist():
        if len(chosen) + len(members[k]) > most:
            break
        chosen += members[k]
    return [rows[i] for i in sorted(chosen)]


def _some(rows: list[dict], most: int, rng: np.random.Generator) -> list[dict]:
    """At most `most` rows drawn without repetition, in their old order."""
    if len(rows) <= most:
        return rows
    return [rows[i] for i in np.sort(rng.choice(len(rows), most, replace=False))]


def build(
    rows: Sequence[dict],
    backbone: Backbone,
    settings: DiplomacySettings | FinetuneSettings,
    choice: Callable[..., text.OrderChoice] = text.OrderChoice,
) -> list[Sample]:
    """Samples of rows {state, power, joints, target, game, phase}, log_tau and f if they are there.

    choice: (turn, encode) -> what the model chooses from and how it is said.

    Raises ValueError for a target that is no distribution or not the softmax of f, and for a text
    longer than finetune_max_length.
    """
    wanted = FinetuneSettings.of(settings)
    return [_sample(row, backbone, wanted, choice) for row in rows]


def _sample(row: dict, backbone: Backbone, settings: FinetuneSettings, choose) -> Sample:
    where = f"{row['game']} {row['phase']} {row['power']}"
    turn, target = row_turn(row), np.asarray(row["target"], np.float64)
    if len(target) != len(row["joints"]) or (target < 0).any() or abs(target.sum() - 1) > 1e-6:
        raise ValueError(f"{where}: the target is no distribution over its joint orders")
    log_tau, f = (_column(row, name, where) for name in ("log_tau", "f"))
    if f is not None and np.abs(softmax(f) - target).max() > 1e-6:
        raise ValueError(f"{where}: the target is not the softmax of the exponents f")
    prompt = tuple(backbone.encode(text.prompt(turn)))
    choice = choose(turn, backbone.encode)
    tries = Tries(choice)
    joints = [orders.parse_joint(turn, texts) for texts in row["joints"]]
    paths = tuple(path(tries, choice.sequence(joint)) for joint in joints)
    longest = len(prompt) + max(len(p.tokens) for p in paths)
    if longest > settings.max_length:
        raise ValueError(f"{where}: {longest} tokens, raise finetune_max_length")
    kept = largest(log_of(target), settings.joint_orders)
    weights = target[kept] / target[kept].sum()
    keys = str(row["game"]), row["phase"], row["power"]
    whole = target / target.sum()
    return Sample(*keys, prompt, paths, whole, tuple(kept.tolist()), weights, log_tau, f)


def _column(row: dict, name: str, where: str) -> np.ndarray | None:
    """An array over the candidates of a row, None where it has none."""
    if name not in row:
        return None
    values = np.asarray(row[name], np.float64)
    if values.shape != (len(row["joints"]),) or np.isnan(values).any() or values.max() == np.inf:
        raise ValueError(f"{where}: {name!r} must hold one number for each joint order")
    return values


def log_of(policy: np.ndarray) -> np.ndarray:
    """log of a policy (K,), -inf where it is 0."""
    return np.log(policy, out=np.full(len(policy), -np.inf), where=policy > 0)


def largest(logs: np.ndarray, most: int) -> np.ndarray:
    """Indices of the `most` largest of logs (K,), the largest first, none that is -inf."""
    kept = np.argsort(-logs, kind="stable")[:most]
    return kept[logs[kept] > -np.inf]

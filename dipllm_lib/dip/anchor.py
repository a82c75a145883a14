"""The neural anchor: an explicit policy tau over legal joint orders, learned by imitation.

The encoder (`encoder`) gives each of the 81 locations of a position a state, once for all seven
powers; the decoder (`decoder`) orders the units of a power one after the other, each by a softmax
over its legal orders given the orders before it. So log tau(a) of any legal joint order is exact
and finite, in movement, retreat and adjustment phases. An order is scored by the states of the
places that it names, its kind and its relations to the earlier orders, never by its number.

Everything here is numpy and compiled loops in float32, probabilities in float64. What is sampled or
scored for a turn depends on the weights, the turn and its generator alone, not on the batch.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dipllm_lib.dip import decoder, encoder, layout
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.decoder import Position
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.run import files, places

KIND = "dipllm anchor 1"  # of a file; the number changes with the features or the decoder
KEPT = 256  # positions whose encoding is kept
CHUNK = 8  # positions encoded at once: their arrays stay in the cache


class NeuralAnchor:
    """An explicit policy (`policies.Explicit`). `weights`: arrays by name; `card`: what is known
    about their training, JSON-able.
    """

    def __init__(self, weights: Mapping[str, np.ndarray], name: str = "anchor", card: Mapping = {}):
        self.weights = {
            key: np.ascontiguousarray(weights[key], np.float32) for key in sorted(weights)
        }
        self.name, self.card = name, dict(card)
        self._kept: OrderedDict[tuple, Position] = OrderedDict()

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(array.size for array in self.weights.values())

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; each turn draws from its own generator."""
        return [joints[0] for joints in self.samples(turns, 1, rngs)]

    def sample(self, turn: Turn, n: int, rng: np.random.Generator) -> list[Joint]:
        """n independent joint orders, n D uniform numbers drawn from rng."""
        return self.samples([turn], n, [rng])[0]

    def samples(
        self, turns: Sequence[Turn], n: int, rngs: Sequence[np.random.Generator]
    ) -> list[list[Joint]]:
        """n independent joint orders of each turn."""
        result = []
        for turn, (at, t), rng in zip(turns, self._ready(turns), rngs, strict=True):
            joints = decoder.sample(at, t, rng.random((n, turn.slots)))
            result.append([tuple(row) for row in joints.tolist()])
        return result

    def log_prob(self, turn: Turn, joints: Sequence[Joint]) -> np.ndarray:
        """(K,) exact log tau, float64. ValueError for a joint order that is not legal."""
        return self.log_probs([turn], [joints])[0]

    def log_probs(
        self, turns: Sequence[Turn], joints: Sequence[Sequence[Joint]]
    ) -> list[np.ndarray]:
        """Per turn the exact log tau of its joint orders. ValueError for one that is not legal."""
        result = []
        for turn, (at, t), asked in zip(turns, self._ready(turns), joints, strict=True):
            for joint in asked:
                if len(joint) != turn.slots:
                    turn.check(tuple(joint))
            table = np.array(asked, np.int64).reshape(len(asked), turn.slots)
            found, bad = decoder.log_prob(at, t, table)
            if bad >= 0:
                turn.check(tuple(asked[bad]))
            result.append(found)
        return result

    def _ready(self, turns: Sequence[Turn]) -> list[tuple[Position, int]]:
        """Per turn the decoder of its position and its number there."""
        keys = [_key(turn.boards) for turn in turns]
        new = {key: turn.boards for key, turn in zip(keys, turns) if key not in self._kept}
        found = {key: self._kept[key] for key in keys if key in self._kept}
        fresh = list(new)
        for first in range(0, len(fresh), CHUNK):
            chunk = fresh[first : first + CHUNK]
            states = encoder.encode(Boards.concat([new[key] for key in chunk]), self.weights)
            for key, state in zip(chunk, states):
                lay = layout.of_positions(new[key])
                found[key] = decoder.position(new[key], state, lay, self.weights)
        for key in found:
            self._kept[key] = found[key]
            self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return [
            (found[key], int(np.flatnonzero(found[key].layout.power == turn.power)[0]))
            for key, turn in zip(keys, turns)
        ]

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_kept": OrderedDict()}

    def to_bytes(self, half: bool = False) -> bytes:
        """A safetensors file; `half` stores float16. Equal anchors give equal bytes."""
        dtype = np.float16 if half else np.float32
        card = files.to_json({"kind": KIND, "name": self.name, "card": self.card})
        arrays = {key: array.astype(dtype) for key, array in self.weights.items()}
        return save(arrays, {"anchor": card})


def _key(board: Boards) -> tuple[bytes, ...]:
    return tuple(field.tobytes() for field in board)


def load(path: Path, name: str | None = None) -> NeuralAnchor:
    """The anchor of a file of `NeuralAnchor.to_bytes`. ValueError in one line for another file."""
    try:
        with safe_open(path, framework="numpy") as content:
            head = json.loads((content.metadata() or {}).get("anchor", "{}"))
            if head.get("kind") != KIND:
                raise ValueError(
                    f"{path.name}: kind {head.get('kind')!r}, expected {KIND!r}: not an anchor of "
                    "this version, refit it with python -m dipllm_lib.dip.imitate"
                )
            weights = {key: content.get_tensor(key) for key in content.keys()}
    except SafetensorError as error:
        raise ValueError(f"{path.name}: not a safetensors file ({error})") from None
    return NeuralAnchor(weights, name or head["name"], head["card"])


def human_path() -> Path:
    """The weights of the `human` anchor, part of the repository."""
    return places.root() / "data" / "inputs" / "anchor_human.safetensors"


def human(name: str = "anchor") -> NeuralAnchor:
    """The anchor fitted to games of people; see data/inputs/anchor_human.md."""
    return load(human_path(), name)

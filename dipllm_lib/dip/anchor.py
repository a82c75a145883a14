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
from collections.abc import Iterator, Mapping, Sequence
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
KEPT = 64  # positions whose decoders are kept, about 1 MB each
CHUNK = 4  # positions encoded at once: their arrays stay in the cache


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

    def at(self, temperature: float, name: str | None = None) -> "NeuralAnchor":
        """The policy with every conditional p(order | earlier ones) replaced by p^(1/temperature),
        normalised: below 1 it keeps to its most probable orders. ValueError unless above 0.
        """
        if not temperature > 0:
            raise ValueError(f"temperature {temperature}: need a number above 0")
        weights = self.weights | {"score": self.weights["score"] / np.float32(temperature)}
        return NeuralAnchor(weights, name or self.name, self.card)

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
        result: list[list[Joint]] = [[] for _ in turns]
        for k, at, t in self._each(turns):
            joints = decoder.sample(at, t, rngs[k].random((n, turns[k].slots)))
            result[k] = [tuple(row) for row in joints.tolist()]
        return result

    def log_prob(self, turn: Turn, joints: Sequence[Joint]) -> np.ndarray:
        """(K,) exact log tau, float64. ValueError for a joint order that is not legal."""
        return self.log_probs([turn], [joints])[0]

    def log_probs(
        self, turns: Sequence[Turn], joints: Sequence[Sequence[Joint]]
    ) -> list[np.ndarray]:
        """Per turn the exact log tau of its joint orders. ValueError for one that is not legal."""
        result = [np.empty(0)] * len(turns)
        for k, at, t in self._each(turns):
            for joint in joints[k]:
                if len(joint) != turns[k].slots:
                    turns[k].check(tuple(joint))
            table = np.array(joints[k], np.int64).reshape(len(joints[k]), turns[k].slots)
            result[k], bad = decoder.log_prob(at, t, table)
            if bad >= 0:
                turns[k].check(tuple(joints[k][bad]))
        return result

    def conditional(self, turn: Turn, prefix: Joint = ()) -> np.ndarray:
        """Probabilities (K,) of `turn.options(prefix)`, the orders of the slot after `prefix`."""
        ((_, at, t),) = self._each([turn])
        return decoder.conditional(at, t, prefix, turn.options(prefix))

    def _each(self, turns: Sequence[Turn]) -> Iterator[tuple[int, Position, int]]:
        """(number, decoder of its position, its number there) of every turn, by position."""
        members: dict[tuple, list[int]] = {}
        for k, turn in enumerate(turns):
            members.setdefault(_key(turn.boards), []).append(k)
        keys = list(members)
        for first in range(0, len(keys), CHUNK):
            chunk = keys[first : first + CHUNK]
            self._encode({key: turns[members[key][0]].boards for key in chunk})
            for key in chunk:
                at = self._kept[key]
                for k in members[key]:
                    yield k, at, int(np.searchsorted(at.layout.power, turns[k].power))

    def _encode(self, wanted: Mapping[tuple, Boards]) -> None:
        """Keep the decoders of some positions, and the latest others as far as there is room."""
        new = {key: board for key, board in wanted.items() if key not in self._kept}
        if new:
            states = encoder.encode(Boards.concat(list(new.values())), self.weights)
            for (key, board), state in zip(new.items(), states):
                lay = layout.of_positions(board)
                self._kept[key] = decoder.position(board, state, lay, self.weights)
        for key in wanted:
            self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

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

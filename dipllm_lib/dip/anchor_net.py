"""The trainable twin of the neural anchor, in torch: same weights, same scores.

A batch holds positions of one kind of phase; all labelled turns are scored at once with their own
earlier orders given (teacher forcing). Shapes: N positions, T turns, S slots, K candidates over all
slots, L = 81 locations, H width, M hidden units of the decoder.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dipllm_lib.dip import anchor, atlas, decoder, encoder, layout, relations
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.human import Examples
from dipllm_lib.dip.order_scores import order_scores
from dipllm_lib.run import seeding

L = atlas.N_LOCATIONS


class Shape(NamedTuple):
    """The settings that `Net` reads."""

    anchor_width: int
    anchor_layers: int
    anchor_heads: int
    anchor_hidden: int
    anchor_dropout: float = 0.0


class Batch(NamedTuple):
    """Tensors of N positions; integers are int64."""

    local: Tensor  # (N, 81, 8)
    whole: Tensor  # (N, 16)
    pools: Tensor  # float32 (N, 14, 81)
    tables: list[int]  # projections that the phase needs
    board: Tensor  # (T,)
    power: Tensor  # (T,)
    begin: Tensor  # (T,): first slot of a turn
    turn: Tensor  # (S,)
    place: Tensor  # (S,): board * 81 + location; only in movement and retreat phases
    left: Tensor  # (S,)
    label: Tensor  # (S,): row of the order given
    slot: Tensor  # (K,)
    rank: Tensor  # (K,): number of a candidate in its slot
    first: Tensor  # (S + 1,): candidates of a slot
    order: Tensor  # (K,): order ids
    bits: Tensor  # (K,): relations
    rows: Tensor  # (K, 2): rows of the projections that a candidate names, -1 for none


def batch(examples: Examples) -> Batch:
    """The batch of examples of one kind of phase."""
    b = examples.boards
    lay = layout.of_positions(b)
    key = lay.board.astype(np.int64) * atlas.N_POWERS + lay.power
    lay = lay.take(np.isin(key, examples.board.astype(np.int64) * atlas.N_POWERS + examples.power))
    return of_turns(b, lay, examples.orders)


def of_turns(b: Boards, lay: layout.Layout, orders: np.ndarray) -> Batch:
    """The batch of turns `lay` of positions `b` with their joint orders, (S,) in all; a turn may
    stand there several times with different ones.
    """
    steps = relations.steps(b, lay, orders)
    sizes = np.diff(steps.first)
    slot, turn = (np.repeat(np.arange(len(x)), x) for x in (sizes, np.diff(lay.first)))
    tables = relations.PHASE_TABLES[relations.kind_of_phase(int(b.phase[0]))]
    rows = _rows(steps.order, lay.board[turn][slot].astype(np.int64), tables)
    arrays = (
        *encoder.features(b), decoder.pools(b).reshape(b.n, -1, L), lay.board, lay.power,
        lay.first[:-1], turn, lay.board[turn].astype(np.int64) * L + lay.place,
        decoder.slots_left(lay), steps.first[:-1] + steps.label, slot,
        np.arange(len(slot)) - steps.first[:-1][slot], steps.first,
        steps.order, steps.bits, rows,
    )  # fmt: skip
    tensors = [torch.from_numpy(x if x.dtype == np.float32 else x.astype(np.int64)) for x in arrays]
    return Batch(*tensors[:3], list(tables), *tensors[3:])


def _rows(order: np.ndarray, board: np.ndarray, tables) -> np.ndarray:
    """Rows of the projections (N * 81 * tables, M) that candidates name, int64 (K, 2)."""
    where = np.zeros(relations.TABLES, np.int64)
    where[list(tables)] = np.arange(len(tables))
    both = np.stack([relations.FACTS.first[order], relations.FACTS.second[order]], 1)
    both = both.astype(np.int64)
    rows = (board[:, None] * L + both % L) * len(tables) + where[np.maximum(both, 0) // L]
    return np.where(both >= 0, rows, -1)


def drop(x: Tensor, rate: float, training: bool) -> Tensor:
    """Dropout of whole channels of a position, (N, 81, H)."""
    if not training or not rate:
        return x
    return x * ((torch.rand(len(x), 1, x.shape[-1]) >= rate).to(x.dtype) / (1 - rate))


class Attention(nn.Module):
    """Attention over locations with a learned bias for each pair of them and head."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.scale = (width // heads) ** -0.5
        self.bias = nn.Parameter(torch.from_numpy(encoder.biases(heads)))
        self.input, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, y: Tensor) -> Tensor:
        n, places, width = y.shape
        parts = self.input(y).view(n, places, 3, len(self.bias), -1).permute(2, 0, 3, 1, 4)
        with torch.autocast("cpu", enabled=False):  # the softmax too in the type of its input
            query, key, value = parts
            score = query @ (key.transpose(-1, -2) * self.scale) + self.bias.to(query.dtype)
            mixed = torch.softmax(score, -1) @ value
        return self.out(mixed.transpose(1, 2).reshape(n, places, width))


class EncoderLayer(nn.Module):
    """Attention and a feed-forward block, each added to its input."""

    def __init__(self, settings):
        super().__init__()
        width = settings.anchor_width
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, settings.anchor_heads)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = settings.anchor_dropout

    def forward(self, x: Tensor) -> Tensor:
        x = x + drop(self.attention(self.first_norm(x)), self.dropout, self.training)
        inner = torch.relu(self.up(self.second_norm(x)))
        return x + drop(self.down(inner), self.dropout, self.training)


class Encoder(nn.Module):
    """The twin of `encoder.encode`."""

    def __init__(self, settings):
        super().__init__()
        width, self.dropout = settings.anchor_width, settings.anchor_dropout
        self.local = nn.Embedding(encoder.LOCAL, width)
        self.whole = nn.Embedding(encoder.GLOBAL, width)
        nn.init.normal_(self.local.weight, std=0.3)
        nn.init.normal_(self.whole.weight, std=0.1)
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.anchor_layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, local: Tensor, whole: Tensor) -> Tensor:
        x = functional.embedding_bag(local.flatten(0, 1), self.local.weight, mode="sum")
        x = x.view(len(local), L, -1)
        x = x + functional.embedding_bag(whole, self.whole.weight, mode="sum")[:, None]
        x = drop(x, self.dropout, self.training)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Net(nn.Module):
    """`settings` gives anchor_width, _layers, _heads, _hidden, _dropout; `seed` first weights."""

    def __init__(self, settings, seed: int):
        super().__init__()
        width, hidden = settings.anchor_width, settings.anchor_hidden
        with seeding.torch_seed(seed, "dip", "anchor", "weights"):
            self.encoder = Encoder(settings)
            self.unit, self.context = nn.Linear(width, hidden), nn.Linear(3 * width, hidden)
            self.who, self.left = nn.Embedding(7, hidden), nn.Embedding(decoder.LEFT, hidden)
            self.project = nn.Parameter(torch.randn(relations.TABLES, hidden, width) / width**0.5)
            self.relation = nn.Parameter(torch.randn(relations.BITS, hidden) * 0.3)
            self.memory = nn.Parameter(torch.zeros(hidden, hidden))
            self.score = nn.Parameter(torch.randn(hidden) / hidden**0.5)
            nn.init.normal_(self.who.weight, std=0.1)
            nn.init.normal_(self.left.weight, std=0.1)
        still = [bit not in relations.DYNAMIC for bit in range(relations.BITS)]
        self.register_buffer("still", torch.tensor(still).float(), persistent=False)

    def forward(self, b: Batch) -> Tensor:
        """Scores (K,) of all candidates; the decoder always works in float32."""
        states = self.encoder(b.local, b.whole)
        projected = functional.linear(states, self.project[b.tables].flatten(0, 1))
        with torch.autocast("cpu", enabled=False):
            return self._decode(b, states.float(), projected.float())

    def _decode(self, b: Batch, states: Tensor, projected: Tensor) -> Tensor:
        """Scores from states (N, 81, H) and projections (N, 81, tables * M)."""
        projected = projected.view(-1, self.project.shape[1])
        base = self._queries(b, states)
        rows = b.rows[b.label]
        named = (projected[rows.clamp(min=0)] * (rows >= 0)[:, :, None]).sum(dim=1)
        bits = b.bits[b.label, None] >> torch.arange(relations.BITS) & 1
        still = named + (bits * self.still) @ self.relation
        memory = (torch.relu(still + base) @ self.memory).double()
        before = torch.cumsum(memory, 0) - memory  # over the batch, so in float64
        before = (before - before[b.begin][b.turn]).float()
        query = base + self.left(b.left) + before
        return order_scores(projected, self.relation, query, self.score, b.rows, b.bits, b.first)

    def _queries(self, b: Batch, states: Tensor) -> Tensor:
        """Queries (S, M) without the slots left and the earlier orders."""
        means = (b.pools @ states).view(len(states), 7, -1)[b.board, b.power]
        whole = states.mean(dim=1)[b.board]
        query = self.context(torch.cat([means, whole], dim=1)) + self.who(b.power)
        query = query[b.turn]
        if relations.STAY not in b.tables and relations.GO not in b.tables:  # adjustments
            return query
        return query + self.unit(states.flatten(0, 1)[b.place])

    def export(self, name: str = "anchor", card: dict = {}) -> anchor.NeuralAnchor:
        """The same net for numpy."""
        arrays = {key: value.detach().numpy() for key, value in self.state_dict().items()}
        return anchor.NeuralAnchor(arrays, name, card)


def log_probs(scores: Tensor, b: Batch) -> tuple[Tensor, Tensor]:
    """Log-probability (S,) of the orders given, and whether each was the most probable one."""
    table = scores.new_full((len(b.label), int(b.rank.max()) + 1), -torch.inf)
    table = table.index_put((b.slot, b.rank), scores)
    return scores[b.label] - torch.logsumexp(table, 1), table.argmax(1) == b.rank[b.label]


def of_anchor(of: anchor.NeuralAnchor, dropout: float = 0.0) -> Net:
    """The torch twin of an anchor, ready to be asked; dropout: in a training."""
    layers = sum(key.endswith(".up.weight") for key in of.weights)
    heads = len(of.weights["encoder.layers.0.attention.bias"])
    hidden, width = of.weights["unit.weight"].shape
    net = Net(Shape(width, layers, heads, hidden, dropout), seed=0)
    net.load_state_dict({key: torch.from_numpy(array) for key, array in of.weights.items()})
    return net.eval()

"""Decoding of many rows in step, with a key-value cache.

Each step feeds every unfinished row its pending tokens (the token just drawn and the forced ones
after it) in one forward pass, padded on the right; padding columns stay masked and every token
carries its own position, so a row's numbers do not depend on its neighbours. Rows that begin alike
share the first pass. Finished rows leave the batch.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from transformers import DynamicCache

from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Tries

LogSoftmax = Callable[[torch.Tensor, Sequence], np.ndarray]


def draw(log_probs: np.ndarray, rng: np.random.Generator) -> int:
    """Index drawn with probabilities exp(log_probs), by one uniform number."""
    total = np.cumsum(np.exp(log_probs))
    return int(min(np.searchsorted(total, rng.random() * total[-1], side="right"), len(total) - 1))


class LegalRow:
    """A row that says one complete choice.

    pending: tokens to feed next; legal: sorted legal tokens at the next decision; done: no decision
        is left
    """

    def __init__(self, prompt: Sequence[int], tries: Tries, rng: np.random.Generator):
        self.tries, self.rng = tries, rng
        self.chosen: list[int] = []
        self.log_prob = 0.0
        self.pending = list(prompt)
        self.legal: tuple[int, ...] = ()
        self.done = False
        self._node = tries.slot(())[1]
        self._forced()

    def _forced(self) -> None:
        """Follow the trie to the next decision or to the end; forced tokens become pending."""
        while self._node is not None:
            if self._node.index >= 0:
                self.chosen.append(self._node.index)
                self._node = self.tries.slot(tuple(self.chosen))[1]
            elif len(self._node.children) == 1:
                self._step(next(iter(self._node.children)))
            else:
                self.legal = tuple(sorted(self._node.children))
                return
        self.done = True

    def _step(self, token: int) -> None:
        self.pending.append(token)
        self._node = self._node.children[token]

    def take(self, log_probs: np.ndarray) -> None:
        """Draw the next token; log_probs (A,) of the legal tokens, padded at the end."""
        log_probs = log_probs[: len(self.legal)]
        index = draw(log_probs, self.rng)
        self.log_prob += float(log_probs[index])
        self.pending = []
        self._step(self.legal[index])
        self._forced()


class FreeRow:
    """A row that says anything until the token `stop` or `limit` tokens."""

    legal = None

    def __init__(self, prompt: Sequence[int], rng: np.random.Generator, stop: int, limit: int):
        self.pending, self.rng = list(prompt), rng
        self.stop, self.limit = stop, limit
        self.tokens: list[int] = []
        self.done = limit <= 0

    def take(self, log_probs: np.ndarray) -> None:
        """Draw the next token; log_probs (V,)."""
        token = draw(log_probs, self.rng)
        self.tokens.append(token)
        self.pending = [token]
        self.done = token == self.stop or len(self.tokens) >= self.limit


@torch.inference_mode()
def decode(backbone: Backbone, rows: Sequence[LegalRow | FreeRow], log_softmax: LogSoftmax) -> None:
    """Run `rows` to their ends. log_softmax: states (N, H) and the rows' legal tokens to (N, A)
    float64.
    """
    rows = [row for row in rows if not row.done]
    if not rows:
        return
    cache = _Cache(backbone)
    first: dict[tuple[int, ...], int] = {}
    for row in rows:
        first.setdefault(tuple(row.pending), len(first))
    states = cache.feed(list(first))
    shared = [first[tuple(row.pending)] for row in rows]
    states = states[shared]
    if len(first) < len(rows):
        cache.keep(shared)
    while True:
        table = log_softmax(states, [row.legal for row in rows])
        for row, log_probs in zip(rows, table, strict=True):
            row.take(log_probs)
        active = [i for i, row in enumerate(rows) if not row.done]
        if not active:
            return
        if len(active) < len(rows):
            cache.keep(active)
            rows = [rows[i] for i in active]
        states = cache.feed([row.pending for row in rows])


class _Cache:
    """Keys and values of the rows so far, which columns are real, and each row's length."""

    def __init__(self, backbone: Backbone):
        self.backbone = backbone
        self.inner = DynamicCache(config=backbone.causal.config)
        self.real: np.ndarray | None = None  # (B, columns)

    def feed(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Append each row's tokens; returns the hidden state of each row's last one, (B, H)."""
        lengths = np.array([len(row) for row in tokens])
        new = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(new.shape, np.int64)
        ids[new] = np.concatenate([np.asarray(row) for row in tokens])
        before = np.zeros((len(ids), 0), bool) if self.real is None else self.real
        positions = before.sum(1, keepdims=True) + np.arange(new.shape[1])
        self.real = np.concatenate([before, new], 1)
        device = self.backbone.device
        states = self.backbone.causal.model(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=torch.from_numpy(self.real.astype(np.int64)).to(device),
            position_ids=torch.from_numpy(positions).to(device),
            cache=self.inner,
            use_cache=True,
        ).last_hidden_state
        return states[torch.arange(len(ids)), torch.from_numpy(lengths - 1)]

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only `rows`, in this order; a row may be repeated."""
        self.inner.batch_select_indices(torch.tensor(rows, device=self.backbone.device))
        self.real = self.real[list(rows)]

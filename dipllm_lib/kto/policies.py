"""The one core of study 3: what every loss, label and memory sees of a policy.

A policy gives normalised log-probabilities over the legal texts A(h) of a context h,

    log pi(a | h) = logit(h, a) - log sum_b exp logit(h, b),

and nothing else. `TabularPolicy` holds one row of logits per key of a context: expectations are
exact sums and take microseconds, so the statistics of the study come from it. `LMPolicy` (module
`lm_policy`) scores the same legal texts with a language model.

Shapes: a context has |A(h)| legal texts; a list of n contexts gives n arrays float64 (|A(h)|,),
since contexts of one list may differ in |A(h)|. Unit of log-probabilities: nats.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

Rows = list[np.ndarray]
"""One float64 array (|A(h)|,) per context."""


@dataclass(frozen=True)
class Context:
    """One decision. key: infoset and setting, what a table is indexed by · prompt: what a language
    model reads · legal: the texts it may answer, distinct, at least one."""

    key: Hashable
    prompt: str
    legal: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.legal or len(set(self.legal)) != len(self.legal):
            raise ValueError(f"context {self.key!r}: legal texts must be distinct, at least one")


class Policy(Protocol):
    """What losses, labels, league and memory may ask of a policy."""

    def log_probs(self, contexts: Sequence[Context]) -> Rows:
        """Log-probabilities of the legal texts of each context, normalised over them."""
        ...


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Normalised log-probabilities along the last axis, float64, any leading shape."""
    logits = np.asarray(logits, dtype=np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@dataclass
class TabularPolicy:
    """A row of logits per key. A key that was never seen starts at zero: uniform over A(h).

    rows: key -> float64 (|A(h)|,), copied; ValueError where a context and its row differ in size.
    """

    rows: Mapping[Hashable, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = {key: np.array(row, dtype=np.float64) for key, row in self.rows.items()}

    def logits(self, context: Context) -> np.ndarray:
        """The row of a context; zeros where it has none yet (not stored)."""
        row = self.rows.get(context.key)
        if row is None:
            return np.zeros(len(context.legal))
        if row.shape != (len(context.legal),):
            raise ValueError(
                f"key {context.key!r} has {len(row)} logits for {len(context.legal)} legal texts: "
                "contexts of one key must have the same legal texts"
            )
        return row

    def log_probs(self, contexts: Sequence[Context]) -> Rows:
        """Log-probabilities of the legal texts of each context."""
        return [log_softmax(self.logits(context)) for context in contexts]

    def update(self, contexts: Sequence[Context], by_log_prob: Sequence, rate: float) -> None:
        """One step down the gradient of a loss.

        by_log_prob: per context the derivatives of the loss by log pi(a|h), (|A(h)|,); the chain
        rule to the logits, d log pi(a)/d logit(b) = 1[a = b] - pi(b), is applied here. Contexts of
        one key add up. rate: step size, > 0.
        """
        steps: dict[Hashable, np.ndarray] = {}
        for context, given in zip(contexts, by_log_prob, strict=True):
            inner = np.asarray(given, dtype=np.float64)
            chance = np.exp(log_softmax(self.logits(context)))
            step = inner - inner.sum() * chance
            steps[context.key] = steps.get(context.key, 0.0) + step
        for context in contexts:
            if context.key in steps:
                row = self.logits(context) - rate * steps.pop(context.key)
                self.rows[context.key] = row

    def copy(self) -> "TabularPolicy":
        """The same rows, independent of these: a reference policy, or a snapshot."""
        return TabularPolicy(self.rows)


def sample(policy: Policy, contexts: Sequence[Context], rng: np.random.Generator) -> list[int]:
    """One action per context, the index of its legal text, by inversion of one uniform each."""
    draws = rng.random(len(contexts))
    picks = []
    for row, u in zip(policy.log_probs(contexts), draws, strict=True):
        chances = np.cumsum(np.exp(row))
        picks.append(int(np.searchsorted(chances, u * chances[-1], side="right")))
    return picks


def expected(policy: Policy, contexts: Sequence[Context], values: Iterable) -> np.ndarray:
    """(n,) sums over A(h) of pi(a|h) times the given values, one array (|A(h)|,) per context."""
    rows = policy.log_probs(contexts)
    return np.array([np.exp(row) @ np.asarray(v) for row, v in zip(rows, values, strict=True)])


def modal(policy: Policy, contexts: Sequence[Context]) -> list[int]:
    """The most likely action of each context; the first of equals."""
    return [int(np.argmax(row)) for row in policy.log_probs(contexts)]

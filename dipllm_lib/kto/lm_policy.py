"""A language model as a policy over legal texts: the second implementation of `policies.Policy`.

A legal text a of a context h is tokens a_1 … a_n. Its log-probability is

    normalised    log pi(a|h) = sum_t  logit_t(a_t) - logsumexp over the legal next tokens
    raw           log p(a|h)  = sum_t  logit_t(a_t) - logsumexp over the whole vocabulary

Legal texts are prefix-free, so the first is a probability over A(h), exactly, and a token that is
the only legal one costs nothing: " 100." is not punished for its length. The second is what TRL
sums (switch `normalise = False`); its sum over A(h) is the legal mass, below 1. No length
normalisation in either; the full stop of a text is its end mark and part of the sum.

Two passes with the same numbers (to 1e-5 in float32):

    scores      training: the prompts of a batch with all their legal texts in one trie, so all that
                they share is read once (`lm.tree_scores`); log-probabilities with gradient
    log_probs   play: the cached pass of `lm.scoring`, without gradient

Shapes: n contexts; a context has |A(h)| legal texts; nats.
"""

import contextlib
from collections.abc import Sequence

import numpy as np
import torch

from dipllm_lib.kto.policies import Context, Rows
from dipllm_lib.lm import adapters, choices, scoring, tree_scores
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.tree_scores import Branches

BASE = ""  # the model without any adapter
TOKENS = 1024  # columns of one row of a training pass: about a hundred ultimatum contexts


class Texts:
    """The legal texts of a context as a `lm.choices.Choice` of one slot."""

    def __init__(self, tokens: Sequence[tuple[int, ...]]):
        self.tokens = list(tokens)

    def options(self, chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
        """All texts as tokens, and nothing behind one."""
        return [] if chosen else self.tokens


class LMPolicy:
    """Legal texts scored by a backbone with one of its adapters, BASE for none.

    normalise: over A(h); False sums the log-probabilities of the whole vocabulary. tokens: most
    columns of a row of a training pass; a longer batch is cut into several rows.
    Raises ValueError for a name that is no adapter of the backbone.
    """

    def __init__(
        self, backbone: Backbone, adapter: str = BASE, normalise: bool = True, tokens: int = TOKENS
    ):
        if adapter and adapter not in adapters.names(backbone):
            known = ", ".join(adapters.names(backbone)) or "none"
            raise ValueError(f"no adapter {adapter!r} on this backbone, it has: {known}")
        self.backbone, self.adapter = backbone, adapter
        self.normalise, self.tokens = normalise, tokens
        self._read: dict[tuple[str, tuple[str, ...]], Branches] = {}

    def encoded(self, context: Context) -> Branches:
        """Prompt and legal texts as tokens. ValueError where one text is a token prefix of another,
        or for a text that the tokenizer cannot read."""
        name = context.prompt, context.legal
        if name not in self._read:
            tries = choices.Tries(Texts([tuple(self.backbone.encode(a)) for a in context.legal]))
            paths = [choices.path(tries, (i,)) for i in range(len(context.legal))]
            self._read[name] = self.backbone.encode(context.prompt), paths
        return self._read[name]

    @contextlib.contextmanager
    def active(self):
        """Inside the block the backbone computes with this policy's adapter."""
        if self.adapter:
            adapters.switch(self.backbone, self.adapter)
            yield
        elif adapters.names(self.backbone):
            with adapters.off(self.backbone):
                yield
        else:
            yield

    def log_probs(self, contexts: Sequence[Context]) -> Rows:
        """One float64 array (|A(h)|,) per context, without gradient; equal contexts are read
        once."""
        if not self.normalise:
            with torch.inference_mode():
                return [row.double().cpu().numpy() for row in self.scores(contexts)]
        names = [(context.prompt, context.legal) for context in contexts]
        first = {name: context for name, context in zip(names, contexts, strict=True)}
        reads = [self.encoded(context) for context in first.values()]
        with self.active():
            rows = scoring.path_log_prob(
                self.backbone, [prompt for prompt, _ in reads], [paths for _, paths in reads]
            )
        found = dict(zip(first, rows, strict=True))
        return [found[name].copy() for name in names]

    def scores(self, contexts: Sequence[Context]) -> list[torch.Tensor]:
        """`log_probs` with gradient, one tensor (|A(h)|,) per context, from one pass.

        The adapter that is trained must be active already (`roles.Role.step` sees to it): the
        gradient of another would be lost without a word.
        """
        softmax = "legal" if self.normalise else "tokens"
        with self.active():
            return self._sums(contexts, softmax)

    def legal_mass(self, contexts: Sequence[Context]) -> np.ndarray:
        """(n,) raw probability of saying one of the legal texts, in [0, 1]."""
        with torch.inference_mode(), self.active():
            sums = self._sums(contexts, "tokens")
        return np.array([float(row.double().exp().sum()) for row in sums])

    def _sums(self, contexts: Sequence[Context], softmax: str) -> list[torch.Tensor]:
        names = [(context.prompt, context.legal) for context in contexts]
        reads = {name: self.encoded(c) for name, c in zip(names, contexts, strict=True)}
        rows = self._rows(list(reads.values()))
        found = tree_scores.score(self.backbone, rows, softmax)
        sums = iter(_sum(found))
        where = {id(branches): next(sums) for row in rows for branches in row}
        return [where[id(reads[name])] for name in names]

    def _rows(self, reads: Sequence[Branches]) -> list[list[Branches]]:
        """Contexts of one first token side by side in rows of at most `tokens` columns."""
        rows: dict[int, list[list[Branches]]] = {}
        for branches in reads:
            own = rows.setdefault(branches[0][0], [[]])
            if own[-1] and tree_scores.length([*own[-1], branches]) > self.tokens:
                own.append([])
            own[-1].append(branches)
        return [row for own in rows.values() for row in own]

    def say(self, contexts: Sequence[Context], rngs: Sequence[np.random.Generator]) -> list[str]:
        """A free continuation of each prompt, without any mask, up to a full stop or the length of
        the longest legal text: what `games.parse` then takes or refuses."""
        reads = [self.encoded(context) for context in contexts]
        stop = reads[0][1][0].tokens[-1]
        limits = [max(len(path.tokens) for path in paths) for _, paths in reads]
        with self.active():
            said = scoring.sample_text(self.backbone, [p for p, _ in reads], rngs, stop, limits)
        return [self.backbone.tokenizer.text(ids) for ids in said]


def _sum(found: tree_scores.Scores) -> list[torch.Tensor]:
    """Per context, row after row, the sums of its paths' entries, with gradient."""
    contexts = [paths for row in found.entries for paths in row]
    entries = [path for paths in contexts for path in paths]
    flat = [entry for path in entries for entry in path]
    owners = [k for k, path in enumerate(entries) for _ in path]
    device = found.values.device
    sums = found.values.new_zeros(len(entries)).index_add(
        0,
        torch.tensor(owners, dtype=torch.int64, device=device),
        found.values[torch.tensor(flat, dtype=torch.int64, device=device)],
    )
    return list(torch.split(sums, [len(paths) for paths in contexts]))

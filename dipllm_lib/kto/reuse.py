"""Short-term memory: the keys and values of a growing history are read once.

Between the decisions of an episode only the end of the prompt changes. `ReusingPolicy` keeps the
cache of the last prompt and reads what comes after the tokens that both share, so

    log pi with the cache = log pi without, to 1e-5 in float32,

and counts how many tokens it did not have to read. With a window of eight rounds the past moves
through the prompt, so what is shared ends where it begins to; without a window all of it is shared.

The keys are those of one adapter with one set of weights: after a training step call `forget`.

Shapes: one context at a time; log-probabilities (|A(h)|,) in nats.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from dipllm_lib.kto import lm_labels
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.kto.policies import Context, Rows
from dipllm_lib.kto.repeated import WORDS_LABELS, IteratedPD, State
from dipllm_lib.lm import scoring
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.cache import Cache, chain
from dipllm_lib.lm.packing import Tree
from dipllm_lib.run import seeding

ROUNDS = 12  # of an example: more than the window shows


class ReusingPolicy(LMPolicy):
    """An `LMPolicy` whose contexts come one after the other, each like the one before it.

    read, reused: tokens of prompts that were read, and those found in the cache.
    """

    def __init__(self, backbone: Backbone, adapter: str = BASE):
        super().__init__(backbone, adapter)
        self.forget()

    def forget(self) -> None:
        """Nothing has been read: call it when the weights have changed."""
        self._cache, self._before = Cache(self.backbone), []
        self.read = self.reused = 0

    def log_probs(self, contexts: Sequence[Context]) -> Rows:
        """One float64 array (|A(h)|,) per context."""
        with self.active(), torch.inference_mode():
            return [self._one(context) for context in contexts]

    def _one(self, context: Context) -> np.ndarray:
        prompt, paths = self.encoded(context)
        shared = self._share(prompt)
        last = len(prompt) - 1  # read together with the answers, which it predicts
        if last > shared:
            self._cache.read([0], [chain(prompt[shared:last])])
            self._cache.keep([0], [range(last - shared)])
        self.read, self.reused = self.read + len(prompt) - shared, self.reused + shared
        self._before = list(prompt[:last])
        tree, lines, wanted = Tree(), {}, []
        for k, path in enumerate(paths):
            nodes = tree.add([prompt[last], *path.tokens[:-1]])
            for position, legal, rank in path.decisions:
                line = lines.setdefault((nodes[position], legal), len(lines))
                wanted.append((k, line, rank))
        states = self._cache.read([0], [tree])[[node for node, _ in lines]]
        logits = scoring.subset_logits(self.backbone, states, [legal for _, legal in lines])
        table = torch.log_softmax(logits.double(), -1).cpu().numpy()
        found = np.zeros(len(paths))
        for k, line, rank in wanted:
            found[k] += table[line, rank]
        return found

    def _share(self, prompt: Sequence[int]) -> int:
        """How many first tokens are in the cache already; the rest of the row is given up."""
        most = min(len(self._before), len(prompt) - 1)
        shared = next((k for k in range(most) if prompt[k] != self._before[k]), most)
        self._cache.lengths[0] = shared
        return shared


def growing(game: IteratedPD, state: State, player: int = 0, setting: str = "A") -> list[Context]:
    """The contexts of a player before every round of a finished history, in their order."""
    cuts = range(len(state.history))
    states = [replace(state, history=state.history[:t]) for t in cuts]
    return [lm_labels.context(game, one, player, setting) for one in states]


def example(seed: int, rounds: int = ROUNDS) -> tuple[IteratedPD, State]:
    """A game and a history of `rounds` random rounds of it."""
    drawn = seeding.child(seed, "kto", "reuse").integers(2, size=(rounds, 2)).tolist()
    return IteratedPD(rounds), State(rounds, WORDS_LABELS, history=tuple(map(tuple, drawn)))


def saving(backbone: Backbone, adapter: str, game: IteratedPD, state: State) -> pd.DataFrame:
    """Rows window (of the prompt, in rounds), tokens (of all prompts), read, saved (share), apart
    (largest difference in nats from a policy without reuse)."""
    rows = []
    for window in (game.window, len(state.history)):
        contexts = growing(replace(game, window=window), state)
        policy, plain = ReusingPolicy(backbone, adapter), LMPolicy(backbone, adapter)
        own = policy.log_probs(contexts)
        other = [plain.log_probs([context])[0] for context in contexts]
        apart = max(float(np.abs(a - b).max()) for a, b in zip(own, other, strict=True))
        total = policy.read + policy.reused
        row = {"window": window, "decisions": len(contexts), "tokens": total, "read": policy.read}
        rows.append(row | {"saved": policy.reused / total, "apart": apart})
    return pd.DataFrame(rows)

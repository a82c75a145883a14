"""What a memory reads, as one soft token of a language model.

M (d,) is projected to one input vector W M (H,) that stands directly before the cue of the prompt:

    rules  setting  forecast  past rounds  <soft>  cue                 [answer]

All that comes before it is the same text whatever the memory says, so a cached prefix stays valid;
in front of the rules it would change the keys of every later token at every step. The token is
written into the prompt as a mark `<m0>`, and inside `given` the model's embedding returns vector 0
for it: training passes, cached passes and adapters work unchanged.

A round's features are the mean of the last hidden states of its text (`embed`). The projection and
the store are counted apart from the adapters.

Shapes: H width of the model, d = 32 of the store, n soft tokens.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from dipllm_lib.kto.lm_policy import BASE, TOKENS, LMPolicy
from dipllm_lib.kto.memory import SIZE
from dipllm_lib.kto.policies import Context
from dipllm_lib.lm import packing
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.cache import chain
from dipllm_lib.lm.tree_scores import Branches
from dipllm_lib.run import seeding

MARK = re.compile(r" <m(\d+)>")


class Projection(torch.nn.Module):
    """W: what is read from the store -> an input vector (H,), at the size of the embeddings."""

    def __init__(self, backbone: Backbone, size: int = SIZE, seed: int = 0):
        super().__init__()
        table = backbone.causal.get_input_embeddings().weight
        with seeding.torch_seed(seed, "kto", "projection", size):
            self.linear = torch.nn.Linear(size, table.shape[1], bias=False)
        self.scale = float(table.detach().float().std())

    def forward(self, read: torch.Tensor) -> torch.Tensor:
        """(n, H) for (n, d)."""
        return self.scale * self.linear(read)


def place(context: Context, number: int) -> Context:
    """The context with soft token `number` directly before its cue, what follows the last full
    stop of the prompt. ValueError for a prompt without one."""
    rules, stop, cue = context.prompt.rpartition(". ")
    if not stop:
        raise ValueError(f"prompt {context.prompt!r} has no cue behind a full stop")
    prompt = f"{rules}. <m{number}> {cue}"
    return replace(context, key=(context.key, "memory", number), prompt=prompt)


@contextlib.contextmanager
def given(backbone: Backbone, vectors: torch.Tensor) -> Iterator[None]:
    """Inside the block soft token k has the input vector vectors[k], (n, H), with its gradient."""
    table = backbone.causal.get_input_embeddings()
    size, seen = table.weight.shape[0], []

    def before(module, arguments):
        ids = arguments[0]
        seen.append(ids)
        return (ids.masked_fill(ids >= size, 0),)

    def after(module, arguments, found):
        ids = seen.pop()
        soft = ids >= size
        if not bool(soft.any()):
            return found
        own = vectors.to(found)[(ids - size).clamp(min=0)]
        return torch.where(soft[..., None], own, found)

    hooks = table.register_forward_pre_hook(before), table.register_forward_hook(after)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class SoftPolicy(LMPolicy):
    """An `LMPolicy` that can read the marks of `place`; use it inside `given`."""

    def __init__(self, backbone: Backbone, adapter: str = BASE, tokens: int = TOKENS):
        super().__init__(backbone, adapter, True, tokens)

    def encoded(self, context: Context) -> Branches:
        """Prompt and legal texts as tokens; the id of soft token k is the vocabulary's size + k."""
        name = context.prompt, context.legal
        if name not in self._read and MARK.search(context.prompt):
            plain = replace(context, prompt=MARK.sub("", context.prompt))
            self._read[name] = self._tokens(context.prompt), super().encoded(plain)[1]
        return super().encoded(context)

    def _tokens(self, prompt: str) -> list[int]:
        size = self.backbone.causal.get_input_embeddings().weight.shape[0]
        ids = []
        for k, part in enumerate(MARK.split(prompt)):
            ids += [size + int(part)] if k % 2 else self.backbone.encode(part)
        return ids


@torch.no_grad()
def embed(backbone: Backbone, texts: Sequence[str]) -> torch.Tensor:
    """(n, H) float32 features of rounds: mean last hidden state of each text, read by itself."""
    found = []
    for text in texts:
        tree = chain(backbone.encode(text))
        tree.add([0], len(tree.tokens) - 1)  # a last token predicts nothing and is left out
        packed = packing.pack_trees([tree], backbone.device)
        found.append(packing.hidden(backbone, packed)[0].float().mean(0))
    return torch.stack(found)

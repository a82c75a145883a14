"""Exact log-probabilities and samples of legal texts under a causal language model.

At each token the model's softmax is taken over the legal next tokens only (`choices.py`). Logits
are float32 products of the last hidden state and the output matrix, whatever the model's precision,
so that ties of bfloat16 logits do not occur; the log-softmax is float64. With temperature T and
top-p, the distribution at each token is softmax(logit / T) over the legal tokens, then cut to its
smallest most probable part of mass top_p and renormalised; `log_prob` and `sample` use the same
function. A temperature must be positive: T -> 0 is play of the most probable tokens, 0.01 is that
in practice.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.cache import Cache, chain
from dipllm_lib.lm.choices import Choice, Path, Tries
from dipllm_lib.lm.choices import path as token_path
from dipllm_lib.lm.decoding import ROWS, Draw, FreeRow, LegalRow, decode, shared_prefixes
from dipllm_lib.lm.packing import Tree

TOKENS = 192  # tokens of one pass: fewer read the weights too often, more attend to too much


def log_prob(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    choices: Sequence[Choice],
    sequences: Sequence[Sequence[Sequence[int]]],
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> list[np.ndarray]:
    """Log-probability of complete choices, in nats.

    prompts: token ids, one list per prompt; choices: what may follow each
    sequences: per prompt, K_i complete choices as option indices
    Returns one float64 array (K_i,) per prompt. Raises ValueError for an incomplete or illegal
    choice.
    """
    paths = []
    for choice, wanted in zip(choices, sequences, strict=True):
        tries = Tries(choice)
        paths.append([token_path(tries, sequence) for sequence in wanted])
    return path_log_prob(backbone, prompts, paths, temperature, top_p)


@torch.inference_mode()
def path_log_prob(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    paths: Sequence[Sequence[Path]],
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> list[np.ndarray]:
    """`log_prob` for choices that are already tokens; the same shapes."""
    check_temperature(temperature, top_p)
    out = [np.zeros(len(row)) for row in paths]
    some = [i for i, row in enumerate(paths) if any(path.decisions for path in row)]
    if not all(len(prompts[i]) for i in some):
        raise ValueError("a prompt must have at least one token: nothing else predicts one")
    cache = Cache(backbone)
    for shared, members in shared_prefixes([prompts[i] for i in some]):
        group = [some[m] for m in members]
        cache.clear([0])
        if shared:
            cache.read([0], [chain(prompts[group[0]][:shared])])
            cache.keep([0], [range(shared)])
        for reads in _passes(shared, group, prompts, paths):
            states = cache.read([0], [reads.tree])
            states = states[torch.tensor([node for node, _ in reads.lines], device=states.device)]
            logits = subset_logits(backbone, states, [legal for _, legal in reads.lines]).double()
            table = legal_log_softmax(logits, temperature, top_p).cpu().numpy()
            for i, k, line, rank in reads.wanted:
                out[i][k] += table[line, rank]
    return out


class _Reads:
    """One pass over prompts and their paths as a trie, so that all that is shared is read once.

    lines: (node, legal tokens) whose log-softmax is wanted; wanted: (prompt, path, line, rank)
    """

    def __init__(self):
        self.tree = Tree()
        self.lines: dict[tuple[int, tuple[int, ...]], int] = {}
        self.wanted: list[tuple[int, int, int, int]] = []

    def add(self, i: int, k: int, prompt: Sequence[int], path: Path) -> None:
        last = path.decisions[-1][0]  # what is after it is not read
        nodes = self.tree.add([*prompt, *path.tokens[:last]])[len(prompt) - 1 :]
        for position, legal, rank in path.decisions:
            line = self.lines.setdefault((nodes[position], legal), len(self.lines))
            self.wanted.append((i, k, line, rank))


def _passes(
    shared: int,
    group: Sequence[int],
    prompts: Sequence[Sequence[int]],
    paths: Sequence[Sequence[Path]],
) -> Iterator[_Reads]:
    """Passes of about TOKENS tokens over the paths of prompts whose first `shared` tokens are read;
    paths that begin alike are neighbours.
    """
    reads = _Reads()
    for i in group:
        own = [k for k, path in enumerate(paths[i]) if path.decisions]
        for k in sorted(own, key=lambda k: paths[i][k].tokens):
            reads.add(i, k, prompts[i][shared:], paths[i][k])
            if len(reads.tree.tokens) >= TOKENS:
                yield reads
                reads = _Reads()
    if reads.wanted:
        yield reads


def subset_logits(
    backbone: Backbone, states: torch.Tensor, legal: Sequence[tuple[int, ...]]
) -> torch.Tensor:
    """Logits (N, A) float32 of the tokens legal[n] at states (N, H); -inf beyond len(legal[n])."""
    sizes = np.array([len(tokens) for tokens in legal])
    padding = np.arange(sizes.max()) >= sizes[:, None]
    tokens, place = np.unique(np.concatenate(legal), return_inverse=True)
    table = np.zeros(padding.shape, np.int64)
    table[~padding] = place
    head = backbone.head  # may lie on another device than the last states
    weights = head[torch.from_numpy(tokens).to(head.device)].float().to(states.device)
    logits = (states.float() @ weights.T).gather(1, torch.from_numpy(table).to(states.device))
    return logits.masked_fill(torch.from_numpy(padding).to(states.device), -torch.inf)


def legal_log_softmax(logits: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Log-probabilities (N, A) of logits (N, A) at `temperature`, cut to mass `top_p`,
    renormalised.
    """
    table = torch.log_softmax(logits / temperature, dim=-1)
    if top_p >= 1.0:
        return table
    order = torch.argsort(table, dim=-1, descending=True, stable=True)
    ranked = table.gather(-1, order)
    before = ranked.exp().cumsum(-1) - ranked.exp()
    keep = torch.zeros_like(table, dtype=torch.bool).scatter(-1, order, before < top_p)
    return torch.log_softmax(table.masked_fill(~keep, -torch.inf), dim=-1)


def sample(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    choices: Sequence[Choice],
    rngs: Sequence[np.random.Generator],
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> list[tuple[tuple[int, ...], float]]:
    """One complete choice per prompt and its log-probability, drawn token by token among the legal
    ones.

    rngs: one generator per prompt; its draws do not depend on the other prompts of the batch.
    Returns (option indices, log-probability in nats), equal to `log_prob` of the same choice to
    rounding.
    """
    check_temperature(temperature, top_p)

    def log_softmax(states, legal):
        logits = subset_logits(backbone, states, legal).double()
        return legal_log_softmax(logits, temperature, top_p).cpu().numpy()

    draws = [Draw(rng) for rng in rngs]
    members: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for i, (prompt, choice) in enumerate(zip(prompts, choices, strict=True)):
        members.setdefault((id(choice), tuple(prompt)), []).append(i)
    rows, tries = [], {id(choice): Tries(choice) for choice in choices}
    for (key, prompt), own in members.items():  # draws of one choice share a row until they part
        for first in range(0, len(own), ROWS):
            some = [draws[i] for i in own[first : first + ROWS]]
            rows.append(LegalRow.begin(prompt, tries[key], some))
    decode(backbone, [row for row in rows if row.node is not None], log_softmax)
    return [(one.chosen, one.log_prob) for one in draws]


def sample_text(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    rngs: Sequence[np.random.Generator],
    stop: int,
    limit: int | Sequence[int],
    temperature: float = 1.0,
) -> list[list[int]]:
    """One free continuation per prompt, without any mask: token ids up to and with `stop`, at most
    `limit` (of all, or of each). temperature 0: the most probable token, of equals the first.
    """
    check_temperature(temperature or 1.0, 1.0)
    head = backbone.head.float().T

    def log_softmax(states, _):
        logits = (states.to(head.device).float() @ head).double()
        if temperature == 0:
            best = torch.argmax(logits, -1, keepdim=True)
            return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0).cpu().numpy()
        return torch.log_softmax(logits / temperature, dim=-1).cpu().numpy()

    limits = np.broadcast_to(limit, len(prompts)).tolist()
    given = zip(prompts, rngs, limits, strict=True)
    rows = [FreeRow(prompt, rng, stop, most) for prompt, rng, most in given]
    decode(backbone, [row for row in rows if row.limit > 0], log_softmax)
    return [row.said for row in rows]


def check_temperature(temperature: float, top_p: float) -> None:
    """Raise ValueError unless temperature > 0 and 0 < top_p <= 1."""
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}: 0.01 is nearly greedy")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be in (0, 1], got {top_p}")

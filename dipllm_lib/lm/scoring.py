"""Exact log-probabilities and samples of legal texts under a causal language model.

At each token the model's softmax is taken over the legal next tokens only (`choices.py`). Logits
are float32 products of the last hidden state and the output matrix, whatever the model's precision,
so that ties of bfloat16 logits do not occur; the log-softmax is float64. With temperature T and
top-p, the distribution at each token is softmax(logit / T) over the legal tokens, then cut to its
smallest most probable part of mass top_p and renormalised; `log_prob` and `sample` use the same
function. A temperature must be positive: T -> 0 is play of the most probable tokens, 0.01 is that
in practice.
"""

from collections.abc import Sequence

import numpy as np
import torch

from dipllm_lib.lm import packing
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Choice, Path, Tries, path
from dipllm_lib.lm.decoding import FreeRow, LegalRow, decode

TOKENS = 1024  # padded tokens of one forward pass
ROWS = 64  # rows decoded together


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
        paths.append([path(tries, sequence) for sequence in wanted])
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
    lengths = [
        packing.row_length(p, [x.tokens for x in row])
        for p, row in zip(prompts, paths, strict=True)
    ]
    for rows in packing.chunks(lengths, TOKENS):
        logits, branch, rank = legal_logits(
            backbone, [prompts[i] for i in rows], [paths[i] for i in rows]
        )
        if len(rank):
            table = legal_log_softmax(logits.double(), temperature, top_p)
            found = table.gather(1, rank[:, None])[:, 0].cpu().numpy()
            for (row, k), value in zip(branch, found, strict=True):
                out[rows[row]][k] += value
    return out


def legal_logits(
    backbone: Backbone, prompts: Sequence[Sequence[int]], paths: Sequence[Sequence[Path]]
) -> tuple[torch.Tensor, list[tuple[int, int]], torch.Tensor]:
    """Logits of the legal tokens at every decision of every path; differentiable.

    Returns logits (N, A) float32 padded with -inf, the (row, path) of each decision, and the rank
    (N,) of the token taken.
    """
    where = [
        (row, k, decision)
        for row, parts in enumerate(paths)
        for k, part in enumerate(parts)
        for decision in part.decisions
    ]
    branch = [(row, k) for row, k, _ in where]
    rank = torch.tensor([d[2] for *_, d in where], dtype=torch.int64, device=backbone.device)
    if not where:
        return torch.zeros(0, 0), branch, rank
    packed = packing.pack(prompts, [[x.tokens for x in row] for row in paths], backbone.device)
    states = packing.hidden(backbone, packed)
    rows = torch.tensor([row for row, _ in branch], device=states.device)
    columns = torch.tensor(
        [packed.predictor(row, k, d[0]) for row, k, d in where], device=states.device
    )
    return subset_logits(backbone, states[rows, columns], [d[1] for *_, d in where]), branch, rank


def subset_logits(
    backbone: Backbone, states: torch.Tensor, legal: Sequence[tuple[int, ...]]
) -> torch.Tensor:
    """Logits (N, A) float32 of the tokens legal[n] at states (N, H); -inf beyond len(legal[n])."""
    width = max(map(len, legal))
    table = np.zeros((len(legal), width), np.int64)
    padding = np.ones((len(legal), width), bool)
    for n, tokens in enumerate(legal):
        table[n, : len(tokens)] = tokens
        padding[n, : len(tokens)] = False
    weights = backbone.head[torch.from_numpy(table).to(states.device)].float()
    logits = torch.einsum("nh,nah->na", states.float(), weights)
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

    tries: dict[int, Tries] = {}  # equal choice objects share their tries
    rows = [
        LegalRow(prompt, tries.setdefault(id(choice), Tries(choice)), rng)
        for prompt, choice, rng in zip(prompts, choices, rngs, strict=True)
    ]
    for first in range(0, len(rows), ROWS):
        decode(backbone, rows[first : first + ROWS], log_softmax)
    return [(tuple(row.chosen), row.log_prob) for row in rows]


def sample_text(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    rngs: Sequence[np.random.Generator],
    stop: int,
    limit: int,
    temperature: float = 1.0,
) -> list[list[int]]:
    """One free continuation per prompt, without any mask: token ids up to and with `stop`, at most
    `limit`.
    """
    check_temperature(temperature, 1.0)

    def log_softmax(states, _):
        logits = states.float() @ backbone.head.float().T
        return torch.log_softmax(logits.double() / temperature, dim=-1).cpu().numpy()

    rows = [FreeRow(p, rng, stop, limit) for p, rng in zip(prompts, rngs, strict=True)]
    for first in range(0, len(rows), ROWS):
        decode(backbone, rows[first : first + ROWS], log_softmax)
    return [row.tokens for row in rows]


def check_temperature(temperature: float, top_p: float) -> None:
    """Raise ValueError unless temperature > 0 and 0 < top_p <= 1."""
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}: 0.01 is nearly greedy")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be in (0, 1], got {top_p}")

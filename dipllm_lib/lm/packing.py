"""One prompt with several continuations as one row: the prompt is read once, the continuations are
its branches.

A row holds prompt, branch 1, ..., branch K. A token sees the prompt up to itself and the earlier
tokens of its own branch; its position counts as if the branch stood alone behind the prompt. Rows
of a batch are padded on the right. The hidden state that predicts token j of a branch is that of
token j - 1, or of the last prompt token for j = 0.

Shapes: B rows, T longest row, H width. ids, positions (B, T); mask (B, 1, T, T), True where
    attention is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dipllm_lib.lm.backbones import Backbone


@dataclass(frozen=True)
class Packed:
    """A batch of rows; starts[b][k] is the column of the first token of branch k of row b."""

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    ends: list[int]
    starts: list[list[int]]

    def predictor(self, row: int, branch: int, token: int) -> int:
        """Column whose hidden state predicts `token` of `branch`."""
        return self.starts[row][branch] + token - 1 if token else self.ends[row]


def row_length(prompt: Sequence[int], branches: Sequence[Sequence[int]]) -> int:
    """Columns of a row: the last token of a branch predicts nothing and is left out."""
    return len(prompt) + sum(max(len(branch) - 1, 0) for branch in branches)


def pack(
    prompts: Sequence[Sequence[int]],
    branches: Sequence[Sequence[Sequence[int]]],
    device: torch.device,
) -> Packed:
    """Rows of `prompts` with their `branches`. Raises ValueError for an empty prompt."""
    if not all(len(prompt) for prompt in prompts):
        raise ValueError(
            "a prompt must have at least one token: nothing else predicts the first one"
        )
    width = max(row_length(p, b) for p, b in zip(prompts, branches, strict=True))
    ids = np.zeros((len(prompts), width), np.int64)
    positions = np.zeros_like(ids)
    segment = np.full_like(ids, -1)  # 0 prompt, k + 1 branch k, -1 padding
    starts: list[list[int]] = []
    for row, (prompt, parts) in enumerate(zip(prompts, branches, strict=True)):
        end = len(prompt)
        ids[row, :end], positions[row, :end], segment[row, :end] = prompt, np.arange(end), 0
        starts.append([])
        for k, part in enumerate(parts):
            starts[row].append(end)
            stop = end + max(len(part) - 1, 0)
            ids[row, end:stop] = part[:-1]
            positions[row, end:stop] = len(prompt) + np.arange(stop - end)
            segment[row, end:stop] = k + 1
            end = stop
    query, key = segment[:, :, None], segment[:, None, :]
    mask = ((key == 0) | (query == key)) & np.tri(width, dtype=bool)
    tensors = (torch.from_numpy(x).to(device) for x in (ids, positions, mask[:, None]))
    return Packed(*tensors, [len(prompt) - 1 for prompt in prompts], starts)


def hidden(backbone: Backbone, packed: Packed) -> torch.Tensor:
    """Last hidden states, (B, T, H), in the model's precision."""
    return backbone.causal.model(
        input_ids=packed.ids,
        attention_mask=packed.mask,
        position_ids=packed.positions,
        use_cache=False,
    ).last_hidden_state


def chunks(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Row indices in groups of similar length whose rows times longest row stay within `tokens`.

    A longer row stands alone. The cut depends on `lengths` alone, never on free memory, so a
    batch's composition is a function of the task.
    """
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if groups and (len(groups[-1]) + 1) * lengths[i] <= tokens:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups

"""Long-term memory: a differentiable key-value store.

After each round it writes key W_k e and value W_v e of the round's features e, and it is asked by

    read(h) = softmax(q K^T / (tau sqrt(d))) M,     q = W_q h,   K keys, M values of past rounds

e is the mean last-layer state of the round's text for a language model (`soft_tokens`), one-hot
features for a table (`recall`, `memory_players`). tau = 1 is the rule; as tau goes to 0 the value
of the best key is returned. An empty store reads 0. Entries keep their graph within an episode, so
gradients reach the keys and values of earlier rounds; `detach` cuts it between episodes.

Shapes: B episodes, t rounds, F features of a round, H features of a question, d = 32.
"""

import math

import torch

from dipllm_lib.run import seeding

SIZE = 32  # d


class KeyValueStore(torch.nn.Module):
    """features: F · asked: H, F if not given · size: d of keys and values · temperature: tau > 0.

    Weights depend on (seed, sizes) only. `keys` and `values` are lists of (B, d), one per round.
    """

    def __init__(
        self,
        features: int,
        asked: int | None = None,
        size: int = SIZE,
        temperature: float = 1.0,
        seed: int = 0,
    ):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature {temperature} of a store: it must be above 0")
        with seeding.torch_seed(seed, "kto", "store", features, size):
            self.key = torch.nn.Linear(features, size, bias=False)
            self.value = torch.nn.Linear(features, size, bias=False)
            self.query = torch.nn.Linear(asked or features, size, bias=False)
        self.size, self.temperature = size, temperature
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def __len__(self) -> int:
        return len(self.keys)

    def write(self, round_features: torch.Tensor) -> None:
        """One round of every episode, (B, F)."""
        self.keys.append(self.key(round_features))
        self.values.append(self.value(round_features))

    def read(self, question: torch.Tensor) -> torch.Tensor:
        """(B, d) for questions (B, H); zeros while the store is empty."""
        if not self.keys:
            return question.new_zeros(len(question), self.size)
        keys, values = torch.stack(self.keys, 1), torch.stack(self.values, 1)
        return attend(self.query(question)[:, None], keys, values, self.temperature)[:, 0]

    def read_all(self, rounds: torch.Tensor, questions: torch.Tensor) -> torch.Tensor:
        """(B, T, d): `read` before every round t of whole episodes, with rounds 0 … t-1 written.

        rounds: (B, T, F) · questions: (B, T, H). The same numbers as writing and reading one round
        after the other, in one pass; what is stored is neither used nor changed.
        """
        count = rounds.shape[1]
        seen = torch.ones(count, count, dtype=torch.bool).tril(-1)
        found = attend(
            self.query(questions), self.key(rounds), self.value(rounds), self.temperature, seen
        )
        return torch.cat([torch.zeros_like(found[:, :1]), found[:, 1:]], 1)

    def detach(self) -> None:
        """Between episodes: what is stored stays, its graph does not."""
        self.keys = [key.detach() for key in self.keys]
        self.values = [value.detach() for value in self.values]

    def clear(self) -> None:
        """An empty store."""
        self.keys, self.values = [], []


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    temperature: float = 1.0,
    seen: torch.Tensor | None = None,
) -> torch.Tensor:
    """(B, Q, d) softmax(q K^T / (tau sqrt(d))) M. queries (B, Q, d); keys, values (B, t, d).

    seen: bool (Q, t), which entries a query may read; a query that may read none gets a mean of
    all, which the caller has to replace.
    """
    scores = queries @ keys.transpose(1, 2) / (temperature * math.sqrt(keys.shape[-1]))
    if seen is not None:
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, -1) @ values

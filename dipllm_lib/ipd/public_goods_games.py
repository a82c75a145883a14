"""Public goods games of stacked learners: two learners and a memory-one agent, or one and two.

A stack holds A learners, partners side by side. Of the n games of learner i the first p are with
its partner, i xor 1, and one memory-one agent that both meet: game g of learner i is game g of its
partner seen from the other seat. In the others it meets two memory-one agents of its own. This is
the mixed pool of `batch_play` with one player more.

All chance is drawn before the first round. What a pair shares is drawn by generators of its first
learner, the rest by each learner's own.

Shapes: A learners, n games of each, T rounds, codes of `public_goods`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dipllm_lib.ipd import public_goods
from dipllm_lib.ipd.batch_play import Actor, Table
from dipllm_lib.ipd.public_goods import CODES, PLAYERS

Stream = Callable[[int, str], np.random.Generator]  # (place in the stack, purpose) -> generator


@dataclass(frozen=True, eq=False)
class Seats:
    """Who sits beside each learner, and all chance of the games.

    pairs: p, the first p games are with the partner · vectors (A, n, 2, 7) float32: memory-one
    agents; the first of the two is not used in games with the partner · own, noise (T, A, n) and
    others (T, A, n, 2) float32: uniform for actions, standard normal for decisions.
    """

    pairs: int
    vectors: torch.Tensor
    own: torch.Tensor
    noise: torch.Tensor
    others: torch.Tensor

    def part(self, first: int, last: int) -> "Seats":
        """The games first … last - 1."""
        cut = slice(first, last)
        pairs = min(max(self.pairs - first, 0), last - first)
        chance = self.own[:, :, cut], self.noise[:, :, cut], self.others[:, :, cut]
        return Seats(pairs, self.vectors[:, cut], *chance)


def seats(
    learners: int,
    third: Callable[[np.random.Generator, int], np.ndarray],
    both: Callable[[np.random.Generator, int], np.ndarray],
    sizes: tuple[int, int, int],
    stream: Stream,
) -> Seats:
    """Draw the games of a stack.

    third: (generator, n) -> agents (n, 7) beside two learners · both: the same of the two beside
    one · sizes: p, games with two memory-one agents, rounds · stream: (learner, purpose) ->
    generator. ValueError for games with partners of an odd number of learners.
    """
    p, m, rounds = sizes
    if p and learners % 2:
        raise ValueError(f"{learners} learners cannot be paired for games with each other")
    vectors = np.full((learners, p + m, 2, CODES), 0.5)
    own, noise = (np.empty((learners, p + m, rounds), np.float32) for _ in range(2))
    others = np.empty((learners, p + m, rounds, 2), np.float32)
    for i in range(learners):
        first = i - i % 2  # of the pair
        if p:
            vectors[i, :p, 1] = third(stream(first, "third"), p)
            others[i, :p] = stream(first, "third replies").random((p, rounds, 2), np.float32)
        if m:
            vectors[i, p:] = both(stream(i, "opponents"), 2 * m).reshape(m, 2, CODES)
            others[i, p:] = stream(i, "replies").random((m, rounds, 2), np.float32)
        own[i] = stream(i, "actions").random((p + m, rounds), np.float32)
        noise[i] = stream(i, "decisions").standard_normal((p + m, rounds), np.float32)
    chance = [torch.from_numpy(np.moveaxis(x, 2, 0).copy()) for x in (own, noise, others)]
    return Seats(p, torch.from_numpy(vectors.astype(np.float32)), *chance)


@torch.inference_mode()
def play(actor: Actor, games: Seats) -> np.ndarray:
    """Codes uint8 (A, n, T) of all games in each learner's own view."""
    learners, n = games.vectors.shape[:2]
    codes = np.empty((learners, n, len(games.own)), dtype=np.uint8)
    for first in range(0, n, actor.chunk):
        last = min(first + actor.chunk, n)
        found = _play(actor, games.part(first, last))
        codes[:, first:last] = found.numpy().transpose(1, 2, 0)
    return codes


def _play(actor: Actor, games: Seats) -> torch.Tensor:
    """Codes uint8 (T, A, n) of one chunk."""
    rounds, learners, n = games.own.shape
    p, partner = games.pairs, torch.arange(learners) ^ 1
    codes = torch.empty((rounds, learners, n), dtype=torch.uint8)
    state = actor.start(Table(n, games.vectors[:, :0, 0]))
    obs = torch.zeros((learners, n), dtype=torch.int64)
    seen = torch.zeros((learners, n, 2), dtype=torch.int64)
    for t in range(rounds):
        own, state = actor.act(state, obs, games.own[t], games.noise[t])
        chance = games.vectors.gather(3, seen[..., None])[..., 0]
        others = games.others[t] < chance
        if p:
            others[:, :p, 0] = own[partner, :p]
        total = own.long() + others.sum(dim=2)
        obs = _code(own, total)
        seen = _code(others, total[..., None])
        codes[t] = obs
    return codes


def _code(own: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """`public_goods.code` of tensors; total: all that gave, the own gift included."""
    return 1 + PLAYERS * (~own).long() + PLAYERS - 1 - (total - own.long())


def own_actions(codes: np.ndarray) -> np.ndarray:
    """uint8 own actions, 1 = C, of codes of rounds."""
    return (codes <= PLAYERS).astype(np.uint8)


def others(codes: np.ndarray) -> np.ndarray:
    """uint8 number of the others that gave, 0 to 2, of codes of rounds."""
    return (PLAYERS - 1 - (codes.astype(np.int64) - 1) % PLAYERS).astype(np.uint8)


def means(codes: np.ndarray, goods: public_goods.PublicGoods) -> np.ndarray:
    """(A, 4) of codes (A, n, T): cooperation and reward of the learner, then the mean of the two
    others."""
    own, gave = (x(codes).mean(axis=(1, 2), dtype=np.float64) for x in (own_actions, others))
    share = goods.r * (own + gave) / PLAYERS
    return np.stack([own, share - own, gave / 2, share - gave / 2], axis=1)

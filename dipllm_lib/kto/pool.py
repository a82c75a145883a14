"""The pool that the roles learn from: scripted members of four games, and who meets whom.

    ultimatum    proposers fair (50), greedy (10), mixed (uniform); responders people (the table),
                 envious (Fehr-Schmidt, envy log-normal with median .19 and log-sd 1.66)
    gift         first movers uniform over gifts; second movers people (the table)
    repeated     eight memory-one players: AllC, AllD, TFT, GTFT, WSLS, Grim, Extort-2, people
    bargaining   soft, fair and tough: what a member keeps, and the least that it takes

The length of the repeated game and the end of talks are drawn, so information sets carry no round
and a policy of the executor is a finite table: exact values exist. `WATCHED` is the same repeated
game with eight rounds in view, for the modeller.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dipllm_lib.kto import humans, repeated
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.games import ACCEPT, REFUSE, Chooser, Game
from dipllm_lib.kto.gift import GiftPD
from dipllm_lib.kto.repeated import IteratedPD, MemoryOne
from dipllm_lib.kto.ultimatum import Ultimatum
from dipllm_lib.kto.vocabulary import PARTNERS

GAMES = ("ultimatum", "gift", "repeated", "bargaining")
VECTORS = dict(
    zip(
        PARTNERS,
        (
            (1.0,) * 5,
            (0.0,) * 5,
            (1.0, 1.0, 0.0, 1.0, 0.0),
            (1.0, 1.0, 1 / 3, 1.0, 1 / 3),
            (1.0, 1.0, 0.0, 0.0, 1.0),
            (1.0, 1.0, 0.0, 0.0, 0.0),
            repeated.EXTORT2,
            tuple(humans.repeated_pd().tolist()),
        ),
        strict=True,
    )
)
BARGAINERS = {"soft": (0.4, 0.3), "fair": (0.5, 0.5), "tough": (0.7, 0.6)}
ENVY = (0.190, 1.66)  # median and log-sd of the envious responders
GO_ON = 0.9  # chance that talks survive a refusal


def catalogue(rounds: int, go_on: float = GO_ON) -> dict[str, Game]:
    """The four games; rounds: mean length of the repeated one."""
    return {
        "ultimatum": Ultimatum(),
        "gift": GiftPD(),
        "repeated": IteratedPD(delta=chance(rounds), window=1),
        "bargaining": AlternatingOffers(grid=10, rounds=None, go_on=go_on),
    }


def watched(rounds: int) -> IteratedPD:
    """The repeated game as the modeller sees it: its last eight rounds."""
    return IteratedPD(delta=chance(rounds))


def chance(rounds: int) -> float:
    """Chance of another round, whole per cent, for a mean of about `rounds` rounds."""
    return int(100 * (1 - 1 / rounds) + 1e-9) / 100


@dataclass(frozen=True)
class Mixed:
    """Draws a legal text with fixed probabilities, uniform without any."""

    chances: tuple[float, ...] = ()

    def __call__(self, game: Game, state, player: int, rng: np.random.Generator) -> int:
        """One uniform number a decision."""
        count = len(game.legal(state, player))
        if not self.chances:
            return int(rng.integers(count))
        total = np.cumsum(self.chances)
        return int(min(np.searchsorted(total, rng.random() * total[-1], "right"), count - 1))


@dataclass(frozen=True)
class Answers:
    """Accepts, or gives, with a probability that depends on what was said: an offer of the
    ultimatum, a first gift. chances: by its index · yes: index of the answer."""

    chances: tuple[float, ...]
    yes: int

    def __call__(self, game: Game, state, player: int, rng: np.random.Generator) -> int:
        """One uniform number a decision."""
        seen = state.offer if hasattr(state, "offer") else state.gift
        return self.yes if rng.random() < self.chances[seen] else 1 - self.yes


@dataclass(frozen=True)
class Bargainer:
    """Keeps a share, and takes whatever leaves it `least` or more."""

    keep: float
    least: float

    def __call__(self, game: AlternatingOffers, state, player: int, rng) -> int:
        """No chance."""
        if state.keep < 0:
            return round(self.keep * game.grid)
        return ACCEPT if 1 - state.keep / game.grid >= self.least - 1e-9 else REFUSE


@dataclass(frozen=True)
class Table:
    """A policy as probabilities by information set: pi_ref or a trained executor at play."""

    rows: Mapping
    mix: float = 0.0  # share of uniform play

    def __call__(self, game: Game, state, player: int, rng: np.random.Generator) -> int:
        """Two uniform numbers a decision. KeyError for an information set that is not there."""
        if rng.random() < self.mix:
            return Mixed()(game, state, player, rng)
        return Mixed(tuple(self.rows[game.infoset(state, player)]))(game, state, player, rng)


def people(game: str) -> Answers:
    """The pooled human responder of the ultimatum, or second mover of the gift game."""
    shares = np.arange(11) / 10
    if game == "ultimatum":
        return Answers(tuple(humans.ultimatum_responder(shares).tolist()), ACCEPT)
    return Answers(tuple(humans.gift_pd(shares).tolist()), 1)


def member(game: str, name: str, rng: np.random.Generator) -> Chooser:
    """A member of the pool; what is random about a type is drawn once per episode."""
    if game == "repeated":
        return MemoryOne(VECTORS[name])
    if game == "bargaining":
        return Bargainer(*BARGAINERS[name])
    if name == "people":
        return people(game)
    if name == "envious":
        envy = ENVY[0] * np.exp(ENVY[1] * rng.standard_normal())
        accepts = humans.fehr_schmidt(np.arange(11) / 10, envy)
        return Answers(tuple(accepts.astype(float).tolist()), ACCEPT)
    fixed = {"fair": 5, "greedy": 1}
    if name == "mixed":
        return Mixed()
    if name not in fixed:
        raise ValueError(f"no member {name!r} of the game {game!r}")
    return Mixed(tuple(float(k == fixed[name]) for k in range(11)))


@dataclass(frozen=True)
class Match:
    """Who meets whom: members by seat, "" for the policy that learns; episodes numbered from
    `first`."""

    game: str
    seats: tuple[str, str]
    first: int
    episodes: int


def _matches(seats: list[tuple[str, str, str]], episodes: Mapping[str, int]) -> list[Match]:
    found, first = [], dict.fromkeys(GAMES, 0)
    for game, one, two in seats:
        found.append(Match(game, (one, two), first[game], episodes[game]))
        first[game] += episodes[game]
    return found


def transcripts(episodes: int) -> list[Match]:
    """Members among themselves, for stage 1: `episodes` per pair, fewer of the longer games."""
    pairs = [
        ("ultimatum", p, r) for p in ("fair", "greedy", "mixed") for r in ("people", "envious")
    ]
    pairs += [("gift", "mixed", "people")] * 2
    pairs += [("repeated", one, PARTNERS[(k + 3) % 8]) for k, one in enumerate(PARTNERS)]
    pairs += [("bargaining", one, two) for one in BARGAINERS for two in BARGAINERS]
    fewer = max(2, episodes // 20)
    return _matches(pairs, dict(zip(GAMES, (episodes, episodes, fewer, fewer), strict=True)))


def collection(episodes: int) -> list[Match]:
    """The policy against the pool, in both seats where a game has two roles for it."""
    pairs = [("ultimatum", "", "people"), ("ultimatum", "", "people"), ("ultimatum", "", "envious")]
    pairs += [("ultimatum", "mixed", "")] * 3 + [("gift", "mixed", "")] * 3
    pairs += [("repeated", "", name) for name in PARTNERS]
    pairs += [
        pair for name in BARGAINERS for pair in (("bargaining", "", name), ("bargaining", name, ""))
    ]
    fewer = max(3, episodes // 10)
    return _matches(pairs, dict(zip(GAMES, (episodes, episodes, fewer, episodes), strict=True)))

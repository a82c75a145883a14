"""Whose influence graph is drawn: tabular executors of two games, and the language model.

Tables are trained by `pt_kto` under each of the six settings, several seeds with drawn episodes:

    ultimatum    proposers against people, rho = half the pie (F: 0); one state, before any offer
    bargaining   breakdown without end (p = .9, grid of 20) against a partner that learns too, under
                 ARTICLE; rho = .25 for both (F: own 0); the states of player 0 that are met: its
                 offer, and its answer to each offer

The edge of lambda should be near 0 in the first and clear in the second (claim K16): own loss
aversion lowers the own share where breakdown is the loss.

The language model plays the repeated game: the modeller names the member of the pool from eight
rounds, the executor reads that name, the setting and the last round.

Shapes: N states per seed; a seed's number is the mean over its states.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from dipllm_lib.kto import (
    bargainers,
    cem,
    coordinator,
    influence,
    lm_labels,
    opponent,
    pool,
    proposers,
    prospect,
    repeated,
    roles,
    training,
    variants,
)
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.bargaining import State as Talks
from dipllm_lib.kto.influence import PARAMETERS
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.kto.policies import Context, Policy, Rows, TabularPolicy
from dipllm_lib.kto.repeated import IteratedPD, State
from dipllm_lib.kto.tabular import Objective
from dipllm_lib.kto.ultimatum import State as Offer
from dipllm_lib.kto.ultimatum import Ultimatum
from dipllm_lib.kto.vocabulary import PARTNERS
from dipllm_lib.kto.wiring import Module, Situation, Wiring, without
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles_kto import KTOSettings

LETTERS = lm_labels.LETTERS
TALKS = AlternatingOffers(grid=20, rounds=None, go_on=0.9)
RHO = 0.25  # reference share in the bargaining
TRAINED = (*LETTERS, "A")  # A twice, on other episodes: its difference is what chance alone does
SWEEPS = 12
SMALLEST = 1e-12  # probabilities below it are written as it
EDGES_OF = {  # module -> the edges that are 0 without it
    "adapter": ("adapter",),
    "forecast": ("forecast",),
    "memory": ("memory",),
    "setting": ("setting", *PARAMETERS),
    "cache": ("cache",),
    "social": ("social total", "social direct"),
    "modeller": ("modeller",),
    "coordinator": ("coordinator",),
}


def _table(game, places, rows: dict[str, list[np.ndarray]]) -> TabularPolicy:
    """A policy from distributions by letter, one per (state, player)."""
    found = {}
    for letter, own in rows.items():
        for (state, player), p in zip(places, own, strict=True):
            key = lm_labels.context(game, state, player, letter).key
            found[key] = np.log(np.maximum(p, SMALLEST))
    return TabularPolicy(found)


def proposer(rounds: int, episodes: int, seed: int) -> tuple[Wiring, Wiring, list]:
    """Wiring of a trained proposer, the same with its control, and its one situation."""
    four = variants.rows_of("ultimatum", TRAINED)
    params = [cem.params_of(row) for row in four]
    accept = np.tile(proposers.people(), (len(four), 1))
    problem = proposers.Proposers(accept, proposers.prospect_values(four[:, 3], params))
    rng = seeding.child(seed, "kto", "influence", "ultimatum")
    learned = training.train(problem, Objective(), rounds, episodes, rng).probs
    game, places = Ultimatum(), [(Offer(), 0)]
    return _wired(game, places, [[row] for row in learned])


def bargainer(rounds: int, episodes: int, seed: int) -> tuple[Wiring, Wiring, list]:
    """The same of player 0 of the bargaining with breakdown."""
    four = variants.rows_of("breakdown", TRAINED)
    params = [(cem.params_of(row), prospect.ARTICLE) for row in four]
    own = np.where(four[:, 3] > 0, RHO, 0.0)
    games = [replace(TALKS, rounds=2)] * len(four)  # `settle` asks for a length and ignores it
    pairs = bargainers.Pairs(games, params, np.stack([own, 0 * own + RHO], axis=1))
    rng = seeding.child(seed, "kto", "influence", "bargaining")
    learned = bargainers.settle(pairs, Objective(), rounds, SWEEPS, episodes, rng)
    shares = range(TALKS.grid + 1)
    places = [(Talks(-1), 0)] + [(Talks(-1, round=1, keep=k), 0) for k in shares]
    rows = []
    for keep, takes in zip(learned.keep[0], learned.accept[1], strict=True):
        rows.append([keep, *(np.array([p, 1 - p]) for p in takes)])
    return _wired(TALKS, places, rows, -RHO)


def _wired(game, places: Sequence, rows: Sequence[list], change: float = -0.5):
    """rows: per trained setting the distributions at the places; the last one is A once more."""
    policy = _table(game, places, dict(zip(LETTERS, rows, strict=False)))
    control = _table(game, places, {k: rows[0] if k == "A" else rows[-1] for k in LETTERS})
    base, given = TabularPolicy(), [Situation(*place) for place in places]
    both = (Wiring(game, own, base, rho_change=change) for own in (policy, control))
    return *both, given


CASES = {"ultimatum": proposer, "bargaining": bargainer}


def tasks(settings: KTOSettings, seed: int) -> tuple[list[tuple[str, int, int, int]], list[str]]:
    """(game, rounds, drawn decisions, seed) of every game and seed, with keys."""
    sizes = settings.influence_tabular_rounds, settings.objective_bargain[1]
    seeds = range(seed, seed + settings.tabular_seeds)
    found = [(game, *sizes, own) for game in CASES for own in seeds]
    return found, [f"influence-{game}-{own}" for game, _, _, own in found]


def run(task: tuple[str, int, int, int]) -> list[dict]:
    """Rows game, seed, parameter, edge (nats per unit), chance (the same between two trainings
    under A, what drawn episodes alone do), drift (of the mean action over offers, shares per unit)
    of one seed; task: (game, rounds, episodes, seed)."""
    game, rounds, episodes, seed = task
    wiring, control, given = CASES[game](rounds, episodes, seed)
    found, floor = influence.effects(wiring, given), influence.effects(control, given)
    offers = [k for k, at in enumerate(given) if len(wiring.game.legal(at.state, at.player)) > 2]
    return [
        {
            "game": game,
            "seed": seed,
            "parameter": name,
            "edge": float(found.rows[name].mean()),
            "chance": float(floor.rows[name].mean()),
            "drift": float(found.drift[name][offers].mean()),
        }
        for name in PARAMETERS
    ]


def parameters(rows: Sequence[dict], seed: int, resamples: int) -> pd.DataFrame:
    """Rows game, parameter, seeds, then edge, edge above chance (paired) and drift with 95 %
    intervals over seeds: claim K16."""
    found = []
    for (game, name), part in pd.DataFrame(rows).groupby(["game", "parameter"], sort=False):
        row = {"game": game, "parameter": name, "seeds": len(part)}
        part = part.assign(above=part["edge"] - part["chance"])
        for what in ("edge", "above", "drift"):
            rng = seeding.child(seed, "kto", "influence", game, name, what)
            mean, low, high = stats.mean_interval(part[what], rng, resamples)
            row |= {what: mean, f"{what}_low": low, f"{what}_high": high}
        found.append(row)
    return pd.DataFrame(found)


@dataclass(frozen=True, eq=False)
class Remembered:
    """A policy that computes no context twice: the modeller gives forecasts and edges."""

    policy: Policy
    known: influence.Distributions = field(default_factory=influence.Distributions)

    def log_probs(self, contexts: Sequence[Context]) -> Rows:
        """Those of the policy."""
        self.known.compute([(self.policy, context) for context in contexts])
        return [self.known.of(self.policy, context) for context in contexts]


@dataclass(frozen=True)
class Named:
    """The forecast that the executor reads, the most likely member of the pool, of states that
    were all asked at once. KeyError for another state."""

    names: dict

    @classmethod
    def of(cls, policy: Policy, game: IteratedPD, asked: Sequence[tuple[State, int]]) -> "Named":
        """Ask a modeller about the other player at these (state, player)."""
        places = list(dict.fromkeys((game.infoset(s, 1 - i), s, i) for s, i in asked))
        first = {key: opponent.type_context(game, s, 1 - i) for key, s, i in places}
        rows = policy.log_probs(list(first.values()))
        told = [lm_labels.partner(PARTNERS[int(np.argmax(row))]) for row in rows]
        found = dict(zip(first, told, strict=True))
        return cls({(s, i): found[key] for key, s, i in places})

    def __call__(self, state: State, player: int) -> str:
        return self.names[state, player]


def swapped(state: State, player: int) -> list[State]:
    """The opponent's last action replaced by the other one; none before the first round."""
    if not state.history:
        return []
    last = list(state.history[-1])
    last[1 - player] = 1 - last[1 - player]
    return [replace(state, history=(*state.history[:-1], tuple(last)))]


def histories(count: int, rounds: int, seed: int) -> list[Situation]:
    """Decision states of the repeated game: a uniform player after 1 … `rounds` rounds with a
    member of the pool, under a drawn setting."""
    game = IteratedPD(10**6)
    found = []
    for k in range(count):
        rng = seeding.child(seed, "kto", "influence state", k)
        name, letter = PARTNERS[rng.integers(len(PARTNERS))], LETTERS[rng.integers(len(LETTERS))]
        choosers = (repeated.MemoryOne((0.5,) * 5), repeated.MemoryOne(pool.VECTORS[name]))
        state = game.reset(rng)
        for _ in range(int(rng.integers(1, rounds + 1))):
            state = game.step(state, tuple(c(game, state, i, rng) for i, c in enumerate(choosers)))
        found.append(Situation(state, 0, letter))
    return found


def fullest(given: Sequence[Situation], window: int = repeated.WINDOW) -> int:
    """Index of the situation with the most past rounds in view of the modeller, the first of
    equals."""
    return int(np.argmax([min(len(at.state.history), window) for at in given]))


def disconnected(wiring: Wiring, given: Sequence[Situation]) -> pd.DataFrame:
    """The zero rule: rows module, edge, wired, unwired: the mean effect with all modules connected,
    and with this one disconnected. Each context is computed once for all of them."""
    base = Remembered(wiring.base) if wiring.base is not None else None
    known = replace(wiring, executor=Remembered(wiring.executor), base=base)
    full, rows = influence.effects(known, given), []
    for module, edges in EDGES_OF.items():
        cut = influence.effects(without(known, module), given)
        for name in edges:
            row = {"module": module, "edge": name, "wired": float(full.rows[name].mean())}
            rows.append(row | {"unwired": float(cut.rows[name].mean())})
    return pd.DataFrame(rows)


def language(
    backbone: Backbone, rounds: int, given: Sequence[Situation], payoff: float = 0.4
) -> Wiring:
    """The trained roles of a backbone in the repeated game, all connected but for a store, which
    they were not trained with. payoff: of setting A in the coordinator's prompt."""
    seen, own = pool.watched(rounds), pool.catalogue(rounds)["repeated"]
    modeller = Remembered(LMPolicy(backbone, roles.OPPONENT))
    asked = [(at.state, at.player) for at in given]
    asked += [(s, at.player) for at in given for s in swapped(at.state, at.player)]
    variant = coordinator.Variant("repeated", coordinator.TRAINING, own)
    chosen = coordinator.context(variant, payoff)
    base = LMPolicy(backbone, BASE)
    return Wiring(
        own,
        LMPolicy(backbone, roles.EXECUTOR),
        base,
        forecast=Named.of(modeller, seen, asked),
        pool=tuple(lm_labels.partner(name) for name in PARTNERS),
        cache=True,
        swaps=swapped,
        modeller=Module(modeller, base, lambda s, i: opponent.type_context(seen, s, 1 - i)),
        coordinator=Module(LMPolicy(backbone, roles.COORDINATOR), base, lambda s, i: chosen),
    )

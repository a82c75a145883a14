"""Notebook 10c, the tabular part: what one seed of each question computes.

Every task is (seed, sizes) and gives rows that JSON can hold; `objective_study` makes the tables.
All payoffs are exact expectations of the trained tables; only the data are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipllm_lib.ipd import tabular as memory_one
from dipllm_lib.kto import bargainers, cem, humans, labels, proposers, prospect, training, variants
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.repeated import EXTORT2
from dipllm_lib.kto.repeaters import Repeaters
from dipllm_lib.kto.tabular import Objective
from dipllm_lib.run import seeding
from dipllm_lib.run.profiles_kto import KTOSettings

ARMS = {  # arm -> objective, and whether a decision has its mean V
    "sft": ("sft", False),
    "wmle": ("wmle", False),
    "wmle, mean V": ("wmle", True),
    "a2c": ("a2c", False),
    "kto": ("kto", False),
    "pt_kto": ("pt_kto", False),
    "pt_pair": ("pt_pair", False),
    "literal_sign": ("literal_sign", False),
}
REFERENCES = {"low": 0.3, "equal split": 0.5}
DELTAS = (0.5, 0.9, 0.95)
NAMED = ("TFT", "GTFT", "WSLS", "GRIM", "AllC", "AllD")
RANDOM = 2  # memory-one partners drawn per seed
STEPS = {  # arm -> labels of Repeaters, objective, balance
    "step, verifier V": ("verifier", "pt_kto", "none"),
    "step, verifier label": ("verifier", "kto", "counts"),
    "step, return": ("return", "pt_kto", "none"),
    "trajectory": ("trajectory", "kto", "counts"),
}
TOUGH = (0.35, 1.0)  # median and log-sd of the envy of responders that no arm was trained with


@dataclass(frozen=True)
class Task:
    """A seed with the settings of the profile."""

    seed: int
    settings: KTOSettings

    def rng(self, *names: str) -> np.random.Generator:
        """The generator of a named part of this seed."""
        return seeding.child(self.seed, "kto", "10c", *names)


def objective(settings: KTOSettings, name: str = "pt_kto", balance: str = "none") -> Objective:
    """An objective at the sizes of a profile."""
    own = (settings.objective_steps, settings.objective_rate)
    kappa, tau = settings.objective_kappa, settings.objective_tau
    return Objective(name, kappa, tau, "exact_batch", balance, *own)


def same_data(task: Task) -> list[dict]:
    """Proposers by every arm, on fixed data of the uniform policy and on their own data."""
    own, rows = task.settings, []
    references = list(REFERENCES.values())
    values = proposers.prospect_values(references, [prospect.ARTICLE] * len(references))
    accept = np.tile(proposers.people(), (len(references), 1))
    for arm, (name, expected) in ARMS.items():
        game = proposers.Proposers(accept, values, expected)
        fixed, steps = own.objective_fixed
        one = replace(objective(own, name), steps=steps)
        for regime, rounds, episodes, used in (
            ("fixed data", 1, fixed, one),
            ("own data", own.objective_rounds, own.objective_episodes, objective(own, name)),
        ):
            rng = task.rng("same", regime)  # the same draws for every arm
            found = training.train(game, used, rounds, episodes, rng)
            for k, reference in enumerate(REFERENCES):
                rows.append({
                    "seed": task.seed,
                    "regime": regime,
                    "reference": reference,
                    "arm": arm,
                    "start": float(found.scores[0, k]),
                    "value": float(found.scores[-1, k]),
                    "offer": float(proposers.OFFERS[found.probs[k].argmax()]),
                })
    return rows


def partners(task: Task) -> tuple[list[str], np.ndarray]:
    """Names and vectors (G, 5) of the memory-one partners of a seed."""
    drawn = task.rng("partners").random((RANDOM, 5))
    vectors = [*(memory_one.named(name) for name in NAMED), np.array(EXTORT2)]
    vectors += [humans.repeated_pd(), *drawn]
    names = [*NAMED, "Extort-2", "people", *(f"random {k}" for k in range(RANDOM))]
    return names, np.stack([np.ravel(v) for v in vectors])


def label_arms(task: Task) -> list[dict]:
    """Step against trajectory labels: payoff per round below the best reply, per partner."""
    rounds, episodes = task.settings.objective_repeated
    names, q = partners(task)
    rows = []
    for arm, (kind, name, balance) in STEPS.items():
        game = Repeaters(q, rounds, prospect.ARTICLE, kind)
        used = objective(task.settings, name, balance)
        rng = task.rng("labels")
        found = training.train(game, used, task.settings.objective_rounds, episodes, rng)
        regret = game.best() - found.scores[-1]
        start = game.best() - found.scores[0]
        for k, partner in enumerate(names):
            rows.append({
                "seed": task.seed,
                "arm": arm,
                "partner": partner,
                "regret": float(regret[k]),
                "start": float(start[k]),
            })
    return rows


def pools(task: Task) -> list[dict]:
    """Who the training partner is: nobody, the own responder, people, and people with 15 % of it.

    Judged by people and by responders of another kind that no arm has met.
    """
    own = task.settings
    used, sizes = objective(own), (own.objective_rounds, own.objective_episodes)
    values = proposers.prospect_values([0.5], [prospect.ARTICLE])
    start = np.full((1, 11), 1 / 11)
    none = proposers.heuristic_only(objective(own, "kto"), own.objective_rounds)
    rows = [_judged(task, "start", start), _judged(task, "no play", none)]
    for arm, share in (("self-play", 1.0), ("pool + 15 % self-play", 0.15)):
        rng = task.rng("pools", arm)
        found = proposers.self_play(share, 0.5, prospect.ARTICLE, used, *sizes, rng)
        rows.append(_judged(task, arm, found.probs))
    game = proposers.Proposers(proposers.people()[None], values)
    found = training.train(game, used, *sizes, task.rng("pools", "pool"))
    return [*rows, _judged(task, "pool", found.probs)]


def _judged(task: Task, arm: str, probs: np.ndarray) -> dict:
    tough = variants.envious(*TOUGH)
    worth = (1 - proposers.OFFERS) * np.stack([proposers.people(), tough])
    people, held_out = (float(x) for x in worth @ probs[0])
    offer = float(proposers.OFFERS[probs[0].argmax()])
    facts = {"people": people, "held_out": held_out, "offer": offer}
    return {"seed": task.seed, "arm": arm} | facts


def exact_answers(task: Task) -> list[dict]:
    """Ultimatum, repeated dilemma and bargaining against their exact solutions, from drawn data."""
    own = task.settings
    used, rounds, episodes = objective(own), own.objective_rounds, own.objective_episodes
    accept = proposers.people()[None]
    values = proposers.prospect_values([0.5], [prospect.ARTICLE])
    game = proposers.Proposers(accept, values)
    found = training.train(game, used, rounds, episodes, task.rng("exact", "ultimatum"))
    best, offer = humans.offer_values().max(), proposers.OFFERS[found.probs[0].argmax()]
    rows = [_row(task, "ultimatum", "people", found.scores[-1, 0], best) | {"offer": float(offer)}]
    names, q = partners(task)
    repeated = Repeaters(q, own.ipd_rounds)
    learned = training.train(repeated, used, rounds, 50, task.rng("exact", "repeated"))
    for name, value, most in zip(names, learned.scores[-1], repeated.best(), strict=True):
        rows.append(_row(task, "repeated", name, value, most))
    grid, draws = own.objective_bargain
    games = [AlternatingOffers(grid=grid, rounds=2, delta=delta) for delta in DELTAS]
    pairs = bargainers.Pairs(games, [(prospect.ARTICLE,) * 2] * len(games))
    rng = task.rng("exact", "bargaining")
    shares = bargainers.settle(pairs, used, 10, own.objective_sweeps, draws, rng)
    paid = bargainers.payoffs(pairs, shares, endless=True)[:, 0]
    for delta, value in zip(DELTAS, paid, strict=True):
        rows.append(_row(task, "bargaining", f"delta {delta:g}", value, 1 / (1 + delta)))
    return rows


def _row(task: Task, game: str, case: str, value: float, exact: float) -> dict:
    facts = {"value": float(value), "exact": float(exact)}
    return {"seed": task.seed, "game": game, "case": case} | facts


def meta(task: Task) -> list[dict]:
    """CEM on the training variants of each type, judged on the held-out ones beside ARTICLE."""
    own, rows = task.settings, []
    elite = max(2, own.cem_population // 4)
    sizes = cem.Sizes(own.cem_rounds, own.cem_population, elite)
    inner = variants.Inner(objective=objective(own))
    letters = list(labels.SETTINGS)
    for kind, aim in variants.TYPES.items():
        train, judge = (variants.score(kind, part, inner) for part in variants.PARTS)
        found = cem.cem(train, task.rng("cem", kind), sizes)
        known = dict(zip(letters, train(variants.rows_of(kind, letters)), strict=True))
        letter, _ = cem.cem_settings(
            lambda names, scores=known: np.array([scores[n] for n in names]),
            letters,
            task.rng("cem settings", kind),
            sizes,
        )
        fixed, chosen = variants.article(kind), variants.rows_of(kind, [letter])
        scores = judge(np.concatenate([fixed, found.best[None], chosen]))
        facts = dict(zip(cem.NAMES, map(float, found.best), strict=True))
        named = zip(("article", "cem", "setting"), map(float, scores), strict=True)
        head = {"seed": task.seed, "type": kind, "objective": aim, "letter": letter}
        rows.append(head | dict(named) | facts)
    return rows


TASKS = {
    "same": same_data,
    "labels": label_arms,
    "pools": pools,
    "exact": exact_answers,
    "meta": meta,
}


def run(named: tuple[str, Task]) -> list[dict]:
    """One task by its name, for `shelf.tasks`."""
    name, task = named
    return TASKS[name](task)


def tasks(settings: KTOSettings, seed: int) -> tuple[list[tuple[str, Task]], list[str]]:
    """All tasks with their keys: every question for every seed from `seed` on."""
    found = [
        (name, Task(seed + k, settings)) for name in TASKS for k in range(settings.tabular_seeds)
    ]
    return found, [f"{name}-{task.seed}" for name, task in found]


def rows_of(results: Sequence[list[dict]], wanted: Sequence[tuple[str, Task]], name: str) -> list:
    """The rows of one question, seed after seed."""
    pairs = zip(wanted, results, strict=True)
    return [row for (own, _), rows in pairs if own == name for row in rows]

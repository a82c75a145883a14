"""What a policy earns and how human it is, exactly, game by game: two scores that are kept apart.

    ultimatum   payoff = sum_o pi(o) (1 - o) P(people accept o); the best offer earns .5748
    answers     payoff of the responder = mean over offers of P(accept) o; likeness to the table
    gift        payoff = mean over gifts g of 1 + 2 g - P(give|g); keeping is best
    repeated    the policy is a memory-one vector, told whom it plays or not; payoff by
                `ipd.exact.discounted`, best reply by `repeated.best_value`
    bargaining  a stationary policy against each bargainer: two linear equations; the best reply is
                the best of all pairs (share to keep, least share to take)

Likeness is the mean Bernoulli divergence of `humans` in nats, 0 for a player exactly like the
pooled person; the repeated game uses the rates after CC, CD, DC, DD and in the first round.

Everything is asked of `log_probs` only, so a table and a language model are measured alike.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from dipllm_lib.kto import gift, humans, lm_labels, pool, repeated, ultimatum
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.bargaining import State as Talks
from dipllm_lib.kto.games import ACCEPT, Game
from dipllm_lib.kto.gift import GiftPD
from dipllm_lib.kto.policies import Policy
from dipllm_lib.kto.repeated import COOPERATE, IteratedPD
from dipllm_lib.kto.ultimatum import Ultimatum

LEAST = 1e-6  # rates are kept this far from 0 and 1 in a divergence
HISTORIES = ((), ((0, 0),), ((0, 1),), ((1, 0),), ((1, 1),))  # s0, CC, CD, DC, DD
LARGE = 10**6


def rows_of(
    policy: Policy, game: Game, states, player: int, setting="A", forecast=""
) -> np.ndarray:
    """(states, A) probabilities of the legal texts at `states`."""
    contexts = [lm_labels.context(game, s, player, setting, forecast) for s in states]
    return np.exp(np.array(policy.log_probs(contexts)))


def offers(policy: Policy, setting: str = "A", game: Ultimatum = Ultimatum()) -> dict:
    """Proposer against people: payoff, best, modal offer, mean offer, and each offer's chance."""
    (chances,) = rows_of(policy, game, [ultimatum.State()], 0, setting)
    values = ultimatum.offer_values(game, humans.ultimatum_responder)
    return {
        "payoff": float(chances @ values),
        "best": float(values.max()),
        "modal": float(game.offers[chances.argmax()]),
        "mean": float(chances @ game.offers),
        "chances": chances,
    }


def answers(policy: Policy, setting: str = "A") -> dict:
    """Responder at the ten offers of the human table: payoff, best, likeness, rates of refusal."""
    game = Ultimatum(20)
    states = [ultimatum.State(k) for k in range(1, 11)]
    accept = rows_of(policy, game, states, 1, setting)[:, ACCEPT]
    shares = np.arange(1, 11) / 20
    refuse = np.clip(1 - accept, LEAST, 1 - LEAST)
    return {
        "payoff": float((accept * shares).mean()),
        "best": float(shares.mean()),
        "likeness": humans.likeness(humans.REJECTIONS, refuse),
        "rates": 1 - accept,
    }


def giving(policy: Policy, setting: str = "A", game: GiftPD = GiftPD()) -> dict:
    """Second mover at the eleven gifts: payoff, best, likeness, rates of giving."""
    states = [gift.State(k) for k in range(11)]
    give = rows_of(policy, game, states, 1, setting)[:, gift.GIVE]
    kept = 1 + game.multiplier * game.gifts
    return {
        "payoff": float((kept - give).mean()),
        "best": float(kept.mean()),
        "likeness": humans.likeness(humans.GIFTS, np.clip(give, LEAST, 1 - LEAST)),
        "rates": give,
    }


def vector(policy: Policy, game: IteratedPD, setting: str = "A", forecast: str = "") -> np.ndarray:
    """(5,) P(cooperate) after s0, CC, CD, DC, DD."""
    states = [repeated.State(LARGE, repeated.WORDS_LABELS, history=h) for h in HISTORIES]
    return rows_of(policy, game, states, 0, setting, forecast)[:, COOPERATE]


def against(
    policy: Policy, game: IteratedPD, setting: str = "A", told: bool = True
) -> Iterator[dict]:
    """Repeated game against each member, whose name the prompt gives or not: member, payoff, best,
    regret per round, cooperation rates."""
    plain = None if told else vector(policy, game, setting)
    for name, q in pool.VECTORS.items():
        own = vector(policy, game, setting, lm_labels.partner(name)) if told else plain
        value, _ = repeated.pair_values(game, own, np.array(q))
        best = repeated.best_value(game, np.array(q))
        row = {"member": name, "payoff": float(value[0]), "best": float(best[0])}
        yield row | {"regret": row["best"] - row["payoff"], "vector": own}


def repeated_likeness(own: np.ndarray) -> float:
    """Mean divergence of a memory-one vector from that of people."""
    own = np.clip(own, LEAST, 1 - LEAST)
    return float(humans.divergence(humans.repeated_pd(), own).mean())


def bargains(policy: Policy, game: AlternatingOffers, setting: str = "A") -> Iterator[dict]:
    """Breakdown bargaining against each member, both seats: member, payoff, best, kept (mean share
    that the policy keeps when it proposes)."""
    states = [Talks(-1)], [Talks(-1, keep=k) for k in range(game.grid + 1)]
    (keep,) = rows_of(policy, game, states[0], 0, setting)
    accept = rows_of(policy, game, states[1], 1, setting)[:, ACCEPT]
    for name, (kept, least) in pool.BARGAINERS.items():
        other = round(kept * game.grid), least
        payoff = stationary(game, keep, accept, other)
        best = best_bargain(game, other)
        row = {"member": name, "payoff": payoff, "best": best, "regret": best - payoff}
        yield row | {"kept": float(keep @ game.shares), "keep": keep, "accept": accept}


def stationary(
    game: AlternatingOffers, keep: np.ndarray, accept: np.ndarray, other: tuple[int, float]
) -> float:
    """Payoff, mean over both seats, of a stationary policy. keep, accept: (A,), the second by the
    other's offer · other: index of what it keeps, least share that it takes."""
    kept, least = other
    takes = (1 - game.shares >= least - 1e-9).astype(float)
    got, refused = float(keep @ (takes * game.shares)), float(keep @ (1 - takes))
    yes = float(accept[kept])
    # proposing is worth x = got + refused p y, answering y = yes (1 - kept) + (1 - yes) p x
    p = game.go_on
    share = yes * (1 - game.shares[kept])
    first = (got + refused * p * share) / (1 - refused * p * (1 - yes) * p)
    return 0.5 * (first + share + (1 - yes) * p * first)


def best_bargain(game: AlternatingOffers, other: tuple[int, float]) -> float:
    """The best of all stationary policies without chance."""
    corners = np.eye(game.grid + 1)
    answers_ = np.zeros(game.grid + 1), np.ones(game.grid + 1)
    return max(stationary(game, keep, accept, other) for keep in corners for accept in answers_)


def table(policies: Mapping[str, Policy], games: Mapping[str, Game], setting="A") -> pd.DataFrame:
    """One row per arm and game: payoff, best, regret, share of the best, likeness (nats; nan where
    people left no table), modal and mean offer of the ultimatum."""
    rows = []
    for arm, policy in policies.items():
        offer, answer, gave = (
            offers(policy, setting),
            answers(policy, setting),
            giving(policy, setting),
        )
        rows.append(_row(arm, "ultimatum, proposer", offer) | {"modal": offer["modal"]})
        rows[-1]["mean_offer"] = offer["mean"]
        rows.append(_row(arm, "ultimatum, responder", answer))
        rows.append(_row(arm, "gift", gave))
        for told in (True, False):
            own = list(against(policy, games["repeated"], setting, told))
            row = _means(arm, f"repeated, partner {'named' if told else 'unknown'}", own)
            if not told:
                row["likeness"] = repeated_likeness(own[0]["vector"])
            rows.append(row)
        rows.append(_means(arm, "bargaining", list(bargains(policy, games["bargaining"], setting))))
    columns = [
        "arm",
        "game",
        "payoff",
        "best",
        "regret",
        "share",
        "likeness",
        "modal",
        "mean_offer",
    ]
    return pd.DataFrame(rows, columns=columns)


def _row(arm: str, game: str, found: Mapping) -> dict:
    row = {"arm": arm, "game": game, "payoff": found["payoff"], "best": found["best"]}
    row |= {"regret": found["best"] - found["payoff"], "share": found["payoff"] / found["best"]}
    return row | {"likeness": found.get("likeness", float("nan"))}


def _means(arm: str, game: str, found: list[Mapping]) -> dict:
    means = {k: float(np.mean([one[k] for one in found])) for k in ("payoff", "best")}
    return _row(arm, game, means)

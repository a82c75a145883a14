"""One recorded game seen through the eyes of one power: its candidates, and where its share went.

For every phase k of the game in which the power had something to decide

    tau(a)    the anchor's probability of joint order a       pi(a)  the language model's, both at
              temperature 1 and over all legal joint orders
    target    pi* of a search on that position (Xu et al. 2025, Eq. 2)

stand side by side for the candidates of the search, and for what was played if it is none of them.
What a joint order is worth is the mean value of the next position over draws of the other powers
from the policy that they really play, with the same draws for all joint orders of a phase. Then,
with V_k the value of the power in position k, own orders drawn from the target, and a_k the orders
that it gave,

    V_(k+1) - V_k  =  drift  (E[V after] - V_k:             what the value net did not foresee)
                    + choice (E[V after | a_k] - E[V after]: its own orders against the target's)
                    + others (V_(k+1) - E[V after | a_k]:    what the other six then really did)

exactly, so the three columns add up to the way from the first value to the final share of the sum
of squares. Drift is nobody's deed: a phase is decisive by |choice + others|, how far the value came
out from where it was expected. `hindsight` values each candidate against the orders that the others
did give. All values are shares in 0 to 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, boards, candidates, orders, search, targets
from dipllm_lib.dip.branches import Branches
from dipllm_lib.dip.game import EndRules, Game
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.search import ValueFunction
from dipllm_lib.dip.value import sos
from dipllm_lib.run import seeding, stats

RULES = ("median", "best", "worst")
OTHER = "all other joint orders"


def choose(rows: Sequence[dict], one: str, six: str, rule: str) -> Game:
    """A game of `one` against six `six` among saved games: the one with the median, best or worst
    final share of the sum of squares; of equals the first, of two medians the lower.

    ValueError for an unknown rule, or if there is no such game.
    """
    if rule not in RULES:
        raise ValueError(f"unknown rule {rule!r}: use one of {', '.join(RULES)}")
    own = [row for row in rows if _pairing(row) == (one, six)]
    if not own:
        raise ValueError(f"no game of {one!r} against six {six!r} among {len(rows)} saved games")
    shares = [_final_share(row, one) for row in own]
    ranked = sorted(range(len(own)), key=lambda g: (shares[g], -g if rule == "best" else g))
    place = {"median": (len(own) - 1) // 2, "best": -1, "worst": 0}[rule]
    return Game.from_saved(own[ranked[place]])


def _pairing(row: dict) -> tuple[str, str] | None:
    """(the one, the six) of a saved game, None if it is no game of one against six."""
    agents = row.get("agents") or []
    for name in sorted(set(agents)):
        rest = {agent for agent in agents if agent != name}
        if len(agents) == atlas.N_POWERS and agents.count(name) == 1 and len(rest) == 1:
            return name, rest.pop()
    return None


def _final_share(row: dict, one: str) -> float:
    held = row["phases"][-1]["state"]["centers"]
    counts = np.array([len(held.get(power, ())) for power in atlas.POWERS])
    return float(sos(counts)[row["agents"].index(one)])


@dataclass(frozen=True)
class Cast:
    """Who is asked about a game.

    model: the player's policy at temperature 1, with `log_probs` (an `agent.LMAgent`) · tau: the
    anchor at temperature 1 · others: the policy that the other six play · value_fn: gives a
    position the same value whatever positions are beside it (`rowwise.RowwiseValue`) · end: the end
    rules of the game · settings: of a profile, with search_* and target_policy.
    """

    model: candidates.Batched
    tau: candidates.Batched
    others: object
    value_fn: ValueFunction
    end: EndRules
    settings: object


@dataclass(frozen=True)
class Decision:
    """One turn of the power. table: a row per candidate, the likeliest under the target first, and
    one for what was played if it is no candidate. Columns joint (text), tau, target, pi, q (mean
    utility in the search; missing off the candidates), value, hindsight, played. log_tau, log_pi:
    nats, in the order of the table; value_draws: (rows, draws) shares.
    """

    k: int
    turn: Turn
    joints: tuple[Joint, ...]
    table: pd.DataFrame
    log_tau: np.ndarray
    log_pi: np.ndarray
    value_draws: np.ndarray

    @property
    def phase(self) -> str:
        return self.turn.phase

    @property
    def played(self) -> int:
        """Row of the joint order that was played."""
        return int(np.flatnonzero(self.table["played"])[0])

    def divergence(self, log_probs: np.ndarray) -> float:
        """KL(pi* || policy) in nats of a policy's log-probabilities of the rows."""
        target = self.table["target"].to_numpy()
        kept = target > 0
        return float(target[kept] @ (np.log(target[kept]) - log_probs[kept]))


@dataclass(frozen=True)
class Case:
    """values: (K, 7) of all positions · account: a row per phase while the power is alive, columns
    phase, decides, before, expected, chosen, after, drift, choice (with interval), others. The
    interval is that of the draws of the others.
    """

    game: Game
    power: int
    values: np.ndarray
    decisions: tuple[Decision, ...]
    account: pd.DataFrame

    @cached_property
    def phases(self) -> list[str]:
        """Name of each position."""
        return [boards.phase_name(self.game.boards, k) for k in range(self.game.boards.n)]

    def value_table(self) -> pd.DataFrame:
        """Columns phase and one per power: its value in each position."""
        table = pd.DataFrame(self.values, columns=[name.title() for name in atlas.POWERS])
        table.insert(0, "phase", self.phases)
        return table

    def decisive(self, most: int) -> list[Decision]:
        """The `most` decisions with the largest |choice + others|, in order of time; of equals the
        earlier one.
        """
        rows = self.account.set_index("phase")
        far = [abs(rows.loc[d.phase, ["choice", "others"]].sum()) for d in self.decisions]
        first = np.argsort(-np.array(far), kind="stable")[:most]
        return [self.decisions[i] for i in sorted(first.tolist())]

    def candidates(self, most: int) -> pd.DataFrame:
        """Of every decision the `most` candidates that the target finds likeliest, what was played,
        and in one row what is left of each policy: phase and the columns of `Decision.table`.
        """
        return pd.concat([_shown(d, most) for d in self.decisions], ignore_index=True)

    def decision_table(self) -> pd.DataFrame:
        """One row per decision: phase, orders (due), candidates, rank (of what was played under the
        target, 0 if it is no candidate), its probability under tau, target and pi, and KL(target
        || policy) in nats of anchor and model: kl_tau, kl_pi.
        """
        rows = []
        for d in self.decisions:
            played = d.table.iloc[d.played]
            row = {"phase": d.phase, "orders": d.turn.slots, "candidates": _size(d)}
            row["rank"] = d.played + 1 if d.played < _size(d) else 0
            row |= {name: played[name] for name in ("tau", "target", "pi")}
            row |= {"kl_tau": d.divergence(d.log_tau), "kl_pi": d.divergence(d.log_pi)}
            rows.append(row)
        return pd.DataFrame(rows)


def _size(decision: Decision) -> int:
    """Candidates of the search; what was played beside them stands last."""
    return int(decision.table["q"].notna().sum())


def shown(decision: Decision, most: int) -> pd.DataFrame:
    """The first `most` rows of a decision's table, and what was played if it is not among them."""
    table = decision.table
    return table[(np.arange(len(table)) < most) | table["played"].to_numpy()]


def _shown(decision: Decision, most: int) -> pd.DataFrame:
    part = shown(decision, most)
    rest = {"joint": OTHER, "played": False}
    rest |= {name: max(1 - part[name].sum(), 0.0) for name in ("tau", "target", "pi")}
    table = pd.concat([part, pd.DataFrame([rest])], ignore_index=True)
    table.insert(0, "phase", decision.phase)
    return table


def examine(game: Game, power: int, cast: Cast, draws: int, seed: int, resamples: int) -> Case:
    """Look at every phase of a finished game; draws: of the other powers in each phase.

    The case of a game and seed does not depend on anything else. ValueError if the power has
    nothing to decide, or if the end rules are not those of the game.
    """
    turns = {k: orders.turn(game.boards, k, power) for k in range(game.boards.n - 1)}
    turns = {k: turn for k, turn in turns.items() if turn is not None}
    if not turns:
        raise ValueError(f"game {game.id}: {atlas.POWERS[power]} has nothing to decide")
    values = np.asarray(cast.value_fn(game.boards), np.float64)
    found = dict(zip(turns, _policies(game, turns, cast, seed), strict=True))
    alive = np.flatnonzero((boards.centres(game.boards) + _units(game.boards))[:-1, power])
    decisions, rows = [], []
    for k in alive.tolist():
        here = Branches(game, k, power, cast.others, cast.value_fn, cast.end)
        rng = seeding.child(seed, "case", game.id, here.name)
        own = [joint for joint, *_ in found[k]] if k in turns else []
        worth = here.worth(own, here.draws(draws, rng))
        decision = None
        if k in turns:
            real = here.worth(own, here.given())[:, 0]
            decision = _decision(k, turns[k], found[k], game.joint(k, power), worth, real)
            _check(game, here.name, real[decision.played], values[k + 1, power])
            decisions.append(decision)
        rows.append(_account(here.name, decision, worth, values[[k, k + 1], power], rng, resamples))
    return Case(game, power, values, tuple(decisions), pd.DataFrame(rows))


def _units(b: boards.Boards) -> np.ndarray:
    """Standing and dislodged units of each power, (N, 7)."""
    dislodged = (b.d_power[:, :, None] == np.arange(atlas.N_POWERS)).sum(axis=1)
    return boards.units(b) + dislodged


def _policies(game: Game, turns: Mapping[int, Turn], cast: Cast, seed: int) -> list[list[tuple]]:
    """Per turn its rows (joint order, log tau, target, log pi, q), likeliest first."""
    places = [game.boards.take([k]) for k in turns]
    rngs = [seeding.child(seed, "case search", game.id, turn.phase) for turn in turns.values()]
    records = search.search_many(places, cast.tau, cast.value_fn, cast.settings, rngs)
    tables = []
    for (k, turn), record in zip(turns.items(), records, strict=True):
        own = record.of(turn.power)
        target = own.target(cast.settings.target_policy)
        best = np.argsort(-target, kind="stable")
        rows = [(tuple(own.candidates[b]), target[b], own.q[b]) for b in best]
        played = game.joint(k, turn.power)
        if played not in [joint for joint, *_ in rows]:
            rows.append((played, 0.0, np.nan))
        tables.append(rows)
    joints = [[joint for joint, *_ in rows] for rows in tables]
    log_tau = candidates.log_probs(cast.tau, list(turns.values()), joints)
    log_pi = candidates.log_probs(cast.model, list(turns.values()), joints)
    return [
        [(joint, t, target, p, q) for (joint, target, q), t, p in zip(rows, tau, pi, strict=True)]
        for rows, tau, pi in zip(tables, log_tau, log_pi, strict=True)
    ]


def _decision(k, turn, rows, played, worth, real) -> Decision:
    joints, log_tau, target, log_pi, q = zip(*rows, strict=True)
    table = pd.DataFrame({
        "joint": [targets.joint_text(joint) for joint in joints],
        "tau": np.exp(log_tau),
        "target": target,
        "pi": np.exp(log_pi),
        "q": q,
        "value": worth.mean(axis=1),
        "hindsight": real,
        "played": [joint == played for joint in joints],
    })
    return Decision(k, turn, joints, table, np.array(log_tau), np.array(log_pi), worth)


def _check(game: Game, phase: str, found: float, recorded: float) -> None:
    if not np.isclose(found, recorded, atol=1e-4):
        raise ValueError(
            f"game {game.id}, {phase}: its orders lead to value {found:.4f}, the record has "
            f"{recorded:.4f}: give the end rules of the game"
        )


def _account(name, decision, worth, ends, rng, resamples) -> dict:
    """A row of the account; worth: (R, M), ends: values before and after."""
    before, after = ends.tolist()
    mean = chosen = worth[0]
    if decision is not None:
        mean, chosen = decision.table["target"].to_numpy() @ worth, worth[decision.played]
    choice, low, high = stats.mean_interval(chosen - mean, rng, resamples)
    row = {"phase": name, "decides": decision is not None, "before": before}
    row |= {"expected": mean.mean(), "chosen": chosen.mean(), "after": after}
    row |= {"drift": mean.mean() - before, "choice": choice}
    return row | {"choice_low": low, "choice_high": high, "others": after - chosen.mean()}


def total(account: pd.DataFrame) -> dict[str, float]:
    """Sums of drift, choice and others over the game: together the last value minus the first."""
    return account[["drift", "choice", "others"]].sum().to_dict()


def nearer(
    decisions: Sequence[Decision], rng: np.random.Generator, resamples: int
) -> tuple[float, float, float]:
    """KL(target || tau) - KL(target || pi) in nats, mean over the decisions with its interval:
    above 0 the model is nearer to the target than the anchor. The target is renormalised over the
    joint orders that the model may say, and a decision with none of them is left out; ValueError if
    all are. Phases of one game are not independent, so the interval is narrower than that of many
    games.
    """
    gaps = []
    for decision in decisions:
        target = decision.table["target"].to_numpy()
        kept = (target > 0) & np.isfinite(decision.log_pi)
        if kept.any():
            share = target[kept] / target[kept].sum()
            gaps.append(float(share @ (decision.log_pi[kept] - decision.log_tau[kept])))
    return stats.mean_interval(gaps, rng, resamples)

"""Tables of notebook 09: what each stage did, and what the three roles can do.

A table of the language model rests on one seed, which its caption says; intervals run over
decisions or windows, never over seeds.
"""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.kto import fitting, language, lm_labels, lm_scores, pool, roles
from dipllm_lib.kto.fitting import Item
from dipllm_lib.kto.language import Recipe
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.kto.policies import Policy
from dipllm_lib.kto.trajectories import Trajectory
from dipllm_lib.lm.backbones import Backbone


def sizes(backbone: Backbone) -> pd.DataFrame:
    """Rows part, weights, share of the base: the base and each adapter."""
    adapters_ = [name for name in roles.NAMES if roles.state(backbone, name)]
    own = {n: sum(w.size for w in roles.state(backbone, n).values()) for n in adapters_}
    every = sum(p.numel() for n, p in backbone.model.named_parameters() if ".lora_" in n)
    rows = [{"part": "base", "weights": backbone.parameters() - every, "share": 1.0}]
    rows += [{"part": n, "weights": c, "share": roles.share(backbone, n)} for n, c in own.items()]
    return pd.DataFrame(rows)


def history(found: Mapping[str, Sequence[Mapping]]) -> pd.DataFrame:
    """Every step of every training: role, then the columns of `fitting.HISTORY`."""
    parts = [pd.DataFrame(rows).assign(role=name) for name, rows in found.items()]
    return pd.concat(parts, ignore_index=True)[["role", *fitting.HISTORY]]


def rates(table: pd.DataFrame) -> pd.DataFrame:
    """First, largest and last rate of each role's steps."""
    groups = table.groupby("role", sort=False)["lr"]
    return groups.agg(steps="size", first="first", peak="max", last="last").reset_index()


def stage1(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Held-out measures of stage 1, before and after, game by game."""
    names = ["loss", "legal_mass", "valid"]
    old = before[["game", *names]].rename(columns={name: f"{name}_before" for name in names})
    return after.merge(old, on="game")


def precision(recipe: Recipe, given: Sequence[Item], count: int = 40) -> tuple[pd.DataFrame, dict]:
    """The same base in both precisions at the same contexts: rows game, contexts, tv (mean total
    variation), largest, same (share of equal most likely texts); and the mean ms of a context.
    """
    kinds = sorted({item.game for item in given})
    own = {
        k: [i.context for i in given if i.game == k][: max(1, count // len(kinds))] for k in kinds
    }
    found, ms = {}, {}
    for dtype in ("float32", "bfloat16"):
        policy, start = LMPolicy(language.shared(recipe, dtype)), time.perf_counter()
        found[dtype] = {k: policy.log_probs(contexts) for k, contexts in own.items()}
        ms[dtype] = 1000 * (time.perf_counter() - start) / sum(map(len, own.values()))
    rows = []
    for kind in kinds:
        pairs = list(zip(found["float32"][kind], found["bfloat16"][kind], strict=True))
        tv = [0.5 * np.abs(np.exp(a) - np.exp(b)).sum() for a, b in pairs]
        same = [int(np.argmax(a) == np.argmax(b)) for a, b in pairs]
        row = {"game": kind, "contexts": len(pairs), "tv": float(np.mean(tv))}
        rows.append(row | {"largest": float(max(tv)), "same": float(np.mean(same))})
    return pd.DataFrame(rows), ms


def collected(rows: Sequence[Mapping]) -> pd.DataFrame:
    """Rows game, seat, member, episodes, decisions, payoff (mean of the learner's)."""
    found: dict[tuple, list[Trajectory]] = {}
    for row in rows:
        one = Trajectory.of(row)
        found.setdefault((one.game, one.learner, one.seats[1 - one.learner]), []).append(one)
    return pd.DataFrame([
        {
            "game": game,
            "seat": seat,
            "member": name,
            "episodes": len(own),
            "decisions": sum(len(one.actions) for one in own),
            "payoff": float(np.mean([one.payoffs[seat] for one in own])),
        }
        for (game, seat, name), own in found.items()
    ])


def labelled(rows: Sequence[Mapping]) -> pd.DataFrame:
    """Rows game, setting, contexts, samples, desirable (share), mean_v, weight_desirable (share of
    the weight), mean_offer of what is desirable where texts are numbers."""
    found: dict[tuple, list[Mapping]] = {}
    for row in rows:
        found.setdefault((row["game"], row["setting"]), []).append(row)
    out = []
    for (game, setting), own in sorted(found.items()):
        columns = {k: np.concatenate([r[k] for r in own]) for k in ("value", "desirable", "omega")}
        good = columns["desirable"].astype(bool)
        row = {"game": game, "setting": setting, "contexts": len(own), "samples": len(good)}
        row |= {"desirable": float(good.mean()), "mean_v": float(columns["value"].mean())}
        weight = columns["omega"]
        out.append(row | {"weight_desirable": float(weight[good].sum() / weight.sum())})
    return pd.DataFrame(out)


def offers(policies: Mapping[str, Policy], letters: Sequence[str] = "ABCDEF") -> pd.DataFrame:
    """Rows arm, setting, payoff, share of the best, modal, mean_offer, then the chance of each
    offer: the ultimatum's proposer against people."""
    rows = []
    for arm, policy in policies.items():
        for letter in letters:
            one = lm_scores.offers(policy, letter)
            row = {"arm": arm, "setting": letter, "payoff": one["payoff"]}
            row |= {"share": one["payoff"] / one["best"], "modal": one["modal"]}
            row |= {"mean_offer": one["mean"]}
            rows.append(row | {f"p{10 * k}": float(p) for k, p in enumerate(one["chances"])})
    return pd.DataFrame(rows)


def partners(policies: Mapping[str, Policy], rounds: int) -> pd.DataFrame:
    """Rows arm, told, member, payoff, best, regret per round, then P(C) after each outcome."""
    game, rows = pool.catalogue(rounds)["repeated"], []
    for arm, policy in policies.items():
        for told in (True, False):
            for one in lm_scores.against(policy, game, "A", told):
                chances = dict(zip(("s0", "cc", "cd", "dc", "dd"), one.pop("vector").tolist()))
                rows.append({"arm": arm, "told": "named" if told else "unknown"} | one | chances)
    return pd.DataFrame(rows)


def bargains(policies: Mapping[str, Policy], rounds: int, letters="ABC") -> pd.DataFrame:
    """Rows arm, setting, member, payoff, best, regret, kept: breakdown bargaining."""
    game, rows = pool.catalogue(rounds)["bargaining"], []
    for arm, policy in policies.items():
        for letter in letters:
            for one in lm_scores.bargains(policy, game, letter):
                row = {k: one[k] for k in ("member", "payoff", "best", "regret", "kept")}
                rows.append({"arm": arm, "setting": letter} | row)
    return pd.DataFrame(rows)


def members(backbone: Backbone) -> dict[str, LMPolicy]:
    """pi_ref and the trained arms of a backbone."""
    return {
        "pi_ref": LMPolicy(backbone, BASE),
        "kto": LMPolicy(backbone, "unit"),
        "pt_kto": LMPolicy(backbone, roles.EXECUTOR),
    }


def likeness(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `lm_scores.table` that people left a table for."""
    return table[table["likeness"].notna()].reset_index(drop=True)


def verdicts(scores: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
    """The pass lines of the executor: what, value, line, verdict."""
    own = scores[scores["arm"] == "pt_kto"].set_index("game")
    proposer = own.loc["ultimatum, proposer"]
    mean = told[(told["arm"] == "pt_kto") & (told["told"] == "named")]["regret"].mean()
    unknown = told[(told["arm"] == "pt_kto") & (told["told"] == "unknown")]["regret"].mean()
    rows = [
        ("ultimatum: share of the best payoff", proposer["share"], 0.95, proposer["share"] >= 0.95),
        (
            "ultimatum: modal offer",
            proposer["modal"],
            0.4,
            bool(np.isclose(proposer["modal"], 0.4)),
        ),
        ("repeated, partner named: regret per round", mean, 0.05, mean <= 0.05),
        ("repeated, partner unknown: regret per round", unknown, 0.05, unknown <= 0.05),
    ]
    table = pd.DataFrame(rows, columns=["what", "value", "line", "reached"])
    return table.assign(reached=["yes" if one else "no" for one in table["reached"]])


def moved(old: Policy, new: Policy, given: Sequence[Item]) -> pd.DataFrame:
    """Rows game, contexts, kl (mean of KL(new || old) over contexts, nats), largest."""
    contexts = [item.context for item in given]
    pairs = zip(new.log_probs(contexts), old.log_probs(contexts), strict=True)
    found = [float(np.exp(a) @ (a - b)) for a, b in pairs]
    rows = []
    for kind in sorted({item.game for item in given}):
        own = [kl for kl, item in zip(found, given, strict=True) if item.game == kind]
        row = {"game": kind, "contexts": len(own), "kl": float(np.mean(own))}
        rows.append(row | {"largest": max(own)})
    return pd.DataFrame(rows)


def setting_table() -> pd.DataFrame:
    """The six settings: letter, alpha, beta, lambda, reference."""
    from dipllm_lib.kto import labels

    rows = [labels.SETTINGS[letter] for letter in lm_labels.LETTERS]
    return pd.DataFrame([
        {
            "setting": one.letter,
            "alpha": one.params.alpha,
            "beta": one.params.beta,
            "lambda": one.params.lam,
            "reference": one.reference or "default of the game",
        }
        for one in rows
    ])

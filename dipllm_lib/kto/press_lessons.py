"""What the learned negotiator learns from: decisions of scripted ones, and what each was worth.

In a game of lessons three seats are Random and four RuleNegotiator, so that the replies are yes and
no. Every decision of a RuleNegotiator, and every letter to one, becomes a row

    kind      proposal or reply of a RuleNegotiator; forecast: its reply to any sender
    prompt, legal, chosen    see `press_prompts`; the index of what was said
    own, other               what each legal text is worth to the power asked and to its partner,
                             shares of SoS as both estimate them; [] for a forecast

Payoff u and reference rho of a text, for `pt_kto` (u - rho, scale 1, status quo 0):

    proposal   u = own worth where the partner's is 0 or more, else 0: it would be refused
    yes        u = own worth                    rho = 0
    no         u = 0                            rho = own worth: what yes would have brought

V = v(u - rho) with the article's parameters; V > 0 is desirable, V = 0 has no weight. No text is
drawn: each has the weight pi_ref(a|h) |V|, divided by its mean over all texts of the lessons, so
that the first step is the exact policy gradient of expected prospect value.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dipllm_lib.dip import game
from dipllm_lib.kto import labels, press_arms, press_prompts, prospect
from dipllm_lib.kto.fitting import Item
from dipllm_lib.kto.lm_labels import plain
from dipllm_lib.kto.negotiators import Negotiator, Random, RuleNegotiator, View
from dipllm_lib.kto.policies import Context, Rows
from dipllm_lib.kto.press import NOTHING, Proposal
from dipllm_lib.kto.press_effect import Will
from dipllm_lib.kto.press_play import Table, play
from dipllm_lib.kto.press_prompts import FORECAST, PROPOSAL, REPLY
from dipllm_lib.kto.press_settings import SceneSettings

RANDOM = (0, 2, 4)  # seats of Random, from seat number mod 7 on
PARAMS = labels.SETTINGS["A"].params
Task = tuple[int, int, SceneSettings, int]


class Witness:
    """A negotiator whose views and words are kept."""

    def __init__(self, inner: Negotiator):
        self.inner, self.name, self.needs_worth = inner, inner.name, inner.needs_worth
        self.proposed: list[tuple[View, dict[int, Proposal]]] = []
        self.answered: list[tuple[View, dict[int, bool]]] = []

    def propose(self, view: View) -> dict[int, Proposal]:
        self.proposed.append((view, self.inner.propose(view)))
        return self.proposed[-1][1]

    def answer(self, view: View) -> dict[int, bool]:
        self.answered.append((view, self.inner.answer(view)))
        return self.answered[-1][1]

    def will(self, view: View) -> Will:
        return self.inner.will(view)


def play_one(task: Task) -> list[dict]:
    """Task (number, seed, settings, last year) -> the rows of that game."""
    number, seed, settings, last_year = task
    random = {(number + step) % 7 for step in RANDOM}
    seats = [Witness(Random() if p in random else RuleNegotiator()) for p in range(7)]
    names = ("press lessons", number)
    table = Table(seats, press_arms.minds(settings), "priced", last_year, seed, names)
    play(table, game.EndRules(last_year))
    rows = [row for seat in seats for row in _lessons(seat, seats)]
    return [row | {"game": number} for row in rows]


def _lessons(seat: Witness, seats: Sequence[Witness]) -> list[dict]:
    """Decisions of one seat if it is a RuleNegotiator's, and the replies of such to it."""
    rule, rows = RuleNegotiator.name, []
    for (view, said), (later, _) in zip(seat.proposed, seat.answered, strict=True):
        rows += _proposals(view, said) if seat.name == rule else []
        for partner, one in sorted(later.sent.items()):
            if seats[partner].name == rule:
                answers = next(a for v, a in seats[partner].answered if v.phase == view.phase)
                gains = later.worth[view.power, partner, one]
                asked = press_prompts.forecasting(view, partner, one, gains)
                rows.append(_row(FORECAST, view, asked, int(not answers[view.power])))
    for view, said in seat.answered if seat.name == rule else []:
        for sender, yes in said.items():
            other, own = view.worth[sender, view.power, view.offers[sender]]
            worths = [own, 0.0], [other, 0.0]
            asked = press_prompts.answering(view, sender)
            rows.append(_row(REPLY, view, asked, int(not yes), *worths))
    return rows


def _proposals(view: View, said: Mapping[int, Proposal]) -> list[dict]:
    """A row per partner, what was said to those before in its prompt."""
    rows, told = [], {}
    for partner, menu in sorted(view.menu.items()):
        asked = press_prompts.proposing(view, partner, told)
        told[partner] = said.get(partner, NOTHING)
        gains = [view.gain(partner, one) for one in menu]
        worths = (list(column) for column in zip(*gains))
        rows.append(_row(PROPOSAL, view, asked, menu.index(told[partner]), *worths))
    return rows


def _row(kind: str, view: View, asked: Context, chosen: int, own=(), other=()) -> dict:
    row = {"kind": kind, "phase": view.phase, "power": view.power, "prompt": asked.prompt}
    row |= {"legal": list(asked.legal), "chosen": chosen}
    return row | {"own": list(own), "other": list(other)}


def context(row: Mapping) -> Context:
    """The question of a row."""
    return Context((row["kind"], row["prompt"]), row["prompt"], tuple(row["legal"]))


def imitation(rows: Sequence[Mapping]) -> list[Item]:
    """Items of cross-entropy: what was said."""
    return [plain(context(row), row["kind"], [row["chosen"]]) for row in rows]


def payoffs(row: Mapping) -> np.ndarray:
    """(A,) u of each legal text of a proposal or a reply, shares of SoS."""
    own, other = np.array(row["own"]), np.array(row["other"])
    if row["kind"] == FORECAST:
        raise ValueError("a forecast has no payoff: only proposals and replies have")
    return np.where(other >= 0, own, 0.0) if row["kind"] == PROPOSAL else own


def differences(row: Mapping) -> np.ndarray:
    """(A,) u - rho; of a reply, legal texts yes and no: the worth of the offer and its negative."""
    u = payoffs(row)
    return u if row["kind"] == PROPOSAL else u - u[::-1] * (np.arange(len(u)) == 1)


def labelled(rows: Sequence[Mapping], reference: Rows) -> list[Item]:
    """Items of `pt_kto` for proposals and replies, contexts without a V other than 0 left out.

    reference: log pi_ref of the rows. ValueError if no text has a V other than 0.
    """
    values = [prospect.value(differences(row), PARAMS) for row in rows]
    weights = [np.exp(r) * np.abs(v) for r, v in zip(reference, values, strict=True)]
    some = [np.flatnonzero(v) for v in values]
    total, count = sum(float(w.sum()) for w in weights), sum(map(len, some))
    if not total > 0:
        raise ValueError("no message of the lessons is worth anything: play more games of them")
    return [
        Item(context(row), own, w[own] * count / total, v[own] > 0, row["kind"], ref)
        for row, v, w, own, ref in zip(rows, values, weights, some, reference, strict=True)
        if len(own)
    ]


def example(rows: Sequence[Mapping]) -> str:
    """One row of each kind as text, the first in which something else than nothing was said: the
    prompt, what was said, and the other legal texts."""
    lines = []
    for kind in press_prompts.KINDS:
        own = [row for row in rows if row["kind"] == kind]
        own = [row for row in own if row["legal"][row["chosen"]] != NOTHING.text] or own
        for row in own[:1]:
            others = [text for k, text in enumerate(row["legal"]) if k != row["chosen"]]
            lines += [f"{kind}: {row['prompt']}", f"   {row['legal'][row['chosen']]}"]
            lines += [f"    not:{''.join(others)}", ""]
    return "\n".join(lines[:-1])

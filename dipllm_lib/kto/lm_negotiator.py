"""A negotiator that is a language model: it scores the texts it may say, and draws one.

    executor   pi(a | prompt) over the texts of the menu, and over yes and no, normalised over
               them; a proposal to each power in turn, then all answers at once
    opponent   P(yes | prompt) of each proposal that it sent: a forecast, written down and not used
               in the choice

Nothing else can be said, so every message is on the menu. Draws invert one uniform number each of
the view's generator. It gives no orders (`press_effect`): what it promised has the price of the
game, whoever orders. What it said goes into `diary`, with exact log-probabilities; it is never
read.

Shapes: a row of log-probabilities per prompt, one per legal text, in nats.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.kto import press_effect, press_prompts
from dipllm_lib.kto.negotiators import View
from dipllm_lib.kto.policies import Context, Policy
from dipllm_lib.kto.press import NOTHING, Proposal
from dipllm_lib.kto.press_effect import Will
from dipllm_lib.kto.press_prompts import PROPOSAL, REPLY


class Note(NamedTuple):
    """One decision: its kind, the text, its log-probability in nats, and of a proposal that was
    sent the forecast P(yes); None where there is none."""

    phase: int
    power: int
    partner: int
    kind: str
    text: str
    log_prob: float
    chance: float | None


class LMNegotiator:
    """executor: of proposals and replies · opponent: of what partners reply."""

    name, needs_worth = "LMNegotiator", True

    def __init__(self, executor: Policy, opponent: Policy):
        self.executor, self.opponent = executor, opponent
        self.diary: list[Note] = []

    def propose(self, view: View) -> dict[int, Proposal]:
        said: dict[int, Proposal] = {}
        log_probs: dict[int, float] = {}
        for partner in sorted(view.menu):
            context = press_prompts.proposing(view, partner, said)
            ((pick, log_probs[partner]),) = draw(self.executor, [context], view.rng)
            said[partner] = view.menu[partner][pick]
        chances = self.forecast(view, said)
        for partner, one in said.items():
            chance = chances.get(partner)
            self._note(view, partner, PROPOSAL, one.text, log_probs[partner], chance)
        return said

    def forecast(self, view: View, said: dict[int, Proposal]) -> dict[int, float]:
        """P(yes) of what is sent, by recipient."""
        sent = {partner: one for partner, one in said.items() if one != NOTHING}
        contexts = [
            press_prompts.forecasting(view, partner, one, view.gain(partner, one))
            for partner, one in sent.items()
        ]
        rows = self.opponent.log_probs(contexts) if contexts else []
        return {partner: float(np.exp(row[0])) for partner, row in zip(sent, rows, strict=True)}

    def answer(self, view: View) -> dict[int, bool]:
        senders = sorted(view.offers)
        contexts = [press_prompts.answering(view, sender) for sender in senders]
        found = {}
        drawn = draw(self.executor, contexts, view.rng)
        for sender, (pick, log_prob) in zip(senders, drawn, strict=True):
            found[sender] = pick == 0
            self._note(view, sender, REPLY, press_prompts.REPLIES[pick], log_prob, None)
        return found

    def will(self, view: View) -> Will:
        return Will()

    def _note(self, view: View, partner, kind, text, log_prob, chance) -> None:
        self.diary.append(Note(view.phase, view.power, partner, kind, text, log_prob, chance))


def draw(
    policy: Policy, contexts: list[Context], rng: np.random.Generator
) -> list[tuple[int, float]]:
    """One action per context with its log-probability; a uniform number each."""
    rows = policy.log_probs(contexts) if contexts else []
    picks = [int(press_effect.pick(np.exp(row), rng.random())) for row in rows]
    return [(pick, float(row[pick])) for pick, row in zip(picks, rows, strict=True)]

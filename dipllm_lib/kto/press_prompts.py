"""What a language model reads of a negotiation, and the texts that it may answer.

Three questions to one power, each with its legal texts as a `policies.Context`:

    proposing     what to send a partner      the texts of the menu, at most 23
    answering     yes or no to an offer       " yes.", " no."
    forecasting   what a partner will answer  " yes.", " no."

    From France 3 to Germany 4, Fall 1901. In force: peace. Said: Italy peace. Both gain: keep out
    of Burgundy much; support A Munich to Ruhr little. Propose:

A prompt holds the power and its partner with their centres, season and year, what is in force
between the two, and what proposals are worth in rounded words: of a menu those that help both, by
how much they help the power itself; of one proposal what both gain or lose. A power chooses its
proposals one after the other, in the order of powers, and what it said so far stands in the prompt.
Everything comes from the power's `View`, so nothing of two other powers is in it.

Worths are shares of the sum of squares; `little`, `some` and `much` are cut at STEPS.
"""

from collections.abc import Mapping

from dipllm_lib.dip import atlas, boards
from dipllm_lib.kto.negotiators import View
from dipllm_lib.kto.policies import Context
from dipllm_lib.kto.press import NO, NOTHING, YES, Proposal

SEASONS = ("Spring", "Fall")
STEPS = (0.0025, 0.01)  # shares of SoS
AMOUNTS = ("little", "some", "much")
REPLIES = (YES, NO)
KINDS = PROPOSAL, REPLY, FORECAST = "proposal", "reply", "forecast"
NAMES = tuple(name.title() for name in atlas.POWERS)

ENDINGS = ("", ".", ",", ":", ";", ").", ");")
TEXTS = (
    "From to In force: Said: Both gain: Nothing helps. Propose:",
    "They propose: We gain little, some, much, nothing, they lose Answer: We propose: They answer:",
    "nothing. peace. ally against keep out of support A F hold. yes. no. (they give it). (you it)",
)
YEARS = 60  # that the small tokenizer knows


def words() -> tuple[str, ...]:
    """All words of prompts and texts, for the tokenizer of a model without one of its own."""
    known = [word.rstrip(".,:;)") for text in TEXTS for word in text.split()]
    known += [*SEASONS, *NAMES]
    known += [word for name in atlas.NAMES[: atlas.N_PROVINCES] for word in name.split()]
    found = [word + ending for word in dict.fromkeys(known) for ending in ENDINGS]
    counts = [str(n) for n in range(int(atlas.CENTRE.sum()) + 1)]
    found += [count + ending for count in counts for ending in ("", ",")]
    return (*found, *(f"{boards.FIRST_YEAR + k}." for k in range(YEARS)))


def proposing(view: View, partner: int, said: Mapping[int, Proposal]) -> Context:
    """What to send a partner. said: what this power has chosen for others so far."""
    legal = tuple(one.text for one in view.menu[partner])
    told = [f"{NAMES[p]}{_bare(one)}" for p, one in sorted(said.items()) if one != NOTHING]
    parts = [_scene(view, partner), _list("Said:", told), _helps(view, partner), "Propose:"]
    return _context(PROPOSAL, parts, legal)


def answering(view: View, sender: int) -> Context:
    """Yes or no to what `sender` offers; what was sent to it in this phase is told."""
    offer, own = view.offers[sender], view.sent.get(sender, NOTHING)
    other, mine = view.worth[sender, view.power, offer]
    told = [] if own == NOTHING else [_bare(own)]
    parts = [_scene(view, sender), _list("Said:", told), f"They propose:{_bare(offer)}."]
    return _context(REPLY, [*parts, _gains(mine, other), "Answer:"], REPLIES)


def forecasting(
    view: View, partner: int, proposal: Proposal, worth: tuple[float, float]
) -> Context:
    """What `partner` will answer to a proposal. worth: to this power and to the partner."""
    parts = [_scene(view, partner), f"We propose:{_bare(proposal)}.", _gains(*worth)]
    return _context(FORECAST, [*parts, "They answer:"], REPLIES)


def gain(worth: float) -> str:
    """A worth in words: "gain some", "lose much", "gain nothing"."""
    if worth == 0:
        return "gain nothing"
    return f"{'gain' if worth > 0 else 'lose'} {amount(worth)}"


def amount(worth: float) -> str:
    """The size of a worth in a word."""
    return AMOUNTS[sum(abs(worth) >= step for step in STEPS)]


def _context(kind: str, parts: list[str], legal: tuple[str, ...]) -> Context:
    prompt = " ".join(part for part in parts if part)
    return Context((kind, prompt), prompt, legal)


def _scene(view: View, partner: int) -> str:
    """Who talks to whom and when, and what is in force between the two."""
    own, other = (
        f"{NAMES[p]} {int((view.board.owner[0] == p).sum())}" for p in (view.power, partner)
    )
    scene = f"From {own} to {other}, {SEASONS[view.phase % 2]} {view.year}."
    held = [_held(one, view.power) for one in sorted(view.agreements) if partner in one.pair]
    return f"{scene} {_list('In force:', held)}" if held else scene


def _held(one, power: int) -> str:
    """An agreement in force; of a support also who gives it."""
    giver = "you" if one.partner == power else "they"
    return _bare(one.proposal) + ("" if one.proposal.mutual else f" ({giver} give it)")


def _list(head: str, parts: list[str]) -> str:
    """A sentence of several parts, "" for none."""
    return f"{head} {'; '.join(part.strip() for part in parts)}." if parts else ""


def _bare(proposal: Proposal) -> str:
    """The text of a proposal without its full stop."""
    return proposal.text[:-1]


def _gains(own: float, other: float) -> str:
    return f"We {gain(own)}, they {gain(other)}."


def _helps(view: View, partner: int) -> str:
    """The proposals to a partner that help both, by how much they help this power."""
    gains = {one: view.gain(partner, one) for one in view.menu[partner]}
    good = [f"{_bare(one)} {amount(worth[0])}" for one, worth in gains.items() if min(worth) > 0]
    return _list("Both gain:", good) or "Nothing helps."

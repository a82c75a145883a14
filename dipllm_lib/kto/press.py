"""What powers can say to each other in Diplomacy without free text: proposals and agreements.

In every movement phase each power may send each other power one proposal, the other answers yes or
no, and then orders are given (`press_play`). The proposals are a small grammar of the kind that
the protocol DAIDE has (levels 10 and 20), each a text that begins with a space and ends with a full
stop, so that none is the beginning of another:

    nothing     " nothing."                          -
    peace       " peace."                            PCE
    alliance    " ally against Austria."             ALY VSS
    zone        " keep out of Burgundy."             DMZ
    support     " support A Paris to Burgundy."      XDO SUP MTO   asked of the partner
                " support A Paris to hold."          XDO SUP

A yes makes an agreement, private to the pair, that lasts `LIFE` movement phases. It binds nobody by
the rules of the game: what breaks it is said in `breaches`, what that costs in `press_effect`.

Powers are numbers 0 to 6, provinces 0 to 74; movement phases are counted from 0, Spring 1901.
"""

import re
from dataclasses import dataclass

from dipllm_lib.dip import atlas
from dipllm_lib.dip.boards import Boards

KINDS = ("nothing", "peace", "alliance", "zone", "support")
LIFE = {"peace": 2, "alliance": 2, "zone": 2, "support": 1}  # movement phases
STAYS = atlas.N_PROVINCES  # destination of a unit that does not move
YES, NO = " yes.", " no."
REPLIES = {YES: True, NO: False}
REPLY_WORDS = {True: "YES", False: "REJ"}

_PLACES = {name: number for number, name in enumerate(atlas.NAMES[: atlas.N_PROVINCES])}
_POWERS = {name.title(): number for number, name in enumerate(atlas.POWERS)}
_UNITS = {"A": "AMY", "F": "FLT"}
_NAME = "[A-Za-z -]+"
_FORMS = {
    "nothing": r" nothing\.",
    "peace": r" peace\.",
    "alliance": r" ally against (?P<power>[A-Za-z]+)\.",
    "zone": rf" keep out of (?P<place>{_NAME})\.",
    "support": rf" support (?P<unit>[AF]) (?P<place>{_NAME}) to (?P<to>{_NAME})\.",
}


@dataclass(frozen=True, order=True)
class Proposal:
    """One proposal. `against`: X of an alliance. `province`: the zone, or where the unit to be
    supported stands; `unit`: its type; `to`: where it goes, `STAYS` if it does not move.
    ValueError for a field that does not belong to the kind.
    """

    kind: str
    against: int = -1
    province: int = -1
    unit: int = 0
    to: int = -1

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"unknown proposal {self.kind!r}: use one of {', '.join(KINDS)}")
        given = (self.against >= 0, self.province >= 0, self.unit > 0, self.to >= 0)
        wanted = {"alliance": (1, 0, 0, 0), "zone": (0, 1, 0, 0), "support": (0, 1, 1, 1)}
        if given != tuple(map(bool, wanted.get(self.kind, (0, 0, 0, 0)))):
            raise ValueError(f"a proposal of the kind {self.kind} cannot have the fields {self}")

    @property
    def text(self) -> str:
        """The proposal as a language model reads and says it."""
        if self.kind == "alliance":
            return f" ally against {atlas.POWERS[self.against].title()}."
        if self.kind == "zone":
            return f" keep out of {atlas.NAMES[self.province]}."
        if self.kind == "support":
            goal = "hold" if self.to == STAYS else atlas.NAMES[self.to]
            letter = atlas.UNIT_LETTERS[self.unit]
            return f" support {letter} {atlas.NAMES[self.province]} to {goal}."
        return f" {self.kind}."

    def words(self, sender: int, recipient: int) -> str:
        """The proposal in the words of DAIDE, between two powers. Of a support DAIDE names the
        supporting unit, here any unit of the recipient will do, so its power stands there.
        """
        pair = f"({_code(sender)} {_code(recipient)})"
        if self.kind == "alliance":
            return f"ALY {pair} VSS ({_code(self.against)})"
        if self.kind == "zone":
            return f"DMZ {pair} ({atlas.CODES[self.province]})"
        if self.kind == "support":
            letter = atlas.UNIT_LETTERS[self.unit]
            unit = f"({_code(sender)} {_UNITS[letter]} {atlas.CODES[self.province]})"
            goal = "" if self.to == STAYS else f" MTO {atlas.CODES[self.to]}"
            return f"XDO ({_code(recipient)} SUP {unit}{goal})"
        return f"PCE {pair}" if self.kind == "peace" else ""

    @property
    def mutual(self) -> bool:
        """Whether it binds both powers alike, whoever proposes it."""
        return self.kind != "support"


NOTHING, PEACE = Proposal("nothing"), Proposal("peace")


def _code(power: int) -> str:
    return atlas.POWERS[power][:3]


def parse(text: str) -> Proposal:
    """The proposal of a text, spaces around it aside. ValueError for anything but exactly one."""
    for kind, form in _FORMS.items():
        match = re.fullmatch(form, " " + text.strip()) if isinstance(text, str) else None
        if match:
            return _read(kind, match.groupdict(), text)
    raise ValueError(f"no proposal: {text!r}, expected a text such as ' peace.'")


def _read(kind: str, words: dict[str, str], text: str) -> Proposal:
    """The proposal of a form and the words in it. ValueError for an unknown name."""
    numbers = {"unit": atlas.UNIT_LETTERS.index(words["unit"])} if "unit" in words else {}
    known = {"power": _POWERS, "place": _PLACES, "to": _PLACES | {"hold": STAYS}}
    for name, field in (("power", "against"), ("place", "province"), ("to", "to")):
        if name in words:
            if words[name] not in known[name]:
                raise ValueError(f"no proposal: {text!r} names {words[name]!r}, which is unknown")
            numbers[field] = known[name][words[name]]
    return Proposal(kind, **numbers)


def parse_reply(text: str) -> bool:
    """The answer of a text; ValueError for anything but yes or no in their one form."""
    found = REPLIES.get(" " + text.strip()) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"no reply: {text!r}, expected ' yes.' or ' no.'")
    return found


@dataclass(frozen=True, order=True)
class Agreement:
    """A proposal that was answered with yes, in force in the movement phases `since` to `last`. In
    a support request the proposer is the asker and the partner the giver.
    """

    since: int
    proposer: int
    partner: int
    proposal: Proposal

    def __post_init__(self):
        if self.proposal.kind == "nothing" or self.proposer == self.partner:
            raise ValueError(f"no agreement: {self}, need two powers and something proposed")

    @property
    def last(self) -> int:
        """The last movement phase in which it is in force."""
        return self.since + LIFE[self.proposal.kind] - 1

    @property
    def pair(self) -> tuple[int, int]:
        """The two powers that it binds, proposer first."""
        return self.proposer, self.partner

    def other(self, power: int) -> int:
        """The partner of one of the two. ValueError for a third power."""
        if power not in self.pair:
            raise ValueError(f"{atlas.POWERS[power]} is not bound by {self.proposal.text!r}")
        return self.partner if power == self.proposer else self.proposer

    def same(self, other: "Agreement") -> bool:
        """Whether two agreements say the same to the same powers, whenever they were made."""
        pairs = (
            (set(self.pair), set(other.pair)) if self.proposal.mutual else (self.pair, other.pair)
        )
        return self.proposal == other.proposal and pairs[0] == pairs[1]


def sentence(agreements: tuple[Agreement, ...], power: int) -> str:
    """The agreements in force of a power as one line for a prompt; "No agreements." without any.

    In a support request it is told who gives it.
    """
    parts = []
    for one in sorted(agreements):
        partner = atlas.POWERS[one.other(power)].title()
        gives = " (they give it)" if one.partner != power else " (you give it)"
        ending = gives if one.proposal.kind == "support" else ""
        parts.append(f"with {partner}:{one.proposal.text[:-1]}{ending}")
    return f"In force {'; '.join(parts)}." if parts else "No agreements."


def movement_phase(boards: Boards, i: int = 0) -> int:
    """Number of a movement phase, 0 for Spring 1901. ValueError in another kind of phase."""
    if boards.phase[i] not in (0, 2):
        raise ValueError(f"phase code {int(boards.phase[i])} is no movement phase: no press there")
    return 2 * (int(boards.year[i]) - 1901) + int(boards.phase[i]) // 2

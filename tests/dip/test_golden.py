"""Golden playthroughs: two whole games as text, compared byte for byte.

`golden/random.txt` is a game of uniformly random legal orders to 1907. `golden/opening.txt` follows
the orders below to the end of 1903; what happens in each phase was worked out by hand by the rules
of the game and stands in the file above the phase. Per phase: centres, standing and dislodged units
(with the provinces open to them), the number of legal orders, each order and what became of it.

    python -m pytest tests/dip/test_golden.py --rewrite

writes both files anew; do that on purpose only, and read what changed.
"""

import difflib
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, game, legal, legalise, outcomes, rules, states
from dipllm_lib.run import files

FOLDER = Path(__file__).parent / "golden"

# blocks of phase, what happens, and the orders of each power with what becomes of each
OPENING = """
S1901M
# Stand-offs in BLA, BUR and GAL; A SMY follows A CON.
AUSTRIA: A BUD - SER, A VIE - GAL (bounce), F TRI - ALB
ENGLAND: A LVP - YOR, F EDI - NWG, F LON - NTH
FRANCE: A MAR - SPA, A PAR - BUR (bounce), F BRE - MAO
GERMANY: A BER - KIE, A MUN - BUR (bounce), F KIE - DEN
ITALY: A ROM - APU, A VEN H, F NAP - ION
RUSSIA: A MOS - UKR, A WAR - GAL (bounce), F SEV - BLA (bounce), F STP/SC - BOT
TURKEY: A CON - BUL, A SMY - CON, F ANK - BLA (bounce)

F1901M
# A convoy: A YOR to NWY. A cut support: A BUL cuts A SER, so F ALB and F ION stand off in GRE.
# Stand-offs in BUR, SWE and TRI; A CON cannot follow A BUL, which fails.
AUSTRIA: A SER S F ALB - GRE (cut), A VIE - TRI (bounce), F ALB - GRE (bounce)
ENGLAND: A YOR - NWY VIA, F NTH C A YOR - NWY, F NWG - BAR
FRANCE: A PAR - BUR (bounce), A SPA H, F MAO - POR
GERMANY: A KIE - HOL, A MUN - BUR (bounce), F DEN - SWE (bounce)
ITALY: A APU H, A VEN - TRI (bounce), F ION - GRE (bounce)
RUSSIA: A UKR - RUM, A WAR - GAL, F BOT - SWE (bounce), F SEV S A UKR - RUM
TURKEY: A BUL - SER (bounce), A CON - BUL (bounce), F ANK - BLA

W1901A
# Builds; Germany waives one of two, Russia its only one; Italy has 3 centres and 3 units.
AUSTRIA: A BUD B
ENGLAND: F LON B
FRANCE: A MAR B, F BRE B
GERMANY: A BER B, WAIVE
RUSSIA: WAIVE
TURKEY: A SMY B

S1902M
# A BUD beats A GAL head to head and dislodges it; A BUL dislodges A RUM. Closed to A GAL: BUD,
# where its attacker came from, and SIL, a stand-off. Closed to A RUM: BUL; BUD is open, since A
# GAL lost head to head. Stand-offs in ARM and SIL; F LON beats F BRE to ENG, F BAR beats F BOT to
# STP, F ALB beats F ION to GRE.
AUSTRIA: A BUD - GAL, A SER S F ALB - GRE, A VIE S A BUD - GAL, F ALB - GRE
ENGLAND: A NWY S F BAR - STP/NC, F BAR - STP/NC, F LON - ENG, F NTH S F LON - ENG
FRANCE: A MAR - PIE, A PAR - PIC, A SPA - MAR, F BRE - ENG (bounce), F POR - MAO
GERMANY: A BER - SIL (bounce), A HOL - BEL, A MUN - SIL (bounce), F DEN - SWE
ITALY: A APU - VEN, A VEN - TRI, F ION - GRE (bounce)
RUSSIA: A GAL - BUD (bounce, dislodged), A RUM H (dislodged), F BOT - STP/SC (bounce),
    F SEV - ARM (bounce)
TURKEY: A BUL - RUM, A CON H, A SMY - ARM (bounce), F BLA S A BUL - RUM

S1902R
# Both retreat.
RUSSIA: A GAL R WAR, A RUM R BUD

F1902M
# F BRE beats F ENG head to head; closed to F ENG: BRE, where its attacker came from. Stand-offs
# in FIN and TYR. Two against two in TRI and RUM: nobody gives way. A GAL and A WAR bounce head to
# head.
AUSTRIA: A GAL - WAR (bounce), A SER S A VIE - TRI, A VIE - TRI (bounce), F GRE H
ENGLAND: A NWY - FIN (bounce), F ENG - BRE (bounce, dislodged), F NTH H, F STP/NC H
FRANCE: A MAR H, A PIC - BUR, A PIE - TYR (bounce), F BRE - ENG, F MAO S F BRE - ENG
GERMANY: A BEL H, A BER - KIE, A MUN - TYR (bounce), F SWE H
ITALY: A TRI H, A VEN S A TRI, F ION - TUN
RUSSIA: A BUD - RUM (bounce), A WAR - GAL (bounce), F BOT - FIN (bounce), F SEV S A BUD - RUM
TURKEY: A CON - BUL, A RUM H, A SMY - CON, F BLA S A RUM

F1902R
# It retreats to LON.
ENGLAND: F ENG R LON

W1902A
# Austria lost BUD and TRI, won GRE and removes A GAL; Germany has 3 builds due and one free home
# centre.
AUSTRIA: A GAL D
ENGLAND: A EDI B
GERMANY: A BER B
ITALY: A ROM B, F NAP B
TURKEY: F SMY B

S1903M
# A BUL cuts A SER, so A BUD beats A VIE head to head and dislodges it; BOH, GAL, TRI and TYR are
# occupied, BUD too: A VIE is removed at once, no retreat phase. A RUM enters BUD, since A VIE
# lost head to head. F ENG does not dislodge F NTH: A EDI is convoyed to HOL. Stand-offs in AEG
# and RUM.
AUSTRIA: A SER S A VIE - BUD (cut), A VIE - BUD (bounce, dislodged, disband), F GRE - AEG (bounce)
ENGLAND: A EDI - HOL VIA, A NWY - FIN, F LON - ENG (bounce), F NTH C A EDI - HOL, F STP/NC - NWY
FRANCE: A BUR - BEL, A MAR - SPA, A PIE - TUS, F ENG - NTH (bounce), F MAO - IRI
GERMANY: A BEL - RUH, A BER - PRU, A KIE - DEN, A MUN - BOH, F SWE H
ITALY: A ROM - VEN, A TRI S A BUD - VIE, A VEN - TYR, F NAP - ION, F TUN - WES
RUSSIA: A BUD - VIE, A WAR - GAL, F BOT - SWE (bounce), F SEV - RUM (bounce)
TURKEY: A BUL - SER (bounce), A CON H, A RUM - BUD, F BLA - RUM (bounce), F SMY - AEG (bounce)

F1903M
# F BOT dislodges F SWE with two supports; closed to it: BOT, where its attacker came from. Two
# against two in HOL and VIE, and between A BUL and A SER; F ENG and F LON bounce head to head; a
# stand-off in EAS. France takes LVP and ROM, Germany WAR, Russia VIE and SWE.
AUSTRIA: A SER - BUL (bounce), F GRE S A SER - BUL
ENGLAND: A FIN S F BOT - SWE, A HOL H, F LON - ENG (bounce), F NTH S A HOL, F NWY S F BOT - SWE
FRANCE: A BEL - HOL (bounce), A SPA H, A TUS - ROM, F ENG - LON (bounce), F IRI - LVP
GERMANY: A BOH - VIE (bounce), A DEN - KIE, A PRU - WAR, A RUH S A BEL - HOL, F SWE H (dislodged)
ITALY: A TRI H, A TYR S A BOH - VIE, A VEN H, F ION - EAS (bounce), F WES - SPA/SC (bounce)
RUSSIA: A GAL S A VIE, A VIE H, F BOT - SWE, F SEV - BLA
TURKEY: A BUD S A BUL - SER, A BUL - SER (bounce), A CON H, F BLA - RUM, F SMY - EAS (bounce)

F1903R
# It disbands.
GERMANY: F SWE D (disband)

W1903A
# France waives one of three builds, Italy lost ROM and removes F WES.
FRANCE: A PAR B, F BRE B, WAIVE
GERMANY: F BER B
ITALY: F WES D
TURKEY: A ANK B
"""
FINAL = "2 5 8 5 4 4 6"  # centres of the seven powers after 1903, counted by hand


class Uniform:
    """A uniform legal order for each slot."""

    name = "uniform"

    def act(self, turns, rngs):
        return [self._joint(turn, rng) for turn, rng in zip(turns, rngs)]

    def _joint(self, turn, rng):
        joint = ()
        while len(joint) < turn.slots:
            options = turn.options(joint)
            joint += (int(options[int(rng.integers(len(options)))]),)
        return joint


class Phase(NamedTuple):
    """A block of OPENING: orders by power name, words by unit where there are any."""

    name: str
    note: str
    orders: dict[str, list[str]]
    words: dict[str, str]


def parsed(block: str) -> Phase:
    """`S1901M`, `# a note`, `FRANCE: A PAR H, A MAR - SPA (bounce)` ... as a phase."""
    name, *lines = block.strip().split("\n")
    note = " ".join(line[2:] for line in lines if line.startswith("#"))
    rest = " ".join(line.strip() for line in lines if not line.startswith("#"))
    given, words = {}, {}
    for power, listed in re.findall(r"([A-Z]{4,}): (.*?)(?= [A-Z]{4,}:|$)", rest):
        for text, found in re.findall(r"([^,(]+?)(?: \((.*?)\))?(?:, |$)", listed):
            given.setdefault(power, []).append(text)
            words |= {" ".join(text.split()[:2]): found} if found else {}
    return Phase(name, note, given, words)


PHASES = [parsed(block) for block in OPENING.split("\n\n")]


def hand_written() -> game.Game:
    """The game of OPENING."""
    now, positions, given, results = rules.start(), [], [], []
    for phase in PHASES:
        assert boards.phase_name(now) == phase.name
        read = legalise.read_orders(now, 0, phase.orders)
        after, made = rules.resolve(now, read)
        positions.append(now)
        given.append({power: sorted(texts) for power, texts in phase.orders.items()})
        results.append(outcomes.words(now, read, made, after, 0))
        now = after
    positions.append(now)
    together = boards.Boards.concat(positions)
    return game.Game("opening", (), None, together, [*given, {}], [*results, {}], "")


def random_game() -> game.Game:
    (played,) = game.play([[Uniform()] * 7], 1907, [("golden",)], game.EndRules(1907))
    return played


def counts(b: boards.Boards) -> np.ndarray:
    """Legal orders of each power, WAIVE not counted, int64 (7,)."""
    lists = legal.legal_orders(b)
    return np.bincount(lists.power, np.diff(lists.offset), atlas.N_POWERS).astype(np.int64)


def power_lines(state: dict, name: str, legal_count: int, texts, results: dict) -> list[str]:
    """A power in one phase: a title and one line for each order."""
    units = ", ".join(u for u in state["units"][name] if u[0] != "*") or "no unit"
    codes = state["centers"][name]
    lines = [f"{name}: {units}; {len(codes)} centres {' '.join(codes)}".rstrip()]
    for unit, places in sorted(state["retreats"][name].items()):
        lines.append(f"  dislodged {unit}, open {' '.join(places)}")
    if legal_count:
        lines.append(f"  {legal_count} legal orders")
    for text in texts:
        words = results.get(" ".join(text.split()[:2]), [])
        lines.append(f"    {text}{': ' if words else ''}{', '.join(words)}")
    return lines


def text_of(g: game.Game, title: str, notes: list[str]) -> str:
    """The whole game, one block a phase, notes above their phases."""
    lines = [f"# {title}"]
    for k in range(g.boards.n):
        b = g.boards.take([k])
        state, legal_counts = states.to_state(b), counts(b)
        lines += ["", state["name"]] + ([f"# {notes[k]}"] if k < len(notes) else [])
        for power, name in enumerate(atlas.POWERS):
            given, results = g.orders[k].get(name, []), g.results[k]
            lines += power_lines(state, name, int(legal_counts[power]), given, results)
    return "\n".join(lines) + "\n"


GAMES = {
    "random": (random_game, "A game of uniformly random legal orders, seed 1907.", []),
    "opening": (
        hand_written,
        "An opening to 1903. Each phase begins with what happens in it, by the rules of the game.",
        [phase.note for phase in PHASES],
    ),
}


@pytest.mark.parametrize("name", sorted(GAMES))
def test_playthrough(name, rewrite, capsys):
    make, title, notes = GAMES[name]
    path, text = FOLDER / f"{name}.txt", text_of(make(), title, notes)
    if rewrite:
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        with capsys.disabled():
            print(
                *difflib.unified_diff(old.split("\n"), text.split("\n"), lineterm="", n=1), sep="\n"
            )
        files.write_text(path, text)
    assert path.read_bytes() == text.encode("utf-8")


def test_the_opening_goes_as_worked_out_by_hand():
    g = hand_written()
    for result, phase in zip(g.results, PHASES):
        found = {unit: ", ".join(words) for unit, words in result.items() if words}
        assert found == phase.words, phase.name
    assert " ".join(map(str, g.final_centres)) == FINAL
    words = [word for result in g.results for found in result.values() for word in found]
    kinds = {text.split()[-1] for row in g.orders for texts in row.values() for text in texts}
    assert {"bounce", "cut", "dislodged", "disband"} <= set(words)
    assert {"VIA", "B", "D", "WAIVE"} <= kinds


@pytest.mark.parametrize(("name", "deviations"), [("opening", []), ("random", [])])
def test_the_package_replays_both_games(name, deviations):
    table = game.replay_on_package(GAMES[name][0]())
    assert table.values.tolist() == deviations

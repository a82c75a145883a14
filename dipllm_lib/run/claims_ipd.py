"""Claims of study 2 (Weis et al. 2026): the mixed pool, the mechanism in three steps, β as printed.

Unit: the seed; fewer than three trainings test nothing. PPI is amortised: its arms stand at three
levels of decision noise, `half` first in the mixed pool, `on`, the noise of training, first in the
steps. The other levels are there so that nothing hangs on one, and are counted apart (`again`).
A2C has a small part of the published budget (`04_a2c_tried`). Stated numbers are read off the
figures by eye (± 0.03): effects take them as they are, regions have READ. A difference of less than
SMALL in cooperation or reward counts as none.
"""

import math

import pandas as pd

from dipllm_lib.run import claim_rows, grades
from dipllm_lib.run.claim_rows import Ledger, every, one, over_seeds
from dipllm_lib.run.grades import AGAIN, OURS, TEXT, Claim, Effect, Found, Load, Region

SMALL = 0.01
READ = 0.03  # what reading a figure by eye leaves
COOP = "cooperation"
NOISES = ("half", "off", "on")


def _up(stated: float | None = None) -> Effect:
    return Effect(stated=stated, margin=SMALL)


MIXED = (  # key, contrast, text, place, judge, stated, who
    ("I1", "mixed: late − phase", "PPI learners come to cooperate", "Fig. 1A", _up(0.83), TEXT),
    ("I1f", "mixed: late − floor", "PPI learners cooperate more than by noise", "Fig. 1A", _up(0.9),
     TEXT),
    ("I3", "mixed − Opponent ID", "PPI cooperates less if told who the opponent is", "Fig. 1A",
     _up(0.8), TEXT),
    ("I3f", "Opponent ID: late − floor", "told who it is, PPI cooperates no more than by noise",
     "Fig. 1A", Region(last=READ), TEXT),
    ("I4", "mixed − No Tabular", "PPI cooperates less without the pool", "Fig. 1A", _up(0.65),
     TEXT),
    ("I4f", "No Tabular: late − floor", "without the pool a little cooperation is left",
     "Fig. 1A", _up(0.15), TEXT),
)  # fmt: skip
REWARDS = (
    ("I1r", "mixed: reward − AllD",
     "PPI of the mixed pool earns as AllD does from random agents", "Fig. 1A",
     Region(-READ, READ, 0.0)),
    ("I3r", "Opponent ID: reward − AllD",
     "told who it is, PPI earns more than AllD from random agents",
     "Fig. 1A", Effect(stated=0.04)),
)  # fmt: skip
A2C = (
    ("I2a", "mixed: late − iteration", "A2C learners come to cooperate", _up(0.95)),
    ("I2b", "mixed − Opponent ID", "A2C cooperates less if told who the opponent is", _up(0.95)),
    ("I2c", "mixed − No Tabular", "A2C cooperates less without the pool", _up(0.95)),
    ("I2d", "Opponent ID: late − floor", "told who it is, A2C does not cooperate", Region(-READ,
     READ, 0)),
    ("I2e", "No Tabular: late − floor", "without the pool A2C does not cooperate", Region(-READ,
     READ, 0)),
    ("I2f", "mixed: reward − AllD", "A2C of the mixed pool earns more than AllD from random agents",
     Effect(stated=0.02)),
    ("I2g", "Opponent ID: reward − AllD",
     "told who it is, A2C earns more than AllD from random agents",
     Effect(stated=0.05)),
)  # fmt: skip
STEPS = (  # key, panel, key of the contrast, text, judge, who
    ("I7a", "2B", "TFT", "within a game PPI comes to answer TFT", _up(), TEXT),
    ("I7b", "2A", "alld", "PPI of the pool earns from random agents as AllD does", Region(-READ,
     READ), TEXT),
    ("I7c", "2B", "late AllD", "late against AllD it gives no more than a Bayes player",
     Region(last=SMALL), OURS),
    ("I7d", "2B", "late tabular", "late against random agents, too", Region(last=SMALL), OURS),
    ("I8a", "2C", "share", "the extorter earns more than Fixed-ICL", _up(), TEXT),
    ("I8b", "2D", "share", "the extorter earns more, late in a game", _up(), TEXT),
    ("I8c", "2C", "chi", "the extorter's factor χ is above 1, χ − 1", _up(), TEXT),
    ("I8d", "2D", "chi", "the factor, late in a game", _up(), TEXT),
    ("I8e", "2C", "victim", "over the training Fixed-ICL is led to cooperate", _up(), TEXT),
    ("I8f", "2D", "victim", "within a game Fixed-ICL is led to cooperate", _up(), TEXT),
    ("I9a", "2E", "seat 0", "the first extorter comes to cooperate", _up(), TEXT),
    ("I9b", "2E", "seat 1", "the second extorter comes to cooperate", _up(), TEXT),
    ("I9c", "2E", "drift", "two extorters do not fall back at the end", Region(first=-SMALL), TEXT),
    ("I9d", "2F", "within", "before training two extorters cooperate more and more in a game",
     _up(), TEXT),
)  # fmt: skip
A2C_STEPS = (
    ("I7e", "4B", "TFT", "within a game A2C comes to answer TFT", _up()),
    ("I7f", "4A", "alld", "A2C earns more than AllD from random agents", Effect()),
    ("I8g", "4C", "share", "the A2C extorter earns more than Fixed-ICL", _up()),
    ("I8h", "4D", "share", "the A2C extorter earns more, late in a game", _up()),
    ("I8i", "4C", "victim", "over the training Fixed-ICL is led to cooperate", _up()),
    ("I9e", "4E", "seat 0", "the first A2C extorter comes to cooperate", _up()),
    ("I9f", "4E", "seat 1", "the second A2C extorter comes to cooperate", _up()),
    ("I9g", "4F", "within", "before training A2C extorters cooperate more and more in a game",
     _up()),
)  # fmt: skip
TABLES = {
    **dict.fromkeys(("TFT", "alld", "late AllD", "late tabular"), "05_contrasts"),
    **dict.fromkeys(("share", "chi", "victim"), "06_contrasts"),
    **dict.fromkeys(("seat 0", "seat 1", "drift", "within"), "07_contrasts"),
}
UNITS = {"alld": "reward", "share": "reward", "chi": "ratio"}


def mixed(ledger: Ledger) -> None:
    """I1 to I4: Fig. 1."""
    table = ledger.table("04_contrasts")
    for key, start, text, where, judge, who in MIXED:
        for noise in NOISES:
            row = _starting(table, start, noise)
            said = Claim(
                f"{key} {noise}",
                f"{text}, noise {noise}",
                where,
                COOP,
                judge,
                "04_contrasts",
                _words(judge),
                _who(who, noise, "half"),
            )
            ledger.add(said, over_seeds(row))
    for key, start, text, where, judge in REWARDS:
        said = Claim(
            key, text, where, "reward", judge, "04_contrasts", _words(judge), note="noise off"
        )
        ledger.add(said, over_seeds(_starting(table, start, "off")))
    table = ledger.table("04_a2c_contrasts")
    for key, start, text, judge in A2C:
        unit = "reward" if "reward" in start else COOP
        said = Claim(
            key,
            text,
            "Fig. 1B",
            unit,
            judge,
            "04_a2c_contrasts",
            _words(judge),
            note="a small part of the published budget",
        )
        ledger.add(said, over_seeds(_starting(table, start, "off")))
    _published(ledger)


def _starting(table: pd.DataFrame, start: str, noise: str) -> pd.Series:
    """The one contrast that begins so, at this noise."""
    names = table["contrast"]
    return table[names.str.startswith(start) & names.str.endswith(f"noise {noise}")].iloc[0]


def _who(who: str, noise: str, main: str) -> str:
    """Claims of the text at other levels of noise than the main one are counted apart."""
    return AGAIN if who == TEXT and noise != main else who


def _words(judge: Effect | Region) -> str:
    return "–" if math.isnan(judge.number) else f"{judge.number:g}"


def _published(ledger: Ledger) -> None:
    """PPI with rollouts inside the model, and A2C with Table 2, both as published but small."""
    table = every(ledger.table("04_mc"), opponent="learner", noise="on", arm="mixed")
    phases = sorted(set(table["phase"]))
    late = table[table["phase"].isin(phases[2 * len(phases) // 3 :])]
    first = table[table["phase"] == phases[0]]
    rise = late.groupby("seed")[COOP].mean() - first.groupby("seed")[COOP].mean()
    few = grades.FEW if len(rise) < grades.FEWEST else ""
    found = Found(rise.mean(), rise.min(), rise.max(), f"{len(rise)} seeds", len(rise), few)
    said = Claim(
        "I1m",
        "PPI with rollouts inside the model comes to cooperate",
        "Fig. 1A",
        COOP,
        _up(0.83),
        "04_mc",
        "0.83",
        note="least and largest seed as interval",
    )
    ledger.add(said, found)
    row = one(ledger.table("04_a2c_tried"), arm="published")
    few = grades.FEW if row["seeds"] < grades.FEWEST else ""
    said = Claim(
        "I2h",
        "A2C with the published settings at this size comes to cooperate",
        "Table 2",
        COOP,
        _up(0.95),
        "04_a2c_tried",
        "0.95",
    )
    ledger.add(
        said,
        Found(*claim_rows.exact(row["with_learner"]), f"{row['seeds']} seeds", row["seeds"], few),
    )


def inside(ledger: Ledger) -> None:
    """I5 and I6: Fig. 3, and Eq. 1 as printed."""
    stated = (0.35, 0.75)
    texts = (
        "at half height cooperation with the other learner rises within a game",
        "late in a game TFT, which answers, gets more than random agents",
    )
    rows = ledger.table("04_inside").to_dict("records")
    for part, number, text, row in zip("ab", stated, texts, rows, strict=True):
        said = Claim(f"I5{part}", text, "Fig. 3A", COOP, _up(number), "04_inside", f"{number:g}")
        ledger.add(said, over_seeds(pd.Series(row)))
    row = one(ledger.table("04_literal"), contrast="literal: reward − AllD")
    said = Claim(
        "I6",
        "with β = 0.01 as an inverse temperature it earns what AllD earns",
        "Eq. 1",
        "reward",
        Region(-READ, READ, 0.0),
        "04_literal",
        "0",
    )
    ledger.add(said, over_seeds(row))


def mechanism(ledger: Ledger) -> None:
    """I7 to I9: Fig. 2 and Fig. 4."""
    for key, panel, contrast, text, judge, who in STEPS:
        for noise in ("on", "half", "off"):
            name, words = f"{key} {noise}", f"{text}, noise {noise}"
            _step(ledger, name, words, panel, contrast, judge, noise, _who(who, noise, "on"))
    for key, panel, contrast, text, judge in A2C_STEPS:
        _step(ledger, key, text, panel, contrast, judge, "on", TEXT)


def _step(
    ledger: Ledger,
    key: str,
    text: str,
    panel: str,
    contrast: str,
    judge: Effect | Region,
    noise: str,
    who: str,
) -> None:
    """One contrast of a panel. A short run may lack it; χ may have no value."""
    name = TABLES[contrast]
    found = every(ledger.table(name), panel=panel, key=contrast, noise=noise)
    paper = math.nan if found.empty else found.iloc[0]["paper"]
    note = "a small part of the published budget" if panel.startswith("4") else ""
    judge = _with(judge, paper)
    said = Claim(
        key,
        text,
        f"Fig. {panel}",
        UNITS.get(contrast, COOP),
        judge,
        name,
        _paper(paper),
        who,
        note,
    )
    if found.empty:
        ledger.add(*claim_rows.untested(said, "the run is too short for it"))
        return
    measured = over_seeds(found.iloc[0])
    if math.isnan(measured.mean):
        measured = measured._replace(reason="the victim earns no more than P: no factor")
    ledger.add(said, measured)


def _paper(number: float) -> str:
    return "–" if math.isnan(number) else f"{number:.2f}"


def _with(judge: Effect | Region, number: float) -> Effect | Region:
    """The same claim with the number of the paper, if there is one."""
    if math.isnan(number):
        return judge
    if isinstance(judge, Region):
        return Region(judge.first, judge.last, number)
    return Effect(judge.bound, judge.side, number, judge.margin)


def meters(ledger: Ledger) -> None:
    """Is it extortion in the sense of Press and Dyson? Not asked in the paper."""
    table = every(ledger.table("06_meters"), learner="ppi")
    row = one(table, what="slope, all opponents")
    said = Claim(
        "I8j",
        "the extorter holds all opponents to a line with slope above 1",
        "Press 2012",
        "slope",
        Effect(1.0),
        "06_meters",
        "above 1",
        OURS,
    )
    ledger.add(said, over_seeds(row, "value"))
    row = one(table, what="accepted as ZD, against Fixed-ICL")
    said = Claim(
        "I8k",
        "against Fixed-ICL most extorters fit a zero-determinant strategy",
        "Press 2012",
        "share of extorters",
        Effect(0.5),
        "06_meters",
        "–",
        OURS,
    )
    ledger.add(said, over_seeds(row, "value"))


def exact_learners(ledger: Ledger) -> None:
    """B1: Foerster et al. 2018 in the same game, in our payoffs."""
    table = ledger.table("10b_contrasts")
    for part, measure, unit, stated in (
        ("a", "payoff", "reward", 0.92),
        ("b", "share of tit for tat", "share of pairs", 0.60),
    ):
        row = one(table, contrast=f"LOLA − naive: {measure}")
        said = Claim(
            f"B1{part}",
            f"{measure} of LOLA above that of naive learners",
            "Foerster 2018",
            unit,
            Effect(stated=stated),
            "10b_contrasts",
            f"{stated:.2f}",
            OURS,
        )
        ledger.add(said, over_seeds(row, of="pairs"))


def not_run(ledger: Ledger) -> None:
    """What has no counterpart here."""
    small = "A2C at a small part of the published budget does not get there"
    listed = (
        ("I10", "at 70,000 iterations A2C cooperates within 8 rounds", "Fig. 3B", "0.8", small),
        ("I11", "A2C extorters cooperate and then fall back in some seeds", "Fig. 4E",
         "0.94, then 0.57", small),
        ("I12", "predictive equilibria exist, a perfect one is subjective embedded",
         "theorem D.9", "–", "a proof; a run can neither show nor refute existence"),
        ("I13", "the curves at the published size", "Fig. 1 to 4", "–",
         "needs GPUs; K, weights of the loss and code are not published"),
    )  # fmt: skip
    for key, text, where, stated, reason in listed:
        ledger.add(*claim_rows.untested(Claim(key, text, where, "–", None, "–", stated), reason))


def rows(load: Load) -> list[dict]:
    """All claims of study 2."""
    ledger = Ledger("2", load)
    for part in (mixed, inside, mechanism, meters, exact_learners, not_run):
        part(ledger)
    return ledger.rows

"""Claims of study 1 (Xu et al. 2025): theory, teacher, fine-tuning, ablations.

Each function adds the rows of a few claims to a ledger; `claims_play` has those about whole games.
Stand-ins, sizes and the one training behind all rows are the same everywhere (README), so they are
not repeated in the notes. Tables: see `Claim.table`.
"""

from functools import partial

from dipllm_lib.run import grades
from dipllm_lib.run.claim_rows import Ledger, every, exact, games, interval, minus, one, turned
from dipllm_lib.run.claim_rows import turns as of_turns
from dipllm_lib.run.grades import OURS, Claim, Effect, Found, Region

PAR = 100 / 7  # % SoS of one of seven equal players
ROUNDED = 1e-12  # what float64 leaves of an equality
NATS = partial(Claim, unit="nats per power-turn", table="10_arms")


def theory(ledger: Ledger) -> None:
    """G0, C1 to C3: the gate, both theorems, the bound of appendix C."""
    row = one(ledger.table("01_teacher"), agent="search")
    said = Claim(
        "G0",
        "the search beats its anchor (gate)",
        "not in the paper",
        "% SoS",
        Effect(PAR),
        "01_teacher",
        "> 14.3",
        OURS,
    )
    ledger.add(said, games(row, "sos"))
    table = ledger.table("02_theorem1")
    found = Found(*exact(table["max_error"].max()), f"{table['turns'].sum()} power-turns")
    said = Claim(
        "C1",
        "the product of unit targets is the joint target",
        "theorem 1",
        "largest error",
        Region(0, ROUNDED, 0.0),
        "02_theorem1",
        "0",
    )
    ledger.add(said, found)
    _theorem2(ledger)
    row = one(ledger.table("02_bounds"), decomposition="bound, best completion")
    said = Claim(
        "C3a",
        "the lower bound of the unit values is tight",
        "appendix C",
        "nats per power-turn",
        Region(0, 1e-6, 0.0),
        "02_bounds",
        "0",
    )
    ledger.add(said, of_turns(row, "kl", float("nan")))
    row = one(ledger.table("10_arms"), arm="bound_sample")
    said = NATS(
        "C3b",
        "trained on exact unit values it ends nearer to the target than on the bound",
        "appendix C",
        judge=Effect(),
        of=OURS,
    )
    ledger.add(said, of_turns(row, "difference"))
    rows = every(ledger.table("10_contrasts"), opponents="anchor")
    row = one(rows, contrast="bound_sample − exact_kl")
    said = Claim(
        "C3c",
        "trained on exact unit values it plays better than on the bound",
        "appendix C",
        "points of SoS",
        Effect(),
        "10_contrasts",
        of=OURS,
    )
    ledger.add(said, turned(games(row)))


def _theorem2(ledger: Ledger) -> None:
    """Games of the suite, at every λ, whose average policies miss the bound."""
    table = ledger.table("02_theorem2").groupby("rule", sort=False)[["within", "games"]].sum()
    for key, rule, text in (
        ("C2a", "normalised", "two players end within λδ of an equilibrium"),
        ("C2b", "literal", "so they do with Eq. 1 as printed"),
    ):
        row = table.loc[rule]
        found = Found(*exact(row["games"] - row["within"]), f"{row['games']:.0f} games")
        said = Claim(
            key,
            text,
            "theorem 2",
            "games outside the bound",
            Region(0, 0.5, 0.0),
            "02_theorem2",
            "0",
        )
        ledger.add(said, found)
    table = ledger.table("02_families")
    rows = every(table[table["lam"] < 0.05], family="random", rule="literal")
    share = 1 - rows["within"].sum() / rows["games"].sum()
    said = Claim(
        "C2c",
        "Eq. 1 as printed misses it in random games with λ up to 0.01",
        "specification",
        "share of games",
        Region(0.9, 1.0),
        "02_families",
        "≥ 0.9",
        OURS,
    )
    ledger.add(said, Found(*exact(share), f"{rows['games'].sum()} games"))


def tuning(ledger: Ledger) -> None:
    """C5: what fine-tuning does to the policy."""
    table = ledger.table("03_kl").set_index("policy")
    unit, half = "nats per power-turn", table.loc["before", "kl"] / 2
    said = Claim(
        "C5a",
        "tuning halves the divergence from the target",
        "Fig. 7",
        unit,
        Effect(half, -1),
        "03_kl",
        "closer",
        note="our pass line: half of the mean before",
    )
    ledger.add(said, of_turns(table.loc["after"], "kl"))
    said = Claim(
        "C5b",
        "the tuned model is nearer to the target than its anchor",
        "Fig. 7",
        unit,
        Effect(table.loc["anchor", "kl"], -1),
        "03_kl",
        of=OURS,
    )
    ledger.add(said, of_turns(table.loc["after"], "kl"))
    own, other = (interval(table.loc[name], "kl") for name in ("after", table.index[-1]))
    said = Claim(
        "C5c",
        "the model reads the board: it is worse behind the board of another turn",
        "specification, risk 7",
        unit,
        Effect(),
        "03_kl",
        of=OURS,
        note="not paired by power-turn, so the interval is wide",
    )
    n = f"{int(table.loc['after', 'turns'])} power-turns"
    ledger.add(said, Found(*minus(other, own), n, 1))
    _opening(ledger)


def _opening(ledger: Ledger) -> None:
    """Germany's first orders. The paper's bars fall from 0.61 to 0.07 in total variation."""
    row = ledger.table("03_distance").iloc[0]
    unit = "total variation"
    said = Claim(
        "C5d",
        "Germany's opening moves toward the target",
        "Fig. 7",
        unit,
        Effect(stated=0.54),
        "03_distance",
        "0.54",
        note="ours is over whole joint orders, the paper's over three bars",
    )
    ledger.add(said, Found(*interval(row, "fell"), "drawn openings", 1))
    after = row["before"] - row["fell"], row["before"] - row["fell_high"]
    found = Found(*after, row["before"] - row["fell_low"], "drawn openings", 1)
    said = Claim(
        "C5e",
        "the tuned opening is nearer to the target than the anchor's",
        "Fig. 7",
        unit,
        Effect(row["anchor"], -1, 0.07),
        "03_distance",
        "0.07",
        note="that the anchor is the yardstick is our choice",
    )
    ledger.add(said, found)


def objectives(ledger: Ledger) -> None:
    """C6, C12, C13: other objectives, other starts, preference learning."""
    arms = ledger.table("10_arms")
    listed = (
        ("C6a", "imitate tau", "Q-weights end nearer to the target than imitation", "Eq. 6",
         Effect(), {"stated": "better"}),
        ("C6b", "imitate pi*", "Q-weights end nearer than imitation of draws of the target",
         "Eq. 6",
         Effect(), {"of": OURS, "note": "equal in expectation; the draws are noisier"}),
        ("C6c", "Eq. 6, uniform, raw", "Eq. 6 with raw weights ends as near as its exact form",
         "Eq. 6",
         Region(last=0.0), {"of": OURS}),
        ("C6d", "Eq. 6, pi*, raw", "Eq. 6 as printed ends as near to the target as its exact form",
         "Eq. 6",
         Region(last=0.0), {"stated": "equal"}),
        ("C12a", "random weights", "from random weights it ends further from the target",
         "not in the paper",
         Effect(), {"of": OURS}),
    )  # fmt: skip
    for key, arm, text, where, judge, more in listed:
        ledger.add(
            NATS(key, text, where, judge=judge, **more), of_turns(one(arms, arm=arm), "difference")
        )
    heldout = ledger.table("03_kl")["turns"].iloc[0]
    for part, row in zip("bc", ledger.table("03_models").iloc[1:].itertuples(), strict=False):
        found = Found(
            row.difference, row.difference_low, row.difference_high, f"{heldout:.0f} power-turns", 1
        )
        said = Claim(
            f"C12{part}",
            f"{row.model} ends further away than the main model",
            "not in the paper",
            "nats per power-turn",
            Effect(),
            "03_models",
            of=OURS,
        )
        ledger.add(said, found)


PLAYED = (  # key, contrast of 10_contrasts, text, where, judge, stated, who says it
    ("C6e", "imitate tau − exact_kl", "Q-weights play better than imitation", "Eq. 6",
     Effect(side=-1), "better", grades.TEXT),
    ("C6f", "Eq. 6, pi*, raw − exact_kl", "Eq. 6 as printed plays no worse than its exact form",
     "Eq. 6", Region(first=0.0), "equal", grades.TEXT),
    ("C13a", "DPO − exact_kl", "DPO plays worse", "Table 7", Effect(side=-1, stated=-28.1),
     "-28.1", grades.TEXT),
    ("C13b", "PPO − exact_kl", "PPO, with fewer steps, plays worse", "Table 7",
     Effect(side=-1, stated=-5.9),
     "-5.9", grades.TEXT),
    ("C12d", "random weights − exact_kl", "random weights play worse", "not in the paper",
     Effect(side=-1), "–", grades.OURS),
)  # fmt: skip


def played(ledger: Ledger) -> None:
    """Paired differences of arms against six anchors."""
    rows = every(ledger.table("10_contrasts"), opponents="anchor")
    for key, contrast, text, where, judge, stated, who in PLAYED:
        said = Claim(key, text, where, "points of SoS", judge, "10_contrasts", stated, who)
        ledger.add(said, games(one(rows, contrast=contrast)))
    table = every(ledger.table("10_table7"), column="sos").set_index("row")
    found = minus(interval(table.loc["PPO"], "ours"), interval(table.loc["DPO"], "ours"))
    said = Claim(
        "C13c",
        "PPO plays better than DPO",
        "Table 7",
        "points of SoS",
        Effect(stated=22.2),
        "10_table7",
        "22.2",
        note="not paired",
    )
    ledger.add(said, Found(*found, f"{table.loc['PPO', 'games']} games", 1))

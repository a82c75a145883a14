"""Claims of study 3 that nothing here can test, each once, with the reason.

The text prints percentages without data, measure or source; none of them is in the paper that has
its name. They stand here, in the column `stated`, and nowhere else: they are no targets, axis marks
or results. A quantity of our own, where there is one, is another row (K10a, K13). Those of Ye et
al. 2025 are real and about Werewolf, which is not played here. One claim is arithmetic.
"""

from dipllm_lib.run import claim_rows
from dipllm_lib.run.claim_rows import Ledger, exact
from dipllm_lib.run.grades import Claim, Found, Load, Region

NO_DATA = "printed without data or measure"
NO_PEOPLE = "no people play or judge here"
NO_ENGINE = "no inference engine, GPU or cluster is used here"
WEREWOLF = "Werewolf with models of 14B and 72B, neither of which is run here"
HERE, YE = "the text", "Ye et al. 2025"

LISTED = (  # key, text, where, stated, reason
    ("T1", "gains of the framework", HERE, "37 to 52 %", NO_DATA),
    ("T2", "two further gains", HERE, "29 and 15 %", NO_DATA),
    ("T3", "people prefer it", HERE, "82 against 53 %", NO_PEOPLE),
    ("T4", "a share of three quarters", HERE, "75 %", NO_DATA),
    ("T5", "a smaller share", HERE, "18 %", NO_DATA),
    ("T6", "use of the GPUs", HERE, "92 %", NO_ENGINE),
    ("T7", "speed-up", HERE, "6.8 times", NO_ENGINE),
    ("T8", "consistency over more than 20 rounds", HERE, "91 %",
     "its measure is not defined; ours, another one, is K11"),
    ("T9", "tokens per second", HERE, "47", NO_ENGINE),
    ("T10", "it carries over to other negotiating cultures", HERE, "–", "no data on cultures"),
    ("T11", "models of 13B, 7B and 1.5B share the roles", HERE, "–",
     "three sizes cannot share one base; one base with three adapters is run"),
    ("Y1", "win rate of the best model over all opponents", YE, ".610", WEREWOLF),
    ("Y2", "relative gain over GPT-4o", YE, "23.0 %", WEREWOLF),
    ("Y3", "relative gain over RL with an LLM", YE, "10.9 %", WEREWOLF),
    ("Y4", "wins of games with people, 20 games", YE, "60 %", NO_PEOPLE),
    ("Y5", "recognised as a machine", YE, "48.9 %", NO_PEOPLE),
    ("Y6", "votes against werewolves get better", YE, "66.3 to 72.7 %", WEREWOLF),
)  # fmt: skip


def rows(load: Load) -> list[dict]:
    """The listed claims, and one that arithmetic decides. `load` is not needed."""
    ledger = Ledger("3", load)
    for key, text, where, stated, reason in LISTED:
        ledger.add(*claim_rows.untested(Claim(key, text, where, "–", None, "–", stated), reason))
    said = Claim(
        "T12",
        "a model of 70B is trained within 128 GB",
        HERE,
        "GB of the weights alone",
        Region(last=128.0, number=128.0),
        "arithmetic",
        "128 GB",
        note="bfloat16, without gradients or optimiser",
    )
    ledger.add(said, Found(*exact(70 * 2), "70e9 weights of 2 bytes"))
    return ledger.rows

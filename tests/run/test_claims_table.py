"""The results table of the README: golden text, and the block against the reference run."""

from pathlib import Path

import pandas as pd
import pytest

from dipllm_lib.run import claims_table, places, tables

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = pd.DataFrame({
    "claim": ["C1", "C4a", "N1", "T12"],
    "text": ["equal", "a|b", "others", "fits"],
    "where": ["theorem 1", "Fig. 4", "Table 5", "the text"],
    "stated": ["0", "29.4", "60.7", "128 GB"],
    "mean": [2.2e-16, 0.275839, float("nan"), 140.0],
    "low": [2.2e-16, 0.162938, float("nan"), 140.0],
    "high": [2.2e-16, 0.401168, float("nan"), 140.0],
    "unit": ["error", "% SoS", "–", "GB"],
    "table": ["02_theorem1", "11_population", "–", "arithmetic"],
    "verdict": ["reproduced", "contradicted", "not testable here", "contradicted"],
    "readme": [True, True, False, True],
})  # fmt: skip
GOLDEN = r"""| claim | where | notebook | file | stated | measured | interval | verdict |
| --- | --- | --- | --- | --- | --- | --- | --- |
| C1 equal | theorem 1 | 02 | `02_theorem1` | 0 | 0 error | – | reproduced |
| C4a a\|b | Fig. 4 | 11 | `11_population` | 29.4 | 0.276 % SoS | 0.163 to 0.401 | contradicted |
| T12 fits | the text | – | arithmetic | 128 GB | 140 GB | – | contradicted |
"""


def test_golden():
    assert claims_table.results_table(CLAIMS) == GOLDEN


def test_a_claim_without_a_number_has_dashes():
    table = claims_table.results_table(CLAIMS.assign(readme=[False, False, True, False]))
    assert table.splitlines()[2] == (
        "| N1 others | Table 5 | – | – | 60.7 | – | – | not testable here |"
    )
    with pytest.raises(ValueError, match="no claim is flagged"):
        claims_table.results_table(CLAIMS.assign(readme=False))


def test_the_block_is_replaced_and_the_rest_is_left():
    before = f"# Title\n\n{claims_table.BEGIN}\nold\n{claims_table.END}\n\nafter\n"
    after = claims_table.replaced(before, CLAIMS)
    inner = f"{claims_table.BEGIN}\n\n{GOLDEN}\n{claims_table.END}"
    assert after == f"# Title\n\n{inner}\n\nafter\n"
    assert claims_table.replaced(after, CLAIMS) == after


@pytest.mark.parametrize("readme", ["", "{0}", "{1}{0}", "{0}{0}{1}"])
def test_without_its_two_lines_it_says_what_is_missing(readme):
    with pytest.raises(ValueError, match="README.md needs one line"):
        claims_table.replaced(readme.format(claims_table.BEGIN, claims_table.END), CLAIMS)


def test_the_readme_has_the_results_of_the_reference_run():
    path = places.reference() / "13_claims.csv"
    if not path.is_file():
        pytest.skip("there is no reference run yet")
    claims = tables.from_csv(path.read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert claims_table.replaced(readme, claims) == readme

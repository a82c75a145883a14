"""Choices from a csv with one clear line per fault, there and back, and what is simulated."""

import numpy as np
import pytest

from dipllm_lib.kto import choices, prospect
from dipllm_lib.kto.prospect import ARTICLE, TK92
from dipllm_lib.run import seeding

HEADER = "a1,pa,a2,b1,pb,b2,choice\n"
GOOD = HEADER + "40,0.5,0,15,1,0,b\n-20,.1,5,-3,1,0,a\n"


def test_a_file_by_hand(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(GOOD, encoding="utf-8")
    found = choices.read(path)
    np.testing.assert_array_equal(found.a, [[40, 0.5, 0], [-20, 0.1, 5]])
    np.testing.assert_array_equal(found.b, [[15, 1, 0], [-3, 1, 0]])
    assert found.chose_a.tolist() == [False, True] and len(found) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.csv, line 1: need the header a1,pa,a2,b1,pb,b2,choice, found nothing"),
        ("a1,pa\n", "mine.csv, line 1: need the header a1,pa,a2,b1,pb,b2,choice, found a1,pa"),
        (HEADER, "mine.csv: has a header but no choice"),
        (HEADER + "1,2,3\n", "mine.csv, line 2: need 7 cells, found 3"),
        (GOOD + "\n", "mine.csv, line 4: need 7 cells, found 0"),
        (GOOD + "x,.5,0,1,1,0,a\n", "mine.csv, line 4, a1: need a finite number, found 'x'"),
        (GOOD + "1,.5,,1,1,0,a\n", "mine.csv, line 4, a2: need a finite number, found ''"),
        (GOOD + "1,.5,nan,1,1,0,a\n", "mine.csv, line 4, a2: need a finite number, found 'nan'"),
        (GOOD + "1,1.5,0,1,1,0,a\n", "line 4, pa: need a probability in [0, 1], found 1.5"),
        (GOOD + "1,.5,0,1,-1,0,a\n", "line 4, pb: need a probability in [0, 1], found -1"),
        (GOOD + "1,.5,0,1,1,0,A\n", "mine.csv, line 4, choice: need a or b, found 'A'"),
    ],
)
def test_faults_of_a_file(text, message):
    with pytest.raises(ValueError) as caught:
        choices.parse(text, "mine.csv")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_there_and_back():
    own = choices.simulate(60, TK92, 0.3, seeding.child(0, "test", "choices"))
    back = choices.parse(choices.to_csv(own), "x")
    for name in ("a", "b", "chose_a"):
        np.testing.assert_array_equal(getattr(back, name), getattr(own, name))


def test_values_are_those_of_prospect_one_by_one():
    rows = np.array([[40, 0.3, 10], [10, 0.3, 40], [-5, 0.8, -50], [30, 0.4, -20], [0, 1, 7]])
    found = choices.values(rows, ARTICLE)
    by_one = [prospect.prospect(r[[0, 2]], [r[1], 1 - r[1]], ARTICLE) for r in rows]
    np.testing.assert_allclose(found, by_one, rtol=1e-12, atol=1e-12)


def test_problems_are_a_third_each():
    a, b = choices.problems(300, seeding.child(0, "test", "problems"))
    first, second = a[:, 0], a[:, 2]
    assert (first[0::3] > 0).all() and (second[0::3] >= 0).all() and (b[0::3, 0] >= 0).all()
    assert (first[1::3] < 0).all() and (second[1::3] <= 0).all() and (b[1::3, 0] <= 0).all()
    assert (first[2::3] > 0).all() and (second[2::3] < 0).all() and (b[2::3, 0] == 0).all()
    assert (np.abs(a[:, [0, 2]]) == np.round(np.abs(a[:, [0, 2]]))).all()
    assert (b[:, 1] == 1).all() and not np.signbit(b[b == 0]).any()
    with pytest.raises(ValueError, match="n 2: need at least 3 problems"):
        choices.problems(2, seeding.child(0, "test", "problems"))


def test_a_large_slope_takes_the_better_one_and_a_small_one_guesses():
    rng = seeding.child(0, "test", "slopes")
    sharp = choices.simulate(600, TK92, 1e6, rng)
    better = choices.values(sharp.a, TK92) > choices.values(sharp.b, TK92)
    np.testing.assert_array_equal(sharp.chose_a, better)
    assert choices.simulate(6000, TK92, 1e-6, rng).chose_a.mean() == pytest.approx(0.5, abs=0.03)
    with pytest.raises(ValueError, match="slope 0: need a finite number above 0"):
        choices.simulate(6, TK92, 0, rng)

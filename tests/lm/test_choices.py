"""Tries of finite choices: paths by hand, and what is refused."""

import pytest

from dipllm_lib.lm.choices import Tries, path, trie


def test_path_by_hand(table):
    """Slot 1: 1 2 | 1 3 5 | 4; slot 2: 7 8. Decisions only where two tokens are legal."""
    tries = Tries(table([(1, 2), (1, 3, 5), (4,)], [(7, 8)]))
    found = path(tries, (1, 0))
    assert found.tokens == (1, 3, 5, 7, 8)
    assert found.decisions == ((0, (1, 4), 0), (1, (2, 3), 1))
    assert path(tries, (2, 0)).decisions == ((0, (1, 4), 1),)
    assert path(Tries(table([(7, 8)])), (0,)).decisions == ()
    assert path(Tries(table()), ()).tokens == ()


def test_prefixes_are_refused():
    for options in ([(1, 2), (1,)], [(1,), (1, 2)], [(1, 2), (1, 2)], [()]):
        with pytest.raises(ValueError, match="prefix"):
            trie(options)


def test_incomplete_and_impossible_choices_are_refused(table):
    tries = Tries(table([(1,), (2,)], [(3,)]))
    with pytest.raises(ValueError, match="incomplete"):
        path(tries, (0,))
    with pytest.raises(ValueError, match="no option 2"):
        path(tries, (2, 0))
    with pytest.raises(ValueError, match="0 options"):
        path(tries, (0, 0, 0))

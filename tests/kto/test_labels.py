"""References, settings, weights and the three selectors, each on five hand-made steps."""

from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.kto import labels, prospect, selectors
from dipllm_lib.kto.labels import SETTINGS, label, reference_point
from dipllm_lib.kto.policies import Context
from dipllm_lib.kto.selectors import Move

OFFERS = tuple(f" {10 * k}." for k in range(11))
ANSWERS = (" accept.", " refuse.")
MOVES = (" cooperate.", " defect.")


def step(role: str, legal, action: int, payoff: float, reference: float, scale=1.0, **facts):
    context = Context((role, "A"), f"{role} I", legal)
    sample = label(context, action, payoff, reference, scale, SETTINGS["A"], ("game", role, 0, 0))
    return Move(sample, **facts)


def told(moves, selector, **options):
    return [getattr(selectors, selector)(move, **options) for move in moves]


def test_references_by_hand():
    assert reference_point("status_quo") == 0.0
    assert reference_point("status_quo", before=0.2) == 0.2
    assert reference_point("equal_split", total=1.0) == 0.5
    assert reference_point("equal_split", total=1.0, players=4) == 0.25
    assert reference_point("last_round", last=3.0) == 3.0
    assert reference_point("batna", batna=1.0) == 1.0
    assert reference_point("expected", expected=2.1) == 2.1
    with pytest.raises(ValueError, match="unknown reference 'peak'"):
        reference_point("peak")
    with pytest.raises(ValueError, match="expected needs its number"):
        reference_point("expected")


def test_the_six_settings_form_a_star_around_the_articles():
    a = SETTINGS["A"].params
    changed = {
        letter: [n for n in ("alpha", "beta", "lam") if getattr(s.params, n) != getattr(a, n)]
        for letter, s in SETTINGS.items()
    }
    assert changed == {"A": [], "B": ["lam"], "C": ["lam"], "D": ["alpha"], "E": ["beta"], "F": []}
    assert SETTINGS["E"].params == prospect.TK92 and SETTINGS["B"].params.lam == 3.2
    assert SETTINGS["A"].reference_of("equal_split") == "equal_split"
    assert SETTINGS["F"].reference_of("equal_split") == "status_quo"
    assert SETTINGS["F"].reference_of("status_quo") == "expected"


def test_a_sample_carries_its_value_by_hand():
    move = step("proposer", OFFERS, 4, 0.6, 0.5)
    sample = move.sample
    assert sample.text == " 40." and sample.desirable and sample.selector == "outcome"
    assert sample.value == pytest.approx(0.1**0.88)
    lost = step("proposer", OFFERS, 2, 0.0, 0.5).sample
    assert not lost.desirable and lost.value == pytest.approx(-2.25 * 0.5**0.92)
    even = step("proposer", OFFERS, 5, 0.5, 0.5).sample
    assert even.value == 0.0 and not even.desirable
    scaled = step("giver", (" keep.", " give."), 0, 3.0, 0.0, scale=6.0).sample
    assert scaled.value == pytest.approx(0.5**0.88)


def test_lottery_and_regret_values():
    sure = labels.lottery_value([0.6, 0.0], [1.0, 0.0], 0.5, 1.0, prospect.NEUTRAL)
    assert sure == pytest.approx(0.1)
    both = labels.lottery_value([0.6, 0.0], [0.9, 0.1], 0.5, 1.0, prospect.NEUTRAL)
    assert both == pytest.approx(0.9 * 0.1 - 0.1 * 0.5)
    assert labels.verified_value(0.0, 1.0, prospect.NEUTRAL, 0.02) == pytest.approx(0.02)
    assert labels.verified_value(0.5, 5.0, prospect.NEUTRAL, 0.02) == pytest.approx(-0.08)
    with pytest.raises(ValueError, match="cannot be negative"):
        labels.verified_value(-0.1, 1.0, prospect.NEUTRAL, 0.02)


def test_the_verifier_may_give_value_label_and_weight():
    sample = step("partner", MOVES, 1, 3.0, 2.0, 5.0).sample
    good, bad = (labels.verified(sample, r, prospect.NEUTRAL, 0.02) for r in (0.0, 0.6))
    assert good.desirable and good.value == pytest.approx(0.02)
    assert not bad.desirable and bad.value == pytest.approx(-0.1) and bad.selector == "verifier"
    sizes = labels.mean_sizes([good, bad])
    assert [s.omega for s in labels.weighted([good, bad], sizes)] == pytest.approx([1 / 3, 5 / 3])


def test_weights_come_from_the_training_split_alone():
    training = [step("proposer", OFFERS, k, u, 0.5).sample for k, u in ((4, 0.6), (2, 0.0))]
    sizes = labels.mean_sizes(training)
    mean = (0.1**0.88 + 2.25 * 0.5**0.92) / 2
    assert sizes == {("game", "A"): pytest.approx(mean)}
    other = step("proposer", OFFERS, 1, 0.9, 0.5).sample
    (weighed,) = labels.weighted([other], sizes)
    assert weighed.omega == pytest.approx(0.4**0.88 / mean)
    assert np.mean([s.omega for s in labels.weighted(training, sizes)]) == pytest.approx(1.0)
    assert labels.weighted([other], sizes, "unit")[0].omega == 1.0
    with pytest.raises(ValueError, match="no mean"):
        labels.weighted([replace(other, setting="B")], sizes)


PROPOSER = [
    step("proposer", OFFERS, 4, 0.6, 0.5, amount=0.4, agreed=True),
    step("proposer", OFFERS, 5, 0.5, 0.5, amount=0.5, agreed=True),
    step("proposer", OFFERS, 6, 0.4, 0.5, amount=0.6, agreed=True),
    step("proposer", OFFERS, 2, 0.0, 0.5, amount=0.2, agreed=False),
    step("proposer", OFFERS, 3, 0.7, 0.5, amount=0.3, agreed=True),
]


def test_selectors_of_a_proposer():
    assert told(PROPOSER, "heuristic") == [True, True, False, True, True]
    assert told(PROPOSER, "staged") == [True, False, False, False, True]
    worth = (0.28, 0.36, 0.47, 0.553, 0.575, 0.495, 0.4, 0.3, 0.2, 0.1, 0.0)
    moves = [replace(move, quality=worth) for move in PROPOSER]
    assert told(moves, "verifier") == [True, False, False, False, False]
    assert told(moves, "verifier", epsilon=0.03) == [True, False, False, False, True]
    assert selectors.regret(moves[4]) == pytest.approx(0.022)


def test_selectors_of_a_responder():
    """Envy .5 accepts from 1/4 on."""
    moves = [
        step("responder", ANSWERS, 0, 0.4, 0.5, seen=0.4, envy=0.5),
        step("responder", ANSWERS, 1, 0.0, 0.5, seen=0.4, envy=0.5),
        step("responder", ANSWERS, 0, 0.1, 0.5, seen=0.1, envy=0.5),
        step("responder", ANSWERS, 1, 0.0, 0.5, seen=0.1, envy=0.5),
        step("responder", ANSWERS, 1, 0.0, 0.5, seen=0.5, envy=0.5),
    ]
    assert told(moves, "heuristic") == [True, True, True, True, False]
    assert told(moves, "staged") == [True, False, False, True, False]
    assert told(moves, "verifier") == [True, False, False, True, False]


def test_selectors_of_a_giver():
    """batna 1: keeping never ends below it, giving does for gifts below one half."""
    moves = [
        step("giver", (" keep.", " give."), 0, 1.0, 1.0, 3.0, seen=0.0, quality=(1.0, 0.0)),
        step("giver", (" keep.", " give."), 1, 0.0, 1.0, 3.0, seen=0.0, quality=(1.0, 0.0)),
        step("giver", (" keep.", " give."), 0, 2.6, 1.0, 3.0, seen=0.8, quality=(2.6, 1.6)),
        step("giver", (" keep.", " give."), 1, 1.6, 1.0, 3.0, seen=0.8, quality=(2.6, 1.6)),
        step("giver", (" keep.", " give."), 1, 0.8, 1.0, 3.0, seen=0.4, quality=(1.8, 0.8)),
    ]
    assert told(moves, "heuristic") == [None] * 5
    assert told(moves, "staged") == [False, False, True, True, False]
    assert told(moves, "verifier") == [True, False, True, False, False]
    likely = [selectors.verifier(m, likely=p) for m, p in zip(moves, (0.8, 0.2, 0.2, 0.8, 0.3))]
    assert likely == [True, False, False, True, False]
    assert selectors.apply(moves, "heuristic") == []


def test_selectors_of_a_partner_in_the_repeated_game():
    def partner(action, seen, later, quality):
        facts = {"seen": seen, "later": later, "quality": quality}
        return step("partner", MOVES, action, 3.0, 2.0, 5.0, **facts)

    moves = [
        partner(0, None, (3, 3, 3, 3, 3, 0), (9.0, 8.0)),
        partner(0, 0, (3, 3, 3, 3, 0), (9.0, 8.0)),
        partner(1, 0, (5, 1, 1, 1, 1), (9.0, 8.0)),
        partner(1, 1, (1, 1, 1, 1, 1), (8.0, 8.05)),
        partner(0, 1, (), (8.0, 8.05)),
    ]
    assert told(moves, "heuristic") == [None, True, False, True, False]
    assert told(moves, "staged") == [True, True, False, False, None]
    assert told(moves, "verifier") == [True, True, False, True, True]


def test_selectors_of_a_bargainer_and_of_orders():
    moves = [
        step("bargainer", OFFERS, 6, 0.6, 0.5, amount=0.4, agreed=True),
        step("bargainer", OFFERS, 6, 0.6, 0.5, amount=0.4, seen=0.3, agreed=True),
        step("bargainer", OFFERS, 8, 0.0, 0.5, amount=0.2, seen=0.3, agreed=False),
        step("bargainer", OFFERS, 7, 0.4, 0.5, amount=0.3, seen=0.3, agreed=True),
        step("bargainer", OFFERS, 9, 0.0, 0.5, amount=0.1, agreed=False),
    ]
    assert told(moves, "heuristic") == [True, True, False, True, True]
    assert told(moves, "staged") == [True, True, False, False, False]
    kept = tuple(0.1 * k if k <= 6 else 0.45 for k in range(11))
    exact = [replace(move, quality=kept) for move in moves]
    assert told(exact, "verifier") == [True, True, False, False, False]
    options = (" a.", " b.", " c.", " d.")
    orders = [
        step("orders", options, k, u, 0.2, quality=(0.3, 0.28, 0.1, 0.2), faults=f)
        for k, u, f in (
            (0, 0.25, ()),
            (1, 0.15, ()),
            (2, 0.25, ("void support",)),
            (3, 0.2, ()),
            (2, 0.1, ("self-bounce",)),
        )
    ]
    assert told(orders, "heuristic") == [True, True, False, True, False]
    assert told(orders, "staged") == [True, False, True, False, False]
    assert told(orders, "verifier", top=0.5) == [True, True, False, False, False]


def test_selected_samples_have_weight_one_and_no_value():
    found = selectors.apply(PROPOSER, "heuristic")
    assert [s.desirable for s in found] == [True, True, False, True, True]
    assert {s.selector for s in found} == {"heuristic"} and {s.omega for s in found} == {1.0}
    assert all(np.isnan(s.value) for s in found)
    lam_d, lam_u = labels.balance(found)["game", "proposer"]
    assert lam_d * 4 == pytest.approx(lam_u * 1) and max(lam_d, lam_u) == 1.0


def test_outcome_labels_are_never_balanced_and_never_mixed_with_selectors():
    outcomes = [move.sample for move in PROPOSER]
    assert labels.balance(outcomes) == {("game", "proposer"): (1.0, 1.0)}
    with pytest.raises(ValueError, match="labels of outcomes and of selectors"):
        labels.balance([*outcomes, *selectors.apply(PROPOSER, "heuristic")])


def test_the_trajectory_arm_copies_one_label_to_every_step():
    samples = [replace(m.sample, episode=k // 3, round=k) for k, m in enumerate(PROPOSER)]
    found = labels.trajectory(samples, {0: True, 1: False})
    assert [s.desirable for s in found] == [True, True, True, False, False]
    assert {s.selector for s in found} == {"trajectory"}
    with pytest.raises(ValueError, match=r"no verdict on episodes \[1\]"):
        labels.trajectory(samples, {0: True})


def test_what_selectors_refuse():
    with pytest.raises(ValueError, match="unknown role 'king'"):
        selectors.heuristic(step("king", OFFERS, 0, 0, 0))
    with pytest.raises(ValueError, match="needs `amount`"):
        selectors.heuristic(step("proposer", OFFERS, 0, 0, 0))
    with pytest.raises(ValueError, match="unknown selector 'vote'"):
        selectors.apply([], "vote")
    with pytest.raises(ValueError, match="a value per legal text"):
        selectors.verifier(PROPOSER[0])

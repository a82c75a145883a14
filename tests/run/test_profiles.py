"""Settings: documented, typed, and equal to the published numbers where they are published."""

import dataclasses

import pytest

from dipllm_lib.run import profiles

STUDIES = (profiles.DiplomacySettings, profiles.IPDSettings, profiles.KTOSettings)
EVERY_FIELD = [(study, f) for study in STUDIES for f in dataclasses.fields(study)]


@pytest.mark.parametrize(("study", "field"), EVERY_FIELD, ids=lambda x: getattr(x, "name", ""))
def test_a_field_has_text_unit_source_and_three_values_of_its_type(study, field):
    assert all(field.metadata[key].strip() for key in ("text", "unit", "source"))
    assert set(field.metadata["values"]) == set(profiles.NAMES)
    for value in field.metadata["values"].values():
        assert type(value) is field.type


def test_published_numbers_of_the_paper_profile():
    """Xu et al. 2025, section 5 and Tables 3 and 4; Weis et al. 2026, Algorithm 1 and Table 2."""
    s = profiles.load("paper", 0)
    table3 = (s.dip.search_iterations, s.dip.search_candidates, s.dip.search_ratio, s.dip.explore)
    assert table3 == (256, 50, 6.0, 0.1)
    table4 = (s.dip.lora_rank, s.dip.lora_alpha, s.dip.lora_dropout, s.dip.finetune_lr)
    assert table4 == (16, 32, 0.05, 2e-4)
    training = (s.dip.finetune_batch, s.dip.finetune_epochs, s.dip.finetune_max_length)
    assert training == (4, 5, 2048)
    assert s.dip.data_games == 500
    ppi = (s.ipd.rounds, s.ipd.hidden, s.ipd.phases, s.ipd.trajectories, s.ipd.first_trajectories)
    assert ppi == (100, 128, 30, 20_000, 200_000)
    assert (s.ipd.seeds, s.ipd.lr, s.ipd.a2c_batch, s.ipd.a2c_iterations) == (
        10,
        1e-4,
        4096,
        200_000,
    )
    assert (s.kto.lora_rank, s.kto.contexts, s.kto.ipd_rounds) == (16, 128, 100)


@pytest.mark.parametrize(
    ("profile", "seed", "error", "words"),
    [
        ("quick", 0, ValueError, "unknown profile 'quick': use one of smoke, cpu, paper"),
        (3, 0, TypeError, "profile must be a str, got int 3"),
        ("smoke", "3", TypeError, "seed must be an int, got str '3'"),
        ("smoke", True, TypeError, "seed must be an int, got bool True"),
        ("smoke", 1.0, TypeError, "seed must be an int, got float 1.0"),
        ("smoke", -1, ValueError, "seed must not be negative, got -1"),
    ],
)
def test_bad_input_gets_one_line(profile, seed, error, words):
    with pytest.raises(error) as caught:
        profiles.load(profile, seed)
    assert str(caught.value) == words


def test_a_student_changes_one_number_and_nothing_else():
    old = profiles.load("smoke", 0).dip
    new = dataclasses.replace(old, search_lam=0.1)
    assert (old.search_lam, new.search_lam) == (0.01, 0.1)
    assert old.hash() != new.hash() == dataclasses.replace(old, search_lam=0.1).hash()
    with pytest.raises(TypeError):
        dataclasses.replace(old, search_lambda=0.1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        old.search_lam = 0.1


def test_tables():
    table = profiles.load("cpu", 0).dip.table("search_lam", "search_eta0")
    assert list(table["setting"]) == ["search_lam", "search_eta0"]
    assert list(table["value"]) == [0.01, 10.0]
    sizes = profiles.sizes()
    row = sizes[sizes["setting"] == "search_iterations"].iloc[0]
    assert (row["study"], row["smoke"], row["cpu"], row["paper"]) == ("dip", "12", "96", "256")
    assert not (sizes["smoke"].eq(sizes["cpu"]) & sizes["cpu"].eq(sizes["paper"])).any()


def test_games_of_an_evaluation_can_rotate_all_seats():
    for name in profiles.NAMES:
        settings = profiles.load(name, 0).dip
        assert settings.gate_games % 7 == 0 and settings.eval_games % 7 == 0

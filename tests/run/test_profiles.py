"""Types, names, and the published numbers behind the profile `paper`."""

import dataclasses

import pytest

from dipllm_lib.run import profiles

# Xu et al. 2025, Tables 3 and 4 and section 5
PUBLISHED = {
    "search_iterations": 256,
    "search_candidates": 50,
    "explore": 0.1,
    "data_games": 500,
    "lora_rank": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.05,
    "finetune_epochs": 5,
    "finetune_batch": 4,
    "finetune_lr": 2e-4,
}


def test_paper_has_the_published_numbers():
    settings = profiles.load("paper", 0).dip
    assert {name: getattr(settings, name) for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("name", profiles.NAMES)
def test_every_field_is_documented(name):
    profile = profiles.load(name, 0)
    for study in (profile.dip, profile.ipd, profile.kto):
        table = study.table()
        assert (table[["unit", "text", "source"]] != "").all(axis=None)
        assert len(table) == len(dataclasses.fields(study))


def test_table_of_a_group():
    names = profiles.load("smoke", 0).dip.table("value_", "dtype")["setting"].tolist()
    assert names[0] == "value_hidden" and names[-1] == "dtype"
    assert all(name.startswith(("value_", "dtype")) for name in names)


def test_hash_follows_the_values():
    settings = profiles.load("smoke", 0).dip
    assert settings.hash() == profiles.load("smoke", 1).dip.hash()
    assert settings.hash() != dataclasses.replace(settings, explore=0.2).hash()
    assert settings.hash() != profiles.load("cpu", 0).dip.hash()
    with pytest.raises(TypeError, match="exploration"):
        dataclasses.replace(settings, exploration=0.2)


@pytest.mark.parametrize(
    ("profile", "seed", "error", "message"),
    [
        (1, 0, TypeError, "profile must be a str, got int 1"),
        ("smoke", True, TypeError, "seed must be an int, got bool True"),
        ("smoke", "three", TypeError, "seed must be an int, got str 'three'"),
        ("smoke", 1.0, TypeError, "seed must be an int, got float 1.0"),
        ("fast", 0, ValueError, "unknown profile 'fast': use one of smoke, cpu, paper"),
        ("smoke", -1, ValueError, "seed must not be negative"),
    ],
)
def test_bad_arguments(profile, seed, error, message):
    with pytest.raises(error, match=message):
        profiles.load(profile, seed)

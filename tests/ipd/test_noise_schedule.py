"""Decision noise that falls over the phases: the line by hand, and what plays."""

from dataclasses import replace

import pytest

from dipllm_lib.ipd import ppi, ppi_settings
from dipllm_lib.ipd.model_settings import ModelSettings

SETTINGS = replace(ppi_settings.SMOKE, model=ModelSettings(hidden=8, rounds=20), first_steps=2)


def test_the_line_by_hand():
    settings = replace(SETTINGS, phases=5, noise=1.2, last_noise=0.4)
    found = [settings.noise_at(phase) for phase in range(7)]
    assert found == pytest.approx([1.2, 1.2, 1.0, 0.8, 0.6, 0.4, 0.4])
    assert {SETTINGS.noise_at(phase) for phase in range(4)} == {1.2}
    assert replace(settings, phases=1).noise_at(1) == 1.2


def test_the_actor_of_a_phase_has_the_noise_of_the_phase():
    run = ppi.PPI(replace(SETTINGS, last_noise=0.0), ppi.pairs([0]))
    noises = [run.actor(phase, scale).settings.noise for phase in (1, 2, 3) for scale in (1.0, 0.5)]
    assert noises == pytest.approx([1.2, 0.6, 0.6, 0.3, 0.0, 0.0])
    with pytest.raises(ValueError, match="noise >= 0"):
        replace(SETTINGS, last_noise=-0.1)

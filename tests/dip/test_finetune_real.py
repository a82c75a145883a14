"""The real pre-trained model under kill -9: the same last checkpoint, to the byte."""

import os
import signal
import subprocess
import sys
import time

import pytest

from dipllm_lib.lm import steps

TRAIN = """
import pathlib, runpy, sys
from dataclasses import replace
import torch
from dipllm_lib.dip import finetune
from dipllm_lib.lm import adapters
from dipllm_lib.run import profiles
torch.set_num_threads(1)
rows = runpy.run_path(sys.argv[1])["make_rows"](games=1, candidates=2)
settings = replace(
    profiles.load("cpu", 0).dip, lora_rank=4, finetune_joint_orders=2, finetune_epochs=2,
    finetune_evaluations=1,
)
model = finetune.backbone(settings, 0)
adapters.attach(model, "dipllm", 4, 8, settings.lora_dropout, 0)
samples = finetune.build(rows, model, settings)
train, heldout = samples[3:], samples[:3]
finetune.train(model, "dipllm", train, heldout, settings, 0, pathlib.Path(sys.argv[2]), every=1)
"""


@pytest.mark.slow
def test_smollm2_killed_in_the_middle_gives_the_same_checkpoint(tmp_path):
    """SmolLM2 in bfloat16 with LoRA and dropout, one position a step, as in the profile `cpu`."""
    whole, broken = tmp_path / "whole.safetensors", tmp_path / "broken.safetensors"
    other = os.path.join(os.path.dirname(__file__), "test_finetune.py")
    command = [sys.executable, "-c", TRAIN, other]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([*command, str(whole)], check=True, timeout=600, env=environment)
    process = subprocess.Popen([*command, str(broken)], env=environment)
    while not broken.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    steps_done = steps.read_record(broken)["history"][-1]["step"]
    last = steps.read_record(whole)["history"][-1]["step"]
    assert 0 < steps_done < last
    subprocess.run([*command, str(broken)], check=True, timeout=600, env=environment)
    assert broken.read_bytes() == whole.read_bytes()

"""What fine-tuning costs: one packed row per position beside one sample per unit.

The peer is the published form of the data: a prompt with its own board for each unit's order. A
unit sample is one order of one kept joint order behind the board, the power and the orders given
before it; equal ones are merged and their weights added, which favours the peer. Its summed
gradient is that of the packed loss, so both do the same work; both use the same text, model and
precision, and passes of the same padded tokens. Rates are unit samples per second of CPU time, best
of the passes, of gradients alone: one optimiser step per batch costs both the same. The peer is
timed on an even sample of its unit samples.

The positions are real: mid-game phases of games of the anchor. Their targets are the anchor's
probabilities of the candidates: the cost does not depend on what the weights are.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from dipllm_lib.dip import anchor as neural
from dipllm_lib.dip import atlas, boards, candidates, finetune, game, orders, states, text
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.samples import Sample, row_turn
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.lm import adapters
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Path
from dipllm_lib.run import seeding
from dipllm_lib.run.timing import seconds

YEAR = 1904  # positions are of this year's fall


def mid_game_rows(settings, seed: int, count: int) -> list[dict]:
    """Rows as in 02_samples.jsonl of `count` fall positions of YEAR, all powers with something to
    decide there; the target is the anchor's.
    """
    anchor, end = neural.human(), game.EndRules(YEAR)
    names = [("train_cost", number) for number in range(count)]
    played = game.play([[anchor] * atlas.N_POWERS] * count, seed, names, end)
    rows = []
    for number, one in enumerate(played):
        fall = (one.boards.phase == boards.FALL_MOVES) & (one.boards.year == YEAR)
        position = one.boards.take(np.flatnonzero(fall)[:1])
        turns = orders.turns(position)
        rng = seeding.child(seed, "train_cost", "candidates", number)
        found = candidates.choose(turns, anchor, SearchSettings.of(settings), [rng] * len(turns))
        state = states.to_state(position)
        for turn, (joints, log_tau) in zip(turns, found, strict=True):
            row = {"game": f"cost-{number}", "phase": turn.phase, "state": state}
            row |= {"power": atlas.POWERS[turn.power], "target": np.exp(log_tau).tolist()}
            rows.append(row | {"joints": [list(map(orders.to_text, joint)) for joint in joints]})
    return rows


def unit_samples(
    rows: Sequence[dict], samples: Sequence[Sample], backbone: Backbone
) -> list[Sample]:
    """One sample per distinct (orders given before, order) of the kept joint orders, behind a
    prompt of its own; its weight is the sum over the joint orders that begin so.
    """
    result = []
    for row, sample in zip(rows, samples, strict=True):
        turn = row_turn(row)
        choice, found = text.OrderChoice(turn, backbone.encode), {}
        for k, weight in zip(sample.kept, sample.weights, strict=True):
            chosen = choice.sequence(orders.parse_joint(turn, row["joints"][k]))
            start = 0
            for d, index in enumerate(chosen):
                stop = start + len(choice.options(chosen[:d])[index])
                span, before = found.get(chosen[: d + 1], ((k, start, stop), 0.0))
                found[chosen[: d + 1]] = span, before + weight
                start = stop
        result += [_unit(sample, *span, weight) for span, weight in found.values()]
    return result


def _unit(sample: Sample, k: int, start: int, stop: int, weight: float) -> Sample:
    """Tokens start to stop of path k, with what stands before them as the prompt."""
    tokens, decisions = sample.paths[k].tokens, sample.paths[k].decisions
    own = tuple((t - start, legal, rank) for t, legal, rank in decisions if start <= t < stop)
    path = Path(tokens[start:stop], own)
    prompt = (*sample.prompt, *tokens[:start])
    one, weights = np.ones(1), np.array([weight])
    return replace(
        sample, prompt=prompt, paths=(path,), target=one, kept=(0,), weights=weights,
        log_tau=None, f=None,
    )  # fmt: skip


def gradient(
    backbone: Backbone, samples: Sequence[Sample], settings: FinetuneSettings
) -> torch.Tensor:
    """Gradient of the summed loss by the trainable weights, flat, in the passes of a training."""
    weights = [p for _, p in adapters.trainable(backbone)]
    for parameter in weights:
        parameter.grad = None
    for part in finetune.passes(samples, settings)[0]:
        finetune.loss(backbone, part, settings.softmax, settings.pack).backward()
    return torch.cat([p.grad.flatten() for p in weights])


def cost(
    backbone: Backbone,
    rows: Sequence[dict],
    settings,
    passes: int = 2,
    sample: int = 64,
    note: Callable[[str], None] = lambda line: None,
) -> list[dict]:
    """Rows {name, ours, peer, unit, ratio}: unit samples per CPU second with one row per position
    and with one row per power-turn, each beside one sample per unit; ratio > 1: ours is faster.

    backbone: with the adapter that is trained; rows: as in 02_samples.jsonl, whole positions;
    sample: unit samples that the peer is timed on; note: told one line on what was measured.
    """
    wanted = FinetuneSettings.of(settings)
    samples = finetune.build(rows, backbone, wanted)
    units = unit_samples(rows, samples, backbone)
    some = [units[i] for i in np.linspace(0, len(units) - 1, min(sample, len(units))).astype(int)]
    single = replace(wanted, pack="turn")
    packs = {pack: replace(wanted, pack=pack) for pack in ("position", "turn")}
    read = {pack: finetune.passes(samples, packs[pack])[1] for pack in packs}
    alone = finetune.passes(units, single)[1]
    note(
        f"{backbone.name}, {backbone.source.get('dtype')}: {len(samples)} power-turns,"
        f" {len(units)} unit samples; tokens {read['position']} by position,"
        f" {read['turn']} by power-turn, {alone} one by one"
    )
    peer = len(some) / seconds(lambda: gradient(backbone, some, single), passes)
    result = []
    for pack, own in packs.items():
        ours = len(units) / seconds(lambda own=own: gradient(backbone, samples, own), passes)
        name = f"training, a row per {'power-turn' if pack == 'turn' else pack}"
        result.append({
            "name": name,
            "ours": ours,
            "peer": peer,
            "unit": "unit samples/s",
            "ratio": ours / peer,
        })
    return result

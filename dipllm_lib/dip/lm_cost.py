"""What decisions of a language model cost: ours beside one `paper` prompt per unit with `generate`.

Positions are from the middle of games that the `human` anchor plays against itself. Ours reads the
board once for all powers and says legal orders (`agent`). The peer is what the paper describes: for
every unit a prompt of its own (`paper_text`: whole board in names, orders given, all legal orders
as candidates), read and answered by `generate` of the transformers library, at the same
temperature, on the same weights. It says exactly as many tokens as the unit's order has, and is not
asked again if the text is illegal: a lower bound of its cost.

Orders per second are of CPU time, which a busy machine disturbs least; torch must have one thread.
Latency is wall time of one decision, from the turn to the joint order, alone or in a batch of
games, with the threads that torch has; the load average is told beside it.
"""

import os
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from dipllm_lib.dip import anchor, boards, game, orders, paper_text, text
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.dip.orders import Turn
from dipllm_lib.dip.targets import PHASES
from dipllm_lib.lm.backbones import DTYPES, Backbone
from dipllm_lib.run import seeding

YEARS = (1902, 1904)  # positions are of these years
LIMIT = 800.0  # ms of a decision, wanted for 95 of 100
TEMPERATURE, TOP_P = 0.1, 0.95  # of the released code of Xu et al. 2025

Note = Callable[[str], None]


def positions(games: int, seed: int = 0) -> dict[str, list[list[Turn]]]:
    """Turns of the positions of the YEARS by kind of phase (movement, retreats, adjustments)."""
    player, names = anchor.human(), [("lm cost", number) for number in range(games)]
    played = game.play([[player] * 7] * games, seed, names, game.EndRules(YEARS[1]))
    found: dict[str, list[list[Turn]]] = {kind: [] for kind in PHASES.values()}
    for one in played:
        for k in range(one.boards.n - 1):
            if YEARS[0] <= int(one.boards.year[k]) <= YEARS[1]:
                turns = orders.turns(one.boards, k)
                found[PHASES[boards.phase_name(one.boards, k)[-1]]].append(turns)
    return found


def generators(n: int, *names: str | int) -> list[np.random.Generator]:
    """n generators, the same in every run."""
    return [seeding.child(0, "lm cost", *names, k) for k in range(n)]


def compact_seconds(agent: LMAgent, turns: Sequence[Turn]) -> float:
    """CPU seconds in which all `turns` are decided together."""
    start = time.process_time()
    agent.act(turns, generators(len(turns), "together"))
    return time.process_time() - start


def paper_prompts(backbone: Backbone, turn: Turn, joint: orders.Joint) -> list[tuple[list, int]]:
    """For each unit (token ids of its prompt, tokens of its answer with the end of the turn)."""
    tokenizer, found = backbone.tokenizer.inner, []
    for slot, order in enumerate(joint):
        chat = paper_text.prompt(turn, joint[:slot]).chat()
        written = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(written, add_special_tokens=False)["input_ids"]
        answer = tokenizer(paper_text.answer(order), add_special_tokens=False)["input_ids"]
        found.append((ids, len(answer) + 1))
    return found


@torch.inference_mode()
def generate_seconds(backbone: Backbone, prompts: Sequence[tuple[list, int]]) -> float:
    """CPU seconds in which `generate` answers the prompts one after the other."""
    start = time.process_time()
    for ids, length in prompts:
        tokens = torch.tensor([ids], device=backbone.device)
        backbone.causal.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=True,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            min_new_tokens=length,
            max_new_tokens=length,
            pad_token_id=0,
        )
    return time.process_time() - start


def order_row(
    backbone: Backbone, positions: Sequence[Sequence[Turn]], units: int, passes: int, note: Note
) -> dict:
    """Row of orders per CPU second in movement phases. units: how many of them the peer orders,
    spread over the positions; passes: of ours, the best counts.
    """
    agent = LMAgent(backbone, TEMPERATURE, top_p=TOP_P)
    turns = [turn for own in positions for turn in own]
    joints = agent.act(turns, generators(len(turns), "together"))
    seconds = min(compact_seconds(agent, turns) for _ in range(passes))
    given = sum(turn.slots for turn in turns)
    asked = [
        prompt
        for turn, joint in zip(turns, joints, strict=True)
        for prompt in paper_prompts(backbone, turn, joint)
    ]
    some = [asked[k] for k in np.linspace(0, len(asked) - 1, units).astype(int)]
    generate_seconds(backbone, some[:1])
    peer = generate_seconds(backbone, some)
    ours = [len(backbone.encode(text.prompt(turn))) for turn in turns]
    note(
        f"{len(turns)} turns, {given} orders: compact prompt {np.median(ours):.0f} tokens (median),"
        f" read once for all powers; paper prompt {np.median([len(p) for p, _ in asked]):.0f} for"
        f" each unit, {units} of them asked; load {os.getloadavg()[0]:.1f}"
    )
    return _row("orders, compact and batched", given / seconds, units / peer, "orders/s")


def _row(name: str, ours: float, peer: float, unit: str) -> dict:
    return {"name": name, "ours": ours, "peer": peer, "unit": unit, "ratio": ours / peer}


def latencies(agent: LMAgent, turns: Sequence[Turn]) -> list[tuple[str, float]]:
    """(power, wall milliseconds) of each turn decided alone."""
    found = []
    for turn, rng in zip(turns, generators(len(turns), "alone"), strict=True):
        start = time.perf_counter()
        agent.act([turn], [rng])
        found.append((turn.name, 1e3 * (time.perf_counter() - start)))
    return found


def latency_rows(
    backbone: Backbone, found: dict[str, list[list[Turn]]], most: int, note: Note
) -> list[dict]:
    """Rows of the 95th percentile per kind of phase, as decisions per second beside the wanted 800
    ms a decision; `note` has p50 and p95 per power. most: decisions of a kind, spread over the
    positions.
    """
    agent, rows = LMAgent(backbone, TEMPERATURE, top_p=TOP_P), []
    for kind, positions in found.items():
        turns = [turn for own in positions for turn in own]
        picked = np.unique(np.linspace(0, len(turns) - 1, min(most, len(turns))).astype(int))
        turns = [turns[k] for k in picked]
        agent.act(turns[:1], generators(1, "warm"))
        alone = latencies(agent, turns)
        start = time.perf_counter()
        agent.act(turns, generators(len(turns), "together"))
        share = 1e3 * (time.perf_counter() - start) / len(turns)
        times = [ms for _, ms in alone]
        p50, p95 = np.percentile(times, [50, 95])
        note(
            f"{kind}: {len(turns)} decisions of one power, p50 {p50:.0f} ms, p95 {p95:.0f} ms;"
            f" {share:.0f} ms each when decided together; load {os.getloadavg()[0]:.1f}"
        )
        for power in sorted({name for name, _ in alone}):
            own = [ms for name, ms in alone if name == power]
            middle, high = np.percentile(own, [50, 95])
            note(f"  {power}: {len(own)} decisions, p50 {middle:.0f} ms, p95 {high:.0f} ms")
        rows.append(_row(f"{kind}, one power, p95", 1e3 / p95, 1e3 / LIMIT, "decisions/s"))
    return rows


def dtype_seconds(backbone: Backbone, tokens: int, passes: int = 3) -> dict[str, float]:
    """CPU seconds of the matrix products of one pass over `tokens` tokens in each precision.

    The weights are random, of the shapes of the backbone's layers: what a precision costs depends
    on the processor (bfloat16 products need AVX-512 BF16 or AMX to be fast), not on the values.
    """
    shapes = [
        tuple(module.weight.shape)
        for name, module in backbone.causal.named_modules()
        if name.endswith("_proj")
    ]
    found = {}
    for name, dtype in DTYPES.items():
        weights = [torch.ones(shape, dtype=dtype) for shape in shapes]
        inputs = {shape[1]: torch.ones(tokens, shape[1], dtype=dtype) for shape in shapes}
        found[name] = min(_products(weights, inputs) for _ in range(passes))
    return found


@torch.inference_mode()
def _products(weights: Sequence[torch.Tensor], inputs: dict[int, torch.Tensor]) -> float:
    start = time.process_time()
    for weight in weights:
        torch.nn.functional.linear(inputs[weight.shape[1]], weight)
    return time.process_time() - start


def faster_dtype(backbone: Backbone, note: Note) -> str:
    """The precision in which both a pass over a board (128 tokens) and a step of decoding (16
    tokens) are faster, judged by the time of one board and ten steps; on this machine.
    """
    board, step = dtype_seconds(backbone, 128), dtype_seconds(backbone, 16)
    total = {name: board[name] + 10 * step[name] for name in board}
    for name in total:
        note(
            f"{name}: matrix products of 128 tokens {1e3 * board[name]:.0f} ms, of 16 tokens"
            f" {1e3 * step[name]:.0f} ms; load {os.getloadavg()[0]:.1f}"
        )
    return min(total, key=total.get)


def cost(backbone: Backbone, quick: bool, note: Note) -> list[dict]:
    """All rows. quick: one game instead of three, fewer decisions. The backbone needs a tokenizer
    with a chat template.
    """
    found = positions(1 if quick else 3)
    moves = [own for own in found["movement"] if own[0].phase[1:5] == "1903"]
    rows = [order_row(backbone, moves, 3 if quick else 12, 1 if quick else 3, note)]
    return rows + latency_rows(backbone, found, 14 if quick else 42, note)

"""A language model as a player with explicit probabilities.

The model reads the position once and says one order per unit; at every token only legal
continuations are considered (`lm.scoring`), so every answer is legal in movement, retreat and
adjustment phases, and the probability of a joint order is exact. The temperature acts on the legal
tokens.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, orders, text
from dipllm_lib.lm import adapters, scoring
from dipllm_lib.lm.backbones import Backbone

ORDER_TOKENS = 14  # more than any order of either tokenizer with its separator


class LMAgent:
    """Policy of a backbone at a temperature (> 0) and top-p.

    adapter: switched on before each call; "" plays the base model without adapters; None leaves the
        backbone as it is
    """

    def __init__(
        self,
        backbone: Backbone,
        temperature: float,
        name: str = "LM",
        top_p: float = 1.0,
        adapter: str | None = None,
    ):
        scoring.check_temperature(temperature, top_p)
        self.backbone, self.name, self.adapter = backbone, name, adapter
        self.temperature, self.top_p = temperature, top_p

    @contextmanager
    def _active(self) -> Iterator[None]:
        if self.adapter == "":
            with adapters.off(self.backbone):
                yield
            return
        if self.adapter is not None:
            adapters.switch(self.backbone, self.adapter)
        yield

    def _read(self, turn: orders.Turn) -> tuple[list[int], text.OrderChoice]:
        encode = self.backbone.encode
        return encode(text.prompt(turn)), text.OrderChoice(turn, encode)

    def act(
        self, turns: Sequence[orders.Turn], rngs: Sequence[np.random.Generator]
    ) -> list[orders.Joint]:
        """One joint order per turn, all turns decoded together; rngs: one generator per turn."""
        prompts, choices = zip(*map(self._read, turns)) if turns else ((), ())
        with self._active():
            found = scoring.sample(
                self.backbone, prompts, choices, rngs, self.temperature, self.top_p
            )
        return [choice.joint(chosen) for choice, (chosen, _) in zip(choices, found, strict=True)]

    def log_prob(self, turn: orders.Turn, joints: Sequence[orders.Joint]) -> np.ndarray:
        """Log-probability (K,) in nats of whole joint orders of `turn`. Raises ValueError for an
        illegal one.
        """
        prompt, choice = self._read(turn)
        sequences = [choice.sequence(joint) for joint in joints]
        with self._active():
            return scoring.log_prob(
                self.backbone, [prompt], [choice], [sequences], self.temperature, self.top_p
            )[0]

    def sample(self, turn: orders.Turn, n: int, rng: np.random.Generator) -> list[orders.Joint]:
        """n independent joint orders of `turn`; the position is read once."""
        prompt, choice = self._read(turn)
        with self._active():
            found = scoring.sample(
                self.backbone,
                [prompt] * n,
                [choice] * n,
                rng.spawn(n),
                self.temperature,
                self.top_p,
            )
        return [choice.joint(chosen) for chosen, _ in found]


def raw_legality(
    backbone: Backbone,
    turns: Sequence[orders.Turn],
    rngs: Sequence[np.random.Generator],
    temperature: float = 1.0,
) -> pd.DataFrame:
    """What the model says without the mask, one row per turn.

    Columns phase, power, slots, legal_orders (leading orders that are legal), all_legal (the whole
    text is one legal joint order). Play never uses these texts.
    """
    prompts = [backbone.encode(text.prompt(turn)) for turn in turns]
    (stop,) = backbone.encode(text.END)
    limit = ORDER_TOKENS * max((turn.slots for turn in turns), default=0)
    said = scoring.sample_text(backbone, prompts, rngs, stop, limit, temperature)
    rows = []
    for turn, tokens in zip(turns, said, strict=True):
        words = backbone.tokenizer.text(tokens)
        leading, whole = text.leading_legal(turn, words)
        rows.append((turn.phase, atlas.POWERS[turn.power], turn.slots, leading, whole))
    return pd.DataFrame(rows, columns=["phase", "power", "slots", "legal_orders", "all_legal"])

"""A language model as a player with explicit probabilities.

The model reads the position once for all seven powers and says one order per unit; at every token
only legal continuations are considered (`lm.scoring`), so every answer is legal in movement,
retreat and adjustment phases, and the probability of a joint order is exact. The temperature acts
on the legal tokens.

Which orders it may say (`Narrowing`): all legal ones (`legal`); the at most six most probable ones
of each unit under an anchor, given the orders so far (`anchor`); or those of the candidate joint
orders of a search that agree with the orders so far (`search`). `with_search` puts a search on top,
with the model as its anchor and source of candidates (Xu et al. 2025, Table 6).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, orders, text
from dipllm_lib.dip.narrowing import Narrowing
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.policies import Policy
from dipllm_lib.dip.search import SearchSettings, ValueFunction
from dipllm_lib.dip.targets import PHASES
from dipllm_lib.dip.teacher import Teacher
from dipllm_lib.lm import adapters, scoring
from dipllm_lib.lm.backbones import Backbone

ORDER_TOKENS = 14  # more than any order of either tokenizer with its separator


@contextmanager
def active(backbone: Backbone, adapter: str | None) -> Iterator[None]:
    """The model with one of its adapters; "" without any, None as it is."""
    if adapter == "":
        with adapters.off(backbone):
            yield
        return
    if adapter is not None:
        adapters.switch(backbone, adapter)
    yield


class LMAgent:
    """Policy of a backbone at a temperature (> 0) and top-p.

    adapter: switched on before each call; "" plays the base model without adapters; None leaves the
        backbone as it is
    narrowing: which orders it may say, default all legal ones
    others: who plays retreats and adjustments, as in the released code of Xu et al. 2025; None:
        the model itself
    spoken: rule and seed of the order in which units are spoken of (`unit_order`); one that is not
        canonical needs all legal orders on offer
    """

    def __init__(
        self,
        backbone: Backbone,
        temperature: float,
        name: str = "LM",
        top_p: float = 1.0,
        adapter: str | None = None,
        narrowing: Narrowing | None = None,
        others: Policy | None = None,
        spoken: tuple[str, int] = ("canonical", 0),
    ):
        scoring.check_temperature(temperature, top_p)
        self.backbone, self.name, self.adapter = backbone, name, adapter
        self.temperature, self.top_p = temperature, top_p
        self.narrowing, self.others = narrowing or Narrowing(), others
        if spoken[0] != "canonical" and self.narrowing.mode != "legal":
            raise ValueError(f"units in {spoken[0]} order: only with candidates `legal`")
        self.spoken = spoken

    def _prompts(self, turns: Sequence[Turn]) -> list[list[int]]:
        return [self.backbone.encode(text.prompt(turn)) for turn in turns]

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn, all turns decoded together; rngs: one generator per turn."""
        found: list[Joint | None] = [None] * len(turns)
        given = [
            k for k, turn in enumerate(turns) if self.others is None or turn.phase.endswith("M")
        ]
        rest = [k for k in range(len(turns)) if k not in set(given)]
        own = [rngs[k] for k in given]
        parts = [(given, self._said([turns[k] for k in given], own, [[rng] for rng in own]))]
        if rest:
            said = self.others.act([turns[k] for k in rest], [rngs[k] for k in rest])
            parts.append((rest, [[joint] for joint in said]))
        for members, joints in parts:
            for k, (joint,) in zip(members, joints, strict=True):
                found[k] = joint
        return found

    def sample(self, turn: Turn, n: int, rng: np.random.Generator) -> list[Joint]:
        """n independent joint orders of `turn`; the position is read once."""
        return self.samples([turn], n, [rng])[0]

    def samples(
        self, turns: Sequence[Turn], n: int, rngs: Sequence[np.random.Generator]
    ) -> list[list[Joint]]:
        """n independent joint orders of each turn; each is drawn from a child of its generator, so
        turns of one position may share one.
        """
        return self._said(turns, rngs, [rng.spawn(n) for rng in rngs])

    def _said(
        self,
        turns: Sequence[Turn],
        rngs: Sequence[np.random.Generator],
        draws: Sequence[Sequence[np.random.Generator]],
    ) -> list[list[Joint]]:
        """One joint order for each generator in `draws`; rngs: those of the narrowing."""
        offered = self.narrowing.turns(turns, rngs)
        encode = self.backbone.encode
        choices = [text.OrderChoice(turn, encode, *self.spoken) for turn in offered]
        many = [k for k, own in enumerate(draws) for _ in own]
        prompts = self._prompts(turns)
        with active(self.backbone, self.adapter):
            found = scoring.sample(
                self.backbone,
                [prompts[k] for k in many],
                [choices[k] for k in many],
                [rng for own in draws for rng in own],
                self.temperature,
                self.top_p,
            )
        joints: list[list[Joint]] = [[] for _ in turns]
        for k, (chosen, _) in zip(many, found, strict=True):
            joints[k].append(choices[k].joint(chosen))
        return joints

    def log_prob(self, turn: Turn, joints: Sequence[Joint]) -> np.ndarray:
        """Log-probability (K,) in nats of whole joint orders of `turn`. Raises ValueError for an
        illegal one.
        """
        return self.log_probs([turn], [joints])[0]

    def log_probs(
        self, turns: Sequence[Turn], joints: Sequence[Sequence[Joint]]
    ) -> list[np.ndarray]:
        """Log-probabilities of the joint orders of each turn, -inf for one that the narrowing takes
        away. ValueError for one that is not legal, and where the narrowing is random.
        """
        narrowed = self.narrowing.turns(turns, None)
        encode = self.backbone.encode
        choices = [text.OrderChoice(turn, encode, *self.spoken) for turn in narrowed]
        inside, sequences = [], []
        for turn, offered, choice, own in zip(turns, narrowed, choices, joints, strict=True):
            if offered is not turn:
                for joint in own:
                    turn.check(tuple(joint))
            said = [offered is turn or offered.offers(tuple(joint)) for joint in own]
            inside.append(np.array(said, bool))
            sequences.append([choice.sequence(j) for j, kept in zip(own, said) if kept])
        with active(self.backbone, self.adapter):
            found = scoring.log_prob(
                self.backbone,
                self._prompts(turns),
                choices,
                sequences,
                self.temperature,
                self.top_p,
            )
        result = [np.full(len(own), -np.inf) for own in joints]
        for table, kept, values in zip(result, inside, found, strict=True):
            table[kept] = values
        return result

    def at(self, temperature: float, name: str | None = None) -> "LMAgent":
        """The same player at another temperature, with all probabilities above 0."""
        return LMAgent(
            self.backbone,
            temperature,
            name or self.name,
            1.0,
            self.adapter,
            self.narrowing,
            self.others,
            self.spoken,
        )


def player(backbone: Backbone, settings, anchor, name: str) -> LMAgent:
    """The model at play as the agent_* settings say; anchor: the policy that narrows its orders or
    plays the phases that it does not.
    """
    if settings.agent_phases not in ("all", "movement"):
        raise ValueError(f"unknown agent_phases {settings.agent_phases!r}: use all or movement")
    narrowing = Narrowing(
        settings.agent_candidates,
        anchor,
        settings.agent_candidate_limit,
        SearchSettings.of(settings),
    )
    others = anchor if settings.agent_phases == "movement" else None
    temperature, top_p = settings.agent_temperature, settings.agent_top_p
    return LMAgent(backbone, temperature, name, top_p, narrowing=narrowing, others=others)


def with_search(
    agent: LMAgent,
    value_fn: ValueFunction,
    settings,
    iterations: int,
    name: str = "LM search",
) -> Policy:
    """`agent` with an equilibrium search of `iterations` on top; 0: the agent itself.

    The model at temperature 1 is the anchor and the source of the candidates. settings: a
    SearchSettings or those of a profile. value_fn must give a position the same value whatever
    positions are beside it.
    """
    if iterations == 0:
        return agent
    settings = replace(SearchSettings.of(settings), iterations=iterations)
    return Teacher(agent.at(1.0), value_fn, settings, name=name, together=True)


def raw_legality(
    backbone: Backbone,
    turns: Sequence[orders.Turn],
    rngs: Sequence[np.random.Generator],
    temperature: float = 1.0,
) -> pd.DataFrame:
    """What the model says without the mask, one row per turn. temperature 0: the most probable
    tokens.

    Columns phase, power, slots, legal_orders (leading orders that are legal), all_legal (the whole
    text is one legal joint order). Play never uses these texts.
    """
    prompts = [backbone.encode(text.prompt(turn)) for turn in turns]
    (stop,) = backbone.encode(text.END)
    limits = [ORDER_TOKENS * turn.slots for turn in turns]
    said = scoring.sample_text(backbone, prompts, rngs, stop, limits, temperature)
    rows = []
    for turn, tokens in zip(turns, said, strict=True):
        words = backbone.tokenizer.text(tokens)
        leading, whole = text.leading_legal(turn, words)
        rows.append((turn.phase, atlas.POWERS[turn.power], turn.slots, leading, whole))
    return pd.DataFrame(rows, columns=["phase", "power", "slots", "legal_orders", "all_legal"])


def legality_by_kind(found: pd.DataFrame) -> pd.DataFrame:
    """`raw_legality` by kind of phase, which is the index; only the kinds that occur.

    Columns turns, orders, legal_orders (share of all orders due that are legal and come before the
    first one that is not), all_legal (share of the turns).
    """
    kinds = found.groupby(found["phase"].str[-1].map(PHASES), sort=False)
    sums = kinds[["slots", "legal_orders"]].sum()
    columns = {
        "turns": kinds.size(),
        "orders": sums["slots"],
        "legal_orders": sums["legal_orders"] / sums["slots"],
        "all_legal": kinds["all_legal"].mean(),
    }
    table = pd.DataFrame(columns).rename_axis("phase")
    return table.loc[[kind for kind in PHASES.values() if kind in table.index]]

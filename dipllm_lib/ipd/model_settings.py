"""What a sequence model of the dilemma is made of: core, input, size, heads.

The published inputs have three modalities, each with its own linear layer into a shared space:
observation (one-hot, 5), own action (one-hot, 2) and reward (a number). The paper does not say how
they enter. Four layouts:

    joint         one token a round, the observation alone; it fixes action and reward of the round
                  before, so nothing is lost, and it costs a third (not in the paper)
    interleaved   three tokens a round in the order observation, reward, action
    summed        one token a round, the sum of the three embeddings
    concat        one token a round, the three embeddings side by side

Action and reward of the round before are read off the observation. In the first round there are
none: the action is no token in `interleaved` and a zero one-hot elsewhere, the reward is 0.
A2C reads observations only (paper, Table 2), so its last three layouts are the same.
"""

from dataclasses import dataclass

CORES = ("gru", "transformer")
INPUTS = ("joint", "interleaved", "summed", "concat")
LEARNERS = ("ppi", "a2c")
Z_AT = ("first", "every")
EMBEDDING = 32  # width of the shared space of the GRU (paper)
CODES, ACTIONS = 5, 2  # observations s0, CC, CD, DC, DD of two players; actions in the order C, D
OWN = (0, 0, 0, 1, 1)  # index of the own action in each observation; nobody asks for that of s0


@dataclass(frozen=True)
class ModelSettings:
    """Settings of one stack of models. ValueError for unknown names and for sizes that do not fit.

    core: `gru` (paper) or `transformer`; hidden: width of either; layers and heads: of the
    transformer only; rounds: of an episode, the transformer has no positions for more; q_head: two
    values Q(C), Q(D), PPI only; z: length of the identity vector in front, 0 for none, and z_at:
    its own first token (paper) or an addition to every token; learner: whose heads.
    rewards: own reward of the round that ended with s0, CC, CD, DC, DD, read as input by the
    layouts other than `joint`. players: of the game; with n > 2 the observation is the own action
    and how many of the others played C, 2n + 1 codes, as in `public_goods`, and PPI predicts that
    number: n logits of n - 1 … 0 given the own C, then n given the own D.
    """

    core: str = "gru"
    input: str = "joint"
    hidden: int = 32
    layers: int = 2
    heads: int = 2
    rounds: int = 50
    q_head: bool = True
    z: int = 0
    z_at: str = "first"
    learner: str = "ppi"
    rewards: tuple[float, ...] = (0.0, 1.0, -1.0, 2.0, 0.0)
    players: int = 2

    def __post_init__(self):
        for name, value, known in (
            ("core", self.core, CORES),
            ("input", self.input, INPUTS),
            ("learner", self.learner, LEARNERS),
            ("z_at", self.z_at, Z_AT),
        ):
            if value not in known:
                raise ValueError(f"unknown {name} {value!r} of a model: use {' or '.join(known)}")
        for name, least in (("hidden", 1), ("layers", 1), ("heads", 1), ("rounds", 1), ("z", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} of a model is {value!r}: use an integer >= {least}")
        if self.core == "transformer" and self.hidden % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.hidden}")
        if isinstance(self.players, bool) or self.players < 2:
            raise ValueError(f"players of a model is {self.players!r}: use an integer >= 2")
        if self.players > 2 and (self.learner == "ppi" and self.input != "joint" or self.z):
            raise ValueError("a model of more than two players needs input 'joint' and z = 0")
        if len(self.rewards) != CODES:
            raise ValueError(f"rewards {self.rewards}: give one for each of s0, CC, CD, DC, DD")

    @property
    def codes(self) -> int:
        """Different observations."""
        return 1 + ACTIONS * self.players

    @property
    def tokens(self) -> int:
        """Tokens of a round."""
        return 3 if self.input == "interleaved" and self.learner == "ppi" else 1

    @property
    def parts(self) -> int:
        """Hidden vectors that a round's features are made of, side by side: 1, or 4 when
        `interleaved`, after the observation, after the reward, and after each own action C, D.
        """
        return 4 if self.tokens == 3 else 1

    def outputs(self) -> dict[str, int]:
        """Raw outputs of the linear heads, by name."""
        if self.learner == "a2c":
            return {"policy": 2, "value": 1}
        if self.input == "joint":
            found = {"own": 1, "reply": 2 if self.players == 2 else 2 * self.players}
        else:
            found = {"next": 5, "action": 2, "reward": 1}
        return found | ({"q": 2} if self.q_head else {})

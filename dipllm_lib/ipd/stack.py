"""A stack of agents' models: one core and linear heads, a leading axis of agents on every weight.

`unroll` reads whole episodes in training, `step` one round at a time in play; they agree to 1e-5.
Nothing crosses the axis of agents, so with a loss that is the sum over agents of each one's own
mean an agent's gradients do not depend on how many share the pass. Norms are clipped by agent.
"""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import nn

from dipllm_lib.ipd.gru import GRU
from dipllm_lib.ipd.layers import Linear
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.transformer import Transformer

CORES = {"gru": GRU, "transformer": Transformer}
PARTS = {"next": (2, 3), "action": (1,), "reward": (0,), "q": (1,)}  # of an interleaved round


class Stack(nn.Module):
    """A agents with the same settings. generators: one for each agent's first weights.

    Shapes: n episodes of every agent, T rounds, F features of a round.
    """

    def __init__(self, settings: ModelSettings, generators: Sequence):
        super().__init__()
        self.settings = settings
        self.core = CORES[settings.core](settings, generators)
        zero = settings.learner == "a2c"  # so that play starts at one half and values at 0
        self.readout = nn.ModuleDict()
        for group, outputs in self.groups().items():
            size = sum(outputs.values())
            self.readout[group] = Linear(generators, settings.hidden, size, zero)

    def groups(self) -> dict[str, dict[str, int]]:
        """Heads that read the same hidden vector are one linear layer: group -> head -> outputs."""
        outputs = self.settings.outputs()
        if self.settings.parts == 1:
            return {"heads": outputs}
        groups: dict[str, dict[str, int]] = {}
        for name, size in outputs.items():
            groups.setdefault(f"part{PARTS[name][0]}", {})[name] = size
        return groups

    @property
    def agents(self) -> int:
        """A."""
        return len(next(self.parameters()))

    @property
    def features(self) -> int:
        """F, numbers that a round's features are made of."""
        return self.settings.parts * self.settings.hidden

    def start(self, n: int, z: torch.Tensor | None = None):
        """The state of n episodes of every agent before the first round.

        z (A, n, z): the identity vectors of a model with z > 0, zeros for a learner as opponent.
        The state is a named tuple of tensors (A, n, …), of tuples of such, or None.
        """
        self._check_z(n, z)
        return self.core.start(n, z)

    def step(self, state, obs: torch.Tensor):
        """The round that begins with obs (A, n), integers 0 to 4, own action first.

        Returns features (A, n, F) and the next state; the state given stays as it was.
        """
        self._check_obs(obs, 2)
        return self.core.step(state, obs.long())

    def unroll(self, obs: torch.Tensor, z: torch.Tensor | None = None) -> torch.Tensor:
        """obs (A, n, T), z (A, n, z) -> features (A, n, T, F), those of T steps."""
        self._check_obs(obs, 3)
        self._check_z(obs.shape[1], z)
        return self.core.unroll(obs.long(), z)

    def read(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """The heads of features (A, …, F), each (A, …) or (A, …, outputs).

        PPI: own, the logit of the own C · reply (2), logits of the opponent's C in this round given
        the own C and the own D · q (2), Q(C) and Q(D), if there is such a head. Layouts other than
        `joint` also have their raw heads: action (2), logits of the own C and D · next (5) logits
        of the next observation, from which reply follows; when `interleaved` (2, 5), after each own
        action · reward, the estimate of the reward that came with the round's observation.
        A2C: policy (2), logits of C and D · value.
        """
        parts = features.split(self.settings.hidden, -1)
        found = {}
        for group, outputs in self.groups().items():
            names = list(outputs)
            wanted = PARTS[names[0]] if len(parts) > 1 else (0,)
            read = [self.readout[group].columns(parts[i]) for i in wanted]
            joined = read[0] if len(read) == 1 else torch.stack(read, -2)
            found |= dict(zip(names, joined.split(list(outputs.values()), -1), strict=True))
        for name in ("own", "value", "reward"):
            if name in found:
                found[name] = found[name].squeeze(-1)
        return found | _odds(found)

    def slice(self, i: int) -> "Stack":
        """A stack of agent i alone, with a copy of its numbers."""
        if not 0 <= i < self.agents:
            raise ValueError(f"no agent {i} in a stack of {self.agents}")
        return _changed(self, lambda _, weight: weight[i : i + 1].clone())

    def parameters_per_agent(self) -> int:
        """Numbers of one agent's model."""
        return sum(weight[0].numel() for weight in self.parameters())

    def clip_per_agent(self, norm: float) -> torch.Tensor:
        """Scale each agent's gradient to a norm of at most `norm`; (A,) the norms before.

        The rule of `torch.nn.utils.clip_grad_norm_`, agent by agent.
        """
        grads = [weight.grad for weight in self.parameters() if weight.grad is not None]
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
        scale = (norm / (norms + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(scale.view(-1, *[1] * (g.dim() - 1)))
        return norms

    def _check_obs(self, obs: torch.Tensor, axes: int) -> None:
        if obs.dim() != axes or len(obs) != self.agents or obs.is_floating_point():
            wanted = f"(A, n{', T' if axes == 3 else ''}) with A = {self.agents}"
            raise ValueError(f"observations {obs.dtype} {tuple(obs.shape)}: give integers {wanted}")
        low, high = obs.aminmax()
        codes = self.settings.codes
        if low < 0 or high >= codes:
            raise ValueError(f"observations from {low} to {high}: the codes are 0 to {codes - 1}")

    def _check_z(self, n: int, z: torch.Tensor | None) -> None:
        wanted = (self.agents, n, self.settings.z) if self.settings.z else None
        if (None if z is None else tuple(z.shape)) != wanted:
            given = None if z is None else tuple(z.shape)
            raise ValueError(f"identity vectors {given}: this model needs {wanted}")


def _odds(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """own and reply as log-odds of the raw heads of the paper."""
    odds = {}
    if "action" in found:
        odds["own"] = found["action"][..., 0] - found["action"][..., 1]
    if "next" in found:
        cc, cd, dc, dd = found["next"][..., 1:].unbind(-1)
        given_c, given_d = cc - cd, dc - dd
        if found["next"].dim() > found["action"].dim():  # one row after each own action
            given_c, given_d = given_c[..., 0], given_d[..., 1]
        odds["reply"] = torch.stack((given_c, given_d), -1)
    return odds


def _changed(stack: Stack, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Stack:
    """A copy with `change(name, weight)` in the place of each weight."""
    copied = copy.deepcopy(stack)
    for path, module in copied.named_modules():
        for name, weight in module._parameters.items():
            full = f"{path}.{name}" if path else name
            module._parameters[name] = nn.Parameter(change(full, weight.detach()))
    return copied


def join(stacks: Sequence[Stack]) -> Stack:
    """The agents of all stacks as one, in this order. ValueError if settings differ."""
    if len({stack.settings for stack in stacks}) != 1:
        raise ValueError("only stacks with the same settings can be joined, and at least one")
    weights = [dict(stack.named_parameters()) for stack in stacks]
    return _changed(stacks[0], lambda name, _: torch.cat([w[name].detach() for w in weights]))

"""The objectives of study 3 on arrays; no model inside.

With r = log pi(a|h) - log pi_ref(a|h), e = +1 for a desirable sample and -1 for another, kappa the
temperature and sigma the logistic function:

    kto           mean lambda_y (1 - sigma(kappa e (r - z0)))        Ethayarajh et al. 2024, Eq. 7
    pt_kto        mean omega lambda_y (1 - sigma(kappa e (r - z0)))  omega: `omega` below
    pt_pair       mean |V+ - V-| / mean|V+ - V-| (1 - sigma(kappa (r+ - r-)))
    literal_sign  mean sigma(kappa (r+ - r-)): the sign as printed in the text. Minimising it makes
                  the better answer less likely; it is kept as the negative control and nothing else
    sft           mean over the desirable of -log pi(a|h)
    wmle          mean of -w log pi(a|h), w = exp(V / tau) / mean: cross-entropy to
                  pi_ref exp(V / tau), the kind of target that study 1 fits

z0 is the reference point of r, without gradient and at least 0. Forms:

    exact_batch    mean over the contexts of the LOGICAL batch of KL_h = sum_a pi (log pi - log
                   pi_ref) over the enumerated A(h): one number, the same for all micro-batches
    exact_context  each context its own KL_h
    mismatched     mean log-ratio of (prompt, answer of its neighbour), TRL's estimate: for parity
    zero           0

Why exact: with few legal texts the neighbour's answer is often the same, and the estimate then
holds the sample's own reward. lambda_D and lambda_U correct label counts only. Loss aversion enters
once, through v: with sampled outcomes the effective one would be lambda lambda_U / lambda_D.

Shapes: n samples, tensors (n,), float32 or float64; every loss is a scalar, its `_terms` are (n,).
"""

import math
import warnings
from collections.abc import Sequence

import torch

Z0_FORMS = ("exact_batch", "exact_context", "mismatched", "zero")
LABEL_KINDS = ("outcome", "selector")
CAP = 4.0  # of omega; never binds for normalised payoffs at lambda <= 3.2
RATIO = (1.0, 4 / 3)  # of lambda_D n_D to lambda_U n_U, Ethayarajh et al. 2024, Eq. 8


def _tensors(*values) -> list[torch.Tensor]:
    """Tensors of the first one's type and device; ValueError if shapes are not all equal, (n,)."""
    first = torch.as_tensor(values[0])
    rest = [torch.as_tensor(v).to(device=first.device) for v in values[1:]]
    shapes = {tuple(t.shape) for t in (first, *rest)}
    if len(shapes) != 1 or first.ndim != 1 or not len(first):
        raise ValueError(f"samples must be flat, equally long and at least one, got {shapes}")
    return [first, *rest]


def kto_terms(r, labels, z0, kappa: float, lam_d: float = 1.0, lam_u: float = 1.0) -> torch.Tensor:
    """(n,) lambda_y (1 - sigma(kappa e (r - z0))).

    r: log-ratios in nats (n,) · labels: desirable (n,), bool or 0/1 · z0: a number or (n,); its
    gradient is cut and it is clamped at 0 from below · kappa > 0.
    """
    if kappa <= 0:
        raise ValueError(f"kappa {kappa}: the temperature must be above 0")
    r, labels = _tensors(r, labels)
    desirable = labels.to(torch.bool)
    point = torch.as_tensor(z0, dtype=r.dtype, device=r.device).detach().clamp(min=0)
    sign = torch.where(desirable, 1.0, -1.0).to(r.dtype)
    weight = torch.where(desirable, float(lam_d), float(lam_u)).to(r.dtype)
    return weight * (1 - torch.sigmoid(kappa * sign * (r - point)))


def kto(r, labels, z0, kappa: float, lam_d: float = 1.0, lam_u: float = 1.0) -> torch.Tensor:
    """The plain objective: mean of `kto_terms`."""
    return kto_terms(r, labels, z0, kappa, lam_d, lam_u).mean()


def pt_kto(
    r, labels, omega, z0, kappa: float, lam_d: float = 1.0, lam_u: float = 1.0
) -> torch.Tensor:
    """Mean of omega times `kto_terms`. omega: (n,), without gradient, >= 0; all ones give `kto`."""
    terms = kto_terms(r, labels, z0, kappa, lam_d, lam_u)
    return (_weights(omega, terms) * terms).mean()


def _weights(weights, like: torch.Tensor) -> torch.Tensor:
    """Weights as a tensor beside `like`, no gradient; ValueError if negative or of other shape."""
    weights = torch.as_tensor(weights, dtype=like.dtype, device=like.device).detach()
    if weights.shape != like.shape or bool((weights < 0).any()):
        raise ValueError(
            f"weights must be >= 0 and {tuple(like.shape)}, got {tuple(weights.shape)}"
        )
    return weights


def pt_pair(r_plus, r_minus, gap, kappa: float, mean: float | None = None) -> torch.Tensor:
    """Pairs inside one context, the better answer first; normaliser and z0 cancel in r+ - r-.

    gap: V+ - V- > 0 (n,) · mean: of the gaps of the training split; None takes that of these pairs.
    """
    plus, minus = _tensors(r_plus, r_minus)
    gap = _weights(gap, plus)
    if bool((gap == 0).any()):
        raise ValueError("a pair needs V+ > V-: leave equal values out")
    scale = gap.mean() if mean is None else mean
    return (gap / scale * (1 - torch.sigmoid(kappa * (plus - minus)))).mean()


def literal_sign(r_plus, r_minus, kappa: float) -> torch.Tensor:
    """The negative control: minimising it lowers the probability of the better answer."""
    plus, minus = _tensors(r_plus, r_minus)
    return torch.sigmoid(kappa * (plus - minus)).mean()


def sft(log_p, labels) -> torch.Tensor:
    """-log pi(a|h) averaged over the desirable samples; ValueError if there is none."""
    log_p, labels = _tensors(log_p, labels)
    desirable = labels.to(log_p.dtype)
    if not bool(desirable.any()):
        raise ValueError("no desirable sample to imitate: lower the reference point or add samples")
    return -(desirable * log_p).sum() / desirable.sum()


def tilt(values, tau: float, mean: float | None = None) -> torch.Tensor:
    """(n,) weights exp(V / tau) / mean; tau > 0 in units of V. mean: of exp(V / tau) over the
    training split; None takes that of these values."""
    if tau <= 0:
        raise ValueError(f"tau {tau}: the temperature of the target must be above 0")
    raw = torch.exp(torch.as_tensor(values) / tau)
    return raw / (raw.mean() if mean is None else mean)


def wmle(log_p, values, tau: float, mean: float | None = None) -> torch.Tensor:
    """Mean of -w log pi(a|h) with the weights of `tilt`."""
    log_p, values = _tensors(log_p, values)
    weights = tilt(values.to(log_p.dtype), tau, mean).detach()
    return -(weights * log_p).mean()


def z0_exact(log_probs: Sequence, ref_log_probs: Sequence) -> torch.Tensor:
    """(n,) KL_h of each context over its enumerated legal texts, in nats; no gradient, >= 0 up to
    rounding where both are normalised over A(h).

    log_probs, ref_log_probs: per context one array (|A(h)|,). A text with pi = 0 adds nothing.
    """
    found = []
    for own, ref in zip(log_probs, ref_log_probs, strict=True):
        own, ref = (torch.as_tensor(x).detach() for x in (own, ref))
        gap = torch.where(torch.isneginf(own), torch.zeros_like(own), own - ref)
        found.append((own.exp() * gap).sum())
    if not found:
        raise ValueError("z0 needs at least one context")
    return torch.stack(found)


def z0_mismatched(r_mismatched) -> torch.Tensor:
    """TRL's estimate: mean log-ratio of answers behind other prompts, clamped at 0, no gradient."""
    return torch.as_tensor(r_mismatched).detach().mean().clamp(min=0)


def rotated(n: int) -> list[int]:
    """Which sample's answer each prompt of a batch is paired with for `mismatched`: the one before
    it, the first with the last. The only sample of a batch meets itself, as in TRL."""
    return [n - 1, *range(n - 1)] if n else []


def z0(form: str, kl=None, r_mismatched=None) -> torch.Tensor:
    """The reference point in one of Z0_FORMS: a scalar, or (n,) for `exact_context`.

    kl: of `z0_exact`, per context of the logical batch · r_mismatched: of the rotated pairs.
    ValueError for an unknown form or where its input is missing.
    """
    if form not in Z0_FORMS:
        raise ValueError(f"unknown z0 {form!r}: use one of {', '.join(Z0_FORMS)}")
    if form == "zero":
        return torch.zeros((), dtype=torch.float64)
    given = r_mismatched if form == "mismatched" else kl
    if given is None:
        raise ValueError(f"z0 {form} needs {'r_mismatched' if form == 'mismatched' else 'kl'}")
    if form == "mismatched":
        return z0_mismatched(given)
    kl = torch.as_tensor(given).detach()
    return (kl if form == "exact_context" else kl.mean()).clamp(min=0)


def mean_size(values) -> float:
    """mean |V| of the training split of a game and setting: what `omega` divides by, stored with
    the split. ValueError if it is 0 or not finite: no sample would move anything."""
    mean = float(torch.as_tensor(values).abs().mean()) if len(values) else 0.0
    if not (mean > 0 and math.isfinite(mean)):
        raise ValueError(
            f"mean |V| is {mean}: need a sample whose payoff differs from its reference"
        )
    return mean


def omega(values, mean: float, cap: float = CAP) -> torch.Tensor:
    """(n,) min(|V|, cap) / mean. mean: of `mean_size`, never that of a batch."""
    if mean <= 0 or cap <= 0:
        raise ValueError(f"mean {mean} and cap {cap} of omega must be above 0")
    return torch.as_tensor(values).abs().clamp(max=cap) / mean


def class_weights(labels, kind: str) -> tuple[float, float]:
    """(lambda_D, lambda_U) with lambda_D n_D = lambda_U n_U, the larger one 1.

    kind: where the labels come from. For `outcome` labels it refuses (ValueError): one action is
    then sometimes desirable and sometimes not, and balancing counts changes what is best; use 1, 1.
    ValueError too where a class is empty.
    """
    if kind not in LABEL_KINDS:
        raise ValueError(f"unknown kind of labels {kind!r}: use {' or '.join(LABEL_KINDS)}")
    if kind == "outcome":
        raise ValueError("labels from outcomes are not balanced: use lambda_D = lambda_U = 1")
    desirable = int(torch.as_tensor(labels).to(torch.bool).sum())
    rest = len(labels) - desirable
    if not desirable or not rest:
        raise ValueError(f"{desirable} desirable and {rest} other samples: need some of both")
    most = max(desirable, rest)
    # lambda_D : lambda_U = n_U : n_D, the larger 1
    return rest / most, desirable / most


def check_class_weights(lam_d: float, lam_u: float, labels) -> float:
    """The ratio lambda_D n_D / (lambda_U n_U) of weights set by hand; warns outside of RATIO."""
    desirable = int(torch.as_tensor(labels).to(torch.bool).sum())
    rest = max(len(labels) - desirable, 1)
    ratio = lam_d * max(desirable, 1) / (lam_u * rest)
    if not RATIO[0] - 1e-9 <= ratio <= RATIO[1] + 1e-9:
        warnings.warn(
            f"lambda_D n_D / (lambda_U n_U) = {ratio:.3g} lies outside [1, 4/3]: "
            "the labels are not balanced",
            stacklevel=2,
        )
    return ratio

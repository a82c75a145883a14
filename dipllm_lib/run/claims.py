"""How a claim is judged: a number with its interval against a bound."""


def verdict(
    mean: float, low: float, high: float, *, above: float | None = None, below: float | None = None
) -> str:
    """`holds` if the interval lies wholly above (below) the bound, `fails` if wholly on the other
    side or on it, else `not resolved`. Exactly one bound; ValueError otherwise, or if the interval
    does not hold the mean.
    """
    if (above is None) == (below is None):
        raise ValueError("a verdict needs exactly one bound, above or below")
    if not low <= mean <= high:
        raise ValueError(f"the interval [{low}, {high}] does not hold the mean {mean}")
    first, last, bound = (low, high, above) if below is None else (-high, -low, -below)
    if first > bound:
        return "holds"
    return "fails" if last <= bound else "not resolved"

"""The figures of notebook 08, each from one tidy table of its studies.

People are black dots, money is grey, and λ = 1, 2.25, 3.2 are blue, orange and red throughout.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dipllm_lib.kto import recovery
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY

PRESETS = {
    "NEUTRAL": (GREY, "--"),
    "TK92": (GREEN, "-."),
    "ARTICLE": (ORANGE, "-"),
    "NEGOTIATION": (RED, "-"),
}
WEIGHTS = {"γ = .61, gains": (BLUE, "-"), "γ = .69, losses": (RED, "-."), "γ = 1": (GREY, "--")}
LAMS = {1.0: (BLUE, "-", "o"), 2.25: (ORANGE, "--", "s"), 3.2: (RED, ":", "D")}
OTHER = {
    "logit": (SKY, "-", "^"),
    "Fehr-Schmidt": (GREEN, "-", "P"),
    "matching": (GREEN, "-", "P"),
}
RHOS = (BLUE, SKY, GREEN, PINK, RED)
WIDTHS = (3.8, 3.0, 2.2, 1.6, 1.0)  # the first lines are wide, so that those above hide none
EXPONENTS = {"one": ("α = β fitted", BLUE, "o"), "two": ("α and β fitted", ORANGE, "s")}
NAMED = {
    "alpha": "α",
    "lam": "λ (at size 1)",
    recovery.AT_STAKES: "loss aversion at 100",
    "gamma_gain": "γ, gains",
    "gamma_loss": "γ, losses",
    "slope": "slope of choices",
}
VARIED = {"own": "own λ", "other": "the other's λ", "both": "λ of both"}


def curves(table: pd.DataFrame) -> Figure:
    """v of the presets, w, and how loss aversion depends on the size of the stakes."""
    figure, grid = plotting.axes(2, 1, 3, height=2.7)
    looks = ("value", PRESETS), ("weight", WEIGHTS), ("ratio", PRESETS)
    for ax, (curve, look) in zip(grid, looks, strict=True):
        own = table[table["curve"] == curve]
        for name, (colour, line) in look.items():
            part = own[own["name"] == name]
            ax.plot(part["x"], part["y"], color=colour, ls=line, label=name)
    grid[0].legend(fontsize=6, loc="lower right")
    grid[1].legend(fontsize=6, loc="upper left")
    grid[0].axhline(0, color=BLACK, lw=0.5)
    grid[0].axvline(0, color=BLACK, lw=0.5)
    grid[2].set_xscale("log")
    grid[2].set_ylim(0, 4.6)
    labels = (
        ("payoff − reference", "value v"),
        ("probability p", "weight w"),
        ("size x", "−v(−x) / v(x)"),
    )
    titles = "Value function", "Probability weighting", "Loss aversion by size"
    for ax, (x, y), title in zip(grid, labels, titles, strict=True):
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.set_title(title, loc="left")
    return figure


def recovered(table: pd.DataFrame) -> Figure:
    """Mean and middle 95 % of the estimates by number of choices, beside the truth."""
    figure, grid = plotting.axes(2, 2, 3, height=1.9, sharex=True)
    sizes = sorted(table["choices"].unique())
    for ax, (name, label) in zip(grid.flat, NAMED.items(), strict=True):
        own = table[table["parameter"] == name]
        ax.axhline(own["truth"].iloc[0], color=GREY, ls="--", lw=1, label="truth")
        for shift, (kind, (text, colour, marker)) in zip(
            (-0.1, 0.1), EXPONENTS.items(), strict=True
        ):
            part = own[own["exponents"] == kind].set_index("choices").loc[sizes]
            x = np.arange(len(sizes)) + shift
            ax.vlines(x, part["low"], part["high"], color=colour)
            ax.plot(x, part["mean"], color=colour, marker=marker, ls="none", label=text)
        ax.set_title(label, loc="left")
        ax.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
        ax.set_xlim(-0.5, len(sizes) - 0.5)
    for ax in grid[-1]:
        ax.set_xlabel("choices")
    _legend(figure, grid.flat)
    return figure


def offers(lines: pd.DataFrame, best: pd.DataFrame, rho: float) -> Figure:
    """Value of each offer against people, in money and by λ, and the best offer by λ and ρ."""
    figure, grid = plotting.axes(2, 1, 3, height=2.7, width_ratios=(1.25, 1, 1))
    ax = grid[0]
    ax.plot(lines["offer"], lines["money"], color=GREY, ls="-.", label="money")
    for lam, (colour, line, marker) in LAMS.items():
        own = lines[f"v_{lam:g}"]
        ax.plot(lines["offer"], own, color=colour, ls=line, label=f"λ = {lam:g}")
        ax.plot(lines["offer"][own.idxmax()], own.max(), color=colour, marker=marker)
    ax.axhline(0, color=BLACK, lw=0.5)
    ax.set_xlabel("offer")
    ax.set_ylabel(f"value around ρ = {rho:g}")
    ax.set_title("Value of an offer", loc="left")
    ax.legend(loc="lower left", fontsize=6)
    titles = {"plain": "Best offer", "weighted": "Best offer, with w"}
    for ax, (kind, title) in zip(grid[1:], titles.items(), strict=True):
        _squares(ax, best[best["kind"] == kind])
        ax.set_title(title, loc="left")
    return figure


def _squares(ax: Axes, table: pd.DataFrame) -> None:
    """The best offer (by tenths, by hundredths in brackets) for each λ and ρ; darker is higher."""
    lams, rhos = list(table["lam"].unique()), list(table["rho"].unique())
    for row in table.itertuples():
        x, y = rhos.index(row.rho), lams.index(row.lam)
        moved = row.best != 0.4
        ax.add_patch(_square(x, y, ORANGE if moved else "#E8EEF4"))
        text = {"ha": "center", "va": "center", "fontsize": 7}
        ax.text(x, y + 0.14, f"{row.best:.1f}", weight="bold" if moved else "normal", **text)
        ax.text(x, y - 0.22, f"{row.best_fine:.2f}", **(text | {"fontsize": 5.5}))
    ax.set_xticks(range(len(rhos)), [f"{rho:g}" for rho in rhos])
    ax.set_yticks(range(len(lams)), [f"{lam:g}" for lam in lams])
    ax.set_xlim(-0.5, len(rhos) - 0.5)
    ax.set_ylim(-0.5, len(lams) - 0.5)
    ax.set_xlabel("reference ρ")
    ax.set_ylabel("λ")
    ax.grid(False)


def _square(x: float, y: float, colour: str) -> Rectangle:
    return Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", lw=1)


def references(table: pd.DataFrame) -> Figure:
    """What labels say of each offer under each reference; large marks are the best offers."""
    figure, grid = plotting.axes(2, 1, 2, height=2.7, sharey=True)
    titles = {"|v|": "Labels weighted by |v|", "unit": "Labels of equal weight"}
    for ax, (weights, title) in zip(grid, titles.items(), strict=True):
        own = table[table["weights"] == weights]
        for colour, width, (rho, part) in zip(RHOS, WIDTHS, own.groupby("rho"), strict=True):
            line = {"color": colour, "lw": width, "label": f"ρ = {rho:.3g}"}
            ax.plot(part["offer"], part["signal"], **line)
            top = part[part["signal"] >= part["signal"].max() - 1e-12]
            ax.plot(top["offer"], top["signal"], color=colour, marker="o", ms=2.5 + 2 * width,
                    ls="none")  # fmt: skip
        ax.axhline(0, color=BLACK, lw=0.5)
        ax.set_xlabel("offer")
        ax.set_ylim(-1.1, 1.15)
        ax.set_title(title, loc="left")
    grid[0].set_ylabel("sum of labels, scaled")
    _legend(figure, grid, 5)
    return figure


def people(table: pd.DataFrame, lams: Sequence[float]) -> Figure:
    """Rates of people and of the fitted models in both games."""
    figure, grid = plotting.axes(2, 1, 2, height=2.7)
    looks = OTHER | {f"prospect, λ = {lam:g}": LAMS[lam] for lam in lams}
    texts = {
        "ultimatum": ("offer", "P(refuse)", "Responders of the ultimatum"),
        "gift PD": ("partner's gift", "P(give)", "Second movers of the gift dilemma"),
    }
    for ax, (game, (x, y, title)) in zip(grid, texts.items(), strict=True):
        own = table[table["game"] == game]
        seen = own[own["model"] == "people"]
        dots = {"color": BLACK, "marker": "o", "ms": 5, "ls": "none", "zorder": 3}
        ax.plot(seen["x"], seen["rate"], label="people", **dots)
        for name, (colour, line, marker) in looks.items():
            part = own[own["model"] == name]
            if len(part):
                style = {"color": colour, "ls": line, "marker": marker, "ms": 3, "label": name}
                style["drawstyle"] = "steps-post" if name == "matching" else "default"
                ax.plot(part["x"], part["rate"], **style)
        ax.axhline(0.5, color=GREY, lw=0.8)
        ax.set_ylim(0, 0.9)
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.set_title(title, loc="left")
    _legend(figure, grid, 4)
    return figure


def bargaining(table: pd.DataFrame) -> Figure:
    """The first proposer's share over λ, a pair of axes per player whose λ it is."""
    figure, grid = plotting.axes(2, 1, 3, height=2.5, sharey=True)
    for ax, (varied, text) in zip(grid, VARIED.items(), strict=True):
        own = table[table["varied"] == varied]
        for colour, (rho, part) in zip(RHOS, own.groupby("rho"), strict=False):
            ax.plot(part["lam"], part["share"], color=colour, label=f"ρ = {rho:g}")
        for lam in (2.25, 3.2):
            ax.axvline(lam, color=GREY, ls=":", lw=1, label="λ = 2.25 and 3.2")
        ax.axhline(0.5, color=BLACK, lw=0.5)
        ax.set_xlabel(text)
    grid[0].set_ylabel("share of the first proposer")
    _legend(figure, grid, 5)
    return figure


def replies(table: pd.DataFrame) -> Figure:
    """Payoff per round of three players against people, and of the best reply, by δ."""
    figure, ax = plotting.axes(1)
    place = np.arange(len(table))
    looks = {"AllC": (GREEN, "^"), "TFT": (BLUE, "o"), "AllD": (RED, "X")}
    for name, (colour, marker) in looks.items():
        ax.plot(place, table[name], color=colour, marker=marker, label=name)
    style = {"ls": "none", "marker": "o", "ms": 9, "mfc": "none", "color": BLACK}
    ax.plot(place, table["value"], label="best reply", **style)
    ax.set_xticks(place, [f"{delta:g}" for delta in table["delta"]])
    ax.set_xlabel("δ, chance of another round")
    ax.set_ylabel("payoff per round")
    _legend(figure, [ax], 2)
    return figure


def _legend(figure: Figure, grid: Sequence[Axes], columns: int = 3) -> None:
    """One legend of all axes, above them."""
    entries: dict[str, object] = {}
    for ax in grid:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=columns)

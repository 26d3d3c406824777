"""Claim: fitted value iteration learns worse and less steadily than amortized search, and better with more lookahead.

Command: plan2vec reproduce value-iteration        Cost: seconds, see docs/results.md
Expected: amortized at least 97 % with a narrow range; value iteration below it, rising with lookahead k (the paper: "unstable",
"training stability improves with larger k", without numbers).

The graph of 1,000 fresh frames of Table 1 (block `fitted`). k: hops that the walker looks ahead *while it learns*; both walk with
one hop at the end, by Table 1's rule. The interquartile range over seeds is the measure of stability.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from plan2vec.experiments.arrays import Arrays
from plan2vec.experiments.drawing import curve, panels, room_title
from plan2vec.experiments.rows import Row, cell, in_order, markdown, select, values
from plan2vec.experiments.scenario import Scenario, Settings, timed

NAME, TITLE = "value-iteration", "Amortized search beside fitted value iteration"
ROOMS = ("open", "table", "c-maze")
METHODS = ("amortized", "value iteration")
BLOCKS = ("1", "2", "3", "5")  # lookahead of value iteration
AMORTIZED = 0  # its place among the lookaheads


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in settings.scenarios(ROOMS):
        for method in settings.chosen("methods", METHODS):
            depths = [AMORTIZED] if method == "amortized" else [int(block) for block in settings.chosen("blocks", BLOCKS)]
            for depth in depths:
                if settings.lacks(NAME, scene, {"lookahead": depth}, method):
                    metrics, seconds = timed(measure, scene, depth)
                    yield scene.rows(settings, NAME, {"lookahead": depth}, method, metrics, seconds)


def measure(scene: Scenario, depth: int) -> dict[str, float | None]:
    site, config = scene.small, scene.config
    if depth != AMORTIZED:
        config = replace(config, variant="value-iteration", value_iteration=replace(config.value_iteration, lookahead=depth))
    distance = scene.train_map(site, config).on(site.frames)
    return {"success": site.success(distance), "spearman_true": site.agreement(distance)}


def table(rows: list[Row]) -> list[str]:
    """Success, and its quartiles over seeds."""
    rooms = in_order(rows, "domain", ROOMS)
    header = ["variant"] + [words for room in rooms for words in (f"{room_title(room)}, success %", "quartiles")]
    body = []
    for depth in in_order(rows, "lookahead"):
        samples = [100 * values(rows, domain=room, lookahead=depth, metric="success") for room in rooms]
        body.append([variant(depth)] + [words for sample in samples for words in (cell(sample), quartiles(sample))])
    return [*markdown(header, body), advice(rows), ""]


def variant(depth: int) -> str:
    return "amortized" if depth == AMORTIZED else f"value iteration, k = {depth}"


def quartiles(sample: np.ndarray) -> str:
    if not len(sample):
        return "-"
    low, high = np.quantile(sample, (0.25, 0.75))
    return f"{low:.1f} to {high:.1f}"


def advice(rows: list[Row]) -> str:
    """Which variant to use, from the numbers."""
    means = {variant(depth): values(rows, lookahead=depth, metric="success").mean() for depth in in_order(rows, "lookahead")}
    best = max(means, key=lambda name: means[name])
    return f"Over the rooms here the best mean success has: {best} ({100 * means[best]:.1f} %). Use that one."


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    """Success against lookahead; amortized search as a band; every seed as a dot."""
    rooms = in_order(rows, "domain", ROOMS)
    figure, axes = panels(len(rooms))
    depths = [depth for depth in in_order(rows, "lookahead") if depth != AMORTIZED]
    for ax, room in zip(axes, rooms, strict=True):
        part = select(rows, domain=room, metric="success")
        for depth in depths:
            seen = 100 * values(part, lookahead=depth)
            ax.plot(np.full(len(seen), depth), seen, ".", color="0.4", markersize=4)
        curve(ax, part, "lookahead", depths, 1, "value iteration (dots: seeds)", 100)
        amortized = values(part, lookahead=AMORTIZED)
        if len(amortized):
            ax.axhline(100 * amortized.mean(), color="#0072B2", label="amortized")
            ax.axhspan(*(100 * np.quantile(amortized, (0.25, 0.75))), color="#0072B2", alpha=0.2, linewidth=0)
        ax.set(xlabel="lookahead k while learning (hops)", title=room_title(room), ylim=(0, 103), xticks=depths)
    axes[0].set_ylabel("success (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return {NAME: figure}

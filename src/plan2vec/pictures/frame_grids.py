"""Frames in rows: the contact sheet of recordings, a plan as a film strip, below maps too, closures as pairs."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plan2vec.data import Sequences
from plan2vec.model import Model
from plan2vec.pictures.figures import WIDTH, displayable, frame_name, is_image, path_figure, plan_words
from plan2vec.pictures.hops import Hop, count_words, hops_of
from plan2vec.pictures.palette import BLACK, GRAY, ORANGE, PALETTE, RED
from plan2vec.pictures.scene import Scene, draw_axes, draw_points, even_choice
from plan2vec.planner import Plan, hop_lengths

MAX_STRIP, NUM_SHOWN = 14, 10  # frames of a film strip; of the strip below a plan
STRIP_WIDTHS = (1.0,) * 7  # columns of the film strip
PAIR_WIDTHS = (1.0, 1.0, 0.4, 1.0, 1.0, 0.4, 1.0, 1.0)  # three pairs of frames per row, with gaps between
SHEET_ROWS, SHEET_COLUMNS = 4, 8  # sequences and frames of each on the contact sheet
NUM_VECTOR_SEQUENCES, NUM_CURVES = 4, 12  # sequences of vectors drawn as curves, numbers of each vector
KINDS: dict[str, tuple[str, Any]] = {"recorded": (BLACK, "-"), "closure": (BLACK, "--"), "doubtful": (RED, ":")}  # hops


def film_strip(model: Model, plan: Plan) -> Figure:
    """The frames along a plan, an even choice of at most MAX_STRIP; for vectors the path on the map instead."""
    if not is_image(model.sequences):
        return path_figure(model, [plan])
    if plan.nodes is None:
        numbers, below, title = [plan.start, plan.goal], ["start", "goal"], plan_words(model, plan)
    else:
        strip = strip_frames(model, plan.nodes, MAX_STRIP)
        numbers = [*(number for number, _, _, _ in strip), plan.nodes[-1]]
        below = [*(f"{words}{hop.arrow}" for _, words, hop, _ in strip), "goal"]
        note = f", {len(numbers)} of {len(plan.nodes)} frames shown" if len(numbers) < len(plan.nodes) else ""
        signs = "above: frame as sequence:index; below: steps to the next one shown, \u21e2 by a closure"
        title = f"{plan_words(model, plan)}{note}\n{signs}"
    above = ["not on the map" if k < 0 else frame_name(model.sequences, k) for k in numbers]
    return frame_grid(model.sequences, numbers, above, below, STRIP_WIDTHS, title)


def plan_figure(model: Model, plan: Plan, scenes: Sequence[Scene]) -> Figure:
    """The plan in every scene, its frames in a strip below, and a caption: one picture that explains itself."""
    frames = [(plan.start, ""), (plan.goal, "")]
    if plan.nodes is not None:
        shown = strip_frames(model, plan.nodes, NUM_SHOWN)
        frames = [*((number, words) for number, words, _, _ in shown), (plan.goal, "goal")]
    strip, tall = frames if is_image(model.sequences) else [], WIDTH / len(scenes) * max(one.height for one in scenes)
    figure = Figure((WIDTH, tall + 1.0 + 1.3 * bool(strip)), layout="constrained")
    above, *below = figure.subfigures(1 + bool(strip), 1, height_ratios=(tall, 1.3)[: 1 + bool(strip)], squeeze=False)
    hops, colors = hops_of(model, plan.nodes or []), np.full(model.sequences.num_frames, GRAY)
    colors[list(plan.touched)] = ORANGE
    for ax, scene in zip(np.ravel(above[0].subplots(1, len(scenes))), scenes, strict=True):
        draw_points(ax, scene, colors, zorder=1)
        draw_axes(ax, scene)
        ax.set_title(scene.words, fontsize=9)
        for pair, hop in zip(pairwise(plan.nodes or []), hops, strict=True):
            color, dashes = KINDS[hop.kind]
            ax.plot(*scene.points[list(pair)].T[:2], dashes, color=color, linewidth=2.2, zorder=3)
        for number, letter in ((plan.start, "S"), (plan.goal, "G")):
            x, y = scene.points[number, :2].tolist()
            ax.text(x, y, letter, fontsize=8, fontweight="bold", ha="center", va="center", zorder=5,
                    color="white", bbox={"boxstyle": "circle", "facecolor": BLACK, "edgecolor": "white"})
    for row in below:
        for ax, (number, words) in zip(np.ravel(row[0].subplots(1, len(strip))), strip, strict=True):
            ax.imshow(displayable(model.sequences.frames[number]), cmap="gray", vmin=0, vmax=255)
            ax.set_title(frame_name(model.sequences, number), fontsize=7)
            ax.set_xlabel(words.split(" in ")[0], fontsize=7)
            ax.set(xticks=[], yticks=[])
    ends = f"from frame {plan.start} to {plan.goal}"
    told = f"{plan.length:.1f} steps, {count_words(hops)}" if plan.length is not None else f"no path ({plan.reason})"
    figure.suptitle(f"{model.sequences.source}: {plan.method} plan {ends}, {told}", fontsize=9, wrap=True)
    keys = [Line2D([], [], color=color, linestyle=dashes, linewidth=2, label=kind)
            for kind, (color, dashes) in KINDS.items() if kind in {hop.kind for hop in hops}]
    if plan.touched:
        keys += [Line2D([], [], color=ORANGE, linestyle="", marker="o", markersize=3, label="frames touched")]
    figure.legend(handles=keys, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def strip_frames(model: Model, nodes: list[int], most: int) -> list[tuple[int, str, Hop, list[int]]]:
    """An even choice of a plan's frames but the goal, each with the steps to the next one, which add up to the plan's
    length, and with the hop on the way that is most in doubt: what it rests on, and its two frames."""
    lengths, hops, strip = hop_lengths(model.graph, nodes), hops_of(model, nodes), []
    for first, last in pairwise(even_choice(len(nodes), most).tolist()):
        steps = f"{sum(lengths[first:last]):.2f}" + (f" in {last - first} hops" if last - first > 1 else "")
        worst = max(range(first, last), key=lambda k: hops[k].doubt)
        strip.append((nodes[first], steps, hops[worst], nodes[worst : worst + 2]))
    return strip


def frame_grid(sequences: Sequences, numbers: Sequence[int], above: Sequence[str], below: Sequence[str],
               widths: Sequence[float], title: str) -> Figure:
    """Frames in rows of len(widths), with words above and below each; number -1: a gray frame, a gap without words."""
    pixels, cell = sequences.frame_shape[:2], WIDTH / sum(widths)  # all lengths in inches, y down
    image_width, text = 0.93 * cell, 0.2
    image_height = min(image_width * pixels[0] / pixels[1], 2 * cell)
    row_height, top = image_height + text * (3 if any(below) else 1.5), 0.25 + text * (1 + title.count("\n"))
    height = top + row_height * -(-len(numbers) // len(widths)) + 0.05
    figure = Figure((WIDTH, height))
    ax = figure.add_axes((0, 0, 1, 1))
    left = np.concatenate(((0,), np.cumsum(widths)[:-1])) * cell + 0.035 * cell
    for k, (number, head, foot) in enumerate(zip(numbers, above, below, strict=True)):
        x, y = left[k % len(widths)], top + row_height * (k // len(widths)) + text
        if number >= 0 or head:
            image = displayable(sequences.frames[number]) if number >= 0 else np.full(pixels, 230)
            ax.imshow(image, cmap="gray", vmin=0, vmax=255, extent=(x, x + image_width, y + image_height, y))
        ax.text(x + image_width / 2, y - 0.03, head, fontsize=8, ha="center", va="bottom")
        ax.text(x + image_width / 2, y + image_height + 0.04, foot, fontsize=8, ha="center", va="top")
    ax.text(WIDTH / 2, 0.1, title, fontsize=10, ha="center", va="top")
    ax.set(xlim=(0, WIDTH), ylim=(height, 0), aspect="auto")
    ax.set_axis_off()
    return figure


def contact_sheet(sequences: Sequences) -> Figure:
    first = np.flatnonzero(np.diff(sequences.sequence, prepend=sequences.sequence[0] - 1))
    numbers, length = list[int](), np.diff(first, append=sequences.num_frames)
    for row in even_choice(len(first), SHEET_ROWS):
        inside = (first[row] + even_choice(length[row], SHEET_COLUMNS)).tolist()
        numbers += inside + [-1] * (SHEET_COLUMNS - len(inside))
    above = [frame_name(sequences, k) if k >= 0 else "" for k in numbers]
    title = f"{sheet_words(sequences)}, one sequence per row\nabove: frame as sequence:index"
    return frame_grid(sequences, numbers, above, [""] * len(numbers), (1.0,) * SHEET_COLUMNS, title)


def sheet_words(sequences: Sequences) -> str:
    num = len(np.unique(sequences.sequence))
    if is_image(sequences):
        return f"{min(num, SHEET_ROWS)} of {num:,} sequences, at most {SHEET_COLUMNS} frames of each"
    return f"{min(num, NUM_VECTOR_SEQUENCES)} of {num:,} sequences, at most {NUM_CURVES} numbers of each vector"


def inspection_sheet(sequences: Sequences) -> Figure:
    """The contact sheet of `plan2vec inspect`; vectors, which cannot be looked at, as curves over time."""
    if is_image(sequences):
        return contact_sheet(sequences)
    labels = np.unique(sequences.sequence)
    drawn = labels[even_choice(len(labels), NUM_VECTOR_SEQUENCES)]
    figure = Figure((WIDTH, 1.6 * len(drawn)), layout="constrained")
    axes = np.ravel(figure.subplots(len(drawn), 1))
    for ax, label in zip(axes, drawn, strict=True):
        ax.set_prop_cycle(color=PALETTE)
        ax.plot(sequences.frames[sequences.sequence == label][:, :NUM_CURVES], linewidth=0.8)
        ax.set_ylabel(f"sequence {label}", fontsize=8)
        ax.tick_params(labelsize=7)
    axes[-1].set_xlabel(f"frame of the sequence (drawn: {sheet_words(sequences)})", fontsize=8)
    return figure


def closure_figure(model: Model, suspicious: list[dict]) -> Figure:
    numbers, above, below = [], [], []
    for k, closure in enumerate(suspicious):
        gap, pair = k % 3 < 2, [closure["first"], closure["second"]]
        numbers += pair + [-1] * gap
        above += [f"{number} = {frame_name(model.sequences, number)}" for number in pair] + [""] * gap
        sure = "" if closure["confidence"] is None else f", {closure['confidence']:.0%} sure"
        below += [f"{closure['distance']:.2f} steps{sure}", f"{closure['paths']:.2%} of paths"] + [""] * gap
    title = ("closures to look at: do both frames of a pair show almost the same place?\n"
             "above: frame number = sequence:index; below: local distance, share of shortest paths that use it")
    return frame_grid(model.sequences, numbers, above, below, PAIR_WIDTHS, title)

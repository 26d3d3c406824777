"""Which pictures a report shows, in which order, with which words."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from plan2vec.data import training_frames
from plan2vec.files import own_folder
from plan2vec.graph.suspicious import suspicious_closures
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.training import Journal
from plan2vec.model import Model
from plan2vec.pictures.figures import (
    distance_figure,
    far_task,
    graph_figure,
    map_figure,
    path_figure,
    room_scene,
    save_figure,
    training_figure,
    value_figure,
)
from plan2vec.pictures.film import closure_figure, contact_sheet, film_strip, is_image
from plan2vec.search.shortest_paths import connected_parts

NUM_SUSPICIOUS = 9  # closures shown as frame pairs, three a row


@dataclass(frozen=True)
class Picture:
    """A picture in a file."""

    path: Path
    title: str
    caption: str  # what to see in it


def save_figures(model: Model, folder: Path) -> list[Picture]:
    """Every picture that suits the model, as PNG in `figures/` of the folder."""
    pictures = []
    for name, title, caption, figure in _drawings(model):
        path = own_folder(Path(folder), "figures") / f"{name}.png"
        save_figure(figure, path)
        pictures.append(Picture(path, title, caption))
    return pictures


def _drawings(model: Model) -> Iterator[tuple[str, str, str, Figure]]:
    """(file name, title, caption, picture), in the order of a report."""
    if is_image(model.sequences):
        words = "A few frames of several sequences, in the order they were recorded."
        yield "frames", "The recordings", words, contact_sheet(model.sequences)
    yield "map", "The metric map", _map_caption(model), map_figure(model)
    words = (
        "Left, the steps that were recorded; right, pairs of frames found to be at most a step or so apart. "
        "A closure that crosses a wall or joins places far apart is false: the longest ones are drawn on top."
    )
    yield "graph", "The graph", words, graph_figure(model)
    yield from _plan_drawings(model)
    words = "On the line the map is perfect; below it, the map thinks two places nearer than the graph says."
    yield "distances", "Learned distance against shortest path", words, distance_figure(model)
    yield from _closure_drawings(model)
    records = Journal(model.folder).records()
    if any("loss" in line for line in records):
        words = "The loss should fall and level off. If it still falls at the end, train longer."
        yield "training", "Training", words, training_figure(records)


def _map_caption(model: Model) -> str:
    words = "Each point is a frame; two points should be as far apart as the shortest way between their places is long. "
    known = room_scene(model.sequences) is not None
    words += "Neighbouring colours should stay together." if known else "Frames of one sequence should lie along a curve."
    usable = training_frames(model.sequences.sequence, model.config.holdout, rng_at(model.config.seed, Stream.HOLDOUT))
    num_parts, _ = connected_parts(model.graph[usable][:, usable])
    return words + (
        f" The graph has {num_parts} parts: how far one part lies from another has no meaning." if num_parts > 1 else ""
    )


def _plan_drawings(model: Model) -> Iterator[tuple[str, str, str, Figure]]:
    start, goal = far_task(model)
    greedy, exact = model.plan(start, goal, "greedy"), model.plan(start, goal, "dijkstra")
    words = "The number the planner goes by. It should grow along the ways that can be walked, not straight through walls."
    yield "value", "Distance to one goal", words, value_figure(model, goal)
    words = "Greedy hops to the neighbour that the map puts nearest to the goal; the exact shortest path searches the whole graph."
    yield "path", "A plan", words, path_figure(model, [greedy, exact])
    if is_image(model.sequences):
        words = "Each frame should follow from the one before it by a small movement."
        yield "strip", "The plan as a film strip", words, film_strip(
            model, greedy if greedy.nodes is not None else exact
        )


def _closure_drawings(model: Model) -> Iterator[tuple[str, str, str, Figure]]:
    if not is_image(model.sequences):
        return
    suspicious = suspicious_closures(
        model.graph, model.sequences.sequence, NUM_SUSPICIOUS, rng_at(model.config.seed, Stream.PICTURES)
    )
    words = (
        "A false closure is a short cut, so many shortest paths run through it (a true one in a narrow place is used as often). "
        "If the two frames of a pair show places far apart, it is false: ask for stricter --closures.support or a smaller --radius."
    )
    if suspicious:
        yield "closures", "Closures to look at", words, closure_figure(model, suspicious)

"""Which pictures the report shows, in which order, with which titles and captions."""

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
from plan2vec.pictures import figures
from plan2vec.pictures.figures import is_image, save_figure
from plan2vec.pictures.frame_grids import closure_figure, contact_sheet, film_strip
from plan2vec.pictures.scene import room_scene
from plan2vec.search.shortest_paths import connected_parts

NUM_SUSPICIOUS = 9  # closures shown as frame pairs, three per row


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
    yield "map", "The metric map", _map_caption(model), figures.map_figure(model)
    words = (
        "Left, the steps that were recorded; right, pairs of frames found to be a step or so from each other. "
        "A closure that crosses a wall or joins distant places is false: the longest ones are drawn on top."
    )
    yield "graph", "The graph", words, figures.graph_figure(model)
    yield from _plan_drawings(model)
    words = "On the line the map is perfect; below it, the map thinks two places nearer than the graph says."
    yield "distances", "Learned distance against shortest path", words, figures.distance_figure(model)
    yield from _closure_drawings(model)
    records = Journal(model.folder).records()
    if any("loss" in line for line in records):
        words = "The loss should fall and level off. If it still falls at the end, train longer."
        yield "training", "Training", words, figures.training_figure(records)


def _map_caption(model: Model) -> str:
    words = "Each point is a frame; the distance of two points should be the length of the shortest way between them. "
    if room_scene(model.sequences) is not None:
        words += "Neighbouring colours should stay together."
    else:
        words += "Each colour is a sequence (eight colours, then they repeat): its frames should lie along a curve."
        words += " The pictures on the map stand at their own points." if is_image(model.sequences) else ""
    usable = training_frames(model.sequences.sequence, model.config.holdout, rng_at(model.config.seed, Stream.HOLDOUT))
    num_parts, _ = connected_parts(model.graph[usable][:, usable])
    if num_parts > 1:
        words += f" The graph has {num_parts} parts: how far one part lies from another has no meaning."
    return words


def _plan_drawings(model: Model) -> Iterator[tuple[str, str, str, Figure]]:
    start, goal = figures.far_task(model)
    greedy, exact = model.plan(start, goal, "greedy"), model.plan(start, goal, "dijkstra")
    words = "The planner follows this number. It should grow along ways that can be walked, not straight through walls."
    yield "value", "Distance to one goal", words, figures.value_figure(model, goal)
    words = "Greedy hops to the neighbour that the map puts nearest to the goal. "
    words += "The exact shortest path searches the whole graph. Compare steps, not hops: "
    words += "hops differ in length, so the path of fewer steps may have more hops."
    yield "path", "A plan", words, figures.path_figure(model, [greedy, exact])
    if is_image(model.sequences):
        words = "Each frame should follow from the one before it by a small movement."
        shown = greedy if greedy.nodes is not None else exact
        yield "strip", "The plan as a film strip", words, film_strip(model, shown)


def _closure_drawings(model: Model) -> Iterator[tuple[str, str, str, Figure]]:
    if not is_image(model.sequences):
        return
    rng = rng_at(model.config.seed, Stream.PICTURES)
    suspicious = suspicious_closures(model.graph, model.sequences.sequence, NUM_SUSPICIOUS, rng,
                                     confidence=model.built.confidence)
    words = (
        "The most doubtful ones first, then those that most shortest paths use. A false closure is a short cut. A true "
        "one in a narrow passage is used as often. If the two frames of a pair show places far from each other, the "
        "closure is false: strike it with `plan2vec closures`. Many false ones: ask for more evidence "
        "(--closures.max-false, --closures.support)."
    )
    if suspicious:
        yield "closures", "Closures to look at", words, closure_figure(model, suspicious)

"""Loop closures a person should look at, as a list and a picture, and what the person says about them."""

from collections.abc import Iterable
from pathlib import Path

from plan2vec.graph.suspicious import suspicious_closures
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.pictures.figures import frame_name, is_image, save_figure
from plan2vec.pictures.frame_grids import closure_figure
from plan2vec.runs.products import fitted_struck, load_graph
from plan2vec.runs.struck import Judged, Pair, drop_struck, judge, read_judged


def suspects(model: Model, num: int) -> list[dict]:
    """The `num` closures most worth a look, without those that were judged; frames also as sequence:index."""
    if num < 1:
        raise ValueError(f"--num must be at least 1, but is {num}")
    judged = read_judged(model.folder).all
    rng = rng_at(model.config.seed, Stream.PICTURES)
    found = suspicious_closures(model.graph, model.sequences.sequence, num + len(judged), rng,
                                confidence=model.built.confidence)
    unjudged = [closure for closure in found if (closure["first"], closure["second"]) not in judged]
    return [
        closure | {"names": [frame_name(model.sequences, closure[end]) for end in ("first", "second")]}
        for closure in unjudged[:num]
    ]


def draw_suspects(model: Model, closures: list[dict], path: Path) -> Path | None:
    """Write the frame pairs as a picture; None where there is nothing to look at."""
    if not closures or not is_image(model.sequences):
        return None
    save_figure(closure_figure(model, closures), path)
    return path


def judge_by_name(model: Model, struck: Iterable[str], kept: Iterable[str]) -> Judged:
    """Strike and keep closures given as "12-480" or "3:4-7:2"; the graph follows. A bad name changes nothing."""
    assert model.folder is not None
    graph = load_graph(model.folder / "graph.npz").graph  # as it was found: a struck closure can be kept again
    false, true = (
        {pair_of(model, text, flag) for text in texts} for flag, texts in (("--strike", struck), ("--keep", kept))
    )
    if both := false & true:
        first, second = min(both)
        raise ValueError(f"closure {first}-{second} is to be struck and kept at once; say one of the two")
    judged = judge(model.folder, graph, model.sequences.sequence, sorted(false), sorted(true))
    model.graph = drop_struck(graph, model.sequences.sequence, judged.struck)
    return judged


def pair_of(model: Model, text: str, flag: str) -> Pair:
    """Two frame numbers, the smaller one first, from "12-480"."""
    ends = text.split("-")
    if len(ends) != 2 or not all(ends):
        raise ValueError(f"{flag} {text}: expected two frames with a hyphen between, such as 12-480 or 3:4-7:2")
    first, second = (model.frame_number(end, f"{flag} {text}: each frame") for end in ends)
    return min(first, second), max(first, second)


def map_follows(model: Model) -> bool:
    """Whether the embedding was fitted to the graph as it is now, with what is struck left out."""
    assert model.folder is not None
    return fitted_struck(model.folder) == set(read_judged(model.folder).struck)

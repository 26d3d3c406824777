"""The graph of a run for other programs: GraphML, tables (CSV), and a topomap, by which GNM / ViNT robots navigate.

    graphml   one file; nodes have episode, index and part, edges their length in steps and whether they are a closure
    csv       a folder with nodes.csv and edges.csv, the same in rows, and the map's vectors
    topomap   a folder with 0.png, 1.png, ... along the plan from start to goal, in the size of the run's frames"""

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
from PIL import Image

from plan2vec.data import index_within
from plan2vec.files import new_folder, replacing
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.model import Model


def export(model: Model, kind: str, out: Path, start: str | None = None, goal: str | None = None) -> dict[str, object]:
    """Write the run's graph, or the plan from `start` to `goal`, to `out`, which must not exist; says what it wrote."""
    if out.exists() or out.is_symlink():
        raise ValueError(f"{out} exists already; choose another place")
    if kind == "topomap":
        return write_topomap(model, out, start, goal)
    if start is not None or goal is not None:
        raise ValueError(f"--start and --goal belong to --format topomap, but the format is {kind}")
    if kind == "graphml":
        with replacing(out) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.writelines(graphml_lines(model))
    else:
        vectors = {f"vector_{axis}": model.vectors[:, axis] for axis in range(model.vectors.shape[1])}
        nodes = {"frame": np.arange(len(model.vectors))} | node_columns(model) | vectors
        with new_folder(out) as temporary:
            for name, columns in (("nodes", nodes), ("edges", edge_columns(model))):
                with open(temporary / f"{name}.csv", "w", encoding="utf-8") as file:
                    file.writelines(csv_lines(columns))
    return {"out": str(out), "nodes": model.graph.shape[0], "edges": model.graph.nnz}


def node_columns(model: Model) -> dict[str, np.ndarray]:
    """Of every frame: its episode, its place there, and its part of the graph (0 the largest)."""
    sequence = model.sequences.sequence
    return {"episode": sequence, "index": index_within(sequence), "part": model.parts[1]}


def edge_columns(model: Model) -> dict[str, np.ndarray]:
    graph = model.graph
    closure = closure_entries(graph, model.sequences.sequence).astype(np.int64)
    return {"source": edge_rows(graph), "target": graph.indices, "steps": graph.data, "closure": closure}


def graphml_lines(model: Model) -> Iterator[str]:
    """A directed GraphML document, line by line; every hop stands there in each direction that it leads."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    kinds = (("node", "episode", "int"), ("node", "index", "int"), ("node", "part", "int"), ("edge", "steps", "double"),
             ("edge", "closure", "boolean"))
    for owner, name, kind in kinds:
        yield f'<key id="{name}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield f'<graph id={quoteattr(model.sequences.source)} edgedefault="directed">\n'
    node = '<node id="n{}"><data key="episode">{}</data><data key="index">{}</data><data key="part">{}</data></node>\n'
    for number, row in enumerate(_rows(node_columns(model))):
        yield node.format(number, *row)
    for source, target, steps, closure in _rows(edge_columns(model)):
        inner = f'<data key="steps">{steps:.6g}</data><data key="closure">{"true" if closure else "false"}</data>'
        yield f'<edge source="n{source}" target="n{target}">{inner}</edge>\n'
    yield "</graph>\n</graphml>\n"


def csv_lines(columns: dict[str, np.ndarray]) -> Iterator[str]:
    """The names, then one line per row; numbers with a point have six digits, what is not known is empty."""
    yield ",".join(columns) + "\n"
    for row in _rows(columns):
        words = (f"{value:.6g}".replace("nan", "") if isinstance(value, float) else str(value) for value in row)
        yield ",".join(words) + "\n"


def _rows(columns: dict[str, np.ndarray]) -> Iterator[tuple]:
    return zip(*(column.tolist() for column in columns.values()), strict=True)


def write_topomap(model: Model, out: Path, start: str | None, goal: str | None) -> dict[str, object]:
    if len(shape := model.sequences.frame_shape) != 3:
        raise ValueError(f"--format topomap needs frames that are images, but these are vectors of shape {shape}")
    if start is None or goal is None:
        raise ValueError("--format topomap needs --start and --goal: frame numbers, sequence:index or image files")
    plan = model.plan(start, goal, "dijkstra")
    if plan.nodes is None:
        raise ValueError(f"there is no way from {start} to {goal} to write: {plan.reason}; choose others")
    with new_folder(out) as temporary:
        for place, number in enumerate(plan.nodes):
            frame = np.asarray(model.sequences.frames[number])
            Image.fromarray(frame if frame.shape[2] == 3 else frame[:, :, 0]).save(temporary / f"{place}.png")
    return {"out": str(out), "images": len(plan.nodes), "steps": plan.length, "frames": plan.nodes}

"""The report: one HTML page that needs nothing else. Numbers in plain words, verdicts with remedies, and pictures."""

import base64
import json
import platform
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import numpy as np
import scipy
import torch
from matplotlib.figure import Figure

from plan2vec.config import Config, flat, to_json
from plan2vec.data import training_frames
from plan2vec.domains import find_domain
from plan2vec.files import own_folder, write_text
from plan2vec.learning.gradient_loop import Journal
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.pictures import figures
from plan2vec.pictures.figures import figure_bytes, is_image, save_figure, verdict_figure
from plan2vec.pictures.frame_grids import closure_figure, contact_sheet, film_strip
from plan2vec.pictures.hops import doubted_closures
from plan2vec.pictures.scene import room_scene
from plan2vec.search.shortest_paths import connected_parts
from plan2vec.verdict import LINES, POSITION, Line, judged, make_verdict, number_text
from plan2vec.version import __version__

NUM_SUSPICIOUS = 9  # closures shown as frame pairs, three per row
STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def write_report(model: Model, scorecard: dict, folder: Path) -> Path:
    """Write `report.html` and the PNGs under `figures/` into the folder; returns the page's path."""
    pictures = []
    for name, title, caption, figure in _drawings(model):
        save_figure(figure, path := own_folder(Path(folder), "figures") / f"{name}.png")
        pictures.append((path, title, caption))
    write_text(path := Path(folder) / "report.html", page(model, scorecard, pictures))
    return path


def page(model: Model, scorecard: dict, pictures: list[tuple[Path, str, str]]) -> str:
    """The whole page; `pictures`: PNG, title, and what to see in it."""
    title, seconds = f"plan2vec: {model.sequences.source}", scorecard.get("seconds") or model.seconds
    unit = domain.unit if (domain := find_domain(model.sequences.domain)) else POSITION
    held_out = [card] if (card := scorecard.get("holdout")) else []  # None where no step was held out
    versions = {"plan2vec": __version__, "Python": platform.python_version(), "numpy": np.__version__,
                "scipy": scipy.__version__, "torch": str(torch.__version__)}
    times = ((stage.replace("_", " "), f"{took:,.1f} s") for stage, took in seconds.items())
    sections = {name: image_inside(path.read_bytes(), name, caption) for path, name, caption in pictures}
    sections |= {
        "Settings": _settings(model.config), "Time": _table(times), "Versions": _table(versions.items()),
        "All numbers": _folded("scorecard.json", f"<pre>{escape(json.dumps(scorecard, indent=1))}</pre>")}
    body = (f"<h1>{escape(title)}</h1>", _verdict(model, scorecard),
            _folded("The numbers, in words", _score_table(scorecard, unit)),
            *(_folded("The numbers of frames never trained on", _score_table(card, unit)) for card in held_out),
            _summary(model), *(f"<h2>{escape(name)}</h2>{text}" for name, text in sections.items()))
    return html_page(title, "\n".join(body))


def html_page(title: str, body: str) -> str:
    """A page that needs nothing else. Its policy forbids the browser to load anything from outside."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n")


def _verdict(model: Model, scorecard: dict) -> str:
    """One sentence with its reason and what to do first, and a picture of the reason beside it."""
    verdict = make_verdict(scorecard, model.folder or "RUN")
    picture = verdict_figure(model, next(iter(verdict.look_at), None))
    image = image_inside(figure_bytes(picture), "the reason as a picture")
    commands = " or ".join(f"<code>{escape(command)}</code>" for command in verdict.next)
    words = f"<p class=\"sentence\"><b>{escape(verdict.headline)}</b> {escape(verdict.sentence)}</p>"
    more = f"<p>{escape(f'{verdict.advice} {verdict.unknown}'.strip())} Next: {commands}</p>"
    return f'<section class="verdict {"good" if verdict.good else "look"}">{image}<div>{words}{more}</div></section>'


def _summary(model: Model) -> str:
    sequences, num_sequences = model.sequences, len(np.unique(model.sequences.sequence))
    count = f"{num_sequences:,} sequence{'s' if num_sequences != 1 else ''}"
    frames = f"{'images' if is_image(sequences) else 'vectors'} of {' x '.join(map(str, sequences.frame_shape))}"
    known = "known, used for evaluation only" if sequences.position is not None else "not known"
    facts = {"Source": sequences.source, "Frames": f"{sequences.num_frames:,} {frames}, in {count}",
             "True positions": known, "Closures": model.closure_report}
    return _table(facts.items())


def _score_table(scorecard: dict, position_unit: str) -> str:
    """Every number in words, with its verdict, one line per method where methods differ; its name for programs last."""
    here = {name: value for name, value in scorecard.items() if name not in ("seconds", "holdout", "verdict")}
    good, rows = judged(scorecard), []
    for name, value in flat(here, ", "):
        line = LINES.get(name.split(",")[0], Line(""))
        number = escape(number_text(value, line.unit.replace(POSITION, position_unit)))
        remedy = re.sub(r"--[\w.-]*\w", r"<code>\g<0></code>", escape(line.remedy))
        bad = f'<span class="look">look at this</span>: {remedy}'
        verdict = "" if name not in good else '<span class="good">good</span>' if good[name] else bad
        cells = f'<td class="number">{number}</td><td>{verdict}</td><td class="name">{escape(name)}</td>'
        rows.append(f'<tr><th scope="row">{escape(line.words or name)}</th>{cells}</tr>')
    head = "<thead><tr><th>what it means</th><th>value</th><th>verdict</th><th>name</th></tr></thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _settings(config: Config) -> str:
    default = dict(flat(to_json(Config())))
    rows = [(name, f"{value}{f' (default: {default[name]})' if value != default[name] else ''}")
            for name, value in flat(to_json(config))]
    return f"<details><summary>{len(rows)} settings</summary>{_table(rows)}</details>"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = (f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<table class="facts"><tbody>{"".join(lines)}</tbody></table>'


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def image_inside(png: bytes, words: str, caption: str = "") -> str:
    """A picture that is part of the page; `words` tell what it shows, the caption stands below it."""
    image = f'<img alt="{escape(words)}" src="data:image/png;base64,{base64.b64encode(png).decode("ascii")}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>" if caption else image


def _drawings(model: Model) -> Iterator[tuple[str, str, str, Figure]]:
    """(file name, title, caption, picture), in the order of a report."""
    if is_image(model.sequences):
        words = "A few frames of several sequences, in the order they were recorded."
        yield "frames", "The recordings", words, contact_sheet(model.sequences)
    yield "map", "The metric map", _map_caption(model), figures.map_figure(model)
    words = ("Left, the steps that were recorded; right, pairs of frames found to be a step or so from each other. "
             "A closure that crosses a wall or joins distant places is false: the longest ones are drawn on top.")
    yield "graph", "The graph", words, figures.graph_figure(model)
    start, goal = figures.far_task(model)
    words = "The planner follows this number. It should grow along ways that can be walked, not straight through walls."
    yield "value", "Distance to one goal", words, figures.value_figure(model, goal)
    greedy, exact = model.plan(start, goal, "greedy"), model.plan(start, goal, "dijkstra")
    words = ("Greedy hops to the neighbour that the map puts nearest to the goal. The exact shortest path searches the "
             "whole graph. Compare steps, not hops: hops differ in length, so the path of fewer steps may have more "
             "hops.")
    yield "path", "A plan", words, figures.path_figure(model, [greedy, exact])
    if is_image(model.sequences):
        words = "Each frame should follow from the one before it by a small movement."
        yield "strip", "The plan as a film strip", words, film_strip(model, exact if greedy.nodes is None else greedy)
    words = "On the line the map is perfect; below it, the map thinks two places nearer than the graph says."
    yield "distances", "Learned distance against shortest path", words, figures.distance_figure(model)
    if is_image(model.sequences) and (doubted := doubted_closures(model, NUM_SUSPICIOUS)):
        words = ("The most doubtful ones first, then those that most shortest paths use. A false closure is a short "
                 "cut. A true one in a narrow passage is used as often. If the two frames of a pair show places far "
                 "from each other, strike it with `plan2vec closures`. Many false ones: ask for more evidence "
                 "(--closures.max-false, --closures.support).")
        yield "closures", "Closures to look at", words, closure_figure(model, doubted)
    records = Journal(model.folder).records()
    if any("loss" in line for line in records):
        words = "The loss should fall and level off. If it still falls at the end, train longer."
        yield "training", "Training", words, figures.training_figure(records)


def _map_caption(model: Model) -> str:
    words = "Each point is a frame; the distance of two points should be the length of the shortest way between them. "
    colors = "Each colour is a sequence (eight colours, then they repeat): its frames should lie along a curve."
    colors += " The pictures on the map stand at their own points." if is_image(model.sequences) else ""
    words += colors if room_scene(model.sequences) is None else "Neighbouring colours should stay together."
    usable = training_frames(model.sequences.sequence, model.config.holdout, rng_at(model.config.seed, Stream.HOLDOUT))
    if (num_parts := connected_parts(model.graph[usable][:, usable])[0]) > 1:
        words += f" The graph has {num_parts} parts: how far one part lies from another has no meaning."
    return words

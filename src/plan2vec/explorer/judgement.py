"""What the page says about the whole map: the verdict in words, a picture of its reason, its numbers in words."""

import json
import sys
from typing import Any

import numpy as np
from dash import html

from plan2vec.domains import find_domain
from plan2vec.evaluation import truth_of
from plan2vec.files import read_text
from plan2vec.model import Model
from plan2vec.readers.messages import UNREADABLE
from plan2vec.validity import SOON, closure_numbers, counted_closures
from plan2vec.verdict import LINES, judged, make_verdict, number_text

MANY_EDGES = 5_000_000  # graphs with more are not compared with the truth before the page opens


def read_card(model: Model) -> tuple[dict, bool]:
    """The scorecard that `fit` or `evaluate` left, and True; without one what the model itself knows, and False."""
    path = None if model.folder is None else model.folder / "scorecard.json"
    if path is not None and path.exists():
        try:
            card = json.loads(read_text(path))
            verdict_section(model, card, True)
            return card, True
        except UNREADABLE:
            print(f"explorer: {path} is no scorecard that this version reads; it is left out", file=sys.stderr)
    sequences, truth = model.sequences, truth_of(model.sequences)
    min_gap = 0 if find_domain(sequences.domain) else SOON
    num_parts, part = model.parts
    card = {
        "num_frames": sequences.num_frames, "num_components": num_parts, "largest_component_share": np.mean(part == 0),
        "local_accuracy": model.local_accuracy, "reversibility": model.reversibility, "directed": model.directed,
        "repeated": model.built.repeated,
        "recognized": model.trained.recognized if model.config.view == "moving" else None, "view": model.config.view,
        "estimated_false_closures": model.built.estimated_false,
        "loop_closures": int(np.count_nonzero(counted_closures(model.graph, sequences.sequence, min_gap))),
    }
    if truth is not None and model.graph.nnz <= MANY_EDGES:
        card |= closure_numbers(model.graph, sequences.sequence, truth, None, min_gap)
    return card, False


def verdict_section(model: Model, card: dict, evaluated: bool) -> html.Section:
    """One sentence with its reason and what to do first; the numbers are folded below."""
    run = model.folder or "RUN"
    verdict = make_verdict(card, run)
    late = [] if evaluated else [f"Plans were not tried yet: plan2vec evaluate {run}"]
    rest = " ".join([verdict.advice, verdict.unknown, *late])
    look: list[Any] = [" ", html.Button("show the closures", id="show-closures")] if card.get("loop_closures") else []
    headline = verdict.headline if evaluated or not verdict.good else "Not evaluated yet."
    words = html.Div([html.P([html.B(headline), " ", verdict.sentence], className="sentence"),
                      html.P([rest, *look, " ", _numbers(card)], className="advice")])
    looks = "bad" if not verdict.good else "good" if evaluated else "open"
    picture = html.A(html.Img(id="verdict-image", alt="the reason as a picture"), href="/verdict.png", target="_blank",
                     title="open the picture in full size")
    return html.Section([picture, words], id="verdict", className=looks)


def _numbers(card: dict) -> html.Details:
    """Every number that was judged, in words; opened, it lies over the page."""
    rows = []
    for name, good in judged(card).items():
        line = LINES[name]
        number = f"{card[name]:.1%}" if line.unit == "share" else number_text(card[name], line.unit)
        cells = [line.words, number, "good" if good else f"look at this: {line.remedy}"]
        rows.append(html.Tr([html.Td(cell) for cell in cells], className="good" if good else "bad"))
    return html.Details([html.Summary("The numbers, in words"), html.Table(html.Tbody(rows))])

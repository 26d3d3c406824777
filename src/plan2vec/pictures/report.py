"""The report: one HTML page that needs nothing else. Numbers in plain words, verdicts with remedies, and pictures."""

import base64
import json
import platform
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np
import scipy
import torch

from plan2vec.config import Config, to_json
from plan2vec.domains import find_domain
from plan2vec.files import write_text
from plan2vec.model import Model
from plan2vec.pictures.figures import is_image
from plan2vec.pictures.report_pictures import Picture, save_figures
from plan2vec.verdict import LINES, POSITION, Line, judged, make_verdict, number_text
from plan2vec.version import __version__

STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def write_report(model: Model, scorecard: dict, folder: Path) -> Path:
    """Write `report.html` and the PNGs under `figures/` into the folder; returns the page's path."""
    path = Path(folder) / "report.html"
    write_text(path, page(model, scorecard, save_figures(model, folder)))
    return path


def page(model: Model, scorecard: dict, pictures: list[Picture]) -> str:
    """The whole page. The policy in its head forbids the browser to load anything from outside."""
    title = f"plan2vec: {model.sequences.source}"
    seconds = scorecard.get("seconds") or model.seconds
    domain = find_domain(model.sequences.domain)
    unit = domain.unit if domain else POSITION
    held_out = [scorecard["holdout"]] if "holdout" in scorecard else []
    numbers = escape(json.dumps(scorecard, indent=1))
    body = "\n".join((
        f"<h1>{escape(title)}</h1>",
        _summary(model, scorecard),
        _section("Scorecard", _score_table(scorecard, unit)),
        *(_section("Scorecard of frames never trained on", _score_table(card, unit)) for card in held_out),
        *(_section(picture.title, _figure(picture)) for picture in pictures),
        _section("Settings", _settings(model.config)),
        _section("Time", _table((stage.replace("_", " "), f"{took:,.1f} s") for stage, took in seconds.items())),
        _section("Versions", _table(versions().items())),
        f"<h2>All numbers</h2><details><summary>scorecard.json</summary><pre>{numbers}</pre></details>",
    ))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def versions() -> dict[str, str]:
    return {
        "plan2vec": __version__, "Python": platform.python_version(), "numpy": np.__version__,
        "scipy": scipy.__version__, "torch": str(torch.__version__)
    }


def _summary(model: Model, scorecard: dict) -> str:
    """The verdict, and what the data was."""
    sequences = model.sequences
    num_sequences = len(np.unique(sequences.sequence))
    count = f"{num_sequences:,} sequence{'s' if num_sequences != 1 else ''}"
    frames = f"{'images' if is_image(sequences) else 'vectors'} of {' x '.join(map(str, sequences.frame_shape))}"
    known = "known, used for evaluation only" if sequences.position is not None else "not known"
    verdict = make_verdict(scorecard, model.folder or "RUN")
    facts = {
        "Source": sequences.source,
        "Frames": f"{sequences.num_frames:,} {frames}, in {count}",
        "True positions": known,
        "Closures": model.closure_report,
    }
    words = escape(f"{verdict.sentence} Next: {' or '.join(verdict.next)}")
    return f'<p class="{"good" if verdict.good else "look"}">{words}</p>' + _table(facts.items())


def _score_table(scorecard: dict, position_unit: str) -> str:
    """Every number with its meaning and verdict, one line per method where methods differ."""
    here = {name: value for name, value in scorecard.items() if name not in ("seconds", "holdout", "verdict")}
    rows = [_score_row(name, value, position_unit, judged(scorecard).get(name)) for name, value in _flat(here, ", ")]
    head = "<thead><tr><th>number</th><th>value</th><th>what it means</th><th>verdict</th></tr></thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _flat(values: dict, between: str, before: str = "") -> Iterable[tuple[str, object]]:
    """Every value with its name; a value inside another mapping has both names, with `between` between them."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, between, f"{before}{name}{between}")
        else:
            yield f"{before}{name}", value


def _score_row(name: str, value: object, position_unit: str, is_good: bool | None) -> str:
    line = LINES.get(name.split(",")[0], Line(""))
    remedy = re.sub(r"--[\w.-]*\w", r"<code>\g<0></code>", escape(line.remedy))
    good, bad = '<span class="good">good</span>', f'<span class="look">look at this</span>: {remedy}'
    verdict = {True: good, False: bad, None: ""}[is_good]
    number = escape(number_text(value, line.unit.replace(POSITION, position_unit)))
    cells = f'<td class="number">{number}</td><td>{escape(line.words)}</td><td>{verdict}</td>'
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def _settings(config: Config) -> str:
    """Every setting, those that differ from the default marked."""
    default = dict(_flat(to_json(Config()), "."))
    rows = [(name, str(value) + (f" (default: {default[name]})" if value != default[name] else ""))
            for name, value in _flat(to_json(config), ".")]
    return f"<details><summary>{len(rows)} settings</summary>{_table(rows)}</details>"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = (f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<table class="facts"><tbody>{"".join(lines)}</tbody></table>'


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}"


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.path.read_bytes()).decode("ascii")
    image = f'<img alt="{escape(picture.title)}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{escape(picture.caption)}</figcaption></figure>"

"""The page of a run that `fit` is still writing: how far it is, what is ready. It becomes the map when all is there."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from flask import Flask, Response

from plan2vec.config import Config
from plan2vec.explorer.images import serve_frames
from plan2vec.learning.training import Journal
from plan2vec.pictures.scene import even_choice
from plan2vec.runs import manifest
from plan2vec.runs.folder import PRODUCTS, read_config, read_data
from plan2vec.runs.products import describe_graph

# words for each product, in the order of making
STAGES = {file: name.replace("_", " ") for name, file in PRODUCTS.items()}
REFRESH = 3  # seconds
LONG_QUIET = 120  # seconds without a new file or line after which the page says that the fit may have ended
NUM_PICTURES = 12  # frames shown
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="{refresh}">
<title>plan2vec explorer: fit under way</title><link rel="icon" href="data:,"><style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 21px; }} .now {{ font-weight: 600; }} .later, .quiet {{ opacity: 0.75; }}
img {{ width: 76px; height: 76px; object-fit: contain; image-rendering: pixelated; border: 1px solid #888;
 margin-right: 4px; }}
</style></head><body><h1>{title}</h1>{body}
<p class="quiet">This page looks again every {refresh} seconds and becomes the map when all is there.</p>
</body></html>"""


@dataclass(frozen=True)
class Progress:
    """How far a fit is."""

    finished: tuple[str, ...]  # products that are there
    stage: str  # what is being made, in words
    count: str  # how many updates of it, where the stage learns
    quiet: float  # seconds since the folder last changed


def read_progress(folder: Path) -> Progress:
    """How far the fit of a folder is, from what it has written."""
    finished = tuple(name for name in STAGES if (folder / name).exists())
    quiet = time.time() - max(path.stat().st_mtime for path in (folder, *folder.glob("*.json*")))
    if not (folder / "config.json").exists():  # written after the recordings
        return Progress(finished, "recordings", "", quiet)
    missing = [name for name in STAGES if name not in finished]
    product = missing[0] if missing else "vectors.npy"
    return Progress(finished, STAGES[product], _count_updates(folder, product, read_config(folder)), quiet)


def _count_updates(folder: Path, product: str, config: Config) -> str:
    """Of a stage that learns: the last update that was written down, and how many it takes."""
    stages = {
        "local_metric.safetensors": (("local_metric", "stacked_metric"), config.local_metric.num_updates),
        "embedding.safetensors": (("embedding",), config.embedding.num_updates),
    }
    if product not in stages:
        return ""
    names, num_updates = stages[product]
    written = [line["update"] for line in Journal(folder).records() if line.get("stage") in names and "update" in line]
    return f", update {written[-1] if written else 0:,} of {num_updates:,}"


# ---------------------------------------------------------------------------------------------------- the page


def page_of(folder: Path) -> str:
    progress = read_progress(folder)
    title = f"fit is under way: {progress.stage}{progress.count}"
    body = "".join([*_stages(progress), *_silence(progress), *_known(folder)])
    return PAGE.format(refresh=REFRESH, title=escape(title), body=body)


def _stages(progress: Progress) -> list[str]:
    done = [f'<li class="done">{STAGES[name]}: done</li>' for name in progress.finished]
    now = [] if progress.stage == "recordings" else [f'<li class="now">{progress.stage}: under way</li>']
    later = [words for name, words in STAGES.items() if name not in progress.finished and words != progress.stage]
    return ["<ol>", *done, *now, *(f'<li class="later">{words}: to come</li>' for words in later), "</ol>"]


def _silence(progress: Progress) -> list[str]:
    if progress.quiet < LONG_QUIET:
        return []
    words = f"<b>Nothing was written for {round(progress.quiet / 60)} min.</b>"
    return [f"<p>{words} If fit has ended, the same plan2vec fit command continues it.</p>"]


def _known(folder: Path) -> list[str]:
    """The recordings and the graph, as far as they are there."""
    if not (folder / "config.json").exists():
        return []
    sequences = read_data(folder)
    numbers = even_choice(sequences.num_frames, NUM_PICTURES)
    images = "".join(f'<img src="/frame/{k}.png" alt="frame {k}" title="frame {k}">' for k in numbers)
    facts = f"{sequences.source}: {sequences.num_frames:,} frames in {len(np.unique(sequences.sequence)):,} sequences"
    known = [f"<h2>Recordings</h2><p>{escape(facts)}</p><p>{images}</p>"]
    if (folder / "graph.npz").exists():
        known.append(f"<h2>Graph</h2><p>{escape(describe_graph(folder / 'graph.npz'))}</p>")
    return known


# ---------------------------------------------------------------------------------------------------- the server


def waiting_server(folder: Path) -> Flask:
    """The page of a fit under way."""
    server = Flask("plan2vec.explorer.underway", static_folder=None)
    server.route("/")(lambda: Response(page_of(folder), headers={"Cache-Control": "no-store"}))
    serve_frames(server, lambda: read_data(folder) if (folder / "config.json").exists() else None)
    return server


def current(folder: Path, first: Callable, make: Callable[[], Callable]) -> Callable:
    """A WSGI application: `first`, and from when the run's products have changed, the one that `make` gives then."""
    shown = [(_stamp(folder), first)]
    lock = threading.Lock()

    def application(environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        with lock:
            if _stamp(folder) not in (None, shown[0][0]):
                shown[0] = (_stamp(folder), make())
        return shown[0][1](environ, start_response)

    return application


def _stamp(folder: Path) -> int | None:
    """Changes with the products of a finished run; None while there is none."""
    path = folder / manifest.FILE
    return path.stat().st_mtime_ns if path.exists() else None

"""The page of a run that `fit` is still writing: how far it is, what is ready. It becomes the map when all is there."""

import threading
import time
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

import numpy as np

from plan2vec.explorer.server import WAITING
from plan2vec.learning.gradient_loop import Journal
from plan2vec.pictures.scene import even_choice
from plan2vec.runs.folder import PRODUCTS, read_config, read_data
from plan2vec.runs.products import MANIFEST, describe_graph

STAGES = {file: name.replace("_", " ") for name, file in PRODUCTS.items()}  # words for each, in the order of making
SAID = {"now": "under way", "done": "done", "later": "to come"}
REFRESH = 3  # seconds
LONG_QUIET = 120  # seconds without a new file or line after which the page says that the fit may have ended
NUM_PICTURES = 12  # frames shown
SILENCE = "<p><b>Nothing was written for {} min.</b> If fit has ended, the same plan2vec fit command continues it.</p>"
FOOT = f'<p class="quiet">This page looks again every {REFRESH} seconds and becomes the map when all is there.</p>'


def read_progress(folder: Path) -> tuple[str, str]:
    """What the fit of a folder is making, in words; of a stage that learns also how many updates of it are made."""
    if not (folder / "config.json").exists():  # written after the recordings
        return "recordings", ""
    product = next((name for name in STAGES if not (folder / name).exists()), "vectors.npy")
    config = read_config(folder)
    learned = {"local_metric.safetensors": ("metric", config.local_metric.num_updates),
               "embedding.safetensors": ("embedding", config.embedding.num_updates)}
    if product not in learned:
        return STAGES[product], ""
    name, given = learned[product]
    made = [line["update"] for line in Journal(folder).records() if name in str(line["stage"]) and "update" in line]
    return STAGES[product], f", update {made[-1] if made else 0:,}{f' of {given:,}' if given else ''}"


def page_of(folder: Path) -> str:
    stage, count = read_progress(folder)
    body = "<ol>"
    for name, words in STAGES.items():
        state = "now" if words == stage else "done" if (folder / name).exists() else "later"
        body += f'<li class="{state}">{words}: {SAID[state]}</li>'
    quiet = time.time() - max(path.stat().st_mtime for path in (folder, *folder.glob("*.json*")))
    body += "</ol>" + (SILENCE.format(round(quiet / 60)) if quiet >= LONG_QUIET else "")
    if (folder / "config.json").exists():
        recorded = read_data(folder)
        images = (f'<img src="/frame/{k}.png" alt="frame {k}" title="frame {k}">'
                  for k in even_choice(recorded.num_frames, NUM_PICTURES))
        facts = f"{recorded.source}: {recorded.num_frames:,} frames in {len(np.unique(recorded.sequence)):,} sequences"
        body += f"<h2>Recordings</h2><p>{escape(facts)}</p><p>{''.join(images)}</p>"
    if (folder / "graph.npz").exists():
        body += f"<h2>Graph</h2><p>{escape(describe_graph(folder / 'graph.npz'))}</p>"
    return WAITING.substitute(seconds=REFRESH, title=escape(f"fit is under way: {stage}{count}"), body=body + FOOT)


def current(folder: Path, first: Callable, make: Callable[[], Callable]) -> Callable:
    """A WSGI application: `first`, and from when the run's products have changed, the one that `make` gives then."""
    shown, lock = [(_stamp(folder), first)], threading.Lock()

    def application(environ: dict, start_response: Callable) -> Iterable[bytes]:
        with lock:
            if _stamp(folder) not in (None, shown[0][0]):
                shown[0] = (_stamp(folder), make())
        return shown[0][1](environ, start_response)

    return application


def _stamp(folder: Path) -> int | None:
    """Changes with the products of a finished run; None while there is none."""
    path = folder / MANIFEST
    return path.stat().st_mtime_ns if path.exists() else None

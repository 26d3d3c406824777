"""The interactive page of a fitted run: map, plans, neighbours, suspicious closures. Needs the extra [explore].

session.py    the model and what the page asks of it    page.py        what stands where, and what fills it
charts.py     frames as points, colours                 callbacks.py   what changes when
server.py     limits, serving, waiting                  exports.py     images in and out, plans as figure and film
underway.py   the page while `fit` still runs
assets/       explorer.js: lines over the points, clicking; linked.js: the highlighted frame, timeline; style
"""

from importlib.util import find_spec
from pathlib import Path


def explore(run: Path, host: str = "127.0.0.1", port: int = 0, open_browser: bool = True, device: str = "auto",
            encoder: str | None = None) -> None:
    """Serve the page of a run folder, finished or still being fitted, until interrupted; port 0 takes a free one."""
    if find_spec("dash") is None or find_spec("plotly") is None:
        raise ValueError("the explorer needs the extra [explore]: pip install 'plan2vec[explore]'")
    from plan2vec.explorer.server import serve

    serve(run, device, host, port, open_browser, encoder)

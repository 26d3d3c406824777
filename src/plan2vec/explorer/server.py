"""The page as a web server: limits, headers, addresses. Nothing from outside is loaded, no path leads to a file."""

import ipaddress
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from dash import Dash
from flask import Flask, Response, abort, request
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from plan2vec.explorer.callbacks import add_callbacks
from plan2vec.explorer.images import serve_frames
from plan2vec.explorer.page import page
from plan2vec.explorer.session import Session
from plan2vec.explorer.underway import becoming, is_finished, read_progress, waiting_server
from plan2vec.model import load
from plan2vec.runs.folder import is_run

LARGEST_REQUEST = 32_000_000  # bytes
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; worker-src 'self' blob:; frame-ancestors 'none'; form-action 'none'"
)

# Plotly, which is large, is asked for first. The browser keeps its own `trim`: Dash brings a slow one for browsers
# before 2017, and Plotly calls it for every point.
INDEX = """<!DOCTYPE html><html lang="en"><head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}
<link rel="preload" as="script" href="/_dash-component-suites/plotly/package_data/plotly.min.js">
<script>const trim = String.prototype.trim;
Object.defineProperty(String.prototype, "trim", { get: () => trim, set() {}, configurable: true });</script></head>
<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body></html>"""


def serve(run: Path, device: str, host: str, port: int, open_browser: bool, encoder: str | None = None) -> None:
    """Answer until interrupted. The address is the one line on standard output."""
    server = open_server(application_of(run, device, not is_loopback(host), encoder), host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{server.server_port}/"
    if not is_loopback(host):
        print(warning(address), file=sys.stderr)
    print(address, flush=True)
    print("explorer: open this address; Ctrl+C ends it", file=sys.stderr)
    if open_browser:
        threading.Timer(0.3, webbrowser.open, (address,)).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def application_of(run: Path, device: str, any_host: bool = False, encoder: str | None = None) -> Callable:
    """The page of a run folder; while the fit is under way, a page that says so."""

    def explorer() -> Flask:
        session = Session(load(run, device, encoder))
        session.get_ready()
        return make_app(session, any_host).server

    if is_finished(run) or not is_run(run):
        return explorer()
    read_progress(run)  # refuses, before anything listens, what this program cannot read
    waiting = waiting_server(run)
    guard(waiting, any_host)
    return becoming(run, waiting, explorer)


def open_server(application: Callable, host: str, port: int) -> BaseWSGIServer:
    """A server that listens but does not answer yet."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be from 1 to 65535, or 0 for a free one, but is {port}")
    try:
        return make_server(host, port, application, threaded=True, request_handler=QuietHandler)
    except (OSError, SystemExit) as error:  # werkzeug ends the program where a port is taken
        where = f"cannot listen on {host} port {port} ({error})"
        raise ValueError(f"{where}; is it taken? --port 0 finds a free one") from None


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def warning(address: str) -> str:
    return (
        f"warning: {address} can be reached from other machines. Whoever opens it sees the recordings and can strike "
        "closures; there is no password. Without --host only this machine can."
    )


class QuietHandler(WSGIRequestHandler):
    """Does not print a line for every request."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def make_app(session: Session, any_host: bool = False) -> Dash:
    """The Dash application of a session; `any_host` answers to whatever name the browser used."""
    app = Dash(
        "plan2vec.explorer", title="plan2vec explorer", update_title="", serve_locally=True, index_string=INDEX,
        suppress_callback_exceptions=True, assets_folder=str(Path(__file__).parent / "assets"),
    )
    app.layout = page(session)
    add_callbacks(app, session)
    guard(app.server, any_host)
    serve_frames(app.server, lambda: session.sequences)
    return app


def guard(server: Flask, any_host: bool) -> None:
    """Limits and headers of every answer."""
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST

    @server.before_request
    def refuse_strangers() -> None:
        """A page of another site must not talk to this one under a name of its own."""
        name = request.host.rsplit(":", 1)[0].strip("[]")
        if not any_host and not is_loopback(name):
            abort(403)

    @server.after_request
    def add_headers(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

"""The page as a web server: limits, headers, addresses. Nothing from outside is loaded, no path leads to a file.

The run, and what this package needs that takes seconds to import, are read after the address is printed."""

import hmac
import ipaddress
import secrets
import sys
import threading
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from string import Template
from urllib.parse import urlencode, urlsplit

from flask import Flask, Response, abort, redirect, request
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

LARGEST_REQUEST = 32_000_000  # bytes
IDLE_SECONDS = 30  # after which a connection on which nothing comes is closed
COOKIE = "plan2vec-token"
WARNING = ("warning: {} can be reached from other machines. Whoever opens it sees the recordings and can strike "
           "closures; the token in the address is the only password. Without --host only this machine can.")
POLICY = ("default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
          "img-src 'self' data: blob:; worker-src 'self' blob:; frame-ancestors 'none'; form-action 'none'")
WAITING = Template(Path(__file__).with_name("waiting.html").read_text(encoding="utf-8"))
LOADING = WAITING.substitute(seconds=1, title="Reading the run ...",
                             body="<p>This page becomes the map by itself.</p>")
# Plotly, which is large, is asked for first. The browser keeps its own `trim`: Dash brings a slow one for browsers
# before 2017, and Plotly calls it for every point.
INDEX = Path(__file__).with_name("index.html").read_text(encoding="utf-8")


def serve(run: Path, device: str, host: str, port: int, open_browser: bool, encoder: str | None) -> None:
    """Answer until interrupted, also during a fit; port 0 takes a free one. Standard output holds the address alone."""
    token, any_host = secrets.token_urlsafe(24), not is_loopback(host)
    make = partial(application_of, run, device, any_host, encoder, token)
    first = waiting_page(lambda: LOADING, any_host, token) if (run / "data.json").is_file() else make()  # it refuses
    server = open_server(first, host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/?token={token}"
    if any_host:
        print(WARNING.format(address), file=sys.stderr)
    print(address, flush=True)
    answering = threading.Thread(target=server.serve_forever, daemon=True)
    answering.start()
    if open_browser:
        threading.Timer(0.3, webbrowser.open, (address,)).start()
    try:
        server.app = make()
        print("explorer: open this address; Ctrl+C ends it", file=sys.stderr)
        while answering.is_alive():  # a signal that another thread received does not end a wait without an end
            answering.join(1)
    except KeyboardInterrupt:
        pass
    finally:
        server.shutdown()
        server.server_close()


def waiting_page(text: Callable[[], str], any_host: bool, token: str | None) -> Flask:
    waiting = Flask("plan2vec.explorer.waiting", static_folder=None)
    waiting.route("/")(lambda: Response(text(), headers={"Cache-Control": "no-store"}))
    guard(waiting, any_host, token)
    return waiting


def application_of(run: Path, device: str, any_host: bool = False, encoder: str | None = None,
                   token: str | None = None) -> Callable:
    """The page of a run folder; while the fit is under way, one that says so. It follows what others change there."""
    from plan2vec.explorer.callbacks import make_app
    from plan2vec.explorer.exports import serve_frames
    from plan2vec.explorer.session import Session
    from plan2vec.explorer.underway import current, page_of, read_progress
    from plan2vec.model import load
    from plan2vec.runs.folder import is_finished, is_run, read_data

    def explorer() -> Flask:
        session = Session(load(run, device, encoder))
        session.get_ready()
        return make_app(session, any_host, token).server

    if is_finished(run) or not is_run(run):
        return current(run, explorer(), explorer)
    read_progress(run)  # refuses, before anything listens, what this program cannot read
    waiting = waiting_page(partial(page_of, run), any_host, token)
    serve_frames(waiting, lambda: read_data(run) if (run / "config.json").exists() else None)
    return current(run, waiting, explorer)


def open_server(application: Callable, host: str, port: int) -> BaseWSGIServer:
    """A server that listens but does not answer yet."""
    if not host or not 0 <= port <= 65535:
        raise ValueError(f"--host must be an address and --port from 0 to 65535, but they are {host!r} and {port}")
    try:
        return make_server(host, port, application, threaded=True, request_handler=QuietHandler)
    except (OSError, SystemExit) as error:  # werkzeug ends the program where a port is taken
        where = f"cannot listen on {host} port {port} ({error})"
        raise ValueError(f"{where}; is it taken? --port 0 finds a free one") from None


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class QuietHandler(WSGIRequestHandler):
    """Prints no line per request, one line per failure, and leaves connections on which nothing comes."""

    timeout = IDLE_SECONDS

    def log(self, type: str, message: str, *args: object) -> None:
        if type != "info":  # which every request is
            print("explorer:", (message % args).strip().splitlines()[-1] if args else message, file=sys.stderr)


def guard(server: Flask, any_host: bool, token: str | None = None) -> None:
    """Limits and headers of every answer. With a `token` only who has the whole address gets one."""
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
    server.logger.disabled = True  # its tracebacks; what failed is one line of `QuietHandler`
    if token is not None:
        server.before_request(lambda: ask_for_token(token))

    @server.errorhandler(500)
    def explain(error: Exception) -> tuple[str, int]:
        cause = getattr(error, "original_exception", None) or error
        print(f"explorer: {type(cause).__name__}: {cause}", file=sys.stderr)
        return "the explorer could not answer; its terminal says why", 500

    @server.before_request
    def refuse_strangers() -> None:  # a page of another site must not talk to this one under a name of its own
        name, origin = request.host.rsplit(":", 1)[0].strip("[]"), request.headers.get("Origin")
        is_foreign = origin is not None and urlsplit(origin).netloc != request.host
        if is_foreign or not (any_host or is_loopback(name)):
            abort(403)

    @server.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update({"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"})
        return response


def ask_for_token(token: str) -> Response | None:
    """As Jupyter does: the address brings the token once, from then on a cookie of this page has it."""
    given, name = request.args.get("token"), f"{COOKIE}-{request.host.rsplit(':')[-1]}"  # one cookie for all ports
    if given is None and hmac.compare_digest(request.cookies.get(name, ""), token):
        return None
    if given is None or not hmac.compare_digest(given, token):
        abort(Response("open the whole address that the terminal shows, with its token", 403))
    rest = {name: value for name, value in request.args.items() if name != "token"}
    answer = redirect(f"{request.path}?{urlencode(rest)}" if rest else request.path)
    answer.set_cookie(name, token, httponly=True, samesite="Strict")
    return answer  # type: ignore[return-value]

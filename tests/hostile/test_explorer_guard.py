"""The explorer answers only who has its whole address, and shows what others have changed since."""

import os
import re
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("dash")

import plan2vec
from plan2vec.explorer import server
from plan2vec.explorer.callbacks import make_app
from plan2vec.explorer.page import page
from plan2vec.explorer.session import Session
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.runs.struck import judge, unstrike

TOKEN = "a-token"


@pytest.fixture
def folder(room, tmp_path) -> Path:
    shutil.copytree(room.folder, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def client(folder):
    return make_app(Session(plan2vec.load(folder, "cpu")), token=TOKEN).server.test_client()


def closure_of(model) -> tuple[int, int]:
    first = int((closure_entries(model.graph, model.sequences.sequence)).argmax())
    return tuple(sorted((int(edge_rows(model.graph)[first]), int(model.graph.indices[first]))))


def test_nothing_is_shown_without_the_token(client):
    made = ("/plan.png?start=0&goal=5", "/plan.gif?start=0&goal=5", "/verdict.png", "/distances/0", "/revision")
    for path in ("/", "/frame/0.png", "/_dash-layout", "/?token=wrong", *made):
        assert client.get(path).status_code == 403
    assert client.post("/_dash-update-component", json={}).status_code == 403


def test_the_address_brings_the_token_once_and_keeps_what_it_links_to(client):
    answer = client.get(f"/?token={TOKEN}&start=3&goal=5")
    assert answer.status_code == 302 and answer.headers["Location"] == "/?start=3&goal=5"
    assert "HttpOnly" in answer.headers["Set-Cookie"] and "SameSite=Strict" in answer.headers["Set-Cookie"]
    assert client.get("/").status_code == client.get("/frame/0.png").status_code == 200


def test_another_site_cannot_ask_with_the_persons_cookie(client):
    client.get(f"/?token={TOKEN}")
    assert client.get("/", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/", headers={"Origin": "http://localhost"}).status_code == 200


@pytest.mark.parametrize("asked, status", [
    ("/plan.png", 400), ("/plan.png?start=/etc/passwd&goal=1", 400), ("/plan.png?start=run/net.png&goal=1", 400),
    ("/plan.svg?start=³&goal=1", 400), ("/plan.gif?start=%00&goal=%ff", 400), ("/plan.exe?start=0&goal=1", 404),
    ("/plan.png?start=0&goal=1&method=__class__", 400), (f"/plan.png?start=0&goal={'1' * 10**5}", 400),
    ("/plan.%2e%2e", 404), ("/distances/999999999", 404), (f"/distances/{'9' * 30}", 404),
    ("/plan.png?start=0&goal=1&axes=../../x", 200), ("/plan.mp4?start=0&goal=1&method=dijkstra", 200),
])
def test_odd_questions_about_plans_get_one_line_and_leave_no_file(asked, status, client, tmp_path, monkeypatch):
    pytest.importorskip("av")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "run" / "net.png").write_text("no question opens a file")
    before = set(tmp_path.iterdir())
    client.get(f"/?token={TOKEN}")
    answer = client.get(asked)
    assert answer.status_code == status and set(tmp_path.iterdir()) == before
    assert status != 400 or (len(answer.data) < 200 and b"\n" not in answer.data)


@pytest.mark.parametrize("name, text", [
    ("scorecard.json", "no JSON"), ("scorecard.json", "[]"), ("scorecard.json", '{"num_frames": "many"}'),
    ("audit.json", '{"episodes": [{"episode": 77}]}'), ("scorecard.json", ""), ("audit.json", ""),
    ("audit.json", '{"episodes": [{"episode": 0, "findings": [{"kind": 1, "words": 2, "first": 1e999, "last": 0}]}]}'),
])
def test_judgements_that_cannot_be_read_are_left_out_with_one_line(name, text, folder, capsys):
    if text:
        (folder / name).write_text(text)
    else:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)  # whoever reads it waits forever
    assert page(Session(plan2vec.load(folder, "cpu"))) is not None
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and name in said[0] and "left out" in said[0]


def test_a_failure_is_one_line_in_the_terminal_and_no_traceback(folder, capsys):
    app = make_app(Session(plan2vec.load(folder, "cpu"))).server
    app.route("/fails")(lambda: 1 / 0)
    answer = app.test_client().get("/fails")
    printed = capsys.readouterr().err
    assert answer.status_code == 500 and b"Traceback" not in answer.data
    assert printed.strip() == "explorer: ZeroDivisionError: division by zero"


def test_an_idle_connection_is_closed(folder, monkeypatch):
    monkeypatch.setattr(server.QuietHandler, "timeout", 0.2)
    listening = server.open_server(make_app(Session(plan2vec.load(folder, "cpu"))).server, "127.0.0.1", 0)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        with socket.create_connection(("127.0.0.1", listening.server_port), timeout=10) as idle:
            assert idle.recv(1) == b""  # closed by the other side
    finally:
        listening.shutdown()
        listening.server_close()


def test_strikes_by_others_change_the_plans_of_an_open_page(folder):
    session = Session(plan2vec.load(folder, "cpu"))
    client = make_app(session).server.test_client()
    first, second = closure_of(session.model)
    assert session.model.graph[first, second] >= 0 and second in session.model.graph.indices[
        session.model.graph.indptr[first] : session.model.graph.indptr[first + 1]
    ]
    edges = session.model.graph.nnz
    judge(folder, session.model.graph, session.sequences.sequence, [(first, second)])
    client.get("/")
    assert session.model.graph.nnz == edges - 2
    unstrike(folder, first, second)
    client.get("/")
    assert session.model.graph.nnz == edges


def test_an_open_page_follows_recordings_that_are_added(folder):
    application = server.application_of(folder, "cpu")

    def last_frame() -> int:
        found: list[str] = []
        body = application(
            {
                "REQUEST_METHOD": "GET", "PATH_INFO": "/_dash-layout", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
                "wsgi.url_scheme": "http", "wsgi.input": None, "HTTP_HOST": "localhost"
            }, lambda status, headers, info=None: found.append(status)
        )
        text = b"".join(body).decode()
        assert found == ["200 OK"]
        return max(int(number) for number in re.findall(r"(\d+) frames", text.replace(",", "")))

    before = last_frame()
    model = plan2vec.load(folder, "cpu")
    frames = model.sequences.frames[:20, ::-1].copy()
    time.sleep(0.01)
    plan2vec.add(folder, plan2vec.make_sequences(frames), num_updates=1, device="cpu")
    assert last_frame() == before + 20

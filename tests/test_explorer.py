"""The interactive page without a browser: what the server answers, what it refuses, what it remembers."""

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import time
from copy import copy
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from plan2vec.bench.explorer_speed import nearest_on_map, serving
from plan2vec.commands.main import main
from plan2vec.data import make_sequences
from plan2vec.learning.gradient_loop import Journal
from plan2vec.model import Model, load
from plan2vec.planner import METHODS
from plan2vec.search.shortest_paths import best_first

pytest.importorskip("dash")

from dash import no_update
from werkzeug.test import Client

from plan2vec.explorer import charts, page, server, underway
from plan2vec.explorer.callbacks import changed_plan, compare, judge_pair, make_app, upload
from plan2vec.explorer.exports import LARGEST_FILE, decode_upload
from plan2vec.explorer.page import verdict_section
from plan2vec.explorer.session import COLORS, VIEW, Session, exact_plan, from_query
from plan2vec.graph.build import graph_of_edges
from plan2vec.pictures.figures import far_points, verdict_figure
from plan2vec.pictures.hops import hops_of
from plan2vec.pictures.palette import BLACK, BLUE, PURPLE, RED
from plan2vec.pictures.scene import graph_scene, map_scene
from plan2vec.planner import hop_lengths
from plan2vec.runs.products import MANIFEST
from plan2vec.verdict import make_verdict


@pytest.fixture(scope="module")
def folder(room: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of its own: closures are struck in it."""
    return Path(shutil.copytree(room.folder, tmp_path_factory.mktemp("explored") / "run"))


@pytest.fixture
def session(folder: Path) -> Session:
    (folder / "struck.json").unlink(missing_ok=True)
    return Session(load(folder, "cpu"))


def png(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (width, height), 200).save(buffer, format="PNG")
    return buffer.getvalue()


def data_address(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def decoded(values: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])


# ---------------------------------------------------------------------------------------------------- routes


def test_a_frame_comes_as_a_picture_of_its_pixels(session):
    answer = make_app(session).server.test_client().get("/frame/7.png")
    assert answer.status_code == 200 and answer.mimetype == "image/png"
    picture = np.asarray(Image.open(io.BytesIO(answer.data)))
    assert picture.shape == (64, 64)
    assert (picture[::4, ::4] == session.sequences.frames[7, :, :, 0]).all()


@pytest.mark.parametrize(
    "path",
    ["200", "9" * 40, "-1", "1e3", "0x10", "7.5", "abc", "", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "7%00"],
)
def test_what_is_no_frame_number_is_not_found(session, path):
    client = make_app(session).server.test_client()
    assert client.get("/frame/199.png").status_code == 200
    assert client.get(f"/frame/{path}.png").status_code == 404


@pytest.mark.parametrize("path", ["/assets/../server.py", "/assets/%2e%2e/server.py", "/assets//etc/passwd"])
def test_no_path_of_the_page_reaches_other_files(session, path):
    client = make_app(session).server.test_client()
    with client.get("/assets/explorer.js") as script, client.get(path) as other:
        assert script.status_code == 200 and b"dash_clientside" in script.data
        assert b"def serve" not in other.data and b"root:" not in other.data


def test_other_names_of_the_server_are_refused_unless_a_host_was_given(session):
    client = make_app(session).server.test_client()
    assert client.get("/", headers={"Host": "evil.example:80"}).status_code == 403
    assert client.get("/", headers={"Host": "127.0.0.1:8050"}).status_code == 200
    assert make_app(session, any_host=True).server.test_client().get(
        "/", headers={"Host": "box.local"}
    ).status_code == 200


def test_the_page_may_load_nothing_from_outside(session):
    answer = make_app(session).server.test_client().get("/")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert b"https://" not in answer.data


def test_a_request_that_is_too_large_is_refused(session):
    client = make_app(session).server.test_client()
    answer = client.post(
        "/_dash-update-component", data=b"x" * (server.LARGEST_REQUEST + 1), content_type="application/json"
    )
    assert answer.status_code == 413


# ---------------------------------------------------------------------------------------------------- address


def test_the_address_of_a_view_gives_the_view_back():
    asked = VIEW | {"start": "12", "goal": "3:7", "method": "astar", "color": "distance", "axes": "3-d"}
    assert from_query("?" + urlencode(asked), VIEW) == (asked, "")


def test_an_empty_address_gives_the_usual_view(session):
    assert from_query("", session.default) == (session.default, "")
    assert session.default == VIEW | {"color": "position", "axes": "3-d"}


@pytest.mark.parametrize("query", ["method=teleport", "color=%3Cscript%3E", "axes=4-d", "start=" + "9" * 1000])
def test_an_address_that_asks_for_nonsense_gets_the_usual_and_a_message(query):
    found, complaint = from_query(f"?{query}", VIEW)
    assert found == VIEW and query.split("=")[0] in complaint


def test_an_address_of_a_thousand_fields_is_refused_with_a_message():
    found, complaint = from_query("&".join(f"a{k}=1" for k in range(1000)), VIEW)
    assert found == VIEW and "too much" in complaint


@pytest.mark.parametrize("text", ["200", "-5", "9" * 39, "../x", "3:99", "", "None"])
def test_unknown_frames_get_a_message(session, text):
    with pytest.raises(ValueError, match="start"):
        session.number(text, "start")


# ---------------------------------------------------------------------------------------------------- uploads


def test_an_uploaded_frame_is_found_on_the_map(session):
    answer = make_app(session).server.test_client().get("/frame/31.png")
    number, message, _ = upload(session, data_address(answer.data))
    assert (session.sequences.frames[int(number)] == session.sequences.frames[31]).all()
    assert f"frame {number}" in message.children


def test_broken_uploads_get_a_message_and_no_frame(session):
    half = data_address(png(40, 40)[:60])
    for contents in (half, data_address(b"no image"), "data:image/png;base64,@@@", "nonsense", data_address(b"")):
        number, message, _ = upload(session, contents)
        assert number is no_update and message.children.startswith("the upload")


TINY = make_sequences(np.stack((np.zeros((16, 16), np.uint8), np.ones((16, 16), np.uint8))), np.zeros(2, int))


def test_an_upload_of_too_many_bytes_is_refused():
    with pytest.raises(ValueError, match="8 MB"):
        decode_upload(data_address(b"x" * (LARGEST_FILE + 10)), TINY)


@pytest.mark.parametrize("side", [5_100, 11_000, 20_000])
def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(side):
    """Above our own limit, where Pillow warns, and where Pillow refuses; the file itself is small."""
    header = Image.new("1", (8, 8))
    buffer = io.BytesIO()
    header.save(buffer, format="BMP")
    data = bytearray(buffer.getvalue())
    data[18:26] = side.to_bytes(4, "little") + side.to_bytes(4, "little")
    with pytest.raises(ValueError, match="pixels|exceeds"):
        decode_upload(data_address(bytes(data)), TINY)


def test_vectors_cannot_be_asked_for_by_an_image(islands):
    number, message, _ = upload(Session(islands), data_address(png(4, 4)))
    assert number is no_update and "gray or RGB" in message.children


# ---------------------------------------------------------------------------------------------------- plans


def test_the_exact_plan_equals_the_search_in_cost_and_length(session):
    graph = session.model.graph
    for start, goal in ((0, 150), (33, 34), (7, 7)):
        ours, exact = exact_plan(graph, start, goal), best_first(graph, start, goal)
        assert ours.length == pytest.approx(exact.length, rel=1e-5)
        assert ours.nodes[0] == start and ours.nodes[-1] == goal
        assert sum(hop_lengths(graph, ours.nodes)) == pytest.approx(ours.length, rel=1e-5)
        assert len(ours.touched) == ours.num_touched
        bounded = exact_plan(graph, start, goal, limit=1.5 * exact.length)
        assert (bounded.nodes, bounded.num_expanded, bounded.touched) == (ours.nodes, ours.num_expanded, ours.touched)


def test_no_exact_plan_leads_to_another_part(islands):
    plan = exact_plan(islands.graph, 0, 12)
    assert plan.nodes is None and plan.length is None and "no path" in plan.reason


def test_all_methods_stand_side_by_side_and_touched_frames_are_counted_rightly(session):
    plans = {method: session.plan(0, 150, method) for method in METHODS}
    assert all(len(plan.touched) == plan.num_touched for plan in plans.values())
    bars, drawn = compare(session, {"start": 0, "goal": 150, "method": "dijkstra"})
    touched = np.frombuffer(base64.b64decode(drawn["touched"]), np.int32)
    assert set(touched.tolist()) == plans["dijkstra"].touched
    assert all(method in str(bars) for method in METHODS)


def test_the_film_shows_every_frame_of_a_plan_and_a_choice_of_a_long_one(session):
    plan = session.plan(0, 150, "dijkstra")
    assert len(page.film(session, plan)) == len(plan.nodes)
    back_and_forth = [0, 1] * 100
    strip = page.film(session, replace(plan, nodes=back_and_forth))
    assert len(strip) == page.MAX_STRIP
    assert sum(float(cell.children[1].children[2].split()[0]) for cell in strip[:-1]) == pytest.approx(199, abs=5)


def test_neighbours_are_the_recorded_steps_then_the_nearest_closures_with_their_scores(session):
    near = session.neighbors(5, 100)
    frames, distances, recorded, to_goal = zip(*near, strict=True)
    assert {*frames[:2]} == {4, 6} and recorded[0] and not recorded[2]
    assert [*distances[2:]] == sorted(distances[2:])
    assert to_goal[0] == pytest.approx(float(session.model.distance_between(frames[0], 100)[0]))


def test_a_hop_that_claims_no_more_than_the_recording_is_no_closure(session):
    model, sequence = copy(session.model), np.repeat([0, 1], 5)
    model.sequences = make_sequences(np.random.default_rng(0).random((10, 3)), sequence)
    edges = {(0, 1): 1.0, (1, 4): 3.0, (0, 3): 0.4, (4, 5): 1.0, (5, 6): 0.0, (6, 7): 0.0, (5, 8): 1.0}
    row, column = np.array(list(edges)).T
    lengths = np.array(list(edges.values()))
    model.graph = graph_of_edges(np.r_[row, column], np.r_[column, row], np.r_[lengths, lengths], 10)
    kinds = {pair: hops_of(model, list(pair))[0].kind for pair in edges}
    assert {pair for pair, kind in kinds.items() if kind == "closure"} == {(0, 3), (4, 5)}  # 5 to 7 stand still


def test_a_plan_changed_by_a_strike_remembers_the_one_before_and_another_task_forgets_it():
    before = {"start": 1, "goal": 9, "method": "astar", "nodes": [1, 5, 9], "length": 2.5, "revision": 0}
    task = {"start": 1, "goal": 9, "method": "astar"}
    assert changed_plan(task, before, 1) == {"nodes": [1, 5, 9], "length": 2.5}
    assert changed_plan(task | {"goal": 8}, before, 1) is None and changed_plan(task, {}, 1) is None
    kept = {"nodes": [1, 9], "length": 1.0}
    assert changed_plan(task, before | {"before": kept}, 0) == kept  # asked again, nothing struck since


# ---------------------------------------------------------------------------------------------------- exports


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("gif", b"GIF8")])
def test_a_plan_comes_as_figure_and_as_film(session, ending, begins):
    client = make_app(session).server.test_client()
    answer = client.get(f"/plan.{ending}?start=0&goal=150&method=dijkstra&axes=graph")
    assert answer.status_code == 200 and answer.data.startswith(begins)
    if ending == "svg":
        assert "dijkstra plan from frame 0 to 150" in answer.text and "laid out by shortest paths" in answer.text


@pytest.mark.parametrize("query", ["start=0&goal=900", "start=0", "start=0&goal=150&method=teleport"])
def test_what_cannot_be_saved_is_one_line_and_no_failure(session, query):
    answer = make_app(session).server.test_client().get(f"/plan.png?{query}")
    assert answer.status_code == 400 and answer.text.endswith(".") and "\n" not in answer.text


def test_no_film_of_vectors_and_no_other_endings(islands):
    client = make_app(Session(islands)).server.test_client()
    assert "images" in client.get("/plan.gif?start=0&goal=2&method=dijkstra").text
    assert client.get("/plan.png?start=0&goal=2&method=dijkstra").status_code == 200
    assert client.get("/plan.exe?start=0&goal=2").status_code == 404


def test_the_distances_to_a_goal_travel_as_bytes(session):
    client = make_app(session).server.test_client()
    found = np.frombuffer(client.get("/distances/8").data, np.float32)
    assert found == pytest.approx(session.model.distance_between(np.arange(200), 8))
    assert client.get("/distances/200").status_code == 404


# ---------------------------------------------------------------------------------------------------- verdict, episodes


def test_the_verdict_is_that_of_the_scorecard_and_without_one_it_says_that_plans_were_not_tried(session, folder):
    section = str(verdict_section(session))
    assert not session.evaluated and "plan2vec evaluate" in section and "false_edge_share" in session.card
    card = {"embedding_error": 0.4, "plan_validity": 1.0, "loop_closures": 9}
    (folder / "scorecard.json").write_text(json.dumps(card))
    try:
        known = Session(session.model)
    finally:
        (folder / "scorecard.json").unlink()
    section = str(verdict_section(known))
    assert known.card == card and make_verdict(card).sentence in section and "plan2vec evaluate" not in section
    assert "Plan with astar, not greedy." in section and "40.0%" in section and "embedding_error" not in section


@pytest.mark.parametrize("first_bad", [None, "local_accuracy", "largest_component_share"])
def test_every_kind_of_verdict_has_a_picture_that_is_not_blank(session, islands, first_bad):
    for model in (session.model, islands):
        buffer = io.BytesIO()
        verdict_figure(model, first_bad).savefig(buffer, format="png")
        assert np.ptp(np.asarray(Image.open(buffer).convert("L"))) > 60


def test_episodes_have_labels_lengths_and_what_an_audit_found(session, folder, capsys):
    assert session.episodes() == {"labels": list(range(20)), "counts": [10] * 20, "findings": []}
    finding = {"kind": "jump", "first": 2, "last": 4, "words": "a step is far too long"}  # within its episode
    audit = folder / "audit.json"
    audit.write_text(json.dumps({"episodes": [{"episode": 1, "findings": [finding]}, {"episode": 2, "findings": []}]}))
    try:
        assert session.episodes()["findings"] == [finding | {"first": 12, "last": 14}]
        audit.write_text('{"episodes": [{"findings": [{"kind": 3}]}]}')
        assert session.episodes()["findings"] == [] and "no audit" in capsys.readouterr().err
    finally:
        audit.unlink()


# ---------------------------------------------------------------------------------------------------- points and
# colours


def test_a_layout_by_shortest_paths_keeps_distances_and_sets_parts_side_by_side(islands):
    ring = np.arange(60)
    graph = graph_of_edges(np.r_[ring, (ring + 1) % 60], np.r_[(ring + 1) % 60, ring], np.ones(120), 60)
    points = graph_scene(graph).points
    steps = np.linalg.norm(points - np.roll(points, -1, axis=0), axis=1)
    assert steps.max() < 1.5 * steps.min() and np.linalg.norm(points[0] - points[30]) > 8 * steps.mean()
    laid = graph_scene(islands.graph)
    part = islands.parts[1]
    assert islands.parts[0] == 2 and np.isfinite(laid.points).all()
    first, second = (laid.points[part == k] for k in (0, 1))
    apart = (first.max(axis=0) < second.min(axis=0)) | (second.max(axis=0) < first.min(axis=0))
    assert apart.any()  # a line parts them


def test_a_map_that_two_components_hardly_show_opens_laid_out_by_the_graph(session):
    known = session.model.vectors
    session.model.vectors = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    assert Session(session.model).default["axes"] == "graph"
    session.model.vectors = known
    assert Session(session.model).default["axes"] == "3-d"


def test_the_map_is_shown_itself_where_it_fits_and_says_when_not(session):
    itself, projected = map_scene(session.model.vectors, 3), map_scene(session.model.vectors, 2)
    assert (itself.points == session.model.vectors).all() and "itself" in charts.map_words(session, "3-d")
    assert projected.points.shape == (200, 2) and "principal" in charts.map_words(session, "2-d")


@pytest.mark.parametrize("color", COLORS)
def test_every_colour_gives_a_number_to_every_frame(session, islands, color):
    for known in (session, Session(islands)):
        marker = charts.marker_of(known, color, goal=3)
        if known.room is None and color == "position":
            assert marker["color"].startswith("#")
        else:
            values = decoded(marker["color"])
            assert values.shape == (
                known.num_frames,
            ) and marker["cmin"] <= values.min() and values.max() <= marker["cmax"]


def test_the_value_map_is_the_learned_distance_to_the_goal(session):
    values = decoded(charts.marker_of(session, "distance", goal=8)["color"])
    assert values == pytest.approx(session.model.distance_between(np.arange(200), 8))


def test_points_travel_as_bytes_in_one_trace(session):
    figure = charts.map_figure(session, "2-d", charts.marker_of(session, "time", None))
    assert len(figure["data"]) == 1 and figure["data"][0]["type"] == "scattergl"
    assert len(json.dumps(figure)) < 200 * 3 * 4 * 4 / 3 + 3000
    assert decoded(figure["data"][0]["x"]) == pytest.approx(map_scene(session.model.vectors, 2).points[:, 0])


def test_a_picture_of_less_than_six_tenths_of_the_variance_says_that_it_misleads(session):
    known = session.model.vectors
    session.model.vectors = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    assert "% of variance only: what looks near here may be far" in charts.map_words(Session(session.model), "2-d")
    session.model.vectors = known * [1, 1, 0.1]
    assert charts.map_words(Session(session.model), "2-d").endswith("% of variance")
    session.model.vectors = known


def test_without_true_positions_colours_are_sequences_or_the_time_of_the_only_one(islands):
    assert Session(islands).default["axes"] == "graph"  # its two parts stand side by side
    assert Session(islands).default["color"] == "sequence" and "position" not in Session(islands).colors
    assert Session(replace_sequence(islands)).default["color"] == "time"


def replace_sequence(model: Model) -> Model:
    """The same frames as one sequence."""
    one = copy(model)
    one.sequences = replace(model.sequences, sequence=np.zeros_like(model.sequences.sequence))
    return one


def test_pictures_on_the_map_stand_far_from_each_other():
    points = np.random.default_rng(0).random((1000, 2))
    chosen = points[far_points(points, 12)]
    apart = np.linalg.norm(chosen[:, None] - chosen[None], axis=2)[~np.eye(12, dtype=bool)]
    assert len(np.unique(chosen, axis=0)) == 12 and apart.min() > 0.2
    assert far_points(points[:3], 12) and len(far_points(points[:3], 12)) == 3


# ---------------------------------------------------------------------------------------------------- closures


def test_striking_takes_a_closure_out_of_plans_at_once_and_undo_brings_it_back(session):
    closure = session.suspicious()[0]
    first, second = closure["first"], closure["second"]
    pair, edges = f"{first}-{second}", session.model.graph.nnz
    assert session.plan(first, second, "dijkstra").nodes == [first, second]
    message = judge_pair(session, "strike", pair)["message"]
    assert "struck" in message and "--update" in message
    for method in METHODS:
        nodes = session.plan(first, second, method).nodes or []
        assert (first, second) not in pairwise(nodes) and (second, first) not in pairwise(nodes)
    assert session.model.graph.nnz == edges - 2
    assert (first, second) not in {(one["first"], one["second"]) for one in session.suspicious()}
    assert load(session.model.folder, "cpu").graph.nnz == edges - 2
    assert "forgotten" in judge_pair(session, "undo", pair)["message"]
    assert session.model.graph.nnz == edges


def test_a_kept_closure_is_not_shown_again(session):
    shown = session.suspicious()
    judge_pair(session, "keep", f"{shown[0]['first']}-{shown[0]['second']}")
    assert shown[0] not in session.suspicious()
    assert session.judged().kept == ((shown[0]["first"], shown[0]["second"]),)


@pytest.mark.parametrize(
    ("verdict", "pair"),
    [("strike", "0-1"), ("strike", "0-99999"), ("strike", "x"), ("explode", "0-50"), ("undo", "0-50")],
)
def test_nonsense_verdicts_get_a_message_and_change_nothing(session, verdict, pair):
    edges = session.model.graph.nnz
    judged = judge_pair(session, verdict, pair)
    assert judged["message"] and session.model.graph.nnz == edges and not session.judged().all


# ---------------------------------------------------------------------------------------------------- the command


def test_only_loopback_needs_no_warning():
    assert all(server.is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"))
    assert not any(server.is_loopback(host) for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"))
    assert "other machines" in server.WARNING


def test_a_free_port_is_found_and_a_taken_one_refused(session):
    application = make_app(session).server
    listening = server.open_server(application, "127.0.0.1", 0)
    try:
        assert listening.server_port > 0
        with pytest.raises(ValueError, match="port"):
            server.open_server(application, "127.0.0.1", listening.server_port)
    finally:
        listening.server_close()
    with pytest.raises(ValueError, match="65535"):
        server.open_server(application, "127.0.0.1", 70_000)


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert main(["explore", str(tmp_path), "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert "is not a run folder" in said and len(said.strip().splitlines()) == 1


def test_without_the_extra_one_line_names_it(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "dash", None)
    monkeypatch.setattr("plan2vec.commands.main.find_spec", lambda name: None)
    assert main(["explore", str(folder), "--no-browser"]) == 2
    assert "plan2vec[explore]" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- while fit is
# under way


def copy_products(source: Path, target: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (target / name).write_bytes((source / name).read_bytes())


def test_the_page_of_a_run_under_way_says_how_far_it_is_and_becomes_the_map(folder, tmp_path):
    copy_products(folder, tmp_path, ("plan2vec-run.txt", "data.json"))
    client = Client(server.application_of(tmp_path, "cpu"))
    assert "fit is under way: recordings" in client.get("/").text and client.get("/frame/0.png").status_code == 404
    copy_products(folder, tmp_path, ("frames.npy", "index.npz", "config.json"))
    Journal(tmp_path).record(stage="local_metric", update=3, loss=0.5)
    assert "fit is under way: local metric, update 3 of 5" in client.get("/").text
    assert "200 frames in 20 sequences" in client.get("/").text and client.get("/frame/199.png").mimetype == "image/png"
    copy_products(folder, tmp_path, ("local_metric.safetensors",))
    text = client.get("/").text
    assert "fit is under way: graph<" in text and "local metric: done" in text and "directed edges" not in text
    copy_products(folder, tmp_path, ("graph.npz",))
    assert "embedding, update 0 of 5" in client.get("/").text
    assert (
        f"{load(folder, 'cpu').graph.nnz:,} directed edges" in client.get("/").text
        and 'http-equiv="refresh"' in client.get("/").text
    )
    copy_products(folder, tmp_path, ("embedding.safetensors",))
    assert "fit is under way: vectors<" in client.get("/").text
    copy_products(folder, tmp_path, ("vectors.npy",))
    assert "under way" in client.get("/").text  # the manifest is written last
    copy_products(folder, tmp_path, (MANIFEST,))
    assert "react-entry-point" in client.get("/").text and "under way" not in client.get("/").text
    assert "Metric map" in client.get("/_dash-layout").text


def test_a_fit_that_has_fallen_silent_is_named_with_the_remedy(folder, tmp_path):
    copy_products(folder, tmp_path, ("plan2vec-run.txt", "data.json", "frames.npy", "index.npz", "config.json"))
    assert "Nothing was written" not in underway.page_of(tmp_path)
    for path in (*tmp_path.iterdir(), tmp_path):
        os.utime(path, (0, time.time() - 600))
    assert "Nothing was written for 10 min" in underway.page_of(tmp_path)


def test_strangers_and_large_requests_are_refused_while_waiting_too(folder, tmp_path):
    copy_products(folder, tmp_path, ("plan2vec-run.txt", "data.json"))
    client = Client(server.application_of(tmp_path, "cpu"))
    assert client.get("/", headers={"Host": "evil.example:80"}).status_code == 403
    assert client.get("/").headers["Content-Security-Policy"].startswith("default-src 'self'")


def test_the_command_stays_up_and_answers_while_fit_is_under_way(folder, tmp_path):
    copy_products(folder, tmp_path, ("plan2vec-run.txt", "data.json", "frames.npy", "index.npz", "config.json"))
    browser = build_opener(HTTPCookieProcessor())  # the address brings the token, which is kept
    with serving(tmp_path) as address:
        for _ in range(600):
            with browser.open(address) as answer:
                text = answer.read()
            if b"Reading the run" not in text:
                break
            time.sleep(0.1)
    assert answer.status == 200 and b"fit is under way" in text


def test_the_address_is_printed_before_anything_slow_is_imported(folder):
    command = [sys.executable, "-X", "importtime", "-m", "plan2vec", "explore", str(folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines = []
        for line in process.stdout:  # what was imported, and then the address
            lines.append(line.rpartition("|")[2].strip())
            if "?token=" in line:
                break
        process.terminate()
    assert lines[-1].startswith("http://127.0.0.1:") and "plan2vec.explorer.server" in lines
    assert not {"torch", "dash", "plotly", "matplotlib", "scipy", "numpy"} & set(lines)


# what is left of red, green and blue for people who lack one kind of cone (Machado and others, 2009)
SEEN_WITHOUT = {
    "long": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "middle": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "short": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def seen_color(name: str, cone: str) -> np.ndarray:
    """(3,) in CIE Lab, where 2 is just seen as a difference."""
    value = np.array(to_rgb(name))
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    to_xyz = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8728))  # of white: 1, 1, 1
    xyz = np.array(to_xyz) @ np.clip(np.array(SEEN_WITHOUT[cone]) @ light, 0, 1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array((116 * y - 16, 500 * (x - y), 200 * (y - z)))


@pytest.mark.parametrize("cone", SEEN_WITHOUT)
@pytest.mark.parametrize("colors", [charts.COLORS, tuple(page.METHOD_COLORS.values()), (BLACK, RED, BLUE, PURPLE)])
def test_colours_that_stand_side_by_side_differ_for_the_colour_blind(cone, colors):
    apart = [np.linalg.norm(seen_color(a, cone) - seen_color(b, cone)) for a, b in combinations(colors, 2)]
    assert min(apart) > 10


# ---------------------------------------------------------------------------------------------------- the benchmark's
# runs


def test_the_runs_of_the_benchmark_join_about_200_nearest_frames_and_no_transition_twice():
    vectors, sequence = np.random.default_rng(0).random((2000, 3), np.float32), np.repeat(np.arange(200), 10)
    pairs, radius = nearest_on_map(vectors, sequence)
    assert 150 < 2 * len(pairs) / 2000 < 250 and 0 < pairs.distance.max() <= radius * 1.001
    assert (pairs.first < pairs.second).all() and not ((pairs.second - pairs.first == 1) & (pairs.first % 10 < 9)).any()
    assert pairs.distance == pytest.approx(
        np.linalg.norm(vectors[pairs.first] - vectors[pairs.second], axis=1), abs=1e-6
    )

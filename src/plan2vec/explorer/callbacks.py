"""What changes when. The server answers with what is new only; assets/explorer.js draws the lines over the points."""

import base64
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from dash import ALL, ClientsideFunction, Dash, Input, Output, Patch, State, ctx, no_update
from dash.dcc import Graph
from dash.exceptions import PreventUpdate

from plan2vec.explorer import page
from plan2vec.explorer.charts import map_figure, map_words, marker_of, room_figure
from plan2vec.explorer.exports import decode_upload, serve_exports, serve_frames
from plan2vec.explorer.server import INDEX, guard
from plan2vec.explorer.session import PANELS, VIEW, Session, from_query
from plan2vec.pictures.hops import hops_of
from plan2vec.planner import METHODS

DEPENDS = {"distance": "valued.data", "component": "judged.data"}  # what these colours change with
DONE = {"strike": "struck. Plans avoid it; the map follows with: plan2vec closures {} --update", "keep": "kept.",
        "undo": "what was said about it is forgotten."}


def make_app(session: Session, any_host: bool = False, token: str | None = None) -> Dash:
    """The Dash application of a session; `any_host` answers to whatever name the browser used."""
    app = Dash("plan2vec.explorer", title="plan2vec explorer", update_title="", serve_locally=True, index_string=INDEX,
               suppress_callback_exceptions=True, assets_folder=str(Path(__file__).parent / "assets"))
    app.layout = page.page(session)
    _add_callbacks(app, session)
    guard(app.server, any_host, token)
    app.server.before_request(session.follow_strikes)
    app.server.add_url_rule("/revision", "revision", lambda: str(session.revision))  # did others strike closures?
    serve_frames(app.server, lambda: session.sequences)
    serve_exports(app.server, session)
    return app


def _add_callbacks(app: Dash, session: Session) -> None:
    _add_scripts(app)
    message = Output("message", "children", allow_duplicate=True)
    view, now = [*(Output(name, "value") for name in VIEW), message], [State(name, "value") for name in VIEW]
    opened = app.callback(view, Input("asked", "data"), *now, prevent_initial_call="initial_duplicate")
    opened(partial(read_address, session))

    def connect(answer: Any, outputs: list[Output], *inputs: Input | State) -> None:
        app.callback(*outputs, *inputs, prevent_initial_call=True)(partial(answer, session))

    color, goal, judged = Input("color", "value"), State("goal", "value"), Input("judged", "data")
    drawn = [Output("map", "figure"), Output("map-words", "children"), Output("shown", "data")]
    recoloring = (color, Input("valued", "data"), judged, goal)
    connect(draw, drawn, Input("axes", "value"), *recoloring, State("shown", "data"))
    if session.room is not None:
        connect(draw_room, [Output("room-place", "children")], Input("painted", "data"), State("color", "value"), goal)
        connect(recolor_room, [Output("room", "figure")], *recoloring)
    images = [Output("start-image", "src"), Output("goal-image", "src")]
    said = [Output(name, "children") for name in ("strip", "summary", "message")]
    task = [Input(name, "value") for name in ("start", "goal", "method")]
    connect(plan, [Output("plan", "data"), *said, *images], *task, judged, State("plan", "data"))
    connect(compare, [Output("methods", "children"), Output("touched", "data")], Input("plan", "data"))
    connect(list_neighbors, [Output("neighbours", "children")], Input("near", "data"))
    connect(list_closures, [Output("closures", "children"), Output("lines", "data")], Input("panel", "value"), judged)
    connect(judge, [Output("judged", "data"), message], Input({"verdict": ALL, "pair": ALL, "at": ALL}, "n_clicks"))
    for end in ("start", "goal"):
        contents = f"upload-{end}", "contents"
        connect(upload, [Output(end, "value", allow_duplicate=True), message, Output(*contents)], Input(*contents))


def _add_scripts(app: Dash) -> None:
    """What the browser does itself. A click makes one request: `valued` and `near` pass on only what is looked at."""
    looked_at = [Input(name, "value") for name in ("panel", "neighbours-of", "start", "goal")]
    scripts: dict[str, list] = {  # what they fill in, if anything, and what they follow
        "asked": [Output("asked", "data"), Input("page", "id")],
        "follow": [Output("next", "value"), Input("start", "value"), Input("goal", "value")],
        "panel": [*(Output(f"panel-{name}", "style") for name in PANELS), Input("panel", "value")],
        "valued": [Output("valued", "data"), Input("color", "value"), Input("goal", "value")],
        "near": [Output("near", "data"), *looked_at, Input("judged", "data")],
        "plan": [Input("plan", "data")], "touched": [Input("touched", "data"), Input("show", "value")],
        "address": [Input(name, "value") for name in VIEW], "next": [Input("next", "value")],
        "listed": [Input(name, "children") for name in ("closures", "strip", "neighbours")],
        "lines": [Input("lines", "data"), Input("panel", "value")],
        "episodes": [Input("episodes", "data"), Input("color", "value")]}
    for name, ends in scripts.items():
        script = ClientsideFunction("explorer", name)
        app.clientside_callback(script, *ends, prevent_initial_call=name in ("follow", "address"))


def read_address(session: Session, search: str | None, *now: str | None) -> list[Any]:
    """Only what differs from the view on the page (`now`): every value that is set asks the server again."""
    view, complaint = from_query(search or "", session.default, session.colors)
    if not view["start"] and not view["goal"]:  # a page that opens with a plan shows what it is for
        start, goal = session.far_frames()
        lost = view["method"] == "greedy" and session.plan(start, goal, "greedy").nodes is None
        view |= {"start": str(start), "goal": str(goal), "method": "astar" if lost else view["method"]}
    changed = [value if value != (old or "") else no_update for value, old in zip(view.values(), now, strict=True)]
    return [*changed, page.said(complaint) or no_update]


def draw(session: Session, axes: str, color: str, valued: object, judged: object, goal: str, shown: dict) -> tuple:
    """The map anew where the axes change, else its colours only."""
    now, known = {"color": color, "axes": axes}, _read_frame(session, goal)[0]
    words = map_words(session, axes, color == "distance" and known is None)
    if axes != shown["axes"]:
        return map_figure(session, axes, marker_of(session, color, known)), words, now
    if color == shown["color"] and DEPENDS.get(color) not in ctx.triggered_prop_ids:
        raise PreventUpdate
    return _recolored(session, color, goal), words, now


def draw_room(session: Session, painted: bool, color: str, goal: str) -> Graph:
    """After the map, which a person waits for."""
    assert session.room is not None
    marker = marker_of(session, color, _read_frame(session, goal)[0])
    return Graph(id="room", figure=room_figure(session.room, marker), config=page.GRAPH, responsive=True)


def recolor_room(session: Session, color: str, valued: object, judged: object, goal: str) -> Patch:
    if not {"color.value", DEPENDS.get(color)} & {*ctx.triggered_prop_ids}:
        raise PreventUpdate
    return _recolored(session, color, goal, {"showscale": False})


def _recolored(session: Session, color: str, goal: str, other: dict[str, Any] | None = None) -> Patch:
    marker, patch = marker_of(session, color, _read_frame(session, goal)[0]) | (other or {}), Patch()
    for name, value in ({"colorbar": None, "colorscale": None, "showscale": False} | marker).items():
        patch["data"][0]["marker"][name] = value
    return patch


def _read_frame(session: Session, text: str | None, name: str = "frame") -> tuple[int | None, str]:
    """The frame that a field names, None if it is empty or wrong, and what is wrong (the plan's message says it)."""
    try:
        return (session.number(text, name) if text else None), ""
    except ValueError as error:
        return None, f"{error}."


def plan(session: Session, start: str, goal: str, method: str, judged: dict | None, last_plan: dict | None) -> tuple:
    first, start_complaint = _read_frame(session, start, "start")
    last, goal_complaint = _read_frame(session, goal, "goal")
    images = [f"/frame/{number}.png" if number is not None else "" for number in (first, last)]
    said = page.said(start_complaint or goal_complaint) or no_update  # what was said before stays until a person acts
    drawn: dict[str, Any] = {"start": first, "goal": last, "method": method, "nodes": None}
    before = changed_plan(drawn, last_plan or {}, session.revision)
    drawn["revision"] = session.revision
    if first is None or last is None or method not in METHODS:
        return drawn, [], page.HELP, said, *images
    made = session.plan(first, last, method)
    hops = hops_of(session.model, made.nodes or [])
    drawn |= {"nodes": made.nodes, "hops": [hop.kind for hop in hops], "length": made.length,
              "before": before if before and before["nodes"] != made.nodes else None}
    return drawn, page.film(session, made), page.summary(session, made, hops, drawn["before"]), said, *images


def changed_plan(now: dict, last: dict, revision: int) -> dict | None:
    """The plan of the same task before closures were judged; it stays on the page as a ghost."""
    if any(now[name] != last.get(name) for name in ("start", "goal", "method")) or "length" not in last:
        return None
    return {"nodes": last["nodes"], "length": last["length"]} if last["revision"] != revision else last.get("before")


def compare(session: Session, plan: dict) -> tuple:
    """All methods side by side, once the chosen one is on the page; its touched frames (int32), the others' paths."""
    start, goal, method = (plan.get(name) for name in ("start", "goal", "method"))
    if start is None or goal is None or method not in METHODS:
        return page.COMPARED, None
    start, goal = session.number(start, "start"), session.number(goal, "goal")
    plans = {name: session.plan(start, goal, name) for name in METHODS}
    others = [{"nodes": plan.nodes, "method": name, "color": page.METHOD_COLORS[name]}
              for name, plan in plans.items() if name != method and plan.nodes]
    touched = base64.b64encode(np.array(sorted(plans[method].touched), np.int32).data).decode("ascii")
    drawn = {"start": start, "goal": goal, "method": method, "others": others, "touched": touched}
    return page.method_bars(list(plans.values()), method), drawn


def list_neighbors(session: Session, near: dict) -> Any:
    number, goal = (_read_frame(session, near.get(name))[0] for name in ("frame", "goal"))
    return page.HELP if number is None else page.neighbor_list(session, number, goal)


def list_closures(session: Session, panel: str, judged: object) -> tuple:
    """The list, and all of its closures as lines: first, second, and how doubtful."""
    if panel != "closures":
        raise PreventUpdate
    found = session.suspicious()
    lines = [[one["first"], one["second"], one["confidence"]] for one in found]
    return page.closure_list(session, found), lines


def judge(session: Session, clicks: list[int | None]) -> tuple[dict, Any]:
    pressed = ctx.triggered_id
    if not pressed or not any(item["value"] for item in ctx.triggered):
        raise PreventUpdate
    verdict, pair = str(pressed["verdict"]), str(pressed["pair"])
    judged = judge_pair(session, verdict, pair)
    words: list[Any] = [page.said(judged["message"], judged["done"])]
    if judged["done"] and verdict == "strike":
        first, second = map(int, pair.split("-"))
        words += [" ", page.judge_button("undo", first, second, "message")]
    return judged, words


def judge_pair(session: Session, verdict: str, pair: str) -> dict[str, Any]:
    """Carry out a verdict on a pair "first-second"; the message says what came of it."""
    try:
        first, second = (session.number(text, "frame") for text in pair.split("-", 1))
        if verdict not in DONE:
            raise ValueError("a verdict is strike, keep or undo")
        session.judge(verdict, first, second)
        message = f"Closure {first} - {second}: {DONE[verdict].format(session.model.folder)}"
        return {"revision": session.revision, "message": message, "done": True}
    except ValueError as error:
        return {"revision": session.revision, "message": f"{error}.", "done": False}


def upload(session: Session, contents: str | None) -> tuple:
    """(the frame that an uploaded image stands for, message, the upload itself: emptied)."""
    if not contents:
        raise PreventUpdate
    try:
        found = session.locate(decode_upload(contents, session.sequences))
    except ValueError as error:
        return no_update, page.said(f"{error}."), None
    if found.on_map:
        where = f"The image lies at frame {found.number}, {found.distance:.2f} steps away."
        return str(found.number), page.said(where, True), None
    where = f"the nearest frame, {found.number}, is {found.distance:.1f} steps away"
    return no_update, page.said(f"This image is not on the map: {where}."), None

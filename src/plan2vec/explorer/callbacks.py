"""What changes when. The server answers with what is new only; lines over the points are drawn by assets/explorer.js.
"""

import base64
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
from dash import ALL, ClientsideFunction, Dash, Input, Output, Patch, State, ctx, no_update
from dash.dcc import Graph
from dash.exceptions import PreventUpdate

from plan2vec.explorer.charts import map_figure, marker_of, room_figure
from plan2vec.explorer.page import (
    COMPARED,
    HELP,
    METHOD_COLORS,
    PANELS,
    closure_list,
    film,
    frame_address,
    map_words,
    method_bars,
    neighbor_list,
    plot_of,
    summary,
)
from plan2vec.explorer.session import Session
from plan2vec.explorer.view import from_query
from plan2vec.planner import METHODS, Plan

DEPENDS = {"valued.data": "distance", "judged.data": "component"}  # colours that change with these


def add_callbacks(app: Dash, session: Session) -> None:
    """Connect the page to the session."""
    answers: tuple[Callable[[Dash, Session], None], ...] = (
        _address, _draw, _draw_room, _plan, _compare, _neighbors, _closures, _judge, _upload,
    )
    for add in answers:
        add(app, session)
    _add_scripts(app)


def _add_scripts(app: Dash) -> None:
    """What the browser does by itself. A click leads to one request, for the plan: `valued` and `near` pass on what is
    looked at only.
    """
    kept = [Input(name, "value") for name in ("start", "goal", "method", "color", "axes")]
    looked_at = [Input(name, "value") for name in ("panel", "neighbours-of", "start", "goal")]
    scripts = {
        "plan": (Output("plan-drawn", "data"), [Input("plan", "data")]),
        "touched": (Output("touched-drawn", "data"), [Input("touched", "data"), Input("show", "value")]),
        "address": (Output("addressed", "data"), kept),
        "next": (Output("next", "className"), [Input("next", "value")]),
        "panel": ([Output(f"panel-{name}", "style") for name in PANELS], [Input("panel", "value")]),
        "valued": (Output("valued", "data"), [Input("color", "value"), Input("goal", "value")]),
        "near": (Output("near", "data"), [*looked_at, Input("judged", "data")]),
    }
    for name, (output, inputs) in scripts.items():
        app.clientside_callback(
            ClientsideFunction("explorer", name), output, inputs, prevent_initial_call=name == "address"
        )


# ---------------------------------------------------------------------------------------------------- view


def _address(app: Dash, session: Session) -> None:
    names = ("start", "goal", "method", "color", "axes", "next")

    @app.callback(
        [*(Output(name, "value") for name in names), Output("message", "children", allow_duplicate=True)], Input("address", "search"),
        prevent_initial_call="initial_duplicate",
    )
    def read_address(search: str | None) -> list[Any]:
        """Only what differs from the view that stands there: every value that is set asks the server again."""
        view, complaint = from_query(search or "", session.default)
        changed = [
            value if value != usual else no_update for value,
            usual in zip(astuple(view), astuple(session.default), strict=True)
        ]
        return [*changed, "goal" if view.start and not view.goal else no_update, complaint or no_update]


def _draw(app: Dash, session: Session) -> None:
    @app.callback(
        Output("map", "figure"), Output("map-words", "children"), Output("shown", "data"), Input("color", "value"), Input("axes", "value"),
        Input("valued", "data"), Input("judged", "data"), State("goal", "value"), State("shown", "data"), prevent_initial_call=True,
    )
    def draw(color: str, axes: str, valued: object, judged: object, goal: str, shown: dict) -> tuple:
        now = {"color": color, "axes": axes}
        if axes != shown["axes"]:
            marker = marker_of(session, color, _number_or_none(session, goal))
            return map_figure(session, axes, marker), map_words(session, axes), now
        if color == shown["color"] and not _depends(color):
            raise PreventUpdate
        return _recolored(session, color, goal), no_update, now


def _draw_room(app: Dash, session: Session) -> None:
    if session.room is None:
        return
    scene = session.room

    @app.callback(
        Output("room-place", "children"), Input("painted", "data"), State("color", "value"), State("goal", "value"),
        prevent_initial_call=True,
    )
    def place_room(painted: bool, color: str, goal: str) -> Graph:
        """After the map, which a person waits for."""
        return plot_of("room", room_figure(scene, marker_of(session, color, _number_or_none(session, goal))))

    @app.callback(
        Output("room", "figure"), Input("color", "value"), Input("valued", "data"), Input("judged", "data"), State("goal", "value"),
        prevent_initial_call=True,
    )
    def recolor_room(color: str, valued: object, judged: object, goal: str) -> Patch:
        if "color.value" not in ctx.triggered_prop_ids and not _depends(color):
            raise PreventUpdate
        return _recolored(session, color, goal, {"showscale": False})


def _depends(color: str) -> bool:
    """What has changed, beside the choice of colour, changes the colours."""
    return any(color == DEPENDS.get(name) for name in ctx.triggered_prop_ids)


def _recolored(session: Session, color: str, goal: str, other: dict[str, Any] | None = None) -> Patch:
    """Other colours for the points that are there."""
    marker = marker_of(session, color, _number_or_none(session, goal)) | (other or {})
    patch = Patch()
    for name, value in ({"colorbar": None, "colorscale": None, "showscale": False} | marker).items():
        patch["data"][0]["marker"][name] = value
    return patch


def _number_or_none(session: Session, text: str | None) -> int | None:
    """A frame number, or None for a field that is empty or wrong (the plan's message says so)."""
    return _end(session, text, "frame")[0]


# ---------------------------------------------------------------------------------------------------- plans


def _plan(app: Dash, session: Session) -> None:
    @app.callback(
        Output("plan", "data"), Output("strip", "children"), Output("summary", "children"), Output("message", "children"),
        Output("start-image", "src"), Output("goal-image", "src"),
        Input("start", "value"), Input("goal", "value"), Input("method", "value"), Input("judged", "data"), prevent_initial_call=True,
    )
    def plan(start: str, goal: str, method: str, judged: dict | None) -> tuple:
        (first, complaint), (last, second_complaint) = _end(session, start, "start"), _end(session, goal, "goal")
        images = [frame_address(number) if number is not None else "" for number in (first, last)]
        said = complaint or second_complaint or (judged or {}).get("message", "")
        drawn = {"start": first, "goal": last, "method": method, "nodes": None, "revision": session.revision}
        if first is None or last is None or method not in METHODS:
            return drawn, [], HELP, said, *images
        made = session.plan(first, last, method)
        return drawn | {"nodes": made.nodes}, film(session, made), summary(session, made), said, *images


def _end(session: Session, text: str | None, name: str) -> tuple[int | None, str]:
    """The frame that a field names, and what is wrong with it."""
    try:
        return (session.number(text, name) if text else None), ""
    except ValueError as error:
        return None, f"{error}."


def _compare(app: Dash, session: Session) -> None:
    @app.callback(Output("methods", "children"), Output("touched", "data"), Input("plan", "data"), prevent_initial_call=True)
    def compare(plan: dict) -> tuple:
        """All methods side by side, after the chosen one stands on the page."""
        start, goal, method = (plan.get(name) for name in ("start", "goal", "method"))
        if start is None or goal is None or method not in METHODS:
            return COMPARED, None
        plans = session.compare(session.number(start, "start"), session.number(goal, "goal"))
        return method_bars(plans, method), overlay_data(plans, method)


def overlay_data(plans: list[Plan], method: str) -> dict[str, Any]:
    """The frames that the chosen method touched, as the bytes of int32, and the ways of the other methods."""
    (chosen,) = (plan for plan in plans if plan.method == method)
    touched = np.fromiter(sorted(chosen.touched), np.int32, len(chosen.touched))
    others = [
        {"nodes": plan.nodes, "color": METHOD_COLORS[plan.method]} for plan in plans
        if plan is not chosen and plan.nodes
    ]
    task = {"start": chosen.start, "goal": chosen.goal, "method": method}
    return task | {"touched": base64.b64encode(touched.data).decode("ascii"), "others": others}


def _neighbors(app: Dash, session: Session) -> None:
    @app.callback(Output("neighbours", "children"), Input("near", "data"), prevent_initial_call=True)
    def neighbors(near: dict) -> Any:
        number, goal = (_number_or_none(session, near.get(name)) for name in ("frame", "goal"))
        return HELP if number is None else neighbor_list(session, number, session.neighbors(number, goal))


# ---------------------------------------------------------------------------------------------------- closures, images


def _closures(app: Dash, session: Session) -> None:
    @app.callback(Output("closures", "children"), Input("panel", "value"), Input("judged", "data"), prevent_initial_call=True)
    def closures(panel: str, judged: object) -> list:
        if panel != "closures":
            raise PreventUpdate
        return closure_list(session, session.suspicious(), session.judged())


def _judge(app: Dash, session: Session) -> None:
    @app.callback(Output("judged", "data"), Input({"verdict": ALL, "pair": ALL}, "n_clicks"), prevent_initial_call=True)
    def judge(clicks: list[int | None]) -> dict:
        pressed = ctx.triggered_id
        if not pressed or not any(item["value"] for item in ctx.triggered):
            raise PreventUpdate
        return judge_pair(session, str(pressed["verdict"]), str(pressed["pair"]))


def judge_pair(session: Session, verdict: str, pair: str) -> dict[str, Any]:
    """Carry out a verdict on a pair "first-second"; the message says what came of it."""
    done = {
        "strike": "struck. Plans avoid it; the map follows with `plan2vec closures RUN --update`", "keep": "kept",
        "undo": "forgotten"
    }
    try:
        first, second = (session.number(text, "frame") for text in pair.split("-", 1))
        if verdict not in done:
            raise ValueError("a verdict is strike, keep or undo")
        session.judge(verdict, first, second)
        message = f"Closure {first} - {second}: {done[verdict]}."
    except ValueError as error:
        message = f"{error}."
    return {"revision": session.revision, "message": message}


def _upload(app: Dash, session: Session) -> None:
    for name, following in (("start", "goal"), ("goal", "start")):

        @app.callback(
            Output(name, "value", allow_duplicate=True), Output("next", "value", allow_duplicate=True),
            Output("message", "children", allow_duplicate=True), Output(f"upload-{name}", "contents"),
            Input(f"upload-{name}", "contents"), prevent_initial_call=True,
        )
        def upload(contents: str | None, name: str = name, following: str = following) -> tuple:
            if not contents:
                raise PreventUpdate
            number, message = place_upload(session, contents)
            return (no_update, no_update, message, None) if number is None else (str(number), following, message, None)


def place_upload(session: Session, contents: str) -> tuple[int | None, str]:
    """The frame that an uploaded image stands for, if any, and what to say."""
    try:
        place = session.locate_upload(contents)
    except ValueError as error:
        return None, f"{error}."
    if not place.on_map:
        return None, f"This image is not on the map: the nearest frame, {place.number}, is {place.distance:.1f} steps away."
    return place.number, f"The image lies at frame {place.number}, {place.distance:.2f} steps away."

"""What stands where on the page, and the pieces that the callbacks fill in."""

from itertools import pairwise
from typing import Any

from dash import dcc, html

from plan2vec.explorer.charts import DARK_GRAY, map_figure, map_words, marker_of
from plan2vec.explorer.session import Hop, Neighbor, Session
from plan2vec.explorer.view import NUM_AXES
from plan2vec.pictures.frame_grids import strip_frames
from plan2vec.pictures.palette import BLUE, GREEN, ORANGE
from plan2vec.pictures.scene import even_choice
from plan2vec.planner import METHODS, Plan
from plan2vec.runs.struck import Judged

HELP = "Click a frame on the map to set the start, then one for the goal; or type frame numbers above."
COMPARED = "Once start and goal are set, all methods stand here side by side."
MAX_STRIP = 80  # frames of a film strip
METHOD_COLORS = dict(zip(METHODS, (ORANGE, BLUE, GREEN, DARK_GRAY), strict=True))
COLOR_WORDS = {"distance": "distance to goal", "component": "part of graph", "position": "true position"}
DRAWN: Any = [{"label": "frames touched", "value": "touched"}, {"label": "other methods", "value": "others"},
              {"label": "pictures", "value": "pictures"}]
PANELS = ("methods", "neighbours", "closures")
STORES = ("plan", "plan-drawn", "touched", "touched-drawn", "judged", "addressed", "painted", "valued", "near",
          "focused")
GRAPH: Any = {
    "plotGlPixelRatio": 1, "displaylogo": False, "scrollZoom": True, "responsive": True,
    "showSendToCloud": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "toImage"]  # ours also saves what is drawn over the points
}
REFIT = "A struck closure leaves the graph, and so every plan, at once. The map itself follows with: "


def page(session: Session) -> html.Div:
    """The whole page with the usual view of the map; callbacks fill in the rest."""
    usual, model = session.default, session.model
    sizes = f"{session.num_frames:,} frames, {model.vectors.shape[1]}-d map, {model.graph.nnz:,} directed edges"
    facts = f"{session.sequences.source}: {sizes}"
    rooms = [_plot("room", "True positions", "", None)] if session.room else []
    figure = map_figure(session, usual.axes, marker_of(session, usual.color, None))
    words = map_words(session, usual.axes)
    message = html.Div(id="message", role="status", **_aria("live", "polite"))
    strip = html.Div(id="strip", tabIndex=0, role="region", **_aria("label", "film strip of the plan"))
    return html.Div([
        dcc.Location(id="address", refresh=False),
        dcc.Store(id="shown", data={"color": usual.color, "axes": usual.axes}),
        *(dcc.Store(id=name) for name in STORES),
        html.Header([html.H1("plan2vec explorer"), html.Span(facts, className="quiet")]),
        html.Section([_end_control("start"), _end_control("goal"), *_choices(session)], className="controls"), message,
        html.Main([_plot("map", "Metric map", words, plot_of("map", figure)), *rooms, _panels()],
                  className="with-room" if rooms else "without-room"),
        html.Section([html.Div(HELP, id="summary"), strip], className="film"),
        html.Div([html.Img(id="tip-image", alt=""), html.Span(id="tip-text")], id="tip"),
    ], id="page")


def _aria(name: str, value: str) -> dict[str, Any]:
    """What a screen reader says."""
    return {f"aria-{name}": value}


def _end_control(name: str) -> html.Div:
    """Start or goal: its picture, a field to type a frame, a button to upload an image."""
    button = html.Button("image...", title=f"upload an image as {name}, up to 8 MB")
    upload = dcc.Upload(button, id=f"upload-{name}", accept="image/*")
    example: Any = {"placeholder": "e.g. 25 or 3:7", "maxLength": 40, "autoComplete": "off"}
    field = dcc.Input(id=name, type="text", debounce=True, **example)
    image = html.Img(id=f"{name}-image", alt=f"{name} frame", className="thumb")
    return html.Div([image, html.Div([html.Label(name, htmlFor=name), field, upload])], className="end")


def _choices(session: Session) -> list[html.Fieldset]:
    usual = session.default
    return [
        _radio("next", "a click sets", ("start", "goal"), "start"),
        _radio("method", "method", METHODS, usual.method),
        _radio("color", "colour by", session.colors, usual.color),
        _radio("axes", "axes", tuple(NUM_AXES), usual.axes),
        html.Fieldset([html.Legend("draw"), dcc.Checklist(DRAWN, ["touched", "pictures"], id="show", inline=True)]),
    ]


def _radio(name: str, legend: str, options: tuple[str, ...], value: str) -> html.Fieldset:
    choices = [{"label": COLOR_WORDS.get(option, option), "value": option} for option in options]
    return html.Fieldset([html.Legend(legend), dcc.RadioItems(choices, value, id=name, inline=True)])


def _plot(name: str, title: str, words: str, graph: dcc.Graph | None) -> html.Section:
    """Points by Plotly; on the canvas above them lines are drawn without drawing the points again."""
    heading = html.H2([title, html.Span(words, id=f"{name}-words", className="quiet")])
    save = html.Button("save", className="save", value=name, **_aria("label", f"save the picture: {title}"))
    layers = [html.Div(graph, id=f"{name}-place"), html.Canvas(id=f"{name}-overlay")]
    return html.Section([html.Div([heading, save], className="row"), html.Div(layers, className="plot")])


def plot_of(name: str, figure: dict) -> dcc.Graph:
    return dcc.Graph(id=name, figure=figure, config=GRAPH, responsive=True)


def _panels() -> html.Section:
    chooser = _radio("panel", "show", PANELS, PANELS[0])
    neighbor_of = dcc.RadioItems(["start", "goal"], "start", id="neighbours-of", inline=True)
    bodies: dict[str, list] = {
        "methods": [html.Div(COMPARED, id="methods")],
        "neighbours": [html.Div([html.Span("of the "), neighbor_of], className="row"), html.Div(id="neighbours")],
        "closures": [dcc.Loading(html.Div(id="closures"), delay_show=300)],
    }
    panels = [html.Div(body, id=f"panel-{name}", className="panel") for name, body in bodies.items()]
    return html.Section([chooser, *panels], id="side")


# ---------------------------------------------------------------------------------------------------- pieces


def said(words: str, good: bool = False) -> html.Span | str:
    """What the page answers: what was done, or what is wrong."""
    return html.Span(words, className="good" if good else "wrong") if words else ""


def frame_address(number: int) -> str:
    return f"/frame/{number}.png"


def _picture(session: Session, number: int, words: str, kind: str = "") -> html.Figure:
    image = html.Img(src=frame_address(number), alt=f"frame {number}", title=f"frame {number}, {session.name(number)}")
    return html.Figure([image, html.Figcaption([html.B(str(number)), html.Br(), words])], className=kind)


def film(session: Session, plan: Plan, hops: list[Hop]) -> list[html.Figure]:
    """The frames of a plan, an even choice of a long one; below each the steps to the next, and the worst hop there."""
    if plan.nodes is None:
        return [_picture(session, plan.start, "start"), _picture(session, plan.goal, "goal")]
    strip = strip_frames(session.model.graph, plan.nodes, MAX_STRIP)
    shown = even_choice(len(plan.nodes), MAX_STRIP)
    worst = [max(hops[first:last], key=_doubt) for first, last in pairwise(shown)]
    pictures = [_picture(session, number, f"{words}{_hop_words(hop)}", hop.kind)
                for (number, words), hop in zip(strip, worst, strict=False)]
    return [*pictures, _picture(session, *strip[-1])]


def _doubt(hop: Hop) -> float:
    return 0 if hop.kind == "recorded" else 2 - (1 if hop.confidence is None else hop.confidence)


def _hop_words(hop: Hop) -> str:
    words = "" if hop.confidence is None else f" {hop.confidence:.0%}"
    return " \u2192" if hop.kind == "recorded" else f" \u21e2{words}"


def summary(session: Session, plan: Plan, hops: list[Hop]) -> list:
    """A plan in one line."""
    ends = f" from {plan.start} ({session.name(plan.start)}) to {plan.goal} ({session.name(plan.goal)})"
    if plan.length is None:
        return [html.B(f"{plan.method}: no path"), ends, f": {plan.reason}"]
    cost = f"{plan.num_touched:,} frames touched, expanded {plan.num_expanded:,} times. "
    kinds = [hop.kind for hop in hops]
    num_closures, num_doubtful = len(kinds) - kinds.count("recorded"), kinds.count("doubtful")
    rests = f"{kinds.count('recorded')} recorded, {num_closures} closures"
    doubt = [", ", html.B(f"{num_doubtful} doubtful", className="doubt")] if num_doubtful else []
    facts = f": {plan.length:.2f} steps in {plan.hops} {'hop' if plan.hops == 1 else 'hops'}: {rests}"
    note = "Below each frame: steps to the next; \u21e2 closure."
    return [html.B(plan.method), ends, facts, *doubt, f"; {cost}", html.Span(note, className="quiet")]


def method_bars(plans: list[Plan], chosen: str) -> list:
    """Length, hops, touched and expanded of every method, each as bars of one scale."""
    facts: dict[str, list] = {
        "length (steps)": [plan.length for plan in plans],
        "hops": [plan.hops for plan in plans],
        "frames touched": [plan.num_touched for plan in plans],
        "times expanded": [plan.num_expanded for plan in plans],
    }
    groups = []
    for title, values in facts.items():
        most = max([value for value in values if value is not None], default=0) or 1
        bars = (_bar(plan.method, value, most, chosen) for plan, value in zip(plans, values, strict=True))
        groups.append(html.Div([html.H3(title), *bars]))
    failed = [html.P(f"{plan.method}: {plan.reason}", className="quiet") for plan in plans if plan.nodes is None]
    return [*groups, *failed]


def _bar(method: str, value: float | None, most: float, chosen: str) -> html.Div:
    text = "no path" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    style = {"width": f"{100 * (value or 0) / most:.1f}%", "background": METHOD_COLORS[method]}
    bar = html.Div(html.Div(className="bar", style=style), className="track")
    row = [html.Span(method), bar, html.Span(text, className="value")]
    return html.Div(row, className="bars chosen" if method == chosen else "bars")


def neighbor_list(session: Session, number: int, near: list[Neighbor]) -> list:
    words = f"Neighbours of frame {number} on the graph: recorded steps, then the nearest closures; steps of the hop"
    words += " and learned steps to the goal." if near and near[0].to_goal is not None else "."
    cells = [_picture(session, one.number, _neighbor_words(one)) for one in near]
    return [html.P(words, className="quiet"), html.Div(cells, className="cells")]


def _neighbor_words(one: Neighbor) -> str:
    words = f"{one.distance:.2f} {'step' if one.recorded else 'closure'}"
    return words if one.to_goal is None else f"{words}, {one.to_goal:.1f} to go"


def closure_list(session: Session, suspicious: list[dict], judged: Judged) -> list:
    """Frame pairs with buttons to keep or strike, then what was judged, with a button to undo."""
    words = "The most doubtful closures. Keep a pair that shows about the same place, strike others."
    pairs = [_closure(session, closure) for closure in suspicious]
    done = [("struck", pair) for pair in reversed(judged.struck)] + [("kept", pair) for pair in reversed(judged.kept)]
    rows = [
        html.Div([f"{verdict} {first} - {second} ", _judge("undo", first, second)], className="row")
        for verdict, (first, second) in done
    ]
    empty = [] if pairs else [html.P("No closure is left to look at.")]
    command = html.Code(f"plan2vec closures {session.model.folder} --update")
    return [html.P(words), html.P([REFIT, command], className="quiet"), *rows, *pairs, *empty]


def _closure(session: Session, closure: dict) -> html.Div:
    first, second = closure["first"], closure["second"]
    facts = html.Div([f"{closure['distance']:.2f} steps", html.Br(), f"{closure['paths']:.1%} of paths", html.Br(),
                      _judge("keep", first, second), _judge("strike", first, second)])
    pictures = [_picture(session, number, session.name(number)) for number in (first, second)]
    return html.Div([*pictures, facts], className="pair")


def _judge(verdict: str, first: int, second: int) -> html.Button:
    described = _aria("label", f"{verdict} the closure of frames {first} and {second}")
    return html.Button(verdict, id={"verdict": verdict, "pair": f"{first}-{second}"}, className=verdict, **described)

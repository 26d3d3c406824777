"""What stands where on the page; pieces.py makes what the callbacks fill in."""

from typing import Any

from dash import dcc, html

from plan2vec.explorer.charts import map_figure, map_words, marker_of
from plan2vec.explorer.pieces import aria
from plan2vec.explorer.session import NUM_AXES, PANELS, Session
from plan2vec.model import Model
from plan2vec.pictures.figures import is_image
from plan2vec.planner import METHODS
from plan2vec.verdict import LINES, judged, make_verdict, number_text

HELP = "Click a frame on the map, or any picture, to set the start, then one for the goal; or type frame numbers above."
COMPARED = "Once start and goal are set, all methods stand here side by side."
WORDS = {"distance": "distance to goal", "component": "part of graph", "position": "true position",
         "2-d": "2-d components", "3-d": "3-d components", "graph": "graph distances"}
DRAWN: Any = [{"label": "frames touched", "value": "touched"}, {"label": "other methods", "value": "others"},
              {"label": "pictures", "value": "pictures"}]
STORES = ("asked", "plan", "touched", "judged", "painted", "valued", "near", "lines")
FIGURES = {"png": "figure (PNG)", "svg": "figure (SVG)", "gif": "film (GIF)", "mp4": "film (MP4)"}
GRAPH: Any = {"plotGlPixelRatio": 1, "displaylogo": False, "scrollZoom": True, "responsive": True,
              "showSendToCloud": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "toImage"]}  # ours is fuller


def page(session: Session) -> html.Div:
    """The whole page with the usual view of the map; callbacks fill in the rest."""
    usual = session.default
    rooms = [_plot("room", "True positions", "", None)] if session.room else []
    figure = map_figure(session, usual["axes"], marker_of(session, usual["color"], None))
    words = map_words(session, usual["axes"])
    sizes = f"{session.num_frames:,} frames, {session.model.vectors.shape[1]}-d map"
    facts = f"{session.sequences.source}: {sizes}, {session.model.graph.nnz:,} directed edges"
    message = html.Div(id="message", role="status", **aria("live", "polite"))
    strip = html.Div(id="strip", tabIndex=0, role="region", **aria("label", "film strip of the plan"))
    return html.Div([
        *(dcc.Store(id=name) for name in STORES),
        dcc.Store(id="shown", data={"color": usual["color"], "axes": usual["axes"]}),
        dcc.Store(id="episodes", data=session.episodes()),
        html.Header([html.H1("plan2vec explorer"), html.Span(facts, className="quiet")]),
        verdict_section(session.model, session.card, session.evaluated),
        html.Section([_end_control("start"), _end_control("goal"), *_choices(session)], className="controls"), message,
        html.Main([_plot("map", "Metric map", words, plot_of("map", figure)), *rooms, _panels()],
                  className="with-room" if rooms else "without-room"),
        _timeline(), html.Section([html.Div(HELP, id="summary"), strip], className="film"),
        html.Div([html.Img(id="tip-image", alt=""), html.Span(id="tip-text")], id="tip"),
    ], id="page")


def verdict_section(model: Model, card: dict, evaluated: bool) -> html.Section:
    """One sentence with its reason and what to do first; the numbers are folded below."""
    run = model.folder or "RUN"
    verdict = make_verdict(card, run)
    late = [] if evaluated else [f"Plans were not tried yet: plan2vec evaluate {run}"]
    rest = " ".join([verdict.advice, verdict.unknown, *late])
    look: list[Any] = [" ", html.Button("show the closures", id="show-closures")] if card.get("loop_closures") else []
    headline = verdict.headline if evaluated or not verdict.good else "Not evaluated yet."
    words = html.Div([html.P([html.B(headline), " ", verdict.sentence], className="sentence"),
                      html.P([rest, *look, " ", _numbers(card)], className="advice")])
    looks = "bad" if not verdict.good else "good" if evaluated else "open"
    picture = html.A(html.Img(id="verdict-image", alt="the reason as a picture"), href="/verdict.png", target="_blank",
                     title="open the picture in full size")
    return html.Section([picture, words], id="verdict", className=looks)


def _numbers(card: dict) -> html.Details:
    """Every number that was judged, in words; opened, it lies over the page."""
    rows = []
    for name, good in judged(card).items():
        line = LINES[name]
        number = f"{card[name]:.1%}" if line.unit == "share" else number_text(card[name], line.unit)
        cells = [line.words, number, "good" if good else f"look at this: {line.remedy}"]
        rows.append(html.Tr([html.Td(cell) for cell in cells], className="good" if good else "bad"))
    return html.Details([html.Summary("The numbers, in words"), html.Table(html.Tbody(rows))])


def _end_control(name: str) -> html.Div:
    """Start or goal: its picture, a field to type a frame, a button to upload an image."""
    button = html.Button("image...", title=f"upload an image as {name}, up to 8 MB")
    upload = dcc.Upload(button, id=f"upload-{name}", accept="image/*")
    example: Any = {"placeholder": "25 or 3:7", "maxLength": 40, "autoComplete": "off"}
    field = dcc.Input(id=name, type="text", debounce=True, **example)
    image = html.Img(id=f"{name}-image", alt=f"{name} frame", className="thumb")
    return html.Div([image, html.Div([html.Label(name, htmlFor=name), field, upload])], className="end")


def _choices(session: Session) -> list:
    """One row: what a click sets, the method, and two folded menus: how the map is shown, and what can be saved."""
    usual, drawn = session.default, ["touched", "pictures"]
    shown = [_radio("color", "colour by", session.colors, usual["color"]),
             _radio("axes", "layout", tuple(NUM_AXES), usual["axes"]),
             html.Fieldset([html.Legend("draw"), dcc.Checklist(DRAWN, drawn, id="show", inline=True)])]
    endings = FIGURES if is_image(session.sequences) else {name: FIGURES[name] for name in ("png", "svg")}
    saved = [html.Button(words, value=name, className="save") for name, words in endings.items()]
    menus = [html.Details([html.Summary(name), html.Div(inside)], id=f"{name}-menu", className="menu")
             for name, inside in (("view", shown), ("save", saved))]
    return [_radio("next", "a click sets", ("start", "goal"), "start"),
            _radio("method", "method", METHODS, usual["method"]), *menus]


def _radio(name: str, legend: str, options: tuple[str, ...], value: str) -> html.Fieldset:
    choices = [{"label": WORDS.get(option, option), "value": option} for option in options]
    return html.Fieldset([html.Legend(legend), dcc.RadioItems(choices, value, id=name, inline=True)])


def _plot(name: str, title: str, words: str, graph: dcc.Graph | None) -> html.Section:
    """Points by Plotly; on the canvases above them lines, and what moves, without drawing the points again."""
    heading = html.H2([title, html.Span(words, id=f"{name}-words", className="quiet")])
    layers = [html.Div(graph, id=f"{name}-place"), html.Canvas(id=f"{name}-overlay"), html.Canvas(id=f"{name}-cursor")]
    legend = html.Div(id="legend") if name == "map" else html.Div(className="legend")
    return html.Section([heading, legend, html.Div(layers, className="plot")])


def plot_of(name: str, figure: dict) -> dcc.Graph:
    return dcc.Graph(id=name, figure=figure, config=GRAPH, responsive=True)


def _timeline() -> html.Section:
    """The highlighted frame, and episodes as tracks: where it lies in them, and the learned distance to the goal."""
    bar = [html.Button("play", id="play"), html.Span(id="now-words", className="quiet"),
           html.Button("set as start", value="start", className="set"),
           html.Button("set as goal", value="goal", className="set")]
    here = html.Button(html.Img(id="now-image", alt="the highlighted frame"), id="now", className="frame",
                       **aria("label", "highlighted frame: set as end"))
    over = html.Div([html.Div(id="scrubber-place"), html.Canvas(id="timeline")])
    tracks = html.Div([html.Div(id="tracks"), over], className="tracks")
    return html.Section([here, html.Div([html.Div(bar, className="row"), tracks])], id="time")


def _panels() -> html.Section:
    chooser = _radio("panel", "show", PANELS, PANELS[0])
    neighbor_of = dcc.RadioItems(["start", "goal"], "start", id="neighbours-of", inline=True)
    of_end = html.Div([html.Span("of the "), neighbor_of], className="row")
    bodies: Any = ([html.Div(COMPARED, id="methods")], [of_end, html.Div(id="neighbours")],
                   [dcc.Loading(html.Div(id="closures"), delay_show=300)])
    panels = [html.Div(body, id=f"panel-{name}", className="panel") for name, body in zip(PANELS, bodies, strict=True)]
    return html.Section([chooser, *panels], id="side")

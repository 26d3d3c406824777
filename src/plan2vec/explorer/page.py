"""What stands where on the page, and below it what the callbacks fill in: frames, a plan in a line, lists."""

from typing import Any

from dash import dcc, html

from plan2vec.explorer.charts import DARK_GRAY, map_figure, map_words, marker_of
from plan2vec.explorer.session import NUM_AXES, NUM_SUSPICIOUS, PANELS, Session
from plan2vec.pictures.figures import frame_name, is_image
from plan2vec.pictures.frame_grids import strip_frames
from plan2vec.pictures.hops import BELIEVED, Hop, count_words
from plan2vec.pictures.palette import BLUE, GREEN, ORANGE
from plan2vec.planner import METHODS, Plan
from plan2vec.verdict import LINES, judged, make_verdict, number_text

HELP = "Click a frame on the map, or any picture, to set the start, then one for the goal; or type frame numbers above."
COMPARED = "Once start and goal are set, all methods stand here side by side."
WORDS = {"distance": "distance to goal", "component": "part of graph", "position": "true position",
         "2-d": "2-d components", "3-d": "3-d components", "graph": "graph distances"}
DRAWN: Any = [{"label": "frames touched", "value": "touched"}, {"label": "other methods", "value": "others"},
              {"label": "pictures", "value": "pictures"}]
FACTS = {"length (steps)": "length", "hops": "hops", "frames touched": "num_touched", "times expanded": "num_expanded"}
STORES = ("asked", "plan", "touched", "judged", "painted", "valued", "near", "lines")
FIGURES = {"png": "figure (PNG)", "svg": "figure (SVG)", "gif": "film (GIF)", "mp4": "film (MP4)"}
GRAPH: Any = {"plotGlPixelRatio": 1, "displaylogo": False, "scrollZoom": True, "responsive": True,
              "showSendToCloud": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "toImage"]}  # ours is fuller
MAX_STRIP = 80  # frames of a film strip
METHOD_COLORS = dict(zip(METHODS, (ORANGE, BLUE, GREEN, DARK_GRAY), strict=True))
REFIT = "A struck closure leaves the graph, and so every plan, at once. The map itself follows with: "


def page(session: Session) -> html.Div:
    """The whole page with the usual view of the map; callbacks fill in the rest."""
    usual = session.default
    figure = map_figure(session, usual["axes"], marker_of(session, usual["color"], None))
    graph = dcc.Graph(id="map", figure=figure, config=GRAPH, responsive=True)
    plots = [_plot("map", "Metric map", map_words(session, usual["axes"]), graph)]
    plots += [_plot("room", "True positions", "", None)] if session.room else []
    sizes = f"{session.num_frames:,} frames, {session.model.vectors.shape[1]}-d map"
    facts = f"{session.sequences.source}: {sizes}, {session.model.graph.nnz:,} directed edges"
    message = html.Div(id="message", role="status", **aria("live", "polite"))
    strip = html.Div(id="strip", tabIndex=0, role="region", **aria("label", "film strip of the plan"))
    shown = dcc.Store(id="shown", data={"color": usual["color"], "axes": usual["axes"]})
    return html.Div([
        *(dcc.Store(id=name) for name in STORES), shown, dcc.Store(id="episodes", data=session.episodes()),
        html.Header([html.H1("plan2vec explorer"), html.Span(facts, className="quiet")]),
        verdict_section(session),
        html.Section([_end_control("start"), _end_control("goal"), *_choices(session)], className="controls"), message,
        html.Main([*plots, _panels()], className="with-room" if session.room else "without-room"),
        _timeline(), html.Section([html.Div(HELP, id="summary"), strip], className="film"),
        html.Div([html.Img(id="tip-image", alt=""), html.Span(id="tip-text")], id="tip")], id="page")


def verdict_section(session: Session) -> html.Section:
    """One sentence with its reason and what to do first; the numbers are folded below."""
    card, evaluated, run = session.card, session.evaluated, session.model.folder or "RUN"
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
        line, value = LINES[name], card[name]
        number = f"{value:.1%}" if line.unit == "share" else number_text(value, line.unit)
        cells = map(html.Td, (line.words, number, "good" if good else f"look at this: {line.remedy}"))
        rows.append(html.Tr([*cells], className="good" if good else "bad"))
    return html.Details([html.Summary("The numbers, in words"), html.Table(html.Tbody(rows))])


def _end_control(name: str) -> html.Div:
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


def _timeline() -> html.Section:
    """The highlighted frame, and episodes as tracks: where it lies in them, and the learned distance to the goal."""
    bar = [html.Button("play", id="play"), html.Span(id="now-words", className="quiet"),
           *(html.Button(f"set as {end}", value=end, className="set") for end in ("start", "goal"))]
    here = html.Button(html.Img(id="now-image", alt="the highlighted frame"), id="now", className="frame",
                       **aria("label", "highlighted frame: set as end"))
    over = html.Div([html.Div(id="scrubber-place"), html.Canvas(id="timeline")])
    tracks = html.Div([html.Div(id="tracks"), over], className="tracks")
    return html.Section([here, html.Div([html.Div(bar, className="row"), tracks])], id="time")


def _panels() -> html.Section:
    neighbor_of = dcc.RadioItems(["start", "goal"], "start", id="neighbours-of", inline=True)
    bodies: Any = ([html.Div(COMPARED, id="methods")],
                   [html.Div([html.Span("of the "), neighbor_of], className="row"), html.Div(id="neighbours")],
                   [dcc.Loading(html.Div(id="closures"), delay_show=300)])
    panels = [html.Div(body, id=f"panel-{name}", className="panel") for name, body in zip(PANELS, bodies, strict=True)]
    return html.Section([_radio("panel", "show", PANELS, PANELS[0]), *panels], id="side")


def aria(name: str, value: str) -> dict[str, Any]:
    return {f"aria-{name}": value}  # what a screen reader says


def said(words: str, good: bool = False) -> html.Span | str:
    """What the page answers: what was done, or what is wrong."""
    return html.Span(words, className="good" if good else "wrong") if words else ""


def _picture(number: int, words: str, kind: str = "", more: tuple = ()) -> html.Figure:
    """A frame that a click makes start or goal, its number and some words below it."""
    image = html.Img(src=f"/frame/{number}.png", alt="")
    button = html.Button(image, value=str(number), className="frame", **aria("label", f"frame {number}: set as end"))
    return html.Figure([button, html.Figcaption([html.B(str(number)), html.Br(), words, *more])], className=kind)


def film(session: Session, plan: Plan) -> list[html.Figure]:
    """An even choice of a plan's frames; below each the steps to the next, and a button to strike the worst hop."""
    if plan.nodes is None:
        return [_picture(plan.start, "start"), _picture(plan.goal, "goal")]
    pictures = []
    for number, words, hop, (begin, end) in strip_frames(session.model, plan.nodes, MAX_STRIP):
        button = () if hop.kind == "recorded" else (html.Br(), judge_button("strike", begin, end, "strip"))
        pictures.append(_picture(number, f"{words}{hop.arrow}", hop.kind, button))
    return [*pictures, _picture(plan.nodes[-1], "goal")]


def summary(session: Session, plan: Plan, hops: list[Hop], before: dict | None = None) -> list:
    """A plan in one line; `before`: its nodes and length until a closure was struck."""
    first, last = (f"{number} ({frame_name(session.sequences, number)})" for number in (plan.start, plan.goal))
    ends, was = f" from {first} to {last}", []
    if before:
        num, length = len(before["nodes"] or [0]) - 1, before["length"]
        words = "no path" if length is None else f"{length:.2f} steps in {num} {'hop' if num == 1 else 'hops'}"
        was = [html.Span(f" Before: {words}.", className="before")]
    if plan.length is None:
        first, last = session.model.parts[1][[plan.start, plan.goal]].tolist()
        apart = f"; they lie in parts {first} and {last}, which nothing joins" if first != last else ""
        lost = first == last and plan.method in ("greedy", "lookahead")  # there is a path; the walk does not find it
        return [html.B(f"{plan.method}: {'got lost' if lost else 'no path'}"), ends, f": {plan.reason}{apart}.", *was]
    cost = f"; {plan.num_touched:,} frames touched, expanded {plan.num_expanded:,} times."
    counts, doubtful = count_words(hops), sum(hop.kind == "doubtful" for hop in hops)
    rests, _, last = counts.rpartition(", ") if doubtful else (counts, "", "")
    doubt = [", ", html.B(last, className="doubt")] if doubtful else []
    return [html.B(plan.method), ends, f": {plan.length:.2f} steps in {rests}", *doubt, cost, *was,
            html.Span(" Below each frame: steps to the next; \u21e2 closure.", className="quiet")]


def method_bars(plans: list[Plan], chosen: str) -> list:
    """Length, hops, touched and expanded of every method, each as bars of one scale."""
    groups = []
    for title, name in FACTS.items():
        values = {plan.method: getattr(plan, name) for plan in plans}
        most = max([value for value in values.values() if value is not None], default=0) or 1
        rows = []
        for method, value in values.items():
            text = "no path" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
            style = {"width": f"{100 * (value or 0) / most:.1f}%", "background": METHOD_COLORS[method]}
            bar = html.Div(html.Div(className="bar", style=style), className="track")
            row = [html.Span(method), bar, html.Span(text, className="value")]
            rows.append(html.Div(row, className="bars chosen" if method == chosen else "bars"))
        groups.append(html.Div([html.H3(title), *rows]))
    failed = [html.P(f"{plan.method}: {plan.reason}", className="quiet") for plan in plans if plan.nodes is None]
    return [*groups, *failed]


def neighbor_list(session: Session, number: int, goal: int | None) -> list:
    words = f"Neighbours of frame {number} on the graph: recorded steps, then the nearest closures; steps of the hop"
    near = session.neighbors(number, goal)
    words += " and learned steps to the goal." if near and goal is not None else "."
    cells = [_picture(frame, f"{steps:.2f} {'step' if recorded else 'closure'}"
                      + ("" if to_goal is None else f", {to_goal:.1f} to go"))
             for frame, steps, recorded, to_goal in near]
    return [html.P(words, className="quiet"), html.Div(cells, className="cells")]


def closure_list(session: Session, suspicious: list[dict]) -> list:
    """Frame pairs with buttons to keep or strike, then what was judged, with a button to undo."""
    rest, known = len(suspicious) - NUM_SUSPICIOUS, any(one["confidence"] is not None for one in suspicious)
    judged = session.judged()
    order = "most doubtful closures" if known else "closures that most paths use, since no confidence is known,"
    words = f"The {order} come first. Keep a pair that shows about the same place, strike others."
    words += f" {rest} more are drawn as lines." if rest > 0 else ""
    pairs: list[Any] = [_closure(session, closure) for closure in suspicious[:NUM_SUSPICIOUS]]
    rows = [html.Div([f"{verdict} {first} - {second} ", judge_button("undo", first, second)], className="row")
            for verdict, done in (("struck", judged.struck), ("kept", judged.kept)) for first, second in reversed(done)]
    command = html.Code(f"plan2vec closures {session.model.folder} --update")
    return [html.P(words), html.P([REFIT, command], className="quiet"), *rows,
            *(pairs or [html.P("No closure is left to look at.")])]


def _closure(session: Session, closure: dict) -> html.Div:
    first, second, sure = closure["first"], closure["second"], closure["confidence"]
    doubt = [] if sure is None else [html.B(f"{sure:.0%} sure", className="doubt" if sure < BELIEVED else "")]
    sequence = session.sequences.sequence
    apart = f"{abs(second - first):,} frames apart" if sequence[first] == sequence[second] else "two sequences"
    lines = [*doubt, apart, f"{closure['distance']:.2f} steps", f"{closure['paths']:.1%} of paths"]
    told: list[Any] = [part for line in lines for part in (line, html.Br())]
    facts = html.Div([*told, judge_button("keep", first, second), judge_button("strike", first, second)])
    pictures = [_picture(number, frame_name(session.sequences, number)) for number in (first, second)]
    named: dict[str, Any] = {"data-pair": f"{first}-{second}"}
    return html.Div([*pictures, facts], className="pair", **named)


def judge_button(verdict: str, first: int, second: int, at: str = "list") -> html.Button:
    """`at`: list, strip or message, because a closure may have buttons in several places."""
    first, second = sorted((first, second))
    name = {"verdict": verdict, "pair": f"{first}-{second}", "at": at}
    return html.Button(verdict, id=name, className=verdict,
                       **aria("label", f"{verdict} the closure of frames {first} and {second}"))

"""Pieces of the page that the callbacks fill in: pictures of frames, the plan in a line, lists."""

from typing import Any

from dash import html

from plan2vec.explorer.charts import DARK_GRAY
from plan2vec.explorer.session import NUM_SUSPICIOUS, Neighbor, Session
from plan2vec.pictures.figures import frame_name
from plan2vec.pictures.frame_grids import strip_frames
from plan2vec.pictures.hops import BELIEVED, Hop, count_words
from plan2vec.pictures.palette import BLUE, GREEN, ORANGE
from plan2vec.planner import METHODS, Plan
from plan2vec.runs.struck import Judged

MAX_STRIP = 80  # frames of a film strip
METHOD_COLORS = dict(zip(METHODS, (ORANGE, BLUE, GREEN, DARK_GRAY), strict=True))
REFIT = "A struck closure leaves the graph, and so every plan, at once. The map itself follows with: "


def aria(name: str, value: str) -> dict[str, Any]:
    """What a screen reader says."""
    return {f"aria-{name}": value}


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
        num = len(before["nodes"] or [0]) - 1
        known = before["length"] is not None
        words = f"{before['length']:.2f} steps in {num} {'hop' if num == 1 else 'hops'}" if known else "no path"
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
    note = " Below each frame: steps to the next; \u21e2 closure."
    return [html.B(plan.method), ends, f": {plan.length:.2f} steps in {rests}", *doubt, cost, *was,
            html.Span(note, className="quiet")]


def method_bars(plans: list[Plan], chosen: str) -> list:
    """Length, hops, touched and expanded of every method, each as bars of one scale."""
    facts = {"length (steps)": "length", "hops": "hops", "frames touched": "num_touched",
             "times expanded": "num_expanded"}
    groups = []
    for title, name in facts.items():
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


def neighbor_list(session: Session, number: int, near: list[Neighbor]) -> list:
    words = f"Neighbours of frame {number} on the graph: recorded steps, then the nearest closures; steps of the hop"
    words += " and learned steps to the goal." if near and near[0].to_goal is not None else "."
    told = [f"{one.distance:.2f} {'step' if one.recorded else 'closure'}"
            + ("" if one.to_goal is None else f", {one.to_goal:.1f} to go") for one in near]
    cells = [_picture(one.number, text) for one, text in zip(near, told, strict=True)]
    return [html.P(words, className="quiet"), html.Div(cells, className="cells")]


def closure_list(session: Session, suspicious: list[dict], judged: Judged) -> list:
    """Frame pairs with buttons to keep or strike, then what was judged, with a button to undo."""
    rest = len(suspicious) - NUM_SUSPICIOUS
    known = any(closure["confidence"] is not None for closure in suspicious)
    order = "most doubtful closures" if known else "closures that most paths use, since no confidence is known,"
    words = f"The {order} come first. Keep a pair that shows about the same place, strike others."
    words += f" {rest} more are drawn as lines." if rest > 0 else ""
    pairs = [_closure(session, closure) for closure in suspicious[:NUM_SUSPICIOUS]]
    rows = [html.Div([f"{verdict} {first} - {second} ", judge_button("undo", first, second)], className="row")
            for verdict, done in (("struck", judged.struck), ("kept", judged.kept)) for first, second in reversed(done)]
    empty = [] if pairs else [html.P("No closure is left to look at.")]
    command = html.Code(f"plan2vec closures {session.model.folder} --update")
    return [html.P(words), html.P([REFIT, command], className="quiet"), *rows, *pairs, *empty]


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
    first, second = min(first, second), max(first, second)
    described = aria("label", f"{verdict} the closure of frames {first} and {second}")
    name = {"verdict": verdict, "pair": f"{first}-{second}", "at": at}
    return html.Button(verdict, id=name, className=verdict, **described)

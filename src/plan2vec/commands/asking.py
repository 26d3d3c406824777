"""Commands that ask a fitted run: plan, evaluate, check, closures."""

import dataclasses
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.table import Table

from plan2vec.commands.answers import CONSOLE, clean, print_answer, print_scorecard, say
from plan2vec.commands.arguments import Check, ClosuresCommand, Evaluate, PlanCommand
from plan2vec.commands.fitting import with_verdict
from plan2vec.evaluation import default_rule, evaluate
from plan2vec.files import own_folder, write_text
from plan2vec.growing import follow_strikes
from plan2vec.model import Model, is_file, load
from plan2vec.pictures.figures import frame_name, is_image, save_figure
from plan2vec.pictures.films import require_images, save_video, writer_of
from plan2vec.pictures.frame_grids import closure_figure, film_strip
from plan2vec.pictures.hops import count_words, doubted_closures, hops_of, unjudged
from plan2vec.planner import Plan
from plan2vec.runs.changing import WAIT, changing_run
from plan2vec.runs.folder import require_finished
from plan2vec.runs.products import COVERED, check_files, fitted_struck, load_graph, read_beside
from plan2vec.runs.struck import Pair, drop_struck, judge, read_judged
from plan2vec.verdict import make_verdict

IN_SENTENCE = ("start", "goal", "method", "length", "hops", "reason")  # said before the table of a plan
INSIDE = ("parts", "num_touched", "num_expanded")  # of the search: for programs


def run_check(command: Check) -> None:
    require_finished(command.run)
    made_with = check_files(command.run, thoroughly=True)
    print_answer({"files": len(COVERED), "damaged": 0, "made_with": made_with}, command.json)


def run_closures(command: ClosuresCommand) -> None:
    """Judge what was asked, bring the map up to date, then list and draw what is still worth a look."""
    if command.update and command.no_update:
        raise ValueError("--update and --no-update contradict each other; give one of them")
    model = load(command.run, command.device, command.encoder)
    struck, kept = ([name for text in texts for name in text.split(",")] for texts in (command.strike, command.keep))
    if struck or kept:
        judge_by_name(model, command.run, struck, kept)
    answer: dict[str, object] = {}
    if (struck or kept or command.update) and not command.no_update and not map_follows(command.run):
        changed = follow_strikes(command.run, command.num_updates, command.device, True, command.encoder)
        model, answer = changed.model, clean(changed.report)
        say(f"scorecard and report of the map as it was are removed; `plan2vec report {command.run}` writes them anew")
    if not map_follows(command.run):
        say(f"the map does not know what was struck; `plan2vec closures {command.run} --update` brings it up to date")
    print_closures(model, command, answer)


def print_closures(model: Model, command: ClosuresCommand, answer: dict[str, object]) -> None:
    """The closures most worth a look, without those that were judged; frames also as sequence:index."""
    judged, picture = read_judged(command.run), None
    found = [closure | {"names": [frame_name(model.sequences, closure[end]) for end in ("first", "second")]}
             for closure in unjudged(doubted_closures(model, command.num + len(judged.all)), judged.all)[: command.num]]
    if found and is_image(model.sequences):
        path = command.picture or own_folder(command.run, "figures") / "suspicious.png"
        with unless_read_only("suspicious.png") if command.picture is None else nullcontext():
            save_figure(closure_figure(model, found), path)
            picture = path
    answer |= {"map_up_to_date": map_follows(command.run), "picture": str(picture) if picture else None}
    if command.picture is not None and picture is None:
        say("no picture: there is no closure to draw, or the frames are vectors")
    if command.json:
        print_answer({"closures": found, "struck": judged.struck, "kept": judged.kept} | answer, True)
        return
    table = Table("closure", "sequence:index", "steps", "confidence", "share of shortest paths", box=None)
    for one in found:
        sure = "unknown" if one["confidence"] is None else f"{one['confidence']:.1%}"
        ends = f"{one['first']}-{one['second']}", " - ".join(one["names"])
        table.add_row(*ends, f"{one['distance']:.2f}", sure, f"{one['paths']:.2%}")
    CONSOLE.print(table)
    struck, kept = ([f"{first}-{second}" for first, second in some] or "none" for some in (judged.struck, judged.kept))
    print_answer({"struck": struck, "kept": kept} | answer, False)


def judge_by_name(model: Model, run: Path, struck: list[str], kept: list[str]) -> None:
    """Strike and keep closures given as "12-480" or "3:4-7:2"; the graph follows. A bad name changes nothing."""
    graph = load_graph(run / "graph.npz").graph  # as it was found: a struck closure can be kept again
    false, true = ({pair_of(model, text, flag) for text in texts}
                   for flag, texts in (("--strike", struck), ("--keep", kept)))
    if both := false & true:
        first, second = min(both)
        raise ValueError(f"closure {first}-{second} is to be struck and kept at once; say one of the two")
    judged = judge(run, graph, model.sequences.sequence, sorted(false), sorted(true))
    model.graph = drop_struck(graph, model.sequences.sequence, judged.struck)


def pair_of(model: Model, text: str, flag: str) -> Pair:
    """Two frame numbers, the smaller one first, from "12-480"."""
    if len(ends := text.split("-")) != 2 or not all(ends):
        raise ValueError(f"{flag} {text}: expected two frames with a hyphen between, such as 12-480 or 3:4-7:2")
    first, second = (model.frame_number(end, f"{flag} {text}: each frame") for end in ends)
    return min(first, second), max(first, second)


def map_follows(run: Path) -> bool:
    """Whether the embedding was fitted to the graph as it is now, with what is struck left out."""
    return fitted_struck(run) == set(read_judged(run).struck)


@contextmanager
def unless_read_only(name: str) -> Iterator[None]:
    """The answer counts more than its file: in a run that may not be written to, only that is said."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        say(f"{name} is not written: {os.strerror(error.errno)}")


def run_evaluate(command: Evaluate) -> None:
    model = load(command.run, command.device, command.encoder)
    given: dict[str, Any] = {"radius": command.success_radius, "max_hops": command.max_hops, "epsilon": command.epsilon,
                             "episodes": command.episodes, "memory": command.memory or None}
    changed = {name: value for name, value in given.items() if value is not None}
    rule = dataclasses.replace(default_rule(model.sequences), **changed)
    check_files(command.run, thoroughly=True)
    card = with_verdict(evaluate(model, rule, command.false_beyond, command.min_gap), command.run)
    with unless_read_only("scorecard.json"), changing_run(command.run, WAIT):
        write_text(command.run / "scorecard.json", json.dumps(card, indent=1))
    print_scorecard(card, command.json, command.verbose)


def run_plan(command: PlanCommand) -> None:
    if command.video is not None:
        writer_of(command.video)  # refuses before any work is done
    model = load(command.run, command.device, command.encoder)
    if command.video is not None:
        require_images(model.sequences)
    made = model.plan(command.start, command.goal, command.method, command.lookahead, command.memory)
    if (verdict := read_beside(model.folder, "scorecard.json", make_verdict)) and not verdict.good:
        say(f"warning: {verdict.headline} {verdict.sentence}")
    parts = [int(model.parts[1][number]) if number >= 0 else None for number in (made.start, made.goal)]
    images = {"start_image": placed(model, command.start), "goal_image": placed(model, command.goal)}
    answer = clean(dataclasses.asdict(made) | {"hops": made.hops, "parts": parts} | images)
    del answer["touched"]
    if made.nodes is not None:
        strip = command.strip or own_folder(command.run, "figures") / f"plan-{made.start}-{made.goal}-{made.method}.png"
        with unless_read_only(strip.name) if command.strip is None else nullcontext():
            save_figure(film_strip(model, made), strip)
            answer["strip"] = str(strip)
    if made.nodes is not None and command.video is not None:
        save_video(model, made, command.video)
        answer["video"] = str(command.video)
    if not command.json:
        print(plan_sentence(model, made))
        answer = {name: value for name, value in answer.items() if name not in (*IN_SENTENCE, *INSIDE)}
    print_answer(answer, command.json)


def placed(model: Model, asked: str) -> str | None:
    """Where an image was found on the map; None of a frame's number."""
    if not is_file(asked):
        return None
    found = model.locate(asked)
    where = f"frame {found.number} ({frame_name(model.sequences, found.number)}), {found.distance:.2f} steps away"
    return f"{asked} lies at {where}" if found.on_map else f"{asked} is not on the map; nearest is {where}"


def plan_sentence(model: Model, made: Plan) -> str:
    if made.length is None:
        return f"no plan: {made.reason}"
    ends = f"from {made.start} to {made.goal} by {made.method}" + (f" ({made.reason})" if made.reason else "")
    return f"{made.length:.2f} steps in {count_words(hops_of(model, made.nodes or []))}, {ends}"

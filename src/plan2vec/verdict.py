"""The verdict: whether a map can be trusted, from its scorecard, in words. Commands and report show the same.

`LINES` is in order of dependence: a bad number spoils those after it, so the first bad one gives the reason."""

from dataclasses import dataclass
from math import inf, isfinite

from plan2vec.graph.closures_moving import MIN_RECOGNIZED
from plan2vec.graph.direction import Evidence


@dataclass(frozen=True)
class Line:
    """What a number of the scorecard means, and when it is good."""

    words: str
    unit: str = ""  # "share": shown in per cent
    good: tuple[float, float] | None = None  # from, to; None: the number alone allows no verdict
    remedy: str = ""  # what to do where it is not good
    reason: str = ""  # the sentence of a map that fails here; without one, the words


@dataclass(frozen=True)
class Verdict:
    good: bool
    sentence: str  # what the map is worth, and why
    look_at: dict[str, str]  # name of each bad number -> its value, what that means, and the remedy
    next: tuple[str, str]  # commands
    headline: str = ""  # what to do with the map, in a few words
    advice: str = ""  # the first thing to do
    unknown: str = ""  # what nobody can know without true positions

    def __str__(self) -> str:
        first = self.sentence if self.good else f"{self.headline} {self.sentence}"
        bad = [f"  {name}: {words}" for name, words in self.look_at.items()]
        return "\n".join([first, *bad, f"Next: {self.next[0]}", f"      {self.next[1]}"])


POSITION = "units of position"  # a domain knows better
LONGER = "Plan with --method astar, or let the map learn longer (--embedding.num-updates 20000)."
EVIDENCE = ("Strike false ones (plan2vec closures), or ask for more evidence (moving camera: --closures.max-false "
            "0.001; else --closures.support both).")
LINES = {  # those that others depend on come first
    "local_accuracy": Line("How often the local metric tells neighbours from distant frames, where it never saw them.",
        "share", (0.8, inf), "Look at the frames in order (plan2vec inspect). If the order is right, record more, or "
        "train the local metric longer (--local-metric.num-updates).",
        "Frames that follow each other look no more alike than others: the local metric is right in {percent} of the "
        "pairs it never saw, and guessing gives 75%. They are noise, out of order or too few, or training was short."),
    "recognized": Line("Recorded steps it never saw that the local metric takes for neighbours (moving camera).",
        "share", (MIN_RECOGNIZED, inf), "Record more frames per second, or the same places more often; or train the "
        "local metric longer (--local-metric.num-updates).", "No closures were believed: the local metric recognizes "
        "only {percent} of the recorded steps it never saw, so it cannot say which places were seen again."),
    "cross_label_share": Line("Closures between two labels, such as floors of a building; all are false.", "share",
        (0, 0.005), EVIDENCE, "{percent} of the closures join two labels, and all of these are false."),
    "plan_validity": Line("Shortest paths whose every hop is possible: at most 7 true steps, or recorded.", "share",
        (0.97, inf), EVIDENCE, "Only {percent} of the shortest paths are truly possible, hop by hop."),
    "false_edge_share": Line("Closures whose two frames are truly distant.", "share", (0, 0.01), EVIDENCE,
        "{percent} of the closures join distant places, and one ruins every plan that runs through it."),
    "estimated_false_closures": Line("Closures that may be false, by our own estimate.", "share", (0, 0.05), EVIDENCE,
        "About 1 in {one_in} closures may be false: this recording looks alike in many places. "
        "See `plan2vec closures`."),
    "loop_closures": Line("Pairs of frames joined because they look the same, beside the recorded steps.", "closures",
        (1, inf), "Record the same places again. A recording that never comes back is a line by right.",
        "No closures: of no place it is sure that it was seen before, so the map is a line of recorded steps."),
    "largest_component_share": Line("Frames in the largest part.", "share", (0.99, inf), "If recordings never meet, "
        "each part is a map of its own. Else record sequences that overlap, in both directions.", "The map has {parts} "
        "parts that no path joins: plans exist inside each, and the largest holds {percent} of the frames."),
    "reversibility": Line("Recorded steps that another recorded step undoes.", "share", (0.1, inf), "If steps cannot "
        "be undone (falling, pouring, momentum), fit with --directed. If they can, record ways back too.",
        "Only {percent} of the recorded steps are ever undone, but hops lead both ways: plans may run time backwards."),
    "revisit_recall": Line("Pairs of frames that truly show one place and are joined within 8 steps.", "share",
        (0.55, inf), "Record the same places again, in the same direction, or train the local metric longer."),
    "spearman_graph": Line("Rank agreement of learned distance and shortest path (best: 1).", "", (0.95, inf), LONGER,
        "The map does not follow its own graph: the rank agreement of their distances is {number}."),
    "embedding_error": Line("Mean error of the learned distance, relative to the shortest path.", "share", (0, 0.15),
        LONGER, "The map does not follow its own graph: its distances are wrong by {percent}."),
    "spearman_true": Line("Rank agreement of learned and true distance (best: 1).", "", (0.9, inf),
        "Look at the closures (plan2vec closures): one false one shortens thousands of distances."),
    "success_graph": Line("Greedy walks that reach a neighbour of the goal. High is no proof.", "share",
        (0.9, inf), "Plan with --method astar.", "Greedy walks get lost: {percent} arrive."),
    "success": Line("Walks that truly arrive, by the rule of the domain.", "share", (0.9, inf),
        "Plan with --method astar."),
    "greedy_validity": Line("Greedy plans, with a visited set, that arrive within 3 steps by possible hops.", "share",
        (0.95, inf), "Plan with --method astar."),
    "path_ratio": Line("Length of greedy plans that arrive, over the shortest path (best: 1).", "times", (0, 1.25),
        "Plan with --method astar where length matters."),
    "num_frames": Line("Frames on the map.", "frames"),
    "num_edges": Line("Pairs of frames that one hop joins.", "edges"),
    "num_components": Line("Parts of the graph that no path joins; a plan stays inside one part."),
    "touched_per_step": Line("Frames a planner looks at, for each hop of the shortest path.", "frames per hop"),
    "expanded_per_step": Line("Frames whose neighbours a planner asks for, for each hop of the shortest path."),
    "success_radius": Line("True distance to the goal that counts as arrived.", POSITION),
    "repeated": Line("Recorded steps that another recorded step repeats.", "share"),
    "flow": Line("How alike look-alikes move on: 0 by chance, 1 as one."),
    "plan_validity_10": Line("Like plan_validity, where a hop may be 10 steps long.", "share"),
    "plan_validity_14": Line("Like plan_validity, where a hop may be 14 steps long.", "share"),
    "unreachable": Line("Random tasks that no path solves; each counts as an impossible plan.", "share"),
    "auprc": Line("Average precision of the local distance among all candidates for closures (best: 1)."),
    "recall_at_99_precision": Line("True candidates that can be had with 1 % of false ones.", "share"),
    "recall_at_100_precision": Line("True candidates that can be had without a false one.", "share"),
    "closures_within_label": Line("Closures between frames of one label.", "closures"),
    "false_beyond": Line("True distance beyond which a closure counts as false.", POSITION),
    "radius": Line("Local distance up to which frames are joined.", "steps"),
    "directed": Line("Whether hops follow time; else they lead both ways."),
    "view": Line("Of the camera: fixed or moving."), "device": Line("Where it was computed."),
    "seed": Line("Of all random choices."), "version": Line("Of plan2vec when it was evaluated."),
}
ABOUT_RECORDING = ("local_accuracy", "recognized", "loop_closures", "largest_component_share")
NO_PROOF = ("success_graph",)  # short cuts through walls make it better
AVOID, CARE = "Do not plan on this map.", "Plan with care."
LINE, WALKS = "Plans only follow the recordings.", "Plan with astar, not greedy."
HEADLINES = {  # by the first bad number; of the others: AVOID
    "recognized": LINE, "loop_closures": LINE, "largest_component_share": "Plan inside each part only.",
    "reversibility": CARE, "revisit_recall": CARE, "spearman_true": CARE, "spearman_graph": WALKS,
    "embedding_error": WALKS, "success_graph": WALKS, "success": WALKS, "greedy_validity": WALKS, "path_ratio": WALKS,
}


def judged(card: dict) -> dict[str, bool]:
    """Name of every number that allows a verdict, and whether it is good."""
    found = {name: line.good[0] <= value <= line.good[1] for name, line in LINES.items()
             if line.good is not None and isinstance(value := card.get(name), int | float)}
    if card.get("loop_closures") == 0:  # what was estimated are hops between frames that follow each other
        found.pop("estimated_false_closures", None)
    evidence = [value for name in ("reversibility", "repeated", "flow") if (value := card.get(name)) is not None]
    one_way = len(evidence) == 3 and Evidence(*evidence).is_one_way
    if card.get("directed") is not False or card.get("view") == "moving" or not one_way:
        found.pop("reversibility", None)  # nobody walks backwards in a walkthrough
    if found.get("plan_validity"):  # plans are truly possible; turning round takes steps, but leads no farther
        found.pop("spearman_true", None)
    return {name: good for name, good in found.items() if not good or name not in NO_PROOF}


def make_verdict(card: dict, run: object = "RUN") -> Verdict:
    """What the scorecard says, and what to type next; `run` is the folder of the map."""
    bad = [name for name, good in judged(card).items() if not good]
    if not bad:
        commands = f"plan2vec plan {run} --start 0 --goal {card.get('num_frames', 2) - 1}", f"plan2vec explore {run}"
        advice = "Look at the closures that are doubted most, then plan."
        true, estimated = card.get("plan_validity"), card.get("estimated_false_closures")
        praise = "The map looks good, but no number here sees a false closure: look at `plan2vec closures`."
        if true is not None:
            praise = f"The map looks good: {true:.1%} of the shortest paths are truly possible, hop by hop."
        elif estimated is not None:
            praise = f"The map looks good: about {estimated:.1%} of its closures may be false."
        return Verdict(True, praise, {}, commands, "Plan on this map.", advice, unknown(card))
    first = "plan2vec inspect RECORDINGS --sheet sheet.png" if bad[0] in ABOUT_RECORDING else f"plan2vec closures {run}"
    said = {name: f" {reason(name, card)}" if name != bad[0] and LINES[name].reason else "" for name in bad}
    look_at = {name: f"{number_text(card[name], LINES[name].unit)}.{said[name]} {LINES[name].remedy}" for name in bad}
    commands, headline = (first, f"plan2vec explore {run}"), HEADLINES.get(bad[0], AVOID)
    sentence, true = reason(bad[0], card), card.get("plan_validity")
    if headline == WALKS and true is not None:  # it was judged before, and found good
        sentence = f"The graph is good: {true:.1%} of its shortest paths are truly possible. {sentence}"
    return Verdict(False, sentence, look_at, commands, headline, LINES[bad[0]].remedy, unknown(card))


def unknown(card: dict) -> str:
    """What the scorecard cannot say, for want of true positions."""
    if "plan_validity" in card or "false_edge_share" in card or card.get("loop_closures") == 0:
        return ""
    if card.get("cross_label_share") is not None:
        return "Without true positions only closures between labels are known to be false."
    return "Without true positions nobody can know which closures are false."


def reason(name: str, card: dict) -> str:
    value, line = card[name], LINES[name]
    percent, one_in = f"{value:.1%}" if 0 < value < 0.01 else f"{value:.0%}", round(1 / value) if value else 0
    number, parts = number_text(value, line.unit), card.get("num_components", "several")
    sentence = line.reason or f"{line.words} Here: {{number}}."
    return sentence.format(percent=percent, one_in=one_in, number=number, parts=parts)


def number_text(value: object, unit: str) -> str:
    """A value as it is shown: shares in per cent, four digits, thousands with commas."""
    if value is None:
        return "could not be measured"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if unit == "share":
        return f"{value:.4g} ({value:.1%})" if isfinite(value) else str(value)
    return f"{value:{',' if isinstance(value, int) else '.4g'}} {unit}".rstrip()

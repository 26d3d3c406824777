"""Claim: to plan on its own recordings plan2vec needs fewer of them than Q-learning, and from images no more than its
graph needs; an agent in the room needs as many (Figure 6a).

Expected: 95 % success on the recorded frames with a quarter of DQN's rollouts (images) or half of them (positions); as
agents in the room both need 200. The paper: "at least 1 magnitude less", read off a figure. That is out of reach here:
both walk on plan2vec's graph, on which exact distances need 50 rollouts too, and DQN needs no more than 200.

Open room. All learn from the same n rollouts of 10 frames by random actions, DQN with the actions and goals relabelled
in hindsight, plan2vec without actions; the local metric sees these n rollouts only. Both walk on the same graph by the
rule of Table 1 (the paper used different rules for the two). Observations are positions (`state`) or images.
`recorded`: planned on the n rollouts themselves. `fresh`: on 100 other rollouts that neither has seen; their graph has
holes, so that more rollouts do not help. `room`: an agent acts from pictures, as in `plan2vec reproduce acting`: DQN by
its own costs, without plan2vec's graph; plan2vec and the graph's shortest paths through a controller learned from the
actions of the same n rollouts.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from plan2vec.baselines.dqn import DQNConfig, train_dqn
from plan2vec.baselines.registry import Map
from plan2vec.data import Sequences
from plan2vec.experiments.acting_in_rooms import Actor, Episodes, act_out_tasks
from plan2vec.experiments.maze_scene import MazeScene, MazeSite, first_rollouts, maze_scenes
from plan2vec.planner import Distance
from plan2vec.results.comparisons import Column, Figures, compare, curve_figure, legend_below, log_places
from plan2vec.results.rows import Arrays, Groups, Row, in_order, select, values
from plan2vec.results.settings import Settings, timed

NAME, TITLE = "sample-complexity", "Figure 6a: success against the number of rollouts"
DOMAINS = ("open",)
METHODS = ("plan2vec", "DQN", "exact graph distance")
BLOCKS = ("state", "image")  # what is observed
ROLLOUTS = (10, 20, 50, 100, 200, 500, 1000)
ROOM = "room"
PLACES = {"recorded": "planned on recorded frames", "fresh": "planned on fresh frames", ROOM: "acting in the room"}
ENOUGH = 0.95  # success
REACHED_WORDS = ("The fewest rollouts from which on the mean success is 95 % or more, among the numbers that were run "
                 "(- above: not run):")


def run(settings: Settings) -> Groups:
    most = settings.size.num_rollouts
    for scene in maze_scenes(settings, DOMAINS):
        for space in settings.chosen("blocks", BLOCKS):
            for num_rollouts in (most // 2, most) if settings.size.is_smoke else ROLLOUTS:
                yield from run_one(scene, settings, space, num_rollouts)


def run_one(scene: MazeScene, settings: Settings, space: str, num_rollouts: int) -> Groups:
    """Every method on the same rollouts, the same two graphs and the same episodes."""
    places = [place for place in PLACES if place != ROOM or space == "image"]  # an agent in the room sees pictures
    cases = {place: {"space": space, "rollouts": num_rollouts, "planned_on": place} for place in places}
    lacking = {method for case in cases.values() for method in scene.lacking(settings, NAME, case, METHODS)}
    if not lacking:
        return
    recorded = observed(first_rollouts(scene.recordings, num_rollouts), space)
    trial = Trial(scene, recorded, observed(scene.fresh, space))
    for method in (method for method in METHODS if method in lacking):
        found, seconds = timed(trial.measure, method, ROOM in cases)
        rows = []
        for place, success in found.items():
            rows += scene.rows(settings, NAME, cases[place], method, {"success": success}, seconds)
            seconds = 0.0  # all places together took so long
        yield rows


def observed(sequences: Sequences, space: str) -> Sequences:
    if space == "image":
        return sequences
    assert sequences.position is not None
    return replace(sequences, frames=sequences.position.astype(np.float32))


class Trial:
    """A number of rollouts: what was learned of them, and where it is put to use."""

    def __init__(self, scene: MazeScene, recorded: Sequences, fresh: Sequences):
        self.scene, self.metric = scene, scene.train_metric(recorded, scene.config).metric
        self.sites = {place: scene.join(frames, self.metric, scene.config)
                      for place, frames in (("recorded", recorded), ("fresh", fresh))}
        self.actor = Actor(scene, self.sites["recorded"], self.metric, lambda: self.learned)

    @cached_property
    def learned(self) -> Map:
        return self.scene.train_map(self.sites["recorded"], self.scene.config)

    def means(self, method: str) -> tuple[Callable[[MazeSite], Distance], Callable[[], Episodes]]:
        """What leads a method's walks on a site, and how it acts in the room."""
        scene, recorded = self.scene, self.sites["recorded"].sequences
        if method == "exact graph distance":
            return MazeSite.exact_distance, lambda: self.actor.episodes("graph search")
        if method == "DQN":
            assert recorded.action is not None
            judge = train_dqn(recorded.frames, recorded.sequence, recorded.action, scene.size.shorten(DQNConfig()),
                              scene.seed, scene.device)
            return lambda site: judge.on(site.frames), lambda: act_out_tasks(scene, judge.policy)
        return lambda site: self.learned.on(site.frames), lambda: self.actor.episodes("greedy on the map")

    def measure(self, method: str, is_acting: bool) -> dict[str, float]:
        distance_on, act = self.means(method)
        found = {place: site.success(distance_on(site)) for place, site in self.sites.items()}
        return found | ({ROOM: float(act().arrived.mean())} if is_acting else {})


def enough_at(rows: list[Row], **wanted: str) -> int | None:
    """The fewest rollouts from which on the mean success is 95 % or more."""
    known = [(num, sample.mean()) for num in in_order(rows, "rollouts")
             if len(sample := values(rows, rollouts=num, **wanted))]
    enough = list(takewhile(lambda case: case[1] >= ENOUGH, reversed(known)))
    return enough[-1][0] if enough else None


def table(rows: list[Row]) -> list[str]:
    lines, sentences = [], []
    columns = [Column(f"{num}", {"rollouts": num}) for num in in_order(rows, "rollouts")]
    for space in in_order(rows, "space", BLOCKS):
        methods = in_order(select(rows, space=space), "method", METHODS)
        for place in in_order(select(rows, space=space), "planned_on", PLACES):
            part = select(rows, space=space, planned_on=place)
            shown = {method: {"method": method} for method in methods}
            lines += compare(part, f"{space}, {PLACES[place]}, success %", shown, columns)
            reached = {method: enough_at(part, method=method) for method in methods}
            words = ", ".join(f"{method} {num or 'never here'}" for method, num in reached.items())
            sentences.append(f"- {space}, {place}: {words}")
    return [*lines, REACHED_WORDS, "", *sentences, ""]


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    figures = {}
    for place in in_order(rows, "planned_on", PLACES):
        part = select(rows, planned_on=place)
        shown = [({"xlabel": "rollouts of 10 frames", "title": f"{space}, {PLACES[place]}", "ylim": (0, 103)},
                  {method: {"space": space, "method": method} for method in METHODS})
                 for space in in_order(part, "space", BLOCKS)]
        figure, axes = curve_figure(part, "rollouts", shown, (4 * len(shown), 3.4))
        for ax in axes:
            log_places(ax, in_order(part, "rollouts"))
            ax.axhline(100 * ENOUGH, color="0.6", linewidth=0.8, linestyle=":", label=f"{100 * ENOUGH:.0f} %")
        axes[0].set_ylabel("success (%)")
        legend_below(figure, axes[0], 2)
        figures[f"{NAME}-{place}"] = figure
    return figures

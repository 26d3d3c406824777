"""Claim: plan2vec needs fewer rollouts than Q-learning from the same recordings, and from images no more than its graph needs (Figure 6a).

Command: plan2vec reproduce sample-complexity        Cost: seconds, see docs/results.md
Expected: 95 % success with fewer rollouts than DQN: a quarter of them from images, half from positions (the paper: "at least 1 magnitude
less", read off a figure; where both walk on one graph by one rule, less than a quarter is out of reach: exact graph distance needs 50
rollouts too).

Open room. Both learn from the same n rollouts of 10 frames by random actions, DQN with the actions and goals relabelled in
hindsight, plan2vec without actions; the local metric sees these n rollouts only. Both walk on the same graph, plan2vec's, by the same rule:
hop to the neighbour of least D, probability 0.05 of a random hop, 50 hops, within 0.02 m of the goal. (The paper used different
rules for the two.) Observations are positions (`state`) or images. `recorded`: planned on the n rollouts themselves. `fresh`: on
100 other rollouts that neither has seen. *Exact graph distance* is what the graph itself allows.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from plan2vec.baselines.dqn import DQNConfig, train_dqn
from plan2vec.data import Sequences
from plan2vec.domains.maze import simulate
from plan2vec.experiments.arrays import Arrays
from plan2vec.experiments.drawing import curve, log_places, panels
from plan2vec.experiments.maze_scene import FRESH, MazeScene, Site, first_rollouts, maze_scenes
from plan2vec.experiments.rows import Row, cell, in_order, markdown, select, values
from plan2vec.experiments.settings import Settings, timed

NAME, TITLE = "sample-complexity", "Figure 6a: success against the number of rollouts"
DOMAINS = ("open",)
METHODS = ("plan2vec", "DQN", "exact graph distance")
BLOCKS = ("state", "image")  # what is observed
ROLLOUTS = (10, 20, 50, 100, 200, 500, 1000)
PLACES = ("recorded", "fresh")
ENOUGH = 0.95  # success


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in maze_scenes(settings, DOMAINS):
        for space in settings.chosen("blocks", BLOCKS):
            for num_rollouts in sizes(scene):
                yield from run_one(scene, settings, space, num_rollouts)


def sizes(scene: MazeScene) -> tuple[int, ...]:
    most = scene.size.num_rollouts
    return (most // 2, most) if scene.size.is_smoke else ROLLOUTS


def run_one(scene: MazeScene, settings: Settings, space: str, num_rollouts: int) -> Iterator[list[Row]]:
    """Both methods on the same rollouts and the same two graphs."""
    settled = {"space": space, "rollouts": num_rollouts}
    methods = [m for m in settings.chosen("methods", METHODS) if scene.lacks(settings, NAME, settled | {"planned_on": PLACES[0]}, m)]
    if not methods:
        return
    recorded = observed(first_rollouts(scene.recordings, num_rollouts), space)
    fresh = observed(simulate(scene.room, scene.size.graph_rollouts, seed=scene.seed + FRESH), space)
    metric = scene.train_metric(recorded, scene.config)[0]
    sites = {"recorded": scene.join(recorded, metric, scene.config), "fresh": scene.join(fresh, metric, scene.config)}
    for method in methods:
        found, seconds = timed(measure, scene, method, sites)
        rows = []
        for place, success in found.items():
            rows += scene.rows(settings, NAME, settled | {"planned_on": place}, method, {"success": success}, seconds)
            seconds = 0.0  # both places together took so long
        yield rows


def observed(sequences: Sequences, space: str) -> Sequences:
    """As recorded, or with the position as the observation."""
    if space == "image":
        return sequences
    assert sequences.position is not None
    return replace(sequences, frames=sequences.position.astype(np.float32))


def measure(scene: MazeScene, method: str, sites: dict[str, Site]) -> dict[str, float]:
    """Success on the recorded and on the fresh frames."""
    if method == "exact graph distance":
        return {place: site.success(site.exact_distance(scene.device)) for place, site in sites.items()}
    if method == "DQN":
        recorded = sites["recorded"].sequences
        assert recorded.action is not None
        judge = train_dqn(recorded.frames, recorded.sequence, recorded.action, scene.size.shorten(DQNConfig()), scene.seed, scene.device)
        return {place: site.success(judge.on(site.frames)) for place, site in sites.items()}
    learned = scene.train_map(sites["recorded"], scene.config)
    return {place: site.success(learned.on(site.frames)) for place, site in sites.items()}


def enough_at(rows: list[Row], **wanted: str) -> int | None:
    """The fewest rollouts with a mean success of 95 %."""
    reached = [num for num in in_order(rows, "rollouts") if len(v := values(rows, rollouts=num, **wanted)) and v.mean() >= ENOUGH]
    return reached[0] if reached else None


def table(rows: list[Row]) -> list[str]:
    lines, sentences = [], []
    for space in in_order(rows, "space", BLOCKS):
        methods = in_order(select(rows, space=space), "method", METHODS)
        for place in in_order(rows, "planned_on", PLACES):
            known = in_order(rows, "rollouts")
            header = [f"{space}, planned on {place} frames, success %", *map(str, known)]
            body = [
                [method] + [cell(values(rows, space=space, planned_on=place, method=method, rollouts=num), 100) for num in known]
                for method in methods
            ]
            lines += markdown(header, body)
            reached = {m: enough_at(rows, space=space, planned_on=place, method=m) for m in methods}
            sentences.append(f"- {space}, {place}: " + ", ".join(f"{m} {num or 'never here'}" for m, num in reached.items()))
    reached_words = "The fewest rollouts with a mean success of 95 %, among the numbers that were run (- above: not run):"
    return [*lines, reached_words, "", *sentences, "", f"Seeds a number of rollouts: {seeds_run(rows)}.", ""]


def seeds_run(rows: list[Row]) -> str:
    """How many seeds each method was run with, by what was observed and the number of rollouts."""
    found = []
    for space in in_order(rows, "space", BLOCKS):
        for method in in_order(select(rows, space=space), "method", METHODS):
            part = select(rows, space=space, method=method)
            counts = {num: len({row["seed"] for row in select(part, rollouts=num)}) for num in in_order(part, "rollouts")}
            found.append(f"{space}, {method} " + ", ".join(f"{num}: {count}" for num, count in counts.items()))
    return "; ".join(found)


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    figures = {}
    for place in in_order(rows, "planned_on", PLACES):
        part = select(rows, planned_on=place)
        spaces = in_order(part, "space", BLOCKS)
        figure, axes = panels(len(spaces), 8, 3.4)
        for ax, space in zip(axes, spaces, strict=True):
            for look, method in enumerate(METHODS):
                curve(ax, part, "rollouts", in_order(part, "rollouts"), look, method, 100, space=space, method=method)
            log_places(ax, in_order(part, "rollouts"))
            ax.axhline(100 * ENOUGH, color="0.6", linewidth=0.8, linestyle=":")
            ax.set(xlabel="rollouts of 10 frames", title=f"{space}, planned on {place} frames", ylim=(0, 103))
        axes[0].set_ylabel("success (%)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
        figures[f"{NAME}-{place}"] = figure
    return figures

"""Claim: to plan on its own recordings plan2vec needs fewer of them than Q-learning, and from images no more than its
graph needs (Figure 6a).

Expected: 95 % success on the recorded frames with a quarter of DQN's rollouts (images) or half of them (positions). The
paper: "at least 1 magnitude less", read off a figure. That is out of reach here: both walk on plan2vec's graph, on
which exact distances need 50 rollouts too, and DQN needs no more than 200.

Open room. All learn from the same n rollouts of 10 frames by random actions, DQN with the actions and goals relabelled
in hindsight, plan2vec without actions; the local metric sees these n rollouts only. Both walk on the same graph by the
rule of Table 1 (the paper used different rules for the two). Observations are positions (`state`) or images.
`recorded`: planned on the n rollouts themselves. `fresh`: on 100 other rollouts that neither has seen; their graph has
holes, so that more rollouts do not help."""

from dataclasses import replace
from functools import lru_cache
from itertools import product, takewhile

import numpy as np

from plan2vec.baselines import Scorer
from plan2vec.baselines.dqn import DQNConfig, train_dqn
from plan2vec.experiments.base_scene import Found
from plan2vec.experiments.maze_scene import MazeScene, MazeSite, first_rollouts
from plan2vec.results.comparisons import Column, Figures, by_method, compare, curve_figure
from plan2vec.results.experiment import SMOKE, Experiment, Settings
from plan2vec.results.rows import Arrays, Groups, Lines, Row, in_order, parts_of, select, values

METHODS = ("plan2vec", "DQN", "exact graph distance")
BLOCKS = ("state", "image")  # what is observed
ROLLOUTS = (10, 20, 50, 100, 200, 500, 1000)
PLACES = {"recorded": "planned on recorded frames", "fresh": "planned on fresh frames"}
ENOUGH = 0.95  # success


def run(settings: Settings) -> Groups:
    rollouts = (SMOKE.num_rollouts // 2, SMOKE.num_rollouts) if settings.size.is_smoke else ROLLOUTS
    cases = product(settings.chosen("blocks", BLOCKS), rollouts)
    for scene, (space, num) in product(MazeScene.chosen(settings, ("open",)), cases):
        yield from scene.measured(settings, METHODS, measure, space=space, rollouts=num)


def measure(scene: MazeScene, method: str, space: str, rollouts: int) -> Found:
    sites = sites_of(scene, space, rollouts)
    judge: Scorer | None = None  # exact distances need none
    if method == "plan2vec":
        judge = scene.train_map(sites["recorded"], scene.config)
    elif method == "DQN":
        recorded, config = sites["recorded"].sequences, scene.size.shorten(DQNConfig())
        judge = train_dqn(recorded.frames, recorded.sequence, recorded.action, config, scene.seed, scene.device)
    return {"planned_on": {place: {"success": site.success(judge.on(site.frames) if judge else site.exact_distance())}
                           for place, site in sites.items()}}


@lru_cache(maxsize=1)
def sites_of(scene: MazeScene, space: str, rollouts: int) -> dict[str, MazeSite]:
    """Where is planned, by a local metric of so many rollouts; the same for every method."""
    walks = {"recorded": first_rollouts(scene.recordings, rollouts), "fresh": scene.fresh}
    if space == "state":
        walks = {place: replace(one, frames=np.asarray(one.position, np.float32)) for place, one in walks.items()}
    metric = scene.train_metric(walks["recorded"], scene.config).metric
    return {place: scene.join(one, metric, scene.config) for place, one in walks.items()}


def enough_at(rows: list[Row], **wanted: str) -> int | None:
    known = in_order(select(rows, **wanted), "rollouts")
    enough = list(takewhile(lambda num: values(rows, rollouts=num, **wanted).mean() >= ENOUGH, reversed(known)))
    return enough[-1] if enough else None


def table(rows: list[Row]) -> Lines:
    sentences, columns = [], [Column(f"{num}", {"rollouts": num}) for num in in_order(rows, "rollouts")]
    for (space, place), part in parts_of(rows, space=BLOCKS, planned_on=PLACES):
        methods = by_method(part, METHODS)
        yield from compare(part, f"{space}, {PLACES[place]}, success %", methods, columns)
        words = ", ".join(f"{method} {enough_at(part, method=method) or 'never here'}" for method in methods)
        sentences.append(f"- {space}, {place}: {words}")
    words = "The fewest rollouts from which on the mean success is 95 % or more, among the numbers that were run"
    yield from (f"{words} (- above: not run):", "", *sentences, "")


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    for (place,), part in parts_of(rows, planned_on=PLACES):
        shown = [({"xlabel": "rollouts of 10 frames", "title": f"{space}, {PLACES[place]}", "ylim": (0, 103)},
                  {method: {"space": space, "method": method} for method in METHODS})
                 for space in in_order(part, "space", BLOCKS)]
        yield place, curve_figure(part, "rollouts", shown, (4 * len(shown), 3.4), 2, True, 100 * ENOUGH)


EXPERIMENT = Experiment("sample-complexity", "Figure 6a: success against the number of rollouts", __doc__, run, table,
                        draw, ("open",), METHODS, BLOCKS)

"""Claim: plans of a rope by the map, without a model, are physically possible and reach goals; no baseline's do as
well.

Expected: plan2vec's greedy plans reach at least 95 % of the goals by at least 97 % local steps, more than any baseline;
plans between sequences exist for at least 95 % of the pairs; held-out accuracy of a local metric of 1,500 updates at
least 96 % (the paper's 92.4 %). The paper has no numbers for plans.

The simulated rope: 18 sequences of 786 frames, drags of at most 3 px. Tasks are 2,000 random frames per seed with one
of 100 random goals each, less those a local move apart. A *local move* displaces no link by more than what two recorded
steps reach (99th percentile) and keeps each peg on its side. Greedy plans hop to the neighbour of least D without
memory; they end at the goal, where they would enter a frame again, or after 200 hops. plan2vec has its default
settings. Each baseline walks by its own distance on its own graph: the recorded steps, and as many closest pairs as the
learned graph has closures. Rows of baselines and folds with no `method_version` are of a graph of former settings.
`goal_reached` the plan's last frame is the goal or a local move away from it (share of the tasks)
`local_step_share` local moves among the steps of all plans; short steps, or giving up early, raise it
`valid_plans` the goal is reached and every step is a local move (share of the tasks)
`length_ratio` steps of a plan that reaches its goal over the fewest local moves between the two frames, on average
`expanded_per_step` frames whose neighbours were asked for, over the steps of the shortest path on the same graph
`cross_sequence_plans` tasks between two sequences for which the graph has a path (share of these tasks)

Accuracy: ten folds by sequence, of the first seed, of a metric of 1,500 updates. Frames at most two steps apart are
neighbours, the cut-off is 1.4 times that (paper); pairs identical : neighbour : far = 1 : 1 : 2. *Cleaned* leaves out
random far pairs that are truly a local move apart."""

from dataclasses import replace

import numpy as np

from plan2vec.config import LocalMetricConfig
from plan2vec.evaluation import dijkstra_cost
from plan2vec.experiments import rope_scene
from plan2vec.experiments.base_scene import Found, settled
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.results.comparisons import Figures, Panel, by_method, by_metric, compare, facts, panel_figure
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Arrays, Groups, Lines, Row, cell, in_order, markdown, select, values
from plan2vec.search.shortest_paths import shortest_plans

BASELINES = ("SPTM", "VAE", "pixels", "contrastive")
OURS, FOLD = "plan2vec", "local metric"
PLANNERS = (OURS, *BASELINES, "Dijkstra")
METHODS, BLOCKS = (*PLANNERS, FOLD), ("plans", "accuracy")
NUM_FOLDS = {False: 10, True: 2}  # by whether it is a smoke run
MAX_GAP = 2  # frames so far apart are neighbours (paper), whatever the settings
NUM_COSTED = 64  # tasks for which the cost of Dijkstra's search is counted
SHOWN = (("goal_reached", "goal reached, %", 100, 1), ("local_step_share", "local steps, %", 100, 2),
         ("valid_plans", "valid plans, %", 100, 1), ("length_ratio", "length ratio", 1, 2),
         ("expanded_per_step", "expanded a step", 1, 2), ("cross_sequence_plans", "plans across sequences, %", 100, 1),
         ("degree", "degree", 1, 1), ("num_components", "parts", 1, 1),
         ("false_edge_share", "false closures, %", 100, 3))


def run(settings: Settings) -> Groups:
    blocks = settings.chosen("blocks", BLOCKS)
    for scene in rope_scene.RopeScene.chosen(settings, ("rope",)):
        if "plans" in blocks:
            yield from scene.measured(settings, PLANNERS, measure, block="plans")
        for fold in range(NUM_FOLDS[scene.size.is_smoke]):
            if "accuracy" in blocks and scene.seed == settings.seeds[0]:
                yield from scene.measured(settings, (FOLD,), accuracies, block="accuracy", fold=fold)


def measure(scene: rope_scene.RopeScene, method: str, block: str) -> Found:
    sequence, tasks, graph = scene.recordings.sequence, scene.tasks, scene.site.graph
    if method == OURS:
        distance = scene.learned
    elif method == "Dijkstra":
        distance = scene.site.exact_distance_to(tasks.goals)  # who walks by it walks a shortest path
    else:
        graph, distance = rope_scene.baseline_way(scene, method)
    nodes = rope_scene.greedy_plans(graph, distance, tasks)
    scores = rope_scene.plan_scores(scene.moves, tasks, nodes) | rope_scene.graph_scores(graph, sequence, scene.moves)
    scores |= rope_scene.cost_scores(graph, sequence, tasks, nodes)
    if method == "Dijkstra":  # what the search expands, for the first tasks that have a path
        hops = shortest_plans(graph, tasks.starts, tasks.goals)[1]
        costed = np.flatnonzero(np.isfinite(hops) & (hops > 0))[:NUM_COSTED]
        counts = [dijkstra_cost(graph, int(tasks.starts[k]), int(tasks.goals[k])).num_expanded for k in costed]
        scores["expanded_per_step"] = float(np.sum(counts) / hops[costed].sum())
    if method == OURS:  # wall time of metric, graph and map; pixels that two recorded steps reach
        seconds = scene.timed_metric[1] + scene.site.seconds + scene.timed_map[1]
        scores |= {"fit_seconds": seconds, "radius": scene.site.radius, "reach": scene.moves.reach}
    return scores


def accuracies(scene: rope_scene.RopeScene, method: str, block: str, fold: int) -> Found:
    sequence = scene.recordings.sequence
    labels = rng_at(scene.seed, Stream.ROPE_FOLDS).permutation(np.unique(sequence))
    held_out = np.isin(sequence, np.array_split(labels, NUM_FOLDS[scene.size.is_smoke])[fold])
    config = settled(replace(scene.config, max_gap=MAX_GAP, local_metric=LocalMetricConfig(num_updates=1500)))
    config = replace(config, local_metric=scene.size.shorten(config.local_metric))
    metric = scene.train_metric(scene.recordings, config, ~held_out).metric
    return scene.accuracies(metric, {"train": ~held_out, "test": held_out}, rope_scene.CUT_OFF, MAX_GAP,
                            lambda *pairs: ~scene.moves.are_local(*pairs), Stream.ROPE_JUDGED_PAIRS)


def table(rows: list[Row]) -> Lines:
    plans, folds = select(rows, block="plans"), select(rows, block="accuracy")
    if plans:
        yield from compare(plans, "method", by_method(plans, METHODS), by_metric(SHOWN))
        known = (("fit_seconds", "seconds of a fit", 1), ("radius", "radius, steps", 2), ("reach", "reach, pixels", 2))
        device = ", ".join(in_order(select(plans, method=OURS), "device"))
        yield from facts(plans, known, {f"{OURS} ({device})": {"method": OURS}})
    if folds:
        kinds = (("accuracy", "plain", "96.6 / 92.4"), ("accuracy_cleaned", "cleaned", ""))
        body = [[FOLD, words, *(cell(values(folds, metric=f"{part}_{metric}"), 100, 2) for part in ("train", "test")),
                 paper] for metric, words, paper in kinds]
        yield from markdown(["", "accuracy, %", "train", "held out", "paper, train / test"], body)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    plans = select(rows, block="plans")
    methods = by_method(plans, METHODS)
    shown = [Panel("", words, {"metric": metric}, factor) for metric, words, factor, _ in SHOWN[:3]]
    if plans:
        yield "", panel_figure(plans, methods, shown, (9, 1.3 + 0.25 * len(methods)))[0]


EXPERIMENT = Experiment("rope-table", "The rope: plans and local metric", __doc__, run, table, draw, ("rope",), METHODS,
                        BLOCKS)

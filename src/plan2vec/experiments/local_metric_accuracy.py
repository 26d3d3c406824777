"""Claim: the local metric tells neighbours from far pairs on unseen sequences; by default its graph has no false edge.

Expected: of the default metric (siamese, hinge) and of the paper's (stacked, regression) held-out accuracy at least 98
% plain, at least 99.5 % with truly near random pairs left out.

10,000 frames, 90 % of the sequences trained on. Pairs identical : neighbour : far = 1 : 1 : 2, threshold 1.5 steps
(paper, Table 5). A random "far" pair is sometimes truly near, so a metric that is right has less than 99 % plain. More
is no merit: the stacked networks call near pairs far that no recording joins. *Cleaned* leaves out far pairs whose true
way around walls is at most 1.5 of the longest steps (0.053 m). False edges: closures of the graph of the same frames
that truly join places more than three of the longest steps apart."""

from dataclasses import replace

from plan2vec.data import split_sequences
from plan2vec.domains.maze import LONGEST_STEP
from plan2vec.evaluation import truth_of
from plan2vec.experiments.base_scene import Found, SceneExperiment
from plan2vec.experiments.maze_scene import DOMAINS, ROOM_TITLES, MazeScene, first_rollouts
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import NEAR
from plan2vec.results.comparisons import Column, by_method, compare
from plan2vec.results.rows import Lines, Row, parts_of

METHODS = [f"{network} {loss}" for network in ("siamese", "stacked") for loss in ("hinge", "regression", "nce")]
PAPER = {"open": (98.6, 97.8), "table": (98.3, 97.6), "c-maze": (98.3, 97.4)}  # train, test
STACKED_UPDATES = 1600  # x 256 pairs: the paper's 40 epochs of 10,000 frames


def measure(scene: MazeScene, method: str) -> Found:
    architecture, loss = method.split()
    stage = replace(scene.config.local_metric, architecture=architecture, loss=loss)  # type: ignore[arg-type]
    num_joined = scene.size.num_rollouts
    if architecture == "stacked":
        stage, num_joined = scene.size.shorten(replace(stage, num_updates=STACKED_UPDATES)), scene.size.stacked_rollouts
    config, recorded, truth = replace(scene.config, local_metric=stage), scene.recordings, truth_of(scene.recordings)
    assert truth is not None
    kept, held_out = split_sequences(recorded.sequence, 0.1, rng_at(scene.seed, Stream.ACCURACY_SPLIT))
    metric = scene.train_metric(recorded, config, kept).metric
    found = scene.accuracies(metric, {"train": kept, "test": held_out}, NEAR, 1,
                             lambda *pairs: truth.between(*pairs) > NEAR * LONGEST_STEP, Stream.JUDGED_PAIRS)
    numbers = scene.join(first_rollouts(recorded, num_joined), metric, config).numbers
    return found | {name: numbers[name] for name in ("false_edge_share", "radius", "largest_component_share")}


def table(rows: list[Row]) -> Lines:
    shares = [Column(f"{part}{words}", {"metric": f"{part}_accuracy{kind}"}, digits=2)
              for kind, words in (("", ""), ("_cleaned", ", cleaned")) for part in ("train", "test")]
    for (room,), part in parts_of(rows, domain=DOMAINS):
        paper = Column("paper, train / test", texts={"stacked regression": " / ".join(map(str, PAPER[room]))})
        columns = [*shares, paper, Column("false edges, share", {"metric": "false_edge_share"}, 1, 6)]
        yield from compare(part, f"{ROOM_TITLES[room]}, accuracy %", by_method(rows, METHODS), columns)


EXPERIMENT = SceneExperiment("local-metric", "Table 5: accuracy of the local metric", __doc__, measure, table, None,
                             DOMAINS, METHODS, kind=MazeScene)

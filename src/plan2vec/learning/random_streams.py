"""Streams of random numbers by name. A draw depends on (seed, stream, number of the draw) alone, so a killed run
continues with the same numbers and stores no random state. Streams that share a number never meet."""

import numpy as np


class Stream:
    """Who draws; an update draws with its number behind the stream's."""

    METRIC_SPLIT = 0  # sequences that the local metric's accuracy is measured on
    METRIC, METRIC_ACCURACY = 1, 3  # its updates; stream 2: of a stacked one
    METRIC_ON_ALL, METRIC_MORE = 4, 6  # its last updates, and further ones before; streams 5, 7: of a stacked one
    MAP_SCALE, MAP_UPDATE, MAP_GOALS, MAP_TRIAL = 10, 11, 12, 15
    VALUE_UPDATE, VALUE_WALKS, HOLDOUT, GROWING = 13, 14, 20, 30
    DIRECTION, LONE_CLOSURES, FLOW = 21, 22, 23  # steps, closures, look-alikes by which a graph is judged
    CONTROLLER_SAMPLE, CONTROLLER = 30, 31
    PICTURES, EXPLORER, RELABEL = 40, 41, 80
    # Baselines and benchmarks share numbers with others that they never meet: GROWING, CONTROLLER_SAMPLE, CONTROLLER.
    CONTRASTIVE, VAE, DQN, SPTM, PEER_WALKS = 30, 31, 32, 33, 92
    # experiments
    ROOM_TASKS = 60  # starts and goals; behind it 1: walks, 2: pairs whose agreement is asked, 3: random scores
    PLANNING_COST, JUDGED_PAIRS, ACCURACY_SPLIT, ALIASING = 62, 63, 64, 64
    MAP_ERROR, SCORED_PAIRS, SCORED_EDGES = 65, 66, 67
    SHOWN_CLOSURES, SAMPLED_WALK, SHOWN_WALK = 68, 69, 70
    STREET_TASKS = 70  # as ROOM_TASKS, but for 3: pairs that the local metric is judged on
    STREET_CHANCE, UNSEEN_TASKS, STREET_COST, STREET_PAIRS = 71, 72, 73, 74
    EXAMINATION, LEARNING_TASKS = 70, 71  # of agents that learn by acting
    ROPE_TASKS, ROPE_FOLDS, ROPE_JUDGED_PAIRS, ROPE_PAIRS, ROPE_QUERIES, PROGRESS_GOAL = 80, 81, 82, 83, 84, 94
    EXPLORATION, DRIVING = 95, 96


def rng_at(*numbers: int) -> np.random.Generator:
    """The random numbers of one draw: a function of (seed, stream, ...) alone."""
    return np.random.default_rng(numbers)

"""Streams of random numbers by name. A draw depends on (seed, stream, number of the draw) alone.

So a killed run continues with the same numbers and stores no random state. Streams that share a number never meet.
"""

import numpy as np


class Stream:
    """Who draws; an update draws with its number behind the stream's."""

    METRIC_SPLIT = 0  # sequences that the local metric's accuracy is measured on
    METRIC = 1  # its updates; 2: of a stacked one
    METRIC_ACCURACY = 3
    METRIC_ON_ALL = 4  # its last updates; 5: of a stacked one
    MAP_SCALE = 10
    MAP_UPDATE = 11
    MAP_GOALS = 12
    VALUE_UPDATE = 13
    VALUE_WALKS = 14
    HOLDOUT = 20
    DIRECTION = 21  # steps by which the direction of a graph is decided
    LONE_CLOSURES = 22
    GROWING = 30
    CONTROLLER_SAMPLE = 30
    CONTROLLER = 31
    PICTURES = 40
    EXPLORER = 41
    RELABEL = 80
    # Baselines and benchmarks share numbers with others, as they never meet: CONTRASTIVE with GROWING and an agent's
    # scales, VAE with its updates, the PEER_ ones with experiments on OGBench's data and on robots.
    CONTRASTIVE = 30
    VAE = 31
    DQN = 32
    PEER_PAIRS = 90
    PEER_CHECK = 91
    PEER_WALKS = 92
    PEER_TASKS = 93
    # experiments
    ROOM_TASKS = 60  # starts and goals; 1: walks, 2: pairs whose agreement is asked, 3: random scores
    PLANNING_COST = 62
    JUDGED_PAIRS = 63
    ACCURACY_SPLIT = 64
    ALIASING = 64
    MAP_ERROR = 65
    SCORED_PAIRS = 66
    SCORED_EDGES = 67
    SHOWN_CLOSURES = 68
    SAMPLED_WALK = 69
    SHOWN_WALK = 70
    STREET_TASKS = 70  # as ROOM_TASKS, but for 3: pairs that the local metric is judged on
    STREET_CHANCE = 71
    UNSEEN_TASKS = 72
    STREET_COST = 73
    STREET_PAIRS = 74
    EXAMINATION = 70  # of agents that learn by acting
    LEARNING_TASKS = 71
    ACTING_TASKS = 72
    ACTING_CHANCE = 73
    ROPE_TASKS = 80
    ROPE_FOLDS = 81
    ROPE_JUDGED_PAIRS = 82
    ROPE_PAIRS = 83
    ROPE_QUERIES = 84
    ROBOT_SPLIT = 90
    OGBENCH_WALKS = 90
    OGBENCH_LANDMARKS = 91


def rng_at(*numbers: int) -> np.random.Generator:
    """The random numbers of one draw: a function of (seed, stream, ...) alone."""
    return np.random.default_rng(numbers)

"""What a fit is said to take, before it starts."""

from dataclasses import replace

import torch

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig, settle
from plan2vec.domains.maze import simulate
from plan2vec.runs.time_estimate import Estimate, estimate_fit, search_seconds

CPU = torch.device("cpu")


def test_searches_take_a_core_time_and_a_gpu_none_worth_counting():
    block = EmbeddingConfig(num_rounds=2, goals_per_round=100)
    assert search_seconds(block, 1_000_000, CPU) == 2.0 == search_seconds(replace(block, num_rounds=1), 2_000_000, CPU)
    assert search_seconds(block, 1_000_000, torch.device("cuda")) == 0


def test_many_more_updates_are_said_to_take_longer_and_more_goals_more_memory():
    recordings = simulate("open", num_rollouts=10)
    config = Config(local_metric=LocalMetricConfig(num_updates=8, batch_size=8),
                    embedding=EmbeddingConfig(num_updates=1, num_rounds=1))
    config = settle(config, recordings)
    few = estimate_fit(recordings, config, CPU)
    more = replace(config.embedding, num_updates=10_000, goals_per_round=512)
    many = estimate_fit(recordings, replace(config, embedding=more), CPU)
    assert many.seconds > 10 * few.seconds > 0 and many.bytes - few.bytes == 4 * 100 * 256


def test_an_estimate_is_said_in_seconds_or_minutes():
    assert str(Estimate(12.4, 2.04e9)) == "about 12 s and 2.0 GB of memory"
    assert str(Estimate(120, 5e8)) == "about 2.0 minutes and 0.5 GB of memory"

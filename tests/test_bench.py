"""Benchmarks at a size that takes seconds."""

from plan2vec.bench import demo
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig

QUICK = Config(local_metric=LocalMetricConfig(num_updates=5, batch_size=32), embedding=EmbeddingConfig(num_updates=5))


def test_the_demo_benchmark_gives_a_row_for_every_case_seed_and_metric(monkeypatch):
    monkeypatch.setattr(demo, "CASES", (("open", 8), ("c-maze", 2)))
    answer = demo.run(3, num_seeds=2, num_rollouts=6, config=QUICK, device="cpu")
    assert len(answer["rows"]) == 2 * 2 * len(demo.METRICS)
    assert {row["setting"]["dim"] for row in answer["rows"]} == {2, 8} and {row["seed"] for row in answer["rows"]} == {3, 4}
    assert len(answer["table"]) == 2 + 2 and all(line.count("|") == len(demo.METRICS) + 3 for line in answer["table"])

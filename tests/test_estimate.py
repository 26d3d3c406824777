"""What a fit is said to take, before it starts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig, settle
from plan2vec.data import make_sequences
from plan2vec.domains.maze import simulate
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.runs import time_estimate
from plan2vec.runs.time_estimate import Estimate, Seconds, estimate_fit, faster_ways, needed_bytes, search_seconds

CPU = torch.device("cpu")
FEW = Config(local_metric=LocalMetricConfig(num_updates=8, batch_size=8),
             embedding=EmbeddingConfig(num_updates=1))


def test_searches_take_a_core_time_and_a_gpu_none_worth_counting():
    block = EmbeddingConfig(updates_per_round=10, goals_per_round=100)
    assert search_seconds(block, 20, 1_000_000, CPU) == 2.0 == search_seconds(block, 10, 2_000_000, CPU)
    assert search_seconds(block, 20, 1_000_000, torch.device("cuda")) == 0


def test_many_more_updates_are_said_to_take_longer():
    recordings = simulate("open", num_rollouts=10)
    config = settle(FEW, recordings)
    few = estimate_fit(recordings, config, CPU)
    many = estimate_fit(recordings, replace(config, embedding=replace(config.embedding, num_updates=10_000)), CPU)
    assert many.seconds > 10 * few.seconds > 0


def test_memory_is_what_updates_took_or_what_the_graph_will_and_the_frames(monkeypatch):
    recordings = simulate("open", num_rollouts=10)  # 100 frames of 64 x 64
    config = settle(FEW, recordings)
    graph = 3 * 4 * 2048 * 100 + 4 * 100 * 256 + 150 * 100 * 100
    for peak, expected in ((3e9, 3e9), (1e9, 1e9 + graph)):
        monkeypatch.setattr(time_estimate, "memory", {"VmHWM": peak, "VmRSS": 1e9}.get)
        assert needed_bytes(recordings, config, CPU) == expected + 100 * 64 * 64


def test_the_peak_of_this_process_is_measured():
    before = time_estimate.memory("VmHWM")
    held = np.ones(3 * 10**8, np.uint8)
    assert before > 1e8 and time_estimate.memory("VmHWM") >= time_estimate.memory("VmRSS") > held.nbytes


def test_an_update_is_timed_in_pieces_as_training_makes_it(monkeypatch):
    recordings, seen = simulate("open", num_rollouts=10), []
    monkeypatch.setattr(FrameTensors, "at_once", 9)

    def network(images):
        seen.append(len(images))
        return images.flatten(1) * torch.ones((), requires_grad=True)

    assert time_estimate._time_update(network, FrameTensors(recordings.frames, CPU), 20, 9) > 0
    assert seen[:3] == [9, 9, 2] and max(seen) == 9


def test_a_fit_without_the_memory_for_it_is_refused_before_a_folder_is_made(tmp_path, monkeypatch, capsys):
    rooms = simulate("open", num_rollouts=3)
    np.savez(tmp_path / "rooms.npz", frames=rooms.frames, sequence=rooms.sequence)
    monkeypatch.setattr(time_estimate, "available_memory", lambda: 0)
    monkeypatch.setattr(time_estimate, "memory", {"VmHWM": 4e12, "VmRSS": 0.0}.get)
    few = ("--local-metric.num-updates", "1", "--embedding.num-updates", "1", "--device", "cpu")
    assert main(["fit", str(tmp_path / "rooms.npz"), "--out", str(tmp_path / "run"), *few]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "needs about 4000.0 GB of memory, but" in last and "--size" in last and "--every" in last
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "view, kind, expected", [
        ("fixed", "images", {"--size 32"}),
        ("moving", "images", {"--size 32"}),
        ("fixed", "vectors", set()),
    ]
)
def test_faster_ways_are_those_that_apply_to_the_recording(view, kind, expected, monkeypatch):
    """A stand-in for the time of updates: by pixels and frames per update."""
    rooms = simulate("open", num_rollouts=10)
    recordings = rooms if kind == "images" else make_sequences(rooms.position, rooms.sequence)
    config = settle(Config(view=view), recordings)

    def seconds(frames, n, config, device):
        local, block = config.local_metric, config.embedding
        work = (local.num_updates or 400) * local.batch_size + (block.num_updates or 600) * 384
        return Seconds(work * frames[0].size / recordings.frames[0].size / 100, 1, 1)

    monkeypatch.setattr(time_estimate, "measure", seconds)
    now = seconds(recordings.frames, 100, config, CPU)
    ways = faster_ways(recordings, config, CPU, now)
    assert {way.split(":")[0] for way in ways} == expected
    assert all("about" in way and "minutes" in way for way in ways)
    assert estimate_fit(recordings, config, CPU).faster == ways


def test_fewer_frames_are_named_where_the_search_takes_long():
    rooms = simulate("open", num_rollouts=10)
    recordings = make_sequences(rooms.position, rooms.sequence)
    ways = faster_ways(recordings, settle(FEW, recordings), CPU, Seconds(0, 400, 200))
    assert ways == ("--every 2: about 3.3 minutes",)


def test_an_estimate_is_said_in_seconds_or_minutes():
    assert str(Estimate(12.4, 2.04e9)) == "about 12 s and 2.0 GB of memory"
    longest = str(Estimate(12.4, 2.04e9, further=600))
    assert longest == "about 12 s, up to 10.2 minutes where the map is hard to learn, and 2.0 GB of memory"
    assert str(Estimate(120, 5e8)) == "about 2.0 minutes and 0.5 GB of memory"

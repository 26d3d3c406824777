"""What a model keeps and what it sends to a device: a question about twenty frames touches twenty frames."""

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch
from conftest import FEW

from plan2vec import fit
from plan2vec.data import make_sequences
from plan2vec.graph.build import joined_nodes, select_edges
from plan2vec.learning.frame_tensors import FrameTensors, copy_to
from plan2vec.local_metric import pair_distances
from plan2vec.model import NUM_LOOKED_AT, Model


@pytest.fixture
def model() -> Model:
    """400 frames that stand still now and then, in two sequences that meet."""
    rng = np.random.default_rng(0)
    walk = rng.normal(size=(400, 2)).cumsum(axis=0)
    walk[[50, 51, 300]] = walk[[49, 49, 299]]
    return fit(make_sequences(walk, np.repeat([0, 1], 200)), FEW, device="cpu")


@pytest.fixture
def uploads(monkeypatch) -> list[int]:
    """Numbers of frames that were put on a device as a whole, as if there were a GPU with room for all of them."""
    sent: list[int] = []

    class Counted(FrameTensors):
        @cached_property
        def resident(self):
            if not self.keep:
                return None
            sent.append(len(self.frames))
            return copy_to(self.device, self.frames)

    monkeypatch.setattr("plan2vec.model.FrameTensors", Counted)
    return sent


def test_a_local_distance_uploads_the_frames_that_are_asked_about_and_no_others(model, uploads):
    first, second = np.array([3, 7, 3, 9]), np.array([100, 200, 300, 9])
    found = model.local_distance(first, second)
    assert uploads == [6]  # each of them once
    everything = FrameTensors(model.sequences.frames, model.device)
    np.testing.assert_allclose(found, pair_distances(model.local_metric, everything, first, second), rtol=1e-6)


def test_locating_an_image_uploads_it_and_those_it_is_compared_with(model, uploads):
    for number in (120, 333):
        place = model.locate(model.sequences.frames[number])
        assert place.number == number and place.distance < 1e-3 and place.on_map
    assert uploads and max(uploads) <= NUM_LOOKED_AT + 1 < model.sequences.num_frames


def test_an_image_is_never_placed_at_a_frame_that_was_held_out():
    walk = np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0)
    model = fit(make_sequences(walk, np.repeat(np.arange(5), 40)), replace(FEW, holdout=0.2), device="cpu")
    held_out = np.setdiff1d(np.arange(200), joined_nodes(model.graph))
    assert len(held_out) == 40
    for number in held_out[::8]:
        assert model.locate(model.sequences.frames[number]).number not in held_out


def test_a_plan_between_images_uploads_few_frames(model, uploads):
    frames = model.sequences.frames
    assert model.plan(frames[10], frames[30], "dijkstra").nodes == model.plan(10, 30, "dijkstra").nodes
    assert uploads and max(uploads) <= NUM_LOOKED_AT + 1


def test_frames_that_are_not_to_be_kept_never_go_to_a_gpu_as_a_whole(monkeypatch):
    gpu, sent = torch.device("cuda"), []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**40, 2**40))
    monkeypatch.setattr("plan2vec.learning.frame_tensors.copy_to", lambda device, frames: sent.append(len(frames)))
    frames = np.zeros((50, 2), np.float32)
    assert FrameTensors(frames, gpu, keep=False).resident is None and sent == []
    assert FrameTensors(frames, gpu).resident is None and sent == [50]  # what stands in for the copy gives nothing back


def test_a_new_graph_has_new_parts_and_places(model):
    num_parts, part = model.parts
    assert model.places[[49, 50, 51, 300]].tolist() == [49, 49, 49, 299]
    assert (num_parts, part[10]) == (1, part[390])
    graph = model.graph
    model.graph = select_edges(graph, np.zeros(graph.nnz, bool))
    assert model.parts[0] == 400 and model.places.tolist() == list(range(400))
    assert model.plan(49, 50, "dijkstra").nodes is None and "of 400" in model.plan(49, 50, "dijkstra").reason
    model.graph = graph
    assert model.parts[0] == num_parts and model.places[51] == 49

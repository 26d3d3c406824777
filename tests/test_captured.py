"""Updates in two halves: what the host draws always has the same shapes, and the loss reads nothing else; on a GPU it
is replayed.
"""

from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import plan2vec.acting.controller
import plan2vec.baselines.contrastive
import plan2vec.baselines.dqn
import plan2vec.baselines.vae
import plan2vec.embedding.train
import plan2vec.local_metric
from plan2vec.acting.controller import ControllerConfig, train_controller
from plan2vec.baselines.contrastive import ContrastiveConfig, train_contrastive
from plan2vec.baselines.dqn import DQNConfig, train_dqn
from plan2vec.baselines.vae import VAEConfig, train_vae
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig, settle
from plan2vec.data import make_sequences
from plan2vec.embedding.train import Teaching, train_map
from plan2vec.graph.build import graph_of_edges
from plan2vec.learning.adam import Adam
from plan2vec.learning.augmentation import Augmentation
from plan2vec.learning.captured import CapturedUpdate, Step, parcel_size, unpacked
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.random_streams import rng_at
from plan2vec.local_metric import train_local_metric

CPU = torch.device("cpu")
FRAMES = np.random.default_rng(0).integers(256, size=(24, 64, 64, 1), dtype=np.uint8)
SEQUENCE = np.repeat([0, 1, 2], 8)
RECORDED = make_sequences(FRAMES, SEQUENCE)
CHANGES = Augmentation(jitter=0.2, brightness=0.2, noise=0.1)


def line(parts):
    """Frames of a sequence joined one after another; in three parts, or in one."""
    start = np.arange(23) if parts == 1 else np.flatnonzero(np.diff(SEQUENCE) == 0)
    return graph_of_edges(np.append(start, start + 1), np.append(start + 1, start), np.ones(2 * len(start)), 24)


def config_of(**settings):
    return settle(Config(view="fixed", encoder="small", dim=4, **settings), RECORDED)


def metric_of(change=None, **settings):
    config = config_of(max_gap=2, local_metric=LocalMetricConfig(batch_size=16, dim=4, **settings))
    train_local_metric(RECORDED, config, FrameTensors(FRAMES, CPU), change=change)


def map_of(parts, teaching=Teaching(), **settings):
    """More goals and nodes an update than there are frames, where no others are asked for."""
    config = config_of(embedding=EmbeddingConfig(num_updates=6, updates_per_round=2, **settings))
    train_map(FrameTensors(FRAMES, CPU), line(parts), config, teaching=teaching)


def train_actions(action):
    train_controller(make_sequences(FRAMES, SEQUENCE, action=action), ControllerConfig(batch_size=8, width=16), 0, CPU)


STAGES = {
    "siamese": (plan2vec.local_metric, lambda: metric_of(CHANGES)),
    "siamese, nce": (plan2vec.local_metric, lambda: metric_of(loss="nce")),
    "stacked": (plan2vec.local_metric, lambda: metric_of(CHANGES, architecture="stacked")),
    "map": (plan2vec.embedding.train, lambda: map_of(1, Teaching(augmentation=CHANGES))),
    "map of parts, few goals": (
        plan2vec.embedding.train, lambda: map_of(3, goals_per_round=5, goals_per_update=3, nodes_per_update=4)
    ), "map, guided": (plan2vec.embedding.train, lambda: map_of(1, Teaching(guided=0.5))),
    "contrastive": (
        plan2vec.baselines.contrastive,
        lambda: train_contrastive(FRAMES, SEQUENCE, "small", 4, ContrastiveConfig(batch_size=8), 0, CPU)
    ), "vae": (plan2vec.baselines.vae, lambda: train_vae(FRAMES, "small", 4, VAEConfig(batch_size=8), 0, CPU)),
    "dqn": (
        plan2vec.baselines.dqn,
        lambda: train_dqn(
            FRAMES, SEQUENCE, np.arange(24) % 3, DQNConfig(batch_size=8, goals_per_update=4, width=16), 0, CPU
        )
    ), "controller": (plan2vec.acting.controller, lambda: train_actions(np.random.default_rng(1).normal(size=(24, 2)))),
    "controller of choices": (plan2vec.acting.controller, lambda: train_actions(np.arange(24)[:, None] % 3))
}


def steps_of(monkeypatch, stage):
    """[(what is trained, its updates)] of a stage, nothing of which is made."""
    found = []
    module, run = STAGES[stage]
    monkeypatch.setattr(module, "train", lambda network, step, *settings: found.append((network, step)))
    monkeypatch.setattr(plan2vec.local_metric, "accuracy", lambda *arguments: None)  # of nothing that was trained
    run()
    return found


@pytest.mark.parametrize("stage", STAGES)
def test_every_update_draws_arrays_of_the_same_shapes_and_kinds(monkeypatch, stage):
    steps = steps_of(monkeypatch, stage)
    assert steps
    for _, step in steps:
        drawn = [
            [(np.shape(numbers), torch.as_tensor(numbers).dtype) for numbers in step.draw(update)]
            for update in range(6)
        ]
        assert drawn == [drawn[0]] * 6 and all(0 not in shape for shape, _ in drawn[0])
        assert torch.float64 not in [kind for _, kind in drawn[0]]  # which not every device has


@pytest.mark.parametrize("stage", STAGES)
def test_the_loss_is_a_function_of_what_was_drawn_as_arrays_or_as_tensors(monkeypatch, stage):
    for network, step in steps_of(monkeypatch, stage):
        network.train()
        began, losses = deepcopy(network.state_dict()), []
        drawn = step.draw(1)
        # one round: nothing else changes
        for arrays in (drawn, [torch.as_tensor(numbers) for numbers in drawn], step.draw(0)):
            network.load_state_dict(began)
            losses.append(step.loss(*arrays).item())
        assert losses[0] == losses[1] != losses[2] and np.isfinite(losses).all()


def test_targets_of_all_rounds_lie_in_the_same_place(monkeypatch):
    ((teacher, step),) = steps_of(monkeypatch, "map of parts, few goals")
    places, targets = set(), []
    for update in range(6):
        step.draw(update)
        places.add(teacher.targets.data_ptr())
        assert torch.equal(teacher.targets, teacher.rounds.search(update // 2).targets)
        targets.append(teacher.targets.clone())
    assert len(places) == 1 and not torch.equal(targets[0], targets[-1])


def trained_on_gpu(is_captured, journal=Journal(), stop_at=None):
    """The bytes of a network after 20 updates."""
    torch.manual_seed(0)
    frames = np.random.default_rng(0).integers(256, size=(60, 16, 16, 1), dtype=np.uint8)
    images, network = FrameTensors(frames, torch.device("cuda")), make_encoder("small", frames, 4).cuda()

    def draw(update):
        if update == stop_at:
            raise KeyboardInterrupt
        return (rng_at(0, update).integers(60, size=32),)

    def loss(numbers):
        return network(images(numbers)).square().mean()

    step = Step(draw, loss, images)
    train(network, step if is_captured else lambda update: step(update), 20, 1e-2, "some", journal)
    return {name: tensor.cpu().numpy().tobytes() for name, tensor in network.state_dict().items()}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replayed_updates_end_in_the_same_bytes_as_updates_made_one_by_one():
    assert trained_on_gpu(is_captured=True) == trained_on_gpu(is_captured=False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replayed_updates_that_were_interrupted_end_in_the_same_bytes(tmp_path):
    journal = Journal(tmp_path, checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        trained_on_gpu(is_captured=True, journal=journal, stop_at=11)
    assert journal.checkpoint("some").exists()
    assert trained_on_gpu(is_captured=True, journal=journal) == trained_on_gpu(is_captured=True)


def test_a_step_is_the_loss_of_what_it_draws_and_is_not_captured_without_a_gpu():
    frames = np.arange(40, dtype=np.float32).reshape(20, 2)
    images = FrameTensors(frames, torch.device("cpu"))
    step = Step(lambda update: (np.array([update, update + 1]),), lambda numbers: images(numbers).sum(), images)
    assert step(3).item() == frames[3:5].sum() and not step.can_be_captured


def test_arrays_of_all_kinds_lie_side_by_side_in_a_parcel():
    drawn = [
        torch.arange(5), torch.tensor(0.5), torch.rand(3, 2), torch.tensor([True, False, True]),
        torch.arange(7, dtype=torch.int32)
    ]
    parcel = torch.zeros(parcel_size(*drawn), dtype=torch.uint8)
    for place, numbers in zip(unpacked(parcel, drawn), drawn, strict=True):
        place.copy_(numbers)
    for found, numbers in zip(unpacked(parcel.clone(), drawn), drawn, strict=True):
        assert torch.equal(found, numbers) and found.dtype == numbers.dtype
    assert parcel_size() == 0 and not list(unpacked(parcel, []))


def test_a_network_that_cannot_be_captured_is_refused_with_the_reason(monkeypatch):
    @contextmanager
    def capturing(graph):
        try:
            yield
        except RuntimeError:
            raise RuntimeError("capture ended\nin two lines") from None  # as torch does, once something was asked for

    for name, stand_in in (("Stream", object), ("CUDAGraph", object), ("graph", capturing)):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    module = nn.Linear(2, 1)

    def loss():
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    step = Step(lambda update: (), loss, FrameTensors(np.zeros((4, 2), np.float32), torch.device("cpu")))
    update = CapturedUpdate(step, Adam(module.parameters(), 1e-3))
    with pytest.raises(
        ValueError,
        match=r"recorded on the GPU \(operation not permitted when stream is capturing\); a network must not"
    ):
        update.captured  # noqa: B018

"""One contract for all baselines, the trivial task for those that learn, and closed forms for the parts of each."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from plan2vec import baselines
from plan2vec.baselines import VectorScorer
from plan2vec.baselines.contrastive import ContrastiveConfig, Futures, train_contrastive
from plan2vec.baselines.dqn import CostNetwork, DQNConfig, Learner, train_dqn
from plan2vec.baselines.isomap import fit_isomap
from plan2vec.baselines.registry import MetricScorer, random_scorer
from plan2vec.baselines.vae import VAE, Decoder, VAEConfig, train_vae
from plan2vec.config import LocalMetricConfig
from plan2vec.data import transitions
from plan2vec.domains import maze
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import NearPairs
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.gradient_loop import Journal
from plan2vec.local_metric import build_local_metric, pair_distances
from plan2vec.search.shortest_paths import distances_from


def path_graph(num_nodes, missing=-1):
    """Nodes in a row, a step apart; the edge after node `missing` is left out."""
    first = np.delete(np.arange(num_nodes - 1), [missing] if missing >= 0 else [])
    ends = np.concatenate((first, first + 1)), np.concatenate((first + 1, first))
    return csr_array((np.ones(2 * len(first), np.float32), ends), shape=(num_nodes, num_nodes))


CPU, LINE, TWO_PARTS = torch.device("cpu"), path_graph(40), path_graph(20, missing=9)
NUM_CELLS = 24
LEARNING = ("contrastive", "vae", "dqn")  # by gradient
METRIC = ("sptm", "random", "pixels", "contrastive", "vae", "isomap")  # claim to be a metric
PLACING = ("sptm", "random", "pixels", *LEARNING)  # can be put on frames they never saw


@cache
def corridor():
    """(frames, sequence, action, cell): random walks in a corridor, seen through overlapping receptive fields."""
    rng = np.random.default_rng(0)
    cell, action = np.empty((60, 10), int), np.full((60, 10), -1)
    cell[:, 0] = rng.integers(NUM_CELLS, size=60)
    action[:, :-1] = rng.integers(2, size=(60, 9))
    for i in range(9):
        cell[:, i + 1] = np.clip(cell[:, i] + 2 * action[:, i] - 1, 0, NUM_CELLS - 1)
    field = np.arange(-1, NUM_CELLS + 1)
    frames = np.exp(-((cell.reshape(-1, 1) - field) ** 2) / 4).astype(np.float32)
    return frames, np.repeat(np.arange(60), 10), action.reshape(-1, 1), cell.ravel()


@cache
def corridor_graph():
    frames, sequence, _, cell = corridor()
    first, second = np.triu_indices(len(cell), 1)
    near = (np.abs(cell[first] - cell[second]) <= 1) & ~((sequence[first] == sequence[second]) & (second - first == 1))
    length = np.maximum(np.abs(cell[first] - cell[second])[near], 0.01).astype(np.float32)
    return build_graph(sequence, NearPairs(first[near], second[near], length), None, False, np.ones(len(frames), bool))


@cache
def image_world():
    return maze.simulate("open", num_rollouts=8, num_steps=6)


def scorer(name, frames, sequence, action, num_updates=3, seed=0, dim=2):
    if name == "sptm":
        torch.manual_seed(0)
        return MetricScorer(build_local_metric(frames, "small", LocalMetricConfig(dim=4)), CPU)
    if name == "random":
        return random_scorer(frames, "small", dim, seed, CPU)
    if name == "pixels":
        return VectorScorer(torch.nn.Flatten(), CPU)
    if name == "isomap":
        return SimpleNamespace(on=lambda frames: fit_isomap(corridor_graph(), dim))
    if name == "contrastive":
        config = ContrastiveConfig(num_updates=num_updates, batch_size=64, learning_rate=3e-3)
        return train_contrastive(frames, sequence, "small", dim, config, seed, CPU)
    if name == "vae":
        return train_vae(
            frames, "small", dim, VAEConfig(num_updates=num_updates, batch_size=64, learning_rate=3e-3), seed, CPU
        )
    config = DQNConfig(
        num_updates=num_updates, batch_size=32, goals_per_update=16, width=64, polyak=0.1, learning_rate=3e-3
    )
    return train_dqn(frames, sequence, action, config, seed, CPU)


@cache
def corridor_scorer(name, **settings):
    return scorer(name, *corridor()[:3], **settings)


def random_pairs(num_frames, num=500):
    return np.random.default_rng(1).integers(num_frames, size=(2, num))


def rank_agreement(name, **settings):
    frames, _, _, cell = corridor()
    first, second = random_pairs(len(frames), 3000)
    distance = corridor_scorer(name, **settings).on(frames)(first, second)
    return float(spearmanr(distance, np.abs(cell[first] - cell[second])).statistic)


# ---------------------------------------------------------------------------------------------------- the contract


@pytest.mark.parametrize("name", sorted({*METRIC, *PLACING}))
def test_a_scorer_gives_one_finite_distance_a_pair_that_is_never_negative(name):
    frames = corridor()[0]
    distance = corridor_scorer(name).on(frames)
    found = distance(*random_pairs(len(frames)))
    assert found.shape == (500,) and np.isfinite(found).all() and (found >= 0).all() and np.ptp(found) > 0
    assert distance(np.empty(0, int), np.empty(0, int)).shape == (0,)


@pytest.mark.parametrize("name", PLACING)
def test_images_are_scored_as_vectors_are(name):
    world = image_world()
    found = scorer(
        name, world.frames, world.sequence, world.action
    ).on(world.frames)(*random_pairs(len(world.frames), 50))
    assert found.shape == (50,) and np.isfinite(found).all() and np.ptp(found) > 0


@pytest.mark.parametrize("name", METRIC)
def test_a_metric_is_symmetric_and_zero_from_a_frame_to_itself(name):
    frames = corridor()[0]
    distance = corridor_scorer(name).on(frames)
    first, second = random_pairs(len(frames))
    assert np.array_equal(distance(first, second), distance(second, first)) and (distance(first, first) == 0).all()


@pytest.mark.parametrize("name", ["random", *LEARNING])
def test_the_same_seed_gives_the_same_distances_and_another_seed_others(name):
    frames = corridor()[0]
    scorers = (scorer(name, *corridor()[:3], seed=seed) for seed in (1, 1, 2))
    first, second, other = (trained.on(frames)(*random_pairs(len(frames))) for trained in scorers)
    assert np.array_equal(first, second) and not np.allclose(first, other)


@pytest.mark.parametrize("name", PLACING)
def test_a_scorer_depends_on_the_frames_it_is_put_on_and_not_on_their_numbers(name):
    frames = corridor()[0]
    trained = corridor_scorer(name)
    first, second = random_pairs(len(frames) // 3)
    unseen = trained.on(frames[::3])(first, second)
    assert np.allclose(unseen, trained.on(frames)(3 * first, 3 * second), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "after"), [("contrastive", 0.95), ("vae", 0.75), ("dqn", 0.9)])
def test_training_brings_the_corridor_into_order(name, after):
    dim = 1 if name == "vae" else 8
    assert rank_agreement(name, num_updates=1, dim=dim) < after - 0.2
    assert rank_agreement(name, num_updates=300, dim=dim) > after


def test_isomap_orders_the_corridor_far_better_than_the_pixels_it_stands_on():
    assert rank_agreement("pixels") < 0.8 and rank_agreement("isomap") > 0.98


@pytest.mark.parametrize("name", LEARNING)
def test_an_interrupted_training_ends_in_the_same_distances_as_one_that_never_was(name, tmp_path, monkeypatch):
    frames, sequence, action, _ = corridor()
    configs = {
        "contrastive": ContrastiveConfig(12, 16), "vae": VAEConfig(12, 16), "dqn": DQNConfig("mlp", 12, 16, 4, width=16)
    }
    trains = {
        "contrastive": lambda journal: train_contrastive(frames, sequence, "mlp", 2, configs[name], 0, CPU, journal),
        "vae": lambda journal: train_vae(frames, "mlp", 2, configs[name], 0, CPU, journal),
        "dqn": lambda journal: train_dqn(frames, sequence, action, configs[name], 0, CPU, journal),
    }
    pairs = random_pairs(len(frames))
    whole = trains[name](Journal()).on(frames)(*pairs)
    call = FrameTensors.__call__
    num_calls = []

    def stopping(images, numbers):
        num_calls.append(1)
        if len(num_calls) == 8:
            raise KeyboardInterrupt
        return call(images, numbers)

    journal = Journal(tmp_path, checkpoint_seconds=0)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(FrameTensors, "__call__", stopping)
        trains[name](journal)
    assert (tmp_path / "checkpoints" / f"{name}.safetensors").exists()
    assert np.array_equal(trains[name](journal).on(frames)(*pairs), whole)


def test_pairs_in_small_blocks_give_the_same_distances(monkeypatch):
    frames = corridor()[0]
    pairs = random_pairs(len(frames))
    whole = corridor_scorer("pixels").on(frames)(*pairs)
    monkeypatch.setattr(baselines, "NUMBERS_AT_ONCE", 7 * frames.shape[1])
    assert np.allclose(corridor_scorer("pixels").on(frames)(*pairs), whole)


# ---------------------------------------------------------------------------------------------------- each for itself


def test_pixels_are_the_plain_l2_distance_of_images_in_0_to_1():
    frames = image_world().frames
    expected = np.linalg.norm((frames[3].astype(float) - frames[20]).ravel() / 255)
    found = VectorScorer(torch.nn.Flatten(), CPU).on(frames)(np.array([3]), np.array([20]))
    assert found[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("architecture", ["siamese", "stacked"])
def test_sptm_is_the_local_metric(architecture):
    frames = image_world().frames
    metric = build_local_metric(frames, "small", LocalMetricConfig(architecture=architecture)).eval()
    metric.scale.fill_(3.0)
    first, second = random_pairs(len(frames), 20)
    found = MetricScorer(metric, CPU).on(frames)(first, second)
    assert np.allclose(found, pair_distances(metric, FrameTensors(frames, CPU), first, second), atol=1e-4)


def test_positives_come_later_in_the_same_sequence_with_geometric_chance():
    sequence = np.repeat([0, 1, 2], [4, 1, 30])
    futures = Futures(sequence)
    assert np.array_equal(futures.starts, transitions(sequence))
    first, later = futures.draw(40_000, 3.0, np.random.default_rng(0))
    gap = later - first
    assert (sequence[first] == sequence[later]).all() and gap.min() == 1
    from_start = np.bincount(gap[first == 0])[1:] / np.count_nonzero(first == 0)
    chance = np.array([1, 2 / 3, 4 / 9])
    assert from_start == pytest.approx(chance / chance.sum(), abs=0.03)  # cut off at the sequence's end
    assert gap[(first >= 5) & (first < 10)].mean() == pytest.approx(3, rel=0.05)
    assert (np.diff(futures.draw(50, 1.0, np.random.default_rng(0)), axis=0) == 1).all()


def test_the_autoencoders_loss_is_likelihood_and_divergence():
    torch.manual_seed(0)
    frames = np.random.default_rng(0).integers(256, size=(6, 20, 28, 3), dtype=np.uint8)
    vae = VAE(frames, "small", 2)
    images, noise = FrameTensors(frames, CPU)(np.arange(6)), torch.zeros(6, 2)
    mean, log_variance = vae.encoder(images).chunk(2, dim=1)
    normal = torch.distributions.Normal(mean, (log_variance / 2).exp())
    divergence = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(1)
    pixel = torch.distributions.Bernoulli(logits=vae.decoder(mean), validate_args=False)
    for beta in (0.0, 1.0, 4.0):
        expected = (-pixel.log_prob(images).sum((1, 2, 3)) + beta * divergence).mean()
        assert vae.loss(images, noise, beta).item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_decoder_starts_from_the_mean_image_whatever_its_size():
    image = torch.rand(3, 21, 50)
    decoder = Decoder(2, image)
    with torch.no_grad():
        drawn = torch.sigmoid(decoder(torch.randn(4, 2)))
    assert drawn.shape == (4, 3, 21, 50) and (drawn - image).abs().mean() < 0.05


def test_isomap_recovers_a_line_and_knows_nothing_of_other_parts():
    line = fit_isomap(LINE, 1)
    first, second = np.divmod(np.arange(1600), 40)
    assert np.allclose(line(first, second), distances_from(LINE, np.arange(40)).ravel(), atol=1e-3)
    across = fit_isomap(TWO_PARTS, 2)(np.array([0, 0, 15]), np.array([9, 10, 12]))
    assert across[0] == pytest.approx(9, abs=1e-3) and np.isinf(across[1:]).all()
    with pytest.raises(ValueError, match="takes 11 to 10000 connected frames, but the graph joins 10"):
        fit_isomap(TWO_PARTS, 10)


def test_dqn_targets_are_a_step_and_the_discounted_rest_and_known_bounds_hold():
    torch.manual_seed(0)
    frames, sequence, action, _ = corridor()
    config = DQNConfig(width=16, discount=0.9, batch_size=4, goals_per_update=3)
    learner = Learner(
        CostNetwork(frames, 2, config), FrameTensors(frames, CPU), Futures(sequence), action[:, 0], config, 0
    )
    first, later, shared = (torch.tensor(numbers) for numbers in ([0, 10, 22, 31], [1, 15, 24, 39], [11, 5, 300]))
    target = learner._targets(first, later, shared).numpy()
    with torch.no_grad():
        onward = (
            learner._costs(learner.network, first + 1, torch.cat((first, later, shared))).amin(2).numpy()
        )  # the target network is still a copy
    # at the goal after the step
    assert target.shape == (4, 5) and (target[:, 0] == 0).all() and target[0, 1] == target[1, 2] == 1
    assert target[2, 4] == pytest.approx(min(1 + 0.9 * onward[2, 4], 10), rel=1e-5)
    assert (target[:, 1] <= (1 - 0.9 ** (later - first).numpy()) / 0.1 + 1e-5).all() and target.max() <= 10


def test_dqn_costs_of_the_corridor_are_the_discounted_numbers_of_steps():
    frames, _, _, cell = corridor()
    first, second = random_pairs(len(frames), 2000)
    cost = corridor_scorer("dqn", num_updates=300, dim=8).on(frames)(first, second)
    steps = np.abs(cell[first] - cell[second])
    exact = (1 - 0.98**steps) / 0.02
    assert np.mean(np.abs(cost - exact)[steps > 0] / exact[steps > 0]) < 0.25


@pytest.mark.parametrize("action", [np.zeros((600, 2), int), np.zeros((600, 1)), np.full((600, 1), -1)])
def test_dqn_refuses_actions_that_are_no_numbers_of_choices(action):
    frames, sequence, _, _ = corridor()
    with pytest.raises(ValueError, match="DQN needs one action number a frame"):
        train_dqn(frames, sequence, action, DQNConfig(), 0, CPU)

"""The local metric learns a small world from its recorded steps; pairs, losses and augmentations against naive loops.
"""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

import plan2vec.local_metric
from plan2vec.config import Config, LocalMetricConfig, settle
from plan2vec.data import make_sequences, near_in_time
from plan2vec.learning.augmentation import Augmentation, augment, draw_changes
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.pair_losses import AllFarPairs, all_distances, far_distance_loss, nce_loss, safe_norm
from plan2vec.learning.recorded_pairs import draw_far, draw_neighbors, recorded_pairs, spaced_times
from plan2vec.local_metric import (
    SiameseMetric,
    accuracy,
    build_local_metric,
    calibrate,
    local_vectors,
    pair_distances,
    train_local_metric,
)

CPU = torch.device("cpu")
SIZE = 12  # side of the walker's square, steps
QUICK = LocalMetricConfig(num_updates=150, batch_size=64)


def walk(num_sequences, length, seed=0):
    """A walker in a square that takes steps of length 1 in random directions: position (n, 2), sequence (n,)."""
    rng = np.random.default_rng(seed)
    position = np.empty((num_sequences, length, 2))
    position[:, 0] = rng.uniform(0, SIZE, (num_sequences, 2))
    for row in position:
        for index in range(1, length):
            row[index] = -1
            while (row[index] < 0).any() or (row[index] > SIZE).any():
                angle = rng.uniform(0, 2 * np.pi)
                row[index] = row[index - 1] + (np.cos(angle), np.sin(angle))
    return position.reshape(-1, 2), np.repeat(np.arange(num_sequences), length)


def draw_blobs(position, pixels=46):
    """(n, pixels, pixels, 1): a soft blob at the walker's place; 46 is the least the paper's maze network takes."""
    x, y = (position / SIZE * (pixels - 1)).T[:, :, None]
    grid = np.arange(pixels)
    return (
        255 * np.exp(-((grid - y) ** 2)[:, :, None] / 40 - ((grid - x) ** 2)[:, None, :] / 40)
    ).astype(np.uint8)[..., None]


POSITION, SEQUENCE = walk(60, 20)
STEPS = np.flatnonzero(SEQUENCE[1:] == SEQUENCE[:-1])
FAR_FIRST, FAR_SECOND = np.random.default_rng(1).integers(0, len(POSITION), (2, 1000))
TRULY_FAR = np.linalg.norm(POSITION[FAR_FIRST] - POSITION[FAR_SECOND], axis=1) > 3


def trained(frames, sequence=SEQUENCE, settings=QUICK, usable=None, **config):
    """The metric and its accuracy."""
    recorded = make_sequences(frames, sequence)
    config = settle(Config(view="fixed", encoder="small", local_metric=settings, **config), recorded)
    result = train_local_metric(recorded, config, FrameTensors(recorded.frames, CPU), usable)
    return result.metric, result.accuracy


def pairs_of(frames, sequence=SEQUENCE, usable=None, max_gap=1):
    recorded = make_sequences(frames, sequence)
    return recorded_pairs(recorded, np.ones(len(sequence), bool) if usable is None else usable, max_gap)


def measured(metric, frames):
    """Local distances of recorded steps, of pairs truly more than 3 steps apart, and of frames to themselves."""
    images, some = FrameTensors(frames, CPU), STEPS[::3]
    far = pair_distances(metric, images, FAR_FIRST[TRULY_FAR], FAR_SECOND[TRULY_FAR])
    return pair_distances(metric, images, some, some + 1), far, pair_distances(metric, images, some, some)


# ---------------------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("loss", ["regression", "hinge", "nce"])
def test_a_siamese_metric_learns_that_steps_are_near_one_and_far_pairs_beyond(loss):
    frames = POSITION.astype(np.float32)
    metric, share = trained(frames, settings=dataclasses.replace(QUICK, loss=loss))
    steps, far, same = measured(metric, frames)
    assert TRULY_FAR.sum() > 500
    assert 0.5 < np.median(steps) < 1.3 and np.mean(steps < 1.5) > 0.99
    assert np.mean(far >= 1.5) > 0.9 and same.max() < 1e-3
    assert 0.75 < share <= 1
    if loss == "regression":
        assert np.quantile(far, 0.95) < 3  # held near 2
    else:
        assert np.median(far) > 4  # free to grow


@pytest.mark.parametrize(("loss", "batch_size"), [("regression", 8), ("hinge", 8), ("nce", 4)])
def test_the_papers_stacked_metric_learns_that_steps_are_near_one_and_far_pairs_beyond(monkeypatch, loss, batch_size):
    monkeypatch.setattr("plan2vec.local_metric.NUM_NCE_NEGATIVES", 8)  # quicker
    monkeypatch.setattr(plan2vec.local_metric, "NUM_JUDGED", 400)
    frames = draw_blobs(POSITION)
    config = LocalMetricConfig("stacked", loss, dim=8, num_updates=60, batch_size=batch_size, learning_rate=2e-3)
    metric, share = trained(frames, settings=config)
    steps, far, same = measured(metric, frames)
    assert 0.5 < np.median(steps) < 1.3 and np.mean(steps < 1.5) > 0.7
    assert np.mean(far >= 1.5) > 0.9 and same.mean() < 0.8 * np.median(steps) and share > 0.7
    assert local_vectors(metric, FrameTensors(frames, CPU)).shape == (len(frames), 8)


@pytest.mark.parametrize(("encoder", "expected"), [("medium", "small"), ("maze-global", "small"), ("views", "views")])
def test_a_stacked_metrics_candidates_are_found_by_a_small_network_and_those_of_views_by_theirs(encoder, expected):
    frames = draw_blobs(POSITION[:4])
    metric = build_local_metric(frames, encoder, LocalMetricConfig("stacked"))
    wanted = make_encoder(expected, frames, LocalMetricConfig.dim)
    assert [p.shape for p in metric.candidates.parameters()] == [p.shape for p in wanted.parameters()]


def test_an_untrained_metric_does_not_know_one_step():
    torch.manual_seed(0)
    metric = build_local_metric(POSITION.astype(np.float32), "small", QUICK)
    steps, far, _ = measured(metric, POSITION.astype(np.float32))
    assert np.median(steps) < 0.3 and np.mean(far >= 1.5) < 0.1


def test_pairs_up_to_max_gap_apart_are_learned_at_their_gap():
    frames = np.arange(300.0)[:, None] % 50  # a line walked in one direction: g frames later is g steps away
    sequence = np.repeat(np.arange(6), 50)
    config = dataclasses.replace(QUICK, num_updates=200)
    metric, _ = trained(frames, sequence, config, max_gap=3)
    images = FrameTensors(frames.astype(np.float32), CPU)
    start = np.arange(0, 46)
    for gap in (1, 2, 3):
        assert np.median(pair_distances(metric, images, start, start + gap)) == pytest.approx(gap, rel=0.25)
    # far pairs lie beyond 2 x max_gap, less a margin
    assert pair_distances(metric, images, start[:20], start[:20] + 20).min() > 4.5


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    frames, config = POSITION.astype(np.float32), dataclasses.replace(QUICK, num_updates=10)
    made = [trained(frames, settings=config, seed=seed) for seed in (3, 3, 4)]
    states = [{name: tensor.numpy().tobytes() for name, tensor in metric.state_dict().items()} for metric, _ in made]
    assert states[0] == states[1] != states[2] and made[0][1] == made[1][1]


def test_frames_that_may_not_be_used_change_nothing_but_the_standardization():
    usable = SEQUENCE < 40
    frames = POSITION.astype(np.float32)
    order = np.random.default_rng(5).permutation(np.flatnonzero(~usable))
    other = frames.copy()
    other[~usable] = frames[order]  # the same numbers, so the same mean and deviation, in another order
    config = dataclasses.replace(QUICK, num_updates=10)
    metrics = [trained(given, settings=config, usable=usable)[0] for given in (frames, other)]
    for name, tensor in metrics[0].state_dict().items():
        assert torch.allclose(tensor, metrics[1].state_dict()[name], atol=1e-4), name


@pytest.mark.parametrize("seed", range(4))
def test_one_of_two_sequences_held_out_leaves_the_other_to_learn_from(seed):
    sequence = np.repeat([0, 1], 600)
    config = dataclasses.replace(QUICK, num_updates=1)
    for held in (0, 1):
        _, share = trained(POSITION, sequence, config, sequence != held, seed=seed)
        assert share is not None


@pytest.mark.parametrize("loss", ["regression", "hinge", "nce"])
@pytest.mark.parametrize("num_frames", [2, 3, 5])
def test_a_recording_of_a_few_frames_gives_finite_distances_and_no_accuracy(loss, num_frames):
    frames = POSITION[:num_frames].astype(np.float32)
    config = LocalMetricConfig(loss=loss, num_updates=3, batch_size=8)
    metric, share = trained(frames, np.zeros(num_frames, int), config)
    images = FrameTensors(frames, CPU)
    assert np.isfinite(pair_distances(metric, images, np.array([0]), np.array([1]))).all() and share is None


def test_recordings_in_which_nothing_moves_are_refused():
    frames = np.repeat([[0.0], [1.0]], 5, axis=0).astype(np.float32)
    with pytest.raises(ValueError, match="no recorded step changes a single pixel"):
        trained(frames, np.repeat([0, 1], 5))


# ---------------------------------------------------------------------------------------------------- pairs


@pytest.mark.parametrize("max_gap", [1, 2, 3])
def test_recorded_pairs_equal_a_naive_loop(max_gap):
    rng = np.random.default_rng(2)
    frames = rng.integers(0, 3, (200, 1)).astype(np.float32)  # every third pair is still
    sequence = np.repeat(np.arange(10), 20)
    usable = rng.random(200) < 0.8
    pairs = pairs_of(frames, sequence, usable, max_gap)
    for gap in range(1, max_gap + 1):
        naive = [
            i for i in range(200 - gap)
            if sequence[i] == sequence[i + gap] and usable[i] and usable[i + gap] and frames[i] != frames[i + gap]
        ]
        assert pairs.first[gap - 1].tolist() == naive and 20 < len(naive) < 190
    assert pairs.frames.tolist() == np.flatnonzero(usable).tolist() and pairs.max_gap == max_gap


def test_steps_that_do_not_move_are_no_neighbours():
    frames = np.array([[0], [0], [1], [1], [2]], np.float32)
    pairs = pairs_of(frames, np.zeros(5, int), max_gap=2)
    assert [first.tolist() for first in pairs.first] == [[1, 3], [0, 1, 2]]


def test_drawn_neighbours_are_recorded_pairs_and_every_gap_is_as_frequent():
    pairs = pairs_of(POSITION, max_gap=3)
    first, gap = draw_neighbors(pairs, 3000, np.random.default_rng(0))
    assert (SEQUENCE[first] == SEQUENCE[first + gap]).all()
    assert np.bincount(gap, minlength=4)[1:].min() > 900 and set(gap) == {1, 2, 3}


def test_far_pairs_lie_in_other_sequences_or_more_than_two_gaps_apart():
    pairs = pairs_of(POSITION, max_gap=2)
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 100, (2, 2000))
    naive = [SEQUENCE[i] != SEQUENCE[j] or abs(i - j) > 4 for i, j in zip(first, second, strict=True)]
    assert (~near_in_time(SEQUENCE, first, second, 5)).tolist() == naive and 50 < naive.count(False) < 500
    when = spaced_times(pairs.sequence, 2 * pairs.max_gap)
    assert (np.abs(when[first] - when[second]) > 2 * pairs.max_gap).tolist() == naive
    drawn = draw_far(pairs, np.resize(STEPS, 4000), rng)
    assert np.mean(~near_in_time(SEQUENCE, *drawn, 5)) > 0.999


# ---------------------------------------------------------------------------------------------------- losses and
# distances


def test_far_pairs_cost_nothing_beyond_the_margin_under_the_hinge_but_do_under_regression():
    distance = torch.tensor([0.0, 3.0, 4.0, 7.0])
    # smooth L1 to 4
    assert far_distance_loss(distance, torch.ones_like(distance), 2, "hinge").item() == pytest.approx((3.5 + 0.5) / 4)
    assert far_distance_loss(
        distance, torch.ones_like(distance), 2, "regression"
    ).item() == pytest.approx((3.5 + 0.5 + 2.5) / 4)
    some = torch.tensor([True, False, False, True])
    assert far_distance_loss(distance, some, 2, "regression").item() == pytest.approx((3.5 + 2.5) / 2)
    # a recording of a few frames has none
    assert far_distance_loss(distance, torch.zeros(4, dtype=torch.bool), 2, "hinge").item() == 0


@pytest.mark.parametrize("loss", ["hinge", "regression"])
@pytest.mark.parametrize("max_gap", [1, 2])
def test_all_far_pairs_at_once_have_the_loss_and_gradient_of_one_after_the_other(loss, max_gap):
    draw = torch.Generator().manual_seed(0)
    vectors = (1.5 * torch.randn(12, 3, generator=draw, dtype=torch.float64)).requires_grad_()
    vectors.data[5] = vectors.data[4]  # far frames that look alike: no way is better than another
    far = torch.rand(12, 12, generator=draw) < 0.7
    far = far | far.T
    far.fill_diagonal_(False)
    far[4, 5] = far[5, 4] = True
    ours = AllFarPairs.apply(vectors, far, max_gap, loss)
    (our_gradient,) = torch.autograd.grad(3 * ours, vectors)
    naive = far_distance_loss(safe_norm(vectors[:, None] - vectors), far, max_gap, loss)
    (gradient,) = torch.autograd.grad(3 * naive, vectors)
    assert ours.item() == pytest.approx(naive.item(), rel=1e-4) and torch.allclose(
        our_gradient, gradient, rtol=1e-4, atol=1e-6
    )
    assert AllFarPairs.apply(vectors, torch.zeros_like(far), max_gap, loss).item() == 0


def test_the_contrastive_loss_equals_a_naive_softmax_over_the_far_pairs():
    near, negatives = torch.rand(4), 3 * torch.rand(4, 5)
    far = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)) < 0.6
    naive = []
    for d, others, counts in zip(near.tolist(), negatives.tolist(), far.tolist(), strict=True):
        noise = sum(math.exp(-other) for other, count in zip(others, counts, strict=True) if count)
        naive.append(-math.log(math.exp(-d) / (math.exp(-d) + noise)))
    assert nce_loss(near, negatives, far).item() == pytest.approx(float(np.mean(naive)), rel=1e-5)


def test_all_distances_equal_one_by_one_and_the_norm_has_no_gradient_at_zero():
    vectors = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    naive = torch.stack([torch.stack([(a - b).norm() for b in vectors]) for a in vectors])
    assert torch.allclose(all_distances(vectors), naive, atol=2e-3)
    zero = torch.zeros(2, 3, requires_grad=True)
    safe_norm(zero).sum().backward()
    assert (zero.grad == 0).all()


class Line(nn.Module):
    """Stands for an encoder: the frame itself."""

    def forward(self, images):
        return images


def test_accuracy_is_the_share_that_a_naive_count_gives():
    frames = (1.2 * POSITION[:, :1]).astype(np.float32)  # one coordinate of two: far pairs often look near
    metric, images = SiameseMetric(Line()), FrameTensors(frames, CPU)
    pairs = pairs_of(frames)
    share = accuracy(metric, images, pairs, np.random.default_rng(0))
    rng = np.random.default_rng(0)  # the same draws, counted one by one
    first, gap = draw_neighbors(pairs, 1000, rng)
    far = draw_far(pairs, rng.choice(pairs.frames, 2000), rng)
    right = 0
    for i, j, near in [(i, i, True) for i in first] + [(i, i + g, True) for i, g in zip(first, gap, strict=True)]:
        right += (abs(frames[i, 0] - frames[j, 0]) < 1.5) == near
    right += sum(abs(frames[i, 0] - frames[j, 0]) >= 1.5 for i, j in zip(*far, strict=True))
    assert share == right / 4000 and 0.8 < share < 0.95


def test_calibration_makes_the_median_recorded_step_one():
    frames = (7 * POSITION).astype(np.float32)
    metric, images = SiameseMetric(Line()), FrameTensors(frames, CPU)
    pairs = pairs_of(frames)
    assert np.median(pair_distances(metric, images, STEPS, STEPS + 1)) == pytest.approx(7, rel=1e-4)
    calibrate(metric, images, pairs)
    assert np.median(pair_distances(metric, images, STEPS, STEPS + 1)) == pytest.approx(1, rel=1e-5)


def test_a_siamese_distance_is_that_between_its_vectors():
    frames = POSITION.astype(np.float32)
    metric, images = build_local_metric(frames, "small", QUICK), FrameTensors(frames, CPU)
    metric.scale.fill_(3.0)
    vectors = local_vectors(metric, images)
    naive = [np.linalg.norm(vectors[i] - vectors[j]) for i, j in zip(FAR_FIRST, FAR_SECOND, strict=True)]
    assert np.allclose(pair_distances(metric, images, FAR_FIRST, FAR_SECOND), naive, atol=1e-5)


# ---------------------------------------------------------------------------------------------------- augmentation


def augmented(shape, seed=0, gray=None, **setting):
    """Random images [b, c, h, w], or gray ones, and the same after changes drawn with this seed."""
    frames = np.random.default_rng(0).integers(
        256, size=shape, dtype=np.uint8
    ) if gray is None else np.full(shape, gray, np.uint8)
    tensors, config = FrameTensors(frames, CPU), Augmentation(**setting)
    images = tensors(np.arange(len(frames)))
    return images, augment(images, config, draw_changes(config, tensors, len(frames), np.random.default_rng(seed)))


def test_jitter_zooms_and_shifts_every_image_within_its_share_and_repeats_its_border():
    height, width, jitter = 20, 30, 0.2
    ramp = np.stack(np.broadcast_arrays(np.arange(width), np.arange(height)[:, None]), axis=2)  # tells places
    tensors, config = FrameTensors(np.repeat(ramp[None].astype(np.uint8), 40, axis=0), CPU), Augmentation(jitter)
    images = tensors(np.arange(40))
    changed = 255 * augment(images, config, draw_changes(config, tensors, 40, np.random.default_rng(0))).double()
    assert changed.amin((0, 2, 3)).tolist() == [0, 0]
    assert changed.amax((0, 2, 3)).numpy() == pytest.approx([width - 1, height - 1], abs=1e-4)
    drawn = []
    for image in changed.numpy():
        rows, columns = image[1, :, width // 2], image[0, height // 2]
        zoom_y, zoom_x = rows[10] - rows[9], columns[15] - columns[14]  # pixels of the old image per pixel of the new
        shift = (columns[14:16].mean() - (width - 1) / 2) / width, (rows[9:11].mean() - (height - 1) / 2) / height
        assert zoom_x == pytest.approx(zoom_y, abs=1e-3) and np.abs(shift).max() <= jitter / 2 + 1e-3
        drawn.append((zoom_x - 1, *shift))
    assert np.abs(drawn).max(axis=0) == pytest.approx([jitter, jitter / 2, jitter / 2], rel=0.15)


def test_a_jitter_of_almost_nothing_changes_almost_nothing():
    images, changed = augmented((5, 12, 9, 3), jitter=1e-6)
    assert torch.allclose(images, changed, atol=1e-4) and not torch.equal(images, changed)


def test_brightness_scales_and_shifts_gray_within_its_share_and_stays_in_range():
    images, changed = augmented((200, 4, 4, 1), brightness=0.2)
    assert changed.min() >= 0 and changed.max() <= 1
    for image, other in zip(images.numpy(), changed.numpy(), strict=True):
        inner = (other > 0) & (other < 1)
        slope, offset = np.polyfit(image[inner], other[inner], 1)
        assert 0.8 - 1e-3 <= slope <= 1.2 + 1e-3 and -0.2 - 1e-3 <= offset <= 0.2 + 1e-3
        assert np.allclose(np.clip(slope * image + offset, 0, 1), other, atol=1e-4)


def test_noise_has_the_given_deviation_and_follows_from_the_seed():
    (images, first), (_, again) = (augmented((4, 32, 32, 1), seed=3, gray=128, noise=0.1) for _ in range(2))
    assert torch.equal(first, again) and (first - images).std().item() == pytest.approx(0.1, rel=0.05)


def test_without_augmentation_and_for_vectors_nothing_changes():
    images, same = augmented((3, 4, 4, 1))
    assert same is images
    vectors = FrameTensors(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32), CPU)
    assert draw_changes(Augmentation(jitter=0.1, brightness=0.5), vectors, 3, np.random.default_rng(0)) == ()

"""Stage 1: a local metric d, learned from recorded steps alone. One step apart is 1, unrelated frames are 2 or more.

In the paper: d(x, x'), section 3 "Learning Local Metric", equations 4 and 5.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.augmentation import augment, draw_changes
from plan2vec.captured import Step
from plan2vec.data import frames_ahead, is_still, split_sequences, still_stretches
from plan2vec.encoder import Array, Encoder, FrameTensors, encode, make_encoder, make_stacked, on_device
from plan2vec.processes import concatenated, in_shares
from plan2vec.training import Journal, rng_at, train

NEAR = 1.5  # pairs below this many `max_gap`s count as neighbours when accuracy is measured (paper, Table 3)
NUM_NCE_NEGATIVES = 16  # a stacked metric scores every pair anew, so it sees this many negatives a positive


@dataclass(frozen=True)
class LocalMetricConfig:
    """How the local metric is learned."""

    architecture: Literal["siamese", "stacked"] = "siamese"  # siamese: |z(a) - z(b)|, searchable; stacked: the paper's net on both frames
    loss: Literal["regression", "hinge", "nce"] = "hinge"  # far pairs: exactly 2 (paper) | at least 2 | noise-contrastive (paper, eq. 4)
    network: Literal["maze-local", "deep-local"] = "maze-local"  # the stacked architecture's network
    candidates: str | None = None  # encoder of the siamese metric that finds a stacked one's candidates; default: the map's
    dim: int = 32  # numbers in a siamese vector
    num_updates: int = 400  # gradient updates
    batch_size: int = 256  # neighbour pairs an update (siamese: all other pairs of the batch are far pairs)
    learning_rate: float = 1e-3  # Adam, at its highest
    far_weight: float = 2.0  # weight of far pairs against neighbour pairs (paper: 1 : 1 : 2)
    shift: int = 0  # augmentation: shift every frame by up to this many pixels
    brightness: float = 0.0  # augmentation: change brightness and contrast by up to this share
    noise: float = 0.0  # augmentation: standard deviation of noise in every pixel, as a share of white

    def last_updates(self) -> "LocalMetricConfig":
        """A quarter more updates, gently, on all frames, after the accuracy on held-out ones is known."""
        return replace(self, num_updates=max(1, self.num_updates // 4), learning_rate=self.learning_rate / 4)


class SiameseMetric(nn.Module):
    """d(a, b) = scale * |z(a) - z(b)|, in steps."""

    scale: Tensor

    def __init__(self, encoder: Encoder):
        super().__init__()
        self.encoder = encoder
        self.register_buffer("scale", torch.ones(()))

    def embed(self, images: Tensor) -> Tensor:
        """[b, ...] -> [b, dim], whose l2 distances are d."""
        return self.scale * self.encoder(images)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return safe_norm(self.embed(first) - self.embed(second))


class StackedMetric(nn.Module):
    """The paper's metric: a network on both frames stacked. It has no vectors, so a Siamese metric finds its candidates."""

    scale: Tensor

    def __init__(self, network: Encoder, candidates: SiameseMetric):
        super().__init__()
        self.network = network
        self.candidates = candidates
        self.register_buffer("scale", torch.ones(()))

    def embed(self, images: Tensor) -> Tensor:
        return self.candidates.embed(images)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.scale * self.network(torch.cat((first, second), dim=1))[:, 0]


LocalMetric = SiameseMetric | StackedMetric


@dataclass(frozen=True)
class Pairs:
    """Recorded pairs to learn from: `first[g]` are frames that moved until g + 1 frames later."""

    first: tuple[np.ndarray, ...]
    sequence: np.ndarray
    frames: np.ndarray  # (m,) frame numbers that may be used

    @property
    def max_gap(self) -> int:
        return len(self.first)


def recorded_pairs(frames: np.ndarray, sequence: np.ndarray, usable: np.ndarray, max_gap: int, stretch: np.ndarray | None = None) -> Pairs:
    """Neighbour pairs of the usable frames; pairs between which nothing moved are left out. `stretch`: `still_stretches`, if known."""
    stretch = still_stretches(frames, sequence) if stretch is None else stretch
    first = []
    for gap in range(1, max_gap + 1):
        start = frames_ahead(sequence, gap)
        start = start[usable[start] & usable[start + gap]]
        start = start[stretch[start] != stretch[start + gap]]
        if gap > 1:  # there and back again; equal frames one step apart are of one stretch
            start = start[~is_still(frames, start, start + gap)]
        first.append(start)
    return Pairs(tuple(first), sequence, np.flatnonzero(usable))


def build_local_metric(frames: np.ndarray, encoder: str, config: LocalMetricConfig) -> LocalMetric:
    """An untrained metric of the configured architecture."""
    if config.architecture == "siamese":
        return SiameseMetric(make_encoder(encoder, frames, config.dim))
    siamese = SiameseMetric(make_encoder(config.candidates or encoder, frames, config.dim))
    mean, deviation = siamese.encoder.mean, siamese.encoder.deviation
    network = Encoder(make_stacked(config.network, tuple(frames.shape[1:])), torch.cat((mean, mean)), torch.cat((deviation, deviation)))
    return StackedMetric(network, siamese)


def train_local_metric(
    frames: np.ndarray, sequence: np.ndarray, encoder: str, max_gap: int, config: LocalMetricConfig, seed: int,
    device: torch.device, journal: Journal = Journal(), usable: np.ndarray | None = None, stretch: np.ndarray | None = None,
    images: FrameTensors | None = None,
) -> tuple[LocalMetric, float | None]:  # fmt: skip
    """The metric, and its accuracy on the 10 % of sequences it never saw (None where those hold no step).

    `images`: the frames where they are on the device already.
    """
    torch.manual_seed(seed)
    usable = np.ones(len(sequence), bool) if usable is None else usable
    stretch = still_stretches(frames, sequence) if stretch is None else stretch
    kept, held_out = np.zeros(len(sequence), bool), np.zeros(len(sequence), bool)
    kept[usable], held_out[usable] = split_sequences(sequence[usable], 0.1, rng_at(seed, 0))
    pairs = recorded_pairs(frames, sequence, kept, max_gap, stretch)
    if not len(pairs.first[0]):
        raise ValueError("no recorded step changes a single pixel, so there is nothing to learn; check the recording")
    metric = build_local_metric(frames, encoder, config).to(device)
    images = FrameTensors(frames, device) if images is None else images
    _train_on(metric, images, pairs, config, "", seed, journal)
    held_pairs = recorded_pairs(frames, sequence, held_out, max_gap, stretch)
    measured = accuracy(metric, images, held_pairs, rng_at(seed, 3))
    everything = recorded_pairs(frames, sequence, usable, max_gap, stretch)  # one plans on all frames, so the last updates see all of them
    _train_on(metric, images, everything, config.last_updates(), "_on_all", seed, journal)
    return metric, measured


def _train_on(
    metric: LocalMetric, images: FrameTensors, pairs: Pairs, config: LocalMetricConfig, phase: str, seed: int, journal: Journal
) -> None:
    """All updates of one phase: the Siamese metric, then the stacked one on top, then the unit of both."""
    siamese = metric if isinstance(metric, SiameseMetric) else metric.candidates
    first_stream = 1 if not phase else 4
    step = siamese_step(siamese, images, pairs, config, (seed, first_stream))
    train(siamese, step, config.num_updates, config.learning_rate, f"local_metric{phase}", journal)
    if isinstance(metric, StackedMetric):
        step = stacked_step(metric, images, pairs, config, (seed, first_stream + 1))
        train(metric.network, step, config.num_updates, config.learning_rate, f"stacked_metric{phase}", journal)
    if config.loss == "nce":
        calibrate(siamese, images, pairs)
        if metric is not siamese:
            calibrate(metric, images, pairs)


def siamese_step(metric: SiameseMetric, images: FrameTensors, pairs: Pairs, config: LocalMetricConfig, stream: tuple[int, int]) -> Step:
    """Neighbour pairs are drawn; every other pair of the batch's 2b frames is a far pair. The identical term is 0 by construction."""
    apart = moments(pairs)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(*stream, update)
        first, gap = draw_neighbors(pairs, config.batch_size, rng)
        numbers = np.concatenate((first, first + gap))
        return gap.astype(np.float32), np.stack((numbers, apart[numbers])), *draw_changes(config, images, len(numbers), rng)

    def loss(gap: Array, drawn: Array, *changes: Array) -> Tensor:
        numbers, moment = on_device(drawn, images.device)
        vectors = in_shares(len(numbers), lambda part: metric.embed(augment(images(numbers[part]), config, changes, part)))
        num = len(gap)
        first, second = vectors.split(num)
        near = safe_norm(first - second)
        far = (moment[:, None] - moment).abs() > 2 * pairs.max_gap  # [2b, 2b]
        if config.loss == "nce":
            return nce_loss(near, all_distances(vectors)[:num], far[:num])
        far_loss = AllFarPairs.apply(vectors, far, pairs.max_gap, config.loss)
        return F.smooth_l1_loss(near, on_device(gap, vectors.device)) + config.far_weight * far_loss

    return Step(draw, loss, images)


def stacked_step(metric: StackedMetric, images: FrameTensors, pairs: Pairs, config: LocalMetricConfig, stream: tuple[int, int]) -> Step:
    """Identical : neighbour : far = 1 : 1 : far_weight (paper, equation 5), or the paper's equation 4."""
    num_far = round(config.far_weight * config.batch_size) if config.loss != "nce" else NUM_NCE_NEGATIVES * config.batch_size

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(*stream, update)
        first, gap = draw_neighbors(pairs, config.batch_size, rng)
        far_first, far_second = draw_far(pairs, np.resize(first, num_far), rng)
        a = np.concatenate((first, first, far_first))
        b = np.concatenate((first, first + gap, far_second))
        changes = [change for _ in (a, b) for change in draw_changes(config, images, len(a), rng)]
        return gap.astype(np.float32), a, b, *changes

    def loss(gap: Array, a: Array, b: Array, *changes: Array) -> Tensor:
        sides = ((a, changes[: len(changes) // 2]), (b, changes[len(changes) // 2 :]))
        d = in_shares(len(a), lambda part: metric(*(augment(images(side[part]), config, drawn, part) for side, drawn in sides)))
        same, near, far = d.split((len(gap), len(gap), num_far))
        if config.loss == "nce":
            negatives = far.reshape(NUM_NCE_NEGATIVES, -1).T
            anchor = same.square().mean() + (1 - near).clamp(min=0).square().mean()  # equation 4 knows differences of d only
            return nce_loss(near, negatives, torch.ones_like(negatives, dtype=torch.bool)) + anchor
        far_loss = far_distance_loss(far, torch.ones_like(far), pairs.max_gap, config.loss)
        near_loss = F.smooth_l1_loss(near, on_device(gap, d.device))
        return F.smooth_l1_loss(same, torch.zeros_like(same)) + near_loss + config.far_weight * far_loss

    return Step(draw, loss, images)


def far_distance_loss(distance: Tensor, far: Tensor, max_gap: int, loss: str) -> Tensor:
    """Far pairs lie at 2 x max_gap (regression, the paper's) or beyond it (hinge, which the authors found better later)."""
    missing = 2.0 * max_gap - distance
    if loss == "hinge":
        missing = missing.clamp(min=0)
    error = F.smooth_l1_loss(missing, torch.zeros_like(missing), reduction="none")
    return (error * far).sum() / far.sum().clamp(min=1)


class AllFarPairs(torch.autograd.Function):
    """`far_distance_loss` of all distances between vectors [n, d], where far [n, n] is symmetric: as torch would find it, in half as many
    passes over n x n numbers, as loss and gradient are found together."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, far: Tensor, max_gap: int, loss: str) -> Tensor:
        distance, num_far = all_distances(vectors), far.sum(dtype=vectors.dtype).clamp(min=1)
        missing = 2.0 * max_gap - distance
        if loss == "hinge":
            missing.clamp_(min=0)
        pull = missing.clamp(-1, 1).mul_(far)  # by how much the loss, of a far pair, falls as the distance grows
        error = torch.dot(missing.sub_(pull, alpha=0.5).view(-1), pull.view(-1)) / num_far
        force = pull.div_(distance)  # on vectors[i] - vectors[j]
        gradient = torch.addcmul(force @ vectors, vectors, force.sum(1, keepdim=True), value=-1).mul_(2 / num_far)
        ctx.save_for_backward(gradient)
        return error

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None, None, None


def nce_loss(near: Tensor, negatives: Tensor, far: Tensor) -> Tensor:
    """Equation 4 with similarity S = -d: near [b], negatives [b, k], far [b, k] says which negatives count."""
    scores = torch.cat((-near[:, None], (-negatives).masked_fill(~far, -torch.inf)), dim=1)
    return (torch.logsumexp(scores, dim=1) + near).mean()


def draw_neighbors(pairs: Pairs, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(first, gap): frame numbers whose partner is `gap` frames later, every gap alike."""
    gaps = [gap for gap, first in enumerate(pairs.first, 1) if len(first)]
    gap = rng.choice(gaps, num)
    first = np.empty(num, np.int64)
    for g in gaps:
        first[gap == g] = rng.choice(pairs.first[g - 1], np.count_nonzero(gap == g))
    return first, gap


def draw_far(pairs: Pairs, first: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random partners; the few that were recorded close in time are left out by drawing once more."""
    second = rng.choice(pairs.frames, len(first))
    close = ~is_far(pairs, first, second)
    second[close] = rng.choice(pairs.frames, np.count_nonzero(close))
    return first, second


def is_far(pairs: Pairs, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Frames of other sequences, or more than 2 x max_gap apart in time: far unless they meet by chance."""
    return (pairs.sequence[first] != pairs.sequence[second]) | (np.abs(first - second) > 2 * pairs.max_gap)


def moments(pairs: Pairs) -> np.ndarray:
    """(n,) when each frame was, had all been recorded one sequence after the other: those that `is_far` are more than 2 x max_gap apart."""
    begins = np.diff(pairs.sequence, prepend=pairs.sequence[:1]) != 0
    return np.arange(len(begins)) + 2 * pairs.max_gap * np.cumsum(begins)


def calibrate(metric: LocalMetric, images: FrameTensors, pairs: Pairs) -> None:
    """Noise-contrastive distances have no unit: scale them so that the median recorded step is 1."""
    first = pairs.first[0]
    median = float(np.median(pair_distances(metric, images, first, first + 1)))
    if not median > 0:
        raise ValueError("the noise-contrastive local metric collapsed: recorded steps have length 0; train longer or use the hinge loss")
    metric.scale.mul_(1 / median)


def accuracy(metric: LocalMetric, images: FrameTensors, pairs: Pairs, rng: np.random.Generator, num: int = 4000) -> float | None:
    """Share of pairs (identical : neighbour : far = 1 : 1 : 2) on the right side of the threshold (paper, Table 3)."""
    if not any(len(first) for first in pairs.first) or len(pairs.frames) < 2:
        return None
    first, second, is_near = draw_judged(pairs, num, rng)
    return float(np.mean((pair_distances(metric, images, first, second) < NEAR * pairs.max_gap) == is_near))


def draw_judged(pairs: Pairs, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(num,) first, (num,) second, (num,) bool: pairs to be told apart, and whether they were recorded as near."""
    first, gap = draw_neighbors(pairs, num // 4, rng)
    far_first, far_second = draw_far(pairs, rng.choice(pairs.frames, num // 2), rng)
    a, b = np.concatenate((first, first, far_first)), np.concatenate((first, first + gap, far_second))
    return a, b, np.arange(len(a)) < 2 * len(first)


@torch.no_grad()
def pair_distances(metric: LocalMetric, images: FrameTensors, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) local distances of frame pairs, in steps, never negative."""
    metric.eval()
    parts = np.array_split(np.arange(len(first)), max(1, len(first) // 2048))
    distance = concatenated(parts, lambda part: metric(images(first[part]), images(second[part])).clamp(min=0).cpu().numpy())
    return distance.astype(np.float32)


def local_vectors(metric: LocalMetric, images: FrameTensors) -> np.ndarray:
    """(n, dim) vectors in which near frames are searched."""
    siamese = metric if isinstance(metric, SiameseMetric) else metric.candidates
    return float(siamese.scale) * encode(siamese.encoder, images)


def safe_norm(difference: Tensor) -> Tensor:
    """l2 norm over the last axis whose gradient at 0 is 0 instead of NaN."""
    return difference.square().sum(-1).clamp(min=1e-12).sqrt()


def all_distances(vectors: Tensor) -> Tensor:
    """[n, d] -> [n, n] l2 distances by one matrix product; exact enough for far pairs, which is what it is used for."""
    square = vectors.square().sum(1)
    return torch.addmm(square, vectors, vectors.T, alpha=-2).add(square[:, None]).clamp(min=1e-8).sqrt()

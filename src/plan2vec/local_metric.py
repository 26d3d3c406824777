"""Stage 1: a local metric d, from recorded steps alone. A step is 1, unrelated frames are 2 x max_gap or more.

In the paper: section 3 "Learning Local Metric", equations 4 and 5."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.config import Config, LocalMetricConfig
from plan2vec.data import Sequences, split_sequences
from plan2vec.learning.augmentation import Augmentation, augment, augmentation_of, draw_changes
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import VIEWS, Encoder, make_encoder, make_stacked
from plan2vec.learning.frame_tensors import Array, FrameTensors, encode, on_device
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.pair_losses import AllFarPairs, all_distances, far_distance_loss, nce_loss, safe_norm
from plan2vec.learning.processes import concatenated, in_shares
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import Pairs, draw_far, draw_judged, draw_neighbors, recorded_pairs, spaced_times

NEAR = 1.5  # pairs below this many `max_gap`s count as neighbours when accuracy is measured (paper, Table 3)
NUM_JUDGED = 4000  # pairs by which accuracy is measured
FEW_UPDATES, MANY_UPDATES = 400, 1600  # where no number was given: how many come first, and at the most
MOST_REFUSED = 0.03  # share of the near pairs that the tests of closures may refuse, else the metric learns on
NUM_NCE_NEGATIVES = 16  # a stacked metric scores every pair anew, so it sees this many negatives a positive
PAIRS_AT_ONCE = 2048  # whose distances are computed together, and up to twice as many


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
    """The paper's: a network on both frames stacked (section 3, equations 4 and 5)."""

    scale: Tensor

    def __init__(self, network: Encoder, candidates: SiameseMetric):
        super().__init__()
        self.network, self.candidates = network, candidates
        self.register_buffer("scale", torch.ones(()))

    def embed(self, images: Tensor) -> Tensor:
        return self.candidates.embed(images)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.scale * self.network(torch.cat((first, second), dim=1))[:, 0]


LocalMetric = SiameseMetric | StackedMetric


@dataclass(frozen=True)
class TrainedMetric:
    """A local metric, and how it did on sequences it had not seen by then; None where those hold no step."""

    metric: LocalMetric
    accuracy: float | None = None
    recognized: float | None = None  # share of unseen recorded steps that it takes for neighbours, within `max_gap`


def build_local_metric(frames: np.ndarray, encoder: str, config: LocalMetricConfig) -> LocalMetric:
    if config.architecture == "siamese":
        return SiameseMetric(make_encoder(encoder, frames, config.dim))
    siamese = SiameseMetric(make_encoder(encoder if encoder == VIEWS else "small", frames, config.dim))
    mean, deviation = siamese.encoder.mean, siamese.encoder.deviation
    network = make_stacked(config.architecture, tuple(frames.shape[1:]))
    return StackedMetric(Encoder(network, torch.cat((mean, mean)), torch.cat((deviation, deviation))), siamese)


def train_local_metric(recorded: Sequences, config: Config, images: FrameTensors, usable: np.ndarray | None = None,
                       refused: Callable[[LocalMetric], float] | None = None, journal: Journal = Journal(),
                       change: Augmentation | None = None) -> TrainedMetric:
    """Learn d. Its accuracy is measured on a tenth of the sequences; the last updates see these too.

    Without a given number of updates it learns briefly, for long training tells frames of one place apart by their
    recording; and longer where too many of the pairs that it puts near are `refused` (`graph.join.share_refused`)."""
    torch.manual_seed(config.seed)
    usable = np.ones(recorded.num_frames, bool) if usable is None else usable
    kept, held_out = np.zeros(len(usable), bool), np.zeros(len(usable), bool)
    rng = rng_at(config.seed, Stream.METRIC_SPLIT)
    kept[usable], held_out[usable] = split_sequences(recorded.sequence[usable], 0.1, rng)
    pairs, held_pairs, all_pairs = (recorded_pairs(recorded, some, config.max_gap) for some in (kept, held_out, usable))
    if not len(pairs.first[0]):
        raise ValueError("no recorded step changes a single pixel, so there is nothing to learn; check the recording")
    change = change or augmentation_of(config.local_metric)
    metric = build_local_metric(images.frames, config.encoder, config.local_metric).to(images.device)
    settings = replace(config.local_metric, num_updates=config.local_metric.num_updates or FEW_UPDATES)
    _train_on(metric, images, pairs, settings, (config.seed, ""), journal, change)
    if config.local_metric.num_updates is None and refused is not None and (share := refused(metric)) > MOST_REFUSED:
        journal.say(f"the tests of closures refuse {share:.1%} of the pairs that the local metric puts near "
                    f"(at most {MOST_REFUSED:.0%} wanted), so it learns on")
        more = replace(settings, num_updates=MANY_UPDATES - FEW_UPDATES)
        _train_on(metric, images, pairs, more, (config.seed, "_more"), journal, change)
        settings = replace(settings, num_updates=MANY_UPDATES)
    measured = accuracy(metric, images, held_pairs, rng_at(config.seed, Stream.METRIC_ACCURACY))
    known = recognized(metric, images, held_pairs)
    # a quarter more updates, gently, on all frames, now that the accuracy on held-out ones is known
    last = replace(settings, num_updates=max(1, settings.num_updates // 4), learning_rate=settings.learning_rate / 4)
    _train_on(metric, images, all_pairs, last, (config.seed, "_on_all"), journal, change)
    return TrainedMetric(metric, measured, known)


def _train_on(metric: LocalMetric, images: FrameTensors, pairs: Pairs, settings: LocalMetricConfig,
              phase: tuple[int, str], journal: Journal, change: Augmentation) -> None:
    """All updates of one phase (seed, name): the Siamese metric, then the stacked one on top, then the unit of both."""
    siamese, (seed, name) = siamese_part(metric), phase
    stream = {"": Stream.METRIC, "_more": Stream.METRIC_MORE, "_on_all": Stream.METRIC_ON_ALL}[name]
    step = siamese_step(siamese, images, pairs, settings, (seed, stream), change)
    train(siamese, step, settings.num_updates, settings.learning_rate, f"local_metric{name}", journal)
    if isinstance(metric, StackedMetric):
        step = stacked_step(metric, images, pairs, settings, (seed, stream + 1), change)
        train(metric.network, step, settings.num_updates, settings.learning_rate, f"stacked_metric{name}", journal)
    for part in dict.fromkeys((siamese, metric)) if settings.loss == "nce" else ():
        calibrate(part, images, pairs)


def siamese_step(metric: SiameseMetric, images: FrameTensors, pairs: Pairs, config: LocalMetricConfig,
                 stream: tuple[int, int], change: Augmentation) -> Step:
    """Neighbour pairs are drawn; every other pair of the batch's 2b frames is a far pair. A frame needs no pair
    with itself: d(x, x) is 0. Where frames are zoomed and shifted, two versions of one frame are a pair of gap 0."""
    times, at_once = spaced_times(pairs.sequence, 2 * pairs.max_gap), images.at_once_in_training(metric)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(*stream, update)
        first, gap = draw_neighbors(pairs, config.batch_size, rng)
        if change.jitter:
            gap[: len(gap) // (1 + pairs.max_gap)] = 0
        numbers = np.concatenate((first, first + gap))
        changes = draw_changes(change, images, len(numbers), rng)
        return gap.astype(np.float32), np.stack((numbers, times[numbers])), *changes

    def loss(gap: Array, drawn: Array, *changes: Array) -> Tensor:
        numbers, time = on_device(drawn, images.device)
        embed = lambda part: metric.embed(augment(images(numbers[part]), change, changes, part))  # noqa: E731
        vectors, num = in_shares(len(numbers), embed, at_once), len(gap)
        first, second = vectors.split(num)
        near = safe_norm(first - second)
        far = (time[:, None] - time).abs() > 2 * pairs.max_gap  # [2b, 2b]
        if config.loss == "nce":
            return nce_loss(near, all_distances(vectors)[:num], far[:num])
        far_loss = AllFarPairs.apply(vectors, far, pairs.max_gap, config.loss)
        return F.smooth_l1_loss(near, on_device(gap, vectors.device)) + config.far_weight * far_loss

    return Step(draw, loss, images)


def stacked_step(metric: StackedMetric, images: FrameTensors, pairs: Pairs, config: LocalMetricConfig,
                 stream: tuple[int, int], change: Augmentation) -> Step:
    """Identical : neighbour : far = 1 : 1 : far_weight (paper, equation 5), or the paper's equation 4."""
    num_far = round((NUM_NCE_NEGATIVES if config.loss == "nce" else config.far_weight) * config.batch_size)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(*stream, update)
        first, gap = draw_neighbors(pairs, config.batch_size, rng)
        far_first, far_second = draw_far(pairs, np.resize(first, num_far), rng)
        a, b = np.concatenate((first, first, far_first)), np.concatenate((first, first + gap, far_second))
        changes = [drawn for _ in (a, b) for drawn in draw_changes(change, images, len(a), rng)]
        return gap.astype(np.float32), a, b, *changes

    def loss(gap: Array, a: Array, b: Array, *changes: Array) -> Tensor:
        sides = ((a, changes[: len(changes) // 2]), (b, changes[len(changes) // 2 :]))
        d = metric(*(augment(images(side), change, drawn) for side, drawn in sides))
        same, near, far = d.split((len(gap), len(gap), num_far))
        if config.loss == "nce":
            negatives = far.reshape(NUM_NCE_NEGATIVES, -1).T
            anchor = same.square().mean() + (1 - near).clamp(min=0).square().mean()  # else d may grow by a constant
            return nce_loss(near, negatives, torch.ones_like(negatives, dtype=torch.bool)) + anchor
        far_loss = far_distance_loss(far, torch.ones_like(far), pairs.max_gap, config.loss)
        near_loss = F.smooth_l1_loss(near, on_device(gap, d.device))
        return F.smooth_l1_loss(same, torch.zeros_like(same)) + near_loss + config.far_weight * far_loss

    return Step(draw, loss, images)


def calibrate(metric: LocalMetric, images: FrameTensors, pairs: Pairs) -> None:
    """Noise-contrastive distances have no unit: scale them so that the median recorded step is 1."""
    first = pairs.first[0]
    median = float(np.median(pair_distances(metric, images, first, first + 1)))
    if not median > 0:
        raise ValueError("the noise-contrastive local metric collapsed: recorded steps have length 0; "
                         "train longer or use the hinge loss")
    metric.scale.mul_(1 / median)


def accuracy(metric: LocalMetric, images: FrameTensors, pairs: Pairs, rng: np.random.Generator) -> float | None:
    """Share of pairs (identical : neighbour : far = 1 : 1 : 2) on the right side of the threshold (paper, Table 3)."""
    if not any(len(first) for first in pairs.first) or len(pairs.frames) < 2:
        return None
    first, second, is_near = draw_judged(pairs, NUM_JUDGED, rng)
    return float(np.mean((pair_distances(metric, images, first, second) < NEAR * pairs.max_gap) == is_near))


def recognized(metric: LocalMetric, images: FrameTensors, pairs: Pairs) -> float | None:
    """Share of recorded steps within `max_gap`: all should be, but are not if learned by heart or too far apart."""
    first = pairs.first[0][:: max(1, len(pairs.first[0]) // NUM_JUDGED)]
    return float(np.mean(pair_distances(metric, images, first, first + 1) <= pairs.max_gap)) if len(first) else None


@torch.no_grad()
def pair_distances(metric: LocalMetric, images: FrameTensors, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(m,) local distances of frame pairs, in steps, never negative."""
    metric.eval()
    parts = np.array_split(np.arange(len(first)), max(1, len(first) // min(PAIRS_AT_ONCE, images.at_once)))
    measure = lambda part: metric(images(first[part]), images(second[part])).clamp(min=0).cpu().numpy()  # noqa: E731
    return concatenated(parts, measure).astype(np.float32)


def siamese_part(metric: LocalMetric) -> SiameseMetric:
    """The metric itself, or the one that finds a stacked metric's candidates."""
    return metric if isinstance(metric, SiameseMetric) else metric.candidates


def local_vectors(metric: LocalMetric, images: FrameTensors, change: Callable = nn.Identity()) -> np.ndarray:
    """(n, dim) vectors in which near frames are searched; images are changed before if asked."""
    siamese = siamese_part(metric)
    return float(siamese.scale) * encode(siamese.encoder, images, change)

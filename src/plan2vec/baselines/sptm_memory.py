"""SPTM, a memory to drive by (Savinov, Dosovitskiy and Koltun, "Semi-parametric topological memory", ICLR 2018).

A network R says of two views whether one is reached from the other within a few decisions. It is trained on random
exploration of other mazes. The memory is a graph over the frames of one walkthrough: successive frames are joined, and
the pairs that R is surest of. The guide finds the view in it, and names a frame to head for on the shortest path."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import logit
from torch import Tensor, nn

from plan2vec.data import Sequences, frames_left, transitions
from plan2vec.graph.build import graph_of_edges
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import Array, FrameTensors, encode, on_device
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.recorded_pairs import spaced_times
from plan2vec.search.shortest_paths import paths_from

PAIRS_AT_ONCE = 2**14  # whose hidden layers fit a processor's cache


@dataclass(frozen=True)
class ReachabilityConfig:
    max_gap: int = 20  # decisions between the two frames of a reachable pair, at most
    min_far: int = 100  # frames farther apart in time than this, or of two sequences, are out of reach
    encoder: str = "resnet18"
    dim: int = 256  # numbers that the encoder gives of a view
    width: int = 256  # of the fully connected layers
    num_updates: int = 1500  # gradient updates
    num_places: int = 16  # stretches of max_gap decisions that an update looks at
    views_per_place: int = 4  # frames of each
    learning_rate: float = 1e-3  # Adam, at its highest


class Reachability(nn.Module):
    """R: two views -> the logit of their being within reach.

    The first fully connected layer sees both encodings side by side, so it is a sum of two halves, and the half of a
    recorded view is computed once. The paper has four hidden layers of 512: twelve times the work of our two of 256."""

    def __init__(self, frames: np.ndarray, config: ReachabilityConfig):
        super().__init__()
        self.encoder = make_encoder(config.encoder, frames, config.dim)
        self.halves = nn.Linear(config.dim, 2 * config.width)
        start = self.halves.weight.data[: config.width // 2].clone()
        self.halves.weight.data[:] = torch.cat((start, -start, -start, start))  # differences first: much faster learned
        hidden, out = nn.Linear(config.width, config.width), nn.Linear(config.width, 1)
        self.rest = nn.Sequential(nn.ReLU(), hidden, nn.ReLU(), out)

    def forward(self, images: Tensor) -> Tensor:
        """[b, ...] -> [b, 2 width]: what a view adds to the first hidden layer as first and as second of a pair."""
        return self.halves(torch.relu(self.encoder(images)))

    def logits(self, first: Tensor, second: Tensor) -> Tensor:
        """[..., 2 width], [..., 2 width] -> [...]"""
        return self.rest(first.chunk(2, dim=-1)[0] + second.chunk(2, dim=-1)[1])[..., 0]

    def codes(self, frames: np.ndarray) -> Tensor:
        device = next(self.parameters()).device
        return torch.from_numpy(encode(self, FrameTensors(frames, device))).to(device)


class Places:
    """Draws a few stretches of time, a few frames of each. The paper draws pairs; frames are what costs time, so all
    pairs of them are learned from: those of one stretch are reachable, those of two nearly always far apart."""

    def __init__(self, sequence: np.ndarray, config: ReachabilityConfig):
        self.config, self.starts = config, transitions(sequence)
        self.left = np.minimum(frames_left(sequence)[self.starts], config.max_gap)
        self.times = spaced_times(sequence, config.min_far + 1)  # so other sequences are far, too

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(b,) frames, and (b,) when they were seen; other sequences were seen long before or after."""
        shape = (self.config.num_places, self.config.views_per_place)
        place = rng.integers(len(self.starts), size=(shape[0], 1))
        frames = (self.starts[place] + rng.integers(self.left[place] + 1, size=shape)).ravel()
        return frames, self.times[frames]


def train_reachability(exploration: Sequences, config: ReachabilityConfig, seed: int, device: torch.device,
                       journal: Journal = Journal()) -> Reachability:
    """R from random exploration, of which it sees frames and their order alone."""
    torch.manual_seed(seed)
    reachability = Reachability(exploration.frames, config).to(device)
    images, places = FrameTensors(exploration.frames, device), Places(exploration.sequence, config)

    def loss(frames: Array, times: Array) -> Tensor:
        codes, time = reachability(images(frames)), on_device(times, device)
        return pair_loss(reachability.logits(codes[:, None], codes), (time[:, None] - time).abs(), config)

    step = Step(lambda update: places.draw(rng_at(seed, Stream.SPTM, update)), loss, images)
    train(reachability, step, config.num_updates, config.learning_rate, "reachability", journal)
    return reachability


def pair_loss(logits: Tensor, apart: Tensor, config: ReachabilityConfig) -> Tensor:
    """Cross-entropy over all pairs [b, b] so many decisions apart; near and far ones weigh alike, others nothing."""
    near, far = (apart > 0) & (apart <= config.max_gap), apart > config.min_far
    missed = (F.softplus(-logits) * near).sum() / near.sum().clamp(min=1)
    return (missed + (F.softplus(logits) * far).sum() / far.sum().clamp(min=1)) / 2


@dataclass(frozen=True)
class SptmConfig:
    """The numbers of the original."""

    num_shortcuts: int = 2000
    min_gap: int = 5  # frames that a shortcut's ends are apart in the walkthrough: more than so many
    window: int = 10  # a shortcut's score is the median over this many pairs before and after it
    stay: float = 0.7  # probability from which on the view is believed to be near the path gone so far
    sure: float = 0.95  # probability of a place found elsewhere, and of a waypoint
    lookahead: int = 7  # frames along the path to a waypoint, at most
    num_nearest: int = 5  # places, of which the middle one in time is taken


class SptmGuide:
    """Leads through a walkthrough's maze to a goal view: `reset(goal)`, then `waypoint(view)` for every decision."""

    def __init__(self, frames: np.ndarray, reachability: Reachability, config: SptmConfig = SptmConfig()):
        self.reachability, self.config = reachability.eval(), config
        self.frames = frames  # all, one per decision: the original reads one per tic and keeps every fourth
        memory = reachability.codes(frames)
        self.codes = torch.cat((memory, memory[:1]))  # the last row is the goal's, a node of the graph too
        self.shortcuts = find_shortcuts(all_logits(reachability, memory), config)
        self.num_touched = 0  # nodes scored against a view or expanded by a search, since the guide was made
        self.here: int | None = None

    def reset(self, goal: np.ndarray) -> None:
        """Shortest paths from everywhere to the goal view. It becomes a node, joined to the place most like it."""
        self.goal, self.here, num = goal, None, len(self.frames)
        code = self.reachability.codes(goal[None])
        near = self._middle_of_best(np.arange(num), self._logits(code, np.arange(num)))
        self.codes[num:] = code
        successive = np.arange(num - 1)
        hops = np.concatenate((np.stack((successive, successive + 1), axis=1), self.shortcuts, [[near, num]]))
        first, second = np.concatenate((hops, hops[:, ::-1])).T  # both ways
        graph = graph_of_edges(first, second, np.ones(len(first), np.float32), num + 1)
        self.onward = paths_from(graph, np.array([num]))[1][0]
        self.num_touched += num + 1

    def waypoint(self, view: np.ndarray) -> np.ndarray | None:
        """The recorded view to head for now; None: nowhere in memory is like this view."""
        code = self.reachability.codes(view[None])
        self.here = self._localize(code)
        if self.here is None:
            return None
        ahead = self._path(self.here)[1:] or [self.here]
        is_sure = self._logits(code, np.array(ahead)) >= logit(self.config.sure)
        node = ahead[np.flatnonzero(is_sure)[-1]] if is_sure.any() else ahead[0]  # the next one if it is sure of none
        return self.goal if node == len(self.frames) else self.frames[node]

    def _localize(self, code: Tensor) -> int | None:
        """The place most like the view: on the next frames of the path last gone if that is likely, else anywhere.
        (The paper speaks of a window around the last place; its code looks along the path from there.)"""
        if self.here is not None:
            path = self._path(self.here)
            logits = self._logits(code, np.array(path))
            if logits.max() >= logit(self.config.stay):
                return path[int(logits.argmax())]
        logits = self._logits(code, np.arange(len(self.codes)))
        is_sure = logits >= logit(self.config.sure)
        return self._middle_of_best(np.flatnonzero(is_sure), logits[is_sure]) if is_sure.any() else None

    def _middle_of_best(self, places: np.ndarray, logits: np.ndarray) -> int:
        """Of the places most like a view the middle one in time, so that a single mistake does not count."""
        best = np.sort(places[np.argsort(-logits, kind="stable")[: self.config.num_nearest]])
        return int(best[len(best) // 2])

    def _path(self, node: int) -> list[int]:
        """From a node on towards the goal, `lookahead` nodes farther at most."""
        path = [node]
        while len(path) <= self.config.lookahead and self.onward[path[-1]] >= 0:
            path.append(int(self.onward[path[-1]]))
        return path

    @torch.no_grad()
    def _logits(self, code: Tensor, nodes: np.ndarray) -> np.ndarray:
        self.num_touched += len(nodes)
        return self.reachability.logits(code, self.codes[on_device(nodes, self.codes.device)]).cpu().numpy()


@torch.no_grad()
def all_logits(reachability: Reachability, codes: Tensor) -> np.ndarray:
    """(n, n) of all pairs of codes [n, 2 width], the mean of both orders."""
    rows = codes.split(max(1, PAIRS_AT_ONCE // len(codes)))
    logits = torch.cat([reachability.logits(some[:, None], codes) for some in rows]).cpu().numpy()
    return (logits + logits.T) / 2


def find_shortcuts(logits: np.ndarray, config: SptmConfig) -> np.ndarray:
    """(m, 2) frame numbers i < j: the pairs that score best once smoothed over pairs (i + s, j + s). Logits, where the
    original has probabilities: thousands of those round to 1."""
    num = len(logits)
    scores = np.full((num, num), -np.inf, np.float32)
    for gap in range(config.min_gap + 1, num):
        first = np.arange(num - gap)
        scores[first, first + gap] = running_median(np.diagonal(logits, gap), config.window)
    best = np.argsort(-scores, axis=None, kind="stable")[: config.num_shortcuts]
    pairs = np.stack(np.unravel_index(best, scores.shape), axis=1)
    return pairs[pairs[:, 1] - pairs[:, 0] > config.min_gap]


def running_median(values: np.ndarray, window: int) -> np.ndarray:
    """(m,) medians over up to `window` values before and after each; fewer at the ends."""
    return np.nanmedian(sliding_window_view(np.pad(values, window, constant_values=np.nan), 2 * window + 1), axis=1)

"""A controller for cameras that drive by buttons, learned from random exploration of other places.

It compares where the two views show the same thing, whatever that is: so it works where it has never been. Buttons come
in opposites (`inverse`), so every recorded drive is also one backwards in time; and in mirror images (`mirrored`).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from plan2vec.acting.controller import Controller
from plan2vec.data import Sequences, is_still
from plan2vec.files import replacing
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import Encoder, standardization
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.learning.training import Journal, train

CELLS = (12, 16)  # rows and columns in which two views are compared
ROWS_APART = (-1, 0, 1)  # rows of the other view that a row is compared with; all columns are


@dataclass(frozen=True)
class Buttons:
    """What the numbers of actions mean to a camera that drives."""

    inverse: tuple[int, ...]  # of each, the one that undoes it
    mirrored: tuple[int, ...]  # of each, what it is in a mirror
    moving: tuple[int, ...]  # those after which one slides on for a while
    idle: int  # never imitated
    shares: tuple[float, ...]  # of each, among the examples


@dataclass(frozen=True)
class SteeringConfig:
    max_ahead: int = 8  # frames up to this many decisions before or after are goals
    num_updates: int = 2500  # gradient updates
    batch_size: int = 96  # pairs of view and goal per update
    learning_rate: float = 2e-3  # of Adam, its highest value
    slide: int = 3  # decisions for which an earlier push blurs what a button does
    colour: float = 0.25  # share by which the channels of a pair are made stronger or weaker


class SteeringNetwork(nn.Module):
    """Two views -> a number per button, from how far what stands in each cell of one has moved in the other."""

    def __init__(self, mean: Tensor, deviation: Tensor, num_outputs: int):
        super().__init__()
        cells = nn.Sequential(
            nn.Conv2d(3, 16, 5, 2, 2), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32),
            nn.ReLU(), nn.Conv2d(32, 24, 1), nn.AdaptiveAvgPool2d(CELLS))
        self.encoder = Encoder(cells, mean, deviation)
        self.sharpness = nn.Parameter(torch.tensor(5.0))
        num_moves = len(ROWS_APART) * (2 * CELLS[1] - 1)
        self.join = nn.Sequential(
            nn.Conv2d(num_moves + 2 * 24, 48, 1), nn.ReLU(), nn.Conv2d(48, 48, 3, 2, 1), nn.GroupNorm(4, 48), nn.ReLU(),
            nn.Conv2d(48, 48, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(48 * CELLS[0] * CELLS[1] // 16, 128),
            nn.ReLU(), nn.Linear(128, num_outputs))

    def forward(self, images: Tensor, goals: Tensor) -> Tensor:
        """[b, 3, h, w], [b, 3, h, w] -> [b, outputs]"""
        here, there = self.encoder(torch.cat((images, goals))).chunk(2)
        moves = self.sharpness * torch.cat([alike(here, there, rows) for rows in ROWS_APART], dim=1)
        return self.join(torch.cat((moves, here, there), dim=1))


def alike(here: Tensor, there: Tensor, rows: int) -> Tensor:
    """[b, 2 w - 1, h, w] likeness of every cell with those `rows` lower in the other view, by columns between them."""
    batch, _, height, width = here.shape
    first = F.normalize(here, dim=1).permute(0, 2, 3, 1)  # [b, h, w, c]
    second = F.normalize(there, dim=1).permute(0, 2, 3, 1).flip(2)
    second = F.pad(second, (0, 0, 0, 0, 1, 1))[:, 1 + rows : 1 + rows + height]
    table = F.pad(first @ second.transpose(2, 3), (0, width))  # [b, h, w, 2 w]: cell against column, from the right
    skewed = table.reshape(batch, height, -1)[..., :-width]  # read in lines one shorter, entries of equal shift align
    return skewed.reshape(batch, height, width, 2 * width - 1).permute(0, 3, 1, 2)


class SteeringPairs:
    """Views, goals before or after them, and the button to press first: examples by their action.

    Left out are pairs between which opposite buttons were pressed, steps that moved nothing, and views that still
    slide from another push.
    """

    def __init__(self, sequences: Sequences, buttons: Buttons, config: SteeringConfig):
        assert sequences.action is not None
        action, sequence = sequences.action[:, 0], sequences.sequence
        num, self.buttons = len(action), buttons
        inverse, numbers = np.array(buttons.inverse), np.arange(num)
        moves = np.append(~is_still(sequences.frames, numbers[:-1], numbers[1:]), False)
        calm = [is_calm(action, direction, buttons, config.slide) for direction in (1, -1)]
        pressed, found = np.zeros((num, len(inverse)), bool), []
        for ahead in range(1, config.max_ahead + 1):
            start = numbers[: num - ahead]
            pressed[start, action[start + ahead - 1]] = True
            is_one_way = ~(pressed & pressed[:, inverse] & (inverse != np.arange(len(inverse)))).any(axis=1)
            start = start[is_one_way[start] & (sequence[start] == sequence[start + ahead])]
            last = start + ahead - 1
            onward, back = start[moves[start] & calm[0][start]], last[moves[last] & calm[1][last]]
            found += [(onward, onward + ahead, action[onward]), (back + 1, back + 1 - ahead, inverse[action[back]])]
        self.start, self.goal, self.action = (np.concatenate(parts) for parts in zip(*found, strict=True))
        self.by_action = [np.flatnonzero(self.action == which) for which in range(len(inverse))]

    def draw(self, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(num,) frames, goals and actions."""
        action = rng.choice(len(self.by_action), num, p=self.buttons.shares)
        which = np.array([self.by_action[one][rng.integers(len(self.by_action[one]))] for one in action])
        return self.start[which], self.goal[which], action


def is_calm(action: np.ndarray, direction: int, buttons: Buttons, slide: int) -> np.ndarray:
    """(n,) bool: during the `slide` decisions before (direction 1) or after (-1), nothing else pushed."""
    calm = np.ones(len(action), bool)
    for apart in range(1, slide + 1):
        other = np.roll(action, direction * apart)
        calm &= (other == action) | ~np.isin(other, buttons.moving)
    return calm


def train_steering(exploration: Sequences, buttons: Buttons, config: SteeringConfig, seed: int, device: torch.device,
                   journal: Journal = Journal()) -> Controller:
    """Imitate exploration in hindsight: the first button of a drive leads to where it went."""
    if exploration.action is None:
        raise ValueError(f"{exploration.source}: a controller learns from recorded actions, but none are there")
    torch.manual_seed(seed)
    pairs, images = SteeringPairs(exploration, buttons, config), FrameTensors(exploration.frames, device)
    choices = np.array([[which] for which in range(len(buttons.inverse)) if which != buttons.idle])
    network = SteeringNetwork(*standardization(exploration.frames), len(choices))
    controller, mirrored = Controller(network, choices).to(device), np.array(buttons.mirrored)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(seed, Stream.CONTROLLER, update)
        start, goal, action = pairs.draw(config.batch_size, rng)
        is_mirrored = rng.random(len(start)) < 0.5
        action = np.where(is_mirrored, mirrored[action], action)
        gain = rng.uniform(1 - config.colour, 1 + config.colour, (len(start), 3, 1, 1)).astype(np.float32)
        return start, goal, controller.wanted(action[:, None]), is_mirrored, gain

    def loss(start: Array, goal: Array, wanted: Array, is_mirrored: Array, gain: Array) -> Tensor:
        flipped = on_device(is_mirrored, device)[:, None, None, None]
        views = [images(numbers) * on_device(gain, device) for numbers in (start, goal)]
        first, second = (torch.where(flipped, view.flip(3), view) for view in views)
        return controller.loss(first, second, on_device(wanted, device))

    train(controller, Step(draw, loss, images), config.num_updates, config.learning_rate, "controller", journal)
    return controller


def save_steering(controller: Controller, path: Path) -> None:
    with replacing(path) as temporary:
        tensors = {name: value.contiguous() for name, value in controller.state_dict().items()}
        save_file(tensors | {"choices": torch.from_numpy(controller.choices)}, temporary)


def load_steering(path: Path, device: torch.device) -> Controller:
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    choices = tensors.pop("choices").numpy()[:, None]
    mean = tensors["network.encoder.mean"]
    controller = Controller(SteeringNetwork(mean, torch.ones_like(mean), len(choices)), choices)
    controller.load_state_dict(tensors)
    return controller.to(device).eval()

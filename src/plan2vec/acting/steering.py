"""A controller for cameras that drive by buttons, learned from random exploration of other places.

Dead reckoning says from the buttons that were pressed between two recorded views how far the second is ahead, to the
left and around, in decisions of full speed. Walls make that wrong at times; on average it is right. A network learns it
from the two views. It compares where they show the same thing, whatever that is: so it works where it has never been.
The button to press is the one of which most is left."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.acting.controller import Controller
from plan2vec.data import Sequences, is_still
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import Encoder, standardization
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.random_streams import Stream, rng_at

CELLS = (12, 16)  # rows and columns in which two views are compared
ROWS_APART = (-1, 0, 1)  # rows of the other view that a row is compared with; all columns are


@dataclass(frozen=True)
class Buttons:
    """What the numbers of actions do to a camera that drives, per decision."""

    pairs: tuple[tuple[int, int], ...]  # forward and backward, left and right, turn left and turn right
    slide: float = 0.67  # share of its speed that it keeps when nothing is pressed
    turn: float = 0.49  # radians of a decision's turn at full speed
    first_turns: tuple[float, ...] = (0.25, 0.82)  # shares of that in the first decisions of a turn


@dataclass(frozen=True)
class SteeringConfig:
    max_ahead: int = 10  # views up to this many decisions before or after are goals
    max_turn: float = 1.4  # radians between the headings of the two, beyond which they share nothing
    num_updates: int = 2400  # gradient updates
    batch_size: int = 96  # pairs of view and goal per update
    learning_rate: float = 2e-3  # of Adam, its highest value
    colour: float = 0.25  # share by which the channels of a pair are made stronger or weaker
    sharpness: float = 2.0  # of choosing among buttons: logits per decision that is left
    turn_first: float = 2.0  # how much more a turn counts than a push: the goal is then seen from its front


class SteeringNetwork(nn.Module):
    """Two views -> what is left to do, from how far what stands in each cell of one has moved in the other."""

    def __init__(self, frames: np.ndarray, config: SteeringConfig):
        super().__init__()
        self.choosing = config.sharpness * torch.tensor([1.0, 1.0, config.turn_first])
        cells = nn.Sequential(
            nn.Conv2d(3, 16, 5, 2, 2), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32),
            nn.ReLU(), nn.Conv2d(32, 24, 1), nn.AdaptiveAvgPool2d(CELLS))
        self.encoder = Encoder(cells, *standardization(frames))
        self.sharpness = nn.Parameter(torch.tensor(15.0))
        self.register_buffer("columns", torch.arange(CELLS[1] - 1, -CELLS[1], -1.0).repeat(len(ROWS_APART)) / 4)
        self.register_buffer("rows", torch.tensor(ROWS_APART).float().repeat_interleave(2 * CELLS[1] - 1))
        num_moves = 3 + len(ROWS_APART) * (2 * CELLS[1] - 1)
        self.join = nn.Sequential(
            nn.Conv2d(num_moves + 2 * 24, 48, 1), nn.ReLU(), nn.Conv2d(48, 48, 3, 2, 1), nn.GroupNorm(4, 48), nn.ReLU(),
            nn.Conv2d(48, 48, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(48 * CELLS[0] * CELLS[1] // 16, 128),
            nn.ReLU(), nn.Linear(128, 3))

    def forward(self, images: Tensor, goals: Tensor) -> Tensor:
        """[b, 3, h, w], [b, 3, h, w] -> [b, 6] logits of the buttons of every pair."""
        left = self.choosing.to(images.device) * self.left_to_do(images, goals)
        return torch.stack((left, -left), dim=2).flatten(1)

    def left_to_do(self, images: Tensor, goals: Tensor) -> Tensor:
        """[b, 3] decisions forward, to the left and turning left; negative: the other way."""
        here, there = self.encoder(torch.cat((images, goals))).chunk(2)
        chances = torch.softmax(self.sharpness * torch.cat([alike(here, there, rows) for rows in ROWS_APART], dim=1), 1)
        moved = [torch.einsum("bmhw,m->bhw", chances, shift) for shift in (self.columns, self.rows)]
        return self.join(torch.cat((torch.stack((*moved, chances.amax(1)), dim=1), 10 * chances, here, there), dim=1))


def alike(here: Tensor, there: Tensor, rows: int) -> Tensor:
    """[b, 2 w - 1, h, w] likeness of every cell with those `rows` lower in the other view, by columns between them."""
    batch, _, height, width = here.shape
    first, second = (F.normalize(cells - cells.mean((2, 3), keepdim=True), dim=1).permute(0, 2, 3, 1)  # [b, h, w, c]
                     for cells in (here, there))
    second = second.flip(2)
    second = F.pad(second, (0, 0, 0, 0, 1, 1))[:, 1 + rows : 1 + rows + height]
    table = F.pad(first @ second.transpose(2, 3), (0, width))  # [b, h, w, 2 w]: cell against column, from the right
    skewed = table.reshape(batch, height, -1)[..., :-width]  # read in lines one shorter, entries of equal shift align
    return skewed.reshape(batch, height, width, 2 * width - 1).permute(0, 3, 1, 2)


def dead_reckoning(action: np.ndarray, stays: np.ndarray, begins: np.ndarray, buttons: Buttons) -> np.ndarray:
    """(n, 3) place and heading of every frame, in decisions and radians: x, y, turn, each sequence on its own.
    `action` (n,), `stays` (n,) bool: nothing moved until the next frame, `begins` (n,) bool: first of a sequence."""
    pose, speed, held = np.zeros((len(action), 3)), 0j, 0
    for now, pressed in enumerate(action[:-1].tolist()):
        if begins[now]:
            speed, held = 0j, 0
        held = held + 1 if now and pressed == action[now - 1] else 1
        push, turned = 0j, 0.0
        for way, (one, other) in zip((1, 1j, None), buttons.pairs, strict=True):
            sign = (pressed == one) - (pressed == other)
            if way is None and sign:
                turned = sign * buttons.turn * (*buttons.first_turns, 1.0)[min(held, len(buttons.first_turns) + 1) - 1]
            elif sign:
                push = way * sign * np.exp(1j * pose[now, 2])
        speed = 0j if stays[now] else buttons.slide * speed + (1 - buttons.slide) * push
        pose[now + 1] = pose[now] + (speed.real, speed.imag, turned)
    return pose


class SteeringPairs:
    """Views, goals some decisions before or after them, and what is left to do from one to the other."""

    def __init__(self, sequences: Sequences, buttons: Buttons, config: SteeringConfig):
        assert sequences.action is not None
        self.sequence, self.config, self.buttons = sequences.sequence, config, buttons
        numbers = np.arange(len(self.sequence))
        stays = np.append(is_still(sequences.frames, numbers[:-1], numbers[1:]), False)
        begins = np.diff(self.sequence, prepend=self.sequence[0] - 1) != 0
        self.pose = dead_reckoning(sequences.action[:, 0], stays, begins, buttons)

    def draw(self, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(num,) frames, (num,) goals, (num, 3) what is left."""
        start = rng.integers(len(self.sequence), size=4 * num)  # more than enough of them will do
        apart = rng.integers(1, self.config.max_ahead + 1, size=4 * num) * rng.choice((-1, 1), 4 * num)
        goal = np.clip(start + apart, 0, len(self.sequence) - 1)
        sees = np.abs(self.pose[goal, 2] - self.pose[start, 2]) <= self.config.max_turn
        usable = np.flatnonzero(sees & (self.sequence[goal] == self.sequence[start]))
        usable = usable[np.arange(num) % len(usable)]
        return start[usable], goal[usable], self.left(start[usable], goal[usable])

    def left(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
        x, y, turn = (self.pose[goal] - self.pose[start]).T
        away = (x + 1j * y) * np.exp(-1j * self.pose[start, 2])
        return np.stack((away.real, away.imag, turn / self.buttons.turn), axis=1).astype(np.float32)


def train_steering(exploration: Sequences, buttons: Buttons, config: SteeringConfig, seed: int, device: torch.device,
                   journal: Journal = Journal()) -> Controller:
    if exploration.action is None:
        raise ValueError(f"{exploration.source}: a controller learns from recorded actions, but none are there")
    torch.manual_seed(seed)
    pairs, images = SteeringPairs(exploration, buttons, config), FrameTensors(exploration.frames, device)
    network = SteeringNetwork(exploration.frames, config).to(device)

    def draw(update: int) -> tuple[Array, ...]:
        rng = rng_at(seed, Stream.CONTROLLER, update)
        start, goal, left = pairs.draw(config.batch_size, rng)
        is_mirrored = rng.random(len(start)) < 0.5
        left[is_mirrored, 1:] *= -1
        gain = rng.uniform(1 - config.colour, 1 + config.colour, (len(start), 3, 1, 1)).astype(np.float32)
        return start, goal, left, is_mirrored, gain

    def loss(start: Array, goal: Array, left: Array, is_mirrored: Array, gain: Array) -> Tensor:
        flipped = on_device(is_mirrored, device)[:, None, None, None]
        views = (images(numbers) * on_device(gain, device) for numbers in (start, goal))
        found = network.left_to_do(*(torch.where(flipped, view.flip(3), view) for view in views))
        return F.smooth_l1_loss(found, on_device(left, device), beta=0.5)

    train(network, Step(draw, loss, images), config.num_updates, config.learning_rate, "controller", journal)
    return controller_of(network, buttons)


def controller_of(network: SteeringNetwork, buttons: Buttons) -> Controller:
    choices = np.array(buttons.pairs).ravel()
    controller = Controller(network, choices[:, None])
    controller.choices = choices  # in the network's order
    return controller

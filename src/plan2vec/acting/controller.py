"""The controller: a network that says which action leads to a near goal, learned from recorded actions.

It never sees a position. The agent (agent.py) gives it one waypoint after the other."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.data import Sequences, frames_left, is_still, transitions
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import make_encoder, mlp, standardization
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.random_streams import Stream, rng_at


@dataclass(frozen=True)
class ControllerConfig:
    max_ahead: int = 10  # frames up to this many steps ahead are goals
    num_updates: int = 2000  # gradient updates
    batch_size: int = 256  # pairs of frame and goal per update
    learning_rate: float = 1e-3  # of Adam, its highest value
    encoder: str = "small"  # of images; vectors are taken as they are
    width: int = 256  # features of an image


class PairNetwork(nn.Module):
    """Frame and goal -> numbers. The action depends on where the goal lies from here, so the difference is an input."""

    sizes: Tensor  # [3, d] mean and deviation of vectors, deviation of their differences

    def __init__(self, frames: np.ndarray, steps: np.ndarray, num_outputs: int, config: ControllerConfig):
        """`steps` (m, 2) frame numbers: recorded frames and goals, which tell how large differences of vectors are."""
        super().__init__()
        self.encoder: nn.Module
        size = config.width
        if frames.ndim == 2:
            self.encoder, size = nn.Identity(), frames.shape[1]
            apart = standardization(frames[steps[:, 1]] - frames[steps[:, 0]])[1]
            sizes = torch.stack((*standardization(frames), apart))
        else:
            self.encoder = make_encoder(config.encoder, frames, size)
            sizes = torch.tensor([[0.0], [1.0], [1.0]])
        self.register_buffer("sizes", sizes)
        self.join = mlp(2 * size, num_outputs)

    def forward(self, images: Tensor, goals: Tensor) -> Tensor:
        here, there = self.encoder(images), self.encoder(goals)
        mean, deviation, apart = self.sizes
        return self.join(torch.cat(((here - mean) / deviation, (there - here) / apart), dim=1))


class Controller(nn.Module):
    """Images and near goals -> actions. Integer actions of one column are choices, all others are quantities."""

    recorded: Tensor  # [4, a] mean, deviation, least and largest of each recorded quantity

    def __init__(self, network: nn.Module, actions: np.ndarray):
        super().__init__()
        self.network = network
        self.choices = np.unique(actions) if is_choice(actions) else None
        values = torch.from_numpy(actions.astype(np.float32))
        deviation = values.std(0, correction=0)
        deviation = torch.where(deviation > 1e-6, deviation, 1)
        self.register_buffer("recorded", torch.stack((values.mean(0), deviation, values.amin(0), values.amax(0))))

    def forward(self, images: Tensor, goals: Tensor) -> Tensor:
        """[b, ...], [b, ...] -> [b, a] standardized actions, or [b, choices] logits."""
        return self.network(images, goals)

    @torch.no_grad()
    def act(self, frames: np.ndarray, goals: np.ndarray, futile: np.ndarray | None = None) -> np.ndarray:
        """(m, ...), (m, ...) -> (m, a) actions within the recorded range; `futile` (m, choices): choices to avoid."""
        self.eval()
        device, numbers = next(self.parameters()).device, np.arange(len(frames))
        predicted = self(FrameTensors(frames, device)(numbers), FrameTensors(goals, device)(numbers))
        if self.choices is not None:
            if futile is not None:
                predicted -= 1e9 * torch.from_numpy(futile).to(device)
            return self.choices[predicted.argmax(1).cpu().numpy()][:, None]
        mean, deviation, least, largest = self.recorded
        return (predicted * deviation + mean).clamp(least, largest).cpu().numpy()


def is_choice(actions: np.ndarray) -> bool:
    return actions.dtype.kind in "iub" and actions.shape[1] == 1


def train_controller(sequences: Sequences, config: ControllerConfig, seed: int, device: torch.device,
                     journal: Journal = Journal()) -> Controller:
    """Imitate in hindsight: the action recorded at a frame leads to the frames that came after it."""
    if sequences.action is None:
        raise ValueError(f"{sequences.source}: a controller learns from recorded actions, but none are there; "
                         "record `action` (n, a)")
    torch.manual_seed(seed)
    pairs = FuturePairs(sequences.frames, sequences.sequence, config.max_ahead)
    sample = np.stack(pairs.draw(4000, rng_at(seed, Stream.CONTROLLER_SAMPLE)), axis=1)
    actions, taken = sequences.action, sequences.action[pairs.first]
    num_outputs = len(np.unique(taken)) if is_choice(taken) else taken.shape[1]
    controller = Controller(PairNetwork(sequences.frames, sample, num_outputs, config), taken).to(device)
    images, choices = FrameTensors(sequences.frames, device), controller.choices

    def draw(update: int) -> tuple[Array, ...]:
        frame, goal = pairs.draw(config.batch_size, rng_at(seed, Stream.CONTROLLER, update))
        action = actions[frame]
        return frame, goal, action.astype(np.float32) if choices is None else np.searchsorted(choices, action[:, 0])

    def loss(frame: Array, goal: Array, action: Array) -> Tensor:
        predicted, wanted = controller(images(frame), images(goal)), on_device(action, device)
        if choices is not None:
            return F.cross_entropy(predicted, wanted)
        return F.mse_loss(predicted, (wanted - controller.recorded[0]) / controller.recorded[1])

    train(controller, Step(draw, loss, images), config.num_updates, config.learning_rate, "controller", journal)
    return controller


class FuturePairs:
    """Frames whose step moved something, and frames of the same sequence up to `max_ahead` steps later. An action that
    changed nothing, as one that presses a wall, is no example to imitate."""

    def __init__(self, frames: np.ndarray, sequence: np.ndarray, max_ahead: int):
        if max_ahead < 1:
            raise ValueError(f"max_ahead must be 1 step or more, but is {max_ahead}")
        start = transitions(sequence)
        self.first = start[~is_still(frames, start, start + 1)]
        self.ahead = np.minimum(frames_left(sequence)[self.first], max_ahead)

    def draw(self, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(num,) frames, (num,) goals; every number of steps ahead is equally likely."""
        which = rng.integers(len(self.first), size=num)
        return self.first[which], self.first[which] + 1 + rng.integers(self.ahead[which])

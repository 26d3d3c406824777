"""Offline fitted Q with hindsight goals (DQN + HER) on the recorded actions: D(n, g) = -max_a Q(n, g, a).

Costs are positive here: C = -Q is the discounted number of steps until the goal, 1 per step. Goals are later frames of
the same sequence (hindsight) and random frames. What keeps it sane without an environment to correct it:

- The target network takes the value of the action that the online network likes (double Q), and follows it slowly.
- A recorded way to a hindsight goal bounds the target from above by its length; 1 / (1 - discount) bounds every target.
- No recorded step hits a random goal exactly, so its cost would grow for ever. C(g, g, a) = 0 is trained too: it ties
  costs to the goal's surroundings.

Frame and goal meet late, in a small network on the sum of their features, so D over many pairs is cheap, and an update
can set every transition of its batch against every random goal."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plan2vec.baselines import pair_distance
from plan2vec.baselines.contrastive import Futures
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import Array, FrameTensors, encode, on_device
from plan2vec.learning.gradient_loop import Journal, frozen_copy, move_towards, train
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import Distance


@dataclass(frozen=True)
class DQNConfig:
    encoder: str = "small"  # of images; vectors get an MLP
    num_updates: int = 6000  # gradient updates
    batch_size: int = 256  # recorded transitions per update, each with a hindsight goal
    goals_per_update: int = 64  # random goals, each set against every transition of the batch
    learning_rate: float = 1e-3  # Adam, at its highest
    discount: float = 0.98  # of a step
    mean_gap: float = 3.0  # steps to a hindsight goal on average: geometric, cut off at the sequence's end
    polyak: float = 0.02  # share of the way that the target network goes an update
    width: int = 256  # of the network that joins frame and goal


class CostNetwork(nn.Module):
    """C(s, g, a) for all actions at once, from features that frames give as state and as goal."""

    def __init__(self, frames: np.ndarray, num_actions: int, config: DQNConfig):
        super().__init__()
        self.encoder = make_encoder(config.encoder, frames, config.width)
        self.roles = nn.Linear(config.width, 2 * config.width)
        hidden, out = nn.Linear(config.width, config.width), nn.Linear(config.width, num_actions)
        self.join = nn.Sequential(nn.ReLU(), hidden, nn.ReLU(), out, nn.Softplus())
        self.unit = 5.0  # steps that 1 inside the network stands for

    def forward(self, images: Tensor) -> Tensor:
        """[b, ...] -> [b, 2 width]: features as state, then as goal."""
        return self.roles(torch.relu(self.encoder(images)))

    def cost(self, states: Tensor, goals: Tensor) -> Tensor:
        """[..., width], [..., width] -> [..., actions], in steps."""
        return self.unit * self.join(states + goals)


@dataclass(frozen=True)
class DQNScorer:
    network: CostNetwork
    device: torch.device

    def on(self, frames: np.ndarray) -> Distance:
        features = torch.from_numpy(encode(self.network, FrameTensors(frames, self.device))).to(self.device)
        states, goals = features.chunk(2, dim=1)
        return pair_distance(states, goals, lambda state, goal: self.network.cost(state, goal).amin(-1))


def train_dqn(frames: np.ndarray, sequence: np.ndarray, action: np.ndarray, config: DQNConfig, seed: int,
              device: torch.device, journal: Journal = Journal()) -> DQNScorer:
    """`action` (n,) or (n, 1): the number of the action that leads from a frame to the next, where there is a next."""
    torch.manual_seed(seed)
    futures, taken = Futures(sequence), np.asarray(action).reshape(len(sequence), -1)
    if taken.shape[1] != 1 or taken.dtype.kind not in "iu" or taken[futures.starts].min() < 0:
        raise ValueError("DQN needs one action number a frame, 0 or more, "
                         f"but action has shape {np.shape(action)} and type {taken.dtype}")
    network = CostNetwork(frames, int(taken.max()) + 1, config).to(device)
    learner = Learner(network, FrameTensors(frames, device), futures, taken[:, 0].astype(np.int64), config, seed)
    step = Step(learner.draw, learner.loss, learner.images)
    train(learner, step, config.num_updates, config.learning_rate, "dqn", journal)
    return DQNScorer(network, device)


class Learner(nn.Module):
    """The loss of every update. The target network is part of it, so that checkpoints hold it."""

    def __init__(self, network: CostNetwork, images: FrameTensors, futures: Futures, action: np.ndarray,
                 config: DQNConfig, seed: int):
        super().__init__()
        self.network, self.target = network, frozen_copy(network)
        self.images, self.futures, self.action, self.config, self.seed = images, futures, action, config, seed

    def draw(self, update: int) -> tuple[Array, ...]:
        """Transitions (b,), a later frame of each, goals that all share (m,), and the actions taken."""
        config, rng = self.config, rng_at(self.seed, Stream.DQN, update)
        first, later = self.futures.draw(config.batch_size, config.mean_gap, rng)
        return first, later, rng.integers(len(self.images), size=config.goals_per_update), self.action[first]

    def loss(self, *drawn: Array) -> Tensor:
        """Each transition (b) against 2 + m goals: where it starts, where its sequence came later, m random frames."""
        first, later, shared, action = (on_device(numbers, self.images.device) for numbers in drawn)
        move_towards(self.target, self.network, self.config.polyak)
        cost = self._costs(self.network, first, torch.cat((first, later, shared)))  # [b, 2 + m, actions]
        cost = cost.gather(2, action[:, None, None].expand(-1, cost.shape[1], 1))[:, :, 0]
        error = F.smooth_l1_loss(cost, self._targets(first, later, shared), reduction="none")
        return error[:, 0].mean() + error[:, 1].mean() + error[:, 2:].mean()

    def _costs(self, network: CostNetwork, states: Tensor, goals: Tensor) -> Tensor:
        """[b, 2 + m, actions]: goals (b + b + m,) are two of each state's own, then those that all states share."""
        num, features = len(states), network(self.images(torch.cat((states, goals))))
        state, goal = features[:num].chunk(2, dim=1)[0], features[num:].chunk(2, dim=1)[1]
        own, shared = torch.stack(goal[: 2 * num].split(num), dim=1), goal[2 * num :]
        return network.cost(state[:, None], torch.cat((own, shared.expand(num, -1, -1)), dim=1))

    @torch.no_grad()
    def _targets(self, first: Tensor, later: Tensor, shared: Tensor) -> Tensor:
        """[b, 2 + m]: a step and the discounted cost of the best action after it; 0 at the goal, known bounds kept."""
        discount, goals = self.config.discount, torch.cat((first, later, shared))
        best = self._costs(self.network, first + 1, goals).argmin(2, keepdim=True)
        onward = self._costs(self.target, first + 1, goals).gather(2, best)[:, :, 0]
        own = torch.stack((first, later), dim=1)
        is_hit = torch.cat((own, shared.expand(len(first), -1)), dim=1) == first[:, None] + 1
        target = (1 + discount * onward.masked_fill(is_hit, 0)).clamp(max=1 / (1 - discount))
        target[:, 0] = 0
        target[:, 1] = torch.minimum(target[:, 1], (1 - discount ** (later - first)) / (1 - discount))
        return target

"""Acting: a controller for near goals, learned from recorded actions, and an agent that walks the map with it.

The planner says where to go, waypoint by waypoint; the controller says which action leads there. Neither ever sees a
position.

    controller = train_controller(sequences, ControllerConfig(), seed=0, device=torch.device("cpu"))
    agent = Agent(controller, places_of(model), AgentConfig(method="greedy"))
    agent.reset(goal)                            # an observation
    action = agent.act(observation)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor, nn

from plan2vec.data import Sequences, is_still, transitions
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import make_encoder, mlp, standardization
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device
from plan2vec.learning.random_streams import rng_at
from plan2vec.learning.training import Journal, train
from plan2vec.local_metric import local_vectors
from plan2vec.model import Model
from plan2vec.planner import Distance, Plan, hop_lengths, make_plan
from plan2vec.search.shortest_paths import distances_from

Guidance = Literal["direct", "graph", "greedy", "lookahead", "astar"]
GUIDANCE: tuple[str, ...] = get_args(Guidance)


@dataclass(frozen=True)
class ControllerConfig:
    """How the controller is learned."""

    max_ahead: int = 10  # frames up to this many steps ahead are goals
    num_updates: int = 2000  # gradient updates
    batch_size: int = 256  # frames and goals an update
    learning_rate: float = 1e-3  # Adam, at its highest
    encoder: str = "small"  # of images; vectors are taken as they are
    width: int = 256  # features of an image


# ---------------------------------------------------------------------------------------------------- the controller


class PairNetwork(nn.Module):
    """Frame and goal -> numbers. What counts is the goal as seen from the frame, so their difference is an input of its
    own.
    """

    mean: Tensor
    deviation: Tensor
    reach: Tensor

    def __init__(self, frames: np.ndarray, steps: np.ndarray, num_outputs: int, config: ControllerConfig):
        """`steps` (m, 2) frame numbers: recorded frames and goals, which tell how large differences of vectors are."""
        super().__init__()
        self.encoder: nn.Module
        size = config.width
        if frames.ndim == 2:
            self.encoder, size = nn.Identity(), frames.shape[1]
            mean, deviation = standardization(frames)
            _, reach = standardization(frames[steps[:, 1]] - frames[steps[:, 0]])
        else:
            self.encoder = make_encoder(config.encoder, frames, size)
            mean, deviation, reach = torch.zeros(size), torch.ones(size), torch.ones(size)
        for name, value in {"mean": mean, "deviation": deviation, "reach": reach}.items():
            self.register_buffer(name, value)
        self.join = mlp(2 * size, num_outputs)

    def forward(self, images: Tensor, goals: Tensor) -> Tensor:
        here, there = self.encoder(images), self.encoder(goals)
        return self.join(torch.cat(((here - self.mean) / self.deviation, (there - here) / self.reach), dim=1))


class Controller(nn.Module):
    """Images and goals a few steps ahead -> actions. Integer actions of one column are choices, all others are
    quantities.
    """

    mean: Tensor
    deviation: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, network: PairNetwork, actions: np.ndarray):
        super().__init__()
        self.network = network
        self.choices = np.unique(actions) if is_choice(actions) else None
        values = torch.from_numpy(actions.astype(np.float32))
        deviation = values.std(0, correction=0)
        bounds = {"low": values.amin(0), "high": values.amax(0), "mean": values.mean(0)}
        for name, value in (bounds | {"deviation": torch.where(deviation > 1e-6, deviation, 1)}).items():
            self.register_buffer(name, value)

    def forward(self, images: Tensor, goals: Tensor) -> Tensor:
        """[b, ...], [b, ...] -> [b, a] standardized actions, or [b, choices] logits."""
        return self.network(images, goals)

    def wanted(self, actions: np.ndarray) -> np.ndarray:
        """What `loss` learns of actions (b, a): the number of the choice (b,), or the actions themselves."""
        return actions.astype(np.float32) if self.choices is None else np.searchsorted(self.choices, actions[:, 0])

    def loss(self, images: Tensor, goals: Tensor, wanted: Tensor) -> Tensor:
        """Of predicting the recorded actions."""
        predicted = self(images, goals)
        if self.choices is not None:
            return F.cross_entropy(predicted, wanted)
        return F.mse_loss(predicted, (wanted - self.mean) / self.deviation)

    @torch.no_grad()
    def act(self, frames: np.ndarray, goals: np.ndarray, futile: np.ndarray | None = None) -> np.ndarray:
        """(m, ...), (m, ...) -> (m, a) actions, never beyond the recorded ones; `futile` (m, choices) bool: those to
        avoid.
        """
        self.eval()
        device = next(self.parameters()).device
        numbers = np.arange(len(frames))
        predicted = self(FrameTensors(frames, device)(numbers), FrameTensors(goals, device)(numbers))
        if self.choices is not None:
            if futile is not None:
                predicted -= 1e9 * torch.from_numpy(futile).to(device)
            return self.choices[predicted.argmax(1).cpu().numpy()][:, None]
        return (predicted * self.deviation + self.mean).clamp(self.low, self.high).cpu().numpy()


def is_choice(actions: np.ndarray) -> bool:
    return actions.dtype.kind in "iub" and actions.shape[1] == 1


def train_controller(
    sequences: Sequences, config: ControllerConfig, seed: int, device: torch.device, journal: Journal = Journal()
) -> Controller:
    """Imitate: the action recorded at a frame is one that leads to the frames that came after it (hindsight)."""
    if sequences.action is None:
        raise ValueError(
            f"{sequences.source}: a controller learns from recorded actions, but none are there; record `action` (n, a)"
        )
    torch.manual_seed(seed)
    pairs = FuturePairs(sequences.sequence, config.max_ahead).where_moved(sequences.frames)
    sample = np.stack(pairs.draw(4000, rng_at(seed, 30)), axis=1)
    taken = sequences.action[pairs.first]
    num_outputs = len(np.unique(taken)) if is_choice(taken) else taken.shape[1]
    controller = Controller(PairNetwork(sequences.frames, sample, num_outputs, config), taken).to(device)
    images, actions = FrameTensors(sequences.frames, device), sequences.action

    def draw(update: int) -> tuple[Array, ...]:
        frame, goal = pairs.draw(config.batch_size, rng_at(seed, 31, update))
        return frame, goal, controller.wanted(actions[frame])

    def loss(frame: Array, goal: Array, wanted: Array) -> Tensor:
        return controller.loss(images(frame), images(goal), on_device(wanted, device))

    train(controller, Step(draw, loss, images), config.num_updates, config.learning_rate, "controller", journal)
    return controller


class FuturePairs:
    """Frames, and frames of the same sequence up to `max_ahead` steps later."""

    def __init__(self, sequence: np.ndarray, max_ahead: int):
        if max_ahead < 1:
            raise ValueError(f"max_ahead must be 1 step or more, but is {max_ahead}")
        self.first = transitions(sequence)
        ends = np.flatnonzero(np.append(np.diff(sequence) != 0, True))
        last = ends[np.searchsorted(ends, self.first)]  # of the frame's sequence
        self.ahead = np.minimum(last - self.first, max_ahead)

    def where_moved(self, frames: np.ndarray) -> "FuturePairs":
        """Without the frames whose step changed nothing: an action that presses a wall led nowhere, and is not to be
        imitated.
        """
        moved = ~is_still(frames, self.first, self.first + 1)
        self.first, self.ahead = self.first[moved], self.ahead[moved]
        return self

    def draw(self, num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(num,) frames, (num,) goals; every number of steps ahead is equally likely."""
        which = rng.integers(len(self.first), size=num)
        return self.first[which], self.first[which] + 1 + rng.integers(self.ahead[which])


# ---------------------------------------------------------------------------------------------------- the agent


@dataclass(frozen=True)
class Places:
    """A map as an agent needs it: n nodes with a picture each, the hops between them, and how to find oneself among
    them.
    """

    frames: np.ndarray  # (n, ...) observation at every node
    graph: csr_array  # (n, n) steps
    distance: Distance  # learned steps from nodes to goals
    vectors: np.ndarray  # (n, d) whose l2 distance is the number of steps between near nodes
    embed: Callable[[np.ndarray], np.ndarray]  # (m, ...) observations -> (m, d) such vectors

    def locate(self, vectors: np.ndarray) -> np.ndarray:
        """(m,) the nodes nearest to these vectors."""
        return nearest(self.vectors, vectors, 1, torch.device("cpu"))[0][:, 0]


def places_of(model: Model) -> Places:
    """The map of a fit: every recorded frame is a node."""

    def embed(observations: np.ndarray) -> np.ndarray:
        return local_vectors(model.local_metric, FrameTensors(observations, model.device))

    frames = model.sequences.frames
    return Places(frames, model.graph, model.distance_between, embed(frames), embed)


@dataclass(frozen=True)
class AgentConfig:
    """How the agent follows its plans."""

    # direct: no plan | graph: shortest paths | greedy, lookahead: on the map | astar: led by the map
    method: Guidance = "graph"
    ahead: float = 5.0  # steps along the plan to the waypoint that the controller is given
    lookahead: int = 3  # hops, of that method
    off_path: float = 8.0  # steps from the plan beyond which a new one is made
    # actions without progress along the plan after which a new one is made; until then the waypoint comes nearer
    patience: int = 30
    memory: bool = False  # greedy and lookahead plans enter no node twice
    heuristic_weight: float = 1.0  # of astar: above 1 its searches touch fewer nodes, and plans may be that much longer

    def __post_init__(self) -> None:
        if self.method not in GUIDANCE:
            raise ValueError(f"method must be one of {', '.join(GUIDANCE)}, but is {self.method!r}")


@dataclass
class Journey:
    """One episode under way."""

    goal: int  # node nearest to it
    nodes: np.ndarray  # the plan: nodes to pass, the goal's last; empty where no plan was found
    length: np.ndarray  # steps along the plan up to each of them
    passed: int = 0  # place in `nodes` that was reached
    waited: int = 0  # actions since that changed


class Tried:
    """Choices made since anything changed, in episodes side by side. A policy that presses a wall would do so for ever.
    """

    def __init__(self, num_episodes: int, choices: np.ndarray):
        self.choices = choices
        self.futile = np.zeros((num_episodes, len(choices)), bool)
        self.last: list[tuple[np.ndarray, int] | None] = [None] * num_episodes  # observation and choice

    def futile_at(self, running: np.ndarray, observations: np.ndarray) -> np.ndarray:
        """(r, choices) bool: those after which nothing changed, now that these observations came."""
        for number, observation in zip(running, observations, strict=True):
            last = self.last[number]
            if last is None or not np.array_equal(last[0], observation):
                self.futile[number] = False
            else:
                self.futile[number] |= self.choices == last[1]
        return self.futile[running]

    def note(self, running: np.ndarray, observations: np.ndarray, taken: np.ndarray) -> None:
        """The choices (r,) that are now made."""
        for number, observation, choice in zip(running, observations, taken, strict=True):
            # an environment may write the next one into the same array
            self.last[number] = (observation.copy(), int(choice))


class Agent:
    """Plans on the map and acts by the controller; any number of episodes side by side."""

    def __init__(self, controller: Controller, places: Places, config: AgentConfig = AgentConfig()):
        self.controller, self.places, self.config = controller, places, config
        self.backward = places.graph.T.tocsr()
        self.num_plans = 0
        self._onward = lru_cache(512)(self._search_onward)

    def reset(self, goal: np.ndarray) -> None:
        """Head for the place that this observation shows."""
        self.reset_many(goal[None])

    def act(self, observation: np.ndarray) -> np.ndarray:
        """(a,) the next action."""
        return self.act_many(observation[None])[0]

    def reset_many(self, goals: np.ndarray) -> None:
        """(m, ...) a goal an episode."""
        self.goals, choices = goals, self.controller.choices
        self.tried = None if choices is None else Tried(len(goals), choices)
        self.journeys = [_begin(int(node)) for node in self.places.locate(self.places.embed(goals))]

    def act_many(
        self, observations: np.ndarray, running: np.ndarray | None = None, frames: np.ndarray | None = None
    ) -> np.ndarray:
        """(r, a) actions for the observations (r, ...) of the episodes with the numbers `running` (r,); None: all of
        them.

        `frames` (r, ...): what the observations were computed from, where that is the better witness of whether
        anything changed.
        """
        running = np.arange(len(self.journeys)) if running is None else running
        vectors = self.places.embed(observations)
        waypoints = [
            self._waypoint(self.journeys[number], vector) for number, vector in zip(running, vectors, strict=True)
        ]
        seen = self.goals[running].copy()
        on_way = np.array([node >= 0 for node in waypoints])
        seen[on_way] = self.places.frames[np.array(waypoints)[on_way]]
        witness = observations if frames is None else frames
        futile = None if self.tried is None else self.tried.futile_at(running, witness)
        actions = self.controller.act(observations, seen, futile)
        if self.tried is not None:
            self.tried.note(running, witness, actions[:, 0])
        return actions

    def _waypoint(self, journey: Journey, vector: np.ndarray) -> int:
        """The node to head for now; -1: the goal itself."""
        if not self._follow(journey, vector):
            start = int(self.places.locate(vector[None])[0])
            nodes = self.plan(start, journey.goal)
            journey.nodes, journey.passed, journey.waited = np.array(nodes, np.int64), 0, 0
            journey.length = np.cumsum([0.0, *hop_lengths(self.places.graph, nodes)])
        rest = journey.length[journey.passed :] - journey.length[journey.passed]
        # the longer nothing moves, the nearer the waypoint
        ahead = self.config.ahead * (1 - journey.waited / self.config.patience)
        place = max(1, int(np.searchsorted(rest, ahead)))
        return int(journey.nodes[journey.passed + place]) if place < len(rest) - 1 else -1

    def _follow(self, journey: Journey, vector: np.ndarray) -> bool:
        """Note how far along the plan one has come; False: there is no plan, or it is lost."""
        journey.waited += 1
        if len(journey.nodes):
            ahead = journey.length[journey.passed :] <= journey.length[journey.passed] + 2 * self.config.ahead
            steps = np.linalg.norm(self.places.vectors[journey.nodes[journey.passed :][ahead]] - vector, axis=1)
            nearest_place = int(steps.argmin())
            if steps[nearest_place] > self.config.off_path:
                return False
            if nearest_place:
                journey.passed, journey.waited = journey.passed + nearest_place, 0
        return journey.waited <= self.config.patience

    def plan(self, start: int, goal: int) -> list[int]:
        """Nodes from start to goal; none where the method finds no way, and the agent then heads for the goal by
        itself.
        """
        if self.config.method == "direct":
            return []
        self.num_plans += 1
        if self.config.method == "graph":
            return self._shortest(start, goal)
        return self.map_plan(start, goal).nodes or []

    def map_plan(self, start: int, goal: int) -> Plan:
        """The plan by the learned distance, and what it cost."""
        config, places = self.config, self.places
        return make_plan(
            places.graph, places.distance, start, goal, config.method, config.lookahead, config.memory,
            config.heuristic_weight
        )

    def _shortest(self, start: int, goal: int) -> list[int]:
        onward, nodes = self._onward(goal), [start]
        while nodes[-1] != goal:
            if onward[nodes[-1]] < 0:
                return []
            nodes.append(int(onward[nodes[-1]]))
        return nodes

    def _search_onward(self, goal: int) -> np.ndarray:
        """(n,) the next node on a shortest way to the goal; negative: none leads there."""
        return distances_from(self.backward, np.array([goal]), predecessors=True)[1][0]


def _begin(goal: int) -> Journey:
    """No plan yet: it is made at the first action."""
    return Journey(goal, np.empty(0, np.int64), np.zeros(1), waited=10**9)

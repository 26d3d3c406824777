"""Stage 4, amortized search: an embedding whose distances are shortest-path lengths on the graph, in steps.

In the paper: D(x, x') = |phi(x) - phi(x')|_p, regressed towards the length of planned paths (equation 6). Here the
paths are the shortest ones, found by exact search and not by A* that D itself leads (Algorithm 1), and one batch
supervises every pair of a block of goals and nodes, so 384 encodings carry 32,768 distances."""

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from plan2vec.config import Config, EmbeddingConfig
from plan2vec.embedding.arrivals import ENOUGH, Trial, phases_for
from plan2vec.embedding.classical_scaling import landmark_vectors
from plan2vec.embedding.network import Embedding, build_embedding, taught_part
from plan2vec.embedding.targets import Rounds, distance_loss, mean_length
from plan2vec.embedding.value_iteration import Walker, Walks
from plan2vec.learning.augmentation import Augmentation, augment, draw_changes
from plan2vec.learning.captured import Step
from plan2vec.learning.encoders import standardization
from plan2vec.learning.frame_tensors import Array, FrameTensors, on_device
from plan2vec.learning.gradient_loop import Journal, train
from plan2vec.learning.processes import in_shares
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.local_metric import LocalMetric, siamese_part

FIRST_PHASE = 600  # updates, where no number was given; each phase is twice as long as the one before


@dataclass(frozen=True)
class Teaching:
    """What only experiments change of how the map is taught; a fit takes it as it is."""

    unit: float | None = None  # steps that one unit of the network's output stands for; None: the mean path length
    allowed: np.ndarray | None = None  # (n, n) bool: whether the task from v to g may be learned from, at [g, v]
    guided: float = 0.0  # share of the updates, at first, in which guides show the way; so a flat map does not fold
    guide: np.ndarray | None = None  # (n, dim) these vectors; None: those of classical scaling
    augmentation: Augmentation = Augmentation()
    walks: Walks = Walks()  # of value iteration


def train_map(images: FrameTensors, graph: csr_array, config: Config, metric: LocalMetric | None = None,
              teaching: Teaching = Teaching(), journal: Journal = Journal()) -> Embedding:
    """Learn D(v, g) = the shortest path from v to g, by the configured variant; see `taught_part` for what learns."""
    torch.manual_seed(config.seed)
    below = None if metric is None else deepcopy(siamese_part(metric).encoder)
    embedding = build_embedding(images.frames, config, below).to(images.device)
    unit = teaching.unit or mean_length(graph, config.seed, images.device)
    embedding.scale.fill_(unit ** (1 / embedding.head.degree))
    part, seen = taught_part(embedding, images)
    if part is not embedding:
        part.encoder.mean, part.encoder.deviation = (some.to(images.device) for some in standardization(seen.frames))
    _teach(part, seen, graph, config, teaching, "embedding", journal)
    return embedding.eval()


def fine_tune(embedding: Embedding, images: FrameTensors, graph: csr_array, config: Config,
              journal: Journal = Journal()) -> Embedding:
    """A copy of a learned map, taught the distances of a graph that has changed; its scale and standardization stay."""
    tuned = deepcopy(embedding)
    _teach(*taught_part(tuned, images), graph, config, Teaching(), "fine_tuning", journal)
    return tuned.eval()


def _teach(embedding: Embedding, images: FrameTensors, graph: csr_array, config: Config, teaching: Teaching, stage: str,
           journal: Journal) -> None:
    """So many updates as were given, else phases, each twice as long, until greedy walks by the map arrive."""
    if config.variant == "value-iteration":
        walker = Walker(embedding, graph, images, config.embedding, config.seed, teaching.walks)
        train(walker, walker.loss_at, config.embedding.num_updates, teaching.walks.learning_rate, stage, journal)
        return
    given, begun, last = config.embedding.num_updates, 0, phases_for(images) - 1
    trial = None if given else Trial(graph, config.seed, images.device)
    for phase in range(1 if given else last + 1):
        num_updates, name = given or FIRST_PHASE * 2**phase, f"{stage}_{phase + 1}" if phase else stage
        teacher = Teacher(embedding, graph, images, config.embedding, config.seed, teaching, num_updates, begun)
        step = Step(teacher.draw, teacher.loss, images)
        train(teacher, step, num_updates, config.embedding.learning_rate, name, journal)
        begun += num_updates
        if trial is None:
            return
        is_done = trial.is_enough(arrived := trial.share_arrived(embedding, images), embedding) or phase == last
        journal.say(f"after {begun:,} updates {arrived:.1%} of the walks by the map arrive ({ENOUGH:.1%} wanted)"
                    + "; it learns on" * (not is_done))
        if is_done:
            embedding.load_state_dict(trial.best)  # training longer has made worse maps
            return


class Teacher(nn.Module):
    """Gives the loss of every update: distances of a block of nodes and goals against those that were searched."""

    def __init__(self, embedding: Embedding, graph: csr_array, images: FrameTensors, config: EmbeddingConfig, seed: int,
                 teaching: Teaching, num_updates: int, begun: int = 0):
        """For `num_updates` more, after `begun` earlier ones."""
        super().__init__()
        self.embedding, self.images = embedding, images
        self.config, self.seed, self.teaching, self.num_updates, self.begun = config, seed, teaching, num_updates, begun
        self.rounds = Rounds(graph, config, seed, images.device, teaching.allowed, begun + num_updates)
        self.targets = self.shown = torch.empty(0)  # of the current round: where the network is, and as they were found
        self.all_nodes = on_device(self.rounds.reachable, images.device)
        self.at_once = images.at_once_in_training(embedding)
        self.unit = embedding.unit  # read once: to ask a GPU for it stops the update until all before it are done

    def draw(self, update: int) -> tuple[Array, ...]:
        """A block of nodes and goals: rows of the targets, frame numbers, the guide's weight, changes of the frames."""
        update += self.begun
        config, rng = self.config, rng_at(self.seed, Stream.MAP_UPDATE, update)
        current = self.rounds.at(update // config.updates_per_round)
        if self.shown is not current.targets:  # always in the same place: an update that was captured reads them there
            if self.targets.shape != current.targets.shape:
                self.targets = torch.empty_like(current.targets, device=self.images.device)
            self.targets.copy_(current.targets)
            self.shown = current.targets
        rows = rng.choice(len(current.goals), min(config.goals_per_update, len(current.goals)), replace=False)
        nodes = rng.choice(current.nodes_with_a_path(rows), config.nodes_per_update)
        seen = np.concatenate((nodes, current.goals[rows]))
        changes = draw_changes(self.teaching.augmentation, self.images, min(len(seen), len(self.rounds.reachable)), rng)
        until = self.teaching.guided * self.num_updates
        guide_weight = [np.array(max(0.0, 1 - update / until), np.float32)] if until else []
        return rows, seen, *guide_weight, *changes

    def loss(self, rows: Array, seen: Array, *more: Array) -> Tensor:
        device, config = self.images.device, self.config
        rows, seen = on_device(rows, device), on_device(seen, device)
        guided = 1 if self.teaching.guided else 0
        vectors, num_nodes = self.encode(seen, more[guided:]), len(seen) - len(rows)
        distance = self.embedding.head.pairwise(*vectors.split((num_nodes, len(rows))))  # [nodes, goals]
        loss = distance_loss(distance, self.targets[rows, seen[:num_nodes, None]], config.loss, self.unit)
        for weight in more[:guided]:
            loss = loss.lerp(self.guide_loss(vectors, seen), on_device(weight, device))
        return loss

    def encode(self, seen: Tensor, changes: tuple[Array, ...]) -> Tensor:
        """[b, dim] vectors of the numbered frames; on a graph of fewer nodes than that, of each node once."""
        numbers = seen if len(seen) <= len(self.rounds.reachable) else self.all_nodes
        change = self.teaching.augmentation
        embed = lambda part: self.embedding(augment(self.images(numbers[part]), change, changes, part))  # noqa: E731
        vectors = in_shares(len(numbers), embed, self.at_once)
        return vectors if numbers is seen else vectors[torch.searchsorted(numbers, seen)]

    @cached_property
    def guide(self) -> Tensor:
        """[n, dim] the vectors given, or those of classical scaling; NaN where a node has none."""
        head, vectors = self.embedding.head, self.teaching.guide
        if vectors is None:
            first = self.rounds.current if self.rounds.number == 0 else self.rounds.search(0)
            vectors = landmark_vectors(first.targets.cpu().numpy(), first.goals, head.dim, head.degree)
        return torch.from_numpy(vectors).to(self.images.device)

    def guide_loss(self, vectors: Tensor, numbers: Tensor) -> Tensor:
        """Mean squared distance of vectors [b, dim] from their guides, in units of the network's output."""
        guide = self.guide[numbers]
        known = guide.isfinite().all(dim=1)
        off = torch.where(known[:, None], vectors - guide.nan_to_num(), 0) / self.embedding.scale
        return off.square().sum() / known.sum().clamp(min=1)

"""Amortized search: embeddings recover the shortest paths of small worlds; targets against exact ones."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.config import Config, EmbeddingConfig
from plan2vec.embedding.arrivals import Trial
from plan2vec.embedding.classical_scaling import landmark_vectors
from plan2vec.embedding.heads import make_head
from plan2vec.embedding.network import Embedding, build_embedding
from plan2vec.embedding.targets import mean_length
from plan2vec.embedding.train import Teacher, Teaching, train_map
from plan2vec.graph.build import edge_rows
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.gradient_loop import Journal
from plan2vec.search.shortest_paths import connected_parts, distances_from

CPU = torch.device("cpu")
QUICK = EmbeddingConfig(num_updates=200, goals_per_update=32, nodes_per_update=64, updates_per_round=100,
                        goals_per_round=32, learning_rate=3e-3, loss="relative")


def graph_of(num_nodes, edges):
    rows, columns = np.array(list(edges)).T
    return csr_array((np.array(list(edges.values()), np.float32), (rows, columns)), shape=(num_nodes, num_nodes))


def both_ways(edges):
    return edges | {(j, i): weight for (i, j), weight in edges.items()}


def ring_observations(num):
    angle = 2 * np.pi * np.arange(num) / num
    return np.stack((np.cos(angle), np.sin(angle)), axis=1).astype(np.float32)


LINE = graph_of(40, both_ways({(i, i + 1): 1.0 for i in range(39)}))
LINE_FRAMES = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
RING = graph_of(40, both_ways({(i, (i + 1) % 40): 1.0 for i in range(40)}))
RING_FRAMES = ring_observations(40)
ONE_WAY = graph_of(12, {(i, (i + 1) % 12): 1.0 for i in range(12)})
ONE_WAY_FRAMES = ring_observations(12)
TWO_PARTS = graph_of(20, both_ways({(i, i + 1): 1.0 for i in range(19) if i != 9}))
TWO_FRAMES = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


@torch.no_grad()
def learned_vectors(embedding, frames):
    """[n, dim]."""
    return embedding.eval()(FrameTensors(frames, CPU)(np.arange(len(frames))))


def learned_distances(embedding, frames):
    """(n, n) D from each frame to each."""
    vectors = learned_vectors(embedding, frames)
    return embedding.head.pairwise(vectors, vectors).numpy()


def relative_error(embedding, frames, graph):
    exact = distances_from(graph, np.arange(len(frames)))
    known = np.isfinite(exact) & (exact > 0)
    return float(np.mean(np.abs(learned_distances(embedding, frames)[known] - exact[known]) / exact[known]))


def fitted(frames, graph, settings=QUICK, teaching=Teaching(), journal=Journal(), **config):
    config = Config(encoder="mlp", embedding=settings, **({"dim": 8, "norm_order": 2.0} | config))
    return train_map(FrameTensors(frames, CPU), graph, config, None, teaching, journal)


def untaught(frames, dim=8):
    torch.manual_seed(0)
    return build_embedding(frames, Config(encoder="mlp", dim=dim, norm_order=2.0))


def untrained(frames, graph, dim=8):
    embedding = untaught(frames, dim)
    embedding.scale.fill_(mean_length(graph, 0, CPU))
    return embedding


def state_of(embedding):
    return {name: tensor.numpy().tobytes() for name, tensor in embedding.state_dict().items()}


# ---------------------------------------------------------------------------------------------------- learning


def test_the_distances_on_a_line_are_recovered():
    assert relative_error(untrained(LINE_FRAMES, LINE), LINE_FRAMES, LINE) > 0.3
    assert relative_error(fitted(LINE_FRAMES, LINE, dim=2), LINE_FRAMES, LINE) < 0.01


@pytest.mark.parametrize(("norm_order", "limit"), [(2.0, 0.13), (np.inf, 0.03)])
def test_the_distances_on_a_ring_are_recovered_around_it_and_not_across(norm_order, limit):
    embedding = fitted(RING_FRAMES, RING, dim=16, norm_order=norm_order)  # in 8 the largest difference is 5 % off
    assert relative_error(embedding, RING_FRAMES, RING) < limit
    distance = learned_distances(embedding, RING_FRAMES)
    opposite = distance[np.arange(20), np.arange(20) + 20].mean()
    assert opposite > 13.2 > 40 / np.pi  # 20 steps around; the straight line across a circle would be 12.7


@pytest.mark.parametrize("loss", ["relative", "sammon", "huber"])
def test_every_loss_learns_a_line_better_than_an_untrained_network(loss):
    settings = dataclasses.replace(QUICK, loss=loss, updates_per_round=15, num_updates=120, goals_per_round=16)
    before = relative_error(untrained(LINE_FRAMES, LINE), LINE_FRAMES, LINE)
    after = relative_error(fitted(LINE_FRAMES, LINE, settings), LINE_FRAMES, LINE)
    assert after < 0.1 * before and after < 0.03


def test_an_asymmetric_head_learns_a_one_way_ring_where_l2_cannot():
    assert distances_from(ONE_WAY, [0])[0].tolist() == list(range(12))
    # error of any symmetric function: k steps there, 12 - k back
    least = sum((12 - 2 * k) / (12 - k) for k in range(1, 6)) / 11
    symmetric = relative_error(fitted(ONE_WAY_FRAMES, ONE_WAY, dim=16), ONE_WAY_FRAMES, ONE_WAY)
    assert symmetric >= least > 0.28
    for head in ("max-relu", "mrn"):
        asymmetric = fitted(ONE_WAY_FRAMES, ONE_WAY, dim=16, head=head)
        assert relative_error(asymmetric, ONE_WAY_FRAMES, ONE_WAY) < 0.12
        distance = learned_distances(asymmetric, ONE_WAY_FRAMES)
        there, back = distance[np.arange(11), np.arange(1, 12)], distance[np.arange(1, 12), np.arange(11)]
        assert there.max() < 1.5 and back.mean() > 3 * there.mean()  # one step there, eleven back


def test_the_unit_of_the_network_changes_numbers_inside_and_not_the_distances():
    embedding = fitted(LINE_FRAMES, LINE, teaching=Teaching(unit=5.0), dim=2)
    assert embedding.scale == 5 and relative_error(embedding, LINE_FRAMES, LINE) < 0.02
    exact = distances_from(LINE, np.arange(40))
    assert float(
        fitted(LINE_FRAMES, LINE, dataclasses.replace(QUICK, num_updates=1)).scale
    ) == pytest.approx(exact.mean(), rel=0.4)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    few = dataclasses.replace(QUICK, num_updates=8)
    states = [state_of(fitted(LINE_FRAMES, LINE, few, seed=seed)) for seed in (1, 1, 2)]
    assert states[0] == states[1] != states[2]


def test_an_interrupted_training_ends_in_the_same_bytes_as_one_that_never_was(tmp_path, monkeypatch):
    few = dataclasses.replace(QUICK, num_updates=12, updates_per_round=4)
    whole = fitted(LINE_FRAMES, LINE, few)
    draw = Teacher.draw

    def stopping(teacher, update):
        if update == 6:  # in the middle of the second round
            raise KeyboardInterrupt
        return draw(teacher, update)

    journal = Journal(tmp_path, checkpoint_seconds=0)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Teacher, "draw", stopping)
        fitted(LINE_FRAMES, LINE, few, journal=journal)
    assert list(tmp_path.rglob("checkpoints/*"))
    assert state_of(fitted(LINE_FRAMES, LINE, few, journal=journal)) == state_of(whole)


# ---------------------------------------------------------------------------------------------------- targets


def teacher_of(frames, graph, teaching=Teaching(), dim=8, **settings):
    images = FrameTensors(frames, CPU)
    config = dataclasses.replace(QUICK, **settings)
    return Teacher(untaught(frames, dim), graph, images, config, 0, teaching, config.num_updates)


@pytest.mark.parametrize(("frames", "graph"), [(LINE_FRAMES, LINE), (ONE_WAY_FRAMES, ONE_WAY), (TWO_FRAMES, TWO_PARTS)])
def test_full_targets_are_the_exact_distances_towards_the_goals(frames, graph):
    found = teacher_of(frames, graph).rounds.search(0)
    exact = distances_from(graph, np.arange(len(frames)))
    assert np.array_equal(
        found.targets, exact[:, found.goals].T
    ) and len(set(found.goals.tolist())) == min(32, len(frames))


def test_a_new_round_has_new_goals_and_the_same_round_the_same():
    rounds = teacher_of(LINE_FRAMES, LINE, goals_per_round=8).rounds
    assert np.array_equal(rounds.search(0).goals, rounds.search(0).goals)
    assert not np.array_equal(rounds.search(0).goals, rounds.search(1).goals)


# ---------------------------------------------------------------------------------------------------- what counts


def test_rounds_searched_beside_training_equal_those_that_training_waits_for(monkeypatch):
    alone = teacher_of(RING_FRAMES, RING, num_updates=300).rounds
    expected = [alone.at(number) for number in range(3)]
    assert not alone.searched_beside  # a small graph is not worth child processes
    for module in ("embedding.targets", "search.shortest_paths"):
        monkeypatch.setattr(f"plan2vec.{module}.choose_workers", lambda graph, num_sources: 2)
    beside = teacher_of(RING_FRAMES, RING, num_updates=300).rounds
    for number, wanted in enumerate(expected):
        found = beside.at(number)
        assert np.array_equal(found.goals, wanted.goals) and np.array_equal(found.targets, wanted.targets)
        assert list(beside.searched_beside) == ([number + 1] if number < 2 else [])


def test_only_pairs_inside_a_part_are_learned_from():
    num_parts, part = connected_parts(TWO_PARTS)
    assert num_parts == 2
    found = teacher_of(TWO_FRAMES, TWO_PARTS).rounds.search(0)
    known = np.isfinite(found.targets.numpy())
    assert not known[part[found.goals][:, None] != part[None, :]].any() and known.any()
    assert relative_error(fitted(TWO_FRAMES, TWO_PARTS), TWO_FRAMES, TWO_PARTS) < 0.1


class Watched(FrameTensors):
    """Frames that remember who was looked at."""

    def __init__(self, frames, device):
        super().__init__(frames, device)
        self.seen = []

    def __call__(self, numbers):
        self.seen += numbers.tolist()
        return super().__call__(numbers)


def test_frames_outside_the_graph_are_never_goals_nor_learned_from():
    graph = graph_of(40, both_ways({(i, i + 1): 1.0 for i in range(19)}))  # frames 20 and up are held out
    teacher = teacher_of(LINE_FRAMES, graph)
    found = teacher.rounds.search(0)
    assert (found.goals < 20).all() and not found.targets[:, 20:].isfinite().any()
    teacher.images = Watched(LINE_FRAMES, CPU)
    teacher.loss(*teacher.draw(0))
    assert teacher.images.seen == list(range(20))  # each is encoded once, however often it was drawn


def test_vectors_are_the_scale_times_the_network():
    embedding = Embedding(untaught(LINE_FRAMES, 3).encoder, make_head("lp", 2.0, 3))
    images = FrameTensors(LINE_FRAMES, CPU)(np.arange(5))
    once = embedding(images)
    embedding.scale.fill_(4.0)
    assert torch.allclose(embedding(images), 4 * once)


# ---------------------------------------------------------------------------------------------------- heads, tasks,
# folds


def test_the_squared_head_fits_two_loops_where_l2_of_as_many_dimensions_does_not():
    edges = {(i, (i + 1) % 16): 1.0 for i in range(16)} | {(i, i + 1): 1.0 for i in range(15, 23)} | {(4, 23): 1.0}
    graph, frames = graph_of(24, both_ways(edges)), np.eye(24, dtype=np.float32)
    lp, squared = (
        relative_error(fitted(frames, graph, QUICK, dim=8, head=head), frames, graph) for head in ("lp", "squared")
    )
    assert squared < 0.5 * lp


def test_guided_all_the_way_at_first_a_map_begins_where_classical_scaling_puts_it():
    teacher = teacher_of(RING_FRAMES, RING, Teaching(guided=1.0), dim=2, goals_per_round=40)
    guide = teacher.guide.numpy()
    assert np.linalg.norm(guide, axis=1) == pytest.approx(np.linalg.norm(guide[0]), rel=1e-4)  # a ring is a circle
    assert np.linalg.norm(guide[20] - guide[0]) == pytest.approx(2 * np.linalg.norm(guide[0]), rel=1e-4)
    vectors = torch.from_numpy(guide[:5]).requires_grad_()
    assert teacher.guide_loss(vectors, np.arange(5)).item() == 0 and teacher.guide_loss(
        vectors + 3, np.arange(5)
    ).item() > 0


def test_a_guided_map_ends_about_where_classical_scaling_puts_it_and_another_one_anywhere():
    lengths = distances_from(RING, np.arange(40))
    settings = dataclasses.replace(QUICK, loss="sammon", goals_per_round=40)  # the landmarks are all nodes
    for guided, is_there in ((0.5, True), (0.0, False)):
        order = teacher_of(RING_FRAMES, RING, dim=2, goals_per_round=40).rounds.at(0).goals
        wanted = landmark_vectors(lengths[order], order, 2)
        vectors = learned_vectors(
            fitted(RING_FRAMES, RING, settings, Teaching(guided=guided), dim=2), RING_FRAMES
        ).numpy()
        apart = np.linalg.norm(vectors - wanted, axis=1).mean() / np.linalg.norm(wanted, axis=1).mean()
        assert (apart < 0.3) == is_there, apart


def test_tasks_that_are_not_allowed_are_not_learned_from():
    allowed = np.ones((40, 40), bool)
    allowed[0, 5] = allowed[5, 0] = False
    current = teacher_of(RING_FRAMES, RING, Teaching(allowed=allowed), dim=4, goals_per_round=40).rounds.at(0)
    targets = current.targets.numpy()[np.argsort(current.goals)]
    assert np.isinf(targets[0, 5]) and np.isinf(targets[5, 0]) and targets[0, 4] == 4
    assert np.isfinite(targets).sum() == 40 * 40 - 2


# ---------------------------------------------------------------------------------------------------- how long


def test_training_goes_on_in_longer_phases_until_walks_by_the_map_arrive(monkeypatch):
    shares, phases = iter([0.5, 0.9, 1.0]), []
    monkeypatch.setattr("plan2vec.embedding.train.FIRST_PHASE", 20)
    monkeypatch.setattr(Trial, "share_arrived", lambda *asked: next(shares))
    monkeypatch.setattr("plan2vec.embedding.train.train", lambda *given: phases.append((given[2], given[4])))
    fitted(LINE_FRAMES, LINE, dataclasses.replace(QUICK, num_updates=None))
    assert phases == [(20, "embedding"), (40, "embedding_2"), (80, "embedding_3")]


@pytest.mark.parametrize(("arrived", "num"), [([0.996], 1), ([0.5, 0.5, 0.55], 3), ([0.5, 0.6, 0.7, 0.8, 0.9], 5)])
def test_it_ends_where_nearly_all_arrive_where_it_no_longer_helps_and_after_five_phases(monkeypatch, arrived, num):
    shares, phases = iter(arrived), []
    monkeypatch.setattr(Trial, "share_arrived", lambda *asked: next(shares))
    monkeypatch.setattr("plan2vec.embedding.train.train", lambda *given: phases.append(given[2]))
    fitted(LINE_FRAMES, LINE, dataclasses.replace(QUICK, num_updates=None))
    assert phases == [600 * 2**phase for phase in range(num)]


def test_the_map_of_the_best_phase_is_kept(monkeypatch):
    shares, phases = iter((0.5, 0.8, 0.7, 0.6)), iter((1, 2, 3, 4))

    def train_one(teacher, *given):
        with torch.no_grad():
            next(teacher.embedding.parameters()).fill_(next(phases))

    monkeypatch.setattr(Trial, "share_arrived", lambda *asked: next(shares))
    monkeypatch.setattr("plan2vec.embedding.train.train", train_one)
    kept = fitted(LINE_FRAMES, LINE, dataclasses.replace(QUICK, num_updates=None))
    assert (next(kept.parameters()) == 2).all()


def test_walks_by_a_learned_map_arrive_and_by_one_of_other_places_they_do_not():
    trial, learned = Trial(LINE, 0, CPU), fitted(LINE_FRAMES, LINE)
    mixed = FrameTensors(np.random.default_rng(0).permutation(LINE_FRAMES), CPU)
    assert trial.share_arrived(learned, FrameTensors(LINE_FRAMES, CPU)) > 0.99
    assert trial.share_arrived(learned, mixed) < 0.5


def test_frames_in_which_nothing_moved_are_no_goals():
    graph = LINE.copy()
    graph.data[(edge_rows(graph) == 6) & (graph.indices == 7)] = 0
    assert 7 not in Trial(graph, 0, CPU).goals and {6, 8} <= set(Trial(graph, 0, CPU).goals)


def test_a_training_interrupted_in_its_second_phase_ends_in_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("plan2vec.embedding.train.FIRST_PHASE", 8)
    monkeypatch.setattr("plan2vec.embedding.arrivals.NUM_PHASES", 2)
    open_end = dataclasses.replace(QUICK, num_updates=None)
    whole = fitted(RING_FRAMES, RING, open_end)
    draw, journal = Teacher.draw, Journal(tmp_path, checkpoint_seconds=0)

    def stopping(teacher, update):
        if teacher.begun and update == 5:
            raise KeyboardInterrupt
        return draw(teacher, update)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Teacher, "draw", stopping)
        fitted(RING_FRAMES, RING, open_end, journal=journal)
    assert (tmp_path / "checkpoints" / "embedding_2.safetensors").exists()
    assert state_of(fitted(RING_FRAMES, RING, open_end, journal=journal)) == state_of(whole)

"""Fitted value iteration: walks led by D teach D the shortest paths of small worlds; targets against closed form."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from test_embedding import (
    CPU,
    LINE,
    LINE_FRAMES,
    ONE_WAY,
    ONE_WAY_FRAMES,
    RING,
    RING_FRAMES,
    TWO_FRAMES,
    TWO_PARTS,
    graph_of,
    relative_error,
    state_of,
    untaught,
)

import plan2vec
from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig, from_json, to_json
from plan2vec.data import Sequences
from plan2vec.embedding.train import Teaching, train_map
from plan2vec.embedding.value_iteration import (
    Tasks,
    Walker,
    Walks,
    first_visits,
    hop_targets,
    lookahead_graph,
    staying,
)
from plan2vec.explorer import underway
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.gradient_loop import Journal
from plan2vec.pipeline import fit
from plan2vec.search.balls import balls
from plan2vec.search.shortest_paths import connected_parts, distances_from

WALKS = Walks(num_rounds=24, rollouts=12, hops=10, target_hops=1, replay_rounds=4, rollouts_per_update=12, polyak=0.3,
              learning_rate=3e-3)
QUICK = EmbeddingConfig(num_updates=240)


def fitted(frames, graph, settings=QUICK, walks=WALKS, journal=Journal(), **config):
    given = {"encoder": "mlp", "dim": 8, "norm_order": 2.0, "variant": "value-iteration", "embedding": settings}
    teaching = Teaching(walks=walks)
    return train_map(FrameTensors(frames, CPU), graph, Config(**given | config), teaching=teaching, journal=journal)


def walker_of(frames, graph, **walks):
    return Walker(untaught(frames), graph, FrameTensors(frames, CPU), QUICK, 0, dataclasses.replace(WALKS, **walks))


# ---------------------------------------------------------------------------------------------------- learning


def test_walks_teach_the_shortest_distances_on_a_line():
    before = fitted(LINE_FRAMES, LINE, dataclasses.replace(QUICK, num_updates=1))
    assert relative_error(before, LINE_FRAMES, LINE) > 0.3
    assert relative_error(fitted(LINE_FRAMES, LINE), LINE_FRAMES, LINE) < 0.03


@pytest.mark.parametrize(("lookahead", "target_hops"), [(1, 1), (3, 1), (1, 4)])
def test_walks_teach_the_shortest_distances_around_a_ring(lookahead, target_hops):
    walks = dataclasses.replace(WALKS, lookahead=lookahead, target_hops=target_hops)
    assert relative_error(fitted(RING_FRAMES, RING, QUICK, walks, norm_order=np.inf), RING_FRAMES, RING) < 0.08


def test_an_asymmetric_head_learns_a_one_way_ring():
    error = relative_error(fitted(ONE_WAY_FRAMES, ONE_WAY, head="mrn", dim=16), ONE_WAY_FRAMES, ONE_WAY)
    assert error < 0.22 < 0.28  # below what any symmetric distance can reach, see test_embedding


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    few, walks = EmbeddingConfig(num_updates=8), dataclasses.replace(WALKS, num_rounds=4)
    states = [state_of(fitted(LINE_FRAMES, LINE, few, walks, seed=seed)) for seed in (1, 1, 2)]
    assert states[0] == states[1] != states[2]


@pytest.mark.parametrize("stop", [6, 8])  # in the middle of a round, and before its first update
def test_an_interrupted_training_ends_in_the_same_bytes_as_one_that_never_was(tmp_path, monkeypatch, stop):
    few, walks = EmbeddingConfig(num_updates=16), dataclasses.replace(WALKS, num_rounds=4, replay_rounds=2)
    whole = fitted(LINE_FRAMES, LINE, few, walks)
    loss_at = Walker.loss_at

    def stopping(walker, update):
        if update == stop:
            raise KeyboardInterrupt
        return loss_at(walker, update)

    journal = Journal(tmp_path, checkpoint_seconds=0)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Walker, "loss_at", stopping)
        fitted(LINE_FRAMES, LINE, few, walks, journal)
    assert list(tmp_path.rglob("checkpoints/*"))
    assert state_of(fitted(LINE_FRAMES, LINE, few, walks, journal)) == state_of(whole)


# ---------------------------------------------------------------------------------------------------- walks


def test_walks_are_hops_of_the_graph_with_their_lengths_and_stay_at_the_goal():
    graph = graph_of(40, {(i, (i + 1) % 40): 0.5 for i in range(40)} | {((i + 1) % 40, i): 0.5 for i in range(40)})
    walker = walker_of(RING_FRAMES, graph, rollouts=50)
    walker._walk(0)
    nodes, goal, lengths = walker.nodes[0, :, :-1].numpy(), walker.nodes[0, :, -1:].numpy(), walker.lengths[0].numpy()
    stays = nodes[:, 1:] == nodes[:, :-1]
    assert (stays == (nodes[:, :-1] == goal)).all() and stays.any() and not stays.all()
    assert (np.abs(np.diff(nodes, axis=1))[~stays] % 38 == 1).all()  # neighbours on the ring of 40: 1 or 39 apart
    assert (lengths == np.where(stays, 0, 0.5)).all()


def test_the_oldest_walks_are_replaced_and_the_others_kept():
    walker = walker_of(LINE_FRAMES, LINE, replay_rounds=2)
    walker._walk(0)
    walker._walk(1)
    first, second = walker.nodes.clone()
    walker._walk(2)
    assert not torch.equal(walker.nodes[0], first) and torch.equal(walker.nodes[1], second) and int(walker.newest) == 2


def test_goals_lie_in_the_part_of_their_start_and_walks_never_leave_it():
    num_parts, part = connected_parts(TWO_PARTS)
    assert num_parts == 2
    starts, goals = Tasks(TWO_PARTS).draw(200, np.random.default_rng(0))
    assert (part[starts] == part[goals]).all() and set(goals.tolist()) == set(range(20))
    walker = walker_of(TWO_FRAMES, TWO_PARTS)
    walker._walk(0)
    assert (part[walker.nodes[0]] == part[walker.nodes[0, :, :1]]).all()


def test_a_graph_without_any_way_back_is_refused():
    with pytest.raises(ValueError, match="use --variant amortized"):
        Tasks(graph_of(3, {(0, 1): 1.0, (1, 2): 1.0}))


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_the_lookahead_graph_joins_exactly_the_frames_within_so_many_hops(hops):
    random = np.random.default_rng(0)
    edges = {(int(a), int(b)): float(random.uniform(0.1, 2)) for a, b in random.integers(30, size=(60, 2)) if a != b}
    graph = graph_of(30, edges)
    reach = lookahead_graph(graph, hops, CPU)
    exact = distances_from(graph, np.arange(30)) if hops > 1 else graph.toarray()
    for node in range(30):
        row = slice(reach.indptr[node], reach.indptr[node + 1])
        assert sorted(reach.indices[row].tolist()) == sorted(balls(graph, np.array([node]), hops).nodes[1:].tolist())
        assert np.allclose(reach.data[row], exact[node, reach.indices[row]])


def test_edges_of_length_zero_stay_in_the_lookahead_graph():
    graph = csr_array(
        (np.array([0, 0, 1, 1], np.float32), np.array([1, 0, 2, 1]), np.array([0, 1, 3, 4])), shape=(3, 3)
    )
    reach = lookahead_graph(graph, 2, CPU)
    assert reach.nnz == 6 and reach.toarray().tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]


# ---------------------------------------------------------------------------------------------------- targets


def test_targets_are_the_next_hops_and_then_the_target_network():
    lengths = torch.tensor([[1.0, 2.0, 4.0]])
    onward = torch.arange(20.0).reshape(1, 4, 5)
    onward[0, range(4), range(4)] = 0  # from a node to itself
    for hops in (1, 2, 5):
        target = hop_targets(lengths, onward, hops)
        for t in range(3):
            for j in range(t + 1, 5):
                ahead = min(t + hops, j, 3)
                assert target[0, t, j] == lengths[0, t:ahead].sum() + onward[0, ahead, j]
    assert hop_targets(lengths, onward, 9)[0, 0, :4].tolist()[1:] == [1, 3, 7]  # deep enough: the walked length alone


def test_only_the_first_visit_after_a_time_counts():
    walk = [3, 5, 3, 5, 7]
    expected = [[t < j and walk[j] not in walk[t:j] for j in range(5)] for t in range(4)]
    assert first_visits(torch.tensor([walk])).tolist() == [expected]


def test_a_walk_that_ended_early_stays_where_it_ended():
    walks = np.array([[1, 4], [2, -1], [-1, -1]])
    assert staying(walks).tolist() == [[1, 4], [2, 4], [2, 4]]


# ---------------------------------------------------------------------------------------------------- as a variant of a
# fit


SMALL = Config(variant="value-iteration", dim=2, local_metric=LocalMetricConfig(num_updates=20, batch_size=16),
               embedding=EmbeddingConfig(num_updates=20))


def line_recording(position):
    place = np.concatenate([start + np.arange(12) for start in (0, 6, 12, 18)])
    frames = np.stack((place / 30, (place / 30) ** 2), axis=1).astype(np.float32)
    return Sequences(frames, np.repeat(np.arange(4), 12), position=position(place))


def test_a_fit_by_value_iteration_never_looks_at_positions(tmp_path):
    noise = np.random.default_rng(0)
    honest = fit(line_recording(lambda place: place[:, None].astype(float)), SMALL, tmp_path / "a", "cpu")
    blind = fit(line_recording(lambda place: noise.normal(size=(len(place), 1))), SMALL, tmp_path / "b", "cpu")
    assert honest.vectors.tobytes() == blind.vectors.tobytes()
    amortized = fit(
        line_recording(lambda place: place[:, None]), dataclasses.replace(SMALL, variant="amortized"), None, "cpu"
    )
    assert amortized.vectors.tobytes() != honest.vectors.tobytes()


def test_a_run_of_one_variant_is_no_run_of_the_other(tmp_path):
    recording = line_recording(lambda place: place[:, None])
    model = fit(recording, SMALL, tmp_path, "cpu")
    assert fit(recording, SMALL, tmp_path, "cpu").vectors.tobytes() == model.vectors.tobytes()
    with pytest.raises(ValueError, match="variant"):
        fit(recording, dataclasses.replace(SMALL, variant="amortized"), tmp_path, "cpu")


def test_the_configuration_survives_json():
    assert from_json(json.loads(json.dumps(to_json(SMALL)))) == SMALL


def second_pass():
    place = 3 + np.arange(20)
    return Sequences(np.stack((place / 30, (place / 30) ** 2), axis=1).astype(np.float32), np.zeros(20, int))


@pytest.fixture
def run(tmp_path):
    return fit(line_recording(lambda place: place[:, None]), SMALL, tmp_path / "run", "cpu").folder


def fine_tuned_by(monkeypatch):
    """The number of updates of every walker that is trained from now on; the other loss is refused."""
    trained = []

    class Counted(Walker):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            trained.append(self.num_updates)

    def refuse(*arguments):
        raise AssertionError("a map of value iteration is fine-tuned by amortized search")

    monkeypatch.setattr("plan2vec.embedding.train.Walker", Counted)
    monkeypatch.setattr("plan2vec.embedding.train.Teacher", refuse)
    return trained


def test_a_map_of_value_iteration_grows_by_value_iteration(run, monkeypatch):
    trained = fine_tuned_by(monkeypatch)
    grown = plan2vec.add(run, second_pass(), device="cpu")
    assert trained == [7] and grown.report["updates"] == 7  # a third of the fit's 20
    assert plan2vec.load(run, "cpu").config == dataclasses.replace(grown.model.config, variant="value-iteration")


def test_a_struck_closure_leaves_a_map_of_value_iteration_by_value_iteration(run, monkeypatch, capsys):
    model = plan2vec.load(run, "cpu")
    entry = int(np.flatnonzero(closure_entries(model.graph, model.sequences.sequence))[0])
    pair = f"{edge_rows(model.graph)[entry]}-{model.graph.indices[entry]}"
    trained = fine_tuned_by(monkeypatch)
    assert main(["closures", str(run), "--strike", pair, "--device", "cpu", "--json"]) == 0
    assert trained == [7] and json.loads(capsys.readouterr().out)["updates"] == 7
    assert main(["closures", str(run), "--keep", pair, "--no-update", "--device", "cpu"]) == 0
    assert main(["closures", str(run), "--update", "--device", "cpu"]) == 0 and trained == [7, 7]


def test_the_page_of_a_fit_under_way_counts_to_the_end_of_value_iteration(run):
    for name in ("embedding.safetensors", "vectors.npy"):
        (run / name).unlink()
    stage, count = underway.read_progress(run)
    updates = [line["update"] for line in Journal(run).records() if line["stage"] == "embedding" and "update" in line]
    assert stage == "embedding" and max(updates) <= 20
    for text in (count, underway.page_of(run)):
        assert f"update {max(updates)} of 20" in text

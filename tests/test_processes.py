"""Several processes: what they make together is what one makes, and when one fails all end."""

import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

import numpy as np
import pytest
import torch
from torch import nn

import plan2vec
from plan2vec.commands import main as cli
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import make_sequences
from plan2vec.domains.maze import simulate
from plan2vec.graph.neighbors import near_pairs
from plan2vec.learning import processes
from plan2vec.learning.augmentation import Augmentation, augment, draw_changes
from plan2vec.learning.encoders import make_encoder
from plan2vec.learning.frame_tensors import FrameTensors, encode
from plan2vec.readers.npz import write_npz
from plan2vec.runs.folder import PRODUCTS
from plan2vec.runs.products import load_graph
from plan2vec.search.gpu_search import distances_from_on
from plan2vec.search.shortest_paths import distances_from

QUICK = Config(
    dim=4, norm_order=2.0, radius=0.5,
    local_metric=LocalMetricConfig(num_updates=40, batch_size=64),
    embedding=EmbeddingConfig(num_updates=40, goals_per_update=32, nodes_per_update=65, goals_per_round=64),
)
OPTIONS = (
    "--device", "cpu", "--json", "--dim", "4", "--norm-order", "2", "--radius", "0.5",
    "--local-metric.num-updates", "40", "--local-metric.batch-size", "64",
    "--embedding.num-updates", "40", "--embedding.goals-per-update", "32",
    "--embedding.nodes-per-update", "65", "--embedding.goals-per-round", "64"
)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def start(num, work, folder):
    """Processes that each run work(rank) with torchrun's variables set; forked, so that none imports torch again."""
    port, pids = free_port(), []
    for rank in range(num):
        pid = os.fork()
        if pid == 0:
            variables = {
                "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port
            }
            os.environ.update({name: str(value) for name, value in variables.items()})
            run_child(rank, work, folder)
        pids.append(pid)
    return pids


def run_child(rank, work, folder):
    code = 1
    try:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / f"{name}-{rank}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        answer = work(rank)
        (folder / f"answer-{rank}").write_bytes(pickle.dumps(answer))
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def finish(pids, seconds=60):
    """Exit codes; those that do not end in time are killed."""
    codes, limit = [], time.monotonic() + seconds
    for pid in pids:
        while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > limit:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        codes.append(os.waitstatus_to_exitcode(done[1]))
    return codes


def answers_of(num, work, folder):
    """What work(rank) gives in each of `num` processes that work together."""

    def together(rank):
        with processes.together("cpu"):
            return work(rank)

    codes = finish(start(num, together, folder))
    assert codes == [0] * num, (folder / "err-0").read_text() + (folder / "err-1").read_text()
    return [pickle.loads((folder / f"answer-{rank}").read_bytes()) for rank in range(num)]


@pytest.fixture(scope="module")
def sequences():
    """Walks on a grid of 6 x 6 places. Two frames show the same place or places a step apart, so no closure hangs on
    rounding.
    """
    rng, moves = np.random.default_rng(0), np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
    place, walk = rng.integers(6, size=(40, 2)), []
    for _ in range(12):
        walk.append(place)
        place = np.clip(place + moves[rng.integers(4, size=40)], 0, 5)
    places = np.stack(walk, axis=1).reshape(-1, 2).astype(np.float32)
    return make_sequences(places, np.repeat(np.arange(40), 12), position=places)


@pytest.fixture(scope="module")
def whole(sequences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    plan2vec.fit(sequences, QUICK, folder, device="cpu")
    return folder


def assert_same_fit(folder, whole):
    """The same graph; vectors up to rounding, of which training makes about 1 % here, in one process too."""
    ours, theirs = (load_graph(path / "graph.npz").graph for path in (folder, whole))
    assert np.array_equal(ours.indptr, theirs.indptr) and np.array_equal(ours.indices, theirs.indices)
    np.testing.assert_allclose(ours.data, theirs.data, atol=1e-6)
    vectors = np.load(whole / "vectors.npy")
    np.testing.assert_allclose(np.load(folder / "vectors.npy"), vectors, atol=0.02 * np.abs(vectors).max())


def test_two_processes_under_torchrun_give_the_scorecard_graph_and_vectors_of_one(sequences, whole, tmp_path):
    write_npz(tmp_path / "walks.npz", sequences)
    torchrun = (
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "plan2vec"
    )
    command = [*torchrun, "fit", str(tmp_path / "walks.npz"), "--out", str(tmp_path / "run"), *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    card, expected = json.loads(done.stdout), plan2vec.evaluate(plan2vec.load(whole, "cpu"))
    assert_same_fit(tmp_path / "run", whole)
    assert expected["spearman_true"] > 0.98 and expected["loop_closures"] > 1000  # something was learned
    for name in (
        "local_accuracy", "embedding_error", "spearman_graph", "success_graph", "success", "spearman_true",
        "false_edge_share"
    ):
        assert card[name] == pytest.approx(expected[name], rel=0.01), name
    assert done.stderr.count("report:") == 1 and done.stderr.count("Next: plan2vec") == 1  # one speaks for all


def test_stages_that_do_not_train_give_the_same_bytes_in_any_number_of_processes(sequences, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    for name in ("graph.npz", "vectors.npy"):
        (tmp_path / "run" / name).unlink()
    answers_of(2, lambda rank: plan2vec.fit(sequences, QUICK, tmp_path / "run", device="cpu") and None, tmp_path)
    assert all((tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes() for name in PRODUCTS.values())


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_killed_fit_continues_with_another_number_of_processes(sequences, whole, tmp_path, before, after):
    run, checkpoint = tmp_path / "run", tmp_path / "run" / "checkpoints" / "embedding.safetensors"

    def fit_slowly(rank):
        train_step = torch.optim.Adam.step
        torch.optim.Adam.step = lambda self: (time.sleep(0.005), train_step(self))[1]
        with processes.together("cpu"):
            plan2vec.fit(sequences, QUICK, run, device="cpu", checkpoint_seconds=0.0)

    pids, limit = start(before, fit_slowly, tmp_path), time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < limit:
        time.sleep(0.01)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert finish(pids) == [-signal.SIGKILL] * before and not (run / "embedding.safetensors").exists()

    def fit(rank):
        with processes.together("cpu"):
            plan2vec.fit(sequences, QUICK, run, device="cpu")

    assert finish(start(after, fit, tmp_path)) == [0] * after
    assert_same_fit(run, whole)
    continued = [
        line for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        if line["stage"] == "embedding"
    ]
    assert len([line for line in continued if line.get("update") == 0]) == 1  # the first update was not made again


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.num_frames = nn.Linear(2, 3), 0

    def forward(self, images):
        self.num_frames += len(images)
        return self.linear(images)


def test_a_process_encodes_its_share_of_a_batch_and_gets_the_gradients_of_all(tmp_path):
    torch.manual_seed(0)
    network, points = Counting(), torch.randn(7, 2)

    def gradients(rank=0):
        network.zero_grad()
        network.num_frames = 0
        vectors = processes.in_shares(7, lambda part: network(points[part]), 100)
        # one term on vectors, one not
        (torch.cdist(vectors, vectors).square().mean() + network.linear.weight.square().sum()).backward()
        processes.average_gradients(network.parameters())
        return network.num_frames, vectors.detach().numpy(), network.linear.weight.grad.numpy()

    (_, vectors, gradient), shares = gradients(), answers_of(2, gradients, tmp_path)
    assert [share[0] for share in shares] == [3, 4]
    for share in shares:
        np.testing.assert_allclose(share[1], vectors, rtol=1e-6)
        np.testing.assert_allclose(share[2], gradient, rtol=1e-5)


def test_batch_normalization_is_that_of_the_whole_batch(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    images = torch.randn(9, 1, 8, 8) * torch.arange(1, 10)[:, None, None, None]  # the halves of the batch differ

    def one_update(rank=0):
        frames = FrameTensors(np.zeros((9, 8, 8, 1), np.uint8), torch.device("cpu"))
        at_once = frames.at_once_in_training(network)
        vectors = processes.in_shares(9, lambda part: network(images[part]), at_once)
        torch.cdist(vectors, vectors).square().mean().backward()
        processes.average_gradients(network.parameters())
        layer = network[1]
        return [
            tensor.detach().numpy()
            for tensor in (
                vectors, network[0].weight.grad, layer.weight.grad, layer.running_mean, layer.running_var,
                layer.num_batches_tracked
            )
        ]

    shared = answers_of(2, one_update, tmp_path)
    for ours in shared:
        for got, expected in zip(ours, one_update(), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
        network.zero_grad()
        network[1].reset_running_stats()


@pytest.mark.parametrize("setting", [{"jitter": 0.2}, {"brightness": 0.3}, {"noise": 0.1}])
def test_a_share_of_a_batch_is_augmented_as_among_all(setting):
    frames = FrameTensors(
        np.random.default_rng(0).integers(256, size=(6, 8, 8, 1), dtype=np.uint8), torch.device("cpu")
    )
    images, config = frames(np.arange(6)), Augmentation(**setting)
    changes = draw_changes(config, frames, 6, np.random.default_rng(0))
    every, part = augment(images, config, changes), slice(2, 5)
    assert torch.equal(augment(images[part], config, changes, part), every[part])
    assert not torch.equal(every, images)


def test_encodings_neighbours_and_distances_are_the_same_bytes_in_three_processes(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("plan2vec.graph.neighbors.TILE", 64)
    graph, sources = load_graph(whole / "graph.npz").graph, np.arange(40)
    frames = simulate("c-maze", 30, seed=2).frames
    torch.manual_seed(0)
    encoder, images = make_encoder("small", frames, 4), FrameTensors(frames, torch.device("cpu"))
    batches = images.batches(100)
    monkeypatch.setattr(images, "batches", lambda: batches)
    calls = []
    encoder.register_forward_hook(lambda *_: calls.append(1))

    def compute(rank=0):
        calls.clear()
        vectors = encode(encoder, images)
        pairs = near_pairs(vectors, 0.05, 20, torch.device("cpu"))
        return len(calls), vectors, pairs.first, pairs.second, pairs.distance, distances_from_on(
            torch.device("cpu"), graph, sources
        )

    expected = compute()
    assert len(expected[2]) > 100 and np.array_equal(expected[-1], distances_from(graph, sources))
    for rank, found in enumerate(answers_of(3, compute, tmp_path)):
        assert (expected[0], found[0]) == (3, 1), rank
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(found[1:], expected[1:], strict=True))


def run_cli(arguments, folder, num=2):
    """Exit codes, and all that the processes printed on standard output and on standard error."""

    def run(rank):
        sys.exit(cli.main([str(argument) for argument in arguments]))

    codes = finish(start(num, run, folder))
    return codes, *("".join((folder / f"{name}-{rank}").read_text() for rank in range(num)) for name in ("out", "err"))


def test_bad_recordings_end_all_processes_with_one_line(tmp_path):
    codes, out, errors = run_cli(
        ["fit", tmp_path / "nowhere.npz", "--out", tmp_path / "run", "--device", "cpu"], tmp_path
    )
    assert codes == [2, 2] and out == "" and not (tmp_path / "run").exists()
    assert len(errors.splitlines()) == 1 and "nowhere.npz: does not exist" in errors


def test_recordings_in_which_nothing_can_be_learned_are_refused_by_all_processes_with_one_line(tmp_path):
    frames = np.zeros((6, 8, 8), np.uint8)
    frames[3:] = 9  # two sequences in which nothing moves
    np.savez(tmp_path / "still.npz", frames=frames, sequence=np.repeat((0, 1), 3))
    codes, _, errors = run_cli(["fit", tmp_path / "still.npz", "--out", tmp_path / "run", "--device", "cpu"], tmp_path)
    refusals = [line for line in errors.splitlines() if line.startswith("plan2vec:")]
    assert codes == [2, 2] and len(refusals) == 1 and "nothing to learn" in refusals[0]


def test_other_commands_are_refused_in_several_processes(tmp_path):
    codes, _, errors = run_cli(["bench", "same-map"], tmp_path)
    assert codes == [2, 2] and len(errors.splitlines()) == 1 and "without torchrun" in errors


def test_a_device_that_several_processes_cannot_use_is_refused_with_one_line(tmp_path):
    codes, _, errors = run_cli(["demo", "--out", tmp_path / "run", "--device", "mps"], tmp_path)
    assert codes == [2, 2] and len(errors.splitlines()) == 1 and "need --device cpu or cuda" in errors


def fail():
    raise ValueError("the disk of machine 1 is full")


@pytest.mark.parametrize(
    ("end", "code", "line"),
    [
        (fail, 2, "plan2vec: the disk of machine 1 is full"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), -9, "another process of this run"),
    ],
)
def test_a_process_that_ends_ends_the_others_at_once_with_one_line(tmp_path, monkeypatch, end, code, line):
    monkeypatch.setattr(
        "plan2vec.commands.fitting.fit",
        lambda *_: end() if not processes.is_first() else processes.concatenated([0, 1], np.atleast_1d)
    )
    np.savez(tmp_path / "line.npz", observations=np.arange(12.0)[:, None])
    began = time.monotonic()
    codes, _, errors = run_cli(["fit", tmp_path / "line.npz", "--out", tmp_path / "run", "--device", "cpu"], tmp_path)
    assert codes == [2, code] and time.monotonic() - began < 30
    refusals = [text for text in errors.splitlines() if text.startswith("plan2vec:")]
    assert len(refusals) == 1 and line in refusals[0]


def test_variables_that_torchrun_would_not_set_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ValueError, match="WORLD_SIZE must be a whole number, but is 'two'"):
        processes.asked_size()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="RANK, .*not set; start with torchrun"), processes.together("cpu"):
        pass

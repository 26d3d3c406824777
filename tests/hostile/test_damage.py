"""Damaged run folders: one line names the file and the remedy; nothing crashes, nothing wrong is used in silence."""

import json
import multiprocessing
import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import plan2vec
from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.runs.changing import changing_run
from plan2vec.runs.products import COVERED, write_manifest
from plan2vec.runs.struck import judge, read_judged

QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=5, batch_size=16),
    embedding=EmbeddingConfig(num_updates=5, goals_per_update=8, nodes_per_update=16, goals_per_round=16),
)


def recordings(seed: int) -> plan2vec.Sequences:
    walks = np.random.default_rng(seed).normal(0, 0.2, (6, 20, 2)).cumsum(axis=1)
    return plan2vec.make_sequences(walks.reshape(-1, 2), np.repeat(np.arange(6), 20))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fitted") / "run"
    plan2vec.fit(recordings(0), QUICK, folder, device="cpu")
    return folder


@pytest.fixture
def run(fitted, tmp_path) -> Path:
    shutil.copytree(fitted, tmp_path / "run")
    return tmp_path / "run"


def refusal(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("plan2vec: ")
    return lines[-1]


# ---------------------------------------------------------------------------------------------------- the manifest


@pytest.mark.parametrize("name", COVERED)
def test_a_flipped_byte_is_seen_and_the_file_named(run, name, capsys):
    path = run / name
    data, times = bytearray(path.read_bytes()), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert name in refusal(capsys, "plan", str(run), "--start", "0", "--goal", "5")
    os.utime(path, ns=times)  # damage that keeps its time is found by reading
    for command in ("evaluate", "check"):
        line = refusal(capsys, command, str(run))
        assert name in line and ("restore it" in line or "fit again" in line)


@pytest.mark.parametrize("name", COVERED)
def test_a_cut_or_missing_file_is_named(run, name, capsys):
    whole = (run / name).read_bytes()
    for rest in (whole[: len(whole) // 2], b""):
        (run / name).write_bytes(rest)
        assert name in refusal(capsys, "evaluate", str(run))
    (run / name).unlink()
    assert name in refusal(capsys, "evaluate", str(run)) or name == "data.json"  # without it, it is no run folder


def test_files_of_another_run_are_not_taken_for_its_own(run, tmp_path, capsys):
    plan2vec.fit(recordings(1), QUICK, tmp_path / "other", device="cpu")
    for name in ("vectors.npy", "graph.npz", "embedding.safetensors"):
        shutil.copy2(run / name, tmp_path / "kept")
        shutil.copy2(tmp_path / "other" / name, run / name)
        assert name in refusal(capsys, "plan", str(run), "--start", "0", "--goal", "5")
        shutil.copy2(tmp_path / "kept", run / name)


def test_a_copied_run_is_as_good_as_the_first(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "copy", copy_function=shutil.copyfile)  # with other times
    assert main(["check", str(tmp_path / "copy"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["damaged"] == 0 and answer["made_with"]["threads"] >= 1
    assert plan2vec.load(tmp_path / "copy", "cpu").graph.nnz == plan2vec.load(run, "cpu").graph.nnz


# ---------------------------------------------------------------------------------------------------- numbers that lead
# nowhere


def spoil_graph(folder: Path, **changes) -> None:
    with np.load(folder / "graph.npz") as file:
        arrays = {name: file[name].copy() for name in file.files}
    for name, change in changes.items():
        arrays[name] = change(arrays[name])
    np.savez(folder / "graph.npz", **arrays)
    write_manifest(folder)  # as who made the folder can


def first_becomes(value):
    def change(array):
        array = array.copy()
        array[0] = value
        return array

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": first_becomes(10**9)}, {"indices": first_becomes(-7)}, {"indptr": first_becomes(5)},
        {"indptr": lambda array: array[::-1]}, {"data": first_becomes(-1.0)}, {"data": first_becomes(np.nan)},
        {"data": first_becomes(np.inf)}, {"shape": lambda array: array * 1000}, {"shape": lambda array: array[:1]},
        {"data": lambda array: array[:-3]}, {"indices": lambda array: array.astype(float)},
        {"indptr": lambda array: array[:-1], "shape": lambda array: array - 1},
    ],
    ids=["far", "negative", "begin", "backwards", "negative-length", "nan", "inf", "large", "flat", "cut", "float",
         "small"],
)
def test_a_graph_that_leads_outside_itself_is_refused(run, changes, capsys):
    spoil_graph(run, **changes)
    assert "graph.npz" in refusal(capsys, "plan", str(run), "--start", "0", "--goal", "5")


@pytest.mark.parametrize(
    "change", [lambda v: v[:, :3], lambda v: v * np.nan, lambda v: v[:-1], lambda v: v.astype(float)]
)
def test_vectors_that_do_not_fit_are_refused(run, change, capsys):
    np.save(run / "vectors.npy", change(np.load(run / "vectors.npy")))
    write_manifest(run)
    assert "vectors.npy" in refusal(capsys, "plan", str(run), "--start", "0", "--goal", "5")


def test_consent_to_pickles_is_not_taken_from_a_run(run):
    data = json.loads((run / "data.json").read_text())
    data["options"]["trust_pickle"] = True
    (run / "data.json").write_text(json.dumps(data))
    write_manifest(run)
    assert plan2vec.load(run, "cpu").sequences.options.trust_pickle is False


def test_a_network_that_left_the_numbers_is_never_stored(tmp_path):
    import torch

    from plan2vec.runs.products import save_module

    module = torch.nn.Linear(2, 2)
    with torch.no_grad():
        module.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="convergence"):
        save_module(tmp_path / "network.safetensors", module)
    assert not list(tmp_path.iterdir())


def test_a_learning_rate_that_is_no_number_is_refused_before_a_folder_is_made(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", observations=recordings(0).frames)
    settings = [
        ("--embedding.learning-rate", "inf"), ("--local-metric.batch-size", "0"), ("--closures.max-neighbors", "-5"),
        ("--encoder", "..x:y"), ("--encoder", "nope")
    ]
    for setting in settings:
        refusal(capsys, "fit", str(tmp_path / "a.npz"), "--out", str(tmp_path / "run"), *setting)
        assert not (tmp_path / "run").exists(), setting


# ---------------------------------------------------------------------------------------------------- one writer


def test_a_second_writer_is_told_who_is_first(run):
    code = "import sys, pathlib\nfrom plan2vec.runs.changing import changing_run\n" \
           "with changing_run(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.readline()"
    first = subprocess.Popen([sys.executable, "-c", code, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first.stdout.readline()
    try:
        for change in (
            lambda: plan2vec.add(run, recordings(1), device="cpu"), lambda: plan2vec.fit(recordings(0), QUICK, run)
        ):
            with pytest.raises(ValueError, match=f"being changed by process {first.pid}"):
                change()
        assert plan2vec.load(run, "cpu").plan(0, 5) is not None  # reading is free
    finally:
        first.communicate(b"\n")
    with changing_run(run):
        pass


def strike_some(folder: Path, pairs: list) -> None:
    model = plan2vec.load(folder, "cpu")
    for pair in pairs:
        judge(folder, model.graph, model.sequences.sequence, [pair])


def test_strikes_of_two_processes_are_all_remembered(run):
    model = plan2vec.load(run, "cpu")
    closure = closure_entries(model.graph, model.sequences.sequence) & (edge_rows(model.graph) < model.graph.indices)
    pairs = list(zip(edge_rows(model.graph)[closure].tolist(), model.graph.indices[closure].tolist(), strict=True))[:20]
    assert len(pairs) == 20
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=strike_some, args=(run, part)) for part in (pairs[::2], pairs[1::2])]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(read_judged(run).struck) == sorted(pairs)


# ---------------------------------------------------------------------------------------------------- permissions


def test_every_file_of_a_run_has_the_mode_that_the_user_chose(tmp_path):
    before = os.umask(0o027)
    try:
        plan2vec.fit(recordings(0), QUICK, tmp_path / "run", device="cpu")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir() if path.is_file()}
    assert set(modes.values()) == {0o640}, modes


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write everywhere")
def test_a_run_that_may_not_be_written_to_still_answers(fitted):
    """As another user, where this is root; in a folder that both may enter, as pytest's own are not."""
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if subprocess.run([*become, sys.executable, "-c", "import numpy"], capture_output=True).returncode:
        pytest.skip("another user cannot start this Python")
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        run = Path(shutil.copytree(fitted, Path(place) / "run"))
        for path in (run, *run.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        Path(place, "free").mkdir(mode=0o777)
        Path(place, "free").chmod(0o777)
        asked = ["plan", str(run), "--start", "0", "--goal", "5", "--method", "dijkstra"]
        progress = ["progress", str(run), "--goals", "0:19", "--out", f"{place}/free/p.csv"]
        export = ["export", str(run), "--format", "csv", "--out", f"{place}/free/tables"]
        for command in (asked, ["evaluate", str(run)], ["closures", str(run)], ["audit", str(run)], progress, export):
            done = subprocess.run(
                [*become, sys.executable, "-m", "plan2vec", *command, "--json", "--device", "cpu"], capture_output=True,
                text=True, env=os.environ | {"HOME": "/tmp", "MPLCONFIGDIR": "/tmp"},
            )
            assert done.returncode == 0 and json.loads(done.stdout), done.stderr
        for path in (run, *run.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_pickled_array_that_lies_about_its_kind_is_refused_and_does_not_crash(tmp_path):
    """numpy's own reconstruction takes eight bytes for a pointer where the kind says object."""
    data = pickle.dumps({"observations": np.arange(20.0).reshape(10, 2)}, protocol=2)
    assert data.count(b"f8") == 1
    (tmp_path / "lie.pkl").write_bytes(data.replace(b"f8", b"O8"))
    with pytest.raises(ValueError, match=r"lie\.pkl"):
        plan2vec.read(tmp_path / "lie.pkl", plan2vec.ReadOptions(trust_pickle=True))


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", ["struck.json", "manifest.json", "config.json", "graph.npz"])
def test_a_folder_or_a_pipe_in_place_of_a_file_is_refused_in_one_line(run, name, make, capsys):
    (run / name).unlink(missing_ok=True)
    make(run / name)
    assert name in refusal(capsys, "plan", str(run), "--start", "0", "--goal", "5")


def test_a_network_without_its_accuracy_is_refused_in_one_line(run, capsys):
    from safetensors.numpy import load_file, save_file

    save_file(load_file(run / "local_metric.safetensors"), run / "local_metric.safetensors")  # its metadata is lost
    write_manifest(run)
    assert "local_metric.safetensors is damaged" in refusal(capsys, "plan", str(run), "--start", "0", "--goal", "5")

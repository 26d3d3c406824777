"""The commands as a user meets them: real processes' exit codes are main's return value, output is what is printed."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plan2vec.commands.arguments import Demo, parse
from plan2vec.commands.fitting import demo_name
from plan2vec.commands.main import main
from plan2vec.config import Config, preset
from plan2vec.data import make_sequences
from plan2vec.domains.maze import simulate
from plan2vec.readers.npz import write_npz

QUICK = (
    "--local-metric.num-updates", "80", "--local-metric.batch-size", "64", "--embedding.num-updates", "40",
    "--embedding.goals-per-update", "32", "--embedding.nodes-per-update", "64", "--device", "cpu",
)
SCORECARD = {
    "num_frames", "num_edges", "num_components", "largest_component_share", "local_accuracy", "embedding_error",
    "spearman_graph", "success_graph", "path_ratio", "touched_per_step", "expanded_per_step", "success",
    "spearman_true", "false_edge_share", "loop_closures", "plan_validity", "plan_validity_10", "plan_validity_14",
    "unreachable", "greedy_validity", "revisit_recall", "auprc", "recall_at_99_precision", "recall_at_100_precision",
    "seconds", "device", "seed", "version"
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "maze.npz"
    write_npz(path, simulate("c-maze", 60, seed=1))
    return path


@pytest.fixture(scope="module")
def run(recordings, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "maze"
    assert main(["fit", str(recordings), "--out", str(out), *QUICK]) == 0
    return out


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Reports without pictures: other tests look at those."""
    monkeypatch.setattr("plan2vec.commands.fitting.write_report", lambda *arguments: None)


def answer(capsys, *arguments: str) -> dict:
    """The one JSON object that a command prints."""
    assert main([*arguments, "--json"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


def refusal(capsys, *arguments: str) -> str:
    """The one line that a user's mistake gets, with exit code 2 and nothing on standard output."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.strip().splitlines()[-1]
    assert line.startswith("plan2vec: ") and "Traceback" not in captured.err
    return line


def test_fit_leaves_every_product_of_a_run_folder(run):
    names = {path.name for path in run.iterdir()}
    assert {
        "config.json", "data.json", "frames.npy", "index.npz", "local_metric.safetensors", "graph.npz",
        "embedding.safetensors", "vectors.npy", "scorecard.json", "metrics.jsonl", "report.html", "figures"
    } <= names
    assert not list(run.glob("**/*.tmp*")) and not list((run / "checkpoints").glob("*"))


def test_fitting_again_repeats_nothing_and_succeeds(run, recordings, capsys):
    before = {
        path.name: path.stat().st_mtime_ns for path in run.glob("*.npz")
    } | {"v": (run / "vectors.npy").stat().st_mtime_ns}
    answer(capsys, "fit", str(recordings), "--out", str(run), *QUICK)
    assert before == {
        path.name: path.stat().st_mtime_ns for path in run.glob("*.npz")
    } | {"v": (run / "vectors.npy").stat().st_mtime_ns}


def test_evaluate_prints_the_scorecard_by_the_names_that_programs_rely_on(run, capsys):
    card = answer(capsys, "evaluate", str(run), "--episodes", "50")
    assert set(card) >= SCORECARD
    assert set(card["touched_per_step"]) == {"dijkstra", "astar", "greedy"} == set(card["expanded_per_step"])
    assert {"local_metric", "graph", "embedding"} <= set(card["seconds"])
    assert json.loads((run / "scorecard.json").read_text()) == card


def test_a_success_radius_as_wide_as_the_room_makes_every_walk_a_success(run, capsys):
    assert answer(capsys, "evaluate", str(run), "--episodes", "50", "--success-radius", "9")["success"] == 1.0


def test_all_methods_agree_with_dijkstra_on_what_a_path_is(run, capsys):
    exact = answer(capsys, "plan", str(run), "--start", "5", "--goal", "3:4", "--method", "dijkstra")
    assert exact["nodes"] is not None and exact["goal"] == 34
    for method in ("astar", "greedy", "lookahead"):
        made = answer(capsys, "plan", str(run), "--start", "5", "--goal", "34", "--method", method)
        if made["nodes"] is not None:
            assert made["length"] >= exact["length"] - 1e-4
            assert made["nodes"][0] == 5 and made["nodes"][-1] == 34
            assert Path(made["strip"]).exists()


def test_an_image_file_is_found_on_the_map(run, capsys, tmp_path):
    frame = np.load(run / "frames.npy", mmap_mode="r")[77]
    Image.fromarray(np.ascontiguousarray(frame[..., 0])).save(tmp_path / "goal.png")
    made = answer(
        capsys, "plan", str(run), "--start", "5", "--goal", str(tmp_path / "goal.png"), "--method", "dijkstra"
    )
    again = np.load(run / "frames.npy", mmap_mode="r")[made["goal"]]
    assert (again == frame).all()  # the very frame, or one equal to the last pixel


def test_an_image_of_something_else_is_not_on_the_map(run, capsys, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    made = answer(capsys, "plan", str(run), "--start", "5", "--goal", str(tmp_path / "noise.png"))
    assert made["nodes"] is None and "not on the map" in made["reason"]


def test_no_path_is_an_answer_that_names_the_parts(undrawn, tmp_path, capsys):
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(0, 0.1, (80, 2)), axis=0).astype(np.float32)
    far = np.concatenate((walk, walk + 1000))  # two recordings that never meet
    write_npz(tmp_path / "two.npz", make_sequences(far, np.repeat([0, 1], 80)))
    answer(capsys, "fit", str(tmp_path / "two.npz"), "--out", str(tmp_path / "run"), *QUICK)
    made = answer(capsys, "plan", str(tmp_path / "run"), "--start", "3", "--goal", "90", "--method", "astar")
    assert made["nodes"] is None and made["parts"] == [0, 1] and "part 0" in made["reason"]


def test_the_demo_names_its_folder_after_what_was_changed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    card = answer(
        capsys, "demo", "--room", "table", "--num-rollouts", "30", "--dim", "2", *QUICK[:-2], "--out", "runs/t"
    )
    assert card["num_frames"] == 300 and (tmp_path / "runs/t/report.html").exists()
    few = ("--num-rollouts", "12", "--local-metric.num-updates", "5", "--embedding.num-updates", "5")
    monkeypatch.setattr("plan2vec.commands.fitting.write_report", lambda *arguments: None)  # drawn once
    answer(capsys, "demo", "--dim", "2", *few)
    assert len(list((tmp_path / "runs").glob("demo-c-maze-rollouts-12-dim-2-*"))) == 1


def test_a_demo_and_a_fit_start_from_the_same_default_and_both_from_what_is_typed():
    fit = ["fit", "here.npz", "--out", "there"]
    assert parse(["demo"]).config == preset("default") == Demo().config == parse(fit).config == Config()
    for name in ("default", "paper"):
        assert parse(["demo", "--preset", name]).config == parse([*fit, f"--preset={name}"]).config == preset(name)
    assert demo_name(parse(["demo", "--room", "open"])) == "demo-open"
    assert demo_name(parse(["demo", "--dim", "3"])) == "demo-c-maze-dim-3"


def test_pure_noise_warns_and_finishes(undrawn, tmp_path, capsys):
    noise = np.random.default_rng(0).integers(0, 255, (60, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", frames=noise)
    assert main(["fit", str(tmp_path / "noise.npz"), "--out", str(tmp_path / "run"), *QUICK]) == 0
    assert "one sequence only" in capsys.readouterr().err


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip()[0].isdigit()


# ------------------------------------------------------------------------------------------------ refusals


def test_a_missing_file_is_refused(capsys, tmp_path):
    assert "does not exist" in refusal(capsys, "fit", str(tmp_path / "no.npz"), "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("typed", "words"), [
    (("plan",), "RUN run folder (required)"),
    (("fit", "a.npz", "--out", "run", "--epochs", "5"), "Unrecognized options: --epochs, 5"),
    (("demo", "--seed"), "Missing value for argument '--seed'"),
])
def test_what_cannot_be_understood_gets_one_line_without_a_frame(capsys, typed, words):
    line = refusal(capsys, *typed)
    assert words in line and line.endswith(f"(plan2vec {typed[0]} --help)") and "─" not in line and "│" not in line


def frames(num: int = 20) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (num, 16, 16), dtype=np.uint8)


BAD = {
    "float frames": ({"frames": frames().astype(float)}, "uint8"),
    "two axes": ({"frames": frames()[0]}, "axes"),
    "no frames": ({"pictures": frames()}, "exactly one of `frames`, `observations` and `features`"),
    "both": ({"frames": frames(), "observations": np.zeros((20, 2))}, "exactly one"),
    "NaN": ({"observations": np.full((20, 2), np.nan)}, "finite"),
    "zero frames": ({"frames": frames(0)}, "at least 2 frames"),
    "one frame": ({"frames": frames(1)}, "at least 2 frames"),
    "sequences of length 1": ({"frames": frames(), "sequence": np.arange(20)}, "length 1"),
    "constant video": ({"frames": np.zeros((20, 16, 16), np.uint8)}, "frames are equal"),
    "unequal lengths": ({"frames": frames(), "sequence": np.zeros(19, int)}, "19 entries for 20 frames"),
    "labels that come back": ({"frames": frames(), "sequence": np.arange(20) % 2}, "contiguous"),
    "text labels": ({"frames": frames(), "sequence": np.array(["a"] * 20)}, "integers"),
    "text positions": ({"frames": frames(), "position": np.array(["a"] * 20)}, "numbers"),
    "a negative step": ({"frames": frames(), "step_length": np.full(20, -1.0)}, "step_length"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_recordings_get_one_line_and_leave_nothing(name, capsys, tmp_path):
    arrays, words = BAD[name]
    np.savez(tmp_path / "bad.npz", **arrays)
    line = refusal(capsys, "fit", str(tmp_path / "bad.npz"), "--out", str(tmp_path / "run"), *QUICK)
    assert words in line and "bad.npz" in line
    assert not (tmp_path / "run").exists()


def test_a_truncated_file_is_refused(capsys, tmp_path, recordings):
    (tmp_path / "cut.npz").write_bytes(recordings.read_bytes()[:-2000])
    assert "cut.npz" in refusal(capsys, "fit", str(tmp_path / "cut.npz"), "--out", str(tmp_path / "run"))


def test_other_data_and_other_settings_are_refused_by_name(run, recordings, capsys, tmp_path):
    line = refusal(
        capsys, "fit", str(recordings), "--out", str(run), *QUICK, "--dim", "3", "--local-metric.loss", "nce"
    )
    assert "dim (32 there, 3 now)" in line and "local_metric.loss (hinge there, nce now)" in line
    write_npz(tmp_path / "other.npz", simulate("open", 20, seed=5))
    assert "other data" in refusal(capsys, "fit", str(tmp_path / "other.npz"), "--out", str(run), *QUICK)


def test_a_folder_of_the_users_is_never_written_into(recordings, capsys, tmp_path):
    (tmp_path / "frames.npy").write_text("mine")
    assert "is no run folder" in refusal(capsys, "fit", str(recordings), "--out", str(tmp_path), *QUICK)
    assert [
        path.name for path in tmp_path.iterdir()
    ] == ["frames.npy"] and (tmp_path / "frames.npy").read_text() == "mine"


@pytest.mark.parametrize("start", ["600", "-1", "1:10", "99:0", "left", "1.5"])
def test_a_start_out_of_range_is_refused_with_the_range(run, capsys, start):
    line = refusal(capsys, "plan", str(run), f"--start={start}", "--goal", "3")
    assert "start" in line and ("599" in line or "sequence" in line)


def test_an_unreadable_image_is_refused(run, capsys, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    assert "text.png" in refusal(capsys, "plan", str(run), "--start", str(tmp_path / "text.png"), "--goal", "3")


def test_an_unfinished_or_missing_run_is_refused(capsys, tmp_path):
    assert "is not a run folder" in refusal(capsys, "evaluate", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "setting",
    [
        ("--dim", "0"),
        ("--radius", "-1"),
        ("--holdout", "1"),
        ("--norm-order", "0.5"),
        ("--directed", "--head", "lp"),
        ("--encoder", "nope"),
        ("--embedding.num-rounds", "0"),
        ("--closures.max-neighbors", "0"),
        ("--closures.max-false", "-1"),
        ("--closures.max-false", "2"),
    ],
)
def test_impossible_settings_are_refused(recordings, capsys, tmp_path, setting):
    refusal(capsys, "fit", str(recordings), "--out", str(tmp_path / "run"), *QUICK, *setting)
    assert not (tmp_path / "run" / "local_metric.safetensors").exists()


def test_a_full_disk_gets_one_line_and_leaves_no_half_file(undrawn, recordings, tmp_path):
    """Files may not grow beyond 1 MB: frames.npy (2.4 MB) cannot be written."""
    command = [sys.executable, "-m", "plan2vec", "fit", str(recordings), "--out", str(tmp_path / "run"), *QUICK]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))  # noqa: E731
    done = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=limit, env=os.environ | {"MPLBACKEND": "agg"}
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.strip().splitlines()[-1].startswith("plan2vec: ") and "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob("**/*.tmp*")) and not (tmp_path / "run" / "frames.npy").exists()
    assert main(command[3:]) == 0  # with room on the disk the same command goes on

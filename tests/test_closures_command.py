"""`plan2vec closures` and `plan2vec add` as a user meets them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plan2vec import fit, load
from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import make_sequences
from plan2vec.domains.maze import simulate
from plan2vec.graph.build import edge_rows
from plan2vec.learning.gradient_loop import Journal
from plan2vec.readers.npz import write_npz
from plan2vec.runs.products import load_graph
from plan2vec.runs.struck import judge, read_judged

QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=30, batch_size=32),
    embedding=EmbeddingConfig(num_updates=30, goals_per_update=16, nodes_per_update=32, goals_per_round=32),
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fitted") / "run"
    fit(simulate("c-maze", 24, seed=1), QUICK, folder, "cpu")
    return folder


@pytest.fixture
def run(fitted, tmp_path) -> Path:
    return Path(shutil.copytree(fitted, tmp_path / "run"))


def answer(capsys, *arguments: object) -> dict:
    """The one JSON object that a command prints."""
    capsys.readouterr()
    assert main([*map(str, arguments), "--device", "cpu", "--json"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


def refusal(capsys, *arguments: object) -> str:
    """The one line that a user's mistake gets, with exit code 2 and nothing on standard output."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.strip().splitlines()) == 1
    return captured.err.strip()


def joined_pairs(graph) -> set[tuple[int, int]]:
    return set(zip(edge_rows(graph).tolist(), graph.indices.tolist(), strict=True))


def name_of(closure: dict) -> str:
    return f"{closure['first']}-{closure['second']}"


def test_the_list_holds_closures_of_the_graph_the_most_used_first(run, capsys):
    listed = answer(capsys, "closures", run, "--num", 7)
    model = load(run, "cpu")
    shares = [closure["paths"] for closure in listed["closures"]]
    assert len(shares) == 7 and shares == sorted(shares, reverse=True) and 0 < shares[0] <= 1
    for closure in listed["closures"]:
        first, second = closure["first"], closure["second"]
        assert model.graph[first, second] == pytest.approx(closure["distance"], abs=1e-3)
        assert [model.frame_number(name) for name in closure["names"]] == [first, second]
    assert listed["map_up_to_date"] is True and listed["struck"] == []


def test_the_picture_shows_the_pairs_and_goes_where_it_was_asked_to(run, capsys, tmp_path):
    listed = answer(capsys, "closures", run, "--num", 4, "--picture", tmp_path / "pairs.png")
    assert listed["picture"] == str(tmp_path / "pairs.png")
    answer(capsys, "closures", run, "--num", 7)
    with Image.open(tmp_path / "pairs.png") as few, Image.open(run / "figures" / "suspicious.png") as more:
        assert more.width == few.width and more.height > few.height  # three pairs a row


def test_a_strike_leaves_graph_and_map_in_agreement(run, capsys):
    worst = answer(capsys, "closures", run, "--num", 1)["closures"][0]
    before = (run / "vectors.npy").read_bytes()
    (run / "scorecard.json").write_text("{}")
    struck = answer(capsys, "closures", run, "--strike", name_of(worst), "--num", 3)
    model, pair = load(run, "cpu"), (worst["first"], worst["second"])
    assert struck["struck"] == [list(pair)] and struck["map_up_to_date"] is True and struck["updates"] == 10
    assert pair not in joined_pairs(model.graph) and pair[::-1] not in joined_pairs(model.graph)
    assert name_of(worst) not in map(name_of, struck["closures"])
    assert (run / "vectors.npy").read_bytes() != before
    np.testing.assert_allclose(model.embed(model.sequences.frames[:20]), model.vectors[:20], atol=1e-4)
    assert not (run / "scorecard.json").exists()  # it described the map as it was
    assert {line["update"] for line in Journal(run).records() if line["stage"] == "fine_tuning"} == set(range(10))


def test_several_strikes_can_be_given_at_once_and_the_map_updated_later(run, capsys):
    names = [name_of(closure) for closure in answer(capsys, "closures", run, "--num", 3)["closures"]]
    before = (run / "vectors.npy").read_bytes()
    listed = answer(capsys, "closures", run, "--strike", names[0], "--strike", f"{names[1]},{names[2]}", "--no-update")
    assert sorted(map(tuple, listed["struck"])) == sorted(tuple(map(int, name.split("-"))) for name in names)
    assert listed["map_up_to_date"] is False and (run / "vectors.npy").read_bytes() == before
    assert answer(capsys, "closures", run)["map_up_to_date"] is False
    assert answer(capsys, "closures", run, "--update", "--num-updates", 2)["updates"] == 2
    assert "updates" not in answer(capsys, "closures", run, "--update")  # nothing is left to do


def test_a_strike_of_the_explorer_is_followed_by_update(run, capsys):
    model = load(run, "cpu")
    worst = answer(capsys, "closures", run, "--num", 1)["closures"][0]
    judge(run, model.graph, model.sequences.sequence, [(worst["first"], worst["second"])])
    assert main(["closures", str(run), "--device", "cpu"]) == 0
    assert f"`plan2vec closures {run} --update` brings it up to date" in capsys.readouterr().err
    assert answer(capsys, "closures", run, "--update")["map_up_to_date"] is True


def test_keep_takes_a_strike_back_and_a_kept_closure_is_not_listed_again(run, capsys):
    names = [name_of(closure) for closure in answer(capsys, "closures", run, "--num", 2)["closures"]]
    answer(capsys, "closures", run, "--strike", names[0], "--no-update")
    listed = answer(capsys, "closures", run, "--keep", names[0], "--keep", names[1])
    assert listed["struck"] == [] and [f"{a}-{b}" for a, b in listed["kept"]] == sorted(
        names, key=lambda name: int(name.split("-")[0])
    )
    assert not set(names) & set(map(name_of, listed["closures"])) and listed["map_up_to_date"] is True
    assert joined_pairs(load(run, "cpu").graph) == joined_pairs(load_graph(run / "graph.npz").graph)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--strike", "12"), "expected two frames with a hyphen"),
        (("--strike", "12-480-3"), "expected two frames with a hyphen"),
        (("--strike", "12-9999"), "frame number from 0 to 239"),
        (("--keep", "a-b"), "--keep a-b"),
        (("--strike", "3-4"), "recorded transition"),
        (("--strike", "5-5"), "twice"),
        (("--strike", "0:1-99:0"), "there is no sequence 99"),
        (("--update", "--no-update"), "contradict"),
        (("--num", "0"), "--num must be at least 1"),
    ],
)
def test_bad_names_get_one_line_and_change_nothing(run, capsys, flags, words):
    assert words in refusal(capsys, "closures", run, *flags)
    assert not (run / "struck.json").exists()


def test_one_bad_name_among_good_ones_strikes_none(run, capsys):
    good = name_of(answer(capsys, "closures", run, "--num", 1)["closures"][0])
    assert "hyphen" in refusal(capsys, "closures", run, "--strike", good, "--strike", "nonsense")
    assert "struck and kept at once" in refusal(capsys, "closures", run, "--strike", good, "--keep", good)
    assert read_judged(run).struck == ()


def test_vectors_are_listed_without_a_picture(tmp_path, capsys):
    walk = np.random.default_rng(0).normal(0, 0.1, (120, 2)).cumsum(axis=0)
    fit(make_sequences(walk, np.repeat(np.arange(4), 30)), QUICK, tmp_path / "run", "cpu")
    assert answer(capsys, "closures", tmp_path / "run", "--picture", tmp_path / "no.png")["picture"] is None
    assert not (tmp_path / "no.png").exists()


def test_add_prints_what_was_added_and_the_report_is_of_the_grown_map(run, capsys, tmp_path):
    write_npz(tmp_path / "more.npz", simulate("c-maze", 6, seed=8))
    report = answer(capsys, "add", run, tmp_path / "more.npz", "--num-updates", 3)
    assert report["frames"] == {"before": 240, "after": 300} and report["updates"] == 3 and report["seconds"] > 0
    assert set(report["closures"]) == {"new_old", "new_new"} and set(report["parts"]) == {"before", "after"}
    assert set(report["embedding_error"]) == {"before", "after"} and report["embedding_error_all"] > 0
    assert json.loads((run / "scorecard.json").read_text())["num_frames"] == 300
    assert answer(capsys, "plan", run, "--start", 5, "--goal", "24:3", "--method", "dijkstra")["goal"] == 243


def test_recordings_that_do_not_fit_the_map_get_one_line(run, capsys, tmp_path):
    np.savez(tmp_path / "small.npz", frames=np.random.default_rng(0).integers(0, 255, (20, 32, 32), dtype=np.uint8))
    line = refusal(capsys, "add", run, tmp_path / "small.npz")
    assert "(64, 64, 1)" in line and "(32, 32, 1)" in line and "small.npz" in line
    assert "does not exist" in refusal(capsys, "add", run, tmp_path / "nowhere.npz")
    assert "is not a run folder" in refusal(capsys, "add", tmp_path / "nowhere", tmp_path / "small.npz")

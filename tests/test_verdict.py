"""The verdict: bad maps are named, with the reason, a remedy and two commands; nothing advises a larger radius."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plan2vec.commands.arguments import parse
from plan2vec.commands.main import main
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import make_sequences
from plan2vec.domains import maze
from plan2vec.evaluation import evaluate
from plan2vec.pipeline import fit
from plan2vec.readers.npz import write_npz
from plan2vec.verdict import LINES, judged, make_verdict

ROOT = Path(__file__).parent.parent
GOOD = {
    "local_accuracy": 0.93, "recognized": 0.9, "estimated_false_closures": 0.004, "loop_closures": 900,
    "num_components": 1, "largest_component_share": 1.0, "reversibility": 0.4, "spearman_graph": 0.99,
    "embedding_error": 0.05, "success_graph": 0.95, "path_ratio": 1.1, "num_frames": 600, "directed": False,
    "view": "fixed", "repeated": 0.6, "flow": 0.5,
}
BRIEF = Config(
    local_metric=LocalMetricConfig(num_updates=150, batch_size=64),
    embedding=EmbeddingConfig(num_updates=10, goals_per_round=16)
)


def verdict_of(frames: np.ndarray, sequence: np.ndarray, config: Config = BRIEF):
    card = evaluate(fit(make_sequences(frames, sequence), config, device="cpu"))
    return card, make_verdict(card)


@pytest.fixture(scope="module")
def walks() -> tuple[np.ndarray, np.ndarray]:
    """Frames (300, 16, 16, 1) and sequence (300,) of a room."""
    room = maze.simulate("open", 30, 10, 0)
    return np.ascontiguousarray(room.frames[:, ::4, ::4]), room.sequence


# ---------------------------------------------------------------------------------------------------- by numbers


def test_a_good_scorecard_is_called_good_and_says_how_many_closures_may_be_false():
    verdict = make_verdict(GOOD, "runs/x")
    assert verdict.good and verdict.look_at == {} and "about 0.4% of its closures may be false" in verdict.sentence
    assert verdict.next == ("plan2vec plan runs/x --start 0 --goal 599", "plan2vec explore runs/x")


@pytest.mark.parametrize(
    ("changed", "number", "words"),
    [
        ({"estimated_false_closures": 0.11}, "estimated_false_closures", "About 1 in 9 closures may be false: this "
         "recording looks alike in many places. See `plan2vec closures`."),
        ({"recognized": 0.31, "loop_closures": 0}, "recognized", "No closures were believed: .* only 31%"),
        ({"local_accuracy": 0.69}, "local_accuracy", "noise, out of order or too few, or training was short"),
        ({"loop_closures": 0, "estimated_false_closures": 0.3}, "loop_closures", "the map is a line of recorded steps"),
        ({"num_components": 3, "largest_component_share": 0.52}, "largest_component_share", "3 parts that no path "
         "joins: plans exist inside each, and the largest holds 52%"),
        ({"reversibility": 0.04}, "reversibility", "Only 4% of the recorded steps are ever undone, but hops lead both"),
        ({"spearman_graph": 0.42}, "spearman_graph", "The map does not follow its own graph"),
        ({"plan_validity": 0.3}, "plan_validity", "Only 30% of the shortest paths are truly possible"),
        ({"cross_label_share": 0.89}, "cross_label_share", "89% of the closures join two labels"),
    ],
)
def test_a_bad_number_gives_the_reason_a_remedy_and_two_commands(changed, number, words):
    verdict = make_verdict(GOOD | changed, "runs/x")
    assert not verdict.good and re.search(words, verdict.sentence) and next(iter(verdict.look_at)) == number
    assert set(verdict.look_at) == set(changed) & set(judged(GOOD | changed))
    assert all(LINES[name].remedy in text for name, text in verdict.look_at.items())
    assert all(command in str(verdict) and command.startswith("plan2vec ") for command in verdict.next)


@pytest.mark.parametrize(
    ("changed", "headline"),
    [
        ({}, "Plan on this map."), ({"estimated_false_closures": 0.5}, "Do not plan on this map."),
        ({"recognized": 0.3, "loop_closures": 0}, "Plans only follow the recordings."),
        ({"largest_component_share": 0.5}, "Plan inside each part only."), ({"reversibility": 0.01}, "Plan with care."),
        ({"spearman_graph": 0.5}, "Plan with astar, not greedy."),
    ],
)
def test_the_headline_says_what_to_do_with_the_map_and_the_advice_what_to_do_first(changed, headline):
    verdict = make_verdict(GOOD | changed)
    assert verdict.headline == headline and verdict.advice
    assert verdict.good or verdict.advice == LINES[next(iter(verdict.look_at))].remedy


def test_where_plans_are_truly_possible_only_the_walks_are_blamed():
    walks = GOOD | {"spearman_true": 0.8, "success_graph": 0.7}
    assert make_verdict(walks).headline == "Plan with care." and "spearman_true" in make_verdict(walks).look_at
    verdict = make_verdict(walks | {"plan_validity": 0.99})
    assert verdict.headline == "Plan with astar, not greedy." and list(verdict.look_at) == ["success_graph"]
    assert verdict.sentence.startswith("The graph is good: 99.0% of its shortest paths are truly possible. Greedy")


def test_without_true_positions_the_verdict_says_what_nobody_can_know():
    assert make_verdict(GOOD).unknown.startswith("Without true positions nobody can know which closures are false.")
    assert "labels" in make_verdict(GOOD | {"cross_label_share": 0.0}).unknown
    for changed in ({"plan_validity": 1.0}, {"loop_closures": 0}):
        assert make_verdict(GOOD | changed).unknown == ""


def test_walks_that_all_arrive_prove_nothing_and_a_directed_or_moving_view_may_be_irreversible():
    assert "success_graph" not in judged({"success_graph": 1.0}) and judged({"success_graph": 0.5})
    for changed in ({"directed": True}, {"view": "moving"}):
        assert make_verdict(GOOD | changed | {"reversibility": 0.01}).good


def test_where_look_alikes_go_anywhere_or_steps_are_undone_as_often_as_repeated_nothing_is_said_about_undone_ones():
    assert make_verdict(GOOD | {"reversibility": 0.06, "repeated": 0.5, "flow": 0.05}).good
    assert make_verdict(GOOD | {"reversibility": 0.06, "repeated": 0.1, "flow": 0.6}).good
    assert not make_verdict(GOOD | {"reversibility": 0.06, "repeated": 0.5, "flow": 0.6}).good


def test_every_judged_number_has_a_remedy_and_every_flag_in_it_exists():
    assert [name for name, line in LINES.items() if (line.good is None) != (not line.remedy)] == []
    flags = set(re.findall(r"--[\w.-]*\w", " ".join(line.remedy for line in LINES.values()))) - {"--method"}
    values = {"--closures.support": ["both"], "--closures.max-false": ["0.001"], "--directed": []}
    assert len(flags) == 5 and set(values) < flags
    parse(["fit", "x", "--out", "y", *(word for flag in flags for word in (flag, *values.get(flag, ["4"])))])


def test_nothing_advises_to_raise_the_radius():
    advice = re.compile(r"(rais|larger|increas|bigger)\w*\W+(the\W+)?(--)?radius", re.IGNORECASE)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    assert [page.name for page in pages if advice.search(page.read_text(encoding="utf-8"))] == []


# ---------------------------------------------------------------------------------------------------- by tiny fits


def test_frames_shuffled_in_time_are_called_out_of_order(walks):
    frames, sequence = walks
    assert verdict_of(frames, sequence)[0]["local_accuracy"] > 0.8  # in order, they can be learned from
    card, verdict = verdict_of(np.random.default_rng(0).permutation(frames), sequence)
    assert not verdict.good and "out of order" in verdict.sentence and card["local_accuracy"] < 0.8


def test_pure_noise_is_called_noise(walks):
    noise = np.random.default_rng(0).integers(0, 256, walks[0].shape, dtype=np.uint8)
    card, verdict = verdict_of(noise, walks[1], replace(BRIEF, local_metric=LocalMetricConfig(num_updates=20)))
    assert not verdict.good and "noise" in verdict.sentence and card["local_accuracy"] < 0.8
    assert card["loop_closures"] == 0  # and no closure is believed


def test_one_way_that_never_comes_back_is_called_a_line():
    turn = np.linspace(0, 3, 300)
    card, verdict = verdict_of(np.stack((np.cos(turn), np.sin(turn), turn), axis=1), np.zeros(300, int))
    assert card["loop_closures"] == 0 and "the map is a line of recorded steps" in verdict.sentence


def test_two_recordings_that_never_meet_are_two_maps(walks):
    frames, sequence = walks
    both = np.concatenate((frames // 2, 255 - frames // 2)), np.concatenate((sequence, sequence + 1000))
    card, verdict = verdict_of(*both)
    assert card["num_components"] == 2 and card["largest_component_share"] == 0.5
    assert "The map has 2 parts that no path joins: plans exist inside each" in verdict.sentence


# ---------------------------------------------------------------------------------------------------- in the terminal


def test_fit_and_evaluate_end_with_the_verdict_and_the_numbers_come_with_verbose(walks, tmp_path, capsys):
    write_npz(tmp_path / "walks.npz", make_sequences(*walks))
    few = ["--local-metric.num-updates", "5", "--embedding.num-updates", "5"]
    run = str(tmp_path / "run")
    assert main(["fit", str(tmp_path / "walks.npz"), "--out", run, "--device", "cpu", *few]) == 0
    fitted = capsys.readouterr().out
    assert main(["evaluate", run, "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    assert main(["evaluate", run, "--device", "cpu", "--verbose"]) == 0
    verbose = capsys.readouterr().out
    assert main(["evaluate", run, "--device", "cpu", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert told == fitted and verbose.endswith(told) and "num_edges" in verbose and "num_edges" not in told
    verdict = make_verdict(card)
    assert card["verdict"]["sentence"] == verdict.sentence and not verdict.good
    assert told.splitlines()[0] == f"{verdict.headline} {verdict.sentence}"
    assert main(["plan", run, "--device", "cpu", "--start", "0", "--goal", "5"]) == 0
    assert f"warning: {verdict.headline} {verdict.sentence}" in capsys.readouterr().err
    assert told.splitlines()[-2:] == [f"Next: {card['verdict']['next'][0]}", f"      {card['verdict']['next'][1]}"]
    assert [line.split(":")[0].strip() for line in told.splitlines()[1:-2]] == list(card["verdict"]["look_at"])

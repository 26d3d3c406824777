"""The audit of episodes: planted damage is found and named, sound episodes are left alone, nothing is guessed."""

import csv
import io
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import samples
from scipy.sparse import csr_array

from plan2vec.commands.main import main
from plan2vec.data import Sequences, make_sequences
from plan2vec.datasets.audit import Audit, as_csv, as_json, audit, lerobot_line, ways_without
from plan2vec.datasets.findings import fence, measured_shift
from plan2vec.datasets.prints import compare_all, episodes_of
from plan2vec.experiments.audit_planted import (
    EXPECTED,
    FRAMES_ONLY,
    counts,
    goal_episodes,
    joined,
    plant,
    split,
    wilson,
)
from plan2vec.pictures.audit_page import audit_page

DOCS = Path(__file__).parent.parent / "docs"
FEW = ("--local-metric.num-updates", "5", "--local-metric.batch-size", "16", "--embedding.num-updates", "5",
       "--embedding.goals-per-update", "8", "--embedding.nodes-per-update", "16", "--embedding.goals-per-round", "16",
       "--device", "cpu")


@pytest.fixture(scope="module")
def episodes() -> Sequences:
    """20 demonstrations before a noisy camera, in which nothing is found."""
    sequences = goal_episodes("c-maze", 20, seed=3)
    assert audit(sequences).all_findings == []
    return sequences


def found(answer: Audit, kind: str) -> set[int]:
    return {one.episode for one in answer.all_findings if one.kind == kind}


def changed(sequences: Sequences, label: int, frames: np.ndarray) -> Sequences:
    return joined(split(sequences) | {label: frames})


@pytest.mark.parametrize("damage", FRAMES_ONLY)
def test_planted_damage_is_found_and_nothing_else_of_its_kind(damage, episodes):
    damaged = plant(episodes, damage, 10.0, list(range(20)), np.random.default_rng(1))
    assert len(damaged.planted) == 2 and not damaged.hidden
    numbers = counts(damaged, audit(damaged.sequences), audit(episodes), damage)
    assert (numbers["found"], numbers["false"]) == (2, 0)


def test_a_copy_names_its_original_and_both_stretches_of_frames(episodes):
    parts = split(episodes)
    answer = audit(joined(parts | {20: parts[7][5:30]}))
    (finding,) = [one for one in answer.all_findings if one.kind == "duplicate"]
    assert (finding.episode, finding.first, finding.last, finding.other) == (20, 0, 24, (7, 5))
    assert "frames 0-24 repeat frames 5-29 of episode 7" in finding.words


def test_episodes_that_stand_still_alike_are_no_copies(episodes):
    rng = np.random.default_rng(0)
    still = np.clip(episodes.frames[:1] + rng.normal(0, 2, (2, 30, 64, 64, 1)), 0, 255).astype(np.uint8)
    answer = audit(joined(split(episodes) | {20: still[0], 21: still[1]}))
    assert found(answer, "duplicate") == set() and found(answer, "stall") == {20, 21}


def test_an_episode_of_both_splits_leaks(episodes):
    parts = split(episodes)
    test = joined({0: parts[4], 1: parts[9][::-1]})
    (leak,) = audit(episodes, against=test).all_findings
    assert (leak.kind, leak.episode, leak.other) == ("leak", 4, (0, 0)) and "memory, episode 0" in leak.words


def test_a_frozen_camera_is_told_from_a_robot_that_waits(episodes):
    parts, rng = split(episodes), np.random.default_rng(0)
    waits = np.repeat(parts[2][10:11], 15, axis=0)
    noisy = np.clip(waits + rng.normal(0, 2, waits.shape), 0, 255).astype(np.uint8)
    for kind, pause in (("frozen", waits), ("stall", noisy)):
        answer = audit(changed(episodes, 2, np.concatenate((parts[2][:11], pause, parts[2][11:]))))
        (finding,) = [one for one in answer.all_findings if one.kind in ("frozen", "stall")]
        assert (finding.episode, finding.kind) == (2, kind)
        assert abs(finding.first - 10) <= 1 and abs(finding.last - 25) <= 1


@pytest.mark.parametrize(("kind", "gray"), [("black", 0), ("overexposed", 255)])
def test_lost_pictures_are_found_by_their_frames(kind, gray, episodes):
    frames = split(episodes)[5].copy()
    frames[8:12] = gray
    (finding,) = [one for one in audit(changed(episodes, 5, frames)).all_findings if one.kind == kind]
    assert (finding.episode, finding.first, finding.last) == (5, 8, 11)


def test_a_hand_before_the_camera_is_off_the_map(episodes):
    frames = split(episodes)[6].copy()
    frames[12:20, 10:50, 10:50] = 60
    strange = [one for one in audit(changed(episodes, 6, frames)).all_findings if one.kind == "off-map"]
    assert [(one.episode, one.first, one.last) for one in strange] == [(6, 12, 19)]


def test_an_episode_of_many_times_the_usual_length_is_told(episodes):
    frames = np.concatenate([part for label, part in split(episodes).items() if label < 8])
    assert found(audit(changed(episodes, 3, frames)), "length") == {3}


def test_findings_do_not_depend_on_truth(episodes):
    damaged = plant(episodes, "cut", 10.0, list(range(20)), np.random.default_rng(1)).sequences
    noise = np.random.default_rng(0).normal(size=(damaged.num_frames, 2))
    assert as_json(audit(replace(damaged, position=noise))) == as_json(audit(damaged))


def test_vectors_are_audited_too():
    rng = np.random.default_rng(0)
    walks = [np.cumsum(rng.normal(0.5, 0.3, (30, 3)), axis=0) for _ in range(12)]
    walks[4] = walks[9][3:25]
    sequences = make_sequences(np.concatenate(walks), np.repeat(np.arange(12), [len(walk) for walk in walks]))
    assert found(audit(sequences), "duplicate") == {4}


def test_few_episodes_are_only_searched_for_copies(episodes):
    parts = split(episodes)
    answer = audit(joined({0: parts[0], 1: parts[1][::-1], 2: parts[0]}))
    assert [(one.episode, one.kind) for one in answer.all_findings] == [(2, "duplicate")]
    assert "too few" in answer.notes[0]


# ---------------------------------------------------------------------------------------------------- measures


def test_the_fence_lies_three_quartile_ranges_away():
    assert fence(np.arange(101.0), 0.0) == (25 - 150, 75 + 150)
    assert fence(np.zeros(10), 2.0) == (-6, 6)


def test_frames_are_compared_as_by_a_naive_search():
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(30), 10)
    prints = rng.normal(size=(300, 7)).astype(np.float32)
    episodes = replace(episodes_of(make_sequences(prints, number)), prints=prints)
    place, near, unjoined = compare_all(episodes)  # in two blocks
    apart = np.sqrt(np.mean((prints[:, None] - prints) ** 2, axis=2))
    apart[number[:, None] == number] = np.inf
    assert np.array_equal(place, apart.argmin(axis=1)) and np.allclose(near, apart.min(axis=1), atol=1e-3)
    for i in (0, 8, 9, 255, 256, 298):
        joined_by = [apart[i, j] + apart[i + 1, j + gap] for gap in (1, 2) for j in range(300 - gap)
                     if number[j] == number[j + gap]]
        more = 0 if i % 10 == 9 else min(joined_by) - apart[i].min() - apart[i + 1].min()
        assert unjoined[i] == pytest.approx(more, abs=2e-3)


@pytest.mark.parametrize("shift", [(0, 0), (3, -2), (-1, 4)])
def test_a_shift_of_the_camera_is_measured_in_pixels(shift):
    rng = np.random.default_rng(0)
    scene = np.kron(rng.uniform(50, 200, (20, 20)), np.ones((4, 4)))
    view, moved = scene[8:72, 8:72], scene[8 - shift[0] : 72 - shift[0], 8 - shift[1] : 72 - shift[1]]
    found, left, unmoved = measured_shift(moved, view)
    assert np.allclose(found, shift, atol=0.2) and left <= unmoved and (left < 0.5 * unmoved) == any(shift)


def test_the_way_without_an_episode_uses_no_frame_of_it():
    """Three walks on a line, 0..8; the second has a shortcut of its own from 10 to 17 that must not count."""
    vectors = np.tile(np.arange(9.0), 3)[:, None]
    sequences = make_sequences(vectors, np.repeat(np.arange(3), 9))
    edges = [(9 * k + i, 9 * k + i + 1, 1.0) for k in range(3) for i in range(8)]
    edges += [(i, 9 + i, 0.5) for i in range(9)] + [(10, 17, 0.1)]
    row, column, length = map(np.array, zip(*edges, strict=True))
    graph = csr_array((np.tile(length, 2), (np.append(row, column), np.append(column, row))), shape=(27, 27))
    way = ways_without(graph, vectors, episodes_of(sequences))
    assert way[0] == pytest.approx(1 + 0.1)  # by the second's shortcut, which is there for the others
    assert way[1] == pytest.approx(8)  # along the first or the third
    assert way[2] == pytest.approx(1 + 0.1)
    apart = csr_array((graph.shape[0],) * 2)
    assert np.isinf(ways_without(apart, vectors, episodes_of(sequences))).all()


def test_wilsons_interval_is_that_of_the_textbook():
    assert wilson(27, 30) == "0.90 (0.74-0.97)" and wilson(30, 30) == "1.00 (0.89-1.00)" and wilson(0, 0) == "-"


# ---------------------------------------------------------------------------------------------------- answers


def test_rows_are_one_per_episode_worst_first(episodes):
    damaged = plant(episodes, "reversed", 10.0, list(range(20)), np.random.default_rng(1))
    answer = audit(damaged.sequences)
    assert sorted(row.episode for row in answer.rows) == list(range(20))
    assert {row.episode for row in answer.rows[:2]} == damaged.planted.keys()
    assert [row.severity for row in answer.rows] == sorted((row.severity for row in answer.rows), reverse=True)
    lines = list(csv.DictReader(io.StringIO(as_csv(answer))))
    assert [int(line["episode"]) for line in lines] == [row.episode for row in answer.rows]
    assert lines[0]["kinds"] == "wrong-end" and "others go on for" in lines[0]["findings"]


def test_the_page_has_a_strip_per_finding_and_loads_nothing(episodes):
    parts = split(episodes)
    sequences = joined(parts | {2: parts[2][::-1], 20: parts[7]})
    answer = audit(sequences)
    text = audit_page(answer, sequences)
    assert {"duplicate", "wrong-end"} <= {one.kind for one in answer.all_findings}
    assert text.count("<figure>") == sum(2 if one.kind in ("duplicate", "wrong-end", "off-map") else 1
                                         for one in answer.all_findings)
    assert "default-src 'none'" in text and not re.search(r"(src|href)=[\"'](?!data:)", text)


def test_every_experiment_kind_is_a_kind_that_the_reference_explains():
    text = (DOCS / "reference.md").read_text()
    kinds = {*EXPECTED.values(), "stall", "length", "black", "overexposed", "leak"}
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()


# ---------------------------------------------------------------------------------------------------- the command


def robot_folder(folder: Path, version: str = "v2.1", cameras: tuple[str, ...] = ("cam",), num: int = 10) -> Path:
    """A LeRobot folder of `num` episodes, the tenth of which repeats the third."""
    lengths = (14, 15, 16, 13, 14, 15, 16, 14, 13, 16)[:num]
    rng = np.random.default_rng(0)
    films = [wandering_block(length, rng) for length in lengths]
    if num == 10:
        films[9] = films[2]
    return samples.write_lerobot(folder, version, lengths=lengths, cameras=cameras, films=films)


def wandering_block(num: int, rng: np.random.Generator) -> np.ndarray:
    """(num, 48, 64, 3): from a random place to the lower right corner."""
    start = rng.uniform(2, 14, 2)
    frames = samples.moving_block(1).repeat(num, axis=0) // 8
    for k, share in enumerate(np.linspace(0, 1, num) ** rng.uniform(0.7, 1.4)):
        top, left = (start * (1 - share) + np.array((34, 48)) * share).astype(int)
        frames[k, top : top + 12, left : left + 12] = (250, 200, 20)
    return frames


def test_recordings_are_fitted_first_and_the_line_for_lerobot_names_its_episodes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    robot_folder(tmp_path / "robot")
    assert main(["audit", "robot", "--json", "--csv", "audit.csv", *FEW]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["num_episodes"] == 10 and 9 in answer["broken"]
    assert answer["lerobot"].startswith("lerobot-edit-dataset --repo_id robot --root robot --new_repo_id robot_cleaned")
    assert f"--operation.episode_indices '{json.dumps(answer['broken'])}'" in answer["lerobot"]
    assert (tmp_path / "runs" / "audit-robot" / "audit.html").exists() and (tmp_path / "audit.csv").exists()
    assert main(["audit", "runs/audit-robot", "--device", "cpu"]) == 0
    assert "Nothing was deleted" in capsys.readouterr().out


def test_there_is_no_line_for_lerobot_without_a_lerobot_folder(episodes):
    parts = split(episodes)
    assert lerobot_line(audit(joined(parts | {20: parts[7]}))) is None


@pytest.mark.parametrize(("arguments", "message"), [
    (("one.npz", "--no-fit"), "there is only one sequence"), (("one.npz",), "there is only one sequence"),
    (("robot", "--camera", "front", "--no-fit"), "has no camera front"),
    (("missing", "--no-fit"), "does not exist"), (("none", "--no-fit"), "meta/ lists no episodes"),
])
def test_what_cannot_be_audited_is_refused_in_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("one.npz", frames=np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8))
    samples.write_lerobot(tmp_path / "robot")
    samples.write_lerobot(tmp_path / "none")
    (tmp_path / "none" / "meta" / "episodes.jsonl").write_text("")
    assert main(["audit", *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1 and not said.out and not (tmp_path / "runs").exists()


def test_an_episode_without_frames_is_named_and_left_out(tmp_path, capsys):
    folder = robot_folder(tmp_path / "robot")
    (folder / "data" / "chunk-000" / "episode_000004.parquet").unlink()
    assert main(["audit", str(folder), "--no-fit", "--json"]) == 0
    said = capsys.readouterr()
    assert "1 of 10 episodes skipped: episode 4 (no data file holds it)" in said.err
    assert 4 not in [row["episode"] for row in json.loads(said.out)["episodes"]]


def test_a_run_is_not_fitted_again(room, capsys):
    assert main(["audit", str(room.folder), "--no-fit"]) == 2
    assert "fitted already" in capsys.readouterr().err


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_five_commands_of_the_robot_page_clean_a_lerobot_folder_and_label_it(version, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    robot_folder(tmp_path / "my_robot_dataset", version, ("front", "wrist"))
    block = re.search(r"```sh\n(.*?)```", (DOCS / "robot-data.md").read_text(), re.S)
    lines = block[1].replace("\\\n", " ").splitlines()
    printed = ""
    assert len(lines) == 5
    for line in lines:
        program, *arguments = shlex.split(line)
        if program == "lerobot-edit-dataset":  # the tool itself is not installed here: what it would write
            assert " ".join(line.split()) in printed
            robot_folder(tmp_path / "my_robot_dataset_cleaned", version, ("front", "wrist"), num=9)
            continue
        few = FEW if arguments[0] in ("audit", "fit") else ()
        assert program == "plan2vec" and main([*arguments, *few]) == 0
        printed = " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "sheet.png").exists() and (tmp_path / "runs" / "robot" / "audit.html").exists()
    assert len((tmp_path / "audit.csv").read_text().splitlines()) == 11
    assert (tmp_path / "sarm_progress.parquet").exists()

"""OGBench: its files, data sets made anew in its environments, and the table of the experiment."""

import numpy as np
import pytest

from plan2vec.commands.main import main
from plan2vec.domains import ogbench
from plan2vec.experiments import ogbench_mazes as experiment
from plan2vec.readers import find_format, read
from plan2vec.results.rows import Case, Stamp, make_rows

RNG = np.random.default_rng(0)


def dataset(num=12, ends=(3, 7, 11)):
    """OGBench's fields; `terminals` marks the last frame of an episode."""
    walk = np.cumsum(RNG.normal(size=(num, 2)), axis=0).astype(np.float32)
    terminals = np.isin(np.arange(num), ends)
    return {"observations": walk, "actions": 0.1 * walk, "terminals": terminals, "qpos": walk + 5, "qvel": 0 * walk}


def saved(folder, **fields):
    np.savez(folder / "some.npz", **fields)
    return folder / "some.npz"


# ---------------------------------------------------------------------------------------------------- the reader


def test_a_data_set_is_read_episode_by_episode(tmp_path):
    fields = dataset()
    path = saved(tmp_path, **fields)
    sequences = read(path)
    assert find_format(path).NAME == "OGBench data set"
    assert sequences.sequence.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert (sequences.frames == fields["observations"]).all() and (sequences.action == fields["actions"]).all()


def test_the_simulators_state_is_not_taken_for_the_truth(tmp_path):
    assert read(saved(tmp_path, **dataset())).position is None


def test_images_of_the_visual_environments_are_frames(tmp_path):
    fields = dataset() | {"observations": RNG.integers(256, size=(12, 16, 16, 3), dtype=np.uint8)}
    assert read(saved(tmp_path, **fields)).frame_shape == (16, 16, 3)


@pytest.mark.parametrize(("change", "complaint"), [
    ({"terminals": np.zeros(5, bool)}, "terminals must hold a zero or one for each observation"),
    ({"terminals": np.full(12, 0.5)}, "terminals must hold a zero or one"),
    ({"terminals": np.full(12, "no")}, "terminals must hold a zero or one"),
    ({"observations": np.float32(3)}, "with no observations"),
    ({"actions": np.zeros((7, 2))}, "action has 7 entries for 12 frames"),
    ({"observations": np.full((12, 2), np.nan)}, "observations must be finite"),
    ({"actions": np.array([None] * 12)}, "is a pickle"),
])
def test_a_malformed_data_set_is_refused_in_one_line(tmp_path, capsys, change, complaint):
    path = saved(tmp_path, **(dataset() | change))
    assert main(["inspect", str(path)]) == 2
    said = capsys.readouterr().err
    assert complaint in said and len(said.strip().splitlines()) == 1


def test_a_cut_file_is_refused_in_one_line(tmp_path, capsys):
    path = saved(tmp_path, **dataset())
    path.write_bytes(path.read_bytes()[:400])
    assert main(["inspect", str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


# ---------------------------------------------------------------------------------------------------- data made anew


@pytest.fixture(scope="module")
def environment():
    pytest.importorskip("ogbench")
    return ogbench.make_environment("pointmaze-medium-stitch-v0").unwrapped


def test_a_guide_walks_to_the_next_cell_of_the_shortest_way(environment):
    guide = ogbench.Guide(environment)
    here, goal = np.array(environment.ij_to_xy((1, 1)), float), np.array(environment.ij_to_xy((1, 2)), float)
    assert np.allclose(guide.direction(here + np.array([0.5, 0]), goal), (1, 0), atol=1e-5)
    assert len(guide.cells) == np.count_nonzero(environment.maze_map == 0)
    assert set(guide.crossings) < set(guide.cells)


def test_a_stitch_episode_ends_four_cells_away(environment):
    guide = ogbench.Guide(environment)
    for start in guide.cells:
        _, cells = environment.get_oracle_subgoal(environment.ij_to_xy(start), environment.ij_to_xy(start))
        assert {int(cells[goal]) for goal in guide.goals_from(start, "stitch")} == {4}


def test_an_episode_is_a_function_of_seed_and_number_alone(environment, monkeypatch):
    monkeypatch.setattr(ogbench, "find_recipe", lambda name: ogbench.Recipe(name, "medium", "stitch", 5000, 9))
    both = ogbench.record_episodes("pointmaze-medium-stitch-v0", 0, range(2))
    second = ogbench.record_episodes("pointmaze-medium-stitch-v0", 0, range(1, 2))
    assert all((both[field][9:] == second[field]).all() for field in ogbench.FIELDS)
    assert both["terminals"].tolist() == ([False] * 8 + [True]) * 2
    moved = np.linalg.norm(np.diff(both["observations"][:9], axis=0), axis=1)
    assert moved.min() > 0 and moved.max() <= 0.2 * np.sqrt(2) + 1e-3


def test_the_number_of_processes_changes_nothing(environment, tmp_path):
    alone, shared = (ogbench.generate("pointmaze-medium-stitch-v0", tmp_path / str(num), 0, 2, num) for num in (1, 2))
    assert all((np.load(alone)[field] == np.load(shared)[field]).all() for field in ogbench.FIELDS)


def test_an_unknown_data_set_is_refused(capsys):
    assert main(["reproduce", "ogbench", "--env", "antmaze-tiny-v0", "--smoke"]) == 2
    assert "--env must be one of pointmaze-medium-navigate-v0" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- the experiment


def test_the_table_sets_ours_beside_the_published():
    rows = []
    for method, success in (("graph search", 0.99), ("plan2vec", 0.8)):
        case = Case("ogbench", "ogbench/pointmaze-giant-stitch-v0", {"block": "act", "data": "regenerated"}, method, 0)
        rows += make_rows(case, {"success": success}, 1.0, Stamp("abc", "cpu"))
    lines = [*experiment.table(rows)]
    assert (
        "| QRL (published) | 50 |" in lines and "| graph search | 99.0 |" in lines
        and "| plan2vec | 80.0 |" in lines
    )
    assert [name for name, _ in experiment.draw(rows, {})] == [""]

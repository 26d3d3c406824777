import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from plan2vec.data import transitions
from plan2vec.domains import find_domain, maze

ROOM_NAMES = ["open", "table", "c-maze"]
every_room = pytest.mark.parametrize("name", ROOM_NAMES)
RIGHT, LEFT, UP, DOWN = np.array([(0.0249, 0), (-0.0249, 0), (0, 0.0249), (0, -0.0249)])
PIXEL = 2 * 0.3065 / 64  # metres


def in_wall(name: str, position: np.ndarray, depth: float = 0.0) -> np.ndarray:
    """(n,) bool: deeper than `depth` metres in a wall; written from PROTOCOL's table, not from the code under test."""
    x, y = position.T
    outside = (np.abs(x) > 0.24 + depth) | (np.abs(y) > 0.24 + depth)
    if name == "table":
        return outside | ((np.abs(x) < 0.09 - depth) & (np.abs(y) < 0.09 - depth))
    if name == "c-maze":
        return outside | ((x < 0.12 - depth) & (np.abs(y) < 0.09 - depth))
    return outside


def move(name: str, position: tuple[float, float], *displacements: np.ndarray) -> tuple[float, float]:
    here = np.array([position])
    for displacement in displacements:
        here = maze.step(maze.ROOMS[name], here, displacement[None])
    return tuple(here[0])


def positions(name: str, num: int, seed: int = 0) -> np.ndarray:
    return maze.sample_positions(maze.ROOMS[name], num, np.random.default_rng(seed))


# ---- actions and contact


def test_the_eight_actions_are_the_papers():
    lengths = np.linalg.norm(maze.ACTIONS, axis=1)
    assert len(np.unique(np.sign(maze.ACTIONS), axis=0)) == 8 and (maze.ACTIONS != 0).any(axis=1).all()
    assert np.allclose(np.sort(lengths), [0.0249] * 4 + [0.0352] * 4, rtol=0, atol=1e-12)
    assert maze.LONGEST_STEP == 0.0352


def test_a_block_in_the_open_moves_by_its_whole_displacement():
    for action in maze.ACTIONS:
        assert np.allclose(move("open", (0.1, -0.1), action), np.array([0.1, -0.1]) + action, rtol=0, atol=1e-12)


def test_pressing_into_the_border_stops_the_block_where_it_touches():
    assert move("open", (0.23, 0.1), RIGHT) == (0.24, 0.1)
    assert move("open", (-0.1, -0.239), DOWN) == (-0.1, -0.24)
    assert move("open", (0.24, 0.1), RIGHT, RIGHT, RIGHT) == (0.24, 0.1)


def test_pressing_into_the_table_stops_the_block_where_it_touches():
    assert move("table", (-0.1, 0.0), RIGHT) == (-0.09, 0.0)
    assert move("table", (0.1, 0.05), LEFT) == (0.09, 0.05)
    assert move("table", (0.02, 0.1), DOWN) == (0.02, 0.09)
    assert move("table", (0.02, -0.1), UP) == (0.02, -0.09)


def test_pressing_into_the_c_wall_stops_the_block_where_it_touches():
    assert move("c-maze", (0.13, 0.0), LEFT) == (0.12, 0.0)
    assert move("c-maze", (-0.24, 0.1), DOWN) == (-0.24, 0.09)
    assert move("c-maze", (-0.1, -0.1), UP) == (-0.1, -0.09)


def test_a_diagonal_move_stops_at_first_contact_and_does_not_slide():
    x, y = move("open", (0.23, 0.1), np.array([0.02, 0.02]))
    assert x == 0.24 and y == pytest.approx(0.11)  # half the displacement in y, too
    assert move("open", (0.24, 0.1), np.array([0.02, 0.02])) == (0.24, 0.1)
    x, y = move("table", (-0.1, 0.0), np.array([0.04, 0.02]))
    assert x == -0.09 and y == pytest.approx(0.005)


def test_a_touching_block_may_move_along_the_face_and_away_from_it():
    assert move("table", (-0.09, 0.0), UP) == (-0.09, 0.0249)
    assert move("c-maze", (0.0, 0.09), RIGHT) == (0.0249, 0.09)
    assert move("c-maze", (0.12, 0.0), DOWN) == (0.12, -0.0249)
    assert move("open", (0.24, 0.24), DOWN) == (0.24, 0.24 - 0.0249)
    assert move("table", (-0.09, 0.0), LEFT)[0] < -0.09
    x, y = move("c-maze", (0.0, 0.09), np.array([-0.02, 0.02]))
    assert x == pytest.approx(-0.02) and y == pytest.approx(0.11)


def test_a_block_on_a_corner_is_stopped_only_towards_the_inside():
    corner = (0.12, 0.09)
    free = [action for action in maze.ACTIONS if move("c-maze", corner, action) != corner]
    assert len(free) == 7
    assert move("c-maze", corner, np.array([-0.02, -0.02])) == corner


def test_no_displacement_is_long_enough_to_jump_over_a_wall():
    assert move("table", (-0.2, 0.0), np.array([0.4, 0.0])) == (-0.09, 0.0)
    assert move("c-maze", (0.0, 0.2), np.array([0.0, -1e6])) == (0.0, 0.09)
    assert move("open", (0.0, 0.0), np.array([1e300, 0.0])) == (0.24, 0.0)


@every_room
def test_no_block_is_ever_inside_a_wall_in_100_000_steps_nor_passes_one_on_its_way(name):
    room, rng = maze.ROOMS[name], np.random.default_rng(1)
    here = maze.sample_positions(room, 1000, rng)
    touched = 0
    for _ in range(100):
        displacement = maze.ACTIONS[rng.integers(8, size=1000)]
        there = maze.step(room, here, displacement)
        along = here + np.linspace(0, 1, 21)[:, None, None] * (there - here)  # (21, 1000, 2)
        assert not in_wall(name, there).any()
        assert not in_wall(name, along.reshape(-1, 2), depth=1e-9).any()
        touched += int((np.abs(there - here - displacement) > 1e-9).any(axis=1).sum())
        here = there
    assert touched > 2000  # the premise: walls were met


@given(
    st.sampled_from(ROOM_NAMES),
    st.integers(0, 10**6),
    st.floats(-1, 1, allow_subnormal=True),
    st.floats(-1, 1, allow_subnormal=True),
)
@settings(max_examples=300, deadline=None)
def test_any_displacement_ends_on_its_own_line_outside_every_wall(name, seed, x, y):
    start, displacement = positions(name, 16, seed), np.array([x, y])
    end = maze.step(maze.ROOMS[name], start, displacement)
    again = maze.step(maze.ROOMS[name], end, displacement)
    length = np.linalg.norm(displacement)
    off_line = np.abs((end - start) @ np.array([-y, x])) / max(length, 1e-300)
    assert not in_wall(name, end).any() and not in_wall(name, again).any()
    assert (off_line <= 2e-8).all() and (np.linalg.norm(end - start, axis=1) <= length + 2e-8).all()
    assert np.isfinite(maze.geodesic(name, start, end)).all()
    assert np.allclose(maze.geodesic(name, start, end), np.linalg.norm(end - start, axis=1), rtol=0, atol=1e-7)


def test_positions_that_went_through_float32_are_taken_to_touch_the_wall():
    rounded = np.array([[0.12, 0.0], [0.0, 0.09], [0.24, -0.24]]).astype(np.float32)
    assert in_wall("c-maze", rounded.astype(float)).any()  # the premise: float32 rounds into the wall
    assert np.array_equal(
        maze.step(maze.ROOMS["c-maze"], rounded, np.zeros((3, 2))), [[0.12, 0.0], [0.0, 0.09], [0.24, -0.24]]
    )


@pytest.mark.parametrize("position", [(0.0, 0.0), (0.3, 0.0), (np.nan, 0.2), (0.2, np.inf)])
def test_positions_in_a_wall_are_refused_by_number(position):
    given_positions = np.array([(0.2, 0.2), position])
    for refuse in (
        lambda: maze.step(maze.ROOMS["table"], given_positions, np.zeros((2, 2))),
        lambda: maze.render(maze.ROOMS["table"], given_positions),
        lambda: maze.geodesic("table", given_positions, given_positions),
    ):
        with pytest.raises(ValueError, match=r"1 of 2 positions .* number 1"):
            refuse()


def test_positions_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(n, 2\)"):
        maze.render(maze.ROOMS["open"], np.zeros(2))


def test_an_unknown_room_is_refused_with_the_names_of_the_known():
    with pytest.raises(ValueError, match=r"'d-maze'.*open, table, c-maze"):
        maze.simulate("d-maze")


# ---- sampling


@pytest.mark.parametrize(
    ("name", "area"),
    [("open", 0.48**2), ("table", 0.48**2 - 0.18**2), ("c-maze", 0.48**2 - 0.36 * 0.18)],
)
def test_samples_are_uniform_over_the_free_space(name, area):
    sample = positions(name, 40_000)
    assert sample.shape == (40_000, 2) and not in_wall(name, sample).any()
    in_strip = (sample[:, 1] > 0.14).mean()  # a strip 0.1 high across the whole room is free in every room
    in_patch = (np.abs(sample - [0.18, 0.0]) < [0.06, 0.09]).all(axis=1).mean()  # beside the wall
    patch = 0.12 * 0.18
    assert in_strip == pytest.approx(0.48 * 0.1 / area, abs=0.01)
    assert in_patch == pytest.approx(patch / area, abs=0.01)


# ---- geodesic


def grid_distances(name: str, spacing: float, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, 2) free grid points and (s, m) Dijkstra distances from those nearest to `sources`; steps of up to 5 x 5
    cells.
    """
    side = round(0.48 / spacing)
    axis = np.arange(-side // 2, side // 2 + 1) * spacing
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    free = ~in_wall(name, points, depth=1e-9)
    number = np.full(len(points), -1)
    number[free] = np.arange(free.sum())
    number = number.reshape(len(axis), len(axis))
    rows, columns, lengths = [], [], []
    for i in range(-5, 6):
        for j in range(-5, 6):
            if np.gcd(i, j) != 1:
                continue
            a = number[max(0, -i) : len(axis) - max(0, i), max(0, -j) : len(axis) - max(0, j)].ravel()
            b = number[max(0, i) : len(axis) + min(0, i), max(0, j) : len(axis) + min(0, j)].ravel()
            both = (a >= 0) & (b >= 0)
            a, b = a[both], b[both]
            clear = sight_is_clear(name, points[free][a], points[free][b])
            rows.append(a[clear])
            columns.append(b[clear])
            lengths.append(np.full(clear.sum(), spacing * np.hypot(i, j)))
    rows, columns, lengths = np.concatenate(rows), np.concatenate(columns), np.concatenate(lengths)
    graph = coo_array((lengths, (rows, columns)), shape=(free.sum(), free.sum())).tocsr()
    nearest = np.linalg.norm(points[free][None] - sources[:, None], axis=-1).argmin(axis=1)
    return points[free], dijkstra(graph, indices=nearest)


def sight_is_clear(name: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n,) bool by brute force: none of 31 points on the way is in a wall."""
    way = first + np.linspace(0, 1, 31)[:, None, None] * (second - first)
    return ~in_wall(name, way.reshape(-1, 2), depth=1e-9).reshape(31, -1).any(axis=0)


@every_room
def test_the_geodesic_agrees_with_dijkstra_on_a_fine_grid(name):
    sources = np.array([[-0.2, 0.15], [0.2, -0.2], [-0.09, -0.12], [0.13, 0.0]])
    points, oracle = grid_distances(name, 0.01, sources)
    assert np.isfinite(oracle).all()
    for source, expected in zip(sources, oracle, strict=True):
        source = points[np.linalg.norm(points - source, axis=1).argmin()]
        ours = maze.geodesic(name, np.broadcast_to(source, points.shape), points)
        assert (ours <= expected + 1e-7).all()  # a grid path is a path
        assert (expected <= 1.005 * ours + 1e-7).all()


def test_geodesics_around_the_walls_have_their_known_lengths():
    first = np.array([[-0.2, 0.09], [-0.2, 0.2], [0.2, 0.2]])
    second = np.array([[-0.2, -0.09], [-0.2, -0.2], [0.2, -0.2]])
    expected = [0.32 + 0.18 + 0.32, 2 * np.hypot(0.32, 0.11) + 0.18, 0.4]
    assert np.allclose(maze.geodesic("c-maze", first, second), expected, rtol=0, atol=1e-12)
    around = maze.geodesic("table", np.array([[-0.2, 0.0]]), np.array([[0.2, 0.0]]))
    assert np.allclose(around, 2 * np.hypot(0.11, 0.09) + 0.18, rtol=0, atol=1e-12)
    assert maze.geodesic("open", first, second) == pytest.approx([0.18, 0.4, 0.4])


def test_touching_a_corner_or_a_face_does_not_block_the_sight():
    along_the_face = maze.geodesic("c-maze", np.array([[-0.24, 0.09]]), np.array([[0.24, 0.09]]))
    past_the_corner = maze.geodesic("table", np.array([[-0.19, 0.09]]), np.array([[-0.09, -0.19]]))
    assert along_the_face == pytest.approx([0.48]) and past_the_corner == pytest.approx([np.hypot(0.1, 0.28)])


@every_room
def test_the_geodesic_is_a_metric_no_shorter_than_the_straight_line(name):
    a, b, c = positions(name, 3000).reshape(3, 1000, 2)
    ab, bc, ac = maze.geodesic(name, a, b), maze.geodesic(name, b, c), maze.geodesic(name, a, c)
    assert np.isfinite(ab).all() and (ab >= np.linalg.norm(a - b, axis=1) - 1e-12).all()
    assert np.allclose(ab, maze.geodesic(name, b, a), rtol=0, atol=1e-12)
    assert (maze.geodesic(name, a, a) == 0).all()
    assert (ac <= ab + bc + 1e-7).all()
    detours = (ab > np.linalg.norm(a - b, axis=1) + 1e-6).mean()
    assert detours == 0 if name == "open" else detours > 0.1  # the premise: walls matter


# ---- pictures


def test_the_picture_has_the_papers_gray_levels_and_its_first_row_is_the_top():
    image = maze.render(maze.ROOMS["c-maze"], np.array([[0.18, 0.15]]))[0, :, :, 0]
    row_of_block, column_of_block = int((0.3065 - 0.15) / PIXEL), int((0.3065 + 0.18) / PIXEL)
    assert image.shape == (64, 64) and image.dtype == np.uint8
    assert image[row_of_block, column_of_block] == 160
    assert image[63 - row_of_block, column_of_block] == 255  # floor, below
    assert image[32, 10] == 100  # the wall comes from the left
    assert image[32, 50] == 255  # the passage is on the right
    assert (image[[0, 63]] == 65).all() and (image[:, [0, 63]] == 65).all()


@every_room
def test_each_pixel_is_the_mean_of_the_area_it_shows(name):
    position = positions(name, 3)
    rendered = maze.render(maze.ROOMS[name], position)[..., 0].astype(float)
    fine = (np.arange(64 * 25) + 0.5) * PIXEL / 25 - 0.3065  # 25 x 25 points a pixel
    x, y = np.meshgrid(fine, fine[::-1])
    for (block_x, block_y), image in zip(position, rendered, strict=True):
        gray = np.where((np.abs(x) < 0.28) & (np.abs(y) < 0.28), 255.0, 65.0)
        for x_min, x_max, y_min, y_max in maze.ROOMS[name].walls:
            gray[(x_min < x) & (x < x_max) & (y_min < y) & (y < y_max)] = 100
        gray[(np.abs(x - block_x) < 0.04) & (np.abs(y - block_y) < 0.04)] = 160
        assert np.abs(gray.reshape(64, 25, 64, 25).mean(axis=(1, 3)) - image).max() < 10  # 1/25 of 190, and rounding


def test_a_move_of_a_twentieth_of_a_pixel_shows():
    here = np.array([[0.1, -0.1]])
    room = maze.ROOMS["open"]
    for shift in (np.array([PIXEL / 20, 0]), np.array([0, PIXEL / 20])):
        assert (maze.render(room, here) != maze.render(room, here + shift)).any()


@every_room
def test_the_centre_of_mass_of_the_block_is_its_position(name):
    room = maze.ROOMS[name]
    frames, position = maze.render(room, positions(name, 200)), positions(name, 200)
    empty = np.median(frames, axis=0)  # every pixel is uncovered in most frames
    covered = np.clip(empty - frames, 0, None)[..., 0]
    centers = np.arange(64) * PIXEL + PIXEL / 2 - 0.3065
    mass = covered.sum(axis=(1, 2))
    x = (covered.sum(axis=1) @ centers) / mass
    y = (covered.sum(axis=2) @ centers[::-1]) / mass
    assert np.abs(np.stack([x, y], axis=1) - position).max() < 3e-4
    assert np.allclose(mass, 95 * (0.08 / PIXEL) ** 2, rtol=0.01)


@every_room
def test_locating_the_block_undoes_rendering(name):
    room, position = maze.ROOMS[name], maze.simulate(name, num_rollouts=200).position
    assert np.abs(maze.locate(room, maze.render(room, position)) - position).max() < 1e-4


@every_room
def test_rendering_all_at_once_equals_rendering_one_by_one(name):
    room, position = maze.ROOMS[name], positions(name, 2 * maze.FRAMES_AT_ONCE + 3)
    together = maze.render(room, position)
    assert all(
        np.array_equal(maze.render(room, position[i : i + 1])[0], together[i]) for i in range(0, len(position), 37)
    )


# ---- recordings


def test_equal_seeds_give_equal_bytes_and_other_seeds_do_not():
    first, second, other = (maze.simulate("table", 20, seed=seed) for seed in (3, 3, 4))
    for field in ("frames", "sequence", "position", "action"):
        assert getattr(first, field).tobytes() == getattr(second, field).tobytes()
    assert first.frames.tobytes() != other.frames.tobytes()


@every_room
def test_a_recording_has_the_layout_of_its_rollouts(name):
    recorded = maze.simulate(name, num_rollouts=30, num_steps=7)
    assert recorded.frames.shape == (210, 64, 64, 1) and recorded.position.shape == (210, 2)
    assert recorded.action.shape == (210, 1) and recorded.action.dtype == np.int64
    assert np.array_equal(recorded.sequence, np.arange(210) // 7)
    assert len(transitions(recorded.sequence)) == 30 * 6
    assert recorded.domain == name and recorded.source == f"simulated {name}"
    assert np.array_equal(maze.render(maze.ROOMS[name], recorded.position), recorded.frames)


def test_recorded_actions_lead_from_frame_to_frame_and_sequences_are_never_joined():
    recorded = maze.simulate("c-maze", num_rollouts=400)
    start = transitions(recorded.sequence)
    end = start + 1
    moved = maze.step(maze.ROOMS["c-maze"], recorded.position[start], maze.ACTIONS[recorded.action[start, 0]])
    ends = np.setdiff1d(np.arange(recorded.num_frames), start)
    jump = np.linalg.norm(recorded.position[ends[:-1] + 1] - recorded.position[ends[:-1]], axis=1)
    assert np.array_equal(moved, recorded.position[end]) and (recorded.action[ends] == -1).all()
    assert np.linalg.norm(moved - recorded.position[start], axis=1).max() <= maze.LONGEST_STEP + 1e-12
    assert np.median(jump) > 3 * maze.LONGEST_STEP  # the next rollout starts anew
    assert set(np.unique(recorded.action[start])) == set(range(8))  # all eight, not seven


@pytest.mark.parametrize(("num_rollouts", "num_steps"), [(0, 10), (5, 1)])
def test_a_recording_without_a_step_is_refused(num_rollouts, num_steps):
    with pytest.raises(ValueError, match=f"{num_rollouts} and {num_steps}"):
        maze.simulate("open", num_rollouts, num_steps)


# ---- what evaluation may know


@every_room
def test_a_domain_knows_its_rule_its_geodesic_and_its_walls(name):
    domain = find_domain(name)
    a, b = positions(name, 20).reshape(2, 10, 2)
    assert domain.name == name and domain.longest_step == 0.0352 and domain.unit == "m"
    assert (
        domain.success.radius, domain.success.max_hops, domain.success.epsilon, domain.success.episodes
    ) == (0.02, 50, 0.05, 2000)
    assert np.array_equal(domain.geodesic(a, b), maze.geodesic(name, a, b))
    assert domain.walls == maze.ROOMS[name].walls and domain.extent == (-0.28, 0.28, -0.28, 0.28)


def test_an_unknown_domain_is_none():
    assert find_domain("kitchen") is None and find_domain(None) is None


def test_the_simulator_does_not_need_gymnasium():
    without = "import sys; sys.modules['gymnasium'] = None; "
    script = without + "from plan2vec.domains import maze; print(maze.simulate(num_rollouts=2).num_frames)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "20"

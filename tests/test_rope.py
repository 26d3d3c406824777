"""The simulated rope: it stays out of the pegs, recordings repeat, frames look as described, and local moves are told
apart.
"""

import sys
from itertools import pairwise

import numpy as np
import pytest

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import SuccessRule
from plan2vec.domains import find_domain, rope
from plan2vec.domains.maze import is_crossed
from plan2vec.domains.rope import NUM_LINKS, PEGS, Rope, keeps_sides, rest_shape, sides_of
from plan2vec.evaluation import evaluate, truth_of
from plan2vec.pictures.report import page
from plan2vec.pictures.scene import room_scene
from plan2vec.pipeline import fit


@pytest.fixture(scope="module")
def sequences():
    return rope.simulate(3, 150, seed=1)


def line(first, last):
    """(links, 2) a straight rope."""
    return np.linspace(first, last, NUM_LINKS)


def are_kept(before, after):
    return bool(keeps_sides(sides_of(before[None]), sides_of(after[None]))[0])


def clears_pegs(states):
    """(n,) bool: no link's middle lies in a peg and no piece between two of them crosses one."""
    start, along = states[:, :-1], np.diff(states, axis=1)  # (n, pieces, 2)
    return ~np.any([is_crossed(box, start, along).any(axis=1) for box in PEGS], axis=0)


# ---------------------------------------------------------------------------------------------------- physics


def test_no_link_lies_in_a_peg_and_no_piece_crosses_one(sequences):
    states = rope.as_states(sequences.position)
    assert clears_pegs(states).all()
    middle = (states[:, 1:] + states[:, :-1]) / 2
    for x_min, x_max, y_min, y_max in PEGS:  # the same by points instead of lines
        x, y = middle[..., 0], middle[..., 1]
        assert not ((x > x_min) & (x < x_max) & (y > y_min) & (y < y_max)).any()


def test_the_hand_cannot_pull_the_rope_through_a_peg():
    moved = Rope()
    for _ in range(40):
        moved.drag(2, np.array([0.0, -3.0]))  # straight up into the left peg, which is above the third link
    assert clears_pegs(moved.state[None])[0]
    assert (moved.state[2] > 28.5)[1] or not 10 < moved.state[2][0] < 19


def test_ropes_in_pegs_are_found():
    through, beside, corner = line((2, 28), (25, 28)), line((2, 20), (25, 20)), line((5, 30), (16, 41))
    assert clears_pegs(np.stack((through, beside, corner))).tolist() == [False, True, True]
    assert not clears_pegs(line((14, 20), (14, 50))[None])[0]  # straight up and down


def test_a_drag_moves_the_taken_link_most_and_the_rope_is_at_rest_after_it():
    moved = Rope()
    before = moved.state
    moved.drag(0, np.array([1.0, 2.0]))  # across: along its own line the whole rope would follow
    step = np.linalg.norm(moved.state - before, axis=1)
    assert np.argmax(step) == 0 and 1.5 < step[0] < 3 and step[-1] < step[0]
    assert max(body.velocity.length for body in moved.links) < 0.5  # pixels a second


def test_the_rope_keeps_its_length(sequences):
    pieces = np.linalg.norm(np.diff(rope.as_states(sequences.position), axis=1), axis=2)
    assert abs(pieces.sum(axis=1).mean() - (NUM_LINKS - 1) * rope.LINK) < 1
    assert pieces.max() < 1.1 * rope.LINK


def test_the_same_seed_gives_the_same_recording_in_any_number_of_processes(sequences):
    states, drags = rope.record_all(3, 150, seed=1, num_workers=3).values()
    assert (states.reshape(len(states), -1) == sequences.position).all() and (drags == sequences.action).all()
    assert not np.allclose(rope.record_all(1, 20, seed=2)["states"], states[:21])


def test_every_sequence_starts_at_rest_wanders_off_and_comes_home(sequences):
    away = rope.displacement(
        sequences.position, np.repeat(rest_shape().reshape(1, -1), sequences.num_frames, axis=0)
    ).reshape(3, 151)
    assert (away[:, 0] < 0.01).all() and (away[:, 10:36].max(axis=1) > 8).all()
    assert (away[:, 36:].min(axis=1) < 2 * rope.HOME).all()


def test_recorded_drags_lead_to_the_next_frame(sequences):
    moved = Rope()
    for link, *move in sequences.action[:5]:
        moved.drag(int(link), np.array(move))
    assert np.allclose(moved.state.ravel(), sequences.position[5], atol=1e-9)
    assert sequences.action[150].tolist() == [-1, 0, 0]


def test_a_missing_engine_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymunk", None)
    with pytest.raises(ValueError, match=r"extra \[envs\]"):
        rope.simulate(1, 2)


@pytest.mark.parametrize("numbers", [(0, 5), (1, 0)])
def test_recordings_without_a_step_are_refused(numbers):
    with pytest.raises(ValueError, match="num_sequences >= 1 and num_drags >= 1"):
        rope.simulate(*numbers)


# ---------------------------------------------------------------------------------------------------- frames


def test_frames_have_the_described_look(sequences):
    frame = sequences.frames[0, :, :, 0]
    assert sequences.frames.shape == (453, 64, 64, 1) and sequences.frames.dtype == np.uint8
    assert frame[0, 0] == 255 and (frame[24:33, 10:19] == 0).all() and (frame[33:42, 39:48] == 0).all()
    assert np.count_nonzero(frame == 0) == 2 * 81
    dark, light = np.count_nonzero(frame == 97), np.count_nonzero(frame == 160)
    assert 40 < dark < 90 and 40 < light < 90  # two halves of about 20 px, 3.5 px thick, edges not counted


def test_the_rope_is_between_three_and_four_pixels_thick():
    image = rope.render(line((5, 10), (45, 10))[None])[0, :, :, 0].astype(float)
    dark = (255 - image[:, 22]) / (255 - 97)
    assert dark.sum() == pytest.approx(rope.THICKNESS, abs=0.3)


def test_a_shift_of_half_a_pixel_is_seen():
    low, high = (rope.render(line((5, y), (45, y))[None])[0, :, 22, 0].astype(float) for y in (10.0, 10.5))
    weight = lambda column: np.sum((255 - column) * (np.arange(64) + 0.5)) / np.sum(255 - column)  # noqa: E731
    assert weight(high) - weight(low) == pytest.approx(0.5, abs=0.1)


# ---------------------------------------------------------------------------------------------------- local moves


def test_passing_over_a_peg_is_seen_from_the_two_ends_of_the_move():
    above, below = line((4, 21), (30, 21)), line((4, 36), (30, 36))  # the left peg is between them
    assert not are_kept(above, below) and are_kept(above, above + 2)
    beside = line((21, 21), (38, 21))  # no peg is under the rope
    assert are_kept(beside, beside + np.array([0, 15]))
    assert not are_kept(line((30, 28), (60, 28)), line((30, 46), (60, 46)))  # over the right peg
    assert are_kept(line((50, 28), (50, 60)), line((60, 28), (60, 60)))


def test_an_end_may_go_around_a_peg():
    """Down on the left, a little at a time, with the end in front: no move passes over the peg, though the whole does.
    """
    way = [
        line((x, 21.0), (x + 26, 21.0)) for x in (4.0, 10.0, 16.0, 21.0)
    ] + [line((21.0, y), (47.0, 21.0)) for y in (25.0, 30.0, 36.0)]
    way += [line((x, 36.0), (30.0 + x / 2, 30.0)) for x in (16.0, 10.0, 4.0)]
    assert all(are_kept(a, b) for a, b in pairwise(way))
    assert not are_kept(way[0], way[-1])


def test_recorded_steps_keep_the_sides(sequences):
    moves, start = rope.true_moves(sequences), np.arange(149)
    assert keeps_sides(moves.sides[:, start], moves.sides[:, start + 1]).all()
    assert moves.are_local(start, start + 1).mean() > 0.98


def test_the_reach_is_what_two_recorded_steps_reach(sequences):
    start = np.concatenate([np.arange(149) + 151 * k for k in range(3)])
    moved = rope.displacement(sequences.position[start], sequences.position[start + 2])
    moves = rope.true_moves(sequences)
    assert np.mean(moved <= moves.reach) == pytest.approx(0.99, abs=0.005)
    assert 1.5 * rope.LONGEST_DRAG < moves.reach < 4 * rope.LONGEST_DRAG


def test_the_graph_of_local_moves_is_all_pairs_that_are_local(sequences):
    moves = rope.true_moves(sequences)
    first, second = (numbers.ravel() for numbers in np.meshgrid(*[np.arange(sequences.num_frames)] * 2, indexing="ij"))
    wanted = moves.are_local(first, second) & (first != second)
    assert (moves.graph().toarray().ravel() > 0).tolist() == wanted.tolist()


def test_evaluation_measures_the_rope_by_its_farthest_link(sequences):
    truth, domain = truth_of(sequences), find_domain("rope")
    moved = sequences.position[:1].copy()
    moved[0, 6] += 4
    assert truth.straight(sequences.position[:1], moved).tolist() == [4] and domain.unit == "pixels"
    with pytest.raises(ValueError, match=r"shape \(n, 24\)"):
        rope.displacement(np.zeros((2, 2)), np.zeros((2, 2)))


def test_a_fitted_rope_is_scored_and_reported_though_its_positions_are_no_plane(sequences, tmp_path):
    config = Config(
        local_metric=LocalMetricConfig(num_updates=5, batch_size=16),
        embedding=EmbeddingConfig(num_updates=5, goals_per_round=16)
    )
    model = fit(sequences, config, tmp_path / "run", "cpu")
    card = evaluate(model, SuccessRule(episodes=20))
    steps = rope.displacement(sequences.position[:150], sequences.position[1:151])
    assert card["success_radius"] == pytest.approx(3 * np.median(steps), rel=0.1) and 0 <= card["success"] <= 1
    assert card["false_beyond"] >= 3 * steps.max() and "pixels" in page(model, card, [])
    assert room_scene(sequences) is None  # pictures lie on the metric map

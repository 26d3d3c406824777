"""Closures between recordings count only where the recordings show one world."""

from dataclasses import replace

import numpy as np
import pytest
from test_closures_moving import BRIEF, GAP, REACH, WALKS, corridor

from plan2vec import fit
from plan2vec.graph.build import closure_entries
from plan2vec.graph.neighbors import NearPairs
from plan2vec.graph.worlds import CELL, SHARED, in_one_world, stretches


def along(first, second, length):
    """Closures first - second, first+1 - second+1, ..."""
    return np.arange(length) + first, np.arange(length) + second


def closures(*stretches_of_pairs):
    first, second = (np.concatenate(side) for side in zip(*stretches_of_pairs, strict=True))
    return NearPairs(first, second, np.zeros(len(first), np.float32))


TWO, THREE = np.repeat((0, 1), 200), np.repeat((0, 1, 2), 200)


def test_recordings_that_look_alike_for_a_moment_here_and_there_are_two_worlds():
    lamps = closures(along(10, 250, SHARED // 2), along(100, 330, SHARED // 2), along(10, 60, 3))
    assert in_one_world(lamps, TWO).tolist() == [False] * (SHARED // 2 * 2) + [True] * 3


def test_one_long_stretch_makes_them_one_world_and_the_moments_count_too():
    assert in_one_world(closures(along(10, 250, SHARED + 1), along(100, 330, 2)), TWO).all()


def test_a_third_recording_connects_two():
    both = (along(0, 200, SHARED + 1), along(100, 450, SHARED + 1), along(50, 550, 2))
    assert in_one_world(closures(*both), THREE).all()
    assert in_one_world(closures(both[0], both[2]), THREE).tolist() == [True] * (SHARED + 1) + [False] * 2


def test_of_short_recordings_a_tenth_is_enough():
    run = np.repeat((0, 1), 40)
    assert in_one_world(closures(along(5, 50, 5)), run).all()
    assert not in_one_world(closures(along(5, 50, 4)), run).any()


def test_who_stands_still_before_a_lamp_sees_it_for_long_and_that_proves_nothing():
    first = np.repeat(10, 30)
    assert not in_one_world(closures((first, np.arange(30) + 250)), TWO).any()


def test_stretches_are_closures_that_follow_each_other_and_may_jump_a_little():
    pairs = closures(along(10, 100, 8), (np.array([17 + CELL]), np.array([108])), along(60, 100, 3))
    numbered = stretches(pairs.first, pairs.second)
    assert len(set(numbered[:9])) == 1 and len(set(numbered[9:])) == 1 and numbered[0] != numbered[9]


def test_stretches_do_not_go_on_from_the_end_of_a_recording_into_the_next():
    across = closures(along(190, 410, 20))  # of frames 190 to 209, half of one recording and half of the next
    assert not in_one_world(across, THREE).any()


def test_none_are_none():
    assert len(in_one_world(closures((np.empty(0, int), np.empty(0, int))), TWO)) == 0


@pytest.mark.parametrize("radius", [None, REACH * GAP])
def test_a_fit_leaves_closures_between_worlds_out_and_says_so(monkeypatch, radius):
    recorded, config = corridor(*WALKS), replace(BRIEF, radius=radius)
    all_of_them = fit(recorded, config, device="cpu")
    monkeypatch.setattr("plan2vec.graph.join_moving.in_one_world",
                        lambda pairs, run: run[pairs.first] == run[pairs.second])
    kept = fit(recorded, config, device="cpu")
    counts = [closure_entries(one.graph, recorded.sequence).sum() for one in (kept, all_of_them)]
    assert "between recordings of which no stretch looks alike" in kept.closure_report and counts[0] < counts[1]

"""SPTM's network on a corridor that it has to learn, and its guide on frames whose reachability is known exactly."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from plan2vec.baselines.sptm_memory import (
    Places,
    Reachability,
    ReachabilityConfig,
    SptmConfig,
    SptmGuide,
    all_logits,
    find_shortcuts,
    pair_loss,
    running_median,
    train_reachability,
)
from plan2vec.data import make_sequences
from plan2vec.runs.products import load_module, save_module

CPU = torch.device("cpu")
TINY = ReachabilityConfig(max_gap=3, min_far=30, encoder="small", dim=32, width=32, num_updates=150)


@cache
def exploration(corridor):
    """A random walk along a painted wall: a frame shows 24 columns of it, a step moves by 2."""
    rng = np.random.default_rng(corridor)
    wall = np.repeat(rng.integers(256, size=(4, 150, 3), dtype=np.uint8), 4, axis=0).repeat(4, axis=1)
    step = np.repeat(rng.choice([-2, 2], 400), rng.integers(1, 16, size=400))[:1500]
    column = np.abs(np.cumsum(step))
    column = np.minimum(column % 1100, 1100 - column % 1100)
    return make_sequences(np.stack([wall[:, first : first + 24] for first in column]))


@cache
def learned(num_updates=TINY.num_updates):
    return train_reachability(exploration(0), ReachabilityConfig(**{**vars(TINY), "num_updates": num_updates}), 0, CPU)


def accuracy(reachability, recorded):
    """Mean of the shares of near and of far pairs that are told right."""
    places = Places(recorded.sequence, TINY)
    right = []
    for draw in range(20):
        frames, times = places.draw(np.random.default_rng(draw))
        logits = all_logits(reachability, reachability.codes(recorded.frames[frames]))
        apart = abs(times[:, None] - times)
        near, far = (apart > 0) & (apart <= TINY.max_gap), apart > TINY.min_far
        right.append((np.mean(logits[near] > 0) + np.mean(logits[far] < 0)) / 2)
    return np.mean(right)


def test_reachability_is_learned_and_holds_in_a_corridor_never_seen():
    before = accuracy(learned(num_updates=0), exploration(0))
    assert before < 0.7
    assert accuracy(learned(), exploration(0)) > 0.9
    assert accuracy(learned(), exploration(1)) > 0.8


def test_the_same_seed_gives_the_same_numbers_and_a_saved_network_too(tmp_path):
    frames = exploration(0).frames[:50]
    few = [train_reachability(exploration(0), ReachabilityConfig(**{**vars(TINY), "num_updates": 3}), seed, CPU)
           for seed in (0, 0, 1)]
    first, second, other = (network.codes(frames) for network in few)
    assert torch.equal(first, second) and not torch.equal(first, other)
    save_module(tmp_path / "reachability.safetensors", few[0])
    loaded = Reachability(frames[:1], TINY)
    load_module(tmp_path / "reachability.safetensors", loaded)
    assert torch.equal(loaded.codes(frames), first)


def test_places_of_an_update_are_stretches_of_one_sequence_and_never_cross_into_the_next():
    sequence = np.repeat([0, 1, 2], 10)
    frames, times = Places(sequence, TINY).draw(np.random.default_rng(0))
    stretches = frames.reshape(TINY.num_places, TINY.views_per_place)
    assert (sequence[stretches] == sequence[stretches[:, :1]]).all() and np.ptp(stretches, axis=1).max() == TINY.max_gap
    others = sequence[frames][:, None] != sequence[frames]
    assert others.any() and (abs(times[:, None] - times)[others] > TINY.min_far).all()


def test_pairs_that_are_neither_near_nor_far_in_time_and_a_frame_with_itself_teach_nothing():
    apart = torch.tensor([[0, 10], [10, 0]])
    assert pair_loss(torch.full((2, 2), 9.0), apart, TINY) == 0
    right = torch.tensor([[0.0, 9.0], [-9.0, 0.0]])
    assert pair_loss(right, torch.tensor([[0, 2], [40, 0]]), TINY) < 0.001 < pair_loss(-right, apart.T * 4, TINY)


class Oracle(nn.Module):
    """A frame's first pixel is where it is; places up to `reach` apart are within reach."""

    def __init__(self, reach):
        super().__init__()
        self.reach = reach

    def codes(self, frames):
        return torch.from_numpy(frames[:, 0, 0, :1].astype(np.float32))

    def logits(self, first, second):
        return 4 * (self.reach + 1 - (first - second).abs()[..., 0])


def views(places):
    return np.tile(np.asarray(places, np.uint8)[:, None, None, None], (1, 2, 2, 3))


def guide_of(places, reach=3, **config):
    return SptmGuide(views(places), Oracle(reach), SptmConfig(**{"num_shortcuts": 0, **config}))


LAPS = np.arange(60) % 30  # the same round twice


def test_a_running_median_is_that_of_numpy_and_shorter_at_the_ends():
    values = np.random.default_rng(0).normal(size=50)
    naive = [np.median(values[max(0, i - 10) : i + 11]) for i in range(50)]
    assert running_median(values, 10) == pytest.approx(naive)
    assert running_median(values[:3], 10) == pytest.approx(np.full(3, np.median(values[:3])))


def test_shortcuts_join_revisits_and_the_shortest_path_uses_them():
    guide = guide_of(LAPS, num_shortcuts=20)
    assert len(guide.shortcuts) == 20 and (guide.shortcuts[:, 1] - guide.shortcuts[:, 0] == 30).all()
    guide.reset(views([5])[0])
    node, num_hops = 40, 0
    while guide.onward[node] >= 0:
        node, num_hops = guide.onward[node], num_hops + 1
    assert num_hops <= 7 < 35 - 1  # by a shortcut; along the recording it would be longer


def test_a_single_look_alike_is_no_shortcut_but_a_stretch_of_them_is():
    logits = np.full((80, 80), -5.0, np.float32)
    logits[10, 60] = 50.0
    for step in range(25):
        logits[20 + step, 50 + step] = 1.0
    first, second = find_shortcuts(logits, SptmConfig(num_shortcuts=10)).T
    assert (second - first == 30).all()


def test_localization_prefers_the_window_and_looks_elsewhere_when_the_view_fits_nothing_there():
    guide = guide_of([*LAPS, *np.arange(200, 210)])
    guide.reset(views([209])[0])
    guide.waypoint(views([12])[0])
    assert guide.here is not None and guide.here < 30  # the middle of the best, which lie in both laps
    guide.here = 40
    guide.waypoint(views([12])[0])
    assert guide.here == 42
    guide.waypoint(views([203])[0])
    assert guide.here is not None and guide.here >= 60


def test_a_view_like_nothing_in_memory_is_lost():
    guide = guide_of(LAPS)
    guide.reset(views([5])[0])
    assert guide.waypoint(views([150])[0]) is None and guide.here is None


@pytest.mark.parametrize(("reach", "ahead"), [(100, 7), (4, 4), (0, 1)])
def test_the_waypoint_is_the_farthest_that_is_surely_reached_and_never_beyond_seven(reach, ahead):
    guide = guide_of(np.arange(100), reach, num_nearest=1)
    guide.reset(views([99])[0])
    for place in range(0, 80, 9):
        guide.here = None
        waypoint = guide.waypoint(views([place])[0])
        assert waypoint is not None and waypoint[0, 0, 0] == place + ahead


def test_following_the_waypoints_leads_to_the_goal_view_itself():
    guide = guide_of(LAPS, num_shortcuts=20, num_nearest=1)
    goal, place, ways = views([25])[0], 3, []
    goal[1, 1] = 77  # not a frame of the recording
    guide.reset(goal)
    before = guide.num_touched
    for _ in range(30):
        way = guide.waypoint(views([place])[0])
        assert way is not None
        ways.append(way)
        place = (place + int(np.sign((int(way[0, 0, 0]) - place + 15) % 30 - 15))) % 30
    assert place == 25 and ways[-1] is goal and guide.num_touched - before < 30 * (2 * 8) + 61


def test_a_network_knows_the_order_of_its_pair_but_shortcuts_do_not_depend_on_it():
    torch.manual_seed(0)
    network = Reachability(exploration(0).frames, TINY)
    codes = network.codes(exploration(0).frames[:20])
    logits = all_logits(network, codes)
    one_way = network.logits(codes[:, None], codes).detach().numpy()
    assert np.allclose(logits, (one_way + one_way.T) / 2, atol=1e-6) and np.array_equal(logits, logits.T)

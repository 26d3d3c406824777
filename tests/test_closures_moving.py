"""Closures of a moving camera: runs that are seen again are believed, single look-alikes are not, and chance is counted
by decoys. Tiny worlds are made of vectors that say where the camera is; the whole method sees small pictures.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import plan2vec
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig, settle, with_settings
from plan2vec.data import Sequences, make_sequences
from plan2vec.embedding.network import OnMetric, build_embedding, taught_part
from plan2vec.graph.build import build_graph, closure_entries, edge_rows
from plan2vec.graph.closures_moving import (
    BACKWARD,
    BOTH,
    HALF_RUN,
    MIN_LASTING,
    MIN_TIME,
    MIRRORED,
    PER_BIN,
    PLAIN,
    REACH,
    Scored,
    believe,
    confidences,
    in_steps,
    recorded_hops,
    run_means,
    score_runs,
    share_lasting,
)
from plan2vec.graph.join_moving import median_distances, steps_before
from plan2vec.graph.neighbors import NearPairs, near_pairs
from plan2vec.graph.suspicious import lone_share
from plan2vec.growing import add
from plan2vec.learning import gradient_loop
from plan2vec.learning.encoders import make_network
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.learning.recorded_pairs import recorded_pairs
from plan2vec.local_metric import build_local_metric, recognized
from plan2vec.pipeline import fit
from plan2vec.runs.products import PRODUCTS

CPU = torch.device("cpu")
GAP = 3
STEPS = np.arange(2.0 * GAP + 1)  # in these worlds frames g steps apart are g apart


def world(*walks):
    """Vectors (n, 2) of walks through corridors, their mirror images and the number of the walk (n,).

    A walk is a list of places. A mirror image shows another wall, which is nowhere.
    """
    vectors = np.stack((np.concatenate(walks), np.full(sum(map(len, walks)), 1e3)), axis=1).astype(np.float32)
    return vectors, vectors * np.float32([1, -1]), np.repeat(np.arange(len(walks)), list(map(len, walks)))


def scored_in(vectors, mirrored, run):
    return score_runs(vectors, mirrored, run, GAP, 200, CPU)


def believed_in(*some, max_false=0.01):
    return believe(scored_in(*some), STEPS, GAP, max_false, len(some[0]))


def as_pairs(pairs):
    return set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))


# ---------------------------------------------------------------------------------------------------- runs


def test_the_second_pass_of_a_corridor_closes_onto_the_first_with_the_right_alignment():
    believed = believed_in(*world(np.arange(60), np.arange(60)))
    assert as_pairs(believed.pairs) == {(k, 60 + k) for k in range(60)}
    assert believed.pairs.distance.max() == believed.threshold == 0.0
    assert believed.estimated_false == pytest.approx(1 / 61) and believed.confidence.min() > 0.9


def test_a_pass_half_a_step_off_closes_onto_both_frames_beside():
    believed = believed_in(*world(np.arange(60), np.arange(60) + 0.5))
    assert {(k + side, 60 + k) for k in range(60) for side in (0, 1) if k + side < 60} <= as_pairs(believed.pairs)
    inside = (believed.pairs.first > 2) & (believed.pairs.second < 117)
    assert inside.sum() > 100 and believed.pairs.distance[inside] == pytest.approx(np.full(inside.sum(), 0.5), abs=1e-4)


def test_a_closure_is_as_long_as_its_ends_are_apart_and_only_before_and_behind_a_pass_they_are():
    vectors, mirrored, run = world(np.arange(60), np.arange(10, 50))
    pairs = believed_in(vectors, mirrored, run).pairs
    assert pairs.distance == pytest.approx(np.abs(vectors[pairs.first, 0] - vectors[pairs.second, 0]), abs=1e-4)
    off = pairs.distance > 0
    assert set(pairs.first[~off]) == set(range(10, 50)) and set(pairs.first[off]) == {7, 8, 9, 50, 51, 52}


def test_a_single_look_alike_far_away_is_not_believed():
    place = np.arange(100.0)
    place[80] = 20
    some = world(place)
    scored = scored_in(*some)
    alike = np.flatnonzero((scored.pairs.first == 20) & (scored.pairs.second == 80))
    assert scored.pairs.distance[alike] == [0.0] and scored.means[PLAIN, alike] > GAP
    assert len(believed_in(*some).pairs) == 0


def test_a_run_walked_backwards_is_no_closure():
    some = world(1.1 * np.arange(60), 1.1 * np.arange(60)[::-1])
    scored = scored_in(*some)
    opposite = scored.pairs.first + scored.pairs.second == 119
    assert opposite.sum() == 60 and (scored.means[BACKWARD, opposite] == 0).all()
    assert not scored.best(PLAIN, 120, 0.1)[opposite].any() and not scored.best(BOTH, 120, 0.1)[opposite].any()
    assert len(believed_in(*some).pairs) == 0


@pytest.mark.parametrize("which", [MIRRORED, BOTH])
def test_a_run_seen_in_a_mirror_is_no_closure_and_counts_as_chance_if_walked_backwards_too(which):
    vectors, mirrored, run = world(1.1 * np.arange(40), 1.1 * np.arange(40)[:: -1 if which == BOTH else 1])
    vectors[40:], mirrored[40:] = mirrored[40:].copy(), vectors[40:].copy()
    scored = scored_in(vectors, mirrored, run)
    assert scored.means.min() == 0 and set(scored.means.argmin(axis=0)[scored.means.min(axis=0) == 0]) == {which}
    assert (scored.best(BOTH, 80, 0.1) & (scored.means[BOTH] <= GAP)).sum() == (40 if which == BOTH else 0)
    assert len(believed_in(vectors, mirrored, run).pairs) == 0


def test_closures_never_cross_the_end_of_a_sequence():
    some = world(np.arange(30), np.arange(30, 60))  # the second goes on where the first ends
    assert np.linalg.norm(some[0][29] - some[0][30]) == 1
    scored = scored_in(*some)
    assert len(scored.pairs) > 0 and np.isinf(scored.means[PLAIN]).all()  # less than half of any run was recorded
    assert len(believed_in(*some).pairs) == 0
    assert len(believed_in(some[0], some[1], np.zeros(60, int)).pairs) == 0  # one recording: too near in time


def test_frames_of_one_recording_close_only_after_some_time():
    standing = believed_in(*world(np.repeat(np.arange(15), 5) / 5))  # so slow that all frames are near
    apart = standing.pairs.second - standing.pairs.first
    assert len(apart) > 0 and apart.min() >= MIN_TIME


def test_a_corridor_walked_twice_lasts_and_look_alikes_that_soon_part_do_not():
    vectors, _, run = world(np.arange(60), np.arange(60))
    assert share_lasting(vectors, run, believed_in(*world(np.arange(60), np.arange(60))).pairs, GAP) == 1
    # six walks pass the same eleven views, on their way from elsewhere to elsewhere
    some = world(*(np.concatenate((k + np.arange(12), np.arange(11), k + 500 + np.arange(12)))
                   for k in 1000 * np.arange(1, 7)))
    pairs = believed_in(*some).pairs
    assert len(pairs) > 30 and share_lasting(some[0], some[2], pairs, GAP) < MIN_LASTING / 2


def test_a_recording_that_ends_soon_says_nothing_about_how_long_views_stay_the_same():
    some = world(np.arange(14), np.arange(14))
    pairs = believed_in(*some).pairs
    assert len(pairs) == 14 and share_lasting(some[0], some[2], pairs, GAP) == 1


@pytest.mark.parametrize("way", [1, -1])
def test_the_mean_of_a_run_is_that_of_a_plain_loop(way):
    rng = np.random.default_rng(0)
    run, (here, there) = np.repeat(np.arange(5), (3, 9, 20, 1, 17)), rng.normal(0, 2, (2, 50, 3)).astype(np.float32)
    first, second = rng.integers(50, size=(2, 200))
    expected = []
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        ends = [(i + k, j + way * k) for k in range(-HALF_RUN, HALF_RUN + 1)]
        ends = [(a, b) for a, b in ends if min(a, b) >= 0 and max(a, b) < 50 and run[a] == run[i] and run[b] == run[j]]
        near = [min(5.1, float(np.linalg.norm(here[a] - there[b]))) for a, b in ends]
        expected.append(np.mean(near) if len(near) > HALF_RUN else np.inf)
    assert 0 < np.isinf(expected).sum() < 200
    assert run_means((here, there), first, second, run, way, 5.1) == pytest.approx(np.array(expected), rel=1e-5)


def test_approximate_search_finds_the_closures_and_says_its_recall():
    pytest.importorskip("usearch")
    some = world(np.arange(60), np.arange(10, 50))
    scored = score_runs(*some, GAP, 50, CPU, "approximate")
    assert scored.pairs.recall > 0.9 and scored_in(*some).pairs.recall is None
    assert len(believe(scored, STEPS, GAP, 0.01, 100).pairs) >= 38


# ---------------------------------------------------------------------------------------------------- decoys


def judged(plain, both):
    """Candidates far from each other: some whose plain run scores best, and some whose decoy does, with these means."""
    num = len(plain) + len(both)
    means = np.full((4, num), 9, np.float32)
    means[PLAIN, : len(plain)], means[BOTH, len(plain) :] = plain, both
    number = 100 * np.arange(num)
    pairs = NearPairs(number, number + 50, np.full(num, 0.5, np.float32))
    return Scored(pairs, means, np.ones(num, bool)), 100 * num


@pytest.mark.parametrize(("max_false", "threshold"), [(0.0, 0.4), (0.01, 0.4), (0.02, 1.0), (1.0, 1.0)])
def test_decoys_above_the_share_that_may_be_false_lower_the_threshold(max_false, threshold):
    plain = np.arange(1, 101) / 100
    scored, n = judged(plain, [0.405, 0.505])
    believed = believe(scored, STEPS, GAP, max_false, n)
    assert believed.threshold == pytest.approx(threshold) and len(believed.pairs) == round(100 * threshold)
    without, n = judged(plain, [])
    assert len(believe(without, STEPS, GAP, max_false, n).pairs) == 100


def test_views_that_look_like_their_mirror_image_are_no_decoys():
    scored, n = judged(np.arange(1, 101) / 100, np.full(20, 0.05))
    assert not len(believe(scored, STEPS, GAP, 0.01, n).pairs) > 10
    symmetric = replace(scored, telling=np.arange(120) < 100)
    assert len(believe(symmetric, STEPS, GAP, 0.01, n).pairs) == 100
    mostly = replace(scored, telling=np.arange(120) < 40)  # the rest is too little to count
    assert len(believe(mostly, STEPS, GAP, 0.01, n).pairs) == len(believe(scored, STEPS, GAP, 0.01, n).pairs)


def test_no_run_counts_beyond_the_limit():
    scored, n = judged(np.arange(1, 101) / 10, [])
    assert believe(scored, STEPS, GAP, 1.0, n).threshold == GAP and not len(believe(scored, STEPS, 0.0, 1.0, n).pairs)


def planted_world(num_true, num_chance, rng):
    """Short walks, each in a corridor of its own; then as many again. Of these the first are true revisits. The others
    resemble one of the first by chance, in one of the four ways. Returns the world, and which frames (n,) are such.
    """
    num, length = num_true + num_chance, 16
    way = np.where(np.arange(num) < num_true, PLAIN, rng.integers(4, size=num))
    corridor = np.stack((20 * (np.arange(num) % 10), 20 * (np.arange(num) // 10), np.full(num, 20)), axis=1)
    walks = np.stack([np.column_stack((np.arange(length), np.tile(place, (length, 1)))) for place in corridor])
    again = np.where(np.isin(way, (BACKWARD, BOTH))[:, None, None], walks[:, ::-1], walks).astype(float)
    again[..., 0] += rng.normal(0, np.where(np.arange(num) < num_true, 0.2, 0.6)[:, None], (num, length))
    again[np.isin(way, (MIRRORED, BOTH)), :, 3] *= -1  # the mirror image of a mirror image is the frame itself
    vectors = np.concatenate((walks, again)).reshape(-1, 4).astype(np.float32)
    run = np.repeat(np.arange(2 * num), length)
    return (vectors, vectors * np.float32([1, 1, 1, -1]), run), run >= num + num_true


def test_the_estimated_share_of_false_closures_is_the_planted_one_within_a_factor_of_two():
    some, is_chance = planted_world(40, 60, np.random.default_rng(0))
    believed = believed_in(*some, max_false=1.0)
    planted = is_chance[believed.pairs.second].mean()
    assert 0.1 < planted < 0.5 and planted / 2 < believed.estimated_false < 2 * planted
    strict = believed_in(*some, max_false=0.02)  # chance resembles less well than what is true: a threshold parts them
    found = (~is_chance[strict.pairs.second]).sum()
    assert found > 0.8 * 40 * 16 and 1 - found / len(strict.pairs) < 0.05 and strict.estimated_false < 0.03


def test_confidence_falls_with_the_mean_of_the_run():
    scored, n = judged(np.arange(1, 501) / 500, 1 - np.geomspace(1e-3, 0.5, 60))
    believed = believe(scored, STEPS, GAP, 1.0, n)
    order = scored.means[PLAIN][believed.pairs.first // 100]
    assert (np.diff(order) > 0).all() and (np.diff(believed.confidence) <= 0).all()
    assert believed.confidence[0] > 0.98 and believed.confidence[-1] < 0.5


def test_the_confidence_of_a_bin_is_one_less_the_share_of_decoys_in_it_and_never_rises():
    num_chance = np.concatenate((np.zeros(PER_BIN), np.full(PER_BIN, 10), np.full(PER_BIN, 12))).astype(int)
    share = 1 - confidences(num_chance)
    assert share == pytest.approx(np.repeat([0.5, 10.5, 10.5], PER_BIN) / (PER_BIN + 1))
    assert confidences(num_chance[:0]).shape == (0,)


# ---------------------------------------------------------------------------------------------------- lengths and hops


def test_local_distances_become_steps_by_the_inverse_of_the_medians():
    medians = np.array([0, 1.2, 2.1, 2.8, 3.3])
    assert in_steps(medians, medians) == pytest.approx(np.arange(5), abs=1e-4)
    assert in_steps(np.array([0.6, 9.0]), medians) == pytest.approx([0.5, 4], abs=1e-4)
    dented = np.array([0, 1, 2, 1.9, 3])  # medians of few frames need not rise
    assert (np.diff(in_steps(np.linspace(0, 3, 50), dented)) >= 0).all()


def test_medians_are_those_of_frames_recorded_without_a_gap():
    vectors, _, run = world(np.arange(10), 2.0 * np.arange(4))
    assert median_distances(vectors, run, 2) == pytest.approx([0, 1, 2])
    assert median_distances(vectors[:3], run[:3], 6) == pytest.approx([0, 1, 2])  # as far as runs are long


def test_recorded_hops_reach_up_to_the_gap_weigh_their_way_and_never_lead_to_another_sequence():
    run, clock = np.repeat([0, 1], (5, 4)), np.array([0, 1, 2, 4, 7, 7, 8, 9, 10.0])
    hops = recorded_hops(run, clock, GAP)
    far = [(i, j) for i in range(9) for j in range(i + 2, min(i + GAP, 8) + 1) if run[i] == run[j]]
    naive = {(i, j): clock[j] - clock[i] for i, j in far}
    found = zip(hops.first.tolist(), hops.second.tolist(), hops.distance.tolist(), strict=True)
    assert {(i, j): steps for i, j, steps in found} == naive and len(recorded_hops(run, clock, 1)) == 0


def test_standing_still_takes_no_step_and_long_steps_count_as_long_as_they_are():
    frames = np.array([0, 1, 1, 2, 3, 10, 11, 12.0])[:, None]
    some = make_sequences(frames, np.repeat([0, 1], (5, 3)))
    assert steps_before(some, np.ones(8, bool)).tolist() == [0, 1, 1, 2, 3, 3, 4, 5]
    lengths = replace(some, step_length=np.array([2, 2, 2, 6, np.nan, 2, 2, np.nan]))
    assert steps_before(lengths, np.ones(8, bool)).tolist() == [0, 1, 1, 2, 5, 5, 6, 7]


# ---------------------------------------------------------------------------------------------------- lone closures


def test_no_closure_stands_alone_in_a_dense_world():
    rng = np.random.default_rng(0)
    place = np.clip(rng.uniform(0, 4, (30, 1, 2)) + rng.normal(0, 0.6, (30, 10, 2)).cumsum(axis=1), 0, 4).reshape(-1, 2)
    sequence = np.repeat(np.arange(30), 10)
    graph = build_graph(sequence, near_pairs(place, 0.8, 50, CPU))
    assert closure_entries(graph, sequence).sum() > 1000 and lone_share(graph, sequence, rng) == 0.0


def test_one_planted_shortcut_stands_alone_and_without_closures_there_is_no_share():
    sequence, rng = np.zeros(60, int), np.random.default_rng(0)
    shortcut = NearPairs(np.array([10]), np.array([40]), np.array([0.5], np.float32))
    assert lone_share(build_graph(sequence, shortcut), sequence, rng) == 1.0
    near = replace(shortcut, second=np.array([14]))  # its ends are four recorded steps apart
    assert lone_share(build_graph(sequence, near), sequence, rng) == 0.0
    none = shortcut.select(np.zeros(1, bool))
    assert lone_share(build_graph(sequence, none), sequence, rng) is None


# ---------------------------------------------------------------------------------------------------- the whole method

BRIEF = Config(
    view="moving", dim=4, local_metric=LocalMetricConfig(num_updates=20, batch_size=16, dim=8, far_weight=1.0),
    embedding=EmbeddingConfig(num_updates=6, updates_per_round=3, goals_per_update=16, nodes_per_update=16,
                              goals_per_round=16)
)
WALKS = ((0, 40), (8, 48), (4, 44))


def corridor(*walks: tuple[int, int]) -> Sequences:
    """Walks before two fixed random patterns of patches, 2 x 4 pixels; the near one scrolls twice as fast."""
    far, near = np.random.default_rng(0).integers(256, size=(2, 4, 40), dtype=np.uint8).repeat(2, 1).repeat(4, 2)
    place = np.concatenate([np.arange(*walk) for walk in walks])
    frames = [np.vstack((far[:, x : x + 16], near[:, 2 * x : 2 * x + 16])) for x in place.tolist()]
    label = np.repeat(np.arange(len(walks)), [last - first for first, last in walks])
    return make_sequences(np.stack(frames), label, position=place[:, None])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return fit(corridor(*WALKS), BRIEF, tmp_path_factory.mktemp("whole") / "run", "cpu")


def test_a_moving_camera_places_its_own_views_and_refuses_foreign_images(whole):
    own = whole.locate(whole.sequences.frames[5])
    assert own.on_map and own.distance < 1e-3
    steps = np.linalg.norm(np.diff(whole.local_vectors, axis=0), axis=1)
    assert np.median(steps) <= whole.reach_of_images <= steps.max()  # as near as recorded steps are long
    far = whole.locate(255 - whole.sequences.frames[5])
    assert far.on_map == (far.distance <= whole.reach_of_images)


def products(folder):
    return {name: (folder / file).read_bytes() for name, file in PRODUCTS.items()}


def test_views_close_where_the_camera_came_back_and_nowhere_else(whole):
    place, sequence = whole.sequences.position[:, 0], whole.sequences.sequence
    row, column = edge_rows(whole.graph), whole.graph.indices
    again = sequence[row] != sequence[column]
    assert again.sum() > 100 and np.abs(place[row] - place[column])[again].max() <= GAP
    assert whole.built.confidence.nnz == (again & (row < column)).sum()
    assert 0 < whole.built.estimated_false < 0.05 and 0 < whole.built.confidence.data.min() <= 1


@pytest.mark.parametrize(("share", "closes"), [(0.39, False), (0.4, True), (None, True)])
def test_a_metric_that_recognizes_too_few_of_the_unseen_steps_gives_no_closure_and_fit_says_so(
    monkeypatch, caplog, share, closes
):
    monkeypatch.setattr("plan2vec.local_metric.recognized", lambda *arguments: share)
    with caplog.at_level("INFO", "plan2vec"):
        model = fit(corridor(*WALKS), BRIEF, device="cpu")
    row, column = edge_rows(model.graph), model.graph.indices
    assert (model.sequences.sequence[row] != model.sequences.sequence[column]).any() == closes
    refusal = "no closures: the local metric takes only 39% of recorded steps"
    assert (refusal in caplog.text) == model.closure_report.startswith("no closures") == (not closes)
    assert (model.built.estimated_false is None) == (not closes)


def test_recognized_steps_are_those_within_the_gap(whole):
    images = FrameTensors(whole.sequences.frames, CPU)
    pairs = recorded_pairs(whole.sequences, np.ones(120, bool), GAP)
    length = whole.local_distance(pairs.first[0], pairs.first[0] + 1)
    metric = whole.local_metric
    scale = float(metric.scale)
    try:
        for stretch in (1.0, GAP / float(np.median(length)), 1e4):
            metric.scale.fill_(scale * stretch)
            assert recognized(metric, images, pairs) == pytest.approx(np.mean(stretch * length <= GAP), abs=0.05)
    finally:
        metric.scale.fill_(scale)
    assert recognized(metric, images, recorded_pairs(whole.sequences, np.zeros(120, bool), GAP)) is None


def test_what_was_measured_and_the_confidences_survive_saving_and_loading(whole, tmp_path):
    assert 0 <= whole.trained.recognized <= 1
    whole.save(tmp_path / "saved")
    for loaded in (plan2vec.load(whole.folder, "cpu"), plan2vec.load(tmp_path / "saved", "cpu")):
        assert loaded.trained.recognized == whole.trained.recognized
        assert loaded.built.estimated_false == whole.built.estimated_false
        assert loaded.built.reversibility == whole.built.reversibility
        for name in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(loaded.built.confidence, name), getattr(whole.built.confidence, name))


def test_the_map_of_views_is_a_small_network_on_the_vectors_of_the_metric(whole):
    assert isinstance(whole.embedding.encoder, OnMetric)
    metric, below = whole.local_metric.encoder.state_dict(), whole.embedding.encoder.metric.state_dict()
    assert metric.keys() == below.keys() and all(torch.equal(metric[name], below[name]) for name in metric)
    part, seen = taught_part(whole.embedding, FrameTensors(whole.sequences.frames, CPU))
    assert seen.frames.shape == (120, 8) and part.encoder is whole.embedding.encoder.network
    assert torch.allclose(part(seen(np.arange(120))), torch.from_numpy(whole.vectors), atol=1e-4)


def test_a_loaded_map_of_views_embeds_frames_as_it_embedded_them_and_new_ones_alike(whole):
    loaded, new = plan2vec.load(whole.folder, "cpu"), corridor((44, 60)).frames
    assert np.allclose(loaded.embed(whole.sequences.frames), whole.vectors, atol=1e-4)
    assert np.array_equal(loaded.embed(new), whole.embed(new)) and loaded.embed(new).shape == (16, 4)


def test_a_map_of_views_on_the_candidates_of_a_stacked_metric_can_be_loaded():
    settings = {"local_metric.architecture": "stacked"}
    config = settle(with_settings(BRIEF, settings), corridor(*WALKS))
    frames = corridor(*WALKS).frames.repeat(4, axis=1).repeat(4, axis=2)  # the paper's network is too deep for 16 x 16
    layers = build_embedding(frames, config).encoder.metric.state_dict()
    candidates = build_local_metric(frames, config.encoder, config.local_metric).candidates
    assert layers.keys() == candidates.encoder.state_dict().keys()


@pytest.mark.parametrize("stop_at", [7, 22, 28])  # of 20 updates, 5 on all frames, and 6 of the map
def test_a_fit_of_views_that_was_stopped_ends_with_the_same_bytes(whole, tmp_path, monkeypatch, stop_at):
    save, saved = gradient_loop._save_checkpoint, []

    def save_or_stop(*arguments):
        save(*arguments)
        saved.append(arguments)
        if len(saved) == stop_at:
            raise InterruptedError("as if killed")

    with monkeypatch.context() as patched:
        patched.setattr(gradient_loop, "_save_checkpoint", save_or_stop)
        with pytest.raises(InterruptedError):
            fit(corridor(*WALKS), BRIEF, tmp_path / "run", "cpu", checkpoint_seconds=0.0)
    assert not (tmp_path / "run" / PRODUCTS["vectors"]).exists()
    fit(corridor(*WALKS), BRIEF, tmp_path / "run", "cpu")
    assert products(tmp_path / "run") == products(whole.folder)


def test_positions_replaced_by_noise_change_no_product_of_views(whole, tmp_path):
    blind = replace(corridor(*WALKS), position=np.random.default_rng(1).normal(size=(120, 1)))
    fit(blind, BRIEF, tmp_path / "run", "cpu")
    assert products(tmp_path / "run") == products(whole.folder)


def test_a_map_of_views_grows_where_new_walks_pass_old_places(tmp_path):
    fitted = fit(corridor(*WALKS), BRIEF, tmp_path / "run", "cpu")
    grown = add(tmp_path / "run", corridor((20, 58)), num_updates=3, device="cpu")
    new, old = grown.model, fitted.built.confidence
    assert new.sequences.num_frames == 158 and grown.report["closures"]["new_old"] > 20 and new.radius == fitted.radius
    row, column = edge_rows(new.graph), new.graph.indices
    across = (new.sequences.sequence[row] != new.sequences.sequence[column]) & (column >= 120)
    assert np.abs(new.sequences.position[row] - new.sequences.position[column])[across].max() <= GAP
    assert np.array_equal(new.built.confidence[:120, :120].toarray(), old.toarray())  # what was known stays
    assert new.built.confidence[:, 120:].nnz > 20 and isinstance(new.embedding.encoder, OnMetric)


def test_closures_of_look_alikes_that_soon_part_are_refused_and_said_unless_a_radius_believes_them(monkeypatch):
    monkeypatch.setattr("plan2vec.graph.join_moving.share_lasting", lambda *arguments: 0.3)
    recorded = corridor(*WALKS)
    refused, given = (fit(recorded, replace(BRIEF, radius=radius), device="cpu") for radius in (None, REACH * GAP))
    counts = [len(closure_entries(one.graph, recorded.sequence).nonzero()[0]) for one in (refused, given)]
    assert refused.radius == 0 and refused.built.estimated_false is None and counts[0] < counts[1]
    assert refused.closure_report.startswith("no closures: only 30% of the look-alikes go on being alike")
    assert "by runs of" in given.closure_report


def test_a_map_of_views_without_closures_can_grow_too(tmp_path, monkeypatch):
    monkeypatch.setattr("plan2vec.local_metric.recognized", lambda *arguments: 0.1)
    assert fit(corridor(*WALKS), BRIEF, tmp_path / "run", "cpu").radius == 0
    grown = add(tmp_path / "run", corridor((20, 40)), num_updates=2, device="cpu")
    assert grown.model.sequences.num_frames == 140 and grown.report["closures"]["new_old"] == 0


@pytest.mark.parametrize("shape", [(16, 16, 1), (64, 64, 3), (48, 96, 3)])
def test_the_network_of_views_takes_frames_of_any_size_and_pools_them_to_six_cells(shape):
    network = make_network("views", shape, 8)
    height, width, channels = shape
    assert network(torch.zeros(2, channels, height, width)).shape == (2, 8)
    assert network[-1].in_features == 6 * 128


def test_a_given_radius_joins_runs_within_it_whatever_the_decoys_say():
    near, wide = (fit(corridor(*WALKS), replace(BRIEF, radius=radius), device="cpu") for radius in (1e-4, REACH * GAP))
    assert near.radius <= 1e-4 < wide.radius and near.graph.nnz < wide.graph.nnz

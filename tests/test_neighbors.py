"""Near pairs against brute force, over tile borders, with a cap, and near zero; the approximate search against the
exact one.
"""

import numpy as np
import pytest
import torch

import plan2vec.graph.neighbors
from plan2vec.config import APPROXIMATE_ABOVE, ClosureConfig, Config, settle
from plan2vec.data import make_sequences
from plan2vec.graph.neighbors import near_pairs, nearest

CPU = torch.device("cpu")


def points(num=150, dim=3, seed=0):
    return np.random.default_rng(seed).uniform(0, 10, (num, dim)).astype(np.float32)


def brute_force(vectors, max_distance, max_neighbors=None):
    """{(i, j): distance}, i < j, of pairs within the distance; with a cap, of those where one is among the other's
    nearest.
    """
    exact = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    found = {}
    for i in range(len(vectors)):
        others = sorted((j for j in range(len(vectors)) if j != i), key=lambda j: exact[i, j])
        for j in others[:max_neighbors]:
            if exact[i, j] <= max_distance:
                found[min(i, j), max(i, j)] = exact[i, j]
    return found


def as_map(pairs):
    return dict(
        zip(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True), pairs.distance.tolist(), strict=True)
    )


@pytest.mark.parametrize("tile", [1, 7, 50, 149, 150, 2048])
@pytest.mark.parametrize(
    ("max_distance", "max_neighbors"),
    [(2.0, 200), (2.0, 3), (5.0, 10), (np.inf, 4), (np.inf, 150)],
)
def test_near_pairs_equal_brute_force(monkeypatch, tile, max_distance, max_neighbors):
    monkeypatch.setattr(plan2vec.graph.neighbors, "TILE", tile)
    vectors = points()
    expected = brute_force(vectors, max_distance, max_neighbors)
    found = near_pairs(vectors, max_distance, max_neighbors, CPU)
    assert as_map(found) == pytest.approx(expected, abs=1e-5) and len(found) == len(expected) > 100
    assert found.first.dtype == found.second.dtype == np.int64 and found.distance.dtype == np.float32
    keys = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert keys == sorted(set(keys)) and (found.first < found.second).all()


def test_the_cap_bites_only_where_a_frame_has_more_neighbours():
    vectors = points()
    free, capped = (len(near_pairs(vectors, 4.0, cap, CPU)) for cap in (150, 5))
    assert capped <= 5 * 150 < free
    assert len(near_pairs(vectors, np.inf, 2, CPU)) <= 2 * 150  # memory stays O(n k) without a radius too


def test_the_cap_holds_where_all_vectors_are_equal():
    assert 0 < len(near_pairs(np.ones((150, 3), np.float32), 1.0, 5, CPU)) <= 5 * 150 + 150


@pytest.mark.parametrize(("tile", "hubs"), [(7, 1), (50, 16), (2048, 2**13)])
def test_hubs_are_the_first_near_frames_in_one_order_of_all(monkeypatch, tile, hubs):
    monkeypatch.setattr(plan2vec.graph.neighbors, "TILE", tile)
    monkeypatch.setattr(plan2vec.graph.neighbors, "FIRST_HUBS", hubs)
    vectors, order = points(), np.random.default_rng(0).permutation(150)
    exact = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    first = {i: [j for j in order if exact[i, j] <= 4.0][:6] for i in range(150)}
    expected = {(min(i, j), max(i, j)): exact[i, j] for i in range(150) for j in first[i] if i != j}
    assert as_map(near_pairs(vectors, 4.0, 5, CPU, "hubs")) == pytest.approx(expected, abs=1e-5)
    assert as_map(near_pairs(vectors, 4.0, 149, CPU, "hubs")) == pytest.approx(brute_force(vectors, 4.0), abs=1e-5)


def test_hubs_keep_hops_long_where_a_recording_is_dense():
    vectors = sheet(5000)
    near, hubs = (near_pairs(vectors, 1.28, 10, CPU, search) for search in ("exact", "hubs"))
    assert near.distance.mean() < 0.6 < 0.75 < hubs.distance.mean() and len(hubs) <= 11 * 5000


def test_equal_vectors_are_at_distance_zero_and_tiny_differences_are_exact():
    vectors = points(40, 32) * 100
    vectors[1] = vectors[0]
    vectors[2] = vectors[0]
    vectors[2, 3] += 2**-7
    found = as_map(near_pairs(vectors, 1.0, 200, CPU))
    assert found == {(0, 1): 0.0, (0, 2): 2**-7, (1, 2): 2**-7}


def test_neighbours_are_found_far_from_the_origin_too():
    vectors = points(150, 4)
    moved = vectors + np.float32(2**12)  # squares of millions would drown distances of 1
    exact = brute_force(moved, 2.0)
    assert as_map(near_pairs(moved, 2.0, 200, CPU)) == pytest.approx(exact, abs=1e-5) and len(exact) > 50


def test_no_pair_within_the_distance_and_a_single_frame_give_no_pairs():
    assert len(near_pairs(points(), 1e-4, 200, CPU)) == 0
    assert len(near_pairs(points(1), 5.0, 200, CPU)) == 0


def test_selected_pairs_keep_their_order():
    pairs = near_pairs(points(), 2.0, 200, CPU)
    chosen = pairs.select(pairs.distance > 1)
    assert as_map(chosen) == {pair: distance for pair, distance in as_map(pairs).items() if distance > 1}
    assert 0 < len(chosen) < len(pairs)


@pytest.mark.parametrize("num", [1, 5, 200])
def test_the_nearest_vectors_of_queries_equal_a_sort(num):
    vectors, queries = points() + 1000, points(30, seed=1) + 1000
    numbers, distances = nearest(vectors, queries, num, CPU)
    exact = np.linalg.norm(queries[:, None].astype(np.float64) - vectors[None], axis=2)
    assert numbers.tolist() == np.argsort(exact, axis=1)[:, :num].tolist()
    assert np.allclose(distances, np.sort(exact, axis=1)[:, :num], atol=1e-4) and numbers.shape == (30, min(num, 150))


def test_a_recorded_vector_is_its_own_nearest_at_distance_zero():
    vectors = points() + 1000
    numbers, distances = nearest(vectors, vectors, 1, CPU)
    assert numbers[:, 0].tolist() == list(range(150)) and (distances == 0).all()


def sheet(num, seed=0):
    """Frames of a place, as a local metric sees them: a flat sheet of 32-d vectors with some noise, about 50 within
    1.28 of each.
    """
    rng = np.random.default_rng(seed)
    place = rng.uniform(0, np.sqrt(num * np.pi * 1.28**2 / 50), (num, 2))
    turned = place @ np.linalg.qr(rng.normal(size=(32, 32)))[0][:2]
    return (turned + 0.05 * rng.normal(size=(num, 32))).astype(np.float32)


@pytest.mark.parametrize(("max_distance", "max_neighbors"), [(1.7, 200), (4.0, 30)])
def test_the_approximate_search_finds_almost_all_near_pairs_and_nothing_else(max_distance, max_neighbors):
    vectors = sheet(5000)
    exact, found = (
        near_pairs(vectors, max_distance, max_neighbors, CPU, search) for search in ("exact", "approximate")
    )
    share = np.isin(exact.first * 5000 + exact.second, found.first * 5000 + found.second).mean()
    assert share >= 0.95 and len(exact) > 40_000
    assert (found.distance <= max_distance * 1.0001).all() and len(found) <= max_neighbors * 5000
    assert found.recall == pytest.approx(share, abs=0.03) and exact.recall is None


def test_the_approximate_search_gives_the_same_pairs_every_time():
    first, second = (near_pairs(sheet(3000), 1.7, 200, CPU, "approximate") for _ in range(2))
    assert np.array_equal(first.first, second.first) and np.array_equal(first.second, second.second)


def settled_search(num_frames, device="cpu", usearch_installed=True, given=None):
    recordings = make_sequences(np.arange(num_frames, dtype=np.float32)[:, None])
    config = Config(closures=ClosureConfig(neighbors=given))
    return settle(config, recordings, device, usearch_installed).closures.neighbors


def test_only_large_recordings_on_a_cpu_are_searched_approximately():
    few, many = APPROXIMATE_ABOVE, APPROXIMATE_ABOVE + 1
    assert [settled_search(num) for num in (few, many)] == ["exact", "approximate"]
    assert settled_search(many, "cuda") == "exact"
    for given in ("exact", "approximate", "hubs"):
        assert [settled_search(num, given=given) for num in (few, many)] == [given, given]


def test_without_its_package_the_search_is_exact_unless_asked_otherwise(monkeypatch):
    assert settled_search(APPROXIMATE_ABOVE + 1, usearch_installed=False) == "exact"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not plan2vec.graph.neighbors.usearch_installed()
    with pytest.raises(ValueError, match="install the extra: pip install 'plan2vec\\[large\\]', or search exactly"):
        near_pairs(points(), 1.0, 200, CPU, "approximate")

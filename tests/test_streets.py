"""Street networks, rendered views and walks: what they promise to those who learn from them."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from plan2vec.data import transitions
from plan2vec.domains import find_domain, streets
from plan2vec.domains.streets import NOISY, SIZES, STEP, Streets, ViewConfig
from plan2vec.evaluation import Episodes, allowed_hops, truth_of
from plan2vec.graph.build import build_graph
from plan2vec.graph.neighbors import NearPairs


def line_of_four(**changes: object) -> Streets:
    """Four views on a line of 30 m to the east, each linked with the next."""
    links = np.array([[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2]])
    line = Streets(
        "street-line", "generated city", np.array([[0.0, 0], [10, 0], [20, 0], [30, 0]]), links, np.full(4, 90.0)
    )
    return replace(line, **changes)  # type: ignore[arg-type]


def save_network(path, **changes: np.ndarray):
    """The paper's tiny box, its south-west corner at 0, 0 m: three views inside, one alone inside, one outside."""
    box = SIZES["street-tiny"]
    metres = np.array([[5.0, 5], [15, 5], [25, 5], [100, 100], [-5, 5]])
    latlon = np.array([box.latitude, box.longitude]) + metres[:, ::-1] / [111_320.0, 84_350.0]
    arrays = {"latlon": latlon, "xy": metres.astype(np.float32), "pano_yaw": np.array([90, 90, 270, 0, 90], np.int16),
              "edges": np.array([[0, 1], [1, 2], [4, 0], [2, 2]], np.int32), "node_id": np.array(list("abcde"))}
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})
    return path


# ---------------------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize("size", [12, 40, "street-tiny", "street-small", "street-medium", "street-large"])
def test_a_generated_city_has_about_as_many_views_as_asked_for_a_step_apart_and_in_one_part(size):
    city = streets.generate_city(size, seed=3)
    wanted = size if isinstance(size, int) else SIZES[size].num_views
    assert city.num_views == pytest.approx(wanted, rel=0.05, abs=2)
    assert np.median(city.link_lengths) == pytest.approx(STEP, rel=0.1) and city.link_lengths.max() < 1.6 * STEP
    assert np.isfinite(streets.street_distance(city)).all()
    assert {tuple(link) for link in city.links} == {tuple(link) for link in city.links[:, ::-1]}


def test_a_generated_city_has_a_diagonal_and_joined_blocks():
    city = streets.generate_city("street-large")
    along = city.heading % 180
    shares = {turn: np.mean(np.abs(along - turn) < 1) for turn in (29, 119)}
    assert 0.85 < sum(shares.values()) < 0.99  # the rest is the diagonal
    # dead ends and T-crossings
    assert (np.bincount(city.links[:, 0]) == 1).sum() + (np.bincount(city.links[:, 0]) == 3).sum() > 10


def test_the_same_seed_gives_the_same_city_another_seed_another_one():
    first, again, other = (streets.generate_city(60, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.xy, again.xy) and np.array_equal(first.links, again.links)
    assert first.xy.shape != other.xy.shape or not np.allclose(first.xy, other.xy)


def test_cameras_look_along_their_street_and_neighbours_the_same_way():
    city = streets.generate_city("street-small")
    ahead = city.xy[city.links[:, 1]] - city.xy[city.links[:, 0]]
    azimuth = np.degrees(np.arctan2(ahead[:, 0], ahead[:, 1]))
    degree = np.bincount(city.links[:, 0])
    along = (degree[city.links] == 2).all(axis=1)
    off = np.abs((azimuth - city.heading[city.links[:, 0]] + 90) % 180 - 90)
    turned = np.abs((city.heading[city.links[:, 1]] - city.heading[city.links[:, 0]] + 180) % 360 - 180)
    assert np.percentile(off[along], 95) < 1 and np.percentile(turned[along], 90) < 1


def test_distances_along_streets_are_those_of_networkx():
    city = streets.generate_city(80)
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        [(int(a), int(b), float(w)) for (a, b), w in zip(city.links, city.link_lengths, strict=True)]
    )
    expected = nx.single_source_dijkstra_path_length(graph, 7)
    ours = streets.street_distance(city)[7]
    assert [expected[k] for k in range(city.num_views)] == pytest.approx(ours.tolist(), rel=1e-5)


def test_a_network_from_a_file_is_cut_to_the_box_and_its_largest_part(tmp_path):
    part = streets.read_network(save_network(tmp_path / "net.npz"), "street-tiny")
    assert part.name == "street-tiny" and part.source == "Manhattan panorama graph"
    assert part.xy.tolist() == [[5, 5], [15, 5], [25, 5]] and part.heading.tolist() == [90, 90, 270]
    assert part.links.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"edges": None}, "edges"),
        ({"edges": np.array([[0, 9]])}, "pairs of view numbers from 0 to 4"),
        ({"edges": np.array([[0.0, 1.0]])}, r"expected edges \(n, 2\) of numbers, but edges came as float64"),
        ({"xy": np.zeros((3, 2))}, "xy has 3 rows for 5 views"),
        ({"latlon": np.full((5, 2), np.nan)}, "latlon must be finite"),
        ({"latlon": np.array([{}], object)}, "cannot be read as a street network"),
    ],
)
def test_a_network_that_does_not_hold_together_is_refused(changes, words, tmp_path):
    path = save_network(tmp_path / "net.npz", **changes)
    with pytest.raises(ValueError, match=words) as caught:
        streets.read_network(path, "street-tiny")
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_what_cannot_be_cut_or_built_is_refused(tmp_path):
    with pytest.raises(ValueError, match="choose one of street-tiny"):
        streets.generate_city("street-huge")
    with pytest.raises(ValueError, match="at least 12 views, but 3"):
        streets.generate_city(3)
    with pytest.raises(ValueError, match="no linked views inside the box of street-tiny"):
        streets.read_network(save_network(tmp_path / "net.npz", latlon=np.zeros((5, 2))), "street-tiny")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match="cannot be read as a street network"):
        streets.read_network(tmp_path / "text.npz", "street-tiny")
    with pytest.raises(ValueError, match="cannot be read as a street network"):
        streets.read_network(tmp_path / "nowhere.npz", "street-tiny")


# ---------------------------------------------------------------------------------------------------- views


def test_without_disturbances_every_visit_of_a_view_is_the_same_image():
    city = streets.generate_city(60)
    first = streets.render_views(city, np.arange(40), ViewConfig(), np.random.default_rng(1))
    again = streets.render_views(city, np.arange(40)[::-1], ViewConfig(), np.random.default_rng(2))[::-1]
    assert first.shape == (40, 64, 64, 1) and first.dtype == np.uint8 and np.array_equal(first, again)


def test_two_noisy_visits_differ_and_the_same_seed_repeats_them():
    city, nodes = streets.generate_city(60), np.arange(70) % 60
    first, again, other = (streets.render_views(city, nodes, NOISY, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert all((a != b).mean() > 0.5 for a, b in zip(first, other, strict=True))
    assert all((first[k] != first[60 + k]).mean() > 0.5 for k in range(10))


def test_the_size_is_as_asked():
    city, nodes = streets.generate_city(40), np.arange(3)
    assert streets.render_views(city, nodes, ViewConfig(pixels=128)).shape == (3, 128, 128, 1)


def test_a_street_runs_to_the_middle_and_the_fronts_stand_to_both_sides():
    image = streets.render_views(line_of_four(), np.array([1]))[0, :, :, 0].astype(int)
    road = (image[::-1] != 85).argmax(axis=0)  # rows of road in each column, from below
    assert road[31:33].min() > 1.5 * road[[16, 47]].max()  # ahead one sees farther than across
    assert np.array_equal(road[:32][::-1], road[32:])  # left and right of a straight street alike


def test_near_views_look_more_alike_than_far_ones():
    city = streets.generate_city("street-small")
    image = streets.render_views(city, np.arange(city.num_views)).reshape(city.num_views, -1).astype(float)
    degree = np.bincount(city.links[:, 0])
    first, second = city.links[(degree[city.links] == 2).all(axis=1)].T
    near = np.abs(image[first] - image[second]).mean(axis=1)
    far = np.abs(image[first] - image[np.random.default_rng(0).permutation(second)]).mean(axis=1)
    assert np.mean(near < far) > 0.8


def test_views_carry_no_compass():
    """Turned to the north, the panoramas of a city show no quarter of the compass that is brighter than the others."""
    city = streets.generate_city("street-small")
    image = streets.render_views(city, np.arange(city.num_views)).astype(float)
    north = np.stack(
        [np.roll(one, round(turn / 360 * 64), axis=1) for one, turn in zip(image[..., 0], city.heading, strict=True)]
    )
    # mean brightness of four quarters of the compass
    by_direction = north.mean(axis=(0, 1)).reshape(4, 16).mean(axis=1)
    assert np.ptp(by_direction) < 12


def test_a_front_stays_where_it_is_while_one_walks_past_it():
    """What is straight across moves by the angle that two metres make at the front."""
    fine = ViewConfig(pixels=256)
    here, ahead = streets.render_views(
        line_of_four(xy=np.array([[0.0, 0], [2.0, 0], [20, 0], [30, 0]])), np.array([0, 1]), fine
    )[..., 0]
    across = slice(180, 204)  # around 90 degrees to the right, in the middle of the window storeys
    rows = slice(40, 150)
    shift = min(
        range(0, 24), key=lambda k: np.abs(here[rows, across].astype(int) - ahead[rows, 180 + k : 204 + k]).mean()
    )
    assert shift == pytest.approx(np.degrees(np.arctan(2.0 / 12.0)) / 360 * 256, abs=2)


def pixel_neighbor_share(city: Streets, config: ViewConfig) -> float:
    """Share of views whose nearest image by pixels, in another visit of all, shows the same view or a linked one. Low
    means that places cannot be recognized without learning."""
    rng = np.random.default_rng(0)
    nodes = np.arange(city.num_views)
    visits = [streets.render_views(city, nodes, config, rng).reshape(len(nodes), -1) for _ in range(2)]
    first, second = (visit.astype(np.float32) for visit in visits)
    apart = (second**2).sum(axis=1) - 2 * first @ second.T  # up to a constant per row
    nearest = apart.argmin(axis=1)
    linked = streets.street_graph(city)[nodes, nearest] > 0
    return float(np.mean(linked | (nearest == nodes)))


def test_raw_pixels_recognize_less_than_half_of_the_views_at_another_visit():
    city = streets.generate_city("street-small")
    assert 0.05 < pixel_neighbor_share(city, NOISY) < 0.55
    assert pixel_neighbor_share(city, ViewConfig()) == 1


# ---------------------------------------------------------------------------------------------------- walks and
# recordings


def test_every_pass_visits_every_view_once_by_walks_of_at_most_ten_views_along_links():
    city = streets.generate_city(120)
    walks = streets.walk_streets(city, passes=3, max_views=10, seed=5)
    visits = np.concatenate(walks)
    assert len(visits) == 3 * city.num_views and max(map(len, walks)) == 10
    assert all(sorted(part) == list(range(city.num_views)) for part in visits.reshape(3, -1))
    links = {tuple(link) for link in city.links.tolist()}
    assert all((a, b) in links for walk in walks for a, b in zip(walk[:-1].tolist(), walk[1:].tolist(), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(walks, streets.walk_streets(city, 3, 10, seed=6), strict=False))


def test_walks_of_nothing_are_refused():
    with pytest.raises(ValueError, match="max_views >= 2, but came as 4 and 1"):
        streets.walk_streets(line_of_four(), max_views=1)


def test_a_recording_holds_images_places_and_step_lengths_of_its_walks():
    line = line_of_four(xy=np.array([[0.0, 0], [10, 0], [18, 6], [30, 6]]))
    walks = [np.array([0, 1, 2]), np.array([3]), np.array([2, 3])]
    recorded = streets.record(line, walks)
    assert recorded.sequence.tolist() == [0, 0, 0, 1, 2, 2] and recorded.domain == "street-line"
    assert recorded.position.tolist() == line.xy[[0, 1, 2, 3, 2, 3]].tolist()
    assert np.array_equal(recorded.step_length, [10, 10, np.nan, np.nan, 12, np.nan], equal_nan=True)
    assert np.array_equal(
        recorded.frames[2], recorded.frames[4]
    ) and not np.array_equal(recorded.frames[1], recorded.frames[2])
    noisy = streets.record(line, walks, NOISY, seed=1)
    assert (noisy.frames[2] != noisy.frames[4]).mean() > 0.5
    assert "rendered city" in recorded.source and "StreetLearn" not in recorded.source


def test_the_directed_graph_of_a_recording_has_the_ground_distance_of_every_step_and_no_way_back():
    city = streets.generate_city(120)
    walks = streets.walk_streets(city, passes=2)
    node, recorded = np.concatenate(walks), streets.record(city, walks, ViewConfig(pixels=16))
    empty = NearPairs(np.empty(0, int), np.empty(0, int), np.empty(0, np.float32))
    graph = build_graph(recorded.sequence, empty, recorded.step_length, True, np.ones(len(node), bool)).tocoo()
    first, second = graph.coords
    assert np.array_equal(first, transitions(recorded.sequence)) and np.array_equal(second, first + 1)
    allowed = streets.street_graph(city)[node[first], node[second]]  # 0 where no link leads
    assert (allowed > 0).all() and np.median(allowed) == pytest.approx(STEP, rel=0.1)
    assert graph.data * np.median(allowed) == pytest.approx(allowed, rel=1e-5)


def test_the_domain_knows_the_success_rule_and_evaluation_takes_straight_lines():
    domain = find_domain("street-large")
    assert domain is not None and domain.unit == "m" and domain.walls == () and domain.extent is None
    assert domain.success.radius == 20 and domain.success.epsilon == 0.05 and domain.success.max_hops is None
    episodes = Episodes(np.zeros(3, int), np.zeros(3, int), np.array([7.0, 1, np.inf]), np.array([7.0, 1, np.inf]))
    # 2 x the shortest + 10, none where no way leads
    assert allowed_hops(episodes, domain.success).tolist() == [24, 12, 0]
    truth = truth_of(streets.record(line_of_four(), [np.arange(4)]))
    assert truth is not None and truth.between(np.array([0]), np.array([3])).tolist() == [30]


@pytest.mark.parametrize("seed", range(3))
def test_four_passes_record_every_link(seed):
    city = streets.generate_city("street-small", seed=seed)
    walks = streets.walk_streets(city, passes=4, seed=seed)
    recorded = {
        tuple(sorted(link)) for walk in walks for link in zip(walk[:-1].tolist(), walk[1:].tolist(), strict=True)
    }
    assert recorded == {tuple(sorted(link)) for link in city.links.tolist()}

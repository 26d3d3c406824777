"""The streets' experiments: what their tables measure, on tiny worlds with a known answer."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from plan2vec.domains.streets import generate_city
from plan2vec.embedding.heads import make_head
from plan2vec.embedding.targets import distance_loss
from plan2vec.experiments import street_cost, street_generalization, street_maps, table2
from plan2vec.experiments.street_scene import DOMAINS, RULES, StreetScene, StreetSite
from plan2vec.results.experiment import SMOKE, Settings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scene() -> StreetScene:
    """A generated Tiny, its networks hardly trained."""
    return StreetScene("street-tiny", 0, Settings(size=SMOKE))


def true_site(scene: StreetScene) -> StreetSite:
    """The street network itself as a graph."""
    hops = csr_array((scene.hops == 1).astype(np.float32))
    view = np.arange(scene.streets.num_views)
    many = copy(scene)
    many.size = replace(SMOKE, episodes=500)
    frames, closure = np.zeros((len(view), 8, 8, 1), np.uint8), np.zeros(hops.nnz, bool)
    return StreetSite(scene=many, frames=frames, graph=hops, view=view, position=scene.streets.xy, closure=closure)


def test_a_node_of_clean_recordings_is_a_view(scene):
    assert scene.recordings.num_frames == 4 * scene.streets.num_views  # the premise: four visits a view
    assert sorted(scene.site.view) == list(range(scene.streets.num_views))


def test_recorded_steps_alone_join_views_and_weigh_their_length(scene):
    site, links = scene.site, {tuple(link) for link in scene.streets.links.tolist()}
    row = np.repeat(np.arange(len(site.view)), np.diff(site.graph.indptr))
    assert not site.closure.any()  # every view was seen four times, the same each time: nothing is left to recognize
    recorded = ~site.closure
    assert {
        (site.view[i], site.view[j]) for i, j in zip(row[recorded], site.graph.indices[recorded], strict=True)
    } <= links
    metres = np.linalg.norm(site.position[row[recorded]] - site.position[site.graph.indices[recorded]], axis=1)
    steps = scene.recordings.step_length[~np.isnan(scene.recordings.step_length)]
    assert np.allclose(site.graph.data[recorded], metres / np.median(steps), rtol=1e-5)


def test_noisy_visits_are_nodes_of_their_own(scene):
    site = scene.visits_site()
    assert len(site.view) == scene.noisy.num_frames


def test_exact_distance_on_the_true_network_always_arrives_and_random_scores_do_not(scene):
    site, rng = true_site(scene), np.random.default_rng(0)
    for rule in RULES.values():
        assert site.success(site.exact_distance(), rule) > 0.99
        assert site.success(lambda nodes, goals: rng.random(len(nodes)), rule) < 0.8


def test_a_goal_without_a_path_is_a_failure(scene):
    site = true_site(scene)
    cut = csr_array((len(site.view),) * 2, dtype=np.float32)
    apart = replace(site, graph=cut, closure=np.zeros(0, bool))
    starts, goals = apart.tasks(RULES["success"])
    near = np.linalg.norm(apart.position[starts] - apart.position[goals], axis=1) < RULES["success"].walk.radius
    assert apart.success(site.exact_distance(), RULES["success"]) == pytest.approx(near.mean())


def test_goals_lie_within_the_reach_of_the_rule(scene):
    site, rule = true_site(scene), RULES["success_near"]
    starts, goals = site.tasks(rule)
    hops = scene.hops[site.view[starts], site.view[goals]]
    assert len(hops) == 500 and hops.min() >= 1 and hops.max() <= 15


def test_the_graphs_numbers_count_false_closures_and_missed_links(scene):
    site = true_site(scene)
    assert site.numbers["missed_link_share"] == 0 and site.numbers["num_closures"] == 0 and site.numbers["degree"] < 3
    matrix = site.graph.toarray()
    far = np.unravel_index(scene.metres.argmax(), matrix.shape)
    matrix[far] = matrix[far[::-1]] = 1
    one, other = scene.streets.links[0]
    matrix[one, other] = matrix[other, one] = 0
    graph = csr_array(matrix)
    row = np.repeat(np.arange(len(matrix)), np.diff(graph.indptr))
    closure = ((row == far[0]) & (graph.indices == far[1])) | ((row == far[1]) & (graph.indices == far[0]))
    numbers = replace(site, graph=graph, closure=closure).numbers
    assert numbers["num_false"] == numbers["num_closures"] == 1 and numbers["false_edge_share"] == 1
    assert numbers["missed_link_share"] == pytest.approx(2 / len(scene.streets.links))


def test_turned_mirrored_and_scaled_positions_are_aligned_without_a_residual():
    rng = np.random.default_rng(0)
    position = rng.normal(size=(40, 2))
    turn = np.array([[0.6, 0.8], [0.8, -0.6]])  # with a mirror
    aligned, residual = street_maps.align(3 * position @ turn + 5, position)
    assert residual < 1e-12 and np.allclose(aligned, position - position.mean(axis=0))
    assert street_maps.align(rng.normal(size=(40, 2)), position)[1] > 0.5


def test_quarters_that_touch_at_a_corner_only_are_opposite():
    position = np.array([[-1.0, -1], [1, -1], [-1, 1], [1, 1]])
    opposite = street_generalization.opposite_quarters(position)
    assert opposite.tolist() == np.fliplr(np.eye(4, dtype=bool)).tolist()


def test_the_l1_heuristic_is_exact_on_a_turned_grid_of_straight_streets():
    """Two views on one turned street: the sum of the differences in the grid's own axes is the street's length."""
    city = generate_city("street-tiny", seed=0)
    scene = StreetScene("street-tiny", 0, Settings(size=SMOKE))
    site = true_site(scene)
    distance = street_cost.block_distance(site)
    first, second = city.links.T
    straight = city.link_lengths / np.median(city.link_lengths)
    estimate = distance(first, second)
    assert (estimate >= straight - 1e-6).all() and np.median(estimate / straight) < 1.15


def test_one_step_of_the_papers_scaling_is_what_its_degrees_make_of_it(scene):
    large = StreetScene("street-large", 0, Settings())
    config, teaching = table2.paper_way(large)
    assert teaching.unit == pytest.approx(1 / 0.48) and config.norm_order == 2 and config.encoder == "resnet18"


def test_a_smoke_run_takes_the_smallest_part_of_the_city():
    assert [scene.domain for scene in StreetScene.chosen(Settings(size=SMOKE), DOMAINS)] == ["street-tiny"]


def test_the_truth_knows_ways_along_the_streets(scene):
    straight = np.linalg.norm(scene.streets.xy[:, None] - scene.streets.xy, axis=-1)
    assert (scene.metres >= straight - 1e-3).all() and scene.hops.max() > 15


def test_points_fitted_to_known_distances_put_unknown_ones_right_where_no_start_folds():
    place = np.random.default_rng(0).uniform(0, 30, (60, 2))
    path = np.linalg.norm(place[:, None] - place, axis=-1)
    unknown = street_generalization.opposite_quarters(place)
    points = street_generalization.fit_points(np.where(unknown, np.inf, path), 2.0, 0, CPU, is_smoke=False)
    found = np.linalg.norm(points[:, None] - points, axis=-1)
    assert np.abs(found - path)[unknown].mean() < 0.05 * path[unknown].mean()


@pytest.mark.parametrize("loss", ["relative", "sammon", "huber"])
def test_free_vectors_end_nearer_to_the_path_lengths_than_classical_scaling(loss):
    column, row = np.divmod(np.arange(36), 6)
    lengths = (np.abs(column[:, None] - column) + np.abs(row[:, None] - row)).astype(np.float32)  # a grid of streets
    head = make_head("squared", 2.0, 4)
    began, ended = (
        distance_loss(head.pairwise(vectors, vectors), torch.from_numpy(lengths), loss, 4.0).item()
        for vectors in (table2.fit_free(lengths, head, loss, num_updates) for num_updates in (0, 200))
    )
    assert ended < 0.8 * began

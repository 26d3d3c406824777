"""Claim: with the learned distance a plan across the city costs about one expansion per step; Dijkstra asks everywhere.

Expected on Large: greedy best-first search expands at most 1.1 nodes and touches at most 1.6 per hop of the shortest
path, with paths within 1 % of the shortest. The paper's counts are from corner to corner, 123 steps.

The graph of views of Table 2. 200 random pairs per seed among those farther apart than the median pair, and one pair
corner to corner. Expanded: nodes whose neighbours were asked for; touched: distinct nodes that came back; both over the
hops of the *shortest* path, plans that fail included. `ratio`: length over the shortest, of plans that arrive. A* with
l1 sums the absolute differences of true coordinates; the map's methods see no position. *plan2vec* goes on from the
seen node of least D; *no memory* from the neighbours of where it stands only, and fails where it would circle."""

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from plan2vec.experiments.base_scene import Found, SceneExperiment
from plan2vec.experiments.planning_cost import plans_of
from plan2vec.experiments.street_scene import NETWORKS, TITLES, StreetScene, StreetSite, part_figures
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.pictures.palette import BLUE
from plan2vec.planner import Distance, Plan, plan_of
from plan2vec.results.comparisons import Column, Figures, bars, by_method, by_metric, compare, legend_below, panels
from plan2vec.results.rows import Arrays, Lines, Row, in_order, parts_of, select, values
from plan2vec.search.shortest_paths import best_first, connected_parts, distances_from, shortest_plans

DOMAINS = ("street-small", "street-large")
DRAWN = ("Dijkstra", "A* with l1", "A* with plan2vec", "plan2vec")
METHODS = (*DRAWN, "plan2vec, no memory")  # the last often fails, so that its cost says little
BLOCKS = {"far": "200 far pairs", "corners": "corner to corner"}
PAPER = {"Dijkstra": 11.8, "A* with l1": 2.7, "plan2vec": 1.6}  # touched per step, corner to corner
NUM_PAIRS, SMOKE_PAIRS = 200, 10
SHOWN = (("touched_per_step", "touched", 1, 2), ("expanded_per_step", "expanded", 1, 2), ("path_ratio", "ratio", 1, 4),
         ("found", "found, %", 100, 1), ("hops", "hops", 1, 0))


def measure(scene: StreetScene, method: str, block: str) -> Found:
    """Counts per hop of the shortest path; the touched nodes of the corner plan are kept for the picture."""
    tasks, graph = draw_tasks(scene, block), scene.site.graph
    plans = make_plans(scene, method, tasks)
    length, hops, _ = shortest_plans(graph.T.tocsr(), tasks[:, 1], tasks[:, 0])  # searched from the starts
    ratios = [plan.length / shortest for plan, shortest in zip(plans, length, strict=True) if plan.length is not None]
    found = {"touched_per_step": sum(plan.num_touched for plan in plans) / hops.sum(),
             "expanded_per_step": sum(plan.num_expanded for plan in plans) / hops.sum(),
             "found": len(ratios) / len(plans), "path_ratio": np.mean(ratios) if ratios else None, "hops": hops.mean()}
    return found | (picture(scene, method, plans[0]) if block == "corners" else {})


def draw_tasks(scene: StreetScene, block: str) -> np.ndarray:
    """(m, 2) starts and goals in the graph's largest part."""
    site, rng = scene.site, rng_at(scene.seed, Stream.STREET_COST)
    joined = np.flatnonzero(connected_parts(site.graph)[1] == 0)
    if block == "corners":
        along = site.position[joined].sum(axis=1)
        return np.array([[joined[along.argmin()], joined[along.argmax()]]])
    pairs = rng.choice(joined, size=(4000, 2))
    length = scene.metres[site.view[pairs[:, 0]], site.view[pairs[:, 1]]]
    return pairs[length > np.median(length)][: SMOKE_PAIRS if scene.size.is_smoke else NUM_PAIRS]


def make_plans(scene: StreetScene, method: str, tasks: np.ndarray) -> list[Plan]:
    site, has_map = scene.site, "plan2vec" in method  # Dijkstra asks for no distance
    distance = scene.train_map(site, scene.config).on(site.frames) if has_map else block_distance(site)
    if method == "plan2vec":
        return [best_first_plan(site.graph, distance, start, goal) for start, goal in tasks.tolist()]
    return plans_of(site.graph, distance, method.split(" with ")[0], tasks)


def best_first_plan(graph: csr_array, distance: Distance, start: int, goal: int) -> Plan:
    """Always on from the seen node of least D: a wrong turn costs some expansions, not the plan."""
    path = best_first(graph, start, goal, lambda nodes: distance(nodes, np.full(len(nodes), goal)), cost_weight=0)
    return plan_of(path, start, goal, "greedy best-first")


def block_distance(site: StreetSite) -> Distance:
    """The l1 distance of true positions in steps, in the axes of the grid of streets (the direction of most links)."""
    streets = site.scene.streets
    east, north = (streets.xy[streets.links[:, 1]] - streets.xy[streets.links[:, 0]]).T
    angle = np.angle(np.sum((east + 1j * north) ** 4)) / 4  # the same for all four directions of a grid
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    place = site.position @ turn / np.median(streets.link_lengths)
    return lambda nodes, goals: np.abs(place[nodes] - place[goals]).sum(axis=1)


def picture(scene: StreetScene, method: str, plan: Plan) -> dict[str, np.ndarray]:
    site, touched = scene.site, sorted(plan.touched)
    if method == "Dijkstra":  # counted from all distances at once; the nodes are those nearer than the goal
        touched = np.flatnonzero(distances_from(site.graph, np.array([plan.start]))[0] <= plan.length).tolist()
    path = np.array(plan.nodes or best_first(site.graph, plan.start, plan.goal).nodes or [], int)
    return {"position": site.position.astype(np.float32), "touched": np.array(touched, int), "path": path}


def table(rows: list[Row]) -> Lines:
    for (network, domain, block), part in parts_of(rows, network=NETWORKS, domain=DOMAINS, block=BLOCKS):
        touched = PAPER if (domain, block) == ("street-large", "corners") else {}
        columns = [*by_metric(SHOWN), Column("paper, touched", texts=touched)]
        head = f"{TITLES[domain]}, {BLOCKS[block]}, a step"
        yield from (f"**{NETWORKS[network]}**", "", *compare(part, head, by_method(part, METHODS), columns))


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    largest = in_order(rows, "domain", DOMAINS)[-1]
    return part_figures(select(rows, domain=largest), arrays, cost_figure)


def cost_figure(rows: list[Row], pictures: Arrays) -> Figure:
    methods = [method for method in DRAWN if select(rows, method=method)]
    figure, axes = panels(len(methods) + 1, 1.8 * (len(methods) + 1) + 1, 2.8)
    for ax, method in zip(axes, methods, strict=False):
        ax.set_title(method, fontsize=9)
        ax.set(xticks=[], yticks=[], aspect="equal")
        if method in pictures:
            position, path, touched = (pictures[method][name] for name in ("position", "path", "touched"))
            ax.scatter(position[:, 0], position[:, 1], s=1.5, c="0.85", linewidths=0)
            ax.scatter(position[touched, 0], position[touched, 1], s=4, c="0.35", linewidths=0, label="touched")
            ax.plot(*position[path].T, color=BLUE, linewidth=0.8, label="plan")
    corners = [values(rows, block="corners", method=method, metric="touched_per_step") for method in methods]
    bars(axes[-1], methods, corners, PAPER)
    axes[-1].set(title="touched per step", xlabel="diamonds: paper", xlim=(0, 13))
    legend_below(figure, axes[0], 2, markerscale=2)
    return figure


EXPERIMENT = SceneExperiment("street-cost", "Planning cost across the city", __doc__, measure, table, draw, DOMAINS,
                             METHODS, BLOCKS, StreetScene)

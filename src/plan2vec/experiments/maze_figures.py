"""Claim: the map unrolls the C-Maze where a VAE folds it, and its values lead around walls (Figures 3, 4, 5 and 10a-e).

Expected: rank correlation of 2-d maps with the true way around walls: plan2vec near 1, VAE clearly lower in the C-Maze.

Figure 3: a memoryless walk without a learned distance beside the plan that search finds. Figure 4: the rooms. Figure 5:
2-d maps of a 21 x 21 grid of positions, coloured by position. Figure 10: (a) local metric against true distance, random
pairs and edges of the graph; (b) recorded trajectories; (c) some of the closures between them; (d) a greedy walk around
the wall; (e) learned distance to one goal. Maps and graphs are those of Table 1 (10,000 frames for figures 5, 10d and
10e; the 1,000 fresh ones for 3, 10b and 10c). Pictures show the first seed.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from plan2vec.baselines import VectorScorer
from plan2vec.baselines.sptm import MetricScorer
from plan2vec.domains import maze
from plan2vec.evaluation import rank_agreement
from plan2vec.experiments import maze_pictures
from plan2vec.experiments.latent_dimension import aliasing, local_metric_of
from plan2vec.experiments.maze_scene import ROOM_TITLES, MazeScene, MazeSite, maze_scenes
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.learning.frame_tensors import encode
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import make_plan, walk_many
from plan2vec.results.comparisons import Figures
from plan2vec.results.rows import Arrays, Groups, Row, cell, in_order, markdown, save_arrays, values
from plan2vec.results.settings import Settings, timed
from plan2vec.search.balls import neighbor_lists
from plan2vec.validity import straight_line

NAME, TITLE = "maze-figures", "Figures 3, 4, 5 and 10: what is learned in the mazes"
DOMAINS = tuple(ROOM_TITLES)
METHODS = ("embedding", "local metric", "connections", "walk")
BLOCKS = ()
DIMENSIONS = (2, 8, 32)  # of the local metric, Figure 10a
GRID, FINE = 21, 49  # positions per side: Figure 5, Figure 10e
NUM_PAIRS, NUM_CLOSURES = 3000, 1500  # drawn
START, GOAL = (-0.2, 0.2), (-0.2, -0.2)  # the two ends of the C


def run(settings: Settings) -> Groups:
    parts = {"embedding": embedding, "local metric": local_metric, "connections": connections, "walk": walk}
    for scene in maze_scenes(settings, DOMAINS):
        for method in scene.lacking(settings, NAME, {}, METHODS):
            (metrics, arrays), seconds = timed(parts[method], scene)
            save_arrays(settings.arrays, NAME, f"{method.replace(' ', '-')}-{scene.domain}-{scene.seed}", **arrays)
            yield scene.rows(settings, NAME, {}, method, metrics, seconds)


def free_grid(room: str, num: int) -> np.ndarray:
    """(m, 2) the positions of a num x num grid that the block can take."""
    side = np.linspace(-maze.REACH, maze.REACH, num)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return grid[maze.is_free(maze.ROOMS[room], grid)]


def embedding(scene: MazeScene) -> tuple[dict, dict]:
    """Figure 5: 2-d latents of the grid, plan2vec and VAE, and how well their distances order true ways."""
    position = free_grid(scene.domain, GRID)
    frames = maze.render(maze.ROOMS[scene.domain], position)
    judge = scene.baseline("VAE 2-d")
    assert isinstance(judge, VectorScorer)
    vectors = {"plan2vec": scene.train_map(scene.large, replace(scene.config, dim=2)).vectors(frames),
               "VAE": encode(judge.encoder, scene.images(frames))}
    first, second = np.triu_indices(len(position), 1)
    true = maze.geodesic(scene.domain, position[first], position[second])
    metrics = {f"spearman_{name}": rank_agreement(straight_line(v[first], v[second]), true)
               for name, v in vectors.items()}
    return metrics, vectors | {"position": position}


def local_metric(scene: MazeScene) -> tuple[dict, dict]:
    """Figure 10a: scores of random pairs against their true distance."""
    site = scene.small
    pairs = rng_at(scene.seed, Stream.SCORED_PAIRS).integers(len(site.frames), size=(2, NUM_PAIRS))
    edges = np.stack((edge_rows(site.graph), site.graph.indices))  # random pairs alone are rarely near
    shown = rng_at(scene.seed, Stream.SCORED_EDGES).integers(edges.shape[1], size=NUM_PAIRS // 4)
    first, second = np.append(pairs, edges[:, shown], axis=1)
    metrics, arrays = {}, {"true": site.truth.between(first, second), "radius": np.array(site.radius)}
    for dim in DIMENSIONS:
        distance = MetricScorer(local_metric_of(scene, dim).metric, scene.device).on(site.frames)
        metrics[f"aliasing_{dim}"] = aliasing(site, distance)
        arrays[f"score_{dim}"] = distance(first, second)
    return metrics, arrays


def connections(scene: MazeScene) -> tuple[dict, dict]:
    """Figures 10b and 10c: recorded steps, and closures between trajectories."""
    site = scene.small
    edges = np.stack((edge_rows(site.graph), site.graph.indices), axis=1)
    closure = closure_entries(site.graph, site.sequences.sequence)
    steps, closures = (edges[is_kind & (edges[:, 0] < edges[:, 1])] for is_kind in (~closure, closure))
    shown = rng_at(scene.seed, Stream.SHOWN_CLOSURES).permutation(len(closures))[:NUM_CLOSURES]
    metrics = {"recorded_steps": len(steps), "closures": len(closures),
               "false_edge_share": site.numbers["false_edge_share"]}
    return metrics, {"position": site.position, "steps": steps, "closures": closures[shown]}


def walk(scene: MazeScene) -> tuple[dict, dict]:
    """Figures 3, 10d and 10e, between the ends of the C: memoryless walk, search, greedy walk and value map."""
    site = scene.large
    start, goal = nearest_frame(site, START), nearest_frame(site, GOAL)
    learned = scene.train_map(site, scene.config)
    greedy = walk_between(site, learned.on(site.frames), start, goal)
    owner, neighbor = neighbor_lists(site.graph, greedy)
    grid = free_grid(scene.domain, FINE)
    frames = np.concatenate((maze.render(maze.ROOMS[scene.domain], grid), site.frames[goal][None]))
    value = learned.on(frames)(np.arange(len(grid)), np.full(len(grid), len(grid)))
    arrays = {"position": site.position[greedy], "neighbor_of": owner, "neighbor": site.position[neighbor],
              "goal": site.position[goal], "grid": grid, "value": value}
    away = float(straight_line(site.position[greedy[-1:]], site.position[[goal]])[0])
    metrics = {"hops": len(greedy) - 1, "reached": float(away < maze.LONGEST_STEP)}
    return metrics, arrays | sampling_and_search(scene.small)


def sampling_and_search(site: MazeSite) -> dict[str, np.ndarray]:
    """Figure 3: 50 random hops, and the shortest path with all frames that the search touched."""
    start, goal = nearest_frame(site, START), nearest_frame(site, GOAL)
    rng = rng_at(site.seed, Stream.SAMPLED_WALK)
    sampled = walk_between(site, lambda nodes, goals: rng.random(len(nodes)), start, goal)
    found = make_plan(site.graph, lambda nodes, goals: np.zeros(len(nodes)), start, goal, "dijkstra")
    position = site.position
    return {"all": position, "sampled": position[sampled], "path": position[found.nodes or [start]],
            "touched": position[sorted(found.touched)], "small_goal": position[goal]}


def nearest_frame(site: MazeSite, place: tuple[float, float]) -> int:
    return int(np.argmin(np.linalg.norm(site.position - np.array(place), axis=1)))


def walk_between(site: MazeSite, distance: Callable, start: int, goal: int) -> np.ndarray:
    """(hops + 1,) a memoryless walk until the goal itself, of at most 50 hops."""
    starts, goals, max_hops = np.array([[start], [goal], [maze.SUCCESS.max_hops]])
    rng = rng_at(site.seed, Stream.SHOWN_WALK)
    walks = walk_many(site.graph, distance, starts, goals, max_hops, 0.0, False, np.equal, rng)
    return walks.nodes[walks.nodes[:, 0] >= 0, 0]


def table(rows: list[Row]) -> list[str]:
    shown = (("spearman_plan2vec", "2-d plan2vec: rank correlation with the true way", 3),
             ("spearman_VAE", "2-d VAE: rank correlation with the true way", 3),
             *((f"aliasing_{dim}", f"local metric {dim}-d: aliasing, share", 4) for dim in DIMENSIONS),
             ("recorded_steps", "recorded steps of the small graph", 0), ("closures", "closures found", 0),
             ("hops", "hops of the walk in 10d", 1))
    rooms = in_order(rows, "domain", DOMAINS)
    body = [[words, *(cell(values(rows, domain=room, metric=metric), 1, digits) for room in rooms)]
            for metric, words, digits in shown]
    return markdown(["", *(ROOM_TITLES[room] for room in rooms)], body)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    seed = min((row["seed"] for row in rows), default=0)
    by_room = {method: {room: arrays[part] for room in DOMAINS if (part := f"{method}-{room}-{seed}") in arrays}
               for method in ("embedding", "local-metric", "connections", "walk")}
    figures = {"4-rooms": maze_pictures.rooms_figure(DOMAINS)}
    if parts := by_room["embedding"]:
        figures["5-embedding"] = maze_pictures.embedding_figure(parts)
    if parts := by_room["connections"]:
        num_found = {room: int(values(rows, domain=room, metric="closures", seed=seed)[0]) for room in parts}
        figures["10bc-connections"] = maze_pictures.connection_figure(parts, num_found)
    if parts := by_room["local-metric"]:
        figures["10a-local-metric"] = maze_pictures.score_figure(*to_look_at(parts), DIMENSIONS)
    if parts := by_room["walk"]:
        figures["10e-value"] = maze_pictures.value_figure(parts)
        figures["3-sampling"] = maze_pictures.sampling_figure(*to_look_at(parts))
        figures["10d-walk"] = maze_pictures.walk_figure(*to_look_at(parts))
    return {f"{NAME}-{name}": figure for name, figure in figures.items()}


def to_look_at(parts: Arrays) -> tuple[str, dict[str, np.ndarray]]:
    """The C where it is at hand, as in the paper, and its arrays."""
    room = "c-maze" if "c-maze" in parts else next(iter(parts))
    return room, parts[room]

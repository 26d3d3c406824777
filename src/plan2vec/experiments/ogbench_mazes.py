"""Claim: on OGBench's point mazes an agent led by the map reaches more goals than OGBench's six reference baselines.

Expected: graph search and A* at least 98 % in every maze, A* touching at most 0.3 of Dijkstra's nodes; greedy with the
best head at least 90 % in medium and large, 80 % in giant.

*Regenerated data*: a million steps per set, recorded anew in OGBench's environments by its published recipe; judged by
its own `success` on its 5 tasks x 50 episodes of at most 1,000 steps. Published rows, from OGBench's table, were
learned from the published files and act by a policy alone; our agent keeps nodes of the recordings and plans on them.
The observation is a vector like any other; nothing reads the maze. Frames become a few thousand nodes
(docs/control-and-reward.md), the controller is told a waypoint about 10 steps ahead. *Controller* heads for the goal
without a plan. *Graph search* follows shortest paths of the nodes' graph, without a map. *Greedy* plans hop to the
neighbour of least D without memory, *lookahead* to the best node within three hops; *A\\** searches with 1.1 D as
heuristic. Without a plan the agent heads for the goal and tries again after 30 actions. *Teleport* mazes draw at random
where a teleport leads, so no plan is sure. Distillation: what greedy walks on the nodes' graph (2,000 pairs) owe to
head, encoder and loss; *free vectors* are the classical scaling of all distances (squared: of their roots).
`touched_share` nodes that A* touches over those that Dijkstra's search touches, same tasks
`touched_share_exact` the same for A* led by the exact distance on the graph: about the least that can be
"""

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from plan2vec.acting.agent import Guidance
from plan2vec.baselines import pair_distance
from plan2vec.domains.ogbench import KINDS, MAZES, NAMES
from plan2vec.embedding.classical_scaling import landmark_vectors
from plan2vec.embedding.heads import make_head
from plan2vec.experiments.ogbench_scene import HEADS, MapKind, PointMaze, search_costs
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.pictures.figures import ORANGE
from plan2vec.planner import Distance, walk_many
from plan2vec.results import comparisons
from plan2vec.results.comparisons import Column, Figures, Panel, by_method, by_metric, compare
from plan2vec.results.rows import Arrays, Groups, Row, cell, in_order, markdown, select, values
from plan2vec.results.settings import Settings
from plan2vec.search.shortest_paths import distances_from

NAME, TITLE = "ogbench", "OGBench: the map drives an agent through point mazes"
DOMAINS = tuple(f"ogbench/{name}" for name in NAMES)
PLANNERS: dict[str, Guidance] = {"greedy": "greedy", "lookahead": "lookahead", "A*": "astar"}
PLAIN: dict[str, Guidance] = {"controller": "direct", "graph search": "graph"}
ACTING = (*PLAIN, *(f"{planner}, {head}" for planner in PLANNERS for head in HEADS))
BLOCKS = ("act", "distillation")
NUM_WALKS = 2000
SUCCESS = {"GCBC": (9, 29, 1, 23, 7, 0), "GCIVL": (63, 45, 0, 70, 12, 0), "GCIQL": (53, 34, 0, 21, 31, 0),
           "QRL": (82, 86, 68, 80, 84, 50), "CRL": (29, 39, 27, 0, 0, 0), "HIQL": (79, 58, 46, 74, 13, 0)}
PUBLISHED = {name: dict(zip([(maze, kind) for kind in KINDS for maze in MAZES[:3]], shares, strict=True))
             for name, shares in SUCCESS.items()}  # success %, by maze and kind
VARIANTS = {"MLP, l2": MapKind("mlp", "l2"), "MLP, squared": MapKind("mlp", "squared"),
            "MLP, mrn": MapKind("mlp", "mrn"), "Fourier, l2": MapKind("fourier", "l2"),
            "Fourier, max-relu": MapKind("fourier", "max-relu"), "Fourier, mrn": MapKind("fourier", "mrn"),
            "Fourier, squared": MapKind("fourier", "squared"),
            "Fourier, squared, 16-d": MapKind("fourier", "squared", 16),
            "Fourier, squared, Sammon's stress": MapKind(loss="sammon"),
            "Fourier, squared, guided by scaling": MapKind(guided=0.3)}
FREE = ("free vectors, l2", "free vectors, squared")
METHODS = (*ACTING, *FREE, *VARIANTS)


def run(settings: Settings) -> Groups:
    if find_spec("ogbench") is None:
        print(f"{NAME} is left out: it needs OGBench's environments; pip install 'plan2vec[ogbench]'", file=sys.stderr)
        return
    known = ("ogbench/pointmaze-medium-stitch-v0",) if settings.size.is_smoke and not settings.domains else DOMAINS
    for domain, seed in settings.scenes(known):
        maze = PointMaze(domain, seed, settings.size, settings.device, settings.ogbench_data)
        for block in settings.chosen("blocks", BLOCKS):
            setting = {"block": block, "data": "regenerated"}
            methods, measured = (ACTING, measure) if block == "act" else ((*FREE, *VARIANTS), measure_walks)
            yield from maze.measured(settings, NAME, setting, methods, measured)


def measure(maze: PointMaze, method: str) -> dict[str, Any]:
    """Success over all tasks and in each; of A* what its searches cost; of graph search what the graph is like."""
    planner, _, head = method.partition(", ")
    agent = maze.agent(PLAIN[method] if method in PLAIN else PLANNERS[planner], MapKind(head=head or "squared"))
    acted = maze.act(agent)
    success = np.array([episodes.success.mean() for episodes in acted])
    steps = np.concatenate([episodes.num_steps[episodes.success] for episodes in acted])
    found: dict[str, Any] = {"success": success.mean()}
    found |= {f"success_task{task}": share for task, share in enumerate(success, 1)}
    found |= {"num_steps": steps.mean() if len(steps) else None, "num_plans": agent.num_plans}
    if planner == "A*":
        found |= search_costs(agent, acted)
    if method == "graph search":
        num_nodes, graph = len(maze.site.frames), maze.site.graph
        found |= {"num_frames": maze.recordings.num_frames, "num_nodes": num_nodes, "degree": graph.nnz / num_nodes}
        found |= {f"seconds_{stage}": spent for stage, spent in maze.seconds.items()}
    return found


def measure_walks(maze: PointMaze, method: str) -> dict[str, float]:
    """Greedy walks by D between random nodes, to the goal or for as many hops as there are nodes."""
    site, rng = maze.site, rng_at(maze.seed, Stream.OGBENCH_WALKS)
    num_nodes = len(site.frames)
    exact = distances_from(site.graph, np.arange(num_nodes))
    distance = scaled(exact, method == FREE[1]) if method in FREE else maze.map(VARIANTS[method]).on(site.frames)
    starts, goals = rng.integers(num_nodes, size=(2, NUM_WALKS))
    starts, goals = starts[starts != goals], goals[starts != goals]
    max_hops = np.full(len(starts), min(num_nodes, 1000))
    walks = walk_many(site.graph, distance, starts, goals, max_hops, 0.0, False, np.equal, rng)
    path = exact[starts, goals]
    known = np.isfinite(path)
    error = np.abs(distance(starts[known], goals[known]) - path[known]) / path[known]
    return {"walk_success": float(walks.arrived.mean()), "embedding_error": float(error.mean())}


def scaled(lengths: np.ndarray, is_squared: bool, dim: int = 64) -> Distance:
    """D between free vectors of the nodes: classical scaling of path lengths, or of their roots."""
    landmarks = rng_at(0, Stream.OGBENCH_LANDMARKS).permutation(len(lengths))
    vectors = torch.from_numpy(landmark_vectors(lengths[landmarks], landmarks, dim, 2 if is_squared else 1))
    distance = pair_distance(vectors, vectors, make_head("squared" if is_squared else "lp", 2.0, dim))
    # no vectors outside the landmarks' part
    return lambda nodes, goals: np.nan_to_num(distance(nodes, goals), nan=np.inf)


def table(rows: list[Row]) -> list[str]:
    lines, acted = [], select(rows, block="act")
    for kind in KINDS:
        mazes = [maze for maze in MAZES if select(acted, domain=domain_of(maze, kind))]
        if mazes:
            lines += [f"**{kind}**, success %, regenerated data", "", *success_table(acted, kind, mazes)]
    return lines + cost_table(acted) + graph_table(acted) + distillation_table(select(rows, block="distillation"))


def domain_of(maze: str, kind: str) -> str:
    return f"ogbench/pointmaze-{maze}-{kind}-v0"


def success_table(rows: list[Row], kind: str, mazes: list[str]) -> list[str]:
    """Published rows first."""
    published = [[f"{name} (published)", *(str(shares.get((maze, kind), "")) for maze in mazes)]
                 for name, shares in PUBLISHED.items()]
    part = select(rows, metric="success")
    ours = [[method, *(cell(values(part, domain=domain_of(maze, kind), method=method), 100) for maze in mazes)]
            for method in in_order(rows, "method", ACTING)]
    return markdown(["method", *mazes], published + ours)


def cost_table(rows: list[Row]) -> list[str]:
    shown = (("touched_share", "of Dijkstra's nodes", 1, 3), ("touched_share_exact", "by an exact heuristic", 1, 3),
             ("length_ratio", "length ratio", 1, 3))
    lines = {f"{domain.removeprefix('ogbench/')} | {method}": {"domain": domain, "method": method}
             for domain in in_order(rows, "domain", DOMAINS) for method in ACTING
             if method.startswith("A*") and select(rows, domain=domain, method=method)}
    return compare(rows, "data set | method", lines, by_metric(shown)) if lines else []


def graph_table(rows: list[Row]) -> list[str]:
    part = select(rows, method="graph search")
    shown = (("num_frames", "frames", 1, 0), ("num_nodes", "nodes", 1, 0), ("degree", "degree", 1, 0),
             ("num_steps", "steps of an episode", 1, 0))
    lines = {domain.removeprefix("ogbench/"): {"domain": domain} for domain in in_order(part, "domain", DOMAINS)}
    return compare(part, "data set", lines, by_metric(shown)) if part else []


def distillation_table(rows: list[Row]) -> list[str]:
    columns = [Column(words, {"domain": domain, "metric": metric}) for domain in in_order(rows, "domain", DOMAINS)
               for metric, words in (("walk_success", f"{domain.removeprefix('ogbench/')}: greedy walks, %"),
                                     ("embedding_error", "error of D, %"))]
    return compare(rows, "distillation", by_method(rows, (*FREE, *VARIANTS)), columns) if rows else []


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    """Success with the squared head, a panel per data set; those of single goals far apart (stitch) first."""
    acted = select(rows, block="act", metric="success")
    if not acted:
        return {}
    domains = [domain_of(maze, kind) for kind in ("stitch", "navigate") for maze in MAZES]
    kinds = {domain: domain.split("-")[1:3] for domain in domains if select(acted, domain=domain)}
    shown = [Panel(acted, ", ".join(kind), "success (%)", {"domain": domain}) for domain, kind in kinds.items()]
    methods = {method.removesuffix(", squared"): line for method, line in by_method(acted, ACTING).items()
               if method in PLAIN or method.endswith("squared")}
    figure, axes = comparisons.panel_figure(methods, shown, (9, 4.2), legend=False, num_rows=2)
    for ax, (maze, kind) in zip(axes, kinds.values(), strict=True):
        if maze != "teleport":
            best = max(shares[maze, kind] for shares in PUBLISHED.values())
            ax.axvline(best, color=ORANGE, linestyle="--", label="best of OGBench's baselines (QRL), published")
    comparisons.legend_below(figure, axes[0], 4)
    return {NAME: figure}

"""Claim: search improves every judge of distances that leaves room for it; plan2vec is best at every depth (Figure 6b).

Expected: success of plan2vec, which begins near 100 %, at least that of SPTM and random scores at every k from 1 to 7;
these rise with k (paper, without numbers).

The graph of 1,000 fresh frames of Table 1 (block `fitted`), its walks and success rule. With k-step lookahead the
walker jumps to the frame of least D within k hops. A jump counts as k hops, so 50 hops are 50 // k jumps.
"""

from plan2vec.domains.maze import SUCCESS
from plan2vec.embedding.value_iteration import lookahead_graph
from plan2vec.experiments.maze_scene import ROOM_TITLES, MazeScene, maze_scenes
from plan2vec.planner import Distance
from plan2vec.results.comparisons import Column, Figures, by_method, compare_each, curve_figure, legend_below
from plan2vec.results.rows import Arrays, Groups, Row, in_order
from plan2vec.results.settings import Settings, timed

NAME, TITLE = "lookahead", "Figure 6b: success against lookahead"
DOMAINS = tuple(ROOM_TITLES)
METHODS = ("plan2vec", "SPTM", "random network", "random scores")
BLOCKS = ()
DEPTHS = (1, 2, 3, 4, 5, 6, 7)


def run(settings: Settings) -> Groups:
    for scene in maze_scenes(settings, DOMAINS):
        methods = scene.lacking(settings, NAME, {"lookahead": DEPTHS[-1]}, METHODS)
        reach = {k: lookahead_graph(scene.small.graph, k, scene.device) for k in DEPTHS if methods}
        for method in methods:
            distance, seconds = timed(distance_of, scene, method)
            rows = []
            for k in DEPTHS:
                success, walking = timed(scene.small.success, distance, reach[k], (SUCCESS.max_hops or 0) // k)
                rows += scene.rows(settings, NAME, {"lookahead": k}, method, {"success": success}, seconds + walking)
                seconds = 0.0  # training counts once
            yield rows


def distance_of(scene: MazeScene, method: str) -> Distance:
    site = scene.small
    if method == "random scores":
        return site.random_distance()
    judge = scene.train_map(site, scene.config) if method == "plan2vec" else scene.baseline(method)
    return judge.on(site.frames)


def table(rows: list[Row]) -> list[str]:
    lines, columns = by_method(rows, METHODS), [Column(f"k = {k}", {"lookahead": k}) for k in DEPTHS]
    return compare_each(rows, {room: f"{ROOM_TITLES[room]}, success %" for room in DOMAINS}, lines, columns)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    shown = [({"xlabel": "lookahead k (hops)", "ylim": (0, 103), "xticks": DEPTHS, "title": ROOM_TITLES[room]},
              {method: {"domain": room, "method": method} for method in METHODS})
             for room in in_order(rows, "domain", DOMAINS)]
    figure, axes = curve_figure(rows, "lookahead", shown, (9, 3.2))
    axes[0].set_ylabel("success (%)")
    legend_below(figure, axes[0], 4)
    return {NAME: figure}

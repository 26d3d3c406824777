"""Claim: search improves every judge of distances that leaves room for it; plan2vec is best at every depth (Figure 6b).

Expected: success of plan2vec, which begins near 100 %, at least that of SPTM and random scores at every k from 1 to 7;
these rise with k (paper, without numbers).

The graph of 1,000 fresh frames of Table 1 (block `fitted`), its walks and success rule. With k-step lookahead the
walker jumps to the frame of least D within k hops. A jump counts as k hops, so 50 hops are 50 // k jumps."""

from plan2vec.embedding.value_iteration import lookahead_graph
from plan2vec.experiments.base_scene import Found, SceneExperiment
from plan2vec.experiments.maze_scene import DOMAINS, HOPS, ROOM_TITLES, MazeScene
from plan2vec.results.comparisons import Column, Figures, by_method, compare, curve_figure
from plan2vec.results.rows import Arrays, Lines, Row, in_order, parts_of

WALKERS = ("plan2vec", "SPTM", "random network", "random scores")
DEPTHS = (1, 2, 3, 4, 5, 6, 7)


def measure(scene: MazeScene, method: str) -> Found:
    site = scene.small
    distance = site.random_distance()
    if method != "random scores":
        judge = scene.train_map(site, scene.config) if method == "plan2vec" else scene.baseline(method)
        distance = judge.on(site.frames)
    reach = {k: lookahead_graph(site.graph, k, scene.device) for k in DEPTHS}
    return {"lookahead": {k: {"success": site.success(distance, reach[k], HOPS // k)} for k in DEPTHS}}


def table(rows: list[Row]) -> Lines:
    columns = [Column(f"k = {k}", {"lookahead": k}) for k in DEPTHS]
    for (room,), part in parts_of(rows, domain=DOMAINS):
        yield from compare(part, f"{ROOM_TITLES[room]}, success %", by_method(rows, WALKERS), columns)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    shown = [({"xlabel": "lookahead k (hops)", "ylim": (0, 103), "xticks": DEPTHS, "title": ROOM_TITLES[room]},
              {method: {"domain": room, "method": method} for method in WALKERS})
             for room in in_order(rows, "domain", DOMAINS)]
    yield "", curve_figure(rows, "lookahead", shown, (9, 3.2), 4)


EXPERIMENT = SceneExperiment("lookahead", "Figure 6b: success against lookahead", __doc__, measure, table, draw,
                             DOMAINS, WALKERS, kind=MazeScene)

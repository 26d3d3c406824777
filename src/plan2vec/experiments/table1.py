"""Claim: a walker without memory that follows the map reaches its goal, around walls too; of the baselines only Isomap
does as well. On unseen frames the map walks about as well as the true way around walls does.

Expected (success %, Open / Table / C-Maze): plan2vec at least 98 / 97 / 97 in block `fitted`; the paper's plan2vec 90.0
/ 76.4 / 80.2 (of 1,000 frames); exact distance about 100; random scores about the paper's random 3 to 5 where
neighbours are those within 0.03 m (`oracle`).

The local metric learns from 1,000 rollouts of 10 frames. 2,000 walks per seed between random frames: hop to the
neighbour of least D, with probability 0.05 to a random one, no memory, at most 50 hops, success within 0.02 m. Vectors
have 32 dimensions (l1), those of baselines 8 where no number is given, from the small encoder; VAE 2-d is the paper's,
a ResNet18. FVI is fitted value iteration, SPTM the local metric taken as distance. VAE and contrastive learn from the
10,000 frames in every block. Isomap sees all distances of the graph at once and no image. True Euclidean and true
geodesic (around walls) read positions; where a graph has holes, even the true way leads into dead ends. A method's
seconds hold its walks and, where no earlier row had trained it, its training. Rows without `method_version` are of the
former default (l2, 8-d). Blocks:
`fitted` the graph of 1,000 fresh frames; the map is fitted to it.
`unseen` the same graph; the map is fitted to the other 10,000 frames.
`large` the graph of these 10,000 frames; the map is fitted to it.
`paper` `large` with the paper's networks (`--preset paper`: stacked local metric, 2-d map).
`oracle` the 1,000 fresh frames joined by recorded steps and by true places within 0.03 m; the map is fitted to it."""

from dataclasses import replace
from typing import NamedTuple

from plan2vec.baselines.isomap import fit_isomap
from plan2vec.config import Config, preset
from plan2vec.experiments.base_scene import Found, settled
from plan2vec.experiments.maze_scene import DOMAINS, ROOM_TITLES, MazeScene, first_rollouts
from plan2vec.results.comparisons import Figures, by_domain, by_method, by_metric, compare, domain_figure
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Arrays, Groups, Lines, Row, parts_of, select

BASELINE_DIM = 8
PAPER = {"plan2vec 2-d": (90.0, 76.4, 80.2), "SPTM": (39.7, 23.7, 31.4), "VAE 2-d": (73.9, 30.2, 52.7),
         "random network": (3.2, 3.5, 4.7), "random scores": (3.2, 3.5, 4.7), "paper's networks": (90.0, 76.4, 80.2)}


class Block(NamedTuple):
    fitted_to: str  # frames that the map is fitted to
    plans_on: str  # frames that it plans on
    methods: tuple[str, ...]  # that are compared there
    words: str


BASELINES = ("SPTM", "VAE 2-d", "VAE 8-d", "contrastive", "random network", "pixels")
SANITY = ("random scores", "exact graph distance", "true Euclidean", "true geodesic")
OURS = ("plan2vec", "plan2vec 2-d")
BLOCKS = {
    "fitted": Block("small", "small", (*OURS, "plan2vec FVI", *BASELINES, "isomap", *SANITY),
                    "1,000 fresh frames, the map fitted to them"),
    "unseen": Block("large", "small", (*OURS, *BASELINES, *SANITY),
                    "the same 1,000 frames, unseen: the map fitted to 10,000 others"),
    "large": Block("large", "large", (*OURS, *BASELINES, *SANITY), "10,000 frames planned on themselves"),
    "paper": Block("large", "large", ("paper's networks",),
                   "10,000 frames planned on themselves, the paper's networks"),
    "oracle": Block("oracle", "oracle", ("plan2vec", "isomap", *SANITY),
                    "the 1,000 fresh frames joined where truly within 0.03 m, the map fitted to them")}
METHODS = tuple(dict.fromkeys(method for block in BLOCKS.values() for method in block.methods))


def run(settings: Settings) -> Groups:
    for scene in MazeScene.chosen(settings, DOMAINS):
        for name in settings.chosen("blocks", BLOCKS):
            block = BLOCKS[name]
            setting = {"block": name} | ({"encoder": paper_config(scene).encoder} if name == "paper" else {})
            if name not in ("paper", "oracle") and scene.lacking(settings, block.methods, **setting):
                site = getattr(scene, block.plans_on)  # what all methods share: the graph, and its time
                yield scene.rows(settings, "graph", site.numbers, scene.timed_metric[1] + site.seconds,
                                 frames=block.plans_on)
            yield from scene.measured(settings, block.methods, measure, **setting)


def measure(scene: MazeScene, method: str, block: str, **_: str) -> Found:
    if method == "paper's networks":  # both of them end to end
        config = paper_config(scene)
        metric = scene.train_metric(scene.recordings, config).metric
        site = scene.join(first_rollouts(scene.recordings, scene.size.stacked_rollouts), metric, config)
        scores = site.scores(scene.train_map(site, config).on(site.frames))
        return scores | {"success_exact": site.success(site.exact_distance())} | site.numbers
    site, fitted_to = (getattr(scene, name) for name in (BLOCKS[block].plans_on, BLOCKS[block].fitted_to))
    if method in SANITY:
        distances = {"random scores": site.random_distance, "exact graph distance": site.exact_distance,
                     "true Euclidean": site.straight_distance, "true geodesic": lambda: site.truth.between}
        return site.scores(distances[method]())
    if method == "isomap":
        return site.scores(fit_isomap(site.graph, BASELINE_DIM))
    if method in BASELINES:
        judge = scene.baseline(method)
    else:
        configs = {"plan2vec FVI": scene.walked_config, "plan2vec 2-d": replace(scene.config, dim=2, norm_order=2.0)}
        judge = scene.train_map(fitted_to, configs.get(method, scene.config))
    return site.scores(judge.on(site.frames))


def paper_config(scene: MazeScene) -> Config:
    config, shorten = settled(replace(preset("paper"), seed=scene.seed)), scene.size.shorten
    # the paper's encoder takes a minute for 400 frames on a CPU core
    return replace(config, local_metric=shorten(config.local_metric), embedding=shorten(config.embedding),
                   encoder="small" if scene.size.is_smoke else config.encoder)


def table(rows: list[Row]) -> Lines:
    for (name,), part in parts_of(select(rows, metric="success"), block=BLOCKS):
        columns = by_domain(part, ROOM_TITLES, [("success", "success %", 100, 1)], PAPER)
        yield from [f"**{BLOCKS[name].words}**", "", *compare(part, "method", by_method(part, METHODS), columns)]
    graphs = select(rows, method="graph")  # false edges truly join places farther apart than three of the longest steps
    shown = (("radius", "radius, steps", 1, 2), ("degree", "degree", 1, 1), ("num_components", "parts", 1, 1),
             ("largest_component_share", "share of the largest", 1, 3),
             ("false_edge_share", "false edges, share", 1, 5))
    by_graph = {f"{frames} | {ROOM_TITLES[room]}": {"frames": frames, "domain": room}
                for (frames, room), _ in parts_of(graphs, frames=("small", "large"), domain=DOMAINS)}
    yield from compare(graphs, "graph | room", by_graph, by_metric(shown)) if graphs else ()


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    for (name,), part in parts_of(select(rows, metric="success"), block=BLOCKS):
        methods = by_method(part, METHODS)
        if len(BLOCKS[name].methods) > 1:
            figure = domain_figure(part, methods, ROOM_TITLES, (9, 1.3 + 0.22 * len(methods)), PAPER)
            figure.suptitle(BLOCKS[name].words, fontsize=10)
            yield name, figure


EXPERIMENT = Experiment("table1", "Table 1: planning success in the three rooms", __doc__, run, table, draw, DOMAINS,
                        METHODS, BLOCKS)

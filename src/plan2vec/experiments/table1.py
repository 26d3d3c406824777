"""Claim: on a graph it was fitted to, a memoryless walker led by the map reaches its goal, around walls too; of the
baselines only Isomap does as well. Fitted to other frames, the map walks about as well as the true way around walls
does.

Command: plan2vec reproduce table1        Cost: 75 minutes on one H200 (VAE, contrastive, paper) and 67 on a CPU core
Expected (success %, Open / Table / C-Maze): plan2vec at least 98 / 97 / 97 in block `fitted`; the paper's
plan2vec 90.0 / 76.4 / 80.2, SPTM 39.7 / 23.7 / 31.4, VAE 73.9 / 30.2 / 52.7, random 3.2 / 3.5 / 4.7 (all of 1,000
frames); exact distance about 100; random scores, one a frame and goal, about the paper's random 3 to 5 where neighbours
are those within 0.03 m (`oracle`).

The local metric learns from 1,000 rollouts of 10 frames. 2,000 walks a seed between random frames: hop to the neighbour
of least D, with probability 0.05 to a random one, no memory, at most 50 hops, success within 0.02 m. Vectors have 8
dimensions where no number is given, from the small encoder; VAE 2-d is the paper's, a ResNet18. FVI is fitted value
iteration, SPTM the local metric taken as distance. VAE and contrastive learn from the 10,000 frames in every block.
Isomap sees all distances of the graph at once and no image, so it has no answer for an unseen frame. True Euclidean and
true geodesic (around walls) read positions; where a graph has holes, even the true way leads into dead ends. A method's
seconds hold its walks and, where no earlier row had trained it, its training; not the shared graph. Blocks:
`fitted`  the graph of 1,000 fresh frames; the map is fitted to it.
`unseen`  the same graph; the map is fitted to the other 10,000 frames.
`large`   the graph of these 10,000 frames; the map is fitted to it.
`paper`   `large` with the paper's networks (`--preset paper`: stacked local metric, 2-d map).
`oracle`  the 1,000 fresh frames joined by recorded steps and by true places within 0.03 m; the map is fitted to that graph, whose holes are
wider than those of the learned one: its hops are shorter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from plan2vec.baselines import Judge
from plan2vec.baselines.isomap import fit_isomap
from plan2vec.baselines.registry import baseline_trainers
from plan2vec.config import Config, preset
from plan2vec.evaluation import straight_line
from plan2vec.experiments.maze_scene import MazeScene, Site, first_rollouts, maze_scenes
from plan2vec.planner import Distance
from plan2vec.results.arrays import Arrays
from plan2vec.results.drawing import bars, panels, room_title
from plan2vec.results.rows import Row, cell, in_order, markdown, select, values
from plan2vec.results.settings import Settings, timed

NAME, TITLE = "table1", "Table 1: planning success in the three rooms"
DOMAINS = ("open", "table", "c-maze")
PAPER = {
    "plan2vec 2-d": (90.0, 76.4, 80.2), "SPTM": (39.7, 23.7, 31.4), "VAE 2-d": (73.9, 30.2, 52.7),
    "random network": (3.2, 3.5, 4.7), "random scores": (3.2, 3.5, 4.7), "paper's networks": (90.0, 76.4, 80.2)
}


@dataclass(frozen=True)
class Block:
    """Which frames a map is fitted to, which it plans on, and what is compared there."""

    words: str
    fitted_to: str
    plans_on: str
    methods: tuple[str, ...]


BASELINES = ("SPTM", "VAE 2-d", "VAE 8-d", "contrastive", "random network", "pixels")
SANITY = ("random scores", "exact graph distance", "true Euclidean", "true geodesic")
BLOCKS = {
    "fitted": Block(
        "1,000 fresh frames, the map fitted to them", "small", "small",
        ("plan2vec", "plan2vec 2-d", "plan2vec FVI", *BASELINES, "isomap", *SANITY)
    ),
    "unseen": Block(
        "the same 1,000 frames, unseen: the map fitted to 10,000 others", "large", "small",
        ("plan2vec", "plan2vec 2-d", *BASELINES, *SANITY)
    ),
    "large": Block(
        "10,000 frames planned on themselves", "large", "large", ("plan2vec", "plan2vec 2-d", *BASELINES, *SANITY)
    ),
    "paper": Block(
        "10,000 frames planned on themselves, the paper's networks", "large", "large", ("paper's networks",)
    ),
    "oracle": Block(
        "the 1,000 fresh frames joined where truly within 0.03 m, the map fitted to them", "oracle", "oracle",
        ("plan2vec", "isomap", *SANITY)
    )
}
METHODS = tuple(dict.fromkeys(method for block in BLOCKS.values() for method in block.methods))


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in maze_scenes(settings, DOMAINS):
        for name in settings.chosen("blocks", tuple(BLOCKS)):
            block = BLOCKS[name]
            setting = {"block": name} | ({"encoder": paper_config(scene).encoder} if name == "paper" else {})
            methods = [m for m in settings.chosen("methods", block.methods) if scene.lacks(settings, NAME, setting, m)]
            if not methods:
                continue
            if name == "paper":
                metrics, seconds = timed(measure_paper, scene)
                yield scene.rows(settings, NAME, setting, methods[0], metrics, seconds)
                continue
            if name != "oracle":
                yield scene.shared_rows(settings, NAME, getattr(scene, block.plans_on), block.plans_on)
            for method in methods:
                metrics, seconds = timed(measure, scene, block, method)
                yield scene.rows(settings, NAME, setting, method, metrics, seconds)


def measure(scene: MazeScene, block: Block, method: str) -> dict[str, float | None]:
    site: Site = getattr(scene, block.plans_on)
    if method in SANITY:
        distance = sanity_distance(scene, site, method)
    elif method in BASELINES:
        distance = train_baseline(scene, method).on(site.frames)
    else:
        distance = fit_judge(scene, getattr(scene, block.fitted_to), method).on(site.frames)
    return {"success": site.success(distance), "spearman_true": site.agreement(distance)}


def sanity_distance(scene: MazeScene, site: Site, method: str) -> Distance:
    """What no network was trained for."""
    if method == "random scores":
        return site.random_distance()
    if method == "true Euclidean":
        return lambda nodes, goals: straight_line(site.truth.position[nodes], site.truth.position[goals])
    if method == "true geodesic":
        return site.truth.between
    return site.exact_distance(scene.device)


def train_baseline(scene: MazeScene, method: str) -> Judge:
    """Trained on the large set, whichever graph it walks on, and once a scene."""
    trainers = baseline_trainers(
        scene.recordings, lambda: scene.metric, "small", scene.size.shorten, scene.seed, scene.device
    )
    if method not in scene.baselines:
        scene.baselines[method] = trainers[method]()
    return scene.baselines[method]


def fit_judge(scene: MazeScene, site: Site, method: str) -> Judge:
    """Fitted to the graph of a site."""
    if method == "isomap":
        return fit_isomap(site.graph, scene.config.dim)
    if method == "plan2vec FVI":
        return scene.train_map(site, replace(scene.config, variant="value-iteration"))
    return scene.train_map(site, replace(scene.config, dim=2) if method == "plan2vec 2-d" else scene.config)


def paper_config(scene: MazeScene) -> Config:
    config, shorten = replace(preset("paper"), seed=scene.seed), scene.size.shorten
    config = replace(config, local_metric=shorten(config.local_metric), embedding=shorten(config.embedding))
    if scene.size.is_smoke:
        return replace(config, encoder="small")  # the paper's takes a minute for 400 frames on a CPU core
    return config


def measure_paper(scene: MazeScene) -> dict[str, float | None]:
    """Both of the paper's networks end to end, planned on the large set."""
    config = paper_config(scene)
    metric = scene.train_metric(scene.recordings, config)[0]
    site = scene.join(first_rollouts(scene.recordings, scene.size.stacked_rollouts), metric, config)
    distance = scene.train_map(site, config).on(site.frames)
    exact = site.success(site.exact_distance(scene.device))
    return {
        "success": site.success(distance), "spearman_true": site.agreement(distance), "success_exact": exact
    } | site.numbers


def table(rows: list[Row]) -> list[str]:
    """A table a block: success in per cent beside the paper's."""
    lines = []
    for name in in_order(rows, "block", BLOCKS):
        part = select(rows, block=name, metric="success")
        rooms = in_order(part, "domain", DOMAINS)
        header = ["method"] + [words for room in rooms for words in (f"{room_title(room)}, success %", "paper")]
        body = [
            [method] + [
                words for room in rooms
                for words in (cell(values(part, method=method, domain=room), 100), paper_words(method, room))
            ] for method in in_order(part, "method", METHODS)
        ]
        lines += [f"**{BLOCKS[name].words}**", "", *markdown(header, body)]
    return lines + graph_table(select(rows, method="graph"))


def graph_table(rows: list[Row]) -> list[str]:
    """What the graphs are like; false edges are closures that truly join places farther apart than three of the longest
    steps.
    """
    if not rows:
        return []
    header = ["graph", "room", "radius, steps", "degree", "parts", "share of the largest", "false edges, share"]
    metrics = (
        ("radius", 2), ("degree", 1), ("num_components", 1), ("largest_component_share", 3), ("false_edge_share", 5)
    )
    body = [
        [block, room_title(room)] + [
            cell(values(rows, frames=block, domain=room, metric=metric), 1, digits) for metric, digits in metrics
        ] for block in in_order(rows, "frames", ("small", "large")) for room in in_order(rows, "domain", DOMAINS)
    ]
    return markdown(header, body)


def paper_words(method: str, room: str) -> str:
    return f"{PAPER[method][DOMAINS.index(room)]}" if method in PAPER else ""


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    """A figure a block: success by method, a panel a room."""
    figures = {}
    for name in in_order(rows, "block", BLOCKS):
        part = select(rows, block=name, metric="success")
        rooms, methods = in_order(part, "domain", DOMAINS), in_order(part, "method", METHODS)
        figure, axes = panels(len(rooms), 9, 1.3 + 0.22 * len(methods))
        for ax, room in zip(axes, rooms, strict=True):
            paper = [PAPER[method][DOMAINS.index(room)] if method in PAPER else None for method in methods]
            bars(ax, methods, [100 * values(part, method=method, domain=room) for method in methods], paper)
            ax.set(xlim=(0, 103), xlabel="success (%)", title=room_title(room))
        for ax in axes[1:]:
            ax.set_yticklabels([])
        figure.suptitle(BLOCKS[name].words, fontsize=10)
        handles = axes[0].get_legend_handles_labels()
        if handles[0]:
            figure.legend(*handles, loc="outside lower right", frameon=False, fontsize=9)
        figures[f"{NAME}-{name}"] = figure
    return figures

"""Claim: restricted to two dimensions the vectors are a map of the city, drawn from street views alone.

Command: plan2vec reproduce street-maps --street-graph touchdown_graph.npz        Cost: 11 minutes on one H200
Expected: Spearman of 2-d latent distance with the true way along the streets at least 0.95 on Small and 0.9 on Large,
the true GPS positions' own beside it (about 0.94); Procrustes residual on Small at most 0.15. The paper shows such maps
without numbers.

The graph of views of Table 2. Latents of 2 and 3 dimensions with l2, and of 3 with l1.2 (the paper's last figure). At
first the vectors of classical scaling show the way (docs/streets.md): without a guide 2-d maps fold for some seeds. All
seeds are shown, turned, mirrored, moved and scaled onto the true positions (Procrustes); the residual is the share of
the positions' variance that this leaves. A view has the same colour in every panel. On Large the 2-d map's Spearman is
in Table 2.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy.linalg import orthogonal_procrustes

from plan2vec.experiments import street_scene
from plan2vec.experiments.street_scene import DOMAINS, NETWORKS, TITLES, StreetScene
from plan2vec.pictures.figures import place_colors
from plan2vec.results.arrays import Arrays, save_arrays
from plan2vec.results.comparisons import by_domain, by_method, compare
from plan2vec.results.rows import Row, in_order, select
from plan2vec.results.settings import Settings

NAME, TITLE = "street-maps", "Street maps in two and three dimensions"
LATENTS = {"l2, 2-d": (2, 2.0), "l2, 3-d": (3, 2.0), "l1.2, 3-d": (3, 1.2)}  # dimensions, norm order
METHODS = (*LATENTS, "true GPS")
BLOCKS = ()


def run(settings: Settings) -> Iterator[list[Row]]:
    for scene in street_scene.street_scenes(settings, DOMAINS):
        yield from scene.measured(settings, NAME, scene.setting(), METHODS, partial(measure, settings, scene))


def measure(settings: Settings, scene: StreetScene, method: str) -> dict[str, float | None]:
    site = scene.site
    if method == "true GPS":
        return {"spearman_true": site.agreement(site.gps_distance())}
    learned = scene.train_map(site, street_scene.as_flat(scene.config, *LATENTS[method]), street_scene.FLAT_TEACHING)
    aligned, residual = align(learned.vectors(site.frames), site.position)
    number = np.empty(scene.streets.num_views, np.int64)
    number[site.view] = np.arange(len(site.view))
    save_arrays(settings.arrays, NAME, part_name(scene.network, scene.domain, method, scene.seed),
                place=aligned.astype(np.float32), position=site.position.astype(np.float32),
                links=number[scene.streets.links].astype(np.int32))
    return {"spearman_true": site.agreement(learned.on(site.frames)), "procrustes": residual}


def align(vectors: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, float]:
    """Vectors turned, mirrored, moved and scaled onto positions (n, 2), and the share of variance that is left."""
    target = np.pad(position - position.mean(axis=0), ((0, 0), (0, vectors.shape[1] - position.shape[1])))
    source = vectors - vectors.mean(axis=0, dtype=np.float64)
    turn, overlap = orthogonal_procrustes(source, target)
    aligned = overlap / (source**2).sum() * source @ turn
    return aligned, float(((aligned - target) ** 2).sum() / (target**2).sum())


def part_name(network: str, domain: str, method: str, seed: int) -> str:
    return f"{network} {domain} {method} {seed}"


def table(rows: list[Row]) -> list[str]:
    lines = []
    for network in in_order(rows, "network", NETWORKS):
        part = select(rows, network=network)
        columns = by_domain(part, TITLES, (("spearman_true", "Spearman", 1, 3), ("procrustes", "residual", 1, 3)))
        lines += [f"**{NETWORKS[network]}**", "", *compare(part, "latents", by_method(part, METHODS), columns)]
    return lines


def draw(rows: list[Row], arrays: Arrays) -> dict[str, Figure]:
    """A figure per network and part of the city: the true map, then all seeds, a row per kind of latents."""
    figures = {}
    for network, domain, part in street_scene.parts_of(rows, DOMAINS):
        shown = {(method, row["seed"]): (arrays[name], row["value"]) for method in LATENTS
                 for row in select(part, method=method, metric="procrustes")
                 if (name := part_name(network, domain, method, row["seed"])) in arrays}
        if shown:
            figure = maps_figure(shown)
            figure.suptitle(f"{TITLES[domain]}, {NETWORKS[network]}", fontsize=11)
            figures[f"{NAME}-{network}-{domain}"] = figure
    return figures


def maps_figure(shown: dict[tuple[str, int], tuple[dict[str, np.ndarray], float]]) -> Figure:
    methods = list(dict.fromkeys(method for method, _ in shown))
    seeds = sorted({seed for _, seed in shown})
    figure = Figure((2.4 * (len(seeds) + 1), 2.5 * len(methods) + 0.4), layout="constrained")
    first = next(iter(shown.values()))[0]
    true_ax = figure.add_subplot(len(methods), len(seeds) + 1, 1)
    draw_map(true_ax, first["position"] - first["position"].mean(axis=0), first)
    true_ax.set_title("true map", fontsize=9)
    for row, method in enumerate(methods):
        for column, seed in enumerate(seeds):
            if (method, seed) in shown:
                part, residual = shown[method, seed]
                place = row * (len(seeds) + 1) + column + 2
                dim = part["place"].shape[1]
                ax = figure.add_subplot(len(methods), len(seeds) + 1, place, projection="3d" if dim == 3 else None)
                draw_map(ax, part["place"], part)
                ax.set_title(f"{method}, seed {seed}\nresidual {residual:.2f}", fontsize=8)
    return figure


def draw_map(ax: Axes, place: np.ndarray, part: dict[str, np.ndarray]) -> None:
    """Views at `place` (n, 2 or 3), coloured by where they truly are, and the streets between them."""
    colors, links = place_colors(part["position"]), part["links"]
    look = {"c": colors, "s": np.clip(1500 / len(place), 1, 8), "linewidths": 0}
    if place.shape[1] == 3:
        ax.scatter(*place.T, **look)
        ax.set(xticks=[], yticks=[], zticks=[])
        return
    ax.add_collection(LineCollection(list(place[links]), colors="0.8", linewidths=0.5, zorder=0))
    ax.scatter(place[:, 0], place[:, 1], **look)
    ax.set(xticks=[], yticks=[], aspect="equal")

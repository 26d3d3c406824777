"""Claim: restricted to two dimensions the vectors are a map of the city, drawn from street views alone.

Expected: Spearman of 2-d map distance with the true way along the streets at least 0.95 on Small and 0.9 on Large (true
GPS about 0.94); Procrustes residual on Small at most 0.15. The paper shows such maps without numbers.

The graph of views of Table 2. Maps of 2 and 3 dimensions with l2, and of 3 with l1.2 (the paper's last figure). At
first the vectors of classical scaling show the way (docs/domains.md): without a guide 2-d maps fold for some seeds.
Maps are turned, mirrored, moved and scaled onto the true positions (Procrustes); the residual is the share of the
positions' variance that this leaves. A view has the same colour in every panel. Large in 2-d: see Table 2."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy.linalg import orthogonal_procrustes

from plan2vec.experiments import street_scene
from plan2vec.experiments.base_scene import Found, SceneExperiment
from plan2vec.experiments.street_scene import DOMAINS, NETWORKS, TITLES, StreetScene
from plan2vec.pictures.figures import place_colors
from plan2vec.results.comparisons import Figures, by_domain, by_method, compare
from plan2vec.results.rows import Arrays, Lines, Row, parts_of

LATENTS = {"l2, 2-d": (2, 2.0), "l2, 3-d": (3, 2.0), "l1.2, 3-d": (3, 1.2)}  # dimensions, norm order
METHODS = (*LATENTS, "true GPS")


def measure(scene: StreetScene, method: str) -> Found:
    site = scene.site
    if method == "true GPS":
        return {"spearman_true": site.agreement(site.straight_distance())}
    learned = scene.train_map(site, street_scene.as_flat(scene.config, *LATENTS[method]), street_scene.FLAT_TEACHING)
    aligned, residual = align(learned.vectors(site.frames), site.position)
    number = np.empty(scene.streets.num_views, np.int64)
    number[site.view] = np.arange(len(site.view))
    return {"spearman_true": site.agreement(learned.on(site.frames)), "procrustes": residual,
            "place": aligned.astype(np.float32), "position": site.position.astype(np.float32),
            "links": number[scene.streets.links].astype(np.int32)}


def align(vectors: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, float]:
    """Vectors turned, mirrored, moved and scaled onto positions (n, 2), and the share of variance that is left."""
    target = np.pad(position - position.mean(axis=0), ((0, 0), (0, vectors.shape[1] - position.shape[1])))
    source = vectors - vectors.mean(axis=0, dtype=np.float64)
    turn, overlap = orthogonal_procrustes(source, target)
    aligned = overlap / (source**2).sum() * source @ turn
    return aligned, float(((aligned - target) ** 2).sum() / (target**2).sum())


def table(rows: list[Row]) -> Lines:
    shown = ("spearman_true", "Spearman", 1, 3), ("procrustes", "residual", 1, 3)
    for (network,), part in parts_of(rows, network=NETWORKS):
        yield from (f"**{NETWORKS[network]}**", "")
        yield from compare(part, "latents", by_method(part, METHODS), by_domain(part, TITLES, shown))


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    return street_scene.part_figures(rows, arrays, maps_figure)


def maps_figure(rows: list[Row], shown: Arrays) -> Figure:
    figure, first = Figure((9, 3), layout="constrained"), next(iter(shown.values()))
    places = {"true": first["position"] - first["position"].mean(axis=0)}
    places |= {f"learned, {method}": part["place"] for method, part in shown.items()}
    for number, (words, place) in enumerate(places.items()):
        is_flat = place.shape[1] == 2
        ax = figure.add_subplot(1, len(places), number + 1, projection=None if is_flat else "3d")
        draw_map(ax, place, first)
        ax.set_title(words, fontsize=9)
        if is_flat:
            ax.tick_params(labelsize=7)
            ax.set_xlabel("metres", fontsize=8)
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
    ax.set(aspect="equal")


EXPERIMENT = SceneExperiment("street-maps", "Street maps in two and three dimensions", __doc__, measure, table, draw,
                             DOMAINS, METHODS, kind=StreetScene)

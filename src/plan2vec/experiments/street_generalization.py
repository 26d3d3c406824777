"""Claim: 2-d maps judge tasks between diagonally opposite quarters of the city, never taught, about as well as taught
ones; the maps of Table 2 judge them far worse.

Expected on Small: the mean relative error of the tasks left out at most 1.5 times the control's, which was taught all
tasks. On Large the paper finds distances between opposite quarters underestimated.

The graph of views of Table 2, split at the mean longitude and latitude into four quarters. `restricted` learns from
tasks within a quarter and between quarters side by side; shortest paths may use the whole graph. `control` learns from
all tasks. Error: mean |D - path| over path of all pairs of views; bias: the same with its sign (below 0:
underestimated). Blocks:
`2-d` the paper's latents, its p by part of the city; at first led by free points fitted to the taught tasks: no folds.
`as in Table 2` the latents of Table 2, which have more freedom where nothing was taught."""

from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure

from plan2vec.embedding.train import Teaching
from plan2vec.experiments.base_scene import Found, SceneExperiment
from plan2vec.experiments.street_maps import align, draw_map
from plan2vec.experiments.street_scene import FLAT_TEACHING, NETWORKS, TITLES, StreetScene, as_flat, part_figures
from plan2vec.experiments.table2 import PAPER_SETTINGS
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.pictures.figures import BLACK, ORANGE
from plan2vec.results.comparisons import Figures, panels
from plan2vec.results.rows import Arrays, Lines, Row, cell, in_order, markdown, parts_of, select, values
from plan2vec.search.shortest_paths import distances_from

DOMAINS = ("street-small", "street-large")
METHODS, BLOCKS = ("restricted", "control"), ("2-d", "as in Table 2")
NUM_STARTS = 32  # of the free points that guide a flat map
NUM_DOTS = 1500  # pairs of a kind in a scatter plot


def measure(scene: StreetScene, method: str, block: str) -> Found:
    site, opposite, rng = scene.site, opposite_quarters(scene.site.position), rng_at(scene.seed, Stream.STREET_PAIRS)
    path = distances_from(site.graph, np.arange(len(site.view)))
    allowed, config, teaching = ~opposite | (method == "control"), scene.config, Teaching()
    if block == "2-d":  # free points fitted to the allowed tasks guide a flat map
        config = as_flat(config, 2, PAPER_SETTINGS[scene.domain][-1])
        guide = fit_points(np.where(allowed, path, np.inf), config.norm_order, scene.seed, scene.device,
                           scene.size.is_smoke)
        teaching = replace(FLAT_TEACHING, guide=guide)
    learned = scene.train_map(replace(site, name=""), config, replace(teaching, allowed=allowed))
    first, second = (ends.ravel() for ends in np.indices(path.shape))
    distance = learned.on(site.frames)(first, second).reshape(path.shape)
    place = align(learned.vectors(site.frames), site.position)[0] if block == "2-d" else np.empty((0, 2))
    found: Found = {"place": place.astype(np.float32), "position": site.position.astype(np.float32),
                    "links": np.empty((0, 2), np.int32)}
    for kind, is_kind in (("opposite", opposite), ("other", ~opposite)):
        chosen = is_kind & np.isfinite(path) & (path >= 1)
        pairs, error = rng.choice(np.flatnonzero(chosen), NUM_DOTS), (distance[chosen] - path[chosen]) / path[chosen]
        found |= {f"{kind}_path": path.ravel()[pairs], f"{kind}_distance": distance.ravel()[pairs],  # a few, to draw
                  f"error_{kind}": np.abs(error).mean(), f"bias_{kind}": error.mean()}
    return found


def opposite_quarters(position: np.ndarray) -> np.ndarray:
    """(n, n) bool: two views lie in quarters that touch at a corner only."""
    east, north = (position > position.mean(axis=0)).T
    return (east[:, None] != east) & (north[:, None] != north)


def fit_points(path: np.ndarray, norm_order: float, seed: int, device: torch.device, is_smoke: bool) -> np.ndarray:
    """(n, 2) points of the plane at about these distances; inf: not to be known. Of many random starts, of which few do
    not fold where tasks are left out, the one that errs least on the known ones."""
    num_starts, num_updates = (2, 10) if is_smoke else (NUM_STARTS, 400)
    generator, is_known = torch.Generator(device).manual_seed(seed), np.isfinite(path)
    known, unit = torch.from_numpy(is_known).to(device), float(path[is_known].mean())
    target = torch.from_numpy(np.where(is_known, path, 0) / unit).float().to(device)
    points = (0.5 * torch.randn(num_starts, len(path), 2, generator=generator, device=device)).requires_grad_()
    optimizer = torch.optim.Adam([points])
    for update in range(num_updates):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - update / num_updates)
        rows = torch.randint(len(path), (128,), generator=generator, device=device)
        off = points_apart(points[:, rows], points, norm_order) - target[rows]
        optimizer.zero_grad()
        (off.square() / target[rows].clamp(min=0.05) * known[rows]).sum().backward()
        optimizer.step()
    with torch.no_grad():
        error = torch.stack([((points_apart(some, some, norm_order) - target).abs() * known).sum() for some in points])
    return unit * points.detach()[error.argmin()].cpu().numpy()


def points_apart(first: torch.Tensor, second: torch.Tensor, norm_order: float) -> torch.Tensor:
    """[..., a, 2], [..., b, 2] -> [..., a, b] the l^p distance; the gradient is finite where points meet."""
    apart = (second[..., None, :, :] - first[..., :, None, :]).abs().add(1e-6)
    return apart.pow(norm_order).sum(-1).pow(1 / norm_order)


def table(rows: list[Row]) -> Lines:
    columns = (("error_opposite", "opposite, error %"), ("bias_opposite", "bias %"),
               ("error_other", "other tasks, error %"))
    for (network,), part in parts_of(rows, network=NETWORKS):
        shown = [(domain, *column) for domain in in_order(part, "domain", DOMAINS) for column in columns]
        header, body = ["latents", "taught", *(f"{TITLES[domain]}, {words}" for domain, _, words in shown)], []
        for (block,), some in parts_of(part, block=BLOCKS):
            body += [[block, method, *(cell(values(some, method=method, domain=domain, metric=metric), 100)
                                       for domain, metric, _ in shown)] for method in in_order(part, "method", METHODS)]
            body.append([block, "ratio", *(ratio_words(some, domain) if metric == "error_opposite" else ""
                                           for domain, metric, _ in shown)])
        yield from (f"**{NETWORKS[network]}**", "", *markdown(header, body))


def ratio_words(rows: list[Row], domain: str) -> str:
    """Error of the tasks left out over the control's, seed by seed."""
    part = select(rows, domain=domain, metric="error_opposite")
    left_out, control = ({row["seed"]: row["value"] for row in select(part, method=method)} for method in METHODS)
    return cell(np.array([left_out[seed] / control[seed] for seed in sorted(left_out.keys() & control.keys())]), 1, 2)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    for block in in_order(rows, "block", BLOCKS):
        yield from part_figures(rows, arrays, generalization_figure, block)


def generalization_figure(rows: list[Row], parts: Arrays) -> Figure:
    num = 1 + len(parts) * (1 + all(len(part["place"]) for part in parts.values()))  # those of flat maps show them too
    figure, axes = panels(num, 2.8 * num, 3.1)
    position = next(iter(parts.values()))["position"]
    (x, y), (east, north) = position.T, (position > position.mean(axis=0)).T
    axes[0].scatter(x, y, c=np.where(east == north, "#CC79A7", BLACK), s=3, linewidths=0)
    axes[0].set(xticks=[], yticks=[], aspect="equal", title="quarters")
    for ax, (method, part) in zip(axes[1:], parts.items(), strict=False):
        for kind, color, label in (("other", BLACK, "taught to both"), ("opposite", ORANGE, "opposite quarters")):
            ax.plot(part[f"{kind}_path"], part[f"{kind}_distance"], ".", color=color, ms=2, alpha=0.5, label=label)
        ax.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
        ax.set(xlabel="shortest path (steps)", ylabel="D (steps)", title=method)
        ax.legend(frameon=False, fontsize=7)
    for ax, (method, part) in zip(axes[1 + len(parts) :], parts.items(), strict=False):
        draw_map(ax, part["place"], part)
        ax.set(xticks=[], yticks=[], title=f"map, {method}")
    return figure


EXPERIMENT = SceneExperiment("street-generalization", "Generalization to tasks between quarters never taught", __doc__,
                             measure, table, draw, DOMAINS, METHODS, BLOCKS, StreetScene)

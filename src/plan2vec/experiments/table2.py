"""Claim: on city streets a memoryless walker led by the map reaches its goal; led by true GPS it often does not.

Expected (success %, Tiny / Small / Medium / Large): plan2vec at least 98 / 95 / 95 / 95, above every baseline and true
GPS (on Tiny level with Isomap); accuracy of the local metric without near pairs at least 99 %; unseen / seen success at
least 0.9.

Rendered views on the panorama graph of Manhattan, cut by the paper's boxes; no imagery of StreetLearn. Four passes of
random walks of at most 10 views. 2,000 walks per seed: hop to the neighbour of least D, with probability 0.05 to a
random one, no memory; success within two steps (20 m) of the goal. Rule `50 hops`: goals within 50 hops, at most twice
the hops of the shortest path + 10. Rule `15 hops` (the authors' code): goals within 15 hops, at most 20 hops. Random
scores are drawn anew at every hop. Blocks:
`views` a node is a view: every visit shows the same image, and frames equal to the last pixel are one node.
`visits` no two visits are alike (noise, exposure, heading); each is a node; frames change at random in training.
`unseen` the map is fitted to three passes of visits; start and goal are images of the fourth (`seen`: of the three).
`paper` the graph of `views`, the map by the paper's network and hyper-parameters (2-d).
`free` no networks: 64 free numbers per view, fitted to all path lengths of the true network: what head and loss can."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from plan2vec.baselines import pair_distance
from plan2vec.baselines.isomap import fit_isomap
from plan2vec.config import Config, EmbeddingConfig, head_of
from plan2vec.embedding.classical_scaling import landmark_vectors
from plan2vec.embedding.heads import Head, make_head
from plan2vec.embedding.targets import distance_loss
from plan2vec.embedding.train import Teaching
from plan2vec.evaluation import rank_agreement
from plan2vec.experiments import street_scene
from plan2vec.experiments.base_scene import Found, settled
from plan2vec.experiments.street_scene import DOMAINS, NETWORKS, TITLES, StreetScene, StreetSite
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.planner import Distance, walk_many
from plan2vec.results.comparisons import Figures, by_domain, by_method, by_metric, compare, domain_figure
from plan2vec.results.experiment import Experiment, Settings, timed
from plan2vec.results.rows import Arrays, Groups, Lines, Row, in_order, parts_of, select
from plan2vec.search.shortest_paths import distances_from
from plan2vec.validity import straight_line

BASELINES = ("SPTM", "VAE 2-d", "VAE 8-d", "contrastive", "random network")
SANITY = ("random scores", "true GPS", "exact graph distance")
FREE = {"relative errors": "relative", "Sammon's stress": "sammon", "Huber's loss": "huber"}
BLOCKS = {"views": ("plan2vec", "plan2vec 2-d", *BASELINES, "isomap", *SANITY), "visits": ("plan2vec", *SANITY),
          "unseen": ("seen", "unseen"), "paper": ("paper's settings",), "free": tuple(FREE)}
FREE_UPDATES, FREE_LEARNING_RATE = 500, 0.02  # Adam, at first; falls to 0
METHODS = tuple(dict.fromkeys(method for methods in BLOCKS.values() for method in methods))
BLOCK_WORDS = {"views": "a node is a view", "visits": "every noisy visit is a node",
               "unseen": "start and goal of a pass never seen",
               "paper": "a node is a view, the map by the paper's network and settings",
               "free": "free vectors of the views on the true network, by loss"}
PAPER = {**dict.fromkeys(("plan2vec", "plan2vec 2-d", "paper's settings"), (92.2, 57.2, 51.4, None)),
         "SPTM": (31.5, 19.3, 20.2, None), "VAE 2-d": (25.5, 14.4, 16.9, None), "true GPS": (None, 73.0, 73.0, None),
         **dict.fromkeys(("random network", "random scores"), (19.9, 12.0, 12.7, None))}
# the paper's hyper-parameters of the streets: scaling of degrees, epochs, searches per epoch ("batch size"), p of l^p
PAPER_SETTINGS = dict(zip(DOMAINS, ((200, 500, 20, 1.2), (700, 2000, 100, 1.2), (2000, 5000, 100, 1.5),
                                    (4000, 10_000, 100, 2.0)), strict=True))
# of graphs and local metric; missed links join no two nodes, false closures join views more than 30 m apart
OF_GRAPHS = (("num_nodes", "nodes", 1, 0), ("degree", "degree", 1, 2), ("num_components", "parts", 1, 1),
             ("num_closures", "closures", 1, 0), ("num_false", "false ones", 1, 1),
             ("missed_link_share", "missed links, %", 100, 2), ("radius", "radius, steps", 1, 2),
             ("train_accuracy", "accuracy, %", 100, 2), ("train_accuracy_cleaned", "without near pairs", 100, 2),
             ("test_accuracy", "held out", 100, 2))
STEP_DEGREES = 1.2e-4  # of longitude, about 10 m
PAPER_LEARNING_RATE = 3e-4  # the paper's 1e-4 to 1e-5 go with gradients that its code never cleared


def run(settings: Settings) -> Groups:
    for scene in StreetScene.chosen(settings, DOMAINS):
        for block in settings.chosen("blocks", BLOCKS):
            lacking = scene.lacking(settings, BLOCKS[block], block=block)
            if block == "unseen" and lacking:
                metrics, seconds = timed(measure_unseen, scene)
                for method in lacking:
                    yield scene.rows(settings, method, metrics[method], seconds, block=block)
            elif block == "free":
                yield from scene.measured(settings, lacking, measure_free, block=block)
            elif lacking:
                site, seconds = timed(scene.visits_site) if block == "visits" else timed(getattr, scene, "site")
                if block != "paper":
                    numbers = site.numbers | (scene.metric_accuracies() if block == "views" else {})
                    yield scene.rows(settings, "graph", numbers, seconds, block=block)
                yield from scene.measured(settings, lacking, partial(measure, site=site), block=block)


def measure(scene: StreetScene, method: str, block: str, site: StreetSite) -> Found:
    if method in SANITY:
        rng = rng_at(scene.seed, Stream.STREET_CHANCE)
        distances = {"random scores": lambda: lambda nodes, goals: rng.random(len(nodes)),
                     "true GPS": site.straight_distance, "exact graph distance": site.exact_distance}
        return site.scores(distances[method]())
    if method == "isomap":
        dim = min(scene.config.dim, len(site.view) // 2)  # of few nodes the other half of the eigenvalues is negative
        return site.scores(fit_isomap(site.graph, dim))
    if method in BASELINES:
        return site.scores(scene.baseline(method).on(site.frames))
    ways = {"plan2vec 2-d": (street_scene.as_flat(scene.config), street_scene.FLAT_TEACHING),
            "paper's settings": paper_way(scene)}
    ours = (scene.noisy_config, scene.noisy_teaching) if block == "visits" else (scene.config, Teaching())
    return site.scores(scene.train_map(site, *ways.get(method, ours)).on(site.frames))


def measure_free(scene: StreetScene, method: str, block: str) -> Found:
    """Free vectors instead of a network's, with our maps' head and dimensions, on the true street network."""
    site, config = scene.true_site, scene.config
    lengths = distances_from(site.graph, np.arange(len(site.view)))
    head = make_head(head_of(config), config.norm_order, config.dim)
    vectors = fit_free(lengths, head, FREE[method], 5 if scene.size.is_smoke else FREE_UPDATES)
    return site.scores(pair_distance(vectors, vectors, head))


def fit_free(lengths: np.ndarray, head: Head, loss: str, num_updates: int) -> Tensor:
    """[n, dim] vectors whose distances are the path lengths (n, n). Start: classical scaling; every update sees all."""
    target, mean = torch.from_numpy(lengths), float(lengths.mean())
    scaled = landmark_vectors(lengths, np.arange(len(lengths)), head.dim, head.degree)
    vectors = torch.from_numpy(scaled).requires_grad_()
    optimizer = torch.optim.Adam([vectors])
    for update in range(num_updates):
        optimizer.param_groups[0]["lr"] = FREE_LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * update / num_updates))
        optimizer.zero_grad()
        distance_loss(head.pairwise(vectors, vectors), target, loss, mean).backward()
        optimizer.step()
    return vectors.detach()


def measure_unseen(scene: StreetScene) -> dict[str, Found]:
    """The map of three passes, asked about the images it was fitted to and about those of the fourth pass."""
    first_unseen = (street_scene.PASSES - 1) * scene.streets.num_views  # every pass sees every view once
    fitted, fresh = np.split(np.arange(len(scene.visited)), [first_unseen])
    site = scene.visits_site(slice(first_unseen))
    between = scene.train_map(site, scene.noisy_config, scene.noisy_teaching).on(scene.noisy.frames)
    return {"seen": asked_about(site, between, fitted), "unseen": asked_about(site, between, fresh)}


def asked_about(site: StreetSite, between: Distance, numbers: np.ndarray) -> Found:
    """Success of walks from where an image is found on the map to another image, both among `numbers`."""
    scene, rule, rng = site.scene, street_scene.RULES["success"], rng_at(site.scene.seed, Stream.UNSEEN_TASKS)
    view, xy = scene.visited, scene.streets.xy
    drawn = rng.choice(numbers, size=(2, 100 * scene.size.episodes))
    starts, goals = drawn[:, site.within_reach(rule, *view[drawn])]
    entry, target = locate(site, between, starts), locate(site, between, goals)

    away = lambda nodes, tasks: straight_line(xy[view[nodes]], xy[view[goals[tasks]]])  # noqa: E731
    _, arrived = walk_many(site.graph, lambda nodes, tasks: between(nodes, goals[tasks]), entry, np.arange(len(goals)),
                           site.allowed_hops(rule, entry, target), rule.walk.epsilon, False,
                           lambda nodes, tasks: away(nodes, tasks) < rule.walk.radius, rng)
    first, second = rng.choice(numbers, size=(2, 20_000))
    agreement = rank_agreement(between(first, second), scene.metres[view[first], view[second]])
    return {"success": arrived.mean(), "spearman_true": agreement,
            "located": np.mean(scene.hops[view[entry], view[starts]] <= 2)}


def locate(site: StreetSite, between: Distance, images: np.ndarray) -> np.ndarray:
    """(m,) the node of the site, whose frames come first, that D puts nearest to each image."""
    nodes, (asked, which) = np.arange(len(site.view)), np.unique(images, return_inverse=True)
    return np.array([np.argmin(between(np.full(len(nodes), image), nodes)) for image in asked])[which]


def paper_way(scene: StreetScene) -> tuple[Config, Teaching]:
    """The paper's network, latent, norm, scaling and epochs; an epoch's 160 pairs are one update of 16 x 16."""
    scaling, epochs, searches, norm_order = PAPER_SETTINGS[scene.domain]
    embedding = EmbeddingConfig(num_updates=epochs, goals_per_update=16, nodes_per_update=16, goals_per_round=searches,
                                updates_per_round=-(-epochs // 4), learning_rate=PAPER_LEARNING_RATE, loss="relative")
    config = replace(scene.config, dim=2, head="lp", encoder="small" if scene.size.is_smoke else "resnet18",
                     norm_order=norm_order, embedding=scene.size.shorten(embedding))
    return settled(config), Teaching(unit=1 / (STEP_DEGREES * scaling))


def table(rows: list[Row]) -> Lines:
    known = (("success", "50 hops, %", 100, 1), ("success_near", "15 hops, %", 100, 1),
             ("spearman_true", "Spearman", 1, 3))
    for (network,), of_network in parts_of(rows, network=NETWORKS):
        for (block,), part in parts_of(of_network, block=BLOCKS):
            shown = [column for column in known if select(part, metric=column[0])]
            methods = by_method([row for row in part if row["method"] != "graph"], BLOCKS[block])
            yield from (f"**{NETWORKS[network]}: {BLOCK_WORDS[block]}**", "",
                        *compare(part, "method", methods, by_domain(part, TITLES, shown, PAPER)))
        if graphs := select(of_network, method="graph"):
            by_part = {f"{block} | {TITLES[domain]}": {"block": block, "domain": domain}
                       for (block, domain), _ in parts_of(graphs, block=BLOCKS, domain=DOMAINS)}
            yield from compare(graphs, "graph | part", by_part, by_metric(OF_GRAPHS))


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    for (network, block), part in parts_of(select(rows, metric="success"), network=NETWORKS, block=BLOCKS):
        if "random scores" in BLOCKS[block]:
            methods = by_method(part, BLOCKS[block])
            size = max(5.0, 2.4 * len(in_order(part, "domain"))), 1.5 + 0.22 * len(methods)
            figure = domain_figure(part, methods, TITLES, size, PAPER)
            figure.suptitle(f"{NETWORKS[network]}:\n{BLOCK_WORDS[block]}", fontsize=10)
            yield f"{network}-{block}", figure


EXPERIMENT = Experiment("table2", "Table 2: planning success on the streets", __doc__, run, table, draw, DOMAINS,
                        METHODS, BLOCKS)

"""Walks past rendered views, as Sequences. Networks are in `street_networks`, pictures in `street_views`.

A *view* is a node of the network. With `ViewConfig()` every visit of a view shows the same image, as in a real panorama
graph; with `NOISY` no two visits do.
"""

import numpy as np

from plan2vec.data import Sequences, SuccessRule, transitions
from plan2vec.domains.street_networks import STEP, Streets, generate_city, read_network, street_distance, street_graph
from plan2vec.domains.street_views import NOISY, ViewConfig, render_views

__all__ = ["NOISY", "STEP", "SUCCESS", "Streets", "ViewConfig", "generate_city", "read_network", "record",
           "render_views", "street_distance", "street_graph", "walk_streets"]

LONGEST_STEP = 1.5 * STEP  # metres; almost all links of the panorama graph are shorter
PREFIX = "street-"  # of the names of all street domains
SUCCESS = SuccessRule(radius=2 * STEP, epsilon=0.05, episodes=2000, hops_factor=2)


def walk_streets(streets: Streets, passes: int = 4, max_views: int = 10, seed: int = 0) -> list[np.ndarray]:
    """Random walks of at most `max_views` views along the links; every pass visits every view exactly once. Walks
    prefer links that no walk has taken, and begin where there is one. Otherwise some links are never recorded, and the
    local metric alone guesses links less well. A walk ends where all views ahead were visited in this pass, so some
    hold a single view."""
    if passes < 1 or max_views < 2:
        raise ValueError(f"walks need passes >= 1 and max_views >= 2, but came as {passes} and {max_views}")
    rng = np.random.default_rng(seed)
    graph = street_graph(streets)
    ahead = np.split(graph.indices, graph.indptr[1:-1])
    new = [np.ones(len(onward), bool) for onward in ahead]  # links that no walk has taken
    walks = []
    for _ in range(passes):
        fresh = np.ones(len(ahead), bool)
        for start in sorted(rng.permutation(len(ahead)), key=lambda view: not new[view].any()):
            if not fresh[start]:
                continue
            walk, fresh[start] = [start], False
            while len(walk) < max_views and fresh[ahead[walk[-1]]].any():
                here = walk[-1]
                possible = np.flatnonzero(fresh[ahead[here]])
                preferred = possible[new[here][possible]]
                chosen = rng.choice(preferred if len(preferred) else possible)
                walk.append(ahead[here][chosen])
                fresh[walk[-1]] = new[here][chosen] = False
                new[walk[-1]][ahead[walk[-1]] == here] = False
            walks.append(np.array(walk))
    return walks


def record(streets: Streets, walks: list[np.ndarray], config: ViewConfig = ViewConfig(), seed: int = 0) -> Sequences:
    """What a camera saw on the walks; frame i shows view `np.concatenate(walks)[i]`. Step lengths are metres."""
    node = np.concatenate(walks)
    sequence = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
    if config.noise or config.exposure or config.heading_jitter:
        frames = render_views(streets, node, config, np.random.default_rng(seed))
    else:
        shown, which = np.unique(node, return_inverse=True)
        frames = render_views(streets, shown, config)[which]
    position, first = streets.xy[node], transitions(sequence)
    step_length = np.full(len(node), np.nan)
    step_length[first] = np.linalg.norm(position[first + 1] - position[first], axis=1)
    source = f"rendered city, {streets.source}, {streets.name}"
    return Sequences(frames, sequence, position=position, step_length=step_length, domain=streets.name, source=source)

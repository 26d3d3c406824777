"""Walks past rendered views, as Sequences, and the street networks they follow: of a panorama graph, or generated.

A *view* is a node of the network, a panorama's place. Positions are in metres, x to the east, y to the north;
directions in degrees clockwise from north. A generated city is a grid of avenues and streets with one diagonal avenue
and some blocks joined. With `ViewConfig()` every visit of a view shows the same image, as in a real panorama graph;
with `NOISY` no two visits do. Pictures are in `street_views`."""

import zipfile
from dataclasses import dataclass, replace
from math import cos, radians, sin
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from plan2vec.data import Sequences, SuccessRule, transitions
from plan2vec.domains.street_views import NOISY as NOISY
from plan2vec.domains.street_views import ViewConfig, render_views
from plan2vec.search.shortest_paths import distances_from

PREFIX = "street-"  # of the names of all street domains
STEP = 10.0  # metres between neighbouring views, about 1.2e-4 degrees of longitude in Manhattan
STEP_JITTER = 1.5  # metres by which generated views lie off even spacing along their street
BLOCK = (140.0, 75.0)  # metres between avenues, between streets: as dense as the paper's part of Manhattan
CITY_TURN = 29.0  # degrees by which avenues are turned clockwise from north, as Manhattan's
SAME_CROSSING = 14.0  # metres within which crossings of three streets are one place
JOINED_SHARE = 0.12  # of the street pieces between two crossings, which are built over
LONGEST_STEP = 1.5 * STEP  # metres; almost all links of the panorama graph are shorter
SUCCESS = SuccessRule(radius=2 * STEP, epsilon=0.05, episodes=2000, hops_factor=2)


class Box(NamedTuple):
    """A part of a city as the paper gives it: south-west corner and extent in degrees, and its number of views."""

    latitude: float
    longitude: float
    height: float
    width: float
    num_views: int


SIZES = {"street-tiny": Box(40.72891, -73.99694, 0.00143, 0.00191, 53),
         "street-small": Box(40.72731, -73.99698, 0.00349, 0.00397, 255),
         "street-medium": Box(40.72690, -73.99798, 0.00475, 0.00648, 501),
         "street-large": Box(40.72601, -73.99700, 0.00799, 0.01000, 1495)}


@dataclass(frozen=True, eq=False)
class Streets:
    name: str  # the domain's name, e.g. "street-small"
    source: str  # "Manhattan panorama graph" | "generated city", for titles
    xy: np.ndarray  # (n, 2) float64 metres
    links: np.ndarray  # (m, 2) int64, one row per direction: a street that can be walked both ways has two
    heading: np.ndarray  # (n,) degrees: the direction that the camera's car drove, the middle of the panorama

    @property
    def num_views(self) -> int:
        return len(self.xy)

    @property
    def link_lengths(self) -> np.ndarray:
        return np.linalg.norm(self.xy[self.links[:, 1]] - self.xy[self.links[:, 0]], axis=1)


def find_box(size: str) -> Box:
    if size not in SIZES:
        raise ValueError(f"no part of the city is called {size!r}; choose one of {', '.join(SIZES)}")
    return SIZES[size]


def street_graph(streets: Streets) -> csr_array:
    """(n, n) lengths of the links in metres; two views of one place stay linked."""
    return csr_array((np.maximum(streets.link_lengths, 1e-6), streets.links.T), shape=(streets.num_views,) * 2)


def street_distance(streets: Streets) -> np.ndarray:
    """(n, n) metres along the links from each view to every other; inf where no way leads."""
    return distances_from(street_graph(streets), np.arange(streets.num_views))


def _kept(streets: Streets, kept: np.ndarray) -> Streets:
    """The views that are kept (n,) bool, and the links between them, with new numbers."""
    links = (np.cumsum(kept) - 1)[streets.links[kept[streets.links].all(axis=1)]]
    return replace(streets, xy=streets.xy[kept], links=links, heading=streets.heading[kept])


def _both_ways(links: np.ndarray) -> np.ndarray:
    """Each link once in each direction, in order; none from a view to itself."""
    links = np.unique(np.concatenate([links, links[:, ::-1]]).astype(np.int64), axis=0)
    return links[links[:, 0] != links[:, 1]]


def read_network(path: str | Path, size: str) -> Streets:
    """The views of a panorama graph inside the box of that name, the largest connected part of them, from an .npz file
    of `latlon` (n, 2), `xy` (n, 2) m, `pano_yaw` (n,) degrees, `edges` (m, 2). Panoramas that are linked in one
    direction are linked in both: a person can walk back."""
    box, arrays = find_box(size), dict[str, np.ndarray]()
    for name, kinds, row in (("latlon", "f", (2,)), ("xy", "f", (2,)), ("pano_yaw", "fiu", ()), ("edges", "iu", (2,))):
        words = f"{name} {'(n, 2)' if row else '(n,)'}"
        try:
            with np.load(path, allow_pickle=False) as file:
                array = arrays[name] = file[name]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} cannot be read as a street network ({error}); "
                             f"expected an .npz file with {words}") from None
        if array.dtype.kind not in kinds or array.shape[1:] != row or not array.ndim:
            raise ValueError(f"{path}: expected {words} of numbers, but {name} came as {array.dtype} {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} must be finite, but has NaN or infinity; repair it")
        if name != "edges" and len(array) != len(arrays["latlon"]):
            raise ValueError(f"{path}: {name} has {len(array)} rows for {len(arrays['latlon'])} views; "
                             "give one per view")
    edges, (latitude, longitude) = arrays["edges"], arrays["latlon"].T
    if not len(edges) or edges.min() < 0 or edges.max() >= len(latitude):
        raise ValueError(f"{path}: edges must be pairs of view numbers from 0 to {len(latitude) - 1}; repair them")
    inside = (latitude >= box.latitude) & (latitude <= box.latitude + box.height)
    inside &= (longitude >= box.longitude) & (longitude <= box.longitude + box.width)
    part = _kept(Streets(size, "Manhattan panorama graph", arrays["xy"].astype(np.float64), _both_ways(edges),
                         arrays["pano_yaw"].astype(np.float64)), inside)
    if not len(part.links):
        raise ValueError(f"{path} has no linked views inside the box of {size}: "
                         f"latitude {box.latitude}, longitude {box.longitude}")
    label = connected_components(street_graph(part), connection="strong")[1]
    return _kept(part, label == np.bincount(label).argmax())


def generate_city(size: str | int, seed: int = 0) -> Streets:
    """A city of about as many views as the paper's part of that name has, or of about a given number (at least 12)."""
    num_views = find_box(size).num_views if isinstance(size, str) else size
    if num_views < 12:
        raise ValueError(f"a city needs at least 12 views, but {num_views} were asked for")
    rng = np.random.default_rng(seed)
    crossings, pieces = _cross(_lay_out(num_views, rng))
    pieces = _build_over(len(crossings), pieces, rng)
    length = np.linalg.norm(np.diff(crossings[pieces], axis=1)[:, 0], axis=1).sum()
    scale = (num_views - len(crossings) + len(pieces)) * STEP / length  # a piece of k steps has k - 1 views of its own
    return _place_views(crossings * scale, pieces, size if isinstance(size, str) else f"street-{size}", rng)


def _lay_out(num_views: int, rng: np.random.Generator) -> np.ndarray:
    """(k, 2, 2) avenues and streets with a diagonal across them; they run in turns there and back."""
    side = np.sqrt(num_views * STEP / (1 / BLOCK[0] + 1 / BLOCK[1]))
    x, y = (np.append(0.0, np.cumsum(between * rng.uniform(0.8, 1.2, max(1, round(side / between)))))
            for between in BLOCK)  # unevenly spaced
    ends = [((at, y[0]), (at, y[-1])) for at in x] + [((x[0], at), (x[-1], at)) for at in y]
    if len(x) > 2 or len(y) > 3:
        ends.append(((x[0] + 0.3 * (x[-1] - x[0]), y[0]), (x[0] + 0.75 * (x[-1] - x[0]), y[-1])))
    return np.array([end if number % 2 else end[::-1] for number, end in enumerate(ends)])


def _cross(lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Crossings (c, 2) of straight lines (k, 2, 2), and the pieces (p, 2) between them, in driving direction."""
    met = [(first, place) for first, second in np.ndindex(len(lines), len(lines)) if first != second
           and (place := _meeting(lines[first], lines[second])) is not None]
    owner, found = (np.array(values) for values in zip(*met, strict=True))
    pairs = cKDTree(found).query_pairs(SAME_CROSSING, output_type="ndarray")
    crossing = connected_components(coo_array((np.ones(len(pairs)), pairs.T), shape=(len(found),) * 2))[1]
    crossings = np.stack([np.bincount(crossing, found[:, k]) for k in (0, 1)], axis=1) / np.bincount(crossing)[:, None]
    pieces = []
    for number, (start, end) in enumerate(lines):
        mine = np.unique(crossing[owner == number])
        mine = mine[np.argsort(crossings[mine] @ (end - start))]
        pieces.append(np.stack([mine[:-1], mine[1:]], axis=1))
    return crossings, np.concatenate(pieces)


def _meeting(first: np.ndarray, second: np.ndarray) -> np.ndarray | None:
    """Where two straight lines (2, 2) meet, None where they do not."""
    along = np.stack([first[1] - first[0], second[0] - second[1]], axis=1)
    if abs(np.linalg.det(along)) < 1e-9:
        return None
    shares = np.linalg.solve(along, second[0] - first[0])
    return first[0] + shares[0] * (first[1] - first[0]) if ((shares > -1e-9) & (shares < 1 + 1e-9)).all() else None


def _build_over(num_crossings: int, pieces: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some pieces left out: blocks joined. Every crossing can still be reached from every other."""
    kept = np.ones(len(pieces), bool)
    for piece in rng.permutation(len(pieces))[: round(JOINED_SHARE * len(pieces))]:
        kept[piece] = False
        graph = coo_array((np.ones(kept.sum()), pieces[kept].T), shape=(num_crossings,) * 2)
        kept[piece] = connected_components(graph, directed=False)[0] > 1
    return pieces[kept]


def _place_views(crossings: np.ndarray, pieces: np.ndarray, name: str, rng: np.random.Generator) -> Streets:
    """Views at the crossings and about every STEP between them; each looks along its street, or one of its streets."""
    xy, heading, links, num_views = [crossings], [np.zeros(len(crossings))], [], len(crossings)
    for first, last in pieces:
        start, end = crossings[first], crossings[last]
        length = float(np.linalg.norm(end - start))
        num_steps, direction = max(1, round(length / STEP)), (end - start) / length
        along = length * np.arange(1, num_steps) / num_steps + rng.uniform(-STEP_JITTER, STEP_JITTER, num_steps - 1)
        azimuth = np.degrees(np.arctan2(*direction)) % 360
        chain = np.concatenate([[first], num_views + np.arange(num_steps - 1), [last]])
        xy.append(start + along[:, None] * direction)
        heading.append(np.full(num_steps - 1, azimuth))
        heading[0][[first, last]] = azimuth
        links.append(_both_ways(np.stack([chain[:-1], chain[1:]], axis=1)))
        num_views += num_steps - 1
    cosine, sine = cos(radians(CITY_TURN)), sin(radians(CITY_TURN))
    turned = np.concatenate(xy) @ np.array([[cosine, -sine], [sine, cosine]])
    return Streets(name, "generated city", turned, np.concatenate(links), (np.concatenate(heading) + CITY_TURN) % 360)


def walk_streets(streets: Streets, passes: int = 4, max_views: int = 10, seed: int = 0) -> list[np.ndarray]:
    """Random walks of at most `max_views` views along the links; every pass visits every view exactly once. Walks
    prefer links that no walk has taken, and begin where there is one: else some are never recorded, and the local
    metric guesses them less well. A walk, maybe of a single view, ends where this pass has visited all views ahead."""
    if passes < 1 or max_views < 2:
        raise ValueError(f"walks need passes >= 1 and max_views >= 2, but came as {passes} and {max_views}")
    rng, graph = np.random.default_rng(seed), street_graph(streets)
    ahead = np.split(graph.indices, graph.indptr[1:-1])
    new = [np.ones(len(onward), bool) for onward in ahead]  # links that no walk has taken
    walks = []
    for _ in range(passes):
        fresh = np.ones(len(ahead), bool)
        for start in sorted(rng.permutation(len(ahead)), key=lambda view: not new[view].any()):
            if not fresh[start]:
                continue
            walk, fresh[start] = [start], False
            while len(walk) < max_views and fresh[ahead[here := walk[-1]]].any():
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
    node, sequence = np.concatenate(walks), np.repeat(np.arange(len(walks)), list(map(len, walks)))
    if config.noise or config.exposure or config.heading_jitter:
        frames = render_views(streets, node, config, np.random.default_rng(seed))
    else:
        shown, which = np.unique(node, return_inverse=True)
        frames = render_views(streets, shown, config)[which]
    position, first, step_length = streets.xy[node], transitions(sequence), np.full(len(node), np.nan)
    step_length[first] = np.linalg.norm(position[first + 1] - position[first], axis=1)
    return Sequences(frames, sequence, position=position, step_length=step_length, domain=streets.name,
                     source=f"rendered city, {streets.source}, {streets.name}")

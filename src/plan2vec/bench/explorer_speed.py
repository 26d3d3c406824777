"""Claim: the page shows 10,000 frames in 3 s, 100,000 in 6; a plan 300 and, if greedy, 700 ms after a click.

Expected: address_ms at most 3,000, closures_ms at most 2,000, first_paint_ms and click_to_plan_ms as claimed; of
Dijkstra, who visits 100,000 frames, they are not met (rows)

Needs the extras [explore,browser] and chromium. Medians of 5, on a machine that does nothing else: browser and server
share its cores.

`address_ms`: from the command to its address.
`ready_ms`: from the command until its first page shows the map: Python's imports and the reading of the run too; once.
`first_paint_ms`: from opening a page of a running server until every point is drawn.
`click_to_plan_ms`: from a click on a goal to its plan.
`closures_ms`: from asking for the list of closures, 5 s after the first page is there, until it is shown; once.

The models of these sizes are not fitted. They lend the networks of one fitted briefly on 2,000 frames of the same maze;
their graph joins the frames that lie nearest on the map, about 200 to each. So vectors and graph are what a fit would
give in number and size, not in quality. Headless chromium draws WebGL on the CPU; a graphics card is faster."""

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from plan2vec.bench.measuring import choose_sizes, number_table, speed_rows
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains.maze import simulate
from plan2vec.embedding.network import map_vectors
from plan2vec.graph.build import BuiltGraph, build_graph
from plan2vec.graph.neighbors import NearPairs, near_pairs, nearest
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import TrainedMetric
from plan2vec.model import Learned, Model
from plan2vec.pipeline import fit
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Groups

LOOKING = 5  # seconds that a person looks at the page before the list of closures is opened
NUM_NEAREST = 200  # neighbours a frame, about
BRIEF = Config(local_metric=LocalMetricConfig(num_updates=300), embedding=EmbeddingConfig(num_updates=300))
MADE = ("not fitted: networks of a fit of 2,000 frames with 300 + 300 updates, "
        "graph of about 200 nearest frames on the map")
FLAGS = ("--no-sandbox", "--no-first-run", "--disable-quic", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
         "--ignore-gpu-blocklist")
COLUMNS = ("address_ms", "ready_ms", "first_paint_ms", "click_to_plan_ms", "closures_ms")
SIZE: Any = {"width": 1280, "height": 800}  # of the page
SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8").rstrip()  # an object of functions
ON_PAINT, PAINTED, CLICK_TO_PLAN, PLACE_OF = (
    f"{SCRIPT}.{name}" for name in ("onPaint()", "painted", "clickToPlan", "placeOf"))


def run(settings: Settings) -> Groups:
    is_smoke = settings.size.is_smoke
    num_fitted, num_repeats, looking = (200, 1, 0) if is_smoke else (2000, 5, LOOKING)
    for seed in settings.seeds:
        config = replace(settings.size.config if is_smoke else BRIEF, seed=seed)
        small = fit(simulate("c-maze", num_fitted // 10, seed=seed), config)
        with tempfile.TemporaryDirectory() as temporary:
            for size in choose_sizes(settings, (10_000, 100_000), (1_000,)):
                folder = Path(temporary) / str(size)
                enlarge(small, size, seed).save(folder)
                for method in ("greedy", "dijkstra")[: 1 if is_smoke else 2]:
                    began = perf_counter()
                    numbers = measure(folder, size, method, num_repeats, looking)
                    yield speed_rows(settings, seed, "c-maze", method, numbers, perf_counter() - began, frames=size)


def enlarge(small: Model, num_frames: int, seed: int) -> Model:
    """A model of more frames of the same maze, by the networks of the small one."""
    sequences = simulate("c-maze", num_frames // 10, seed=seed + 1)
    vectors = map_vectors(small.embedding, FrameTensors(sequences.frames, small.device))
    pairs, radius = nearest_on_map(vectors, sequences.sequence)
    graph = build_graph(sequences.sequence, pairs, None, False, np.ones(num_frames, bool))
    learned = Learned(TrainedMetric(small.local_metric), BuiltGraph(graph, radius, MADE), small.embedding, vectors)
    return Model(sequences, small.config, learned)


def nearest_on_map(vectors: np.ndarray, sequence: np.ndarray) -> tuple[NearPairs, float]:
    """Pairs of frames, transitions left out, within the radius (also given) that holds about NUM_NEAREST per frame."""
    some, host = vectors[:: max(1, len(vectors) // 1000)], torch.device("cpu")
    radius = float(np.median(nearest(vectors, some, NUM_NEAREST + 1, host)[1][:, -1]))
    pairs = near_pairs(vectors, radius, len(vectors), host)
    return pairs.select((pairs.second - pairs.first > 1) | (sequence[pairs.first] != sequence[pairs.second])), radius


def measure(folder: Path, num_frames: int, method: str, repeats: int, looking: float) -> dict[str, float]:
    """Medians of milliseconds; `ready_ms` and `closures_ms` are measured once, on the first page of a server."""
    printed = []
    for _ in range(repeats):
        began = perf_counter()
        with serving(folder):
            printed.append(1000 * (perf_counter() - began))
    with browsing() as browser:
        began = perf_counter()
        with serving(folder) as address:
            first = browser.new_page(viewport=SIZE)
            page = f"{address}&method={method}"  # the address ends with its token
            first.goto(page)
            first.wait_for_function(PAINTED, timeout=120_000)
            ready = 1000 * (perf_counter() - began)
            first.wait_for_timeout(1000 * looking)
            began = perf_counter()
            first.check("input[value=closures]")
            first.wait_for_selector(".pair button.strike", timeout=120_000)
            closures = 1000 * (perf_counter() - began)
            first.close()
            times = [measure_page(browser, page, num_frames, repeat) for repeat in range(repeats)]
    paint, plan = map(statistics.median, zip(*times, strict=True))
    return dict(zip(COLUMNS, (statistics.median(printed), ready, paint, plan, closures), strict=True))


def measure_page(browser: Any, address: str, num_frames: int, repeat: int) -> tuple[float, float]:
    """Milliseconds from opening the address until all points are drawn, and from a click on a goal to its plan."""
    page = browser.new_page(viewport=SIZE)
    page.add_init_script(ON_PAINT)
    page.goto(address)
    painted = page.wait_for_function(PAINTED, timeout=120_000).json_value()
    page.wait_for_timeout(1500)  # a person looks first
    for number in np.random.default_rng(repeat).integers(num_frames, size=2).tolist():
        left, top = page.evaluate(PLACE_OF, ["map", number])
        page.mouse.move(left - 4, top - 4)
        page.mouse.move(left, top)
        page.wait_for_timeout(300)
        page.mouse.click(left, top)
        page.wait_for_timeout(700)
    planned = page.wait_for_function(CLICK_TO_PLAN, timeout=60_000).json_value()
    page.close()
    return painted, planned


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """`plan2vec explore` in a process of its own; gives its address."""
    command = [sys.executable, "-m", "plan2vec", "explore", str(folder), "--no-browser", "--device", "cpu"]
    process: Any = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if not (address := process.stdout.readline().strip()):
            raise ValueError(f"the explorer did not start: {process.stderr.read().strip()[-500:]}")
        yield address
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def browsing() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        raise ValueError("no browser was found: install chromium (Debian: apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise ValueError("driving a browser needs the extra [browser]: pip install 'plan2vec[explore,browser]'"
                         ) from None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


BENCHMARK = Experiment("bench-explorer", "The interactive page", __doc__, run, partial(number_table, columns=COLUMNS))

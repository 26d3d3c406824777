"""The explorer's pictures, in a real browser: eight recordings whose maps differ, fitted, judged and looked at.

python docs/make_screenshots.py RUNS --data DATA     RUNS: folder for the runs, which are kept; DATA: real recordings,
a folder with sptm/ (the mazes of SPTM) and tower/tower_low.npz. Writes docs/images/ and docs/results/verdicts.md.
"""

import argparse
import io
import json
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.bench.explorer_speed import PAINTED, browsing, serving
from plan2vec.bench.recording_scores import roll_out
from plan2vec.commands.fitting import write_run_report
from plan2vec.config import Config
from plan2vec.data import Sequences, make_sequences
from plan2vec.domains import doom, maze
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.verdict import make_verdict

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1400, "height": 900}
HEAD = """# Eight recordings, eight verdicts

What the explorer says on top of each map, and what it looks like. `python docs/make_screenshots.py runs --data data`
fits the recordings with the default settings, takes the pictures and writes this page.
"""
TITLES = {
    "rooms": "Walks through a simulated room", "branching": "A walk through a first-person maze (branching)",
    "tower-low": "Phone walks through twelve look-alike floors (tower_low)", "shuffled": "Frames shuffled in time",
    "one-sequence": "One sequence only", "disjoint": "Two recordings that never meet",
    "without-truth": "A recording without true positions", "pendulum": "Vectors of a pendulum",
}


def rooms(data: Path) -> Sequences:
    return maze.simulate("c-maze", 200)


def branching(data: Path) -> Sequences:
    return doom.replay(data / "sptm", "branching", 48, 64)


def tower_low(data: Path) -> Sequences:
    return replace(read(data / "tower" / "tower_low.npz"), source="tower_low")


def shuffled(data: Path) -> Sequences:
    known = rooms(data)
    order = np.random.default_rng(0).permutation(known.num_frames)
    return replace(known, frames=known.frames[order], position=known.position[order], action=None, source="shuffled")


def one_sequence(data: Path) -> Sequences:
    return replace(maze.simulate("open", 1, 1000), source="one walk")


def disjoint(data: Path) -> Sequences:
    known = maze.simulate("open", 100)
    frames = np.concatenate((known.frames // 2, 255 - known.frames // 2))
    return make_sequences(frames, np.concatenate((known.sequence, known.sequence + 1000)), source="two recordings")


def without_truth(data: Path) -> Sequences:
    return replace(rooms(data).without_truth(), action=None, source="a recording without positions")


def pendulum(data: Path) -> Sequences:
    return replace(roll_out("pendulum", 0), source="pendulum")


RECORDINGS: dict[str, Callable[[Path], Sequences]] = {
    "rooms": rooms, "branching": branching, "tower-low": tower_low, "shuffled": shuffled, "one-sequence": one_sequence,
    "disjoint": disjoint, "without-truth": without_truth, "pendulum": pendulum,
}


def make_run(name: str, runs: Path, data: Path) -> Path:
    """Fit and judge a recording with the default settings, unless its run is there."""
    folder = runs / name
    if not (folder / "scorecard.json").exists():
        write_run_report(fit(RECORDINGS[name](data), Config(), folder, device="cpu"))
    return folder


def screenshot(page: Any, name: str) -> None:
    """A page as a PNG of few colours, which is a third as large."""
    data = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    few = data.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(IMAGES / f"{name}.png", optimize=True)


def look(browser: Any, address: str) -> Any:
    """The page, once the map, the plan and the picture of the verdict are drawn."""
    page = browser.new_page(viewport=SIZE)
    page.goto(address)
    page.wait_for_function(PAINTED, timeout=120_000)
    page.wait_for_selector("#methods .bars", state="attached", timeout=120_000)
    page.wait_for_function("document.getElementById('verdict-image').naturalWidth > 0", timeout=120_000)
    page.wait_for_timeout(1500)
    return page


def take(name: str, run: Path) -> None:
    """Save the screenshots of one run. Its verdict must be seen without scrolling."""
    verdict = make_verdict(json.loads((run / "scorecard.json").read_text(encoding="utf-8")), run)
    with serving(run) as address, browsing() as browser:
        page = look(browser, f"{address}&method=astar")
        shown, box = page.inner_text("#verdict .sentence"), page.locator("#verdict").bounding_box()
        if shown != f"{verdict.headline} {verdict.sentence}" or box["y"] + box["height"] > SIZE["height"]:
            raise ValueError(f"the page of {name} does not show its verdict without scrolling, but: {shown}")
        screenshot(page, f"verdict-{name}")
        if name == "rooms":
            screenshot(look(browser, f"{address}&method=astar&panel=closures"), "explorer-closures")


def part(name: str, run: Path) -> str:
    """What the page on verdicts says of one run."""
    verdict = make_verdict(json.loads((run / "scorecard.json").read_text(encoding="utf-8")), run)
    words = f"**{verdict.headline}** {verdict.sentence} {verdict.advice} {verdict.unknown}"
    return f"## {TITLES[name]}\n\n{textwrap.fill(words, 120)}\n\n![{TITLES[name]}](../images/verdict-{name}.png)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("names", nargs="*", default=list(RECORDINGS), help="pictures to take anew; default: all")
    parser.add_argument("--data", type=Path, default=Path("data"))
    asked = parser.parse_args()
    folders = {name: make_run(name, asked.runs, asked.data) for name in RECORDINGS}
    for name in asked.names:
        take(name, folders[name])
    parts = [part(name, folder) for name, folder in folders.items()]
    (Path(__file__).parent / "results" / "verdicts.md").write_text("\n".join([HEAD, *parts]), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The explorer's pictures from a demo's run, in a real browser: python docs/make_screenshots.py runs/demo-c-maze"""

import sys
from pathlib import Path

from plan2vec.bench.explorer_speed import PAINTED, browsing, serving

IMAGES = Path(__file__).parent / "images"


def main(run: Path) -> None:
    with serving(run) as address, browsing() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{address}&method=dijkstra")
        page.wait_for_function(PAINTED, timeout=120_000)
        page.wait_for_selector("#methods .bars")
        page.uncheck("input[value=touched]")
        page.wait_for_timeout(1500)
        page.screenshot(path=IMAGES / "explorer-map.png")
        page.check("input[value=closures]")
        page.wait_for_selector("button.strike", timeout=120_000)
        page.wait_for_timeout(1000)
        page.screenshot(path=IMAGES / "explorer-closures.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The interactive page in a real browser, driven by mouse and keyboard. Run by `make test-browser`."""

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from plan2vec.bench.explorer_speed import PAINTED, PLACE_OF, browsing, serving
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains import maze
from plan2vec.model import load
from plan2vec.pipeline import fit

BRIEF = Config(
    local_metric=LocalMetricConfig(num_updates=60, batch_size=64),
    embedding=EmbeddingConfig(num_updates=40, goals_per_update=32, nodes_per_update=64),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "maze"
    sequences = maze.simulate("c-maze", 60, seed=1)
    fit(replace(sequences, frames=np.ascontiguousarray(sequences.frames[:, ::2, ::2])), BRIEF, out, device="cpu")
    return out


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as opened:
        yield opened


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A fresh page; what the console calls an error, and answers that failed, fail the test."""
    opened = browser.new_page(viewport={"width": 1280, "height": 800})
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "response", lambda answer: wrong.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None
    )
    opened.on(
        "request",
        lambda asked: wrong.append(asked.url) if not asked.url.startswith(
            (address.split("?")[0], "data:", "blob:")
        ) else None
    )
    yield opened
    opened.close()
    assert wrong == []


def visit(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_function(PAINTED)
    page.wait_for_timeout(500)


def click_frame(page: Any, number: int, plot: str = "room") -> None:
    left, top = page.evaluate(PLACE_OF, [plot, number])
    page.mouse.move(left - 3, top - 3)
    page.mouse.move(left, top)
    page.wait_for_timeout(200)
    page.mouse.click(left, top)


def wait_for_plan(page: Any, method: str, goal: str) -> None:
    page.wait_for_function(
        "([method, goal]) => { const line = document.getElementById('summary').textContent;"
        " return line.startsWith(method) && line.includes(` to ${goal} `); }", arg=[method, goal],
    )


def test_clicks_set_start_and_goal_and_the_plan_appears_on_the_map_and_as_frames(page, address):
    visit(page, address)
    click_frame(page, 30)
    page.wait_for_function("document.getElementById('start').value")
    click_frame(page, 400)
    page.wait_for_function("document.getElementById('goal').value")
    page.check("input[value=dijkstra]")  # a briefly trained map may lead greedy walks in a circle
    goal = page.input_value("#goal")
    wait_for_plan(page, "dijkstra", goal)
    shown = page.eval_on_selector_all("#strip img", "images => images.map(image => image.src)")
    assert len(shown) >= 2 and shown[0].endswith(
        f"/frame/{page.input_value('#start')}.png"
    ) and shown[-1].endswith(f"/frame/{goal}.png")
    page.wait_for_function(
        "[...document.querySelectorAll('#strip img')].every(image => image.complete && image.naturalWidth >= 32)"
    )
    page.wait_for_function(f"document.getElementById('map-overlay').dataset.nodes == {len(shown)}")
    page.wait_for_function("document.getElementById('room-overlay').dataset.touched > 0")
    assert page.locator("#methods .bars").count() == 16


def test_hovering_shows_the_frame_under_the_pointer(page, address):
    visit(page, address)
    left, top = page.evaluate(PLACE_OF, ["map", 100])
    page.mouse.move(left - 3, top - 3)
    page.mouse.move(left, top)
    page.wait_for_selector("#tip", state="visible")
    assert "/frame/" in page.get_attribute("#tip-image", "src") and "frame " in page.inner_text("#tip-text")


def test_a_link_reproduces_the_view_and_another_method_changes_it(page, address):
    visit(page, f"{address}&start=3&goal=1:7&method=dijkstra&color=distance")
    wait_for_plan(page, "dijkstra", "17")
    assert page.input_value("#goal") == "1:7" and page.is_checked("input[value=distance]")
    page.check("input[value=astar]")
    wait_for_plan(page, "astar", "17")
    page.wait_for_function("location.search.includes('method=astar')")
    link, line = page.url, page.inner_text("#summary")
    visit(page, link)
    wait_for_plan(page, "astar", "17")
    assert page.inner_text("#summary") == line and page.is_checked("input[value=distance]")


def test_every_colour_and_the_three_dimensional_view_can_be_chosen(page, address):
    visit(page, f"{address}&start=3&goal=17&method=dijkstra")
    for color in ("sequence", "time", "distance", "component", "position"):
        page.check(f"input[value={color}]")
        page.wait_for_function(f"location.search.includes('color={color}')")
    page.check("input[value='3-d']")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot')._fullLayout.scene")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot').data[1].x.length > 0")
    assert "3 principal components" in page.inner_text("#map-words")


def test_the_keyboard_alone_makes_a_plan(page, address):
    visit(page, address)
    page.focus("#start")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('start-image').src.endsWith('/frame/5.png')")
    page.focus("#goal")
    page.keyboard.type("50")
    page.keyboard.press("Enter")
    page.focus("#method input")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    wait_for_plan(page, "dijkstra", "50")


def test_unknown_frames_get_a_message(page, address):
    visit(page, f"{address}&start=99999999999&goal=12")
    page.wait_for_function("document.getElementById('message').textContent.includes('frame number from 0 to 599')")


def test_a_struck_closure_leaves_the_graph_and_comes_back_by_undo(page, address, folder):
    edges = load(folder, "cpu").graph.nnz
    visit(page, address)
    page.check("input[value=closures]")
    page.wait_for_selector("button.strike")
    first = page.get_attribute("button.strike >> nth=0", "aria-label")
    page.click("button.strike >> nth=0")
    page.wait_for_selector("button.undo")
    assert load(folder, "cpu").graph.nnz == edges - 2
    assert page.get_attribute("button.strike >> nth=0", "aria-label") != first
    assert "struck" in page.inner_text("#message") and "--update" in page.inner_text("#closures")
    page.click("button.undo")
    page.wait_for_selector("button.undo", state="detached")
    assert load(folder, "cpu").graph.nnz == edges


def test_an_uploaded_image_becomes_the_goal_and_a_broken_one_a_message(page, address, folder):
    frames = np.load(folder / "frames.npy", mmap_mode="r")
    buffer = io.BytesIO()
    Image.fromarray(frames[42, :, :, 0]).save(buffer, format="PNG")
    visit(page, address)
    page.set_input_files(
        "#upload-goal input[type=file]", {"name": "a.png", "mimeType": "image/png", "buffer": buffer.getvalue()}
    )
    page.wait_for_function("document.getElementById('goal').value")
    assert (frames[int(page.input_value("#goal"))] == frames[42]).all()
    page.set_input_files(
        "#upload-start input[type=file]", {"name": "b.png", "mimeType": "image/png", "buffer": b"no image"}
    )
    page.wait_for_function("document.getElementById('message').textContent.includes('cannot be read as an image')")
    assert page.input_value("#start") == ""


def test_an_image_that_is_too_large_gets_a_message_and_no_request(page, address):
    visit(page, address)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_input_files(
        "#upload-goal input[type=file]", {"name": "huge.png", "mimeType": "image/png", "buffer": bytes(8_000_001)}
    )
    page.wait_for_function("document.getElementById('message').textContent.includes('an image may have 8 MB')")
    assert "huge.png" in page.inner_text("#message") and page.input_value("#goal") == "" and asked == []


def test_the_page_of_a_run_under_way_becomes_the_map_by_itself(browser, folder, tmp_path):
    products = ("graph.npz", "embedding.safetensors", "vectors.npy", "manifest.json")
    for path in folder.iterdir():
        if path.is_file() and path.name not in products:
            shutil.copy(path, tmp_path)
    with serving(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        assert page.inner_text("h1") == "fit is under way: graph"
        page.wait_for_function(
            "document.images.length == 12 && [...document.images].every(image => image.naturalWidth >= 32)"
        )
        for name in products:
            shutil.copy(folder / name, tmp_path)
        page.wait_for_function(PAINTED, timeout=60_000)
        page.close()

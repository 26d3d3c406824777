"""The interactive page in a real browser, driven by mouse and keyboard. Run by `make test-browser`."""

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import coo_array, csr_array, triu

from plan2vec.bench.explorer_speed import COLUMNS, PAINTED, PLACE_OF, browsing, serving
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains import maze
from plan2vec.evaluation import evaluate
from plan2vec.graph.build import edge_rows, select_edges
from plan2vec.model import Model, load
from plan2vec.pictures.report import write_report
from plan2vec.pipeline import fit

AXE = Path(__file__).with_name("axe.min.js")  # see README.md beside it
INSIDE = ("http://127.0.0.1:", "data:", "blob:")
COUNT = """window.asked = 0;
const ask = window.fetch;
window.fetch = (...question) => { window.asked += 1; return ask(...question).finally(() => (window.asked -= 1)); };"""
CALM = """() => new Promise((tell) => {
    let pictures = 0;  // of the screen, one after the other, while no answer was waited for
    const look = () => {
        pictures = window.asked ? 0 : pictures + 1;
        if (pictures > 8) tell(true); else requestAnimationFrame(look);
    };
    look();
})"""
LISTEN = """(name) => {
    const plot = document.querySelector(`#${name} .js-plotly-plot`);
    if (plot.heard) return;
    plot.heard = {};
    plot.on('plotly_hover', ({ points, event }) => {
        plot.heard = { frame: points[0].pointNumber, left: event.clientX, top: event.clientY };
    });
}"""
HEARD = """([name, left, top]) => {
    const { heard } = document.querySelector(`#${name} .js-plotly-plot`);
    return Math.abs(heard.left - left) < 1 && Math.abs(heard.top - top) < 1 ? String(heard.frame) : null;
}"""
BRIGHTNESS = """(name) => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3)
    .reduce((sum, value) => sum + Number(value), 0) / 3"""
HIGHLIGHTED = """(frame) => ['now', 'scrubber'].every((id) => document.getElementById(id).value == frame)
    && ['map-cursor', 'room-cursor'].every((id) => document.getElementById(id).dataset.frame == frame)"""
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


@pytest.fixture(scope="module")
def doubtful_model(folder: Path) -> Model:
    """The same map with confidences: every second closure is doubtful."""
    model = load(folder, "cpu")
    entries = coo_array(triu(model.graph, 1))
    sure = np.where((entries.row + entries.col) % 2, 0.95, 0.5).astype(np.float32)  # above 0.9 for about one in two
    confidence = csr_array((sure, (entries.row, entries.col)), shape=model.graph.shape)
    model.built = replace(model.built, confidence=confidence, estimated_false=0.3)
    return model


@pytest.fixture(scope="module")
def doubtful(doubtful_model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its page. An audit found something in sequence 25."""
    out = tmp_path_factory.mktemp("runs") / "doubtful"
    doubtful_model.save(out)
    finding = {"kind": "still", "first": 2, "last": 5, "words": "nothing moves"}
    (out / "audit.json").write_text(json.dumps({"episodes": [{"episode": 25, "findings": [finding]}]}))
    with serving(out) as found:
        yield found


@pytest.fixture(scope="module")
def strange(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Nothing to see: no true positions, frames 0-299 and 300-599 are never joined, vectors are noise."""
    model = load(folder, "cpu")
    model.sequences = replace(model.sequences, position=None)
    row, column = edge_rows(model.graph), model.graph.indices
    model.graph = select_edges(model.graph, (row < 300) == (column < 300))
    model.vectors = np.random.default_rng(0).normal(size=model.vectors.shape).astype(np.float32)
    out = tmp_path_factory.mktemp("runs") / "strange"
    model.save(out)
    with serving(out) as found:
        yield found


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Fresh pages; what the console calls an error, answers that failed and requests to others fail the test."""
    opened: list[Any] = []
    wrong: list[str] = []

    def watch(width: int = 1280, height: int = 800, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": height}, **options)
        page.add_init_script(COUNT)
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("response", lambda got: wrong.append(f"{got.status} {got.url}") if got.status >= 400 else None)
        page.on("request", lambda asked: None if asked.url.startswith(INSIDE) else wrong.append(asked.url))
        opened.append(page)
        return page

    yield watch
    for page in opened:
        page.close()
    assert wrong == []


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    return open_page()


def visit(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_function(PAINTED, timeout=90_000)
    page.wait_for_function("document.querySelector('#methods .bars')")  # the plan that the page opens with is there
    settle(page)


def settle(page: Any) -> None:
    """Until the page has all answers and has drawn them: what comes later would not meet a redraw."""
    page.evaluate(CALM)


def point_at(page: Any, number: int, plot: str = "room") -> tuple[float, float, str]:
    """Moves the pointer onto a frame. Returns where that is, and the frame there: several may lie on one place."""
    page.evaluate(LISTEN, plot)
    page.mouse.move(5, 5)  # from outside, else a frame that was hovered before is not told again
    left, top = (float(int(value)) for value in page.evaluate(PLACE_OF, [plot, number]))
    page.mouse.move(left, top)
    return left, top, page.wait_for_function(HEARD, arg=[plot, left, top]).json_value()


def type_frame(page: Any, end: str, text: str) -> None:
    page.focus(f"#{end}")
    page.keyboard.press("Control+A")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def choose(page: Any, value: str, checked: bool = True) -> None:
    """A choice of the folded menu "view"."""
    page.evaluate("document.getElementById('view-menu').open = true")
    page.set_checked(f"#view-menu input[value='{value}']", checked)
    page.evaluate("document.getElementById('view-menu').open = false")


def png_of(frame: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame[:, :, 0]).save(buffer, format="PNG")
    return buffer.getvalue()


def wait_for_message(page: Any, words: str, kind: str) -> None:
    """`kind`: good or wrong, which look different."""
    page.wait_for_function(
        "([words, kind]) => document.querySelector(`#message .${kind}`)?.textContent.includes(words)", arg=[words, kind]
    )


def wait_for_plan(page: Any, method: str, goal: str) -> None:
    page.wait_for_function(
        "([method, goal]) => { const line = document.getElementById('summary').textContent;"
        " return line.startsWith(method) && line.includes(` to ${goal} `); }", arg=[method, goal],
    )


def test_clicks_set_start_and_goal_and_the_plan_appears_on_the_map_and_as_frames(page, address):
    visit(page, address)
    for end, number in (("start", 30), ("goal", 400)):
        left, top, frame = point_at(page, number)
        page.mouse.click(left, top)
        page.wait_for_function(f"document.getElementById('{end}').value == '{frame}'")
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
    _, _, frame = point_at(page, 100, "map")
    page.wait_for_selector("#tip", state="visible")
    assert page.get_attribute("#tip-image", "src") == f"/frame/{frame}.png"
    assert page.inner_text("#tip-text").startswith(f"frame {frame}, ")


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
        choose(page, color)
        page.wait_for_function(f"location.search.includes('color={color}')")
    choose(page, "3-d")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot')._fullLayout.scene")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot').data.slice(2, 5).some(one => one.x.length)")
    assert "3 principal components" in page.inner_text("#map-words")


def test_the_keyboard_alone_makes_a_plan(page, address):
    visit(page, address)
    type_frame(page, "start", "5")
    page.wait_for_function("document.getElementById('start-image').src.endsWith('/frame/5.png')")
    page.wait_for_function("document.querySelector('#next input[value=goal]').checked")  # a click would set the goal
    type_frame(page, "goal", "50")
    page.focus("#method input")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    wait_for_plan(page, "dijkstra", "50")


def test_unknown_frames_get_a_message(page, address):
    visit(page, address)
    type_frame(page, "start", "99999999999")
    wait_for_message(page, "frame number from 0 to 599", "wrong")
    type_frame(page, "start", "12")
    page.wait_for_function("!document.getElementById('message').textContent")


@pytest.mark.parametrize(("verdict", "says"), [("strike", "plan2vec closures {} --update"), ("keep", ": kept.")])
def test_a_struck_closure_leaves_the_graph_a_kept_one_does_not_and_undo_takes_both_back(
    page, address, folder, verdict, says
):
    edges, button = load(folder, "cpu").graph.nnz, f"#closures button.{verdict}"
    visit(page, address)
    page.check("input[value=closures]")
    page.wait_for_selector(button)
    first = page.get_attribute(f"{button} >> nth=0", "aria-label")
    page.click(f"{button} >> nth=0")
    page.wait_for_selector("#closures button.undo")
    assert load(folder, "cpu").graph.nnz == edges - (2 if verdict == "strike" else 0)
    wait_for_message(page, says.format(folder), "good")
    cut_off = "element => element.scrollHeight > element.clientHeight || element.scrollWidth > element.clientWidth"
    assert not page.eval_on_selector("#message", cut_off)
    page.wait_for_function(
        "([button, words]) => document.activeElement === document.querySelector(button)"
        " && document.activeElement.getAttribute('aria-label') != words", arg=[button, first]
    )  # the keyboard goes on with the next pair
    type_frame(page, "start", "12")
    page.wait_for_function("!document.getElementById('message').textContent")
    page.click("#closures button.undo")
    page.wait_for_selector("#closures button.undo", state="detached")
    assert load(folder, "cpu").graph.nnz == edges


def test_an_uploaded_image_becomes_the_goal_and_a_broken_one_a_message(page, address, folder):
    frames = np.load(folder / "frames.npy", mmap_mode="r")
    visit(page, address)
    page.set_input_files(
        "#upload-goal input[type=file]", {"name": "a.png", "mimeType": "image/png", "buffer": png_of(frames[42])}
    )
    wait_for_message(page, "The image lies at frame", "good")
    goal = page.input_value("#goal")
    wait_for_plan(page, "greedy", goal)
    assert (frames[int(goal)] == frames[42]).all() and "The image lies at" in page.inner_text("#message")
    start = page.input_value("#start")
    page.set_input_files(
        "#upload-start input[type=file]", {"name": "b.png", "mimeType": "image/png", "buffer": b"no image"}
    )
    wait_for_message(page, "cannot be read as an image", "wrong")
    page.set_input_files(
        "#upload-start input[type=file]", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no image"}
    )
    wait_for_message(page, "notes.txt is no image", "wrong")
    assert page.input_value("#start") == start


def test_an_image_that_is_too_large_gets_a_message_and_no_request(page, address):
    visit(page, address)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/_dash" in request.url else None)
    goal = page.input_value("#goal")
    page.set_input_files(
        "#upload-goal input[type=file]", {"name": "huge.png", "mimeType": "image/png", "buffer": bytes(8_000_001)}
    )
    wait_for_message(page, "huge.png has 8.0 MB; an image may have 8 MB", "wrong")
    assert page.input_value("#goal") == goal and asked == []


def test_the_page_of_a_run_under_way_becomes_the_map_and_says_when_its_server_is_gone(browser, folder, tmp_path):
    products = ("graph.npz", "embedding.safetensors", "vectors.npy", "manifest.json")
    for path in folder.iterdir():
        if path.is_file() and path.name not in products:
            shutil.copy(path, tmp_path)
    page, wrong = browser.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    with serving(tmp_path) as address:
        page.goto(address)
        page.wait_for_function("document.querySelector('h1')?.textContent == 'fit is under way: graph'", timeout=60_000)
        page.wait_for_function(
            "document.images.length == 12 && [...document.images].every(image => image.naturalWidth >= 32)"
        )
        for name in products:
            shutil.copy(folder / name, tmp_path)
        page.wait_for_function(PAINTED, timeout=60_000)
        page.wait_for_selector("#methods .bars")
        assert not page.is_visible("#lost") and wrong == []
    type_frame(page, "start", "12")
    page.wait_for_selector("#lost", state="visible")
    assert page.inner_text("#lost") == "Lost the explorer; is it still running?"
    page.close()
    gone = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_SOCKET_NOT_CONNECTED",
            "the server did not respond", "Failed to fetch")  # what browser and Dash say of it themselves
    assert [words for words in wrong if not any(known in words for known in gone)] == []


# ---------------------------------------------------------------------------------------------------- nothing is silent


def test_the_mode_bar_has_no_button_that_sends_the_map_away(page, address):
    titles = "buttons => buttons.map(button => button.dataset.title)"
    visit(page, address)
    flat = ["Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"]
    assert page.eval_on_selector_all("#map .modebar-btn", titles) == flat
    page.wait_for_selector("#room .modebar-btn", state="attached")
    assert page.eval_on_selector_all("#room .modebar-btn", titles) == flat
    choose(page, "3-d")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot')._fullLayout.scene")
    page.wait_for_function("document.querySelector('#map .modebar-btn[data-title*=otation]')")
    assert page.eval_on_selector_all("#map .modebar-btn", titles) == [
        "Zoom", "Pan", "Orbital rotation", "Turntable rotation", "Reset camera to default",
        "Reset camera to last save"
    ]


def find_tip(page: Any) -> tuple[float, float]:
    """Move over the map in 3-d until a frame lies under the pointer, and its tip stays."""
    box = page.locator("#map").bounding_box()
    for k in range(400):
        left, top = box["x"] + box["width"] * (0.3 + k % 20 / 50), box["y"] + box["height"] * (0.3 + k // 20 / 50)
        page.mouse.move(left, top)
        page.evaluate(CALM)
        if page.is_visible("#tip"):
            return left, top
    raise AssertionError("no frame was found under the pointer")


def test_in_three_dimensions_frames_can_be_hovered_clicked_recoloured_and_turned(page, address):
    visit(page, f"{address}&axes=3-d&start=3&goal=17")
    camera = "name => JSON.stringify(document.querySelector('#map .js-plotly-plot')._fullLayout.scene?.camera?.[name])"
    page.wait_for_function(camera, arg="eye")
    settle(page)
    left, top = find_tip(page)
    hovered = page.inner_text("#tip-text").split(",")[0]
    page.mouse.click(left, top)
    page.wait_for_function("words => words == `frame ${document.getElementById('start').value}`", arg=hovered)
    choose(page, "time")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot').data[0].marker.showscale === true")
    settle(page)
    eye, center = (page.evaluate(camera, name) for name in ("eye", "center"))
    page.mouse.move(left, top)
    settle(page)  # the frame under the pointer is marked, which draws the plot anew
    page.mouse.down()
    page.mouse.move(left + 90, top + 30, steps=8)
    page.mouse.up()
    page.wait_for_function(f"eye => ({camera})('eye') !== eye", arg=eye)
    assert page.evaluate(camera, "center") == center


@pytest.mark.parametrize("axes", ["2-d", "3-d"])
def test_no_line_joins_ends_without_a_path_but_both_are_marked_and_the_reason_is_said(page, strange, axes):
    drawn = """([axes, kind]) => axes == '3-d' ? document.querySelector('#map .js-plotly-plot').data[2 + kind].x.length
        : plan2vec.hopsByKind()[kind].length"""
    visit(page, f"{strange}&axes={axes}&start=3&goal=250&method=dijkstra")
    page.wait_for_function(f"axes => [0, 1, 2].some((kind) => ({drawn})([axes, kind]) > 0)", arg=axes)
    type_frame(page, "goal", "400")
    page.wait_for_function("document.getElementById('summary').textContent.startsWith('dijkstra: no path')")
    settle(page)
    assert [page.evaluate(drawn, [axes, kind]) for kind in range(3)] == [0, 0, 0]
    assert "they lie in parts 0 and 1, " in page.inner_text("#summary") and page.locator("#strip img").count() == 2
    if axes == "3-d":
        assert page.evaluate("document.querySelector('#map .js-plotly-plot').data[5].text.join('')") == "SG"
        return
    drawn_at = """([left, top]) => { const box = document.getElementById('map-overlay').getBoundingClientRect();
        const pen = document.getElementById('map-overlay').getContext('2d');
        return pen.getImageData(left - box.left - 7, top - box.top, 1, 1).data[3]; }"""
    assert [page.evaluate(drawn_at, page.evaluate(PLACE_OF, ["map", number])) for number in (3, 400)] == [255, 255]


def test_a_second_person_is_told_what_the_first_has_struck_and_gets_a_new_plan(page, address, open_page):
    visit(page, address)
    page.check("input[value=closures]")
    page.wait_for_selector("#closures button.strike")
    label = page.get_attribute("#closures button.strike >> nth=0", "aria-label")
    first, second = (word for word in label.split() if word.isdigit())
    other = open_page()
    visit(other, f"{address}&start={first}&goal={second}&method=dijkstra")
    assert " in 1 hop:" in other.inner_text("#summary")
    other.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")  # does not look
    other.check("input[value=closures]")
    other.wait_for_selector("#closures button.strike")
    page.click("#closures button.strike >> nth=0")
    page.wait_for_selector("#closures button.undo")
    other.eval_on_selector(f"#closures button.strike[aria-label='{label}']", "button => button.click()")  # not yet told
    wait_for_message(other, "already struck", "wrong")
    other.wait_for_function("!document.getElementById('summary').textContent.includes(' in 1 hop:')")
    other.evaluate("delete document.hidden")
    page.click("#closures button.undo")
    page.wait_for_selector("#closures button.undo", state="detached")
    wait_for_message(other, "Somebody else judged closures", "wrong")  # without anything being touched there
    other.wait_for_function("document.getElementById('summary').textContent.includes(' in 1 hop:')")


def test_a_dozen_frames_are_seen_on_the_map_and_can_be_hidden(page, address):
    visit(page, address)
    page.wait_for_function("document.getElementById('map-overlay').dataset.pictures == 12")
    click_map_picture(page)
    choose(page, "pictures", False)
    page.wait_for_function("document.getElementById('map-overlay').dataset.pictures == 0")


def click_map_picture(page: Any) -> None:
    """A click on a picture, where no point is near, makes it the start."""
    found = page.evaluate("""() => {
        const plot = document.querySelector('#map .js-plotly-plot'), { xaxis, yaxis } = plot._fullLayout;
        const { x, y } = plot._fullData[0], box = plot.getBoundingClientRect();
        const spots = plan2vec.onMap.flatMap((one) => [...Array(49).keys()].map((k) => (
            [one.number, one.x + one.width * (1 + k % 7) / 8, one.y + one.height * (1 + Math.floor(k / 7)) / 8])));
        const nearest = ([, left, top]) => Math.min(...Array.from(x, (_, k) => Math.hypot(
            xaxis._offset + xaxis.d2p(x[k]) - left, yaxis._offset + yaxis.d2p(y[k]) - top)));
        const [away, [number, left, top]] = spots.map((spot) => [nearest(spot), spot]).sort((a, b) => b[0] - a[0])[0];
        return { away, number, left: left + box.left, top: top + box.top };
    }""")
    assert found["away"] > 20  # pixels: nearer points are hovered
    page.mouse.click(found["left"], found["top"])
    page.wait_for_function("frame => document.getElementById('start').value == frame", arg=str(found["number"]))


def test_the_page_opens_with_a_plan_between_two_far_frames(page, address):
    visit(page, address)
    start, goal = page.input_value("#start"), page.input_value("#goal")
    wait_for_plan(page, "greedy", goal)
    assert start != goal and page.locator("#strip img").count() >= 2


def test_colours_that_wait_for_a_goal_say_so(page, address):
    page.goto(f"{address}&start=5&color=distance")
    page.wait_for_function("document.getElementById('map-words')?.textContent.includes('gray until a goal is set')")
    type_frame(page, "goal", "50")
    page.wait_for_function("!document.getElementById('map-words').textContent.includes('gray until a goal is set')")


def test_without_truth_nothing_pretends_to_know_it_and_a_map_that_nobody_can_read_says_so(page, strange):
    visit(page, f"{strange}&color=position&start=3&goal=250")
    assert page.locator("#color input").evaluate_all("all => all.map(one => one.value)") == [
        "sequence", "time", "distance", "component"
    ]
    wait_for_message(page, "unknown color", "wrong")
    assert page.is_checked("#color input[value=sequence]") and page.locator("#room").count() == 0
    assert "Without true positions nobody can know which closures are false." in page.inner_text("#verdict")
    assert page.inner_text("#verdict .sentence").startswith("Plan inside each part only.")
    assert page.is_checked("#axes input[value=graph]") and "2 parts stand side by side" in page.inner_text("#map-words")
    choose(page, "2-d")
    page.wait_for_function("document.getElementById('map-words').textContent.includes('near here may be far')")


# ---------------------------------------------------------------------------------------------------- is the map right?


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (800, 900), (390, 844)])
def test_the_verdict_its_picture_and_what_to_do_are_seen_without_scrolling(open_page, doubtful, width, height):
    page = open_page(width, height)
    visit(page, doubtful)
    words = page.inner_text("#verdict")
    assert words.startswith("Do not plan on this map.") and "of the closures join distant places" in words
    assert "Strike false ones" in words and "local_accuracy" not in words
    page.wait_for_function("document.getElementById('verdict-image').naturalWidth > 300")
    for part in ("#verdict .sentence", "#verdict .advice", "#verdict-image"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= height, part
    assert not page.is_visible("#verdict table")
    page.click("#verdict summary")
    assert "Closures that may be false, by our own estimate." in page.inner_text("#verdict table")
    assert "30.0%" in page.inner_text("#verdict table")
    page.click("#verdict .sentence")
    page.wait_for_selector("#verdict table", state="hidden")  # as a menu closes
    page.click("#show-closures")
    page.wait_for_selector(".pair", state="visible")


def test_a_plan_shows_which_hops_were_recorded_which_are_closures_and_doubtful(page, doubtful):
    visit(page, f"{doubtful}&start=0&goal=599&method=dijkstra")
    nodes = [int(text) for text in page.locator("#strip figcaption b").all_inner_texts()]
    recorded = [abs(a - b) == 1 and a // 10 == b // 10 for a, b in pairwise(nodes)]
    uncertain = [not is_step and (a + b) % 2 == 0 for (a, b), is_step in zip(pairwise(nodes), recorded, strict=True)]
    counts = f"{len(recorded)} hops: {sum(recorded)} recorded, {recorded.count(False)} closures"
    assert sum(uncertain) > 0 and f"{counts}, {sum(uncertain)} doubtful;" in page.inner_text("#summary")
    assert page.locator("#strip .doubtful").count() == sum(uncertain)
    assert page.locator("#strip button.strike").count() == recorded.count(False)
    assert "50%" in page.inner_text("#strip .doubtful >> nth=0")
    red = """() => { const canvas = document.getElementById('map-overlay');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const isRed = (k) => data[k] > 190 && data[k + 1] < 30 && data[k + 3] > 200;
        return data.reduce((sum, _, k) => sum + (k % 4 == 0 && isRed(k)), 0); }"""
    assert page.evaluate(red) > 0 and "doubtful closure" in page.inner_text("#legend")
    believed = {"start": 0, "goal": 599, "method": "dijkstra", "nodes": nodes, "hops": ["closure"] * len(recorded)}
    page.evaluate("plan => dash_clientside.explorer.plan(plan)", believed)  # the same line without a doubtful hop
    assert page.evaluate(red) == 0


def test_a_strike_from_the_strip_changes_the_plan_at_once_and_ghosts_the_old_way(page, doubtful):
    visit(page, f"{doubtful}&start=0&goal=599&method=dijkstra")
    before = page.locator("#strip figcaption b").all_inner_texts()
    label = page.get_attribute("#strip button.strike >> nth=0", "aria-label")
    was = page.inner_text("#summary").split(": ", 1)[1].split(":")[0]
    assert page.get_attribute("#map-overlay", "data-before") == "0" and "way before" not in page.inner_text("#legend")
    page.click("#strip button.strike >> nth=0")
    page.wait_for_function(f"document.getElementById('map-overlay').dataset.before == {len(before)}")
    settle(page)
    assert f"Before: {was}." in page.inner_text("#summary") and "way before" in page.inner_text("#legend")
    after = page.locator("#strip figcaption b").all_inner_texts()
    first, second = (word for word in label.split() if word.isdigit())
    assert after != before and not {(first, second), (second, first)} & set(pairwise(after))
    page.click("#message button.undo")
    shown = "before => [...document.querySelectorAll('#strip b')].map(one => one.textContent).join() == before"
    page.wait_for_function(shown, arg=",".join(before))


def test_closures_are_lines_on_both_plots_and_the_one_under_the_pointer_is_marked_everywhere(page, doubtful):
    visit(page, f"{doubtful}&panel=closures")
    page.wait_for_selector(".pair")
    page.wait_for_function("document.getElementById('room-cursor').dataset.lines == 200")
    assert page.get_attribute("#map-cursor", "data-lines") == "200"
    confidence = [text.split("%")[0] for text in page.locator(".pair b.doubt").all_inner_texts()]
    assert confidence == ["50"] * 24 and "two sequences" in page.inner_text(".pair >> nth=0")
    chosen = page.get_attribute(".pair >> nth=2", "data-pair")
    page.hover(".pair >> nth=2")
    for name in ("map", "room"):
        page.wait_for_function(f"pair => document.getElementById('{name}-cursor').dataset.pair == pair", arg=chosen)
    longest = """() => { const plot = document.querySelector('#room .js-plotly-plot'), { x, y } = plot._fullData[0];
        const size = ([a, b]) => Math.hypot(x[a] - x[b], y[a] - y[b]);
        return plan2vec.shown.lines.slice(0, 24).reduce((best, line) => size(line) > size(best) ? line : best); }"""
    first, second, _ = page.evaluate(longest)
    ends = [page.evaluate(PLACE_OF, ["room", number]) for number in (first, second)]
    left, top = (0.9 * ends[0][k] + 0.1 * ends[1][k] for k in (0, 1))
    both = "['map', 'room'].map((name) => document.getElementById(`${name}-cursor`).dataset.pair)"
    page.mouse.move(5, 5)
    page.wait_for_function(f"{both}.join('') == ''")
    page.mouse.move(left, top)
    listed = page.wait_for_function(f"{both}[0] == {both}[1] && {both}[0]").json_value()
    if page.locator(f".pair[data-pair='{listed}']").count():
        assert page.locator(".pair.here").get_attribute("data-pair") == listed


def test_one_frame_is_highlighted_everywhere_and_arrow_keys_step_through_the_recording(page, address):
    visit(page, f"{address}&start=30&goal=400&method=dijkstra")
    page.wait_for_function("document.getElementById('timeline').dataset.curves > 0")
    frame = int(point_at(page, 105)[2])
    told = f"frame {frame}, {frame // 10}:{frame % 10}, "
    page.wait_for_function(HIGHLIGHTED, arg=frame)
    page.wait_for_selector("#tip", state="visible")
    assert page.inner_text("#tip-text").startswith(told) and page.inner_text("#now-words").startswith(told)
    assert page.inner_text("#tip-text").endswith("steps to the goal")
    assert page.get_attribute("#tip-image", "src") == f"/frame/{frame}.png"
    page.mouse.move(5, 5)
    for key, expected in (("ArrowRight", frame + 1), ("ArrowRight", frame + 2), ("ArrowLeft", frame + 1)):
        page.keyboard.press(key)
        page.wait_for_function(HIGHLIGHTED, arg=expected)
    page.hover("#strip button.frame >> nth=1")
    second = page.get_attribute("#strip button.frame >> nth=1", "value")
    page.wait_for_function("frame => document.getElementById('room-cursor').dataset.frame == frame", arg=second)
    assert "here" in page.get_attribute("#strip button.frame >> nth=1", "class")


def test_a_click_on_any_picture_sets_start_or_goal(page, address):
    visit(page, f"{address}&start=30&goal=400&method=dijkstra&panel=neighbours")
    page.wait_for_selector("#neighbours button.frame")
    chosen = page.get_attribute("#neighbours button.frame >> nth=3", "value")
    page.hover("#neighbours button.frame >> nth=3")
    page.wait_for_function(HIGHLIGHTED, arg=chosen)
    page.click("#neighbours button.frame >> nth=3")
    page.wait_for_function("frame => document.getElementById('start').value == frame", arg=chosen)
    second = page.get_attribute("#strip button.frame >> nth=1", "value")
    page.click("#strip button.frame >> nth=1")  # the next click sets the goal
    page.wait_for_function("frame => document.getElementById('goal').value == frame", arg=second)
    page.check("input[value=closures]")
    page.wait_for_selector(".pair")
    settle(page)
    chosen = page.get_attribute(".pair button.frame >> nth=2", "value")
    page.hover(".pair button.frame >> nth=2")
    page.wait_for_function(HIGHLIGHTED, arg=chosen)
    page.click(".pair button.frame >> nth=2")
    page.wait_for_function("frame => document.getElementById('start').value == frame", arg=chosen)
    page.focus("#scrubber")
    page.keyboard.press("Home")
    page.click("button.set[value=start]")
    page.wait_for_function("document.getElementById('start').value == '0'")
    page.click("#now")  # the start was set, so the large picture becomes the goal
    page.wait_for_function("document.getElementById('goal').value == '0'")


def test_the_timeline_scrubs_plays_shows_findings_and_isolates_an_episode(page, doubtful):
    visit(page, f"{doubtful}&start=258&goal=585")
    page.wait_for_function("document.getElementById('timeline').dataset.curves == 2")  # the distance to the goal
    timeline = page.locator("#timeline")
    assert timeline.get_attribute("data-tracks") == "25 58" and timeline.get_attribute("data-findings") == "1"
    box = timeline.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.42, box["y"] + 6)  # the whole recording lies in the uppermost row
    page.wait_for_function("Math.abs(document.getElementById('scrubber').value - 252) < 3")
    page.mouse.move(box["x"] + box["width"] * 253 / 600, box["y"] + 6)
    page.wait_for_function("document.getElementById('timeline').title == 'still: nothing moves'")
    page.click("#tracks button >> nth=0")
    page.wait_for_function("document.getElementById('map-cursor').dataset.isolated == 25")
    assert timeline.get_attribute("data-tracks") == "25"
    assert page.get_attribute("#tracks button", "aria-pressed") == "true" and timeline.bounding_box() == box
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] - 10)  # its first frame
    page.wait_for_function("document.getElementById('scrubber').value == 250")
    page.click("#play")
    page.wait_for_function("document.getElementById('scrubber').value == 259")  # to the end of the episode, no farther
    page.wait_for_function("document.getElementById('play').textContent == 'play'")
    page.click("#tracks button >> nth=0")
    page.wait_for_function("document.getElementById('map-cursor').dataset.isolated == ''")
    purple = """() => { const canvas = document.getElementById('map-cursor');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.reduce((sum, red, k) => sum + (k % 4 == 0 && red == 204 && data[k + 1] == 121), 0); }"""
    page.wait_for_function(HIGHLIGHTED, arg=259)
    with_trail = page.evaluate(purple)
    page.focus("#scrubber")
    page.keyboard.press("Home")
    page.wait_for_function(HIGHLIGHTED, arg=0)
    assert with_trail > page.evaluate(purple) > 0  # the first frame of an episode has no trail


def test_a_layout_by_graph_distances_stands_beside_principal_components(page, address):
    visit(page, address)
    assert "2 principal components of 32-d" in page.inner_text("#map-words")
    place = page.evaluate(PLACE_OF, ["map", 30])
    choose(page, "graph")
    page.wait_for_function("document.getElementById('map-words').textContent.includes('laid out by shortest paths')")
    page.wait_for_function("document.getElementById('map-overlay').dataset.nodes > 1")
    assert page.evaluate(PLACE_OF, ["map", 30]) != place and "axes=graph" in page.url


def test_the_plan_is_saved_as_figure_and_film(page, address, tmp_path):
    visit(page, f"{address}&start=3&goal=400&method=dijkstra")
    hops = page.locator("#strip img").count()
    for ending in ("png", "svg", "gif", "mp4"):
        page.click("#save-menu summary")
        with page.expect_download() as waiting:
            page.click(f"button.save[value={ending}]")
        assert waiting.value.suggested_filename == f"plan2vec-3-400.{ending}"
        waiting.value.save_as(tmp_path / f"plan.{ending}")
    words = re.findall(r"<text[^>]*>([^<]+)</text>", (tmp_path / "plan.svg").read_text())
    assert any("dijkstra plan from frame 3 to 400" in one for one in words)
    assert {"on the metric map", "at true positions", "S", "G", "closure", "frames touched"} <= set(words)
    with Image.open(tmp_path / "plan.png") as figure, Image.open(tmp_path / "plan.gif") as film:
        assert figure.width == 1200 and np.ptp(np.asarray(figure.convert("L"))) > 200
        assert film.n_frames == hops and film.width > film.height  # frame and map side by side
        ends = [np.asarray(film.convert("L"))[:, film.width // 2 :] for place in (0, hops - 1) if not film.seek(place)]
        assert (ends[0] != ends[1]).any()  # the dot moves on the map
    assert (tmp_path / "plan.mp4").read_bytes()[4:8] == b"ftyp"


def test_back_undoes_and_a_link_carries_panel_and_zoom(page, open_page, address):
    visit(page, f"{address}&start=3&goal=17&method=dijkstra")
    type_frame(page, "goal", "50")
    wait_for_plan(page, "dijkstra", "50")
    page.check("input[value=astar]")
    wait_for_plan(page, "astar", "50")
    page.go_back()
    wait_for_plan(page, "dijkstra", "50")
    assert page.is_checked("input[value=dijkstra]")
    page.go_back()
    wait_for_plan(page, "dijkstra", "17")
    page.check("input[value=closures]")
    page.wait_for_function("location.search.includes('panel=closures')")
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -300)
    page.wait_for_function("""() => {  // the address has the zoom that is seen
        const asked = (new URLSearchParams(location.search).get('zoom') || '').split(',').map(Number);
        const { xaxis, yaxis } = document.querySelector('#map .js-plotly-plot')._fullLayout;
        return [...xaxis.range, ...yaxis.range].every((value, k) => Number(value.toPrecision(5)) === asked[k]);
    }""")
    seen = "document.querySelector('#map .js-plotly-plot')._fullLayout.xaxis.range.map(x => x.toFixed(2)).join()"
    other = open_page()
    visit(other, f"{address}&{page.url.split('?')[1]}")
    assert other.is_checked("input[value=closures]") and other.evaluate(seen) == page.evaluate(seen)


def test_the_toolbar_is_one_row_and_the_legend_names_only_what_is_there(page, address):
    visit(page, f"{address}&start=3&goal=400&method=dijkstra")
    tops = page.eval_on_selector_all(".controls > *", "all => all.map(one => one.getBoundingClientRect())"
                                     ".map(box => Math.round((box.top + box.bottom) / 2))")
    assert len(tops) == 6 and max(tops) - min(tops) <= 8
    assert "closure" in page.inner_text("#legend") and "touched" in page.inner_text("#legend")
    assert "lookahead" not in page.inner_text("#legend") and "sequence" not in page.inner_text("#legend")
    choose(page, "touched", False)
    choose(page, "others")
    page.wait_for_function("!document.getElementById('legend').textContent.includes('touched')")
    page.wait_for_function("document.getElementById('legend').textContent.includes('lookahead')")


# ---------------------------------------------------------------------------------------------------- for everybody


def test_every_field_has_a_name_and_no_control_lies_in_another(page, address):
    visit(page, address)
    for name in ("a click sets", "method", "colour by", "layout", "show", "neighbours of"):
        assert page.get_by_role("radiogroup", name=name, exact=True, include_hidden=True).count() == 1, name
    assert page.get_by_role("group", name="draw", exact=True, include_hidden=True).count() >= 1
    choose(page, "time")
    page.wait_for_function("location.search.includes('color=time')")
    assert page.locator("[role=option] input, button button, a button, label button").count() == 0
    labels = "all => all.map(one => one.getAttribute('aria-label'))"
    assert page.locator("input[type=file]").evaluate_all(labels) == ["image of the start", "image of the goal"]


# a phone; 1280 x 800 at 200 % zoom; just below the width of two columns
@pytest.mark.parametrize(("width", "height"), [(390, 844), (640, 400), (890, 800)])
def test_a_narrow_page_is_one_column_that_scrolls_down_only(open_page, address, width, height):
    page = open_page(width, height)
    visit(page, address)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [page.locator(f"#{name} .js-plotly-plot").bounding_box() for name in ("map", "room")]
    assert all(box["width"] > 0.8 * width and box["height"] >= 250 for box in boxes)
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"] and page.locator("#side").bounding_box()["width"] < width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_system_and_axe_finds_nothing_serious(open_page, doubtful, scheme):
    page = open_page(1400, 900, color_scheme=scheme)
    visit(page, f"{doubtful}&panel=closures")
    page.wait_for_selector(".pair")
    paper, ink = (page.evaluate(BRIGHTNESS, name) for name in ("backgroundColor", "color"))
    assert (paper > 240 and ink < 40) if scheme == "light" else (paper < 40 and ink > 215)
    for panel in ("methods", "neighbours", "closures"):
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = false")  # it lay over this
        page.check(f"input[value={panel}]")
        settle(page)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert_axe_finds_nothing_serious(page)


def assert_axe_finds_nothing_serious(page: Any) -> None:
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(({ violations, passes }) => ({ violations, passes: passes.length }))")
    bad = [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found["violations"]
           if one["impact"] in ("serious", "critical")]
    assert found["passes"] > 10 and bad == []


@pytest.fixture(scope="module")
def report(doubtful_model: Model, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(doubtful_model, evaluate(doubtful_model), tmp_path_factory.mktemp("report")).as_uri()


@pytest.mark.parametrize(("scheme", "width", "height"), [("light", 1280, 800), ("dark", 390, 844)])
def test_the_report_begins_with_its_verdict_follows_the_system_and_asks_for_nothing(
    browser, report, scheme, width, height
):
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    asked, wrong = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(report)
    assert page.inner_text(".verdict .sentence").startswith("Do not plan on this map.")
    for part in (".verdict .sentence", ".verdict img"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= height and box["width"] <= width, part
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper, ink = (page.evaluate(BRIGHTNESS, name) for name in ("backgroundColor", "color"))
    assert (paper > 240 and ink < 40) if scheme == "light" else (paper < 40 and ink > 215)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert_axe_finds_nothing_serious(page)
    page.close()
    assert wrong == [] and {url for url in asked if not url.startswith("data:")} == {report}


# ---------------------------------------------------------------------------------------------------- nothing leaves


def test_no_request_leaves_this_machine_through_every_feature(open_page, doubtful, folder):
    page, asked = open_page(), list[str]()
    page.context.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    visit(page, f"{doubtful}&start=0&goal=599&method=dijkstra")
    click_on, box = point_at(page, 30), page.locator("#map").bounding_box()
    page.mouse.click(*click_on[:2])
    for choice in ("sequence", "time", "distance", "component", "position", "others", "3-d", "graph", "2-d"):
        choose(page, choice)
        settle(page)
    for panel in ("neighbours", "closures", "methods"):
        page.check(f"input[value={panel}]")
        settle(page)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -300)
    page.click("#strip button.strike >> nth=0")
    page.click("#message button.undo")
    page.set_input_files("#upload-goal input[type=file]", {
        "name": "a.png", "mimeType": "image/png", "buffer": png_of(np.load(folder / "frames.npy", mmap_mode="r")[42])})
    wait_for_message(page, "The image lies at frame", "good")
    for ending in ("png", "svg", "gif", "mp4"):
        page.click("#save-menu summary")
        with page.expect_download():
            page.click(f"button.save[value={ending}]")
    page.click("#play")
    page.keyboard.press("ArrowRight")
    page.click("#verdict summary")
    with page.expect_popup() as opened:
        page.click("#verdict a")
    opened.value.wait_for_load_state()
    with page.expect_request(lambda request: request.url.endswith("/revision")):
        page.go_back()
    settle(page)
    paths = {urlsplit(url).path for url in asked if url.startswith("http")}
    assert {urlsplit(url).hostname for url in asked if url.startswith(("http", "ws"))} == {"127.0.0.1"}
    assert {"/verdict.png", "/revision", "/_dash-update-component", *(f"/plan.{x}" for x in ("png", "mp4"))} <= paths
    assert all(any(path.startswith(kind) for path in paths) for kind in ("/frame/", "/distances/", "/assets/"))


def test_the_benchmark_of_the_page_gives_a_row_per_number(tmp_path):
    command = [sys.executable, "-m", "plan2vec", "bench", "explorer", "--smoke", "--json", "--out", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(found.stdout)["rows"]
    assert [row["metric"] for row in rows] == [*COLUMNS] and all(row["value"] > 0 for row in rows)
    address, ready, *_ = (row["value"] for row in rows)
    assert address < ready and "| frames |" in (tmp_path / "bench-explorer.md").read_text()

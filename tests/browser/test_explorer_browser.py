"""The interactive page in a real browser, driven by mouse and keyboard. Run by `make test-browser`."""

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import coo_array, csr_array, triu

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
    page.wait_for_function(PAINTED, timeout=90_000)
    page.wait_for_function("document.querySelector('#methods .bars')")  # the plan that the page opens with is there
    page.wait_for_timeout(500)


def click_frame(page: Any, number: int, plot: str = "room") -> None:
    left, top = page.evaluate(PLACE_OF, [plot, number])
    page.mouse.move(left - 3, top - 3)
    page.mouse.move(left, top)
    page.wait_for_timeout(200)
    page.mouse.click(left, top)


def type_frame(page: Any, end: str, text: str) -> None:
    page.focus(f"#{end}")
    page.keyboard.press("Control+A")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


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
        before = page.input_value(f"#{end}")
        click_frame(page, number)
        page.wait_for_function(f"document.getElementById('{end}').value != '{before}'")
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
    wait_for_message(page, f"plan2vec closures {folder} --update", "good")
    cut_off = "element => element.scrollHeight > element.clientHeight || element.scrollWidth > element.clientWidth"
    assert not page.eval_on_selector("#message", cut_off)
    following = page.get_attribute("button.strike >> nth=0", "aria-label")
    page.wait_for_function(
        "words => document.activeElement.getAttribute('aria-label') == words", arg=following
    )  # the keyboard goes on with the next pair
    type_frame(page, "start", "12")
    page.wait_for_function("!document.getElementById('message').textContent")
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


def test_the_page_of_a_run_under_way_becomes_the_map_by_itself(browser, folder, tmp_path):
    products = ("graph.npz", "embedding.safetensors", "vectors.npy", "manifest.json")
    for path in folder.iterdir():
        if path.is_file() and path.name not in products:
            shutil.copy(path, tmp_path)
    with serving(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        page.wait_for_function("document.querySelector('h1')?.textContent == 'fit is under way: graph'", timeout=60_000)
        page.wait_for_function(
            "document.images.length == 12 && [...document.images].every(image => image.naturalWidth >= 32)"
        )
        for name in products:
            shutil.copy(folder / name, tmp_path)
        page.wait_for_function(PAINTED, timeout=60_000)
        page.close()


# ---------------------------------------------------------------------------------------------------- nothing is silent


def test_the_mode_bar_has_no_button_that_sends_the_map_away(page, address):
    titles = "buttons => buttons.map(button => button.dataset.title)"
    visit(page, address)
    flat = ["Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"]
    assert page.eval_on_selector_all("#map .modebar-btn", titles) == flat
    page.wait_for_selector("#room .modebar-btn", state="attached")
    assert page.eval_on_selector_all("#room .modebar-btn", titles) == flat
    page.check("input[value='3-d']")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot')._fullLayout.scene")
    page.wait_for_function("document.querySelector('#map .modebar-btn[data-title*=otation]')")
    assert page.eval_on_selector_all("#map .modebar-btn", titles) == [
        "Zoom", "Pan", "Orbital rotation", "Turntable rotation", "Reset camera to default",
        "Reset camera to last save"
    ]


def find_tip(page: Any) -> tuple[float, float]:
    """Move over the map in 3-d until a frame lies under the pointer."""
    box = page.locator("#map").bounding_box()
    for k in range(400):
        left, top = box["x"] + box["width"] * (0.3 + k % 20 / 50), box["y"] + box["height"] * (0.3 + k // 20 / 50)
        page.mouse.move(left, top)
        page.wait_for_timeout(60)
        if page.is_visible("#tip"):
            return left, top
    raise AssertionError("no frame was found under the pointer")


def test_in_three_dimensions_frames_can_be_hovered_clicked_recoloured_and_turned(page, address):
    visit(page, f"{address}&axes=3-d&start=3&goal=17")
    camera = "name => JSON.stringify(document.querySelector('#map .js-plotly-plot')._fullLayout.scene?.camera?.[name])"
    page.wait_for_function(camera, arg="eye")
    left, top = find_tip(page)
    hovered = page.inner_text("#tip-text")
    page.mouse.click(left, top)
    page.wait_for_function("words => words == `frame ${document.getElementById('start').value}`", arg=hovered)
    page.check("input[value=time]")
    page.wait_for_function("document.querySelector('#map .js-plotly-plot').data[0].marker.showscale === true")
    eye, center = (page.evaluate(camera, name) for name in ("eye", "center"))
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + 90, top + 30, steps=8)
    page.mouse.up()
    page.wait_for_timeout(500)
    assert page.evaluate(camera, "eye") != eye and page.evaluate(camera, "center") == center


def test_in_three_dimensions_no_line_joins_ends_without_a_path(page, address):
    visit(page, f"{address}&axes=3-d&start=3&goal=400&method=dijkstra")
    drawn = "document.querySelector('#map .js-plotly-plot').data.slice(1).map(trace => trace.x.length)"
    page.wait_for_function(f"Math.max(...{drawn}.slice(1, 4)) > 1")
    page.evaluate("dash_clientside.explorer.plan({ start: 3, goal: 400, method: 'dijkstra', nodes: null })")
    page.wait_for_function(f"Math.max(...{drawn}.slice(1, 4)) == 0")
    assert page.evaluate(drawn)[-1] == 2  # start and goal are marked
    assert page.evaluate("document.querySelector('#map .js-plotly-plot').data.at(-1).text.join('')") == "SG"


def test_a_server_that_is_gone_is_said(browser, folder):
    with serving(folder) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        visit(page, address)
        assert not page.is_visible("#lost")
    type_frame(page, "start", "12")
    page.wait_for_selector("#lost", state="visible")
    assert page.inner_text("#lost") == "Lost the explorer; is it still running?"
    page.close()


def test_a_second_person_is_told_what_the_first_has_struck_and_gets_a_new_plan(page, address, browser):
    visit(page, address)
    page.check("input[value=closures]")
    page.wait_for_selector("button.strike")
    label = page.get_attribute("button.strike >> nth=0", "aria-label")
    first, second = (word for word in label.split() if word.isdigit())
    other = browser.new_page()
    visit(other, f"{address}&start={first}&goal={second}&method=dijkstra")
    assert " in 1 hop:" in other.inner_text("#summary")
    other.check("input[value=closures]")
    other.wait_for_selector("button.strike")
    page.click("button.strike >> nth=0")
    page.wait_for_selector("button.undo")
    other.eval_on_selector(f"button.strike[aria-label='{label}']", "button => button.click()")  # not yet told
    wait_for_message(other, "already struck", "wrong")
    other.wait_for_function("!document.getElementById('summary').textContent.includes(' in 1 hop:')")
    page.click("button.undo")
    page.wait_for_selector("button.undo", state="detached")
    wait_for_message(other, "Somebody else judged closures", "wrong")  # without anything being touched there
    other.wait_for_function("document.getElementById('summary').textContent.includes(' in 1 hop:')")
    other.close()


def test_a_dozen_frames_are_seen_on_the_map_and_can_be_hidden(page, address):
    visit(page, address)
    page.wait_for_function("document.getElementById('map-overlay').dataset.pictures == 12")
    page.uncheck("input[value=pictures]")
    page.wait_for_function("document.getElementById('map-overlay').dataset.pictures == 0")


def test_the_page_opens_with_a_plan_between_two_far_frames(page, address):
    visit(page, address)
    start, goal = page.input_value("#start"), page.input_value("#goal")
    wait_for_plan(page, "greedy", goal)
    assert start != goal and page.locator("#strip img").count() >= 2


def test_a_saved_picture_shows_the_plan_and_its_ends(page, address, tmp_path):
    visit(page, f"{address}&start=3&goal=400&method=dijkstra")
    left, top = page.evaluate(PLACE_OF, ["map", 400])
    box = page.locator("#map .js-plotly-plot").bounding_box()
    with page.expect_download() as waiting:
        page.click("button.save[value=map]")
    waiting.value.save_as(tmp_path / "map.png")
    pixels = np.asarray(Image.open(tmp_path / "map.png").convert("L")).astype(int)
    assert pixels.shape == (2 * round(box["height"]), 2 * round(box["width"]))
    row, column = round(2 * (top - box["y"])), round(2 * (left - box["x"]))
    disc = pixels[row - 16 : row + 16, column - 16 : column + 16]  # the goal: black, with a white letter
    assert (disc < 40).mean() > 0.4


def test_choices_that_wait_for_something_say_so(page, address, browser, folder, tmp_path):
    page.goto(f"{address}&start=5&color=distance")
    page.wait_for_function("document.getElementById('map-words')?.textContent.includes('gray until a goal is set')")
    type_frame(page, "goal", "50")
    page.wait_for_function("!document.getElementById('map-words').textContent.includes('gray until a goal is set')")
    model = load(folder, "cpu")
    model.sequences = replace(model.sequences, position=None)
    model.save(tmp_path / "blind")
    with serving(tmp_path / "blind") as blind:
        other = browser.new_page()
        visit(other, f"{blind}&color=position")
        assert other.locator("#color input").evaluate_all("all => all.map(one => one.value)") == [
            "sequence", "time", "distance", "component"
        ]
        wait_for_message(other, "unknown color", "wrong")
        other.close()


def test_a_plan_shows_which_hops_were_recorded_which_are_closures_and_doubtful(browser, folder, tmp_path):
    model = load(folder, "cpu")
    entries = coo_array(triu(model.graph, 1))
    sure = np.where((entries.row + entries.col) % 2, 0.95, 0.5).astype(np.float32)  # above 0.9 for about one in two
    confidence = csr_array((sure, (entries.row, entries.col)), shape=model.graph.shape)
    model.built = replace(model.built, confidence=confidence)
    model.save(tmp_path / "run")
    with serving(tmp_path / "run") as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        visit(page, f"{address}&start=0&goal=599&method=dijkstra")
        nodes = [int(text) for text in page.locator("#strip figcaption b").all_inner_texts()]
        recorded = [abs(a - b) == 1 and a // 10 == b // 10 for a, b in pairwise(nodes)]
        doubtful = [not is_step and (a + b) % 2 == 0 for (a, b), is_step in zip(pairwise(nodes), recorded, strict=True)]
        counts = f"{len(recorded)} hops: {sum(recorded)} recorded, {recorded.count(False)} closures"
        assert sum(doubtful) > 0 and f"{counts}, {sum(doubtful)} doubtful;" in page.inner_text("#summary")
        assert page.locator("#strip .doubtful").count() == sum(doubtful)
        assert "50%" in page.inner_text("#strip .doubtful >> nth=0")
        red = """() => { const canvas = document.getElementById('map-overlay');
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const isRed = (k) => data[k] > 190 && data[k + 1] < 30 && data[k + 3] > 200;
            return data.reduce((sum, _, k) => sum + (k % 4 == 0 && isRed(k)), 0); }"""
        assert page.evaluate(red) > 0
        believed = {"start": 0, "goal": 599, "method": "dijkstra", "nodes": nodes, "hops": ["closure"] * len(recorded)}
        page.evaluate("plan => dash_clientside.explorer.plan(plan)", believed)  # the same line without a doubtful hop
        assert page.evaluate(red) == 0
        page.close()


# ---------------------------------------------------------------------------------------------------- for everybody


def test_every_field_has_a_name_and_no_control_lies_in_another(page, address):
    visit(page, address)
    for name in ("a click sets", "method", "colour by", "axes", "show", "neighbours of"):
        assert page.get_by_role("radiogroup", name=name, exact=True, include_hidden=True).count() == 1, name
    assert page.get_by_role("group", name="draw", exact=True).count() >= 1
    page.check("input[value=time]")
    page.wait_for_function("location.search.includes('color=time')")
    assert page.locator("[role=option] input, button button, a button, label button").count() == 0
    labels = "all => all.map(one => one.getAttribute('aria-label'))"
    assert page.locator("input[type=file]").evaluate_all(labels) == ["image of the start", "image of the goal"]


@pytest.mark.parametrize(("width", "height"), [(390, 844), (640, 400)])  # a phone; 1280 x 800 at 200 % zoom
def test_a_narrow_page_is_one_column_that_scrolls_down_only(browser, address, width, height):
    page = browser.new_page(viewport={"width": width, "height": height})
    visit(page, address)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [page.locator(f"#{name} .js-plotly-plot").bounding_box() for name in ("map", "room")]
    assert all(box["width"] > 0.8 * width and box["height"] >= 250 for box in boxes)
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"] and page.locator("#side").bounding_box()["width"] < width
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_system_to_light_and_dark(browser, address, scheme):
    page = browser.new_page(color_scheme=scheme)
    visit(page, address)
    light = "color => getComputedStyle(document.body)[color].match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 3"
    paper, ink = page.evaluate(light, "backgroundColor"), page.evaluate(light, "color")
    assert (paper > 240 and ink < 40) if scheme == "light" else (paper < 40 and ink > 215)
    page.close()

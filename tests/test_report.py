"""Pictures and report: complete, self-contained, and right for every kind of recording."""

import json
import re
from copy import copy
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox
from PIL import Image
from scipy.sparse import csr_array

from plan2vec.domains import maze
from plan2vec.evaluation import evaluate
from plan2vec.graph.build import BuiltGraph, edge_rows
from plan2vec.local_metric import TrainedMetric
from plan2vec.model import Learned, Model
from plan2vec.pictures import figures, frame_grids, report
from plan2vec.pictures.palette import PALETTE, RED
from plan2vec.pictures.report import page, write_report
from plan2vec.planner import Plan
from plan2vec.search.shortest_paths import connected_parts
from plan2vec.verdict import LINES


@pytest.fixture(scope="module")
def room_report(room: Model) -> tuple[dict, Path]:
    card = evaluate(room)
    return card, write_report(room, card, room.folder)


@pytest.fixture(scope="module")
def islands_report(islands: Model, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    card = evaluate(islands)
    return card, write_report(islands, card, tmp_path_factory.mktemp("islands"))


def all_figures(model: Model) -> dict[str, Figure]:
    return {name: figure for name, _, _, figure in report._drawings(model)}


def leaves(card: dict) -> list[tuple[str, object]]:
    return [
        leaf for key, value in card.items() for leaf in (leaves(value) if isinstance(value, dict) else [(key, value)])
    ]


# ---------------------------------------------------------------------------------------------------- the page


def test_the_report_needs_no_network_and_no_script(room_report):
    text = room_report[1].read_text(encoding="utf-8")
    sources = re.findall(r'\b(?:src|href)="([^"]{0,30})', text)
    assert len(sources) == 10 and all(source.startswith("data:image/png;base64,") for source in sources)
    assert (
        "://" not in text and "<script" not in text and "<link" not in text and "url(" not in text
        and "@import" not in text
    )
    assert "default-src 'none'" in text  # and the browser is told so


@pytest.mark.parametrize("report", ["room_report", "islands_report"])
def test_the_report_holds_every_number_of_the_scorecard(report, request):
    card, path = request.getfixturevalue(report)
    text = unescape(path.read_text(encoding="utf-8"))
    numbers = [(name, value) for name, value in leaves(card) if isinstance(value, int | float)]
    assert len(numbers) >= 18
    assert [name for name, value in numbers if json.dumps(value) not in text] == []
    named = set(card) - {"seconds", "holdout"}
    assert [name for name in named if f'<td class="name">{name}' not in text] == []


@pytest.mark.parametrize("report", ["room_report", "islands_report"])
def test_every_number_of_the_scorecard_is_explained(report, request):
    card, _ = request.getfixturevalue(report)
    assert set(card) - set(LINES) == {"seconds"}


def test_a_hostile_source_name_stays_text(islands):
    hostile = "<script>alert('x')</script>\"><img src=x onerror=y>&"
    graph = BuiltGraph(islands.graph, islands.radius, islands.closure_report)
    learned = Learned(TrainedMetric(islands.local_metric), graph, islands.embedding, islands.vectors)
    named = Model(replace(islands.sequences, source=hostile), islands.config, learned)
    text = page(named, {hostile: hostile}, [])
    assert "<script" not in text and text.count("<img") == 1 and "<img src=x" not in text  # the verdict's own
    assert text.count(escape(hostile)) >= 4  # title, heading, source, scorecard


def test_the_verdict_stands_first_with_its_picture_and_the_numbers_are_folded_below_in_words(islands):
    text = page(islands, {"embedding_error": 0.3, "loop_closures": 5}, [])
    body = text[text.index("<body>") :]
    verdict, folded = body.index('<section class="verdict look">'), body.index("<summary>The numbers, in words")
    assert 0 < verdict < body.index("<img alt=\"the reason") < folded < body.index("Source")
    assert "<b>Plan with astar, not greedy.</b> The map does not follow its own graph" in body
    assert "Without true positions nobody can know which closures are false." in body[:folded]
    assert '<th scope="row">Mean error of the learned distance' in body[folded:]
    assert "color-scheme:light dark" in text and "#fff,#161616" in text  # follows the system


def test_a_bad_number_is_named_with_its_remedy_and_a_good_one_is_not(islands):
    text = page(islands, {"embedding_error": 0.3, "path_ratio": 1.1}, [])
    assert text.count("look at this") == 1 and "its distances are wrong by 30%" in text
    assert "<code>--embedding.num-updates</code>" in text and "where length matters" not in text


def test_greedy_walks_that_arrive_are_never_painted_green(islands):
    assert '<span class="good">' not in page(islands, {"success_graph": 1.0}, [])
    assert '<span class="good">' in page(islands, {"path_ratio": 1.0}, [])
    assert "Greedy walks get lost: 50% arrive." in page(islands, {"success_graph": 0.5}, [])


def test_a_number_that_could_not_be_measured_gets_no_verdict(islands):
    assert "could not be measured" in page(islands, {"embedding_error": None}, [])


def test_held_out_frames_have_a_scorecard_of_their_own(islands):
    text = page(islands, {"success_graph": 0.5, "holdout": {"success_graph": 0.25}}, [])
    assert "0.5 (50.0%)" in text and "0.25 (25.0%)" in text and "never trained on" in text
    assert "never trained on" not in page(islands, {"holdout": None}, [])  # no step was held out


def test_settings_that_differ_from_the_default_are_marked(islands):
    assert "0.1 (default: None)" in page(islands, {}, [])


def test_islands_have_several_parts_and_their_report_says_so(islands, islands_report):
    num_parts, _ = connected_parts(islands.graph)
    text = islands_report[1].read_text(encoding="utf-8")
    assert num_parts > 1 and islands.sequences.position is None
    assert f"The graph has {num_parts} parts" in text and "vectors of 2, in 8 sequences" in text


# ---------------------------------------------------------------------------------------------------- the pictures


def test_a_run_of_images_gets_all_pictures_and_vectors_those_without_frames(room_report, islands_report):
    named = [
        {path.stem for path in (report[1].parent / "figures").iterdir()} for report in (room_report, islands_report)
    ]
    assert named[0] == {"frames", "map", "graph", "value", "path", "strip", "distances", "closures", "training"}
    assert named[1] == {"map", "graph", "value", "path", "distances"}  # without a folder there is no log either


def test_every_picture_is_1200_pixels_wide_and_not_blank(room_report):
    for path in (room_report[1].parent / "figures").iterdir():
        with Image.open(path) as image:
            assert image.width == 1200 and np.ptp(np.asarray(image.convert("L"))) > 100, path.name


@pytest.mark.parametrize("name", ["room", "islands"])
def test_every_axis_is_labelled(name, request):
    drawn = all_figures(request.getfixturevalue(name))
    axes = {key: figure.axes[0] for key, figure in drawn.items() if key not in ("frames", "strip", "closures")}
    assert len(axes) >= 5
    assert [key for key, ax in axes.items() if not (ax.get_xlabel() and ax.get_ylabel())] == []
    assert all(ax.axison is False for key in ("frames", "strip", "closures") if key in drawn for ax in drawn[key].axes)


def test_the_same_model_gives_the_same_pixels(islands, tmp_path):
    for name in ("a.png", "b.png"):
        figures.save_figure(figures.graph_figure(islands), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_principal_components_carry_their_share_and_two_dimensions_are_drawn_as_they_are():
    vectors = np.array([[0, 0, 0], [3, 0, 0], [0, 1, 0], [3, 1, 0.0]])
    scene = figures.map_scene(vectors)
    assert "90% of variance" in scene.labels[0] and "10% of variance" in scene.labels[1]
    assert np.linalg.norm(scene.points[0] - scene.points[3]) == pytest.approx(np.sqrt(10))
    assert np.array_equal(figures.map_scene(vectors[:, :2]).points, vectors[:, :2])


def test_a_map_without_positions_is_coloured_by_sequence_and_shows_a_dozen_frames(room, islands):
    hidden = copy(room)
    hidden.sequences = room.sequences.without_truth()
    for model, num_thumbnails in ((hidden, 12), (islands, 0)):
        ax = figures.map_figure(model).axes[0]
        num_sequences = len(np.unique(model.sequences.sequence))
        colors = np.unique(ax.collections[0].get_facecolors(), axis=0)
        assert "by sequence" in ax.get_title() and len(colors) == min(num_sequences, len(PALETTE))
        assert sum(isinstance(artist, AnnotationBbox) for artist in ax.artists) == num_thumbnails


def test_a_place_can_be_told_from_its_colour():
    place = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 6)), axis=-1).reshape(-1, 2)
    colors = figures.place_colors(place)
    apart = np.linalg.norm(colors[:, None] - colors[None], axis=-1) + np.eye(len(colors))
    assert colors.min() >= 0 and colors.max() <= 1 and apart.min() > 0.05


def test_walls_are_drawn_where_the_domain_knows_them(room):
    scene = figures.room_scene(room.sequences)
    assert scene is not None and scene.walls == maze.ROOMS["table"].walls and scene.labels == ("x (m)", "y (m)")
    unknown = figures.room_scene(replace(room.sequences, domain=None))
    assert unknown is not None and unknown.walls == ()
    assert figures.room_scene(room.sequences.without_truth()) is None


def test_the_task_of_the_pictures_lies_inside_the_largest_part(islands):
    start, goal = figures.far_task(islands)
    _, part = connected_parts(islands.graph)
    assert part[start] == part[goal] == 0 and start != goal


# ---------------------------------------------------------------------------------------------------- film strips


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for ax in figure.axes for text in ax.texts if text.get_text()]


def test_a_short_plan_shows_every_frame_and_the_steps_of_every_hop(room):
    strip = frame_grids.film_strip(room, Plan(0, 2, "greedy", [0, 1, 2], 2.0, 2, 3))
    hops = [f"{room.graph[0, 1]:.2f} \u2192", f"{room.graph[1, 2]:.2f} \u2192"]
    assert texts(strip)[:6] == ["0:0", hops[0], "0:1", hops[1], "0:2", "goal"]
    assert len(strip.axes[0].images) == 3


def test_a_long_plan_is_thinned_with_a_note_and_keeps_its_ends(room):
    to_and_fro = [*range(10), *range(8, -1, -1), *range(1, 10), *range(8, -1, -1), 1, 2, 3]
    strip = frame_grids.film_strip(room, Plan(0, 3, "dijkstra", to_and_fro, 39.0, 40, 10))
    assert len(strip.axes[0].images) == frame_grids.MAX_STRIP
    words = texts(strip)
    assert words[0] == "0:0" and words[-3] == "0:3" and "14 of 40 frames shown" in words[-1]


def test_a_plan_that_failed_shows_its_ends_and_why(room):
    strip = frame_grids.film_strip(room, Plan(-1, 5, "greedy", None, None, 0, 0, "the start image is not on the map"))
    assert texts(strip) == [
        "not on the map", "start", "0:5", "goal", "greedy: no path (the start image is not on the map)"
    ]


def test_the_strip_of_vectors_is_their_path(islands):
    strip = frame_grids.film_strip(islands, Plan(0, 2, "greedy", [0, 1, 2], 2.0, 2, 3))
    line = strip.axes[0].lines[0]
    assert np.array_equal(np.stack(line.get_data(), axis=1), figures.scene_of(islands).points[[0, 1, 2]])
    assert line.get_label() == "greedy: 2.0 steps, 2 hops: 2 recorded, 0 closures"


def test_color_frames_are_shown_in_color_and_others_by_their_first_channel():
    frame = np.arange(2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 3)
    assert figures.displayable(frame).shape == (2, 2, 3)
    assert np.array_equal(figures.displayable(frame[..., :2]), frame[..., 0])


def test_a_resumed_training_counts_the_last_value_of_an_update():
    records = [
        {"stage": "embedding", "update": u, "loss": loss} for u, loss in ((0, 3.0), (1, 2.0), (1, 1.0), (2, 0.5))
    ]
    (ax,) = figures.training_figure([*records, {"stage": "graph", "finished": True, "seconds": 1.0}]).axes
    assert ax.lines[0].get_ydata().tolist() == [3.0, 1.0, 0.5] and ax.get_yscale() == "log"


def test_a_plan_shows_its_closures_in_the_strip_and_doubtful_ones_red_in_the_picture(room):
    row, column = edge_rows(room.graph), room.graph.indices
    first, second = next((int(a), int(b)) for a, b in zip(row, column, strict=True) if abs(a - b) > 20)
    sure = csr_array(([0.4], ([min(first, second)], [max(first, second)])), shape=room.graph.shape)
    doubted = copy(room)
    doubted.built = replace(room.built, confidence=sure)
    plan = Plan(first, second, "greedy", [first, second], 1.0, 1, 2)
    length = f"{room.graph[first, second]:.2f}"
    assert f"{length} \u21e2" in texts(frame_grids.film_strip(room, plan))
    assert f"{length} \u21e2 40%" in texts(frame_grids.film_strip(doubted, plan))
    red = [sum(line.get_color() == RED for line in figures.path_figure(model, [plan]).axes[0].lines)
           for model in (room, doubted)]
    assert red == [0, 1]
    assert figures.plan_words(doubted, plan) == "greedy: 1.0 steps, 1 hop: 0 recorded, 1 closure, 1 doubtful"

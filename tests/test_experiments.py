"""The experiments at smoke size, and what turns their rows into tables, figures and docs/results.md."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from plan2vec.commands.main import main
from plan2vec.experiments import planning_cost, reproduce, sample_complexity, table1
from plan2vec.experiments.maze_scene import DOMAINS, MazeScene
from plan2vec.experiments.reproduce import DOCS, EXPERIMENTS, choose_experiments, results_page
from plan2vec.graph.build import edge_rows
from plan2vec.results.comparisons import by_domain, by_method, compare
from plan2vec.results.experiment import SMOKE, Settings, has_work, progress
from plan2vec.results.pages import PICTURES, by_number, gaps, tables_page, total_seconds
from plan2vec.results.requests import ReproduceRequest
from plan2vec.results.rows import (
    FIELDS,
    Case,
    Stamp,
    append_rows,
    cell,
    interval,
    make_rows,
    read_rows,
    select,
    values,
    write_rows,
)

STAMP = Stamp("abc", "cpu")


def some_rows(value=0.5, seed=0, method="plan2vec", metric="success", **setting):
    return make_rows(Case("table1", "open", setting, method, seed), {metric: value}, 1.5, STAMP)


# ---------------------------------------------------------------------------------------------------- rows


def test_a_row_of_a_rerun_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "table1.jsonl"
    append_rows(path, some_rows(0.1, block="fitted") + some_rows(0.2, block="large"))
    append_rows(path, some_rows(0.9, block="fitted"))
    assert sorted(row["value"] for row in read_rows(path)) == [0.2, 0.9]
    write_rows(path, read_rows(path))
    assert len(path.read_text().splitlines()) == 2


def test_rows_that_a_kill_cut_off_are_left_out(tmp_path):
    path = tmp_path / "table1.jsonl"
    append_rows(path, some_rows(0.1))
    path.write_text(path.read_text() + '{"experiment": "tab')
    assert [row["value"] for row in read_rows(path)] == [0.1]


def test_rows_have_the_settled_fields_and_no_number_that_json_lacks():
    (row,) = some_rows(float("nan"))
    assert tuple(row) == FIELDS and row["value"] is None and row["seconds"] == 1.5


def test_rows_are_selected_by_field_and_by_setting():
    rows = some_rows(0.1, block="fitted") + some_rows(0.2, block="large") + some_rows(0.3, seed=1, block="large")
    assert values(rows, block="large").tolist() == [0.2, 0.3]
    assert [row["value"] for row in select(rows, block="large", seed=1)] == [0.3]


def test_the_interval_is_students_over_seeds():
    mean, half = interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert mean == 3 and half == pytest.approx(2.776445 * np.sqrt(2.5) / np.sqrt(5), rel=1e-6)


def test_a_cell_without_seeds_to_compare_shows_no_interval():
    assert cell(np.array([0.5]), 100) == "50.0" and cell(np.array([])) == "-"
    assert cell(np.array([0.5, 0.5]), 100) == "50.0 ± 0.0"


def test_a_comparison_has_a_line_per_method_and_the_papers_numbers_beside_ours():
    rows = some_rows(0.5) + some_rows(0.7, seed=1) + some_rows(0.25, method="SPTM")
    columns = by_domain(rows, {"open": "Open"}, [("success", "success %", 100, 1)], {"SPTM": (39.7,)})
    assert compare(rows, "method", by_method(rows, ("SPTM", "plan2vec")), columns) == [
        "| method | Open, success % | paper |", "| --- | --- | --- |", "| SPTM | 25.0 | 39.7 |",
        "| plan2vec | 60.0 ± 127.1 |  |", ""
    ]
    two_cells = compare(rows, "graph | room", {"large | Open": {"method": "SPTM"}}, columns[:1])
    assert two_cells[1:3] == ["| --- | --- | --- |", "| large | Open | 25.0 |"]


def test_rows_of_one_group_count_their_time_once():
    rows = make_rows(Case("table1", "open", {}, "plan2vec", 0), {"success": 1, "spearman_true": 1}, 2.0, STAMP)
    assert total_seconds(rows) == 2


# ---------------------------------------------------------------------------------------------------- every experiment,
# tiny


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Runs an experiment at smoke size, once for all tests that ask."""
    done: dict[str, tuple[Path, list[dict]]] = {}

    def run(name: str) -> tuple[Path, list[dict]]:
        if name not in done:
            out = tmp_path_factory.mktemp(name)
            reproduce.reproduce(ReproduceRequest(name, smoke=True, out=out, device="cpu", commit="abc"))
            done[name] = out, read_rows(out / f"{name}.jsonl")
        return done[name]

    return run


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_gives_rows_a_table_and_figures(name, smoke):
    if name == "ogbench":
        pytest.importorskip("ogbench")
    if name == "doom":
        pytest.skip("needs the mazes' data; see test_doom.py")
    out, rows = smoke(name)
    experiment = EXPERIMENTS[name]
    assert rows and all(tuple(row) == FIELDS for row in rows)
    assert {row["experiment"] for row in rows} == {name} and {row["commit"] for row in rows} == {"abc"}
    assert {row["domain"] for row in rows} <= set(experiment.domains)
    assert {row["method"] for row in rows} - {"graph"} == set(experiment.methods)
    shares = values(rows, metric="success")
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (out / f"{name}.md").read_text().startswith("*Smoke run")
    pictures = sorted(out.glob("*.png"))
    assert bool(pictures) == (experiment.draw is not None)


def test_no_judge_walks_better_than_exact_distance(smoke):
    rows = select(smoke("table1")[1], metric="success")
    for block in ("fitted", "unseen", "large", "oracle"):
        exact = values(rows, block=block, method="exact graph distance")
        assert len(exact) == 1 and exact[0] >= values(rows, block=block).max() - 0.05  # a random hop may help


def test_true_distance_agrees_with_itself_best(smoke):
    rows = select(smoke("table1")[1], metric="spearman_true", block="fitted")
    geodesic, euclidean = (values(rows, method=method)[0] for method in ("true geodesic", "true Euclidean"))
    assert geodesic == pytest.approx(1) and euclidean < 0.95 < geodesic == values(rows).max()  # the C has a wall


def test_pictures_are_in_the_order_of_the_paper():
    names = ["figures-10bc-x", "figures-10a", "figures-3", "figures-4", "table", "table-2", "table-12"]
    assert sorted(names, key=by_number) == [
        "figures-3", "figures-4", "figures-10a", "figures-10bc-x", "table", "table-2", "table-12"
    ]


def test_a_line_of_progress_tells_places_apart():
    rows = some_rows(0.5, rollouts=10, planned_on="recorded") + some_rows(0.75, rollouts=10, planned_on="room")
    assert "plan2vec: recorded success 0.5, room success 0.75 (1.5 s)" in progress(rows, 3.0)


def test_random_scores_are_always_of_the_same_opinion():
    site = MazeScene("open", 0, Settings(size=SMOKE)).oracle
    distance, goals = site.random_distance(), site.tasks[1]
    nodes = np.arange(len(goals)) % len(site.frames)
    assert np.array_equal(
        distance(nodes, goals), distance(nodes, goals)
    ) and len(np.unique(distance(nodes, goals))) > len(goals) // 2
    assert np.array_equal(distance(nodes, goals), site.random_distance()(nodes, goals))


def test_the_oracle_joins_recorded_steps_and_truly_near_places_alone():
    site = MazeScene("c-maze", 0, Settings(size=SMOKE)).oracle
    row, column = edge_rows(site.graph), site.graph.indices
    recorded = (site.sequences.sequence[row] == site.sequences.sequence[column]) & (np.abs(row - column) == 1)
    near = np.linalg.norm(site.truth.position[:, None] - site.truth.position, axis=2) < 0.03
    assert near[row, column][~recorded].all() and recorded.sum() == 2 * 8 * 9
    assert (~recorded).sum() == np.triu(near, 1).sum() * 2 - near[row, column][recorded].sum()


def test_growth_exponents_are_finite(smoke):
    rows = smoke("planning-cost")[1]
    for method in planning_cost.METHODS:
        assert np.isfinite(values(rows, method=method, metric="exponent_expanded")).all()
        assert len(values(rows, method=method, metric="exponent_expanded")) == 1


def test_deeper_lookahead_reaches_more(smoke):
    rows = smoke("lookahead")[1]
    assert values(rows, lookahead=7).mean() >= values(rows, lookahead=1).mean()


def test_the_accuracy_without_truly_near_pairs_is_no_lower(smoke):
    rows = smoke("local-metric")[1]
    for method in ("siamese hinge", "stacked regression"):
        plain, cleaned = (
            values(rows, method=method, metric=metric)[0] for metric in ("test_accuracy", "test_accuracy_cleaned")
        )
        assert cleaned >= plain - 0.02


def test_a_growth_of_squares_has_exponent_two():
    lengths = np.repeat([2, 3, 5, 9], 4)
    assert planning_cost.growth(lengths, 7 * lengths**2) == pytest.approx(2)
    assert planning_cost.growth(lengths[:4], lengths[:4]) is None


def test_the_fewest_rollouts_that_suffice_are_found():
    rows = [row for num, success in ((10, 0.2), (50, 0.96), (100, 0.99)) for row in some_rows(success, rollouts=num)]
    assert sample_complexity.enough_at(rows, method="plan2vec") == 50
    # it was luck, then
    assert sample_complexity.enough_at(rows + some_rows(0.94, rollouts=200), method="plan2vec") is None
    assert sample_complexity.enough_at(rows, method="DQN") is None


# ---------------------------------------------------------------------------------------------------- the command


def test_partial_runs_join_and_the_time_limit_stops_between_two_groups(tmp_path, capsys):
    parts = (("--methods", "true Euclidean", "--time-limit", "0", "--rows-only"), ("--methods", "random scores"))
    for part in parts:
        assert main(
            ["reproduce", "table1", "--smoke", "--blocks", "fitted", "--out", str(tmp_path), "--device", "cpu", *part]
        ) == 0
    rows = read_rows(tmp_path / "table1.jsonl")
    assert {row["method"] for row in rows} == {"graph", "random scores"}  # the limit came before the Euclidean row
    said = capsys.readouterr()
    # the first part drew nothing
    assert "time limit of 0 s reached in table1" in said.err and said.out.count("## table1") == 1


def test_what_the_folder_has_is_not_run_again(tmp_path, capsys):
    command = [
        "reproduce", "table1", "--smoke", "--blocks", "fitted", "--out", str(tmp_path), "--device", "cpu", "--rows-only"
    ]
    assert main([*command, "--methods", "random scores"]) == 0
    capsys.readouterr()
    assert main([*command, "--methods", "random scores", "true Euclidean", "--missing-only"]) == 0
    ran = [line for line in capsys.readouterr().err.splitlines() if "seed 0" in line]
    assert len(ran) == 2 and "graph" in ran[0] and "true Euclidean" in ran[1]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_finished_experiment_has_nothing_left_to_run(name, smoke):
    settings = Settings(size=SMOKE, finished=tuple(smoke(name)[1]))
    assert list(EXPERIMENTS[name].run(settings)) == []


def test_figures_are_drawn_from_rows_alone(tmp_path, capsys):
    append_rows(
        tmp_path / "lookahead.jsonl",
        [
            row for k in range(1, 8) for seed in (0, 1)
            for row in make_rows(
                Case("lookahead", "open", {"lookahead": k}, "plan2vec", seed), {"success": 0.9}, 1.0, STAMP
            )
        ]
    )
    assert main(["reproduce", "lookahead", "--draw-only", "--out", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["num_rows"] == {"lookahead": 14} and "90.0 ± 0.0" in answer["tables"]["lookahead"][2]
    assert (tmp_path / "lookahead.png").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (["nothing"], "no experiment is called 'nothing'; choose all or one of table1"),
    (["table1", "--domains", "attic"], "--domains knows c-maze, open, table, but got attic"),
    (["lookahead", "--methods", "magic"], "but got magic"),
    (["table1", "--seeds", "0"], "--seeds must be at least 1"),
    (["table1", "--smoke", "--write-docs"], "--smoke results are no results"),
])
def test_what_cannot_be_run_is_refused_in_one_line(arguments, words, capsys):
    assert main(["reproduce", *arguments]) == 2
    errors = capsys.readouterr().err
    assert words in errors and errors.count("\n") == 1


def test_a_method_is_known_if_any_chosen_experiment_has_it():
    assert choose_experiments(ReproduceRequest("all", methods=("DQN", "SPTM"))) == list(EXPERIMENTS)


def test_an_experiment_of_which_nothing_was_selected_is_left_out():
    dqn, c_maze, fitted = (Settings(asked=ReproduceRequest("all", **{kind: (name,)})) for kind, name in (
        ("methods", "DQN"), ("domains", "c-maze"), ("blocks", "fitted")))
    assert not has_work(planning_cost.EXPERIMENT, dqn) and has_work(sample_complexity.EXPERIMENT, dqn)
    assert not has_work(planning_cost.EXPERIMENT, c_maze)
    assert has_work(planning_cost.EXPERIMENT, fitted)  # it knows no blocks


def test_a_scene_trains_nothing_twice():
    settings = Settings(seeds=(3,), asked=ReproduceRequest("all", domains=("open",)), size=SMOKE)
    (one,), (same,) = (MazeScene.chosen(settings, DOMAINS) for _ in range(2))
    assert one is same
    assert one.metric is one.metric and one.small is one.small


def test_no_two_sets_of_recordings_are_the_same():
    one = MazeScene("open", 3, Settings(size=SMOKE))
    assert not (one.recordings.frames[:10] == one.small.frames[:10]).all()
    assert one.small.sequences.num_frames == 10 * SMOKE.graph_rollouts


def test_selections_keep_the_experiments_order():
    settings = Settings(asked=ReproduceRequest("all", domains=("c-maze", "open"), methods=("SPTM", "plan2vec")))
    assert settings.chosen("domains", table1.DOMAINS) == ("open", "c-maze")
    assert settings.chosen("methods", ("plan2vec", "SPTM", "pixels")) == ("plan2vec", "SPTM")


# ---------------------------------------------------------------------------------------------------- the page


def test_domains_blocks_and_methods_without_rows_are_listed(tmp_path):
    (tmp_path / "results").mkdir()
    (row,) = make_rows(
        Case("table1", "open", {"block": "fitted"}, "plan2vec", 0), {"success": 1.0}, 1.0, Stamp("abc", "cpu")
    )
    (tmp_path / "results" / "table1.jsonl").write_text(json.dumps(row) + "\n")
    lines = gaps(tmp_path, EXPERIMENTS)
    assert lines[0].startswith(
        "- `plan2vec reproduce table1`: `table`, `c-maze`, `unseen`, `large`, `paper`, `oracle`, `plan2vec 2-d`, "
        "`plan2vec FVI`, "
    )
    assert "- `plan2vec reproduce rope-table`: nothing yet" in lines and len(lines) == len(EXPERIMENTS)


def test_the_results_page_and_its_tables_are_what_the_committed_rows_give():
    assert (DOCS / "results.md").read_text(encoding="utf-8") == results_page(DOCS, EXPERIMENTS)
    assert (DOCS / "results" / "tables.md").read_text(encoding="utf-8") == tables_page(DOCS, EXPERIMENTS)


def test_the_results_page_has_at_most_8000_bytes_and_per_domain_one_figure_and_one_small_table():
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 8000 and re.search(r"\bcommit\b|\b[0-9a-f]{7}\b", text) is None
    parts = [part for part in text.split("\n## ")[1:] if not part.startswith("More")]
    assert len(parts) == 6
    for part in parts:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        assert part.count("![") == 1 and 3 <= len(lines) - 2 <= 5 and lines[1].startswith("| --- |")


def test_every_committed_figure_is_linked_and_every_link_of_the_pages_of_results_leads_somewhere():
    pages = [DOCS / "results.md", DOCS / "performance.md", *(DOCS / "results").glob("*.md")]
    links = {(page.parent / link.partition("#")[0]).resolve() for page in pages
             for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))}
    assert [link for link in links if not link.exists()] == []
    assert set((DOCS / PICTURES).resolve().glob("*.png")) <= links


def test_committed_figures_are_small():
    assert [path.name for path in (DOCS / PICTURES).glob("*.png") if path.stat().st_size > 300_000] == []


def test_a_run_reaches_the_pages_with_its_command_machine_time_and_seeds_and_their_heads_stay(tmp_path):
    out, docs = tmp_path / "out", tmp_path / "docs"
    (docs / "results").mkdir(parents=True)
    for name in ("results.md", "results/tables.md"):
        (docs / name).write_text("# Title\n\nBy hand.\n\n## A section that no row makes\n", encoding="utf-8")
    rows = [row for seed in (0, 1) for row in some_rows(0.9 + 0.02 * seed, seed, block="fitted")]
    append_rows(out / "table1.jsonl", rows)
    reproduce.write_docs(out, docs, ["table1"])
    page, tables = ((docs / name).read_text(encoding="utf-8") for name in ("results.md", "results/tables.md"))
    for text in (page, tables):
        assert text.startswith("# Title\n\nBy hand.\n\n## Table 1") and "no row makes" not in text
    for words in ("reproduce table1 --seeds 2", "seeds: 0, 1", "machine: cpu; 3 s of machine time", "commit: abc"):
        assert words in tables and words not in page
    assert "91.0 ± 12.7" in page and "91.0 ± 12.7" in tables
    assert "](images/results/table1-fitted.png)" in page and "](../images/results/table1-fitted.png)" in tables
    assert (docs / PICTURES / "table1-fitted.png").exists()
    assert read_rows(docs / "results" / "table1.jsonl") == rows

"""`plan2vec reproduce`: run experiments, keep their rows, draw them, and write docs/results.md and its tables from the
rows that are committed. Per domain, docs/results.md has a claim, a figure and a small table."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any

from plan2vec.domains.ogbench import find_recipe
from plan2vec.experiments import reward_learning, rope_table, table1, table2
from plan2vec.experiments.maze_scene import ROOM_TITLES
from plan2vec.experiments.ogbench_mazes import MAZES, PUBLISHED, domain_of
from plan2vec.experiments.street_scene import TITLES
from plan2vec.files import write_text
from plan2vec.results.comparisons import Column, Wanted, by_domain, by_metric, compare
from plan2vec.results.experiment import DOCS, Experiment, choose_folder, run_all
from plan2vec.results.pages import PICTURES, RESULTS, TABLES, anchor, claim_of, head_of, keep_rows, tables_page
from plan2vec.results.requests import ReproduceRequest
from plan2vec.results.rows import Row, cell, markdown, read_rows, select, values

FILES = ("table1", "sample_complexity", "lookahead", "contenders", "planning_cost", "maze_figures",
         "local_metric_accuracy", "value_iteration_table", "rope_table", "rope_figures", "episode_progress",
         "audit_planted", "table2", "street_maps", "street_cost", "street_generalization", "reward_learning",
         "ogbench_mazes", "doom_driving")
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in (
    import_module(f"{__package__}.{file}").EXPERIMENT for file in FILES)}
SUCCESS, EXACT = (("success", "success %", 100.0, 1),), "exact graph distance"
WORDS = {"isomap": "Isomap on our graph", "Dijkstra": EXACT, "graph search": EXACT,
         "unseen": "plan2vec on an unseen pass, no two views alike"}  # for names of methods


def reproduce(request: ReproduceRequest) -> dict[str, Any]:
    """Run (or only draw) the named experiments; gives the folder, the numbers of rows and the tables."""
    if request.env is not None:
        request = replace(request, domains=(*request.domains, f"ogbench/{find_recipe(request.env).name}"))
    if request.smoke:
        request = replace(request, seeds=1)
    chosen, out = choose_experiments(request), choose_folder(request, "reproduce")
    if not request.draw_only:
        run_all([EXPERIMENTS[name] for name in chosen], request, out)
    tables = {} if request.rows_only else {name: EXPERIMENTS[name].publish(out, request.smoke) for name in chosen}
    if request.write_docs:
        write_docs(out, DOCS, chosen)
    num_rows = {name: len(read_rows(out / f"{name}.jsonl")) for name in chosen}
    return {"out": str(out), "smoke": request.smoke, "num_rows": num_rows, "tables": tables}


def choose_experiments(request: ReproduceRequest) -> list[str]:
    """Names to run; a selection that no chosen experiment knows is refused."""
    if request.name != "all" and request.name not in EXPERIMENTS:
        raise ValueError(f"no experiment is called {request.name!r}; choose all or one of {', '.join(EXPERIMENTS)}")
    chosen = list(EXPERIMENTS) if request.name == "all" else [request.name]
    for kind in ("domains", "methods", "blocks"):
        known = {str(name) for experiment in chosen for name in getattr(EXPERIMENTS[experiment], kind)}
        if unknown := set(getattr(request, kind)) - known:
            names = ", ".join(sorted(known)) or "nothing here"
            raise ValueError(f"--{kind} knows {names}, but got {', '.join(sorted(unknown))}")
    return chosen


def write_docs(out: Path, docs: Path, chosen: list[str]) -> None:
    for name in chosen:
        keep_rows(docs, out, EXPERIMENTS[name])
    write_text(docs / "results.md", results_page(docs, EXPERIMENTS))
    write_text(docs / TABLES, tables_page(docs, EXPERIMENTS))


def results_page(docs: Path, experiments: dict[str, Experiment]) -> str:
    sections = [head_of(docs / "results.md")]
    for name, (picture, table, note) in PARTS.items():
        title = experiments[name].title
        if rows := read_rows(docs / RESULTS / f"{name}.jsonl"):
            text = f"{claim_of(experiments[name].text)} {note} [All methods](results/tables.md#{anchor(title)})."
            sections += section(title, text, picture, table(rows))
    titles = "; ".join(one.title for name, one in experiments.items() if name not in PARTS)
    more = in_lines(f"[All tables](results/tables.md) also has: {titles}.")
    return "\n".join([*sections, *speed(docs), "## More", "", more, ""])


def section(title: str, text: str, picture: str, table: list[str]) -> list[str]:
    return [f"## {title}", "", in_lines(text), "", f"![{title}]({PICTURES.as_posix()}/{picture}.png)", "", *table]


def in_lines(text: str) -> str:
    return fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def best(rows: list[Row], methods: Iterable[str], metric: str = "success") -> str:
    """The method of the highest mean over domains and seeds."""
    known = [method for method in methods if len(values(rows, method=method, metric=metric))]
    return max(known, key=lambda method: values(rows, method=method, metric=metric).mean(), default="-")


def lines_of(*methods: str, **wanted: str) -> dict[str, Wanted]:
    return {WORDS.get(method, method): {"method": method, **wanted} for method in methods}


def rooms(rows: list[Row]) -> list[str]:
    lines = lines_of("plan2vec", best(select(rows, block="fitted"), table1.BASELINES), "isomap", EXACT, block="fitted")
    lines["plan2vec on unseen frames"] = {"method": "plan2vec", "block": "unseen"}
    return compare(rows, "method", lines, by_domain(
        rows, ROOM_TITLES, SUCCESS, table1.PAPER | {"plan2vec": table1.PAPER["plan2vec 2-d"]}))


def rope(rows: list[Row]) -> list[str]:
    plans = select(rows, block="plans")
    lines = lines_of(rope_table.OURS, best(plans, rope_table.BASELINES, "valid_plans"), "Dijkstra")
    shown = [(metric, words, factor, 1) for metric, words, factor, _ in rope_table.SHOWN[:3]]
    return compare(plans, "method", lines, by_metric(shown))


def streets(rows: list[Row]) -> list[str]:
    rows = select(rows, network="manhattan")
    learned = best(select(rows, block="views"), table2.BASELINES)
    lines = lines_of("plan2vec", learned, "isomap", EXACT, block="views") | lines_of("unseen", block="unseen")
    return compare(rows, "method", lines, by_domain(rows, TITLES, SUCCESS, table2.PAPER))


def mazes(rows: list[Row]) -> list[str]:
    kinds, part = [*((maze, "stitch") for maze in MAZES), ("giant", "navigate")], select(rows, block="act")
    columns = [Column(", ".join(kind), {"domain": domain_of(*kind), "metric": "success"}) for kind in kinds]
    methods = lines_of("plan2vec, A*", "plan2vec", "controller", "graph search")
    lines = compare(part, "method, success %", methods, columns)
    name, shares = max(PUBLISHED.items(), key=lambda one: sum(one[1].values()))
    return [*lines[:-1], *markdown([f"{name}, published", *(str(shares.get(kind, "")) for kind in kinds)], [])[::2]]


def speed(docs: Path) -> list[str]:
    cases = (("plan2vec", "fit", {"domain": "c-maze"}), ("16 rooms, early version", "scale", {"frames": 1_000_000}),
             ("Isomap, after our local metric", "peers", {"method": "Isomap"}))
    body = [[words, row["device"], f"{row['setting']['frames']:,}", f"{row['seconds']:.0f}", cell(values([row]), 100)]
            for words, file, wanted in cases
            for row in select(read_rows(docs / RESULTS / f"bench-{file}.jsonl"), metric="success", **wanted)]
    text = """A fit takes about a minute on two CPU cores and seconds on a GPU; its time grows more slowly than its
    frames. [Speed and scale](performance.md) has the rest."""
    table = markdown(["fit", "machine", "frames", "seconds", "success %"], body)
    return section("Speed", text, "bench-scale", table) if body else []


PARTS: dict[str, tuple[str, Callable[[list[Row]], list[str]], str]] = {  # figure, table, a word of caution
    "table1": ("table1-fitted", rooms, "The paper's map is 2-d."),
    "rope-table": ("rope-table", rope, """A step is *local* where a hand could make it; a plan is *valid* where it
                   reaches its goal by local steps alone. The paper has no such numbers."""),
    "table2": ("table2-manhattan-views", streets, """The streets are Manhattan's, the views are rendered (the paper's
               are photographs). In all but the last line every visit shows the same view, so the graph is the street
               network itself."""),
    "ogbench": ("ogbench", mazes, """These act by a policy alone; our agent keeps recorded places and plans on them, and
                the graph alone suffices. Where a teleport leads is chance: plans go round it."""),
    "reward": ("reward", reward_learning.table, "*Shaped*: with the potential. The map's recordings are not counted.")
}

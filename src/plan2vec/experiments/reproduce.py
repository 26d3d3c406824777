"""`plan2vec reproduce`: run experiments, keep their rows, draw them, and write docs/results.md and its tables from the
rows that are committed.
"""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from plan2vec.domains.ogbench import find_recipe
from plan2vec.experiments.results_page import results_page
from plan2vec.files import write_text
from plan2vec.results.experiment import Experiment
from plan2vec.results.pages import RESULTS, keep_rows, tables_page
from plan2vec.results.requests import ReproduceRequest
from plan2vec.results.rows import read_rows
from plan2vec.results.running import DOCS, choose_folder, run_all

FILES = ("table1", "sample_complexity", "lookahead", "contenders", "planning_cost", "maze_figures",
         "local_metric_accuracy", "value_iteration_table", "rope_table", "rope_figures", "episode_progress",
         "audit_planted", "table2", "street_maps", "street_cost", "street_generalization", "reward_learning",
         "ogbench_mazes", "doom_driving")
LISTED: list[Experiment] = [import_module(f"{__package__}.{file}").EXPERIMENT for file in FILES]
EXPERIMENTS = {experiment.name: experiment for experiment in LISTED}


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
        unknown = set(getattr(request, kind)) - known
        if unknown:
            names = ", ".join(sorted(known)) or "nothing here"
            raise ValueError(f"--{kind} knows {names}, but got {', '.join(sorted(unknown))}")
    return chosen


def write_docs(out: Path, docs: Path, chosen: list[str]) -> None:
    """Rows of the run join the committed ones; the figures and pages are made from all of them."""
    for name in chosen:
        keep_rows(docs, out, EXPERIMENTS[name])
    write_text(docs / "results.md", results_page(docs, EXPERIMENTS))
    write_text(docs / RESULTS / "tables.md", tables_page(docs, EXPERIMENTS))

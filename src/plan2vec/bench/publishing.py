"""`plan2vec bench NAME`: runs a benchmark of speed, keeps its rows, draws them, writes the page on speed."""

from pathlib import Path
from typing import Any

from plan2vec.bench.measuring import PREFIX
from plan2vec.files import write_text
from plan2vec.results.experiment import Experiment
from plan2vec.results.pages import RESULTS, keep_rows, section
from plan2vec.results.requests import BenchRequest, ReproduceRequest
from plan2vec.results.rows import read_rows
from plan2vec.results.running import DOCS, choose_folder, run_all

HEAD = """# Speed and scale

What a fit and a plan cost. `plan2vec bench all --draw-only --write-docs` makes this page from the rows in
[results/](results). Rows of several machines stand side by side. `plan2vec bench fit` measures your machine; let it do
nothing else meanwhile. [Several processes and machines](#several-processes-and-machines) are described below.
"""
PAGE = "performance.md"
BY_HAND = "## Several processes and machines\n"  # from here on the page is written by hand, and stays


def run_speed(request: BenchRequest, known: dict[str, Experiment]) -> dict[str, Any]:
    """Run (or only draw) a benchmark, or all; gives the folder, the tables and the rows."""
    if request.sizes and request.name == "all":
        raise ValueError("--sizes are for one benchmark, but came with `bench all`; name it")
    chosen = dict(known) if request.name == "all" else {request.name: known[request.name]}
    out = choose_folder(request, "bench")
    asked = ReproduceRequest(request.name, request.smoke, commit=request.commit, device=request.device,
                             seeds=request.seeds or 1, seed_start=request.seed)
    made = [] if request.draw_only else run_all(list(chosen.values()), asked, out, request.sizes)
    tables = {name: one.publish(out) for name, one in chosen.items()}
    if request.write_docs:
        for one in chosen.values():
            keep_rows(DOCS, out, one)
        write_text(DOCS / PAGE, speed_page(DOCS, known))
    return {"out": str(out), "tables": tables, "rows": made}


def speed_page(docs: Path, known: dict[str, Experiment]) -> str:
    """docs/performance.md: what was measured, then what is written by hand."""
    rows = {name: read_rows(docs / RESULTS / f"{PREFIX}{name}.jsonl") for name in known}
    made = [section(docs, one, f"plan2vec bench {name}", rows[name], docs) for name, one in known.items() if rows[name]]
    by_hand = "".join((docs / PAGE).read_text().partition(BY_HAND)[1:])
    return "\n".join([HEAD, *made, by_hand]).rstrip("\n") + "\n"

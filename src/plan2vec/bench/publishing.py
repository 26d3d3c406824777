"""`plan2vec bench NAME`: runs a benchmark of speed, keeps its rows, draws them, writes the two pages on speed."""

import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from plan2vec.bench.measuring import Benchmark, Options, number_table
from plan2vec.files import write_text
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.results.comparisons import Figures, save_both
from plan2vec.results.pages import PICTURES, RESULTS, anchor, claim_of, keep_rows, section
from plan2vec.results.rows import Row, append_rows, read_rows

DOCS = Path(__file__).parents[3] / "docs"
PREFIX = "bench-"  # of files of rows and pictures
SHORT = {  # columns of the short page, of the benchmarks that it has tables of
    "fit": ("total", "memory_gb", "success"), "scale": ("total", "memory_gb", "success", "spearman_true"),
    "peers": ("fit_seconds", "times_ours", "new_frames_ms", "success"), "plan": ("ms_per_hop", "hops_per_second"),
    "neighbors": ("search_seconds", "memory_gb")
}
HEAD = """# Speed and scale

What a fit and a plan cost. `plan2vec bench all --draw-only --write-docs` makes this page and [all
tables](results/speed.md) from the rows in [results/](results). `plan2vec bench fit` measures your machine; let it do
nothing else meanwhile. Several processes and machines: [scaling](scaling.md).
"""
FULL_HEAD = """# All tables of speed

Made from the rows beside this page. The short page is [performance](../performance.md). Rows of several machines stand
side by side. `--device cpu` measures the CPU of a machine with a GPU.
"""


@dataclass(frozen=True)
class Request:
    name: str
    seed: int = 0
    seeds: int | None = None  # how many, from `seed` on; None: the benchmark's own number
    paths: tuple[Path, ...] = ()  # of recordings
    doom_data: Path | None = None  # folder of SPTM's mazes
    mazes: tuple[str, ...] = ()
    joined: bool = False
    baselines: bool = False
    dynamics: tuple[str, ...] = ()
    device: str = "auto"
    smoke: bool = False
    sizes: tuple[int, ...] = ()
    out: Path | None = None  # folder of rows and figures; None: runs/bench, a temporary one of a smoke run
    draw_only: bool = False
    write_docs: bool = False
    commit: str | None = None


def run_speed(request: Request, known: dict[str, Benchmark]) -> dict[str, Any]:
    """Run (or only draw) a benchmark, or all; gives the folder, the tables and the rows."""
    if request.smoke and request.write_docs:
        raise ValueError("--smoke results are no results and cannot go into the documentation; leave out --write-docs")
    if request.sizes and request.name == "all":
        raise ValueError("--sizes are for one benchmark, but came with `bench all`; name it")
    chosen = [known[name] for name in (known if request.name == "all" else [request.name])]
    out = request.out or (Path(tempfile.mkdtemp(prefix="plan2vec-smoke-")) if request.smoke else Path("runs") / "bench")
    made = [row for one in chosen if not request.draw_only for row in run_one(one, request, out)]
    tables = {one.name: publish(one, out) for one in chosen}
    if request.write_docs:
        for one in chosen:
            keep_rows(DOCS, out, f"{PREFIX}{one.name}", partial(figures, one))
        for name, page in speed_pages(DOCS, known).items():
            write_text(DOCS / name, page)
    return {"out": str(out), "tables": tables, "rows": made}


def run_one(benchmark: Benchmark, request: Request, out: Path) -> list[Row]:
    """The rows of all seeds, appended to the folder's file as they come."""
    made, device = list[Row](), choose_device(request.device)
    for seed in range(request.seed, request.seed + (request.seeds or 1)):
        for rows in benchmark.run(Options(benchmark.name, seed, device, request.smoke, request.sizes, request.commit)):
            append_rows(out / f"{PREFIX}{benchmark.name}.jsonl", rows)
            made += rows
            words = ", ".join(f"{row['metric']} {row['value']}" for row in rows)
            print(f"{benchmark.name} {rows[0]['method']} {rows[0]['setting']}: {words}", file=sys.stderr, flush=True)
    return made


def publish(benchmark: Benchmark, out: Path) -> list[str]:
    rows = read_rows(out / f"{PREFIX}{benchmark.name}.jsonl")
    for name, figure in figures(benchmark, rows).items():
        save_both(figure, out, name)
    return benchmark.table(rows) if rows else []


def figures(benchmark: Benchmark, rows: list[Row]) -> Figures:
    return {f"{PREFIX}{benchmark.name}": benchmark.draw(rows)} if rows and benchmark.draw else {}


def speed_pages(docs: Path, known: dict[str, Benchmark]) -> dict[str, str]:
    """The short page and the full one, by file below docs/."""
    rows = {name: read_rows(docs / RESULTS / f"{PREFIX}{name}.jsonl") for name in known}
    rest = [benchmark for name, benchmark in known.items() if name not in SHORT]
    more = [f"- [{one.title}](results/speed.md#{anchor(one.title)}): {claim_of(one.text)}" for one in rest]
    short = [HEAD, *(short_section(known[name], rows[name]) for name in SHORT), "## Single stages", "", *more, ""]
    full = [FULL_HEAD, *(section(docs, f"{PREFIX}{name}", one.title, one.text, f"plan2vec bench {name}", rows[name],
                                 one.table(rows[name])) for name, one in known.items())]
    return {"performance.md": "\n".join(short), "results/speed.md": "\n".join(full)}


def short_section(benchmark: Benchmark, rows: list[Row]) -> str:
    shown = [row for row in rows if row["metric"] in SHORT[benchmark.name] and row["value"] is not None]
    shown.sort(key=lambda row: row["setting"]["frames"])
    path = f"{PICTURES.as_posix()}/{PREFIX}{benchmark.name}.png"
    picture = [f"![{benchmark.title}]({path})", ""] if benchmark.draw else []
    table = number_table(shown, SHORT[benchmark.name], ("frames",))
    return "\n".join([f"## {benchmark.title}", "", claim_of(benchmark.text), "", *picture, *table])

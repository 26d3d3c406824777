"""`plan2vec bench NAME`: run a benchmark of speed, keep its rows, draw them, and write docs/performance.md from the
committed rows.
"""

import inspect
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from plan2vec.bench import embedding, encode, fit, local_metric, neighbors, peers, plan, scale, shortest_distances
from plan2vec.bench.measuring import Options
from plan2vec.files import write_text
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.results.drawing import save_both, save_small
from plan2vec.results.pages import PICTURES, RESULTS, as_text, total_seconds
from plan2vec.results.rows import Row, append_rows, in_order, read_rows, write_rows

SPEED: dict[str, ModuleType] = {
    module.NAME: module
    for module in (encode, local_metric, neighbors, shortest_distances, embedding, plan, fit, scale, peers)
}
DOCS = Path(__file__).parents[2] / "docs"
PREFIX = "bench-"  # of files of rows and pictures
HEAD = """# Speed and scale

Every number and figure below is made from the rows in [results/](results) by `plan2vec bench all --draw-only --write-docs`; nothing is
typed. A benchmark is run by its command, on a machine that does nothing else; `--write-docs` joins its rows to the committed ones, where
rows of several machines stand side by side. `--device cpu` measures the CPU of a machine with a GPU.
"""


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    name: str
    seed: int = 0
    device: str = "auto"
    smoke: bool = False
    sizes: tuple[int, ...] = ()
    out: Path | None = None  # folder of rows and figures; None: runs/bench, a temporary one of a smoke run
    draw_only: bool = False
    write_docs: bool = False
    commit: str | None = None


def run_speed(request: Request) -> dict[str, Any]:
    """Run (or only draw) a benchmark, or all; gives the folder, the tables and the rows."""
    if request.smoke and request.write_docs:
        raise ValueError(
            "--smoke results are no results: they cannot go into the documentation; leave out --write-docs"
        )
    chosen = list(SPEED) if request.name == "all" else [request.name]
    if request.sizes and len(chosen) > 1:
        raise ValueError("--sizes are for one benchmark, but came with `bench all`; name it")
    out = request.out or (Path(tempfile.mkdtemp(prefix="plan2vec-smoke-")) if request.smoke else Path("runs") / "bench")
    options = Options(request.seed, choose_device(request.device), request.smoke, request.sizes, request.commit)
    made = {name: [] if request.draw_only else run_one(SPEED[name], options, out) for name in chosen}
    tables = {name: publish(SPEED[name], out) for name in chosen}
    if request.write_docs:
        write_docs(chosen, out, DOCS)
    return {"out": str(out), "tables": tables, "rows": [row for rows in made.values() for row in rows]}


def run_one(module: ModuleType, options: Options, out: Path) -> list[Row]:
    """The rows, appended to the folder's file as they come."""
    made: list[Row] = []
    for rows in module.run(options):
        append_rows(file_of(out, module), rows)
        made += rows
        words = ", ".join(f"{row['metric']} {row['value']}" for row in rows)
        print(f"{module.NAME} {rows[0]['method']} {rows[0]['setting']}: {words}", file=sys.stderr, flush=True)
    return made


def file_of(folder: Path, module: ModuleType) -> Path:
    return folder / f"{PREFIX}{module.NAME}.jsonl"


def publish(module: ModuleType, out: Path) -> list[str]:
    """Table and figure of the folder's rows."""
    rows = read_rows(file_of(out, module))
    if not rows:
        return []
    save_both(module.draw(rows), out, f"{PREFIX}{module.NAME}")
    return module.table(rows)


def write_docs(chosen: list[str], out: Path, docs: Path) -> None:
    """Rows of the folder join the committed ones; figures and docs/performance.md are made from all of them."""
    for name in chosen:
        path = file_of(docs / RESULTS, SPEED[name])
        rows = read_rows(path) + read_rows(file_of(out, SPEED[name]))
        if rows:
            write_rows(path, rows)
            save_small(SPEED[name].draw(read_rows(path)), docs / PICTURES / f"{PREFIX}{name}.png")
    write_text(docs / "performance.md", performance_page(docs))


def performance_page(docs: Path) -> str:
    return "\n".join([HEAD, *(section(docs, module) for module in SPEED.values())])


def section(docs: Path, module: ModuleType) -> str:
    """One benchmark: claim, command, what is expected, what came out where; or that it was not run yet."""
    claim, _, rest = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    needed, _, details = rest.partition("\n\n")
    rows = read_rows(file_of(docs / RESULTS, module))
    text = [f"## {module.TITLE}", "", as_text(claim), "", f"- command: `plan2vec bench {module.NAME}`"]
    text += [f"- expected{needed.partition('Expected')[2]}".replace("\n", " ")]
    if rows:
        text += [
            f"- machines: {', '.join(in_order(rows, 'machine'))}; {total_seconds(rows):,.0f} s of machine time",
            f"- commit: {', '.join(in_order(rows, 'commit'))}",
            f"- rows: [results/{PREFIX}{module.NAME}.jsonl](results/{PREFIX}{module.NAME}.jsonl)",
        ]
    text += ["", as_text(details), ""]
    if not rows:
        return "\n".join([*text, "*No rows yet.*", ""])
    picture = PICTURES / f"{PREFIX}{module.NAME}.png"
    return "\n".join([*text, *module.table(rows), f"![{module.NAME}]({picture.as_posix()})", ""])

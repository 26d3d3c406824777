"""Pages of docs/ that are made from the committed rows: no number in them is typed. Tests compare pages and rows.

What stands before the first section of a page is written by hand, and stays."""

import inspect
import re
from os.path import relpath
from pathlib import Path

from plan2vec.results.comparisons import save_small
from plan2vec.results.experiment import Experiment
from plan2vec.results.rows import Row, in_order, read_rows, select, write_rows

RESULTS, PICTURES = Path("results"), Path("images") / "results"  # below docs/
TABLES = RESULTS / "tables.md"


def tables_page(docs: Path, experiments: dict[str, Experiment]) -> str:
    """docs/results/tables.md: every experiment in full."""
    sections = [section(docs, one, command(name, rows), rows, docs / RESULTS) for name, one in experiments.items()
                if (rows := read_rows(docs / RESULTS / f"{name}.jsonl"))]
    missing = ["## Not run at full size yet", "", "Domains, blocks and methods without rows:", ""]
    return "\n".join([head_of(docs / TABLES), *sections, *missing, *gaps(docs, experiments), ""])


def head_of(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n## ")[0]


def keep_rows(docs: Path, out: Path, experiment: Experiment) -> None:
    """Rows of a run join the committed ones; the figures are made from all of them."""
    path = docs / RESULTS / f"{experiment.name}.jsonl"
    if rows := read_rows(path) + read_rows(out / path.name):
        write_rows(path, rows)
        for picture, figure in experiment.figures(read_rows(path), out):
            save_small(figure, docs / PICTURES / f"{picture}.png")


def claim_of(words: str | None) -> str:
    """The first paragraph of an experiment's or benchmark's docstring as a sentence."""
    claim = " ".join(inspect.cleandoc(words or "").partition("\n\n")[0].split()).removeprefix("Claim: ")
    return claim[:1].upper() + claim[1:]


def anchor(title: str) -> str:
    """Of a heading, as Markdown's table of contents makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def gaps(docs: Path, experiments: dict[str, Experiment]) -> list[str]:
    """A line per experiment that lacks rows of some of its domains, blocks or methods, or all."""
    lines = []
    for name, experiment in experiments.items():
        rows = read_rows(docs / RESULTS / f"{name}.jsonl")
        named = {str(value) for row in rows for value in (row["domain"], row["method"], *row["setting"].values())}
        named.add("made-up")  # a stand-in, which has no full size
        known = (*experiment.domains, *experiment.blocks, *experiment.methods)
        if lacking := [f"`{part}`" for part in known if part not in named]:
            lines.append(f"- `plan2vec reproduce {name}`: {', '.join(lacking) if rows else 'nothing yet'}")
    return lines


def section(docs: Path, experiment: Experiment, command: str, rows: list[Row], page: Path) -> str:
    """An experiment or a benchmark on a page in the folder `page`."""
    name, title = experiment.name, experiment.title
    _, needed, details = inspect.cleandoc(experiment.text or "").split("\n\n", 2)
    facts = [f"- command: `{command}`", f"- seeds: {', '.join(str(seed) for seed in in_order(rows, 'seed'))}",
             f"- machine: {', '.join(in_order(rows, 'device'))}; {total_seconds(rows):,.0f} s of machine time",
             f"- commit: {', '.join(in_order(rows, 'commit'))}",
             f"- expected{needed.partition('Expected')[2]}".replace("\n", " "),
             f"- rows: [{name}.jsonl]({relpath(docs / RESULTS / name, page)}.jsonl)"]
    pictures = []
    for path in sorted((docs / PICTURES).glob(f"{name}*.png"), key=lambda path: by_number(path.stem)):
        part = path.stem.removeprefix(name).strip("-").replace("-", " ")
        pictures += [f"![{title}{part and ': '}{part}]({relpath(path, page)})", ""]
    explained = [f"- {line}" if line.startswith("`") else line for line in details.splitlines()]  # definitions: a list
    return "\n".join([f"## {title}", "", claim_of(experiment.text), "", *facts, "", *explained, "",
                      *experiment.table(rows), *pictures])


def by_number(name: str) -> list[tuple[int, str]]:
    """A key that sorts 3 before 10a."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", name)]


def command(name: str, rows: list[Row]) -> str:
    seeds = in_order(rows, "seed")
    words = f"plan2vec reproduce {name} --seeds {len(seeds)}" + (f" --seed-start {seeds[0]}" if seeds[0] else "")
    words += " --street-graph touchdown_graph.npz" if select(rows, network="manhattan") else ""
    return words + (" --recordings g1_bottle.npz" if name == "progress" else "")


def total_seconds(rows: list[Row]) -> float:
    """Rows of one group carry the same time, so it counts once."""
    groups = {(row["domain"], str(row["setting"]), row["method"], row["seed"]): row["seconds"] for row in rows}
    return float(sum(groups.values()))

"""docs/results.md from the committed rows: every number in it is computed, none is typed. A test compares the two."""

import inspect
import re
from pathlib import Path
from types import ModuleType

from plan2vec.results.rows import Row, in_order, read_rows

RESULTS, PICTURES = Path("results"), Path("images") / "results"  # below docs/
HEAD = """# Results

Every table and curve below is made from the rows in [results/](results) by `plan2vec reproduce all --draw-only
--write-docs`; none is typed. Pictures of what was learned (Figures 3, 5, 10, the rope's, the streets') need arrays too,
which the command that made the rows leaves beside them; without these a picture stays as it is. Numbers are means over
seeds ± the half-width of the 95 % confidence interval (Student's t); a number without ± has one seed. Bars and bands in
figures are these intervals, diamonds the paper's numbers. Claims and what is expected are prose, written before or
after the runs. Where the same quantity stands in two tables with two values, the rows are of two commits or machines,
whose graphs differ by some edges; where a graph has a hole, all walks of a seed may hang on one of them. The intervals
say how much that matters; rows of one commit are to be compared. The command that made the rows stands with each
experiment; it can be split by `--domains`, `--methods`, `--blocks` and `--seed-start`, for rows join by what they are
about. Machine time is the sum over all domains, seeds and methods; what several of them share counts once, with the
first, or not at all where seconds are said to be of a method alone. Positions choose tasks, score and colour pictures,
and make the rows that are named true and the block named oracle, whose graph is of true neighbours; they are the
observation in the state space of Figure 6a. Nothing else that is trained depends on them.
"""


def results_page(docs: Path, experiments: dict[str, ModuleType]) -> str:
    """The whole page."""
    sections = [HEAD]
    for name, experiment in experiments.items():
        rows = read_rows(docs / RESULTS / f"{name}.jsonl")
        if rows:
            sections.append(section(docs, experiment, rows))
    missing = ["## Not run at full size yet", "", "Domains, blocks and methods without rows:", ""]
    return "\n".join([*sections, *missing, *gaps(docs, experiments), ""])


def gaps(docs: Path, experiments: dict[str, ModuleType]) -> list[str]:
    """A line per experiment that lacks rows of some of its domains, blocks or methods, or all."""
    lines = []
    for name, experiment in experiments.items():
        rows = read_rows(docs / RESULTS / f"{name}.jsonl")
        named = {str(value) for row in rows for value in (row["domain"], row["method"], *row["setting"].values())}
        named.add(getattr(experiment, "STAND_IN", ""))  # which has no full size
        parts = (*experiment.DOMAINS, *experiment.BLOCKS, *experiment.METHODS)
        lacking = [f"`{part}`" for part in parts if part not in named]
        if lacking:
            lines.append(f"- `plan2vec reproduce {name}`: {', '.join(lacking) if rows else 'nothing yet'}")
    return lines


def section(docs: Path, experiment: ModuleType, rows: list[Row]) -> str:
    """One experiment: its claim, command, machine, time and seeds, tables and figures."""
    claim, _, rest = inspect.cleandoc(experiment.__doc__ or "").partition("\n\n")
    needed, _, details = rest.partition("\n\n")
    facts = [
        f"- command: `{command(experiment, rows)}`",
        f"- seeds: {', '.join(str(seed) for seed in in_order(rows, 'seed'))}",
        f"- machine: {', '.join(in_order(rows, 'device'))}; {total_seconds(rows):,.0f} s of machine time",
        f"- commit: {', '.join(in_order(rows, 'commit'))}",
        f"- expected{needed.partition('Expected')[2]}".replace("\n", " "),
        f"- rows: [results/{experiment.NAME}.jsonl](results/{experiment.NAME}.jsonl)",
    ]
    pictures = [
        f"![{caption(experiment, path)}]({PICTURES.as_posix()}/{path.name})\n"
        for path in sorted((docs / PICTURES).glob(f"{experiment.NAME}*.png"), key=lambda path: by_number(path.stem))
    ]
    text = [f"## {experiment.TITLE}", "", as_text(claim), "", *facts, "", as_text(details), ""]
    return "\n".join([*text, *experiment.table(rows), *pictures])


def caption(experiment: ModuleType, path: Path) -> str:
    """What a picture is, for those who cannot see it."""
    rest = path.stem.removeprefix(experiment.NAME).strip("-").replace("-", " ")
    return f"{experiment.TITLE}: {rest}" if rest else experiment.TITLE


def by_number(name: str) -> list[tuple[int, str]]:
    """A key that sorts 3 before 10a."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", name)]


def as_text(words: str) -> str:
    """A docstring's paragraph as markdown: its lines of definitions become a list."""
    return "\n".join(f"- {line}" if line.startswith("`") else line for line in words.splitlines())


def command(experiment: ModuleType, rows: list[Row]) -> str:
    seeds = in_order(rows, "seed")
    words = [f"plan2vec reproduce {experiment.NAME} --seeds {len(seeds)}"]
    if seeds[0]:
        words.append(f"--seed-start {seeds[0]}")
    if any(row["setting"].get("network") == "manhattan" for row in rows):
        words.append("--street-graph touchdown_graph.npz")
    if experiment.NAME == "g1-bottle":
        words.append("--recordings g1_bottle.npz")
    return " ".join(words)


def total_seconds(rows: list[Row]) -> float:
    """Rows of one group carry the same time, so it counts once."""
    groups = {(row["domain"], str(row["setting"]), row["method"], row["seed"]): row["seconds"] for row in rows}
    return float(sum(groups.values()))

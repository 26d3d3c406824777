"""Pages of docs/ that are made from the committed rows: no number in them is typed. Tests compare pages and rows."""

import inspect
import re
from pathlib import Path
from types import ModuleType

from plan2vec.results.rows import Row, in_order, read_rows

RESULTS, PICTURES = Path("results"), Path("images") / "results"  # below docs/
HEAD = """# All tables

Made from the rows beside this page by `plan2vec reproduce all --draw-only --write-docs`. The short page is
[results](../results.md).

Numbers are means over seeds ± half of the 95 % confidence interval (Student's t). A number without ± has one seed. Bars
and bands show these intervals, diamonds the paper's numbers. Each experiment names its command. `--domains`,
`--methods`, `--blocks` and `--seed-start` split a run; its rows join the others. Pictures of what was learned need the
arrays of a run; without them a picture stays as it is. Two tables may differ in the same quantity: their rows come from
two commits or machines. Compare rows of one commit. Machine time is the sum over domains, seeds and methods.

Positions choose tasks, score and colour pictures. They make the rows named true and the block named oracle, and they
are the observation in the state space of Figure 6a. Nothing else that is trained depends on them.
"""


def tables_page(docs: Path, experiments: dict[str, ModuleType]) -> str:
    """docs/results/tables.md: every experiment in full."""
    sections = [HEAD]
    for name, experiment in experiments.items():
        rows = read_rows(docs / RESULTS / f"{name}.jsonl")
        if rows:
            sections.append(section(docs, experiment, rows))
    missing = ["## Not run at full size yet", "", "Domains, blocks and methods without rows:", ""]
    return "\n".join([*sections, *missing, *gaps(docs, experiments), ""])


def claim_of(words: str | None) -> str:
    """The first paragraph of an experiment's or benchmark's docstring as a sentence."""
    claim = " ".join(inspect.cleandoc(words or "").partition("\n\n")[0].split()).removeprefix("Claim: ")
    return claim[:1].upper() + claim[1:]


def anchor(title: str) -> str:
    """Of a heading, as Markdown's table of contents makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


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
    _, needed, details = inspect.cleandoc(experiment.__doc__ or "").split("\n\n", 2)
    facts = [
        f"- command: `{command(experiment, rows)}`",
        f"- seeds: {', '.join(str(seed) for seed in in_order(rows, 'seed'))}",
        f"- machine: {', '.join(in_order(rows, 'device'))}; {total_seconds(rows):,.0f} s of machine time",
        f"- commit: {', '.join(in_order(rows, 'commit'))}",
        f"- expected{needed.partition('Expected')[2]}".replace("\n", " "),
        f"- rows: [{experiment.NAME}.jsonl]({experiment.NAME}.jsonl)",
    ]
    pictures = [
        f"![{caption(experiment, path)}](../{PICTURES.as_posix()}/{path.name})\n"
        for path in sorted((docs / PICTURES).glob(f"{experiment.NAME}*.png"), key=lambda path: by_number(path.stem))
    ]
    text = [f"## {experiment.TITLE}", "", claim_of(experiment.__doc__), "", *facts, "", as_text(details), ""]
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

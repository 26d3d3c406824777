"""README and docs: budgets hold, links lead somewhere, code runs, commands parse, the notebook follows the tutorial."""

import json
import os
import re
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from plan2vec.commands.arguments import COMMANDS, asked_help, parse
from plan2vec.verdict import LINES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
NAMES = [page.name for page in PAGES]
HOME = re.compile(r"https://(?:raw\.githubusercontent\.com/plan2vec/plan2vec/main"
                  r"|github\.com/plan2vec/plan2vec/(?:blob|tree)/main)/")
SMALL = (  # what makes the notebook quick: each of these must occur in it
    ("plan2vec demo", "plan2vec demo --out runs/demo-c-maze --num-rollouts 40 FEW"), ("--goal 9000", "--goal 390"),
    ("range(6000)", "range(300)"), ("--out runs/ball", "--out runs/ball FEW"), ("--goal 900", "--goal 290"),
    ("[[900]]", "[[290]]"), ("(30, 900)", "(30, 290)"), ("frames[900]", "frames[290]"),
    ("FEW", "--local-metric.num-updates 10 --embedding.num-updates 10"),
)


# ---------------------------------------------------------------------------------------------------- README


def readers_text(page: Path) -> str:
    """What a reader sees: without comments."""
    return re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.S)


MAZES = ("branching", "deepmind_large", "open_space_two", "office1", "deepmind_small")


def test_the_readme_keeps_its_budget():
    text = readers_text(ROOT / "README.md")
    assert len((ROOT / "README.md").read_bytes()) <= 7000
    assert len(re.findall(r"\d+", re.sub("plan2vec", "", text, flags=re.I))) <= 60
    assert len(re.findall(r"^\|[-|: ]+\|$", text, flags=re.M)) <= 2
    prose = re.sub(r"http\S+|```.*?```", "", text, flags=re.S)
    assert re.search(r"\bcommits?\b|\bseeds?\b|\bH200\b|\b[0-9a-f]{7,40}\b", prose) is None
    assert (DOCS / "images" / "plan2vec.gif").stat().st_size < 2_000_000


def percent(experiment: str, domain: str, method: str, metric: str = "success", **setting: str) -> int:
    """The mean over the seeds of a committed result, rounded down."""
    rows = [json.loads(line) for line in (DOCS / "results" / f"{experiment}.jsonl").read_text().splitlines()]
    values = [row["value"] for row in rows if (row["domain"], row["method"], row["metric"]) == (domain, method, metric)
              and all(row["setting"].get(name) == value for name, value in setting.items())]
    return int(100 * np.mean(values) + 1e-6)


def test_the_readmes_results_are_those_of_the_rows():
    streets = {"experiment": "table2", "block": "views"}
    medium, large = (streets | {"domain": name} for name in ("street-medium", "street-large"))
    maze = {"experiment": "table1", "domain": "c-maze", "block": "fitted"}
    rope = {"experiment": "rope-table", "domain": "rope", "metric": "valid_plans"}
    hop_by_hop = {"experiment": "recordings", "method": "plan2vec", "metric": "greedy_validity"}
    doom = min(percent(domain=name, **hop_by_hop) for name in MAZES)
    giant = {"experiment": "ogbench", "domain": "ogbench/pointmaze-giant-stitch-v0", "block": "act"}
    paper = {"C-Maze": 80, "medium": 51}
    ours = lambda where: percent(method="plan2vec", **where)  # noqa: E731
    isomap = lambda where: percent(method="isomap", **where)  # noqa: E731
    lines = (
        f"| C-Maze | {ours(maze)} | VAE {percent(method='VAE 2-d', **maze)} | {isomap(maze)} | {paper['C-Maze']} |",
        f"| Manhattan streets, medium | {ours(medium)} | contrastive {percent(method='contrastive', **medium)} "
        f"| {isomap(medium)} | {paper['medium']} |",
        f"| Manhattan streets, large | {ours(large)} | contrastive {percent(method='contrastive', **large)} "
        f"| {isomap(large)} | - |",
        f"| rope, every step possible | {ours(rope)} | VAE {percent(method='VAE', **rope)} | - | - |",
        f"| first-person mazes, every hop possible | {doom} | - | - | - |",
        f"| OGBench giant maze, A* | {percent(method='plan2vec, A*', **giant)} | QRL 50 | - | - |",
    )
    text = (ROOT / "README.md").read_text()
    assert [line for line in lines if line not in text] == []


def test_the_mazes_of_the_method_page_are_those_of_the_rows():
    rows = [json.loads(line) for line in (DOCS / "results" / "recordings.jsonl").read_text().splitlines()]
    columns = {"plan_validity": "{:.1%}", "greedy_validity": "{:.1%}", "revisit_recall": "{:.1%}",
               "false_edge_share": "{:.2%}", "estimated_false_closures": "{:.2%}", "spearman_true": "{:.2f}"}
    text = (DOCS / "method.md").read_text()
    for maze in MAZES:
        found = {metric: [row["value"] for row in rows if (row["domain"], row["method"], row["metric"])
                          == (maze, "plan2vec", metric)] for metric in columns}
        means = [form.format(np.mean(found[metric])).rstrip("%") for metric, form in columns.items()]
        assert f"| {maze} | {len(found['plan_validity'])} | {' | '.join(means)} |" in text


# ---------------------------------------------------------------------------------------------------- links


def plain(page: Path) -> str:
    """A page without its blocks of code, in which brackets are no links."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Of all headings, as Markdown's table of contents makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", plain(page), flags=re.M):
        text = unicodedata.normalize("NFKD", re.sub(r"[`*]", "", heading)).encode("ascii", "ignore").decode()
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower()))
    return found


def links(page: Path) -> list[str]:
    text = plain(page)
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, flags=re.M)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_leads_somewhere(page):
    broken = []
    for link in links(page):
        at_home = HOME.match(link)
        if not at_home and re.match(r"https?://", link):
            continue
        path, _, anchor = (link[at_home.end() :] if at_home else link).partition("#")
        target = ((ROOT if at_home else page.parent) / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_words_in_brackets_that_look_like_links_are_links(page):
    text = re.sub(r"`[^`]*`", "", plain(page))
    known = set(re.findall(r"^\[([^\]]+)\]: ", text, flags=re.M))
    assert set(re.findall(r"\]\[([^\]]+)\]", text)) <= known


def test_pages_that_the_program_names_exist():
    named = {name for path in (ROOT / "src").rglob("*.py") for name in re.findall(r"docs/[\w-]+\.md", path.read_text())}
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_every_page_is_in_the_menu_and_there_are_at_most_twelve():
    pages = {path.name for path in DOCS.glob("*.md")}
    assert pages == set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.M)) - {"index.md"}
    assert len(pages) <= 12


# ---------------------------------------------------------------------------------------------------- code


def code_blocks() -> list[tuple[str, str]]:
    return [(f"{page.name}:{number}", block) for page in PAGES if page.name != "tutorial.md"  # the notebook runs that
            for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))]


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess:
    here = os.environ | {"PYTHONPATH": str(ROOT / "src")}  # this tree, whatever is installed
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=600, env=here)


@pytest.mark.parametrize(("name", "code"), code_blocks(), ids=[name for name, _ in code_blocks()])
def test_code_in_the_documentation_runs(name, code, tmp_path):
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    if name == "README.md:0":
        assert float(done.stdout.split()[-1]) > 0.99  # as the text beneath it says


def command_lines(page: Path) -> list[str]:
    """What is typed after `plan2vec` in blocks of shell and in the text, without comments and output."""
    text = page.read_text()
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S)).replace("\\\n", " ")
    typed = [re.sub(r"\s+#.*$", "", line) for line in blocks.splitlines()]
    typed = [re.sub(r"^.*-m plan2vec ", "plan2vec ", line).removeprefix("$(BIN)/") for line in typed]
    inline = [" ".join(code.split()) for code in re.findall(r"`(plan2vec [a-z][^`]*)`", plain(page))]
    return [line.removeprefix("plan2vec ") for line in (*typed, *inline) if line.startswith("plan2vec ")]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_in_the_documentation_can_be_typed(page, capsys):
    wrong = []
    for line in command_lines(page):
        arguments = shlex.split(line)
        is_mention = len(arguments) == 1 and arguments[0] in COMMANDS
        try:
            if not is_mention and asked_help(arguments) is None:
                parse(arguments)
        except (SystemExit, ValueError):
            wrong.append(line)
    assert wrong == [], capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_option_named_in_the_text_exists(page):
    known = {flag for name in COMMANDS for flag in re.findall(r"--[\w.-]+", asked_help([name, "--help-all"]))}
    codes = re.findall(r"`(--[a-z][^`]*)`", plain(page))
    named = {word.partition("=")[0] for code in codes for word in code.split() if word.startswith("--")}
    assert named - known == set()


def test_there_are_commands_to_check():
    assert sum(len(command_lines(page)) for page in PAGES) > 60


# ---------------------------------------------------------------------------------------------------- the tutorial


def test_the_notebook_is_made_from_the_tutorial():
    sys.path.insert(0, str(DOCS))
    try:
        from make_notebook import notebook
    finally:
        sys.path.remove(str(DOCS))
    assert (DOCS / "tutorial.ipynb").read_text() == notebook((DOCS / "tutorial.md").read_text())


def test_the_notebook_has_no_outputs_and_runs(tmp_path):
    cells = [cell for cell in json.loads((DOCS / "tutorial.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells)
    for long, short in SMALL:
        assert long in code, long
        code = code.replace(long, short)
    run = lambda line: f"assert main({shlex.split(line[1].removeprefix('plan2vec '))!r}) == 0"  # noqa: E731
    code = "from plan2vec.commands.main import main\n" + re.sub(r"^!(.*)$", run, code, flags=re.M)
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "on_map=True" in done.stdout


# ---------------------------------------------------------------------------------------------------- scores


def test_every_score_is_defined_in_the_reference():
    text = (DOCS / "reference.md").read_text()
    assert [name for name in LINES if f"`{name}`" not in text] == []


def test_every_judged_score_has_its_threshold_and_remedy_on_the_page_about_good_maps():
    text = (DOCS / "is-my-map-good.md").read_text().partition("## What you see")[0]
    assert [name for name, line in LINES.items() if line.good is not None and f"| `{name}` |" not in text] == []

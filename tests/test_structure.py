"""What holds for the whole package: imports point one way, sizes stay small, the core needs no extra, documentation
runs.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from plan2vec.commands.arguments import asked_help

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "plan2vec"
# packages and modules on the top floor; one may import its own tier and lower ones, and never in a circle
TIERS = (
    ("version", "files", "config", "data", "learning"),
    ("search", "planner", "domains", "readers", "graph", "local_metric", "embedding"),
    ("runs",),
    ("model", "progress", "validity", "evaluation", "verdict"),
    ("pipeline", "growing", "estimator"),
    ("acting", "datasets", "pictures", "explorer"),
    ("baselines",),
    ("results",),
    ("experiments", "bench"),
    ("commands",),
)
TIER_OF = {unit: number for number, tier in enumerate(TIERS, 1) for unit in tier}
TRAINING = ("local_metric", "graph", "search", "embedding", "learning")
MOST_LINES = 21_999
EXTRAS = (
    "gymnasium", "pymunk", "sklearn", "dash", "plotly", "av", "h5py", "minari", "pyarrow", "playwright", "hypothesis",
    "networkx", "usearch", "stable_baselines3", "ogbench", "mujoco", "triton", "vizdoom"
)



def files_of(unit: str) -> list[Path]:
    """The files of a package, or the one of a module."""
    return sorted((PACKAGE / unit).rglob("*.py")) or [PACKAGE / f"{unit}.py"]


def imported_units(code: str) -> set[str]:
    """Units that a file imports, wherever the import stands: `import plan2vec.x`, `from plan2vec.x import`, `from
    plan2vec import x`.

    What the package itself offers (`from plan2vec import fit`) counts as the unit it comes from. Imports that only a
    type checker reads do not count.
    """
    found: set[str] = set()
    for node in nodes_that_run(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("plan2vec.")}
            assert "plan2vec" not in [alias.name for alias in node.names], "`import plan2vec` hides what is used"
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "plan2vec":
                found |= {home_of(alias.name) for alias in node.names}
            elif (node.module or "").startswith("plan2vec."):
                found.add(str(node.module).split(".")[1])
    return found


def nodes_that_run(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    if isinstance(tree, ast.If) and getattr(tree.test, "id", None) == "TYPE_CHECKING":
        return [node for child in tree.orelse for node in nodes_that_run(child)]
    return [tree, *(node for child in ast.iter_child_nodes(tree) for node in nodes_that_run(child))]


def home_of(name: str) -> str:
    from plan2vec import HOMES

    return HOMES.get(name, name).split(".")[0]


IMPORTS = {
    unit: set().union(*(imported_units(path.read_text()) for path in files_of(unit))) - {unit} for unit in TIER_OF
}


def test_imports_are_seen_in_all_their_forms():
    forms = {
        "import plan2vec.data": {"data"}, "import plan2vec.graph.build as build": {"graph"},
        "from plan2vec.runs.folder import open_run": {"runs"}, "from plan2vec import bench, fit": {"bench", "pipeline"},
        "from plan2vec import DistanceReward": {"acting"},
        "def late():\n    from plan2vec.model import load": {"model"},
        "if TYPE_CHECKING:\n    from plan2vec.model import load\nelse:\n    import plan2vec.data": {"data"},
        "import numpy": set()
    }
    for code, units in forms.items():
        assert imported_units(code) == units, code


def test_every_unit_has_a_place_in_a_tier():
    units = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert units - {"__init__", "__main__"} == set(TIER_OF) and len(TIER_OF) == sum(map(len, TIERS))


@pytest.mark.parametrize("unit", TIER_OF)
def test_imports_point_to_the_same_tier_or_lower_ones(unit):
    above = {other for other in IMPORTS[unit] if TIER_OF.get(other, 99) > TIER_OF[unit]}
    assert above == set()


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of units that import each other, directly or through others."""
    reach = {unit: set(others) for unit, others in imports.items()}
    for middle in imports:
        for unit in imports:
            if middle in reach[unit]:
                reach[unit] |= reach[middle]
    return {frozenset(other for other in imports if other in reach[unit] and unit in reach[other]) for unit in imports
            if unit in reach[unit]}


def test_no_unit_imports_another_in_a_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    assert circles(IMPORTS) == set()


def test_experiments_and_benchmarks_never_import_each_other():
    assert "bench" not in IMPORTS["experiments"] and "experiments" not in IMPORTS["bench"]


def test_no_two_packages_have_a_file_of_the_same_name():
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    packages = Counter(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    both = [name for name, count in names.items() if count > 1 or packages[name.removesuffix(".py")]]
    assert sorted(both) == []


# ---------------------------------------------------------------------------------------------------- sizes


def test_the_package_grows_no_further():
    """Who adds lines takes others away."""
    assert sum(len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")) <= MOST_LINES


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_lines_have_at_most_120_characters_and_no_formatter_is_told_to_skip_them(folder):
    long, skipped = [], []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            place = f"{path.relative_to(ROOT)}:{number}"
            long += [place] if len(line) > 120 else []
            skipped += [place] if re.search("# *fmt" + ": *(skip|off)", line) else []
    assert long == [] and skipped == []


def test_the_help_of_fit_fits_on_90_lines_and_its_long_form_names_every_setting():
    short, full = (asked_help(["fit", flag]) or "" for flag in ("--help", "--help-all"))
    assert len(short.splitlines()) <= 90 < len(full.splitlines())
    assert "--closures.max-neighbors" in full and "--closures.max-neighbors" not in short and "--help-all" in short


# ---------------------------------------------------------------------------------------------------- promises


def test_the_core_imports_without_any_extra():
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in EXTRAS)
    used = "; ".join(f"plan2vec.{name}" for name in ("fit", "load", "add", "evaluate", "read"))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {blocked}; import plan2vec, plan2vec.commands.main; {used}"],
        capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_positions_are_named_by_no_training_stage():
    """Positions and headings are dropped before the first stage; none of them even has the words."""
    for path in (path for unit in TRAINING for path in files_of(unit)):
        tree = ast.parse(path.read_text())
        names = {
            getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None)
            for node in ast.walk(tree)
        }
        words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not {"position", "heading"} & (names | words), path


def test_the_method_is_read_in_eight_files_of_1200_lines_and_learn_fits_on_a_screen():
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert len(listed) == 8 and listed[0] == "pipeline.py"
    assert sum(len((PACKAGE / name).read_text().splitlines()) for name in listed) <= 1200
    tree = ast.parse((PACKAGE / "pipeline.py").read_text())
    learn = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "learn")
    assert learn.end_lineno - learn.body[1].lineno + 2 <= 15  # its signature and what follows the docstring

"""What holds for the whole package: imports point one way, the core needs no extra, documentation runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "plan2vec"
ORDER = (
    "version", "files", "staging", "processes", "batch_norm", "preparation", "data", "heads", "neighbors", "encoder", "adam", "captured",
    "overlaps", "augmentation", "classical_scaling", "losses", "training", "search", "balls", "device_graph", "relaxation_kernel",
    "device_search", "local_metric", "graph", "sparsify", "strike", "closures", "embedding", "planner", "value_iteration", "baselines",
    "config", "domains", "run", "model", "pipeline", "control", "readers", "shaping", "reward",
    "relabel", "evaluation", "grow", "estimator", "estimate", "figures",
    "film", "inspection", "film_video", "review", "gallery", "report", "explorer", "bench", "experiments", "arguments", "cli",
)  # fmt: skip
EXTRAS = (
    "gymnasium", "pymunk", "sklearn", "dash", "plotly", "av", "h5py", "minari", "pyarrow", "playwright", "hypothesis", "networkx",
    "usearch", "stable_baselines3", "ogbench", "mujoco", "triton",
)  # fmt: skip


def imports_of(path: Path) -> set[str]:
    """Second words of `plan2vec.x` imports, wherever they stand in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name and name.startswith("plan2vec.")}
    return found


def test_every_module_has_a_place_in_the_order():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert modules - {"__init__", "__main__"} == set(ORDER)


@pytest.mark.parametrize("module", [name for name in ORDER if (PACKAGE / f"{name}.py").exists()])
def test_imports_point_to_earlier_stages_only(module):
    later = imports_of(PACKAGE / f"{module}.py") & set(ORDER[ORDER.index(module) + 1 :])
    assert later == set()


def test_the_core_imports_without_any_extra():
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in EXTRAS)
    done = subprocess.run([sys.executable, "-c", f"import sys; {blocked}; import plan2vec, plan2vec.cli"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_positions_are_named_by_no_training_stage():
    """`position` is dropped before the first stage; none of them even has the word."""
    for module in ("local_metric", "neighbors", "graph", "sparsify", "strike", "closures", "search", "embedding", "training", "encoder"):
        names = {node.id for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())) if isinstance(node, ast.Name)}
        attributes = {node.attr for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())) if isinstance(node, ast.Attribute)}
        assert "position" not in names | attributes, module


def code_blocks() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [(f"{page.name}:{number}", block) for page in pages
            for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))]  # fmt: skip


@pytest.mark.parametrize(("name", "code"), code_blocks(), ids=[name for name, _ in code_blocks()])
def test_code_in_the_documentation_runs(name, code, tmp_path):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr

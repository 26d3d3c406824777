"""Kills every command that writes before each of its file-system changes: `make crash`.

A command runs in a forked child with an audit hook that counts what it is about to do to the file system (open to
write, rename, remove, mkdir, rmdir, chmod, truncate). First it runs to its end and the changes are counted. Then it
runs again, on a fresh copy of the same place, once per change, and is killed (SIGKILL) just before that one. What must
hold after each kill:

- a run folder is the old run or the new one, whole: it opens, and its files are all as before or all as after;
- every other file is whole (JSON parses, pictures and pages have their ends), and nothing outside the folder has
changed;
- the same command, repeated, ends as if nothing had happened, and leaves no temporary file behind.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "agg"

import h5py
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
import samples

import plan2vec
from plan2vec.commands.main import HOME_OF, main
from plan2vec.experiments import reproduce  # noqa: F401
from plan2vec.graph.build import closure_entries, edge_rows
from plan2vec.pictures import figures
from plan2vec.runs.folder import is_finished, is_run, require_finished
from plan2vec.runs.products import COVERED

for home in sorted({*HOME_OF.values()}):  # once, not in every child
    import_module(f"plan2vec.commands.{home}")
figures.DOTS_PER_INCH = 20  # pictures as small as can be
torch.set_num_threads(1)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink"}
FEW = (
    "--local-metric.num-updates", "4", "--local-metric.batch-size", "16", "--embedding.num-updates", "4",
    "--embedding.goals-per-update", "8", "--embedding.nodes-per-update", "16", "--embedding.goals-per-round", "16",
)


@dataclass(frozen=True)
class Case:
    """A command, and what it needs."""

    name: str
    arguments: tuple[str, ...]
    has_run: bool = True  # it needs a fitted run called `run`
    before: Callable[[], None] = lambda: None  # done in the place first
    makes: str | None = None  # what it writes and, once whole, never overwrites


def recordings(seed: int) -> plan2vec.Sequences:
    rng = np.random.default_rng(seed)
    walks = rng.normal(0, 0.2, (6, 20, 2)).cumsum(axis=1).reshape(-1, 2)
    action = rng.normal(size=(120, 1))
    return plan2vec.make_sequences(walks, np.repeat(np.arange(6), 20), action=action, position=walks)


def a_closure() -> str:
    model = plan2vec.load("run", "cpu")
    found = np.flatnonzero(closure_entries(model.graph, model.sequences.sequence))[0]
    return f"{edge_rows(model.graph)[found]}-{model.graph.indices[found]}"


def cases(closure: str) -> list[Case]:
    return [
        Case(
            "fit", ("fit", "recordings.npz", "--out", "new", "--device", "cpu", "--checkpoint-seconds", "0", *FEW),
            False
        ), Case("add", ("add", "run", "more.npz", "--num-updates", "2", "--device", "cpu")),
        Case("closures --strike", ("closures", "run", "--strike", closure, "--num-updates", "2", "--device", "cpu")),
        Case("closures --no-update", ("closures", "run", "--strike", closure, "--no-update", "--device", "cpu")),
        Case("audit", ("audit", "run", "--csv", "audit.csv", "--device", "cpu")),
        Case("report", ("report", "run", "--device", "cpu")), Case("evaluate", ("evaluate", "run", "--device", "cpu")),
        Case("plan", ("plan", "run", "--start", "0", "--goal", "70", "--method", "dijkstra", "--device", "cpu")),
        Case("relabel", ("relabel", "run", "recordings.npz", "--out", "relabelled.npz", "--device", "cpu"),
             makes="relabelled.npz"),
        Case("relabel minari", ("relabel", "run", "minari", "--out", "relabelled", "--device", "cpu"),
             makes="relabelled"),
        Case("progress", ("progress", "run", "--out", "progress.parquet", "--device", "cpu")),
        Case("export csv", ("export", "run", "--format", "csv", "--out", "tables", "--device", "cpu"), makes="tables"),
        Case("export graphml", ("export", "run", "--format", "graphml", "--out", "map.graphml", "--device", "cpu"),
             makes="map.graphml"),
        Case("audit recordings", ("audit", "recordings.npz", "--out", "new", "--device", "cpu", *FEW), False),
        Case("reproduce", ("reproduce", "lookahead", "--smoke", "--device", "cpu", "--out", "rows"), False)
    ]


# ---------------------------------------------------------------------------------------------------- a child that is
# killed


def child(place: Path, arguments: tuple[str, ...], kill_before: int | None) -> tuple[int, int]:
    """(exit status, changes made) of a command in a fork of this process; killed before the given change."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read_end)
        os.chdir(place)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        count = [0]
        watch(place, count, kill_before)
        code = main(list(arguments))
        os.write(write_end, str(count[0]).encode())
        os._exit(code)
    os.close(write_end)
    told = b"".join(iter(lambda: os.read(read_end, 100), b""))
    os.close(read_end)
    return os.waitpid(pid, 0)[1], int(told or 0)


def watch(place: Path, count: list[int], kill_before: int | None) -> None:
    """Counts changes of the file system; kills before the chosen one."""

    def hook(event: str, arguments: tuple) -> None:
        is_open = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if not (is_open or event in CHANGES) or not concerns(arguments[0], place):
            return
        if count[0] == kill_before:
            os.kill(os.getpid(), signal.SIGKILL)
        count[0] += 1

    sys.addaudithook(hook)


def concerns(path: object, place: Path) -> bool:
    """Not the null device, caches of fonts and the like."""
    if isinstance(path, int):
        return True
    return Path(os.fsdecode(path)).absolute().is_relative_to(place)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------- what must hold


def contents(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def products(run: Path) -> dict[str, str] | None:
    """Digests of a run's own files after it was opened; None where there is no finished run."""
    if not is_run(run):
        return None
    if (run / ".plan2vec-replacement").exists() or is_finished(run):
        require_finished(run)
        return {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in COVERED}
    return None


def is_whole(path: Path) -> bool:
    data = path.read_bytes()
    match path.suffix:
        case ".json":
            return json.loads(data) is not None
        case ".png":
            return data.endswith(b"IEND\xaeB`\x82")
        case ".html":
            return data.rstrip().endswith(b"</html>")
        case ".csv":
            return data.endswith(b"\n")
        case ".graphml":
            return data.endswith(b"</graphml>\n")
        case ".parquet":
            return data.endswith(b"PAR1")
        case ".gif":
            return data.endswith(b";")
        case ".npz" | ".npy":
            loaded = np.load(path)
            return all(loaded[name] is not None for name in loaded.files) if path.suffix == ".npz" else len(loaded) > 0
        case _:
            return True


def leftovers(place: Path) -> list[str]:
    return [str(path) for path in place.rglob("*") if ".tmp" in path.name or ".plan2vec-re" in path.name]


def problems(place: Path, old: dict | None, new: dict | None, run: str, outside: dict[str, str]) -> list[str]:
    """What a kill has broken."""
    found = []
    state = products(place / run)
    if state not in (old, new):
        found.append(f"{run} is neither the old run nor the new one")
    for path in place.rglob("*"):
        if path.is_file() and ".tmp" not in path.name and ".plan2vec-" not in str(path) and not is_whole(path):
            found.append(f"{path.name} is not whole")
    if contents(place.parent / "outside") != outside:
        found.append("something outside was touched")
    return found


# ---------------------------------------------------------------------------------------------------- all of it


def prepare(folder: Path) -> Path:
    """The place that every case starts from: recordings, a fitted run with its report."""
    place = folder / "place"
    place.mkdir()
    (folder / "outside").mkdir()
    (folder / "outside" / "thesis.txt").write_text("three years")
    for name, seed in (("recordings", 0), ("more", 1)):
        taken = recordings(seed)
        np.savez(place / f"{name}.npz", observations=taken.frames, sequence=taken.sequence, action=taken.action,
                 position=taken.position)
    samples.write_minari(place / "minari", "vectors")
    with h5py.File(place / "minari" / "data" / "main_data.hdf5", "r+") as file:
        for episode in file.values():
            walk = recordings(2).frames[: len(episode["actions"]) + 1]
            del episode["observations"]
            episode["observations"], episode["rewards"] = walk, np.zeros(len(walk) - 1)
    assert child(place, ("fit", "recordings.npz", "--out", "run", "--device", "cpu", *FEW), None)[0] == 0
    return place


def try_case(case: Case, start: Path, folder: Path) -> tuple[int, list[str]]:
    """(number of changes, what was broken) of one command."""
    run = "run" if case.has_run else "new"
    fresh = lambda: Path(shutil.copytree(start, folder / "try"))  # noqa: E731
    outside, old = contents(folder / "outside"), products(start / run)
    place = fresh()
    status, num_changes = child(place, case.arguments, None)
    assert status == 0 and num_changes > 0, (case.name, status, num_changes)
    new, broken = products(place / run), []
    for number in range(num_changes):
        shutil.rmtree(place)
        place = fresh()
        status, _ = child(place, case.arguments, number)
        found = [] if os.WIFSIGNALED(status) else ["it was not killed"]
        found += problems(place, old, new, run, outside)
        status, _ = child(place, case.arguments, None)
        if status != 0:
            if case.makes is None or not (place / case.makes).exists():
                found.append(f"the same command ends with {os.waitstatus_to_exitcode(status)} afterwards")
        elif products(place / run) != new:
            found.append("the same command gives another run afterwards")
        found += [f"{left} is left behind" for left in leftovers(place)]
        broken += [f"{case.name}, killed before change {number} of {num_changes}: {text}" for text in found]
    shutil.rmtree(place)
    return num_changes, broken


def run_all(only: list[str]) -> int:
    broken: list[str] = []
    with tempfile.TemporaryDirectory(prefix="plan2vec-crash-") as name:
        folder = Path(name).resolve()
        start = prepare(folder)
        os.chdir(start)
        chosen = [case for case in cases(a_closure()) if not only or case.name in only]
        for case in chosen:
            began = time.monotonic()
            num_changes, found = try_case(case, start, folder)
            seconds = time.monotonic() - began
            print(f"{case.name:<22} {num_changes:4d} kills, {len(found)} broken ({seconds:.0f} s)", flush=True)
            broken += found
        os.chdir("/")
    print("\n".join(broken[:50]))
    num_failed = len({text.split(",")[0] for text in broken})
    print(f"{len(chosen) - num_failed} passed, {num_failed} failed")
    return int(bool(broken))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="names of cases; default all")
    sys.exit(run_all(parser.parse_args().cases))

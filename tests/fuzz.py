"""Fuzzing of readers and run folders: `make fuzz SECONDS=600`, or `python tests/fuzz.py --seconds 600 --seed 0`.

Valid recordings of every format, and fitted run folders, are damaged at random, again and again. Each must be read to
valid sequences, or opened, planned on and checked, or be refused by a ValueError of one line, within the limits of time
and memory. A run's manifest is sometimes written anew after the damage, as who made the folder can. Anything else
(another error, a crash, a hang, a flood of memory, a file touched outside) is saved with its input, and the program
ends with exit code 1.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import pickle
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("SVT_LOG", "0")  # the AV1 encoder is talkative

import samples
import torch

from plan2vec.commands.fitting import write_run_report
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig, ReadOptions
from plan2vec.data import make_sequences
from plan2vec.datasets.audit import as_json, audit
from plan2vec.datasets.export import graphml_lines
from plan2vec.datasets.progress_files import choose_goals, progress_of_frames, progress_table
from plan2vec.explorer.page import page
from plan2vec.explorer.session import Session
from plan2vec.model import load
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.readers.npz import write_npz
from plan2vec.runs.products import COVERED, check_files, write_manifest

LARGEST_GROWTH = 1 << 30  # bytes of resident memory that one small input may cost
ADDRESS_SPACE = 6 << 30  # bytes beyond what the program itself has mapped
INPUTS_A_WORKER = 2000  # then a fresh one, so that leaks of libraries do not add up
SUFFIXES = (
    ".png", ".jpg", ".mp4", ".npz", ".npy", ".hdf5", ".parquet", ".txt", ".tif", ".webp", ".gif", ".bmp", ".pkl"
)
EXTREME = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


def make_seeds(folder: Path) -> dict[str, Path]:
    """One small valid recording of each kind: name -> what is given to `read`."""
    frames = samples.moving_block(8, 24, 32)
    seeds = {f"images{suffix}": samples.write_images(folder / f"images{suffix}", frames, suffix)
             for suffix in (".png", ".jpg", ".bmp", ".webp", ".tif", ".gif")}
    videos = {
        "h264": ("film.mp4", "libx264"),
        "av1": ("film.mp4", "libsvtav1"),
        "mkv": ("film.mkv", "libx264"),
        "ts": ("film.ts", "mpeg2video"),
    }
    large = samples.moving_block(8, 64, 96)
    seeds |= {
        name: samples.write_video(folder / name / file, large, codec=codec) for name, (file, codec) in videos.items()
    }
    for name in ("npz", "npy", "pickle", "d4rl", "robomimic"):
        (folder / name).mkdir()
    seeds |= {
        "npz": folder / "npz" / "some.npz", "npy": folder / "npy" / "some.npy", "pickle": folder / "pickle" / "some.pkl"
    }
    write_npz(
        seeds["npz"], make_sequences(frames, np.repeat([0, 1], 4), position=np.arange(8.0), step_length=np.ones(8))
    )
    np.save(seeds["npy"], frames)
    seeds["pickle"].write_bytes(
        pickle.dumps({"observations": np.arange(20.0).reshape(10, 2), "sequence": np.repeat([0, 1], 5)})
    )
    seeds["d4rl"] = samples.write_d4rl(folder / "d4rl" / "some.hdf5")
    seeds["robomimic"] = samples.write_robomimic(folder / "robomimic" / "some.hdf5", lengths=(4, 3))
    seeds |= {
        f"minari-{kind}": samples.write_minari(folder / f"minari-{kind}", kind, (5, 4))
        for kind in ("dict", "images", "vectors")
    }
    seeds["streetlearn"] = samples.write_streetlearn(folder / "streetlearn")
    for version in ("v2.1", "v3.0"):
        for kind in ("video", "image", "state"):
            seeds[f"lerobot-{version}-{kind}"] = samples.write_lerobot(
                folder / f"lerobot-{version}-{kind}", version, kind, (5, 4, 3)
            )
    return seeds | make_runs(folder)


def make_runs(folder: Path) -> dict[str, Path]:
    """Two small run folders of each kind; the second lends its files to the first."""
    config = Config(
        local_metric=LocalMetricConfig(num_updates=3, batch_size=16),
        embedding=EmbeddingConfig(num_updates=3, goals_per_update=8, nodes_per_update=16, goals_per_round=16)
    )
    frames = samples.moving_block(40, 16, 16)
    walks = np.random.default_rng(0).normal(0, 0.2, (40, 2)).cumsum(axis=0)
    for kind, recorded in (("run-images", frames), ("run-vectors", walks)):
        for name, part in ((kind, recorded), (f"{kind}-other", recorded[::-1].copy())):
            model = fit(make_sequences(part, np.repeat([0, 1], 20)), config, folder / name, device="cpu")
            write_run_report(model)
            (folder / name / "audit.json").write_text(json.dumps(as_json(audit(model.sequences, model))))
            shutil.rmtree(folder / name / "figures")  # pictures that no command reads
            (folder / name / "report.html").unlink()
    return {kind: folder / kind for kind in ("run-images", "run-vectors")}


# ------------------------------------------------------------------------------------------------ damage


def damage(place: Path, rng: np.random.Generator) -> str:
    """Damages one file of the place (a file or a folder); says how."""
    files = sorted(file for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file())
    if not files:
        return "nothing left"
    file = files[rng.integers(len(files))]
    how = rng.choice(
        ("flip", "flip", "flip", "extreme", "extreme", "header", "cut", "zero", "repeat", "insert", "random", "whole")
    )
    if how == "whole":
        return f"{file.name}: {_damage_whole(file, rng, place)}"
    data = bytearray(file.read_bytes())
    file.write_bytes(_damage_bytes(data, str(how), rng) if data else rng.bytes(16))
    return f"{file.name}: {how}"


def _damage_bytes(data: bytearray, how: str, rng: np.random.Generator) -> bytearray:
    at = int(rng.integers(len(data)))
    length = int(rng.integers(1, 64))
    if how == "flip":
        for place in rng.integers(0, len(data), rng.integers(1, 20)):
            data[place] ^= 1 << int(rng.integers(8))
    elif how == "header":
        for place in rng.integers(0, min(len(data), 200), rng.integers(1, 6)):
            data[place] = int(rng.integers(256))
    elif how == "extreme":
        width = int(rng.choice((1, 2, 4, 8)))
        value = int(rng.choice(np.array(EXTREME, np.uint64))) & ((1 << 8 * width) - 1)
        data[at : at + width] = value.to_bytes(width, str(rng.choice(("little", "big"))))  # type: ignore[arg-type]
    elif how == "cut":
        del data[at:]
    elif how == "zero":
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif how == "repeat":
        data[at:at] = data[at : at + length] * int(rng.integers(1, 9))
    elif how == "insert":
        data[at:at] = rng.bytes(length)
    else:
        data[at : at + length] = rng.bytes(length)
    return data


def _damage_whole(file: Path, rng: np.random.Generator, place: Path) -> str:
    """A file that is gone, empty, noise, a folder, a loop of links, or has another name."""
    how = str(rng.choice(("gone", "empty", "noise", "folder", "loop", "renamed")))
    file.unlink()
    if how == "empty":
        file.touch()
    elif how == "noise":
        file.write_bytes(rng.bytes(int(rng.integers(1, 3000))))
    elif how == "folder":
        file.mkdir()
    elif how == "loop":
        file.symlink_to(file.parent if file != place else file.name)
    elif how == "renamed":
        file.with_suffix(str(rng.choice(SUFFIXES))).write_bytes(b"renamed")
    return how


def damage_run(run: Path, other: Path, rng: np.random.Generator) -> str:
    """Damages a run folder: as any folder, or by files of another run, or by changed settings; says how."""
    how = str(rng.choice(("bytes", "bytes", "swap", "edit", "arrays")))
    if how == "swap":
        names = sorted(path.name for path in other.iterdir() if path.is_file())
        name = names[rng.integers(len(names))]
        if (run / name).is_dir() and not (run / name).is_symlink():
            shutil.rmtree(run / name)
        (run / name).unlink(missing_ok=True)  # a link to a folder may lie there
        shutil.copy(other / name, run / name)
        how = f"swap {name}"
    elif how == "edit":
        how = f"edit {_edit_json(run, rng)}"
    elif how == "arrays":
        how = f"arrays {_edit_arrays(run / 'graph.npz', rng)}"
    else:
        how = damage(run, rng)
    if rng.random() < 0.5 and all((run / name).is_file() for name in COVERED):
        if (run / "manifest.json").is_dir() and not (run / "manifest.json").is_symlink():
            (run / "manifest.json").rmdir()
        write_manifest(run)
        how += ", manifest written anew"
    return how


def _edit_json(run: Path, rng: np.random.Generator) -> str:
    """One value of a JSON file becomes another kind of thing."""
    name = str(rng.choice(("config.json", "data.json", "struck.json", "scorecard.json", "audit.json")))
    try:
        values = json.loads((run / name).read_text()) if (run / name).is_file() else {"struck": [[1, 25]], "kept": []}
    except ValueError:
        return f"{name}, which is no JSON any more"
    inner = values
    while isinstance(inner, dict) and inner:
        key = list(inner)[rng.integers(len(inner))]
        if not isinstance(inner[key], dict) or rng.random() < 0.3:
            strange = (None, -1, 1e308, "x", "os:system", [], {}, True, "../../etc", 10**30, [[-1, 10**9]], [[0, 1]])
            inner[key] = strange[rng.integers(len(strange))]
            break
        inner = inner[key]
    if not (run / name).is_dir():
        (run / name).write_text(json.dumps(values))
    return name


def _edit_arrays(path: Path, rng: np.random.Generator) -> str:
    """One number of a graph's arrays becomes extreme."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name].copy() for name in file.files}
        name = str(rng.choice(("data", "indices", "indptr", "shape", "radius")))
        flat = arrays[name].reshape(-1)
        extreme = (np.nan, np.inf, -1.0, 1e30) if flat.dtype.kind == "f" else (-1, 10**9, -(2**31), 2**31 - 1)
        flat[rng.integers(len(flat))] = extreme[rng.integers(4)]
        np.savez(path, **arrays)
        return name
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return "that cannot be read any more"


def random_options(rng: np.random.Generator) -> ReadOptions:
    """Mostly none; else a few that matter to pictures and episodes."""
    if rng.random() < 0.7:
        return ReadOptions(trust_pickle=True)
    cameras = (
        None, None, "agentview_image", "observation.images.cam", "observation.state", "observation", "no such camera"
    )
    return ReadOptions(
        size=int(rng.choice((8, 32))) if rng.random() < 0.5 else None, gray=bool(rng.random() < 0.3),
        every=int(rng.integers(1, 4)), crop="0,0,20,20" if rng.random() < 0.3 else None,
        camera=cameras[rng.integers(len(cameras))], trust_pickle=True
    )


# ------------------------------------------------------------------------------------------------ reading


def answer(connection: multiprocessing.connection.Connection) -> None:
    """In a process of its own: reads what it is told to, says how it went."""
    torch.set_num_threads(1)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ADDRESS_SPACE,) * 2)
    while True:
        path, options = connection.recv()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome, words = attempt(path, options)
        growth = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        if growth > LARGEST_GROWTH:
            outcome, words = "failure", f"resident memory grew by {growth / 1e6:.0f} MB"
        connection.send((outcome, words))


def attempt(path: Path, options: ReadOptions) -> tuple[str, str]:
    """("read" | "refused" | "failure", words)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.name.startswith("run-"):
                return open_run(path)
            sequences = read(path, options)
        values = np.asarray(sequences.frames[:: max(1, sequences.num_frames // 50)])
        if values.dtype not in (np.uint8, np.float32) or not np.isfinite(values).all():
            return "failure", f"frames of type {values.dtype} that are not finite"
        return "read", f"{sequences.frames.shape}"
    except ValueError as error:
        text = str(error)
        if type(error) is not ValueError or "\n" in text or path.name not in text:
            return "failure", f"no ValueError of one line that names the recording: {traceback.format_exc()}"
        return "refused", text
    except BaseException:
        return "failure", traceback.format_exc()


def open_run(path: Path) -> tuple[str, str]:
    """What commands do with a run: open it, plan, look an image up, export, show its page, read everything."""
    model = load(path, "cpu")
    plans = [model.plan(0, model.sequences.num_frames - 1, method) for method in ("auto", "dijkstra")]
    model.locate(np.asarray(model.sequences.frames[0]))
    progress_table(model, progress_of_frames(model, choose_goals(model, "0:19")))
    sum(map(len, graphml_lines(model)))
    with contextlib.redirect_stderr(io.StringIO()):  # it says there what it leaves out
        page(Session(model))
    check_files(path, thoroughly=True)
    return "read", f"{plans[0].hops}"


class Worker:
    """A process that reads; replaced when it dies, hangs or has read much."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=answer, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.num_inputs = 0

    def ask(self, path: Path, options: ReadOptions, limit: float) -> tuple[str, str]:
        self.num_inputs += 1
        self.connection.send((path, options))
        if not self.connection.poll(limit):
            return "failure", f"no answer after {limit:.0f} s: it hangs"
        try:
            return self.connection.recv()
        except EOFError:
            self.process.join(5)
            return "failure", f"the process died with exit code {self.process.exitcode}"

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def fuzz(seconds: float, seed: int, out: Path, limit: float) -> int:
    """Damages and reads until the time is over; returns the number of failures."""
    rng, counts, failures = np.random.default_rng(seed), Counter(), 0
    ends, next_report = time.monotonic() + seconds, time.monotonic() + 60
    with tempfile.TemporaryDirectory(prefix="plan2vec-fuzz-") as scratch:
        seeds = make_seeds(Path(scratch) / "seeds")
        names = sorted(seeds)
        outside = Path(scratch) / "outside"
        outside.mkdir()
        (outside / "thesis.txt").write_text("three years")
        worker = Worker()
        while time.monotonic() < ends:
            name = names[rng.integers(len(names))]
            place, how = damaged_copy(seeds[name], Path(scratch) / "damaged", rng)
            options = random_options(rng)
            outcome, words = worker.ask(place, options, limit)
            if [path.name for path in outside.iterdir()] != ["thesis.txt"] or len(list(Path(scratch).iterdir())) != 3:
                outcome, words = "failure", "something outside the folder was touched"
            counts[name, outcome] += 1
            if outcome == "failure":
                failures += 1
                save_failure(out, name, failures, place, f"{how}\n{options}\n{words}\n")
            if outcome == "failure" or worker.num_inputs >= INPUTS_A_WORKER:
                worker.stop()
                worker = Worker()
            if time.monotonic() > next_report:
                next_report += 60
                print(summary(counts), flush=True)
        worker.stop()
    print(summary(counts), flush=True)
    for name in names:
        read, refused, failures = (counts[name, end] for end in ("read", "refused", "failure"))
        print(f"  {name:<20} read {read:>7}  refused {refused:>7}  failures {failures:>4}")
    return failures


def damaged_copy(seed: Path, folder: Path, rng: np.random.Generator) -> tuple[Path, str]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    place = folder / seed.name
    shutil.copytree(seed, place) if seed.is_dir() else shutil.copy(seed, place)
    if seed.name.startswith("run-"):
        other = seed.with_name(f"{seed.name}-other")
        return place, "; ".join(damage_run(place, other, rng) for _ in range(rng.integers(1, 3)))
    return place, "; ".join(damage(place, rng) for _ in range(rng.integers(1, 4)))


def save_failure(out: Path, name: str, number: int, place: Path, words: str) -> None:
    target = out / f"{name}-{number}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if place.is_dir():
        shutil.copytree(place, target / place.name, symlinks=True)
    elif place.exists():
        shutil.copy(place, target / place.name)
    (target / "what-happened.txt").write_text(words)
    print(f"failure {number}: {target}\n{words}", flush=True)


def summary(counts: Counter) -> str:
    totals = {
        outcome: sum(count for (_, one), count in counts.items() if one == outcome)
        for outcome in ("read", "refused", "failure")
    }
    return f"{time.strftime('%H:%M:%S')} {sum(totals.values())} inputs: {totals}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="of the random damage; default: another one every time")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="where inputs that fail are saved")
    parser.add_argument("--limit", type=float, default=120, help="seconds that one input may take")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int(time.time())
    print(f"seed {seed}", flush=True)
    return 1 if fuzz(given.seconds, seed, given.out, given.limit) else 0


if __name__ == "__main__":
    sys.exit(main())

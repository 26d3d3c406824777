"""`plan2vec relabel`: the learned distance as reward, written into a copy of an offline dataset.

    .npz of plan2vec    adds `reward` (n,), of the step from frame i to i + 1 (0 at a sequence's end), and `goal` (n,)
    .npz of OGBench     the same as `rewards` and `goals`, beside `observations`, `actions` and `terminals`
    Minari folder       `rewards` of every episode, one row per action; `infos/goal` tells the goals

All else is copied as it is; the input is never written to. `goal` is the number of a frame of the dataset, -1 where the
goal is a frame of the run or an image. No step counts as terminal: where a learner ends an episode at its goal, D is 0.
"""

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.acting.shaping import Shaping
from plan2vec.data import Sequences, frames_left, transitions
from plan2vec.files import new_folder, replacing
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.readers import find_format, minari, ogbench_npz
from plan2vec.readers.hdf5 import groups_of, member
from plan2vec.readers.refusals import import_extra, shown

HINDSIGHT = ("future", "random")


def relabel(model: Model, sequences: Sequences, dataset: Path, out: Path, goal: str | np.ndarray, shaping: Shaping,
            seed: int) -> dict:
    """Copy `dataset`, read as `sequences`, to `out` with new rewards. `goal`: "future", "random" or a frame."""
    write, read = (write_minari, minari_rewards) if minari.recognizes(dataset) else (write_npz, npz_rewards)
    plain = read(dataset)
    if plain is not None and len(plain) != sequences.num_frames:
        raise ValueError(f"{shown(dataset)}: {len(plain)} rewards for {sequences.num_frames} frames; "
                         "is every episode readable?")
    reward, number = make_labels(model, sequences, goal, shaping, plain, rng_at(seed, Stream.RELABEL))
    write(dataset, out, reward, number)
    steps = reward[transitions(sequences.sequence)]
    return {"out": str(out), "num_frames": sequences.num_frames, "num_steps": len(steps),
            "goal": goal if isinstance(goal, str) else "fixed", "mode": shaping.mode, "discount": shaping.discount,
            "scale": shaping.scale, "plain_reward": plain is not None, "mean_reward": float(steps.mean()),
            "least_reward": float(steps.min()), "largest_reward": float(steps.max())}


def require_new(dataset: Path, out: Path) -> None:
    """The copy is a new file or folder of the same format; anything else is refused before any work is done."""
    is_minari = minari.recognizes(dataset)
    if not is_minari and dataset.suffix.lower() != ".npz":
        raise ValueError(f"{shown(dataset)} is {find_format(dataset).NAME}: "
                         "rewards can be written into .npz files and Minari datasets only")
    if os.path.lexists(out):
        raise ValueError(f"--out {shown(out)} exists already; nothing is overwritten, so give another name")
    if not is_minari and out.suffix.lower() != ".npz":
        raise ValueError(f"--out must end in .npz as the dataset does, but is {shown(out)}")


def make_labels(model: Model, sequences: Sequences, goal: str | np.ndarray, shaping: Shaping, plain: np.ndarray | None,
                rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(n,) rewards of all recorded steps, and (n,) their goals; `plain` (n,): the dataset's own, or None."""
    start, vectors = transitions(sequences.sequence), model.embed(sequences.frames)
    number = np.full(sequences.num_frames, -1, np.int64)
    if isinstance(goal, str):
        number[:] = choose_goals(sequences.sequence, goal, rng)
    wanted = vectors[number[start]] if isinstance(goal, str) else np.repeat(model.embed(goal[None]), len(start), axis=0)
    before, after = (model.vector_distance(vectors[frames], wanted) for frames in (start, start + 1))
    reward = np.zeros(sequences.num_frames, np.float32)
    with np.errstate(over="ignore"):
        reward[start] = shaping.reward(0.0 if plain is None else plain[start], before, after)
    if not np.isfinite(reward).all():
        raise ValueError("rewards would not be finite; lower --scale, or mend the rewards of the dataset")
    return reward, number


def choose_goals(sequence: np.ndarray, hindsight: str, rng: np.random.Generator) -> np.ndarray:
    """(n,) a goal for every frame: "future", a later one of its sequence (the last frame has itself), or "random"."""
    if hindsight == "random":
        return rng.integers(len(sequence), size=len(sequence))
    left = frames_left(sequence)
    return np.arange(len(sequence)) + np.where(left > 0, 1 + rng.integers(np.maximum(left, 1)), 0)


def npz_names(held: list[str]) -> tuple[str, str]:
    """What rewards and goals are called beside these arrays: OGBench has plurals."""
    return ("rewards", "goals") if set(ogbench_npz.FIELDS) <= set(held) else ("reward", "goal")


def npz_rewards(path: Path) -> np.ndarray | None:
    with np.load(path, allow_pickle=False) as archive:
        reward = archive.get(npz_names(archive.files)[0])
    if reward is not None and (reward.ndim != 1 or reward.dtype.kind not in "fiub"):
        raise ValueError(f"{shown(path)}: rewards must be one number per frame, "
                         f"but came as {reward.dtype} {reward.shape}")
    return reward


def write_npz(dataset: Path, out: Path, reward: np.ndarray, goal: np.ndarray) -> None:
    """All arrays of the archive, unopened, and the new ones."""
    with zipfile.ZipFile(dataset) as source, replacing(out) as temporary:
        held = [name.removesuffix(".npy") for name in source.namelist()]
        fresh: dict[str, Any] = dict(zip(npz_names(held), (reward, goal), strict=True))
        with open(temporary, "wb") as file:  # savez would change the name of a path
            np.savez_compressed(file, **fresh)
        with zipfile.ZipFile(temporary, "a", zipfile.ZIP_DEFLATED) as target:
            for member in source.infolist():
                if member.filename.removesuffix(".npy") not in fresh:
                    with source.open(member) as reading, target.open(member.filename, "w", force_zip64=True) as writing:
                        shutil.copyfileobj(reading, writing, 1 << 20)


def episode_groups(file: Any) -> list[Any]:
    """In the order in which the reader lays them end to end; links are refused, so that no other file is written."""
    source = shown(file.filename)
    groups = [group for _, group in groups_of(file, source)]
    for group in groups:
        for name in ("rewards", "infos", "infos/goal"):
            member(group, name, source)
    return groups


def minari_rewards(path: Path) -> np.ndarray:
    """(n,) one number per frame; the last frame of an episode, which has none, gets 0."""
    with import_extra("h5py").File(minari.data_file(path), "r") as file:
        groups = episode_groups(file)
        if not all("rewards" in group for group in groups):
            raise ValueError(f"{shown(path)}: every episode of a Minari dataset has rewards, but one here has none; "
                             "is it complete?")
        return np.concatenate([np.append(group["rewards"][()], 0.0) for group in groups])


def write_minari(dataset: Path, out: Path, reward: np.ndarray, goal: np.ndarray) -> None:
    folder = minari.data_file(dataset).parent
    folder = folder.parent if folder.name == "data" else folder
    with new_folder(out) as temporary:
        shutil.copytree(folder, temporary, symlinks=True, dirs_exist_ok=True)
        with import_extra("h5py").File(minari.data_file(temporary), "r+") as file:
            first = 0
            for group in episode_groups(file):
                last = first + len(group["rewards"])
                for name, fresh in {"rewards": reward[first:last], "infos/goal": goal[first : last + 1]}.items():
                    group.pop(name, None)
                    group[name] = fresh
                first = last + 1

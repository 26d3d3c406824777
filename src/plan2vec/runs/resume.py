"""Why a fit begins, continues or is refused: what a folder holds already, against what is asked for now."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plan2vec.config import FORMAT_VERSION, Config, differing, to_json
from plan2vec.data import Sequences
from plan2vec.files import is_leftover, write_text
from plan2vec.learning import processes
from plan2vec.learning.gradient_loop import Journal
from plan2vec.runs.changing import LOCK, changing_run, finish_replacement
from plan2vec.runs.folder import MARKER, Run, fingerprint, is_marker, is_run, read_data, write_data
from plan2vec.runs.products import COVERED, FEATURES, MANIFEST, check_files, read_json
from plan2vec.runs.struck import read_judged


@contextmanager
def writing(folder: Path | None) -> Iterator[None]:
    """Hold a folder that a fit writes to, made where it is missing; one that is no run of ours is refused untouched."""
    if folder is None or not processes.is_first():
        yield
        return
    refuse_other_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with changing_run(folder):
        yield


def open_run(folder: Path | None, sequences: Sequences, config: Config, journal: Journal,
             given: Mapping[str, Any]) -> Run:
    """Make or continue a run folder, with frames read from its memory map; one of other data or settings is refused."""
    if folder is None:
        return Run(None, sequences, config, journal, given=given)
    processes.first_does(lambda: prepare_folder(folder, sequences, config))
    return Run(folder, read_data(folder), config, journal, given=given, struck=read_judged(folder).struck)


def prepare_folder(folder: Path, sequences: Sequences, config: Config) -> None:
    """Data and configuration into a new folder; an old one must hold the same."""
    refuse_other_folder(folder)
    settings = {"format_version": FORMAT_VERSION} | to_json(config)
    if is_run(folder):
        finish_replacement(folder)
        _refuse_other_run(folder, sequences, settings)
        if (folder / MANIFEST).exists():
            there = [name for name in (*COVERED, FEATURES) if (folder / name).exists()]  # lost ones are made anew
            check_files(folder, names=there)
    if not (folder / "config.json").exists():  # it is written last, so without it the data is not complete
        write_data(folder, sequences)
        write_text(folder / "config.json", json.dumps(settings, indent=1))


def refuse_other_folder(folder: Path) -> None:
    """A folder that is neither a run nor as good as empty is left alone."""
    if not folder.exists() or is_run(folder):
        return
    if not folder.is_dir() or not all(_is_first_file(path) for path in folder.iterdir()):
        raise ValueError(f"{folder} exists and is no run folder; choose another --out")


def _is_first_file(path: Path) -> bool:
    """Whether a fit that was killed at its very first files left this one."""
    is_ours = (path.name == MARKER and is_marker(path)) or path.name == LOCK
    return is_ours or (path.is_file() and (is_leftover(path, MARKER) or is_leftover(path, "data.json")))


def _refuse_other_run(folder: Path, sequences: Sequences, settings: dict[str, Any]) -> None:
    remedy, there = "choose another --out or delete that folder", folder / "config.json"
    if found := differing(read_json(there), settings) if there.exists() else {}:
        told = ", ".join(f"{name} ({then} there, {given} now)" for name, (then, given) in found.items())
        raise ValueError(f"{folder} holds a run with another configuration: {told}; {remedy}")
    data = read_json(folder / "data.json")
    if added := data.get("added"):
        sources = ", ".join(part["source"] for part in added)
        raise ValueError(f"{folder} is a map of {data['source']} that has grown by {sources} since, "
                         "and is not fitted again; use it as it is, `plan2vec add` more to it, or choose another --out")
    if data["fingerprint"] != fingerprint(sequences):
        raise ValueError(f"{folder} holds a run on other data ({data['source']}); {remedy}")

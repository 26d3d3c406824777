"""Files of a folder, in a person's order; links out of the folder, pipes and loops are not followed."""

import os
import re
import stat
from pathlib import Path

from plan2vec.readers.refusals import shown

OUTSIDE = "a link out of the folder"


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sorts frame2 before frame10."""
    return [(0, int(part), part) if "0" <= part[0] <= "9" and len(part) < 1000 else (1, 0, part.casefold())
            for part in re.findall(r"[0-9]+|[^0-9]+", name)]


def list_files(folder: Path) -> tuple[list[list[Path]], list[tuple[str, str]]]:
    """The files of the folder and of each one below it, sorted, without hidden ones; (name, reason) of unused links."""
    groups, links = [], []
    for root, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted((name for name in folders if not name.startswith(".")), key=natural_key)
        names = sorted((name for name in names if not name.startswith(".")), key=natural_key)
        links += [(shown(name), "a link to a folder") for name in folders if os.path.islink(os.path.join(root, name))]
        files = [Path(root) / name for name in names]
        outside = {file for file in files if os.path.islink(file) and leads_outside(file, folder)}
        links += [(shown(file.name), OUTSIDE) for file in files if file in outside]
        groups.append([file for file in files if file not in outside])
    return groups, links


def _refuse(error: OSError) -> None:
    raise ValueError(f"{shown(error.filename)} cannot be listed ({error.strerror}); give yourself permission to do so")


def leads_outside(path: Path, folder: Path) -> bool:
    """Whether a path ends outside the folder, by its name or through links."""
    root = os.path.realpath(folder)
    return os.path.commonpath((root, os.path.realpath(path))) != root


def why_not_a_file(path: Path, folder: Path | None = None) -> str | None:
    """Why a path cannot be opened as a plain file (of the folder), None if it can: a pipe would hang."""
    if folder is not None and leads_outside(path, folder):
        return OUTSIDE
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "does not exist"
    except (OSError, ValueError) as error:  # a ValueError where a name has bytes of zero
        return f"cannot be looked at: {(getattr(error, 'strerror', None) or str(error)).lower()}"
    return None if stat.S_ISREG(mode) else "not a regular file"


def require_file(path: Path, source: str, folder: Path | None = None) -> None:
    if problem := why_not_a_file(path, folder):
        raise ValueError(f"{source} cannot be opened ({problem}); give a plain file that you may read")


def is_file_of(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.suffix.lower() in suffixes and os.path.exists(path) and not os.path.isdir(path)

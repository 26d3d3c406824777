"""Files of a folder, in the order a person would put them, without ever hanging on links, pipes or loops."""

import os
import re
import stat
from pathlib import Path

from plan2vec.readers.reading import shown

DIGITS = "0123456789"


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sorts frame2 before frame10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [
        (0, int(part), part) if part[0] in DIGITS and len(part) < 1000 else (1, 0, part.casefold()) for part in parts
    ]


def list_files(folder: Path) -> list[tuple[Path, list[Path]]]:
    """(folder, its files) for the folder and all below it, naturally sorted; hidden names are left out, a loop of links
    is entered once.
    """
    found, seen = [], set()
    for root, folders, names in os.walk(folder, followlinks=True, onerror=_refuse):
        identity = os.path.realpath(root)
        if identity in seen:
            folders.clear()
            continue
        seen.add(identity)
        folders[:] = sorted((name for name in folders if not name.startswith(".")), key=natural_key)
        names = sorted((name for name in names if not name.startswith(".")), key=natural_key)
        found.append((Path(root), [Path(root) / name for name in names]))
    return found


def _refuse(error: OSError) -> None:
    raise ValueError(
        f"{shown(error.filename)} cannot be listed ({error.strerror}); give yourself permission to read it"
    )


def why_not_a_file(path: Path) -> str | None:
    """Why a path cannot be opened as a plain file, None if it can: a pipe would hang, a broken link fail."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return (error.strerror or "cannot be opened").lower()
    return None if stat.S_ISREG(mode) else "not a regular file"

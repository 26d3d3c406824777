"""Files that are either whole or not there: written beside their place, flushed, then renamed."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` when the block ends well, and is removed when not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(".*.tmp*"):
        if is_leftover(leftover, path.name):
            leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.umask(mask := os.umask(0))
        os.chmod(temporary, 0o666 & ~mask)  # some libraries write for the owner alone
        os.replace(temporary, path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise OSError(f"{path} cannot be written: {os.strerror(error.errno)}; "
                      "make room and run the same command") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_leftover(path: Path, name: str) -> bool:
    """Whether a process that lives no more left `path` behind, killed while it wrote the file called `name`."""
    made = re.fullmatch(rf"\.{re.escape(name)}\.(\d{{1,9}})\.tmp{re.escape(Path(name).suffix)}", path.name)
    return made is not None and path.is_file() and not path.is_symlink() and not _is_alive(int(made[1]))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # alive, and somebody else's
        return True
    return True


def own_folder(folder: Path, name: str) -> Path:
    """The folder called `name` inside a run folder; a link there would let a run write into other places."""
    inner = folder / name
    if inner.is_symlink() or (inner.exists() and not inner.is_dir()):
        raise ValueError(f"{inner} must be a folder, but is a {'link' if inner.is_symlink() else 'file'}; "
                         "remove it and try again")
    return inner

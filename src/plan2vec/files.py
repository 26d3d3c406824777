"""Files that are either whole or not there: written beside their place, flushed, then renamed."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` when the block ends well, and is removed when not."""
    with _beside(path) as temporary:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.umask(mask := os.umask(0))
        os.chmod(temporary, 0o666 & ~mask)  # some libraries write for the owner alone
        os.replace(temporary, path)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that becomes `path` when the block ends well."""
    with _beside(path) as temporary:
        temporary.mkdir()
        yield temporary
        os.rename(temporary, path)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A free name beside `path`, and free again afterwards; what killed processes left there is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    for leftover in path.parent.glob(".*.tmp*"):
        if is_leftover(leftover, path.name):
            _remove(leftover)
    _remove(temporary)  # a link of this name would be written through
    try:
        yield temporary
    except OSError as error:
        if error.errno is None or not str(error.filename or temporary).startswith(str(temporary)):
            raise  # an error of another file
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "; make room and run the same command" if full else ""
        told = OSError(f"{path} cannot be written: {os.strerror(error.errno)}{remedy}")  # the file, not its neighbour
        told.errno = error.errno
        raise told from None
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)



def read_text(path: Path) -> str:
    """The text of a plain file. What another has put in its place, a pipe for instance, might never end."""
    if not path.is_file():
        raise OSError(f"{path.name} is no plain file")
    return path.read_text(encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_leftover(path: Path, name: str) -> bool:
    """Whether a process that lives no more left `path` behind, killed while it wrote the file called `name`."""
    made = re.fullmatch(rf"\.{re.escape(name)}\.(\d{{1,9}})\.tmp{re.escape(Path(name).suffix)}", path.name)
    if made is None or path.is_symlink():
        return False
    try:
        os.kill(int(made[1]), 0)
    except OSError as error:
        return error.errno == errno.ESRCH  # else alive, and somebody else's
    return False


def own_folder(folder: Path, name: str) -> Path:
    """The folder called `name` inside a run folder; a link there would let a run write into other places."""
    if (inner := folder / name).is_symlink() or (inner.exists() and not inner.is_dir()):
        raise ValueError(f"{inner} must be a folder, but is a {'link' if inner.is_symlink() else 'file'}; remove it")
    return inner

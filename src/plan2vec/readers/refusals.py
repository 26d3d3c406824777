"""What a reader says to its user: refusals in one line, notes about what was left out, names in printable letters."""

import os
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

from plan2vec.config import ReadOptions
from plan2vec.learning.gradient_loop import Journal

SHARE_OF_MEMORY = 0.8  # of the free memory, which recordings may claim
NUM_NAMED = 3  # skipped files that are named
EXTRAS = {"av": ("video", "video"), "h5py": ("HDF5", "formats"), "pyarrow": ("parquet", "formats")}  # reads, comes with
# what libraries raise on damaged files, and what else on damaged archives, pictures and pickles
DAMAGED = (OSError, LookupError, RuntimeError, TypeError, MemoryError, ArithmeticError, AttributeError)
UNREADABLE = (*DAMAGED, ValueError, EOFError, SyntaxError, AssertionError, SystemError, ImportError, struct.error,
              tokenize.TokenError, zipfile.BadZipFile, zlib.error, pickle.UnpicklingError)


@dataclass(frozen=True)
class Reading:
    """One call of `read`: its source, options and progress bar, and the notes it leaves for the user."""

    source: str  # the path that was given, as messages name it
    options: ReadOptions
    journal: Journal
    notes: list[str] = field(default_factory=list)

    def leave_out(self, problems: list[tuple[str, str]], total: int, things: str, remedy: str,
                  others: list[tuple[str, str]] | None = None) -> None:
        """Refuses recordings of which more than half cannot be read, else notes what was left out, with other files."""
        if 2 * len(problems) > total:
            raise ValueError(f"{self.source}: {len(problems)} of {total} {things} cannot be read: "
                             f"{name_some(problems)}; {remedy}")
        if skipped := [*problems, *(others or ())]:
            among = f"{total} {things}" if others is None else f"{total + len(others)} files"
            self.notes.append(f"{len(skipped)} of {among} skipped: {name_some(skipped)}")

    def require_no_rate(self) -> None:
        if self.options.rate is not None:
            raise ValueError(f"{self.source}: --rate needs recordings with time, such as video; use --every here")


def name_some(pairs: list[tuple[str, str]]) -> str:
    """The first few as "name (reason)", and how many more."""
    named = ", ".join(f"{name} ({reason})" for name, reason in pairs[:NUM_NAMED])
    return named + (f" and {len(pairs) - NUM_NAMED} more" if len(pairs) > NUM_NAMED else "")


def shown(path: str | Path) -> str:
    """A path as one line of printable text, whatever bytes its name holds."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(path))


def first_line(error: BaseException) -> str:
    return shown(" ".join((str(error).strip() or type(error).__name__).split())[:400])


@contextmanager
def refusing(source: str, errors: tuple[type[BaseException], ...], what: str, remedy: str = "") -> Iterator[None]:
    """Turns whatever a damaged file makes a library raise into one ValueError: SOURCE WHAT (the error); REMEDY."""
    try:
        yield
    except errors as error:
        if str(error).startswith(source):
            raise
        raise ValueError(f"{source} {what} ({first_line(error)}){remedy and f'; {remedy}'}") from None


def import_extra(module: str) -> ModuleType:
    """A module that comes with an optional extra of this package; the refusal says how to install it."""
    content, extra = EXTRAS[module.split(".")[0]]
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ValueError(f"reading {content} needs the extra [{extra}]: pip install 'plan2vec[{extra}]'") from None


def require_memory(source: str, num_bytes: int) -> None:
    """Refuses what claims more memory than is free, before any of it is read."""
    if num_bytes > SHARE_OF_MEMORY * (free := available_memory()):
        raise ValueError(f"{source} claims {num_bytes / 1e9:,.1f} GB of arrays, but only {free / 1e9:,.1f} GB of "
                         "memory are free; is it damaged? Else split it or give frames as a folder of images")


def available_memory() -> int:
    """Bytes that can be had without swapping; all that the machine has where that is not known."""
    with suppress(OSError, IndexError, ValueError):
        return 1024 * int(Path("/proc/meminfo").read_text(encoding="ascii").split("MemAvailable:")[1].split()[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4 << 30

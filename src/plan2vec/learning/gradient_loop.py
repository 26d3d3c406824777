"""The only gradient loop, of every stage that learns: schedule, progress, log, checkpoints.

The batch of an update is a function of the update's number alone (`rng_at`). So a checkpoint needs no random state, and
a killed run that continues gives the same bytes as one never killed. Several processes cut the same batch into shares:
their number changes the result by rounding only, and may change in between."""

import copy
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from plan2vec.files import own_folder, replacing
from plan2vec.learning.adam import Adam, State
from plan2vec.learning.captured import CapturedUpdate, Step
from plan2vec.learning.processes import agree, first_does

NUM_LOG_LINES = 100  # lines in metrics.jsonl per stage
M = TypeVar("M", bound=nn.Module)
WARM_UP = 0.05  # share of the updates in which the learning rate rises
LINE_SECONDS = 30.0  # between two lines of progress, where there is no terminal for a bar
LOGGER = logging.getLogger("plan2vec")


class PlainHandler(logging.Handler):
    """Lines of the log as they are, on what is standard error now."""

    def emit(self, record: logging.LogRecord) -> None:
        Console(stderr=True, highlight=False).print(self.format(record), markup=False, soft_wrap=True)


def show_log(is_program: bool = False) -> None:
    """The log on standard error, unless it goes elsewhere already; what `is_program` shows it there in any case."""
    if LOGGER.level == logging.NOTSET:
        LOGGER.setLevel(logging.INFO)
    shows = any(isinstance(handler, PlainHandler) for handler in LOGGER.handlers)
    if not shows and (is_program or not LOGGER.hasHandlers()):
        LOGGER.addHandler(PlainHandler())


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def progress_lines(label: str, total: int, unit: str) -> Callable[[int], None]:
    """Called with the work done so far, it tells every 30 s how far it is and how long the rest will take."""
    calls: list[tuple[float, int]] = []  # time and work done: of the first call, and of those that told

    def tell(done: int) -> None:
        now = time.monotonic()
        if not calls or (now - calls[-1][0] >= LINE_SECONDS and done < total):
            calls.append((now, done))
            began, before = calls[0]
            left = (now - began) / max(1, done - before) * (total - done)
            if len(calls) > 1:
                LOGGER.info(f"{label} {done:,} of {total:,}{unit}, about {duration(left)} left")

    return tell


@dataclass(frozen=True)
class Journal:
    """Where a run tells how it goes: log, progress, metrics.jsonl, checkpoints. Without a folder it writes no file."""

    folder: Path | None = None
    show_progress: bool = False  # on standard error: the log, and how far each stage is
    checkpoint_seconds: float = 10.0  # time between two checkpoints
    logs: bool = False  # what is said goes to the logger "plan2vec"

    def say(self, text: str) -> None:
        if self.show_progress:
            show_log()
        if self.logs or self.show_progress:
            LOGGER.log(logging.WARNING if text.startswith("warning:") else logging.INFO, text)

    def record(self, **values: object) -> None:
        if self.folder:
            path = self.folder / "metrics.jsonl"
            if path.is_symlink():
                raise ValueError(f"{path} must be a file, but is a link, and what it leads to is not written to; "
                                 "remove it and try again")
            with open(path, "a+b") as file:
                if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
                    file.write(b"\n")  # a kill cut the line before
                file.write(json.dumps(values).encode() + b"\n")

    def records(self) -> list[dict]:
        """The lines of metrics.jsonl; one that a kill has cut, or that is damaged, is passed over."""
        path = self.folder / "metrics.jsonl" if self.folder else None
        text = path.read_text(encoding="utf-8", errors="replace") if path and path.is_file() else ""
        found = []
        for line in text.splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return [values for values in found if isinstance(values, dict) and "stage" in values]

    def checkpoint(self, stage: str) -> Path | None:
        return own_folder(self.folder, "checkpoints") / f"{stage}.safetensors" if self.folder else None

    @contextmanager
    def bar(self, label: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        """Calls of the yielded function with the work done so far move a bar; lines where none can be drawn."""
        console = Console(stderr=True)
        if self.show_progress and not (console.is_terminal or console.is_jupyter):
            show_log()
            yield progress_lines(label, total, unit)
            return
        columns = (TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=not self.show_progress) as progress:
            task = progress.add_task(label, total=total)
            yield lambda done: progress.update(task, completed=done)


def train(module: nn.Module, loss_at: Callable[[int], Tensor], num_updates: int, learning_rate: float, stage: str,
          journal: Journal) -> None:
    """Minimizes loss_at(0), loss_at(1), ... over the module's parameters with Adam; continues from a checkpoint."""
    optimizer = Adam([p for p in module.parameters() if p.requires_grad], learning_rate)
    checkpoint = journal.checkpoint(stage)
    first = _continue(first_does(lambda: _read_checkpoint(checkpoint)), module, optimizer)
    if first:
        journal.say(f"{stage.replace('_', ' ')} continues at update {first:,} of {num_updates:,}")
    agree(module)
    began = last_saved = time.monotonic()
    log_every = max(1, num_updates // NUM_LOG_LINES)
    module.train()
    captured = CapturedUpdate(loss_at, optimizer) if isinstance(loss_at, Step) and loss_at.can_be_captured else None
    with journal.bar(stage.replace("_", " "), num_updates, " updates") as advance:
        for update in range(first, num_updates):
            optimizer.set_rate(learning_rate * schedule(update / num_updates))
            loss = captured(update) if captured else optimizer.update(partial(loss_at, update))
            if update % log_every == 0:
                if journal.folder:
                    journal.record(stage=stage, update=update, loss=round(loss.item(), 6))
                advance(update)
            if checkpoint and time.monotonic() - last_saved > journal.checkpoint_seconds:
                _save_checkpoint(checkpoint, module, optimizer, update + 1)
                last_saved = time.monotonic()
        advance(num_updates)
    if checkpoint and time.monotonic() - began > journal.checkpoint_seconds:  # what follows may be killed, too
        _save_checkpoint(checkpoint, module, optimizer, num_updates)
    optimizer.zero_grad()
    agree(module)
    module.eval()


def frozen_copy(module: M) -> M:
    """A target network: the same weights, in evaluation mode, never trained itself."""
    return copy.deepcopy(module).requires_grad_(False).eval()


@torch.no_grad()
def move_towards(target: nn.Module, module: nn.Module, share: float) -> None:
    """Polyak averaging: the target's weights go this share of the way to the module's; its statistics are copied."""
    target.eval()  # what trains it as a part sets its mode too
    for slow, fast in zip(target.parameters(), module.parameters(), strict=True):
        slow.lerp_(fast, share)
    for old, new in zip(target.buffers(), module.buffers(), strict=True):
        old.copy_(new)


def schedule(progress: float) -> float:
    """Factor on the learning rate: a short linear warm-up, then half a cosine down to 0."""
    return min(1.0, (progress + 1e-3) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * progress))


def _save_checkpoint(path: Path, module: nn.Module, optimizer: Adam, update: int) -> None:
    tensors = {f"module.{name}": tensor.contiguous().clone() for name, tensor in module.state_dict().items()}
    for number, state in optimizer.state().items():
        tensors |= {f"optimizer.{number}.{name}": value.contiguous() for name, value in state.items()}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"update": str(update)})


def _read_checkpoint(path: Path | None) -> tuple[dict[str, Tensor], int]:
    """The tensors of a checkpoint and the update it continues with; of none: nothing and the first."""
    if path is None or not path.exists():
        return {}, 0
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, int(file.metadata()["update"])


def _continue(checkpoint: tuple[dict[str, Tensor], int], module: nn.Module, optimizer: Adam) -> int:
    """Module and optimizer as they were; returns the update to go on with."""
    tensors, update = checkpoint
    of_optimizer: State = {}
    for name in [name for name in tensors if name.startswith("optimizer.")]:
        _, number, key = name.split(".")
        of_optimizer.setdefault(int(number), {})[key] = tensors.pop(name)
    if tensors:
        module.load_state_dict({name.removeprefix("module."): tensor for name, tensor in tensors.items()})
        optimizer.load_state(of_optimizer)
    return update

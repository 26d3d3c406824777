"""Several processes that fit one map, on one machine or many: `torchrun --nproc-per-node N -m plan2vec fit ...`.

All run the same program in step (`together`). They share what can be cut, and each has the whole answer:

    in_shares       a tensor with gradients: the encodings of an update
    concatenated    an array: tiles of neighbours, sources of shortest distances, batches of frames
    first_does      what must happen once, such as writing a file; the others wait for the answer, or the error

Alone, which is the default, all of this is a plain call. Inside `first_does` the first process is alone too."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from itertools import pairwise
from typing import NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

A = TypeVar("A")
PATIENCE = timedelta(hours=4)  # for a process that is busy; one that ended is noticed at once
START = timedelta(minutes=5)  # for all processes to have started
LINGER = 2.0  # seconds that the first process gives the others to end, when the run fails
_alone: ContextVar[bool] = ContextVar("alone", default=False)  # the first process in `first_does`; the others wait


class OtherProcessError(Exception):
    """This process ends because another one did, which has told the user why."""


def size() -> int:
    """How many processes work in step now."""
    return dist.get_world_size() if dist.is_initialized() and not _alone.get() else 1


def is_first() -> bool:
    """True in one process of all: the one that writes and speaks."""
    return not dist.is_initialized() or dist.get_rank() == 0


def _share(num: int) -> slice:
    """The part of `num` things that this process works on; the parts differ by one at most."""
    rank, num_processes = dist.get_rank(), dist.get_world_size()
    return slice(rank * num // num_processes, (rank + 1) * num // num_processes)


def asked_size() -> int:
    """How many processes torchrun (or whoever sets its variables) started."""
    return _environment("WORLD_SIZE", 1)


@contextmanager
def together(device: str) -> Iterator[None]:
    """Work in step with the processes started with this one. If an error ends them all, one tells the user."""
    if asked_size() == 1:
        yield
        return
    store = _join(device)
    try:
        yield
        with _in_step():
            dist.barrier()
        dist.destroy_process_group()
    except (ValueError, OSError) as error:
        if _leave(store):
            raise OtherProcessError from error
        raise
    except KeyboardInterrupt:
        if is_first():
            raise
        raise SystemExit(130) from None


def _leave(store: dist.Store) -> bool:
    """Ends the work of all processes; whether another one has told the user already why."""
    try:
        is_said = store.add("errors", 1) > 1
    except RuntimeError:
        return True  # the first process held the store, and has ended
    waits = is_first()
    if not torch.cuda.is_available():  # nccl would wait for the others; they notice when this process ends
        dist.destroy_process_group()
    limit = time.monotonic() + LINGER
    while waits and store.add("errors", 0) < asked_size() and time.monotonic() < limit:
        time.sleep(0.02)  # for the others to read the store, which may end with this process
    return is_said


def _join(device: str) -> dist.Store:
    """Into the world of torchrun's environment variables. The store is shared even with processes that ended."""
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ValueError(f"WORLD_SIZE is {asked_size()} but {', '.join(missing)} not set; "
                         "start with torchrun, or unset WORLD_SIZE")
    if device == "mps":
        refuse("several processes need --device cpu or cuda, but it is mps")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        num_here, num_gpus = _environment("LOCAL_WORLD_SIZE", 1), torch.cuda.device_count()
        if num_here > num_gpus:
            refuse(f"{num_here} processes need a GPU each, but there are {num_gpus}; use --nproc-per-node {num_gpus}")
        torch.cuda.set_device(_environment("LOCAL_RANK", 0))
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    try:
        store, rank, number = next(iter(dist.rendezvous("env://", timeout=START)))
        dist.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=number)
    except RuntimeError as error:
        raise ValueError(f"the {asked_size()} processes of this run do not find each other "
                         f"({_first_sentence(error)})") from None
    return store


def refuse(text: str) -> NoReturn:
    """Of processes that have not joined yet: the first on a machine tells why they end."""
    if _environment("LOCAL_RANK", 0) > 0:
        raise OtherProcessError
    raise ValueError(text)


def _environment(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"the environment variable {name} must be a whole number, but is {text!r}; "
                         "start with torchrun, or unset it")
    return int(text)


def _first_sentence(error: RuntimeError) -> str:
    return str(error).strip().split("\n")[0].split(". ")[0]


@contextmanager
def _in_step() -> Iterator[None]:
    """Around everything that waits for the other processes."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(f"another process of this run has ended or is silent ({_first_sentence(error)}); "
                         "the same command continues where it was") from None


def first_does(work: Callable[[], A]) -> A:
    """What `work` gives in the first process, in all of them; or a ValueError in all of them."""
    if size() == 1:
        return work()
    told: list = [None, None]  # the answer, and what went wrong
    error: Exception | None = None
    if is_first():
        token = _alone.set(True)
        try:
            told[0] = work()
        except (ValueError, OSError) as caught:
            error, told[1] = caught, str(caught)
        finally:
            _alone.reset(token)
    with _in_step():
        dist.broadcast_object_list(told, src=0)
    if told[1] is not None:
        raise error or ValueError(told[1])
    return told[0]


def concatenated(items: Sequence[A], compute: Callable[[A], np.ndarray]) -> np.ndarray:
    """np.concatenate of compute(item) for all items, each process computing a share: the same bytes for any number."""
    if size() == 1:
        return np.concatenate([compute(item) for item in items])
    mine = [compute(item) for item in items[_share(len(items))]]
    array = np.concatenate(mine) if mine else None
    layouts: list = [None] * size()
    with _in_step():
        dist.all_gather_object(layouts, None if array is None else (array.shape, array.dtype))
    shape, dtype = next(layout for layout in layouts if layout is not None)
    ends = np.cumsum([0 if layout is None else layout[0][0] for layout in layouts])
    whole = np.empty((ends[-1], *shape[1:]), dtype)
    for rank, (first, last) in enumerate(pairwise((0, *ends.tolist()))):
        if dist.get_rank() == rank and array is not None:
            whole[first:last] = array
        if first < last:
            with _in_step():
                dist.broadcast(torch.from_numpy(whole[first:last].view(np.uint8)), src=rank)
    return whole


def in_shares(num: int, compute: Callable[[slice], Tensor], at_once: int | None) -> Tensor:
    """[num, ...] compute(slice(0, num)), each process computing some rows; gradients as if one had computed all. More
    rows than `at_once` are computed a piece at a time, and once more for the gradient: memory stays bounded. None: rows
    depend on each other, as where a network normalizes over its batch, so every process computes all of them. Every
    process computes the same loss from all rows, so a row's gradient counts once per process: `average_gradients`."""
    is_shared = 1 < size() <= num and at_once is not None
    rows = _share(num) if is_shared else slice(0, num)
    if at_once is None or rows.stop - rows.start <= at_once:
        mine = compute(rows)
    else:
        pieces = [slice(*piece) for piece in pairwise((*range(rows.start, rows.stop, at_once), rows.stop))]
        mine = torch.cat([checkpoint(compute, some, use_reentrant=False, preserve_rng_state=False) for some in pieces])
    return _Total.apply(F.pad(mine, (*(0, 0) * (mine.ndim - 1), rows.start, num - rows.stop))) if is_shared else mine


class _Total(torch.autograd.Function):
    """[...] -> [...]: the sum over all processes, each of which goes on to use it."""

    @staticmethod
    def forward(context, mine: Tensor) -> Tensor:
        return _summed(mine)

    @staticmethod
    def backward(context, gradient: Tensor):
        return _summed(gradient)


def _summed(tensor: Tensor) -> Tensor:
    tensor = tensor.contiguous().clone()
    with _in_step():
        dist.all_reduce(tensor)
    return tensor


@torch.no_grad()
def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Gradients of an update, the same in every process afterwards."""
    if size() == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    means = _summed(torch.cat([gradient.flatten() for gradient in gradients])) / size()
    for gradient, mean in zip(gradients, means.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


@torch.no_grad()
def agree(module: nn.Module) -> None:
    """Parameters and buffers of the first process, in all of them."""
    if size() > 1:
        for tensor in module.state_dict().values():
            whole = tensor.contiguous()
            with _in_step():
                dist.broadcast(whole, src=0)
            tensor.copy_(whole)

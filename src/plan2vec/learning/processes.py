"""Several processes that fit one map, on one machine or many: `torchrun --nproc-per-node N -m plan2vec fit ...`.

All run the same program in step (`together`). They share what can be cut, and each has the whole answer:

    in_shares       a tensor with gradients: the encodings of an update
    concatenated    an array: tiles of neighbours, sources of shortest distances, batches of frames
    first_does      what must happen once, such as writing a file; the others wait for the answer, or the error
    spread          pieces that the first hands out while the others wait: pictures to decode

Alone, which is the default, all of this is a plain call. Inside `first_does` the first process is alone too.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

A = TypeVar("A")
B = TypeVar("B")
PATIENCE = timedelta(hours=4)  # for a process that is busy; one that ended is noticed at once
START = timedelta(minutes=5)  # for all processes to have started
LINGER = 2.0  # seconds that the first process gives the others to end, when the run fails


@dataclass(frozen=True)
class World:
    """Which of how many processes this one is."""

    rank: int = 0
    size: int = 1
    store: dist.Store | None = None  # a few words that all processes share, even with one that ended
    helpers: "World | None" = None  # of the first process in `first_does`: the world that waits for it

    def share(self, num: int) -> slice:
        """The part of `num` things that this process works on; the parts differ by one at most."""
        return slice(self.rank * num // self.size, (self.rank + 1) * num // self.size)


class OtherProcessError(Exception):
    """This process ends because another one did, which has told the user why."""


ALONE = World()
_world: ContextVar[World] = ContextVar("world", default=ALONE)


def size() -> int:
    return _world.get().size


def is_first() -> bool:
    """True in one process of all: the one that writes and speaks."""
    return _world.get().rank == 0


def asked_size() -> int:
    """How many processes torchrun (or whoever sets its variables) started."""
    return _environment("WORLD_SIZE", 1)


@contextmanager
def together(device: str) -> Iterator[None]:
    """Work in step with the processes started with this one. If an error ends them all, one tells the user."""
    if asked_size() == 1:
        yield
        return
    token = _world.set(_join(device))
    try:
        yield
        with _in_step():
            dist.barrier()
        dist.destroy_process_group()
    except (ValueError, OSError) as error:
        if _leave(_world.get()):
            raise OtherProcessError from error
        raise
    except KeyboardInterrupt:
        if is_first():
            raise
        raise SystemExit(130) from None
    finally:
        _world.reset(token)


def _leave(world: World) -> bool:
    """Ends the work of all processes; whether another one has told the user already why."""
    assert world.store is not None
    try:
        is_said = world.store.add("errors", 1) > 1
    except RuntimeError:
        return True  # the first process held the store, and has ended
    if not torch.cuda.is_available():  # nccl would wait for the others; they notice when this process ends
        dist.destroy_process_group()
    limit = time.monotonic() + LINGER
    while world.rank == 0 and world.store.add("errors", 0) < world.size and time.monotonic() < limit:
        time.sleep(0.02)  # for the others to read the store, which may end with this process
    return is_said


def _join(device: str) -> World:
    """The world of torchrun's environment variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT."""
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
    try:
        store, rank, number = next(iter(dist.rendezvous("env://", timeout=START)))
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        dist.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=number)
    except RuntimeError as error:
        raise ValueError(f"the {asked_size()} processes of this run do not find each other "
                         f"({_first_sentence(error)})") from None
    return World(rank, number, store)


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
    world = _world.get()
    if world.size == 1:
        return work()
    while world.rank > 0:  # helps wherever the first process spreads work, until it has its answer
        function, message, problem = _tell(None)
        if problem is not None:
            raise ValueError(problem)
        if function is None:
            return message
        _do_share(world, function, message)
    token = _world.set(World(helpers=world))
    try:
        answer = work()
    except (ValueError, OSError) as error:
        _tell((None, None, str(error)))
        raise
    finally:
        _world.reset(token)
    _tell((None, answer, None))
    return answer


def _tell(message: object):
    box = [message]
    with _in_step():
        dist.broadcast_object_list(box, src=0)
    return box[0]


def num_helpers() -> int:
    """In how many processes `spread` works now."""
    helpers = _world.get().helpers
    return helpers.size if helpers else 1


def spread(function: Callable[[list[A]], list[B]], items: list[A]) -> list[B]:
    """function(items), which can be pickled, each process doing a part of the items; asked for inside `first_does`."""
    helpers = _world.get().helpers
    if helpers is None:
        return function(items)
    _tell((function, items, None))
    return _do_share(helpers, function, items)


def _do_share(world: World, function: Callable[[list[A]], list[B]], items: list[A]) -> list[B]:
    """The results of this process's share; the first one gets all of them, or the first error."""
    try:
        mine, error = function(items[world.share(len(items))]), None
    except (ValueError, OSError) as found:
        mine, error = [], str(found)
    shares: list = [None] * world.size
    with _in_step():
        dist.gather_object((mine, error), shares if world.rank == 0 else None)
    if world.rank > 0:
        return mine
    for _, error in shares:
        if error is not None:
            raise ValueError(error)
    return [result for results, _ in shares for result in results]


def concatenated(items: Sequence[A], compute: Callable[[A], np.ndarray]) -> np.ndarray:
    """np.concatenate of compute(item) for all items, each process computing a share: the same bytes for any number."""
    mine = [compute(item) for item in items[_world.get().share(len(items))]]
    if size() == 1:
        return np.concatenate(mine)
    array = np.concatenate(mine) if mine else None
    layouts: list = [None] * size()
    with _in_step():
        dist.all_gather_object(layouts, None if array is None else (array.shape, array.dtype))
    shape, dtype = next(layout for layout in layouts if layout is not None)
    ends = np.cumsum([0 if layout is None else layout[0][0] for layout in layouts])
    whole = np.empty((ends[-1], *shape[1:]), dtype)
    for rank, (first, last) in enumerate(pairwise((0, *ends.tolist()))):
        if _world.get().rank == rank and array is not None:
            whole[first:last] = array
        if first < last:
            with _in_step():
                dist.broadcast(torch.from_numpy(whole[first:last].view(np.uint8)), src=rank)
    return whole


class _Whole(torch.autograd.Function):
    """[share, ...] -> [num, ...]: the rows of all processes.

    Every process computes the same loss from them, so the gradient of a share is known where the share is. It counts
    `size` times because gradients of parameters are then averaged over the processes.
    """

    @staticmethod
    def forward(context, mine: Tensor, num: int) -> Tensor:
        context.part, context.size = _world.get().share(num), size()
        whole = mine.new_zeros(num, *mine.shape[1:])
        whole[context.part] = mine
        return _summed(whole)

    @staticmethod
    def backward(context, gradient: Tensor):
        return context.size * gradient[context.part], None


def in_shares(num: int, compute: Callable[[slice], Tensor], at_once: int | None = None) -> Tensor:
    """[num, ...] compute(slice(0, num)), each process computing some rows; gradients as if one had computed all.

    More rows than `at_once` are computed a piece at a time, and once more for the gradient: memory stays bounded.
    """
    if size() == 1 or num < size():
        return _in_pieces(compute, slice(0, num), at_once)
    return _Whole.apply(_in_pieces(compute, _world.get().share(num), at_once), num)


def _in_pieces(compute: Callable[[slice], Tensor], rows: slice, at_once: int | None) -> Tensor:
    if at_once is None or rows.stop - rows.start <= at_once:
        return compute(rows)
    limits = [*range(rows.start, rows.stop, at_once), rows.stop]
    pieces = [slice(*piece) for piece in pairwise(limits)]
    return torch.cat([checkpoint(compute, piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces])


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


def total(mine: Tensor) -> Tensor:
    """The sum of a tensor over all processes, with gradients."""
    return mine if size() == 1 else _Total.apply(mine)


@torch.no_grad()
def average_gradients(module: nn.Module) -> None:
    """Gradients of an update, the same in every process afterwards."""
    if size() == 1:
        return
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
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

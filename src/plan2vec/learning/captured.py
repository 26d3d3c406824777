"""Updates of the gradient loop on a GPU, recorded once and replayed: Python is slower than a small network.

The host draws (`Step.draw`). What the device makes of it (`Step.loss`), its gradient and Adam's step become one CUDA
graph. What was drawn is copied to where the graph reads it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from plan2vec.learning.adam import Adam
from plan2vec.learning.frame_tensors import Array, FrameTensors
from plan2vec.learning.processes import size

ALIGNED = 16  # bytes at which the numbers of an array may begin
NUM_BEFORE = 3  # updates made eagerly first: libraries choose their algorithms in them


@dataclass(frozen=True)
class Step:
    """The loss of an update: `loss(*draw(update))`. The arrays drawn have the same shapes in every update."""

    draw: Callable[[int], tuple[Array, ...]]
    loss: Callable[..., Tensor]  # reads nothing that changes but these arrays and tensors that stay where they are
    images: FrameTensors

    def __call__(self, update: int) -> Tensor:
        return self.loss(*self.draw(update))

    @property
    def can_be_captured(self) -> bool:
        return self.images.resident is not None and size() == 1


class CapturedUpdate:
    """Makes updates of the parameters that an optimizer holds: three eagerly, then by replaying a CUDA graph."""

    def __init__(self, step: Step, optimizer: Adam):
        self.step, self.optimizer, self.num_made, self.beside = step, optimizer, 0, torch.cuda.Stream()
        self.inputs: tuple[Tensor, ...] = ()
        self.parcel = torch.empty(0)  # bytes on the device, in which those inputs lie that the host draws

    def __call__(self, update: int) -> Tensor:
        """The loss before the update; its value changes with the next one."""
        self._feed(self.step.draw(update))
        self.num_made += 1
        if self.num_made > NUM_BEFORE:
            graph, loss = self.captured
            graph.replay()
            return loss
        self.beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.beside):
            loss = self._make()
        torch.cuda.current_stream().wait_stream(self.beside)
        return loss

    def _feed(self, drawn: tuple[Array, ...]) -> None:
        """What the host drew goes to the device in one copy: each of several would keep the next update waiting."""
        tensors = [torch.as_tensor(numbers) for numbers in drawn]
        from_host = [numbers for numbers in tensors if not numbers.is_cuda]
        if not self.inputs:
            self.parcel = torch.empty(parcel_size(*from_host), dtype=torch.uint8, device=self.step.images.device)
            slots = unpacked(self.parcel, from_host)
            self.inputs = tuple(torch.empty_like(numbers) if numbers.is_cuda else next(slots) for numbers in tensors)
        sent = torch.empty(len(self.parcel), dtype=torch.uint8, pin_memory=True)
        for slot, numbers in zip(unpacked(sent, from_host), from_host, strict=True):
            slot.copy_(numbers)
        self.parcel.copy_(sent, non_blocking=True)
        for slot, numbers in zip(self.inputs, tensors, strict=True):
            if numbers.is_cuda:
                slot.copy_(numbers)

    def _make(self) -> Tensor:
        return self.optimizer.update(lambda: self.step.loss(*self.inputs))

    @cached_property
    def captured(self) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad()
        try:
            with torch.cuda.graph(graph):
                loss = self._make()
        except RuntimeError as error:
            reason = str(error.__context__ or error).splitlines()[0]  # the end of a capture that failed fails too
            raise ValueError(f"an update cannot be recorded on the GPU ({reason}); a network must not ask for values "
                             "while it computes, as .item() does") from error
        return graph, loss


def parcel_size(*tensors: Tensor) -> int:
    """Bytes that hold all of these side by side, each where memory may be read as any kind of number."""
    return sum(-(-tensor.nbytes // ALIGNED) * ALIGNED for tensor in tensors)


def unpacked(parcel: Tensor, like: Sequence[Tensor]) -> Iterator[Tensor]:
    """Tensors of these shapes and kinds that lie side by side in a parcel of bytes."""
    first = 0
    for tensor in like:
        yield parcel[first : first + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        first += parcel_size(tensor)

"""Torch's Adam with what a captured update on a GPU needs: one kernel, a rate on the device, work for the whole GPU.

Torch's fused kernel gives 65,536 numbers to one of a hundred multiprocessors. So parameters of a small network are cut
into pieces, which keep many of them busy. A checkpoint knows nothing of pieces."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from plan2vec.learning.processes import average_gradients

PIECE = 8192  # numbers of a piece
MOST_NUMBERS = 2**21  # a larger network keeps the GPU busy as it is

State = dict[int, dict[str, Tensor]]  # by the parameter's number and the name of what Adam remembers of it


class Adam:
    """Adam over these parameters; on a GPU its updates can be captured. `piece`: numbers of a piece; 0: uncut."""

    def __init__(self, parameters: Iterable[Tensor], rate: float, piece: int | None = None):
        self.parameters = list(parameters)
        is_cuda, num = self.parameters[0].is_cuda, sum(parameter.numel() for parameter in self.parameters)
        self.piece = (PIECE if is_cuda and num <= MOST_NUMBERS else 0) if piece is None else piece
        self.pieces = [self._cut(parameter) for parameter in self.parameters]
        first_rate = torch.tensor(rate, device=self.parameters[0].device) if is_cuda else rate
        parts = [part for parts in self.pieces for part in parts]
        self.inner = torch.optim.Adam(parts, first_rate, fused=is_cuda, capturable=is_cuda)

    def _cut(self, parameter: Tensor) -> list[Tensor]:
        """The parameter itself, or its numbers in pieces that share its memory."""
        if not self.piece or parameter.numel() <= self.piece:
            return [parameter]
        return [part.requires_grad_() for part in parameter.detach().view(-1).split(self.piece)]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        for parameter, parts in zip(self.parameters, self.pieces, strict=True):
            if len(parts) > 1 and parameter.grad is not None:
                for part, gradient in zip(parts, parameter.grad.reshape(-1).split(self.piece), strict=True):
                    part.grad = gradient
        self.inner.step()

    def update(self, compute: Callable[[], Tensor]) -> Tensor:
        """One update by the gradient of the loss that `compute` gives, in all processes; the loss before it."""
        self.zero_grad()
        loss = compute()
        loss.backward()
        average_gradients(self.parameters)
        self.step()
        return loss.detach()

    def set_rate(self, rate: float) -> None:
        for group in self.inner.param_groups:
            group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate

    def state(self) -> State:
        """What Adam remembers of every parameter that it has moved, in the parameter's shape."""
        known = {number: [self.inner.state[part] for part in parts] for number, parts in enumerate(self.pieces)}
        return {number: {name: _joined([part[name] for part in parts], self.parameters[number]) for name in parts[0]}
                for number, parts in known.items() if parts[0]}

    def load_state(self, state: State) -> None:
        cut: list[dict[str, Tensor]] = []  # what is remembered of each part, as tensors of their own
        for number, num in enumerate(map(len, self.pieces)):
            parts = {name: value.reshape(-1).split(self.piece) if value.ndim and num > 1 else [value] * num
                     for name, value in state.get(number, {}).items()}
            cut += [{name: part[place].clone() for name, part in parts.items()} for place in range(num)]
        loaded = {number: part for number, part in enumerate(cut) if part}
        self.inner.load_state_dict({"state": loaded, "param_groups": self.inner.state_dict()["param_groups"]})


def _joined(parts: list[Tensor], whole: Tensor) -> Tensor:
    """One value of all parts in the parameter's shape; the number of steps is the same in all."""
    return torch.cat([part.reshape(-1) for part in parts]).view_as(whole) if parts[0].ndim else parts[0]

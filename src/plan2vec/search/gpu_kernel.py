"""Shortest distances from many sources as two small GPU kernels (Triton), repeated until no node has anything to tell.

A tile is a few sources that lie near each other. Their distances of one node fill one sector of memory:

    distance  [tiles, nodes, tile]   steps from each source, as the bits of a float32 (they sort as the numbers do)
    pending   [tiles, nodes]         the node's least distance that its neighbours have not been told; inf: none

`_select` lists the nodes (of a tile) whose pending distance is at most a little above the least one of the tile.
`_relax` has each of them offer its distances to its neighbours. Far nodes wait (delta-stepping, Meyer and Sanders,
2003): a node then tells its neighbours a few times, not in each of hundreds of sweeps.

Programs race, which does no harm: distances only fall, and a node that falls during `_relax` is pending in the next
`_select`. The end is the least sum over all paths, each summed from its source on: the same bytes in any order. The
host asks only every few sweeps whether anything is pending, so the device need not wait for it."""

from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from plan2vec.search.gpu_search import DeviceGraph

INFINITE = tl.constexpr(0x7F800000)  # the bits of inf
NODES_AT_ONCE = 1024  # that a program of `_select` looks at


@dataclass(frozen=True)
class Tuning:
    tile: int = 8  # sources side by side, a power of two: 8 float32 are a sector of memory
    edges_at_once: int = 64  # neighbours that a program offers its row to at once, a power of two
    reach: float = 4.0  # nodes wait that lie this many mean edges above their tile's least pending distance
    sweeps_at_once: int = 16  # before the host looks whether anything is pending
    num_warps: int = 1  # of 32 threads, per program
    programs_per_core: int = 32  # of `_relax`, per multiprocessor


@triton.jit(do_not_specialize=["sweep"])
def _select(pending, least, queue, count, reach, num_nodes, sweep, block: tl.constexpr):
    """Nodes within reach of what was the tile's least pending distance a sweep ago go into the queue."""
    tile, num_tiles = tl.program_id(1), tl.num_programs(1)
    node = tl.program_id(0) * block + tl.arange(0, block)
    address = pending + tile.to(tl.int64) * num_nodes + node
    bits = tl.load(address, mask=node < num_nodes, other=INFINITE)
    lowest = tl.min(bits, 0)
    if lowest < INFINITE:
        tl.atomic_min(least + (sweep + 1) * num_tiles + tile, lowest, sem="relaxed")
        limit = tl.load(least + sweep * num_tiles + tile).to(tl.float32, bitcast=True) + reach
        ready = (bits.to(tl.float32, bitcast=True) <= limit) & (bits < INFINITE)
        one = ready.to(tl.int32)
        first = tl.atomic_add(count + sweep, tl.sum(one, 0), sem="relaxed")
        tl.store(queue + first + tl.cumsum(one, 0) - one, tile * num_nodes + node, mask=ready)
        tl.store(address, INFINITE, mask=ready)


@triton.jit(do_not_specialize=["sweep"])
def _relax(distance, pending, queue, count, indptr, indices, weights, num_nodes, sweep, tile_size: tl.constexpr,
           edges_at_once: tl.constexpr):
    """Every node of the queue offers (its distance + edge) to its neighbours; those that take it become pending."""
    source = tl.arange(0, tile_size)
    turn, num_turns = tl.program_id(0), tl.load(count + sweep)
    while turn < num_turns:  # not `for`: the interpreter of older Triton takes no tensors in a range
        item = tl.load(queue + turn).to(tl.int64)
        first = item // num_nodes * num_nodes  # item of the tile's node 0
        node = item - first
        own = tl.load(distance + item * tile_size + source).to(tl.float32, bitcast=True)
        begin, end = tl.load(indptr + node), tl.load(indptr + node + 1)
        while begin < end:
            edge = begin + tl.arange(0, edges_at_once)
            other = first + tl.load(indices + edge, mask=edge < end, other=0)
            weight = tl.load(weights + edge, mask=edge < end, other=float("inf"))
            offered = (own[None, :] + weight[:, None]).to(tl.int32, bitcast=True)
            address = distance + (other * tile_size)[:, None] + source[None, :]
            better = offered < tl.load(address, mask=(edge < end)[:, None], other=0)
            tl.atomic_min(address, offered, mask=better, sem="relaxed")
            best = tl.min(tl.where(better, offered, INFINITE), 1)
            tl.atomic_min(pending + other, best, mask=best < INFINITE, sem="relaxed")
            begin += edges_at_once
        turn += tl.num_programs(0)


@torch.no_grad()
def tile_distances(graph: DeviceGraph, sources: Tensor, tuning: Tuning = Tuning()) -> Tensor:
    """[len(sources), n] float32 steps from the sources; those that stand together share a tile."""
    number, num_nodes = torch.arange(len(sources), device=graph.device), graph.graph.shape[0]
    tile, column = number // tuning.tile, number % tuning.tile
    num_tiles = -(-len(sources) // tuning.tile)
    distance = torch.full((num_tiles, num_nodes, tuning.tile), torch.inf, device=graph.device)
    pending = torch.full((num_tiles, num_nodes), torch.inf, device=graph.device)
    distance[tile, sources, column] = pending[tile, sources] = 0
    _sweep(graph, distance.view(torch.int32), pending.view(torch.int32), tuning)
    return distance.transpose(1, 2).reshape(-1, num_nodes)[: len(sources)]


def _sweep(graph: DeviceGraph, distance: Tensor, pending: Tensor, tuning: Tuning) -> None:
    (num_tiles, num_nodes), weights = pending.shape, graph.arrays[2]
    numbers = partial(torch.empty, dtype=torch.int32, device=graph.device)
    queue, count = numbers(pending.numel()), numbers(tuning.sweeps_at_once)  # nodes; how many of them in each sweep
    least = numbers(tuning.sweeps_at_once + 1, num_tiles).zero_()  # pending distance before each sweep
    num_programs = 4  # where the device is no GPU, Triton's interpreter runs one after another
    if graph.device.type == "cuda":  # as many as it runs at once
        num_programs = torch.cuda.get_device_properties(graph.device).multi_processor_count * tuning.programs_per_core
    blocks, programs = (triton.cdiv(num_nodes, NODES_AT_ONCE), num_tiles), (num_programs,)
    mean_weight = float(weights.sum(dtype=torch.float64)) / max(1, len(weights))
    reach, is_pending = tuning.reach * mean_weight, True
    while is_pending:
        least[1:] = INFINITE.value
        count.zero_()
        for sweep in range(tuning.sweeps_at_once):
            _select[blocks](pending, least, queue, count, reach, num_nodes, sweep, block=NODES_AT_ONCE)
            _relax[programs](distance, pending, queue, count, *graph.arrays, num_nodes, sweep, tile_size=tuning.tile,
                             edges_at_once=tuning.edges_at_once, num_warps=tuning.num_warps)
        least[0] = least[-1]
        is_pending = bool((least[0] < INFINITE.value).any())

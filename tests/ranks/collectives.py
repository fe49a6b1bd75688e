"""Programs whose ranks meet in collectives, in kernels and in host functions; made anew for each dtype."""

from __future__ import annotations

from typing import Any

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.dtypes import DType

NR = pl.dynamic("NR")
S = pl.dynamic("S")


def in_kernel(name: str, dtype: DType, op: pld.ReduceOp, mode: str = "mesh") -> Any:
    """A host function whose kernel does a collective twice on one signal: on x, and on what that gave."""
    root = 0

    @pl.jit
    def step(
        x: pl.Tensor[[NR, S], dtype],
        y: pl.Out[pl.Tensor[[NR, S], dtype]],
        win: pld.DistributedTensor[[NR, S], dtype],
        out: pld.DistributedTensor[[NR, S], dtype],
        sig: pld.DistributedTensor,
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            win[:, :] = x
            if name == "allreduce":
                win = pld.tensor.allreduce(win, sig, op=op, mode=mode)
                y[:, :] = win
            elif name == "broadcast":
                win = pld.tensor.broadcast(win, sig, root=root)
                y[:, :] = win
            elif name == "reduce_scatter":
                win = pld.tensor.reduce_scatter(win, sig, op=op)
                y[:, :] = win
            elif name == "allgather":
                out = pld.tensor.allgather(x[0:1, :], out, sig)
                y[:, :] = out
            else:
                out = pld.tensor.all_to_all(win, out, sig)
                y[:, :] = out
            pld.tensor.barrier(sig)

    @pl.jit.host
    def run(x: pl.Tensor[[NR, NR, S], dtype], y: pl.Out[pl.Tensor[[NR, NR, S], dtype]]):
        data = pld.alloc_window_buffer([NR, S], dtype=dtype)
        more = pld.alloc_window_buffer([NR, S], dtype=dtype)
        cells = pld.alloc_window_buffer([2 * NR, NR], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            sig = pld.window(cells, [2 * NR, NR], dtype=pl.INT32)
            step(x[r], y[r], pld.window(data, [NR, S], dtype=dtype), pld.window(more, [NR, S], dtype=dtype), sig, device=r)

    return run


def on_host(name: str, dtype: DType, op: pld.ReduceOp) -> Any:
    """A publish loop, a collective of the host function, a consume loop."""

    @pl.jit
    def publish(x: pl.Tensor[[NR, S], dtype], win: pld.DistributedTensor[[NR, S], dtype]):
        win[:, :] = x

    @pl.jit
    def consume(y: pl.Out[pl.Tensor[[NR, S], dtype]], win: pld.DistributedTensor[[NR, S], dtype]):
        y[:, :] = win

    @pl.jit.host
    def run(x: pl.Tensor[[NR, NR, S], dtype], first: pl.Tensor[[NR, S], dtype], y: pl.Out[pl.Tensor[[NR, NR, S], dtype]]):
        data = pld.alloc_window_buffer([NR, S], dtype=dtype)
        more = pld.alloc_window_buffer([NR, S], dtype=dtype)
        cells = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
        win = pld.window(data, [NR, S], dtype=dtype)
        out = pld.window(more, [NR, S], dtype=dtype)
        sig = pld.window(cells, [NR, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            publish(x[r], win, device=r)
            publish(x[r], out, device=r)
        if name == "allreduce":
            out = pld.tensor.allreduce(win, op=op)
            pld.tensor.barrier(sig)
        elif name == "broadcast":
            out = pld.tensor.broadcast(win, sig, root=0)
        elif name == "reduce_scatter":
            out = pld.tensor.reduce_scatter(win, sig, op=op)
        elif name == "allgather":
            out = pld.tensor.allgather(first, out, sig)
        else:
            out = pld.tensor.all_to_all(x, out, sig)
        for r in pl.range(pld.world_size()):
            consume(y[r], out, device=r)

    return run


def counted(dtype: DType) -> Any:
    """all_to_all_v with counts of the run."""

    @pl.jit
    def step(
        x: pl.Tensor[[S, 5], dtype],
        send: pl.Tensor[[NR, 1], pl.INT32],
        y: pl.Out[pl.Tensor[[S, 5], dtype]],
        got: pl.Out[pl.Tensor[[NR, 1], pl.INT32]],
        win: pld.DistributedTensor[[S, 5], dtype],
        counts: pld.DistributedTensor[[NR, 1], pl.INT32],
        sig: pld.DistributedTensor[[NR, 1], pl.INT32],
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            win = pld.tensor.all_to_all_v(x, win, sig, send, counts)
            y[:, :] = win
            got[:, :] = counts

    @pl.jit.host
    def run(
        x: pl.Tensor[[NR, S, 5], dtype],
        send: pl.Tensor[[NR, NR, 1], pl.INT32],
        y: pl.Out[pl.Tensor[[NR, S, 5], dtype]],
        got: pl.Out[pl.Tensor[[NR, NR, 1], pl.INT32]],
    ):
        data = pld.alloc_window_buffer([S, 5], dtype=dtype)
        counts = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
        cells = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            win, had = pld.window(data, [S, 5], dtype=dtype), pld.window(counts, [NR, 1], dtype=pl.INT32)
            step(x[r], send[r], y[r], got[r], win, had, pld.window(cells, [NR, 1], dtype=pl.INT32), device=r)

    return run

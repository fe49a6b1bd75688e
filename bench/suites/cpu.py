"""Kernels on the CPU against torch in eager mode writing into an existing output, and where they are here inductor and numba."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from measure import Pair, Target, rested
from torch.nn.functional import layer_norm, rms_norm

from suites import attention, products, streams
from suites.kernels import add, gelu_tanh, layernorm, rmsnorm, softmax

Array = np.ndarray[Any, Any]
THREADS = int(os.environ["TILEJIT_NUM_THREADS"])
torch.set_num_threads(THREADS)


NORMS = Target(1 / 1.2)


def pair(case: str, peer: str, kernel: Callable[..., object], inputs: tuple[torch.Tensor, ...], out: torch.Tensor, theirs: Callable[[], torch.Tensor]) -> Pair:
    """A kernel and a torch call, compared before they are timed."""

    def check() -> None:
        torch.testing.assert_close(out, theirs(), rtol=1e-4, atol=1e-3)

    return Pair(case, peer, lambda: kernel(*inputs, out), theirs, check=check)


def row_kernels(rows: int, columns: int) -> Iterator[Pair]:
    """Elementwise and row-wise kernels on one shape."""
    shape = f"{rows}x{columns}"
    x, y, out, kept = (torch.randn(rows, columns) for _ in range(4))
    gamma, beta = torch.randn(1, columns), torch.randn(1, columns)
    yield pair(f"add {shape}", "torch.add(out=)", add, (x, y), out, lambda: torch.add(x, y, out=kept))
    yield pair(f"softmax {shape}", "torch.softmax(out=)", softmax, (x,), out, lambda: torch.softmax(x, 1, out=kept))
    yield pair(f"gelu {shape}", "torch gelu.out", gelu_tanh, (x,), out, lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=kept))
    for norm in (
        pair(f"layernorm {shape}", "torch layer_norm", layernorm, (x, gamma, beta), out, lambda: layer_norm(x, (columns,), gamma[0], beta[0])),
        pair(f"rmsnorm {shape}", "torch rms_norm", rmsnorm, (x, gamma), out, lambda: rms_norm(x, (columns,), gamma[0], 1e-6)),
    ):
        yield replace(norm, target=NORMS)


def against_inductor(rows: int, columns: int) -> Iterator[Pair]:
    """Norms against what torch compiles for them, where it finds a C++ compiler."""
    x, gamma, beta, out = torch.randn(rows, columns), torch.randn(1, columns), torch.randn(1, columns), torch.empty(rows, columns)
    layer, rms = torch.compile(layer_norm), torch.compile(rms_norm)
    shape, peer = f"{rows}x{columns}", "inductor"
    yield replace(pair(f"layernorm {shape}", peer, layernorm, (x, gamma, beta), out, lambda: layer(x, (columns,), gamma[0], beta[0])), target=NORMS)
    yield replace(pair(f"rmsnorm {shape}", peer, rmsnorm, (x, gamma), out, lambda: rms(x, (columns,), gamma[0], 1e-6)), target=NORMS)


def in_numpy(x: Array, out: Array) -> None:
    """The softmax of rows, as one writes it there."""
    np.exp(x - x.max(1, keepdims=True), out=out)
    out /= out.sum(1, keepdims=True)


def by_numba() -> Callable[[Array, Array], None]:
    """The same in loops, of which that over rows becomes one for several threads."""
    import numba

    @numba.njit(parallel=THREADS > 1, fastmath=True)
    def by_loops(x: Any, out: Any) -> None:
        for i in numba.prange(x.shape[0]):
            most, total = np.float32(-np.inf), np.float32(0)
            for j in range(x.shape[1]):
                most = max(most, x[i, j])
            for j in range(x.shape[1]):
                out[i, j] = np.exp(x[i, j] - most)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total

    return by_loops


def against_others(rows: int, columns: int) -> Iterator[Pair]:
    """A softmax against NumPy's and numba's."""
    x, out, kept = (np.random.default_rng(i).standard_normal((rows, columns), np.float32) for i in range(3))
    peers: dict[str, Callable[[Array, Array], None]] = {"NumPy": in_numpy}
    if find_spec("numba") is not None:
        peers["numba"] = by_numba()
    for name, peer in peers.items():
        check = functools.partial(close, out, kept)
        yield Pair(f"softmax {rows}x{columns}", name, lambda: softmax(x, out), functools.partial(peer, x, kept), check=check)


def close(ours: Array, theirs: Array) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def pairs() -> Iterator[Pair]:
    """What is wanted first: a machine may be lent for minutes only."""
    torch.manual_seed(0)
    yield from products.cases(THREADS)
    yield from attention.cases(THREADS)
    yield from streams.cases(THREADS)
    yield from row_kernels(1000, 1001)
    yield from against_others(1000, 1001)
    if THREADS == 1:
        yield from against_inductor(1000, 1001)
    for rows, columns in ((256, 1024), (4096, 4096)):
        yield from row_kernels(rows, columns)
    yield from products.few_rows()


def cases() -> Iterator[Pair]:
    """With several threads after a rest each: those of the other side look for work in vain for a while."""
    return map(rested, pairs()) if THREADS > 1 else pairs()

"""`python -m tests.backends.cuda.large_products`: products of tiles in chunks, in Triton's interpreter against the reference; as if registers were few.

With `--platform cuda` the same on a GPU, of tiles that are too large for it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from unittest.mock import patch

import ml_dtypes
import numpy as np

import tilejit.language as pl
from tests import hardware
from tilejit.backends.cuda import schedule
from tilejit.backends.cuda.products import chunks
from tilejit.runtime.config import RunConfig


@pl.jit
def loaded(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        z = pl.matmul(pl.load(a, [0, 0], [a.shape[0], a.shape[1]]), pl.load(b, [0, 0], [b.shape[0], b.shape[1]]))
        pl.store(z, [0, 0], out)
        pl.store(pl.row_max(z), [0, 0], top)


@pl.jit
def computed(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        x = pl.mul(pl.load(a, [0, 0], [a.shape[0], a.shape[1]]), 0.5)
        z = pl.matmul_bias(x, pl.add(pl.load(b, [0, 0], [b.shape[0], b.shape[1]]), 1.0), pl.load(bias, [0, 0], [1, b.shape[1]]))
        pl.store(z, [0, 0], out)
        pl.store(pl.row_max(z), [0, 0], top)


@pl.jit
def turned(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        x = pl.transpose(pl.load(a, [0, 0], [a.shape[0], a.shape[1]]), 0, 1)
        z = pl.matmul(x, pl.transpose(pl.load(b, [0, 0], [b.shape[0], b.shape[1]]), 0, 1))
        pl.store(z, [0, 0], out)
        pl.store(pl.row_max(z), [0, 0], top)


@pl.jit
def carried(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        acc = pl.tile.full([a.shape[0], b.shape[1]], dtype=pl.FP32, value=1.5)
        x = pl.load(a, [0, 0], [a.shape[0], a.shape[1]])
        for i in pl.range(3):
            acc = pl.matmul_acc(acc, x, pl.load(b, [i * a.shape[1], 0], [a.shape[1], b.shape[1]]))
            x = pl.mul(x, 0.5)
        pl.store(acc, [0, 0], out)
        pl.store(pl.row_max(acc), [0, 0], top)


@pl.jit
def partly(a: pl.Tensor, b: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        inner = pl.cast(pl.read(n, [0]), pl.INDEX)
        x = pl.load(a, [0, 0], [a.shape[0], a.shape[1]], valid_shape=[a.shape[0] - 1, inner])
        z = pl.matmul(x, pl.load(b, [1, 2], [a.shape[1], b.shape[1] - 2], valid_shape=[a.shape[1] - 3, b.shape[1] - 7]))
        pl.store(z, [0, 0], out)
        pl.store(pl.row_max(z), [0, 0], top)


@pl.jit
def overwritten(a: pl.Tensor, c: pl.Tensor, b: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        for _turn in pl.range(2):
            before = pl.load(b, [0, 0], [b.shape[0], b.shape[1]])
            pl.store(pl.load(c, [0, 0], [a.shape[0], b.shape[1]]), [1, 0], b)
            after = pl.load(b, [0, 0], [b.shape[0], b.shape[1]])
            x = pl.load(a, [0, 0], [a.shape[0], a.shape[1]])
            z = pl.sub(pl.matmul(x, before), pl.mul(pl.matmul(x, after), 0.25))
            pl.store(z, [0, 0], b)
            pl.store(z, [0, 0], out)
            pl.store(pl.row_max(z), [0, 0], top)


@pl.jit
def batches(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        z = pl.batch_matmul(pl.load(a, [0, 0, 0], [2, a.shape[1], a.shape[2]]), pl.load(b, [1, 0, 0], [1, b.shape[1], b.shape[2]]))
        pl.store(z, [0, 0, 0], out)
        pl.store(pl.row_max(z), [0, 0, 0], top)


@pl.jit
def scaled(a: pl.Tensor, sa: pl.Tensor, b: pl.Tensor, sb: pl.Tensor, out: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor]):
    for _ in pl.spmd(1):
        x, y = pl.load(a, [0, 0], [a.shape[0], a.shape[1]]), pl.load(b, [0, 0], [b.shape[0], b.shape[1]])
        z = pl.matmul_mx(x, pl.load(sa, [0, 0], [sa.shape[0], sa.shape[1]]), y, pl.load(sb, [0, 0], [sb.shape[0], sb.shape[1]]))
        pl.store(z, [0, 0], out)
        pl.store(pl.row_max(z), [0, 0], top)


Case = tuple[str, Callable[..., object], list[np.ndarray], list[np.ndarray]]
"""A name, a kernel, what it is given, and its results."""


def cases(m: int, k: int, n: int) -> Iterator[Case]:
    """Tiles of so many rows, inner cells and columns, none of them a power of two."""
    rng = np.random.default_rng(8)

    def some(*shape: int) -> np.ndarray:
        return (rng.integers(-24, 25, shape) / 16).astype(np.float32)

    results = [np.zeros((m, n), np.float32), np.zeros((m, 1), np.float32)]
    floats, integers = (np.float32, np.float16, ml_dtypes.bfloat16), (np.int8, np.int32)
    for dtype, result in (*((dtype, np.float32) for dtype in floats), *((dtype, np.int32) for dtype in integers), (np.float64, np.float64)):
        sides = [some(m, k), some(k, n)] if result != np.int32 else [rng.integers(-9, 10, shape) for shape in ((m, k), (k, n))]
        yield f"loaded {np.dtype(dtype)}", loaded, [side.astype(dtype) for side in sides], [item.astype(result) for item in results]
    yield "computed", computed, [some(m, k), some(k, n), some(1, n)], results
    yield "turned", turned, [some(k, m), some(n, k)], results
    yield "carried", carried, [some(m, k), some(3 * k, n)], results
    whole = np.full((k + 1, n), np.nan, np.float32)
    whole[1 : k - 2] = some(k - 3, n)
    yield "partly", partly, [some(m, k), whole, np.array([k - 5], np.int32)], results
    yield "overwritten", overwritten, [some(m, k), some(m, n), some(k, n)], results
    inner = k // 64 * 64 or 64
    scales = [(2.0 ** rng.integers(-2, 3, shape)).astype(ml_dtypes.float8_e8m0fnu) for shape in ((m, inner // 32), (inner // 32, n))]
    left, right = (some(*shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((m, inner), (inner, n)))
    yield "scaled", scaled, [left, scales[0], right, scales[1]], results
    batch = [np.zeros((2, m, n), np.float32), np.zeros((2, m, 1), np.float32)]
    yield "batches", batches, [some(2, m, k), some(2, k, n)], batch


def check(case: Case, platform: str) -> str | None:
    """What is wrong with a case."""
    _, kernel, given, results = case
    found: list[list[np.ndarray]] = []
    for where in (platform, "reference"):
        made = [np.full_like(result, 77) for result in results]
        kernel(*(item.copy() for item in given), *made, config=RunConfig(platform=where))
        found.append(made)
    for ours, theirs in zip(*found, strict=True):
        bound = 0 if theirs.dtype.kind == "i" else 1e-4
        difference = float(np.max(np.abs(ours.astype(np.float64) - theirs) / np.maximum(1, np.abs(theirs))))
        if not difference <= bound:
            return f"off by {difference}"
    return None


def few(rows: int, columns: int, native: object) -> schedule.ProductSchedule:
    """Blocks that several of are needed for a tile."""
    return schedule.ProductSchedule(min(rows, 4), min(columns, 16), 16, 4, 2)


PLANS: dict[str, list[tuple[tuple[int, int, int], dict[str, object]]]] = {
    "triton": [((5, 35, 21), {"_REGISTERS": 1024}), ((19, 50, 29), {"_REGISTERS": 1024, "chunks_of": few})],
    "cuda": [((5, 257, 300), {}), ((130, 513, 70), {})],
}
"""Shapes of tiles, and what is thought of the GPU."""


def main(platform: str) -> int:
    hardware.prepare()
    wrong = 0
    with patch.object(chunks, "multiplied", wraps=chunks.multiplied) as used:
        for shape, limits in PLANS[platform]:
            with ExitStack() as small:
                for name, value in limits.items():
                    small.enter_context(patch.object(chunks, name, value))
                for case in cases(*shape):
                    count = used.call_count
                    problem = check(case, platform) or ("not in chunks" if used.call_count == count else None)
                    wrong += problem is not None
                    print(f"{case[0]} {shape}: {problem or 'right'}", flush=True)
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--platform", default="triton")
    options = parser.parse_args()
    if options.platform == "triton":
        os.environ["TRITON_INTERPRET"] = "1"
        from tests.backends.cuda import interpreted

        assert interpreted.TARGET
    raise SystemExit(main(options.platform))

"""Kernels in Triton's interpreter beside the reference: prints the names of those whose numbers differ. Lines are cut into several small chunks.

python -m tests.backends.cuda.agreement
"""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

os.environ["TRITON_INTERPRET"] = "1"

import ml_dtypes
import numpy as np

import tilejit.language as pl
from tests.backends.cuda import interpreted
from tilejit.backends.cuda.indexed import lines
from tilejit.errors import TilejitError
from tilejit.runtime.config import RunConfig

assert interpreted.TARGET
N = pl.dynamic("N")
Array = np.ndarray[Any, Any]


@pl.jit
def running_sums(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.cumsum(x, -1)
        b[:] = pl.cummax(x, 0)
        c[:] = pl.cumprod(x, 1)


@pl.jit
def rows_in_order(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.sort(x)
        b[:] = pl.argsort(x, descending=True)
        c[:] = pl.topk(x, 7)[0]


@pl.jit
def tiles_in_order(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    for block in pl.spmd(2):
        t = pl.load(x, [block * 2, 0], [2, 23])
        pl.store(pl.cummin(t, 1), [block * 2, 0], a)
        values, places = pl.tile.sort_rows(t, True)
        pl.store(values, [block * 2, 0], c)
        pl.store(places, [block * 2, 0], b)


@pl.jit
def counted(x: pl.Tensor, weights: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.bincount(x, 20)
        b[:] = pl.bincount(x, 20, weights)


@pl.jit
def early_ends(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    for block in pl.spmd(4):
        t, other = pl.load(x, [block, 0], [1, 23]), pl.load(x, [3 - block, 0], [1, 23])
        turns = 0
        for i in pl.range(9):
            for j in pl.range(5):
                if j > block:
                    break
                t, other = other, t + 1.0
            if i >= 2 * block:
                break
            turns = turns + i
        pl.store(t, [block, 0], a)
        pl.write(b, [block], pl.cast(turns, pl.INT32))


@pl.jit
def narrow_sums(x: pl.Tensor, a: pl.InOut[pl.Tensor]):
    for block in pl.spmd(4):
        pl.store(pl.load(x, [block, 0], [1, 23]), [0, 1], a, atomic=pl.AtomicType.Add)


@pl.jit
def loops_over_any_extent(x: pl.Tensor[[N, 23], pl.FP32], how: pl.Tensor, a: pl.Out[pl.Tensor[[N, 23], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        v = x
        for i in pl.range(3):
            if pl.read(how, [i]) > 1:
                v = pl.add(v, 2.0)
            else:
                v = pl.mul(v, v)
        a[:] = v


@pl.jit
def tensors_made_in_blocks(x: pl.Tensor[[N, 23], pl.FP32], a: pl.Out[pl.Tensor[[N, 23], pl.FP32]]):
    for block in pl.spmd(2):
        scores = pl.exp(x)
        shares = pl.mul(pl.row_expand_div(scores, pl.row_sum(scores)), pl.cast(block + 1, pl.FP32))
        pl.store(pl.load(shares, [block * 2, 0], [2, 23]), [block * 2, 0], a)


@pl.jit
def blocks_of_any_extent(x: pl.Tensor[[N, 23], pl.FP32], y: pl.Tensor, factors: pl.Tensor, a: pl.Out[pl.Tensor[[N, 12], pl.FP32]]):
    """Products in blocks whose rows only the run knows: the host runs one block after the other."""
    for block in pl.spmd(3):
        r = block * 4
        total = pl.full([x.shape[0], 4], dtype=pl.FP32, value=0.5)
        for g in pl.range(2):
            made = pl.matmul(x[:, g * 11 : g * 11 + 11], y[r : r + 4, g * 11 : g * 11 + 11] - 1, b_trans=True, out_dtype=pl.FP32)
            total = total + pl.col_expand_mul(made, pl.reshape(factors[r : r + 4, g : g + 1], [1, 4]))
        a[:, r : r + 4] = total


@pl.jit
def arrays_beside_decisions(x: pl.Tensor[[N, 23], pl.FP32], how: pl.Tensor, a: pl.Out[pl.Tensor[[N, 23], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        steps = pl.array.create(3, pl.INT16)
        for i in pl.range(3):
            steps[i] = pl.cast(i * 2 - 1, pl.INT16)
        v = x
        if pl.read(how, [0]) > 0:
            v = pl.add(v, pl.cast(steps[2], pl.FP32))
        a[:] = v


@pl.jit
def pages_beside_decisions(x: pl.Tensor[[N, 23], pl.FP32], pool: pl.Tensor, table: pl.Tensor, which: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        v = x
        if pl.read(table, [0]) > 1:
            v = pl.mul(v, 2.0)
        pages = pl.paged_gather(pool, table, which, 4, 32, 8)
        for i in pl.range(4):
            if i == pl.read(table, [3]) - 1:
                break
            v = pl.add(v, 1.0)
            pages = pl.mul(pages, 2.0)
        pl.assemble(a, pl.concat(v, v), [0, 0])
        b[:] = pages


@pl.jit
def arrays_of_the_host(x: pl.Tensor, how: pl.Tensor, a: pl.Out[pl.Tensor]):
    places = pl.array.create(5, pl.INDEX)
    for i in pl.range(5):
        places[i] = (i * 3 + 1) % 4
    first = pl.array.get_element(places, pl.cast(pl.read(how, [1]), pl.INDEX))
    if pl.read(how, [0]) == 1:
        places[3] = first
    last = places[3]
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [first, 0], [1, 23]), [last, 0], a)


@pl.jit
def windows_of_products(x: pl.Tensor, y: pl.Tensor, z: pl.Tensor, how: pl.Tensor, a: pl.InOut[pl.Tensor], b: pl.InOut[pl.Tensor]):
    """The accumulator says what is valid; batches may be fewer too."""
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.cast(pl.read(how, [0]), pl.INDEX)
        acc = pl.load(z, [0, 0], [16, 16], valid_shape=[rows, 5])
        left, right = pl.load(x, [0, 0, 0], [1, 16, 16], valid_shape=[1, rows, 16]), pl.load(y, [0, 0, 0], [1, 16, 16])
        pl.store(pl.matmul_acc(acc, pl.reshape(left, [16, 16]), pl.reshape(right, [16, 16])), [0, 0], a)
        batches = pl.load(x, [0, 0, 0], [4, 16, 16], valid_shape=[rows - 1, 16, 16])
        pl.store(pl.batch_matmul(batches, pl.load(y, [0, 0, 0], [4, 16, 16])), [0, 0, 0], b)


@pl.jit
def rows_of_pairs(x: pl.Tensor, places: pl.Tensor, rows: pl.Tensor, a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.scatter_update(x, -2, places, rows)


@pl.jit
def rows_of_itself(x: pl.InOut[pl.Tensor], y: pl.InOut[pl.Tensor], places: pl.Tensor):
    """Statements that read what they write: rows by index, indices among them, and windows that overlap."""
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.scatter_update(x, -2, places, x)
        pl.scatter_update(x[0:4], -2, places[:, 0:8], x[1:9])
        pl.scatter_update(y, -2, y[:, 0:1], y)
        pl.assemble(x, x[0:5], [2, 0])
        x[1:9, 1:] = x[0:8, :-1]


@pl.jit
def blocks_of_itself(x: pl.InOut[pl.Tensor[[N, 23], pl.FP32]], places: pl.Tensor):
    for block in pl.spmd(2):
        part = x[block * 5 : block * 5 + 5]
        pl.scatter_update(part, -2, places, part)
        part[2:5] = part[0:3]


@pl.jit
def cells_of_windows(x: pl.InOut[pl.Tensor], places: pl.Tensor, rows: pl.Tensor, a: pl.Out[pl.Tensor]):
    """Cells that are known by their number, in windows with gaps between their rows."""
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.scatter_update(x, -2, places[:, 1:2], rows)
        wanted = pl.load(places, [0, 0], [4, 3])
        pl.tile.mscatter(pl.load(rows, [0, 0], [4, 3]), wanted, x[2:8, 3:9])
        pl.store(pl.mgather(x[1:9, 4:9], wanted, coalesce="elem"), [0, 0], a)


@pl.jit
def whole_products(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.matmul(x, y)


@pl.jit
def turned_products(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.matmul(x, y, b_trans=True, out_dtype=a.dtype)


@pl.jit
def cells_beside_vectors(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    """One cell of rank 2 and a vector of rank 1, either of which has a single row."""
    with pl.at(level=pl.Level.CORE_GROUP):
        smallest = x.min(axis=-2, keepdims=False)
        cell = pl.add(y, 2.0)
        rest = 1.0 - smallest
        pl.system.cacheinvalid(y)
        pl.assemble(a, rest, [1])
        pl.assemble(b, cell, [0, 1])


@pl.jit
def softmax(x: pl.Tensor, a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        a[:] = pl.row_expand_div(e, pl.row_sum(e))


@pl.jit
def column_sums(x: pl.Tensor, a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.col_sum(x)


@pl.jit
def turned(x: pl.Tensor, a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.transpose(x, 0, 1)


@pl.jit
def shifted(x: pl.Tensor, a: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = x * 2.0 + 1.0


def scheduled() -> list[tuple[Any, list[Array], dict[str, dict[str, object]]]]:
    """Kernels in other blocks than ours."""
    rng = np.random.default_rng(8)
    x, long = rng.standard_normal((37, 90)).astype(np.float32), rng.standard_normal((5, 3000)).astype(np.float32)
    sides = [rng.standard_normal((70, 50)).astype(np.float32), rng.standard_normal((50, 90)).astype(np.float32)]
    return [
        (softmax, [x, np.zeros_like(x)], {"softmax_k0/rows0": {"rows": 4, "warps": 8, "stages": 1}}),
        (softmax, [x, np.zeros_like(x)], {"softmax_k0/rows0": {"rows": 2, "columns": 32, "chunked": True}}),
        (softmax, [x[:, :64].copy(), np.zeros((37, 64), np.float32)], {"softmax_k0/rows0": {"rows": 2, "columns": 64, "chunked": True}}),
        (column_sums, [x, np.zeros((1, 90), np.float32)], {"column_sums_k0/rows0": {"rows": 8, "columns": 16}}),
        (turned, [x, np.zeros((90, 37), np.float32)], {"turned_k0/rows0": {"rows": 16, "columns": 8}}),
        (shifted, [long, np.zeros_like(long)], {"shifted_k0/rows0": {"rows": 4, "columns": 64, "chunked": True}}),
        (whole_products, [*sides, np.zeros((70, 90), np.float32)], {"whole_products_k0/product0": {"rows": 16, "columns": 32, "inner": 16, "stages": 4}}),
    ]


def cases() -> list[tuple[Any, list[Array]]]:
    rng = np.random.default_rng(7)
    found: list[tuple[Any, list[Array]]] = []
    for dtype in (np.float32, np.int16):
        x = (rng.standard_normal((4, 23)) * 30).astype(dtype)
        if x.dtype.kind == "f":
            x[1, 3:7] = np.nan, -0.0, 0.0, np.inf
        kept = np.zeros_like(x)
        found.append((running_sums, [x, kept, kept, kept]))
        found.append((rows_in_order, [x, kept, np.zeros(x.shape, np.int32), np.zeros((4, 7), dtype)]))
        found.append((tiles_in_order, [x, kept, np.zeros(x.shape, np.int32), kept]))
    x = rng.integers(0, 20, (5, 23)).astype(np.int32)
    found.append((counted, [x, rng.integers(-9, 9, x.shape).astype(np.int32), np.zeros(20, np.int32), np.zeros(20, np.int32)]))
    x = rng.standard_normal((4, 23)).astype(np.float32)
    found.append((early_ends, [x, np.zeros_like(x), np.zeros(4, np.int32)]))
    found.append((loops_over_any_extent, [x, np.array([1, 2, 0], np.int32), np.zeros_like(x)]))
    found.append((tensors_made_in_blocks, [x, np.zeros_like(x)]))
    whole, factors = rng.integers(-9, 9, (12, 23)).astype(np.int8), rng.standard_normal((12, 2)).astype(np.float32)
    found.append((blocks_of_any_extent, [x, whole, factors, np.zeros((4, 12), np.float32)]))
    found += [(arrays_beside_decisions, [x, np.array([number], np.int32), np.zeros_like(x)]) for number in (0, 1)]
    pool, table, which = rng.standard_normal((24, 32)).astype(np.float32), np.array([2, 0, 1, 3, 4], np.int32), np.array([[1, 0, 4]], np.int32)
    found.append((pages_beside_decisions, [x, pool, table, which, np.zeros((4, 46), np.float32), np.zeros((8, 32), np.float32)]))
    found.append((arrays_of_the_host, [x, np.array([1, 2], np.int32), np.zeros_like(x)]))
    found.append((arrays_of_the_host, [x, np.array([0, 4], np.int32), np.zeros_like(x)]))
    found += [(narrow_sums, [rng.integers(-99, 99, (4, 23)).astype(dtype), np.ones((1, 25), dtype)]) for dtype in (np.int8, np.int16)]
    x, y = (rng.standard_normal((4, 16, 16)).astype(np.float32) for _ in range(2))
    found.append((windows_of_products, [x, y, x[1].copy(), np.array([3], np.int32), np.full((16, 16), 7.0, np.float32), np.full((4, 16, 16), 7.0, np.float32)]))
    pairs = [(rng.standard_normal((count, 5)) + 1j * rng.standard_normal((count, 5))).astype(np.complex64) for count in (9, 4)]
    found.append((rows_of_pairs, [pairs[0], np.array([[2, 7], [0, 2]], np.int32), pairs[1], np.zeros_like(pairs[0])]))
    rows, marks = rng.standard_normal((10, 23)).astype(np.float32), rng.integers(0, 7, (7, 3)).astype(np.int32)
    found.append((rows_of_itself, [rows, marks, np.array([[3, 0, 2, 1, 3, 0, 2, 1, 9, 4]], np.int32)]))
    found.append((blocks_of_itself, [rows, np.array([[3, 0, 4, 1, 2]], np.int32)]))
    found.append((cells_of_windows, [rows, rng.permutation(10)[np.arange(12) % 10].reshape(4, 3).astype(np.int32), rows[:4] * 2, np.zeros((4, 3), np.float32)]))
    found.append((cells_beside_vectors, [rows, rows[:1, :1].copy(), np.ones(25, np.float32), np.ones((3, 3), np.float32)]))
    large = [rng.integers(-(1 << 62), 1 << 62, shape) for shape in ((12, 7), (7, 9))]
    found.append((whole_products, [*large, np.zeros((12, 9), np.int64)]))
    sides = [rng.integers(-99, 99, (40, 19)).astype(np.int32), rng.integers(-99, 99, (19, 35)).astype(np.int32)]
    found.append((whole_products, [*sides, np.zeros((40, 35), np.int32)]))
    small = rng.integers(-128, 128, (35, 19)).astype(np.int8)
    mixed = ((ml_dtypes.bfloat16, np.int8), (np.float16, np.uint8), (np.float32, np.int8), (np.float64, np.int8), (ml_dtypes.bfloat16, np.int32))
    for floats, integers in mixed:
        result = np.zeros((40, 35), np.float64 if floats is np.float64 else np.float32)
        found.append((turned_products, [rng.standard_normal((40, 19)).astype(floats), small.astype(integers), result]))
    found.append((turned_products, [small, rng.standard_normal((21, 19)).astype(np.float16), np.zeros((35, 21), np.float32)]))
    return found


def after(kernel: Any, given: list[Array], platform: str, schedule: dict[str, dict[str, object]]) -> list[Array]:
    copies = [array.copy() for array in given]
    kernel(*copies, config=RunConfig(platform=platform, schedule=schedule))
    return copies


def main() -> None:
    with patch.multiple(lines, CHUNK=16, SCAN_ALONG=(2, 8), SCAN_DOWN=(8, 2)), np.errstate(all="ignore"):
        for kernel, given, schedule in [*((kernel, given, {}) for kernel, given in cases()), *scheduled()]:
            name = f"{kernel.__name__} {given[0].dtype}"
            try:
                wanted, got = after(kernel, given, "reference", {}), after(kernel, given, "triton", schedule)
            except TilejitError as error:
                print(name, str(error).splitlines()[0])
                continue
            for a, b in zip(wanted, got, strict=True):
                near = 0 if a.dtype.kind in "iu" else 1e-5
                largest = np.max(np.abs(a[np.isfinite(a)], dtype=np.float64), initial=1.0) if near else 0  # sums of large terms may come out small
                if not np.allclose(b, a, rtol=near, atol=near * largest, equal_nan=True):
                    print(name, "differs")
    print("done")


if __name__ == "__main__":
    main()

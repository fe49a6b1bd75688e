"""Picking, putting and sorting by index, by pattern and by comparison; pools of pages; top-k by sorted runs."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f16, f32, i32

CASES = Cases()
BF16 = ml_dtypes.bfloat16
P = pl.tile.MaskPattern


@CASES(f32(6, 11), i32(6, 4, low=0, high=11), expected=lambda x, k: np.take_along_axis(x, k, 1))
@pl.jit
def columns_by_index(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(x, 1, index)
    return out


@CASES(f32(9, 3, 5), i32(4, 3, 5, low=0, high=9), expected=lambda x, k: np.take_along_axis(x, k, 0))
@pl.jit
def planes_by_index(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tensor.gather(x, dim=0, index=index)
    return out


@CASES(f32(3, 9, 5), i32(2, 4, 5, low=0, high=9), expected=lambda x, k: np.take_along_axis(x[:2], k, 1))
@pl.jit
def index_with_fewer_planes(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(x, dim=-2, index=index)
    return out


@CASES(f16(5, 20), data(np.int16, 5, 7, low=0, high=20), expected=lambda x, k: np.take_along_axis(x, k.astype(np.int64), 1))
@pl.jit
def short_indices_for_halves(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(x, dim=1, index=index)
    return out


@CASES(f32(4, 10), i32(3, 6, low=0, high=40), expected=lambda x, k: x.reshape(-1)[k])
@pl.jit
def flat_index_into_a_tile(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 10])
        k = pl.load(index, [0, 0], [3, 6])
        tmp = pl.create_tile([3, 6], dtype=pl.INT32)
        pl.store(pl.tile.gather(t, k, tmp), [0, 0], out)
    return out


@CASES(f32(3, 16), expected=lambda x: (x[:, 0::2], x[:, 1::2], x[:, 2::4], x))
@pl.jit
def columns_by_pattern(x: pl.Tensor, even: pl.Out[pl.Tensor], odd: pl.Out[pl.Tensor], third: pl.Out[pl.Tensor], all_: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        even[:] = pl.gather(x, mask_pattern=1)
        odd[:] = pl.tensor.gather(x, mask_pattern=P.P1010)
        t = pl.load(x, [0, 0], [3, 16])
        pl.store(pl.tile.gather_mask(t, pl.tile.MaskPattern.P0100), [0, 0], third)
        pl.store(pl.tile.gather_mask(t, mask_pattern=7), [0, 0], all_)
    return even, odd, third, all_


@CASES(f32(4, 12), expected=lambda x: x[:, 3::4].copy().view(np.uint32))
@pl.jit
def pattern_with_another_dtype(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(x, mask_pattern=P.P1000, output_dtype=pl.UINT32)
    return out


def _matches(x: Array) -> tuple[Array, Array]:
    counts = np.array([[(row > 0).sum() for row in x]], np.int32)
    found = np.zeros((5, 20), np.int32)
    for i, row in enumerate(x):
        where = np.flatnonzero(row > 0)
        found[i, : len(where)] = where + 100
    return found, counts


@CASES(f32(5, 20), expected=_matches)
@pl.jit
def positions_by_comparison(x: pl.Tensor, found: pl.Out[pl.Tensor], counts: pl.Out[pl.Tensor]):
    """Cells past the count are undefined: only those before it are stored."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [5, 20])
        tmp = pl.create_tile([5, 20], dtype=pl.FP32)
        where, number = pl.tile.gather_compare(t, 0.0, tmp, cmp_mode="gt", offset=100, out_cols=20)
        found[:] = pl.tensor.full([5, 20], dtype=pl.INT32, value=0)
        counts = pl.store(number, [0, 0], counts)
        for i in pl.range(5):
            n = pl.cast(pl.read(number, [0, i]), pl.INDEX)
            for j in pl.range(n):
                pl.write(found, [i, j], pl.read(where, [i, j]))
    return found, counts


@CASES(i32(4, 30, low=0, high=4), expected=lambda x: np.array([[(row == 2).sum() for row in x]], np.int32))
@pl.jit
def comparison_of_tensors(x: pl.Tensor, counts: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        _, number = pl.gather(x, kvalue=pl.const(2, pl.INT32), cmp_mode="eq", out_cols=30)
        counts[:] = number
    return counts


@CASES(f32(6, 32), np.array([[0, 32, 256, 736], [64, 96, 32, 0]], np.uint32), expected=lambda x, o: np.stack(
    [np.concatenate([x.reshape(-1)[k // 4 : k // 4 + 8] for k in row]) for row in o]))
@pl.jit
def blocks_by_byte_offset(x: pl.Tensor, offsets: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 32])
        k = pl.load(offsets, [0, 0], [2, 4])
        pl.store(pl.gatherb(t, k), [0, 0], out)
    return out


INDICES = np.array([[2, -1, 7, 100, 6, 0]], np.int32)


def _policy(x: Array, index: Array, kind: str) -> Array:
    unsigned = index.astype(np.int64).reshape(-1) % 2**32
    if kind == "clamp":
        return x[np.minimum(unsigned, len(x) - 1)]
    if kind == "wrap":
        return x[unsigned % len(x)]
    return np.where((unsigned < len(x))[:, None], x[np.minimum(unsigned, len(x) - 1)], 0).astype(x.dtype)


@CASES(f32(7, 13), INDICES, expected=lambda x, k: tuple(_policy(x, k, kind) for kind in ("clamp", "wrap", "zero")))
@pl.jit
def rows_outside_by_policy(x: pl.Tensor, index: pl.Tensor, clamped: pl.Out[pl.Tensor], wrapped: pl.Out[pl.Tensor], zeroed: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.load(index, [0, 0], [1, 6])
        pl.store(pl.mgather(x, k, gather_oob="clamp"), [0, 0], clamped)
        pl.store(pl.mgather(x, k, coalesce="row", gather_oob="wrap"), [0, 0], wrapped)
        pl.store(pl.tile.mgather(x, k, gather_oob="zero"), [0, 0], zeroed)
    return clamped, wrapped, zeroed


@CASES(f32(6, 9), i32(4, 5, low=0, high=54), expected=lambda x, k: x.reshape(-1)[k])
@pl.jit
def elements_of_memory(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.mgather(x, pl.load(index, [0, 0], [4, 5]), coalesce="elem"), [0, 0], out)
    return out


@CASES(f32(20, 8), i32(5, 1, low=0, high=20), f32(8, 3), expected=lambda x, k, w: (x[k[:, 0]].astype(np.float64) @ w), tol=1e-5)
@pl.jit
def rows_straight_into_a_product(x: pl.Tensor, index: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """With Mat as target the index stays in global memory."""
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.mgather(x, index, target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(rows, pl.load(w, [0, 0], [8, 3])), [0, 0], out)
    return out


@CASES(f32(9, 6), i32(1, 8, low=0, high=9), 5, expected=lambda x, k, n: np.pad(x[k[0, :n]], ((0, 8 - n), (0, 0))))
@pl.jit
def some_rows_by_index(x: pl.Tensor, index: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.load(index, [0, 0], [1, 8], valid_shape=[1, n])
        pl.store(pl.fillpad(pl.mgather(x, k)), [0, 0], out)
    return out


@CASES(f32(3, 4), np.random.default_rng(5).permutation(20)[:12].reshape(3, 4).astype(np.int32), f32(4, 5), expected=lambda s, k, o: _put(o, k, s))
@pl.jit
def elements_into_memory(src: pl.Tensor, index: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.mscatter(pl.load(src, [0, 0], [3, 4]), pl.load(index, [0, 0], [3, 4]), out)
    return out


def _put(target: Array, index: Array, source: Array) -> Array:
    """In row-major order, so that the last of equal indices wins."""
    flat = target.reshape(-1).copy()
    for k, v in zip(index.reshape(-1), source.reshape(-1)):
        flat[k] = v
    return flat.reshape(target.shape)


@CASES(f32(4, 9), i32(4, 5, low=0, high=9), f32(4, 5), expected=lambda x, k, s: np.stack([_put(a, b, c) for a, b, c in zip(x, k, s)]))
@pl.jit
def scattered_columns(x: pl.Tensor, index: pl.Tensor, src: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.scatter(x, 1, index, src)
    return out


@CASES(f16(3, 10), data(np.int16, 3, 6, low=0, high=30), f16(3, 6), expected=_put)
@pl.jit
def scattered_in_a_tile(x: pl.Tensor, index: pl.Tensor, src: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        base = pl.load(x, [0, 0], [3, 10])
        done = pl.tile.scatter(base, pl.load(src, [0, 0], [3, 6]), pl.load(index, [0, 0], [3, 6]))
        pl.store(done, [0, 0], out)
    return out


def _interleaved(base: Array, compact: Array, first: int, step: int) -> Array:
    out = base.copy()
    out[:, first::step] = compact
    return out


@CASES(f32(4, 12), f32(4, 6), f32(4, 3), expected=lambda b, c, d: (_interleaved(b, c, 1, 2), _interleaved(b, d, 2, 4)))
@pl.jit
def scattered_by_pattern(base: pl.Tensor, half: pl.Tensor, quarter: pl.Tensor, two: pl.Out[pl.Tensor], four: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        two[:] = pl.scatter(half, mask_pattern=2, dst=base)
        t = pl.load(base, [0, 0], [4, 12])
        pl.store(pl.tile.scatter_mask(t, pl.load(quarter, [0, 0], [4, 3]), P.P0100), [0, 0], four)
    return two, four


@CASES(f32(4, 8), f32(4, 8), expected=lambda r, i: np.stack([r, i], 2).reshape(4, 16))
@pl.jit
def interleaved_pairs(real: pl.Tensor, imaginary: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        base = pl.tensor.full([4, 16], dtype=pl.FP32, value=0.0)
        base = pl.scatter(real, mask_pattern=P.P0101, dst=base)
        out[:] = pl.scatter(imaginary, mask_pattern=P.P1010, dst=base)
    return out


def _update(x: Array, index: Array, src: Array) -> Array:
    rows = x.reshape(-1, x.shape[-1]).copy()
    rows[index.reshape(-1)] = src.reshape(-1, x.shape[-1])
    return rows.reshape(x.shape)


@CASES(f32(10, 6), np.array([[7, 0, 3], [9, 1, 4]], np.int32), f32(6, 6), expected=_update)
@pl.jit
def rows_updated(x: pl.InOut[pl.Tensor], index: pl.Tensor, src: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.scatter_update(x, -2, index, src)
    return x


@CASES(data(BF16, 3, 4, 1, 8), np.array([[11, 0], [5, 6]], np.int32), data(BF16, 2, 2, 1, 8), expected=_update)
@pl.jit
def paged_rows_updated(cache: pl.InOut[pl.Tensor], slots: pl.Tensor, rows: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        cache = pl.tensor.scatter_update(cache, slots, rows, dim=-2)
    return cache


@CASES(f32(8, 5), np.array([[1, 6]], np.int32), f32(2, 5), expected=_update)
@pl.jit
def rows_updated_in_a_tile(x: pl.Tensor, index: pl.Tensor, src: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 5])
        t = pl.scatter_update(input=t, dim=-2, index=pl.load(index, [0, 0], [1, 2]), src=pl.load(src, [0, 0], [2, 5]))
        pl.store(t, [0, 0], out)
    return out


def _paged(pool: Array, index: Array, table: Array, block: int) -> Array:
    return np.stack([pool[table[k // block] * block + k % block] for k in index.reshape(-1)])


@CASES(f32(32, 12), i32(1, 10, low=0, high=16), np.array([5, 2, 7, 0], np.int32), expected=lambda p, k, t: _paged(p, k, t, 4))
@pl.jit
def rows_of_pages(pool: pl.Tensor, index: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.paged_gather(pool, index, table, 4, 12, 10)
    return out


@CASES(f32(32, 12), i32(1, 10, low=0, high=16), np.array([5, 2, 7, 0], np.int32), f32(3, 8),
       expected=lambda p, k, t, q: q.astype(np.float64) @ _paged(p, k, t, 4)[:, 4:12].T, tol=1e-5)
@pl.jit
def part_of_pages_transposed(pool: pl.Tensor, index: pl.Tensor, table: pl.Tensor, q: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        keys = pl.tensor.paged_gather(pool, index, table, 4, 8, 10, col_off=4, is_trans=True, is_b_matrix=True)
        out[:] = pl.matmul(q, keys)
    return out


@CASES(f32(20, 16), np.array([3, 17, 0, 8], np.int32), expected=lambda x, k: x[k, 4:12])
@pl.jit
def rows_copied_one_by_one(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tile([4, 8], dtype=pl.FP32)
        for i in pl.range(4):
            row = pl.cast(pl.read(index, [i]), pl.INDEX)
            acc = pl.gather_row(acc, x, [i, 0], [row, 4], [1, 8])
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(20, 16), np.array([3, 17, 0, 8], np.int32), expected=lambda x, k: x[k, :].T.copy())
@pl.jit
def rows_copied_as_columns(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([16, 4], dtype=pl.FP32, value=0.0)
        for i in pl.range(4):
            row = pl.cast(pl.read(index, [i]), pl.INDEX)
            acc = pl.tile.gather_row(acc, x, [0, i], [row, 0], [1, 16], transpose=True)
        pl.store(acc, [0, 0], out)
    return out


def _sorted_pairs(x: Array, k: int) -> tuple[Array, Array]:
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, order, 1), order.astype(np.uint32)


@CASES(f32(2, 32), expected=lambda x: _sorted_pairs(x, 32))
@pl.jit
def thirty_two_sorted(x: pl.Tensor, values: pl.Out[pl.Tensor], order: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [2, 32])
        row = pl.tile.arange(0, [1, 32], dtype=pl.INT32)
        index = pl.cast(pl.col_expand(pl.tile.full([2, 32], dtype=pl.INT32, value=0), row), pl.UINT32)
        pairs = pl.sort32(t, index)
        pl.store(pl.tile.gather_mask(pairs, P.P0101), [0, 0], values)
        pl.store(pl.tile.gather_mask(pairs, P.P1010, output_dtype=pl.UINT32), [0, 0], order)
    return values, order


@CASES(f32(1, 2048), expected=lambda x: _sorted_pairs(x, 64))
@pl.jit
def top_of_two_thousand(x: pl.Tensor, values: pl.Out[pl.Tensor], order: pl.Out[pl.Tensor]):
    """Runs of 32 are merged by four: 64, 256, 1024 columns of pairs, then the two halves."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 2048])
        index = pl.cast(pl.tile.ci(0, [1, 2048], dtype=pl.INT32), pl.UINT32)
        pairs = pl.tile.sort32(t, index)
        pairs = pl.tile.mrgsort(pairs, block_len=64)
        pairs = pl.tile.mrgsort(pairs, block_len=256)
        pairs = pl.mrgsort(pairs, block_len=1024)
        top = pl.tile.slice(pairs, [1, 128], [0, 0])
        pl.store(pl.tile.gather_mask(top, P.P0101), [0, 0], values)
        pl.store(pl.tile.gather_mask(top, P.P1010, output_dtype=pl.UINT32), [0, 0], order)
    return values, order


@CASES(f32(1, 64), f32(1, 64), f32(1, 64), expected=lambda a, b, c: _sorted_pairs(np.hstack([a, b, c]), 192)[0])
@pl.jit
def three_lists_merged(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        index = pl.cast(pl.tile.ci(0, [1, 64], dtype=pl.INT32), pl.UINT32)
        tmp_pair = pl.create_tile([1, 128], dtype=pl.FP32)
        tmp = pl.create_tile([1, 384], dtype=pl.FP32)
        pa = pl.sort32(pl.load(a, [0, 0], [1, 64]), index)
        pb = pl.sort32(pl.load(b, [0, 0], [1, 64]), index)
        pc = pl.sort32(pl.load(c, [0, 0], [1, 64]), index)
        pa = pl.mrgsort(pl.tile.slice(pa, [1, 64], [0, 0]), pl.tile.slice(pa, [1, 64], [0, 64]), tmp=tmp_pair)
        pb = pl.mrgsort(pl.tile.slice(pb, [1, 64], [0, 0]), pl.tile.slice(pb, [1, 64], [0, 64]), tmp=tmp_pair)
        pc = pl.mrgsort(pl.tile.slice(pc, [1, 64], [0, 0]), pl.tile.slice(pc, [1, 64], [0, 64]), tmp=tmp_pair)
        merged = pl.tile.mrgsort(pa, pb, pc, tmp=tmp)
        pl.store(pl.tile.gather_mask(merged, P.P0101), [0, 0], out)
    return out


@CASES(f32(3, 256), i32(1, low=64, high=65), expected=lambda x, n: _sorted_pairs(x[:, :128], 128)[0])
@pl.jit
def run_length_from_data(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Tensor forms; the length of the runs is a number known only at run time."""
    with pl.at(level=pl.Level.CORE_GROUP):
        index = pl.cast(pl.tensor.full([3, 128], pl.INT32, 0), pl.UINT32)
        pairs = pl.tensor.sort32(x[:, 0:128] * 1.0, index)
        length = pl.cast(pl.read(n, [0]), pl.INDEX)
        pairs = pl.tensor.mrgsort(pairs, block_len=length)
        out[:] = pl.gather(pairs, mask_pattern=1)
    return out


@CASES(f32(12, 16), i32(1, 5, low=0, high=12), expected=lambda x, k: x[k[0]].max(0, keepdims=True))
@pl.program
class EmbeddingMax:
    @pl.function(type=pl.FunctionType.AIV)
    def lookup(
        self, table: pl.Tensor[[12, 16], pl.FP32], tokens: pl.Tensor[[1, 5], pl.INT32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]
    ) -> pl.Tensor[[1, 16], pl.FP32]:
        index: pl.Tile[[1, 5], pl.INT32] = pl.load(tokens, [0, 0], [1, 5])
        rows: pl.Tile[[5, 16], pl.FP32] = pl.mgather(table, index)
        out = pl.store(pl.col_max(rows), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, table: pl.Tensor[[12, 16], pl.FP32], tokens: pl.Tensor[[1, 5], pl.INT32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]
    ) -> pl.Tensor[[1, 16], pl.FP32]:
        out = self.lookup(table, tokens, out)
        return out

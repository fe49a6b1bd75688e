"""Comparisons, masks as bytes, selection by masks that were computed or loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f16, f32, i32

CASES = Cases()


def packed(condition: Array, columns: int = 32) -> Array:
    """One bit per column, least significant first, rows padded with zeros to whole blocks of bytes."""
    bits = np.packbits(condition, axis=1, bitorder="little")
    return np.pad(bits, ((0, 0), (0, columns - bits.shape[1])))


def unpacked(carrier: Array, columns: int) -> Array:
    return np.unpackbits(np.ascontiguousarray(carrier).view(np.uint8), axis=1, bitorder="little")[:, :columns].astype(bool)


@CASES(
    i32(5, 12, low=-3, high=3), i32(5, 12, low=-3, high=3),
    expected=lambda a, b: tuple(f(a, b).astype(np.int32) for f in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)),
)
@pl.jit
def six_comparisons_of_tensors(
    a: pl.Tensor, b: pl.Tensor,
    eq: pl.Out[pl.Tensor], ne: pl.Out[pl.Tensor], lt: pl.Out[pl.Tensor], le: pl.Out[pl.Tensor], gt: pl.Out[pl.Tensor], ge: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        eq[:] = pl.cmp(a, b)
        ne[:] = pl.cmp(a, b, cmp_type=1)
        lt[:] = pl.tensor.cmp(a, b, 2)
        le[:] = a <= b
        gt[:] = a > b
        ge[:] = pl.cmp(a, b, 5)
    return eq, ne, lt, le, gt, ge


@CASES(f32(6, 17), expected=lambda x: (x * (x > float32(0.25)), np.where(float32(0) > x, float32(1), float32(0))))
@pl.jit
def comparison_as_factor(x: pl.Tensor, kept: pl.Out[pl.Tensor], negative: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        kept[:] = x * (x > 0.25)
        negative[:] = 0.0 > x  # noqa: SIM300
    return kept, negative


@CASES(f32(7, 19), f32(7, 19), expected=lambda a, b: np.where(a < b, a, b))
@pl.jit
def select_smaller(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [7, 19])
        tb = pl.load(b, [0, 0], [7, 19])
        tmp = pl.create_tile([7, 32], dtype=pl.UINT8)
        mask = pl.cmp(ta, tb, cmp_type=2)
        pl.store(pl.sel(mask, ta, tb, tmp), [0, 0], out)
    return out


@CASES(f32(4, 40), expected=lambda x: np.where(x >= float32(0.5), x, float32(-1)))
@pl.jit
def select_scalar(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 40])
        tmp = pl.create_tile([4, 40], dtype=pl.FP32)
        mask = pl.cmps(t, 0.5, cmp_type=5)
        pl.store(pl.sels(mask, t, tmp, -1.0), [0, 0], out)
    return out


@CASES(f32(5, 21), f32(5, 21), expected=lambda a, b: packed(a > b)[:, :3])
@pl.jit
def stored_mask(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """21 columns are three bytes; only the valid ones reach memory."""
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.cmp(pl.load(a, [0, 0], [5, 21]), pl.load(b, [0, 0], [5, 21]), cmp_type=4)
        pl.store(mask, [0, 0], out)
    return out


@CASES(i32(3, 300, low=0, high=2), expected=lambda a: packed(a == 1, 64)[:, :38])
@pl.jit
def stored_mask_of_two_blocks(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask: pl.Tile[[3, 64], pl.UINT8] = pl.tile.cmps(pl.load(a, [0, 0], [3, 300]), 1)
        out = pl.store(mask, [0, 0], out)
    return out


@CASES(data(np.uint8, 6, 32), f32(6, 50), f32(6, 50), expected=lambda m, a, b: np.where(unpacked(m, 50), a, b))
@pl.jit
def mask_of_bytes_from_memory(m: pl.Tensor, a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.load(m, [0, 0], [6, 32])
        tmp = pl.create_tile([6, 32], dtype=pl.UINT8)
        pl.store(pl.tile.sel(mask, pl.load(a, [0, 0], [6, 50]), pl.load(b, [0, 0], [6, 50]), tmp), [0, 0], out)
    return out


@CASES(data(np.int16, 4, 16), f16(4, 90), expected=lambda m, x: np.where(unpacked(m, 90), x, np.float16(0.5)))
@pl.jit
def mask_of_words_from_memory(m: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.load(m, [0, 0], [4, 16])
        t = pl.load(x, [0, 0], [4, 90])
        tmp = pl.create_tile([4, 90], dtype=pl.FP16)
        pl.store(pl.sels(mask, t, tmp, 0.5), [0, 0], out)
    return out


@CASES(data(np.int32, 3, 8), i32(3, 256), expected=lambda m, x: np.where(unpacked(m, 256), x, np.int32(-9)))
@pl.jit
def mask_of_long_words_from_memory(m: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.load(m, [0, 0], [3, 8])
        t = pl.load(x, [0, 0], [3, 256])
        tmp = pl.create_tile([3, 256], dtype=pl.INT32)
        pl.store(pl.sels(mask, t, tmp, -9), [0, 0], out)
    return out


@CASES(data(np.uint8, 5, 40), expected=lambda x: np.where(x > 100, x, np.uint8(255)))
@pl.jit
def unsigned_scalar_wraps(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A constant scalar of sels is taken modulo 2^n for unsigned dtypes."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [5, 40])
        tmp = pl.create_tile([5, 40], dtype=pl.UINT8)
        pl.store(pl.sels(pl.cmps(t, 100, cmp_type=4), t, tmp, -1), [0, 0], out)
    return out


@CASES(f32(6, 23), f32(6, 23), expected=lambda a, b: (np.where(a > 0, a, b), packed(a > 0)[:, :3]))
@pl.jit
def mask_stored_and_used(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], bits: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [6, 23])
        tb = pl.load(b, [0, 0], [6, 23])
        tmp = pl.create_tile([6, 32], dtype=pl.UINT8)
        mask = pl.cmps(ta, 0.0, cmp_type=4)
        bits = pl.store(mask, [0, 0], bits)
        out = pl.store(pl.sel(mask, ta, tb, tmp), [0, 0], out)
    return out, bits


@CASES(f32(8, 30), f32(8, 30), expected=lambda a, b: np.where(a > b, a, b) * float32(2))
@pl.jit
def mask_through_memory(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """One kernel stores the mask, the next one loads it."""
    bits = pl.create_tensor([8, 32], dtype=pl.UINT8, init_value=0)
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.cmp(pl.load(a, [0, 0], [8, 30]), pl.load(b, [0, 0], [8, 30]), cmp_type=4), [0, 0], bits)
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.load(bits, [0, 0], [8, 32])
        tmp = pl.create_tile([8, 32], dtype=pl.UINT8)
        pl.store(pl.sel(mask, pl.load(a, [0, 0], [8, 30]), pl.load(b, [0, 0], [8, 30]), tmp) * 2.0, [0, 0], out)
    return out


@CASES(f32(8, 30), expected=lambda x: np.where(x > 1, float32(1), np.where(x < -1, float32(-1), x)))
@pl.jit
def two_masks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 30])
        tmp = pl.create_tile([8, 30], dtype=pl.FP32)
        low = pl.sels(pl.cmps(t, 1.0, cmp_type=3), t, tmp, 1.0)
        pl.store(pl.sels(pl.cmps(t, -1.0, cmp_type=5), low, tmp, -1.0), [0, 0], out)
    return out


@CASES(f32(6, 24), 17, expected=lambda x, n: np.where(np.arange(24) < n, x, float32(-np.inf)))
@pl.jit(runtime_scalars=("n",))
def column_mask_from_arange(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        columns = pl.tile.col_expand(pl.tile.full([6, 24], dtype=pl.INT32, value=0), pl.tile.ci(0, [1, 24], dtype=pl.INT32))
        mask = pl.cmps(columns, n, cmp_type=2)
        tmp = pl.create_tile([6, 24], dtype=pl.FP32)
        pl.store(pl.sels(mask, pl.load(x, [0, 0], [6, 24]), tmp, -float("inf")), [0, 0], out)
    return out


@CASES(f32(5, 18), f32(5, 18), expected=lambda a, b: np.where(np.isnan(np.where(a > 0, a, np.nan)), b, a))
@pl.jit
def nan_compares_false(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """x == x is false where x is not a number."""
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [5, 18])
        tb = pl.load(b, [0, 0], [5, 18])
        rooted = pl.sqrt(ta)
        tmp = pl.create_tile([5, 32], dtype=pl.UINT8)
        pl.store(pl.sel(pl.cmp(rooted, rooted), ta, tb, tmp), [0, 0], out)
    return out


@CASES(f32(2, 3, 11), f32(3, 11), expected=lambda a, b: np.where(a > b, a, b))
@pl.jit
def where_of_rank_three(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.where(a > b, a, b)
    return out


@CASES(f32(6, 21), f32(6, 21), expected=lambda a, b: (np.where(a > b, a, b), np.where(a > 0, a, float32(0.1) * a), np.where(b < 1, float32(-1), b)))
@pl.jit
def where_of_tiles(a: pl.Tensor, b: pl.Tensor, top: pl.Out[pl.Tensor], leaky: pl.Out[pl.Tensor], cut: pl.Out[pl.Tensor]):
    """The mask that a comparison of tiles gives also serves pl.where."""
    with pl.at(level=pl.Level.CORE_GROUP):
        ta, tb = pl.load(a, [0, 0], [6, 21]), pl.load(b, [0, 0], [6, 21])
        pl.store(pl.where(ta > tb, ta, tb), [0, 0], top)
        pl.store(pl.where(ta > 0.0, ta, 0.1 * ta), [0, 0], leaky)
        pl.store(pl.tile.where(tb < 1.0, -1.0, tb), [0, 0], cut)
    return top, leaky, cut


@CASES(data(np.int16, 4, 40), 9, expected=lambda x, n: np.where(np.pad(x[:, :n], ((0, 0), (0, 40 - n))) > 5, np.pad(x[:, :n], ((0, 0), (0, 40 - n))), 0))
@pl.jit
def where_of_a_partial_tile(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 40], valid_shape=[4, n])
        pl.store(pl.fillpad(pl.where(t > 5, t, 0)), [0, 0], out)
    return out


def _clipped(x: Any, low: Any, high: Any) -> Any:
    return np.where(x < low, low, np.where(x > high, high, x)), ((x >= low) & (x <= high)).astype(np.float32)


@CASES(f32(9, 31), f32(1, 31, low=-1, high=0), f32(1, 31, low=0, high=1), expected=_clipped)
@pl.program
class ClipBetweenRows:
    @pl.function(type=pl.FunctionType.InCore)
    def clip(
        self, x: pl.Tensor[[9, 31], pl.FP32], low: pl.Tensor[[1, 31], pl.FP32], high: pl.Tensor[[1, 31], pl.FP32],
        out: pl.Out[pl.Tensor[[9, 31], pl.FP32]], inside: pl.Out[pl.Tensor[[9, 31], pl.FP32]],
    ) -> tuple[pl.Tensor[[9, 31], pl.FP32], pl.Tensor[[9, 31], pl.FP32]]:
        t = pl.load(x, [0, 0], [9, 31])
        lows = pl.col_expand(t, pl.load(low, [0, 0], [1, 31]))
        highs = pl.col_expand(t, pl.load(high, [0, 0], [1, 31]))
        tmp = pl.create_tile([9, 32], dtype=pl.UINT8)
        one = pl.tile.full([9, 31], dtype=pl.FP32, value=1.0)
        zero = pl.tile.expands(one, 0.0)
        above = pl.cmp(t, lows, cmp_type=5)
        below = pl.cmp(t, highs, cmp_type=3)
        out = pl.store(pl.sel(above, pl.sel(below, t, highs, tmp), lows, tmp), [0, 0], out)
        inside = pl.store(pl.sel(above, pl.sel(below, one, zero, tmp), zero, tmp), [0, 0], inside)
        return out, inside

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[9, 31], pl.FP32], low: pl.Tensor[[1, 31], pl.FP32], high: pl.Tensor[[1, 31], pl.FP32],
        out: pl.Out[pl.Tensor[[9, 31], pl.FP32]], inside: pl.Out[pl.Tensor[[9, 31], pl.FP32]],
    ) -> tuple[pl.Tensor[[9, 31], pl.FP32], pl.Tensor[[9, 31], pl.FP32]]:
        out, inside = self.clip(x, low, high, out, inside)
        return out, inside

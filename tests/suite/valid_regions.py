"""Valid regions smaller than the tile: loads, clamps, padding, views of partial tiles, appended writes."""

from __future__ import annotations

import numpy as np
from numpy import float32, inf

import tilejit.language as pl
from tests.suite.harness import Array, Cases, f32, i32

CASES = Cases()
INT_MAX = 2**31 - 1


def padded(x: Array, rows: int, columns: int, value: float) -> Array:
    out = np.full((rows, columns), value, x.dtype)
    out[: x.shape[0], : x.shape[1]] = x
    return out


@CASES(
    f32(6, 20), 4, 11,
    expected=lambda x, r, c: tuple(padded(x[:r, :c], 6, 20, v) for v in (0, inf, -inf)),
    more=[(f32(6, 20), 6, 20), (f32(6, 20), 1, 1)], compiles=1,
)
@pl.jit(runtime_scalars=("r", "c"))
def three_pad_values(x: pl.Tensor, r: pl.INDEX, c: pl.INDEX, zero: pl.Out[pl.Tensor], top: pl.Out[pl.Tensor], bottom: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 20], valid_shape=[r, c])
        pl.store(pl.fillpad(t), [0, 0], zero)
        pl.store(pl.fillpad(t, pad_value=pl.PadValue.max), [0, 0], top)
        pl.store(pl.tile.fillpad(t, pad_value=pl.PadValue.min), [0, 0], bottom)
    return zero, top, bottom


@CASES(i32(5, 12), expected=lambda x: (padded(x[:3, :7], 5, 12, INT_MAX), padded(x[:3, :7], 5, 12, -INT_MAX - 1)))
@pl.jit
def integer_extremes(x: pl.Tensor, top: pl.Out[pl.Tensor], bottom: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [5, 12], valid_shape=[3, 7])
        pl.store(pl.fillpad(t, float("inf")), [0, 0], top)
        pl.store(pl.tile.fillpad_inplace(t, pl.PadValue.min), [0, 0], bottom)
    return top, bottom


@CASES(f32(4, 9), expected=lambda x: (padded(x, 8, 16, 0), padded(x[:, :6], 6, 12, -inf)))
@pl.jit
def expanded_padding(x: pl.Tensor, big: pl.Out[pl.Tensor], other: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 9])
        pl.store(pl.fillpad_expand(t, [8, 16]), [0, 0], big)
        part = pl.load(x, [0, 0], [4, 9], valid_shape=[4, 6])
        pl.store(pl.tile.fillpad_expand(part, [6, 12], pad_value=pl.PadValue.min), [0, 0], other)
    return big, other


@CASES(f32(5, 11), expected=lambda x: (padded(x, 7, 16, 0), padded(x[:3, :4], 5, 11, inf)))
@pl.jit
def padding_of_tensors(x: pl.Tensor, big: pl.Out[pl.Tensor], framed: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        big[:] = pl.tensor.fillpad_expand(x, [7, 16])
        part = pl.slice(x, [5, 11], [0, 0], valid_shape=[3, 4])
        framed[:] = pl.tensor.fillpad(part, pad_value=pl.PadValue.max)
    return big, framed


@CASES(f32(6, 16), 4, 9, expected=lambda x, r, c: (x[:r, :c] * float32(2)).sum(1, keepdims=True), tol=1e-5)
@pl.jit
def set_and_reduced(x: pl.Tensor, r: pl.INDEX, c: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(pl.load(x, [0, 0], [6, 16]), 2.0)
        t = pl.set_validshape(t, r, c)
        tmp = pl.create_tile([6, 16], dtype=pl.FP32)
        pl.store(pl.row_sum(t, tmp), [0, 0], out)
    return out


@CASES(f32(6, 16), 2, 7, expected=lambda x, r, c: padded(x[:r, :c], 6, 16, 0), more=[(f32(6, 16), 6, 3)], compiles=1)
@pl.jit(runtime_scalars=("r", "c"))
def set_at_run_time(x: pl.Tensor, r: pl.INT32, c: pl.INT64, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.tile.set_validshape(pl.load(x, [0, 0], [6, 16]), r, c)
        pl.store(pl.fillpad(t), [0, 0], out)
    return out


@CASES(f32(22, 13), expected=lambda x: x + float32(1))
@pl.jit
def clamped_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Blocks of 8 by 5 over 22 by 13: clamp shrinks the last ones."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 22, 8):
            for j in pl.range(0, 13, 5):
                t = pl.load(x, [i, j], [8, 5], clamp=True)
                pl.store(pl.add(t, 1.0), [i, j], out)
    return out


@CASES(f32(5, 10), expected=lambda x: np.concatenate([x, x, x]))
@pl.jit
def clamped_to_nothing(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A block wholly outside is empty; storing it changes nothing."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            t = pl.load(x, [0, 0], [5, 10])
            nothing = pl.load(x, [i + 5, 0], [5, 10], clamp=True)
            out = pl.store(t, [i * 5, 0], out)
            out = pl.store(nothing, [i * 5, 0], out)
    return out


@CASES(f32(6, 20), f32(6, 20), expected=lambda a, b: padded((a * b)[:4, :9], 6, 20, 0))
@pl.jit
def intersection_of_two(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [6, 20], valid_shape=[4, 20])
        tb = pl.load(b, [0, 0], [6, 20], valid_shape=[6, 9])
        pl.store(pl.fillpad(ta * tb), [0, 0], out)
    return out


@CASES(f32(8, 24), expected=lambda x: (padded(x[2:5, 8:10], 4, 8, 0), padded(x[:3, :5], 4, 8, 0)))
@pl.jit
def slices_of_partial_tiles(x: pl.Tensor, inner: pl.Out[pl.Tensor], corner: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 24], valid_shape=[5, 10])
        pl.store(pl.fillpad(pl.slice(t, [4, 8], [2, 8])), [0, 0], inner)
        pl.store(pl.fillpad(pl.tile.slice(t, [4, 8], [0, 0], valid_shape=[3, 5])), [0, 0], corner)
    return inner, corner


@CASES(f32(8, 12), expected=lambda x: padded(x[:3, :7].T, 12, 8, 0))
@pl.jit
def transposed_partial_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 12], valid_shape=[3, 7])
        pl.store(pl.fillpad(pl.transpose(t, 0, 1)), [0, 0], out)
    return out


@CASES(f32(8, 12), expected=lambda x: padded(x[:4].reshape(8, 6), 16, 6, 0))
@pl.jit
def reshaped_partial_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 12], valid_shape=[4, 12])
        pl.store(pl.fillpad(pl.reshape(t, [16, 6])), [0, 0], out)
    return out


@CASES(f32(6, 10), f32(6, 10), expected=lambda a, b: np.vstack([a[:4], b[4:]]))
@pl.jit
def only_the_valid_part_is_stored(a: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [6, 10], valid_shape=[4, 10])
        out = pl.store(t, [0, 0], out)
    return out


@CASES(f32(9, 16), f32(12, 20), expected=lambda a, o: np.concatenate([o[:2], np.hstack([o[2:7, :3], a[:5, :8], o[2:7, 11:]]), o[7:]]))
@pl.jit
def assembled_partial_source(a: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.slice(a, [9, 16], [0, 0], valid_shape=[5, 8])
        out = pl.tensor.assemble(out, part, [2, 3])
    return out


@CASES(f32(4, 30), np.array([3, 30, 1, 17], np.int32), expected=lambda x, n: np.stack([np.where(np.arange(30) < k, row, 0) for row, k in zip(x, n)]))
@pl.jit
def ragged_rows(x: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            n = pl.cast(pl.read(lengths, [i]), pl.INDEX)
            row = pl.load(x, [i, 0], [1, 30], valid_shape=[1, n])
            out = pl.store(pl.fillpad(row, pad_value=pl.PadValue.zero), [i, 0], out)
    return out


@CASES(f32(6, 14), np.array([1, 5], np.int32), expected=lambda x, c: x[:, :5].sum(1, keepdims=True) if c[0] else x[:, :9].sum(1, keepdims=True), tol=1e-5,
       more=[(f32(6, 14), np.array([0, 5], np.int32))])
@pl.jit
def branch_picks_the_region(x: pl.Tensor, choice: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Rebinding with another valid region is not a change of type."""
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([6, 14], dtype=pl.FP32)
        t = pl.load(x, [0, 0], [6, 14], valid_shape=[6, 9])
        if pl.read(choice, [0]) == 1:
            t = pl.load(x, [0, 0], [6, 14], valid_shape=[6, 5])
        pl.store(pl.row_sum(t, tmp), [0, 0], out)
    return out


@CASES(f32(8, 20), expected=lambda x: sum(padded(x[:, : 4 * i], 8, 20, 0) for i in range(1, 5)), tol=1e-6)
@pl.jit
def loop_widens_the_region(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([8, 20], dtype=pl.FP32, value=0.0)
        for i in pl.range(1, 5):
            t = pl.load(x, [0, 0], [8, 20], valid_shape=[8, 4 * i])
            acc = pl.part_add(acc, t)
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(7, 9), f32(9, 5), expected=lambda a, b: padded(a[:3, :4] @ b[:4, :2], 7, 5, 0), tol=1e-5)
@pl.jit
def product_of_partial_tiles(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [7, 9], valid_shape=[3, 4])
        tb = pl.load(b, [0, 0], [9, 5], valid_shape=[9, 2])
        pl.store(pl.fillpad(pl.matmul(ta, tb)), [0, 0], out)
    return out


@CASES(f32(6, 8), f32(6, 8), expected=lambda a, b: padded(np.hstack([a, b[:, :5]]), 6, 16, 0))
@pl.jit
def concatenated_with_a_partial_one(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left = pl.load(a, [0, 0], [6, 8])
        right = pl.load(b, [0, 0], [6, 8], valid_shape=[6, 5])
        pl.store(pl.fillpad(pl.concat(left, right)), [0, 0], out)
    return out


@CASES(f32(5, 6, 7), expected=lambda x: np.pad(x[:2, :3, :4], ((0, 3), (0, 3), (0, 3))))
@pl.jit
def partial_tile_of_rank_three(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0, 0], [5, 6, 7], valid_shape=[2, 3, 4])
        pl.store(pl.fillpad(t), [0, 0, 0], out)
    return out


@CASES(f32(10, 12), expected=lambda x: padded(x[8:, 9:] * float32(3), 4, 6, 0))
@pl.program
class ClampedWindow:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[10, 12], pl.FP32], out: pl.Out[pl.Tensor[[4, 6], pl.FP32]]) -> pl.Tensor[[4, 6], pl.FP32]:
        window = pl.slice(x, [4, 6], [8, 9], clamp=True, pad_value=pl.PadValue.zero)
        out[:] = pl.fillpad(pl.mul(window, 3.0))
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[10, 12], pl.FP32], out: pl.Out[pl.Tensor[[4, 6], pl.FP32]]) -> pl.Tensor[[4, 6], pl.FP32]:
        out = self.kernel(x, out)
        return out


def _prefix(x: Array, rows: int, shape: tuple[int, ...]) -> Array:
    """The first rows of a matrix at the front of an array of threes."""
    out = np.full(x.size, 3, x.dtype)
    out[: rows * x.shape[1]] = x[:rows].ravel()
    return out.reshape(shape)


SHAPES = ((24, 1), (1, 24), (24,), (4, 2, 3), (8, 3), (12, 2), (1, 4, 6))


@CASES(
    f32(4, 6), 2, *(np.full(shape, 3, np.float32) for shape in SHAPES),
    expected=lambda x, r, *outs: tuple(_prefix(x, r, out.shape) for out in outs),
    more=[(f32(4, 6), r, *(np.full(shape, 3, np.float32) for shape in SHAPES)) for r in (0, 1, 4)], compiles=1,
)
@pl.jit(runtime_scalars=("r",))
def rows_of_the_run_in_other_shapes(
    x: pl.Tensor, r: pl.INDEX,
    a: pl.InOut[pl.Tensor], b: pl.InOut[pl.Tensor], c: pl.InOut[pl.Tensor], d: pl.InOut[pl.Tensor],
    e: pl.InOut[pl.Tensor], f: pl.InOut[pl.Tensor], g: pl.InOut[pl.Tensor],
):  # fmt: skip
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 6], valid_shape=[r, 6])
        pl.store(pl.reshape(t, [24, 1]), [0, 0], a)
        pl.store(pl.reshape(t, [1, 24]), [0, 0], b)
        pl.store(pl.reshape(t, [24]), [0], c)
        pl.store(t, [0, 0, 0], d, [4, 2, 3])
        pl.store(pl.reshape(t, [8, 3]), [0, 0], e)
        pl.store(pl.reshape(t, [12, 2]), [0, 0], f)
        pl.store(pl.reshape(t, [1, 4, 6]), [0, 0, 0], g)
    return a, b, c, d, e, f, g


@CASES(f32(1, 4, 6), f32(2, 4, 6), 2, expected=lambda x, y, r: (
    padded(x[0, :2, :3], 4, 6, 0), padded(x[0, :r, :3], 4, 6, 0), padded(y.reshape(8, 6)[:, :3], 8, 6, 0), padded(y.reshape(8, 6)[:4, :5], 8, 6, 0),
))  # fmt: skip
@pl.jit(runtime_scalars=("r",))
def boxes_in_other_shapes(
    x: pl.Tensor, y: pl.Tensor, r: pl.INDEX, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor], d: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.fillpad(pl.slice(x, [1, 4, 6], [0, 0, 0], valid_shape=[1, 2, 3], drop_dims=[0]))
        t = pl.load(x, [0, 0, 0], [1, 4, 6], valid_shape=[1, r, 3])
        pl.store(pl.fillpad(pl.reshape(t, [4, 6])), [0, 0], b)
        merged = pl.load(y, [0, 0, 0], [2, 4, 6], valid_shape=[2, 4, 3])
        pl.store(pl.fillpad(pl.reshape(merged, [8, 6])), [0, 0], c)
        first = pl.load(y, [0, 0, 0], [2, 4, 6], valid_shape=[1, 4, 5])
        pl.store(pl.fillpad(pl.reshape(pl.reshape(pl.reshape(first, [8, 6]), [2, 4, 1, 6]), [8, 6])), [0, 0], d)
    return a, b, c, d

"""Forms of public programs about windows: writes that take a valid region, valid regions of views, slots, extents behind casts, parts that are stored."""

from __future__ import annotations

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, f32, i32

CASES = Cases()


def patched(base: Array, part: Array, *at: int) -> Array:
    """`base` with `part` written at a corner."""
    out = base.copy()
    out[tuple(slice(start, start + size) for start, size in zip(at, part.shape, strict=True))] = part
    return out


# a subscript write takes the valid region of its value ----------------------------------------------------------------


@CASES(f32(8, 8), f32(8, 8), f32(16, 8), f32(16, 8), expected=lambda y, a, src, b: (patched(a, y[:, :4], 0, 0), patched(b, src[:, :4], 0, 0)))
@pl.jit
def written_by_its_valid_region(y: pl.Tensor, a: pl.InOut[pl.Tensor], src: pl.Tensor, b: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[0:8, 0:4] = pl.slice(y, [8, 8], [0, 0], valid_shape=[8, 4])
        b[0:16, 0:4] = pl.set_validshape(src, 16, 4)


@CASES(
    f32(8, 8), 5, f32(8, 8), expected=lambda x, n, out: patched(out, (x * float32(2))[:n, :3], 1, 2),
    more=[(f32(8, 8), 1, f32(8, 8)), (f32(8, 8), 6, f32(8, 8))],
)
@pl.jit(runtime_scalars=("n",))
def written_by_a_valid_region_of_the_run(x: pl.Tensor, n: pl.INDEX, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 8], valid_shape=[n, 3])
        out[1:7, 2:5] = pl.mul(t, 2.0)


@CASES(
    f32(8, 8), 5, f32(8, 8), expected=lambda x, n, out: patched(out, x[:n, :8], 8 - n, 0),
    more=[(f32(8, 8), 1, f32(8, 8)), (f32(8, 8), 8, f32(8, 8))], compiles=1,
)
@pl.jit(runtime_scalars=("n",))
def written_into_a_window_of_the_run(x: pl.Tensor, n: pl.INDEX, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[8 - n : 8, :] = pl.slice(x, [8, 8], [0, 0], valid_shape=[n, 8])


@CASES(f32(3, 8), f32(4, 3, 8), expected=lambda x, out: patched(out, x[None, :, :5], 2, 0, 1))
@pl.jit
def written_into_a_window_of_lower_rank(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[2, :, 1:6] = pl.slice(x, [3, 8], [0, 0], valid_shape=[3, 5])


@CASES(f32(3, 8), f32(3, 4, 8), expected=lambda x, out: patched(out, x[:, None, :5], 0, 2, 1))
@pl.jit
def written_into_a_window_with_a_dropped_middle(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 2, 1:6] = pl.slice(x, [3, 8], [0, 0], valid_shape=[3, 5])


@CASES(f32(6, 8), f32(6, 8), expected=lambda x, y: patched(y, x[:4, :2], 1, 3))
@pl.jit
def a_tile_written_by_a_valid_region(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(y, [0, 0], [6, 8])
        t[1:5, 3:5] = pl.load(x, [0, 0], [6, 8], valid_shape=[4, 2])
        pl.store(t, [0, 0], out)
    return out


# valid regions of views -----------------------------------------------------------------------------------------------


@CASES(f32(4, 64), expected=lambda x: patched(np.zeros((1, 32), float32), x[:1, 32:52], 0, 0))
@pl.jit
def valid_region_of_a_slice(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(pl.set_validshape(x[0:1, 32:64], 1, 20))


@CASES(f32(6, 40), 5, 3, expected=lambda x, n, m: x[1 : 1 + m, 8:11], more=[(f32(6, 40), 3, 1)])
@pl.jit(runtime_scalars=("n",))
def valid_region_of_a_slice_of_the_run(x: pl.Tensor, n: pl.INDEX, m: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.set_validshape(x[1:n, 8:24], m, 3)


@CASES(f32(3, 6, 8), i32(1, low=0, high=13), expected=lambda x, n: patched(np.zeros((2, 24), float32), x[1].reshape(2, 24)[:1, : n[0]], 0, 0))
@pl.jit
def valid_region_of_a_reshaped_plane(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(pl.set_validshape(pl.reshape(x[1], [2, 24]), 1, n[0]))


@CASES(f32(6, 40), expected=lambda x: (x + float32(1), patched(np.zeros((2, 16), float32), x[1:2, 8:20], 0, 0)))
@pl.jit
def a_valid_region_keeps_what_it_was_cut_from(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.set_validshape(x[1:3, 8:24], 1, 12)
        x[:] = x + 1.0
        out[:] = pl.fillpad(part)


# slots that only the run knows ----------------------------------------------------------------------------------------


@CASES(f32(24, 8), expected=lambda x: x * float32(2))
@pl.jit
def a_slot_from_a_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(6):
            t: pl.Tile[[4, 8], pl.FP32, pl.MemRef("ub", slots=2)[i % 2], pl.Mem.Vec] = pl.load(x, [i * 4, 0], [4, 8])
            u: pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec, pl.MemRef(slots=3)[pl.min(i, 2)]] = pl.add(t, t)
            pl.store(u, [i * 4, 0], out)
    return out


@CASES(f32(24, 8), i32(1, low=0, high=4), expected=lambda x, at: -x)
@pl.jit
def a_slot_from_data(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        slot = at[0]
        t: pl.Tile[[24, 8], pl.FP32, pl.MemRef("ring", slots=4)[slot], pl.Mem.Vec] = pl.load(x, [0, 0], [24, 8])
        u: pl.Tile[[24, 8], pl.FP32, pl.MemRef('ring', slots=4)[(slot + 1) % 4]] = pl.neg(t)
        pl.store(u, [0, 0], out)
    return out


@CASES(f32(24, 8), expected=lambda x: x + float32(1))
@pl.jit
def a_slot_of_a_tensor_in_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(3):
        t: pl.Tile[[8, 8], pl.FP32, pl.MemRef("ring", slots=4)[b & 3]] = pl.load(x, [b * 8, 0], [8, 8])
        for _, (v,) in pl.range(1, init_values=(t,)):
            w: pl.Tile[[8, 8], pl.FP32, pl.MemRef("ring", slots=4)[(b + 2) // 2]] = pl.add(v, 1.0)
            v = pl.yield_(w)
        pl.store(v, [b * 8, 0], out)
    return out


@CASES(f32(24, 8), 5, expected=lambda x, n: x[: 4 * n] * float32(3), more=[(f32(24, 8), 2)])
@pl.jit(runtime_scalars=("n",))
def a_slot_from_a_while(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = 0
        while i < n:
            t: pl.Tile[[4, 8], pl.FP32, pl.MemRef("ring", slots=3)[(i + n) % 3]] = pl.load(x, [i * 4, 0], [4, 8])
            u: pl.Tile[[4, 8], pl.FP32, pl.MemRef("other", slots=2)[pl.min(i, 1)]] = pl.mul(t, 3.0)
            pl.store(u, [i * 4, 0], out)
            i = i + 1
    return out


# extents behind casts -------------------------------------------------------------------------------------------------


@CASES(f32(8, 64), i32(2, low=0, high=6), expected=lambda x, n: np.concatenate([x[n[0] : n[0] + 1], x[n[1] : n[1] + 2] * float32(2)]))
@pl.jit
def rows_at_a_place_from_data(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor[[3, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pos = pl.read(n, [0])
        row = x[pos : pos + 1, 0:64]
        t = pl.load(row, [0, 0], [1, 64])
        pl.store(t, [0, 0], out)
        at = pl.cast(n[1], pl.INT64)
        two = pl.load(x[at : 2 + at], [0, 0], [2, 64])
        pl.store(pl.add(two, two), [1, 0], out)
    return out


@CASES(f32(8, 24), i32(1, low=0, high=3), expected=lambda x, n: x[2 * n[0] : 2 * n[0] + 2, 8:16] + x[0:2, 8 * n[0] // 8 * 8 : 8 * n[0] + 8])
@pl.jit
def blocks_at_a_place_from_data(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        block = n[0]
        first = block * 2
        a = pl.load(x[first : (block + 1) * 2, 8:16], [0, 0], [2, 8])
        start = pl.cast(block, pl.INDEX) * 8
        b = pl.load(x[0:2, start : pl.cast(block * 8, pl.INDEX) + 8], [0, 0], [2, 8])
        pl.store(pl.add(a, b), [0, 0], out)
    return out


@CASES(f32(8, 16), i32(1, low=0, high=7), f32(8, 16), expected=lambda x, n, out: patched(out, x[3:4], n[0], 0))
@pl.jit
def a_row_written_at_a_place_from_data(x: pl.Tensor, n: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pos = pl.read(n, [0])
        out[pos : pos + 1, :] = pl.load(x, [3, 0], [1, 16])


@CASES(f32(3, 6, 8), i32(2, low=0, high=2), expected=lambda x, n: x[n[0], n[1] + 1 : n[1] + 3] + x[n[1], n[0] : n[0] + 2])
@pl.jit
def planes_at_a_place_from_data(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        plane = pl.cast(pl.read(n, [0]), pl.INDEX)
        row = pl.cast(pl.cast(n[1], pl.INT64), pl.INDEX)
        one = x[plane : plane + 1, row + 1 : 3 + row, 0:8]
        other = x[row : row + 1, plane : 2 + plane, 0:8]
        out[:] = pl.reshape(one + other, [2, 8])
    return out


# `shapes` of a store is the part written ------------------------------------------------------------------------------


@CASES(f32(8, 8), f32(8, 8), expected=lambda x, out: patched(out, x[:1, :1], 3, 0))
@pl.jit
def one_cell_of_a_tile_stored(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 8])
        pl.tile.store(t, [3, 0], out, shapes=[1, 1])


@CASES(
    f32(8, 8), 5, f32(8, 8), expected=lambda x, n, out: patched(out, x[: min(n, 6), :4], 1, 2),
    more=[(f32(8, 8), 1, f32(8, 8)), (f32(8, 8), 7, f32(8, 8))], compiles=1,
)
@pl.jit(runtime_scalars=("n",))
def a_part_that_the_run_decides(x: pl.Tensor, n: pl.INDEX, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 8], valid_shape=[6, 8])
        pl.store(t, [1, 2], out, [n, 4])


@CASES(f32(8, 8), f32(3, 8, 8), expected=lambda x, out: patched(out, x[None, :5, :3], 1, 2, 4))
@pl.jit
def a_part_into_a_plane(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 8])
        pl.store(t, [1, 2, 4], out, shapes=[1, 5, 3])


@CASES(f32(4, 8), f32(40), expected=lambda x, out: patched(out, x[0, :6], 9))
@pl.jit
def a_part_of_a_row_into_a_line(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 8])
        pl.store(t, [9], out, shapes=[6])


# a reshape of a slice with strides ------------------------------------------------------------------------------------


@CASES(f32(8, 64), expected=lambda x: x[:, 32:64].reshape(1, 256) * float32(2))
@pl.jit
def a_reshaped_slice_with_strides(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.reshape(x[:, 32:64], [1, 256]) * 2.0
    return out


@CASES(f32(8, 24), 5, expected=lambda x, n: (x[:n, 4:12].reshape(-1)[None], x[2:6].reshape(2, 48)), more=[(f32(8, 24), 8)])
@pl.jit
def reshaped_slices_of_the_run(x: pl.Tensor, n: pl.INDEX, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.reshape(x[0:n, 4:12], [1, n * 8])
        b[:] = pl.reshape(x[2:6], [2, 48])
    return a, b


@CASES(f32(4, 6, 10), expected=lambda x: (x[1:3, :, 2:7].reshape(20, 3), x[:, 3].reshape(2, 20), x[2, 1:5].reshape(5, 8)))
@pl.jit
def reshaped_slices_of_a_cube(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.reshape(x[1:3, :, 2:7], [20, 3])
        b[:] = pl.reshape(x[:, 3], [2, 20])
        c[:] = pl.reshape(x[2, 1:5], [-1, 8])
    return a, b, c


@CASES(f32(6, 16), expected=lambda x: (x + float32(1), x[:, 8:].reshape(4, 12)))
@pl.jit
def a_reshaped_slice_keeps_what_was_there(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.reshape(x[:, 8:16], [4, 12])
        x[:] = x + 1.0
        out[:] = part
    return out


@CASES(f32(6, 16), f32(6, 16), expected=lambda x, out: patched(out, x[:2], 2, 0))
@pl.jit
def rows_without_gaps_stay_a_view(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        line = pl.reshape(out[2:4], [1, 32])
        line[:] = pl.reshape(x[0:2], [1, 32])


# slices that overhang -------------------------------------------------------------------------------------------------


@CASES(f32(10, 8), expected=lambda x: x + float32(4))
@pl.jit
def overhanging_slices_that_nobody_reads(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        block = pl.slice(x, [4, 8], [8, 0])
        _inner = pl.slice(block, [3, 8], [0, 0])
        out[:] = x + block.shape[0]


@CASES(f32(10, 8), f32(10, 8), expected=lambda x, out: x * float32(2))
@pl.jit
def only_the_inside_of_an_overhanging_slice_is_read(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(3):
            block = pl.slice(x, [4, 8], [k * 4, 0])
            t = pl.load(block, [0, 0], [4, 8], valid_shape=[pl.min(4, 10 - k * 4), 8])
            pl.store(pl.add(t, t), [k * 4, 0], out)


@CASES(f32(10, 8), expected=lambda x: patched(np.zeros((4, 8), float32), x[8:10] + float32(1), 0, 0))
@pl.jit
def the_valid_part_of_an_overhanging_slice(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        block = pl.slice(x, [4, 8], [8, 0])
        out[:] = pl.fillpad(pl.set_validshape(block, 2, 8) + 1.0)
    return out


ROWS = pl.dynamic("ROWS")


@CASES(f32(10, 8), f32(10, 8), expected=lambda x, out: -x, more=[(f32(7, 8), f32(7, 8)), (f32(12, 8), f32(12, 8))], compiles=1)
@pl.jit
def overhanging_slices_of_any_tensor(x: pl.Tensor[[ROWS, 8], pl.FP32], out: pl.InOut[pl.Tensor[[ROWS, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range((ROWS + 3) // 4):
            block = x[k * 4 : k * 4 + 4, :]
            t = pl.load(block, [0, 0], [4, 8], valid_shape=[pl.min(4, ROWS - k * 4), 8])
            pl.store(pl.neg(t), [k * 4, 0], out)


@CASES(f32(10, 8), expected=lambda x: x[8:10, 2:6])
@pl.jit
def a_part_of_an_overhanging_slice(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        block = pl.slice(x, [4, 8], [8, 0])
        out[:] = block[0:2, 2:6]
    return out


@CASES(f32(10, 8), expected=lambda x: (x.sum(0, keepdims=True), np.array([x[9, 7], x[8, 2]], float32)), tol=1e-5)
@pl.jit
def rows_and_cells_of_overhanging_slices(x: pl.Tensor, out: pl.Out[pl.Tensor], cells: pl.Out[pl.Tensor[[2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
        for b in pl.range(3):
            block = pl.slice(x, [4, 8], [b * 4, 0])
            for r in pl.range(pl.min(4, 10 - b * 4)):
                total = pl.add(total, pl.load(block, [r, 0], [1, 8]))
        pl.store(total, [0, 0], out)
        corner = pl.slice(x, [4, 8], [8, 2])
        cells[0] = pl.read(corner, [1, 5])
        cells[1] = corner[0, 0]
    return out, cells


@CASES(f32(10, 8), i32(1, low=7, high=9), f32(10, 8), expected=lambda x, n, out: patched(patched(out, x[n[0] + 1 : n[0] + 2], 0, 0), x[:2], 8, 0))
@pl.jit
def overhanging_slices_at_places_from_data(x: pl.Tensor, n: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        at = n[0]
        block = x[at : at + 4]
        pl.store(pl.load(block, [1, 0], [1, 8]), [0, 0], out)
        rest = pl.slice(out, [4, 8], [8, 0])
        rest[0:1] = x[0:1]
        pl.store(pl.load(x, [1, 0], [1, 8]), [1, 0], rest)


@CASES(f32(10, 8), i32(1, low=0, high=3), expected=lambda x, n: patched(np.zeros((4, 8), float32), x[n[0] + 2 : n[0] + 4], 0, 0))
@pl.jit
def a_clamp_ends_where_the_window_does(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        at = n[0]
        block = x[at : at + 4]
        pl.store(pl.fillpad(pl.load(block, [2, 0], [4, 8], valid_shape=[4, 8], clamp=True)), [0, 0], out)
    return out

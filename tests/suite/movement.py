"""Moving data: windows, subscripts, assembling, transposes, reshapes, views as another dtype, concatenation, single elements, arrays, atomics."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f16, f32, i32

CASES = Cases()
BF16 = ml_dtypes.bfloat16


@CASES(f32(5, 7), f32(5, 4), expected=lambda a, b: np.hstack([a, b, a]))
@pl.jit
def three_side_by_side(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.concat(pl.concat(a, b), a)
    return out


@CASES(data(np.int8, 5, 7), data(np.int8, 5, 4), expected=lambda a, b: np.hstack([a, b]))
@pl.jit
def tiles_side_by_side(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.tile.concat(pl.load(a, [0, 0], [5, 7]), pl.load(b, [0, 0], [5, 4])), [0, 0], out)
    return out


@CASES(f32(2, 3, 4, 5), expected=lambda x: (x.swapaxes(0, 2).copy(), x.swapaxes(1, 3).copy(), x.swapaxes(-1, -2).copy()))
@pl.jit
def any_two_axes(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.transpose(x, 0, 2)
        b[:] = pl.tensor.transpose(x, 3, 1)
        c[:] = pl.transpose(x, -1, -2)
    return a, b, c


@CASES(f16(9, 6), expected=lambda x: (x.T.copy(), x.T.copy()))
@pl.jit
def tiles_transposed(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [9, 6])
        tmp = pl.create_tile([6, 9], dtype=pl.FP16)
        pl.store(pl.tile.transpose(t, 0, 1, tmp), [0, 0], a)
        pl.store(pl.tile.transpose_view(t), [0, 0], b)
    return a, b


@CASES(f32(4, 3, 10), expected=lambda x: (x.reshape(12, 10) * float32(2), x.reshape(120), x.reshape(2, 2, 3, 2, 5) + float32(1)))
@pl.jit
def reshapes(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.reshape(x, [12, 10]) * 2.0
        b[:] = pl.tensor.reshape(x, [120])
        t = pl.load(x, [0, 0, 0], [4, 3, 10])
        pl.store(pl.tile.reshape(t, [2, 2, 3, 2, 5]) + 1.0, [0, 0, 0, 0, 0], c)
    return a, b, c


@CASES(f32(6, 8), expected=lambda x: (x.view(np.int32), x.view(np.uint16), x.view(np.uint8).reshape(12, 16)))
@pl.jit
def bits_as_another_dtype(x: pl.Tensor, same: pl.Out[pl.Tensor], narrow: pl.Out[pl.Tensor], bytes_: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        same[:] = pl.reinterpret_view(x, pl.INT32)
        t = pl.load(x, [0, 0], [6, 8])
        pl.store(pl.tile.reinterpret_view(t, pl.UINT16), [0, 0], narrow)
        bytes_[:] = pl.tensor.reinterpret_view(x, pl.UINT8, shape=[12, 16])
    return same, narrow, bytes_


@CASES(data(np.uint16, 4, 12), expected=lambda x: (x & 0xBFFF).astype(np.uint16).view(BF16).astype(np.float32))
@pl.jit
def words_as_floats(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        clean = pl.ands(x, 0xBFFF)
        out[:] = pl.cast(pl.reinterpret_view(clean, pl.BF16), pl.FP32)
    return out


@CASES(f32(4, 10), expected=lambda x: (np.frexp(np.abs(x))[1] - 1).astype(np.int32))
@pl.jit
def exponent_of_floats(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 10])
        bits = pl.tile.reinterpret_view(t, pl.INT32)
        pl.store(pl.sub(pl.ands(pl.shrs(bits, 23), 255), 127), [0, 0], out)
    return out


@CASES(f32(12, 20), expected=lambda x: (x[3:7, 5:15], x[2:9, 4:5], x[-1:, -3:], x[4], x[2:5]))
@pl.jit
def subscripts(
    x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor], d: pl.Out[pl.Tensor], e: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = x[3:7, 5:15]
        b[:] = x[2:9, 4:5]
        c[:] = x[11:12, 17:]
        d[:] = x[4]
        e[:] = x[2:5]
    return a, b, c, d, e


@CASES(f32(3, 6, 20), expected=lambda x: (x[1, 2:4], x[:, 3, :], x[2][1:3, 5:9]))
@pl.jit
def subscripts_that_drop_dims(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = x[1, 2:4]
        b[:] = x[:, 3, :]
        c[:] = x[2][1:3, 5:9]
    return a, b, c


@CASES(f32(8, 12), i32(2, low=0, high=5), expected=lambda x, k: (x[k[0] : k[0] + 3] - x[k[1] : k[1] + 3, ::1]))
@pl.jit
def windows_at_run_time(x: pl.Tensor, k: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(k, [0]), pl.INDEX)
        j = pl.cast(pl.read(k, [1]), pl.INDEX)
        out[:] = x[i : i + 3, :] - pl.slice(x, [3, 12], [j, 0])
    return out


@CASES(f32(4, 6), f32(10, 12), expected=lambda s, o: _written(o, s))
@pl.jit
def window_writes(s: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:4, 0:6] = s
        out[5:9, 6:] = s * 2.0
        out[9, 1:7] = s[2]
        out[4] = pl.tensor.full([12], dtype=pl.FP32, value=3.0)
    return out


def _written(o: Array, s: Array) -> Array:
    o = o.copy()
    o[0:4, 0:6] = s
    o[5:9, 6:] = s * 2
    o[9, 1:7] = s[2]
    o[4] = 3
    return o


@CASES(f32(4, 4), expected=lambda x: np.block([[x, x.T], [-x, x * float32(2)]]))
@pl.jit
def assembled_from_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 4])
        big = pl.create_tile([8, 8], dtype=pl.FP32)
        big = pl.assemble(big, t, [0, 0])
        big = pl.tile.assemble(big, pl.transpose(t, 0, 1), [0, 4])
        big = pl.assemble(big, pl.neg(t), [4, 0])
        big = pl.assemble(target=big, source=t + t, offset=[4, 4])
        pl.store(big, [0, 0], out)
    return out


@CASES(f32(6, 8), expected=lambda x: (np.vstack([x[:2], np.ones((1, 8)), x[3:]]).astype(np.float16)))
@pl.jit
def assemble_rounds(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        base = pl.cast(pl.load(x, [0, 0], [6, 8]), pl.FP16, mode="rint")
        row = pl.tile.full([1, 8], dtype=pl.FP32, value=1.0)
        pl.store(pl.tile.assemble(base, row, [2, 0]), [0, 0], out)
    return out


@CASES(f32(9, 15), expected=lambda x: x[2:6, 3:11] + x[5:9, 7:15])
@pl.jit
def extracted_parts(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [9, 15], target_memory=pl.Mem.Mat)
        a = pl.tile.extract(t, 2, 3, [4, 8], target_memory=pl.Mem.Left)
        b = pl.tile.extract(t, 5, 7, shape=[4, 8], target_memory=pl.Mem.Left)
        pl.store(pl.move(a, target_memory=pl.Mem.Vec) + pl.move(b, pl.Mem.Vec), [0, 0], out)
    return out


@CASES(f32(4, 5, 6), expected=lambda x: (x[2, 1:3], x[1:3, 4]))
@pl.jit
def slices_with_dropped_dims(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.slice(x, [1, 2, 6], [2, 1, 0], drop_dims=[0])
        b[:] = pl.tensor.slice(x, [2, 1, 6], [1, 4, 0], drop_dims=[1])
    return a, b


@CASES(f32(5, 6), i32(3, low=0, high=5), expected=lambda x, k: np.array([x[k[0], k[1]] + x.reshape(-1)[7], x[4, 5] * x[k[2], 0], x[0, 0]]))
@pl.jit
def elements_read(x: pl.Tensor, k: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i, j = pl.cast(pl.read(k, [0]), pl.INDEX), pl.cast(k[1], pl.INDEX)
        t = pl.load(x, [0, 0], [5, 6])
        pl.write(out, [0], pl.read(x, [i, j]) + pl.read(t, 7))
        pl.write(out, [1], t[4, 5] * pl.tensor.read(x, [k[2], 0]))
        out[2] = pl.tile.read(t, [0, 0])
    return out


@CASES(f32(3, 4), expected=lambda x: (_spotted(x, 5), _spotted(x, -1)))
@pl.jit
def elements_written(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    """A write to a tile changes that name alone."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [3, 4])
        u = t
        t[1, 2] = 5.0
        pl.tile.write(u, [1, 2], -1.0)
        pl.store(t, [0, 0], a)
        pl.store(u, [0, 0], b)
    return a, b


def _spotted(x: Array, value: float) -> Array:
    x = x.copy()
    x[1, 2] = value
    return x


def _histogram(x: Array) -> Array:
    return np.bincount(x, minlength=8).astype(np.int32)


@CASES(i32(50, low=0, high=8), expected=_histogram)
@pl.jit
def histogram_in_an_array(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        bins = pl.array.create(8, pl.INT32)
        for b in pl.unroll(8):
            bins[b] = 0
        for i in pl.range(50):
            k = pl.cast(pl.read(x, [i]), pl.INDEX)
            bins[k] = bins[k] + 1
        for b in pl.range(8):
            pl.write(out, [b], bins[b])
    return out


@CASES(i32(6), expected=lambda x: np.array([x[5], x[0], 7], np.int32))
@pl.jit
def functional_array(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.array.create(extent=3, dtype=pl.INT32)
        a = pl.array.update_element(a, 0, pl.read(x, [5]))
        a = pl.array.update_element(a, 1, pl.read(x, [0]))
        a = pl.array.update_element(a, 2, 7)
        for i in pl.range(3):
            pl.write(out, [i], pl.array.get_element(a, i))
    return out


@CASES(f32(6, 8), f32(2, 8), expected=lambda x, o: o + x.reshape(3, 2, 8).sum(0), tol=1e-5, threads=(1, 2))
@pl.jit
def atomic_stores(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.spmd(3):
        out = pl.store(pl.load(x, [i * 2, 0], [2, 8]), [0, 0], out, atomic=pl.AtomicType.Add)
    return out


@CASES(i32(12, 8, low=-9, high=9), expected=lambda x: x.reshape(4, 3, 8).sum(0, dtype=np.int32), returned=True)
@pl.jit
def atomic_assembles(x: pl.Tensor, out: pl.Out[pl.Tensor[[3, 8], pl.INT32]]):
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.assemble(out, x[i * 3 : i * 3 + 3, :] + 0, [0, 0], atomic=pl.AtomicType.Add)
    return out


@CASES(expected=lambda: (np.arange(5, 25, dtype=np.int32)[None], np.arange(9, -7, -1).astype(np.int16)[None], np.arange(100, 108, dtype=np.uint32)[None]))
@pl.jit
def consecutive_numbers(up: pl.Out[pl.Tensor[[1, 20], pl.INT32]], down: pl.Out[pl.Tensor[[1, 16], pl.INT16]], high: pl.Out[pl.Tensor[[1, 8], pl.UINT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.tile.ci(5, [1, 20]), [0, 0], up)
        pl.store(pl.tile.arange(9, [1, 16], dtype=pl.INT16, descending=True), [0, 0], down)
        high[:] = pl.tensor.arange(100, [1, 8], dtype=pl.UINT32)
    return up, down, high


@CASES(expected=lambda: (np.tri(6, 9, 0, np.int32), np.triu(np.ones((6, 9), np.float32), 2), np.tri(6, 9, -1).astype(np.float16)))
@pl.jit
def triangles(low: pl.Out[pl.Tensor[[6, 9], pl.INT32]], up: pl.Out[pl.Tensor[[6, 9], pl.FP32]], below: pl.Out[pl.Tensor[[6, 9], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.tri(0, [6, 9]), [0, 0], low)
        pl.store(pl.tri(2, [6, 9], dtype=pl.FP32, upper=True), [0, 0], up)
        pl.store(pl.tile.tri(-1, [6, 9], dtype=pl.FP16), [0, 0], below)
    return low, up, below


@CASES(f32(8, 8), expected=lambda x: np.where(np.tri(8) > 0, x, 0).astype(np.float32).sum(1, keepdims=True), tol=1e-5)
@pl.jit
def causal_sum(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.cmps(pl.tri(0, [8, 8], dtype=pl.INT32), 1)
        tmp = pl.create_tile([8, 8], dtype=pl.FP32)
        seen = pl.sels(mask, pl.load(x, [0, 0], [8, 8]), tmp, 0.0)
        pl.store(pl.row_sum(seen, tmp), [0, 0], out)
    return out


def philox(key: tuple[int, int], counter: tuple[int, int, int, int], cells: int, rounds: int) -> Array:
    """Philox 4x32 in Python's integers: element e is word e % 4 of counter + e // 4."""
    out: list[int] = []
    start = sum(word << (32 * k) for k, word in enumerate(counter))
    for block in range(-(-cells // 4)):
        c = [((start + block) >> (32 * k)) & 0xFFFFFFFF for k in range(4)]
        k0, k1 = key
        for _ in range(rounds):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        out += c
    return np.array(out[:cells], np.uint32)


@CASES(expected=lambda: (philox((7, 9), (1, 2, 3, 4), 45, 10).reshape(5, 9), philox((7, 9), (0xFFFFFFFF, 0, 0, 0), 12, 7).view(np.int32).reshape(3, 4)))
@pl.jit
def random_numbers(a: pl.Out[pl.Tensor[[5, 9], pl.UINT32]], b: pl.Out[pl.Tensor[[3, 4], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.random(7, 9, 1, 2, 3, 4, [5, 9])
        pl.store(pl.tile.random(7, 9, 0xFFFFFFFF, 0, 0, 0, [3, 4], dtype=pl.INT32, rounds=7), [0, 0], b)
    return a, b


@CASES(f32(6, 8), expected=lambda x: x.reshape(3, 2, 8).transpose(1, 0, 2).reshape(2, 24))
@pl.jit
def views_of_tensors(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        cube = pl.tensor.view(x, [3, 2, 8])
        out[:] = pl.reshape(pl.transpose(cube, 0, 1), [2, 24])
    return out


@CASES(f32(6, 8), expected=lambda x: x * float32(3))
@pl.jit
def through_l1(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        near = pl.create_l1([6, 8], pl.FP32)
        near = pl.assemble(near, x, [0, 0])
        out[:] = near * 3.0
    return out


@CASES(f32(4, 6), expected=lambda x: (np.full((4, 6), 1.5, np.float32) + x, np.zeros((2, 3), np.int8)))
@pl.jit
def filled_tensors(x: pl.Tensor, out: pl.Out[pl.Tensor], zero: pl.Out[pl.Tensor[[2, 3], pl.INT8]]):
    base = pl.create_tensor([4, 6], dtype=pl.FP32, init_value=1.5)
    nothing = pl.tensor.create([2, 3], pl.INT8, init_value=0)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = base + x
        zero[:] = nothing
    return out, zero


@CASES(f32(6, 10), f32(4, 3, 10), expected=lambda x, o: np.concatenate([o[:1], x.reshape(2, 3, 10), o[3:]]))
@pl.jit
def window_of_a_store(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    """The rows of a matrix as two planes of a cube."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.store(pl.load(x, [0, 0], [6, 10]), [1, 0, 0], out, [2, 3, 10])
    return out


@CASES(f32(3, 8), f32(2, 3, 8), expected=lambda x, o: np.stack([o[0], x * float32(2)]))
@pl.jit
def matrix_into_a_cube(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [3, 8])
        out = pl.store(t + t, [1, 0, 0], out, shapes=[1, 3, 8])
    return out


@CASES(f32(4, 10), expected=lambda x: np.roll(x, 3, 1))
@pl.program
class Rotated:
    @pl.function(type=pl.FunctionType.InCore)
    def rotate(self, x: pl.Tensor[[4, 10], pl.FP32], out: pl.Out[pl.Tensor[[4, 10], pl.FP32]]) -> pl.Tensor[[4, 10], pl.FP32]:
        t: pl.Tile[[4, 10], pl.FP32, pl.Mem.Vec] = pl.load(x, [0, 0], [4, 10])
        left: pl.Tile[[4, 7], pl.FP32] = pl.slice(t, [4, 7], [0, 0])
        right: pl.Tile[[4, 3], pl.FP32] = pl.tile.slice(t, [4, 3], [0, 7])
        out = pl.store(right, [0, 0], out)
        out = pl.store(left, [0, 3], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[4, 10], pl.FP32], out: pl.Out[pl.Tensor[[4, 10], pl.FP32]]) -> pl.Tensor[[4, 10], pl.FP32]:
        out = self.rotate(x, out)
        return out

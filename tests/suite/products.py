"""The matmul family: tensors and tiles, batches, accumulators, bias, transposes, vectors, integers, block-scaled floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f16, f32, i32

CASES = Cases()
BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
E5M2 = ml_dtypes.float8_e5m2
E8M0 = ml_dtypes.float8_e8m0fnu
FP4 = ml_dtypes.float4_e2m1fn


def dot(a: Array, b: Array) -> Array:
    """The product in double precision."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


@CASES(f32(17, 23), f32(23, 9), expected=dot, tol=1e-5)
@pl.jit
def plain_product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


@CASES(f32(23, 17), f32(9, 23), expected=lambda a, b: dot(a.T, b.T), tol=1e-5)
@pl.jit
def both_transposed(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tensor.matmul(a, b, a_trans=True, b_trans=True)
    return out


@CASES(f16(8, 30), f16(30, 12), expected=lambda a, b: (dot(a, b), dot(a, b).astype(np.float16), dot(a, b).astype(BF16)), tol=2e-2)
@pl.jit
def result_dtypes(a: pl.Tensor, b: pl.Tensor, wide: pl.Out[pl.Tensor], same: pl.Out[pl.Tensor], other: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide[:] = pl.matmul(a, b, out_dtype=pl.FP32)
        same[:] = pl.matmul(a, b)
        other[:] = pl.matmul(a, b, out_dtype=pl.BF16)
    return wide, same, other


@CASES(data(BF16, 16, 40), data(BF16, 40, 16), expected=dot, tol=1e-4)
@pl.jit
def brain_floats_through_spaces(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a_l1 = pl.load(a, [0, 0], [16, 40], target_memory=pl.Mem.Mat)
        b_l1 = pl.load(b, [0, 0], [40, 16], target_memory=pl.Mem.Mat)
        a_l0: pl.Tile[[16, 40], pl.BF16, pl.Mem.Left] = pl.move(a_l1, target_memory=pl.Mem.Left)
        b_l0: pl.Tile[[40, 16], pl.BF16, pl.Mem.Right] = pl.move(b_l1, target_memory=pl.Mem.Right)
        c: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.matmul(a_l0, b_l0)
        pl.store(c, [0, 0], out)
    return out


@CASES(data(np.int8, 9, 31), data(np.int8, 31, 14), expected=lambda a, b: a.astype(np.int32) @ b.astype(np.int32))
@pl.jit
def integers(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.store(pl.matmul(pl.load(a, [0, 0], [9, 31]), pl.load(b, [0, 0], [31, 14])), [0, 0], out)
    return out


@CASES(data(BF16, 5, 70), data(np.int8, 11, 70), data(np.uint8, 70, 9), expected=lambda a, b, c: (dot(a, b.T), dot(a, c)), tol=1e-4)
@pl.jit
def bytes_on_the_right_of_floats(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, turned: pl.Out[pl.Tensor], plain: pl.Out[pl.Tensor]):
    """Weights of 8 bits, exact in every float."""
    with pl.at(level=pl.Level.CORE_GROUP):
        turned[:] = pl.matmul(a, b, b_trans=True, out_dtype=pl.FP32)
        plain[:] = pl.matmul(a, c, out_dtype=pl.FP32)
    return turned, plain


@CASES(data(np.int8, 6, 64), data(np.int8, 64, 10), expected=lambda a, b: a.astype(np.int32) @ b.astype(np.int32))
@pl.jit
def integers_accumulated(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([6, 10], dtype=pl.INT32, value=0)
        for k in pl.range(0, 64, 16):
            acc = pl.matmul_acc(acc, pl.load(a, [0, k], [6, 16]), pl.load(b, [k, 0], [16, 10]))
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(12, 48), f32(48, 20), expected=dot, tol=1e-5)
@pl.jit
def first_step_initialises(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The accumulator is uninitialised; init_cond overwrites it in the first step."""
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tile([12, 20], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k in pl.range(3):
            ta = pl.load(a, [0, k * 16], [12, 16])
            tb = pl.load(b, [k * 16, 0], [16, 20])
            acc = pl.matmul_acc(acc, ta, tb, init_cond=(k == 0))
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(12, 48), f32(20, 48), expected=lambda a, b: dot(a, b.T) + 1, tol=1e-5)
@pl.jit
def accumulated_tensors(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tensor.full([12, 20], dtype=pl.FP32, value=1.0)
        acc = pl.matmul_acc(acc, a[:, 0:24], b[:, 0:24], b_trans=True)
        acc = pl.tensor.matmul_acc(acc, a[:, 24:48], b[:, 24:], b_trans=True, init_cond=False)
        out[:] = acc
    return out


@CASES(f32(10, 18), f32(18, 7), f32(1, 7), expected=lambda a, b, c: np.maximum(dot(a, b) + c, 0), tol=1e-5)
@pl.jit
def with_bias(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t_bias = pl.move(pl.load(bias, [0, 0], [1, 7], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Bias)
        y = pl.matmul_bias(pl.load(a, [0, 0], [10, 18]), pl.load(b, [0, 0], [18, 7]), t_bias)
        pl.store(pl.relu(y), [0, 0], out)
    return out


@CASES(f32(1, 33), f32(33, 12), f32(1, 12), expected=lambda a, b, c: (dot(a, b), dot(a, b) + dot(a, b), dot(a, b) + c), tol=1e-5)
@pl.jit
def vectors(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, plain: pl.Out[pl.Tensor], acc: pl.Out[pl.Tensor], biased: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta, tb, tc = pl.load(a, [0, 0], [1, 33]), pl.load(b, [0, 0], [33, 12]), pl.load(c, [0, 0], [1, 12])
        first = pl.gemv(ta, tb, acc_phase="partial")
        pl.store(first, [0, 0], plain)
        pl.store(pl.tile.gemv_acc(first, ta, tb, acc_phase="final"), [0, 0], acc)
        pl.store(pl.gemv_bias(ta, tb, tc), [0, 0], biased)
    return plain, acc, biased


@CASES(data(np.int8, 1, 40), data(np.int8, 40, 9), expected=lambda a, b: a.astype(np.int32) @ b.astype(np.int32))
@pl.jit
def integer_vector(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.gemv(pl.load(a, [0, 0], [1, 40]), pl.load(b, [0, 0], [40, 9])), [0, 0], out)
    return out


@CASES(f32(3, 5, 8), f32(3, 8, 6), expected=dot, tol=1e-5)
@pl.jit
def batch_of_tensors(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


@CASES(f32(2, 1, 5, 8), f32(3, 6, 8), expected=lambda a, b: dot(a, b.swapaxes(1, 2)), tol=1e-5)
@pl.jit
def broadcast_batches(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b, b_trans=True)
    return out


@CASES(f16(4, 5, 16), f16(16, 6), expected=dot, tol=1e-4)
@pl.jit
def one_matrix_for_a_batch(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b, out_dtype=pl.FP32)
    return out


@CASES(f32(3, 4, 10), f32(1, 10, 7), f32(3, 4, 7), expected=lambda a, b, c: (dot(a, b), dot(a, b) + c), tol=1e-5)
@pl.jit
def batch_of_tiles(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, plain: pl.Out[pl.Tensor], acc: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0, 0], [3, 4, 10])
        tb = pl.load(b, [0, 0, 0], [1, 10, 7])
        tc = pl.load(c, [0, 0, 0], [3, 4, 7])
        pl.store(pl.batch_matmul(ta, tb), [0, 0, 0], plain)
        pl.store(pl.tile.batch_matmul_acc(tc, ta, tb), [0, 0, 0], acc)
    return plain, acc


@CASES(f32(15), f32(15, 6), f32(4, 15), expected=lambda v, m, w: (dot(v, m), dot(w, v)), tol=1e-5)
@pl.jit
def one_dimensional_operands(v: pl.Tensor, m: pl.Tensor, w: pl.Tensor, left: pl.Out[pl.Tensor], right: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left[:] = pl.matmul(v, m)
        right[:] = pl.matmul(w, v)
    return left, right


@CASES(f32(40, 30), f32(30, 50), expected=dot, tol=1e-4, threads=(1, 2))
@pl.jit
def blocked_in_three_loops(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(0, 40, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            for j in pl.range(0, 50, 10):
                acc = pl.tile.full([8, 10], dtype=pl.FP32, value=0.0)
                for k in pl.pipeline(0, 30, 15, stage=2):
                    acc = pl.matmul_acc(acc, pl.load(a, [i, k], [8, 15]), pl.load(b, [k, j], [15, 10]))
                out = pl.store(acc, [i, j], out)
    return out


@CASES(f32(33, 20), f32(20, 70), expected=dot, tol=1e-4)
@pl.jit
def blocks_with_ragged_edges(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 33, 16):
            for j in pl.range(0, 70, 32):
                ta = pl.load(a, [i, 0], [16, 20], clamp=True)
                tb = pl.load(b, [0, j], [20, 32], clamp=True)
                out = pl.store(pl.matmul(ta, tb), [i, j], out)
    return out


@CASES(f32(6, 8), f32(8, 5), f32(5, 9), f32(6, 9), expected=lambda a, b, c, d: dot(dot(a, b) * float32(0.5), c) - d, tol=1e-4)
@pl.jit
def chain_of_products(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, d: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ab = pl.matmul(a, b) * 0.5
        out[:] = pl.matmul(ab, c) - d
    return out


@CASES(f32(7, 12), expected=lambda x: dot(x, x.T), tol=1e-5)
@pl.jit
def gram_by_tile_transpose(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [7, 12], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(t, pl.tile.transpose_view(t)), [0, 0], out)
    return out


@CASES(f32(7, 12), data(BF16, 12, 5), expected=lambda a, b: dot(a, b), tol=1e-5)
@pl.jit
def mixed_operands_promote(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


@CASES(i32(4, 6, low=-99, high=99), i32(6, 3, low=-99, high=99), expected=lambda a, b: a @ b)
@pl.jit
def integer_tensors_keep_their_dtype(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


def _mx(a: Array, sa: Array, b: Array, sb: Array, *extra: Array) -> Any:
    left = a.astype(np.float64) * np.repeat(sa.astype(np.float64), 32, 1)
    right = b.astype(np.float64) * np.repeat(sb.astype(np.float64), 32, 0)
    return left @ right + sum(extra)


@CASES(data(E4M3, 5, 64), data(E8M0, 5, 2, low=0.1, high=9), data(E4M3, 64, 7), data(E8M0, 2, 7, low=0.1, high=9), expected=_mx, tol=1e-4)
@pl.jit
def block_scaled(a: pl.Tensor, sa: pl.Tensor, b: pl.Tensor, sb: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta, tb = pl.load(a, [0, 0], [5, 64]), pl.load(b, [0, 0], [64, 7])
        la = pl.move(pl.load(sa, [0, 0], [5, 2], target_memory=pl.Mem.Mat), target_memory=pl.Mem.LeftScale)
        lb = pl.move(pl.load(sb, [0, 0], [2, 7], target_memory=pl.Mem.Mat), target_memory=pl.Mem.RightScale)
        pl.store(pl.matmul_mx(ta, la, tb, lb), [0, 0], out)
    return out


@CASES(
    data(FP4, 6, 96, low=-6, high=6), data(E8M0, 6, 3, low=0.1, high=9), data(FP4, 96, 8, low=-6, high=6), data(E8M0, 3, 8, low=0.1, high=9), f32(1, 8),
    expected=_mx, tol=1e-3,
)
@pl.jit
def block_scaled_four_bits_with_bias(a: pl.Tensor, sa: pl.Tensor, b: pl.Tensor, sb: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.tile.matmul_mx_bias(
            pl.load(a, [0, 0], [6, 96]), pl.load(sa, [0, 0], [6, 3]), pl.load(b, [0, 0], [96, 8]), pl.load(sb, [0, 0], [3, 8]), pl.load(bias, [0, 0], [1, 8])
        )
        pl.store(y, [0, 0], out)
    return out


@CASES(data(E5M2, 4, 128), data(E8M0, 4, 4, low=0.1, high=9), data(E5M2, 128, 6), data(E8M0, 4, 6, low=0.1, high=9), expected=_mx, tol=1e-3)
@pl.jit
def block_scaled_in_steps(a: pl.Tensor, sa: pl.Tensor, b: pl.Tensor, sb: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul_mx(pl.load(a, [0, 0], [4, 64]), pl.load(sa, [0, 0], [4, 2]), pl.load(b, [0, 0], [64, 6]), pl.load(sb, [0, 0], [2, 6]))
        acc = pl.matmul_mx_acc(acc, pl.load(a, [0, 64], [4, 64]), pl.load(sa, [0, 2], [4, 2]), pl.load(b, [64, 0], [64, 6]), pl.load(sb, [2, 0], [2, 6]))
        pl.store(acc, [0, 0], out)
    return out


def _quantised(x: Array, w: Array) -> Array:
    sx, sw = np.abs(x).max(1, keepdims=True) / float32(127), np.abs(w).max(0, keepdims=True) / float32(127)
    q, p = np.rint(x / sx).astype(np.int32), np.rint(w / sw).astype(np.int32)
    return ((q @ p).astype(np.float64) * sx * sw).astype(np.float32)


@CASES(f32(6, 32), f32(32, 10), expected=_quantised, tol=5e-2)
@pl.jit
def quantised_linear(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Activations by row and weights by column in INT8, the product in INT32."""
    with pl.at(level=pl.Level.CORE_GROUP):
        sx = pl.row_max(pl.abs(x)) / 127.0
        sw = pl.col_max(pl.abs(w)) / 127.0
        q = pl.cast(pl.row_expand_div(x, sx), pl.INT8, mode="rint")
        p = pl.cast(pl.col_expand_div(w, sw), pl.INT8, mode="rint")
        y = pl.cast(pl.matmul(q, p, out_dtype=pl.INT32), pl.FP32)
        out[:] = pl.col_expand_mul(pl.row_expand_mul(y, sx), sw)
    return out


@CASES(f32(16, 24), f32(24, 12), expected=dot, tol=1e-5)
@pl.program
class SplitProduct:
    @pl.function(type=pl.FunctionType.AIC)
    def half(
        self, a: pl.Tensor[[16, 24], pl.FP32], b: pl.Tensor[[24, 12], pl.FP32], row: pl.Scalar[pl.INDEX], c: pl.InOut[pl.Tensor[[16, 12], pl.FP32]]
    ) -> pl.Tensor[[16, 12], pl.FP32]:
        ta = pl.load(a, [row, 0], [8, 24], target_memory=pl.MemorySpace.Mat)
        tb = pl.load(b, [0, 0], [24, 12], target_memory=pl.MemorySpace.Mat)
        c = pl.store(pl.matmul(ta, tb), [row, 0], c)
        return c

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 24], pl.FP32], b: pl.Tensor[[24, 12], pl.FP32], c: pl.Out[pl.Tensor[[16, 12], pl.FP32]]) -> pl.Tensor[[16, 12], pl.FP32]:
        for i in pl.parallel(2):
            c = self.half(a, b, i * 8, c)
        return c


@CASES(f32(5, 7), f32(7), expected=lambda x, v: x @ (v * 2 + 1), tol=1e-5)
@pl.jit
def by_a_computed_vector(x: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x @ (v * 2.0 + 1.0)


@CASES(f32(9), expected=lambda v: v @ np.exp(v) * np.ones(1), tol=1e-5)
@pl.jit
def vectors_of_which_one_is_computed(v: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = v @ pl.exp(v)


@CASES(f32(3, 5, 5), expected=lambda z: z @ np.exp(z), tol=1e-5)
@pl.jit
def by_a_computed_stack(z: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = z @ pl.exp(z)

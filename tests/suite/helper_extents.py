"""Kernels made of helpers whose tensors have dynamic or computed extents, and helpers that return them."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, f32, i32
from tests.suite.helper_dags import Array, normalised, plus, rms

CASES = Cases()


TOKENS = pl.dynamic("TOKENS")
WIDE = pl.dynamic("WIDE")


@pl.jit.incore
def dynamic_norm(x: pl.Tensor[[TOKENS, 24], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 24], pl.FP32]]):
    out[:] = normalised(x)
    return out


@CASES(f32(5, 24), more=[(f32(1, 24),), (f32(33, 24),)], compiles=1, expected=lambda x: rms(rms(x)), tol=1e-5)
@pl.jit
def dynamic_rows_through_a_local(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tokens = pl.tensor.dim(x, 0)
    middle = pl.create_tensor([tokens, 24], dtype=pl.FP32)
    middle = dynamic_norm(x, middle)
    out = dynamic_norm(middle, out)
    return out


@pl.jit.incore
def dynamic_softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, TOKENS)
    x.bind_dynamic(1, WIDE)
    out.bind_dynamic(0, TOKENS)
    out.bind_dynamic(1, WIDE)
    e = pl.row_expand_expdif(x, pl.row_max(x))
    out[:] = pl.row_expand_div(e, pl.row_sum(e))
    return out


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


@CASES(f32(5, 24), more=[(f32(1, 3),), (f32(19, 70),)], compiles=1, expected=softmax, tol=1e-5)
@pl.jit
def dynamic_both_dims_declared_in_the_helper(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = dynamic_softmax(x, out)
    return out


@pl.jit.inline
def rows_of(x: pl.Tensor):
    return (x.shape[0] + 7) // 8


@CASES(f32(8, 5), more=[(f32(21, 5),), (f32(3, 5),)], compiles=1, expected=lambda x: x * 2)
@pl.jit
def dynamic_tail_counted_by_a_helper(x: pl.Tensor[[TOKENS, 5], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 5], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(rows_of(x)):
            t = pl.load(x, [i * 8, 0], [8, 5], clamp=True)
            pl.store(pl.add(t, t), [i * 8, 0], out)
    return out


@CASES(f32(6, 4), more=[(f32(11, 4),)], compiles=1, expected=lambda x: np.concatenate([x, -x]))
@pl.jit
def returned_tensor_of_computed_extent(x: pl.Tensor[[TOKENS, 4], pl.FP32]):
    n = pl.tensor.dim(x, 0)
    both = pl.create_tensor([2 * n, 4], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.assemble(both, x, [0, 0])
        pl.assemble(both, pl.neg(x), [n, 0])
    return both


@CASES(f32(6, 4), expected=lambda x: (x.sum(1, keepdims=True), x * 2), tol=1e-6, returned=True)
@pl.jit
def returned_value_before_an_output(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.mul(x, 2.0)
    total = pl.row_sum(x)
    return total, out


@CASES(i32(6, 4, low=0, high=100), expected=lambda x: (x + 1, x * 3, x - 1), returned=True)
@pl.jit
def returned_outputs_around_a_value(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    a[:] = pl.sub(x, 1)
    b[:] = pl.add(x, 1)
    return b, pl.mul(x, 3), a


@CASES(f32(6, 8), f32(6, 8), expected=lambda a, b: a + b)
@pl.jit
def windows_as_outputs_in_a_loop(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(3):
        row = i * 2
        plus(a[row : row + 2], b[2 * i : 2 * i + 2], out[row : 2 + row])
    return out


@pl.jit.incore
def exponential_and_sum(x: pl.Tensor):
    return pl.exp(x), pl.row_sum(x)


@CASES(f32(6, 8), more=[(f32(2, 8),)], compiles=1, expected=lambda x: np.exp(np.exp(x) * np.float32(0.1)) + x.sum(1, keepdims=True), tol=1e-5)
@pl.jit
def values_of_helpers_as_arguments_of_any_rows(x: pl.Tensor[[TOKENS, 8], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 8], pl.FP32]]):
    e, s = exponential_and_sum(x)
    e2, _ = exponential_and_sum(e * 0.1)
    out[:] = pl.row_expand_add(e2, s)
    return out


@pl.jit.opaque
def doubled_in_a_new_tensor(x: pl.Tensor):
    t = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[:] = pl.mul(x, 2.0)
    return t


@CASES(f32(5, 7), f32(7, 5), expected=lambda x, y: 2 * x + y.T + 1, tol=1e-6)
@pl.jit
def expressions_and_new_tensors_as_arguments(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = doubled_in_a_new_tensor(x)
    out = plus(t, pl.transpose(y, 0, 1) + 1.0, out)
    return out


@pl.jit.incore
def rows_and(x: pl.Tensor, k: pl.INT32) -> pl.Scalar[pl.INT32]:
    return k + pl.cast(pl.tensor.dim(x, 0), pl.INT32)


@CASES(f32(5, 7), expected=lambda x: x + 9)
@pl.jit
def helper_returns_a_scalar(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = rows_and(x, 4)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, pl.cast(n, pl.FP32))
    return out


@pl.jit.incore
def chosen(x: pl.Tensor, mode: str, out: pl.Out[pl.Tensor]):
    if mode == "exp":
        out[:] = pl.exp(x)
    elif mode == "neg":
        out[:] = pl.neg(x)
    else:
        pl.static_assert(False, "no such mode")


@CASES(f32(5, 7), expected=lambda x: (np.exp(x), -x), tol=1e-6)
@pl.jit
def text_as_a_compile_time_argument(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    chosen(x, "exp", a)
    chosen(x, mode="neg", out=b)


@CASES(f32(6, 8), expected=lambda x: x + x)
@pl.jit
def windows_between_named_ends(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = 2
    for first in pl.range(0, 6, rows):
        end = first + rows
        plus(x[first:end], x[first:end, :], out[end - 2 : end])
    return out


@CASES(f32(2, 3, 4, 5), expected=lambda q: q + q)
@pl.jit
def pages_of_rank_four_as_arguments(q: pl.Tensor, out: pl.Out[pl.Tensor]):
    batch, heads, _, _ = q.shape
    for i in pl.range(batch):
        for j in pl.parallel(heads):
            plus(q[i, j], q[i, j], out[i, j])
    return out


@CASES(f32(6, 8), more=[(f32(3, 8),)], compiles=1, expected=lambda x: x * 4, tol=1e-6)
@pl.jit
def local_of_twice_the_rows(x: pl.Tensor[[TOKENS, 8], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 8], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    both = pl.create_tensor([n * 2, 8], dtype=pl.FP32)
    both[0:n] = x
    both[n : 2 * n] = pl.neg(x)
    twice = pl.create_tensor([n * 2, 8], dtype=pl.FP32)
    twice = plus(both, both, twice)
    out[:] = twice[0:n] - twice[n : 2 * n]
    return out


@pl.jit.incore
def times_anything(x: pl.Tensor, factor, out: pl.Out[pl.Tensor]):  # pyright: ignore[reportMissingParameterType]
    out[:] = pl.mul(x, factor)
    return out


@CASES(f32(6, 8), f32(1, 2), more=[(f32(2, 8), f32(1, 2))], compiles=1, expected=lambda x, c: x * (len(x) * c[0, 0]) * (c[0, 1] * 2 + 1), tol=1e-5)
@pl.jit
def computed_floats_to_a_helper_without_annotation(x: pl.Tensor[[TOKENS, 8], pl.FP32], c: pl.Tensor, out: pl.Out[pl.Tensor[[TOKENS, 8], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    t = pl.create_tensor([n, 8], dtype=pl.FP32)
    t = times_anything(x, pl.cast(n, pl.FP32) * c[0, 0], t)
    out = times_anything(t, c[0, 1] * 2.0 + 1.0, out)
    return out


@CASES(f32(6, 8), expected=lambda x: (x[-2:] + x[1:-3], x[-3:4, -5:] + x[3:4, 3:]), returned=True)
@pl.jit
def windows_counted_from_the_end(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    a = plus(x[-2:], x[1:-3], a)
    b = plus(x[-3:4, -5:], x[3:4, 3:], b)
    return a, b


@pl.jit.incore
def doubled(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(a, a)
    return out


def computed_extents(x: Array, y: Array) -> tuple[Array, Array, Array]:
    return 2 * np.concatenate([x, y], 1), 2 * x[:, ::2], 2 * (x + y[:, : x.shape[1]])[0]


@CASES(f32(5, 6), f32(5, 6), more=[(f32(3, 8), f32(3, 8))], compiles=1, expected=computed_extents)
@pl.jit
def operator_results_of_computed_extents_as_arguments(
    x: pl.Tensor[[TOKENS, WIDE], pl.FP32],
    y: pl.Tensor[[TOKENS, WIDE], pl.FP32],
    joined: pl.Out[pl.Tensor[[TOKENS, pl.dynamic("JOINED")], pl.FP32]],
    picked: pl.Out[pl.Tensor[[TOKENS, pl.dynamic("PICKED")], pl.FP32]],
    row: pl.Out[pl.Tensor[[WIDE], pl.FP32]],
):
    both = pl.concat(x, y)
    joined = doubled(both, joined)
    picked = doubled(pl.gather(x, mask_pattern=1), picked)
    row = doubled((x + y)[0], row)
    return joined, picked, row

"""Kernels made of helpers: several levels, diamonds, other modules, several results, defaults."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, f16, f32
from tests.suite.library import norms as library
from tests.suite.library.norms import SCALE, moments, scaled

CASES = Cases()
Array = np.ndarray[Any, Any]


def rms(x: Array, eps: float = 1e-5) -> Array:
    return (x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + eps)).astype(x.dtype)


# one level ------------------------------------------------------------------------------------------------------------


@pl.jit.incore
def plus(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(a, b)
    return out


@pl.jit.incore
def times(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = a.shape
    ta = pl.load(a, [0, 0], [rows, cols])
    tb = pl.load(b, [0, 0], [rows, cols])
    return pl.store(pl.mul(ta, tb), [0, 0], out)


@CASES(f32(9, 20), f32(9, 20), f32(9, 20), expected=lambda a, b, c: (a + b) * c)
@pl.jit
def chain_through_a_temporary(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([a.shape[0], a.shape[1]], dtype=pl.FP32)
    tmp = plus(a, b, tmp)
    out = times(tmp, c, out)
    return out


@CASES(f32(5, 13), f32(5, 13), expected=lambda a, b: (a + b) * (a * b) + (a + b), tol=1e-6)
@pl.jit
def diamond(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    left = pl.create_tensor([5, 13], dtype=pl.FP32)
    right = pl.create_tensor([5, 13], dtype=pl.FP32)
    both = pl.create_tensor([5, 13], dtype=pl.FP32)
    plus(a, b, left)
    times(a, b, right)
    times(left, right, both)
    plus(both, left, out)
    return out


@CASES(f32(4, 6), f32(4, 6), expected=lambda a, b: ((a + b) + b) + b, tol=1e-6)
@pl.jit
def results_feed_calls(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    t1 = pl.create_tensor([4, 6], dtype=pl.FP32)
    t2 = pl.create_tensor([4, 6], dtype=pl.FP32)
    out = plus(plus(plus(a, b, t1), b, t2), b, out)
    return out


@CASES(f32(3, 8), f32(7, 11), f32(3, 8), expected=lambda a, b, c: (a + c, b + b))
@pl.jit
def one_helper_two_shapes(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, small: pl.Out[pl.Tensor], large: pl.Out[pl.Tensor]):
    small = plus(a, c, small)
    large = plus(b, b, large)
    return small, large


@CASES(f32(6, 10), f16(6, 10), expected=lambda a, b: (a + a, b + b))
@pl.jit
def one_helper_two_dtypes(a: pl.Tensor, b: pl.Tensor, wide: pl.Out[pl.Tensor], narrow: pl.Out[pl.Tensor]):
    plus(a, a, wide)
    plus(b, b, narrow)


# several levels and kinds ---------------------------------------------------------------------------------------------


@pl.jit.inline
def squared(x: pl.Tensor):
    return pl.mul(x, x)


@pl.jit.inline
def mean_square(x: pl.Tensor):
    return pl.mul(pl.row_sum(squared(x)), 1.0 / x.shape[1])


@pl.jit.inline
def normalised(x: pl.Tensor, eps: pl.FP32 = 1e-5):
    return pl.row_expand_mul(x, pl.rsqrt(pl.add(mean_square(x), eps)))


@CASES(f32(7, 33), expected=rms, tol=1e-5)
@pl.jit
def three_inline_levels(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = normalised(x)
    return out


@pl.jit.incore
def norm_kernel(x: pl.Tensor, gamma: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.col_expand_mul(normalised(x, eps=1e-6), gamma)
    return out


@pl.jit.opaque
def norm_twice(x: pl.Tensor, gamma: pl.Tensor, out: pl.Out[pl.Tensor]):
    middle = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    middle = norm_kernel(x, gamma, middle)
    out = norm_kernel(middle, gamma, out)
    return out


@CASES(f32(6, 21), f32(1, 21), expected=lambda x, g: rms(rms(x, 1e-6) * g, 1e-6) * g, tol=1e-5)
@pl.jit
def opaque_over_incore_over_inline(x: pl.Tensor, gamma: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = norm_twice(x, gamma, out)
    return out


@pl.jit.opaque
def blockwise(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(x.shape[0] // 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i * 4, 0], [4, x.shape[1]])
            out = pl.store(pl.exp(t), [i * 4, 0], out)
    return out


@CASES(f32(12, 17), expected=lambda x: np.exp(np.exp(x * 0.25) * 0.25), tol=1e-5)
@pl.jit
def opaque_with_loop_and_regions(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    small = pl.create_tensor([12, 17], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        small[:] = pl.mul(x, 0.25)
    small2 = pl.create_tensor([12, 17], dtype=pl.FP32)
    small2 = blockwise(small, small2)
    with pl.at(level=pl.Level.CORE_GROUP):
        small[:] = pl.mul(small2, 0.25)
    out = blockwise(small, out)
    return out


@pl.jit.inline
def store_scaled(x: pl.Tensor, factor: pl.FP32, row: pl.INDEX, out: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [row, 0], [2, x.shape[1]])
        pl.store(pl.mul(t, factor), [row, 0], out)
    return out


@CASES(f32(8, 9), expected=lambda x: x * np.float32(2.5))
@pl.jit
def inline_helper_with_its_own_region(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(4):
        out = store_scaled(x, 2.5, i * 2, out)
    return out


@pl.jit.inline
def clipped(t: pl.Tile, bound: pl.FP32):
    return pl.maximum(pl.minimum(t, bound), -bound)


@CASES(f32(5, 24), expected=lambda x: np.clip(x, -0.5, 0.5) + np.clip(x, -1.5, 1.5), tol=1e-6)
@pl.jit
def inline_helpers_on_tiles(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [5, 24])
        out = pl.store(pl.add(clipped(t, 0.5), clipped(t, bound=1.5)), [0, 0], out)
    return out


@pl.jit.inline
def leaf(x: pl.Tensor, k: pl.FP32):
    return pl.add(x, k)


@pl.jit.inline
def left_branch(x: pl.Tensor):
    return pl.mul(leaf(x, 1.0), 2.0)


@pl.jit.inline
def right_branch(x: pl.Tensor):
    return pl.mul(leaf(x, -1.0), 3.0)


@CASES(f32(4, 5), expected=lambda x: (x + 1) * 2 - (x - 1) * 3, tol=1e-6)
@pl.jit
def inline_diamond(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sub(left_branch(x), right_branch(x))
    return out


# several results ------------------------------------------------------------------------------------------------------


@pl.jit.incore
def extremes(x: pl.Tensor, low: pl.Out[pl.Tensor], high: pl.Out[pl.Tensor]):
    low[:] = pl.row_min(x)
    high[:] = pl.row_max(x)
    return low, high


@CASES(f32(10, 37), expected=lambda x: (x - x.min(1, keepdims=True)) / (x.max(1, keepdims=True) - x.min(1, keepdims=True)), tol=1e-5)
@pl.jit
def two_results_unpacked(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    low = pl.create_tensor([10, 1], dtype=pl.FP32)
    high = pl.create_tensor([10, 1], dtype=pl.FP32)
    low, high = extremes(x, low, high)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_expand_div(pl.row_expand_sub(x, low), pl.sub(high, low))
    return out


@pl.jit.incore
def swapped_results(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    a[:] = pl.add(x, 1.0)
    b[:] = pl.mul(x, 2.0)
    return b, a


@CASES(f32(3, 7), expected=lambda x: (x * 2) - (x + 1), tol=1e-6)
@pl.jit
def results_in_another_order_than_parameters(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.create_tensor([3, 7], dtype=pl.FP32)
    b = pl.create_tensor([3, 7], dtype=pl.FP32)
    doubled, increased = swapped_results(x, a, b)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sub(doubled, increased)
    return out


@pl.jit.inline
def sum_and_difference(a: pl.Tensor, b: pl.Tensor):
    return pl.add(a, b), pl.sub(a, b)


@CASES(f32(6, 6), f32(6, 6), expected=lambda a, b: a * a - b * b, tol=1e-5)
@pl.jit
def inline_returns_a_tuple(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total, difference = sum_and_difference(a, b)
        out[:] = pl.mul(total, difference)
    return out


@pl.jit.incore
def update_state(x: pl.Tensor, state: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    out[:] = pl.sub(x, state)
    state[:] = pl.add(pl.mul(state, 0.5), pl.mul(x, 0.5))


@CASES(f32(4, 9), f32(4, 9), expected=lambda x, s: (s * 0.25 + x * 0.75, x - (s + x) * 0.5), tol=1e-6)
@pl.jit
def inout_without_return(x: pl.Tensor, state: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    state, out = update_state(x, state, out)
    state, out = update_state(x, state, out)
    return out


@CASES(f32(4, 9), expected=lambda x: (x * 3, x + 1), returned=True)
@pl.jit
def kernel_returns_its_outputs(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.mul(x, 3.0)
        b[:] = pl.add(x, 1.0)
    return a, b


@CASES(f32(4, 9), expected=lambda x: (np.abs(x), x.max(1, keepdims=True), -x))
@pl.jit
def kernel_returns_three_values(x: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.abs(x)
        top = pl.row_max(x)
    return a, top, pl.neg(x)


# arguments ------------------------------------------------------------------------------------------------------------


@pl.jit.incore
def affine(x: pl.Tensor, out: pl.Out[pl.Tensor], scale: pl.FP32 = 2.0, shift: pl.FP32 = 0.5, negate: bool = False):
    y = pl.add(pl.mul(x, scale), shift)
    if negate:
        y = pl.neg(y)
    out[:] = y
    return out


@CASES(f32(5, 5), expected=lambda x: -((x * 2 + 0.5) * 4 - 1), tol=1e-6)
@pl.jit
def keywords_and_defaults(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.create_tensor([5, 5], dtype=pl.FP32)
    t = affine(x, out=t)
    out = affine(t, out, shift=-1.0, scale=4.0, negate=True)
    return out


@CASES(f32(6, 14), 3.0, expected=lambda x, k: (x * np.float32(k) + np.float32(k)) * np.float32(k / 2) + np.float32(0.5), tol=1e-6)
@pl.jit
def scalars_through_two_levels(x: pl.Tensor, k: pl.FP32, out: pl.Out[pl.Tensor]):
    half = k / 2
    t = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    affine(x, t, k, k)
    out = affine(t, out, scale=half)
    return out


@CASES(f32(8, 6), np.array([3, 1, 0, 2], np.int32), expected=lambda x, order: x.reshape(4, 2, 6)[order].reshape(8, 6))
@pl.jit
def runtime_scalar_to_a_helper(x: pl.Tensor, order: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(4):
        row = pl.cast(pl.read(order, [i]), pl.INDEX)
        out = copy_block(x, row * 2, i * 2, out)
    return out


@pl.jit.incore
def copy_block(x: pl.Tensor, source: pl.INDEX, target: pl.INDEX, out: pl.Out[pl.Tensor]):
    return pl.store(pl.load(x, [source, 0], [2, x.shape[1]]), [target, 0], out)


@CASES(f32(3, 4, 10), expected=lambda x: x.sum(0), tol=1e-5)
@pl.jit
def slices_as_arguments(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.create_tensor([4, 10], dtype=pl.FP32)
    t = plus(x[0], x[1], t)
    out = plus(t, x[2], out)
    return out


@CASES(f32(6, 8), expected=lambda x: np.concatenate([x[:3] + x[3:], x[:3] * x[3:]]))
@pl.jit
def windows_as_arguments(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    upper = pl.create_tensor([3, 8], dtype=pl.FP32)
    lower = pl.create_tensor([3, 8], dtype=pl.FP32)
    upper = plus(x[0:3, :], pl.slice(x, [3, 8], [3, 0]), upper)
    lower = times(x[0:3], x[3:6], lower)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:3, :] = upper
        out[3:6, :] = lower
    return out


# other modules, methods, closures -----------------------------------------------------------------------------------------


@CASES(f32(7, 18), expected=lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), tol=1e-4)
@pl.jit
def helpers_of_another_module(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    mean = pl.create_tensor([7, 1], dtype=pl.FP32)
    var = pl.create_tensor([7, 1], dtype=pl.FP32)
    mean, var = moments(x, mean, var)
    out = library.standardise(x, mean, var, out)
    return out


@CASES(f32(3, 5), expected=lambda x: x * np.float32(SCALE) + np.float32(library.SHIFT), tol=1e-6)
@pl.jit
def constants_of_another_module(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(scaled(x), library.SHIFT)
    return out


class Block:
    """Kernels as methods: `self` is read while compiling."""

    width = 12

    def __init__(self, power: int) -> None:
        self.power = power

    @pl.jit.incore
    def raise_(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        y = x
        for _ in pl.unroll(self.power - 1):
            y = pl.mul(y, x)
        out[:] = y
        return out

    @pl.jit
    def forward(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        t = pl.create_tensor([4, self.width], dtype=pl.FP32)
        t = self.raise_(x, t)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(t, 1.0 / self.power)
        return out


CASES(f32(4, 12), expected=lambda x: x**3 / 3, tol=1e-5, name="method")(Block(3).forward)


def power_kernel(power: int, name: str) -> object:
    """A kernel that closes over what its maker was called with."""
    exponents = {"square": 2, "cube": 3}

    @pl.jit.inline
    def raised(x: pl.Tensor):
        y = x
        for _ in pl.unroll(exponents[name] - 1):
            y = pl.mul(y, x)
        return y

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(raised(x), math.sqrt(power))
        return out

    return kernel


CASES(f32(4, 12), expected=lambda x: x**2 * np.float32(math.sqrt(2)), tol=1e-6, name="closure_square")(power_kernel(2, "square"))
CASES(f32(3, 7), expected=lambda x: x**3 * np.float32(math.sqrt(3)), tol=1e-5, name="closure_cube")(power_kernel(3, "cube"))

"""Reductions over any axes, as in NumPy: composed of the row and column reductions.

A run of neighbouring axes is one axis of the same elements in another shape, so each run takes one reduction. All axes at once give a
scalar, unless they are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilejit.dtypes import BOOL, COMPLEX64, FP32
from tilejit.errors import ArgumentError
from tilejit.ops.compose import Handle, Kit, axes_of, axis_of, composed, product, rank_of, require_values, reshaped, shape_of
from tilejit.ops.dtype_rules import FLOATS, NUMBERS
from tilejit.ops.facts import Facts
from tilejit.ops.spec import Static, Value, spell

_AXES = "(input, axis=None, keepdims=False)"
_NE = 1
"""The comparison `!=` by its number."""


def runs_of(axes: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring axes as (first, behind the last), from the last run to the first."""
    out: list[tuple[int, int]] = []
    for axis in reversed(axes):
        if out and out[-1][0] == axis + 1:
            out[-1] = (axis, out[-1][1])
        else:
            out.append((axis, axis + 1))
    return out


def fold(k: Kit, value: Handle, combine: str, axis: object, keepdims: object) -> Handle:
    """`value` reduced over `axis` by the row reductions `row_<combine>` and `col_<combine>`."""
    shape, axes = shape_of(k, value), axes_of(k, axis, rank_of(k, value))
    for first, stop in runs_of(axes):
        value = _fold_run(k, value, combine, first, stop)
    if keepdims:
        return value
    left = [extent for position, extent in enumerate(shape) if position not in axes]
    return reshaped(k, value, left) if left else k("read", value, [0] * len(shape))


def _fold_run(k: Kit, value: Handle, combine: str, first: int, stop: int) -> Handle:
    """One run of axes reduced, each to extent 1."""
    shape, rank = shape_of(k, value), rank_of(k, value)
    if stop - first == 1:
        # The reductions that there are, without another shape: valid regions stay what they are.
        if first == rank - 1:
            return k(f"row_{combine}", value)
        if first == (rank - 2 if k.type(value).level == "tensor" or rank == 2 else 0):
            return k(f"col_{combine}", value)
    elif not combine.startswith("arg") and k.type(value).valid != k.type(value).shape:
        for axis in range(stop - 1, first - 1, -1):
            value = _fold_run(k, value, combine, axis, axis + 1)
        return value
    after = [*shape[:first], *[1] * (stop - first), *shape[stop:]]
    outer, inside, inner = (product(k, part) for part in (shape[:first], shape[first:stop], shape[stop:]))
    if stop == rank:
        folded = k(f"row_{combine}", reshaped(k, value, [outer, inside]))
    elif outer == 1:
        folded = k(f"col_{combine}", reshaped(k, value, [inside, inner]))
    elif k.type(value).level == "tensor":
        folded = k(f"col_{combine}", reshaped(k, value, [outer, inside, inner]))
    else:
        folded = k(f"row_{combine}", k("transpose", reshaped(k, value, [outer, inside, inner]), 1, 2))
    return reshaped(k, folded, after)


@composed(*spell("sum", _AXES), name="sum_over", facts=Facts(counts=True))
def sum(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """The sum over one axis, several or all; all axes at once give a scalar unless keepdims keeps them."""
    return fold(k, input, "sum", axis, keepdims)


@composed(*spell("prod", _AXES), name="prod_over")
def prod(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """The product over one axis, several or all; all axes at once give a scalar unless keepdims keeps them."""
    return fold(k, input, "prod", axis, keepdims)


@composed(*spell("amax", _AXES), *spell("max", _AXES), name="max_over")
def amax(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """The largest element over one axis, several or all; NaN wins."""
    return fold(k, input, "max", axis, keepdims)


@composed(*spell("amin", _AXES), *spell("min", _AXES), name="min_over")
def amin(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """The smallest element over one axis, several or all; NaN wins."""
    return fold(k, input, "min", axis, keepdims)


def _holding(k: Kit, value: Handle) -> Handle:
    """A mask as it is; of numbers, where they are not zero."""
    return value if k.type(value).dtype is BOOL else k("compare", value, 0, _NE)


@composed(*spell("any", _AXES), name="any_over")
def any(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """Whether any element of a mask holds (of numbers: is not zero), over one axis, several or all."""
    return fold(k, _holding(k, input), "max", axis, keepdims)


@composed(*spell("all", _AXES), name="all_over")
def all(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """Whether all elements of a mask hold (of numbers: are not zero), over one axis, several or all."""
    return fold(k, _holding(k, input), "min", axis, keepdims)


def _position(k: Kit, value: Handle, combine: str, axis: object, keepdims: object) -> Handle:
    if axis is not None:
        return fold(k, value, combine, axis_of(k, axis, rank_of(k, value)), keepdims)
    found = k(f"row_{combine}", reshaped(k, value, [1, product(k, shape_of(k, value))]))
    return reshaped(k, found, [1] * rank_of(k, value)) if keepdims else k("read", found, [0, 0])


@composed(*spell("argmax", _AXES), name="argmax_over")
def argmax(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """Where the largest element of one axis lies, as INT32; the first of equals. Without an axis: its place among all elements in row-major order."""
    return _position(k, input, "argmax", axis, keepdims)


@composed(*spell("argmin", _AXES), name="argmin_over")
def argmin(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """Where the smallest element of one axis lies, as INT32; the first of equals. Without an axis: its place among all elements in row-major order."""
    return _position(k, input, "argmin", axis, keepdims)


# means ----------------------------------------------------------------------------------------------------------------


def _in_single(k: Kit, value: Handle) -> Handle:
    """What a mean is computed in."""
    dtype = k.type(value).dtype
    return value if dtype is COMPLEX64 or (dtype.is_float and dtype.bits >= 32) else k("cast", value, FP32)


def _count(k: Kit, value: Handle, axis: object) -> Handle:
    """How many elements a mean is taken of, as a float."""
    count = product(k, [k.valid(value, place) for place in axes_of(k, axis, rank_of(k, value))])
    dtype = k.type(value).dtype
    return float(count) if isinstance(count, int) else k("cast", count, FP32 if dtype is COMPLEX64 else dtype)


def _rounded(k: Kit, value: Handle, like: Handle) -> Handle:
    """A result of FP16 or BF16 data in their own dtype, rounded once."""
    dtype = k.type(like).dtype
    return k("cast", value, dtype) if dtype.is_float and dtype.bits < 32 else value


def _average(k: Kit, value: Handle, axis: object, keepdims: object, less: Handle = 0) -> Handle:
    count = _count(k, value, axis)
    return k("div", fold(k, value, "sum", axis, keepdims), count - less if isinstance(count, float) else k("sub", count, float(less)) if less else count)


@composed(*spell("mean", _AXES))
def mean(k: Kit, input: Value, axis: Static = None, keepdims: Static = False) -> object:
    """The mean over one axis, several or all, summed in FP32 where the elements are narrower; that of integers is FP32."""
    require_values(k, input, [*NUMBERS, COMPLEX64])
    return _rounded(k, _average(k, _in_single(k, input), axis, keepdims), input)


def _variance(k: Kit, value: Handle, axis: object, keepdims: object, ddof: object) -> Handle:
    if not isinstance(ddof, int) or isinstance(ddof, bool):
        raise ArgumentError(f"{k.title} takes an integer as `ddof`, got {ddof!r}", help="0 divides by the number of elements, 1 by one less")
    require_values(k, value, [*NUMBERS, COMPLEX64])
    exact = _in_single(k, value)
    apart = k("sub", exact, _average(k, exact, axis, True))
    return _average(k, _squared(k, apart), axis, keepdims, ddof)


def _squared(k: Kit, value: Handle) -> Handle:
    """The square of a number, or of how far a complex one is from zero."""
    if k.type(value).dtype is not COMPLEX64:
        return k("mul", value, value)
    parts = (k("real", value), k("imag", value))
    return k("add", *(k("mul", part, part) for part in parts))


_SPREAD = "(input, axis=None, keepdims=False, ddof=0)"


@composed(*spell("var", _SPREAD))
def var(k: Kit, input: Value, axis: Static = None, keepdims: Static = False, ddof: Static = 0) -> object:
    """The mean squared distance from the mean over one axis, several or all; the sum is divided by the number of elements less ddof."""
    return _rounded(k, _variance(k, input, axis, keepdims, ddof), input)


@composed(*spell("std", _SPREAD))
def std(k: Kit, input: Value, axis: Static = None, keepdims: Static = False, ddof: Static = 0) -> object:
    """The square root of the variance over one axis, several or all."""
    return _rounded(k, k("sqrt", _variance(k, input, axis, keepdims, ddof)), input)


# along an axis --------------------------------------------------------------------------------------------------------

_ALONG = "(input, axis=-1)"


def _largest(k: Kit, input: Handle, axis: object) -> tuple[Handle, Handle]:
    """The input in FP32, and its maximum along the axis."""
    require_values(k, input, FLOATS)
    exact = _in_single(k, input)
    return exact, fold(k, exact, "max", axis_of(k, axis, rank_of(k, input)), True)


def _finite(k: Kit, largest: Handle) -> Handle:
    """What exponents are taken apart from: infinities less themselves would be no number, and need no care for overflow."""
    return k("where", k("compare", k("abs", largest), math.inf, _NE), largest, 0.0)


def _log_of_sum(k: Kit, apart: Handle, axis: object) -> Handle:
    return k("log", fold(k, k("exp", apart), "sum", axis, True))


@composed(*spell("softmax", _ALONG), dtypes=FLOATS)
def softmax(k: Kit, input: Value, axis: Static = -1) -> object:
    """e**x over its sum along the axis, without overflow."""
    exact, largest = _largest(k, input, axis)
    powers = k("exp", k("sub", exact, largest))
    return _rounded(k, k("div", powers, fold(k, powers, "sum", axis, True)), input)


@composed(*spell("log_softmax", _ALONG), dtypes=FLOATS)
def log_softmax(k: Kit, input: Value, axis: Static = -1) -> object:
    """The logarithm of softmax, accurate where softmax itself is nearly zero."""
    exact, largest = _largest(k, input, axis)
    apart = k("sub", exact, _finite(k, largest))
    return _rounded(k, k("sub", apart, _log_of_sum(k, apart, axis)), input)


@composed(*spell("logsumexp", "(input, axis=-1, keepdims=False)"), dtypes=FLOATS)
def logsumexp(k: Kit, input: Value, axis: Static = -1, keepdims: Static = False) -> object:
    """The logarithm of the sum of e**x along the axis, without overflow."""
    exact, largest = _largest(k, input, axis)
    place, shift = axis_of(k, axis, rank_of(k, input)), _finite(k, largest)
    total = k("add", _log_of_sum(k, k("sub", exact, shift), place), shift)
    left = [extent for position, extent in enumerate(shape_of(k, input)) if position != place]
    if not keepdims:
        total = reshaped(k, total, left) if left else k("read", total, [0] * rank_of(k, input))
    return _rounded(k, total, input)

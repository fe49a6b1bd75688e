"""Rows that change the order or the number of axes, and new arrays under NumPy's names: composed of other rows, but for the elements a step apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import FP32, INT32, UINT32, DType, dtype_elsewhere
from tilejit.errors import ArgumentError, DTypeError, ShapeError
from tilejit.ops.compose import Handle, Kit, axes_of, axis_of, composed, product, rank_of, reshaped, shape_of
from tilejit.ops.dtype_rules import NUMBERS
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts
from tilejit.ops.movement import STORABLE, movement
from tilejit.ops.shape_rules import result_type
from tilejit.ops.spec import Call, Scalar, Scalars, Static, Value, spell
from tilejit.types.values import ANY, Dim, TileType, ValueType, shape_text

# a step apart ---------------------------------------------------------------------------------------------------------


def steps_of(steps: object, rank: int) -> tuple[int, ...]:
    """The steps as they were checked."""
    assert isinstance(steps, tuple | list) and len(steps) == rank
    return tuple(int(step) for step in steps)


def _infer_every(call: Call) -> tuple[ValueType, ...]:
    input, given = call.shaped("input"), call.arg("steps")
    steps = [step for step in given if isinstance(step, int) and step] if isinstance(given, tuple | list) else []
    if len(steps) != input.rank:
        text = f"every takes one step per dim of {shape_text(input.shape)}, none of them 0, got {given!r}"
        raise ShapeError(text, help="1 takes all elements of a dim, -1 in reverse")
    shape: list[Dim] = []
    valid: list[Dim] = []
    for axis, (extent, inside, step) in enumerate(zip(input.shape, input.valid, steps, strict=True)):
        if step < 0 and inside != extent:
            raise ShapeError(f"every goes backwards through dim {axis}, of which {inside} of {extent} elements are valid", help="fill it first: pl.fillpad(…)")
        shape.append(_steps_in(extent, step))
        valid.append(shape[-1] if inside == extent else _steps_in(inside, step))
    space = input.space if isinstance(input, TileType) else "Vec"
    return (result_type(call, tuple(shape), input.dtype, tuple(valid), space),)


def _steps_in(extent: Dim, step: int) -> Dim:
    return extent if abs(step) == 1 else -(-extent // abs(step)) if isinstance(extent, int) else ANY


def _every(results: tuple[TileType, ...], input: ArrayValue, steps: Sequence[Any]) -> ArrayValue:
    cells = input.box[tuple(slice(None, None, int(step)) for step in steps)]
    shape = tuple(-(-extent // abs(int(step))) for extent, step in zip(input.data.shape, steps, strict=True))
    return placed(cells, shape, results[0].dtype)


_EVERY = "(input, steps)"


@movement(*spell("every", _EVERY), infer=_infer_every, reference=_every, facts=Facts(view_of="input"))
def every(input: Value, steps: Static) -> object:
    """The elements that lie `steps[axis]` apart along each axis, from the first one on; a negative step goes from the last one back."""


# axes -----------------------------------------------------------------------------------------------------------------


def permuted(k: Kit, value: Handle, axes: Sequence[int]) -> Handle:
    """The axes in another order, two at a time."""
    order = list(range(len(axes)))
    for place, axis in enumerate(axes):
        other = order.index(axis)
        if other != place:
            value = k("transpose", value, place, other)
            order[place], order[other] = order[other], order[place]
    return value


@composed(*spell("permute", "(input, axes=None)"), dtypes=STORABLE)
def permute(k: Kit, input: Value, axes: Static = None) -> object:
    """The axes in another order: axis axes[i] of the input becomes axis i; all reversed without `axes`, as `x.T` says."""
    rank = rank_of(k, input)
    if axes is None:
        return permuted(k, input, range(rank - 1, -1, -1))
    if not isinstance(axes, tuple | list) or sorted(axis_of(k, axis, rank, "axes") for axis in axes) != list(range(rank)):
        raise ShapeError(f"permute takes each axis of {rank} once, got {axes!r}", help=f"for example axes={list(range(rank))[::-1]}")
    return permuted(k, input, [axis_of(k, axis, rank) for axis in axes])


@composed(*spell("flip", "(input, axis=None)"), dtypes=STORABLE)
def flip(k: Kit, input: Value, axis: Static = None) -> object:
    """The elements in reverse order along one axis, several or all."""
    rank = rank_of(k, input)
    turned = axes_of(k, axis, rank)
    return k("every", input, [-1 if place in turned else 1 for place in range(rank)])


_EXPAND = "(input, axis)"


@composed(*spell("expand_dims", _EXPAND), *spell("unsqueeze", _EXPAND), dtypes=STORABLE)
def expand_dims(k: Kit, input: Value, axis: Static) -> object:
    """One more axis of extent 1, which becomes axis `axis` of the result."""
    shape = shape_of(k, input)
    shape.insert(axis_of(k, axis, len(shape) + 1), 1)
    return reshaped(k, input, shape)


@composed(*spell("squeeze", "(input, axis=None)"), dtypes=STORABLE)
def squeeze(k: Kit, input: Value, axis: Static = None) -> object:
    """The same elements without axes of extent 1: those that are named, or all but one of them."""
    shape = k.type(input).shape
    gone = {place for place, extent in enumerate(shape) if extent == 1} if axis is None else set(axes_of(k, axis, len(shape)))
    for place in gone:
        if shape[place] != 1:
            raise ShapeError(f"squeeze: axis {place} of {shape_text(shape)} has extent {shape[place]}", help="only axes of extent 1 can go")
    left = [extent for place, extent in enumerate(shape_of(k, input)) if place not in gone]
    return reshaped(k, input, left or [1])


@composed(*spell("broadcast_to", "(input, shape)"), dtypes=NUMBERS)
def broadcast_to(k: Kit, input: Value, shape: Scalars) -> object:
    """The elements repeated along new axes, and along those of extent 1, until the shape is `shape`."""
    assert isinstance(shape, tuple | list)
    dtype = k.type(input).dtype
    return k("add", input, k("full", list(shape), dtype, 0)) if dtype.is_integer else k("maximum", input, k("full", list(shape), dtype, float("-inf")))


# new arrays -----------------------------------------------------------------------------------------------------------


def _dtype(k: Kit, dtype: object) -> DType:
    if not isinstance(dtype, DType):
        raise DTypeError(f"{k.title} takes a data type as `dtype`, got {dtype!r}", help=f"write dtype={dtype_elsewhere(dtype) or FP32!r}")
    return dtype


_NEW = "(shape, dtype=FP32)"


@composed(*spell("zeros", _NEW))
def zeros(k: Kit, shape: Scalars, dtype: Static = FP32) -> object:
    """Every element is 0."""
    return k("full", shape, _dtype(k, dtype), 0)


@composed(*spell("ones", _NEW))
def ones(k: Kit, shape: Scalars, dtype: Static = FP32) -> object:
    """Every element is 1."""
    return k("full", shape, _dtype(k, dtype), 1)


@composed(*spell("full_like", "(input, value, dtype=None)"))
def full_like(k: Kit, input: Value, value: Scalar, dtype: Static = None) -> object:
    """An array of the shape of the input, and of its data type unless another is given, in which every element is `value`."""
    return k("full", shape_of(k, input), k.type(input).dtype if dtype is None else _dtype(k, dtype), value)


_LIKE = "(input, dtype=None)"


@composed(*spell("zeros_like", _LIKE))
def zeros_like(k: Kit, input: Value, dtype: Static = None) -> object:
    """An array of the shape of the input in which every element is 0."""
    return k("full_like", input, 0, dtype)


@composed(*spell("ones_like", _LIKE))
def ones_like(k: Kit, input: Value, dtype: Static = None) -> object:
    """An array of the shape of the input in which every element is 1."""
    return k("full_like", input, 1, dtype)


_ARANGE = "(start, shape=None, dtype=INT32, descending=False, step=1)"


@composed(*spell("arange", _ARANGE))
def arange(k: Kit, start: Scalar, shape: Scalars = None, dtype: Static = INT32, descending: Static = False, step: Scalar = 1) -> object:
    """Numbers from `start` up, or down, `step` apart, in one row; without a shape those below `start`, from 0."""
    if shape is None:
        if not isinstance(start, int) or start < 1:
            raise ShapeError(f"arange without a shape takes how many numbers are wanted, got {start!r}", help="for example pl.arange(16), or pl.arange(0.0, [16], pl.FP32)")
        start, shape = 0, [start]
    assert isinstance(shape, tuple | list)
    if (wanted := _dtype(k, dtype)).is_integer and wanted.bits in (16, 32) and step == 1 and not isinstance(start, float):
        return k("ci", start, shape, wanted, bool(descending))
    made = k("cast", k("ci", 0, shape, INT32, bool(descending)), wanted)
    made = made if isinstance(step, int | float) and step == 1 else k("mul", made, step)
    return made if isinstance(start, int | float) and start == 0 else k("add", made, start)


@composed(*spell("iota", "(shape, axis=-1, dtype=INT32)"))
def iota(k: Kit, shape: Scalars, axis: Static = -1, dtype: Static = INT32) -> object:
    """The index along an axis, for every element of an array of that shape."""
    assert isinstance(shape, tuple | list)
    place = axis_of(k, axis, len(shape))
    ones = [1] * len(shape)
    row = k("arange", 0, [*ones[:-1], shape[place]], dtype)
    line = reshaped(k, row, [*ones[:place], shape[place], *ones[place + 1 :]])
    return line if all(isinstance(extent, int) and extent == 1 for other, extent in enumerate(shape) if other != place) else k("broadcast_to", line, shape)


# random numbers -------------------------------------------------------------------------------------------------------


def _fraction(k: Kit, seed: Handle, stream: int, shape: Handle, first: int) -> Handle:
    """Multiples of 2**-24 from 0 to 1, without 1, or without 0 where `first` is 1."""
    words = k("random", seed, 0, 0, 0, stream, 0, shape, dtype=UINT32)
    return k("mul", k("cast", k("add", k("shr", words, 8), first), FP32), 2.0**-24)


_SEEDED = "(seed, shape)"


@composed(*spell("rand", _SEEDED), dtypes={FP32})
def rand(k: Kit, seed: Scalar, shape: Scalars) -> object:
    """Random numbers from 0 to 1, without 1, all equally likely; the same seed gives the same numbers on every platform."""
    return _fraction(k, seed, 0, shape, 0)


@composed(*spell("randn", _SEEDED), dtypes={FP32})
def randn(k: Kit, seed: Scalar, shape: Scalars) -> object:
    """Random numbers of the normal distribution, of mean 0 and variance 1; the same seed gives the same numbers."""
    radius = k("sqrt", k("mul", k("log", _fraction(k, seed, 1, shape, 1)), -2.0))
    return k("mul", radius, k("cos", k("mul", _fraction(k, seed, 2, shape, 0), 2 * np.pi)))


# products -------------------------------------------------------------------------------------------------------------


def _letters(k: Kit, subscripts: object, count: int) -> tuple[list[str], str]:
    """The axes of each operand and of the result, by letters."""
    if not isinstance(subscripts, str):
        raise ArgumentError(f"einsum takes a text as `subscripts`, got {subscripts!r}", help="for example 'ij,jk->ik'")
    before, arrow, after = subscripts.replace(" ", "").partition("->")
    inputs = before.split(",")
    used = "".join(inputs)
    after = after if arrow else "".join(sorted(letter for letter in set(used) if used.count(letter) == 1))
    good = all(part.isalpha() and len(set(part)) == len(part) for part in inputs) and len(set(after)) == len(after) and set(after) <= set(used)
    if not good or len(inputs) != count:
        raise ArgumentError(f"einsum cannot read {subscripts!r} for {count} operand{'s' * (count > 1)}", help="one letter per axis, none twice in an operand: 'bij,bjk->bik'")
    return inputs, after


def _summed(k: Kit, value: Handle, letters: str, keep: set[str]) -> tuple[Handle, str]:
    """The axes that nothing else has are summed up first."""
    gone = [place for place, letter in enumerate(letters) if letter not in keep]
    if not gone:
        return value, letters
    return k("sum", value, gone), "".join(letter for letter in letters if letter in keep)


@composed(*spell("einsum", "(subscripts, lhs, rhs=None)"))
def einsum(k: Kit, subscripts: Static, lhs: Value, rhs: Value = None) -> object:
    """A sum of products written with one letter per axis, as in NumPy: of two operands a matrix product, of one a reduction or another order of its axes."""
    operands = [lhs] if rhs is None else [lhs, rhs]
    inputs, after = _letters(k, subscripts, len(operands))
    for value, letters in zip(operands, inputs, strict=True):
        if rank_of(k, value) != len(letters):
            raise ShapeError(f"einsum: {letters!r} names {len(letters)} axes of an operand with {rank_of(k, value)}", help="one letter per axis")
    if rhs is None:
        value, letters = _summed(k, lhs, inputs[0], set(after))
        return value if not after else permuted(k, value, [letters.index(letter) for letter in after])
    (left, own), (right, other) = (
        _summed(k, value, letters, set(after) | set(beside)) for value, letters, beside in zip(operands, inputs, inputs[::-1], strict=True)
    )
    if not own or not other:
        # One operand is a number by now.
        value, letters = (right, other) if other else (left, own)
        value = k("mul", left, right)
        return permuted(k, value, [letters.index(letter) for letter in after]) if letters else value
    return _product(k, (left, own), (right, other), after)


def _product(k: Kit, lhs: tuple[Handle, str], rhs: tuple[Handle, str], after: str) -> Handle:
    (left, own), (right, other) = lhs, rhs
    batch = [letter for letter in own if letter in other and letter in after]
    inner = [letter for letter in own if letter in other and letter not in after]
    rows, columns = [letter for letter in own if letter not in other], [letter for letter in other if letter not in own]
    extents = dict(zip([*own, *other], [*shape_of(k, left), *shape_of(k, right)], strict=True))
    sizes = [product(k, [extents[letter] for letter in group]) for group in (batch, rows, inner, columns)]
    left = reshaped(k, permuted(k, left, [own.index(letter) for letter in (*batch, *rows, *inner)]), [*sizes[:1][: len(batch)], sizes[1], sizes[2]])
    right = reshaped(k, permuted(k, right, [other.index(letter) for letter in (*batch, *inner, *columns)]), [*sizes[:1][: len(batch)], sizes[2], sizes[3]])
    out = k("batch_matmul" if batch and k.type(left).level == "tile" else "matmul", left, right)
    order = [*batch, *rows, *columns]
    if not order:
        return k("read", out, [0, 0])
    out = reshaped(k, out, [extents[letter] for letter in order])
    return permuted(k, out, [order.index(letter) for letter in after])

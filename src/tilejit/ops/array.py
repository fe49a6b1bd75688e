"""Rows of on-core arrays: immutable values of a few integers, flags or task ids; a TaskId that nobody produced is -1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilejit.dtypes import BOOL, INT32, TASK_ID, DType
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import INTEGERS, dtype_names, fits, is_literal
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.numbers import NDArray
from tilejit.ops.spec import Array, Call, InferRule, OpSpec, Scalar, ScalarArg, Static, Stub, declarator, declare, spell
from tilejit.types.values import ArrayType, ScalarType, ValueType

ELEMENTS = INTEGERS | {BOOL, TASK_ID}


@declarator
def array_op(stub: Stub, name: str, signature: str, infer: InferRule, reference: Callable[..., object]) -> OpSpec:
    """Declare a row of the namespace `pl.array`."""
    return declare(
        stub,
        family="array",
        infer=infer,
        reference=reference,
        dtypes=ELEMENTS,
        spellings=spell(name, array=signature),
        levels=("array",),
        facts=Facts(fails=Fails.Scalars, exact=True),
    )


def index_help(extent: int) -> str:
    """What to say about an index outside an array."""
    return f"from 0 to {extent - 1}"


def element_numpy(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.int64) if dtype is TASK_ID else dtype.numpy


def _infer_create(call: Call) -> tuple[ValueType, ...]:
    extent, dtype = call.arg("extent"), call.arg("dtype")
    if not isinstance(extent, int) or isinstance(extent, bool) or extent < 1:
        raise ArgumentError(f"pl.array.create takes a positive constant as `extent`, got {extent!r}", help="for example pl.array.create(8, pl.INT32)")
    if not isinstance(dtype, DType) or dtype not in ELEMENTS:
        raise DTypeError(f"pl.array.create makes arrays of {dtype_names(ELEMENTS)}, got {dtype}", help=f"for example pl.{INT32}")
    return (ArrayType(extent, dtype),)


def _create(results: tuple[ArrayType, ...], extent: int, dtype: DType) -> NDArray:
    return np.full(extent, -1 if dtype is TASK_ID else 0, element_numpy(dtype))


def _array(call: Call) -> ArrayType:
    array, index = call.args["array"], call.args["index"]
    assert isinstance(array, ArrayType) and isinstance(index, ScalarArg)
    if not index.dtype.is_integer:
        raise DTypeError(f"an array takes an integer as index, got {index.dtype}", help="convert it first: pl.cast(…, pl.INDEX)")
    if isinstance(index.const, int) and not 0 <= index.const < array.extent:
        raise OutOfBoundsError(f"index {index.const} of an array with {array.extent} elements", help=index_help(array.extent))
    return array


def _position(array: NDArray, index: Any) -> int:
    if not 0 <= int(index) < len(array):
        raise OutOfBoundsError(f"index {int(index)} of an array with {len(array)} elements", help=index_help(len(array)))
    return int(index)


def _infer_get(call: Call) -> tuple[ValueType, ...]:
    return (ScalarType(_array(call).dtype),)


def _get(results: tuple[ScalarType, ...], array: NDArray, index: Any) -> Any:
    return array[_position(array, index)]


def _infer_update(call: Call) -> tuple[ValueType, ...]:
    array, value = _array(call), call.args["value"]
    assert isinstance(value, ScalarArg)
    literal = is_literal(value) and array.dtype.is_integer and fits(value.const, array.dtype)
    if value.dtype is not array.dtype and not literal:
        raise DTypeError(f"an array of {array.dtype} cannot hold a {value.dtype} scalar", help=f"convert it first: pl.cast(value, pl.{array.dtype})")
    return (array,)


def _update(results: tuple[ArrayType, ...], array: NDArray, index: Any, value: Any) -> NDArray:
    out = array.copy()
    dtype = results[0].dtype
    out[_position(array, index)] = value if dtype is TASK_ID else numbers.convert(np.asarray(value), dtype)
    return out


@array_op("create", "(extent, dtype)", _infer_create, _create)
def array_create(extent: Static, dtype: Static) -> object:
    """An array of `extent` zeros (TaskIds: of "no producer")."""


@array_op("get_element", "(array, index)", _infer_get, _get)
def array_get_element(array: Array, index: Scalar) -> object:
    """One element of an array."""


@array_op("update_element", "(array, index, value)", _infer_update, _update)
def array_update_element(array: Array, index: Scalar, value: Scalar) -> object:
    """A copy of the array with one element replaced."""

"""Rows that make values from nothing but scalars: fills, ranges, triangles, random bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import COMPLEX64, INT16, INT32, UINT16, UINT32, DType
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ResourceError, ShapeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import NUMBERS, PLAIN, check_scalar, dtype_names
from tilejit.ops.evaluate import ArrayValue, placed, poison, whole
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.movement import STORABLE, VALID_HELP, movement
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import narrowed, new_shape, result_type
from tilejit.ops.sizes import HELP, MAX_BYTES, TOO_LARGE, bytes_of
from tilejit.ops.spec import Call, Scalar, ScalarArg, Scalars, Spelling, Static, spell
from tilejit.types.enums import MemorySpace
from tilejit.types.values import TileType, ValueType, shape_text


def _dtype(call: Call, accepted: frozenset[DType]) -> DType:
    dtype = call.arg("dtype")
    if not isinstance(dtype, DType) or dtype not in accepted:
        raise DTypeError(f"{call.row.name} makes {dtype_names(accepted)}, got dtype={dtype if isinstance(dtype, DType) else repr(dtype)}", help=f"for example dtype=pl.{INT32 if INT32 in accepted else UINT32}")
    return dtype


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(n) for n in shape)


def _made(name: str, shape: Sequence[Any], dtype: DType) -> tuple[int, ...]:
    """The extents of a new value, checked as far as the type rule could not."""
    sizes = _sizes(shape)
    for axis, extent in enumerate(sizes):
        if extent < 0:
            raise ShapeError(f"{name}: extent {extent} in dim {axis} is negative")
    if bytes_of(sizes, dtype.get_byte()) > MAX_BYTES:
        raise ResourceError(TOO_LARGE, help=HELP)
    return sizes


def _inside(name: str, shape: Sequence[Any], valid_shape: Sequence[Any] | None) -> tuple[int, ...]:
    """The valid region of a new tile, which the run may choose."""
    sizes, valid = _sizes(shape), _sizes(shape if valid_shape is None else valid_shape)
    for axis, (n, extent) in enumerate(zip(valid, sizes, strict=True)):
        if not 0 <= n <= extent:
            raise OutOfBoundsError(f"{name}: the valid region is {n} in dim {axis}, the extent is {extent}", help=VALID_HELP)
    return valid


# constant and undefined values ----------------------------------------------------------------------------------------


def _infer_full(call: Call) -> tuple[ValueType, ...]:
    shape, dtype, value = new_shape(call), _dtype(call, PLAIN | {COMPLEX64}), call.arg("value")
    assert isinstance(value, ScalarArg)
    check_scalar(call, "value", value, dtype)
    if not dtype.is_float and isinstance(value.const, float) and not value.const.is_integer():
        raise DTypeError(f"full: {value.const} is no {dtype}", help="write an integer, or choose a float dtype")
    return (result_type(call, shape, dtype, shape),)


def _full(results: tuple[TileType, ...], shape: Sequence[Any], dtype: DType, value: Any) -> ArrayValue:
    return whole(np.full(_made("full", shape, dtype), numbers.convert(np.asarray(value), dtype), dtype.numpy))


_FULL = "(shape, dtype, value)"


@movement(*spell("full", pl="=tensor", tensor=_FULL, tile=_FULL), infer=_infer_full, reference=_full, dtypes=PLAIN | {COMPLEX64}, facts=Facts(fails=Fails.Extents))
def full(shape: Scalars, dtype: Static, value: Scalar) -> object:
    """Every element is `value`, converted to `dtype`."""


def _infer_create(call: Call) -> tuple[ValueType, ...]:
    shape, dtype, space = new_shape(call), _dtype(call, STORABLE), call.arg("target_memory")
    if not isinstance(space, MemorySpace) or space is MemorySpace.DDR:
        raise ArgumentError(f"create_tile takes an on-chip memory space as `target_memory`, got {space!r}", help="pl.create_tensor makes a tensor")
    return (TileType(shape, dtype, shape, space.value),)


def _create(results: tuple[TileType, ...], shape: Sequence[Any], dtype: DType, **_: object) -> ArrayValue:
    return whole(poison(_sizes(shape), dtype))


_CREATE = "(shape, dtype, target_memory=Vec, transpose=None, *, flat_layout=None)"


@movement(*spell("create", tile=_CREATE), Spelling("pl", "create_tile", _CREATE, same_as="tile"), infer=_infer_create, reference=_create)
def create_tile(shape: Scalars, dtype: Static, target_memory: Static = MemorySpace.Vec, transpose: Static = None, flat_layout: Static = None) -> object:
    """A tile of undefined content."""


# ranges and triangles -------------------------------------------------------------------------------------------------

_RANGE_DTYPES = frozenset({INT16, INT32, UINT16, UINT32})


def _infer_ci(call: Call) -> tuple[ValueType, ...]:
    shape, start = new_shape(call), call.arg("start")
    dtype = _dtype(call, _RANGE_DTYPES)
    assert isinstance(start, ScalarArg)
    if not start.dtype.is_integer:
        raise DTypeError(f"{call.row.name} takes an integer as `start`, got {start.dtype}", help="convert it first: pl.cast(…, pl.INT32)")
    if any(dim != 1 for dim in shape[:-1]):
        raise ShapeError(f"{call.row.name} makes one row: leading extents must be 1, got {shape_text(shape)}", help="spread it over rows with pl.col_expand")
    return (result_type(call, shape, dtype, shape),)


def _ci(results: tuple[TileType, ...], start: Any, shape: Sequence[Any], dtype: DType, descending: bool) -> ArrayValue:
    sizes = _made("ci", shape, dtype)
    steps = np.arange(sizes[-1], dtype=np.int64)
    cells = int(start) + (-steps if descending else steps)
    return whole(numbers.convert(cells, dtype).reshape(sizes))


_CI = "(start, shape, dtype=INT32, descending=False)"


@movement(
    *spell("ci", tensor=_CI, tile=_CI),
    infer=_infer_ci,
    reference=_ci,
    dtypes=_RANGE_DTYPES,
    facts=Facts(fails=Fails.Extents),
)
def ci(start: Scalar, shape: Scalars, dtype: Static = INT32, descending: Static = False) -> object:
    """One row of consecutive integers from `start` up, or down."""


def _infer_tri(call: Call) -> tuple[ValueType, ...]:
    shape, dtype, diagonal = new_shape(call), _dtype(call, NUMBERS), call.arg("diagonal")
    assert isinstance(diagonal, ScalarArg)
    if len(shape) != 2:
        raise ShapeError(f"tri makes a matrix, got {shape_text(shape)}", help="for example pl.tri(0, [16, 16])")
    if not diagonal.dtype.is_integer:
        raise DTypeError(f"tri takes an integer as `diagonal`, got {diagonal.dtype}", help="convert it first: pl.cast(…, pl.INT32)")
    return (result_type(call, shape, dtype, narrowed(call, shape)),)


def _tri(results: tuple[TileType, ...], diagonal: Any, shape: Sequence[Any], valid_shape: Sequence[Any] | None, dtype: DType, upper: bool) -> ArrayValue:
    rows, columns = _inside("tri", shape, valid_shape)
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    inside = j >= i + int(diagonal) if upper else j <= i + int(diagonal)
    return placed(inside.astype(dtype.numpy), _sizes(shape), dtype)


@movement(
    *spell("tri", pl="=tile", tile="(diagonal, shape, valid_shape=None, dtype=INT32, upper=False)"), infer=_infer_tri, reference=_tri, dtypes=NUMBERS, facts=Facts(fails=Fails.Extents)
)
def tri(diagonal: Scalar, shape: Scalars, valid_shape: Scalars = None, dtype: Static = INT32, upper: Static = False) -> object:
    """1 in the lower triangle (column <= row + diagonal) or the upper one (column >= row + diagonal), else 0."""


# random bits ----------------------------------------------------------------------------------------------------------

_RANDOM_DTYPES = frozenset({INT32, UINT32})
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox(counters: Sequence[NDArray], key: tuple[int, int], rounds: int) -> list[NDArray]:
    """Philox 4x32: four 32-bit words for each counter of four 32-bit words (all held as uint64)."""
    c0, c1, c2, c3 = counters
    k0, k1 = key
    for _ in range(rounds):
        first, second = c0 * np.uint64(_MULTIPLIERS[0]), c2 * np.uint64(_MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (second >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            second & np.uint64(_LOW),
            (first >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            first & np.uint64(_LOW),
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return [c0, c1, c2, c3]


_WORDS = ("key0", "key1", "counter0", "counter1", "counter2", "counter3")


def _infer_random(call: Call) -> tuple[ValueType, ...]:
    shape, dtype = new_shape(call), _dtype(call, _RANDOM_DTYPES)
    for name in _WORDS:
        word = call.arg(name)
        assert isinstance(word, ScalarArg)
        if not word.dtype.is_integer:
            raise DTypeError(f"random takes an integer as `{name}`, got {word.dtype}", help=f"convert it first: pl.cast({name}, pl.UINT32)")
    if call.arg("rounds") not in (7, 10):
        raise ArgumentError(f"random takes 7 or 10 rounds, got {call.arg('rounds')!r}", help="10 is the default")
    return (result_type(call, shape, dtype, narrowed(call, shape)),)


def _random(
    results: tuple[TileType, ...],
    key0: Any, key1: Any, counter0: Any, counter1: Any, counter2: Any, counter3: Any,
    shape: Sequence[Any], valid_shape: Sequence[Any] | None, dtype: DType, rounds: int,
) -> ArrayValue:  # fmt: skip
    sizes = _made("random", shape, dtype)
    count = int(np.prod(sizes))
    low, high = int(counter0) & _LOW, int(counter1) & _LOW
    blocks = np.arange(-(-count // 4), dtype=np.uint64) + np.uint64(low | high << 32)
    constant = [np.full(blocks.shape, int(word) & _LOW, np.uint64) for word in (counter2, counter3)]
    words = philox([blocks & np.uint64(_LOW), blocks >> np.uint64(32), *constant], (int(key0) & _LOW, int(key1) & _LOW), rounds)
    cells = np.stack(words, axis=-1).reshape(-1)[:count].astype(np.uint32).view(dtype.numpy).reshape(sizes)
    valid = _inside("random", shape, valid_shape)
    return placed(cells[tuple(slice(0, n) for n in valid)], sizes, dtype)


_SEED = f"{', '.join(_WORDS)}, shape"


@movement(
    *spell("random", pl="=tensor", tensor=f"({_SEED}, dtype=UINT32, rounds=10)", tile=f"({_SEED}, valid_shape=None, dtype=UINT32, rounds=10)"),
    infer=_infer_random,
    reference=_random,
    dtypes=_RANDOM_DTYPES,
    facts=Facts(fails=Fails.Extents),
)
def random(
    key0: Scalar, key1: Scalar, counter0: Scalar, counter1: Scalar, counter2: Scalar, counter3: Scalar,
    shape: Scalars, valid_shape: Scalars = None, dtype: Static = UINT32, rounds: Static = 10,
) -> object:  # fmt: skip
    """Random bits from Philox 4x32: element e of the row-major shape is word e % 4 of the counter (counter0, counter1 as one 64-bit
    number) + e // 4, with counter2, counter3 above it and (key0, key1) as key."""

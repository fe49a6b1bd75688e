"""How values of the IR are held while a function is written: scalars in registers, arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.dtypes import DType

Token = object
"""Stands for one piece of memory; arrays with disjoint tokens never overlap."""


@dataclass(frozen=True, slots=True)
class Array:
    """Elements in memory: a buffer, a tile or tensor value, or a view of either. Strides count elements."""

    pointer: Value
    dtype: DType
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]
    valid: tuple[Index, ...]
    tokens: frozenset[Token]
    owned: bool = False
    """Memory made for this one value: whoever uses it last may write over it."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dense(self) -> bool:
        """Known to be row-major without gaps."""
        expected: Index = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent == 1:
                continue
            if stride != expected:
                return False
            if not isinstance(expected, int) or not isinstance(extent, int):
                # Products of run-time extents have no canonical name; only the first one can be compared.
                expected = extent if expected == 1 else Value("?", "i64")
            else:
                expected *= extent
        return True

    def with_valid(self, valid: Sequence[Index]) -> Array:
        return replace(self, valid=tuple(valid))

    def overlaps(self, other: Array) -> bool:
        return bool(self.tokens & other.tokens)

    def same_place(self, other: Array) -> bool:
        """Whether both are the same cells in the same order."""
        return self.pointer == other.pointer and self.strides == other.strides and self.dtype is other.dtype


Storage = Value | Array


def row_major(e: Emitter, shape: Sequence[Index]) -> tuple[Index, ...]:
    """Strides of a dense array."""
    out: list[Index] = []
    step: Index = 1
    for extent in reversed(shape):
        out.append(step)
        step = e.mul(step, extent)
    return tuple(reversed(out))


def element_count(e: Emitter, shape: Sequence[Index]) -> Index:
    count: Index = 1
    for extent in shape:
        count = e.mul(count, extent)
    return count


def checked_product(e: Emitter, factors: Sequence[Index]) -> tuple[Value, Value]:
    """The product of numbers that are not negative, and whether it left 64 bits."""
    name = e.module.declare("llvm.smul.with.overflow.i64", "declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)")
    product, bad = e.i64(factors[0]), Value("false", "i1")
    for factor in factors[1:]:
        pair = e.inst("{i64, i1}", f"call {{i64, i1}} {name}({product}, {e.i64(factor)})")
        product = e.inst("i64", f"extractvalue {pair}, 0")
        bad = e.inst("i1", f"or {bad}, {e.inst('i1', f'extractvalue {pair}, 1').text}")
    return product, bad


def wanted_count(e: Emitter, shape: Sequence[Index]) -> Index:
    """As `element_count` of extents that nobody has multiplied yet: as large as can be where the product leaves 64 bits."""
    extents = [extent for extent in shape if isinstance(extent, Value)]
    if not extents:
        return element_count(e, shape)
    known = element_count(e, [extent for extent in shape if isinstance(extent, int)])
    product, bad = checked_product(e, [known, *extents])
    return e.inst("i64", f"select {bad}, i64 {(1 << 63) - 1}, {product}")


def sub_box(
    e: Emitter, array: Array, offsets: Sequence[Index], shape: Sequence[Index], valid: Sequence[Index] | None = None, drop: Sequence[int] = ()
) -> Array:
    """A window of an array; dims in `drop` are removed."""
    shift: Index = 0
    for offset, stride in zip(offsets, array.strides, strict=True):
        shift = e.add(shift, e.mul(offset, stride))
    keep = [axis for axis in range(array.rank) if axis not in drop]
    valid = shape if valid is None else valid
    return Array(
        e.offset(array.pointer, shift, array.dtype.llvm),
        array.dtype,
        tuple(shape[axis] for axis in keep),
        tuple(array.strides[axis] for axis in keep),
        tuple(valid[axis] for axis in keep),
        array.tokens,
    )


def aligned(array: Array, rank: int) -> Array:
    """The array with leading dims of extent 1 added up to `rank`."""
    extra = rank - array.rank
    if extra == 0:
        return array
    ones: tuple[Index, ...] = (1,) * extra
    return replace(array, shape=ones + array.shape, strides=(0,) * extra + array.strides, valid=ones + array.valid, owned=False)


def permuted(array: Array, axes: Sequence[int]) -> Array:
    """The array with its dims in another order."""
    return replace(
        array,
        shape=tuple(array.shape[axis] for axis in axes),
        strides=tuple(array.strides[axis] for axis in axes),
        valid=tuple(array.valid[axis] for axis in axes),
        owned=False,
    )

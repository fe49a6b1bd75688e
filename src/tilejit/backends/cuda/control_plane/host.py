"""Values of the host program: numbers as expressions, buffers as addresses with extents and strides, and how a kernel takes them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tilejit import ops
from tilejit.backends.cuda.plan import Apply, Expr, Var
from tilejit.backends.cuda.text.types import fits32, signature
from tilejit.backends.cuda.text.values import Bounds, Buffer, Dim, Scalar, index
from tilejit.backends.cuda.text.writer import Writer
from tilejit.dtypes import BOOL, FP32, FP64, INDEX, DType
from tilejit.runtime.cuda.launch_abi import OPERATIONS

EXTENT = (0, (1 << 31) - 1)
"""Bounds of every extent: a tensor has fewer elements than that along one dim."""


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar of the host program."""

    expr: Expr
    dtype: DType
    bounds: Bounds = None

    @property
    def const(self) -> int | float | bool | None:
        return self.expr if isinstance(self.expr, bool | int | float) else None


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a buffer on the host."""

    extent: Number
    stride: Number


@dataclass(frozen=True, slots=True)
class Memory:
    """A buffer of the host program: the address of its first element."""

    address: Expr
    axes: tuple[Axis, ...]
    dtype: DType
    root: str
    name: str = "x"

    @property
    def shape(self) -> tuple[Number, ...]:
        return tuple(axis.extent for axis in self.axes)


@dataclass(frozen=True, slots=True)
class Tasks:
    """An array of task ids: nobody waits for them here, so they all are the id of no task."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A small array of the host program: its elements, as one value."""

    expr: Expr
    dtype: DType
    extent: int


HostValue = Number | Memory | Tasks | Cells


def number(value: int) -> Number:
    return Number(value, INDEX, (value, value))


def variable(name: str, dtype: DType = INDEX, bounds: Bounds = None) -> Number:
    return Number(Var(name), dtype, bounds)


def _arithmetic(name: str, unit: int | None = None, either: bool = False, zero: bool = False) -> Callable[[Number, Number], Number]:
    """An op on two INDEX numbers; `unit` on the right changes nothing (on `either` side, if so), and a 0 may make everything `zero`."""
    fold = OPERATIONS[name]

    def applied(a: Number, b: Number) -> Number:
        if isinstance(a.const, int) and isinstance(b.const, int):
            return number(fold(a.const, b.const))
        if unit is not None and b.const == unit:
            return a
        if either and a.const == unit:
            return b
        if zero and (a.const == 0 or b.const == 0):
            return number(0)
        known = _bounds(name, a.bounds, b.bounds) if a.bounds and b.bounds else None
        return Number(Apply(name, (a.expr, b.expr)), INDEX, known)

    return applied


def _bounds(name: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """What an op gives lies between its values at the ends of its operands, unless it divides by what may be 0."""
    if name in ("floordiv", "ceildiv", "mod") and b[0] <= 0:
        return -(1 << 62), 1 << 62
    found = (0, b[1] - 1) if name == "mod" else [OPERATIONS[name](x, y) for x in a for y in b]
    return min(found), max(found)


add = _arithmetic("add", unit=0, either=True)
sub = _arithmetic("sub", unit=0)
mul = _arithmetic("mul", unit=1, either=True, zero=True)
floordiv = _arithmetic("floordiv", unit=1)
ceildiv = _arithmetic("ceildiv", unit=1)
minimum = _arithmetic("minimum")
maximum = _arithmetic("maximum")
mod = _arithmetic("mod")


def product(numbers: Sequence[Number]) -> Number:
    return reduce(mul, numbers, number(1))


def total(numbers: Sequence[Number]) -> Number:
    return reduce(add, numbers, number(0))


def contiguous(extents: Sequence[Number]) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    stride = number(1)
    for extent in reversed(extents):
        axes.append(Axis(extent, stride))
        stride = mul(stride, extent)
    return tuple(reversed(axes))


def same(a: Number, b: Number) -> bool:
    return a.expr == b.expr


def is_contiguous(memory: Memory) -> bool:
    return all(axis.extent.const == 1 or same(axis.stride, other.stride) for axis, other in zip(memory.axes, contiguous(memory.shape), strict=True))


def apply_row(name: str, args: Sequence[Number], dtype: DType, statics: dict[str, object]) -> Number:
    """An elementwise row on host numbers."""
    from tilejit.backends.cuda.rules import INDICES

    on_indices = INDICES.get(name)
    if dtype is INDEX and on_indices is not None and on_indices.host is not None and all(arg.dtype.is_integer for arg in args):
        return on_indices.host(*args)
    takes = ops.table()[name].attrs.get("takes", ())
    operands = tuple(arg.dtype.name for arg in args)
    kept = tuple((key, _plain(statics[key])) for key in takes if key in statics)
    return Number(Apply(name, tuple(arg.expr for arg in args), dtype.name, () if set(operands) == {"INDEX"} else operands, kept), dtype)


def _plain(value: object) -> object:
    return value.name if isinstance(value, DType) else value


# into kernels -----------------------------------------------------------------------------------------------------------


def take_number(out: Writer, value: Number, hint: str, divisible: bool = False) -> Scalar:
    """A host number inside a kernel: a constant, or a parameter. `divisible`: wide loads depend on it, so that there is a variant for multiples of 16."""
    dtype, const = value.dtype, value.const
    if const is not None:
        return index(int(const)) if dtype is INDEX else Scalar(repr(const), dtype, None, const)
    if dtype is INDEX:
        narrow = fits32(value.bounds)
        name = out.parameter(hint, "scalar", "i32" if narrow else "i64", value.expr, divisible)
        return Scalar(name, INDEX, value.bounds if narrow else None)
    if dtype is BOOL:
        name = out.parameter(hint, "scalar", "i32", Apply("cast", (value.expr,), "INT32", ("BOOL",), (("target_type", "INT32"), ("mode", "round"))))
        return Scalar(f"({name} != 0)", BOOL)
    if dtype.is_float:
        name = out.parameter(hint, "scalar", "fp64" if dtype is FP64 else "fp32", value.expr)
        if dtype in (FP32, FP64):
            return Scalar(name, dtype)
        from tilejit.backends.cuda.text import elementwise

        return Scalar(elementwise.narrow(out, name, dtype), dtype)
    return Scalar(out.parameter(hint, "scalar", signature(dtype), value.expr), dtype)


def take_memory(out: Writer, memory: Memory) -> Buffer:
    """A host buffer inside a kernel: a pointer, and parameters for what only the run knows. Where cells lie side by side their number decides how many
    are loaded at once; how many rows there are does not."""
    pointer = out.parameter(memory.name, "pointer", f"*{signature(memory.dtype)}", memory.address, divisible=True)
    dims = tuple(
        Dim(take_number(out, axis.extent, f"{memory.name}_size{i}", axis.stride.const == 1), take_number(out, axis.stride, f"{memory.name}_stride{i}", True))
        for i, axis in enumerate(memory.axes)
    )
    return Buffer(pointer, index(0), dims, memory.dtype, memory.root)


def at(memory: Memory, offset: Number, axes: tuple[Axis, ...]) -> Memory:
    """A part of a buffer that starts some elements further on."""
    step = mul(offset, number(memory.dtype.get_byte()))
    return replace(memory, address=add(Number(memory.address, INDEX), step).expr, axes=axes)

"""Arguments of a launch: arrays, tensors, addresses and numbers against the types that PTO text gives its parameters."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Sequence

import numpy as np

from tilejit.backends.pto.interpret.memory import Global, Pointer
from tilejit.errors import ArgumentError, DTypeError, RangeError
from tilejit.kinds import is_a
from tilejit.runtime.arrays import row_of, scalar_of, view_of
from tilejit.runtime.call.signature import ParamInfo
from tilejit.tile_ir.pto.elements import ELEMENTS, Element

_POINTER = re.compile(r"!pto\.ptr<(?:!pto\.)?(\w+)(?:, *\w+)?>\Z")
_INTEGER = re.compile(r"(i|si|ui)(\d+)\Z")


def argument(name: str, type: str, value: object) -> object:
    """A Python value as the interpreter holds it; `type` is the canonical text of the parameter's type."""
    pointer = _POINTER.match(type)
    if pointer is not None:
        element = ELEMENTS[pointer.group(1)]
        return Pointer(_memory(name, element, value), 0, element)
    return _scalar(name, type, value)


_ADDRESSES = range(4096, 1 << 63)
"""Where memory of a program can be: not in the first page, nor in the system's half."""


def _memory(name: str, element: Element, value: object) -> Global:
    try:
        view = view_of(value)
    except (ArgumentError, DTypeError) as error:
        raise type(error)(f"`{name}` points to {element}: {error.message}", help=error.hint) from None
    if view is not None:
        if view.dtype is not element.dtype:
            raise DTypeError(f"`{name}` points to {element}, got an array of {view.dtype}")
        if view.device != "cpu":
            raise ArgumentError(f"`{name}` must be in the memory of the CPU, it is on {view.device}")
        if not view.contiguous:
            raise ArgumentError(f"`{name}` must be contiguous: the kernel sees a pointer only", help="pass a copy in row-major order")
        size = math.prod(view.shape) * element.bytes
        return Global(view.address, size, name, view.writable and not view.copied, view.owner)
    if is_a(value, bool):
        raise ArgumentError(f"`{name}` is a pointer: pass an array, a tensor or an address, got bool")
    if is_a(value, int):
        return Global(_address(name, value), None, name)
    if isinstance(value, ctypes.c_void_p):
        return Global(_address(name, value.value or 0), None, name)
    pointer = getattr(value, "data_ptr", None)
    if callable(pointer):
        address = pointer()
        if is_a(address, int):
            return Global(_address(name, address), None, name, True, value)
    raise ArgumentError(f"`{name}` is a pointer: pass an array, a tensor or an address, got {type(value).__name__}")


def _address(name: str, address: int) -> int:
    """An address that can be one; 0 is refused when the kernel uses it."""
    address = int.__int__(address)  # a range goes through all its numbers for one of another class
    if address != 0 and address not in _ADDRESSES:
        from tilejit.ops.dtype_rules import int_text

        help = "pass an array, a tensor, or the address of its data"
        raise ArgumentError(f"`{name}` is a pointer, and there is no memory at address {int_text(address)}", help=help)
    return address


def _scalar(name: str, type: str, value: object) -> object:
    if is_a(value, np.generic):
        value = value.item()
    elif is_a(value, int, float):
        value = scalar_of(value)
    if type in ("f16", "bf16"):
        raise ArgumentError(f"`{name}` is a scalar of type {type}: such scalars cannot be passed to a launch", help="pass f32")
    integer = _INTEGER.match("i64" if type == "index" else type)
    if integer is not None:
        if not isinstance(value, int):
            raise ArgumentError(f"`{name}` must be an integer ({type}), got {value.__class__.__name__}")
        return _wrapped(name, type, int(value), int(integer.group(2)), integer.group(1) == "ui")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ArgumentError(f"`{name}` must be a number ({type}), got {value.__class__.__name__}")
    element = ELEMENTS.get(type)
    if element is None or element.dtype is None:
        raise ArgumentError(f"`{name}` is a scalar of type {type}: such scalars cannot be passed to a launch")
    try:
        with np.errstate(all="ignore"):
            return np.asarray(value, np.float64).astype(element.dtype.numpy)[()]
    except OverflowError:  # an integer that no float holds
        raise _too_large(name, type, int(value), f'pass float("inf") for `{name}` if infinity is meant') from None


def _wrapped(name: str, type: str, value: int, width: int, unsigned: bool) -> int:
    """The number as its type holds it: one that needs all bits may be given with or without a sign."""
    bits = value & ((1 << width) - 1)
    held = bits if unsigned or width == 1 or bits < 1 << (width - 1) else bits - (1 << width)
    if value not in (bits, held):
        raise _too_large(name, type, value)
    return held


def _too_large(name: str, type: str, value: int, help: str | None = None) -> RangeError:
    from tilejit.ops.dtype_rules import int_text

    return RangeError(f"{int_text(value)} does not fit into `{name}`, an {type}", help=help)


def flat_names(types: Sequence[str], params: Sequence[ParamInfo]) -> list[str]:
    """What the compiled form calls the arguments of a launch, in their order, and last the grid."""
    arrays, numbers = (iter([param.name for param in params if (param.shape is None) is scalar]) for scalar in (False, True))
    return [*(next(arrays if _POINTER.match(type) else numbers) for type in types), *numbers]


def flat_arguments(names: Sequence[str], types: Sequence[str], values: Sequence[object], params: Sequence[ParamInfo]) -> list[object] | None:
    """The arguments as the compiled form takes them: arrays as one row, then scalars; None where only the interpreter will do.

    That is with addresses, whose bounds nobody knows, and with arrays that overlap one that is written.
    """
    arrays: list[object] = []
    numbers: list[object] = []
    ranges: list[tuple[int, int, bool]] = []
    for name, type, value in zip(names, types, values, strict=True):
        bound = argument(name, type, value)
        if not isinstance(bound, Pointer):
            numbers.append(bool(bound) if type == "i1" else float(bound) if isinstance(bound, np.generic) else bound)
            continue
        memory, written = bound.memory, params[len(arrays)].direction != "In"
        if memory.size is None or memory.size == 0 or (written and not memory.writable) or (row := row_of(memory.owner)) is None:
            return None
        ranges.append((memory.address, memory.address + memory.size, written))
        arrays.append(row)
    for i, (start, end, written) in enumerate(ranges):
        if any((written or other[2]) and start < other[1] and other[0] < end for other in ranges[i + 1 :]):
            return None
    return [*arrays, *numbers]

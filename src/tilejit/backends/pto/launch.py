"""Launching a verified file: what cannot run is refused first, then arrays and numbers become arguments, then the blocks run."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation

from tilejit.backends.pto import scalars
from tilejit.backends.pto.machine import Machine
from tilejit.backends.pto.memory import Global, Pointer
from tilejit.errors import ArgumentError, DTypeError, RangeError, UnsupportedFeatureError
from tilejit.runtime.arrays import view_of
from tilejit.runtime.signature import ParamInfo
from tilejit.tile_ir.pto.elements import Element
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import element_of
from tilejit.tile_ir.pto.spec import Refused
from tilejit.tile_ir.pto.types import OPAQUE, PtrType

_CONTROL = ("scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition", "func.return", "func.call")


def refuse_unrunnable(file: PtoFile, entry: FuncOp) -> None:
    """Raises for the first op reachable from `entry` that reads fine but cannot run here."""
    for number, type in enumerate(entry.function_type.inputs.data):
        if not isinstance(type, PtrType) and (type.name.startswith("pto.") or not _runs(type)):
            what = f"parameter {number} of @{entry.sym_name.data} has type {type}"
            raise UnsupportedFeatureError(f"{what}: a launch passes pointers and scalars", span=file.span(entry))
    for op in reachable(file, entry):
        reason = _reason(file, op)
        if reason is not None:
            raise UnsupportedFeatureError(f"`{op.name}` cannot run here: {reason}", span=file.span(op))


def reachable(file: PtoFile, entry: FuncOp) -> Iterator[Operation]:
    """All ops of the entry and of what it calls."""
    functions = {(function.parent_op(), function.sym_name.data): function for function in file.functions()}
    seen: set[FuncOp] = set()
    todo = [entry]
    while todo:
        function = todo.pop()
        if function in seen or not function.body.blocks:
            continue
        seen.add(function)
        for op in function.body.walk():
            yield op
            if isinstance(op, CallOp) and (callee := functions.get((function.parent_op(), op.callee.string_value()))) is not None:
                todo.append(callee)


def _reason(file: PtoFile, op: Operation) -> str | None:
    if isinstance(op, PtoOp):
        if isinstance(op.row.run, Refused):
            return op.row.run.reason
        if op.enum("accToVecMode").startswith("dual"):
            return "both sub-cores receive at once in this mode"
    elif op.name not in scalars.SUPPORTED and op.name not in _CONTROL:
        return "the interpreter does not know it"
    elif op.name == "arith.constant" and not scalars.is_number(op):
        return "only numbers can be constants"
    if isinstance(op, CallOp):
        callee = op.callee.string_value()
        known = next((f for f in file.functions() if f.sym_name.data == callee), None)
        if known is not None and not known.body.blocks:
            return f"@{callee} is declared, but has no body"
    for value in (*op.operands, *op.results):
        element = element_of(value)
        if element is not None and (element.dtype is None or element.dtype.bits < 8):
            return f"there are no arrays of {element}"
        if isinstance(value.type, MemRefType):
            return "memrefs belong to files of a later stage"
        if not _runs(value.type):
            return f"there are no values of type {value.type} here"
    return None


def _runs(type: Attribute) -> bool:
    """Whether a value of this type can exist while a kernel runs."""
    if type.name.startswith("pto."):
        return not isinstance(type, _TEXT_ONLY)
    return scalars.is_integer(type) or str(type) in ("f16", "bf16", "f32")


_TEXT_ONLY = tuple(kind for name, kind in OPAQUE.items() if name != "pipe")


# arguments ------------------------------------------------------------------------------------------------------------------------


def argument(name: str, type: Attribute, value: object) -> object:
    """A Python value as the interpreter holds it."""
    if isinstance(type, PtrType):
        return Pointer(_memory(name, type.data.element, value), 0, type.data.element)
    return _scalar(name, type, value)


def _memory(name: str, element: Element, value: object) -> Global:
    view = view_of(value)
    if view is not None:
        if view.dtype is not element.dtype:
            raise DTypeError(f"`{name}` points to {element}, got an array of {view.dtype}")
        if view.device != "cpu":
            raise ArgumentError(f"`{name}` must be in the memory of the CPU, it is on {view.device}")
        if not view.contiguous:
            raise ArgumentError(f"`{name}` must be contiguous: the kernel sees a pointer only", help="pass a copy in row-major order")
        size = math.prod(view.shape) * element.bytes
        return Global(view.address, size, name, view.writable and not view.copied, view.owner)
    if isinstance(value, bool):
        raise ArgumentError(f"`{name}` is a pointer: pass an array, a tensor or an address, got bool")
    if isinstance(value, int):
        return Global(value, None, name)
    if isinstance(value, ctypes.c_void_p):
        return Global(value.value or 0, None, name)
    pointer = getattr(value, "data_ptr", None)
    if callable(pointer):
        address = pointer()
        if isinstance(address, int):
            return Global(address, None, name, True, value)
    raise ArgumentError(f"`{name}` is a pointer: pass an array, a tensor or an address, got {type(value).__name__}")


def _scalar(name: str, type: Attribute, value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if str(type) in ("f16", "bf16"):
        raise ArgumentError(f"`{name}` is a scalar of type {type}: such scalars cannot be passed to a launch", help="pass f32")
    if scalars.is_integer(type):
        if not isinstance(value, int):
            raise ArgumentError(f"`{name}` must be an integer ({type}), got {value.__class__.__name__}")
        narrowed = scalars.wrapped(int(value), type)
        if narrowed != int(value) and scalars.unsigned(int(value), type) != int(value):
            raise RangeError(f"{value} does not fit into `{name}`, an {type}")
        return narrowed
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ArgumentError(f"`{name}` must be a number ({type}), got {value.__class__.__name__}")
    return scalars.float_scalar(value, type)


def launch(file: PtoFile, entry: FuncOp, names: Sequence[str], values: Sequence[object], grid: int = 1) -> None:
    """Run `entry` of a verified file on `grid` blocks."""
    types = entry.function_type.inputs.data
    arguments = [argument(name, type, value) for name, type, value in zip(names, types, values, strict=True)]
    Machine(file).run(entry, arguments, grid)


def flat_arguments(entry: FuncOp, names: Sequence[str], values: Sequence[object], params: Sequence[ParamInfo]) -> list[object] | None:
    """The arguments as the compiled form takes them: arrays as one row, then scalars; None where only the interpreter will do.

    That is with addresses, whose bounds nobody knows, and with arrays that overlap one that is written.
    """
    arrays: list[object] = []
    numbers: list[object] = []
    ranges: list[tuple[int, int, bool]] = []
    for name, type, value in zip(names, entry.function_type.inputs.data, values, strict=True):
        bound = argument(name, type, value)
        if not isinstance(bound, Pointer):
            numbers.append(bool(bound) if str(type) == "i1" else float(bound) if isinstance(bound, np.generic) else bound)
            continue
        memory, written = bound.memory, params[len(arrays)].direction != "In"
        if memory.size is None or memory.size == 0 or (written and not memory.writable) or not hasattr(value, "reshape"):
            return None
        ranges.append((memory.address, memory.address + memory.size, written))
        arrays.append(value.reshape(-1))  # type: ignore[attr-defined]
    for i, (start, end, written) in enumerate(ranges):
        if any((written or other[2]) and start < other[1] and other[0] < end for other in ranges[i + 1 :]):
            return None
    return [*arrays, *numbers]

"""Launching a verified file: what cannot run is refused first, then arrays and numbers become arguments, then the blocks run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import MemRefType, TensorType, VectorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from tilejit.backends.pto.interpret import arguments, scalars
from tilejit.backends.pto.interpret.machine import Machine
from tilejit.errors import UnsupportedFeatureError
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import element_of
from tilejit.tile_ir.pto.spec import Refused
from tilejit.tile_ir.pto.types import OPAQUE, PtrType, canonical

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
    elif op.name == "arith.constant" and isinstance(op.results[0].type, VectorType):
        return None if all(use.operation.name == "pto.tmrgsort" for use in op.results[0].uses) else "there are no vectors here"
    elif op.name == "arith.constant" and not scalars.is_number(op):
        return "only numbers can be constants"
    if isinstance(op, CallOp):
        callee = op.callee.string_value()
        known = next((f for f in file.functions() if f.sym_name.data == callee), None)
        if known is not None and not known.body.blocks:
            return f"@{callee} is declared, but has no body"
    for value in (*op.operands, *(result for result in op.results if not _unused_tensor(result))):
        element = element_of(value)
        if element is not None and (element.dtype is None or element.dtype.bits < 8):
            return f"there are no arrays of {element}"
        if isinstance(value.type, MemRefType):
            return "memrefs belong to files of a later stage"
        if not _runs(value.type) and not (isinstance(value.type, VectorType) and op.name == "pto.tmrgsort"):
            return f"there are no values of type {value.type} here"
    return None


def _unused_tensor(result: SSAValue) -> bool:
    """The optional tensor that some ops give: it may be there, as long as nobody wants it."""
    return isinstance(result.type, TensorType) and not any(result.uses)


def _runs(type: Attribute) -> bool:
    """Whether a value of this type can exist while a kernel runs."""
    if type.name.startswith("pto."):
        return not isinstance(type, _TEXT_ONLY)
    return scalars.is_integer(type) or str(type) in ("f16", "bf16", "f32")


_TEXT_ONLY = tuple(kind for name, kind in OPAQUE.items() if name != "pipe")


# running --------------------------------------------------------------------------------------------------------------------------


def argument(name: str, type: Attribute, value: object) -> object:
    """A Python value as the interpreter holds it."""
    return arguments.argument(name, canonical(type), value)


def launch(file: PtoFile, entry: FuncOp, names: Sequence[str], values: Sequence[object], grid: int = 1) -> None:
    """Run `entry` of a verified file on `grid` blocks."""
    types = entry.function_type.inputs.data
    Machine(file).run(entry, [argument(name, type, value) for name, type, value in zip(names, types, values, strict=True)], grid)


def parameter_types(entry: FuncOp) -> tuple[str, ...]:
    """The types of an entry's parameters, as text."""
    return tuple(canonical(type) for type in entry.function_type.inputs.data)

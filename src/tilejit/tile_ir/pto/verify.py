"""The rules of a whole file: structure, functions, ops by architecture, build levels. Nothing runs before they hold."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, StringAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from tilejit.errors import PtoVerifyError, did_you_mean
from tilejit.tile_ir.pto.attributes import ENUM_CLASSES, EnumAttr
from tilejit.tile_ir.pto.format import kind_matches
from tilejit.tile_ir.pto.module import PtoFile, enclosing_function, is_entry, kernel_kind
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.pipes import pipe_problems
from tilejit.tile_ir.pto.rules import any_memref, constant, dims
from tilejit.tile_ir.pto.spec import A5, Refused
from tilejit.tile_ir.pto.specs import CAPACITY, TileSpec
from tilejit.tile_ir.pto.structure import Problem, module_structure
from tilejit.tile_ir.pto.types import TileBufType


def verify(file: PtoFile) -> None:
    """Raises for the first rule that the file breaks."""
    for error in problems(file):
        raise error


def problems(file: PtoFile) -> Iterator[PtoVerifyError]:
    """Everything that is wrong with the file; later checks only run on files that passed the earlier ones."""
    for stage in (_structure, _functions, _ops, _levels, _pipes):
        found = False
        for op, message, hint in stage(file):
            found = True
            yield PtoVerifyError(message, span=file.span(op), help=hint)
        if found:
            return


# structure --------------------------------------------------------------------------------------------------------------------


def _structure(file: PtoFile) -> Iterator[Problem]:
    yield from module_structure(file.module)


# functions --------------------------------------------------------------------------------------------------------------------


def _functions(file: PtoFile) -> Iterator[Problem]:
    symbols: dict[tuple[Operation | None, str], FuncOp] = {}
    for function in file.functions():
        key = (function.parent_op(), function.sym_name.data)
        if key in symbols:
            yield function, f"there are two functions @{function.sym_name.data}", None
        symbols[key] = function
    entries = file.entries()
    for function in file.functions():
        yield from _function(function, symbols)
        results = function.function_type.outputs.data
        private = function.sym_visibility is not None and function.sym_visibility.data == "private"
        if results and (is_entry(function) or (function in entries and not private)):
            yield function, f"the entry @{function.sym_name.data} must return nothing, it returns {', '.join(map(str, results))}", None
    if file.module is not None:
        yield from _recursion(file, symbols)


def _function(function: FuncOp, symbols: dict[tuple[Operation | None, str], FuncOp]) -> Iterator[Problem]:
    name = function.sym_name.data
    if is_entry(function) and not function.body.blocks:
        yield function, f"@{name} is marked as an entry, but has no body", None
    kind = function.attributes.get("pto.kernel_kind")
    if kind is not None and not isinstance(kind, ENUM_CLASSES["kernel_kind"]):
        yield function, "pto.kernel_kind is #pto.kernel_kind<cube> or #pto.kernel_kind<vector>", None
    for op in function.body.walk() if function.body.blocks else ():
        if isinstance(op, PtoOp) and op.name.startswith("pto.section.") and kind is not None:
            yield op, f"@{name} is a {kernel_kind(function)} function as a whole: it has no sections", None
        if isinstance(op, PtoOp) and op.name.startswith("pto.section.") and isinstance(op.parent_op(), PtoOp):
            yield op, "sections are not nested", None
        if isinstance(op, ReturnOp) and op.parent_op() is not function:
            yield op, "a function returns at its end only", None
        if isinstance(op, CallOp):
            yield from _call(op, function, symbols)


def _call(op: CallOp, function: FuncOp, symbols: dict[tuple[Operation | None, str], FuncOp]) -> Iterator[Problem]:
    name = op.callee.string_value()
    callee = symbols.get((function.parent_op(), name))
    if callee is None:
        hint = did_you_mean(name, [known for _, known in symbols])
        yield op, f"there is no function @{name}" + (f": {hint}" if hint else ""), None
        return
    given, wanted = [str(operand.type) for operand in op.operands], [str(type) for type in callee.function_type.inputs.data]
    if given != wanted:
        yield op, f"@{name} takes ({', '.join(wanted)}), got ({', '.join(given)})", None
    results, made = [str(result.type) for result in op.results], [str(type) for type in callee.function_type.outputs.data]
    if results != made:
        yield op, f"@{name} returns ({', '.join(made)}), got ({', '.join(results)})", None


def _recursion(file: PtoFile, symbols: dict[tuple[Operation | None, str], FuncOp]) -> Iterator[Problem]:
    calls: dict[FuncOp, list[tuple[CallOp, FuncOp]]] = {}
    for function in file.definitions():
        found = [op for op in function.body.walk() if isinstance(op, CallOp)]
        calls[function] = [(op, target) for op in found if (target := symbols.get((function.parent_op(), op.callee.string_value()))) is not None]
    done: set[FuncOp] = set()
    for function in calls:
        stack: list[tuple[FuncOp, Iterator[tuple[CallOp, FuncOp]]]] = [(function, iter(calls[function]))]
        active = {function}
        while stack:
            current, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                stack.pop()
                active.discard(current)
                done.add(current)
            elif step[1] in active:
                yield step[0], f"@{step[1].sym_name.data} calls itself: recursion is not allowed", None
                return
            elif step[1] not in done and step[1] in calls:
                stack.append((step[1], iter(calls[step[1]])))
                active.add(step[1])


# ops ----------------------------------------------------------------------------------------------------------------------------


def _ops(file: PtoFile) -> Iterator[Problem]:
    for op in file.module.walk():
        complaint = _types_of(op, file.arch)
        if complaint is None and isinstance(op, PtoOp):
            complaint = _op(op, file.arch)
        if complaint is not None:
            yield op, f"{op.name}: {complaint}", f"its form is `{op.name} {op.row.format}`" if isinstance(op, PtoOp) and op.row.destination_style else None


def _op(op: PtoOp, arch: str) -> str | None:
    row = op.row
    if row.arch is not None and row.arch != arch:
        return f"only {'A5' if row.arch == A5 else 'A2/A3'} has this op"
    complaint = _attributes(op)
    if complaint is not None:
        return complaint
    if any_memref(op):
        return None
    for slot in row.slots:
        for value in op.groups[slot.name]:
            if not kind_matches(slot.kind, value.type):
                return f"`{slot.name}` must be {_KINDS.get(slot.kind, slot.kind)}, got {value.type}"
    if row.core is not None:
        function = enclosing_function(op)
        if function is None or kernel_kind(function) != row.core:
            return f"it belongs into a function with pto.kernel_kind = #pto.kernel_kind<{row.core}>"
    if op.name.startswith("pto.section.") and len(op.regions[0].blocks) == 1 and op.regions[0].block.args:
        return "a section has no arguments"
    for rule in row.rules:
        complaint = rule(op, arch)
        if complaint is not None:
            return complaint
    return _address(op, arch) if row.name in ("alloc_tile", "tassign") else None


_KINDS = {
    "tile": "a tile", "view": "a slice (!pto.partition_tensor_view)", "tensor": "a !pto.tensor_view", "ptr": "a !pto.ptr", "scalar": "a number",
    "index": "an index", "i64": "an i64", "i32": "an i32", "pipe": "a !pto.pipe",
}  # fmt: skip


def _address(op: PtoOp, arch: str) -> str | None:
    address = constant(op.operand("addr"))
    type = op.results[0].type
    if address is None or not isinstance(type, TileBufType):
        return None
    end, size = address + type.data.bytes, CAPACITY[arch][type.data.loc]
    return None if end <= size else f"the tile ends at byte {end}, but {type.data.loc} memory has {size}"


def _types_of(op: Operation, arch: str) -> str | None:
    types = [result.type for result in op.results]
    types += [argument.type for region in op.regions for block in region.blocks for argument in block.args]
    for type in types:
        if isinstance(type, TileBufType):
            complaint = tile_problem(type.data, arch)
            if complaint is not None:
                return complaint
    return None


def tile_problem(spec: TileSpec, arch: str) -> str | None:
    """What is wrong with a tile type on an architecture."""
    if spec.rows < 1 or spec.cols < 1:
        return f"a tile has at least one element, got {dims(spec.shape)}"
    if any(valid is not None and valid > size for valid, size in zip(spec.valid, spec.shape)):
        return f"the valid region {dims(spec.valid)} is larger than the tile {dims(spec.shape)}"
    if spec.bytes > CAPACITY[arch][spec.loc]:
        return f"a tile of {dims(spec.shape)}x{spec.element} has {spec.bytes} bytes, but {spec.loc} memory has {CAPACITY[arch][spec.loc]}"
    return None


def _attributes(op: PtoOp) -> str | None:
    known = op.row.attributes
    for name, value in op.attributes.items():
        if name not in known:
            if "." in name or isinstance(op.row.run, Refused):
                continue  # Ops of other stages are read, not judged.
            hint = did_you_mean(name, known)
            return f"it has no attribute `{name}`" + (f": {hint}" if hint else f"; it has {', '.join(known)}" if known else "")
        kind = known[name].rstrip("!")
        if not _fits(kind, value):
            return f"the attribute `{name}` must be {_spelled(kind)}, got {value}"
    for name, kind in known.items():
        if kind.endswith("!") and name not in op.attributes:
            return f"it needs the attribute `{name}`"
    return None


def _fits(kind: str, value: Attribute) -> bool:
    if kind in ENUM_CLASSES:
        return isinstance(value, EnumAttr) and isinstance(value, ENUM_CLASSES[kind])
    if kind == "symbol":
        return isinstance(value, SymbolRefAttr)
    if kind == "str":
        return isinstance(value, StringAttr)
    if kind == "ints":
        return isinstance(value, DenseArrayBase | ArrayAttr)
    return isinstance(value, IntegerAttr) and (kind == "bool") == (str(value.type) == "i1")


def _spelled(kind: str) -> str:
    if kind in ENUM_CLASSES:
        row = ENUM_CLASSES[kind].enumeration
        return f"#pto<{kind} …>" if row.spaced else f"#pto.{kind}<…>"
    return {"bool": "true or false", "int": "a number", "str": "a string", "symbol": "a symbol like @f", "ints": "a list of numbers"}[kind]


# build levels -------------------------------------------------------------------------------------------------------------------


def build_level(file: PtoFile) -> int:
    """3 when tiles have addresses, else 2."""
    return 3 if any(isinstance(op, PtoOp) and op.row.name == "alloc_tile" and op.operand("addr") is not None for op in file.module.walk()) else 2


def _levels(file: PtoFile) -> Iterator[Problem]:
    level = build_level(file)
    for op in file.module.walk():
        if not isinstance(op, PtoOp):
            continue
        if op.row.name == "alloc_tile" and level == 3 and op.operand("addr") is None:
            hint = "give it `addr = %a`, or take the addresses away"
            yield op, "pto.alloc_tile: other tiles of this file have an address: then every tile needs one (level 3)", hint
            return
        if op.row.name == "tassign" and level == 2:
            yield op, "pto.tassign: it needs a file whose tiles have addresses (level 3)", None
            return


def _pipes(file: PtoFile) -> Iterator[Problem]:
    yield from pipe_problems(file)



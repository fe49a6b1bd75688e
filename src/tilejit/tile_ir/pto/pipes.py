"""The rules that bind the two sides of a FIFO: one function of the cube, one of the vector core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilejit.tile_ir.pto.module import PtoFile, kernel_kind
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import constant, dims
from tilejit.tile_ir.pto.specs import CAPACITY
from tilejit.tile_ir.pto.types import tile_of

Problem = tuple[Operation, str, str | None]
_C2V = ("tpush_to_aiv", "tpop_from_aic", "tfree_from_aic")
_V2C = ("tpush_to_aic", "tpop_from_aiv", "tfree_from_aiv")


@dataclass
class Side:
    """What one function does with its pipes."""

    function: FuncOp
    opened: list[PtoOp] = field(default_factory=list[PtoOp])
    used: list[PtoOp] = field(default_factory=list[PtoOp])
    reserved: list[PtoOp] = field(default_factory=list[PtoOp])
    imported: list[PtoOp] = field(default_factory=list[PtoOp])

    @property
    def name(self) -> str:
        return self.function.sym_name.data


def side_of(function: FuncOp) -> Side:
    """The FIFO ops of a function."""
    side = Side(function)
    for op in function.body.walk():
        if not isinstance(op, PtoOp):
            continue
        if op.row.name.endswith("_initialize_pipe"):
            side.opened.append(op)
        elif op.row.name in _C2V or op.row.name in _V2C:
            side.used.append(op)
        elif op.row.name == "reserve_buffer":
            side.reserved.append(op)
        elif op.row.name == "import_reserved_buffer":
            side.imported.append(op)
    return side


def pipe_problems(file: PtoFile) -> Iterator[Problem]:
    """What is wrong with the FIFOs of a file."""
    sides = {(function.parent_op(), function.sym_name.data): side_of(function) for function in file.definitions()}
    for (module, _), side in sides.items():
        yield from _one_side(side)
        yield from _reserved(side, file.arch)
        for op in side.imported:
            peer = sides.get((module, op.string("peer_func")))
            if peer is None:
                yield op, f"pto.import_reserved_buffer: there is no function @{op.string('peer_func')} with a body", None
            elif all(op.string("name") != reserved.string("name") for reserved in peer.reserved):
                yield op, f"pto.import_reserved_buffer: @{peer.name} reserves no buffer {op.string('name')!r}", None
            elif kernel_kind(peer.function) == kernel_kind(side.function):
                yield op, f"pto.import_reserved_buffer: @{peer.name} must be a function of the other kind of core", None
            else:
                yield from _peers(side, peer)


def _one_side(side: Side) -> Iterator[Problem]:
    if len(side.opened) > 1:
        yield side.opened[1], f"{side.opened[1].name}: a function opens its pipes once", None
    for op in side.used:
        if not side.opened:
            yield op, f"{op.name}: @{side.name} never opens a pipe", "call pto.aic_initialize_pipe or pto.aiv_initialize_pipe first"
            return
        needed = 1 if op.row.name in _C2V else 2
        mask = side.opened[0].integer("dir_mask")
        if not mask & needed:
            way = "from cube to vector" if needed == 1 else "from vector to cube"
            yield op, f"{op.name}: the pipe of @{side.name} does not go {way}: dir_mask is {mask}", None
            return


def _reserved(side: Side, arch: str) -> Iterator[Problem]:
    """A buffer is reserved once, for the whole function, in bytes that nothing else has, wherever in the function that is placed."""
    names: set[str] = set()
    taken = list(_placed(side.function))
    for op in side.reserved:
        name, place = op.string("name"), op.enum("location")
        start, size = op.integer("base"), op.integer("size")
        parent = op.parent_op()
        if parent is not side.function and not (isinstance(parent, PtoOp) and parent.name.startswith("pto.section.")):
            yield op, f"{op.name}: a buffer is reserved for a whole function, not inside of a loop or branch", "move it to the top of the function"
        elif name in names:
            yield op, f"{op.name}: @{side.name} already reserves a buffer {name!r}", "give it another name"
        elif start + size > CAPACITY[arch].get(place, 0):
            yield op, f"{op.name}: the buffer ends at byte {start + size}, but {place} memory has {CAPACITY[arch].get(place, 0)}", None
        elif not op.flag("auto"):
            for what, where, first, end in taken:
                if where == place and first < start + size and start < end:
                    yield op, f"{op.name}: bytes {start} to {start + size} of {place} memory overlap {what} at {first} to {end}", "give it a base of its own"
                    break
            taken.append((f"the buffer {name!r}", place, start, start + size))
        names.add(name)


def _placed(function: FuncOp) -> Iterator[tuple[str, str, int, int]]:
    """The tiles at known addresses, also inside of loops and branches, and those that are moved to one: memory, first byte, end."""
    for op in function.body.walk():
        if isinstance(op, PtoOp) and op.row.name in ("alloc_tile", "tassign"):
            address, spec = constant(op.operand("addr")), tile_of(op.results[0])
            if address is not None and spec is not None:
                yield f"a tile {dims(spec.shape)}x{spec.element}", spec.loc, address, address + spec.bytes


def _peers(side: Side, peer: Side) -> Iterator[Problem]:
    uses = [*side.used, *peer.used]
    split = {op.integer("split") != 0 for op in uses}
    if len(split) > 1:
        odd = next(op for op in uses if (op.integer("split") != 0) != (uses[0].integer("split") != 0))
        yield odd, f"{odd.name}: @{side.name} and @{peer.name} share a pipe: all its uses are split, or none is", None
        return
    for opened in (*side.opened, *peer.opened):
        if "nosplit" in opened.attributes and uses and opened.flag("nosplit") == (True in split):
            sent = "split" if True in split else "whole"
            yield opened, f"{opened.name}: nosplit is {str(opened.flag('nosplit')).lower()}, but the tiles of the pipe are {sent}", None
            return
    if side.opened and peer.opened and side.opened[0].integer("dir_mask") != peer.opened[0].integer("dir_mask"):
        yield side.opened[0], f"{side.opened[0].name}: dir_mask differs from that of @{peer.name}", None


def pipe_groups(file: PtoFile) -> dict[FuncOp, str]:
    """Functions that share a FIFO have one group: those that import each other's buffers."""
    functions = {(function.parent_op(), function.sym_name.data): function for function in file.definitions()}
    groups = {function: function.sym_name.data for function in functions.values()}
    for (module, _), function in functions.items():
        for op in side_of(function).imported:
            peer = functions.get((module, op.string("peer_func")))
            if peer is not None:
                joined, left = groups[peer], groups[function]
                groups = {member: joined if group == left else group for member, group in groups.items()}
    return groups


def core_of(op: PtoOp) -> str | None:
    """The kind of core an op runs on: that of its section or of its function."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        if parent.name.startswith("pto.section."):
            return parent.name.removeprefix("pto.section.")
        parent = parent.parent_op()
    return kernel_kind(parent) if isinstance(parent, FuncOp) else None

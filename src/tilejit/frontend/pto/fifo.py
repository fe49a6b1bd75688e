"""Raising of FIFOs: the sides of a cube and vector pair become functions that run side by side, pushes and pops rows of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.dtypes import INT32, DType
from tilejit.frontend.pto.control import Packed, pack
from tilejit.frontend.pto.handles import Cell, Core, NotRaisable
from tilejit.frontend.pto.tiles import Tile, all_cells, fresh, tile, write
from tilejit.frontend.pto.views import dtype_of_element
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder, function
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.pipes import core_of, pipe_groups
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.types.values import BufferType, ValueType

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

_UNKNOWN = "a tile that arrives with a valid region that only its sender knows"
KINDS = {"cube": "aic", "vector": "aiv"}


def crosses(found: Operation) -> bool:
    """Whether an op sends or takes tiles."""
    return isinstance(found, PtoOp) and "split" in found.row.attributes


@dataclass(frozen=True)
class Pipe:
    """A FIFO that an op opened: those of one group that were opened with the same options are the same."""

    group: str
    mask: int
    base: int


# sides ------------------------------------------------------------------------------------------------------------------------


def outline(self: Raiser, stem: str, kind: str, block: Block, bound: Sequence[tuple[SSAValue, object]], followed: FuncOp) -> None:
    """Make a function of a side and call it: neighbouring calls run side by side."""
    from tilejit.frontend.pto.raiser import Raiser

    pipes = {source: value for source, value in bound if isinstance(value, Pipe)}
    packed: list[tuple[SSAValue, Packed]] = [(source, pack(self, value)) for source, value in bound if not isinstance(value, Pipe)]
    if self.touched is not None:
        return  # Only tried out: the outer variables it could overwrite are none.
    parts = [part for _, item in packed for part in item.parts]
    name = f"{stem}_{len(self.made)}"
    params: list[tuple[str, ValueType, str]] = [
        (f"p{i}", d.type_of(part), "InOut" if isinstance(d.type_of(part), BufferType) else "In") for i, part in enumerate(parts)
    ]
    op, arguments = function(name, KINDS[kind], params)
    self.made.append(op)
    inner = Raiser(self.file, self.functions, self.plan, Builder(op.body.block), op.body.block)
    inner.made, inner.fifos, inner.crossing, inner.calls = self.made, self.fifos, True, [followed]
    split = any(crosses(found) and found.integer("split") for found in block.walk() if isinstance(found, PtoOp))
    halves = kind == "vector" and split
    inner.core = Core(inner.place("get_subblock_idx") if halves else 0, 2 if halves else 1)
    inner.values.update(pipes)
    place = 0
    for source, item in packed:
        inner.values[source] = item.rebuild(arguments[place : place + len(item.parts)])
        place += len(item.parts)
    inner.block(block)
    inner.build.return_([])
    inner.finish(op.body.block)
    self.build.call(name, parts, [])


def captured(self: Raiser, region_op: Operation) -> list[tuple[SSAValue, object]]:
    """The values from outside that the body of an op uses."""
    inside = {value for op in region_op.walk() for value in op.results}
    inside |= {argument for op in region_op.walk() for region in op.regions for block in region.blocks for argument in block.args}
    used = dict.fromkeys(operand for op in region_op.walk() for operand in op.operands if operand not in inside)
    return [(value, self.held(value)) for value in used]


# transfers --------------------------------------------------------------------------------------------------------------------


def _number(self: Raiser, key: object) -> int:
    """The id of a FIFO."""
    return self.fifos.setdefault(key, len(self.fifos))


def _own(self: Raiser) -> int:
    return _number(self, pipe_groups(self.file).get(self.calls[-1], ""))


def _push(self: Raiser, op: PtoOp) -> None:
    _send(self, op.row.name, all_cells(self, tile(self, op, "tile")), op.integer("split"), _own(self))


def _send(self: Raiser, row: str, value: SSAValue, split: int, number: int) -> None:
    self.build.perform(ops.table()[row], "system", {"tile": value, "split": split, "id": number})


def _take(self: Raiser, row: str, spec: TileSpec, dtype: DType, split: int, number: int) -> SSAValue:
    shape = [self.build.const(size) for size in spec.shape]
    return self.build.apply(ops.table()[row], "system", {"shape": shape, "dtype": dtype, "split": split, "id": number})[0]


def _pop(self: Raiser, op: PtoOp) -> None:
    spec = op.result_tile
    given = (op.operand("row"), op.operand("col"))
    if None in spec.valid and None in given:
        raise NotRaisable(_UNKNOWN)
    rows, cols = (
        written if written is not None else self.within(self.number(value), size, what)
        for written, value, size, what in zip(spec.valid, given, spec.shape, ("rows", "columns"))
    )  # fmt: skip
    value = _take(self, op.row.name, spec, dtype_of_element(spec.element), op.integer("split"), _own(self))
    made = fresh(self, op, spec, (rows, cols))
    _deliver(self, made, value)
    self.values[op.results[0]] = made


def _deliver(self: Raiser, target: Tile, value: SSAValue) -> None:
    write(self, target, self.cut(value, 0, 0, target.shape) if isinstance(target, Cell) else value)


# pipes as values ----------------------------------------------------------------------------------------------------------------


def _open(self: Raiser, op: PtoOp) -> None:
    self.values[op.results[0]] = Pipe(pipe_groups(self.file).get(self.calls[-1], ""), op.integer("dir_mask"), op.integer("flag_base"))


def _pipe(self: Raiser, op: PtoOp, pushing: bool) -> tuple[int, bool]:
    """The id of the FIFO, and whether the transfer goes towards the vector side."""
    found = self.held(op.operand("pipe"))
    if not isinstance(found, Pipe):
        raise NotRaisable("a pipe that is none")
    to_vector = found.mask == 1 if found.mask != 3 else (core_of(op) == "vector") != pushing
    return _number(self, found), to_vector


def _pipe_push(self: Raiser, op: PtoOp) -> None:
    number, to_vector = _pipe(self, op, True)
    _send(self, "tpush_to_aiv" if to_vector else "tpush_to_aic", all_cells(self, tile(self, op, "tile")), op.integer("split"), number)


def _pipe_pop(self: Raiser, op: PtoOp) -> None:
    number, to_vector = _pipe(self, op, False)
    target = tile(self, op, "tile")
    if None in target.spec.valid:
        raise NotRaisable(_UNKNOWN)
    row = "tpop_from_aic" if to_vector else "tpop_from_aiv"
    _deliver(self, target, _take(self, row, target.spec, target.dtype, op.integer("split"), number))


def _declare(self: Raiser, op: PtoOp) -> None:
    spec = op.result_tile
    rows, cols = (written if written is not None else size for written, size in zip(spec.valid, spec.shape))
    self.values[op.results[0]] = fresh(self, op, spec, (rows, cols))


def _address(self: Raiser, op: PtoOp) -> None:
    """Where a FIFO lies is nobody's business here."""
    self.values[op.results[0]] = self.build.const(op.integer("base"), INT32)


def _nothing(self: Raiser, op: PtoOp) -> None:
    """Slots are given back by themselves."""


OPS = {
    "reserve_buffer": _address, "import_reserved_buffer": _address, "aic_initialize_pipe": _nothing, "aiv_initialize_pipe": _nothing,
    "tpush_to_aiv": _push, "tpush_to_aic": _push, "tpop_from_aic": _pop, "tpop_from_aiv": _pop, "tfree_from_aic": _nothing, "tfree_from_aiv": _nothing,
    "initialize_l2l_pipe": _open, "initialize_l2g2l_pipe": _open, "tpush": _pipe_push, "tpop": _pipe_pop, "tfree": _nothing, "declare_tile": _declare,
}  # fmt: skip

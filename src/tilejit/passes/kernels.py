"""Turns a list of ops into a kernel function: what they use from outside becomes parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from tilejit import ops
from tilejit.ops.facts import Effect
from tilejit.passes.rewriting import free_values, is_buffer
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import written_by
from tilejit.tile_ir.build import Builder
from tilejit.tile_ir.names import name_of, name_value, unique_name
from tilejit.types.values import ANY, BufferType, TileType, ValueType


@dataclass(frozen=True, slots=True)
class Reload:
    """How a tile that crossed in a buffer comes back: its type, and scalars for the valid extents that only the run knows."""

    type: TileType
    extents: Mapping[int, SSAValue]


@dataclass
class Kernel:
    """A kernel function under construction, and the values to launch it with."""

    name: str
    body: Block = field(default_factory=Block)
    names: list[str] = field(default_factory=list[str])
    arguments: list[SSAValue] = field(default_factory=list[SSAValue])
    inside: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """What a value from outside is called inside."""

    def parameter(self, value: SSAValue, name: str | None = None) -> BlockArgument:
        """A new parameter that stands for `value`."""
        argument = self.body.insert_arg(d.IRType(self._named_extents(d.type_of(value))), len(self.body.args))
        unique = unique_name(name or name_hint(value) or ("x" if is_buffer(value) else "n"), self.names)
        name_value(argument, unique)
        self.names.append(unique)
        self.arguments.append(value)
        self.inside[value] = argument
        return argument

    def _named_extents(self, type: ValueType) -> ValueType:
        """Nameless extents get a symbol of their own: a parameter can say no more."""
        if not isinstance(type, BufferType) or ANY not in type.shape:
            return type
        taken = {dim for argument in self.body.args if isinstance(t := d.type_of(argument), BufferType) for dim in t.shape}
        shape: list[int | str] = []
        for dim in type.shape:
            if dim == ANY:
                dim = next(name for i in range(1000) if (name := f"D{i}") not in taken)
                taken.add(dim)
            shape.append(dim)
        return BufferType(tuple(shape), type.dtype, type.layout)

    def take(self, ops: Sequence[Operation], results: Sequence[tuple[SSAValue, str]], loads: dict[SSAValue, Reload]) -> None:
        """Move `ops` into the kernel. Constants, extents and windows are computed again inside; other free values are parameters.

        Parameters are the tensors, then `results` (buffers to write, with names), then scalars. `loads`: buffers that stand
        for tiles, and how to get each tile back.
        """
        free = self._needed(free_values(ops))
        free += [value for value in self._needed(_extents(free, loads)) if value not in free]
        for value in free:
            if is_buffer(value):
                self.parameter(value)
        for value, name in results:
            self.parameter(value, name)
        for value in free:
            if not is_buffer(value):
                self.parameter(value)
        for value in free:
            if value in loads and _needs_value(value, loads[value].type, ops):
                extents = loads[value].extents
                for extent in extents.values():
                    self._compute(extent)
                valid = {axis: self.inside[extent] for axis, extent in extents.items()}
                self.inside[value] = load_whole(Builder(self.body), self.inside[value], loads[value].type, valid)
        for value in free_values(ops):
            self._compute(value)
        for op in ops:
            op.detach()
            self.body.add_op(op)
        for op in ops:
            for inner in op.walk():
                inner.operands = tuple(self.inside.get(operand, operand) for operand in inner.operands)

    def _needed(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The values that must be passed in so that `values` can be had inside."""
        found: dict[SSAValue, None] = {}
        for value in values:
            if _is_recomputed(value):
                assert isinstance(value.owner, Operation)
                found.update(dict.fromkeys(self._needed(list(value.owner.operands))))
            elif value not in self.inside:
                found[value] = None
        return list(found)

    def _compute(self, value: SSAValue) -> None:
        if value in self.inside:
            return
        owner = value.owner
        assert isinstance(owner, Operation)
        for operand in owner.operands:
            self._compute(operand)
        self.body.add_op(owner.clone(self.inside))

    def finish(self, attrs: dict[str, object]) -> d.FuncOp:
        """The function: directions follow from what the body does with each parameter."""
        Builder(self.body).return_([])
        attributes: dict[str, Attribute] = {
            "sym_name": StringAttr(self.name),
            **d.statics(
                {"kind": "incore", "params": tuple(self.names), "directions": tuple(direction(argument) for argument in self.body.args), "attrs": attrs}
            ),
        }
        return d.FuncOp.build(regions=[Region(self.body)], attributes=attributes)


def _is_recomputed(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, d.ConstOp | d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp) or (isinstance(owner, d.DimOp) and is_buffer(owner.source))


def _extents(values: Sequence[SSAValue], loads: Mapping[SSAValue, Reload]) -> list[SSAValue]:
    return [extent for value in values if value in loads for extent in loads[value].extents.values()]


def _needs_value(value: SSAValue, type: TileType, within: Sequence[Operation]) -> bool:
    """Whether the buffer that stands for a value does not do: tiles, values valid in part, and what means something else on a buffer."""
    if type.level == "tile" or not type.fully_valid:
        return True
    members = {inner for op in within for inner in op.walk()}
    return any(use.operation in members and takes_values_only(use.operation) for use in value.uses)


def takes_values_only(op: Operation) -> bool:
    """Loops and branches carry values and buffers apart; some ops of the table make views of buffers, or change them."""
    if isinstance(op, d.ApplyOp):
        return "on_buffer" in ops.table()[op.op].attrs or ops.facts(op.op).writes is not None
    return isinstance(op, d.ForOp | d.WhileOp | d.YieldOp | d.ConditionOp)


def load_whole(builder: Builder, buffer: SSAValue, type: TileType, extents: Mapping[int, SSAValue]) -> SSAValue:
    """The value that was stored into a buffer of its shape; `extents`: the valid extents that only the run knows."""
    if type.level == "tensor" and type.fully_valid:
        return builder.copy(buffer)
    offsets = [builder.const(0) for _ in type.shape]
    valid = [builder.const(dim) if isinstance(dim, int) else extents[axis] for axis, dim in enumerate(type.valid)]
    return builder.load(buffer, offsets, valid, type)


def direction(buffer: SSAValue) -> str:
    """ "In", "Out" or "InOut": what the uses of a parameter do with it."""
    if not is_buffer(buffer):
        return "In"
    reads, writes = _access(buffer)
    return ("InOut" if reads else "Out") if writes else "In"


def _access(value: SSAValue) -> tuple[bool, bool]:
    reads = writes = False
    for use in value.uses:
        r, w = _access_of_use(use.operation, use.index, value)
        reads, writes = reads or r, writes or w
    return reads, writes


def _access_of_use(op: Operation, index: int, value: SSAValue) -> tuple[bool, bool]:
    if isinstance(op, d.DimOp | d.ValidOp):
        return False, False
    if isinstance(op, d.EffectOp) and ops.facts(op.op).effect is Effect.Ranks:
        return True, True
    if isinstance(op, d.CommOp):
        return False, False
    if isinstance(op, d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp):
        return _access(op.results[0])
    if isinstance(op, d.StoreOp) and value is op.buffer:
        return bool(op.static("atomic")) or value is op.value, True
    if isinstance(op, d.ElementWrite) and value is op.buffer:
        return bool(op.static("atomic")), True
    if isinstance(op, d.EffectOp) and value is written_by(op):
        return sum(arg is value for arg in op.args) > 1, True
    if isinstance(op, d.ApplyOp | d.LoadOp | d.ReadOp | d.StoreOp | d.EffectOp):
        return True, False
    if isinstance(op, d.CallOp | d.LaunchOp):
        way = _callee_direction(op, index)
        return way != "Out", way != "In"
    return True, True  # Carried by a loop or branch: it may be anything there.


def _callee_direction(op: d.CallOp | d.LaunchOp, index: int) -> str:
    module = op.parent_op()
    while module is not None and module.parent_op() is not None:
        module = module.parent_op()
    position = index - (isinstance(op, d.LaunchOp) and op.blocks is not None)
    for function in module.walk() if module is not None else ():
        if isinstance(function, d.FuncOp) and function.symbol == op.callee.data:
            return str(function.directions[position])
    return "InOut"


def name_hint(value: SSAValue) -> str | None:
    """The user's name of a value, as an identifier."""
    hint = name_of(value) if isinstance(value, BlockArgument) else value.owner.hint if isinstance(value.owner, d.TileOp) else None
    hint = re.sub(r"\W", "_", hint) if hint else None
    return hint if hint and hint.isidentifier() and hint != "self" else None

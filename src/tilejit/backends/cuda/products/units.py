"""Scores held in units of log 2, so that their exponentials need no factor of their own.

exp(s - m) is exp2(s * log2(e) - m * log2(e)). Where s is a product by a constant, the factor goes into that constant: one multiplication less for
every cell. What lies between keeps its form in either unit, maxima, sums and differences, carried through loops and branches; equal scores stay
equal, so that a difference of 0 is 0. Values that also have other uses are turned back there.
"""

from __future__ import annotations

import math
from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.backends.cuda.text.values import Scalar, Tile, Value
from tilejit.dtypes import FP32
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.types.values import ShapedType, TileType

LOG2_E = math.log2(math.e)
_LARGEST = 3.4028234663852886e38


@dataclass
class Units:
    """Values that are held times log2(e), and the exponentials that want them so."""

    scaled: set[SSAValue] = field(default_factory=set[SSAValue])
    exponentials: set[Operation] = field(default_factory=set[Operation])

    def held(self, values: Mapping[SSAValue, Value], operand: SSAValue, result: SSAValue | None) -> Value | None:
        """An operand in the unit of what it becomes; None where it is in that unit."""
        scaled = result in self.scaled
        return None if (operand in self.scaled) == scaled else _times(values[operand], LOG2_E if scaled else 1 / LOG2_E)

    @contextmanager
    def bound(self, values: dict[SSAValue, Value], op: Operation) -> Generator[None]:
        """The operands of an op without regions in the units that it wants, while its text is written."""
        saved: dict[SSAValue, Value] = {}
        for operand, scaled in self._wanted(op) if not op.regions else ():
            value = values.get(operand)
            if value is not None and (operand in self.scaled) != scaled:
                saved[operand] = value
                values[operand] = _times(value, LOG2_E if scaled else 1 / LOG2_E)
        yield
        values.update(saved)

    def _wanted(self, op: Operation) -> Iterator[tuple[SSAValue, bool]]:
        """Operands, and whether an op takes them scaled."""
        factor = absorbing(op) if isinstance(op, d.ApplyOp) else None
        takes = op in self.exponentials or any(result in self.scaled for result in op.results)
        for operand in op.operands:
            if factor is not None:
                yield operand, takes and operand is factor
            elif isinstance(d.type_of(operand), ShapedType) or (takes and _is_constant(operand)):
                yield operand, takes


def _times(value: Value, factor: float) -> Value:
    if isinstance(value, Scalar) and isinstance(value.const, float | int):
        known = max(-_LARGEST, min(_LARGEST, value.const * factor)) if math.isfinite(value.const) else value.const
        return replace(value, const=known, text=repr(known))
    assert isinstance(value, Tile)
    return value.named(f"({value.text} * {factor})")


def absorbing(op: d.ApplyOp) -> SSAValue | None:
    """The constant that a product, or a tile of one number, is made with."""
    args = apply_args(op)
    found = args.get("value") if op.op == "full" else args.get("rhs") if op.op == "mul" else None
    return found if isinstance(found, SSAValue) and _is_constant(found) else None


def find(block: Block, exponentials: Iterable[d.ApplyOp]) -> Units:
    """Values that reach `exponentials` of differences, as far back as the factor can be moved; none where no product of cells takes it in."""
    wanted = [op for op in exponentials if all(map(_is_float, op.operands))]
    units = Units(exponentials=set(wanted))
    todo = [operand for op in wanted for operand in op.operands]
    written_here = set(block.walk())
    if any(map(_is_tensor, (value for op in written_here for value in op.results))):  # its groups may run in chunks, apart from the rest
        return Units()
    gained = False
    while todo:
        value = todo.pop()
        before = _origins(value, written_here)
        if value in units.scaled or before is None:
            continue
        if isinstance(value.owner, d.ApplyOp):
            units.scaled.add(value)
            gained |= value.owner.op == "mul" and d.shaped_type(value).shape[-1] != 1
        else:  # handed on by a loop or a branch: all that it may be must be held alike
            if any(_origins(item, written_here) is None for item in before):
                return Units()
            units.scaled.update(_together(value))
        todo += before
    if not gained:
        return Units()
    for op in block.walk():  # exponentials of differences that can be had in the same units
        if isinstance(op, d.ApplyOp) and op.op == "exp" and isinstance(source := op.args[0].owner, d.ApplyOp):
            alone = all(isinstance(use.operation, d.ApplyOp) and use.operation.op == "exp" for use in op.args[0].uses)
            if alone and ops.table()[source.op].facts.scales and all(value in units.scaled for value in source.operands):
                units.scaled.add(op.args[0])
                units.exponentials.add(op)
    return units


def _is_float(value: SSAValue) -> bool:
    type = d.type_of(value)
    return isinstance(type, ShapedType) and type.dtype is FP32 and type.level == "tile"


def _is_tensor(value: SSAValue) -> bool:
    type = d.type_of(value)
    return isinstance(type, TileType) and type.level == "tensor"


def _is_constant(value: SSAValue) -> bool:
    return isinstance(constant_of(value), float)


def _origins(value: SSAValue, written_here: Container[Operation]) -> list[SSAValue] | None:
    """What a value is made of, for it to be held scaled; None where it cannot be, as what was written before."""
    owner = value.owner
    if not _is_float(value):
        return None
    if isinstance(owner, d.ApplyOp):
        if owner not in written_here:
            return None
        if absorbing(owner) is not None:
            return []
        operands = list(owner.operands)[: 1 if ops.table()[owner.op].family == "reduction" else None]
        if not ops.table()[owner.op].facts.scales or not all(_is_float(item) or _is_constant(item) for item in operands):
            return None
        return [item for item in operands if not _is_constant(item)]
    holder, number = _carrier(value)
    if holder is None or holder not in written_here:
        return None
    ends = [last.operands[number] for region in holder.regions if (last := region.block.last_op) is not None]
    return [*ends, *([holder.inits[number]] if isinstance(holder, d.ForOp) else [])]


def _carrier(value: SSAValue) -> tuple[d.ForOp | d.IfOp | d.GroupOp | None, int]:
    """The loop, branch or group that hands a value on, and its position there."""
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        at = list(owner.args).index(value) - 1  # type: ignore[arg-type]
        return (loop, at) if isinstance(loop, d.ForOp) and at >= 0 else (None, 0)
    return (owner, list(owner.results).index(value)) if isinstance(owner, d.ForOp | d.IfOp | d.GroupOp) else (None, 0)  # type: ignore[arg-type]


def _together(value: SSAValue) -> list[SSAValue]:
    """A value, and what must be held as it is: the variable and the result of a loop."""
    loop, number = _carrier(value)
    if isinstance(loop, d.ForOp):
        return [loop.body.block.args[number + 1], loop.results[number]]
    return [value]

"""What loops carry from turn to turn: registers for scalars and places, slots for arrays that are written in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, OpResult, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.storage import Array, Storage, row_major
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.backends.cpu.rules import RULES, Own, recipe
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import reads_own_cell, sources_of, used_after, views_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ArrayType, BufferType, ScalarType, ShapedType, TileType, ValueType


@dataclass(slots=True)
class Carrier:
    """How one carried value passes from turn to turn: the registers it needs, and its slot when it is a tile."""

    type: ValueType
    first: Storage
    slot: Array | None = None
    keeps_strides: bool = False
    """A handle whose strides follow from its extents."""

    def registers(self, f: FunctionWriter, value: Storage) -> list[Value]:
        """The run-time parts of `value`, in the order that `rebuild` expects."""
        if isinstance(value, Value):
            return [value]
        return [f.e.i64(item) if not isinstance(item, Value) else item for item in self._parts(value)]

    def _parts(self, value: Array) -> list[Index]:
        if isinstance(self.type, TileType):
            return [extent for dim, extent in zip(self.type.valid, value.valid, strict=True) if not isinstance(dim, int)]
        if isinstance(self.type, ArrayType):
            return []
        assert isinstance(self.type, BufferType)
        parts: list[Index] = [value.pointer]
        parts += [extent for dim, extent in zip(self.type.shape, value.shape, strict=True) if not isinstance(dim, int)]
        return parts if self.keeps_strides else parts + list(value.strides)

    def rebuild(self, f: FunctionWriter, registers: list[Value], tokens: frozenset[object]) -> Storage:
        """The value whose run-time parts are `registers` (consumed)."""
        if isinstance(self.type, ScalarType):
            return registers.pop(0)
        if isinstance(self.type, TileType):
            assert self.slot is not None
            return self.slot.with_valid([dim if isinstance(dim, int) else registers.pop(0) for dim in self.type.valid])
        if isinstance(self.type, ArrayType):
            assert self.slot is not None
            return self.slot
        pointer = registers.pop(0)
        shape: tuple[Index, ...] = tuple(dim if isinstance(dim, int) else registers.pop(0) for dim in self.type.shape)
        strides = row_major(f.e, shape) if self.keeps_strides else tuple(registers.pop(0) for _ in shape)
        return Array(pointer, self.type.dtype, shape, strides, shape, tokens)


def carriers(f: FunctionWriter, op: d.ForOp | d.WhileOp, inits: Sequence[SSAValue], results: Sequence[OpResult]) -> list[Carrier]:
    """One carrier per carried value; slots are made and filled here."""
    out: list[Carrier] = []
    for init, result in zip(inits, results, strict=True):
        type, first = d.type_of(result), f.get(init)
        carrier = Carrier(type, first)
        if isinstance(type, TileType | ArrayType):
            assert isinstance(first, Array)
            carrier.slot = _slot(f, op, init, result, first)
            copy_box(f.e, carrier.slot, first, first.valid)
        elif isinstance(type, BufferType):
            carrier.keeps_strides = is_dense(f, result)
        out.append(carrier)
    return out


def _slot(f: FunctionWriter, op: d.ForOp | d.WhileOp, init: SSAValue, result: SSAValue, first: Array) -> Array:
    """Memory for a carried tile: where its result is wanted, its initial value's own memory, or new."""
    target = f.targets.pop(result, None)
    if target is not None:
        return target
    others = [use for use in init.uses if use.operation is op]
    last = not used_after(init, op) and not _used_inside(init, op) and len(others) == 1 and _lives_with(init, op)
    if first.owned and last:
        return first
    return f.new_array(first.dtype, first.shape, first.valid, op.span)


def _lives_with(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made anew each time `op` runs: its owner stands in the same block."""
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is op.parent


def _used_inside(value: SSAValue, op: Operation) -> bool:
    """Whether `value` or a view of it is used in the regions of `op`, or a view of it is an operand."""
    for item in views_of(value):
        for use in item.uses:
            user = use.operation
            if user is op and item is not value:
                return True
            while user is not None and user is not op:
                parent = user.parent_op()
                if parent is op:
                    return True
                if parent is None:
                    break
                user = parent
    return False


def aim_at_slots(f: FunctionWriter, yielded: Sequence[SSAValue], carried: Sequence[SSAValue], items: Sequence[Carrier], block: Block) -> None:
    """Let yielded values be computed in the slots, where nothing reads the old content afterwards."""
    aimed: set[SSAValue] = set()
    for value, argument, carrier in zip(yielded, carried, items, strict=True):
        if carrier.slot is None or value in aimed or not isinstance(value, OpResult) or value.owner.parent is not block:
            continue
        others = [other for other in yielded if other is not value and other in views_of(argument)]
        if not others and may_overwrite(value, argument):
            f.targets[value] = carrier.slot
            aimed.add(value)
            start = _accumulated(value)
            if start is not None and may_overwrite(start, argument):
                f.targets[start] = carrier.slot


def _accumulated(value: OpResult) -> OpResult | None:
    """What a product is added to, if it was made for that."""
    op = value.owner
    acc = apply_args(op).get("acc") if isinstance(op, d.ApplyOp) else None
    if not isinstance(acc, OpResult) or acc.owner.parent is not op.parent:
        return None
    return acc if len(list(acc.uses)) == 1 else None


def may_overwrite(value: OpResult, old: SSAValue) -> bool:
    """Whether the op that computes `value` may write it where `old` lies: it reads `old` cell by cell, and nobody does later."""
    op = value.owner
    if sources_of(value) is not None and not isinstance(op, d.GroupOp):
        return False
    if used_after(old, op):
        return False
    inside = [item for item in views_of(old) if any(op.is_ancestor(use.operation) for use in item.uses)]
    if not inside:
        return True
    if inside != [old]:
        return False
    return _reads_in_place(op, value, old)


def _reads_in_place(op: Operation, value: OpResult, old: SSAValue) -> bool:
    same_shape = _shape(old) == _shape(value) and all(reads_own_cell(use.operation, old) for use in old.uses)
    if isinstance(op, d.GroupOp):
        return same_shape
    if isinstance(op, d.ApplyOp):
        rule = RULES.get(op.op)
        if isinstance(rule, Own) and rule.in_place:
            return [use.index for use in old.uses if use.operation is op] == [0]
        found = recipe(op)
        return same_shape and found is not None and found.reduction is None
    if isinstance(op, d.ForOp):
        # The inner loop takes the slot as its own: it starts from what lies there.
        uses = [use for use in old.uses if op.is_ancestor(use.operation)]
        return len(uses) == 1 and uses[0].operation is op and uses[0].index == value.index + 3
    return False


def _shape(value: SSAValue) -> object:
    type = d.type_of(value)
    return type.shape if isinstance(type, ShapedType) else type


def fill_slots(f: FunctionWriter, values: Sequence[Storage], items: Sequence[Carrier]) -> None:
    """Bring the yielded tiles into their slots; values that lie in each other's slots go through copies."""
    moves = [(value, carrier.slot) for value, carrier in zip(values, items, strict=True) if carrier.slot is not None and isinstance(value, Array)]
    moves = [(value, slot) for value, slot in moves if not value.same_place(slot)]
    written: frozenset[object] = frozenset().union(*(slot.tokens for _, slot in moves))
    ready: list[tuple[Array, Array]] = []
    for value, slot in moves:
        if value.tokens & written:
            kept = f.new_array(value.dtype, value.shape, value.valid)
            copy_box(f.e, kept, value, value.valid)
            value = kept
        ready.append((value, slot))
    for value, slot in ready:
        copy_box(f.e, slot, value, value.valid)


def is_dense(f: FunctionWriter, value: SSAValue, assumed: set[SSAValue] | None = None) -> bool:
    """Whether a buffer handle is row-major without gaps, whichever way it came about."""
    seen = assumed if assumed is not None else set[SSAValue]()
    if value in seen:
        return True
    seen.add(value)
    found = f.values.get(value)
    if isinstance(found, Array):
        return found.dense
    if isinstance(value.owner, d.CreateOp | d.ViewOp):
        return True
    if isinstance(value.owner, d.WindowOp | d.StridedOp):
        return False
    sources = sources_of(value)
    return sources is not None and all(is_dense(f, source, seen) for source in sources)

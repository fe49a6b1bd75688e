"""Fusion: neighbouring elementwise ops, expands, reductions, masks and stores over one space become groups that run as one loop nest.

A group runs row by row, so joining it must not change what anybody reads: its members have one iteration space and one valid
region, a member that reads another member reads it at the same row, and memory that the group stores to is read before only at
the same window and never afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, Region, SSAValue

from tilejit import ops
from tilejit.ops.expand import must_cover
from tilejit.ops.facts import Fails, Valid
from tilejit.ops.reduce import order_matters, reduced_axis
from tilejit.passes.rewriting import has_uses, is_pure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases, Roots, is_buffer, never_meet, reads_own_cell, same_window, takes_blocks
from tilejit.tile_ir.build import apply_args, constant_of, operand
from tilejit.tile_ir.program import Program
from tilejit.types.values import Dim, ScalarType, Shape, ShapedType, broadcast

FAMILIES = ("elementwise", "expand", "reduction", "mask")
"""Families whose ops are computed cell by cell or fold an axis."""
_PASSED = (d.ConstOp, d.DimOp, d.ValidOp, d.WindowOp, d.ViewOp, d.StridedOp, d.CommOp, d.PeerOp, d.LoadOp, d.ReadOp, d.CheckOp, d.CreateOp)
"""Ops that may stand between members and stay in front of the group, unless they look at something it makes."""

Key = tuple[object, ...]


def fuse(program: Program, in_order: bool = False) -> None:
    """Group the ops of every block; `in_order`: sums and products of rows stay alone, a nest would take their elements in another order."""
    aliases = Aliases(program)
    for function in program.functions.values():
        for op in list(function.walk()):
            for region in op.regions:
                for block in region.blocks:
                    _Fuser(aliases, block, in_order).run()


@dataclass
class _Open:
    """A group under construction."""

    ops: list[d.ApplyOp | d.StoreOp] = field(default_factory=list[d.ApplyOp | d.StoreOp])
    values: set[SSAValue] = field(default_factory=set[SSAValue])
    space: Shape = ()
    key: Key = ()
    stored: Roots = frozenset()


class _Fuser:
    """Fuses one block."""

    def __init__(self, aliases: Aliases, block: Block, in_order: bool) -> None:
        self.aliases = aliases
        self.block = block
        self.in_order = in_order
        self.open = _Open()

    def run(self) -> None:
        if isinstance(self.block.parent_op(), d.GroupOp):
            return
        for op in list(self.block.ops):
            if isinstance(op, d.ApplyOp) and _is_member(op) and not (self.in_order and _order_matters(op)):
                self._member(op, *_apply_space(op))
            elif isinstance(op, d.StoreOp) and not op.static("atomic"):
                self._member(op, d.shaped_type(op.value).shape, valid_key(op.value))
            elif not self._passes(op):
                self._close()
        self._close()

    # members ------------------------------------------------------------------------------------------------------------

    def _member(self, op: d.ApplyOp | d.StoreOp, space: Shape, key: Key) -> None:
        if not self._joins(op, space, key):
            self._close()
        group = self.open
        if not group.ops or space[-1] != 1:
            group.space, group.key = space, key
        group.ops.append(op)
        if isinstance(op, d.ApplyOp):
            group.values.add(op.results[0])
        else:
            group.stored |= self.aliases.roots(op.buffer)

    def _joins(self, op: d.ApplyOp | d.StoreOp, space: Shape, key: Key) -> bool:
        """Whether an op may join the open group."""
        group = self.open
        if not group.ops:
            return True
        used = [value for value in op.operands if value in group.values]
        if takes_blocks(op) and op.operands[1] in used:
            return False
        if any(_is_column(value) for value in used) or any(self._stretched(value, space) for value in used):
            return False
        if isinstance(op, d.StoreOp):
            return (op.value in group.values or self._copies(op)) and self._fits(space, key, used) and self._store_fits(op)
        if self._reads(op) & group.stored:
            return False
        return self._fits(space, key, used, folds=ops.table()[op.op].family == "reduction")

    def _fits(self, space: Shape, key: Key, used: Sequence[SSAValue], folds: bool = False) -> bool:
        group = self.open
        if space == group.space:
            # Independent work of the same shape shares the loop; what is per row only joins what it belongs to.
            return key == group.key and (space[-1] != 1 or bool(used) or not self._has_reduction())
        if len(space) != len(group.space) or space[:-1] != group.space[:-1] or key[:-1] != group.key[:-1]:
            return False
        # Rows of single elements belong to the wide rows they come from or go to; a fold of them is a sweep of its own.
        if folds if space[-1] == 1 else self._has_reduction():
            return False
        return bool(used) and (space[-1] == 1 or group.space[-1] == 1)

    def _has_reduction(self) -> bool:
        return any(isinstance(op, d.ApplyOp) and ops.table()[op.op].family == "reduction" for op in self.open.ops)

    def _stretched(self, value: SSAValue, space: Shape) -> bool:
        """Whether a member is read at another row than its own."""
        shape = _logical_shape(value)
        if _is_mask(value):
            return shape != space
        return len(shape) != len(space) or shape[:-1] != space[:-1]

    def _reads(self, op: d.ApplyOp) -> Roots:
        """Memory that a member reads from outside the group."""
        out: Roots = frozenset()
        for value in op.operands:
            if value not in self.open.values and isinstance(d.type_of(value), ShapedType):
                out |= self.aliases.roots(value)
        return out

    def _copies(self, store: d.StoreOp) -> bool:
        """Whether a store belongs to a group that only moves values to where others of it go: parts of complex numbers."""
        group, roots = self.open, self.aliases.roots(store.buffer)
        return all(isinstance(op, d.StoreOp) for op in group.ops) and bool(roots & group.stored) and not self.aliases.roots(store.value) & group.stored

    def _store_fits(self, store: d.StoreOp) -> bool:
        """A store must not change what the group reads elsewhere, nor meet another store."""
        roots = self.aliases.roots(store.buffer)
        for op in self.open.ops:
            if isinstance(op, d.StoreOp) and self.aliases.roots(op.buffer) & roots and not never_meet(op, store):
                return False
            for value in op.operands:
                written = isinstance(op, d.StoreOp) and value is op.buffer
                outside = not written and value not in self.open.values and isinstance(d.type_of(value), ShapedType)
                if outside and self.aliases.roots(value) & roots and not (_same_cells(value, store) and reads_own_cell(op, value)):
                    return False
        return True

    # what stands between ------------------------------------------------------------------------------------------------

    def _passes(self, op: Operation) -> bool:
        """Whether an op may stay in front of a group that began before it."""
        group = self.open
        if not group.ops:
            return True
        if any(value in group.values for value in op.operands):
            return False
        if isinstance(op, d.LoadOp | d.ReadOp):
            source = op.buffer if isinstance(op, d.LoadOp) else op.source
            return not self.aliases.roots(source) & group.stored
        if isinstance(op, d.ApplyOp) and ops.facts(op.op).view_of is not None and is_pure(op):
            return not self._reads(op) & group.stored  # Windows of tiles: neighbours of a cell are read in one nest.
        return isinstance(op, _PASSED) or (isinstance(op, d.ApplyOp) and isinstance(d.type_of(op.results[0]), ScalarType) and _is_arithmetic(op))

    # closing ------------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        group, self.open = self.open, _Open()
        if len(group.ops) < 2:
            return
        last = group.ops[-1]
        outputs = [value for value in (op.results[0] for op in group.ops if isinstance(op, d.ApplyOp)) if _escapes(value, group.ops)]
        body = Block()
        made = d.GroupOp.build(result_types=[[value.type for value in outputs]], regions=[Region(body)])
        if last.span is not None:
            made.attributes["span"] = d.SpanAttr(last.span)
        self.block.insert_op_after(made, last)
        inside = set[Operation](group.ops)
        for value, result in zip(outputs, made.results, strict=True):
            for use in list(value.uses):
                if use.operation not in inside:
                    use.operation.operands[use.index] = result
        for op in group.ops:
            op.detach()
            body.add_op(op)
        body.add_op(d.YieldOp.build(operands=[outputs]))


def _escapes(value: SSAValue, members: Sequence[Operation]) -> bool:
    """Whether a result is needed outside; one that nobody uses stands for the failure of its op and is computed as if it were."""
    return not has_uses(value) or any(use.operation not in members for use in value.uses)


def _is_member(op: d.ApplyOp) -> bool:
    row = ops.table()[op.op]
    return row.family in FAMILIES and len(op.results) == 1 and isinstance(d.type_of(op.results[0]), ShapedType)


def _order_matters(op: d.ApplyOp) -> bool:
    row = ops.table()[op.op]
    return row.family == "reduction" and order_matters(row, d.shaped_type(op.args[0]).dtype)


def _is_arithmetic(op: d.ApplyOp) -> bool:
    # A scalar division may fail; failing earlier than a store that comes before it would be seen.
    row = ops.table()[op.op]
    return row.family == "elementwise" and row.facts.fails is Fails.Never


def _is_column(value: SSAValue) -> bool:
    """Whether a member is complete only after the whole nest: a reduction over rows."""
    op = value.owner
    if not isinstance(op, d.ApplyOp) or ops.table()[op.op].family != "reduction":
        return False
    return _axis(op) != d.shaped_type(op.args[0]).rank - 1


def _axis(op: d.ApplyOp) -> int:
    source = d.shaped_type(op.args[0])
    direction = ops.table()[op.op].attrs["axis"]
    return reduced_axis(direction, source.level, source.rank)


def _same_cells(value: SSAValue, store: d.StoreOp) -> bool:
    """Whether a value read by the group is exactly what the store overwrites, cell by cell."""
    owner = value.owner
    if isinstance(owner, d.LoadOp):
        return same_window(owner, store)
    if is_buffer(value):
        whole = all(constant_of(offset) == 0 for offset in store.offsets)
        return value is store.buffer and whole and d.shaped_type(value).shape == d.shaped_type(store.value).shape and "?" not in d.shaped_type(value).shape
    return False


# spaces and valid regions -----------------------------------------------------------------------------------------------


def _apply_space(op: d.ApplyOp) -> tuple[Shape, Key]:
    """The space that an op runs over, and what its valid region there is."""
    family = ops.table()[op.op].family
    if family == "reduction":
        return d.shaped_type(op.args[0]).shape, valid_key(op.args[0])
    return _logical_shape(op.results[0]), valid_key(op.results[0])


def _is_mask(value: SSAValue) -> bool:
    return isinstance(value.owner, d.ApplyOp) and value.owner.op == "cmp_mask"


def _logical_shape(value: SSAValue) -> Shape:
    """The shape of a value; of a mask, that of the cells it speaks about."""
    op = value.owner
    if _is_mask(value) and isinstance(op, d.ApplyOp):
        return broadcast([d.shaped_type(arg).shape for arg in op.args if isinstance(d.type_of(arg), ShapedType)])
    return d.shaped_type(value).shape


def valid_key(value: SSAValue) -> Key:
    """Per dim something that is equal for two values only if their valid extents are."""
    shape, known = _logical_shape(value), Known()
    return tuple(_extent_key(value, axis, len(shape), known) for axis in range(len(shape)))


Known = dict[tuple[SSAValue, int, int], object]
"""Keys that were found on the way: values that are used twice would be followed twice at every step."""


def _extent_key(value: SSAValue, axis: int, rank: int, known: Known) -> object:
    place = (value, axis, rank)
    if place not in known:
        known[place] = _followed(value, axis, rank, known)
    return known[place]


def _followed(value: SSAValue, axis: int, rank: int, known: Known) -> object:
    type, owner = d.shaped_type(value), value.owner
    dim = "?" if _is_mask(value) else type.valid[axis]
    if dim != "?":
        return dim
    if isinstance(owner, d.LoadOp):
        requested = owner.valid[axis]
        return (
            ("at most", constant_of(requested) if constant_of(requested) is not None else requested, type.shape[axis])
            if not owner.static("clamp")
            else (value, axis)
        )
    if isinstance(owner, d.ApplyOp):
        asked = apply_args(owner).get("valid_shape") if owner.op == "slice" and not apply_args(owner)["drop_dims"] else None
        if isinstance(asked, list) and d.shaped_type(owner.args[0]).valid == d.shaped_type(owner.args[0]).shape and not apply_args(owner)["clamp"]:
            return "at most", constant_of(asked[axis]) if constant_of(asked[axis]) is not None else asked[axis], type.shape[axis]
        match ops.facts(owner.op).valid:
            case Valid.Folded:
                return _extent_key(owner.args[0], axis, rank, known)
            case Valid.Spread if must_cover(owner.op, type.level):
                return _extent_key(operand(owner, "lhs"), axis, rank, known)
            case Valid.Common | Valid.Spread:
                return _common_key(owner, axis, rank, _logical_shape(value)[axis], known)
            case Valid.Own:
                pass
    return (value, axis)


def _common_key(op: d.ApplyOp, axis: int, rank: int, extent: Dim, known: Known) -> object:
    """The key of an intersection: that of the one operand that is not valid everywhere, else the op's own."""
    found: set[object] = set()
    for arg in op.args:
        type = d.type_of(arg)
        if not isinstance(type, ShapedType):
            continue
        own = axis - (rank - type.rank)
        if own < 0:
            continue
        stretched = type.shape[own] == 1 and extent != 1
        if type.valid[own] == type.shape[own]:
            if type.shape[own] == "?":
                found.add(_extent_key(arg, own, type.rank, known))
            continue
        found.add((arg, own) if stretched else _extent_key(arg, own, type.rank, known))
    if not found:
        return extent if extent != "?" else (op, axis)
    return next(iter(found)) if len(found) == 1 else (op, axis)

"""The values of one block of cells while a nest is written: loaded, computed or kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.backends.cpu.lanes.masks import load_mask
from tilejit.backends.cpu.lanes.patterns import Near, load_beside, load_pattern, store_pattern
from tilejit.backends.cpu.lanes.registers import load_lanes
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.llvm.vector import shuffle, splat
from tilejit.backends.cpu.nests.plan import Kind
from tilejit.dtypes import DType
from tilejit.ops.expand import block_columns
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType

if TYPE_CHECKING:
    from tilejit.backends.cpu.nests.group import GroupWriter


@dataclass(slots=True)
class Place:
    """An array that the nest reads or writes, as position in the list of walks."""

    walk: int
    dtype: DType
    is_mask: bool = False
    is_block: bool = False


class Cells:
    """Values of the group at a stretch of columns of the current row, each computed once."""

    def __init__(self, group: GroupWriter, stage: int, lanes: int, column: Index) -> None:
        self.group = group
        self.stage = stage
        self.lanes = lanes
        self.column = column
        self.known: dict[SSAValue, Value] = {}
        self.loaded: dict[int, dict[int, Value]] = {}

    def get(self, value: SSAValue) -> Value:
        """Lanes of a value in register form; what it is computed from comes first, without recursion, as chains may be long."""
        pending = [value]
        while pending:
            current = pending[-1]
            missing = [] if current in self.known else [operand for operand in self._operands(current) if operand not in self.known]
            pending += reversed(missing)
            if not missing:
                if current not in self.known:
                    self.known[current] = self._find(current)
                pending.pop()
        return self.known[value]

    def _operands(self, value: SSAValue) -> list[SSAValue]:
        """The lanes that a value is computed from here; none when it is read."""
        member = self.group.plan.members.get(value)
        if member is None or member.kind is Kind.ROW or (value in self.group.plan.kept and member.stage < self.stage):
            return []
        return [operand for i, operand in enumerate(member.recipe.inputs) if i not in member.recipe.blocks]

    def _find(self, value: SSAValue) -> Value:
        group, e = self.group, self.group.e
        if isinstance(d.type_of(value), ScalarType):
            return splat(e, group.f.scalar(value), self.lanes)
        member = group.plan.members.get(value)
        if member is None:
            return self._load(value)
        if member.kind is Kind.ROW:
            return splat(e, group.row_values[value], self.lanes)
        if value in group.plan.kept and member.stage < self.stage:
            return self.load(group.places["kept", value])
        inputs = enumerate(member.recipe.inputs)
        return member.recipe.code(e, [self._block(operand) if i in member.recipe.blocks else self.get(operand) for i, operand in inputs], self.lanes)

    def _block(self, value: SSAValue) -> Value:
        """Lanes of a block that repeats along the row."""
        group, e = self.group, self.group.e
        place = group.places["block", value]
        row, size = group.pointers[place.walk], block_columns(place.dtype)
        if self.lanes >= size:
            return shuffle(e, load_lanes(e, place.dtype, row, size), None, [lane % size for lane in range(self.lanes)])
        at: Index = self.column % size if isinstance(self.column, int) else e.inst("i64", f"and {self.column}, {size - 1}")
        return load_lanes(e, place.dtype, e.offset(row, at, place.dtype.llvm), self.lanes)

    def _load(self, value: SSAValue) -> Value:
        place = self.group.places[value]
        if place.is_mask:
            return load_mask(self.group.e, self.group.pointers[place.walk], self.lanes, self.column)
        if value in self.group.row_values:
            return splat(self.group.e, self.group.row_values[value], self.lanes)
        return self.load(place)

    def load(self, place: Place) -> Value:
        e, box, pattern = self.group.e, self.group.box, self.group.box.pattern(place.walk)
        width = host().vector_bits // (8 * place.dtype.get_byte())
        beside = box.beside(place.walk, width) if pattern.is_straight and host().shifts_registers and self.lanes >= 2 * width else None
        if beside is not None:
            middle, shift = beside
            return load_beside(e, place.dtype, self._address(middle), shift, self.lanes, width, self.loaded.setdefault(middle, {}))
        near = box.near(place.walk)
        first, shift = near[0][1], next(distance for distance, walk in near if walk == place.walk)
        neighbours = Near(self._address(first), shift, near[-1][0], self.loaded.setdefault(first, {})) if len(near) > 1 else None
        return load_pattern(e, place.dtype, self._address(place.walk), pattern, self.lanes, neighbours)

    def store(self, place: Place, value: Value) -> None:
        store_pattern(self.group.e, place.dtype, self._address(place.walk), self.group.box.pattern(place.walk), value, self.lanes)

    def _address(self, walk: int) -> Value:
        return self.group.address(walk, self.column)

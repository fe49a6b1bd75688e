"""Writes the loop nest of a group: rows one by one, sweeps over the columns in vectors, results and stores straight to memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.masks import load_mask, store_mask
from tilejit.backends.cpu.lanes.patterns import Pattern, fill_each_other, load_pattern, store_pattern, store_together
from tilejit.backends.cpu.lanes.registers import load_lanes, round_to
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.llvm.vector import extract
from tilejit.backends.cpu.memory.guards import check_box
from tilejit.backends.cpu.memory.storage import Array, aligned, sub_box
from tilejit.backends.cpu.nests import fold, stream
from tilejit.backends.cpu.nests.cells import Cells, Place
from tilejit.backends.cpu.nests.cut import cut
from tilejit.backends.cpu.nests.extents import space_extents
from tilejit.backends.cpu.nests.moves import into_themselves, moves_within
from tilejit.backends.cpu.nests.nest import Box, Walk, copy_box, sweep, sweep_again
from tilejit.backends.cpu.nests.plan import Kind, Write, make_plan, scheduled
from tilejit.backends.cpu.nests.recipes import Recipe, dtype_of
from tilejit.backends.cpu.rules import recipe
from tilejit.backends.cpu.teams import nests as team_nest
from tilejit.backends.cpu.teams.atomic import locked, locks_of
from tilejit.dtypes import BOOL, DType
from tilejit.passes.in_place import may_fill
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, Shape, ShapedType

_LONG_ROW = 8
"""Vectors of a row in which it pays to start where the output is aligned."""


def write_group(f: FunctionWriter, ops: Sequence[d.ApplyOp | d.StoreOp], outputs: Sequence[SSAValue]) -> None:
    """Code for ops that form a nest, or some; `outputs` are the results that are used elsewhere."""
    replaced = {store.value: f.array(store.value) for store in ops if isinstance(store, d.StoreOp) and moves_within(f, store)}
    for value, source in replaced.items():
        copy = f.new_array(source.dtype, source.shape, source.valid, ops[0].span)
        copy_box(f.e, copy, source, source.valid)
        f.values[value] = copy
    written = [op for op in ops if isinstance(op, d.StoreOp) and op.buffer in replaced]
    with into_themselves(f, written, replaced):
        for part, crossing in cut(f, ops, outputs):
            GroupWriter(f, part, crossing).run()
    f.values.update(replaced)


class GroupWriter:
    """State of one nest while it is written."""

    def __init__(self, f: FunctionWriter, ops: Sequence[d.ApplyOp | d.StoreOp], outputs: Sequence[SSAValue]) -> None:
        self.f = f
        self.e = f.e
        self.span = next((op.span for op in ops if op.span), None)
        recipes = [found for op in ops if isinstance(op, d.ApplyOp) and (found := recipe(op))]
        self.by_result = {item.result: item for item in recipes}
        stores = [op for op in ops if isinstance(op, d.StoreOp)]
        self.extents_of: dict[SSAValue, tuple[tuple[Index, ...], tuple[Index, ...]]] = {}
        for item in recipes:
            self.extents_of[item.result] = self._extents(item)
            self._check_covered(item)
        self.store_boxes = {store: self._store_box(store) for store in stores}
        self.output_arrays = {value: self._output(value) for value in outputs}
        self.read_tokens: set[object] = set()
        self.schedule = scheduled(self.e, recipes, stores)
        self.plan = make_plan(recipes, stores, outputs, self._delayed(recipes, stores), self.schedule.recompute)
        self.places: dict[object, Place] = {}
        self.box = Box([], [])
        self.row_values: dict[SSAValue, Value] = {}
        self.pointers: list[Value] = []
        self.streamed: Write | None = None
        self.locks = locks_of(f) if any(store.static("atomic") for store in stores) else None

    # extents --------------------------------------------------------------------------------------------------------------

    def _shape_valid(self, value: SSAValue, is_mask: bool = False) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """Run-time shape and valid extents of an operand; those of a mask count columns, not bytes."""
        if value in self.extents_of:
            return self.extents_of[value]
        array = self.f.array(value)
        if not is_mask:
            return array.shape, array.valid
        bits = array.dtype.bits
        return (*array.shape[:-1], self.e.mul(array.shape[-1], bits)), (*array.valid[:-1], self.e.mul(array.valid[-1], bits))

    def _extents(self, item: Recipe) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """Shape and valid extents of a member's result (of a reduction: with the axis folded)."""
        shape, valid = space_extents(self.f, item, self._shape_valid)
        if item.reduction is not None:
            shape[item.reduction.axis] = 1
            valid[item.reduction.axis] = 1
        return tuple(shape), tuple(valid)

    def _check_covered(self, item: Recipe) -> None:
        """A vector must be valid wherever it is spread."""
        e = self.e
        for value in item.covered:
            shape, there = self._shape_valid(value)
            around = self.extents_of[item.result][1]
            lead = len(around) - len(there)
            for axis, needed in enumerate(around[lead:]):
                if item.blocks and axis == len(there) - 1:
                    continue
                if shape[axis] == 1:
                    needed = e.min(needed, 1)
                if needed == there[axis] or there[axis] == shape[axis]:
                    continue
                text = f"{item.op.op}: the vector is valid for {{0}} of {{1}} in dim {lead + axis}"
                self.f.fail_if(e.icmp("slt", there[axis], needed), Failure("shape", text, item.op.span), [there[axis], needed])

    def _space_valid(self) -> list[Index]:
        for item in self.by_result.values():
            if item.space == self.plan.space:
                return space_extents(self.f, item, self._shape_valid)[1]
        value = self.plan.writes[0].value
        return list(self._shape_valid(value)[1])

    # memory ---------------------------------------------------------------------------------------------------------------

    def _store_box(self, store: d.StoreOp) -> Array:
        buffer = self.f.array(store.buffer)
        _, valid = self._shape_valid(store.value)
        sizes: list[Index] = [1] * (buffer.rank - len(valid)) + list(valid)
        offsets = self.f.indices(store.offsets)
        check_box(self.f, store, buffer, offsets, sizes)
        box = sub_box(self.e, buffer, offsets, sizes)
        return sub_box(self.e, box, [0] * box.rank, sizes, drop=range(buffer.rank - len(valid)))

    def _output(self, value: SSAValue) -> Array:
        shape, valid = self.extents_of[value]
        type = d.shaped_type(value)
        if self.by_result[value].is_mask:
            shape = (*shape[:-1], _static(type.shape)[-1])
            valid = (*valid[:-1], _bytes(self.f, valid[-1]))
        return self.f.result_array(value, shape, valid, self.span)

    def _delayed(self, recipes: Sequence[Recipe], stores: Sequence[d.StoreOp]) -> list[SSAValue | d.StoreOp]:
        """Outputs and stores whose memory the group also reads."""
        read = self.read_tokens
        for item in recipes:
            for value in item.inputs:
                if value not in self.by_result and isinstance(d.type_of(value), ShapedType):
                    read |= self.f.array(value).tokens
        out: list[SSAValue | d.StoreOp] = [store for store, box in self.store_boxes.items() if box.tokens & read]
        out += [value for value, array in self.output_arrays.items() if array.tokens & read]
        return out

    # the nest -------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        with self.f.scope():
            extents = self._space_valid()
            self.box.extents = list(extents)
            self._add_places()
            folds = [fold.ColumnFold(self, member) for member in self.plan.column_reductions]
            fold.check_not_empty(self, extents)
            if not any(item.reduction.positions for item in folds):
                self.box.merge(self.e, keep_last=self.plan.has_rows)
            self.streamed = stream.choose(self)
            if not team_nest.share(self, folds):
                self.nest(folds)
            for item in folds:
                item.finish()
        for value, array in self.output_arrays.items():
            self.f.values[value] = array

    def nest(self, folds: Sequence[fold.ColumnFold]) -> None:
        """The loops over the box."""
        plan, e = self.plan, self.e
        self._add_row_buffers()
        if not plan.has_rows and not any(write.store is not None and write.store.static("atomic") for write in plan.writes):
            self.box.fold(e, self.schedule.lanes)
            self.streamed = None if self.box.short > 1 else self.streamed
        with self.box.rows(e) as (indices, pointers):
            self.pointers = pointers
            self.row_values = {}
            for stage in range(plan.stages):
                self._row_values(stage)
                self._sweep(stage, folds, indices)
            self._row_values(plan.stages)
            self._write_rows()
        if self.streamed is not None:
            stream.finish(e)

    def _add_places(self) -> None:
        """Everything that moves with the loops but the row buffers: inputs, outputs, stores."""
        for item in self.by_result.values():
            for position, value in enumerate(item.inputs):
                if value not in self.by_result and isinstance(d.type_of(value), ShapedType):
                    key = ("block", value) if position in item.blocks else value
                    self.add_place(key, self.f.array(value), d.shaped_type(value).shape, position in item.masks)
                    self.places[key].is_block = position in item.blocks
        for write in self.plan.writes:
            if write.value not in self.by_result:
                self.add_place(write.value, self.f.array(write.value), d.shaped_type(write.value).shape)
            array = self.store_boxes[write.store] if write.store else self.output_arrays[write.value]
            key = self.target(write)
            is_mask = write.store is None and self.by_result[write.value].is_mask
            self.add_place(key, array, d.shaped_type(write.value).shape, is_mask)

    def _add_row_buffers(self) -> None:
        for value in self.plan.kept:
            dtype = self._lane_dtype(value)
            buffer = self.f.new_array(dtype, [self.box.extents[-1]], span=self.span)
            self.places["kept", value] = Place(len(self.box.walks), dtype)
            along_row: list[Index] = [0] * len(self.box.extents)
            along_row[-1] = 1
            self.box.walks.append(Walk(buffer.pointer, dtype, along_row))

    def add_place(self, key: object, array: Array, shape: Shape, is_mask: bool = False) -> None:
        """Let an array of type-level `shape` move with the nest; dims of extent 1 are broadcast."""
        if key in self.places:
            return
        rank = len(self.box.extents)
        full = aligned(array, rank)
        dims = (1,) * (rank - len(shape)) + shape
        strides: list[Index] = [0 if dim == 1 else stride for dim, stride in zip(dims, full.strides, strict=True)]
        if is_mask:
            strides[-1] = 1
        self.places[key] = Place(len(self.box.walks), array.dtype, is_mask)
        self.box.walks.append(Walk(array.pointer, array.dtype, strides, origin=self.e.origin(array.pointer)))

    def _lane_dtype(self, value: SSAValue) -> DType:
        return BOOL if value in self.by_result and self.by_result[value].is_mask else dtype_of(value)

    # rows -----------------------------------------------------------------------------------------------------------------

    def _row_values(self, stage: int) -> None:
        """Compute the row values that exist from `stage` on."""
        for value, member in self.plan.members.items():
            if member.kind is Kind.ROW and member.recipe.reduction is None and member.stage <= stage and value not in self.row_values:
                lanes = [self._row_operand(operand) for operand in member.recipe.inputs]
                self.row_values[value] = member.recipe.code(self.e, lanes, 1)

    def _row_operand(self, value: SSAValue) -> Value:
        if isinstance(d.type_of(value), ScalarType):
            return self.f.scalar(value)
        if value not in self.row_values:
            place = self.places[value]
            pointer = self.pointers[place.walk]
            self.row_values[value] = load_mask(self.e, pointer, 1, 0) if place.is_mask else load_lanes(self.e, place.dtype, pointer, 1)
        return self.row_values[value]

    def _write_rows(self) -> None:
        for write in self.plan.writes:
            if self.is_row_write(write):
                self._put(write, self._row_operand(write.value), 1, 0)

    def is_row_write(self, write: Write) -> bool:
        return self.plan.kind(write.value) is Kind.ROW

    # columns --------------------------------------------------------------------------------------------------------------

    def _sweep(self, stage: int, folds: Sequence[fold.ColumnFold], indices: Sequence[Index]) -> None:
        reductions = [member for member in self.plan.row_reductions if member.stage == stage + 1]
        writes = [write for write in self.plan.writes if write.stage == stage and not self.is_row_write(write)]
        kept = [value for value, filled in self.plan.kept.items() if filled == stage]
        columns = [item for item in folds if item.member.stage == stage]
        if not (reductions or writes or kept or columns):
            return
        self.hoist()

        def body(lanes: int, column: Index, accumulators: list[Value]) -> list[Value]:
            cells = Cells(self, stage, lanes, column)
            stream.prefetch_next_row(self, stage, lanes, column)
            # Everything is read before anything is written: an output may be one of the inputs.
            values = [(write, cells.get(write.value)) for write in writes]
            rows = [(value, cells.get(value)) for value in kept]
            out = fold.step(self.e, reductions, accumulators, cells, lanes, column)
            for item in columns:
                item.step(cells, lanes, column, indices)
            for value, register in rows:
                cells.store(self.places["kept", value], register)
            self._put_all(values, lanes, column)
            return out

        start, narrow = fold.starter(reductions), fold.narrower(self.e, reductions)
        count = self.box.extents[-1]
        if isinstance(count, int) and self._may_repeat(writes):
            long = count >= _LONG_ROW * self.schedule.lanes
            first = stream.columns_to_alignment(self, writes[0], stream.LINE) if long else 0
            if sweep_again(self.e, count, self.schedule.lanes, first, lambda lanes, column: body(lanes, column, [])):
                return
        skip = self._columns_to_skip(writes)
        if skip != 0:
            with self.e.loop(0, skip, name="align") as loop:
                body(1, loop.iv, [])
        results = sweep(self.e, count, (self.schedule.lanes, self.schedule.middle), body, start, narrow, skip, self.box.short)
        for member, value in zip(reductions, fold.finished(self.e, reductions, results), strict=True):
            self.row_values[member.recipe.result] = value

    def _columns_to_skip(self, writes: Sequence[Write]) -> Index:
        """Columns in front of those at which vectors start: as stores past the caches must be aligned, and as none lies across two lines in one long row."""
        if any(write is self.streamed for write in writes):
            return stream.columns_to_alignment(self, self.streamed)
        count = self.box.extents[-1]
        if len(self.box.extents) > 1 or self.plan.has_rows or self.box.short > 1 or (isinstance(count, int) and count < _LONG_ROW * self.schedule.lanes):
            return 0
        straight = [write for write in writes if self._is_plain(write) and self.box.walks[self.places[self.target(write)].walk].strides[-1] == 1]
        return stream.columns_to_alignment(self, straight[0], stream.LINE) if straight else 0

    def _may_repeat(self, writes: Sequence[Write]) -> bool:
        """Whether cells may be computed twice: rows mean nothing, and what is written is not read, not even where a caller gives an input as output."""
        if self.plan.has_rows or self.box.short > 1 or not writes or any(write.store is not None and may_fill(write.store) for write in writes):
            return False
        arrays = [self.store_boxes[write.store] if write.store else self.output_arrays[write.value] for write in writes]
        return all(map(self._is_plain, writes)) and not any(array.tokens & self.read_tokens for array in arrays)

    def target(self, write: Write) -> object:
        """The key of the place that a write goes to."""
        return write.store or ("out", write.value)

    def hoist(self) -> None:
        """Load what is constant along a row before the sweep over it."""
        for item in self.by_result.values():
            for value in item.inputs:
                place = self.places.get(value)
                if place is not None and not place.is_mask and not place.is_block and self.box.pattern(place.walk).is_one_cell:
                    self._row_operand(value)

    def _put_all(self, values: Sequence[tuple[Write, Value]], lanes: int, column: Index) -> None:
        """Write lanes; those that fill each other's gaps in memory are stored together."""
        left = {self.places[self.target(write)].walk: (write, value) for write, value in values if self._is_plain(write)}
        for write, value in values:
            walk = self.places[self.target(write)].walk
            near = [item for item in self.box.near(walk) if item[1] in left] if walk in left and lanes > 1 else []
            pattern = self.box.pattern(walk)
            if len(near) > 1 and fill_each_other(pattern, [distance - near[0][0] for distance, _ in near], lanes):
                parts: list[tuple[int, Value]] = []
                dtype = self.box.walks[walk].dtype
                for distance, other in near:
                    written, part = left.pop(other)
                    parts.append((distance - near[0][0], convert_lane(self.e, part, dtype_of(written.value), dtype, lanes)))
                store_together(self.e, dtype, self.address(near[0][1], column), pattern, parts, lanes)
            elif not self._is_plain(write) or left.pop(walk, None) is not None:
                self._put(write, value, lanes, column)

    def _is_plain(self, write: Write) -> bool:
        place = self.places[self.target(write)]
        return not place.is_mask and write is not self.streamed and not (write.store is not None and write.store.static("atomic"))

    def _put(self, write: Write, value: Value, lanes: int, column: Index) -> None:
        """Write lanes to an output or store them, converted to the element type of the buffer."""
        e = self.e
        place = self.places[self.target(write)]
        if place.is_mask:
            store_mask(e, self.pointers[place.walk], value, lanes, column)
            return
        pointer = self.address(place.walk, column)
        value = convert_lane(e, value, dtype_of(write.value), place.dtype, lanes)
        pattern = self.box.pattern(place.walk)
        if write.store is not None and write.store.static("atomic"):
            self._add(place.dtype, pointer, pattern, value, lanes)
        elif write is self.streamed:
            stream.put(e, place.dtype, pointer, value, lanes)
        else:
            store_pattern(e, place.dtype, pointer, pattern, value, lanes)

    def address(self, walk: int, column: Index) -> Value:
        """Where the lanes from a column on begin."""
        return self.e.offset(self.pointers[walk], self.box.pattern(walk).at(self.e, column), self.box.walks[walk].dtype.llvm)

    def _add(self, dtype: DType, pointer: Value, pattern: Pattern, value: Value, lanes: int) -> None:
        """Add lanes to what is in memory; one by one under locks, unless they lie side by side."""
        if self.locks is not None and not pattern.is_straight and lanes > 1:
            for lane in range(lanes):
                self._add(dtype, self.e.offset(pointer, pattern.lane(self.e, lane), dtype.llvm), Pattern(1), extract(self.e, value, lane), 1)
            return
        e = self.e
        with nullcontext() if self.locks is None else locked(e, self.locks, pointer, lanes * dtype.get_byte()):
            old = load_pattern(e, dtype, pointer, pattern, lanes)
            total = e.inst(value.type, f"{'fadd' if dtype.is_float else 'add'} {old}, {value.text}")
            store_pattern(e, dtype, pointer, pattern, round_to(e, dtype, total), lanes)


def _static(shape: Shape) -> tuple[int, ...]:
    return tuple(dim for dim in shape if isinstance(dim, int))


def _bytes(f: FunctionWriter, columns: Index) -> Index:
    if isinstance(columns, int):
        return -(-columns // 8)
    return f.e.inst("i64", f"lshr {f.e.i64(f.e.add(columns, 7))}, 3")

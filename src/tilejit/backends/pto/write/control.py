"""Loops and branches of PTO text: scalars are carried by the op, tiles in slots that every turn overwrites."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilejit.backends.pto.write.array import array_memory, copy_array
from tilejit.backends.pto.write.blocks import BlockWriter, Lazy, Tile
from tilejit.backends.pto.write.cube import zeroed
from tilejit.backends.pto.write.memory import Memory, Region
from tilejit.backends.pto.write.plan import is_product, root_of, written
from tilejit.backends.pto.write.scalars import dtype_of, extent_of, scalar, scalar_as
from tilejit.backends.pto.write.text import Extent, hint_of, scalar_name
from tilejit.dtypes import BOOL, INDEX, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of, operand
from tilejit.types.values import ArrayType, BufferType, ScalarType, TileType


class ControlWriter(BlockWriter):
    """Blocks of ops, loops and branches."""

    @abstractmethod
    def write_block(self, block: Block) -> list[SSAValue]:
        """Write the ops of a block; the operands of its terminator."""

    # slots --------------------------------------------------------------------------------------------------------------------------

    def _slot_of(self, value: SSAValue, op: Operation, init: SSAValue | None = None) -> Tile | Memory | None:
        """Where a carried array is kept: a tile, or the workspace when it is too large; None for scalars, and for tensors, which keep their place."""
        type = d.type_of(value)
        if isinstance(type, BufferType | ScalarType):
            return None
        if isinstance(type, ArrayType):
            assert isinstance(op, d.TileOp)
            return array_memory(self, value, op)
        assert isinstance(type, TileType)
        if not self.plan.fits(type):
            return self.workspace(type.dtype, type.shape, op, hint_of(value) or "carried")
        if init is not None and (tile := self.accumulating(init, value, op)) is not None:
            return tile
        rows, cols = self.matrix(value)
        assert isinstance(rows, int) and isinstance(cols, int)
        known = self.known_valid(type, op)
        return self.tile(rows, cols, known or (rows, cols), type.dtype, hint=hint_of(value), open=known is None)

    def accumulating(self, init: SSAValue, argument: SSAValue, op: Operation) -> Tile | None:
        """The accumulator of a sum of products that a loop carries, when it can stay in the memory of the cube core."""
        inputs = _sums_products(argument, op)
        type = d.type_of(argument)
        if inputs is None or not isinstance(type, TileType) or not self.plan.fits(type, "acc") or len(type.shape) != 2:
            return None
        if type.dtype.name not in ("FP32", "INT32") or len(list(init.uses)) != 1:
            return None
        found = self.values.get(init)
        if isinstance(found, Tile) and found.loc == "acc":
            return found
        owner = init.owner
        if isinstance(owner, d.ApplyOp) and (owner.op == "create_tile" or (owner.op == "full" and constant_of(operand(owner, "value")) == 0)):
            return zeroed(self, type, self.matrix(argument), inputs, hint_of(argument))
        return None

    def settle(self, op: Operation, values: Sequence[SSAValue], slots: Sequence[Tile | Memory | None], valids: Sequence[tuple[Extent, Extent] | None]) -> None:
        """Move values into their slots; copies first, because a slot may be a source too."""
        moves = [(value, slot, valid) for value, slot, valid in zip(values, slots, valids) if slot is not None and not self._is_there(value, slot)]
        ready: list[tuple[Tile | Memory, Tile | Memory, tuple[Extent, Extent] | None, SSAValue]] = []
        for value, slot, valid in moves:
            if isinstance(slot, Memory) and isinstance(d.type_of(value), ArrayType):
                ready.append((self.memories[value], slot, valid, value))
                continue
            if isinstance(slot, Memory):
                ready.append((self.materialised(value, op), slot, valid, value))
                continue
            source = self.pull(value, self.whole(value), op)
            source = source if source.spec.shape == slot.spec.shape else self._reloaded(value, source, op)
            if len(moves) > 1 and any(source.name == other.name for _, other, _ in moves if isinstance(other, Tile)):
                source = self.dest("tmov", [source], self.like(source))
            ready.append((source, slot, valid, value))
        for source, slot, valid, value in ready:
            if isinstance(slot, Memory):
                assert isinstance(source, Memory) and isinstance(op, d.TileOp)
                if isinstance(d.type_of(value), ArrayType):
                    copy_array(self, source, slot, op)
                else:
                    self._copy_memory(source, slot, value, op)
            else:
                assert isinstance(source, Tile)
                if valid is not None:
                    self.line(f"pto.set_validshape {slot.name}, {self.ssa(valid[0])}, {self.ssa(valid[1])} : {slot.type}")
                self.dest("tmov", [source], slot)

    def _is_there(self, value: SSAValue, slot: Tile | Memory) -> bool:
        found = self.values.get(value)
        if isinstance(slot, Memory):
            return self.memories.get(value) == slot
        # An accumulator is only ever changed in place.
        return slot.loc == "acc" or (isinstance(found, Tile) and found.name == slot.name)

    def _reloaded(self, value: SSAValue, tile: Tile, op: Operation) -> Tile:
        return self.load(self.spill(value, tile, op), self.whole(value), op)

    def _copy_memory(self, source: Memory, target: Memory, value: SSAValue, op: Operation) -> None:
        valid = self.valid_of(value)
        sizes = self.plan.block(value, tuple(v if isinstance(v, int) else None for v in valid))
        with self.stretch(valid[0], sizes[0], "row") as rows, self.stretch(valid[1], sizes[1], "col") as cols:
            region = Region(rows, cols)
            self.store(self.load(source, region, op), target, region, op)

    def bind(self, value: SSAValue, slot: Tile | Memory | None, init: SSAValue | None, valid: tuple[Extent, Extent] | None) -> None:
        """A name for what a slot holds."""
        if slot is None:
            assert init is not None
            self.memories[value] = self.memories[init]
        elif isinstance(slot, Memory):
            self.memories[value] = slot
            if isinstance(type := d.type_of(value), TileType):
                self.values[value] = Lazy(valid or self.known_valid(type, self.function) or self.matrix(value), ())
        else:
            self.values[value] = replace(slot, valid=valid) if valid is not None else slot

    # what an op carries ---------------------------------------------------------------------------------------------------------------

    def carried(self, values: Sequence[SSAValue]) -> list[tuple[SSAValue, int | None, str]]:
        """What a loop or branch hands on as scalars: scalars, and the valid extents of tiles that only the run knows."""
        out: list[tuple[SSAValue, int | None, str]] = []
        for value in values:
            type = d.type_of(value)
            if isinstance(type, ScalarType):
                out.append((value, None, scalar_name(type.dtype)))
            elif isinstance(type, TileType) and not all(isinstance(dim, int) for dim in type.valid) and type.valid != type.shape:
                out += [(value, 0, "index"), (value, 1, "index")]
        return out

    def handed(self, items: Sequence[tuple[SSAValue, int | None, str]], values: Sequence[SSAValue], given: Sequence[SSAValue], op: Operation) -> list[str]:
        """The names of the scalars that `given` hands to `values`."""
        place = {value: number for number, value in enumerate(values)}
        out: list[str] = []
        for value, axis, _ in items:
            source = given[place[value]]
            out.append(scalar_as(self, source, dtype_of(value), op) if axis is None else self.ssa(self.valid_of(source)[axis]))
        return out

    def take(self, items: Sequence[tuple[SSAValue, int | None, str]], names: Sequence[str]) -> dict[SSAValue, tuple[Extent, Extent]]:
        """Bind the scalars that arrive; the valid extents among them."""
        valids: dict[SSAValue, list[Extent]] = {}
        for (value, axis, _), name in zip(items, names):
            if axis is None:
                self.scalars[value] = name
            else:
                valids.setdefault(value, []).append(name)
        return {value: (found[0], found[1]) for value, found in valids.items()}

    def _bump(self, op: Operation) -> None:
        """What the turns of a loop write may have changed when a turn begins."""
        for inner in op.walk():
            if (buffer := written(inner)) is not None and root_of(buffer) in self.memories:
                self.touch(self.memories[root_of(buffer)])

    def _arrays(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [value for value in values if not isinstance(d.type_of(value), ScalarType)]

    # ops ----------------------------------------------------------------------------------------------------------------------------

    def for_(self, op: d.ForOp) -> None:
        variable, *arguments = op.body.block.args
        step = constant_of(op.step)
        lower, upper = extent_of(self, op.lower, op), extent_of(self, op.upper, op)
        down = step is not None and step < 0
        if down:
            # PTO counts up only: the trips are counted, and the variable follows from the number of the trip.
            count = self.define(f"arith.ceildivsi {self.ssa(self.sub(lower, upper))}, {self.ssa(-int(step or 0))} : index", "trips")
            bounds = [self.ssa(0), count, self.ssa(1)]
        else:
            bounds = [self.ssa(lower), self.ssa(upper), self.ssa(extent_of(self, op.step, op))]
        slots = [self._slot_of(argument, op, init) for argument, init in zip(arguments, op.inits)]
        items, finals = self.carried(arguments), self.carried(op.results)
        self.settle(op, list(op.inits), slots, [self._given(init, slot) for init, slot in zip(op.inits, slots)])
        inits = self.handed(items, arguments, list(op.inits), op)
        names, results = [self.name(hint_of(value)) for value, _, _ in items], [self.name(hint_of(value)) for value, _, _ in finals]
        index = self.name(hint_of(variable) or "i")
        types = ", ".join(type for _, _, type in items)
        carried = f" iter_args({', '.join(f'{name} = {init}' for name, init in zip(names, inits))}) -> ({types})" if items else ""
        head = f"{', '.join(results)} = " if results else ""
        self._bump(op)
        with self.scope(), self.inside(f"{head}scf.for {index} = {bounds[0]} to {bounds[1]} step {bounds[2]}{carried} {{"):
            start = self.add(lower, self.mul(index, int(step or 0)), hint_of(variable)) if down else index
            self.scalars[variable] = self.ssa(start)
            self._cast_variable(variable, op)
            valids = self.take(items, names)
            for argument, slot, init in zip(arguments, slots, op.inits):
                if not isinstance(d.type_of(argument), ScalarType):
                    self.bind(argument, slot, init, valids.get(argument))
            yielded = self.write_block(op.body.block)
            handed = self.handed(items, arguments, yielded, op)
            self.settle(op, yielded, slots, [self._given(value, slot) for value, slot in zip(yielded, slots)])
            if items:
                self.line(f"scf.yield {', '.join(handed)} : {types}")
        valids = self.take(finals, results)
        for result, slot, init in zip(op.results, slots, op.inits):
            if not isinstance(d.type_of(result), ScalarType):
                self.bind(result, slot, init, valids.get(result))

    def _cast_variable(self, variable: SSAValue, op: d.ForOp) -> None:
        dtype = dtype_of(variable)
        if dtype is not INDEX:
            self.scalars[variable] = self.define(f"arith.index_cast {self.scalars[variable]} : index to {scalar_name(dtype)}")

    def _given(self, value: SSAValue, slot: Tile | Memory | None) -> tuple[Extent, Extent] | None:
        """The valid region a slot takes over, where it is open."""
        return self.valid_of(value) if isinstance(slot, Tile) and slot.spec.valid == (None, None) else None

    def if_(self, op: d.IfOp) -> None:
        results = list(op.results)
        slots = [self._slot_of(result, op) for result in results]
        items = self.carried(results)
        names = [self.name(hint_of(value)) for value, _, _ in items]
        types = ", ".join(type for _, _, type in items)
        head = f"{', '.join(names)} = " if items else ""
        arrow = f" -> ({types})" if items else ""
        self.line(f"{head}scf.if {scalar_as(self, op.condition, BOOL, op)}{arrow} {{")
        for region, tail in ((op.then, "} else {"), (op.orelse, "}")):
            self.indent += 1
            with self.scope():
                yielded = self.write_block(region.block)
                handed = self.handed(items, results, yielded, op)
                self.settle(op, yielded, slots, [self._given(value, slot) for value, slot in zip(yielded, slots)])
                self._same_tensors(op, results, yielded)
                if items:
                    self.line(f"scf.yield {', '.join(handed)} : {types}")
            self.indent -= 1
            self.line(tail)
        valids = self.take(items, names)
        for result, slot in zip(results, slots):
            if slot is not None:
                self.bind(result, slot, None, valids.get(result))

    def _same_tensors(self, op: d.IfOp, results: Sequence[SSAValue], yielded: Sequence[SSAValue]) -> None:
        for result, value in zip(results, yielded):
            if isinstance(d.type_of(result), BufferType) and self.memories.setdefault(result, self.memories[value]) != self.memories[value]:
                raise self.refuse(op, "a branch that chooses between two tensors")

    def while_(self, op: d.WhileOp) -> None:
        before, body = op.before.block, op.body.block
        slots = [self._slot_of(argument, op) for argument in before.args]
        items, passed = self.carried(before.args), self.carried(body.args)
        self.settle(op, list(op.inits), slots, [self._given(init, slot) for init, slot in zip(op.inits, slots)])
        inits = self.handed(items, list(before.args), list(op.inits), op)
        last = d.end_of(before, d.ConditionOp)
        # A value that the condition hands on unchanged stays where it is.
        onward = [
            slots[value.index] if isinstance(value, BlockArgument) and value.owner is before else self._slot_of(argument, op)
            for value, argument in zip(last.values, body.args)
        ]
        names, results, inner = ([self.name(hint_of(value)) for value, _, _ in group] for group in (items, passed, passed))
        types, after = (", ".join(type for _, _, type in group) for group in (items, passed))
        self._bump(op)
        head = f"{', '.join(results)} = " if passed else ""
        self.line(f"{head}scf.while ({', '.join(f'{name} = {init}' for name, init in zip(names, inits))}) : ({types}) -> ({after}) {{")
        self.indent += 1
        with self.scope():
            self._enter(before.args, slots, op.inits, self.take(items, names))
            values = self.write_block(before)
            handed = self.handed(passed, list(body.args), values[1:], op)
            self.settle(op, values[1:], onward, [self._given(value, slot) for value, slot in zip(values[1:], onward)])
            self.line(f"scf.condition({scalar(self, values[0], op)}){' ' + ', '.join(handed) + ' : ' + after if passed else ''}")
        self.indent -= 1
        self.line("} do {")
        if passed:
            self.line(f"^bb0({', '.join(f'{name}: {type}' for name, (_, _, type) in zip(inner, passed))}):")
        self.indent += 1
        with self.scope():
            self._enter(body.args, onward, [self._source(value, op) for value in last.values], self.take(passed, inner))
            yielded = self.write_block(body)
            handed = self.handed(items, list(before.args), yielded, op)
            self.settle(op, yielded, slots, [self._given(value, slot) for value, slot in zip(yielded, slots)])
            self.line(f"scf.yield{' ' + ', '.join(handed) + ' : ' + types if items else ''}")
        self.indent -= 1
        self.line("}")
        finals = self.carried(op.results)
        self._enter(op.results, onward, [self._source(value, op) for value in last.values], self.take(finals, results))

    def _source(self, value: SSAValue, op: d.WhileOp) -> SSAValue:
        """The tensor that a handed on handle is."""
        return op.inits[value.index] if isinstance(value, BlockArgument) and value.owner is op.before.block else value

    def _enter(
        self, values: Sequence[SSAValue], slots: Sequence[Tile | Memory | None], inits: Sequence[SSAValue], valids: dict[SSAValue, tuple[Extent, Extent]]
    ) -> None:
        for value, slot, init in zip(values, slots, inits):
            if not isinstance(d.type_of(value), ScalarType):
                self.bind(value, slot, init, valids.get(value))


def _sums_products(argument: SSAValue, op: Operation) -> DType | None:
    """The data type of the factors, when all a loop does with a carried value is to add products to it."""
    if not isinstance(op, d.ForOp) or not isinstance(argument, BlockArgument):
        return None
    last = d.end_of(op.body.block, d.TileOp)
    value, inputs = last.operands[argument.index - 1], None
    while value is not argument:
        owner = value.owner
        if len(list(value.uses)) != 1:
            return None
        if isinstance(owner, d.ApplyOp) and is_product(owner) and isinstance(base := apply_args(owner).get("acc"), SSAValue):
            inputs, value = d.shaped_type(operand(owner, "lhs")).dtype, base
        elif isinstance(owner, d.ForOp):
            assert isinstance(value, OpResult)
            position = value.index
            inner = _sums_products(owner.body.block.args[position + 1], owner)
            if inner is None:
                return None
            inputs, value = inner, owner.inits[position]
        else:
            return None
    return inputs if inputs is not None and len(list(argument.uses)) == 1 else None

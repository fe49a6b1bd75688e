"""Raising of control flow: variables that a body overwrites are carried by it, handles travel as buffers and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilejit.dtypes import INDEX
from tilejit.frontend.pto.handles import Cell, Demoted, Events, Memory, NotRaisable, Pointer, Slice, View
from tilejit.frontend.pto.scalars import dtype_of
from tilejit.frontend.pto.tiles import content
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.types.values import ANY, BufferType, ScalarType, ValueType, join

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

_GREATER = 4
"""The comparison `>` of the op table."""


@dataclass(frozen=True)
class Packed:
    """A value as the IR carries it, and how it is put together again."""

    parts: list[SSAValue]
    template: object
    rebuild: Callable[[Sequence[SSAValue]], object]
    loose: bool = False
    """Whether another turn of a loop may bring a buffer with other extents."""

    @property
    def types(self) -> list[ValueType]:
        found = [d.type_of(part) for part in self.parts]
        if not self.loose:
            return found
        return [BufferType((ANY,) * type.rank, type.dtype, type.layout) if isinstance(type, BufferType) else type for type in found]


def pack(self: Raiser, value: object) -> Packed:
    """Take a value apart."""
    if isinstance(value, SSAValue):
        return Packed([value], "scalar", lambda parts: parts[0])
    if isinstance(value, Cell):
        raise Demoted(value.key)
    if isinstance(value, Memory):
        return _pack_memory(self, value)
    if isinstance(value, Pointer):
        pointer = value
        return Packed([value.buffer, self.ssa(value.offset)], value.template, lambda parts: replace(pointer, buffer=parts[0], offset=parts[1]), True)
    if isinstance(value, View):
        return _pack_view(self, value)
    if isinstance(value, Slice):
        return _pack_slice(self, value)
    if isinstance(value, Events):
        return Packed([value.buffer], value.template, lambda parts: Events(parts[0]))
    raise NotRaisable("values of this kind carried by a loop or branch")


def _pack_memory(self: Raiser, value: Memory) -> Packed:
    parts, open_axes = [value.buffer], [axis for axis, extent in enumerate(value.spec.valid) if extent is None]
    if value.slot is not None:
        parts.append(value.slot)
    else:
        parts += [self.ssa(value.valid[axis]) for axis in open_axes]

    def rebuild(found: Sequence[SSAValue]) -> Memory:
        if value.slot is not None:
            return replace(value, buffer=found[0], slot=found[1], flat=None, key=None)
        valid = list(value.valid)
        for axis, extent in zip(open_axes, found[1:]):
            valid[axis] = extent
        return replace(value, buffer=found[0], valid=(valid[0], valid[1]), flat=None, key=None)

    return Packed(parts, value.template, rebuild)


def _pack_view(self: Raiser, value: View) -> Packed:
    """The last stride stays a number if it is one: whether cells lie side by side must be known."""
    last = value.strides[-1] if isinstance(value.strides[-1], int) else None
    carried = value.strides if last is None else value.strides[:-1]

    def rebuild(found: Sequence[SSAValue]) -> View:
        pointer = replace(value.base, buffer=found[1], offset=found[2])
        strides = (*found[3:], *(() if last is None else (last,)))
        return replace(value, buffer=found[0], base=pointer, extents=(None,) * len(strides), strides=strides)

    parts = [value.buffer, *pack(self, value.base).parts, *(self.ssa(stride) for stride in carried)]
    return Packed(parts, (value.template, last), rebuild, True)


def _pack_slice(self: Raiser, value: Slice) -> Packed:
    numbers = [*value.sizes, *value.shape]
    open_places = [place for place, number in enumerate(numbers) if not isinstance(number, int)]

    def rebuild(found: Sequence[SSAValue]) -> Slice:
        filled = list(numbers)
        for place, number in zip(open_places, found[1:]):
            filled[place] = number
        return replace(value, buffer=found[0], sizes=tuple(filled[: len(value.sizes)]), shape=tuple(filled[len(value.sizes) :]))

    template = (value.template, tuple(number if isinstance(number, int) else None for number in numbers))
    return Packed([value.buffer, *(self.ssa(numbers[place]) for place in open_places)], template, rebuild)


def _content(self: Raiser, cell: Cell) -> Packed:
    return Packed([content(self, cell)], "content", lambda parts: parts[0])


# bodies ---------------------------------------------------------------------------------------------------------------------


def _tried(self: Raiser, follow: Callable[[], object]) -> list[Cell]:
    """The variables from outside that bodies overwrite: found by raising them into a block that is thrown away."""
    saved, outer = dict(self.contents), self.touched
    self.touched = set()
    scratch = Block()
    try:
        with self.build.at(scratch):
            follow()
        # Variables at fixed addresses may be met here for the first time; they live outside.
        placed = [cell for cell in self.core.placed.values() if isinstance(cell, Cell)]
        known = [cell for cell in self.contents if cell in self.touched and (cell in saved or cell in placed)]
    finally:
        for op in list(scratch.ops):
            op.drop_all_references()
        self.touched = outer
    self.contents = {**dict.fromkeys(placed), **saved}
    return known


def _unknown(value: object) -> object:
    """A number of which a body knows only the type."""
    return Block(arg_types=[value.type]).args[0] if isinstance(value, SSAValue) else value


def _following(self: Raiser) -> bool:
    """Whether a surrounding body is only tried out: then one pass over an inner one is enough."""
    return self.touched is not None


def _once(self: Raiser, block: Block, arguments: Sequence[object]) -> list[object]:
    self.values.update(zip(block.args, map(_unknown, arguments)))
    return self.block(block)


def _run(self: Raiser, block: Block, inner: Block, cells: Sequence[Cell], start: Sequence[SSAValue], arguments: Sequence[object]) -> list[Packed]:
    """Raise a body into `inner`; everything it passes on, without a terminator yet."""
    saved = dict(self.contents)
    self.contents.update(zip(cells, start))
    with self.build.at(inner):
        self.values.update(zip(block.args, arguments))
        passed = [pack(self, value) for value in self.block(block)]
        after = [content(self, cell) for cell in cells]
    self.contents = saved
    return [*passed, *(Packed([value], "content", lambda parts: parts[0]) for value in after)]


def _same(first: Sequence[Packed], second: Sequence[Packed]) -> None:
    if any(a.template != b.template for a, b in zip(first, second, strict=True)):
        raise NotRaisable("handles of different kinds meet")


def _parts(items: Sequence[Packed]) -> list[SSAValue]:
    return [part for item in items for part in item.parts]


def _types(items: Sequence[Packed]) -> list[ValueType]:
    return [type for item in items for type in item.types]


def _rebuilt(items: Sequence[Packed], values: Sequence[SSAValue]) -> list[object]:
    out: list[object] = []
    place = 0
    for item in items:
        out.append(item.rebuild(values[place : place + len(item.parts)]))
        place += len(item.parts)
    return out


def _settle(self: Raiser, op: Operation, cells: Sequence[Cell], items: Sequence[Packed], values: Sequence[SSAValue]) -> None:
    """Bind the results of a loop or branch, and the contents of the variables after it."""
    found = _rebuilt(items, values)
    self.values.update(zip(op.results, found))
    for cell, value in zip(cells, found[len(op.results) :]):
        assert isinstance(value, SSAValue)
        self.contents[cell] = value
        self.written(cell)


# ops ------------------------------------------------------------------------------------------------------------------------


def for_(self: Raiser, op: scf.ForOp) -> None:
    lower, upper, step = (self.ssa(self.number(value)) for value in (op.lb, op.ub, op.step))
    if constant_of(step) is None or int(constant_of(step) or 0) <= 0:
        goes_on = self.apply("cmp", "scalar", lhs=step, rhs=self.build.const(0), cmp_type=_GREATER)
        self.demand(goes_on, "the step of a loop must be positive", "arithmetic")
    inits = [self.held(value) for value in op.iter_args]
    block = op.body.block
    counter = dtype_of(block.args[0].type)
    first = self.cast(lower, counter)
    self.depth += 1
    try:
        if _following(self):
            passed = _once(self, block, [first, *inits])
            self.values.update(zip(op.results, passed))
            return
        cells = _tried(self, lambda: _once(self, block, [first, *inits]))
        start = [pack(self, value) for value in inits] + [_content(self, cell) for cell in cells]
        types = _types(start)
        body = Block(arg_types=d.ir_types([ScalarType(INDEX), *types]))
        carried = _rebuilt(start, body.args[1:])
        contents = [value for value in carried[len(inits) :] if isinstance(value, SSAValue)]
        with self.build.at(body):
            number = self.cast(body.args[0], counter)
        after = _run(self, block, body, cells, contents, [number, *carried[: len(inits)]])
        _same(start, after)
        with self.build.at(body):
            self.build.yield_(_parts(after))
    finally:
        self.depth -= 1
    made = self.build.for_(lower, upper, step, _parts(start), body, types)
    _settle(self, op, cells, start, made.results)


def if_(self: Raiser, op: scf.IfOp) -> None:
    condition = self.scalar(op.cond)
    bodies = [region.block for region in (op.true_region, op.false_region) if region.blocks]

    def follow() -> None:
        for block in bodies:
            self.values.update(zip(op.results, _once(self, block, [])))

    if _following(self):
        follow()
        return
    cells = _tried(self, follow)
    start = [content(self, cell) for cell in cells]
    arms: list[tuple[Block, list[Packed]]] = []
    for region in (op.true_region, op.false_region):
        arm = Block()
        passed = _run(self, region.block, arm, cells, start, []) if region.blocks else [Packed([value], "content", lambda parts: parts[0]) for value in start]
        arms.append((arm, passed))
    (then, first), (orelse, second) = arms
    _same(first, second)
    types: list[ValueType] = []
    for a, b in zip(_parts(first), _parts(second), strict=True):
        type = join(d.type_of(a), d.type_of(b))
        if type is None:
            raise NotRaisable("values of different types meet")
        types.append(type)
    for arm, passed in arms:
        with self.build.at(arm):
            self.build.yield_(_parts(passed))
    made = self.build.if_(condition, then, orelse, types)
    _settle(self, op, cells, first, made.results)


def while_(self: Raiser, op: scf.WhileOp) -> None:
    inits = [self.held(value) for value in op.arguments]
    before, after = op.before_region.block, op.after_region.block
    self.depth += 1
    try:

        def follow() -> None:
            _, *passed = _once(self, before, inits)
            _once(self, after, passed)
            self.values.update(zip(op.results, passed))

        if _following(self):
            follow()
            return
        cells = _tried(self, follow)
        start = [pack(self, value) for value in inits] + [_content(self, cell) for cell in cells]
        types = _types(start)
        test = Block(arg_types=d.ir_types(types))
        carried = _rebuilt(start, test.args)
        contents = [value for value in carried[len(inits) :] if isinstance(value, SSAValue)]
        flag, *going = _run(self, before, test, cells, contents, carried[: len(inits)])
        with self.build.at(test):
            self.build.condition(flag.parts[0], _parts(going))
        going_types = _types(going)
        body = Block(arg_types=d.ir_types(going_types))
        arrived = _rebuilt(going, body.args)
        count = len(going) - len(cells)
        contents = [value for value in arrived[count:] if isinstance(value, SSAValue)]
        back = _run(self, after, body, cells, contents, arrived[:count])
        _same(start, back)
        with self.build.at(body):
            self.build.yield_(_parts(back))
    finally:
        self.depth -= 1
    if types != going_types:
        raise NotRaisable("a loop that passes on other values than it carries")
    made = self.build.while_(_parts(start), test, body, going_types)
    _settle(self, op, cells, going, made.results)


def select(self: Raiser, op: Operation) -> None:
    """One of two handles."""
    condition = self.scalar(op.operands[0])
    first, second = (pack(self, self.held(value)) for value in op.operands[1:])
    _same([first], [second])
    arms = [Block(), Block()]
    for arm, item in zip(arms, (first, second)):
        with self.build.at(arm):
            self.build.yield_(item.parts)
    types = [join(d.type_of(a), d.type_of(b)) for a, b in zip(first.parts, second.parts, strict=True)]
    if any(type is None for type in types):
        raise NotRaisable("handles of different types meet")
    made = self.build.if_(condition, arms[0], arms[1], [type for type in types if type is not None])
    self.values[op.results[0]] = first.rebuild(made.results)

"""Loops and branches: what they carry gets its final type before the loop, and one variable each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import Block, SSAValue

from tilejit.backends import checks
from tilejit.backends.cuda.grids.independent import turns_apart
from tilejit.backends.cuda.products import specialise
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body, constant_extent
from tilejit.backends.cuda.program.masks import as_bytes
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.library import SPECIALISED
from tilejit.backends.cuda.text.types import fits32
from tilejit.backends.cuda.text.values import Array, Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import BOOL, INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, ShapedType, TileType


class Carried:
    """Variables that hold what a loop or branch hands on: one per scalar and tile, one more per valid extent that only the run knows."""

    def __init__(self, body: Body, types: Sequence[SSAValue], first: Sequence[Value], hints: Sequence[str | None]) -> None:
        self.body = body
        self.values: list[Value] = []
        self.names: list[str] = []
        for type, value, hint in zip(types, first, hints, strict=True):
            self.values.append(self._declare(type, self._in_registers(type, value), hint))

    def _in_registers(self, type: SSAValue, value: Value) -> Value:
        """A tensor-level value that lies in memory is carried as a tile."""
        if isinstance(value, Buffer) and isinstance(d.type_of(type), TileType):
            shape = tuple(constant_extent(extent, type) for extent in value.shape)
            return self.body.load_tile(value, [index(0)] * len(shape), shape, tuple(index(extent) for extent in shape))
        return value

    def _declare(self, type: SSAValue, value: Value, hint: str | None) -> Value:
        out = self.body.out
        if isinstance(value, Buffer):
            return value
        name = out.fresh(hint or "carried")
        self.names.append(name)
        if isinstance(value, Scalar):
            dtype = value.dtype
            declared = d.type_of(type)
            assert isinstance(declared, ScalarType)
            if declared.dtype is BOOL:  # Flags are carried as integers: not every Triton compiles loops that carry single bits.
                return Scalar(f"({name} != 0)", BOOL)
            return Scalar(name, declared.dtype if dtype is not INDEX else INDEX)
        if isinstance(value, Array):
            return Array(value.tile.named(name))
        declared = d.type_of(type)
        assert isinstance(declared, ShapedType) and isinstance(value, Tile)
        value = as_bytes(self.body, value)
        valid: list[Scalar] = []
        for axis, extent in enumerate(declared.valid):
            if isinstance(extent, int):
                valid.append(index(extent))
            else:
                variable = out.fresh(f"{name}_valid{axis}")
                self.names.append(variable)
                valid.append(Scalar(variable, INDEX, (0, value.shape[axis])))
        return Tile(name, value.dtype, value.shape, tuple(valid))

    def texts(self, values: Sequence[Value]) -> list[str]:
        """What to assign to the variables, in order."""
        found: list[str] = []
        for target, value in zip(self.values, values, strict=True):
            if isinstance(target, Tile) and isinstance(value, Buffer):
                loaded = self.body.load_tile(value, [index(0)] * target.rank, target.shape, tuple(index(extent) for extent in target.shape))
                found.append(loaded.text)
                found += [_int32(size) for own, size in zip(target.valid, loaded.valid, strict=True) if own.const is None]
            elif isinstance(target, Buffer):
                if not isinstance(value, Buffer) or value.root != target.root or value != target:
                    raise UnsupportedFeatureError(
                        "CUDA does not run a name that holds different tensors inside a kernel",
                        span=self.body.out.span,
                        help="choose the tensor outside the region",
                    )
            elif isinstance(target, Scalar):
                assert isinstance(value, Scalar)
                if target.dtype is BOOL:
                    found.append(f"{self.body.text(value)}.to(tl.int32)")
                    continue
                found.append(self.body.text(value) if target.dtype is value.dtype else self.body.converted(value, target.dtype))
            elif isinstance(target, Array):
                assert isinstance(value, Array)
                found.append(value.tile.text)
            else:
                assert isinstance(value, Tile)
                value = as_bytes(self.body, value)
                found.append(value.text)
                for own, given in zip(target.valid, value.valid, strict=True):
                    if own.const is None:
                        found.append(_int32(given))
        return found

    def assign(self, values: Sequence[Value], copies: bool = False) -> None:
        """Set the variables, all at once where one of them is read by another."""
        texts = self.texts(values)
        clash = any(other != name and _mentions(text, other) for name, text in zip(self.names, texts, strict=True) for other in self.names)
        if clash:
            texts = [self.copy(text) for text in texts]
        for name, text in zip(self.names, texts, strict=True):
            if name != text:
                self.body.out.line(f"{name} = {text}")

    def copy(self, text: str) -> str:
        name = self.body.out.fresh("next")
        self.body.out.line(f"{name} = {text}")
        return name


def _mentions(text: str, name: str) -> bool:
    import re

    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _int32(value: Scalar) -> str:
    if value.const is not None:
        return f"tl.full((), {value.text}, tl.int32)"
    return f"tl.cast({value.text}, tl.int32)"  # A number that fits may still have been computed from wider ones.


def for_(body: Body, op: d.ForOp) -> Sequence[Value]:
    from tilejit.backends.cuda.program.crossing import Strand, has_transfers

    if isinstance(body.strand, Strand) and has_transfers(op):
        return body.strand.loop(op)
    block = op.body.block
    lower, upper, step = body.index(op.lower), body.index(op.upper), body.index(op.step)
    inits = [body.handed(init, result) for init, result in zip(op.inits, op.results, strict=True)]
    carried = Carried(body, op.results, inits, [name_hint(arg) for arg in block.args[1:]])
    carried.assign(inits)
    meets = _meets_itself(body, op)
    if not meets and _meets_before(body, block):
        body.order.barrier(body.out)

    induction = body.out.fresh(name_hint(block.args[0]) or "i")
    head, variable, prepare = _range(body, op, induction, lower, upper, step)
    before = body.order.now()
    with body.out.block(head):
        if meets:
            body.order.barrier(body.out)
        prepare()
        iv = d.type_of(block.args[0])
        body.values[block.args[0]] = variable if iv.dtype is INDEX else Scalar(body.converted(variable, iv.dtype), iv.dtype)
        for argument, value in zip(block.args[1:], carried.values, strict=True):
            body.values[argument] = value
        carried.assign(body.run(block))
    if not _has_turns(lower, upper, step):
        body.order.join(before)  # then no barrier of its turns was met either
    return carried.values


def _has_turns(lower: Scalar, upper: Scalar, step: Scalar) -> bool:
    """Whether a loop surely runs its body."""
    match lower.const, upper.const, step.const:
        case int(first), int(end), int(by) if by != 0:
            return bool(range(first, end, by))
        case _:
            return False


def _range(body: Body, op: d.ForOp, induction: str, lower: Scalar, upper: Scalar, step: Scalar) -> tuple[str, Scalar, Callable[[], None]]:
    """The head of a loop, the value of its variable, and what to write first inside: Triton's loops only count up."""

    def nothing() -> None:
        return

    if isinstance(step.const, int) and step.const > 0:
        bounds = (lower.bounds[0], max(upper.bounds[1] - 1, lower.bounds[0])) if lower.bounds and upper.bounds else None
        narrow = fits32(bounds) and lower.narrow and upper.narrow
        low, high = (lower.text, upper.text) if narrow else (numbers.wide(lower), numbers.wide(upper))
        shared = f"tl.range({low}, {high}, {step.text}, warp_specialize={body.out.helper(SPECIALISED)})" if specialise.suits(op) else None
        return f"for {induction} in {shared or f'range({low}, {high}, {step.text})'}:", Scalar(induction, INDEX, bounds if narrow else None), nothing
    if step.const is None:
        good = body.out.let("moves", f"{step.text} != 0")
        body.failures.report(body.out, good, checks.step_failure(op))
    span, size = numbers.sub(upper, lower), step
    if isinstance(step.const, int):
        away, size = numbers.sub(lower, upper), index(-step.const)
        trips = f"tl.maximum({away.text} + {size.const} - 1, 0) // {size.const}" if isinstance(size.const, int) else ""
    else:
        up = f"tl.maximum({span.text} + {step.text} - 1, 0) // tl.maximum({step.text}, 1)"
        down = f"tl.maximum({step.text} * -1 - {span.text} - 1, 0) // tl.maximum({step.text} * -1, 1)"
        trips = f"tl.where({step.text} > 0, {up}, {down})"
    count = (
        body.out.let("trips", trips)
        if not (isinstance(lower.const, int) and isinstance(upper.const, int) and isinstance(step.const, int))
        else str(len(range(lower.const, upper.const, step.const)))
    )
    turn = body.out.fresh("turn")
    bounds = None
    if lower.bounds and upper.bounds and isinstance(step.const, int):
        bounds = (min(upper.bounds[0], lower.bounds[0]), max(lower.bounds[1], upper.bounds[1]))
    value = numbers.add(lower, numbers.mul(Scalar(turn, INDEX, (0, abs(bounds[1] - bounds[0])) if bounds else None), step))

    def prepare() -> None:
        body.out.line(f"{induction} = {value.text}")

    return f"for {turn} in range({count}):", Scalar(induction, INDEX, value.bounds and bounds), prepare


def loop_head(name: str, span: Scalar, step: Scalar) -> str:
    """A loop that counts the turns of another one with a positive step."""
    return f"for {name} in range(({span.text} + {step.text} - 1) // {step.text}):"


def _traffic(block: Block) -> tuple[set[SSAValue], set[SSAValue]] | None:
    """The buffers that a block writes and those that it reads; None where it calls what may touch any."""
    from tilejit.tile_ir.alias import written_by

    written: set[SSAValue] = set()
    read: set[SSAValue] = set()
    for op in block.walk():
        if isinstance(op, d.StoreOp | d.ElementWrite):
            written.add(_root(op.buffer))
        elif (target := written_by(op)) is not None:
            written.add(_root(target))
        elif isinstance(op, d.CallOp):
            return None
        if isinstance(op, d.LoadOp | d.ReadOp | d.ApplyOp | d.EffectOp):
            read.update(_root(value) for value in op.operands if isinstance(d.type_of(value), ShapedType))
    return written, read


def _meets_itself(body: Body, op: d.ForOp) -> bool:
    """Whether a loop may read or overwrite in one turn what it wrote in another."""
    found = _traffic(op.body.block)
    if found is None:
        return True
    written, read = found
    return bool(written & read) or _same_memory(body, written, read) or (bool(written) and not turns_apart(op))


def _meets_before(body: Body, block: Block) -> bool:
    """Whether a loop may touch what was stored before it, or store what was read; it calls nothing."""
    written, read = _traffic(block) or (set(), set())

    def among(values: set[SSAValue], roots: set[object]) -> bool:
        found = [body.values.get(value) for value in values]
        return bool(roots) and any(value is None or (isinstance(value, Buffer) and value.root in roots) for value in found)

    return among(written | read, body.order.written) or among(written, body.order.read)


def _same_memory(body: Body, written: set[SSAValue], read: set[SSAValue]) -> bool:
    """Whether two names stand for one buffer."""
    roots = [found.root for value in written if isinstance(found := body.values.get(value), Buffer)]
    return any(isinstance(found := body.values.get(value), Buffer) and found.root in roots for value in read)


def _root(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, d.WindowOp | d.ViewOp | d.StridedOp):
        value = value.owner.buffer
    return value


class Kept:
    """What a loop on a condition carries: scalars in variables, tiles in scratch memory, since Triton's passes lose track of tiles that such a loop carries."""

    def __init__(self, body: Body, types: Sequence[SSAValue], first: Sequence[Value], hints: Sequence[str | None]) -> None:
        self.body = body
        self.carried = Carried(body, types, first, hints)
        self.rooms = [memory.scratch_buffer(body.out, tile.shape, tile.dtype) if tile is not None else None for tile in map(_tile_of, self.carried.values)]

    def assign(self, values: Sequence[Value]) -> None:
        """Set everything; no value is a variable or memory of this loop that is set before it is read."""
        body, names = self.body, iter(self.carried.names)
        texts = iter(self.carried.texts(values))
        scalars: list[tuple[str, str]] = []
        body.order.barrier(body.out)
        for target, room in zip(self.carried.values, self.rooms, strict=True):
            if isinstance(target, Buffer):
                continue
            name, text = next(names), next(texts)
            tile = _tile_of(target)
            if tile is None or room is None:
                scalars.append((name, text))
                continue
            inside = memory.mask(body.out, tile.shape, tuple(index(extent) for extent in tile.shape))
            pointers = memory.tile_pointers(body.out, room, [index(0)] * tile.rank, tile.shape)
            body.out.line(memory.store_line(body.out, pointers, text, inside, tile.dtype))
            scalars += [(next(names), next(texts)) for size in tile.valid if size.const is None]
        for name, text in [(name, self.carried.copy(text) if _is_read(text, scalars) else text) for name, text in scalars if name != text]:
            body.out.line(f"{name} = {text}")
        body.order.barrier(body.out)

    def read(self) -> list[Value]:
        """What is carried, tiles in registers."""
        return [self._read(value, room) for value, room in zip(self.carried.values, self.rooms, strict=True)]

    def _read(self, value: Value, room: Buffer | None) -> Value:
        tile = _tile_of(value)
        if tile is None or room is None:
            return value
        loaded = self.body.load_tile(room, [index(0)] * tile.rank, tile.shape, tuple(index(extent) for extent in tile.shape), tile.text)
        made = replace(loaded, valid=tile.valid, zeros=False)
        return Array(made) if isinstance(value, Array) else made


def _tile_of(value: Value) -> Tile | None:
    return value if isinstance(value, Tile) else value.tile if isinstance(value, Array) else None


def _is_read(text: str, assigned: Sequence[tuple[str, str]]) -> bool:
    """Whether a text mentions a variable that is about to change."""
    return any(_mentions(text, name) for name, _ in assigned)


def while_(body: Body, op: d.WhileOp) -> Sequence[Value]:
    before, block = op.before.block, op.body.block
    inits = [body[init] for init in op.inits]
    start = Kept(body, list(before.args), inits, [name_hint(arg) for arg in before.args])
    start.assign(inits)
    go = body.out.fresh("go")

    def test() -> list[Value]:
        body.values.update(zip(before.args, start.read(), strict=True))
        condition, *values = body.run(before)
        assert isinstance(condition, Scalar)
        body.out.line(f"{go} = {_flag(body, condition)}")
        return values

    values = test()
    handed = Kept(body, list(op.results), values, [name_hint(arg) for arg in block.args])
    handed.assign(values)
    with body.out.block(f"while {go} != 0:"):
        body.values.update(zip(block.args, handed.read(), strict=True))
        start.assign(body.run(block))
        handed.assign(test())
    return handed.read()


def _flag(body: Body, condition: Scalar) -> str:
    return f"{body.text(condition)}.to(tl.int32)"


def if_(body: Body, op: d.IfOp) -> Sequence[Value]:
    condition = body.scalar(op.condition)
    if condition.const is not None:
        return body.run(op.then.block if condition.const else op.orelse.block)
    if specialise.suits(op.parent_op()):
        return _selected(body, op, condition)
    return _branches(body, op, condition)


def _selected(body: Body, op: d.IfOp, condition: Scalar) -> Sequence[Value]:
    """A branch that is a selection where groups of warps run apart: both results, and one of them."""
    with body.out.block(f"if {body.out.helper(SPECIALISED)}:"):
        first, second = body.run(op.then.block), body.run(op.orelse.block)
        carried = Carried(body, list(op.results), first, [name_hint(result) for result in op.results])
        for name, yes, no in zip(carried.names, carried.texts(first), carried.texts(second), strict=True):
            body.out.line(f"{name} = tl.where({body.text(condition)}, {yes}, {no})")
    with body.out.block("else:"):
        carried.assign(_branches(body, op, condition))
    return carried.values


def _branches(body: Body, op: d.IfOp, condition: Scalar) -> Sequence[Value]:
    carried: Carried | None = None
    before = body.order.now()
    with body.out.block(f"if {body.text(condition)}:"):
        first = body.run(op.then.block)
        if op.results:
            carried = Carried(body, list(op.results), first, [name_hint(result) for result in op.results])
            carried.assign(first)
    taken = body.order.now()
    body.order.back(before)
    if op.results or any(not isinstance(inner, d.YieldOp) for inner in op.orelse.block.ops):
        with body.out.block("else:"):
            second = body.run(op.orelse.block)
            if carried is not None:
                carried.assign(second)
    body.order.join(taken)
    return carried.values if carried is not None else []

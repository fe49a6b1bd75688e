"""Which buffers share memory, what an op writes, and how long a value is needed: the questions behind every reordering.

Values that may share memory with others have *roots*: parameters, created buffers, and results of calls. Two values whose
roots are disjoint never overlap. Parameters of one function overlap only if some call passes overlapping arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilejit import ops
from tilejit.ops.facts import Effect
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ShapedType

Roots = frozenset[SSAValue]


class Aliases:
    """Alias facts of a program, computed on demand. Valid until the program changes."""

    def __init__(self, program: Program) -> None:
        self._functions = program.functions
        self._roots: dict[SSAValue, Roots] = {}
        self._written: dict[str, frozenset[int]] = {}
        self._parameters = self._parameter_classes(program)

    # roots --------------------------------------------------------------------------------------------------------------

    def roots(self, value: SSAValue) -> Roots:
        """The buffers that `value` (a buffer, or a value that may be a view) may lie in."""
        found = self._roots.get(value)
        if found is None:
            found = self._find_roots(value)
            self._roots[value] = found
        return found

    def _find_roots(self, value: SSAValue) -> Roots:
        return frozenset().union(*(self._parameters.get(item, frozenset({item})) for item in origins(value, sources_of)))

    def _parameter_classes(self, program: Program) -> dict[SSAValue, Roots]:
        """Parameters that some call may bind to one buffer count as each other."""
        self._parameters: dict[SSAValue, Roots] = {}
        functions = program.functions
        changed = True
        while changed:
            changed = False
            for function in functions.values():
                for op in function.walk():
                    if isinstance(op, d.CallOp | d.LaunchOp) and op.callee.data in functions:
                        changed |= self._bind_call(functions[op.callee.data], op.args)
            if changed:
                self._roots.clear()
        return self._parameters

    def _bind_call(self, callee: d.FuncOp, args: Sequence[SSAValue]) -> bool:
        params = list(callee.body.block.args)
        changed = False
        for i, (first, param) in enumerate(zip(args, params, strict=False)):
            for second, other in zip(args[:i], params[:i], strict=True):
                if is_buffer(first) and is_buffer(second) and self.roots(first) & self.roots(second):
                    merged = self._parameters.get(param, frozenset({param})) | self._parameters.get(other, frozenset({other}))
                    for item in (param, other):
                        if self._parameters.get(item) != merged:
                            self._parameters[item] = merged
                            changed = True
        return changed

    # effects ------------------------------------------------------------------------------------------------------------

    def writes(self, op: Operation) -> Roots:
        """Roots of the buffers that `op`, with everything inside it, may write."""
        out: set[SSAValue] = set()
        for inner in op.walk():
            for buffer in self._buffers_written(inner):
                out |= self.roots(buffer)
        return frozenset(out)

    def reads(self, op: Operation) -> Roots:
        """Roots of the memory that `op`, with everything inside it, may read."""
        out: set[SSAValue] = set()
        for inner in op.walk():
            for operand in inner.operands:
                if isinstance(inner, d.StoreOp | d.ElementWrite) and operand is inner.buffer and not inner.static("atomic"):
                    continue
                if isinstance(d.type_of(operand), ShapedType):
                    out |= self.roots(operand)
        return frozenset(out)

    def _buffers_written(self, op: Operation) -> Iterable[SSAValue]:
        if isinstance(op, d.StoreOp | d.ElementWrite):
            return (op.buffer,)
        if isinstance(op, d.CallOp | d.LaunchOp):
            written = self.written_params(op.callee.data)
            return [arg for i, arg in enumerate(op.args) if i in written]
        if isinstance(op, d.ApplyOp | d.EffectOp) and ops.facts(op.op).effect in (Effect.Cross, Effect.Ranks):
            return _buffers_handed_in(op)  # Who runs meanwhile may write everything that this kernel was handed.
        written = written_by(op)
        return () if written is None else (written,)

    def written_params(self, name: str) -> frozenset[int]:
        """Positions of the parameters that a function may write."""
        found = self._written.get(name)
        if found is None:
            self._written[name] = frozenset()
            function = self._functions[name]
            roots = self.writes(function)
            params = function.body.block.args
            found = frozenset(i for i, param in enumerate(params) if is_buffer(param) and self.roots(param) & roots)
            self._written[name] = found
        return found


def _buffers_handed_in(op: Operation) -> list[SSAValue]:
    """The buffers among the parameters of the function around `op`."""
    function = d.enclosing(op, d.FuncOp)
    return [param for param in function.body.block.args if is_buffer(param)] if function is not None else []


def written_by(op: Operation) -> SSAValue | None:
    """The buffer that a statement of the table writes."""
    name = ops.facts(op.op).writes if isinstance(op, d.EffectOp) else None
    found = apply_args(op)[name] if isinstance(op, d.EffectOp) and name is not None else None
    return found if isinstance(found, SSAValue) else None


def is_buffer(value: SSAValue) -> bool:
    return isinstance(d.type_of(value), BufferType)


def viewed(op: d.ApplyOp) -> SSAValue | None:
    """The operand whose memory the result of an op may share."""
    name = ops.facts(op.op).view_of
    found = apply_args(op)[name] if name is not None else None
    return found if isinstance(found, SSAValue) else None


def origins(value: SSAValue, before: Callable[[SSAValue], list[SSAValue] | None]) -> set[SSAValue]:
    """Where a value comes from in the end; `before` gives what it comes from directly, or None."""
    out: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    todo = [value]
    while todo:
        item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        sources = before(item)
        if sources is None:
            out.add(item)
        else:
            todo += sources
    return out


def sources_of(value: SSAValue) -> list[SSAValue] | None:
    """The values whose memory `value` may share, or None when it has memory of its own (or is a parameter)."""
    owner = value.owner
    if isinstance(value, BlockArgument):
        assert isinstance(owner, Block)
        return _carried_sources(value, owner)
    if isinstance(owner, d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp | d.LoadOp):
        return [owner.buffer]
    if isinstance(owner, d.ApplyOp):
        source = viewed(owner)
        return [source] if source is not None and isinstance(d.type_of(source), ShapedType) else None
    if isinstance(owner, d.GroupOp):
        return [_yielded(owner.body.block)[_index(value)]]
    if isinstance(owner, d.IfOp):
        index = _index(value)
        return [_yielded(owner.then.block)[index], _yielded(owner.orelse.block)[index]]
    if isinstance(owner, d.ForOp | d.WhileOp):
        if not is_buffer(value):
            return None
        index = _index(value)
        if isinstance(owner, d.ForOp):
            return [owner.inits[index], _yielded(owner.body.block)[index]]
        condition = d.end_of(owner.before.block, d.ConditionOp)
        return [condition.values[index]]
    return None


def _carried_sources(value: BlockArgument, block: Block) -> list[SSAValue] | None:
    parent = block.parent_op()
    if isinstance(parent, d.ForOp):
        index = value.index - 1
        return [parent.inits[index], _yielded(block)[index]] if index >= 0 and is_buffer(value) else None
    if isinstance(parent, d.WhileOp):
        if not is_buffer(value):
            return None
        if block is parent.before.block:
            return [parent.inits[value.index], _yielded(parent.body.block)[value.index]]
        condition = d.end_of(parent.before.block, d.ConditionOp)
        return [condition.values[value.index]]
    return None


def _index(value: SSAValue) -> int:
    assert isinstance(value, OpResult)
    return value.index


def _yielded(block: Block) -> Sequence[SSAValue]:
    return d.end_of(block, d.YieldOp).values


# uses and windows -------------------------------------------------------------------------------------------------------


def views_of(value: SSAValue) -> set[SSAValue]:
    """`value` and every value that may share its memory because it was made from it."""
    out: set[SSAValue] = set()
    todo = [value]
    while todo:
        item = todo.pop()
        if item in out:
            continue
        out.add(item)
        for use in item.uses:
            todo += _made_from(use.operation, use.index, item)
    return out


def _made_from(op: Operation, index: int, value: SSAValue) -> list[SSAValue]:
    if isinstance(op, d.ApplyOp):
        return list(op.results[:1]) if viewed(op) is value else []
    if isinstance(op, d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp | d.LoadOp):
        return list(op.results) if index == 0 else []
    if isinstance(op, d.YieldOp):
        parent = op.parent_op()
        if isinstance(parent, d.IfOp | d.GroupOp):
            return [parent.results[index]]
        if isinstance(parent, d.ForOp) and is_buffer(value):
            return [parent.results[index], parent.body.block.args[index + 1]]
        if isinstance(parent, d.WhileOp) and is_buffer(value):
            return [parent.before.block.args[index]]
    if isinstance(op, d.ConditionOp) and is_buffer(value):
        parent = op.parent_op()
        assert isinstance(parent, d.WhileOp)
        return [parent.results[index - 1], parent.body.block.args[index - 1]]
    if isinstance(op, d.ForOp) and is_buffer(value):
        return [op.body.block.args[index - 2], op.results[index - 3]]
    if isinstance(op, d.WhileOp) and is_buffer(value):
        return [op.before.block.args[index]]
    return []


def ancestor_in(block: Block, op: Operation) -> Operation | None:
    """The op of `block` that is `op` or contains it."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def used_after(value: SSAValue, op: Operation, inclusive: bool = False) -> bool:
    """Whether `value` or a view of it is used by an op of `op`'s block that comes after it."""
    block = op.parent
    assert block is not None
    for item in views_of(value):
        for use in item.uses:
            user = ancestor_in(block, use.operation)
            if user is None or (inclusive and user is op) or (user is not op and op.is_before_in_block(user)):
                return True
    return False


def last_use(value: SSAValue, op: Operation) -> Operation:
    """The last op of `op`'s block that uses `value` (a result of `op`) or a view of it; `op` itself when none does."""
    block = op.parent
    assert block is not None
    last = op
    for item in views_of(value):
        for use in item.uses:
            user = ancestor_in(block, use.operation)
            if user is not None and last.is_before_in_block(user):
                last = user
    return last


def between(first: Operation, last: Operation) -> Iterable[Operation]:
    """Ops after `first`, up to and including `last`, in one block."""
    op = first.next_op
    while op is not None:
        yield op
        if op is last:
            return
        op = op.next_op


def same_scalar(a: SSAValue, b: SSAValue) -> bool:
    """Whether two scalars are provably equal."""
    if a is b:
        return True
    first, second = constant_of(a), constant_of(b)
    return first is not None and first == second


def reads_own_cell(op: Operation, value: SSAValue) -> bool:
    """Whether a member of a loop nest reads an operand of its own shape cell by cell: not as packed bits, nor as a repeated block."""
    if not isinstance(op, d.ApplyOp) or value not in op.args:
        return True
    packed = ops.facts(op.op).packed
    if packed is not None:
        return apply_args(op)[packed] is not value
    return not takes_blocks(op) or op.args[1] is not value


def takes_blocks(op: Operation) -> bool:
    """Whether an expand repeats a block along each row: it reads other columns than its own."""
    if not isinstance(op, d.ApplyOp):
        return False
    row = ops.table()[op.op]
    return row.family == "expand" and row.attrs["axis"] == "row" and d.shaped_type(op.args[1]).shape[-1] != 1


def same_window(load: d.LoadOp, store: d.StoreOp) -> bool:
    """Whether a store writes cell by cell where a load of the same shape reads."""
    if load.buffer is not store.buffer or len(load.offsets) != len(store.offsets):
        return False
    loaded, stored = d.shaped_type(load.result), d.shaped_type(store.value)
    return loaded.shape == stored.shape and all(same_scalar(a, b) for a, b in zip(load.offsets, store.offsets, strict=True))


def never_meet(first: d.StoreOp, second: d.StoreOp) -> bool:
    """Whether two stores provably write different cells: windows of one buffer that lie apart along some axis."""
    others = _boxes(second)
    for buffer, box in _boxes(first).items():
        for (start, size), (other_start, other_size) in zip(box, others.get(buffer, box), strict=True):
            if None not in (start, size, other_start, other_size) and (start + size <= other_start or other_start + other_size <= start):  # type: ignore[operator]
                return True
    return False


def _boxes(store: d.StoreOp) -> dict[SSAValue, list[tuple[int | None, int | None]]]:
    """Where a store writes in its buffer and in those that this is a window of: first cell and extent per axis, where they are known."""
    shape, buffer = d.shaped_type(store.value).shape, store.buffer
    sizes = [1] * (len(store.offsets) - len(shape)) + [dim if isinstance(dim, int) else None for dim in shape]
    box = [(_known(offset), size) for offset, size in zip(store.offsets, sizes, strict=True)]
    found = {buffer: box}
    while isinstance(owner := buffer.owner, d.WindowOp):
        drop, kept = owner.drop, iter(box)
        moved: list[tuple[int | None, int | None]] = []
        for axis, offset in enumerate(map(_known, owner.offsets)):
            start, size = (0, 1) if axis in drop else next(kept)
            moved.append((None if start is None or offset is None else start + offset, size))
        buffer, box = owner.buffer, moved
        found[buffer] = box
    return found


def _known(value: SSAValue) -> int | None:
    number = constant_of(value)
    return number if isinstance(number, int) else None

"""What of a kernel fits into tiles: which values are computed block by block where they are used, which are kept in global memory, how large blocks are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilejit import ops
from tilejit.lazy import lazy
from tilejit.ops.spec import ParamKind
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import written_by
from tilejit.tile_ir.build import apply_args, constant_of, operand
from tilejit.tile_ir.pto.specs import CAPACITY
from tilejit.types.values import BufferType, TileType, static_shape

BLOCKWISE = frozenset({"elementwise", "expand", "reduction"})
"""Families of which any block can be computed from blocks of the operands."""
_CHUNK = 1024
"""Columns of a block of a wide value."""


def array_operands(op: Operation) -> list[SSAValue]:
    """The tensors and tiles an op computes with, without scratch."""
    if isinstance(op, d.ApplyOp):
        row, args = ops.table()[op.op], apply_args(op)
        scratch = {param.name for param in row.params if param.kind is ParamKind.Scratch}
        values = [args[name] for name in args if name not in scratch]
        return [value for value in values if isinstance(value, SSAValue) and isinstance(d.type_of(value), BufferType | TileType)]
    if isinstance(op, d.LoadOp):
        return [op.buffer]
    return []


def is_product(op: Operation) -> bool:
    """Whether an op is a product of two matrices."""
    return family(op) == "matmul" and isinstance(op, d.ApplyOp) and ops.table()[op.op].attrs["ranks"] == (2,)


def is_transpose(op: Operation) -> bool:
    return isinstance(op, d.ApplyOp) and op.op.startswith("transpose")


def is_lazy_fill(op: Operation) -> bool:
    """Whether an op gives one number, or none at all, everywhere: it is written where it is used."""
    return isinstance(op, d.ApplyOp) and (op.op == "full" or op.op == "create_tile")


def _passes_on(op: Operation) -> bool:
    """Whether an op only moves or turns its operand."""
    return is_transpose(op) or (isinstance(op, d.ApplyOp) and op.op == "move")


def is_batched(op: Operation) -> bool:
    """Whether an op is done matrix by matrix for a stack of them: products, and reductions of columns."""
    if not isinstance(op, d.ApplyOp):
        return False
    names = ("lhs", "rhs") if family(op) == "matmul" else ("input",) if family(op) == "reduction" and op.op.startswith("col_") else ()
    return any(len(d.shaped_type(operand(op, name)).shape) > 2 for name in names)


def family(op: Operation) -> str:
    return ops.table()[op.op].family if isinstance(op, d.ApplyOp) else ""


def root_of(buffer: SSAValue) -> SSAValue:
    """The parameter or new tensor that a buffer is a part of."""
    while True:
        owner = buffer.owner
        if isinstance(owner, d.WindowOp | d.ViewOp):
            buffer = owner.buffer
        elif isinstance(owner, d.ForOp) and isinstance(buffer, OpResult):
            buffer = owner.inits[buffer.index]
        elif isinstance(owner, Block) and isinstance(loop := owner.parent_op(), d.ForOp) and isinstance(buffer, BlockArgument) and buffer.index > 0:
            buffer = loop.inits[buffer.index - 1]
        else:
            return buffer


def written(op: Operation) -> SSAValue | None:
    """The buffer that an op writes, if any."""
    if isinstance(op, d.StoreOp | d.ElementWrite):
        return op.buffer
    return written_by(op)


class Plan:
    """Decisions about the values of a function; `share` is the part of each local memory that one tile may take, `in_memory` are the rows
    whose results are made in global memory where they are too large for a tile."""

    def __init__(self, function: d.FuncOp, arch: str, share: float, in_memory: frozenset[str]) -> None:
        capacity = CAPACITY["a5" if arch == "a5" else "a3"]
        self.function = function
        self._rows_in_memory = in_memory
        self.limit = {loc: int(size * share) for loc, size in capacity.items()}
        self.budget = max(1024, int(min(16384, capacity["vec"] * share / 12)))
        self.lazy: set[SSAValue] = set()
        self.stored: set[SSAValue] = set()
        self._order = {op: number for number, op in enumerate(function.walk())}
        self._last = {op: max((self._order[inner] for inner in op.walk()), default=0) for op in self._order}
        self._reads: dict[SSAValue, frozenset[SSAValue]] = {}
        self._last_uses: dict[SSAValue, int] = {}
        for value in self._arrays():
            if self._is_lazy(value):
                self.lazy.add(value)
        for value in self._arrays():
            if value in self.lazy and self._must_be_stored(value):
                self.stored.add(value)

    @lazy
    def period(self) -> int:
        """Tiles are padded to columns whose rows fill 32 bytes in every element type of the kernel, so that shapes agree across conversions."""
        values = [value for op in self.function.walk() for value in (*op.results, *op.operands)]
        sizes = [type.dtype.get_byte() for value in values if isinstance(type := d.type_of(value), TileType | BufferType)]
        return 32 // min([4, *(max(1, size) for size in sizes)])

    def _arrays(self) -> Iterator[SSAValue]:
        for op in self._order:
            if isinstance(op, d.LoadOp | d.ApplyOp):
                yield from (value for value in op.results if isinstance(d.type_of(value), TileType))

    # what fits ------------------------------------------------------------------------------------------------------------------------

    def fits(self, type: TileType, loc: str = "vec") -> bool:
        """Whether one tile may hold a value."""
        shape = static_shape(type.shape)
        if shape is None:
            return False
        rows, cols = math.prod(shape[:-1]), shape[-1] if shape else 1
        size = max(1, type.dtype.get_byte())
        if loc == "acc":
            return -(-rows // 16) * 16 * -(-cols // 16) * 16 * 4 <= self.limit["acc"]
        padded = cols if cols == 1 and rows > 1 else -(-cols // self.period) * self.period
        return rows * padded * size <= self.limit["vec"]

    def _in_memory(self, op: Operation) -> bool:
        """Whether a result too large for a tile is made in global memory."""
        return isinstance(op, d.ApplyOp) and (op.op in self._rows_in_memory or is_batched(op))

    def _is_lazy(self, value: SSAValue) -> bool:
        op, type = value.owner, d.type_of(value)
        assert isinstance(op, Operation) and isinstance(type, TileType)
        if not self.fits(type, "acc" if is_product(op) and not is_batched(op) else "vec"):
            return True
        if self._only_for_products(value):
            return True
        if not isinstance(op, d.ApplyOp) or not ((family(op) in BLOCKWISE and not op.op.startswith("col_")) or op.op.startswith("col_expand")):
            return False
        rows = type.shape[:-1]
        return any(self.is_large(item) and d.shaped_type(item).shape[:-1] == rows for item in self.row_operands(value))

    def is_large(self, value: SSAValue) -> bool:
        """Whether no tile holds a value: it is used block by block."""
        type = d.type_of(value)
        if isinstance(type, BufferType):
            return not self.fits(TileType(type.shape, type.dtype, type.shape))
        return value in self.lazy and not self._only_for_products(value)

    def _only_for_products(self, value: SSAValue) -> bool:
        """Loaded tiles and their transposes go straight to the cube core when nobody else wants them."""
        op = value.owner
        if isinstance(op, d.ApplyOp) and _passes_on(op) and len(d.shaped_type(value).shape) == 2:
            source = array_operands(op)[0]
            straight = isinstance(d.type_of(source), BufferType) or source in self.lazy
        else:
            straight = isinstance(op, d.LoadOp)
        uses = [use.operation for use in value.uses]
        return straight and bool(uses) and all(self._is_cube_use(user, value) for user in uses)

    def _is_cube_use(self, user: Operation, value: SSAValue) -> bool:
        if not isinstance(user, d.ApplyOp):
            return False
        if is_product(user):
            args = apply_args(user)
            return value in (args.get("lhs"), args.get("rhs"), args.get("bias")) and value is not args.get("acc")
        return _passes_on(user) and all(self._is_cube_use(use.operation, user.results[0]) for use in user.results[0].uses)

    # what must be kept ----------------------------------------------------------------------------------------------------------------

    def reads(self, value: SSAValue) -> frozenset[SSAValue]:
        """The memories that computing a block of a value reads."""
        if value not in self._reads:
            self._reads[value] = self._found_reads(value)
        return self._reads[value]

    def _found_reads(self, value: SSAValue) -> frozenset[SSAValue]:
        if isinstance(d.type_of(value), BufferType):
            return frozenset({root_of(value)})
        if value in self.stored or not isinstance(value.owner, Operation):
            return frozenset({value})
        if isinstance(value.owner, d.LoadOp):
            return frozenset({root_of(value.owner.buffer)})
        if value not in self.lazy:
            return frozenset()
        if self._in_memory(value.owner) and not (isinstance(value.owner, d.ApplyOp) and value.owner.op == "reshape"):
            return frozenset({value})
        return frozenset().union(*(self.reads(item) for item in array_operands(value.owner)))

    def _must_be_stored(self, value: SSAValue) -> bool:
        op = value.owner
        assert isinstance(op, Operation)
        if self._in_memory(op):
            # A reshape is only another view of the memory of its operand.
            return isinstance(op, d.ApplyOp) and op.op == "reshape" and self._is_overwritten(value)
        if isinstance(op, d.ApplyOp) and family(op) == "reduction" and op.op.startswith("col_"):
            return True
        nested = any(self._ancestor(use.operation, op) is not use.operation for use in value.uses)
        if isinstance(op, d.ApplyOp) and not self._only_for_products(value) and (nested or (is_product(op) and len(list(value.uses)) > 1)):
            return not is_lazy_fill(op)
        return self._is_overwritten(value)

    def _is_overwritten(self, value: SSAValue) -> bool:
        """Whether memory that a value is computed from changes before its last use."""
        op = value.owner
        assert isinstance(op, Operation)
        first, last, reads = self._last[op], self._last_use(value), self.reads(value)
        for other, position in self._order.items():
            if first < position <= last and (buffer := written(other)) is not None and root_of(buffer) in reads:
                if isinstance(other, d.StoreOp) and position == last and self._in_place(other, value):
                    continue
                return True
        return False

    def _in_place(self, store: d.StoreOp, value: SSAValue) -> bool:
        """A store of blocks over the very blocks they were computed from."""
        if store.value is not value and value not in self._expression(store.value):
            return False
        if any(constant_of(offset) != 0 for offset in store.offsets):
            return False
        return self._cellwise(store.value, store.buffer)

    def _cellwise(self, value: SSAValue, buffer: SSAValue) -> bool:
        """Whether a value reads the memory of `buffer` only cell by cell, each where it will be written."""
        if isinstance(d.type_of(value), BufferType):
            return value is buffer or root_of(value) is not root_of(buffer)
        op = value.owner
        if value not in self.lazy or value in self.stored or root_of(buffer) not in self.reads(value):
            return True
        return isinstance(op, d.ApplyOp) and family(op) == "elementwise" and all(
            root_of(buffer) not in self.reads(item) or (self._cellwise(item, buffer) and d.shaped_type(item).shape == d.shaped_type(value).shape)
            for item in array_operands(op)
        )

    def _expression(self, value: SSAValue) -> set[SSAValue]:
        """The values a block of `value` is computed from."""
        out, todo = set[SSAValue](), [value]
        while todo:
            item = todo.pop()
            if item not in out and item in self.lazy and isinstance(item.owner, Operation):
                out.add(item)
                if item not in self.stored:
                    todo += array_operands(item.owner)
        return out

    def _ancestor(self, user: Operation, op: Operation) -> Operation:
        """The op in the block of `op` that contains `user`."""
        while user.parent_block() is not op.parent_block():
            parent = user.parent_op()
            assert parent is not None
            user = parent
        return user

    def _last_use(self, value: SSAValue) -> int:
        """The last op that needs a value, also through values that are computed from it where they are used."""
        op = value.owner
        assert isinstance(op, Operation)
        if value not in self._last_uses:
            self._last_uses[value] = 0
            last = [self._last[self._ancestor(use.operation, op)] for use in value.uses]
            later = [self._last_use(result) for use in value.uses for result in use.operation.results if result in self.lazy]
            self._last_uses[value] = max([0, *last, *later])
        return self._last_uses[value]

    def is_used_after(self, value: SSAValue, op: Operation) -> bool:
        """Whether somebody besides `op` may still need a value when `op` is done: a later use, or one around a loop again."""
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent_block()
        inside = op
        while inside.parent_block() is not block:
            parent = inside.parent_op()
            assert parent is not None
            inside = parent
        return inside is not op or any(use.operation is not op and self._last[use.operation] > self._order[op] for use in value.uses)

    # blocks -----------------------------------------------------------------------------------------------------------------------------

    def row_operands(self, value: SSAValue) -> list[SSAValue]:
        """The operands whose rows are the rows of the result."""
        op = value.owner
        if not isinstance(op, d.ApplyOp):
            return []
        rows, args = d.shaped_type(value).shape[:-1], apply_args(op)
        if is_product(op):
            found = [] if args.get("a_trans") else [args["lhs"]]
        elif family(op) in BLOCKWISE or op.op == "move":
            found = list[object](array_operands(op))
        else:
            found = []
        return [item for item in found if isinstance(item, SSAValue) and d.shaped_type(item).shape[:-1] == rows]

    def block(self, value: SSAValue, valid: Sequence[int | None]) -> tuple[int, int]:
        """Rows and columns of the blocks of a value."""
        rows, cols = valid
        inside = self._expression(value) | {value}
        found = [op for item in inside if isinstance(op := item.owner, d.ApplyOp)]
        if any(is_product(op) for op in found):
            columns = min(cols or 128, 128)
            height = max(16, self.budget * 2 // (columns * 4) // 16 * 16)
        elif any(is_transpose(op) for op in found):
            side = max(16, math.isqrt(self.budget // 4) // 16 * 16)
            columns, height = min(cols or side, side), side
        else:
            wide = max([cols or _CHUNK, *(self._width(item) for item in inside)])
            chunk = wide if wide * 4 <= self.budget else min(_CHUNK, self.budget // 4)
            columns = _even(cols, chunk)
            height = max(1, self.budget // (chunk * 4))
        return _even(rows, height), columns

    def _width(self, value: SSAValue) -> int:
        dims = [d.shaped_type(item).shape[-1:] for item in (value, *self.row_operands(value))]
        return max((dim[0] if isinstance(dim[0], int) else _CHUNK for dim in dims if dim), default=1)


def _even(extent: int | None, size: int) -> int:
    """A block size that divides the extent, if a good one does."""
    if extent is None:
        return size
    if extent <= size:
        return max(1, extent)
    best = next(n for n in range(size, 0, -1) if extent % n == 0)
    return best if 2 * best > size else size

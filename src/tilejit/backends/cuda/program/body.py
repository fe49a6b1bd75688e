"""One program of a kernel: walks the ops of a block and writes what each does to register tiles, scalars and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda.products import units
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.failures import FailureTable
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.backends.cuda.text.writer import Writer
from tilejit.dtypes import BOOL, FP64, INDEX, DType
from tilejit.errors import UnsupportedFeatureError
from tilejit.ops.elementwise import compute_dtype
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args

Rule = Callable[["Body", Any], Sequence[Value]]


class Body:
    """The text of one program; `outside` brings in values of the host."""

    def __init__(
        self,
        out: Writer,
        outside: Callable[[SSAValue], Value],
        functions: dict[str, d.FuncOp],
        failures: FailureTable,
        options: CompileOptions,
        interpreted: bool = False,
    ) -> None:
        self.out = out
        self.outside = outside
        self.functions = functions
        self.failures = failures
        self.options = options
        self.interpreted = interpreted
        self.values: dict[SSAValue, Value] = {}
        self.units: units.Units | None = None
        """Which values are held times log2(e), once the first block is known."""
        self.order = memory.Order()
        self.block_index = index(0)
        self.block_count = index(1)
        self.lane = index(0)
        self.nest = False
        self.strand: object = None
        """What hands tiles to and fro, where kernels run side by side."""
        """Whether tiles are blocks of a larger space: their valid regions are their own, not those of the types."""

    # values -------------------------------------------------------------------------------------------------------------

    def __getitem__(self, value: SSAValue) -> Value:
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = self.outside(value)
        return found

    def scalar(self, value: SSAValue) -> Scalar:
        found = self[value]
        assert isinstance(found, Scalar), value
        return found

    def index(self, value: SSAValue) -> Scalar:
        return numbers.as_index(self.scalar(value))

    def buffer(self, value: SSAValue) -> Buffer:
        found = self[value]
        assert isinstance(found, Buffer), value
        return found

    def tile(self, value: SSAValue) -> Tile:
        """A value in registers; memory is loaded."""
        found = self[value]
        if isinstance(found, Buffer):
            shape = tuple(constant_extent(extent, value) for extent in found.shape)
            found = self.load_tile(found, [index(0)] * len(shape), shape, tuple(index(e) for e in shape), name_hint(value))
        assert isinstance(found, Tile), value
        return found

    def define(self, value: SSAValue, made: Value) -> Value:
        """Name a result after the user's name of it."""
        if isinstance(made, Tile):
            made = made.named(self.out.let(name_hint(value), made.text))
        elif isinstance(made, Scalar) and made.const is None and not made.text.isidentifier():
            made = replace(made, text=self.out.let(name_hint(value) or "n", made.text))
        self.values[value] = made
        return made

    # blocks -------------------------------------------------------------------------------------------------------------

    def run(self, block: Block) -> list[Value]:
        """Write the ops of a block; the operands of its terminator."""
        if self.units is None:
            self.units = self._find_units(block)
        for op in block.ops:
            if isinstance(op, d.ReturnOp | d.YieldOp | d.ConditionOp):
                holder = block.parent_op()
                results = holder.results if isinstance(holder, d.ForOp | d.IfOp | d.GroupOp) else [None] * len(op.operands)
                return [self.handed(operand, result) for operand, result in zip(op.operands, results, strict=True)]
            self.step(op)
        return []

    def _find_units(self, block: Block) -> units.Units:
        from tilejit.backends.cuda.program.rows import short_exponentials

        return units.find(block, short_exponentials(self, block)) if self.strand is None else units.Units()

    def handed(self, value: SSAValue, result: SSAValue | None) -> Value:
        """A value that becomes the result of a loop, a branch or a group."""
        return self[value] if self.units is None else self.units.held(self.values, value, result) or self[value]

    def step(self, op: Operation) -> None:
        from tilejit.backends.cuda.rules import STRUCTURAL

        if isinstance(op, d.TileOp):
            self.out.span = op.span or self.out.span
        rule = STRUCTURAL.get(type(op))
        if rule is None:
            raise self.unsupported(op, f"{op.name} inside a kernel")
        with self.units.bound(self.values, op) if self.units else nullcontext():
            results = rule(self, op)
        for result, made in zip(op.results, results, strict=True):
            self.define(result, made)

    def unsupported(self, op: Operation, what: str, help: str = "run it on the CPU: platform='cpu'") -> UnsupportedFeatureError:
        return UnsupportedFeatureError(f"CUDA does not run {what} yet", span=op.span if isinstance(op, d.TileOp) else None, help=help)

    # memory -------------------------------------------------------------------------------------------------------------

    def load_tile(
        self, buffer: Buffer, starts: Sequence[Scalar], shape: Sequence[int], valid: Sequence[Scalar], hint: str | None = None, good: str | None = None,
        options: str = "",
    ) -> Tile:
        """A window of a buffer in registers; cells outside `valid` are 0. `options`: what `tl.load` is told besides."""
        self.order.before_load(self.out, buffer.root)
        lead = len(starts) - len(shape)
        where = memory.mask(self.out, shape, valid[lead:])
        where = self._guarded(where, buffer.guarded(good), shape)
        text = memory.load_text(self.out, memory.tile_pointers(self.out, buffer, starts, shape), where, buffer.dtype, options)
        return Tile(self.out.let(hint, text), buffer.dtype, tuple(shape), tuple(valid[lead:]), zeros=True)

    def _guarded(self, where: str | None, good: str | None, shape: Sequence[int]) -> str | None:
        if good is None:
            return where
        return f"{where} & {good}" if where is not None else f"tl.broadcast_to({good}, {block_shape(shape)})"

    def store_tile(self, tile: Tile, buffer: Buffer, starts: Sequence[Scalar], good: str | None = None, atomic: bool = False) -> None:
        """Write the valid cells of a tile."""
        from tilejit.backends.cuda.program.masks import as_bytes

        if not atomic:
            self.order.before_store(self.out, buffer.root)
        tile = as_bytes(self, tile)
        where = self._guarded(memory.mask(self.out, tile.shape, tile.valid), buffer.guarded(good), tile.shape)
        pointers = memory.tile_pointers(self.out, buffer, starts, tile.shape)
        value = self.converted(tile, buffer.dtype)
        if atomic and buffer.dtype.is_integer and buffer.dtype.bits < 32:
            self._add_locked(pointers, value, where, buffer.dtype)
        elif atomic:
            self.out.line(f'tl.atomic_add({pointers}, {value}{"" if where is None else f", mask={where}"}, sem="relaxed")')
        else:
            self.out.line(memory.store_line(self.out, pointers, value, where, buffer.dtype))

    def _add_locked(self, pointers: str, value: str, where: str | None, dtype: DType) -> None:
        """Add to cells that are narrower than what a GPU adds to at once: one program after the other."""
        out = self.out
        lock = out.parameter("lock", "barrier", "*i32", None)
        out.line(f"{out.helper('acquire')}({lock})")
        there = memory.load_text(out, pointers, where, dtype, ", volatile=True")
        out.line(memory.store_line(out, pointers, f"({there} + {value}).to({register(dtype)})", where, dtype))
        out.line(f"{out.helper('release')}({lock})")

    def converted(self, value: Tile | Scalar, dtype: DType) -> str:
        """The text of a value in another type, as a store converts."""
        if value.dtype is dtype:
            return self.text(value)
        return elementwise.held(self.out, elementwise.convert(self.out, self.text(value), value.dtype, dtype), dtype)

    def text(self, value: Tile | Scalar) -> str:
        """The text of a held value, constants with their type."""
        if isinstance(value, Tile):
            return value.text
        if value.const is not None:
            made = elementwise.constant(value.const, value.dtype)
            return elementwise.narrow(self.out, made, value.dtype) if value.dtype.is_float else made
        return value.text if value.dtype is not INDEX else numbers.wide(value)

    def spill(self, tile: Tile) -> Buffer:
        """A tile in the program's scratch memory, visible to all threads."""
        from tilejit.backends.cuda.program.masks import as_bytes

        tile = as_bytes(self, tile)
        place = memory.scratch_buffer(self.out, tile.shape, tile.dtype)
        self.order.barrier(self.out)
        where = memory.mask(self.out, tile.shape, tuple(index(extent) for extent in tile.shape))
        pointers = memory.tile_pointers(self.out, place, [index(0)] * tile.rank, tile.shape)
        self.out.line(memory.store_line(self.out, pointers, tile.text, where, tile.dtype))
        self.order.barrier(self.out)
        return place

    def named(self, hint: str, value: Scalar) -> Scalar:
        """A number under a name, unless it is a constant or has one."""
        return value if value.const is not None or value.text.isidentifier() else replace(value, text=self.out.let(hint, value.text))

    def in_memory(self, value: SSAValue) -> Buffer:
        """A value as memory: a buffer itself, a tile through scratch."""
        found = self[value]
        return found if isinstance(found, Buffer) else self.spill(self.tile(value))

    # checks -------------------------------------------------------------------------------------------------------------

    def check(self, conditions: Sequence[str], failure: Any, values: Sequence[Scalar]) -> str | None:
        """Report unless all conditions hold; the name of the flag that says so, None where nothing is left to check."""
        if not conditions or not self.options.check_bounds:
            return None
        good = self.out.let("good", " & ".join(f"({condition})" for condition in conditions))
        self.failures.report(self.out, good, failure, values)
        return good

    # rows ---------------------------------------------------------------------------------------------------------------

    def valid_of(self, op: d.ApplyOp, number: int, otherwise: Callable[[int], Scalar]) -> tuple[Scalar, ...]:
        """The valid region of a result: constants from its type, the rest from `otherwise` by axis."""
        type = d.shaped_type(op.results[number])
        if self.nest:
            return tuple(otherwise(axis) for axis in range(2))
        return tuple(index(extent) if isinstance(extent, int) else otherwise(axis) for axis, extent in enumerate(type.valid))

    def operand_text(self, value: Value, dtype: DType, rank: int, convert: bool = True) -> str:
        """An operand of a cell-by-cell op in the form it is computed in, with the rank of the result."""
        assert isinstance(value, Scalar | Tile)
        if isinstance(value, Scalar):
            return self.scalar_text(value, dtype) if convert else self.computed(value)
        text = elementwise.convert(self.out, value.text, value.dtype, dtype) if convert else elementwise.widen(self.out, value.text, value.dtype)
        if value.rank < rank:
            text = f"({text})[{', '.join(['None'] * (rank - value.rank) + [':'] * value.rank)}]"
        return text

    def computed(self, value: Scalar) -> str:
        if value.const is not None:
            return elementwise.constant(value.const, computed_in(value.dtype))
        return elementwise.widen(self.out, self.text(value), value.dtype)

    def scalar_text(self, value: Scalar, dtype: DType) -> str:
        """A scalar converted to `dtype`, in the form it is computed in."""
        if value.const is not None:
            return _folded(value, dtype)
        if value.dtype is dtype:
            return elementwise.widen(self.out, self.text(value), dtype)
        return elementwise.convert(self.out, self.text(value), value.dtype, dtype)

    def scalar_op(self, op: d.ApplyOp) -> Scalar:
        """An elementwise row on scalars."""
        from tilejit.backends.cuda.rules import INDICES

        row, args = ops.table()[op.op], apply_args(op)
        type = d.type_of(op.results[0])
        given = {name: self.scalar(value) for name in row.operands if isinstance(value := args.get(name), SSAValue)}
        on_indices = INDICES.get(op.op)
        if type.dtype is INDEX and on_indices is not None and on_indices.device is not None and all(value.dtype.is_integer for value in given.values()):
            made = on_indices.device(*(numbers.as_index(value) for value in given.values()))
            if made is not None:
                return made
        if op.op == "cast":
            (source,) = given.values()
            if source.dtype is INDEX and type.dtype is INDEX:
                return source
            text, _ = elementwise.cast(self.out, self.text(source), source.dtype, args)
            return Scalar(text, type.dtype, source.bounds if type.dtype is INDEX and source.bounds and source.dtype.is_integer else None)
        if op.op == "cmp" and all(value.dtype is INDEX or value.const is not None for value in given.values()):
            kind = op.statics.get("cmp_type", 0)
            left, right = (value.text for value in given.values())
            return Scalar(f"({left} {elementwise.COMPARISONS[kind]} {right})", BOOL)
        dtypes = {name: value.dtype for name, value in given.items()}
        texts: list[str] = []
        common = type.dtype
        for name, value in given.items():
            target = compute_dtype(row, name, dtypes, type.dtype)
            common = target if name != "condition" else common
            texts.append(self.scalar_text(value, target))
        text = elementwise.apply(self.out, row, computed_in(common) if common.is_float else common, texts, args)
        return Scalar(elementwise.held(self.out, text, type.dtype), type.dtype)


def _folded(value: Scalar, dtype: DType) -> str:
    """A constant as another type."""
    import numpy as np

    from tilejit.ops.numbers import convert

    assert value.const is not None
    source = np.asarray(value.const) if not value.dtype.is_float else np.asarray(value.const, computed_in(value.dtype).numpy)
    made = convert(source, dtype)[()]
    if dtype.is_float and dtype is not FP64:  # A bare number takes the type of what it meets; where that is no double, it is no double before.
        return f"{elementwise.literal(float(made))}"
    return elementwise.constant(float(made) if dtype is FP64 else int(made), dtype)


def block_shape(shape: Iterable[int]) -> str:
    """The shape of a register tile in the text."""
    from tilejit.backends.cuda.text.types import padded

    sizes = [str(padded(extent)) for extent in shape]
    return f"({', '.join(sizes)},)"


def constant_extent(extent: Scalar, value: SSAValue) -> int:
    if not isinstance(extent.const, int):
        owner = value.owner
        raise UnsupportedFeatureError(
            "CUDA keeps only values of constant shape in a block",
            span=owner.span if isinstance(owner, d.TileOp) else None,
            help="use a tensor-level operator outside pl.spmd",
        )
    return extent.const


def scalar_type(value: SSAValue) -> DType:
    return d.type_of(value).dtype

"""PTO → tile IR: kernels run through the compiler instead of the interpreter.

A tile is a variable whose content after each op is a new value, carried by loops and joined by branches, as long as only its own
ops see it; tiles that are seen in other ways (handles as values, windows, changing valid regions, shared addresses) are windows of
local memory. What fits neither is left to the interpreter: `NotRaisable` says why.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, StringAttr, VectorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilejit import ops
from tilejit.dtypes import INDEX, INT64, DType
from tilejit.errors import InternalError, TilejitError
from tilejit.frontend.pto import cells, control, convert, fifo, index, moves, sides, tiles, vector, views
from tilejit.frontend.pto.flow import Functions, reached, written_pointers
from tilejit.frontend.pto.handles import Cell, Core, Demoted, NotRaisable, Num, Pointer, Region
from tilejit.frontend.pto.plan import StoragePlan, plan_storage
from tilejit.frontend.pto.scalars import arith, dtype_of
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import ApplyArg
from tilejit.tile_ir.build import Builder, constant_of, function
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.spec import Nothing
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.tile_ir.pto.types import PtrType, TileBufType
from tilejit.types.values import ANY, BufferType, ScalarType, TileType, ValueType

GRID = "grid__"
"""Name of the last parameter: how many blocks to run."""
_LONGEST = 4000
"""Ops after which a kernel, its calls followed, is left to the interpreter."""
_TRIES = 12
"""How often a kernel is raised again with one more tile in memory, before all of them go there."""

_MODULES = (views, tiles, moves, vector, convert, index, cells, sides, fifo)
OPS = {name: rule for module in _MODULES for name, rule in module.OPS.items()}


def raise_to_program(file: PtoFile, entry: FuncOp, names: Sequence[str]) -> Program:
    """The entry as a program with one parameter more than the file has: the number of blocks."""
    functions = {(found.parent_op(), found.sym_name.data): found for found in file.definitions()}
    plan = plan_storage(reached(functions, entry), file.arch)
    for attempt in range(_TRIES + 1):
        try:
            return _raised(file, functions, entry, names, plan)
        except InternalError:
            raise
        except TilejitError as error:
            # A row of the table that does not take these types or shapes.
            raise NotRaisable(error.message) from None
        except Demoted as demoted:
            if demoted.key in plan.memory and (not demoted.flat or demoted.key in plan.flat):
                raise NotRaisable("a tile that neither a variable nor memory can hold") from None
            plan.memory.add(demoted.key)
            if demoted.flat:
                plan.flat.add(demoted.key)
            if attempt == _TRIES - 1:
                plan.memory.update(op for op in reached(functions, entry) if op.name == "pto.alloc_tile")
                plan.memory.update(plan.components.values())
    raise NotRaisable("too many tiles are seen as several types")


def _raised(file: PtoFile, functions: Functions, entry: FuncOp, names: Sequence[str], plan: StoragePlan) -> Program:
    params: list[tuple[str, ValueType, str]] = []
    pointers = written_pointers(functions, entry)
    for number, (name, argument) in enumerate(zip(names, entry.body.block.args, strict=True)):
        if isinstance(argument.type, PtrType):
            element = argument.type.data.element
            dtype = views.dtype_of_element(element)
            params.append((name, BufferType((f"n{number}",), dtype), "InOut" if argument in pointers else "In"))
        else:
            params.append((name, ScalarType(dtype_of(argument.type)), "In"))
    params.append((GRID, ScalarType(INDEX), "In"))
    op, arguments = function(entry.sym_name.data, "orchestration", params)
    builder = Builder(op.body.block)
    body = Block(arg_types=[d.IRType(ScalarType(INDEX))])
    made: list[d.FuncOp] = []
    with builder.at(body):
        if any(fifo.crosses(found) for found in reached(functions, entry)):
            group, inner = function(f"{entry.sym_name.data}_sides", "group", params)
            raiser = Raiser(file, functions, plan, Builder(group.body.block), group.body.block, made=made, crossing=True)
            _bind(raiser, entry, inner)
            raiser.finish(group.body.block)
            raiser.build.return_([])
            made.append(group)
            builder.call(group.symbol, arguments, [])
        else:
            raiser = Raiser(file, functions, plan, builder, body, body.args[0], arguments[-1])
            _bind(raiser, entry, arguments)
            raiser.finish(body)
        builder.yield_([])
    builder.region(body, [], blocks=arguments[-1], kind="spmd", name_hint=entry.sym_name.data)
    builder.return_([])
    return Program(ModuleOp([*made, op], {"name": StringAttr(entry.sym_name.data)}))


def _bind(raiser: Raiser, entry: FuncOp, arguments: Sequence[SSAValue]) -> None:
    for source, target in zip(entry.body.block.args, arguments):
        raiser.values[source] = Pointer(target, 0, source.type.data.element) if isinstance(source.type, PtrType) else target
    sides.run_entry(raiser, entry)


def _name_of(op: PtoOp) -> str | None:
    """What errors call the tile that an op makes; the reader keeps names of the text only without their numbers."""
    made = op.results[0] if op.results else op.operands[-1] if op.operands else None
    return f"tile {made.type.data.rows}x{made.type.data.cols}" if made is not None and isinstance(made.type, TileBufType) else None


@dataclass
class Raiser:
    """Builds the body of a kernel, op by op."""

    file: PtoFile
    functions: Functions
    plan: StoragePlan
    build: Builder
    top: Block
    block_index: SSAValue | None = None
    block_count: SSAValue | None = None
    """Where the surroundings do not say them, the code asks."""
    values: dict[SSAValue, object] = field(default_factory=dict[SSAValue, object])
    contents: dict[Cell, SSAValue | None] = field(default_factory=dict[Cell, "SSAValue | None"])
    core: Core = field(default_factory=Core)
    prologue: list[Operation] = field(default_factory=list[Operation])
    """Ops that must come before everything else: memory at fixed addresses."""
    depth: int = 0
    """How many loops are around the current op."""
    touched: set[Cell] | None = None
    """While a body is tried out: the variables it overwrites."""
    windows: dict[tuple[object, ...], SSAValue] = field(default_factory=dict[tuple[object, ...], SSAValue])
    made: list[d.FuncOp] = field(default_factory=list[d.FuncOp])
    """Functions of the sides that run side by side."""
    crossing: bool = False
    """Whether tiles go from side to side."""
    fifos: dict[object, int] = field(default_factory=dict[object, int])
    length: int = 0
    calls: list[FuncOp] = field(default_factory=list[FuncOp])
    """The functions being followed, the current one last."""

    @property
    def in_loop(self) -> bool:
        return self.depth > 0

    @contextmanager
    def at_top(self) -> Generator[None]:
        """Build ops for the prologue."""
        block = Block()
        with self.build.at(block):
            yield
        made = list(block.ops)
        for op in made:
            op.detach()
        self.prologue += made

    def finish(self, block: Block) -> None:
        """Put the prologue in front."""
        for op in reversed(self.prologue):
            if block.first_op is not None:
                block.insert_op_before(op, block.first_op)
            else:
                block.add_op(op)

    def place(self, row: str) -> SSAValue:
        """Which block, or which lane, this is."""
        return self.build.apply(ops.table()[row], min(ops.table()[row].levels), {})[0]

    # statements -------------------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> list[object]:
        """Raise a body; what its terminator passes on."""
        for op in block.ops:
            if op.name in ("func.return", "scf.yield", "scf.condition"):
                return [self.held(operand) for operand in op.operands]
            with self.build.spanning(self.file.span(op)):
                self.op(op)
        return []

    def op(self, op: Operation) -> None:
        self.length += 1
        if self.length > _LONGEST:
            raise NotRaisable(f"more than {_LONGEST} ops when its calls are followed")
        if isinstance(op, PtoOp):
            self.pto(op)
        elif op.name.startswith("arith."):
            if isinstance(op.results[0].type, VectorType):
                return  # Where a merge would note how far it came: nothing reads that.
            if op.name == "arith.select" and not isinstance(self.held(op.operands[1]), SSAValue):
                control.select(self, op)
            else:
                self.values[op.results[0]] = arith(self, op)
        elif isinstance(op, scf.ForOp):
            control.for_(self, op)
        elif isinstance(op, scf.IfOp):
            control.if_(self, op)
        elif isinstance(op, scf.WhileOp):
            control.while_(self, op)
        elif isinstance(op, CallOp):
            sides.call(self, op)
        else:
            raise NotRaisable(op.name)

    def pto(self, op: PtoOp) -> None:
        name, rule = op.row.name, OPS.get(op.row.name)
        if isinstance(op.row.run, Nothing):
            return
        if rule is None and name not in vector.FAMILIES:
            raise NotRaisable(op.name)
        with self.named(_name_of(op)):
            (rule or vector.family)(self, op)

    @contextmanager
    def named(self, name: str | None) -> Generator[None]:
        """What errors at run time call the values that are made inside."""
        outer, self.build.hint = self.build.hint, name
        try:
            yield
        finally:
            self.build.hint = outer

    def written(self, cell: Cell) -> None:
        if self.touched is not None:
            self.touched.add(cell)

    # numbers ----------------------------------------------------------------------------------------------------------------

    def held(self, value: SSAValue | None) -> object:
        """What a value of the file is here."""
        if value is None or value not in self.values:
            raise NotRaisable("a value that cannot be followed")
        return self.values[value]

    def scalar(self, value: SSAValue | None) -> SSAValue:
        found = self.held(value)
        if not isinstance(found, SSAValue):
            raise NotRaisable("a scalar that is none")
        return found

    def number(self, value: SSAValue | None) -> Num:
        """An integer: a constant if it is one, else an INDEX."""
        found = self.scalar(value)
        known = constant_of(found)
        return int(known) if isinstance(known, int) else self.cast(found, INDEX)

    def ssa(self, value: Num) -> SSAValue:
        return self.build.const(value) if isinstance(value, int) else value

    def cast(self, value: SSAValue, dtype: DType) -> SSAValue:
        type = d.type_of(value)
        if type.dtype is dtype:
            return value
        known = constant_of(value)
        if isinstance(known, int) and not isinstance(known, bool) and dtype in (INDEX, INT64):
            return self.build.const(known, dtype)
        return self.apply("cast", "scalar", input=value, target_type=dtype)

    def as_scalar(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self.cast(value, dtype_of(type))

    def plus(self, a: Num, b: Num) -> Num:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return b if a == 0 else a if b == 0 else self.apply("add", "scalar", lhs=self.ssa(a), rhs=self.ssa(b))

    def minus(self, a: Num, b: int) -> Num:
        if isinstance(a, int):
            return a - b
        return a if b == 0 else self.apply("sub", "scalar", lhs=a, rhs=self.ssa(b))

    def times(self, a: Num, b: int) -> Num:
        if isinstance(a, int):
            return a * b
        return a if b == 1 else self.apply("mul", "scalar", lhs=a, rhs=self.ssa(b))

    def least(self, a: Num, b: Num) -> Num:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.apply("minimum", "scalar", lhs=self.ssa(a), rhs=self.ssa(b))

    def exact_quotient(self, value: Num, divisor: int) -> Num:
        """`value` divided by what divides it, which is checked."""
        if isinstance(value, int):
            if value % divisor:
                raise NotRaisable("an address that splits an element")
            return value // divisor
        if divisor == 1:
            return value
        quotient = self.apply("floordiv", "scalar", lhs=value, rhs=self.ssa(divisor))
        self.build.check(self.ssa(self.times(quotient, divisor)), value, "an address that splits an element")
        return quotient

    def within(self, value: Num, upper: int, what: str) -> Num:
        """A number of valid rows or columns that must lie between 0 and `upper`."""
        if isinstance(value, int):
            if not 0 <= value <= upper:
                raise NotRaisable("a valid region that leaves its tile")
            return value
        inside = self.least(value, upper)
        zero = self.build.const(0)
        inside = self.apply("maximum", "scalar", lhs=self.ssa(inside), rhs=zero)
        self.build.check(inside, value, f"the number of valid {what} lies between 0 and {upper}")
        return value

    def demand(self, condition: SSAValue, message: str, kind: str = "assert") -> None:
        """What must hold while the kernel runs."""
        self.build.effect("device_assert", [condition], {"message": message, "kind": kind})

    def valid_slot(self, spec: TileSpec, valid: Region) -> SSAValue | None:
        """Memory for the valid extents of a handle, if the kernel may change them."""
        if not self.plan.changes_valid or spec.valid != (None, None):
            return None
        slot = self.build.create(BufferType((2,), INT64), [])
        for axis, extent in enumerate(valid):
            self.build.write(slot, [self.build.const(axis)], self.cast(self.ssa(extent), INT64))
        return slot

    # tiles ------------------------------------------------------------------------------------------------------------------

    def apply(self, row: str, level: str = "tile", /, **args: ApplyArg) -> SSAValue:
        return self.build.apply(ops.table()[row], level, args)[0]

    def applied(self, row: str, **args: ApplyArg) -> list[SSAValue]:
        return self.build.apply(ops.table()[row], "tile", args)

    def turned(self, value: SSAValue) -> SSAValue:
        shape = d.shaped_type(value).shape
        if 1 in shape and d.shaped_type(value).valid == shape:
            return self.reshaped(value, tuple(n for n in shape[::-1] if isinstance(n, int)))
        return self.apply("transpose", input=value, axis1=0, axis2=1)

    def reshaped(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        if d.shaped_type(value).shape == shape:
            return value
        return self.apply("reshape", input=value, shape=[self.build.const(size) for size in shape])

    def permuted(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """A tile with its dims in another order, by swaps."""
        now = list(range(len(order)))
        for place, axis in enumerate(order):
            other = now.index(axis)
            if other != place:
                value = self.apply("transpose", input=value, axis1=place, axis2=other)
                now[place], now[other] = now[other], now[place]
        return value

    def cut(self, value: SSAValue, row: Num, col: Num, shape: tuple[int, int]) -> SSAValue:
        """A box of a tile."""
        if 0 in shape:
            raise NotRaisable("an empty region")
        if d.shaped_type(value).shape == shape:
            return value
        return self.apply("slice", input=value, shape=[self.build.const(size) for size in shape], offset=[self.ssa(row), self.ssa(col)])

    def load(self, buffer: SSAValue, region: Region, shape: tuple[int, int]) -> SSAValue:
        """The first cells of a buffer: a tile of exactly the region where it is known, else of `shape`, valid in the region."""
        if 0 in region:
            raise NotRaisable("an empty region")
        extents = tuple(have if isinstance(have, int) else size for have, size in zip(region, shape))
        valid = tuple(have if isinstance(have, int) else ANY for have in region)
        zero = self.build.const(0)
        type = TileType(extents, d.shaped_type(buffer).dtype, valid, "Vec")
        return self.build.load(buffer, [zero, zero], [self.ssa(size) for size in region], type)

    def load_whole(self, buffer: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        zeros = [self.build.const(0)] * len(shape)
        return self.build.load(buffer, zeros, [self.build.const(size) for size in shape], TileType(shape, d.shaped_type(buffer).dtype, shape, "Vec"))

    def store(self, value: SSAValue, buffer: SSAValue, atomic: bool, at: Sequence[Num] = ()) -> None:
        offsets = at or (0,) * d.shaped_type(buffer).rank
        self.build.store(value, buffer, [self.ssa(offset) for offset in offsets], atomic=atomic)

    def strided(self, base: Pointer, extents: Sequence[Num], strides: Sequence[Num], type: BufferType) -> SSAValue:
        """A strided view of global memory; the same one again within a block is the same value."""
        key = (self.build.block, base.buffer, base.offset, tuple(extents), tuple(strides), type)
        if key not in self.windows:
            self.windows[key] = self.build.strided(base.buffer, self.ssa(base.offset), [self.ssa(n) for n in extents], [self.ssa(n) for n in strides], type)
        return self.windows[key]

    def window(self, buffer: SSAValue, offsets: Sequence[Num], sizes: Sequence[Num], type: BufferType, drop: Sequence[int] = ()) -> SSAValue:
        """A window of a buffer; the same one again within a block is the same value."""
        key = (self.build.block, buffer, tuple(offsets), tuple(sizes), type, tuple(drop))
        if key not in self.windows:
            made = self.build.window(buffer, [self.ssa(n) for n in offsets], [self.ssa(n) for n in sizes], type, drop)
            assert isinstance(made.owner, d.WindowOp)
            made.owner.attributes.update(d.statics({"help": "keep 0 <= offset and offset + size <= extent"}))
            self.windows[key] = made
        return self.windows[key]

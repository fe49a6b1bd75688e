"""PTO → tile IR: kernels whose tiles are plain variables become values, and run through the compiler instead of the interpreter.

A tile of level 2 has memory of its own, so it is a variable that ops overwrite: its content after each op is a new value, carried by
loops and joined by branches. What does not fit (aliases, handles as values, partly valid tiles, FIFOs, ops with another meaning for NaN)
is left to the interpreter: `NotRaisable` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.dtypes import BOOL, INDEX
from tilejit.frontend.pto_raise_ops import OPS, Cell, NotRaisable, Pointer, cell_of, dtype_of
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import ApplyArg, Builder, function
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.pto.module import PtoFile, kernel_kind
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import constant
from tilejit.tile_ir.pto.spec import Nothing
from tilejit.tile_ir.pto.types import PtrType
from tilejit.types.values import BufferType, ScalarType, TileType, ValueType

GRID = "grid__"
"""Name of the last parameter: how many blocks to run."""


_BINARY = {"tadd": "add", "tsub": "sub", "tmul": "mul", "tadds": "add", "tsubs": "sub", "tmuls": "mul"}
_UNARY = {"texp": "exp", "tlog": "log", "tsqrt": "sqrt", "trsqrt": "rsqrt", "trecip": "recip", "tneg": "neg", "tabs": "abs"}
_EXPAND = {
    f"t{axis}expand{suffix}": f"{axis}_expand_{suffix}" for axis in ("row", "col") for suffix in ("add", "sub", "mul", "div", "expdif")
}  # fmt: skip
_INTEGER = {
    "tmax": "maximum", "tmin": "minimum", "tmaxs": "maximum", "tmins": "minimum", "tand": "and_", "tor": "or_", "txor": "xor",
    "tands": "and_", "tors": "or_", "txors": "xor", "tshl": "shl", "tshr": "shr", "tshls": "shl", "tshrs": "shr",
}  # fmt: skip
"""Ops that raise for integers: floats have no bits, and PTO's maximum of a NaN is another one."""
_ARITH = {"addi": "add", "subi": "sub", "muli": "mul", "addf": "add", "subf": "sub", "mulf": "mul", "divf": "div", "minsi": "minimum", "maxsi": "maximum"}
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def raise_to_program(file: PtoFile, entry: FuncOp, names: Sequence[str]) -> Program:
    """The entry as a program with one parameter more than the file has: the number of blocks."""
    if kernel_kind(entry) is not None:
        raise NotRaisable("functions of one kind of core")
    written = _written_pointers(entry)
    params: list[tuple[str, ValueType, str]] = []
    for number, (name, argument) in enumerate(zip(names, entry.body.block.args, strict=True)):
        if isinstance(argument.type, PtrType):
            element = argument.type.data.element
            if element.dtype is None or element.dtype.bits < 8:
                raise NotRaisable(f"pointers to {element}")
            params.append((name, BufferType((f"n{number}",), element.dtype), "InOut" if argument in written else "In"))
        else:
            params.append((name, ScalarType(dtype_of(argument.type)), "In"))
    params.append((GRID, ScalarType(INDEX), "In"))
    op, arguments = function(entry.sym_name.data, "orchestration", params)
    builder = Builder(op.body.block)
    body = Block(arg_types=[d.IRType(ScalarType(INDEX))])
    raiser = Raiser(file, builder, {}, {}, body.args[0], arguments[-1])
    raiser.place(entry)
    for source, target in zip(entry.body.block.args, arguments):
        raiser.values[source] = Pointer(target, None) if isinstance(source.type, PtrType) else target
    with builder.at(body):
        raiser.block(entry.body.block)
        builder.yield_([])
    builder.region(body, [], blocks=arguments[-1], kind="spmd", name_hint=entry.sym_name.data)
    builder.return_([])
    module = ModuleOp([op], {"name": StringAttr(entry.sym_name.data)})
    return Program(module)


def _written_pointers(entry: FuncOp) -> set[SSAValue]:
    """The parameters that the kernel stores through."""
    found: set[SSAValue] = set()
    for op in entry.body.walk():
        if isinstance(op, PtoOp) and op.row.name in ("tstore", "store_scalar"):
            value = op.operand("dst") if op.row.name == "tstore" else op.operand("ptr")
            while value is not None and isinstance(value.owner, PtoOp):
                value = value.owner.operand("source") or value.owner.operand("ptr")
            if value is not None:
                found.add(value)
    return found


@dataclass
class Raiser:
    """Builds the body of a kernel, op by op."""

    file: PtoFile
    build: Builder
    values: dict[SSAValue, object]
    contents: dict[Cell, SSAValue | None]
    block_index: SSAValue
    block_count: SSAValue

    def place(self, entry: FuncOp) -> None:
        """Tiles with addresses: those at one address are one variable, when nothing else reaches into its bytes."""
        placed: dict[tuple[str, int], Cell] = {}
        for op in entry.body.walk():
            if isinstance(op, PtoOp) and op.row.name == "alloc_tile" and op.operand("addr") is not None:
                address, made = constant(op.operand("addr")), cell_of(op)
                if address is None:
                    raise NotRaisable("computed addresses")
                cell = placed.setdefault((made.spec.loc, address), made)
                if cell.spec != made.spec:
                    raise NotRaisable("tiles of different types at one address")
                self.values[op.results[0]] = cell
                self.contents[cell] = None
        spans = sorted((loc, address, address + cell.spec.bytes) for (loc, address), cell in placed.items())
        if any(a[0] == b[0] and a[2] > b[1] for a, b in pairwise(spans)):
            raise NotRaisable("tiles whose bytes overlap")

    def block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, ReturnOp | scf.YieldOp):
                return
            with self.build.spanning(self.file.span(op)):
                self.op(op)

    def op(self, op: Operation) -> None:
        if isinstance(op, PtoOp):
            self.pto(op)
        elif op.name.startswith("arith."):
            self.values[op.results[0]] = self.arith(op)
        elif isinstance(op, scf.ForOp):
            self.for_(op)
        elif isinstance(op, scf.IfOp):
            self.if_(op)
        else:
            raise NotRaisable(op.name)

    # access -----------------------------------------------------------------------------------------------------------------

    def scalar(self, value: SSAValue | None) -> SSAValue:
        found = self.values.get(value) if value is not None else None
        if not isinstance(found, SSAValue):
            raise NotRaisable("a scalar that is none")
        return found

    def index(self, value: SSAValue | None) -> SSAValue:
        """A number as an INDEX."""
        found = self.scalar(value)
        type = d.type_of(found)
        assert isinstance(type, ScalarType)
        return found if type.dtype is INDEX else self.apply("cast", "scalar", input=found, target_type=INDEX)

    def cell(self, op: PtoOp, name: str) -> Cell:
        value = op.operand(name)
        found = self.values.get(value) if value is not None else None
        if not isinstance(found, Cell):
            raise NotRaisable(f"`{name}` of {op.name} is no plain tile")
        return found

    def content(self, op: PtoOp, name: str) -> SSAValue:
        found = self.contents[self.cell(op, name)]
        if found is None:
            raise NotRaisable("a tile that is read before it is written")
        return found

    def write(self, op: PtoOp, name: str, value: SSAValue) -> None:
        cell = self.cell(op, name)
        type = d.type_of(value)
        if not isinstance(type, TileType) or type.shape != cell.spec.shape or type.dtype is not cell.dtype or type.valid != type.shape:
            raise NotRaisable(f"{op.name} makes {type}")
        self.contents[cell] = value

    def apply(self, row: str, level: str, **args: ApplyArg) -> SSAValue:
        return self.build.apply(ops.table()[row], level, args)[0]

    def turned(self, value: SSAValue) -> SSAValue:
        return self.apply("transpose", "tile", input=value, axis1=0, axis2=1)

    # scalars ------------------------------------------------------------------------------------------------------------------

    def arith(self, op: Operation) -> SSAValue:
        name = op.name.removeprefix("arith.")
        result = dtype_of(op.results[0].type)
        if name == "constant":
            value = op.properties.get("value")
            if not isinstance(value, IntegerAttr | FloatAttr):
                raise NotRaisable("constants that are no numbers")
            number = value.value.data
            return self.build.const(bool(number) if result is BOOL else number, result)
        if name == "index_cast" or (name in ("sitofp", "extsi") and dtype_of(op.operands[0].type) is not BOOL):
            return self.apply("cast", "scalar", input=self.scalar(op.operands[0]), target_type=result)
        if name in _ARITH:
            return self.apply(_ARITH[name], "scalar", lhs=self.scalar(op.operands[0]), rhs=self.scalar(op.operands[1]))
        if name == "cmpi":
            predicate = op.properties.get("predicate")
            number = int(predicate.value.data) if isinstance(predicate, IntegerAttr) else 99
            if number < 6 and dtype_of(op.operands[0].type) is not BOOL:
                return self.apply("cmp", "scalar", lhs=self.scalar(op.operands[0]), rhs=self.scalar(op.operands[1]), cmp_type=number)
        raise NotRaisable(op.name)

    # control flow -----------------------------------------------------------------------------------------------------------

    def _touched(self, region_op: Operation) -> list[Cell]:
        """The tiles from outside that a body overwrites."""
        found: dict[Cell, None] = {}
        for op in region_op.walk():
            if isinstance(op, PtoOp) and op.row.destination_style is not None:
                for slot in op.row.destination_style[2]:
                    cell = self.values.get(op.groups[slot.name][0]) if op.groups[slot.name] else None
                    if isinstance(cell, Cell):
                        found[cell] = None
        return list(found)

    def _filled(self, cells: Sequence[Cell]) -> list[SSAValue]:
        """Their contents; what was never written may be anything, so zero."""
        out: list[SSAValue] = []
        for cell in cells:
            value = self.contents[cell]
            if value is None:
                shape = [self.build.const(size) for size in cell.spec.shape]
                zero = self.build.const(0, cell.dtype)
                value = self.apply("full", "tile", shape=shape, dtype=cell.dtype, value=zero)
            out.append(value)
        return out

    def _body(self, block: Block, inner: Block, cells: Sequence[Cell], start: Sequence[SSAValue]) -> list[SSAValue]:
        """Run a body in its own block; the contents of the touched tiles after it."""
        saved = dict(self.contents)
        self.contents.update(zip(cells, start))
        with self.build.at(inner):
            self.block(block)
            after = [self.contents[cell] for cell in cells]
            assert all(value is not None for value in after)
            self.build.yield_([value for value in after if value is not None])
        self.contents = saved
        return [value for value in after if value is not None]

    def for_(self, op: scf.ForOp) -> None:
        if op.iter_args:
            raise NotRaisable("values carried by a loop")
        cells = self._touched(op)
        inits = self._filled(cells)
        types = [cell.type for cell in cells]
        body = Block(arg_types=d.ir_types([ScalarType(INDEX), *types]))
        self.values[op.body.block.args[0]] = body.args[0]
        self._body(op.body.block, body, cells, list(body.args[1:]))
        made = self.build.for_(self.index(op.lb), self.index(op.ub), self.index(op.step), inits, body, types)
        self.contents.update(zip(cells, made.results))

    def if_(self, op: scf.IfOp) -> None:
        if op.results:
            raise NotRaisable("values chosen by a branch")
        cells = self._touched(op)
        start = self._filled(cells)
        then, orelse = Block(), Block()
        self._body(op.true_region.block, then, cells, start)
        if op.false_region.blocks:
            self._body(op.false_region.block, orelse, cells, start)
        else:
            with self.build.at(orelse):
                self.build.yield_(start)
        made = self.build.if_(self.scalar(op.cond), then, orelse, [cell.type for cell in cells])
        self.contents.update(zip(cells, made.results))

    # ops of the table ---------------------------------------------------------------------------------------------------------

    def pto(self, op: PtoOp) -> None:
        name = op.row.name
        if isinstance(op.row.run, Nothing):
            return
        if name in _BINARY or name in _EXPAND or name in ("tdiv", "tdivs"):
            self._binary(op, _BINARY.get(name) or _EXPAND.get(name) or "div")
        elif name in _INTEGER and not self.cell(op, "d").dtype.is_float:
            self._binary(op, _INTEGER[name])
        elif name.startswith("section."):
            self.block(op.regions[0].block)
        elif name in _UNARY:
            self.write(op, "d", self.apply(_UNARY[name], "tile", input=self.content(op, "a")))
        elif name in OPS:
            OPS[name](self, op)
        else:
            raise NotRaisable(op.name)

    def _binary(self, op: PtoOp, row: str) -> None:
        assert op.row.destination_style is not None
        slots = [slot.name for slot in op.row.destination_style[0] if not slot.scratch]
        target = self.cell(op, "d")
        if not target.dtype.is_float and row in ("div", "row_expand_div", "col_expand_div"):
            raise NotRaisable("integer division")
        if row.startswith("row_expand") and self.cell(op, "b").spec.cols != 1:
            raise NotRaisable("a repeated row operand")
        operands = [self.content(op, slot) if isinstance(self.values.get(op.groups[slot][0]), Cell) else self.scalar(op.operand(slot)) for slot in slots]
        self.write(op, "d", self.apply(row, "tile", lhs=operands[0], rhs=operands[1]))

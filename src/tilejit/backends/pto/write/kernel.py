"""Tile IR → PTO text: one function per kernel, level 2, in the subset that both generations of the format read.

Small values are tiles, padded to rows of 32 bytes with the valid region saying what counts. Values that do not fit into the local
memories are computed block by block where they are used, or pass through the workspace, global memory that a kernel gets as further
arguments. What PTO has no op for is an error that names the op and its line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.backends.pto.write.blocks import Lazy, Tile
from tilejit.backends.pto.write.control import ControlWriter
from tilejit.backends.pto.write.cube import batched
from tilejit.backends.pto.write.fit import overflow
from tilejit.backends.pto.write.memory import Memory, Part, Region, Workspace
from tilejit.backends.pto.write.move import stacked_columns
from tilejit.backends.pto.write.plan import Plan, family, is_batched, is_lazy_fill, root_of
from tilejit.backends.pto.write.rules import IN_MEMORY, Written, rule_of
from tilejit.backends.pto.write.scalars import converted, dtype_of, extent_of, scalar, scalar_as
from tilejit.backends.pto.write.text import Extent, element_name, hint_of, op_name, scalar_name, stored
from tilejit.backends.pto.write.valid import valid_after
from tilejit.backends.pto.write.vector import element_of
from tilejit.dtypes import BOOL, DType
from tilejit.errors import ResourceError, Span, UnsupportedFeatureError
from tilejit.ops import table
from tilejit.ops.facts import Effect
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.planes import KERNEL_KINDS
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.types.values import BufferType, ScalarType, TileType

_DEPTH = 50_000
_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125)
"""The parts of a local memory that one tile may take, tried in order until all tiles that live at once fit."""


@dataclass(frozen=True)
class KernelText:
    """A kernel as PTO text; `lines` has for every line of it where it came from."""

    name: str
    text: str
    lines: tuple[Span | None, ...]
    extents: tuple[str, ...]
    workspaces: tuple[Workspace, ...]
    parameters: tuple[str, ...] = ()

    @staticmethod
    def read(text: str, abi: str) -> KernelText:
        """What `text` and `abi` were written from, without the lines."""
        fields = json.loads(abi)
        spaces = tuple(Workspace(item["name"], _dtype(item["element"]), tuple(item["elements_per_block"])) for item in fields["workspaces"])
        return KernelText(fields["function"], text, (), tuple(fields["extents"]), spaces, tuple(fields["parameters"]))

    def abi(self) -> str:
        """How the function is called, and which Python every line comes from, as JSON."""
        spaces = [{"name": space.name, "element": element_name(space.dtype), "elements_per_block": list(space.dims)} for space in self.workspaces]
        lines = {number: str(span) for number, span in enumerate(self.lines, 1) if span is not None}
        fields = {"function": self.name, "parameters": self.parameters, "extents": self.extents, "workspaces": spaces, "lines": lines}
        return json.dumps(fields, indent=1) + "\n"


def _dtype(element: str) -> DType:
    found = ELEMENTS[element].dtype
    assert found is not None
    return found


def emit_program(program: Program, arch: str) -> dict[str, KernelText]:
    """The text of every kernel of a lowered program, by name."""
    kernels = [function for function in program.functions.values() if function.static("kind") in KERNEL_KINDS]
    for function in kernels:
        for op in function.walk():
            rule = rule_of(table()[op.op]) if isinstance(op, d.ApplyOp | d.EffectOp) and op.op in table() else None
            if isinstance(op, d.ApplyOp | d.EffectOp) and rule is not None and rule.hole is not None:
                help = "keep this program on the platform cpu; hand-written PTO can say it (docs/pto.md)"
                raise UnsupportedFeatureError(f"`{op.op}`: {rule.hole}", span=op.span, help=help)
    return {function.symbol: emit_kernel(function, arch) for function in kernels}


def emit_kernel(function: d.FuncOp, arch: str) -> KernelText:
    """The text of one kernel; tiles become smaller until they fit into the local memories together."""
    for share in _SHARES:
        writer = KernelWriter(function, arch, Plan(function, arch, share, IN_MEMORY))
        with _deep_recursion():
            made = writer.write()
        problem = overflow(writer.body, writer.capacity)
        if problem is None:
            return made
    span, loc, needed = problem  # pyright: ignore[reportPossiblyUnboundVariable]
    raise ResourceError(
        f"{function.symbol}: the tiles that live at once need {needed} bytes of the {loc} memory of {arch}, which has {writer.capacity[loc]}",  # pyright: ignore[reportPossiblyUnboundVariable]
        span=span, help="load smaller tiles, or split the kernel",
    )  # fmt: skip


@contextmanager
def _deep_recursion() -> Generator[None]:
    """A block is computed from blocks of its operands, and those from theirs: as deep as the longest chain of ops."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


class KernelWriter(ControlWriter):
    """Writes one kernel function."""

    def write(self) -> KernelText:
        try:
            self.parameters()
        except UnsupportedFeatureError as error:
            raise error.located(self.function.span) if error.span is None and self.function.span is not None else error from None
        self.write_block(self.function.body.block)
        for space in self.workspaces:
            self.arguments.append(f"%{space.name}: !pto.ptr<{element_name(space.dtype)}>")
        text, lines = self.assembled(self._head(), ", ".join(self.arguments))
        return KernelText(self.function.symbol, text, tuple(lines), tuple(self.symbols), tuple(self.workspaces), self.function.names)

    def _head(self) -> list[str]:
        """How the function is called, in words."""
        out = [f"// {self.function.symbol}({', '.join(self.function.names)})"]
        if self.symbols:
            out.append(f"// extents, after the tensors: {', '.join(self.symbols)}")
        out += [f"// workspace {space.name}: [{', '.join(map(str, space.dims))}] {element_name(space.dtype)} for each block" for space in self.workspaces]
        return out

    def write_block(self, block: Block) -> list[SSAValue]:
        for op in block.ops:
            if isinstance(op, d.YieldOp | d.ReturnOp | d.ConditionOp):
                return list(op.operands)
            if isinstance(op, d.ConstOp):
                # Constants are written where they are used.
                continue
            writer = _WRITERS.get(type(op))
            if writer is None:
                raise self.refuse(op, op_name(op))
            with self.at(op):
                try:
                    writer(self, op)
                except UnsupportedFeatureError as error:
                    raise error if error.span is not None or self.span is None else error.located(self.span) from None
        return []

    # values ---------------------------------------------------------------------------------------------------------------------------

    def compute(self, op: Operation, region: Region) -> Tile:
        with self.at(op):
            if isinstance(op, d.LoadOp):
                return self.load(self.boxes[op.result][0], region, op, hint_of(op.result))
            assert isinstance(op, d.ApplyOp)
            rule = self._rule(op)
            if rule.block is None:
                raise self.refuse(op, op_name(op))
            if rule.whole and region != self.whole(op.results[0]):
                raise self.refuse(op, f"{op_name(op)} of a value larger than a tile")
            return rule.block(self, op, region)

    def _rule(self, op: d.ApplyOp) -> Written:
        rule = rule_of(table()[op.op])
        if rule is None:
            raise self.refuse(op, op_name(op))
        return rule

    def apply(self, op: d.ApplyOp) -> None:
        value, rule = op.results[0], self._rule(op)
        if rule.array is not None:
            rule.array(self, op)
            return
        if isinstance(d.type_of(value), ScalarType):
            if rule.scalar is None:
                raise self.refuse(op, f"the scalar op {op_name(op)} of {dtype_of(value)}")
            self.scalars[value] = rule.scalar(self, op)
            return
        if len(op.results) > 1 and rule.many is not None:
            self.values.update(zip(op.results, rule.many(self, op)))
            return
        if rule.block is None and rule.memory is None:
            raise self.refuse(op, op_name(op))
        valid = self._valid(op)
        self.values[value] = Lazy(valid, ())
        copy = (batched if family(op) == "matmul" else stacked_columns) if is_batched(op) else rule.memory
        if value in self.plan.lazy and (made := copy or rule.large) is not None:
            self.memories[value] = made(self, op)
        elif value in self.plan.lazy or is_lazy_fill(op):
            self.values[value] = Lazy(valid, self.seen(value))
            if value in self.plan.stored:
                # What is read again after its memory changed, or many times, is kept in the workspace.
                self.memories[value] = self.materialised(value, op)
        elif copy is not None:
            self.values[value] = self.load(copy(self, op), self.whole(value), op, hint_of(value))
        else:
            self.values[value] = self.compute(op, self.whole(value))

    def _valid(self, op: d.ApplyOp) -> tuple[Extent, Extent]:
        """The valid region of a result, as a matrix."""
        value, type = op.results[0], d.type_of(op.results[0])
        assert isinstance(type, TileType)
        if type.valid == type.shape:
            return self.matrix(value)
        return self.known_valid(type, op) or valid_after(self, op)

    # memory ---------------------------------------------------------------------------------------------------------------------------

    def load_op(self, op: d.LoadOp) -> None:
        type = d.type_of(op.result)
        assert isinstance(type, TileType)
        memory = self.memories[op.buffer]
        offsets = tuple(extent_of(self, value, op) for value in op.offsets)
        valid = [extent_of(self, value, op) for value in op.valid]
        if op.static("clamp"):
            valid = [self.least(size, self.most(self.sub(extent, offset), 0), "inside") for size, extent, offset in zip(valid, memory.shape, offsets)]
        box = self.box(memory, self.starts(offsets, valid, memory.shape), tuple(valid))
        self.check_rows(type.shape, valid, op)
        rows, cols = self.product(valid[:-1]), valid[-1]
        self.boxes[op.result] = (box, self.versions.get(box.root, 0))
        self.values[op.result] = Lazy((rows, cols), self.seen(op.result))
        if op.result in self.plan.stored:
            self.memories[op.result] = self.materialised(op.result, op)
        elif op.result not in self.plan.lazy:
            self.values[op.result] = self.load(box, self.whole(op.result), op, hint_of(op.result))

    def store_op(self, op: d.StoreOp) -> None:
        target, value = self.memories[op.buffer], op.value
        offsets = [extent_of(self, offset, op) for offset in op.offsets]
        type = d.shaped_type(value)
        rank, valid = max(1, len(type.shape)), self.valid_of(value)
        if rank <= 2:
            sizes: list[Extent] = [*valid][2 - rank :] if type.shape else [1]
        else:
            sizes = [self.extent(value, axis) for axis in range(rank)]
            sizes = [valid[0] if rank == 2 else sizes[0], *sizes[1:-1], valid[1]]
        leading = len(target.kept) - rank
        wanted = (*([1] * leading), *sizes)
        box = self.box(target, self.starts(offsets, wanted, target.shape), wanted, tuple(range(leading)))
        atomic = bool(op.static("atomic"))
        found = self.values.get(value)
        whole = Region(Part(0, 0, valid[0]), Part(0, 0, valid[1]))
        if isinstance(found, Tile) and value not in self.memories:
            self.store(self.converted(found, value, box.dtype, op), box, whole, op, atomic)
            return
        if isinstance(type, BufferType) and root_of(value) is root_of(op.buffer):
            self._move_inside(value, box, op)
            return
        self.copy(value, box, op, atomic)

    def _move_inside(self, value: SSAValue, box: Memory, op: d.StoreOp) -> None:
        """One part of a tensor onto another part of it: through the workspace, because they may overlap."""
        type = d.shaped_type(value)
        kept = self.workspace(type.dtype, type.shape, op, "moved")
        self.copy(value, kept, op)
        self.memories[value], before = kept, self.memories[value]
        self.copy(value, box, op)
        self.memories[value] = before

    def window(self, op: d.WindowOp) -> None:
        memory, drop = self.memories[op.buffer], op.drop
        offsets = tuple(extent_of(self, value, op) for value in op.offsets)
        extents = [extent_of(self, value, op) for value in op.extents]
        if op.static("clamp"):
            extents = [self.least(size, self.most(self.sub(extent, offset), 0)) for size, extent, offset in zip(extents, memory.shape, offsets)]
        self.memories[op.result] = self.box(memory, self.starts(offsets, extents, memory.shape), tuple(extents), tuple(int(axis) for axis in drop))

    def view(self, op: d.ViewOp) -> None:
        type, memory = d.shaped_type(op.result), self.memories[op.buffer]
        if stored(type.dtype) is not memory.dtype:
            rule = "a PTO pointer has one element type: load a tile and reinterpret that"
            raise self.refuse(op, f"a view of {memory.dtype} as {type.dtype}", rule)
        given = iter(op.extents)
        shape = tuple(dim if isinstance(dim, int) else self.symbols[dim] if dim in self.symbols else extent_of(self, next(given), op) for dim in type.shape)
        self.memories[op.result] = self.reshaped(memory, shape, op)

    def create(self, op: d.CreateOp) -> None:
        type = d.buffer_type(op.result)
        memory = self.workspace(type.dtype, type.shape, op, hint_of(op.result) or "local")
        self.memories[op.result] = memory
        init = op.static("init")
        if not isinstance(init, int | float):
            return
        rows, cols = self.matrix(op.result)
        sizes = self.plan.block(op.result, tuple(v if isinstance(v, int) else None for v in (rows, cols)))
        with self.stretch(rows, sizes[0], "row") as r, self.stretch(cols, sizes[1], "col") as c:
            tile = self.tile(r.size, c.size, (r.count, c.count), type.dtype)
            self.dest("texpands", [(self.constant(init, type.dtype), scalar_name(type.dtype))], tile)
            self.store(tile, memory, Region(r, c), op)

    def read(self, op: d.ReadOp) -> None:
        indices = tuple(extent_of(self, value, op) for value in op.indices)
        hint, dtype = hint_of(op.result), dtype_of(op.result)
        if op.source in self.memories:
            memory = self.memories[op.source]
            self.scalars[op.result] = converted(self, self.load_scalar(memory, indices, hint), memory.dtype, dtype)
            return
        found, shape = self.values.get(op.source), d.shaped_type(op.source).shape
        row: Extent = 0
        for index, dim in zip(indices[:-1], shape):
            row = self.add(self.mul(row, dim if isinstance(dim, int) else self.symbols[dim]), index)
        col = indices[-1] if indices else 0
        if isinstance(found, Tile):
            tile = self.pull(op.source, self.whole(op.source), op)
            offset = self.add(self.mul(row, tile.spec.cols), col)
        else:
            tile, offset = self.pull(op.source, Region(Part(row, 1, 1), Part(col, 1, 1)), op), 0
        self.scalars[op.result] = converted(self, element_of(self, tile, offset, stored(dtype), hint), stored(dtype), dtype)

    def write_op(self, op: d.WriteOp) -> None:
        memory = self.memories[op.buffer]
        indices = tuple(extent_of(self, value, op) for value in op.indices)
        self.store_scalar(memory, indices, scalar_as(self, op.value, memory.dtype, op))
        self.touch(memory)

    def atomic(self, op: d.AtomicOp) -> None:
        raise self.refuse(op, f"{op.static('atomic')} of one element", "add tiles: pl.store(tile, offsets, tensor, atomic=pl.AtomicType.Add)")

    def dim(self, op: d.DimOp) -> None:
        self.scalars[op.result] = self.ssa(self.extent(op.source, op.axis))

    def valid(self, op: d.ValidOp) -> None:
        axis, type = op.axis, d.shaped_type(op.source)
        if len(type.shape) > 2:
            raise self.refuse(op, "the valid region of a tile of rank 3 or more")
        self.scalars[op.result] = self.ssa(self.valid_of(op.source)[axis + 2 - len(type.shape)])

    def check(self, op: d.CheckOp) -> None:
        """Two extents that must agree, or the kernel stops."""
        left, right = extent_of(self, op.left, op), extent_of(self, op.right, op)
        if left != right:
            self._trap_unless(self.define(f"arith.cmpi eq, {self.ssa(left)}, {self.ssa(right)} : index"), f"extents differ: {op.static('message', '')}")

    def _trap_unless(self, condition: str, message: str) -> None:
        """Stop the kernel; the message is a comment, which our own reader keeps."""
        wrong = self.define(f"arith.xori {condition}, {self.constant(True, BOOL)} : i1")
        with self.inside(f"scf.if {wrong} {{"):
            self.line(f"pto.trap // error: {' '.join(message.split())}")

    def effect(self, op: d.EffectOp) -> None:
        if op.op == "device_assert":
            self._trap_unless(scalar_as(self, op.args[0], BOOL, op), str(op.statics.get("message") or "device_assert failed"))
        elif op.op == "print":
            self._print(op)
        elif op.op not in table() or (rule := rule_of(table()[op.op])) is None:
            raise self.refuse(op, op_name(op))
        elif rule.statement is not None:
            rule.statement(self, op)
        elif ops.facts(op.op).effect is Effect.Order:
            self.line("pto.barrier <PIPE_ALL>")
        else:
            raise self.refuse(op, op_name(op))

    def _print(self, op: d.EffectOp) -> None:
        for value in op.args:
            if isinstance(d.type_of(value), ScalarType):
                self.line(f'pto.print ins("{hint_of(value) or "value"} = ", {scalar(self, value, op)} : {scalar_name(dtype_of(value))})')
            else:
                tile = self.pull(value, self.whole(value), op)
                self.line(f"pto.tprint ins({tile.name} : {tile.type})")


_WRITERS: dict[type, Callable[..., None]] = {
    d.ApplyOp: KernelWriter.apply,
    d.LoadOp: KernelWriter.load_op,
    d.StoreOp: KernelWriter.store_op,
    d.WindowOp: KernelWriter.window,
    d.ViewOp: KernelWriter.view,
    d.CreateOp: KernelWriter.create,
    d.ReadOp: KernelWriter.read,
    d.WriteOp: KernelWriter.write_op,
    d.AtomicOp: KernelWriter.atomic,
    d.DimOp: KernelWriter.dim,
    d.ValidOp: KernelWriter.valid,
    d.CheckOp: KernelWriter.check,
    d.EffectOp: KernelWriter.effect,
    d.ForOp: KernelWriter.for_,
    d.IfOp: KernelWriter.if_,
    d.WhileOp: KernelWriter.while_,
}

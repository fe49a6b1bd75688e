"""Makes a kernel of each region, and of each run of operators on the control plane; values that cross become buffers.

Afterwards the control plane only computes scalars, allocates, loops, reads single elements and launches kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tilejit import ops
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.extents import extent_of, extents_of
from tilejit.passes.kernels import Kernel, Reload, direction, name_hint
from tilejit.passes.leaving import Leaving
from tilejit.passes.rewriting import Before, has_uses, is_buffer, is_neutral, is_operator, remove, splice
from tilejit.passes.valid import ValidExtents
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import ancestor_in
from tilejit.tile_ir.build import Builder
from tilejit.tile_ir.names import name_of, unique_name
from tilejit.tile_ir.planes import CONTROL_KINDS, KERNEL_KINDS, called_inside
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType, TileType


def outline(program: Program) -> None:
    """Outline every function of the control plane; what it calls returns through parameters."""
    inner = called_inside(program.functions)
    entries = program.entries
    for name, function in program.functions.items():
        if function.static("kind") == "group":
            _Outliner(program, function).run()  # Its kernels run side by side, wherever it is called.
        elif name in inner:
            _flatten(function)
        elif function.static("kind") in CONTROL_KINDS:
            _Outliner(program, function).run()
            if name in entries:
                function.attributes["kind"] = d.Static("orchestration")  # It is no longer alone, and stays the entry.


class _Outliner:
    """Rewrites one control-plane function."""

    def __init__(self, program: Program, function: d.FuncOp) -> None:
        self.program = program
        self.function = function
        self.taken = set(program.functions)
        self.count = 0
        self.loads: dict[SSAValue, Reload] = {}
        """Buffers that stand for tiles: how a kernel that uses one gets the tile back."""
        self.valid = ValidExtents(function)
        self.reads: list[SSAValue] = []
        """Scalars that regions handed out."""

    def run(self) -> None:
        self.block(self.function.body.block)
        for value in self.reads:
            _sink(value)

    def block(self, block: Block) -> None:
        run: list[Operation] = []
        for op in list(block.ops):
            if is_operator(op):
                run.append(op)
            elif is_neutral(op):
                if run and isinstance(op, d.DimOp) and self.known_before(op, run):
                    continue
                if not any(operand in _results(run) for operand in op.operands):
                    if run:
                        op.detach()
                        block.insert_op_before(op, run[0])
                elif isinstance(op, d.CreateOp):  # What is written into it must be seen after the run too.
                    self.flush(run, op)
                    run = []
                else:
                    run.append(op)
            else:
                self.flush(run, op)
                run = []
                self.other(op)

    def known_before(self, op: d.DimOp, run: Sequence[Operation]) -> bool:
        """Replace an extent of a result of the run by what it is computed from, where that is known before the run starts."""
        inside = _results(run)
        try:
            extent = extent_of(op.source, op.axis, Before(run[0]), lambda value: value not in inside)
        except UnsupportedFeatureError:
            return False
        op.result.replace_all_uses_with(extent)
        remove(op)
        return True

    def other(self, op: Operation) -> None:
        """An op that ends a run."""
        if isinstance(op, d.RegionOp):
            self.region(op)
        elif isinstance(op, d.ForOp | d.WhileOp | d.IfOp):
            for region in op.regions:
                for argument in region.block.args:
                    self.retype(argument)
                self.block(region.block)
            for result in op.results:
                self.retype(result)
        elif isinstance(op, d.CallOp):
            for result in op.results:
                self.retype(result)
            if not op.results and self.program.functions[op.callee.data].static("kind") in KERNEL_KINDS:
                Before(op).launch(op.callee.data, list(op.args))
                remove(op)

    def retype(self, value: SSAValue) -> None:
        """A value of the control plane that holds a tile or tensor value holds a buffer instead."""
        type = d.type_of(value)
        if isinstance(type, TileType):
            extents = self.valid.known.get(value, {})
            buffer = Rewriter.replace_value_with_new_type(value, d.IRType(_buffer_type(type)))
            self.remember(buffer, type, extents)

    def remember(self, buffer: SSAValue, type: TileType, extents: Mapping[int, SSAValue]) -> None:
        self.loads[buffer] = Reload(type, dict(extents))

    # runs ---------------------------------------------------------------------------------------------------------------

    def flush(self, run: list[Operation], before: Operation) -> None:
        """Make a kernel of the run; it is launched before `before`."""
        while run and not is_operator(run[-1]) and not any(has_uses(result) for result in run[-1].results) and not isinstance(run[-1], d.CheckOp):
            remove(run.pop())
        if not any(is_operator(op) for op in run):
            return
        anchor = Before(before)
        anchor.span = next(op.span for op in run if isinstance(op, d.TileOp))
        kernel = Kernel(self.kernel_name(None))
        outside = self.escape(run, anchor)
        self.finish(kernel, run, outside, anchor, None, {})

    def escape(self, run: Sequence[Operation], anchor: Before) -> dict[SSAValue, SSAValue]:
        """Replace the uses of the run's results outside it: by new buffers, or by computing scalars again after the launch."""
        members = {inner for op in run for inner in op.walk()}
        inside = _results(run)
        replaced: dict[SSAValue, SSAValue] = {}
        again: list[Operation] = []

        def leave(value: SSAValue) -> None:
            if value in replaced or value not in inside:
                return
            owner = value.owner
            assert isinstance(owner, Operation)
            if isinstance(d.type_of(value), TileType):
                replaced[value] = self.buffer_for(value, anchor, lambda other: other not in inside)
            elif owner not in again:
                for operand in owner.operands:
                    leave(operand)
                again.append(owner)

        for op in run:
            for result in op.results:
                if any(use.operation not in members for use in result.uses):
                    leave(result)
        for owner in again:  # Extents are known before the launch: they do not depend on what it computes.
            anchor.insert(owner.clone(replaced))
        for value, outer in list(replaced.items()):
            value.replace_uses_with_if(outer, lambda use: use.operation not in members)
        return {value: outer for value, outer in replaced.items() if value in inside and isinstance(d.type_of(value), TileType)}

    def buffer_for(self, value: SSAValue, anchor: Before, outside: Callable[[SSAValue], bool]) -> SSAValue:
        """A new buffer with room for `value`."""
        type = d.type_of(value)
        assert isinstance(type, TileType)
        extents = extents_of(value, anchor, outside)
        anchor.hint = name_hint(value)
        buffer = anchor.create(_buffer_type(type), extents)
        anchor.hint = None
        self.remember(buffer, type, {})
        return buffer

    # regions --------------------------------------------------------------------------------------------------------------

    def region(self, op: d.RegionOp) -> None:
        """Make a kernel of a region; its results stand in buffers afterwards."""
        _flatten(op)
        block = op.body.block
        terminator = d.end_of(block, d.YieldOp)
        anchor = Before(op)
        if self.direct_launch(op, anchor):
            return
        yielded = list(terminator.values)
        crossing: dict[SSAValue, SSAValue] = {}
        leaving = Leaving(self.program, op)
        outside: dict[SSAValue, SSAValue] = {}
        for value in yielded:
            if is_buffer(value) or isinstance(value.owner, d.ConstOp):
                outside[value] = leaving.outside(value)
            elif block.is_ancestor(value.owner) and value not in crossing:
                crossing[value] = self.room_for(value, block, anchor)
        kernel = Kernel(self.kernel_name(op.static("name_hint")))
        for argument in block.args:
            kernel.inside[argument] = _block_index(kernel.body, name_of(argument))
        body = [inner for inner in block.ops if inner is not terminator]
        self.finish(kernel, body, {**leaving.copied, **crossing}, anchor, op.blocks, op.options)
        outside |= crossing
        for result, value in zip(op.results, yielded, strict=True):
            outer = outside.get(value, value)
            if value in crossing and isinstance(d.type_of(value), ScalarType):
                outer = anchor.read(outer, [anchor.const(0)])
                self.reads.append(outer)
                for extents in self.valid.known.values():  # Shared with the reloads made of them.
                    extents.update({axis: outer for axis, extent in extents.items() if extent is result})
            elif outer in self.loads and result in self.valid.known:
                self.loads[outer] = Reload(self.loads[outer].type, self.valid.known[result])
            result.replace_all_uses_with(outer)
        remove(op)

    def room_for(self, value: SSAValue, block: Block, anchor: Before) -> SSAValue:
        type = d.type_of(value)
        if isinstance(type, ScalarType):
            return anchor.create(BufferType((1,), type.dtype), [])
        return self.buffer_for(value, anchor, lambda other: not block.is_ancestor(other.owner))

    def direct_launch(self, op: d.RegionOp, anchor: Before) -> bool:
        """`with pl.spmd(n): self.kernel(...)` needs no kernel around the kernel."""
        calls = [inner for inner in op.body.block.ops if not isinstance(inner, d.YieldOp) and not is_neutral(inner)]
        if len(calls) != 1 or not isinstance(calls[0], d.CallOp) or calls[0].results or op.results:
            return False
        call = calls[0]
        kind = self.program.functions[call.callee.data].static("kind")
        if kind not in (*KERNEL_KINDS, "group") or any(has_uses(argument) for argument in op.body.block.args):
            return False
        for inner in list(op.body.block.ops):
            if is_neutral(inner):
                inner.detach()
                anchor.insert(inner)
        anchor.launch(call.callee.data, list(call.args), op.blocks)
        remove(op)
        return True

    # kernels --------------------------------------------------------------------------------------------------------------

    def kernel_name(self, wanted: object) -> str:
        if isinstance(wanted, str) and wanted.isidentifier():
            name = unique_name(wanted, self.taken)
        else:
            name = unique_name(f"{self.function.symbol}_k{self.count}", self.taken)
            self.count += 1
        self.taken.add(name)
        return name

    def finish(
        self,
        kernel: Kernel,
        body: Sequence[Operation],
        crossing: Mapping[SSAValue, SSAValue],
        anchor: Before,
        blocks: SSAValue | None,
        attrs: dict[str, object],
    ) -> None:
        """Fill the kernel, let it write what crosses out, add it to the program and launch it."""
        results = [(buffer, name_hint(value) or "result") for value, buffer in crossing.items()]
        kernel.take(body, results, self.loads)
        builder = Builder(kernel.body)
        builder.span = anchor.span
        for value, buffer in crossing.items():
            builder.fill(kernel.inside[buffer], value)
        function = kernel.finish(attrs)
        if anchor.span is not None:
            function.attributes["span"] = d.SpanAttr(anchor.span)
        module = self.program.module.body.block
        module.insert_op_before(function, self.function)
        if any(isinstance(op, d.CallOp) for op in function.walk()):  # What calls do to a parameter is known now that the callees can be found.
            function.attributes["directions"] = d.Static(tuple(direction(argument) for argument in function.body.block.args))
        anchor.launch(kernel.name, kernel.arguments, blocks)


def _sink(value: SSAValue) -> None:
    """Read a scalar where it is first needed, so that launches that stood side by side still do: nothing else writes its buffer."""
    op = value.owner
    assert isinstance(op, Operation) and op.parent is not None
    users = [user for use in value.uses if (user := ancestor_in(op.parent, use.operation)) is not None]
    first = next((user for user in users if not any(other.is_before_in_block(user) for other in users)), None)
    if first is not None:
        block = op.parent
        op.detach()
        block.insert_op_before(op, first)


def _buffer_type(type: TileType) -> BufferType:
    return BufferType(type.shape, type.dtype)


def _results(run: Sequence[Operation]) -> set[SSAValue]:
    return {result for op in run for result in op.results}


def _flatten(op: d.RegionOp | d.FuncOp) -> None:
    """Regions inside a region, or inside a helper of kernels, belong to the kernel."""
    for inner in list(op.body.block.walk()):
        if isinstance(inner, d.RegionOp):
            if inner.blocks is not None:
                raise UnsupportedFeatureError("a region with blocks inside another region", span=inner.span, help="blocks start on the control plane")
            splice(inner, inner.body.block, [])


def _block_index(body: Block, hint: str | None) -> SSAValue:
    builder = Builder(body)
    builder.hint = hint
    return builder.apply_typed(ops.table()["get_block_idx"], {}, [ScalarType(INDEX)])[0]

"""Reads one function of a program: its parameters, its body, what it returns and writes."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.ir import BlockArgument, SSAValue

from tilejit.dtypes import INT64
from tilejit.errors import InternalError, NoWriteError, ParserTypeError, Span, TilejitError, UnsupportedFeatureError, in_body
from tilejit.frontend import expressions, statements
from tilejit.frontend.aliases import NeedsMemory, Place
from tilejit.frontend.constants import PoolingBuilder
from tilejit.frontend.context import Context, Frame, Parameter
from tilejit.frontend.deferred import run_ahead
from tilejit.frontend.depth import too_deep
from tilejit.frontend.desugar import desugar
from tilejit.frontend.handlers import raised_by_handler
from tilejit.frontend.ranks import comm_name
from tilejit.frontend.signature import ParamSpec, agrees, annotation_value, directed, result_items, value_type
from tilejit.frontend.source import span_of
from tilejit.frontend.values import Binding, CommContext, NoValue, SelfReference, defined_inside, describe_value, is_number
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import function
from tilejit.tile_ir.transfers import core_of_kind, transfer_of
from tilejit.types.annotations import CommCtx, DynExpr, DynVar, TensorAnnotation, WindowAnnotation
from tilejit.types.values import ANY, ArrayType, BufferType, Dim, ScalarType, ShapedType, TileType

if TYPE_CHECKING:
    from tilejit.frontend.program import FunctionSource, ProgramBuilder

_PLANES = {"orchestration": "control", "incore": "execution", "aic": "execution", "aiv": "execution"}


def _opening_calls(body: Sequence[ast.stmt]) -> frozenset[tuple[int, int]]:
    """Where the calls stand that a function begins with, its docstring aside."""
    places: list[tuple[int, int]] = []
    for statement in body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Call):
            places.append((value.lineno, value.col_offset))
        elif not isinstance(value, ast.Constant):
            break
    return frozenset(places)


class FunctionReader:
    """Reads one function into a FuncOp."""

    def __init__(self, program: ProgramBuilder, source: FunctionSource, reference: SelfReference) -> None:
        self.program = program
        self.source = source
        self.reference = reference
        self.computed: dict[str, list[tuple[int, DynExpr]]] = {}
        """Per parameter the axes whose extents an annotation computes."""
        self.contexts: set[str] = set()
        """Parameters that are groups of ranks."""

    def span(self, node: ast.AST) -> Span:
        return span_of(node, self.source.source, self.source.name)

    def read(self) -> d.FuncOp:
        """The function, read; once more when results of operators turn out to need memory."""
        in_memory: frozenset[Place] = frozenset()
        while True:
            try:
                return self._read(in_memory)
            except NeedsMemory as error:
                if error.places <= in_memory:
                    raise error.refusal from None
                in_memory |= error.places

    def _read(self, in_memory: frozenset[Place]) -> d.FuncOp:
        source = self.source
        specs = self.parameters() if source.params is None else list(source.params)
        specs = [replace(spec, type=self.program.with_region(source.name, spec.name, spec.type)) if isinstance(spec.type, TileType) else spec for spec in specs]
        windows = [spec.name for spec in specs if spec.window]
        hidden = [] if self.program.is_entry(source) else [ParamSpec(comm_name(name), ScalarType(INT64)) for name in windows]
        op, arguments = function(source.name, source.kind, [(spec.name, spec.type, spec.direction) for spec in (*specs, *hidden)], source.attrs)
        op.attributes["span"] = d.SpanAttr(self.span(source.node))
        builder = PoolingBuilder(op.body.block)
        ctx = Context(self.program, builder, Frame(source.name, source.source, source.namespace, source.comments), expressions.evaluate, statements.execute)
        ctx.plane, ctx.core = _PLANES.get(source.kind, "any"), core_of_kind(source.kind, source.attrs)
        ctx.strict, ctx.strict_ssa = source.strict, source.strict_ssa
        ctx.auto_scope = source.attrs.get("auto_scope") is not False
        ctx.in_memory = in_memory
        ctx.opening = _opening_calls(source.node.body)
        nodes = {arg.arg: arg for arg in self._nodes()}
        ctx.scope["self"] = Binding(self.reference, self.span(source.node))
        for spec, argument in zip(specs, arguments, strict=False):
            node = nodes.get(spec.name, source.node)
            ctx.scope[spec.name] = Binding(CommContext(argument) if spec.name in self.contexts else argument, self.span(node))
            if isinstance(spec.type, ShapedType):
                ctx.parameters[spec.name] = Parameter(spec.name, argument, spec.direction, node)
        given = dict(zip([spec.name for spec in (*specs, *hidden)], arguments, strict=True))
        ctx.windows = {given[name]: given[comm_name(name)] if hidden else builder.comm(given[name]) for name in windows}
        try:
            self._check_extents(ctx, nodes)
            body = run_ahead(desugar(source.node.body, self.span), {spec.name for spec in specs if isinstance(spec.type, BufferType)})
            ctx.analysis.learn(body)
            ctx.run(body, ())
            ctx.aliases.check(op)
            self._finish(ctx, op, specs, arguments)
        except TilejitError:
            raise
        except RecursionError:
            raise too_deep(source.node, self.span) from None
        except Exception as error:
            if raised_by_handler(error):
                raise
            raise InternalError(f"{type(error).__name__}: {error}", span=ctx.builder.span or self.span(source.node)) from error
        for line in ctx.prints:
            print(line)
        return op

    # signature --------------------------------------------------------------------------------------------------------

    def _nodes(self) -> list[ast.arg]:
        spec = self.source.node.args
        for extra in (spec.vararg, spec.kwarg):
            if extra is not None:
                raise UnsupportedFeatureError(f"a kernel cannot take `{'*' if extra is spec.vararg else '**'}{extra.arg}`", span=self.span(extra))
        return [arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs) if arg.arg != "self"]

    def parameters(self) -> list[ParamSpec]:
        """The parameters as their annotations describe them."""
        out: list[ParamSpec] = []
        for arg in self._nodes():
            span = self.span(arg)
            if arg.annotation is None:
                raise ParserTypeError(f"parameter `{arg.arg}` has no annotation", span=span, help=f"write {arg.arg}: pl.Tensor[[64, 64], pl.FP32]")
            span = self.span(arg.annotation)
            found = self.source.annotations.get(arg.arg)
            if found is None or isinstance(found, str):
                found = annotation_value(arg.annotation, self.source.namespace, span)
            annotation, direction = directed(found)
            if isinstance(annotation, TensorAnnotation) and annotation.shape is not None:
                self.computed[arg.arg] = [(axis, extent) for axis, extent in enumerate(annotation.shape) if isinstance(extent, DynExpr)]
            type = value_type(annotation, self.program.symbol, span)
            if isinstance(type, ArrayType):
                help = "create it inside with pl.array.create, or pass a tensor"
                raise ParserTypeError(f"parameter `{arg.arg}` is an on-core array, which cannot cross into a function", span=span, help=help)
            out.append(ParamSpec(arg.arg, type, direction, isinstance(annotation, WindowAnnotation)))
            if annotation is CommCtx:
                self.contexts.add(arg.arg)
        return out

    def _check_extents(self, ctx: Context, nodes: Mapping[str, ast.arg]) -> None:
        """Extents that an annotation computes, `M * 2`, are what their symbols say."""
        for name, computed in self.computed.items():
            for axis, extent in computed:
                value = ctx.computed_extent(extent)
                if value is not None:
                    with ctx.builder.spanning(self.span(nodes[name])):
                        ctx.builder.check(ctx.builder.dim(ctx.parameters[name].value, axis), value, f"extent {axis} of `{name}` and {extent!r}")

    # the end ----------------------------------------------------------------------------------------------------------

    def _finish(self, ctx: Context, op: d.FuncOp, specs: Sequence[ParamSpec], arguments: Sequence[BlockArgument]) -> None:
        last = self.source.node.body[-1]
        ctx.builder.span = self.span(next((node for node in ast.walk(last) if isinstance(node, ast.Return)), last))
        values = self._returned(ctx)
        ctx.builder.return_(values or [])
        ctx.comments.attach_last(op.body.block)
        _drop_overhangs(ctx, op)
        attrs: dict[str, object] = {**self.source.attrs, **ctx.attributes}
        if ctx.windows:
            op.attributes["windows"] = d.Static(tuple(spec.name for spec in specs if spec.window))
            op.attributes["hidden"] = d.Static(len(arguments) - len(specs))
        # Printed programs say which outputs are left alone, and which of them were from the start.
        left, through = attrs.pop("unwritten", ()), attrs.pop("handed_through", ())
        excused = [name for name in (left if isinstance(left, tuple) else ()) if not (isinstance(through, tuple) and name in through)]
        if values is not None:
            attrs["returns"] = tuple(("param", arguments.index(value)) if value in arguments else ("value",) for value in values)
            self._check_result(values)
        handed: list[str] = []
        external = all(isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) for statement in self.source.node.body)
        directions: list[str] = []
        for spec, argument in zip(specs, arguments, strict=False):
            direction = spec.direction
            written = isinstance(spec.type, BufferType) and ctx.aliases.written(argument)
            if direction == "In" and written:
                direction = "InOut"
            if direction == "Out" and not written and not external and spec.name not in excused and not spec.window and not _peer_writes(ctx, op, spec):
                if values is None or argument not in values or self.source.kind == "orchestration":
                    self._never_written(ctx, spec)
                handed.append(spec.name)
            directions.append(direction)
        directions += ["In"] * (len(arguments) - len(specs))
        if handed:
            attrs["handed_through"] = tuple(handed)
        computed = self._computed_outputs(specs, dict(zip((spec.name for spec in specs), directions, strict=False)))
        if computed and self.source.kind in ("orchestration", "opaque"):
            attrs["extents"] = computed
        op.attributes["directions"] = d.Static(tuple(directions))
        if self.source.name in self.program.launched:
            op.attributes["launched"] = d.Static(True)
        op.attributes["attrs"] = d.Static(attrs)

    def _computed_outputs(self, specs: Sequence[ParamSpec], directions: Mapping[str, str]) -> tuple[tuple[str, object], ...]:
        """Extents of outputs that an annotation computes: a call that leaves the outputs out computes them too."""
        carried = {dim for spec in specs if isinstance(spec.type, BufferType) and directions[spec.name] != "Out" for dim in spec.type.shape}
        rows = [extent for name, found in self.computed.items() if directions[name] == "Out" for _, extent in found]
        written = [(self.program.symbol(extent), self._written(extent, carried)) for extent in rows]
        return tuple((symbol, found) for symbol, found in written if found is not None)

    def _written(self, extent: DynVar | int, carried: Set[Dim]) -> object:
        """An extent as a call computes it; None where a symbol in it belongs to no argument."""
        if isinstance(extent, DynExpr):
            sides = (self._written(extent.left, carried), self._written(extent.right, carried))
            return None if None in sides else (extent.op, *sides)
        if isinstance(extent, int):
            return extent
        return ("dim", self.program.symbol(extent)) if self.program.symbol(extent) in carried else None

    def _returned(self, ctx: Context) -> list[SSAValue] | None:
        if isinstance(ctx.result, NoValue):
            return None
        items = ctx.result if isinstance(ctx.result, tuple | list) else (ctx.result,)
        out: list[SSAValue] = []
        for item in items:
            if isinstance(item, DynVar):
                item = ctx.symbol_value(item)
            if isinstance(item, SSAValue):
                out.append(item)
            elif is_number(item):
                out.append(ctx.scalar(item))
            else:
                ctx.fail(ParserTypeError, f"a kernel returns tensors, tiles and scalars, got {describe_value(item)}", self._return_node())
        return out

    def _return_node(self) -> ast.AST:
        found = [node for node in ast.walk(self.source.node) if isinstance(node, ast.Return)]
        return found[-1] if found else self.source.node

    def _check_result(self, values: Sequence[SSAValue]) -> None:
        """Results agree with the return annotation, where there is one that can be read."""
        node = self.source.node.returns
        if node is None:
            return
        span = self.span(node)
        found = self.source.annotations.get("return")
        if found is None or isinstance(found, str):
            found = annotation_value(node, self.source.namespace, span)
        items = result_items(found)
        if len(items) != len(values):
            place = self.span(self._return_node())
            count = f"{len(items)} result{'s' * (len(items) != 1)}"
            raise ParserTypeError(
                f"`{self.source.name}` is annotated with {count}, but returns {len(values)}", span=place, help="correct the return annotation"
            )
        for item, value in zip(items, values, strict=True):
            declared = value_type(directed(item)[0], _any_extent, span)
            if not agrees(declared, d.type_of(value)):
                raise ParserTypeError(
                    f"`{self.source.name}` is annotated to return {declared}, but returns {d.type_of(value)}", span=self.span(self._return_node())
                )

    def _never_written(self, ctx: Context, spec: ParamSpec) -> None:
        parameter = ctx.parameters[spec.name]
        rebound = parameter.rebound
        message = f"the output `{spec.name}` is never written"
        if rebound is not None:
            message += f": this only gives the name `{spec.name}` another value"
        raise in_body(NoWriteError)(message, span=rebound or self.span(parameter.node), help=f"write `{spec.name}[:] = …` or `pl.store(…, {spec.name})`")


def _drop_overhangs(ctx: Context, function: d.FuncOp) -> None:
    """Windows that overhang are gone if nothing or only parts of them were read, else they are errors. What may be inside is left to the run."""
    found: TilejitError | None = None
    for window, error in reversed(ctx.overhangs.items()):
        op = window.owner
        if not isinstance(op, d.WindowOp) or not defined_inside(window, function.body.block):
            continue
        if (error is not None or window in ctx.seen_through) and not any(True for _ in window.uses):
            ctx.comments.hand_on(op)
            op.detach()
            op.erase()
        elif error is not None:
            found = error
    if found is not None:
        raise found


def _any_extent(symbol: DynVar) -> str:
    return ANY


def _peer_writes(ctx: Context, function: d.FuncOp, spec: ParamSpec) -> bool:
    """Whether an output may be left to the kernel on the other side of a FIFO: both are often given the same parameters."""
    return ctx.core is not None and ctx.parameters[spec.name].rebound is None and any(transfer_of(op) is not None for op in function.walk())

"""Calls of kernel functions: IR calls of functions of the program, and inline functions spliced where they are called."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tilejit.errors import ArgumentError, DTypeError, ParserTypeError, ShapeError, UnsupportedFeatureError
from tilejit.frontend import accumulators, buffers, ranks
from tilejit.frontend.context import Context, Frame
from tilejit.frontend.desugar import desugar
from tilejit.frontend.packed import PACKED, is_packed, unpacked
from tilejit.frontend.results import handed_through
from tilejit.frontend.signature import annotation_value, directed
from tilejit.frontend.source import span_of
from tilejit.frontend.values import Binding, CommContext, InlineFunction, NoValue, describe_value, is_scalar, shaped
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function
from tilejit.tile_ir.transfers import transfer_of
from tilejit.types.annotations import DynVar, TensorAnnotation, TileAnnotation
from tilejit.types.values import ANY, BufferType, Dim, ScalarType, TileType, ValueType, same_extent

_INLINE_DEPTH = 64


def call_method(ctx: Context, name: str, args: Sequence[object], keywords: Mapping[str, object], node: ast.Call) -> object:
    """`self.name(…)`"""
    function = ctx.program.resolve(name, ctx.span(node))
    if isinstance(function, InlineFunction):
        return splice(ctx, function, args, keywords, node)
    return call_function(ctx, function, args, keywords, node)


def with_outputs(ctx: Context, name: str, args: Sequence[object], node: ast.Call) -> Sequence[object]:
    """The arguments of a submitted call, with new tensors for the outputs it leaves out: those at the end, or all wherever they are."""
    function = ctx.program.resolve(name, ctx.span(node))
    if isinstance(function, InlineFunction):
        return args
    params = list(zip(function.body.block.args, function.directions, strict=True))
    choices = [[direction not in omitted for _, direction in params] for omitted in ((), ("Out",), ("Out", "InOut"))]
    kept = next((choice for choice in choices if sum(choice) == len(args)), None)
    if kept is None:
        if any(direction == "In" for _, direction in params[len(args) :]):
            return args
        kept = [index < len(args) for index in range(len(params))]
    given = iter(args)
    out: list[object] = [next(given) if keep else None for keep in kept] + list(given)
    for index, ((argument, _), keep) in enumerate(zip(params, kept, strict=True)):
        type = d.type_of(argument)
        if not keep:
            assert isinstance(type, BufferType)
            sizes = [_extent_in_call(ctx, dim, params, out) for dim in type.shape]
            if None in sizes:
                return args
            out[index] = buffers.create(ctx, sizes, type.dtype, init=0)
    return out


def _extent_in_call(ctx: Context, dim: Dim, params: Sequence[tuple[SSAValue, str]], args: Sequence[object]) -> object:
    """What an extent of a parameter is in a call with these arguments; None if no argument tells."""
    if isinstance(dim, int):
        return dim
    for (parameter, _), argument in zip(params, args, strict=False):
        type = d.type_of(parameter)
        own = shaped(argument)
        if isinstance(type, BufferType) and dim in type.shape and own is not None and isinstance(argument, SSAValue) and own.rank == type.rank:
            axis = type.shape.index(dim)
            known = own.shape[axis]
            return known if isinstance(known, int) else ctx.builder.dim(argument, axis)
    return None


def call_external(ctx: Context, function: Function, args: Sequence[object], keywords: Mapping[str, object], node: ast.Call) -> object:
    """A module-level `@pl.function` called by name."""
    return call_function(ctx, ctx.program.add_external(function, ctx.span(node)), args, keywords, node)


# calls in the IR ------------------------------------------------------------------------------------------------------


def call_function(ctx: Context, function: d.FuncOp, args: Sequence[object], keywords: Mapping[str, object], node: ast.Call) -> object:
    """A call of a function of the program; evaluates to what it returns, else to its outputs."""
    if ctx.lane is not None:
        _check_lane(ctx, function, node)
    hidden = hidden_count(function)
    names = function.names[: len(function.names) - hidden]
    if keywords:
        ctx.fail(
            ArgumentError,
            f"`{function.symbol}` takes positional arguments, got `{next(iter(keywords))}=`",
            node,
            help=f"the parameters are ({', '.join(names)})",
        )
    if len(args) != len(names):
        missing = f", `{names[len(args)]}` is missing" if len(args) < len(names) else ""
        help = f"the parameters are ({', '.join(names)})"
        ctx.fail(ArgumentError, f"`{function.symbol}` takes {len(names)} argument{'s' * (len(names) != 1)}, got {len(args)}{missing}", node, help=help)
    types = [d.type_of(argument) for argument in function.body.block.args][: len(names)]
    symbols: dict[str, tuple[Dim, SSAValue, int]] = {}
    operands: list[SSAValue] = []
    for position, (name, type, arg) in enumerate(zip(names, types, args, strict=True)):
        place = node.args[position] if position < len(node.args) and not isinstance(node.args[position], ast.Starred) else node
        what = f"parameter `{name}` of `{function.symbol}`"
        operands.append(_argument(ctx, what, type, function.directions[position], arg, symbols, place))
        if isinstance(type, TileType):
            _match_valid(ctx, function.symbol, name, type, operands[-1], place)
        if operands[-1] is not arg and ("param", position) in (returned_items(function) or ()):
            ctx.aliases.copied(operands[-1], arg)
    operands += ranks.groups_of(ctx, function, names, operands, node)
    handed = handed_through(function)
    for name, operand, direction in zip(names, operands, function.directions, strict=False):
        if direction != "In" and name not in handed:
            ctx.aliases.write(operand)
    returns = returned_items(function)
    last = d.end_of(function.body.block, d.ReturnOp)
    value_types = [_substituted(d.type_of(value), symbols) for item, value in zip(returns or (), last.values, strict=False) if item == ("value",)]
    results = iter(ctx.builder.call(function.symbol, operands, value_types))
    if returns is None:
        outputs = [operand for operand, direction in zip(operands, function.directions, strict=True) if direction != "In"]
        return NoValue(function.symbol) if not outputs else outputs[0] if len(outputs) == 1 else tuple(outputs)
    items = [next(results) if item == ("value",) else operands[_position(item)] for item in returns]
    return items[0] if len(items) == 1 else tuple(items)


def _check_lane(ctx: Context, function: d.FuncOp, node: ast.AST) -> None:
    """A function that is not expanded here does not know the lane that calls it."""
    for op in function.walk():
        if transfer_of(op) is not None or (isinstance(op, d.ApplyOp) and op.op == "get_subblock_idx"):
            assert isinstance(op, d.ApplyOp | d.EffectOp)
            help = f"make `{function.symbol}` an inline function: it is then part of the lane"
            ctx.fail(UnsupportedFeatureError, f"`{function.symbol}` has {op.op} and is called inside pl.split_aiv", node, help=help)


def hidden_count(function: d.FuncOp) -> int:
    """How many parameters at the end the caller does not write: the groups of its windows."""
    found = function.static("hidden", 0)
    assert isinstance(found, int)
    return found


def returned_items(function: d.FuncOp) -> tuple[tuple[object, ...], ...] | None:
    """What a function returns, per item ("param", index) or ("value",); None when it has no return."""
    return function.attrs.get("returns")


def _position(item: tuple[object, ...]) -> int:
    assert isinstance(item[1], int)
    return item[1]


def _argument(ctx: Context, what: str, type: ValueType, direction: str, arg: object, symbols: dict[str, tuple[Dim, SSAValue, int]], node: ast.AST) -> SSAValue:
    if isinstance(type, ScalarType):
        if isinstance(arg, CommContext):
            return arg.value
        if isinstance(arg, DynVar):
            arg = ctx.symbol_value(arg)
        if not is_scalar(arg):
            ctx.fail(ParserTypeError, f"{what} takes a {type.dtype} scalar, got {describe_value(arg)}", node)
        if isinstance(arg, SSAValue):
            own = d.type_of(arg)
            assert isinstance(own, ScalarType)
            if own.dtype is not type.dtype and own.dtype.is_float != type.dtype.is_float:
                ctx.fail(DTypeError, f"{what} takes a {type.dtype} scalar, got {own.dtype}", node, help=f"convert it: pl.cast(…, pl.{type.dtype.name})")
        return ctx.scalar(arg, type.dtype)
    own = shaped(arg)
    if not isinstance(arg, SSAValue) or own is None:
        if isinstance(arg, SSAValue) and d.type_of(arg) == type:
            return arg
        ctx.fail(ParserTypeError, f"{what} takes {type}, got {describe_value(arg)}", node)
    if isinstance(type, BufferType):
        if isinstance(own, BufferType) and type.layout != own.layout and (is_packed(arg) or type.layout in PACKED):
            arg = _repacked(ctx, what, type, direction, arg, node)
            own = d.shaped_type(arg)
        if own.level == "tile":
            ctx.fail(ParserTypeError, f"{what} takes a tensor, got {own}", node, help="store the tile into a tensor first")
        if isinstance(own, TileType):
            if direction != "In":
                message = f"{what} is written and needs a tensor in memory, got the result of an operator"
                refusal = ParserTypeError(message, span=ctx.span(node), help="pass pl.create_tensor(…)")
                raise ctx.aliases.needs_memory(arg, refusal) if isinstance(node, ast.Name | ast.Subscript) else refusal  # what has no name is written in vain
            if not own.fully_valid:
                message = f"{what} takes a tensor in memory, which has no valid region of its own, got {own}"
                ctx.fail(UnsupportedFeatureError, message, node, help="pass the part that is valid, x[0:rows, 0:columns], or call an inline function")
            arg = buffers.spill(ctx, arg)
    elif own.level != "tile":
        ctx.fail(ParserTypeError, f"{what} takes a tile, got {own}", node, help="bring it into a tile with pl.load first")
    _match_type(ctx, what, type, arg, symbols, node)
    return arg


def _repacked(ctx: Context, what: str, type: BufferType, direction: str, arg: SSAValue, node: ast.AST) -> SSAValue:
    """A packed tensor as a plain one; nothing else changes its layout on the way into a function."""
    plain = unpacked(ctx, arg)
    if direction != "In" or type.layout in PACKED or not isinstance(plain, SSAValue):
        ctx.fail(ShapeError, f"{what} takes {type}, got {d.type_of(arg)}", node, help="give both the same layout")
    return plain


def _match_type(ctx: Context, what: str, type: ValueType, arg: SSAValue, symbols: dict[str, tuple[Dim, SSAValue, int]], node: ast.AST) -> None:
    own = d.shaped_type(arg)
    assert isinstance(type, BufferType | TileType)
    if own.dtype is not type.dtype:
        ctx.fail(DTypeError, f"{what} takes {type.dtype} data, got {own.dtype}", node, where=[f"argument: {own}", f"parameter: {type}"])
    if own.rank != type.rank:
        ctx.fail(ShapeError, f"{what} has {type.rank} dimensions, got {own.rank}", node, where=[f"argument: {own}", f"parameter: {type}"])
    for axis, (wanted, got) in enumerate(zip(type.shape, own.shape, strict=True)):
        first = None
        if isinstance(wanted, str):
            if wanted == ANY:
                continue
            first = symbols.setdefault(wanted, (got, arg, axis))
            if first[1] is arg and first[2] == axis:
                continue
        expected = first[0] if first is not None else wanted
        same = same_extent(expected, got)
        if same is False:
            ctx.fail(
                ShapeError,
                f"{what} needs extent {expected} in dim {axis}, got {got}",
                node,
                where=[f"argument: {own}", f"parameter: {type}"],
                help="make the two agree, or make the parameter's extent dynamic with pl.dynamic",
            )
        if same is None:
            left = ctx.builder.dim(first[1], first[2]) if first is not None else ctx.index(wanted)
            ctx.builder.check(left, ctx.builder.dim(arg, axis), f"{what}, dim {axis}")


def _match_valid(ctx: Context, function: str, name: str, type: TileType, arg: SSAValue, node: ast.AST) -> None:
    """Let a function be read for the valid region of a tile that it is given; one that was read elsewhere takes those of its annotations only."""
    own = d.shaped_type(arg)
    wrong = [axis for axis, (wanted, got) in enumerate(zip(type.valid, own.valid, strict=True)) if isinstance(wanted, int) and wanted != got]
    if not wrong or ctx.program.read_for(function, name, own.valid, ctx.span(node)):
        return
    for axis in wrong:
        wanted, got, what = type.valid[axis], own.valid[axis], f"parameter `{name}` of `{function}`"
        if isinstance(got, int):
            message = f"{what} is a tile that is valid up to {wanted} in dim {axis}, got {got}"
            help = f"say so in its annotation, pl.TileView(valid_shape=[{', '.join(map(str, own.valid))}]), or make `{function}` an inline function"
            ctx.fail(ShapeError, message, node, where=[f"argument: {own}", f"parameter: {type}"], help=help)
        ctx.builder.check(ctx.index(wanted), ctx.builder.valid(arg, axis), f"the valid region of {what}, dim {axis}")


def _substituted(type: ValueType, symbols: Mapping[str, tuple[Dim, SSAValue, int]]) -> ValueType:
    """A result type of the callee with the caller's extents."""

    def extent(dim: Dim) -> Dim:
        return dim if isinstance(dim, int) else symbols[dim][0] if dim in symbols else ANY

    if isinstance(type, BufferType):
        return BufferType(tuple(map(extent, type.shape)), type.dtype, type.layout)
    if isinstance(type, TileType):
        return TileType(tuple(map(extent, type.shape)), type.dtype, tuple(map(extent, type.valid)), type.space)
    return type


# inline functions -----------------------------------------------------------------------------------------------------


def splice(ctx: Context, function: InlineFunction, args: Sequence[object], keywords: Mapping[str, object], node: ast.Call) -> object:
    """Read the body of an inline function here, with its parameters bound to the arguments."""
    site = ctx.span(node)
    if function in ctx.in_inline or len(ctx.in_inline) > _INLINE_DEPTH:
        ctx.fail(UnsupportedFeatureError, f"`{function.name}` calls itself", node, help="kernel functions cannot be recursive")
    frame = Frame(function.name, function.text.source, function.namespace, function.text.comments, site)
    bound = _bind_inline(ctx, function, args, keywords, node, frame)
    body = desugar(function.text.node.body, lambda inner: span_of(inner, frame.source, frame.name, site))
    ctx.analysis.learn(body)
    saved = (ctx.frame, ctx.scope, ctx.result, ctx.in_loop, ctx.live, ctx.in_inline, ctx.local_symbols, ctx.auto_scope)
    ctx.frame, ctx.in_loop, ctx.result = frame, None, NoValue(function.name)
    ctx.in_inline = (*ctx.in_inline, function)
    ctx.auto_scope = ctx.auto_scope if function.auto_scope is None else function.auto_scope
    ctx.local_symbols = {**ctx.local_symbols}
    ctx.scope = {name: Binding(value, site) for name, value in bound.items()}
    ctx.yields.append([])
    try:
        _check_inline_annotations(ctx, function, bound)
        with accumulators.inside_helper(ctx, saved[1], bound):
            ctx.run(body, ())
        return ctx.result
    finally:
        ctx.yields.pop()
        ctx.frame, ctx.scope, ctx.result, ctx.in_loop, ctx.live, ctx.in_inline, ctx.local_symbols, ctx.auto_scope = saved


def _inline_parameters(function: InlineFunction) -> list[ast.arg]:
    spec = function.text.node.args
    named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    receivers = ("self", "cls") if _is_method(function) else ("self",)
    return named[1:] if named and named[0].arg in receivers else named


def _is_method(function: InlineFunction) -> bool:
    """Whether it stands in a class: in the text of a program, or in that of Python."""
    around = "Program" if function.python is None else function.python.__qualname__.rpartition(".")[0]
    return bool(around) and not around.endswith("<locals>")


def _bind_inline(
    ctx: Context, function: InlineFunction, args: Sequence[object], keywords: Mapping[str, object], node: ast.Call, frame: Frame
) -> dict[str, object]:
    names = [arg.arg for arg in _inline_parameters(function)]
    help = f"the parameters are ({', '.join(names)})"
    if len(args) > len(names):
        ctx.fail(ArgumentError, f"`{function.name}` takes {len(names)} argument{'s' * (len(names) != 1)}, got {len(args)}", node, help=help)
    bound = dict(zip(names, args, strict=False))
    for name, value in keywords.items():
        if name not in names:
            ctx.fail(ArgumentError, f"`{function.name}` has no parameter `{name}`", node, help=help)
        if name in bound:
            ctx.fail(ArgumentError, f"`{function.name}` got `{name}` twice", node, help=help)
        bound[name] = value
    defaults = _defaults(function, frame, ctx)
    for name in names:
        if name not in bound:
            if name not in defaults:
                ctx.fail(ArgumentError, f"`{function.name}` takes {len(names)} argument{'s' * (len(names) != 1)}, `{name}` is missing", node, help=help)
            bound[name] = defaults[name]
    return bound


def _defaults(function: InlineFunction, frame: Frame, ctx: Context) -> dict[str, object]:
    spec = function.text.node.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = list(zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True))
    pairs += [(arg, default) for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is not None]
    return {arg.arg: annotation_value(default, function.namespace, span_of(default, frame.source, frame.name, frame.site)) for arg, default in pairs}


def _check_inline_annotations(ctx: Context, function: InlineFunction, bound: Mapping[str, object]) -> None:
    """Arguments must agree with complete annotations; symbols in them stand for the arguments' extents."""
    for arg in _inline_parameters(function):
        if arg.annotation is None:
            continue
        value = bound[arg.arg]
        span = ctx.span(arg)
        annotation, _ = directed(annotation_value(arg.annotation, function.namespace, span))
        if not isinstance(annotation, TensorAnnotation | TileAnnotation) or annotation.shape is None:
            continue
        own = shaped(value)
        what = f"parameter `{arg.arg}` of `{function.name}`"
        if own is None or not isinstance(value, SSAValue):
            ctx.fail(ParserTypeError, f"{what} takes a tensor or tile, got {describe_value(value)}", arg)
        if annotation.dtype is not None and own.dtype is not annotation.dtype:
            ctx.fail(DTypeError, f"{what} takes {annotation.dtype} data, got {own.dtype}", arg)
        if own.rank != len(annotation.shape):
            ctx.fail(ShapeError, f"{what} has {len(annotation.shape)} dimensions, got {own.rank}", arg)
        for axis, (wanted, got) in enumerate(zip(annotation.shape, own.shape, strict=True)):
            if isinstance(wanted, DynVar):
                ctx.local_symbols.setdefault(wanted, got if isinstance(got, int) else ctx.builder.dim(value, axis))
            elif isinstance(got, int) and got != wanted:
                ctx.fail(
                    ShapeError,
                    f"{what} needs extent {wanted} in dim {axis}, got {got}",
                    arg,
                    where=[f"argument: {own}"],
                    help="make the two agree, or make the parameter's extent dynamic with pl.dynamic",
                )

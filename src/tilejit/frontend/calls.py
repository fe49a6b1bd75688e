"""Calls: ops of the table, markers of the language, functions of the program, and Python functions run while compiling."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import reduce
from types import BuiltinMethodType, MethodWrapperType

import numpy as np
from xdsl.ir import SSAValue

from tilejit.dtypes import BOOL, COMPLEX64, INDEX, DType, dtype_elsewhere
from tilejit.errors import ArgumentError, InvalidOperationError, ParserTypeError, ShapeError, TilejitError, UnsupportedFeatureError
from tilejit.frontend import accumulators, composing, effects, expressions, fold, foreign, functions, markers, masks, structural, windows
from tilejit.frontend.context import Context
from tilejit.frontend.packed import unpacked
from tilejit.frontend.values import (
    CommContext,
    InlineFunction,
    MethodReference,
    RunText,
    TaskHandle,
    TypedConstant,
    compared,
    describe_value,
    is_known,
    is_number,
    is_static,
    is_wide,
    number_dtype,
    plain_number,
    shaped,
    with_wide_literals,
)
from tilejit.ops import public, spelled
from tilejit.ops.binding import Kind, bind
from tilejit.ops.dtype_rules import as_index
from tilejit.ops.evaluate import evaluate
from tilejit.ops.spec import Call, OpFunction, OpSpec, ParamKind, ScalarArg
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.literal import write_literal
from tilejit.tile_ir.program import Function
from tilejit.types.annotations import DynVar
from tilejit.types.enums import MemorySpace
from tilejit.types.scopes import Marker, meant
from tilejit.types.values import BufferType, ScalarType, ShapedType, TileType

_SCALAR_BUILTINS = (min, max, abs)
"""Builtins that also work on run-time scalars."""
_CARRIERS = frozenset(
    {"append", "clear", "copy", "extend", "get", "insert", "items", "keys", "pop", "popitem", "reverse", "setdefault", "update", "values"}
    | {"__getitem__", "__iter__", "__len__", "__reversed__"}
)
"""Methods of lists, tuples and dicts that move members about and do not look at them."""
_BLIND = (len, list, tuple, dict, bool, iter, enumerate, zip, reversed, isinstance, type)
"""Functions of Python that do not look at the members of what they are given."""
_OF_KINDS = (isinstance, type)
"""Those that tell a tuple from a list: a list with tensors in it that is an argument is a tuple in the text."""
_OF_KEYS = (sorted, min, max, set, frozenset, any, all)
"""Those that see only the keys of a dict."""


def call(ctx: Context, node: ast.Call) -> object:
    """The value of a call."""
    function = meant(ctx.value(node.func))
    if isinstance(function, Marker):
        return markers.expand(ctx, function, node)
    args, keywords = arguments(ctx, node)
    if isinstance(node.func, ast.Attribute) and node.func.attr in spelled("attribute") and isinstance(function, SSAValue) and not args and not keywords:
        return function
    if isinstance(function, OpFunction):
        return op_call(ctx, function, args, keywords, node)
    if isinstance(function, composing.Method):
        result = op_call(ctx, function.function, function.arguments(args), keywords, node)
        ctx.aliases.turned(result)
        return result
    if isinstance(function, MethodReference):
        return functions.call_method(ctx, function.name, args, keywords, node)
    if isinstance(function, Function):
        return functions.call_external(ctx, function, args, keywords, node)
    if isinstance(function, InlineFunction):
        return functions.splice(ctx, function, args, keywords, node)
    return _python_call(ctx, function, args, keywords, node)


def arguments(ctx: Context, node: ast.Call) -> tuple[list[object], dict[str, object]]:
    """Positional and keyword arguments of a call."""
    args: list[object] = []
    for item in node.args:
        if isinstance(item, ast.Starred):
            value = ctx.value(item.value)
            if not isinstance(value, tuple | list):
                ctx.fail(ParserTypeError, f"`*` needs a tuple or list, got {describe_value(value)}", item)
            args += value
        else:
            args.append(ctx.value(item))
    keywords: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            ctx.fail(UnsupportedFeatureError, "`**` in a call", keyword.value, help="name the keywords")
        keywords[keyword.arg] = ctx.keyword(keyword)
    return args, keywords


# Python functions -----------------------------------------------------------------------------------------------------


_CASTS: Mapping[object, str] = {int: "INDEX", float: "FP32", bool: "BOOL"}


def _python_call(ctx: Context, function: object, args: Sequence[object], keywords: Mapping[str, object], node: ast.Call) -> object:
    path = ast.unparse(node.func)
    if not callable(function):
        ctx.fail(ParserTypeError, f"`{path}` is {describe_value(function)} and cannot be called", node.func, help=foreign.missing_name(path.split(".")[-1]))
    if hasattr(function, "specialized_source"):
        ctx.fail(
            InvalidOperationError, f"`{path}` is a @pl.jit function and cannot be called from a program", node.func, help="call it from a @pl.jit function"
        )
    fold.refuse_deeds(function, path, args, keywords)
    if function is len and len(args) == 1 and isinstance(args[0], tuple | list):
        return len(args[0])
    everything = [*args, *keywords.values()]
    _refuse_members(function, args, keywords, node)
    if all(is_static(arg) and not isinstance(arg, TypedConstant) for arg in everything):
        if isinstance(function, fold.FunctionTypes):
            ctx.record(path, function)
        if not any(isinstance(arg, DynVar) for arg in everything) or not _is_builtin_number(function):
            return fold.call(function, args, keywords, path)
    if function is sum and isinstance(args[0], tuple | list) and len(everything) <= 2:
        return reduce(lambda total, item: expressions.binary(ctx, ast.Add(), total, item, node), args[0], next(iter(everything[1:]), 0))
    meant = next((public("pl", item.__name__) for item in _SCALAR_BUILTINS if item is function), None)
    if meant is not None and not keywords and args:
        return _scalar_builtin(ctx, meant.rows[0][1].name, getattr(function, "__name__", path), args, node)
    if _hashable(function) and function in _CASTS:
        nearest = ", to the nearest one; pl.cast(pl.floor(x), pl.INDEX) rounds down" if function is int else ""
        ctx.fail(UnsupportedFeatureError, f"`{path}()` of a run-time value", node, help=f"pl.cast(x, pl.{_CASTS[function]}) converts at run time{nearest}")
    if function is range:
        ctx.fail(UnsupportedFeatureError, "plain `range` with a run-time value", node, help="write `for i in pl.range(…)`")
    position = next(index for index, arg in enumerate(everything) if not is_static(arg) or isinstance(arg, TypedConstant | DynVar))
    if isinstance(everything[position], RunText):
        raise fold.runtime_text(node)
    shown = node.args[position] if position < len(node.args) else node.keywords[position - len(node.args)].value
    error = fold.runtime_argument(path, f"`{ast.unparse(shown)}` ({describe_value(everything[position])})")
    if (function is any or function is all) and isinstance(args[0], tuple | list) and all(shaped(member) is None for member in args[0]):
        error.hint = _flags(ast.Or() if function is any else ast.And(), args[0], shown)
    raise error


def _flags(operator: ast.boolop, members: Sequence[object], shown: ast.expr) -> str:
    """What to write for `any` and `all` of flags, for which pl.any and pl.all are not: those are of a tensor or tile."""
    word = "or" if isinstance(operator, ast.Or) else "and"
    texts = shown.elts if isinstance(shown, ast.List | ast.Tuple) else []
    if len(texts) != len(members) or any(isinstance(text, ast.Starred) for text in texts):
        return f"write its members with `{word}` between them: a {word} b"
    flags = [  # numbers are flags only in Python
        ast.Compare(text, [ast.NotEq()], [ast.Constant(0)]) if isinstance(member, SSAValue) and d.type_of(member) != ScalarType(BOOL) else text
        for text, member in zip(texts, members, strict=True)
    ]
    return f"write {ast.unparse(ast.BoolOp(operator, flags) if len(flags) > 1 else flags[0])}"


def _refuse_members(function: object, args: Sequence[object], keywords: Mapping[str, object], node: ast.Call) -> None:
    """Refuse what would compare or show members that only the run knows: Python would do that with what stands for them here."""
    owner = getattr(function, "__self__", None) if isinstance(function, BuiltinMethodType | MethodWrapperType) else None
    name = getattr(function, "__name__", "")
    moves = isinstance(owner, tuple | list | dict) and (name in _CARRIERS or (isinstance(owner, dict) and name == "__contains__"))
    if isinstance(owner, RunText):
        raise fold.runtime_text(node)
    if not moves and not is_known(owner):
        of = ast.unparse(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
        what = f"`{ast.unparse(node)}` runs while compiling, but what is in `{of}` is known only at run time"
        raise UnsupportedFeatureError(what, help="compare its members one by one: go through them with `for`, or read them by number")
    of_tuple = any(function is one for one in _OF_KINDS) and isinstance(next(iter(args), None), tuple)
    if moves or (any(function is one for one in _BLIND) and not of_tuple):
        return
    of_keys = any(function is one for one in _OF_KEYS)
    for position, arg in enumerate([*args, *keywords.values()]):
        if is_static(arg) and not is_known(arg) and not (of_keys and position == 0 and isinstance(arg, dict)):
            raise fold.runtime_argument(ast.unparse(node.func), f"what is in a dict that it is given (`{ast.unparse(node)}`)")


def _is_builtin_number(function: object) -> bool:
    return function in (int, float, bool, min, max, abs) if _hashable(function) else False


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _scalar_builtin(ctx: Context, name: str, path: str, args: Sequence[object], node: ast.Call) -> object:
    if len(args) == 1 and isinstance(args[0], tuple | list):
        args = args[0]
    if name == "abs" and shaped(args[0]) is not None:
        meant = public("pl", name)
        assert meant is not None
        return op_call(ctx, meant, args, {}, node)
    for arg in args:
        if shaped(arg) is not None:
            own = ast.unparse(node.args[0])
            help = f"write pl.{name}(a, b) for the elements of two" if len(args) > 1 else f"write pl.{path}({own}), or pl.{path}({own}, axis=1) along an axis"
            ctx.fail(ParserTypeError, f"`{path}` works on scalars, got {describe_value(arg)}", node, help=help)
    values = [ctx.symbol_value(arg) if isinstance(arg, DynVar) else arg for arg in args]
    result = values[0]
    if name == "abs":
        return ctx.scalar_op(name, result)
    for value in values[1:]:
        result = ctx.scalar_op(name, result, value)
    return result


# ops ------------------------------------------------------------------------------------------------------------------


def kind_of(value: object) -> Kind:
    """What the op table's binding wants to know of an argument."""
    if isinstance(value, SSAValue):
        type = d.type_of(value)
        if isinstance(type, ScalarType):
            return "scalar"
        return ("tensor" if type.level == "tensor" else "tile") if isinstance(type, ShapedType) else "array"
    if value is None:
        return "none"
    if is_number(value):
        return "number"
    if isinstance(value, DynVar | TaskHandle | CommContext):
        return "scalar"
    return "list" if isinstance(value, tuple | list) else "static"


def op_call(ctx: Context, function: OpFunction, args: Sequence[object], keywords: Mapping[str, object], node: ast.AST) -> object:
    """A call of a public op: a structural op where one is meant, else an application of a row."""
    operands = [*args, *keywords.values()]
    _check_store_order(function, args)
    try:
        bound = bind(function, list(args), dict(keywords), kind_of, static_value)
    except TilejitError as error:
        named = {ast.unparse(item): value for item, value in zip(getattr(node, "args", ()), args, strict=False)}
        raise ctx.builder.misuse(error, named) from None
    if masks.chooses(bound.row, bound.args):
        return op_call(ctx, masks.chooser(), masks.chosen(bound.row, bound.args), {}, node)
    given = {name: unpacked(ctx, arg) if _reads(bound.row, name) else arg for name, arg in bound.args.items()}
    given = masks.prepared(ctx, bound.row, given)
    if bound.row.compose is not None or structural.builds(bound.row):
        try:
            result = structural.build(ctx, bound.row, given, node) if bound.row.compose is None else composing.compose(ctx, bound, given, node)
        except TilejitError as error:
            if error.span is not None:
                raise
            raise ctx.builder.misuse(error, {name: arg for name, arg in bound.args.items() if shaped(arg) is not None}) from error.__cause__
        if result is not NotImplemented:
            return result
    if bound.level in ("tensor", "tile") and any(shaped(operand) is not None for operand in operands):
        ctx.needs_execution(repr(function), bound.level)
    if bound.level == "scalar" and not bound.row.facts.of_pairs and all(not isinstance(operand, SSAValue | DynVar) for operand in operands):
        return computed(ctx, bound.row, bound.args)
    given = _with_wide_literals(bound.row, given)
    ready = {param.name: _operand(ctx, bound.row, param.name, given[param.name]) for param in bound.row.params}
    if effects.is_statement(bound.row, ready):
        return effects.perform(ctx, bound.row, bound.level, ready, repr(function))
    results = ctx.builder.apply(bound.row, bound.level, ready)
    if any(isinstance(type := d.type_of(result), TileType) and type.rank == 0 for result in results):
        ctx.fail(ShapeError, f"{bound.row.title} of a tensor without dims", node, help="read its element first: t[()] is a scalar")
    if bound.level == "tile" and isinstance(cut := given.get("input"), SSAValue) and bound.row.name == "slice":
        accumulators.note_part(ctx, cut, results[0], node, windows.per_dim(given["offset"], d.shaped_type(cut), "offset"))
    if bound.level == "tile" and "acc" in bound.row.param_names:
        accumulators.accumulated(ctx, given["acc"], results[0])
    return results[0] if len(results) == 1 else tuple(results)


def computed(ctx: Context, row: OpSpec, args: Mapping[str, object]) -> object:
    """A scalar op of compile-time numbers, computed by its reference."""
    try:
        value = by_reference(row, args)
    except TilejitError as error:
        raise ctx.builder.misuse(error, {}) from None
    return ctx.scalar_op("complex", value.real, value.imag) if isinstance(value, complex) else value


def by_reference(row: OpSpec, args: Mapping[str, object]) -> int | float | bool | complex | TypedConstant:
    """What the reference of a scalar op makes of compile-time numbers."""
    args = _with_wide_literals(row, args)
    seen = {param.name: _scalar_argument(row, param.name, args.get(param.name, param.default)) for param in row.params}
    (type,) = row.infer(Call(row, "scalar", seen))
    ready = {name: np.asarray(arg.const, arg.dtype.numpy)[()] if isinstance(arg, ScalarArg) else arg for name, arg in seen.items()}
    (value,) = evaluate(row, ready, (type,))
    assert isinstance(type, ScalarType)
    if type.dtype is COMPLEX64:
        return complex(value.item())
    number = plain_number(value.item())
    typed = type.dtype.is_float and any(isinstance(arg, TypedConstant) for arg in args.values())  # Python would go on in double
    return number if number_dtype(number) is type.dtype and not typed else TypedConstant(number, type.dtype)


def _with_wide_literals(row: OpSpec, args: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments of a row, with literals that their own type cannot hold as what they mean next to the others."""
    if row.name == "cmp" and not any(shaped(args[name]) for name in row.operands):
        args = {**args, **dict(zip(row.operands, compared(*(args[name] for name in row.operands)), strict=True))}
    if not any(is_wide(arg) for arg in args.values()):
        return args
    names = [param.name for param in row.params if param.kind in (ParamKind.Value, ParamKind.Operand, ParamKind.Scalar) and param.name in args]
    return {**args, **dict(zip(names, with_wide_literals([args[name] for name in names], args.get("dtype")), strict=True))}


def _scalar_argument(row: OpSpec, name: str, arg: object) -> object:
    if row.param(name).kind not in (ParamKind.Operand, ParamKind.Scalar) or not is_number(arg):
        return static_value(arg)
    number, dtype = plain_number(arg), number_dtype(arg)
    return ScalarArg(dtype, as_index(number) if dtype is INDEX and isinstance(number, int) else number)


def static_value(value: object) -> object:
    """A compile-time argument as the op table sees it."""
    if isinstance(value, TypedConstant):
        return value.value
    if isinstance(value, list):
        return tuple(static_value(item) for item in value)
    return plain_number(value) if is_number(value) else value


def _reads(row: OpSpec, name: str) -> bool:
    """Whether a row reads the cells of this argument; packed ones are unpacked for that."""
    return not row.facts.of_bytes and name not in ("output_tensor", "dst") and (name != "target" or row.name != "assemble")


def _operand(ctx: Context, row: OpSpec, name: str, arg: object) -> object:
    kind = row.param(name).kind
    if arg is None or isinstance(arg, SSAValue):
        return arg
    if kind is ParamKind.Static:
        return _static_argument(row, name, arg)
    if kind is ParamKind.Scalars:
        if not isinstance(arg, tuple | list):
            raise ParserTypeError(f"`{name}` must be a list, got {describe_value(arg)}")
        return [ctx.index(item, f"an entry of `{name}`") for item in arg]
    return ctx.scalar(arg)


def known_value(row: OpSpec, name: str, arg: object) -> object:
    """A static argument as the op table sees it; refuses values of the run in it."""
    value = static_value(arg)
    if not is_static(value):
        help = "write a constant, or a parameter that is annotated pl.constexpr"
        raise ParserTypeError(f"`{name}` of {row.title} must be known while compiling, got {describe_value(arg)}", help=help)
    return value


def _static_argument(row: OpSpec, name: str, arg: object) -> object:
    value = known_value(row, name, arg)
    if not isinstance(value, _PLAIN_STATICS):
        try:
            write_literal(value)
        except TypeError:
            help = f"write {dtype!r}" if isinstance(value, type) and (dtype := dtype_elsewhere(value)) is not None else None
            what = f"`{name}` of {row.name} takes a number, string, data type or enum member, got {describe_value(arg)}"
            raise ParserTypeError(what, help=help) from None
    return value


_PLAIN_STATICS = (bool, int, float, str, DType, MemorySpace)


def _check_store_order(function: OpFunction, args: Sequence[object]) -> None:
    if function.name == "store" and len(args) >= 3:
        first, third = shaped(args[0]), shaped(args[2])
        if isinstance(first, BufferType) and third is not None and not isinstance(third, BufferType):
            raise ArgumentError("pl.store got its arguments in another order", help="the order is pl.store(tile, offsets, tensor)")
        if shaped(args[1]) is not None or isinstance(args[0], tuple | list):
            raise ArgumentError("pl.store got its arguments in another order", help="the order is pl.store(tile, offsets, tensor)")

"""Expressions: compile-time parts are computed, run-time parts become ops."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import cast

from xdsl.ir import SSAValue

from tilejit.dtypes import FP32
from tilejit.errors import SLIP, InvalidOperationError, ParserTypeError, UnsupportedFeatureError
from tilejit.frontend import branches, buffers, calls, composing, flags, fold, foreign, masks, subscripts
from tilejit.frontend.context import SILENT, Context
from tilejit.frontend.guards import may_fail
from tilejit.frontend.values import (
    MethodReference,
    RunText,
    SelfReference,
    TypedConstant,
    compared,
    describe_value,
    equal,
    is_known,
    is_number,
    is_scalar,
    is_static,
    number_dtype,
    plain_number,
    shaped,
    with_wide_literals,
)
from tilejit.ops import COMPARISONS, method, operators, public, public_names, spelled, step, table
from tilejit.ops.spec import OpFunction, ParamKind, Spelling
from tilejit.tile_ir import dialect as d
from tilejit.types.annotations import DynVar, Untracked


def evaluate(ctx: Context, node: ast.expr) -> object:
    """The value of any expression."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise UnsupportedFeatureError(f"a kernel cannot contain {_WORDS.get(type(node), type(node).__name__)}", help=_ADVICE.get(type(node)))
    value = handler(ctx, node)
    return value if isinstance(node, SILENT) else buffers.placed(ctx, value, node)


def _constant(ctx: Context, node: ast.Constant) -> object:
    if isinstance(node.value, complex):
        return ctx.scalar_op("complex", node.value.real, node.value.imag)
    if node.value is ... or isinstance(node.value, bytes):
        raise UnsupportedFeatureError(f"a kernel cannot contain {node.value!r}", help="write `:` for each dimension" if node.value is ... else None)
    return node.value


def _name(ctx: Context, node: ast.Name) -> object:
    value = ctx.lookup(node)
    if node.id in ctx.scope:
        return value
    return _captured(ctx, node, value)


def _captured(ctx: Context, node: ast.expr, value: object) -> object:
    """A compile-time value from outside, reported unless its author said not to."""
    if isinstance(value, Untracked):
        return value.value
    if ctx.program.recorder is not None:
        ctx.record(ast.unparse(node), value)
    return value


def _attribute(ctx: Context, node: ast.Attribute) -> object:
    chain: list[ast.Attribute] = []
    base: ast.expr = node
    while isinstance(base, ast.Attribute):
        chain.append(base)
        base = base.value
    captured = isinstance(base, ast.Name) and base.id not in ctx.scope
    value = ctx.lookup(base) if isinstance(base, ast.Name) else ctx.value(base)
    if isinstance(value, Untracked):
        captured, value = False, value.value
    for link in reversed(chain):
        value = _member(ctx, value, link)
    return _captured(ctx, node, value) if captured else value


def _member(ctx: Context, owner: object, node: ast.Attribute) -> object:
    if isinstance(owner, SSAValue):
        return _property(ctx, owner, node)
    if isinstance(owner, SelfReference):
        if node.attr in owner.functions:
            return MethodReference(node.attr)
        if owner.owner is None or not hasattr(owner.owner, node.attr):
            ctx.fail(InvalidOperationError, f"the program has no function `{node.attr}`", node, help=fold.did_you_mean(node.attr, owner.functions))
        return getattr(owner.owner, node.attr)
    try:
        return getattr(owner, node.attr)
    except Exception:
        return fold.attribute(owner, node.attr, ast.unparse(node))  # Again, for the message.


def _property(ctx: Context, value: SSAValue, node: ast.Attribute) -> object:
    type = shaped(value)
    if node.attr == "dtype":
        return d.type_of(value).dtype
    if type is None:
        ctx.fail(ParserTypeError, f"{d.type_of(value)} has no attribute `{node.attr}`", node)
    if node.attr == "shape":
        return tuple(subscripts.extent(ctx, value, axis) for axis in range(type.rank))
    if node.attr in ("ndim", "rank"):
        return type.rank
    if node.attr == "valid_shape":
        return tuple(v if isinstance(v, int) else ctx.builder.valid(value, axis) for axis, v in enumerate(type.valid))
    if node.attr == "T":
        turned = calls.op_call(ctx, step(type.level, "permute"), [value], {}, node)
        ctx.aliases.turned(turned)
        return turned
    if node.attr in spelled("attribute"):
        return calls.op_call(ctx, step(type.level, node.attr), [value], {}, node)
    if (function := method(node.attr)) is not None:
        return composing.Method(function, value)
    help = fold.did_you_mean(node.attr, ("shape", "dtype", "ndim", "valid_shape", "T", *public_names("pl")), SLIP)
    known = foreign.method(node.attr, ast.unparse(node.value))
    if known is not None:
        help = known
    elif node.attr == "bind_dynamic":
        help = "bind_dynamic belongs into a @pl.jit function; in a program write the symbol in the annotation"
    ctx.fail(ParserTypeError, f"{type} has no attribute `{node.attr}`", node, help=help)


# operators ------------------------------------------------------------------------------------------------------------


def _run_time(ctx: Context, value: object) -> object:
    """Symbols take part in arithmetic as the extents they stand for."""
    return ctx.symbol_value(value) if isinstance(value, DynVar) else value


def binary(ctx: Context, operator: ast.operator, left: object, right: object, node: ast.AST) -> object:
    """`left <operator> right`."""
    left, right = _run_time(ctx, left), _run_time(ctx, right)
    if is_static(left) and is_static(right) and not isinstance(left, TypedConstant) and not isinstance(right, TypedConstant):
        if isinstance(operator, ast.Mod) and isinstance(left, str) and not is_known(right):
            raise fold.runtime_text(node)
        return fold.guarded(node, fold.BINARY[type(operator)], left, right)
    if isinstance(operator, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return RunText(left + right)
    name = operators().get(type(operator).__name__)
    assert name is not None, operator
    if shaped(left) is not None or shaped(right) is not None:
        return calls.op_call(ctx, _operator_function(name, left, right), [left, right], {}, node)
    for side in (left, right):
        if not is_scalar(side):
            raise ParserTypeError(f"`{ast.unparse(node)}`: operators work on scalars, tensors and tiles, got {describe_value(side)}")
    if any(param.kind is ParamKind.Value for param in table()[name].params[:2]):
        raise ParserTypeError(f"`{ast.unparse(node)}`: {name} works on tensors and tiles, these are two scalars", help="write a * b for their product")
    if isinstance(operator, ast.Div) and _are_integers(left, right):
        left, right = (float(plain_number(side)) if is_number(side) else ctx.scalar(side, FP32) for side in (left, right))  # as in Python: 7 / 2 is 3.5
    if is_number(left) and is_number(right):
        return calls.computed(ctx, table()[name], {"lhs": left, "rhs": right})
    return ctx.scalar_op(name, left, right)


def _are_integers(*sides: object) -> bool:
    return all((number_dtype(side) if is_number(side) else d.type_of(cast("SSAValue", side)).dtype).is_integer for side in sides)


def _operator_function(name: str, *operands: object) -> OpFunction:
    if name == "matmul" and any((type := shaped(operand)) is not None and type.level == "tile" and type.rank > 2 for operand in operands):
        name = "batch_matmul"
    found = public("pl", name)
    if found is not None:
        return found
    row = table()[name]
    return OpFunction("pl", name, ((Spelling("pl", name, "(lhs, rhs)"), row),))


def _binary(ctx: Context, node: ast.BinOp) -> object:
    return binary(ctx, node.op, ctx.value(node.left), ctx.value(node.right), node)


def _unary(ctx: Context, node: ast.UnaryOp) -> object:
    value = _run_time(ctx, ctx.value(node.operand))
    if isinstance(value, TypedConstant) and isinstance(node.op, ast.USub | ast.UAdd):
        return TypedConstant(-value.value, value.dtype) if isinstance(node.op, ast.USub) else value
    if is_static(value) and not isinstance(value, TypedConstant):
        return fold.guarded(node, fold.UNARY[type(node.op)], value)
    if isinstance(node.op, ast.Not):
        condition = ctx.condition(value, "the operand of `not`")
        return not condition if isinstance(condition, bool) else ctx.scalar_op("not_", condition)
    if isinstance(node.op, ast.UAdd):
        return buffers.copied(ctx, value, node) if isinstance(value, SSAValue) else value
    if shaped(value) is not None:
        return calls.op_call(ctx, _operator_function("not_" if isinstance(node.op, ast.Invert) else "neg"), [value], {}, node)
    return ctx.scalar_op("neg" if isinstance(node.op, ast.USub) else "not_", value)


def _compare(ctx: Context, node: ast.Compare) -> object:
    return _chained(ctx, node, _run_time(ctx, ctx.value(node.left)), 0)


def _chained(ctx: Context, node: ast.Compare, left: object, position: int) -> object:
    """`left < b < c` from one of its signs on: what follows is looked at only where the first comparison leaves it open."""
    right = _run_time(ctx, ctx.value(node.comparators[position]))
    piece = _compare_two(ctx, node.ops[position], left, right, node)
    later = node.comparators[position + 1 :]
    if not later or (is_static(piece) and not piece):
        return piece

    def rest() -> object:
        return _chained(ctx, node, right, position + 1)

    if isinstance(piece, SSAValue) and shaped(piece) is None and any(map(may_fail, later)):
        return branches.choose(ctx, piece, lambda: _both(ctx, True, rest(), node), lambda: False)
    return _both(ctx, piece, rest(), node)


def _compare_two(ctx: Context, operator: ast.cmpop, left: object, right: object, node: ast.AST) -> object:
    by_identity = isinstance(operator, ast.Is | ast.IsNot)
    if by_identity and left is not right and left is not None and right is not None and any(isinstance(side, SSAValue) for side in (left, right)):
        raise UnsupportedFeatureError("`is` of what only the run knows", help="compare values: `==`; only `is None` is known of them while compiling")
    if by_identity or (is_static(left) and is_static(right)):
        left, right = (plain_number(side) if isinstance(side, TypedConstant) else side for side in (left, right))
        if not by_identity and not (is_known(left) and is_known(right)):
            return _compare_containers(operator, left, right, node)
        return fold.guarded(node, fold.COMPARE[type(operator)], left, right)
    if isinstance(left, RunText) or isinstance(right, RunText):
        raise fold.runtime_text(node)
    kind = COMPARISONS.get(type(operator).__name__)
    if kind is None:
        raise UnsupportedFeatureError("`in` works on compile-time values only")
    if shaped(left) is not None or shaped(right) is not None:
        function = public("pl", "cmp")
        assert function is not None
        return calls.op_call(ctx, function, [left, right], {"cmp_type": kind}, node)
    lhs, rhs = (ctx.scalar(side) for side in with_wide_literals(compared(left, right)))
    return ctx.builder.apply(table()["cmp"], "scalar", {"lhs": lhs, "rhs": rhs, "cmp_type": kind})[0]


def _compare_containers(operator: ast.cmpop, left: object, right: object, node: ast.AST) -> object:
    """A comparison with a dict in it that has values of the run: whether keys are there is known, and sometimes that two of them differ."""
    found = None
    if isinstance(operator, ast.Eq | ast.NotEq):
        found = equal(left, right)
    elif isinstance(operator, ast.In | ast.NotIn):
        if isinstance(right, dict):
            return fold.guarded(node, fold.COMPARE[type(operator)], left, right)
        if isinstance(right, tuple | list):
            parts = [equal(item, left) for item in right]
            found = True if True in parts else None if None in parts else False
    if found is None:
        what = f"`{ast.unparse(node)}` compares what is in a container, which only the run knows"
        raise UnsupportedFeatureError(what, help="compare its members one by one, combined with `and`")
    return found is isinstance(operator, ast.Eq | ast.In)


def _both(ctx: Context, left: object, right: object, node: ast.AST) -> object:
    """`left and right` of two conditions, or of two masks."""
    if masks.is_mask(left) and masks.is_mask(right):
        return calls.op_call(ctx, _operator_function("and_"), [left, right], {}, node)
    if shaped(left) is not None or shaped(right) is not None:
        raise UnsupportedFeatureError("a chained comparison is one of scalars, or one of tensors or tiles", help="compare twice, and choose with pl.where")
    if isinstance(left, SSAValue) and isinstance(right, SSAValue):
        return ctx.scalar_op("and_", left, right)
    static, other = (right, left) if isinstance(left, SSAValue) else (left, right)
    return other if static else False


def _conditional(ctx: Context, node: ast.IfExp) -> object:
    condition = ctx.test(node.test, "the condition")
    if isinstance(condition, bool):
        return ctx.value(node.body if condition else node.orelse)
    return branches.choose(ctx, condition, lambda: ctx.value(node.body), lambda: ctx.value(node.orelse))


# collections ----------------------------------------------------------------------------------------------------------


def _tuple(ctx: Context, node: ast.Tuple) -> object:
    return tuple(_items(ctx, node.elts))


def _list(ctx: Context, node: ast.List) -> object:
    return _items(ctx, node.elts)


def _items(ctx: Context, nodes: list[ast.expr]) -> list[object]:
    out: list[object] = []
    for item in nodes:
        if isinstance(item, ast.Starred):
            value = ctx.value(item.value)
            if not isinstance(value, tuple | list):
                raise ParserTypeError(f"`*` needs a tuple or list, got {describe_value(value)}")
            out += value
        else:
            out.append(ctx.value(item))
    return out


def _dictionary(ctx: Context, node: ast.Dict) -> object:
    if any(key is None for key in node.keys):
        raise UnsupportedFeatureError("`**` inside a dict")
    out: dict[object, object] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        found = ctx.value(cast("ast.expr", key))
        if not is_known(found):
            what = f"`{ast.unparse(cast('ast.expr', key))}` is a key of a dict, and known only at run time"
            raise UnsupportedFeatureError(what, help="let numbers and texts that are known while compiling be the keys")
        out[found] = ctx.value(value)
    return out


def _format(ctx: Context, node: ast.JoinedStr) -> object:
    known = True

    def shown(part: ast.expr) -> object:
        nonlocal known
        value = ctx.value(part)
        known = known and is_known(value)
        return value if is_static(value) or isinstance(value, RunText) else RunText(describe_value(value))

    text = fold.format_string(node, shown, lambda value, conversion, spec: str(value) if isinstance(value, RunText) else None)
    return text if known else RunText(text)


def _call(ctx: Context, node: ast.Call) -> object:
    return calls.call(ctx, node)  # found now: the two modules import each other, and either may be the first


_HANDLERS: dict[type[ast.expr], Callable[..., object]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: flags.boolean,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Dict: _dictionary,
    ast.JoinedStr: _format,
    ast.Subscript: subscripts.read,
    ast.Call: _call,
}
_WORDS: dict[type[ast.expr], str] = {
    ast.Lambda: "a lambda",
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.NamedExpr: "`:=`",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.Set: "a set",
    ast.Starred: "`*` here",
    ast.Slice: "a slice here",
}
_ADVICE: dict[type[ast.expr], str] = {
    ast.Lambda: "define the function outside the kernel",
    ast.ListComp: "compute the list outside the kernel, or use pl.unroll",
    ast.Yield: "loops and branches hand on values with pl.yield_(…)",
    ast.NamedExpr: "assign in a statement of its own",
}

"""Statements: assignments, loops, branches, regions, returns."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from contextlib import suppress

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import LONGS
from tilejit.errors import ParserSyntaxError, ParserTypeError, StaticAssertionError, UnsupportedFeatureError
from tilejit.frontend import branches, lanes, loops, regions, subscripts
from tilejit.frontend.context import Context
from tilejit.frontend.desugar import TYPED, is_yield
from tilejit.frontend.expressions import binary
from tilejit.frontend.merge import literal_fits
from tilejit.frontend.prints import asserted_text
from tilejit.frontend.scalars import constant_as
from tilejit.frontend.signature import agrees, annotation_value, is_of_python, value_type
from tilejit.frontend.tasks import TaskResult
from tilejit.frontend.values import Binding, NoValue, TypedConstant, YieldRecord, describe_value, is_number, number_dtype, plain_number, shaped
from tilejit.tile_ir import dialect as d
from tilejit.types.annotations import DynVar, MemRef
from tilejit.types.python_text import expression
from tilejit.types.values import BufferType, ScalarType, ValueType


def execute(ctx: Context, node: ast.stmt) -> None:
    """Read one statement."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise unsupported(node)
    handler(ctx, node)


def unsupported(node: ast.stmt) -> UnsupportedFeatureError:
    """The error for a statement that kernels do not have."""
    return UnsupportedFeatureError(f"a kernel cannot contain {_WORDS.get(type(node), type(node).__name__)}", help=_ADVICE.get(type(node)))


# assignments ----------------------------------------------------------------------------------------------------------


def _assign(ctx: Context, node: ast.Assign) -> None:
    if is_yield(node.value):
        _yield(ctx, node)
        return
    if isinstance(node.value, ast.Call) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        given = [*node.value.args, *(keyword.value for keyword in node.value.keywords)]
        if any(isinstance(item, ast.Name) and item.id == node.targets[0].id for item in given[1:]):
            ctx.statement_call = node.value
    value = ctx.value(node.value)
    for target in node.targets:
        assign(ctx, target, value, node)


def assign(ctx: Context, target: ast.expr, value: object, node: ast.AST) -> None:
    """Let a target hold a value."""
    if isinstance(target, ast.Name):
        ctx.bind(target.id, value, node)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(ctx, target, value, node)
    elif isinstance(target, ast.Subscript):
        subscripts.write(ctx, target, value)
    elif isinstance(target, ast.Attribute):
        ctx.fail(UnsupportedFeatureError, "an attribute cannot be assigned in a kernel", target)
    else:
        ctx.fail(UnsupportedFeatureError, "this cannot be assigned to", target)


def _unpack(ctx: Context, target: ast.Tuple | ast.List, value: object, node: ast.AST) -> None:
    if isinstance(value, TaskResult) and len(target.elts) == 2:
        value = value.nested
    if not isinstance(value, tuple | list):
        ctx.fail(
            ParserTypeError, f"{describe_value(value)} cannot be unpacked into {len(target.elts)} names", target, help="only several results can be unpacked"
        )
    if any(isinstance(item, ast.Starred) for item in target.elts):
        help = "take the values by index: first, rest = values[0], values[1:]"
        ctx.fail(UnsupportedFeatureError, "`*` in an assignment of what only the run knows", target, help=help)
    if len(value) != len(target.elts):
        ctx.fail(ParserTypeError, f"{len(value)} values for {len(target.elts)} names", target)
    for item, part in zip(target.elts, value, strict=True):
        assign(ctx, item, part, node)


def _annotated(ctx: Context, node: ast.AnnAssign) -> None:
    if node.value is None:
        return

    def declared() -> ValueType | None:
        span = ctx.span(node.annotation)
        written = _as_node(node.annotation)
        names = _names_in(written)
        local = {name: _in_annotation(name, binding) for name in names if (binding := ctx.scope.get(name)) is not None}
        annotation = annotation_value(_Slots(ctx).visit(copy.deepcopy(written)), ctx.frame.namespace, span, local)
        return None if is_of_python(annotation) else value_type(annotation, _extent_name(ctx, local), span)

    ctx.wanted = (node.value, declared)
    value = ctx.value(node.value)
    if not isinstance(node.target, ast.Name):
        ctx.fail(UnsupportedFeatureError, "only names can be annotated", node.target)
    type = declared()
    ctx.bind(node.target.id, value if type is None else _checked(ctx, node, type, value), node)


class _Slots(ast.NodeTransformer):
    """Slots of declared buffers that only the run knows, `pl.MemRef("ring", slots=2)[i % 2]`: checked, then read as the first: they change no result."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        ctx = self.ctx
        if not any(isinstance(ctx.scope[name].value, SSAValue) for name in _names_in(node.slice) & ctx.scope.keys()):
            return node
        if not isinstance(ctx.value(node.value), MemRef):
            return self.generic_visit(node)
        with ctx.builder.at(Block()) as scratch:
            ctx.index(ctx.value(node.slice), "a slot of a buffer")
        scratch.drop_all_references()
        return ast.copy_location(ast.Subscript(node.value, ast.copy_location(ast.Constant(0), node.slice), node.ctx), node)


def _as_node(annotation: ast.expr) -> ast.expr:
    """An annotation as an expression, also one that is text."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        with suppress(SyntaxError):  # evaluating it says so
            annotation = ast.copy_location(expression(annotation.value), annotation)
    return annotation


def _names_in(annotation: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def _extent_name(ctx: Context, local: dict[str, object]) -> Callable[[DynVar], str]:
    own = {id(value) for value in local.values() if isinstance(value, DynVar)}

    def name(symbol: DynVar) -> str:
        return "?" if id(symbol) in own else ctx.program.symbol(symbol)

    return name


def _in_annotation(name: str, binding: Binding) -> object:
    """A local as an annotation sees it: run-time extents are known only as such."""
    return DynVar(name) if isinstance(binding.value, SSAValue) and name.isidentifier() and name not in ("None", "True", "False") else binding.value


def _checked(ctx: Context, node: ast.AnnAssign, declared: ValueType, value: object) -> object:
    """`value` if it agrees with its annotation; numbers take the annotated dtype."""
    assert isinstance(node.target, ast.Name) and node.value is not None
    if is_number(value) and isinstance(declared, ScalarType):
        if number_dtype(value) is declared.dtype:
            return value
        if not isinstance(value, TypedConstant) and literal_fits(value, declared.dtype):
            return TypedConstant(constant_as(plain_number(value), declared.dtype), declared.dtype)
    if isinstance(value, DynVar):
        value = ctx.symbol_value(value)
    actual = d.type_of(value) if isinstance(value, SSAValue) else None
    if isinstance(value, SSAValue) and isinstance(declared, ScalarType) and isinstance(actual, ScalarType) and {declared.dtype, actual.dtype} == LONGS:
        return ctx.cast_scalar(value, declared.dtype)
    if actual is None or not agrees(declared, actual):
        got = actual if actual is not None else describe_value(value)
        ctx.fail(
            ParserTypeError,
            f"`{node.target.id.removeprefix(TYPED)}` is annotated {declared}, but the value is {got}",
            node.annotation,
            help="correct the annotation, or leave it out",
        )
    return value


def _augmented(ctx: Context, node: ast.AugAssign) -> None:
    if isinstance(node.target, ast.Name):
        current = ctx.lookup(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    elif isinstance(node.target, ast.Subscript):
        current = ctx.value(ast.copy_location(ast.Subscript(node.target.value, node.target.slice, ast.Load()), node.target))
    else:
        ctx.fail(UnsupportedFeatureError, "an attribute cannot be assigned in a kernel", node.target)
    operation = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
    result = binary(ctx, node.op, current, ctx.value(node.value), operation)
    if isinstance(node.target, ast.Name) and isinstance(shaped(current), BufferType):  # changed in place, for all its names
        subscripts.write(ctx, ast.fix_missing_locations(ast.copy_location(ast.Subscript(node.target, ast.Slice(), ast.Store()), node)), result)
        return
    if isinstance(current, SSAValue) and isinstance(result, SSAValue) and isinstance(node.target, ast.Name):
        ctx.aliases.changed(current, result)
    assign(ctx, node.target, result, node)


def _yield(ctx: Context, node: ast.Assign) -> None:
    """`names = pl.yield_(values)`: an assignment that the enclosing loop or branch also takes note of."""
    assert isinstance(node.value, ast.Call)
    if node.value.keywords:
        ctx.fail(ParserSyntaxError, "pl.yield_ takes values only", node.value)
    if not ctx.yields or (ctx.frame.site is not None and ctx.in_loop is None and not ctx.yields[-1:]):
        ctx.fail(ParserSyntaxError, "pl.yield_ outside a loop or branch", node)
    values = tuple(ctx.value(item) for item in node.value.args)
    target = node.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if len(node.targets) != 1 or not all(isinstance(item, ast.Name) for item in targets):
        ctx.fail(ParserSyntaxError, "pl.yield_ needs plain names on its left", node)
    if len(targets) != len(values):
        ctx.fail(ParserSyntaxError, f"pl.yield_ has {len(values)} value{'s' * (len(values) != 1)} and {len(targets)} name{'s' * (len(targets) != 1)}", node)
    names = tuple(item.id for item in targets if isinstance(item, ast.Name))
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        ctx.bind(name, value, node)
        ctx.scope[f"$yield{index}"] = Binding(value, ctx.span(node))
    ctx.yields[-1].append(YieldRecord(names, values, node))


# control --------------------------------------------------------------------------------------------------------------


def _if(ctx: Context, node: ast.If) -> None:
    condition = ctx.test(node.test, "the condition of an `if`")
    if not isinstance(condition, bool):
        branches.branch(ctx, condition, node)
        return
    ctx.yields.append([])
    ctx.run(node.body if condition else node.orelse, {*ctx.live, *_names_assigned(node)})
    ctx.yields.pop()


def _names_assigned(node: ast.If) -> list[str]:
    """Names that an arm yields stay alive whichever arm is taken."""
    return branches.yield_names(node.body) + branches.yield_names(node.orelse)


def _expression(ctx: Context, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # A docstring, or the `...` of a body that is elsewhere.
    if is_yield(node.value):
        ctx.fail(ParserSyntaxError, "pl.yield_ needs names on its left", node, help="write `x = pl.yield_(value)`")
    ctx.statement_call = node.value
    ctx.evaluate(node.value)


def _assert(ctx: Context, node: ast.Assert) -> None:
    """Decided now if the condition is, else checked whenever the kernel runs."""
    condition = ctx.test(node.test, "the condition of an `assert`")
    message = ctx.value(node.msg) if node.msg is not None else ast.unparse(node.test)
    if not isinstance(message, str):
        what = f"the message of an assert is a text known while compiling, got {describe_value(message)}"
        ctx.fail(ParserTypeError, what, node, help="write it in quotes; an f-string may hold shapes and other compile-time values")
    if isinstance(condition, bool):
        if not condition:
            ctx.fail(StaticAssertionError, f"assertion failed: {message}", node)
        return
    ctx.builder.effect("device_assert", [ctx.scalar(condition)], {"message": asserted_text(message)})


def _return(ctx: Context, node: ast.Return) -> None:
    ctx.result = NoValue(ctx.frame.name) if node.value is None or _is_none(node.value) else ctx.value(node.value)
    if ctx.result is None:
        ctx.result = NoValue(ctx.frame.name)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _pass(ctx: Context, node: ast.Pass) -> None:
    pass


def _stray_jump(ctx: Context, node: ast.Break | ast.Continue) -> None:
    word = "break" if isinstance(node, ast.Break) else "continue"
    where = f"a pl.{ctx.in_loop} loop" if ctx.in_loop else "this place"
    ctx.fail(UnsupportedFeatureError, f"{word} has no meaning in {where}", node, help="break and continue work in pl.range, pl.pipeline and while loops")


_HANDLERS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.For: loops.for_,
    ast.While: loops.while_,
    ast.If: _if,
    ast.With: regions.with_,
    lanes.InLane: lanes.in_lane,
    lanes.JoinLanes: lanes.join_lanes,
    ast.Expr: _expression,
    ast.Assert: _assert,
    ast.Return: _return,
    ast.Pass: _pass,
    ast.Break: _stray_jump,
    ast.Continue: _stray_jump,
}
_WORDS: dict[type[ast.stmt], str] = {
    ast.FunctionDef: "a nested function",
    ast.AsyncFunctionDef: "an async function",
    ast.ClassDef: "a class",
    ast.Try: "try",
    ast.Raise: "raise",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Delete: "del",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Match: "match",
}
_ADVICE: dict[type[ast.stmt], str] = {
    ast.FunctionDef: "define it outside with @pl.inline or @pl.jit.inline and call it",
    ast.Import: "import at the top of the file",
    ast.ImportFrom: "import at the top of the file",
    ast.Match: "write if/elif/else",
    ast.Try: "check before: pl.static_assert while compiling, pl.device_assert at run time",
}

"""`pl.split_aiv`: the two vector lanes, one after the other, or in step where they meet each other or the cube side.

Lanes in step are one body in which every statement stands twice: names that the body binds have a second one for lane 1. Loops and
branches that contain a meeting point are shared, so they must go the same way in both lanes.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from xdsl.ir import SSAValue

from tilejit.errors import ArgumentError, ParserSyntaxError, ParserTypeError, ShapeError, UnsupportedFeatureError
from tilejit.frontend.context import Context
from tilejit.frontend.desugar import is_yield
from tilejit.frontend.markers import arguments
from tilejit.frontend.values import LANE_1, Binding, InlineFunction, describe_value, static_integer
from tilejit.ops import spelled, table
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import SplitMode
from tilejit.types.values import TileType

_JOINS = "aic_gather"
"""The op that puts the halves of both lanes together."""


def lanes(ctx: Context, node: ast.For, call: ast.Call) -> None:
    """`for lane in pl.split_aiv(2, mode=…)`."""
    found = arguments(ctx, "split_aiv", call, ("n", "mode"), required=2)
    if static_integer(found["n"]) != 2:
        ctx.fail(ArgumentError, f"pl.split_aiv has two lanes, got {describe_value(found['n'])}", call)
    if not isinstance(found["mode"], SplitMode):
        ctx.fail(ParserTypeError, f"`mode` takes a pl.SplitMode, got {describe_value(found['mode'])}", call)
    if ctx.lane is not None:
        ctx.fail(ParserSyntaxError, "pl.split_aiv cannot be nested", node)
    if ctx.split_hint:
        help = "take pl.split(…) out of `optimizations`: the loop says how to split"
        ctx.fail(ParserSyntaxError, "pl.split_aiv in a region that pl.split divides", call, help=help)
    if not isinstance(node.target, ast.Name):
        ctx.fail(ParserSyntaxError, "the lane must be a name", node.target)
    outer, ctx.in_loop = ctx.in_loop, "split_aiv"
    ctx.split = found["mode"]
    if any(_calls(ctx, statement, _meetings(ctx)) for statement in node.body):
        _in_step(ctx, node, node.target.id)
    else:
        _apart(ctx, node, node.target.id)
    ctx.in_loop, ctx.lane, ctx.split = outer, None, SplitMode.NONE


def _meetings(ctx: Context) -> AbstractSet[str]:
    return spelled("meets_lanes") - ({_JOINS} if ctx.split is SplitMode.NONE else set())


def _apart(ctx: Context, node: ast.For, name: str) -> None:
    """Lane 0, then lane 1, which knows nothing of what lane 0 bound."""
    facts = ctx.analysis.block(node.body)
    before = {bound: ctx.scope.get(bound) for bound in facts.binds}
    for lane in range(2):
        ctx.lane = lane
        for bound, binding in before.items():
            if binding is not None:
                ctx.scope[bound] = binding
            else:
                ctx.scope.pop(bound, None)
        ctx.scope[name] = Binding(lane, ctx.span(node.target))
        ctx.run(node.body, {*ctx.live, *facts.reads})


def _in_step(ctx: Context, node: ast.For, lane: str) -> None:
    facts = ctx.analysis.block(node.body)
    names = {name for name in facts.binds if not name.startswith("$")}
    for name in names:
        if name in ctx.scope:
            ctx.scope[name + LANE_1] = ctx.scope[name]
    for number, name in enumerate((lane, lane + LANE_1)):
        ctx.scope[name] = Binding(number, ctx.span(node.target))
    body = InStep(ctx, names | {lane}, lane, node.body).body(node.body)
    ctx.lane = 0
    ctx.run(body, {*ctx.live, *(name + LANE_1 for name in names)})
    for name in [*names, lane]:
        second = ctx.scope.pop(name + LANE_1, None)
        if second is not None:
            ctx.scope[name] = second


class InLane(ast.With):
    """Statements of one lane."""

    lane: int


class JoinLanes(ast.Assign):
    """`a = b = the whole tile` of which a and b hold the halves of lane 0 and 1."""


def in_lane(ctx: Context, node: InLane) -> None:
    """Read the statements of one lane."""
    ctx.lane = node.lane
    ctx.run(node.body, ctx.live)


def join_lanes(ctx: Context, node: JoinLanes) -> None:
    """Put two halves together, for both lanes."""
    halves = [ctx.value(target) for target in node.targets]
    for half in halves:
        if not isinstance(half, SSAValue) or not isinstance(d.type_of(half), TileType):
            ctx.fail(ParserTypeError, f"aic_gather takes a tile, got {describe_value(half)}", node.value)
    whole = _joined(ctx, [half for half in halves if isinstance(half, SSAValue)])
    for target in node.targets:
        assert isinstance(target, ast.Name)
        ctx.bind(target.id, whole, node)


def _joined(ctx: Context, halves: Sequence[SSAValue]) -> SSAValue:
    """The tile made of two halves, whose valid cells must follow each other."""
    type, other = (d.shaped_type(half) for half in halves)
    if type.shape != other.shape or type.dtype is not other.dtype:
        raise ShapeError(f"aic_gather joins two halves of one shape, lane 0 has {type}, lane 1 has {other}", help="give both lanes tiles of the same shape")
    axis = type.rank - (2 if ctx.split is SplitMode.UP_DOWN else 1)
    size = type.shape[axis]
    assert isinstance(size, int)
    shape = [ctx.builder.const(2 * size if at == axis else int(extent)) for at, extent in enumerate(type.shape)]
    (whole,) = ctx.builder.apply(table()["create_tile"], "tile", {"shape": shape, "dtype": type.dtype})
    for lane, half in enumerate(halves):
        offset = [ctx.builder.const(lane * size if at == axis else 0) for at in range(type.rank)]
        (whole,) = ctx.builder.apply(table()["assemble"], "tile", {"target": whole, "source": half, "offset": offset})
    return whole


# writing both lanes out -------------------------------------------------------------------------------------------------


class InStep:
    """Turns the body of a pl.split_aiv into one in which both lanes go on together."""

    def __init__(self, ctx: Context, names: set[str], lane: str, body: Sequence[ast.stmt]) -> None:
        self._ctx = ctx
        self._names = names
        self._halves = 0
        self._varying = _varying_names(body, lane)

    def body(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [made for statement in statements for made in self._statement(statement)]

    def _share_loop(self, loop: ast.For) -> None:
        """Both lanes have the loop's index, and carry their own values."""
        index = loop.target
        if isinstance(loop.target, ast.Tuple):
            loop.target, loop.iter = copy.deepcopy(loop.target), copy.deepcopy(loop.iter)
            carried = loop.target.elts[-1] if isinstance(loop.target.elts[-1], ast.Tuple) else loop.target
            self._double(carried)
            for keyword in loop.iter.keywords if isinstance(loop.iter, ast.Call) else ():
                if keyword.arg == "init_values" and isinstance(keyword.value, ast.Tuple | ast.List):
                    self._double(keyword.value)
            index = loop.target.elts[0] if carried is not loop.target else None
        if isinstance(index, ast.Name):
            copied = ast.Assign([ast.Name(index.id + LANE_1, ast.Store())], ast.Name(index.id, ast.Load()))
            loop.body.insert(0, ast.fix_missing_locations(ast.copy_location(copied, loop)))

    def _double(self, values: ast.Tuple | ast.List) -> None:
        """Let the values of lane 1 follow those of lane 0."""
        values.elts += [_Rename(self._names).visit(copy.deepcopy(item)) for item in values.elts]

    def _yield(self, node: ast.Assign) -> ast.stmt:
        """Both lanes hand their values on together."""
        both = copy.deepcopy(node)
        call, target = both.value, both.targets[0]
        assert isinstance(call, ast.Call)
        call.args += [_Rename(self._names).visit(copy.deepcopy(item)) for item in call.args]
        names = target if isinstance(target, ast.Tuple) else ast.copy_location(ast.Tuple([target], ast.Store()), target)
        self._double(names)
        both.targets = [names]
        return both

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.Assign) and is_yield(node.value):
            return [self._yield(node)]
        if isinstance(node, ast.Expr) and _called(node.value) == "cond":
            return [node]
        if not _calls(self._ctx, node, _meetings(self._ctx)):
            return self._both(node, node)
        if isinstance(node, ast.For | ast.While | ast.If | ast.With):
            return self._compound(node)
        if isinstance(node, ast.Expr) and _called(node.value) == "syncall":
            return [_lane(0, node)]
        if self._ctx.split is SplitMode.NONE or not _calls(self._ctx, node, {_JOINS}):
            return self._both(node, node)
        hoisted = _Hoist(self._halves)
        rest = hoisted.visit(copy.deepcopy(node))
        self._halves += len(hoisted.found)
        out: list[ast.stmt] = []
        for name, half in hoisted.found:
            self._names.add(name)
            first = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], half), node)
            out += self._both(ast.fix_missing_locations(first), first)
            targets: list[ast.expr] = [ast.Name(name, ast.Store()), ast.Name(name + LANE_1, ast.Store())]
            values = ast.Tuple([ast.Name(name, ast.Load()), ast.Name(name + LANE_1, ast.Load())], ast.Load())
            out.append(ast.fix_missing_locations(ast.copy_location(JoinLanes(targets, values), node)))
        return out + self._both(rest, rest)

    def _both(self, first: ast.stmt, second: ast.stmt) -> list[ast.stmt]:
        return [_lane(0, first), _lane(1, _Rename(self._names).visit(copy.deepcopy(second)))]

    def _compound(self, node: ast.For | ast.While | ast.If | ast.With) -> list[ast.stmt]:
        """A loop or branch that both lanes go through together."""
        header = node.iter if isinstance(node, ast.For) else node.test if isinstance(node, ast.While | ast.If) else None
        if header is not None and _varies(header, self._varying):
            if _calls(self._ctx, node, {_JOINS} & _meetings(self._ctx)):
                help = "both lanes must reach it: make the condition the same for both"
                self._ctx.fail(UnsupportedFeatureError, "aic_gather where only one lane may come", header, help=help)
            return self._both(node, node)
        shared = copy.copy(node)
        shared.body = self.body(node.body)
        if isinstance(shared, ast.For):
            self._share_loop(shared)
        if isinstance(shared, ast.If):
            shared.orelse = self.body(shared.orelse)
        return [shared]


def _lane(lane: int, statement: ast.stmt) -> InLane:
    node = InLane([], [statement])
    node.lane = lane
    return ast.copy_location(node, statement)


class _Rename(ast.NodeTransformer):
    """The names of lane 1."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self._names:
            node.id += LANE_1
        return node


class _Hoist(ast.NodeTransformer):
    """Gives each argument of aic_gather a name, and puts that name where the call stood."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.found: list[tuple[str, ast.expr]] = []

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "x")]
        if _called(node) != _JOINS or len(values) != 1 or len(node.args) + len(node.keywords) != 1:
            return node
        name = f"_half{self._first + len(self.found)}"
        self.found.append((name, values[0]))
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _called(node: ast.AST) -> str | None:
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else None


def _calls(ctx: Context, node: ast.AST, names: AbstractSet[str]) -> bool:
    """Whether one of some ops is called, here or in an inline function that is called here."""
    todo, seen = [node], set[ast.AST]()
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        for inner in ast.walk(current):
            if _called(inner) in names:
                return True
            if isinstance(inner, ast.Call) and (helper := _inline(ctx, inner.func)) is not None:
                todo.append(helper.text.node)
    return False


def _inline(ctx: Context, function: ast.expr) -> InlineFunction | None:
    """The inline function that an expression names, if it does."""
    if isinstance(function, ast.Name):
        value = ctx.scope[function.id].value if function.id in ctx.scope else ctx.frame.namespace.get(function.id)
        return value if isinstance(value, InlineFunction) else None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
        return ctx.program.inline(function.attr)
    return None


def _varies(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression may have another value in each lane."""
    return any((isinstance(inner, ast.Name) and inner.id in names) or _called(inner) in spelled("varies_by_lane") for inner in ast.walk(node))


def _varying_names(body: Sequence[ast.stmt], lane: str) -> set[str]:
    """Names that may hold something else in each lane."""
    names, before = {lane}, 0
    while len(names) != before:
        before = len(names)
        for statement in body:
            _spread(statement, names, False)
    return names


def _spread(node: ast.stmt, names: set[str], differs: bool) -> None:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        gathered = any(_called(inner) == _JOINS for inner in ast.walk(node))
        if differs or (node.value is not None and not gathered and _varies(node.value, names)):
            names |= {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
        return
    header = node.iter if isinstance(node, ast.For) else node.test if isinstance(node, ast.If | ast.While) else None
    inside = differs or (header is not None and _varies(header, names))
    if inside and isinstance(node, ast.For):
        names |= {inner.id for inner in ast.walk(node.target) if isinstance(inner, ast.Name)}
    for inner in [*getattr(node, "body", []), *getattr(node, "orelse", [])]:
        _spread(inner, names, inside)

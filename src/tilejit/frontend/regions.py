"""`with` statements and block loops: execution-plane regions, and scopes that only matter to a scheduler."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import INDEX
from tilejit.errors import ArgumentError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from tilejit.frontend import tasks
from tilejit.frontend.aliases import is_result
from tilejit.frontend.context import Context
from tilejit.frontend.joins import name_hint, unite
from tilejit.frontend.markers import Hint, arguments, old_hints
from tilejit.frontend.values import Binding, TaskHandle, Undefined, defined_inside, describe_value, static_integer
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_value
from tilejit.types.enums import Level, Role, ScopeMode
from tilejit.types.scopes import Marker
from tilejit.types.values import ScalarType

_AT = ("level", "role", "optimizations", "deps", "no_dep_args", "dumps", "allow_early_resolve", "name_hint", "windowize")
_SCOPES = {"cluster": ("name_hint",), "manual_scope": (), "scope": ("mode",)}
_SPMD = ("core_num", "sync_start", "name_hint", "optimizations", "deps", "allow_early_resolve", "predicate")


def with_(ctx: Context, node: ast.With) -> None:
    """A `with` statement."""
    if len(node.items) != 1:
        ctx.fail(ParserSyntaxError, "only one context manager per `with`", node, help="nest the blocks")
    item = node.items[0]
    call = item.context_expr
    marker = ctx.value(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(marker, Marker):
        ctx.fail(
            UnsupportedFeatureError,
            f"`with {ast.unparse(call)}` is not part of the language",
            call,
            help="blocks are pl.at, pl.incore, pl.spmd, pl.cluster, pl.scope",
        )
    assert isinstance(call, ast.Call)
    if marker.name == "at":
        _at(ctx, node, call)
    elif marker.name == "incore":
        arguments(ctx, "incore", call, ())
        _execute(ctx, node, None, {})
    elif marker.name == "spmd":
        _spmd(ctx, node, call)
    elif marker.name in _SCOPES:
        _scope(ctx, node, call, marker.name)
    else:
        ctx.fail(ParserSyntaxError, f"pl.{marker.name} is not a block", call, help="blocks are pl.at, pl.incore, pl.spmd, pl.cluster, pl.scope")


def _scope(ctx: Context, node: ast.With, call: ast.Call, name: str) -> None:
    """A block that only matters to a scheduler."""
    found = arguments(ctx, name, call, _SCOPES[name])
    _name_hint(ctx, found, call)
    mode = found.get("mode")
    if mode is not None and not isinstance(mode, ScopeMode):
        ctx.fail(ParserTypeError, f"`mode` takes a pl.ScopeMode, got {describe_value(mode)}", call, help="pl.ScopeMode.AUTO or pl.ScopeMode.MANUAL")
    if name == "scope" and mode is not ScopeMode.MANUAL and ctx.auto_scope:
        help = "declare the function with auto_scope=False to place scopes by hand, or write pl.manual_scope()"
        ctx.fail(ParserSyntaxError, "an automatic pl.scope in a function that is one itself", call, help=help)
    ctx.run(node.body, ctx.live)


def _at(ctx: Context, node: ast.With, call: ast.Call) -> None:
    found = arguments(ctx, "at", call, _AT, required=1)
    level = found["level"]
    if not isinstance(level, Level):
        ctx.fail(ParserTypeError, f"pl.at takes a pl.Level, got {describe_value(level)}", call, help="write pl.at(level=pl.Level.CORE_GROUP)")
    options = _options(ctx, found, call)
    hint = _name_hint(ctx, found, call)
    if level is not Level.CORE_GROUP:
        # Another level of the machine only groups what is inside.
        _bind_task(ctx, node, options)
        ctx.run(node.body, ctx.live)
        return
    _bind_task(ctx, node, options)
    _execute(ctx, node, hint, options)


def _execute(ctx: Context, node: ast.With, hint: str | None, options: dict[str, object]) -> None:
    """A region, unless we are inside one already."""
    if ctx.plane == "execution":
        ctx.run(node.body, ctx.live)
        return
    outer, ctx.split_hint = ctx.split_hint, "split" in options
    region(ctx, node, node.body, "at", hint, options)
    ctx.split_hint = outer


def _options(ctx: Context, found: dict[str, object], call: ast.Call) -> dict[str, object]:
    """Options of a region as compile-time values."""
    out: dict[str, object] = {}
    hints = [*_list(ctx, found.get("optimizations"), "optimizations", call), *([found["optimization"]] if found.get("optimization") is not None else [])]
    hints = [item for hint in hints for item in (hint if isinstance(hint, tuple) else (hint,))]
    for hint in (*hints, *old_hints(found.get("split"), found.get("slot_num"))):
        if not isinstance(hint, Hint):
            message = f"`optimizations` takes pl.split(…) and pl.cross_core_slot(…), got {describe_value(hint)}"
            ctx.fail(ParserTypeError, message, call, help="write optimizations=[pl.split(pl.SplitMode.UP_DOWN)]")
        out[hint.name] = hint.value
    tasks.check_options(found)
    if "role" in found and found["role"] is not None and not isinstance(found["role"], Role):
        ctx.fail(ParserTypeError, f"`role` takes a pl.Role, got {describe_value(found['role'])}", call)
    return out


def _list(ctx: Context, value: object, name: str, call: ast.Call) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, tuple | list):
        ctx.fail(ParserTypeError, f"`{name}` must be a list, got {describe_value(value)}", call)
    return list(value)


def _name_hint(ctx: Context, found: dict[str, object], call: ast.Call) -> str | None:
    hint = found.get("name_hint")
    if hint is not None and not (isinstance(hint, str) and hint.isidentifier()):
        ctx.fail(ParserTypeError, f"`name_hint` must be an identifier, got {describe_value(hint)}", call, help='write name_hint="my_kernel"')
    return hint


def _bind_task(ctx: Context, node: ast.With, options: dict[str, object]) -> None:
    target = node.items[0].optional_vars
    if target is None:
        return
    if not isinstance(target, ast.Name):
        ctx.fail(ParserSyntaxError, "a task id is bound to one name", target, help="write `with pl.at(…) as tid:`")
    ctx.tasks += 1
    ctx.scope[target.id] = Binding(TaskHandle(target.id), ctx.span(target))


# blocks ---------------------------------------------------------------------------------------------------------------


def _spmd_options(ctx: Context, call: ast.Call) -> tuple[SSAValue, str | None, dict[str, object], tuple[object, object]]:
    """Number of blocks, name, options of the region, predicate with the dependencies that it may rely on."""
    found = arguments(ctx, "spmd", call, _SPMD, required=1)
    count = found["core_num"]
    if isinstance(count, tuple | list):
        count = _grid_size(ctx, count, call)
    known = static_integer(count)
    if known is not None and known <= 0:
        ctx.fail(ArgumentError, f"pl.spmd needs at least one block, got {known}", call, help="a number of blocks known at run time may be 0")
    return ctx.index(count, "the number of blocks"), _name_hint(ctx, found, call), _options(ctx, found, call), (found.get("predicate"), found.get("deps"))


def _grid_size(ctx: Context, grid: Sequence[object], call: ast.Call) -> object:
    """How many blocks a grid of two or three extents has."""
    if not 1 <= len(grid) <= 3:
        ctx.fail(ArgumentError, f"pl.spmd takes a grid of one to three extents, got {len(grid)}", call, help="write pl.spmd((rows, columns))")
    total: object = 1
    for extent in grid:
        known, so_far = static_integer(extent), static_integer(total)
        if known is not None and known <= 0:
            message = f"pl.spmd needs at least one block in each direction, got {known}"
            ctx.fail(ArgumentError, message, call, help="a number of blocks known at run time may be 0")
        total = known * so_far if known is not None and so_far is not None else ctx.scalar_op("mul", ctx.index(extent, "an extent"), ctx.index(total))
    return total


def _spmd(ctx: Context, node: ast.With, call: ast.Call) -> None:
    """`with pl.spmd(n):` runs its body once per block."""
    if ctx.plane == "execution":
        ctx.fail(ParserSyntaxError, "pl.spmd inside a region", node, help="pl.spmd starts kernels: it belongs on the control plane")
    if node.items[0].optional_vars is None:
        _no_deps(ctx, call, "needs a task id of its own", "write `with pl.spmd(…, deps=[…]) as tid:`")
    _check_spmd_body(ctx, node)
    count, hint, options, predicate = _spmd_options(ctx, call)
    _bind_task(ctx, node, options)
    tasks.guarded(ctx, *predicate, lambda: region(ctx, node, node.body, "spmd", hint, options, count))


def _no_deps(ctx: Context, call: ast.Call, why: str, help: str) -> None:
    for keyword in call.keywords:
        if keyword.arg == "deps":
            ctx.fail(ParserSyntaxError, f"`deps` of pl.spmd {why}", keyword.value, help=help)


def _check_spmd_body(ctx: Context, node: ast.With) -> None:
    """One kernel, one pl.at, or statements that ask which block they are: anything else does the same work in every block."""
    kernels = [statement for statement in node.body if _calls_a_method(statement)]
    if len(kernels) > 1:
        ctx.fail(ParserSyntaxError, "a pl.spmd block starts one kernel", kernels[1], help="give each kernel a block of its own, or write the blocks out inline")
    body = [statement for statement in node.body if not _is_docstring(statement)]
    if len(body) == 1 and (kernels or isinstance(body[0], ast.With)):
        return
    asks = any(_name_of(item.func) == "get_block_idx" for statement in body for item in ast.walk(statement) if isinstance(item, ast.Call))
    if not asks:
        help = "read pl.tile.get_block_idx(), or write `for i in pl.spmd(n):`"
        ctx.fail(ParserSyntaxError, "the blocks of this pl.spmd all do the same: nothing in it asks for the block index", node.items[0].context_expr, help=help)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _calls_a_method(node: ast.stmt) -> bool:
    """Whether a statement is a call of a function of the program: `self.kernel(…)`, `out = self.kernel(…)`."""
    call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self"


def blocks(ctx: Context, node: ast.For, call: ast.Call) -> None:
    """`for i in pl.spmd(n):`"""
    if ctx.plane == "execution":
        ctx.fail(ParserSyntaxError, "pl.spmd inside a region", node, help="pl.spmd starts kernels: it belongs on the control plane")
    names = _index_names(ctx, node.target)
    _no_deps(ctx, call, "belongs to its `with` form", "write `with pl.spmd(…, deps=[…]) as tid:`")
    count, hint, options, predicate = _spmd_options(ctx, call)
    grid = arguments(ctx, "spmd", call, _SPMD, required=1)["core_num"]
    extents = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if len(extents) != len(names):
        message = f"pl.spmd has a grid of {len(extents)} extent{'s' * (len(extents) != 1)}, and {len(names)} indices"
        ctx.fail(ParserSyntaxError, message, node.target, help="write `for i, j in pl.spmd((rows, columns)):`")
    outer, ctx.in_loop = ctx.in_loop, "spmd"
    tasks.guarded(ctx, *predicate, lambda: region(ctx, node, node.body, "spmd", hint, options, count, list(zip(names, extents, strict=True))))
    ctx.in_loop = outer


def _index_names(ctx: Context, target: ast.expr) -> list[str]:
    """The names of the block's place, one per extent of the grid."""
    items = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [item.id for item in items if isinstance(item, ast.Name)]
    if len(names) != len(items):
        ctx.fail(ParserSyntaxError, "the block index must be a name", target)
    return names


def _place(ctx: Context, block: SSAValue, indices: Sequence[tuple[str, object]]) -> dict[str, SSAValue]:
    """Where a block lies in its grid: the last index runs fastest."""
    found: dict[str, SSAValue] = {}
    rest = block
    for position in range(len(indices) - 1, -1, -1):
        name, extent = indices[position]
        size = ctx.index(extent, "an extent of the grid")
        value = rest if position == 0 else ctx.scalar_op("mod", rest, size)
        if position:
            rest = ctx.scalar_op("floordiv", rest, size)
        known = static_integer(extent)
        if known is not None:
            ctx.rounds[value] = range(known)
        ctx.counts.add(value)
        found[name] = value
    return found


# the region itself ----------------------------------------------------------------------------------------------------


def region(
    ctx: Context,
    node: ast.With | ast.For,
    body: Sequence[ast.stmt],
    kind: str,
    hint: str | None,
    options: dict[str, object],
    blocks: SSAValue | None = None,
    indices: Sequence[tuple[str, object]] = (),
) -> None:
    """An execution-plane region. What its body binds and is read later leaves as results; blocks hand out nothing."""
    block = Block(arg_types=d.ir_types([ScalarType(INDEX)] if blocks is not None else []))
    live = ctx.live
    outer_plane, outer_block = ctx.plane, ctx.block
    ctx.plane = "execution"
    count = static_integer(blocks) if blocks is not None else None
    if blocks is not None:
        ctx.block = (block.args[0], blocks)
        ctx.counts.add(block.args[0])
    if count is not None:
        ctx.rounds[block.args[0]] = range(count)
    with ctx.branch(block) as scope:
        if len(indices) == 1:
            name_value(block.args[0], name_hint(indices[0][0]))
        for name, value in _place(ctx, block.args[0], indices).items() if indices else ():
            scope[name] = Binding(value, ctx.span(node))
        ctx.run(body, live)
    ctx.plane, ctx.block = outer_plane, outer_block
    results: dict[SSAValue, int] = {}
    names = [name for name in ctx.analysis.block(body).binds if name in live and name in scope]
    pending: list[tuple[str, Binding]] = []
    for name in names:
        binding = scope[name]
        inside = [value for value in _ssa_leaves(binding.value) if defined_inside(value, block)]
        if inside and blocks is not None:
            _needs_memory(ctx, name, binding)
            reason = Undefined(f"`{name}` is computed inside pl.spmd, where each block has its own", "store it into a tensor to use it afterwards")
            ctx.scope[name] = Binding(reason, binding.span)
            continue
        for value in inside:
            results.setdefault(value, len(results))
        pending.append((name, binding))
    with ctx.builder.at(block):
        ctx.builder.yield_(list(results))
    op = ctx.builder.region(block, [d.type_of(value) for value in results], blocks, kind, hint, options)
    unite(ctx, op.results, [[value] for value in results], [block])
    for name, binding in pending:
        value = _replaced(binding.value, {old: op.results[index] for old, index in results.items()})
        ctx.scope[name] = Binding(value, binding.span)


def _needs_memory(ctx: Context, name: str, inside: Binding) -> None:
    """Blocks that write into one result of an operator, which is read afterwards, need it in memory: as a value each of them would have changed its own."""
    before = ctx.scope.get(name)
    if before is None or not isinstance(before.value, SSAValue) or not isinstance(inside.value, SSAValue) or not is_result(before.value):
        return
    if ctx.aliases.root(before.value) is ctx.aliases.root(inside.value):
        what = f"blocks of pl.spmd write into `{name}`, which is no tensor in memory"
        help = f"write into one that pl.create_tensor(…) gave, and store `{name}` into it before"
        raise ctx.aliases.needs_memory(before.value, UnsupportedFeatureError(what, span=inside.span, help=help))


def _ssa_leaves(value: object) -> list[SSAValue]:
    if isinstance(value, SSAValue):
        return [value]
    return [leaf for item in value for leaf in _ssa_leaves(item)] if isinstance(value, tuple | list) else []


def _replaced(value: object, mapping: dict[SSAValue, SSAValue]) -> object:
    if isinstance(value, SSAValue):
        return mapping.get(value, value)
    return type(value)(_replaced(item, mapping) for item in value) if isinstance(value, tuple | list) else value

"""Names that only the body of a loop binds and that are read after it: their last value, and whether there is one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import BOOL
from tilejit.frontend.branches import yield_names
from tilejit.frontend.context import Context
from tilejit.frontend.merge import is_task
from tilejit.frontend.values import Binding, Perhaps, Undefined, defined_inside, static_integer
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import MemorySpace
from tilejit.types.values import ANY, ArrayType, BufferType, Dim, ScalarType, TileType, ValueType

Read = Callable[[], tuple[Sequence[Block], list[object], dict[str, Binding]]]
"""Reads a loop's body: its blocks, what it hands on, and the scope at its end."""


def prepare(ctx: Context, bound: Iterable[str], carried: Sequence[str], read: Read, runs: bool, node: ast.For | ast.While) -> list[str]:
    """Give the names that are bound late a value before the loop that nobody sees, of the type the body gives them; gives those that can be carried then.

    `runs`: the loop makes a round for certain; what every round binds has a value then."""
    known = {*carried, *yield_names(node.body)}
    names = [name for name in dict.fromkeys(bound) if name in ctx.live and name not in known and not name.startswith("$") and not is_bound(ctx.scope, name)]
    if not names:
        return []
    mark = ctx.snapshot()
    ctx.latest.clear()
    blocks, _, scope = read()
    values = {name: scope[name].value if is_bound(scope, name) else ctx.latest.get(name) for name in names}
    stand_ins = {name: _stand_in(ctx, value, blocks) for name, value in values.items()}
    ctx.restore(mark)
    for block in blocks:
        block.drop_all_references()
    found: list[str] = []
    for name, stand_in in stand_ins.items():
        if stand_in is None:
            continue
        if not (runs and is_bound(scope, name)):
            stand_in = Perhaps((stand_in, False, f"`{name}` is bound only inside a loop that has not bound it"))
        ctx.scope[name] = Binding(stand_in, ctx.span(node))
        found.append(name)
    return found


def is_bound(scope: dict[str, Binding], name: str) -> bool:
    """Whether a name has a value."""
    return name in scope and not isinstance(scope[name].value, Undefined)


def _stand_in(ctx: Context, value: object, blocks: Sequence[Block]) -> object:
    """Something of the type of `value`: itself where the loop does not make it; None if there is nothing of that type."""
    if isinstance(value, Perhaps):
        value = value[0]
    if isinstance(value, tuple | list):
        items = [_stand_in(ctx, item, blocks) for item in value]
        return None if None in items else type(value)(items)
    if is_task(value) or not isinstance(value, SSAValue) or not any(defined_inside(value, block) for block in blocks):
        return value
    if isinstance(value.owner, d.WindowOp) and (window := _first_window(ctx, value.owner, blocks)) is not None:
        return window
    return _undefined(ctx, d.type_of(value))


def _first_window(ctx: Context, op: d.WindowOp, blocks: Sequence[Block]) -> SSAValue | None:
    """The window of the same extents at the start of the same buffer, if these are known before the loop."""
    known = [static_integer(size) for size in op.extents]
    unknown = [size for size, number in zip(op.extents, known, strict=True) if number is None]
    if any(defined_inside(value, block) for value in (op.buffer, *unknown) for block in blocks):
        return None
    sizes = [size if number is None else ctx.builder.const(number) for size, number in zip(op.extents, known, strict=True)]
    type = d.buffer_type(op.result)
    return ctx.builder.window(op.buffer, [ctx.builder.const(0) for _ in sizes], sizes, type, op.drop)


def _undefined(ctx: Context, type: ValueType) -> SSAValue | None:
    if isinstance(type, ScalarType):
        return ctx.builder.const(0.0 if type.dtype.is_float else 0, type.dtype) if type.dtype.name != "BOOL" else ctx.builder.const(False)
    if isinstance(type, ArrayType):
        return ctx.builder.apply(table()["array_create"], "array", {"extent": type.extent, "dtype": type.dtype})[0]
    assert isinstance(type, BufferType | TileType)
    sizes = [_size(ctx, extent) for extent in type.shape]
    if isinstance(type, BufferType):
        return ctx.builder.create(type, [size for size, extent in zip(sizes, type.shape, strict=True) if not isinstance(extent, int)])
    dynamic = [size for size, extent in zip(sizes, type.shape, strict=True) if not isinstance(extent, int)]
    if type.level == "tensor" and dynamic and type.dtype is not BOOL:  # of a buffer: there extents keep the names of their symbols
        made = ctx.builder.create(BufferType(type.shape, type.dtype), dynamic)
        return ctx.builder.apply(table()["cast"], "tensor", {"input": made, "target_type": type.dtype, "mode": "round"})[0]
    if type.level == "tensor":
        return ctx.builder.apply(table()["full"], "tensor", {"shape": sizes, "dtype": type.dtype, "value": ctx.scalar(0, type.dtype)})[0]
    tile = ctx.builder.apply(table()["create_tile"], "tile", {"shape": sizes, "dtype": type.dtype, "target_memory": MemorySpace(type.space)})[0]
    if type.rank == 2 and not type.fully_valid and ANY not in type.valid:
        rows, columns = (_size(ctx, extent) for extent in type.valid)
        (tile,) = ctx.builder.apply(table()["set_validshape"], "tile", {"input": tile, "valid_rows": rows, "valid_cols": columns})
    return tile


def _size(ctx: Context, extent: Dim) -> SSAValue:
    """An extent as a value; one that the body finds out is 0 before it."""
    if isinstance(extent, int) or extent == ANY:
        return ctx.builder.const(extent if isinstance(extent, int) else 0)
    return ctx.extent_value(extent)

"""Buffers: allocation, loads, stores and element access."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from math import prod

from xdsl.ir import SSAValue

from tilejit.dtypes import BOOL, COMPLEX64, FP32, LONGS, DType, dtype_elsewhere
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ParserTypeError, ShapeError
from tilejit.frontend import edges
from tilejit.frontend.affine import difference
from tilejit.frontend.aliases import Place, is_result
from tilejit.frontend.context import Context
from tilejit.frontend.masks import flags
from tilejit.frontend.packed import refuse_write
from tilejit.frontend.values import TypedConstant, describe_value, extent_of, is_number, plain_number, shaped, static_integer
from tilejit.frontend.views import reshape
from tilejit.frontend.windows import Items, behind, check_window, indices, per_dim, static_extents, window_value
from tilejit.ops import table
from tilejit.ops.dtype_rules import PARTS_HELP, as_float, dtype_names, fits, int_text
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import operand, operands
from tilejit.types.enums import AtomicType, MemorySpace, TensorLayout
from tilejit.types.values import BufferType, ScalarType, ShapedType, shape_text

# allocation -----------------------------------------------------------------------------------------------------------


def create(ctx: Context, shape: Items, dtype: object, layout: object = TensorLayout.ND, init: object = None) -> SSAValue:
    """A new buffer."""
    if not isinstance(dtype, DType):
        raise DTypeError(f"create_tensor takes a data type, got {describe_value(dtype)}", help=f"write dtype={dtype_elsewhere(dtype) or FP32!r}")
    sizes = indices(ctx, shape, "an extent")
    dims = tuple(extent_of(size) for size in sizes)
    if not dims or any(isinstance(extent, int) and extent <= 0 for extent in dims):
        raise ShapeError(f"the extents of a new tensor must be positive, got {shape_text(dims)}")
    if init is not None and not is_number(init):
        raise ParserTypeError(f"init_value must be a compile-time number, got {describe_value(init)}")
    if isinstance(init, float) and not dtype.is_float and not init.is_integer():
        raise DTypeError(f"init_value {init!r} is no {dtype}", help="write an integer, or choose a float dtype")
    value = None if init is None else plain_number(init)
    if isinstance(value, int) and not isinstance(value, bool):
        if dtype.is_integer and not fits(value, dtype):
            raise DTypeError(f"init_value {int_text(value)} does not fit {dtype}", help="choose a wider dtype")
        if dtype.is_float:
            as_float(value, dtype)
    type = BufferType(dims, dtype, layout.value if isinstance(layout, TensorLayout) else "ND")
    return ctx.builder.create(type, [size for size, extent in zip(sizes, dims, strict=True) if not isinstance(extent, int)], value)


def spill(ctx: Context, value: SSAValue) -> SSAValue:
    """A buffer that holds a copy of a value: what a load, a call or a window of it needs."""
    type = d.shaped_type(value)
    if isinstance(type, BufferType):
        return value
    sizes = [ctx.builder.dim(value, axis) for axis in range(type.rank)]
    buffer = create(ctx, sizes, type.dtype)
    ctx.builder.store(value, buffer, [ctx.builder.const(0) for _ in range(type.rank)])
    return buffer


def placed(ctx: Context, value: object, node: ast.expr) -> object:
    """What an expression evaluates to; a result that an earlier reading of the function found to need memory is put there."""
    if isinstance(value, tuple) and isinstance(node, ast.Call):
        return type(value)(placed(ctx, item, node) for item in value)
    if not isinstance(value, SSAValue):
        return value
    place = _place(ctx, node)
    return spill(ctx, value) if ctx.aliases.made(value, place) and place in ctx.in_memory else value


def _place(ctx: Context, node: ast.expr) -> Place:
    return ctx.frame.name, type(node), node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def copied(ctx: Context, value: SSAValue, node: ast.expr) -> SSAValue:
    """`+t`: as in NumPy a copy, which a result of an operator needs only where one of the two is written."""
    if isinstance(shaped(value), BufferType):
        return ctx.builder.copy(value)
    ctx.aliases.copied_at(value, place := _place(ctx, node))
    return ctx.builder.copy(value) if is_result(value) and place in ctx.in_memory else value


def filled(ctx: Context, extents: Items, like: ShapedType, value: object) -> SSAValue:
    """A value of the given extents, all cells the scalar `value`, of `like`'s dtype and level."""
    args = {"shape": indices(ctx, extents, "an extent"), "dtype": like.dtype, "value": ctx.scalar(value, like.dtype)}
    return ctx.builder.apply(table()["full"], like.level, args)[0]


# loads and stores -----------------------------------------------------------------------------------------------------


def load(ctx: Context, args: Mapping[str, object]) -> SSAValue:
    """`pl.load`: a tile snapshot of a window."""
    ctx.needs_execution("pl.load", "tile")
    source = args["tensor"]
    type = shaped(source)
    assert isinstance(source, SSAValue) and type is not None
    if type.level == "tile":
        raise ParserTypeError(f"pl.load reads a tensor, got {type}", help="a tile is already loaded; take a part of it with a subscript or pl.slice")
    space = args["target_memory"]
    if space not in (MemorySpace.Vec, MemorySpace.Mat):
        raise ArgumentError(f"pl.load brings a tile into Vec or Mat, not {describe_value(space)}", help="load into Mat and use pl.move")
    assert isinstance(space, MemorySpace)
    source = spill(ctx, source)
    shape = static_extents(per_dim(args["shapes"], type, "shapes"), "shapes")
    if args.get("pad") is not None:
        return edges.padded_load(ctx, source, args, shape, space.value)
    return window_value(ctx, source, args["offsets"], shape, args["valid_shape"], bool(args["clamp"]), space.value)


def store(ctx: Context, args: Mapping[str, object]) -> SSAValue:
    """`pl.store`: write a tile's valid region; evaluates to the buffer."""
    value, buffer = args["tile"], args["output_tensor"]
    type, own = shaped(buffer), shaped(value)
    assert isinstance(buffer, SSAValue) and isinstance(value, SSAValue) and own is not None
    if not isinstance(type, BufferType):
        message = f"pl.store writes into a tensor in global memory, got {describe_value(buffer)}"
        raise ctx.aliases.needs_memory(buffer, ParserTypeError(message, help="the order is pl.store(tile, offsets, tensor)"))
    ctx.needs_execution("pl.store", "tile" if own.level == "tile" else "tensor")
    offsets = per_dim(args["offsets"], type, "offsets")
    if args["shapes"] is not None:
        value = _as_window(ctx, value, own, per_dim(args["shapes"], type, "shapes"))
    if args.get("clamp"):
        assert isinstance(value, SSAValue)
        value, offsets = edges.inside(ctx, value, buffer, offsets)
    return put(ctx, buffer, value, offsets, is_add(args["atomic"]))


def _as_window(ctx: Context, value: SSAValue, own: ShapedType, window: Items) -> SSAValue:
    """What `shapes=` of a store says: the tile in the shape of the window that it fills, else the part of the tile that is written."""
    known = [static_integer(extent) for extent in window]
    if None not in known:
        extents = static_extents(window, "shapes")
        if own.shape == extents:
            return value
        if prod(extents) == prod(extent for extent in own.shape if isinstance(extent, int)):
            return reshape(ctx, value, extents)
    lead = max(len(window) - own.rank, 0)
    part = [1] * (own.rank - len(window)) + list(window[lead:])
    beside = (*known[:lead], *own.shape[: own.rank - len(window) if own.rank > len(window) else 0])
    wide = any(isinstance(got, int) and (static_integer(wanted) or 0) > got for wanted, got in zip(part, own.shape, strict=True))
    if wide or any(extent != 1 for extent in beside):
        asked = shape_text(tuple(extent_of(extent) for extent in window))
        message = f"pl.store takes `shapes` inside the tile {shape_text(own.shape)} or with its elements, got {asked}"
        raise ShapeError(message, help="`shapes` is the part of the tile that is written, or the window that all of it fills")
    shape = [ctx.builder.dim(value, axis) for axis in range(own.rank)]
    cut = {"input": value, "shape": shape, "offset": indices(ctx, [0] * own.rank, "an offset"), "valid_shape": indices(ctx, part, "an extent")}
    return ctx.builder.apply(table()["slice"], own.level, cut)[0]


def is_add(mode: object) -> bool:
    """Whether an `atomic` argument asks for an atomic add."""
    if not isinstance(mode, AtomicType):
        raise ArgumentError(f"`atomic` takes a pl.AtomicType, got {describe_value(mode)}", help="atomic=pl.AtomicType.Add adds to what is there")
    return mode is AtomicType.Add


def assemble(ctx: Context, target: SSAValue, source: SSAValue, offsets: object, atomic: bool = False) -> SSAValue:
    """Write `source` into `target` at the offsets; a buffer stays itself, a value becomes a new one."""
    type = d.shaped_type(target)
    items = per_dim(offsets, type, "offset")
    if isinstance(type, BufferType):
        ctx.needs_execution("this write", "tile" if d.shaped_type(source).level == "tile" else "tensor")
        return put(ctx, target, source, items, atomic)
    if type.level == "tile" and d.shaped_type(source).level != "tile":
        raise ParserTypeError(f"a tile takes a tile, got {d.shaped_type(source)}", help="bring it into a tile with pl.load first")
    if _is_there(target, source, items):
        return target
    args = {"target": target, "source": source, "offset": indices(ctx, items, "an offset")}
    return ctx.builder.apply(table()["assemble"], type.level, args)[0]


def _is_there(target: SSAValue, source: SSAValue, offsets: Items) -> bool:
    """Whether `target` was made by writing `source` there: an accumulator that took what was added to its part. Of memory nobody knows: it changes."""
    owner = target.owner
    if isinstance(d.type_of(source), BufferType) or not isinstance(owner, d.ApplyOp) or owner.op != "assemble" or operand(owner, "source") is not source:
        return False
    places = zip(operands(owner, "offset"), offsets, strict=True)
    return all(difference(before, now) == 0 for before, now in places)


def put(ctx: Context, buffer: SSAValue, value: SSAValue, offsets: Items, atomic: bool) -> SSAValue:
    """A store into a buffer, checked."""
    refuse_write(buffer)
    type = d.shaped_type(buffer)
    value = flags(ctx, value) if type.dtype is BOOL else value
    own = d.shaped_type(value)
    if own.dtype is not type.dtype and isinstance(value.owner, d.ApplyOp) and value.owner.op == "cmp_mask":
        raise DTypeError(f"a mask of packed bits cannot be written into a tensor of {type.dtype}", help="select by it: pl.sel(mask, a, b, tmp)")
    check_conversion(own.dtype, type.dtype)
    if own.rank > type.rank:
        surplus = own.shape[: own.rank - type.rank]
        if any(extent != 1 for extent in surplus):
            raise ShapeError(f"a value with {own.rank} dimensions does not fit into a tensor with {type.rank}: {own} into {type}")
        value = reshape(ctx, value, [ctx.builder.dim(value, axis) for axis in range(len(surplus), own.rank)])
        own = d.shaped_type(value)
    lead = [1] * (type.rank - own.rank)
    most = [valid if isinstance(valid, int) else whole for valid, whole in zip(own.valid, own.shape, strict=True)]
    place, starts = behind(ctx, buffer, offsets, [*lead, *most])
    sizes = [*lead, *(extent if isinstance(extent, int) else 0 for extent in own.valid)]
    check_window(ctx, d.shaped_type(place), starts, sizes, "the write", "start earlier, or write a narrower value")
    if atomic and (type.dtype is BOOL or not (type.dtype.is_float or type.dtype.is_integer)):
        raise DTypeError(f"an atomic add does not work on {type.dtype}")
    ctx.builder.store(value, place, indices(ctx, starts, "an offset"), atomic)
    ctx.aliases.write(buffer)
    return buffer


def check_conversion(source: DType, target: DType) -> None:
    """Decision 18: floats convert, integers widen with the same sign, everything else needs a cast."""
    if source is target or (source.is_float and target.is_float):
        return
    if source.is_integer and target.is_integer and source.kind == target.kind and source.bits <= target.bits:
        return
    help = PARTS_HELP if source is COMPLEX64 else f"convert it first: pl.cast(…, pl.{target.name})"
    raise DTypeError(f"{source} data cannot be written into a tensor of {target}", help=help)


# elements -------------------------------------------------------------------------------------------------------------


def element_indices(ctx: Context, value: SSAValue, position: object) -> list[SSAValue]:
    """One index per dim from a list, or from a flat index."""
    type = d.shaped_type(value)
    if not isinstance(position, tuple | list):
        return _from_flat(ctx, value, ctx.index(position, "an index"))
    items = per_dim(position, type, "indices")
    for axis, item in enumerate(items):
        known, extent = static_integer(item), type.shape[axis]
        if known is not None and (known < 0 or (isinstance(extent, int) and known >= extent)):
            raise OutOfBoundsError(
                f"index {known} is outside dim {axis} of {type}", help=f"indices go from 0 to {extent - 1}" if isinstance(extent, int) else None
            )
    return indices(ctx, items, "an index")


def _from_flat(ctx: Context, value: SSAValue, flat: SSAValue) -> list[SSAValue]:
    type = d.shaped_type(value)
    known, sizes = static_integer(flat), [extent for extent in type.shape if isinstance(extent, int)]
    if known is not None and len(sizes) == type.rank:
        if not 0 <= known < prod(sizes):
            raise OutOfBoundsError(f"the flat index {known} is outside {type}", help="it counts elements in row-major order from 0")
        return [ctx.index(known // prod(sizes[axis + 1 :]) % size) for axis, size in enumerate(sizes)]
    out: list[SSAValue] = []
    rest = flat
    for axis in range(type.rank - 1, 0, -1):
        size = ctx.builder.dim(value, axis)
        out.append(ctx.scalar_op("mod", rest, size))
        rest = ctx.scalar_op("floordiv", rest, size)
    return [rest, *reversed(out)]


def read_element(ctx: Context, value: SSAValue, position: object) -> SSAValue:
    return ctx.builder.read(*_cell(ctx, value, element_indices(ctx, value, position)))


def _cell(ctx: Context, value: SSAValue, found: list[SSAValue]) -> tuple[SSAValue, list[SSAValue]]:
    """Where an element is: behind a window that may overhang."""
    buffer, offsets = behind(ctx, value, found, [1] * len(found))
    return buffer, indices(ctx, offsets, "an index")


def _as_element(ctx: Context, type: ShapedType, value: object) -> SSAValue:
    """A number as an element of a tensor or tile."""
    if isinstance(value, SSAValue):
        own = d.type_of(value)
        if not isinstance(own, ScalarType):
            raise ParserTypeError(f"one element takes a scalar, got {own}")
        if {own.dtype, type.dtype} == LONGS:
            return ctx.cast_scalar(value, type.dtype)
        _check_element(type, own.dtype)
    elif isinstance(value, TypedConstant):
        _check_element(type, value.dtype)
    return ctx.scalar(value, type.dtype)


def change_element(ctx: Context, row: OpSpec, target: SSAValue, position: object, value: object, expected: object = None) -> SSAValue:
    """An atomic row on one element; evaluates to what it was."""
    type = d.shaped_type(target)
    if not isinstance(type, BufferType):
        what = f"{row.name} changes an element of a tensor in memory, got the result of an operator"
        raise ctx.aliases.needs_memory(target, ParserTypeError(what, help="write it into pl.create_tensor(…) first"))
    if type.dtype not in row.dtypes:
        what = f"{row.name} takes a tensor of {dtype_names(row.dtypes)}, got {type.dtype}"
        raise DTypeError(what, help="floats have atomic_add, atomic_max, atomic_min and atomic_exchange")
    ctx.needs_execution(f"pl.{row.name}", "tensor")
    refuse_write(target)
    wanted = None if expected is None else _as_element(ctx, type, expected)
    cell = _cell(ctx, target, element_indices(ctx, target, position))
    old = ctx.builder.atomic(row, *cell, _as_element(ctx, type, value), wanted)
    ctx.aliases.write(target)
    return old


def write_element(ctx: Context, target: SSAValue, position: object, value: object) -> SSAValue:
    """One element: a buffer stays itself, a tile becomes a new value."""
    type = d.shaped_type(target)
    scalar = _as_element(ctx, type, value)
    found = element_indices(ctx, target, position)
    if isinstance(type, BufferType):
        refuse_write(target)
        ctx.builder.write(*_cell(ctx, target, found), scalar)
        ctx.aliases.write(target)
        return target
    return ctx.builder.apply(table()["write"], type.level, {"dst": target, "offset": found, "value": scalar})[0]


def _check_element(type: ShapedType, own: DType) -> None:
    if own is not type.dtype:
        raise DTypeError(f"an element of {type} takes a {type.dtype} scalar, got {own}", help=f"convert it first: pl.cast(…, pl.{type.dtype.name})")


def dim(ctx: Context, value: SSAValue, axis: object) -> object:
    """`pl.tensor.dim`."""
    type = d.shaped_type(value)
    position = static_integer(axis)
    if position is None:
        raise ParserTypeError(f"the axis must be a compile-time integer, got {describe_value(axis)}")
    if not -type.rank <= position < type.rank:
        raise ShapeError(f"axis {position} of a tensor with {type.rank} dimension{'s' * (type.rank != 1)}: {type}", help="give one entry per dimension")
    known = type.shape[position % type.rank]
    return known if isinstance(known, int) else ctx.builder.dim(value, position % type.rank)

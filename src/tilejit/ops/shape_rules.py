"""How shapes and valid regions of operands combine."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.dtypes import DType
from tilejit.errors import DTypeError, ShapeError
from tilejit.ops.spec import Call, ExtentCheck, ScalarArg
from tilejit.types.values import ANY, TENSOR_SPACE, Dim, Shape, ShapedType, TileType, Valid, same_extent, shape_text

MAX_TILE_RANK = 5


def result_type(call: Call, shape: Shape, dtype: DType, valid: Valid, space: str = "Vec") -> TileType:
    """The type of a value at the level of the call: a tile in `space`, or a tensor-level value (valid everywhere)."""
    return TileType(shape, dtype, valid, TENSOR_SPACE if call.level == "tensor" else space)


def require_rank(call: Call, name: str, shaped: ShapedType, *ranks: int) -> None:
    """Refuse another rank."""
    if shaped.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise ShapeError(f"{call.row.title} takes a rank-{wanted} {shaped.level} as `{name}`, got {shape_text(shaped.shape)}", help="reshape it first with pl.reshape")


def agree(call: Call, left: tuple[str, int], right: tuple[str, int], problem: str, help: str | None = None) -> Dim:
    """Two extents that must be equal: proved, refused (`problem`), or checked at run time. Returns the better known one."""
    a, b = (call.shaped(name).shape[axis] for name, axis in (left, right))
    same = same_extent(a, b)
    if same is False:
        raise ShapeError(f"{call.row.title} {problem}", help=help)
    if same is None:
        call.checks.append(ExtentCheck(left, right))
    return better_known(a, b)


def better_known(a: Dim, b: Dim) -> Dim:
    """Of two equal extents the one that says more: a number, then a symbol, then ANY."""
    return b if isinstance(b, int) or a == ANY else a


def same_shapes(call: Call, names: Sequence[str]) -> Shape:
    """The common shape of operands that must not broadcast."""
    first = call.shaped(names[0])
    shape = list(first.shape)
    for name in names[1:]:
        other = call.shaped(name)
        text = f"needs operands of equal shape, got {shape_text(first.shape)} and {shape_text(other.shape)}"
        if other.rank != first.rank:
            raise ShapeError(f"{call.row.title} {text}", help="it does not broadcast: give both the same rank and shape")
        for axis in range(first.rank):
            dim = agree(call, (names[0], axis), (name, axis), text, "it does not broadcast: bring one operand to the shape of the other first")
            shape[axis] = better_known(shape[axis], dim)
    return tuple(shape)


def broadcast_shapes(call: Call, names: Sequence[str]) -> Shape:
    """NumPy's rule, trailing dims aligned. A dynamic extent never stretches: it must equal its partner unless that is 1."""
    rank = max(call.shaped(name).rank for name in names)
    out: list[Dim] = []
    for axis in range(rank):
        known: tuple[str, int] | None = None
        dim: Dim = 1
        for name in names:
            shaped = call.shaped(name)
            own = axis - (rank - shaped.rank)
            if own < 0 or shaped.shape[own] == 1:
                continue
            if known is None:
                known, dim = (name, own), shaped.shape[own]
                continue
            shapes = " and ".join(shape_text(call.shaped(n).shape) for n in names)
            agree(
                call,
                known,
                (name, own),
                f"cannot broadcast {shapes}: extents {dim} and {shaped.shape[own]} meet in dim {axis}",
                "extents must be equal or 1, aligned at the last dim",
            )
            dim = better_known(dim, shaped.shape[own])
        out.append(dim)
    return tuple(out)


def smaller(a: Dim, b: Dim) -> Dim:
    """The smaller of two valid extents, ANY when only the run can tell."""
    if a == b:
        return a
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else ANY


def common_valid(call: Call, names: Sequence[str], shape: Shape) -> Valid:
    """The intersection of valid regions after broadcasting to `shape`."""
    out: list[Dim] = list(shape)
    for name in names:
        shaped = call.shaped(name)
        for own, (extent, valid) in enumerate(zip(shaped.shape, shaped.valid, strict=True)):
            axis = own + len(shape) - shaped.rank
            if valid == extent:
                continue
            if extent == 1 and shape[axis] != 1:
                # a broadcast cell that may be missing empties the result
                out[axis] = 0 if valid == 0 else ANY
            else:
                out[axis] = smaller(out[axis], valid)
    return tuple(out)


def require_static(call: Call, name: str, shape: Sequence[Dim | None]) -> tuple[int, ...]:
    """The extents as integers; tiles have no others."""
    if not all(isinstance(dim, int) for dim in shape):
        raise ShapeError(f"{call.row.title} needs `{name}` to be known while compiling", help="tile shapes are constants; narrow what is used with valid_shape")
    return tuple(dim for dim in shape if isinstance(dim, int))


def extents(call: Call, name: str) -> Shape:
    """A list parameter as extents: constants, or ANY for run-time scalars."""
    arg = call.arg(name)
    assert isinstance(arg, tuple)
    return tuple(_extent(call, name, item) for item in arg)


def _extent(call: Call, name: str, item: object) -> Dim:
    assert isinstance(item, ScalarArg)
    if not item.dtype.is_integer:
        raise DTypeError(f"{call.row.title} takes integers in `{name}`, got {item.dtype}", help="convert it first: pl.cast(…, pl.INDEX)")
    return item.const if isinstance(item.const, int) else ANY


def new_shape(call: Call, name: str = "shape") -> Shape:
    """The shape a value is made with: positive, at tile level constant and of rank 1 to 5; an extent of another tensor keeps its name."""
    given = call.arg(name)
    assert isinstance(given, tuple)
    named = [item.symbol if isinstance(item, ScalarArg) and item.const is None else None for item in given]
    shape = tuple(dim if symbol is None else symbol for dim, symbol in zip(extents(call, name), named, strict=True))
    if call.level == "tile":
        require_static(call, name, shape)
        if not 1 <= len(shape) <= MAX_TILE_RANK:
            raise ShapeError(f"{call.row.title} makes tiles of rank 1 to {MAX_TILE_RANK}, got {shape_text(shape)}", help="merge dims with pl.reshape")
    if not shape or any(isinstance(dim, int) and dim < 1 for dim in shape):
        raise ShapeError(f"{call.row.title} takes positive extents in `{name}`, got {shape_text(shape)}", help="a part may be empty, a shape may not: use valid_shape")
    return shape


def narrowed(call: Call, shape: Shape, name: str = "valid_shape") -> Valid:
    """The valid region that `name` asks for inside `shape`; everything when it is left out."""
    if call.arg(name) is None:
        return shape
    valid = extents(call, name)
    if len(valid) != len(shape) or any(isinstance(v, int) and isinstance(s, int) and not 0 <= v <= s for v, s in zip(valid, shape, strict=True)):
        raise ShapeError(f"{call.row.title} takes a `{name}` inside {shape_text(shape)}, got {shape_text(valid)}", help="one entry per dimension, at most its extent")
    return valid


def union_box(valid: Sequence[int], offset: Sequence[int], extent: Sequence[int]) -> tuple[int, ...] | None:
    """The origin box that a region and a box written at `offset` make together, or None when they make none."""
    if any(n == 0 for n in extent):
        return tuple(valid)
    if any(n == 0 for n in valid):
        return tuple(extent) if all(o == 0 for o in offset) else None
    inside = [o + e <= v for v, o, e in zip(valid, offset, extent, strict=True)]
    outside = [axis for axis, fits in enumerate(inside) if not fits]
    if not outside:
        return tuple(valid)
    if all(o == 0 and e >= v for v, o, e in zip(valid, offset, extent, strict=True)):
        return tuple(extent)
    axis = outside[0]
    covers_others = all(o == 0 and e == v for i, (v, o, e) in enumerate(zip(valid, offset, extent, strict=True)) if i != axis)
    if len(outside) == 1 and covers_others and offset[axis] <= valid[axis]:
        return tuple(offset[axis] + extent[axis] if i == axis else v for i, v in enumerate(valid))
    return None

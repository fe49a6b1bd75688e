"""How shapes and valid regions of operands combine."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.dtypes import DType
from tilejit.errors import ShapeError
from tilejit.ops.spec import Call, ExtentCheck
from tilejit.types.values import ANY, TENSOR_SPACE, Dim, Shape, ShapedType, TileType, Valid, same_extent, shape_text

MAX_TILE_RANK = 5


def result_type(call: Call, shape: Shape, dtype: DType, valid: Valid, space: str = "Vec") -> TileType:
    """The type of a value at the level of the call: a tile in `space`, or a tensor-level value (valid everywhere)."""
    return TileType(shape, dtype, valid, TENSOR_SPACE if call.level == "tensor" else space)


def require_rank(call: Call, name: str, shaped: ShapedType, *ranks: int) -> None:
    """Refuse another rank."""
    if shaped.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise ShapeError(f"{call.row.name} takes a rank-{wanted} {shaped.level} as `{name}`, got {shape_text(shaped.shape)}", help="reshape it first with pl.reshape")


def agree(call: Call, left: tuple[str, int], right: tuple[str, int], problem: str, help: str | None = None) -> Dim:
    """Two extents that must be equal: proved, refused (`problem`), or checked at run time. Returns the better known one."""
    a, b = (call.shaped(name).shape[axis] for name, axis in (left, right))
    same = same_extent(a, b)
    if same is False:
        raise ShapeError(f"{call.row.name} {problem}", help=help)
    if same is None:
        call.checks.append(ExtentCheck(left, right))
    return better_known(a, b)


def better_known(a: Dim, b: Dim) -> Dim:
    """Of two equal extents the one that says more: a number, then a symbol, then ANY."""
    return a if isinstance(a, int) or b == ANY else b


def same_shapes(call: Call, names: Sequence[str]) -> Shape:
    """The common shape of operands that must not broadcast."""
    first = call.shaped(names[0])
    shape = list(first.shape)
    for name in names[1:]:
        other = call.shaped(name)
        text = f"needs operands of equal shape, got {shape_text(first.shape)} and {shape_text(other.shape)}"
        if other.rank != first.rank:
            raise ShapeError(f"{call.row.name} {text}", help="it does not broadcast: give both the same rank and shape")
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
        raise ShapeError(f"{call.row.name} needs `{name}` to be known while compiling", help="tile shapes are constants; narrow what is used with valid_shape")
    return tuple(dim for dim in shape if isinstance(dim, int))

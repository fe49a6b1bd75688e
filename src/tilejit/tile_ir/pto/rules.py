"""The rules that ops of the table obey, each a small check that says what is wrong, or None."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Concatenate, ParamSpec

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType, TensorType
from xdsl.ir import SSAValue

from tilejit.tile_ir.pto.elements import Element
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.spec import A5, Along, Rule
from tilejit.tile_ir.pto.specs import TileSpec, ViewSpec
from tilejit.tile_ir.pto.types import PartitionViewType, PtrType, TensorViewType

VECTOR = ("i16", "i32", "f16", "f32")
VECTOR_A5 = ("i8", *VECTOR, "bf16")
FLOATS = ("f16", "f32")
INTEGERS = ("i16", "i32")
P = ParamSpec("P")


def constant(value: SSAValue | None) -> int | None:
    """The number an `arith.constant` gives, or None."""
    owner = None if value is None else value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr):
        return int(owner.value.value.data)
    return None


def named_tiles(op: PtoOp, names: Iterable[str]) -> list[tuple[str, TileSpec]]:
    """The tiles among the named operands that are there."""
    return [(name, spec) for name in names if (spec := op.tile(name)) is not None]


def dims(extents: Iterable[object]) -> str:
    return "x".join("?" if dim is None else str(dim) for dim in extents)


def element_of(value: SSAValue | None) -> Element | None:
    """The element type of a tile, view or pointer."""
    type = None if value is None else value.type
    if isinstance(type, TensorViewType | PartitionViewType | PtrType):
        return type.data.element
    from tilejit.tile_ir.pto.types import TileBufType

    return type.data.element if isinstance(type, TileBufType) else None


def any_memref(op: PtoOp) -> bool:
    """Lowered files use memrefs for tiles: their ops are read, not checked."""
    return any(isinstance(operand.type, MemRefType) for operand in op.operands)


# makers of rules ----------------------------------------------------------------------------------------------------------


def maker(check: Callable[Concatenate[PtoOp, str, P], str | None]) -> Callable[P, Rule]:
    """A check with arguments of its own, as what makes a rule of them."""
    return lambda *args, **facts: lambda op, arch: check(op, arch, *args, **facts)


def of_tiles(*names: str) -> Callable[[Callable[..., str | None]], Rule]:
    """A rule of the types of some tiles, which it is given after op and machine; where one is left out there is nothing to check."""

    def made(check: Callable[..., str | None]) -> Rule:
        def rule(op: PtoOp, arch: str) -> str | None:
            found = [op.tile(name) for name in names]
            return None if None in found else check(op, arch, *found)

        return rule

    return made


@maker
def located(op: PtoOp, arch: str, locations: str, *names: str, a5: str | None = None) -> str | None:
    """The named tiles are in one of the memories (`vec|mat`)."""
    allowed = (a5 if a5 is not None and arch == A5 else locations).split("|")
    for name, spec in named_tiles(op, names):
        if spec.loc not in allowed:
            return f"`{name}` must be a {' or '.join(allowed)} tile, it is in {spec.loc}"
    return None


def _alike(op: PtoOp, names: Iterable[str], what: str, fact: Callable[[TileSpec], tuple[object, ...]]) -> str | None:
    """What is known of a fact of the named tiles agrees with that of the first."""
    found = [(name, fact(spec)) for name, spec in named_tiles(op, names)]
    for name, own in found[1:]:
        if any(a is not None and b is not None and a != b for a, b in zip(found[0][1], own)):
            return f"`{found[0][0]}` and `{name}` need {what}, got {dims(found[0][1])} and {dims(own)}"
    return None


@maker
def same_dtype(op: PtoOp, arch: str, *names: str) -> str | None:
    return _alike(op, names, "one element type", lambda spec: (spec.element,))


@maker
def same_valid(op: PtoOp, arch: str, *names: str) -> str | None:
    """Valid extents agree wherever both are known."""
    return _alike(op, names, "the same valid region", lambda spec: spec.valid)


@maker
def same_shape(op: PtoOp, arch: str, *names: str) -> str | None:
    return _alike(op, names, "one shape", lambda spec: spec.shape)


@maker
def elements(op: PtoOp, arch: str, name: str, allowed: tuple[str, ...], a5: tuple[str, ...] | None = None) -> str | None:
    """The element type of a tile, `ui*` counting as `i*`."""
    spec = op.tile(name)
    chosen = a5 if a5 is not None and arch == A5 else allowed
    if spec is not None and spec.element.plain not in chosen:
        return f"`{name}` must hold {', '.join(chosen)} on {'A5' if arch == A5 else 'A2/A3'}, got {spec.element}"
    return None


@maker
def scalar_like(op: PtoOp, arch: str, scalar: str, tile: str) -> str | None:
    """The scalar has the element type of the tile."""
    value, spec = op.operand(scalar), op.tile(tile)
    if value is not None and spec is not None and str(value.type) not in (spec.element.name, spec.element.plain):
        return f"the scalar `{scalar}` must be {spec.element}, as the tile `{tile}`; got {value.type}"
    return None


@maker
def scalar_is(op: PtoOp, arch: str, scalar: str, *types: str) -> str | None:
    value = op.operand(scalar)
    if value is not None and str(value.type) not in types:
        return f"`{scalar}` must be {' or '.join(types)}, got {value.type}"
    return None


@maker
def valid_is(op: PtoOp, arch: str, name: str, axis: int, size: int) -> str | None:
    """A valid extent has one size."""
    spec = op.tile(name)
    if spec is not None and spec.valid[axis] not in (None, size):
        return f"`{name}` needs {size} valid {('row', 'column')[axis]}{'s' * (size != 1)}, got {spec.valid[axis]}"
    return None


@maker
def same_valid_dim(op: PtoOp, arch: str, first: str, second: str, axis: int) -> str | None:
    a, b = op.tile(first), op.tile(second)
    if a is not None and b is not None and None not in (a.valid[axis], b.valid[axis]) and a.valid[axis] != b.valid[axis]:
        return f"`{first}` and `{second}` need as many valid {('rows', 'columns')[axis]}, got {a.valid[axis]} and {b.valid[axis]}"
    return None


@maker
def unboxed_row_major(op: PtoOp, arch: str, *names: str) -> str | None:
    for name, spec in named_tiles(op, names):
        if spec.blayout != "row_major":
            return f"`{name}` must be row_major, it is {spec.blayout}"
    return None


@maker
def unboxed(op: PtoOp, arch: str, *names: str) -> str | None:
    """Tiles that are read in the order of their storage."""
    return next((f"`{name}` must not be boxed" for name, spec in named_tiles(op, names) if spec.boxed), None)


@maker
def element_bytes(op: PtoOp, arch: str, name: str, *sizes: int) -> str | None:
    spec = op.tile(name)
    if spec is not None and spec.element.bytes not in sizes:
        return f"`{name}` must have elements of {', '.join(map(str, sizes))} bytes, got {spec.element}"
    return None


def tensor_result(op: PtoOp, arch: str) -> str | None:
    """The optional result of some ops is a tensor."""
    return None if not op.results or isinstance(op.results[0].type, TensorType) else f"its result is a tensor, got {op.results[0].type}"


# rules of one op -------------------------------------------------------------------------------------------------------------


def view_spec(value: SSAValue | None) -> ViewSpec | None:
    type = None if value is None else value.type
    return type.data if isinstance(type, TensorViewType | PartitionViewType) else None


def _holds_lines(spec: TileSpec) -> bool:
    """Whether a tile can hold one value per row: one column, or 32 bytes with the value repeated."""
    return spec.cols in (1, 32 // spec.element.bytes) or spec.valid[1] == 1


def line_operand(op: PtoOp) -> str:
    """The operand of a row expand that holds one value per row; in some ops it may be the first one, and the second is whole."""
    a, b, d = op.tile("a"), op.tile("b"), op.tile("d")
    assert isinstance(op.row.run, Along)
    if not op.row.run.either or a is None or b is None or d is None:
        return "b"
    if _holds_lines(a) != _holds_lines(b):
        return "a" if _holds_lines(a) else "b"
    return "a" if same_valid("a", "d")(op, A5) is not None and same_valid("b", "d")(op, A5) is None else "b"


def row_vector(op: PtoOp, arch: str) -> str | None:
    """One value per row: a column (col_major or one column), or a row_major tile of 32 bytes per row with the value repeated."""
    name = line_operand(op)
    complaint = same_valid("b" if name == "a" else "a", "d")(op, arch)
    spec, whole = op.tile(name), op.tile("d")
    if complaint is not None or spec is None or whole is None:
        return complaint
    period = 32 // spec.element.bytes
    if not _holds_lines(spec) and spec.valid[1] is not None:
        return f"`{name}` holds one value per row: a Rx1 tile, or Rx{period} with the value repeated; got {dims(spec.shape)}"
    return same_valid_dim(name, "d", 0)(op, arch)


def line_width(op: PtoOp, arch: str) -> str | None:
    """The rows of the second operand have one element or 32 bytes, whatever of them is valid."""
    spec = op.tile("b")
    period = 0 if spec is None else 32 // spec.element.bytes
    return None if spec is None or spec.cols in (1, period) else f"the rows of `b` have 1 column or {period}, got {dims(spec.shape)}"


def make_view(op: PtoOp, arch: str) -> str | None:
    spec = view_spec(op.results[0])
    pointer = op.operand("ptr")
    if spec is None:
        return f"the result must be a !pto.tensor_view, got {op.results[0].type}"
    if pointer is not None and isinstance(pointer.type, PtrType):
        if pointer.type.data.space != "gm":
            return f"a tensor view needs a pointer into gm, got one into {pointer.type.data.space}"
        if pointer.type.data.element != spec.element:
            return f"the pointer and the view need one element type, got {pointer.type.data.element} and {spec.element}"
    for name in ("shape", "strides"):
        if len(op.groups[name]) != len(spec.shape):
            return f"{name} needs one number per dim of the view: {len(spec.shape)}, got {len(op.groups[name])}"
    for axis, (value, dim) in enumerate(zip(op.groups["shape"], spec.shape)):
        size = constant(value)
        if size is not None and (size < 0 or (dim is not None and size != dim)):
            return f"dim {axis} of the view is {dim if dim is not None else 'not negative'}, but its shape says {size}"
    return None


def partition(op: PtoOp, arch: str) -> str | None:
    source, result = view_spec(op.operand("source")), view_spec(op.results[0])
    if source is None or not isinstance(op.results[0].type, PartitionViewType) or result is None:
        return "it makes a !pto.partition_tensor_view of a tensor view"
    if source.element != result.element:
        return f"the slice and the view need one element type, got {result.element} and {source.element}"
    offsets, sizes = op.groups["offsets"], op.groups["sizes"]
    for name, values in (("offsets", offsets), ("sizes", sizes)):
        if len(values) != len(source.shape):
            return f"{name} needs one number per dim of the view: {len(source.shape)}, got {len(values)}"
    for axis, dim in enumerate(source.shape):
        offset, size = constant(offsets[axis]), constant(sizes[axis])
        if offset is not None and offset < 0:
            return f"offset {axis} is negative: {offset}"
        if size is not None and size <= 0:
            return f"size {axis} must be positive, got {size}"
        if dim is not None and size is not None and size > dim:
            return f"dim {axis} of the view has {dim} elements, the slice wants {size}"
        if size is not None and len(result.shape) == len(sizes) and result.shape[axis] not in (None, size):
            return f"dim {axis} of the slice is {result.shape[axis]}, but its size says {size}"
    return None


@maker
def integer_like(op: PtoOp, arch: str, *names: str) -> str | None:
    """Operands that are counted or addressed with."""
    for name in names:
        for value in op.groups[name]:
            if not isinstance(value.type, IndexType | IntegerType):
                return f"`{name}` must be an index or an integer, got {value.type}"
    return None

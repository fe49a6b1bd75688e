"""Rows of the table: pointers and views, tile handles, transfers between global and local memory, movement between tiles."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import IndexType

from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import (
    constant,
    dims,
    element_bytes,
    element_of,
    elements,
    integer_like,
    located,
    make_view,
    maker,
    of_tiles,
    partition,
    same_dtype,
    same_shape,
    same_valid,
    same_valid_dim,
    tensor_result,
    view_spec,
)  # fmt: skip
from tilejit.tile_ir.pto.spec import A5, Custom, Refused, Row
from tilejit.tile_ir.pto.specs import LOCATIONS, TileSpec
from tilejit.tile_ir.pto.types import PtrType, TileBufType, tile_of

_LOWERED = Refused("it belongs to files of a later stage of the vendor's tool chain")


# pointers and views ---------------------------------------------------------------------------------------------------------


def _pointer(op: PtoOp, arch: str) -> str | None:
    pointer = op.operand("ptr")
    return None if pointer is not None and isinstance(pointer.type, PtrType) else "it takes a !pto.ptr"


def _global(op: PtoOp, arch: str) -> str | None:
    pointer = op.operand("ptr")
    if pointer is None or not isinstance(pointer.type, PtrType):
        return "it takes a !pto.ptr"
    spec = pointer.type.data
    value = op.results[0] if op.results else op.operand("value")
    assert value is not None
    if spec.space != "gm":
        return f"it reaches global memory only, the pointer is into {spec.space}"
    return None if str(value.type) in (spec.element.name, spec.element.plain) else f"the scalar must be {spec.element}, as the pointer; got {value.type}"


def _shifted(op: PtoOp, arch: str) -> str | None:
    pointer = op.operand("ptr")
    return _pointer(op, arch) or (None if pointer is not None and pointer.type == op.results[0].type else f"the result has the type of the pointer, got {op.results[0].type}")


def _dim_query(op: PtoOp, arch: str) -> str | None:
    spec, axis = view_spec(op.operand("source")), constant(op.operand("dim"))
    if spec is None:
        return "it takes a tensor view"
    if not isinstance(op.results[0].type, IndexType):
        return f"the result is an index, got {op.results[0].type}"
    return f"the view has {len(spec.shape)} dims, got dim {axis}" if axis is not None and not 0 <= axis < len(spec.shape) else None


VIEWS = (
    Row("addptr", "pointer", "%ptr:ptr , %offset:index : type(ptr) -> type(result)", "the pointer moved on by elements", Custom(), (_shifted, integer_like("offset")), result="type"),
    Row("load_scalar", "pointer", "%ptr:ptr [ %offset:index ] : type(ptr) -> type(result)", "one element of global memory", Custom(), (_global, integer_like("offset")), result="type"),
    Row("store_scalar", "pointer", "%value , %ptr:ptr [ %offset:index ] : type(ptr) , type(value)", "writes one element of global memory", Custom(), (_global, integer_like("offset"))),
    Row("make_tensor_view", "view", "%ptr:ptr , shape = [ %shape:index* ] , strides = [ %strides:index* ] attrs : type(result)", "a strided tensor in global memory", Custom(),
        (_pointer, make_view, integer_like("shape", "strides")), {"layout": "layout"}, "type"),
    Row("partition_view", "view", "%source:tensor , offsets = [ %offsets:index* ] , sizes = [ %sizes:index* ] attrs : type(source) -> type(result)", "a rectangular slice", Custom(),
        (partition, integer_like("offsets", "sizes")), result="type"),
    Row("get_tensor_view_dim", "view", "%source:tensor , %dim:index : type(source) -> type(result)", "an extent of the view", Custom(), (_dim_query,), result="type"),
)  # fmt: skip


# tile handles ----------------------------------------------------------------------------------------------------------------


def _result_tile(op: PtoOp) -> TileSpec | None:
    type = op.results[0].type if op.results else None
    return type.data if isinstance(type, TileBufType) else None


def _is_tile(op: PtoOp, arch: str) -> str | None:
    return None if _result_tile(op) is not None else f"the result must be a !pto.tile_buf, got {op.results[0].type}"


def _alloc(op: PtoOp, arch: str) -> str | None:
    spec = _result_tile(op)
    if spec is None:
        return _is_tile(op, arch)
    for name, dim, size in (("valid_row", spec.valid[0], spec.rows), ("valid_col", spec.valid[1], spec.cols)):
        value = op.operand(name)
        if (value is None) == (dim is None):
            return f"{name} is given exactly where the type says `?`: the type says {'?' if dim is None else dim}, {name} is {'not ' * (value is None)}given"
        number = constant(value)
        if number is not None and not 0 <= number <= size:
            return f"{name} lies between 0 and {size}, got {number}"
    address = constant(op.operand("addr"))
    return f"the address is not negative, got {address}" if address is not None and address < 0 else None


def _set_valid(op: PtoOp, arch: str) -> str | None:
    spec = op.tile("source")
    if spec is None:
        return "it takes a tile"
    if spec.valid != (None, None):
        return f"the valid region of the type must be ?x?, it is {dims(spec.valid)}"
    for name, size in (("row", spec.rows), ("col", spec.cols)):
        number = constant(op.operand(name))
        if number is not None and not 0 <= number <= size:
            return f"the number of valid {name}s lies between 0 and {size}, got {number}"
    return None


def _subset(op: PtoOp, arch: str) -> str | None:
    spec, sizes = op.tile("source"), op.integers("sizes")
    if spec is None or len(sizes) != 2 or len(op.groups["offsets"]) != 2:
        return "it takes a tile, two offsets and two sizes"
    offsets = [constant(value) for value in op.groups["offsets"]]
    for axis, (offset, size, extent) in enumerate(zip(offsets, sizes, spec.shape)):
        if size <= 0 or (offset or 0) < 0 or (offset or 0) + size > extent:
            return f"dim {axis} of the tile has {extent} elements, the window wants {size} from {offset if offset is not None else '?'}"
    if spec.boxed:
        for axis, (offset, size, inner) in enumerate(zip(offsets, sizes, spec.box)):
            if size % inner or (offset or 0) % inner:
                return f"offsets and sizes in a boxed tile are multiples of its box {dims(spec.box)}; dim {axis} has offset {offset}, size {size}"
        kept = 1 if spec.blayout == "row_major" else 0
        if sizes[kept] != spec.shape[kept]:
            return f"a window of a boxed {spec.blayout} tile keeps all its {('rows', 'columns')[kept]}: {spec.shape[kept]}, got {sizes[kept]}"
    return None


def _reshape(op: PtoOp, arch: str) -> str | None:
    source, result = op.tile("source"), _result_tile(op)
    if source is None or result is None:
        return "it takes and makes a tile"
    if source.loc != result.loc:
        return f"both types are in one memory, got {source.loc} and {result.loc}"
    if source.bytes != result.bytes:
        return f"both types have as many bytes, got {source.bytes} and {result.bytes}"
    return None if source.boxed == result.boxed else "both types are boxed, or neither"


def _bitcast(op: PtoOp, arch: str) -> str | None:
    source, result = op.tile("source"), _result_tile(op)
    if source is None or result is None:
        return "it takes and makes a tile"
    if source.element == result.element:
        return f"the element type must change, both are {source.element}"
    if (source.shape, source.valid, source.loc, source.blayout, source.slayout, source.fractal) != (
        result.shape, result.valid, result.loc, result.blayout, result.slayout, result.fractal,
    ):  # fmt: skip
        return "only the element type may change"
    return f"the elements may not grow, got {source.element} and {result.element}" if result.element.bytes > source.element.bytes else None


def _assign(op: PtoOp, arch: str) -> str | None:
    tile = op.operand("tile")
    return None if tile_of(tile) is not None and tile is not None and tile.type == op.results[0].type else "it takes a tile and gives the same type"


TILES = (
    Row("alloc_tile", "tile", "<< addr = %addr:i64 >> << valid_row = %valid_row:index >> << valid_col = %valid_col:index >> attrs : type(result)", "a handle of local memory", Custom(), (_alloc,), result="type"),
    Row("declare_tile", "tile", "attrs -> type(result)", "a handle that tpop binds", Custom(), (_is_tile,), result="type"),
    Row("tassign", "tile", "%tile:tile , %addr:i64 : type(tile) -> type(result)", "the handle at another byte address", Custom(), (_assign,), result="type"),
    Row("set_validshape", "tile", "%source:tile , %row:index , %col:index : type(source)", "sets the valid extents of the handle", Custom(), (_set_valid, integer_like("row", "col"))),
    Row("subset", "tile", "%source:tile [ %offsets:index* ] sizes ints(sizes) attrs : type(source)", "a window of a tile", Custom(), (_subset,), {"sizes": "ints!"}, "infer"),
    Row("treshape", "tile", "%source:tile attrs : type(source) -> type(result)", "the same bytes as another type", Custom(), (_reshape,), result="type"),
    Row("bitcast", "tile", "%source:tile attrs : type(source) -> type(result)", "the same bytes as another element type", Custom("treshape"), (_bitcast,), result="type"),
    Row("bind_tile", "tile", "%source << , %valid_row:index >> << , %valid_col:index >> attrs : type(source) -> type(result)", "a memref with a tile's layout", _LOWERED, result="type"),
    Row("pointer_cast", "tile", "( %addrs* : types(addrs) ) attrs : type(result)", "a memref at addresses", _LOWERED, result="type"),
    Row("declare_tile_memref", "tile", "attrs -> type(result)", "an unbound memref", _LOWERED, result="type"),
)  # fmt: skip


# global ↔ local ----------------------------------------------------------------------------------------------------------------


def _load(op: PtoOp, arch: str) -> str | None:
    source, tile = view_spec(op.operand("src")), op.tile("dst")
    if source is None or tile is None:
        return "it copies a slice of a view into a tile"
    if source.element.bytes != tile.element.bytes:
        return f"the slice and the tile need elements of one size, got {source.element} and {tile.element}"
    return None


def _counts(op: PtoOp, view: str, tile: str) -> str | None:
    slice, spec = view_spec(op.operand(view)), op.tile(tile)
    if slice is None or spec is None or None in slice.shape or None in spec.valid:
        return None
    there, here = math.prod(dim for dim in slice.shape if dim is not None), math.prod(dim for dim in spec.valid if dim is not None)
    return None if there == here else f"the slice {slice} has {there} elements, the valid region {dims(spec.valid)} has {here}"


def _store(op: PtoOp, arch: str) -> str | None:
    target, tile = view_spec(op.operand("dst")), op.tile("src")
    if target is None or tile is None:
        return "it copies a tile into a slice of a view"
    if tile.loc == "acc":
        allowed = {"f32": ("f32", "f16", "bf16"), "i32": ("i32", "f16")}.get(tile.element.name, ())
        if op.operand("quant") is not None or op.operand("fp") is not None:
            allowed = (*allowed, "i8", "ui8")
        if target.element.name not in allowed:
            return f"an acc tile of {tile.element} is stored as {' or '.join(allowed) or 'nothing'}, got {target.element}"
    else:
        if tile.element.bytes != target.element.bytes:
            return f"the tile and the slice need elements of one size, got {tile.element} and {target.element}"
        if op.operand("quant") is not None or op.enum("reluPreMode") == "normal_relu":
            return "quantisation and relu while storing are for acc tiles"
    return _counts(op, "dst", "src")


def _flat_memory(op: PtoOp, arch: str) -> str | None:
    tile = op.tile("dst") or op.tile("src")
    memory = op.operand("mem")
    element = element_of(memory)
    if tile is not None and element is not None and element != tile.element:
        return f"the memory and the tile need one element type, got {element} and {tile.element}"
    return None


_STORE = {"stPhase": "st_phase", "atomicType": "atomic_type", "reluPreMode": "relu_pre_mode"}

TRANSFERS = (
    Row("tload", "transfer", "ins(src:view) outs(dst)", "a slice into the valid region", Custom(), (located("vec|mat", "dst", a5="|".join(LOCATIONS)), _load, tensor_result), {"layout": "layout"}, result="type?"),
    Row("tstore", "transfer", "ins(src, quant:i64?) outs(dst:view)", "the valid region into a slice; atomic_add adds", Custom(), (located("vec|mat|acc", "src", a5="vec|acc"), _store, tensor_result), _STORE, result="type?", order=("src", "dst", "quant"), paired=True),
    Row("tstore_fp", "transfer", "ins(src, fp) outs(dst:view)", "an acc tile times one scale per column", Custom(), (located("acc", "src"), located("scaling", "fp"), _store), _STORE),
    Row("tprefetch", "transfer", "ins(src:view) outs(dst)", "a hint; loads like tload", Custom("tload"), (_load,)),
    Row("mgather", "transfer", "ins(mem:any, idx) outs(dst)", "dst[i] = mem[idx[i]]", Custom(), (located("vec", "idx", "dst"), elements("idx", ("i32",)), same_valid("idx", "dst"), _flat_memory), {"gatherOob": "gather_oob"}, arch=A5),
    Row("mscatter", "transfer", "ins(src, idx) outs(mem:any)", "mem[idx[i]] = src[i]", Custom(), (located("vec", "idx", "src"), elements("idx", ("i32",)), same_valid("idx", "src"), _flat_memory), {"scatterAtomicOp": "scatter_atomic_op", "scatterOob": "scatter_oob"}, arch=A5),
)  # fmt: skip


# movement -----------------------------------------------------------------------------------------------------------------------

_PAIRS = {("mat", "left"), ("mat", "right"), ("mat", "bias"), ("mat", "scaling"), ("vec", "vec"), ("acc", "mat"), ("acc", "vec")}


def _move(op: PtoOp, arch: str) -> str | None:
    source, target = op.tile("src"), op.tile("dst")
    if source is None or target is None:
        return "it copies a tile into a tile"
    pairs = _PAIRS | {("vec", "mat")} if arch == A5 else _PAIRS
    if (source.loc, target.loc) not in pairs:
        allowed = [to for frm, to in sorted(pairs) if frm == source.loc]
        return f"a {source.loc} tile moves to {', '.join(allowed) or 'no other memory'}, not to {target.loc}"
    if (arch != A5 or source.loc == "mat") and source.shape != target.shape:
        return f"`src` and `dst` need one shape, got {dims(source.shape)} and {dims(target.shape)}"
    if source.loc != "acc" and source.element.bytes != target.element.bytes:
        return f"`src` and `dst` need elements of one size, got {source.element} and {target.element}"
    return None


@maker
def _inside(op: PtoOp, arch: str, small: str, large: str, what: str) -> str | None:
    """Offsets and extents of a window of a tile."""
    window, whole = op.tile(small), op.tile(large)
    if window is None or whole is None:
        return None
    for axis, name in ((0, "row"), (1, "col")):
        offset = constant(op.operand(name))
        start = 0 if offset is None else offset
        size = window.shape[axis] if small == "dst" else window.valid[axis] or 0
        if start < 0 or start + size > whole.shape[axis]:
            return f"{what} {size} {('rows', 'columns')[axis]} from {start}, but `{large}` has {whole.shape[axis]}"
    return None


@of_tiles("src", "dst")
def _extract(op: PtoOp, arch: str, source: TileSpec, target: TileSpec) -> str | None:
    allowed = {("mat", "left"), ("mat", "right")}
    if arch == A5:
        allowed |= {("vec", "vec"), ("acc", "mat"), ("mat", "scaling"), ("mat", "bias")}
    if (source.loc, target.loc) not in allowed:
        return f"a part of a {source.loc} tile cannot move to {target.loc} on {'A5' if arch == A5 else 'A2/A3'}"
    return _one_layout(source, target) if source.loc == target.loc == "vec" else None


def _one_layout(source: TileSpec, target: TileSpec) -> str | None:
    """Between vec tiles nothing is laid out anew: both are plain rows, or both are boxes of the same kind."""
    layouts = [(spec.blayout, spec.slayout) for spec in (source, target)]
    if layouts[0] != layouts[1] or layouts[0] not in (("row_major", "none_box"), ("col_major", "row_major")):
        shown = " and ".join(f"{outer}, {inner}" for outer, inner in layouts)
        return f"vec tiles need one layout, row_major, none_box or col_major, row_major; got {shown}"
    return None


@of_tiles("src", "dst")
def _insert(op: PtoOp, arch: str, source: TileSpec, target: TileSpec) -> str | None:
    allowed = {("acc", "mat")} | ({("vec", "mat"), ("vec", "vec")} if arch == A5 else set())
    if (source.loc, target.loc) not in allowed:
        return f"a {source.loc} tile cannot be inserted into {target.loc} on {'A5' if arch == A5 else 'A2/A3'}"
    if arch != A5 and (source.element.name, target.element.name) not in (("f32", "f16"), ("f32", "bf16")):
        return f"on A2/A3 it converts f32 to f16 or bf16, got {source.element} and {target.element}"
    return None


def _padded(op: PtoOp, arch: str) -> str | None:
    spec = op.tile("dst")
    return "`dst` needs a pad value: pad=1 (zero), 2 (max) or 3 (min)" if spec is not None and spec.pad == 0 else None


@of_tiles("src", "dst")
def _grown(op: PtoOp, arch: str, source: TileSpec, target: TileSpec) -> str | None:
    if all(a <= b for a, b in zip(source.shape, target.shape)):
        return None
    return f"`dst` must be at least as large as `src`, got {dims(target.shape)} and {dims(source.shape)}"


@of_tiles("a", "b", "d")
def _concat(op: PtoOp, arch: str, a: TileSpec, b: TileSpec, d: TileSpec) -> str | None:
    if a.valid[1] is None or b.valid[1] is None:
        return None
    return None if a.valid[1] + b.valid[1] <= d.cols else f"`d` has {d.cols} columns, the parts have {a.valid[1]} and {b.valid[1]}"


@of_tiles("src", "dst")
def _transposed(op: PtoOp, arch: str, source: TileSpec, target: TileSpec) -> str | None:
    if None in (*source.valid, *target.valid) or source.valid == target.valid[::-1]:
        return None
    return f"the valid region of `dst` is that of `src` turned over: {dims(source.valid[::-1])}, got {dims(target.valid)}"


_FILL = (located("vec", "src", "dst"), same_dtype("src", "dst"), element_bytes("dst", 1, 2, 4), _padded)
_QUANT = {"accToVecMode": "acc_to_vec_mode", "reluPreMode": "relu_pre_mode"}

MOVEMENT = (
    Row("tmov", "move", "ins(src, fp?, quant:i64?) outs(dst)", "a copy; layouts convert freely", Custom(), (_move, tensor_result), _QUANT, result="type?", order=("src", "dst", "fp", "quant"), paired=True),
    Row("tmov.fp", "move", "ins(src, fp) outs(dst)", "a copy times one scale per column", Custom("tmov"), (located("acc", "src"), located("scaling", "fp")), _QUANT),
    Row("textract", "move", "ins(src, row:index, col:index) outs(dst)", "dst = src[row:, col:]", Custom(), (_extract, _inside("dst", "src", "it takes")), _QUANT),
    Row("textract_fp", "move", "ins(src, fp, row:index, col:index) outs(dst)", "dst = src[row:, col:] times one scale per column", Custom("textract"), (_inside("dst", "src", "it takes"),), _QUANT),
    Row("tinsert", "move", "ins(src, row:index, col:index) outs(dst)", "dst[row:, col:] = src", Custom(), (_insert, _inside("src", "dst", "it puts")), _QUANT),
    Row("tinsert_fp", "move", "ins(src, fp, row:index, col:index) outs(dst)", "dst[row:, col:] = src times one scale per column", Custom("tinsert"), (_inside("src", "dst", "it puts"),), _QUANT),
    Row("ttrans", "move", "ins(src, tmp?) outs(dst)", "dst[c, r] = src[r, c]", Custom(), (located("vec", "src", "dst"), same_dtype("src", "dst"), element_bytes("src", 1, 2, 4), _transposed)),
    Row("tconcat", "move", "ins(a, b) outs(d)", "the valid columns of a, then those of b", Custom(), (located("vec", "a", "b", "d"), same_dtype("a", "b", "d"), same_valid_dim("a", "b", 0), _concat)),
    Row("tpack", "move", "ins(src) outs(dst)", "the low part of every element", Custom(), (located("vec", "src", "dst"), same_valid("src", "dst")), arch=A5),
    Row("tfillpad", "move", "ins(src) outs(dst)", "src where it is valid, the pad value of dst elsewhere", Custom(), (*_FILL, same_shape("src", "dst"))),
    Row("tfillpad_expand", "move", "ins(src) outs(dst)", "the same into a larger tile", Custom("tfillpad"), (*_FILL, _grown)),
    Row("tfillpad_inplace", "move", "ins(src) outs(dst)", "the same where both share their bytes", Custom("tfillpad"), (*_FILL, same_shape("src", "dst"))),
    Row("tget_scale_addr", "move", "ins(src) outs(dst)", "binds a scaling tile to its source", Custom(), (located("scaling", "dst"),)),
)  # fmt: skip

TABLE: tuple[Row, ...] = (*VIEWS, *TILES, *TRANSFERS, *MOVEMENT)

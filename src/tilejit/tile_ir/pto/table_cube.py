"""Rows of the table: matrix products."""

from __future__ import annotations

from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import dims, located, of_tiles, same_valid, tensor_result, valid_is
from tilejit.tile_ir.pto.spec import A5, Matmul, Row, Rule
from tilejit.tile_ir.pto.specs import Dim, TileSpec

Size = tuple[Dim, Dim]

_LAYOUTS = {"left": ("col_major", "row_major"), "right": ("row_major", "col_major"), "acc": ("col_major", "row_major")}
_LIMIT = 4095


def _layout(op: PtoOp, arch: str) -> str | None:
    """A5 checks the layouts of all operands."""
    if arch != A5:
        return None
    for name in ("a", "b", "c", "d"):
        spec = op.tile(name)
        if spec is not None and (spec.blayout, spec.slayout) != _LAYOUTS.get(spec.loc, (spec.blayout, spec.slayout)):
            wanted = _LAYOUTS[spec.loc]
            return f"{spec.loc} tiles on A5 have blayout={wanted[0]}, slayout={wanted[1]}; `{name}` has {spec.blayout}, {spec.slayout}"
    return None


def _one_row(op: PtoOp) -> bool:
    """Products of one row fill a part of their boxes: only what is valid counts."""
    return op.row.name.startswith("tgemv")


def _sizes(op: PtoOp, arch: str) -> str | None:
    """left [M, K], right [K, N], acc [M, N], in valid regions, and in shapes but for one row."""
    a, b, d, c = op.tile("a"), op.tile("b"), op.tile("d"), op.tile("c")
    if a is None or b is None or d is None:
        return "it takes tiles"
    sizes: tuple[tuple[str, Size, Size, Size], ...] = (("shapes", a.shape, b.shape, d.shape), ("valid regions", a.valid, b.valid, d.valid))
    for what, left, right, out in sizes[_one_row(op) :]:
        pairs = ((left[1], right[0]), (left[0], out[0]), (right[1], out[1]))
        if any(one is not None and other is not None and one != other for one, other in pairs):
            return f"the {what} must be [M, K], [K, N] and [M, N], got {dims(left)}, {dims(right)} and {dims(out)}"
    for size in (a.valid[0], a.valid[1], b.valid[1]):
        if size is not None and not 1 <= size <= _LIMIT:
            return f"M, K and N lie between 1 and {_LIMIT}, got {size}"
    if c is not None and (c.element != d.element or (c.shape != d.shape and not _one_row(op))):
        return f"`c` and `d` need one shape and element type, got {_shown(c)} and {_shown(d)}"
    return same_valid("c", "d")(op, arch) if _one_row(op) else None


def _shown(spec: TileSpec) -> str:
    return f"{dims(spec.shape)}x{spec.element}"


@of_tiles("a", "b", "d")
def _types(op: PtoOp, arch: str, a: TileSpec, b: TileSpec, d: TileSpec) -> str | None:
    names = (d.element.name, a.element.name, b.element.name)
    if names == ("i32", "i8", "i8"):
        return None
    floats = ("f16", "bf16", "f32", *(("f8E4M3FN", "f8E4M3", "f8E5M2", "hif8") if arch == A5 else ()))
    if names[0] == "f32" and names[1] == names[2] and names[1] in floats:
        return None
    return f"it multiplies i8 into i32, or two equal float types into f32; got {names[1]} and {names[2]} into {names[0]}"


@of_tiles("a", "b", "d")
def _mx_types(op: PtoOp, arch: str, a: TileSpec, b: TileSpec, d: TileSpec) -> str | None:
    wide = ("f16", "bf16") if _one_row(op) else ()
    for name, spec in (("a", a), ("b", b)):
        if not spec.element.name.startswith(("f8", "f4")) and spec.element.name not in wide:
            return f"`{name}` must hold {', '.join((*wide, 'fp8'))} or fp4 elements, got {spec.element}"
    return None if d.element.name == "f32" else f"the result is f32, got {d.element}"


@of_tiles("bias", "d")
def _bias(op: PtoOp, arch: str, bias: TileSpec, d: TileSpec) -> str | None:
    if bias.element != d.element:
        return f"the bias and the result need one element type, got {bias.element} and {d.element}"
    if _one_row(op):
        few = bias.valid[1] is not None and d.valid[1] is not None and bias.valid[1] < d.valid[1]
        return f"the bias has {bias.valid[1]} valid columns, the result {d.valid[1]}" if few else valid_is("bias", 0, 1)(op, arch)
    return None if bias.shape == (1, d.cols) else f"the bias is 1x{d.cols}, got {dims(bias.shape)}"


_PLACES: tuple[Rule, ...] = (located("left", "a"), located("right", "b"), located("acc", "c", "d"), located("bias", "bias"), _layout, _sizes)


def _products(stem: str, one_row: bool) -> tuple[Row, ...]:
    what = "one row: " if one_row else ""
    extra: tuple[Rule, ...] = (valid_is("a", 0, 1),) if one_row else ()
    valued = None if one_row else "type?"
    plain, scaled = (*_PLACES, _types, _bias, tensor_result, *extra), (*_PLACES, located("scaling", "as", "bs"), _mx_types, _bias, *extra)
    return (
        Row(stem, "matrix", "ins(a, b) outs(d)", f"{what}a @ b", Matmul(), plain, result=valued),
        Row(f"{stem}.acc", "matrix", "ins(c, a, b) outs(d)", f"{what}c + a @ b", Matmul(), plain, result=valued),
        Row(f"{stem}.bias", "matrix", "ins(a, b, bias) outs(d)", f"{what}a @ b + bias", Matmul(), plain, result=valued),
        Row(f"{stem}.mx", "matrix", "ins(a, as, b, bs) outs(d)", f"{what}(a * as) @ (b * bs)", Matmul(True), scaled, arch=A5),
        Row(f"{stem}.mx.acc", "matrix", "ins(c, a, as, b, bs) outs(d)", f"{what}c + (a * as) @ (b * bs)", Matmul(True), scaled, arch=A5),
        Row(f"{stem}.mx.bias", "matrix", "ins(a, as, b, bs, bias) outs(d)", f"{what}(a * as) @ (b * bs) + bias", Matmul(True), scaled, arch=A5),
    )


TABLE: tuple[Row, ...] = (*_products("tmatmul", False), *_products("tgemv", True))

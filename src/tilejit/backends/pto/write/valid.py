"""Valid regions that only the run knows, as index values of the text."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tilejit.backends.pto.write.blocks import BlockWriter
from tilejit.backends.pto.write.plan import array_operands, family, is_product, is_transpose
from tilejit.backends.pto.write.scalars import extent_of
from tilejit.backends.pto.write.text import Extent, op_name
from tilejit.ops.expand import must_cover
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand, operands


def valid_after(w: BlockWriter, op: d.ApplyOp) -> tuple[Extent, Extent]:
    """The valid region of a result as a matrix, from those of the operands."""
    result, args = d.shaped_type(op.results[0]), apply_args(op)
    if len(result.shape) > 2:
        w.check_rows(result.shape, result.valid, op)
    if op.op == "set_validshape":
        return extent_of(w, operand(op, "valid_rows"), op), extent_of(w, operand(op, "valid_cols"), op)
    if op.op == "slice" or op.op == "extract":
        return _window_valid(w, op)
    if is_product(op):
        left, right = w.valid_of(operand(op, "lhs")), w.valid_of(operand(op, "rhs"))
        if isinstance(base := args.get("acc"), SSAValue):
            return w.valid_of(base)
        return left[1 if args.get("a_trans") else 0], right[0 if args.get("b_trans") else 1]
    if is_transpose(op):
        rows, cols = w.valid_of(operand(op, "input"))
        return cols, rows
    if op.op == "cmp_mask":
        rows, cols = w.valid_of(array_operands(op)[0])
        return rows, _eighth(w, cols)
    if family(op) == "reduction":
        rows, cols = w.valid_of(operand(op, "input"))
        return (rows, 1) if op.op.startswith("row_") else (1, cols)
    if must_cover(op.op, result.level):
        return w.valid_of(operand(op, "lhs"))
    if op.op == "reshape":
        rows, cols = w.valid_of(operand(op, "input"))
        if result.shape[-1:] == d.shaped_type(operand(op, "input")).shape[-1:]:
            return rows, cols
        count, last = w.mul(rows, cols), result.valid[-1]
        return (w.define(f"arith.floordivsi {w.ssa(count)}, {w.ssa(last)} : index"), last) if isinstance(last, int) else (1, count)
    if op.op == "concat" or op.op == "assemble":
        raise w.refuse(op, f"{op_name(op)} of a tile whose valid region the run decides")
    if family(op) == "part":
        a, b = (w.valid_of(operand(op, name)) for name in ("lhs", "rhs"))
        return w.most(a[0], b[0]), w.most(a[1], b[1])
    return _common(w, op, array_operands(op))


def _eighth(w: BlockWriter, columns: Extent) -> Extent:
    if isinstance(columns, int):
        return -(-columns // 8)
    return w.define(f"arith.ceildivsi {columns}, {w.ssa(8)} : index")


def _common(w: BlockWriter, op: d.ApplyOp, arrays: list[SSAValue]) -> tuple[Extent, Extent]:
    """The intersection of the valid regions; dims of extent 1 are spread."""
    result = d.shaped_type(op.results[0])
    out: list[Extent] = []
    for axis, known in ((0, result.valid[:-1]), (1, result.valid[-1:])):
        if all(isinstance(dim, int) for dim in known):
            out.append(math.prod(dim for dim in known if isinstance(dim, int)))
            continue
        found: Extent | None = None
        for value in arrays:
            shape = d.shaped_type(value).shape
            own, whole = (shape[-1:], result.shape[-1:]) if axis == 1 else (shape[:-1], result.shape[:-1])
            extent = w.valid_of(value)[axis]
            if all(dim == 1 for dim in own) and not all(dim == 1 for dim in whole):
                if extent == 1:
                    continue
                sizes = [dim for dim in whole if isinstance(dim, int)]
                if len(sizes) < len(whole):
                    raise w.refuse(op, f"{op_name(op)} of an operand that may be empty, spread over an extent that the run decides,")
                extent = w.mul(extent, math.prod(sizes))  # A spread cell that is missing leaves nothing.
            found = extent if found is None else w.least(found, extent, "valid")
        out.append(1 if found is None else found)
    return out[0], out[1]


def _window_valid(w: BlockWriter, op: d.ApplyOp) -> tuple[Extent, Extent]:
    value = operand(op, "src" if op.op == "extract" else "input")
    names = [operand(op, name) for name in ("index_row", "index_col")] if op.op == "extract" else operands(op, "offset")
    offsets, sizes = [extent_of(w, item, op) for item in names], [extent_of(w, item, op) for item in operands(op, "shape")]
    wanted = [extent_of(w, item, op) for item in operands(op, "valid_shape")] or sizes
    there = w.valid_of(value)
    if len(sizes) > 2:
        raise w.refuse(op, "a window with a valid region that the run decides, of a value of rank 3 or more,")
    there = there[2 - len(sizes) :]
    known = d.shaped_type(op.results[0]).valid
    out: list[Extent] = []
    for dim, size, have, offset in zip(known, wanted, there, offsets):
        out.append(dim if isinstance(dim, int) else w.least(size, w.most(w.sub(have, offset), 0), "inside"))
    return (out[0], out[1]) if len(out) == 2 else (1, out[0])

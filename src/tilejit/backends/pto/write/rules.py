"""How PTO text says each row of the op table: the one place where rows meet PTO instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilejit.backends.pto.write import array, compare, cube, index, math, move, rows, scalars, vector
from tilejit.backends.pto.write.blocks import BlockWriter, Tile
from tilejit.backends.pto.write.memory import Memory
from tilejit.backends.pto.write.scalars import ScalarRule
from tilejit.backends.pto.write.vector import Rule
from tilejit.ops.facts import Effect
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d


@dataclass(frozen=True, slots=True)
class Written:
    """The forms of a row; most have one."""

    block: Rule | None = None
    """A block of the result, from blocks of the operands."""
    whole: bool = False
    """It needs all of its operands at once."""
    memory: Callable[[BlockWriter, d.ApplyOp], Memory] | None = None
    """The result in global memory."""
    large: Callable[[BlockWriter, d.ApplyOp], Memory] | None = None
    """The same, for results that are larger than a tile."""
    many: Callable[[BlockWriter, d.ApplyOp], list[Tile]] | None = None
    """Several results."""
    array: Callable[[BlockWriter, d.ApplyOp], None] | None = None
    """On an on-core array."""
    statement: Callable[[BlockWriter, d.EffectOp], None] | None = None
    scalar: ScalarRule | None = None
    """On single numbers."""
    hole: str | None = None
    """Why it is not written."""


def _pair(name: str, scalar: ScalarRule | None = None) -> Written:
    return Written(vector.binary(name), scalar=scalar)


_FOLD, _EXPAND = Written(vector.reduction), Written(vector.expand)
_UNARY, _FUNCTION = Written(vector.unary), Written(vector.unary, scalar=scalars.function)
_LEAKY, _THREE = Written(vector.leaky), Written(vector.three)
_PRODUCT, _BATCH = Written(cube.product), Written(memory=cube.batched)
_PART = Written(index.part, whole=True)
_GATHER, _SCATTER = Written(index.gather, whole=True), Written(index.scatter, whole=True)
_SELECT, _WINDOW, _TRANSPOSE = Written(compare.select), Written(move.slice_rule), Written(move.transpose)
_PAD = Written(move.fillpad, whole=True, large=move.padded)
_PLACE, _KNOWN = Written(scalar=scalars.place), Written(scalar=scalars.known)
_MEETS = Written(hole="a kernel that meets another one is not written as PTO")
_BEFORE_KERNELS = Written()
_NO_SCAN = Written(hole="PTO has no instruction for running sums")
_NO_ORDER = Written(hole="PTO sorts blocks of 32 and merges runs: pl.sort32 and pl.mrgsort")

RULES: dict[str, Written] = {
    # elementwise
    "add": _pair("add", scalars.same("addi", "addf")),
    "sub": _pair("sub", scalars.same("subi", "subf")),
    "mul": _pair("mul", scalars.same("muli", "mulf")),
    "div": _pair("div", scalars.division),
    "floordiv": Written(vector.floor_division, scalar=scalars.floor_division),
    "mod": _pair("rem", scalars.modulo),
    "fmod": _pair("fmod", scalars.remainder),
    "rem": _pair("rem"),
    "addc": _THREE,
    "subc": _THREE,
    "neg": Written(vector.unary, scalar=scalars.negation),
    "abs": Written(vector.unary, scalar=scalars.magnitude),
    "maximum": _pair("max", scalars.extreme("maximum")),
    "minimum": _pair("min", scalars.extreme("minimum")),
    "exp": _FUNCTION,
    "log": _FUNCTION,
    "sqrt": _FUNCTION,
    "rsqrt": _FUNCTION,
    "recip": _FUNCTION,
    "sin": Written(math.trigonometric),
    "cos": Written(math.trigonometric),
    "tanh": Written(math.tanh),
    "erf": Written(math.erf),
    "sigmoid": Written(math.sigmoid),
    "floor": Written(math.whole_number("FLOOR")),
    "ceil": Written(math.whole_number("CEIL")),
    "round": Written(math.whole_number("RINT")),
    "relu": _UNARY,
    "lrelu": _LEAKY,
    "prelu": _LEAKY,
    "cast": Written(math.cast, scalar=scalars.cast),
    "and_": _pair("and", scalars.same("andi")),
    "or_": _pair("or", scalars.same("ori")),
    "xor": _pair("xor", scalars.same("xori")),
    "not_": Written(compare.inverted, scalar=scalars.inverted),
    "shl": _pair("shl", scalars.same("shli")),
    "shr": _pair("shr", scalars.shift_right),
    "cmp": Written(compare.compare, scalar=scalars.compared),
    "compare": Written(compare.compare),
    "where": Written(compare.where, scalar=scalars.chosen),
    "isnan": Written(compare.isnan),
    "logical_and": Written(scalar=scalars.same("andi")),
    "logical_or": Written(scalar=scalars.same("ori")),
    "logical_not": Written(scalar=scalars.inverted),
    # masks
    "cmp_mask": Written(compare.compare),
    "sel": _SELECT,
    "sels": _SELECT,
    # a vector spread over rows or columns
    "row_expand_add": _EXPAND,
    "row_expand_sub": _EXPAND,
    "row_expand_mul": _EXPAND,
    "row_expand_div": _EXPAND,
    "row_expand_max": _EXPAND,
    "row_expand_min": _EXPAND,
    "row_expand_expdif": _EXPAND,
    "row_expand": _EXPAND,
    "col_expand_add": _EXPAND,
    "col_expand_sub": _EXPAND,
    "col_expand_mul": _EXPAND,
    "col_expand_div": _EXPAND,
    "col_expand_max": _EXPAND,
    "col_expand_min": _EXPAND,
    "col_expand_expdif": _EXPAND,
    "col_expand": _EXPAND,
    "expand_clone": Written(vector.expand_clone),
    "expands": Written(vector.fill),
    # an axis folded
    "row_sum": _FOLD,
    "row_max": _FOLD,
    "row_min": _FOLD,
    "row_prod": _FOLD,
    "row_argmax": _FOLD,
    "row_argmin": _FOLD,
    "col_sum": _FOLD,
    "col_max": _FOLD,
    "col_min": _FOLD,
    "col_prod": _FOLD,
    "col_argmax": _FOLD,
    "col_argmin": _FOLD,
    # parts
    "part_add": _PART,
    "part_mul": _PART,
    "part_max": _PART,
    "part_min": _PART,
    # movement
    "fillpad": _PAD,
    "fillpad_expand": _PAD,
    "transpose": _TRANSPOSE,
    "transpose_view": _TRANSPOSE,
    "concat": Written(memory=move.concat, large=move.concat),
    "move": Written(move.move),
    "set_validshape": Written(move.set_validshape),
    "reshape": Written(memory=move.reshape, large=move.reshape),
    "reinterpret_view": Written(move.reinterpret, whole=True),
    "slice": _WINDOW,
    "extract": _WINDOW,
    "assemble": Written(memory=move.assemble, large=move.assemble),
    "write": Written(move.write, whole=True),
    # new values
    "full": Written(vector.fill),
    "create_tile": Written(move.create),
    "ci": Written(move.ci),
    "cumsum": _NO_SCAN,
    "cumprod": _NO_SCAN,
    "cummax": _NO_SCAN,
    "cummin": _NO_SCAN,
    "sort_rows": _NO_ORDER,
    "topk_rows": _NO_ORDER,
    "bincount": Written(hole="PTO has no instruction that counts into bins"),
    "every": Written(hole="PTO moves boxes of neighbouring elements; elements a step apart are not written"),
    "tri": Written(move.tri),
    "random": Written(index.random, whole=True),
    # products
    "matmul": _PRODUCT,
    "matmul_acc": _PRODUCT,
    "matmul_bias": _PRODUCT,
    "gemv": _PRODUCT,
    "gemv_acc": _PRODUCT,
    "gemv_bias": _PRODUCT,
    "batch_matmul": _BATCH,
    "batch_matmul_acc": _BATCH,
    # by index
    "gather": Written(index.gather, whole=True, many=index.by_comparison),
    "gather_flat": _GATHER,
    "gather_mask": _GATHER,
    "gather_compare": Written(many=index.by_comparison),
    "gatherb": Written(index.gatherb, whole=True),
    "mgather": Written(memory=rows.mgather),
    "paged_gather": Written(memory=rows.paged_gather),
    "gather_row": Written(memory=rows.gather_row),
    "scatter": _SCATTER,
    "scatter_flat": _SCATTER,
    "scatter_mask": Written(memory=rows.scatter_pattern),
    "scatter_update": Written(memory=rows.scatter_rows, statement=rows.update_rows),
    "mscatter": Written(statement=rows.mscatter),
    "sort32": Written(index.sort32, whole=True),
    "mrgsort": Written(index.mrgsort, whole=True),
    # arrays
    "array_create": Written(array=array.create),
    "array_get_element": Written(array=array.get),
    "array_update_element": Written(array=array.update),
    # places and other cores
    "get_block_idx": _PLACE,
    "get_block_num": _PLACE,
    "get_subblock_idx": _PLACE,
    "available_cluster_count": _KNOWN,
    "available_aiv_count": _KNOWN,
    "syncall": _MEETS,
    "sync_set": _MEETS,
    "sync_wait": _MEETS,
    "set_ffts": _MEETS,
    "reserve_buffer": _MEETS,
    "import_peer_buffer": _MEETS,
    # gone, or on the control plane, when kernels are written
    "task_dummy": _BEFORE_KERNELS,
    "task_invalid": _BEFORE_KERNELS,
    "no_dep": _BEFORE_KERNELS,
    "alloc": Written(hole="it appears in printed programs only"),
}

IN_MEMORY = frozenset(name for name, rule in RULES.items() if rule.large is not None or (rule.memory is not None and rule is not _BATCH))
"""Rows whose results are made in global memory where they are too large for a tile."""


def rule_of(row: OpSpec) -> Written | None:
    """How a row is written; None: not at all. What only orders work needs no words: PTO text is in order."""
    if row.facts.fifo is not None:
        return _MEETS
    if row.name in RULES:
        return RULES[row.name]
    return Written() if row.facts.effect is Effect.Order or row.family == "structural" else None


def hole(row: OpSpec) -> str | None:
    """Why a row cannot be written as PTO text, or None when it can."""
    if row.derived is not None or row.compose is not None:
        return None
    if row.family == "rank" or row.facts.effect is Effect.Ranks:
        return "PTO text has no word for other ranks yet"
    if row.facts.of_pairs:
        return "PTO has no complex numbers"
    rule = rule_of(row)
    return "the PTO writer has no rule for it" if rule is None else rule.hole

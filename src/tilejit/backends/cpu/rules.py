"""How the CPU runs each row of the op table: the one place where rows meet CPU code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilejit import ops
from tilejit.backends.cpu import generate, machine, ranks
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed import count, gather, paged, radix, scan, scatter, sort, update
from tilejit.backends.cpu.lanes import ops as lanes
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory import array, movement, window
from tilejit.backends.cpu.nests import recipes
from tilejit.backends.cpu.products import matmul, mx
from tilejit.backends.cpu.teams import fibers, fifo
from tilejit.ops.facts import Effect
from tilejit.ops.ranks import COLLECTIVES
from tilejit.ops.spec import OpSpec
from tilejit.runtime.ranks.abi import Comm, Far
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType


@dataclass(frozen=True, slots=True)
class Nest:
    """A member of loop nests: how its recipe is made, and what it does to lanes."""

    make: Callable[[d.ApplyOp, OpSpec, lanes.Lane, bool], recipes.Recipe]
    lane: lanes.Lane = lanes.COPY
    wide: bool = True
    """Whether many lanes at a time still fit the registers."""
    on_indices: Callable[..., Index] | None = None
    """The same on two INDEX scalars, folded where they are known."""


@dataclass(frozen=True, slots=True)
class Own:
    """Code of its own: as a value, as a statement."""

    value: Callable[[FunctionWriter, d.ApplyOp], None] | None = None
    statement: Callable[[FunctionWriter, d.EffectOp], None] | None = None
    in_place: bool = False
    """It changes its first operand where that lies when nobody needs it afterwards."""


@dataclass(frozen=True, slots=True)
class Place:
    """A register that the function holds."""

    register: Callable[[FunctionWriter], Value]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No code: the front end builds something else from it, or statements that run in order need no ordering."""


Rule = Nest | Own | Place | Nothing


def _elementwise(lane: lanes.Lane, wide: bool = True, on_indices: Callable[..., Index] | None = None) -> Nest:
    return Nest(recipes.elementwise, lane, wide, on_indices)


_REDUCTION = Nest(recipes.reduction)
_PRODUCT = Own(matmul.write_matmul)
_ACCUMULATED = Own(matmul.write_matmul, in_place=True)
_SCALED = Own(mx.write_matmul_mx)
_CONSTANT = Own(machine.write_constant)
_PUSH, _POP = Own(statement=fifo.write_push), Own(fifo.write_pop)

RULES: dict[str, Rule] = {
    # elementwise
    "add": _elementwise(lanes.ADD, on_indices=lambda e, a, b: e.add(a, b)),
    "sub": _elementwise(lanes.SUB, on_indices=lambda e, a, b: e.sub(a, b)),
    "mul": _elementwise(lanes.MUL, on_indices=lambda e, a, b: e.mul(a, b)),
    "div": _elementwise(lanes.DIV),
    "floordiv": _elementwise(lanes.FLOORDIV, wide=False),
    "mod": _elementwise(lanes.MOD, wide=False),
    "fmod": _elementwise(lanes.FMOD, wide=False),
    "rem": _elementwise(lanes.MOD, wide=False),
    "addc": _elementwise(lanes.ADDC),
    "subc": _elementwise(lanes.SUBC),
    "neg": _elementwise(lanes.NEG),
    "abs": _elementwise(lanes.ABS),
    "maximum": _elementwise(lanes.MAXIMUM),
    "minimum": _elementwise(lanes.MINIMUM),
    "exp": _elementwise(lanes.EXP),
    "log": _elementwise(lanes.LOG, wide=False),
    "sqrt": _elementwise(lanes.SQRT),
    "rsqrt": _elementwise(lanes.RSQRT),
    "recip": _elementwise(lanes.RECIP),
    "sin": _elementwise(lanes.SIN, wide=False),
    "cos": _elementwise(lanes.COS, wide=False),
    "tanh": _elementwise(lanes.TANH),
    "erf": _elementwise(lanes.ERF, wide=False),
    "sigmoid": _elementwise(lanes.SIGMOID),
    "pow": _elementwise(lanes.POW, wide=False),
    "floor": _elementwise(lanes.FLOOR),
    "ceil": _elementwise(lanes.CEIL),
    "round": _elementwise(lanes.ROUND),
    "relu": _elementwise(lanes.RELU),
    "lrelu": _elementwise(lanes.LEAKY),
    "prelu": _elementwise(lanes.LEAKY),
    "cast": _elementwise(lanes.COPY),
    "and_": _elementwise(lanes.AND),
    "or_": _elementwise(lanes.OR),
    "xor": _elementwise(lanes.XOR),
    "not_": _elementwise(lanes.NOT),
    "shl": _elementwise(lanes.SHL),
    "shr": _elementwise(lanes.SHR),
    "cmp": _elementwise(lanes.EQ),
    "compare": _elementwise(lanes.EQ),
    "where": _elementwise(lanes.WHERE),
    "isnan": _elementwise(lanes.ISNAN),
    "logical_and": _elementwise(lanes.AND),
    "logical_or": _elementwise(lanes.OR),
    "logical_not": _elementwise(lanes.NOT),
    # masks
    "cmp_mask": Nest(recipes.compare),
    "sel": Nest(recipes.select, lanes.WHERE),
    "sels": Nest(recipes.select, lanes.WHERE),
    # a vector spread over rows or columns
    "row_expand_add": Nest(recipes.expand, lanes.ADD),
    "row_expand_sub": Nest(recipes.expand, lanes.SUB),
    "row_expand_mul": Nest(recipes.expand, lanes.MUL),
    "row_expand_div": Nest(recipes.expand, lanes.DIV),
    "row_expand_max": Nest(recipes.expand, lanes.MAXIMUM),
    "row_expand_min": Nest(recipes.expand, lanes.MINIMUM),
    "row_expand_expdif": Nest(recipes.expand, lanes.EXPDIF),
    "row_expand": Nest(recipes.expand),
    "col_expand_add": Nest(recipes.expand, lanes.ADD),
    "col_expand_sub": Nest(recipes.expand, lanes.SUB),
    "col_expand_mul": Nest(recipes.expand, lanes.MUL),
    "col_expand_div": Nest(recipes.expand, lanes.DIV),
    "col_expand_max": Nest(recipes.expand, lanes.MAXIMUM),
    "col_expand_min": Nest(recipes.expand, lanes.MINIMUM),
    "col_expand_expdif": Nest(recipes.expand, lanes.EXPDIF),
    "col_expand": Nest(recipes.expand),
    "expand_clone": Nest(recipes.fill),
    "expands": Nest(recipes.fill),
    # an axis folded
    "row_sum": _REDUCTION,
    "row_max": _REDUCTION,
    "row_min": _REDUCTION,
    "row_prod": _REDUCTION,
    "row_argmax": _REDUCTION,
    "row_argmin": _REDUCTION,
    "col_sum": _REDUCTION,
    "col_max": _REDUCTION,
    "col_min": _REDUCTION,
    "col_prod": _REDUCTION,
    "col_argmax": _REDUCTION,
    "col_argmin": _REDUCTION,
    # parts
    "part_add": Own(generate.part(lanes.ADD)),
    "part_mul": Own(generate.part(lanes.MUL)),
    "part_max": Own(generate.part(lanes.MAXIMUM)),
    "part_min": Own(generate.part(lanes.MINIMUM)),
    # movement
    "fillpad": Own(movement.write_fillpad),
    "fillpad_expand": Own(movement.write_fillpad),
    "transpose": Own(movement.write_transpose),
    "transpose_view": Own(movement.write_transpose),
    "concat": Own(movement.write_concat),
    "move": Own(movement.write_same),
    "aiv_shard": Own(movement.write_same),
    "aic_gather": Own(movement.write_same),
    "set_validshape": Own(movement.write_set_valid),
    "reshape": Own(movement.write_reshape),
    "reinterpret_view": Own(movement.write_reinterpret),
    "slice": Own(window.write_slice),
    "every": Own(movement.write_every),
    "extract": Own(window.write_extract),
    "assemble": Own(window.write_assemble, in_place=True),
    "write": Own(window.write_element, in_place=True),
    # new values
    "full": Own(generate.write_full),
    "create_tile": Own(generate.write_create),
    "ci": Own(generate.write_ci),
    "tri": Own(generate.write_tri),
    "random": Own(generate.write_random),
    # products
    "matmul": _PRODUCT,
    "matmul_acc": _ACCUMULATED,
    "matmul_bias": _PRODUCT,
    "gemv": _PRODUCT,
    "gemv_acc": _ACCUMULATED,
    "gemv_bias": _PRODUCT,
    "batch_matmul": _PRODUCT,
    "batch_matmul_acc": _ACCUMULATED,
    "matmul_mx": _SCALED,
    "matmul_mx_acc": _SCALED,
    "matmul_mx_bias": _SCALED,
    # by index
    "gather": Own(gather.write_gather),
    "gather_flat": Own(gather.write_flat),
    "gather_mask": Own(gather.write_gather_mask),
    "gather_compare": Own(gather.write_gather_compare),
    "gatherb": Own(gather.write_gatherb),
    "mgather": Own(paged.write_mgather),
    "paged_gather": Own(paged.write_paged),
    "gather_row": Own(paged.write_gather_row),
    "scatter": Own(scatter.write_scatter),
    "scatter_mask": Own(scatter.write_scatter_mask),
    "scatter_flat": Own(scatter.write_flat),
    "scatter_update": Own(update.write_updated, update.write_update_in_place),
    "mscatter": Own(statement=update.write_mscatter),
    "sort32": Own(sort.write_sort32),
    "mrgsort": Own(sort.write_mrgsort),
    "sort_rows": Own(radix.write_sort),
    "topk_rows": Own(radix.write_topk),
    "bincount": Own(count.write_bincount),
    "cumsum": Own(scan.write_scan),
    "cumprod": Own(scan.write_scan),
    "cummax": Own(scan.write_scan),
    "cummin": Own(scan.write_scan),
    # arrays
    "array_create": Own(array.write_create),
    "array_get_element": Own(array.write_get),
    "array_update_element": Own(array.write_update, in_place=True),
    # places and other cores
    "get_block_idx": Place(lambda f: f.block_index),
    "get_block_num": Place(lambda f: f.block_count),
    "get_subblock_idx": Place(fibers.lane),
    "available_cluster_count": _CONSTANT,
    "available_aiv_count": _CONSTANT,
    "task_invalid": _CONSTANT,
    "reserve_buffer": _CONSTANT,
    "import_peer_buffer": _CONSTANT,
    "tpush_to_aiv": _PUSH,
    "tpush_to_aic": _PUSH,
    "lane_push": _PUSH,
    "tpop_from_aic": _POP,
    "tpop_from_aiv": _POP,
    "lane_pop": _POP,
    "syncall": Own(statement=fifo.write_syncall),
    # other ranks
    "comm_rank": Own(ranks.write_query(Comm.RANK)),
    "comm_size": Own(ranks.write_query(Comm.COUNT)),
    "notify": Own(statement=ranks.write_notify),
    "wait": Own(statement=ranks.write_wait),
    "lock": Own(statement=ranks.write_lock),
    "unlock": Own(statement=ranks.write_unlock),
    "fetch": Own(statement=ranks.write_box(Far.FETCH)),
    "flush": Own(statement=ranks.write_box(Far.FLUSH)),
    **dict.fromkeys(COLLECTIVES, Own(statement=ranks.write_collective)),
}


def rule_of(row: OpSpec) -> Rule | None:
    """How a row runs; None: it does not."""
    return Nothing() if row.facts.effect is Effect.Order or row.family == "structural" or row.compose is not None else RULES.get(row.name)


def hole(row: OpSpec) -> str | None:
    """Why a row does not run on the CPU, or None when it does."""
    return None if row.derived is not None or row.facts.of_pairs or rule_of(row) is not None else "the CPU backend has no code for it"


def recipe(op: d.ApplyOp) -> recipes.Recipe | None:
    """The recipe of an op, or None when it is no member of loop nests."""
    rule = RULES.get(op.op)
    if not isinstance(rule, Nest) or not op.results or not isinstance(d.type_of(op.results[0]), ShapedType):
        return None
    return rule.make(op, ops.table()[op.op], rule.lane, rule.wide)

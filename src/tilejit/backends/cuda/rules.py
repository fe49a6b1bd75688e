"""One table: what CUDA does with each op, a rule or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tilejit import ops
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.host import Number
from tilejit.backends.cuda.indexed import gather, generated, lines, move, order, pull, regions, scatter
from tilejit.backends.cuda.products import dot
from tilejit.backends.cuda.program import buffers, control, crossing, masks, places, printing, ranks, rows, structure
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.values import Scalar, Value
from tilejit.ops.facts import Effect
from tilejit.ops.ranks import COLLECTIVES
from tilejit.ops.spec import OpSpec
from tilejit.runtime.ranks.abi import Comm
from tilejit.tile_ir import dialect as d

Rule = Callable[[Body, Any], Sequence[Value]]

STRUCTURAL: dict[type[Operation], Rule] = {
    d.ConstOp: structure.const,
    d.ApplyOp: structure.apply,
    d.CreateOp: buffers.create,
    d.WindowOp: buffers.window,
    d.ViewOp: buffers.view,
    d.StridedOp: buffers.strided,
    d.LoadOp: structure.load,
    d.StoreOp: structure.store,
    d.ReadOp: structure.read,
    d.WriteOp: structure.write,
    d.AtomicOp: structure.atomic,
    d.DimOp: structure.extent,
    d.ValidOp: structure.extent,
    d.ForOp: control.for_,
    d.WhileOp: control.while_,
    d.IfOp: control.if_,
    d.GroupOp: structure.group,
    d.CallOp: structure.call,
    d.LaunchOp: structure.call,
    d.CheckOp: structure.check,
    d.EffectOp: structure.effect,
    d.CommOp: ranks.comm,
    d.PeerOp: ranks.peer,
}

_FAMILIES: dict[str, Rule] = {
    "elementwise": rows.cellwise,
    "expand": rows.expand,
    "reduction": rows.reduction,
    "part": rows.part,
    "scan": lines.scan_tile,
    "matmul": dot.product,
    "mx": dot.scaled,
    "machine": places.machine,
}

_OWN: dict[str, Rule | str] = {
    "sort_rows": lines.in_program(order.SORT),
    "topk_rows": lines.in_program(order.TOPK),
    "bincount": lines.in_program(lines.COUNT),
    "expand_clone": rows.expand_clone,
    "expands": rows.expands,
    "cmp_mask": masks.cmp_mask,
    "sel": masks.select,
    "sels": masks.select,
    "transpose": move.transpose,
    "transpose_view": move.transpose,
    "concat": move.concat,
    "move": move.move,
    "reshape": move.reshape,
    "set_validshape": regions.set_validshape,
    "reinterpret_view": move.reinterpret,
    "fillpad": regions.fillpad,
    "fillpad_expand": move.fillpad_expand,
    "slice": move.slice_,
    "every": move.every,
    "extract": move.extract,
    "assemble": move.assemble,
    "write": move.write,
    "full": generated.full,
    "create_tile": generated.create_tile,
    "ci": generated.ci,
    "tri": generated.tri,
    "random": generated.random,
    "gather": gather.gather,
    "gather_flat": gather.gather_flat,
    "gather_mask": gather.gather_mask,
    "gather_compare": gather.gather_compare,
    "gatherb": gather.gatherb,
    "mgather": gather.mgather,
    "paged_gather": gather.paged_gather,
    "gather_row": gather.gather_row,
    "scatter": scatter.scatter,
    "scatter_flat": scatter.scatter_flat,
    "scatter_mask": scatter.scatter_mask,
    "scatter_update": scatter.scatter_update,
    "sort32": scatter.sort32,
    "mrgsort": scatter.mrgsort,
    "tpop_from_aic": crossing.pop,
    "tpop_from_aiv": crossing.pop,
    "lane_pop": crossing.pop,
    "get_block_idx": places.Place(lambda at: at.block_index),
    "get_block_num": places.Place(lambda at: at.block_count),
    "get_subblock_idx": places.Place(lambda at: at.lane),
    "reserve_buffer": places.reserve_buffer,
    "import_peer_buffer": places.peer_buffer,
    "array_create": places.array_create,
    "array_get_element": places.array_get,
    "array_update_element": places.array_update,
    "aiv_shard": places.same_tile,
    "aic_gather": places.same_tile,
    "comm_rank": ranks.Query(Comm.RANK),
    "comm_size": ranks.Query(Comm.COUNT),
}


def _table() -> dict[str, Rule | str]:
    found: dict[str, Rule | str] = {}
    for name, row in ops.table().items():
        rule = _OWN.get(name) or _FAMILIES.get(row.family)
        if rule is not None:
            found[name] = rule
    return found


ROWS: dict[str, Rule | str] = _table()
"""A rule, or the reason why a row has none, by row."""

EFFECTS: dict[str, Rule] = {
    **{name: places.nothing for name, row in ops.table().items() if row.facts.effect is Effect.Order},
    "syncall": places.nothing,
    "print": printing.write_print,
    "device_assert": places.device_assert,
    "mscatter": scatter.mscatter,
    "scatter_update": scatter.scatter_update,
    "tpush_to_aiv": crossing.push,
    "tpush_to_aic": crossing.push,
    "lane_push": crossing.push,
    **dict.fromkeys(("fetch", "flush", "lock", "unlock"), ranks.far),
    "notify": ranks.notify,
    **dict.fromkeys(("wait", *COLLECTIVES), ranks.waiting),
}
"""Statements of the table, print and assertions among them."""

FORMS: dict[str, elementwise.Form] = {
    "add": elementwise.Operator("+"),
    "sub": elementwise.Operator("-"),
    "mul": elementwise.Operator("*"),
    "addc": elementwise.Operator("+"),
    "subc": elementwise.Operator("-"),
    "div": elementwise.integer("int_div", "unsigned_div", elementwise.quotient),
    "floordiv": elementwise.integer("int_floordiv", "unsigned_div", elementwise.helper("float_floordiv")),
    "mod": elementwise.integer("int_mod", "unsigned_mod", elementwise.helper("float_mod")),
    "rem": elementwise.integer("int_mod", "unsigned_mod", elementwise.helper("float_mod")),
    "fmod": elementwise.integer("int_fmod", "unsigned_mod", elementwise.call("libdevice.fmod")),
    "pow": elementwise.integer("int_pow", "unsigned_pow", elementwise.power),
    "neg": elementwise.negated,
    "abs": elementwise.absolute,
    "maximum": elementwise.extreme("maximum"),
    "minimum": elementwise.extreme("minimum"),
    "exp": elementwise.call("libdevice.exp"),
    "log": elementwise.call("libdevice.log"),
    "sqrt": elementwise.root,
    "rsqrt": lambda out, dtype, args: elementwise.quotient(out, dtype, ["1.0", elementwise.root(out, dtype, args)]),
    "recip": lambda out, dtype, args: elementwise.quotient(out, dtype, ["1.0", args[0]]),
    "sin": elementwise.call("libdevice.sin"),
    "cos": elementwise.call("libdevice.cos"),
    "tanh": elementwise.hyperbolic,
    "erf": elementwise.call("libdevice.erf"),
    "sigmoid": elementwise.helper("sigmoid"),
    "floor": elementwise.whole("tl.floor"),
    "ceil": elementwise.whole("tl.ceil"),
    "round": elementwise.whole("libdevice.rint"),
    "relu": elementwise.relu,
    "lrelu": elementwise.leaky,
    "prelu": elementwise.leaky,
    "and_": elementwise.Operator("&"),
    "or_": elementwise.Operator("|"),
    "xor": elementwise.Operator("^"),
    "not_": elementwise.Operator("~"),
    "shl": elementwise.shift("shift_left"),
    "shr": elementwise.shift("shift_right"),
    "logical_and": elementwise.Operator("&"),
    "logical_or": elementwise.Operator("|"),
    "logical_not": elementwise.Operator("~"),
    "isnan": lambda out, dtype, args: f"({args[0]} != {args[0]})",
    "where": lambda out, dtype, args: f"tl.where({args[0]}, {args[1]}, {args[2]})",
    "expdif": lambda out, dtype, args: f"libdevice.exp({args[0]} - {args[1]})",
}
"""How each op is written cell by cell, and what expands combine with; `cmp` and `cast` have rules of their own."""


@dataclass(frozen=True, slots=True)
class OnIndices:
    """What a row does to INDEX numbers, where it is more than to others: bounds are kept, and constants folded."""

    device: Callable[..., Scalar | None] | None = None
    """In a kernel; None for numbers that are left to the row's form."""
    host: Callable[[Number, Number], Number] | None = None
    """In the host program."""
    text: str | None = None
    """Python's own form, in that program's text: extents, offsets and sizes stay far from where 64 bits would wrap."""


INDICES: dict[str, OnIndices] = {
    "add": OnIndices(numbers.add, host.add, "({} + {})"),
    "sub": OnIndices(numbers.sub, host.sub, "({} - {})"),
    "mul": OnIndices(numbers.mul, host.mul, "({} * {})"),
    "minimum": OnIndices(numbers.minimum, host.minimum, "min({}, {})"),
    "maximum": OnIndices(numbers.maximum, host.maximum, "max({}, {})"),
    "floordiv": OnIndices(numbers.quotient, host.floordiv, "({} // {})"),
    "mod": OnIndices(numbers.remainder, host.mod, "({} % {})"),
    "div": OnIndices(numbers.quotient),
    "neg": OnIndices(text="(-{})"),
}

HOST = {
    "ceildiv": "(-(-{} // {}))",
    "array_create": "((0,) * {})",
    "array_get_element": "{}[{}]",
    "array_update_element": "(*{0}[:{1}], {2}, *{0}[{1} + 1 :])",
}
"""What the host computes with no scalar op, as Python's text: the elements of an array are a tuple."""

ATOMICS: dict[object, str] = {"add": "add", "maximum": "max", "minimum": "min", "and_": "and", "or_": "or", "xor": "xor", None: "xchg"}
"""The function of Triton that combines an element in memory as a row does."""

PULLS: dict[str, pull.Pull] = {
    "transpose": pull.Pull(pull.transpose, always=True),
    "transpose_view": pull.Pull(pull.transpose),
    "slice": pull.Pull(pull.slice_, always=True),
    "every": pull.Pull(pull.every, always=True),
    "reshape": pull.Pull(pull.reshape, always=True),
    "concat": pull.Pull(pull.concat, always=True),
    "fillpad": pull.Pull(pull.copy),
    "fillpad_expand": pull.Pull(pull.fillpad_expand),
    "set_validshape": pull.Pull(pull.copy),
    "move": pull.Pull(pull.copy),
    "full": pull.Pull(pull.full, always=True),
    "ci": pull.Pull(pull.ci),
    "gather": pull.Pull(pull.gather),
    "assemble": pull.Pull(pull.assemble),
    "write": pull.Pull(pull.write),
}
"""Rows whose large results are fetched cell by cell from where they were."""


LINES: dict[str, lines.Lines] = {
    **{name: lines.SCAN for name, row in ops.table().items() if row.family == "scan"},
    "sort_rows": order.SORT,
    "topk_rows": order.TOPK,
    "bincount": lines.COUNT,
}
"""Rows that go from memory to memory where their operands are too large for registers, or are no tiles."""


def hole(row: OpSpec) -> str | None:
    """Why a row does not run on CUDA; None when it does."""
    rule = ROWS.get(row.name) or EFFECTS.get(row.name)
    if row.family == "structural" or row.compose is not None or row.derived is not None or row.facts.of_pairs or callable(rule):
        return None
    return rule or "nobody wrote its rule yet"

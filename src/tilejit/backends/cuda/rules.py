"""One table: what CUDA does with each op, a rule or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation

from tilejit import ops
from tilejit.backends.cuda import control, crossing, dot, gather, masks, move, rows, scatter, structure
from tilejit.backends.cuda.body import Body
from tilejit.backends.cuda.places import EFFECT_RULES, PLACE_RULES
from tilejit.backends.cuda.values import Value
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d

Rule = Callable[[Body, Any], Sequence[Value]]

STRUCTURAL: dict[type[Operation], Rule] = {
    d.ConstOp: structure.const,
    d.ApplyOp: structure.apply,
    d.CreateOp: structure.create,
    d.WindowOp: structure.window,
    d.ViewOp: structure.view,
    d.StridedOp: structure.strided,
    d.LoadOp: structure.load,
    d.StoreOp: structure.store,
    d.ReadOp: structure.read,
    d.WriteOp: structure.write,
    d.DimOp: structure.dim,
    d.ValidOp: structure.valid,
    d.ForOp: control.for_,
    d.WhileOp: control.while_,
    d.IfOp: control.if_,
    d.GroupOp: structure.group,
    d.CallOp: structure.call,
    d.LaunchOp: structure.call,
    d.CheckOp: structure.check,
    d.EffectOp: structure.effect,
}

_FAMILIES: dict[str, Rule] = {
    "elementwise": rows.cellwise,
    "expand": rows.expand,
    "reduction": rows.reduction,
    "part": rows.part,
    "matmul": dot.product,
    "mx": dot.scaled,
}

_OWN: dict[str, Rule | str] = {
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
    "set_validshape": move.set_validshape,
    "reinterpret_view": move.reinterpret,
    "fillpad": move.fillpad,
    "fillpad_expand": move.fillpad_expand,
    "slice": move.slice_,
    "extract": move.extract,
    "assemble": move.assemble,
    "write": move.write,
    "full": move.full,
    "create_tile": move.create_tile,
    "ci": move.ci,
    "tri": move.tri,
    "random": move.random,
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
    **PLACE_RULES,
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
    **EFFECT_RULES,
    "mscatter": scatter.mscatter,
    "scatter_update": scatter.scatter_update,
    **dict.fromkeys(("tpush_to_aiv", "tpush_to_aic", "lane_push"), crossing.push),
}
"""Statements of the table, print and assertions among them."""


def hole(row: OpSpec) -> str | None:
    """Why a row does not run on CUDA; None when it does."""
    rule = ROWS.get(row.name) or EFFECTS.get(row.name)
    if row.family == "structural" or callable(rule):
        return None
    return rule or "nobody wrote its rule yet"

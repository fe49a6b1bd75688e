"""Ops of the dialect are walked, and asked what they are, as any op of xDSL: only faster."""

from __future__ import annotations

from xdsl.ir import Operation

import tilejit.language as pl
from tilejit.tile_ir import dialect as d


@pl.program
class Nested:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        for i in pl.range(4):
            with pl.at(level=pl.Level.CORE_GROUP):
                if i > 1:
                    out[:] = pl.exp(x)
                else:
                    out[:] = x + 1.0


def test_the_order_is_that_of_any_op() -> None:
    (function,) = Nested.functions.values()
    for options in ({}, {"reverse": True}, {"region_first": True}, {"reverse": True, "region_first": True}):
        assert list(function.walk(**options)) == list(Operation.walk(function, **options))
    assert {d.ForOp, d.RegionOp, d.IfOp, d.ApplyOp, d.StoreOp} <= {type(op) for op in function.walk()}


def test_an_op_may_be_taken_away_while_it_is_seen() -> None:
    (function,) = Nested.functions.values()
    copy = function.clone()
    expected = [type(op) for op in copy.walk()]
    seen: list[type[Operation]] = []
    for op in copy.walk():
        seen.append(type(op))
        if isinstance(op, d.StoreOp):
            op.detach()
            op.erase()
    assert seen == expected
    assert not any(isinstance(op, d.StoreOp) for op in copy.walk())


def test_an_op_is_of_the_kinds_that_it_derives_from_alone() -> None:
    ops = list(Nested.module.walk())
    assert all(isinstance(op, kind) == (kind in type(op).__mro__) for op in ops for kind in (d.TileOp, d.RowOp, d.ApplyOp, d.ForOp, Operation))

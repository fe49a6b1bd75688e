"""What a call costs: operations as sums of products of extents, and whether it is over soon."""

from __future__ import annotations

import tilejit.language as pl
from tilejit import ir
from tilejit.passes.cost import cost_of
from tilejit.tile_ir.program import Program


def program(parameters: str, body: str, symbols: str = "") -> Program:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    found = pl.parse(f"""
{symbols}
@pl.program
class P:
    @pl.function
    def main(self, {parameters}):
        with pl.at(level=pl.Level.CORE_GROUP):
{lines}
""")
    assert isinstance(found, Program)
    return found


def test_a_matrix_product_costs_two_operations_per_cell_and_step() -> None:
    params = "a: pl.Tensor[[8, 16], pl.FP32], b: pl.Tensor[[16, 24], pl.FP32], out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]"
    assert cost_of(program(params, "out[:] = pl.matmul(a, b)"), "main").terms == ((2 * 8 * 16 * 24, ()),)


def test_dynamic_extents_stay_symbols() -> None:
    params = "a: pl.Tensor[[M, 16], pl.FP32], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]"
    cost = cost_of(program(params, "out[:] = pl.mul(pl.exp(a), 2.0)", 'M = pl.dynamic("M")'), "main")
    assert cost.terms == ((32, ("M",)),)
    assert not cost.brief


def test_loops_multiply_and_reductions_count_what_they_read() -> None:
    params = "a: pl.Tensor[[40, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]"
    body = "for i in pl.range(10):\n    out[:] = pl.row_sum(a[i * 4 : i * 4 + 4, :])"
    assert cost_of(program(params, body), "main").terms == ((640, ()),)


def test_loops_over_run_time_bounds_have_no_known_cost() -> None:
    params = "n: pl.Scalar[pl.INDEX], a: pl.Tensor[[40, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]"
    body = "for i in pl.range(n):\n    t = pl.load(a, [i, 0], [4, 16])\n    pl.store(pl.exp(t), [0, 0], out)"
    cost = cost_of(program(params, body), "main")
    assert cost.terms is None
    assert not cost.brief


def test_only_little_work_is_brief() -> None:
    def brief(rows: int) -> bool:
        tensor = f"pl.Tensor[[{rows}, 8], pl.FP32]"
        compiled = ir.compile(program(f"a: {tensor}, b: {tensor}, out: pl.Out[{tensor}]", "out[:] = pl.add(a, b)"), platform="cpu")
        return compiled.artifact.entries["main"].brief

    assert brief(4)
    assert not brief(400)

"""Regions: what is inside runs as a kernel, what is read later leaves as a result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.kernels import Array, data, kernel, ops, run
from tilejit.errors import InvalidOperationError, ParserSyntaxError, ParserTypeError, UndefinedVariableError
from tilejit.frontend.text import parse
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import SplitMode

AT = "with pl.at(level=pl.Level.CORE_GROUP):\n"


def control(body: str, *cfg: int) -> tuple[Array, Array]:
    x, out = data(8, 16), np.full((8, 16), np.nan, np.float32)
    run(kernel(body, kind="Orchestration"), x, np.array([*cfg, 0, 0, 0, 0][:4], np.int32), out)
    return x, out


def test_values_bound_inside_and_read_later_are_results() -> None:
    body = AT + "    y = pl.neg(x)\n    unused = pl.exp(x)\n    n = cfg[0] + 1\n" + AT + "    out[:] = pl.mul(y, pl.cast(n, pl.FP32))"
    program = kernel(body, kind="Orchestration")
    first, second = ops(program, d.RegionOp)
    assert [str(d.type_of(result)) for result in first.results] == ["Tensor[[8, 16], FP32]", "Scalar[INT32]"]
    assert not second.results
    x, out = control(body, 2)
    np.testing.assert_array_equal(out, -x * 3)


def test_a_return_inside_a_region_leaves_it() -> None:
    program = kernel(AT + "    out[:] = x\n    return out", kind="Orchestration")
    assert program.functions["k"].static("attrs") == {"returns": (("param", 2),)}


def test_a_region_inside_a_region_is_part_of_it() -> None:
    program = kernel(AT + "    " + AT + "        out[:] = x", kind="Orchestration")
    assert len(ops(program, d.RegionOp)) == 1


def test_in_an_incore_function_the_region_is_the_function() -> None:
    assert not ops(kernel(AT + "    out[:] = x"), d.RegionOp)


def test_other_levels_only_group() -> None:
    program = kernel("with pl.at(level=pl.Level.CHIP):\n    " + AT + "        out[:] = x", kind="Orchestration")
    assert len(ops(program, d.RegionOp)) == 1


def test_hints_and_names_are_kept() -> None:
    body = "with pl.at(level=pl.Level.CORE_GROUP, name_hint='copy', optimizations=[pl.split(pl.SplitMode.UP_DOWN)]) as tid:\n    out[:] = x\n"
    body += "with pl.at(level=pl.Level.CORE_GROUP, deps=[tid]):\n    out[:] = pl.neg(out)"
    region = ops(kernel_without_print(body), d.RegionOp)[0]
    assert region.static("name_hint") == "copy"
    assert region.static("options") == {"split": SplitMode.UP_DOWN}


def kernel_without_print(body: str):
    from tests.frontend.kernels import source
    from tilejit.tile_ir.program import Function

    found = parse(source(body, kind="Orchestration"))
    assert isinstance(found, Function)
    return found.program


def test_blocks_run_their_body_with_their_index() -> None:
    body = "for b in pl.spmd(cfg[0]):\n    t = pl.load(x, [b * 2, 0], [2, 16])\n    out = pl.store(pl.mul(t, 2.0), [b * 2, 0], out)\nreturn out"
    x, out = control(body, 4)
    np.testing.assert_array_equal(out, x * 2)


def test_the_block_index_is_also_an_op() -> None:
    body = "with pl.spmd(4):\n    b = pl.tile.get_block_idx()\n    pl.store(pl.load(x, [b * 2, 0], [2, 16]), [b * 2, 0], out)"
    x, out = control(body)
    np.testing.assert_array_equal(out, x)


def test_values_do_not_leave_blocks() -> None:
    with pytest.raises(UndefinedVariableError, match=r"`t` is computed inside pl\.spmd, where each block has its own"):
        kernel("for b in pl.spmd(4):\n    t = pl.neg(x)\nout[:] = t", kind="Orchestration")


def test_scopes_only_matter_to_a_scheduler() -> None:
    x, out = control("with pl.manual_scope():\n    with pl.at(level=pl.Level.CORE_GROUP):\n        y = pl.neg(x)\n    " + AT + "        out[:] = y")
    np.testing.assert_array_equal(out, -x)


def test_submitted_kernels_give_results_and_a_task() -> None:
    text = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def split(self, x: pl.Tensor[[8, 16], pl.FP32], low: pl.Out[pl.Tensor[[8, 16], pl.FP32]], high: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        low[:] = pl.minimum(x, 0.0)
        high[:] = pl.maximum(x, 0.0)
        return low, high

    @pl.function(type=pl.FunctionType.InCore)
    def shift(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        out[:] = pl.add(x, 1.0)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 16], pl.FP32], cfg: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        a = pl.create_tensor([8, 16], dtype=pl.FP32)
        (low, high), first = pl.submit(self.split, x, a)
        everything = pl.submit(self.shift, high, deps=[first])
        out, _ = pl.submit(self.shift, everything[0], out, deps=[everything[1]], predicate=cfg[0] == 1)
        return out
"""
    found = parse(text)
    from tilejit.tile_ir.program import Program

    assert isinstance(found, Program)
    x = data(8, 16)
    for flag in (0, 1):
        out = np.full((8, 16), 9, np.float32)
        run(found, x, np.array([flag, 0, 0, 0], np.int32), out)
        np.testing.assert_allclose(out, np.maximum(x, 0) + 2 if flag else np.full_like(x, 9), rtol=1e-6)


def test_tile_work_on_the_control_plane_needs_a_region() -> None:
    with pytest.raises(InvalidOperationError, match=r"pl.load works on tiles and needs a region"):
        kernel("t = pl.load(x, [0, 0], [8, 16])\npl.store(t, [0, 0], out)", kind="Orchestration")


def test_tensor_operators_on_the_control_plane_are_fine() -> None:
    x, out = control("y = pl.add(x, 1.0)\nout[:] = pl.mul(y, y)")
    np.testing.assert_allclose(out, (x + 1) ** 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("header", "error", "message"),
    [
        ("with pl.at(level=3)", ParserTypeError, "pl.at takes a pl.Level, got 3"),
        ("with pl.at()", Exception, "pl.at needs `level`"),
        ("with pl.at(level=pl.Level.CORE_GROUP, nam_hint='x')", Exception, "pl.at has no parameter `nam_hint`"),
        ("with pl.at(level=pl.Level.CORE_GROUP, deps=[3])", ParserTypeError, "`deps` takes task ids, got 3"),
        ("with pl.at(level=pl.Level.CORE_GROUP), pl.incore()", ParserSyntaxError, "only one context manager"),
        ("with open('f')", Exception, "is not part of the language"),
        ("with pl.range(3)", ParserSyntaxError, "pl.range is not a block"),
        ("for b in pl.spmd(0)", Exception, "pl.spmd needs at least one block, got 0"),
    ],
)
def test_headers_are_checked(header: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernel(f"{header}:\n    out[:] = x", kind="Orchestration")


def test_both_lanes_run_and_know_which_they_are() -> None:
    body = AT + "    for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n        row = pl.tile.get_subblock_idx() * 4\n"
    body += "        pl.store(pl.load(x, [lane * 4, 0], [4, 16]), [row, 0], out)"
    x, out = control(body)
    np.testing.assert_array_equal(out, x)

"""Branches: one arm is read when the condition is known, both are merged when it is not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.kernels import kernel, ops, result
from tilejit.errors import ParserSyntaxError, ParserTypeError, UndefinedVariableError
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ANY

LOAD = "t = pl.load(x, [0, 0], [8, 16])\n"
STORE = "\npl.store(t, [0, 0], out)"


def test_an_untaken_arm_is_not_even_read() -> None:
    program = kernel(LOAD + "if x.shape[0] == 8:\n    t = pl.neg(t)\nelse:\n    t = pl.no_such_op(t)" + STORE)
    assert not ops(program, d.IfOp)


def test_a_rebound_name_is_merged() -> None:
    body = LOAD + "if cfg[0] == 1:\n    t = pl.neg(t)\nelif cfg[0] == 2:\n    t = pl.mul(t, 2.0)" + STORE
    for flag, factor in ((0, 1), (1, -1), (2, 2)):
        x, out = result(body, flag)
        np.testing.assert_array_equal(out, x * factor)


def test_a_name_bound_in_both_arms_is_merged() -> None:
    body = "if cfg[0] > 0:\n    t = pl.load(x, [0, 0], [8, 16])\nelse:\n    t = pl.tile.full([8, 16], dtype=pl.FP32, value=3.0)" + STORE
    x, out = result(body, 1)
    np.testing.assert_array_equal(out, x)
    _, out = result(body, 0)
    assert (out == 3).all()


def test_what_is_not_read_later_is_not_merged() -> None:
    program = kernel(LOAD + "if cfg[0] > 0:\n    u = pl.neg(t)\n    w = 4\n    pl.store(u, [0, 0], out)\nelse:\n    u = 5\n    pl.store(t, [0, 0], out)")
    assert not ops(program, d.IfOp)[0].results


def test_yields_of_both_arms_are_merged_in_order() -> None:
    body = LOAD + "if cfg[0] > 0:\n    a, b = pl.yield_(t, 2.0)\nelse:\n    a, b = pl.yield_(pl.neg(t), 3.0)\npl.store(pl.mul(a, b), [0, 0], out)"
    for flag, factor in ((1, 2), (0, -3)):
        x, out = result(body, flag)
        np.testing.assert_array_equal(out, x * np.float32(factor))


def test_literals_take_the_other_arms_dtype() -> None:
    program = kernel("n = 7\nif cfg[0] > 0:\n    n = cfg[1]\ncfg[2] = n\nout[:] = x")
    assert str(d.type_of(ops(program, d.IfOp)[0].results[0])) == "Scalar[INT32]"


def test_valid_regions_widen_where_arms_meet() -> None:
    body = "if cfg[0] > 0:\n    t = pl.load(x, [0, 0], [8, 16], valid_shape=[4, 16])\nelse:\n    t = pl.load(x, [0, 0], [8, 16], valid_shape=[6, 16])" + STORE
    program = kernel(body)
    assert d.shaped_type(ops(program, d.IfOp)[0].results[0]).valid == (ANY, 16)
    x, out = result(body, 1)
    np.testing.assert_array_equal(out[:4], x[:4])
    assert np.isnan(out[4:]).all()


def test_the_same_buffer_in_both_arms_stays_that_buffer() -> None:
    program = kernel(LOAD + "if cfg[0] > 0:\n    out = pl.store(t, [0, 0], out)\nelse:\n    out = pl.store(pl.neg(t), [0, 0], out)\nreturn out")
    assert not ops(program, d.IfOp)[0].results


def test_a_name_may_hold_either_of_two_buffers() -> None:
    body = "a = pl.create_tensor([8, 16], dtype=pl.FP32)\na[:] = pl.neg(x)\nchosen = a\nif cfg[0] > 0:\n    chosen = x\nout[:] = chosen"
    for flag, sign in ((0, -1), (1, 1)):
        x, out = result(body, flag)
        np.testing.assert_array_equal(out, sign * x)


def test_a_flag_that_follows_the_condition_needs_no_branch() -> None:
    program = kernel("done = False\nif cfg[0] > 3:\n    done = True\nif done:\n    cfg[1] = 1\nout[:] = x")
    assert len(ops(program, d.IfOp)) == 1


def test_a_name_bound_in_one_arm_has_no_value_afterwards() -> None:
    with pytest.raises(UndefinedVariableError, match="`t` has no value when the condition is false: the `if` in line 4 binds it in one branch only") as caught:
        kernel("if cfg[0] > 0:\n    t = pl.load(x, [0, 0], [8, 16])" + STORE)
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (6, 14)


def test_types_that_cannot_be_merged_name_both_lines() -> None:
    with pytest.raises(ParserTypeError, match=r"`t` cannot have two types after the `if`: Tile\[\[4, 16\], FP32\] and Tile\[\[8, 16\], FP32\]") as caught:
        kernel(LOAD + "if cfg[0] > 0:\n    t = pl.load(x, [0, 0], [4, 16])" + STORE)
    assert caught.value.where == ("line 6: Tile[[4, 16], FP32]", "line 4: Tile[[8, 16], FP32]")


@pytest.mark.parametrize("condition", ["cfg[0]", "x", "3", "t"])
def test_a_condition_must_be_a_flag(condition: str) -> None:
    with pytest.raises(ParserTypeError, match="the condition of an `if` must be a BOOL"):
        kernel(LOAD + f"if {condition}:\n    t = pl.neg(t)" + STORE)


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ("if cfg[0] > 0:\n    a = pl.yield_(t)", "only one branch of this `if` has pl.yield_"),
        ("if cfg[0] > 0:\n    a = pl.yield_(t)\nelse:\n    b = pl.yield_(t)", "the branches yield different names: a and b"),
        ("if cfg[0] > 0:\n    a, b = pl.yield_(t)\nelse:\n    a, b = pl.yield_(t)", "pl.yield_ has 1 value and 2 names"),
    ],
)
def test_yields_must_match(arms: str, message: str) -> None:
    with pytest.raises(ParserSyntaxError, match=message):
        kernel(LOAD + arms + STORE)


def test_early_returns_become_branches() -> None:
    before = "@pl.inline\ndef choose(t, n):\n    if n > 5:\n        return pl.neg(t)\n    if n > 2:\n        return t\n    return pl.mul(t, 10.0)"
    for n, factor in ((9, -1), (4, 1), (0, 10)):
        x, out = result(LOAD + "t = choose(t, cfg[0])" + STORE, n, before=before)
        np.testing.assert_array_equal(out, x * np.float32(factor))


def test_every_arm_of_an_elif_yields_for_the_whole_if() -> None:
    body = "if cfg[0] > 1:\n    a = pl.yield_(t)\n"
    body += "elif cfg[0] > 0:\n    a = pl.yield_(pl.neg(t))\nelse:\n    a = pl.yield_(pl.add(t, t))\npl.store(a, [0, 0], out)"
    for flag, factor in ((2, 1), (1, -1), (0, 2)):
        x, out = result(LOAD + body, flag)
        np.testing.assert_array_equal(out, factor * x)

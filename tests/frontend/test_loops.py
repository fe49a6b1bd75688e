"""Loops carry what their bodies rebind; break and continue end rounds; every loop agrees with plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.kernels import applied, data, kernel, ops, result, run
from tilejit.errors import KernelAssertionError, ParserSyntaxError, ParserTypeError
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ANY

LOAD = "t = pl.load(x, [0, 0], [8, 16])\n"
STORE = "\npl.store(t, [0, 0], out)"


@pytest.mark.parametrize("bounds", ["n", "2, n", "0, n, 2", "n, 0, -1", "n, -3, -2"])
def test_a_loop_counts_like_range(bounds: str) -> None:
    program = kernel(f"n = cfg[0]\ntotal = 0\nfor i in pl.range({bounds}):\n    total = total * 3 + i\ncfg[1] = pl.cast(total, pl.INT32)\nout[:] = x")
    for n in (0, 1, 5):
        cfg = np.array([n, 0, 0, 0], np.int32)
        run(program, data(8, 16), cfg, np.empty((8, 16), np.float32))
        expected = 0
        for i in range(*eval(f"({bounds},)", {"n": n})):
            expected = expected * 3 + i
        assert cfg[1] == expected


def test_only_names_that_change_and_are_read_are_carried() -> None:
    body = """
        t = pl.load(x, [0, 0], [8, 16])
        u = pl.neg(t)
        w = pl.neg(t)
        for i in pl.range(3):
            u = pl.load(x, [0, 0], [8, 16])
            t = pl.add(t, u)
            w = pl.abs(t)
            out = pl.store(w, [0, 0], out)
        pl.store(t, [0, 0], out)
    """
    program = kernel(body)
    loop = ops(program, d.ForOp)[0]
    assert len(loop.inits) == 1
    assert [block_argument.name_hint for block_argument in loop.body.block.args] == ["i", "t"]


def test_a_name_may_change_its_shape_in_a_loop_if_no_round_sees_the_old_one() -> None:
    x, out = result("t = pl.load(x, [0, 0], [4, 16])\nfor i in pl.range(8):\n    t = pl.load(x, [i, 0], [1, 16])\n    pl.store(t, [i, 0], out)")
    np.testing.assert_array_equal(out, x)


def test_a_carried_name_cannot_change_its_type() -> None:
    with pytest.raises(ParserTypeError, match=r"`t` changes its type in the loop: Tile\[\[8, 16\], FP32\] and Tile\[\[4, 16\], FP32\]") as caught:
        kernel(LOAD + "for i in pl.range(3):\n    t = pl.load(x, [0, 0], [4, 16])" + STORE)
    assert caught.value.span is not None
    assert caught.value.span.line == 6
    assert caught.value.where == ("line 4: Tile[[8, 16], FP32]", "line 6: Tile[[4, 16], FP32]")


def test_a_carried_valid_region_widens() -> None:
    body = "t = pl.load(x, [0, 0], [8, 16], valid_shape=[2, 16])\nfor i in pl.range(2, 5):\n    t = pl.load(x, [0, 0], [8, 16], valid_shape=[i, 16])" + STORE
    program = kernel(body)
    loop = ops(program, d.ForOp)[0]
    assert d.shaped_type(loop.results[0]).valid == (ANY, 16)
    assert len(ops(program, d.LoadOp)) == 2, "the first reading of the body leaves nothing behind"
    x, out = result(body)
    np.testing.assert_array_equal(out[:4], x[:4])
    assert np.isnan(out[4:]).all()


def test_a_literal_takes_the_dtype_that_the_loop_gives_it() -> None:
    program = kernel("n = 0\nfor i in pl.range(4):\n    n = cfg[i]\ncfg[0] = n\nout[:] = x")
    cfg = np.array([3, 4, 5, 6], np.int32)
    run(program, data(8, 16), cfg, np.empty((8, 16), np.float32))
    assert cfg[0] == 6
    assert str(d.type_of(ops(program, d.ForOp)[0].results[0])) == "Scalar[INT32]"


def test_index_and_integer_scalars_meet_as_index() -> None:
    program = kernel("n = 0\nfor i in pl.range(4):\n    if cfg[i] > n:\n        n = cfg[i]\ncfg[0] = pl.cast(n, pl.INT32)\nout[:] = x")
    cfg = np.array([3, 9, 5, 6], np.int32)
    run(program, data(8, 16), cfg, np.empty((8, 16), np.float32))
    assert cfg[0] == 9


def test_tuples_are_carried_part_by_part() -> None:
    x, out = result(
        LOAD + "pair = (t, 0)\nfor i in pl.range(3):\n    pair = (pl.add(pair[0], 1.0), pair[1] + 2)\nt = pl.add(pair[0], pl.cast(pair[1], pl.FP32))" + STORE
    )
    np.testing.assert_allclose(out, x + 9, rtol=1e-6)


def test_buffers_are_carried_and_swapped() -> None:
    body = """
        a = pl.create_tensor([8, 16], dtype=pl.FP32)
        b = pl.create_tensor([8, 16], dtype=pl.FP32)
        a[:] = x
        for i in pl.range(cfg[0]):
            b[:] = pl.add(a, 1.0)
            a, b = b, a
        out[:] = a
    """
    for n in (0, 1, 4):
        x, out = result(body, n)
        np.testing.assert_allclose(out, x + n, rtol=1e-6)


def test_a_parameter_that_may_be_written_through_a_swap_is_an_output() -> None:
    params = "a: pl.Tensor[[8, 16], pl.FP32], b: pl.Tensor[[8, 16], pl.FP32], n: pl.Scalar[pl.INDEX]"
    program = kernel("for i in pl.range(n):\n    b[:] = pl.add(a, 1.0)\n    a, b = b, a", params)
    assert program.functions["k"].static("directions") == ("InOut", "InOut", "In")


def test_a_name_bound_only_in_a_loop_has_its_last_value_after_it() -> None:
    program = kernel(LOAD + "for i in pl.range(3):\n    u = pl.mul(t, pl.cast(i, pl.FP32))\npl.store(u, [0, 0], out)")
    assert not any(op.op == "device_assert" for op in ops(program, d.EffectOp)), "three rounds are made for certain"
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    run(program, x, np.zeros(4, np.int32), out)
    np.testing.assert_array_equal(out, x * np.float32(2))


def test_a_name_that_no_round_bound_is_an_error_where_it_is_read() -> None:
    program = kernel(LOAD + "for i in pl.range(cfg[0]):\n    u = pl.neg(t)\nif cfg[1] > 0:\n    t = u" + STORE)
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    for rounds, read, expected in ((0, 0, x), (2, 0, x), (2, 1, -x)):
        run(program, x, np.array([rounds, read, 0, 0], np.int32), out)
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(KernelAssertionError, match="`u` is bound only inside a loop that has not bound it"):
        run(program, x, np.array([0, 1, 0, 0], np.int32), out)


def test_a_name_that_rounds_bind_to_two_types_is_refused() -> None:
    with pytest.raises(ParserTypeError, match=r"`u` cannot have two types after the `if`: Tile\[\[8, 16\], FP32\] and Tile\[\[4, 16\], FP32\]"):
        kernel(LOAD + "for i in pl.range(3):\n    if cfg[0] > i:\n        u = t\n    if cfg[1] > i:\n        u = t[0:4]\npl.store(u, [0, 0], out)")


def test_explicit_values_are_handed_on_by_yield() -> None:
    body = """
        start = pl.load(x, [0, 0], [8, 16])
        for i, (a, b) in pl.range(1, 4, init_values=(start, 1.0)):
            s, f = pl.yield_(pl.add(a, pl.mul(start, b)), b * 2.0)
        pl.store(pl.mul(s, f), [0, 0], out)
    """
    x, out = result(body)
    np.testing.assert_allclose(out, x * (1 + 1 + 2 + 4) * 8, rtol=1e-5)


def test_the_names_of_initial_values_keep_them() -> None:
    body = (
        "a = pl.load(x, [0, 0], [8, 16])\nfor i, (a,) in pl.range(3, init_values=(a,)):\n    s = pl.yield_(pl.add(a, 1.0))\npl.store(pl.sub(s, a), [0, 0], out)"
    )
    _, out = result(body)
    np.testing.assert_allclose(out, 3, rtol=1e-5)


def test_explicit_values_may_also_be_rebound_without_yield() -> None:
    x, out = result(LOAD + "for i, (a,) in pl.range(3, init_values=(t,)):\n    a = pl.add(a, 1.0)\npl.store(a, [0, 0], out)")
    np.testing.assert_allclose(out, x + 3, rtol=1e-5)


def test_a_buffer_handed_on_unchanged_is_no_carried_value() -> None:
    program = kernel(LOAD + "for i, (o,) in pl.range(3, init_values=(out,)):\n    o = pl.store(t, [0, 0], o)\n    r = pl.yield_(o)\nreturn r")
    assert not ops(program, d.ForOp)[0].inits
    assert program.functions["k"].static("attrs") == {"returns": (("param", 2),)}


def test_a_yield_inside_a_region_belongs_to_the_loop() -> None:
    body = """
        t = pl.load(x, [0, 0], [8, 16])
        for i, (a,) in pl.range(3, init_values=(t,)):
            with pl.at(level=pl.Level.CORE_GROUP):
                r = pl.yield_(pl.add(a, 1.0))
        pl.store(r, [0, 0], out)
    """
    program = kernel(body, kind="Opaque")
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    run(program, x, np.zeros(4, np.int32), out)
    np.testing.assert_allclose(out, x + 3, rtol=1e-6)


BREAKS = {
    "break": "    if i == 4:\n        break\n    t = pl.add(t, 1.0)",
    "continue": "    if i % 2 == 0:\n        continue\n    t = pl.add(t, 1.0)",
    "both": "    if i == 1:\n        continue\n    t = pl.add(t, 1.0)\n    if i == 5:\n        t = pl.mul(t, 2.0)\n        break\n    t = pl.add(t, 0.5)",
    "nested": "    if i > 2:\n        if i == 4:\n            break\n        t = pl.add(t, 3.0)\n    else:\n        continue\n    t = pl.mul(t, 0.5)",
    "inner": "    for j in pl.range(3):\n        if j == i:\n            break\n        t = pl.add(t, 1.0)\n    if i == 5:\n        break",
    "last": "    t = pl.add(t, 1.0)\n    break",
}


def _python(body: str, n: int, x: np.ndarray) -> np.ndarray:
    """The same loop run by Python, with NumPy in place of the ops."""
    text = body.replace("pl.range", "range").replace("pl.add(t, ", "t + (").replace("pl.mul(t, ", "t * (")
    scope: dict[str, object] = {"t": x}
    exec(f"for i in range({n}):\n{text}", {}, scope)
    found = scope["t"]
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_break_and_continue_do_what_python_does(name: str, n: int) -> None:
    x, out = result(LOAD + f"for i in pl.range(cfg[0]):\n{BREAKS[name]}" + STORE, n)
    np.testing.assert_allclose(out, _python(BREAKS[name], n, x), rtol=1e-5)


def test_break_works_with_descending_and_run_time_steps() -> None:
    program = kernel(
        "total = 0\n"
        "for i in pl.range(cfg[0], cfg[1], cfg[2]):\n"
        "    if total > 50:\n"
        "        break\n"
        "    total = total * 2 + i\n"
        "cfg[3] = pl.cast(total, pl.INT32)\n"
        "out[:] = x"
    )
    for start, stop, step in ((0, 10, 3), (10, 0, -3), (5, 5, 1), (3, 40, 7)):
        cfg = np.array([start, stop, step, 0], np.int32)
        run(program, data(8, 16), cfg, np.empty((8, 16), np.float32))
        expected = 0
        for i in range(start, stop, step):
            if expected > 50:
                break
            expected = expected * 2 + i
        assert cfg[3] == expected


def test_break_works_with_explicit_values() -> None:
    body = (
        LOAD + "for i, (a,) in pl.range(9, init_values=(t,)):\n    if i == cfg[0]:\n        break\n    r = pl.yield_(pl.add(a, 1.0))\npl.store(r, [0, 0], out)"
    )
    x, out = result(body, 4)
    np.testing.assert_allclose(out, x + 4, rtol=1e-5)


def test_continue_in_an_explicit_loop_keeps_the_carried_value() -> None:
    body = "for i, (a,) in pl.range(4, init_values=(t,)):\n    if i == cfg[0]:\n        continue\n    r = pl.yield_(pl.add(a, 1.0))\npl.store(r, [0, 0], out)"
    for skipped, added in ((1, 3), (9, 4)):
        x, out = result(LOAD + body, skipped)
        np.testing.assert_allclose(out, x + added, rtol=1e-6)


def test_a_loop_that_may_break_becomes_a_while_and_needs_no_branch_for_the_flag() -> None:
    program = kernel(LOAD + "for i in pl.range(cfg[0]):\n    if i == 4:\n        break\n    t = pl.add(t, 1.0)" + STORE)
    assert len(ops(program, d.WhileOp)) == 1
    assert len(ops(program, d.IfOp)) == 1


def test_while_tests_its_condition_every_round() -> None:
    program = kernel(
        "n = cfg[0]\n"
        "steps = 0\n"
        "while n != 1:\n"
        "    if n % 2 == 0:\n"
        "        n = n // 2\n"
        "    else:\n"
        "        n = n * 3 + 1\n"
        "    steps += 1\n"
        "cfg[1] = pl.cast(steps, pl.INT32)\n"
        "out[:] = x"
    )
    for n, steps in ((1, 0), (6, 8), (7, 16)):
        cfg = np.array([n, 0, 0, 0], np.int32)
        run(program, data(8, 16), cfg, np.empty((8, 16), np.float32))
        assert cfg[1] == steps


def test_while_true_ends_by_break() -> None:
    x, out = result(LOAD + "i = 0\nwhile True:\n    if i >= cfg[0]:\n        break\n    i += 1\n    t = pl.add(t, 1.0)" + STORE, 3)
    np.testing.assert_allclose(out, x + 3, rtol=1e-6)


def test_the_explicit_while_carries_its_values() -> None:
    body = LOAD + "for (a, i) in pl.while_(init_values=(t, 0)):\n    pl.cond(i < cfg[0])\n    r, j = pl.yield_(pl.add(a, 2.0), i + 1)\npl.store(r, [0, 0], out)"
    x, out = result(body, 5)
    np.testing.assert_allclose(out, x + 10, rtol=1e-6)


def test_unrolled_loops_have_compile_time_indices() -> None:
    body = (
        "for i in pl.unroll(0, 8, 2):\n"
        "    if i == 4:\n"
        "        out[i : i + 2, :] = pl.neg(x[i : i + 2, :])\n"
        "    else:\n"
        "        t = pl.load(x, [i, 0], [2, 16])\n"
        "        pl.store(t, [i, 0], out)"
    )
    program = kernel(body)
    assert not ops(program, d.ForOp)
    assert not ops(program, d.IfOp)
    assert len(ops(program, d.LoadOp)) == 3
    x, out = result(body)
    np.testing.assert_array_equal(out, np.concatenate([x[:4], -x[4:6], x[6:]]))


def test_names_of_an_unrolled_body_live_on() -> None:
    x, out = result("for i in pl.unroll(3):\n    t = pl.load(x, [i, 0], [1, 16])\nout[:] = x\npl.store(t, [0, 0], out)")
    np.testing.assert_array_equal(out[0], x[2])


@pytest.mark.parametrize("loop", ["pl.parallel(4)", "pl.pipeline(4, stage=2)", "pl.pipeline(0, 4, 1, stage=3)"])
def test_other_loops_mean_a_sequential_one(loop: str) -> None:
    x, out = result(f"for i in {loop}:\n    pl.store(pl.load(x, [i * 2, 0], [2, 16]), [i * 2, 0], out)")
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for i in pl.range(3):\n    r = pl.yield_(t)", "pl.yield_ in a loop without init_values"),
        ("for i, (a,) in pl.range(3, init_values=(t,)):\n    pl.yield_(a)", "pl.yield_ needs names on its left"),
        ("for i, (a,) in pl.range(3, init_values=(t,)):\n    r, s = pl.yield_(a, a)", "the loop carries 1 value, pl.yield_ hands on 2"),
        ("for i, (a,) in pl.range(3, init_values=(t,)):\n    r = pl.yield_(a)\n    s = pl.yield_(a)", "this loop yields twice"),
        ("for i, (a, b) in pl.range(3, init_values=(t,)):\n    r = pl.yield_(a)", "1 init_values for 2 carried names"),
        ("for i in pl.range(3, init_values=(t,)):\n    pass", "a loop with init_values has an index and carried names"),
        ("for (a,) in pl.while_(init_values=(t,)):\n    b = pl.neg(a)", "the body of pl.while_ begins with pl.cond"),
        ("for i in pl.at(level=pl.Level.CORE_GROUP):\n    pass", "pl.at is not a loop"),
    ],
)
def test_loops_are_refused_where_their_form_is_wrong(body: str, message: str) -> None:
    with pytest.raises(ParserSyntaxError, match=message.replace("(", r"\(")):
        kernel(LOAD + body + STORE)


def test_static_prints_of_a_body_read_twice_appear_once(capsys: pytest.CaptureFixture[str]) -> None:
    kernel(
        (
            "t = pl.load(x, [0, 0], [8, 16], valid_shape=[2, 16])\n"
            "for i in pl.range(2, 5):\n"
            "    pl.static_print('reading', t)\n"
            "    t = pl.load(x, [0, 0], [8, 16], valid_shape=[i, 16])"
        )
        + STORE
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "reading Tile[[8, 16], FP32, valid=[?, 16]]"
    assert len(lines) == 1


def test_applied_ops_of_a_carried_loop() -> None:
    assert applied(kernel(LOAD + "for i in pl.range(3):\n    t = pl.exp(t)" + STORE)) == ["exp"]


def test_a_name_that_only_a_loop_binds_may_have_a_dynamic_extent() -> None:
    params = "x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M, 4], pl.FP32]]"
    body = "v = x\nfor i in pl.range(3):\n    v = v + 2.0\n    last = v\nout[:] = last"
    x, out = data(5, 4), np.empty((5, 4), np.float32)
    run(kernel(body, params, before='M = pl.dynamic("M")'), x, out)
    np.testing.assert_allclose(out, x + 6, rtol=1e-6)

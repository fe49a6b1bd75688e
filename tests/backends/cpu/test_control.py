"""Loops and branches: carried scalars, tiles and handles, swaps, valid regions that travel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.ir import Block, SSAValue

from tests.backends.cpu.harness import Kernel, buffer, check, program, random, run_native
from tilejit.backends.base import CompileOptions
from tilejit.backends.cpu.lower import lower
from tilejit.dtypes import BOOL, FP32, INDEX, INT32, INT64, UINT8
from tilejit.errors import OutOfBoundsError
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, TileType, full_tile

rng = np.random.default_rng(12)
INDEXES = ScalarType(INDEX)


def test_an_accumulator_lives_in_one_place() -> None:
    def body(k: Kernel, a: SSAValue, b: SSAValue, out: SSAValue) -> None:
        zero = k.op("full", k.ints(12, 20), dtype=FP32, value=k.const(0.0))

        def turn(i: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            at = k.op("mul", i, k.const(8), level="scalar")
            return [k.op("matmul_acc", acc, k.tile(a, [0, at], [12, 8]), k.tile(b, [at, 0], [8, 20]))]

        types = [full_tile((12, 20), FP32, "Vec")]
        (acc,) = k.loop(0, 5, 1, [zero], turn, types)
        k.put(acc, out)

    source = program([buffer(12, 40), buffer(40, 20), buffer(12, 20)], body)
    check(source, [random(rng, (12, 40)), random(rng, (40, 20)), random(rng, (12, 20))], rtol=1e-4, atol=1e-4)
    text = lower(source, CompileOptions()).text
    loop = text[text.index("for") :]
    assert loop.count("@gemm") == 1
    body_text = loop[loop.index(".body:") : loop.index("@gemm")]
    assert "store <" not in body_text, "the accumulator is copied in every turn"


def test_carried_tiles_may_swap_and_rotate() -> None:
    def body(k: Kernel, x: SSAValue, y: SSAValue, z: SSAValue, out: SSAValue) -> None:
        tiles = [k.tile(buffer, [0, 0], [5, 19]) for buffer in (x, y, z)]

        def turn(_: SSAValue, a: SSAValue, b: SSAValue, c: SSAValue) -> Sequence[SSAValue]:
            return [b, k.op("add", c, a), a]

        a, b, c = k.loop(0, 4, 1, tiles, turn)
        k.put(k.op("sub", a, k.op("mul", b, k.op("add", c, k.const(2.0)))), out)

    check(program([buffer(5, 19)] * 4, body), [random(rng, (5, 19)) for _ in range(4)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 0, 1), (0, 7, 3), (9, -2, -2), (5, 5, -1), (3, 1, 1)])
def test_counted_loops_run_the_turns_of_range(lower: int, upper: int, step: int) -> None:
    def fixed(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        _weigh(k, x, out, lower, upper, step)

    def moving(k: Kernel, x: SSAValue, a: SSAValue, b: SSAValue, c: SSAValue, out: SSAValue) -> None:
        _weigh(k, x, out, a, b, c)

    x, out = random(rng, (3, 10)), random(rng, (3, 10))
    check(program([buffer(3, 10)] * 2, fixed), [x, out], rtol=1e-5)
    check(program([buffer(3, 10), *[ScalarType(INT64)] * 3, buffer(3, 10)], moving), [x, lower, upper, step, out], rtol=1e-5)


def _weigh(k: Kernel, x: SSAValue, out: SSAValue, lower: int | SSAValue, upper: int | SSAValue, step: int | SSAValue) -> None:
    def turn(i: SSAValue, t: SSAValue, n: SSAValue) -> Sequence[SSAValue]:
        weight = k.op("cast", k.op("add", i, n, level="scalar"), target_type=FP32, level="scalar")
        return [k.op("add", k.op("mul", t, k.const(0.5)), weight), k.op("add", n, k.const(1), level="scalar")]

    t, n = k.loop(lower, upper, step, [k.tile(x, [0, 0], [3, 10]), k.const(0)], turn)
    k.put(k.op("add", t, k.op("cast", n, target_type=FP32, level="scalar")), out)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_while_loops_carry_tiles_and_conditions(steps: int) -> None:
    def body(k: Kernel, x: SSAValue, limit: SSAValue, out: SSAValue) -> None:
        types = [full_tile((4, 21), FP32), INDEXES]
        before, inside = Block(arg_types=d.ir_types(types)), Block(arg_types=d.ir_types(types))
        with k.at(before):
            k.condition(k.op("cmp", before.args[1], limit, cmp_type=2, level="scalar"), list(before.args))
        with k.at(inside):
            t, i = inside.args
            k.yield_([k.op("mul", k.op("add", t, t), k.const(0.75)), k.op("add", i, k.const(1), level="scalar")])
        op = k.while_([k.tile(x, [0, 0], [4, 21]), k.const(0)], before, inside, types)
        k.put(op.results[0], out)

    check(program([buffer(4, 21), ScalarType(INT64), buffer(4, 21)], body), [random(rng, (4, 21)), steps, random(rng, (4, 21))], rtol=1e-5)


@pytest.mark.parametrize("flip", [0, 1])
def test_branches_join_tiles_scalars_and_valid_regions(flip: int) -> None:
    def body(k: Kernel, x: SSAValue, choice: SSAValue, out: SSAValue, sums: SSAValue) -> None:
        whole = k.tile(x, [0, 0], [6, 24])
        condition = k.op("cmp", choice, k.const(1), level="scalar")
        type = TileType((6, 24), FP32, ("?", "?"))

        def then() -> Sequence[SSAValue]:
            return [k.tile(x, [1, 0], [6, 24], [3, 11]), k.const(2.0)]

        def orelse() -> Sequence[SSAValue]:
            return [k.op("neg", whole), k.const(3.0)]

        tile, factor = k.branch(condition, then, orelse, [type, ScalarType(FP32)])
        k.put(k.op("mul", tile, factor), out)
        k.put(k.op("row_sum", tile), sums)

    source = program([buffer(6, 24), ScalarType(INT64), buffer(6, 24), buffer(6, 1)], body, outputs=2)
    check(source, [random(rng, (6, 24)), flip, random(rng, (6, 24)), random(rng, (6, 1))], outputs=2, rtol=1e-5, atol=1e-5)


def test_buffer_handles_may_be_carried_and_swapped() -> None:
    def body(k: Kernel, x: SSAValue, y: SSAValue, out: SSAValue) -> None:
        def turn(_: SSAValue, current: SSAValue, other: SSAValue) -> Sequence[SSAValue]:
            t = k.tile(current, [0, 0], [4, 18])
            k.put(k.op("add", t, k.tile(other, [0, 0], [4, 18])), other)
            return [other, current]

        current, other = k.loop(0, 5, 1, [x, y], turn)
        k.put(k.op("sub", k.tile(current, [0, 0], [4, 18]), k.tile(other, [0, 0], [4, 18])), out)

    check(program([buffer(4, 18)] * 3, body, outputs=3), [random(rng, (4, 18)) for _ in range(3)], outputs=3, rtol=1e-5, atol=1e-5)


def test_valid_extents_travel_through_loops() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        type = TileType((5, 30), FP32, (5, "?"))
        first = k.tile(x, [0, 0], [5, 30], [5, 30])

        def turn(i: SSAValue, _: SSAValue) -> Sequence[SSAValue]:
            return [k.tile(x, [0, 0], [5, 30], [5, k.op("add", i, k.const(3), level="scalar")])]

        (last,) = k.loop(0, 6, 1, [first], turn, [type])
        k.put(k.op("add", last, k.op("cast", k.valid(last, 1), target_type=FP32, level="scalar")), out)

    check(program([buffer(5, 30)] * 2, body), [random(rng, (5, 30)), random(rng, (5, 30))])


def test_flags_steer_branches_inside_loops() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        type = full_tile((2, 40), FP32)

        def turn(i: SSAValue, t: SSAValue, broken: SSAValue) -> Sequence[SSAValue]:
            stop = k.op("logical_or", broken, k.op("cmp", i, k.const(4), level="scalar"), level="scalar")
            (t,) = k.branch(stop, lambda: [t], lambda: [k.op("add", t, k.const(1.5))], [type])
            return [t, stop]

        t, _ = k.loop(0, 9, 1, [k.tile(x, [0, 0], [2, 40]), k.const(False, BOOL)], turn, [type, ScalarType(BOOL)])
        k.put(t, out)

    check(program([buffer(2, 40)] * 2, body), [random(rng, (2, 40)), random(rng, (2, 40))], rtol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_buffers_made_in_a_loop_survive_its_turns(dynamic: bool) -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue, best: SSAValue) -> None:
        type = buffer("?" if dynamic else 4, 9)

        def turn(i: SSAValue, current: SSAValue, kept: SSAValue) -> Sequence[SSAValue]:
            made = k.create(type, [k.dim(x, 0)] if dynamic else [])
            k.put(k.op("mul", current, k.const(0.5), level="tensor"), made)
            again = k.op("cmp", i, k.const(2), level="scalar")
            (kept,) = k.branch(again, lambda: [made], lambda: [kept], [type])
            return [made, kept]

        current, kept = k.loop(0, 6, 1, [x, x], turn, [type, type])
        k.put(current, out)
        k.put(kept, best)

    shape = ("M", 9) if dynamic else (4, 9)
    check(program([buffer(*shape)] * 3, body, outputs=2), [random(rng, (4, 9)) for _ in range(3)], outputs=2)


def test_arrays_are_carried_and_keep_their_old_selves() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        first = k.op("array_create", extent=6, dtype=INT32, level="array")

        def turn(i: SSAValue, array: SSAValue) -> Sequence[SSAValue]:
            old = k.op("array_get_element", array, i, level="array")
            new = k.op("add", k.read(x, [i]), old, level="scalar")
            return [k.op("array_update_element", array, k.op("add", i, k.const(1), level="scalar"), new, level="array")]

        (last,) = k.loop(0, 5, 1, [first], turn)
        other = k.op("array_update_element", last, k.const(2), k.const(-7, INT32), level="array")
        for i in range(6):
            both = [k.op("array_get_element", array, k.const(i), level="array") for array in (last, other)]
            k.write(out, k.ints(i), k.op("add", *both, level="scalar"))

    check(program([buffer(5, dtype=INT32), buffer(6, dtype=INT32)], body), [random(rng, (5,), INT32), random(rng, (6,), INT32)])


def test_an_array_index_outside_is_refused() -> None:
    def body(k: Kernel, i: SSAValue, out: SSAValue) -> None:
        k.write(out, k.ints(0), k.op("array_get_element", k.op("array_create", extent=6, dtype=INT32, level="array"), i, level="array"))

    with pytest.raises(OutOfBoundsError, match="index 6 of an array with 6 elements"):
        run_native(program([ScalarType(INT64), buffer(1, dtype=INT32)], body), "kernel", [6, np.zeros(1, np.int32)])


def test_a_carried_mask_is_not_overwritten_by_what_it_selects() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        first = k.tile(x, [0, 0], [3, 32])

        def turn(_: SSAValue, mask: SSAValue) -> Sequence[SSAValue]:
            return [k.op("sels", mask, k.tile(x, [0, 0], [3, 32]), None, k.const(85))]

        (last,) = k.loop(0, 3, 1, [k.op("add", first, k.const(1))], turn)
        k.put(last, out)

    check(program([buffer(3, 32, dtype=UINT8)] * 2, body), [random(rng, (3, 32), UINT8), random(rng, (3, 32), UINT8)])


def test_a_branch_hands_on_what_it_loaded_before_the_memory_changed() -> None:
    def body(k: Kernel, flag: SSAValue, a: SSAValue, out: SSAValue) -> None:
        condition = k.op("cmp", flag, k.const(1), level="scalar")
        type = full_tile((8, 8), FP32, "Vec")
        (chosen,) = k.branch(condition, lambda: [k.tile(a, [0, 0], [8, 8])], lambda: [k.tile(a, [8, 0], [8, 8])], [type])
        k.put(k.op("add", k.tile(a, [0, 0], [16, 8]), k.const(1.0)), a)
        k.put(k.op("transpose", chosen, axis1=0, axis2=1), out)

    source = program([ScalarType(INT64), buffer(16, 8), buffer(8, 8)], body, outputs=2)
    for flag in (0, 1):
        check(source, [flag, random(rng, (16, 8)), random(rng, (8, 8))], outputs=2)

"""The two vector lanes of pl.split_aiv: apart, or in step where they meet each other or the cube side."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.cross_core import Array, lowered, numbers, pair, read, run
from tilejit.errors import ShapeError, TilejitError, UnsupportedFeatureError

MODES = {"UP_DOWN": (1, (8, 16)), "LEFT_RIGHT": (2, (16, 8)), "NONE": (0, (16, 16))}


def kernel(body: str) -> str:
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    head = "@pl.function\ndef main(a: pl.Tensor[[16, 16], pl.FP32], w: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):\n"
    return f"{head}    with pl.at(level=pl.Level.CORE_GROUP):\n{lines}\n"


def by_lane(mode: str, first: float, second: float) -> Array:
    """A number per cell: that of the lane that handles it."""
    out = np.full((16, 16), second, np.float32)
    out[{"UP_DOWN": np.s_[:8], "LEFT_RIGHT": np.s_[:, :8], "NONE": np.s_[:]}[mode]] = first
    return out


@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_sends_to_its_lanes_and_takes_back(mode: str) -> None:
    split, piece = MODES[mode]
    program = read(
        kernel(f"""
t = pl.load(a, [0, 0], [16, 16])
for i in pl.range(3):
    pl.tpush_to_aiv(t, split={split})
    for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):
        h: pl.Tile[{list(piece)}, pl.FP32] = pl.tpop_from_aic(split={split})
        changed = pl.mul(h, 2.0 + lane)
        pl.tpush_to_aic(changed, split={split})
        pl.tfree_to_aic(h)
    t = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split={split})
out = pl.store(t, [0, 0], out)
""")
    )
    a = numbers(16, 16)
    for form in (program, lowered(program)):
        *_, out = run(form, a, a, np.zeros_like(a))
        np.testing.assert_allclose(out, a * by_lane(mode, 2, 3) ** 3, rtol=1e-6)


@pytest.mark.parametrize("mode", ["UP_DOWN", "LEFT_RIGHT"])
def test_lanes_in_step_answer_a_cube_kernel_in_every_trip(mode: str) -> None:
    split, piece = MODES[mode]
    text = pair(
        f"""
        x = pl.load(a, [0, 0], [16, 16])
        for i in pl.range(n):
            pl.tpush_to_aiv(x, split={split})
            x = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split={split})
        b = pl.store(x, [0, 0], b)
        """,
        f"""
        for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):
            total = pl.tile.full({list(piece)}, dtype=pl.FP32, value=0.0)
            for i in pl.range(n):
                h: pl.Tile[{list(piece)}, pl.FP32] = pl.tpop_from_aic(split={split})
                total = pl.add(total, h)
                if i > 0:
                    pl.tpush_to_aic(pl.add(total, 1.0), split={split})
                else:
                    pl.tpush_to_aic(pl.sub(h, 1.0 + lane), split={split})
            out = pl.store(total, [{"lane * 8, 0" if split == 1 else "0, lane * 8"}], out)
        """,
    )
    a = numbers(16, 16)
    x, total = a, np.zeros_like(a)
    for i in range(4):
        total = total + x
        x = total + 1 if i else x - by_lane(mode, 1, 2)
    _, b, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 4)
    np.testing.assert_allclose(b, x, rtol=1e-5)
    np.testing.assert_allclose(out, total, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_gathered_halves_are_a_whole_tile_in_both_lanes(mode: str) -> None:
    body = f"""
c = pl.load(a, [0, 0], [16, 16])
tw = pl.load(w, [0, 0], [16, 16])
for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):
    for i in pl.range(3):
        h = pl.mul(pl.aiv_shard(c), 0.5 + lane)
        c = pl.matmul(pl.aic_gather(h), tw)
out = pl.store(c, [0, 0], out)
"""
    a, w = numbers(16, 16), numbers(16, 16, seed=1)
    factor = by_lane(mode, 0.5, 1.5) if mode != "NONE" else np.float32(1.5)  # Lane 1 runs the whole body too, and is the last.
    expected = a
    for _ in range(3):
        expected = expected * factor @ w
    *_, out = run(kernel(body), a, w, np.zeros_like(a))
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_each_lane_has_its_own_names() -> None:
    body = """
total = pl.tile.full([8, 16], dtype=pl.FP32, value=1.0)
for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
    for i in pl.range(2):
        total = pl.add(total, pl.aiv_shard(pl.load(a, [0, 0], [16, 16])))
    out = pl.store(total, [lane * 8, 0], out)
"""
    a = numbers(16, 16)
    *_, out = run(kernel(body), a, a, np.zeros_like(a))
    np.testing.assert_allclose(out, 1 + a + a, rtol=1e-6)


def test_several_gathers_in_one_expression_and_after_branches() -> None:
    body = """
c = pl.load(a, [0, 0], [16, 16])
flag = pl.read(a, [0, 0]) > 0.0
for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
    h = pl.aiv_shard(c)
    g = pl.exp(h)
    if flag:
        both = pl.add(pl.aic_gather(h), pl.aic_gather(g))
    else:
        both = pl.sub(pl.aic_gather(h), pl.aic_gather(g))
    other = pl.row_sum(both, pl.create_tile([16, 16], dtype=pl.FP32))
    mine = pl.row_expand_add(h, pl.aiv_shard(other))
    out = pl.store(mine, [lane * 8, 0], out)
"""
    for sign in (1, -1):
        a = np.abs(numbers(16, 16)) * np.float32(sign)
        both = a + np.exp(a) if sign > 0 else a - np.exp(a)
        *_, out = run(kernel(body), a, a, np.zeros_like(a))
        np.testing.assert_allclose(out, a + both.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_gathers_in_while_loops_and_expanded_ones() -> None:
    text = """
    @pl.function
    def main(a: pl.Tensor[[16, 16], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            c = pl.load(a, [0, 0], [16, 16])
            for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
                i = pl.const(0, pl.INT32)
                limit = pl.read(n, [0])
                while i < limit:
                    h = pl.aiv_shard(c)
                    h[0, 0] = 1.0
                    c = pl.aic_gather(pl.add(h, 1.0 + lane))
                    i += 1
                    if i == 4:
                        break
                for j in pl.unroll(2):
                    c = pl.aic_gather(pl.mul(pl.aiv_shard(c), 2.0 + j))
                out = pl.store(pl.aiv_shard(c), [lane * 8, 0], out)
    """
    program, a = read(text), numbers(16, 16)
    for trips in (0, 2, 7):
        expected = a.copy()
        for _ in range(min(trips, 4)):
            expected[::8, 0] = 1
            expected = expected + by_lane("UP_DOWN", 1, 2)
        *_, out = run(program, a, np.array([trips], np.int32), np.zeros_like(a))
        np.testing.assert_allclose(out, expected * 6, rtol=1e-5)


def test_one_lane_may_talk_to_the_cube_side_alone() -> None:
    body = """
pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
    if lane == 0:
        h: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic(split=0)
        pl.tpush_to_aic(pl.add(h, 1.0), split=0)
    else:
        g = pl.load(w, [0, 0], [16, 16])
        g[3, 4] = 5.0
        g += 2.0
        out = pl.store(g, [0, 0], out)
p: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aiv()
out = pl.store(p, [0, 0], out)
"""
    a, w = numbers(16, 16), numbers(16, 16, seed=1)
    with pytest.raises(ShapeError):
        run(kernel(body), a, w, np.zeros_like(a))
    *_, out = run(kernel(body.replace("p: pl.Tile[[8, 16]", "p: pl.Tile[[16, 16]")), a, w, np.zeros_like(a))
    np.testing.assert_allclose(out, a + 1, rtol=1e-6)


def test_a_gather_that_one_lane_may_miss_is_refused() -> None:
    body = """
c = pl.load(a, [0, 0], [16, 16])
for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
    h = pl.aiv_shard(c)
    row = lane * 8
    if row > 0:
        c = pl.aic_gather(h)
out = pl.store(c, [0, 0], out)
"""
    with pytest.raises(UnsupportedFeatureError, match="only one lane may come") as caught:
        read(kernel(body))
    assert caught.value.span is not None and caught.value.span.line == 8


MISTAKES = {
    "cube ops in a lane": ("pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)", "tpush_to_aiv inside pl.split_aiv"),
    "nested lanes": (
        "for other in pl.split_aiv(2, mode=pl.SplitMode.NONE):\n        pl.tpush_to_aic(pl.load(a, [0, 0], [8, 16]), split=1)",
        "cannot be nested",
    ),
    "halves of two shapes": ("t = pl.aic_gather(x=pl.load(a, [0, 0], [8 - lane * 4, 16]))", "lane 0 has Tile[[8, 16], FP32], lane 1 has Tile[[4, 16], FP32]"),
    "a name that one lane lacks": ("if lane == 0:\n        h = pl.load(a, [0, 0], [8, 16])\n    t = pl.aic_gather(h)", "`h` is not defined"),
    "a shape that is no half": ("h: pl.Tile[[4, 16], pl.FP32] = pl.tpop_from_aic(split=1)\n    out = pl.store(h, [0, 0], out)", "sends Tile[[16, 16], FP32]"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_in_lanes_are_named(case: str) -> None:
    statement, message = MISTAKES[case]
    text = kernel(f"pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)\nfor lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    {statement}\n")
    with pytest.raises(TilejitError) as caught:
        run(text, numbers(16, 16), numbers(16, 16), numbers(16, 16))
    assert message in caught.value.message


def test_half_a_tile_outside_lanes_needs_a_kernel_of_its_own() -> None:
    text = kernel("""
pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)
h: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
out = pl.store(h, [0, 0], out)
""")
    with pytest.raises(TilejitError, match="handles half a tile, but the kernel runs on one core with tpush_to_aiv"):
        run(text, numbers(16, 16), numbers(16, 16), numbers(16, 16))


def test_a_kernel_runs_on_both_lanes_or_on_one() -> None:
    text = pair(
        "pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)\npl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=1)",
        """
        x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic(split=1)
        h: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
        out = pl.store(x, [0, 0], out)
        """,
    )
    with pytest.raises(ShapeError, match="handles half a tile, tpop_from_aic in `aiv` a whole one"):
        run(text, numbers(16, 16), numbers(16, 16), numbers(16, 16), 0)


EXPLICIT = {
    "range": """
for i, (total, last) in pl.range(3, init_values=(zero, zero)):
    h: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
    pl.tpush_to_aic(pl.mul(h, 2.0 + lane), split=1)
    total_next = pl.add(total, h)
    total_out, last_out = pl.yield_(total_next, h)
""",
    "while": """
i = pl.const(0, pl.INDEX)
for (i, total, last) in pl.while_(init_values=(i, zero, zero)):
    pl.cond(i < 3)
    h: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
    pl.tpush_to_aic(pl.mul(h, 2.0 + lane), split=1)
    i_out, total_out, last_out = pl.yield_(i + 1, pl.add(total, h), h)
""",
}


@pytest.mark.parametrize("form", EXPLICIT)
def test_loops_that_yield_carry_the_values_of_both_lanes(form: str) -> None:
    loop = "\n            ".join(EXPLICIT[form].strip().splitlines())
    text = pair(
        """
        x = pl.load(a, [0, 0], [16, 16])
        for i in pl.range(3):
            pl.tpush_to_aiv(x, split=1)
            x = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split=1)
        b = pl.store(x, [0, 0], b)
        """,
        f"""
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            zero = pl.tile.full([8, 16], dtype=pl.FP32, value=0.0)
            {loop}
            out = pl.store(pl.sub(total_out, last_out), [lane * 8, 0], out)
        """,
    )
    a, factor = numbers(16, 16), by_lane("UP_DOWN", 2, 3)
    _, b, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 0)
    np.testing.assert_allclose(b, a * factor**3, rtol=1e-6)
    np.testing.assert_allclose(out, a + a * factor, rtol=1e-5, atol=1e-6)


INLINE = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.{kind})
    def answer(self, factor: pl.Scalar[pl.FP32]):
        h: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
        pl.tpush_to_aic(pl.mul(h, factor), split=1)

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        x = pl.load(a, [0, 0], [16, 16])
        for i in pl.range(3):
            pl.tpush_to_aiv(x, split=1)
            x = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split=1)
        out = pl.store(x, [0, 0], out)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            for i in pl.range(3):
                self.answer(2.0 + lane)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.cluster():
            self.cube(a, out)
            self.vector()
"""


def test_inline_helpers_are_part_of_their_lane() -> None:
    a = numbers(16, 16)
    _, out = run(INLINE.format(kind="Inline"), a, np.zeros_like(a))
    np.testing.assert_allclose(out, a * by_lane("UP_DOWN", 2, 3) ** 3, rtol=1e-6)


def test_other_functions_do_not_know_the_lane_that_calls_them() -> None:
    with pytest.raises(UnsupportedFeatureError, match="`answer` has tpop_from_aic and is called inside"):
        read(INLINE.format(kind="InCore"))

"""Tiles that cross between cube and vector kernels: every split, direction and order, on both backends, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.cross_core import numbers, pair, read, run
from tilejit import ir
from tilejit.dtypes import DTYPES
from tilejit.errors import DeadlockError, OutOfBoundsError, ResourceError, ShapeError, TilejitError, UnsupportedFeatureError
from tilejit.ops.movement import STORABLE

ORDERS = ["self.aic(a, b, n)\nself.aiv(out, n)", "self.aiv(out, n)\nself.aic(a, b, n)"]
SPLITS = {
    "whole": (0, (16, 8), (16, 8)),
    "up and down": (1, (16, 8), (8, 8)),
    "left and right": (2, (16, 8), (16, 4)),
    "odd rows": (3, (15, 8), (8, 8)),
    "odd columns": (4, (16, 7), (16, 4)),
    "even rows of the odd split": (3, (16, 8), (8, 8)),
    "a split that the vector side ignores": (1, (16, 8), (16, 8)),
}


@pytest.mark.parametrize("order", ORDERS, ids=["cube first", "vector first"])
@pytest.mark.parametrize("case", SPLITS)
def test_tiles_go_to_the_vector_side_and_come_back(case: str, order: str) -> None:
    split, whole, piece = SPLITS[case]
    program = read(
        pair(
            f"""
            x = pl.load(a, [0, 0], {list(whole)})
            for i in pl.range(n):
                pl.tpush_to_aiv(x, split={split})
                x = pl.tpop_from_aiv(shape={list(whole)}, dtype=pl.FP32, split={split})
            b = pl.store(x, [0, 0], b)
            """,
            f"""
            lane = pl.tile.get_subblock_idx()
            for i in pl.range(n):
                t: pl.Tile[{list(piece)}, pl.FP32] = pl.tpop_from_aic(split={split})
                pl.tpush_to_aic(pl.add(t, pl.cast(lane * 10 + i, pl.FP32)), split={split})
                pl.tfree_to_aic(t)
            """,
            order,
            shape=f"{whole[0]}, {whole[1]}",
        )
    )
    lane = np.zeros(whole, np.float32)
    lane[piece[0] :] = 10
    lane[:, piece[1] :] = 10
    a = numbers(*whole)
    for trips in (0, 1, 5):
        expected = a if trips else a.copy()
        for i in range(trips):
            expected = expected + (lane + i)
        _, b, _ = run(program, a, np.zeros_like(a), np.zeros_like(a), trips)
        np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("split", [1, 2])
def test_halves_of_both_lanes_make_one_tile_of_the_cube_side(split: int) -> None:
    piece, offset = ("[8, 16]", "[lane * 8, 0]") if split == 1 else ("[16, 8]", "[0, lane * 8]")
    text = pair(
        f"""
        w = pl.load(a, [0, 0], [16, 16])
        x = pl.tpop_from_aiv(shape=[16, 16], dtype=pl.FP32, split={split}, id=3)
        b = pl.store(pl.matmul(x, w), [0, 0], b)
        pl.tfree_to_aiv(x)
        """,
        f"""
        lane = pl.tile.get_subblock_idx()
        pl.tpush_to_aic(pl.load(out, {offset}, {piece}), split={split}, id=3)
        """,
    )
    a, out = numbers(16, 16), numbers(16, 16, seed=1)
    _, b, _ = run(text, a, np.zeros_like(a), out, 0)
    np.testing.assert_allclose(b, out @ a, rtol=1e-5, atol=1e-5)


def test_a_kernel_may_talk_to_itself_in_order() -> None:
    text = """
    @pl.function(type=pl.FunctionType.InCore)
    def main(a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        for i in pl.range(4):
            pl.tpush_to_aiv(pl.load(a, [i * 4, 0], [4, 16]), split=0)
        for i in pl.range(4):
            t: pl.Tile[[4, 16], pl.FP32] = pl.tpop_from_aic()
            out = pl.store(t, [12 - i * 4, 0], out)
    """
    a = numbers(16, 16)
    _, out = run(text, a, np.zeros_like(a))
    np.testing.assert_array_equal(out, a.reshape(4, 4, 16)[::-1].reshape(16, 16))


def test_tiles_that_nobody_takes_are_forgotten_with_their_run() -> None:
    text = """
    @pl.function
    def main(a: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        for i in pl.range(3):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.tpush_to_aiv(pl.load(a, [i * 4, 0], [4, 16]), split=0)
                pl.tpush_to_aiv(pl.load(a, [12, 0], [4, 16]), split=0)
            with pl.at(level=pl.Level.CORE_GROUP):
                t: pl.Tile[[4, 16], pl.FP32] = pl.tpop_from_aic()
                out = pl.store(t, [i * 4, 0], out)
    """
    a = numbers(16, 16)
    _, out = run(text, a, np.zeros_like(a))
    np.testing.assert_array_equal(out[:12], a[:12])
    assert not out[12:].any()


def test_a_long_stream_keeps_its_order() -> None:
    text = pair(
        "for i in pl.range(n):\n    pl.tpush_to_aiv(pl.load(a, [i % 16, 0], [1, 16]), split=0)",
        """
        for i in pl.range(n):
            t: pl.Tile[[1, 16], pl.FP32] = pl.tpop_from_aic()
            old = pl.load(out, [i % 16, 0], [1, 16])
            out = pl.store(pl.add(pl.mul(old, 0.5), pl.mul(t, pl.cast(i, pl.FP32))), [i % 16, 0], out)
        """,
    )
    a = numbers(16, 16)
    expected = np.zeros_like(a)
    for i in range(300):
        expected[i % 16] = expected[i % 16] * 0.5 + a[i % 16] * i
    *_, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 300)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_fifos_with_different_ids_are_different_fifos() -> None:
    text = pair(
        """
        for i in pl.range(2):
            pl.tpush_to_aiv(pl.load(a, [i * 8, 0], [8, 16]), split=0, id=i)
        pl.tpush_to_aiv(pl.load(a, [4, 0], [8, 16]), split=0, id=7)
        """.replace("for i in pl.range", "for i in pl.unroll"),
        """
        z: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(id=7)
        y: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(id=1)
        x: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic()
        out = pl.store(pl.sub(x, z), [0, 0], out)
        out = pl.store(y, [8, 0], out)
        """,
    )
    a = numbers(16, 16)
    *_, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 0)
    np.testing.assert_array_equal(out, np.concatenate([a[:8] - a[4:12], a[8:]]))


def test_one_fifo_carries_tiles_of_several_shapes_in_order() -> None:
    text = pair(
        "pl.tpush_to_aiv(pl.load(a, [0, 0], [8, 16]), split=0)\npl.tpush_to_aiv(pl.load(a, [8, 0], [4, 8]), split=0)",
        """
        x: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic()
        y: pl.Tile[[4, 8], pl.FP32] = pl.tpop_from_aic()
        out = pl.store(x, [8, 0], out)
        out = pl.store(y, [0, 0], out)
        """,
    )
    a = numbers(16, 16)
    *_, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 0)
    np.testing.assert_array_equal(out[8:], a[:8])
    np.testing.assert_array_equal(out[:4, :8], a[8:12, :8])


def test_tiles_have_other_ranks_too() -> None:
    text = pair(
        "pl.tpush_to_aiv(pl.load(a, [0, 0, 0], [3, 4, 6]), split=2)",
        """
        lane = pl.tile.get_subblock_idx()
        x: pl.Tile[[3, 4, 3], pl.FP32] = pl.tpop_from_aic(split=2)
        out = pl.store(pl.mul(x, pl.cast(lane + 2, pl.FP32)), [0, 0, 3 - 3 * lane], out)
        """,
        shape="3, 4, 6",
    )
    a = numbers(3, 4, 6)
    *_, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 0)
    np.testing.assert_array_equal(out, np.concatenate([a[..., 3:] * 3, a[..., :3] * 2], 2))


@pytest.mark.parametrize("name", sorted(dtype.name for dtype in STORABLE if dtype.name in DTYPES and dtype.bits >= 8))
def test_every_data_type_crosses_bit_by_bit(name: str) -> None:
    text = pair(
        "pl.tpush_to_aiv(pl.load(a, [0, 0], [6, 5]), split=1)",
        f"""
        lane = pl.tile.get_subblock_idx()
        x: pl.Tile[[3, 5], pl.{name}] = pl.tpop_from_aic(split=1)
        out = pl.store(x, [3 - 3 * lane, 0], out)
        """,
        shape="6, 5",
        dtype=name,
    )
    dtype = DTYPES[name].numpy
    a = np.random.default_rng(5).integers(0, 2 if name == "BOOL" else 100, (6, 5)).astype(dtype)
    if name == "COMPLEX64":
        a = np.asarray([3j * value + value for value in range(30)], dtype).reshape(6, 5)
    platforms = ["reference"] if name == "COMPLEX64" else ["reference", "cpu"]
    *_, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 0, platforms=platforms)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.view(np.uint8), np.concatenate([a[3:], a[:3]]).view(np.uint8))


@pytest.mark.parametrize(("cube", "vector"), [("COMPLEX64", "FP32"), ("FP32", "COMPLEX64")], ids=["push", "pop"])
def test_complex_numbers_do_not_cross_in_compiled_code(cube: str, vector: str) -> None:
    text = pair(
        f"pl.tpush_to_aiv(pl.cast(pl.load(a, [0, 0], [6, 5]), pl.{cube}), split=0)",
        f"x: pl.Tile[[6, 5], pl.{vector}] = pl.tpop_from_aic(split=0)\nout = pl.store(pl.load(out, [0, 0], [6, 5]), [0, 0], out)",
        shape="6, 5",
    )
    name = "tpush_to_aiv" if cube == "COMPLEX64" else "tpop_from_aic"
    with pytest.raises(UnsupportedFeatureError, match=f"{name} of complex numbers is not compiled"):
        ir.compile(read(text), platform="cpu")


@pytest.mark.parametrize(("rows", "upper", "lower"), [(11, 8, 3), (6, 6, 0), (16, 8, 8)])
def test_each_lane_sees_its_part_of_a_valid_region(rows: int, upper: int, lower: int) -> None:
    text = pair(
        "pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16], valid_shape=[n, 16]), split=1)",
        """
        lane = pl.tile.get_subblock_idx()
        x: pl.Tile[[8, 16], pl.FP32, pl.TileView(valid_shape=[n, 16])] = pl.tpop_from_aic(split=1)
        out = pl.store(x, [lane * 8, 0], out)
        """,
    )
    a = numbers(16, 16)
    *_, out = run(text, a, np.zeros_like(a), np.zeros_like(a), rows)
    np.testing.assert_array_equal(out[:upper], a[:upper])
    np.testing.assert_array_equal(out[8 : 8 + lower], a[8 : 8 + lower])
    assert not out[upper:8].any() and not out[8 + lower :].any()


def test_an_annotation_may_narrow_what_arrives() -> None:
    text = pair(
        "pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)",
        "x: pl.Tile[[16, 16], pl.FP32, pl.TileView(valid_shape=[5, 7])] = pl.tpop_from_aic()\nout = pl.store(x, [0, 0], out)",
    )
    a = numbers(16, 16)
    *_, out = run(text, a, np.zeros_like(a), np.zeros_like(a), 0)
    expected = np.zeros_like(a)
    expected[:5, :7] = a[:5, :7]
    np.testing.assert_array_equal(out, expected)


def test_a_tile_is_sent_as_it_is_now() -> None:
    text = pair(
        """
        x = pl.load(a, [0, 0], [16, 16])
        pl.tpush_to_aiv(x, split=0)
        y = pl.load(b, [0, 0], [16, 16])
        t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aiv()
        b = pl.store(pl.add(t, y), [0, 0], b)
        """,
        """
        x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
        out = pl.store(pl.mul(x, 2.0), [0, 0], out)
        pl.tpush_to_aic(pl.load(out, [0, 0], [16, 16]), split=0)
        """,
        order="self.aic(a, out, n)\nself.aiv(out, n)",
    )
    # Both kernels know the same tensor: what the cube side loaded before it waits is what was there then.
    a, out = numbers(16, 16), numbers(16, 16, seed=3)
    _, _, after = run(text, a, np.zeros_like(a), out, 0)
    np.testing.assert_array_equal(after, a * 2 + out)


# mistakes that only the run shows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_a_deadlock_names_both_places_and_leaves_nothing_behind(platform: str) -> None:
    text = pair(
        "for i in pl.range(n):\n    t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aiv()\npl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)",
        """
        x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
        out = pl.store(x, [0, 0], out)
        pl.tpush_to_aic(x, split=0)
        """,
    )
    compiled = ir.compile(read(text), platform=platform)
    a, out = numbers(16, 16), np.zeros((16, 16), np.float32)
    for _ in range(2):
        with pytest.raises(DeadlockError, match="tpop_from_aiv in `aic` waits for a tile that nobody sends") as caught:
            compiled(a, a.copy(), out, 1)
        assert caught.value.span is not None and caught.value.span.line == 7
        ((what, where),) = caught.value.related
        assert "tpop_from_aic in `aiv`" in what and where is not None and where.line == 12
        compiled(a, a.copy(), out, 0)
        np.testing.assert_array_equal(out, a)
        out[:] = 0


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_a_tile_of_another_shape_names_who_sent_it(platform: str) -> None:
    text = pair(
        """
        if n > 0:
            pl.tpush_to_aiv(pl.load(a, [0, 0], [8, 16]), split=0)
        else:
            pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
        """,
        "x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()\nout = pl.store(x, [0, 0], out)",
    )
    compiled = ir.compile(read(text), platform=platform)
    a = numbers(16, 16)
    with pytest.raises(ShapeError, match="another tile arrives") as caught:
        compiled(a, a.copy(), a.copy(), 1)
    assert caught.value.related[0][0] == "tpush_to_aiv in `aic` sends Tile[[8, 16], FP32]"


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_a_failure_of_one_kernel_ends_those_that_wait_for_it(platform: str) -> None:
    text = pair(
        "t = pl.load(a, [n, 0], [8, 16])\npl.tpush_to_aiv(t, split=0)",
        "x: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic()\nout = pl.store(x, [0, 0], out)",
        order=ORDERS[1],
    )
    compiled = ir.compile(read(text), platform=platform)
    a = numbers(16, 16)
    with pytest.raises(OutOfBoundsError, match="offset 9, size 8, extent 16"):
        compiled(a, a.copy(), a.copy(), 9)
    compiled(a, a.copy(), a.copy(), 8)


def test_a_run_that_needs_more_memory_than_there_is_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = pair(
        "for i in pl.range(n):\n    pl.tpush_to_aiv(pl.load(a, [0, 0], [512, 512]), split=0)",
        "x: pl.Tile[[512, 512], pl.FP32] = pl.tpop_from_aic()\nout = pl.store(x, [0, 0], out)",
        shape="512, 512",
    )
    monkeypatch.setenv("TILEJIT_ARENA_BYTES", "64M")
    compiled = ir.compile(read(text), platform="cpu")
    a = numbers(512, 512)
    with pytest.raises(ResourceError, match="scratch memory"):
        compiled(a, a.copy(), a.copy(), 1000)
    out = np.zeros_like(a)
    compiled(a, a.copy(), out, 2)
    np.testing.assert_array_equal(out, a)


def test_programs_differ_by_the_fifo_they_use() -> None:
    def text(number: int) -> str:
        push = f"pl.tpush_to_aiv(pl.load(a, [0, 0], [8, 16]), split=0, id={number})"
        return pair(push, f"x: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(id={number})\nout = pl.store(x, [0, 0], out)")

    assert ir.structural_equal(read(text(1)), read(text(1)))
    assert not ir.structural_equal(read(text(1)), read(text(2)))


def test_a_group_that_cannot_run_is_refused_before_anything_runs() -> None:
    pop = "x: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic()\nout = pl.store(x, [0, 0], out)"
    text = pair("b = pl.store(pl.load(a, [0, 0], [8, 16]), [0, 0], b)", pop)
    for platform in ("reference", "cpu"):
        with pytest.raises(TilejitError, match="nobody puts any in"):
            ir.compile(read(text), platform=platform)


PIPES = """
buffer = pl.reserve_buffer(name="{reserved}", size=8192)
pl.aiv_initialize_pipe(buffer, dir_mask=1, slot_size=1024, slot_num=8)
x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic()
out = pl.store(x, [0, 0], out)
"""
PEER = """
buffer = pl.import_peer_buffer(name="to_vector", peer_func="aiv")
pl.aic_initialize_pipe(buffer, dir_mask=1, slot_size=1024)
pl.tpush_to_aiv(pl.load(a, [0, 0], [16, 16]), split=0)
"""


def test_pipes_are_opened_with_the_buffers_of_the_peer() -> None:
    a = numbers(16, 16)
    *_, out = run(pair(PEER, PIPES.format(reserved="to_vector")), a, np.zeros_like(a), np.zeros_like(a), 0)
    np.testing.assert_array_equal(out, a)
    with pytest.raises(TilejitError, match="`aiv` reserves no buffer 'to_vector'"):
        ir.compile(read(pair(PEER, PIPES.format(reserved="to_cube"))), platform="reference")

"""Cube and vector sides run side by side, whole tiles and halves crossing in both directions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pto.data import f16, f32, floats
from tests.pto.harness import HERE, close, program_of, run, run_text
from tilejit.errors import DeadlockError, ShapeError


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("split", [0, 1, 2])
def test_from_cube_to_vector(split: int) -> None:
    a, b, out = floats(16, 32, dtype=f16), floats(32, 32, dtype=f16), floats(16, 32)
    run(f"fifo_c2v_{split}", a, b, out, grid=2)
    close(out, 2 * product(a, b) ** 2, 1e-3)


@pytest.mark.parametrize("split", [0, 1, 2])
def test_from_vector_to_cube(split: int) -> None:
    a, b, out = floats(16, 32, dtype=f16), floats(32, 32, dtype=f16), floats(16, 32)
    run(f"fifo_v2c_{split}", a, b, out)
    close(out, product(2 * a, b), 1e-3)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_back_and_forth(trips: int) -> None:
    a, b, out = floats(16, 16, dtype=f16), floats(16, 16, dtype=f16) / f16(4), floats(16, 16)
    run("fifo_both_ways", a, b, out, trips)
    left = a
    for _ in range(trips):
        left = np.maximum(product(left, b).astype(f32), 0).astype(f16)
    close(out, product(left, b), 1e-2)


@pytest.mark.parametrize("rows", [1, 9, 16])
def test_the_receiver_says_what_is_valid(rows: int) -> None:
    a, b, out = floats(16, 32, dtype=f16), floats(32, 32, dtype=f16), floats(rows, 32)
    run("fifo_valid", a, b, out, rows)
    close(out, product(a, b)[:rows], 1e-3)


def test_a_pipe_as_a_value_between_sections() -> None:
    """The vector section stands first and waits."""
    a, b, out = floats(16, 32, dtype=f16), floats(32, 32, dtype=f16), floats(16, 32)
    run("pipes_as_values", a, b, out)
    close(out, -product(a, b), 1e-3)


@pytest.mark.parametrize("name", ["fifo_valid", "pipes_as_values"])
def test_what_arrives_may_say_how_much_of_it_is_valid(name: str) -> None:
    """A tile of open extents, and nobody on the receiving side who says them."""
    text = (HERE / "kernels" / f"{name}.pto").read_text()
    for old, new in (("acc, 16x32xf32,", "acc, 16x32xf32, valid=11x32,"), ("left, 16x32xf16,", "left, 16x32xf16, valid=11x32,"), ("(%rows, %c32) {", "{")):
        assert old in text or name == "pipes_as_values"
        text = text.replace(old, new)
    text = text.replace("tile_buf<vec, 16x32xf32>", "tile_buf<vec, 16x32xf32, valid=?x?>")
    a, b, out = floats(16, 32, dtype=f16), floats(32, 32, dtype=f16), floats(16, 32)
    before = out.copy()
    run_text(text, a, b, out, *([16] if name == "fifo_valid" else []))
    close(out[:11], product(a, b)[:11] * (1 if name == "fifo_valid" else -1), 1e-3)
    np.testing.assert_array_equal(out[11:], before[11:])


def test_sub_cores_of_a_vector_kernel() -> None:
    a, out = floats(48, 32), floats(48, 32)
    run("sub_cores", a, out, grid=3)
    close(out, a + np.repeat(np.arange(6), 8)[:, None], 1e-6)


def changed(name: str, old: str, new: str) -> str:
    text = (HERE / "kernels" / f"{name}.pto").read_text()
    assert old in text
    return text.replace(old, new)


def test_sides_that_wait_for_each_other_are_found() -> None:
    loop = "scf.for %i = %c{} to %n step %c1 {{\n      %x = pto.tpop_from_aic"
    text = changed("fifo_both_ways", loop.format(0), loop.format(1))
    arguments = [floats(16, 16, dtype=f16), floats(16, 16, dtype=f16), floats(16, 16), 2]
    with pytest.raises(DeadlockError, match="waits") as caught:
        run_text(text, *arguments)
    assert "@cube_side waits in pto.tpop_from_aiv" in str(caught.value)
    kernel = program_of(text)
    assert kernel.native is not None
    with pytest.raises(DeadlockError, match="tpop_from_aiv in `cube_side` waits") as caught:
        kernel.launch(arguments, 1)
    assert "%back = pto.tpop_from_aiv" in caught.value.source_lines[0]


def test_a_tile_of_the_wrong_shape_arrives() -> None:
    popped, whole = "pto.tpop_from_aic {split = 0} -> !pto.tile_buf<vec, 8x32xf32>", "!pto.tile_buf<vec, 16x32xf32>"
    text = changed("fifo_c2v_0", f"%x = pto.tpop_from_aic {{split = 0}} -> {whole}", f"%x0 = {popped}\n    %x = pto.alloc_tile : {whole}")
    with pytest.raises(ShapeError, match="16x32 arrives, one of 8x32 is expected"):
        run_text(text, floats(16, 32, dtype=f16), floats(32, 32, dtype=f16), floats(16, 32))

"""Kernels whose tiles are plain variables run as machine code, and give what the interpreter gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.pto.harness import HERE, NDArray, load
from tilejit.backends.pto.launch import launch
from tilejit.errors import OutOfBoundsError
from tilejit.jit.pto_program import PtoProgram

RNG = np.random.default_rng(23)
FLOATS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
INTEGERS: dict[str, Any] = {"i32": np.int32, "i16": np.int16, "i8": np.int8}


def program(name: str) -> PtoProgram:
    file = load(name)
    (entry,) = file.entries()
    return PtoProgram(file, entry, tuple(argument.name_hint or f"a{i}" for i, argument in enumerate(entry.body.block.args)))


def array(element: str, size: int) -> NDArray:
    if element in FLOATS:
        return (np.abs(RNG.standard_normal(size)) + 0.1).astype(FLOATS[element])
    return RNG.integers(-100, 100, size).astype(INTEGERS[element])


RAISED = {
    "binary_bf16_a5": 1, "binary_i16": 1, "binary_i32": 1, "binary_i8_a5": 1, "generic_form": 1, "in_place": 1, "matmul_a5": 1, "matmul_bias": 1,
    "matmul_f16": 1, "matmul_i8": 1, "matmul_k_loop": 1, "matmul_store_bf16": 1, "scale2": 1, "split_k": 4, "spmd_grid": 5, "unary_f16": 1,
    "transposed_view": 1, "scalar_three": 1, "shifts_i32": 1,
}  # fmt: skip
"""Kernels that compile, and the grids to launch them with."""


@pytest.mark.parametrize("name", RAISED)
def test_machine_code_and_interpreter_agree(name: str) -> None:
    kernel, grid = program(name), RAISED[name]
    assert kernel.native is not None, kernel.interpreted_because
    elements = [argument.type.data.element.name for argument in kernel.entry.body.block.args]  # type: ignore[attr-defined]
    inputs = [array(element, 64 * 64 * grid) for element in elements]
    expected = [value.copy() for value in inputs]
    kernel.launch(inputs, grid)
    launch(kernel.file, kernel.entry, kernel.names, expected, grid)
    assert any(not np.array_equal(a, b) for a, b in zip(inputs, [array(e, 4096 * grid) for e in elements]))
    for got, want, element in zip(inputs, expected, elements):
        tolerance = {"f32": 1e-4, "f16": 2e-3, "bf16": 1e-2}.get(element, 0.0)
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


def test_tiles_at_fixed_addresses_are_carried_by_loops() -> None:
    kernel = program("level3_loop")
    a, out = RNG.standard_normal((80, 32)).astype(np.float32), np.ones((16, 32), np.float32)
    kernel.launch([a, out, 5], 1)
    assert kernel.interpreted_because is None
    np.testing.assert_allclose(out, a.reshape(5, 16, 32).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("native", [True, False])
def test_reductions_expands_and_branches(square: bool, native: bool) -> None:
    kernel = program("normalise")
    a, g, out = np.abs(RNG.standard_normal((16, 32))).astype(np.float32), RNG.standard_normal((1, 32)).astype(np.float32), np.ones((16, 32), np.float16)
    if native:
        kernel.launch([a, g, out, square], 1)
        assert kernel.interpreted_because is None
    else:
        launch(kernel.file, kernel.entry, kernel.names, [a, g, out, square], 1)
    t = a * a if square else a
    np.testing.assert_allclose(out.astype(np.float32), t / t.sum(1, keepdims=True) * g, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("printed", "pto.print"),
        ("histogram_a5", "pto.thistogram"),
    ],
)
def test_other_kernels_are_interpreted_and_say_why(name: str, reason: str) -> None:
    kernel = program(name)
    assert kernel.native is None
    assert reason in (kernel.interpreted_because or "")


def test_overlapping_arrays_are_interpreted_in_program_order() -> None:
    kernel = program("scale2")
    x = RNG.standard_normal((16, 16)).astype(np.float32)
    wanted = 2 * x
    kernel.launch([x, x], 1)
    np.testing.assert_array_equal(x, wanted)


def test_a_view_outside_its_array_is_an_error_in_both() -> None:
    kernel = program("scale2")
    short, out = np.ones(255, np.float32), np.ones(256, np.float32)
    for run in (kernel.launch, lambda values, grid: launch(kernel.file, kernel.entry, kernel.names, values, grid)):
        with pytest.raises(OutOfBoundsError, match="`src`") as caught:
            run([short, out], 1)
        assert caught.value.span is not None and "make_tensor_view" in caught.value.source_lines[0]
        assert (out == 1).all()


def test_the_kernels_of_the_folder_are_all_considered() -> None:
    assert {path.stem for path in (HERE / "kernels").glob("*.pto")} >= set(RAISED)

"""PTO kernels run as machine code, and give what the interpreter gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pto import random_kernels, random_views
from tests.pto.harness import HERE, KERNELS, load, run_text
from tilejit.backends.pto.launch import launch
from tilejit.errors import OutOfBoundsError
from tilejit.jit.pto_program import PtoProgram

RNG = np.random.default_rng(23)

def program(name: str) -> PtoProgram:
    file = load(name)
    (entry,) = file.entries()
    return PtoProgram(file, entry, tuple(argument.name_hint or f"a{i}" for i, argument in enumerate(entry.body.block.args)))


INTERPRETED = {"printed"}
"""The kernels of the folder that stay with the interpreter: printing is all that keeps them there."""


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_of_the_folder_is_machine_code_or_known_not_to_be(name: str) -> None:
    # That it computes what the interpreter computes is checked wherever a test runs it (harness.run).
    kernel = program(name)
    assert (kernel.native is None) == (name in INTERPRETED), kernel.interpreted_because


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels_agree(seed: int) -> None:
    random_kernels.check(seed)


@pytest.mark.parametrize("seed", range(12))
def test_random_views_agree(seed: int) -> None:
    random_views.check(seed)


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


def test_what_is_interpreted_says_why() -> None:
    kernel = program("printed")
    assert kernel.native is None
    assert "pto.print" in (kernel.interpreted_because or "")


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


def test_a_hundred_loops_in_a_row_compile() -> None:
    # LLVM's redundancy elimination aborts the process on such functions: it must not see them.
    text = (HERE / "kernels" / "scale2.pto").read_text()
    line = next(line for line in text.splitlines() if "pto.tstore" in line)
    muls = next(line for line in text.splitlines() if "pto.tmuls" in line)
    x, y = RNG.standard_normal((2, 16, 16)).astype(np.float32)
    run_text(text.replace(line, "\n".join([line, muls] * 110 + [line])), x, y)
    np.testing.assert_array_equal(y, np.float32(2.0) ** 111 * x)

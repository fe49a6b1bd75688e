"""How far loops write into an output that is left out: exactly, or an error says that it cannot be told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.jit.function import JITFunction

Made = Callable[..., JITFunction]
STATIC, DYNAMIC = "pl.Tensor", "pl.Tensor[[M, K], pl.FP32]"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Makes a kernel of these statements."""

    def make(body: str, kind: str = STATIC) -> JITFunction:
        head = f"import tilejit.language as pl\nM, K = map(pl.dynamic, 'MK')\n\n@pl.jit\ndef kernel(x: {kind}, out: pl.Out[pl.Tensor]):\n"
        (tmp_path / "written.py").write_text(head + body)
        names: dict[str, Any] = {}
        exec(compile(head + body, str(tmp_path / "written.py"), "exec"), names)
        return names["kernel"]

    return make


class Written:
    """Stands for an output where Python runs the statements, and keeps the furthest cell."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()

    def __setitem__(self, place: Any, value: np.ndarray) -> None:
        places: tuple[Any, ...] = place if isinstance(place, tuple) else (place,)
        ends = [part.stop if isinstance(part, slice) else part + 1 for part in places]
        ends += np.shape(value)[sum(isinstance(part, slice) for part in places) :]
        self.shape = tuple(map(max, ends, self.shape or ends))


class Loops:
    """Stands for the language there."""

    range, min = range, min

    @staticmethod
    def cdiv(whole: int, part: int) -> int:
        return -(-whole // part)


def furthest(body: str, shape: tuple[int, int]) -> tuple[int, ...]:
    out = Written()
    lines = body.replace("\n    ", "\n").removeprefix("    ")
    exec(lines, {"pl": Loops, "x": np.ones(shape), "out": out})
    return out.shape


def loop(bounds: str, statement: str) -> str:
    return f"    for i in pl.range({bounds}):\n        {statement}\n"


def two(first: str, second: str, statement: str) -> str:
    return f"    for i in pl.range({first}):\n        for j in pl.range({second}):\n            {statement}\n"


EXACT = [
    loop("0, x.shape[0], 2", "out[i] = x[i]"),
    loop("1, x.shape[0], 2", "out[i - 1] = x[i]"),
    loop("0, x.shape[0], 4", "out[i : i + 4] = x[0:4]"),
    loop("0, x.shape[0] // 4 * 4, 4", "out[i : i + 4] = x[i : i + 4]"),
    loop("x.shape[0] - 1, -1, -2", "out[i] = x[i]"),
    loop("x.shape[0]", "out[i // 2] = x[i]"),
    loop("x.shape[0]", "out[i, 0 : i + 1] = x[0, 0:1]"),
    two("x.shape[0]", "x.shape[1]", "out[i * x.shape[1] + j] = x[i, j]"),
    two("x.shape[0]", "i + 1", "out[i, j] = x[0, 0]"),
    two("x.shape[0]", "i, x.shape[0]", "out[i, j] = x[0, 0]"),
    two("x.shape[0]", "i * 4, i * 4 + 4, 3", "out[j, i] = x[0, 0]"),
    two("pl.cdiv(x.shape[0], 4)", "i * 4, min(i * 4 + 4, x.shape[0])", "out[j] = x[j]"),
]
DECIDED_BY_THE_RUN = [
    two("x.shape[0]", "i, x.shape[1], 3", "out[i, j] = x[i, j]"),
    two("x.shape[0]", "i, x.shape[1]", "out[i, j] = x[i, j]"),
    two("x.shape[0]", "x.shape[0] - i", "out[j, i] = x[0, 0]"),
    loop("x.shape[0]", "out[i % 6] = x[i]"),
    loop("x.shape[0]", "out[i * 4 % 8] = x[i]"),
]
SHAPES = [(8, 6), (5, 6), (9, 7), (4, 4), (5, 4)]


@pytest.mark.parametrize("body", [*EXACT, *DECIDED_BY_THE_RUN])
def test_loops_with_bounds_that_are_numbers_are_followed(made: Made, body: str):
    kernel = made(body)
    for shape in SHAPES:
        assert kernel(np.ones(shape, np.float32)).shape == furthest(body, shape)


@pytest.mark.parametrize("body", EXACT)
def test_loops_over_dynamic_extents_reach_as_far(made: Made, body: str):
    kernel = made(body, DYNAMIC)
    for shape in SHAPES:
        assert kernel(np.ones(shape, np.float32)).shape == furthest(body, shape)
    assert kernel.cache_info().entries == 1


@pytest.mark.parametrize("body", DECIDED_BY_THE_RUN)
def test_what_only_the_run_knows_of_dynamic_extents_is_an_error(made: Made, body: str):
    with pytest.raises(errors.ShapeError, match="where it ends is known only at run time") as caught:
        made(body, DYNAMIC)(np.ones((5, 4), np.float32))
    assert "pass `out`" in (caught.value.hint or "")


def test_other_names_keep_what_they_reach_after_a_loop_that_may_not_turn():
    m, k = pl.dynamic("M"), pl.dynamic("K")

    @pl.jit
    def kernel(x: pl.Tensor[[m, k], pl.FP32], sums: pl.Out[pl.Tensor]):
        for i in pl.range(x.shape[0]):
            total = x[i, 0]
            for j in pl.range(i, x.shape[1]):
                total = total + x[i, j]
            sums[i] = total

    assert kernel(np.ones((5, 4), np.float32)).shape == (5,)

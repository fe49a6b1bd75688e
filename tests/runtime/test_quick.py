"""The quick way of a call gives the argument block of the full checks, or gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import COLUMNS, ROWS, compiled
from tilejit.dtypes import FP32, INT8, INT32
from tilejit.errors import TilejitError
from tilejit.runtime.native import pack
from tilejit.runtime.quick import QuickBinder
from tilejit.runtime.signature import ParamInfo, Signature

rng = np.random.default_rng(9)
MIXED = Signature(
    "mixed",
    (
        ParamInfo("a", "In", FP32, (4, "M")),
        ParamInfo("b", "In", INT32, ("M", "N")),
        ParamInfo("state", "InOut", FP32, (6, 5)),
        ParamInfo("out", "Out", FP32, ("N",)),
    ),
    order=(3, 0, 2, 1),
)


def array(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (rng.standard_normal(shape) * 9).astype(dtype)


def full(signature: Signature, args: tuple[object, ...]) -> list[int]:
    bound, new = signature.bind(args)
    assert not new
    return pack(bound, [param.dtype for param in signature.code_params])


@pytest.mark.parametrize(("m", "n"), [(1, 1), (7, 3), (3, 7), (0, 4), (5, 0)])
def test_plain_arrays_give_the_block_of_the_full_checks(m: int, n: int) -> None:
    args = (array(4, m), array(m, n, dtype=np.int32), array(6, 5), array(n))
    assert QuickBinder(MIXED).slots(args) == full(MIXED, args)


def overlapping() -> tuple[object, ...]:
    memory = array(70)
    return array(4, 2), array(2, 3, dtype=np.int32), memory[:30].reshape(6, 5), memory[29:32]


UNUSUAL: dict[str, Callable[[], tuple[object, ...]]] = {
    "an output left out": lambda: (array(4, 2), array(2, 3, dtype=np.int32), array(6, 5)),
    "a list": lambda: (array(4, 2).tolist(), array(2, 3, dtype=np.int32), array(6, 5), array(3)),
    "a subclass": lambda: (array(4, 2).view(np.recarray), array(2, 3, dtype=np.int32), array(6, 5), array(3)),
    "another dtype": lambda: (array(4, 2), array(2, 3), array(6, 5), array(3)),
    "another rank": lambda: (array(4, 2, 1), array(2, 3, dtype=np.int32), array(6, 5), array(3)),
    "another constant extent": lambda: (array(3, 2), array(2, 3, dtype=np.int32), array(6, 5), array(3)),
    "another whole shape": lambda: (array(4, 2), array(2, 3, dtype=np.int32), array(5, 6), array(3)),
    "extents that disagree": lambda: (array(4, 2), array(3, 3, dtype=np.int32), array(6, 5), array(3)),
    "a strided input": lambda: (array(2, 4).T, array(2, 3, dtype=np.int32), array(6, 5), array(3)),
    "an unaligned input": lambda: (np.zeros(33, np.uint8)[1:].view(np.float32).reshape(4, 2), array(2, 3, dtype=np.int32), array(6, 5), array(3)),
    "a read-only output": lambda: (array(4, 2), array(2, 3, dtype=np.int32), array(6, 5), np.broadcast_to(np.float32(1), (3,))),
    "outputs that overlap": overlapping,
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_is_left_to_the_full_checks(what: str) -> None:
    args = UNUSUAL[what]()
    assert QuickBinder(MIXED).slots(args) is None


def test_inputs_may_share_memory() -> None:
    a, out = array(ROWS, COLUMNS), array(ROWS, COLUMNS)
    compiled("FP32")(a, a, out)
    np.testing.assert_array_equal(out, 2 * a)


def test_signatures_with_scalars_or_new_tensors_go_the_long_way() -> None:
    scalar = Signature("s", (ParamInfo("a", "In", FP32, (3,)), ParamInfo("n", "In", INT8)))
    new = Signature("n", (ParamInfo("a", "In", FP32, (3,)),), (ParamInfo("result", "Out", FP32, (3,)),))
    assert QuickBinder(scalar).slots((array(3), 1)) is None
    assert QuickBinder(new).slots((array(3),)) is None


def test_random_calls_never_pass_what_the_full_checks_refuse() -> None:
    pool = [array(4, 2), array(2, 3, dtype=np.int32), array(6, 5), array(3), array(4, 3), array(3, 3, dtype=np.int32), array(30)[:30].reshape(5, 6).T]
    pool += [pool[2][:, :], pool[2].reshape(-1)[:3], array(6, 5)]
    quick, passed, choose = QuickBinder(MIXED), 0, np.random.default_rng(4)
    for _ in range(2000):
        chosen = pool[:4]
        for position in choose.integers(0, 4, 2):
            chosen[position] = pool[choose.integers(len(pool))]
        args = tuple(chosen)
        slots = quick.slots(args)
        if slots is None:
            continue
        passed += 1
        try:
            assert slots == full(MIXED, args)
        except TilejitError as error:
            pytest.fail(f"refused: {error}")
    assert passed > 50

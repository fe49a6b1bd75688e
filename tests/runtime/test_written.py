"""A call as one written function gives the argument block of the full checks, or gives up."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import COLUMNS, ROWS, compiled
from tilejit.dtypes import BF16, BOOL, FP32, INDEX, INT8, INT32, UINT64, DType
from tilejit.errors import TilejitError
from tilejit.runtime.call.native import Placed, pack
from tilejit.runtime.call.signature import ParamInfo, Signature
from tilejit.runtime.call.written import MISS, Launch, written_call_of
from tilejit.runtime.targets import HOST

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


class Written:
    """The function that is written for calls like one with the arguments `sample`."""

    def __init__(self, signature: Signature, sample: tuple[object, ...], noted: bool = False, device: str = HOST) -> None:
        placed = Placed()
        placed.params = tuple(signature.code_params)
        self._blocks: list[bytes] = []
        self._size = placed.slots
        entry: Any = SimpleNamespace(signature=signature)
        arguments = dict(zip((param.name for param in signature.params), sample, strict=True))
        made = written_call_of(entry, placed, Launch(self._blocks.append, placed.slots, lambda error: None, noted, device), arguments)
        assert made is not None
        self._call = made

    def slots(self, args: tuple[object, ...]) -> list[int] | None:
        """The argument block, or None."""
        if self._call(args) is MISS:
            return None
        return list(struct.unpack(f"={self._size}Q", self._blocks.pop()))


def plain(m: int = 2, n: int = 3) -> tuple[object, ...]:
    return array(4, m), array(m, n, dtype=np.int32), array(6, 5), array(n)


def full(signature: Signature, args: tuple[object, ...]) -> list[int]:
    bound, new = signature.bind(args)
    assert not new
    return pack(bound, [param.dtype for param in signature.code_params])


@pytest.mark.parametrize(("m", "n"), [(1, 1), (7, 3), (3, 7), (0, 4), (5, 0)])
def test_plain_arrays_give_the_block_of_the_full_checks(m: int, n: int) -> None:
    args = (array(4, m), array(m, n, dtype=np.int32), array(6, 5), array(n))
    assert Written(MIXED, plain()).slots(args) == full(MIXED, args)


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
    assert Written(MIXED, plain()).slots(args) is None


def test_inputs_may_share_memory() -> None:
    a, out = array(ROWS, COLUMNS), array(ROWS, COLUMNS)
    compiled("FP32")(a, a, out)
    np.testing.assert_array_equal(out, 2 * a)


@pytest.mark.parametrize(
    ("dtype", "fits", "not_so_plain"),
    [
        (INT8, [0, -128, 127], [128, -129, 1.0, True, np.int8(3), 1 << 70]),
        (UINT64, [0, (1 << 64) - 1], [-1, 1 << 64]),
        (INDEX, [-5, 1 << 62], [1 << 63]),
        (FP32, [0.5, -0.0, float("inf"), 1e300], [1, True, np.float32(1)]),
        (BF16, [0.3, float("-inf")], [1, None]),
        (BOOL, [True, False], [1, 0, np.True_]),
    ],
)
def test_scalars_of_their_own_kind_give_the_bits_of_the_full_checks(dtype: DType, fits: list[object], not_so_plain: list[object]) -> None:
    signature = Signature("s", (ParamInfo("a", "In", FP32, (3,)), ParamInfo("n", "In", dtype)), order=(1, 0))
    a = array(3)
    written = Written(signature, (a, fits[0]))
    for value in fits:
        assert written.slots((a, value)) == full(signature, (a, value))
    for value in not_so_plain:
        assert written.slots((a, value)) is None


@pytest.mark.torch
def test_plain_torch_tensors_give_the_block_of_the_full_checks_and_others_do_not() -> None:
    import torch

    signature = Signature("t", (ParamInfo("a", "In", FP32, (2, "M")), ParamInfo("out", "Out", FP32, (2, "M"))))
    a, out = torch.rand(2, 6), torch.empty(2, 6)
    assert Written(signature, (a, out)).slots((a, out)) == full(signature, (a, out))
    wanting = a.clone().requires_grad_()
    assert Written(signature, (a, out), True).slots((wanting, out)) is not None, "inputs that require grad are plain data"
    assert Written(signature, (a, out), False).slots((wanting, out)) is None, "of which the caller must be told once"
    with torch.no_grad():
        assert Written(signature, (a, out), False).slots((wanting, out)) is not None, "unless nobody asked for a gradient"
    freed = torch.empty(2, 6)
    freed.untyped_storage().resize_(0)
    unusual = (
        torch._neg_view(a), a.double(), a.to_sparse(), torch.rand(6, 2).T, torch.nn.Parameter(a), a.to("meta"), freed, out,  # type: ignore[attr-defined]
    )  # fmt: skip
    for value in unusual:
        assert Written(signature, (a, out)).slots((value, out)) is None
    assert Written(signature, (a, out)).slots((a, out.clone().requires_grad_())) is None


@pytest.mark.torch
@pytest.mark.parametrize("device", [HOST, "cuda:-1"], ids=["here", "there"])  # torch gives the memory of this process the number -1
def test_tensors_between_their_elements_are_left_to_the_full_checks(device: str) -> None:
    torch = pytest.importorskip("torch")
    signature = Signature("t", (ParamInfo("a", "In", FP32, (2, "M")), ParamInfo("out", "Out", FP32, (2, "M"))))
    memory = bytearray(100)
    written = Written(signature, (torch.rand(2, 6), torch.empty(2, 6)), device=device)
    for start in range(9):
        odd = torch.frombuffer(memory, dtype=torch.float32, offset=start, count=12).view(2, 6)
        fits = odd.data_ptr() % 4 == 0
        assert (written.slots((odd, torch.empty(2, 6))) is not None, written.slots((torch.rand(2, 6), odd)) is not None) == (fits, fits)


def test_random_calls_never_pass_what_the_full_checks_refuse() -> None:
    pool = [array(4, 2), array(2, 3, dtype=np.int32), array(6, 5), array(3), array(4, 3), array(3, 3, dtype=np.int32), array(30)[:30].reshape(5, 6).T]
    pool += [pool[2][:, :], pool[2].reshape(-1)[:3], array(6, 5)]
    quick, passed, choose = Written(MIXED, plain()), 0, np.random.default_rng(4)
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

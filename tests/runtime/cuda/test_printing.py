"""What kernels of a GPU print: block by block whatever the order they ran in, what found no room is counted, graphs are refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tilejit.language as pl
from tests.runtime.cuda.fake import FakeLibrary, Launched
from tilejit.errors import ArgumentError
from tilejit.runtime import DeviceArray
from tilejit.runtime.cuda.printing import ENDS, HEADER


@pl.jit
def told(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        t = pl.load(x, [b, 0], [1, 2])
        pl.print("block", b, "has", t)
        pl.print("and that is all")
        pl.store(t, [b, 0], out)


def records(launched: Launched, order: list[int], lost: int = 0) -> None:
    """What the kernel writes for some blocks: row, block, a scalar, a tile of 1 × 2; then a row without operands."""
    words: list[int] = []
    for block in order:
        cells = np.array([[block, block + 0.5]], np.float32).view(np.int64).ravel().tolist()
        words += [0, block, block, 1, 2, *cells, 1, block]
    log = next(slot for slot, wanted in zip(launched.slots, _kinds(launched), strict=False) if wanted == "log")
    header = (ctypes.c_int64 * HEADER).from_address(log)
    assert list(header) == [0, 0]
    asked = len(words) + 100 * lost
    ctypes.memmove(log + 8 * HEADER, (ctypes.c_int64 * (len(words) + 1))(*words, ENDS), 8 * len(words) + 8)
    header[:] = asked, lost


def _kinds(launched: Launched) -> list[str]:
    (program,) = told.compile(*arrays()).artifact.facts["programs"]
    return [parameter["kind"] for parameter in program["kernels"][0]["parameters"]]


def arrays() -> tuple[DeviceArray, DeviceArray]:
    return DeviceArray.of(np.ones((4, 2), np.float32)), DeviceArray.of(np.zeros((4, 2), np.float32))


SAID = [f"block {block} has [[{block}.  {block}.5]]\nand that is all\n" for block in range(4)]


@pytest.fixture
def printing(gpu: FakeLibrary) -> FakeLibrary:
    """A GPU whose kernel writes what the real one would, its blocks from the last to the first."""
    told.cache_clear()
    gpu.parameters = len(_kinds(Launched("", (0, 0, 0), 0, 0, 0, {}, ()))) + 2
    gpu.kernels["told"] = gpu.kernels["told_k0"] = lambda launched: records(launched, [3, 1, 0, 2])
    return gpu


def test_blocks_speak_in_their_order_in_every_call(printing: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(4):
        told(*arrays())
        assert capsys.readouterr().out == "".join(SAID)
    assert len(printing.launches) == 4


def test_prints_that_found_no_room_are_counted(printing: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    for symbol in list(printing.kernels):
        printing.kernels[symbol] = lambda launched: records(launched, [1], lost=3)
    told(*arrays())
    assert capsys.readouterr().out == SAID[1] + "… and 3 more, for which there was no room\n"


def test_a_kernel_that_prints_is_no_part_of_a_graph(printing: FakeLibrary) -> None:
    compiled = told.compile(*arrays())
    with pytest.raises(ArgumentError, match="a kernel that prints cannot be captured into a graph"):
        compiled.graph(*arrays())

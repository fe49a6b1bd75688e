"""Kernels that fail or print while they run, in Triton's interpreter: what is raised, what was left alone, whether prints are the reference's."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np

from tests.backends.cpu.test_printing import blocks, kinds, product
from tests.backends.cuda import interpreted
from tests.backends.cuda.failing import (
    asserts,
    cells_into_a_window_past_the_end,
    cells_past_the_end,
    load_past_the_end,
    rows_into_a_window_past_the_end,
    store_past_the_end,
    wrong_index,
)
from tilejit.errors import TilejitError
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

assert interpreted.TARGET
ON = RunConfig(platform="triton")


def main() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    places: dict[str, np.ndarray[Any, Any]] = {"wrong_index": np.full((4, 2), 9, np.int32), "rows_into_a_window_past_the_end": np.array([[1]], np.int32)}
    scatters = (rows_into_a_window_past_the_end, cells_into_a_window_past_the_end, cells_past_the_end)
    for kernel in (load_past_the_end, store_past_the_end, wrong_index, asserts, *scatters):
        memory = np.full(64, -1, np.float32)
        columns = 2 if kernel is wrong_index else 8
        out = memory[: 4 * columns].reshape(4, columns)
        try:
            kernel(x, places.get(kernel.__name__, np.array([3], np.int32)), out, config=ON)
            print(kernel.__name__, "nothing")
        except TilejitError as error:
            print(kernel.__name__, type(error).__name__, str(error).splitlines()[0], "left alone" if (memory[4 * columns :] == -1).all() else "WRITTEN")


def said(kernel: JITFunction, platform: str) -> str:
    shown = io.StringIO()
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    with contextlib.redirect_stdout(shown):
        kernel(x, np.zeros((4, 4) if kernel is product else (4, 8), np.float32), config=RunConfig(platform=platform))
    return shown.getvalue()


def prints() -> None:
    for kernel in (blocks, product, kinds):
        print(kernel.__name__, "says the same" if said(kernel, "triton") == said(kernel, "reference") else said(kernel, "triton"))


if __name__ == "__main__":
    main()
    prints()

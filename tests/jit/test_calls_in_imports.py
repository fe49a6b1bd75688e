"""Kernels that a signal handler or a finalizer calls while the first compile of a process imports the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG

SCRIPT = """
import signal, sys
import numpy as np
import tilejit.language as pl
from tilejit.errors import TilejitError

@pl.jit
def first(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0

@pl.jit
def second(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(x)

X = np.zeros((2, 3), np.float32)
place, way = sys.argv[1:]

def call(*_):
    try:
        print(second(X)[0, 0])
    except TilejitError as error:
        print(error.message)

class Last:
    def __del__(self):
        call()

class Between:
    def find_spec(self, name, path=None, target=None):
        if name == place:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGUSR1) if way == "signal" else Last()

signal.signal(signal.SIGUSR1, call)
if way != "prepare":
    sys.meta_path.insert(0, Between())
    print(first(X)[0, 0])
print(second(X)[0, 0])
"""
"""Something comes in between where the first compile imports a certain module."""
PLACES = ["tilejit.jit.specialize.requests", "tilejit.ops.window", "tilejit.compiler"]


def said(folder: Path, place: str, way: str) -> list[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(folder / "cache"), "TILEJIT_PLATFORM": "cpu"}
    done = subprocess.run([sys.executable, str(script), place, way], env=environment, capture_output=True, text=True, timeout=HANG, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(("place", "way"), [*((place, "signal") for place in PLACES), (PLACES[-1], "finalizer")])
def test_a_kernel_that_would_have_to_be_compiled_in_an_import_of_the_compiler_says_so(place: str, way: str, tmp_path: Path) -> None:
    told = (
        f"kernel `second` has to be compiled, but this thread is importing `{place}` for another one: "
        "a signal handler or a `__del__` that came in between calls it"
    )
    assert said(tmp_path, place, way) == [told, "1.0", "1.0"], "both kernels work afterwards"


def test_a_kernel_that_is_on_disk_runs_in_an_import_of_the_compiler(tmp_path: Path) -> None:
    assert said(tmp_path, "", "prepare") == ["1.0"]
    assert said(tmp_path, PLACES[0], "signal") == ["1.0"] * 3

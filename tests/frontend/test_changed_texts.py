"""Texts that change: what a kernel is compiled from is the text that its code came from, whoever has seen another one under that name before."""

from __future__ import annotations

import importlib
import linecache
import os
import runpy
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, ParserTypeError

KERNEL = """
import tilejit.language as pl

@pl.jit
def kernel(x: pl.Tensor[[2, 3], pl.FP32], out: pl.Out[pl.Tensor[[2, 3], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y: pl.Tensor[[2, 3], {dtype}] = x * {factor}
        out[:] = y
"""


def test_a_module_in_an_archive_that_is_loaded_again_has_the_text_of_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`linecache` keeps the text that it asked the loader for first; annotations of locals leave no trace in code that would tell."""
    archive = tmp_path / "kernels.zip"
    monkeypatch.syspath_prepend(str(archive))

    def write(factor: float, dtype: str = "pl.FP32") -> None:
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("in_archive.py", KERNEL.format(factor=factor, dtype=dtype))
        importlib.invalidate_caches()

    x = np.ones((2, 3), np.float32)
    write(2.0)
    module = importlib.import_module("in_archive")
    assert module.kernel(x)[0, 0] == 2.0 and linecache.getlines(module.__file__ or "", vars(module))
    for factor in (3.0, 40.0):
        write(factor)
        importlib.reload(module)
        assert module.kernel(x)[0, 0] == factor
    write(40.0, "pl.FP16")
    importlib.reload(module)
    with pytest.raises(ParserTypeError, match=r"annotated Tensor\[\[2, 3\], FP16\][\s\S]*in_archive.py:7"):
        module.kernel(x)


def test_a_text_that_was_loaded_from_a_file_is_not_the_text_of_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
import tilejit.language as pl

@pl.program
class Scaled:
    @pl.function
    def main(self, x: pl.Tensor[[2, 3], pl.FP32], out: pl.Out[pl.Tensor[[2, 3], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y: pl.Tensor[[2, 3], {dtype}] = x * {factor}
            out[:] = y
        return out
"""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "loaded_and_imported.py"
    for number, dtype in enumerate(("FP32", "FP32", "FP16")):
        file.write_text(program.format(factor=10.0**number, dtype=f"pl.{dtype}"))
        for load in (lambda: runpy.run_path(str(file))["Scaled"], lambda: pl.loads(file)):
            if dtype == "FP32":
                assert f"x, {10.0**number}" in load().as_python()
            else:
                with pytest.raises(ParserTypeError, match=r"annotated Tensor\[\[2, 3\], FP16\][\s\S]* x \* 100.0"):
                    load()


def test_names_of_a_host_function_are_those_of_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caret of a mistake is in the text that was loaded, whatever `linecache` has seen of the file before."""
    text = """
import tilejit.language as pl
import tilejit.language.distributed as pld

@pl.jit.host
def host(x: pl.Tensor[[2, 3], pl.FP32]):
    {name} = pld.alloc_window_buffer({size}, 3)
"""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "host_of_ranks.py"
    file.write_text(text.format(name="first", size=4))
    module = importlib.import_module("host_of_ranks")
    for name, size in (("first", 4), ("the_second_one", 8), ("third", 4444)):
        file.write_text(text.format(name=name, size=size))
        importlib.reload(module)
        with pytest.raises(ArgumentError, match=rf"{name} = pld.alloc_window_buffer\({size}, 3\)"):
            module.host(np.ones((2, 3), np.float32))
        file.write_text("# something else\n" * 20)
        with pytest.raises(ArgumentError, match=rf"{name} = pld.alloc_window_buffer\({size}, 3\)"):
            module.host(np.ones((2, 3), np.float32))


def test_a_file_that_is_written_again_within_a_tick_of_the_clock_has_its_new_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of file systems tick every few milliseconds, some once a second: until then size and times are those of the file before."""
    path = tmp_path / "generated.py"
    path.write_text(KERNEL.format(factor=2, dtype="pl.FP32"))
    first, asked = path.stat(), os.stat
    monkeypatch.setattr(os, "stat", lambda name, **options: first if name == str(path) else asked(name, **options))
    x = np.ones((2, 3), np.float32)
    for factor in (2, 3, 2):
        path.write_text(KERNEL.format(factor=factor, dtype="pl.FP32"))
        assert runpy.run_path(str(path))["kernel"](x)[0, 0] == factor
    path.write_text(KERNEL.format(factor=2, dtype="pl.FP16"))
    with pytest.raises(ParserTypeError, match=r"annotated Tensor\[\[2, 3\], FP16\]"):
        runpy.run_path(str(path))["kernel"](x)

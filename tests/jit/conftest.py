"""Kernels made from text, as a notebook cell would make them."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

import tilejit.language as pl
from tilejit.jit.function import JITFunction

MakeKernel = Callable[..., JITFunction]
_numbers = count()


@pytest.fixture
def make_kernel() -> MakeKernel:
    """The last jit function of a piece of source; keyword arguments are names it sees."""

    def make(text: str, **names: object) -> JITFunction:
        text = textwrap.dedent(text)
        filename = f"<cell {next(_numbers)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        scope: dict[str, object] = {"pl": pl, "__name__": "cell", **names}
        exec(compile(text, filename, "exec", dont_inherit=True), scope)
        kernels = [value for name, value in scope.items() if isinstance(value, JITFunction) and name not in names]
        return kernels[-1]

    return make


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk cache of the test's own."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    return tmp_path / "cache"

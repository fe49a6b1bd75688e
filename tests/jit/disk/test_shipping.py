"""Kernels that are shipped: exported from one disk cache, imported into another, run where nothing may be compiled."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tests.jit.disk.test_cache import check, source
from tests.runtime.test_store import FaultyFiles
from tilejit.errors import ArtifactError, TilejitWarning
from tilejit.runtime.store.directory import Store

pytestmark = pytest.mark.dispatch


def test_a_shared_layer_serves_and_is_left_alone(make_kernel: MakeKernel, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(make_kernel(source()))
    layer = cache_dir.rename(tmp_path / "layer")
    before = {path: path.stat().st_mtime_ns for path in layer.rglob("*")}
    monkeypatch.setenv("TILEJIT_CACHE_PATH", os.pathsep.join([str(tmp_path / "missing"), str(layer)]))
    kernel = make_kernel(source())
    check(kernel)
    assert kernel.cache_info().loaded == 1
    assert {path: path.stat().st_mtime_ns for path in layer.rglob("*")} == before


def test_run_only_runs_what_is_there_and_refuses_the_rest(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    check(make_kernel(source()))
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    kernel = make_kernel(source())
    x = np.ones((5, 7), np.float32)
    kernel(x, x.copy())
    with pytest.raises(ArtifactError, match=r"cell\.scaled would have to be compiled, and TILEJIT_RUN_ONLY forbids it") as caught:
        kernel(x.astype(np.float16), x.astype(np.float16))
    assert "`x`: dtype FP32 → FP16" in str(caught.value) and "tilejit cache export" in str(caught.value)


def test_what_was_refused_or_failed_is_no_entry_to_compare_with(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make_kernel(source())
    x = np.ones((5, 7), np.float32)
    other = x.astype(np.float16)
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    for _ in range(2):
        with pytest.raises(ArtifactError, match="no entry of this kernel"):
            kernel(other, other.copy())
        assert kernel.explain(other, other).nearest is None
    monkeypatch.delenv("TILEJIT_RUN_ONLY")
    kernel(x, x.copy())
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    with pytest.raises(ArtifactError, match="RUN_ONLY"):
        kernel(other, other.copy())
    assert "`x`: dtype FP32 → FP16" in kernel.explain(other, other).reason
    assert len(kernel._cache.asked) == len(kernel._cache)


def test_the_log_has_one_line_per_compile_with_the_reason(
    make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEJIT_LOG", "recompile")
    kernel = make_kernel(source())
    x = np.ones((5, 7), np.float32)
    for _ in range(3):
        kernel(x, x.copy())
    kernel(x[:4].copy(), x[:4].copy())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("tilejit: compiled cell.scaled in ") and lines[0].endswith(" ms: first specialisation of this kernel")
    assert "`x`: shape [5, 7] → [4, 7]" in lines[1]


def test_a_full_disk_is_no_error(make_kernel: MakeKernel, use_store: Callable[[Store], None], cache_dir: Path) -> None:
    class Full(FaultyFiles):
        def write_new(self, path: str, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    use_store(Store(str(cache_dir), files=Full(random.Random(0), 0.0)))
    with pytest.warns(TilejitWarning, match="cannot write the cache"):
        check(make_kernel(source()))

"""The users' kernels give the same bits when every program is written to its directory and loaded from there."""

from __future__ import annotations

import copy
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilejit import CompiledProgram

KERNELS = sorted((Path(__file__).parents[1] / "kernels").glob("*.py"))


def content(value: Any) -> bytes:
    """The bytes of an array of any framework."""
    return np.ascontiguousarray(value if isinstance(value, np.ndarray) else value.detach().view(pytest.importorskip("torch").uint8).numpy()).tobytes()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.stem)
def test_a_program_and_its_directory_give_the_same_bits(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEJIT_FASTPATH", "0")
    original, compared = CompiledProgram.checked, 0

    def call_both(self: CompiledProgram, args: Any, config: Any) -> Any:
        nonlocal compared
        if self.platform != "cpu":
            return original(self, args, config)
        copies = [copy.deepcopy(arg) for arg in args]
        results = original(self, args, config), original(CompiledProgram.from_dir(self), copies, config)
        both = zip(*((*args, *_several(result)) for args, result in zip((args, copies), results, strict=True)), strict=True)
        assert all(content(one) == content(other) for one, other in both if hasattr(one, "shape"))
        compared += 1
        return results[0]

    monkeypatch.setattr(CompiledProgram, "checked", call_both)
    monkeypatch.setattr(CompiledProgram, "__call__", lambda self, *args, config=None: call_both(self, args, config))
    runpy.run_path(str(kernel), run_name="__main__")
    assert compared >= 3


def _several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)

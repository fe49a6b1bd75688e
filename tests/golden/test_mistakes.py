"""Each file of `mistakes/` is a kernel with one mistake; beside it lies the message that its author must see."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "mistakes"
MISTAKES = sorted(FOLDER.glob("*.py"))
PARTLY_WRITTEN = "outputs may be partly written"
"""What the message of a run-time failure says, and no other."""


def load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"mistake_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", MISTAKES, ids=lambda path: path.stem)
def test_a_mistake_is_explained_where_it_was_made(path: Path, golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    module = load(path)
    outputs: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = getattr(module, "OUTPUTS", [])
    before = [output.copy() for output in outputs]
    with pytest.raises(Exception) as caught:  # which class it is belongs to the golden text
        module.mistake()
    error = caught.value
    text = f"{type(error).__module__}.{type(error).__qualname__}: {error}".replace(f"{FOLDER}/", "")
    golden(path.with_suffix(".txt"), text)
    if PARTLY_WRITTEN not in text:
        for now, then in zip(outputs, before, strict=True):
            np.testing.assert_array_equal(now, then)


def test_every_message_belongs_to_a_mistake() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in MISTAKES}


def test_every_message_says_what_to_do() -> None:
    silent = [path.stem for path in FOLDER.glob("*.txt") if "help:" not in path.read_text(encoding="utf-8")]
    assert silent == []

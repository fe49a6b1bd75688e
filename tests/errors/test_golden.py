"""Every mistake in mistakes/ raises exactly the message in ../golden, and leaves the caller's arrays alone.

After a change of a message: `pytest tests/errors --update-golden`, then read the difference.
"""

from __future__ import annotations

import importlib.util
import os
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilejit.errors import InternalError, TilejitError

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
MISTAKES = sorted(path.stem for path in (HERE / "mistakes").glob("*.py"))
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))


def run(name: str) -> tuple[types.ModuleType, BaseException]:
    """The module of a mistake and what it raised."""
    path = HERE / "mistakes" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"mistake_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = arrays_of(module)
    with pytest.raises(Exception) as caught:
        module.mistake()
    if not written_in_part(caught.value):
        for key, old in before.items():
            np.testing.assert_array_equal(np.asarray(getattr(module, key)), old, err_msg=f"{key} changed although the call failed")
    return module, caught.value


PLAIN = {"parse_two_programs": ValueError, "unknown_option": TypeError, "compiled_scalar_range": OverflowError}
"""Mistakes that the specification answers with an exception of Python's own."""


def arrays_of(module: types.ModuleType) -> dict[str, Any]:
    return {key: np.asarray(value).copy() for key, value in vars(module).items() if key.isupper() and hasattr(value, "__array__")}


def written_in_part(error: BaseException) -> bool:
    """Run-time errors say so."""
    return isinstance(error, TilejitError) and "partly written" in (error.note or "")


def shown(error: BaseException) -> str:
    """The class, and the message with paths relative to this folder."""
    text = str(error).replace(str(HERE) + os.sep, "")
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+', '0x…', text)}\n"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_is_the_golden_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if name == "mixed_frameworks":
        pytest.importorskip("torch")
    _, error = run(name)
    assert isinstance(error, PLAIN.get(name, TilejitError)) and not isinstance(error, InternalError), repr(error)
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        golden.write_text(shown(error))
    assert golden.exists(), f"no golden for {name}: run pytest --update-golden tests/errors"
    assert shown(error) == golden.read_text()


def test_every_golden_belongs_to_a_mistake() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == MISTAKES


def test_messages_are_distinct() -> None:
    texts = [(GOLDEN / f"{name}.txt").read_text().splitlines()[0] for name in MISTAKES]
    assert len(MISTAKES) >= 60
    assert len(set(texts)) > 0.9 * len(texts)

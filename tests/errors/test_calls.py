"""Every wrong call of a compiled program raises exactly the message in ../golden/calls, and changes nothing of the caller's.

After a change of a message: `UPDATE_GOLDEN=1 pytest tests/errors`, then read the difference.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.errors import calls
from tilejit.errors import TilejitError

GOLDEN = Path(__file__).parent.parent / "golden" / "calls"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))


@pytest.mark.parametrize("name", calls.CALLS)
def test_the_message_is_the_golden_one_and_nothing_was_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    before = vars(calls.caller_arrays())
    with pytest.raises(Exception) as caught:
        calls.CALLS[name]()
    for array, old in before.items():
        np.testing.assert_array_equal(getattr(calls, array), old, err_msg=f"{array} changed although the call failed")
    if isinstance(caught.value, TilejitError):
        assert caught.value.hint, "an error of ours says what to do"
    text = re.sub(r"0x[0-9a-f]+", "0x…", str(caught.value)).replace(tempfile.gettempdir(), "<tmp>")
    shown = f"{type(caught.value).__name__}: {text}\n"
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        golden.write_text(shown)
    assert golden.exists(), f"no golden for {name}: run UPDATE_GOLDEN=1 pytest {Path(__file__).name}"
    assert shown == golden.read_text()


def test_every_golden_belongs_to_a_call() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(calls.CALLS)
    assert len(calls.CALLS) >= 40

"""Every file in mistakes/ is refused with exactly the message in golden/.

After a change of a message: `UPDATE_GOLDEN=1 pytest tests/tile_ir/pto/test_mistakes.py`, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilejit.errors import ParserError, PtoSyntaxError, PtoVerifyError
from tilejit.frontend.pto.text import parse_pto
from tilejit.tile_ir.pto.verify import verify

HERE = Path(__file__).parent
MISTAKES = sorted(path.stem for path in (HERE / "mistakes").glob("*.pto"))


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_is_the_golden_one(name: str) -> None:
    text = (HERE / "mistakes" / f"{name}.pto").read_text()
    with pytest.raises(ParserError) as caught:
        verify(parse_pto(text, f"{name}.pto"))
    error = caught.value
    assert isinstance(error, PtoSyntaxError | PtoVerifyError)
    assert error.span is not None and error.source_lines
    shown = f"{type(error).__name__}: {error}\n"
    golden = HERE / "golden" / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown)
    assert shown == golden.read_text()


def test_every_golden_has_its_mistake() -> None:
    assert sorted(path.stem for path in (HERE / "golden").glob("*.txt")) == MISTAKES


def test_messages_differ() -> None:
    messages = [(HERE / "golden" / f"{name}.txt").read_text().split("\n")[0] for name in MISTAKES]
    assert len(set(messages)) == len(messages)

"""Bytes of a `.pto` file as text."""

from __future__ import annotations

from tilejit.errors import PtoSyntaxError, SourceText, Span

MAX_TEXT = 16 << 20
"""Longer texts are refused."""


def decoded(text: str | bytes, filename: str) -> str:
    """The text of a file, with plain line ends and without a byte order mark; PtoSyntaxError when it is no text or far too long."""
    if len(text) > MAX_TEXT:
        raise PtoSyntaxError(f"{filename} has {len(text)} characters; {MAX_TEXT} are read at most")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            place = Span(SourceText(filename), 1, 1, 1, 2)
            raise PtoSyntaxError(f"the file is no UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}", span=place) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")

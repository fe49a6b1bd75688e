"""How errors are shown: the message, the place with numbered lines and a caret run, operands, help."""

from __future__ import annotations

import os
import sys
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilejit.errors import Span, TilejitError

_MAX_LINES = 4


def _colour_wanted() -> bool:
    if os.environ.get("FORCE_COLOR"):
        return True
    return "NO_COLOR" not in os.environ and sys.stderr is not None and sys.stderr.isatty()


def render(error: TilejitError, colour: bool | None = None) -> str:
    """Message, place, numbered source with a caret run, operands, help; what `str(error)` shows."""
    paint = _Paint(_colour_wanted() if colour is None else colour)
    out = [paint.bold(error.message)]
    span = error.span
    if span is not None:
        out += _excerpt(span, paint)
        site = span.parent
        while site is not None:
            out += _excerpt(site, paint, label="called from")
            site = site.parent
    margin = "   " if span is not None else ""
    where = [*error.where, *(f"{text} ({place})" if place else text for text, place in error.related)]
    if where:
        out.append(f"{margin}= where: {', '.join(where)}")
    if error.note:
        out.append(f"{margin}= note: {error.note}")
    if error.hint:
        out.append(f"{margin}= {paint.cyan('help')}: {error.hint}")
    return "\n".join(out)


@dataclass(frozen=True, slots=True)
class _Paint:
    on: bool

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def red(self, text: str) -> str:
        return self._wrap("1;31", text)

    def cyan(self, text: str) -> str:
        return self._wrap("36", text)


def _excerpt(span: Span, paint: _Paint, label: str = "-->") -> list[str]:
    place = f"  {label} {span}" + (f", in {span.function}" if span.function else "")
    shown = [(n, span.source.line(n)) for n in range(span.line, min(span.end_line, span.line + _MAX_LINES - 1) + 1)]
    known = [(n, text) for n, text in shown if text is not None]
    if not known:
        return [place]
    width = max(2, len(str(known[-1][0])))
    out = [place, f"{' ' * width} |"]
    for number, text in known:
        text = text.rstrip("\n").replace("\t", " ")
        first = span.column if number == span.line else len(text) - len(text.lstrip()) + 1
        last = span.end_column if number == span.end_line else len(text) + 1
        out.append(f"{number:>{width}} | {text}")
        before, marked = _columns(text[: first - 1]), _columns(text[first - 1 : last - 1])
        out.append(f"{' ' * width} | {' ' * before}{paint.red('^' * max(1, marked))}")
    return out


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: letters of some scripts take two, marks above others none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)

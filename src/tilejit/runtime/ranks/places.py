"""Where a host function is, in its text."""

from __future__ import annotations

from itertools import islice
from types import CodeType, FrameType

from tilejit.errors import SourceText, Span


def assigned_name(span: Span | None) -> str | None:
    """The name on the left of the statement at a place."""
    if span is None:
        return None
    text = (span.source.line(span.line) or "").strip()
    head = text.partition("=")[0].partition(":")[0].strip()
    return head if head.isidentifier() and "=" in text else None


def is_nested(code: CodeType, span: Span) -> bool:
    """Whether the statement at a place is further in than the first ones of its function: in a loop or a branch."""
    numbers = {line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno}
    indents = {number: len(text) - len(text.lstrip()) for number in numbers if (text := span.source.line(number))}
    return indents.get(span.line, 0) > min(indents.values(), default=0)


def span_of(frame: FrameType, source: SourceText) -> Span:
    """Where a frame is in the text of its code, with the columns that Python knows."""
    code = frame.f_code
    line, end_line, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None))
    number = line or frame.f_lineno
    return Span(source, number, (column or 0) + 1, end_line or number, (end_column or 0) + 1, code.co_name)

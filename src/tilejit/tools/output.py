"""What commands print: text for people, or JSON for programs."""

from __future__ import annotations

import argparse
import json

from tilejit.errors import TilejitError


def say(options: argparse.Namespace, text: object, data: object) -> None:
    """The answer of a command."""
    print(as_json(data) if options.json else text)


def as_json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, default=str)


def error_json(error: TilejitError) -> str:
    """An error as data."""
    place = None if error.span is None else {"file": error.span.filename, "line": error.span.line, "column": error.span.column}
    fields = {"type": type(error).__name__, "message": error.message, "help": error.hint, "note": error.note, "place": place}
    return as_json({"error": fields})

"""How compiled programs present themselves: `help`, `inspect.signature`, and tables in notebooks."""

from __future__ import annotations

import html
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

from tilejit.runtime.call.signature import ParamInfo, Signature
from tilejit.types.values import shape_text


class _PerObject:
    def __init__(self, of_class: str, of_object: Callable[[Any], str]) -> None:
        self._of_class = of_class
        self._of_object = of_object

    def __get__(self, instance: object | None, owner: type | None = None) -> str:
        return self._of_class if instance is None else self._of_object(instance)


def docstring(of_class: str, of_object: Callable[[Any], str]) -> str:
    """A `__doc__` that is one text for the class and another for each of its objects."""
    return cast("str", _PerObject(of_class, of_object))


def program_text(name: str, signatures: Sequence[Signature], platform: str) -> str:
    """What `help(compiled)` shows."""
    shown = "\n\n".join(entry_text(signature, platform) for signature in signatures)
    if len(signatures) == 1:
        return shown
    names = ", ".join(f"compiled[{signature.name!r}](…)" for signature in signatures)
    return f"{name}, compiled for {platform}; call one of its entries: {names}\n\n{shown}"


def entry_text(signature: Signature, platform: str) -> str:
    """What `help(entry)` shows."""
    lines = [f"{call_text(signature)}, compiled for {platform}", ""]
    rows = [_cells(param) for param in signature.params] + [(param.name, "returned", *_cells(param)[2:]) for param in signature.results]
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else []
    lines += ["    " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows]
    if signature.output_indices:
        outputs = ", ".join(signature.params[i].name for i in signature.output_indices)
        lines += ["", f"With all arguments it works in place and returns None; without {outputs} it returns {'it' if ',' not in outputs else 'them'}."]
    if signature.symbols:
        symbols = ", ".join(signature.literals.get(symbol, symbol) for symbol in signature.symbols)
        lines += ["", f"Extents decided by each call: {symbols}."]
    return "\n".join(lines)


def call_text(signature: Signature) -> str:
    """`add(a, b, [out])`: what may be left out is in brackets."""
    return f"{signature.name}({', '.join(f'[{p.name}]' if p.direction == 'Out' else p.name for p in signature.params)})"


def _cells(param: ParamInfo) -> tuple[str, str, str, str]:
    return param.name, param.direction, "scalar" if param.shape is None else shape_text(param.shape), param.dtype.name


def python_signature(signature: Signature) -> inspect.Signature:
    """The in-place call as `inspect.signature` shows it."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    params = [inspect.Parameter(param.name, kind, annotation=str(param).partition(": ")[2]) for param in signature.params]
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="RunConfig | None")
    return inspect.Signature([*params, config])


# ----------------------------------------------------------------------------------------------------------------------
# notebooks


def program_html(name: str, signatures: Sequence[Signature], platform: str) -> str:
    """A table per entry."""
    return "".join(entry_html(signature, platform) for signature in signatures) or f"<code>{html.escape(name)}</code>"


def entry_html(signature: Signature, platform: str) -> str:
    """The signature as a table."""
    rows = [_cells(param) for param in signature.params] + [(param.name, "returned", *_cells(param)[2:]) for param in signature.results]
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f"<th>{title}</th>" for title in ("parameter", "direction", "shape", "dtype"))
    caption = f"<code>{html.escape(call_text(signature))}</code>, compiled for {html.escape(platform)}"
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

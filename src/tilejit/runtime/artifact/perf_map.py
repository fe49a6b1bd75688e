"""`/tmp/perf-PID.map`: where the functions of kernels lie, so that `perf` shows them by name; written when the setting asks for it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from tilejit import config

_OWN = re.compile(r"^(tj_(?!team_)|k_)")
_LETTER = re.compile(r"U\$([0-9a-f]+)\.")
_written: list[str] = []
"""For children of this process, which have the same code and a file of their own."""


def path() -> str:
    """The file of this process, where `perf` looks for it."""
    return f"/tmp/perf-{os.getpid()}.map"


def note(base: int, size: int, entries: Mapping[str, int]) -> None:
    """Tell of code at an address, if somebody wants to know."""
    if not config.PERF_MAP.value or os.name != "posix":
        return
    rows = sorted((at, name) for name, at in entries.items())
    ends = [*(at for at, _ in rows[1:]), size]
    text = "".join(f"{base + at:x} {max(end - at, 1):x} {shown(name)}\n" for (at, name), end in zip(rows, ends, strict=True))
    _written.append(text)
    _append(text)


def shown(symbol: str) -> str:
    """A function as its author calls it: `tj_softmax` is `softmax`, its first region `softmax_k0`."""
    plain = _OWN.sub("", symbol)
    return _LETTER.sub(lambda found: chr(int(found.group(1), 16)), plain).replace(" ", "_")


def _append(text: str) -> None:
    try:
        file = os.open(path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        sys.stderr.write(f"tilejit: warning: {path()} cannot be written: {error.strerror}\n")
        return
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _in_child() -> None:
    if _written:
        _append("".join(_written))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

"""Where the functions of kernels lie, for `perf`: `/tmp/perf-PID.map`, or a dump of the code itself; written when the setting asks for it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilejit import config

if TYPE_CHECKING:
    from tilejit.runtime.artifact.jitdump import Dump, Function

_OWN = re.compile(r"^(tj_(?!team_)|k_)")
_LETTER = re.compile(r"U\$([0-9a-f]+)\.")
_noted: list[Function] = []
"""For children of this process, which have the same code and a file of their own."""
_dump: list[Dump] = []
"""The dump of this process, once there is one."""


def path() -> str:
    """The map of this process, where `perf` looks for it."""
    return f"/tmp/perf-{os.getpid()}.map"


def dump_path() -> str:
    """The dump of this process; `perf` knows it by the name, and makes its own files beside it."""
    return f"/tmp/tilejit-{os.getuid()}/jit-{os.getpid()}.dump"


def note(base: int, code: bytes, entries: Mapping[str, int]) -> None:
    """Tell of code at an address, if somebody wants to know."""
    if not config.PERF_MAP.value or os.name != "posix":
        return
    rows = sorted((at, name) for name, at in entries.items())
    ends = [*(at for at, _ in rows[1:]), len(code)]
    found = [(base + at, shown(name), code[at : max(end, at + 1)]) for (at, name), end in zip(rows, ends, strict=True)]
    _noted.extend(found)
    _tell(found)


def shown(symbol: str) -> str:
    """A function as its author calls it: `tj_softmax` is `softmax`, its first region `softmax_k0`."""
    plain = _OWN.sub("", symbol)
    return _LETTER.sub(lambda found: chr(int(found.group(1), 16)), plain).replace(" ", "_")


def _tell(functions: list[Function]) -> None:
    dumped = config.PERF_MAP.value == "jitdump"
    try:
        if not dumped:
            _append("".join(f"{address:x} {len(code):x} {name}\n" for address, name, code in functions))
            return
        if not _dump:
            from tilejit.runtime.artifact.jitdump import Dump

            _dump.append(Dump(dump_path()))
        _dump[0].add(functions)
    except OSError as error:
        sys.stderr.write(f"tilejit: warning: {dump_path() if dumped else path()} cannot be written: {error.strerror}\n")


def _append(text: str) -> None:
    file = os.open(path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _in_child() -> None:
    _dump.clear()
    if _noted:
        _tell(_noted)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

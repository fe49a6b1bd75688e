"""Names in any script: the IR and its text forms have letters of ASCII only, so others are spelled there, and read back."""

from __future__ import annotations

import re
from collections.abc import Container

from xdsl.ir import SSAValue

_OTHER = re.compile(r"[^A-Za-z0-9_.$-]")
_SPELLED = re.compile(r"U\$([0-9a-f]+)\.")


def spelled(name: str) -> str:
    """`name` in the letters that LLVM and MLIR allow: `λ` is `U$3bb.`, which no name of Python is."""
    return name if name.isascii() else _OTHER.sub(lambda found: f"U${ord(found.group()):x}.", name)


def plain(name: str) -> str:
    """`name` as a word of ASCII, for text that others read; two names may become one."""
    return name if name.isascii() else _OTHER.sub(lambda found: f"u{ord(found.group()):x}", name)


def name_value(value: SSAValue, name: str | None) -> None:
    """Let a value remember what its author calls it."""
    value.name_hint = None if name is None else spelled(name)


def name_of(value: SSAValue) -> str | None:
    """What the author of a value calls it."""
    hint = value.name_hint
    return hint if hint is None or "$" not in hint else _SPELLED.sub(lambda found: chr(int(found.group(1), 16)), hint)


def unique_name(name: str, taken: Container[str]) -> str:
    """`name`, or with a number when it is taken."""
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate

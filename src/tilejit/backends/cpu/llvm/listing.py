"""One function out of the text of a whole module, for reading."""

from __future__ import annotations

import re

from tilejit.backends.cpu.calls import internal_name

_GONE = "{comment} {name} is no function of its own any more: it was inlined\n"


def llvm_of(module: str, function: str) -> str:
    """The definition of a function of the program in LLVM text."""
    symbol = re.escape(internal_name(function))
    found = re.search(rf"^define [^\n]*@{symbol}\(.*?^}}\n", module, re.MULTILINE | re.DOTALL)
    return found.group() if found else _GONE.format(comment=";", name=function)


def assembly_of(module: str, function: str) -> str:
    """The instructions of a function of the program in assembly text, with its constants."""
    symbol = internal_name(function)
    # A function ends with its .cfi_endproc; what stands between that and the next label are the constants of the next one.
    for part in re.split(r"(?<=\.cfi_endproc\n)", module):
        if f"\n{symbol}:" in part:
            return part.lstrip("\n")
    return _GONE.format(comment="#", name=function)

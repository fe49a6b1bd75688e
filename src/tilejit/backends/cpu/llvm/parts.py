"""Large modules: cut into parts of whole functions, which processes compile side by side and `flatten` puts together again."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tilejit.backends.cpu.llvm.compile import compile_llvm, is_long
from tilejit.backends.cpu.llvm.host import host
from tilejit.runtime.threads import thread_count

T = TypeVar("T")
PART_LINES = 8000
"""Lines of a part; a module of fewer than two parts stays in one piece, because another process takes a tenth of a second to start."""

_FUNCTION = re.compile(r"^define (?P<header>.*?)\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"@([\w.$-]+)")
_WORKER = "import sys; sys.path[:] = {path!r}; from tilejit.backends.cpu.llvm.parts import serve; serve()"


class _Function(NamedTuple):
    name: str
    header: str
    """All between `define` and the body."""
    text: str
    uses: frozenset[str]

    @property
    def everywhere(self) -> bool:
        """Whether each part that calls it has it: it will be inlined."""
        return "alwaysinline" in self.header

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def compile_parts(text: str) -> list[bytes] | None:
    """The objects of a large module, which call each other; None: it stays in one piece. The parts follow from the text alone, so the code does too."""
    if sys.platform != "linux" or not host().is_x86:
        return None
    parts = split(text, text.count("\n") // PART_LINES)
    if len(parts) < 2:
        return None
    from concurrent.futures import ThreadPoolExecutor

    gvn, numbers = not is_long(text), range(len(parts))
    shares = _balanced(numbers, lambda number: len(parts[number]), min(thread_count(), len(parts)))
    with ThreadPoolExecutor(max(len(shares) - 1, 1), "tilejit-llvm") as pool:
        # llvmlite lets one thread of a process into LLVM at a time, so each of these threads waits for a process.
        others = [pool.submit(_elsewhere, [parts[number] for number in share], gvn) for share in shares[1:]]
        made = dict(zip(shares[0], _compile([parts[number] for number in shares[0]], gvn), strict=True))
        for share, other in zip(shares[1:], others, strict=True):
            # Whatever kept a process from its work: here it works, or fails with the error that belongs to it.
            objects = other.result() or _compile([parts[number] for number in share], gvn)
            made.update(zip(share, objects, strict=True))
    return [made[number] for number in numbers]


def split(text: str, count: int) -> list[str]:
    """At most `count` modules that together are the one given. Only names tell them apart from it: what was internal is hidden, so that all can call it."""
    if count < 2:
        return [text]
    found = {function.name: function for function in map(_function, _FUNCTION.finditer(text))}
    rest = _FUNCTION.sub("", text)
    own = [function for function in found.values() if not function.everywhere]
    return [rest + _part(found, share) for share in _balanced(own, lambda function: function.lines, count)]


def _function(match: re.Match[str]) -> _Function:
    header = match["header"]
    names = _NAME.findall(match[0])
    return _Function(names[0], header, match[0], frozenset(names))


def _part(found: dict[str, _Function], own: Sequence[_Function]) -> str:
    """The functions of a part, those it inlines, and declarations of the others it calls."""
    texts = {function.name: re.sub(r"^define internal ", "define hidden ", function.text) for function in own}
    waiting = list(own)
    while waiting:
        for name in sorted(waiting.pop().uses & found.keys() - texts.keys()):
            function = found[name]
            if function.everywhere:
                texts[name] = function.text
                waiting.append(function)
            else:
                texts[name] = "declare " + re.sub(r"^internal ", "hidden ", function.header) + "\n"
    return "\n".join(texts.values())


def _balanced(items: Sequence[T], weight: Callable[[T], int], count: int) -> list[list[T]]:
    """At most `count` shares of about the same weight: the heaviest first, each to the lightest share."""
    shares: list[list[T]] = [[] for _ in range(max(count, 1))]
    weights = [0] * len(shares)
    for item in sorted(items, key=weight, reverse=True):
        lightest = weights.index(min(weights))
        shares[lightest].append(item)
        weights[lightest] += weight(item)
    return [share for share in shares if share]


def _compile(parts: Sequence[str], gvn: bool) -> list[bytes]:
    return [compile_llvm(part, gvn=gvn).object_bytes for part in parts]


def _elsewhere(parts: Sequence[str], gvn: bool) -> list[bytes] | None:
    """What another process makes of them; None where there is no such process or it failed."""
    import subprocess

    if not sys.executable:
        return None
    command = [sys.executable, "-c", _WORKER.format(path=sys.path)]
    try:
        done = subprocess.run(command, input=json.dumps([parts, gvn]).encode(), capture_output=True, check=True)
        objects = [base64.b64decode(item, validate=True) for item in json.loads(done.stdout)]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return objects if len(objects) == len(parts) else None


def serve() -> None:
    """The other process: parts from the standard input, objects to the standard output."""
    parts, gvn = json.load(sys.stdin)
    print(json.dumps([base64.b64encode(item).decode() for item in _compile(parts, gvn)]))

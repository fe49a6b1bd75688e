"""Large modules: cut into parts of whole functions, the first of them while the rest is still written; `flatten` puts them together again."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.look import LOOK_TEXT
from tilejit.backends.cpu.llvm.text import Module
from tilejit.backends.cpu.llvm.workshop import Workshop

T = TypeVar("T")
PART_LINES = 2000
"""Lines of a part: few, so that whoever is done first does not wait long for who has the last one."""
LEAST_PARTS = 6
"""A module of fewer parts stays in one piece, because another process takes a tenth of a second to start."""

_HEADER = re.compile(r"^define (.*)\{\n", re.MULTILINE)
_END = "\n}\n"
_NAME = re.compile(r"@([\w.$-]+)")


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


class Cutter:
    """Cuts a module into parts for a workshop. The parts follow from the module and the order of its functions alone, so the code does too."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._found: dict[str, _Function] = {}
        """Functions that were looked at; the module had so many entries then:"""
        self._seen = 0
        self._rest = ""
        """What else these entries say."""
        self._waiting: list[_Function] = []
        """Functions in no part yet."""

    def grown(self, module: Module) -> None:
        """Look at a module that has one more function: parts of a large one can go ahead."""
        lines, least = _lines(module, self._seen), PART_LINES * (1 if self._seen else LEAST_PARTS)
        if lines < least // 2 or not _possible():
            return
        self._workshop.expect()
        if lines < least:
            return
        self._look_at(islice(module.functions.values(), self._seen, None))
        self._seen = len(module.functions)
        known = {**self._found, **_taken_apart(LOOK_TEXT)[0]}
        names = _complete(known.values(), set(_NAME.findall(self._all_but_functions(module))))
        ready = [function for function in self._waiting if function.uses <= names]
        self._cut(module, known, ready, _count(ready))

    def objects(self, module: Module) -> list[bytes] | None:
        """The objects of a module, now that all of it is there; None: it stays in one piece."""
        if _lines(module) < PART_LINES * LEAST_PARTS or not _possible():
            return None
        self._look_at([*islice(module.functions.values(), self._seen, None), *([LOOK_TEXT] if module.looks else [])])
        self._cut(module, self._found, self._waiting, max(_count(self._waiting), 1))
        return self._workshop.objects() if len(self._workshop) > 1 else None

    def _look_at(self, texts: Iterable[str]) -> None:
        functions, rest = _taken_apart("\n".join(texts))
        self._found.update(functions)
        self._rest += rest
        self._waiting += [function for function in functions.values() if not function.everywhere]

    def _all_but_functions(self, module: Module) -> str:
        return "\n".join([*module.declarations.values(), self._rest])

    def _cut(self, module: Module, found: Mapping[str, _Function], own: Sequence[_Function], count: int) -> None:
        """Hand out `count` parts. Only names tell them apart from the module: what was internal is hidden, so that all can call it."""
        rest = self._all_but_functions(module)
        for share in _balanced(own, lambda function: function.lines, count) if count else ():
            self._workshop.add(f"{rest}\n{_part(found, share)}")
            self._waiting = [function for function in self._waiting if function not in share]


def _possible() -> bool:
    """Whether objects can be put together here."""
    return sys.platform == "linux" and host().is_x86


def _lines(module: Module, first: int = 0) -> int:
    """Lines of the functions from one on."""
    return sum(text.count("\n") for text in islice(module.functions.values(), first, None))


def _count(functions: Iterable[_Function]) -> int:
    """Parts that these functions are."""
    return round(sum(function.lines for function in functions) / PART_LINES)


def _taken_apart(text: str) -> tuple[dict[str, _Function], str]:
    """The functions of a text by name, and what else it says."""
    functions: dict[str, _Function] = {}
    rest: list[str] = []
    place = 0
    while (match := _HEADER.search(text, place)) is not None:
        rest.append(text[place : match.start()])
        place = text.index(_END, match.end() - 1) + len(_END)
        own = text[match.start() : place]
        names = _NAME.findall(own)
        functions[names[0]] = _Function(names[0], match[1], own, frozenset(names))
    return functions, "".join([*rest, text[place:]])


def _complete(functions: Collection[_Function], declared: set[str]) -> set[str]:
    """Names that a part may use: not those of functions that are not written yet, nor of what would bring them in by being inlined."""
    names = declared | {function.name for function in functions}
    inlined = [function for function in functions if function.everywhere]
    while lacking := {function.name for function in inlined if function.name in names and not function.uses <= names}:
        names -= lacking
    return names


def _part(found: Mapping[str, _Function], own: Sequence[_Function]) -> str:
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


def _balanced(items: Iterable[T], weight: Callable[[T], int], count: int) -> list[list[T]]:
    """At most `count` shares of about the same weight: the heaviest first, each to the lightest share."""
    shares: list[list[T]] = [[] for _ in range(count)]
    weights = [0] * count
    for item in sorted(items, key=weight, reverse=True):
        lightest = weights.index(min(weights))
        shares[lightest].append(item)
        weights[lightest] += weight(item)
    return [share for share in shares if share]

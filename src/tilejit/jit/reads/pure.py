"""Python functions whose result follows from their arguments and from names that can be watched: told by a closed list of bytecode."""

from __future__ import annotations

import dis
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tilejit.frontend.code_objects import instructions_of
from tilejit.frontend.fold import Namespace
from tilejit.jit.reads.plain import MATHS, is_plain, is_settled
from tilejit.jit.reads.questions import MISSING
from tilejit.jit.reads.words import attribute_words, held_words, holds_callable, name_words
from tilejit.kinds import is_a
from tilejit.runtime.call.bindings import Word, function_words

_CALLED = (len, min, max, abs, int, float, bool, round, divmod, sum, range)
_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_DEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_HARMLESS = frozenset(
    "RESUME NOP CACHE EXTENDED_ARG COPY_FREE_VARS PUSH_NULL PRECALL CALL KW_NAMES CALL_KW POP_TOP COPY SWAP RETURN_VALUE RETURN_CONST LOAD_CONST "
    "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST BINARY_OP COMPARE_OP CONTAINS_OP IS_OP TO_BOOL "
    "UNARY_NEGATIVE UNARY_POSITIVE UNARY_NOT UNARY_INVERT CALL_INTRINSIC_1 BUILD_TUPLE BINARY_SUBSCR UNPACK_SEQUENCE GET_ITER FOR_ITER END_FOR "
    "JUMP_FORWARD JUMP_BACKWARD POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE "
    "POP_JUMP_FORWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE "
    "POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP".split()
)
"""Instructions that turn plain values into plain values and reach nothing else; whatever is called was loaded by one of the others."""


@dataclass(slots=True)
class _Seen:
    """What a function and those that it calls were found to do."""

    functions: set[int]
    has_text: bool
    converts: bool = False
    """Whether texts and integers are turned into each other, which follows a limit of the interpreter where they are long."""

    def take(self, value: object) -> None:
        self.has_text = self.has_text or _holds_text(value)
        self.converts = self.converts or value is int


def pure_words(function: object, given: Sequence[object]) -> list[Word] | None:
    """The words that decide what calls of `function` with these plain arguments return; None where its code may look elsewhere."""
    seen = _Seen(set(), _holds_text(tuple(given)))
    words = _words(function, seen)
    return None if seen.has_text and seen.converts else words


def _words(function: object, seen: _Seen) -> list[Word] | None:
    if not is_a(function, types.FunctionType):
        return None
    if id(function) in seen.functions:
        return []
    seen.functions.add(id(function))
    code, by_name = function.__code__, function.__kwdefaults__ or {}
    defaults = (*(function.__defaults__ or ()), *by_name.values())
    if type(by_name) is not dict or any(type(name) is not str for name in by_name):
        return None  # a key may say that it is any name
    if code.co_flags & (0x20 | 0x80 | 0x200) or code.co_cellvars or not all(map(_is_data, defaults)):
        return None  # a generator, a coroutine, or a function with functions in it or given to it
    seen.take(defaults)
    out = function_words(function)
    if out is None:
        return None
    namespace = Namespace(function)
    steps = instructions_of(code)
    if steps is None:
        return None
    instructions = [item for item in steps if item.opname != "CACHE"]
    place = 0
    while place < len(instructions):
        this = instructions[place]
        if this.opname in _NAMES:
            if (this.opname == "LOAD_GLOBAL") == (this.argval in code.co_freevars):
                return None  # code that was put together by hand: a name of both kinds
            found = _read(namespace, instructions, place, seen)
            if found is None:
                return None
            words, place = found
            out += words
        elif this.opname not in _HARMLESS:
            return None
        elif this.opname in ("LOAD_CONST", "RETURN_CONST") and not _is_constant(this.argval):
            return None  # code that was put together by hand may have anything there
        elif this.opname == "IS_OP" and (this.is_jump_target or not _is_single(instructions[place - 1])):
            return None  # of numbers and texts only Python knows which object they are
        else:
            seen.take(this.argval if this.opname in ("LOAD_CONST", "RETURN_CONST") else None)
            seen.converts = seen.converts or (this.opname == "BINARY_OP" and this.argrepr.startswith("%"))
            place += 1
    return out


def _read(namespace: Namespace, instructions: list[dis.Instruction], place: int, seen: _Seen) -> tuple[list[Word], int] | None:
    """The words of a name and the attributes taken right after it, and where the code goes on."""
    name = str(instructions[place].argval)
    value, words = namespace.get(name, MISSING), name_words(namespace, name)
    place += 1
    while not _usable(value):
        if value is MISSING or place >= len(instructions) or instructions[place].opname not in _ATTRIBUTES or instructions[place].is_jump_target:
            break
        attribute = str(instructions[place].argval)
        more, held = attribute_words(value, attribute), held_words(words, value)
        if more is None or not held:
            return None
        words = [*held, *more]
        value = getattr(value, attribute, MISSING)
        place += 1
    held = held_words(words, value)
    if not held:
        return None
    if _usable(value):
        seen.take(value)
        return held, place
    inner = _words(value, seen)
    return None if inner is None else ([*held, *inner], place)


def _usable(value: object) -> bool:
    if callable(value):
        return any(value is function for function in _CALLED) or id(value) in MATHS
    return _is_data(value) and not is_a(value, range, slice)


def _holds_text(value: object) -> bool:
    return is_a(value, str, bytes) or (is_a(value, tuple, frozenset) and any(map(_holds_text, cast("tuple[object, ...]", value))))


def _is_constant(value: object) -> bool:
    return _is_data(value) or (type(value) is frozenset and all(map(_is_data, cast("frozenset[object]", value))))


def _is_single(instruction: dis.Instruction) -> bool:
    """Whether an instruction gives the only object of its kind."""
    return instruction.opname == "LOAD_CONST" and (instruction.argval is None or type(instruction.argval) is bool)


def _is_data(value: object) -> bool:
    return is_plain(value) and is_settled(value) and not holds_callable(value)

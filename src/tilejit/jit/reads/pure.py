"""Python functions whose result follows from their arguments and from names that can be watched: told by a closed list of bytecode."""

from __future__ import annotations

import dis
import math
import types
from collections.abc import Callable

from tilejit.frontend.fold import Namespace
from tilejit.jit.reads.plain import is_plain, is_settled
from tilejit.jit.reads.questions import MISSING
from tilejit.jit.reads.words import attribute_words, held_words, holds_callable, name_words
from tilejit.runtime.call.bindings import Word, function_words

_CALLED = (len, min, max, abs, int, float, bool, round, divmod, sum, range)
_MATHS = frozenset(id(value) for value in vars(math).values() if isinstance(value, types.BuiltinFunctionType))
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


def pure_words(function: object) -> list[Word] | None:
    """The words that decide what calls of `function` with plain arguments return; None where its code may look elsewhere."""
    return _words(function, set())


def _words(function: object, met: set[int]) -> list[Word] | None:
    if not isinstance(function, types.FunctionType):
        return None
    if id(function) in met:
        return []
    met.add(id(function))
    code = function.__code__
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if code.co_flags & (0x20 | 0x80 | 0x200) or code.co_cellvars or not all(map(_is_data, defaults)):
        return None  # a generator, a coroutine, or a function with functions in it or given to it
    out = function_words(function)
    namespace = Namespace(function)
    instructions = [item for item in dis.get_instructions(code) if item.opname != "CACHE"]
    place = 0
    while place < len(instructions):
        this = instructions[place]
        if this.opname in _NAMES:
            found = _read(namespace, instructions, place, met)
            if found is None:
                return None
            words, place = found
            out += words
        elif this.opname not in _HARMLESS:
            return None
        else:
            place += 1
    return out


def _read(namespace: Namespace, instructions: list[dis.Instruction], place: int, met: set[int]) -> tuple[list[Word], int] | None:
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
        return held, place
    inner = _words(value, met)
    return None if inner is None else ([*held, *inner], place)


def _usable(value: object) -> bool:
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return any(value is function for function in _CALLED) or id(value) in _MATHS
    return _is_data(value) and not isinstance(value, range | slice)


def _is_data(value: object) -> bool:
    return is_plain(value) and is_settled(value) and not holds_callable(value)

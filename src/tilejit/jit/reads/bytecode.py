"""What a plain Python function is and reads, from its code object: the code that runs, with Python's own scopes, wherever its text is."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType

from tilejit.frontend.code_objects import nested
from tilejit.jit.reads.facts import Step

_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_CELLS = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def chains(code: CodeType) -> dict[str, list[tuple[Step, ...]]]:
    """Attribute and item chains by the global or captured name they start at."""
    found: dict[str, dict[tuple[Step, ...], None]] = {}
    captured = frozenset(code.co_freevars)
    for part in nested(code):
        instructions = list(dis.get_instructions(part))
        for place, instruction in enumerate(instructions):
            name = instruction.argval
            if str(name).startswith("@"):
                continue  # what pytest writes into assertions
            if instruction.opname in _GLOBALS or (instruction.opname in _CELLS and name in captured):
                found.setdefault(name, {})[tuple(_steps(instructions, place + 1))] = None
    return {name: list(steps) for name, steps in found.items()}


def _steps(instructions: list[dis.Instruction], place: int) -> Iterator[Step]:
    """Attributes and constant items that are taken right after a name was loaded."""
    while place < len(instructions) and not instructions[place].is_jump_target:
        this, following = instructions[place], instructions[place + 1] if place + 1 < len(instructions) else None
        if this.opname in _ATTRIBUTES:
            yield "attr", this.argval
            place += 1
        elif this.opname == "LOAD_CONST" and following is not None and following.opname == "BINARY_SUBSCR" and not following.is_jump_target:
            yield "item", this.argval
            place += 2
        else:
            return


def imports(code: CodeType) -> Iterator[str]:
    """Modules that the code imports while it runs."""
    for part in nested(code):
        for instruction in dis.get_instructions(part):
            if instruction.opname == "IMPORT_NAME":
                yield str(instruction.argval)

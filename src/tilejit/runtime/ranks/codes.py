"""What the code of a host function is made of."""

from __future__ import annotations

from types import CellType, CodeType


def codes_in(code: CodeType) -> list[CodeType]:
    """The code of a function and of all functions inside it, however deep they stand."""
    return [code, *(inner for constant in code.co_consts if isinstance(constant, CodeType) for inner in codes_in(constant))]


def is_full(cell: CellType) -> bool:
    """Whether a variable of a closure is bound."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

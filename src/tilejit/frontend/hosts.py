"""Host functions of programs: kept as Python, because a call runs their text to find out what the ranks do."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType

from tilejit.kinds import is_a
from tilejit.ops.spec import OpFunction
from tilejit.runtime.ranks.codes import codes_in, is_full

PythonFunction = Callable[..., object]


def speaks_of_ranks(function: PythonFunction) -> bool:
    """Whether a function launches on devices, or names something of `pld`."""
    assert isinstance(function, FunctionType)
    code = function.__code__
    if any(isinstance(constant, tuple) and "device" in constant for constant in code.co_consts):
        return True
    return any(_is_distributed(value) for value in named_values(function))


def named_values(function: FunctionType) -> list[object]:
    """What the names that a function reads stand for."""
    names = {name for code in codes_in(function.__code__) for name in code.co_names}
    held = [cell.cell_contents for cell in function.__closure__ or () if is_full(cell)]
    return [function.__globals__[name] for name in sorted(names) if name in function.__globals__] + held


def _is_distributed(value: object) -> bool:
    if is_a(value, ModuleType):
        return value.__name__.endswith("language.distributed")
    return is_a(value, OpFunction) and value.namespace.startswith("pld")


def launched_names(nodes: Mapping[str, ast.FunctionDef]) -> frozenset[str]:
    """The methods that host functions call on `self`."""
    calls = [node.func for function in nodes.values() for node in ast.walk(function) if isinstance(node, ast.Call)]
    return frozenset(func.attr for func in calls if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self")

"""What the text of a stored function says: which names it has from others, and what it could only say of its own module and class."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, cast

from tilejit.frontend.private_names import class_of, spelled_out
from tilejit.jit.definition import Definition
from tilejit.types.python_text import scopes

_NAMESPACES: tuple[Any, ...] = (globals, locals, eval, exec)
"""Builtins that tell of the names around them: a stored text has others."""
_OWN_WITHOUT_ARGUMENTS: tuple[Any, ...] = (vars, dir)
_NAMESPACE_ATTRIBUTES = frozenset({"globals", "locals", "eval", "exec", "__globals__", "__closure__", "_getframe", "currentframe"})


def standalone(text: str, line: int) -> str:
    """A definition as a module that has it at the same line, wherever it stood."""
    indented = text[:1].isspace()
    return "\n" * (line - 1 - indented) + "if True:\n" * indented + text


def named(nodes: Sequence[ast.AST]) -> set[str]:
    return {item.id for node in nodes for item in ast.walk(node) if isinstance(item, ast.Name)}


def attributes_of(name: str, node: ast.AST) -> set[str]:
    """What a text reads of a name: `name.attribute`, `getattr(name, "attribute")`."""
    read = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == name}
    asked = [call.args[1] for called, call in _asked(name, node) if called in ("getattr", "hasattr") and len(call.args) > 1]
    return read | {word.value for word in asked if isinstance(word, ast.Constant) and isinstance(word.value, str)}


def kinds_asked(name: str, node: ast.AST) -> list[str]:
    """The builtins by which a text asks what kind of object a name stands for, or for all that the object has."""
    return [called for called, _ in _asked(name, node) if called in ("type", "isinstance", "vars", "dir", "repr", "str", "format")]


def _asked(name: str, node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """The calls in a text of something that has a name, on this name."""
    for item in ast.walk(node):
        first = item.args[0] if isinstance(item, ast.Call) and item.args else None
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and isinstance(first, ast.Name) and first.id == name:
            yield item.func.id, item


def is_given_away(name: str, node: ast.AST) -> bool:
    """Whether a text does something else with a name than to call it and to read attributes of it: then it may be read under another one."""
    plain = [item.func for item in ast.walk(node) if isinstance(item, ast.Call)] + [item.value for item in ast.walk(node) if isinstance(item, ast.Attribute)]
    seen = set(map(id, plain))
    return any(isinstance(item, ast.Name) and item.id == name and id(item) not in seen for item in ast.walk(node))


def outer_names(text: str, name: str) -> set[str]:
    """The names in the body of a function that are not its own: a variable of a comprehension may be one elsewhere in the text."""
    try:
        whole = scopes(standalone(text, 1))
    except SyntaxError:  # it binds a variable of the function around it, and is refused for that
        return set()
    table = next(table for table in _tables(whole) if table.get_type() == "function" and table.get_name() == name)
    return {symbol.get_name() for inner in _tables(table) for symbol in inner.get_symbols() if symbol.is_global()}


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from _tables(inner)


def of_its_own_names(node: ast.AST, values: Mapping[str, object]) -> list[str]:
    """Where a text asks for names by their text: in the namespace of another module it would find others."""
    called = {id(item.func) for item in ast.walk(node) if isinstance(item, ast.Call) and (item.args or item.keywords)}
    found = [f".{item.attr}" for item in ast.walk(node) if isinstance(item, ast.Attribute) and item.attr in _NAMESPACE_ATTRIBUTES]
    for item in ast.walk(node):
        value = values.get(item.id) if isinstance(item, ast.Name) else None
        if isinstance(item, ast.Name) and (_is_in(value, _NAMESPACES) or (_is_in(value, _OWN_WITHOUT_ARGUMENTS) and id(item) not in called)):
            found.append(item.id)
    return found


def _is_in(value: object, those: Sequence[object]) -> bool:
    return any(value is one for one in those)


def namespaces_in(written: object) -> list[str]:
    """Which of these builtins a value has, under another name or in a container, as `encode` wrote it."""
    if not isinstance(written, list):
        return []
    rows = cast("list[object]", written)
    if rows[:1] == ["builtin"]:
        return [str(rows[1])] if any(rows[1] == one.__name__ for one in (*_NAMESPACES, *_OWN_WITHOUT_ARGUMENTS)) else []
    return [name for row in rows for name in namespaces_in(row)]


def private_names(node: ast.AST, code: CodeType) -> list[str]:
    """Names in a text for which its class has others: `__name` is `_Class__name` there."""
    owner = class_of(code.co_qualname)
    words = [getattr(item, field, None) for item in ast.walk(node) if item is not node for field in ("id", "attr", "arg", "name")]
    return [word for word in words if isinstance(word, str) and spelled_out(word, owner) != word]


def code_in(module: CodeType, name: str) -> CodeType | None:
    """The code of the function that a module defines, unless something stands around it, as type parameters do."""
    return next((found for found in module.co_consts if isinstance(found, CodeType) and found.co_name == name and not found.co_freevars), None)


def described(definition: Definition) -> dict[str, object]:
    """Windows, launches and groups of a host function as its text has them: sizes and devices are expressions."""
    node = definition.text.node
    windows: dict[str, str] = {}
    views: dict[str, str] = {}
    launched: list[dict[str, object]] = []
    groups: dict[str, list[str]] = {}
    for item in ast.walk(node):
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call) and isinstance(item.targets[0], ast.Name):
            called, name = ast.unparse(item.value.func).rpartition(".")[2], item.targets[0].id
            if called == "alloc_window_buffer":
                windows[name] = ", ".join(ast.unparse(part) for part in (*item.value.args, *item.value.keywords))
            elif called == "window" and item.value.args:
                views[name] = ast.unparse(item.value.args[0])
    for item in ast.walk(node):
        device = next((ast.unparse(word.value) for word in item.keywords if word.arg == "device"), None) if isinstance(item, ast.Call) else None
        if isinstance(item, ast.Call) and device is not None:
            given = [ast.unparse(part) for part in (*item.args, *(word.value for word in item.keywords))]
            used = [name for name in windows if any(views.get(text) == name or name in text for text in given)]
            launched.append({"function": ast.unparse(item.func).removeprefix("self."), "device": device, "windows": used})
            for name in used:
                groups.setdefault(name, []).append(device)
    return {"windows": windows, "launched": launched, "groups": groups}

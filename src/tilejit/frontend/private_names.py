"""What Python's compiler says of a function in a class: `__name` stands for `_Class__name` there, and `super()` for `super(Class, self)`."""

from __future__ import annotations

import ast
import itertools

_FIELDS: dict[type[ast.AST], str] = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg", ast.FunctionDef: "name"}
"""Where a tree has names."""


def class_of(qualified: str) -> str:
    """The class in whose body a function stands, by its qualified name; empty: in none."""
    parts = qualified.split(".")
    around = [name for name, below in itertools.pairwise(parts) if name != "<locals>" and below != "<locals>"]
    return around[-1].lstrip("_") if around else ""


def spelled_out(name: str, owner: str) -> str:
    """A name as code in the class `owner` has it."""
    return f"_{owner}{name}" if owner and name.startswith("__") and not name.endswith("__") else name


def spell_out(function: ast.FunctionDef, owner: str) -> None:
    """Give the names in a function of the class `owner` the form that its code has; its own name stays as its author wrote it."""
    for node in ast.walk(function) if owner else ():
        field = _FIELDS.get(type(node))
        if field is not None and node is not function and isinstance(name := getattr(node, field), str):
            setattr(node, field, spelled_out(name, owner))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [spelled_out(name, owner) for name in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and function.args.args:
            node.args = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in ("__class__", function.args.args[0].arg)]

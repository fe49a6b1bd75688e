"""What the text of an annotation tells before anything in it is evaluated."""

from __future__ import annotations

import ast

from tilejit.optional import OptionalAnnotation
from tilejit.types.annotations import InOut, Out, Tensor, TensorAnnotation
from tilejit.types.python_text import expression


def by_syntax(node: ast.expr) -> object | None:
    """What can be told from the shape of an annotation whose names are unknown: `x.Tensor[...]`, `Out[Tensor]`."""
    inner, direction = _unwrapped(node)
    head = inner.value if isinstance(inner, ast.Subscript) else inner.func if isinstance(inner, ast.Call) else inner
    if _last_name(head) != "Tensor" and not (_last_name(head) == "like" and isinstance(inner, ast.Call)):
        return None
    found = TensorAnnotation() if direction == "In" else (Out if direction == "Out" else InOut)[Tensor]  # type: ignore[index]
    return found if inner is node or direction != "In" or not _may_be_none(node) else OptionalAnnotation(found)


def inner_annotation(node: ast.expr) -> ast.expr:
    """The annotation in `pl.Out[…]`, also in quotes, beside `| None`, and in what typing adds."""
    return _unwrapped(node)[0]


def _unwrapped(node: ast.expr) -> tuple[ast.expr, str]:
    direction = "In"
    while True:
        node = unquoted(node)
        within = node.slice if isinstance(node, ast.Subscript) else None
        parts = within.elts if isinstance(within, ast.Tuple) else [within] if within is not None else []
        name = _last_name(node.value) if isinstance(node, ast.Subscript) else ""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            node = node.right if _is_none(node.left) else node.left
        elif name in ("Out", "InOut") and len(parts) == 1:
            node, direction = parts[0], name
        elif name in ("Optional", "Union", "Annotated", "Final") and parts:
            node = next((part for part in parts if not _is_none(part)), parts[0])
        else:
            return node, direction


def _may_be_none(node: ast.expr) -> bool:
    """Whether an annotation around another adds None to it."""
    return any(_is_none(part) or (isinstance(part, ast.Subscript) and _last_name(part.value) == "Optional") for part in ast.walk(unquoted(node)))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def unquoted(node: ast.expr) -> ast.expr:
    """What stands in quotes, however often."""
    while isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = expression(node.value.strip())
    return node

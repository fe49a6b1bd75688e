"""Kernels nested more deeply than Python can follow, or with longer numbers: what to say, and about which expression or statement."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import cast

from tilejit.errors import Span, UnsupportedFeatureError

_ORDINARY = 40
"""Nodes in one another for which Python's stack has room, unless it was nearly full before."""


def too_deep(function: ast.AST, span: Callable[[ast.AST], Span]) -> UnsupportedFeatureError:
    """The error for a function that is nested too deeply, at what makes it so."""
    path = _deepest_path(function)
    if len(path) < _ORDINARY:
        what = "Python's stack ends while this kernel is compiled: whoever calls it is deep in calls already"
        return UnsupportedFeatureError(what, span=span(function), help="call it once before, from fewer nested calls, or raise sys.setrecursionlimit")
    statements = [node for node in path[1:] if isinstance(node, ast.stmt)]
    inside = path[path.index(statements[-1]) + 1 :] if statements else path[1:]
    first = next((node for node in inside if isinstance(node, ast.expr)), None)
    if first is not None and len(inside) >= len(statements):
        return UnsupportedFeatureError("this expression is nested too deeply", span=span(first), help="compute it in several statements")
    block = next((node for node in statements if isinstance(node, ast.If | ast.For | ast.While)), function)
    return UnsupportedFeatureError("this statement is nested too deeply", span=span(block), help="split it into several statements")


def too_long(function: ast.AST, span: Callable[[ast.AST], Span]) -> UnsupportedFeatureError:
    """The error for a function with a number of which Python writes no digits."""
    numbers = [node for node in ast.walk(function) if isinstance(node, ast.Constant) and type(node.value) is int]
    longest = max(numbers, key=lambda node: cast("int", node.value).bit_length(), default=function)
    return UnsupportedFeatureError(
        "this number has more digits than Python writes", span=span(longest), help="compute it outside the kernel, or raise sys.set_int_max_str_digits"
    )


def _deepest_path(root: ast.AST) -> list[ast.AST]:
    """The nodes from `root` to the leaf that is farthest from it, found without recursion."""
    parents: dict[ast.AST, ast.AST] = {}
    layer, leaf = [root], root
    while layer:
        leaf = layer[0]
        below: list[ast.AST] = []
        for node in layer:
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, ast.expr_context | ast.operator | ast.cmpop | ast.unaryop | ast.boolop):
                    parents[child] = node
                    below.append(child)
        layer = below
    path = [leaf]
    while path[-1] is not root:
        path.append(parents[path[-1]])
    return path[::-1]

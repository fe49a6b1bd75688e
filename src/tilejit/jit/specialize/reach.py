"""How far writes reach: upper ends of index expressions, as sums of constants and dynamic extents."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from tilejit.jit.specialize.forms import Form, combined, form_of, product, quotient
from tilejit.jit.specialize.values import Abstract, Items
from tilejit.ops.spec import OpFunction

ValueOf = Callable[[ast.expr], Abstract]
"""What is known of an expression."""


def upper(node: ast.expr, known: Mapping[str, Form], value_of: ValueOf) -> Form | None:
    """The largest value that an index expression takes; `known`: the largest values of names."""
    found = form_of(value_of(node))
    if found is not None:
        return found
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp):
        return _operator(node, known, value_of)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "min":
        ends = [end for argument in node.args if (end := upper(argument, known, value_of)) is not None]
        return next((end for end in ends if all(other.covers(end) for other in ends)), None)
    return None


def _operator(node: ast.BinOp, known: Mapping[str, Form], value_of: ValueOf) -> Form | None:
    left, fixed = upper(node.left, known, value_of), form_of(value_of(node.right))
    if isinstance(node.op, ast.Add):
        right = upper(node.right, known, value_of)
        return left.plus(right) if left is not None and right is not None else None
    if isinstance(node.op, ast.Sub):
        return left.plus(fixed.times(-1)) if left is not None and fixed is not None else None
    if isinstance(node.op, ast.Mult):
        right = upper(node.right, known, value_of)
        for factor, other in ((form_of(value_of(node.left)), right), (fixed, left)):
            if factor is not None and other is not None and factor.covers(Form()):
                return product(factor, other)
    if isinstance(node.op, ast.FloorDiv) and left is not None and fixed is not None and not fixed.terms and fixed.constant > 0:
        return quotient(left, fixed.constant)
    return None


def called(function: object, values: Sequence[Abstract]) -> Form | None:
    """`pl.cdiv`, `min`, `max` or `sum` of extents; None: it is another function, or which of them is the least is for the run to say."""
    if len(values) == 1 and isinstance(values[0], Items) and not values[0].is_dict:
        values = values[0].items
    forms = [form for value in values if (form := form_of(value)) is not None]
    if not forms or len(forms) != len(values):
        return None
    name = function.name if isinstance(function, OpFunction) else next((kind.__name__ for kind in (min, max, sum) if kind is function), "")
    match name:
        case "cdiv" if len(forms) == 2:
            return combined("FloorDiv", forms[0].plus(forms[1]).plus(Form(-1)), forms[1])
        case "min" | "minimum":
            return next((form for form in forms if all(other.covers(form) for other in forms)), None)
        case "max" | "maximum":
            return next((form for form in forms if all(form.covers(other) for other in forms)), None)
        case "sum":
            return reduce(Form.plus, forms)
        case _:
            return None

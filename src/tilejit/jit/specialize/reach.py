"""How far writes reach: upper ends of index expressions, as sums of constants and dynamic extents."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.values import Abstract, extent_of

ValueOf = Callable[[ast.expr], Abstract]
"""What is known of an expression."""


@dataclass(frozen=True, slots=True)
class Form:
    """A constant plus multiples of dynamic extents: `2 * M + 3`."""

    constant: int = 0
    terms: tuple[tuple[DynDim, int], ...] = ()

    def plus(self, other: Form) -> Form:
        terms = dict(self.terms)
        for dim, factor in other.terms:
            terms[dim] = terms.get(dim, 0) + factor
        return Form(self.constant + other.constant, tuple((dim, factor) for dim, factor in terms.items() if factor))

    def times(self, factor: int) -> Form:
        return Form(self.constant * factor, tuple((dim, number * factor) for dim, number in self.terms) if factor else ())

    def covers(self, other: Form) -> bool:
        """Whether it is at least as large as `other`, however large the extents are."""
        rest = self.plus(other.times(-1))
        return rest.constant >= 0 and all(factor > 0 for _, factor in rest.terms)

    def dim(self) -> int | DynDim:
        """The extent of this size; one that has to be computed is named after how."""
        if not self.terms:
            return self.constant
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return computed_dim(self)


class ComputedDim(DynDim):
    """An extent that a call computes from those of its arguments."""

    __slots__ = ("form",)
    form: Form

    def text(self, names: Mapping[DynDim, str]) -> str | None:
        """As an expression of the symbols; None where one of them has no name."""
        if not all(dim in names for dim, _ in self.form.terms):
            return None
        parts = [names[dim] if factor == 1 else f"{names[dim]} * {factor}" for dim, factor in self.form.terms]
        constant = self.form.constant
        return " + ".join(parts) + (f" + {constant}" if constant > 0 else f" - {-constant}" if constant < 0 else "")


def computed_dim(form: Form) -> ComputedDim:
    """The extent of a form."""
    text = "_".join([*(f"{dim.literal}_{factor}" for dim, factor in form.terms), str(form.constant)]).replace("-", "minus_")
    dim = ComputedDim(f"sum_{text}")
    dim.form = form
    return dim


def form_of(value: Abstract | int | str) -> Form | None:
    """A known extent as a form."""
    extent = value if isinstance(value, int | str) else extent_of(value)
    if isinstance(extent, DynDim):
        return extent.form if isinstance(extent, ComputedDim) else Form(0, ((extent, 1),))
    return Form(extent) if isinstance(extent, int) else None


def upper(node: ast.expr, known: Mapping[str, Form], value_of: ValueOf) -> Form | None:
    """The largest value that an index expression takes; `known`: the largest values of names."""
    found = form_of(value_of(node))
    if found is not None and not (found.terms and isinstance(node, ast.BinOp)):  # what is computed at run time has a symbol of its own
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
            if factor is not None and other is not None and not factor.terms and factor.constant >= 0:
                return other.times(factor.constant)
    if isinstance(node.op, ast.FloorDiv) and left is not None and fixed is not None and not left.terms and not fixed.terms and fixed.constant > 0:
        return Form(left.constant // fixed.constant)
    if isinstance(node.op, ast.Mod) and fixed is not None and fixed.constant > 0 and not fixed.terms:
        return Form(fixed.constant - 1)
    return None

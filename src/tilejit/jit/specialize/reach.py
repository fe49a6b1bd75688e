"""How far writes reach: upper ends of index expressions, as sums of constants and dynamic extents."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

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
    """An extent that is computed from others."""

    __slots__ = ("form",)
    form: Form

    @classmethod
    def called(cls, key: str, literal: str) -> Self:
        """One of this name; `key` tells it from others."""
        self = str.__new__(cls, key)
        self.literal = literal
        return self

    def text(self, names: Mapping[DynDim, str]) -> str | None:
        """As an expression of the symbols; None where one of them has no name."""
        parts: list[str] = []
        for dim, factor in self.form.terms:
            name = names.get(dim) or (dim.text(names) if isinstance(dim, QuotientDim) else None)
            if name is None:
                return None
            parts.append(name if factor == 1 else f"{name} * {factor}")
        constant = self.form.constant
        return " + ".join(parts) + (f" + {constant}" if constant > 0 else f" - {-constant}" if constant < 0 else "")


class QuotientDim(ComputedDim):
    """`whole // divisor`, rounded down; as a form it stands for itself."""

    __slots__ = ("divisor", "whole")
    whole: Form
    divisor: int

    def text(self, names: Mapping[DynDim, str]) -> str | None:
        inner = computed_dim(self.whole).text(names)
        return f"({inner}) // {self.divisor}" if inner is not None else None


def computed_dim(form: Form) -> ComputedDim:
    """The extent of a form."""
    rows = [(str(dim), dim.literal, factor) for dim, factor in form.terms]
    literal = "_".join([*(f"{name}_{factor}" for _, name, factor in rows), str(form.constant)]).replace("-", "minus_")
    dim = ComputedDim.called(f"sum {sorted(rows)} {form.constant}", f"sum_{literal}")
    dim.form = form
    return dim


def quotient(form: Form, divisor: int) -> Form:
    """`form // divisor`."""
    if all(factor % divisor == 0 for _, factor in form.terms):
        return Form(form.constant // divisor, tuple((dim, factor // divisor) for dim, factor in form.terms))
    whole = computed_dim(form)
    dim = QuotientDim.called(f"{whole} // {divisor}", f"{whole.literal}_over_{divisor}")
    dim.whole, dim.divisor, dim.form = form, divisor, Form(0, ((dim, 1),))
    return dim.form


def combined(name: str, left: Form | None, right: Form | None) -> Form | None:
    """What an operator makes of two extents; None: nothing that can be told. `name` is that of the `ast` class."""
    if left is None or right is None:
        return None
    match name:
        case "Add":
            return left.plus(right)
        case "Sub":
            return left.plus(right.times(-1))
        case "Mult" if not left.terms or not right.terms:
            return right.times(left.constant) if not left.terms else left.times(right.constant)
        case "FloorDiv" if not right.terms and right.constant > 0:
            return quotient(left, right.constant)
        case _:
            return None


def translated(extent: int | str, names: Mapping[int | str, int | str]) -> int | str | None:
    """An extent by other names for the extents that it is made of; None where one has none."""
    if isinstance(extent, int) or extent in names:
        return names.get(extent, extent)
    if isinstance(extent, QuotientDim):
        inner = translated(computed_dim(extent.whole), names)
        found = form_of(inner) if inner is not None else None
        return quotient(found, extent.divisor).dim() if found is not None else None
    if not isinstance(extent, ComputedDim):
        return None
    out = Form(extent.form.constant)
    for dim, factor in extent.form.terms:
        known = translated(dim, names)
        part = form_of(known) if known is not None else None
        if part is None:
            return None
        out = out.plus(part.times(factor))
    return out.dim()


def made_of(extent: int | str) -> Iterator[DynDim]:
    """The extents that one is computed from."""
    if isinstance(extent, ComputedDim):
        for dim, _ in extent.whole.terms if isinstance(extent, QuotientDim) else extent.form.terms:
            yield from made_of(dim)
    elif isinstance(extent, DynDim):
        yield extent


def form_of(value: Abstract | int | str) -> Form | None:
    """A known extent as a form."""
    extent = value if isinstance(value, int | str) else extent_of(value)
    if isinstance(extent, DynDim):
        return extent.form if isinstance(extent, ComputedDim) else Form(0, ((extent, 1),))
    return Form(extent) if isinstance(extent, int) else None


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
            if factor is not None and other is not None and not factor.terms and factor.constant >= 0:
                return other.times(factor.constant)
    if isinstance(node.op, ast.FloorDiv) and left is not None and fixed is not None and not left.terms and not fixed.terms and fixed.constant > 0:
        return Form(left.constant // fixed.constant)
    if isinstance(node.op, ast.Mod) and fixed is not None and fixed.constant > 0 and not fixed.terms:
        return Form(fixed.constant - 1)
    return None

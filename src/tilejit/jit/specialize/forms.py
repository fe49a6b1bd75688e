"""Sizes that are computed from dynamic extents: sums of products, quotients and remainders, each with a name that says how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Self

from tilejit.frontend.fold import BINARY
from tilejit.jit.specialize.meta import DynDim, OwnDim
from tilejit.jit.specialize.values import Abstract, extent_of
from tilejit.types.values import ANY, EXTENT_OPERATIONS, BufferType, Dim


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
        return any(form.constant >= 0 and all(factor > 0 for _, factor in form.terms) for form in (rest, rest._least()))

    def _least(self) -> Form:
        """What it is at least, without quotients that are multiplied again: `(M + 3) // 4 * 4` is `M` at least."""
        out = Form(self.constant)
        for dim, factor in self.terms:
            divisor = dim.right.constant if isinstance(dim, OperationDim) and dim.operation == "floordiv" else 0
            if isinstance(dim, OperationDim) and divisor and factor % divisor == 0:
                part = dim.left.plus(Form(1 - divisor) if factor > 0 else Form()).times(factor // divisor)
            else:
                part = Form(0, ((dim, factor),))
            out = out.plus(part)
        return out

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
            name = names.get(dim) or (dim.text(names) if isinstance(dim, OperationDim) else None)
            if name is None:
                return None
            parts.append(name if factor == 1 else f"{name} * {factor}")
        constant = self.form.constant
        if not parts:
            return str(constant)
        return " + ".join(parts) + (f" + {constant}" if constant > 0 else f" - {-constant}" if constant < 0 else "")


class OperationDim(ComputedDim):
    """What an operator makes of two forms where that is no sum: `(M + 1) // 2`, `M % 4`, `M * N`; as a form it stands for itself."""

    __slots__ = ("left", "operation", "right")
    operation: str
    left: Form
    right: Form

    def text(self, names: Mapping[DynDim, str]) -> str | None:
        left, right = computed_dim(self.left).text(names), computed_dim(self.right).text(names)
        return f"({left}) {EXTENT_OPERATIONS[self.operation].sign} ({right})" if left is not None and right is not None else None


def computed_dim(form: Form) -> ComputedDim:
    """The extent of a form."""
    rows = [(str(dim), dim.literal, factor) for dim, factor in form.terms]
    literal = "_".join([*(f"{name}_{factor}" for _, name, factor in rows), str(form.constant)]).replace("-", "minus_")
    dim = ComputedDim.called(f"sum {sorted(rows)} {form.constant}", f"sum_{literal}")
    dim.form = form
    return dim


def _operated(operation: str, left: Form, right: Form) -> Form:
    sides = computed_dim(left), computed_dim(right)
    dim = OperationDim.called(f"({sides[0]}) {operation} ({sides[1]})", f"{sides[0].literal}_{operation}_{sides[1].literal}")
    dim.operation, dim.left, dim.right, dim.form = operation, left, right, Form(0, ((dim, 1),))
    return dim.form


def quotient(form: Form, divisor: int) -> Form:
    """`form // divisor`; equal ones are one form, so what can be divided stands outside."""
    out = Form(form.constant // divisor, tuple((dim, factor // divisor) for dim, factor in form.terms if factor % divisor == 0))
    rest = Form(form.constant % divisor, tuple((dim, factor) for dim, factor in form.terms if factor % divisor))
    if not rest.terms:
        return out
    if all(factor < 0 for _, factor in rest.terms):  # rounded up, as -(-M // 4) is meant
        return out.plus(quotient(Form(divisor - 1).plus(rest.times(-1)), divisor).times(-1))
    return out.plus(_operated("floordiv", rest, Form(divisor)))


def remainder(form: Form, divisor: int) -> Form:
    """`form % divisor`."""
    rest = Form(form.constant % divisor, tuple((dim, factor % divisor) for dim, factor in form.terms if factor % divisor))
    return _operated("mod", rest, Form(divisor)) if rest.terms else rest


def product(left: Form, right: Form) -> Form:
    """`left * right`, multiplied out."""
    out = right.times(left.constant).plus(Form(0, left.times(right.constant).terms))
    for dim, factor in left.terms:
        for other, number in right.terms:
            factors = sorted([*_factors(dim), *_factors(other)])
            whole = reduce(lambda one, more: _operated("mul", one, Form(0, ((more, 1),))), factors[1:], Form(0, ((factors[0], 1),)))
            out = out.plus(whole.times(factor * number))
    return out


def _factors(dim: DynDim) -> list[DynDim]:
    if not isinstance(dim, OperationDim) or dim.operation != "mul":
        return [dim]
    return [factor for side in (dim.left, dim.right) for part, _ in side.terms for factor in _factors(part)]


def combined(name: str, left: Form | None, right: Form | None) -> Form | None:
    """What an operator makes of two extents; None: nothing that can be told. `name` is that of the `ast` class."""
    if left is None or right is None:
        return None
    match name:
        case "Add":
            return left.plus(right)
        case "Sub":
            return left.plus(right.times(-1))
        case "Mult":
            return product(left, right)
        case "FloorDiv" if not right.terms and right.constant > 0:
            return quotient(left, right.constant)
        case "Mod" if not right.terms and right.constant > 0:
            return remainder(left, right.constant)
        case "Pow" if not right.terms and 0 < right.constant <= _HIGHEST:
            return reduce(product, [left] * right.constant)
        case "LShift" if not right.terms and 0 <= right.constant <= _FURTHEST:
            return left.times(1 << right.constant)
        case _:
            return None


_HIGHEST, _FURTHEST = 4, 32
"""Powers and shifts that are still written out."""
_AST_CLASSES = {compute: kind.__name__ for kind, compute in BINARY.items()}


def ast_class_of(operation: str) -> str:
    """The name of the `ast` class of an operator on extents, by its row."""
    return _AST_CLASSES[EXTENT_OPERATIONS[operation].compute]


def translated(extent: int | str, names: Mapping[int | str, int | str]) -> int | str | None:
    """An extent by other names for the extents that it is made of; None where one has none."""
    if isinstance(extent, int) or extent in names:
        return names.get(extent, extent)
    if isinstance(extent, OperationDim):
        sides = [translated(computed_dim(side), names) if side.terms else side.constant for side in (extent.left, extent.right)]
        left, right = (form_of(side) if side is not None else None for side in sides)
        found = combined(ast_class_of(extent.operation), left, right)
        return found.dim() if found is not None else None
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
        for side in (extent.left, extent.right) if isinstance(extent, OperationDim) else (extent.form,):
            for dim, _ in side.terms:
                yield from made_of(dim)
    elif isinstance(extent, DynDim):
        yield extent


def is_told(extent: Dim, params: Mapping[str, Abstract]) -> bool:
    """Whether an extent is one of the parameters', or computed from those."""
    carried = {dim for type in params.values() if isinstance(type, BufferType) for dim in type.shape}
    return extent != ANY and all(not isinstance(dim, OwnDim) or dim in carried for dim in made_of(extent))


def form_of(value: Abstract | int | str) -> Form | None:
    """A known extent as a form."""
    extent = value if isinstance(value, int | str) else extent_of(value)
    if isinstance(extent, DynDim):
        return extent.form if isinstance(extent, ComputedDim) else Form(0, ((extent, 1),))
    return Form(extent) if isinstance(extent, int) else None

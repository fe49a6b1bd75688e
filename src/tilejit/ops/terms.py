"""Terms over rows: how a derived row says what it is made of.

A derived row is a Python function of terms, written with rows and Python's operators. The builder puts the steps of the term into
the program in its place (tile_ir/derive.py), so every target has the row; its reference computes the same steps in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import DType
from tilejit.ops.dtype_rules import DTypeRule, promoted
from tilejit.ops.elementwise import EVERYWHERE, Check, elementwise
from tilejit.ops.facts import PLAIN, Facts
from tilejit.ops.numbers import NDArray
from tilejit.ops.spec import TABLE, OpSpec, Spelling, Stub, declarator

Number = int | float
Derivation = Callable[..., object]


class Term:
    """A value in a term: an operand, or a step."""

    def __add__(self, other: Term | Number) -> Term:
        return TABLE["add"](self, other)

    def __radd__(self, other: Number) -> Term:
        return TABLE["add"](self, other)

    def __sub__(self, other: Term | Number) -> Term:
        return TABLE["sub"](self, other)

    def __mul__(self, other: Term | Number) -> Term:
        return TABLE["mul"](self, other)

    def __rmul__(self, other: Number) -> Term:
        return TABLE["mul"](self, other)

    def __truediv__(self, other: Term | Number) -> Term:
        return TABLE["div"](self, other)

    def __neg__(self) -> Term:
        return TABLE["neg"](self)


class Operand(Term):
    """A parameter of the derived row."""

    def __init__(self, name: str) -> None:
        self.name = name


class Step(Term):
    """A row applied to terms and numbers."""

    def __init__(self, row: OpSpec, operands: Sequence[Term | Number]) -> None:
        self.row = row
        self.operands = dict(zip(row.operands, operands, strict=True))


def steps(root: Step) -> Iterator[Step]:
    """The steps of a term in an order in which they can be done, each once, the root last."""
    seen: set[Step] = set()

    def visit(step: Step) -> Iterator[Step]:
        if step not in seen:
            seen.add(step)
            for operand in step.operands.values():
                if isinstance(operand, Step):
                    yield from visit(operand)
            yield step

    return visit(root)


def term_of(row: OpSpec, statics: Mapping[str, object]) -> Step:
    """What a derived row stands for, with these compile-time arguments."""
    assert row.derived is not None
    root = row.derived(*(Operand(name) for name in row.operands), **statics)
    assert isinstance(root, Step), f"{row.name} is no term"
    return root


@declarator
def derived(
    stub: Stub,
    term: Derivation,
    *,
    dtypes: Iterable[DType],
    spellings: Sequence[Spelling],
    result: DTypeRule = promoted,
    levels: Iterable[str] = EVERYWHERE,
    takes: tuple[str, ...] = (),
    check: Check | None = None,
    facts: Facts = PLAIN,
) -> OpSpec:
    """Declare an elementwise row as a term over others; unless it is exact, its steps are computed in FP32 and rounded once, at the end."""

    def reference(*arrays: NDArray, **statics: object) -> NDArray:
        return _computed(row, arrays, statics)

    row = elementwise(
        reference=reference, dtypes=dtypes, spellings=spellings, result=result, levels=levels, takes=takes, check=check, facts=facts, derived=term
    )(stub)
    return row


def _computed(row: OpSpec, arrays: Sequence[NDArray], statics: Mapping[str, object]) -> NDArray:
    """The steps of a term, on arrays that have the dtype in which it is computed."""
    given: dict[str, Any] = dict(zip(row.operands, arrays, strict=True))
    dtype, done = arrays[0].dtype, dict[Term, NDArray]()

    def value(operand: Term | Number) -> NDArray:
        return given[operand.name] if isinstance(operand, Operand) else done[operand] if isinstance(operand, Term) else np.asarray(operand, dtype)

    root = term_of(row, statics)
    for step in steps(root):
        done[step] = np.asarray(step.row.reference(*(value(operand) for operand in step.operands.values())), dtype)
    return done[root]

"""A jit kernel and the program written by hand are the same program, and run to the same numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.pairs import Pair, control, elementwise, helpers, linear
from tilejit import ir

MODULES = (elementwise, linear, control, helpers)
PAIRS: list[Pair] = [pair for module in MODULES for pair in module.PAIRS]


def jit_program(pair: Pair) -> ir.Program:
    program = pair.kernel.compile(**pair.tensors(), **pair.scalars).program
    assert isinstance(program, ir.Program)
    return program


def run(call: Callable[..., object], pair: Pair, **more: Any) -> tuple[np.ndarray, ...]:
    """The outputs of a call: returned, or written in place."""
    tensors = pair.tensors()
    returned = call(**tensors, **more) if more or call is pair.kernel else call(*tensors.values())
    if returned is None:
        return tuple(tensors[name] for name in pair.outputs())
    return as_arrays(returned)


def as_arrays(value: object) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(item) for item in (value if isinstance(value, tuple) else (value,)))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_both_forms_are_the_same_program(pair: Pair) -> None:
    ir.assert_structural_equal(jit_program(pair), pair.program)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_the_specialised_text_parses_to_the_same_program(pair: Pair) -> None:
    parsed = pl.parse(pair.kernel.specialized_source(**pair.tensors(), **pair.scalars))
    ir.assert_structural_equal(parsed, pair.program)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_both_forms_run_to_the_same_numbers(pair: Pair) -> None:
    expected = as_arrays(pair.expected(*pair.tensors().values()))
    by_jit = run(pair.kernel, pair, **pair.scalars)
    by_hand = run(ir.compile(pair.program), pair)
    assert len(expected) == len(by_jit) == len(by_hand)
    for right, first, second in zip(expected, by_jit, by_hand, strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, right, rtol=2e-4, atol=2e-5)


CHANGES = [(r"pl\.add\(", "pl.sub("), (r"pl\.mul\(", "pl.sub("), (r"pl\.store\((\w+),", r"pl.store(pl.neg(\1),")]


def changed(text: str) -> str:
    """The program with one op more or another op in its place."""
    for pattern, replacement in CHANGES:
        new, count = re.subn(pattern, replacement, text, count=1)
        if count:
            return new
    raise AssertionError(f"nothing to change in:\n{text}")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_a_change_of_one_op_makes_them_differ(pair: Pair) -> None:
    assert not ir.structural_equal(jit_program(pair), pl.parse(changed(pair.program.as_python())))


@pytest.mark.parametrize("word", ["pl", "self", "float", "max"])
def test_a_symbol_may_be_called_like_what_the_text_says_itself(word: str) -> None:
    rows = pl.dynamic(word)

    @pl.jit
    def largest(x: pl.Tensor[[rows, 8], pl.FP32], out: pl.Out[pl.Tensor[[rows, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.minimum(x + pl.cast(max(pl.tensor.dim(x, 0), 3), pl.FP32), float("inf"))

    x = np.zeros((4, 8), np.float32)
    assert largest(x)[0, 0] == 4
    program = largest.compile(x).program
    assert isinstance(program, ir.Program)
    ir.assert_structural_equal(pl.parse(largest.specialized_source(x)), program)
    ir.assert_structural_equal(pl.parse(program.as_python()), program)

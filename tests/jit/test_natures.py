"""What passes go by before they do something with an object is asked, so that it is part of the key."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import StaleCaptureError, UnsupportedFeatureError
from tilejit.jit.reads.natures import ALIKE, BLIND, ITERATOR, KEPT, MAKES, STEPS, changed_kind, nature
from tilejit.jit.reads.words import words_of

SPECIALIZE = Path(__file__).parents[2] / "src" / "tilejit" / "jit" / "specialize"
X = np.zeros((1, 4), np.float32)


class Numbers:
    """In place of what changes: gives what that would give."""

    def __init__(self, given: object) -> None:
        self.given = given

    def __iter__(self) -> Any:
        return iter(self.given)  # type: ignore[call-overload]

    def random(self) -> object:
        return self.given

    def pop(self) -> object:
        return self.given


def seeded() -> random.Random:
    return random.Random(1)


CHANGES: dict[str, tuple[str, Callable[[], object], Callable[[], object]]] = {
    "a name for an iterator": ("    a = T\n    for v in a:\n        out[:] = x + v", lambda: [1.0, 2.0], lambda: iter([1.0, 2.0])),
    "a name for one of several": ("    a, b = T, 1.0\n    out[:] = x + b", lambda: [1.0], lambda: iter([1.0])),
    "a random generator": ("    out[:] = x + T.random()", lambda: Numbers(seeded().random()), seeded),
    "a list that is changed": ("    out[:] = x + T.pop()", lambda: Numbers(2.0), lambda: [1.0, 2.0]),
    "a bound method": ("    out[:] = x + T()", lambda: Numbers(2.0).pop, lambda: [1.0, 2.0].pop),
    "a function": ("    out[:] = x + T()", lambda: lambda: 2.0, lambda: [1.0, 2.0].pop),
}


@pytest.mark.parametrize("policy", ["raise", "recompile"])
@pytest.mark.parametrize("case", CHANGES)
def test_a_warm_kernel_refuses_what_a_fresh_process_refuses(make_kernel: MakeKernel, case: str, policy: str) -> None:
    body, accepted, refused = CHANGES[case]
    text = f"@pl.jit(on_drift={policy!r})\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n{body}\n"
    kernel = make_kernel(text, T=accepted())
    for _ in range(3):
        kernel(X)
    kernel.definition.function.__globals__["T"] = refused()  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedFeatureError if policy == "recompile" else StaleCaptureError):
        kernel(X)
    with pytest.raises(UnsupportedFeatureError):
        make_kernel(text, T=refused())(X)


def test_a_class_that_makes_its_objects_iterators_is_noticed(make_kernel: MakeKernel) -> None:
    class Rows:
        value = 2.0

    kernel = make_kernel("@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    a = T\n    out[:] = x + a.value\n", T=Rows())
    assert [float(kernel(X)[0, 0]) for _ in range(3)] == [2.0] * 3
    Rows.__next__ = lambda self: 1  # type: ignore[attr-defined]
    with pytest.raises(StaleCaptureError):
        kernel(X)


def test_a_class_whose_objects_are_iterators_no_longer_is_noticed(make_kernel: MakeKernel) -> None:
    """Each turn of a call that makes an iterator is asked: whether it does follows from its class."""

    class Rows:
        def __init__(self, value: float) -> None:
            self.value = value

        def __next__(self) -> float:
            return self.value

    both = [Rows(1.0), Rows(2.0)]

    def turned() -> Rows:
        both.reverse()
        return both[0]

    kernel = make_kernel("@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + turned().value * 10.0 + turned().value\n", turned=turned)
    assert [float(kernel(X)[0, 0]) for _ in range(3)] == [21.0] * 3
    del Rows.__next__
    with pytest.raises(StaleCaptureError):
        kernel(X)


def test_an_iterator_may_be_moved_on_once(make_kernel: MakeKernel) -> None:
    text = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + {}\n"
    assert make_kernel(text.format("T.__next__()"), T=iter([3.0, 4.0]))(X)[0, 0] == 3.0
    for twice in ("T.__next__() + T.__next__()", "next(T) + next(T)", "next(T) + T.__next__()", "next(T) + next(U)"):
        same = iter([3.0, 4.0])
        with pytest.raises(UnsupportedFeatureError, match="list_iterator"):
            make_kernel(text.format(twice), T=same, U=same)(X)
    assert make_kernel(text.format("next(T) + next(U)"), T=iter([3.0, 4.0]), U=iter([5.0]))(X)[0, 0] == 8.0


MOVING = {
    "a loop": "    for v in N:\n        t = t + float(v)",
    "a sum": "    t = t + float(sum(N))",
    "a list": "    t = t + float(len(list(N)) * 3.5)",
    "a member": "    t = t + (7.0 if 3 in N else 0.0)",
    "a helper": "    t = t + float(total(N))",
    "one that a helper gives": "    for v in lent():\n        t = t + float(v)",
    "one behind another": "    for v in map(float, N):\n        t = t + v",
}


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("policy", ["raise", "recompile"])
@pytest.mark.parametrize("form", MOVING)
def test_what_is_left_of_an_iterator_is_no_answer(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, form: str, policy: str, native: str) -> None:
    """A warm call that looked whether it gives what it gave would move it on, and the long way would find it empty, as before."""
    monkeypatch.setenv("TILEJIT_FASTPATH", native)
    text = f"@pl.jit(on_drift={policy!r})\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    t = x * 1.0\n{MOVING[form]}\n    out[:] = t\n"
    names: dict[str, Any] = {"N": iter([])}
    kernel = make_kernel(text, N=names["N"], total=lambda numbers: sum(numbers), lent=lambda: names["N"])
    for _ in range(3):
        assert kernel(X)[0, 0] == 0.0
    names["N"] = kernel.definition.function.__globals__["N"] = iter([3, 4])
    if policy == "raise":
        with pytest.raises(StaleCaptureError):
            kernel(X)
    else:
        assert kernel(X)[0, 0] == 7.0


def test_iterators_that_a_call_makes_are_asked_when_warm(make_kernel: MakeKernel) -> None:
    """Nobody else has them: the next call makes others."""

    def numbers() -> Any:
        yield from (3.0, 4.0)

    kernel = make_kernel("@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + sum(numbers())\n", numbers=numbers)
    assert [kernel(X)[0, 0] for _ in range(5)] == [7.0] * 5
    assert kernel._warm is not None and kernel._warm.all_hits


class Loader:
    """An iterator with a method that begins anew."""

    def __init__(self) -> None:
        self.left = iter([1, 2, 3])

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        return next(self.left)

    def batches(self) -> Any:
        return iter([1, 2, 3])

    @property
    def rows(self) -> Any:
        return iter([1, 2, 3])


def dot(one: Any, other: Any) -> float:
    return float(sum(first * second for first, second in zip(one, other, strict=True)))


@pytest.mark.parametrize("loop", ["", "for i in pl.unroll(2):\n        "])
@pytest.mark.parametrize("given", ["Loader().batches()", "Loader().rows", "Loader().__iter__()", "iter(Loader().batches())", "Loader()"])
def test_each_place_has_an_iterator_of_its_own_in_all_passes(make_kernel: MakeKernel, given: str, loop: str) -> None:
    """Passes looked at a place several times, each in its own way, and so had what others had moved on."""
    text = f"@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    t = x * 1.0\n    {loop}t = t + dot({given}, {given})\n    out[:] = t\n"
    kernel, out = make_kernel(text, Loader=Loader, dot=dot), np.zeros_like(X)
    expected = 28.0 if loop else 14.0
    for _ in range(2):
        assert kernel(X)[0, 0] == expected
        kernel(X, out)
        assert out[0, 0] == expected


def test_the_words_are_those_of_the_thing() -> None:
    class Own(list[int]):
        def append(self, value: object) -> None: ...

    natures = [nature(value) for value in (iter(()), [].append, Own().append, {}.copy, {1}.union, {1, 2}, {1, "a"}, {"a"}, iter(()).__next__, len, [], Own)]
    kinds = [changed_kind(told) for told in natures]
    assert kinds == [None, list, list, *[None] * 9]
    assert natures[0] == (ITERATOR,) and natures[3] == (MAKES,) and natures[4] == (MAKES, BLIND) and natures[5:8] == [(KEPT, ALIKE), (KEPT,), (KEPT, ALIKE)]
    assert natures[8] == (STEPS,) and natures[9:] == [(), (KEPT,), ()]


def test_what_cannot_change_is_not_asked_again() -> None:
    """Of plain functions, lists and methods of builtin types the word that tells which object it is suffices."""
    assert [words_of("nature", (value,), ()) for value in (seeded, [], {}.pop, len, "a".split)] == [[]] * 5
    assert words_of("nature", (Numbers(1),), ()) and words_of("nature", (Numbers(1).pop,), ())
    assert words_of("nature", ({1},), ()) is None


def test_no_pass_looks_at_an_object_by_itself() -> None:
    """Only what a message names may be looked at without asking."""
    calls = [
        f"{path.name}:{node.lineno}"
        for path in sorted(SPECIALIZE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("raw", "objects") and ast.unparse(node.value).endswith("trace")
    ]
    assert not calls

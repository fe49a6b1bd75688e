"""Memory words that are compared in place of asking: where they are taken from anything odd, a change is noticed as elsewhere."""

from __future__ import annotations

import os
import types
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit.errors import ArgumentError, DTypeError, OptionError

pytestmark = [pytest.mark.dispatch, pytest.mark.parametrize("native", ["1", "0"])]
X = np.zeros((2, 4), np.float32)
KERNEL = "@pl.jit(on_drift='recompile')\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = "


@pytest.fixture(autouse=True)
def dispatch(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", native)
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")


def warm(kernel: Any) -> float:
    """What calls give of which the last are warm."""
    found = {float(kernel(X)[0, 0]) for _ in range(4)}
    assert len(found) == 1
    return found.pop()


def test_builtins_of_which_there_are_few(make_kernel: MakeKernel) -> None:
    names: dict[str, Any] = {"__builtins__": {"float": float}}
    exec("def three():\n    return float(3)", names)
    kernel = make_kernel(KERNEL + "x + three()\n", three=names["three"])
    assert warm(kernel) == 3.0
    names["__builtins__"]["float"] = lambda number: number + 1.0
    assert warm(kernel) == 4.0
    names["float"] = lambda number: number + 2.0
    assert warm(kernel) == 5.0


def parsed(name: str) -> str:
    """A text as a parser makes it: the only one of its kind that is this very object."""
    return "".join(list(name))


def test_a_name_that_lies_where_another_lay(make_kernel: MakeKernel) -> None:
    settings = types.SimpleNamespace()
    names, first, second = vars(settings), 1.5, 2.5
    names[parsed("alpha")] = first
    names[parsed("gamma")] = second
    kernel = make_kernel(KERNEL + "x + settings.alpha\n", settings=settings)
    assert warm(kernel) == first
    place = id(next(iter(names)))
    names.popitem()
    names.popitem()
    made: list[str] = []
    while len(made) < 10_000 and (not made or id(made[-1]) != place):
        made.append(parsed("gamma"))
    names[made[-1]] = first
    names[parsed("alpha")] = second
    assert warm(kernel) == second


class Values:
    """An object whose dict is given to something else."""


@pytest.mark.parametrize("group", ["tensor", "tile"])
def test_operators_of_a_group_that_are_assigned(group: str, make_kernel: MakeKernel) -> None:
    operators = getattr(pl, group)
    given = "x" if group == "tensor" else "pl.load(x, [0, 0], [2, 4])"
    kernel = make_kernel(KERNEL + f"pl.{group}.exp({given})\n")
    neg, sin = operators.neg, operators.sin
    assert warm(kernel) == 1.0
    try:
        operators.exp = neg
        assert warm(kernel) == 0.0
        del operators.exp
        assert warm(kernel) == 1.0
        operators.exp = sin
        assert warm(kernel) == 0.0
    finally:
        operators.__dict__.pop("exp", None)


def test_a_group_that_is_given_another_dict(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(KERNEL + "pl.tensor.exp(x)\n")
    group: Any = pl.tensor
    own, neg = vars(group), group.neg
    assert warm(kernel) == 1.0
    try:
        group.__dict__ = {**own, "exp": neg}
        assert warm(kernel) == 0.0
    finally:
        group.__dict__ = own
    assert warm(kernel) == 1.0


@pytest.mark.skipif(os.name != "posix", reason="elsewhere settings are asked through os.environ")
def test_an_environment_that_is_given_another_dict(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(KERNEL + "x + 1.0\n")
    environment: Any = os.environ
    own = vars(environment)
    assert warm(kernel) == 1.0
    try:
        environment.__dict__ = {**own, "_data": {**own["_data"], b"TILEJIT_EAGER": b"perhaps"}}
        with pytest.raises(OptionError):
            kernel(X)
    finally:
        environment.__dict__ = own
    assert warm(kernel) == 1.0


def test_the_class_of_a_class_that_a_parameter_names(make_kernel: MakeKernel) -> None:
    class Plain(type): ...

    class Refusing(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return False

    class Kind(metaclass=Plain): ...

    class Special(Kind): ...

    text = "@pl.jit.inline\ndef inner(x: pl.Tensor, kind: pl.constexpr[Kind]):\n    return x + 1.0\n"
    kernel = make_kernel(text + KERNEL + "inner(x, SPECIAL)\n", Kind=Kind, SPECIAL=Special())
    assert warm(kernel) == 1.0
    cast("Any", Kind).__class__ = Refusing
    with pytest.raises(ArgumentError):
        kernel(X)


def test_keyword_defaults_that_are_the_dict_of_an_object(make_kernel: MakeKernel) -> None:
    def helper(*, number: float = 0.0) -> float:
        return number

    values: Any = Values()
    values.number = 1.0
    helper.__kwdefaults__ = vars(values)
    kernel = make_kernel(KERNEL + "x + helper()\n", helper=helper)
    for number in (1.0, 7.0, 1.0):
        values.number = number
        assert warm(kernel) == number


def test_keyword_defaults_of_kernels_that_are_the_dict_of_an_object(make_kernel: MakeKernel) -> None:
    text = "@pl.jit.inline\ndef inner(x: pl.Tensor, *, number=1.0):\n    return x + number\n"
    kernel = make_kernel(text + KERNEL.replace("]):", "], *, number=1.0):") + "inner(x) * number\n")
    names, inner, outer = cast("Any", kernel).definition.function.__globals__, Values(), Values()
    for values, function in ((inner, names["inner"]), (outer, kernel)):
        cast("Any", values).number = 1.0
        function.definition.function.__kwdefaults__ = vars(values)
    for change, wanted in ((outer, 2.0), (inner, 4.0)):
        warm(kernel)
        cast("Any", change).number = 2.0
        assert warm(kernel) == wanted


def test_annotations_that_are_the_dict_of_an_object(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(KERNEL + "x + 1.0\n")
    function, values, other = cast("Any", kernel).definition.function, Values(), pl.Tensor[[2, 4], pl.FP16]
    for name, annotation in function.__annotations__.items():
        setattr(values, name, annotation)
    function.__annotations__ = vars(values)
    assert warm(kernel) == 1.0
    cast("Any", values).x = other
    with pytest.raises(DTypeError):
        kernel(X)

"""What results are compared with may change while a process runs: the choice that was made by another measure is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilejit
import tilejit.language as pl
from tilejit.jit.tune.measure import Measure
from tilejit.jit.tune.space import Choice

Reference = Callable[..., Any]


@pl.jit
def of_two_minds(x: pl.Tensor, out: pl.Out[pl.Tensor], mind: int = 2):
    out[:] = x * float(mind)


FACTOR = 2.0
TABLE = {"factor": 2.0}
HELD: Any = np.full(3, 2.0)


def by_global(x: Any) -> Any:
    return x * FACTOR


def by_table(x: Any) -> Any:
    return x * TABLE["factor"]


def by_helper(x: Any) -> Any:
    return [by_global(each) for each in (x,)]


def by_default(x: Any, factor: float = 2.0, *, more: float = 1.0) -> Any:
    return x * factor * more


def twice(x: Any) -> Any:
    return x * 2.0


def thrice(x: Any) -> Any:
    return x * 3.0


class Bound:
    def two(self, x: Any) -> Any:
        return x * 2.0

    def three(self, x: Any) -> Any:
        return x * 3.0


HELPER: Any = twice
METHOD: Any = Bound().two
KERNEL: Any = pl.jit(twice)
PARTS = ModuleType("parts")
PARTS.FACTOR = 2.0  # type: ignore[attr-defined]
PARTS.ONE = 1.0  # type: ignore[attr-defined]
PARTS.itself = PARTS  # type: ignore[attr-defined]


class Fixed:
    FACTOR = 2.0

    @staticmethod
    def of(x: Any) -> Any:
        return x * 2.0


class Inherited(Fixed):
    pass


def marked(x: Any) -> Any:
    return x * marked.factor  # type: ignore[attr-defined]


marked.factor = 2.0  # type: ignore[attr-defined]


def by_renamed(x: Any) -> Any:
    return HELPER(x)


def by_method(x: Any) -> Any:
    return METHOD(x)


def by_kernel(x: Any) -> Any:
    return thrice(x) if KERNEL.__name__ == "thrice" else twice(x)


def by_module(x: Any) -> Any:
    return x * PARTS.FACTOR


def by_module_of_two(x: Any) -> Any:
    return by_module(x * PARTS.ONE)


def by_class(x: Any) -> Any:
    return x * Inherited.FACTOR


def by_static_method(x: Any) -> Any:
    return Fixed.of(x)


def by_module_of_a_cell() -> Reference:
    parts = PARTS
    return lambda x: x * parts.FACTOR


def by_cell() -> tuple[Reference, Callable[[], None]]:
    factor = 2.0

    def change() -> None:
        nonlocal factor
        factor = 3.0

    return lambda x: x * factor, change


def by_list() -> tuple[Reference, Callable[[], None]]:
    held = [2.0]
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3.0)


def by_list_in_a_tuple() -> tuple[Reference, Callable[[], None]]:
    held = ([2.0], 1)
    return lambda x: x * held[0][0], lambda: held[0].__setitem__(0, 3.0)


def wrapped_by_cell() -> tuple[Reference, Callable[[], None]]:
    inner, change = by_cell()
    return partial(lambda function, x: function(x), inner), change


def of(reference: Reference, **named: object) -> Callable[[pytest.MonkeyPatch], tuple[Reference, Callable[[], None]]]:
    def made(patch: pytest.MonkeyPatch) -> tuple[Reference, Callable[[], None]]:
        def change() -> None:
            for name, value in named.items():
                patch.setitem(globals(), name, value)

        return reference, change

    return made


CHANGES: dict[str, Callable[[pytest.MonkeyPatch], tuple[Reference, Callable[[], None]]]] = {
    "global": of(by_global, FACTOR=3.0),
    "global of a helper": of(by_helper, FACTOR=3.0),
    "helper": of(by_helper, by_global=thrice),
    "code": lambda patch: (by_helper, lambda: patch.setattr(by_global, "__code__", thrice.__code__)),
    "defaults": lambda patch: (by_default, lambda: patch.setattr(by_default, "__defaults__", (3.0,))),
    "keywords": lambda patch: (by_default, lambda: patch.setattr(by_default, "__kwdefaults__", {"more": 1.5})),
    "dict": lambda patch: (by_table, lambda: patch.setitem(TABLE, "factor", 3.0)),
    "list": lambda patch: by_list(),
    "list in a tuple": lambda patch: by_list_in_a_tuple(),
    "function": of(by_renamed, HELPER=thrice),
    "method": of(by_method, METHOD=Bound().three),
    "kernel": of(by_kernel, KERNEL=pl.jit(thrice)),
    "module": lambda patch: (by_module, lambda: patch.setattr(PARTS, "FACTOR", 3.0)),
    "module that two functions read": lambda patch: (by_module_of_two, lambda: patch.setattr(PARTS, "FACTOR", 3.0)),
    "module in a cell": lambda patch: (by_module_of_a_cell(), lambda: patch.setattr(PARTS, "FACTOR", 3.0)),
    "attribute of a class": lambda patch: (by_class, lambda: patch.setattr(Fixed, "FACTOR", 3.0)),
    "static method": lambda patch: (by_static_method, lambda: patch.setattr(Fixed, "of", staticmethod(thrice))),
    "attribute of a function": lambda patch: (marked, lambda: patch.setattr(marked, "factor", 3.0)),
    "cell": lambda patch: by_cell(),
    "cell behind a partial": lambda patch: wrapped_by_cell(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_kernel_is_tuned_anew_when_what_its_results_are_compared_with_changes(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = list[str]()
    reference, happens = CHANGES[change](monkeypatch)

    def timer(choice: Choice, run: Callable[[], None]) -> float:
        run()
        timed.append(str(choice))
        return 1.0

    kernel = pl.autotune({"mind": [2, 3]}, reference=reference, timer=timer, progress=False)(of_two_minds)
    x = np.ones((4, 8), np.float32)
    for _ in range(3):
        assert kernel(x)[0, 0] == 2.0
    before = len(timed)
    happens()
    for _ in range(3):
        assert kernel(x)[0, 0] == 3.0
    assert before > 0 and timed[before:].count("mind=3") > 0
    again = len(timed)
    kernel(x)
    assert len(timed) == again


def test_of_other_objects_only_their_classes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def reference(x: Any) -> Any:
        return x * HELD

    found = Measure(reference)
    monkeypatch.setitem(globals(), "HELD", np.zeros(4))
    assert found.holds()
    monkeypatch.setitem(globals(), "HELD", 4.0)
    assert not found.holds()


def test_functions_that_call_each_other_have_an_end() -> None:
    def odd(n: int) -> bool:
        return n != 0 and even(n - 1)

    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    endless: list[object] = []
    endless.append(endless)

    def within(x: Any) -> Any:
        return by_module(PARTS.itself.itself.FACTOR)

    assert Measure(within).holds()
    assert Measure(odd).holds() and Measure(lambda x: endless[x]).holds()
    assert Measure(odd).told != Measure(even).told


def test_what_a_function_counts_by_is_the_same_in_another_process() -> None:
    text = "import json, sys; sys.path[:] = {}\nimport tests.jit.tune.test_measure as here; print(json.dumps([here.Measure(one).told for one in {}]))"
    functions = ("by_global", "by_table", "by_helper", "by_default", "by_method", "by_module_of_two", "by_class", "by_static_method", "marked")
    names = f"({', '.join(f'here.{name}' for name in functions)})"
    texts = {subprocess.run([sys.executable, "-c", text.format(sys.path, names)], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(texts) == 1


def test_a_script_that_is_started_through_another_directory_is_no_library() -> None:
    told: list[object] = []
    for factor in (2.0, 3.0):
        names: dict[str, Any] = {"FACTOR": factor}
        exec(compile("def doubled(x):\n    return x * FACTOR\n", f"{tilejit.__path__[0]}/../../script.py", "exec"), names)
        told.append(Measure(names["doubled"]).told)
    assert told[0] != told[1]

"""The host side of a plan as Python text: every step does what the plan says, on a machine that only keeps a record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilejit.backends.cuda.control_plane.text import host_text
from tilejit.backends.cuda.plan import Allocate, Apply, Check, Compute, EntryPlan, Expr, For, If, Input, Launch, Move, Read, Step, Var, While
from tilejit.runtime.cuda.scalars import scalar_op
from tilejit.runtime.cuda.words import CLEAR


class Machine:
    """What a host text runs on."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.released: list[str] = []
        self.memory: list[str] = []
        self.cells = {100: 3, 104: 0.5}

    def launch(self, stream: int, memory: object, *values: Any) -> None:
        assert stream == 7
        self.launched.append(values)

    def take(self, size: int) -> int:
        self.memory.append(f"t{size}")
        return 1000 + size

    def keep(self, size: int) -> int:
        self.memory.append(f"k{size}")
        return 2000 + size

    def mark(self) -> int:
        return len(self.memory)

    def release(self, mark: int) -> None:
        self.released += self.memory[mark:]

    def read(self, stream: int, address: int, dtype: str) -> Any:
        return self.cells[address]

    def fail(self, row: int, *values: int) -> None:
        raise IndexError((row, *values))

    def run(self, *steps: Step, **inputs: Any) -> list[tuple[Any, ...]]:
        entry = EntryPlan("main", tuple(Input(name, at, "value") for at, name in enumerate(inputs)), steps)
        names: dict[str, Any] = {"launch_0": self.launch, "words": [CLEAR], "CLEAR": CLEAR, "read": self.read, "fail": self.fail, "scalar_op": scalar_op}
        exec(host_text(entry), names)
        names["call"](7, self, *inputs.values())
        return self.launched


def show(*values: Expr) -> Launch:
    return Launch(0, (1, 1, 1), values)


N, X = Var("n"), Var("x")


def binary(op: str, a: Expr, b: Expr, **more: Any) -> Apply:
    return Apply(op, (a, b), **more)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (binary("add", N, 3), 13),
        (binary("sub", 3, N), -7),
        (binary("mul", N, binary("add", N, 1)), 110),
        (binary("minimum", N, 3), 3),
        (binary("maximum", N, 3), 10),
        (binary("ceildiv", N, 4), 3),
        (binary("array_get_element", Apply("array_update_element", (Apply("array_create", (4,)), 2, N)), 2), 10),
        (binary("array_get_element", Apply("array_update_element", (Apply("array_create", (4,)), 2, N)), 3), 0),
        (binary("floordiv", Apply("neg", (N,)), 4), -3),
        (binary("mod", Apply("neg", (N,)), 4), 2),
        (binary("cmp", N, 10, dtype="BOOL", statics=(("cmp_type", 3),)), True),
        (binary("cmp", N, 10, dtype="BOOL", statics=(("cmp_type", 2),)), False),
        (binary("logical_and", True, False, dtype="BOOL", operands=("BOOL", "BOOL")), False),
        (Apply("logical_not", (False,), "BOOL", ("BOOL",)), True),
        (binary("mul", 0.1, 3.0, dtype="FP32", operands=("FP32", "FP32")), float(np.float32(0.1) * np.float32(3.0))),
        (binary("add", 2147483647, 1, dtype="INT32", operands=("INT32", "INT32")), -2147483648),
        (binary("div", Apply("neg", (N,)), 4), -2),
        (Apply("cast", (2.5,), "INT32", ("FP32",), (("target_type", "INT32"), ("mode", "round"))), 3),
    ],
)
def test_numbers_are_those_of_the_op_table(expression: Expr, value: object) -> None:
    ((*_, found),) = Machine().run(show(expression), n=10)
    assert found == value and type(found) is type(value)


def test_grid_and_arguments_arrive_in_order() -> None:
    launch = Launch(0, (binary("ceildiv", N, 4), 2, 1), (X, N, -1.5, True))
    assert Machine().run(launch, x=64, n=10) == [(3, 2, 1, 64, 10, -1.5, True)]


def test_memory_of_a_block_goes_back_at_its_end_and_what_is_kept_does_not() -> None:
    machine = Machine()
    body = (Allocate("t", binary("mul", N, 4)), Allocate("k", 8, keep=True), show(Var("t"), Var("k")))
    assert machine.run(Allocate("whole", 16), For("i", 0, 2, 1, body), show(Var("whole")), n=10) == [(1, 1, 1, 1040, 2008)] * 2 + [(1, 1, 1, 1016)]
    assert machine.memory == ["t16", "t40", "k8", "t40", "k8"]
    assert machine.released == ["t40", "k8", "t40", "k8"]  # the machine cannot tell kept memory apart; the real one can


def test_loops_carry_values_and_swap_them() -> None:
    steps = (Move(("a", "b"), (1, 2)), For("i", N, 0, -3, (Move(("a", "b"), (Var("b"), Var("a"))), show(Var("i"), Var("a"), Var("b")))))
    assert [values[3:] for values in Machine().run(*steps, n=7)] == [(7, 2, 1), (4, 1, 2), (1, 2, 1)]


def test_a_while_computes_its_condition_anew() -> None:
    less = binary("cmp", Var("i"), Var("limit"), dtype="BOOL", statics=(("cmp_type", 2),))
    steps = (Compute("i", 0), While((Read("limit", 100, "INT32"),), less, (show(Var("i")), Compute("i", binary("add", Var("i"), 1)))))
    assert [values[3] for values in Machine().run(*steps)] == [0, 1, 2]


def test_branches_and_checks() -> None:
    big = binary("cmp", N, 5, dtype="BOOL", statics=(("cmp_type", 4),))
    steps = (If(big, (show(1),), (show(0),)), If(big, (), (show(2),)), Check(big, 3, (N, 9)))
    assert [values[3] for values in Machine().run(*steps, n=6)] == [1]
    machine = Machine()
    with pytest.raises(IndexError, match=r"\(3, 5, 9\)"):
        machine.run(*steps, n=5)
    assert [values[3] for values in machine.launched] == [0, 2]


def test_names_that_python_or_the_run_time_uses_are_changed() -> None:
    names = {"for": 1, "stream": 2, "memory": 3, "a.b": 4, "a_b": 5, "launch_0": 6, "0": 7}
    assert Machine().run(show(*(Var(name) for name in names)), **names) == [(1, 1, 1, 1, 2, 3, 4, 5, 6, 7)]

"""Python functions that stored host functions call: one object each, with their attributes and all that their texts name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tests.ranks.kernels_of_a_module import times
from tilejit import ir
from tilejit.errors import ArtifactError
from tilejit.runtime import CompiledProgram, DistributedConfig

NR = pl.dynamic("NR")
X = np.arange(16, dtype=np.float32).reshape(2, 8)
FACTOR = 2


def with_factor(factor: int) -> Callable[[Any], Any]:
    def added(function: Any) -> Any:
        function.factor = factor
        return function

    return added


def host_with(by: Any) -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], by(), device=r)

    return host


@with_factor(6)
def own() -> int:
    return own.factor


def powers(count: int = 2) -> int:
    return 1 if count == 0 else powers(count - 1) * (2 if powers.__name__ == "powers" else 3)


REGISTERED: dict[str, object] = {}


def registered() -> int:
    return 2 if REGISTERED["me"] is registered and even(4) else 1


REGISTERED["me"] = registered


def even(number: int) -> bool:
    return number == 0 or odd(number - 1)


def odd(number: int) -> bool:
    return number != 0 and even(number - 1) and even.__qualname__ == "even"


def with_itself(me: list[object] = []) -> int:  # noqa: B006
    return 3 if me[0] is with_itself else 1


with_itself.__defaults__[0].append(with_itself)  # type: ignore[index]


@with_factor(5)
def marked() -> int:
    return 1


MARKED = [marked]


def by_text() -> int:
    return getattr(marked, "factor", 1)


def by_another_name() -> int:
    found = marked
    return found.factor


def in_a_list() -> int:
    return MARKED[0].factor + len(vars(marked))


def by_default(function=marked) -> int:  # pyright: ignore  (an annotation would have to be stored too)
    return function.factor + (function.__module__ == __name__)


@pytest.mark.parametrize("by", [own, powers, registered, with_itself, by_text, by_another_name, in_a_list, by_default])
def test_a_stored_function_is_one_object_with_its_attributes(by: Any) -> None:
    host = host_with(by)
    found: Any = CompiledProgram.from_dir(host.compile(X, config=on(2)).output_dir)
    np.testing.assert_array_equal(host(X, config=on(2)), by() * X)
    np.testing.assert_array_equal(found(X), by() * X)


def test_attributes_that_no_other_process_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked, "lock", object(), raising=False)
    with pytest.raises(ArtifactError, match=r"marked\.lock"):
        _ = host_with(by_text).compile(X, config=on(2)).output_dir


def by_globals() -> int:
    return globals()["FACTOR"]


def by_eval() -> int:
    return eval("FACTOR")


def by_function() -> int:
    return by_function.__globals__["FACTOR"]


def by_locals(factor: int = FACTOR) -> int:
    return vars()["factor"]


TOOLS = (eval,)


def by_a_tool() -> int:
    return TOOLS[0]("FACTOR")


@pytest.mark.parametrize("by", [by_globals, by_eval, by_function, by_locals, by_a_tool])
def test_texts_that_ask_for_names_by_their_text_are_refused(by: Any) -> None:
    with pytest.raises(ArtifactError, match="tells of the names around it"):
        _ = host_with(by).compile(X, config=on(2)).output_dir


def by_kernel() -> int:
    return 2 if hasattr(times, "compile") else 1


def by_kind() -> int:
    return 2 if type(times).__name__ == "JITFunction" else 1


def by_kind_under_another_name() -> int:
    other = times
    return 2 if type(other).__name__ == "JITFunction" else 1


def by_kind_in_a_walrus() -> int:
    return 2 if (other := times) and isinstance(other, type(pl.exp)) else 1


def by_kind_of_one_of_several() -> int:
    found = [kernel for kernel in (times, times if FACTOR else None) if not isinstance(kernel, type(powers))]
    return len(found)


def by_attribute_of_a_member() -> int:
    both = {"one": times}
    first = both["one"]
    again = first
    return 2 if hasattr(again, "compile") else 1


def by_kind_in_a_helper() -> int:
    return kind_of(times)


def kind_of(kernel: object) -> int:
    return 2 if isinstance(kernel, type(powers)) else 1


def by_its_text() -> int:
    return len(f"{times}")


def by_match() -> int:
    match times:
        case kernel:
            return 2 if hasattr(kernel, "compile") else 1


@pytest.mark.parametrize("by", [by_kernel, by_kind])
def test_texts_that_ask_what_a_kernel_is_are_refused(by: Any) -> None:
    with pytest.raises(ArtifactError, match="of a kernel"):
        _ = host_with(by).compile(X, config=on(2)).output_dir


@pytest.mark.parametrize("by", [by_kind_in_a_walrus, by_kind_of_one_of_several, by_attribute_of_a_member, by_kind_in_a_helper, by_its_text, by_match])
def test_a_stored_program_that_asks_what_a_kernel_is_in_another_way_is_told_that_it_cannot(by: Any) -> None:
    host = host_with(by)
    stored: Any = CompiledProgram.from_dir(host.compile(X, config=on(2)).output_dir)
    with pytest.raises(ArtifactError, match=r"`times.* is asked for by a stored program"):
        stored(X)


def test_the_class_of_a_kernel_has_its_name_in_a_stored_program() -> None:
    host = host_with(by_kind_under_another_name)
    stored: Any = CompiledProgram.from_dir(host.compile(X, config=on(2)).output_dir)
    np.testing.assert_array_equal(stored(X), host(X, config=on(2)))


@functools.wraps(times, updated=())
def around_a_kernel(*args, **named):  # pyright: ignore  (annotations would have to be stored too)
    return around_a_kernel.__wrapped__(*args, **named)  # pyright: ignore[reportFunctionMemberAccess]


def test_a_function_around_a_kernel_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            around_a_kernel(x[r], y[r], 3, device=r)

    found: Any = CompiledProgram.from_dir(host.compile(X, config=on(2)).output_dir)
    np.testing.assert_array_equal(found(X), 3 * X)
    monkeypatch.setattr(times, "factor", 2, raising=False)
    with pytest.raises(ArtifactError, match=r"`times\.factor` is an attribute of a kernel"):
        _ = host.compile(X, config=on(2)).output_dir


def test_a_name_may_be_a_variable_of_a_comprehension_too() -> None:
    def by() -> int:
        return sum([FACTOR + 0 for FACTOR in (20, 30)]) + FACTOR + sum([max - 1 for max in (1,)]) + max(1, 3)

    found: Any = CompiledProgram.from_dir(host_with(by).compile(X, config=on(2)).output_dir)
    np.testing.assert_array_equal(found(X), 55 * X)


__WEIGHT = 3
_WithPrivateNames__WEIGHT = 2


@pl.program
class WithPrivateNames:
    @pl.function(type=pl.FunctionType.Orchestration)
    def by(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], factor: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * pl.cast(factor, pl.FP32)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            self.by(x[r], y[r], __WEIGHT, device=r)


def test_private_names_of_a_class_are_refused() -> None:
    compiled: Any = ir.compile(WithPrivateNames, distributed_config=DistributedConfig([0, 1]))
    np.testing.assert_array_equal(compiled(X), 2 * X)
    with pytest.raises(ArtifactError, match="`__WEIGHT` of `all` is a private name"):
        _ = compiled.output_dir

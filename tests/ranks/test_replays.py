"""Calls of host functions that are done again without their text: only where nothing that the text could know is different."""

from __future__ import annotations

import builtins
import codecs
import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tilejit import ir
from tilejit.errors import StaleCaptureError
from tilejit.jit.hosts import ranks, replays

NR = pl.dynamic("NR")
FACTOR = 2
FACTORS = [2, 3]
Texts = list[str]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Texts:
    """The host functions whose text has run, in order; nothing is kept of earlier calls."""
    seen: Texts = []
    monkeypatch.setattr(replays, "_replays", weakref.WeakKeyDictionary())
    plain: Callable[..., object] = ranks.run_text

    def counted(definition: Any, *args: Any) -> object:
        seen.append(definition.name)
        return plain(definition, *args)

    monkeypatch.setattr(ranks, "run_text", counted)
    return seen


def rows(seed: int, count: int = 2) -> Any:
    return np.random.default_rng(seed).integers(-99, 99, (count, 8)).astype(np.float32)


@pl.jit
def times(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.Scalar[pl.INT32]):
    y[:] = x * pl.cast(by, pl.FP32)


@pl.jit
def plus(x: pl.Tensor[[8], pl.FP32], total: pl.InOut[pl.Tensor[[8], pl.FP32]]):
    total[:] = total + x


def factor_of(rank: int) -> int:
    return FACTOR + rank


@pl.jit.host
def scaled(x: pl.Tensor[[NR, 8], pl.FP32], more: pl.Scalar[pl.INT32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], factor_of(r) + more, device=r)


def test_the_text_runs_once_for_equal_shapes_and_numbers(texts: Texts) -> None:
    by = np.array([[2], [3]], np.float32)
    for seed in range(4):
        x, y = rows(seed), np.empty((2, 8), np.float32)
        scaled(x, 0, y=y, config=on(2))
        np.testing.assert_array_equal(y, x * by)
        np.testing.assert_array_equal(scaled(x, 5, config=on(2)), x * (by + 5))
    assert texts == ["scaled"] * 2


def test_other_numbers_shapes_and_worlds_run_it_again(texts: Texts) -> None:
    x = rows(1, 4)
    for more, world in ((0, 2), (1, 2), (True, 2), (0, 3), (0, 2)):
        found = scaled(x[:world], more, config=on(world))
        np.testing.assert_array_equal(found, x[:world] * (np.arange(world, dtype=np.float32)[:, None] + 2 + more))
    assert len(texts) == 4


@pl.jit.host
def by_name_only(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], *, by: int = 2):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], by, device=r)


def test_keyword_only_parameters_are_given_by_name() -> None:
    for seed in range(2):
        x, y = rows(seed), np.empty((2, 8), np.float32)
        np.testing.assert_array_equal(by_name_only(x, config=on(2)), x * 2)
        by_name_only(y=y, by=5, x=x, config=on(2))
        np.testing.assert_array_equal(y, x * 5)
        by_name_only.compile(x, y, by=7, config=on(2))(x, y, by=7)
        np.testing.assert_array_equal(y, x * 7)


def test_what_the_text_reads_of_python_counts(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(2)
    for factor in (2, 2, 7, 7, 2):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        np.testing.assert_array_equal(scaled(x, 0, config=on(2)), x * (np.array([[0], [1]], np.float32) + factor))
    assert len(texts) >= 2
    calls = len(texts)
    scaled(x, 0, config=on(2))
    assert len(texts) == calls
    monkeypatch.setattr(factor_of, "__code__", (lambda rank: 10 - rank).__code__)
    np.testing.assert_array_equal(scaled(x, 0, config=on(2)), x * np.array([[10], [9]], np.float32))


def test_what_can_change_unseen_is_read_every_time(texts: Texts) -> None:
    by = 2

    @pl.jit.host
    def listed(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], FACTORS[r], device=r)

    @pl.jit.host
    def enclosed(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], by, device=r)

    x = rows(3)
    for first in (2, 5, 5):
        FACTORS[0] = by = first
        np.testing.assert_array_equal(listed(x, config=on(2)), x * np.array([[first], [3]], np.float32))
        np.testing.assert_array_equal(enclosed(x, config=on(2)), x * np.float32(first))
    assert (texts.count("listed"), texts.count("enclosed")) == (3, 2)
    FACTORS[0] = 2


@pl.jit.host
def chained(x: pl.Tensor[[8], pl.FP32], y: pl.InOut[pl.Tensor[[8], pl.FP32]], z: pl.InOut[pl.Tensor[[8], pl.FP32]]):
    t = pl.create_tensor([8], dtype=pl.FP32)
    plus(x, t, device=0)
    plus(t, y, device=1)
    plus(y, z, device=0)


def test_tensors_that_share_memory_are_ordered_by_it(texts: Texts) -> None:
    """One array for two parameters makes the steps of another order than two arrays do."""
    for seed in range(3):
        x, y, z = rows(seed, 3)
        wanted = z + (y + x)
        chained(x, y, z, config=on(2))
        np.testing.assert_array_equal(z, wanted)
        x, y, _ = rows(seed, 3)
        wanted = (y + x) + (y + x)
        chained(x, y, y, config=on(2))
        np.testing.assert_array_equal(y, wanted)
    assert len(texts) == 4


def test_arrays_are_let_go_and_results_are_new() -> None:
    x = rows(4)
    first = scaled(x, 0, config=on(2))
    kept, second = first.copy(), scaled(x + 1, 0, config=on(2))
    np.testing.assert_array_equal(first, kept)
    gone = weakref.ref(second)
    del second
    assert gone() is None


def test_calls_at_the_same_time_have_records_of_their_own(texts: Texts) -> None:
    wrong: list[int] = []

    def call(seed: int) -> None:
        for turn in range(10):
            x = rows(100 * seed + turn)
            if not np.array_equal(scaled(x, seed, config=on(2)), x * (np.array([[2], [3]], np.float32) + seed)):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed // 2,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(texts) <= 4


@pl.program
class Doubled:
    @pl.function(type=pl.FunctionType.Orchestration)
    def double(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * 2.0

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            self.double(x[r], y[r], device=r)


def test_programs_and_failures(texts: Texts) -> None:
    compiled: Any = ir.compile(Doubled)
    for seed in range(3):
        x = rows(seed)
        np.testing.assert_array_equal(compiled(x, config=on(2)), 2 * x)
        with pytest.raises(IndexError):
            compiled(rows(seed, 1), config=on(2))
    assert len(texts) == 1 + 3


@pl.program
class Nested:
    @pl.function(type=pl.FunctionType.Orchestration)
    def by(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], factor: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * pl.cast(factor, pl.FP32)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def inner(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            self.by(x[r], y[r], FACTOR, device=r)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def outer(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        self.inner(x, y)


def test_what_the_other_host_functions_of_a_program_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: Any = ir.compile(Nested)
    x = rows(7)
    for factor in (2, 2, 7, 7):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        np.testing.assert_array_equal(compiled["outer"](x, config=on(2)), x * factor)


# what is bound while a text runs ---------------------------------------------------------------------------------------------------


STATE: dict[str, str] = {"global": "FACTOR = {}", "cell": "hold({})", "attribute": "owner.value = {}"}
SPELLED = {"global": "FACTOR", "cell": "held()", "attribute": "owner.value"}


@pytest.mark.parametrize("where", ["host", "helper", "inner host"])
@pytest.mark.parametrize("kind", STATE)
def test_what_other_threads_bind_while_a_text_runs_and_take_back_is_not_kept(kind: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names mean something else from the moment that they were looked at until the text has run: a record of that is none of theirs."""
    names: dict[str, Any] = {"pl": pl, "pld": pld, "NR": NR, "times": times}
    params = "x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]"
    factor = "read()" if where == "helper" else SPELLED[kind]
    launches = f"for r in pl.range(pld.world_size()): times(x[r], y[r], {factor}, device=r)"
    text = f"""
def made(number):
    def held():
        return number
    def hold(new):
        nonlocal number
        number = new
    return held, hold
FACTOR, (held, hold) = 3, made(3)
def owner():
    return 0
owner.value = 3
def read():
    return {SPELLED[kind]}
@pl.jit.host
def inner({params}):
    {launches}
@pl.jit.host
def host({params}):
    {"inner(x, y)" if where == "inner host" else launches}
"""
    exec(text, names)
    plain: Callable[..., object] = ranks.run_text

    def meanwhile(*args: Any) -> object:
        exec(STATE[kind].format(4), names)
        try:
            return plain(*args)
        finally:
            exec(STATE[kind].format(3), names)

    x = rows(6)
    with monkeypatch.context() as patch:
        patch.setattr(ranks, "run_text", meanwhile)
        names["host"](x, config=on(2))
    for _ in range(2):
        np.testing.assert_array_equal(names["host"](x, config=on(2)), x * 3)


# what only looks steady ----------------------------------------------------------------------------------------------------------


def by_keyword(*, k: int = 3) -> int:
    return k


offset = 3


def shifted(function: Callable[[], int]) -> Callable[[], int]:
    @functools.wraps(function)
    def around() -> int:
        return function() + offset

    return around


@shifted
def nothing() -> int:
    return 0


READS: dict[str, tuple[str, Callable[[dict[str, Any], pytest.MonkeyPatch], None]]] = {
    "keyword default in place": ("by_keyword()", lambda names, patch: patch.setitem(cast("Any", by_keyword).__kwdefaults__, "k", 4)),
    "global of a wrapper": ("nothing()", lambda names, patch: patch.setitem(globals(), "offset", 4)),
    "builtin that the language has too": ("max(3, 2)", lambda names, patch: names.update(max=lambda *of: 4)),
    "builtin that is patched": ("max(3, 2)", lambda names, patch: patch.setattr(builtins, "max", lambda *of, **more: 4 if of == (3, 2) else OWN(*of, **more))),
    "attribute of a function": ("owner.value", lambda names, patch: setattr(names["owner"], "value", 4)),
    "attributes of a function replaced": ("owner.value", lambda names, patch: setattr(names["owner"], "__dict__", {"value": 4})),
    "list in an attribute": ("owner.shape[0]", lambda names, patch: names["owner"].shape.__setitem__(0, 4)),
    "function in an attribute": ("owner.add()", lambda names, patch: names.update(number=4)),
    "builtin in a tuple": ("builtin[0](owner)['value']", lambda names, patch: setattr(names["owner"], "value", 4)),
    "list among constants": ("owner()[0]", lambda names, patch: names["owner"]().__setitem__(0, 4)),
    "attribute of a member of an enum": ("pl.Level.CORE_GROUP.shape", lambda names, patch: patch.setattr(pl.Level.CORE_GROUP, "shape", 4)),
    "attribute of an enum": ("pl.Level.CORE_GROUP.sin", lambda names, patch: patch.setattr(pl.Level, "sin", 4)),
    "attribute of a class by another name": ("kind.value", lambda names, patch: patch.setattr(pl.Tensor, "value", 4)),
    "text of a number of NumPy": ("3 + (len(str(third)) < 16)", lambda names, patch: np.set_printoptions(legacy="1.13")),
    "text of bytes": ("int(str(b'\\xff', 'ascii', 'of_replays'))", lambda names, patch: handle_errors_by("4")),
    "attribute of a kernel": ("times.value", lambda names, patch: patch.setattr(times, "value", 4)),
}
OWN = max


def handle_errors_by(text: str) -> None:
    codecs.register_error("of_replays", lambda error: (text, cast("UnicodeDecodeError", error).end))


@pytest.mark.parametrize("read", READS)
def test_a_text_whose_names_may_mean_something_else_runs_again(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expression, change = READS[read]
    for owner, name in ((times, "value"), (pl.Level.CORE_GROUP, "shape"), (pl.Level, "sin"), (pl.Tensor, "value")):
        monkeypatch.setattr(owner, name, 3, raising=False)
    handle_errors_by("3")
    names: dict[str, Any] = {"kind": pl.Tensor, "third": np.float64(1 / 3)}
    names |= {"pl": pl, "pld": pld, "NR": NR, "by_keyword": by_keyword, "nothing": nothing, "times": times}
    text = f"""
number, builtin = 3, (vars,)
def owner():
    return 987
owner.__code__ = owner.__code__.replace(co_consts=tuple([3] if constant == 987 else constant for constant in owner.__code__.co_consts))
owner.value, owner.shape, owner.add = 3, [3], lambda: number
@pl.jit.host
def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], {expression}, device=r)
"""
    exec(text, names)
    x = rows(5)
    with np.printoptions():
        for factor in (3, 4):
            for _ in range(3):
                np.testing.assert_array_equal(names["host"](x, config=on(2)), x * factor)
            change(names, monkeypatch)


@pytest.mark.filterwarnings("ignore:`y` has 2 slices")
@pytest.mark.parametrize("own", [lambda count: range(count + first), functools.partial(lambda count: range(count + first))], ids=["function", "object"])
def test_what_stands_in_place_of_a_function_of_the_language_runs_every_time(own: Callable[[int], range], texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], 3, device=r)

    x = rows(5)
    monkeypatch.setattr(pl, "range", own)
    for count in (0, -1):
        monkeypatch.setitem(globals(), "first", count)
        np.testing.assert_array_equal(host(x, config=on(2)), x * [[3], [3 if count == 0 else 0]])
    assert texts == ["host"] * 2


first = 0
weight = 2.0


def set_weight(value: float) -> None:
    global weight
    weight = value


@pytest.mark.parametrize("policy", ["recompile", "raise", "ignore"])
def test_what_a_kernel_reads_may_not_change_between_two_launches_of_one_call(policy: str) -> None:
    def weighted(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        y[:] = x * weight

    kernel = pl.jit(on_drift=policy)(weighted)

    @pl.jit.host
    def both(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], last: float):
        set_weight(2.0)
        kernel(x[0], y[0], device=0)
        set_weight(last)
        kernel(x[1], y[1], device=1)

    x = rows(7)
    np.testing.assert_array_equal(both(x, last=2.0, config=on(2)), 2 * x)
    if policy == "ignore":
        np.testing.assert_array_equal(both(x, last=3.0, config=on(2)), 2 * x)
    else:
        with pytest.raises(StaleCaptureError, match="weighted"):
            both(x, last=3.0, config=on(2))


PICKED = [2.0, 2.0]


@pl.jit(on_drift="recompile")
def picked(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], first: bool):
    y[:] = x * (PICKED[0] if first else PICKED[1])


@pl.jit.host
def picks_first(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        picked(x[r], y[r], True, device=r)


@pl.jit.host
def picks_second(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        picked(x[r], y[r], False, device=r)


def test_launches_that_share_a_program_stand_on_what_each_of_them_read() -> None:
    x = rows(8)
    PICKED[:] = [2.0, 2.0]
    for _ in range(2):
        np.testing.assert_array_equal(picks_first(x, config=on(2)), 2 * x)
        np.testing.assert_array_equal(picks_second(x, config=on(2)), 2 * x)
    PICKED[1] = 5.0
    np.testing.assert_array_equal(picks_second(x, config=on(2)), 5 * x)
    np.testing.assert_array_equal(picks_first(x, config=on(2)), 2 * x)


@pl.jit.host
def picks_second_too(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        picked(x[r], y[r], False, device=r)


def test_a_record_stands_on_what_its_own_launches_read() -> None:
    """One host function has noticed a change already; the record of another one has the kernel of before, and a third the same by other reads."""
    x = rows(9)
    PICKED[:] = [2.0, 2.0]
    for host in (picks_first, picks_second, picks_second_too) * 2:
        np.testing.assert_array_equal(host(x, config=on(2)), 2 * x)
    PICKED[1] = 5.0
    np.testing.assert_array_equal(picks_second_too(x, config=on(2)), 5 * x)
    np.testing.assert_array_equal(picks_second(x, config=on(2)), 5 * x)
    np.testing.assert_array_equal(picks_first(x, config=on(2)), 2 * x)


@pl.jit(on_drift="recompile")
def alone(x: pl.Tensor[[8], pl.FP32], w: pld.DistributedTensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: float = 2.0):
    y[:] = x * by


def test_a_function_that_takes_windows_has_the_defaults_of_now_when_it_is_called_alone() -> None:
    x, w, y = rows(10)[0], np.zeros(8, np.float32), np.empty(8, np.float32)
    for by in (2.0, 3.0, 4.0):
        cast("Any", alone.origin()).__defaults__ = (by,)
        alone(x, w, y)
        np.testing.assert_array_equal(y, by * x)

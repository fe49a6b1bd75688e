"""What is replaced in a kernel counts however it is called: by the tuner, by a host function of ranks, before its first call; so does another environment."""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable
from types import FunctionType
from typing import Annotated, Any, Optional, cast

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.jit.conftest import MakeKernel
from tilejit.errors import ParserSyntaxError, StaleCaptureError
from tilejit.jit.reads import watch
from tilejit.runtime import DistributedConfig, RunConfig
from tilejit.runtime.call import layout

X = np.zeros((2, 4, 8), np.float32)
RANKS = pl.dynamic("RANKS")
TWOS = np.full((4, 8), 2, np.float32)
ALONE = RunConfig(distributed_config=DistributedConfig([0, 1], engine="local"))


def follows(change: Callable[[int], None], call: Callable[[], Any]) -> None:
    """Every change is in the result of the next call and of those after it."""
    for value in (3, 4, 3, 5):
        change(value)
        assert [float(call().flat[0]) for _ in range(3)] == [value] * 3


@pytest.mark.dispatch
@pytest.mark.parametrize("way", ["in place", "replaced"])
def test_keyword_defaults_of_a_kernel_that_is_tuned(way: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))

    @pl.autotune([{"b": 1}, {"b": 2}], progress=False)
    @pl.jit
    def tuned(x: pl.Tensor, *, b: int = 1, n: int = 3):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + float(n + b - b)
        return y

    plain: Any = tuned.kernel.definition.function

    def change(n: int) -> None:
        if way == "in place":
            plain.__kwdefaults__["n"] = n
        else:
            plain.__kwdefaults__ = {"b": 1, "n": n}

    follows(change, lambda: tuned(X[0]))


def test_the_code_of_a_kernel_that_is_tuned(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))

    @pl.autotune([{"b": 1}, {"b": 2}], progress=False)
    @pl.jit
    def tuned(x: pl.Tensor, *, b: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + float(3) + float(b - b)
        return y

    def other(x: pl.Tensor, *, b: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + 4.0
        return y

    assert tuned(X[0])[0, 0] == 3
    tuned.kernel.definition.function.__code__ = other.__code__
    assert [tuned(X[0])[0, 0] for _ in range(3)] == [4] * 3


def test_a_kernel_that_was_explained_is_read_anew(platform: str) -> None:
    """Which extents are dynamic is part of what was read."""

    @pl.jit
    def kernel(x: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + float(3)
        return y

    def other(x: pl.Tensor):
        rows = pl.dynamic("rows")
        x.bind_dynamic(0, rows)
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x * 2.0
        return y

    kernel.explain(X[0])
    kernel.__wrapped__.__code__ = other.__code__  # type: ignore[attr-defined]
    found = [kernel(np.ones((rows, 8), np.float32)) for rows in (2, 3, 5)]
    assert [array.shape[0] for array in found] == [2, 3, 5] and all((array == 2).all() for array in found)
    assert kernel.cache_info().entries == 1, "one program serves all its extents"


@pl.jit(on_drift="recompile")
def launched(x: pl.Tensor, y: pl.Out[pl.Tensor], n: pl.Scalar[pl.INT32] = 3):  # type: ignore[assignment]
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x + pl.cast(n, pl.FP32)


@pl.jit.host
def by_default(x: pl.Tensor[[RANKS, 4, 8], pl.FP32], y: pl.Out[pl.Tensor[[RANKS, 4, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        launched(x[r], y[r], device=r)


@pl.jit.host
def with_default(x: pl.Tensor[[RANKS, 4, 8], pl.FP32], y: pl.Out[pl.Tensor[[RANKS, 4, 8], pl.FP32]], n: int = 3):
    for r in pl.range(pld.world_size()):
        launched(x[r], y[r], n, device=r)


@pytest.mark.parametrize(("host", "changed"), [(by_default, launched), (with_default, with_default)], ids=["launched", "host"])
def test_defaults_on_ranks(host: Any, changed: Any) -> None:
    follows(lambda n: setattr(changed.__wrapped__, "__defaults__", (n,)), lambda: host(X, config=ALONE))
    changed.__wrapped__.__defaults__ = (3,)


shift = 3.0


@pl.jit
def shifted(x: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x + shift
    return y


@pytest.mark.dispatch
@pytest.mark.skipif(os.name != "posix", reason="elsewhere settings are asked through os.environ")
def test_another_dict_behind_the_environment(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    global shift
    cast("Any", shifted).cache_clear()
    for _ in range(3):
        shifted(X[0])
    own = vars(os.environ)["_data"]
    monkeypatch.setattr(os.environ, "_data", {**own, b"TILEJIT_ON_DRIFT": b"recompile"})
    shift = 4.0
    assert [shifted(X[0])[0, 0] for _ in range(3)] == [4] * 3
    monkeypatch.setattr(os.environ, "_data", own)
    shift = 3.0
    for _ in range(2):
        with pytest.raises(StaleCaptureError):
            shifted(X[0])


@pytest.mark.dispatch
def test_another_environment(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests put a plain dict in the place of os.environ; settings are read there then."""
    global shift
    cast("Any", shifted).cache_clear()
    for _ in range(3):
        shifted(X[0])
    own = os.environ
    monkeypatch.setattr(os, "environ", {**own, "TILEJIT_ON_DRIFT": "ignore"})
    shift = 4.0
    assert [shifted(X[0])[0, 0] for _ in range(3)] == [3] * 3
    monkeypatch.setattr(os, "environ", {**own, "TILEJIT_ON_DRIFT": "recompile"})
    assert [shifted(X[0])[0, 0] for _ in range(3)] == [4] * 3
    monkeypatch.setattr(os, "environ", own)
    shift = 3.0
    for _ in range(2):
        with pytest.raises(StaleCaptureError):
            shifted(X[0])


def test_explain_speaks_of_the_code_that_a_call_would_run(platform: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))

    @pl.jit(on_drift="recompile")
    def first(x: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + 1.0
        return y

    @pl.jit
    def second(x: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + 2.0
        return y

    assert first(X[0])[0, 0] == 1.0
    assert first.explain(X[0]).hit == "memory"
    cast("Any", first).__wrapped__.__code__ = cast("Any", second).__wrapped__.__code__
    said = first.explain(X[0])
    assert said.hit is None and "text of the kernel" in str(said)
    assert first(X[0])[0, 0] == 2.0
    assert first.explain(X[0]).hit == "memory"


def test_bound_calls_have_the_defaults_of_now() -> None:
    @pl.jit(on_drift="recompile")
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], by: pl.Tensor = TWOS):  # pyright: ignore[reportArgumentType]
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * by

    x, out = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32), np.zeros((4, 8), np.float32)
    scaled(x, out)
    cast("Any", scaled.definition.function).__defaults__ = (np.full((4, 8), 3, np.float32),)
    scaled.bound_call(x, out).run()
    np.testing.assert_array_equal(out, x * 3)


def test_a_copy_of_an_inline_function_is_another_one() -> None:
    """With its attributes, as `functools.update_wrapper` copies them."""

    def helper(x: pl.Tensor, by: float = 2.0):
        return x * by

    first = pl.inline(helper)

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = first(x)

    x, out = np.random.default_rng(4).standard_normal((4, 8)).astype(np.float32), np.zeros((4, 8), np.float32)
    kernel(x, out)
    np.testing.assert_array_equal(out, x * 2)
    copy = FunctionType(helper.__code__, helper.__globals__, helper.__name__, (5.0,), helper.__closure__)
    vars(copy).update(vars(helper))
    second = pl.inline(copy)

    @pl.jit
    def other(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = second(x)

    other(x, out)
    np.testing.assert_array_equal(out, x * 5)


@pytest.mark.dispatch
@pytest.mark.parametrize("first", ["scoped", "unscoped"])
def test_a_function_may_be_inline_with_other_options_too(first: str, make_kernel: MakeKernel) -> None:
    def helper(x: pl.Tensor, out: pl.Tensor):
        with pl.scope():  # noqa: SIM117 (each is a statement of its own)
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = x * 2.0

    ways = {"scoped": pl.inline(helper), "unscoped": pl.function(type=pl.FunctionType.Inline, auto_scope=False)(helper)}
    kernels = {name: make_kernel("@pl.jit\ndef k(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    f(x, out)\n", f=f) for name, f in ways.items()}
    x, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    for name in sorted(kernels, key=lambda name: name != first):
        if name == "unscoped":
            kernels[name](x, out)
            np.testing.assert_array_equal(out, x * 2)
        else:
            with pytest.raises(ParserSyntaxError, match=r"an automatic pl\.scope in a function that is one itself"):
                kernels[name](x, out)


@pytest.mark.dispatch
def test_a_wrapped_inline_function_is_followed() -> None:
    def helper(x: pl.Tensor, by: float = 2.0):
        return x * by

    wrapped = pl.inline(functools.wraps(helper)(lambda *args: cast("Any", helper)(*args)))

    @pl.jit(on_drift="recompile")
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = wrapped(x)

    for by in (2.0, 3.0, 4.0):
        helper.__defaults__ = (by,)
        assert [float(kernel(TWOS)[0, 0]) for _ in range(3)] == [2 * by] * 3


def test_attributes_of_a_function_are_not_those_of_its_kernel() -> None:
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0

    def tripled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 3.0

    x, out = np.random.default_rng(5).standard_normal((4, 8)).astype(np.float32), np.zeros((4, 8), np.float32)
    doubled(x, out)
    vars(tripled).update({name: value for name, value in vars(doubled).items() if name != "__wrapped__"}, compile="never", note="kept")
    kernel = pl.jit(tripled)
    kernel(x, out)
    np.testing.assert_array_equal(out, x * 3)
    assert kernel.compile(x, out) is kernel.compile(x, out)
    assert cast("Any", kernel).note == "kept"


@pytest.mark.dispatch
def test_code_with_its_parameters_in_another_order() -> None:
    @pl.jit(on_drift="recompile")
    def kernel(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x - y

    def turned(y: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x - y

    plain = cast("Any", kernel.definition.function)
    x, y, out = np.full((4, 8), 5, np.float32), np.full((4, 8), 2, np.float32), np.zeros((4, 8), np.float32)
    for code, wanted in ((plain.__code__, 3), (turned.__code__, -3), (plain.__code__, 3)):
        plain.__code__ = code
        for _ in range(4):
            kernel(x, y, out)
            assert (out == wanted).all()
        kernel(x=x, y=y, out=out)
        assert (out == 3).all()


def test_what_is_set_as_wrapped_later_is_no_other_text(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("@pl.jit\ndef k(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * 2.0\n")
    x = np.ones((2, 4), np.float32)
    assert kernel(x)[0, 0] == 2.0

    def other(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x * 3.0

    kernel.definition.function.__wrapped__ = other  # type: ignore[attr-defined]
    assert [float(kernel(x)[0, 0]) for _ in range(3)] == [2.0] * 3
    kernel.cache_clear()
    assert kernel(x)[0, 0] == 2.0


@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("annotation", ["Image", "Image | None", "None | Image", "Optional[Image]", "Annotated[Image | None, 3]"])
def test_a_class_that_comes_to_take_part_in_calls_does(annotation: str, fast: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)

    class Image:
        def __init__(self, pixels: np.ndarray) -> None:
            self.pixels = pixels * np.float32(3)

    names = {"Image": Image, "Optional": Optional, "Annotated": Annotated}
    kernel = make_kernel(f"@pl.jit\ndef k(x: {annotation}, out: pl.Out[pl.Tensor]):\n    out[:] = x * 1.0\n", **names)
    x = np.ones((2, 4), np.float32)
    assert [float(kernel(x)[0, 0]) for _ in range(4)] == [1.0] * 4
    Image.__cache_signature__ = lambda self: "Image"  # type: ignore[attr-defined]
    Image.__abi_slots__ = lambda self: (self.pixels,)  # type: ignore[attr-defined]
    assert [float(kernel(x)[0, 0]) for _ in range(4)] == [3.0] * 4
    del Image.__cache_signature__, Image.__abi_slots__  # type: ignore[attr-defined]
    assert [float(kernel(x)[0, 0]) for _ in range(4)] == [1.0] * 4


def _another_module() -> types.ModuleType:
    made = types.ModuleType("tilejit.language")
    vars(made).update(vars(pl))
    vars(made)["exp"] = pl.sin
    return made


LANGUAGE = cast("Any", pl)


def _another_lookup() -> types.ModuleType:
    before = LANGUAGE.__getattr__
    LANGUAGE.__dict__.pop("exp", None)
    LANGUAGE.__getattr__ = lambda name: before("sin" if name == "exp" else name)
    return pl


def _another_class() -> types.ModuleType:
    LANGUAGE.__class__ = type("Module", (types.ModuleType,), {"exp": property(lambda self: self.sin)})
    return pl


@pytest.mark.dispatch
@pytest.mark.parametrize("change", [_another_module, _another_lookup, _another_class])
def test_what_only_looks_like_the_language_is_read(make_kernel: MakeKernel, change: Callable[[], types.ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a mock puts it in place of `pl`: the names were taken for the language's own."""
    text = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = pl.exp(x)\n"
    kernel, x = make_kernel(text), np.ones((2, 4), np.float32)
    assert [round(float(kernel(x)[0, 0]), 2) for _ in range(3)] == [2.72] * 3
    own = LANGUAGE.__getattr__
    try:
        globals_of(kernel)["pl"] = change()
        with pytest.raises(StaleCaptureError):
            kernel(x)
        again = make_kernel(text)
        globals_of(again)["pl"] = globals_of(kernel)["pl"]
        assert round(float(again(x)[0, 0]), 2) == 0.84
    finally:
        LANGUAGE.__class__, LANGUAGE.__getattr__ = types.ModuleType, own
        LANGUAGE.__dict__.pop("exp", None)
    assert round(float(make_kernel(text)(x)[0, 0]), 2) == 2.72


def globals_of(kernel: Any) -> dict[str, Any]:
    return cast("FunctionType", kernel.definition.function).__globals__


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="numbers of x87")
def test_what_fills_the_place_of_a_number_is_no_change(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + float(A[0])\n", A=np.array([0.25], np.longdouble))
    assert [float(kernel(X[0])[0, 0]) for _ in range(3)] == [0.25] * 3
    other = np.array([0.25], np.longdouble)
    other.view(np.uint8)[10:] = 7
    globals_of(kernel)["A"] = other
    assert kernel(X[0])[0, 0] == 0.25
    globals_of(kernel)["A"] = other * 2
    with pytest.raises(StaleCaptureError):
        kernel(X[0])


@pytest.mark.dispatch
@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("name", ["F", "pl.exp"])
def test_what_changes_while_a_kernel_learns_what_to_look_at_is_noticed(
    make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, name: str, native: str
) -> None:
    """As another thread does it, between the answer and the look at where it came from."""
    monkeypatch.setenv("TILEJIT_FASTPATH", native)
    kernel = make_kernel("@pl.jit(on_drift='recompile')\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = pl.exp(x) * F\n", F=2.0)
    rows = watch._rows  # pyright: ignore[reportPrivateUsage]

    changes: list[object] = []

    def changed(step: Any, objects: list[object]) -> Any:
        changes.append(step)
        if name == "F":
            globals_of(kernel)["F"] = 4.0
        else:
            LANGUAGE.exp = pl.cos
        return rows(step, objects)

    try:
        with monkeypatch.context() as learning:
            learning.setattr(watch, "_rows", changed)
            kernel(X[0])
            assert kernel(X[0])[0, 0] == 2.0 and changes  # the second call is the one that learns
        assert [float(kernel(X[0])[0, 0]) for _ in range(3)] == [4.0 if name == "F" else 2.0] * 3
        x = np.ones((4, 8), np.float32)
        assert round(float(kernel(x)[0, 0]), 2) == (10.87 if name == "F" else 1.08)
    finally:
        LANGUAGE.__dict__.pop("exp", None)


@pytest.mark.dispatch
def test_a_value_that_goes_and_comes_while_a_kernel_learns_what_to_look_at_is_noticed(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread does it: the words of a helper are read under one value, and its answer is looked at under the other."""

    class Config:
        value = 1.0

    def get() -> float:
        return config.value

    config = Config()
    kernel = make_kernel("@pl.jit(on_drift='recompile')\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + get()\n", get=get)
    kernel(X[0])
    begin, hold = watch._Learned.__init__, watch._Learned._watched_hold  # pyright: ignore[reportPrivateUsage]
    changes: list[object] = []

    def begun(self: Any, *given: Any) -> None:
        config.value = 2.0
        begin(self, *given)

    def held(self: Any) -> bool:
        changes.append(self)
        config.value = 1.0
        try:
            return hold(self)
        finally:
            config.value = 2.0

    with monkeypatch.context() as learning:
        learning.setattr(watch._Learned, "__init__", begun)  # pyright: ignore[reportPrivateUsage]
        learning.setattr(watch._Learned, "_watched_hold", held)  # pyright: ignore[reportPrivateUsage]
        kernel(X[0])
    assert [float(kernel(X[0])[0, 0]) for _ in range(3)] == [2.0] * 3
    assert changes or not layout.supported()

"""The way from the first call of a process straight to its artifact: which calls have one, and that nothing is believed that is not so now."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.errors import OptionError, ShapeError, StaleCaptureError, TilejitError, TilejitWarning
from tilejit.jit.disk.stores import store
from tilejit.jit.function import JITFunction
from tilejit.jit.reads import facts

TEXT = """
import tilejit.language as pl

FACTOR = 2.0

@pl.jit
def plain(x: {tensor}, out: {out}):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(x) * {factor}
"""
OBJECTS = {"tensor": "pl.Tensor", "out": "pl.Out[pl.Tensor]"}
QUOTED = {name: f'"{text}"' for name, text in OBJECTS.items()}
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
Start = Callable[..., JITFunction]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """The kernel of a file, as a new process would have it: nothing of the disk is in memory."""
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernels.py"

    def started(factor: str = "3.0", **spelled: str) -> JITFunction:
        path.write_text(TEXT.format(factor=factor, **{**OBJECTS, **spelled}))
        facts._known.clear()
        facts._ways.clear()
        module = types.ModuleType("kernels")
        exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), module.__dict__)
        found = module.__dict__["plain"]
        assert isinstance(found, JITFunction)
        return found

    return started


def run(kernel: JITFunction, factor: float = 3.0, x: Any = X) -> bool:
    """Whether a call that gives the right numbers took a shortcut."""
    out = np.zeros_like(x)
    kernel(x, out)
    np.testing.assert_allclose(out, np.exp(x) * factor, rtol=1e-5)
    return kernel._remembered is not None


def space(kernel: JITFunction) -> dict[str, object]:
    function = kernel.definition.function
    assert isinstance(function, types.FunctionType)
    return function.__globals__


@pytest.mark.parametrize("spelled", [OBJECTS, QUOTED])
def test_the_next_process_takes_it_and_then_stands_on_what_it_would_have_asked(spelled: dict[str, str], start: Start) -> None:
    assert not run(start(**spelled))
    again = start(**spelled)
    assert run(again) and again.cache_info().loaded == 1 and again.cache_info().misses == 1
    assert not again._table, "nothing was asked"
    assert not run(again) and again.cache_info().hits == 1 and len(again._cache) == 1
    assert {known.shown for known in again._table.values()} > {"()"}
    for _ in range(3):
        run(again)


def test_what_a_call_is_decides_which_one(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run(start())
    for x in (X[:2], X.astype(np.float64), X.reshape(2, 2, 16)):
        assert not run(start(), x=x)
    assert not run(start("4.0"), 4.0), "another text"
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    assert not run(start()), "another setting"
    monkeypatch.delenv("TILEJIT_FAST_MATH")
    kernel = start()
    kernel.definition.function.__annotations__["x"] = pl.Tensor[[4, 16], pl.FP32]
    assert not run(kernel), "annotations that say more"
    assert run(start())


WITH_WAYS: list[tuple[str, Any]] = [
    ("out", pl.Out[pl.Tensor]),
    ("out", pl.InOut[pl.Tensor]),
    ("out", pl.Out[pl.like("x")]),
    ("out", pl.InOut[pl.like("x")]),
    ("out", "pl.Out[pl.Tensor]"),
    ("out", "pl.InOut[pl.Tensor]"),
    ("x", pl.InOut[pl.Tensor]),
]
TOLD: list[tuple[str, Any]] = [
    *WITH_WAYS,
    ("out", pl.Out[pl.like("nobody")]),
    ("out", pl.Out[pl.Tensor[[4, 16], pl.FP32]]),
    ("out", pl.Out[pl.Tensor[[4, 8], pl.FP32]]),
    ("out", pl.Out[pl.Tensor[[pl.dynamic("M"), 16], pl.FP32]]),
    ("out", pl.Out[pld.DistributedTensor]),
    ("out", pl.Out[list[pl.Tensor]]),
    ("out", 'pl.Out[pl.like("x")]'),
    ("out", 'pl.Out[pl.like("nobody")]'),
    ("x", pl.Tensor | None),
    ("x", pl.like("out")),
    ("x", np.ndarray),
    ("x", pl.constexpr),
]
"""What annotations may say of the parameters of the same lines."""


def outcome(kernel: JITFunction, told: tuple[str, Any]) -> str:
    """What comes of the first call of a kernel with another annotation."""
    kernel.definition.function.__annotations__[told[0]] = told[1]
    out = np.zeros_like(X)
    try:
        kernel(X, out)
    except TilejitError as error:
        return f"{type(error).__name__} {error.args[0]}"
    return str(float(out.sum()))


@pytest.mark.parametrize("before", WITH_WAYS, ids=str)
def test_whatever_annotations_say_tells_ways_apart(before: tuple[str, Any], start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TILEJIT_CACHE", "0")
        alone = [outcome(start(), told) for told in TOLD]
    outcome(start(), before)
    again = start()
    assert outcome(again, before) and again._remembered is not None
    for told, wanted in zip(TOLD, alone, strict=True):
        kernel = start()
        assert outcome(kernel, told) == wanted, told
        assert kernel._remembered is None or told == before, told


def test_another_parameter_that_an_output_is_like_is_another_way(start: Start) -> None:
    def called(name: str) -> bool:
        kernel, out = start(tensor="pl.Tensor, y: pl.Tensor", out="pl.Out[pl.Tensor]"), np.zeros_like(X)
        kernel.definition.function.__annotations__["out"] = pl.Out[pl.like(name)]
        kernel(X, X[:2], out)
        return kernel._remembered is not None

    with pytest.raises(ShapeError, match="by its annotation 2"):
        called("y")
    assert not called("x") and called("x")
    with pytest.raises(ShapeError, match="by its annotation 2"):
        called("y")


def test_kernels_that_read_something_else_have_none(start: Start) -> None:
    for _ in range(2):
        assert not run(start("FACTOR"), 2.0)
    kernel = start("FACTOR")
    space(kernel)["FACTOR"] = 5.0
    assert not run(kernel, 5.0)


def test_a_name_of_the_language_that_was_assigned_is_another_one(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run(start())
    with monkeypatch.context() as patch:
        patch.setattr(pl, "exp", pl.log)
        kernel, out, x = start(), np.zeros_like(X), np.abs(X) + 1
        kernel(x, out)
        assert kernel._remembered is None
        np.testing.assert_allclose(out, np.log(x) * 3, rtol=1e-5)
    assert run(start())


def test_what_changes_after_it_is_drift(start: Start) -> None:
    run(start())
    kernel = start()
    assert run(kernel)
    space(kernel)["pl"] = types.SimpleNamespace(**{name: getattr(pl, name) for name in ("at", "Level", "Tensor", "Out")}, exp=pl.log)
    with pytest.raises(StaleCaptureError, match="`pl`"):
        kernel(X, np.zeros_like(X))
    kernel, other = start(), start("4.0")
    start()  # the text as it was
    assert run(kernel)
    function = kernel.definition.function
    assert isinstance(function, types.FunctionType) and isinstance(other.definition.function, types.FunctionType)
    function.__code__ = other.definition.function.__code__
    with pytest.raises(StaleCaptureError, match="__code__"):
        kernel(X, np.zeros_like(X))


@pytest.mark.parametrize(
    "row", [b"", b"[", b"7", b'["x", {}]', b'["%s", 3]', b'["%s", {"pl": ["os", []]}]', b'["%s", {"nobody": ["tilejit.language", []]}]', b'["%s", {"pl": 1}]']
)
def test_planted_rows_are_not_believed(row: bytes, start: Start) -> None:
    run(start())
    kernel = start()
    filename = kernel.definition.block.filename
    (key,) = facts._on_disk(store(), filename)[1]
    facts.shortcut(filename, key)
    facts.keep_shortcut(filename, key, row.replace(b"%s", b"0" * 64))
    assert not run(start())
    assert json.loads(facts._on_disk(store(), filename)[1][key])[1], "it was written anew"


def test_an_artifact_that_is_gone_is_made_anew(start: Start) -> None:
    run(start())
    kernel = start()
    rows = facts._on_disk(store(), kernel.definition.block.filename)[1]
    store().remove(json.loads(next(iter(rows.values())))[0])
    assert not run(kernel) and run(start())


def test_calls_after_the_first_one_leave_it_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first call came to: a shortcut, an error, or what another thread did meanwhile."""
    run(start())
    kernel = start()
    assert run(kernel) and not run(kernel, x=X[:2])
    assert run(start()) and run(start(), x=X[:2]) is False
    other = start("4.0")
    with monkeypatch.context() as patch:
        patch.setenv("TILEJIT_FAST_MATH", "0")
        patch.setattr(JITFunction, "_compiled", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(other, 4.0)
    run(other, 4.0)
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    assert not run(start("4.0"), 4.0), "what was compiled later, with another setting, is not taken for it"


def test_settings_that_change_during_the_call_leave_none(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = JITFunction._compiled

    def changing(*args: Any) -> Any:
        monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
        return compiled(*args)

    with monkeypatch.context() as patch:
        patch.setattr(JITFunction, "_compiled", changing)
        run(start())
    monkeypatch.delenv("TILEJIT_FAST_MATH")
    assert not run(start()) and run(start())


@pytest.mark.parametrize("rest", ['"""Text\nat the margin."""', "_ = (\n0\n    )"])
def test_lines_that_are_not_the_whole_function_lead_nowhere(rest: str, start: Start) -> None:
    """Indentation says where a function ends, annotations of locals leave no trace in its code."""
    for dtype, tenth in (("FP32", 0.1), ("FP16", np.float16(0.1)), ("FP32", 0.1)):
        kernel, out = start(f"3.0\n    {rest}\n    n: pl.Scalar[pl.{dtype}] = 0.1\n    out[:] = out + n"), np.zeros_like(X)
        kernel(X, out)
        np.testing.assert_allclose(out, np.exp(X) * 3.0 + float(tenth), rtol=1e-6)
        assert kernel._remembered is None


def test_code_that_was_replaced_before_the_first_call_is_what_is_called(start: Start) -> None:
    annotated = "3.0\n    n: pl.Scalar[pl.{}] = 0.1\n    out[:] = out + n"
    one, out = start(annotated.format("FP32")), np.zeros_like(X)
    one(X, out)
    kernel = start(annotated.format("FP32"))
    kernel.explain(X, out)
    function, other = kernel.definition.function, start(annotated.format("FP16")).definition.function
    assert isinstance(function, types.FunctionType) and isinstance(other, types.FunctionType)
    function.__code__ = other.__code__
    kernel(X, out)
    np.testing.assert_allclose(out, np.exp(X) * 3.0 + float(np.float16(0.1)), rtol=1e-6)


def test_what_makes_no_sense_in_the_environment_is_named_as_by_any_first_call(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run(start())
    monkeypatch.setenv("TILEJIT_SHORTCUTZ", "1")
    with pytest.warns(TilejitWarning, match="TILEJIT_SHORTCUTZ is set, but tilejit has no such setting"):
        assert run(start())
    for variable in ("TILEJIT_CACHE_BYTES", "TILEJIT_DEBUG"):
        with monkeypatch.context() as wrong, pytest.raises(OptionError, match=variable):
            wrong.setenv(variable, "many")
            run(start())

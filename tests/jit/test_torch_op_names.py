"""A name of torch has one kernel: what counts as the same one that was made again, and what as another."""

from __future__ import annotations

import importlib
import runpy
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError
from tilejit.runtime.config import RunConfig

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
ANOTHER = r"is another kernel `.*<locals>\.f`[\s\S]*choose another name"
FACTOR = 2.0


def _first(candidate: object, run: Callable[[], object]) -> float:
    run()
    return 1.0


def made(s: object = 2, plain: bool = False, times: object = None, kind: str = "orchestration", **options: Any) -> Any:
    @pl.jit(on_drift="raise" if kind == "orchestration" else "recompile")
    def f(x: pl.Tensor, out: pl.Out[pl.Tensor], s: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(s)

    return f if plain else pl.autotune({"s": [s]}, progress=False, **options)(f)


def _right(x: Any) -> Any:
    return 2 * x


def _with_a_lambda(by: float) -> Any:
    return made(reference=lambda x: x * by)


OTHERS: dict[str, Callable[[], Any]] = {
    "candidates": lambda: made(3),
    "a candidate of another type": lambda: made(2.0),
    "a schedule": lambda: made(schedule={"f/nest0": {"lanes": [4, 8]}}),
    "a reference": lambda: made(reference="numpy"),
    "a function as reference": lambda: made(reference=_right),
    "a function that is made each time": lambda: _with_a_lambda(2.0),
    "a key": lambda: made(key=("x.shape[0]",)),
    "an effort": lambda: made(effort="full"),
    "a budget": lambda: made(budget=1.0),
    "a seed": lambda: made(seed=1),
    "a timer": lambda: made(timer=_first),
    "no tuning": lambda: made(plain=True),
    "an option of the kernel": lambda: made(kind="other"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_kernel_that_a_function_makes_with_something_else_to_choose_from_is_another_one(what: str) -> None:
    name, x = f"tilejit_names::{what.replace(' ', '_')}", torch.ones(2, 3)
    op = made().as_torch_op(name)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=ANOTHER):
            OTHERS[what]().as_torch_op(name)
        assert op(x)[0, 0] == 2
    other = OTHERS[what]().as_torch_op(f"{name}_2")
    with pytest.raises(ArgumentError, match=ANOTHER):
        made().as_torch_op(f"{name}_2")
    assert other is not op


@pytest.mark.parametrize("options", [{}, {"reference": _right, "key": ("x.shape[0]",), "budget": 1.0}, {"plain": True}], ids=["tuned", "options", "plain"])
def test_a_kernel_that_is_made_again_of_the_same_is_the_same_and_called_in_one_way(options: dict[str, Any]) -> None:
    name = f"tilejit_names::again_{len(options)}_{'plain' in options}"
    op = made(**options).as_torch_op(name, config=RunConfig(num_threads=1))
    assert made(**options).as_torch_op(name, config=RunConfig(num_threads=1)) is op
    for other in (None, RunConfig(platform="reference")):
        with pytest.raises(ArgumentError, match=r"runs `f` with another config=[\s\S]*choose another name"):
            made(**options).as_torch_op(name, config=other)


def test_one_function_that_is_decorated_in_two_ways_is_two_kernels() -> None:
    def text(x: pl.Tensor, out: pl.Out[pl.Tensor], s: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(s)

    text.__qualname__ = "text"  # as at the top of a module
    op = pl.autotune({"s": [2]}, progress=False)(pl.jit(text)).as_torch_op("tilejit_names::text")
    with pytest.raises(ArgumentError, match="is another kernel"):
        pl.autotune({"s": [3]}, progress=False)(pl.jit(text)).as_torch_op("tilejit_names::text")
    assert op(torch.ones(2, 3))[0, 0] == 2


TUNED = """
import tilejit.language as pl

def make():
    @pl.autotune({{"s": [2]}}, progress=False, reference=lambda x: 2 * x)
    @pl.jit
    def local(x: pl.Tensor, out: pl.Out[pl.Tensor], s: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(s)
    return local

@pl.autotune({{"s": [{s}]}}, progress=False)
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], s: int = 1):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(s)

op = kernel.as_torch_op("{space}::kernel")
local = make().as_torch_op("{space}::local")
"""


@pytest.mark.parametrize("anew", [False, True], ids=["reload", "import"])
def test_a_module_that_is_loaded_again_brings_other_candidates(anew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"with_tuned_{anew}"
    (tmp_path / f"{name}.py").write_text(TUNED.format(s=2, space=name))
    module = importlib.import_module(name)
    op, x = module.op, torch.ones(2, 3)
    assert op(x)[0, 0] == 2
    (tmp_path / f"{name}.py").write_text(TUNED.format(s=30, space=name))
    importlib.invalidate_caches()
    if anew:
        monkeypatch.delitem(sys.modules, name)
    again = importlib.import_module(name) if anew else importlib.reload(module)
    assert (again is module) is not anew
    assert op(x)[0, 0] == again.op(x)[0, 0] == 30 and module.local(x)[0, 0] == again.local(x)[0, 0] == 2


def by_factor() -> Any:
    @pl.jit
    def f(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * FACTOR

    return f


def test_kernels_of_one_text_in_two_namespaces_are_two() -> None:
    def made_with(factor: float) -> Any:
        return types.FunctionType(by_factor.__code__, {**globals(), "FACTOR": factor})()

    for first, space in ((made_with(2.0), "copies"), (by_factor(), "module")):
        op, x = first.as_torch_op(f"tilejit_names::{space}"), torch.ones(2, 3)
        for other in (made_with(3.0), made_with(2.0), *([by_factor()] if space == "copies" else [])):
            with pytest.raises(ArgumentError, match=ANOTHER):
                other.as_torch_op(f"tilejit_names::{space}")
        assert op(x)[0, 0] == 2
        assert first.as_torch_op(f"tilejit_names::{space}") is op
    assert by_factor().as_torch_op("tilejit_names::module")(torch.ones(2, 3))[0, 0] == 2


def test_kernels_at_the_top_of_a_text_that_runs_in_two_namespaces_are_two(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(TUNED.format(s=2, space="tilejit_plugin"))
    code = compile(path.read_text(), str(path), "exec")
    first: dict[str, Any] = {"__name__": "plugin_of_nobody"}
    exec(code, first)
    with pytest.raises(ArgumentError, match=r"is another kernel `plugin_of_nobody\.kernel`"):
        exec(code, {"__name__": "plugin_of_nobody"})
    exec(code, first)  # the same namespace: as a cell that is run again
    assert first["op"](torch.ones(2, 3))[0, 0] == 2


def test_kernels_of_a_text_that_runpy_runs_twice_are_two(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(TUNED.format(s=2, space="tilejit_runpy"))
    first = runpy.run_path(str(path))
    with pytest.raises(ArgumentError, match=r"is another kernel"):
        runpy.run_path(str(path))
    assert first["op"](torch.ones(2, 3))[0, 0] == 2

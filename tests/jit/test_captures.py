"""Every way a kernel can read a value: changed between processes it is another key, changed in the process it is noticed, or it is refused."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tests.jit.read_rows import KERNEL, Row
from tests.jit.read_rows import ROWS as PLAIN_ROWS
from tests.jit.read_rows_odd import ODD_ROWS
from tilejit.errors import StaleCaptureError
from tilejit.runtime.call.layout import supported

ROWS = [row for row in (*PLAIN_ROWS, *ODD_ROWS) if find_spec("torch") or "import torch" not in row.setup]

def write(row: Row, root: Path, package: str, edited: bool) -> None:
    """The package of a row."""
    folder = root / package
    folder.mkdir(parents=True)
    kernel = row.kernel.format(expression=row.expression.replace("{package}", package))
    setup, helpers = row.setup.replace("{package}", package), row.helpers
    if edited and row.helpers:
        helpers = helpers.replace("3", "4")
        assert helpers != row.helpers
    elif edited:
        old, new = row.edit
        changed = setup.replace(old, new) if old else setup + "\n" + new
        assert changed != setup, row.name
        setup = changed
    indented = textwrap.indent(textwrap.dedent(kernel), "    ")
    body = setup.replace("{indented}", indented) if "{indented}" in setup else setup + "\n" + kernel
    (folder / "__init__.py").write_text("")
    other = folder / row.where.replace("{package}", package)
    other.parent.mkdir(parents=True, exist_ok=True)
    for place in [other.parent, *other.parent.parents]:
        if folder in place.parents and place.name != "elsewhere":
            (place / "__init__.py").write_text("")
    other.write_text(helpers)
    (folder / "main.py").write_text("import tilejit.language as pl\n" + body)


RUNNER = """
import importlib, json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
found = {}
for name in sys.argv[2].split(","):
    module = importlib.import_module(name + ".main")
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    kernel = module.kernel
    kernel(x, out)
    (key,) = kernel._cache.asked
    found[name] = [key, repr(float(out[0, 0])), kernel.cache_info().loaded]
print(json.dumps(found))
"""


def keys(root: Path, names: list[str], cache: Path, seed: str = "0") -> dict[str, list[Any]]:
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(cache), "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", RUNNER, str(root), ",".join(names)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_value_changed_between_processes_is_another_key_and_nothing_else_is(tmp_path: Path) -> None:
    names = [f"row{number}" for number in range(len(ROWS))]
    for name, row in zip(names, ROWS, strict=True):
        write(row, tmp_path / "old", name, edited=False)
        write(row, tmp_path / "new", name, edited=True)
    cache = tmp_path / "cache"
    first = keys(tmp_path / "old", names, cache)
    second = keys(tmp_path / "old", names, cache, seed="1")
    third = keys(tmp_path / "new", names, cache, seed="77")
    for name, row in zip(names, ROWS, strict=True):
        assert first[name][0] == second[name][0], f"{row.name}: the key depends on the hash seed"
        assert first[name][1] == second[name][1]
        assert second[name][2] == 1, f"{row.name}: the second process compiled again"
        assert first[name][0] != third[name][0], f"{row.name}: the change went unnoticed"
        assert third[name][2] == 0
        assert first[name][1] != third[name][1], f"{row.name}: the edit of the test changes nothing"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    yield tmp_path / "packages"
    for name in [name for name in sys.modules if name.startswith("drift_row")]:
        del sys.modules[name]


@pytest.mark.dispatch
@pytest.mark.parametrize("fast", [True, False], ids=["native", "python"])
@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_a_value_changed_in_the_process_is_noticed(number: int, fast: bool, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", "1" if fast else "0")
    row, name = ROWS[number], f"drift_row{number}"
    write(row, package, name, edited=False)
    importlib.invalidate_caches()
    module: ModuleType = importlib.import_module(f"{name}.main")
    kernel: Any = module.kernel
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    for _ in range(3):
        kernel(x, out)
    before = float(out[0, 0])
    out[:] = 0.5
    exec(row.mutate, {"m": module, "sys": sys})
    with pytest.raises(StaleCaptureError) as caught:
        kernel(x, out)
    assert (out == 0.5).all(), "a refused call leaves outputs alone"
    assert "on_drift" in str(caught.value)
    if row.restore:
        exec(row.restore, {"m": module, "sys": sys})
        kernel(x, out)
        assert repr(float(out[0, 0])) == repr(before), "a value restored to what it was is no drift"


def test_recompile_follows_the_value_and_ignore_keeps_it(package: Path) -> None:
    for policy, expected in (("recompile", 5.0), ("ignore", 4.0)):
        name = f"drift_row_{policy}"
        text = KERNEL.format(expression="N").replace("@pl.jit", f"@pl.jit(on_drift={policy!r})")
        folder = package / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "main.py").write_text("import tilejit.language as pl\nN = 3\n" + text)
        importlib.invalidate_caches()
        module: Any = importlib.import_module(f"{name}.main")
        x = np.ones((2, 3), np.float32)
        out = np.empty_like(x)
        for _ in range(3):
            module.kernel(x, out)
        module.N = 4
        for _ in range(3):
            module.kernel(x, out)
            assert out[0, 0] == expected
        module.N = 3
        module.kernel(x, out)
        assert out[0, 0] == 4.0


def test_other_names_of_the_module_may_change_freely(package: Path) -> None:
    write(ROWS[7], package, "drift_row_other", edited=False)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_other.main")
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    for step in range(200):
        module.kernel(x, out)
        setattr(module, f"unrelated_{step % 7}", step)
    assert out[0, 0] == 4.0


WATCHED = """
import types
class Meta(type):
    pass
class Base:
    A = 1
class C(Base, metaclass=Meta):
    B = 2
OBJ = C()
OBJ.c = 3
SPACE = types.SimpleNamespace(part=OBJ)
mod = types.ModuleType("mod")
mod.D = 4
"""


@pytest.mark.dispatch
@pytest.mark.skipif(not supported() or os.environ.get("TILEJIT_FASTPATH") == "0", reason="needs native dispatch")
def test_classes_and_objects_that_change_elsewhere_are_learnt_again(make_kernel: Any) -> None:
    kernel = make_kernel(WATCHED + KERNEL.format(expression="C.A + C.B + OBJ.c + SPACE.part.A + mod.D"))
    names = kernel.definition.function.__globals__
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    for change in ("C.other = 1", "Meta.other = 1", "Base.other = 1", "OBJ.other = 1", "SPACE.other = 1", "mod.other = 1", "C.B = 3; C.B = 2", "del C.other"):
        for _ in range(4):
            kernel(x, out)
        before = kernel._warm.hits
        kernel(x, out)
        assert kernel._warm.hits == before + 1, f"before `{change}` calls are native"
        exec(change, names)
        out[:] = 0
        kernel(x, out)
        assert (out == 12).all(), change


@pytest.mark.dispatch
@pytest.mark.parametrize("fast", [True, False], ids=["native", "python"])
def test_a_value_in_the_memory_of_one_that_is_gone_is_noticed(fast: bool, make_kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", "1" if fast else "0")
    kernel = make_kernel("N = 3.5\n" + KERNEL.format(expression="N"))
    names = kernel.definition.function.__globals__
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    kernel(x, out)
    names["N"] = float("3.5")  # equal, but another object
    for _ in range(3):
        kernel(x, out)
    for text in ("7.5", "8.5", "9.5"):  # one of them may get the place of that object
        names["N"] = float(text)
        with pytest.raises(StaleCaptureError, match="N"):
            kernel(x, out)
    names["N"] = float("4.5")
    names["N"] = float("5.5")
    with pytest.raises(StaleCaptureError, match=r"to 5\.5"):
        kernel(x, out)


def test_objects_are_told_by_what_was_asked_of_them(package: Path) -> None:
    folder = package / "drift_row_refused"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    text = "import tilejit.language as pl\nclass C:\n    pass\nOBJ = C()\ndef helper(o):\n    return 3\n" + KERNEL.format(expression="helper(OBJ)")
    (folder / "main.py").write_text(text)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_refused.main")
    x = np.ones((2, 3), np.float32)
    assert module.kernel(x)[0, 0] == 4.0
    module.OBJ = module.C()  # another one, of which nothing was asked
    assert module.kernel(x)[0, 0] == 4.0


def test_an_inherited_kernel_stands_on_what_its_own_class_reads(package: Path) -> None:
    folder = package / "drift_row_classes"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    kernel = textwrap.indent(KERNEL.format(expression="self.amount()").replace("(x:", "(self, x:"), "    ")
    text = f"""import tilejit.language as pl
EXTRA = 5
class Base:
    def __cache_signature__(self):
        return type(self).__name__
    def amount(self):
        return 3
{kernel}
class Sub(Base):
    def amount(self):
        return EXTRA
"""
    (folder / "main.py").write_text(text)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_classes.main")
    base, sub = module.Base(), module.Sub()
    x = np.ones((2, 3), np.float32)
    out = np.empty_like(x)
    base.kernel(x, out)
    assert out[0, 0] == 4.0
    sub.kernel(x, out)
    assert out[0, 0] == 6.0
    module.EXTRA = 6
    base.kernel(x, out)
    assert out[0, 0] == 4.0
    with pytest.raises(StaleCaptureError, match=r"self\.amount\(\)"):
        sub.kernel(x, out)


def test_a_comment_in_a_helper_two_levels_down_compiles_nothing_and_an_edit_changes_the_result(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    deep = "X = 2\ndef deep(n):\n    return n * X\n"
    (root / "deepest.py").write_text(deep)
    (root / "middle.py").write_text("import deepest\ndef middle(n):\n    return deepest.deep(n) + 1\n")
    (root / "top").mkdir()
    (root / "top" / "__init__.py").write_text("")
    (root / "top" / "main.py").write_text("import tilejit.language as pl\nimport middle\n" + KERNEL.format(expression="middle.middle(3)"))
    first = keys(root, ["top"], tmp_path / "cache")["top"]
    (root / "deepest.py").write_text("# a comment\n" + deep.replace("return", "# another\n    return"))
    second = keys(root, ["top"], tmp_path / "cache")["top"]
    assert second == [first[0], first[1], 1]
    (root / "deepest.py").write_text(deep.replace("n * X", "n * X * 10"))
    third = keys(root, ["top"], tmp_path / "cache")["top"]
    assert third[0] != first[0] and float(third[1]) == 62.0 and third[2] == 0


def test_many_threads_that_call_first_compile_once(package: Path) -> None:
    write(ROWS[7], package, "drift_row_threads", edited=False)
    importlib.invalidate_caches()
    module: Any = importlib.import_module("drift_row_threads.main")
    x = np.ones((2, 3), np.float32)
    outputs = [np.empty_like(x) for _ in range(16)]
    barrier = threading.Barrier(16)

    def call(out: np.ndarray) -> None:
        barrier.wait()
        for _ in range(50):
            module.kernel(x, out)

    threads = [threading.Thread(target=call, args=(out,)) for out in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((out == 4.0).all() for out in outputs)
    assert module.kernel.cache_info().misses == 1


class Settings:
    factor = 2.0


@pytest.mark.parametrize("platform", ["cpu", "reference"])
def test_a_value_that_changes_after_compile_or_a_returning_call_is_noticed(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", platform)
    x = np.ones((2, 3), np.float32)
    for first in ("compile", "call"):
        monkeypatch.setattr(Settings, "factor", 2.0)

        @pl.jit
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out[:] = x * Settings.factor

        getattr(kernel, "compile" if first == "compile" else "__call__")(x)
        monkeypatch.setattr(Settings, "factor", 3.0)
        with pytest.raises(StaleCaptureError, match=r"Settings\.factor"):
            kernel(x)


@pytest.mark.parametrize("remedy", ["recompile", "cache_clear"])
def test_replaced_defaults_of_a_kernel_are_followed_by_both_remedies(remedy: str, make_kernel: Any) -> None:
    kernel = make_kernel(f"""
    @pl.jit{"(on_drift='recompile')" if remedy == "recompile" else ""}
    def shifted(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.FP32 = 3.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + n
    """)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = np.empty_like(x)
    for _ in range(3):
        kernel(x, out)
    np.testing.assert_array_equal(out, x + 3)
    kernel.definition.function.__defaults__ = (4.0,)
    if remedy == "cache_clear":
        kernel.cache_clear()
    for _ in range(3):
        kernel(x, out)
        np.testing.assert_array_equal(out, x + 4)


@pl.jit.inline
def by_three(t: pl.Tensor, *, n: float = 3.0):
    return t + n


@pl.jit(on_drift="recompile")
def shifted_first(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = by_three(x)


@pl.jit
def shifted_later(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = by_three(x) * 2.0


def test_replaced_defaults_of_a_helper_are_followed_by_all_who_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random((3, 5), np.float32)
    out = np.empty_like(x)
    for _ in range(3):
        shifted_first(x, out)
        np.testing.assert_array_equal(out, x + np.float32(3))
    monkeypatch.setitem(vars(by_three)["__wrapped__"].__kwdefaults__, "n", 4.0)
    for kernel, factor in ((shifted_first, 1), (shifted_later, 2)):  # one that knew the helper before, and one that did not
        for _ in range(3):
            kernel(x, out)
            np.testing.assert_array_equal(out, (x + np.float32(4)) * factor)


SHIFTS = [3.0]


@pl.jit(on_drift="recompile")
def shifted_as_declared(x: pl.Tensor[[3, 5], pl.FP32], out: pl.Out[pl.Tensor[[3, 5], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + SHIFTS[0]
    return out


@pl.jit(on_drift="recompile")
def shifted_as_found(x: pl.Tensor, out: pl.Out[pl.Tensor], twice: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + SHIFTS[0]
        twice[:] = (x + SHIFTS[0]) + SHIFTS[-1]
    return out, twice


def test_a_call_that_returns_stands_on_what_the_program_of_the_call_in_place_stands_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    x = np.random.default_rng(0).random((3, 5), np.float32)
    for shift in (3.0, 4.0, 5.0, 3.0):
        monkeypatch.setattr(f"{__name__}.SHIFTS", [shift])
        once, twice = x + np.float32(shift), x + np.float32(shift) + np.float32(shift)
        for _ in range(3):
            shifted_as_declared(x, found := np.empty_like(x))
            np.testing.assert_array_equal(found, once)
            np.testing.assert_array_equal(shifted_as_declared(x), once)
            shifted_as_found(x, np.empty_like(x), found)
            np.testing.assert_array_equal(found, twice)
            np.testing.assert_array_equal(shifted_as_found(x)[1], twice)


def test_a_name_that_is_read_behind_text_at_the_margin(make_kernel: MakeKernel) -> None:
    kernel = make_kernel('BY = 3.0\n@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    """A text\nat the margin."""\n    out[:] = x * BY\n')
    x, out = np.random.default_rng(8).standard_normal((4, 8)).astype(np.float32), np.zeros((4, 8), np.float32)
    for _ in range(4):
        kernel(x, out)
    np.testing.assert_array_equal(out, x * 3)

"""Facts of functions: what is kept on disk is what the tree says, and a warm start reads no tree."""

from __future__ import annotations

import ast
import json
import linecache
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests import suite
from tests.jit.conftest import MakeKernel
from tilejit.errors import ParserTypeError, StaleCaptureError
from tilejit.frontend.source import block_of, parsed
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk import stores
from tilejit.jit.reads import facts
from tilejit.jit.specialize.tree import tree_of
from tilejit.runtime.store.entry import CacheEntry

KERNELS = """
import tilejit.language as pl
import helpers

SCALE = 2.0
M = pl.dynamic("M")

def twice(n):
    return n * helpers.FACTOR

@pl.jit.incore
def inner(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    return pl.store(pl.mul(pl.load(x, [0, 0], [4, 4]), SCALE), [0, 0], out)

@pl.jit
def plain(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = inner(x, out)
    return out

@pl.jit
def ragged(x: pl.Tensor[[M, 4], pl.FP32], out: "pl.Out[pl.Tensor[[M, 4], pl.FP32]]"):
    out[:] = x * twice(1.5)
    return out

@pl.jit.inline
def shifted(x: pl.Tensor, by: pl.FP32):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(-2, rows)
    return x + by

@pl.jit
def in_its_body(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out.bind_dynamic(0, M)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = shifted(x, SCALE)
    return out
"""
RUN = """
import ast, sys
import numpy as np
import kernels
parsed = []
whole = ast.parse
def counting(*args, **kwargs):
    parsed.append(args)
    return whole(*args, **kwargs)
ast.parse = counting
x, out = np.arange(16, dtype=np.float32).reshape(4, 4), np.zeros((4, 4), np.float32)
kernels.plain(x, out)
assert (out == x * 2).all()
kernels.ragged(x, out)
assert (out == x * 4.5).all()
for rows in (4, 3):
    kernels.in_its_body(x[:rows], out[:rows])
    assert (out[:rows] == x[:rows] + 2).all()
assert kernels.in_its_body.cache_info().entries == 1, "its extents are dynamic"
loaded = sum(kernel.cache_info().loaded for kernel in (kernels.plain, kernels.ragged, kernels.in_its_body))
unwanted = [name for name in sys.modules if name.startswith(("tilejit.ops.", "tilejit.runtime.ranks.", "tilejit.tile_ir", "tilejit.passes"))]
assert loaded < 3 or set(unwanted) <= {"tilejit.ops.facts", "tilejit.ops.spec", "tilejit.runtime.ranks.recording"}, unwanted
print(len(parsed), loaded)
"""


@pytest.fixture
def project(tmp_path: Path) -> Callable[[], tuple[int, int]]:
    """Runs the kernels in a new process: how many texts it parsed, and how many kernels came from disk."""
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "helpers.py").write_text("FACTOR = 3.0\n")
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "run.py").write_text(RUN)

    def run() -> tuple[int, int]:
        environment = {"TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        done = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.split()
        return int(first), int(second)

    return run


def test_a_warm_start_parses_only_annotations_in_quotes(project: Callable[[], tuple[int, int]], tmp_path: Path) -> None:
    parsed, loaded = project()
    assert parsed > 5 and loaded == 0
    assert project() == (1, 3), "the annotation in quotes"
    (tmp_path / "kernels.py").write_text(KERNELS.replace("    out = inner(x, out)", "    # a comment\n    out = inner(x, out)"))
    assert project() == (2, 3), "and the function with another comment, once"
    assert project() == (1, 3)


def test_a_helper_that_changed_is_read_again(project: Callable[[], tuple[int, int]], tmp_path: Path) -> None:
    project()
    changed = KERNELS.replace("[4, 4]), SCALE)", "[4, 4]), 2.0)")
    (tmp_path / "kernels.py").write_text(changed)
    assert project()[1] == 2, "the kernel that calls it is compiled anew"
    (tmp_path / "kernels.py").write_text(changed.replace("bind_dynamic(-2", "bind_dynamic(0"))
    assert project()[1] == 2, "and one whose helper declares another extent dynamic"


def every_function() -> Iterator[Callable[..., object]]:
    for path in sorted(Path(suite.__path__[0]).glob("*.py")):
        if not path.stem.startswith("test_"):
            module = import_module(f"tests.suite.{path.stem}" if path.stem != "__init__" else "tests.suite")
            yield from (value.definition.function for value in vars(module).values() if isinstance(value, Kernel))


@pytest.mark.torch  # kernels of the suite have their formulas from it
def test_what_is_kept_is_what_the_tree_says() -> None:
    seen = 0
    for function in every_function():
        text = parsed(block_of(function))
        read = facts.read_facts(text, tree_of(text.node))
        encoded = facts._encoded(read)
        assert encoded is not None
        again = facts._decoded(encoded)
        assert again is not None
        assert (again.digest, again.params, again.annotated, again.mentions_dynamic) == (read.digest, read.params, read.annotated, read.mentions_dynamic)
        assert dict(again.stores) == dict(read.stores)
        assert json.dumps([again.chains, again.calls]) == json.dumps([read.chains, read.calls])
        seen += 1
    assert seen > 300


@pl.jit
def odd_keys(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * TABLE[1.5] + TABLE[b"x"]


TABLE: dict[object, float] = {1.5: 2.0, b"x": 1.0}


def test_indices_that_json_would_change_are_not_kept() -> None:
    text = parsed(block_of(odd_keys.definition.function))
    assert facts._encoded(facts.read_facts(text, tree_of(text.node))) is None
    x = np.ones((2, 2), np.float32)
    out = np.zeros_like(x)
    odd_keys(x, out)
    assert (out == 3.0).all()


WHOLE: list[Any] = ["0" * 64, ["x"], ["x"], {"t": 1}, {"pl": [[["attr", "add"]]]}, [[["pl", "add"], None]], False]


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 1), (1, [1]), (1, None), (2, [1]), (3, [1]), (3, {"t": "1"}), (4, []), (4, {"pl": [[["attr"]]]}), (4, {"pl": [[[1, "a"]]]}),
     (5, [[["pl"]]]), (5, [[[], None]]), (5, [[[1], None]])],
)  # fmt: skip
def test_rows_that_are_no_facts_count_for_nothing(place: int, value: object) -> None:
    assert facts._decoded(json.dumps(WHOLE).encode()) is not None
    broken = [*WHOLE]
    broken[place] = value
    assert facts._decoded(json.dumps(broken).encode()) is None
    for data in (b"", b"[", b"{}", b"[" * 100_000, b"\x80\x03"):
        assert facts._decoded(data) is None


def test_a_planted_entry_of_facts_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "kernel.py"
    path.write_text("import tilejit.language as pl\n\n@pl.jit\ndef f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + 1\n")
    scope: dict[str, Any] = {"__name__": "planted"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    stores.store().put(CacheEntry(facts._key(str(path)), {"kernel": "x"}, {"functions": b"\x80\x04pickle\n" + b"0" * 64 + b" {}\nshort"}))
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    scope["f"](x, out)
    assert (out == 2.0).all()
    rows, _ = facts._on_disk(stores.store(), str(path))
    assert any(facts._decoded(row) is not None for row in rows.values()), "the function's facts were added"


def test_chains_and_calls_of_a_text() -> None:
    text = "def f(a, t: 'cfg.T'):\n    b = cfg.x.y[0].z + table[a].w\n    pl.submit(k.inner, a)\n    g()(b)\n    return helper(b)\n"
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    whole = parsed(block_of(test_chains_and_calls_of_a_text))
    found = facts.read_facts(type(whole)(node, whole.source), tree_of(node))
    assert found.params == ("a", "t") and found.annotated == {"t"} and dict(found.stores) == {"b": 1}
    assert set(found.chains["cfg"]) == {(("attr", "x"), ("attr", "y"), ("item", 0), ("attr", "z")), (("attr", "T"),)}
    assert set(found.chains["table"]) == {()}, "an index known later may reach any item"
    assert list(found.calls) == [(("pl", "submit"), ("k", "inner")), (None, None), (("g",), None), (("helper",), None)]
    assert isinstance(Definition(block_of, "python").facts, facts.Facts)


def test_generated_sources_leave_nothing_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    text = "import tilejit.language as pl\n\n@pl.jit\ndef f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + 1\n"
    monkeypatch.setitem(linecache.cache, "<cell of a notebook>", (len(text), None, text.splitlines(keepends=True), "<cell of a notebook>"))
    scope: dict[str, Any] = {"__name__": "cell"}
    exec(compile(text, "<cell of a notebook>", "exec"), scope)
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    scope["f"](x, out)
    assert (out == 2.0).all()
    kept = [entry.fields["kernel"] for entry in disk.entries()]
    assert "cell.f" in kept and not any("functions of" in str(name) for name in kept)


ODD_TEXTS = {
    "decorator over several lines": "@pl.jit(\n    on_drift='recompile',\n)\ndef f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * 2.0\n",
    "text at the margin": '@pl.jit\ndef f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    """A text\nat the margin."""\n    out[:] = x * 2.0\n',
    "backslash at the margin": "@pl.jit\ndef f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * \\\n2.0\n",
    "bracket at the margin": "@pl.jit\ndef f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = (x *\n2.0)\n",
}
ONE = """
import numpy as np
import kernels
x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
kernels.f(x, out)
print(out[0, 0], kernels.f.cache_info().loaded)
"""


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_an_edit_counts_wherever_the_lines_of_a_function_stand(name: str, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "run.py").write_text(ONE)

    def run(text: str) -> str:
        (tmp_path / "kernels.py").write_text("import tilejit.language as pl\n\n" + text)
        environment = {"TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        done = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    text = ODD_TEXTS[name]
    assert run(text) == "2.0 0"
    assert run(text) == "2.0 1"
    assert run(text.replace("2.0", "5.0")) == "5.0 0"


# files that are edited while the process runs ----------------------------------------------------------------------------------

HEAD = "import tilejit.language as pl\n\n# a comment\n\ndef twice(n):\n    return n * 2.0\n\n"
BODY = "@pl.jit\ndef f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * twice(1.0)\n"


def imported(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    scope: dict[str, Any] = {"__name__": f"edited_{path.stem}"}
    exec(compile(text, str(path), "exec"), scope)
    return scope


def result_of(kernel: Any) -> float:
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    kernel(x, out)
    return float(out[0, 0])


MAKER = "def make():\n    @pl.jit\n    def g(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n        out[:] = x * twice(1.0)\n    return g\n"


def test_a_kernel_is_what_was_imported_whatever_its_file_says_now(tmp_path: Path) -> None:
    path = tmp_path / "changed.py"
    scope = imported(path, HEAD + BODY)
    path.write_text(HEAD + BODY.replace("twice(1.0)", "twice(2.5)"))
    assert result_of(scope["f"]) == 2.0


def test_a_kernel_made_after_its_text_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "changed_maker.py"
    scope = imported(path, HEAD + MAKER)
    path.write_text(HEAD + MAKER.replace("twice(1.0)", "twice(2.5)"))
    kernel = scope["make"]()
    with pytest.raises(StaleCaptureError, match="is not what it was when it was imported"):
        result_of(kernel)
    path.write_text(HEAD + MAKER)
    assert result_of(kernel) == 2.0, "the text is back"


def test_a_docstring_that_is_also_a_constant_of_the_body_counts(tmp_path: Path) -> None:
    path = tmp_path / "docstring.py"
    text = MAKER.replace("        out", '        """two"""\n        out').replace("twice(1.0)", "(2.0 if WAY == 'two' else 3.0)")
    scope = imported(path, HEAD + "WAY = 'two'\n" + text)
    path.write_text(HEAD + "WAY = 'two'\n" + text.replace("two", "six"))
    with pytest.raises(StaleCaptureError, match="is not what it was when it was imported"):
        result_of(scope["make"]())


def test_of_two_texts_with_one_code_none_is_taken_for_the_other(tmp_path: Path) -> None:
    """Annotations of locals leave no trace in code."""
    path = tmp_path / "twins.py"
    twins = "def make(half):\n"
    for way, dtype in (("half", "FP16"), ("not half", "FP32")):
        body = BODY.replace("out[:] = x * twice(1.0)", f"n: pl.Scalar[pl.{dtype}] = 0.1\n    out[:] = x * n")
        twins += f"    if {way}:\n        def inner():\n{indent(body, ' ' * 12)}            return f\n"
    twins += "    return inner\n"
    scope = imported(path, HEAD + twins)
    first, second = scope["make"](True), scope["make"](False)
    assert result_of(first()) == float(np.float16(0.1))
    path.write_text("# one line more\n" + HEAD + twins)
    assert result_of(first()) == float(np.float16(0.1)), "its text was read before"
    with pytest.raises(StaleCaptureError, match="is not what it was when it was imported"):
        result_of(second())


@pytest.mark.parametrize("absolute", [True, False])
def test_a_script_that_is_edited_and_run_again_is_read_again(absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = str(tmp_path / "script.py") if absolute else "script.py"
    text = BODY.replace("out[:]", "n: pl.Scalar[pl.FP32] = 0.1\n    out[:]").replace("twice(1.0)", "n")
    for dtype, number in (("FP32", np.float32(0.1)), ("FP16", np.float16(0.1)), ("FP32", np.float32(0.1))):
        Path(name).write_text(HEAD + text.replace("FP32", dtype))
        os.utime(name, (1, 1))
        assert result_of(runpy.run_path(name)["f"]) == float(number)


@pytest.mark.parametrize("text", [HEAD.replace("# a comment\n", "") + BODY, "\n\n" + HEAD + BODY, HEAD + BODY + "\n# below\n"])
def test_a_kernel_that_only_moved_in_its_file_is_found(text: str, tmp_path: Path) -> None:
    path = tmp_path / "moved.py"
    scope = imported(path, HEAD + BODY)
    path.write_text(text)
    assert result_of(scope["f"]) == 2.0


def test_a_helper_counts_by_its_code_whatever_its_file_says_now(tmp_path: Path) -> None:
    path = tmp_path / "helper.py"
    scope = imported(path, HEAD + BODY)
    path.write_text(HEAD.replace("2.0", "7.0") + BODY)
    assert result_of(scope["f"]) == 2.0
    assert result_of(imported(tmp_path / "helper.py", HEAD.replace("2.0", "7.0") + BODY)["f"]) == 7.0


def test_two_kernels_of_one_name_keep_their_own_texts(tmp_path: Path) -> None:
    def made(number: int) -> str:
        header = f"def make{number}():\n    @pl.jit(\n        on_drift='raise',\n    )\n    def f(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n"
        return f"{header}        out[:] = x * {number}.0\n    return f\n\n"

    scope = imported(tmp_path / "same.py", "import tilejit.language as pl\n\n" + made(2) + made(7))
    assert (result_of(scope["make2"]()), result_of(scope["make7"]())) == (2.0, 7.0)


PRIVATE = """
_A__T, _B__T = pl.Tensor[[2, 3], pl.FP32], pl.Tensor[[2, 3], pl.FP16]
class A:
    @pl.jit.inline
    def h(self, t: pl.Tensor):
        v: __T = t * 1.0
        return v + 1.0
class B:
    @pl.jit.inline
    def h(self, t: pl.Tensor):
        v: __T = t * 1.0
        return v + 1.0
OBJECT = A()
@pl.jit(on_drift="recompile")
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):  # A's _A__T, B's _B__T
        out[:] = OBJECT.h(x)
"""


def test_methods_of_one_text_have_the_private_names_of_their_classes(make_kernel: MakeKernel) -> None:
    kernel: Any = make_kernel(PRIVATE)
    names = kernel.definition.function.__globals__
    for _ in range(3):
        np.testing.assert_array_equal(kernel(np.ones((2, 3), np.float32)), np.full((2, 3), 2, np.float32))
    names["OBJECT"] = names["B"]()
    for _ in range(3):
        with pytest.raises(ParserTypeError):
            kernel(np.ones((2, 3), np.float32))
    names["OBJECT"] = names["A"]()
    np.testing.assert_array_equal(kernel(np.ones((2, 3), np.float32)), np.full((2, 3), 2, np.float32))

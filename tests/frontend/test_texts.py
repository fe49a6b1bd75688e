"""Kernels that stand in no file: on the command line, on stdin, at the prompt, in `exec`, in cells of a notebook."""

from __future__ import annotations

import ast
import json
import linecache
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ParserError, SourceNotFoundError, StaleCaptureError

KERNEL = """
import numpy as np
import tilejit.language as pl

@pl.jit.inline
def twice(t):
    return pl.add(t, t)

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(twice(x), 1.0)
"""
CALL = "print('result', kernel(np.full((1, 1), 20, np.float32))[0, 0])\n"
ENVIRONMENT = {**os.environ, "TILEJIT_PLATFORM": "reference"}


def test_on_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-c", KERNEL + CALL], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stdout == "result 41.0\n", done.stderr


def test_from_a_file_on_stdin(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(KERNEL + CALL)
    with (tmp_path / "script").open() as script:
        done = subprocess.run([sys.executable, "-"], stdin=script, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stdout == "result 41.0\n", done.stderr


def test_a_pipe_has_no_text_any_more_and_says_what_to_do() -> None:
    done = subprocess.run([sys.executable], input=KERNEL + CALL, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "SourceNotFoundError: the source of `kernel` cannot be found (<stdin>)" in done.stderr
    assert "run the file by its name instead of through a pipe" in done.stderr


def test_at_the_prompt() -> None:
    """A session at a terminal: a wrong definition first, then the right one under the same name."""
    head, helper, kernel = KERNEL.strip().split("\n\n")
    output = session("\n\n".join([head, helper, kernel.replace("1.0", "7.0"), kernel, CALL + "exit()\n"]))
    assert "result 41.0" in output, output


def session(typed: str) -> str:
    """What a terminal shows in which lines are typed at Python's prompt."""
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-q"], stdin=side, stdout=side, stderr=side, env={**ENVIRONMENT, "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}, start_new_session=True
    )
    os.close(side)
    os.write(terminal, typed.encode())
    shown = bytearray()
    while True:
        try:
            found = os.read(terminal, 4096)
        except OSError:  # the other side was closed
            break
        if not found:
            break
        shown += found
    process.wait()
    os.close(terminal)
    return shown.decode()


def called(names: dict[str, Any]) -> float:
    return float(names["kernel"](np.full((1, 1), 20, np.float32))[0, 0])


def test_in_exec_of_a_variable(platform: str) -> None:
    text, names = KERNEL.replace("1.0", "2.0"), dict[str, Any]()
    exec(text, names)
    del text
    assert called(names) == 42


def test_in_exec_of_a_literal() -> None:
    names: dict[str, Any] = {}
    exec("import tilejit.language as pl\n@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = pl.add(x, 5.0)\n", names)
    assert called(names) == 25


def test_of_two_texts_under_one_name_each_kernel_has_its_own() -> None:
    found = [dict[str, Any](), dict[str, Any]()]
    for addend, names in zip((3, 4), found):
        text = KERNEL.replace("1.0", f"{addend}.0")
        exec(text, names)
    assert [called(names) for names in found] == [43, 44]


ANNOTATED = """
import tilejit.language as pl
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part: pl.Scalar[pl.DTYPE] = 0.1
        out[:] = x + part
"""
"""Annotations of locals leave no trace in code."""


def test_texts_that_differ_in_annotations_only_are_told_apart() -> None:
    found = [dict[str, Any](), dict[str, Any]()]
    for dtype, names in zip((np.float16, np.float32), found):
        text = ANNOTATED.replace("DTYPE", f"FP{8 * np.dtype(dtype).itemsize}")
        exec(text, names)
    assert [called(names) for names in found] == [float(np.float32(20) + np.float32(dtype(0.1))) for dtype in (np.float16, np.float32)]
    one, other = (ANNOTATED.replace("DTYPE", dtype) for dtype in ("FP16", "BF16"))
    names: dict[str, Any] = {}
    exec(compile(other, "<string>", "exec"), names)
    assert one != other
    with pytest.raises(SourceNotFoundError):  # which of the two it was nobody can tell
        called(names)


@pytest.mark.parametrize("name", ["<cell 9>", "generated.py", "/nowhere/generated.py"])
def test_a_text_that_took_the_place_of_another_under_its_name_is_not_taken_for_it(name: str) -> None:
    def run(text: str) -> dict[str, Any]:
        names: dict[str, Any] = {}
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), names)
        return names

    def plain(addend: float) -> str:
        return f"def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = pl.add(x, {addend})\n"

    found = [run(f"import tilejit.language as pl\n@pl.jit\n{plain(addend)}") for addend in (3.0, 4.0)]
    assert [called(names) for names in found] == [23, 24], "each has what linecache held when it was made"
    later = run(f"import tilejit.language as pl\n\n{plain(5.0)}")
    run(f"import tilejit.language as pl\n\n{plain(6.0)}")
    later["kernel"] = later["pl"].jit(later["kernel"])
    with pytest.raises(StaleCaptureError):
        called(later)
    del linecache.cache[name]


def test_a_text_that_is_not_that_of_the_code_is_not_taken() -> None:
    names: dict[str, Any] = {}
    text = KERNEL.replace("1.0", "6.0")
    code = compile(text, "<string>", "exec")
    text = text.replace("6.0", "8.0")
    exec(code, names)
    with pytest.raises(SourceNotFoundError):
        called(names)


NO_ENDS = "\f\v\x1c\x1d\x1e\x85\u2028\u2029"
"""What `str.splitlines` takes for ends of lines, and Python does not."""
TWO = f"""
import tilejit.language as pl
# {NO_ENDS[2:]}

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, 1.0)

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, 2.0)
"""
"""Two of one name, as far from each other as there are such characters above them."""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_that_python_counts(end: str) -> None:
    text, names = TWO.replace("\n", end), dict[str, Any]()
    exec(text, names)
    assert called(names) == 22
    notebook = Notebook(("<ipython-input-0-0c>",))
    notebook.run(text)
    assert called(notebook.names) == 22


def test_lines_of_a_parsed_text_are_those_that_python_counts() -> None:
    main = 'def main(self, x: pl.Tensor[[4], pl.FP32]) -> pl.Tensor[[4], pl.FP32]:'
    text = f'# {NO_ENDS}\n@pl.program\nclass P:\n    @pl.function\n    {main}\n        return pl.ad(x, x)\n'
    with pytest.raises(ParserError, match=r"<string[^>]*>:6:16"):
        pl.parse(text)


class Notebook:
    """Runs cells as IPython does: each is compiled under a name of its own, whose text linecache keeps, and its last expression is shown."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._files = iter(names)
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, cell: str) -> str | None:
        """Run a cell; the HTML of its last expression, if that has any."""
        file = next(self._files)
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        tree = ast.parse(cell, file)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), self.names)
        if not isinstance(last, ast.Expr):
            return None
        value = eval(compile(ast.Expression(last.value), file, "eval"), self.names)
        html = getattr(value, "_repr_html_", None)
        return html() if html is not None else repr(value)


NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
NAMES = {
    "jupyter": tuple(f"/tmp/ipykernel_0/{number}.py" for number in range(20)),
    "ipython": tuple(f"<ipython-input-{number}-0a>" for number in range(20)),
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_notebook_runs_from_top_to_bottom(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells of the example, one after the other; a cell that is run again after an edit counts anew."""
    cells = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    monkeypatch.chdir(tmp_path)
    notebook = Notebook(NAMES[kind])
    shown = [html for cell in cells if (html := notebook.run(cell)) is not None]
    assert sum("<table" in html for html in shown) >= 2 and any("<iframe" in html for html in shown)
    x = notebook.names["x"]
    np.testing.assert_allclose(notebook.names["softmax"](x).sum(axis=1), np.ones(len(x)), rtol=1e-5)
    definition = next(cell for cell in cells if "def softmax" in cell)
    notebook.run(definition.replace("pl.exp(", "2.0 * pl.exp("))
    np.testing.assert_allclose(notebook.names["softmax"](x).sum(axis=1), np.ones(len(x)), rtol=1e-5)
    notebook.run(definition.replace("e / pl.row_sum(e)", "e"))
    assert not np.allclose(notebook.names["softmax"](x).sum(axis=1), 1)


def test_errors_in_a_cell_point_at_it() -> None:
    notebook = Notebook(("<ipython-input-0-0b>",))
    notebook.run(KERNEL.replace("pl.add(twice", "pl.ad(twice"))
    with pytest.raises(Exception, match=r"(?s)ipython-input-0-0b>:12:18.*\^\^") as caught:
        called(notebook.names)
    assert "did you mean" in str(caught.value)

"""Specialisation across processes: the same text under every hash seed, and edits of helpers that are noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ENTRY = """
import sys
import numpy as np
import tilejit.language as pl
from middle import through

@pl.jit
def entry(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = through(x, out)
    return out

x = np.arange(12, dtype=np.float32).reshape(3, 4)
if sys.argv[1:] == ["text"]:
    print(entry.specialized_source(x, x.copy()))
else:
    print(entry(x).tolist())
"""
MIDDLE = """
import tilejit.language as pl
from leaf import scale

@pl.jit.inline
def through(x: pl.Tensor, out: pl.Tensor):
    tmp = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    tmp = scale(x, tmp)
    out = scale(tmp, out)
    return out
"""
LEAF = """
import tilejit.language as pl

ROWS = pl.dynamic("ROWS")

@pl.jit.incore
def scale(x: pl.Tensor[[ROWS, 4], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 4], pl.FP32]]):
    out[:] = pl.mul(x, 3.0)
    return out
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in (("entry", ENTRY), ("middle", MIDDLE), ("leaf", LEAF)):
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


def run(project: Path, *args: str, seed: str = "0") -> tuple[str, str]:
    """What a fresh process prints, and what it reports on compiles."""
    environment = {
        **os.environ, "PYTHONHASHSEED": seed, "TILEJIT_CACHE_DIR": str(project.parent / "cache"), "TILEJIT_LOG": "recompile", "TILEJIT_PLATFORM": "cpu",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(project)]), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = subprocess.run([sys.executable, str(project / "entry.py"), *args], capture_output=True, text=True, check=True, env=environment)
    return done.stdout, done.stderr


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_text_is_the_same_in_every_process_and_under_every_hash_seed(project: Path) -> None:
    texts = {run(project, "text", seed=seed)[0] for seed in ("0", "1", "4242")}
    assert len(texts) == 1
    assert "def scale(self, x: pl.Tensor[[ROWS, 4], pl.FP32]" in texts.pop()


def test_editing_a_helper_two_modules_away_changes_the_result(project: Path) -> None:
    """A key made of the entry's own text alone served the old kernel."""
    before, report = run(project)
    assert "compiled" in report
    edit(project / "leaf.py", "3.0", "0.5")
    after, report = run(project)
    assert "compiled" in report
    assert eval(after)[1][0] == eval(before)[1][0] / 36


def test_a_comment_in_a_helper_compiles_nothing(project: Path) -> None:
    before, _ = run(project)
    edit(project / "leaf.py", "    out[:]", "    # three times as much\n\n    out[:]")
    edit(project / "middle.py", "import tilejit", "# nothing new\nimport tilejit")
    after, report = run(project)
    assert after == before
    assert "compiled" not in report


FORK = """
import os, signal, threading
import numpy as np
import llvmlite.binding as llvm
import tilejit.language as pl
import tilejit.backends.cpu.llvm.compile

def make(n):
    @pl.jit
    def kernel(x: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + float(n)
        return y
    return kernel

inside, forking = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)  # the last one registered comes first

def compiling():
    with llvm.ffi.lib._lock:
        inside.set()
        forking.wait()

thread = threading.Thread(target=compiling)
thread.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(300)
    found = make(3)(np.zeros((1, 2), np.float32))[0, 0]
    os._exit(int(found != 3.0))
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert make(4)(np.zeros((1, 2), np.float32))[0, 0] == 4.0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_while_another_thread_is_in_llvm_compiles(tmp_path: Path) -> None:
    (tmp_path / "forked.py").write_text(FORK)
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "TILEJIT_PLATFORM": "cpu"}
    done = subprocess.run([sys.executable, "-W", "ignore", str(tmp_path / "forked.py")], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


ONCE = """
import os
import numpy as np
import tilejit.language as pl
who = pl.once(lambda: float(os.getpid() % 65536))
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + who()
x = np.zeros((1, 4), np.float32)
out = np.empty_like(x)
for _ in range(3):
    kernel(x, out)
parent = os.getpid() % 65536
child = os.fork()
if child == 0:
    kernel(x, out)
    os._exit(int(out[0, 0] != parent))
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_the_answers_that_were_asked_for_once(tmp_path: Path) -> None:
    (tmp_path / "once.py").write_text(ONCE)
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "TILEJIT_PLATFORM": "cpu"}
    done = subprocess.run([sys.executable, "-W", "ignore", str(tmp_path / "once.py")], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

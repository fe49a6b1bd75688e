"""The import, and the first call in a fresh process that finds its kernel on disk or in an artifact directory, against numba's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import Count, Pair, Target

SAMPLES = 11

TIMED = """
import sys, time
import numpy as np
import kernels

a, b, out = (np.ones((64, 64), np.float32) for _ in range(3))
start = time.perf_counter()
kernels.{name}(a, b, out)
print(time.perf_counter() - start)
assert out[0, 0] == {expected}
{afterwards}
"""

OURS = """
import tilejit.language as pl

@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b

@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
"""

NUMBAS = """
import numba

@numba.njit(cache=True)
def add(a, b, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + b[i, j]

@numba.njit(cache=True)
def product(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
"""

LOADED = """
import shutil, sys, time
import numpy as np
from tilejit.runtime import CompiledProgram

a, b, out = (np.ones((64, 64), np.float32) for _ in range(3))
if len(sys.argv) > 1:
    import kernels
    shutil.copytree(kernels.{name}.compile(a, b, out), "{folder}/{name}.artifact")
start = time.perf_counter()
CompiledProgram.from_dir("{folder}/{name}.artifact")(a, b, out)
print(time.perf_counter() - start)
assert out[0, 0] == {expected}
{afterwards}
"""

NO_COMPILER = "assert not {'xdsl', 'llvmlite'} & {name.partition('.')[0] for name in sys.modules} or len(sys.argv) > 1"
"""A warm start loads no compiler; the call that fills the cache passes an argument."""


def first_call(folder: Path, name: str, expected: int, afterwards: str, source: str = TIMED) -> Callable[..., float]:
    """Seconds of the first call of a kernel of `folder`, measured in a fresh process."""
    script = folder / f"{'first' if source is TIMED else 'load'}_{name}.py"
    script.write_text(source.format(name=name, expected=expected, afterwards=afterwards, folder=folder))
    return lambda *arguments: float(output_of(script, *arguments).stdout)


NEXT = """
import statistics, sys, time
import numpy as np
import kernels

a, b, out = (np.ones((64, 64), np.float32) for _ in range(3))
seconds = []
for kernel in (kernels.add, *kernels.others):
    start = time.perf_counter()
    kernel(a, b, out)
    seconds.append(time.perf_counter() - start)
print(seconds[0], statistics.median(seconds[1:]))
"""
OTHERS = """
@pl.jit
def other{number}(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * {number}.5 + b
"""
COUNT = 5


def prepared(root: str) -> dict[str, Path]:
    """A folder for each side, with its kernels."""
    folders = {"ours": Path(root, "ours"), "numbas": Path(root, "numbas")}
    for folder, source in zip(folders.values(), (OURS, NUMBAS), strict=True):
        folder.mkdir(mode=0o700)
        (folder / "kernels.py").write_text(source)
    with (folders["ours"] / "kernels.py").open("a") as file:
        file.writelines(OTHERS.format(number=number) for number in range(COUNT))
        file.write(f"others = [{', '.join(f'other{number}' for number in range(COUNT))}]\n")
    return folders


def environment_of(folder: Path) -> dict[str, str]:
    return {**os.environ, "TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(folder / "cache"), "NUMBA_CACHE_DIR": str(folder / "cache")}


def output_of(script: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False, env={**environment_of(script.parent), **more})
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done


def first_calls() -> Iterator[Pair | Count]:
    """The rows of the disk cache: a first call against numba's, the next kernels against the first, and an edit that changes nothing."""
    with tempfile.TemporaryDirectory(prefix="tilejit-bench-") as root:
        folders = prepared(root)
        ours = first_call(folders["ours"], "add", 2, NO_COMPILER)
        numbas = first_call(folders["numbas"], "add", 2, "")
        ours("fill")
        numbas("fill")
        yield Pair("first call from disk, add", "numba cache=True", ours, numbas, samples=SAMPLES, self_timed=True, target=Target(0.01))
        following, first = each_next(folders["ours"])
        yield Pair("each next kernel from disk", "the first one", following, first, samples=SAMPLES, self_timed=True, target=Target(0.3))
        yield Count("comment-only edit", "recompiles", lambda: recompiles_after_a_comment(folders["ours"]))


def each_next(folder: Path) -> tuple[Callable[[], float], Callable[[], float]]:
    """Seconds of a kernel after the first, and of the first in the same process."""
    script = folder / "next.py"
    script.write_text(NEXT)
    output_of(script)
    found: list[float] = []

    def following() -> float:
        found[:] = map(float, output_of(script).stdout.split())
        return found[1]

    return following, lambda: found[0]


def recompiles_after_a_comment(folder: Path) -> int:
    kernels = folder / "kernels.py"
    kernels.write_text("# a comment above\n\n" + kernels.read_text().replace("    with pl.at", "    # and one inside\n    with pl.at"))
    return output_of(folder / "next.py", TILEJIT_LOG="recompile").stderr.count("compiled")


def import_seconds() -> tuple[Callable[[], float], Callable[[], float]]:
    """What the modules of the language, and those of NumPy, cost themselves when both are imported in a fresh process."""
    found: dict[str, float] = {}

    def measure_both() -> float:
        command = [sys.executable, "-X", "importtime", "-c", "import numpy, tilejit.language"]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        rows = [line.split("|") for line in report.splitlines() if line.startswith("import time:") and "self" not in line]
        for package in ("tilejit", "numpy"):
            found[package] = sum(int(own.partition(":")[2]) for own, _, name in rows if name.strip().partition(".")[0] == package) * 1e-6
        return found["tilejit"]

    return measure_both, lambda: found["numpy"]


def cases() -> Iterator[Pair]:
    yield Pair("import tilejit.language", "import numpy", *import_seconds(), samples=SAMPLES, self_timed=True, target=Target(1))
    with tempfile.TemporaryDirectory(prefix="tilejit-bench-") as root:
        folders = prepared(root)
        for name, expected in (("add", 2), ("product", 64)):
            ours = first_call(folders["ours"], name, expected, NO_COMPILER)
            loaded = first_call(folders["ours"], name, expected, NO_COMPILER, LOADED)
            numbas = first_call(folders["numbas"], name, expected, "")
            ours("fill")
            loaded("fill")
            numbas("fill")
            yield Pair(f"first call from disk, {name}", "numba cache=True", ours, numbas, samples=SAMPLES, self_timed=True)
            yield Pair(f"load an artifact and call it, {name}", "numba cache=True", loaded, numbas, samples=SAMPLES, self_timed=True, target=Target(0.02))

"""The cache behind real calls: what is reused, what is not, and what happens when the disk misbehaves."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tests.patience import HANG
from tests.runtime.test_store import FaultyFiles
from tilejit import compiler
from tilejit.backends.cpu import executable
from tilejit.errors import TilejitWarning
from tilejit.frontend.text import parse
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk import stores
from tilejit.jit.disk.pieces import dispatcher_code
from tilejit.jit.function import JITFunction
from tilejit.runtime.store.directory import Store
from tilejit.runtime.store.entry import CacheEntry, encode

pytestmark = pytest.mark.dispatch

SCALE = """
@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        {local} = x * {factor}
        out[:] = {local} + 1.0
"""


def source(factor: float = 3.0, local: str = "y") -> str:
    return SCALE.format(factor=factor, local=local)


def check(kernel: JITFunction, factor: float = 3.0, shape: tuple[int, int] = (5, 7)) -> None:
    """Three calls give the right numbers: the first, a warm one, and one whose output is returned."""
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    out = np.full_like(x, np.nan)
    for _ in range(2):
        kernel(x, out)
        np.testing.assert_allclose(out, x * np.float32(factor) + 1, rtol=1e-6, atol=1e-6)
        out[:] = np.nan
    np.testing.assert_allclose(kernel(x), x * np.float32(factor) + 1, rtol=1e-6, atol=1e-6)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], tuple[int, int]]:
    """How often a program was compiled, and how often LLVM ran for it, in this process and its forks."""
    dispatcher_code()  # what all kernels share is made once per process, and no part of the count
    log = tmp_path / "compiles"
    log.touch()

    def counting(letter: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            with open(log, "a") as file:
                file.write(letter)
            return function(*args, **kwargs)

        return counted

    monkeypatch.setattr(compiler, "compile_program", counting("p", compiler.compile_program))
    monkeypatch.setattr(executable, "compile_llvm", counting("l", executable.compile_llvm))
    return lambda: (log.read_text().count("p"), log.read_text().count("l"))


# what is reused -----------------------------------------------------------------------------------------------------------


def test_a_second_process_finds_the_kernel(make_kernel: MakeKernel, compiles: Callable[[], tuple[int, int]]) -> None:
    check(make_kernel(source()))
    again = make_kernel(source())
    check(again)
    assert compiles() == (1, 1)
    assert again.cache_info().loaded == 1


def test_a_call_without_outputs_is_found_as_such_where_one_in_place_came_first(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((2, 3), np.float32)
    text = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * 2.0\n"
    make_kernel(text)(x, np.empty_like(x))
    np.testing.assert_array_equal(make_kernel(text)(x), x * 2)
    monkeypatch.setattr("tilejit.jit.specialize.requests.find_outputs", lambda *_: pytest.fail("looked for the outputs again"))
    np.testing.assert_array_equal(make_kernel(text)(x), x * 2)


def test_another_constant_is_another_kernel(make_kernel: MakeKernel, compiles: Callable[[], tuple[int, int]]) -> None:
    check(make_kernel(source(3.0)), 3.0)
    check(make_kernel(source(4.0)), 4.0)
    assert compiles() == (2, 2)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(source(local="renamed"), {}, id="local renamed"),
        pytest.param(source(), {"__name__": "elsewhere"}, id="moved to another module"),
        pytest.param(source().replace("def scaled", "def stretched"), {}, id="kernel renamed"),
        pytest.param(source().replace("x * 3.0", "x * (1.5 * 2)"), {}, id="constant written otherwise"),
    ],
)
def test_what_leaves_the_code_equal_generates_none(
    text: str, names: dict[str, object], make_kernel: MakeKernel, compiles: Callable[[], tuple[int, int]]
) -> None:
    check(make_kernel(source()))
    check(make_kernel(text, **names))
    assert compiles() == (2, 1), "specialised anew, with the machine code that was there"


def test_reused_code_fails_with_spans_of_its_own(make_kernel: MakeKernel, compiles: Callable[[], tuple[int, int]]) -> None:
    text = """
    @pl.jit
    def picked(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.tensor.gather(x, 0, index)
    """
    x = np.ones((4, 8), np.float32)
    index = np.full((2, 8), 99, np.int32)
    messages: list[str] = []
    for written in (text, text.replace("picked", "chosen").replace("x", "data")):
        kernel = make_kernel(written)
        with pytest.raises(Exception) as caught:
            kernel(x, index, np.zeros((2, 8), np.float32))
        messages.append(str(caught.value))
    assert compiles() == (2, 1)
    assert "in picked" in messages[0] and "in chosen" in messages[1] and "data" in messages[1]


@pytest.mark.parametrize("variable", ["TILEJIT_FAST_MATH", "TILEJIT_CHECK_BOUNDS"])
def test_a_setting_changed_between_two_calls_is_another_key_and_back_again(
    variable: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel that is compiled under the other setting multiplies by another number, so that it can be told which one ran."""
    compile_program = compiler.compile_program

    def by_setting(program: Any, *args: Any, **kwargs: Any) -> Any:
        text = program.as_python()
        assert "3.0" in text
        return compile_program(parse(text.replace("3.0", "5.0")) if os.environ[variable] == "0" else program, *args, **kwargs)

    monkeypatch.setattr(compiler, "compile_program", by_setting)
    kernel = make_kernel(source(3.0))
    for value in "101001":
        monkeypatch.setenv(variable, value)
        check(kernel, 3.0 if value == "1" else 5.0)
    assert kernel.cache_info().misses == 2


DIGEST = """
import linecache, sys
import numpy as np
import tilejit.language as pl
OPTIONS = {"b": {3, 1, 2}, "a": frozenset({"x", "y", "z"})}
NAMES = {"one": 1, "two": 2}
text = '''
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    if 2 in OPTIONS["b"]:
        out[:] = x * NAMES["two"]
'''
linecache.cache["<cell>"] = (len(text), None, text.splitlines(keepends=True), "<cell>")
exec(compile(text, "<cell>", "exec"))
x = np.ones((2, 3), np.float32)
kernel(x, x.copy())
print(*kernel._cache.asked)
"""


def test_the_key_is_the_same_in_every_process_and_under_every_hash_seed() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", DIGEST], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "src"}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(found) == 1 and len(found.pop().strip()) == 64


# faults -------------------------------------------------------------------------------------------------------------------


def test_injected_faults_never_reach_a_call(make_kernel: MakeKernel, use_store: Callable[[Store], None], cache_dir: Path) -> None:
    rng = random.Random(5)
    files = FaultyFiles(rng, 0.2)
    faults = int(os.environ.get("TILEJIT_TEST_FAULTS", "5000")) // 25
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilejitWarning)
        while files.injected < faults:
            use_store(Store(str(cache_dir), files=files, max_entries=5, lock_timeout=0.05))
            factor = float(rng.randrange(4))
            check(make_kernel(source(factor)), factor)
    healthy = Store(str(cache_dir))
    use_store(healthy)
    for factor in range(4):
        check(make_kernel(source(float(factor))), float(factor))
        kernel = make_kernel(source(float(factor)))
        check(kernel, float(factor))
        assert kernel.cache_info().loaded == 1, "the cache is usable afterwards"


def test_a_failing_disk_is_a_slow_disk(make_kernel: MakeKernel, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unusable = cache_dir.parent / "file"
    unusable.write_text("not a directory")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(unusable))
    with pytest.warns(TilejitWarning, match="cannot be used"):
        check(make_kernel(source()))
    assert unusable.read_text() == "not a directory"


class Planted:
    """Pickle bytes that would run a command."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[object, ...]:
        return subprocess.call, (["touch", str(self.witness)],)


def planted_entries(key: str, witness: Path, outside: Path) -> Iterator[tuple[str, Callable[[Path], object]]]:
    good = {"kernel": "x", "functions": {"f": 0}}
    traversal = CacheEntry(key, {"kernel": "../../../../evil", "path": str(outside)}, {"../../evil": b"x", "meta.json": b"{}", str(outside): b"y"})
    lies = encode(CacheEntry(key, good, {"code": b"abc"}))
    yield "pickle", lambda path: path.write_bytes(pickle.dumps(Planted(witness)))
    yield "pickle in a section", lambda path: path.write_bytes(encode(CacheEntry(key, good, {"meta.json": pickle.dumps(Planted(witness)), "kernel.bin": b""})))
    yield "path traversal", lambda path: path.write_bytes(encode(traversal))
    yield "header length", lambda path: path.write_bytes(lies[:12] + b"\xff\xff\xff\x7f" + lies[16:])
    yield "section length", lambda path: path.write_bytes(resized(lies, key))
    yield "deep JSON", lambda path: path.write_bytes(lies[:16] + b"[" * 100_000)
    yield "symbolic link", lambda path: path.symlink_to(outside)
    yield "directory", lambda path: path.mkdir()
    yield "FIFO", os.mkfifo
    yield "empty", lambda path: path.touch()


def resized(data: bytes, key: str) -> bytes:
    """A well-signed header whose section claims 2**62 bytes."""
    header = f"{key}\ncode {1 << 62} {'0' * 64}\n{{}}".encode()
    prefix = data[:12] + len(header).to_bytes(4, "little")
    return prefix + header + hashlib.sha256(prefix + header).digest()


def test_planted_entries_are_set_aside_and_replaced(make_kernel: MakeKernel, cache_dir: Path, tmp_path: Path) -> None:
    first = make_kernel(source())
    check(first)
    key = next(iter(first._cache.asked))
    path = cache_dir / key[:2] / f"{key}.tj"
    whole = path.read_bytes()
    witness, outside = tmp_path / "executed", tmp_path / "outside"
    outside.write_text("mine")
    for name, plant in planted_entries(key, witness, outside):
        path.unlink()
        plant(path)
        stores._store.cache_clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TilejitWarning)
            check(make_kernel(source()))
        assert path.read_bytes() == whole and not path.is_symlink(), f"{name}: written anew in the same call"
    assert len(list((cache_dir / "quarantine").iterdir())) == 10
    assert not witness.exists() and outside.read_text() == "mine"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["cache", "outside"]


# many at once -------------------------------------------------------------------------------------------------------------


def test_an_entry_whose_fields_are_not_those_of_its_key_is_replaced(make_kernel: MakeKernel, cache_dir: Path) -> None:
    """Whole and with the right key, but its code is another kernel's."""
    check(make_kernel(source(3.0)))
    others = {entry.key: entry for entry in disk.entries() if "definition" in entry.fields}
    other = next(iter(others.values()))
    check(make_kernel(source(4.0)), 4.0)
    mine = next(entry for entry in disk.entries() if "definition" in entry.fields and entry.key not in others)
    assert disk.store().put(CacheEntry(mine.key, other.fields, other.sections))
    with pytest.warns(TilejitWarning, match="other fields"):
        check(make_kernel(source(4.0)), 4.0)
    assert next(entry for entry in disk.entries() if entry.key == mine.key).fields == mine.fields


def test_sixty_four_processes_compile_once(make_kernel: MakeKernel, compiles: Callable[[], tuple[int, int]]) -> None:
    check(make_kernel(source(9.0)), 9.0)  # loads the compiler before the forks
    before = compiles()
    kernel = make_kernel(source(2.0))
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(64)

    def first_call() -> None:
        barrier.wait()
        check(kernel, 2.0)

    workers = [context.Process(target=first_call) for _ in range(64)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANG)
        assert worker.exitcode == 0
    assert compiles() == (before[0] + 1, before[1] + 1)


def test_sixteen_threads_that_call_first_compile_once(make_kernel: MakeKernel, compiles: Callable[[], tuple[int, int]]) -> None:
    kernel = make_kernel(source())
    barrier, errors = threading.Barrier(16), list[BaseException]()

    def first_call() -> None:
        try:
            barrier.wait()
            for _ in range(20):
                check(kernel)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=first_call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert compiles() == (1, 1) and kernel.cache_info().misses == 1


def test_threads_share_the_exception_of_a_compile(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    @pl.jit
    def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.matmul(x, x)
    """)
    x = np.ones((3, 5), np.float32)
    found: list[str] = []

    def call() -> None:
        try:
            kernel(x, x.copy())
        except Exception as error:
            found.append(type(error).__name__)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def test_a_child_forked_after_the_first_call_calls_and_compiles(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(source())
    check(kernel)
    context = multiprocessing.get_context("fork")

    def in_child() -> None:
        check(kernel)
        check(kernel, shape=(3, 17))
        check(make_kernel(source(6.0)), 6.0)

    children = [context.Process(target=in_child) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(HANG)
        assert child.exitcode == 0
    check(kernel)
    check(kernel, shape=(3, 17))


@pytest.mark.parametrize(("owner", "step"), [(JITFunction, "_compile"), (executable, "flatten")])
def test_a_child_forked_while_another_thread_compiles_does_not_wait_for_it(
    owner: Any, step: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(make_kernel(source(4.0)), 4.0)  # what all kernels share is there: the step belongs to the thread
    kernel = make_kernel(source())
    started, go_on = threading.Event(), threading.Event()
    original = getattr(owner, step)

    def slow(*args: Any) -> Any:
        if os.getpid() == parent:
            started.set()
            go_on.wait(HANG)
        return original(*args)

    parent = os.getpid()
    monkeypatch.setattr(owner, step, slow)
    thread = threading.Thread(target=check, args=(kernel,))
    thread.start()
    assert started.wait(HANG)
    child = multiprocessing.get_context("fork").Process(target=check, args=(make_kernel(source(5.0)), 5.0))
    same = multiprocessing.get_context("fork").Process(target=_check_alone, args=(kernel,))
    for process in (child, same):
        process.start()
        process.join(HANG)
    go_on.set()
    thread.join()
    assert (child.exitcode, same.exitcode) == (0, 0)


def _check_alone(kernel: JITFunction) -> None:
    """In a child: the lock on disk is the parent's, who goes on only when we are done."""
    disk.store().lock_timeout = 0.1
    assert gc.isenabled(), "the collector rests as long as a thread of this process compiles"
    check(kernel)


def test_readers_win_against_eviction(make_kernel: MakeKernel, use_store: Callable[[Store], None], cache_dir: Path) -> None:
    store = Store(str(cache_dir), max_entries=1)
    use_store(store)
    done, errors = threading.Event(), list[BaseException]()

    def evict() -> None:
        while not done.is_set():
            store.sweep()

    sweeper = threading.Thread(target=evict)
    sweeper.start()
    try:
        for number in range(30):
            check(make_kernel(source(float(number % 3))), float(number % 3))
    except BaseException as error:
        errors.append(error)
    done.set()
    sweeper.join()
    assert not errors

"""The thread pool of a process: settings, concurrent callers, forks, exit, and kernels that come without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilejit.language as pl
from tests.backends.cpu.pool import shared
from tests.patience import HANG
from tilejit import RunConfig
from tilejit.runtime import threads
from tilejit.runtime.call.abi import Team

NDArray = npt.NDArray[Any]


@pl.jit
def exponentials(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        out = pl.store(pl.exp(pl.exp(pl.load(x, [i * 8, 0], [8, 256]))), [i * 8, 0], out)
    return out


@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        t = pl.load(x, [i * 8, 0], [8, 256])
        for _ in pl.range(40):
            t = pl.mul(t, 1.01)
        out = pl.store(t, [i * 8, 0], out)
    return out


@pl.jit
def row_sums(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(32):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.exp(pl.load(x, [i * 8, 0], [8, 256]))
            out = pl.store(pl.row_sum(rows, pl.create_tile([8, 256], dtype=pl.FP32)), [i * 8, 0], out)
    return out


@pl.jit
def products(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(16):
        out = pl.store(pl.matmul(pl.load(x, [i * 16, 0], [16, 256]), pl.load(x, [0, 0], [256, 64])), [i * 16, 0], out)
    return out


def data(seed: int = 0) -> NDArray:
    return np.random.default_rng(seed).uniform(-1, 1, (256, 256)).astype(np.float32)


def test_the_setting_and_the_call_decide_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    x = data()
    out = np.empty_like(x)
    monkeypatch.setenv("TILEJIT_NUM_THREADS", "1")
    exponentials(x, out)
    for _ in range(3):
        with shared(False):
            exponentials(x, out)
    with shared(True):
        exponentials(x, out, config=RunConfig(num_threads=2))
    monkeypatch.setenv("TILEJIT_NUM_THREADS", "2")
    for _ in range(3):
        out[:] = 0
        with shared(True):
            exponentials(x, out)
        np.testing.assert_allclose(out, np.exp(np.exp(x)), rtol=1e-5)


@pytest.mark.torch
def test_warm_calls_follow_torch_when_its_number_of_threads_changes() -> None:
    import torch

    before = torch.get_num_threads()
    x = torch.from_numpy(data())
    out = torch.empty_like(x)
    try:
        for count in (1, 2, 1, 3):
            torch.set_num_threads(count)
            for _ in range(3):
                with shared(count > 1):
                    exponentials(x, out)
            torch.testing.assert_close(out, x.exp().exp())
    finally:
        torch.set_num_threads(before)


@pytest.mark.torch
def test_workers_treat_tiny_numbers_as_their_caller_does() -> None:
    import torch

    x = (data() * 1e-39).astype(np.float32)
    results: list[NDArray] = []
    try:
        for flushed in (True, False):
            torch.set_flush_denormal(flushed)
            for count in (1, 4):
                out = np.empty_like(x)
                scaled(x, out, config=RunConfig(num_threads=count))
                results.append(out)
    finally:
        torch.set_flush_denormal(False)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[2], results[3])
    assert not results[0].any() and results[2].any()


def test_a_second_caller_runs_on_its_own_thread() -> None:
    x = data(1)
    want = np.exp(np.exp(x))
    config = RunConfig(num_threads=2)
    exponentials(x, np.empty_like(x), config=config)
    wrong: list[float] = []

    def call() -> None:
        out = np.empty_like(x)
        for _ in range(100):
            out[:] = 0
            exponentials(x, out, config=config)
            wrong.append(float(np.abs(out / want - 1).max()))

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not any(caller.is_alive() for caller in callers)
    assert len(wrong) == 600 and max(wrong) < 1e-5


def test_sixteen_threads_call_different_kernels_and_memory_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_NUM_THREADS", "3")
    x = data(2)
    cases: list[tuple[Any, tuple[int, ...], NDArray]] = [
        (exponentials, (256, 256), np.exp(np.exp(x))),
        (row_sums, (256, 1), np.exp(x).sum(1, keepdims=True)),
        (products, (256, 64), x @ x[:, :64]),
    ]
    for kernel, shape, _ in cases:
        kernel(x, np.empty(shape, np.float32))
    errors: list[str] = []
    sizes: list[int] = []

    def call(number: int) -> None:
        kernel, shape, want = cases[number % len(cases)]
        out = np.empty(shape, np.float32)
        for _ in range(200):
            out[:] = np.nan
            kernel(x, out)
            if not np.allclose(out, want, rtol=1e-4, atol=1e-4):
                errors.append(f"{kernel.__name__} differs")
            if number == 0:
                sizes.append(_resident())

    callers = [threading.Thread(target=call, args=(number,)) for number in range(16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not errors
    late = sizes[len(sizes) // 2 :]
    assert max(late) - late[0] < 8 << 20, "memory grows"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    x = data(3)
    want = np.exp(np.exp(x))
    config = RunConfig(num_threads=3)
    out = np.empty_like(x)
    exponentials(x, out, config=config)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            state = threads.state()
            assert state is not None
            before = state[Team.WORKERS]
            out[:] = 0
            exponentials(x, out, config=config)
            code = 0 if before == 0 and state[Team.WORKERS] == 2 and np.allclose(out, want, rtol=1e-5) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    out[:] = 0
    with shared(True):
        exponentials(x, out, config=config)
    np.testing.assert_allclose(out, want, rtol=1e-5)


# other processes --------------------------------------------------------------------------------------------------------

KERNEL = """
import numpy as np
import tilejit.language as pl

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        out = pl.store(pl.exp(pl.exp(pl.load(x, [i * 8, 0], [8, 256]))), [i * 8, 0], out)
    return out

x = np.random.default_rng(0).uniform(-1, 1, (256, 256)).astype(np.float32)
out = np.empty_like(x)
"""


def _run(folder: Path, code: str, *flags: str, **environment: str) -> str:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(KERNEL) + textwrap.dedent(code))
    command = [sys.executable, *flags, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG, env={**os.environ, "TILEJIT_NUM_THREADS": "3", **environment})
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert not done.stderr, done.stderr
    return done.stdout


def test_the_interpreter_ends_cleanly_while_workers_spin(tmp_path: Path) -> None:
    code = """
        for _ in range(20):
            kernel(x, out)
        assert np.allclose(out, np.exp(np.exp(x)), rtol=1e-5)
        print("done")
    """
    for _ in range(3):
        assert _run(tmp_path, code, "-X", "dev") == "done\n"


@pytest.mark.torch
def test_torchs_threads_do_the_work_where_there_are_enough(tmp_path: Path) -> None:
    """Of the main thread; other threads, a larger number, and the child of a fork, in which they are gone, take threads of our own."""
    code = """
        import ctypes, os, threading, torch
        from tilejit import RunConfig
        from tilejit.runtime import threads
        from tilejit.runtime.call.abi import Team
        torch.set_num_threads(5)
        program, given = kernel.compile(x, out), torch.from_numpy(x)
        alone = np.empty_like(x)
        program(x, alone, config=RunConfig(num_threads=1))

        def check(count):
            out[:] = 0
            before = threads.state()[Team.GENERATION]
            program(x, out, config=RunConfig(num_threads=count))
            assert (out == alone).all() and threads.state()[Team.GENERATION] == before + 1
            assert torch.allclose(given.exp(), torch.from_numpy(np.exp(x)))
            return threads.state()[Team.WORKERS]

        program(x, out, config=RunConfig(num_threads=5))
        print([check(count) for count in (5, 3, 5, 2)])
        child = os.fork()
        if child == 0:
            out[:] = 0
            program(x, out, config=RunConfig(num_threads=5))
            os._exit(0 if (out == alone).all() and threads.state()[Team.WORKERS] == 4 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        found = []
        other = threading.Thread(target=lambda: found.append(check(3)))
        other.start()
        other.join()
        print(found, check(7), check(5))
        # Brief work has a part for each of them; the caller sees to those of threads that do not come.
        library = next(line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line)
        before = threads.state()[Team.TICKET]
        for levels in (1, 0):
            ctypes.CDLL(library).omp_set_max_active_levels(levels)
            check(5)
        print(threads.state()[Team.TICKET] - before)
    """
    assert _run(tmp_path, code, "-W", "ignore::DeprecationWarning") == "[0, 0, 0, 0]\n0\n[2] 6 6\n2\n"


@pytest.mark.torch
def test_few_threads_of_torch_that_come_late_are_left_alone_for_a_while(tmp_path: Path) -> None:
    code = """
        import ctypes, time, torch
        from tilejit import RunConfig
        from tilejit.runtime import threads
        from tilejit.runtime.call.abi import Team
        torch.set_num_threads(2)
        program = kernel.compile(x, out)

        def run():
            out[:] = 0
            program(x, out, config=RunConfig(num_threads=2))
            assert np.allclose(out, np.exp(np.exp(x)), rtol=1e-5)
            return threads.state()[Team.WORKERS]

        print(run())
        # An OpenMP whose second thread does not come, and which waits for it all the same.
        @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        def parallel(function, work, count, flags):
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(work)
            time.sleep(0.05)
        threads.state()[Team.OPENMP] = ctypes.cast(parallel, ctypes.c_void_p).value
        while not threads.state()[Team.BORROW_AFTER]:  # once, unless this thread had to wait itself
            run()
        threads.state()[Team.BORROW_AFTER] = 2**62
        print(run())
    """
    assert _run(tmp_path, code) == "0\n1\n"


def test_a_warm_process_shares_work_out_without_a_compiler(tmp_path: Path) -> None:
    code = """
        import sys
        from tilejit.runtime import threads
        from tilejit.runtime.call.abi import Team
        kernel(x, out)
        print("llvmlite" in sys.modules, "xdsl" in sys.modules, threads.state()[Team.GENERATION])
    """
    cache = {"TILEJIT_CACHE_DIR": str(tmp_path / "cache")}
    _run(tmp_path, code, **cache)
    assert _run(tmp_path, code, **cache) == "False False 1\n"


def test_an_artifact_directory_brings_its_pool_along(tmp_path: Path) -> None:
    compile = """
        kernel.compile(x, out).output_dir
        import shutil
        shutil.copytree(kernel.compile(x, out).output_dir, FOLDER)
    """
    folder = tmp_path / "moved"
    _run(tmp_path, compile.replace("FOLDER", repr(str(folder))))
    path = tmp_path / "run.py"
    path.write_text(
        textwrap.dedent(f"""
            import sys
            import numpy as np
            from tilejit import CompiledProgram
            from tilejit.runtime import threads
            from tilejit.runtime.call.abi import Team
            x = np.random.default_rng(0).uniform(-1, 1, (256, 256)).astype(np.float32)
            out = np.empty_like(x)
            CompiledProgram.from_dir({str(folder)!r})(x, out)
            assert np.allclose(out, np.exp(np.exp(x)), rtol=1e-5)
            print("llvmlite" in sys.modules, threads.state()[Team.GENERATION])
        """)
    )
    environment = {**os.environ, "TILEJIT_NUM_THREADS": "2", "TILEJIT_CACHE_DIR": str(tmp_path / "nothing")}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=HANG, env=environment)
    assert done.stdout == "False 1\n", done.stderr


def test_kernels_of_another_version_run_on_one_thread(tmp_path: Path) -> None:
    code = """
        import types
        from tilejit.runtime import threads
        threads.abi = types.SimpleNamespace(**{**vars(threads.abi), "TEAM_RUN": "the pool of another version"})
        kernel(x, out)
        kernel(x, out)
        assert threads.state() is None
        print(np.allclose(out, np.exp(np.exp(x)), rtol=1e-5))
    """
    assert _run(tmp_path, code) == "True\n"


def test_a_limit_on_address_space_leaves_the_work_to_one_thread(tmp_path: Path) -> None:
    code = """
        import resource
        from tilejit import RunConfig
        kernel(x, out, config=RunConfig(num_threads=1))
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
        for _ in range(5):
            out[:] = 0
            kernel(x, out)
            assert np.allclose(out, np.exp(np.exp(x)), rtol=1e-5)
        print("done")
    """
    assert _run(tmp_path, code) == "done\n"


def test_signals_reach_python_not_the_workers(tmp_path: Path) -> None:
    code = """
        import signal, threading
        kernel(x, out)
        caught = []
        signal.signal(signal.SIGALRM, lambda *_: caught.append(threading.current_thread() is threading.main_thread()))
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        for _ in range(3):
            signal.pause()  # returns only when this thread itself gets a signal
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(caught[:3])
    """
    assert _run(tmp_path, code) == "[True, True, True]\n"


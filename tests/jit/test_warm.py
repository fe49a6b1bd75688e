"""Warm calls: what they must not do, and that they stay right under threads, debug builds and every kind of argument."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit.errors import StaleCaptureError, TilejitError
from tilejit.jit.function import JITFunction
from tilejit.runtime import arrays
from tilejit.runtime.call.layout import supported
from tilejit.runtime.call.warm import WarmCalls
from tilejit.runtime.config import RunConfig

pytestmark = pytest.mark.dispatch
native_only = pytest.mark.skipif(not supported() or os.environ.get("TILEJIT_FASTPATH") == "0", reason="needs native dispatch")

FACTOR = 3.0


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * FACTOR + b


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")


def three(*shape: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    return a, b, np.full(shape, np.nan, np.float32)


def native_hits(kernel: JITFunction) -> int:
    return kernel._warm.hits if kernel._warm is not None else 0


# what a warm call does not do ---------------------------------------------------------------------------------------------


@native_only
def test_a_warm_call_builds_no_adaptors_and_binds_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    numpys, torches = three(4, 6), tuple(torch.rand(4, 6) for _ in range(3))
    for _ in range(2):
        add(*numpys)
        add(*torches)
    counts: dict[str, int] = {}

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    count(arrays.ArrayView, "__init__")
    count(torch.Tensor, "__dlpack__")
    count(inspect.Signature, "bind")
    count(JITFunction, "_first_part")
    before = native_hits(add)
    for _ in range(500):
        add(*numpys)
        add(*torches)
    assert counts == {}
    assert native_hits(add) - before == 1000


@native_only
def test_every_way_of_calling_ends_in_native_code(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    @pl.jit
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: float = 2.0, *, shift: float = 1.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * factor + shift
    """)
    x, _, out = three(3, 5)
    config = RunConfig(num_threads=1, fast_math=False)
    ways: list[tuple[Callable[[], Any], float, float]] = [
        (lambda: kernel(x, out), 2, 1), (lambda: kernel(x), 2, 1), (lambda: kernel(x, out, 3.0), 3, 1), (lambda: kernel(out=out, x=x), 2, 1),
        (lambda: kernel(x, factor=3.0, out=out), 3, 1), (lambda: kernel(x, shift=4.0), 2, 4), (lambda: kernel(x, out, shift=4.0), 2, 4),
        (lambda: kernel(x, out, config=config), 2, 1), (lambda: kernel(x, config=config), 2, 1), (lambda: kernel(x, out, config=None), 2, 1),
    ]  # fmt: skip
    for call, factor, shift in ways:
        for _ in range(3):
            call()
        before = native_hits(kernel)
        for _ in range(5):
            out[:] = np.nan
            found = call()
            np.testing.assert_array_equal(out if found is None else found, x * np.float32(factor) + np.float32(shift))
        assert native_hits(kernel) - before == 5
    with pytest.raises(TilejitError, match="config must be a RunConfig"):
        kernel(x, out, config=3)  # type: ignore[arg-type]


def test_the_python_path_builds_no_adaptors_either(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", "0")
    kernel = make_kernel("""
    @pl.jit
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0
    """)
    x, _, out = three(3, 5)
    for _ in range(2):
        kernel(x, out)
    made: list[object] = []
    monkeypatch.setattr(arrays.ArrayView, "__init__", lambda *args, **kwargs: made.append(args))
    for _ in range(10):
        kernel(x, out)
    assert made == [] and native_hits(kernel) == 0
    np.testing.assert_array_equal(out, 2 * x)


RETURNING = """
    ROWS = pl.dynamic("ROWS")

    @pl.jit
    def both(x: pl.Tensor[[ROWS, 6], pl.FP32], total: pl.Out[pl.Tensor[[ROWS, 6], pl.FP32]], doubled: pl.Out[pl.Tensor[[ROWS, 6], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            doubled[:] = x * 2.0
            total[:] = x + 1.0
        return total, doubled
"""


@pytest.mark.parametrize("framework", ["numpy", pytest.param("torch", marks=pytest.mark.torch)])
def test_calls_that_return_take_a_short_way(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, framework: str) -> None:
    kernel = make_kernel(RETURNING)
    convert: Any = (lambda array: array) if framework == "numpy" else pytest.importorskip("torch").from_numpy
    for rows in (4, 4, 2, 0):
        kernel(convert(three(rows, 6)[0]))
    made: list[object] = []
    monkeypatch.setattr(arrays.ArrayView, "__init__", lambda *args, **kwargs: made.append(args))
    before, seen = kernel.cache_info().hits, list[Any]()
    for rows in (4, 9, 0, 1, 4):
        x, _, _ = three(rows, 6, seed=rows)
        total, doubled = kernel(convert(x))
        np.testing.assert_array_equal(np.asarray(total), x + 1)
        np.testing.assert_array_equal(np.asarray(doubled), 2 * x)
        assert type(total) is type(convert(x)) and not any(total is other or total is doubled for other in seen)
        seen += total, doubled
    assert made == [] and kernel.cache_info().hits - before == 5 and kernel.cache_info().misses == 1


def test_a_new_tensor_that_a_kernel_returns_takes_the_short_way(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make_kernel("""
    @pl.jit
    def scaled(x: pl.Tensor, factor: pl.FP32 = pl.RUNTIME):
        out = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * factor
        return out
    """)
    x, _, _ = three(3, 5)
    for _ in range(2):
        kernel(x, 1.5)
    made: list[object] = []
    monkeypatch.setattr(arrays.ArrayView, "__init__", lambda *args, **kwargs: made.append(args))
    for factor in (0.5, -0.0, 7.25):
        np.testing.assert_array_equal(kernel(x, factor), x * np.float32(factor))
    assert made == []


def test_calls_on_one_and_the_same_array_take_the_short_way_where_they_are_allowed(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make_kernel("""
    @pl.jit
    def shifted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + 1.0
    """)
    x, _, out = three(3, 5)
    for target in (out, out, x):
        kernel(x, target)
    made: list[object] = []
    monkeypatch.setattr(arrays.ArrayView, "__init__", lambda *args, **kwargs: made.append(args))
    expected = x + np.float32(1)
    kernel(x, x)
    np.testing.assert_array_equal(x, expected)
    assert made == []


# every kind of argument ---------------------------------------------------------------------------------------------------


def test_calls_alternate_between_all_kinds_of_arguments() -> None:
    """Whatever the warm ways learnt from one kind of argument must not be applied to another."""
    rng = np.random.default_rng(3)

    def memory(kind: str) -> tuple[Any, Any, Any]:
        a, b, out = three(4, 6, seed=int(rng.integers(99)))
        match kind:
            case "transposed":
                return a.reshape(6, 4).T, b, out
            case "every second":
                return np.repeat(a, 2, axis=1)[:, ::2], b, out
            case "unaligned":
                raw = np.zeros(a.nbytes + 1, np.uint8)
                raw[1:] = np.frombuffer(a.tobytes(), np.uint8)
                return raw[1:].view(np.float32).reshape(4, 6), b, out
            case "read-only input":
                a.flags.writeable = False
                return a, b, out
            case "subclass":
                return a.view(np.recarray), b, out
            case "broadcast":
                return np.broadcast_to(a[:1], (4, 6)), b, out
            case "other dtype object":
                return a.astype(np.dtype(np.float32, metadata={"x": 1})), b, out
            case _:
                return a, b, out

    kinds = ["plain", "transposed", "every second", "unaligned", "read-only input", "subclass", "broadcast", "other dtype object"]
    for turn in range(120):
        kind = kinds[int(rng.integers(len(kinds)))] if turn else "plain"
        a, b, out = memory(kind)
        add(a, b, out)
        np.testing.assert_allclose(out, np.asarray(a) * np.float32(3) + b, rtol=1e-6, err_msg=kind)


@pytest.mark.parametrize("bad", ["read-only output", "overlap", "strided output", "big-endian", "list", "shape"])
def test_what_is_refused_cold_is_refused_warm(bad: str) -> None:
    a, b, out = three(4, 6)
    for _ in range(3):
        add(a, b, out)
    before = out.copy()
    read_only = out.copy()
    read_only.flags.writeable = False
    shared = np.zeros(40, np.float32)
    args: dict[str, tuple[Any, Any, Any]] = {
        "read-only output": (a, b, read_only),
        "overlap": (shared[:24].reshape(4, 6), b, shared[8:32].reshape(4, 6)),
        "strided output": (a, b, np.zeros((6, 4), np.float32).T),
        "big-endian": (a.astype(">f4"), b, out),
        "list": (a.tolist(), b, out),
        "shape": (a[:2], b, out),
    }
    for _ in range(2):
        with pytest.raises(TilejitError):
            add(*args[bad])
    np.testing.assert_array_equal(out, before)


@pytest.mark.torch
def test_torch_tensors_that_only_look_plain_are_read_right() -> None:
    torch = pytest.importorskip("torch")
    a, b, out = torch.rand(4, 6), torch.rand(4, 6), torch.zeros(4, 6)
    for _ in range(3):
        add(a, b, out)
    negated = torch._neg_view(a)
    add(negated, b, out)
    torch.testing.assert_close(out, -a * 3 + b)
    imaginary = torch.imag(torch.complex(a, b).conj())
    add(imaginary, b, out)
    torch.testing.assert_close(out, -b * 3 + b)
    with torch.inference_mode():
        add(torch.ones(4, 6), b, out)
    torch.testing.assert_close(out, 3 + b)
    freed = torch.empty(4, 6)
    freed.untyped_storage().resize_(0)
    with pytest.raises(TilejitError, match="freed"):
        add(freed, b, out)
    with pytest.raises(Exception):  # noqa: B017 - torch's own error, whichever it is
        torch.func.vmap(lambda t: add(t, b, out))(torch.rand(2, 4, 6))


def test_bool_and_uint8_and_narrow_floats_are_told_apart(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    @pl.jit
    def copied(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.cast(x, pl.FP32)
    """)
    bits = np.array([[1, 0, 1, 1]], np.uint8)
    samples = [bits, (bits * 5).view(np.int8), bits.astype(np.float16), bits.astype(ml_dtypes.bfloat16), bits.astype(np.int32)]
    for _ in range(3):
        for x in samples:
            out = np.full(x.shape, np.nan, np.float32)
            kernel(x, out)
            np.testing.assert_array_equal(out, x.astype(np.float32))
    assert kernel.cache_info().misses == len(samples)


def test_run_time_scalars_take_the_short_way_with_every_value(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    @pl.jit
    def affine(x: pl.Tensor, out: pl.Out[pl.Tensor], scale: pl.FP32 = pl.RUNTIME, shift: pl.INT32 = pl.RUNTIME):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * scale + pl.cast(shift, pl.FP32)
    """)
    x, _, out = three(3, 5)
    for scale, shift in ((2.0, 3), (0.5, -7), (1e300, 0), (-0.0, 2**31 - 1), (1, 5), (np.float32(3), np.int64(4)), (2.5, True)):
        kernel(x, out, scale, shift)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(out, x * np.float32(scale) + np.float32(int(shift)), rtol=1e-6)
    for shift in (2**31, -(2**31) - 1, 2**70, 1.5):
        with pytest.raises(TilejitError):
            kernel(x, out, 1.0, shift)
    assert kernel.cache_info().misses == 1


def test_dynamic_extents_of_any_size_even_none(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    ROWS = pl.dynamic("ROWS")

    @pl.jit
    def scaled(x: pl.Tensor[[ROWS, 6], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 6], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0
    """)
    for rows in (4, 0, 1, 17, 0, 4):
        x, _, out = three(rows, 6)
        kernel(x, out)
        np.testing.assert_array_equal(out, 2 * x)
    with pytest.raises(ValueError, match="ROWS"):
        kernel(three(3, 6)[0], three(4, 6)[2])
    assert kernel.cache_info().misses == 1


def test_more_signatures_than_the_tables_show(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    @pl.jit
    def scaled(x: pl.Tensor, factor: pl.FP32, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * factor
    """)
    x = np.ones((1, 3), np.float32)
    for _ in range(2):
        for number in range(80):
            out = np.zeros_like(x)
            kernel(x, float(number), out)
            np.testing.assert_array_equal(out, np.full_like(x, number))
    assert kernel.cache_info().misses == 80


def test_arguments_are_not_kept_alive(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    @pl.jit
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0
    """)

    freed: list[int] = []

    class Buffer(bytearray):
        def __del__(self) -> None:
            freed.append(1)

    x = np.frombuffer(Buffer(60), np.float32).reshape(3, 5)
    kernel(x, np.zeros((3, 5), np.float32))
    kernel(x, np.zeros((3, 5), np.float32))
    del x
    gc.collect()
    assert freed == [1]


# many calls ---------------------------------------------------------------------------------------------------------------


def hammer(calls: int, threads: int = 4) -> None:
    """Calls from several threads, with signatures that change and a cache that is cleared under them."""
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            sets = [three(rows, 6, seed=seed) for rows in (1, 4, 64, 300)]
            for number in range(calls // threads // 4):
                for a, b, out in sets:
                    add(a, b, out)
                if number % 50 == 0:
                    for a, b, out in sets:
                        np.testing.assert_allclose(out, a * np.float32(3) + b, rtol=1e-6)
                        out[:] = np.nan
                    if seed == 0:
                        add.cache_clear()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns between any two lines
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors, errors[0]


def test_four_threads_call_without_a_leak_or_a_crash() -> None:
    hammer(20_000)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    references = [sys.getrefcount(None), sys.getrefcount(np.ndarray)]
    hammer(60_000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 1 << 20
    assert all(abs(now - then) < 5000 for now, then in zip((sys.getrefcount(None), sys.getrefcount(np.ndarray)), references, strict=True))


@pytest.mark.slow
@pytest.mark.skipif("TILEJIT_TEST_CALLS" not in os.environ, reason="set TILEJIT_TEST_CALLS=10000000: takes minutes")
def test_ten_million_calls() -> None:
    hammer(int(os.environ["TILEJIT_TEST_CALLS"]))


STRICT = """
import gc, importlib.util
from tests.jit.test_warm import add, three
calls = [three(4, 6)]
if importlib.util.find_spec("torch"):
    import torch
    calls.append([torch.rand(4, 6) for _ in range(3)])
for a, b, out in calls:
    for _ in range(2000):
        add(a, b, out)
    try:
        add(a, b, a)
    except ValueError:
        pass
    gc.collect()
print("fine")
"""


@pytest.mark.parametrize("fastpath", ["0", "1"])
def test_python_in_development_mode_has_nothing_to_say(fastpath: str) -> None:
    environment = {**os.environ, "PYTHONMALLOC": "debug", "TILEJIT_FASTPATH": fastpath, "PYTHONPATH": os.pathsep.join([".", "src"])}
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", STRICT], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr
    assert "tilejit" not in done.stderr


class Counting:
    size = 3.0
    calls = 0


@pl.jit
def reads_a_busy_class(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * Counting.size


@pytest.mark.dispatch
def test_a_class_that_changes_at_every_call_is_not_learned_again_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    served: list[object] = []
    whole = WarmCalls.serve

    def counted(self: WarmCalls, *args: Any) -> None:
        served.append(1)
        whole(self, *args)

    monkeypatch.setattr(WarmCalls, "serve", counted)
    for _ in range(200):
        Counting.calls += 1
        reads_a_busy_class(x, out)
        assert (out == 3.0).all()
    assert len(served) < 100
    monkeypatch.setattr(Counting, "size", 4.0)
    with pytest.raises(StaleCaptureError):
        reads_a_busy_class(x, out)

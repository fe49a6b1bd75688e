"""On a GPU: calls, streams, threads, graphs, frameworks, failures with their line, forks, and what a second process finds on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, DeviceError, OutOfBoundsError
from tilejit.runtime import DeviceArray, RunConfig, synchronise

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
ROOT = Path(__file__).parents[3]


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b


@pl.jit
def pick(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(at.shape[0]):
            place = pl.cast(pl.read(at, [i]), pl.INDEX)
            pl.store(pl.load(x, [place, 0], [1, x.shape[1]]), [i, 0], out)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def tensors(torch: Any, *shape: int, count: int = 3) -> list[Any]:
    return [torch.randn(*shape, device="cuda") for _ in range(count)]


@pytest.mark.parametrize("shape", [(64, 1024), (3, 17), (1, 1), (129, 1000)])
@pytest.mark.parametrize("offset", [0, 1])
def test_warm_and_cold_calls_agree_with_torch(shape: tuple[int, int], offset: int, torch: Any) -> None:
    for _ in range(5):
        wide = [torch.randn(shape[0] * shape[1] + 1, device="cuda") for _ in range(3)]
        x, y, out = (tensor[offset : offset + shape[0] * shape[1]].view(shape) for tensor in wide)
        add(x, y, out)
        assert torch.equal(out, x + y)
        assert torch.equal(add(x, y), x + y)


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


@pytest.mark.parametrize(("rows", "columns"), [(1, 100_000), (70, 16_500), (300, 50_001), (3, 131_000), (2, 400_000)])
def test_rows_that_gangs_of_programs_hold_agree_with_torch(rows: int, columns: int, torch: Any) -> None:
    for _ in range(5):
        x = torch.randn(rows, columns, device="cuda") * 4
        out = torch.full_like(x, float("nan"))
        softmax(x, out)
        assert torch.allclose(out, torch.softmax(x.double(), 1).float(), rtol=1e-5, atol=1e-9)


@pl.jit
def product_of_bytes(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.FP32)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(("m", "k", "n"), [(1024, 2048, 1024), (300, 515, 70), (16, 32, 16), (2048, 256, 4096)])
def test_products_of_8_bits_are_within_their_bound(kind: str, m: int, k: int, n: int, torch: Any) -> None:
    a, b = (torch.randn(*shape, device="cuda").to(getattr(torch, kind)) for shape in ((m, k), (k, n)))
    c = torch.full((m, n), float("nan"), device="cuda")
    product_of_bytes(a, b, c)
    assert ((c.double() - a.double() @ b.double()).abs() <= (a.double().abs() @ b.double().abs()) * 2.0**-10).all()


def test_warm_calls_are_native(torch: Any) -> None:
    x, y, out = tensors(torch, 64, 64)
    for _ in range(4):
        add(x, y, out)
    assert add._warm is not None
    before = add._warm.hits
    add(x, y, out)
    assert add._warm.hits == before + 1


def test_a_call_runs_on_the_current_stream_or_the_one_that_is_said(torch: Any) -> None:
    x, y, out = tensors(torch, 4096, 4096)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x.mul_(2)
        add(x, y, out)
        right = x + y
    stream.synchronize()
    assert torch.equal(out, right)
    out.zero_()
    torch.cuda.synchronize()
    add(x, y, out, config=RunConfig(stream=stream))
    stream.synchronize()
    assert torch.equal(out, right)


def test_threads_call_the_same_kernel(torch: Any) -> None:
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            x, y, out = tensors(torch, 100, 100)
            for _ in range(200):
                add(x, y, out)
            assert torch.equal(out, x + y)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_graphs_of_ours_and_of_torch(torch: Any) -> None:
    x, y, out = tensors(torch, 64, 64)
    ours = add.compile(x, y, out).graph(x, y, out)
    theirs = torch.cuda.CUDAGraph()
    with torch.cuda.graph(theirs):
        add(x, y, out)
    for replay in (ours, theirs.replay):
        x.normal_()
        replay()
        assert torch.equal(out, x + y)


def test_a_failure_has_the_line_of_the_kernel_and_nothing_is_written_outside(torch: Any) -> None:
    x = torch.randn(50, 16, device="cuda")
    at = torch.randint(0, 50, (8,), device="cuda", dtype=torch.int32)
    out = torch.zeros(8, 16, device="cuda")
    pick(x, at, out)
    synchronise()
    assert torch.equal(out, x[at.long()])
    at[3] = 50
    pick(x, at, out)
    with pytest.raises(OutOfBoundsError, match=r"(?s)test_gpu.py.*pl.load\(x, \[place, 0\]"):
        synchronise()
    at[3] = 0
    pick(x, at, out)
    synchronise()
    assert torch.equal(out, x[at.long()])


def test_other_frameworks_bring_their_arrays_and_get_theirs(torch: Any) -> None:
    cupy = pytest.importorskip("cupy")
    x, y = (cupy.random.rand(33, 65, dtype=cupy.float32) for _ in range(2))
    result = add(x, y)
    assert type(result) is cupy.ndarray
    cupy.testing.assert_array_equal(result, x + y)
    a, b = (np.random.default_rng(seed).random((33, 65), np.float32) for seed in (1, 2))
    np.testing.assert_array_equal(add(DeviceArray.of(a), DeviceArray.of(b)).numpy(), a + b)


def test_tensors_of_two_places_are_refused(torch: Any) -> None:
    x, y, out = tensors(torch, 4, 4)
    with pytest.raises(ArgumentError, match="cpu"):
        add(x, y.cpu(), out)


def test_a_forked_child_is_told_what_to_do(torch: Any) -> None:
    x, y, out = tensors(torch, 4, 4)
    add(x, y, out)
    compiled = add.compile(x, y, out)
    torch.cuda.synchronize()
    child = os.fork()
    if child == 0:
        try:
            compiled(x, y, out)
        except DeviceError as error:
            os._exit(7 if "spawn" in str(error) else 1)
        except BaseException:
            os._exit(2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


SECOND = """
import sys, torch
sys.path.insert(0, {root!r})
from tests.backends.cuda.test_gpu import add
x, y, out = (torch.randn(7, 9, device="cuda") for _ in range(3))
add(x, y, out)
assert torch.equal(out, x + y)
print([name for name in ("xdsl", "triton", "llvmlite") if name in sys.modules], add.cache_info().loaded)
"""


def test_a_second_process_loads_neither_compiler(torch: Any, tmp_path: Path) -> None:
    environment = {**os.environ, "TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    script = tmp_path / "second.py"
    script.write_text(SECOND.format(root=str(ROOT)))
    said = [subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False) for _ in range(2)]
    assert said[1].stdout == "[] 1\n", said[1].stderr


@pl.autotune(schedule={"normed_k0/rows0": {"warps": [1, 4], "rows": [1, 4]}}, effort="full", progress=False)
@pl.jit
def normed(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_expand_div(x, pl.row_sum(x * x))


def test_blocks_and_warps_are_tuned_by_the_clock_of_the_gpu(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    x = torch.randn(4096, 500, device="cuda")
    found = normed.tune(x)
    assert len(found.rows) == 4 and not any("Error" in row[3] or "wrong" in row[3] for row in found.rows)
    torch.testing.assert_close(normed(x), x / (x * x).sum(1, keepdim=True))
    assert normed.tune(x).timed == 0  # everything is known

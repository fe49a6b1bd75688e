"""Programs that are compiled once and ranks that stay for many calls."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.patience import HANG
from tests.ranks import order
from tilejit import ir
from tilejit.errors import ArgumentError, ShapeError
from tilejit.jit.hosts import workers
from tilejit.jit.hosts.ranks import is_copied
from tilejit.runtime import DeviceTensor, DistributedCompiledProgram, DistributedConfig, DistributedRunHandle, RunConfig

NR = pl.dynamic("NR")


@pl.program
class Counter:
    @pl.function(type=pl.FunctionType.Orchestration)
    def count(self, y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], sig: pld.DistributedTensor[[1, 1], pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            me = pld.rank(pld.get_comm_ctx(sig))
            pl.write(y, [0, 0], pl.read(sig, [0, 0]))
            pld.system.notify(sig, me, [0, 0], 5, op=pld.NotifyOp.AtomicAdd)

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(self, y: pl.Out[pl.Tensor[[NR, 1, 1], pl.INT32]]):
        cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            self.count(y[r], pld.window(cells, [1, 1], dtype=pl.INT32), device=r)


def _compiled(world: int = 2) -> DistributedCompiledProgram:
    compiled = ir.compile(Counter, distributed_config=DistributedConfig(list(range(world))))
    assert isinstance(compiled, DistributedCompiledProgram)
    return compiled


@pytest.mark.parametrize(
    ("options", "seen"), [({}, [0, 0, 0]), ({"persistent": True}, [0, 0, 0]), ({"persistent": True, "reset_persistent_windows": False}, [0, 5, 10])]
)
def test_windows_start_at_zero_unless_they_are_kept(options: dict[str, bool], seen: list[int]) -> None:
    with _compiled().prepare(**options) as ranks:  # pyright: ignore[reportArgumentType]
        for value in seen:
            y = np.full((2, 1, 1), -1, np.int32)
            ranks(y)
            assert y.ravel().tolist() == [value] * 2


@pl.program
class CounterOfSome:
    @pl.function(type=pl.FunctionType.Orchestration)
    def count(self, y: pl.Out[pl.Tensor[[1], pl.FP32]], box: pld.DistributedTensor[[1], pl.FP32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            box[:] = box[:] + 1.0
            y[:] = box

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def some(self, y: pl.Out[pl.Tensor[[2, 3, 1], pl.FP32]], first: pl.Scalar[pl.INT32]):
        everywhere = pld.alloc_window_buffer([1], dtype=pl.FP32)
        somewhere = pld.alloc_window_buffer([1], dtype=pl.FP32)
        for r in pl.range(pld.world_size()):
            self.count(y[0, r], pld.window(everywhere, [1], dtype=pl.FP32), device=r)
        for r in pl.range(first, pld.world_size()):
            self.count(y[1, r], pld.window(somewhere, [1], dtype=pl.FP32), device=r)


def test_windows_that_are_kept_stay_what_they_are_when_other_ranks_share_them() -> None:
    compiled = ir.compile(CounterOfSome, distributed_config=DistributedConfig([0, 1, 2]))
    other = ir.compile(CounterOfSome, distributed_config=DistributedConfig([0, 1, 2]))
    assert isinstance(compiled, DistributedCompiledProgram) and isinstance(other, DistributedCompiledProgram)
    wanted = np.zeros((2, 3), np.float32)
    with compiled.prepare(extra_compiled=[other], persistent=True, reset_persistent_windows=False) as ranks:
        for first in (0, 1, 2, 0, 1):
            y = np.zeros((2, 3, 1), np.float32)
            ranks.run(compiled, y, first)
            wanted[0] += 1
            wanted[1, first:] += 1
            np.testing.assert_array_equal(y[0, :, 0], wanted[0])
            np.testing.assert_array_equal(y[1, first:, 0], wanted[1, first:])
        ranks.run(other, y, 0)
        np.testing.assert_array_equal(y, np.ones_like(y))  # programs share no windows


def test_calls_that_are_submitted_end_in_order() -> None:
    compiled = _compiled()
    with compiled.prepare(persistent=True, reset_persistent_windows=False) as ranks:
        outputs = [np.full((2, 1, 1), -1, np.int32) for _ in range(5)]
        handles = [ranks.submit(compiled, y) for y in outputs]
        for handle in handles:
            handle.result()
        assert [int(y[0, 0, 0]) for y in outputs] == [0, 5, 10, 15, 20]
        with pytest.raises(ValueError, match="timeout"):
            handles[0].result(timeout=-1)
    with pytest.raises(RuntimeError, match="closed"):
        ranks(outputs[0])


BY = 1.0


@pl.program
class Times:
    @pl.function(type=pl.FunctionType.Orchestration)
    def times(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.Scalar[pl.FP32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * by

    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def before(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]): ...  # pyright: ignore[reportGeneralTypeIssues] - it has no self

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(self, x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
        t = pl.create_tensor([2, 8], dtype=pl.FP32)
        self.before(x, t)
        for r in pl.range(pld.world_size()):
            self.times(t[r], y[r], BY, device=r)


def test_names_of_calls_that_are_submitted_stand_for_what_they_are_at_the_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = ir.compile(Times, distributed_config=DistributedConfig([0, 1]))
    assert isinstance(compiled, DistributedCompiledProgram)
    submitted = threading.Event()

    def before(x: np.ndarray, y: np.ndarray) -> None:
        submitted.wait(HANG)
        y[...] = x

    x, calls = np.ones((2, 8), np.float32), list[tuple[DistributedRunHandle, np.ndarray, float]]()
    with compiled.prepare(callbacks={"before": before}) as ranks:
        for factor in (4.0, 5.0):
            monkeypatch.setitem(globals(), "BY", factor)
            y = np.zeros_like(x)
            calls.append((ranks.submit(compiled, x, y), y, factor))
        monkeypatch.setitem(globals(), "BY", 6.0)
        submitted.set()
        for handle, y, factor in calls:
            handle.result()
            assert (y == factor).all()


def test_what_is_copied_for_a_call_that_is_submitted_is_what_the_calls_before_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = ir.compile(Times, distributed_config=DistributedConfig([0, 1]))
    assert isinstance(compiled, DistributedCompiledProgram)

    submitted = threading.Event()

    def before(x: np.ndarray, y: np.ndarray) -> None:
        submitted.wait(HANG)
        y[...] = x

    def looked(value: object) -> bool:
        found = is_copied(value)
        if found:
            submitted.set()  # the call before is still under way when the second one is submitted
        return found

    monkeypatch.setattr(workers, "is_copied", looked)
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    first, second = np.zeros_like(x), np.zeros_like(x)
    with compiled.prepare(callbacks={"before": before}) as ranks:
        ranks.submit(compiled, x, first)
        ranks.submit(compiled, first[::-1], second).result()
    np.testing.assert_array_equal(second, x[::-1])


def test_a_call_that_is_refused_says_so_whenever_its_result_is_asked() -> None:
    compiled = _compiled()
    with compiled.prepare() as ranks:
        handle = ranks.submit(compiled, np.zeros((2, 1, 2), np.int32))
        for _ in range(2):
            with pytest.raises(ShapeError, match="dim 2 of `y` must be 1"):
                handle.result()
        with pytest.raises(ValueError, match="not among"):
            ranks.submit(_compiled(), np.zeros((2, 1, 1), np.int32)).result()
        y = np.full((2, 1, 1), -1, np.int32)
        ranks.submit(compiled, y).result()
        assert not y.any()


def test_what_was_not_prepared_is_refused() -> None:
    with _compiled().prepare() as ranks, pytest.raises(ValueError, match="not among"):
        ranks.run(_compiled(), np.zeros((2, 1, 1), np.int32))
    with pytest.raises(ValueError, match="persistent"):
        _compiled().prepare(reset_persistent_windows=True)
    with pytest.raises(ValueError, match="no sub-worker"):
        _compiled().prepare(callbacks={"nobody": print})


def test_a_call_whose_program_was_forgotten_says_so() -> None:
    """A call takes the arguments alone; what is told apart from others takes the program first."""
    y, said = np.zeros((2, 1, 1), np.int32), r"an object of type ndarray is not among the programs that were prepared \(Counter\), one of which comes before"
    with _compiled().prepare() as ranks:
        ranks(y)
        for attempt in (lambda: ranks.submit(y).result(), lambda: ranks.run(y), lambda: ranks.register(y)):  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=said):
                attempt()


def test_a_sub_worker_can_be_replaced() -> None:
    compiled = ir.compile(order.Handed, distributed_config=DistributedConfig([0, 1]))
    assert isinstance(compiled, DistributedCompiledProgram)
    x = np.random.default_rng(2).standard_normal((2, 2, 4, 8)).astype(np.float32)
    out = {name: np.zeros_like(array) for name, array in order.expected(x).items()}

    def mark(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = 7

    with compiled.prepare(callbacks={"check": mark}) as ranks:
        ranks(x, *out.values())
    assert (out["seen"] == 7).all()
    np.testing.assert_array_equal(out["last"], order.expected(x)["last"])


@pytest.mark.parametrize(("given", "message"), [([], "device_ids"), ([0, 0], "device_ids"), ([-1], "device_ids")])
def test_ids_of_devices_are_different_numbers(given: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DistributedConfig(given)


FACTOR = {"by": 2.0}


@pl.jit(on_drift="recompile")
def times(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    y[:] = x * FACTOR["by"]


@pl.jit.host
def all_times(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], device=r)


def test_a_warm_launch_sees_what_its_kernel_reads_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(6).standard_normal((2, 8)).astype(np.float32)
    config = RunConfig(distributed_config=DistributedConfig([0, 1]))
    for factor in (2.0, 2.0, 2.0, 3.0, 3.0, 2.0):
        monkeypatch.setitem(FACTOR, "by", factor)
        np.testing.assert_array_equal(all_times(x, config=config), x * np.float32(factor))
    misses = times.cache_info().misses
    all_times(x, config=config)
    assert times.cache_info().misses == misses
    times.cache_clear()
    all_times(x, config=config)
    assert times.cache_info().misses > 0


@pl.program
class Scaling:
    @pl.function(type=pl.FunctionType.Orchestration)
    def scale(self, x: pl.Tensor[[2, 8], pl.FP32], w: pl.Tensor[[8], pl.FP32], total: pl.InOut[pl.Tensor[[2, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            total[:, :] = total + pl.col_expand_mul(x, pl.reshape(w, [1, 8]))

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(
        self, x: pl.Tensor[[NR, 2, 8], pl.FP32], w: pl.Tensor[[NR, 8], pl.FP32], total: pl.InOut[pl.Tensor[[NR, 2, 8], pl.FP32]], shift: pl.Scalar[pl.INT32]
    ):
        for r in pl.range(pld.world_size()):
            self.scale(x[r], w[(r + shift) % pld.world_size()], total[r], device=r)


def test_tensors_stay_with_their_ranks() -> None:
    compiled = ir.compile(Scaling, distributed_config=DistributedConfig([0, 1, 2]))
    assert isinstance(compiled, DistributedCompiledProgram)
    random = np.random.default_rng(4)
    x, w, start = random.standard_normal((3, 2, 8), np.float32), random.standard_normal((3, 8), np.float32), random.standard_normal((3, 2, 8), np.float32)
    with compiled.prepare() as ranks:
        weights, total = ranks.alloc_stacked_tensor(w), ranks.alloc_stacked_tensor(start, worker_ids=[0, 1, 2])
        for _ in range(2):
            ranks(x, weights, total, 0)
        found = np.empty_like(start)
        ranks.copy_stacked_from(total, found)
        np.testing.assert_array_equal(found, start + x * w[:, None] + x * w[:, None])
        ranks.copy_to(weights[1], np.zeros(8, np.float32))
        ranks(x, weights, total, 0)
        one = np.empty((2, 8), np.float32)
        ranks.copy_from(total[1], one)
        np.testing.assert_array_equal(one, found[1])
        with pytest.raises(ArgumentError, match="stays with rank 1, the launch is on rank 0"):
            ranks(x, weights, total, 1)
        ranks.free_stacked_tensor(weights)
        with pytest.raises(ValueError, match="was freed"):
            ranks.free_tensor(weights[0])


@pl.program
class Between:
    @pl.function(type=pl.FunctionType.Orchestration)
    def times(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.Scalar[pl.FP32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = x * by

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], by: pl.Scalar[pl.FP32]):
        for r in pl.range(pld.world_size()):
            self.times(x[r], y[r], by, device=r)


def test_the_number_of_arguments_tells_whether_outputs_are_returned() -> None:
    """As for every compiled program, wherever the outputs stand."""
    compiled, x, y = ir.compile(Between, distributed_config=DistributedConfig([0, 1])), np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32)
    assert isinstance(compiled, DistributedCompiledProgram)
    with compiled.prepare() as ranks:
        for call in (compiled, compiled["all"], ranks):
            for _ in range(2):
                assert call(x, 3.0)[1, 7] == 3.0
            assert call(x, y, 4.0) is None and y[1, 7] == 4.0
    with pytest.raises(ArgumentError, match=r"^host function 'all': missing argument 'by'") as caught:
        compiled(x)
    assert {Path(frame.path).name for frame in caught.traceback} == {"test_workers.py", "distributed.py"}  # and nothing further inside


@pytest.mark.parametrize("ids", [[0, 1], [0, 1, 1], [0, 1, 3]])
def test_every_slice_of_a_stacked_tensor_has_a_rank_of_its_own(ids: list[int]) -> None:
    compiled = ir.compile(Scaling, distributed_config=DistributedConfig([0, 1, 2]))
    assert isinstance(compiled, DistributedCompiledProgram)
    with compiled.prepare() as ranks, pytest.raises(ValueError, match="rank"):
        ranks.alloc_stacked_tensor(np.ones((3, 8), np.float32), worker_ids=ids)


def test_memory_of_a_rank_by_its_address() -> None:
    with _compiled().prepare() as ranks:
        address = ranks.malloc(64, worker_id=1)
        tensor = DeviceTensor(address, (4, 4), pl.FP32)
        ranks.copy_to(tensor, np.eye(4, dtype=np.float32))
        found = np.empty((4, 4), np.float32)
        ranks.copy_from(tensor, found)
        np.testing.assert_array_equal(found, np.eye(4))
        ranks.free(address)
        with pytest.raises(ValueError, match="freed"):
            ranks.free(address)
        with pytest.raises(ValueError, match="worker_id=2"):
            ranks.alloc_tensor([2], pl.FP32, worker_id=2)

"""The native dispatcher on its own: what it takes, what it leaves to Python, references and failures."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from tilejit.backends.cpu.dispatch.dispatcher import dispatcher_text
from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.backends.cpu.llvm.elf import flatten
from tilejit.dtypes import FP32
from tilejit.runtime.artifact.blob import LoadedBlob
from tilejit.runtime.call.bindings import dict_words
from tilejit.runtime.call.dispatch import Dispatcher, NativeCall
from tilejit.runtime.call.guards import CallForm, FixedGuard, NewTensor, ScalarGuard, TensorGuard
from tilejit.runtime.call.layout import supported
from tilejit.runtime.call.native_type import NativeCallable, enable

pytestmark = [pytest.mark.dispatch, pytest.mark.skipif(not supported(), reason="the fast path is not validated on this interpreter")]

ADD = """
define i64 @NAME(ptr %args, ptr %context) {
  %a = load ptr, ptr %args
  %b.at = getelementptr i64, ptr %args, i64 B_AT
  %b = load ptr, ptr %b.at
  %c.at = getelementptr i64, ptr %args, i64 C_AT
  %c = load ptr, ptr %c.at
  %rows.at = getelementptr i64, ptr %args, i64 1
  %rows = load i64, ptr %rows.at
  %stride.at = getelementptr i64, ptr %args, i64 STRIDE_AT
  %stride = load i64, ptr %stride.at
  %n = mul i64 %rows, %stride
  %number.at = getelementptr i64, ptr %args, i64 NUMBER_AT
  %integer = load i64, ptr %number.at
  %number = sitofp i64 %integer to float
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %j, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %pa
  %y = load float, ptr %pb
  %plain = fadd float %x, %y
  %more.sum = fadd float %plain, %number
  store float SUM, ptr %pc
  %j = add i64 %i, 1
  br label %head
done:
  ret i64 0
}
"""
FAIL = """
define i64 @fail(ptr %args, ptr %context) {
  %at = getelementptr i64, ptr %context, i64 4
  store i64 77, ptr %at
  ret i64 3
}
"""


def adding(name: str, **places: object) -> str:
    """Adds two tensors into a third; the places are those of the argument block."""
    return functools.reduce(lambda text, item: text.replace(item[0], str(item[1])), places.items(), ADD.replace("NAME", name))


KERNELS = (
    FAIL
    + adding("add", B_AT=5, C_AT=10, STRIDE_AT=3, NUMBER_AT=0, SUM="%plain")
    + adding("add_rows", B_AT=3, C_AT=6, STRIDE_AT=8, NUMBER_AT=9, SUM="%more.sum")
)

SLOW, ABSENT = object(), object()


class Kernel(NativeCallable):
    """Stands for a JITFunction."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise AssertionError("called through Python although a native pointer is attached")


enable(Kernel)


class Setup:
    """A fast path in front of a recording slow path."""

    def __init__(self, count: int = 3, form: CallForm | None = None) -> None:
        self.code = LoadedBlob(flatten(compile_llvm(KERNELS).object_bytes))
        self.slow_calls: list[tuple[tuple[object, ...], dict[str, object]]] = []
        form = form or CallForm({f"p{i}": False for i in range(count)}, count)
        self.path = Dispatcher(flatten(compile_llvm(dispatcher_text()).object_bytes), self.slow, form)
        self.call = Kernel()
        self.path.serve(self.call)

    def slow(self, *args: object, **kwargs: object) -> object:
        self.slow_calls.append((args, kwargs))
        return SLOW

    def failed(self, status: int, values: tuple[int, ...]) -> None:
        raise RuntimeError(f"status {status}, first value {values[0]}")

    def serve(
        self,
        *samples: object,
        kernel: str = "add",
        dynamic: bool = False,
        arena: bool = False,
        brief: bool = False,
        config: object = None,
        new: tuple[NewTensor, ...] = (),
    ) -> None:
        guards: list[TensorGuard | ScalarGuard | None] = []
        for position, sample in enumerate(samples):
            if hasattr(sample, "shape"):
                shape: tuple[int, ...] = tuple(sample.shape)  # type: ignore[attr-defined]
                extents = (None, *shape[1:]) if dynamic else shape
                symbols = (0, *(None for _ in shape[1:])) if dynamic else tuple(None for _ in shape)
                guards.append(TensorGuard(sample, extents, symbols, 4, position == 2, 5 * position))
            else:
                guards.append(None if sample is ABSENT else ScalarGuard(sample))
        address = self.code.address(kernel)
        assert self.path.add(NativeCall(address, tuple(guards), arena, 1, 0, brief, self.failed, self.code, new, config))


def arrays(rows: int = 4, columns: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    a, b = (rng.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))
    return a, b, np.full_like(a, np.nan)


def test_a_call_that_fits_runs_the_kernel_and_returns_none() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c)
    assert setup.call(a, b, c) is None
    np.testing.assert_array_equal(c, a + b)
    assert setup.path.hits == 1 and setup.slow_calls == []


def test_what_does_not_fit_goes_to_python_with_the_same_arguments() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c)
    read_only = c.copy()
    read_only.flags.writeable = False
    misfits: list[tuple[object, ...]] = [
        (a, b), (a, b, c, c), (a, b, None), (a.astype(np.float64), b, c), (a[:, ::2], b[:, ::2], c[:, ::2]), (a, b, c.T), (a[:2], b, c),
        (a, b, read_only), (a, b, a), (a.astype(">f4"), b, c), (a.tolist(), b, c), (a.view(np.matrix), b, c),
    ]  # fmt: skip
    for args in misfits:
        assert setup.call(*args) is SLOW
        assert all(x is y for x, y in zip(setup.slow_calls[-1][0], args, strict=True))
    for named in ({"config": 3}, {"p2": c}, {"other": c}):
        assert setup.call(a, b, c, **named) is SLOW
        assert setup.slow_calls[-1][1] == named
    assert np.isnan(c).all() and setup.path.hits == 0


def test_arguments_may_come_by_name_in_any_order() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c)
    calls: list[Callable[[], object]] = [
        lambda: setup.call(a, b, p2=c), lambda: setup.call(a, p2=c, p1=b), lambda: setup.call(p2=c, p0=a, p1=b), lambda: setup.call(a, b, c, config=None),
    ]  # fmt: skip
    for hits, call in enumerate(calls, start=1):
        c[:] = np.nan
        assert call() is None and setup.path.hits == hits
        np.testing.assert_array_equal(c, a + b)
    assert setup.call(a, b, p1=c) is SLOW, "an argument given twice is Python's to refuse"
    assert setup.call(a, p2=c) is SLOW, "so is one that is missing"


def test_a_config_is_known_by_identity() -> None:
    setup, (a, b, c), config = Setup(), arrays(), [1, 2]
    setup.serve(a, b, c, config=config)
    assert setup.call(a, b, c, config=config) is None
    for other in ([1, 2], None, 7):
        assert setup.call(a, b, c, config=other) is SLOW
    assert setup.call(a, b, c) is SLOW


def result(shape: tuple[int | None, ...], symbol: int | None = None) -> NewTensor:
    return NewTensor(FP32, shape, tuple(symbol if extent is None else None for extent in shape), 10)


def test_what_is_left_out_is_made_and_returned() -> None:
    setup, (a, b, _) = Setup(), arrays()
    setup.serve(a, b, ABSENT, new=(result((4, 6)),))
    made = setup.call(a, b)
    assert isinstance(made, np.ndarray) and made.dtype == np.float32 and made.flags.c_contiguous
    np.testing.assert_array_equal(made, a + b)
    assert setup.call(a, b) is not made and setup.call(a, b, None) is SLOW
    gone = weakref.ref(made)
    del made
    assert gone() is None, "nobody else holds it"


def test_the_inputs_of_a_call_need_not_be_its_first_parameters() -> None:
    form = CallForm({"a": False, "out": False, "b": False}, 3, named=False, inputs=("a", "b"))
    setup, (a, b, c) = Setup(form=form), arrays()
    guards = [TensorGuard(array, (4, 6), (None, None), 4, slot == 10, slot) for array, slot in ((a, 0), (c, 10), (b, 5))]
    made = NewTensor(FP32, (4, 6), (None, None), 10)
    address = setup.code.address("add")
    assert setup.path.add(NativeCall(address, tuple(guards), False, 1, 0, False, setup.failed, setup.code))
    assert setup.path.add(NativeCall(address, (guards[0], None, guards[2]), False, 1, 0, False, setup.failed, setup.code, (made,)))
    assert setup.call(a, c, b) is None
    np.testing.assert_array_equal(c, a + b)
    np.testing.assert_array_equal(setup.call(a, b), a + b)  # type: ignore[arg-type]
    assert setup.call(a, out=c, b=b) is SLOW, "these parameters have no names for the caller"


def rows(*samples: object, extents: tuple[int | None, ...] = (None,), symbols: tuple[int | None, ...] = (0,)) -> Setup:
    """Adds arrays of any rank as rows, and 5: a parameter that no call gives."""
    form = CallForm({"a": False, "b": False, "c": False, "grid": True}, 3, named=False, config=False, flat=True, fixed="grid")
    setup = Setup(form=form)
    guards = [TensorGuard(sample, extents, symbols, 4, position == 2, 3 * position, flat=True) for position, sample in enumerate(samples)]
    special = NativeCall(setup.code.address("add_rows"), (*guards, FixedGuard(5, 9)), False, 1, 0, False, setup.failed, setup.code)
    assert setup.path.add(special)
    return setup


SHAPES = [((24,), (24,), (24,)), ((4, 6), (24,), (2, 3, 4)), ((2, 3, 4), (4, 6), (24, 1)), ((1,), (), (1, 1, 1, 1, 1, 1, 1)), ((7, 5), (5, 7), (35,))]


@pytest.mark.parametrize("shapes", SHAPES)
def test_rows_may_have_any_rank(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(5)
    setup = rows(*(np.zeros((2, 3), np.float32) for _ in range(3)))
    a, b, c = (rng.standard_normal(shape).astype(np.float32).reshape(shape) for shape in shapes)
    assert setup.call(a, b, c) is None and setup.path.hits == 1
    np.testing.assert_array_equal(c.reshape(-1), (a.reshape(-1) + b.reshape(-1)) + np.float32(5))


def test_what_is_no_row_goes_to_python() -> None:
    a, b, c = arrays()
    setup = rows(a, b, c)
    memory = np.zeros(40, np.float32)
    read_only = c.copy()
    read_only.flags.writeable = False
    empty = np.zeros((0, 3), np.float32)
    misfits: list[tuple[object, ...]] = [
        (a, b), (a, b, c, 7), (a.astype(np.float64), b, c), (a[:, ::2], b[:, ::2], c[:, ::2]), (a, b, c.T), (a, b.T, c), (a[:2], b, c), (a, b, read_only),
        (a, b, a), (memory[:24], b, memory[16:]), (empty, empty, empty.copy()), (a.ctypes.data, b, c), (a.view(np.matrix), b, c),
    ]  # fmt: skip
    for args in misfits:
        assert setup.call(*args) is SLOW
        assert all(x is y for x, y in zip(setup.slow_calls[-1][0], args, strict=True))
    for named in ({"config": None}, {"config": 3}, {"grid": 7}):
        assert setup.call(a, b, c, **named) is SLOW
        assert setup.slow_calls[-1][1] == named
    assert np.isnan(c).all() and setup.path.hits == 0
    fixed = rows(a, b, c, extents=(24,), symbols=(None,))
    assert fixed.call(a.reshape(2, 12), b.reshape(-1), c) is None
    assert fixed.call(a[:2], b[:2], c[:2]) is SLOW, "the number of elements is what is guarded"


@pytest.mark.torch
def test_rows_of_torch_must_be_dense() -> None:
    torch = pytest.importorskip("torch")
    setup = rows(*(torch.zeros(3) for _ in range(3)))
    for shapes in SHAPES:
        a, b, c = (torch.randn(shape) for shape in shapes)
        assert setup.call(a, b, c) is None
        assert torch.equal(c.reshape(-1), a.reshape(-1) + b.reshape(-1) + 5)
    hits, (a, b, c) = setup.path.hits, (torch.randn(4, 6) for _ in range(3))
    before = c.clone()
    short, empty = a.reshape(-1)[:23], torch.zeros(0, 4)
    misfits = [(a.T, b, c), (a, b, c.T), (a, b, c[:, ::2]), (a.double(), b, c), (a, b, a), (short, b, c), (a.numpy(), b, c), (empty, empty, empty)]
    for args in misfits:
        assert setup.call(*args) is SLOW
    assert hits == len(SHAPES) == setup.path.hits and torch.equal(c, before)


def test_extents_of_results_follow_the_arguments() -> None:
    setup, (a, b, _) = Setup(), arrays()
    setup.serve(a, b, ABSENT, dynamic=True, new=(result((None, 6), 0),))
    for rows in (1, 5, 40, 0):
        a, b, _ = arrays(rows)
        made = setup.call(a, b)
        assert isinstance(made, np.ndarray) and made.shape == (rows, 6)
        np.testing.assert_array_equal(made, a + b)
    assert setup.slow_calls == []


def test_several_results_come_as_a_tuple() -> None:
    setup, (a, b, _) = Setup(), arrays()
    other = NewTensor(FP32, (2, 3), (None, None), 15)
    setup.serve(a, b, ABSENT, new=(other, result((4, 6))))
    found = setup.call(a, b)
    assert isinstance(found, tuple) and [array.shape for array in found] == [(2, 3), (4, 6)] and not found[0].any()
    np.testing.assert_array_equal(found[1], a + b)


def test_results_of_a_failing_kernel_are_given_back() -> None:
    setup, (a, b, _) = Setup(), arrays()
    setup.serve(a, b, ABSENT, kernel="fail", new=(result((4, 6)), result((4, 6))))

    def held_after_calls() -> np.ndarray:
        for _ in range(60):
            with pytest.raises(RuntimeError, match="status 3"):
                setup.call(a, b)
        gc.collect()
        return np.array([len(gc.get_objects()), sys.getrefcount(np.zeros), sys.getrefcount(np.dtype(np.float32))])

    held = [held_after_calls() for _ in range(4)]
    growth = np.diff(held, axis=0)  # other threads make objects now and then; what leaks does so in each round
    assert np.abs(growth).min(axis=0).max() < 20, growth


def test_memory_that_is_not_to_be_had_is_an_error_that_leaves_nothing_behind() -> None:
    setup, (a, b, _) = Setup(), arrays()
    setup.serve(a, b, ABSENT, arena=True, new=(result((4, 6)), result((1 << 40, 1 << 20))))
    for _ in range(3):
        with pytest.raises((MemoryError, ValueError)):
            setup.call(a, b)
    fine = Setup()
    fine.serve(a, b, ABSENT, arena=True, new=(result((4, 6)),))
    np.testing.assert_array_equal(fine.call(a, b), a + b)  # type: ignore[arg-type]


def test_overlapping_windows_of_one_array_are_left_to_python() -> None:
    setup = Setup()
    memory = np.arange(100, dtype=np.float32)
    a, b, c = memory[:24].reshape(4, 6), memory[30:54].reshape(4, 6), memory[50:74].reshape(4, 6)
    setup.serve(a, b, c)
    assert setup.call(a, b, c) is SLOW
    assert setup.call(a, a, memory[24:48].reshape(4, 6)) is None, "inputs may share memory, neighbours do not overlap"


def test_dynamic_extents_fit_any_size_but_must_agree() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c, dynamic=True)
    for rows in (1, 3, 50):
        a, b, c = arrays(rows)
        assert setup.call(a, b, c) is None
        np.testing.assert_array_equal(c, a + b)
    assert setup.call(arrays(3)[0], arrays(4)[1], arrays(3)[2]) is SLOW


def test_many_signatures_are_told_apart() -> None:
    setup = Setup()
    sets = [arrays(rows) for rows in range(1, 8)]
    for a, b, c in sets:
        setup.serve(a, b, c)
    for _ in range(3):
        for a, b, c in sets:
            c[:] = np.nan
            assert setup.call(a, b, c) is None
            np.testing.assert_array_equal(c, a + b)
    assert setup.slow_calls == []


def test_scalars_are_compared_by_type_and_bits() -> None:
    setup, (a, b, c) = Setup(4), arrays()
    setup.serve(a, b, c, 0.0)
    assert setup.call(a, b, c, float("0")) is None
    for other in (-0.0, 0, False, 1.0, None, np.float64(0)):
        assert setup.call(a, b, c, other) is SLOW
    setup = Setup(4)
    setup.serve(a, b, c, 1)
    assert setup.call(a, b, c, 1) is None
    assert setup.call(a, b, c, True) is SLOW and setup.call(a, b, c, 1.0) is SLOW


def test_a_changed_dict_sends_calls_to_python_until_it_is_watched_again() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c)
    captured: dict[str, object] = {"BLOCK": 64}

    def watch() -> None:
        words = dict_words(captured)
        assert words is not None
        setup.path.watch(words, captured)

    watch()
    assert setup.call(a, b, c) is None
    captured["BLOCK"] = 128
    assert setup.call(a, b, c) is SLOW
    watch()
    assert setup.call(a, b, c) is None


def test_a_failing_kernel_raises_what_python_makes_of_it() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c, kernel="fail")
    with pytest.raises(RuntimeError, match="status 3, first value 77"):
        setup.call(a, b, c)


def test_a_brief_kernel_runs_all_the_same() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c, brief=True)
    assert setup.call(a, b, c) is None
    np.testing.assert_array_equal(c, a + b)


def test_clearing_forgets_the_kernels() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c)
    setup.path.clear()
    assert setup.call(a, b, c) is SLOW


def test_reference_counts_stay_as_they_were() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c, arena=True)
    own: list[object] = [a, b, c, setup.slow]
    shared: list[object] = [None, a.dtype, type(a)]  # other threads of the process take and drop these too

    def counts(things: list[object]) -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    before, rounds = [counts(own), counts(shared)], 10_000
    for _ in range(rounds):
        setup.call(a, b, c)
        setup.call(a, b, a)
        setup.slow_calls.clear()
    after = [counts(own), counts(shared)]
    changes = [max(abs(x - y) for x, y in zip(one, other, strict=True)) for one, other in zip(before, after, strict=True)]
    assert changes[0] <= 2 and changes[1] < rounds // 2


def test_the_arrays_of_the_first_call_are_not_kept() -> None:
    setup, (a, b, c) = Setup(), arrays()
    setup.serve(a, b, c)
    gone = weakref.ref(c)
    del c
    gc.collect()
    assert gone() is None


@pytest.mark.torch
def test_results_are_tensors_where_the_arguments_are() -> None:
    torch = pytest.importorskip("torch")
    setup, a, b = Setup(), torch.rand(4, 6), torch.rand(4, 6)
    setup.serve(a, b, ABSENT, dynamic=True, new=(result((None, 6), 0),))
    for rows in (4, 1, 9):
        a, b = torch.rand(rows, 6), torch.rand(rows, 6)
        made = setup.call(a, b)
        assert type(made) is torch.Tensor and torch.equal(made, a + b)
    with torch.device("meta"):  # a default device is not for the results of kernels that run here
        assert torch.equal(setup.call(a, b), a + b)
    assert setup.slow_calls == []
    mixed = Setup()
    samples = np.zeros((4, 6), np.float32), torch.rand(4, 6)
    guards = tuple(TensorGuard(sample, (4, 6), (None, None), 4, False, 5 * i) for i, sample in enumerate(samples))
    special = NativeCall(mixed.code.address("add"), (*guards, None), False, 1, 0, False, mixed.failed, mixed.code, (result((4, 6)),))
    assert not mixed.path.add(special), "which framework would the result be of?"


@pytest.mark.torch
def test_torch_tensors_take_the_same_way() -> None:
    torch = pytest.importorskip("torch")
    setup = Setup()
    a, b, c = torch.rand(4, 6), torch.rand(4, 6), torch.full((4, 6), torch.nan)
    setup.serve(a, b, c)
    assert setup.call(a, b, c) is None
    assert torch.equal(c, a + b)
    misfits: list[Callable[[], tuple[object, ...]]] = [
        lambda: (a, b, c.clone().requires_grad_()), lambda: (a.to_sparse(), b, c), lambda: (a.double(), b, c),
        lambda: (a, b, torch.rand(6, 4).T), lambda: (a, b, a), lambda: (a.numpy(), b.numpy(), c.numpy()), lambda: (a[:2], b, c),
    ]  # fmt: skip
    for make in misfits:
        assert setup.call(*make()) is SLOW
    assert setup.call(a, b, torch.rand(8, 6, requires_grad=True)[:4]) is SLOW, "a view requires grad with its base"
    whole = torch.full((8, 6), torch.nan)
    assert setup.call(a, b, whole[4:]) is None, "a view of a plain tensor is plain"
    assert torch.equal(whole[4:], a + b) and whole[:4].isnan().all()
    wanting = a.clone().requires_grad_()
    assert setup.call(wanting, b, c) is SLOW, "the caller must be told once that the gradient ends here"
    with torch.no_grad():
        assert setup.call(wanting, b, c) is None
    setup.path.grad_noted()
    assert setup.call(wanting, b, c) is None, "inputs that require grad are plain data"

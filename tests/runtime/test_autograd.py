"""What autograd hears of a kernel: every write, and once that results carry no gradient; what stands for a tensor without being one is refused."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir, pto
from tilejit.errors import AliasError, ArgumentError, DTypeError, ShapeError, TilejitWarning
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

torch = pytest.importorskip("torch")
layout = importlib.import_module("tilejit.runtime.torch_layout")  # needs torch
pytestmark = pytest.mark.torch
REFERENCE = RunConfig(platform="reference")


def kernel() -> JITFunction:
    @pl.jit
    def scaled(x: pl.Tensor, y: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 100.0
            y[:] = y + x
        return out

    return scaled


def tensors(*shape: int) -> tuple[Any, Any, Any]:
    return torch.randn(shape or (3, 5)), torch.randn(shape or (3, 5)), torch.randn(shape or (3, 5))


def _warm() -> Callable[..., object]:
    warm = kernel()
    for _ in range(5):
        warm(*tensors())
    return warm


def _by_name() -> Callable[..., object]:
    by_name = kernel()
    return lambda x, y, out: by_name(out=out, x=x, y=y)


WAYS: dict[str, Callable[[], Callable[..., object]]] = {
    "the full checks": lambda: functools.partial(kernel(), config=RunConfig()),
    "warm": _warm,
    "by name": _by_name,
    "a compiled program": lambda: kernel().compile(*tensors()),
    "a compiled program with options": lambda: functools.partial(kernel().compile(*tensors()), config=RunConfig()),
    "a call that is timed": lambda: lambda *args: kernel().bound_call(*args).run(),
    "the reference": lambda: functools.partial(kernel(), config=REFERENCE),
}
"""The ways a call can take."""


@pytest.mark.parametrize("way", WAYS)
def test_each_written_tensor_counts_a_version_and_no_other(way: str) -> None:
    call = WAYS[way]()
    x, y, out = tensors()
    for _ in range(3):
        before = [tensor._version for tensor in (x, y, out)]
        wanted = x * 100.0
        call(x, y, out)
        steps = [tensor._version - old for tensor, old in zip((x, y, out), before, strict=True)]
        assert steps[0] == 0 and steps[1] >= 1 and steps[2] >= 1
        torch.testing.assert_close(out, wanted)


@pytest.mark.parametrize("way", WAYS)
def test_a_backward_that_needs_what_was_overwritten_fails_also_through_a_view(way: str) -> None:
    call = WAYS[way]()
    x, y, out = tensors()
    saved = torch.ones(4, 5)
    for written in (saved[:3], out):
        weight = torch.ones_like(saved if written is not out else out).requires_grad_()
        product = (weight * (saved if written is not out else out)).sum()
        call(x, y, written)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_a_call_that_is_refused_counts_nothing() -> None:
    scaled = kernel()
    for _ in range(5):
        scaled(*tensors())
    x, y, out = tensors()
    before = out._version
    refused = [((x, y.int(), out), DTypeError), ((x, y[:2], out), ShapeError), ((x, out, out), AliasError)]
    for args, kind in refused:
        with pytest.raises(kind):
            scaled(*args)
        assert out._version == before and y._version == 0
    wide = y.double()  # double precision is a type like others
    scaled(x, wide, out)
    assert out._version == before + 1 and wide._version == 1 and y._version == 0
    torch.testing.assert_close(wide, y.double() + x, rtol=0, atol=0)


def test_native_calls_find_the_counter_that_torch_counts_with() -> None:
    plain = layout.plain_tensor()
    if plain is None:
        pytest.skip("the layout of this torch is not known to native code")
    tensor = torch.zeros(3)
    for _ in range(7):
        tensor.add_(1)
    counter = layout._word(tensor._cdata + plain.versions_at)
    assert layout._word(counter + plain.version_at) & 0xFFFFFFFF == tensor._version == 7
    with torch.inference_mode():
        assert layout._word(torch.zeros(3)._cdata + plain.versions_at) == 0


def test_the_counter_is_found_also_where_torch_counts_no_writes_as_inside_an_operator_of_a_graph() -> None:
    uncounted = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    layout._looks.clear()
    with torch._C._ExcludeDispatchKeyGuard(uncounted):
        assert torch.empty(3).zero_()._version == 0
        found = layout.plain_tensor()
    layout._looks.clear()
    assert found == layout.plain_tensor()


def test_a_look_that_tells_nothing_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory looks like what is looked for by chance, or no thread can be started."""
    known = layout.plain_tensor()
    assert known is not None
    answers = iter([None, dataclasses.replace(known, fields=None), known])
    monkeypatch.setattr(layout, "_looked_at", lambda: next(answers))
    monkeypatch.setattr(layout, "_looks", [])
    assert layout.plain_tensor() == known

    def no_threads(workers: int) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(layout, "_looks", [])
    monkeypatch.setattr(layout, "_looked_at", lambda: known)
    with monkeypatch.context() as without:
        without.setattr(layout, "ThreadPoolExecutor", no_threads)
        assert layout.plain_tensor() is None
    assert layout.plain_tensor() == known


def test_native_calls_stay_native_and_count_on_each_of_many_calls() -> None:
    scaled = kernel()
    x, y, out = tensors()
    for _ in range(4):
        scaled(x, y, out)
    before, hits = out._version, scaled.cache_info().hits
    for _ in range(1000):
        scaled(x, y, out)
    assert out._version == before + 1000
    assert scaled.cache_info().hits == hits + 1000


# gradients that end here -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True], ids=["at the first call", "after warm calls"])
def test_an_argument_that_requires_grad_is_warned_about_once_per_kernel(warm: bool) -> None:
    scaled = kernel()
    for _ in range(5 if warm else 0):
        scaled(*tensors())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            x, y, out = tensors()
            scaled(x.requires_grad_(), y, out)
        x, y, out = tensors(2, 7)
        scaled(x.requires_grad_(), y, out)
        x, y, _ = tensors()
        assert not scaled(x.requires_grad_(), y).requires_grad
    assert [(warning.category, warning.filename) for warning in caught] == [(TilejitWarning, __file__)]
    for part in ("scaled: `x` requires grad", "carries no gradient", "torch.autograd.Function", "x.detach()"):
        assert part in str(caught[0].message)
    with pytest.warns(TilejitWarning, match="carries no gradient"):
        x, y, out = tensors()
        kernel()(x.requires_grad_(), y, out)


def test_where_no_gradient_is_recorded_nobody_is_warned_and_calls_stay_short() -> None:
    scaled = kernel()
    x, y, out = tensors()
    x.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.no_grad():
            for _ in range(5):
                scaled(x, y, out)
            hits = scaled.cache_info().hits
            for _ in range(10):
                scaled(x, y, out)
            assert scaled.cache_info().hits == hits + 10
        with torch.inference_mode():
            scaled(x, y, out)
        scaled(x.detach(), y, out)
    with pytest.warns(TilejitWarning, match="carries no gradient"):
        scaled(x, y, out)


def test_a_compiled_program_warns_once_too() -> None:
    program = ir.compile(pl.parse(kernel().specialized_source(*tensors())))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            x, y, out = tensors()
            program(x.requires_grad_(), y, out)
    assert len(caught) == 1


def test_the_remedy_of_the_warning_works() -> None:
    scaled = kernel()

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return scaled(x, torch.zeros_like(x))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 100.0

    x = torch.randn(3, 5, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            x.grad = None
            Scale.apply(x).sum().backward()
            torch.testing.assert_close(x.grad, torch.full((3, 5), 100.0))


def test_inference_tensors_are_read_and_written() -> None:
    with torch.inference_mode():
        inside = tensors()
    scaled = kernel()
    for _ in range(6):
        scaled(*inside)
        torch.testing.assert_close(inside[2], inside[0] * 100.0)
    with torch.inference_mode():
        for _ in range(6):
            x, y, out = tensors()
            scaled(x, y, out)
            torch.testing.assert_close(out, x * 100.0)


def test_native_calls_look_at_tensors_as_torch_describes_them() -> None:
    plain = layout.plain_tensor()
    assert plain is not None and plain.fields is not None
    fields, whole = plain.fields, torch.arange(2 * 3 * 4 * 5 * 6 * 7).reshape(2, 3, 4, 5, 6, 7)
    for tensor in (whole[0], whole[1].permute(4, 0, 2, 1, 3)[1:], whole[1, 2].bfloat16()[..., 3:], torch.tensor(True), torch.from_numpy(np.ones(5))[2:]):
        words = [layout.word_at(tensor._cdata + fields.sizes + 8 * place) for place in range(11)]
        assert (words[0], words[1 : 1 + tensor.ndim], words[6 : 6 + tensor.ndim]) == (tensor.ndim, list(tensor.shape), list(tensor.stride()))
        start = layout.word_at(layout.word_at(tensor._cdata + fields.storage) + fields.data)
        assert start + layout.word_at(tensor._cdata + fields.offset) * tensor.element_size() == tensor.data_ptr()
        assert layout.dtype_number(tensor, fields) == layout.dtype_number(torch.empty(1, dtype=tensor.dtype), fields)
    assert len({layout.dtype_number(torch.empty(1, dtype=kind), fields) for kind in (torch.int8, torch.uint8, torch.bool, torch.half, torch.bfloat16)}) == 5


def test_views_of_any_rank_and_copies_that_are_none_yet_run_natively_or_are_left_alone() -> None:
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0

    whole = torch.arange(192, dtype=torch.float32).reshape(4, 2, 3, 2, 4)
    for x in (whole, whole[1:], whole[2, 1:], whole.flatten()[7:], whole.clone()):
        for _ in range(4):
            out = torch.empty_like(x)
            doubled(x, out)
            torch.testing.assert_close(out, x * 2)
    out = torch.zeros(96)
    for _ in range(3):
        doubled(whole.flatten()[:96], out)
    hits = doubled.cache_info().hits
    for _ in range(3):
        doubled(whole.flatten()[96:], out)
    assert doubled.cache_info().hits == hits + 3
    late = torch._lazy_clone(out)
    doubled(whole.flatten()[:96], late)  # a write, which copies it first
    torch.testing.assert_close(late, whole.flatten()[:96] * 2)
    torch.testing.assert_close(out, whole.flatten()[96:] * 2)


def test_native_calls_take_inference_tensors_also_where_a_process_knows_no_others() -> None:
    layout._looks.clear()
    scaled = kernel()
    with torch.inference_mode():
        for _ in range(3):
            x, y, out = tensors()
            scaled(x, y, out)
        hits = scaled.cache_info().hits
        for _ in range(4):
            scaled(x, y, out)
        assert scaled.cache_info().hits == hits + 4
        torch.testing.assert_close(out, x * 100.0)
        found = layout.plain_tensor()
    layout._looks.clear()
    assert found == layout.plain_tensor()
    if found is not None:
        with torch.inference_mode():
            alike = layout.plain_tensor_like(torch.ones(2))
        assert alike == found


# wrappers --------------------------------------------------------------------------------------------------------------------


def _in_vmap(use: Callable[[Any], object], x: Any) -> None:
    torch.vmap(lambda row: (use(row), row)[1])(torch.stack([x, x]))


def _in_grad(use: Callable[[Any], object], x: Any) -> None:
    torch.func.grad(lambda inner: (use(inner), inner.sum())[1])(x)


def _functional(use: Callable[[Any], object], x: Any) -> None:
    torch.func.functionalize(lambda inner: (use(inner), inner)[1])(x)


def _functional_tensor(use: Callable[[Any], object], x: Any) -> None:
    use(torch._to_functional_tensor(x))


def _nested(use: Callable[[Any], object], x: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([x, x])
    use(nested)


def _jagged(use: Callable[[Any], object], x: Any) -> None:
    use(torch.nested.nested_tensor([x, x], layout=torch.jagged))


def _fake(use: Callable[[Any], object], x: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    use(FakeTensorMode().from_tensor(x))


def _intercepting(use: Callable[[Any], object], x: Any) -> None:
    class Watching(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    use(torch.Tensor._make_wrapper_subclass(Watching, x.shape, dtype=x.dtype))


def _lazy(use: Callable[[Any], object], x: Any) -> None:
    use(torch.nn.parameter.UninitializedParameter())


def _zeros(use: Callable[[Any], object], x: Any) -> None:
    use(torch._efficientzerotensor(x.shape))  # type: ignore[reportPrivateUsage]


WRAPPERS = {
    "vmap": (_in_vmap, "inside vmap, grad or another transform"),
    "grad": (_in_grad, "inside vmap, grad or another transform"),
    "functionalize": (_functional, "inside vmap, grad or another transform|functional"),
    "functional": (_functional_tensor, "a functional torch tensor"),
    "nested": (_nested, "a nested torch tensor"),
    "jagged": (_jagged, "a nested torch tensor"),
    "fake": (_fake, "of the class FakeTensor, which intercepts operators"),
    "intercepting": (_intercepting, "of the class Watching, which intercepts operators"),
    "zeros": (_zeros, "zeros that autograd made without memory"),
    "uninitialized": (_lazy, "an uninitialized torch parameter"),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_wraps_a_tensor_is_refused_with_help_cold_and_warm(wrapper: str) -> None:
    wrap, message = WRAPPERS[wrapper]
    scaled = kernel()
    x, y, out = tensors()
    refusals: list[str] = []

    def use(wrapped: object) -> None:
        for args in ((wrapped, y, out), (x, y, wrapped)):
            with pytest.raises(ArgumentError, match=message) as caught:
                scaled(*args)
            assert "= help: " in str(caught.value)
            refusals.append(str(caught.value))

    wrap(use, x)
    for _ in range(5):
        scaled(*tensors())
    wrap(use, x)
    assert len(refusals) == 4


@pytest.mark.parametrize("fastpath", ["0", "1"])
def test_results_that_a_mode_of_torch_would_make_are_refused_cold_and_warm(fastpath: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setenv("TILEJIT_FASTPATH", fastpath)
    scaled = kernel()
    x, y, _ = tensors()
    for _ in range(2):
        with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(ArgumentError, match="of the class FakeTensor, which intercepts operators"):
            scaled(x, y)
        for _ in range(4):
            torch.testing.assert_close(scaled(x, y), x * 100.0)


def test_a_subclass_that_intercepts_nothing_is_a_tensor() -> None:
    class Named(torch.Tensor):
        pass

    scaled = kernel()
    x, y, out = tensors()
    scaled(x.as_subclass(Named), y, out)
    torch.testing.assert_close(out, x * 100.0)


# PTO -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interpreted", [False, True], ids=["machine code", "interpreter"])
def test_a_source_backed_kernel_counts_its_writes(interpreted: bool) -> None:
    f32 = pto.ptr(pto.f32, "gm")

    @pto.jit(source=str(Path(__file__).parents[1] / "pto" / "kernels" / "scale2.pto"))
    def scale2(src: f32, dst: f32) -> None: ...  # type: ignore[valid-type]

    source, target = torch.randn(16, 16), torch.zeros(16, 16)
    compiled = scale2.compile()
    if interpreted:
        compiled.program.interpret((source, target), 1)
    else:
        assert compiled.backend == "cpu"
        compiled[1, None](source, target)
    torch.testing.assert_close(target, source * 2)
    assert source._version == 0 and target._version > 0

"""Launches of source-backed kernels: from the second like it on native, with what native code does not take left to Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.pto.test_jit import GM, KERNEL, RNG, arrays, declared, native
from tilejit import pto
from tilejit.errors import (
    ArgumentError,
    DTypeError,
    OutOfBoundsError,
    RangeError,
)


def launched(launcher: Any, *args: object) -> int:
    """How many of four launches native code took."""
    before = launcher.native_hits
    for _ in range(4):
        launcher(*args)
    return launcher.native_hits - before


def test_a_grid_has_one_launcher() -> None:
    compiled = declared(KERNEL).compile()
    assert compiled[1, None] is compiled[1, None] is compiled[1, 0x1000] is not compiled[2, None]
    first = compiled[1, None]
    for grid in range(1, 200):
        assert compiled[grid, None].grid == grid
    assert len(compiled.launchers) <= 64 and compiled[1, None] is not first


@native
@pytest.mark.parametrize("shapes", [((256,), (16, 16)), ((16, 16), (4, 8, 8)), ((300,), (2, 2, 2, 2, 2, 2, 2, 2))])
def test_launches_like_earlier_ones_are_native(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    launcher = declared(KERNEL)[1, None]
    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in shapes)
    assert launched(launcher, x, y) == 2, "the second launch makes the guards"
    x[...], y[...] = RNG.standard_normal(x.shape), np.nan
    launcher(x, y)
    np.testing.assert_array_equal(y.reshape(-1), 2 * x.reshape(-1)[:256])


@native
def test_what_native_launches_do_not_take_means_what_it_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = declared(KERNEL)[1, None]
    x, y = arrays()
    short, memory = np.zeros(3, np.float32), RNG.standard_normal(300).astype(np.float32)
    with pytest.raises(OutOfBoundsError) as cold:
        launcher(x, short)
    assert launched(launcher, x, y) > 0
    hits = launcher.native_hits
    with pytest.raises(OutOfBoundsError) as warm:
        launcher(x, short)
    assert str(warm.value) == str(cold.value) and "which has 3" in str(warm.value)
    assert launcher.native_hits == hits + 1, "native code ran into the bounds"
    empty, other = np.zeros(0, np.float32), x.astype(np.float64)
    for args, error in [((x.T, y), ArgumentError), ((other, y), DTypeError), ((x,), ArgumentError), ((x, empty), OutOfBoundsError)]:
        with pytest.raises(error):
            launcher(*args)
    with pytest.raises(ArgumentError, match="by position"):
        launcher(x, y, config=None)
    wanted = memory.copy()
    declared(KERNEL).compile().program.interpret((wanted[:256], wanted[16:272]), 1)
    launcher(memory[:256], memory[16:272])
    np.testing.assert_array_equal(memory, wanted)
    launcher(x.ctypes.data, y)
    assert launcher.native_hits == hits + 1
    monkeypatch.setenv("TILEJIT_FASTPATH", "0")
    assert launched(launcher, x, y) == 0
    monkeypatch.delenv("TILEJIT_FASTPATH")
    assert launched(launcher, x, y) >= 2


BLOCKS = """module {
  func.func @k(%f: f32, %o: !pto.ptr<f32>, %s: i32, %x: !pto.ptr<i32>) {
    %b = pto.get_block_idx
    %n = pto.get_block_num
    %i = arith.index_cast %b : i64 to index
    %m = arith.trunci %n : i64 to i32
    %v = pto.load_scalar %x[%i] : !pto.ptr<i32> -> i32
    %w = arith.addi %v, %s : i32
    %z = arith.addi %w, %m : i32
    %t = arith.sitofp %z : i32 to f32
    %r = arith.addf %t, %f : f32
    pto.store_scalar %r, %o[%i] : !pto.ptr<f32>, f32
    return
  }
}"""


@native
@pytest.mark.parametrize("grid", [1, 3, 8])
def test_native_launches_know_their_grid_and_scalars(grid: int) -> None:
    @pto.jit(source=BLOCKS)
    def k(f: pto.f32, o: GM, s: pto.i32, x: pto.ptr(pto.i32, "gm")) -> None: ...  # type: ignore[valid-type]

    launcher = k[grid, None]
    assert launcher.compiled.backend == "cpu", launcher.compiled.interpreted_because
    x, out = RNG.integers(-50, 50, 8, np.int32), np.zeros((2, 4), np.float32)
    assert launched(launcher, 0.5, out, 7, x) == 2
    for number, scale in ((-3, 1.25), ((1 << 31) - 200, 0.0), (-(1 << 31) + 99, -2.5)):
        hits, wanted = launcher.native_hits, np.full(8, 9, np.float32)
        out[...] = 9
        launcher(scale, out, number, x)
        wanted[:grid] = (x[:grid] + np.int32(number) + np.int32(grid)).astype(np.float32) + np.float32(scale)
        np.testing.assert_array_equal(out.reshape(-1), wanted)
        assert launcher.native_hits == hits + 1
    with pytest.raises(RangeError, match="`s`"):
        launcher(0.5, out, 1 << 32, x)


@native
@pytest.mark.torch
def test_launches_of_torch_tensors_are_native() -> None:
    torch = pytest.importorskip("torch")
    launcher = declared(KERNEL)[1, None]
    x, y = torch.randn(4, 64), torch.zeros(16, 16)
    assert launched(launcher, x, y) == 2
    version = y._version
    launcher(x, y)
    assert torch.equal(y.reshape(-1), 2 * x.reshape(-1)) and y._version == version + 1
    hits = launcher.native_hits
    with pytest.raises(ArgumentError, match="contiguous"):
        launcher(x.T, y)
    assert launcher.native_hits == hits and launched(launcher, x.numpy(), y.numpy()) == 3


@pytest.mark.torch
def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.randn(16, 16), torch.zeros(16, 16)
    declared(KERNEL)[1, None](x, y)
    assert torch.equal(y, 2 * x)


class Copied(np.ndarray):
    """Whose shapes are copies."""

    def reshape(self, *shape: Any, **named: Any) -> Any:
        return np.array(np.asarray(self)).reshape(*shape, **named)


@pytest.mark.parametrize("kind", [Copied, np.matrix])
def test_an_array_of_a_class_of_its_own_is_written_where_it_lies(kind: type[np.ndarray]) -> None:
    x, y = arrays()
    launcher = declared(KERNEL)[1, None]
    for _ in range(3):
        y[...] = 0
        launcher(x.view(kind), y.view(kind))
        np.testing.assert_array_equal(y, 2 * x)
    assert launcher.compiled.backend == "cpu"


@pytest.mark.torch
def test_a_tensor_of_a_class_of_its_own_is_written_where_it_lies() -> None:
    torch = pytest.importorskip("torch")

    class Copied(torch.Tensor):  # type: ignore[misc, name-defined]
        def reshape(self, *shape: Any) -> Any:
            return super().reshape(*shape).clone()

    class Intercepted(torch.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = super().__torch_function__(func, types, args, kwargs or {})
            return found.clone() if func is torch.Tensor.reshape else found

    for kind in (Copied, Intercepted):
        x, y = torch.randn(16, 16), torch.zeros(16, 16)
        declared(KERNEL)[1, None](x.as_subclass(kind), y.as_subclass(kind))
        assert torch.equal(y, 2 * x)


class Number(int):
    """Which says that it is another one."""

    def __int__(self) -> int:
        return 40


def test_numbers_of_a_class_of_their_own_are_what_they_hold() -> None:
    @pto.jit(source=BLOCKS)
    def k(f: pto.f32, o: GM, s: pto.i32, x: pto.ptr(pto.i32, "gm")) -> None: ...  # type: ignore[valid-type]

    out, x = np.zeros(1, np.float32), np.zeros(1, np.int32)
    k[1, None](0.0, out, Number(7), x)
    assert out[0] == 8
    k[1, None](0.0, Number(out.ctypes.data), Number(9), x)
    assert out[0] == 10


def test_numbers_that_nothing_holds_are_errors_of_ours() -> None:
    @pto.jit(source=BLOCKS)
    def k(f: pto.f32, o: GM, s: pto.i32, x: pto.ptr(pto.i32, "gm")) -> None: ...  # type: ignore[valid-type]

    out, x, huge = np.zeros(1, np.float32), np.zeros(1, np.int32), 10**5000  # Python refuses to write so many digits
    with pytest.raises(RangeError, match=r"about 2\*\*16609 does not fit into `f`, an f32"):
        k[1, None](huge, out, 0, x)
    with pytest.raises(RangeError, match=r"about 2\*\*16609 does not fit into `s`, an i32"):
        k[1, None](0.0, out, huge, x)
    with pytest.raises(ArgumentError, match=r"`o` is a pointer, and there is no memory at address about 2\*\*16609"):
        k[1, None](0.0, huge, 0, x)

"""A case: a kernel, random data for it, and what it computes in NumPy or torch.

A topic file makes `CASES = Cases()` and decorates its kernels:

    @CASES(f32(5, 7), f32(1, 7), expected=lambda a, b: a + b)
    @pl.jit
    def add_row(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]): ...

The formula takes the arguments in parameter order without the pure outputs and gives what the outputs must hold afterwards, in
parameter order (float64 stands for FP32); outputs are allocated from it and filled with rubbish first. A kernel without output parameters returns its results.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

import tilejit.language as pl
from tilejit import ir
from tilejit.jit.function import JITFunction
from tilejit.runtime import RunConfig

Kernel = JITFunction | ir.Program
AnyKernel = TypeVar("AnyKernel")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Random:
    """Random cells; numbers of the whole range of an integer dtype unless bounds are given."""

    shape: tuple[int, ...]
    dtype: Any
    low: float | None = None
    high: float | None = None

    def make(self, rng: np.random.Generator) -> Array:
        dtype = np.dtype(self.dtype)
        if dtype == np.bool_:
            return rng.random(self.shape) < 0.5
        if dtype.kind in "iu":
            if self.low is None:
                return rng.integers(0, 256, (*self.shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0].copy()
            return rng.integers(int(self.low), int(cast(float, self.high)), self.shape).astype(dtype)
        if dtype.kind == "c":
            return (rng.standard_normal(self.shape) + 1j * rng.standard_normal(self.shape)).astype(dtype)
        if self.low is None:
            return rng.standard_normal(self.shape).astype(dtype)
        return rng.uniform(self.low, cast(float, self.high), self.shape).astype(dtype)


def data(dtype: Any, *shape: int, low: float | None = None, high: float | None = None) -> Random:
    return Random(shape, dtype, low, high)


def f32(*shape: int, low: float | None = None, high: float | None = None) -> Random:
    return Random(shape, np.float32, low, high)


def f16(*shape: int, low: float | None = None, high: float | None = None) -> Random:
    return Random(shape, np.float16, low, high)


def i32(*shape: int, low: float | None = None, high: float | None = None) -> Random:
    return Random(shape, np.int32, low, high)


@dataclass(frozen=True)
class Case:
    """One kernel on one or several sets of arguments."""

    name: str
    kernel: Kernel
    calls: tuple[tuple[Any, ...], ...]
    expected: Callable[..., Any]
    tol: float
    threads: tuple[int, ...]
    compiles: int | None
    returned: bool

    def arguments(self, call: Sequence[Any]) -> list[Any]:
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [item.make(rng) if isinstance(item, Random) else item.copy() if isinstance(item, np.ndarray) else item for item in call]

    def check(self, platform: str) -> None:
        """Runs every call and compares every output; inputs must stay as they were. On the CPU every second case also runs in precise mode on two threads."""
        if isinstance(self.kernel, JITFunction):
            self.kernel.cache_clear()
        for threads in self.threads or (0,):
            self._check_calls(RunConfig(platform=platform, num_threads=threads) if threads else RunConfig(platform=platform))
        if self.compiles is not None:
            assert isinstance(self.kernel, JITFunction)
            assert len(self.kernel._cache) == self.compiles
        if platform == "cpu" and self._is_even:
            self._check_calls(RunConfig(platform=platform, num_threads=2, fast_math=False))

    @property
    def _is_even(self) -> bool:
        """One half of the cases, always the same: what is tried in two forms costs half if each case has one of them."""
        return zlib.crc32(self.name.encode()) % 2 == 0

    def _check_calls(self, config: RunConfig) -> None:
        run = ir.compile(self.kernel, config=config) if isinstance(self.kernel, ir.Program) else None
        for call in self.calls:
            self._check_call(run, call, config)

    def check_text(self) -> None:
        """The text of the program, and of what it is lowered to, parses back to the same structure, one in the concise form and one in the other."""
        if isinstance(self.kernel, ir.Program):
            programs = [self.kernel]
        else:
            arguments = self._given(self.arguments(self.calls[0]))[0]
            programs = [cast(ir.Program, pl.parse(self.kernel.specialized_source(*arguments))), self.kernel.lower(*arguments)]
        for program, concise in zip(programs, (self._is_even, not self._is_even)):
            ir.assert_structural_equal(cast(ir.Program, pl.parse(program.as_python(concise=concise))), program)

    def _check_call(self, run: Callable[..., Any] | None, call: Sequence[Any], config: RunConfig) -> None:
        given = self.arguments(call)
        before = [item.copy() if isinstance(item, np.ndarray) else item for item in given]
        arguments, outputs, expected = self._given(given)
        result = run(*arguments) if run else cast(JITFunction, self.kernel)(*arguments, config=config)
        if self.returned or not outputs:
            outputs = list(result) if isinstance(result, tuple) else [result]
        assert len(outputs) == len(expected)
        for index, (got, right) in enumerate(zip(outputs, expected)):
            compare(np.asarray(got), right, self.tol, f"output {index} of {self.name}")
        for old, new in zip(before, given):
            if isinstance(new, np.ndarray) and not any(new is output for output in outputs):
                np.testing.assert_array_equal(new, old, err_msg=f"an input of {self.name} changed")

    def _given(self, given: list[Any]) -> tuple[list[Any], list[Any], list[Array]]:
        """The arguments of the call with outputs in their places, those outputs, and what they must hold."""
        with np.errstate(all="ignore"):
            wanted = self.expected(*[item.copy() if isinstance(item, np.ndarray) else item for item in given])
        expected = [_array(item) for item in (wanted if isinstance(wanted, tuple) else (wanted,))]
        arguments: list[Any] = []
        outputs: list[Any] = []
        rest = iter(given)
        for direction in _directions(self.kernel):
            if direction == "Out":
                if self.returned:
                    continue
                arguments.append(rubbish(expected[len(outputs)]))
            else:
                try:
                    arguments.append(next(rest))
                except StopIteration:
                    break  # the others have defaults
            if direction != "In":
                outputs.append(arguments[-1])
        return arguments, outputs, expected


class Cases:
    """The cases of one topic, in the order of the file."""

    def __init__(self) -> None:
        self.all: list[Case] = []

    def __call__(
        self,
        *arguments: Any,
        expected: Callable[..., Any],
        tol: float = 0,
        more: Sequence[tuple[Any, ...]] = (),
        threads: Sequence[int] = (),
        compiles: int | None = None,
        returned: bool = False,
        name: str = "",
    ) -> Callable[[AnyKernel], AnyKernel]:
        """Adds a case; without a tolerance the result must be exact.

        `more` are further sets of arguments, `compiles` the number of compilations all of them may take, `threads` the numbers of
        threads to run with; with `returned` the call leaves the pure outputs out and gets them back.
        """

        def add(kernel: AnyKernel) -> AnyKernel:
            assert isinstance(kernel, JITFunction | ir.Program)
            title = name or (kernel.__name__ if isinstance(kernel, JITFunction) else kernel.name)
            self.all.append(Case(title, kernel, (arguments, *more), expected, tol, tuple(threads), compiles, returned))
            return kernel

        return add

    def __iter__(self) -> Iterator[Case]:
        return iter(self.all)


def rubbish(like: Array) -> Array:
    """An output before the call: no cell holds what is expected by chance."""
    cells = np.full((*like.shape, like.dtype.itemsize), 0x5A, np.uint8)
    if like.dtype == np.bool_:
        return ~like
    return cells.view(like.dtype).reshape(like.shape) if math.prod(like.shape) else np.empty_like(like)


def _array(value: Any) -> Array:
    """What a formula gave; one that computed in double precision means FP32."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def compare(got: Array, expected: Array, tol: float, what: str) -> None:
    assert got.dtype == expected.dtype, f"{what} is {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{what} has shape {got.shape}, expected {expected.shape}"
    if got.dtype.kind not in "iubc":
        got, expected = got.astype(np.float64), expected.astype(np.float64)
    if tol:
        np.testing.assert_allclose(got, expected, rtol=tol, atol=tol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=what)


def _directions(kernel: Kernel) -> list[str]:
    if isinstance(kernel, JITFunction):
        return [param.direction for param in kernel.definition.params]
    return [str(info.direction) for info in ir.compile(kernel, platform="reference").param_infos]

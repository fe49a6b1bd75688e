"""What the machine can do, measured by kernels of our own: bytes per second through memory, operations per second in a large product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from tilejit.compiler import compile_program
from tilejit.dtypes import FP32, DType
from tilejit.frontend.text import parse
from tilejit.runtime.arrays import ArrayView, Promised, allocate
from tilejit.runtime.bench import BoundCall
from tilejit.runtime.config import RunConfig
from tilejit.runtime.machine import cache_bytes
from tilejit.runtime.targets import HOST
from tilejit.tile_ir.program import Program

_ROUNDS = 7

_COPY = """
@pl.program
class Copy:
    @pl.function
    def copy(self, x: pl.Tensor[[{rows}, 1024], pl.FP32], out: pl.Out[pl.Tensor[[{rows}, 1024], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(x, 2.0)
"""
_PRODUCT = """
@pl.program
class Product:
    @pl.function
    def product(self, a: pl.Tensor[[{n}, {n}], pl.{dtype}], b: pl.Tensor[[{n}, {n}], pl.{dtype}], out: pl.Out[pl.Tensor[[{n}, {n}], pl.{out}]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.matmul(a, b, out_dtype=pl.{out})
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """The roof of a machine."""

    memory: float
    """Bytes per second, of data that no cache holds."""
    caches: float
    """The same, of data that the second cache of a core holds."""
    arithmetic: float
    """Operations per second."""
    dtype: str
    """Of the product that the operations were counted in."""
    cached: int
    """Bytes up to which data stays in those caches."""

    def bandwidth(self, size: int) -> float:
        """For so many bytes, touched again and again."""
        return self.caches if size <= self.cached else self.memory

    def roof(self, bandwidth: float, intensity: float) -> float:
        """Operations per second that are possible with so many operations per byte."""
        return min(self.arithmetic, intensity * bandwidth)


def limits(like: ArrayView | None, platform: str, dtype: DType, num_threads: int | None = None) -> Limits:
    """Of the place where `like` is, for products of a data type; measured once per process."""
    return _limits(_Place(like), platform, dtype if dtype.is_float and dtype.bits >= 16 else FP32, num_threads)


class _Place:
    """Where arrays are to be made; places of the same framework and device are one."""

    def __init__(self, like: ArrayView | None) -> None:
        self.like = like
        self._name = ("numpy", HOST) if like is None else (like.framework, like.device)

    @property
    def on_host(self) -> bool:
        return self._name[1] == HOST

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)


@cache
def _limits(place: _Place, platform: str, dtype: DType, num_threads: int | None) -> Limits:
    large = min(max(4 * cache_bytes()[2], 64 << 20), 256 << 20)
    near = cache_bytes()[1] if place.on_host else 0  # on a GPU, what fits its caches is over before it was started
    (far, far_size), (fast, fast_size) = (_seconds(_COPY.format(rows=size // 4096), place, platform, num_threads) for size in (large, near // 4 or large))
    wide = "FP64" if dtype.bits == 64 else "FP32"
    n = 768 if place.on_host else 4096
    multiplied, _ = _seconds(_PRODUCT.format(n=n, dtype=dtype.name, out=wide), place, platform, num_threads)
    return Limits(far_size / far, fast_size / fast, 2 * n**3 / multiplied, dtype.name, near)


def _seconds(text: str, place: _Place, platform: str, num_threads: int | None) -> tuple[float, int]:
    """The best of a few runs, and the bytes of the arguments."""
    program = parse(text)
    assert isinstance(program, Program)
    entry = compile_program(program, RunConfig(platform=platform)).only("measure")
    arrays: list[object] = []
    for param in entry.signature.params:
        assert param.shape is not None
        array = allocate(place.like, [int(extent) for extent in param.shape], param.dtype)
        cells = cast("Any", array.array if isinstance(array, Promised) else array)
        cells[...] = 1  # memory that was never written may be one page, read again and again
        arrays.append(cells)
    call = BoundCall(entry, arrays, num_threads)
    return min(call.times(_ROUNDS, 2)) * 1e-6, call.bytes

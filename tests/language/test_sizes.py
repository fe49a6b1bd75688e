"""Sizes that no machine has: errors with the same words on every platform, never memory that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import OutOfBoundsError, ResourceError, ShapeError, TilejitError
from tilejit.runtime import RunConfig

PLATFORMS = ("reference", "cpu")


def fails(kernel: Callable[..., object], platform: str, kind: type[TilejitError], *arguments: Any) -> str:
    with pytest.raises(kind) as caught:
        kernel(*arguments, config=RunConfig(platform=platform))
    assert caught.value.span is not None
    return caught.value.message


def sizes(*extents: int) -> np.ndarray[Any, Any]:
    return np.array(extents, np.int64)


@pl.jit
def huge_tile(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([2**31, 2**31], dtype=pl.INT32)
        r = pl.cast(x[0], pl.INDEX)
        pl.write(t, [r, 0], x[0])
        o[0] = t[r, 0]


@pl.jit
def huge_tensor(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    t = pl.create_tensor([2**31, 2**31], dtype=pl.INT32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[1000, 0] = x[0]
        o[0] = t[1000, 0]


@pl.jit
def huge_window(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0], [2**61], valid_shape=[1])
        pl.store(pl.add(t, t), [0], o)


@pl.jit
def huge_array(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.array.create(2**62, pl.INT64)
        t[3] = 7
        o[0] = pl.cast(t[3], pl.INT32)


@pl.jit
def beyond_64_bits(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.array.create(2**64, pl.INT64)
        t[3] = 7
        o[0] = pl.cast(t[3], pl.INT32)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kernel", [huge_tile, huge_tensor, huge_window, huge_array, beyond_64_bits], ids=lambda kernel: kernel.__name__)
def test_constant_sizes_are_refused_while_compiling(kernel: Callable[..., object], platform: str) -> None:
    assert "any machine can address" in fails(kernel, platform, ResourceError, np.ones(4, np.int32), np.ones(1, np.int32))


@pl.jit
def from_the_call(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    m = pl.dynamic("m")
    x.bind_dynamic(0, m)
    t = pl.create_tensor([m * 2**62, 4], dtype=pl.INT32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[2000000000, 0] = x[0]
        o[0] = t[2000000000, 0]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_extent_of_the_call_may_be_too_large(platform: str) -> None:
    assert "more than" in fails(from_the_call, platform, ResourceError, np.ones(1, np.int32), np.ones(1, np.int32))


@pl.jit
def made_tensor(s: pl.Tensor, o: pl.Out[pl.Tensor]):
    a = pl.cast(s[0], pl.INDEX)
    b = pl.cast(s[1], pl.INDEX)
    t = pl.create_tensor([a, 4, b], dtype=pl.INT64)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[0, 1, 1] = s[0]
        o[0] = t[0, 1, 1]


@pl.jit
def filled_tensor(s: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.cast(s[0], pl.INDEX)
        b = pl.cast(s[1], pl.INDEX)
        t = pl.full([a, b], dtype=pl.INT64, value=2)
        o[0] = t[1, 1]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kernel", [made_tensor, filled_tensor], ids=lambda kernel: kernel.__name__)
def test_extents_of_the_run_may_be_too_large(kernel: Callable[..., object], platform: str) -> None:
    out = np.zeros(1, np.int64)
    kernel(sizes(2, 2), out, config=RunConfig(platform=platform))
    assert out[0] == 2
    for wanted in [(2**62, 2), (2**32, 2**32), (2, 2**63 - 1), (2**31, 2**24)]:
        assert "more than" in fails(kernel, platform, ResourceError, sizes(*wanted), out)
    for wanted in [(-2, 2), (-2, -2), (2, -(2**63))]:
        assert "is negative" in fails(kernel, platform, ShapeError, sizes(*wanted), out)


@pl.jit
def unused_tensor(s: pl.Tensor, o: pl.Out[pl.Tensor]):
    a = pl.cast(s[0], pl.INDEX) - 3
    _t = pl.create_tensor([a, 8], dtype=pl.INT32)
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0] = s[0]


@pl.jit
def unused_value(s: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.cast(s[0], pl.INDEX) - 3
        _t = pl.full([a, 8], dtype=pl.INT32, value=1)
        o[0] = s[0]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kernel", [unused_tensor, unused_value], ids=lambda kernel: kernel.__name__)
def test_a_negative_extent_fails_even_where_nobody_looks(kernel: Callable[..., object], platform: str) -> None:
    out = np.zeros(1, np.int64)
    kernel(sizes(4), out, config=RunConfig(platform=platform))
    assert out[0] == 4
    assert "extent -2 in dim 0" in fails(kernel, platform, ShapeError, sizes(1), out)


@pl.jit
def view_of_a_buffer(x: pl.Tensor, s: pl.Tensor, o: pl.Out[pl.Tensor]):
    a = pl.cast(s[0], pl.INDEX)
    b = pl.cast(s[1], pl.INDEX)
    t = pl.reshape(x, [a, b])
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0] = t[a - 1, b - 1]


@pl.jit
def view_of_a_value(x: pl.Tensor, s: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.cast(s[0], pl.INDEX)
        b = pl.cast(s[1], pl.INDEX)
        t = pl.reshape(pl.mul(x, 1), [a, b])
        o[0] = t[a - 1, b - 1]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kernel", [view_of_a_buffer, view_of_a_value], ids=lambda kernel: kernel.__name__)
def test_a_product_beyond_64_bits_is_no_count_of_elements(kernel: Callable[..., object], platform: str) -> None:
    x, out = np.arange(4, dtype=np.int32), np.zeros(1, np.int32)
    kernel(x, sizes(2, 2), out, config=RunConfig(platform=platform))
    assert out[0] == 3
    fails(kernel, platform, ShapeError, x, sizes(4, 2**62 + 1), out)
    fails(kernel, platform, ShapeError, x, sizes(-2, -2), out)


@pl.jit
def triangle(s: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.tile.tri(0, [4, 8], valid_shape=[pl.cast(s[0], pl.INDEX), 8])
        pl.store(t, [0, 0], o)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_triangle_stays_inside_its_tile(platform: str) -> None:
    out = np.full((4, 8), 7, np.int32)
    triangle(sizes(2), out, config=RunConfig(platform=platform))
    np.testing.assert_array_equal(out, np.concatenate([np.tri(2, 8), np.full((2, 8), 7)]))
    for rows in (5, 100000, -1):
        assert "the valid region is" in fails(triangle, platform, OutOfBoundsError, sizes(rows), out)


@pl.jit
def too_much(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.tile.full([2**22, 2**22], dtype=pl.INT32, value=0)
        pl.store(t[0:1, 0:4], [0, 0], o)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_more_than_the_machine_has(platform: str) -> None:
    fails(too_much, platform, ResourceError, np.ones((1, 4), np.int32), np.ones((1, 4), np.int32))


@pl.jit
def rounds(s: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        low = pl.cast(s[0], pl.INDEX)
        high = pl.cast(s[1], pl.INDEX)
        step = pl.cast(s[2], pl.INDEX)
        n, m, k = 0, 0, 0
        for _ in pl.range(low, high, 3):
            n += 1
            if n > 9:
                break
        for _ in pl.range(high, low, -3):
            m += 1
            if m > 9:
                break
        for _ in pl.range(low, high, step):
            k += 1
            if k > 9:
                break
        o[0] = pl.cast(n, pl.INT64)
        o[1] = pl.cast(m, pl.INT64)
        o[2] = pl.cast(k, pl.INT64)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_counter_near_the_end_of_64_bits_ends(platform: str) -> None:
    last = 2**63 - 1
    for low, high, step in [(last - 4, last, 3), (-last - 1, -last + 3, 3), (-last, last, last), (last, last, 2), (0, 10, 4), (last - 4, last, -3), (9, 0, -4)]:
        out = np.zeros(3, np.int64)
        rounds(sizes(low, high, step), out, config=RunConfig(platform=platform))
        wanted = [len(range(low, high, 3)), len(range(high, low, -3)), len(range(low, high, step))]
        assert out.tolist() == [min(n, 10) for n in wanted], (low, high, step)

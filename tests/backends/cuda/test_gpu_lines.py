"""On a GPU: rows of any length are put in order, summed up as they go and counted; loops end early; blocks add to narrow integers."""

from __future__ import annotations

from typing import Any

import pytest

import tilejit.language as pl
from tilejit.errors import OutOfBoundsError
from tilejit.runtime import synchronise

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
SHAPES = [(1, 1), (3, 17), (7, 5001), (600, 64), (1, 200_003)]


@pl.jit
def ordered(x: pl.Tensor, out: pl.Out[pl.Tensor], places: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        values, found = pl.sort_rows(x, True)
        out[:] = values
        places[:] = found


@pl.jit
def first_five(x: pl.Tensor, out: pl.Out[pl.Tensor], places: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        values, found = pl.topk(x, 5)
        out[:] = values
        places[:] = found


@pl.jit
def running(x: pl.Tensor, along: pl.Out[pl.Tensor], down: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        along[:] = pl.cumsum(x, -1)
        down[:] = pl.cummax(x, 0)


@pl.jit
def counted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.bincount(x, 1000)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "int8", "int64"])
def test_rows_in_order(name: str, shape: tuple[int, int], torch: Any) -> None:
    dtype = getattr(torch, name)
    x = (torch.randn(shape, device="cuda") * 50).to(dtype)
    out, places = torch.empty_like(x), torch.empty(shape, dtype=torch.int32, device="cuda")
    ordered(x, out, places)
    values, found = torch.sort(x, dim=-1, descending=True, stable=True)
    assert torch.equal(out, values) and torch.equal(places.long(), found)
    if shape[1] >= 5:
        top, where = torch.empty(shape[0], 5, dtype=dtype, device="cuda"), torch.empty(shape[0], 5, dtype=torch.int32, device="cuda")
        first_five(x, top, where)
        assert torch.equal(top, values[:, :5]) and torch.equal(where.long(), found[:, :5])


@pytest.mark.parametrize("shape", SHAPES)
def test_running_sums_and_maxima(shape: tuple[int, int], torch: Any) -> None:
    for x in (torch.randn(shape, device="cuda", dtype=torch.float64), torch.randint(-100, 100, shape, device="cuda", dtype=torch.int32)):
        along, down = torch.empty_like(x), torch.empty_like(x)
        running(x, along, down)
        torch.testing.assert_close(along, x.cumsum(-1, dtype=x.dtype), rtol=1e-12, atol=1e-9)
        assert torch.equal(down, x.cummax(0).values)


def test_numbers_are_counted_and_one_outside_is_told(torch: Any) -> None:
    x = torch.randint(0, 1000, (300, 1001), device="cuda", dtype=torch.int32)
    out = torch.empty(1000, device="cuda", dtype=torch.int32)
    counted(x, out)
    assert torch.equal(out.long(), torch.bincount(x.flatten().long(), minlength=1000))
    x[200, 7] = 1000
    counted(x, out)
    with pytest.raises(OutOfBoundsError, match="bincount: 1000 is outside 0 to 999"):
        synchronise()


@pl.jit
def until_small(x: pl.Tensor, out: pl.Out[pl.Tensor], turns: pl.Out[pl.Tensor]):
    for block in pl.spmd(16):
        t = pl.load(x, [block * 8, 0], [8, 33])
        done = 0
        for i in pl.range(20):
            for j in pl.range(5):
                if j > 2:
                    break
                t = t * 0.5
            if i >= block:
                break
            done = done + 1
        pl.store(t, [block * 8, 0], out)
        pl.write(turns, [block], pl.cast(done, pl.INT32))


def test_loops_inside_loops_end_early(torch: Any) -> None:
    x = torch.randn(128, 33, device="cuda")
    out, turns = torch.empty_like(x), torch.empty(16, dtype=torch.int32, device="cuda")
    until_small(x, out, turns)
    assert turns.tolist() == list(range(16))
    factors = torch.tensor([0.125 ** (block + 1) for block in range(16)], device="cuda").repeat_interleave(8)
    assert torch.equal(out, x * factors[:, None])


@pl.jit
def added(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for block in pl.spmd(200):
        pl.store(pl.load(x, [block, 0], [1, 77]), [0, 1], out, atomic=pl.AtomicType.Add)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "float32"])
def test_blocks_add_to_the_same_cells(name: str, torch: Any) -> None:
    x = torch.randint(-50, 50, (200, 77), device="cuda").to(getattr(torch, name))
    out = torch.ones(1, 80, device="cuda", dtype=x.dtype)
    added(x, out)
    wanted = torch.ones(80, device="cuda", dtype=torch.int64)
    wanted[1:78] += x.long().sum(0)
    assert torch.equal(out[0], wanted.to(x.dtype))

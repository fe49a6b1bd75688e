"""Matrix products on the CPU: as operators in FP32, FP64, BF16 and bytes, of few rows, and as loops over tiles, against torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from measure import Pair, Target

import tilejit.language as pl


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b)


@pl.jit
def turned(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, b_trans=True, out_dtype=pl.FP32)


@pl.jit
def whole(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.INT32)


@pl.jit
def whole_turned(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, b_trans=True, out_dtype=pl.INT32)


@pl.jit
def tiles(a: pl.Tensor, b: pl.Tensor, rows: int, columns: int, depth: int, c: pl.Out[pl.Tensor]):
    for t in pl.spmd((a.shape[0] // rows) * (b.shape[1] // columns)):
        i = t // (b.shape[1] // columns)
        j = t % (b.shape[1] // columns)
        acc = pl.create_tile([rows, columns], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k in pl.range(a.shape[1] // depth):
            left = pl.load(a, [i * rows, k * depth], [rows, depth])
            right = pl.load(b, [k * depth, j * columns], [depth, columns])
            acc = pl.matmul(left, right) if k == 0 else pl.matmul_acc(acc, left, right)
        c = pl.store(acc, [i * rows, j * columns], c)
    return c


def mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b, out=out)


def mm_turned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b.T)


def int_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._int_mm(a, b)


def int_mm_rows(a: torch.Tensor, b: torch.Tensor, m: int) -> torch.Tensor:
    """The first rows: torch multiplies bytes from 17 on."""
    return torch.ops.aten._int_mm(a, b)[:m]


def int_mm_turned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._int_mm(a, b.T)


Peer = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor | int, ...]]
"""A function of torch and its arguments."""


def pair(case: str, ours: Callable[..., object], inputs: tuple[torch.Tensor | int, ...], out: torch.Tensor, peer: Peer, least: float) -> Pair:
    """`least`: the ratio that is wanted."""
    function, given = peer

    def theirs() -> torch.Tensor:
        return function(*given)

    def check() -> None:
        want = theirs()
        rough = torch.bfloat16 in (want.dtype, out.dtype)
        torch.testing.assert_close(out.to(want.dtype), want, rtol=2e-2 if rough else 1e-4, atol=(2e-2 if rough else 1e-4) * want.abs().max().item())

    return Pair(case, f"torch {function.__name__}", lambda: ours(*inputs, out), theirs, check=check, target=Target(1 / least))


def floats(threads: int) -> Iterator[Pair]:
    large = (4096,) if threads > 2 else ()
    for dtype, name, sizes in ((torch.float32, "f32", (64, 512, 1024, 2048, *large)), (torch.float64, "f64", (1024,))):
        for n in sizes:
            a, b, c, kept = (torch.randn(n, n, dtype=dtype) for _ in range(4))
            yield pair(f"matmul {name} {n}", product, (a, b), c, (mm, (a, b, kept)), 1.0 if n == 64 else 0.97 if threads == 1 else 0.9)
    b = torch.randn(4096, 4096)
    for m in (1, 8):
        a, c, kept = (torch.randn(m, 4096) for _ in range(3))
        yield pair(f"matmul f32 {m}x4096x4096", product, (a, b), c, (mm, (a, b, kept)), 0.9)


def narrow(threads: int) -> Iterator[Pair]:
    a, b, c, kept = (torch.randn(1024, 1024).bfloat16() for _ in range(4))
    yield pair("matmul bf16 1024", product, (a, b), c, (mm, (a, b, kept)), 1.0 if threads == 1 else 0.85)
    x, y = (torch.randint(-128, 128, (1024, 1024), dtype=torch.int8) for _ in range(2))
    yield pair("matmul int8 1024", whole, (x, y), torch.empty(1024, 1024, dtype=torch.int32), (int_mm, (x, y)), 0.85)


def few_rows() -> Iterator[Pair]:
    """B as it is, and transposed, as the weights of models lie; torch multiplies bytes from 17 rows on."""
    n = 4096
    b, x = torch.randn(n, n).bfloat16(), torch.randint(-128, 128, (n, n), dtype=torch.int8)
    b_turned, x_turned = b.T.contiguous(), x.T.contiguous()
    whole_numbers = x_turned.bfloat16()
    for m in (1, 8, 32):
        a, c, kept, size = torch.randn(m, n).bfloat16(), torch.empty(m, n), torch.empty(m, n).bfloat16(), f"{m}x{n}x{n}"
        yield pair(f"matmul bf16 {size}", product, (a, b), c, (mm, (a, b, kept)), 0.8)
        yield pair(f"matmul bf16 {size} transposed", turned, (a, b_turned), c, (mm_turned, (a, b_turned)), 0.8)
        yield pair(f"matmul bf16 by int8 {size} transposed", turned, (a, x_turned), c, (mm_turned, (a, whole_numbers)), 0.8)
    y, z = torch.randint(-128, 128, (32, n), dtype=torch.int8), torch.empty(32, n, dtype=torch.int32)
    yield pair(f"matmul int8 32x{n}x{n}", whole, (y, x), z, (int_mm, (y, x)), 0.8)
    yield pair(f"matmul int8 32x{n}x{n} transposed", whole_turned, (y, x_turned), z, (int_mm_turned, (y, x_turned)), 0.8)
    half, b, x, b_turned, x_turned = n // 2, b[:, : n // 2].contiguous(), x[:, : n // 2].contiguous(), b_turned[: n // 2], x_turned[: n // 2]
    for m in (16, 32):
        a, c, kept, size = torch.randn(m, n).bfloat16(), torch.empty(m, half), torch.empty(m, half).bfloat16(), f"{m}x{n}x{half}"
        yield pair(f"matmul bf16 {size}", product, (a, b), c, (mm, (a, b, kept)), 0.8)
        yield pair(f"matmul bf16 {size} transposed", turned, (a, b_turned), c, (mm_turned, (a, b_turned)), 0.8)
        y, z = torch.randint(-128, 128, (max(m, 17), n), dtype=torch.int8), torch.empty(m, half, dtype=torch.int32)
        yield pair(f"matmul int8 {size}", whole, (y[:m], x), z, (int_mm_rows, (y, x, m)), 0.8)
        yield pair(f"matmul int8 {size} transposed", whole_turned, (y[:m], x_turned), z, (int_mm_rows, (y, x_turned.T, m)), 0.8)


def tile_loops() -> Iterator[Pair]:
    a, b, c, kept = (torch.randn(2048, 2048) for _ in range(4))
    for shape, least in (((32, 32, 32), 0.8), ((64, 64, 32), 0.9), ((128, 128, 32), 0.9), ((128, 128, 64), 0.9)):
        name = "x".join(map(str, shape))
        yield pair(f"matmul f32 2048, {name} tile loop", tiles, (a, b, *shape), c, (mm, (a, b, kept)), least)


def cases(threads: int) -> Iterator[Pair]:
    yield from floats(threads)
    yield from narrow(threads)
    yield from tile_loops()

"""Hand-written Triton kernels of the usual kind: the peers of the CUDA suite."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid, rows, columns = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * columns)
    first = group * GROUP
    size = min(rows - first, GROUP)
    pm = first + (pid % (GROUP * columns)) % size
    pn = (pid % (GROUP * columns)) // size
    rm, rn, rk = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=(rm < M)[:, None] & (k + rk < K)[None, :], other=0.0)
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :], mask=(k + rk < K)[:, None] & (rn < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


def matmul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """The best of the configurations that were tried on an H200: 128×256×64, 8 warps, 4 stages, grouped order."""
    m, k = a.shape
    n = b.shape[1]
    launch: Any = matmul_kernel
    launch[(triton.cdiv(m, 128) * triton.cdiv(n, 256),)](a, b, c, m, n, k, 128, 256, 64, 8, num_warps=8, num_stages=4)


@triton.jit
def attention_kernel(q, k, v, out, scale, LENGTH: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    block, head = tl.program_id(0), tl.program_id(1)
    rm, rn, rd = block * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    base = head * LENGTH * D
    tq = tl.load(q + base + rm[:, None] * D + rd[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = (block + 1) * BM if CAUSAL else LENGTH
    for start in range(0, end, BN):
        tk = tl.load(k + base + (start + rn)[:, None] * D + rd[None, :])
        s = tl.dot(tq, tl.trans(tk)) * scale
        if CAUSAL:
            s = tl.where(rm[:, None] >= (start + rn)[None, :], s, -float("inf"))
        top = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - top[:, None])
        fade = tl.exp2(m - top)
        total = total * fade + tl.sum(p, 1)
        tv = tl.load(v + base + (start + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tv.dtype), tv, acc * fade[:, None])
        m = top
    tl.store(out + base + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(out.dtype.element_ty))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, causal: bool) -> None:
    """128×128 blocks, 8 warps, 3 stages."""
    batch, heads, length, d = q.shape
    launch: Any = attention_kernel
    launch[(length // 128, batch * heads)](q, k, v, out, d**-0.5 * 1.4426950408889634, length, d, 128, 128, causal, num_warps=8, num_stages=3)

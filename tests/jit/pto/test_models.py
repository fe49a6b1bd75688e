"""Whole kernels of a transformer, written by hand as PTO and used as source-backed kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pto.harness import close
from tilejit import pto

RNG = np.random.default_rng(11)
F16, F32 = pto.ptr(pto.f16, "gm"), pto.ptr(pto.f32, "gm")


def halves(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float16)


def noise(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


@pto.jit(source="../../pto/kernels/flash_attention.pto")
def flash_attention(q: F16, k: F16, v: F16, ws: F16, o: F32, n: pto.index) -> None: ...  # type: ignore[valid-type]


@pytest.mark.parametrize("keys", [32, 128])
def test_flash_attention(keys: int) -> None:
    q, k, v, out = halves(16, 32), halves(keys, 32), halves(keys, 32), noise(16, 32)
    flash_attention[1, None](q, k, v, noise(16, 32, dtype=np.float16), out, keys)
    close(out, softmax(wide(q) @ wide(k).T / np.sqrt(32)) @ wide(v), 5e-3)


@pto.jit(source="../../pto/kernels/tiled_ffn.pto")
def tiled_ffn(x: F16, w1: F16, w2: F16, o: F32, hidden: pto.index) -> None: ...  # type: ignore[valid-type]


def test_tiled_ffn() -> None:
    x, w1, w2, out = halves(48, 64), halves(64, 96, scale=0.1), halves(96, 64, scale=0.1), noise(48, 64)
    tiled_ffn[3, None](x, w1, w2, out, 96)
    close(out, wide(np.maximum(wide(x) @ wide(w1), 0).astype(np.float16)) @ wide(w2), 5e-3)


@pto.jit(source="../../pto/kernels/gqa_decode.pto")
def gqa_decode(q: F16, k: F16, v: F16, ws: F16, o: F32, n: pto.index) -> None: ...  # type: ignore[valid-type]


@pytest.mark.parametrize("length", [1, 37, 64])
def test_gqa_decode(length: int) -> None:
    q, k, v, out = halves(8, 32), halves(2, 64, 32), halves(2, 64, 32), noise(8, 32)
    gqa_decode[2, None](q, k, v, noise(8, 64, dtype=np.float16), out, length)
    for head in range(8):
        keys, values = wide(k[head // 4, :length]), wide(v[head // 4, :length])
        close(out[head], softmax(wide(q[head]) @ keys.T / np.sqrt(32)) @ values, 5e-3)


@pto.jit(source="../../pto/kernels/rmsnorm_projection.pto")
def rmsnorm_projection(x: F32, gamma: F32, w: F16, ws: F16, o: F32) -> None: ...  # type: ignore[valid-type]


def test_rmsnorm_and_projection_at_fixed_addresses() -> None:
    x, gamma, w, out = noise(16, 64), noise(1, 64), halves(64, 32), noise(16, 32)
    rmsnorm_projection[1, None](x, gamma, w, noise(16, 64, dtype=np.float16), out)
    normed = wide(x) / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-5) * wide(gamma)
    close(out, wide(normed.astype(np.float16)) @ wide(w), 2e-2)


@pto.jit(source="../../pto/kernels/split_k.pto")
def split_k(a: F16, b: F16, o: F32) -> None: ...  # type: ignore[valid-type]


def test_split_k_with_atomic_add() -> None:
    a, b, out = halves(16, 160), halves(160, 48), np.zeros((16, 48), np.float32)
    split_k[5, None](a, b, out)
    close(out, wide(a) @ wide(b), 5e-3)


@pytest.mark.parametrize("kernel", [flash_attention, tiled_ffn, gqa_decode, rmsnorm_projection, split_k], ids=lambda kernel: kernel.name)
def test_they_run_as_machine_code(kernel: pto.SourceKernel) -> None:
    assert kernel.compile().backend == "cpu", kernel.compile().interpreted_because

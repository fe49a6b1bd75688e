"""Dynamic extents end to end: one compile serves every size, through three levels of helpers."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ShapeError

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

H, F = 32, 48
T = pl.dynamic("T")
S = pl.dynamic("S")


# the token loop ---------------------------------------------------------------------------------------------------------------


@pl.jit.incore
def layer(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(pl.mul(x, 0.5), 1.0)
    return out


@pl.jit
def token_loop(x: pl.Tensor[[T, H], pl.BF16], rounds: pl.INDEX, out: pl.Out[pl.Tensor[[T, H], pl.BF16]]):
    tokens = pl.tensor.dim(x, 0)
    cur = pl.create_tensor([tokens, H], dtype=pl.BF16)
    nxt = pl.create_tensor([T, H], dtype=pl.BF16)
    cur = layer(x, cur)
    for _ in pl.range(rounds):
        nxt = layer(cur, nxt)
        cur = layer(nxt, cur)
    out = layer(cur, out)
    return out


def test_the_token_loop_runs_for_any_number_of_tokens(platform: str) -> None:
    token_loop.cache_clear()
    for tokens in (0, 1, 7, 64, 130):
        x = torch.randn(tokens, H).bfloat16()
        out = token_loop(x, 3)
        expected = x
        for _ in range(8):
            expected = ((expected * 0.5).float().bfloat16() + 1.0).bfloat16()
        torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)
    assert len(token_loop._cache) == 1


@pl.jit
def swapping(x: pl.Tensor[[T, H], pl.FP32], out: pl.Out[pl.Tensor[[T, H], pl.FP32]]):
    cur = pl.create_tensor([x.shape[0], H], dtype=pl.FP32)
    nxt = pl.create_tensor([x.shape[0], H], dtype=pl.FP32)
    cur = layer(x, cur)
    for _ in pl.range(3):
        cur, nxt = layer(cur, nxt), cur
    out = layer(cur, out)
    return out


def test_buffers_can_be_swapped_by_a_loop(platform: str) -> None:
    for tokens in (1, 9):
        x = np.random.default_rng(tokens).standard_normal((tokens, H)).astype(np.float32)
        expected = x
        for _ in range(5):
            expected = expected * np.float32(0.5) + np.float32(1)
        np.testing.assert_allclose(swapping(x), expected, rtol=1e-6)


# a decoder layer --------------------------------------------------------------------------------------------------------------


@pl.jit.incore
def rmsnorm(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    ms = pl.mul(pl.row_sum(pl.mul(x, x)), 1.0 / H)
    out[:] = pl.col_expand_mul(pl.row_expand_mul(x, pl.rsqrt(pl.add(ms, 1e-6))), w)
    return out


@pl.jit.incore
def project(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.matmul(x, w)
    return out


@pl.jit.incore
def attend(q: pl.Tensor, k: pl.Tensor[[S, H], pl.FP32], v: pl.Tensor[[S, H], pl.FP32], out: pl.Out[pl.Tensor]):
    s = pl.mul(pl.matmul(q, k, b_trans=True), H**-0.5)
    p = pl.exp(pl.row_expand_sub(s, pl.row_max(s)))
    out[:] = pl.matmul(pl.row_expand_div(p, pl.row_sum(p)), v)
    return out


@pl.jit.inline
def attention(x: pl.Tensor, wq: pl.Tensor, wo: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, out: pl.Tensor):
    q = pl.create_tensor([x.shape[0], H], dtype=pl.FP32)
    mixed = pl.create_tensor([x.shape[0], H], dtype=pl.FP32)
    q = project(x, wq, q)
    mixed = attend(q, keys, v=values, out=mixed)
    out = project(mixed, wo, out)
    return out


@pl.jit.inline
def feed_forward(x: pl.Tensor, w_gate: pl.Tensor, w_up: pl.Tensor, w_down: pl.Tensor, out: pl.Tensor):
    gate = pl.create_tensor([pl.tensor.dim(x, 0), F], dtype=pl.FP32)
    up = pl.create_tensor([pl.tensor.dim(x, 0), F], dtype=pl.FP32)
    gate = project(x, w_gate, gate)
    up = project(x, w_up, up)
    with pl.at(level=pl.Level.CORE_GROUP):
        gate[:] = gate / (pl.exp(-gate) + 1.0) * up
    out = project(gate, w_down, out)
    return out


@pl.jit.inline
def decoder_layer(x, norms, wq, wo, keys, values, w_gate, w_up, w_down, out):  # pyright: ignore[reportMissingParameterType]
    normed = pl.create_tensor([x.shape[0], H], dtype=pl.FP32)
    branch = pl.create_tensor([x.shape[0], H], dtype=pl.FP32)
    middle = pl.create_tensor([x.shape[0], H], dtype=pl.FP32)
    normed = rmsnorm(x, norms[0:1], normed)
    branch = attention(normed, wq, wo, keys, values, branch)
    with pl.at(level=pl.Level.CORE_GROUP):
        middle[:] = x + branch
    normed = rmsnorm(middle, norms[1:2], normed)
    branch = feed_forward(normed, w_gate, w_up, w_down=w_down, out=branch)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = middle + branch
    return out


@pl.jit
def decoder(
    x: pl.Tensor[[T, H], pl.FP32],
    norms: pl.Tensor,
    wq: pl.Tensor,
    wo: pl.Tensor,
    keys: pl.Tensor,
    values: pl.Tensor,
    w_gate: pl.Tensor,
    w_up: pl.Tensor,
    w_down: pl.Tensor,
    out: pl.Out[pl.Tensor[[T, H], pl.FP32]],
):
    out = decoder_layer(x, norms, wq, wo, keys, values, w_gate, w_up, w_down, out)
    return out


WEIGHTS = {name: torch.randn(*shape, generator=torch.Generator().manual_seed(5)) * 0.2 for name, shape in
           {"norms": (2, H), "wq": (H, H), "wo": (H, H), "w_gate": (H, F), "w_up": (H, F), "w_down": (F, H)}.items()}  # fmt: skip


def torch_decoder(x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    def norm(v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return v * torch.rsqrt((v * v).mean(1, keepdim=True) + 1e-6) * w

    w = WEIGHTS
    q = norm(x, w["norms"][0:1]) @ w["wq"]
    middle = x + torch.softmax(q @ keys.T * H**-0.5, 1) @ values @ w["wo"]
    n = norm(middle, w["norms"][1:2])
    return middle + (torch.nn.functional.silu(n @ w["w_gate"]) * (n @ w["w_up"])) @ w["w_down"]


def run_decoder(tokens: int, length: int) -> None:
    generator = torch.Generator().manual_seed(tokens * 1000 + length)
    x, keys, values = (torch.randn(rows, H, generator=generator) for rows in (tokens, length, length))
    out = torch.empty_like(x)
    decoder(x, WEIGHTS["norms"], WEIGHTS["wq"], WEIGHTS["wo"], keys, values, WEIGHTS["w_gate"], WEIGHTS["w_up"], WEIGHTS["w_down"], out)
    torch.testing.assert_close(out, torch_decoder(x, keys, values), rtol=2e-3, atol=2e-4)


def test_one_compile_of_a_decoder_layer_serves_fifty_sizes() -> None:
    decoder.cache_clear()
    for step in range(50):
        run_decoder(1 + step * 7 % 40, 1 + step * 13 % 97)
    assert len(decoder._cache) == 1


def test_the_reference_agrees_on_the_decoder_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    for tokens, length in ((1, 1), (3, 17)):
        run_decoder(tokens, length)


def test_the_cache_length_reaches_the_entry_from_the_helper_of_a_helper_of_a_helper() -> None:
    source = decoder.specialized_source(torch.randn(3, H), keys=torch.randn(9, H), values=torch.randn(9, H), **WEIGHTS)
    assert "keys: pl.Tensor[[S, 32], pl.FP32], values: pl.Tensor[[S, 32], pl.FP32]" in source.rpartition("def decoder(")[2]


def test_keys_and_values_of_different_lengths_are_refused() -> None:
    w = WEIGHTS
    x = torch.randn(3, H)
    with pytest.raises(ShapeError, match="`S` is 9 in dim 0 of `keys` but 8 in dim 0 of `values`"):
        decoder(x, w["norms"], w["wq"], w["wo"], torch.randn(9, H), torch.randn(8, H), w["w_gate"], w["w_up"], w["w_down"])

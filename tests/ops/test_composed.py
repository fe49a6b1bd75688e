"""Composed rows compute what NumPy computes: every one of them, on tensors and tiles, on the reference and on the CPU."""

from __future__ import annotations

import linecache
import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilejit import ops
from tilejit.runtime import RunConfig

Array = Any
ALL = bool(os.environ.get("COMPOSED_ALL"))
"""Every case on tensors and on tiles; else each on one of them."""


@dataclass(frozen=True)
class Case:
    """An expression over `x` (and `y`), and what NumPy makes of it; `{tile}` stands for `tile.` where x is a tile."""

    text: str
    expected: Callable[..., Array]
    shapes: tuple[tuple[int, ...], ...] = ((3, 5, 7),)
    dtype: Any = np.float32
    scalar: bool = False
    """The result is one number."""


def _softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _philox(seed: int, stream: int, count: int) -> Array:
    """Words of NumPy's own Philox are another variant: the table's reference makes the bits, which tests/ops/moves.py checks."""
    from tilejit.ops.generate import philox

    blocks = np.arange(-(-count // 4), dtype=np.uint64)
    same = [np.full(blocks.shape, word, np.uint64) for word in (stream, 0)]
    words = philox([blocks, np.zeros_like(blocks), *same], (seed, 0), 10)
    return np.stack(words, axis=-1).reshape(-1)[:count] >> np.uint64(8)


def _normal(x: Array) -> Array:
    first, second = ((_philox(9, stream, 35) + add).astype(np.float64) / 2**24 for stream, add in ((1, 1), (2, 0)))
    return (np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)).reshape(5, 7)


AXES = [(axis, keep) for axis in (0, 1, -1, (0, 1), (1, 2), (0, 2), (0, 1, 2), None) for keep in (False, True)]
REDUCTIONS = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "mean": np.mean, "var": np.var, "std": np.std}


def _reductions() -> list[Case]:
    out: list[Case] = []
    for number, (name, function) in enumerate(REDUCTIONS.items()):
        for axis, keep in AXES if name == "sum" else AXES[number % 4 :: 4]:
            form = f"pl.{name}(x, axis={axis}, keepdims={keep})" if keep else f"x.{name}(axis={axis})"
            whole = axis is None or axis == (0, 1, 2)
            out.append(Case(form, lambda x, f=function, a=axis, k=keep: f(x.astype(np.float64), axis=a, keepdims=k), scalar=whole and not keep))
    for name, function in (("any", np.any), ("all", np.all)):
        for axis in (0, -1, (0, 2), None):
            case = Case(f"pl.cast(pl.{name}(x > -1.5, axis={axis}), pl.FP32)", lambda x, f=function, a=axis: f(x > -1.5, axis=a), scalar=axis is None)
            out.append(case)
        out.append(Case(f"pl.cast(pl.{name}(x, 1, keepdims=True), pl.INT32)", lambda x, f=function: f(x, axis=1, keepdims=True), dtype=np.int32))
    for axis in (1, (0, 1), None):
        text = f"pl.cast((~(x > 0.5) & (x > -1)).sum(axis={axis}), pl.FP32)"
        out.append(Case(text, lambda x, a=axis: (~(x > 0.5) & (x > -1)).sum(axis=a), scalar=axis is None))
    for name, function in (("argmax", np.argmax), ("argmin", np.argmin)):
        for axis in (0, 1, -1, None):
            out.append(Case(f"x.{name}(axis={axis})", lambda x, f=function, a=axis: f(x, axis=a), scalar=axis is None))
        out.append(Case(f"pl.{name}(x, 1, keepdims=True)", lambda x, f=function: f(x, axis=1, keepdims=True)))
    for dtype in (np.int32, np.int8, np.uint16, np.int64, np.float16, ml_dtypes.bfloat16):
        out += [Case(f"x.{name}(axis=0)", lambda x, f=f: f(x, axis=0), dtype=dtype) for name, f in (("max", np.max), ("min", np.min))]
        accumulated = dtype if np.dtype(dtype).kind in "iu" else np.float32
        out.append(Case("x.sum(axis=(1, 2))", lambda x, a=accumulated: x.astype(a).sum(axis=(1, 2), dtype=a), dtype=dtype))
    return out


CASES = [
    *_reductions(),
    Case("x.var(axis=1, ddof=1)", lambda x: x.var(axis=1, ddof=1)),
    Case("pl.std(x, axis=(0, 2), ddof=1)", lambda x: x.std(axis=(0, 2), ddof=1)),
    Case("x.mean(axis=1)", lambda x: x.mean(axis=1), dtype=np.float16),
    Case("x.mean(axis=2)", lambda x: x.mean(axis=2, dtype=np.float32), dtype=np.int32),
    *[Case(f"pl.softmax(x, axis={axis})", lambda x, a=axis: _softmax(x, a)) for axis in (0, 1, -1)],
    Case("x.softmax()", lambda x: _softmax(x.astype(np.float32), -1), dtype=np.float16),
    Case("pl.log_softmax(x, axis=1)", lambda x: np.log(_softmax(x.astype(np.float64), 1))),
    Case("pl.logsumexp(x, axis=0)", lambda x: np.log(np.exp(x.astype(np.float64)).sum(axis=0))),
    Case("pl.logsumexp(x, axis=0, keepdims=True)", lambda x: np.log(np.exp(x.astype(np.float64)).sum(axis=0, keepdims=True))),
    Case("x.T", lambda x: x.T),
    Case("x.T", lambda x: x.T, shapes=((6, 9),), dtype=np.int16),
    Case("x.permute(2, 0, 1)", lambda x: x.transpose(2, 0, 1)),
    Case("pl.permute(x, (-1, 1, 0))", lambda x: x.transpose(2, 1, 0)),
    Case("x.flip()", lambda x: x[::-1, ::-1, ::-1]),
    Case("pl.flip(x, axis=(0, -1))", lambda x: x[::-1, :, ::-1], dtype=np.int8),
    Case("pl.expand_dims(x, 1)", lambda x: x[:, None]),
    Case("x.unsqueeze(-1)", lambda x: x[..., None]),
    Case("pl.squeeze(x)", lambda x: x.reshape(5, 7), shapes=((1, 5, 1, 7),)),
    Case("x.squeeze(axis=2)", lambda x: x.reshape(1, 5, 7), shapes=((1, 5, 1, 7),)),
    Case("pl.broadcast_to(x, [4, 5, 7])", lambda x: np.broadcast_to(x, (4, 5, 7)), shapes=((1, 5, 1),)),
    Case("pl.broadcast_to(x, [4, 5, 7])", lambda x: np.broadcast_to(x, (4, 5, 7)), shapes=((5, 1),), dtype=np.int32),
    Case("pl.{tile}zeros([5, 7]) + x", lambda x: x, shapes=((5, 7),)),
    Case("pl.{tile}ones([5, 7], dtype=pl.INT32) + x", lambda x: x + 1, shapes=((5, 7),), dtype=np.int32),
    Case("pl.zeros_like(x)", np.zeros_like),
    Case("pl.ones_like(x, dtype=pl.FP32)", lambda x: np.ones(x.shape, np.float32), dtype=np.int32),
    Case("pl.full_like(x, 2.5)", lambda x: np.full_like(x, 2.5)),
    Case("x + pl.{tile}arange(7)", lambda x: x + np.arange(7, dtype=np.int32), dtype=np.int32),
    Case("x * 0.0 + pl.{tile}arange(0.5, [7], pl.FP32, step=0.25)", lambda x: x * 0 + 0.5 + 0.25 * np.arange(7)),
    Case("x * 0.0 + pl.{tile}arange(3, [7], pl.FP32, descending=True)", lambda x: x * 0 + 3.0 - np.arange(7)),
    *[Case(f"x * 0 + pl.{{tile}}iota([3, 5, 7], axis={a})", lambda x, a=a: np.indices((3, 5, 7))[a].astype(np.int32), dtype=np.int32) for a in range(3)],
    Case("x * 0.0 + pl.{tile}rand(9, [5, 7])", lambda x: (_philox(9, 0, 35).astype(np.float64) / 2**24).reshape(5, 7), shapes=((5, 7),)),
    Case("x * 0.0 + pl.{tile}randn(9, [5, 7])", _normal, shapes=((5, 7),)),
    Case("pl.einsum('ij,jk->ik', x, y)", lambda x, y: x @ y, shapes=((5, 7), (7, 4))),
    Case("pl.einsum('ij,jk', x, y)", lambda x, y: x @ y, shapes=((5, 7), (7, 4))),
    Case("pl.einsum('bij,bkj->kib', x, y)", lambda x, y: np.einsum("bij,bkj->kib", x, y), shapes=((2, 5, 7), (2, 4, 7))),
    Case("pl.einsum('i,j->ji', x, y)", lambda x, y: np.outer(y, x), shapes=((5,), (7,))),
    Case("pl.einsum('ij,ij->', x, y)", lambda x, y: (x * y).sum(), shapes=((5, 7), (5, 7)), scalar=True),
    Case("pl.einsum('ijk->ki', x)", lambda x: x.sum(axis=1).T),
    Case("pl.einsum('ijk->', x)", lambda x: x.sum(), scalar=True),
    Case("pl.einsum('ij,jkl->ik', x, y)", lambda x, y: np.einsum("ij,jkl->ik", x, y), shapes=((5, 7), (7, 4, 2))),
    Case("x @ y", lambda x, y: x @ y, shapes=((5, 7), (7, 4))),
    Case("x @ y", lambda x, y: x @ y, shapes=((2, 5, 7), (2, 7, 4))),
    Case("x / y", lambda x, y: x / y, shapes=((5, 7), (5, 1))),
    Case("(x & 12) | (y ^ x) << 2 >> 1", lambda x, y: (x & 12) | (y ^ x) << 2 >> 1, shapes=((5, 7), (1, 7)), dtype=np.int32),
    Case("~x", lambda x: ~x, dtype=np.int32),
    Case("x.exp().astype(pl.FP16)", lambda x: np.exp(x).astype(np.float16)),
    Case("x.reshape(5, 21)", lambda x: x.reshape(5, 21)),
    Case("x.relu() + pl.lrelu(x, 0.5)", lambda x: np.maximum(x, 0) + np.where(x > 0, x, 0.5 * x)),
    Case("pl.sort(x, axis=0)", lambda x: np.sort(x, axis=0)),
    Case("x.sort(axis=1, descending=True)", lambda x: -np.sort(-x, axis=1)),
    Case("pl.argsort(x, axis=1)", lambda x: np.argsort(x, axis=1, kind="stable"), dtype=np.int8),
    Case("pl.topk(x, 2, axis=1)[0]", lambda x: -np.sort(-x, axis=1)[:, :2]),
    Case("pl.topk(x, 3, largest=False)[1]", lambda x: np.argsort(x, axis=-1, kind="stable")[..., :3]),
    Case("pl.histogram(x, 7, -1.0, 0.75)", lambda x: np.histogram(x, 7, (-1.0, 0.75))[0]),
    *[Case("pl.atan2(x, y)", np.arctan2, shapes=((5, 7), (5, 7)), dtype=dtype) for dtype in (np.float32, np.float64, np.float16)],
    Case("pl.atan2(x, y)", np.arctan2, shapes=((5, 1), (1, 7))),
    Case("pl.atan2(2.0, x)", lambda x: np.arctan2(2, x)),
    Case("x.atan()", np.arctan),
    *[Case(f"pl.scan(pl.add, x, axis={axis})", lambda x, a=axis: np.cumsum(x, axis=a)) for axis in range(3)],
    Case("pl.scan(pl.minimum, x, reverse=True)", lambda x: np.minimum.accumulate(x[..., ::-1], axis=-1)[..., ::-1], dtype=np.int32),
    Case("pl.row_max(x) + pl.row_sum(x)", lambda x: x.max(-1, keepdims=True) + x.sum(-1, keepdims=True)),
]


def source(case: Case, level: str) -> str:
    text = case.text.format(tile="tile." * (level == "tile"))
    names = [("x", "a"), ("y", "b")][: len(case.shapes)]
    lines = [f"def kernel({', '.join(f'{a}: pl.Tensor' for _, a in names)}, out: pl.Out[pl.Tensor]):", "    with pl.at(level=pl.Level.CORE_GROUP):"]
    for (name, argument), shape in zip(names, case.shapes, strict=True):
        lines.append(f"        {name} = " + (argument if level == "tensor" else f"pl.load({argument}, {[0] * len(shape)}, {list(shape)})"))
    lines.append(f"        out[{'0' if case.scalar else ':'}] = {text}")
    return "\n".join(["import tilejit.language as pl", "@pl.jit", *lines]) + "\n"


def kernel_of(text: str, name: str) -> Any:
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    return module.__dict__["kernel"]


def data(case: Case) -> list[Array]:
    rng = np.random.default_rng(len(case.text))
    if np.dtype(case.dtype).kind in "iu":
        return [rng.integers(0 if np.dtype(case.dtype).kind == "u" else -9, 10, shape).astype(case.dtype) for shape in case.shapes]
    return [rng.uniform(-1.5, 1.5, shape).astype(case.dtype) for shape in case.shapes]


SAMPLE = [(number, level) for number in range(len(CASES)) for place, level in enumerate(("tensor", "tile")) if ALL or (number + place) % 2 == 0]


@pytest.mark.parametrize(("number", "level"), SAMPLE, ids=[f"{CASES[number].text}-{level}" for number, level in SAMPLE])
def test_numpy_agrees(number: int, level: str) -> None:
    case = CASES[number]
    arrays = data(case)
    expected = np.asarray(case.expected(*arrays))
    kernel = kernel_of(source(case, level), f"<composed {number} {level}>")
    narrow = case.dtype in (np.float16, ml_dtypes.bfloat16) or "FP16" in case.text
    for platform in ("reference", "cpu"):
        if case.scalar:
            got = np.zeros(1, np.int32 if case.text.startswith("x.arg") else case.dtype)
            kernel(*arrays, got, config=RunConfig(platform=platform))
            got = got[0]
        else:
            got = kernel(*arrays, config=RunConfig(platform=platform))
        assert got.shape == expected.shape, platform
        rtol, atol = (2e-2, 1e-2) if narrow else (2e-5, 2e-6)
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol, err_msg=platform)


def test_every_composed_row_is_tried() -> None:
    spelled = {name: row.name for row in ops.table().values() if row.compose is not None for name in (s.name for s in row.spellings)}
    tried = {row for name, row in spelled.items() for case in CASES if f"{name}(" in case.text or (name == "permute" and ".T" in case.text)}
    assert tried == set(spelled.values())


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.int32])
@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_comparisons_count_what_their_dtype_may_not_hold(dtype: type, platform: str) -> None:
    head = "import tilejit.language as pl\n\n@pl.jit\ndef kernel(x: pl.Tensor):\n"
    text = head + "    return (x > 3).sum(), pl.sum(x > 3, axis=0), pl.row_sum(x > 3), pl.col_sum(x > 3)\n"
    x = np.random.default_rng(7).integers(0, 9, (313, 271)).astype(dtype)
    total, columns, rows, again = kernel_of(text, f"<counted {np.dtype(dtype)}>")(x, config=RunConfig(platform=platform))
    held = x > 3
    assert total == held.sum()
    for got, axis in ((columns, 0), (rows[:, 0], 1), (again[0], 0)):
        np.testing.assert_array_equal(got, held.sum(axis))


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_logarithms_of_sums_have_the_limits_of_infinities(platform: str) -> None:
    text = "import tilejit.language as pl\n\n@pl.jit\ndef kernel(x: pl.Tensor):\n    return pl.logsumexp(x), pl.log_softmax(x), pl.softmax(x)\n"
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf], [inf, 1.0], [0.0, -inf], [nan, inf]], np.float32)
    total, logarithms, parts = kernel_of(text, "<infinities>")(x, config=RunConfig(platform=platform))
    np.testing.assert_array_equal(total, [-inf, inf, 0.0, nan])
    np.testing.assert_array_equal(logarithms, [[nan, nan], [nan, -inf], [0.0, -inf], [nan, nan]])
    np.testing.assert_array_equal(parts, [[nan, nan], [nan, nan], [1.0, 0.0], [nan, nan]])


_ORDERS = """import tilejit.language as pl

@pl.jit
def kernel(x: pl.Tensor):
    up, down = pl.argsort(x), pl.argsort(x, descending=True)
    most, least = pl.topk(x, 2)[1], pl.topk(x, 2, largest=False)[1]
    return up, down, most, least, pl.sort(x), pl.sort(x, descending=True)
"""


@pytest.mark.parametrize("columns", [8, 200])  # among many, the first ones are found by blocks
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_zeros_of_both_signs_keep_their_order(dtype: type, platform: str, columns: int) -> None:
    x = np.where(np.random.default_rng(3).random((2, columns)) < 0.5, -0.0, 0.0).astype(dtype)
    *indices, up, down = kernel_of(_ORDERS, "<orders>")(x, config=RunConfig(platform=platform))
    for found in indices:
        np.testing.assert_array_equal(found, np.broadcast_to(np.arange(found.shape[1]), found.shape))
    for found in (up, down):
        np.testing.assert_array_equal(np.signbit(found), np.signbit(x))

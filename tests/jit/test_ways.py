"""The ways of a call (native code, Python functions per signature, the full checks) agree on random calls: results, what is written, errors word for word."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

CALLS = int(os.environ.get("TILEJIT_TEST_WAYS", "300"))

KERNELS = {
    "static": """
    @pl.jit
    def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = a * 2.0 + b
    """,
    "dynamic": """
    ROWS = pl.dynamic("ROWS")

    @pl.jit
    def affine(
        x: pl.Tensor[[ROWS, 6], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 6], pl.FP32]], scale: pl.FP32 = pl.RUNTIME, shift: pl.INT32 = pl.RUNTIME
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * scale + pl.cast(shift, pl.FP32)
    """,
    "constants": """
    @pl.jit
    def scaled(x: pl.Tensor, factor: pl.FP32, n: int, flag: bool, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if flag:
                out[:] = x * factor
            else:
                out[:] = x + float(n)
    """,
    "updated": """
    @pl.jit
    def step(state: pl.InOut[pl.Tensor], x: pl.Tensor, total: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            total[:] = state + x
            state[:] = state * 0.5
    """,
}
PARAMETERS = {"static": "ttt", "dynamic": "ttfi", "constants": "tcndt", "updated": "ttt"}
"""Kinds: tensor, run-time float and integer, specialised float, integer and flag."""
SCALARS: dict[str, list[Any]] = {
    "f": [0.5, 2.0, -0.0, 1e300, float("nan"), 3, True, np.float32(1.5), "x", None],
    "i": [0, 7, -3, 2**31 - 1, 2**31, -(2**40), 1.0, 1.5, True, np.int64(4), "x"],
    "c": [0.5, 0.0, -0.0, 2.0, 2, np.float32(0.5), "x"],
    "n": [1, 2, True, 1.0, np.int32(1)],
    "d": [True, False, 1, None],
}
TENSORS = ("plain",) * 30 + (
    "rows", "transposed", "every second", "read-only", "double", "integers", "subclass", "broadcast", "unaligned", "big-endian", "list", "none", "empty",
    "alias", "overlap", "torch", "torch", "torch transposed", "torch grad", "torch unaligned", "rank",
)  # fmt: skip


def tensor(kind: str, rng: random.Random, memory: np.ndarray, earlier: list[Any]) -> Any:
    data = np.random.default_rng(rng.randrange(1 << 30)).standard_normal((3, 6)).astype(np.float32)
    arrays = [value for value in earlier if isinstance(value, np.ndarray)]
    match kind:
        case "rows":
            return np.repeat(data[:1], rng.choice([1, 5]), axis=0)
        case "transposed":
            return np.ascontiguousarray(data.T).T
        case "every second":
            return np.repeat(data, 2, axis=1)[:, ::2]
        case "read-only":
            data.flags.writeable = False
        case "double":
            return data.astype(np.float64)
        case "integers":
            return (data * 9).astype(np.int32)
        case "subclass":
            return data.view(np.recarray)
        case "broadcast":
            return np.broadcast_to(data[:1], (3, 6))
        case "unaligned" | "torch unaligned":
            raw = np.zeros(data.nbytes + 1, np.uint8)
            raw[1:] = np.frombuffer(data.tobytes(), np.uint8)
            if kind == "unaligned":
                return raw[1:].view(np.float32).reshape(3, 6)
            torch = pytest.importorskip("torch")
            return torch.frombuffer(raw, dtype=torch.float32, offset=1).view(3, 6)
        case "big-endian":
            return data.astype(">f4")
        case "list":
            return data.tolist()
        case "none":
            return None
        case "empty":
            return data[:0]
        case "alias" if arrays:
            return arrays[-1]
        case "overlap":
            start = rng.choice([0, 6, 18])
            return memory[start : start + 18].reshape(3, 6)
        case "rank":
            return data[0]
        case "torch" | "torch transposed" | "torch grad":
            found = pytest.importorskip("torch").from_numpy(data)
            return found.T.contiguous().T if kind == "torch transposed" else found.requires_grad_() if kind == "torch grad" else found
        case _:
            pass
    return data


def arguments(kinds: str, rng: random.Random) -> tuple[Any, ...]:
    memory = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(48).astype(np.float32)
    out: list[Any] = []
    for kind in kinds:
        out.append(tensor(rng.choice(TENSORS), rng, memory, out) if kind == "t" else rng.choice(SCALARS[kind][:3] * 4 + SCALARS[kind]))
    return tuple(out[: len(out) - 1] if rng.random() < 0.15 else out)


def content(value: Any) -> object:
    if value is None or isinstance(value, bool | int | float | str | list):
        return repr(value)
    if isinstance(value, tuple):
        return tuple(content(item) for item in value)
    array = value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
    return type(value).__name__, array.dtype.str, array.shape, array.tobytes()


def outcome(kernel: Callable[..., object], args: tuple[Any, ...], **more: Any) -> tuple[object, ...]:
    """What a call returned or raised, and what the arguments hold afterwards."""
    try:
        result = content(kernel(*args, **more))
    except Exception as error:
        result = type(error).__name__, re.sub(r"0x[0-9a-f]+|<cell \d+>", "…", str(error))
    return result, tuple(content(value) for value in args)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.filterwarnings("ignore:.*carries no gradient")
def test_all_ways_of_a_call_agree(name: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")

    def outcomes(kernel: JITFunction, **more: Any) -> list[tuple[object, ...]]:
        # Every call twice: what the first one taught is what the second one runs on.
        return [outcome(kernel, arguments(PARAMETERS[name], random.Random(seed // 2)), **more) for seed in range(CALLS)]

    whole = outcomes(make_kernel(KERNELS[name]), config=RunConfig())
    for fast in ("1", "0"):
        monkeypatch.setenv("TILEJIT_FASTPATH", fast)
        kernel = make_kernel(KERNELS[name])
        for number, (found, expected) in enumerate(zip(outcomes(kernel), whole, strict=True)):
            assert found == expected, f"call {number} with TILEJIT_FASTPATH={fast}: {arguments(PARAMETERS[name], random.Random(number // 2))}"
        assert kernel._warm is not None and kernel._warm.all_hits > 40, "many calls take a warm way"
    monkeypatch.setenv("TILEJIT_FASTPATH", "1")
    kernel = make_kernel(KERNELS[name])
    names = [param.name for param in kernel.definition.params]
    for number, expected in enumerate(whole):
        args = arguments(PARAMETERS[name], random.Random(number // 2))
        first = random.Random(number).randrange(len(args) + 1)
        named = dict(reversed(list(zip(names, args, strict=False))[first:]))
        found = outcome(lambda *_, first=first, args=args, named=named: kernel(*args[:first], **named), args)
        assert found == expected, f"call {number} with names: {args[:first]}, {named}"
    assert kernel._warm is not None and kernel._warm.all_hits > 40, "calls with names take a warm way too"
    assert sum(isinstance(row[0], tuple) and len(row[0]) == 2 and str(row[0][0]).endswith("Error") for row in whole) > 30, "there are calls to refuse"

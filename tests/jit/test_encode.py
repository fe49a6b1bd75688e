"""The encoding of captured values: different values never share one, equal values always do, in every process."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import subprocess
import sys
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

from tilejit.dtypes import BF16, FP32
from tilejit.errors import UncacheableValueError
from tilejit.jit.reads.content import Content
from tilejit.jit.reads.encode import encode_value
from tilejit.types.annotations import untracked


def enc(value: object) -> bytes:
    return encode_value(value, "cfg.VALUE", Content(lambda *_: None))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: int
    b: int


@dataclasses.dataclass
class Config:
    block: int
    name: str = "x"


@dataclasses.dataclass
class Other:
    block: int
    name: str = "x"


DISTINCT: list[object] = [
    None, True, False, 1, 0, -1, 1.0, 0.0, -0.0, float("nan"), float("inf"), 2**80, "1", "", b"1", Text("1"), 1j, ...,
    (), (1,), (1, 2), ((1,), 2), [1, 2], {1, 2}, frozenset({1, 2}), {"a": 1}, {"a": 1.0}, {"b": 1}, {1: "a"},
    Colour.RED, Colour.BLUE, Number.ONE, Pair(1, 2), Config(1), Config(2), Other(1), FP32, BF16, range(3), range(0, 3, 2), slice(0, 3),
    np.float32(1), np.float64(1), np.int32(1), np.int64(1), np.bool_(True), ml_dtypes.bfloat16(1), np.array([1, 2]), np.array([[1, 2]]), np.array([1.0, 2.0]),
    functools.partial(int, 3), functools.partial(int, 4), functools.partial(int, base=3), int, len, math_function := __import__("math").sin, np,
]  # fmt: skip


def test_no_two_different_values_share_an_encoding() -> None:
    encodings = [enc(value) for value in DISTINCT]
    for i, first in enumerate(encodings):
        for j, second in enumerate(encodings[:i]):
            assert first != second, (DISTINCT[i], DISTINCT[j])


def test_equal_content_gives_equal_encodings() -> None:
    assert enc({"a": 1, "b": {2, 3, 1}}) == enc({"b": {3, 1, 2}, "a": 1})
    assert enc(Config(3)) == enc(Config(3))
    assert enc(np.arange(6).reshape(2, 3)) == enc(np.arange(6).reshape(2, 3))
    assert enc(float("nan")) == enc(-float("nan"))


def test_containers_that_hold_themselves_terminate() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    mapping: dict[str, object] = {"self": loop}
    mapping["me"] = mapping
    assert enc(loop) == enc(loop)
    assert enc(mapping) != enc(loop)


def test_a_cache_signature_speaks_for_its_object() -> None:
    class Tuned:
        def __init__(self, block: int) -> None:
            self.block = block

        def __cache_signature__(self) -> object:
            return ("tuned", self.block)

    assert enc(Tuned(3)) == enc(Tuned(3)) != enc(Tuned(4))


def test_untracked_values_do_not_count() -> None:
    assert enc(untracked(object())) == enc(untracked([1]))


@pytest.mark.parametrize("value", [object(), open(os.devnull), np.zeros(1 << 16), np.array([object()])], ids=["object", "file", "large array", "object array"])  # noqa: SIM115
def test_values_without_stable_content_are_refused_with_the_remedies(value: object) -> None:
    with pytest.raises(UncacheableValueError, match=r"cfg\.VALUE") as caught:
        enc(value)
    assert "__cache_signature__" in str(caught.value) and "pl.untracked" in str(caught.value)


def test_encodings_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from tilejit.jit.reads.content import Content;from tilejit.jit.reads.encode import encode_value;import hashlib;"
        "print(hashlib.sha256(encode_value({'a': {'x','y','z', 1, 2.5}, 'b': frozenset('hello')}, 'p', Content(lambda *_: None))).hexdigest())"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1

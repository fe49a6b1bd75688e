"""Calls of machine code: the argument block, scratch memory, failures, results."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tilejit.backends.cpu.llvm import elf
from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT32, UINT16
from tilejit.errors import OutOfBoundsError
from tilejit.runtime.artifact.blob import LoadedBlob
from tilejit.runtime.call import arena
from tilejit.runtime.call.failures import Failure
from tilejit.runtime.call.native import NativeEntry, scalar_bits
from tilejit.runtime.call.signature import ParamInfo, Signature

SCALE = """
define i64 @scale(ptr %args, ptr %context) {
entry:
  %data = load ptr, ptr %args
  %np = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %np
  %sp = getelementptr i64, ptr %args, i64 3
  %bits = load i64, ptr %sp
  %low = trunc i64 %bits to i32
  %s = bitcast i32 %low to float
  %bad = icmp sgt i64 %n, 100
  br i1 %bad, label %fail, label %head
fail:
  %v0 = getelementptr i64, ptr %context, i64 4
  store i64 %n, ptr %v0
  %v1 = getelementptr i64, ptr %context, i64 5
  store i64 100, ptr %v1
  ret i64 2
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %go = icmp slt i64 %i, %n
  br i1 %go, label %body, label %done
body:
  %p = getelementptr float, ptr %data, i64 %i
  %x = load float, ptr %p
  %y = fmul float %x, %s
  store float %y, ptr %p
  %next = add i64 %i, 1
  br label %head
done:
  ret i64 0
}
"""
PARAMS = (ParamInfo("x", "InOut", FP32, ("N",)), ParamInfo("s", "In", FP32))
FAILURES = (Failure("shape", "never"), Failure("bounds", "{0} rows, at most {1}"))


@pytest.fixture(scope="module")
def code() -> LoadedBlob:
    return LoadedBlob(elf.flatten(compile_llvm(SCALE).object_bytes))


def test_extents_and_scalars_arrive(code: LoadedBlob) -> None:
    entry, signature = NativeEntry(code, "scale", PARAMS, FAILURES), Signature("scale", PARAMS)
    x = np.random.default_rng(0).standard_normal(37).astype(np.float32)
    expected = x * np.float32(-1.75)
    bound, _ = signature.bind((x, -1.75))
    entry.run(bound)
    np.testing.assert_array_equal(x, expected)


def test_a_failure_becomes_the_error_of_its_row_with_the_reported_values(code: LoadedBlob) -> None:
    entry, signature = NativeEntry(code, "scale", PARAMS, FAILURES), Signature("scale", PARAMS)
    bound, _ = signature.bind((np.ones(101, np.float32), 2.0))
    with pytest.raises(OutOfBoundsError, match="101 rows, at most 100"):
        entry.run(bound)


@pytest.mark.parametrize(
    ("value", "dtype", "bits"),
    [
        (-1, INT8, 0xFF), (-1, INT32, 0xFFFFFFFF), (-1, INDEX, 2**64 - 1), (65535, UINT16, 0xFFFF),
        (1.0, FP32, 0x3F800000), (1.0, FP16, 0x3C00), (1.0, BF16, 0x3F80), (True, BOOL, 1),
    ],
)  # fmt: skip
def test_scalars_are_passed_as_the_bits_of_their_type(value: float, dtype: object, bits: int) -> None:
    assert scalar_bits(value, dtype) == bits  # type: ignore[arg-type]


def test_a_double_beyond_float32_becomes_infinity() -> None:
    assert scalar_bits(1e300, FP32) == 0x7F800000
    assert scalar_bits(-1e300, FP32) == 0xFF800000


def test_each_thread_has_scratch_memory_of_its_own() -> None:
    bases = [arena.this_thread().base, arena.this_thread().base]
    other: list[int] = []
    thread = threading.Thread(target=lambda: other.append(arena.this_thread().base))
    thread.start()
    thread.join()
    assert bases[0] == bases[1] != other[0]


def test_the_size_of_scratch_memory_follows_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_ARENA_BYTES", "64M")
    here = arena.this_thread()
    assert here.end - here.base == 64 << 20


def test_scratch_memory_does_not_count_until_it_is_touched() -> None:
    scratch = arena.Arena(1 << 34)
    flags: list[str] = []
    inside = False
    with open("/proc/self/smaps", encoding="ascii", errors="replace") as file:
        for line in file:
            head = line.split()[0]
            if "-" in head and not head.endswith(":"):
                low, high = (int(number, 16) for number in head.split("-"))
                inside = low <= scratch.base < high
            elif inside and head == "VmFlags:":
                flags = line.split()[1:]
    assert "nr" in flags and "ac" not in flags, "a fork would have to find memory for the whole reservation"

"""LLVM text becomes machine code quickly; text that LLVM refuses is reported as our bug, with the line."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.backends.cpu.native import Native, lane_kernel
from tilejit.backends.cpu.lanes.registers import round_to
from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.backends.cpu.llvm.host import Host, host
from tilejit.dtypes import BF16, FP16, FP32, DType
from tilejit.errors import InternalError
from tilejit.runtime.machine import needed_features

TWICE = "define void @twice(ptr %x) {\n  %v = load i64, ptr %x\n  %w = add i64 %v, %v\n  store i64 %w, ptr %x\n  ret void\n}\n"


def test_a_module_becomes_an_object_that_runs() -> None:
    x = np.array([21])
    Native(TWICE).function("twice", ctypes.c_void_p)(x.ctypes.data)
    assert x[0] == 42


def test_readable_forms_are_there_on_request() -> None:
    compiled = compile_llvm(TWICE)
    assert "define void @twice" in compiled.optimised
    assert "twice:" in compiled.assembly


def test_refused_text_is_an_internal_error_with_the_line_and_a_caret() -> None:
    with pytest.raises(InternalError) as caught:
        compile_llvm("define void @f() {\n  %a = add i32 1, float 2\n  ret void\n}\n")
    assert "line 2" in str(caught.value)
    assert "%a = add i32 1, float 2\n" in str(caught.value)
    assert "^" in str(caught.value)


def test_text_that_parses_but_is_invalid_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="does not dominate"):
        compile_llvm("define i64 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i64 1, 2\n  br label %b\nb:\n  ret i64 %x\n}\n")


def test_wide_vectors_stay_wide() -> None:
    """A function without width attributes may use the widest registers, whatever the processor's tuning prefers."""
    if host().vector_bits != 512:
        pytest.skip("needs 512-bit registers")
    body = "%v = load <16 x float>, ptr %x, align 4\n  %w = fadd <16 x float> %v, %v\n  store <16 x float> %w, ptr %x, align 4\n  ret void"
    assert "%zmm0" in compile_llvm(f"define void @f(ptr %x) {{\n  {body}\n}}\n").assembly


def test_the_features_tell_processors_apart() -> None:
    one, other = Host("x86_64-linux", "znver3", "+avx2,-avx512f"), Host("x86_64-linux", "znver3", "+avx2,+avx512f")
    assert needed_features(one.features) != needed_features(other.features)
    assert (one.vector_bits, one.vector_registers) == (256, 16)
    assert one.has("avx2") and not one.has("avx512f")


@pytest.mark.parametrize("dtype", [FP16, BF16], ids=str)
def test_older_processors_round_narrow_floats_the_same(dtype: DType, older_host: Host) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32), (rng.normal(size=9000) * 1e-6).astype(np.float32)])
    with np.errstate(all="ignore"):
        want = x.astype(dtype.numpy)
        got = lane_kernel([FP32], dtype, lambda e, values, lanes: round_to(e, dtype, values[0]), 8)(x)
    same = (got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(x) & np.isnan(got.astype(np.float32)))
    assert same.all(), (x[~same][:5], got[~same][:5], want[~same][:5])

"""Machine code as a flat blob: flattened from an object file, mapped, called."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tilejit.backends.cpu.llvm import elf
from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.errors import ArtifactError
from tilejit.runtime.artifact.blob import Blob, LoadedBlob, external_address

COPY = """
declare ptr @memcpy(ptr, ptr, i64)
declare float @expf(float)
define i64 @copy(ptr %d, ptr %s, i64 %n) {
  %r = call ptr @memcpy(ptr %d, ptr %s, i64 %n)
  ret i64 7
}
define float @half_exp(float %x) {
  %e = call float @expf(float %x)
  %h = fmul float %e, 5.0e-01
  ret float %h
}
define <8 x float> @table(<8 x float> %x) {
  %y = fadd <8 x float> %x, <float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0, float 7.0, float 8.0>
  ret <8 x float> %y
}
define void @add_table(ptr %p) {
  %x = load <8 x float>, ptr %p, align 4
  %y = call <8 x float> @table(<8 x float> %x)
  store <8 x float> %y, ptr %p, align 4
  ret void
}
"""


@pytest.fixture(scope="module")
def loaded() -> LoadedBlob:
    return LoadedBlob(elf.flatten(compile_llvm(COPY).object_bytes))


def test_calls_to_the_c_library_go_through_patched_slots(loaded: LoadedBlob) -> None:
    source = np.random.default_rng(0).standard_normal(37).astype(np.float32)
    target = np.zeros_like(source)
    copy = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(loaded.address("copy"))
    assert copy(target.ctypes.data, source.ctypes.data, source.nbytes) == 7
    np.testing.assert_array_equal(target, source)


def test_functions_of_the_maths_library_are_found(loaded: LoadedBlob) -> None:
    half_exp = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.address("half_exp"))
    assert half_exp(1.25) == pytest.approx(np.exp(np.float32(1.25)) / 2, rel=1e-6)


def test_constants_are_reached_from_the_code(loaded: LoadedBlob) -> None:
    values = np.random.default_rng(1).standard_normal(8).astype(np.float32)
    expected = values + np.arange(1, 9, dtype=np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address("add_table"))(values.ctypes.data)
    np.testing.assert_array_equal(values, expected)


def test_loaded_code_is_executable_and_not_writable(loaded: LoadedBlob) -> None:
    address = loaded.address("copy")
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if low <= address < high:
                assert line.split()[1] == "r-xp"
                return
    pytest.fail("the code is not mapped")


def test_code_is_unmapped_with_its_object() -> None:
    blob = elf.flatten(compile_llvm(COPY).object_bytes)
    before = mappings()
    for _ in range(20):
        LoadedBlob(blob)
    assert mappings() <= before + 2


def mappings() -> int:
    with open("/proc/self/maps") as maps:
        return len(maps.readlines())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@counter = global i64 0\ndefine i64 @f() {\n %x = load i64, ptr @counter\n ret i64 %x\n}", "writable data|bss"),
        ("@table = constant [1 x ptr] [ptr @f]\ndefine ptr @f() {\n ret ptr @table\n}", "relocation|offset table|writable"),
    ],
)
def test_what_a_flat_blob_cannot_express_is_refused(text: str, reason: str) -> None:
    with pytest.raises(elf.UnsupportedObject, match=reason):
        elf.flatten(compile_llvm(text).object_bytes)


def test_bytes_that_are_no_object_are_refused() -> None:
    with pytest.raises(elf.UnsupportedObject, match="not an ELF64"):
        elf.flatten(b"MZ" + bytes(200))


def test_unknown_functions_are_named() -> None:
    with pytest.raises(ArtifactError, match="no_such_function_anywhere"):
        external_address("no_such_function_anywhere")
    with pytest.raises(ArtifactError, match="no function `missing`"):
        LoadedBlob(Blob(b"\xc3", {"f": 0})).address("missing")

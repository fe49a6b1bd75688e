"""Products by tiles (AMX), on any processor: their text with the tile instructions replaced by functions that do what the manual says."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from tests.backends.cpu.native import Native
from tests.backends.cpu.test_gemm import PARAMS, SIZES, Product, check, scratch_for
from tilejit.backends.cpu.llvm import host as processor
from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.backends.cpu.llvm.host import Host, host
from tilejit.backends.cpu.llvm.text import Emitter, Module
from tilejit.backends.cpu.products import elements, few_tiles
from tilejit.backends.cpu.products.gemm import Gemm, call_variant, scratch_bytes
from tilejit.backends.cpu.products.kernels import params_of
from tilejit.dtypes import BF16, INT8, UINT8, DType

pytestmark = pytest.mark.skipif(not host().is_x86 or host().vector_bits != 512, reason="vectors beside the tiles have 512 bits")


@pytest.fixture
def with_tiles(monkeypatch: pytest.MonkeyPatch) -> Host:
    """Products are written as for a processor that has a matrix unit."""
    has = replace(host(), features=",".join([host().features, "+amx-tile", "+amx-bf16", "+amx-int8", "+avx512bf16", "+avx512vnni"]))
    monkeypatch.setattr(elements, "host", lambda: has)
    return has


def module_for(operand: DType, variant: str = "packed", right: DType | None = None) -> Module:
    module = Module()
    params = params_of(PARAMS)
    e = Emitter(module, "go", "void", params)
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, accumulate, scratch = params
    call_variant(e, variant, operand, Gemm((a, a_row, a_col), (b, b_row, b_col), (c, c_row), (m, n, k), accumulate, scratch), right)
    e.void("ret void")
    e.finish()
    return module


def _bytes_at(address: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * 64).from_address(address))


class Unit:
    """Eight tiles of 16 rows of 64 bytes, and what the instructions do with them."""

    def __init__(self) -> None:
        self.tiles = np.zeros((8, 16, 64), np.uint8)
        self.ready = False
        number, pointer, byte = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int8
        self.functions: dict[str, Any] = {}
        for name, types, function in (
            ("ldtilecfg", (pointer,), self.configure), ("tilerelease", (), self.release), ("tilezero", (byte,), self.zero),
            ("tileloadd64", (byte, pointer, number), self.load), ("tilestored64", (byte, pointer, number), self.store),
            ("tdpbf16ps", (byte,) * 3, lambda *tiles: self.multiply(ml_dtypes.bfloat16, np.float32, *tiles)),
            ("tdpbssd", (byte,) * 3, lambda *tiles: self.multiply(np.int8, np.int32, *tiles)),
            ("tdpbuud", (byte,) * 3, lambda *tiles: self.multiply(np.uint8, np.int32, *tiles)),
        ):  # fmt: skip
            self.functions[name] = ctypes.CFUNCTYPE(None, *types)(function)
            llvm.add_symbol(f"unit_{name}", ctypes.cast(self.functions[name], ctypes.c_void_p).value)

    def configure(self, pointer: int) -> None:
        told = _bytes_at(pointer)
        self.ready = told[0] == 1 and (told[16:32].view(np.uint16) == 64).all() and (told[48:56] == 16).all() and not told[1:16].any()
        self.tiles[:] = 0

    def release(self) -> None:
        self.ready = False

    def zero(self, tile: int) -> None:
        self.tiles[tile] = 0 if self.ready else 255

    def _rows(self, pointer: int, stride: int) -> list[Any]:
        return [_bytes_at(pointer + row * stride) for row in range(16)]

    def load(self, tile: int, pointer: int, stride: int) -> None:
        self.tiles[tile] = np.stack(self._rows(pointer, stride))

    def store(self, tile: int, pointer: int, stride: int) -> None:
        for row, values in zip(self._rows(pointer, stride), self.tiles[tile], strict=True):
            row[:] = values

    def multiply(self, dtype: Any, sums: Any, c: int, a: int, b: int) -> None:
        group = 4 // np.dtype(dtype).itemsize
        wide = np.float32 if sums is np.float32 else np.int64
        left = self.tiles[a].reshape(-1).view(dtype).reshape(16, 16 * group).astype(wide)
        right = self.tiles[b].reshape(-1).view(dtype).reshape(16, 16, group).transpose(0, 2, 1).reshape(16 * group, 16).astype(wide)
        total = self.tiles[c].reshape(-1).view(sums).reshape(16, 16)
        total += (left @ right).astype(sums)


UNIT = Unit()


@pytest.mark.parametrize("dtype", [BF16, INT8, UINT8], ids=str)
@pytest.mark.parametrize("orders", ["CC", "FF", "SS"])
def test_products_by_tiles_equal_numpys(dtype: DType, orders: str, with_tiles: Host) -> None:
    run = emulated(module_for(dtype), dtype)
    rng = np.random.default_rng(8)
    for size in [*SIZES[1:6:2], (70, 33, 1200), (0, 4, 4), (4, 4, 0)]:
        check(run, dtype, size, orders, rng)


def emulated(module: Module, dtype: DType, right: DType | None = None) -> Product:
    """The product that a module has, with the unit's functions in place of the instructions."""
    text = module.text().replace("@llvm.x86.t", "@unit_t").replace("@llvm.x86.ldtilecfg", "@unit_ldtilecfg").replace("i8 immarg", "i8")
    assert "@unit_tdp" in text
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    call = Native(text).function("go", *[pointer, number, number] * 2, pointer, *[number] * 4, ctypes.c_bool, pointer)
    return scratch_for(call, lambda m, n, k: scratch_bytes(module, dtype, right, m, n, k))


@pytest.mark.skipif(not host().has("avx512bf16") or not host().has("avx512vnni"), reason="columns beside the tiles are multiplied by these instructions")
@pytest.mark.parametrize(("dtype", "right"), [(BF16, None), (INT8, None), (UINT8, None), (BF16, INT8), (BF16, UINT8)], ids=str)
def test_few_rows_are_multiplied_by_tiles_as_b_lies_in_memory(dtype: DType, right: DType | None, with_tiles: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_tiles, "_STEPS", 64)  # so that a small product has several parts of the depth
    run = emulated(module_for(dtype, "dots", right), dtype, right)
    rng = np.random.default_rng(9)
    for size in [(16, 64, 128), (32, 32, 64), (9, 70, 37), (17, 33, 300), (32, 40, 515), (40, 32, 96), (4, 32, 64), (16, 32, 0), (16, 3, 50), (0, 32, 32)]:
        check(run, dtype, size, "CF", rng, right)


@pytest.mark.parametrize("variant", ["packed", "dots"])
@pytest.mark.parametrize(("dtype", "instruction"), [(BF16, "tdpbf16ps"), (INT8, "tdpbssd"), (UINT8, "tdpbuud")], ids=str)
def test_processors_with_a_matrix_unit_use_it(dtype: DType, instruction: str, variant: str, with_tiles: Host) -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(module_for(dtype, variant).text())
    machine = llvm.Target.from_triple(host().triple).create_target_machine(cpu="sapphirerapids", features="+amx-tile,+amx-bf16,+amx-int8", opt=2)
    assembly = machine.emit_assembly(parsed)
    for wanted in (instruction, "ldtilecfg", "tileloadd", "tilestored", "tilerelease"):
        assert f"\t{wanted}" in assembly, wanted


@pytest.mark.parametrize("variant", ["packed", "dots"])
@pytest.mark.parametrize("level", ["", "dot", "avx512", "avx2", "sse"])
def test_every_level_of_a_processor_with_a_matrix_unit_is_compiled_for_and_only_the_whole_uses_it(
    level: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = llvm.get_host_cpu_features()
    found.update(dict.fromkeys(("amx-tile", "amx-bf16", "amx-int8", "avx512bf16", "avx512vnni"), True))
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: found)
    monkeypatch.setattr(processor, "may_use_tiles", lambda: True)
    monkeypatch.setattr(processor, "_host", processor._host.__wrapped__)
    monkeypatch.setenv("TILEJIT_CPU", level)
    for dtype, right in ((BF16, None), (INT8, None), (UINT8, None), (BF16, INT8)):
        text = module_for(dtype, variant, right).text()
        assert ("llvm.x86.tdp" in text) == (level == "") and ("dpb" in text) == (level in ("", "dot"))
        assert compile_llvm(text).object_bytes

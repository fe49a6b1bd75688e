"""What it costs a loop to look whether it should stop (tests/runtime/test_interrupt.py has that it does)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.ir import SSAValue

from tests.backends.cpu.harness import Kernel, buffer, program
from tilejit.backends.base import CompileOptions
from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.look import LOOK
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.backends.cpu.lower import lower
from tilejit.backends.cpu.products.gemm import _BUILDERS
from tilejit.backends.cpu.products.kernels import Elements
from tilejit.dtypes import FP32
from tilejit.tile_ir.program import Program
from tilejit.types.values import full_tile

pytestmark = pytest.mark.skipif(not host().is_x86, reason="loops look at the clock of x86 processors")


def test_a_turn_of_a_loop_pays_one_decrement_in_a_register() -> None:
    module = Module()
    e = Emitter(module, "kernel", "i64", [Value("%context", "ptr"), Value("%x", "ptr"), Value("%n", "i64")])
    with e.loop(0, Value("%n", "i64")) as loop:
        e.look()
        place = e.offset(Value("%x", "ptr"), loop.iv, "float")
        e.store(e.inst("float", f"fadd float {e.load('float', place, 4).text}, 1.0"), place, 4)
    e.void("ret i64 0")
    e.finish()
    optimised = compile_llvm(module.text()).optimised
    kernel = optimised[optimised.index("@kernel(") :].partition("\n}")[0]
    assert "alloca" not in kernel and kernel.count("load ") == kernel.count("store ") == 1
    assert kernel.count(f"call i64 @{LOOK}(") == 1 and "!prof" in kernel


def test_every_form_of_a_product_looks() -> None:
    for build in _BUILDERS.values():
        module = Module()
        assert f"@{LOOK}(ptr %context)" in module.functions[build(module, Elements.of(module, FP32))]


def looped(count: int) -> Program:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        def turn(i: SSAValue, t: SSAValue) -> Sequence[SSAValue]:
            return [k.op("mul", t, k.const(0.5))]

        (t,) = k.loop(0, count, 1, [k.tile(x, [0, 0], [8, 8])], turn, [full_tile((8, 8), FP32, "Vec")])
        k.put(t, out)

    return program([buffer(8, 8), buffer(8, 8)], body)


def test_code_without_long_loops_never_looks() -> None:
    few, many = (lower(looped(count), CompileOptions()).text for count in (16, 1000))
    assert LOOK not in few and LOOK in many

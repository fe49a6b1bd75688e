"""PassContext: instruments see every pass of the compiles inside it, and of no others."""

from __future__ import annotations

import threading

import pytest

from tests.runtime.programs import binary
from tilejit import ir
from tilejit.backends.cpu import target
from tilejit.dtypes import FP32
from tilejit.errors import VerificationError
from tilejit.passes.pipeline import LOWER, Pass
from tilejit.runtime import CallbackInstrument, PassContext, RoundTripInstrument, RunConfig, VerifyInstrument
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Program
from tilejit.types.values import ScalarType

CPU = ["simplify", "returns", "outline", "pairs", "simplify", "whole", "accumulate", "edges", "fuse", "share"]


def compile_once() -> None:
    ir.compile(binary("FP32"), platform="cpu")


def test_callbacks_run_before_and_after_each_pass_inside_the_context_only() -> None:
    seen: list[str] = []
    watch = CallbackInstrument(lambda name, program: seen.append(f"<{name}"), lambda name, program: seen.append(f"{name}>"))
    with PassContext([watch]):
        compile_once()
    assert seen == [text for name in CPU for text in (f"<{name}", f"{name}>")]
    compile_once()
    assert len(seen) == 2 * len(CPU)


def test_contexts_nest_and_other_threads_have_their_own() -> None:
    outer: list[str] = []
    inner: list[str] = []
    with PassContext([CallbackInstrument(after_pass=lambda name, program: outer.append(name))]):
        with PassContext([CallbackInstrument(after_pass=lambda name, program: inner.append(name))]):
            compile_once()
        thread = threading.Thread(target=compile_once)
        thread.start()
        thread.join()
    assert outer == inner == CPU


def test_what_is_no_instrument_is_refused() -> None:
    with pytest.raises(TypeError, match="before_pass"):
        PassContext([print])  # type: ignore[list-item]


def test_a_pass_that_breaks_the_ir_is_named_by_the_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "PASSES", (*LOWER, Pass("break_types", break_types)))
    with PassContext([VerifyInstrument()]), pytest.raises(VerificationError):
        compile_once()
    with pytest.raises(VerificationError):
        ir.compile(binary("FP32"), platform="cpu", verification_level=1)


def break_types(program: Program) -> None:
    """A wrong pass: a sum of tensors is called a scalar."""
    for op in program.module.walk():
        if isinstance(op, d.ApplyOp) and op.op == "add":
            op.results[0]._type = d.IRType(ScalarType(FP32))


def test_programs_come_back_from_text_after_every_pass() -> None:
    with PassContext([RoundTripInstrument()]):
        compile_once()
        compile_once()


def test_a_program_that_does_not_come_back_is_an_error_that_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilejit.tile_ir import text

    original = text.print_text
    monkeypatch.setattr(text, "print_text", lambda program: original(program).replace("add", "sub"))
    message = "after the pass simplify the program does not come back from its MLIR text"
    with PassContext([RoundTripInstrument()]), pytest.raises(VerificationError, match=message):
        compile_once()


def test_debugging_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    monkeypatch.setattr(VerifyInstrument, "after_pass", lambda self, name, program: counted.append(name))
    ir.compile(binary("FP32"), config=RunConfig(platform="cpu", strategy=ir.OptimizationStrategy.Debug))
    assert counted == CPU

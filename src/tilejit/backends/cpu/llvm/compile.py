"""LLVM text to machine code: a light pass list, then the code generator; vectors are explicit, so no vectoriser runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from tilejit.backends.cpu.llvm.host import Host, host
from tilejit.errors import InternalError
from tilejit.frontend.handlers import raised_by_handler
from tilejit.lazy import lazy
from tilejit.runtime.locks import hold_across_forks


@dataclass(frozen=True)
class Compiled:
    """A module in machine code; its readable forms are made when asked for."""

    object_bytes: bytes
    """A relocatable object file (position independent, small code model)."""
    module: llvm.ModuleRef = field(repr=False)
    machine: llvm.TargetMachine = field(repr=False)

    @lazy
    def optimised(self) -> str:
        """LLVM text after the passes."""
        return str(self.module)

    @lazy
    def assembly(self) -> str:
        """The machine code as assembly text."""
        return self.machine.emit_assembly(self.module)


_LLVM: Any = llvm.ffi.lib._lock
"""llvmlite's own lock: one thread at a time is in LLVM."""

# A child of a fork has none of the other threads: what one of them held would never be free again, and LLVM would be in the middle of something.
hold_across_forks(_LLVM)


def target_machine() -> llvm.TargetMachine:
    """The code generator for the host, shared by all compilations."""
    return _machine_for(host())


@cache
def _machine_for(here: Host) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_triple(here.triple).create_target_machine(cpu=here.cpu, features=here.features, opt=2, reloc="pic", codemodel="small")


def _run_passes(machine: llvm.TargetMachine, module: llvm.ModuleRef, large: bool) -> None:
    """Inlining, scalar replacement and peephole optimisation: what explicit vector code still gains from; redundant arithmetic is the code generator's.

    A part of a large program goes without the last, which is worth 0 to 4 % of speed. LLVM's NewGVN is not here: it aborts the process for some loops with
    tests in them, and made nothing faster.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    if not large:
        passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    if not large:
        passes.add_loop_rotate_pass()
        passes.add_instruction_combine_pass()
    passes.add_dead_code_elimination_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


def compile_llvm(text: str, *, optimise: bool = True, large: bool = False) -> Compiled:
    """Machine code of a module given as LLVM text, or of a part of a large one.

    Text that LLVM rejects is our bug: InternalError with the offending line.
    """
    machine = target_machine()
    try:
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        if raised_by_handler(error):
            raise
        raise InternalError(_explain(text, str(error))) from error
    if optimise:
        _run_passes(machine, module, large)
    return Compiled(machine.emit_object(module), module, machine)


def _explain(text: str, message: str) -> str:
    found = re.search(r"<string>:(\d+):(\d+): error: (.*)", message)
    if found is None:
        return f"LLVM rejects the generated code: {message.strip()}"
    number, column, reason = int(found[1]), int(found[2]), found[3]
    line = text.splitlines()[number - 1]
    return f"LLVM rejects the generated code, line {number}: {reason}\n    {line}\n    {' ' * (column - 1)}^"

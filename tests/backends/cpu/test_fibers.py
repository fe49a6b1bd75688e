"""How fibers change stacks, where they can."""

from __future__ import annotations

import pytest

from tilejit.backends.cpu.llvm.host import Host
from tilejit.backends.cpu.llvm.text import Module
from tilejit.backends.cpu.teams.fibers_text import Machine, define, machine_of
from tilejit.errors import UnsupportedFeatureError

TRIPLES = {"x86_64-unknown-linux-gnu": Machine.X86, "arm64-apple-darwin23": Machine.ARM, "aarch64-unknown-linux-gnu": Machine.ARM}


@pytest.mark.parametrize("triple", TRIPLES)
def test_a_processor_has_its_own_way(triple: str) -> None:
    machine = machine_of(Host(triple, "", ""))
    assert machine is TRIPLES[triple]
    module = Module()
    define(module, machine, 1 << 20)
    text = module.text()
    assert "$" not in text and " get " not in text and "put " not in text


@pytest.mark.parametrize("triple", ["riscv64-unknown-linux-gnu", "x86_64-pc-windows-msvc"])
def test_elsewhere_kernels_that_wait_for_each_other_are_refused(triple: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="do not run on") as caught:
        machine_of(Host(triple, "", ""))
    assert caught.value.hint == "run them with platform='reference'"

"""Fixtures of the CPU backend's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends.cpu import native
from tilejit.backends.cpu import schedule
from tilejit.backends.cpu.lanes import registers, vmath_blocks
from tilejit.backends.cpu.llvm import compile as compiling
from tilejit.backends.cpu.llvm.host import Host, host
from tilejit.backends.cpu.products import kernels as gemm_kernels

OLDER = {
    "avx2": "-avx512f,-avx512vl,-avx512dq,-avx512bw,-avx512cd,+avx2,+avx,+fma,+f16c,+sse4.2,+sse4.1",
    "sse": "-avx512f,-avx512vl,-avx512dq,-avx512bw,-avx512cd,-avx2,-avx,-fma,-f16c,+sse4.2,+sse4.1",
}


@pytest.fixture(params=OLDER)
def older_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """Code is generated as for an older x86 processor."""
    if not host().is_x86:
        pytest.skip("an x86 processor's ancestors")
    old = Host(host().triple, "x86-64", OLDER[request.param])
    for module in (native, compiling, gemm_kernels, schedule, registers, vmath_blocks):
        monkeypatch.setattr(module, "host", lambda: old)
    compiling.target_machine.cache_clear()
    yield old
    compiling.target_machine.cache_clear()

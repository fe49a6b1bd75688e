"""Fixtures of the CPU backend's tests."""

from __future__ import annotations

import pytest

from tilejit.backends.cpu.llvm.host import Host, host


@pytest.fixture(params=["avx2", "sse"])
def older_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Code is generated as for an older x86 processor."""
    if not host().is_x86:
        pytest.skip("instruction sets of x86")
    monkeypatch.setenv("TILEJIT_CPU", request.param)
    return host()

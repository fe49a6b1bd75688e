"""The short form of the soak: sixteen threads, each kernel on each of them."""

from __future__ import annotations

from tests.soak.kernels import CALLS
from tests.soak.run import SLACK, Soak


def test_sixteen_threads_call_different_kernels_at_once() -> None:
    soak = Soak(threads=16, seconds=2)
    soak.run()
    assert not soak.problems, "\n".join(soak.problems)
    assert min(soak.calls) >= len(CALLS), soak.report()
    assert soak.growth < SLACK, soak.report()

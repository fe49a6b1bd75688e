"""A fake GPU for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.runtime.cuda.fake import FakeLibrary, install


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """The driver is a fake one."""
    return install(monkeypatch, FakeLibrary())

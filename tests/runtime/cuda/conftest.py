"""A fake GPU for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.runtime.cuda.fake import FakeLibrary
from tilejit.runtime.cuda import devices
from tilejit.runtime.cuda import driver as api


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """The driver is a fake one, and forgotten afterwards."""
    library = FakeLibrary()
    started = api.started(library)
    monkeypatch.setattr(api, "driver", lambda: started)
    monkeypatch.setattr(devices, "_devices", {})
    return library

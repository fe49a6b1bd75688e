"""A kernel in a file: read again when it changed, whatever the change, and not read while it stays."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from tilejit import pto
from tilejit.errors import SourceNotFoundError
from tilejit.jit.pto import text

TWO = (Path(__file__).parents[2] / "pto" / "kernels" / "scale2.pto").read_text()
THREE = TWO.replace("2.000000e+00", "3.000000e+00")
GM = pto.ptr(pto.f32, "gm")


@pytest.fixture
def kernel(tmp_path: Path) -> tuple[Path, pto.SourceKernel]:
    """A kernel in a file of its own."""
    path = tmp_path / "k.pto"
    path.write_text(TWO)

    @pto.jit(source=str(path))
    def scale2(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

    return path, scale2


def factor(kernel: pto.SourceKernel) -> float:
    x, y = np.ones((2, 16, 16), np.float32)
    kernel[1, None](x, y)
    return float(y[0, 0])


def test_a_file_that_stays_is_not_read_again(kernel: tuple[Path, pto.SourceKernel], monkeypatch: pytest.MonkeyPatch) -> None:
    _, scale = kernel
    launch = scale[1, None]
    monkeypatch.setattr(text, "decoded", lambda *args: pytest.fail("read again"))
    assert scale[1, None] is launch


def test_every_way_of_changing_it_is_seen(kernel: tuple[Path, pto.SourceKernel], tmp_path: Path) -> None:
    path, scale = kernel
    assert factor(scale) == 2
    times = path.stat()
    path.write_text(THREE)  # as long as before …
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # … and with the old time
    assert factor(scale) == 3
    other = tmp_path / "other.pto"
    other.write_text(TWO)
    os.replace(other, path)
    assert factor(scale) == 2
    path.rename(tmp_path / "two.pto")
    (tmp_path / "three.pto").write_text(THREE)
    path.symlink_to("two.pto")
    assert factor(scale) == 2
    path.unlink()
    path.symlink_to("three.pto")
    assert factor(scale) == 3
    path.unlink()
    with pytest.raises(SourceNotFoundError):
        scale[1, None]


def test_a_writer_who_has_it_mapped_is_seen(kernel: tuple[Path, pto.SourceKernel]) -> None:
    """After his first write no time of the file changes."""
    path, scale = kernel
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        at = mapped.find(b"2.000000e+00")
        for digit in b"2345":
            mapped[at] = digit
            assert [factor(scale), factor(scale)] == [digit - ord("0")] * 2


def test_a_launcher_that_is_kept_follows_the_settings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @pto.jit(source=TWO)
    def scale2(src: GM, dst: GM) -> None: ...  # type: ignore[valid-type]

    x, y = np.ones((2, 16, 16), np.float32)
    launch = scale2[1, None]
    for _ in range(3):
        launch(x, y)
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    monkeypatch.setenv("TILEJIT_LOG", "recompile")
    launch(x, y)
    assert "compiled" not in capsys.readouterr().err
    monkeypatch.setenv("TILEJIT_CHECK_BOUNDS", "0")
    y[:] = 0
    for _ in range(2):
        launch(x, y)
    assert capsys.readouterr().err.count("compiled") == 1
    assert (y == 2).all()

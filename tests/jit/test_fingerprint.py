"""What of the tool chain is in the key: an edit of the package always, the place and time of its installation never."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest

from tilejit.jit.disk.fingerprint import sources_digest

FILES = {"__init__.py": "VERSION = 1\n", "jit/code.py": "def emit():\n    return 4\n"}


def install(site: Path, files: dict[str, str] = FILES, time: float = 1_700_000_000) -> str:
    """A package as an installer leaves it: the files, then the record of them."""
    rows: list[str] = []
    for name, text in files.items():
        path = site / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (time, time))
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        rows.append(f"pack/{name},sha256={digest},{len(text)}")
    record = site / "pack-1.0.dist-info" / "RECORD"
    record.parent.mkdir(exist_ok=True)
    record.write_text("\n".join([*rows, "pack/__pycache__/x.pyc,,", "pack-1.0.dist-info/RECORD,,"]) + "\n")
    os.utime(record, (time + 1, time + 1))
    return str(site / "pack")


def test_the_same_version_installed_elsewhere_and_later_is_the_same_tool_chain(tmp_path: Path) -> None:
    assert sources_digest(install(tmp_path / "a")) == sources_digest(install(tmp_path / "b", time=1_750_000_000))


def test_another_version_is_another_tool_chain(tmp_path: Path) -> None:
    other = {**FILES, "jit/code.py": "def emit():\n    return 5\n"}
    assert sources_digest(install(tmp_path / "a")) != sources_digest(install(tmp_path / "b", other))


@pytest.mark.parametrize("keep_time", [True, False])
@pytest.mark.parametrize("edit", ["same size", "other size", "new file", "removed file"])
def test_an_edit_of_the_installed_files_is_another_tool_chain(tmp_path: Path, edit: str, keep_time: bool) -> None:
    root = install(tmp_path)
    before = sources_digest(root)
    path = Path(root, "jit", "new.py" if edit == "new file" else "code.py")
    if edit == "removed file":
        path.unlink()
    else:
        path.write_text({"same size": "def emit():\n    return 7\n", "other size": "def emit(): return 55\n", "new file": "X = 1\n"}[edit])
        if keep_time and edit != "same size":  # an edit that keeps both size and time is nobody's edit
            os.utime(path, (1_700_000_000, 1_700_000_000))
    assert sources_digest(root) != before


def test_a_source_checkout_is_known_by_the_times_of_its_files(tmp_path: Path) -> None:
    root = tmp_path / "src" / "pack"
    root.mkdir(parents=True)
    (root / "a.py").write_text("A = 1\n")
    before = sources_digest(str(root))
    os.utime(root / "a.py", (1, 1))
    assert sources_digest(str(root)) != before

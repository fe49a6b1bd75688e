"""Where a relative path starts: beside the Python file that declares the kernel, never beside somebody else's."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.jit.pto.test_files import GM, THREE, TWO, factor
from tilejit import pto

MODULE = """
import os
import numpy as np
from tilejit import pto
GM = pto.ptr(pto.f32, "gm")

@pto.jit(source="k.pto")
def scale2(src: GM, dst: GM): ...

def show():
    x, y = np.ones((2, 16, 16), np.float32)
    try:
        scale2[1, None](x, y)
        print(int(y[0, 0]))
    except FileNotFoundError as error:
        print(type(error).__name__, error)
"""


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Two folders: `own` has a module and the text of its kernel, which doubles, `other` a text of the same name, which trebles."""
    for name, text in (("own", TWO), ("other", THREE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.pto").write_text(text)
    (tmp_path / "own" / "declares.py").write_text(MODULE)
    return tmp_path


def said(code: str, folder: Path, *path: Path) -> list[str]:
    """What a program prints that runs in a folder and imports from others."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, *filter(None, sys.path)]))}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_module_without_its_python_text_has_it_beside_the_bytecode(folders: Path) -> None:
    bare = folders / "bare"
    shutil.copytree(folders / "own", bare)
    compileall.compile_dir(str(bare), quiet=1, legacy=True)
    (bare / "declares.py").unlink()
    assert said("import declares; declares.show()", folders / "other", bare) == ["2"]
    shutil.copytree(bare, folders / "elsewhere")  # the code names the folder where it was compiled
    (bare / "k.pto").write_text(THREE)
    assert said("import declares; declares.show()", folders / "other", folders / "elsewhere") == ["2"]


@pytest.mark.parametrize("archive", ["/k.zip", "k.zip"], ids=["by its full path", "by a relative path"])
def test_a_module_in_an_archive_has_it_there(folders: Path, archive: str) -> None:
    def pack(text: str, *more: str) -> None:
        with zipfile.ZipFile(folders / "other" / "k.zip", "w") as packed:
            for name in more:
                packed.writestr(name, name)
            packed.write(folders / "own" / "declares.py", "declares.py")
            packed.writestr("k.pto", text)

    pack(TWO)
    path = str(folders / "other") + archive if archive.startswith("/") else archive
    script = f"import sys; sys.path.insert(0, {path!r}); import declares, os; declares.show(); input(); declares.show(); os.chdir(os.pardir); declares.show()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe, command = subprocess.PIPE, [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=folders / "other", env=environment, stdin=pipe, stdout=pipe, text=True) as run:
        assert run.stdin is not None and run.stdout is not None
        assert run.stdout.readline() == "2\n"
        pack(TWO.replace("2.0", "5.0"), "another member, so that all lie elsewhere")
        rest, _ = run.communicate("\n")
    after_replacement, after_chdir, *_ = rest.splitlines()
    assert after_replacement == "5"
    assert after_chdir == "5" if archive.startswith("/") else after_chdir.startswith("SourceNotFoundError")


def test_what_an_archive_lacks_is_not_taken_from_the_working_directory(folders: Path) -> None:
    with zipfile.ZipFile(folders / "k.zip", "w") as packed:
        packed.write(folders / "own" / "declares.py", "declares.py")
    (shown, *_) = said("import declares; declares.show()", folders / "other", folders / "k.zip")
    assert shown.startswith("SourceNotFoundError the source 'k.pto' of scale2")


@pytest.mark.parametrize("profiled", [False, True], ids=["runpy", "cProfile"])
def test_a_script_run_by_a_relative_name_keeps_its_folder(folders: Path, profiled: bool) -> None:
    (folders / "own" / "declares.py").write_text(MODULE + "\nshow(); os.chdir('../other'); show()\n")
    run = "import cProfile, sys; sys.argv = ['cProfile', 'declares.py']; cProfile.main()" if profiled else "import runpy; runpy.run_path('declares.py')"
    assert said(run, folders / "own")[:2] == ["2", "2"]


def test_a_script_whose_folder_nobody_knows_any_more_is_an_error(folders: Path) -> None:
    (folders / "own" / "declares.py").write_text("import os; os.chdir('../other')\n" + MODULE + "\nshow()\n")
    (shown, *_) = said("import runpy; runpy.run_path('declares.py')", folders / "own")
    assert shown.startswith("SourceNotFoundError the source 'k.pto' of scale2 lies beside 'declares.py', which was not there")


def test_a_folder_that_was_renamed_is_not_replaced_by_another(folders: Path) -> None:
    run = "import declares, os; declares.show(); os.rename('../own', '../gone'); declares.show()"
    first, second, *_ = said(run, folders / "other", folders / "own")
    assert first == "2" and second.startswith("SourceNotFoundError") and "file does not exist" in second


@pytest.mark.parametrize("filename", ["<string>", "/tmp/ipykernel_1/2.py"], ids=["exec", "a cell"])
def test_what_came_from_no_file_asks_the_working_directory_at_every_launch(filename: str, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {"GM": GM, "pto": pto}
    exec(compile("@pto.jit(source='k.pto')\ndef scale2(src: GM, dst: GM): ...\n", filename, "exec"), names)
    scale = names["scale2"]
    assert isinstance(scale, pto.SourceKernel)
    for folder, wanted in (("own", 2), ("other", 3)):
        monkeypatch.chdir(folders / folder)
        assert factor(scale) == wanted

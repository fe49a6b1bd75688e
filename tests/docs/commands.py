"""The shell commands of the pages, run as a reader runs them: the files of a page are saved, its commands and Python follow in order.

`python -m tests.docs.commands WHEEL` (`make install-test`) does it twice, with the network: in a fresh clone, with the commands that set up an environment
(`make demo`, `pip install -e .`), and from an installed wheel in an empty environment and folder, where also the demo runs and mypy reads a file of a user.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tour.md")
INSTALLS = ("make ", "pip ")
"""Commands that set up an environment; the environment here is one already."""
FENCE = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(sh|python)\n(.*?)\n```", re.DOTALL)


def steps_of(page: Path, installs: bool = False) -> Iterator[tuple[str, str]]:
    """What to do on a page, in order: ("sh", command), ("python", all of it so far), or a file's name and its text; `installs`: all of it."""
    code = ""
    for name, language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            code += f"\n{text}\n"
            if name:
                yield name, text + "\n"
        else:
            for line in text.splitlines():
                command = line.partition(" #")[0].strip()
                if command and (installs or not command.startswith(INSTALLS)):
                    yield "sh", command
    yield "python", code


def run_page(page: Path, folder: Path, environment: Mapping[str, str], python: bool = True, installs: bool = False) -> list[str]:
    """Do all that a page says in `folder`; the commands that ran."""
    ran: list[str] = []
    for kind, text in steps_of(page, installs):
        if kind not in ("sh", "python"):
            (folder / kind).write_text(text, encoding="utf-8")
        elif (kind == "sh" and text not in ran) or (kind == "python" and python):
            command = ["sh", "-c", text] if kind == "sh" else ["python", _saved(folder / f"{page.stem.lower()}_page.py", text)]
            done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{page.name}: {text}\n{done.stdout}{done.stderr}"
            ran.append(text)
    return ran


def _saved(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def check_contents(wheel: Path) -> None:
    """The wheel has everything that the package needs at run time, the examples for its demo, and nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    ours = {name for name in names if name.startswith("tilejit/")}
    places = (("tilejit", ROOT / "src" / "tilejit"), ("tilejit/examples", ROOT / "examples"))
    files = [(place, path.relative_to(root)) for place, root in places for path in root.rglob("*") if path.is_file()]
    sources = {f"{place}/{path.as_posix()}" for place, path in files if "__pycache__" not in path.parts}
    assert ours == sources, ours ^ sources
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"tilejit"}
    assert wheel.name.endswith("py3-none-any.whl")


def run_in_clone() -> None:
    """The pages in a fresh clone, as somebody does who has Python and git: the first command makes the environment that the others use."""
    with tempfile.TemporaryDirectory() as place:
        clone = Path(place) / "tilejit"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        environment = {"PATH": f"{clone / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}", "TILEJIT_CACHE_DIR": str(Path(place) / "cache"), "PYTHONPATH": ""}
        for page in PAGES:
            print(f"{page.name}, in a clone", *run_page(clone / page.relative_to(ROOT), clone, environment, installs=True)[:-1], sep="\n  ", flush=True)


def main(wheel: Path) -> None:
    check_contents(wheel)
    run_in_clone()
    with tempfile.TemporaryDirectory() as place:
        home, folder = Path(place) / "venv", Path(place) / "work"
        folder.mkdir()
        venv.create(home, with_pip=True)
        environment = {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "TILEJIT_CACHE_DIR": str(Path(place) / "cache"), "PYTHONPATH": ""}
        subprocess.run([home / "bin" / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
        for page in PAGES:
            print(page.name, *run_page(page, folder, environment)[:-1], sep="\n  ", flush=True)
        subprocess.run(["tilejit", "demo"], cwd=folder, env={**os.environ, **environment}, check=True)
        subprocess.run([home / "bin" / "python", "-m", "pip", "install", "--quiet", "mypy"], check=True)
        subprocess.run([home / "bin" / "mypy", *(str(ROOT / "tests" / "typing" / name) for name in ("user_file.py", "readme_page.py"))], cwd=folder, check=True)
    print("the pages work in a clone, and from the wheel in an empty environment")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

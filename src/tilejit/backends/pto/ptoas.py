"""The vendor's assembler on emitted texts, where it is installed: what it says about a line of PTO is said about the Python it came from."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from tilejit import config as settings
from tilejit.backends.pto.write.kernel import KernelText
from tilejit.errors import ParserError, PlatformError, PtoVerifyError, Span, UnsupportedFeatureError

_MESSAGE = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|warning): (?P<text>.*)$", re.MULTILINE)
_SECONDS = 120


def find() -> str | None:
    """The program to run: the setting, else the one on PATH, else none."""
    wanted = settings.PTOAS.value
    if wanted == "off":
        return None
    if wanted and shutil.which(wanted) is None:
        raise PlatformError(f"{settings.PTOAS.variable} names {wanted}, which is no program", help="set it to the path of ptoas, to `off`, or not at all")
    return shutil.which(wanted or "ptoas")


def check(kernels: Mapping[str, KernelText], arch: str) -> None:
    """Run ptoas on every text. An error is raised at the Python line, a warning warns with it; without ptoas nothing happens."""
    program = find()
    if program is None:
        return
    with tempfile.TemporaryDirectory(prefix="tilejit-ptoas-") as folder:
        for name, kernel in kernels.items():
            path = Path(folder, f"{name}.pto")
            path.write_text(kernel.text, encoding="utf-8")
            flags = [f"--pto-arch={'a5' if arch == 'a5' else 'a3'}", *shlex.split(os.environ.get("PTOAS_FLAGS", ""))]
            _report(kernel, *_run([program, str(path), "-o", str(path.with_suffix(".cpp")), *flags], name))


def _run(command: list[str], name: str) -> tuple[int, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise PlatformError(f"{command[0]} did not finish {name}.pto within {_SECONDS} s", help=f"{settings.PTOAS.variable}=off leaves it out") from None
    except OSError as error:
        raise PlatformError(f"{command[0]} cannot be run: {error.strerror or error}", help=f"{settings.PTOAS.variable}=off leaves it out") from None
    return done.returncode, done.stderr + done.stdout


def _report(kernel: KernelText, status: int, output: str) -> None:
    """Errors first; a failure without a message that names a line shows the last thing that was said."""
    found = list(_MESSAGE.finditer(output))
    for message in found:
        span, place = _origin(kernel, int(message["line"])), f"{kernel.name}.pto:{message['line']}:{message['column']}"
        if message["kind"] == "error":
            raise PtoVerifyError(f"ptoas: {message['text']}", span=span, note=f"at {place}: {_line(kernel, int(message['line']))}")
        where = f" (from {span})" if span is not None else ""
        warnings.warn(f"ptoas: {place}{where}: {message['text']}", UserWarning, stacklevel=2)
    if status != 0:
        said = output.strip().splitlines()[-1:] or [f"exit status {status}"]
        raise PtoVerifyError(f"ptoas refuses {kernel.name}.pto: {said[0]}", span=kernel.lines[0] if kernel.lines else None)


def in_python(kernel: KernelText, error: ParserError) -> UnsupportedFeatureError:
    """What our own reader says about a line of an emitted text, as an error of the Python it came from."""
    line = error.span.line if error.span is not None else 1
    note = f"at {kernel.name}.pto:{line}: {_line(kernel, line)[:200]}"
    help = "keep this kernel on the platform cpu"
    return UnsupportedFeatureError(f"a rule of PTO forbids what this becomes: {error.message}", span=_origin(kernel, line), note=note, help=help)


def _origin(kernel: KernelText, line: int) -> Span | None:
    """The Python that a line was written for; lines of the frame belong to the kernel."""
    at = min(max(line, 1), len(kernel.lines)) - 1
    return kernel.lines[at] or next((span for span in reversed(kernel.lines[:at]) if span is not None), None)


def _line(kernel: KernelText, line: int) -> str:
    lines = kernel.text.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""

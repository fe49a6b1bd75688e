"""Triton source → cubin: Triton's own stages, run here one after the other, without its launcher and its cache directory."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from tilejit.backends.cuda.plan import Kernel
from tilejit.backends.cuda.text.library import DESCRIPTORS, EIGHTS, PARTS, SPECIALISED
from tilejit.errors import PartialCodegenError, PlatformError
from tilejit.frontend.handlers import raised_by_handler
from tilejit.runtime.cuda.program import DIVISIBLE, LaunchFacts
from tilejit.runtime.locks import new_lock

OLDEST_TRITON, NEXT_TRITON = (3, 6), (4, 0)
"""The versions whose stages are known to us."""
OLDEST_ARCH = 80
"""Compute capability 8.0: asynchronous copies, bfloat16."""
_COPY_ENGINE = 90
"""Compute capability 9.0: copies of whole tiles by descriptors."""
_SPECIALISES = {90: ((3, 6),)}
"""Architectures, and the versions of Triton whose specialised loops were seen to be right there."""
_UNASKED = (8, 3)
"""Warps and stages of loops that may be specialised, unless somebody asked for others."""
_MOST_PARTS = 8
_NARROW_PRODUCTS = 89
"""Compute capability 8.9: tensor cores for floats of 8 bits."""
_INSTALL = "pip install 'tilejit[cuda]'"
STAGES = ("ttir", "ttgir", "llir", "ptx", "sass")
"""Forms of a kernel after its text, in order."""
_ALLOCATED = ("scratch", "error", "barrier", "log")
"""Parameters that point to memory of the run time, which is always aligned."""
_DEFAULTS = {"enable_fp_fusion": False, "enable_reflect_ftz": False}
"""A multiply-add rounds twice unless the kernel says otherwise; libdevice keeps tiny numbers."""


@dataclass(frozen=True)
class Cubin:
    """The machine code of one variant of a kernel for one architecture."""

    kernel: Kernel = field(repr=False)
    arch: int
    aligned: bool
    """Whether it takes only arguments that are divisible where the kernel says so."""
    code: bytes = field(repr=False)
    facts: LaunchFacts
    ptx: str = field(repr=False)

    def stage(self, name: str) -> str:
        """The text of an intermediate form; those that Triton changes in place are made again."""
        if name == "ptx":
            return self.ptx
        if name == "sass":
            return disassembled(self.code)
        return str(_run(self.kernel, self.arch, self.aligned, name)[0])


def compile_all(kernels: Sequence[Kernel], arch: int) -> list[list[Cubin]]:
    """For each kernel its cubins for compute capability `arch` (90 is 9.0), the general one first, then the aligned one where that is another.

    Several are compiled at a time: Triton lets go of the GIL while it works."""
    check_arch(arch)
    check_triton()
    wanted = [(kernel, aligned) for kernel in kernels for aligned in variants(kernel)]
    if len(wanted) < 2:
        made = [compile_kernel(kernel, arch, aligned) for kernel, aligned in wanted]
    else:
        with ThreadPoolExecutor(min(len(wanted), os.cpu_count() or 1), "tilejit-triton") as pool:
            made = list(pool.map(lambda row: compile_kernel(row[0], arch, row[1]), wanted))
    found = iter(made)
    return [[next(found) for _ in variants(kernel)] for kernel in kernels]


def variants(kernel: Kernel) -> tuple[bool, ...]:
    """Whether each variant of a kernel is the aligned one."""
    return (False, True) if any(parameter.divisible for parameter in kernel.parameters) else (False,)


def compile_kernel(kernel: Kernel, arch: int, aligned: bool) -> Cubin:
    """One variant of a kernel; what Triton does not take is a PartialCodegenError that names the file with the kernel's text."""
    if arch < kernel.least_capability:
        raise _too_old(f"kernel {kernel.name} needs", kernel.least_capability, arch)
    if aligned and arch in _SPECIALISES and (found := _specialised(kernel, arch)) is not None:
        return found
    log, smaller = _Log(), _smaller(kernel)
    most = shared_memory(arch) if smaller is not None else sys.maxsize
    try:
        with log:
            code, notes, ptx = _run(kernel, arch, aligned, "cubin", most)
    except Exception as error:  # Triton raises whatever its passes, its front end and ptxas raise
        if raised_by_handler(error):
            raise
        raise _failure(kernel, arch, error, log.text) from error
    if smaller is not None and notes["shared"] > most:
        return compile_kernel(smaller, arch, aligned)
    return Cubin(kernel, arch, aligned, code, _facts(notes), ptx)


def _smaller(kernel: Kernel) -> Kernel | None:
    """The kernel to try next where one needs more shared memory than there is: with fewer stages, then with products in more parts."""
    if kernel.num_stages > 1:
        return replace(kernel, num_stages=kernel.num_stages - 1)
    return replace(kernel, parts=2 * kernel.parts) if f"{PARTS} = " in kernel.text and kernel.parts < _MOST_PARTS else None


def _specialised(kernel: Kernel, arch: int) -> Cubin | None:
    """The variant whose warps have different work; None where Triton does not make one, for whatever reason: there is the other."""
    asked = (kernel.num_warps, kernel.num_stages) != _UNASKED
    if f"{SPECIALISED} = " not in kernel.text or asked or _numbers(check_triton()) not in _SPECIALISES[arch]:
        return None
    own = replace(kernel, num_warps=4, num_stages=2, specialised=True)
    try:
        with _Log():
            code, notes, ptx = _run(own, arch, True, "cubin")
    except Exception as error:  # Triton raises whatever its passes raise
        if raised_by_handler(error):
            raise
        return None
    facts = _facts(notes)
    return Cubin(own, arch, True, code, facts, ptx) if facts.warps > own.num_warps and facts.shared <= shared_memory(arch) else None


def shared_memory(arch: int) -> int:
    """Bytes that a program may have at most."""
    small = (86, 87, 89)
    return 101_376 if arch in small or arch >= 120 else 166_912 if arch < 90 else 232_448


def check_arch(arch: int) -> None:
    """Refuse a compute capability that is too old."""
    if arch < OLDEST_ARCH:
        raise _too_old("kernels need", OLDEST_ARCH, arch)


def _too_old(who: str, needed: int, arch: int) -> PlatformError:
    what = f"{who} compute capability {needed // 10}.{needed % 10} or newer, got {arch // 10}.{arch % 10}"
    return PlatformError(what, help="use a newer GPU, or platform='cpu'")


@cache
def check_triton() -> str:
    """Triton's version, if it is here and one whose stages are known."""
    try:
        version = str(import_module("triton").__version__)
    except ImportError as error:
        reason = "Triton is not installed" if isinstance(error, ModuleNotFoundError) and error.name == "triton" else f"Triton cannot be imported: {error}"
        raise PlatformError(f"{reason}: without it nothing can be compiled for CUDA", help=_INSTALL) from None
    if not OLDEST_TRITON <= _numbers(version) < NEXT_TRITON:
        oldest, after = (".".join(map(str, numbers)) for numbers in (OLDEST_TRITON, NEXT_TRITON))
        raise PlatformError(f"compiling for CUDA needs Triton {oldest} or newer and older than {after}, found {version}", help=_INSTALL)
    return version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


@cache
def versions() -> dict[str, str]:
    """The tools whose output a cubin is."""
    version = check_triton()
    return {"triton": version, "ptxas": _ptxas_version()}


def _ptxas_version() -> str:
    knobs: Any = import_module("triton.knobs")
    return str(knobs.nvidia.ptxas.version)


# ----------------------------------------------------------------------------------------------------------------------
# the stages


def _run(kernel: Kernel, arch: int, aligned: bool, last: str, most_shared: int = sys.maxsize) -> tuple[Any, dict[str, Any], str]:
    """What the stage `last` makes of the kernel, what the stages noted about it, and its PTX once there is one.

    One that turns out to need more shared memory than `most_shared` goes through no further stage: ptxas takes most of the time."""
    triton: Any = import_module("triton.compiler")
    backends: Any = import_module("triton.backends.compiler")
    ir: Any = import_module("triton._C.libtriton").ir
    target = backends.GPUTarget("cuda", arch, 32)
    backend: Any = triton.make_backend(target)
    given: dict[str, Any] = {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages, "launch_cooperative_grid": kernel.gang > 1}
    knobs: Any = import_module("triton.knobs")
    given["ptx_options"] = getattr(knobs.nvidia, "ptxas_options", None) or ""  # as the key has it; the default is what there was when Triton was loaded
    options = backend.parse_options({**_DEFAULTS, **given, **kernel.options})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    divisible = [at for at, row in enumerate(kernel.parameters) if row.kind in _ALLOCATED or (aligned and row.divisible)]
    attributes = {(at,): [["tt.divisibility", DIVISIBLE]] for at in divisible}
    flags = {DESCRIPTORS: aligned and arch >= _COPY_ENGINE, EIGHTS: arch >= _NARROW_PRODUCTS, SPECIALISED: kernel.specialised, PARTS: kernel.parts}
    with _READING:
        source = triton.ASTSource(_function(kernel, flags), kernel.signature, {}, attributes)
        module: Any = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, backends.Language.TRITON)
    notes: dict[str, Any] = {"target": target, **options.__dict__}
    ptx = ""
    for name, stage in stages.items():
        module = stage(module, notes)
        if name == "ptx":
            ptx = str(module)
        if name == last or notes.get("shared", 0) > most_shared:
            break
    return module, notes, ptx


def _function(kernel: Kernel, flags: Mapping[str, int]) -> Any:
    """The kernel as a Triton function, with the flags of its text set. Its text is put into linecache, where Triton reads it, under the name in line tables."""
    file = f"<tilejit {kernel.name}>"
    namespace: dict[str, Any] = {"__name__": f"tilejit_kernels.{kernel.name}"}
    linecache.cache[file] = (len(kernel.text), None, kernel.text.splitlines(True), file)
    # The text was written by our own emitter; what it has of the user's kernel are identifiers and numbers.
    exec(compile(kernel.text, file, "exec"), namespace)
    for flag, value in flags.items():
        if flag in namespace:
            namespace[flag] = import_module("triton.language").constexpr(value)
    return namespace[kernel.name]


_READING = new_lock()
"""Held while Triton reads a kernel's text: CPython 3.11 and 3.12 mistake one tree for another (types/python_text.py). Later stages run side by side."""


def _facts(notes: Mapping[str, Any]) -> LaunchFacts:
    return LaunchFacts(
        symbol=str(notes["name"]),
        warps=int(notes["num_warps"]),
        shared=int(notes["shared"]),
        clusters=int(notes.get("num_ctas", 1)),
        scratch=int(notes.get("global_scratch_size", 0)),
        scratch_align=int(notes.get("global_scratch_align", 1)),
        cooperative=bool(notes.get("launch_cooperative_grid", False)),
    )


def disassembled(code: bytes) -> str:
    """SASS, by the disassembler that comes with Triton."""
    knobs: Any = import_module("triton.knobs")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([knobs.nvidia.nvdisasm.path, "-c", file.name], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"nvdisasm failed: {done.stderr}"


# ----------------------------------------------------------------------------------------------------------------------
# failures


def _failure(kernel: Kernel, arch: int, error: Exception, printed: str) -> PartialCodegenError:
    """Triton's failure as an error of ours, with everything needed to look into it in a file."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    saved = _saved(kernel, arch, "".join(traceback.format_exception(error)), printed)
    return PartialCodegenError(f"Triton {check_triton()} cannot compile kernel {kernel.name} for sm_{arch}: {reason}", files=[saved] if saved else [])


def _saved(kernel: Kernel, arch: int, trace: str, printed: str) -> str | None:
    """The file that holds the kernel's text and Triton's words about it; None where nothing can be written."""
    facts = {"arch": arch, "parameters": kernel.parameters, "num_warps": kernel.num_warps, "num_stages": kernel.num_stages, "options": dict(kernel.options)}
    notes = [f"# {name}: {value!r}" for name, value in facts.items()]
    said = [f"# {line}" for line in f"{trace}\n{printed}".splitlines()]
    try:
        handle, path = tempfile.mkstemp(prefix=f"tilejit-{kernel.name}-", suffix=".py")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join([*notes, "", kernel.text, "", *said, ""]))
    except OSError:
        return None
    return path


class _Log:
    """Keeps what Triton prints while it compiles (the whole IR, when a pass fails) out of the user's terminal.

    MLIR writes to file descriptor 2, which all threads share: the first compile turns it aside, the last one turns it back,
    and what was written meanwhile goes to the terminal after all unless one of them failed. What ptxas says comes by `print`.
    """

    _lock = new_lock()
    _running = 0
    _failed = False
    """Whether one of those that run together did."""
    _real = -1
    _aside: Any = None
    _local = threading.local()

    def __init__(self) -> None:
        self.text = ""

    def __enter__(self) -> None:
        _divert_print()
        _Log._local.lines = []
        with _Log._lock:
            if _Log._running == 0:
                _Log._begin()
            _Log._running += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        said = "".join(_Log._local.lines)
        del _Log._local.lines
        with _Log._lock:
            _Log._running -= 1
            _Log._failed |= error is not None
            self.text = said + _Log._written()
            if _Log._running == 0:
                _Log._end(shown=not _Log._failed)
                _Log._failed = False

    @classmethod
    def _begin(cls) -> None:
        with contextlib.suppress(OSError, ValueError):  # no standard error: nothing to keep clean
            if sys.stderr is not None:
                sys.stderr.flush()
            cls._aside = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the last compile ends
            cls._real = os.dup(2)
            os.dup2(cls._aside.fileno(), 2)

    @classmethod
    def _written(cls) -> str:
        if cls._aside is None:
            return ""
        return os.pread(cls._aside.fileno(), 1 << 24, 0).decode("utf-8", "replace")

    @classmethod
    def _end(cls, shown: bool) -> None:
        if cls._real < 0:
            return
        said = cls._written() if shown else ""
        with contextlib.suppress(OSError):
            os.dup2(cls._real, 2)
            os.close(cls._real)
            if said:
                os.write(2, said.encode())
        cls._aside.close()
        cls._real, cls._aside = -1, None

    @classmethod
    def in_child(cls) -> None:
        """Of the threads that compiled when the process forked, the child has at most the one that forked."""
        cls._running = int(hasattr(cls._local, "lines"))
        if not cls._running:
            cls._end(shown=False)
            cls._failed = False

    @classmethod
    def print(cls, *values: object, **options: Any) -> None:
        """In place of Triton's `print`: kept while we compile in this thread."""
        lines = getattr(cls._local, "lines", None)
        if lines is None:
            print(*values, **options)
        else:
            lines.append(" ".join(map(str, values)) + "\n")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Log.in_child)


@cache
def _divert_print() -> None:
    import_module("triton.backends.nvidia.compiler").__dict__.setdefault("print", _Log.print)

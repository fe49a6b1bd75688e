"""Every setting once: name, type, default, environment variable, whether it changes generated code, and what it means."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Generic, TypeVar, cast

from tilejit import float_mode
from tilejit.errors import OptionError

T = TypeVar("T")
PREFIX = "TILEJIT_"


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting; `value` reads the environment now, so that a change between two calls counts, but for what is compiled `under` others."""

    name: str
    parse: Callable[[str], T]
    default: T
    affects_code: bool
    doc: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.name.upper()

    @property
    def value(self) -> T:
        if (fixed := _told()) is not None and self.name in fixed:
            return cast("T", fixed[self.name])
        return self.read(raw_text(self.name))

    def read(self, text: str) -> T:
        """What a text stands for; empty: the default. One that the setting does not take is an error."""
        if text == "":
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise OptionError(f"{self.variable}={text!r}: {error}", help=f"{self.variable} is: {self.doc}") from None


@dataclass(slots=True)
class _Fixed:
    """Settings that are told instead of read, while a compile of one thread is under way."""

    values: Mapping[str, object]
    thread: int
    over: bool = False


_fixed: ContextVar[_Fixed | None] = ContextVar("settings of a compile", default=None)


def _told() -> Mapping[str, object] | None:
    """What this thread is told to read; a context that was copied in a compile (a task of asyncio, say) may outlive that, and reach other threads."""
    fixed = _fixed.get()
    return None if fixed is None or fixed.over or fixed.thread != get_ident() else fixed.values


@contextmanager
def under(values: Mapping[str, object]) -> Generator[None]:
    """What this thread does inside reads these values, whatever the environment says by now: code belongs to the key that it was asked for."""
    fixed = _Fixed(values, get_ident())
    before = _fixed.set(fixed)
    try:
        yield
    finally:
        fixed.over = True
        _fixed.reset(before)


@contextmanager
def taken() -> Generator[None]:
    """What this thread does inside reads the settings as they are when it begins, or as it was told already."""
    with under(values_in(snapshot()) if (fixed := _told()) is None else fixed):
        yield


def raw_text(name: str) -> str:
    """What the environment says about the setting `name` now; empty: nothing."""
    if not is_known():
        return os.environ.get(PREFIX + name.upper(), "")
    found = DATA.get(_ENCODED[name])
    return "" if found is None else os.fsdecode(found)


def is_known() -> bool:
    """Whether the environment is the object that it was at the start, behind whose wrapper one can look; tests put others in its place."""
    try:
        return os.environ is ENVIRON and ENVIRON._data is DATA
    except AttributeError:
        return False


class Watched:
    """Variables of the environment that somebody depends on."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._encoded = tuple(map(os.fsencode, self._names))

    def now(self) -> list[object]:
        """What the environment says about them: differs as soon as one was changed."""
        return list(map(DATA.get, self._encoded)) if is_known() else list(map(os.environ.get, self._names))


def snapshot() -> list[object]:
    """What the environment says about the settings that warm calls depend on, and how this thread computes: differs as soon as one was changed."""
    return [*_READ_BY_CALLS.now(), float_mode.bits()]


def values_in(seen: Sequence[object]) -> dict[str, object]:
    """The settings that change code or where it runs, as they were in a snapshot."""
    return {setting.name: setting.default if text is None else setting.read(os.fsdecode(cast("str | bytes", text))) for setting, text in zip(_READ, seen)}


def _flag(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("expected 1 or 0")


def _profiled(text: str) -> str:
    try:
        return "jitdump" if text == "jitdump" else "map" if _flag(text) else ""
    except ValueError:
        raise ValueError("expected 1, 0 or jitdump") from None


POLICIES = ("raise", "recompile", "ignore")
"""What to do about a captured value that changed."""


def _policy(text: str) -> str:
    if text not in POLICIES:
        raise ValueError("expected raise, recompile or ignore")
    return text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError("expected a positive integer")
    return int(text)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("expected a number from 0 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ValueError("expected a number of seconds")
    return found


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    unit = units.get(text[-1:].upper(), 1)
    try:
        return _count(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        raise ValueError("expected a number of bytes, such as 500M or 2G") from None


def architectures(text: str) -> str:
    """One or several GPU architectures, spelled one way: `90` and `sm_90` are `sm_90`."""
    names = [name.strip().removeprefix("sm_").rstrip("af") for name in text.split(",")]
    if not all(name.isascii() and name.isdigit() and len(name) in (2, 3) for name in names):
        raise ValueError("expected GPU architectures, such as sm_90 or sm_80,sm_90")
    return ",".join(f"sm_{name}" for name in dict.fromkeys(names))


def _one_of(*names: str) -> Callable[[str], str]:
    """A setting with a few values."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"expected {'one of ' if len(names) > 1 else ''}{', '.join(names)}")
        return text

    return parse


def _dial(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise ValueError("expected 0, 1, 2 or 3")
    return int(text)


LEVELS = ("sse", "avx2", "avx512", "dot")
"""Instruction sets of x86-64, each with those before it; `dot` multiplies words of BF16 and bytes, and only matrix units go beyond it."""


def schedules(text: str) -> str:
    """Choices to replace, spelled one way."""
    import json

    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(choices, dict) for choices in found.values()):
        raise ValueError('expected JSON of choices by nest, such as {"kernel/nest0": {"lanes": 16}}')
    return json.dumps(found, sort_keys=True)


PLATFORM = Setting("platform", str, "", True, "where kernels run when neither the call nor the tensors say it; empty: cpu")
EAGER = Setting("eager", _flag, False, False, "run kernels line by line in Python, for debuggers, unless a call says another platform")
SANITIZE = Setting("sanitize", _flag, False, False, "find uninitialised reads and races: run kernels in an interpreter, unless a call says another platform")
CHECK_BOUNDS = Setting("check_bounds", _flag, True, True, "check windows and indices against the extents of tensors")
FAST_MATH = Setting("fast_math", _flag, True, True, "permit reassociated sums, fused multiply-add and polynomial maths")
ARCH = Setting("arch", architectures, "", True, "GPU architectures to compile for, such as sm_90 or sm_80,sm_90; empty: that of the GPU that is used")
SCHEDULE = Setting("schedule", schedules, "", True, 'choices of the backend to replace, as JSON by nest, such as {"kernel/nest0": {"lanes": 16}}')
CPU = Setting("cpu", _one_of(*LEVELS), "", True, "the most that code for x86-64 may use: sse, avx2, avx512, dot (with BF16 and VNNI); empty: all that is there")
NUM_THREADS = Setting("num_threads", _number, 0, False, "threads a call may use; 0: torch's count if torch is loaded, else the CPUs of this process")
ARENA_BYTES = Setting("arena_bytes", _bytes, 16 << 30, False, "address space reserved per thread for scratch tensors; memory is used only when touched")
FASTPATH = Setting("fastpath", _flag, True, False, "let native code dispatch warm calls where the interpreter is known; off: the Python dispatcher")
CACHE_DIR = Setting("cache_dir", str, "", False, "directory of the disk cache; empty: $XDG_CACHE_HOME/tilejit or ~/.cache/tilejit")
CACHE_PATH = Setting("cache_path", str, "", False, "read-only cache directories searched after the own one, separated like PATH")
CACHE = Setting("cache", _flag, True, False, "use the disk cache")
CACHE_BYTES = Setting("cache_bytes", _bytes, 2 << 30, False, "size above which the least recently used entries of the disk cache go")
RUN_ONLY = Setting("run_only", _flag, False, False, "refuse to compile: run only what the caches hold")
ON_DRIFT = Setting("on_drift", _policy, "raise", False, "when a captured value changed since the first call: raise, recompile or ignore")
DEBUG = Setting("debug", _dial, 0, False, "how much to tell on stderr: 1 a line per compile, 2 also stages, loads and whole tracebacks, 3 also verify the IR")
LOG = Setting("log", _one_of("recompile"), "", False, "what to report on stderr: `recompile` prints one line per compile")
WAIT_TIMEOUT = Setting("wait_timeout", _seconds, 60.0, False, "seconds a rank waits for another one while nothing changes; 0: for ever")
ENGINE = Setting("engine", str, "", False, "how ranks run: local, shm or mpi; empty: as the process was started")
RANKS_PER_NODE = Setting(
    "ranks_per_node", _number, 0, False, "under MPI: so many ranks count as a machine of their own, to try out the way between machines on one; 0: as it is"
)
RANK = Setting("rank", _number, -1, False, "set by `tilejit launch`: the rank of this process")
WORLD = Setting("world", _number, 0, False, "set by `tilejit launch`: how many processes there are")
JOB = Setting("job", str, "", False, "set by `tilejit launch`: where its processes find the memory that they share")
PERF_MAP = Setting(
    "perf_map", _profiled, "", False, "let `perf` show kernels by name: 1 writes where they lie to /tmp/perf-PID.map, `jitdump` their code for `perf inject`"
)
PTOAS = Setting("ptoas", str, "", False, "the program that checks emitted PTO text; empty: `ptoas` if it is on PATH, `off`: none")

SETTINGS: tuple[Setting[str] | Setting[bool] | Setting[int] | Setting[float], ...] = (
    PLATFORM, EAGER, SANITIZE, CHECK_BOUNDS, FAST_MATH, ARCH, SCHEDULE, CPU, NUM_THREADS, ARENA_BYTES, FASTPATH,
    CACHE, CACHE_DIR, CACHE_PATH, CACHE_BYTES, RUN_ONLY, ON_DRIFT, DEBUG, LOG, PERF_MAP, PTOAS,
    WAIT_TIMEOUT, ENGINE, RANKS_PER_NODE, RANK, WORLD, JOB,
)  # fmt: skip


# `os.environ` is a wrapper that encodes names and decodes values in every access: 2 µs that a warm call would spend many times.
ENVIRON: Any = os.environ if os.name == "posix" else None
DATA: dict[bytes, bytes] = getattr(os.environ, "_data", {})
VARIABLES = {setting.variable: setting for setting in SETTINGS}
_ENCODED = {setting.name: os.fsencode(setting.variable) for setting in SETTINGS}
_READ = (*(setting for setting in SETTINGS if setting.affects_code), EAGER, SANITIZE)
_READ_BY_CALLS = Watched(setting.variable for setting in (*_READ, NUM_THREADS, FASTPATH, ON_DRIFT))


def code_settings(ignored: Collection[str] = ()) -> tuple[tuple[str, object], ...]:
    """Name and present value of every setting that changes generated code, but for the ignored ones; and how Python computes here, if not as usual."""
    mode, bytes_warning = float_mode.bits(), sys.flags.bytes_warning
    found: list[tuple[str, object]] = [(setting.name, setting.value) for setting in SETTINGS if setting.affects_code and setting.name not in ignored]
    if mode:
        found.append(("float_mode", float_mode.described(mode)))
    if bytes_warning:  # `python -bb` refuses `str(b"")`
        found.append(("bytes_warning", bytes_warning))
    return tuple(found)


def tells_of_compiles() -> bool:
    """Whether every compile is worth a line on stderr."""
    return LOG.value == "recompile" or DEBUG.value >= 1


def variables_set() -> frozenset[str]:
    """All TILEJIT_* variables of the environment."""
    if not is_known():
        return frozenset(name for name in os.environ if name.startswith(PREFIX))
    start = os.fsencode(PREFIX)
    return frozenset([os.fsdecode(name) for name in list(DATA) if name.startswith(start)])


_members: dict[tuple[bytes, ...], tuple[list[bytes], list[bytes]]] = {}
"""By family of variables: the names that were in the environment, and those of the family. Looking at each costs more than a first call has time for."""


def variables_of(families: tuple[bytes, ...]) -> dict[str, str]:
    """The variables of the environment whose names begin with one of these, in order."""
    data = DATA if is_known() else {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
    names, known = list(data), _members.get(families)
    if known is None or known[0] != names:
        known = _members[families] = names, sorted(name for name in names if name.startswith(families))
    return {os.fsdecode(name): os.fsdecode(data.get(name, b"")) for name in known[1]}


def unknown_variables(there: Collection[str]) -> dict[str, str | None]:
    """Those of the variables that no setting reads, each with the closest one that exists."""
    strangers = sorted(name for name in there if name not in VARIABLES)
    return {name: next(iter(difflib.get_close_matches(name, VARIABLES, n=1)), None) for name in strangers}

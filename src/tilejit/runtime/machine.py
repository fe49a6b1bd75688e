"""The processor this process runs on, read from the system: what an artifact needs and whether it is here."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Collection
from functools import cache

# LLVM's name of a feature → the kernel's, where the two differ.
_RENAMED = {"sse4.1": "sse4_1", "sse4.2": "sse4_2", "bmi": "bmi1", "lzcnt": "abm", "cx16": "cx16", "avx512vpopcntdq": "avx512_vpopcntdq",
            "avx512bitalg": "avx512_bitalg", "avx512vnni": "avx512_vnni", "avx512vbmi2": "avx512_vbmi2", "avx512bf16": "avx512_bf16",
            "avxvnni": "avx_vnni", "avx512fp16": "avx512_fp16", "sse3": "pni", "pclmul": "pclmulqdq", "sha": "sha_ni", "amx-tile": "amx_tile",
            "amx-int8": "amx_int8", "amx-bf16": "amx_bf16"}  # fmt: skip
_RELEVANT = ("sse", "ssse", "avx", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe", "amx", "gfni", "vaes", "aes", "pclmul", "vpclmul", "sha", "adx")
"""Beginnings of the features that code generation uses; the others (virtualisation, security, …) never matter."""


@cache
def features() -> frozenset[str]:
    """What the processor offers, in the kernel's spelling; empty where the system does not tell."""
    try:
        file = os.open("/proc/cpuinfo", os.O_RDONLY)
    except OSError:
        return frozenset()
    text = b"\n"
    try:
        while part := os.read(file, 1 << 12):  # of many processors there are as many lines, and the first one will do
            text += part
            for name in (b"\nflags", b"\nFeatures"):
                line, ends, _ = text.partition(name)[2].partition(b"\n")
                if ends:
                    return frozenset(line.partition(b":")[2].decode("utf-8", "replace").split())
    except OSError:
        pass
    finally:
        os.close(file)
    return frozenset()


def code_features() -> frozenset[str]:
    """Of `features()` what code generation looks at: the others come and go with the kernel, and would tell equal processors apart."""
    return features() & _LISTED or features()


_ARCH_PRCTL, _ASK_FOR_REGISTERS, _TILE_DATA = 158, 0x1023, 18
"""Linux hands the registers of the matrix unit to a process that asks for them."""


@cache
def may_use_tiles() -> bool:
    """Whether this process may use the matrix unit of the processor (AMX); the system is asked once."""
    if "amx_tile" not in features() or architecture() != "x86_64":
        return False
    import ctypes

    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK_FOR_REGISTERS, _TILE_DATA) == 0


@cache
def cache_bytes() -> tuple[int, int, int]:
    """Bytes of the data caches of a core, nearest first, as the system tells them; of a usual processor where it does not."""
    found = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
    try:
        for number in range(16):
            place = f"/sys/devices/system/cpu/cpu0/cache/index{number}/"
            level = int(_line(place + "level"))
            if level > 1 or _line(place + "type") != "Instruction":  # further away both share one
                size = _line(place + "size")
                found[level] = int(size.rstrip("KM")) << (20 if size.endswith("M") else 10)
            if level == 3:
                break
    except (OSError, ValueError):  # the numbers end, or the system has none
        pass
    return found[1], found[2], found[3]


@cache
def memory_bytes() -> int:
    """Bytes of memory of this machine; as many as there may be where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def processors() -> int:
    """How many this process can keep busy: those that it may run on, and no more than its container is given time for."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, _quota() or allowed)


_GROUPS, _OWN_GROUP = "/sys/fs/cgroup", "/proc/self/cgroup"
_TIME = ",cpu,"
"""Among the controllers of the first version of control groups, the one for time; the second has one hierarchy for all."""


@cache
def _quota() -> int | None:
    """Whole processors, at least one, that the control group of this process, or one around it, may use; None: there is no limit."""
    try:
        lines = [line.split(":", 2) for line in _line(_OWN_GROUP, 1 << 12).splitlines()]
    except OSError:
        return None
    found: list[float] = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and _TIME not in f",{controllers},":
            continue
        names = [name for name in path.split("/") if name]
        for depth in range(len(names) + 1):  # a container may see its own group as the root, whatever it is called outside
            group = "/".join([_GROUPS, *([controllers] if controllers else []), *names[:depth]])
            try:
                quota, period = (_line(f"{group}/cpu.cfs_{name}_us") for name in ("quota", "period")) if controllers else _line(f"{group}/cpu.max").split()
                if quota not in ("max", "-1"):
                    found.append(int(quota) / int(period))
            except (OSError, ValueError, ZeroDivisionError):  # no such group here, or one without limits
                continue
    return max(1, int(min(found))) if found else None


def _line(path: str, most: int = 64) -> str:
    """What a small file of the system says; the start of a process waits for it, so without a buffer and a decoder."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, most).decode("ascii", "replace").strip()
    finally:
        os.close(file)


@cache
def fingerprint(device: str = "cpu") -> str:
    """The processor, as far as generated code depends on it: architecture and a digest of its features and caches."""
    return f"{architecture()}-{hashlib.sha256(' '.join([*sorted(code_features()), *map(str, cache_bytes())]).encode()).hexdigest()[:12]}"


@cache
def architecture() -> str:
    """`x86_64`, `aarch64`, …"""
    return os.uname().machine if hasattr(os, "uname") else platform.machine()


def needed_features(llvm_features: str) -> tuple[str, ...]:
    """Of an LLVM feature string (`+avx2,-sse4a,…`), what code made for it may use."""
    names = [text[1:] for text in llvm_features.split(",") if text.startswith("+")]
    return tuple(sorted(_RENAMED.get(name, name) for name in names if name.startswith(_RELEVANT)))


def missing_features(needed: Collection[str]) -> tuple[str, ...]:
    """Which of the needed features this processor lacks. Where the system does not tell, nothing is known to be missing."""
    here = features()
    if " amx" in f" {' '.join(needed)}" and not may_use_tiles():
        here = frozenset(name for name in here if not name.startswith("amx"))
    if here.issuperset(needed):
        return ()
    return tuple(name for name in needed if name not in here and _known(name)) if here else ()


def _known(name: str) -> bool:
    """Whether Linux lists the feature at all: some of LLVM's names are no hardware flags."""
    return name in _LISTED


_LISTED = frozenset(
    {
        "sse", "sse2", "pni", "ssse3", "gfni", "vaes", "aes", "pclmulqdq", "vpclmulqdq", "sha_ni", "adx",
        "sse4_1", "sse4_2", "sse4a", "avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "popcnt", "movbe",
        "avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl", "avx512ifma", "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bitalg",
        "avx512_vpopcntdq", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16",
    }
)  # fmt: skip

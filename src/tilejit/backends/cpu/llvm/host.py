"""What the processor under us offers: the facts that code generation and the cache key depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilejit import config
from tilejit.runtime.machine import may_use_tiles


@dataclass(frozen=True, slots=True)
class Host:
    """A processor as LLVM sees it."""

    triple: str
    cpu: str
    features: str
    """LLVM's feature string (`+avx2,-avx512f,…`), complete, so that equal hosts have equal text."""

    def has(self, feature: str) -> bool:
        return feature in _present(self.features)

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "amd64"))

    @property
    def vector_bits(self) -> int:
        """Width of the widest vector register worth using."""
        if not self.is_x86:
            return 128
        if self.has("avx512f") and self.has("avx512vl") and self.has("avx512dq") and self.has("avx512bw"):
            return 512
        return 256 if self.has("avx2") else 128

    @property
    def vector_registers(self) -> int:
        """Number of architectural vector registers."""
        return 32 if self.vector_bits == 512 or not self.is_x86 else 16

    def halves_vectors(self, near: bool) -> bool:
        """Whether vectors of half the length are faster where numbers are hardly computed on; `near`: where these lie in the second cache.

        The longest go to memory, or on some processors into the last cache, in halves.
        """
        return self.vector_bits == 512 and (self.cpu == "znver4" or (self.cpu == "znver5" and not near))

    @property
    def converts_half(self) -> bool:
        """Whether FP16 <-> FP32 conversion is an instruction (otherwise LLVM would call a library)."""
        return not self.is_x86 or self.has("f16c")

    @property
    def shifts_registers(self) -> bool:
        """Whether lanes of two registers side by side are shifted into one by one instruction."""
        return self.vector_bits == 512

    @property
    def has_fma(self) -> bool:
        return not self.is_x86 or self.has("fma")


@cache
def _present(features: str) -> frozenset[str]:
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


_BEYOND = {"sse": ("avx", "fma", "f16c", "amx", "vaes", "vpclmul", "gfni"), "avx2": ("avx512", "avxvnni", "avx10", "amx"),
           "avx512": ("avx512bf16", "avx512vnni", "avxvnni", "amx"), "dot": ("amx",)}  # fmt: skip
"""Beginnings of the features that a level (the setting `cpu`) does without."""


def host() -> Host:
    """The processor this process runs on, or as much of it as the settings allow."""
    return _host(config.CPU.value)


@cache
def _host(level: str) -> Host:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    without = (*_BEYOND.get(level, ()), *(() if may_use_tiles() else ("amx",)))
    features = ",".join(f"-{name[1:]}" if name[1:].startswith(without) else name for name in features.split(","))
    return Host(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)

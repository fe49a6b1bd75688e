"""What Triton was told that changes its code, in words: read from the environment, so that a kernel is found on disk without loading Triton."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from tilejit import config

_FAMILIES = (b"TRITON_", b"PTXAS_", b"NVPTX_", b"LLVM_", b"MLIR_", b"DISABLE_", b"USE_IR_", b"ALLOW_", b"AMDGCN_")
"""What the names of its variables begin with. Families, because new versions bring new names: one too many costs a compile, one too few a wrong kernel."""
_ELSEWHERE = frozenset(
    f"TRITON_{name}"
    for name in ("CACHE_DIR", "HOME", "DUMP_DIR", "OVERRIDE_DIR", "CACHE_MANAGER", "REMOTE_CACHE_BACKEND", "LIBCUDA_PATH", "CUDACRT_PATH", "CUDART_PATH")
)
"""Variables that say where Triton's own cache and launcher find files, which we do without; torch sets some of them while it runs."""
_GROUPS = ("compilation", "language", "nvidia", "runtime")
"""Groups of `triton.knobs` that its compiler reads."""
_PLAIN = (bool, int, float, str, type(None))


def in_words() -> str:
    """Each variable with its value; one that names a file with the state of that file; then what a program set in `triton.knobs`, if it is loaded."""
    found = [f"{name}={value}{_state(value)}" for name, value in config.variables_of(_FAMILIES).items() if name not in _ELSEWHERE]
    knobs = sys.modules.get("triton.knobs")
    return "\n".join((*found, *(_assigned(knobs) if knobs is not None else ())))


def _state(value: str) -> str:
    """Tells another compiler or library at the same path."""
    try:
        facts = os.stat(value) if os.path.isabs(value) else None
    except (OSError, ValueError):
        return ""
    return f" ({facts.st_size} bytes of {facts.st_mtime_ns})" if facts is not None else ""


def _assigned(knobs: object) -> Iterator[str]:
    """What differs from the defaults of a group: values that need not be in the environment, and the hook that changes stages, by the key that it gives."""
    for group in _GROUPS:
        owner = getattr(knobs, group, None)
        for name, value in sorted(getattr(owner, "__dict__", {}).items()):
            if isinstance(value, _PLAIN) and vars(type(owner)).get(name, ...) != value:
                yield f"{group}.{name}={value!r}{_state(value) if isinstance(value, str) else ''}"
    hook = getattr(getattr(knobs, "runtime", None), "add_stages_inspection_hook", None)
    if hook is not None:
        yield f"stages: {hook()[0]}"

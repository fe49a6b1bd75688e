"""What CUDA needs and whether it is here: for `tilejit doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from tilejit.backends.cuda import compile as triton
from tilejit.errors import TilejitError
from tilejit.runtime.cuda import devices
from tilejit.runtime.cuda.program import architecture_name
from tilejit.runtime.targets import Finding


def findings() -> Iterator[Finding]:
    """Triton, the driver, and each GPU."""
    try:
        versions = triton.versions()
        yield Finding("Triton", f"{versions['triton']}, ptxas {versions['ptxas']}")
    except TilejitError as error:
        yield Finding("Triton", error.message, error.hint or "install it")
    try:
        count = devices.count()
    except TilejitError as error:
        yield Finding("NVIDIA driver", error.message, error.hint or "install it")
        return
    yield Finding("NVIDIA driver", f"{count} GPU{'s' * (count != 1)}")
    for index in range(count):
        try:
            found = devices.device(index)
            yield Finding(f"cuda:{index}", f"{found.name}, {architecture_name(found.capability)}, {found.multiprocessors} multiprocessors")
        except TilejitError as error:
            yield Finding(f"cuda:{index}", error.message, error.hint or "use another GPU")

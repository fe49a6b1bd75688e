"""The CUDA driver through ctypes: loaded when the first CUDA tensor arrives, every status checked by name."""

from __future__ import annotations

import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any, cast

from tilejit.errors import DeviceError, PlatformError, ResourceError

OUT_OF_MEMORY, NOT_INITIALISED, NO_DEVICE, INVALID_CONTEXT, NOT_READY = 2, 3, 100, 201, 600
COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS, SHARED_PER_BLOCK, COOPERATIVE = 75, 76, 16, 97, 95
"""Device attributes."""
DYNAMIC_SHARED = 8
"""Function attribute: bytes of shared memory a launch may ask for."""
STATIC_SHARED_LIMIT = 48 << 10
"""What every launch may have without asking."""
PORTABLE_MAPPED = 3
"""Host memory that every context may use and every device may write."""
RELAXED = 2
"""Capture mode: other threads go on as they like."""

_p = c_void_p
_FUNCTIONS: dict[str, tuple[object, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_p), c_int),
    "cuCtxGetCurrent": (POINTER(_p),),
    "cuCtxSetCurrent": (_p,),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (POINTER(_p), c_char_p),
    "cuModuleUnload": (_p,),
    "cuModuleGetFunction": (POINTER(_p), _p, c_char_p),
    "cuFuncSetAttribute": (_p, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), _p, c_int, c_size_t),
    "cuLaunchKernelEx": (_p, _p, _p, _p),
    "cuMemHostAlloc": (POINTER(_p), c_size_t, c_uint),
    "cuMemFreeHost": (_p,),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemAllocAsync": (POINTER(c_uint64), c_size_t, _p),
    "cuMemFreeAsync": (c_uint64, _p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, _p, c_size_t, _p),
    "cuMemcpyDtoHAsync_v2": (_p, c_uint64, c_size_t, _p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, _p),
    "cuPointerGetAttribute": (_p, c_int, c_uint64),
    "cuMemsetD8Async": (c_uint64, ctypes.c_ubyte, c_size_t, _p),
    "cuStreamSynchronize": (_p,),
    "cuStreamIsCapturing": (_p, POINTER(c_int)),
    "cuEventCreate": (POINTER(_p), c_uint),
    "cuEventRecord": (_p, _p),
    "cuEventSynchronize": (_p,),
    "cuEventElapsedTime": (POINTER(ctypes.c_float), _p, _p),
    "cuEventDestroy_v2": (_p,),
    "cuStreamCreate": (POINTER(_p), c_uint),
    "cuStreamDestroy_v2": (_p,),
    "cuStreamBeginCapture_v2": (_p, c_int),
    "cuStreamEndCapture": (_p, POINTER(_p)),
    "cuGraphInstantiateWithFlags": (POINTER(_p), _p, ctypes.c_ulonglong),
    "cuGraphLaunch": (_p, _p),
    "cuGraphExecDestroy": (_p,),
    "cuGraphDestroy": (_p,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}
"""What is used of the driver: argument types by name; every result is a status."""


@cache
def _type_of(name: str) -> Any:
    """The type of a function. Making one, or telling ctypes of the arguments, takes a hundred times as long as a call."""
    return CFUNCTYPE(c_int, *cast("tuple[Any, ...]", _FUNCTIONS[name]))


for _name in (
    "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent", "cuModuleLoadData", "cuModuleGetFunction",
    "cuFuncSetAttribute", "cuLaunchKernelEx", "cuMemHostAlloc",
):  # fmt: skip
    _type_of(_name)  # what a first call needs; the others when they are called


class Driver:
    """The functions of `library`, each of which raises when its status is not 0; `raw` gives one as it is."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._known: dict[str, Any] = {}

    def raw(self, name: str) -> Any:
        """A function that returns its status."""
        found = self._known.get(name)
        if found is None:
            try:
                found = self._known[name] = self._found(name)
            except AttributeError as error:
                raise PlatformError(f"the NVIDIA driver is too old: {error}", help="update the driver to one for CUDA 11.8 or newer") from None
        return found

    def _found(self, name: str) -> Any:
        if isinstance(self._library, ctypes.CDLL):
            return _type_of(name)((name, self._library))
        found = getattr(self._library, name)
        found.restype, found.argtypes = c_int, _FUNCTIONS[name]
        return found

    def address(self, name: str) -> int:
        """Of a function, for native code to call."""
        given = getattr(self._library, "address_of", None)
        return given(name) if given is not None else ctypes.cast(self.raw(name), c_void_p).value or 0

    def __call__(self, name: str, *arguments: object) -> None:
        status = self.raw(name)(*arguments)
        if status:
            raise self.error(status, name)

    def word(self, name: str, *arguments: object) -> int:
        """The pointer or handle that a function stores at its first argument."""
        found = _p()
        self(name, byref(found), *arguments)
        return found.value or 0

    def word_after(self, name: str, *arguments: object) -> int:
        """The same of a function that stores it at its last argument."""
        found = _p()
        self(name, *arguments, byref(found))
        return found.value or 0

    def number(self, name: str, *arguments: object) -> int:
        """The int that a function stores at its first argument."""
        found = c_int()
        self(name, byref(found), *arguments)
        return found.value

    def number_after(self, name: str, *arguments: object) -> int:
        """The same of a function that stores it at its last argument."""
        found = c_int()
        self(name, *arguments, byref(found))
        return found.value

    def error(self, status: int, what: str) -> DeviceError | PlatformError | ResourceError:
        """What a status other than 0 is to the caller."""
        text, code = self._text("cuGetErrorString", status), self._text("cuGetErrorName", status)
        if status == OUT_OF_MEMORY:
            return ResourceError(f"the GPU has no memory left ({what})", help="free tensors, or give the kernel smaller extents")
        return DeviceError(f"the CUDA driver failed in {what}: {text} ({code})", help=_ADVICE.get(status, _BROKEN))

    def _text(self, name: str, status: int) -> str:
        found = c_char_p()
        if self.raw(name)(status, byref(found)) or found.value is None:
            return f"error {status}"
        return found.value.decode()


_BROKEN = "if the process used the GPU before and it worked, an earlier kernel broke its context: start a new process"
_ADVICE = {
    NOT_INITIALISED: "a process that forks cannot use its parent's GPU: start workers with the spawn method, multiprocessing.set_start_method('spawn')",
    1: "the launch has a size that the GPU does not take: report it with the kernel",
    209: "the code was compiled for another GPU: compile it for this one",
    222: "the driver is older than the compiler's output: update the NVIDIA driver",
    700: "a kernel accessed memory that is not there; run with TILEJIT_CHECK_BOUNDS=1, and compute-sanitizer shows the place",
    701: "a block needs more registers or threads than the GPU has: use smaller tiles",
    720: "more blocks must run at once than the GPU holds: use fewer blocks",
}


def _library_name() -> str:
    return "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@cache
def driver() -> Driver:
    """The driver, loaded and initialised now; PlatformError says what is missing."""
    try:
        library = ctypes.CDLL(_library_name())
    except OSError as error:
        help = "run on a machine with an NVIDIA GPU and its driver, or use platform='cpu'"
        raise PlatformError(f"there is no NVIDIA driver here: {error}", help=help) from None
    return started(library)


def started(library: Any) -> Driver:
    """The driver in `library`, ready for use."""
    found = Driver(library)
    status = found.raw("cuDeviceGetCount")(byref(c_int()))
    if status == NOT_INITIALISED:  # else somebody did that, and asking for it again takes its time
        status = found.raw("cuInit")(0)
    if status == NO_DEVICE:
        raise PlatformError("the NVIDIA driver finds no GPU", help="look at CUDA_VISIBLE_DEVICES and nvidia-smi, or use platform='cpu'")
    if status:
        raise found.error(status, "cuInit")
    return found


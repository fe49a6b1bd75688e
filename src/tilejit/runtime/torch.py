"""torch tensors as arguments; it and what stands beside it import torch, and only when the caller already did."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch.autograd.graph import increment_version

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import ArgumentError
from tilejit.kinds import is_a
from tilejit.runtime.arrays import ArrayView, unsupported_dtype
from tilejit.runtime.targets import HOST


def view_of(value: object) -> ArrayView | None:
    """The metadata of a torch tensor, or None."""
    if not is_a(value, torch.Tensor):
        return None
    wrapped = wrapping(value)
    if wrapped is not None:
        what, help = wrapped
        raise ArgumentError(f"{what} has no plain memory that a kernel could use", help=help)
    if value.layout is not torch.strided:
        raise ArgumentError(f"a torch tensor with layout {value.layout} has no plain memory", help="pass x.to_dense()")
    dtype = _DTYPES.get(value.dtype)
    if dtype is None:
        raise unsupported_dtype("torch", str(value.dtype).removeprefix("torch."))
    if dtype.bits < 8 and dtype.kind != "bool":
        return _unpacked(value, dtype)
    if value.is_cpu and value.data_ptr() == 0 and value.numel():
        raise ArgumentError("a torch tensor whose storage was freed has no memory", help="pass a tensor that holds its elements")
    copied = ""
    if value.is_neg() or value.is_conj():
        value, copied = value.detach().resolve_conj().resolve_neg(), "is a view that torch negates when it is read"
    return ArrayView(
        value, "torch", tuple(value.shape), value.stride(), dtype, value.data_ptr(), True, _place_of(value), value.requires_grad, copied
    )


_DTYPES = {found: row for row in reversed(DTYPES.values()) if row.torch_name is not None and (found := getattr(torch, row.torch_name, None)) is not None}
"""The language's types by torch's; of several the first."""


def _place_of(value: torch.Tensor) -> str:
    """As `str(value.device)` says it, which takes longer than all else that a call asks of a tensor."""
    return HOST if value.is_cpu else f"cuda:{value.get_device()}" if value.is_cuda else str(value.device)


def device_of(value: object) -> str | None:
    """Where a tensor is; None: it is no tensor."""
    return _place_of(value) if is_a(value, torch.Tensor) else None


_INTERCEPT = "__torch_dispatch__"
_is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor  # type: ignore[attr-defined]
_is_functional: Callable[[torch.Tensor], bool] = torch._is_functional_tensor  # type: ignore[reportPrivateImportUsage]


def wrapping(value: torch.Tensor) -> tuple[str, str] | None:
    """What stands for other tensors instead of holding elements, and what to do about it; None for a tensor that holds them."""
    if _is_wrapped(value):
        help = "call the kernel outside torch.vmap and torch.func, or in a torch.autograd.Function that has a vmap rule and a derivative"
        return "a torch tensor inside vmap, grad or another transform of torch.func", help
    if _is_functional(value):
        return "a functional torch tensor", 'pass the tensor it wraps, or make the kernel an operator: kernel.as_torch_op("mylib::name")'
    if value.is_nested:
        return "a nested torch tensor", "call the kernel for each of x.unbind(), or pass x.to_padded_tensor(0.0)"
    if type(value) is torch.Tensor:
        if value._is_zerotensor():  # type: ignore[reportPrivateUsage]
            return "a torch tensor of zeros that autograd made without memory (torch._efficientzerotensor)", "pass x.clone()"
        return None  # what follows is about classes of their own
    if getattr(type(value), _INTERCEPT) is not getattr(torch.Tensor, _INTERCEPT):
        help = 'call the kernel with real tensors: make it an operator where torch traces, kernel.as_torch_op("mylib::name"), or pass the tensor it wraps'
        return f"a torch tensor of the class {type(value).__name__}, which intercepts operators,", help
    if torch.nn.parameter.is_lazy(value):
        return "an uninitialized torch parameter", "run the module once, so that its parameters get their shapes"
    return None


def row_of(value: object) -> torch.Tensor | None:
    """The memory of a contiguous tensor as one of one dim, whatever its class makes of `reshape`; None for anything else."""
    if not is_a(value, torch.Tensor):
        return None
    with torch._C.DisableTorchFunctionSubclass():  # type: ignore[attr-defined]
        return torch.Tensor.reshape(value, (-1,))


def note_write(tensor: object) -> None:
    """Tell autograd that a kernel writes the tensor: a backward that needs what it held is an error then, not a wrong number."""
    if is_a(tensor, torch.Tensor):
        increment_version(tensor)


def leave_out_of_graphs(package: str) -> None:
    """Let torch.compile skip every function of a package."""
    from torch._dynamo import trace_rules

    trace_rules.add(package)


def grad_is_wanted() -> bool:
    """Whether torch records operations now."""
    return torch.is_grad_enabled()


def plain_facts(value: object, dtype: str | None, written: bool, noted: object) -> tuple[tuple[int, ...], int] | None:
    """Shape and address of a dense CPU tensor of that dtype whose memory a kernel can use, else None.

    `noted` is false as long as nobody was told that results carry no gradient: a call to be told about is none for the warm way.
    """
    if type(value) is not torch.Tensor or dtype is None or value.dtype is not getattr(torch, dtype, None):
        return None
    if value.layout is not torch.strided or not value.is_cpu or value.is_neg() or value.is_conj() or not value.is_contiguous():
        return None
    if value.requires_grad and (written or (not noted and torch.is_grad_enabled())):
        return None
    if value.dtype is _PACKED or _is_wrapped(value) or _is_functional(value) or value.is_nested:
        return None
    address = value.data_ptr()
    return None if address == 0 and value.numel() else (tuple(value.shape), address)


_PACKED = getattr(torch, "float4_e2m1fn_x2", None)


def _unpacked(value: torch.Tensor, dtype: DType) -> ArrayView:
    """Torch packs two 4-bit elements into a byte, the low half first: the last dim counts twice as many. Kernels see one element per byte."""
    if value.ndim == 0 or not value.shape[-1]:
        raise ArgumentError(f"a packed {dtype} tensor needs elements in its last dim, got shape {list(value.shape)}")
    packed = value.detach().view(torch.uint8)
    halves = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2).contiguous()
    copied = "is packed, two elements per byte"
    return ArrayView(halves, "torch", tuple(halves.shape), halves.stride(), dtype, halves.data_ptr(), True, str(value.device), False, copied)


def zeros(shape: Sequence[int], dtype: DType, device: str) -> torch.Tensor:
    """A zero-filled tensor."""
    wanted = _own_dtype(dtype)
    if wanted is None:
        raise unsupported_dtype("torch", dtype.name)
    make = torch.zeros
    made = make(tuple(shape), dtype=wanted, device=device)
    if type(make) is not _OF_TORCH or _function_modes() or _modes() or type(made) is not torch.Tensor or _is_functional(made):
        _check_made(made, tuple(shape), wanted, device)
    return made


_function_modes: Callable[[], int] = torch._C._len_torch_function_stack  # type: ignore[attr-defined]
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack  # type: ignore[attr-defined]
_OF_TORCH = type(len)
"""Of torch's functions that make tensors, as long as nobody put something in their place. They make what was asked for where no mode is on."""


def _check_made(made: object, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    """Refuse what is not the dense tensor that was asked for: a kernel would write past its end, or what means something else there."""
    view = view_of(made)  # of what holds no elements, that says so
    what = f"a {type(made).__name__}"
    if view is not None and isinstance(made, torch.Tensor):
        if made.dtype is dtype and (view.shape, view.device, view.copied) == (shape, device, "") and view.contiguous and view.aligned:
            return
        what = f"one of shape {list(made.shape)}, strides {list(made.stride())} and {made.dtype} on {made.device}"
    help = "call the kernel outside of the mode of torch, or of what replaced torch.zeros, that makes tensors otherwise"
    raise ArgumentError(f"torch was asked for a dense tensor of shape {list(shape)} and {dtype} on {device}, and made {what}", help=help)


def on_device(array: np.ndarray, device: str) -> object:
    """A copy of a NumPy array as a tensor on a device."""
    return torch.from_numpy(array).to(device)


def in_numpy(value: object) -> object:
    """A tensor as a NumPy array in the memory of this process; anything else as it is."""
    return value.cpu().numpy() if is_a(value, torch.Tensor) else value


def copy_of(value: object) -> object | None:
    """A copy of a tensor, outside of autograd; None for anything else."""
    return value.detach().clone() if is_a(value, torch.Tensor) else None


def cells_of(value: object) -> np.ndarray | None:
    """The elements of a tensor as a NumPy array, those of types that NumPy lacks as FP32; None for anything else."""
    if not is_a(value, torch.Tensor):
        return None
    plain = value.detach().cpu()
    return (plain.float() if plain.dtype.is_floating_point and plain.element_size() < 4 else plain).numpy()


def wait_for_devices() -> None:
    """Wait for everything that was started on the GPU that torch uses now."""
    torch.cuda.synchronize()


def current_stream(index: int) -> int:
    """The handle of the stream that torch uses on a GPU now; forty times as fast as `torch.cuda.current_stream(index).cuda_stream`."""
    return torch._C._cuda_getCurrentRawStream(index)  # type: ignore[attr-defined]


def device_bytes(index: int, stream: int) -> Callable[[int], tuple[object, int]]:
    """A function that takes memory on a GPU from torch's allocator, for use on `stream`: owner and address of so many bytes."""
    device = torch.device("cuda", index)

    def take(size: int) -> tuple[object, int]:
        made = torch.empty(size, dtype=torch.uint8, device=device)
        if type(torch.empty) is not _OF_TORCH or _function_modes() or _modes():
            _check_made(made, (size,), torch.uint8, str(device))
        return made, made.data_ptr()

    def take_elsewhere(size: int) -> tuple[object, int]:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device)):
            return take(size)

    return take if stream == current_stream(index) else take_elsewhere


def new_call(dtype: DType, sample: object, cleared: bool) -> tuple[object, object, object] | None:
    """`torch.zeros` or `torch.empty`, and what it takes as dtype and device for a tensor where the sample is; None: torch has no such dtype."""
    assert isinstance(sample, torch.Tensor)
    found = _own_dtype(dtype)
    return None if found is None else (torch.zeros if cleared else torch.empty, found, sample.device)


def sample_of(dtype: DType) -> object | None:
    """A small tensor of that dtype on the CPU; None: torch has no such dtype, or a mode makes something else now."""
    found = _own_dtype(dtype)
    made: object = None if found is None else torch.empty(1, dtype=found, device=HOST)
    return made if isinstance(made, torch.Tensor) and made.dtype is found and made.is_cpu else None


def _own_dtype(dtype: DType) -> torch.dtype | None:
    """Torch's data type of the same name, whose elements lie as kernels see them."""
    return None if dtype.torch_name is None or (dtype.bits < 8 and dtype.kind != "bool") else getattr(torch, dtype.torch_name, None)


def scalar_of(value: object) -> int | float | bool | None:
    """The Python number of a 0-d tensor on the CPU, else None."""
    if is_a(value, torch.Tensor) and value.ndim == 0:
        item = value.item()
        return item if isinstance(item, bool | int | float) else None
    return None


def thread_count() -> int:
    """Threads torch uses for one operation."""
    return torch.get_num_threads()


@cache
def thread_count_function() -> int:
    """Address of the C function that tells the same, or 0 where torch has it under another name."""
    return _c_function("libtorch_cpu.so", "_ZN2at15get_num_threadsEv")  # at::get_num_threads()


@cache
def openmp_functions() -> tuple[int, int]:
    """Addresses of `GOMP_parallel` and `omp_get_thread_num` of the library whose threads torch works with, or 0 where it works otherwise."""
    return _c_function("libtorch_cpu.so", "GOMP_parallel"), _c_function("libtorch_cpu.so", "omp_get_thread_num")


@cache
def grad_mode_function() -> int:
    """Address of the C function that tells whether torch records operations in this thread, or 0 where torch has it under another name."""
    return _c_function("libc10.so", "_ZN3c108GradMode10is_enabledEv")  # c10::GradMode::is_enabled()


def _c_function(library: str, symbol: str) -> int:
    try:
        function = getattr(ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", library)), symbol)
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0

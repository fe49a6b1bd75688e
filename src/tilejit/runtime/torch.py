"""torch tensors as arguments; the only module that imports torch, and only when the caller already did."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch.autograd.graph import increment_version

from tilejit.dtypes import DType, dtype_of_torch_name
from tilejit.errors import ArgumentError
from tilejit.runtime.arrays import ArrayView, unsupported_dtype
from tilejit.runtime.call.dispatch_abi import TORCH_INLINE
from tilejit.runtime.call.memory import word_at


def view_of(value: object) -> ArrayView | None:
    """The metadata of a torch tensor, or None."""
    if not isinstance(value, torch.Tensor):
        return None
    wrapped = _wrapping(value)
    if wrapped is not None:
        what, help = wrapped
        raise ArgumentError(f"{what} has no plain memory that a kernel could use", help=help)
    if value.layout is not torch.strided:
        raise ArgumentError(f"a torch tensor with layout {value.layout} has no plain memory", help="pass x.to_dense()")
    name = str(value.dtype).removeprefix("torch.")
    dtype = dtype_of_torch_name(name)
    if dtype is None:
        raise unsupported_dtype("torch", name)
    if dtype.bits < 8 and dtype.kind != "bool":
        return _unpacked(value, dtype)
    if value.is_cpu and value.data_ptr() == 0 and value.numel():
        raise ArgumentError("a torch tensor whose storage was freed has no memory", help="pass a tensor that holds its elements")
    copied = ""
    if value.is_neg() or value.is_conj():
        value, copied = value.detach().resolve_conj().resolve_neg(), "is a view that torch negates when it is read"
    return ArrayView(
        value, "torch", tuple(value.shape), value.stride(), dtype, value.data_ptr(), True, str(value.device), value.requires_grad, copied
    )


def device_of(value: object) -> str | None:
    """Where a tensor is; None: it is no tensor."""
    return str(value.device) if isinstance(value, torch.Tensor) else None


_INTERCEPT = "__torch_dispatch__"
_is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor  # type: ignore[attr-defined]
_is_functional: Callable[[torch.Tensor], bool] = torch._is_functional_tensor  # type: ignore[reportPrivateImportUsage]


def _wrapping(value: torch.Tensor) -> tuple[str, str] | None:
    """What stands for other tensors instead of holding elements, and what to do about it; None for a tensor that holds them."""
    if _is_wrapped(value):
        help = "call the kernel outside torch.vmap and torch.func, or in a torch.autograd.Function that has a vmap rule and a derivative"
        return "a torch tensor inside vmap, grad or another transform of torch.func", help
    if _is_functional(value):
        return "a functional torch tensor", 'pass the tensor it wraps, or make the kernel an operator: kernel.as_torch_op("mylib::name")'
    if value.is_nested:
        return "a nested torch tensor", "call the kernel for each of x.unbind(), or pass x.to_padded_tensor(0.0)"
    if getattr(type(value), _INTERCEPT) is not getattr(torch.Tensor, _INTERCEPT):
        help = 'call the kernel with real tensors: make it an operator where torch traces, kernel.as_torch_op("mylib::name"), or pass the tensor it wraps'
        return f"a torch tensor of the class {type(value).__name__}, which intercepts operators,", help
    if torch.nn.parameter.is_lazy(value):
        return "an uninitialized torch parameter", "run the module once, so that its parameters get their shapes"
    return None


def note_write(tensor: object) -> None:
    """Tell autograd that a kernel writes the tensor: a backward that needs what it held is an error then, not a wrong number."""
    if isinstance(tensor, torch.Tensor):
        increment_version(tensor)


def leave_out_of_graphs(package: str) -> None:
    """Let torch.compile skip every function of a package."""
    from torch._dynamo import trace_rules

    trace_rules.add(package)


def grad_is_wanted() -> bool:
    """Whether torch records operations now."""
    return torch.is_grad_enabled()


def plain_facts(value: object, dtype: str | None, written: bool, noted: object) -> tuple[tuple[int, ...], int] | None:
    """Shape and address of a dense CPU tensor of that dtype that a kernel can use as it is, else None.

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
    address, size = value.data_ptr(), value.element_size()
    return None if address % size or (address == 0 and value.numel()) else (tuple(value.shape), address)


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
    packed = dtype.bits < 8 and dtype.kind != "bool"
    if dtype.torch_name is None or packed or not hasattr(torch, dtype.torch_name):
        raise unsupported_dtype("torch", dtype.name)
    return torch.zeros(tuple(shape), dtype=getattr(torch, dtype.torch_name), device=device)


def on_device(array: np.ndarray, device: str) -> object:
    """A copy of a NumPy array as a tensor on a device."""
    return torch.from_numpy(array).to(device)


def in_numpy(value: object) -> object:
    """A tensor as a NumPy array in the memory of this process; anything else as it is."""
    return value.cpu().numpy() if isinstance(value, torch.Tensor) else value


def copy_of(value: object) -> object | None:
    """A copy of a tensor, outside of autograd; None for anything else."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else None


def cells_of(value: object) -> np.ndarray | None:
    """The elements of a tensor as a NumPy array, those of types that NumPy lacks as FP32; None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    plain = value.detach().cpu()
    return (plain.float() if plain.dtype.is_floating_point and plain.element_size() < 4 else plain).numpy()


def wait_for_devices() -> None:
    """Wait for everything that was started on the GPU that torch uses now."""
    torch.cuda.synchronize()


def current_stream(index: int) -> int:
    """The handle of the stream that torch uses on a GPU now; forty times as fast as `torch.cuda.current_stream(index).cuda_stream`."""
    return torch._C._cuda_getCurrentRawStream(index)  # type: ignore[attr-defined]


class _Numbered(ctypes.Structure):
    """c10::Stream: a device and the number of a stream there."""

    _fields_ = (("device", ctypes.c_int64), ("number", ctypes.c_int64))


@cache
def stream_number_function() -> int:
    """Address of the C++ function that tells the stream that torch uses on a GPU now, as a device and a number, or 0 where it does not answer as it should."""
    found = _c_function("libc10_cuda.so", "_ZN3c104cuda20getCurrentCUDAStreamEa")  # c10::cuda::getCurrentCUDAStream(signed char)
    if not found or not torch.cuda.is_initialized():
        return 0
    ask, index = ctypes.CFUNCTYPE(_Numbered, ctypes.c_int8)(found), torch.cuda.current_device()

    def right() -> bool:
        return ask(index).number == torch.cuda.current_stream(index).stream_id

    with torch.cuda.stream(torch.cuda.ExternalStream(_ANY_STREAM, torch.device("cuda", index))):
        other = right() and ask(index).number != 0
    return found if other and right() else 0


_ANY_STREAM = 1 << 20
"""A handle that only numbers a stream: nothing is done there."""


def device_bytes(index: int, stream: int) -> Callable[[int], tuple[object, int]]:
    """A function that takes memory on a GPU from torch's allocator, for use on `stream`: owner and address of so many bytes."""
    device = torch.device("cuda", index)

    def take(size: int) -> tuple[object, int]:
        made = torch.empty(size, dtype=torch.uint8, device=device)
        return made, made.data_ptr()

    def take_elsewhere(size: int) -> tuple[object, int]:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device)):
            return take(size)

    return take if stream == current_stream(index) else take_elsewhere


def new_call(dtype: DType, sample: object, cleared: bool) -> tuple[object, object, object] | None:
    """`torch.zeros` or `torch.empty`, and what it takes as dtype and device for a tensor where the sample is; None: torch has no such dtype."""
    assert isinstance(sample, torch.Tensor)
    found = None if dtype.torch_name is None or (dtype.bits < 8 and dtype.kind != "bool") else getattr(torch, dtype.torch_name, None)
    return None if found is None else (torch.zeros if cleared else torch.empty, found, sample.device)


def scalar_of(value: object) -> int | float | bool | None:
    """The Python number of a 0-d tensor on the CPU, else None."""
    if isinstance(value, torch.Tensor) and value.ndim == 0:
        item = value.item()
        return item if isinstance(item, bool | int | float) else None
    return None


@dataclass(frozen=True, slots=True)
class TensorFields:
    """Byte offsets in torch's C++ tensor, and in its storage."""

    storage: int
    """Of the address of its storage."""
    data: int
    """Of the address of the memory, in the storage."""
    lazy: int
    """Of a byte there that is not 0 where that memory must be asked for, because it is copied when it is written."""
    offset: int
    """Of the number of elements in the storage before its first."""
    sizes: int
    """Of its rank, then the extents and the strides."""
    dtype: int
    """Of 16 bits that number the data type; a byte for the type of the device and one for its number follow."""


@dataclass(frozen=True, slots=True)
class PlainTensor:
    """How to tell in C that a tensor is plain and dense on the CPU: nothing pending (negation, conjugation), nothing wrapped (vmap, functionalize)."""

    impl_at: int
    """Byte offset of the address of the C++ tensor in the Python object."""
    keys_at: int
    """Byte offset of its set of dispatch keys."""
    keys: int
    """What that set is for a plain tensor."""
    graded: int
    """Those of the keys that are about autograd: tensors made in inference mode lack them."""
    grad_at: int
    """Byte offset of the address of what autograd knows about the tensor: 0 as long as it knows nothing."""
    versions_at: int
    """Byte offset of the address of its version counter, which it shares with its views."""
    version_at: int
    """Byte offset of the 32-bit number there."""
    fields: TensorFields | None
    """Where the rest is; None where looking is not conclusive."""


_IMPL_WORDS = 26
"""Size of torch's C++ tensor in words: torch itself asserts that it does not grow."""


@cache
def plain_tensor() -> PlainTensor | None:
    """Found by looking, at tensors whose keys differ in a known way; None where that is not conclusive."""
    with torch.inference_mode(False), torch.device("cpu"):
        return _found_plain()


def _found_plain() -> PlainTensor | None:
    samples = [torch.empty(2), torch.empty(3, 1, dtype=torch.int64), torch.empty((), dtype=torch.complex64), torch.empty(4, requires_grad=True)]
    if any(type(sample) is not torch.Tensor or not sample.is_cpu for sample in samples):
        return None
    first = samples[0]
    found = [at for at in range(16, 64, 8) if _word(id(first) + at) == first._cdata]
    if len(found) != 1:
        return None
    waiting = (torch._neg_view(first), samples[2].conj())  # type: ignore[reportPrivateImportUsage]
    with torch.inference_mode():
        bare = torch.empty(2)
    for at in range(0, 8 * _IMPL_WORDS, 8):
        keys = word_at(first._cdata + at)
        pending = {word_at(other._cdata + at) ^ keys for other in waiting}
        if len(pending) == 2 and all(bits.bit_count() == 1 for bits in pending) and all(word_at(sample._cdata + at) == keys for sample in samples):
            grad_at, versions, graded = _autograd_at(at), _versions_at(), keys & ~word_at(bare._cdata + at)
            if grad_at is None or versions is None or word_at(bare._cdata + at) | graded != keys:
                return None
            return PlainTensor(found[0], at, keys, graded, grad_at, *versions, _fields())
    return None


def plain_tensor_like(sample: object) -> PlainTensor | None:
    """The same for plain and dense tensors on the device of `sample`, which is one of them; None where that is not conclusive."""
    found = plain_tensor()
    if found is None or not isinstance(sample, torch.Tensor) or sample.is_neg() or sample.is_conj():
        return None
    if _wrapping(sample) is not None or sample.layout is not torch.strided:
        return None
    return replace(found, keys=word_at(sample._cdata + found.keys_at) | found.graded)


def _fields() -> TensorFields | None:
    """Of tensors whose shapes, offsets and data types differ in a known way: each must be in one place only."""
    words = range(0, 8 * _IMPL_WORDS, 8)
    whole = torch.empty(2, 3, 5, 7, 11)
    samples = [whole, whole.permute(4, 2, 0, 1, 3)[3:, 1], whole[1, 2], torch.empty(13, dtype=torch.int64)[5:], torch.from_numpy(np.zeros((6, 4)))[2:]]

    def only(places: Sequence[int], holds: Callable[[torch.Tensor, int], bool]) -> int | None:
        found = [at for at in places if all(holds(sample, at) for sample in samples)]
        return found[0] if len(found) == 1 else None

    def shaped(sample: torch.Tensor, at: int) -> bool:
        given = [word_at(sample._cdata + at + 8 * place) for place in range(1 + 2 * TORCH_INLINE)]
        return (given[0], *given[1 : 1 + sample.ndim], *given[1 + TORCH_INLINE :][: sample.ndim]) == (sample.ndim, *sample.shape, *sample.stride())

    storage = only(words, lambda sample, at: word_at(sample._cdata + at) == sample.untyped_storage()._cdata)
    data = only(range(0, 64, 8), lambda sample, at: word_at(sample.untyped_storage()._cdata + at) == sample.untyped_storage().data_ptr())
    offset = only(words, lambda sample, at: word_at(sample._cdata + at) == sample.storage_offset())
    sizes = only(words[: -2 * TORCH_INLINE], shaped)
    samples = [torch.empty(2, dtype=kind, device=device) for kind in _NUMBERED for device in ("cpu", "meta")]
    dtype = only(range(0, 8 * _IMPL_WORDS, 4), lambda sample, at: _kind_at(sample, at) == (_NUMBERED[sample.dtype], 0 if sample.is_cpu else _META, 255))
    lazy = _lazy_at()
    if storage is None or data is None or offset is None or sizes is None or dtype is None or lazy is None:
        return None
    return TensorFields(storage, data, lazy, offset, sizes, dtype)


_NUMBERED = {torch.uint8: 0, torch.int64: 4, torch.float16: 5, torch.float32: 6, torch.bool: 11, torch.bfloat16: 15}
_META = 14
"""How torch numbers data types, and the device that has no memory."""


def _kind_at(tensor: torch.Tensor, at: int) -> tuple[int, int, int]:
    """Data type, device type and device number, if they are there."""
    bits = ctypes.c_uint32.from_address(tensor._cdata + at).value
    return bits & 0xFFFF, bits >> 16 & 0xFF, bits >> 24


def _lazy_at() -> int | None:
    """The byte of a storage that becomes 1 when a copy of it is made that is none yet."""
    sample = torch.empty(4)
    storage = sample.untyped_storage()._cdata
    before = [word_at(storage + at) for at in range(0, 72, 8)]
    kept = torch._lazy_clone(sample)  # type: ignore[reportPrivateImportUsage]
    changed = [word_at(storage + 8 * place) ^ word for place, word in enumerate(before)]
    alike = [word_at(kept.untyped_storage()._cdata + 8 * place) for place in range(len(before))]
    single = [(8 * place, bits.bit_length() - 1) for place, bits in enumerate(changed) if bits.bit_count() == 1 and bits > 0]
    found = [at + bit // 8 for at, bit in single if bit % 8 == 0 and not before[at // 8] >> bit & 0xFF and alike[at // 8] >> bit & 0xFF == 1]
    return found[0] if len(found) == 1 else None


def dtype_number(sample: object, fields: TensorFields) -> int | None:
    """How torch numbers a tensor's data type; None where the device that stands after it is not the tensor's."""
    assert isinstance(sample, torch.Tensor)
    number, kind, index = _kind_at(sample, fields.dtype)
    return number if (kind == 0) == sample.is_cpu and index in (sample.device.index, 255) else None


def _autograd_at(end: int) -> int | None:
    """The only word before `end` that is 0 in a new tensor and not in one that requires grad. (Views are known to autograd in any case.)"""
    plain, leaf, result = torch.empty(4), torch.empty(4, requires_grad=True), torch.empty(4, requires_grad=True) * 2
    found = [at for at in range(0, end, 8) if not _word(plain._cdata + at) and _word(leaf._cdata + at) and _word(result._cdata + at)]
    if len(found) != 1:
        return None
    plain.requires_grad_()
    return found[0] if _word(plain._cdata + found[0]) else None


def _versions_at() -> tuple[int, int] | None:
    """The only word that a tensor shares with its views, not with other tensors, and that is 0 in an inference tensor; and what counts writes behind it."""
    plain, other = torch.empty(4), torch.empty(4)
    views = (plain.detach(), plain.view(2, 2))
    with torch.inference_mode():
        uncounted = torch.empty(4)
    found: list[int] = []
    for at in range(0, 8 * _IMPL_WORDS, 8):
        word = _word(plain._cdata + at)
        if word and all(_word(view._cdata + at) == word for view in views) and _word(other._cdata + at) not in (0, word) and not _word(uncounted._cdata + at):
            found.append(at)
    if len(found) != 1:
        return None
    counter = _word(plain._cdata + found[0])
    before = [ctypes.c_uint32.from_address(counter + at).value for at in range(8, 32, 4)]  # a counter has a vtable, reference counts, and the number
    for _ in range(5):
        plain.zero_()
    after = [ctypes.c_uint32.from_address(counter + at).value for at in range(8, 32, 4)]
    moved = [8 + 4 * place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    return (found[0], moved[0]) if len(moved) == 1 and after[(moved[0] - 8) // 4] == plain._version else None


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


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

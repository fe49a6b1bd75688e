"""How torch's C++ tensors lie in memory, found by looking at some whose contents are known."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from tilejit.runtime.call.dispatch_abi import TORCH_INLINE
from tilejit.runtime.call.memory import word_at
from tilejit.runtime.torch import wrapping


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
"""Size of torch's C++ tensor in words: torch itself asserts that it does not grow. It may be smaller, and anything lies behind it."""
_SAMPLES = 4
"""Tensors that must agree, all there at once, so that what lies behind one is not what lies behind another."""


_looks: list[PlainTensor | None] = []
"""What was found, once somebody has looked."""
_MOST = 5
"""How often to look where it is not conclusive: memory may look like what is looked for by chance."""


def plain_tensor() -> PlainTensor | None:
    """Found by looking, at tensors whose keys differ in a known way; None where that is not conclusive.

    A thread of its own looks: in this one torch may be inside an operator, where views share nothing and writes are not counted.
    """
    if not _looks:
        try:
            with ThreadPoolExecutor(1) as elsewhere:
                _looks.append(elsewhere.submit(_found_plain).result())
        except RuntimeError:  # no thread can be started: the process ends, or there are too many now
            return None
    return _looks[0]


def _found_plain() -> PlainTensor | None:
    found = None
    with torch.inference_mode(False), torch.device("cpu"):
        for _ in range(_MOST):
            found = _looked_at() or found
            if found is not None and found.fields is not None:
                break
    return found


def _looked_at() -> PlainTensor | None:
    samples = [torch.empty(2), torch.empty(3, 1, dtype=torch.int64), torch.empty((), dtype=torch.complex64), torch.empty(4, requires_grad=True)]
    if any(type(sample) is not torch.Tensor or not sample.is_cpu for sample in samples):
        return None
    first = samples[0]
    found = [at for at in range(16, 64, 8) if _word(id(first) + at) == first._cdata]
    if len(found) != 1:
        return None
    waiting = (samples[2].conj().imag, samples[2].conj())  # one to be negated, one to be conjugated
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
    if wrapping(sample) is not None or sample.layout is not torch.strided:
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
    clone = getattr(torch.ops.aten, "_lazy_clone", None)
    if clone is None:
        return None  # this torch has no such copies, or makes them in another way
    kept = clone(sample)
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
    tensors = [torch.empty(4) for _ in range(_SAMPLES)]
    views = [(tensor.detach(), tensor.view(2, 2)) for tensor in tensors]
    with torch.inference_mode():
        uncounted = [torch.empty(4) for _ in range(_SAMPLES)]
    found: list[int] = []
    for at in range(0, 8 * _IMPL_WORDS, 8):
        words = [_word(tensor._cdata + at) for tensor in tensors]
        shared = all(_word(view._cdata + at) == word for word, both in zip(words, views, strict=True) for view in both)
        if 0 not in words and len(set(words)) == _SAMPLES and shared and not any(_word(tensor._cdata + at) for tensor in uncounted):
            found.append(at)
    if len(found) != 1:
        return None
    plain = tensors[0]
    counter = _word(plain._cdata + found[0])
    at_first = plain._version
    before = [ctypes.c_uint32.from_address(counter + at).value for at in range(8, 32, 4)]  # a counter has a vtable, reference counts, and the number
    for _ in range(5):
        plain.zero_()
    after = [ctypes.c_uint32.from_address(counter + at).value for at in range(8, 32, 4)]  # what lies behind it may change too
    moved = [8 + 4 * place for place, (old, new) in enumerate(zip(before, after, strict=True)) if (old, new) == (at_first, plain._version)]
    return (found[0], moved[0]) if len(moved) == 1 else None


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value

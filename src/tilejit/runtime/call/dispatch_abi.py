"""Layout of the tables that the native dispatcher reads; written by dispatch.py and dispatch_rows.py, read by the generated code.

All fields are 64-bit slots. The dispatcher is one piece of machine code for every kernel: what differs from kernel to
kernel is data, so nothing is compiled to make a call fast.
"""

from __future__ import annotations

import enum

MAX_ARGS = 32
MAX_RANK = 5
MAX_NEW = 8
"""New tensors of one call."""


class State(enum.IntEnum):
    """Per JITFunction."""

    ARG_COUNT = 0
    """Parameters, and `config` as the last one."""
    ROW_COUNT = 1
    ROWS = 2
    """Address of an array of the addresses of rows, most recently used first."""
    DRIFT = 3
    """Address of a count, a Python function that asks what no words tell (or 0), then pairs (address of a memory word, its content when all captured
    values were last found unchanged)."""
    IN_FLIGHT = 4
    """Calls that run now: what they use must stay."""
    SLOW = 5
    """Python callable that takes every call that native code does not."""
    FAILED = 6
    """Python callable (number of the row, status, four integers) that raises the failure of a kernel."""
    NUMPY_TYPE = 7
    TORCH_TYPE = 8
    """Address of torch.Tensor, 0 while torch is not loaded."""
    TORCH_EXCHANGE = 9
    NONE = 10
    FLOAT_TYPE = 11
    REQUIRES_GRAD = 12
    """C function behind torch's `requires_grad` attribute, and what it takes besides the tensor."""
    REQUIRES_GRAD_CLOSURE = 13
    TRUE = 14
    ARENA = 15
    """Address of two slots, base and end of scratch memory; base is 0 while a call uses it."""
    HITS = 16
    INT_TYPE = 17
    TORCH_IMPL_AT = 18
    """Byte offset of the C++ tensor's address in a tensor object, of its dispatch keys there, and the keys of a plain dense CPU tensor."""
    TORCH_KEYS_AT = 19
    TORCH_KEYS = 20
    TORCH_GRAD_AT = 21
    """Byte offset of a word there that is 0 if autograd knows nothing of the tensor."""
    TORCH_VERSIONS_AT = 22
    """Byte offset there of the address of its version counter, and of the 32-bit number in that."""
    TORCH_VERSION_AT = 23
    GRAD_MODE = 24
    """C function that tells whether torch records operations in this thread; 0: not known, so it might."""
    GRAD_NOTED = 25
    """1: the callers know that results carry no gradient, so arguments that require it are like others."""
    INTERRUPT = 26
    """Address of what a call sees of signals (interrupt.Record)."""
    TORCH_DEVICE_KEYS = 27
    """The keys of a plain dense tensor on a GPU; those of the CPU until one was seen."""
    POSITIONAL = 28
    """How many parameters can be given by position."""
    NAMES = 29
    """Address of the addresses of the interned names of the parameters; 0 where one has none."""
    ORDER = 30
    """Address of the parameters' numbers: which one each argument by position is for …"""
    INPUT_COUNT = 31
    INPUT_ORDER = 32
    """… and the same for calls with so many arguments; -1: there is no such number."""
    TORCH_GRADED = 33
    """Those of the keys that tensors made in inference mode lack."""
    TORCH_STORAGE_AT = 34
    """Byte offset in the C++ tensor of the address of its storage; 0: not known, the exchange tells what a tensor is. In the storage: the address of its
    memory, and a byte that is 1 if that must be asked for (memory that is copied when it is written)."""
    TORCH_DATA_AT = 35
    TORCH_LAZY_AT = 36
    TORCH_OFFSET_AT = 37
    """Byte offsets in the C++ tensor: its first element in the storage; rank, extents and strides; data type, device type and device number."""
    TORCH_SIZES_AT = 38
    TORCH_DTYPE_AT = 39
    TORCH_DEVICE_TYPE = 40
    """DLPack's number for what has TORCH_DEVICE_KEYS."""
    FLOAT_MODE = 41
    """How the calls that it takes compute with floats (float_mode.bits): a thread that computes otherwise goes the long way."""
    SIZE = 42


class Row(enum.IntEnum):
    """Per call that it takes."""

    KERNEL = 0
    ID = 1
    ARENA_NEEDED = 2
    THREADS = 3
    SYMBOLS = 4
    """How many dynamic symbols its guards mention."""
    BRIEF = 5
    """1: so short that giving up the GIL would cost more than the kernel."""
    TEAM = 6
    """Address of the thread pool's state; 0: the kernel runs on one thread."""
    TABLE = 7
    """Address of a launch table, for kernels that run on a GPU."""
    NEW_COUNT = 8
    NEW = 9
    """Address of the rows of the tensors that the call makes and returns."""
    GUARDS = 10
    """Slots of Guard × parameter count follow."""


class Guard(enum.IntEnum):
    """Per parameter of such a call."""

    KIND = 0
    DTYPE = 1
    """NumPy: address of the dtype object; torch: its own number, or DLPack's bits where the exchange tells; integers: the bits that a run-time scalar has."""
    RANK = 2
    FLAGS = 3
    """NumPy flags that must be set."""
    ITEM_SIZE = 4
    IS_OUTPUT = 5
    SLOT = 6
    """Where the parameter starts in the argument block; -1: it is not there (a specialised scalar)."""
    VALUE = 7
    """Scalar constants: the object (OBJECT) or the bits of the double (FLOAT); what stands for a parameter with a slot that is not given (ABSENT)."""
    EXTENTS = 8
    """MAX_RANK slots; -1 is dynamic. Integers: smallest and largest value."""
    SYMBOLS = 13
    """MAX_RANK slots; -1 has no symbol."""
    NOTED = 18
    """The kind that the argument is noted as."""
    DEVICE = 19
    """Where a tensor must be: DLPack's device type, and the number of the device in the upper half."""
    FLAT = 20
    """1: a tensor of any rank, as one row."""
    BETWEEN = 21
    """The bits of an address that are 0 where elements may lie."""
    SIZE = 22


class Kind(enum.IntEnum):
    """What a parameter must be."""

    NUMPY = 0
    TORCH = 1
    OBJECT = 2
    """Exactly this object: bools, None."""
    FLOAT = 3
    """A Python float with exactly these bits."""
    INTEGER = 4
    """A Python int in a range: of one value if it was specialised, of its dtype if it stays a parameter."""
    REAL32 = 5
    """Any Python float, passed on as FP32."""
    REAL64 = 6
    ABSENT = 7
    """Not given."""


class New(enum.IntEnum):
    """Per tensor that a call makes: `function(shape, second, third)`, the last ones by name where the framework wants that."""

    FUNCTION = 0
    SECOND = 1
    THIRD = 2
    POSITIONAL = 3
    NAMES = 4
    """Address of a tuple of names, or 0."""
    KIND = 5
    RANK = 6
    SLOT = 7
    EXTENTS = 8
    """MAX_RANK slots."""
    SYMBOLS = 13
    """MAX_RANK slots; -1: the extent is the number above."""
    CLEAR_BYTES = 18
    """Bytes that are still to be set to 0."""
    DTYPE = 19
    """What a tensor of torch must turn out to be, whoever made it: its data type as guards know it, and where it is."""
    DEVICE = 20
    ITEM_SIZE = 21
    SIZE = 22


class Argument(enum.IntEnum):
    """What the dispatcher notes of an argument while it guards (on its own stack)."""

    KIND = 0
    DTYPE = 1
    RANK = 2
    DATA = 3
    """Address that its first element is OFFSET elements after."""
    EXTENTS = 4
    STRIDES = 5
    FLAGS = 6
    OBJECT = 7
    DEVICE = 8
    OFFSET = 9
    START = 10
    """Address of its first element, and first address past its elements, once it fits a guard."""
    END = 11
    SIZE = 12


NUMPY_DENSE, NUMPY_WRITEABLE = 0x1, 0x400
"""Flags of an array."""
TORCH_INLINE = 5
"""Axes whose extents and strides lie in torch's C++ tensor itself."""
HERE = 1
"""The device of arrays in the memory of this process."""
SLOW = -2
"""Status of a kernel that did nothing yet because Python must look at the call."""

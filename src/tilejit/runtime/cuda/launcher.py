"""A kernel on one device as a Python function of its grid and arguments: one pack and one call of the driver."""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilejit.errors import ResourceError
from tilejit.lazy import lazy
from tilejit.runtime.cuda import driver as api
from tilejit.runtime.cuda.devices import LOCK, Device, refuse_child
from tilejit.runtime.cuda.memory import Memory
from tilejit.runtime.cuda.printing import LaunchLog
from tilejit.runtime.cuda.program import DIVISIBLE, CubinRow, KernelRow
from tilejit.runtime.cuda.streams import seat

_FORMATS = {
    "i1": "B", "u1": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp16": "e", "fp32": "f", "fp64": "d", "bf16": "H",
}  # fmt: skip
"""How a scalar of Triton's type lies in its 8-byte slot."""
_CONFIG = "=IIIIIIIxxxxQQIxxxx"
"""CUlaunchConfig: grid, block, shared bytes, stream, attributes."""
_COOPERATIVE, _CLUSTER = 2, 4
"""Launch attributes."""
_TOO_LARGE = 720

Launch = Callable[..., None]
"""(stream, memory, grid x, y, z, arguments …)"""


class Block(NamedTuple):
    """What one launch needs while the driver reads it: its configuration, the values behind it, and the addresses of those."""

    content: bytearray
    config: int
    """Address of the content."""
    places: int
    kept: tuple[object, ...]


@dataclass(frozen=True)
class LoadedCubin:
    """A variant of a kernel on a device, loaded there when it is launched for the first time."""

    device: Device
    row: CubinRow
    code: Callable[[], bytes] = field(repr=False)

    @lazy
    def function(self) -> int:
        """The kernel of the cubin, allowed to use the shared memory it needs."""
        device, driver, facts = self.device, self.device.driver, self.row.facts
        with device.active():
            module = driver.word("cuModuleLoadData", self.code())
            function = driver.word("cuModuleGetFunction", module, facts.symbol.encode())
            if facts.shared > api.STATIC_SHARED_LIMIT:
                most = device.attribute(api.SHARED_PER_BLOCK)
                if facts.shared > most:
                    what = f"kernel {facts.symbol} needs {facts.shared} bytes of shared memory per block, {device.name} has {most}"
                    raise ResourceError(what, help="use smaller tiles, or compile for this GPU")
                driver("cuFuncSetAttribute", function, api.DYNAMIC_SHARED, facts.shared)
        return function

    @lazy
    def resident(self) -> int:
        """Blocks that run at once."""
        device, facts = self.device, self.row.facts
        with device.active():
            each = device.driver.number("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.function, 32 * facts.warps, facts.shared)
        return each * device.multiprocessors

    def sharing(self, kernel: KernelRow) -> int:
        """Programs that share the blocks of a kernel: whole gangs that run at once, or walkers, an odd number so that long and short blocks take turns."""
        if kernel.walkers:
            return max(1, kernel.walkers * self.device.multiprocessors - 1)
        return max(1, self.resident // kernel.gang) * kernel.gang

    @lazy
    def attributes(self) -> ctypes.Array[ctypes.c_uint32] | None:
        return _attributes(self.row)

    @lazy
    def attributes_at(self) -> int:
        """Their address; 0: there are none."""
        return ctypes.addressof(self.attributes) if self.attributes is not None else 0

    @lazy
    def attribute_count(self) -> int:
        return (self.row.facts.cooperative + (self.row.facts.clusters > 1)) if self.attributes is not None else 0


def _attributes(row: CubinRow) -> ctypes.Array[ctypes.c_uint32] | None:
    """CUlaunchAttribute: a number, padding, and 64 bytes for its value."""
    found = ([(_COOPERATIVE, [1])] if row.facts.cooperative else []) + ([(_CLUSTER, [row.facts.clusters, 1, 1])] if row.facts.clusters > 1 else [])
    if not found:
        return None
    words: list[int] = []
    for number, value in found:
        words += [number, 0, *value, *[0] * (16 - len(value))]
    return (ctypes.c_uint32 * len(words))(*words)


class Launcher:
    """A kernel on one device as a function of stream, memory, grid and arguments."""

    def __init__(self, device: Device, kernel: KernelRow, loaded: Sequence[LoadedCubin], errors: int, log: LaunchLog) -> None:
        """`errors` is the address of the failure words, `log` shows what the kernel prints."""
        self.device, self.kernel, self.loaded = device, kernel, loaded
        self._errors, self._log = errors, log
        given = [parameter for parameter in kernel.parameters if parameter.kind in ("pointer", "scalar")]
        self._divisible = [at for at, parameter in enumerate(given) if parameter.divisible]
        self._narrow = [at for at, parameter in enumerate(given) if parameter.type == "bf16"]
        self._supplied = [(at, parameter.kind) for at, parameter in enumerate(kernel.parameters) if parameter.kind not in ("pointer", "scalar")]
        self._formats = [_format(parameter.type) for parameter in kernel.parameters] + ["Q", "Q"]
        self._packer = struct.Struct(_CONFIG + "".join(form + "x" * (8 - struct.calcsize("=" + form)) for form in self._formats))
        self.driver_call = device.driver.raw("cuLaunchKernelEx")
        self.blocks: list[Block] = []
        """What launches need while the driver reads it; those that no launch uses now."""

    def __call__(self, stream: int, memory: Memory | None, gx: int, gy: int, gz: int, *arguments: int | float) -> None:
        if gx <= 0 or gy <= 0 or gz <= 0:
            return
        cubin, values = self.loaded[-1], list(arguments)
        for at in self._divisible:
            if int(values[at]) % DIVISIBLE:
                cubin = self.loaded[0]
        for at in self._narrow:
            values[at] = bfloat16_bits(values[at])
        if self.kernel.shared:
            gx = min(gx, cubin.sharing(self.kernel))
        facts, programs, log = cubin.row.facts, gx * gy * gz, 0
        for at, kind in self._supplied:
            found = self._supply(kind, memory, stream, programs)
            log = found if kind == "log" else log
            values.insert(at, found)
        scratch = memory.take(facts.scratch * facts.clusters * programs) if facts.scratch and memory is not None else 0
        block = self.blocks.pop() if self.blocks else self._new_block()
        config = (gx * facts.clusters, gy, gz, 32 * facts.warps, 1, 1, facts.shared, stream, cubin.attributes_at, cubin.attribute_count)
        self._packer.pack_into(block.content, 0, *config, *values, scratch, 0)
        status = self.driver_call(block.config, cubin.function, block.places, None)
        if status:
            self.recover(status, block, cubin)
        self.blocks.append(block)
        if log:
            self._log.show(stream, log)

    def _supply(self, kind: str, memory: Memory | None, stream: int, programs: int) -> int:
        if kind == "error":
            return self._errors
        assert memory is not None
        match kind:
            case "scratch":
                return memory.take(self.kernel.scratch_bytes * programs)
            case "barrier":
                if not self.kernel.meeting_bytes and seat():  # other ranks may add to the same cells
                    return self.device.lock
                return self.zeroed(memory, stream, self.kernel.meeting_bytes * programs or LOCK)
            case _:
                return self._log.begin(memory, stream)

    def _new_block(self) -> Block:
        content = bytearray(self._packer.size)
        held = ctypes.c_char.from_buffer(content)  # keeps it where it is; a type for an array of that size would take longer to make
        start, first = ctypes.addressof(held), struct.calcsize(_CONFIG)
        places = array("Q", range(start + first, start + first + 8 * len(self._formats), 8))
        return Block(content, start, places.buffer_info()[0], (held, places))

    def zeroed(self, memory: Memory, stream: int, size: int) -> int:
        """Bytes that are 0."""
        address = memory.take(size)
        self.device.driver("cuMemsetD8Async", address, 0, size, stream)
        return address

    def recover(self, status: int, block: Block, cubin: LoadedCubin) -> None:
        """A thread that never used the GPU has no context yet; everything else is an error."""
        refuse_child()
        if status == api.INVALID_CONTEXT:
            self.device.activate()
            status = self.driver_call(block.config, cubin.function, block.places, None)
        if status == _TOO_LARGE:
            raise self.too_large(cubin)
        if status:
            raise self.device.driver.error(status, f"the launch of {self.kernel.name}")

    def too_large(self, cubin: LoadedCubin) -> ResourceError:
        fit = cubin.resident
        what = f"kernel {self.kernel.name} waits for all its blocks, and only {fit} of them run at once on {self.device.name}"
        return ResourceError(what, help=f"use at most {fit} blocks")


def _format(type: str) -> str:
    return "Q" if type.startswith("*") else _FORMATS[type]


def bfloat16_bits(value: float) -> int:
    """The bits of a number that bfloat16 can hold."""
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16

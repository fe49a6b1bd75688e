"""A kernel on one device as a Python function of its grid and arguments, written out so that a launch is one pack and one call of the driver."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilejit.errors import ResourceError
from tilejit.runtime.artifact.lazy import lazy
from tilejit.runtime.cuda import driver as api
from tilejit.runtime.cuda.devices import Device, refuse_child
from tilejit.runtime.cuda.printing import LaunchLog
from tilejit.runtime.cuda.program import DIVISIBLE, CubinRow, KernelRow

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

Launcher = Callable[..., None]
"""(stream, memory, grid x, y, z, arguments …)"""


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
    def attributes(self) -> ctypes.Array[ctypes.c_uint32] | None:
        return _attributes(self.row)

    @property
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


def launcher(device: Device, kernel: KernelRow, loaded: Sequence[LoadedCubin], errors: int, log: LaunchLog) -> Launcher:
    """The kernel as a function; `errors` is the address of the failure words, `log` shows what it prints."""
    return _Writer(device, kernel, loaded, errors, log).function()


class _Writer:
    def __init__(self, device: Device, kernel: KernelRow, loaded: Sequence[LoadedCubin], errors: int, log: LaunchLog) -> None:
        self.device, self.kernel, self.loaded, self.errors = device, kernel, loaded, errors
        self.formats = [_format(parameter.type) for parameter in kernel.parameters] + ["Q", "Q"]
        self.packer = struct.Struct(_CONFIG + "".join(form + "x" * (8 - struct.calcsize("=" + form)) for form in self.formats))
        self.names: dict[str, object] = {
            "blocks": [], "new_block": self.new_block, "pack": self.packer.pack_into, "call": device.driver.raw("cuLaunchKernelEx"),
            "recover": self.recover, "zeroed": self.zeroed, "bf16": bfloat16_bits, "begin": log.begin, "show": log.show,
        }  # fmt: skip

    def new_block(self) -> tuple[object, int, int, object]:
        """What one launch needs while the driver reads it: the packed block, and the addresses of the values in it."""
        block = ctypes.create_string_buffer(self.packer.size)
        start, first = ctypes.addressof(block), struct.calcsize(_CONFIG)
        places = (ctypes.c_void_p * len(self.formats))(*(start + first + 8 * at for at in range(len(self.formats))))
        return block, start, ctypes.addressof(places), places

    def function(self) -> Launcher:
        taken = [parameter for parameter in self.kernel.parameters if parameter.kind in ("pointer", "scalar")]
        arguments = {parameter.name: f"a{at}" for at, parameter in enumerate(taken)}
        lines = [
            f"def launch({', '.join(['stream', 'memory', 'gx', 'gy', 'gz', *arguments.values()])}):",
            " if gx <= 0 or gy <= 0 or gz <= 0: return",
            " try: block = blocks.pop()",
            " except IndexError: block = new_block()",
        ]
        prints = any(parameter.kind == "log" for parameter in self.kernel.parameters)
        if prints:
            lines.insert(2, " log = begin(memory, stream)")
        divisible = [arguments[parameter.name] for parameter in taken if parameter.divisible]
        general, *aligned = self.loaded
        if aligned:
            lines.append(f" if not ({' | '.join(divisible)}) & {DIVISIBLE - 1}:")
            lines += self.variant(aligned[0], arguments, "  ", "1")
            lines.append(" else:")
        lines += self.variant(general, arguments, "  " if aligned else " ", "0")
        lines += [" if status: recover(status, block, function)", " blocks.append(block)"]
        if prints:
            lines.append(" show(stream, log)")
        # Names and numbers of this module only.
        exec("\n".join(lines), self.names)
        return self.names["launch"]  # type: ignore[return-value]

    def variant(self, cubin: LoadedCubin, arguments: Mapping[str, str], indent: str, suffix: str) -> list[str]:
        facts = cubin.row.facts
        self.names[f"cubin{suffix}"] = cubin
        attributes = ctypes.addressof(cubin.attributes) if cubin.attributes is not None else 0
        programs = "gx * gy * gz"
        values = [self.value(parameter.name, parameter.kind, parameter.type, arguments, programs) for parameter in self.kernel.parameters]
        values += [f"memory.take({facts.scratch * facts.clusters} * {programs})" if facts.scratch else "0", "0"]
        grid = f"gx * {facts.clusters}, gy, gz" if facts.clusters > 1 else "gx, gy, gz"
        config = f"{grid}, {32 * facts.warps}, 1, 1, {facts.shared}, stream, {attributes}, {cubin.attribute_count}"
        return [
            f"{indent}function = cubin{suffix}.function",
            f"{indent}pack(block[0], 0, {config}, {', '.join(values)})",
            f"{indent}status = call(block[1], function, block[2], None)",
        ]

    def value(self, name: str, kind: str, type: str, arguments: Mapping[str, str], programs: str) -> str:
        match kind:
            case "scratch":
                return f"memory.take({self.kernel.scratch_bytes} * {programs})"
            case "error":
                return str(self.errors)
            case "barrier":
                return "zeroed(memory, stream)"
            case "log":
                return "log"
            case _:
                return f"bf16({arguments[name]})" if type == "bf16" else arguments[name]

    def zeroed(self, memory: object, stream: int) -> int:
        """A counter that stands at 0."""
        address: int = memory.take(4)  # type: ignore[attr-defined]
        self.device.driver("cuMemsetD8Async", address, 0, 4, stream)
        return address

    def recover(self, status: int, block: tuple[object, int, int, object], function: int) -> None:
        """A thread that never used the GPU has no context yet; everything else is an error."""
        refuse_child()
        if status == api.INVALID_CONTEXT:
            self.device.activate()
            status = self.device.driver.raw("cuLaunchKernelEx")(block[1], function, block[2], None)
        if status == _TOO_LARGE:
            raise self.too_large(function)
        if status:
            raise self.device.driver.error(status, f"the launch of {self.kernel.name}")

    def too_large(self, function: int) -> ResourceError:
        facts = next(cubin.row.facts for cubin in reversed(self.loaded) if cubin.function == function)
        each = self.device.driver.number("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, 32 * facts.warps, facts.shared)
        fit = each * self.device.multiprocessors
        what = f"kernel {self.kernel.name} waits for all its blocks, and only {fit} of them run at once on {self.device.name}"
        return ResourceError(what, help=f"use at most {fit} blocks")


def _format(type: str) -> str:
    return "Q" if type.startswith("*") else _FORMATS[type]


def bfloat16_bits(value: float) -> int:
    """The bits of a number that bfloat16 can hold."""
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16

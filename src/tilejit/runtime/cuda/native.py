"""The launch list of an entry as tables for native code (launch_abi.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilejit.runtime.call.signature import ParamInfo
from tilejit.runtime.cuda.devices import Device
from tilejit.runtime.cuda.launch_abi import MAX_DEPTH, MAX_PARAMETERS, OPERATIONS, Op, Record, Table, Variant
from tilejit.runtime.cuda.launcher import LoadedCubin
from tilejit.runtime.cuda.program import DIVISIBLE, CudaProgram, EntryRow, KernelRow, LaunchRow, Node
from tilejit.runtime.cuda.words import FailureWords

_DIVISIONS = ("floordiv", "ceildiv", "mod")
_WIDE = ("INDEX", "INT64", "UINT64")
"""Scalars whose slot holds them as a 64-bit number."""
_SAME_BITS = {
    "FP64": "fp64", "FP32": "fp32", "FP16": "fp16", "BF16": "bf16",
    "INT8": "i8", "INT16": "i16", "INT32": "i32", "UINT8": "u8", "UINT16": "u16", "UINT32": "u32",
    "BOOL": "i1",
}  # fmt: skip
"""Narrower ones: the parameter's type that takes the bits of the slot as they are."""


Number = list[int]
"""Words of a tape, without its end."""


class _NotExpressible(Exception):
    """Something that only the host text says."""


@dataclass(frozen=True, slots=True)
class Calls:
    """C functions that native code calls besides the driver's."""

    stream: int
    """(device type, device number, address of the stream): the caller's current one."""
    allocate: int
    """(DLTensor, address of the result, what `hear` is given, hear): memory of the caller's framework, as DLPack has it."""
    hear: int


class LaunchTable:
    """What native code needs to launch an entry on one device; `address` is where it starts."""

    def __init__(
        self, device: Device, words: FailureWords, launches: Sequence[tuple[KernelRow, Sequence[LoadedCubin], list[Number]]], size: Number, calls: Calls
    ) -> None:
        self._words = words  # owns the failure word
        self._records = [_record(*launch) for launch in launches]
        addresses = (ctypes.c_int64 * max(1, len(self._records)))(*(ctypes.addressof(record[0]) for record in self._records))
        table = (ctypes.c_int64 * int(Table.SIZE))()
        table[Table.WORD], table[Table.LAUNCH] = words.address, device.driver.address("cuLaunchKernelEx")
        table[Table.ZERO] = device.driver.address("cuMemsetD8Async")
        table[Table.STREAM], table[Table.DEVICE] = calls.stream, device.index
        table[Table.COUNT], table[Table.RECORDS] = len(self._records), ctypes.addressof(addresses)
        tape = (ctypes.c_int64 * (len(size) + 1))(*size, Op.END)
        if size != [Op.CONSTANT, 0]:
            table[Table.BYTES], table[Table.ALLOCATE], table[Table.HEAR] = ctypes.addressof(tape), calls.allocate, calls.hear
        self._kept = (addresses, table, tape)
        self.address = ctypes.addressof(table)


def _record(kernel: KernelRow, cubins: Sequence[LoadedCubin], numbers: Sequence[Number]) -> tuple[ctypes.Array[ctypes.c_int64], object]:
    record = (ctypes.c_int64 * int(Record.SIZE))()
    for place, cubin in ((Record.GENERAL, cubins[0]), (Record.ALIGNED, cubins[-1])):
        facts = cubin.row.facts
        record[place + Variant.FUNCTION], record[place + Variant.THREADS], record[place + Variant.SHARED] = cubin.function, 32 * facts.warps, facts.shared
        record[place + Variant.ATTRIBUTES] = cubin.attributes_at
        record[place + Variant.ATTRIBUTE_COUNT], record[place + Variant.CLUSTERS] = cubin.attribute_count, facts.clusters
    masks = [0, 0, 0, *((DIVISIBLE - 1) * parameter.divisible for parameter in kernel.parameters), 0, 0]
    if len(numbers) > len(masks):
        record[Record.ZEROED] = len(masks)
        masks += [0, 0]
    given, moves, tapes = [0] * len(numbers), list[int](), list[int]()
    for place, (number, mask) in enumerate(zip(numbers, masks, strict=True)):
        if number[0] == Op.CONSTANT and len(number) == 2:
            given[place] = number[1]
            record[Record.REST] |= number[1] & mask
        elif number[0] == Op.SLOT and len(number) == 2:
            moves += [place, mask, number[1]]
            record[Record.MOVE_COUNT] += 1
        else:
            tapes += [place, mask, *number, Op.END]
            record[Record.TAPE_COUNT] += 1
    words = [(ctypes.c_int64 * max(1, len(table)))(*table) for table in (given, moves, tapes)]
    record[Record.NUMBERS] = len(numbers)
    record[Record.GIVEN], record[Record.MOVES], record[Record.TAPES] = map(ctypes.addressof, words)
    return record, (words, cubins)


def numbers_of(
    program: CudaProgram, row: EntryRow, params: Sequence[ParamInfo], places: Sequence[int], errors: int, resident: Callable[[int], int]
) -> tuple[list[list[Number]], Number] | None:
    """The numbers of each launch of an entry, over the argument block of its parameters, and the bytes of all; None: native code cannot compute them."""
    if row.launches is None:
        return None
    slots = _Slots(row, params, places, resident)
    try:
        return [_numbers(program.kernels[launch.kernel], launch, slots, errors) for launch in row.launches], _postfix(row.bytes, slots)
    except _NotExpressible:
        return None


class _Slots:
    """Where the inputs of an entry lie in the argument block."""

    def __init__(self, row: EntryRow, params: Sequence[ParamInfo], places: Sequence[int], resident: Callable[[int], int]) -> None:
        self._row, self._params, self.resident = row, params, resident
        self.places = [_slot(params, places, *given) for given in row.inputs]

    def dtype(self, position: int) -> str | None:
        """Of a scalar input; None: an address, extent or stride."""
        at, fact, _ = self._row.inputs[position]
        return self._params[at].dtype.name if fact == "value" else None

    def wide(self, position: int) -> int:
        """The slot of an input that holds it as a 64-bit number."""
        if self.dtype(position) not in (None, *_WIDE):
            raise _NotExpressible
        return self.places[position]


def _slot(params: Sequence[ParamInfo], places: Sequence[int], at: int, fact: str, axis: int) -> int:
    return places[at] + {"address": 0, "value": 0, "extent": 1 + axis, "stride": 1 + len(params[at].shape or ()) + axis}[fact]


def _numbers(kernel: KernelRow, launch: LaunchRow, slots: _Slots, errors: int) -> list[Number]:
    if len(kernel.parameters) + 4 > MAX_PARAMETERS:
        raise _NotExpressible
    numbers = [_postfix(number, slots) for number in launch.grid]
    given = iter(launch.arguments)
    for parameter in kernel.parameters:
        if parameter.kind == "error":
            numbers.append([Op.CONSTANT, errors])
            continue
        node = next(given)
        position = node[1] if isinstance(node, tuple) and node[0] == "input" else None
        kind = slots.dtype(position) if isinstance(position, int) else None
        if isinstance(position, int) and kind is not None and kind not in _WIDE and _SAME_BITS.get(kind) == parameter.type:
            numbers.append([Op.SLOT, slots.places[position]])
        elif parameter.type.startswith(("*", "i", "u")):
            numbers.append(_postfix(node, slots))
        else:
            raise _NotExpressible
    return [*numbers, _postfix(launch.scratch, slots), [Op.CONSTANT, 0], *(_postfix(number, slots) for number in launch.zeroed)]


def _postfix(node: Node, slots: _Slots, depth: int = 1) -> Number:
    if depth > MAX_DEPTH:
        raise _NotExpressible
    if isinstance(node, int):
        return [Op.CONSTANT, node]
    if node[0] == "input" and isinstance(node[1], int):
        return [Op.SLOT, slots.wide(node[1])]
    if node[0] == "resident" and isinstance(node[1], int):
        return [Op.CONSTANT, slots.resident(node[1])]
    if node[0] == "memory":
        return [Op.MEMORY, *([*_postfix(node[1], slots, depth + 1), Op.ADD] if node[1] != 0 else [])]
    operation, left, right = node  # type: ignore[misc]
    if operation not in OPERATIONS or (operation in _DIVISIONS and not (isinstance(right, int) and right > 0)):
        raise _NotExpressible
    return [*_postfix(left, slots, depth), *_postfix(right, slots, depth + 1), Op[operation.upper()]]

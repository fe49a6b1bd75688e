"""A warm call in Python: the guards, the argument block and the new tensors of one specialisation, written out as one function without loops."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tilejit.dtypes import BOOL, DType, integer_range
from tilejit.errors import TilejitError
from tilejit.kinds import is_torch_tensor
from tilejit.runtime.arrays import ADDRESS_AT, data_address
from tilejit.runtime.call.dispatch_abi import NUMPY_DENSE, NUMPY_WRITEABLE
from tilejit.runtime.call.guards import MISS, ArgumentGuard, FixedGuard, NewTensor, RuntimeGuard, ScalarGuard, TensorGuard, first_tensor, guards_of, new_tensors
from tilejit.runtime.call.memory import WORDS
from tilejit.runtime.call.native import EMPTY_CONTEXT, NativeEntry, Placed, scalar_bits, values_of
from tilejit.runtime.targets import HOST

if TYPE_CHECKING:
    from tilejit.runtime.artifact.entry import CompiledEntry

WrittenCall = Callable[[tuple[object, ...]], object]


@dataclass(frozen=True, slots=True)
class Launch:
    """How to run the code: on an argument block of so many slots, and what to do with an error before it is raised."""

    run: Callable[[bytes], None]
    slots: int
    relocate: Callable[[TilejitError], None]
    noted: object
    """True once the callers of the kernel know that results carry no gradient."""
    device: str = HOST
    """Where the tensors must be."""
    bare: Callable[[bytes, bytes], int] | None = None
    """The code itself, where a block is all it needs, and what raises for a status other than 0."""
    failed: Callable[[int, Sequence[int]], None] | None = None

    def number(self, value: str, dtype: DType, names: dict[str, object]) -> str:
        """The slot of a scalar argument that fits its dtype."""
        if dtype.is_float:
            names |= {"scalar_bits": scalar_bits, f"d{value}": dtype}
            return f"scalar_bits({value}, d{value})"
        return f"int({value})" if dtype is BOOL else f"{value} & {(1 << max(8, dtype.bits)) - 1}"

    def lines(self, block: Sequence[str], names: dict[str, object]) -> list[str]:
        """What starts the code, given the expressions of the argument block; `names` is what the lines can refer to."""
        packed = _packed(block, names)
        if self.bare is None:
            names["launch"] = self.run
            return [f"launch({packed})"]
        names |= {"code": self.bare, "empty_context": EMPTY_CONTEXT, "failed": self.failed, "values_of": values_of}
        return ["context = empty_context()", f"status = code({packed}, context)", "if status: failed(status, values_of(context))"]


def _packed(block: Sequence[str], names: dict[str, object]) -> str:
    """The argument block as bytes; neighbours that are numbers already are packed now. A slot is a pointer to struct, which is quickest at those."""
    form, parts = "@", list[str]()
    for known, slots in itertools.groupby(block, str.isdigit):
        if known:
            numbers = [int(slot) for slot in slots]
            parts.append(f"k{len(parts)}")
            names[parts[-1]] = struct.pack(f"@{len(numbers)}P", *numbers)
            form += f"{8 * len(numbers)}s"
        else:
            expressions = list(slots)
            parts += expressions
            form += f"{len(expressions)}P"
    names["pack"] = struct.Struct(form).pack
    return f"pack({', '.join(parts)})"


class Start(Protocol):
    """How to run the code of a specialisation: Launch for machine code; a target with code elsewhere has its own."""

    @property
    def slots(self) -> int: ...

    @property
    def device(self) -> str: ...

    @property
    def noted(self) -> object: ...

    @property
    def relocate(self) -> Callable[[TilejitError], None]: ...

    def number(self, value: str, dtype: DType, names: dict[str, object]) -> str: ...

    def lines(self, block: Sequence[str], names: dict[str, object]) -> list[str]: ...


def written_call(guards: Sequence[ArgumentGuard], new: Sequence[NewTensor], same_buffer: Collection[tuple[int, int]], launch: Start) -> WrittenCall | None:
    """A function of a call's arguments that runs the kernel if they fit the guards, else returns MISS; None when it cannot be written.

    `same_buffer` are pairs of arguments that may be one and the same array.
    """
    try:
        return _Writer(guards, new, same_buffer, launch).function()
    except _CannotWrite:
        return None


def start_of(entry: CompiledEntry, native: NativeEntry | None, arguments: Mapping[str, object]) -> tuple[Placed | None, Start | None]:
    """What runs calls with arguments like these without their full checks: machine code, or whatever else the target's runner offers."""
    if native is not None:
        return native, Launch(native.run_block, native.slots, entry.relocate, entry.note, bare=native.bare, failed=native.failed)
    runner, first = entry.runner, first_tensor(entry, arguments)
    return (runner, runner.launch(first, entry.relocate, entry.note)) if isinstance(runner, Placed) and first is not None else (None, None)


def written_call_of(entry: CompiledEntry, native: Placed, start: Start, arguments: Mapping[str, object]) -> WrittenCall | None:
    """Calls with arguments like these as one Python function, new tensors for those that are left out and for results; None: no such form."""
    new = new_tensors(entry, native, arguments)
    if new is None:
        return None
    names = list(arguments)
    same_buffer = [(names.index(output), names.index(source)) for output, source in entry.signature.in_place if output in names and source in names]
    return written_call(guards_of(entry, native, arguments), new, same_buffer, start)


class _CannotWrite(Exception):
    """A guard that has no such form."""


@dataclass(frozen=True, slots=True)
class _Range:
    """The memory of a tensor argument, as Python expressions."""

    position: int
    size: str
    written: bool


class _Writer:
    def __init__(self, guards: Sequence[ArgumentGuard], new: Sequence[NewTensor], same_buffer: Collection[tuple[int, int]], launch: Start) -> None:
        self.guards, self.new, self.same_buffer = guards, new, same_buffer
        self.block = ["0"] * launch.slots
        self.launch = launch
        self.names: dict[str, object] = {
            "MISS": MISS, "ndarray": np.ndarray, "WORDS": WORDS, "address_of": data_address, "TilejitError": TilejitError,
            "relocate": launch.relocate, "noted": launch.noted,
        }  # fmt: skip
        self.lines: list[str] = []
        self.symbols: dict[int, str] = {}
        self.ranges: list[_Range] = []
        self.frameworks: set[str] = set()
        self.tensors_written: list[int] = []
        """Arguments whose writes torch must hear of."""

    def function(self) -> WrittenCall:
        arguments = ", ".join(f"a{position}" for position in range(len(self.guards)))
        self.require(f"len(args) == {len(self.guards)}")
        if self.guards:
            self.lines.append(f"{arguments}, = args")
        for position, guard in enumerate(self.guards):
            match guard:
                case TensorGuard():
                    self.tensor(position, guard)
                case ScalarGuard():
                    self.constant(f"a{position}", guard.value)
                case RuntimeGuard():
                    self.scalar(f"a{position}", guard)
                case FixedGuard():
                    raise _CannotWrite
        self.overlaps()
        for number, tensor in enumerate(self.new):
            self.allocate(f"n{number}", tensor)
        self.lines += [f"note_write(a{position})" for position in self.tensors_written]
        start = [f" {line}" for line in self.launch.lines(self.block, self.names)]
        self.lines += ["try:", *start, "except TilejitError as error:", " relocate(error)", " raise"]
        results = ", ".join(f"n{number}" for number in range(len(self.new)))
        self.lines.append(f"return {results or None}")
        # The text holds numbers and names of this module only; everything of the caller is an object in `names`.
        exec("def call(args):\n" + "".join(f" {line}\n" for line in self.lines), self.names)
        return self.names["call"]  # type: ignore[return-value]

    def require(self, *conditions: str) -> None:
        self.lines.append(f"if not ({' and '.join(conditions)}): return MISS")

    def bind(self, name: str, value: object) -> str:
        self.names[name] = value
        return name

    # tensors ----------------------------------------------------------------------------------------------------------------

    def tensor(self, position: int, guard: TensorGuard) -> None:
        value, address, shape = f"a{position}", f"p{position}", f"s{position}"
        static = None not in guard.extents
        if self.launch.device != HOST:
            self.device_tensor(position, guard)
        elif type(guard.sample) is np.ndarray:
            self.frameworks.add("numpy")
            dtype, mask = self.bind(f"d{position}", guard.sample.dtype), NUMPY_DENSE | (NUMPY_WRITEABLE if guard.is_output else 0)
            fits = [f"type({value}) is ndarray", f"{value}.dtype is {dtype}", f"{value}.flags.num & {mask} == {mask}"]
            self.require(*fits, *([f"{value}.shape == {guard.extents!r}"] if static else []))
            if not static:
                self.lines.append(f"{shape} = {value}.shape")
            self.lines.append(f"{address} = {self.numpy_address(value)}")
        else:
            self.torch_tensor(position, guard)
        if not static:
            self.dynamic_shape(position, guard)
        if guard.between:
            self.require(f"not {address} & {guard.between}")
        extents = [str(extent) if static else f"x{position}_{axis}" for axis, extent in enumerate(guard.extents)]
        self.fill(guard.slot, address, extents)
        self.ranges.append(_Range(position, _product([str(guard.item_size), *extents]), guard.is_output))

    def numpy_address(self, value: str) -> str:
        return f"address_of({value})" if ADDRESS_AT is None else f"WORDS[id({value}) + {ADDRESS_AT} >> 3]"

    def device_tensor(self, position: int, guard: TensorGuard) -> None:
        """The checks of torch.plain_facts for tensors on a GPU, in line: there the call of a function for each tensor would be felt."""
        self.torch_module(position, guard)
        from tilejit.runtime.torch_layout import plain_tensor_like  # not where there is no torch

        value, plain = f"a{position}", plain_tensor_like(guard.sample)
        if plain is None or WORDS is None:
            raise _CannotWrite
        self.names |= {"Tensor": type(guard.sample), f"d{position}": guard.sample.dtype}  # type: ignore[attr-defined]
        index = int(self.launch.device.partition(":")[2] or 0)
        keys = f"WORDS[WORDS[id({value}) + {plain.impl_at} >> 3] + {plain.keys_at} >> 3] | {plain.graded} == {plain.keys}"
        grad = f"not {value}.requires_grad" if guard.is_output else f"(not {value}.requires_grad or noted)"
        fits = [f"type({value}) is Tensor", keys, f"{value}.dtype is d{position}", f"{value}.get_device() == {index}"]
        self.require(*fits, f"{value}.is_contiguous()", grad)
        self.lines.append(f"s{position} = {value}.shape")
        self.require(*([f"s{position} == {guard.extents!r}"] if None not in guard.extents else []), f"(p{position} := {value}.data_ptr())")

    def torch_module(self, position: int, guard: TensorGuard) -> Any:
        if not is_torch_tensor(type(guard.sample)):
            raise _CannotWrite
        from tilejit.runtime import torch

        self.frameworks.add("torch")
        self.names["note_write"] = torch.note_write
        if guard.is_output:
            self.tensors_written.append(position)
        return torch

    def torch_tensor(self, position: int, guard: TensorGuard) -> None:
        torch = self.torch_module(position, guard)
        self.names["facts_of"] = torch.plain_facts
        dtype = str(guard.sample.dtype).removeprefix("torch.")  # type: ignore[attr-defined]
        self.lines.append(f"facts = facts_of(a{position}, {dtype!r}, {guard.is_output}, noted)")
        self.require("facts is not None", *([f"facts[0] == {guard.extents!r}"] if None not in guard.extents else []))
        self.lines.append(f"s{position}, p{position} = facts")

    def dynamic_shape(self, position: int, guard: TensorGuard) -> None:
        names = [f"x{position}_{axis}" for axis in range(len(guard.extents))]
        self.require(f"len(s{position}) == {len(names)}")
        self.lines.append(f"{', '.join(names)}, = s{position}")
        wanted: list[str] = []
        for name, extent, symbol in zip(names, guard.extents, guard.symbols, strict=True):
            if extent is not None:
                wanted.append(f"{name} == {extent}")
            elif symbol is not None and self.symbols.setdefault(symbol, name) != name:
                wanted.append(f"{name} == {self.symbols[symbol]}")  # extents that disagree are worded by the full checks
        if wanted:
            self.require(*wanted)

    def fill(self, slot: int, address: str, extents: Sequence[str]) -> None:
        rank = len(extents)
        self.block[slot] = address
        self.block[slot + 1 : slot + 1 + rank] = extents
        self.block[slot + 1 + rank : slot + 1 + 2 * rank] = [_product(extents[axis + 1 :]) for axis in range(rank)]

    def overlaps(self) -> None:
        for first, second in itertools.combinations(self.ranges, 2):
            if not (first.written or second.written):
                continue
            a, b = first.position, second.position
            apart = f"not -({first.size}) < p{a} - p{b} < {second.size}"
            if (a, b) in self.same_buffer or (b, a) in self.same_buffer:
                apart = f"({apart} or (p{a} == p{b} and a{a}.shape == a{b}.shape))"
            self.require(apart)

    def allocate(self, name: str, tensor: NewTensor) -> None:
        """Zeros, like those of the full checks, in the framework of the arguments."""
        if len(self.frameworks) != 1:
            raise _CannotWrite
        extents: list[str] = []
        for extent, symbol in zip(tensor.shape, tensor.symbols, strict=True):
            if extent is None and symbol not in self.symbols:
                raise _CannotWrite
            extents.append(self.symbols[symbol] if extent is None and symbol is not None else str(extent))
        shape = f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
        if self.frameworks == {"numpy"}:
            if tensor.dtype.numpy_name is None:
                raise _CannotWrite
            self.bind("zeros", np.zeros)
            self.lines.append(f"{name} = zeros({shape}, {self.bind(f'd{name}', tensor.dtype.numpy)})")
            self.fill(tensor.slot, self.numpy_address(name), extents)
        else:
            from tilejit.runtime import torch

            self.bind("torch_zeros", torch.zeros)
            self.lines.append(f"{name} = torch_zeros({shape}, {self.bind(f'd{name}', tensor.dtype)}, {self.launch.device!r})")
            self.fill(tensor.slot, f"{name}.data_ptr()", extents)

    # scalars ----------------------------------------------------------------------------------------------------------------

    def constant(self, value: str, wanted: object) -> None:
        if wanted is None or type(wanted) is bool:
            self.require(f"{value} is {wanted}")
        elif type(wanted) is int:
            self.require(f"type({value}) is int", f"{value} == {wanted}")
        elif type(wanted) is float:
            # By text, because 0.0 == -0.0 and NaN is not itself.
            self.require(f"type({value}) is float", f"{value}.hex() == {wanted.hex()!r}")
        elif type(wanted) is str or type(wanted) is bytes:
            self.require(f"type({value}) is {type(wanted).__name__}", f"{value} == {wanted!r}")
        elif type(wanted) is tuple:
            self.require(f"{value} is {self.bind(f'k{value}', wanted)}")
        else:
            raise _CannotWrite

    def scalar(self, value: str, guard: RuntimeGuard) -> None:
        dtype = guard.dtype
        if dtype.is_float:
            self.require(f"type({value}) is float")
        elif dtype is BOOL:
            self.require(f"type({value}) is bool")
        else:
            low, high = integer_range(dtype)
            self.require(f"type({value}) is int", f"{low} <= {value} <= {high}")
        self.block[guard.slot] = self.launch.number(value, dtype, self.names)


def _product(factors: Sequence[str]) -> str:
    """Numbers are multiplied now, names when called."""
    number = 1
    names: list[str] = []
    for factor in factors:
        if factor.isdigit():
            number *= int(factor)
        else:
            names.append(factor)
    return "*".join([*names, str(number)]) if number != 1 or not names else "*".join(names)

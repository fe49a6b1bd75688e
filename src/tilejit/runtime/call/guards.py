"""What the arguments of a call must be for one specialisation, and the tensors that the call makes: made once, used by every way of calling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tilejit.dtypes import DType

if TYPE_CHECKING:
    from tilejit.runtime.artifact.entry import CompiledEntry
    from tilejit.runtime.call.native import Placed
    from tilejit.runtime.call.signature import ParamInfo

MISS = object()
"""What a warm way returns for a call that is not its own: nothing has happened yet."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """How something is called."""

    runtime: Mapping[str, bool]
    """For each parameter, in order, whether it is a scalar that stays a parameter of the compiled code."""
    positional: int
    """How many of them can be given by position."""
    named: bool = True
    """Whether they can be given by name."""
    inputs: tuple[str, ...] | None = None
    """The parameters that a call with so few arguments means, where these are not the first ones."""
    config: bool = True
    """Whether `config=` can be given."""
    flat: bool = False
    """Whether the code takes arrays of any rank, each as one row."""
    fixed: str | None = None
    """A parameter that no call gives: its value belongs to what is called."""


@dataclass(frozen=True, slots=True)
class TensorGuard:
    """What an argument must be for a specialisation: an array of one framework, dense, with these extents."""

    sample: object
    """An argument that fits; its framework and dtype object are what is compared."""
    extents: tuple[int | None, ...]
    symbols: tuple[int | None, ...]
    """Number of the dynamic symbol of each extent, where it has one."""
    item_size: int
    is_output: bool
    slot: int
    flat: bool = False
    """Arrays of any rank and of at least one element; the only extent is how many they have."""

    @property
    def between(self) -> int:
        """The bits of an address that are 0 at multiples of the element size, a power of two."""
        return self.item_size - 1


@dataclass(frozen=True, slots=True)
class ScalarGuard:
    """A scalar that was specialised: this very value."""

    value: object


@dataclass(frozen=True, slots=True)
class RuntimeGuard:
    """A scalar that stays a parameter of the kernel."""

    dtype: DType
    slot: int


@dataclass(frozen=True, slots=True)
class FixedGuard:
    """A parameter that is not given: this number stands for it."""

    number: int
    slot: int


ArgumentGuard = TensorGuard | ScalarGuard | RuntimeGuard | FixedGuard


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor that the call allocates and returns; extents are numbers or symbols, by number."""

    dtype: DType
    shape: tuple[int | None, ...]
    symbols: tuple[int | None, ...]
    slot: int


def guards_of(entry: CompiledEntry, native: Placed, arguments: Mapping[str, object], form: CallForm | None = None) -> tuple[ArgumentGuard, ...]:
    """Guards for arguments like these, in the order of the call."""
    flat, fixed = (form.flat, form.fixed) if form is not None else (False, None)
    places = dict(zip((param.name for param in native.params), native.places, strict=True))
    infos = {param.name: param for param in entry.signature.params}
    empty = _empty(entry, arguments)
    guards: list[ArgumentGuard] = []
    for name, value in arguments.items():
        info = infos.get(name)
        if info is None:
            guards.append(ScalarGuard(value))
        elif name == fixed:
            guards.append(FixedGuard(cast("int", value), places[name]))
        elif info.shape is None:
            guards.append(RuntimeGuard(info.dtype, places[name]))
        else:
            extents, symbols = _extents(entry, info, empty)
            guards.append(TensorGuard(value, extents, symbols, info.dtype.get_byte(), info.direction != "In", places[name], flat))
    return tuple(guards)


def _extents(entry: CompiledEntry, info: ParamInfo, empty: set[str]) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Extents that are known, and for the others the number of their symbol."""
    symbols = entry.signature.symbols
    shape = tuple(0 if dim in empty else dim for dim in info.shape or ())
    return tuple(dim if isinstance(dim, int) else None for dim in shape), tuple(symbols.index(dim) if isinstance(dim, str) else None for dim in shape)


def _empty(entry: CompiledEntry, arguments: Mapping[str, object]) -> set[str]:
    """The symbols of extents that are 0, which are known then: a kernel may be another one for tensors with elements."""
    given = ((param.shape, cast("tuple[int, ...]", getattr(arguments.get(param.name), "shape", ()))) for param in entry.signature.params if param.shape)
    return {dim for shape, found in given for dim, extent in zip(shape, found, strict=False) if isinstance(dim, str) and extent == 0}


def new_tensors(entry: CompiledEntry, native: Placed, arguments: Mapping[str, object]) -> list[NewTensor] | None:
    """Tensors that a call with these arguments makes, in the order in which it returns them; None: their extents are computed, or some are numbers."""
    signature = entry.signature
    places = dict(zip((param.name for param in native.params), native.places, strict=True))
    returned = [(info, places[info.name]) for info in entry.signature.params if info.name not in arguments]
    returned += zip(signature.results, native.places[len(native.places) - len(signature.results) :], strict=True)
    if any(info.shape is None for info, _ in returned):
        return None  # a scalar with a default
    if signature.numbers or any(dim in signature.computed for info, _ in returned for dim in info.shape or ()):
        return None
    order = list(signature.returned)
    returned.sort(key=lambda item: order.index(item[0].name) if item[0].name in order else len(order))
    empty = _empty(entry, arguments)
    return [NewTensor(info.dtype, *_extents(entry, info, empty), slot) for info, slot in returned]


def first_tensor(entry: CompiledEntry, arguments: Mapping[str, object]) -> object:
    """The first argument that is a tensor, or None."""
    return next((arguments[info.name] for info in entry.signature.params if info.shape is not None and info.name in arguments), None)

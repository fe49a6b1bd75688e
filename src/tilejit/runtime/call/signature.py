"""The signature of a compiled entry, and the checks that every call passes before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tilejit.dtypes import BOOL, INDEX, DType, integer_range
from tilejit.errors import AliasError, ArgumentError, DTypeError, RangeError, ShapeError, note_argument
from tilejit.lazy import lazy
from tilejit.runtime.arrays import ArrayView, allocate, contiguous_strides, first_array, scalar_of, view_of
from tilejit.runtime.targets import HOST
from tilejit.types.values import EXTENT_OPERATIONS, Dim, Shape, shape_text


@dataclass(frozen=True, slots=True)
class ParamInfo:
    """One parameter of an entry. `shape` is None for a scalar; symbols of dynamic extents are names in it."""

    name: str
    direction: str
    """"In", "Out" or "InOut"."""
    dtype: DType
    shape: tuple[Dim, ...] | None = None

    @property
    def is_tensor(self) -> bool:
        return self.shape is not None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: Scalar[{self.dtype}]"
        kind = f"Tensor[{shape_text(self.shape)}, {self.dtype}]"
        return f"{self.name}: {kind if self.direction == 'In' else f'{self.direction}[{kind}]'}"


@dataclass(frozen=True, slots=True)
class NumberResult:
    """A result that is a number once the kernel has run."""

    array: Any

    def number(self) -> int | float | bool:
        return self.array[0].item()


def as_results(new: tuple[object, ...]) -> object:
    """What a call returns of the arrays that were allocated for it."""
    given = tuple(item.number() if isinstance(item, NumberResult) else item for item in new)
    return None if not given else given[0] if len(given) == 1 else given


Bound = ArrayView | int | float | bool
"""A checked argument."""


@dataclass(frozen=True)
class Signature:
    """How an entry is called."""

    name: str
    params: tuple[ParamInfo, ...]
    """In calling order: tensors as declared, then scalars as declared."""
    results: tuple[ParamInfo, ...] = ()
    """New tensors that the kernel returns: allocated in every call, after the parameters in the code."""
    order: tuple[int, ...] | None = None
    """For each parameter of the code the index of its argument; None: the same order."""
    literals: dict[str, str] = field(default_factory=dict[str, str])
    """What a symbol is called by its author, where the program had to tell two of one name apart."""
    in_place: tuple[tuple[str, str], ...] = ()
    """(output, input) pairs that may be one and the same buffer."""
    returned: tuple[str, ...] = ()
    """Names of what the return statement mentions, in its order; a kernel that returns only parameters hands them out as declared."""
    computed: dict[str, object] = field(default_factory=dict[str, object])
    """Extents of results by symbol: a constant, ("dim", symbol), ("scalar", parameter), or (operation, left, right)."""
    numbers: tuple[str, ...] = ()
    """Results of one element that the caller gets as numbers."""

    @lazy
    def output_indices(self) -> tuple[int, ...]:
        """Parameters that a return-style call leaves out."""
        return tuple(i for i, param in enumerate(self.params) if param.direction == "Out")

    @lazy
    def code_params(self) -> tuple[ParamInfo, ...]:
        """Parameters in the order of the code, with the results after them."""
        ordered = self.params if self.order is None else tuple(self.params[i] for i in self.order)
        return (*ordered, *self.results)

    @lazy
    def symbols(self) -> tuple[str, ...]:
        """Dynamic symbols in the order they appear."""
        dims = [dim for param in self.params for dim in param.shape or () if isinstance(dim, str)]
        return tuple(dict.fromkeys(dims))

    def __str__(self) -> str:
        arrow = f" -> {', '.join(str(result) for result in self.results)}" if self.results else ""
        return f"{self.name}({', '.join(str(param) for param in self.params)}){arrow}"

    # binding ------------------------------------------------------------------------------------------------------------

    def bind(self, args: Sequence[object], devices: Sequence[str] = ("cpu",)) -> tuple[list[Bound], tuple[object, ...]]:
        """Checked arguments in the order of the code, and the arrays that were allocated for the caller. Nothing is written."""
        omitted = self._omitted(len(args))
        if not omitted:  # an output that is None is left out
            omitted = tuple(i for i in self.output_indices if args[i] is None)
            args = [value for i, value in enumerate(args) if i not in omitted] if omitted else args
        given = iter(args)
        bound: list[Bound | None] = [None if i in omitted else self._argument(param, next(given), devices) for i, param in enumerate(self.params)]
        first = first_array(bound)
        tensors = omitted or [result for result in self.results if result.name not in self.numbers]
        self._check_frameworks(bound, returning=bool(tensors))
        extents = self._with_computed(self._extents(bound), bound)
        new: dict[str, object] = {}
        for i in omitted:
            name = self.params[i].name
            new[name] = self._allocate(self.params[i], first, extents)
            bound[i] = view_of(new[name])
        complete = [item for item in bound if item is not None]
        assert len(complete) == len(self.params)
        self._check_overlap(complete)
        if self.order is not None:
            complete = [complete[i] for i in self.order]
        for result in self.results:
            made = self._allocate(result, first, extents)
            view = view_of(made)
            assert view is not None
            if view.device.partition(":")[0] not in devices:
                raise self._nowhere()
            complete.append(view)
            new[result.name] = NumberResult(made) if result.name in self.numbers else made
        names = dict.fromkeys((*self.returned, *new))
        return complete, tuple(new[name] for name in names if name in new)

    def _with_computed(self, extents: dict[str, int], bound: Sequence[Bound | None]) -> dict[str, int]:
        """The extents of this call, with those of new tensors that follow from others."""
        if not self.computed:
            return extents
        scalars = {param.name: value for param, value in zip(self.params, bound, strict=True) if isinstance(value, int)}
        missing = {symbol: found for symbol, found in self.computed.items() if symbol not in extents}
        return {**extents, **{symbol: self._evaluated(symbol, found, extents, scalars) for symbol, found in missing.items()}}

    def _evaluated(self, symbol: str, found: object, extents: Mapping[str, int], scalars: Mapping[str, int]) -> int:
        """The extent `symbol` of a result in this call."""
        try:
            extent = extent_of(found, extents, scalars)
        except ZeroDivisionError:
            extent = -1
        if extent < 0:
            new = next((param for param in (*self.params, *self.results) if param.shape is not None and symbol in param.shape), None)
            place = f" whose dim {new.shape.index(symbol)}" if new is not None and new.shape is not None else ", one of whose extents"
            raise ShapeError(f"{self.name} would return a tensor{place} is {extent}", help="pass larger inputs") from None
        return extent

    def _omitted(self, count: int) -> tuple[int, ...]:
        outputs = self.output_indices
        if count == len(self.params):
            return ()
        if outputs and count == len(self.params) - len(outputs):
            return outputs
        whole = f"{len(self.params)} (in place)" if outputs else str(len(self.params))
        short = f" or {len(self.params) - len(outputs)} (the outputs are returned)" if outputs else ""
        raise ArgumentError(f"{self.name} takes {whole}{short} arguments, got {count}", help=f"parameters: {self._described()}")

    def _described(self) -> str:
        return ", ".join(f"{param.name} ({param.direction})" for param in self.params) or "none"

    def _argument(self, param: ParamInfo, value: object, devices: Sequence[str]) -> Bound:
        if param.shape is None:
            return _scalar_argument(param, value)
        try:
            view = view_of(value)
        except (ArgumentError, DTypeError) as error:
            raise type(error)(f"argument `{param.name}`: {error.message}", help=error.hint) from None
        except Exception as error:
            note_argument(error, param.name, f"`{self.name}`")
            raise
        if view is None:
            raise ArgumentError(
                f"argument `{param.name}` must be a tensor, got {type(value).__name__}",
                help="pass a NumPy array, a torch tensor, or an object with DLPack or the array interface",
            )
        _check_tensor(param, view)
        if view.device.partition(":")[0] not in devices:
            device = devices[0]
            raise ArgumentError(
                f"`{param.name}` is on {view.device}, but {self.name} was compiled to run on {device}",
                help=f"move it to {device}, or compile the program for where the tensors are",
            )
        return _contiguous_input(param, view)

    def _nowhere(self) -> ArgumentError:
        what = f"{self.name} cannot tell where to allocate its outputs: the call has no tensor"
        return ArgumentError(what, help="pass the outputs, or give it a tensor")

    def _check_frameworks(self, bound: Sequence[Bound | None], returning: bool) -> None:
        arrays = [(param, view) for param, view in zip(self.params, bound, strict=False) if isinstance(view, ArrayView)]
        if not arrays:
            if returning:
                raise self._nowhere()
            return
        first_param, first = arrays[0]
        for param, view in arrays[1:]:
            if view.device != first.device:
                raise ArgumentError(f"`{first_param.name}` is on {first.device}, `{param.name}` is on {view.device}", help="move all tensors to one device")
            if returning and {view.framework, first.framework} == {"numpy", "torch"}:
                raise ArgumentError(
                    f"`{first_param.name}` is a {first.framework} array, `{param.name}` a {view.framework} one: in which should the outputs be?",
                    help="pass all arguments in one framework, or pass the outputs",
                )

    def _extents(self, bound: Sequence[Bound | None]) -> dict[str, int]:
        """The extent of every symbol, which must agree wherever it appears."""
        seen: dict[str, tuple[int, ParamInfo, int]] = {}
        for param, view in zip(self.params, bound, strict=False):
            if not isinstance(view, ArrayView) or param.shape is None:
                continue
            for axis, (dim, extent) in enumerate(zip(param.shape, view.shape, strict=True)):
                if not isinstance(dim, str):
                    continue
                known, other, other_axis = seen.setdefault(dim, (extent, param, axis))
                if known != extent:
                    literal = self.literals.get(dim, dim)
                    raise ShapeError(
                        f"dynamic extent `{literal}` is {known} in dim {other_axis} of `{other.name}` but {extent} in dim {axis} of `{param.name}`",
                        help=f"pass tensors whose `{literal}` extents agree",
                    )
        return {dim: extent for dim, (extent, _, _) in seen.items()}

    def _allocate(self, param: ParamInfo, first: ArrayView | None, extents: dict[str, int]) -> object:
        assert param.shape is not None
        shape: list[int] = []
        for axis, dim in enumerate(param.shape):
            extent = extents.get(dim) if isinstance(dim, str) else dim
            if extent is None:
                raise ShapeError(
                    f"cannot allocate `{param.name}`: no argument has the extent `{self.literals.get(str(dim), str(dim))}` of its dim {axis}",
                    help=f"pass `{param.name}`",
                )
            shape.append(extent)
        return allocate(first, shape, param.dtype)

    def _check_overlap(self, bound: Sequence[Bound]) -> None:
        arrays = [(param, view, *view.byte_range()) for param, view in zip(self.params, bound, strict=True) if isinstance(view, ArrayView)]
        for i, (param, view, low, high) in enumerate(arrays):
            for other, other_view, other_low, other_high in arrays[:i]:
                if param.direction == "In" and other.direction == "In":
                    continue
                if view.device == other_view.device and low < other_high and other_low < high:
                    output, second = (param, other) if param.direction != "In" else (other, param)
                    if (output.name, second.name) in self.in_place and (low, view.shape) == (other_low, other_view.shape):
                        continue
                    raise AliasError(f"output `{output.name}` overlaps `{second.name}` in memory", help=f"pass a copy of `{second.name}`, or another output")


def extent_of(found: object, extents: Mapping[str, int], scalars: Mapping[str, int]) -> int:
    """An extent of a result (see `Signature.computed`) in a call with these extents and numbers."""
    if isinstance(found, int):
        return found
    assert isinstance(found, tuple | list)
    operation, *operands = cast("Sequence[object]", found)
    if operation in ("dim", "scalar"):
        return (extents if operation == "dim" else scalars)[str(operands[0])]
    return EXTENT_OPERATIONS[str(operation)].compute(*(extent_of(operand, extents, scalars) for operand in operands))


def _check_tensor(param: ParamInfo, view: ArrayView) -> None:
    assert param.shape is not None
    if view.shape != param.shape:
        _check_shape(param.name, param.shape, view.shape)
    if view.dtype is not param.dtype and not (param.dtype is INDEX and view.dtype.name == "INT64"):
        raise DTypeError(f"`{param.name}` must hold {param.dtype}, got {view.dtype}", help=f"convert it to {param.dtype.numpy_name or param.dtype.name}")
    if param.direction != "In":
        check_output(param.name, view)


def check_output(name: str, view: ArrayView) -> None:
    """What a kernel writes in place is memory of the caller, as compiled code sees it."""
    check_writable(name, view)
    if not view.aligned:
        help = f"pass an array that starts at a multiple of {view.dtype.get_byte()} bytes"
        raise ArgumentError(f"output `{name}` is not aligned to its elements (address {view.address:#x})", help=help)
    if not view.contiguous:
        raise ArgumentError(f"output `{name}` is not contiguous (strides {view.strides})", help="pass a contiguous array and copy the result back")


def check_writable(name: str, view: ArrayView) -> None:
    """What is written, by a kernel or by a copy of what one wrote, is memory of the caller that may be."""
    if view.copied:
        raise ArgumentError(f"output `{name}` {view.copied}: a kernel could not write it in place", help="pass a plain array and convert the result")
    if not view.writable:
        raise ArgumentError(f"output `{name}` is read-only", help="pass a writable array")
    if view.requires_grad:
        raise ArgumentError(f"output `{name}` requires grad: a kernel's writes are unknown to autograd", help=f"pass {name}.detach()")


def _check_shape(name: str, wanted: Shape, given: tuple[int, ...]) -> None:
    expected = f"expected {shape_text(wanted)}, got {shape_text(given)}"
    if len(given) != len(wanted):
        raise ShapeError(f"`{name}` must have rank {len(wanted)}, got rank {len(given)}: {expected}", help="reshape the argument")
    for axis, (dim, extent) in enumerate(zip(wanted, given, strict=True)):
        if isinstance(dim, int) and dim != extent:
            help = "pass a tensor of that shape, or make the extent dynamic with pl.dynamic"
            raise ShapeError(f"dim {axis} of `{name}` must be {dim}, got {extent}: {expected}", help=help)


def _contiguous_input(param: ParamInfo, view: ArrayView) -> ArrayView:
    """Compiled code sees aligned row-major tensors: other inputs are copied."""
    if view.contiguous and view.aligned:
        if 1 in view.shape or 0 in view.shape:  # any stride does there, and the code is given the usual ones
            view.strides = contiguous_strides(view.shape)
        return view
    if view.device != HOST:
        from tilejit.runtime.cuda.arrays import contiguous

        return contiguous(view)
    copy = view_of(view.numpy().copy())
    assert copy is not None and param.direction == "In"
    copy.framework, copy.namespace = view.framework, view.namespace
    return copy


def _scalar_argument(param: ParamInfo, value: object) -> int | float | bool:
    number = scalar_of(value)
    if number is None:
        kind = "a tensor" if view_of(value) is not None else type(value).__name__
        raise ArgumentError(f"argument `{param.name}` must be a number ({param.dtype}), got {kind}", help=f"pass a Python number for `{param.name}`")
    dtype = param.dtype
    if dtype.is_float:
        try:
            return float(number)
        except OverflowError:
            from tilejit.ops.dtype_rules import int_text

            help = f'pass float("inf") for `{param.name}` if infinity is meant'
            raise RangeError(f"argument `{param.name}` = {int_text(int(number))} is outside the range of {dtype}", help=help) from None
    if isinstance(number, float):
        if not number.is_integer():
            help = f"round it, or declare `{param.name}` as pl.Scalar[pl.FP32]"
            raise ArgumentError(f"argument `{param.name}` must be an integer ({dtype}), got {number}", help=help)
        number = int(number)
    low, high = integer_range(dtype)
    if not low <= number <= high:
        help = "pass True or False" if dtype is BOOL else f"pass a number in that range, or declare `{param.name}` with a wider dtype"
        raise RangeError(f"argument `{param.name}` = {number} is outside the range of {dtype}: {low} to {high}", help=help)
    return bool(number) if dtype is BOOL else int(number)

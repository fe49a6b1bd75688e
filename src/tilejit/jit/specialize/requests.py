"""From the arguments of a call to the program they specialise: what runs only when something has to be compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from tilejit.dtypes import FP32, INT8
from tilejit.errors import ShapeError, TilejitError
from tilejit.jit.definition import Definition
from tilejit.jit.reads.trace import Trace
from tilejit.jit.specialize.arguments import EMPTY, Argument, BoundArguments, TensorArgument
from tilejit.jit.specialize.described import checked, referred_to
from tilejit.jit.specialize.meta import ArgumentMeta, Bundle, DynDim, TensorMeta
from tilejit.jit.specialize.outputs import OutputFinder, output_types
from tilejit.jit.specialize.program import Specialization, Specializer
from tilejit.jit.specialize.symbols import Dynamic, Symbol
from tilejit.types.annotations import DynVar
from tilejit.types.values import BufferType


def specialize(trace: Trace, known: Mapping[Definition, Dynamic], bound: BoundArguments) -> Specialization:
    """The concrete functions for these arguments."""
    specializer = Specializer(trace.entry, known, trace)
    metas = _metas(specializer, bound)
    described = _as_described(OutputFinder(trace.entry, known, trace), metas)
    trace.start()
    return specializer.run({**metas, **described})


def _as_described(finder: OutputFinder, metas: Mapping[str, ArgumentMeta]) -> dict[str, ArgumentMeta]:
    """The tensors whose annotations speak of other parameters, as these say."""
    given = [(param, meta) for param in finder.entry.params if isinstance(meta := metas.get(param.name), TensorMeta) and referred_to(finder.entry, param)]
    types = finder.entry_types(metas) if given else {}
    found = [(param, meta, finder.description(param, types)) for param, meta in given]
    return {param.name: checked(finder.entry, param, description, meta) for param, meta, description in found if description is not None}


def find_outputs(trace: Trace, known: Mapping[Definition, Dynamic], bound: BoundArguments) -> Mapping[str, TensorArgument]:
    """Shape and dtype of the outputs that a return-style call leaves out: as annotated, else as the body writes them."""
    entry = trace.entry
    finder = OutputFinder(entry, known, trace)
    types = finder.entry_types(_metas(finder, bound))
    annotated: dict[str, TensorArgument] = {}
    for name in bound.omitted:
        annotation = entry.param(name).tensor
        if annotation is not None and annotation.shape is not None and annotation.dtype is not None:
            annotated[name] = TensorArgument(annotation.shape, annotation.dtype)
    overridden = any(_overrides(entry, name, argument) for name, argument in bound.arguments.items())
    found = {} if overridden else dict(annotated)
    for name in bound.omitted:
        described = finder.described_type(entry, entry.param(name), types)
        if described is not None:
            found[name] = _as_argument(described)
    ranks = _ranks({**bound.arguments, **found})
    types.update({name: _tensor_meta(finder, name, argument, ranks).type() for name, argument in found.items()})
    unknown = [name for name in bound.omitted if name not in found]
    try:
        inferred = output_types(finder, types, unknown) if unknown else {}
    except ShapeError as error:
        inferred = dict.fromkeys(unknown, error)
    told = {**found, **{name: _as_argument(type) for name, type in inferred.items() if isinstance(type, BufferType)}}
    untold = {name: error for name, error in inferred.items() if isinstance(error, ShapeError)}
    if untold and any(name not in annotated for name in unknown):
        raise _mistake(trace, known, bound, told, list(untold)) or next(iter(untold.values())) from None
    return annotated if untold else told


def _as_argument(type: BufferType) -> TensorArgument:
    return TensorArgument(tuple(_OutputDim.of(dim) for dim in type.shape), type.dtype)


_STAND_INS = (BufferType((1,), FP32), BufferType((2, 3, 5), INT8))
"""Two outputs that have nothing in common."""


def _mistake(
    trace: Trace, known: Mapping[Definition, Dynamic], bound: BoundArguments, found: Mapping[str, TensorArgument], unknown: Sequence[str]
) -> TilejitError | None:
    """What is wrong with the body whatever its outputs are: that says more than that their shapes cannot be told."""
    errors: list[TilejitError] = []
    for stand_in in _STAND_INS:
        arguments = {**bound.arguments, **found, **dict.fromkeys(unknown, _as_argument(stand_in))}
        ordered = {param.name: arguments[param.name] for param in trace.entry.params if param.name in arguments}
        error = _front_end_error(trace, known, replace(bound, arguments=ordered, omitted=()))
        if error is None:
            return None
        errors.append(error)
    for error, stand_in in zip(errors, _STAND_INS, strict=True):
        shown = f"`{unknown[0]}`" if len(unknown) == 1 else "this output"
        error.message = error.message.replace(str(stand_in), shown)  # which type it has is for nobody
        error.where = tuple(line for line in error.where if line.partition(":")[0] not in unknown)
    first, second = errors
    return first if (first.message, first.span) == (second.message, second.span) else None


def _front_end_error(trace: Trace, known: Mapping[Definition, Dynamic], bound: BoundArguments) -> TilejitError | None:
    from tilejit.jit.specialize.build import program_of

    try:
        program_of(specialize(trace.fork(), known, bound))
    except TilejitError as error:
        return error
    return None


def _overrides(entry: Definition, name: str, argument: object) -> bool:
    """Whether an argument has another shape than annotated: then the annotated shapes of the outputs mean nothing either."""
    annotation = entry.param(name).tensor
    if not isinstance(argument, TensorArgument) or annotation is None or annotation.shape is None:
        return False
    if len(annotation.shape) != len(argument.shape):
        return True
    return any(isinstance(wanted, int) and wanted != extent for wanted, extent in zip(annotation.shape, argument.shape, strict=True))


def _metas(specializer: Specializer, bound: BoundArguments) -> dict[str, ArgumentMeta]:
    ranks = _ranks(bound.arguments)
    return {name: _meta(specializer, name, argument, ranks) for name, argument in bound.arguments.items()}


def _ranks(arguments: Mapping[str, Argument]) -> dict[str, int]:
    """Of the parameters that are tensors: which symbols are one follows from all of them."""
    return {name: len(argument.shape) for name, argument in arguments.items() if isinstance(argument, TensorArgument)}


def _meta(specializer: Specializer, name: str, argument: Argument, ranks: Mapping[str, int]) -> ArgumentMeta:
    if isinstance(argument, Bundle):
        members = [_meta(specializer, flat, member, ranks) for flat, member in zip(argument.names, argument.members, strict=True)]
        return replace(cast("Bundle[ArgumentMeta]", argument), members=tuple(members))
    return _tensor_meta(specializer, name, argument, ranks) if isinstance(argument, TensorArgument) else argument


def _tensor_meta(specializer: Specializer, name: str, argument: TensorArgument, ranks: Mapping[str, int]) -> TensorMeta:
    dynamic = specializer.dynamic(specializer.entry).axes(name, {**ranks, name: len(argument.shape)})

    def dim_of(axis: int, dim: int | DynVar) -> int | DynDim:
        if isinstance(dim, _OutputDim):
            return dim.dim
        if axis in dynamic:
            return specializer.dim_of(dynamic[axis])
        return specializer.dim_of(_EMPTY) if isinstance(dim, DynVar) else dim

    return TensorMeta(tuple(dim_of(axis, dim) for axis, dim in enumerate(argument.shape)), argument.dtype)


_EMPTY = Symbol(EMPTY.name)
"""The extents of arguments that are 0."""


class _OutputDim(DynVar):
    """A dynamic extent of an output that was found in the body."""

    __slots__ = ("dim",)
    dim: DynDim

    @staticmethod
    def of(dim: int | str) -> int | DynVar:
        if isinstance(dim, int):
            return dim
        assert isinstance(dim, DynDim), dim
        out = _OutputDim(dim.literal)
        out.dim = dim
        return out

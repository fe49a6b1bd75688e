"""Classifies the arguments of a jit call: tensors by their metadata, scalars as constants or run-time parameters."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tilejit.dtypes import FP32, INDEX, DType, dtype_of_numpy
from tilejit.errors import ArgumentError, DTypeError, RangeError, ShapeError, did_you_mean, note_argument
from tilejit.jit.definition import Definition
from tilejit.jit.protocol import adapt, registration_hint
from tilejit.jit.reads.plain import steady, written
from tilejit.jit.specialize.compile_time import Parts
from tilejit.jit.specialize.meta import Bundle, CompileTime, Constant, RuntimeScalar
from tilejit.jit.specialize.scalars import as_declared
from tilejit.jit.specialize.signature import JitParam
from tilejit.kinds import is_a
from tilejit.runtime.arrays import scalar_of, view_of
from tilejit.types.annotations import DynVar, RuntimeMarker


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor argument as the call gives it; dynamic extents are masked in the key only."""

    shape: tuple[int | DynVar, ...]
    dtype: DType


Argument = TensorArgument | Constant | RuntimeScalar | CompileTime | Bundle["Argument"]


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """The arguments of a call by parameter; `omitted` are the outputs that it leaves out, to be returned."""

    values: Mapping[str, object]
    arguments: Mapping[str, Argument]
    omitted: tuple[str, ...] = ()
    signatures: tuple[tuple[str, str], ...] = ()
    """Parameter and cache signature of arguments of foreign classes."""
    objects: Mapping[str, object] = field(default_factory=dict[str, object])
    """Objects that the body asks while compiling, by parameter."""
    of_classes: Mapping[str, object] = field(default_factory=dict[str, object])
    """Plain values that must be of certain classes, by parameter."""
    partial: bool = False
    """Whether some outputs are given and others left out."""

    def in_order(self, names: Iterable[str]) -> dict[str, object]:
        """What the parameters of a program are called with; where some outputs are given, those that are left out are None."""
        return {name: self.values.get(name) for name in names if name in self.values or (self.partial and name in self.omitted)}

    @property
    def asked(self) -> dict[str, object]:
        """What Python is asked about, by parameter."""
        return {**self.objects, **self.of_classes}

    @property
    def passed(self) -> list[object]:
        """What the compiled program is given: all but the objects that are asked while compiling."""
        return [value for name, value in self.values.items() if name not in self.objects]

    @property
    def direct(self) -> bool:
        """Whether calls like this one can be told by their arguments alone, without asking them anything."""
        return not self.signatures and not self.objects and not any(isinstance(argument, Bundle) for argument in self.arguments.values())


def bind_arguments(definition: Definition, args: tuple[object, ...], kwargs: Mapping[str, object], running: bool) -> BoundArguments:
    """Match a call with the signature: all parameters, or all but the pure outputs; an output that is None, given or by default, is left out."""
    values = _match(definition, args, kwargs, running)
    outputs = [param for param in definition.params if param.direction == "Out"]
    none = [param for param in outputs if values.get(param.name, param) is None]
    values = {name: value for name, value in values.items() if all(name != param.name for param in none)}
    missing = [param for param in definition.params if param.name not in values]
    if missing not in ([], none, outputs):
        raise _missing(definition, missing, outputs)
    signatures = _adapt(definition, values)
    parts = Parts(definition, _tensor, _scalar)
    arguments = {param.name: _classify(parts, param, values[param.name], running) for param in definition.params if param.name in values}
    omitted = tuple(param.name for param in missing)
    return BoundArguments(parts.spread(values), arguments, omitted, signatures, parts.objects, parts.of_classes, 0 < len(missing) < len(outputs))


def _adapt(definition: Definition, values: dict[str, object]) -> tuple[tuple[str, str], ...]:
    """Replace arguments of foreign classes by what they stand for; their signatures."""
    signatures: list[tuple[str, str]] = []
    for param in [param for param in definition.params if param.name in values]:
        try:
            if param.wrap is not None and not hasattr(type(values[param.name]), "__abi_slots__"):
                values[param.name] = param.wrap(values[param.name])
            adapted = adapt(values[param.name], param.name)
        except Exception as error:
            note_argument(error, param.name, definition.label)
            raise
        if adapted is not None:
            values[param.name] = adapted.value
            signatures.append((param.name, adapted.signature))
    return tuple(signatures)


def _match(definition: Definition, args: tuple[object, ...], kwargs: Mapping[str, object], running: bool) -> dict[str, object]:
    names = [param.name for param in definition.params]
    where = definition.label
    rest = next((param.name for param in definition.params if param.rest), None)
    if len(args) > len(names) and rest is None:
        outputs = sum(param.direction == "Out" for param in definition.params)
        counts = f"{len(names)}" + (f" (in place) or {len(names) - outputs} (the outputs are returned)" if outputs else "")
        raise ArgumentError(f"{where}: takes {counts} arguments, got {len(args)}", help=f"parameters: {described(definition)}")
    if len(args) > definition.positional and rest is None:
        raise _named_only(definition, len(args))
    values = dict(zip(names[: definition.positional], args, strict=False))
    if rest is not None:
        values[rest] = args[definition.positional :]
    for name, value in kwargs.items():
        if name not in names or name == rest:
            further = f"`*{rest}` takes further arguments by position"
            help = further if name == rest else did_you_mean(name, names) or f"parameters: {described(definition)}"
            raise ArgumentError(f"{where}: got an unexpected keyword argument '{name}'", help=help)
        if name in values:
            raise ArgumentError(f"{where}: multiple values for argument '{name}'", help=f"pass `{name}` by position or by name")
        values[name] = value
    for param in definition.params:
        # The marker as a default means that the parameter stays, not that it has a value.
        if param.name not in values and param.default is not inspect.Parameter.empty and not (running and param.stays_runtime):
            values[param.name] = param.default
    return {name: values[name] for name in names if name in values}


def _named_only(definition: Definition, given: int) -> ArgumentError:
    """Arguments by position for parameters after the `*`."""
    named = [param.name for param in definition.params if param.keyword_only]
    by_position = [param.name for param in definition.params if not param.keyword_only]
    call = f"{definition.name}({', '.join([*by_position, *[f'{name}=…' for name in named]])})"
    taken = named[: given - definition.positional]
    what = f"{', '.join(f'`{name}`' for name in taken)} {'is' if len(taken) == 1 else 'are'} keyword-only, got {given} arguments by position"
    return ArgumentError(f"{definition.label}: {what}", help=f"write {call}")


def described(definition: Definition) -> str:
    """Parameter names with their directions."""
    return ", ".join(f"{param.name} ({param.direction})" for param in definition.params) or "none"


def _missing(definition: Definition, missing: list[JitParam], outputs: list[JitParam]) -> ArgumentError:
    needed = [param for param in missing if param not in outputs] or missing
    names = ", ".join(f"'{param.name}'" for param in needed)
    total, short = len(definition.params), len(definition.params) - len(outputs)
    counts = f"pass {total} arguments" + (f", or {short} to have the outputs returned" if outputs else "")
    if any(param not in outputs for param in missing) and (calls := _calls_without(definition, missing, outputs)) is not None:
        counts = calls
    return ArgumentError(f"{definition.label}: missing argument {names}", help=f"{counts}; parameters: {described(definition)}")


def _calls_without(definition: Definition, missing: list[JitParam], outputs: list[JitParam]) -> str | None:
    """The calls that have all that is missing, where one without the outputs must name what comes after them; None where numbers of arguments say it."""
    parts: list[str] = []
    named = False
    for param in definition.params:
        if param.rest:
            return None
        if param in outputs or (param not in missing and param.default is not inspect.Parameter.empty):
            named = True
        else:
            parts.append(f"{param.name}=…" if named or param.keyword_only else param.name)
    if not outputs or not any(part.endswith("=…") for part in parts):
        return None
    whole = [f"{param.name}=…" if param.keyword_only else param.name for param in definition.params]
    return f"write {definition.name}({', '.join(whole)}), or {definition.name}({', '.join(parts)}) to have the outputs returned"


def _classify(parts: Parts, param: JitParam, value: object, running: bool) -> Argument:
    try:
        return _classified(parts, param, value, running)
    except Exception as error:
        note_argument(error, param.name, parts.definition.label)
        raise


def _classified(parts: Parts, param: JitParam, value: object, running: bool) -> Argument:
    definition = parts.definition
    if is_a(value, RuntimeMarker):
        return _runtime_marker(definition, param, running)
    if value is None and param.optional:
        return Constant(None)
    if param.kind == "scalar":
        return _scalar(definition, param, value)
    if param.kind == "tensor":
        return _tensor(definition, param, value)
    return parts.classify(param, value)


def _runtime_marker(definition: Definition, param: JitParam, running: bool) -> Argument:
    if param.kind == "tensor":
        help = f"pass a sample tensor for `{param.name}`, or none at all"
        raise ArgumentError(f"{definition.label}: pl.RUNTIME stands for a scalar, `{param.name}` is a tensor", help=help)
    if running:
        raise ArgumentError(
            f"{definition.label}: pl.RUNTIME was passed for `{param.name}` of a running call",
            help="pass a number; the marker is for compile() and lower(), or the parameter's default",
        )
    return _runtime(param)


def _runtime(param: JitParam, number: object = None) -> RuntimeScalar:
    """A scalar that stays a parameter: of its declared type, else of that of the number it is given."""
    return RuntimeScalar(param.dtype or (FP32 if isinstance(number, float) else INDEX))


def _scalar(definition: Definition, param: JitParam, value: object) -> Argument:
    number = scalar_of(value)
    if number is None:
        kind = "a tensor" if view_of(value) is not None else type(value).__name__
        help = f"pass a Python, NumPy or torch scalar for `{param.name}`"
        raise ArgumentError(f"{definition.label}: `{param.name}` must be a number, got {kind}", help=help)
    if stays_runtime(definition, param):
        return _runtime(param, number)
    try:
        return Constant(steady(as_declared(number, param)))
    except (ArgumentError, RangeError) as error:
        raise type(error)(f"{definition.label}: {error.message}", help=error.hint) from None


def stays_runtime(definition: Definition, param: JitParam) -> bool:
    """Whether a scalar is a parameter of the compiled program."""
    chosen = definition.options.get("runtime_scalars", ())
    return param.stays_runtime or (isinstance(chosen, tuple) and param.name in chosen)


def _tensor(definition: Definition, param: JitParam, value: object) -> Argument:
    shape, dtype = _plain_array(value) or _any_array(definition, param, value)
    annotation = param.tensor
    if annotation is None:
        return TensorArgument(_with_empty(shape), dtype)
    if annotation.dtype is not None and annotation.dtype is not dtype:
        if annotation.dtype is not INDEX or dtype.name != "INT64":
            where = definition.label
            raise DTypeError(f"{where}: `{param.name}` must hold {annotation.dtype}, got {dtype}", help=f"convert it to {annotation.dtype.numpy_name}")
        dtype = annotation.dtype
    if annotation.shape is not None and len(annotation.shape) != len(shape):
        what = f"`{param.name}` must have rank {len(annotation.shape)}, got rank {len(shape)}: {list(shape)}"
        raise ShapeError(f"{definition.label}: {what}", help="reshape the argument, or correct the annotation")
    return TensorArgument(_with_empty(shape) if annotation.shape is None else shape, dtype)


EMPTY = DynVar("empty")
"""The extents of arguments that are 0."""


def _with_empty(shape: tuple[int, ...]) -> tuple[int | DynVar, ...]:
    """The extents to compile for: a type has none that are 0, but a run may, so those are left to the run; they are all equal."""
    return shape if 0 not in shape else tuple(extent or EMPTY for extent in shape)


def _plain_array(value: object) -> tuple[tuple[int, ...], DType] | None:
    """Shape and dtype of the common case, a NumPy array without gaps of a dtype we have."""
    if type(value) is not np.ndarray or not value.flags.c_contiguous:
        return None
    dtype = dtype_of_numpy(value.dtype)
    return (value.shape, dtype) if dtype is not None else None


def _any_array(definition: Definition, param: JitParam, value: object) -> tuple[tuple[int, ...], DType]:
    where = definition.label
    try:
        view = view_of(value)
    except (ArgumentError, DTypeError) as error:
        raise type(error)(f"{where}: argument `{param.name}`: {error.message}", help=error.hint) from None
    if view is None:
        what = f"`{param.name}` must be a tensor, got {type(value).__name__}"
        optional = f"pass a tensor; to let it be left out: {param.name}: pl.Tensor = None, and `if {param.name} is not None:` in the body"
        raise ArgumentError(f"{where}: {what}", help=registration_hint(value) if value is not None else optional)
    return view.shape, view.dtype


def bind_others(definition: Definition, values: Mapping[str, object]) -> tuple[Mapping[str, Argument], Parts]:
    """Arguments of a compile() without tensors: scalars and compile-time values; what is asked among them."""
    parts = Parts(definition, _tensor, _scalar)
    out: dict[str, Argument] = {}
    for name, value in values.items():
        param = definition.param(name)
        if isinstance(value, RuntimeMarker) or stays_runtime(definition, param):
            out[name] = _runtime(param, value)
        elif param.kind != "scalar" or (value is None and param.optional):
            out[name] = _classify(parts, param, value, running=False)
        elif isinstance(value, bool | int | float):
            out[name] = Constant(steady(as_declared(value, param)))
        else:
            what = f"`{name}` must be a number or pl.RUNTIME, got {type(value).__name__}"
            raise ArgumentError(f"{definition.label}: {what}", help=f"pass {name}=1, or {name}=pl.RUNTIME to keep it a parameter")
    return out, parts


def annotated_argument(definition: Definition, param: JitParam) -> TensorArgument:
    """A tensor argument as its annotation alone describes it (compiling without arguments)."""
    annotation = param.tensor
    if annotation is None or annotation.shape is None or annotation.dtype is None:
        raise ArgumentError(
            f"{definition.label}: `{param.name}` has no shape and dtype in its annotation",
            help=f"write {param.name}: pl.Tensor[[64, 64], pl.FP32], or call compile() with sample tensors",
        )
    return TensorArgument(annotation.shape, annotation.dtype)


def argument_fields(argument: Argument, dynamic_axes: Collection[int]) -> dict[str, object]:
    """What of an argument the compiled program depends on, named, for the key and for explanations."""
    if isinstance(argument, TensorArgument):
        extents = [extent.name if isinstance(extent, DynVar) else extent for extent in argument.shape]
        if dynamic_axes:
            extents = [None if axis in dynamic_axes else extent for axis, extent in enumerate(extents)]
        return {"dtype": argument.dtype.name, "shape": extents}
    if isinstance(argument, Constant):
        number = isinstance(argument.value, int | float)
        return {"type": type(argument.value).__name__, "value": repr(argument.value) if number else written(argument.value)}
    if isinstance(argument, CompileTime):
        return {"compile-time": "object"}
    if isinstance(argument, Bundle):
        found: dict[str, object] = {"kind": argument.kind, "keys": list(map(written, argument.keys))}
        if argument.key_class:
            found["keys of"] = argument.key_class
        return {**found, "members": [argument_fields(member, ()) for member in argument.members]}
    return {"run-time scalar": argument.dtype.name}

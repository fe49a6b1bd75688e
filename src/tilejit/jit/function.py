"""`@pl.jit`: a generic kernel that is specialised, compiled and run for whatever it is called with."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, overload

from tilejit import config as settings
from tilejit.errors import ArgumentError, did_you_mean
from tilejit.jit.arguments import Argument, BoundArguments, TensorArgument, annotated_argument, argument_key, bind_arguments, stays_runtime
from tilejit.jit.cache import CacheInfo, MemoryCache
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.dynamic import Dynamic, Symbol
from tilejit.jit.meta import ArgumentMeta, DynDim, RuntimeScalar, TensorMeta
from tilejit.jit.outputs import OutputFinder, output_types
from tilejit.jit.specialize import Specialization, Specializer, analyse
from tilejit.jit.text import source_text
from tilejit.jit.values import Abstract, RuntimeValue, Static
from tilejit.runtime.arrays import view_of
from tilejit.runtime.compiled import CompiledProgram
from tilejit.runtime.config import RunConfig, resolve_platform
from tilejit.types.annotations import DynVar, RuntimeMarker

if TYPE_CHECKING:
    from tilejit.tile_ir.program import Program


class JITFunction(Kernel):
    """A kernel that compiles itself for the arguments of each call."""

    __name__: str

    def __init__(self, definition: Definition) -> None:
        functools.update_wrapper(self, definition.function)
        self.definition = definition
        self._cache = MemoryCache()
        self._lock = threading.RLock()
        self._outputs: dict[Hashable, Mapping[str, TensorArgument]] = {}

    def __repr__(self) -> str:
        return f"JITFunction({self.definition.name!r}, func_type={self.definition.kind!r})"

    # calling ------------------------------------------------------------------------------------------------------------------

    def __call__(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Any:
        """Specialise, compile unless that was done before, run. In a kernel it stands for the helper's results, so its type is open."""
        bound = bind_arguments(self.definition, args, kwargs, running=True)
        compiled = self._compiled(bound, config)
        values = [bound.values[param.name] for param in compiled.param_infos if param.name in bound.values]
        return compiled(*values, config=config)

    def compile(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> CompiledProgram:
        """The compiled program for sample arguments, or for the annotations when there are none; nothing runs."""
        return self._compiled(self._sample(args, kwargs), config)

    def lower(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> Program:
        """The program after the passes that print as Python: one kernel per region."""
        from tilejit.compiler import lower_program

        return lower_program(self._program(self._specialise(self._sample(args, kwargs))), config)

    def specialized_source(self, *args: object, config: RunConfig | None = None, **kwargs: object) -> str:
        """The concrete `@pl.program` of this specialisation, as text that `pl.parse` accepts."""
        return source_text(self._specialise(self._sample(args, kwargs)))

    def cache_info(self) -> CacheInfo:
        """Entries, hits, misses and seconds spent compiling."""
        return self._cache.info()

    def cache_clear(self) -> None:
        """Forget every compiled program."""
        self._cache.clear()
        self._outputs.clear()

    # methods ------------------------------------------------------------------------------------------------------------------

    def __get__(self, instance: object, owner: type | None = None) -> JITFunction:
        """A kernel in a class: `self` (or `cls`) is bound and read while compiling."""
        first = next(iter(inspect.signature(self.definition.function).parameters), None)
        if instance is None or first not in ("self", "cls"):
            return self
        bound = _bound_kernels(instance)
        if self not in bound:
            definition = self.definition
            bound[self] = JITFunction(Definition(definition.function, definition.kind, definition.options, {**definition.extra, first: instance}))
        return bound[self]

    def __reduce__(self) -> tuple[object, ...]:
        return (_by_reference, (self.definition.function.__module__, self.definition.function.__qualname__))

    # compiling ----------------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _known(self) -> dict[Definition, Dynamic]:
        with self._lock:
            return analyse(self.definition)

    def _sample(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> BoundArguments:
        if args or any(view_of(value) is not None for value in kwargs.values()):
            return bind_arguments(self.definition, args, kwargs, running=False)
        return self._from_annotations(kwargs)

    def _from_annotations(self, kwargs: Mapping[str, object]) -> BoundArguments:
        definition = self.definition
        names = [param.name for param in definition.params]
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            help = did_you_mean(unknown[0], names) or f"options of the compiler go into config=RunConfig(…); parameters: {', '.join(names)}"
            raise ArgumentError(f"@pl.jit function '{definition.name}': got an unexpected keyword argument '{unknown[0]}'", help=help)
        arguments: dict[str, Argument] = {}
        values: dict[str, object] = {}
        for param in definition.params:
            if param.kind == "tensor":
                arguments[param.name] = annotated_argument(definition, param)
                continue
            value = kwargs.get(param.name, param.default)
            if value is inspect.Parameter.empty:
                help = f"pass {param.name}=… or {param.name}=pl.RUNTIME"
                raise ArgumentError(f"@pl.jit function '{definition.name}': the scalar `{param.name}` needs a value", help=help)
            values[param.name] = value
        scalars = bind_scalars(definition, values)
        return BoundArguments(values, {param.name: arguments.get(param.name) or scalars[param.name] for param in definition.params})

    def _compiled(self, bound: BoundArguments, config: RunConfig | None) -> CompiledProgram:
        bound = self._with_outputs(bound)
        key = (*self._platform_key(config), *self._argument_key(bound))
        return self._cache.find(key, lambda: self._compile(bound, config))

    def _compile(self, bound: BoundArguments, config: RunConfig | None) -> CompiledProgram:
        from tilejit.compiler import compile_program

        return compile_program(self._program(self._specialise(bound)), config)

    def _platform_key(self, config: RunConfig | None) -> tuple[Hashable, ...]:
        if config is None:
            return (resolve_platform(None), settings.CHECK_BOUNDS.value, settings.FAST_MATH.value)
        return (resolve_platform(config.platform), config.check_bounds, config.fast_math)

    def _argument_key(self, bound: BoundArguments) -> tuple[Hashable, ...]:
        return tuple((name, argument_key(argument, frozenset(self._dynamic_axes(name, argument)))) for name, argument in bound.arguments.items())

    def _dynamic_axes(self, name: str, argument: Argument) -> dict[int, Symbol]:
        if not isinstance(argument, TensorArgument):
            return {}
        return self._known[self.definition].axes(name, len(argument.shape))

    def _with_outputs(self, bound: BoundArguments) -> BoundArguments:
        """A return-style call with the outputs it leaves out described like arguments."""
        if all(name in bound.arguments for name in bound.omitted):
            return bound
        key = self._argument_key(bound)
        if key not in self._outputs:
            self._outputs[key] = self._find_outputs(bound)
        found = self._outputs[key]
        arguments = {param.name: bound.arguments.get(param.name) or found[param.name] for param in self.definition.params}
        return BoundArguments(bound.values, arguments, bound.omitted)

    def _find_outputs(self, bound: BoundArguments) -> Mapping[str, TensorArgument]:
        finder = OutputFinder(self.definition, self._known)
        metas = self._metas(finder, bound)
        types = {name: _abstract(meta) for name, meta in metas.items()}
        known: dict[str, TensorArgument] = {}
        for name in bound.omitted:
            annotation = self.definition.param(name).tensor
            if annotation is not None and annotation.shape is not None and annotation.dtype is not None:
                known[name] = TensorArgument(annotation.shape, annotation.dtype)
                types[name] = _abstract(self._tensor_meta(finder, name, known[name]))
        unknown = [name for name in bound.omitted if name not in known]
        for name, type in (output_types(finder, types, unknown) if unknown else {}).items():
            known[name] = TensorArgument(tuple(_OutputDim.of(dim) for dim in type.shape), type.dtype)
        return known

    def _specialise(self, bound: BoundArguments) -> Specialization:
        bound = self._with_outputs(bound)
        specializer = Specializer(self.definition, self._known)
        return specializer.run(self._metas(specializer, bound))

    def _metas(self, specializer: Specializer, bound: BoundArguments) -> dict[str, ArgumentMeta]:
        return {
            name: self._tensor_meta(specializer, name, argument) if isinstance(argument, TensorArgument) else argument
            for name, argument in bound.arguments.items()
        }

    def _tensor_meta(self, specializer: Specializer, name: str, argument: TensorArgument) -> TensorMeta:
        dynamic = self._dynamic_axes(name, argument)
        shape = tuple(
            specializer.dim_of(dynamic[axis]) if axis in dynamic else dim.dim if isinstance(dim, _OutputDim) else cast("int", dim)
            for axis, dim in enumerate(argument.shape)
        )
        return TensorMeta(shape, argument.dtype)

    def _program(self, special: Specialization) -> Program:
        from tilejit.jit.build import program_of

        return program_of(special)


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


def _abstract(meta: ArgumentMeta) -> Abstract:
    if isinstance(meta, TensorMeta):
        return meta.type()
    return RuntimeValue(meta.dtype) if isinstance(meta, RuntimeScalar) else Static(meta.value)


def bind_scalars(definition: Definition, values: Mapping[str, object]) -> Mapping[str, Argument]:
    """Scalars given to compile() without tensors."""
    from tilejit.dtypes import INDEX
    from tilejit.jit.helpers import as_declared
    from tilejit.jit.meta import Constant

    out: dict[str, Argument] = {}
    for name, value in values.items():
        param = definition.param(name)
        if isinstance(value, RuntimeMarker) or stays_runtime(definition, param):
            out[name] = RuntimeScalar(param.dtype or INDEX)
        elif isinstance(value, bool | int | float):
            out[name] = Constant(as_declared(value, param))
        else:
            what = f"`{name}` must be a number or pl.RUNTIME, got {type(value).__name__}"
            raise ArgumentError(f"@pl.jit function '{definition.name}': {what}", help=f"pass {name}=1, or {name}=pl.RUNTIME to keep it a parameter")
    return out


def _bound_kernels(instance: object) -> dict[JITFunction, JITFunction]:
    """The kernels bound to an object, kept in the object so that they live as long as it does."""
    attributes = vars(instance)
    found = attributes.get("__tilejit_kernels__")
    if found is None:
        found = {}
        if isinstance(instance, type):
            type.__setattr__(instance, "__tilejit_kernels__", found)
        else:
            object.__setattr__(instance, "__tilejit_kernels__", found)
    return cast("dict[JITFunction, JITFunction]", found)


def _by_reference(module: str, qualified: str) -> object:
    """The kernel that a pickle names."""
    found: object = import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return found


# ----------------------------------------------------------------------------------------------------------------------
# decorators


class _Decorator:
    """`@pl.jit.incore` and its siblings, with or without options."""

    def __init__(self, kind: str, options: frozenset[str]) -> None:
        self._kind = kind
        self._options = options

    @overload
    def __call__(self, function: Callable[..., object], /) -> JITFunction: ...
    @overload
    def __call__(self, /, **options: object) -> Callable[[Callable[..., object]], JITFunction]: ...
    def __call__(self, function: Callable[..., object] | None = None, /, **options: object) -> JITFunction | Callable[[Callable[..., object]], JITFunction]:
        for name in options:
            if name not in self._options:
                raise TypeError(f"@pl.jit{'' if self._kind == 'orchestration' else '.' + self._kind} does not take `{name}=`")
        scalars = options.get("runtime_scalars")
        if scalars is not None:
            if isinstance(scalars, str):
                raise TypeError(f"runtime_scalars is a tuple of names: write runtime_scalars=({scalars!r},)")
            options["runtime_scalars"] = tuple(cast("tuple[str, ...]", scalars))
        if function is None:
            return lambda decorated: _decorate(decorated, self._kind, options, depth=2)
        return _decorate(function, self._kind, options, depth=2)


class _Jit(_Decorator):
    """`@pl.jit`."""

    def __init__(self) -> None:
        super().__init__("orchestration", frozenset({"auto_scope", "strict", "runtime_scalars", "on_drift"}))
        self.incore = _Decorator("incore", frozenset({"level"}))
        self.inline = _Decorator("inline", frozenset({"auto_scope"}))
        self.opaque = _Decorator("opaque", frozenset())


def _decorate(function: Callable[..., object], kind: str, options: Mapping[str, object], depth: int) -> JITFunction:
    if isinstance(function, staticmethod | classmethod):
        function = function.__func__
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        raise TypeError(f"@pl.jit decorates a function, got {type(function).__name__}")
    if plain.__name__ == "<lambda>":
        raise TypeError("@pl.jit cannot decorate a lambda: a kernel is a `def` with annotated parameters")
    extra = _annotation_names(plain, sys._getframe(depth).f_locals) if "<locals>" in plain.__qualname__ else {}
    return JITFunction(Definition(plain, kind, dict(options), extra))


def _annotation_names(function: Callable[..., object], seen: Mapping[str, object]) -> dict[str, object]:
    """Names that only string annotations of a nested function mention: Python keeps no closure for them."""
    import ast

    found: dict[str, object] = {}
    for annotation in function.__annotations__.values():
        if isinstance(annotation, str):
            names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
            found.update({name: seen[name] for name in names if name in seen})
    return {name: value for name, value in found.items() if name not in function.__code__.co_freevars}


jit = _Jit()

"""`@pto.jit(source=…)`: a PTO file, or its text, as a Python function whose signature is checked against it."""

from __future__ import annotations

import ctypes
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, cast

from tilejit.config import snapshot, under, values_in
from tilejit.errors import ArgumentError, OptionError, UnsupportedFeatureError
from tilejit.jit.bound import ByReference
from tilejit.jit.pto.launcher import Launcher
from tilejit.jit.pto.place import place_of
from tilejit.jit.pto.text import Content, Source, read_content, read_source
from tilejit.jit.pto.types import Parameter, parameters_of
from tilejit.kinds import is_a
from tilejit.runtime.call.warm import SettingsWatch
from tilejit.runtime.targets import DEFAULT, code_settings

if TYPE_CHECKING:
    from tilejit.jit.pto.code import PtoCode
    from tilejit.jit.pto.program import PtoProgram

T = TypeVar("T")

BACKENDS = ("vpto", "emitc")
MODES = ("auto", "explicit")
TARGETS = ("a2", "a3", "a2a3", "a5")
_GRIDS = 64
"""Grids whose launchers a kernel keeps; with more it starts anew."""


class _Unset:
    def __repr__(self) -> str:
        return "<unset>"


UNSET = _Unset()


@dataclass(frozen=True)
class Options:
    """What the decorator was told."""

    target: str = "a5"
    target_given: bool = False
    kernel_kind: object = UNSET
    backend: str = "vpto"
    entry: bool = True
    mode: str = "auto"
    insert_sync: bool | None = None
    frontend_options: tuple[tuple[str, object], ...] = ()
    native_options: object = None

    def flags(self) -> tuple[str, ...]:
        """How the vendor's tool chain would be called."""
        level = ["--pto-level=level3"] if self.mode == "explicit" else []
        sync = self.insert_sync if self.insert_sync is not None else self.mode == "auto"
        extra = os.environ.get("PTOAS_FLAGS", "").split()
        return (*level, *(["--enable-insert-sync"] if sync else []), f"--pto-backend={self.backend}", "--enable-tile-op-expand", *extra)


class SourceKernel(ByReference):
    """A PTO kernel from source. `kernel.compile()` or `kernel[grid, stream](*arguments)`."""

    __slots__ = ("__dict__", "__weakref__", "_bound_as", "_compiled", "_latest", "_place", "_source", "function", "name", "options", "parameters")

    def __init__(self, function: Callable[..., object], name: str, parameters: tuple[Parameter, ...], options: Options, source: str) -> None:
        self.function = function
        self.name = name
        self.parameters = parameters
        self.options = options
        self._source = source
        self._place = place_of(function)
        self._bound_as = None
        self._compiled: dict[tuple[object, object], CompiledKernel] = {}
        self._latest: tuple[SettingsWatch, Content | None, CompiledKernel] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def origin(self) -> Callable[..., object]:
        return self.function

    @property
    def source(self) -> Source:
        """The text as it is now, with its kind, path and digest."""
        return read_source(self._source, self._place)

    def compile(self, **constants: object) -> CompiledKernel:
        """Read the text, check it against the signature and by its own rules; the same object while the text stays the same."""
        if constants:
            raise ArgumentError(f"{self.name} comes from source and has no compile-time constants, got {', '.join(sorted(constants))}")
        return self._now()

    def _now(self) -> CompiledKernel:
        latest = self._latest
        if latest is not None:
            watch, content, found = latest
            if watch.hold() and (content is None or content.holds()):
                return found
        seen = snapshot()
        source, content = read_content(self._source, self._place)
        found = self.compiled_from(source, seen)
        watch = SettingsWatch()
        stays = source.path is None or content is not None  # text that stands in the program does
        self._latest = (watch, content, found) if stays and watch.start(seen) else None
        return found

    def compiled_from(self, source: Source, seen: Sequence[object]) -> CompiledKernel:
        """The kernel of this text, under the settings of a snapshot."""
        key = self._key(source)
        with under(values_in(seen)):
            chosen = code_settings(DEFAULT)
            found = self._compiled.get((key, chosen))
            if found is None:
                found = self._compiled[key, chosen] = CompiledKernel(self, source, key, self._code(source))
        return found

    def _key(self, source: Source) -> object:
        chosen = self.options
        identity = (
            "source", source.path, source.digest, self.name, chosen.entry, chosen.target, chosen.kernel_kind, chosen.backend, chosen.mode,
            chosen.insert_sync, "module",
        )  # fmt: skip
        return (identity, tuple((parameter.kind, parameter.name, parameter.type) for parameter in self.parameters), ())

    def _code(self, source: Source) -> PtoCode:
        from tilejit.jit.pto.code import PtoCode, key_of

        chosen = self.options
        arch = chosen.target if chosen.target_given else None

        def check() -> PtoProgram:
            from tilejit.jit.pto import program as pto_program

            return pto_program.load(source.text, source.name, self.name, self.parameters, arch)

        arguments = {parameter.name: parameter.type.text for parameter in self.parameters if parameter.type is not None}
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        options = {"backend": chosen.backend, "mode": chosen.mode, "insert_sync": chosen.insert_sync, "kernel_kind": repr(chosen.kernel_kind)}
        fields = {"source": source.digest, "path": source.path, "entry": self.name, "arguments": arguments, "arch": arch, "options": options}
        return PtoCode(name, key_of(name, fields), tuple(arguments), tuple(arguments.values()), check)

    def __getitem__(self, place: object) -> Launcher:
        # The short way for the commonest place; `type`, because True and 1.0 are equal to a grid of 1.
        if (latest := self._latest) is not None and type(place) is tuple and len(place) == 2 and type(grid := place[0]) is int and place[1] is None:
            _, content, compiled = latest
            if (content is None or content.stands()) and (found := compiled.launchers.get(grid)) is not None:
                return found  # it looks at the settings itself
        return self._now()[place]

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise ArgumentError(f"{self.name} is a kernel: launch it", help=f"{self.name}[grid, stream](…), with stream=None for the current one")

    def cached_specializations(self) -> tuple[object, ...]:
        """The keys of what was compiled."""
        return tuple(dict.fromkeys(key for key, _ in self._compiled))

    def mlir_text(self) -> str:
        """The module, printed in canonical form."""
        return self.compile().program.text()

    def mlir_module(self) -> object:
        """The module itself."""
        return self.compile().program.file.module

    def verify(self) -> bool:
        """True, or the error that compile() would raise."""
        self.compile()
        return True

    def emit(self) -> str:
        return self.mlir_text()

    def __str__(self) -> str:
        return self.mlir_text()

    def __repr__(self) -> str:
        shown = ", ".join(f"{parameter.name}: {parameter.type!r}" for parameter in self.parameters)
        return f"<pto kernel {self.name}({shown})>"


@dataclass(eq=False)
class CompiledKernel:
    """A checked kernel: `compiled[grid, stream](*arguments)` runs it."""

    kernel: SourceKernel
    source: Source
    specialization_key: object
    code: PtoCode = field(repr=False)
    constexpr_bindings: Mapping[str, object] = field(default_factory=dict[str, object])
    launchers: dict[int, Launcher] = field(default_factory=dict[int, Launcher], init=False, repr=False)
    """By grid: a launch like an earlier one takes its warm way."""

    @property
    def program(self) -> PtoProgram:
        """The checked module and its entry."""
        return self.code.program

    @property
    def backend(self) -> str:
        """"cpu": it runs as machine code; "interpreter": op by op, `interpreted_because` says why."""
        return self.code.backend

    @property
    def interpreted_because(self) -> str | None:
        """Why the kernel is interpreted; None when it is machine code."""
        return self.code.interpreted_because

    @property
    def ir_function_name(self) -> str:
        return self.kernel.name

    @property
    def native_flags(self) -> tuple[str, ...]:
        """How the vendor's tool chain would be called for this kernel."""
        return self.kernel.options.flags()

    def native_library(self) -> str:
        raise UnsupportedFeatureError(
            f"there is no native library of {self.kernel.name}: it runs on this machine without the vendor's tool chain",
            help="give the text of the kernel to ptoas with compiled.native_flags",
        )

    def __copy__(self) -> CompiledKernel:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> CompiledKernel:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        name = self.kernel.name
        raise ArgumentError(f"{name}, compiled, cannot be pickled: it is code of this process", help=f"pickle {name} itself, and compile it where it is loaded")

    def __getitem__(self, place: object) -> Launcher:
        if not isinstance(place, tuple) or len(place) != 2:
            raise ArgumentError(f"launch {self.kernel.name} with [grid, stream], got {place!r}", help="stream=None is the current one")
        given, stream = place
        grid = int.__int__(given) if is_a(given, int) and not is_a(given, bool) else 0
        if grid < 1:
            raise OptionError(f"the grid of {self.kernel.name} is a positive number of blocks, got {given!r}")
        if not (stream is None or isinstance(stream, int | ctypes.c_void_p) or hasattr(stream, "value")):
            raise ArgumentError(f"the stream of {self.kernel.name} is None, an address or an object with .value, got {type(stream).__name__}")
        found = self.launchers.get(grid)
        if found is None:
            if len(self.launchers) >= _GRIDS:
                self.launchers.clear()
            found = self.launchers[grid] = Launcher(self, grid)
        return found


# the decorator --------------------------------------------------------------------------------------------------------------------


def jit(
    name: str | None = None,
    *,
    target: str | _Unset = UNSET,
    kernel_kind: object = UNSET,
    backend: str = "vpto",
    entry: bool = True,
    mode: str = "auto",
    insert_sync: bool | None = None,
    ast_rewrite: bool | None = None,
    frontend_options: Mapping[str, object] | None = None,
    source: str | None = None,
    native_options: object = None,
) -> Callable[[Callable[..., object]], SourceKernel]:
    """A kernel written as PTO text: `@pto.jit(source="kernel.pto")` above a function whose annotations are its ABI."""
    if callable(name):
        raise _tracing(getattr(name, "__name__", "kernel"))

    def decorate(function: Callable[..., object]) -> SourceKernel:
        if not inspect.isfunction(plain := inspect.unwrap(function)):
            raise ArgumentError(f"@pto.jit decorates a function, whose signature is the ABI, got {type(function).__name__}")
        parameters = parameters_of(function, sys._getframe(1).f_locals)
        symbol = _text(name) or function.__name__
        chosen = Options(
            "a5" if isinstance(target, _Unset) else _text(target), not isinstance(target, _Unset), _text(kernel_kind), _text(backend), entry, _text(mode),
            insert_sync, tuple(_frontend_options(ast_rewrite, frontend_options).items()), native_options,
        )  # fmt: skip
        _check_choices(f"{symbol} ({plain.__code__.co_filename}:{plain.__code__.co_firstlineno})", symbol, chosen)
        if source is None:
            raise _tracing(symbol)
        _check_source(symbol, source, entry, parameters)
        return SourceKernel(function, symbol, parameters, chosen, str.__str__(source))

    return decorate


def _text(option: T) -> T:
    """An option without a class of its own, if it is text: keys and digests ask it what it is."""
    return cast("T", str.__str__(option)) if is_a(option, str) else option


def _tracing(kernel: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{kernel}: @pto.jit takes PTO text only; kernels written in Python are for @pl.jit", help='give source="kernel.pto", or write the kernel with @pl.jit'
    )


def _check_choices(place: str, symbol: object, chosen: Options) -> None:
    """Whether the options are such that have a meaning; their types are whatever somebody passed."""
    if not is_a(symbol, str):
        raise ArgumentError(f"the name of {place} is the text of a symbol, got {symbol!r}")
    for option, given, choices in (("backend", chosen.backend, BACKENDS), ("mode", chosen.mode, MODES), ("target", chosen.target, TARGETS)):
        if not is_a(given, str) or (given.lower() if option == "target" else given) not in choices:
            raise OptionError(f"unknown {option} {given!r} of {place}: it is one of {', '.join(choices)}")
    if chosen.backend == "emitc" and chosen.mode == "explicit":
        raise OptionError(f"the backend 'emitc' has no mode 'explicit', in {place}")
    if not is_a(chosen.kernel_kind, str, Enum, _Unset, type(None)):
        raise ArgumentError(f'kernel_kind of {place} is a text like "vector", got {chosen.kernel_kind!r}')
    if not is_a(chosen.insert_sync, bool, type(None)):
        raise ArgumentError(f"insert_sync of {place} is True, False or None, got {chosen.insert_sync!r}")
    if not is_a(chosen.entry, bool):
        raise ArgumentError(f"entry of {place} is True or False, got {chosen.entry!r}")


def _check_source(symbol: str, source: object, entry: bool, parameters: Sequence[Parameter]) -> None:
    if not is_a(source, str):
        raise ArgumentError(f"the source of {symbol} is a filesystem path string, or PTO text; got {type(source).__name__}")
    if not entry:
        raise ArgumentError(f"{symbol} comes from source: it is an entry, entry=False has no meaning")
    for parameter in parameters:
        if parameter.type is None:
            raise ArgumentError(f"{symbol} comes from source: it has no compile-time constants, got `{parameter.name}`")


_FRONTEND = ("ast_rewrite", "rewrite_part", "dump_rewritten_source")


def _frontend_options(ast_rewrite: bool | None, options: Mapping[str, object] | None) -> dict[str, object]:
    """The options of the tracing front end: checked and recorded; they have no effect on source-backed kernels."""
    if options is None:
        return {} if ast_rewrite is None else {"ast_rewrite": ast_rewrite}
    if not isinstance(options, Mapping):
        raise ArgumentError(f"frontend_options is a mapping, got {type(options).__name__}")
    unknown = [key for key in options if key not in _FRONTEND]
    if unknown:
        raise OptionError(f"unknown frontend option {unknown[0]!r}: it is one of {', '.join(_FRONTEND)}")
    if not isinstance(options.get("ast_rewrite", False), bool):
        raise ArgumentError(f"ast_rewrite is True or False, got {options['ast_rewrite']!r}")
    if ast_rewrite is not None and options.get("ast_rewrite", ast_rewrite) != ast_rewrite:
        raise OptionError("ast_rewrite and frontend_options['ast_rewrite'] disagree")
    part = options.get("rewrite_part", "control_flow")
    parts = list(part) if isinstance(part, set | frozenset | tuple | list) else [part]
    if not parts or any(item != "control_flow" for item in parts):
        raise OptionError(f"rewrite_part is {{'control_flow'}}, got {part!r}")
    if options.get("dump_rewritten_source", False) is not False:
        raise OptionError("dump_rewritten_source can only be False")
    return {"ast_rewrite": ast_rewrite, **options}

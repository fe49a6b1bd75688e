"""Host functions in artifacts: their texts and what the names in them stand for, as JSON, so that another process can run them without any compiler."""

from __future__ import annotations

import ast
import functools
import json
import linecache
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from tilejit.dtypes import DTYPES
from tilejit.errors import ArtifactError
from tilejit.frontend.fold import Namespace
from tilejit.frontend.source import block_of, parsed
from tilejit.frontend.texts import python_lines
from tilejit.jit.definition import Definition, Kernel, receiver_of
from tilejit.jit.hosts import stored_texts
from tilejit.jit.hosts.found_kernels import FoundKernels, modules_of, origin_of, paths_to, untuned, which
from tilejit.jit.hosts.launching import launch_of, run_text
from tilejit.jit.hosts.stand_ins import StandIn
from tilejit.jit.reads.plain import NotPlain, decode, encode, is_builtin, is_plain, same
from tilejit.kinds import class_name, is_a
from tilejit.runtime.arrays import DeviceTensor, number_of
from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks.launches import Fixed, LaunchParam
from tilejit.runtime.ranks.recording import recording
from tilejit.types.annotations import DynVar, RuntimeMarker
from tilejit.types.python_text import module_code

_LATER_NAMES = annotations.compiler_flag
"""Whether annotations are text until somebody asks: as the module of the function has it."""


ProgramsOf = Callable[[Kernel], Sequence[tuple[int, Mapping[str, object]]]]
"""Which of the compiled programs of an artifact a kernel may be that a host function names, and the arguments that became part of each."""


class Writer:
    """The functions of one artifact; each is written once, whoever names it."""

    def __init__(self, programs_of: ProgramsOf) -> None:
        self._programs_of = programs_of
        self._known: list[object] = []
        self._symbols: list[DynVar] = []
        self._objects: list[object] = []
        """Lists and dicts: what one function changes the others see."""
        self._kernels: list[Kernel] = []
        self._modules: list[ModuleType] = []
        """Those that texts name."""
        self.fields: dict[str, list[Any]] = {"functions": [], "objects": [], "kernels": []}
        self.lost: list[str] = []
        """What no other process could have."""

    def host(self, definition: Definition) -> int:
        """The number of a host function, whose own text runs, whatever is wrapped around it."""
        return self.function(definition.function, definition.extra, definition.around)

    def function(self, plain: object, extra: Mapping[str, object], annotated: Mapping[str, object] | None = None) -> int:
        """The number of a function; one that is wrapped around another one is written with what it wraps."""
        assert isinstance(plain, FunctionType)
        if plain in self._known:
            return self._known.index(plain)
        number = len(self._known)
        self._known.append(plain)
        self.fields["functions"].append(None)
        block = block_of(_without_attributes(plain))
        node = parsed(block).node
        text = "".join(block.whole[node.lineno - 1 : node.end_lineno])
        names = self._names(plain, node, stored_texts.outer_names(text, node.name), extra, annotated or {})
        # Names in the text may stand for something else by now: defaults are what they were when the function was defined.
        defaults = self._encoded(f"a default of `{plain.__name__}`", (plain.__defaults__, plain.__kwdefaults__))
        self.fields["functions"][number] = {
            "name": plain.__name__, "qualname": plain.__qualname__, "module": self._encoded(f"`{plain.__name__}.__module__`", plain.__module__),
            "doc": self._encoded(f"`{plain.__name__}.__doc__`", plain.__doc__), "defined": node.name, "attributes": self._attributes_of(plain),
            "file": block.filename, "line": node.lineno, "text": text, "names": names, "defaults": defaults,
            "later": bool(plain.__code__.co_flags & _LATER_NAMES), "method": "self" in extra,
        }  # fmt: skip
        if (receiver := receiver_of(plain, extra)) is not None:
            self.lost.append(f"`{plain.__code__.co_varnames[0]}` of `{plain.__name__}` is a {type(receiver).__name__}")
        return number

    def _names(
        self, plain: FunctionType, node: ast.FunctionDef, inside: set[str], extra: Mapping[str, object], annotated: Mapping[str, object]
    ) -> dict[str, object]:
        """What the names in a text stand for that are not its own: `inside` are those in its body."""
        bound = [name for item in ast.walk(node) if isinstance(item, ast.Global | ast.Nonlocal) for name in item.names]
        self.lost += [f"`{name}` of `{plain.__name__}` is a variable of others that it binds anew" for name in bound if name not in plain.__code__.co_cellvars]
        self.lost += [f"`{name}` of `{plain.__name__}` is a private name of its class" for name in stored_texts.private_names(node, plain.__code__)]
        namespace = Namespace(plain, extra)
        around = stored_texts.named([node.args, *([node.returns] if node.returns is not None else [])])
        values = {name: annotated[name] if name in annotated and name not in inside else namespace.get(name, _NOTHING) for name in sorted(around | inside)}
        self.lost += [f"`{name}` of `{plain.__name__}` tells of the names around it" for name in stored_texts.of_its_own_names(node, values)]
        names: dict[str, object] = {}
        for name, value in values.items():
            self._modules += modules_of(name, value, node)
            if is_a(value, Kernel):
                self._refuse_attributes(value, stored_texts.attributes_of(name, node))
                self.lost += [f"`{asked}({name})` is an answer of a kernel" for asked in stored_texts.kinds_asked(name, node)]
                if stored_texts.is_given_away(name, node):
                    self._refuse_attributes(value)
                names[name] = self._stand_in(value)
            elif value is not _NOTHING and not is_builtin(name, value) and not (name == "self" and name in extra):
                names[name] = self._encoded(f"`{name}` of `{plain.__name__}`", value)
        return names

    def _attributes_of(self, function: FunctionType) -> dict[str, object]:
        """All that somebody set: a text may ask for it under any name of the function."""
        return {name: self._encoded(f"`{function.__name__}.{name}`", value) for name, value in vars(function).items()}

    def _refuse_attributes(self, kernel: Kernel, read: set[str] | None = None) -> None:
        """Nobody could say what another process has as attributes of a kernel. `read` are those that a text asks for; None: any that somebody set."""
        held = vars(kernel).keys()
        asked = held - _OF_EVERY_KERNEL if read is None else {name for name in read if name in held or hasattr(type(kernel), name)}
        for attribute in sorted(asked):
            self.lost.append(f"`{kernel.definition.name}.{attribute}` is an attribute of a kernel")

    def _encoded(self, what: str, value: object) -> Any:
        written = encode(value, lambda value: self._other(what, value), lambda value: self._object(what, value))
        self.lost += [f"{what} has `{name}`, which tells of the names around it" for name in stored_texts.namespaces_in(written)]
        return written

    def _object(self, what: str, value: object) -> object:
        """A list or dict, written once, whoever names it."""
        number = next((number for number, known in enumerate(self._objects) if known is value), len(self._objects))
        if number == len(self._objects):
            self._objects.append(value)
            self.fields["objects"].append(None)
            items = value.items() if isinstance(value, dict) else cast("list[object]", value)
            self.fields["objects"][number] = [type(value).__name__, *[self._encoded(what, item) for item in items]]
        return ["object", number]

    def _other(self, what: str, value: object) -> object:
        if is_a(value, ModuleType):
            self._modules.append(value)
            return ["module", value.__name__]
        if is_a(value, DynVar):
            if value not in self._symbols:
                self._symbols.append(value)
            return ["dynamic", value.name, self._symbols.index(value)]
        if is_a(value, Kernel):
            self._refuse_attributes(value)
            return self._stand_in(value)
        if is_a(value, FunctionType):
            return ["function", self.function(value, {})]
        self.lost.append(f"{what} is a {type(value).__name__}")
        return ["lost"]

    def _stand_in(self, kernel: Kernel) -> object:
        return ["host", self.host(kernel.definition)] if kernel.definition.kind == "host" else self.kernel(kernel)

    def kernel(self, kernel: Kernel) -> object:
        """A kernel, with the programs that it was compiled to."""
        kernel = untuned(kernel)
        number = next((number for number, known in enumerate(self._kernels) if which(known) == which(kernel)), len(self._kernels))
        if number == len(self._kernels):
            self._kernels.append(kernel)
            params = [_write_param(param) for param in launch_of(cast("Any", kernel)).params]
            programs = [[number, self._constants(kernel, constants)] for number, constants in self._programs_of(kernel)]
            self.fields["kernels"].append({"name": kernel.definition.name, "origin": origin_of(kernel), "params": params, "programs": programs})
        return ["kernel", number]

    def _constants(self, kernel: Kernel, constants: Mapping[str, object]) -> object:
        """The arguments that became part of a program."""
        try:
            return encode(dict(constants))
        except NotPlain:
            self.lost += [f"`{name}` of `{kernel.definition.name}` is a {class_name(type(value))}" for name, value in constants.items() if not is_plain(value)]
            return encode({})

    def launched(self, kernels: Sequence[Kernel]) -> None:
        """Add what host functions launched, when all their texts are written: those that no text names were found in a module."""
        named = [which(kernel) for kernel in self._kernels]
        for kernel in kernels:
            self.kernel(kernel)
        for kernel, row in zip(self._kernels, self.fields["kernels"], strict=True):
            row["paths"] = paths_to(kernel, self._modules)
            if not row["paths"] and which(kernel) not in named:
                self.lost.append(f"`{row['name']}` is a kernel that neither a text nor a module has under a name")


_NOTHING = object()
_OF_EVERY_KERNEL = {*functools.WRAPPER_ASSIGNMENTS, "__wrapped__"}
"""Attributes that kernels have of their functions."""


def _without_attributes(function: FunctionType) -> FunctionType:
    """A function whose text is its own, not that of what it wraps."""
    made = FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def _write_param(param: LaunchParam) -> list[object]:
    shape = None if param.shape is None else [extent if is_a(extent, int) else str(getattr(extent, "name", extent)) for extent in param.shape]
    try:
        default = encode(number_of(param.default))
    except NotPlain:
        default = encode(...)
    return [param.name, param.kind, shape, param.dtype.name if param.dtype is not None else None, default, param.direction]


def _read_param(row: Sequence[Any]) -> LaunchParam:
    name, kind, shape, dtype, default, direction = row
    return LaunchParam(name, kind, None if shape is None else tuple(shape), DTYPES[dtype] if dtype is not None else None, decode(default), direction)


# reading ----------------------------------------------------------------------------------------------------------------


Stored = tuple[CompiledEntry, Mapping[str, object]]
"""A compiled program, and the arguments that became part of it."""


class StoredLaunch:
    """A kernel of an artifact as a recorder sees it: one of some compiled programs."""

    def __init__(self, name: str, params: Sequence[LaunchParam], entries: Sequence[Stored], digest: Callable[[], str]) -> None:
        self.name, self.params, self._entries, self._digest = name, tuple(params), entries, digest

    def compiled(self, values: Mapping[str, object], config: RunConfig | None) -> Fixed:
        number = chosen(self._entries, values)
        if number is not None:
            return Fixed(self._entries[number][0], lambda: f"{self.name}{number}{self._digest()}")
        given = [f"{name}: {list(value.shape)} of {value.dtype}" for name, value in values.items() if is_a(value, np.ndarray, DeviceTensor)]
        given += [f"{name}: {value!r}" for name, value in values.items() if not _is_open(value)]
        help = "compile the host function for such arguments too"
        raise ArtifactError(f"`{self.name}` was not compiled for {', '.join(given)}", help=help)


def constants_of(values: Mapping[str, object]) -> dict[str, object]:
    """The arguments that become part of a program."""
    return {name: value for name, value in values.items() if not _is_open(value)}


def _is_open(value: object) -> bool:
    return isinstance(value, np.ndarray | DeviceTensor | RuntimeMarker)


def chosen(entries: Sequence[Stored], values: Mapping[str, object]) -> int | None:
    """The place of the program for such arguments."""
    given = constants_of(values)
    for number, (entry, constants) in enumerate(entries):
        alike = given.keys() == constants.keys() and all(is_plain(value) and same(value, constants[name]) for name, value in given.items())
        if alike and _takes(entry, values):
            return number
    return None


def _takes(entry: CompiledEntry, values: Mapping[str, object]) -> bool:
    """Whether a compiled function takes arguments of these shapes and dtypes."""
    symbols: dict[str, int] = {}
    for param in entry.signature.params:
        value = values[param.name]
        if not is_a(value, np.ndarray, DeviceTensor):
            if param.shape is not None:
                return False
            continue
        dtype = param.dtype if is_a(value, DeviceTensor) else param.dtype.numpy
        if param.shape is None or value.dtype != dtype or len(param.shape) != len(value.shape):
            return False
        if any((symbols.setdefault(dim, extent) if isinstance(dim, str) else dim) != extent for dim, extent in zip(param.shape, value.shape, strict=True)):
            return False
    return True


class Reader:
    """The functions of an artifact."""

    def __init__(self, fields: Mapping[str, Any], launches: Sequence[StoredLaunch] = ()) -> None:
        self._rows, self._objects, self._launches = fields["functions"], fields["objects"], launches
        self._made: dict[int, FunctionType] = {}
        self._stand_ins: dict[tuple[str, int], StandIn] = {}
        self._kernels: Sequence[Mapping[str, Any]] = fields["kernels"]
        self._under_way: set[int] = set()
        self._definitions: dict[int, Definition] = {}
        self._symbols: dict[int, DynVar] = {}
        self._shared: dict[int, list[object] | dict[object, object]] = {}
        for number in range(len(self._rows)):
            self.function(number)
        self._found = FoundKernels(fields["kernels"])

    def definition(self, number: int) -> Definition:
        """A host function."""
        if number not in self._definitions:
            self._definitions[number] = Definition(self.function(number), "host", {}, {"self": None} if self._rows[number]["method"] else {})
        return self._definitions[number]

    def function(self, number: int) -> Callable[..., object]:
        """A function, in a module of its own."""
        if number in self._made:
            return self._made[number]
        if number in self._under_way:
            raise ArtifactError(f"`{self._rows[number]['name']}` is needed to define it")
        self._under_way.add(number)
        row = self._rows[number]
        text = stored_texts.standalone(row["text"], row["line"])
        file = _kept(f"{row['file']} (stored {row['name']})", python_lines(text))
        module = module_code(text, file, _LATER_NAMES if row["later"] else 0)
        space: dict[str, object] = {"__name__": "tilejit.stored"}
        code = stored_texts.code_in(module, row["defined"])
        if code is not None:  # first, so that it is one object wherever it is mentioned: what it reads is there when it is called
            self._made[number] = FunctionType(code, space)
        space.update({name: decode(data, self._other) for name, data in row["names"].items()})
        names = dict(space)
        exec(module, space)
        defined = cast("FunctionType", space.pop(row["defined"]))
        space.update(names)  # the text may have another meaning for the name of the function: a method has that of a builtin, a wrapper any
        made = self._made.setdefault(number, defined)
        made.__annotations__ = defined.__annotations__
        self._finish(made, row)
        return made

    def _finish(self, made: FunctionType, row: Mapping[str, Any]) -> None:
        """Give a function what is not in its text."""
        made.__name__, made.__qualname__ = row["name"], row["qualname"]
        made.__module__, made.__doc__ = cast("Any", (decode(row["module"], self._other), decode(row["doc"], self._other)))
        made.__defaults__, made.__kwdefaults__ = cast("Any", decode(row["defaults"], self._other))
        vars(made).update({name: decode(data, self._other) for name, data in row["attributes"].items()})

    def _other(self, tag: str, rows: list[Any]) -> object:
        if tag == "module":
            return import_module(rows[0])
        if tag == "dynamic":
            return self._symbols.setdefault(rows[1], DynVar(rows[0]))
        if tag == "function":
            return self.function(rows[0])
        if tag == "object":
            return self._object(rows[0])
        if tag in ("host", "kernel"):
            return self._stand_in(tag, rows[0])
        raise ValueError(tag)

    def _object(self, number: int) -> object:
        """A list or dict: one and the same, wherever it is mentioned, in itself too."""
        if number not in self._shared:
            kind, *rows = self._objects[number]
            made = self._shared[number] = {"list": list[object], "dict": dict[object, object]}[kind]()
            items = cast("Any", [decode(row, self._other) for row in rows])
            made.update(items) if isinstance(made, dict) else made.extend(items)
        return self._shared[number]

    def _stand_in(self, tag: str, number: int) -> StandIn:
        """What is called instead of a host function or a kernel: one and the same, wherever it is mentioned."""

        def called(*args: object, **named: object) -> object:
            return self._run_host(self.definition(number), args, named) if tag == "host" else self._launch(self._launches[number], args, named)

        name = str(self._rows[number]["name"]) if tag == "host" else self._kernels[number]["name"]
        return self._stand_ins.setdefault((tag, number), StandIn(name, called))

    def kernel(self, kernel: Kernel) -> StoredLaunch:
        """What a kernel was compiled to that a text finds in a module of this process."""
        number = self._found.number(kernel)
        if number is None:
            help = "compile the host function again, with the name of the kernel in its text"
            raise ArtifactError(f"`{kernel.definition.name}` is none of the kernels that were stored", help=help)
        return self._launches[number]

    def _launch(self, launch: StoredLaunch, args: Sequence[object], named: Mapping[str, object]) -> object:
        return _recorder(launch.name).launch(launch, args, named)

    def _run_host(self, definition: Definition, args: Sequence[object], named: Mapping[str, object]) -> object:
        return run_text(definition, _recorder(definition.name), list(args), named)


def _kept(file: str, lines: list[str]) -> str:
    """Keep a text for messages, under a name of its own: the same file may have been stored at different times."""
    number, name = 1, file
    while name in linecache.cache and linecache.getlines(name) != lines:
        number, name = number + 1, f"{file} {number + 1}"
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return name


def _recorder(name: str) -> Any:
    found = recording()
    if found is None:
        raise ArtifactError(f"`{name}` of an artifact is launched by its host function only")
    return found


def read_fields(data: bytes, entries: Sequence[CompiledEntry], digest: Callable[[], str]) -> tuple[dict[str, Any], Reader]:
    """What an artifact says of its host functions."""
    fields = json.loads(data)
    launches: list[StoredLaunch] = []
    for row in fields["kernels"]:
        programs = [(entries[number], cast("dict[str, object]", decode(data))) for number, data in row["programs"]]
        launches.append(StoredLaunch(row["name"], [_read_param(param) for param in row["params"]], programs, digest))
    return fields, Reader(fields, launches)


def told(definitions: Iterable[Definition]) -> str:
    """What annotations and the like make of the parameters of functions, in writing; symbols by number."""
    symbols: dict[int, int] = {}
    rows = [[param.name, *param.described()] for definition in definitions for param in definition.params]
    return json.dumps(rows, default=lambda symbol: [symbol.name, symbols.setdefault(id(symbol), len(symbols))])

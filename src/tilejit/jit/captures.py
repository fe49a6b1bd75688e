"""What a kernel reads besides its arguments: found in the text before anything is compiled, encoded for the key.

Discovery is static and generous: every name, attribute chain and constant subscript of the body, the annotations and the
defaults, through all helpers. What specialisation really reads is recorded and compared with it (`uncovered`): a kernel
that reads something discovery did not see is compiled, but never kept on disk.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from tilejit.errors import ParserSyntaxError
from tilejit.frontend.fold import Namespace
from tilejit.frontend.source import function_text
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.dependencies import reachable
from tilejit.jit.encode import encode_value
from tilejit.jit.tree import tree_of

MISSING = object()
_LIBRARIES = frozenset({"numpy", "torch", "ml_dtypes", "tilejit"})
"""Packages whose functions are known by name and version."""

Step = tuple[str, object]
"""One step of a chain: ("attr", name) or ("item", constant)."""


@dataclass(frozen=True, slots=True)
class Read:
    """A value that a function reads: where the chain starts and how it goes on."""

    owner: str
    """Name of the function that reads it, for messages."""
    namespace: Mapping[str, object] = field(repr=False, compare=False)
    root: str
    steps: tuple[Step, ...]

    @property
    def path(self) -> str:
        """The chain as written."""
        return self.root + "".join(f".{key}" if kind == "attr" else f"[{key!r}]" for kind, key in self.steps)

    @property
    def kind(self) -> str:
        """Where the chain starts, in a word."""
        namespace = self.namespace
        if isinstance(namespace, Namespace):
            if self.root in namespace.extra:
                return "attribute"
            if namespace.cell(self.root) is not None:
                return "closure"
        return "global"

    def resolve(self) -> object:
        """The present value, or MISSING."""
        value = self.namespace.get(self.root, MISSING)
        for kind, key in self.steps:
            if value is MISSING:
                break
            value = _step(value, kind, key)
        return value

    def containers(self) -> Iterator[object]:
        """The objects that the chain passes through, root value first."""
        value = self.namespace.get(self.root, MISSING)
        for kind, key in self.steps:
            yield value
            value = _step(value, kind, key)


def _step(value: object, kind: str, key: object) -> object:
    try:
        return getattr(value, str(key)) if kind == "attr" else cast("dict[object, object]", value)[key]
    except Exception:
        return MISSING  # a property may raise anything; specialising says so where it is read


# ----------------------------------------------------------------------------------------------------------------------
# discovery


_LINKS = frozenset({ast.Name, ast.Attribute, ast.Subscript})


def chains(nodes: Iterable[ast.AST], local: frozenset[str]) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Every chain among `nodes` (parents before children) that starts at a name which is not local; the longest form of each."""
    inner: set[int] = set()
    for child in nodes:
        if type(child) not in _LINKS or id(child) in inner or not isinstance((child := cast("ast.Name | ast.Attribute | ast.Subscript", child)).ctx, ast.Load):
            continue
        steps: list[Step] = []
        base: ast.expr = child
        while isinstance(base, ast.Attribute | ast.Subscript):
            inner.add(id(base.value))
            if isinstance(base, ast.Attribute):
                steps.append(("attr", base.attr))
            elif isinstance(base.slice, ast.Constant):
                steps.append(("item", base.slice.value))
            else:
                # An index known only later may reach any item: what counts is the whole container.
                steps.clear()
            base = base.value
        if isinstance(base, ast.Name) and base.id not in local:
            yield base.id, tuple(reversed(steps))


def _local_names(node: ast.FunctionDef, nodes: Iterable[ast.AST]) -> frozenset[str]:
    arguments = node.args
    names = {arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg) if arg is not None}
    names.update(child.id for child in nodes if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store))
    return frozenset(names)


def _string_annotations(node: ast.FunctionDef) -> Iterator[ast.expr]:
    """Annotations written as text (`from __future__ import annotations`, or quotes)."""
    arguments = node.args
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if isinstance(arg.annotation, ast.Constant) and isinstance(arg.annotation.value, str):
            try:
                yield ast.parse(arg.annotation.value, mode="eval").body
            except SyntaxError:
                continue  # the front end says what is wrong with it


@dataclass
class Captures:
    """Everything that the entry, its helpers and the Python functions they call read."""

    entry: Definition
    reads: dict[tuple[str, str], Read] = field(default_factory=dict[tuple[str, str], Read])
    """By (function, path)."""

    def __post_init__(self) -> None:
        self._texts: list[bytes] = []
        self._seen_functions: dict[int, bytes] = {}
        self._language: set[tuple[str, str]] = set()
        self.definitions = reachable(self.entry)
        """The kernel and its helpers, leaf first."""
        for definition in self.definitions:
            self._add_kernel(definition)

    # functions ------------------------------------------------------------------------------------------------------------

    def _add_kernel(self, definition: Definition) -> None:
        node = definition.text.node
        owner = identity(definition.function)
        options = encode_value(dict(definition.options), f"options of {definition.name}", self.function_digest) if definition.options else b""
        defaults = self._defaults(definition.function)
        receivers = [_type_identity(value) for name, value in definition.extra.items() if name in ("self", "cls")]
        self._texts += [owner.encode(), definition.kind.encode(), options, defaults, "".join(receivers).encode(), definition.tree.text.encode()]
        for annotation in _string_annotations(node):
            self._add_chains(owner, ast.walk(annotation), definition.namespace, definition.local_names)
        self._add_chains(owner, definition.tree.nodes, definition.namespace, definition.local_names)

    def _add_chains(self, owner: str, nodes: Iterable[ast.AST], namespace: Mapping[str, object], local: frozenset[str]) -> None:
        for root, steps in chains(nodes, local):
            read = self._trimmed(Read(owner, namespace, root, steps))
            if read is not None:
                self.reads.setdefault((owner, read.path), read)

    def _trimmed(self, read: Read) -> Read | None:
        """The part of a chain that leads to a captured value: up to our own names, kernels, or a method of the value."""
        value = read.namespace.get(read.root, MISSING)
        if value is MISSING:
            return None
        if _is_ours(value):
            self._language.add((read.owner, read.root))
            return None
        kept: list[Step] = []
        for kind, key in read.steps:
            following = _step(value, kind, key)
            if following is not MISSING and _is_method_of(value, following):
                break
            kept.append((kind, key))
            if following is MISSING:
                break  # it is this that specialising will stumble over, not what it is missing from
            value = following
            if _is_ours(value):
                return None
        return Read(read.owner, read.namespace, read.root, tuple(kept))

    def function_digest(self, function: Callable[..., object]) -> bytes:
        """A plain Python function by its text and what it reads; library functions by name. Recursion ends at the name."""
        plain = inspect.unwrap(function.__func__ if isinstance(function, types.MethodType) else function)
        name = identity(plain).encode()
        if _is_library(plain) or not isinstance(plain, types.FunctionType):
            return name + _version_of(plain).encode()
        if id(plain) not in self._seen_functions:
            self._seen_functions[id(plain)] = name
            self._seen_functions[id(plain)] = hashlib.sha256(name + self._function_content(plain)).digest()
        return self._seen_functions[id(plain)]

    def _function_content(self, function: types.FunctionType) -> bytes:
        owner = identity(function)
        try:
            node = function_text(function).node
            tree = tree_of(node)
            local = _local_names(node, tree.nodes)
        except (OSError, TypeError, ParserSyntaxError):
            # Lambdas and generated functions have no definition of their own to parse: their code tells as much.
            code = function.__code__
            names = frozenset[str]()
            for name in code.co_names + code.co_freevars:
                self._add_chains(owner, [ast.Name(name, ast.Load())], Namespace(function), names)
            text = code.co_code + encode_value(_plain_constants(code), owner, self.function_digest) + " ".join(code.co_names).encode()
        else:
            self._add_chains(owner, tree.nodes, Namespace(function), local)
            text = tree.text.encode()
        return text + self._defaults(function)

    def _defaults(self, function: Callable[..., object]) -> bytes:
        values = (getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None))
        return encode_value(values, f"defaults of {function.__name__}", self.function_digest) if values != (None, None) else b""

    # the key --------------------------------------------------------------------------------------------------------------

    @cached_property
    def baseline(self) -> dict[tuple[str, str], bytes]:
        """The encoding of every read; UncacheableValueError when one has none. More reads turn up while functions are encoded."""
        out: dict[tuple[str, str], bytes] = {}
        while len(out) < len(self.reads):
            for key, read in list(self.reads.items()):
                if key not in out:
                    out[key] = self.encoding(read)
        return out

    def encoding(self, read: Read) -> bytes:
        """The present encoding of a read."""
        value = read.resolve()
        if value is MISSING:
            return b"missing"
        if isinstance(value, Kernel):
            return b"kernel " + identity(value.definition.function).encode()
        return encode_value(value, read.path, self.function_digest)

    def encoding_anew(self, read: Read) -> bytes:
        """The same, with functions read again: a monkeypatched or reloaded helper has another text."""
        fresh = Captures.__new__(Captures)
        fresh.entry, fresh.reads, fresh._texts, fresh._seen_functions, fresh._language = self.entry, {}, [], {}, set()
        return fresh.encoding(read)

    @cached_property
    def digest(self) -> str:
        """The definition's part of the key."""
        whole = hashlib.sha256()
        rows = sorted(f"{owner}\0{path}\0".encode() + encoding for (owner, path), encoding in self.baseline.items())
        for part in (*self._texts, *rows):
            whole.update(len(part).to_bytes(8, "little"))
            whole.update(part)
        return whole.hexdigest()

    def described(self) -> dict[str, str]:
        """The reads in words, for `explain` and the entry on disk."""
        shown: dict[str, str] = {}
        for (owner, path), encoding in self.baseline.items():
            value = self.reads[owner, path].resolve()
            text = repr(value) if isinstance(value, bool | int | float | str | tuple) else hashlib.sha256(encoding).hexdigest()[:12]
            where = "" if owner == identity(self.entry.function) else f" (in {owner})"
            shown[f"{self.reads[owner, path].kind} `{path}`{where}"] = text if len(text) <= 120 else text[:117] + "…"
        return shown

    def covers(self, owner: str, path: str) -> bool:
        """Whether discovery saw what specialisation read under `path`: the chain itself, one that holds it whole, or one that leads through it."""
        return any(known_owner == owner and _same_chain(path, known) for known_owner, known in (*self.reads, *self._language))


def _same_chain(a: str, b: str) -> bool:
    shorter, longer = sorted((a, b), key=len)
    return longer == shorter or longer.startswith((shorter + ".", shorter + "["))


def _plain_constants(code: types.CodeType) -> tuple[object, ...]:
    return tuple(item.co_code if isinstance(item, types.CodeType) else item for item in code.co_consts)


def identity(function: Callable[..., object]) -> str:
    """A function by module and name."""
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _type_identity(value: object) -> str:
    cls = value if isinstance(value, type) else type(value)
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_library(function: Callable[..., object]) -> bool:
    package = (getattr(function, "__module__", None) or "").partition(".")[0]
    return package in _LIBRARIES or package in sys.stdlib_module_names


def _version_of(function: Callable[..., object]) -> str:
    """The version of the library that a function belongs to."""
    package = sys.modules.get((getattr(function, "__module__", None) or "").partition(".")[0])
    return " " + str(getattr(package, "__version__", ""))


def _is_ours(value: object) -> bool:
    """Names of the language: what they mean is part of the tool chain, not of the kernel."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] == "tilejit"
    module = getattr(value if isinstance(value, type | types.FunctionType) else type(value), "__module__", None) or ""
    return module.partition(".")[0] == "tilejit" and not isinstance(value, Kernel) and not _carries_data(value)


def _carries_data(value: object) -> bool:
    """Our own types that a kernel may read as values: dtypes, symbols, annotations."""
    return hasattr(type(value), "__dataclass_fields__") or type(value).__name__ in ("DType", "DynVar")


def _is_method_of(owner: object, value: object) -> bool:
    bound = isinstance(value, types.BuiltinMethodType | types.MethodWrapperType) and getattr(value, "__self__", None) is owner
    return bound and not isinstance(owner, types.ModuleType)


def uncovered(captures: Captures, recorded: Iterable[tuple[str, str, object]]) -> list[str]:
    """Paths that specialisation read and discovery did not see; names of the language do not count."""
    return sorted({path for owner, path, value in recorded if not _is_ours(value) and not captures.covers(owner, path)})

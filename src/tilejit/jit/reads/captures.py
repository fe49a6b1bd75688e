"""What a kernel reads besides its arguments: found in the text before anything is compiled, encoded for the key.

Discovery is static and generous: every name, attribute chain and constant subscript of the body, the annotations and the
defaults, through all helpers. What specialisation really reads is recorded and compared with it (`uncovered`): a kernel
that reads something discovery did not see is compiled, but never kept on disk.
"""

from __future__ import annotations

import enum
import hashlib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from tilejit.errors import UncacheableValueError
from tilejit.frontend.fold import Namespace
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.reads.content import Chains, Content, Digests, identity, is_reflection
from tilejit.jit.reads.encode import encode_value, refusal, type_identity
from tilejit.jit.reads.facts import Step
from tilejit.jit.specialize.dependencies import reachable
from tilejit.runtime.artifact.lazy import lazy

MISSING = object()


@dataclass(frozen=True, slots=True)
class Read:
    """A value that a function reads: where the chain starts and how it goes on."""

    owner: str
    """Name of the function that reads it, for messages."""
    namespace: Mapping[str, object] = field(repr=False, compare=False)
    root: str
    steps: tuple[Step, ...]
    by_class: bool = field(default=False, compare=False)
    """Read by a method that is only there because its class is: what has no encoding then counts by its type."""

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


@dataclass
class Captures:
    """Everything that the entry, its helpers and the Python functions they call read."""

    entry: Definition
    reads: dict[tuple[str, str], Read] = field(default_factory=dict[tuple[str, str], Read])
    """By (function, path)."""

    def __post_init__(self) -> None:
        self._texts: list[bytes] = []
        self._content = Content(self._report)
        self._language: set[tuple[str, str]] = set()
        self.definitions = reachable(self.entry)
        """The kernel and its helpers, leaf first."""
        for definition in self.definitions:
            self._add_kernel(definition)

    # functions ------------------------------------------------------------------------------------------------------------

    def _add_kernel(self, definition: Definition) -> None:
        owner = self._content.label(definition)
        options = encode_value(dict(definition.options), f"options of {definition.name}", self._content) if definition.options else b""
        defaults = self._content.defaults(definition.function)
        receivers = [
            type_identity(value if isinstance(value, type) else type(value)) for name, value in definition.extra.items() if name in ("self", "cls")
        ]
        self._texts += [owner.encode(), definition.kind.encode(), options, defaults, "".join(receivers).encode(), definition.facts.digest.encode()]
        self._add_chains(owner, definition.facts.chains, definition.namespace, definition.local_names)

    def _report(self, owner: str, chains: Chains, namespace: Mapping[str, object], by_class: bool) -> None:
        self._add_chains(owner, chains, namespace, frozenset(), by_class)

    def _add_chains(self, owner: str, chains: Chains, namespace: Mapping[str, object], local: frozenset[str], by_class: bool = False) -> None:
        for root, forms in chains.items():
            value = namespace.get(root, MISSING) if root not in local else MISSING
            if value is MISSING:
                continue
            if _is_ours(value):
                self._language.add((owner, root))
                continue
            if is_reflection(value) and not by_class:
                raise refusal(root, f"which lets `{owner}` read any name", "read the names themselves, so that they can be seen")
            for steps in forms:
                read = _trimmed(Read(owner, namespace, root, tuple((kind, key) for kind, key in steps), by_class), value)
                if read is not None and (not by_class or (owner, read.path) not in self.reads):
                    self.reads[owner, read.path] = read

    # the key --------------------------------------------------------------------------------------------------------------

    @lazy
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
        try:
            return encode_value(value, read.path, self._content)
        except UncacheableValueError:
            if not read.by_class:
                raise
            return b"only its type " + type_identity(type(value)).encode()

    def whole(self, read: Read) -> bytes:
        """The present value with everything that it reads in turn: a kernel or helper that took the place of another has the same only if it does the same."""
        value = read.resolve()
        if isinstance(value, Kernel):
            return Captures(value.definition).digest.encode()
        fresh = self._fresh()
        return b"\0".join([fresh.encoding(read), *(f"{owner} {path} ".encode() + encoding for (owner, path), encoding in sorted(fresh.baseline.items()))])

    def encoding_anew(self, read: Read, known: Digests) -> bytes:
        """The present encoding with nothing remembered but what is `known` of functions and classes."""
        return self._fresh(known).encoding(read)

    def _fresh(self, known: Digests | None = None) -> Captures:
        fresh = Captures.__new__(Captures)
        fresh.entry, fresh.reads, fresh._texts, fresh._language = self.entry, {}, [], set()
        fresh._content = Content(fresh._report, known)
        return fresh

    @lazy
    def digest(self) -> str:
        """The definition's part of the key."""
        rows = sorted(f"{owner}\0{path}\0".encode() + encoding for (owner, path), encoding in self.baseline.items())
        parts = [*self._texts, *rows]
        lengths = ",".join([str(len(part)) for part in parts]).encode()  # so that no two lists of parts look the same
        return hashlib.sha256(b"\0".join([lengths, *parts])).hexdigest()

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
        return any(known_owner.partition("#")[0] == owner and _same_chain(path, known) for known_owner, known in (*self.reads, *self._language))


def _trimmed(read: Read, value: object) -> Read | None:
    """The part of a chain that leads to a captured value: up to our own names, kernels, or a method of the value; `value` is that of the root."""
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
    return Read(read.owner, read.namespace, read.root, tuple(kept), read.by_class)


def _same_chain(a: str, b: str) -> bool:
    shorter, longer = sorted((a, b), key=len)
    return longer == shorter or longer.startswith((shorter + ".", shorter + "["))


def _is_ours(value: object) -> bool:
    """Names of the language: what they mean is part of the tool chain, not of the kernel."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] == "tilejit"
    module = getattr(value if isinstance(value, type | types.FunctionType) else type(value), "__module__", None) or ""
    return module.partition(".")[0] == "tilejit" and not isinstance(value, Kernel) and not _carries_data(value)


def _carries_data(value: object) -> bool:
    """Our own types that a kernel may read as values: dtypes, symbols, annotations, members of enums, ops under another name."""
    return isinstance(value, enum.Enum) or hasattr(type(value), "__dataclass_fields__") or type(value).__name__ in ("DType", "DynVar")


def _is_method_of(owner: object, value: object) -> bool:
    bound = isinstance(value, types.BuiltinMethodType | types.MethodWrapperType) and getattr(value, "__self__", None) is owner
    return bound and not isinstance(owner, types.ModuleType)


def uncovered(captures: Captures, recorded: Iterable[tuple[str, str, object]]) -> list[str]:
    """Paths that specialisation read and discovery did not see; names of the language do not count."""
    return sorted({path for owner, path, value in recorded if not _is_ours(value) and not captures.covers(owner, path)})

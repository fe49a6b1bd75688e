"""A stable encoding of captured values for the key: by content, type-tagged, the same in every process."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import os
import struct
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

import numpy as np

from tilejit.dtypes import DType
from tilejit.errors import UncacheableValueError
from tilejit.ops.spec import OpFunction
from tilejit.types.annotations import DynVar, Untracked
from tilejit.types.scopes import Marker

ARRAY_LIMIT = 64 << 10
"""Arrays up to this many bytes are encoded by content."""

class Content(Protocol):
    """Knows what functions, classes and symbols are to the kernel whose key is made."""

    def function_digest(self, function: Callable[..., object]) -> bytes:
        """A Python function: its code and what it reads."""
        ...

    def class_digest(self, cls: type) -> bytes:
        """A class: its name, and what its author wrote in it."""
        ...

    def symbol_number(self, symbol: DynVar) -> int:
        """Tells two symbols of one name apart."""
        ...


def encode_value(value: object, path: str, content: Content) -> bytes:
    """The encoding of what `path` (`cfg.BLOCK`) holds; values without a stable one are UncacheableValueError."""
    return _Encoder(path, content).encode(value)


def refusal(path: str, what: str, help: str | None = None) -> UncacheableValueError:
    """The error for a value whose content a later process cannot know."""
    return UncacheableValueError(
        f"the kernel reads `{path}`, {what}, which has no stable encoding for the cache key",
        help=help or "pass it as an argument, give its class a __cache_signature__ method, or wrap it in pl.untracked(value)",
    )


def _pack(tag: str, *parts: bytes) -> bytes:
    """Length-prefixed, so that no two different values share an encoding."""
    body = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    name = tag.encode()
    return struct.pack("<B", len(name)) + name + struct.pack("<Q", len(body)) + body


def type_identity(cls: type) -> str:
    """A class by module and name."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _float(value: float) -> bytes:
    return b"nan" if math.isnan(value) else value.hex().encode()


class _Encoder:
    def __init__(self, path: str, content: Content) -> None:
        self.path = path
        self.content = content
        self.open: dict[int, int] = {}

    def encode(self, value: object) -> bytes:
        """Dispatch on the exact type; subclasses carry their type's name."""
        simple = self._simple(value)
        if simple is not None:
            return simple
        if id(value) in self.open:
            return _pack("cycle", str(self.open[id(value)]).encode())
        self.open[id(value)] = len(self.open)
        try:
            return self._compound(value)
        finally:
            del self.open[id(value)]

    def _simple(self, value: object) -> bytes | None:
        match value:
            case None:
                return _pack("none")
            case Untracked():
                return _pack("untracked")
            case DType():
                return _pack("dtype", value.name.encode())
            case DynVar():
                return _pack("dynamic", value.name.encode(), str(self.content.symbol_number(value)).encode())
            case OpFunction() | Marker():
                return _pack("op", repr(value).encode())
            case enum.Enum():
                return _pack("enum", self.content.class_digest(type(value)), str(value.name).encode(), self.encode(value.value))
            case bool():
                return _pack("bool", str(value).encode())
            case types.ModuleType():
                return self._module(value)
            case _:
                return _pack(repr(value)) if value is Ellipsis or value is NotImplemented else self._number(value)

    def _number(self, value: object) -> bytes | None:
        for base, tag in ((int, "int"), (float, "float"), (complex, "complex"), (str, "str"), (bytes, "bytes")):
            if isinstance(value, base) and not _is_numpy(value):
                return _pack(tag, b"" if type(value) is base else self.content.class_digest(type(value)), _content(base, value))
        return None

    def _module(self, module: types.ModuleType) -> bytes:
        """A module by name, if it is known by its version: what is in any other may change."""
        if not is_library(module.__name__, getattr(module, "__file__", None)):
            help = f"read what you need from it where you need it: {self.path}.NAME"
            raise refusal(self.path, "a module as a value", help)
        return _pack("module", module.__name__.encode())

    def _compound(self, value: object) -> bytes:
        signature = getattr(type(value), "__cache_signature__", None)
        if signature is not None and not isinstance(value, type):
            return _pack("signature", type_identity(type(value)).encode(), self.encode(signature(value)))
        if _is_numpy(value):
            return self._array(value)
        if isinstance(value, tuple | list):
            items = cast("Iterable[object]", value)
            return _pack("sequence", self.content.class_digest(type(items)), *(self.encode(item) for item in items))
        if isinstance(value, set | frozenset):
            members = cast("Iterable[object]", value)
            return _pack("set", self.content.class_digest(type(members)), *sorted(self.encode(item) for item in members))
        if isinstance(value, dict):
            pairs = cast("dict[object, object]", value)
            rows = sorted(_pack("item", self.encode(key), self.encode(item)) for key, item in pairs.items())
            factory = self.encode(getattr(value, "default_factory", None))
            return _pack("dict", self.content.class_digest(type(pairs)), factory, *rows)
        return self._object(value)

    def _object(self, value: object) -> bytes:
        if isinstance(value, functools.partial):
            partial = cast("functools.partial[object]", value)
            return _pack("partial", self.encode(partial.func), self.encode(partial.args), self.encode(dict(partial.keywords)))
        if isinstance(value, range | slice):
            parts = (value.start, value.stop, value.step)
            return _pack("range" if isinstance(value, range) else "slice", *(self.encode(part) for part in parts))
        if isinstance(value, types.FunctionType | types.MethodType):
            owner = self.encode(value.__self__) if isinstance(value, types.MethodType) else b""
            return _pack("function", self.content.function_digest(value), owner)
        if isinstance(value, _CACHED):
            return _pack("function", self.content.function_digest(value.__wrapped__), b"cached")
        if isinstance(value, types.BuiltinFunctionType):
            return _pack("builtin", f"{value.__module__}.{value.__qualname__}".encode())
        if type(value).__module__ == "numpy" and type(value).__name__ in ("ufunc", "_ArrayFunctionDispatcher"):
            return _pack("builtin", f"{getattr(value, '__module__', 'numpy')}.{cast('Any', value).__name__}".encode())
        kind = type_identity(type(value))
        if isinstance(value, np.dtype | types.GenericAlias | types.UnionType) or kind.startswith("typing.") or kind in _BY_TEXT:
            return _pack("text", kind.encode(), repr(cast("object", value)).encode())
        if isinstance(value, type):
            return _pack("class", self.content.class_digest(value))
        if dataclasses.is_dataclass(value):
            fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
            return _pack("dataclass", self.content.class_digest(type(value)), *(_pack(name, self.encode(item)) for name, item in fields))
        if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
            return _pack("torch.dtype", str(value).encode())
        if type(value).__module__ == "torch" and type(value).__name__ == "Tensor":
            return self._tensor(value)
        raise self.refuse(value)

    def _tensor(self, value: Any) -> bytes:
        size = value.numel() * value.element_size()
        if size > ARRAY_LIMIT or not value.is_cpu or value.layout is not sys.modules["torch"].strided:
            raise self.refuse(value, f"a torch tensor of {size} bytes on {value.device}")
        shape = ",".join(map(str, value.shape)).encode()
        plain = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return _pack("tensor", str(value.dtype).encode(), shape, plain.view(sys.modules["torch"].uint8).numpy().tobytes())

    def _array(self, value: Any) -> bytes:
        if value.dtype.hasobject or value.nbytes > ARRAY_LIMIT:
            raise self.refuse(value, f"an array of {value.nbytes} bytes" if not value.dtype.hasobject else "an array of objects")
        shape = ",".join(map(str, value.shape)).encode()
        return _pack("array", type_identity(type(value)).encode(), str(value.dtype).encode(), shape, value.tobytes())

    def refuse(self, value: object, what: str | None = None) -> UncacheableValueError:
        """The error for a value whose content cannot be known by a later process."""
        return refusal(self.path, what or f"a {type(value).__module__}.{type(value).__qualname__}")


_BY_TEXT = frozenset(
    {"fractions.Fraction", "decimal.Decimal", "pathlib.PosixPath", "pathlib.PurePosixPath", "pathlib.WindowsPath", "re.Pattern", "torch.device"}
)
"""Classes of libraries whose objects are told by their text."""
_CACHED = type(functools.lru_cache(maxsize=1)(lambda: None))
"""What functools.cache and lru_cache make."""
KNOWN_LIBRARIES = frozenset({"numpy", "torch", "ml_dtypes", "tilejit"})
"""Packages that change their version when they change."""
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def is_installed(file: str) -> bool:
    """Whether a file lies where packages are installed."""
    return any(folder in file for folder in _INSTALLED)


def is_library(module: str | None, file: str | None) -> bool:
    """Whether what is in `module` is known by name and version: it was installed. A user's file may be called like a module of the standard library."""
    package = (module or "").partition(".")[0]
    if package in KNOWN_LIBRARIES or (file is not None and is_installed(file)):
        return True
    return package in sys.stdlib_module_names and (file is None or file.startswith((_STANDARD, "<frozen")))


def _is_numpy(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in ("numpy", "ml_dtypes") and hasattr(value, "dtype") and hasattr(value, "tobytes")


def _content(base: type, value: object) -> bytes:
    if base is int:
        return str(int(cast("int", value))).encode()
    if base is float:
        return _float(cast("float", value))
    if base is complex:
        number = cast("complex", value)
        return _float(number.real) + b"," + _float(number.imag)
    if base is str:
        return str.__str__(cast("str", value)).encode("utf-8", "surrogatepass")
    return bytes(cast("bytes", value))

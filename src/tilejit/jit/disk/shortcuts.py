"""From the first call of a process straight to its artifact, for kernels that read nothing but the language: what such a call would ask has one answer.

A shortcut stands beside the facts about a function's lines (reads/facts.py). It is found by everything that the first part of the key is made of, and says
which names must be those of the language. Whatever is not as plain as that goes the way of all calls.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tilejit import config
from tilejit.errors import TilejitError
from tilejit.jit.definition import Definition
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk.fingerprint import sources_changed, toolchain_text
from tilejit.jit.disk.stores import store
from tilejit.jit.protocol import is_taken
from tilejit.jit.reads import facts
from tilejit.jit.reads.answers import Answers
from tilejit.jit.reads.questions import assigned, is_language
from tilejit.jit.reads.trace import Trace
from tilejit.runtime.arrays import ArrayView, view_of
from tilejit.runtime.store.directory import is_key
from tilejit.runtime.store.entry import CacheEntry
from tilejit.runtime.targets import place_of, row_of
from tilejit.types.annotations import DirectedAnnotation, Tensor, TensorAnnotation

_KINDS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_QUOTED = re.compile(r"(\w+)\.(?:Tensor|(Out|InOut)\[\1\.Tensor\])", re.ASCII)
"""Annotations in quotes that only name the language."""
Roots = Mapping[str, tuple[types.ModuleType, tuple[str, ...]]]
"""Names under which the language is read, with what of it is."""


@dataclass(frozen=True)
class Way:
    """The place of a shortcut."""

    definition: Definition
    key: str
    platform: str
    device: str
    code: types.CodeType
    seen: Sequence[object]
    """The snapshot of the settings."""
    quoted: Mapping[str, tuple[str, ...]]
    """What annotations in quotes name of the language."""

    def found(self) -> tuple[CacheEntry, Roots] | None:
        """The artifact, if all that it was compiled for holds now, and what of the language that is."""
        try:
            artifact, named = cast("tuple[str, dict[str, list[Any]]]", json.loads(facts.shortcut(self.definition.block.filename, self.key) or b"0"))
            roots = {root: self._module(root, str(module), tuple(map(str, names))) for root, (module, names) in named.items()}
        except (ValueError, TypeError, AttributeError):
            return None
        entry = store().get(artifact) if None not in roots.values() and is_key(artifact) else None
        return (entry, cast("Roots", roots)) if entry is not None else None

    def _module(self, root: str, module: str, names: tuple[str, ...]) -> tuple[types.ModuleType, tuple[str, ...]] | None:
        space = cast("types.FunctionType", self.definition.function).__globals__
        found = space.get(root)
        same = isinstance(found, types.ModuleType) and is_language(found) and found.__name__ == module and assigned(found, *names) == ()
        return (found, names) if same and isinstance(found, types.ModuleType) else None

    def key_of(self, entry: CacheEntry) -> disk.Key:
        """The first part of the key, as the artifact has it."""
        return disk.Key({name: value for name, value in entry.fields.items() if name != "reads"}, self.platform, self.device)

    def keep(self, key: disk.Key, walk: Trace, before: int) -> None:
        """Write the shortcut to what the call was found to be: the program of that key and of what was asked after it."""
        same = key.seen == self.seen and (key.platform, key.device) == (self.platform, self.device)
        told = walk.entry is self.definition and same and facts.is_known(self.definition.block, self.code)  # the lines are the whole function
        named = _language_alone(walk) if told else None
        if named is None or not set(self.quoted) <= set(named) or sources_changed():
            return
        roots = {root: (module, sorted({*names, *self.quoted.get(root, ())})) for root, (module, names) in named.items()}
        artifact = disk.artifact_key(key.text, disk.asked_text(walk.log[before:]))
        facts.keep_shortcut(self.definition.block.filename, self.key, json.dumps([artifact, roots]).encode())


def way_of(definition: Definition, args: Sequence[object]) -> Way | None:
    """Where the shortcut of a call would be; None: it has none."""
    function = definition.function
    if type(function) is not types.FunctionType or definition.kind != "orchestration" or definition.options or definition.extra or definition.around:
        return None
    code = function.__code__
    plain = function.__closure__ is None and not function.__defaults__ and not function.__kwdefaults__ and not hasattr(function, "__wrapped__")
    if not plain or definition.is_replaced or code.co_flags & _KINDS or code.co_kwonlyargcount or code.co_posonlyargcount or code.co_argcount != len(args):
        return None
    annotations, quoted = _annotations(function.__annotations__), dict[str, set[str]]()
    views = [_view(value) for value in args] if annotations is not None and list(function.__annotations__) == list(code.co_varnames[: len(args)]) else [None]
    if annotations is None or any(view is None or 0 in view.shape for view in views):
        return None
    for _, root, outer, _ in annotations:
        if root:
            quoted.setdefault(root, {"Tensor"}).update({outer} if outer else ())
    given, seen = cast("list[ArrayView]", views), config.snapshot()
    try:
        platform, device = place_of(None, 0, [view.device for view in given])
        block = definition.block
    except TilejitError:
        return None  # the way of all calls says what is wrong
    if not row_of(platform).cacheable:
        return None
    arguments = [[view.dtype.name, *view.shape] for view in given]
    own, tools = [facts.lines_key(block, code), disk.kernel_name(definition), annotations], toolchain_text(platform, device)
    key = hashlib.sha256(repr([*own, arguments, platform, device, seen, tools]).encode("utf-8", "surrogatepass")).hexdigest()
    return Way(definition, key, platform, device, code, seen, {root: tuple(names) for root, names in quoted.items()})


def _annotations(written: Mapping[str, object]) -> list[tuple[str, str, str, str | None]] | None:
    """Direction, for those in quotes the name of the language and what is around the tensor, and what `pl.like` names; None: they say more than that."""
    found: list[tuple[str, str, str, str | None]] = []
    for annotation in written.values():
        if isinstance(annotation, str):
            match = _QUOTED.fullmatch(annotation)
            if match is None:
                return None
            found.append((match[2] or "In", match[1], match[2] or "", None))
        elif annotation is Tensor:
            found.append(("In", "", "", None))
        elif type(annotation) is DirectedAnnotation and isinstance(annotation.inner, TensorAnnotation) and replace(annotation.inner, like=None) == _BARE:
            found.append((annotation.direction, "", "", annotation.inner.like))
        else:
            return None
    return found


_BARE = TensorAnnotation()


def _view(value: object) -> ArrayView | None:
    """An array of NumPy or a tensor of torch."""
    try:
        return view_of(value) if is_taken(type(value)) else None
    except TilejitError:
        return None


def _language_alone(walk: Trace) -> dict[str, tuple[str, list[str]]] | None:
    """The names under which the language was read, where nothing else was: module, and what of it; None: something else was."""
    if len(walk.definitions) > 1:
        return None
    found: dict[str, tuple[str, list[str]]] = {}
    modules: dict[int, str] = {}
    for asked, raw in zip(walk.log, walk.objects[1:], strict=True):
        operation, *operands = json.loads(asked.question)
        if operation == "name" and is_language(raw) and isinstance(raw, types.ModuleType):
            modules[id(raw)] = str(operands[-1])
            found[str(operands[-1])] = raw.__name__, []
        elif operation == "assigned" and raw == ():
            root = modules.get(id(walk.raw(asked.operands[0])))
            if root is None:
                return None
            found[root][1].extend(map(str, operands[1:]))
        else:
            return None
    return found


class Remembered(Answers):
    """What a call by a shortcut relied on, as the answers that it did not ask for."""

    def __init__(self, roots: Roots) -> None:
        super().__init__()
        self._roots = roots

    def ask(self, key: str, operation: str, operands: tuple[object, ...], raws: tuple[object, ...], path: str | None) -> object:
        if operation == "assigned":
            return ()
        root = self._roots.get(str(raws[-1])) if operation == "name" else None
        return root[0] if root is not None else super().ask(key, operation, operands, raws, path)

"""Which extents of a kernel are dynamic: from its text, kept on disk, so that a process that finds them there walks no tree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from tilejit.errors import ArtifactError
from tilejit.jit.definition import Definition
from tilejit.jit.disk.fingerprint import reader_text, toolchain
from tilejit.jit.disk.kernels import TREE, asked_text, kernel_name
from tilejit.jit.disk.stores import store
from tilejit.jit.reads import manifest as manifests
from tilejit.jit.reads.answers import Asked
from tilejit.jit.reads.scope import Reads
from tilejit.jit.reads.trace import Trace
from tilejit.jit.specialize.arguments import Argument, TensorArgument
from tilejit.jit.specialize.dependencies import reachable
from tilejit.jit.specialize.dynamic import analyse, annotated, may_be_dynamic
from tilejit.jit.specialize.symbols import Dynamic
from tilejit.runtime.store.entry import CacheEntry
from tilejit.types.annotations import DynVar

Axes = Mapping[str, Sequence[int]]
"""Parameter → its dynamic axes, as they were declared: negative ones count from the end."""


class Extents:
    """The dynamic extents of a kernel under the answers of one trace: as the disk knows them, else from the text."""

    def __init__(self, trace: Trace) -> None:
        self._start = len(trace.log)
        self.trace = trace.fork()
        """With what was asked for them."""
        self._known: Mapping[Definition, Dynamic] | None = None
        try:
            self._axes = self._found(trace)
        except RecursionError:
            raise trace.entry.too_deep() from None
        self.definitions = frozenset(self.trace.definitions)

    def _found(self, trace: Trace) -> Axes:
        """Where no text declares any, the annotations say all: then the disk knows nothing, and no body is walked."""
        if trace.entry.facts.mentions_dynamic or may_be_dynamic(self.trace, reachable(self.trace)):
            found = _find(trace)
            if found is not None:
                self.trace = found[1]
                return found[0]
            self.trace = trace.fork()
            if may_be_dynamic(self.trace, reachable(self.trace)):
                self._known = analyse(self.trace)
        own = self._known[self.trace.entry] if self._known is not None else annotated(Reads(self.trace, self.trace.entry))
        return {param: list(axes) for param, axes in own.dims.items()}

    @property
    def is_new(self) -> bool:
        """Whether finding them took the text, and the disk does not know."""
        return self._known is not None

    def keep(self) -> None:
        """On disk, for later processes."""
        _keep(self.trace.entry, self.trace.log[: self._start], self.trace.log[self._start :], self._axes)

    def dynamic_axes(self, param: str, argument: Argument) -> Collection[int]:
        """The dynamic axes of an argument."""
        if not isinstance(argument, TensorArgument) or param not in self._axes:
            return ()
        rank = len(argument.shape)
        if not all(-rank <= axis < rank for axis in self._axes[param]):
            self.known(self.trace)[self.trace.entry].axes(param, {param: rank})  # says where it is declared
        return [axis % rank for axis in self._axes[param]]

    def known(self, trace: Trace) -> Mapping[Definition, Dynamic]:
        """Those of the entry and its helpers. They know symbols by identity, and the names of `trace` may stand for other ones by now, which agree with those
        of then in all that was asked: then the text is walked for these."""
        if self._known is None or any(found is not raw and isinstance(raw, DynVar) for found, raw in zip(trace.objects, self.trace.objects, strict=False)):
            return analyse(trace)
        return self._known


# on disk --------------------------------------------------------------------------------------------------------------------


def _find(trace: Trace) -> tuple[Axes, Trace] | None:
    """What the answers of now lead to, with what was asked on the way."""
    there = store()
    for entry, _ in there.versions(_key(trace.entry, trace.log)):
        walk = trace.fork()
        try:
            leaf = manifests.tree_of(_rows(entry)).find(walk)
        except ArtifactError as error:
            there.reject(entry.key, str(error))
            continue
        axes = _axes(leaf) if leaf is not None else None
        if axes is not None:
            return axes, walk
    return None


def _keep(definition: Definition, before: Sequence[Asked], log: Sequence[Asked], axes: Axes) -> None:
    """Add what a walk found, behind the questions that it asked."""
    there, key = store(), _key(definition, before)
    own = next((entry for entry, own in there.versions(key) if own), None)
    rows = _rows(own) if own is not None else []
    new = manifests.Row(json.dumps(axes), tuple((asked.question, asked.answer) for asked in log))
    if all(row.log != new.log for row in rows) and manifests.tree_of(rows).refuses(new) is None:
        there.put(CacheEntry(key, {"kernel": f"extents of {kernel_name(definition)}", **toolchain()}, {TREE: manifests.written([*rows, new])}))


def _key(definition: Definition, before: Sequence[Asked]) -> str:
    """Of what was asked before, for annotations in quotes, the walk may have used the answers: it does not ask again."""
    text = f"extents of {kernel_name(definition)}\n{definition.digest}\n{asked_text(before).decode()}\n{reader_text()}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _rows(entry: CacheEntry) -> list[manifests.Row]:
    return manifests.read(entry.sections.get(TREE, b""), lambda leaf: _axes(leaf) is not None)


def _axes(leaf: str) -> Axes | None:
    try:
        found: Any = json.loads(leaf)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(found, dict) and all(isinstance(axes, list) and all(type(axis) is int for axis in axes) for axes in found.values())
    return cast("Axes", found) if whole else None

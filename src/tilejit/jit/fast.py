"""Warm calls without Python: hands compiled specialisations to the native dispatcher, and takes them back when something changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any, cast

from tilejit.jit.captures import Baseline
from tilejit.jit.disk import store
from tilejit.jit.fingerprint import toolchain
from tilejit.runtime.bindings import Word, dict_word
from tilejit.runtime.blob import Blob
from tilejit.runtime.compiled import CompiledProgram
from tilejit.runtime.dispatch import FastPath, ScalarGuard, Specialisation, TensorGuard, wanted
from tilejit.runtime.entry import Entry
from tilejit.runtime.native import NativeEntry, thread_count
from tilejit.runtime.native_type import attach, supported


class WarmCalls:
    """The fast path of one kernel; made at its first warm call, so that a kernel that runs once pays nothing."""

    def __init__(self, kernel: object, slow: Callable[..., object], arg_count: int) -> None:
        self._kernel = kernel
        self._slow = slow
        self._arg_count = arg_count
        self._path: FastPath | None = None
        self._served: set[int] = set()

    @property
    def hits(self) -> int:
        """Calls that never reached Python."""
        return self._path.hits if self._path is not None else 0

    def serve(self, compiled: CompiledProgram, arguments: Mapping[str, object], baseline: Baseline | None) -> None:
        """Let native code take calls like this one, if it can tell them from all others."""
        if not supported() or not wanted():
            self.stop()
            return
        words = watched_words(baseline)
        native = compiled.entries[next(iter(compiled.entries))].native
        if words is None or native is None or len(arguments) != self._arg_count or compiled.signature.results:
            return  # what a kernel returns is allocated by Python
        path = self._started()
        if path is None:
            return
        path.watch(words, (baseline, os.environ))
        token = hash((id(compiled), *(type(value) for value in arguments.values())))
        if token not in self._served and path.add(specialisation_of(compiled, native, arguments)):
            self._served.add(token)
        path.serve(self._kernel)

    def stop(self) -> None:
        """Every call goes through Python again."""
        if self._path is not None:
            attach(self._kernel, 0, 0)

    def forget(self) -> None:
        """Drop the specialisations."""
        self._served.clear()
        if self._path is not None:
            self._path.clear()

    def _started(self) -> FastPath | None:
        if self._path is None:
            code = dispatcher_code()
            self._path = None if code is None else FastPath(code, self._slow, self._arg_count)
        return self._path


def specialisation_of(compiled: CompiledProgram, native: NativeEntry, arguments: Mapping[str, object]) -> Specialisation:
    """Guards for arguments like these, in the order of the call."""
    slots: dict[str, int] = {}
    position = 0
    for param in native.params:
        slots[param.name] = position
        position += 1 if param.shape is None else 1 + 2 * len(param.shape)
    infos = {param.name: param for param in compiled.param_infos}
    symbols = {name: number for number, name in enumerate(compiled.signature.symbols)}
    guards: list[TensorGuard | ScalarGuard] = []
    for name, value in arguments.items():
        info = infos.get(name)
        if info is None or info.shape is None:
            guards.append(ScalarGuard(value if info is None else _Unguardable()))
            continue
        extents = tuple(dim if isinstance(dim, int) else None for dim in info.shape)
        numbers = tuple(symbols[dim] if isinstance(dim, str) else None for dim in info.shape)
        guards.append(TensorGuard(value, extents, numbers, info.dtype.get_byte(), info.direction != "In", slots[name]))
    return Specialisation(native.address, tuple(guards), native.needs_arena, thread_count(), native.brief, native.failed, native)


class _Unguardable:
    """Stands for a run-time scalar, whose value differs from call to call: such kernels stay with Python."""


def watched_words(baseline: Baseline | None) -> list[Word] | None:
    """Memory words that change when a captured value or a setting does; None when no words can tell."""
    words = [] if baseline is None else baseline.words()
    if words is None:
        return None
    # Settings are read live: they live in the environment, which is a dict like any other.
    environment = cast("dict[str, object]", cast("Any", os.environ)._data)
    return [*words, dict_word(environment)]


_code: list[Blob | None] = []


def dispatcher_code() -> Blob | None:
    """The dispatcher's machine code: from the disk cache, else generated and kept there; None where it cannot be made."""
    if not _code:
        _code.append(_load_or_make())
    return _code[0]


def _load_or_make() -> Blob | None:
    fields: dict[str, object] = {"kernel": "native dispatcher", **toolchain()}
    key = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()
    found = store().get(key)
    if found is None:
        from tilejit.compiler import build_dispatcher

        blob = build_dispatcher()
        if blob is None:
            return None
        table = {**{f"entry {name}": at for name, at in blob.entries.items()}, **{f"external {name}": at for name, at in blob.externals.items()}}
        found = Entry(key, {**fields, "table": table}, {"code": blob.code})
        store().put(found)
    return _blob_of(found)


def _blob_of(entry: Entry) -> Blob:
    table = cast("dict[str, int]", entry.fields["table"])
    named = {kind: {name[len(kind) + 1 :]: at for name, at in table.items() if name.startswith(kind + " ")} for kind in ("entry", "external")}
    return Blob(entry.sections["code"], named["entry"], named["external"])

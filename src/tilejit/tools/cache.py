"""`tilejit cache ls | show | why | verify | gc | export | import | clear`: looks after the disk cache."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from tilejit.errors import ArtifactError
from tilejit.jit.disk import kernels as disk
from tilejit.jit.disk.pieces import DISPATCHER
from tilejit.jit.explain import differences, flat_fields
from tilejit.runtime.store.directory import Store
from tilejit.runtime.store.entry import MAX_ENTRY, CacheEntry, DamagedCacheEntry, decode, encode
from tilejit.runtime.store.files import FileInfo, Files
from tilejit.tools.output import as_json, say

_SUFFIX = ".tj"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("ls", help="list the entries, the most recently used first").add_argument("kernel", nargs="?", help="only names that contain this")
    actions.add_parser("show", help="the fields of an entry").add_argument("key", help="the key, or its first digits")
    why = actions.add_parser("why", help="what tells two entries apart; with one key: that entry from the nearest of its kernel")
    why.add_argument("key")
    why.add_argument("other", nargs="?")
    actions.add_parser("verify", help="read every entry and set damaged ones aside")
    actions.add_parser("gc", help="remove what is over the limits, and leftovers")
    export = actions.add_parser("export", help="copy entries into a directory, for shipping; use it with TILEJIT_CACHE_PATH or `import`")
    export.add_argument("directory", type=Path)
    export.add_argument("kernel", nargs="?", default="", help="only kernels whose names contain this")
    actions.add_parser("import", help="copy the entries of a directory into the cache").add_argument("directory", type=Path)
    actions.add_parser("clear", help="remove the entries").add_argument("kernel", nargs="?", default="", help="only kernels whose names contain this")


def run(options: argparse.Namespace) -> int:
    store = disk.store()
    if store.root is None:
        raise ArtifactError("there is no disk cache here", help="unset TILEJIT_CACHE=0, or set TILEJIT_CACHE_DIR")
    return _ACTIONS[options.action](store, options)


def _ls(store: Store, options: argparse.Namespace) -> int:
    rows = [(info, entry) for info, entry in _readable(store) if not disk.is_manifest(entry) and (options.kernel or "") in _name(entry)]
    lines: list[str] = []
    listed: list[dict[str, object]] = []
    for info, entry in sorted(rows, key=lambda row: -row[0].stamp):
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.stamp))
        lines.append(f"{entry.key[:12]}  {used}  {info.size:>9}  {_name(entry)}{_arguments(entry)}")
        listed.append({"key": entry.key, "kernel": _name(entry), "arguments": entry.fields.get("arguments"), "bytes": info.size, "used": info.stamp})
    lines.append(f"{len(rows)} entries, {sum(info.size for info, _ in rows)} bytes in {store.root}")
    say(options, "\n".join(lines), {"directory": store.root, "entries": listed})
    return 0


def _show(store: Store, options: argparse.Namespace) -> int:
    entry = _one(store, options.key)
    sections = {name: len(data) for name, data in entry.sections.items()}
    fields = {"key": entry.key, **entry.fields}
    say(options, "\n".join([as_json(fields), *(f"section {name}: {size} bytes" for name, size in sections.items())]), {**fields, "sections": sections})
    return 0


def _why(store: Store, options: argparse.Namespace) -> int:
    entry = _one(store, options.key)
    if options.other:
        other = _one(store, options.other)
    else:
        others = [found for _, found in _readable(store) if found.key != entry.key and _name(found) == _name(entry)]
        if not others:
            say(options, f"{entry.key[:12]} is the only entry of {_name(entry)}", {"key": entry.key, "other": None, "differences": []})
            return 0
        other = min(others, key=lambda found: len(differences(found.fields, entry.fields)))
    rows = differences(other.fields, entry.fields)
    text = "\n".join([f"{_name(entry)}: {other.key[:12]} → {entry.key[:12]}", *(f"  {row}" for row in rows)])
    say(options, text, {"key": entry.key, "other": other.key, "differences": [str(row) for row in rows]})
    return 0 if rows or flat_fields(entry.fields) == flat_fields(other.fields) else 1


def _verify(store: Store, options: argparse.Namespace) -> int:
    before = store.counters.damaged
    keys = [key for key, _ in store.entries()]
    bad = [key for key in keys if store.get(key) is None]
    for _, entry in _readable(store):
        if disk.ASKED in entry.sections:
            disk.remember(entry)  # a manifest that was lost is made again
    lines = [*(f"{key[:12]}  damaged, set aside" for key in bad), f"{len(keys) - len(bad)} of {len(keys)} entries are whole"]
    say(options, "\n".join(lines), {"entries": len(keys), "damaged": bad})
    return 1 if bad or store.counters.damaged > before else 0


def _gc(store: Store, options: argparse.Namespace) -> int:
    removed = store.sweep()
    say(options, f"removed {removed} files", {"removed": removed})
    return 0


def _export(store: Store, options: argparse.Namespace) -> int:
    directory = cast("Path", options.directory)
    chosen = [entry for _, entry in _readable(store) if not options.kernel or options.kernel in _name(entry) or _serves_all(entry)]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for entry in chosen:
            _write(entry, directory / entry.key[:2])
    except OSError as error:
        help = "name a directory that can be written to, or one that can be made"
        raise ArtifactError(f"the entries cannot be written to {directory}: {error.strerror or error}", help=help) from None
    say(options, f"exported {len(chosen)} entries to {directory}", {"exported": len(chosen), "directory": str(directory)})
    return 0


def _write(entry: CacheEntry, shard: Path) -> None:
    """Into place in one step: a reader of the directory never sees half an entry."""
    shard.mkdir(exist_ok=True)
    temporary = shard / f".{entry.key}.{os.getpid()}"
    try:
        temporary.write_bytes(encode(entry))
        temporary.replace(shard / f"{entry.key}{_SUFFIX}")
    finally:
        temporary.unlink(missing_ok=True)


def _import(store: Store, options: argparse.Namespace) -> int:
    directory = cast("Path", options.directory)
    try:
        os.listdir(directory)
    except OSError as error:
        help = "name a directory that `tilejit cache export` wrote"
        raise ArtifactError(f"{directory} cannot be imported: {error.strerror or error}", help=help) from None
    taken, refused = 0, dict[str, str]()
    for path in sorted(directory.glob(f"??/*{_SUFFIX}")):
        try:
            entry = decode(Files().read(str(path), MAX_ENTRY)[0], path.stem)
        except (OSError, DamagedCacheEntry) as error:
            refused[str(path)] = str(error)
            continue
        if disk.is_manifest(entry):
            continue  # made from what is imported: the directory has its own already
        taken += store.put(entry)
        if disk.ASKED in entry.sections:
            disk.remember(entry)
    summary = f"imported {taken} entries" + (f", refused {len(refused)}" if refused else "")
    say(options, "\n".join([*(f"{path}: {error}" for path, error in refused.items()), summary]), {"imported": taken, "refused": refused})
    return 1 if refused else 0


def _clear(store: Store, options: argparse.Namespace) -> int:
    if options.kernel:
        chosen = [entry for _, entry in _readable(store) if options.kernel in _name(entry)]
        removed = sum(not disk.is_manifest(entry) for entry in chosen if store.remove(entry.key))
    else:
        removed = store.clear()
    say(options, f"removed {removed} entries", {"removed": removed})
    return 0


_ACTIONS: dict[str, Callable[[Store, argparse.Namespace], int]] = {
    "ls": _ls, "show": _show, "why": _why, "verify": _verify, "gc": _gc, "export": _export, "import": _import, "clear": _clear,
}  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# entries


def _readable(store: Store) -> Iterable[tuple[FileInfo, CacheEntry]]:
    for key, info in store.entries():
        entry = store.peek(key)
        if entry is not None:
            yield info, entry


def _one(store: Store, prefix: str) -> CacheEntry:
    """The entry whose key begins with `prefix`."""
    found = [key for key, _ in store.entries() if key.startswith(prefix)]
    if len(found) != 1:
        raise ArtifactError(f"{len(found) or 'no'} entries have a key that begins with {prefix!r}", help="`tilejit cache ls` lists the keys")
    entry = store.peek(found[0])
    if entry is None:
        raise ArtifactError(f"the entry {found[0]} is damaged", help="`tilejit cache verify` sets damaged entries aside")
    return entry


def _name(entry: CacheEntry) -> str:
    return str(entry.fields.get("kernel", "?"))


def _serves_all(entry: CacheEntry) -> bool:
    """Needed by every kernel: the dispatcher."""
    return _name(entry) == DISPATCHER


def _arguments(entry: CacheEntry) -> str:
    arguments = entry.fields.get("arguments")
    if not isinstance(arguments, dict):
        return ""
    shown = [f"{name}: {' '.join(map(str, facts.values())) if isinstance(facts, dict) else facts}" for name, facts in cast("dict[str, Any]", arguments).items()]
    return f"({', '.join(shown)})"

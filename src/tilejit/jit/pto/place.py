"""Where the relative path of a kernel's source starts: beside the Python file that declares the kernel, wherever the process goes later."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.machinery import BYTECODE_SUFFIXES
from importlib.util import source_from_cache
from types import FunctionType as PythonFunction
from typing import cast

from tilejit.errors import SourceNotFoundError
from tilejit.kinds import is_a


@dataclass(frozen=True)
class Place:
    """Where a kernel is declared, as that was when it was decorated."""

    kernel: str
    file: str | None
    """Its Python file as Python names it; None: it came from none (a cell, `exec`, stdin)."""
    folder: str | None = None
    """The full path of that file's folder; None: nobody knows it."""
    loader: object = field(default=None, repr=False)
    """Who loaded the file, where it is in no folder but in an archive."""

    def path_of(self, source: str) -> str:
        """The path that a source means; relative only where that is the working directory's to say, at every launch anew."""
        if self.file is None or os.path.isabs(source):
            return source
        if self.folder is None:
            what = f"the source {source!r} of {self.kernel} lies beside {self.file!r}, which was not there when the kernel was declared"
            raise SourceNotFoundError(what, help="run the script by its full path, or change the working directory after its kernels are declared")
        return os.path.join(self.folder, source)

    def archived(self, source: str) -> bytes | None:
        """What the archive with the Python file holds beside it; None if there is no archive, or nothing of that name in it."""
        get_data, forget = getattr(self.loader, "get_data", None), getattr(self.loader, "invalidate_caches", None)
        if self.file is None or get_data is None or os.path.isabs(source):
            return None
        folder = os.path.dirname(self.file)
        if os.path.abspath(folder) != self.folder:  # the loader would look below another working directory
            return None
        try:
            if forget is not None:
                forget()  # another archive may have the name by now, with its members elsewhere
            return bytes(get_data(os.path.normpath(os.path.join(folder, source))))
        except Exception:  # a loader may be anybody's
            return None


def place_of(function: Callable[..., object]) -> Place:
    """Where a function is declared; a file known by a relative name is the one of now, whatever the working directory is later."""
    declared = cast("PythonFunction", inspect.unwrap(function))
    kernel, names = declared.__name__, declared.__globals__
    name, module = declared.__code__.co_filename, names.get("__file__")
    compiled = _beside_bytecode(name, module)
    if compiled is not None:
        name = compiled
    if os.path.exists(name):
        return Place(kernel, name, _folder_of(name))
    if compiled is None and name != module:
        return Place(kernel, None)
    loader = _loader_of(names)
    known = os.path.isabs(name) or loader is not None
    return Place(kernel, name, _folder_of(name) if known else None, loader)


def _folder_of(name: str) -> str:
    return os.path.abspath(os.path.dirname(name))


def _beside_bytecode(name: str, module: object) -> str | None:
    """The file of a function beside the bytecode that its module was loaded from, if it was: the code names the file that was compiled, maybe elsewhere."""
    if not is_a(module, str) or not module.endswith(tuple(BYTECODE_SUFFIXES)):
        return None
    try:
        source = source_from_cache(module)
    except ValueError:  # it is in no __pycache__
        source = module[:-1]
    return source if name.endswith(os.path.basename(source)) else None


def _loader_of(names: Mapping[str, object]) -> object:
    return getattr(names.get("__spec__"), "loader", None) or names.get("__loader__")

"""A program whose kernels are PTO text: called here, the text is read back and interpreted, kernel by kernel."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilejit.backends.base import CompileOptions
from tilejit.backends.pto.interpret.launch import argument
from tilejit.backends.pto.interpret.machine import Launch, Machine
from tilejit.backends.pto.write.kernel import KernelText
from tilejit.backends.pto.write.memory import Workspace
from tilejit.backends.reference.interpreter import Buffer, ReferenceExecutable
from tilejit.backends.reference.tasks import BlockPlace
from tilejit.errors import TilejitError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.types.values import BufferType


class PtoExecutable(ReferenceExecutable):
    """A lowered program whose control plane is interpreted as tile IR and whose kernels are interpreted as the PTO text they became."""

    def __init__(self, program: Program, options: CompileOptions, texts: Mapping[str, KernelText], files: Mapping[str, PtoFile]) -> None:
        super().__init__(program, options)
        self.texts = texts
        self.machines = {name: Machine(file, inside=True) for name, file in files.items()}

    def _in_python(self, name: str, error: TilejitError) -> None:
        """A failure of a line of text is one of the Python line it was written for."""
        kernel, span = self.texts[name], error.span
        if span is None or not kernel.lines or os.path.basename(span.filename) != f"{name}.pto":
            return
        line = min(span.line, len(kernel.lines))
        error.note = f"at {name}.pto:{line}: {kernel.text.splitlines()[line - 1].strip()[:160]}"
        error.span = kernel.lines[line - 1] or span

    def call(self, name: str, arguments: Sequence[Any], place: BlockPlace) -> list[Any]:
        machine = self.machines.get(name)
        if machine is None:
            return super().call(name, arguments, place)
        function = self._functions[name]
        (entry,) = machine.file.entries()
        arrays = [np.ascontiguousarray(value.array) if isinstance(value, Buffer) else value for value in arguments]
        extents = _extents(function, arrays)
        scratch = [workspace(space, extents, place.count) for space in self.texts[name].workspaces]
        given = [_plain(value) for value in arrays]
        values = [*given, *(extents[symbol] for symbol in self.texts[name].extents), *scratch]
        names = [str(i) for i in range(len(values))]
        bound = [argument(label, type, value) for label, type, value in zip(names, entry.function_type.inputs.data, values, strict=True)]
        try:
            Launch(machine, place.index, place.count).run(entry, bound)
        except TilejitError as error:
            self._in_python(name, error)
            raise
        for value, array in zip(arguments, arrays):
            # A window of a tensor was copied: bring back what the kernel wrote.
            if isinstance(value, Buffer) and array is not value.array:
                value.array[...] = array
        return []


def _plain(value: Any) -> Any:
    """An argument as the text takes it: flags are bytes, scalars have no sign."""
    if isinstance(value, np.ndarray):
        return value.view(np.uint8) if value.dtype == np.bool_ else value
    if isinstance(value, np.unsignedinteger):
        return value.view(f"i{value.dtype.itemsize}").item()
    return value.item() if isinstance(value, np.generic) else value


def _extents(function: d.FuncOp, arrays: Sequence[Any]) -> dict[str, int]:
    """The dynamic extents by name."""
    found: dict[str, int] = {}
    for parameter, array in zip(function.body.block.args, arrays):
        type = d.type_of(parameter)
        if isinstance(type, BufferType):
            found.update({dim: int(size) for dim, size in zip(type.shape, array.shape) if isinstance(dim, str)})
    return found


def workspace(space: Workspace, extents: Mapping[str, int], blocks: int) -> np.ndarray[Any, Any]:
    """Memory for a workspace argument of a launch of `blocks` blocks."""
    size = math.prod(dim if isinstance(dim, int) else extents[dim] for dim in space.dims)
    return np.empty(max(1, blocks * size), space.dtype.numpy)

"""Launches of a source-backed kernel: checked in full, and from the second one like it on taken by native code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilejit import config as settings
from tilejit.errors import ArgumentError
from tilejit.runtime.call.guards import CallForm
from tilejit.runtime.call.native_type import NativeCallable, enable, weakly
from tilejit.runtime.call.warm import MAKING, WarmCalls

if TYPE_CHECKING:
    from tilejit.jit.pto.source import CompiledKernel
    from tilejit.runtime.artifact.compiled import CompiledProgram


class Launcher(NativeCallable):
    """A kernel with its grid."""

    __slots__ = ("__dict__", "__weakref__", "_ran", "_seen", "_warm", "compiled", "grid")

    def __init__(self, compiled: CompiledKernel, grid: int) -> None:
        self.compiled = compiled
        self.grid = grid
        self._seen: list[object] = []
        """Settings under which this is the code."""
        self._ran = False
        self._warm: WarmCalls | None = None

    def __call__(self, *args: object, **named: object) -> None:
        kernel = self.compiled.kernel
        names = [parameter.name for parameter in kernel.parameters]
        if named:
            raise ArgumentError(f"{kernel.name} takes its arguments by position, got `{next(iter(named))}=`", help=f"pass them in order: {', '.join(names)}")
        if len(args) != len(names):
            raise ArgumentError(f"{kernel.name} takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        seen = settings.snapshot()
        if seen != self._seen:
            if (now := kernel.compiled_from(self.compiled.source, seen)) is not self.compiled:
                now[self.grid, None](*args)  # other settings, other code
                return
            self._seen = seen
        native = self.compiled.code.launch(args, self.grid)
        if native is not None:
            if self._ran:  # a kernel that is launched once pays nothing for warm calls
                self._serve(native, args, seen)
            self._ran = True

    @property
    def native_hits(self) -> int:
        """Launches that never reached Python."""
        return 0 if self._warm is None else self._warm.hits

    def _serve(self, native: CompiledProgram, args: tuple[object, ...], seen: list[object]) -> None:
        """Let launches like the one that just succeeded take the warm way."""
        entry, names = native.only("launch"), self.compiled.code.launch_names(native)
        with MAKING:
            if self._warm is None:
                scalars = {param.name for param in native.param_infos if param.shape is None}
                form = CallForm({name: name in scalars for name in names}, len(args), named=False, config=False, flat=True, fixed=names[-1])
                self._warm = WarmCalls(self, weakly(self), form)
        self._warm.serve(entry, dict(zip(names, (*args, self.grid), strict=True)), None, None, seen)

    def __copy__(self) -> Launcher:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Launcher:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return self.compiled.__reduce__()

    def __repr__(self) -> str:
        return f"<pto kernel {self.compiled.kernel.name}[{self.grid}]>"


enable(Launcher)

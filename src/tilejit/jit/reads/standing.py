"""What a kernel stands on in this process: its helpers, its dynamic extents, and the values it captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilejit.jit.definition import Definition
from tilejit.jit.reads.captures import Captures
from tilejit.jit.reads.drift import Baseline
from tilejit.jit.specialize.arguments import Argument, TensorArgument
from tilejit.jit.specialize.dynamic import Dynamic, Symbol, analyse, annotated, may_be_dynamic
from tilejit.runtime.artifact.lazy import lazy


@dataclass
class Standing:
    """Made at the first call; made anew when a captured value changed and the policy is to recompile."""

    entry: Definition
    unseen: list[str] = field(default_factory=list[str])
    """What specialisation read and discovery did not see: such kernels are not kept on disk."""

    @lazy
    def known(self) -> Mapping[Definition, Dynamic]:
        """Dynamic extents of the entry and its helpers."""
        try:
            return analyse(self.entry)
        except RecursionError:
            raise self.entry.too_deep() from None

    @lazy
    def _axes(self) -> Dynamic:
        return self.known[self.entry] if may_be_dynamic(self.entry, self.captures.definitions) else annotated(self.entry)

    def dynamic_axes(self, param: str, argument: Argument) -> Mapping[int, Symbol]:
        """The dynamic axes of an argument of the entry; where its text declares none, the annotations say all and no body is walked."""
        axes = self._axes
        return axes.axes(param, len(argument.shape)) if axes.dims and isinstance(argument, TensorArgument) else {}

    @lazy
    def captures(self) -> Captures:
        """What the bodies read besides their arguments."""
        return self.baseline.captures

    @lazy
    def baseline(self) -> Baseline:
        """The captured values as they were when they were first read: what is compiled stands on these."""
        return Baseline(Captures(self.entry))

    def cost(self) -> str:
        """What checking for drift costs a warm call, in words."""
        words = self.baseline.words()
        if words is not None:
            return f"drift check: {len(words)} words compared per call"
        count = len(self.captures.reads)
        what = "1 captured value, which is mutable or computed, is" if count == 1 else f"{count} captured values, some of them mutable or computed, are"
        return f"drift check: {what} re-read per call, in Python"

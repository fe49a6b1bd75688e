"""What `@pl.autotune` can be told besides the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilejit.errors import TuningError, did_you_mean
from tilejit.jit.definition import Definition
from tilejit.jit.tune.keys import ITEM
from tilejit.jit.tune.search import EFFORTS
from tilejit.jit.tune.trial import Timer


@dataclass(frozen=True)
class Options:
    """What `@pl.autotune` was told besides the candidates."""

    key: tuple[str, ...] | None = None
    effort: str = "quick"
    budget: float | None = None
    seed: int = 0
    reference: str | Callable[..., object] = "first"
    timer: Timer | None = None
    progress: bool = True

    def check(self, definition: Definition) -> Options:
        """Themselves, unless something is wrong with them."""
        where = f"@pl.autotune of '{definition.name}'"
        names = [param.name for param in definition.params]
        for item in self.key or ():
            found = ITEM.fullmatch(item) if isinstance(item, str) else None
            if found is None or found["name"] not in names:
                help = did_you_mean(str(item), names) or f"names of parameters ({', '.join(names)}), or x.shape[0]"
                raise TuningError(f"{where}: key names `{item}`, which is no parameter", help=help)
        if self.effort not in EFFORTS:
            raise TuningError(f"{where}: effort is one of {', '.join(EFFORTS)}, got {self.effort!r}", help=did_you_mean(str(self.effort), EFFORTS))
        if self.budget is not None and (isinstance(self.budget, bool) or not isinstance(self.budget, int | float) or not self.budget >= 0):
            raise TuningError(f"{where}: budget is a number of seconds, got {self.budget!r}", help="write budget=10.0")
        if not callable(self.reference) and self.reference not in ("first", "numpy"):
            raise TuningError(f"{where}: results are compared with 'first', 'numpy' or a function, got {self.reference!r}", help="write reference='first'")
        return self

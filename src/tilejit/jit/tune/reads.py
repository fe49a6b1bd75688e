"""What a choice stands on besides the call: the answers that Python gives to a candidate."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilejit.errors import StaleCaptureError, TilejitError
from tilejit.jit.disk import kernels as disk
from tilejit.jit.reads.asking import asking
from tilejit.jit.reads.trace import Trace
from tilejit.jit.reads.watch import Watch
from tilejit.jit.specialize.arguments import bind_arguments
from tilejit.jit.tune.measure import Measure
from tilejit.runtime.targets import row_of

if TYPE_CHECKING:
    from tilejit.jit.tune.function import Variant
    from tilejit.jit.tune.trial import Call


def asked_by(variant: Variant, call: Call) -> Trace:
    """What a candidate asks for such a call, with the answers of now; nothing is compiled. One that is refused asks as far as it comes."""
    kernel = variant.kernel
    with asking(kernel) as ask:
        trace = ask(kernel._trace())
        bound = bind_arguments(kernel.definition, call.args, {**call.kwargs, **variant.arguments}, running=True)
        trace.arguments = bound.objects
        extents = kernel._extents_of(trace)
        key = kernel._first_part(trace, extents, bound, call.config)
        walk = trace.fork()
        if kernel._cache.tree(key.digest).find(walk) is not None:
            return walk
        if row_of(key.platform).cacheable and (there := disk.find_artifact(key, trace)) is not None:
            return there[1]
        walk = trace.fork()
        try:
            kernel._specialize(walk, extents, bound)
        except StaleCaptureError:
            raise
        except TilejitError:
            pass  # a search says why; until the answers change it is refused again
        return walk


def digest_of(trace: Trace, given: bool) -> str:
    """Equal for equal answers; without `given`, whatever is asked of the arguments themselves."""
    return hashlib.sha256(disk.asked_text([asked for asked in trace.log if given or not asked.given])).hexdigest()


class Standing:
    """Whether everything that some candidates asked still has the answer it had, and results are still compared with the same."""

    def __init__(self, traces: Sequence[Trace], compared: Measure) -> None:
        self._compared = compared
        self._watches = [Watch(trace) for trace in traces]
        self._told: list[tuple[object, bool]] = [(None, False)] * len(self._watches)
        """By watch: its questions, and whether memory words tell of all of them."""

    def holds(self) -> bool:
        return self._compared.holds() and all(map(self._one_holds, range(len(self._watches))))

    def _one_holds(self, at: int) -> bool:
        watch, (about, told) = self._watches[at], self._told[at]
        questions = watch.questions
        if about is not questions:
            told = not questions.left()
            self._told[at] = questions, told
        return (told and watch.same_words() and watch.questions is questions) or watch.holds()

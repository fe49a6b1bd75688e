"""What a choice stands on besides the call: the answers that Python gives to a candidate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from tilejit.errors import StaleCaptureError, TilejitError
from tilejit.jit.disk import kernels as disk
from tilejit.jit.reads.answers import Asked
from tilejit.jit.reads.asking import asking
from tilejit.jit.reads.handles import Handle, is_handle, number_of
from tilejit.jit.reads.trace import Trace
from tilejit.jit.reads.watch import Watch
from tilejit.jit.reads.writing import flat
from tilejit.jit.specialize.arguments import bind_arguments
from tilejit.jit.tune.keys import is_part_of
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
        trace.arguments = bound.asked
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


def digest_of(trace: Trace, tuned: Collection[str] | None) -> str:
    """Equal for equal answers, whatever those are that the arguments give; those of the parameters that are `tuned` count. None: all count."""
    return hashlib.sha256(disk.asked_text(trace.log if tuned is None else list(_but_of_the_call(trace, tuned)))).hexdigest()


def _but_of_the_call(trace: Trace, tuned: Collection[str]) -> Iterator[Asked]:
    """The questions, but for those that are about what the caller gave alone."""
    about_tuned: set[int] = set()
    for number, asked in enumerate(trace.log, 1):
        operation, *operands = json.loads(asked.question)
        if operation == "argument":
            about = any(is_part_of(str(operands[0]), name) for name in tuned)
        else:
            about = any(is_handle(item) and number_of(cast("Handle", item)) in about_tuned for item in flat(asked.operands))
        if about:
            about_tuned.add(number)
        if about or not asked.given:
            yield asked


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

"""Questions and their answers: those of one call, and those that the kernels of this process stand on."""

from __future__ import annotations

from dataclasses import dataclass

from tilejit.frontend.fold import CLOCK
from tilejit.jit.reads.questions import answered


class Answers:
    """The answers of one call. The same question is asked once, whoever asks; an exception is an answer too, but none that is ever kept:
    who spells the question in other words asks again, so that a lookup leaves no error in its own words to the pass that would tell it in the kernel's."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, Exception | None, object, str | None]] = {}
        self._raised: set[int] = set()
        self.asking = ""
        """What is asked now; empty: nothing."""
        self.seconds = 0.0
        """How long Python took for the last answer, without what we do around it; 0.0: it was known."""

    def ask(self, key: str, operation: str, operands: tuple[object, ...], raws: tuple[object, ...], path: str | None) -> object:
        """The answer; `key` says which question it is, objects by identity (they are kept alive)."""
        found = self._known.get(key)
        self.seconds = 0.0
        if found is None or (found[1] is not None and found[3] != path):
            try:
                found = (answered(operation, operands, raws, path), None, raws, path)
            except Exception as error:
                found = (None, error, raws, path)
                self._raised.add(id(error))
            self.asking, self.seconds = "", CLOCK.seconds
            self._known[key] = found
        if found[1] is not None:
            raise found[1]
        return found[0]

    def raised(self, error: Exception) -> bool:
        """Whether an error is the answer to a question, not one of ours."""
        return id(error) in self._raised


class Unanswered(Exception):
    """A question that was written down ends in an error now: it agrees with no entry."""


@dataclass(frozen=True, slots=True)
class Known:
    """An answer that a kernel of this process stands on."""

    answer: str
    value: object
    shown: str
    place: str = ""
    """Of an object: the question that is named for all that give this very object."""


Table = dict[str, Known]
"""By question: what it is about from the root on, whatever number it had."""


@dataclass(slots=True)
class Asked:
    """One question with its answer."""

    question: str
    """As JSON; operands are plain values or numbers of questions."""
    operands: tuple[object, ...]
    """The very objects that it was asked with; handles for what other questions gave, plain values too."""
    answer: str
    identity: str
    """The same for the same question of any specialisation of the kernel."""
    shared: str
    """The answer with identities for numbers."""
    given: bool = False
    """Whether it is about an argument: then another answer is another call, no drift."""
    place: str = ""
    """Of an object: the question that is named for it."""

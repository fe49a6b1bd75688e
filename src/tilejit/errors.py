"""The catalogue of user-facing errors, and where they happened (Span)."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from tilejit.error_text import render


@dataclass(frozen=True, slots=True)
class SourceText:
    """Lines of a source file, or of the part of it that holds a kernel."""

    filename: str
    lines: tuple[str, ...] = ()
    first_line: int = 1

    def line(self, number: int) -> str | None:
        """The text of the 1-based line `number`, or None when it is not known."""
        index = number - self.first_line
        return self.lines[index] if 0 <= index < len(self.lines) else None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source: 1-based lines and columns, `end_column` exclusive; `parent` is the call site of an inlined helper."""

    source: SourceText = field(repr=False)
    line: int
    column: int
    end_line: int
    end_column: int
    function: str = ""
    parent: Span | None = None

    @property
    def filename(self) -> str:
        return self.source.filename

    @property
    def text(self) -> str:
        """What the author wrote there; nothing where that is more than a line, or not at hand."""
        line = self.source.line(self.line) if self.line == self.end_line else None
        return line[self.column - 1 : self.end_column - 1] if line is not None else ""

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}:{self.column}"

    def called_from(self, call_site: Span) -> Span:
        """The same place, reached through `call_site` (outermost call last)."""
        parent = self.parent.called_from(call_site) if self.parent else call_site
        return Span(self.source, self.line, self.column, self.end_line, self.end_column, self.function, parent)


class TilejitError(Exception):
    """Root of everything tilejit raises for a user's mistake."""

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        where: Sequence[str] = (),
        help: str | None = None,
        note: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.where: tuple[str, ...] = tuple(where)
        self.hint = help
        self.note = note
        self.related: tuple[tuple[str, Span | None], ...] = ()
        """Other places that take part, each with what happens there."""

    @property
    def source_lines(self) -> tuple[str, ...]:
        """The lines the span covers."""
        if self.span is None:
            return ()
        covered = (self.span.source.line(n) for n in range(self.span.line, self.span.end_line + 1))
        return tuple(line for line in covered if line is not None)

    def located(self, span: Span, where: Sequence[str] = ()) -> TilejitError:
        """This error at `span`, unless it already has a place."""
        if self.span is None:
            self.span = span
            self.where = self.where or tuple(where)
        return self

    def __str__(self) -> str:
        return render(self)


class ParserError(TilejitError):
    """Root of what reading a kernel finds."""


class ParserSyntaxError(ParserError):
    """The kernel text breaks a syntax rule of the language."""


class ParserTypeError(ParserError):
    """A value of the wrong kind, or an annotation that disagrees with the value."""


class UnsupportedFeatureError(ParserError):
    """Python that the language does not have."""


class UndefinedVariableError(ParserError):
    """A name that is not bound where it is read."""


class StaticAssertionError(ParserError, AssertionError):
    """An `assert` or a `pl.static_assert` that does not hold for these shapes and values."""

    @classmethod
    def of(cls, condition: str, message: object) -> StaticAssertionError:
        """The error for a condition, as it is written."""
        return cls(f"assertion failed: {message}" if message else f"assertion failed: {condition}")


class SSAViolationError(ParserError):
    """A name bound twice under strict_ssa."""

    def __init__(self, message: str, *, previous: Span | None = None, span: Span | None = None, help: str | None = None) -> None:
        note = f"first bound at {previous}" if previous else None
        super().__init__(message, span=span, help=help, note=note)
        self.previous_span = previous


class ScopeIsolationError(ParserError):
    """A value used outside the scope that owns it."""


class InvalidOperationError(ParserError):
    """An operation used in a way that its rules forbid."""


class ShapeError(TilejitError, ValueError):
    """Shapes, ranks or extents that do not fit together."""


class AliasError(TilejitError, ValueError):
    """An output that overlaps another argument."""


class NoWriteError(TilejitError, ValueError):
    """An output parameter that the kernel never writes."""


class PlatformError(TilejitError, ValueError):
    """An unknown platform, or one that cannot run here."""


class OptionError(TilejitError, ValueError):
    """An option with a value that it does not take."""


class TuningError(TilejitError, ValueError):
    """Something that cannot be tuned: nothing to choose from, names that are no parameters, or no candidate that is right."""


class SourceNotFoundError(TilejitError, FileNotFoundError):
    """Text that is not there: the file of a source-backed kernel, or the source of a function."""


class DTypeError(TilejitError, TypeError):
    """A data type that the operation or parameter does not take."""


class ArgumentError(TilejitError, TypeError):
    """Wrong count, kind or device of arguments."""


class RangeError(TilejitError, OverflowError):
    """A number that the declared dtype cannot hold."""


class AbiError(TilejitError, TypeError):
    """A source-backed kernel whose text disagrees with its Python signature."""


class OutOfBoundsError(TilejitError, IndexError):
    """A window or index outside its tensor."""


class KernelAssertionError(TilejitError, AssertionError):
    """A `pl.device_assert` that did not hold."""


class KernelArithmeticError(TilejitError, ArithmeticError):
    """A division by zero that could be seen."""


class SanitizerError(TilejitError, RuntimeError):
    """What `TILEJIT_SANITIZE=1` found in a run: `findings` has every place."""

    findings: tuple[TilejitError, ...] = ()

    @classmethod
    def of(cls, findings: Sequence[TilejitError]) -> SanitizerError:
        """The first finding, with all of them."""
        first = findings[0]
        error = cls(first.message, span=first.span, where=first.where, help=first.hint, note=first.note)
        error.related, error.findings = first.related, tuple(findings)
        return error

    def __str__(self) -> str:
        return "\n".join([render(self), *(render(other) for other in self.findings[1:])])


class DeadlockError(TilejitError, RuntimeError):
    """Sides of a kernel that wait for each other forever."""


class DistributedError(TilejitError, RuntimeError):
    """Something that several ranks have to do with; `ranks` are those it is about."""

    ranks: tuple[int, ...] = ()

    @property
    def rank(self) -> int | None:
        """The first of them."""
        return self.ranks[0] if self.ranks else None


class RankDeadlockError(DeadlockError, DistributedError):
    """Ranks of which none can go on."""


RankDeadlockError.__name__ = RankDeadlockError.__qualname__ = DeadlockError.__name__  # a DeadlockError like others to whoever reads it


class WaitTimeoutError(DistributedError, TimeoutError):
    """A wait for another rank that lasted too long."""


class CollectiveMismatchError(DistributedError):
    """Ranks that disagree about a collective."""


class ProgramMismatchError(DistributedError):
    """Ranks that run different programs, or the same one on other arguments."""


class RankFailedError(DistributedError):
    """A rank whose process ended."""


class RankStopped(DistributedError):
    """A rank that gave up because the call ends; what it was doing."""


class StaleCaptureError(TilejitError, RuntimeError):
    """A captured value changed after the kernel was compiled."""


class ArtifactError(TilejitError, RuntimeError):
    """A compiled artifact that is damaged or does not fit this machine."""


class DeviceError(TilejitError, RuntimeError):
    """A GPU or its driver that failed, or that this process cannot use."""


class ResourceError(TilejitError, RuntimeError):
    """More memory needed than the settings allow."""


class PartialCodegenError(TilejitError, RuntimeError):
    """Code generation failed after the passes; `files` holds what was written."""

    def __init__(self, message: str, *, files: Sequence[str] = (), span: Span | None = None) -> None:
        note = f"what was generated is in {', '.join(files)}" if files else None
        super().__init__(message, span=span, note=note, help="this is a bug in tilejit, please report it with these files and the kernel")
        self.files: tuple[str, ...] = tuple(files)


class UncacheableValueError(TilejitError, TypeError):
    """An object of the user that would have to become part of a compiled program."""


class PtoSyntaxError(ParserError):
    """PTO text that does not parse."""


class PtoVerifyError(ParserError):
    """PTO text that breaks a rule of the dialect."""


class VerificationError(TilejitError):
    """IR that breaks its own rules: a pass or builder is wrong."""


class InternalError(TilejitError, RuntimeError):
    """A bug in tilejit itself."""

    def __init__(self, message: str, *, span: Span | None = None) -> None:
        super().__init__(message, span=span, help="this is a bug in tilejit, please report it with the kernel")


class TilejitWarning(UserWarning):
    """Category of every warning tilejit gives."""


@cache
def in_body(kind: type[TilejitError]) -> type[TilejitError]:
    """`kind` as raised for an op misused in a kernel body: the same class name, also an InvalidOperationError."""
    if issubclass(kind, ParserError):
        return kind
    both = types.new_class(kind.__name__, (kind, InvalidOperationError), exec_body=lambda namespace: namespace.update(__module__=kind.__module__))
    both.__doc__ = kind.__doc__
    return both


def note_argument(error: Exception, param: str, owner: str) -> None:
    """Say on the way out of an argument's own code whose argument it is; errors of ours say so themselves."""
    note = f"while tilejit asked the argument `{param}` of {owner} what it is"
    if not isinstance(error, TilejitError) and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


SLIP = 0.76
"""How much of two names must be the same for one to be a slip of the other where there are hundreds: `roll` and `norm` are no `unroll` and `tensor`."""


def did_you_mean(name: str, candidates: Iterable[object], alike: float = 0.6) -> str | None:
    """A "did you mean" sentence for a misspelt name, or None. Keys of namespaces that are no texts are no candidates."""
    others = [candidate for candidate in candidates if isinstance(candidate, str) and candidate != name]
    swapped = [other for other in others if sorted(other) == sorted(name)]
    close = swapped or difflib.get_close_matches(name, others, n=1, cutoff=alike)
    return f"did you mean `{close[0]}`?" if close else None

"""Watching the passes: instruments that are active for every compile inside a `with PassContext([…]):`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from types import TracebackType

from tilejit.passes.pipeline import Instrument
from tilejit.tile_ir.program import Program

_LAST_IN_PYTHON = "outline"
"""The pass after which programs print as MLIR text only."""
_active: ContextVar[tuple[Instrument, ...]] = ContextVar("tilejit_instruments", default=())


def active_instruments() -> tuple[Instrument, ...]:
    """The instruments of all enclosing contexts, outermost first."""
    return _active.get()


class PassContext:
    """Instruments for all passes that run inside; contexts nest, each thread and task has its own."""

    def __init__(self, instruments: Sequence[Instrument] = ()) -> None:
        self.instruments = tuple(instruments)
        for instrument in self.instruments:
            if not callable(getattr(instrument, "before_pass", None)) or not callable(getattr(instrument, "after_pass", None)):
                raise TypeError(f"an instrument needs before_pass(name, program) and after_pass(name, program), {type(instrument).__name__} lacks one")
        self._tokens: list[Token[tuple[Instrument, ...]]] = []

    def __enter__(self) -> PassContext:
        self._tokens.append(_active.set((*_active.get(), *self.instruments)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        _active.reset(self._tokens.pop())


class CallbackInstrument:
    """Calls functions around each pass."""

    def __init__(
        self,
        before_pass: Callable[[str, Program], object] | None = None,
        after_pass: Callable[[str, Program], object] | None = None,
        name: str = "callback",
    ) -> None:
        self.name = name
        self._before = before_pass
        self._after = after_pass

    def before_pass(self, name: str, program: Program) -> None:
        if self._before is not None:
            self._before(name, program)

    def after_pass(self, name: str, program: Program) -> None:
        if self._after is not None:
            self._after(name, program)


class RoundTripInstrument:
    """After each pass the program, printed and parsed back, must be the same program; else VerificationError names the pass.

    The form is MLIR text; with a parser of Python programs, programs that still print as Python go through that form too.
    """

    def __init__(self, parse_python: Callable[[str], Program] | None = None) -> None:
        self._parse_python = parse_python
        self._in_python = True
        self._last: Program | None = None

    def before_pass(self, name: str, program: Program) -> None:
        """Nothing: the previous pass was checked."""

    def after_pass(self, name: str, program: Program) -> None:
        from tilejit.errors import VerificationError
        from tilejit.tile_ir.equal import assert_structural_equal
        from tilejit.tile_ir.text import parse_text, print_text

        if program is not self._last:  # another run of the passes
            self._last, self._in_python = program, True
        forms: list[tuple[str, Callable[[], Program]]] = [("MLIR text", lambda: parse_text(print_text(program)))]
        parse = self._parse_python
        if parse is not None and self._in_python:
            forms.append(("Python", lambda: parse(program.as_python())))
        for form, again in forms:
            try:
                assert_structural_equal(again(), program)
            except Exception as error:
                raise VerificationError(f"after the pass {name} the program does not come back from its {form}: {error}") from error
        self._in_python = self._in_python and name != _LAST_IN_PYTHON

"""Mathematical functions on float lanes, written as internal LLVM functions, one per function and width."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cpu.emit import Emitter, Value


def call(e: Emitter, name: str, operands: Sequence[Value]) -> Value:
    """`name` of float lanes; the function is added to the module when it is first used."""
    raise NotImplementedError


def integer_power(e: Emitter, base: Value, exponent: Value, *, signed: bool) -> Value:
    raise NotImplementedError

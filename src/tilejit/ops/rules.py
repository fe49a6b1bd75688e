"""Per-target rules of an op: small frozen facts that the target's emitter interprets. CUDA and PTO rules join here when their emitters are built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lane:
    """CPU: applied lane by lane; `name` is a function of the emitter's lane library."""

    name: str


@dataclass(frozen=True, slots=True)
class Custom:
    """The target's emitter has a function of its own for this op."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No code: the op is a fact about its operands (views, markers)."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The target cannot run this op, and why."""

    reason: str


Rule = Lane | Custom | Nothing | Unsupported

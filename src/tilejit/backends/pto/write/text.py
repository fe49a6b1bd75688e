"""The text of a kernel while it is written: lines with the source they came from, names, constants, and arithmetic on extents."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilejit.dtypes import BOOL, FP8E8M0, INDEX, INT64, UINT8, DType
from tilejit.errors import Span, UnsupportedFeatureError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_of, plain, unique_name

Extent = int | str
"""A number known now, or the name of an index value of the text."""


def known_extent(extent: Extent) -> int | None:
    """The number that an extent is, if it is one."""
    return extent if isinstance(extent, int) else None


def stored(dtype: DType) -> DType:
    """The data type of elements in memory: flags are bytes, indices 64 bits."""
    return {BOOL: UINT8, INDEX: INT64}.get(dtype, dtype)


def element_name(dtype: DType) -> str:
    """The PTO spelling of the element type of tiles and tensors."""
    dtype = stored(dtype)
    if dtype.pto is None or dtype.bits < 8 or dtype is FP8E8M0:
        raise UnsupportedFeatureError(f"elements of type {dtype} have no PTO form", help="use element types of whole bytes that both generations of PTO have")
    return dtype.pto


def scalar_name(dtype: DType) -> str:
    """The type of a scalar: `arith` knows no signs."""
    return "i1" if dtype is BOOL else "index" if dtype is INDEX else element_name(dtype).removeprefix("u")


def op_name(op: Operation) -> str:
    """An op as the user knows it."""
    return f"`{op.op}`" if isinstance(op, d.ApplyOp | d.EffectOp) else f"`{op.name.removeprefix('tile.')}`"


def number_text(value: float, dtype: DType) -> str:
    """A constant as MLIR writes it; floats that are no numbers are written as bits."""
    if not dtype.is_float:
        whole, width = int(value), dtype.bits
        whole &= (1 << width) - 1
        return str(whole - (1 << width) if whole >> (width - 1) else whole)

    rounded = np.asarray(value, np.float64).astype(dtype.numpy)
    if not np.isfinite(rounded.astype(np.float64)):
        return f"0x{int(rounded.view(f'u{rounded.dtype.itemsize}')):0{2 * rounded.dtype.itemsize}X}"
    return f"{float(rounded):.17e}"


class TextWriter:
    """Lines, names and index arithmetic."""

    def __init__(self, function: d.FuncOp, arch: str) -> None:
        self.function = function
        self.arch = arch
        self.top: dict[str, str] = {}
        """Definitions at the start of the function, by name: constants, views of parameters, places in the workspace."""
        self.body: list[tuple[str, Span | None]] = []
        self.indent = 2
        self.taken: set[str] = set()
        self.span: Span | None = None
        self._defined: dict[str, str] = {}
        self._shown: tuple[str, int] | None = None

    # lines --------------------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line; a new source line is shown before it as a comment."""
        span = self.span
        if span is not None and self._shown != (span.filename, span.line) and not text.startswith("}"):
            self._shown = (span.filename, span.line)
            source = span.source.line(span.line)
            if source is not None:
                self.body.append((f"{'  ' * self.indent}// {os.path.basename(span.filename)}:{span.line}: {source.strip()}", span))
        self.body.append(("  " * self.indent + text, span))

    @contextmanager
    def inside(self, head: str, tail: str = "}") -> Generator[None]:
        """A nested block."""
        self.line(head)
        self.indent += 1
        yield
        self.indent -= 1
        self.line(tail)

    @contextmanager
    def at(self, op: Operation) -> Generator[None]:
        """What is written inside comes from `op`."""
        before = self.span
        self.span = (op.span if isinstance(op, d.TileOp) else None) or before
        yield
        self.span = before

    def name(self, hint: str | None = None) -> str:
        """A new name, the user's where there is one."""
        base = re.sub(r"\W", "_", plain(hint or "v"))
        base = base if base[0].isalpha() or base[0] == "_" else f"v{base}"
        name = unique_name(base, self.taken)
        self.taken.add(name)
        return f"%{name}"

    def define(self, text: str, hint: str | None = None) -> str:
        name = self.name(hint)
        self.line(f"{name} = {text}")
        return name

    def define_at_top(self, text: str, hint: str | None = None) -> str:
        """A definition without effects, made once."""
        if text not in self._defined:
            self._defined[text] = self.name(hint)
            self.top[self._defined[text]] = text
        return self._defined[text]

    def refuse(self, op: Operation, what: str, help: str = "keep this kernel on the platform cpu") -> UnsupportedFeatureError:
        """The error for what PTO text cannot say."""
        span = op.span if isinstance(op, d.TileOp) else None
        return UnsupportedFeatureError(f"{what} has no PTO form", span=span or self.span, help=help)

    # scalars ------------------------------------------------------------------------------------------------------------------

    def constant(self, value: float, dtype: DType) -> str:
        """A scalar constant, defined once at the top."""
        if dtype is BOOL:
            text, hint = ("true" if value else "false"), "yes" if value else "no"
        else:
            text = f"{number_text(value, dtype)} : {scalar_name(dtype)}"
            shown = f"{value:g}" if dtype.is_float else str(int(value))
            hint = f"c{shown}" if dtype is INDEX else f"c{shown}_{scalar_name(dtype)}"
            hint = hint.replace("-", "m")
        return self.define_at_top(f"arith.constant {text}", hint)

    def ssa(self, extent: Extent) -> str:
        return self.constant(extent, INDEX) if isinstance(extent, int) else extent

    def _both(self, name: str, a: Extent, b: Extent, hint: str | None) -> str:
        return self.define(f"arith.{name} {self.ssa(a)}, {self.ssa(b)} : index", hint)

    def add(self, a: Extent, b: Extent, hint: str | None = None) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._both("addi", a, b, hint)

    def sub(self, a: Extent, b: Extent, hint: str | None = None) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else 0 if a == b else self._both("subi", a, b, hint)

    def mul(self, a: Extent, b: Extent, hint: str | None = None) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a in (0, 1) or b in (0, 1):
            return 0 if 0 in (a, b) else b if a == 1 else a
        return self._both("muli", a, b, hint)

    def least(self, a: Extent, b: Extent, hint: str | None = None) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return a if a == b else self._both("minsi", a, b, hint)

    def most(self, a: Extent, b: Extent, hint: str | None = None) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return a if a == b else self._both("maxsi", a, b, hint)

    def product(self, extents: Sequence[Extent]) -> Extent:
        out: Extent = 1
        for extent in extents:
            out = self.mul(out, extent)
        return out

    # the whole ----------------------------------------------------------------------------------------------------------------

    def assembled(self, head: Sequence[str], arguments: str) -> tuple[str, list[Span | None]]:
        """The module, and for each of its lines where it came from."""
        arch = "a5" if self.arch == "a5" else "a3"
        used = set(re.findall(r"%\w+", "\n".join(text for text, _ in self.body)))
        kept: list[str] = []
        for name, text in reversed(self.top.items()):
            if name in used:
                kept.append(f"    {name} = {text}")
                used |= set(re.findall(r"%\w+", text))
        top = [*head, f'module attributes {{pto.target_arch = "{arch}"}} {{', f"  func.func @{plain(self.function.symbol)}({arguments}) {{", *reversed(kept)]
        lines = [*((text, self.function.span) for text in top), *self.body, ("    return", None), ("  }", None), ("}", None)]
        return "\n".join(text for text, _ in lines) + "\n", [span for _, span in lines]


def hint_of(value: SSAValue) -> str | None:
    """The user's name of a value."""
    if isinstance(value.owner, d.TileOp):
        return value.owner.hint
    return name_of(value)

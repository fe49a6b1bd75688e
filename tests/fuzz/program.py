"""Whole programs: stages in a `@pl.jit` function or a `@pl.program` class, with helpers, regions, blocks and dynamic extents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.fuzz.calls import annotation
from tests.fuzz.regions import AT, SYMBOL, Helper, shape_text
from tests.fuzz.side_by_side import SideBySide
from tests.fuzz.values import Val
from tests.fuzz.writer import Param, Writer

SCOPES = (
    "with pl.cluster():",
    'with pl.cluster(name_hint="pair"):',
    "with pl.manual_scope():",
    "with pl.scope(mode=pl.ScopeMode.MANUAL):",
    "with pl.at(level=pl.Level.CHIP):",
    "with pl.at(level=pl.Level.HOST):",
)
DECORATORS = {"incore": "InCore", "opaque": "Opaque", "inline": "Inline", "aic": "AIC", "aiv": "AIV"}


@dataclass(frozen=True)
class Case:
    """A generated program and what it takes to run and judge it."""

    seed: int
    text: str
    jit: bool
    """The entry is the jit function `kernel`; otherwise the program `Fuzz`."""
    params: tuple[Param, ...]
    tolerances: dict[str, float]
    sizes: tuple[int, ...]
    """Values of the dynamic extent to run with."""


class Composer(SideBySide):
    """Builds one case from a seed."""

    def compose(self) -> Case:
        scalars = self.scalar_params()
        count = self.rng.choice((1, 1, 2))
        for number in range(count):
            self.stage(number == count - 1)
        outputs = [p for p in self.entry.params if p.direction == "Out"]
        if not outputs:
            self.entry.level = "tensor"
            self.region(AT, "tensor", True)
            outputs = [p for p in self.entry.params if p.direction == "Out"]
        self.silent = self.rng.random() < 0.1
        if not self.silent:
            self.entry.emit(f"return {', '.join(p.name for p in outputs)}")
        self.entry.params += scalars
        sizes = tuple(self.rng.sample((1, 2, 7, 19, 32, 37), 2)) if self.dynamic else (1,)
        text = self.text()
        if self.dynamic and self.rng.random() < 0.3 and not re.search(r"col_(max|min|arg)", text):
            sizes += (0,)  # Of no rows at all there is no largest.
        return Case(self.seed, text, self.jit, tuple(self.entry.params), dict(self.entry.errors), sizes)

    def scalar_params(self) -> list[Param]:
        """Numbers that the entry takes, after its tensors."""
        found = [Param(self.fresh("k"), (), self.rng.choice(("FP32", "INT32")), "scalar") for _ in range(self.rng.choice((0, 0, 1, 2)))]
        for param in found:
            self.entry.scalars[param.name] = Val(param.name, "scalar", param.dtype, -2, 2)
        return found

    def stage(self, last: bool) -> None:
        """A part of the entry, sometimes in a scope that changes nothing."""
        makers = self.stages(last)
        names = [name for name, weight, _ in makers for _ in range(weight)]
        kind = self.rng.choice(names)
        if self.rng.random() < 0.3:
            # As with the menu of operations: each program prefers one kind.
            kind = makers[self.seed % len(makers)][0]
        make = next(maker for name, _, maker in makers if name == kind)
        if self.rng.random() < 0.12:
            with self.entry.nested(self.rng.choice(SCOPES)):
                make()
        else:
            make()

    def stages(self, last: bool) -> list[tuple[str, int, Callable[[], None]]]:
        """Name, weight and maker of what this program may be made of."""
        found: list[tuple[str, int, Callable[[], None]]] = [
            ("incore", 2, lambda: self.call("incore", "tile")),
            ("incore tensor", 2, lambda: self.call("incore", "tensor")),
            ("launch", 2, self.launch),
            ("returned", 1, self.returned),
            ("middle", 1, self.middle),
        ]
        if not self.orchestration:
            found += [
                ("at", 4, lambda: self.region(self.at(self.entry), "tile", last)),
                ("at tensor", 4, lambda: self.region(self.at(self.entry), "tensor", last)),
                ("spmd", 1, lambda: self.blocks("spmd")),
                ("spmd with", 1, lambda: self.blocks("spmd_with")),
                ("parallel", 1, lambda: self.blocks("parallel")),
                ("shares", 1, self.shares),
                ("barrier", 1, self.barrier),
                ("opaque", 1, lambda: self.call("opaque", "tile")),
                ("inline", 2, lambda: self.call("inline", "tensor")),
            ]
        if not self.jit:
            found += [("fifo", 1, self.fifo)]
        if self.jit:
            found += [("control", 2, lambda: self.control(last))]
        if self.dynamic and not self.orchestration:
            found += [("ragged", 2, self.ragged), ("twice", 1, self.twice)]
        return found

    def control(self, last: bool) -> None:
        """Operators outside any region."""
        self.entry.level = "tensor"
        self.body(self.entry)
        self.write_results(self.entry, last)

    # text -----------------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        lines = ["import tilejit.language as pl", ""]
        if self.dynamic:
            lines += [f'{SYMBOL} = pl.dynamic("{SYMBOL}")', ""]
        if self.jit:
            for helper in self.helpers:
                bare = helper.kind == "inline"
                parameters = ", ".join(f"{p.name}: {annotation(replace(p, direction='In') if bare else p, False)}" for p in helper.writer.params)
                lines += ["", f"@pl.jit.{helper.kind}{helper.options}", f"def {helper.name}({parameters}):", *self.documented(helper.writer), ""]
            bare_ok = self.rng.random() < 0.5
            parameters = ", ".join(f"{p.name}: {annotation(p, bare_ok and not p.is_dynamic)}" for p in self.entry.params)
            lines += ["", "@pl.jit", f"def kernel({parameters}):", *self.documented(self.entry), ""]
            return "\n".join(lines)
        lines += ["", "@pl.program", "class Fuzz:"]
        for helper in self.helpers:
            lines += self.method(helper.name, DECORATORS[helper.kind], helper.writer, helper)
        lines += self.method("main", "Orchestration" if self.orchestration or self.helpers else "Opaque", self.entry)
        return "\n".join(lines) + "\n"

    def documented(self, w: Writer) -> list[str]:
        lines = w.lines or ["    pass"]
        return ['    """A random kernel."""', *lines] if self.rng.random() < 0.15 else lines

    def method(self, name: str, kind: str, w: Writer, helper: Helper | None = None) -> list[str]:
        parameters = ", ".join(["self", *(f"{p.name}: {annotation(p, False)}" for p in w.params)])
        results = [f"pl.Tensor[{shape_text(p.shape)}, pl.{p.dtype}]" for p in w.params if p.direction == "Out"]
        if helper is not None and helper.value is not None:
            kind_of_value = "Tile" if helper.value.level == "tile" else "Tensor"
            results = [f"pl.{kind_of_value}[{shape_text(helper.value.shape)}, pl.{helper.value.dtype}]"]
        silent = self.silent if helper is None else helper.silent
        returned = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
        returns = "" if silent or not results else f" -> {returned}"
        decorator = "@pl.function" if kind == "Opaque" else f"@pl.function(type=pl.FunctionType.{kind})"
        return [f"    {decorator}", f"    def {name}({parameters}){returns}:", *("    " + line for line in self.documented(w)), ""]


def generate(seed: int) -> Case:
    """The program of a seed."""
    return Composer(seed).compose()

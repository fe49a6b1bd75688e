"""Whole programs: stages in a `@pl.jit` function or a `@pl.program` class, with helpers, regions, blocks and dynamic extents."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from tests.fuzz import indexed, movement
from tests.fuzz.control import store_rows
from tests.fuzz.statements import statements
from tests.fuzz.values import Dim, Val
from tests.fuzz.writer import Names, Param, Writer

SYMBOL = "M"
AT = "with pl.at(level=pl.Level.CORE_GROUP):"


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


@dataclass
class Helper:
    """A function beside the entry."""

    name: str
    kind: str
    """"incore", "inline" or "opaque"."""
    writer: Writer
    results: list[str]


def _shape_text(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _annotation(param: Param, bare: bool) -> str:
    if param.style == "scalar":
        return f"pl.{param.dtype}" if bare else f"pl.Scalar[pl.{param.dtype}]"
    tensor = "pl.Tensor" if bare else f"pl.Tensor[{_shape_text(param.shape)}, pl.{param.dtype}]"
    return tensor if param.direction == "In" else f"pl.{param.direction}[{tensor}]"


class Composer:
    """Builds one case from a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.fresh = Names()
        self.jit = self.rng.random() < 0.5
        self.orchestration = not self.jit and self.rng.random() < 0.4
        self.helpers: list[Helper] = []
        self.dynamic = self.rng.random() < 0.25
        dtypes = ("FP32", self.rng.choice(("FP32", "FP16", "BF16")), self.rng.choice(("INT32", "INT32", "INT16", "INT8", "UINT8", "INT64", "UINT16")))
        rows = tuple(self.rng.sample((1, 2, 3, 4, 5, 8, 12, 16), 2))
        cols = tuple(self.rng.sample((1, 3, 7, 8, 15, 16, 24, 31, 32, 33, 40, 70, 130), 2))
        self.shared = {"rows": rows, "cols": cols, "dtypes": dtypes}
        self.entry = self.writer(depth=1)

    def writer(self, depth: int) -> Writer:
        return Writer(self.rng, self.fresh, depth=depth, symbol=SYMBOL if self.dynamic else None, theme=self.seed, body=statements, **self.shared)  # type: ignore[arg-type]

    # stages ---------------------------------------------------------------------------------------------------------------

    def compose(self) -> Case:
        scalars = self.scalar_params()
        count = self.rng.choice((1, 1, 2))
        for number in range(count):
            last = number == count - 1
            self.stage(last)
        outputs = [p for p in self.entry.params if p.direction == "Out"]
        if not outputs:
            self.entry.level = "tensor"
            self.region(AT, "tensor", True)
            outputs = [p for p in self.entry.params if p.direction == "Out"]
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
        kinds = (
            ["incore", "incore_tensor", "launch"]
            if self.orchestration
            else ["at", "at", "at_tensor", "at_tensor", "spmd", "parallel", "incore", "incore_tensor", "launch"]
        )
        if self.jit:
            kinds += ["inline", "control"]
        if self.dynamic and not self.orchestration:
            kinds += ["ragged", "at_tensor"]
        kind = self.rng.choice(kinds)
        if kind in ("at", "at_tensor"):
            self.region(AT, "tensor" if kind == "at_tensor" else "tile", last)
        elif kind == "spmd":
            self.blocks("spmd")
        elif kind == "parallel":
            self.blocks("parallel")
        elif kind == "control":
            self.entry.level = "tensor"
            self.body(self.entry)
            self.write_results(self.entry, last)
        elif kind == "ragged":
            self.ragged()
        elif kind == "launch":
            self.launch()
        else:
            self.call(kind.removesuffix("_tensor"), "tensor" if kind.endswith("_tensor") or kind == "inline" else "tile", last)

    def body(self, w: Writer) -> None:
        state = self.in_out(w) if w.block is None and self.rng.random() < 0.15 else None
        if state is not None:
            w.frozen.add(state[1].text)
        self.plain_body(w)
        if state is not None:
            param, tile = state
            values = [v for v in w.env.values() if v.level == tile.level and v.full and (v.shape, v.dtype) == (tile.shape, tile.dtype)]
            value = values[-1] if values else tile
            w.note_error(param.name, value.err)
            self.write(w, value, param.name, param.shape, whole=True)
            if w.chance(0.4):
                indexed.update_in_place(w, param.name, tile)

    def in_out(self, w: Writer) -> tuple[Param, Val]:
        """A parameter that is read at the start of a body and written at its end."""
        dtype = w.choose_dtype()
        shape = (w.rng.choice(w.rows), w.rng.choice(w.cols))
        param = w.new_param("io", shape, dtype, w.style_for(dtype), "InOut")
        value = param.as_value()
        if w.level == "tile":
            return param, w.bind(replace(value, text=f"pl.load({param.name}, [0, 0], [{shape[0]}, {shape[1]}])", level="tile"))
        return param, w.bind(replace(value, text=f"pl.maximum({param.name}, {param.name})", level="tensor"))

    def plain_body(self, w: Writer) -> None:
        for _ in range(self.rng.choice((1, 2, 3))):
            value = movement.load(w)
            if value is not None:
                w.bind(value)
        statements(w, self.rng.choice((2, 3, 4, 4, 6, 6, 10)))

    def region(self, header: str, level: str, last: bool) -> None:
        w = self.entry
        w.level = level
        start = len(w.lines)
        with w.nested(header):
            self.body(w)
            created = self.write_results(w, last)
        w.lines[start:start] = created

    def blocks(self, kind: str) -> None:
        """A loop over blocks, each with rows of its own."""
        w = self.entry
        w.level = "tile"
        index, count = w.fresh("b"), self.rng.choice((2, 3))
        w.block = (index, count)
        with w.nested(f"for {index} in pl.{kind}({count}):"):
            w.scalars[index] = Val(index, "scalar", "INDEX", 0, count)
            if kind == "parallel":
                with w.nested(AT):
                    self.block_body(w, index, count)
            else:
                self.block_body(w, index, count)
        w.block = None

    def block_body(self, w: Writer, index: str, count: int) -> None:
        self.body(w)
        store_rows(w, index, count)
        tile = w.pick(lambda v: v.dtype in ("INT32", "INT16") and len(v.shape) == 2)
        if tile is not None and self.rng.random() < 0.3:
            param = w.new_param("io", tuple(tile.shape), tile.dtype, "small", "InOut")
            w.note_error(param.name, 0.0)
            w.emit(f"pl.store({tile.text}, [0, 0], {param.name}, atomic=pl.AtomicType.Add)")

    def ragged(self) -> None:
        """Any number of rows in tiles, the last one narrower."""
        w = self.entry
        w.level = "tile"
        rows, cols = int(max(w.rows)), int(w.rng.choice(w.cols))
        dtype = w.choose_dtype()
        source = w.new_param("x", (SYMBOL, cols), dtype, w.style_for(dtype))
        with w.nested(AT):
            size, index, left = w.fresh("n"), w.fresh("i"), w.fresh("n")
            w.emit(f"{size} = pl.tensor.dim({source.name}, 0)")
            with w.nested(f"for {index} in pl.range(({size} + {rows - 1}) // {rows}):"):
                w.emit(f"{left} = pl.min({size} - {index} * {rows}, {rows})")
                low, high = source.bounds()
                text = f"pl.load({source.name}, [{index} * {rows}, 0], [{rows}, {cols}], valid_shape=[{left}, {cols}], clamp=True)"
                tile = w.bind(Val(text, "tile", source.dtype, low, high, 0.0, (rows, cols), (left, cols)))
                w.frozen.add(tile.text)
                statements(w, self.rng.choice((1, 2, 3)), depth=1)
                found = w.pick(lambda v: len(v.shape) == 2 and v.shape[0] == rows and v.valid[0] == left and v.valid[1] == v.shape[1]) or tile
                param = w.output((SYMBOL, found.shape[1]), found.dtype)
                w.note_error(param.name, found.err)
                w.emit(f"pl.store({found.text}, [{index} * {rows}, 0], {param.name})")

    # results --------------------------------------------------------------------------------------------------------------

    def write_results(self, w: Writer, last: bool) -> list[str]:
        """Store one or two values; returns the lines that allocate temporaries for them."""
        created: list[str] = []
        there = [v for v in w.env.values() if (v.level == "tile") == (w.level == "tile")]
        chosen = [v for v in there if v.text in w.unused][-4:] or there[-4:] or [self.fallback(w)]
        for number, value in enumerate(self.rng.sample(chosen, min(len(chosen), self.rng.choice((1, 2, 2, 3))))):
            temporary = value.full and not last and number == 0 and w is self.entry and SYMBOL not in value.shape
            if temporary:
                name = w.fresh("tmp")
                line = f"{name} = pl.create_tensor({_shape_text(value.shape)}, dtype=pl.{value.dtype})"
                if w.depth == 1:
                    w.emit(line)
                else:
                    created.append("    " * (w.depth - 1) + line)
                self.write(w, value, name, value.shape)
                w.buffers[name] = replace(value, text=name, level="buffer", product=True)
                continue
            spare = self.rng.choice((0, 0, 2)) if SYMBOL not in value.shape else 0
            shape = tuple(d + spare if isinstance(d, int) else d for d in value.shape)
            param = w.output(shape, value.dtype)
            w.note_error(param.name, value.err)
            self.write(w, value, param.name, shape)
        return created

    def fallback(self, w: Writer) -> Val:
        value = movement.constant(w)
        assert value is not None
        return w.bind(value)

    def write(self, w: Writer, value: Val, name: str, shape: tuple[Dim, ...], whole: bool = False) -> None:
        offsets = (
            [0, 0]
            if whole
            else [
                self.rng.randint(0, big - small) if isinstance(big, int) and isinstance(small, int) else 0
                for big, small in zip(shape, value.shape, strict=True)
            ]
        )
        if value.level == "tile":
            assign = f"{name} = " if self.rng.random() < 0.4 else ""
            w.emit(f"{assign}pl.store({value.text}, {offsets}, {name})")
        elif shape == value.shape and self.rng.random() < 0.6:
            w.emit(f"{name}[:] = {value.text}")
        elif SYMBOL not in shape and self.rng.random() < 0.5:
            window = ", ".join(f"{o}:{o + int(d)}" for o, d in zip(offsets, value.shape, strict=True))
            w.emit(f"{name}[{window}] = {value.text}")
        else:
            w.emit(f"pl.assemble({name}, {value.text}, {offsets})")

    # helpers --------------------------------------------------------------------------------------------------------------

    def call(self, kind: str, level: str, last: bool) -> None:
        """A helper function, and a call of it with tensors of the entry."""
        w = self.writer(depth=1)
        w.region = kind == "incore"
        w.level = level
        for buffer in self.entry.buffers.values():
            if buffer.text.startswith("tmp") and self.rng.random() < 0.7:
                name = w.fresh("x")
                w.params.append(Param(name, buffer.shape, buffer.dtype, f"={buffer.text}"))
                w.buffers[name] = replace(buffer, text=name)
        if kind == "inline":
            start = len(w.lines)
            with w.nested(AT):
                self.body(w)
                created = self.write_results(w, True)
            w.lines[start:start] = created
        else:
            self.body(w)
            self.write_results(w, True)
        results = [p.name for p in w.params if p.direction == "Out"]
        w.emit(f"return {', '.join(results)}")
        helper = Helper(self.fresh("helper"), kind, w, results)
        self.helpers.append(helper)
        self.emit_call(helper)
        if self.rng.random() < 0.15 and not any(p.direction == "InOut" for p in w.params):
            self.emit_call(helper)

    def launch(self) -> None:
        """An incore function that asks for its block, launched on several."""
        w = self.writer(depth=1)
        w.level, w.region = "tile", True
        index, count = w.fresh("b"), self.rng.choice((2, 3))
        w.emit(f"{index} = pl.tile.get_block_idx()")
        w.scalars[index] = Val(index, "scalar", "INDEX", 0, count)
        w.block = (index, count)
        self.block_body(w, index, count)
        results = [p.name for p in w.params if p.direction == "Out"]
        if not results:
            return
        w.emit(f"return {', '.join(results)}")
        helper = Helper(self.fresh("helper"), "incore", w, results)
        self.helpers.append(helper)
        with self.entry.nested(f"with pl.spmd({count}):"):
            self.emit_call(helper)

    def emit_call(self, helper: Helper) -> None:
        entry = self.entry
        arguments: list[str] = []
        outputs: list[str] = []
        for param in helper.writer.params:
            if param.direction != "In":
                err = helper.writer.errors.get(param.name, 0.0)
                name = entry.new_param("out", param.shape, param.dtype, param.style, param.direction).name
                entry.note_error(name, err)
                if param.direction == "Out":
                    outputs.append(name)
                arguments.append(name)
            elif param.style.startswith("="):
                arguments.append(param.style[1:])
            else:
                arguments.append(self.argument_for(param))
        callee = helper.name if self.jit else f"self.{helper.name}"
        if self.jit and self.rng.random() < 0.3:
            names = [p.name for p in helper.writer.params]
            keep = self.rng.randint(0, len(arguments))
            arguments = arguments[:keep] + [f"{n}={a}" for n, a in zip(names[keep:], arguments[keep:], strict=True)]
        entry.emit(f"{', '.join(outputs)} = {callee}({', '.join(arguments)})")

    def argument_for(self, param: Param) -> str:
        for known in self.entry.params:
            if known.direction == "In" and replace(known, name=param.name) == param:
                return known.name
        own = replace(param, name=self.fresh("x"))
        self.entry.params.append(own)
        return own.name

    # text -----------------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        lines = ["import tilejit.language as pl", ""]
        if self.dynamic:
            lines += [f'{SYMBOL} = pl.dynamic("{SYMBOL}")', ""]
        if self.jit:
            for helper in self.helpers:
                bare = helper.kind == "inline"
                parameters = ", ".join(f"{p.name}: {_annotation(replace(p, direction='In') if bare else p, False)}" for p in helper.writer.params)
                lines += ["", f"@pl.jit.{helper.kind}", f"def {helper.name}({parameters}):", *helper.writer.lines, ""]
            bare_ok = self.rng.random() < 0.5
            parameters = ", ".join(f"{p.name}: {_annotation(p, bare_ok and SYMBOL not in p.shape)}" for p in self.entry.params)
            lines += ["", "@pl.jit", f"def kernel({parameters}):", *self.entry.lines, ""]
            return "\n".join(lines)
        lines += ["", "@pl.program", "class Fuzz:"]
        for helper in self.helpers:
            lines += self.method(helper.name, "InCore", helper.writer)
        lines += self.method("main", "Orchestration" if self.orchestration or self.helpers else "Opaque", self.entry)
        return "\n".join(lines) + "\n"

    def method(self, name: str, kind: str, w: Writer) -> list[str]:
        parameters = ", ".join(["self", *(f"{p.name}: {_annotation(p, False)}" for p in w.params)])
        results = [f"pl.Tensor[{_shape_text(p.shape)}, pl.{p.dtype}]" for p in w.params if p.direction == "Out"]
        returns = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
        decorator = "@pl.function" if kind == "Opaque" else f"@pl.function(type=pl.FunctionType.{kind})"
        return [f"    {decorator}", f"    def {name}({parameters}) -> {returns}:", *("    " + line for line in w.lines), ""]


def generate(seed: int) -> Case:
    """The program of a seed."""
    return Composer(seed).compose()

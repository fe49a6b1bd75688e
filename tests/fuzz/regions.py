"""Regions of a program: what a kernel body reads, computes and writes; blocks of rows, ragged rows, lanes."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, replace

from tests.fuzz import indexed, movement
from tests.fuzz.control import store_rows
from tests.fuzz.statements import statements
from tests.fuzz.values import Dim, Val, rounding
from tests.fuzz.writer import Names, Param, Writer

SYMBOL = "M"
TWICE = f"{SYMBOL} * 2"
AT = "with pl.at(level=pl.Level.CORE_GROUP):"
HINTS = (
    "optimizations=[pl.split(pl.SplitMode.UP_DOWN)]",
    "optimizations=[pl.cross_core_slot(slot_num=2)]",
    "optimizations=[pl.split(pl.SplitMode.NONE, slot_num=2)]",
    "optimization=pl.split(pl.SplitMode.UP_DOWN)",
    "split=pl.SplitMode.LEFT_RIGHT, slot_num=4",
)
"""Hints for a scheduler, the last three as earlier versions of the language had them."""


@dataclass
class Helper:
    """A function beside the entry."""

    name: str
    kind: str
    """"incore", "inline" or "opaque"."""
    writer: Writer
    results: list[str]
    silent: bool = False
    """It has no return: a call of it stands for its outputs."""
    value: Val | None = None
    """What it returns that is no parameter."""
    options: str = ""
    """Of its decorator."""


def shape_text(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


class Regions:
    """The state of a program under construction, and its regions."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.fresh = Names()
        self.jit = self.rng.random() < 0.5
        self.orchestration = not self.jit and self.rng.random() < 0.4
        self.helpers: list[Helper] = []
        self.tasks: list[str] = []
        """Names of task ids that are bound on the control plane."""
        self.dynamic = self.rng.random() < 0.25
        dtypes = ("FP32", self.rng.choice(("FP32", "FP16", "BF16", "FP64")), self.rng.choice(("INT32", "INT32", "INT16", "INT8", "UINT8", "INT64", "UINT16")))
        rows = tuple(self.rng.sample((1, 2, 3, 4, 5, 8, 12, 16), 2))
        cols = tuple(self.rng.sample((1, 3, 7, 8, 15, 16, 24, 31, 32, 33, 40, 70, 130, 257), 2))
        self.shared = {"rows": rows, "cols": cols, "dtypes": dtypes}
        self.entry = self.writer(depth=1)

    def writer(self, depth: int) -> Writer:
        return Writer(self.rng, self.fresh, depth=depth, symbol=SYMBOL if self.dynamic else None, theme=self.seed, body=statements, **self.shared)  # type: ignore[arg-type]

    def body(self, w: Writer) -> None:
        state = self.in_out(w) if w.block is None and self.rng.random() < 0.15 else None
        if state is not None:
            w.frozen.add(state[1].text)
        self.plain_body(w)
        partly = any(v.level == "tile" and not v.full for v in w.env.values())
        if w.level == "tile" and w.region and not w.side and self.rng.random() < (0.6 if partly else 0.15):
            self.passed(w)
        if state is not None:
            param, tile = state
            values = [v for v in w.env.values() if v.level == tile.level and v.full and (v.shape, v.dtype) == (tile.shape, tile.dtype)]
            value = values[-1] if values else tile
            w.note_error(param.name, value.err)
            self.write(w, value, param.name, param.shape, whole=True)
            if w.chance(0.4):
                indexed.update_in_place(w, param.name, tile)

    def passed(self, w: Writer) -> None:
        """Tiles that a function of its own is given, and one that it gives back."""
        raise NotImplementedError

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

    def deps(self) -> str:
        """The task ids that something waits for."""
        known = [*self.tasks[-3:], "None"]
        return f"deps=[{', '.join(self.rng.sample(known, min(len(known), 2)))}]"

    def options(self, *more: str) -> str:
        """Keywords of pl.at and pl.spmd that change no number."""
        chosen = [option for option in more if self.rng.random() < 0.5]
        if self.rng.random() < 0.15:
            chosen.append(f'name_hint="{self.fresh("region")}"')
        if self.rng.random() < 0.1:
            chosen.append(self.rng.choice(HINTS))
        if self.rng.random() < 0.08:
            chosen.append("allow_early_resolve=True")
        return "".join(f", {option}" for option in chosen)

    def task(self, w: Writer) -> str:
        """`as tid`, sometimes; ids are used only where every path has bound them."""
        if w.depth != 1 or w is not self.entry or self.rng.random() < 0.7:
            return ""
        name = w.fresh("tid")
        self.tasks.append(name)
        return f" as {name}"

    def at(self, w: Writer) -> str:
        """A region's first line."""
        deps = (self.deps(),) if w is self.entry and self.tasks else ()
        return f"with pl.at(level=pl.Level.CORE_GROUP{self.options(*deps)}){self.task(w)}:"

    def region(self, header: str, level: str, last: bool) -> None:
        w = self.entry
        w.level = level
        start = len(w.lines)
        with w.nested(header):
            self.body(w)
            created = self.write_results(w, last)
            if level == "tile" and "split" not in header and self.rng.random() < 0.15:
                self.lanes(w)
        w.lines[start:start] = created

    def lanes(self, w: Writer) -> None:
        """Two vector lanes, each with its half of a tile."""
        mode = self.rng.choice(("UP_DOWN", "LEFT_RIGHT", "NONE"))
        axis = {"UP_DOWN": 0, "LEFT_RIGHT": 1}.get(mode)
        tile = w.pick(lambda v: v.full and len(v.shape) == 2 and (axis is None or int(v.shape[axis]) % 2 == 0) and v.dtype in ("FP32", "INT32"))
        if tile is None:
            return
        lane, half = w.fresh("lane"), w.fresh("t")
        rows, cols = (int(n) for n in tile.shape)
        param = w.output((rows, cols), tile.dtype)
        offsets = {0: f"[{lane} * {rows // 2}, 0]", 1: f"[0, {lane} * {cols // 2}]", None: "[0, 0]"}[axis]
        w.note_error(param.name, tile.err)
        with w.nested(f"for {lane} in pl.split_aiv(2, mode=pl.SplitMode.{mode}):"):
            w.emit(f"{half} = pl.aiv_shard({tile.text})")
            if axis is not None and w.chance(0.7):
                number = w.rng.choice(("pl.tile.get_subblock_idx()", lane))
                w.emit(f"{half} = pl.add({half}, pl.cast({number} + 1, pl.{tile.dtype}))")
                w.note_error(param.name, tile.err + rounding(tile.dtype, tile.magnitude + 2))
            w.emit(f"pl.store({half}, {offsets}, {param.name})")
        if w.chance(0.6):
            w.emit(f"{w.fresh('t')} = pl.aic_gather({tile.text})")

    def blocks(self, kind: str) -> None:
        """Blocks, each with rows of its own: a loop, a `with` that asks for its block, or a region in it."""
        w = self.entry
        w.level = "tile"
        index, count = w.fresh("b"), self.rng.choice((2, 3))
        w.block = (index, count)
        number = str(count) if self.rng.random() < 0.7 else f"core_num={count}"
        # A block that does not run leaves its rows as they were.
        predicate = (f"predicate={w.config()}[{self.rng.randrange(8)}] > 0",) if self.rng.random() < 0.3 else ()
        if kind == "spmd_with":
            with w.nested(f"with pl.spmd({number}{self.options('sync_start=True', *predicate)}){self.task(w)}:"):
                inner = w.nested(AT) if self.rng.random() < 0.3 else contextlib.nullcontext()
                with inner:
                    w.emit(f"{index} = pl.tile.get_block_idx()")
                    if w.chance(0.3):
                        w.emit(f"{w.fresh('n')} = pl.tile.get_block_num()")
                    w.scalars[index] = Val(index, "scalar", "INDEX", 0, count)
                    self.block_body(w, index, count)
        elif kind == "spmd":
            indices, grid = index, number
            if number == str(count) and self.rng.random() < 0.3:
                # The same blocks in a grid of two or three directions.
                one, other = w.fresh("b"), w.fresh("b")
                indices, grid = self.rng.choice(((f"{index}, {one}", f"({count}, 1)"), (f"{one}, {index}, {other}", f"(1, {count}, 1)")))
            with w.nested(f"for {indices} in pl.spmd({grid}{self.options(*predicate)}):"):
                w.scalars[index] = Val(index, "scalar", "INDEX", 0, count)
                self.block_body(w, index, count)
        else:
            with w.nested(f"for {index} in pl.parallel({count}):"):
                w.scalars[index] = Val(index, "scalar", "INDEX", 0, count)
                with w.nested(AT):
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

    def shares(self) -> None:
        """Blocks that add into one tensor, in any order; integers, so that the order does not matter."""
        w = self.entry
        w.level = "tensor"
        count, cols = self.rng.choice((2, 3)), self.rng.choice(w.cols)
        source = w.new_param("x", (count, cols), "INT32", "small")
        target = w.new_param("io", (1, cols), "INT32", "small", "InOut")
        w.note_error(target.name, 0.0)
        index = w.fresh("b")
        with w.nested(f"for {index} in pl.spmd({count}):"):
            w.emit(f"pl.assemble({target.name}, {source.name}[{index}:{index} + 1, :], [0, 0], atomic=pl.AtomicType.Add)")

    def ragged(self) -> None:
        """Any number of rows in tiles, the last one narrower."""
        w = self.entry
        w.level = "tile"
        rows, cols = int(max(w.rows)), int(w.rng.choice(w.cols))
        dtype = w.choose_dtype()
        source = w.new_param("x", (SYMBOL, cols), dtype, w.style_for(dtype))
        with w.nested(self.at(w)):
            size, index, left = w.fresh("n"), w.fresh("i"), w.fresh("n")
            w.emit(f"{size}{self.rng.choice(('', ': pl.Scalar[pl.INT64]'))} = pl.tensor.dim({source.name}, 0)")
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

    def twice(self) -> None:
        """An output whose extent is computed from a dynamic one: the rows of an input, then what is made of them."""
        w = self.entry
        cols, dtype = int(w.rng.choice(w.cols)), w.choose_dtype(("FP32", "INT32"))
        source = w.new_param("x", (SYMBOL, cols), dtype, w.style_for(dtype))
        out = w.output((TWICE, cols), dtype)
        w.note_error(out.name, 0.0)
        with w.nested(self.at(w)):
            w.emit(f"{out.name}[0:{SYMBOL}] = {source.name}")
            w.emit(f"{out.name}[{self.rng.choice((f'{SYMBOL}:', f'{SYMBOL}:2 * {SYMBOL}'))}] = pl.{self.rng.choice(('abs', 'neg', 'relu'))}({source.name})")

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
                line = f"{name} = pl.create_tensor({shape_text(value.shape)}, dtype=pl.{value.dtype})"
                if w.region:
                    created.append("    " * (w.depth - 1) + line)
                else:
                    w.emit(line)
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
            part = ""
            if value.full and SYMBOL not in value.shape and name.startswith("o") and self.rng.random() < 0.1:
                part = f", shapes={[self.rng.randint(1, int(extent)) for extent in value.shape]}"
            w.emit(f"{assign}pl.store({value.text}, {offsets}, {name}{part})")
        elif value.full and SYMBOL not in value.shape and name.startswith("o") and self.rng.random() < 0.1:
            part = [self.rng.randint(1, int(extent)) for extent in value.shape]
            window = ", ".join(f"{o}:{o + d}" for o, d in zip(offsets, part, strict=True))
            w.emit(f"{name}[{window}] = pl.slice({value.text}, {list(value.shape)}, {[0] * len(part)}, valid_shape={part})")
        elif shape == value.shape and self.rng.random() < 0.6:
            w.emit(f"{name}[:] = {value.text}")
        elif SYMBOL not in shape and self.rng.random() < 0.5:
            window = ", ".join(f"{o}:{o + int(d)}" for o, d in zip(offsets, value.shape, strict=True))
            w.emit(f"{name}[{window}] = {value.text}")
        else:
            w.emit(f"pl.assemble({name}, {value.text}, {offsets})")


"""Random PTO kernels: machine code and interpreter must agree. `python -m tests.pto.random_kernels --kernels 500 --seed 1`."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, field

import numpy as np

from tests.pto.harness import HERE, NDArray, run_text

ROWS, COLS = 16, 32
_BINARY = ("tadd", "tsub", "tmul", "tmax", "tmin")
_UNARY = ("tneg", "tabs", "trelu")
_POINTERS = {"f32": ("x", "o"), "i32": ("k", "p"), "f16": ("h", "q")}
"""What tiles of a type are loaded from and stored to."""
_SCALAR = ("tadds", "tsubs", "tmuls", "tmaxs", "tmins")


@dataclass
class Tile:
    """A handle that the text may use: its name, type and valid region (None: known to the run only)."""

    name: str
    dtype: str
    shape: tuple[int, int]
    valid: tuple[int | None, int | None]
    changeable: bool = False

    @property
    def type(self) -> str:
        valid = "x".join("?" if n is None else str(n) for n in self.valid)
        return f"!pto.tile_buf<vec, {self.shape[0]}x{self.shape[1]}x{self.dtype}{'' if self.valid == self.shape else f', valid={valid}'}>"


@dataclass
class Writer:
    """Writes one kernel."""

    random: random.Random
    level3: bool
    dtypes: tuple[str, ...] = ("f32", "f32", "i32", "f16")
    """Tiles that share bytes have one type here: the bits of NaN, and of sums added in another order, differ."""
    lines: list[str] = field(default_factory=list[str])
    tiles: list[Tile] = field(default_factory=list[Tile])
    names: int = 0
    indent: str = "    "
    outputs: int = 0

    def say(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def index(self, value: int) -> str:
        name = self.name()
        self.say(f"{name} = arith.constant {value} : index")
        return name

    # tiles ----------------------------------------------------------------------------------------------------------------

    def alloc(self, dtype: str, full: bool = False) -> Tile:
        pick = self.random
        shape = pick.choice(((ROWS, COLS), (8, 32), (16, 16)))
        kind = "full" if full else pick.choice(("full", "full", "part", "open", "open"))
        valid: tuple[int | None, int | None] = shape
        if kind == "part":
            valid = (pick.randint(1, shape[0]), pick.randint(1, shape[1]))
        elif kind == "open":
            valid = pick.choice(((None, shape[1]), (shape[0], None), (None, None)))
        made = Tile(self.name(), dtype, shape, valid, valid == (None, None))
        extra = ""
        if self.level3:
            address = self.name()
            self.say(f"{address} = arith.constant {pick.choice((0, 0, 512, 1024, 2048, 4096, 6144))} : i64")
            extra += f" addr = {address}"
        for label, size, whole in (("valid_row", valid[0], shape[0]), ("valid_col", valid[1], shape[1])):
            if size is None:
                extra += f" {label} = {pick.choice(('%m', self.index(pick.randint(1, min(whole, 16)))))}"
        self.say(f"{made.name} = pto.alloc_tile{extra} : {made.type}")
        self.fill(made)
        self.tiles.append(made)
        return made

    def fill(self, made: Tile) -> None:
        """Give every cell of the memory a value."""
        pointer = _POINTERS[made.dtype][0]
        view, part = self.name(), self.name()
        rows, cols = self.index(ROWS), self.index(COLS)
        one, row, col = self.index(1), self.index(self.random.randint(0, ROWS)), self.index(self.random.randint(0, COLS))
        total, width = self.index(2 * ROWS), self.index(2 * COLS)
        self.say(f"{view} = pto.make_tensor_view %{pointer}, shape = [{total}, {width}], strides = [{width}, {one}] : !pto.tensor_view<?x?x{made.dtype}>")
        slice_type = f"!pto.partition_tensor_view<{ROWS}x{COLS}x{made.dtype}>"
        self.say(f"{part} = pto.partition_view {view}, offsets = [{row}, {col}], sizes = [{rows}, {cols}] : !pto.tensor_view<?x?x{made.dtype}> -> {slice_type}")
        self.say(f"pto.tload ins({part} : {slice_type}) outs({made.name} : {made.type})")

    def like(self, one: Tile, count: int) -> list[Tile]:
        """Tiles that have the dtype and the written valid region of a tile."""
        same = [tile for tile in self.tiles if tile.dtype == one.dtype and tile.valid == one.valid and not tile.changeable and None not in tile.valid]
        return [self.random.choice(same) if same and self.random.random() < 0.8 else one for _ in range(count)]

    # statements -----------------------------------------------------------------------------------------------------------

    def elementwise(self) -> None:
        target = self.random.choice(self.tiles)
        kind = self.random.random()
        if kind < 0.1 and None not in target.valid:
            sources = [tile for tile in self.tiles if tile.shape == target.shape and tile.valid == target.valid and tile.dtype != target.dtype]
            if sources and target.dtype != "i32":
                a = self.random.choice(sources)
                self.say(f"pto.tcvt ins({a.name} {{rmode = #pto<round_mode RINT>}} : {a.type}) outs({target.name} : {target.type})")
        elif kind < 0.5:
            a, b = self.like(target, 2)
            self.say(f"pto.{self.random.choice(_BINARY)} ins({a.name}, {b.name} : {a.type}, {b.type}) outs({target.name} : {target.type})")
        elif kind < 0.75:
            (a,) = self.like(target, 1)
            self.say(f"pto.{self.random.choice(_SCALAR)} ins({a.name}, %s{target.dtype} : {a.type}, {target.dtype}) outs({target.name} : {target.type})")
        else:
            (a,) = self.like(target, 1)
            self.say(f"pto.{self.random.choice(_UNARY)} ins({a.name} : {a.type}) outs({target.name} : {target.type})")

    def move(self) -> None:
        target = self.random.choice(self.tiles)
        others = [tile for tile in self.tiles if tile.shape == target.shape and tile.dtype == target.dtype and tile.valid == target.valid]
        source = self.random.choice(others)
        self.say(f"pto.tmov ins({source.name} : {source.type}) outs({target.name} : {target.type})")

    def reduce(self) -> None:
        source = self.random.choice(self.tiles)
        if source.valid[0] is None or source.valid[1] is None:
            return
        out = Tile(self.name(), source.dtype, (source.shape[0], 1), (source.valid[0], 1))
        kind = out.type.replace(">", ", blayout=col_major>")
        extra = ""
        if self.level3:
            address = self.name()
            self.say(f"{address} = arith.constant {self.random.choice((0, 512, 8192))} : i64")
            extra = f" addr = {address}"
        self.say(f"{out.name} = pto.alloc_tile{extra} : {kind}")
        self.say(f"pto.{self.random.choice(('trowmax', 'trowmin', 'trowsum'))} ins({source.name} : {source.type}) outs({out.name} : {kind})")
        sides = [(source.name, source.type), (out.name, kind)]
        if self.random.random() < 0.3:
            sides.reverse()
        names, types = (", ".join(side[place] for side in sides) for place in (0, 1))
        self.say(f"pto.{self.random.choice(('trowexpandmul', 'trowexpandsub'))} ins({names} : {types}) outs({source.name} : {source.type})")

    def choose(self) -> None:
        """A comparison and a selection by its mask, of tiles whose regions are known."""
        target = self.random.choice(self.tiles)
        if None in target.valid:
            return
        a, b, x, y = self.like(target, 4)
        mask = "!pto.tile_buf<vec, 16x32xui8>"
        name, extra = self.name(), ""
        if self.level3:
            address = self.name()
            self.say(f"{address} = arith.constant 16384 : i64")
            extra = f" addr = {address}"
        self.say(f"{name} = pto.alloc_tile{extra} : {mask}")
        mode = f"{{cmpMode = #pto<cmp {self.random.choice(('eq', 'ne', 'lt', 'le', 'gt', 'ge'))}>}}"
        if self.random.random() < 0.5:
            self.say(f"pto.tcmp ins({a.name}, {b.name} {mode} : {a.type}, {b.type}) outs({name} : {mask})")
        else:
            self.say(f"pto.tcmps ins({a.name}, %s{a.dtype} {mode} : {a.type}, {a.dtype}) outs({name} : {mask})")
        if self.random.random() < 0.5:
            self.say(f"pto.tsel ins({name}, {x.name}, {y.name}, {y.name} : {mask}, {x.type}, {y.type}, {y.type}) outs({target.name} : {target.type})")
        else:
            scalar = self.random.choice(("i32", target.dtype))
            self.say(f"pto.tsels ins({name}, {x.name}, {x.name}, %s{scalar} : {mask}, {x.type}, {x.type}, {scalar}) outs({target.name} : {target.type})")

    def add_halves(self) -> None:
        """Halves times a number, added up in single precision."""
        sources = [tile for tile in self.tiles if tile.dtype == "f16" and None not in tile.valid]
        targets = [tile for tile in self.tiles if tile.dtype == "f32" and any(tile.valid == source.valid for source in sources)]
        if targets:
            target = self.random.choice(targets)
            source = self.random.choice([tile for tile in sources if tile.valid == target.valid])
            self.say(f"pto.taxpy ins({source.name}, %sf16 : {source.type}, f16) outs({target.name} : {target.type})")

    def resize(self) -> None:
        chosen = [tile for tile in self.tiles if tile.changeable]
        if chosen:
            tile = self.random.choice(chosen)
            rows, cols = (self.random.choice(("%m", self.index(self.random.randint(1, 8)))) for _ in range(2))
            self.say(f"pto.set_validshape {tile.name}, {rows}, {cols} : {tile.type}")

    def window(self) -> None:
        parents = [tile for tile in self.tiles if tile.valid == tile.shape]
        if parents:
            parent = self.random.choice(parents)
            rows, cols = parent.shape[0] // 2, parent.shape[1] // 2
            made = Tile(self.name(), parent.dtype, (rows, cols), (rows, cols))
            row, col = self.index(self.random.randint(0, rows)), self.index(self.random.choice((0, cols)))
            self.say(f"{made.name} = pto.subset {parent.name}[{row}, {col}] sizes [{rows}, {cols}] : {parent.type}")
            scalar = f"%s{parent.dtype}"
            self.say(f"pto.tadds ins({made.name}, {scalar} : {made.type}, {parent.dtype}) outs({made.name} : {made.type})")

    def reshape(self) -> None:
        sources = [tile for tile in self.tiles if tile.valid == tile.shape]
        if sources:
            source = self.random.choice(sources)
            shape = (source.shape[0] * 2, source.shape[1] // 2)
            made = Tile(self.name(), source.dtype, shape, shape)
            self.say(f"{made.name} = pto.treshape {source.name} : {source.type} -> {made.type}")
            self.say(f"pto.tneg ins({made.name} : {made.type}) outs({made.name} : {made.type})")

    def fill_pad(self) -> None:
        sources = [tile for tile in self.tiles if tile.valid != tile.shape]
        if sources:
            source = self.random.choice(sources)
            made = Tile(self.name(), source.dtype, source.shape, source.shape)
            kind = made.type.replace(">", f", pad={self.random.choice((1, 3 if source.dtype == 'i32' else 2))}>")
            extra = ""
            if self.level3:
                address = self.name()
                self.say(f"{address} = arith.constant {self.random.choice((0, 2048, 10240))} : i64")
                extra = f" addr = {address}"
            self.say(f"{made.name} = pto.alloc_tile{extra} : {kind}")
            self.say(f"pto.tfillpad ins({source.name} : {source.type}) outs({made.name} : {kind})")
            self.store(Tile(made.name, made.dtype, made.shape, made.valid), kind)

    # control flow ---------------------------------------------------------------------------------------------------------

    def loop(self, depth: int) -> None:
        carried = [tile for tile in self.tiles if self.random.random() < 0.25]
        pairs = [(tile, self.random.choice([other for other in self.tiles if other.type == tile.type])) for tile in carried]
        lower, upper, step = self.index(0), self.random.choice(("%n", self.index(3))), self.index(1)
        iv = self.name()
        if pairs and not self.level3 and self.random.random() < 0.5:
            inner = [Tile(self.name(), tile.dtype, tile.shape, tile.valid, tile.changeable) for tile, _ in pairs]
            results = ", ".join(self.name() for _ in pairs)
            args = ", ".join(f"{a.name} = {tile.name}" for a, (tile, _) in zip(inner, pairs))
            types = ", ".join(tile.type for tile, _ in pairs)
            head = f"{results.split(', ')[0]}:{len(pairs)}" if len(pairs) > 1 else results
            self.say(f"{head} = scf.for {iv} = {lower} to {upper} step {step} iter_args({args}) -> ({types}) {{")
            body = [*self.tiles, *inner]
            turned = inner[1:] + inner[:1] if len({tile.type for tile in inner}) == 1 else inner
            self.body(depth, body, f"scf.yield {', '.join(tile.name for tile in turned)} : {types}")
            self.say("}")
            first = results.split(", ")[0]
            for number, (tile, _) in enumerate(pairs):
                self.tiles.append(Tile(f"{first}#{number}" if len(pairs) > 1 else first, tile.dtype, tile.shape, tile.valid, tile.changeable))
        else:
            self.say(f"scf.for {iv} = {lower} to {upper} step {step} {{")
            self.body(depth, list(self.tiles), "")
            self.say("}")

    def branch(self, depth: int) -> None:
        flag, two = self.name(), self.index(2)
        self.say(f"{flag} = arith.cmpi {self.random.choice(('slt', 'sge', 'eq'))}, %n, {two} : index")
        if self.random.random() < 0.4:
            one = self.random.choice(self.tiles)
            other = self.random.choice([tile for tile in self.tiles if tile.type == one.type])
            chosen = Tile(self.name(), one.dtype, one.shape, one.valid, one.changeable)
            self.say(f"{chosen.name} = scf.if {flag} -> ({one.type}) {{")
            self.body(depth, list(self.tiles), f"scf.yield {one.name} : {one.type}")
            self.say("} else {")
            self.body(depth, list(self.tiles), f"scf.yield {other.name} : {one.type}")
            self.say("}")
            self.tiles.append(chosen)
        else:
            self.say(f"scf.if {flag} {{")
            self.body(depth, list(self.tiles), "")
            self.say("}" if self.random.random() < 0.5 else "} else {")
            if self.lines[-1].endswith("{"):
                self.body(depth, list(self.tiles), "")
                self.say("}")

    def body(self, depth: int, tiles: list[Tile], last: str) -> None:
        outer, self.tiles = self.tiles, tiles
        self.indent += "  "
        self.statements(self.random.randint(1, 4), depth + 1)
        if last:
            self.say(last)
        self.indent = self.indent[:-2]
        self.tiles = outer

    def statements(self, count: int, depth: int) -> None:
        plain = [self.elementwise] * 6 + [self.move] * 2 + [self.resize, self.choose] * 2
        plain += [self.reduce, self.window, self.fill_pad, self.add_halves]
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.12 and depth < 2:
                self.loop(depth)
            elif kind < 0.24 and depth < 2:
                self.branch(depth)
            elif kind < 0.30:
                self.alloc(self.random.choice(self.dtypes))
            elif kind < 0.34 and depth == 0:
                self.reshape()
            else:
                self.random.choice(plain)()

    def store(self, tile: Tile, kind: str | None = None) -> None:
        """Every store has rows of the output of its own."""
        row, rows, cols, zero, one = (self.index(n) for n in (self.outputs * ROWS, tile.shape[0], tile.shape[1], 0, 1))
        self.outputs += self.indent == "    "
        total, width = self.index(64 * ROWS), self.index(COLS)
        view, part = self.name(), self.name()
        pointer = _POINTERS[tile.dtype][1]
        sizes = [str(size) if size is not None else "?" for size in tile.valid]
        if "?" in sizes:
            sizes = ["?", "?"]
        else:
            rows, cols = self.index(tile.valid[0] or 0), self.index(tile.valid[1] or 0)
        slice_type = f"!pto.partition_tensor_view<{'x'.join(sizes)}x{tile.dtype}>"
        whole = f"!pto.tensor_view<?x?x{tile.dtype}>"
        self.say(f"{view} = pto.make_tensor_view %{pointer}, shape = [{total}, {width}], strides = [{width}, {one}] : {whole}")
        self.say(f"{part} = pto.partition_view {view}, offsets = [{row}, {zero}], sizes = [{rows}, {cols}] : {whole} -> {slice_type}")
        self.say(f"pto.tstore ins({tile.name} : {kind or tile.type}) outs({part} : {slice_type})")


def kernel(seed: int) -> str:
    """The text of a random kernel."""
    source = random.Random(seed)
    level3 = seed % 3 == 2
    writer = Writer(source, level3, (source.choice(("f32", "i32", "f16")),) if level3 else Writer.dtypes)
    writer.say("%sf16 = arith.constant 5.000000e-01 : f16")
    for _ in range(source.randint(3, 6)):
        writer.alloc(source.choice(writer.dtypes))
    writer.statements(source.randint(6, 16), 0)
    for tile in writer.tiles:
        writer.store(tile)
    body = "\n".join(writer.lines)
    pointers = ", ".join(f"%{name}: !pto.ptr<{dtype}>" for dtype, names in _POINTERS.items() for name in names)
    parameters = f"{pointers}, %n: index, %m: index, %sf32: f32, %si32: i32"
    attributes = ' attributes {pto.target_arch = "a5"}' if seed % 2 else ""
    return f"module{attributes} {{\n  func.func @random({parameters}) {{\n{body}\n    return\n  }}\n}}\n"


def arguments(seed: int) -> list[NDArray | int | float]:
    rng = np.random.default_rng(seed)
    x = np.round(rng.standard_normal((2 * ROWS, 2 * COLS)) * 4).astype(np.float32) / 4
    x[rng.random(x.shape) < 0.02] = np.nan
    k = rng.integers(-50, 50, (2 * ROWS, 2 * COLS)).astype(np.int32)
    inputs = {np.float32: x, np.int32: k, np.float16: x.astype(np.float16)}
    arrays = [item for dtype, array in inputs.items() for item in (array, np.ones((64 * ROWS, COLS), dtype))]
    return [*arrays, int(rng.integers(0, 4)), int(rng.integers(1, 9)), 0.5, 3]


def check(seed: int) -> None:
    """Both ways give the same."""
    run_text(kernel(seed), *arguments(seed))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.kernels):
        try:
            check(seed)
        except BaseException:
            (HERE / "random_failure.pto").write_text(kernel(seed))
            print(f"kernel {seed} fails; it is in tests/pto/random_failure.pto")
            raise
    print(f"{options.kernels} random kernels agree")


if __name__ == "__main__":
    main()

"""Writes one function: lines of text, the values in scope, and the parameters that its body asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tests.fuzz.values import EPSILON, FLOATS, INTEGERS, LARGEST, NARROW, Dim, Val, integer_range, promoted, rounding, settled, too_vague
from tilejit import ops


@dataclass(frozen=True)
class Param:
    """A tensor or scalar parameter and the kind of data it gets."""

    name: str
    shape: tuple[Dim, ...]
    dtype: str
    style: str
    """"normal", "grid" (eighths), "positive", "wide" (whole integer type), "small", "config", "lengths", "index", "scalar", "narrow", "flags";
    in a helper "=name" for a buffer of the caller."""
    direction: str = "In"
    largest_length: int = 1

    def bounds(self) -> tuple[float, float]:
        if self.dtype in NARROW:
            return NARROW[self.dtype]
        if self.style == "wide":
            return integer_range(self.dtype)
        low, high = {
            "normal": (-3, 3),
            "grid": (-3, 3),
            "positive": (0.5, 2),
            "small": (-9, 9),
            "config": (0, 6),
            "scalar": (-2, 2),
            "lengths": (1, self.largest_length),
            "index": (0, self.largest_length),
            "flags": (0, 1),
        }[self.style]
        return (max(low, 0), high) if self.dtype.startswith("U") else (low, high)

    @property
    def is_dynamic(self) -> bool:
        return any(not isinstance(extent, int) for extent in self.shape)

    def as_value(self) -> Val:
        low, high = self.bounds()
        return Val(self.name, "buffer", self.dtype, low, high, 0.0, self.shape, self.shape)


@dataclass
class Names:
    """Fresh names, shared by all functions of a program."""

    count: int = 0

    def __call__(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"


@dataclass
class Writer:
    """The function under construction."""

    rng: random.Random
    fresh: Names
    level: str = "tile"
    rows: tuple[int, ...] = (4, 8)
    cols: tuple[int, ...] = (16, 33)
    dtypes: tuple[str, ...] = ("FP32", "INT32")
    depth: int = 0
    lines: list[str] = field(default_factory=list[str])
    params: list[Param] = field(default_factory=list[Param])
    env: dict[str, Val] = field(default_factory=dict[str, Val])
    scalars: dict[str, Val] = field(default_factory=dict[str, Val])
    buffers: dict[str, Val] = field(default_factory=dict[str, Val])
    memory: dict[str, Val] = field(default_factory=dict[str, Val])
    """Tensors that this function writes and reads again."""
    frozen: set[str] = field(default_factory=set[str])
    """Names that the current block must not rebind."""
    symbol: str | None = None
    """The dynamic extent that row counts of this function's tensors may have."""
    region: bool = False
    """Whether what is written runs on the execution plane."""
    side: str = ""
    """"aic" or "aiv" for the two sides of a FIFO."""
    body: Callable[[Writer, int, int], None] = lambda *_: None
    """Writes a number of statements at a depth (the statements that contain others need it)."""
    theme: int | None = None
    """Which entry of the menu this program prefers."""
    block: tuple[str, int] | None = None
    """The block index and the number of blocks, inside spmd and parallel loops."""
    loop_vars: dict[str, int] = field(default_factory=dict[str, int])
    """Induction variables that count from 0 with step 1, and how far."""
    stable: set[str] = field(default_factory=set[str])
    """Carried names that an inner loop may carry on."""
    unused: set[str] = field(default_factory=set[str])
    """Names that no operation took yet: they go first, so that little of a program is dead."""
    errors: dict[str, float] = field(default_factory=dict[str, float])
    """Per output: how far two correct backends may differ."""

    # text ---------------------------------------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def nested(self, header: str) -> Generator[None]:
        """A block of statements; names bound in it end with it."""
        self.emit(header)
        saved = (dict(self.env), dict(self.scalars), set(self.frozen), dict(self.loop_vars), set(self.stable), self.region)
        self.region |= "pl.at(level=pl.Level.CORE_GROUP" in header or "pl.spmd(" in header
        self.depth += 1
        before = len(self.lines)
        yield
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.emit("pass")
        self.depth -= 1
        self.env, self.scalars, self.frozen, self.loop_vars, self.stable, self.region = saved

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # values -------------------------------------------------------------------------------------------------------------

    def bind(self, value: Val, name: str | None = None) -> Val:
        """Give an expression a name."""
        prefix = "s" if value.level == "scalar" else "t" if value.level == "tile" else "v"
        name = name or self.fresh(prefix)
        note = ""
        if value.level == "tile" and value.full and self.chance(0.1):
            slot = ""
            if self.loop_vars and self.chance(0.5):  # one of several buffers, which only the run knows
                count = self.rng.randint(2, 3)
                slot = f', pl.MemRef("{self.fresh("ring")}", slots={count})[{self.rng.choice(list(self.loop_vars))} % {count}]'
            note = f": pl.Tile[[{', '.join(map(str, value.shape))}], pl.{value.dtype}{slot}]"
        text = respelled(value.text, value.level) if value.level in ("tile", "tensor") and self.chance(0.2) else value.text
        self.emit(f"{name}{note} = {text}")
        bound = value.named(name)
        self.hold(name, bound)
        return bound

    def hold(self, name: str, value: Val) -> None:
        """`name` stands for `value` from here on; the latest come last."""
        table = self.scalars if value.level == "scalar" else self.env
        table.pop(name, None)
        table[name] = value.named(name)
        self.unused.add(name)

    def pick(self, accept: Callable[[Val], bool] = lambda _: True) -> Val | None:
        """A random array in scope that fits, recent ones first."""
        fitting = [value for value in self.env.values() if (value.level == "tile") == (self.level == "tile") and accept(value)]
        if not fitting:
            return None
        unused = [value for value in fitting if value.text in self.unused]
        chosen = self.rng.choice(unused if unused and self.chance(0.6) else fitting[-3:] if self.chance(0.5) else fitting)
        self.unused.discard(chosen.text)
        return chosen

    def partner(self, value: Val) -> Val | None:
        """An array with the same shape and dtype."""
        fits = [v for v in self.env.values() if (v.level == "tile") == (self.level == "tile") and (v.shape, v.dtype) == (value.shape, value.dtype)]
        others = [v for v in fits if v.text != value.text]
        chosen = self.rng.choice(others if others and self.chance(0.8) else fits) if fits else None
        if chosen is not None:
            self.unused.discard(chosen.text)
        return chosen

    def tamed(self, value: Val) -> Val | None:
        """`value` scaled or clamped into the range in which everything else works; None when it says too little."""
        value = settled(value)
        if value.is_float and value.magnitude > LARGEST:
            if value.magnitude < 4096 and self.chance(0.5):
                factor = 0.25 if value.magnitude < 64 else 1 / 512
                value = self.with_scalar("mul", value, factor)
            if value.magnitude > LARGEST:
                value = self.clamped(value, 4.0)
        return None if too_vague(value) else value

    def clamped(self, value: Val, limit: float) -> Val:
        return self.with_scalar("minimum", self.with_scalar("maximum", value, -limit), limit)

    def with_scalar(self, op: str, value: Val, scalar: float | int | Val) -> Val:
        """`value op scalar` in one of its spellings, with the level's rule for the result type."""
        number = scalar if isinstance(scalar, Val) else None
        low, high = (number.lo, number.hi) if number else (float(scalar), float(scalar))  # type: ignore[arg-type]
        text = number.text if number else repr(scalar)
        dtype = value.dtype
        if op == "sub" and dtype not in ("INT8", "INT16", "INT32", "FP16", "FP32", "FP64", "BF16"):
            op = "add"
        if value.level != "tile":
            scalar_dtype = number.dtype if number else ("FP32" if isinstance(scalar, float) else dtype)
            dtype = promoted(dtype, scalar_dtype) if op != "sub" else dtype
        elif not value.is_float:
            low, high = float(int(low)), float(int(high))
        err = value.err + (number.err if number else 0.0)
        ends = {
            "add": (value.lo + low, value.hi + high),
            "sub": (value.lo - high, value.hi - low),
            "mul": _product((value.lo, value.hi), (low, high)),
            "maximum": (max(value.lo, low), max(value.hi, high)),
            "minimum": (min(value.lo, low), min(value.hi, high)),
        }[op]
        symbol = {"add": "+", "sub": "-", "mul": "*"}.get(op)
        rounds = dtype in EPSILON and symbol is not None
        if op == "mul":
            err = value.err * max(abs(low), abs(high)) + (number.err * value.magnitude if number else 0.0)
        if rounds and (err > 0 or op == "mul" or value.product or dtype != value.dtype):
            err += rounding(dtype, max(abs(ends[0]), abs(ends[1])))
        spelled = f"({value.text} {symbol} {text})" if symbol and self.chance(0.4) else f"pl.{op}({value.text}, {text})"
        level = "tile" if value.level == "tile" else "tensor"
        return settled(Val(spelled, level, dtype, *ends, err, value.shape, value.valid, product=rounds and op == "mul"))

    # parameters and buffers ---------------------------------------------------------------------------------------------

    def scratch(self, like: Val) -> str:
        """A scratch tile of a value's shape and dtype."""
        name = self.fresh("tmp")
        self.emit(f"{name} = pl.create_tile([{', '.join(map(str, like.shape))}], dtype=pl.{like.dtype})")
        return name

    def style_for(self, dtype: str) -> str:
        if dtype in NARROW:
            return "narrow"
        if dtype in EPSILON:
            return self.rng.choice(("normal", "normal", "grid", "positive"))
        return self.rng.choice(("small", "small", "wide"))

    def new_param(self, prefix: str, shape: tuple[Dim, ...], dtype: str, style: str, direction: str = "In", largest_length: int = 1) -> Param:
        param = Param(self.fresh(prefix), shape, dtype, style, direction, largest_length)
        self.params.append(param)
        return param

    def input(self, shape: tuple[Dim, ...], dtype: str) -> Val:
        """A tensor with at least the given extents: one that is there, or a new parameter."""
        fitting = [
            b
            for b in self.buffers.values()
            if b.dtype == dtype and len(b.shape) == len(shape) and all(a == b or _larger(a, b) for a, b in zip(b.shape, shape, strict=True))
        ]
        if fitting and self.chance(0.6):
            return self.rng.choice(fitting)
        grown = tuple(d + self.rng.choice((0, 0, 3)) if isinstance(d, int) and len(shape) > 1 and self.level == "tile" else d for d in shape)
        value = self.new_param("x", grown, dtype, self.style_for(dtype)).as_value()
        self.buffers[value.text] = value
        return value

    def config(self) -> str:
        """The small integer tensor that decides branches and trip counts."""
        for param in self.params:
            if param.style == "config":
                return param.name
        return self.new_param("cfg", (8,), "INT32", "config").name

    def lengths(self, largest: int) -> str:
        """A tensor of run-time extents between 1 and `largest`."""
        for param in self.params:
            if param.style == "lengths" and param.largest_length == largest and param.shape == (4,):
                return param.name
        return self.new_param("len", (4,), "INT32", "lengths", largest_length=largest).name

    def output(self, shape: tuple[Dim, ...], dtype: str) -> Param:
        return self.new_param("out", shape, dtype, self.style_for(dtype), "Out")

    def note_error(self, output: str, err: float) -> None:
        self.errors[output] = max(self.errors.get(output, 0.0), err)

    def choose_dtype(self, wanted: tuple[str, ...] = FLOATS + INTEGERS) -> str:
        fitting = [d for d in self.dtypes if d in wanted]
        return self.rng.choice(fitting or list(wanted))

    def shaped_like(self, value: Val, text: str, dtype: str | None = None, **facts: object) -> Val:
        return replace(value, text=text, level="tile" if value.level == "tile" else "tensor", dtype=dtype or value.dtype, product=False, gaps=False, **facts)  # type: ignore[arg-type]


RESPELLED = re.compile(
    r"\bpl\.(exp|log|sqrt|recip|tanh|sigmoid|softplus|erf|sin|cos|neg|relu|add|sub|mul|maximum|minimum|div|fmod|fmods|and_|or_|ands|ors|shls|shrs|not_|floor|ceil|round"
    r"|pow|where|isnan|part_\w+|row_\w+|col_\w+|transpose|concat|expands|matmul_acc|fillpad_expand|set_validshape|reinterpret_view)\("
)
"""Names that mean the same op in `pl` and in the namespace of the operands' level."""


def respelled(text: str, level: str) -> str:
    """An expression with its ops in the namespace of their level: `pl.tile.exp(x)`."""
    return RESPELLED.sub(lambda found: f"pl.{level}.{found[1]}(" if ops.public(level, found[1]) is not None else found[0], text)


def _larger(a: Dim, b: Dim) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a > b


def _product(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    corners = [a * b for a in first for b in second]
    return min(corners), max(corners)

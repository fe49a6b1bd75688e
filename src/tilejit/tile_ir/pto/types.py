"""The types of the pto dialect; their text is read from the raw body, so that every mistake is shown at its own column."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tilejit.errors import did_you_mean
from tilejit.tile_ir.pto.elements import ELEMENTS, Element, element_named

Dim = int | None
"""An extent: a number, or None where the text says `?`."""

LOCATIONS = ("vec", "mat", "left", "right", "acc", "bias", "scaling")
BLAYOUTS = ("row_major", "col_major")
SLAYOUTS = ("none_box", "row_major", "col_major")
FRACTALS = (16, 32, 512, 1024)
PADS = ("null", "zero", "max", "min")
COMPACTS = ("null", "normal", "row_plus_one")
SPACES = ("gm", "vec", "mat", "left", "right", "acc", "bias", "scaling", "zero", "ub")
MAX_RANK = 5
MAX_EXTENT = 1 << 40


@dataclass(frozen=True, slots=True)
class TileSpec:
    """Everything a tile_buf type says."""

    loc: str
    element: Element
    rows: int
    cols: int
    valid: tuple[Dim, Dim]
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0

    @property
    def boxed(self) -> bool:
        return self.slayout != "none_box"

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows, self.cols)

    @property
    def bytes(self) -> int:
        return self.rows * self.cols * self.element.bytes

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of the inner box of a boxed layout."""
        if self.fractal == 1024:
            return (16, 16)
        if self.fractal == 32:
            return (16, 2) if self.slayout == "row_major" else (2, 16)
        wide = 32 // self.element.bytes
        return (16, wide) if self.slayout == "row_major" else (wide, 16)

    def text(self, long: bool = False) -> str:
        """The body between the angle brackets: canonical compact form, or the long form."""
        shown = ["?" if dim is None else str(dim) for dim in self.valid]
        if long:
            keys: list[tuple[str, object]] = [
                ("loc", self.loc), ("dtype", self.element.text), ("rows", self.rows), ("cols", self.cols), ("v_row", shown[0]), ("v_col", shown[1]),
                ("blayout", self.blayout), ("slayout", self.slayout), ("fractal", self.fractal), ("pad", self.pad),
            ]  # fmt: skip
            keys += [("compact", self.compact)] if self.compact else []
            return ", ".join(f"{key}={value}" for key, value in keys)
        out = [self.loc, f"{self.rows}x{self.cols}x{self.element.text}"]
        if self.valid != self.shape:
            out.append(f"valid={shown[0]}x{shown[1]}")
        defaults: dict[str, object] = {"blayout": "row_major", "slayout": "none_box", "fractal": 512, "pad": 0, "compact": 0}
        out += [f"{key}={getattr(self, key)}" for key, default in defaults.items() if getattr(self, key) != default]
        return ", ".join(out)


@dataclass(frozen=True, slots=True)
class PtrSpec:
    """A pointer: what it points to, and in which memory."""

    element: Element
    space: str = "gm"


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """Extents and element type of a tensor view or a slice of one."""

    shape: tuple[Dim, ...]
    element: Element

    def __str__(self) -> str:
        return "".join(f"{'?' if dim is None else dim}x" for dim in self.shape) + self.element.text


# reading a type body --------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"""\s*(?:(?P<word>"[^"\n]*"|[\w.!?+-]+)|(?P<mark>[=,<>]))""")


class Body:
    """The raw text between the angle brackets of a type, cut into words and marks with their positions."""

    def __init__(self, parser: AttrParser) -> None:
        self.parser = parser
        content = parser.lexer.input.content
        if parser._current_token.text != "<":
            parser.raise_error("expected `<` and the body of the type")
        self.start = parser._current_token.span.end
        self.end = _closing(content, self.start)
        if self.end < 0:
            parser.raise_error("this `<` is never closed", self.start - 1, self.start)
        self.text = content[self.start : self.end]
        self.tokens: list[tuple[str, int, int]] = []
        position = 0
        while self.text[position:].strip():
            match = _TOKEN.match(self.text, position)
            if match is None:
                at = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                self.fail(f"unexpected character {self.text[at]!r} in a type", (self.text[at], at, at + 1))
            group = match.lastgroup or "mark"
            self.tokens.append((match.group(group), match.start(group), match.end(group)))
            position = match.end()
        self.next = 0

    def fail(self, message: str, token: tuple[str, int, int] | None = None) -> NoReturn:
        if token is None:
            token = self.tokens[self.next] if self.next < len(self.tokens) else ("", len(self.text), len(self.text) + 1)
        self.parser.raise_error(message, self.start + token[1], self.start + token[2])

    def done(self) -> bool:
        return self.next >= len(self.tokens)

    def take(self, what: str) -> tuple[str, int, int]:
        """The next token; `what` was expected."""
        if self.done():
            self.fail(f"expected {what}, the type ends here")
        self.next += 1
        return self.tokens[self.next - 1]

    def mark(self, mark: str, what: str) -> None:
        token = self.take(f"`{mark}` {what}")
        if token[0] != mark:
            self.fail(f"expected `{mark}` {what}, got `{token[0]}`", token)

    def leave(self) -> None:
        """Go on behind the closing bracket."""
        if not self.done():
            self.fail(f"unexpected `{self.tokens[self.next][0]}` at the end of the type")
        self.parser.lexer.pos = self.end + 1
        self.parser._parser_state.current_token = self.parser.lexer.lex()


def _closing(content: str, start: int) -> int:
    depth, position = 0, start
    for match in re.compile(r"[<>\n]|//").finditer(content, start):
        position = match.start()
        if match.group() == "<":
            depth += 1
        elif match.group() == ">":
            if depth == 0:
                return position
            depth -= 1
        elif match.group() == "//":
            return -1
    return -1


def _element(body: Body, token: tuple[str, int, int]) -> Element:
    found = element_named(token[0])
    if found is None:
        hint = did_you_mean(token[0], [element.text for element in ELEMENTS.values()])
        body.fail(f"unknown element type `{token[0]}`" + (f": {hint}" if hint else ""), token)
    return found


def _dims(body: Body, token: tuple[str, int, int]) -> tuple[tuple[Dim, ...], Element]:
    """`16x?xf32` → extents and element."""
    text, start, _ = token
    shape: list[Dim] = []
    while (match := re.match(r"(\?|[+-]?\d+)x", text)) is not None:
        shape.append(_extent(body, match.group(1), (match.group(1), start, start + match.end(1))))
        text, start = text[match.end() :], start + match.end()
    return tuple(shape), _element(body, (text, start, start + max(1, len(text))))


def _extent(body: Body, text: str, token: tuple[str, int, int]) -> Dim:
    if text == "?":
        return None
    if not re.fullmatch(r"[+-]?\d+", text):
        body.fail(f"expected a number or `?`, got `{text}`", token)
    if len(text) > 15 or int(text) > MAX_EXTENT:
        body.fail(f"the extent {text[:15]} is too large", token)
    if int(text) < 0:
        body.fail(f"an extent cannot be negative, got {text}", token)
    return int(text)


def _choice(body: Body, key: str, token: tuple[str, int, int], choices: tuple[str, ...]) -> str:
    value = token[0].strip('"')
    if value not in choices:
        body.fail(f"unknown {key} `{value}`: it is one of {', '.join(choices)}", token)
    return value


def _numbered(body: Body, key: str, token: tuple[str, int, int], names: tuple[str, ...]) -> int:
    value = token[0].strip('"')
    if value in names:
        return names.index(value)
    if value.isascii() and value.isdigit() and len(value) < 4 and int(value) < len(names):
        return int(value)
    body.fail(f"unknown {key} `{value}`: it is {', '.join(f'{i} ({name})' for i, name in enumerate(names))}", token)


def _valid_dim(body: Body, token: tuple[str, int, int]) -> Dim:
    if token[0] == "-1":
        return None
    if re.fullmatch(r"-\d+", token[0]):
        body.fail(f"a valid extent is at least 0, or -1 or `?` where only the run knows it; got {token[0]}", token)
    return _extent(body, token[0], token)


def _fractal(body: Body, token: tuple[str, int, int]) -> int:
    value = token[0].strip('"')
    if value not in {str(size) for size in FRACTALS}:
        body.fail(f"unsupported fractal size `{value}`: it is one of {', '.join(map(str, FRACTALS))}", token)
    return int(value)


_LONG = ("loc", "dtype", "rows", "cols", "v_row", "v_col", "blayout", "slayout", "fractal", "pad", "compact")
_COMPACT = ("valid", "blayout", "slayout", "fractal", "pad", "compact")


def _tile_long(body: Body) -> TileSpec:
    found: dict[str, tuple[str, int, int]] = {}
    for position, key in enumerate(_LONG):
        if body.done() and key == "compact":
            break
        if position:
            body.mark(",", f"before `{key}`")
        token = body.take(f"the key `{key}`")
        if token[0] != key:
            if token[0] in found:
                body.fail(f"the key `{token[0]}` is given twice", token)
            if token[0] not in _LONG:
                body.fail(f"unknown key `{token[0]}` in a tile type: expected `{key}`", token)
            body.fail(f"expected the key `{key}` here, got `{token[0]}`: the long form has a fixed order", token)
        body.mark("=", f"after `{key}`")
        found[key] = body.take(f"a value of `{key}`")
    sizes = [_extent(body, found[key][0], found[key]) for key in ("rows", "cols")]
    for key, size in zip(("rows", "cols"), sizes):
        if size is None:
            body.fail(f"`{key}` of a tile is a number, got `?`", found[key])
    rows, cols = sizes
    assert rows is not None and cols is not None
    spec = TileSpec(_choice(body, "loc", found["loc"], LOCATIONS), _element(body, found["dtype"]), rows, cols, (0, 0))
    return _options(body, spec, {**found, "valid": None})


def _tile_compact(body: Body) -> TileSpec:
    loc = _choice(body, "loc", body.take("the memory of the tile"), LOCATIONS)
    body.mark(",", "after the memory")
    token = body.take("the shape of the tile")
    shape, element = _dims(body, token)
    if len(shape) != 2:
        body.fail(f"a tile has 2 dims, got {len(shape)}", token)
    rows, cols = shape
    if rows is None or cols is None:
        body.fail("the shape of a tile is static; write `valid=` for what only the run knows", token)
    found: dict[str, tuple[str, int, int] | None] = {}
    while not body.done():
        body.mark(",", "between the keys")
        key = body.take("a key")
        if key[0] not in _COMPACT:
            body.fail(f"unknown key `{key[0]}` in a tile type: it is one of {', '.join(_COMPACT)}", key)
        if key[0] in found:
            body.fail(f"the key `{key[0]}` is given twice", key)
        body.mark("=", f"after `{key[0]}`")
        found[key[0]] = body.take(f"a value of `{key[0]}`")
    return _options(body, TileSpec(loc, element, rows, cols, (rows, cols)), found)


def _options(body: Body, spec: TileSpec, found: dict[str, tuple[str, int, int] | None]) -> TileSpec:
    valid: tuple[Dim, Dim] = spec.valid
    token = found.get("valid")
    row, col = found.get("v_row"), found.get("v_col")
    if token is not None:
        match = re.fullmatch(r"(\?|-?\d+)x(\?|-?\d+)", token[0])
        if match is None:
            body.fail(f"expected two valid extents like 8x?, got `{token[0]}`", token)
        parts = [(match.group(i), token[1] + match.start(i), token[1] + match.end(i)) for i in (1, 2)]
        valid = (_valid_dim(body, parts[0]), _valid_dim(body, parts[1]))
    elif row is not None and col is not None:
        valid = (_valid_dim(body, row), _valid_dim(body, col))
    chosen: dict[str, object] = {"valid": valid}
    for key, read in (("blayout", BLAYOUTS), ("slayout", SLAYOUTS)):
        if (token := found.get(key)) is not None:
            chosen[key] = _choice(body, key, token, read)
    if (token := found.get("fractal")) is not None:
        chosen["fractal"] = _fractal(body, token)
    for key, names in (("pad", PADS), ("compact", COMPACTS)):
        if (token := found.get(key)) is not None:
            chosen[key] = _numbered(body, key, token, names)
    return replace(spec, **chosen)  # type: ignore[arg-type]


# the types ------------------------------------------------------------------------------------------------------------

_tile_cache: dict[tuple[str, str], TileSpec] = {}


@irdl_attr_definition
class TileBufType(Data[TileSpec], TypeAttribute):
    """A tile in one of the local memories."""

    name = "pto.tile_buf"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileSpec:
        arch = getattr(parser, "arch", "a3")
        token = parser._current_token
        content = parser.lexer.input.content
        end = content.find(">", token.span.end)
        known = _tile_cache.get((arch, content[token.span.end : end])) if token.text == "<" else None
        if known is not None:
            parser.lexer.pos = end + 1
            parser._parser_state.current_token = parser.lexer.lex()
            return known
        body = Body(parser)
        spec = _tile_long(body) if body.tokens[:1] and body.tokens[0][0] == "loc" else _tile_compact(body)
        body.leave()
        if spec.loc == "left":
            # Which way the blocks of left tiles run is a fact of the machine, whatever the text says.
            spec = replace(spec, blayout="col_major" if arch == "a5" else "row_major")
        if len(_tile_cache) > 4096:
            _tile_cache.clear()
        _tile_cache[arch, body.text] = spec
        return spec

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text(bool(getattr(printer, 'long_tiles', False)))}>")


@irdl_attr_definition
class PtrType(Data[PtrSpec], TypeAttribute):
    """A pointer to elements; without a space it points into global memory."""

    name = "pto.ptr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> PtrSpec:
        body = Body(parser)
        element = _element(body, body.take("an element type"))
        space = "gm"
        if not body.done():
            body.mark(",", "before the memory space")
            token = body.take("a memory space")
            name = (token[0].lower(), *token[1:])
            space = _choice(body, "memory space", name, SPACES)
        body.leave()
        return PtrSpec(element, space)

    def print_parameter(self, printer: Printer) -> None:
        space = "" if self.data.space == "gm" else f", {self.data.space}"
        printer.print_string(f"<{self.data.element.text}{space}>")


class _ViewType(Data[ViewSpec]):
    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ViewSpec:
        body = Body(parser)
        token = body.take("extents and an element type")
        shape, element = _dims(body, token)
        if not 1 <= len(shape) <= MAX_RANK:
            body.fail(f"a view has 1 to {MAX_RANK} dims, got {len(shape)}", token)
        body.leave()
        return ViewSpec(shape, element)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class TensorViewType(_ViewType, TypeAttribute):
    """A strided tensor in global memory."""

    name = "pto.tensor_view"


@irdl_attr_definition
class PartitionViewType(_ViewType, TypeAttribute):
    """A rectangular slice of a tensor view."""

    name = "pto.partition_tensor_view"


@irdl_attr_definition
class ValueTileType(_ViewType, TypeAttribute):
    """A tile as a value (registered; no op takes it)."""

    name = "pto.tile"


@irdl_attr_definition
class EventArrayType(Data[int], TypeAttribute):
    """A local array of event ids."""

    name = "pto.eventid_array"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        body = Body(parser)
        token = body.take("a size")
        size = _extent(body, token[0], token)
        if not size or size > 4096:
            body.fail("the size of an array of event ids is between 1 and 4096", token)
        body.leave()
        return size

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class _OpaqueType(Data[str]):
    """A type whose body this reader keeps as text."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        if parser._current_token.text != "<":
            return ""
        body = Body(parser)
        body.next = len(body.tokens)
        body.leave()
        return " ".join(body.text.split())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>" if self.data else "")


def _opaque(name: str) -> type[Attribute]:
    made = type(f"{name.title().replace('_', '')}Type", (_OpaqueType, TypeAttribute), {"name": f"pto.{name}", "__doc__": f"!pto.{name}"})
    return irdl_attr_definition(made)


OPAQUE_NAMES = (
    "pipe", "async_session", "async_event", "multi_tile_buf", "local_array", "struct", "vreg", "mask", *(e.name for e in ELEMENTS.values() if e.extended),
)  # fmt: skip
OPAQUE: dict[str, type[Attribute]] = {name: _opaque(name) for name in OPAQUE_NAMES}

TYPES: list[type[Attribute]] = [TileBufType, PtrType, TensorViewType, PartitionViewType, ValueTileType, EventArrayType, *OPAQUE.values()]


def tile_of(value: SSAValue | None) -> TileSpec | None:
    """What the tile type of a value says, or None when it is no tile."""
    return value.type.data if value is not None and isinstance(value.type, TileBufType) else None


def canonical(type: Attribute) -> str:
    """The text by which two signatures are compared: pointers spell their space."""
    if isinstance(type, PtrType):
        return f"!pto.ptr<{type.data.element.text}, {type.data.space}>"
    return str(type)

"""Reading the body of a type: words and marks with their positions, so that every mistake is shown at its own column."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from xdsl.parser import AttrParser

from tilejit.errors import did_you_mean
from tilejit.tile_ir.pto.elements import ELEMENTS, Element, element_named
from tilejit.tile_ir.pto.specs import BLAYOUTS, COMPACTS, FRACTALS, LOCATIONS, MAX_EXTENT, PADS, SLAYOUTS, Dim, TileSpec

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


def read_element(body: Body, token: tuple[str, int, int]) -> Element:
    found = element_named(token[0])
    if found is None:
        hint = did_you_mean(token[0], [element.text for element in ELEMENTS.values()])
        body.fail(f"unknown element type `{token[0]}`" + (f": {hint}" if hint else ""), token)
    return found


def read_dims(body: Body, token: tuple[str, int, int]) -> tuple[tuple[Dim, ...], Element]:
    """`16x?xf32` → extents and element."""
    text, start, _ = token
    shape: list[Dim] = []
    while (match := re.match(r"(\?|[+-]?\d+)x", text)) is not None:
        shape.append(read_extent(body, match.group(1), (match.group(1), start, start + match.end(1))))
        text, start = text[match.end() :], start + match.end()
    return tuple(shape), read_element(body, (text, start, start + max(1, len(text))))


def read_extent(body: Body, text: str, token: tuple[str, int, int]) -> Dim:
    if text == "?":
        return None
    if not re.fullmatch(r"[+-]?\d+", text):
        body.fail(f"expected a number or `?`, got `{text}`", token)
    if len(text) > 15 or int(text) > MAX_EXTENT:
        body.fail(f"the extent {text[:15]} is too large", token)
    if int(text) < 0:
        body.fail(f"an extent cannot be negative, got {text}", token)
    return int(text)


def read_choice(body: Body, key: str, token: tuple[str, int, int], choices: tuple[str, ...]) -> str:
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
    return read_extent(body, token[0], token)


def _fractal(body: Body, token: tuple[str, int, int]) -> int:
    value = token[0].strip('"')
    if value not in {str(size) for size in FRACTALS}:
        body.fail(f"unsupported fractal size `{value}`: it is one of {', '.join(map(str, FRACTALS))}", token)
    return int(value)


_LONG = ("loc", "dtype", "rows", "cols", "v_row", "v_col", "blayout", "slayout", "fractal", "pad", "compact")
_COMPACT = ("valid", "blayout", "slayout", "fractal", "pad", "compact")


def read_tile_long(body: Body) -> TileSpec:
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
    sizes = [read_extent(body, found[key][0], found[key]) for key in ("rows", "cols")]
    for key, size in zip(("rows", "cols"), sizes):
        if size is None:
            body.fail(f"`{key}` of a tile is a number, got `?`", found[key])
    rows, cols = sizes
    assert rows is not None and cols is not None
    spec = TileSpec(read_choice(body, "loc", found["loc"], LOCATIONS), read_element(body, found["dtype"]), rows, cols, (0, 0))
    return _options(body, spec, {**found, "valid": None})


def read_tile_compact(body: Body) -> TileSpec:
    loc = read_choice(body, "loc", body.take("the memory of the tile"), LOCATIONS)
    body.mark(",", "after the memory")
    token = body.take("the shape of the tile")
    shape, element = read_dims(body, token)
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
            chosen[key] = read_choice(body, key, token, read)
    if (token := found.get("fractal")) is not None:
        chosen["fractal"] = _fractal(body, token)
    for key, names in (("pad", PADS), ("compact", COMPACTS)):
        if (token := found.get(key)) is not None:
            chosen[key] = _numbered(body, key, token, names)
    return replace(spec, **chosen)  # type: ignore[arg-type]

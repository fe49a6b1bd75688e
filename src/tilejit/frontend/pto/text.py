"""PTO text → module: xDSL's parser with the pto dialect, and every mistake as an error of ours at its place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, DenseArrayBase, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.ir import Operation, Region, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tilejit.errors import PtoSyntaxError, SourceText, did_you_mean
from tilejit.frontend.pto.decode import decoded
from tilejit.tile_ir.pto.dialect import OPS, dialect
from tilejit.tile_ir.pto.format import with_block
from tilejit.tile_ir.pto.module import PtoFile, arch_family, span_at, written_arch
from tilejit.tile_ir.pto.op import SEGMENTS, PtoOp
from tilejit.tile_ir.pto.structure import header_problem, reason
from tilejit.tile_ir.pto.types import vmi_type

_MAX_NESTING = 100
_KNOWN_DIALECTS = ("pto", "func", "arith", "scf", "builtin", "memref")


class _PtoContext(Context):
    """Knows the dialects of PTO files, and the open family of `!pto.vmi.*` types."""

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        return vmi_type(name) if name.startswith("pto.vmi.") else super().get_optional_type(name)


@cache
def _context() -> Context:
    context = _PtoContext()
    for part in (Builtin, Func, Arith, Scf, MemRef):
        context.load_dialect(part)
    context.load_dialect(dialect())
    return context


class PtoParser(Parser):
    """xDSL's parser, which also remembers where every op stands and names what it does not know."""

    def __init__(self, text: str, filename: str, arch: str) -> None:
        self.arch = arch
        self.places: dict[Operation, tuple[int, int]] = {}
        self._depth = 0
        self._empty_body = -1
        super().__init__(_context(), text, filename)

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        self._depth += 1
        if self._depth > _MAX_NESTING:
            self.raise_error(f"regions are nested more than {_MAX_NESTING} deep")
        op = super().parse_operation()
        self._depth -= 1
        content = self.lexer.input.content
        if isinstance(op, FuncOp) and not op.body.blocks and self._empty_body >= start and content[start] != '"':
            self.raise_error(f"the body of @{op.sym_name.data} is empty: it ends with `return`", self._empty_body, self._empty_body + 1)
        self.places[op] = (start, len(content[: self._current_token.span.start].rstrip()))
        return op

    def parse_optional_region(self, arguments: Iterable[Parser.Argument] | None = None) -> Region | None:
        at = self._current_token.span.start
        region = super().parse_optional_region(arguments)
        if region is not None and not region.blocks:
            self._empty_body = at
        return region

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is not None:
            return found
        at = max(self.lexer.input.content.rfind(name, 0, self._current_token.span.start), 0)
        if name.startswith("pto."):
            hint = did_you_mean(name[4:], OPS)
            message = f"there is no op `{name}`" + (f": {hint}" if hint else "")
        elif "." in name and name.split(".")[0] not in _KNOWN_DIALECTS:
            message = f"`{name}` is unsupported: of other dialects only {', '.join(_KNOWN_DIALECTS[1:])} are read"
        else:
            message = f"`{name}` is no op" if "." not in name else f"the op `{name}` is unsupported"
        self.raise_error(message, at, at + len(name))

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        at = self._current_token.span.start
        op = super()._parse_generic_operation(op_type)
        if isinstance(op, PtoOp | ModuleOp):
            for region in op.regions:
                with_block(region)
        if isinstance(op, PtoOp):
            self._settle(op, at)
        complaint = header_problem(op)
        if complaint is not None:
            name = max(self.lexer.input.content.rfind(op.name, 0, at), 0)
            self.raise_error(complaint, name, name + len(op.name))
        return op

    def _settle(self, op: PtoOp, at: int) -> None:
        """The generic form as the custom form would have made it: attributes in one place, segments where they are needed."""
        segments = op.properties.pop(SEGMENTS, None) or op.attributes.pop(SEGMENTS, None)
        op.attributes.update(op.properties)
        op.properties.clear()
        slots = op.row.slots
        sizes = [1] * len(slots)
        if op.row.segmented:
            if not isinstance(segments, DenseArrayBase):
                self.raise_error(f"{op.name} needs operandSegmentSizes: {len(slots)} numbers for {', '.join(slot.name for slot in slots)}", at, at + 1)
            sizes = [int(size) for size in segments.get_values()]
            op.properties[SEGMENTS] = segments
        fits = len(sizes) == len(slots) and sum(sizes) == len(op.operands) and all(
            size >= 0 if slot.variadic else size in (0, 1) if slot.optional else size == 1 for slot, size in zip(slots, sizes)
        )  # fmt: skip
        if not fits:
            self.raise_error(f"the operands of {op.name} are {', '.join(slot.name for slot in slots)}; got {len(op.operands)} in groups of {sizes}", at, at + 1)
        wanted = 0 if op.row.result in (None, "type?") else 1
        if len(op.results) != wanted and op.row.result != "type?":
            self.raise_error(f"{op.name} has {wanted} result{'s' * (wanted != 1)}, got {len(op.results)}", at, at + 1)
        if len(op.regions) != (op.row.format == "region"):
            self.raise_error(f"{op.name} has {int(op.row.format == 'region')} regions, got {len(op.regions)}", at, at + 1)


def parse_pto(text: str | bytes, filename: str = "<string>", arch: str | None = None) -> PtoFile:
    """The module in `text`. `arch` overrides what the file says about its architecture."""
    text = decoded(text, filename)
    source = SourceText(filename, tuple(text.split("\n")))
    family = arch_family(arch if arch is not None else written_arch(text))
    _refuse_enormous(text, source)
    parser: PtoParser | None = None
    try:
        parser = PtoParser(text, filename, family)
        module = parser.parse_module()
    except ParseError as error:
        raise PtoSyntaxError(_reworded(error.msg), span=span_at(source, text, *_place(error, text))) from None
    except RecursionError:
        raise PtoSyntaxError("the text is nested too deeply", span=span_at(source, text, 0, 1)) from None
    except Exception as error:
        # xDSL checks some things with exceptions of its own (invalid attribute parameters, numbers out of range, …): the text is at fault.
        at = parser.pos if parser is not None else 0
        raise PtoSyntaxError(f"the text does not make sense here: {reason(error)}", span=span_at(source, text, at, at + 1)) from None
    assert isinstance(module, ModuleOp)
    return PtoFile(module, text, filename, family, parser.places)


_ENORMOUS = re.compile(r"(?<![\w%@#!.$-])(?:[su]?i(?P<width>\d{3,})|dense(?:_resource)?\s*<)")
_VECTOR = re.compile(r"dense\s*<[^<>]*>\s*:\s*vector<(?P<sizes>(?:\d{1,4}x)+)[\w.]+>")
_MAX_VECTOR = 4096
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\[^\n])*(?P<end>"?)')
_STRING = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"')
_MAX_WIDTH = 128


def _refuse_enormous(text: str, source: SourceText) -> None:
    """What would keep xDSL busy until the machine gives up: open strings, integers of absurd width, and large constants."""
    for match in _COMMENT_OR_STRING.finditer(text):
        if match["end"] == "":
            raise PtoSyntaxError("this string is never closed", span=span_at(source, text, *match.span()))
        if match["end"] is not None and not _STRING.fullmatch(match.group()):
            raise PtoSyntaxError("this string has an escape that MLIR does not know", span=span_at(source, text, *match.span()))
    bare = _COMMENT_OR_STRING.sub(lambda found: " " * len(found.group()), text)
    for match in _ENORMOUS.finditer(bare):
        if match["width"] is None:
            vector = _VECTOR.match(bare, match.start())
            if vector is None or math.prod(int(size) for size in vector["sizes"].split("x")[:-1]) > _MAX_VECTOR:
                raise PtoSyntaxError(f"dense constants are vectors of at most {_MAX_VECTOR} elements", span=span_at(source, text, *match.span()))
        elif len(match["width"]) > 4 or int(match["width"]) > _MAX_WIDTH:
            raise PtoSyntaxError(f"integers have at most {_MAX_WIDTH} bits", span=span_at(source, text, *match.span()))


_REWORDED = (
    (re.compile(r"^'(pto\.[\w.]+)' is not registered$"), r"there is no type or attribute `\1`"),
    (re.compile(r"^'([\w.]+)' is not registered$"), r"the type or attribute `\1` is unsupported"),
    (
        re.compile(r"^operand is used with type (.*), but has been previously used or defined with type (.*)$", re.S),
        r"this operand has type \2, but is used here as \1",
    ),
    (re.compile(r"^Could not parse entire input!$"), "expected an operation or the end of the text"),
    (re.compile(r"^values used but not defined: \[(.*)\]$"), r"used but never defined: \1"),
)  # fmt: skip


def _place(error: ParseError, text: str) -> tuple[int, int]:
    """Where to point: an undefined value at its first use, an unknown type at its name, everything else where the parser stopped."""
    unknown = re.match(r"^'([\w.]+)' is not registered$", error.msg)
    at = text.rfind(unknown.group(1), 0, error.span.start) if unknown else -1
    if unknown is not None and at >= 0:
        return at, at + len(unknown.group(1))
    undefined = re.match(r"^values used but not defined: \[(%[\w$.-]+)", error.msg)
    use = re.search(re.escape(undefined.group(1)) + r"(?![\w$.-])", text) if undefined else None
    return use.span() if use else (error.span.start, error.span.end)


def _reworded(message: str) -> str:
    for pattern, better in _REWORDED:
        if pattern.match(message):
            return pattern.sub(better, message)
    return message

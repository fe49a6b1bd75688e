"""The text of an op, read and written through the format of its row.

Two languages of formats: destination style, `ins(a, s:scalar, tmp? {rmode}) outs(d)`, where every operand is typed and attributes in braces
stand inside `ins`; and words, `%ptr:ptr , %offset:index : type(ptr) -> type(result)`, where `%x` is an operand (`*`: a list), `type(x)` its
type, `<< … >>` an optional part, `attrs` the dictionary, `enum(x)`, `int(x)`, `str(x)`, `ints(x)` an attribute, `int(x)|%y` a number or an
operand, `region` a body, and everything else stands for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IndexType, IntegerAttr, IntegerType, MemRefType, StringAttr, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand

from tilejit.tile_ir.pto.attributes import ENUM_CLASSES
from tilejit.tile_ir.pto.spec import Row, Slot
from tilejit.tile_ir.pto.types import OPAQUE, PartitionViewType, PtrType, TensorViewType, TileBufType

_FIXED: dict[str, Attribute] = {"index": IndexType(), "i64": i64, "i32": i32}
Parsed = tuple[dict[str, list[SSAValue]], list[Attribute], dict[str, Attribute], list[Region]]


def kind_matches(kind: str, type: Attribute) -> bool:
    """Whether a value of `type` may stand in a slot of `kind`; memrefs stand for everything in lowered files."""
    if kind == "any" or isinstance(type, MemRefType):
        return True
    if kind == "tile":
        return isinstance(type, TileBufType)
    if kind == "view":
        return isinstance(type, PartitionViewType)
    if kind == "tensor":
        return isinstance(type, TensorViewType)
    if kind == "ptr":
        return isinstance(type, PtrType)
    if kind == "pipe":
        return isinstance(type, OPAQUE["pipe"])
    if kind in ("index", "i64", "i32"):
        return isinstance(type, IndexType | IntegerType)
    return isinstance(type, IndexType | IntegerType) or str(type) in ("f16", "f32", "bf16", "f64")


@dataclass
class _State:
    parser: Parser
    row: Row
    names: dict[str, list[UnresolvedOperand]] = field(default_factory=dict[str, list[UnresolvedOperand]])
    types: dict[str, list[Attribute]] = field(default_factory=dict[str, list[Attribute]])
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    results: list[Attribute] = field(default_factory=list[Attribute])
    regions: list[Region] = field(default_factory=list[Region])


def parse(parser: Parser, row: Row) -> Parsed:
    """Operands by slot, result types, attributes and regions of the op whose name was just read."""
    state = _State(parser, row)
    start = parser.pos
    if row.destination_style is not None:
        _parse_destination(state)
    else:
        _parse_words(state, words_of(row.format))
    groups = {name: [_resolved(state, name, i, operand) for i, operand in enumerate(operands)] for name, operands in state.names.items()}
    return groups, _results(state, groups, start), state.attributes, state.regions


def _resolved(state: _State, name: str, position: int, operand: UnresolvedOperand) -> SSAValue:
    types = state.types.get(name)
    if types is not None:
        return state.parser.resolve_operand(operand, types[min(position, len(types) - 1)])
    kind = next(slot.kind for slot in state.row.slots if slot.name == name)
    defined = state.parser.ssa_values.get(operand.operand_name)
    if defined is not None and operand.index < len(defined):
        return defined[operand.index]
    if kind in _FIXED:
        return state.parser.resolve_operand(operand, _FIXED[kind])
    state.parser.raise_error(f"%{operand.operand_name} is used before it is defined", operand.span)


def _results(state: _State, groups: dict[str, list[SSAValue]], start: int) -> list[Attribute]:
    result = state.row.result
    if result is None or result.endswith("type?"):
        return state.results
    if result == "type":
        return state.results
    if result in _FIXED:
        return [_FIXED[result]]
    if result.startswith("like "):
        return [groups[result[5:]][0].type]
    source = groups["source"][0].type
    sizes = state.attributes["sizes"]
    if not isinstance(source, TileBufType) or not isinstance(sizes, DenseArrayBase) or len(sizes.get_values()) != 2:
        state.parser.raise_error("subset takes a tile and two sizes", start, state.parser.pos)
    rows, cols = (int(size) for size in sizes.get_values())
    return [TileBufType(subset_spec(source, rows, cols))]


def subset_spec(source: TileBufType, rows: int, cols: int):
    """The type of a window of a tile: the parent's valid extents, cut to the window."""
    spec = source.data
    valid = tuple(None if v is None else min(v, n) for v, n in zip(spec.valid, (rows, cols)))
    return replace(spec, rows=rows, cols=cols, valid=(valid[0], valid[1]))


# destination style ----------------------------------------------------------------------------------------------------------


def _parse_destination(state: _State) -> None:
    parser, row = state.parser, state.row
    assert row.destination_style is not None
    ins, _, outs = row.destination_style
    for keyword, slots in (("ins", ins), ("outs", outs)):
        if not slots:
            continue
        at = parser.pos
        parser.parse_characters(keyword, f" in pto.{row.name}")
        operands, types = _parse_typed_list(state)
        _assign(state, slots, operands, types, at)
    if parser._current_token.text in row.attributes:
        name = parser.parse_identifier()
        parser.parse_punctuation("=")
        state.attributes[name] = _attribute_value(state, name)
    _parse_dictionary(state)
    if row.result == "type?" and parser.parse_optional_punctuation("->") is not None:
        state.results.append(parser.parse_type())


def _parse_typed_list(state: _State) -> tuple[list[UnresolvedOperand], list[Attribute]]:
    """`(%a, %b {attrs} : A, B)`, also `(%a : A, %b : B)`."""
    parser = state.parser
    operands: list[UnresolvedOperand] = []
    types: list[Attribute] = []
    parser.parse_characters("(")
    while True:
        pending = 0
        while True:
            if parser._current_token.text == "{":
                _parse_dictionary(state)
            else:
                operands.append(parser.parse_unresolved_operand("expected an operand like %a"))
                pending += 1
                if parser._current_token.text == "{":
                    _parse_dictionary(state)
            if parser.parse_optional_characters(",") is None:
                break
        parser.parse_characters(":", " and the types of the operands")
        for position in range(pending):
            if position:
                parser.parse_characters(",", ": there are fewer types than operands")
            types.append(parser.parse_type())
        if parser.parse_optional_characters(",") is None:
            break
    parser.parse_characters(")", ": there are more types than operands" if parser._current_token.text == "!" else "")
    return operands, types


def _assign(state: _State, slots: Sequence[Slot], operands: list[UnresolvedOperand], types: list[Attribute], at: int) -> None:
    """Operands to slots in order; an optional slot takes one that fits when enough are left for the others."""
    position = 0
    for number, slot in enumerate(slots):
        needed = sum(not (later.optional or later.variadic) for later in slots[number + 1 :])
        left = len(operands) - position
        taken = 0
        if slot.variadic:
            while taken < left - needed and kind_matches(slot.kind, types[position + taken]):
                taken += 1
        elif slot.optional:
            taken = int(left > needed and kind_matches(slot.kind, types[position]))
        else:
            taken = int(left > 0)
            if not taken:
                state.parser.raise_error(f"pto.{state.row.name} needs the operand `{slot.name}`: {state.row.format}", at, state.parser.pos)
        state.names[slot.name] = operands[position : position + taken]
        state.types[slot.name] = types[position : position + taken]
        position += taken
    if position < len(operands):
        message = f"pto.{state.row.name} does not take `%{operands[position].operand_name}` here: {state.row.format}"
        state.parser.raise_error(message, operands[position].span)


# words --------------------------------------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    return text.split()


def group_end(words: Sequence[str], start: int) -> int:
    return next(i for i in range(start, len(words)) if words[i] == ">>")


def _parse_words(state: _State, words: Sequence[str]) -> None:
    position = 0
    while position < len(words):
        word = words[position]
        if word == "<<":
            end = group_end(words, position)
            if _starts(state, words[position + 1]):
                _parse_words(state, words[position + 1 : end])
            position = end
        else:
            _parse_word(state, word)
        position += 1


def _starts(state: _State, word: str) -> bool:
    text = state.parser._current_token.text
    return text.startswith("%") if word.startswith("%") else text == word


def _parse_word(state: _State, word: str) -> None:
    parser = state.parser
    if word.startswith("%"):
        name = word[1:].rstrip("?*").split(":")[0]
        if word.endswith("*"):
            found: list[UnresolvedOperand] = []
            if parser._current_token.text.startswith("%"):
                found = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: parser.parse_unresolved_operand("expected an operand like %a"))
            state.names[name] = found
        else:
            state.names[name] = [parser.parse_unresolved_operand("expected an operand like %a")]
    elif word.startswith("type("):
        name = word[5:-1]
        (state.results if name == "result" else state.types.setdefault(name, [])).append(_parse_type(state, name))
    elif word.startswith("types("):
        count = len(state.names.get(word[6:-1], ()))
        types = state.types.setdefault(word[6:-1], [])
        for i in range(count):
            if i:
                parser.parse_characters(",")
            types.append(parser.parse_type())
    elif word == "attrs":
        _parse_dictionary(state)
    elif word == "region":
        state.regions.append(with_block(parser.parse_region()))
    elif word.startswith(("enum(", "int(", "str(", "ints(")):
        _parse_attribute_word(state, word)
    else:
        parser.parse_characters(word, f" in pto.{state.row.name}")


def _parse_type(state: _State, name: str) -> Attribute:
    parser = state.parser
    if parser._current_token.text == "<":
        # A single type in an op that only takes one kind may leave out its name.
        kind = next((slot.kind for slot in state.row.slots if slot.name == name), "ptr")
        return PtrType(PtrType.parse_parameter(parser)) if kind == "ptr" else TileBufType(TileBufType.parse_parameter(parser))
    return parser.parse_type()


def _parse_attribute_word(state: _State, word: str) -> None:
    parser = state.parser
    kind, name = word.split("|")[0].rstrip(")").split("(")
    if "|" in word and parser._current_token.text.startswith("%"):
        _parse_word(state, word.split("|")[1])
    elif kind == "enum":
        state.attributes[name] = _attribute_value(state, name)
    elif kind == "int":
        state.attributes[name] = IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=True), i32)
    elif kind == "str":
        state.attributes[name] = StringAttr(parser.parse_str_literal())
    else:
        numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))
        state.attributes[name] = DenseArrayBase.from_list(i64, [min(max(number, -(1 << 40)), 1 << 40) for number in numbers])


def _attribute_value(state: _State, name: str) -> Attribute:
    kind = state.row.attributes.get(name, "").rstrip("!")
    parser = state.parser
    if kind in ENUM_CLASSES and parser._current_token.text == "<":
        return ENUM_CLASSES[kind](ENUM_CLASSES[kind].parse_parameter(parser))
    value = parser.parse_attribute()
    if isinstance(value, ENUM_CLASSES["sync_op_type"]):
        return ENUM_CLASSES["pipe_event_type"](value.data)
    return value


def with_block(region: Region) -> Region:
    """A body as a block: braces with nothing between them are a block without ops."""
    if not region.blocks:
        region.add_block(Block())
    return region


def _parse_dictionary(state: _State) -> None:
    """`{name = value, flag}`, if there is one."""
    parser = state.parser

    def entry() -> None:
        at = parser._current_token.span
        name = parser.parse_optional_identifier_or_str_literal()
        if name is None:
            parser.raise_error("expected the name of an attribute")
        if name in state.attributes:
            parser.raise_error(f"the attribute `{name}` is given twice", at)
        state.attributes[name] = BoolAttr.from_bool(True) if parser.parse_optional_punctuation("=") is None else _attribute_value(state, name)

    parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, entry)


# printing -------------------------------------------------------------------------------------------------------------------

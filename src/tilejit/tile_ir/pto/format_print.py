"""Prints PTO instructions in the form that their rows say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.printer import Printer

from tilejit.tile_ir.pto.format import group_end, words_of

if TYPE_CHECKING:
    from tilejit.tile_ir.pto.op import PtoOp


def print_op(printer: Printer, op: PtoOp) -> None:
    """Everything behind the op's name."""
    if op.row.destination_style is not None:
        _print_destination(printer, op)
    else:
        _Words(printer, op).print(words_of(op.row.format))


def _print_destination(printer: Printer, op: PtoOp) -> None:
    assert op.row.destination_style is not None
    ins, inside, outs = op.row.destination_style
    groups = op.groups
    inner = {name: value for name, value in op.attributes.items() if name in inside}
    outer = {name: value for name, value in op.attributes.items() if name not in inside}
    for keyword, slots in (("ins", ins), ("outs", outs)):
        if not slots:
            continue
        values = [value for slot in slots for value in groups[slot.name]]
        printer.print_string(f" {keyword}(")
        if op.row.paired:
            printer.print_list(values, lambda value: _print_typed(printer, value))
        else:
            printer.print_list(values, printer.print_ssa_value)
            if keyword == "ins" and inner:
                printer.print_string(", " if op.name == "pto.tgather" else " ")
                _print_dictionary(printer, inner)
            printer.print_string(" : ")
            printer.print_list(values, lambda value: printer.print_attribute(value.type))
        printer.print_string(")")
    if outer:
        printer.print_string(" ")
        _print_dictionary(printer, outer)
    if op.results:
        printer.print_string(" -> ")
        printer.print_attribute(op.results[0].type)


def _print_typed(printer: Printer, value: SSAValue) -> None:
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


def _print_dictionary(printer: Printer, attributes: dict[str, Attribute]) -> None:
    printer.print_attr_dict(attributes)


class _Words:
    """Prints a format of words, with the usual spaces."""

    def __init__(self, printer: Printer, op: PtoOp) -> None:
        self.printer = printer
        self.op = op
        self.groups = op.groups
        self.previous = ""
        self.spelled: set[str] = {
            word.split("|")[0].rstrip(")").split("(")[1] for word in words_of(op.row.format) if word.startswith(("enum(", "int(", "str(", "ints("))
        }

    def print(self, words: Sequence[str]) -> None:
        position = 0
        while position < len(words):
            word = words[position]
            if word == "<<":
                end = group_end(words, position)
                part = words[position + 1 : end]
                if self._present(part):
                    self.print(part)
                position = end
            else:
                self._word(word)
            position += 1

    def _present(self, part: Sequence[str]) -> bool:
        names = [word[1:].rstrip("?*").split(":")[0] for word in part if word.startswith("%")]
        return all(self.groups[name] for name in names) if names else bool(self.op.results)

    def _gap(self, word: str) -> None:
        first = not self.previous
        opens = word in ("[", "(") and (first or self.previous == "ins" or (self.previous.startswith("%") and word == "["))
        tight = opens or word in (",", ")", "]") or self.previous in ("(", "[")
        self.printer.print_string("" if tight else " ")
        self.previous = word

    def _word(self, word: str) -> None:
        printer, op = self.printer, self.op
        if word == "attrs":
            rest = {name: value for name, value in op.attributes.items() if name not in self.spelled}
            if rest:
                self._gap(word)
                _print_dictionary(printer, rest)
            return
        if "|" in word:
            number, operand = word.split("|")
            word = operand if self.groups[operand[1:].split(":")[0].rstrip("?")] else number
        self._gap(word)
        if word.startswith("%"):
            printer.print_list(self.groups[word[1:].rstrip("?*").split(":")[0]], printer.print_ssa_value)
        elif word.startswith("type("):
            name = word[5:-1]
            printer.print_attribute(op.results[0].type if name == "result" else self.groups[name][0].type)
        elif word.startswith("types("):
            printer.print_list(self.groups[word[6:-1]], lambda value: printer.print_attribute(value.type))
        elif word == "region":
            printer.print_region(op.regions[0], print_empty_block=False)
        elif word.startswith(("enum(", "int(", "str(", "ints(")):
            self._attribute(*word.rstrip(")").split("("))
        else:
            printer.print_string(word)

    def _attribute(self, kind: str, name: str) -> None:
        value = self.op.attributes[name]
        if kind == "int" and isinstance(value, IntegerAttr):
            self.printer.print_string(str(value.value.data))
        elif kind == "ints":
            self.printer.print_string("[" + ", ".join(str(number) for number in self.op.integers(name)) + "]")
        elif kind == "enum" and value.name in ("pto.pipe", "pto.event"):
            self.printer.print_string(f"<{self.op.enum(name)}>")
        else:
            self.printer.print_attribute(value)

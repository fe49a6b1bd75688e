"""Flattens x86-64 ELF objects into a blob: sections laid out one after the other, relocations applied, externals through slots."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from tilejit.runtime.artifact.blob import Blob

_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_ALLOC, _WRITE = 2, 1
_FUNC = 2
_PC32, _PLT32, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX = 2, 4, 9, 41, 42
_STUB = b"\xff\x25\x02\x00\x00\x00\xcc\xcc"
"""`jmp [rip + 2]` through the slot that follows, which is 8-byte aligned."""


class UnsupportedObject(Exception):
    """An object file with something a flat blob cannot express."""


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    kind: int
    is_global: bool
    section: int
    value: int


@dataclass
class _Object:
    data: bytes
    sections: list[_Section]
    symbols: list[_Symbol]
    base: dict[int, int] = field(default_factory=dict[int, int])
    """Loaded section → its offset in the blob."""

    def name(self, section: _Section) -> str:
        names = self.sections[struct.unpack_from("<H", self.data, 0x3E)[0]]
        return _string(self.data, names.offset + section.name)

    def offset(self, symbol: _Symbol) -> int:
        """Where a symbol of a loaded section lies in the blob."""
        return self.base[symbol.section] + symbol.value


@dataclass
class _Layout:
    code: bytearray = field(default_factory=bytearray)
    shared: dict[str, int] = field(default_factory=dict[str, int])
    """What one object offers to the others → its offset."""
    slots: dict[str, int] = field(default_factory=dict[str, int])
    """External name → offset of its address slot."""

    def stub(self, name: str) -> int:
        """Offset of code that jumps to the external `name`; its slot is 8 bytes further on."""
        if name not in self.slots:
            self._align(16)
            self.slots[name] = len(self.code) + len(_STUB)
            self.code += _STUB + bytes(8)
        return self.slots[name] - len(_STUB)

    def place(self, part: _Object, index: int) -> None:
        """Lay out one section."""
        section = part.sections[index]
        self._align(max(16, section.align))
        part.base[index] = len(self.code)
        self.code += part.data[section.offset : section.offset + section.size]

    def _align(self, alignment: int) -> None:
        self.code += b"\xcc" * (-len(self.code) % alignment)


def flatten(*objects: bytes) -> Blob:
    """The blob of ELF64 x86-64 relocatable objects that may call each other; UnsupportedObject when they need more than a blob has."""
    layout, parts, entries = _Layout(), [_read(data) for data in objects], dict[str, int]()
    for part in parts:
        _place(layout, part)
        for symbol in part.symbols:
            if symbol.section in part.base and symbol.kind == _FUNC:
                entries[symbol.name] = part.offset(symbol)
            if symbol.section in part.base and symbol.is_global:
                layout.shared[symbol.name] = part.offset(symbol)
    for part in parts:
        for section in part.sections:
            if section.type == _RELA and section.info in part.base:
                _relocate(layout, part, section)
    return Blob(bytes(layout.code), entries, dict(layout.slots))


def _place(layout: _Layout, part: _Object) -> None:
    for index, section in enumerate(part.sections):
        if not section.flags & _ALLOC or not section.size or part.name(section).startswith(".eh_frame"):
            continue
        if section.type == _NOBITS or (section.flags & _WRITE and not part.name(section).startswith(".data.rel.ro")):
            raise UnsupportedObject(f"writable data ({part.name(section)})")
        if section.type == _PROGBITS:
            layout.place(part, index)


def _read(data: bytes) -> _Object:
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != 62:
        raise UnsupportedObject("not an ELF64 x86-64 object")
    table = struct.unpack_from("<Q", data, 0x28)[0]
    size, count, _ = struct.unpack_from("<HHH", data, 0x3A)
    sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, table + i * size)) for i in range(count)]
    symbols: list[_Symbol] = []
    for section in sections:
        if section.type == _SYMTAB:
            strings = sections[section.link].offset
            for position in range(section.offset, section.offset + section.size, 24):
                name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", data, position)
                symbols.append(_Symbol(_string(data, strings + name), info & 15, info >> 4 != 0, index, value))
    return _Object(data, sections, symbols)


def _string(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _relocate(layout: _Layout, part: _Object, table: _Section) -> None:
    base = part.base[table.info]
    for position in range(table.offset, table.offset + table.size, 24):
        offset, info, addend = struct.unpack_from("<QQq", part.data, position)
        kind, symbol = info & 0xFFFFFFFF, part.symbols[info >> 32]
        place = base + offset
        if kind in (_PC32, _PLT32):
            target = _target(layout, part, symbol)
        elif kind in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
            target = _got_slot(layout, part, symbol)
        else:
            raise UnsupportedObject(f"relocation {kind} of {symbol.name or 'a section'}")
        struct.pack_into("<i", layout.code, place, target + addend - place)


def _target(layout: _Layout, part: _Object, symbol: _Symbol) -> int:
    if symbol.section in part.base:
        return part.offset(symbol)
    if symbol.section != 0 or not symbol.name:
        raise UnsupportedObject(f"symbol {symbol.name!r} lives in a section that is not loaded")
    return layout.shared[symbol.name] if symbol.name in layout.shared else layout.stub(symbol.name)


def _got_slot(layout: _Layout, part: _Object, symbol: _Symbol) -> int:
    if symbol.section in part.base or symbol.name in layout.shared:
        # A slot with the absolute address of our own code would have to be patched at load.
        raise UnsupportedObject(f"address of {symbol.name} taken through the global offset table")
    return layout.stub(symbol.name) + len(_STUB)

"""Vector instructions of LLVM text: types, constants, and one function per kind of instruction; width 1 is the plain scalar type."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilejit.backends.cpu.llvm.text import Emitter, Value

_SUFFIXES = {"float": "f32", "double": "f64", "half": "f16"}


def typed(element: str, width: int) -> str:
    """`<16 x float>`, or `float` for width 1."""
    return element if width == 1 else f"<{width} x {element}>"


def element_of(type: str) -> str:
    return type[1:-1].split(" x ")[1] if type.startswith("<") else type


def width_of(type: str) -> int:
    return int(type[1:].split(" x ")[0]) if type.startswith("<") else 1


def like(value: Value, element: str) -> str:
    """The type with the width of `value` and another element."""
    return typed(element, width_of(value.type))


def literal(element: str, number: float | int | bool) -> str:
    """A scalar constant; floats are written as bits, so that nothing is lost."""
    if element == "i1":
        return "true" if number else "false"
    if element in ("float", "double"):
        wide = struct.unpack("<f", struct.pack("<f", number))[0] if element == "float" else float(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"
    return str(int(number))


def constant(type: str, number: float | int | bool) -> Value:
    """A constant in every lane."""
    element = element_of(type)
    text = literal(element, number)
    return Value(f"splat ({element} {text})" if type.startswith("<") else text, type)


def splat(e: Emitter, scalar: Value, width: int) -> Value:
    """A scalar in every lane."""
    if width == 1:
        return scalar
    type = typed(scalar.type, width)
    first = e.inst(type, f"insertelement {type} poison, {scalar}, i64 0")
    return e.inst(type, f"shufflevector {type} {first.text}, {type} poison, <{width} x i32> zeroinitializer")


def extract(e: Emitter, vector: Value, lane: int) -> Value:
    if not vector.type.startswith("<"):
        return vector
    return e.inst(element_of(vector.type), f"extractelement {vector}, i64 {lane}")


def shuffle(e: Emitter, a: Value, b: Value | None, lanes: Sequence[int]) -> Value:
    """Two or more lanes picked from `a` followed by `b`; -1 picks nothing in particular."""
    second = f"{a.type} poison" if b is None else str(b)
    type = typed(element_of(a.type), len(lanes))
    mask = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
    return e.inst(type, f"shufflevector {a}, {second}, <{len(lanes)} x i32> <{mask}>")


def picked(e: Emitter, a: Value, b: Value | None, lanes: Sequence[int]) -> Value:
    """The same for any number of lanes: one is a scalar."""
    return extract(e, a, lanes[0]) if len(lanes) == 1 else shuffle(e, a, b, lanes)


def joined(e: Emitter, values: Sequence[Value]) -> Value:
    """Scalars or vectors of one type side by side, as one vector; a power of two of them."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    first, second = joined(e, values[:half]), joined(e, values[half:])
    if width_of(first.type) > 1:
        return shuffle(e, first, second, range(2 * width_of(first.type)))
    type = typed(first.type, 2)
    one = e.inst(type, f"insertelement {type} poison, {first}, i64 0")
    return e.inst(type, f"insertelement {one}, {second}, i64 1")


def pieces_of(e: Emitter, value: Value, width: int) -> list[Value]:
    """A long vector in pieces."""
    count = width_of(value.type) // width
    return [value] if count == 1 else [shuffle(e, value, None, range(v * width, (v + 1) * width)) for v in range(count)]


def gathered(e: Emitter, vectors: Sequence[Value], picks: Sequence[tuple[int, int]]) -> Value:
    """Two or more lanes picked from vectors of one type: (which vector, its lane), or (-1, -1) for nothing in particular."""
    width = width_of(vectors[0].type)
    if len(vectors) <= 2:
        lanes = [-1 if which < 0 else which * width + lane for which, lane in picks]
        whole = len(vectors) == 1 and lanes == list(range(width))
        return vectors[0] if whole else shuffle(e, vectors[0], vectors[1] if len(vectors) == 2 else None, lanes)
    half = (len(vectors) + 1) // 2
    first = gathered(e, vectors[:half], [pick if pick[0] < half else (-1, -1) for pick in picks])
    second = gathered(e, vectors[half:], [(which - half, lane) if which >= half else (-1, -1) for which, lane in picks])
    return shuffle(e, first, second, [at if which < half else len(picks) + at for at, (which, _) in enumerate(picks)])


def binary(e: Emitter, op: str, a: Value, b: Value) -> Value:
    return e.inst(a.type, f"{op} {a}, {b.text}")


def unary(e: Emitter, op: str, a: Value) -> Value:
    return e.inst(a.type, f"{op} {a}")


def fcmp(e: Emitter, predicate: str, a: Value, b: Value) -> Value:
    return e.inst(like(a, "i1"), f"fcmp {predicate} {a}, {b.text}")


def icmp(e: Emitter, predicate: str, a: Value, b: Value) -> Value:
    return e.inst(like(a, "i1"), f"icmp {predicate} {a}, {b.text}")


def select(e: Emitter, condition: Value, then: Value, orelse: Value) -> Value:
    return e.inst(then.type, f"select {condition}, {then}, {orelse}")


def convert(e: Emitter, op: str, value: Value, element: str) -> Value:
    """A conversion instruction (`sext`, `sitofp`, `bitcast`, …) to lanes of `element`."""
    target = like(value, element)
    return value if value.type == target else e.inst(target, f"{op} {value} to {target}")


def intrinsic(e: Emitter, name: str, *args: Value, result: str | None = None, extra: Sequence[str] = ()) -> Value:
    """A call of `llvm.<name>` overloaded on the type of the first argument; `extra` are trailing operands such as `i1 false`."""
    first = args[0].type
    element = element_of(first)
    suffix = _SUFFIXES.get(element, element)
    full = f"llvm.{name}.{suffix}" if not first.startswith("<") else f"llvm.{name}.v{width_of(first)}{suffix}"
    type = result or first
    types = [arg.type for arg in args] + [text.split(" ")[0] for text in extra]
    e.module.declare(full, f"declare {type} @{full}({', '.join(types)})")
    return e.inst(type, f"call {type} @{full}({', '.join([str(arg) for arg in args] + list(extra))})")

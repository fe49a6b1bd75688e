"""A program as short lines to read, each with the op it shows: names of the author, ops by their own names, types at the end."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from tilejit.tile_ir import dialect as d
from tilejit.tile_ir import names
from tilejit.tile_ir.program import Program

_LEFT_OUT = frozenset({"span", "hint", "op", "groups", "operandSegmentSizes", "resultSegmentSizes", "sym_name", "function_type"})
_NOTHING = (None, False, (), {}, "")


def listing(program: Program) -> Iterator[tuple[str, Operation | None]]:
    """Lines with the op that each of them shows."""
    for name, function in program.functions.items():
        writer = _Writer()
        params = ", ".join(f"{writer.name(value)}: {d.type_of(value)}" for value in function.body.block.args)
        yield f"func {name}({params})", function
        yield from writer.block(function.body.block, 1)
        yield "", None


class _Writer:
    """Writes one function."""

    def __init__(self) -> None:
        self._names: dict[SSAValue, str] = {}
        self._taken: dict[str, int] = {}

    def name(self, value: SSAValue) -> str:
        """What a value is called: as its author does, with a number where two have one name."""
        if value not in self._names:
            owner = value.owner
            hint = names.name_of(value) or (owner.hint if isinstance(owner, d.TileOp) and value is owner.results[0] else None)
            base = f"%{hint}" if hint else f"%{len(self._names)}"
            count = self._taken[base] = self._taken.get(base, 0) + 1
            self._names[value] = base if count == 1 else f"{base}.{count}"
        return self._names[value]

    def block(self, block: Block, depth: int) -> Iterator[tuple[str, Operation | None]]:
        """The ops of a block, and of the blocks in them."""
        for op in block.ops:
            yield "  " * depth + self._op(op), op
            for region in op.regions:
                for inner in region.blocks:
                    if len(op.regions) > 1:
                        yield "  " * depth + f"- {_part(op, region)}", None
                    yield from self.block(inner, depth + 1)

    def _op(self, op: Operation) -> str:
        what = op.op if isinstance(op, d.ApplyOp | d.EffectOp) else op.name.removeprefix("tile.")
        operands = ", ".join(self.name(value) for value in op.operands)
        carried = [f"{self.name(value)}: {d.type_of(value)}" for region in op.regions[-1:] for inner in region.blocks for value in inner.args]
        statics = [f"{key}={_shown(attribute)}" for key, attribute in sorted(op.attributes.items()) if key not in _LEFT_OUT and _shown(attribute)]
        left = f"{', '.join(self.name(value) for value in op.results)} = " if op.results else ""
        types = f" : {', '.join(str(d.type_of(value)) for value in op.results)}" if op.results else ""
        return f"{left}{what}({operands})" + (f" {{{', '.join(statics)}}}" if statics else "") + types + (f" as {', '.join(carried)}" if carried else "")


def _part(op: Operation, region: object) -> str:
    """What a region is called in its op."""
    named = [word for word in ("then", "orelse", "before", "body") if getattr(op, word, None) is region]
    return named[0] if named else "block"


def _shown(attribute: object) -> str:
    value = attribute.data if isinstance(attribute, d.Static) else attribute
    return "" if any(value is nothing or (type(value) is type(nothing) and value == nothing) for nothing in _NOTHING) else str(value)

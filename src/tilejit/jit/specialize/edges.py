"""Tiles that are cut at the end of a tensor: written where they were read, they end where that tensor does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from tilejit.jit.specialize.forms import Form, form_of
from tilejit.jit.specialize.values import Abstract, Static
from tilejit.ops.spec import OpSpec
from tilejit.types.values import ANY, BufferType, Dim, TileType

_NAMES = {"tensor": "source", "input": "source", "offset": "offsets"}
"""Parameters that operators with windows call differently."""


@dataclass
class Edges:
    """Where windows of a kernel stop because their tensor does."""

    folded: Callable[[ast.expr], ast.expr]
    """An expression with what is known while compiling in it."""
    upper: Callable[[ast.expr], Form | None]
    meanings: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Names that are bound once, and to what."""
    known: dict[tuple[str, Dim], list[Form]] = field(default_factory=dict[tuple[str, Dim], list[Form]])
    """By the start of a window and its size: the ends of the tensors it was read from, where it is cut."""
    around: dict[tuple[str, Dim], list[Form]] = field(default_factory=dict[tuple[str, Dim], list[Form]])
    """The ends of all tensors it was read from."""

    def of(self, start: ast.expr, size: Dim) -> Form | None:
        """The largest end of a tile of `size` that was cut and starts there."""
        found = self.known.get((self._key(start), size), [])
        return next((end for end in found if all(end.covers(other) for other in found)), None)

    def holds(self, start: ast.expr | None, size: Dim, end: Form) -> bool:
        """Whether a tile that was read there has no cell behind `end` that its tensor lacks: `pl.store(…, clamp=True)` cuts nothing off."""
        found = self.around.get((self._key(start), size), []) if start is not None else []
        return bool(found) and all(whole.covers(end) for whole in found)

    def narrowed(self, row: OpSpec, call: ast.Call, made: TileType, value_of: Callable[[ast.expr], Abstract]) -> TileType:
        """The type of a window: cut where it may reach past its tensor, of which note is taken."""
        if "clamp" not in row.param_names:
            return made
        named = {**dict(zip(row.param_names, call.args, strict=False)), **{keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}}
        given = {_NAMES.get(name, name): value for name, value in named.items()}
        source, offsets, cut = (given.get(part) for part in ("source", "offsets", "clamp"))
        tensor = value_of(source) if source is not None else None
        if not isinstance(tensor, BufferType | TileType) or not isinstance(offsets, ast.List | ast.Tuple) or len(offsets.elts) != len(made.shape):
            return made
        clamps = cut is not None and isinstance(told := value_of(cut), Static) and bool(told.value)
        asked = given.get("valid_shape")
        wanted: Sequence[ast.expr | None] = asked.elts if isinstance(asked, ast.List | ast.Tuple) else [None] * len(made.shape)
        valid: list[Dim] = []
        for start, size, held, extent, part in zip(offsets.elts, made.shape, made.valid, tensor.shape, wanted, strict=False):
            whole, first = form_of(extent), form_of(value_of(start))
            if whole is not None:
                self.around.setdefault((self._key(start), size), []).append(whole)
            if clamps and first is not None and not first.terms and isinstance(extent, int) and isinstance(held, int):
                valid.append(max(0, min(held, extent - first.constant)))
                continue
            end = whole if clamps else self._asked_end(part, start) if part is not None else None
            if end is not None:
                self.known.setdefault((self._key(start), size), []).append(end)
            valid.append(ANY if clamps and not self._inside(start, size, whole) else held)
        return replace(made, valid=tuple(valid)) if len(valid) == len(made.valid) else made

    def _inside(self, start: ast.expr, size: Dim, whole: Form | None) -> bool:
        """Whether a window never reaches past the end."""
        last, length = self.upper(start), form_of(size)
        return last is not None and length is not None and whole is not None and whole.covers(last.plus(length))

    def _asked_end(self, wanted: ast.expr, start: ast.expr) -> Form | None:
        """The end `E` of `min(size, E - start)`."""
        wanted = self._meant(wanted)
        name = wanted.func.attr if isinstance(wanted, ast.Call) and isinstance(wanted.func, ast.Attribute) else ""
        name = wanted.func.id if isinstance(wanted, ast.Call) and isinstance(wanted.func, ast.Name) else name
        for part in map(self._meant, wanted.args if isinstance(wanted, ast.Call) and name in ("min", "minimum") else ()):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and self._key(part.right) == self._key(start):
                return self.upper(part.left)
        return None

    def _meant(self, node: ast.expr) -> ast.expr:
        while isinstance(node, ast.Name) and node.id in self.meanings:
            node = self.meanings[node.id]
        return node

    def _key(self, node: ast.expr) -> str:
        return ast.dump(self.folded(_Meanings(self.meanings).visit(deepcopy(node))))


class _Meanings(ast.NodeTransformer):
    """Names replaced by what they were bound to."""

    def __init__(self, meanings: dict[str, ast.expr]) -> None:
        self._meanings = meanings

    def visit_Name(self, node: ast.Name) -> ast.expr:
        meant = self._meanings.get(node.id)
        return self.visit(deepcopy(meant)) if meant is not None else node

"""Which names of buffers may mean the same memory, and which memory is written."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.tile_ir import dialect as d


class Aliases:
    """Which buffer handles may be the same memory (union-find), and which of them are written."""

    def __init__(self) -> None:
        self._parent: dict[SSAValue, SSAValue] = {}
        self._written: set[SSAValue] = set()

    def root(self, value: SSAValue) -> SSAValue:
        path: list[SSAValue] = []
        while (parent := self._parent.get(value)) is not None or isinstance(value.owner, d.WindowOp | d.ViewOp | d.PeerOp):
            path.append(value)
            if parent is not None:
                value = parent
            else:
                assert isinstance(value.owner, d.WindowOp | d.ViewOp | d.PeerOp)
                value = value.owner.buffer
        for item in path:
            self._parent[item] = value
        return value

    def unite(self, a: SSAValue, b: SSAValue) -> None:
        """From now on `a` and `b` may be one buffer."""
        a, b = self.root(a), self.root(b)
        if a is not b:
            self._parent[a] = b
            if a in self._written:
                self._written.add(b)

    def write(self, buffer: SSAValue) -> None:
        self._written.add(self.root(buffer))

    def written(self, buffer: SSAValue) -> bool:
        return self.root(buffer) in self._written

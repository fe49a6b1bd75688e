"""Which kernels run side by side.

Nothing in the IR marks it. Neighbouring calls, launches or regions of one block whose kernels use FIFOs are a *run*: its members
are scheduled together, in the order of the text until one has to wait. A launch with blocks whose kernel meets a `syncall`, or waits for
other ranks, is a run too: all its blocks are under way at once. FIFOs belong to one run and one block of it; a vector member that handles
halves of the tiles of its peer runs as two lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.ops.facts import Effect
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.equal import asks_place
from tilejit.tile_ir.planes import KERNEL_KINDS, called_inside
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.transfers import Fifo, Transfer, core_of, crosses, is_half, meets, sync_class, transfer_of, waits
from tilejit.types.values import BufferType, ShapedType

_OTHER_RANKS = "ranks"
"""What a wait for other ranks counts as beside the barriers: all blocks are under way."""
Start = d.CallOp | d.LaunchOp | d.RegionOp
"""What can be a member of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One kernel of a run; `lanes`: how many vector cores run it."""

    op: Start | d.FuncOp
    transfers: tuple[Transfer, ...]
    lanes: int = 1

    @property
    def blocks(self) -> SSAValue | None:
        return None if isinstance(self.op, d.CallOp | d.FuncOp) else self.op.blocks


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Kernels that are scheduled together; they start where the last of them stands."""

    members: tuple[Member, ...]
    syncs: bool
    """Whether a barrier makes all blocks wait for each other."""

    @property
    def last(self) -> Start | d.FuncOp:
        return self.members[-1].op

    @property
    def transfers(self) -> list[Transfer]:
        return [transfer for member in self.members for transfer in member.transfers]

    @property
    def fifos(self) -> tuple[Fifo, ...]:
        return tuple(dict.fromkeys(transfer.fifo for transfer in self.transfers))

    def readers(self, fifo: Fifo) -> int:
        """How many lanes take tiles out of a FIFO."""
        both = any(t.fifo == fifo and not t.pushes and (t.lane == 1 or member.lanes == 2) for member in self.members for t in member.transfers)
        return 2 if both else 1


class CrossCore:
    """The runs of a program. Valid until the program changes."""

    def __init__(self, program: Program) -> None:
        self.functions = program.functions
        self._runs: dict[Operation, Run] = {}
        self._transfers: dict[Operation, tuple[Transfer, ...]] = {}
        self._syncs: dict[Operation, Counter[str]] = {}
        self._planned: set[str] = set()
        self.active = any(crosses(op) or waits(op) for op in program.module.walk())
        """Whether the program has FIFOs, barriers or waits at all."""
        if self.active:
            self._inner = called_inside(self.functions)
            for name in self.functions:
                self._plan(name)

    @property
    def runs(self) -> list[Run]:
        return list(dict.fromkeys(self._runs.values()))

    def every_transfer(self) -> list[Transfer]:
        """All pushes and pops of the program."""
        found = (transfer_of(op, name) for name, function in self.functions.items() for op in function.walk())
        return [transfer for transfer in found if transfer is not None]

    def run_of(self, op: Operation) -> Run | None:
        """The run that a call, launch or region is a member of."""
        return self._runs.get(op)

    def alone(self, name: str) -> Run | None:
        """A function that is called from outside and uses FIFOs itself is a run of its own."""
        transfers = self.transfers(self.functions[name]) if self.active else ()
        return Run((Member(self.functions[name], transfers),), False) if transfers else None

    def transfers(self, op: Operation) -> tuple[Transfer, ...]:
        """Pushes and pops of an op with everything in it, and of what it calls; not those of runs inside it."""
        found = self._transfers.get(op)
        if found is None:
            found = self._transfers[op] = tuple(self._find_transfers(op))
        return found

    def _find_transfers(self, op: Operation) -> Iterable[Transfer]:
        function = _function_of(op)
        for inner in _walk_outside(op, self._runs):
            transfer = transfer_of(inner, function.symbol)
            if transfer is not None:
                yield transfer
            elif isinstance(inner, d.CallOp | d.LaunchOp):
                self._plan(inner.callee.data)
                yield from self.transfers(self.functions[inner.callee.data])

    def syncs(self, op: Operation) -> Counter[str]:
        """How many tasks of one block meet each barrier in an op, and in what it calls."""
        found = self._syncs.get(op)
        if found is None:
            found = self._syncs[op] = self._find_syncs(op)
        return found

    def _find_syncs(self, op: Operation) -> Counter[str]:
        total = Counter[str]()
        for inner in _walk_outside(op, self._runs):
            own = sync_class(inner)
            if own is not None or waits(inner):
                total |= Counter({own or _OTHER_RANKS: 1})
            elif isinstance(inner, d.CallOp | d.LaunchOp):
                self._plan(inner.callee.data)
                total |= self.syncs(self.functions[inner.callee.data])
        inside = [inner for inner in op.walk() if inner is not op and inner in self._runs and self._runs[inner].last is inner]
        for last in inside:
            together = Counter[str]()
            for member in self._runs[last].members:
                if member.blocks is None:
                    together += Counter({name: count * member.lanes for name, count in self.met(member).items()})
            total |= together
        return total

    def met(self, member: Member) -> Counter[str]:
        """How many tasks of one block of a member meet each barrier."""
        op = member.op
        return self.syncs(op if isinstance(op, d.RegionOp | d.FuncOp) else self.functions[op.callee.data])

    # planning -----------------------------------------------------------------------------------------------------------

    def _plan(self, name: str) -> None:
        if name in self._planned:
            return
        self._planned.add(name)
        function = self.functions[name]
        kind = function.static("kind")
        outside = kind == "group" or (kind not in KERNEL_KINDS and name not in self._inner)
        self._block(function.body.block, function, outside)

    def _block(self, block: Block, function: d.FuncOp, outside: bool) -> None:
        open: list[Member] = []
        for op in block.ops:
            for region in op.regions:
                self._block(region.block, function, outside and not isinstance(op, d.RegionOp))
            transfers = self._started(op, function, outside)
            uses_open = any(operand.owner is member.op for operand in op.operands for member in open)
            if transfers is None and not uses_open and open and self._independent(op, open):
                assert isinstance(op, Start)
                open.append(Member(op, ()))
                continue
            if transfers is None or uses_open:
                if uses_open or not _is_neutral(op):
                    self._close(open, function, outside)
                    open = []
                if transfers is None:
                    continue
            assert isinstance(op, Start)
            if transfers:
                open.append(Member(op, transfers))
            else:
                self._close(open, function, outside)
                open = []
                self._add([Member(op, ())])
        self._close(open, function, outside)

    def _started(self, op: Operation, function: d.FuncOp, outside: bool) -> tuple[Transfer, ...] | None:
        """The transfers of a kernel that may be a member of a run; None when it is none."""
        if not isinstance(op, Start):
            return None
        if isinstance(op, d.RegionOp):
            if not outside:
                return None
            body: Operation = op
        else:
            self._plan(op.callee.data)
            body = self.functions[op.callee.data]
            is_kernel = body.static("kind") in KERNEL_KINDS if outside else core_of(body) is not None and core_of(function) is None
            if isinstance(op, d.CallOp) and not is_kernel:
                return None
        transfers = self.transfers(body)
        with_blocks = not isinstance(op, d.CallOp) and op.blocks is not None
        return transfers if transfers or (with_blocks and self.syncs(body)) else None

    def _independent(self, op: Operation, members: Sequence[Member]) -> bool:
        """Whether a kernel without FIFOs may run while members wait: it touches nothing that they write, and writes nothing that they touch."""
        if not isinstance(op, d.CallOp | d.LaunchOp) or op.results or self.functions[op.callee.data].static("kind") not in KERNEL_KINDS:
            return False
        own = self._touched(op)
        for member in members:
            other = self._touched(member.op)
            if own is None or other is None or any(root in other and (writes or other[root]) for root, writes in own.items()):
                return False
        return True

    def _touched(self, op: Operation) -> dict[SSAValue, bool] | None:
        """The tensors that a call or launch is handed, and whether it writes them; None when that is not plain."""
        if not isinstance(op, d.CallOp | d.LaunchOp):
            return None
        directions = self.functions[op.callee.data].directions
        found: dict[SSAValue, bool] = {}
        for argument, direction in zip(op.args, directions, strict=True):
            if not isinstance(d.type_of(argument), BufferType):
                continue
            root = argument
            while isinstance(root.owner, d.WindowOp | d.ViewOp):
                root = root.owner.buffer
            owner = root.owner.parent_op() if isinstance(root.owner, Block) else root.owner
            if not isinstance(owner, d.FuncOp | d.CreateOp):
                return None
            found[root] = found.get(root, False) or direction != "In"
        return found

    def _close(self, members: list[Member], function: d.FuncOp, outside: bool) -> None:
        """Make runs of neighbours: all in one for a group, else as few as need each other."""
        while members and not members[-1].transfers:
            members.pop()
        if not outside or function.static("kind") == "group":
            if members and (outside or len(members) > 1):
                self._add(members)
            return
        runs: list[list[Member]] = []
        for member in members:
            if runs and not _is_closed(runs[-1]):
                runs[-1].append(member)
            else:
                runs.append([member])
            while len(runs) > 1 and _missing(runs[-1]) & _pushed(runs[-2]):
                last = runs.pop()
                runs[-1] += last
        for run in runs:
            self._add(run)

    def _add(self, members: Sequence[Member]) -> None:
        peers = [transfer for member in members for transfer in member.transfers]
        laned = tuple(Member(member.op, member.transfers, 2 if _has_halves(member, peers) else 1) for member in members)
        run = Run(laned, any(member.blocks is not None and self.met(member) for member in laned))
        for member in laned:
            self._runs[member.op] = run


def _function_of(op: Operation) -> d.FuncOp:
    found = d.enclosing(op, d.FuncOp)
    assert found is not None
    return found


def _walk_outside(op: Operation, runs: dict[Operation, Run]) -> Iterable[Operation]:
    """An op and the ops inside it that are in no run of their own."""
    yield op
    for region in op.regions:
        for inner in region.block.ops:
            if inner not in runs:
                yield from _walk_outside(inner, runs)


def _is_neutral(op: Operation) -> bool:
    """Whether an op between two members may as well stand before the first."""
    if isinstance(op, d.ApplyOp):
        return not any(isinstance(d.type_of(value), ShapedType) for value in [*op.operands, *op.results]) and not asks_place(op)
    if isinstance(op, d.EffectOp):
        return ops.facts(op.op).effect is Effect.Order
    return isinstance(op, d.ConstOp | d.DimOp | d.ValidOp | d.CreateOp | d.WindowOp | d.ViewOp | d.CheckOp)


def _pushed(members: Sequence[Member]) -> set[Fifo]:
    return {transfer.fifo for member in members for transfer in member.transfers if transfer.pushes}


def _popped(members: Sequence[Member]) -> set[Fifo]:
    return {transfer.fifo for member in members for transfer in member.transfers if not transfer.pushes}


def _missing(members: Sequence[Member]) -> set[Fifo]:
    return _popped(members) - _pushed(members)


def _is_closed(members: Sequence[Member]) -> bool:
    return _popped(members) == _pushed(members)


def _has_halves(member: Member, peers: Sequence[Transfer]) -> bool:
    """Whether a vector kernel handles halves of the tiles that the cube side handles, other than in pl.split_aiv."""
    if any(not transfer.on_vector for transfer in member.transfers):
        return False
    return any(
        transfer.lane is None and is_half(peer, transfer) for transfer in member.transfers for peer in peers if meets(transfer, peer)
    )  # fmt: skip

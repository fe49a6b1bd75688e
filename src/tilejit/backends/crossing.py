"""What is wrong with the FIFOs of a program, as far as its text says: every backend refuses the same programs in the same words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilejit.errors import ArgumentError, DTypeError, InvalidOperationError, ShapeError, TilejitError, did_you_mean, in_body
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.cross_core import CrossCore, Member, Run
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.transfers import TO_VECTOR, Transfer, is_half, meets, part_of, same_tile
from tilejit.types.values import TileType

_MASKS = {"c2v": 1, "v2c": 2}
_WAYS = {"c2v": "from cube to vector", "v2c": "from vector to cube"}


def check_crossings(cross: CrossCore, program: Program) -> None:
    """Raise the first mistake."""
    if not cross.active:
        return
    for function in program.functions.values():
        _check_pipes(function, [transfer for transfer in cross.every_transfer() if transfer.function == function.symbol])
        _check_imports(function, program)
    alone = [run for name in program.entries if (run := cross.alone(name)) is not None]
    for run in [*cross.runs, *alone]:
        _check_run(run)


def _check_run(run: Run) -> None:
    transfers = run.transfers
    for pop in transfers:
        if pop.pushes:
            continue
        ends = [push for push in transfers if meets(pop, push)]
        if not ends:
            side = "cube" if pop.fifo[0] == TO_VECTOR else "vector"
            raise _error(
                InvalidOperationError,
                f"{pop.title} takes tiles out of FIFO {pop.fifo[1]} {_WAYS[pop.fifo[0]]}, nobody puts any in",
                pop,
                help=f"start the {side} kernel that pushes next to it, in a Group function or in pl.cluster",
            )
        for push in ends:
            if push.split != pop.split:
                raise _error(InvalidOperationError, f"{pop.title} has split={pop.split}, {push.title} has split={push.split}", pop, push)
        if not any(_fits(push, pop) for push in ends):
            kind = DTypeError if all(push.type.dtype is not pop.type.dtype for push in ends) else ShapeError
            raise _error(kind, f"{pop.title} takes {pop.type}, {ends[0].title} sends {ends[0].type}", pop, ends[0], help=_shape_help(ends[0], pop))
    for member in run.members:
        _check_lanes(member, transfers)


def _fits(push: Transfer, pop: Transfer) -> bool:
    """Whether what is pushed can be what is popped, whole or in halves."""
    if same_tile(push.type, pop.type):
        return True
    whole, piece = (push, pop) if push.fifo[0] == TO_VECTOR else (pop, push)
    return part_of(whole.type, piece.type, piece.split, piece.lane) is not None


def _shape_help(push: Transfer, pop: Transfer) -> str:
    if push.type.dtype is not pop.type.dtype:
        return f"convert the tile before it is pushed: pl.cast(…, pl.{pop.type.dtype.name})"
    if pop.split == 0:
        return "with split=0 both sides have the whole tile"
    return "the vector side has the whole tile, or the half that the split gives to each lane"


def _check_lanes(member: Member, transfers: Sequence[Transfer]) -> None:
    """A kernel that handles halves handles nothing else."""
    own = [transfer for transfer in member.transfers if transfer.on_vector and transfer.split and transfer.lane is None]
    halves = [piece for piece in own if any(meets(piece, peer) and is_half(peer, piece) for peer in transfers)]
    wholes = [piece for piece in own if piece not in halves]
    if not halves:
        return
    cube = next((transfer for transfer in member.transfers if not transfer.on_vector), None)
    if cube is not None:
        help = "put the vector part into `for lane in pl.split_aiv(2, mode=…)`, or into a kernel of its own"
        text = f"{halves[0].title} handles half a tile, but the kernel runs on one core with {cube.op.op}"
        raise _error(InvalidOperationError, text, halves[0], cube, help=help)
    if wholes:
        text = f"{halves[0].title} handles half a tile, {wholes[0].title} a whole one"
        raise _error(ShapeError, text, halves[0], wholes[0], help="a kernel runs on both lanes or on one")


def _check_pipes(function: d.FuncOp, transfers: Sequence[Transfer]) -> None:
    """What a kernel says about its pipes must hold; kernels that say nothing are fine."""
    pipes = [(op, apply_args(op)) for op in function.walk() if isinstance(op, d.EffectOp) and op.op.endswith("initialize_pipe")]
    for transfer in transfers:
        same = [(op, args) for op, args in pipes if (args.get("id") or 0) == transfer.fifo[1]]
        if not same:
            continue
        fitting = [args for _, args in same if isinstance(mask := args["dir_mask"], int) and mask & _MASKS[transfer.fifo[0]]]
        if not fitting:
            op, args = same[0]
            text = f"{transfer.op.op}: the pipe of `{function.symbol}` does not go {_WAYS[transfer.fifo[0]]}: dir_mask is {args['dir_mask']}"
            raise _error(ArgumentError, text, transfer, op, help="1 is cube to vector, 2 vector to cube, 3 both")
        size = _bytes(transfer.type)
        slots = [slot for args in fitting if isinstance(slot := args["slot_size"], int)]
        if slots and size > max(slots) * (2 if transfer.split else 1):  # Some count the bytes of a half.
            text = f"{transfer.op.op}: {transfer.type} takes {size} bytes, a slot of the pipe has {max(slots)}"
            raise _error(ShapeError, text, transfer, same[0][0], help=f"slot_size={size}")


def _check_imports(function: d.FuncOp, program: Program) -> None:
    """A buffer of a peer must be one that the peer reserves, where it reserves any."""
    for op in function.walk():
        if not isinstance(op, d.ApplyOp) or op.op != "import_peer_buffer":
            continue
        args = apply_args(op)
        peer = program.functions.get(str(args["peer_func"]))
        if peer is None:
            continue
        reserved = [str(apply_args(own)["name"]) for own in peer.walk() if isinstance(own, d.ApplyOp) and own.op == "reserve_buffer"]
        if reserved and args["name"] not in reserved:
            help = did_you_mean(str(args["name"]), reserved) or f"pl.reserve_buffer(name={args['name']!r}, size=…) in `{peer.symbol}` reserves it"
            raise in_body(ArgumentError)(f"`{peer.symbol}` reserves no buffer {args['name']!r}", span=op.span, help=help)


def _bytes(type: TileType) -> int:
    return -(-type.dtype.bits * math.prod(int(extent) for extent in type.shape) // 8)


def _error(kind: type[TilejitError], message: str, at: Transfer, other: Transfer | d.EffectOp | None = None, help: str | None = None) -> TilejitError:
    error = in_body(kind)(message, span=at.op.span, help=help)
    if isinstance(other, Transfer):
        error.related = ((other.title, other.op.span),)
    elif other is not None:
        error.related = ((other.op, other.span),)
    return error

"""Kernels that run side by side: a cube and a vector function that talk through FIFOs, blocks that meet at barriers."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.calls import Calls
from tests.fuzz.control import store_rows
from tests.fuzz.regions import Helper
from tests.fuzz.values import Val
from tests.fuzz.writer import Writer

SOFT = (
    "core_type='aic_only', mode='soft', gm_workspace={space}, used_cores={one}",
    "core_type='aiv_only', mode='soft', gm_workspace={space}, used_cores={one}",
    "mode='soft', gm_workspace={space}, used_cores={all}",
)
"""Barriers that count in memory: a mixed one counts a cube and two vector cores per block."""


class SideBySide(Calls):
    """Stages of co-scheduled kernels."""

    def fifo(self) -> None:
        """Tiles go from one side to the other, sometimes back; either side may come first in the text."""
        rng = self.rng
        rounds, rows, cols = rng.choice((1, 2, 4)), 2 * rng.choice((1, 2, 4)), rng.choice([c for c in self.entry.cols if c > 1] or [8])
        dtype = rng.choice(("FP32", "FP16", "INT32"))
        forward, back = rng.random() < 0.6, rng.random() < 0.4
        split = rng.choice((0, 0, 1)) if forward else 0
        sender, receiver = (self.side("aic"), self.side("aiv")) if forward else (self.side("aiv"), self.side("aic"))
        there, from_there = ("aiv", "aic") if forward else ("aic", "aiv")
        # Neighbouring pairs run as one group: each has FIFOs of its own.
        first = sum(helper.kind == "aic" for helper in self.helpers) * 2
        channel, answers = (rng.choice(("", ", id=0")) if first == 0 else f", id={first}"), f", id={first + 1}"
        source = sender.new_param("x", (rounds * rows, cols), dtype, sender.style_for(dtype)).as_value()
        shape = (rows // 2, cols) if split else (rows, cols)
        with sender.nested(f"for {self.index(sender, rounds)} in pl.range({rounds}):"):
            i = list(sender.loop_vars)[-1]
            loaded = f"pl.load({source.text}, [{i} * {rows}, 0], [{rows}, {cols}])"
            tile = sender.bind(replace(source, text=loaded, level="tile", shape=(rows, cols), valid=(rows, cols)))
            sent = self.worked_on(sender, tile)
            sender.emit(f"pl.tpush_to_{there}({sent.text}, split={split}{channel})")
            if back and not split:
                answer = self.popped(sender, there, (rows, cols), dtype, 0, answers, sent)
                store_rows(sender, i, rounds)
                sender.emit(f"pl.tfree_to_{there}({answer.text})")
        with receiver.nested(f"for {self.index(receiver, rounds)} in pl.range({rounds}):"):
            i = list(receiver.loop_vars)[-1]
            got = self.popped(receiver, from_there, shape, dtype, split, channel, sent)
            result = self.worked_on(receiver, got)
            if back and not split:
                receiver.emit(f"pl.tpush_to_{from_there}({result.text}, split=0{answers})")
            else:
                out = receiver.output((rounds * rows, cols), result.dtype)
                receiver.note_error(out.name, result.err)
                lane = f" + pl.tile.get_subblock_idx() * {rows // 2}" if split else ""
                receiver.emit(f"pl.store({result.text}, [{i} * {rows}{lane}, 0], {out.name})")
            receiver.emit(f"pl.tfree_to_{from_there}({got.text})")
        self.start_together(sender, receiver, forward)

    def side(self, kind: str) -> Writer:
        w = self.writer(depth=1)
        w.level, w.region, w.symbol = "tile", True, None
        w.side = kind
        return w

    def index(self, w: Writer, rounds: int) -> str:
        name = w.fresh("i")
        w.loop_vars[name] = rounds
        w.scalars[name] = Val(name, "scalar", "INDEX", 0, rounds)
        return name

    def popped(self, w: Writer, peer: str, shape: tuple[int, int], dtype: str, split: int, channel: str, sent: Val) -> Val:
        """A tile from the other side: its type in the call, or in the annotation of its name."""
        name = w.fresh("t")
        if self.rng.random() < 0.5:
            w.emit(f"{name} = pl.tpop_from_{peer}(shape=[{shape[0]}, {shape[1]}], dtype=pl.{dtype}, split={split}{channel})")
        else:
            w.emit(f"{name}: pl.Tile[[{shape[0]}, {shape[1]}], pl.{dtype}] = pl.tpop_from_{peer}(split={split}{channel})")
        value = replace(sent, text=name, shape=shape, valid=shape)
        w.hold(name, value)
        w.frozen.add(name)
        return value

    def worked_on(self, w: Writer, tile: Val) -> Val:
        """A value of the same shape and dtype, computed from a tile."""
        w.frozen.add(tile.text)
        if self.rng.random() < 0.3:
            return tile
        number = 2 if not tile.is_float else 0.5
        return w.bind(w.with_scalar(self.rng.choice(("maximum", "add", "mul")), tile, number))

    def start_together(self, sender: Writer, receiver: Writer, forward: bool) -> None:
        helpers: list[Helper] = []
        for w in (sender, receiver):
            results = [p.name for p in w.params if p.direction == "Out"]
            helper = Helper(self.fresh("helper"), w.side, w, results, silent=True)
            self.helpers.append(helper)
            helpers.append(helper)
        for helper in self.rng.sample(helpers, 2):
            arguments, _ = self.arguments(helper, [])
            self.entry.emit(f"{self.callee(helper)}({', '.join(arguments)})")

    def barrier(self) -> None:
        """Blocks write, meet, and read what another one wrote."""
        w, rng = self.entry, self.rng
        count, cols = rng.choice((2, 3, 4)), rng.choice(w.cols)
        source = w.new_param("x", (count, cols), "FP32", "normal")
        middle, out = w.new_param("io", (count, cols), "FP32", "normal", "InOut"), w.output((count, cols), "FP32")
        for name in (middle.name, out.name):
            w.note_error(name, 0.0)
        block, space = w.fresh("b"), w.fresh("tmp")
        meeting = rng.choice(("", "core_type='aiv_only'", "core_type='aic_only'", "mode='hard'", *SOFT)).format(space=space, one=count, all=3 * count)
        if space in meeting:
            w.emit(f"{space} = pl.create_tensor([64], dtype=pl.INT32, init_value=0)")
        with w.nested(f"for {block} in pl.spmd({count}):"):
            tile, other = w.fresh("t"), w.fresh("t")
            w.emit(f"{tile} = pl.load({source.name}, [{block}, 0], [1, {cols}])")
            w.emit(f"pl.store(pl.neg({tile}), [{block}, 0], {middle.name})")
            w.emit(f"pl.system.syncall({meeting})")
            w.emit(f"{other} = pl.load({middle.name}, [({block} + {rng.randint(1, count)}) % {count}, 0], [1, {cols}])")
            w.emit(f"pl.store({other}, [{block}, 0], {out.name})")

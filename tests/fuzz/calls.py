"""Functions beside the entry, and the ways to start them: calls, submitted tasks, blocks; functions that call functions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from tests.fuzz.regions import AT, SYMBOL, Helper, Regions, shape_text
from tests.fuzz.statements import operate
from tests.fuzz.values import Dim, Val
from tests.fuzz.writer import Param, Writer


class Calls(Regions):
    """A program's helper functions."""

    def call(self, kind: str, level: str) -> None:
        """A helper function, and a call of it with tensors of the entry."""
        w = self.writer(depth=1)
        w.region = kind == "incore"
        w.level = level
        self.hand_down(w)
        if kind == "incore":
            self.hand_through(w)
            self.body(w)
            self.write_results(w, True)
        else:
            scope = kind == "inline" and self.jit and self.rng.random() < 0.3
            with w.nested("with pl.scope():") if scope else nullcontext(), w.nested(AT):
                self.body(w)
                self.write_results(w, True)
        helper = self.finished(kind, w)
        if kind == "inline" and self.jit and any(line.strip() == "with pl.scope():" for line in w.lines):
            helper.options = "(auto_scope=False)"
        self.start(helper)
        if self.rng.random() < 0.15 and not any(p.direction == "InOut" for p in w.params):
            self.start(helper)

    def hand_down(self, w: Writer) -> None:
        """Temporaries of the entry become parameters of a helper."""
        for buffer in self.entry.buffers.values():
            if buffer.text.startswith("tmp") and self.rng.random() < 0.7:
                name = w.fresh("x")
                w.params.append(Param(name, buffer.shape, buffer.dtype, f"={buffer.text}"))
                w.buffers[name] = replace(buffer, text=name)

    def hand_through(self, w: Writer) -> None:
        """A tensor of the entry becomes an output that a helper returns as it is."""
        if self.rng.random() < 0.2:
            name, shape, dtype = self.entry.fresh("tmp"), (self.rng.choice(w.rows), self.rng.choice(w.cols)), w.choose_dtype()
            self.entry.emit(f"{name} = pl.create_tensor({shape_text(shape)}, dtype=pl.{dtype})")
            w.params.append(Param(w.fresh("o"), shape, dtype, f"={name}", "Out"))

    def finished(self, kind: str, w: Writer) -> Helper:
        """The helper that `w` wrote; it says what it returns, unless that goes without saying."""
        results = [p.name for p in w.params if p.direction == "Out"]
        # Rows replaced by index change what they are given: such an input is an output too.
        only_outputs = not any(p.direction == "InOut" for p in w.params) and not any("pl.scatter_update(" in line for line in w.lines)
        handed = any(p.direction == "Out" and p.style.startswith("=") for p in w.params)
        silent = kind != "inline" and self.rng.random() < 0.15 and only_outputs and not handed
        if not silent:
            w.emit(f"return {', '.join(results)}" if results else "return")
        helper = Helper(self.fresh("helper"), kind, w, results, silent)
        self.helpers.append(helper)
        return helper

    def launch(self) -> None:
        """An incore function that asks for its block, launched on several."""
        w = self.writer(depth=1)
        w.level, w.region = "tile", True
        index, count = w.fresh("b"), self.rng.choice((2, 3))
        w.emit(f"{index} = pl.tile.get_block_idx()")
        w.scalars[index] = Val(index, "scalar", "INDEX", 0, count)
        w.block = (index, count)
        self.block_body(w, index, count)
        if not any(p.direction == "Out" for p in w.params):
            return
        helper = self.finished("incore", w)
        if self.rng.random() < 0.4:
            self.submit(helper, count)
            return
        options = self.options("sync_start=True", *self.predicate())
        with self.entry.nested(f"with pl.spmd({count}{options}){self.task(self.entry)}:"):
            self.emit_call(helper)

    def returned(self) -> None:
        """A helper that returns a value, which the caller goes on with."""
        w = self.writer(depth=1)
        w.level, w.region = "tensor", True
        self.plain_body(w)
        found = [v for v in w.env.values() if v.level == "tensor" and v.full and SYMBOL not in v.shape]
        if not found or any(p.direction != "In" for p in w.params):
            return
        value = self.rng.choice(found)
        w.emit(f"return {value.text}")
        helper = Helper(self.fresh("helper"), self.rng.choice(("incore", "inline")) if self.jit else "incore", w, [], value=value)
        self.helpers.append(helper)
        name = self.entry.fresh("v")
        self.emit_call(helper, name)
        self.entry.hold(name, value)
        # Decisions inside kernels may not depend on how the caller holds it.
        self.entry.env[name] = replace(value, text=name, product=True)

    def passed(self, w: Writer) -> None:
        given = [v for v in w.env.values() if v.level == "tile" and all(isinstance(extent, int) for extent in v.shape)]
        given = self.rng.sample(given, min(len(given), self.rng.choice((1, 1, 2))))
        partly = [v for v in w.env.values() if v.level == "tile" and v not in given and not v.full and all(isinstance(extent, int) for extent in v.shape)]
        given += partly[-1:]
        inner, outside = self.writer(depth=1), dict[Dim, Dim]()
        inner.level, inner.region = "tile", True
        for value in given:
            name = inner.fresh("t")
            known = {extent: inner.fresh("n") for extent in value.valid if isinstance(extent, str)}  # names of the caller's, which mean nothing inside
            outside.update({own: extent for extent, own in known.items()})
            inner.params.append(Param(name, value.shape, value.dtype, f"tile={value.text}"))
            inner.hold(name, replace(value, text=name, valid=tuple(known[extent] if isinstance(extent, str) else extent for extent in value.valid)))
        for _ in range(self.rng.choice((1, 2, 3))):
            operate(inner)
        found = inner.pick(lambda v: all(isinstance(extent, int) for extent in v.shape))
        if found is None or len(inner.params) > len(given):  # it asked for tensors, which this caller need not have
            return
        inner.emit(f"return {found.text}")
        helper = Helper(self.fresh("helper"), self.rng.choice(("incore", "incore", "inline")) if self.jit else "incore", inner, [], value=found)
        self.helpers.append(helper)
        name = w.fresh("t")
        w.emit(f"{name} = {self.callee(helper)}({', '.join(value.text for value in given)})")
        w.hold(name, replace(found, valid=tuple(outside.get(extent, extent if isinstance(extent, int) else w.fresh("j")) for extent in found.valid)))

    def middle(self) -> None:
        """A function between the entry and its helpers: it calls them, and has regions of its own."""
        kind = self.rng.choice(("opaque", "inline"))
        outer, self.entry = self.entry, self.writer(depth=1)
        tasks, self.tasks = self.tasks, []
        for _ in range(self.rng.choice((1, 2))):
            self.rng.choice((lambda: self.call("incore", "tile"), lambda: self.region(self.at(self.entry), "tile", True), self.launch))()
        w, self.entry, self.tasks = self.entry, outer, tasks
        if any(p.direction == "Out" for p in w.params):
            self.emit_call(self.finished(kind, w))

    # starting -------------------------------------------------------------------------------------------------------------

    def predicate(self) -> tuple[str, ...]:
        """A comparison that may keep a kernel from running."""
        if self.rng.random() < 0.7:
            return ()
        flag, number = f"{self.entry.config()}[{self.rng.randrange(8)}]", self.rng.randint(0, 3)
        return (f"predicate={self.rng.choice((f'{flag} > {number}', f'{number} < {flag}', f'{flag} != {number}', f'{flag} == {number}'))}",)

    def start(self, helper: Helper) -> None:
        """Call a helper, or submit it."""
        if helper.kind == "incore" and self.rng.random() < 0.3:
            self.submit(helper)
        else:
            self.emit_call(helper)

    def submit(self, helper: Helper, blocks: int | None = None) -> None:
        """`out, tid = pl.submit(self.helper, …)`, with dependencies, predicate, ids in arrays and barriers."""
        w = self.entry
        name = "submit" if blocks is None else "spmd_submit"
        extra = [] if blocks is None else [f"core_num={blocks}"]
        extra += [self.deps()] if self.tasks and self.rng.random() < 0.6 else []
        extra += self.predicate()
        extra += ["allow_early_resolve=True"] if self.rng.random() < 0.1 else []
        arguments, outputs = self.arguments(helper, [])
        tid = w.fresh("tid")
        target = f"{outputs[0] if len(outputs) == 1 else '(' + ', '.join(outputs) + ')'}, {tid}"
        if self.rng.random() < 0.15:
            whole = w.fresh("task")
            w.emit(f"{whole} = pl.{name}({self.callee(helper)}, {', '.join([*arguments, *extra])})")
            w.emit(f"{tid} = {whole}[{len(outputs)}]")
        else:
            w.emit(f"{target} = pl.{name}({self.callee(helper)}, {', '.join([*arguments, *extra])})")
        self.tasks.append(tid)
        if self.rng.random() < 0.2:
            self.remember(tid)

    def remember(self, tid: str) -> None:
        """Ids in an array, a barrier of several, an id that nobody has."""
        w = self.entry
        ids = w.fresh("ids")
        w.emit(f"{ids} = pl.array.create(3, pl.TASK_ID)")
        w.emit(self.rng.choice((f"{ids}[1] = {tid}", f"{ids} = pl.array.update_element({ids}, 1, {tid})")))
        other = w.fresh("tid")
        barriers = (f"pl.system.task_dummy(deps=[{tid}])", f"pl.system.task_dummy(deps=[{ids}[i] for i in range(1, 2)])")
        w.emit(f"{other} = {self.rng.choice((f'{ids}[1]', 'pl.system.task_invalid()', *barriers))}")
        self.tasks.append(other)

    def callee(self, helper: Helper) -> str:
        return helper.name if self.jit else f"self.{helper.name}"

    def emit_call(self, helper: Helper, target: str | None = None) -> None:
        outputs: list[str] = []
        arguments, outputs = self.arguments(helper, outputs)
        if self.jit and self.rng.random() < 0.3:
            names = [p.name for p in helper.writer.params]
            keep = self.rng.randint(0, len(arguments))
            arguments = arguments[:keep] + [f"{n}={a}" for n, a in zip(names[keep:], arguments[keep:], strict=True)]
        left = target or ", ".join(outputs)
        bound = f"{left} = " if left and (target or self.rng.random() < 0.9) else ""
        self.entry.emit(f"{bound}{self.callee(helper)}({', '.join(arguments)})")

    def arguments(self, helper: Helper, outputs: list[str]) -> tuple[list[str], list[str]]:
        """What the entry passes for a helper's parameters, and the names of the outputs among it."""
        entry = self.entry
        arguments: list[str] = []
        for param in helper.writer.params:
            if param.style.startswith("="):
                arguments.append(param.style[1:])
                outputs += [param.style[1:]] if param.direction == "Out" else []
            elif param.direction != "In":
                err = helper.writer.errors.get(param.name, 0.0)
                name = entry.new_param("out" if param.direction == "Out" else "io", param.shape, param.dtype, param.style, param.direction).name
                entry.note_error(name, err)
                if param.direction == "Out":
                    outputs.append(name)
                arguments.append(name)
            else:
                arguments.append(self.argument_for(param))
        return arguments, outputs

    def argument_for(self, param: Param) -> str:
        for known in self.entry.params:
            if known.direction == "In" and replace(known, name=param.name) == param:
                return known.name
        own = replace(param, name=self.fresh("x"))
        self.entry.params.append(own)
        return own.name


def annotation(param: Param, bare: bool) -> str:
    """How a parameter is declared."""
    if param.style.startswith("tile="):
        return f"pl.Tile[{shape_text(param.shape)}, pl.{param.dtype}]"
    if param.style == "scalar":
        return f"pl.{param.dtype}" if bare else f"pl.Scalar[pl.{param.dtype}]"
    tensor = "pl.Tensor" if bare else f"pl.Tensor[{shape_text(param.shape)}, pl.{param.dtype}]"
    return tensor if param.direction == "In" else f"pl.{param.direction}[{tensor}]"

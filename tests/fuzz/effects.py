"""Statements that change no value: barriers, caches, prefetches, marks, checks while compiling, comments."""

from __future__ import annotations

from tests.fuzz.writer import Writer

ANYWHERE = (
    "pass",
    "pl.static_assert(1 + 1 == 2, 'arithmetic')",
    "pl.static_print('fuzz')",
    "'a string that says nothing'",
)
IN_REGIONS = (
    "pl.system.bar_all()",
    "pl.system.bar_m()",
    "pl.system.bar_v()",
    "pl.system.fence()",
    "pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=1)",
    "pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=1)",
    "pl.system.sync_set(3, pipe=pl.PipeType.FIX)",
    "pl.system.sync_wait(3, pipe=pl.PipeType.M, core_type='aic')",
    "pl.system.cacheinvalid()",
    "pl.aic_initialize_pipe(dir_mask=1, slot_size=1024)",
    "pl.aiv_initialize_pipe(pl.reserve_buffer(name='fifo', size=4096), 0, dir_mask=3, slot_size=512, slot_num=4)",
    "pl.aiv_initialize_pipe(pl.import_peer_buffer(name='fifo', peer_func='cube'), dir_mask=2, slot_size=512, id=1)",
)


def inert(w: Writer) -> None:
    """One or two statements without influence on the result."""
    for _ in range(w.rng.choice((1, 2))):
        if w.chance(0.15):
            prefetch(w)
            continue
        choices = [*ANYWHERE, f"# {w.fresh('note n')}"]
        if w.region:
            choices += IN_REGIONS
            buffers = [b for b in w.buffers.values() if b.text in {p.name for p in w.params}]
            if buffers:
                name = w.rng.choice(buffers).text
                choices += [f"pl.system.cacheinvalid({name})", f"pl.dump_tag({name})"]
            if w.chance(0.2):
                choices = [f"pl.system.set_ffts({w.config()})"]
        w.emit(w.rng.choice(choices))


def prefetch(w: Writer) -> None:
    """A prefetch of a tensor, begun and awaited."""
    ctx, session, event = w.fresh("ctx"), w.fresh("session"), w.fresh("event")
    w.emit(f"{ctx} = pl.prefetch.make_context()")
    w.emit(f"{session} = pl.prefetch.session({ctx})")
    inputs = [param.name for param in w.params if param.direction == "In" and param.shape]  # of any rank
    w.emit(f"{event} = pl.prefetch.async_prefetch({w.rng.choice(inputs or [w.config()])}, {ctx})")
    w.emit(f"pl.prefetch.wait({event}, {session})")


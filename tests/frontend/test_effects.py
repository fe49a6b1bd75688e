"""Statements of the op table: they are checked, kept in order, printed, and do nothing unless they write."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.kernels import kernel, run
from tilejit.errors import InvalidOperationError, ParserTypeError, TilejitError
from tilejit.tile_ir import dialect as d

ORDERED = [
    "pl.system.bar_all()",
    "pl.system.bar_m()",
    "pl.system.bar_v()",
    "pl.system.fence()",
    "pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=1)",
    "pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=1)",
    "pl.system.sync_set(13, pipe=pl.PipeType.FIX, ffts_mode=2)",
    "pl.system.sync_wait(0, pipe=pl.PipeType.M, core_type='aic')",
    "pl.system.syncall()",
    "pl.system.syncall(mode='soft', gm_workspace=cfg, used_cores=6)",
    "pl.system.syncall(core_type='aiv_only', mode='soft', gm_workspace=cfg, used_cores=4)",
    "pl.system.syncall(core_type='aic_only')",
    "pl.system.syncall(mode='soft', gm_workspace=cfg, used_cores=pl.system.available_aiv_count())",
    "pl.system.cacheinvalid()",
    "pl.system.cacheinvalid(x)",
    "pl.system.cacheinvalid(x, [2, 4], [0, 8])",
    "pl.system.set_ffts(cfg)",
    "pl.aic_initialize_pipe(dir_mask=1, slot_size=1024)",
    "pl.system.aiv_initialize_pipe(pl.reserve_buffer(name='fifo', size=4096), 0, dir_mask=3, slot_size=512, slot_num=4)",
    "pl.aiv_initialize_pipe(pl.import_peer_buffer(name='fifo', peer_func='cube'), dir_mask=2, slot_size=512, id=1)",
    "pl.dump_tag(x)",
    "pl.system.task_dummy(deps=[])",
]


@pytest.mark.parametrize("statement", ORDERED)
def test_a_statement_is_kept_in_its_place_and_changes_nothing(statement: str) -> None:
    program = kernel(f"t = pl.load(x, [0, 0], [8, 16])\n{statement}\npl.store(t, [0, 0], out)")
    order = [type(op) for op in program.functions["k"].body.block.ops if isinstance(op, d.LoadOp | d.EffectOp | d.StoreOp)]
    assert order == [d.LoadOp, d.EffectOp, d.StoreOp]
    x, out = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32), np.zeros((8, 16), np.float32)
    run(program, x, np.zeros(4, np.int32), out)
    np.testing.assert_array_equal(out, x)


def test_prefetches_leave_nothing_behind() -> None:
    body = """
        ctx = pl.prefetch.make_context()
        session = pl.prefetch.session(ctx)
        event = pl.prefetch.async_prefetch(pl.reshape(x, [128]), ctx)
        pl.prefetch.wait(event, session)
        out[:] = x
    """
    assert not any(isinstance(op, d.EffectOp) for op in kernel(body).functions["k"].walk())


def test_the_machine_has_eight_clusters_of_two_vector_cores() -> None:
    program = kernel("a = pl.system.available_aiv_count()\nb = pl.system.available_cluster_count()\nout[:] = x + pl.cast(a * 100 + b, pl.FP32)")
    x, out = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    run(program, x, np.zeros(4, np.int32), out)
    assert (out == 1609).all()


def test_a_write_by_index_counts_as_a_write_and_names_the_same_tensor() -> None:
    body = "t = pl.load(x, [0, 0], [1, 4])\ni = pl.reshape(pl.load(cfg, [0], [4]), [1, 4])\ny = pl.mscatter(t, i, out)\npl.store(t, [7, 12], y)"
    program = kernel(body)
    assert program.functions["k"].static("directions") == ("In", "In", "Out")
    x, out = np.arange(128, dtype=np.float32).reshape(8, 16) + 1, np.zeros((8, 16), np.float32)
    run(program, x, np.array([17, 0, 5, 100], np.int32), out)
    expected = np.zeros(128, np.float32)
    expected[[17, 0, 5, 100]] = x[0, :4]
    expected[124:128] = x[0, :4]
    np.testing.assert_array_equal(out.ravel(), expected)


FORMS = ["x, -2, index, src", "x, index, src, dim=-2", "x, index, src", "x, -2, index=index, src=src", "input=x, dim=-2, index=index, src=src"]


@pytest.mark.parametrize("arguments", FORMS)
def test_scatter_update_has_several_forms(arguments: str) -> None:
    params = "x: pl.InOut[pl.Tensor[[8, 16], pl.FP32]], index: pl.Tensor[[2, 3], pl.INT32], src: pl.Tensor[[6, 16], pl.FP32]"
    program = kernel(f"pl.scatter_update({arguments})", params)
    rng = np.random.default_rng(1)
    x, src = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (6, 16)))
    index = np.array([[7, 0, 3], [3, 1, 2]], np.int32)
    expected = x.copy()
    expected[7], expected[0], expected[3], expected[1], expected[2] = src[0], src[1], src[3], src[4], src[5]
    run(program, x, index, src)
    np.testing.assert_array_equal(x, expected)


MISTAKES = [
    ("pl.system.sync_set(14, pipe=pl.PipeType.V)", "a constant from 0 to 13 as `event_id`, got 14"),
    ("pl.system.sync_set(1, pipe='V')", "takes a pl.PipeType as `pipe`"),
    ("pl.system.sync_src(set_pipe=pl.PipeType.V, event_id=0)", "needs `wait_pipe`"),
    ("pl.system.sync_wait(1, pipe=pl.PipeType.V, core_type='gpu')", "no core_type 'gpu'"),
    ("pl.system.syncall(mode='firm')", "no mode 'firm'"),
    ("pl.system.syncall(mode='soft')", "takes `gm_workspace` and `used_cores`"),
    ("pl.system.syncall(used_cores=3)", "hard mode takes neither"),
    ("pl.system.syncall(mode='soft', gm_workspace=x, used_cores=3)", "takes INT32 as `gm_workspace`, got FP32"),
    ("pl.system.cacheinvalid(x, [2], [0, 0])", "one entry per dim in `shapes`"),
    ("pl.system.cacheinvalid(shapes=[2, 2])", "only with a tensor"),
    ("pl.system.bar_all(1)", "takes 0 arguments, got 1"),
    ("pl.reserve_buffer(name='', size=3)", "takes a name as `name`"),
    ("pl.reserve_buffer(name='f', size=0)", "a constant of at least 1 as `size`, got 0"),
    ("pl.aic_initialize_pipe(dir_mask=4, slot_size=8)", "from 1 to 3 as `dir_mask`, got 4"),
    ("pl.aic_initialize_pipe(dir_mask=1)", "needs `slot_size`"),
    ("pl.tpush_to_aic(pl.load(x, [0, 0], [8, 16]), split=5)", "from 0 to 4 as `split`, got 5"),
    ("pl.tpush_to_aic(x, split=0)", "takes a tile, got"),
    ("t = pl.tpop_from_aic()", "needs `shape` and `dtype`"),
    ("t = pl.tpop_from_aiv(shape=[8, 8], dtype=3)", "takes a data type as `dtype`"),
    ("pl.system.task_dummy(deps=[3])", "`deps` takes task ids, got 3"),
    ("pl.system.task_dummy(deps=x)", "takes a compile-time value as `deps`"),
    ("pl.prefetch.session(3)", "`ctx` must be a prefetch context, got 3"),
    ("pl.mscatter(pl.load(x, [0, 0], [1, 4]), pl.load(cfg, [0], [4]), out)", "`src` and `idx` of one shape, got [1, 4] and [4]"),
    ("pl.mscatter(pl.load(cfg, [0], [4]), pl.load(cfg, [0], [4]), out)", "`src` of the tensor's dtype FP32, got INT32"),
    ("pl.scatter_update(x, 0, cfg, x)", "`dim` is -2, got 0"),
    ("pl.scatter_update(x, -2, cfg, x)", "an `index` of rank 2, got [4]"),
    ("pl.scatter_update(x, -2, pl.reshape(cfg, [2, 2]), x)", "one row of `src` per index: [2, 2] has 4, [8, 16] has 8"),
    ("pl.scatter_update(x, -2, pl.reshape(x, [2, 64]), x)", "takes INT32, INT64 as `index`, got FP32"),
    ("pl.scatter_update(x)", "needs `index`"),
]


@pytest.mark.parametrize(("statement", "message"), MISTAKES, ids=[text for text, _ in MISTAKES])
def test_misuse_is_named_where_it_stands(statement: str, message: str) -> None:
    with pytest.raises(TilejitError) as caught:
        kernel(f"{statement}\nout[:] = x")
    assert message in caught.value.message
    assert isinstance(caught.value, InvalidOperationError | ParserTypeError)
    assert caught.value.span is not None and caught.value.span.line == 4


@pytest.mark.parametrize("mode", ["UP_DOWN", "LEFT_RIGHT", "NONE"])
def test_each_lane_gets_its_half(mode: str) -> None:
    shape = {"UP_DOWN": "[lane * 4, 0]", "LEFT_RIGHT": "[0, lane * 8]", "NONE": "[0, 0]"}[mode]
    body = f"""
        t = pl.load(x, [0, 0], [8, 16])
        for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):
            half = pl.aiv_shard(t)
            pl.store(pl.add(half, 1.0 + lane), {shape}, out)
    """
    x, out = np.random.default_rng(2).standard_normal((8, 16)).astype(np.float32), np.zeros((8, 16), np.float32)
    run(kernel(body), x, np.zeros(4, np.int32), out)
    add = np.full((8, 16), 2.0, np.float32)
    if mode == "UP_DOWN":
        add[:4] = 1.0
    if mode == "LEFT_RIGHT":
        add[:, :8] = 1.0
    np.testing.assert_array_equal(out, x + add)


def test_a_pop_takes_its_type_from_the_annotation_of_its_target() -> None:
    program = kernel("t: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=0)\npl.store(t, [0, 0], out)")
    (pop,) = (op for op in program.functions["k"].walk() if isinstance(op, d.ApplyOp) and op.op == "tpop_from_aic")
    assert str(d.type_of(pop.results[0])) == "Tile[[8, 16], FP32]"


def test_a_pop_that_nobody_serves_is_refused_before_anything_runs() -> None:
    program = kernel("t = pl.tpop_from_aic(shape=[8, 16], dtype=pl.FP32, split=0)\npl.tfree_to_aic(t)\npl.store(t, [0, 0], out)")
    with pytest.raises(TilejitError, match="nobody puts any in"):
        run(program, np.zeros((8, 16), np.float32), np.zeros(4, np.int32), np.zeros((8, 16), np.float32))

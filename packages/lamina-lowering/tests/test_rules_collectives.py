"""Collectives and mapped calls on replicas of a CPU client, compared with NumPy over the stacked replicas."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ShapeError, UnboundAxisError, Var, dtypes,
                       prims, shaped)
from lamina_ir.extend import place_map
from lamina_lowering import lower
from lamina_lowering.testing import run_lowered

F32, I32 = np.dtype("float32"), np.dtype("int32")
GROUPS = {"axis_index_groups": None}


def program(prim, avals, outs, params):
    ins, results = [Var(a) for a in avals], [Var(o) for o in outs]
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prim, ins, results, params)], results))


def run(prim, x, out, env, **params):
    """Run a collective, where `x[r]` is the operand of replica r; return the stacked results."""
    x = np.asarray(x)
    closed = program(prim, [shaped(x.shape[1:], x.dtype)], [out], params)
    return np.stack([row[0] for row in run_lowered(lower(closed, axis_env=env), x)])


def psum(x, axes, env, groups=None, prim=prims.psum_p):
    x = np.asarray(x)
    return run(prim, x, shaped(x.shape[1:], x.dtype), env, axes=axes, axis_index_groups=groups)


def test_groups_when_axes_are_nested():
    s = shaped((), F32)
    ins, outs = Var(s), [Var(s) for _ in range(3)]
    eqns = [Eqn(prims.psum_p, [ins], [o], {"axes": axes, **GROUPS})
            for o, axes in zip(outs, (("i",), ("j",), ("i", "j")), strict=True)]
    text = lower(ClosedJaxpr(Jaxpr([], [ins], eqns, outs)), axis_env=[("i", 4), ("j", 2)]).as_text("hlo")
    for groups in ("{{0,2,4,6},{1,3,5,7}}", "{{0,1},{2,3},{4,5},{6,7}}", "{{0,1,2,3,4,5,6,7}}"):
        assert f"replica_groups={groups}" in text


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "complex64", "bfloat16", "float16", "int8", "float64"])
def test_psum_over_each_axis_of_two(dtype):
    x = (np.arange(8 * 3).reshape(8, 3) % 7).astype(dtypes.as_dtype(dtype))
    env = [("i", 4), ("j", 2)]
    grid = x.astype(np.complex128).reshape(4, 2, 3)
    for axes, ax in ((("i",), 0), (("j",), 1), (("i", "j"), (0, 1))):
        got = psum(x, axes, env)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.astype(np.complex128),
                                      np.broadcast_to(grid.sum(ax, keepdims=True), grid.shape).reshape(8, 3))


def test_psum_over_a_name_and_a_positional_axis():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    got = run(prims.psum_p, x, shaped((), F32), [("i", 4)], axes=("i", 0), axis_index_groups=None)
    assert got.tolist() == [66.0] * 4


def test_pmax_and_pmin():
    x = np.array([[3., 1.], [-2., 8.], [5., 0.], [1., 1.]], np.float32)
    assert psum(x, ("i",), [("i", 4)], prim=prims.pmax_p).tolist() == [[5., 8.]] * 4
    assert psum(x, ("i",), [("i", 4)], prim=prims.pmin_p).tolist() == [[-2., 0.]] * 4
    b = np.array([[True, False], [False, False]])
    assert psum(b, ("i",), [("i", 2)], prim=prims.pmax_p).tolist() == [[True, False]] * 2
    assert psum(b, ("i",), [("i", 2)], prim=prims.pmin_p).tolist() == [[False, False]] * 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_pmax_and_pmin_keep_nan_and_all_values(dtype):
    x = np.array([[np.nan, 1, -np.inf, 0, 448], [2, -np.nan, -448, -1, 2], [-3, 0.5, np.inf, -2, -7]])
    if dtype == "float8_e4m3fn":
        x[np.isinf(x)] = 440
    x = x.astype(dtypes.as_dtype(dtype))
    for prim, wanted in ((prims.pmax_p, np.max(x.astype(float), 0)), (prims.pmin_p, np.min(x.astype(float), 0))):
        got = psum(x, ("i",), [("i", 3)], prim=prim)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.astype(float), np.stack([wanted] * 3))


def test_psum_over_groups_of_an_axis():
    got = psum(np.arange(4, dtype=np.float32), ("i",), [("i", 4)], groups=[[0, 1], [2, 3]])
    assert got.tolist() == [1., 1., 5., 5.]


@pytest.mark.parametrize("prim,wanted", [(prims.psum_p, [6, 6, 0, 6]), (prims.pmax_p, [3, 3, 0, 3]),
                                         (prims.pmin_p, [1, 1, 0, 1])])
def test_groups_of_unequal_size(prim, wanted):
    x = np.array([3, 1, 0, 2], np.float32)
    assert psum(x, ("i",), [("i", 4)], groups=((0, 3, 1), (2,)), prim=prim).tolist() == wanted
    x, env = np.repeat(x, 2)[:, None], [("i", 2), ("j", 2), ("k", 2)]  # groups over two names, and an axis inside
    got = psum(x, ("i", "j"), env, groups=((0, 3, 1), (2,)), prim=prim)
    assert got[:, 0].tolist() == np.repeat(wanted, 2).tolist()


def test_psum_over_an_axis_of_size_one_needs_no_collective():
    s = shaped((2,), F32)
    lowered = lower(program(prims.psum_p, [s], [s], {"axes": ("i",), **GROUPS}), axis_env=[("i", 1)])
    assert "all_reduce" not in lowered.as_text()


def test_psum_over_an_unbound_axis():
    s = shaped((2,), F32)
    with pytest.raises(UnboundAxisError, match="'k' is not bound; bound here: 'i'"):
        lower(program(prims.psum_p, [s], [s], {"axes": ("k",), **GROUPS}), axis_env=[("i", 1)])


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_all_gather(dtype):
    x = (np.arange(12).reshape(4, 3) % 2).astype(dtype)
    common = dict(axis_name="i", axis_size=4, axis_index_groups=None)
    got = run(prims.all_gather_p, x, shaped((3, 4), x.dtype), [("i", 4)], all_gather_dimension=1, tiled=False, **common)
    assert np.array_equal(got, np.broadcast_to(x.T, (4, 3, 4)))
    got = run(prims.all_gather_p, x, shaped((12,), x.dtype), [("i", 4)], all_gather_dimension=0, tiled=True, **common)
    assert np.array_equal(got, np.broadcast_to(x.reshape(-1), (4, 12)))


def test_psum_scatter():
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    common = dict(axis_name="i", axis_size=4, axis_index_groups=None, scatter_dimension=0)
    got = run(prims.psum_scatter_p, x, shaped((), F32), [("i", 4)], tiled=False, **common)
    assert np.array_equal(got, x.sum(0))
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    got = run(prims.psum_scatter_p, x, shaped((2,), F32), [("i", 4)], tiled=True, **common)
    assert np.array_equal(got, x.sum(0).reshape(4, 2))


@pytest.mark.parametrize("split,concat", [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (2, 1), (1, 2)])
def test_all_to_all(split, concat):
    shape = [3, 5, 2]
    shape[split] = 4
    x = np.arange(4 * np.prod(shape), dtype=np.float32).reshape(4, *shape)
    common = dict(axis_name="i", axis_size=4, axis_index_groups=None, split_axis=split, concat_axis=concat)
    wanted = np.stack([np.stack([np.take(x[d], me, split) for d in range(4)], concat) for me in range(4)])
    got = run(prims.all_to_all_p, x, shaped(wanted.shape[1:], F32), [("i", 4)], tiled=False, **common)
    assert np.array_equal(got, wanted)
    wanted = np.stack([np.concatenate([np.split(x[d], 4, split)[me] for d in range(4)], concat) for me in range(4)])
    got = run(prims.all_to_all_p, x, shaped(wanted.shape[1:], F32), [("i", 4)], tiled=True, **common)
    assert np.array_equal(got, wanted)


def test_ppermute_within_every_group():
    x = np.arange(8, dtype=np.float32)
    got = run(prims.ppermute_p, x, shaped((), F32), [("i", 4), ("j", 2)], axis_name="i",
              perm=((0, 1), (1, 2), (2, 3)))
    assert got.tolist() == [0., 0., 0., 1., 2., 3., 4., 5.]
    with pytest.raises(ShapeError, match="each source in perm"):
        run(prims.ppermute_p, x, shaped((), F32), [("i", 8)], axis_name="i", perm=((0, 1), (0, 2)))


def test_axis_index():
    def index(name):
        closed = program(prims.axis_index_p, [], [shaped((), I32)], {"axis_name": name})
        return [row[0].item() for row in run_lowered(lower(closed, axis_env=[("i", 4), ("j", 2)]))]
    assert index("i") == [0, 0, 1, 1, 2, 2, 3, 3]
    assert index("j") == [0, 1] * 4
    assert index(("i", "j")) == list(range(8))


def pmap_program(in_axes=(0, None), out_axes=(0, 1, None), size=4):
    """pmap over "i" of (x, y) -> (x + y, x + y, psum(x)), x: f32[3]."""
    s = shaped((3,), F32)
    x, y, z, total = (Var(s) for _ in range(4))
    body = ClosedJaxpr(Jaxpr([], [x, y], [
        Eqn(prims.add_p, [x, y], [z], {}), Eqn(prims.psum_p, [x], [total], {"axes": ("i",), **GROUPS})],
        [z, z, total]))
    ins = [Var(shaped((size, 3), F32)), Var(s)]
    outs = [Var(shaped(shape, F32)) for shape in ((size, 3), (3, size), (3,))]
    params = dict(axis_name="i", axis_size=size, backend=None, call_jaxpr=body, devices=None,
                  donated_invars=(False, False), global_arg_shapes=(None, None), global_axis_size=size,
                  in_axes=in_axes, name="f", out_axes=out_axes)
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prims.xla_pmap_p, ins, outs, params)], outs))


def test_single_pmap_is_split_over_its_members():
    lowered = lower(pmap_program())
    assert lowered.placement.grid == (1, 4) and lowered.shardy and "sdy.manual_computation" in lowered.as_text()
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1., 2., 3.], np.float32)
    a, b, c = run_lowered(lowered, x, y)
    assert np.array_equal(a, x + y)
    assert np.array_equal(b, (x + y).T)
    assert np.array_equal(c, x.sum(0))


def test_pmap_within_a_replicated_program_is_refused():
    with pytest.raises(ShapeError, match="leave out axis_env"):
        lower(pmap_program(), axis_env=[("outer", 2)])


def test_pmap_inside_a_program_cannot_choose_devices():
    closed = pmap_program()
    closed.eqns[0].params["devices"] = ("cpu:0",)
    with pytest.raises(ValueError, match="devices"):
        lower(closed)


def test_literal_operand_of_a_collective():
    s = shaped((), F32)
    out = Var(s)
    closed = ClosedJaxpr(Jaxpr([], [], [Eqn(prims.psum_p, [Literal(2.0, s)], [out], {"axes": ("i",), **GROUPS})],
                               [out]))
    assert [row[0].item() for row in run_lowered(lower(closed, axis_env=[("i", 4)]))] == [8.0] * 4


def test_pmap_over_thousands_of_processes():
    """Fake devices: the groups span the members on all processes, the types are those of one member."""
    rows, processes = 2, 4096
    x = Var(shaped((rows, 3), F32))
    row, total = Var(shaped((3,), F32)), Var(shaped((3,), F32))
    psum = Eqn(prims.psum_p, [row], [total], {"axes": ("i",), "axis_index_groups": None})
    body = ClosedJaxpr(Jaxpr([], [row], [psum], [total]))
    y = Var(shaped((rows, 3), F32))
    params = dict(axis_name="i", axis_size=rows, backend=None, call_jaxpr=body, devices=None, donated_invars=(False,),
                  global_arg_shapes=(None,), global_axis_size=rows * processes, in_axes=(0,), name="f", out_axes=(0,))
    closed = ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.xla_pmap_p, [x], [y], params)], [y]))
    place = place_map(closed, range(rows * processes), range(rows))
    text = lower(closed, placement=place).as_text()
    assert f"mhlo.num_replicas = {rows * processes} : i32" in text and "tensor<1x8192xi64>" in text
    assert "%arg0: tensor<1x3xf32>" in text

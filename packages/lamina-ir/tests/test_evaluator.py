"""NumPy evaluation: exact types, liveness, calls, and devices in lockstep."""
import gc
import weakref

import numpy as np
import pytest

from lamina_ir import (DTypeError, Eqn, ExecutionError, Jaxpr, MissingRuleError, Primitive, ShapeError,
                       UnboundAxisError, Var, aval_of, config, evaluate, evaluate_primitive, evaluate_spmd, parse, prims)
from lamina_ir.testing import samples
from lamina_ir.testing.programs import NOTEBOOK, chain
from lamina_ir.testing.samples.collectives import AXES, per_device

ROWS = [row for prim in prims.ALL for row in samples.samples_of(prim)]
LOCAL = [row for row in ROWS if not row.prim.axis_params]
SHARED = [row for row in ROWS if row.prim.axis_params]


@pytest.mark.parametrize("row", LOCAL, ids=lambda row: row.id)
def test_results_have_exactly_the_inferred_types(row):
    want = row.prim.infer(*map(aval_of, row.args), **row.params)
    got = evaluate_primitive(row.prim, row.args, row.params)
    for x, aval in zip(got if row.prim.multiple else [got], want if row.prim.multiple else [want], strict=True):
        assert type(x) is np.ndarray and x.shape == aval.shape and x.dtype == aval.dtype


@pytest.mark.parametrize("row", SHARED, ids=lambda row: row.id)
def test_collectives_have_exactly_the_inferred_types_on_every_device(row):
    want = row.prim.infer(*map(aval_of, row.args), **row.params)
    out = row.prim.numpy(AXES, *per_device(row), **row.params)
    for xs, aval in zip(out if row.prim.multiple else [out], want if row.prim.multiple else [want], strict=True):
        assert len(xs) == AXES.size
        assert all(x.shape == aval.shape and x.dtype == aval.dtype for x in xs)


@pytest.mark.parametrize("row", [r for r in SHARED if r.args], ids=lambda row: row.id)
def test_collectives_outside_mapped_axes_are_unbound(row):
    with pytest.raises(UnboundAxisError, match="is not bound; bound here: none"):
        evaluate_primitive(row.prim, row.args, row.params)


def test_arguments_are_checked():
    program = parse("{ lambda ; a:f32[2]. let b:f32[2] = neg a in (b,) }")
    assert evaluate(program, np.ones(2))[0].dtype == np.float32  # float64 narrows in 32-bit mode
    with pytest.raises(ShapeError, match=r"argument 0 must be float32\[2\]; got float32\[3\]"):
        evaluate(program, np.ones(3, np.float32))
    with pytest.raises(DTypeError, match=r"got int32\[2\]"):
        evaluate(program, np.ones(2, np.int32))
    with pytest.raises(ShapeError, match="takes 1 arguments; got 2"):
        evaluate(program, 1, 2)


def test_dead_values_are_released(monkeypatch):
    alive = []

    def meaning(x):
        gc.collect()
        alive.append(sum(r() is not None for r in refs))
        out = np.asarray(x + 1)
        refs.append(weakref.ref(out))
        return out
    refs = []
    program = chain(6)
    monkeypatch.setattr(prims.sin_p, "numpy", meaning)
    evaluate(program, np.float32(0).reshape(()))
    assert max(alive) <= 1


def test_long_programs_run():
    assert evaluate(chain(5000), 0.0)[0] == 0


@pytest.mark.parametrize("name", NOTEBOOK)
def test_notebook_programs_compute_row_wise_dots(name):
    if name == "pmap of vdot":
        return
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 8, 3)).astype(np.float32)
    np.testing.assert_allclose(evaluate(NOTEBOOK[name][0], x, y)[0], (x * y).sum(1), rtol=1e-5)


def spmd(op, *values, size=4):
    """Evaluate one equation on `size` devices along axis i; `op` is its text, with operand `a` and result `b`."""
    (first, *_), = [values]
    text = f"{{ lambda ; a:{aval_of(first[0]).str_short()}. let {op} in (b,) }}"
    return evaluate_spmd(parse(text), [("i", size)], [first])[0]


X = [np.arange(4, dtype=np.float32) + 10 * d for d in range(4)]
G = "axis_index_groups=None axis_name=i axis_size=4"


@pytest.mark.parametrize(("op", "want"), [
    ("b:f32[4] = psum[axes=(i,) axis_index_groups=None] a", lambda s: [s.sum(0)] * 4),
    ("b:f32[4] = psum[axes=(i,) axis_index_groups=((0, 3), (1, 2))] a",
     lambda s: [s[0] + s[3], s[1] + s[2], s[1] + s[2], s[0] + s[3]]),
    ("b:f32[] = psum[axes=(0, i) axis_index_groups=None] a", lambda s: [s.sum()] * 4),
    ("b:f32[4] = pmax[axes=(i,) axis_index_groups=None] a", lambda s: [s.max(0)] * 4),
    ("b:f32[4] = pmin[axes=(i,) axis_index_groups=None] a", lambda s: [s.min(0)] * 4),
    (f"b:f32[4,4] = all_gather[all_gather_dimension=1 {G} tiled=False] a", lambda s: [s.T] * 4),
    (f"b:f32[16] = all_gather[all_gather_dimension=0 {G} tiled=True] a", lambda s: [s.reshape(-1)] * 4),
    (f"b:f32[] = psum_scatter[{G} scatter_dimension=0 tiled=False] a", lambda s: list(s.sum(0))),
    (f"b:f32[1] = psum_scatter[{G} scatter_dimension=0 tiled=True] a", lambda s: list(s.sum(0)[:, None])),
    (f"b:f32[4] = all_to_all[{G} concat_axis=0 split_axis=0 tiled=False] a", lambda s: list(s.T)),
    (f"b:f32[4] = all_to_all[{G} concat_axis=0 split_axis=0 tiled=True] a", lambda s: list(s.T)),
    ("b:f32[4] = ppermute[axis_name=i perm=((0, 1), (1, 2))] a", lambda s: [s[0] * 0, s[0], s[1], s[0] * 0]),
    ("b:i32[] = axis_index[axis_name=i]", lambda s: [0, 1, 2, 3])])
def test_collectives(op, want):
    got = spmd(op, X)
    for g, w in zip(got, want(np.stack(X)), strict=True):
        np.testing.assert_array_equal(g, w)


NESTED = parse("""{ lambda ; a:f32[2,3]. let
    b:f32[2,3] = xla_pmap[
      axis_name=i axis_size=2 backend=None
      call_jaxpr={ lambda ; c:f32[3]. let
          d:f32[3] = xla_pmap[
            axis_name=j axis_size=3 backend=None
            call_jaxpr={ lambda ; e:f32[]. let
                f:f32[] = xla_call[call_jaxpr={ lambda ; g:f32[]. let
                    h:f32[] = psum[axes=(i,) axis_index_groups=None] g
                  in (h,) } name=s] e
                k:f32[] = psum[axes=(j,) axis_index_groups=None] e
                l:f32[] = sub f k
              in (l,) }
            devices=None donated_invars=(False,) global_arg_shapes=(None,) global_axis_size=None
            in_axes=(0,) name=g out_axes=(0,)] c
        in (d,) }
      devices=None donated_invars=(False,) global_arg_shapes=(None,) global_axis_size=None
      in_axes=(0,) name=f out_axes=(0,)] a
  in (b,) }""")


def test_nested_mapped_calls_and_calls_inside_them():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(evaluate(NESTED, x)[0], np.broadcast_to(x.sum(0), (2, 3)) - x.sum(1, keepdims=True))


def test_mapped_axes_and_unmapped_operands_and_results():
    row, = samples.samples_of(prims.xla_pmap_p)
    x, y = row.args
    first, second = evaluate_primitive(row.prim, row.args, row.params)
    np.testing.assert_allclose(first, x * y + 1, rtol=1e-6)
    np.testing.assert_allclose(second, np.sin(x).T, rtol=1e-6)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: prims.xla_pmap_p.infer(aval_of(np.ones(2)), **NESTED.eqns[0].params), "takes float32.* as operand 0"),
    (lambda: prims.xla_pmap_p.infer(aval_of(np.ones((3, 3))), **NESTED.eqns[0].params), "must have the axis_size 2"),
    (lambda: prims.xla_call_p.infer(call_jaxpr=NESTED, name="f"), "takes 1 operands; got 0"),
    (lambda: prims.psum_scatter_p.infer(aval_of(np.ones(5)), axis_index_groups=None, axis_name="i", axis_size=4,
                                        scatter_dimension=0, tiled=True), "multiple of the size of the mapped axis 'i', 4"),
    (lambda: prims.all_to_all_p.infer(aval_of(np.ones(5)), axis_index_groups=None, axis_name="i", axis_size=4,
                                      concat_axis=0, split_axis=0, tiled=False), "have the size of the mapped axis 'i', 4"),
    (lambda: prims.pmax_p.infer(aval_of(1j), axes=("i",), axis_index_groups=None), "pmax: complex numbers have no order"),
    (lambda: prims.psum_p.infer(aval_of(1.0), axes=("i", True), axis_index_groups=None), "psum: expected names .* got True"),
    (lambda: prims.psum_p.infer(aval_of(1.0), axes=("i",), axis_index_groups=((0, 2),)), "psum: axis_index_groups must hold"),
    (lambda: prims.all_gather_p.infer(aval_of(1.0), all_gather_dimension=0, axis_index_groups=((0,), (1,)), axis_name="i",
                                      axis_size=2, tiled=False), "axis_size 2 must be the size of each group"),
    (lambda: prims.axis_index_p.infer(axis_name=0), "axis_index: expected names"),
    (lambda: prims.ppermute_p.infer(aval_of(1.0), axis_name="i", perm=((0, 1), (0, 2))), "each source in perm"),
    (lambda: prims.all_gather_p.infer(aval_of(1.0), all_gather_dimension=1, axis_index_groups=None, axis_name="i",
                                      axis_size=4, tiled=False), "expected 0 <= all_gather_dimension < 1")])
def test_type_errors_of_calls_and_collectives(call, words):
    with pytest.raises((ShapeError, DTypeError, TypeError), match=words):
        call()


def test_psum_of_booleans_is_rejected():
    with pytest.raises(DTypeError, match="psum: expected numbers"):
        prims.psum_p.infer(aval_of(True), axes=("i",), axis_index_groups=None)


def test_mapped_call_without_spmd_rule_is_rejected(monkeypatch):
    program = NESTED.eqns[0].params["call_jaxpr"]
    monkeypatch.setattr(prims.xla_pmap_p, "spmd", None)
    with pytest.raises(MissingRuleError, match="spmd="):
        evaluate_spmd(program, [("i", 2)], [list(np.ones((2, 3), np.float32))])


def test_open_programs_without_constants_are_accepted():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    assert evaluate(program.jaxpr, 0.0)[0] == 0 and evaluate_spmd(program.jaxpr, [("i", 2)], [[0.0, 0.0]])[0] == [0, 0]
    with pytest.raises(TypeError, match=r"evaluate: .* 1 constants without values. Pass ClosedJaxpr"):
        evaluate(parse("{ lambda c:f32[] ; a:f32[]. let b:f32[] = add a c in (b,) }"), 0.0)
    with pytest.raises(TypeError, match="evaluate: expected a ClosedJaxpr; got str"):
        evaluate("{ lambda ; . let in () }")


BIG = parse("{ lambda ; a:f32[]. let b:f32[80000,80000] = broadcast_in_dim[shape=(80000, 80000) "
            "broadcast_dimensions=()] a in (b,) }")


def test_programs_above_memory_limit_are_rejected():
    with pytest.raises(ExecutionError, match=r"25,600,000,004 bytes at `b:f32\[80000,80000\] = .*evaluate_max_bytes allows"):
        evaluate(BIG, 1.0)
    with pytest.raises(ExecutionError, match="51,200,000,008 bytes"):
        evaluate_spmd(BIG, [("i", 2)], [[1.0, 1.0]])
    small = parse("{ lambda ; a:f32[9]. let b:f32[9] = sin a c:f32[9] = cos b d:f32[9] = tan c in (d,) }")
    with config.evaluate_max_bytes(71), pytest.raises(ExecutionError, match="72 bytes"):
        evaluate(small, np.zeros(9))
    with config.evaluate_max_bytes(72):  # one operand and one result at a time
        evaluate(small, np.zeros(9))
    with pytest.raises(ValueError, match="evaluate_max_bytes: expected an integer of at least 0"):
        config.evaluate_max_bytes.set(-1)


def test_primitive_without_numpy_evaluation_is_reported():
    prim = Primitive("mute", infer=lambda x: x)
    message = r"`mute` has no NumPy evaluation.*Primitive\('mute', numpy=...\)"
    with pytest.raises(MissingRuleError, match=message):
        evaluate_primitive(prim, [np.float32(1)], {})
    x, y = Var(aval_of(np.float32(1))), Var(aval_of(np.float32(1)))
    with pytest.raises(MissingRuleError, match=message):
        evaluate(Jaxpr([], [x], [Eqn(prim, [x], [y], {})], [y]), 1.0)


def test_exception_inside_primitive_becomes_execution_error():
    program = parse("{ lambda ; a:i32[1]. let b:i32[3] = lu_pivots_to_permutation[permutation_size=3] a in (b,) }")
    with pytest.raises(ExecutionError, match=r"`lu_pivots_to_permutation` failed: IndexError"):
        evaluate(program, np.int32([7]))

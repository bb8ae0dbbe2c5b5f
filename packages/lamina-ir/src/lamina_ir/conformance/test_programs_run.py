"""Regions, maps, random bits and effects: evaluation compared with plain Python."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import AxisEnv, ShapeError, UnboundAxisError, aval_of, evaluate, evaluate_primitive, evaluate_spmd, parse, prims
from lamina_ir.extend import register_host_function
from lamina_ir.testing.samples import samples_of

X, Y = np.float32([0.5, 1, 2]), np.float32([3, -1, 0.25])
AFFINE = "{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = mul a b d:f32[3] = add c 1.0:f32[] in (d, c) }"


def close(got: Any, want: Any) -> None:
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-6)


def test_equations_run_in_order():
    close(evaluate(parse(AFFINE), X, Y), [X * Y + 1, X * Y])
    close(evaluate(parse("{ lambda ; a:f32[3]. let  in (a, 2.0:f32[], a) }"), X), [X, 2, X])


@pytest.mark.parametrize("sample", [s for p in prims.ALL if p.family != "collectives" for s in samples_of(p)],
                         ids=lambda s: s.id)
def test_results_have_inferred_types(sample):
    out = evaluate_primitive(sample.prim, sample.args, sample.params)
    avals = sample.prim.infer(*map(aval_of, sample.args), **sample.params)
    pairs = zip(out, avals, strict=True) if sample.prim.multiple else [(out, avals)]
    assert all((np.shape(o), np.asarray(o).dtype) == (a.shape, a.dtype) for o, a in pairs)


@pytest.mark.parametrize(("args", "words"), [
    ((X,), "2"), ((X, Y[:2]), "f32|float32"), ((X, Y, Y), "2"), ((X, Y > 0), "float32|f32")])
def test_wrong_arguments_are_rejected(args, words):
    with pytest.raises((TypeError, ValueError), match=words):
        evaluate(parse(AFFINE), *args)


def test_call_runs_its_program():
    call = f"xla_call[call_jaxpr={AFFINE} name=f]"
    program = parse(f"{{ lambda ; x:f32[3] y:f32[3]. let p:f32[3] q:f32[3] = {call} y x in (q, p) }}")
    close(evaluate(program, X, Y), [X * Y, X * Y + 1])


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 9])
def test_cond_runs_branch_of_index(index):
    one, two, three = (parse(f"{{ lambda ; a:f32[3]. let b:f32[3] = {op} a in (b,) }}") for op in ("neg", "sin", "exp"))
    got = evaluate_primitive(prims.cond_p, [np.int32(index), X], {"branches": (one, two, three)})
    close(got, [[np.negative, np.sin, np.exp][index if 0 <= index < 3 else 2](X)])  # out of range: the last branch


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 5])
def test_scan_equals_loop(reverse, unroll):
    body = parse("{ lambda ; w:f32[] c:f32[] x:f32[]. let d:f32[] = mul c w e:f32[] = add d x f:f32[] = mul c x in (e, f) }")
    xs = np.float32([1, 2, 3, 4])
    end, ys = evaluate_primitive(prims.scan_p, [np.float32(2), np.float32(1), xs],
                                 dict(jaxpr=body, length=4, num_carry=1, num_consts=1, reverse=reverse, unroll=unroll))
    c, want = 1.0, np.zeros(4)
    for i in range(3, -1, -1) if reverse else range(4):
        want[i], c = c * xs[i], 2 * c + xs[i]
    close([end, ys], [c, want])


@pytest.mark.parametrize(("start", "bound"), [(1, None), (500, None), (1, 3), (1, 0)])
def test_while_loop_tests_before_first_iteration(start, bound):
    test = parse("{ lambda ; a:i32[]. let b:bool[] = lt a 100:i32[] in (b,) }")
    body = parse("{ lambda ; a:i32[]. let b:i32[] = mul a 3:i32[] in (b,) }")
    got = evaluate_primitive(prims.while_p, [np.int32(start)], dict(cond_jaxpr=test, cond_nconsts=0, body_jaxpr=body,
                                                                    body_nconsts=0, max_iters=bound))
    n = 0
    while start < 100 and (bound is None or n < bound):
        start, n = start * 3, n + 1
    close(got, [start])


def test_custom_rule_calls_run_their_programs():
    x, k = X, np.float32(2)
    for prim in (prims.custom_jvp_call_p, prims.custom_vjp_call_p, prims.remat_p):
        sample = samples_of(prim)[0]
        close(evaluate_primitive(prim, [x, k], sample.params), [np.sin(x) * k, np.cos(x)])
    for prim, args in ((prims.name_p, [X]), (prims.optimization_barrier_p, [X, Y]), (prims.to_memory_p, [X]),
                       (prims.sharding_constraint_p, [np.ones((4, 6), np.float32)])):
        out = evaluate_primitive(prim, args, samples_of(prim)[0].params)
        close(out if prim.multiple else [out], args)


@pytest.mark.collectives
def test_xla_pmap_equals_loop_over_members():
    program = parse("""{ lambda ; x:f32[2,3] y:f32[3]. let
        p:f32[2,3] q:f32[3,2] = xla_pmap[axis_name=i axis_size=2 backend=None
          call_jaxpr={ lambda ; a:f32[3] b:f32[3]. let
              c:f32[3] = psum[axes=('i',) axis_index_groups=None] a
              d:f32[3] = mul a b in (c, d) }
          devices=None donated_invars=(False, False) global_arg_shapes=(None, None) global_axis_size=None
          in_axes=(0, None) name=f out_axes=(0, 1)] x y
      in (p, q) }""")
    rows = np.stack([X, Y])
    close(evaluate(program, rows, Y), [np.stack([X + Y] * 2), (rows * Y).T])


N = 4
MEMBERS = [np.float32([k, 10 * k, k * k, 1]) for k in range(1, N + 1)]
STACKED = np.stack(MEMBERS)
COLLECTIVES = {
    "psum[axes=('i',) axis_index_groups=None]": [STACKED.sum(0)] * N,
    "pmax[axes=('i',) axis_index_groups=None]": [STACKED.max(0)] * N,
    "pmin[axes=('i',) axis_index_groups=None]": [STACKED.min(0)] * N,
    "psum[axes=('i',) axis_index_groups=((0, 2), (3, 1))]": [MEMBERS[0] + MEMBERS[2], MEMBERS[1] + MEMBERS[3]] * 2,
    "psum[axes=(0, 'i') axis_index_groups=None]": [STACKED.sum()] * N,
    "all_gather[all_gather_dimension=1 axis_index_groups=None axis_name=i axis_size=4 tiled=False]": [STACKED.T] * N,
    "all_gather[all_gather_dimension=0 axis_index_groups=None axis_name=i axis_size=4 tiled=True]": [STACKED.reshape(-1)] * N,
    "psum_scatter[axis_index_groups=None axis_name=i axis_size=4 scatter_dimension=0 tiled=False]": list(STACKED.sum(0)),
    "all_to_all[axis_index_groups=None axis_name=i axis_size=4 concat_axis=0 split_axis=0 tiled=True]": list(STACKED.T),
    "ppermute[axis_name=i perm=((0, 1), (3, 0))]": [MEMBERS[3], MEMBERS[0], 0 * X[0] + np.zeros(4), np.zeros(4)],
}


@pytest.mark.collectives
@pytest.mark.parametrize("op", COLLECTIVES, ids=lambda op: op.partition("[")[0])
def test_collectives_equal_their_definition(op):
    want = [np.asarray(w, np.float32) for w in COLLECTIVES[op]]
    shape = ",".join(map(str, want[0].shape))
    plain = f"a:f32[4] = {op} a0" if op.startswith(("all_gather", "psum_scatter", "all_to_all", "ppermute")) else f"a = {op} a0"
    text = "{{ lambda ; a0:f32[4]{{i}}. let {} in (a,) }}"
    over = "" if ("psum[" in op or "pmax" in op or "pmin" in op or "all_gather" in op) and "((" not in op else "{i}"
    program = parse(text.format(plain.replace("a:f32[4] =", "a =").replace("a =", f"a:f32[{shape}]{over} =", 1)))
    got, = evaluate_spmd(program, AxisEnv([("i", N)]), [MEMBERS])
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), w)


@pytest.mark.collectives
def test_axis_index_of_several_axes_is_row_major():
    env = AxisEnv([("i", 2), ("j", 3)])
    for names, want in (("i", [0, 0, 0, 1, 1, 1]), ("j", [0, 1, 2] * 2), (("i", "j"), list(range(6))),
                        (("j", "i"), [0, 2, 4, 1, 3, 5])):
        assert [int(v) for v in prims.axis_index_p.numpy(env, axis_name=names)] == want


@pytest.mark.collectives
def test_unbound_axis_is_rejected():
    program = parse("{ lambda ; a:f32[3]. let b:f32[3] = psum[axes=('i',) axis_index_groups=None] a in (b,) }")
    with pytest.raises(UnboundAxisError, match="i"):
        evaluate(program, X)


def test_random_bits_equal_published_threefry_results():
    """Key and counter of zeros, of ones, and of the digits of pi."""
    for counters, want in (((0, 0, 0, 0), (0x6B200159, 0x99BA4EFE)), ((0xFFFFFFFF,) * 4, (0x1CB996FC, 0xBB002BE7)),
                        ((0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0))):
        out = evaluate_primitive(prims.threefry2x32_p, [np.uint32(w) for w in counters], {})
        assert tuple(int(v) for v in out) == want


def test_generator_is_deterministic_and_advances_its_state():
    for sample in samples_of(prims.rng_bit_generator_p):
        state, first = evaluate_primitive(sample.prim, sample.args, sample.params)
        _, again = evaluate_primitive(sample.prim, sample.args, sample.params)
        _, then = evaluate_primitive(sample.prim, [state], sample.params)
        np.testing.assert_array_equal(first, again)
        assert first.size < 3 or not np.array_equal(first, then)


def test_random_wrap_and_unwrap_round_trip():
    words = np.uint32([3, 4])
    key = evaluate_primitive(prims.random_wrap_p, [words], samples_of(prims.random_wrap_p)[0].params)
    np.testing.assert_array_equal(evaluate_primitive(prims.random_unwrap_p, [key], {"use": "data"}), words)


@pytest.mark.order
def test_effects_run_once_and_in_order():
    seen: list[Any] = []
    fun = register_host_function("noted_by_contract", lambda x: (seen.append(float(x)), ())[1])
    params = dict(callback=fun, batch=(), indexed=False, mapped=(), ordered=True, threaded=False)
    for x in (1, 2, 3):
        evaluate_primitive(prims.debug_callback_p, [np.float32(x)], params)
    assert seen == [1, 2, 3]


def test_host_functions_receive_values():
    sample = samples_of(prims.pure_callback_p)[0]
    close(evaluate_primitive(sample.prim, [np.int32([1, 2, 3]), np.int32([10, 20, 30])], sample.params), [[11, 22, 33]])


def test_primitive_with_wrong_operands_is_rejected_by_name():
    for prim, args, params in ((prims.add_p, [X, Y[:2]], {}), (prims.reduce_sum_p, [X], {"axes": (3,)}),
                               (prims.reshape_p, [X], {"new_sizes": (2,), "dimensions": None})):
        with pytest.raises((ShapeError, TypeError, ValueError), match=prim.name):
            evaluate_primitive(prim, args, params)

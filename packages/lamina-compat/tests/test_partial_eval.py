"""Partial evaluation, dead code and staging in JAX's form, compared with evaluation of the whole function."""
import itertools

import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_batching import vmap
from lamina_compat._vocabulary import make_jaxpr, pjit_p
from lamina_compat.names.core import jaxpr_as_fun
from lamina_compat.names.interpreters import mlir
from lamina_compat.names.interpreters import partial_eval as pe
from lamina_ir import ClosedJaxpr, Primitive, ShapeDtypeStruct
from lamina_tracing import jit, lax, linear_util
from lamina_tracing.extend import typeof

ARGS = (np.float32(0.5), np.arange(3, dtype="float32"), np.float32(2))


def plain(a, b, c):
    d = lax.sin(a)
    return [d, d * b, b + c, c * 2, lax.neg(a)]


def with_call(a, b, c):
    f = jit(lambda x, y: (lax.exp(x), x * y))
    e, g = f(a, c)
    return [e, g + b, *f(b, b)]


def with_loop(a, b, c):
    (i, x, y), zs = lax.scan(lambda s, z: ((s[0] + 1, s[1] * a, s[2] + z), s[2] * c), (0, c, b[0]), b)
    return [i, x, y, zs]


def with_cond(a, b, c):
    return [*lax.cond(a > 0, lambda: (b * 2, c), lambda: (b, c + 1)), a]


def with_while(a, b, c):
    return [lax.while_loop(lambda s: s < 10, lambda s: s * 2 + a, c), lax.fori_loop(0, 3, lambda i, x: x * b, b)]


FUNCTIONS = [plain, with_call, with_loop, with_cond, with_while]
MASKS = list(itertools.product((False, True), repeat=3))
INSTANTIATE = (False, True)


def check(found, wanted):
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted):
        assert typeof(x).dtype == typeof(y).dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)


def close(jaxpr):
    return ClosedJaxpr(jaxpr, [])


@pytest.mark.parametrize("fun", FUNCTIONS)
@pytest.mark.parametrize("instantiate", INSTANTIATE)
def test_two_parts_of_a_program_equal_the_program(fun, instantiate):
    program = make_jaxpr(fun)(*ARGS)
    for unknown in MASKS:
        first, second, out_unknown, residuals = pe.partial_eval_jaxpr_nounits(program, unknown, instantiate)
        if instantiate:
            assert all(out_unknown)
        results = jaxpr_as_fun(first)(*[x for x, u in zip(ARGS, unknown) if not u])
        count = len(out_unknown) - sum(out_unknown)
        known, values = results[:count], results[count:]
        assert [typeof(v).shape for v in values] == [a.shape for a in residuals]
        late = iter(jaxpr_as_fun(second)(*values, *[x for x, u in zip(ARGS, unknown) if u]))
        early = iter(known)
        check([next(late) if u else next(early) for u in out_unknown], fun(*ARGS))


@pytest.mark.parametrize("fun", FUNCTIONS)
@pytest.mark.parametrize("instantiate", INSTANTIATE)
def test_known_values_are_computed_and_the_rest_is_staged(fun, instantiate):
    for unknown in MASKS:
        pvals = [pe.PartialVal.unknown(typeof(x)) if u else pe.PartialVal.known(x) for x, u in zip(ARGS, unknown)]
        jaxpr, results, consts = pe.trace_to_jaxpr_nounits(linear_util.wrap_init(fun), pvals, instantiate)
        assert len(jaxpr.invars) == sum(unknown)
        if instantiate:
            assert not any(r.is_known() for r in results)
        staged = iter(jaxpr_as_fun(ClosedJaxpr(jaxpr, consts))(*[x for x, u in zip(ARGS, unknown) if u]))
        check([r.get_known() if r.is_known() else next(staged) for r in results], fun(*ARGS))


def test_without_unknown_arguments_nothing_is_staged():
    jaxpr, results, consts = pe.trace_to_jaxpr_nounits(linear_util.wrap_init(plain), list(map(pe.PartialVal.known, ARGS)))
    assert not jaxpr.eqns and not consts and all(r.is_known() for r in results)


def test_known_tracers_of_other_transformations_stay_known():
    def split(a):
        pvals = [pe.PartialVal.known(a), pe.PartialVal.unknown(typeof(ARGS[1])), pe.PartialVal.known(ARGS[2])]
        jaxpr, results, consts = pe.trace_to_jaxpr_nounits(linear_util.wrap_init(plain), pvals)
        staged = iter(jaxpr_as_fun(ClosedJaxpr(pe.convert_constvars_jaxpr(jaxpr), []))(*consts, ARGS[1]))
        return [r.get_known() if r.is_known() else next(staged) for r in results]

    def whole(a):
        return plain(a, *ARGS[1:])

    for x, y in zip(jvp(split, (ARGS[0],), (np.float32(1),)), jvp(whole, (ARGS[0],), (np.float32(1),))):
        check(x, y)
    check(vmap(split)(ARGS[1]), vmap(whole)(ARGS[1]))
    check([grad(lambda a: split(a)[1].sum())(ARGS[0])], [grad(lambda a: whole(a)[1].sum())(ARGS[0])])
    check(jit(split)(ARGS[0]), whole(ARGS[0]))


@pytest.mark.parametrize("fun", FUNCTIONS)
def test_dead_code_is_removed_and_used_results_stay(fun):
    program = make_jaxpr(fun)(*ARGS)
    outs = fun(*ARGS)
    for used in itertools.product((False, True), repeat=len(outs)):
        small, kept = pe.dce_jaxpr(program.jaxpr, used)
        assert len(small.eqns) <= len(program.eqns)
        check(jaxpr_as_fun(ClosedJaxpr(small, program.consts))(*[x for x, k in zip(ARGS, kept) if k]),
              [o for o, u in zip(outs, used) if u])
    assert pe.dce_jaxpr(program.jaxpr, [False] * len(outs), instantiate=True)[1] == [True] * 3
    assert pe.dce_jaxpr(program.jaxpr, False)[0].outvars == []
    assert len(pe.dce_jaxpr(program.jaxpr, True)[0].outvars) == len(outs)


def test_rules_for_dead_code_are_used():
    both_p, single_p = Primitive("test_both"), Primitive("test_single")
    for prim, impl in (both_p, lambda x, y: (x * 2, y * 3)), (single_p, lambda x, *, scale: (x * scale,)):
        prim.multiple_results = True
        prim.def_impl(impl)
        prim.def_abstract_eval(lambda *avals, **params: avals)
        mlir.register_lowering(prim, mlir.lower_fun(impl, multiple_results=True))

    def rule(used, eqn):
        kept = [i for i in range(2) if used[i]]
        new = eqn.replace(primitive=single_p, invars=[eqn.invars[i] for i in kept], outvars=[eqn.outvars[i] for i in kept],
                          params={"scale": kept[0] + 2})
        return used, (eqn if len(kept) == 2 else new)

    jaxpr = make_jaxpr(lambda x, y: both_p.bind(x, y))(1.0, 2.0).jaxpr
    assert pe.dce_jaxpr(jaxpr, [False, True])[1] == [True, True]
    pe.dce_rules[both_p] = rule
    try:
        small, kept = pe.dce_jaxpr(jaxpr, [False, True])
        assert kept == [False, True]
        check(jaxpr_as_fun(close(small))(2.0), [np.float32(6)])
        assert pe.dce_jaxpr(jaxpr, [False, True], instantiate=[True, False])[1] == [True, True]
        assert not pe.dce_jaxpr(jaxpr, [False, False])[0].eqns
    finally:
        del pe.dce_rules[both_p]


def test_programs_are_in_the_vocabulary_of_jax():
    program = make_jaxpr(with_call)(*ARGS)
    first, second, *_ = pe.partial_eval_jaxpr_nounits(program, [False, True, True], False)
    staged = pe.trace_to_jaxpr_dynamic(linear_util.wrap_init(with_call), list(map(typeof, ARGS)))[0]
    split = pe.trace_to_jaxpr_nounits(linear_util.wrap_init(with_call), [pe.PartialVal.unknown(typeof(x)) for x in ARGS])[0]
    small = pe.dce_jaxpr(program.jaxpr, [False, False, True, True])[0]
    for jaxpr in (first.jaxpr, second.jaxpr, staged, split, small):
        names = [e.primitive.name for e in jaxpr.eqns]
        assert "pjit" in names and "xla_call" not in names


def test_rules_for_dead_code_get_equations_of_jax():
    jaxpr, seen = make_jaxpr(with_call)(*ARGS).jaxpr, []
    pe.dce_rules[pjit_p] = lambda used, eqn: seen.append((used, eqn.params["jaxpr"])) or ([True] * len(eqn.invars), eqn)
    try:
        small, kept = pe.dce_jaxpr(jaxpr, [True, False, False, False])
    finally:
        del pe.dce_rules[pjit_p]
    assert kept == [True, False, True] and seen[0][0] == [True, False] and len(seen) == 1
    check(jaxpr_as_fun(close(small))(ARGS[0], ARGS[2]), with_call(*ARGS)[:1])


def test_staging_gives_program_types_and_constants():
    for stage in (pe.trace_to_jaxpr_dynamic, pe.trace_to_jaxpr_final):
        captured = np.arange(3, dtype="float32")
        jaxpr, avals, consts = stage(linear_util.wrap_init(lambda x: [x * captured, x]), [typeof(ARGS[0])])
        assert [a.shape for a in avals] == [(3,), ()]
        check(jaxpr_as_fun(ClosedJaxpr(jaxpr, consts))(2.0), [2 * captured, np.float32(2)])


def test_staging_passes_values_of_outer_traces_as_constants():
    def f(y):
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(linear_util.wrap_init(lambda x: [x * y * ARGS[1]]), [typeof(ARGS[0])])
        return jaxpr_as_fun(close(pe.convert_constvars_jaxpr(jaxpr)))(*consts, ARGS[0])[0].sum()
    check([grad(f)(ARGS[2]), jit(f)(ARGS[2])], [np.float32(1.5), np.float32(3)])


def test_inputs_that_are_not_kept_are_dropped():
    aval = typeof(ARGS[0])
    fun = linear_util.wrap_init(lambda x, y: [lax.sin(y)])
    jaxpr, *_ = pe.trace_to_jaxpr_dynamic(fun, [aval, aval], keep_inputs=[False, True])
    assert len(jaxpr.invars) == 1
    with pytest.raises(ValueError, match=r"keep_inputs\[1\] must be True: the function uses argument 1"):
        pe.trace_to_jaxpr_dynamic(fun, [aval, aval], keep_inputs=[True, False])


def test_staging_eliminates_dead_code_on_request():
    unused, used = np.arange(3, dtype="float32"), np.arange(4, dtype="float32")
    fun = linear_util.wrap_init(lambda x, y: [lax.sin(x) * unused, x * used][1:])
    aval = typeof(ARGS[0])
    assert len(pe.trace_to_jaxpr_dynamic(fun, [aval, aval])[2]) == 2
    jaxpr, avals, consts = pe.trace_to_jaxpr_dynamic(fun, [aval, aval], auto_dce=True)
    assert len(consts) == 1 and len(jaxpr.invars) == 2 and avals[0].shape == (4,)
    check(jaxpr_as_fun(ClosedJaxpr(jaxpr, consts))(2.0, 3.0), [2 * used])


def test_types_of_results():
    aval = typeof(ARGS[1])
    assert pe.abstract_eval_fun(lambda x, *, k: [x * k], aval, k=2) == [aval]


def test_types_may_be_objects_with_shape_and_dtype():
    struct = ShapeDtypeStruct((3,), np.float32)
    fun = linear_util.wrap_init(lambda x: [x * 2])
    assert pe.trace_to_jaxpr_dynamic(fun, [struct])[1] == pe.trace_to_jaxpr_dynamic(fun, [typeof(ARGS[1])])[1]
    assert pe.trace_to_jaxpr_nounits(fun, [pe.PartialVal.unknown(struct)])[1][0].get_aval() == typeof(ARGS[1])


def test_inputs_move():
    program = make_jaxpr(lambda x, y, z: x - y * z)(*[np.float32(i) for i in range(3)])
    front = pe.move_binders_to_front(program, [False, False, True])
    back = pe.move_binders_to_back(program, [True, False, False])
    check(jaxpr_as_fun(front)(4.0, 1.0, 2.0), [np.float32(1 - 2 * 4)])
    check(jaxpr_as_fun(back)(2.0, 4.0, 1.0), [np.float32(1 - 2 * 4)])
    with pytest.raises(ValueError, match="must have 3 entries, one per input; got 1"):
        pe.move_binders_to_front(program, [True])


def test_constvars_and_inputs_are_exchanged():
    captured = np.arange(3, dtype="float32")
    jaxpr = make_jaxpr(lambda x: x * captured)(1.0).jaxpr
    open_jaxpr = pe.convert_constvars_jaxpr(jaxpr)
    assert (len(open_jaxpr.constvars), len(open_jaxpr.invars)) == (0, 2)
    again = pe.convert_invars_to_constvars(open_jaxpr, 1)
    assert again.constvars == jaxpr.constvars and again.invars == jaxpr.invars
    small, consts, ins = pe.dce_jaxpr_consts(jaxpr, [True])
    assert (consts, ins, len(small.constvars)) == ([True], [True], 1)
    check(jaxpr_as_fun(pe.close_jaxpr(open_jaxpr))(captured, 2.0), [2 * captured])


def test_partial_values():
    known, unknown = pe.PartialVal.known(3.0), pe.PartialVal.unknown(typeof(1.0))
    assert known == (None, 3.0) and unknown == (typeof(1.0), None)
    assert known.get_known() == 3.0 and unknown.get_known() is None and not unknown.is_known()
    assert known.get_aval() == unknown.get_aval()
    assert pe.partition_pvals([known, unknown]) == ([True, False], [typeof(1.0)], [3.0])


def test_tracers_have_the_classes_of_the_module():
    found = []
    make_jaxpr(lambda x: found.append(isinstance(x, pe.DynamicJaxprTracer)) or x)(1.0)
    pe.trace_to_jaxpr_nounits(linear_util.wrap_init(lambda x: [found.append(isinstance(x, pe.JaxprTracer)) or x]),
                              [pe.PartialVal.unknown(typeof(1.0))])
    assert found == [True, True]


def test_absent_names_are_explained():
    with pytest.raises(AttributeError, match="no attribute 'tracers_to_jaxpr': .*use trace_to_jaxpr_nounits"):
        pe.tracers_to_jaxpr  # noqa: B018

"""Every primitive in every rule table of JAX's interpreters: a rule that works with JAX's params, or a reason for none."""
import lamina_runtime  # noqa: F401 (runs programs)
import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad, jvp, linear_transpose, linearize
from lamina_batching import vmap
from lamina_compat._rule_views import MissingRule, UnreadTable
from lamina_compat._vocabulary import JAX_PRIMITIVES, show_primitive, to_jax_equation
from lamina_compat.names import core
from lamina_compat.names import lax as names_lax
from lamina_compat.names.core import call_p
from lamina_compat.names.interpreters import ad, batching, mlir
from lamina_compat.names.interpreters import partial_eval as pe
from lamina_ir import MissingRuleError, dtypes, prims
from lamina_ir.testing.samples import samples_of
from lamina_tracing import jit, lax, linear_util, make_jaxpr
from lamina_tracing.extend import bind, typeof
from lamina_tracing.primitives import select_n_p

VIEWS = {"primitive_jvps": ad.primitive_jvps, "primitive_transposes": ad.primitive_transposes,
         "reducing_transposes": ad.reducing_transposes, "primitive_batchers": batching.primitive_batchers,
         "axis_primitive_batchers": batching.axis_primitive_batchers,
         "spmd_axis_primitive_batchers": batching.spmd_axis_primitive_batchers,
         "fancy_primitive_batchers": batching.fancy_primitive_batchers, "register_lowering": mlir._lowerings}
LEVELS = ("0.4.30", "0.10.2")
# Collectives and maps need axes, and the results of some primitives are random or depend on the place of an equation.
OUTSIDE = [p for p in prims.ALL if p.family in ("collectives", "maps") or p.name in ("rng_uniform", "rng_bit_generator")]
X = np.array([0.5, 1.5, 2.5], np.float32)


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    """Show programs as at each level."""
    monkeypatch.setattr("lamina_compat._vocabulary.installed_version", lambda: request.param)
    return request.param


def as_list(made):
    return list(made) if isinstance(made, tuple | list) else [made]


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        if dtypes.is_key(typeof(a).dtype):
            continue
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def diff_operands(sample):
    """Return the positions of the operands of a sample by which it is differentiated."""
    return [i for i, a in enumerate(sample.args) if sample.differentiable and dtypes.is_inexact(np.asarray(a).dtype)]


def shown_samples(prim):
    """Yield a sample and its equation in JAX's vocabulary."""
    for sample in samples_of(prim):
        if not sample.args or any(dtypes.is_key(typeof(a).dtype) for a in sample.args):
            continue
        yield sample, to_jax_equation(prim, sample.params, sample.args)


@pytest.mark.parametrize("name", VIEWS)
def test_each_primitive_has_a_rule_or_a_reason(name):
    view = VIEWS[name]
    for prim in (*prims.ALL, *JAX_PRIMITIVES.values(), call_p):
        try:
            assert callable(view[prim]) and prim in view
        except MissingRule as e:
            assert prim not in view and view.get(prim) is None
            assert f"`{prim.name}` has no rule: " in str(e) and len(str(e).split()) > 8


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p not in OUTSIDE], ids=lambda p: p.name)
def test_primitive_is_bound_with_params_of_jax(prim, level):
    for sample, (shown, params, operands) in shown_samples(prim):
        if prim is prims.expand_dims_p or prim.effectful:
            continue
        assert_same(as_list(shown.bind(*operands, **params)), as_list(bind(prim, *sample.args, **sample.params)))


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p not in OUTSIDE], ids=lambda p: p.name)
def test_jvp_rule_takes_params_of_jax(prim, level):
    for sample, (shown, params, operands) in shown_samples(prim):
        same = len(operands) == len(sample.args) and all(a is b for a, b in zip(operands, sample.args))
        moving = diff_operands(sample) if shown in ad.primitive_jvps and same else ()
        if not moving:
            continue

        def fun(*xs, sample=sample, moving=moving):
            full = list(sample.args)
            for i, x in zip(moving, xs):
                full[i] = x
            return [o for o in as_list(bind(sample.prim, *full, **sample.params)) if dtypes.is_inexact(o.dtype)]
        point = [operands[i] for i in moving]
        try:
            wanted = jvp(fun, point, point)[1]
        except MissingRuleError:
            continue
        tangents = [o if i in moving else ad.Zero.from_primal_value(o) for i, o in enumerate(operands)]
        _, found = ad.primitive_jvps[shown](list(operands), tangents, **params)
        moved = [t for t in map(ad.instantiate_zeros, as_list(found)) if dtypes.is_inexact(t.dtype)]
        for got, want in zip(moved, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p not in OUTSIDE], ids=lambda p: p.name)
def test_batching_rule_takes_params_of_jax(prim, level):
    for sample, (shown, params, operands) in list(shown_samples(prim))[:3]:
        if shown not in batching.primitive_batchers or prim.effectful or prim.family == "random_keys":
            continue
        stacked, own = ([np.stack([o, o]) for o in map(np.asarray, xs)] for xs in (operands, sample.args))
        try:
            wanted = as_list(vmap(lambda *xs, s=sample: bind(s.prim, *xs, **s.params))(*own))
        except MissingRuleError:
            continue
        out, dims = batching.primitive_batchers[shown](stacked, [0] * len(stacked), **params)
        fronts = [batching.bdim_at_front(o, d, 2) for o, d in zip(as_list(out), dims if prim.multiple else [dims])]
        assert_same(fronts, wanted)


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p.linear_in and p not in OUTSIDE], ids=lambda p: p.name)
def test_transpose_rule_takes_params_of_jax(prim, level):
    for sample, (shown, params, operands) in shown_samples(prim):
        if not sample.differentiable or prim.multiple:
            continue
        linear = prim.linear_in
        given = [ad.UndefinedPrimal(typeof(o)) if i in linear else o for i, o in enumerate(operands)]
        ct = np.ones_like(np.asarray(shown.bind(*operands, **params)))
        found = ad.primitive_transposes[shown](ct, *given, **params)

        def at_linear(*xs, shown=shown, params=params, operands=operands, linear=linear):
            full = list(operands)
            for i, x in zip(linear, xs):
                full[i] = x
            return shown.bind(*full, **params)
        wanted = linear_transpose(at_linear, *[operands[i] for i in linear])(ct)
        assert_same([found[i] for i in linear], wanted)


# Params that JAX's primitives have, and a rule that names them.
def test_assigned_rules_get_params_of_jax(level):
    seen = []
    tables = ad.primitive_jvps.table, batching.primitive_batchers.table
    before = [t[prims.dot_general_p] for t in tables]
    numbers = (((0,), (0,)), ((), ()))

    def jvp_rule(primals, tangents, **params):
        seen.append(params)
        return names_lax.dot_general_p.bind(*primals, **params), ad.Zero.from_primal_value(1.0)
    try:
        ad.primitive_jvps[names_lax.dot_general_p] = jvp_rule
        assert float(grad(lambda x: lax.dot_general(x, X, numbers))(X)[0]) == 0
        old = batching.primitive_batchers[names_lax.dot_general_p]
        batching.primitive_batchers[names_lax.dot_general_p] = lambda args, dims, **params: (
            seen.append(params), old(args, dims, **params))[1]
        np.testing.assert_array_equal(vmap(lambda x: lax.dot_general(x, X, numbers))(np.stack([X, X])), [np.dot(X, X)] * 2)
    finally:
        for table, rule in zip(tables, before):
            table.define(prims.dot_general_p, rule)
    wanted = {"dimension_numbers", "precision", "preferred_element_type"}
    wanted |= {"out_sharding"} if level == "0.10.2" else set()
    assert [set(params) for params in seen] == [wanted, wanted]


def test_assigned_rule_may_call_the_rule_that_it_replaces():
    for prim, own, operands in ((select_n_p, prims.select_p, (np.array([True, False, True]), X, -X)),
                                (names_lax.sin_p, prims.sin_p, (X,)), (prims.neg_p, prims.neg_p, (X,))):
        views = [ad.primitive_jvps, ad.primitive_transposes, batching.primitive_batchers, mlir._lowerings]
        before = [dict.get(view.table, own) for view in views]
        calls = []

        def wrap(view, prim=prim, calls=calls):
            old = view[prim]

            def rule(*args, **params):
                calls.append(view.name)
                return old(*args, **params)
            view[prim] = rule
        wanted = jvp(lambda *xs: prim.bind(*xs), operands, tangents_for_jvp(operands))[1]  # noqa: B023
        try:
            for view, rule in zip(views, before):
                if rule is not None:
                    wrap(view)
            found = jit(lambda *xs: jvp(lambda *ys: prim.bind(*ys), xs, tangents_for_jvp(xs))[1])(*operands)  # noqa: B023
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
            stacked = vmap(lambda *xs: prim.bind(*xs))(*[np.stack([x, x]) for x in operands])  # noqa: B023
            np.testing.assert_allclose(stacked[1], prim.bind(*operands), rtol=1e-6)
        finally:
            for view, rule in zip(views, before):
                if rule is not None:
                    view.table.define(own, rule)
        assert {"ad.primitive_jvps", "batching.primitive_batchers", "mlir.register_lowering"} <= set(calls)


def tangents_for_jvp(xs):
    return tuple([np.zeros(x.shape, dtypes.float0) if not dtypes.is_inexact(x.dtype) else x for x in xs])


def test_tables_list_primitives_of_jax(level):
    listed = {prim.name: prim for prim in ad.primitive_jvps}
    for name in ("pjit" if level == "0.4.30" else "jit", "checkpoint", "scan", "select_n", "custom_jvp_call", "scatter-add"):
        assert listed[name] is show_primitive(getattr(listed[name], "own", None) or prims.select_p)
        assert callable(ad.primitive_jvps[listed[name]])
    assert len(dict(ad.primitive_jvps.items())) == len(ad.primitive_jvps)


def test_params_without_effect_are_accepted_and_others_refused():
    bid = names_lax.broadcast_in_dim_p
    assert bid.bind(X, shape=(2, 3), broadcast_dimensions=(1,), sharding=None).shape == (2, 3)
    with pytest.raises(NotImplementedError, match="broadcast_in_dim: sharding must be None; got 'somewhere'"):
        bid.bind(X, shape=(2, 3), broadcast_dimensions=(1,), sharding="somewhere")
    assert JAX_PRIMITIVES["top_k_p"].bind(X, k=1)[0].tolist() == [2.5]
    q, r = JAX_PRIMITIVES["qr_p"].bind(np.eye(2, dtype=np.float32), full_matrices=False)
    assert q.shape == r.shape == (2, 2)


def test_missing_rule_of_a_call_is_explained():
    with pytest.raises(KeyError, match="`call` has no rule: its bind runs the function"):
        ad.primitive_transposes[call_p]
    with pytest.raises(MissingRuleError):
        ad.primitive_jvps.table[prims.reduce_p]


# --- tables that are not read -----------------------------------------------------------------------------------------
UNREAD = [value for module in (ad, pe, core) for value in vars(module).values() if type(value) is UnreadTable]


def test_unread_tables_have_a_name_and_a_reason():
    assert {t.name for t in UNREAD} == {
        "ad.call_linearize_param_updaters", "ad.call_param_updaters", "ad.call_transpose_param_updaters",
        "core.custom_typechecks", "core.pp_eqn_rules", "partial_eval.call_param_updaters",
        "partial_eval.call_partial_eval_rules", "partial_eval.const_fold_rules", "partial_eval.custom_partial_eval_rules",
        "partial_eval.forwarding_rules", "partial_eval.padding_rules", "partial_eval.partial_eval_jaxpr_custom_rules"}
    assert all(len(t.reason.split()) > 5 for t in UNREAD)


def make_cube():
    """Return a primitive with all rules, and a function that calls it in a call primitive."""
    cube_p, calling_p = core.Primitive("test_cube"), core.CallPrimitive("test_calling")
    cube_p.def_impl(lambda x: lax.integer_pow(x, 3))
    cube_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(cube_p, mlir.lower_fun(lambda x: lax.integer_pow(x, 3), multiple_results=False))
    ad.defjvp(cube_p, lambda t, x: lax.mul(t, lax.mul(lax.full_like(x, 3), lax.mul(x, x))))
    batching.defvectorized(cube_p)

    def fun(x):
        inner = linear_util.wrap_init(lambda y: [cube_p.bind(y)])
        return lax.mul(calling_p.bind(inner, x)[0], cube_p.bind(lax.full_like(x, 2)))
    return cube_p, calling_p, fun


@pytest.mark.parametrize("table", UNREAD, ids=lambda t: t.name)
def test_results_do_not_depend_on_unread_tables(table):
    def refuse(*args, **kwargs):
        raise AssertionError(f"{table.name} is read")
    cube_p, calling_p, fun = make_cube()
    table[cube_p] = table[calling_p] = refuse
    try:
        for x in X:
            for run, want in ((fun, 8 * x ** 3), (jit(fun), 8 * x ** 3), (grad(fun), 24 * x ** 2),
                              (jit(grad(checkpoint(fun, policy=lambda *_, **__: True))), 24 * x ** 2),
                              (grad(grad(fun)), 48 * x), (lambda y: linearize(fun, y)[1](y), 24 * x ** 3)):
                np.testing.assert_allclose(run(x), want, rtol=1e-5)
        np.testing.assert_allclose(vmap(grad(fun))(X), 24 * X ** 2, rtol=1e-5)
        program = make_jaxpr(fun)(X[0])
        core.check_jaxpr(program.jaxpr)
        assert "test_cube" in str(program)
        known, unknown, flags, _ = pe.partial_eval_jaxpr_nounits(program, [True], False)
        assert flags == [True] and not known.out_avals or len(unknown.eqns)
        assert pe.dce_jaxpr(program.jaxpr, [True])[1] == [True]
    finally:
        del table[cube_p], table[calling_p]


def test_staging_rules_are_refused():
    prim = core.Primitive("test_staged")
    for assign in (lambda: pe.custom_staging_rules.__setitem__(prim, lambda *_: None),
                   lambda: pe.custom_staging_rules.update({prim: lambda *_: None})):
        with pytest.raises(NotImplementedError, match="partial_eval.custom_staging_rules: a rule could stage another equation"):
            assign()
    assert not pe.custom_staging_rules

"""Programs in JAX's vocabulary: names, params and operands of all primitives, and the way back."""
import lamina_runtime  # noqa: F401 (runs programs)
import numpy as np
import pytest
from lamina_autodiff import checkpoint, custom_jvp, custom_vjp, grad, jvp
from lamina_batching import vmap
from lamina_compat._importer import JaxImporter
from lamina_compat._vocabulary import (JAX_PRIMITIVES, TRANSLATIONS, from_jax_equation, from_jax_jaxpr, from_jax_program,
                                       make_jaxpr, pjit_p, to_jax_equation, to_jax_jaxpr, to_jax_program)
from lamina_compat.names import core
from lamina_ir import Eqn, alpha_equal, parse, prims
from lamina_numpy import where
from lamina_parallel import pmap
from lamina_tracing import jit, lax
from lamina_tracing import make_jaxpr as own_make_jaxpr
from lamina_tracing.primitives import select_n_p

# Primitives whose name, operands and params are those of JAX.
SAME = """
abs acos acosh add and asin asinh atan2 atan atanh bessel_i0e bessel_i1e bitcast_convert_type ceil clamp clz complex
copy cosh digamma div eq erf_inv erf erfc floor ge gt igamma_grad_a igamma igammac imag integer_pow is_finite le
lgamma lt max min ne neg nextafter not or polygamma population_count pow random_gamma_grad real reduce_precision
regularized_incomplete_beta rem round shift_left shift_right_arithmetic shift_right_logical sign sinh square sub xor
zeta concatenate pad rev slice squeeze transpose argmax argmin cummax cummin cumprod cumsum reduce_and reduce_max
reduce_min reduce_or reduce_prod reduce_xor reduce_window_max reduce_window_min reduce_window_sum
lu_pivots_to_permutation triangular_solve fft dynamic_slice dynamic_update_slice gather sort rng_uniform threefry2x32
all_gather axis_index pmax pmin ppermute psum name optimization_barrier householder_product platform_index
""".split()
# Other ones: what differs, and why they are shown as they are.
DIFFERENT = {
    **dict.fromkeys("cholesky geqrf hessenberg lu tridiagonal".split(), "options that lamina lacks are not in the params"),
    **dict.fromkeys("slogdet solve stop_gradient to_memory reduce_window_prod".split(),
                    "JAX has no primitive of this kind: it stages other equations"),
    **dict.fromkeys("debug_callback io_callback pure_callback".split(), "the params describe lamina's callbacks"),
    "random_wrap": "keys are made by functions of their words",
    "sharding_constraint": "unspecified_dims counts dimensions that JAX calls unconstrained",
}


def test_each_primitive_is_that_of_jax_or_translated_or_explained():
    names = [p.name for p in prims.ALL]
    for name in (*SAME, *DIFFERENT):
        assert name in names, f"{name} is no primitive any more"
    for prim in prims.ALL:
        rows = (prim.name in SAME) + (prim.name in DIFFERENT and prim not in TRANSLATIONS) + (prim in TRANSLATIONS)
        assert rows == 1, f"{prim.name}: add it to SAME, to DIFFERENT with a reason, or to TRANSLATIONS"


@custom_jvp
def doubled(x):
    return lax.sin(x)


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * tangents[0]))


@custom_vjp
def tripled(x):
    return lax.sin(x)


tripled.defvjp(lambda x: (tripled(x), x), lambda x, ct: (3 * ct,))


def many(x):
    """Contain each primitive with a translation that works on one device."""
    y, ys = lax.scan(lambda c, a: (c + doubled(a), c), x, np.arange(3, dtype=np.float32))
    y = lax.while_loop(lambda v: v < 5, lambda v: v + 1, y)
    y = lax.cond(y > 2, tripled, lambda v: v, y)
    table = np.arange(4, dtype=np.float32)
    y = checkpoint(lambda v: lax.expand_dims(table * v, (0,)))(y)
    at, update = np.array([[1]], np.int32), lax.reshape(x, (1,))
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    out = jit(lambda a: where(a > 2, a, -a))(lax.reshape(y, (4,)))
    for scatter in (lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max, lax.scatter):
        out = scatter(out, at, update, numbers)
    return out


ARGUMENT = np.float32(0.5)


def test_programs_have_the_names_of_jax():
    program = make_jaxpr(many)(ARGUMENT)
    names = [e.primitive.name for e in program.eqns]
    assert [n for n in names if n not in ("convert_element_type", "gt", "iota", "reshape", "mul")] == [
        "scan", "while", "cond", "checkpoint", "pjit", "scatter-add", "scatter-mul", "scatter-min", "scatter-max", "scatter"]
    inner = {e.primitive.name for body in core.subjaxprs(program.jaxpr) for e in body.eqns}
    assert {"custom_jvp_call", "custom_vjp_call_jaxpr", "select_n", "broadcast_in_dim"} <= inner


def test_pjit_has_the_params_of_jax():
    eqn = make_jaxpr(lambda x: jit(lambda a: a + 1)(x))(ARGUMENT).eqns[0]
    assert eqn.primitive is pjit_p and eqn.params["name"] == "<lambda>" and eqn.params["donated_invars"] == (False,)
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns] == ["add"]


def test_select_n_has_the_operands_of_jax():
    x = np.array([1.0, -1.0], np.float32)
    program = make_jaxpr(lambda x: where(x > 0, x, 2 * x))(x)
    eqn = next(e for e in program.eqns if e.primitive is select_n_p)
    assert eqn.invars[2] is program.jaxpr.invars[0]  # the case for True comes last
    np.testing.assert_array_equal(core.jaxpr_as_fun(program)(x)[0], [1, -2])


def test_lists_of_variables_can_be_changed_and_compared():
    jaxpr = make_jaxpr(lambda x, y: x + y)(ARGUMENT, ARGUMENT).jaxpr
    eqn = jaxpr.eqns[0]
    assert eqn.invars == jaxpr.invars and eqn.outvars == jaxpr.outvars
    assert len(eqn.invars + eqn.outvars) == 3 and len(jaxpr.constvars + jaxpr.invars) == 2


@pytest.mark.parametrize("transform", [
    lambda f: f, jit, lambda f: lambda x: jvp(f, (x,), (x,)), lambda f: lambda x: vmap(f)(lax.broadcast(x, (2,)))])
def test_shown_programs_run_as_the_function(transform):
    program = make_jaxpr(many)(ARGUMENT)
    for run in (core.jaxpr_as_fun(program), lambda x: core.eval_jaxpr(program.jaxpr, program.consts, x),
                core.jaxpr_as_fun(program.replace(jaxpr=program.jaxpr.replace(eqns=[*program.eqns])))):
        for got, want in zip(np.ravel(transform(lambda x: run(x)[0])(ARGUMENT)), np.ravel(transform(many)(ARGUMENT))):  # noqa: B023
            np.testing.assert_array_equal(got, want)


def test_derivative_rules_of_shown_programs_are_used():
    for f, factor in ((doubled, 2), (tripled, 3)):
        run = core.jaxpr_as_fun(make_jaxpr(f)(ARGUMENT))
        assert grad(lambda x: run(x)[0])(ARGUMENT) == factor  # noqa: B023
        assert grad(lambda x: grad(lambda y: run(y)[0] * x)(x))(ARGUMENT) == factor  # noqa: B023


def test_equations_can_be_bound_one_by_one():
    program = make_jaxpr(many)(ARGUMENT)
    env = dict(zip([*program.jaxpr.constvars, *program.jaxpr.invars], [*program.consts, ARGUMENT]))

    def read(a):
        return a.val if isinstance(a, core.Literal) else env[a]
    for e in program.eqns:
        functions, params = e.primitive.get_bind_params(e.params)
        out = e.primitive.bind(*functions, *map(read, e.invars), **params)
        env.update(zip(e.outvars, out if e.primitive.multiple_results else [out]))
    np.testing.assert_array_equal(read(program.jaxpr.outvars[0]), many(ARGUMENT))


def test_translation_is_inverted():
    own = own_make_jaxpr(many)(ARGUMENT)
    shown = to_jax_program(own)
    assert to_jax_program(shown) is shown and from_jax_program(own) is own
    assert from_jax_jaxpr(shown.jaxpr) is own.jaxpr
    rebuilt = from_jax_program(shown.replace(jaxpr=shown.jaxpr.replace(eqns=[*shown.eqns])))
    np.testing.assert_array_equal(core.jaxpr_as_fun(rebuilt)(ARGUMENT)[0], many(ARGUMENT))
    text = "{ lambda ; a:bool[] b:f32[] c:f32[]. let d:f32[] = select a b c in (d,) }"
    again = to_jax_jaxpr(parse(text).jaxpr)
    assert alpha_equal(from_jax_jaxpr(again.replace(eqns=[*again.eqns])), parse(text).jaxpr)


def test_composite_primitives_of_a_program_are_expanded():
    x = core.Var(core.ShapedArray((2,), "float32"))
    y = core.Var(core.ShapedArray((2,), "float32"))
    table = {name: prim for name, prim in vars(__import__("lamina_tracing.primitives", fromlist=["*"])).items()}
    jaxpr = core.Jaxpr([], [x], [y], [core.new_jaxpr_eqn([x], [y], table["log2_p"], {})])
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, [], np.array([2, 8], np.float32))[0], [1, 3], rtol=1e-6)


def test_pmap_has_an_open_program():
    eqn = make_jaxpr(pmap(lambda x: lax.psum(x, "i"), axis_name="i"))(np.ones((1, 2), np.float32)).eqns[-1]
    assert eqn.primitive is JAX_PRIMITIVES["xla_pmap_p"] and isinstance(eqn.params["call_jaxpr"], core.Jaxpr)
    np.testing.assert_array_equal(eqn.primitive.bind(np.ones((1, 2), np.float32), **eqn.params)[0], np.ones((1, 2)))


def test_tables_have_one_entry_for_renamed_primitives():
    table = {prims.scatter_add_p: 1}
    shown, _, _ = to_jax_equation(prims.scatter_add_p, {}, [])
    assert table[shown] == 1 and shown == prims.scatter_add_p and shown != prims.scatter_mul_p


def test_level_0_10_has_custom_vjp_call(monkeypatch):
    monkeypatch.setattr("lamina_compat._vocabulary.installed_version", lambda: "0.10.2")
    eqn = make_jaxpr(tripled)(ARGUMENT).eqns[0]
    assert eqn.primitive.name == "custom_vjp_call" and "call_jaxpr" in eqn.params
    assert eqn.primitive.bind(ARGUMENT, **eqn.params)[0] == lax.sin(ARGUMENT)
    assert JaxImporter.version == ""


def test_level_0_10_has_jit_p(monkeypatch):
    monkeypatch.setattr("lamina_compat._vocabulary.installed_version", lambda: "0.10.2")
    eqn = make_jaxpr(jit(lambda a: a + 1))(ARGUMENT).eqns[0]
    assert eqn.primitive is JAX_PRIMITIVES["jit_p"] and eqn.primitive.name == "jit" and eqn.params["ctx_mesh"] is None
    assert eqn.primitive.bind(ARGUMENT, **eqn.params)[0] == ARGUMENT + 1


def test_shardings_of_pjit_are_refused():
    eqn = make_jaxpr(jit(lambda a: a + 1))(ARGUMENT).eqns[0]
    with pytest.raises(NotImplementedError, match="in_shardings .* must be UNSPECIFIED"):
        from_jax_equation(eqn.primitive, {**eqn.params, "in_shardings": ("somewhere",)}, [ARGUMENT])


def test_functions_as_rules_are_refused():
    eqn = make_jaxpr(doubled)(ARGUMENT).eqns[0]
    with pytest.raises(NotImplementedError, match=r"jvp_jaxpr_thunk .* got function\. Define the function with jax.custom_jvp"):
        eqn.primitive.bind(ARGUMENT, **{**eqn.params, "jvp_jaxpr_thunk": lambda *xs: None})
    with pytest.raises(NotImplementedError, match="differentiate the program with jax.jvp"):
        eqn.params["jvp_jaxpr_thunk"](True)


def test_saved_programs_do_not_change():
    eqn = Eqn(prims.neg_p, [], [], {})
    assert to_jax_equation(eqn.primitive, eqn.params, eqn.invars) == (prims.neg_p, {}, [])
    closed = own_make_jaxpr(jit(lambda x: x + 1))(ARGUMENT)
    before = str(closed)
    to_jax_program(closed)
    assert str(closed) == before and closed.eqns[0].primitive is prims.xla_call_p

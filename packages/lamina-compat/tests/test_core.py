"""`jax.core`: types, primitives, tracers and programs."""
import pickle

import lamina_runtime  # noqa: F401 (runs programs)
import numpy as np
import pytest
from lamina_autodiff import custom_jvp, grad, jvp
from lamina_batching import vmap
from lamina_compat._vocabulary import make_jaxpr as shown_jaxpr
from lamina_compat.names import core, custom_derivatives
from lamina_compat.names import lax as names_lax
from lamina_compat.names.extend.core import primitives
from lamina_compat.names.interpreters import ad, batching, mlir
from lamina_compat.names.interpreters import partial_eval as pe
from lamina_ir import dtypes, errors, prims
from lamina_ir.errors import ProgramError
from lamina_ir.trees import tree_structure
from lamina_parallel import pmap
from lamina_tracing import eval_shape, jit, lax, linear_util, make_jaxpr
from lamina_tracing.extend import typeof

X = np.array([1, 2], np.float32)


# --- types --------------------------------------------------------------------------------------------------------------
def test_types_are_instances_of_each_class():
    aval = core.ShapedArray([2, 3], np.float32)
    assert aval == typeof(np.ones((2, 3), np.float32)) and type(aval) is type(typeof(1.0))
    assert all(isinstance(aval, c) for c in (core.ShapedArray, core.UnshapedArray, core.AbstractValue))
    assert not isinstance(aval, core.ConcreteArray | core.DShapedArray)
    for make, message in ((lambda: core.UnshapedArray(np.float32), "no types without a shape"),
                          (lambda: core.DShapedArray((2,), np.float32), "no dynamic shapes"),
                          (lambda: core.ShapedArray((), np.float32, named_shape={"i": 2}), "named_shape must be empty")):
        with pytest.raises(NotImplementedError, match=message):
            make()


def test_type_of_a_known_value_holds_it():
    aval = core.get_aval(X)
    assert type(aval) is core.ConcreteArray and aval.val is X and isinstance(aval, core.ShapedArray)
    assert aval == core.get_aval(X.copy()) != core.get_aval(2 * X) and aval != core.raise_to_shaped(aval)
    assert core.raise_to_shaped(aval) == core.ShapedArray((2,), np.float32) and hash(aval) == hash(core.get_aval(X))
    assert core.raise_to_shaped(aval, True).weak_type and core.get_aval(2.0).weak_type
    assert pickle.loads(pickle.dumps(aval)) == aval and str(aval) == "ConcreteArray([1. 2.], dtype=float32)"
    assert core.typeof(X) == core.shaped_abstractify(X) == core.raise_to_shaped(aval)


def test_type_of_a_traced_value_holds_it_only_if_it_is_known():
    seen = {}

    def note(name):
        def f(x):
            seen[name] = type(core.get_aval(x)) is core.ConcreteArray
            return lax.reduce_sum(x, tuple(range(x.ndim)))
        return f
    grad(note("grad"))(X)
    jit(note("jit"))(X)
    vmap(note("vmap"))(np.stack([X, X]))
    vmap(grad(note("vmap of grad")))(np.stack([X, X]))
    assert seen == {"grad": True, "jit": False, "vmap": False, "vmap of grad": False}


def test_type_with_a_value_is_accepted_where_types_are():
    aval = core.get_aval(X)
    plain = core.ShapedArray((2,), np.float32)
    jaxpr, outs, _ = pe.trace_to_jaxpr_dynamic(linear_util.wrap_init(lambda x: [lax.sin(x)]), [aval])
    assert type(jaxpr.invars[0].aval) is type(plain) and outs == [plain]
    assert type(core.Var(aval).aval) is type(core.gensym()(aval).aval) is type(core.DropVar(aval).aval) is type(plain)
    assert pe.PartialVal.unknown(aval).get_aval() is aval and core.typematch(aval, plain) and core.typecompat(plain, aval)
    assert eval_shape(lax.sin, aval).shape == (2,)
    assert ad.instantiate_zeros(ad.Zero(aval)).tolist() == [0, 0]
    assert core.lattice_join(aval, plain) == plain or core.lattice_join(aval, plain) == aval


def test_newer_levels_have_no_types_with_values(monkeypatch):
    monkeypatch.setattr("lamina_compat._vocabulary.installed_version", lambda: "0.10.2")
    assert core.get_aval(X) == core.ShapedArray((2,), np.float32)


def test_types_of_members_and_of_all():
    aval = core.ShapedArray((2, 3), np.float32)
    assert core.mapped_aval(3, 1, aval).shape == (2,) and core.mapped_aval(3, None, aval) is aval
    assert core.unmapped_aval(4, "i", 1, aval).shape == core.unmapped_aval(4, 1, aval).shape == (2, 4, 3)
    with pytest.raises(ValueError, match="axis 0 of the type must have size 3"):
        core.mapped_aval(3, 0, aval)
    with pytest.raises(TypeError, match="must have the same shape and dtype"):
        core.lattice_join(aval, core.ShapedArray((2,), np.float32))
    assert core.primal_dtype_to_tangent_dtype(np.int32) == dtypes.float0
    assert core.canonicalize_shape([np.int64(2), 3]) == (2, 3)
    with pytest.raises(TypeError, match="Shapes must be 1D sequences"):
        core.canonicalize_shape([2.5])


def test_value_is_converted_or_the_error_says_what_to_do():
    assert core.concrete_or_error(int, np.float32(3)) == 3 and core.is_concrete(3) and core.valid_jaxtype(X)
    assert not core.valid_jaxtype("text")
    with pytest.raises(errors.ConcretizationError, match="got a traced float32.* in my function"):
        jit(lambda x: core.concrete_or_error(int, x, "Needed in my function"))(2.0)


# --- primitives ---------------------------------------------------------------------------------------------------------
def test_classes_of_primitives():
    p = core.Primitive("test p")
    assert isinstance(prims.sin_p, core.Primitive) and issubclass(core.CallPrimitive, core.Primitive)
    assert p.name == "test p" and not p.multiple_results and not p.call_primitive and core.call_p.call_primitive
    with pytest.raises(TypeError, match="name must be a string; got int"):
        core.Primitive(3)
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'test p' not implemented"):
        make_jaxpr(lambda x: p.bind(x))(X)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'test p' not implemented"):
        p.impl(X)


def test_number_of_results_is_checked():
    p = core.Primitive("test_two")
    p.multiple_results = True
    p.def_impl(lambda x: [x])
    p.def_abstract_eval(lambda x: (x, x))
    with pytest.raises(ProgramError, match="must return 2 results, as its type rule does; got 1"):
        p.bind(X)
    p.def_impl(lambda x: x)
    with pytest.raises(ProgramError, match="must return a sequence of results; got"):
        p.bind(X)


def test_subclass_of_primitive_defines_its_rules():
    class Twice(core.Primitive):
        multiple_results = True

        def impl(self, x):
            return [2 * x]

        def abstract_eval(self, x):
            return [x], set()
    p = Twice("test_twice")
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), dims)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: [lax.mul(x, lax.full_like(x, 2))]))
    assert isinstance(p.bind(X), list) and jit(lambda x: p.bind(x)[0])(X).tolist() == [2, 4]
    assert vmap(lambda x: p.bind(x)[0])(X).tolist() == [2, 4]


def test_call_primitives_run_their_function():
    f = linear_util.wrap_init(lambda x, y: [lax.mul(x, y)])
    assert float(core.call_p.bind(f, 2.0, 3.0)[0]) == 6
    assert float(grad(lambda x: core.closed_call_p.bind(f, x, 3.0)[0])(2.0)) == 3
    program = make_jaxpr(lambda x: lax.sin(x))(1.0)
    functions, params = core.call_p.get_bind_params({"call_jaxpr": program, "name": "f"})
    assert params == {"name": "f"} and float(core.call_p.bind(functions[0], 0.0)[0] if hasattr(
        functions[0], "call_wrapped") else functions[0](0.0)[0]) == 0
    with pytest.raises(NotImplementedError, match="no other map primitives than xla_pmap"):
        core.MapPrimitive("test_map").bind(f, X)


# --- traces -------------------------------------------------------------------------------------------------------------
class CountingTracer(core.Tracer):
    def __init__(self, trace, value):
        super().__init__(trace)
        self.value = value

    aval = property(lambda self: typeof(self.value))


class CountingTrace(core.Trace):
    def pure(self, val):
        return CountingTracer(self, val)

    def process_primitive(self, primitive, tracers, params):
        self.counts.append(primitive.name)
        with core.eval_context():
            made = primitive.bind(*[t.value if isinstance(t, CountingTracer) else t for t in tracers], **params)
        wrapped = [CountingTracer(self, m) for m in (made if primitive.multiple_results else [made])]
        return wrapped if primitive.multiple_results else wrapped[0]


def test_trace_of_a_program_in_the_older_form():
    counts = []
    with core.new_main(CountingTrace, counts=counts) as main:
        trace = main.with_cur_sublevel()
        out = lax.add(lax.sin(trace.pure(2.0)), 1.0)
        assert core.is_tracer(out) and isinstance(out, CountingTracer) and not core.trace_state_clean()
    assert counts == ["sin", "add"] and float(out.value) == pytest.approx(np.sin(2) + 1)
    assert core.trace_state_clean() and repr(main).startswith("MainTrace(")


def test_trace_of_a_program_in_the_newer_form():
    trace = CountingTrace()
    trace.counts = []
    with core.set_current_trace(trace):
        assert core.current_trace_is(trace) and core.find_cur_trace() is trace
        out = lax.sin(CountingTracer(trace, 2.0))
    assert trace.counts == ["sin"] and float(out.value) == pytest.approx(np.sin(2))


class MappingTrace(CountingTrace):
    def process_map(self, primitive, fun, tracers, params):
        self.counts.append((primitive.name, params["in_axes"], params["out_axes_thunk"]()))
        calls = []

        def doubled(*xs):
            calls.append(True)
            return [lax.mul(o, lax.full_like(o, 2)) for o in fun.call_wrapped(*xs)]

        def out_axes():
            assert calls, "the axes of results are read after the function has run"
            return params["out_axes_thunk"]()
        values = [t.value if isinstance(t, CountingTracer) else t for t in tracers]
        with core.eval_context():
            made = primitive.bind(linear_util.wrap_init(doubled), *values, **{**params, "out_axes_thunk": out_axes})
        return [CountingTracer(self, m) for m in made]


def test_trace_of_a_program_handles_pmap():
    counts = []
    with core.new_main(MappingTrace, counts=counts) as main:
        trace = main.with_cur_sublevel()
        x = trace.pure(np.ones((3, 1), np.float32))
        out = pmap(lambda v: lax.sin(v), in_axes=1, out_axes=1)(x)
        total = pmap(lambda v: lax.psum(v, "i"), axis_name="i")(trace.pure(np.ones((1, 3), np.float32)))
    assert counts == [("xla_pmap", (1,), (1,)), ("xla_pmap", (0,), (0,))]
    np.testing.assert_allclose(out.value, np.full((3, 1), 2 * np.sin(1)), rtol=1e-6)
    np.testing.assert_allclose(total.value, np.full((1, 3), 2), rtol=1e-6)


def test_rules_of_a_trace_must_be_defined():
    class Empty(core.Trace):
        pass
    with core.new_main(Empty) as main:
        trace = main.with_cur_sublevel()
        for run, method in ((lambda: trace.pure(1.0), "pure"), (lambda: trace.process_primitive(prims.sin_p, [], {}),
                                                               "process_primitive")):
            with pytest.raises(NotImplementedError, match=f"Empty must define `{method}`"):
                run()


def test_state_of_tracing_is_read():
    state = core.get_opaque_trace_state()
    assert state == core.get_opaque_trace_state() and hash(state) == hash(core.get_opaque_trace_state())
    seen = []
    jit(lambda x: seen.append((core.get_opaque_trace_state() == state, core.unsafe_am_i_under_a_jit_DO_NOT_USE())) or x)(X)
    assert seen == [(False, True)]
    vmap(lambda x: seen.append((core.axis_frame("i").size, core.unsafe_get_axis_names(), core.get_axis_env().axis_sizes)) or x,
         axis_name="i")(X)
    assert seen[1] == (2, ["i"], {"i": 2}) and not core.nonempty_axis_env()
    with core.extend_axis_env_nd([("i", 2), ("j", 3)]):
        assert core.get_axis_env().axis_names() == ["i", "j"] and core.get_axis_env().axis_exists("j")
    with pytest.raises(NameError, match="i"):
        core.axis_frame("i")
    assert "unexpected tracer" in str(core.escaped_tracer_error(1.0, "detail")) and core.cur_sublevel() == 0


# --- programs -----------------------------------------------------------------------------------------------------------
def test_program_is_built_checked_and_run():
    aval = core.ShapedArray((2,), np.float32)
    x, y, z = core.Var(aval), core.Var("a", aval), core.gensym()(aval)
    eqns = [core.new_jaxpr_eqn([x], [y], prims.sin_p, {}), core.JaxprEqn([y, x], [z], prims.add_p, {})]
    jaxpr = core.Jaxpr([], [x], [z], eqns)
    core.check_jaxpr(jaxpr)
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, [], X)[0], np.sin(X) + X, rtol=1e-6)
    run = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, []))
    np.testing.assert_allclose(jvp(lambda v: run(v)[0], (X,), (X,))[1], np.cos(X) * X + X, rtol=1e-6)
    assert core.last_used(jaxpr)[y] is jaxpr.eqns[1] and core.last_used(jaxpr)[z] is None
    env = {x: 1, y: 2}
    core.clean_up_dead_vars(jaxpr.eqns[0], env, core.last_used(jaxpr))
    assert env == {x: 1, y: 2}
    core.clean_up_dead_vars(jaxpr.eqns[1], env, core.last_used(jaxpr))
    assert not env
    for item, kind in ((x, core.Var), (core.DropVar(aval), core.DropVar), (jaxpr.eqns[0], core.JaxprEqn), (jaxpr, core.Jaxpr),
                       (core.Literal(1.0, typeof(1.0)), core.Literal), (x, core.Atom)):
        assert isinstance(item, kind)


def test_bad_programs_are_refused():
    aval = core.ShapedArray((2,), np.float32)
    x, y = core.Var(aval), core.Var(aval)
    with pytest.raises(core.JaxprTypeError):
        core.check_jaxpr(core.Jaxpr([], [x], [y], []))
    jaxpr = core.Jaxpr([], [x], [x], [])
    with pytest.raises(TypeError, match="takes 1 arguments; got 2"):
        core.eval_jaxpr(jaxpr, [], X, X)
    with pytest.raises(TypeError, match="expected a ClosedJaxpr; got Jaxpr"):
        core.jaxpr_as_fun(jaxpr)


def test_nested_programs_are_found():
    program = make_jaxpr(lambda x: lax.cond(x > 0, lambda y: y, lambda y: lax.neg(y), x))(1.0)
    eqn = next(e for e in program.eqns if e.primitive.name == "cond")
    assert len(list(core.jaxprs_in_params(eqn.params))) == len(list(core.subjaxprs(program.jaxpr))) == 2
    assert core.traverse_jaxpr_params(lambda j: len(j.eqns), eqn.params) == {"branches": [1, 0]}
    assert not core.jaxpr_uses_outfeed(program.jaxpr) and core.is_literalable(1.0) and not core.is_literalable(X)


# --- custom calls -------------------------------------------------------------------------------------------------------
def test_custom_calls_are_bound_with_functions():
    fun = linear_util.wrap_init(lambda x: [lax.sin(x)])
    push = linear_util.wrap_init(lambda x, t: [lax.sin(x), lax.mul(t, 3.0)])
    assert float(grad(lambda x: core.custom_jvp_call_p.bind(fun, push, x)[0])(2.0)) == 3
    forward, backward = linear_util.wrap_init(lambda x: [x, lax.sin(x)]), linear_util.wrap_init(lambda x, ct: [lax.mul(x, ct)])
    trees = tree_structure([0.0]), tree_structure([0.0])

    def call(x):
        return core.custom_vjp_call_p.bind(fun, forward, backward, x, out_trees=lambda: trees)[0]
    assert float(grad(call)(2.0)) == 2 and float(jit(call)(0.0)) == 0


def test_custom_calls_of_programs_have_the_primitives_of_modules():
    f = custom_jvp(lax.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    eqn = shown_jaxpr(f)(1.0).eqns[0]
    for module in (core, custom_derivatives, primitives, names_lax):
        assert eqn.primitive is module.custom_jvp_call_p
    assert float(eqn.primitive.bind(0.0, **eqn.params)[0]) == 0
    assert eqn.primitive.get_bind_params(eqn.params)[0] == []

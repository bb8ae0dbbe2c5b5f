"""Rules in JAX's form: custom primitives under every transformation, compared with plain functions; errors of rules."""
import functools

import lamina_runtime
import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad, hessian, jacfwd, jacrev, jvp, linear_transpose, linearize, vjp
from lamina_batching import vmap
from lamina_compat._vocabulary import pjit_p, to_jax_program
from lamina_compat.names import core
from lamina_compat.names._src import dispatch
from lamina_compat.names.core import Primitive
from lamina_compat.names.interpreters import ad, batching, mlir, pxla, xla
from lamina_export import deserialize, export
from lamina_ir import MissingRuleError, dtypes, dumps, loads, prims, shaped
from lamina_ir import Primitive as OwnPrimitive
from lamina_parallel import pmap
from lamina_tracing import disable_jit, io_callback, jit, lax, linear_util, make_jaxpr
from lamina_tracing.extend import typeof
from lamina_tracing.primitives import select_n_p, tile_p


def make_primitive(name, impl, infer, *, several=False):
    prim = Primitive(name)
    prim.multiple_results = several
    prim.def_impl(impl)
    prim.def_abstract_eval(infer)
    mlir.register_lowering(prim, mlir.lower_fun(impl, multiple_results=several))
    return prim


# --- a unary elementwise primitive with a param ---------------------------------------------------------------------------
def wave(x, *, k):
    return lax.mul(lax.sin(x), lax.full_like(x, k))


wave_p = make_primitive("test_wave", wave, lambda x, *, k: x)
ad.defjvp(wave_p, lambda t, x, *, k: lax.mul(t, lax.mul(lax.cos(x), lax.full_like(x, k))))
batching.defvectorized(wave_p)


# --- a bilinear primitive, mapped with vmap of its implementation ---------------------------------------------------------
def product(x, y):
    return lax.dot(x, y)


product_p = make_primitive("test_product", product, lambda x, y: shaped(x.shape[:1], x.dtype))
ad.defbilinear(product_p, lambda ct, x, y: lax.mul(lax.broadcast_in_dim(ct, (ct.shape[0], y.shape[0]), (0,)),
                                                   lax.broadcast_in_dim(y, (ct.shape[0], y.shape[0]), (1,))),
               lambda ct, x, y: lax.dot(ct, x))


def product_batcher(axis_size, axis_name, trace_type, args, dims):
    return vmap(product, in_axes=tuple(dims), axis_size=axis_size)(*args), 0


batching.axis_primitive_batchers[product_p] = product_batcher


# --- several results, one without a derivative ----------------------------------------------------------------------------
def parts(x):
    return [lax.exp(x), lax.floor(x)]


parts_p = make_primitive("test_parts", parts, lambda x: [x, x], several=True)


def parts_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    out = parts_p.bind(x)
    zero = ad.Zero.from_primal_value(x)
    return out, [zero if type(t) is ad.Zero else lax.mul(t, out[0]), zero]


ad.primitive_jvps[parts_p] = parts_jvp
batching.primitive_batchers[parts_p] = lambda args, dims: (parts_p.bind(*args), [dims[0], dims[0]])


# --- linear, with params, two operands and a transpose --------------------------------------------------------------------
def mix(x, y, *, weights):
    a, b = weights
    return lax.add(lax.mul(x, lax.full_like(x, a)), lax.mul(y, lax.full_like(y, b)))


mix_p = make_primitive("test_mix", mix, lambda x, y, *, weights: x)
ad.deflinear2(mix_p, lambda ct, x, y, *, weights: [lax.mul(ct, lax.full_like(ct, w)) for w in weights])
batching.defbroadcasting(mix_p)


# --- linear with one operand, lowered with builders of a dialect -----------------------------------------------------------
double_p = OwnPrimitive("test_double")
double_p.def_impl(functools.partial(xla.apply_primitive, double_p))
double_p.def_abstract_eval(lambda x: x)
ad.deflinear(double_p, lambda ct: [double_p.bind(ct)])
batching.defvectorized(double_p)


def double_lowering(ctx, x):
    two = mlir.ir_constant(np.full(ctx.avals_in[0].shape, 2, ctx.avals_in[0].dtype))
    return [mlir.hlo.multiply(x, two)]


mlir.register_lowering(double_p, double_lowering)


# --- a reduction ------------------------------------------------------------------------------------------------------------
def total(x, *, axes):
    return lax.reduce_sum(x, axes)


total_p = make_primitive("test_total", total, lambda x, *, axes: shaped(
    tuple([n for i, n in enumerate(x.shape) if i not in axes]), x.dtype))
ad.deflinear2(total_p, lambda ct, x, *, axes: [lax.broadcast_in_dim(
    ct, x.aval.shape, tuple([i for i in range(x.aval.ndim) if i not in axes]))])
batching.defreducer(total_p)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3,)).astype(np.float32)
Y = RNG.normal(size=(3,)).astype(np.float32)
M = RNG.normal(size=(4, 3)).astype(np.float32)

# name -> (with the primitive, plain, arguments)
CASES = {
    "wave": (lambda x: wave_p.bind(x, k=3.0), lambda x: wave(x, k=3.0), (X,)),
    "product": (lambda m, x: product_p.bind(m, x), product, (M, X)),
    "parts": (lambda x: lax.mul(*parts_p.bind(x)), lambda x: lax.mul(*parts(x)), (X,)),
    "mix": (lambda x, y: mix_p.bind(x, y, weights=(2.0, 0.5)), lambda x, y: mix(x, y, weights=(2.0, 0.5)), (X, Y)),
    "double": (lambda x: lax.sin(double_p.bind(x)), lambda x: lax.sin(lax.mul(x, 2.0)), (X,)),
    "total": (lambda m: lax.sin(total_p.bind(m, axes=(1,))), lambda m: lax.sin(total(m, axes=(1,))), (M,)),
}


def summed(f):
    return lambda *xs: lax.reduce_sum(f(*xs), (0,))


def stack(x, n=2):
    return np.stack([x * (i + 1) for i in range(n)])


def scan_over(f):
    def run(*xs):
        def body(carry, ys):
            return lax.add(carry, summed(f)(*ys)), f(*ys)
        return lax.scan(body, np.float32(0), xs)
    return run


def choose(f):
    return lambda *xs: lax.cond(lax.gt(lax.reduce_sum(xs[0], tuple(range(xs[0].ndim))), np.float32(100)), f,
                                lambda *ys: f(*[lax.neg(y) for y in ys]), *xs)


def reload(f):
    """Export, save and load a function, and differentiate the loaded one."""
    def run(*xs):
        loaded = deserialize(export(jit(f))(*xs).serialize(vjp_order=1))
        out = loaded.call(*xs)
        return out, loaded.vjp().call(*xs, np.ones(out.shape, out.dtype))
    return run


def transposed_derivative(f):
    def run(*xs):
        out, push = linearize(f, *xs)
        return linear_transpose(push, *xs)(np.ones(out.shape, out.dtype))
    return run


# name -> (transformation, whether it takes arguments with a leading axis)
TRANSFORMATIONS = {
    "eager": (lambda f: f, False),
    "jit": (jit, False),
    "jvp": (lambda f: lambda *xs: jvp(f, xs, xs), False),
    "jit of jvp": (lambda f: jit(lambda *xs: jvp(f, xs, xs)), False),
    "grad": (lambda f: grad(summed(f)), False),
    "grad of jit": (lambda f: grad(summed(jit(f))), False),
    "jit of grad": (lambda f: jit(grad(summed(f))), False),
    "vjp": (lambda f: lambda *xs: vjp(f, *xs)[1](np.ones(f(*xs).shape, np.float32)), False),
    "jacfwd": (jacfwd, False),
    "jacrev": (jacrev, False),
    "hessian": (lambda f: hessian(summed(f)), False),
    "checkpoint": (lambda f: grad(checkpoint(summed(f))), False),
    "linearize and transpose": (transposed_derivative, False),
    "cond": (choose, False),
    "grad of cond": (lambda f: grad(summed(choose(f))), False),
    "saved": (reload, False),
    "vmap": (vmap, True),
    "vmap over a last axis": (
        lambda f: lambda *xs: vmap(f, in_axes=-1, out_axes=-1)(*[np.moveaxis(x, 0, -1) for x in xs]), True),
    "vmap of one argument": (lambda f: lambda x, *rest: vmap(lambda y: f(y, *[r[0] for r in rest]))(x), True),
    "jit of vmap": (lambda f: jit(vmap(f)), True),
    "vmap of jit": (lambda f: vmap(jit(f)), True),
    "vmap of grad": (lambda f: vmap(grad(summed(f))), True),
    "grad of vmap": (lambda f: grad(lambda *xs: lax.reduce_sum(vmap(f)(*xs), (0, 1))), True),
    "nested vmap": (lambda f: lambda *xs: vmap(vmap(f), in_axes=1)(*[np.stack([x, -x]) for x in xs]), True),
    "scan": (scan_over, True),
    "grad of scan": (lambda f: grad(lambda *xs: scan_over(f)(*xs)[0]), True),
    "vmap of scan": (lambda f: lambda *xs: vmap(scan_over(f))(*[np.stack([x, -x]) for x in xs]), True),
    "pmap": (lambda f: lambda *xs: pmap(f)(*[x[:1] for x in xs]), True),
    "pmap of grad": (lambda f: lambda *xs: pmap(grad(summed(f)))(*[x[:1] for x in xs]), True),
}


def flat(tree):
    return [np.asarray(x) for x in lamina_runtime.device_get(flatten(tree))]


def flatten(tree):
    return [y for x in tree for y in flatten(x)] if isinstance(tree, tuple | list) else [tree]


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize("case", CASES)
def test_custom_primitive_equals_plain_function(case, name):
    custom, plain, args = CASES[case]
    transform, batched = TRANSFORMATIONS[name]
    args = [stack(x) for x in args] if batched else args
    found, wanted = flat(transform(custom)(*args)), flat(transform(plain)(*args))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_program_with_custom_primitive_is_saved_and_parsed(case):
    custom, _, args = CASES[case]
    closed = make_jaxpr(custom)(*args)
    assert str(loads(dumps(closed))) == str(closed)


# --- tables -----------------------------------------------------------------------------------------------------------------
def test_assigned_rule_is_returned_as_it_is():
    assert ad.primitive_jvps[parts_p] is parts_jvp
    assert batching.axis_primitive_batchers[product_p] is product_batcher
    assert mlir._lowerings[double_p] is double_lowering


def test_rule_is_found_counted_and_deleted():
    prim = Primitive("test_deleted")
    assert prim not in ad.primitive_jvps and ad.primitive_jvps.get(prim) is None
    count = len(ad.primitive_jvps)
    ad.primitive_jvps[prim] = lambda primals, tangents: (primals[0], tangents[0])
    assert prim in ad.primitive_jvps and prim in list(ad.primitive_jvps) and len(ad.primitive_jvps) == count + 1
    del ad.primitive_jvps[prim]
    with pytest.raises(KeyError):
        ad.primitive_jvps[prim]
    with pytest.raises(KeyError):
        del ad.primitive_jvps[prim]


def test_built_in_rules_are_read_in_the_form_of_jax():
    out, tangent = ad.primitive_jvps[prims.sin_p]((X,), (Y,))
    np.testing.assert_allclose(tangent, np.cos(X) * Y, rtol=1e-6)
    out, tangent = ad.primitive_jvps[prims.sin_p]((X,), (ad.Zero.from_primal_value(X),))
    assert type(tangent) is ad.Zero and tangent.aval == typeof(X)
    undefined = ad.UndefinedPrimal(typeof(X))
    assert ad.primitive_transposes[prims.mul_p](Y, undefined, X)[1] is None
    np.testing.assert_allclose(ad.primitive_transposes[prims.mul_p](Y, undefined, X)[0], X * Y)
    zero = ad.primitive_transposes[prims.mul_p](ad.Zero(typeof(X)), undefined, X)
    assert type(zero[0]) is ad.Zero and zero[1] is None
    out, dim = batching.primitive_batchers[prims.mul_p]((stack(X), X), (0, None))
    np.testing.assert_allclose(np.asarray(out), stack(X) * X)
    assert dim == 0
    out, dim = batching.axis_primitive_batchers[prims.sin_p](2, "i", None, (stack(X),), (0,))
    assert out.shape == (2, 3) and dim == 0
    out, dim = batching.fancy_primitive_batchers[prims.sin_p](batching.AxisData(None, 2), (stack(X),), (0,))
    assert out.shape == (2, 3) and dim == 0


def test_rule_of_built_in_primitive_can_be_replaced_and_restored():
    old = ad.primitive_jvps[prims.tanh_p]
    table = ad.primitive_jvps.table
    with table.override(prims.tanh_p, table[prims.tanh_p]):
        ad.primitive_jvps[prims.tanh_p] = lambda primals, tangents: (lax.tanh(*primals), lax.mul(tangents[0], 7.0))
        assert float(grad(lax.tanh)(0.5)) == 7
    ad.primitive_jvps[prims.tanh_p] = old
    assert float(grad(lax.tanh)(0.5)) == pytest.approx(1 - np.tanh(0.5) ** 2, rel=1e-5)


def test_lowering_of_built_in_primitive_is_called_from_a_rule():
    prim = Primitive("test_calls_sine")
    prim.def_abstract_eval(lambda x: x)
    mlir.register_lowering(prim, lambda ctx, x: mlir._lowerings[prims.sin_p](ctx, *mlir._lowerings[double_p](ctx, x)))
    np.testing.assert_allclose(jit(lambda x: prim.bind(x))(X), np.sin(2 * X), rtol=1e-6)


def test_axis_rules_get_the_axis():
    seen = []
    prim = make_primitive("test_axis_rules", lambda x: x, lambda x: x)

    def batcher(*args):
        seen.append(args[:-2])
        return args[-2][0], args[-1][0]

    for table in (batching.axis_primitive_batchers, batching.spmd_axis_primitive_batchers, batching.fancy_primitive_batchers):
        table[prim] = batcher
        vmap(lambda x: prim.bind(x), axis_name="i")(X)
    assert seen[0][:2] == (3, "i") and seen[1][:3] == (None, 3, "i") and (seen[2][0].size, seen[2][0].name) == (3, "i")


def test_reducing_transpose_gets_no_axes():
    prim = make_primitive("test_reducing", lambda x: x, lambda x: x)
    ad.primitive_jvps[prim] = functools.partial(ad.linear_jvp, prim)
    ad.reducing_transposes[prim] = lambda axes, ct, x: [lax.mul(ct, 3.0) if axes == () else None]
    assert float(grad(lambda x: prim.bind(x))(2.0)) == 3


def test_class_zero_stands_for_zero_cotangents():
    prim = make_primitive("test_zero_class", lambda x: x, lambda x: x)
    ad.deflinear2(prim, lambda ct, x: ad.Zero)
    assert float(grad(lambda x: prim.bind(x))(2.0)) == 0


def test_platform_rule_applies_on_its_platform():
    prim = make_primitive("test_platform", lambda x: x, lambda x: x)
    mlir.register_lowering(prim, mlir.lower_fun(lambda x: lax.mul(x, 2.0), multiple_results=False), platform="cpu")
    mlir.register_lowering(prim, mlir.lower_fun(lambda x: lax.mul(x, 5.0), multiple_results=False), platform="gpu")
    assert float(jit(lambda x: prim.bind(x))(1.0)) == 2


def test_lower_fun_contains_loops_collectives_and_callbacks():
    def impl(x):
        x = lax.fori_loop(0, 3, lambda i, y: lax.mul(y, 2.0), x)
        return lax.psum(x, "i")
    prim = Primitive("test_collective")
    prim.def_abstract_eval(lambda x: x)
    mlir.register_lowering(prim, mlir.lower_fun(impl, multiple_results=False))
    assert pmap(lambda x: prim.bind(x), axis_name="i")(np.ones((1, 2), np.float32)).tolist() == [[8, 8]]

    host = Primitive("test_host")
    host.def_abstract_eval(lambda x: x)

    def rule(ctx, x):
        return mlir.emit_python_callback(ctx, lambda a: (np.sin(a),), None, [x], ctx.avals_in, ctx.avals_out)[0]
    mlir.register_lowering(host, rule)
    np.testing.assert_allclose(jit(lambda x: host.bind(x))(X), np.sin(X), rtol=1e-6)


def test_rule_calls_another_rule_on_broadcast_values():
    prim = Primitive("test_delegates")
    prim.def_abstract_eval(lambda x, y: y)
    product_rule = mlir.cache_lowering(mlir.lower_fun(lax.mul, multiple_results=False))

    def rule(ctx, *xs):
        xs = mlir.multi_broadcast_in_dim(ctx, xs, ctx.avals_in, ctx.avals_out[0].shape)
        return mlir.delegate_lowering(ctx, product_rule, *xs, avals_in=ctx.avals_out * 2)
    mlir.register_lowering(prim, rule)
    np.testing.assert_allclose(jit(lambda x, y: prim.bind(x, y))(X, M), X * M, rtol=1e-6)


def test_constants_and_attributes_have_the_types_of_their_dtypes():
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        assert str(mlir.dense_int_elements([1, 2])) == "dense<[1, 2]> : tensor<2xi64>"
        assert str(mlir.dense_bool_elements([True])) == "dense<true> : tensor<1xi1>"
        assert [str(mlir.i32_attr(1)), str(mlir.i64_attr(2)), str(mlir.dense_int_array([3]))] == [
            "1 : i32", "2 : i64", "array<i64: 3>"]
        assert str(mlir.aval_to_ir_type(shaped((2,), "bfloat16"))) == "tensor<2xbf16>"
        values = (True, 3, 2.5, "a", b"x", (1, "a"), np.arange(2), np.float32(2), np.int8(3), {"a": [True]}, np.dtype("int8"))
        assert [str(mlir.ir_attribute(v)) for v in values] == [
            "true", "3 : i64", "2.500000e+00 : f64", '"a"', '"x"', '[1, "a"]', "dense<[0, 1]> : tensor<2xi64>",
            "2.000000e+00 : f32", "3 : i8", "{a = [true]}", "i8"]
        with pytest.raises(TypeError, match="ir_attribute: expected a number.*got NoneType"):
            mlir.ir_attribute(None)
        assert mlir.unflatten_ir_values_like_types([1, 2, 3], ["t", ("t", "t")]) == [1, (2, 3)]
        module = mlir.ir.Module.create()
        with mlir.ir.InsertionPoint(module.body):
            for value in (np.ones(2, "float16"), np.ones((), dtypes.bfloat16), np.zeros((0, 3), np.int8), True, 2, 1.5, 1j):
                assert mlir.ir_constant(value).type == mlir.aval_to_ir_type(typeof(value))
            call = mlir.custom_call("f", result_types=[mlir.aval_to_ir_type(typeof(1.0))], operands=[], backend_config="text")
        assert len(call.results) == 1 and 'backend_config = "text"' in str(call)
        assert module.operation.verify() and "@f" in mlir.module_to_string(module) and mlir.module_to_bytecode(module)


def test_keys_are_operands_of_custom_primitives():
    def impl(key, x):
        return [lax.add(x, lax.convert_element_type(prims.random_unwrap_p.bind(key, use=None), np.float32)), key]
    prim = make_primitive("test_keys", impl, lambda key, x: [x, key], several=True)

    def run(seed):
        return prim.bind(prims.random_wrap_p.bind(seed, impl="fry"), np.ones(2, np.float32))[0]
    seed = np.array([3, 4], np.uint32)
    assert jit(run)(seed).tolist() == run(seed).tolist() == [4, 5]
    assert jit(run).lower(seed).compile()(seed).tolist() == [4, 5]
    assert deserialize(export(jit(run))(seed).serialize()).call(seed).tolist() == [4, 5]


def test_effectful_primitive_stays_in_programs_and_needs_rules():
    calls = []
    prim = make_primitive("test_effect", lambda x: [io_callback(lambda a: calls.append(1) or a, x, x)], None, several=True)
    prim.def_effectful_abstract_eval(lambda x: ([x], {"effect"}))
    jit(lambda x: [prim.bind(x), x][1])(1.0)
    lamina_runtime.effects_barrier()
    assert calls == [1]
    for transform in (grad, vmap):
        with pytest.raises(MissingRuleError, match="of `test_effect` has no rule"):
            transform(lambda x: prim.bind(x)[0])(X if transform is vmap else 1.0)


def test_context_of_a_rule_describes_the_equation():
    seen = []
    prim = Primitive("test_context")
    prim.def_abstract_eval(lambda x, *, k: x)

    def rule(ctx, x, *, k):
        seen.append((ctx, ctx.replace(avals_out=()), k))
        return [x]
    mlir.register_lowering(prim, rule)
    jit(lambda x: prim.bind(x, k=(1, 2)))(X)
    ctx, replaced, k = seen[0]
    assert isinstance(ctx, mlir.LoweringRuleContext) and ctx.primitive is prim and k == (1, 2)
    assert ctx.avals_in[0].shape == (3,) and replaced.avals_out == () and len(ctx.avals_out) == 1
    assert ctx.platforms == ctx.module_context.platforms == ("cpu",) and not ctx.is_forward_compat()


# --- functions of wrapped functions and programs -----------------------------------------------------------------------------
def test_jvp_and_vjp_of_wrapped_functions():
    f = linear_util.wrap_init(lambda x, y: [lax.mul(x, y), x])
    out, tangents = ad.jvp(f).call_wrapped([2.0, 3.0], [1.0, ad.Zero.from_primal_value(3.0)])
    assert [*map(float, out), *map(float, tangents)] == [6, 2, 3, 1]
    out, tangents = ad.jvp(f, instantiate=False).call_wrapped([2.0, 3.0], [ad.Zero.from_primal_value(2.0), 1.0])
    assert float(tangents[0]) == 2 and type(tangents[1]) is ad.Zero
    out, pull = ad.vjp(f, (2.0, 3.0))
    assert [*map(float, pull(1.0, ad.Zero.from_primal_value(1.0)))] == [3, 2]
    with_aux, aux = ad.jvp(linear_util.wrap_init(lambda x: ([x], "aux")), has_aux=True)
    with_aux.call_wrapped([1.0], [1.0])
    assert aux() == "aux"


def test_derivatives_and_batches_of_programs():
    closed = make_jaxpr(lambda x, y: (lax.mul(x, y), y))(2.0, 3.0)
    program, nonzero = ad.jvp_jaxpr(closed, [True, False], False)
    assert nonzero == [True, False] and len(program.in_avals) == 3
    linear = make_jaxpr(lambda x: lax.mul(x, 4.0))(1.0)
    undefined = ad.UndefinedPrimal(linear.in_avals[0])
    assert [*map(float, ad.backward_pass(linear.jaxpr, True, linear.consts, [undefined], [2.0]))] == [8]
    program, batched = batching.batch_jaxpr(closed, 5, [True, False], False, None, None)
    assert batched == [True, False] and program.in_avals[0].shape == (5,)


def test_program_is_mapped_over_given_axes():
    closed = make_jaxpr(lambda x, y: (lax.mul(x, y), y))(X, Y)
    program, dims = batching.batch_jaxpr_axes(closed, 4, (1, None), (0, batching.zero_if_mapped), None)
    assert [a.shape for a in program.in_avals] == [(3, 4), (3,)] and dims == [0, None]
    assert [a.shape for a in program.out_avals] == [(4, 3), (3,)]
    program, dims = batching.batch_jaxpr_axes(closed, batching.AxisData("i", 4), (0, 1), (1, batching.zero_if_mapped))
    assert [a.shape for a in program.out_avals] == [(3, 4), (4, 3)] and dims == [1, 0]


def test_batch_maps_a_wrapped_function():
    f = linear_util.wrap_init(lambda x, y: [lax.mul(x, y), y])
    first, second = batching.batch(f, None, 3, (0, None), (0, 0)).call_wrapped(X, 2.0)
    np.testing.assert_allclose(first, X * 2)
    assert second.shape == (3,)
    first, second = batching.batch(f, batching.AxisData("i", 3), lambda: (0, None), lambda: (0, None)).call_wrapped(X, 2.0)
    assert second == 2.0


def test_axis_helpers():
    assert batching.moveaxis(M, 0, -1).shape == (3, 4) and batching.broadcast(M, 2, -1).shape == (4, 3, 2)
    assert batching.bdim_at_front(M, None, 2).shape == (2, 4, 3) and batching.bdim_at_front(M, 1, 3).shape == (3, 4)
    assert batching.matchaxis("i", 3, 1, 0, M).shape == (3, 4) and batching.matchaxis("i", 2, None, 1, M).shape == (4, 2, 3)
    data = batching.AxisData("i", 3)
    assert batching.matchaxis(data, 1, 0, M).shape == (3, 4)
    np.testing.assert_allclose(batching.matchaxis(data, 1, None, M, sum_match=True), M.sum(1), rtol=1e-6)
    with pytest.raises(ValueError, match="sum_match"):
        batching.matchaxis(data, 1, None, M)


def test_zero_helpers():
    zero = ad.Zero.from_primal_value(X)
    assert np.array_equal(ad.instantiate_zeros(zero), np.zeros(3)) and ad.instantiate_zeros(X) is X
    assert ad.add_tangents(zero, X) is X and ad.add_tangents(X, zero) is X
    assert ad.instantiate_zeros(ad.Zero.from_primal_value(3)).dtype.names == ("float0",)
    assert ad.is_undefined_primal(ad.UndefinedPrimal(typeof(X))) and not ad.is_undefined_primal(X)
    symbolic = ad.replace_internal_symbolic_zeros(zero)
    assert type(symbolic) is ad.SymbolicZero and type(ad.replace_rule_output_symbolic_zeros(symbolic)) is ad.Zero
    assert repr(zero) == "Zero(f32[3])"
    assert ad.replace_float0s(3, ad.recast_to_float0(3, 5.0)) == 0 and ad.recast_to_float0(X, Y) is Y
    assert ad.zeros_like_jaxval(X).tolist() == [0, 0, 0]


# --- bad input ----------------------------------------------------------------------------------------------------------------
BAD_JVPS = {
    "pair": (lambda primals, tangents: primals[0], r"must return a pair \(result, tangent\); got ndarray"),
    "shape": (lambda primals, tangents: (primals[0], np.ones(2, np.float32)), r"must have the type float32\[3\]"),
}


@pytest.mark.parametrize("rule, message", BAD_JVPS.values(), ids=BAD_JVPS)
def test_error_of_a_jvp_rule_names_table_primitive_and_line(rule, message):
    prim = make_primitive("test_bad_jvp", lambda x: x, lambda x: x)
    ad.primitive_jvps[prim] = rule
    with pytest.raises(TypeError, match=message) as info:
        jvp(lambda x: prim.bind(x), (X,), (X,))
    assert str(info.value).startswith("ad.primitive_jvps: rule of `test_bad_jvp`, registered at ")
    assert "test_interpreters.py:" in str(info.value)


BAD_TRANSPOSES = {
    "none": (lambda ct, x: None, "must return a sequence of 1 cotangents; got NoneType"),
    "count": (lambda ct, x: [ct, ct], "must return 1 cotangents; got 2"),
    "array": (lambda ct, x: ct, "must return a sequence of 1 cotangents"),
    "shape": (lambda ct, x: [np.ones(2, np.float32)], r"an operand float32\[3\] must have its type; got float32\[2\]"),
}


@pytest.mark.parametrize("rule, message", BAD_TRANSPOSES.values(), ids=BAD_TRANSPOSES)
def test_error_of_a_transpose_rule_names_table_primitive_and_line(rule, message):
    prim = make_primitive("test_bad_transpose", lambda x: x, lambda x: x)
    ad.deflinear2(prim, rule)
    with pytest.raises(TypeError, match=message) as info:
        grad(lambda x: lax.reduce_sum(prim.bind(x), (0,)))(X)
    assert str(info.value).startswith("ad.primitive_transposes: rule of `test_bad_transpose`, registered at ")
    assert "test_interpreters.py:" in str(info.value)


BAD_BATCHERS = {
    "pair": (lambda args, dims: args[0], "must return a pair"),
    "dim": (lambda args, dims: (args[0], 2), "must be an axis of it or None; got int: 2"),
    "size": (lambda args, dims: (args[0], 1), r"must have the size of the mapped axis, 2; got float32\[2,3\]"),
}


@pytest.mark.parametrize("rule, message", BAD_BATCHERS.values(), ids=BAD_BATCHERS)
def test_error_of_a_batching_rule_names_table_primitive_and_line(rule, message):
    prim = make_primitive("test_bad_batcher", lambda x: x, lambda x: x)
    batching.primitive_batchers[prim] = rule
    with pytest.raises(TypeError, match=message) as info:
        vmap(lambda x: prim.bind(x))(stack(X))
    assert str(info.value).startswith("batching.primitive_batchers: rule of `test_bad_batcher`, registered at ")
    assert "test_interpreters.py:" in str(info.value)


BAD_LOWERINGS = {
    "count": (lambda ctx, x: [x, x], "must return 1 values; got 2"),
    "none": (lambda ctx, x: None, "must return a sequence of ir.Values; got NoneType"),
    "value": (lambda ctx, x: [3], "result 0 must be an ir.Value; got int: 3"),
    "type": (lambda ctx, x: [mlir.ir_constant(np.float32(1))],
             r"must have the type tensor<3xf32> of float32\[3\]; got tensor<f32>"),
}


BAD_FUNCTIONS = {
    "count": (lambda x: [x, x], "must return 1 values; got 2"),
    "type": (lambda x: [lax.convert_element_type(x, np.int32)], r"result 0 must have the type float32\[3\]; got int32\[3\]"),
}


@pytest.mark.parametrize("fun, message", BAD_FUNCTIONS.values(), ids=BAD_FUNCTIONS)
def test_error_of_a_lowered_function_names_table_primitive_and_line(fun, message):
    prim = make_primitive("test_bad_function", fun, lambda x: [x], several=True)
    with pytest.raises(TypeError, match=message) as info:
        jit(lambda x: prim.bind(x))(X)
    assert str(info.value).startswith("mlir.register_lowering: rule of `test_bad_function`, registered at ")
    assert "test_interpreters.py:" in str(info.value)


@pytest.mark.parametrize("rule, message", BAD_LOWERINGS.values(), ids=BAD_LOWERINGS)
def test_error_of_a_lowering_rule_names_table_primitive_and_line(rule, message):
    prim = Primitive("test_bad_lowering")
    prim.def_abstract_eval(lambda x: x)
    mlir.register_lowering(prim, rule)
    with pytest.raises(TypeError, match=message) as info:
        jit(lambda x: prim.bind(x))(X)
    assert str(info.value).startswith("mlir.register_lowering: rule of `test_bad_lowering`, registered at ")
    assert "test_interpreters.py:" in str(info.value)


def test_missing_rule_names_the_table_and_where_other_rules_are():
    prim = make_primitive("test_missing", lambda x: x, lambda x: x)
    for transform, table in ((grad, "ad.primitive_jvps"), (vmap, "batching.primitive_batchers")):
        with pytest.raises(MissingRuleError, match=rf"`test_missing` has no rule; set jax.interpreters.{table}\[") as info:
            transform(lambda x: lax.reduce_sum(prim.bind(x), tuple(range(x.ndim))))(X)
        assert "(registered: mlir.register_lowering at " in str(info.value) and "test_interpreters.py:" in str(info.value)
    ad.primitive_jvps[prim] = functools.partial(ad.linear_jvp, prim)
    with pytest.raises(MissingRuleError, match=r"transpose of `test_missing` has no rule; set jax.interpreters.ad.primitive"):
        grad(lambda x: prim.bind(x))(1.0)
    other = Primitive("test_not_lowered")
    other.def_abstract_eval(lambda x: x)
    with pytest.raises(MissingRuleError, match=r"call jax.interpreters.mlir.register_lowering\(test_not_lowered_p, rule\)"):
        jit(lambda x: other.bind(x))(X)


@pytest.mark.parametrize("key", ["sin", None, lax.sin])
def test_key_that_is_no_primitive_is_refused(key):
    with pytest.raises(TypeError, match="ad.primitive_jvps: the key of a rule must be a Primitive"):
        ad.primitive_jvps[key] = lambda primals, tangents: None
    with pytest.raises(TypeError, match="mlir.register_lowering: the key of a rule must be a Primitive"):
        mlir.register_lowering(key, lambda ctx, x: [x])


def test_rule_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="batching.primitive_batchers: the rule of `sin` must be a function; got int: 3"):
        batching.primitive_batchers[prims.sin_p] = 3


def test_unknown_platform_is_refused():
    with pytest.raises(ValueError, match="platform must be one of gpu, cuda, rocm, cpu, tpu or None; got 'metal'"):
        mlir.register_lowering(wave_p, lambda ctx, x: [x], platform="metal")


ABSENT = [(ad, "linearize_jaxpr"), (batching, "RaggedAxis"), (batching, "register_vmappable"), (mlir, "jaxpr_subcomp"),
          (xla, "register_translation"), (pxla, "ShardedDeviceArray")]


@pytest.mark.parametrize("module, name", ABSENT, ids=[name for _, name in ABSENT])
def test_absent_name_is_explained(module, name):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': .+"):
        getattr(module, name)


# --- xla, pxla --------------------------------------------------------------------------------------------------------------
def test_mesh_in_scope_is_read():
    assert pxla.thread_resources.env.physical_mesh.empty and pxla.thread_resources.env.physical_mesh.devices.shape == ()
    with pxla.Mesh(np.array(lamina_runtime.devices()[:1]), ("x",)) as mesh:
        assert pxla.thread_resources.env.physical_mesh == mesh


def test_jitted_functions_are_recognized():
    assert isinstance(jit(wave), xla.xe.PjitFunction) and not isinstance(wave, xla.xe.PjitFunction)


@pytest.mark.parametrize("apply", [xla.apply_primitive, dispatch.apply_primitive])
def test_primitive_is_compiled_by_its_evaluation(apply):
    prim = Primitive("test_apply")
    prim.def_impl(functools.partial(apply, prim))
    prim.def_abstract_eval(lambda x, *, k: x)
    mlir.register_lowering(prim, mlir.lower_fun(wave, multiple_results=False))
    np.testing.assert_allclose(prim.bind(X, k=2.0), wave(X, k=2.0), rtol=1e-6)
    with disable_jit():
        np.testing.assert_allclose(jit(lambda x: prim.bind(x, k=2.0))(X), wave(X, k=2.0), rtol=1e-6)


def test_class_of_a_program_becomes_an_array_class():
    class Boxed:
        def __init__(self, value):
            self.value = value

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.value, dtype)

    assert Boxed not in xla.pytype_aval_mappings
    xla.pytype_aval_mappings[Boxed] = xla.pytype_aval_mappings[np.ndarray]
    xla.canonicalize_dtype_handlers[Boxed] = xla.canonicalize_dtype_handlers[np.ndarray]
    assert float(jit(lambda x: lax.mul(x, 2.0))(Boxed(np.float32(3)))) == 6
    with pytest.raises(TypeError, match="cannot become an array class"):
        xla.pytype_aval_mappings[str] = xla.pytype_aval_mappings[np.ndarray]


# --- primitives with other names, params or operands in JAX -----------------------------------------------------------------
P = np.array([True, False, True])


def test_rules_of_select_n_have_the_operands_of_jax():
    out, tangent = ad.primitive_jvps[select_n_p]((P, X, Y), (ad.Zero.from_primal_value(P), X, Y))
    assert np.array_equal(out, np.where(P, Y, X)) and np.array_equal(tangent, out)
    back = ad.primitive_transposes[select_n_p](X, P, ad.UndefinedPrimal(typeof(X)), ad.UndefinedPrimal(typeof(X)))
    assert back[0] is None and np.array_equal(back[1], np.where(P, 0, X)) and np.array_equal(back[2], np.where(P, X, 0))
    out, dim = batching.primitive_batchers[select_n_p]((stack(P), X, Y), (0, None, None))
    assert dim == 0 and out.shape == (2, 3)


@pytest.fixture
def restored_rules():
    """Restore the rules of `select` after a test."""
    tables = [view.table for view in (ad.primitive_jvps, ad.primitive_transposes, batching.primitive_batchers, mlir._lowerings)]
    before = [table[prims.select_p] for table in tables]
    yield
    for table, rule in zip(tables, before):
        table.define(prims.select_p, rule)


def test_assigned_rules_of_select_n_get_the_operands_of_jax(restored_rules):
    seen = []

    def jvp_rule(primals, tangents):
        seen.append((primals, tangents))
        return select_n_p.bind(*primals), lax.mul(select_n_p.bind(primals[0], *map(ad.instantiate_zeros, tangents[1:])), 2.0)

    def batcher(args, dims):
        seen.append((args, dims))
        return select_n_p.bind(*[batching.bdim_at_front(a, d, 2) for a, d in zip(args, dims)]), 0
    ad.primitive_jvps[select_n_p] = jvp_rule
    assert ad.primitive_jvps[select_n_p] is jvp_rule and select_n_p in ad.primitive_jvps
    _, tangent = jvp(lambda x, y: lax.select(P, x, y), (X, Y), (X, Y))
    assert np.array_equal(tangent, 2 * np.where(P, X, Y)) and np.array_equal(seen[0][0][1], Y)  # the case False comes first
    batching.primitive_batchers[select_n_p] = batcher
    assert np.array_equal(vmap(lambda x: lax.select(P, x, Y))(stack(X)), np.where(P, stack(X), Y))
    assert seen[-1][1] == (None, None, 0)
    ad.primitive_transposes[select_n_p] = lambda ct, p, x, y: [None, select_n_p.bind(p, ct, lax.full_like(ct, 0)), None]
    pulled = linear_transpose(lambda y: lax.select(P, X * 0, y), Y)(X)[0]
    assert np.array_equal(pulled, np.where(P, 0, X))


def test_assigned_lowerings_of_select_n_get_the_operands_of_jax(restored_rules):
    def by_arithmetic(p, x, y):
        p = lax.convert_element_type(p, x.dtype)
        return lax.add(lax.mul(x, lax.sub(lax.full_like(p, 1), p)), lax.mul(y, p))
    for rule in (lambda ctx, p, x, y: [mlir.hlo.select(p, y, x)], mlir.lower_fun(by_arithmetic, multiple_results=False)):
        mlir.register_lowering(select_n_p, rule)
        assert np.array_equal(jit(lambda p, x, y: lax.select(p, x, y))(P, X, Y), np.where(P, X, Y))


def test_rules_of_pjit_and_scan_take_params_of_jax():
    shown = to_jax_program(make_jaxpr(lambda x: lax.scan(lambda c, y: (jit(lax.sin)(lax.mul(c, y)), y), x, X))(1.0))
    scan = next(e for e in shown.jaxpr.eqns if e.primitive == prims.scan_p)
    one, zero = np.float32(1), ad.Zero.from_primal_value(X)
    out, tangents = ad.primitive_jvps[scan.primitive]([one, X], [one, zero], **scan.params)
    assert type(tangents[1]) is ad.Zero
    wanted = jvp(lambda x: lax.scan(lambda c, y: (lax.sin(lax.mul(c, y)), y), x, X)[0], (1.0,), (1.0,))[1]
    np.testing.assert_allclose(tangents[0], wanted, rtol=1e-6)
    call = next(e for e in scan.params["jaxpr"].jaxpr.eqns if e.primitive is pjit_p)
    assert pjit_p in ad.primitive_jvps and pjit_p in mlir._lowerings
    (out,), (tangent,) = ad.primitive_jvps[pjit_p]([np.float32(0.5)], [np.float32(1)], **call.params)
    assert float(tangent) == pytest.approx(np.cos(0.5), rel=1e-6)
    (out,), (dim,) = batching.primitive_batchers[pjit_p]([X], [0], **call.params)
    assert dim == 0 and np.allclose(out, np.sin(X), rtol=1e-6)


def test_composite_primitives_have_derived_rules():
    out, tangent = ad.primitive_jvps[tile_p]((X,), (Y,), reps=(2,))
    assert np.array_equal(tangent, np.tile(Y, 2)) and tile_p in batching.primitive_batchers
    with pytest.raises(NotImplementedError, match="`tile` binds other primitives in lamina, whose rules apply"):
        ad.primitive_jvps[tile_p] = lambda primals, tangents: None


def test_linearize_returns_the_program_of_the_derivative():
    fun = linear_util.wrap_init(lambda x, y: [lax.mul(lax.sin(x), y), lax.full_like(y, 3)])
    out, results, jaxpr, consts = ad.linearize(fun, np.float32(2), np.float32(3))
    np.testing.assert_allclose(out, [3 * np.sin(2), 3], rtol=1e-6)
    assert [r.is_known() for r in results] == [False, True] and float(results[1].get_known()) == 0
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, consts, 1.0, 10.0), [3 * np.cos(2) + 10 * np.sin(2)], rtol=1e-6)


def test_linearize_takes_integers_and_auxiliary_data():
    fun = linear_util.wrap_init(lambda n, x: ([lax.mul(x, 2.0)], ["aux"]))
    out, _, jaxpr, consts, aux = ad.linearize(fun, np.int32(3), np.float32(4), has_aux=True)
    assert aux == ["aux"] and float(out[0]) == 8
    assert jaxpr.invars[0].aval.dtype == dtypes.float0
    assert float(core.eval_jaxpr(jaxpr, consts, np.zeros((), dtypes.float0), 5.0)[0]) == 10

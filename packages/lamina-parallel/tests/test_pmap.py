"""Arguments, nesting and errors of pmap, independent of the runtime."""
import functools
import gc
import weakref

import numpy as np
import pytest
from lamina_autodiff import custom_jvp, grad, jacfwd, jvp
from lamina_batching import vmap
from lamina_ir import TracerBoolError, subprograms
from lamina_parallel import axis_index, padded, pmap, psum
from lamina_parallel.extend import PmapSpec
from lamina_tracing import jit, lax, make_jaxpr

X = np.arange(24.0, dtype=np.float32).reshape(4, 2, 3)


def test_in_and_out_axes_place_the_mapped_axis():
    f = pmap(lambda x, y: (lax.mul(x, y), y), in_axes=(1, None), out_axes=(1, None))
    a, b = f(X, np.float32(2))
    np.testing.assert_array_equal(np.asarray(a), X * 2)
    assert np.asarray(b) == 2
    tree = pmap(lambda d: d["a"] + d["b"], in_axes=({"a": 0, "b": None},))({"a": X, "b": np.float32(1)})
    np.testing.assert_array_equal(np.asarray(tree), X + 1)
    np.testing.assert_array_equal(np.asarray(pmap(lambda x, *, y: x + y)(X, y=X)), X + X)
    np.testing.assert_array_equal(np.asarray(pmap(lambda x: x, in_axes=-1)(X[:, :1])), np.moveaxis(X[:, :1], -1, 0))


def test_static_arguments_and_axis_size():
    f = pmap(lambda x, n: lax.mul(x, float(n)), static_broadcasted_argnums=1)
    np.testing.assert_array_equal(np.asarray(f(X, 3)), 3 * X)
    with pytest.raises(ValueError, match="static_broadcasted_argnums"):
        f(X)
    for in_axes in ((0,), (0, None), (0, 0)):  # a trailing static argument needs no entry
        f = pmap(lambda x, n: lax.mul(x, float(n)), in_axes=in_axes, static_broadcasted_argnums=1)
        np.testing.assert_array_equal(np.asarray(f(X, 3)), 3 * X)
    with pytest.raises(ValueError, match="one entry per positional argument"):
        pmap(lambda n, x: lax.mul(x, float(n)), in_axes=(0,), static_broadcasted_argnums=0)(3, X)
    out = pmap(lambda: axis_index("i"), axis_name="i", axis_size=3)()
    assert np.asarray(out).tolist() == [0, 1, 2]


def test_pmap_as_decorator():
    @functools.partial(pmap, axis_name="i")
    def f(x):
        return psum(x, "i")
    np.testing.assert_allclose(np.asarray(f(X))[0], X.sum(0))


ORDERS = {
    "jit(pmap)": lambda f: jit(pmap(f)), "pmap(jit)": lambda f: pmap(jit(f)), "pmap(vmap)": lambda f: pmap(vmap(f)),
    "vmap(pmap)": lambda f: vmap(pmap(f), in_axes=1, out_axes=1), "pmap(pmap)": lambda f: pmap(pmap(f)),
    "jit(pmap(jit(vmap)))": lambda f: jit(pmap(jit(vmap(f)))), "vmap(jit(pmap))": lambda f: vmap(jit(pmap(f)), 1, 1),
}


@pytest.mark.parametrize("order", ORDERS)
def test_pmap_nests_with_jit_and_vmap(order):
    mapped = ORDERS[order](lambda x: lax.sin(x) * 2)
    np.testing.assert_allclose(np.asarray(mapped(X)), 2 * np.sin(X), rtol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_through_every_nesting(order):
    mapped = ORDERS[order](lambda x: lax.sin(x) * x)
    loss = lambda x: lax.reduce_sum(mapped(x), (0, 1, 2))  # noqa: E731
    np.testing.assert_allclose(np.asarray(grad(loss)(X)), np.cos(X) * X + np.sin(X), rtol=1e-4, atol=1e-5)
    _, t = jvp(mapped, (X,), (np.ones_like(X),))
    np.testing.assert_allclose(np.asarray(t), np.cos(X) * X + np.sin(X), rtol=1e-4, atol=1e-5)


def test_grad_with_shared_operand_and_residuals():
    def loss(w, x):
        return lax.reduce_sum(pmap(lambda w, v: lax.sin(w * v), in_axes=(None, 0))(w, x), (0, 1, 2))
    g = grad(loss)(np.float32(0.5), X)
    np.testing.assert_allclose(np.asarray(g), np.sum(np.cos(0.5 * X) * X), rtol=1e-4)


def test_grad_and_jacobian_inside_pmap():
    g = pmap(grad(lambda x: lax.reduce_sum(lax.sin(x), (0, 1))))(X)
    np.testing.assert_allclose(np.asarray(g), np.cos(X), rtol=1e-5, atol=1e-6)
    j = pmap(jacfwd(lax.sin))(X[:, 0])
    assert j.shape == (4, 3, 3)


def test_closed_over_tracer_is_shared():
    def f(y):
        return pmap(lambda x: lax.mul(x, y))(X)
    np.testing.assert_array_equal(np.asarray(jit(f)(np.float32(2))), 2 * X)
    assert len(make_jaxpr(f)(np.float32(2)).eqns[0].invars) == 2


@pytest.mark.parametrize("call, message", [
    (lambda: pmap(lambda x, y: x)(X, X[:3]), "inconsistent sizes.*y.*expected 4, as x"),
    (lambda: pmap(lambda x: x, in_axes=(0, 0))(X), "in_axes must have one entry per positional argument"),
    (lambda: pmap(lambda x: x, in_axes=None)(X), "at least one in_axes"),
    (lambda: pmap(lambda x: x)(np.float32(1)), "rank 0"),
    (lambda: pmap(lambda x: x, in_axes=5)(X), "out of range"),
    (lambda: pmap(lambda x: x, out_axes=7)(X), "out_axes 7 is out of range"),
    (lambda: pmap(lambda x: x, in_axes=({"a": 0},))(X), "in_axes.0. must be a prefix"),
    (lambda: pmap(lambda x: x, devices=[]), "devices must not be empty"),
])
def test_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("call, message", [
    (lambda: pmap(lambda x: x)("a"), "x: expected"), (lambda: pmap(lambda x: x, in_axes="a")(X), "in_axes"),
    (lambda: pmap(lambda x: "a")(X), "returned str"), (lambda: pmap(3), "expected a function"),
    (lambda: pmap(lambda x: x)(np.array(["a"])), "dtype")])
def test_type_errors(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_mapped_axis_of_size_0_is_refused():
    with pytest.raises(ValueError, match="size 0"):
        pmap(lambda x: x)(np.ones((0, 2), np.float32))


def test_tracer_error_names_the_mapped_function_and_argument():
    def branching(x, y):
        return x if y > 0 else -x

    with pytest.raises(TracerBoolError, match=r"depends on argument y of `branching` at .*, traced by pmap"):
        pmap(branching)(np.ones(2, "float32"), np.ones(2, "float32"))


def test_error_names_dict_keys_of_several_types():
    mixed = {1: np.ones(2, np.float32), "a": np.ones(2, np.float32)}
    for mapper, name in ((pmap, "pmap"), (vmap, "vmap")):
        with pytest.raises(TypeError, match=rf"{name} of `<lambda>`: .*the dict at args\[1\] has the keys 1, 'a', of types"):
            mapper(lambda x, d: x)(mixed[1], mixed)
    with pytest.raises(TypeError, match="pmap of `<lambda>`: .*the dict at output has the keys 1, 'a'"):
        pmap(lambda x: {1: x, "a": x})(mixed[1])


def test_second_pmap_of_a_function_reuses_the_trace():
    calls = []

    def f(x):
        calls.append(1)
        return x + 1

    x = np.ones((4, 2), np.float32)
    for _ in range(3):
        pmap(f)(x)
        pmap(f, in_axes=(1,))(x)
    assert len(calls) == 2
    pmap(f, out_axes=1)(x)
    pmap(f, axis_name="i")(x)
    pmap(f, axis_name="i")(x)
    assert len(calls) == 4


def test_second_pmap_of_a_bound_method_reads_changed_attributes():
    class Model:
        def __init__(self):
            self.step = 1.0

        def run(self, x):
            return x + self.step

    model, x = Model(), np.zeros(2, np.float32)
    assert np.asarray(pmap(model.run)(x)).tolist() == [1, 1]
    model.step = 2.0
    assert np.asarray(pmap(model.run)(x)).tolist() == [2, 2]


def test_second_pmap_of_a_partial_reuses_the_trace():
    calls = []

    def f(scale, x, *, shift=0.0):
        calls.append((scale, shift))
        return lax.add(lax.mul(x, np.float32(scale)), np.float32(shift))

    for _ in range(3):
        assert np.asarray(pmap(functools.partial(f, 2.0, shift=1.0))(X[:, 0, 0])).tolist() == (X[:, 0, 0] * 2 + 1).tolist()
        pmap(functools.partial(f, 2, shift=1.0))(X)  # int instead of float
        pmap(functools.partial(f, -0.0))(X)
        pmap(functools.partial(f, 0.0))(X)
    assert calls == [(2.0, 1.0), (2, 1.0), (-0.0, 0.0), (0.0, 0.0)]
    for _ in range(2):
        pmap(functools.partial(f, np.ones(())))(X)  # an array may change
    assert len(calls) == 6


def test_second_pmap_of_a_partial_method_reads_changed_attributes():
    class Model:
        def __init__(self):
            self.step, self.calls = 1.0, 0

        def run(self, scale, x):
            return x * scale + self.step

    model, x = Model(), np.zeros(2, np.float32)
    assert np.asarray(pmap(functools.partial(model.run, 2.0))(x)).tolist() == [1, 1]
    model.step = 2.0
    assert np.asarray(pmap(functools.partial(model.run, 2.0))(x)).tolist() == [2, 2]


@pytest.mark.parametrize("mapper", [pmap, lambda f: pmap(functools.partial(f)), lambda f: padded(f, devices=range(2))])
def test_programs_are_freed_with_the_function(mapper):
    ruled = custom_jvp(lambda x: x * 2)
    ruled.defjvp(lambda primals, tangents: (ruled(*primals), tangents[0]))

    def f(x):
        return ruled(jit(lambda v: v * 2)(x))

    mapper(f)(X)
    mapper(f)(X)
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_number_of_programs_per_function_is_bounded():
    def f(x, n):
        return x * float(n)

    table = PmapSpec(f, static_broadcasted_argnums=1)
    for n in range(1500):
        table.trace_call((X, n), {}, *table.split((X, n), {}))
    assert len(table.programs) <= 1024


DEPTH = 64


def nest(calls, leaf):
    def level(n):
        def f(x):
            calls.append(n)
            return inner(inner(x)) if n else leaf(x)

        inner = level(n - 1) if n else None
        return jit(f)

    return level(DEPTH)


@pytest.mark.parametrize("mapper", [pmap, lambda f, name: padded(f, name, devices=range(3))])
@pytest.mark.parametrize("leaf", [lambda x: x + 1, lambda x: x + psum(x, "i"), lambda x: x + axis_index("i")])
def test_shared_nested_calls_are_handled_once(leaf, mapper):
    calls = []
    mapped = mapper(nest(calls, leaf), "i")
    closed = make_jaxpr(mapped)(X)
    assert sorted(calls) == list(range(DEPTH + 1))
    assert str(closed).count("psum") <= 4 * DEPTH and len(str(closed).splitlines()) < 40 * DEPTH
    closed = make_jaxpr(grad(lambda x: lax.reduce_sum(mapped(x), (0, 1, 2))))(X)
    make_jaxpr(vmap(mapped))(np.stack([X, X]))
    assert sorted(calls) == list(range(DEPTH + 1)) and len(collect_programs(closed)) < 40 * DEPTH


def collect_programs(closed):
    found, todo = {closed}, [closed]
    for program in todo:
        fresh = [s for e in program.jaxpr.eqns for s in subprograms(e) if s not in found]
        found.update(fresh)
        todo += fresh
    return found


def test_pmap_of_a_function_inside_its_own_pmap():
    def f(x):
        return pmap(f)(x) * 2 if x.ndim else x + 1

    assert np.asarray(pmap(f)(np.zeros((2, 3), np.float32))).tolist() == [[2.0] * 3] * 2

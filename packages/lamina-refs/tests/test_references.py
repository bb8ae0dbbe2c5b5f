"""References: reads, writes, and every transformation of functions that make, take or close over them."""
import copy
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from lamina_autodiff import checkpoint, custom_jvp, custom_linear_solve, custom_vjp, grad, hessian, jvp, value_and_grad
from lamina_batching import vmap
from lamina_numpy import asarray
from lamina_ir import errors
from lamina_refs import (Ref, addupdate, discharge, empty_ref, free_ref, freeze, get, new_ref, set as set_ref, swap)
from lamina_tracing import Array, eval_shape, jit, lax, make_jaxpr

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def array_of(ref):
    return np.asarray(ref[...])


# --- reads and writes ---------------------------------------------------------------------------------------------
INDICES = [..., (), 0, -1, (1, 2), slice(None), slice(None, None, -1), (slice(1), 2), (..., 1), None, (0, None),
           np.array([1, 0, 1]), (np.array([0, 1]), np.array([2, 0])), np.array([True, False]), np.int32(1)]


@pytest.mark.parametrize("index", INDICES, ids=map(str, range(len(INDICES))))
@pytest.mark.parametrize("compiled", [False, True])
def test_reads_and_writes_equal_those_of_numpy(index, compiled):
    ref, expected = new_ref(X), X.copy()

    def run(ref):
        first = ref[index]
        ref[index] = 7.
        ref[index] += 2.
        return first

    first = (jit(run) if compiled else run)(ref)
    np.testing.assert_array_equal(first, expected[index])
    expected[index] = 9
    np.testing.assert_array_equal(array_of(ref), expected)


def test_type_of_a_reference_is_that_of_its_value_without_weak_type():
    ref = new_ref(1)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size) == ((), np.int32, 0, 1) and not ref[...].weak_type
    assert isinstance(ref, Ref) and empty_ref((2, 3), np.int8).dtype == np.int8 and empty_ref(X).shape == (2, 3)
    assert len({ref, ref}) == 1 and ref == ref and ref != new_ref(1)
    assert repr(new_ref(X[0])) == "Ref([0., 1., 2.], dtype=float32)"


def test_a_reference_copies_a_host_array():
    x = X.copy()
    ref = new_ref(x)
    ref[0] = x[1]
    x[...] = 0
    np.testing.assert_array_equal(array_of(ref), X[[1, 1]])


def test_copies_of_a_reference_hold_a_value_of_their_own():
    ref = new_ref(X)
    for other in (copy.deepcopy(ref), pickle.loads(pickle.dumps(ref))):
        other[0] = 9.
        addupdate(other, 1, 1.)
        np.testing.assert_array_equal(array_of(other), [[9, 9, 9], X[1] + 1])
    np.testing.assert_array_equal(array_of(ref), X)
    assert copy.copy(ref) is ref


def test_functions_of_references():
    ref = new_ref(X)
    assert get(ref, (1, 2)) == 5 and get(ref).shape == (2, 3)
    assert swap(ref, (0, 0), 8.) == 0 and ref[0, 0] == 8
    set_ref(ref, 1, X[0])
    addupdate(ref, (np.array([0, 0]), np.array([1, 1])), 1.)
    addupdate(ref, None, X)
    np.testing.assert_array_equal(freeze(ref), [[8, 4, 4], [3, 5, 7]])
    other = new_ref(X)
    free_ref(other)
    with pytest.raises(ValueError, match="frozen"):
        other[...]


class Block(NamedTuple):
    start: object
    size: int
    stride: int = 1


@pytest.mark.parametrize("start", [1, asarray(1)])
def test_blocks_select_a_range_of_each_axis(start):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for index, same_part in [(Block(start, 2), np.s_[1:3]), ((Block(start, 2), Block(start, 3)), np.s_[1:3, 1:4]),
                             ((..., Block(start, 3, 2)), np.s_[..., 1:6:2]), ((0, Block(start, 2)), np.s_[0, 1:3]),
                             ((slice(None), Block(start, 2), None), np.s_[:, 1:3, None])]:
        for run in (lambda r, index: r[index], lambda r, index: jit(lambda r: r[index])(r)):
            np.testing.assert_array_equal(run(new_ref(x), index), x[same_part])
        ref, expected = new_ref(x), x.copy()
        ref[index] += 1.
        jit(lambda r: addupdate(r, index, 2.))(ref)  # noqa: B023  # called at once
        expected[same_part] += 3
        np.testing.assert_array_equal(array_of(ref), expected)
    with pytest.raises(IndexError, match="outside of axis 0, which has 4"):
        new_ref(x)[Block(start, 5)]


def test_views_read_and_write_their_part():
    ref = new_ref(X)
    view = ref.at[1].at[1:]
    view[0] = 9.
    view[...] += 1.
    np.testing.assert_array_equal(view[...], [10, 6])
    np.testing.assert_array_equal(array_of(ref), [[0, 1, 2], [3, 10, 6]])
    assert repr(new_ref(1).at[...]) == "RefView(Ref(1, dtype=int32).at[Ellipsis])"
    assert view.shape == (2,) and view.dtype == np.float32


def test_transformed_functions_take_views():
    ref, calls = new_ref(X), []

    @jit
    def f(view, x):
        calls.append(1)
        view[1:] += x
        return view[0]

    for k in (asarray(0), asarray(1)):
        assert f(ref.at[k], 1.) == X[k, 0]
    assert f(ref.at[1, :], 1.) == 3 and len(calls) == 2
    np.testing.assert_array_equal(array_of(ref), [[0, 2, 3], [3, 6, 7]])
    with pytest.raises(ValueError, match="returned a mutable reference"):
        jit(lambda v: v)(ref.at[0])
    with pytest.raises(ValueError, match="passed twice"):
        jit(lambda v, w: None)(ref.at[0], ref.at[1])


def test_a_write_of_another_type_is_refused():
    ref = new_ref(X)
    for value, error, text in [(X.astype(np.int32), TypeError, "dtype float32 must have this dtype; got int32"),
                               (np.zeros(4, np.float32), ValueError, r"must have shape \(2, 3\)"), (1j, TypeError, "complex"),
                               ("a", TypeError, "an array or a number"), (ref, TypeError, r"ref\[\.\.\.\]")]:
        with pytest.raises(error, match=text):
            ref[...] = value
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 2"):
        ref[2] = 0.
    with pytest.raises(IndexError):
        ref[0, 0, 0]
    with pytest.raises(ValueError, match="must have shape"):
        ref[0] = np.zeros(2, np.float32)
    np.testing.assert_array_equal(array_of(ref), X)
    integers = new_ref(np.zeros(2, np.int32))
    with pytest.raises(TypeError, match="int32 must have this dtype"):
        integers[...] = 1.5


@pytest.mark.parametrize("use", [lax.sin, lambda r: r + 1, lambda r: r.sum(), np.asarray, float, bool, new_ref])
def test_a_reference_is_no_array(use):
    with pytest.raises((TypeError, ValueError), match=r"mutable reference.*ref\[\.\.\.\]"):
        use(new_ref(X))


def test_isinstance_distinguishes_references_and_arrays():
    ref = new_ref(X)
    assert not isinstance(ref, Array) and isinstance(ref[...], Array)


def test_functions_of_solvers_use_values():
    ref = new_ref(2.)
    with pytest.raises(NotImplementedError, match=r"linear_solve.*value = ref\[\.\.\.\]"):
        custom_linear_solve(lambda x: x * ref[...], asarray(1.), lambda mv, b: b, symmetric=True)


def test_a_frozen_reference_is_refused():
    ref = new_ref(X)
    np.testing.assert_array_equal(freeze(ref), X)
    for use in (lambda: ref[...], lambda: ref.__setitem__(0, 1.), lambda: freeze(ref), lambda: jit(lambda r: r[0])(ref)):
        with pytest.raises(ValueError, match="was frozen"):
            use()


# --- jit ----------------------------------------------------------------------------------------------------------
def test_jit_updates_arguments_and_references_from_outside():
    ref, outside, calls = new_ref(X), new_ref(0.), []

    @jit
    def f(refs, x):
        calls.append(1)
        refs["a"][0] = x
        outside[...] += 1.
        return refs["a"][1] + outside[...]

    for k in range(3):
        np.testing.assert_array_equal(f({"a": ref}, float(k)), X[1] + k + 1)
    np.testing.assert_array_equal(array_of(ref), [[2, 2, 2], X[1]])
    assert outside[...] == 3 and len(calls) == 1


def test_jit_reads_and_writes_in_order():
    def f(ref):
        a = ref[0]
        ref[0] = a + 1
        b = ref[0]
        ref[0] = b * 10
        return a, b, ref[0]

    ref = new_ref(np.zeros(1, np.float32))
    assert [float(x) for x in jit(f)(ref)] == [0, 1, 10]
    assert ref[0] == 10


def test_a_value_that_the_caller_holds_does_not_change():
    ref = new_ref(X)
    f = jit(lambda r: r.__setitem__(..., r[...] + 1))
    f(ref)
    held = ref[...]
    for _ in range(3):
        f(ref)
    np.testing.assert_array_equal(held, X + 1)
    np.testing.assert_array_equal(array_of(ref), X + 4)


def test_jit_of_jit_and_of_local_references():
    inner = jit(lambda r, x: addupdate(r, 0, x))

    @jit
    def f(ref, x):
        local = new_ref(np.zeros(2, np.float32))
        inner(local, x)
        inner(ref, local[0] * 2)
        inner(local, 1.)
        return freeze(local)

    ref = new_ref(np.zeros(2, np.float32))
    np.testing.assert_array_equal(f(ref, 3.), [4, 0])
    np.testing.assert_array_equal(array_of(ref), [6, 0])


def test_a_reference_may_not_be_passed_twice():
    ref = new_ref(X)
    for use in (lambda: jit(lambda a, b: a[...])(ref, ref), lambda: jit(lambda a: a[...] + ref[...])(ref),
                lambda: vmap(lambda a, b: a[...])(ref, ref)):
        with pytest.raises(ValueError, match="passed twice"):
            use()


def test_a_reference_may_not_leave_a_transformed_function():
    for use in (lambda: jit(lambda r: r)(new_ref(X)), lambda: jit(lambda: new_ref(X))(), lambda: vmap(new_ref)(X),
                lambda: grad(new_ref)(1.), lambda: lax.scan(lambda c, x: (c, x), new_ref(0.), X),
                lambda: lax.cond(True, lambda: new_ref(0.), lambda: new_ref(1.))):
        with pytest.raises((ValueError, TypeError), match="returned a mutable reference"):
            use()
    leaked = []
    jit(lambda: leaked.append(new_ref(X)))()
    with pytest.raises(errors.LeakedTracerError, match="has ended"):
        leaked[0][...]


def test_a_function_freezes_only_references_that_it_made():
    with pytest.raises(ValueError, match="was not made in this function"):
        jit(freeze)(new_ref(X))


def test_types_and_programs():
    ref = new_ref(X[0])
    assert eval_shape(lambda r: r[0], ref).shape == ()
    text = str(make_jaxpr(lambda r: r.__setitem__(..., r[...] * 2))(ref))
    assert "a:Ref{f32[3]}" in text and text.index("ref_get a") < text.index("ref_set a")
    np.testing.assert_array_equal(array_of(ref), X[0])


# --- control flow -------------------------------------------------------------------------------------------------
def run_scan(ref, xs):
    def step(carry, x):
        ref[1] += x
        return carry + ref[1], ref[1]
    return lax.scan(step, 0., xs)


def run_fori(ref, xs):
    return lax.fori_loop(0, 3, lambda i, c: (ref.__setitem__(i, ref[i] + xs[i]), c + ref[i])[1], 0.)


def run_while(ref, xs):
    def body(i):
        ref[i] = xs[i] * 2
        return i + 1
    return lax.while_loop(lambda i: (ref[2] == 0) & (i < 3), body, 0)


def run_cond(ref, xs):
    def set_first():
        ref[0] = 5.
        return ref[0] + xs[0]
    return lax.cond(xs[1] > 0, set_first, lambda: ref[1]), lax.switch(2, [lambda: 0., lambda: 1., lambda: float_of(ref)])


def float_of(ref):
    ref[2] *= 3.
    return ref[2]


def run_nested(ref, xs):
    local = new_ref(np.zeros(3, np.float32))

    def outer(c, x):
        def inner(d, i):
            local[i] += x
            ref[0] += local[i]
            return d, None
        lax.cond(x > 1, lambda: lax.scan(inner, 0., np.arange(3)) and None, lambda: None)
        return c, local[0]

    return lax.scan(outer, 0., xs)[1], freeze(local)


FLOWS = [run_scan, run_fori, run_while, run_cond, run_nested]
XS = asarray([1, 2, 3], np.float32)


def plain(flow):
    """Return the function of values that computes the results and the last value."""
    def f(start, xs):
        ref = new_ref(start)
        return flow(ref, xs), freeze(ref)
    return f


def same(a, b, **kwargs):
    from lamina_ir import trees  # noqa: PLC0415
    for x, y in zip(trees.tree_leaves(a), trees.tree_leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **{"rtol": 1e-6, **kwargs})


@pytest.mark.parametrize("flow", FLOWS)
def test_control_flow_equals_its_run_without_staging(flow):
    from lamina_tracing import disable_jit  # noqa: PLC0415
    start = np.zeros(3, np.float32)
    with disable_jit():
        expected = plain(flow)(start, XS)
    same(plain(flow)(start, XS), expected)
    same(jit(plain(flow))(start, XS), expected)
    for run in (flow, jit(flow)):
        ref = new_ref(start)
        same((run(ref, XS), ref[...]), expected)
    closed = new_ref(start)
    same((jit(lambda xs: flow(closed, xs))(XS), closed[...]), expected)


def test_expected_numbers_of_control_flow():
    ref = new_ref(np.zeros(3, np.float32))
    same(run_scan(ref, XS), (10., np.array([1, 3, 6])))
    same(run_fori(ref, XS), 1. + 8. + 3.)
    same(ref[...], np.array([1, 8, 3]))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("flow", FLOWS)
def test_vmap_gives_each_example_its_part(flow, axis):
    starts = np.zeros((4, 3), np.float32)
    xs = asarray(np.abs(np.random.default_rng(0).normal(size=(4, 3))).astype(np.float32) + 1)
    expected = [plain(flow)(s, x) for s, x in zip(starts, xs)]
    ref = new_ref(np.moveaxis(starts, 0, axis))
    outs = vmap(flow, in_axes=(axis, 0))(ref, xs)
    same(outs, [np.stack(parts) for parts in zip(*[leaves(e[0]) for e in expected])], rtol=1e-5)
    same(np.moveaxis(array_of(ref), axis, 0), np.stack([e[1] for e in expected]), rtol=1e-5)
    jitted = new_ref(np.moveaxis(starts, 0, axis))
    jit(vmap(flow, in_axes=(axis, 0)))(jitted, xs)
    same(jitted[...], array_of(ref))


def leaves(tree):
    from lamina_ir import trees  # noqa: PLC0415
    return trees.tree_leaves(tree)


@pytest.mark.parametrize("flow", [run_scan, run_fori, run_cond, run_nested])
def test_derivatives_flow_through_references(flow):
    def total(start, xs):
        outs, last = plain(flow)(start, xs)
        return sum([lax.reduce_sum(lax.mul(x, x), tuple(range(x.ndim))) for x in leaves((outs, last))], start=np.float32(0))

    start, eps = np.array([.1, .2, .3], np.float32), 1e-2
    for wrt, args in ((0, (start, XS + .5)), (1, (start, XS + .5))):
        found = grad(total, wrt)(*args)
        same(jit(grad(total, wrt))(*args), found)
        same(grad(jit(total), wrt)(*args), found)
        same(grad(checkpoint(total), wrt)(*args), found)
        for k in range(3):
            step = np.zeros(3, np.float32)
            step[k] = eps
            plus, minus = [total(*[a + s * step * (i == wrt) for i, a in enumerate(args)]) for s in (1, -1)]
            np.testing.assert_allclose(found[k], (plus - minus) / (2 * eps), rtol=2e-2, atol=2e-2)
        value, tangent = jvp(lambda a: total(*[a if i == wrt else b for i, b in enumerate(args)]), (args[wrt],), (step,))
        np.testing.assert_allclose(tangent, eps * found[2], rtol=1e-4)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_scan_goes_along_a_reference(reverse, wrap):
    xs, total = new_ref(X), new_ref(np.zeros(3, np.float32))

    def step(c, x):
        total[...] += x[...]
        x[...] = x[...] * 2 + total[...]
        return c + x[0], x[1]

    last, ys = wrap(lambda xs: lax.scan(step, 0., xs, reverse=reverse))(xs)
    running = np.cumsum(X[::-1], 0)[::-1] if reverse else np.cumsum(X, 0)
    expected = X * 2 + running
    np.testing.assert_array_equal(array_of(xs), expected)
    np.testing.assert_array_equal(ys, expected[:, 1])
    assert last == expected[:, 0].sum()
    np.testing.assert_array_equal(wrap(lambda xs: lax.map(lambda x: x[0], xs))(xs), expected[:, 0])
    with pytest.raises(ValueError, match="passed twice"):
        wrap(lambda xs: lax.scan(lambda c, x: (xs[0, 0], x[0]), 0., xs))(xs)


def test_gradients_and_maps_of_a_scan_along_a_reference():
    def f(x):
        xs = new_ref(x)
        lax.scan(lambda c, x: (c, x.__setitem__(..., x[...] * x[...])), None, xs)
        return lax.reduce_sum(xs[...], tuple(range(xs.ndim)))

    np.testing.assert_allclose(grad(f)(X), 2 * X)
    np.testing.assert_allclose(vmap(f)(X), (X * X).sum(1))


def test_while_condition_may_not_write():
    ref = new_ref(0)
    with pytest.raises(NotImplementedError, match="condition of the loop writes"):
        lax.while_loop(lambda i: (addupdate(ref, ..., 1), i < 3)[1], lambda i: i + 1, 0)


# --- vmap ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("write", [lambda r, x: set_ref(r, ..., x), lambda r, x: set_ref(r, ..., 2.),
                                   lambda r, x: addupdate(r, ..., x)])
@pytest.mark.parametrize("wrap", [lambda f: f, jit, lambda f: lambda x: lax.cond(True, f, f, x)])
def test_a_write_under_vmap_to_an_unmapped_reference_is_refused(write, wrap):
    ref = new_ref(0.)
    with pytest.raises(ValueError, match="under vmap to the reference .* which is not mapped"):
        vmap(wrap(lambda x: write(ref, x)))(X[0])
    with pytest.raises(ValueError, match="which is not mapped"):
        vmap(lambda r, x: write(r, x), in_axes=(None, 0))(ref, X[0])
    with pytest.raises(ValueError, match="which is not mapped"):
        jit(lambda r: vmap(wrap(lambda x: write(r, x)))(X[0]))(ref)
    assert ref[...] == 0


def test_vmap_reads_unmapped_references_and_makes_its_own():
    ref = new_ref(3.)

    def f(x, i):
        local = new_ref(np.zeros(2, np.float32))
        local[i] = x * ref[...]
        return local[...]

    np.testing.assert_array_equal(vmap(f)(X[0], np.array([0, 1, 0])), [[0, 0], [0, 3], [6, 0]])
    np.testing.assert_array_equal(jit(vmap(f))(X[0], np.array([0, 1, 0])), [[0, 0], [0, 3], [6, 0]])


def test_nested_vmap_and_grad_of_mapped_references():
    ref = new_ref(np.zeros((2, 3), np.float32))
    vmap(vmap(lambda r, x: addupdate(r, ..., x)))(ref, X)
    np.testing.assert_array_equal(array_of(ref), X)

    def loss(x):
        local = new_ref(np.zeros(3, np.float32))
        vmap(lambda r, x: set_ref(r, ..., x * x))(local, x)
        return lax.reduce_sum(local[...], (0,))

    np.testing.assert_allclose(grad(loss)(X[1]), 2 * X[1])
    assert hessian(loss)(X[1]).shape == (3, 3)


# --- derivatives --------------------------------------------------------------------------------------------------
def test_a_differentiated_value_is_not_written_to_an_outer_reference():
    ref = new_ref(0.)
    for f in (lambda x: (set_ref(ref, ..., x), x * x)[1], jit(lambda x: (set_ref(ref, ..., x), x * x)[1])):
        with pytest.raises(ValueError, match="differentiated.*stop_gradient"):
            grad(f)(3.)
    for f in (lambda x: (set_ref(ref, ..., lax.stop_gradient(x)), x * x)[1],
              jit(lambda x: (set_ref(ref, ..., lax.stop_gradient(x)), x * x)[1])):
        assert grad(f)(3.) == 6 and ref[...] == 3
        ref[...] = 0.


def test_no_derivative_with_respect_to_a_reference():
    for use in (lambda r: grad(lambda r: r[...])(r), lambda r: jvp(lambda r: r[...], (r,), (1.,))):
        with pytest.raises(TypeError, match=r"mutable reference.*ref\[\.\.\.\]"):
            use(new_ref(1.))
    assert grad(lambda x, r: x * r[...])(2., new_ref(3.)) == 3


def test_custom_vjp_rule_stores_a_cotangent_in_a_reference():
    @custom_vjp
    def stash(ref, x):
        return x

    stash.defvjp(lambda ref, x: (x, ref), lambda ref, ct: (set_ref(ref, ..., ct), (None, ct))[1])
    f = lambda x, ref: lax.sin(stash(ref, x * 2))  # noqa: E731
    for run in (grad(f), jit(grad(f))):
        ref = new_ref(0.)
        np.testing.assert_allclose(run(1., ref), 2 * np.cos(2), rtol=1e-6)
        np.testing.assert_allclose(ref[...], np.cos(2), rtol=1e-6)


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_functions_with_rules_read_references_from_outside(kind):
    scale = new_ref(3.)
    if kind == "vjp":
        f = custom_vjp(lambda x: x * scale[...])
        f.defvjp(lambda x: (x * scale[...], scale[...]), lambda s, ct: (ct * s * 10,))
    else:
        f = custom_jvp(lambda x: x * scale[...])
        f.defjvp(lambda p, t: (p[0] * scale[...], t[0] * scale[...] * 10))
    for run in (f, jit(f), lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 1)[0]):
        assert run(2.) == 6 and grad(run)(2.) == 30 and jit(grad(run))(2.) == 30
        assert vmap(run)(asarray([1., 2.]))[1] == 6
    writing = custom_jvp(lambda x: (addupdate(scale, ..., 1.), x)[1])
    writing.defjvp(lambda p, t: (p[0], t[0]))
    assert writing(2.) == 2 and scale[...] == 4
    with pytest.raises(NotImplementedError, match="derivative rules writes to the reference"):
        jit(writing)(2.)


def test_gradient_accumulation_in_a_scan():
    def loss(w, x):
        return lax.reduce_sum(lax.tanh(w * x), (0,))

    def accumulate(w, xs):
        total, losses = new_ref(np.zeros(3, np.float32)), new_ref(0.)

        def step(_, x):
            value, g = value_and_grad(loss)(w, x)
            total[...] += g
            losses[...] += value
            return None, None

        lax.scan(step, None, xs)
        return freeze(losses), freeze(total)

    w, xs = X[1] / 10, np.linspace(-1, 1, 8, dtype=np.float32)
    each = [value_and_grad(loss)(w, x) for x in xs]
    expected = sum(v for v, _ in each), sum(g for _, g in each)
    same(accumulate(w, xs), expected, rtol=1e-5, atol=1e-6)
    same(jit(accumulate)(w, xs), expected, rtol=1e-5, atol=1e-6)


# --- discharge ----------------------------------------------------------------------------------------------------
def test_discharge_makes_a_function_of_values():
    def kernel(x_ref, y_ref, out_ref):
        lax.fori_loop(0, 3, lambda i, _: set_ref(out_ref, i, x_ref[i] * y_ref[2 - i]), None)
        lax.cond(x_ref[0] == 0, lambda: addupdate(out_ref, 0, 1.), lambda: None)

    f = discharge(kernel)
    args = X[0], X[1], np.zeros(3, np.float32)
    out, finals = f(*args)
    assert out is None
    same(finals, (X[0], X[1], np.array([1, 4, 6])))
    same(jit(f)(*args)[1], finals)
    same(vmap(f, in_axes=(None, None, 0))(X[0], X[1], np.zeros((2, 3), np.float32))[1][2], np.array([[1, 4, 6]] * 2))
    same(grad(lambda y: lax.reduce_sum(f(X[0], y, args[2])[1][2], (0,)))(X[1]), np.array([2, 1, 0]))


@pytest.mark.parametrize("call", [lambda: freeze(X), lambda: get(X), lambda: set_ref(1., ..., 2.), lambda: swap("a", 0, 1),
                                  lambda: addupdate(None, 0, 1), lambda: new_ref("a"), lambda: new_ref({"a": 1})])
def test_arguments_of_another_type_are_named(call):
    with pytest.raises(TypeError, match="must be a mutable reference|an array or a number"):
        call()

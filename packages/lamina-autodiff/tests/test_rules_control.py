"""Derivatives of control flow compared with the unrolled loop, and the residuals of linearization."""
import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jacfwd, jacrev, jvp, linear_transpose, linearize, vjp
from lamina_autodiff.testing import check_grads
from lamina_ir import UnboundedLoopError, prims, walk
from lamina_tracing import debug, jit, lax, make_jaxpr

RNG = np.random.default_rng(0)
W = RNG.normal(size=(3, 3)).astype(np.float32) * np.float32(0.5)
XS = RNG.normal(size=(5, 3)).astype(np.float32)


def dot(a, b):
    return lax.reduce_sum(lax.mul(a, b), (0,))


def close(a, b, tol=2e-4):
    for x, y in zip(a if isinstance(a, (tuple, list)) else [a], b if isinstance(b, (tuple, list)) else [b]):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tol, atol=tol)


def step(w, c, x):
    c = lax.tanh(lax.add(lax.dot(c, w), x))
    return c, dot(c, x)


def looped(w, c, xs, **options):
    c, ys = lax.scan(lambda c, x: step(w, c, x), c, xs, **options)
    return lax.add(lax.reduce_sum(lax.mul(ys, ys), (0,)), lax.reduce_sum(c, (0,)))


def unrolled(w, c, xs, reverse=False, unroll=1):
    total = 0.0
    for i in reversed(range(5)) if reverse else range(5):
        c, y = step(w, c, lax.index_in_dim(xs, i, 0, False))
        total = total + y * y
    return lax.add(total, lax.reduce_sum(c, (0,)))


C = np.zeros(3, np.float32)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"unroll": 2}, {"reverse": True, "unroll": True}], ids=str)
def test_grad_of_scan_equals_grad_of_unrolled_loop(options):
    wanted = grad(unrolled, (0, 1, 2))(W, C, XS, **options)
    close(grad(looped, (0, 1, 2))(W, C, XS, **options), wanted)
    close(grad(jit(lambda *a: looped(*a, **options)), (0, 1, 2))(W, C, XS), wanted)
    close(jit(grad(lambda *a: looped(*a, **options), (0, 1, 2)))(W, C, XS), wanted)
    close(jvp(lambda *a: looped(*a, **options), (W, C, XS), (W, C, XS))[1],
          jvp(lambda *a: unrolled(*a, **options), (W, C, XS), (W, C, XS))[1])


@pytest.mark.parametrize("twice", [hessian, lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(f)),
                                   lambda f: jacrev(jacfwd(f))], ids=["hessian", "rev-rev", "fwd-fwd", "rev-fwd"])
def test_second_derivative_of_scan(twice):
    close(twice(lambda c: looped(W, c, XS))(C), jacfwd(jacfwd(lambda c: unrolled(W, c, XS)))(C), 1e-3)


def test_third_derivative_of_scan():
    def f(x):
        return lax.scan(lambda c, _: (lax.sin(lax.mul(c, x)), None), x, None, length=3)[0]

    def g(x):
        return lax.sin(lax.mul(lax.sin(lax.mul(lax.sin(lax.mul(x, x)), x)), x))
    close(grad(grad(grad(f)))(0.7), grad(grad(grad(g)))(0.7), 1e-3)


def test_integer_carries_and_unused_tangents():
    def f(x, n):
        (i, c), ys = lax.scan(lambda s, n: ((lax.add(s[0], 1), lax.mul(s[1], x)), lax.add(s[0], n)), (0, 1.0), n)
        return c
    close(grad(f)(3.0, np.arange(4)), 108.0)
    assert grad(lambda x: lax.scan(lambda c, _: (lax.stop_gradient(c), None), x, None, length=2)[0])(1.0) == 0
    assert grad(lambda x: lax.scan(lambda c, _: (lax.floor(c), None), x, None, length=2)[0])(1.5) == 0


def test_linearize_and_vjp_agree_with_jvp_and_grad():
    y, push = linearize(lambda w: looped(w, C, XS), W)
    close(push(W), jvp(lambda w: looped(w, C, XS), (W,), (W,))[1])
    pull = vjp(lambda w: looped(w, C, XS), W)[1]
    close(pull(np.float32(1)), grad(lambda w: looped(w, C, XS))(W))


def test_loop_invariants_are_hoisted_and_not_stacked():
    def f(w, x):
        return lax.scan(lambda c, _: (lax.mul(c, lax.exp(lax.sin(w))), None), x, None, length=50)[0]
    program = make_jaxpr(grad(f, (0, 1)))(1.0, 1.0)
    loops = [e for e in program.eqns if e.primitive is prims.scan_p]
    assert len(loops) == 2
    assert {"exp", "sin"}.isdisjoint(e.primitive.name for loop in loops for e in walk(loop.params["jaxpr"]))
    stacked = [v for v in loops[0].outvars if v.aval.shape]
    assert len(stacked) == 1  # the carry
    closed_form = grad(lambda w, x: lax.mul(x, lax.exp(lax.mul(50.0, lax.sin(w)))), (0, 1))
    close(grad(f, (0, 1))(0.3, 1.0), closed_form(0.3, 1.0), 1e-3)


@pytest.mark.parametrize("what", ["changes", "stays"])
@pytest.mark.parametrize("loop", [lambda f, x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0],
                                  lambda f, x: lax.fori_loop(0, 3, lambda _, c: f(c), x)])
def test_effects_stay_in_loop_when_invariants_are_hoisted(loop, what):
    x, seen = np.float32(0.5), []

    def f(w, x):
        def step(c):
            debug.callback(lambda v: seen.append(float(v)), c if what == "changes" else w)
            return lax.mul(c, lax.sin(w))
        return loop(step, x)

    def runs(call):
        seen.clear()
        return call(), list(seen)

    _, want = runs(lambda: f(x, x))
    assert len(want) == 3
    for call in (grad(f), jit(grad(f)), lambda *xs: linearize(f, *xs)[0]):
        _, got = runs(lambda: call(x, x))
        assert got == want


def test_scanned_operands_are_not_stacked_again():
    program = make_jaxpr(grad(lambda x: lax.scan(lambda c, x: (lax.mul(c, x), None), 1.0, x)[0]))(XS[:, 0])
    forward = next(e for e in program.eqns if e.primitive is prims.scan_p)
    assert len(forward.outvars) == 2


def test_program_size_does_not_depend_on_length():
    def size(n):
        return len(list(walk(make_jaxpr(grad(lambda x: looped(W, C, x)))(np.zeros((n, 3), np.float32)))))
    assert size(5) == size(5000)


def test_transpose_of_a_linear_loop_with_a_counter():
    def f(x):
        def body(i, c):
            return lax.add(lax.mul(c, 2.0), lax.mul(x, lax.convert_element_type(i, np.float32)))
        return lax.fori_loop(0, 4, body, np.zeros(3, np.float32))
    y = np.arange(3, dtype=np.float32)
    close(linear_transpose(f, y)(y)[0], f(y))


def test_transpose_of_a_linear_bounded_while():
    def f(x):
        return lax.while_loop(lambda c: lax.lt(c[0], 3), lambda c: (lax.add(c[0], 1), lax.add(lax.mul(c[1], 2.0), x)),
                              (0, np.zeros(3, np.float32)), max_iters=5)[1]
    y = np.arange(3, dtype=np.float32)
    close(linear_transpose(f, y)(y)[0], f(y))


def test_transpose_of_branch_chosen_by_linear_value_is_rejected():
    with pytest.raises((TypeError, NotImplementedError)):
        linear_transpose(lambda x: lax.cond(lax.gt(x, 0.0), lambda y: y, lambda y: lax.neg(y), x), 1.0)(1.0)


# --- cond ---
@pytest.mark.parametrize("index", [0, 1, 2])
def test_branches_are_differentiated_by_operands(index):
    funs = [lambda x, y: lax.mul(lax.sin(x), y), lambda x, y: lax.mul(x, 2.0), lambda x, y: y]
    x, y = RNG.normal(size=(2, 3)).astype(np.float32)

    def f(i, x, y):
        return lax.reduce_sum(lax.switch(i, funs, x, y), (0,))

    def g(x, y):
        return lax.reduce_sum(funs[index](x, y), (0,))
    for call in (f, jit(f)):
        close(grad(call, (1, 2))(index, x, y), grad(g, (0, 1))(x, y))
        close(jvp(lambda *a: call(index, *a), (x, y), (y, x))[1], jvp(g, (x, y), (y, x))[1])
        close(hessian(lambda x: call(index, x, y))(x), hessian(lambda x: g(x, y))(x))


def test_branches_share_residuals():
    def f(p, x):
        return lax.cond(p, lambda x: lax.sin(lax.exp(x)), lambda x: lax.cos(lax.log(x)), x)
    program = make_jaxpr(lambda p, x: grad(lambda x: f(p, x))(x))(True, 2.0)
    first = next(e for e in program.eqns if e.primitive is prims.cond_p)
    assert len(first.outvars) <= 3
    close(grad(lambda x: f(True, x))(2.0), grad(lambda x: lax.sin(lax.exp(x)))(2.0))


def test_predicate_may_depend_on_differentiated_value():
    f = jit(lambda x: lax.cond(lax.gt(x, 0.0), lambda x: lax.mul(x, x), lax.neg, x))
    assert grad(f)(3.0) == 6 and grad(f)(-3.0) == -1


# --- while ---
def grow(x, w, bound):
    def body(c):
        return lax.add(c[0], 1), lax.add(lax.mul(c[1], w), lax.sin(c[1]))

    def goes_on(c):
        return lax.lt(lax.reduce_sum(c[1], (0,)), 20.0)
    return lax.reduce_sum(lax.while_loop(goes_on, body, (0, x), max_iters=bound)[1], (0,))


def grow_unrolled(x, w, times):
    for _ in range(times):
        x = lax.add(lax.mul(x, w), lax.sin(x))
    return lax.reduce_sum(x, (0,))


def count_iterations(x, w, bound):
    n = 0
    while x.sum() < 20 and n < bound:
        x, n = x * w + np.sin(x), n + 1
    return n


X, F = np.array([1.0, 2.0, 0.5], np.float32), np.float32(1.1)


@pytest.mark.parametrize("bound", [0, 1, 2, 3, 4, 5, 20, 101])
def test_bounded_while_has_a_reverse_derivative(bound):
    n = count_iterations(X, F, bound)
    wanted = grad(grow_unrolled, (0, 1))(X, F, n)
    close(grad(grow, (0, 1))(X, F, bound), wanted, 1e-3)
    close(jit(grad(lambda x, w: grow(x, w, bound), (0, 1)))(X, F), wanted, 1e-3)
    close(jvp(lambda x, w: grow(x, w, bound), (X, F), (X, F))[1],
          jvp(lambda x, w: grow_unrolled(x, w, n), (X, F), (X, F))[1], 1e-3)


def test_bounded_while_to_second_order():
    n = count_iterations(X, F, 20)
    for twice in (hessian, lambda f: jacrev(jacrev(f))):
        close(twice(lambda x: grow(x, F, 20))(X), jacfwd(jacfwd(lambda x: grow_unrolled(x, F, n)))(X), 1e-2)


def test_bounded_while_stores_square_root_of_its_bound():
    program = make_jaxpr(lambda x: grad(lambda x: grow(x, F, 10_000))(x))(X)
    kept = max(v.aval.shape[0] for e in program.eqns for v in e.outvars if v.aval.ndim == 2)
    inside = max(v.aval.shape[0] for e in walk(program) for v in e.outvars if v.aval.ndim == 2)
    assert kept == 100 and inside == 100


def test_unbounded_while_in_reverse_mode_error_names_line():
    def f(x):
        return lax.while_loop(lambda c: lax.lt(c, 10.0), lambda c: lax.mul(c, 2.0), x)
    assert jvp(f, (1.5,), (1.0,)) == (12.0, 8.0)
    assert linearize(f, 1.5)[1](1.0) == 8 and jacfwd(f)(1.5) == 8
    line = f.__code__.co_firstlineno + 1
    for call in (f, jit(f), lambda x: jvp(f, (x,), (x,))[1]):
        with pytest.raises(UnboundedLoopError, match=rf"test_rules_control\.py:{line} .*max_iters=n"):
            grad(call)(1.5)


def test_fori_loop_with_unknown_bounds_has_forward_derivative():
    f = jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: lax.mul(c, x), 1.0))
    close(jvp(lambda x: f(3, x), (2.0,), (1.0,))[1], 12.0)
    with pytest.raises(UnboundedLoopError):
        grad(f, 1)(3, 2.0)


def test_nested_loops():
    def f(x):
        def outer(c, _):
            inner = lax.scan(lambda d, y: (lax.sin(lax.mul(d, c)), d), x, np.arange(3.0, dtype=np.float32))
            return lax.cond(lax.gt(c, 0.5), lambda v: lax.mul(v, 1.5), lambda v: v, inner[0]), inner[1]
        c, ys = lax.scan(outer, lax.mul(x, 0.9), None, length=4)
        return lax.add(c, lax.reduce_sum(ys, (0, 1)))
    check_grads(f, (0.8,), order=2, eps=1e-3)

"""Checks in batched branches and loops apply only to the examples that take part."""
import numpy as np
import pytest
from lamina_batching import custom_vmap, vmap
from lamina_ir import CheckError, MissingRuleError, OutOfBoundsError, config
from lamina_tracing import debug, io_callback, jit, lax

X = np.arange(3, dtype=np.float32)


def at(i):
    return lax.dynamic_index_in_dim(X, i, 0, False)


def total(n):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + at(c[0])), (0, np.float32(0)))[1]


def checked_branch(i):
    return lax.cond(i < 3, at, lambda i: np.float32(-1), i)


def switched(i):
    return lax.switch(i, [lambda i: np.float32(0), at, at], i)


def looped(i):
    return lax.cond(i < 3, lambda i: lax.fori_loop(0, 2, lambda _, c: c + lax.scan(lambda d, _: (d + at(i), None), c, None,
                                                                                  length=2)[0], np.float32(0)),
                    lambda i: np.float32(0), i)


@pytest.mark.parametrize("f, good, bad, first", [
    (checked_branch, [0, 9, 2], None, None), (total, [3, 0, 1], [1, 3, 4], 2), (looped, [2, 3, 7], None, None),
    (switched, [0, 2, 1], [0, 1, 7], 2)])
def test_checks_skip_examples_that_do_not_take_part(f, good, bad, first):
    want = [f(np.int32(i)) for i in good]
    with config.debug_bounds(True):
        for how in (vmap(f, axis_name="b"), jit(vmap(f, axis_name="b"))):
            np.testing.assert_allclose(how(np.int32(good)), want)
            if bad is not None:
                with pytest.raises(OutOfBoundsError, match=f"at index {first} of axis 'b' of 3"):
                    np.asarray(how(np.int32(bad)))


def test_checks_in_nested_vmap():
    f = vmap(vmap(checked_branch, axis_name="in"), axis_name="out")
    with config.debug_bounds(True):
        np.testing.assert_allclose(f(np.int32([[0, 5], [7, 2]])), [[0, -1], [-1, 2]])
        g = vmap(vmap(at, in_axes=None, axis_size=2), axis_name="out")
        with pytest.raises(OutOfBoundsError, match="at index 1 of axis 'out' of 2"):
            g(np.int32([0, 5]))


def test_check_of_unbatched_operand_inside_branch():
    f = vmap(lambda x, y: lax.cond(x > 0, lambda: (debug.check(y > 0, "y"), x)[1], lambda: x), in_axes=(0, None))
    assert f(np.float32([-1, -2]), np.float32(-1)).tolist() == [-1, -2]  # no example checks, although y is shared
    with pytest.raises(CheckError, match="debug.check: y"):
        f(np.float32([-1, 2]), np.float32(-1))


def check_below_3(here, v):
    if here:
        debug.check(v < 3, "{v}", v=v)


def squares(where):
    """Return v * v with the custom derivative 5 v as custom_jvp and custom_vjp; `where` names the parts with checks."""
    autodiff = pytest.importorskip("lamina_autodiff")

    @autodiff.custom_jvp
    def forward(v):
        check_below_3("f" in where, v)
        return v * v

    @forward.defjvp
    def rule(xs, ts):
        check_below_3("r" in where, xs[0])
        return forward(xs[0]), ts[0] * 5 * xs[0]

    @autodiff.custom_vjp
    def backward(v):
        check_below_3("f" in where, v)
        return v * v

    backward.defvjp(lambda v: (check_below_3("r" in where, v), (v * v, (v,)))[1],
                    lambda kept, t: (check_below_3("b" in where, kept[0]), (t * 5 * kept[0],))[1])
    return forward, backward


@pytest.mark.parametrize("where", ["f", "fr", "fb"])
@pytest.mark.parametrize("kind", [0, 1])
def test_checks_in_functions_with_custom_rules(where, kind):
    grad = pytest.importorskip("lamina_autodiff").grad
    f, x = squares(where)[kind], np.float32([1, 4, 2])

    def chosen(f, most=3):
        return lambda v: lax.cond(v < most, f, lambda v: v * 0 - 1, v)

    def twice(v):
        return lax.scan(lambda c, _: (c + chosen(f)(v), None), v * 0, None, length=2)[0]

    for how in (lambda f: f, jit):
        np.testing.assert_array_equal(how(vmap(chosen(f)))(x), [1, -1, 4])
        np.testing.assert_array_equal(how(vmap(vmap(chosen(f))))(np.stack([x, x])), [[1, -1, 4]] * 2)
        np.testing.assert_array_equal(how(vmap(lambda v: lax.while_loop(
            lambda c: c[0] < 2, lambda c: (c[0] + v, f(c[0]) + c[1]), (0 * v, 0 * v))[1]))(x), [1, 0, 0])
        np.testing.assert_array_equal(how(vmap(grad(chosen(f))))(x), [5, 0, 10])
        np.testing.assert_array_equal(how(grad(lambda x: vmap(chosen(f))(x).sum()))(x), [5, 0, 10])
        np.testing.assert_array_equal(how(grad(lambda x: vmap(twice)(x).sum()))(x), [10, 0, 20])
    all_chosen = chosen(f, 5)
    # if kind is 1, the vjp rule replaces the function
    gradients = (vmap(grad(all_chosen)), grad(lambda x: vmap(all_chosen)(x).sum()))
    for g in (vmap(all_chosen), *gradients[:0 if kind and where == "f" else 2]):
        with pytest.raises(CheckError, match="debug.check: 4.0.*at index 1 of the batch of 3"):
            np.asarray(g(x))


def test_checks_inside_custom_vmap_in_branch_are_rejected():
    f = custom_vmap(at)
    f.def_vmap(lambda n, on, i: (vmap(at)(i), True))
    with config.debug_bounds(True), pytest.raises(MissingRuleError, match="checks inside of `custom_vmap_call`"):
        vmap(lambda i: lax.cond(i < 3, f, lambda i: np.float32(0), i))(np.int32([1, 4]))


def test_debug_callback_in_branch_runs_for_all_examples_and_io_callback_is_rejected():
    seen, i = [], np.int32([1, 4])
    mapped = vmap(lambda i: lax.cond(i < 3, lambda i: (debug.callback(lambda v: seen.append(int(v)), i), 2 * i)[1],
                                     lambda i: i, i))
    np.testing.assert_array_equal(mapped(i), [2, 4])
    assert sorted(seen) == [1, 4]
    with pytest.raises(MissingRuleError, match="calls `io_callback`"):
        vmap(lambda i: lax.cond(i < 3, lambda i: (io_callback(print, None, i), i)[1], lambda i: i, i))(i)


@pytest.mark.parametrize("how", [lambda f: f, jit])
def test_debug_callback_in_branch_receives_values_of_each_example(how):
    seen = []

    def report(name):
        def branch(x, y):
            debug.callback(lambda a, b: seen.append((name, float(a), float(b))), x, y)
            return x * y
        return branch

    f = how(vmap(lambda i, x, y: lax.switch(i, [report("first"), report("second")], x, y), in_axes=(0, 0, None)))
    np.testing.assert_array_equal(f(np.int32([0, 1, 1]), X, np.float32(7)), 7 * X)
    assert sorted(seen) == [(name, x, 7.0) for name in ("first", "second") for x in X.tolist()]

    def loop(n, x, y):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, report(0)(c[1], y)), (np.int32(0), x),
                              max_iters=4)[1]

    seen.clear()
    out = how(vmap(loop, in_axes=(0, 0, None)))(np.int32([1, 2, 0]), X + 1, np.float32(2))
    np.testing.assert_array_equal(out, [2, 8, 3])
    assert sorted(seen) == [(0, x, 2.0) for x in (1.0, 2.0, 2.0, 3.0, 3.0, 4.0)]

"""Replicated values of a mapped axis count once, or once per member: both settings of replicated_counts_once."""
import numpy as np
import pytest

import lamina
import lamina.numpy as jnp
from lamina import lax

X, W = np.array([1., 2., 4., 8.], np.float32), np.float32(3)
EACH = [6, 24, 96, 384]
ONCE = lamina.config.replicated_counts_once


def loss(w, x):
    return (w * x) ** 2


def total(w, x):
    return lax.psum(loss(w, x), "i")


def mean(w, x):
    return lax.pmean(loss(w, x), "i")


TABLE = {  # function: result by default, and with replicated_counts_once
    "grad_w(l)": (lamina.grad(loss), EACH, [510] * 4),
    "grad_w(psum(l))": (lamina.grad(total), [24, 96, 384, 1536], [510] * 4),
    "grad_x(psum(l))": (lamina.grad(total, 1), [72, 144, 288, 576], [18, 36, 72, 144]),
    "grad_w(pmean(l))": (lamina.grad(mean), EACH, [127.5] * 4),
    "grad_x(pmean(l))": (lamina.grad(mean, 1), [18, 36, 72, 144], [4.5, 9, 18, 36]),
    "jvp_w(l)": (lambda w, x: lamina.jvp(lambda w: loss(w, x), (w,), (1.,))[1], EACH, EACH),
    "jvp_w(psum(l))": (lambda w, x: lamina.jvp(lambda w: total(w, x), (w,), (1.,))[1], [510] * 4, [510] * 4),
    "jvp_w(pmean(l))": (lambda w, x: lamina.jvp(lambda w: mean(w, x), (w,), (1.,))[1], [127.5] * 4, [127.5] * 4),
}
MAPS = {"vmap": lamina.vmap, "pmap": lamina.pmap, "jit(pmap)": lambda f, **k: lamina.jit(lamina.pmap(f, **k)),
        "jit(vmap)": lambda f, **k: lamina.jit(lamina.vmap(f, **k)),
        "vmap(jit)": lambda f, **k: lamina.vmap(lamina.jit(f), **k),
        "pmap(jit)": lambda f, **k: lamina.pmap(lamina.jit(f), **k)}


@pytest.mark.parametrize("how", MAPS)
@pytest.mark.parametrize("name", TABLE)
def test_gradients_with_and_without_replicated_counts_once(how, name):
    f, default, once = TABLE[name]
    run = MAPS[how](f, axis_name="i", in_axes=(None, 0))
    np.testing.assert_allclose(run(W, X), default, rtol=1e-6)
    with ONCE(True):
        np.testing.assert_allclose(run(W, X), once, rtol=1e-6)
    np.testing.assert_allclose(run(W, X), default, rtol=1e-6)


@pytest.mark.parametrize("how", ["vmap", "pmap", "jit(pmap)"])
def test_replicated_operand_indexed_by_member(how):
    def f(w, xs):
        return total(w, lax.dynamic_index_in_dim(xs, lax.axis_index("i"), 0, keepdims=False))

    run = MAPS[how](lamina.grad(f, (0, 1)), axis_name="i", in_axes=(None, None), axis_size=4)
    by_w, by_x = run(W, X)
    np.testing.assert_allclose(by_w, [24, 96, 384, 1536])
    np.testing.assert_allclose(by_x, np.diag([72, 144, 288, 576]))
    with ONCE(True):
        by_w, by_x = run(W, X)
    np.testing.assert_allclose(by_w, [510] * 4)
    np.testing.assert_allclose(by_x, [[18, 36, 72, 144]] * 4)


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("mapper", [lamina.vmap, lamina.pmap])
@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit])
def test_gradient_outside_the_map_ignores_the_setting(mapper, wrap, once):
    with ONCE(once):
        mapped = wrap(mapper(total, axis_name="i", in_axes=(None, 0), out_axes=None))
        by_w, by_x = lamina.grad(mapped, (0, 1))(W, X)
        np.testing.assert_allclose(by_x, [18, 36, 72, 144])
        np.testing.assert_allclose(by_w, 510)
        rows = wrap(mapper(total, axis_name="i", in_axes=(None, 0)))
        by_w, by_x = lamina.grad(lambda w, x: (rows(w, x) * jnp.arange(4.)).sum(), (0, 1))(W, X)
        np.testing.assert_allclose(by_x, 6 * np.array([18, 36, 72, 144]))
        np.testing.assert_allclose(by_w, 6 * 510)


OPS = {  # functions of (w, x), with w replicated: the loss of a member
    "add": lambda w, x: w + x, "mul": lambda w, x: w * x, "psum of what is the same": lambda w, x: lax.psum(w * w, "i") * x,
    "gather": lambda w, x: (lax.all_gather(w * x, "i") * jnp.arange(4.)).sum(), "pmax": lambda w, x: lax.pmax(w * x, "i"),
    "gather, tiled": lambda w, x: (lax.all_gather((w * x)[None], "i", tiled=True) * jnp.arange(4.)).sum() * x,
    "gather of what is the same": lambda w, x: (lax.all_gather(w, "i") * jnp.arange(4.)).sum(),
    "ppermute": lambda w, x: lax.ppermute(w * w, "i", [(0, 1), (2, 3)]) * x,
    "scatter": lambda w, x: lax.psum_scatter(w * w * jnp.arange(4.), "i") * x,
    "scatter of x": lambda w, x: lax.psum_scatter(w * x * jnp.arange(4.), "i"),
    "to all": lambda w, x: (lax.all_to_all(w * x * jnp.ones((4, 2)), "i", 0, 1) ** 2).sum(),
    "groups": lambda w, x: lax.psum(w * x, "i", axis_index_groups=[[0, 1], [2, 3]]) ** 2,
    "cond": lambda w, x: lax.cond(x > 2., lambda: w * w, lambda: w),
    "cond, one of which differs": lambda w, x: lax.cond(lax.psum(x, "i") > 0, lambda: lax.psum(w * w, "i"), lambda: x) * 2.,
    "cond, decided apart": lambda w, x: lax.cond(x > 2., lambda: w * x, lambda: w) * x,
    "scan that ends the same": lambda w, x: lax.scan(lambda c, _: (lax.psum(w * c, "i") / 9, c), x, None, length=2)[1].sum(),
    "scan": lambda w, x: lax.scan(lambda c, _: (c * w + x, None), w, None, length=3)[0],
    "scan with a sum": lambda w, x: lax.scan(lambda c, _: (lax.psum(c * w * x, "i") / 15, c), w, None, length=2)[0],
    "jit": lambda w, x: lamina.jit(lambda w: w + lax.psum(w * x, "i"))(w), "select": lambda w, x: jnp.where(x > 2., w, 2 * w),
    "checkpoint": lambda w, x: lamina.checkpoint(lambda w: jnp.sin(w) + lax.psum(jnp.sin(w * x), "i"))(w),
}


@lamina.custom_vjp
def added(w, x):
    return w + x


added.defvjp(lambda w, x: (w + x, None), lambda _, ct: (ct, ct))
OPS["custom_vjp"] = lambda w, x: added(w * w, x) * 1.


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("mapper", [lamina.vmap, lamina.pmap])
@pytest.mark.parametrize("wrap", [lambda f: f, lamina.jit])
def test_gradient_inside_is_that_of_the_summed_losses(op, mapper, wrap):
    """By x each member's own; by w the gradient from outside of the sum over distinct losses."""
    f = OPS[op]

    def outside(w, x):  # sum over members; a replicated loss counts once
        rows = lamina.vmap(f, axis_name="i", in_axes=(None, 0))(w, x)
        return rows[0] if same else rows.sum()

    same = op in ("gather", "pmax", "gather of what is the same", "scan with a sum", "jit", "checkpoint")
    with ONCE(True):
        by_w, by_x = mapper(wrap(lamina.grad(f, (0, 1))), axis_name="i", in_axes=(None, 0))(W, X)
    want_w, want_x = lamina.grad(outside, (0, 1))(W, X)
    np.testing.assert_allclose(by_w, [want_w] * 4, rtol=1e-5)
    np.testing.assert_allclose(by_x, want_x, rtol=1e-5)


@lamina.custom_vjp
def scaled(w, x):  # the first result is replicated
    return w * 1.5, x * w


scaled.defvjp(lambda w, x: ((w * 1.5, x * w), (w, x)), lambda r, ct: (1.5 * ct[0] + r[1] * ct[1], r[0] * ct[1]))


def joined(w, x):
    return w * 2, x * w + lax.psum(x * w, "i")


@lamina.custom_vjp
def by_its_vjp(w, x):
    return joined(w, x)


by_its_vjp.defvjp(lambda w, x: lamina.vjp(joined, w, x), lambda pull, ct: pull(ct))

CALLS = {
    "call": lambda f: f, "jit": lamina.jit, "cond": lambda f: lambda w, x: lax.cond(w > 0, f, lambda w, x: (w, x), w, x),
    "other branch": lambda f: lambda w, x: lax.cond(w < 0, f, lambda w, x: (w, x * w), w, x),
    "scan": lambda f: lambda w, x: lax.scan(lambda c, _: (f(*c), None), (w, x), None, length=2)[0],
    "checkpoint": lambda f: lamina.checkpoint(lambda w, x: f(w, x)), "twice": lambda f: lambda w, x: f(*f(w, x)),
}


@pytest.mark.parametrize("rule", [scaled, by_its_vjp])
@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("mapper", [lamina.vmap, lamina.pmap])
def test_custom_vjp_rules_are_per_member(mapper, how, rule):
    call = CALLS[how](rule)

    def f(w, x):
        w, x = call(w, x)
        return lax.pmean(x * x, "i") * w

    want = lamina.grad(lamina.pmap(f, axis_name="i", in_axes=(None, 0), out_axes=None), (0, 1))(W, X)
    run = mapper(lamina.grad(f, (0, 1)), axis_name="i", in_axes=(None, 0))
    forward = mapper(lambda w, x: lamina.jvp(call, (w, x), (w, x)), axis_name="i", in_axes=(None, 0))
    pushed = forward(W, X)
    with ONCE(True):
        by_w, by_x = run(W, X)
        assert all((np.asarray(a) == b).all() for a, b in zip(lamina.tree_util.tree_leaves(forward(W, X)),
                                                              lamina.tree_util.tree_leaves(pushed)))
    np.testing.assert_allclose(by_w, [want[0]] * 4, rtol=1e-5)
    np.testing.assert_allclose(by_x, want[1], rtol=1e-5)


@pytest.mark.parametrize("outer", [lamina.vmap, lamina.pmap])
@pytest.mark.parametrize("inner", [lamina.vmap, lamina.pmap])
def test_replicated_counts_once_with_two_axes(outer, inner):
    def f(w, x):
        return lax.psum(loss(w, x), "j") + w

    grid = X.reshape(2, 2)
    with ONCE(True):
        run = outer(inner(lamina.grad(f, (0, 1)), axis_name="j", in_axes=(None, 0)), axis_name="i", in_axes=(None, 0))
        by_w, by_x = run(W, grid)
    np.testing.assert_allclose(by_w, np.full((2, 2), 510 + 2))  # replicated over j, two values over i
    np.testing.assert_allclose(by_x, 2 * W**2 * grid)


def test_second_derivatives_and_later_pullback():
    with ONCE(True):
        hess = lamina.vmap(lamina.grad(lamina.grad(total)), axis_name="i", in_axes=(None, 0))(W, X)
        np.testing.assert_allclose(hess, [2 * (X**2).sum()] * 4)

    def later(w, x):
        with ONCE(True):
            pull = lamina.vjp(total, w, x)[1]
        return pull(np.float32(1))

    by_w, by_x = lamina.vmap(later, axis_name="i", in_axes=(None, 0))(W, X)
    np.testing.assert_allclose(by_w, [510] * 4)
    np.testing.assert_allclose(by_x, [18, 36, 72, 144])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "complex64", "float16", "uint32"])
@pytest.mark.parametrize("mapper", [lamina.vmap, lamina.pmap])
def test_psum_of_replicated_values_is_a_product(dtype, mapper):
    value = jnp.asarray(100, dtype)
    run = mapper(lambda v, x: (lax.psum((v, x), "i"), v if dtype == "complex64" else lax.pmax(v, "i")), axis_name="i",
                 in_axes=(None, 0))
    (total, of_x), largest = run(value, X[:3])
    want = np.asarray(value) + np.asarray(value) + np.asarray(value)
    assert total.dtype == value.dtype and (np.asarray(total) == want).all() and (np.asarray(largest) == np.asarray(value)).all()
    assert (np.asarray(of_x) == 7).all()


def test_collectives_of_replicated_values_need_no_communication():
    text = lamina.pmap(lambda v, x: lax.psum(v, "i") * lax.pmax(v, "i") + x, axis_name="i", in_axes=(None, 0)).lower(
        W, X).as_text()
    assert "all_reduce" not in text
    nested = lamina.jit(lambda v: lax.psum(v, "i"))
    text = lamina.pmap(lambda v, x: nested(v) + lax.psum(x, "i"), axis_name="i", in_axes=(None, 0)).lower(W, X).as_text()
    assert text.count("all_reduce") == 1


@pytest.mark.parametrize("outer", [lamina.vmap, lamina.pmap])
@pytest.mark.parametrize("inner", [lamina.vmap, lamina.pmap])
def test_nested_maps_with_one_axis_name_are_refused(outer, inner):
    """Types identify axes by name: gradients were several times too large."""
    def nested(i, j):
        rows = inner(lamina.grad(lambda w, x: lax.psum(loss(w, x), j)), axis_name=j, in_axes=(None, 0))
        return outer(lambda w, x: lax.psum(rows(w, x), i), axis_name=i, in_axes=(None, 0))(W, X.reshape(2, 2))

    default = nested("i", "j")
    np.testing.assert_allclose(nested("i", "i"), default)  # by default the inner axis shadows the outer
    with ONCE(True):
        np.testing.assert_allclose(nested("i", "j"), [[1020, 1020]] * 2)  # w is replicated over both
        with pytest.raises(ValueError, match="map of `.*`: the axis name 'i' is already bound by an enclosing map.*"
                           "axis names must"):
            nested("i", "i")

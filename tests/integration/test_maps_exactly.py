"""Gradients from outside a map equal those of the positional program, exactly for integers: values shared by members count
once, also for a rule that is not linear in the cotangents."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import xmap
from lamina.sharding import Mesh
from lamina.sharding import PartitionSpec as P
from lamina_ir import prims, subprograms, walk
from lamina_tracing import hooks

W = np.float32(3)


@lamina.custom_vjp
def clipped(x):
    return x * 1


clipped.defvjp(lambda x: (x * 1, None), lambda _, ct: (jnp.clip(ct, -5, 5),))


@lamina.custom_vjp
def total(x):
    return lax.psum(x, "b")


total.defvjp(lambda x: (lax.psum(x, "b"), None), lambda _, ct: (lax.psum(ct, "b"),))


def looped(w, x):
    return lax.scan(lambda c, k: (c + clipped(w * k) * x, None), x * 0 + w, jnp.arange(3.))[0]


# Functions of a member, with `sum` over all members; also called with all members `x` at once.
CASES = {
    "after the sum": lambda w, x, sum: clipped(sum((w * x) ** 2)),
    "on the weight": lambda w, x, sum: sum((clipped(w) * x) ** 2),
    "next to the sum": lambda w, x, sum: sum((w * x) ** 2) + clipped(w) * clipped(w * 2),
    "on a member": lambda w, x, sum: sum(clipped(w * x) * x) * w,
    "twice": lambda w, x, sum: clipped(sum(clipped(sum(x * w) * x)) * w),
    "in a loop": lambda w, x, sum: sum(looped(w, x)) + lax.scan(lambda c, _: (sum(x * w) + c, None), w, None, length=3)[0],
    "in a branch": lambda w, x, sum: lax.cond(sum(x) > 0, lambda: clipped(w) * sum(x * w), lambda: w),
    "in a function": lambda w, x, sum: lamina.jit(lambda w: clipped(sum(w * x)) * clipped(w))(w),
    "recomputed": lambda w, x, sum: lamina.checkpoint(lambda w: clipped(sum(w * w * x)) * clipped(w))(w),
    "of the weight alone": lambda w, x, sum: clipped(w * w),
}


def pmapped(f, n):
    return lamina.pmap(f, axis_name="b", in_axes=(None, 0), out_axes=None)


def on_blocks(f, n):
    mesh = Mesh(np.array(lamina.devices()[:n]), "b")
    return lamina.shard_map(lambda w, x: f(w, x[0]), mesh, (P(), P("b")), P())


def unproved(f, n):
    mesh = Mesh(np.array(lamina.devices()[:n]), "b")
    same = lambda w, x: lax.ppermute(f(w, x[0]), "b", [(k, (k + 1) % n) for k in range(n)])  # noqa: E731
    return lamina.shard_map(same, mesh, (P(), P("b")), P(), check_rep=False)


def over_a_mesh(f, n):
    mesh, mapped = Mesh(np.array(lamina.devices()[:n]), "x"), named(f, n, axis_resources={"b": "x"})

    def run(w, x):
        with mesh:
            return mapped(w, x)

    return run


def named(f, n, **more):
    return xmap(f, ({}, {0: "b"}), {}, **more)


def within(f, n):
    def outer(w, x):
        return named(f, n)(w, x)

    return lambda w, x: xmap(outer, ({}, {1: "c"}), {0: "c"})(w, jnp.stack([x, x], 1))[0]


def firsts(f, w, x):
    return lamina.value_and_grad(f, (0, 1))(w, x)[1]


def seconds(f, w, x):
    return lamina.grad(lambda w, x: lamina.grad(f)(w, x) ** 2 + (lamina.grad(f, 1)(w, x) * x).sum(), (0, 1))(w, x)


def check_gradients(mapped, cases, derivative, n, compiled=lambda f: f):
    x = jnp.arange(1., n + 1)

    def whole(f):  # a shared value counts for each member
        return lambda w, x: 2 * f(w, x, lambda v: jnp.sum(v * jnp.ones(n)))

    def of_rows(f):
        return lambda w, x: 2 * mapped(lambda w, x: f(w, x, lambda v: lax.psum(v, "b")), n)(w, x)

    wanted, found = [compiled(lambda w, x: [derivative(as_(CASES[c]), w, x) for c in cases])(W, x)  # noqa: B023
                     for as_ in (whole, of_rows)]
    for case, a, b in zip(cases, found, wanted):
        for one, two in zip(a, b):
            assert np.array_equal(one, two), (case, one, two)


@pytest.mark.parametrize("n", [3, 7])
@pytest.mark.parametrize("mapped", [named, over_a_mesh, within, pmapped, on_blocks, unproved])
def test_gradients_match_the_positional_program(mapped, n):
    check_gradients(mapped, [*CASES], firsts, n, lamina.jit)


@pytest.mark.parametrize("mapped", [named, pmapped, on_blocks])
@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_match_the_positional_program(case, mapped):
    before = hooks.evaluator, hooks.dispatcher
    hooks.use_numpy()  # eager NumPy evaluation, without compiling
    try:
        check_gradients(mapped, [case], seconds, 3)
    finally:
        hooks.set_evaluator(before[0])
        hooks.set_dispatcher(before[1])


def test_map_without_axis_name():
    f = lamina.pmap(lambda w, x: (w * x, clipped(w * 4)), in_axes=(None, 0), out_axes=(0, None))
    assert lamina.grad(lambda w: 3 * f(w, jnp.arange(3.))[1] + f(w, jnp.arange(3.))[0].sum())(W) == 15


def test_custom_rule_that_sums_over_the_members():
    for mapped in (named, pmapped, on_blocks):
        f = mapped(lambda w, x: total(w * x) + clipped(w), 7)
        x = jnp.arange(7.)
        assert np.array_equal(lamina.grad(f, 1)(W, x), [3] * 7) and lamina.grad(f)(W, x) == 22


def test_nested_map_with_the_same_axis_name():
    def inner(w, x):
        return lamina.pmap(lambda x: x * lax.psum(x * w, "b"), axis_name="b")(x)

    f = lamina.pmap(lambda w, x: lax.psum(clipped(w) * lax.psum(inner(w, x).sum(), "b"), "c"), axis_name="c",
                    in_axes=(None, 0), out_axes=None)
    g = lamina.pmap(lambda w, x: lax.psum(inner(w, x).sum() * w, "b"), axis_name="b", in_axes=(None, 0), out_axes=None)
    x = jnp.arange(4.).reshape(2, 2)
    with pytest.raises(lamina.errors.UnboundAxisError):
        f(W, x)
    square = (x.sum(1) ** 2).sum()
    assert lamina.grad(g)(W, x) == 2 * W * square


def test_cotangents_of_loops_and_calls_are_summed_over_devices_once():
    """Cotangents of a weight are added up on each device, and summed over devices once, after the loop or call."""
    def loop(w, x):
        return lax.scan(lambda c, _: (jnp.sin(c * w) + x, None), x, None, length=5)[0].sum()

    for mapped in (on_blocks, pmapped, named):
        for inside in (loop, lamina.checkpoint(loop), lamina.jit(loop)):
            f = mapped(lambda w, x: lax.psum(inside(w, x), "b"), 4)  # noqa: B023
            program = lamina.make_jaxpr(lamina.grad(f))(jnp.ones(3), jnp.ones((4, 3)))
            calls = [e for e in walk(program) if e.primitive in (prims.scan_p, prims.remat_p, prims.xla_call_p)]
            assert len(calls) > 1
            assert not any(e.primitive is prims.psum_p for call in calls for p in subprograms(call) for e in walk(p))


@pytest.mark.parametrize("inside", [
    lambda x, y: x + y, lamina.jit(lambda x, y: x + y), lamina.checkpoint(lambda x, y: x + y),
    lambda x, y: lax.scan(lambda c, _: (c + (x + y), None), x * y * 0, None, length=1)[0],
    lambda x, y: lax.cond(True, lambda: x + y, lambda: x - y)])
def test_equal_cotangents_are_summed_over_shared_axes(inside):
    """All summed members have the same cotangent; cotangents of a value shared along one axis are still summed over it."""
    f = xmap(lambda x, y: lax.psum(inside(x, y), ("i", "k")), ({0: "k"}, {0: "i"}), {})
    for derivative in (lamina.grad, lambda f, n: lamina.jit(lamina.grad(f, n))):
        x, y = derivative(f, (0, 1))(jnp.arange(2.), jnp.arange(3.))
        assert np.array_equal(x, [3, 3]) and np.array_equal(y, [2, 2, 2])

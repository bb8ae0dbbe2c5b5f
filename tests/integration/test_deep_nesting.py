"""Hundreds of nested programs: they need no larger recursion limit, and time linear in the depth."""
import math
import sys
import time

import pytest

import lamina as jax
import lamina_ir as ir
import lamina.numpy as jnp
from lamina import lax


# Python 3.12.0 to 3.12.2 fail at 750 nested calls through C for any limit.
DEPTH, MOST = (120, 400) if (3, 12) <= sys.version_info < (3, 12, 3) else (500, 1600)


def with_custom_jvp(g):
    f = jax.custom_jvp(lambda x: jnp.sin(g(x)))
    f.defjvp(lambda primals, tangents: jax.jvp(lambda x: jnp.sin(g(x)), primals, tangents))
    return f


NESTINGS = {
    "jit": lambda g: jax.jit(lambda x: jnp.sin(g(x))),
    "checkpoint": lambda g: jax.checkpoint(lambda x: jnp.sin(g(x))),
    "scan": lambda g: lambda x: lax.scan(lambda c, _: (jnp.sin(g(c)), None), x, None, length=2)[0],
    "cond": lambda g: lambda x: lax.cond(x > 0, lambda x: jnp.sin(g(x)), jnp.cos, x),
    "custom_jvp": with_custom_jvp,
}
USES = {"grad": lambda f: jax.make_jaxpr(jax.grad(f))(0.5),
        "vmap": lambda f: jax.make_jaxpr(jax.vmap(f))(jnp.ones(3)), "lower": lambda f: jax.jit(f).lower(0.5),
        "print": lambda f: str(jax.make_jaxpr(f)(0.5)),
        "dce": lambda f: ir.dce(jax.make_jaxpr(lambda x: (f(x), x))(0.5), [True, False]),
        "partial_eval": lambda f: ir.partial_eval(jax.make_jaxpr(lambda x, y: f(x) * y)(0.5, 0.5), [True, False]),
        "rewrite": lambda f: ir.fold_constants(ir.cse(ir.inline_calls(jax.make_jaxpr(f)(0.5))))}


def nested(kind, depth):
    f = jnp.sin
    for _ in range(depth):
        f = NESTINGS[kind](f)
    return f


@pytest.mark.slow
@pytest.mark.parametrize("kind", NESTINGS)
@pytest.mark.parametrize("use", USES)
def test_hundreds_of_nested_levels(kind, use):
    limit = sys.getrecursionlimit()
    USES[use](nested(kind, DEPTH))
    assert sys.getrecursionlimit() == limit


TWICE = {
    "jit": lambda g: jax.jit(lambda x: g(g(x))),
    "checkpoint": lambda g: jax.jit(jax.checkpoint(lambda x: g(g(x)))),
    "scan": lambda g: jax.jit(lambda x: lax.scan(lambda c, _: (g(g(c)), None), x, None, length=1)[0]),
    "cond": lambda g: jax.jit(lambda x: lax.cond(x > 0, g, lambda x: g(g(x)), x)),
    "while": lambda g: jax.jit(lambda x: lax.while_loop(lambda c: c < 9, lambda c: g(g(c)), x, max_iters=1)),
}
TRANSFORMED = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](x),
    "grad": jax.grad,
    "grad of grad": lambda f: jax.grad(jax.grad(f)),
    "jvp of grad": lambda f: lambda x: jax.jvp(jax.grad(f), (x,), (x,)),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x])),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "checkpoint, everything saved": lambda f: jax.grad(jax.checkpoint(f, policy=jax.checkpoint_policies.everything_saveable)),
}


def count_values(program):
    """Return the number of values of a program; each nested program counts once."""
    seen, todo = {}, [program]
    while todo:
        p = todo.pop()
        seen[id(p)] = p
        todo += [s for e in p.jaxpr.eqns for s in ir.subprograms(e) if id(s) not in seen]
    return sum(len(e.outvars) for p in seen.values() for e in p.jaxpr.eqns)


@pytest.mark.parametrize("leaf", [jnp.sin, pytest.param(lambda x: x * x, marks=pytest.mark.slow)], ids=["sin", "mul"])
@pytest.mark.parametrize("use", [u if u != "grad of grad" else pytest.param(u, marks=pytest.mark.slow) for u in TRANSFORMED])
@pytest.mark.parametrize("kind", TWICE)
def test_twenty_levels_that_call_the_previous_twice(kind, use, leaf):
    f = leaf
    for _ in range(20):  # a million call sites of twenty programs
        f = TWICE[kind](f)
    program = jax.make_jaxpr(TRANSFORMED[use](f))(0.5)
    assert count_values(program) < 100_000
    assert count_values(ir.dce(program)[0]) < 100_000
    for part in ir.partial_eval(program, [True])[:2] + ir.partial_eval(program, [False])[:2]:
        assert count_values(part) < 100_000


def test_vmap_of_backward_rule_that_calls_twenty_levels():
    double = lambda ct: 2 * ct
    for _ in range(20):
        double = TWICE["jit"](double)
    f = jax.custom_vjp(lambda x, y: (jnp.sin(x), y))
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, cts: (cts[0], double(cts[1])))
    program = jax.make_jaxpr(jax.vmap(f, (0, None), (0, None)))(jnp.ones(3), 0.5)
    assert program.out_avals[1].shape == ()


@pytest.mark.parametrize("use", ["vjp", "linearize", "checkpoint", "checkpoint, everything saved"])
@pytest.mark.parametrize("kind", [k if k != "while" else pytest.param(k, marks=pytest.mark.slow) for k in TWICE])
def test_derivatives_of_recomputed_nested_calls(kind, use):
    """Ten levels are deep enough for recomputation, and shallow enough to run."""
    f, x, derivative = jnp.sin, 0.5, 1.0
    for _ in range(10):
        f = TWICE[kind](f)
    times = {"cond": 1}.get(kind, 1024)  # 0.5 and its sines are positive: always the same branch
    for _ in range(times):
        x, derivative = math.sin(x), derivative * math.cos(x)
    got = ir.evaluate(jax.make_jaxpr(TRANSFORMED[use](f))(0.5), 0.5)[0]  # XLA would inline all calls
    assert float(got) == pytest.approx(derivative * (0.5 if use in ("vjp", "linearize") else 1), rel=1e-3)


def test_hundreds_of_nested_levels_run():
    x = 0.5
    for _ in range(DEPTH + 1):
        x = math.sin(x)
    assert float(jax.jit(nested("jit", DEPTH))(0.5)) == pytest.approx(x, rel=1e-4)


def test_almost_maximal_depth_runs():
    x = 0.5
    for _ in range(MOST - 99):
        x = math.sin(x)
    assert float(nested("jit", MOST - 100)(0.5)) == pytest.approx(x, rel=1e-4)


def test_eager_derivatives_of_many_levels():
    x, derivative = 0.5, 1.0
    for _ in range(MOST // 5 + 1):
        x, derivative = math.sin(x), derivative * math.cos(x)
    got = jax.jvp(nested("checkpoint", MOST // 5), (0.5,), (1.0,))
    assert [float(v) for v in got] == pytest.approx([x, derivative], rel=1e-3)


@pytest.mark.parametrize("call", ["grad", "vmap", "pmap of cond"])
def test_too_many_levels_raise_recursion_error(call):
    deep = {"grad": lambda: jax.grad(nested("jit", MOST - 100))(0.5),
            "vmap": lambda: jax.vmap(nested("jit", MOST - 100))(jnp.ones(3)),
            "pmap of cond": lambda: jax.pmap(nested("cond", 300))(jnp.ones(1))}
    with pytest.raises(RecursionError, match="levels deep"):
        deep[call]()


def test_time_of_nested_checkpoints_grows_with_the_depth():
    def seconds(depth):
        f = nested("checkpoint", depth)
        start = time.thread_time()
        USES["grad"](f)
        return time.thread_time() - start

    seconds(50)
    assert seconds(200) < 16 * min(seconds(50) for _ in range(3))  # it was 64 times when each level traced all inner ones again


def test_unbounded_recursion_is_refused():
    f = jax.jit(lambda x: f(x) + 1)
    limit = sys.getrecursionlimit()
    for use in (f, jax.make_jaxpr(f), jax.grad(f)):
        with pytest.raises(RecursionError, match=f"more than {MOST} levels deep: end a recursion by a cond"):
            use(1.0)
    assert sys.getrecursionlimit() == limit


def test_eager_checkpoints_may_be_as_deep_as_traced_ones():
    limit, f = sys.getrecursionlimit(), jnp.sin
    for _ in range(MOST - 100):
        f = jax.checkpoint(f)
    assert float(f(0.5)) == pytest.approx(math.sin(0.5)) == float(jax.jit(f)(0.5))
    endless = jax.checkpoint(lambda x: endless(x))
    for deep in (lambda: endless(0.5), lambda: jax.grad(f)(0.5)):
        with pytest.raises(RecursionError, match=f"more than {MOST} levels deep"):
            deep()
    assert sys.getrecursionlimit() == limit

"""Hundreds of programs nested in one another: under Python's usual limit, and in time that grows with the depth."""
import math
import sys
import time

import pytest

import lamina as jax
import lamina_ir as ir
import lamina.numpy as jnp
from lamina import lax


# Python 3.12.0 to 3.12.2 end at 750 calls that pass through C, whatever the limit is.
DEPTH, MOST = (120, 400) if (3, 12) <= sys.version_info < (3, 12, 3) else (500, 1600)


def with_own_rule(g):
    f = jax.custom_jvp(lambda x: jnp.sin(g(x)))
    f.defjvp(lambda primals, tangents: jax.jvp(lambda x: jnp.sin(g(x)), primals, tangents))
    return f


NESTINGS = {
    "jit": lambda g: jax.jit(lambda x: jnp.sin(g(x))),
    "checkpoint": lambda g: jax.checkpoint(lambda x: jnp.sin(g(x))),
    "scan": lambda g: lambda x: lax.scan(lambda c, _: (jnp.sin(g(c)), None), x, None, length=2)[0],
    "cond": lambda g: lambda x: lax.cond(x > 0, lambda x: jnp.sin(g(x)), jnp.cos, x),
    "custom_jvp": with_own_rule,
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
def test_hundreds_of_levels(kind, use):
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
    "checkpoint that keeps all": lambda f: jax.grad(jax.checkpoint(f, policy=jax.checkpoint_policies.everything_saveable)),
}


def values_of(program):
    """How many values a program writes down, each program inside once."""
    seen, todo = {}, [program]
    while todo:
        p = todo.pop()
        seen[id(p)] = p
        todo += [s for e in p.jaxpr.eqns for s in ir.subprograms(e) if id(s) not in seen]
    return sum(len(e.outvars) for p in seen.values() for e in p.jaxpr.eqns)


@pytest.mark.parametrize("leaf", [jnp.sin, pytest.param(lambda x: x * x, marks=pytest.mark.slow)], ids=["sin", "mul"])
@pytest.mark.parametrize("use", [u if u != "grad of grad" else pytest.param(u, marks=pytest.mark.slow) for u in TRANSFORMED])
@pytest.mark.parametrize("kind", TWICE)
def test_twenty_levels_each_twice_in_the_next(kind, use, leaf):
    f = leaf
    for _ in range(20):  # a million places, and twenty programs
        f = TWICE[kind](f)
    program = jax.make_jaxpr(TRANSFORMED[use](f))(0.5)
    assert values_of(program) < 100_000
    assert values_of(ir.dce(program)[0]) < 100_000
    for part in ir.partial_eval(program, [True])[:2] + ir.partial_eval(program, [False])[:2]:
        assert values_of(part) < 100_000


@pytest.mark.parametrize("use", ["vjp", "linearize", "checkpoint", "checkpoint that keeps all"])
@pytest.mark.parametrize("kind", [k if k != "while" else pytest.param(k, marks=pytest.mark.slow) for k in TWICE])
def test_derivatives_of_what_is_computed_again(kind, use):
    """Ten levels are enough for values to be computed again and not kept, and few enough to run."""
    f, x, slope = jnp.sin, 0.5, 1.0
    for _ in range(10):
        f = TWICE[kind](f)
    times = {"cond": 1}.get(kind, 1024)  # 0.5 is positive, and so is its sine: one branch all the way
    for _ in range(times):
        x, slope = math.sin(x), slope * math.cos(x)
    got = ir.evaluate(jax.make_jaxpr(TRANSFORMED[use](f))(0.5), 0.5)[0]  # a compiler would write it all out
    assert float(got) == pytest.approx(slope * (0.5 if use in ("vjp", "linearize") else 1), rel=1e-3)


def test_hundreds_of_levels_run():
    x = 0.5
    for _ in range(DEPTH + 1):
        x = math.sin(x)
    assert float(jax.jit(nested("jit", DEPTH))(0.5)) == pytest.approx(x, rel=1e-4)


def test_nearly_as_many_levels_as_are_allowed_run():
    x = 0.5
    for _ in range(MOST - 99):
        x = math.sin(x)
    assert float(nested("jit", MOST - 100)(0.5)) == pytest.approx(x, rel=1e-4)


def test_derivatives_of_many_levels_op_by_op():
    x, slope = 0.5, 1.0
    for _ in range(MOST // 5 + 1):
        x, slope = math.sin(x), slope * math.cos(x)
    got = jax.jvp(nested("checkpoint", MOST // 5), (0.5,), (1.0,))
    assert [float(v) for v in got] == pytest.approx([x, slope], rel=1e-3)


@pytest.mark.parametrize("call", ["grad", "vmap", "pmap of cond"])
def test_too_many_levels_are_refused_in_words(call):
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
    assert seconds(200) < 16 * min(seconds(50) for _ in range(3))  # 64 times while each level made all inner ones anew


def test_a_function_that_calls_itself_without_an_end():
    f = jax.jit(lambda x: f(x) + 1)
    limit = sys.getrecursionlimit()
    for use in (f, jax.make_jaxpr(f), jax.grad(f)):
        with pytest.raises(RecursionError, match=f"more than {MOST} levels deep: end a recursion by a cond"):
            use(1.0)
    assert sys.getrecursionlimit() == limit


def test_checkpoints_on_arrays_have_room_for_as_many_levels_as_traced_ones():
    limit, f = sys.getrecursionlimit(), jnp.sin
    for _ in range(MOST - 100):
        f = jax.checkpoint(f)
    assert float(f(0.5)) == pytest.approx(math.sin(0.5)) == float(jax.jit(f)(0.5))
    endless = jax.checkpoint(lambda x: endless(x))
    for deep in (lambda: endless(0.5), lambda: jax.grad(f)(0.5)):
        with pytest.raises(RecursionError, match=f"more than {MOST} levels deep"):
            deep()
    assert sys.getrecursionlimit() == limit

"""The examples of custom derivatives and checkpointing on the public API page, as written there."""
from functools import partial

import lamina as jax
import lamina.numpy as jnp
import numpy as np
from lamina import closure_convert, custom_vjp


def close(a, b, rtol=1e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-5)


def check_sine_times(f):
    for g in (f, jax.jit(f)):
        close(g(2.0, 3.0), np.sin(2.0) * 3.0)
        close(jax.grad(g, (0, 1))(2.0, 3.0), (np.cos(2.0) * 3.0, np.sin(2.0)))
        close(jax.jvp(g, (2.0, 3.0), (1.0, 2.0))[1], np.cos(2.0) * 3.0 + np.sin(2.0) * 2.0)
        close(jax.hessian(g)(2.0, 3.0), -np.sin(2.0) * 3.0)


def test_custom_jvp():
    @jax.custom_jvp
    def f(x, y):
        return jnp.sin(x) * y

    @f.defjvp
    def f_jvp(primals, tangents):
        x, y = primals
        x_dot, y_dot = tangents
        primal_out = f(x, y)
        tangent_out = jnp.cos(x) * x_dot * y + jnp.sin(x) * y_dot
        return primal_out, tangent_out

    check_sine_times(f)


def test_defjvps():
    @jax.custom_jvp
    def f(x, y):
        return jnp.sin(x) * y

    f.defjvps(lambda x_dot, primal_out, x, y: jnp.cos(x) * x_dot * y,
              lambda y_dot, primal_out, x, y: jnp.sin(x) * y_dot)
    check_sine_times(f)


def test_custom_vjp():
    @jax.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y

    def f_fwd(x, y):
        return f(x, y), (jnp.cos(x), jnp.sin(x), y)

    def f_bwd(res, g):
        cos_x, sin_x, y = res
        return (cos_x * g * y, sin_x * g)

    f.defvjp(f_fwd, f_bwd)
    check_sine_times(f)


def test_closure_convert():
    def minimize(objective_fn, x0):
        converted_fn, aux_args = closure_convert(objective_fn, x0)
        return _minimize(converted_fn, x0, *aux_args)

    @partial(custom_vjp, nondiff_argnums=(0,))
    def _minimize(objective_fn, x0, *args):
        x_opt = x0
        for _ in range(20):
            x_opt = x_opt - 0.5 * jax.grad(objective_fn)(x_opt, *args)
        return x_opt

    def fwd(objective_fn, x0, *args):
        y = _minimize(objective_fn, x0, *args)
        return y, (y, args)

    def rev(objective_fn, res, g):
        y, args = res
        gradient = jax.grad(objective_fn)
        u = -g / jax.grad(gradient)(y, *args)
        args_bars = jax.vjp(lambda *a: gradient(y, *a), *args)[1](u)
        return (jnp.zeros_like(y), *args_bars)

    _minimize.defvjp(fwd, rev)

    def best(c):
        return minimize(lambda x: (x - c * c) ** 2, 0.0)

    close(best(2.0), 4.0)
    for g in (jax.grad(best), jax.jit(jax.grad(best)), jax.grad(jax.jit(best))):
        close(g(2.0), 4.0)
    close(jax.vmap(jax.grad(best))(jnp.arange(1.0, 3.0)), [2.0, 4.0])


def test_checkpoint():
    @jax.checkpoint
    def g(x):
        y = jnp.sin(x)
        z = jnp.sin(y)
        return z

    close(jax.grad(g)(2.0), -0.25563914)
    close(jax.jit(jax.grad(g))(2.0), -0.25563914)


def recursive_checkpoint(funs):
    if len(funs) == 1:
        return funs[0]
    elif len(funs) == 2:
        f1, f2 = funs
        return lambda x: f1(f2(x))
    else:
        f1 = recursive_checkpoint(funs[:len(funs)//2])
        f2 = recursive_checkpoint(funs[len(funs)//2:])
        return lambda x: f1(jax.checkpoint(f2)(x))


def test_recursive_checkpoint_recomputes_and_saves_memory():
    w = np.ones((64, 64), np.float32) / 64
    layers = [lambda x: jnp.sin(x @ w)] * 32
    x = jnp.ones((256, 64))

    def plain(x):
        for layer in layers:
            x = layer(x)
        return x.sum()

    def checkpointed(x):
        return recursive_checkpoint(layers)(x).sum()

    compiled = [jax.jit(jax.grad(f)).lower(x).compile() for f in (plain, checkpointed)]
    close(compiled[0](x), compiled[1](x))
    close(jax.grad(plain)(x), jax.grad(checkpointed)(x))
    memory = [c.memory_analysis().temp_size_in_bytes / x.nbytes for c in compiled]
    assert memory[0] > 30 and memory[1] < 12, memory
    flops = [c.cost_analysis()["flops"] for c in compiled]
    assert flops[1] > 1.5 * flops[0], flops

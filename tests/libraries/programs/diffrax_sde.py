"""Solve a stochastic equation with a virtual Brownian tree, for several paths."""
import diffrax
import jax
import jax.numpy as jnp
from _report import show


def solve(key):
    path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(), key=key)
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: -y), diffrax.ControlTerm(lambda t, y, args: 0.2 * y, path))
    return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.05, jnp.float32(1.0)).ys[0]


keys = jax.random.split(jax.random.PRNGKey(0), 6)
show(ends=jax.vmap(solve)(keys), derivative=jax.grad(lambda s: s * solve(keys[0]))(2.0))

"""Treat trees as vectors: arithmetic, products, and a conjugate gradient solver written with them."""
import jax
import jax.numpy as jnp
import tree_math as tm
from _report import show

a = tm.Vector({"x": jnp.arange(3.0), "y": jnp.ones((2, 2))})


@tm.wrap
def halve(v):
    return 0.5 * v


@jax.jit
def descend(v):
    return jax.lax.fori_loop(0, 4, lambda i, v: v - 0.1 * (2.0 * v - a), v)


out = descend(tm.Vector(jax.tree_util.tree_map(jnp.zeros_like, a.tree)))
show(dot=a @ a, x=out.tree["x"], y=out.tree["y"], size=a.size, half=halve(a.tree)["x"],
     grad=jax.grad(lambda v: (v @ v))(a).tree["x"])

"""Scan a GRU, with dropout, batch normalization state, runtime checks and `tree_at`."""
import equinox as eqx
import jax
import jax.numpy as jnp
from _report import show

cell = eqx.nn.GRUCell(2, 5, key=jax.random.PRNGKey(0))
inputs = jax.random.normal(jax.random.PRNGKey(1), (7, 2))


@eqx.filter_jit
def run(cell, inputs):
    def body(h, x):
        h = cell(x, h)
        return h, h.sum()
    return jax.lax.scan(body, jnp.zeros(5), inputs)


last, sums = run(cell, inputs)
zeroed = eqx.tree_at(lambda c: c.weight_hh, cell, replace_fn=jnp.zeros_like)
norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(5, axis_name="batch")
out, state = jax.vmap(norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(
    jax.random.normal(jax.random.PRNGKey(2), (4, 5)), state)


@eqx.filter_jit
def checked(x):
    return eqx.error_if(jnp.sqrt(x), x < 0, "negative")


try:
    checked(jnp.float32(-1.0))
    failed = 0
except Exception:
    failed = 1
grads = eqx.filter_grad(lambda c: run(c, inputs)[1].sum())(cell)
show(last=last, sums=sums, zeroed=run(zeroed, inputs)[0], out=out, root=checked(jnp.float32(4.0)), failed=failed,
     grad=grads.weight_ih)

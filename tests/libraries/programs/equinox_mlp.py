"""Train an MLP of equinox with optax: filtered jit and grad, partitions, and leaf counts."""
import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from _report import run_steps, show

x = jax.random.normal(jax.random.PRNGKey(1), (32, 3))
y = jnp.cos(x[:, :1])
model = eqx.nn.MLP(3, 1, 16, 2, key=jax.random.PRNGKey(0))
optimizer = optax.adam(1e-2)


def loss(model):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(state):
    model, opt_state, _ = state
    value, grads = eqx.filter_value_and_grad(loss)(model)
    updates, opt_state = optimizer.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, value


state = model, optimizer.init(eqx.filter(model, eqx.is_inexact_array)), jnp.zeros(())
for_show, static = eqx.partition(model, eqx.is_array)


def timed(arrays):
    return eqx.filter(step(eqx.combine(arrays, rest)), eqx.is_array)


arrays, rest = eqx.partition(state, eqx.is_array)
arrays = run_steps(timed, arrays, 10)
model, _, value = eqx.combine(arrays, rest)
show(loss=value, out=jax.vmap(model)(x[:4]), leaves=len(jax.tree_util.tree_leaves(for_show)))

"""Fit a linear model with AdamW, a warm-up schedule and gradient clipping."""
import jax
import jax.numpy as jnp
import optax
from _report import run_steps, show

x = jax.random.normal(jax.random.key(0), (64, 5))
y = x @ jnp.arange(5.0) + 1.0
schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 40)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3))
params = {"w": jnp.zeros(5), "b": jnp.zeros(())}


def loss(p):
    return optax.losses.squared_error(x @ p["w"] + p["b"], y).mean()


@jax.jit
def step(state):
    params, opt_state, _ = state
    value, grads = jax.value_and_grad(loss)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value


params, _, value = run_steps(step, (params, optimizer.init(params), jnp.zeros(())), 30)
show(loss=value, w=params["w"], b=params["b"])

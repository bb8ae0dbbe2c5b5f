"""Combine optimizers per group of parameters, accumulate gradients, and evaluate losses."""
import jax
import jax.numpy as jnp
import optax
from _report import run_steps, show

params = {"a": jnp.arange(3.0), "b": {"c": jnp.ones((2, 2))}}
labels = {"a": "fast", "b": "slow"}
optimizer = optax.MultiSteps(
    optax.multi_transform({"fast": optax.sgd(0.1, momentum=0.9, nesterov=True), "slow": optax.lamb(0.05)}, labels), 2)


def loss(p):
    return jnp.sum(p["a"] ** 2) + jnp.sum(jnp.sin(p["b"]["c"]))


@jax.jit
def step(state):
    params, opt_state = state
    updates, opt_state = optimizer.update(jax.grad(loss)(params), opt_state, params)
    return optax.apply_updates(params, updates), opt_state


params, state = run_steps(step, (params, optimizer.init(params)), 10)
logits = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4)
show(a=params["a"], c=params["b"]["c"], steps=state.gradient_step,
     cross_entropy=optax.softmax_cross_entropy_with_integer_labels(logits, jnp.array([0, 2, 3])),
     focal=optax.sigmoid_focal_loss(logits, (logits > 0).astype(jnp.float32)),
     huber=optax.huber_loss(logits, 0.3).sum(), norm=optax.global_norm(params))

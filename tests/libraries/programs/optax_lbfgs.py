"""Minimize the Rosenbrock function with L-BFGS and its line search."""
import jax
import jax.numpy as jnp
import optax
from _report import run_steps, show


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


optimizer = optax.lbfgs()
value_and_grad = optax.value_and_grad_from_state(rosenbrock)


@jax.jit
def step(state):
    params, opt_state = state
    value, grad = value_and_grad(params, state=opt_state)
    updates, opt_state = optimizer.update(grad, opt_state, params, value=value, grad=grad, value_fn=rosenbrock)
    return optax.apply_updates(params, updates), opt_state


start = jnp.array([-1.0, 1.2, 0.8])
params, _ = run_steps(step, (start, optimizer.init(start)), 8)
show(params=params, value=rosenbrock(params))

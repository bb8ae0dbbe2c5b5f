"""Sample a normal distribution with NUTS and with HMC after window adaptation."""
import blackjax
import jax
import jax.numpy as jnp
from _report import run_steps, show


def log_density(x):
    return -0.5 * jnp.sum((x - jnp.array([1.0, -1.0])) ** 2 / jnp.array([1.0, 4.0]))


nuts = blackjax.nuts(log_density, 0.3, jnp.ones(2))
state = nuts.init(jnp.zeros(2))
step = jax.jit(nuts.step)
first, info = step(jax.random.PRNGKey(0), state)


@jax.jit
def advance(carry):
    state, key = carry
    key, sub = jax.random.split(key)
    return nuts.step(sub, state)[0], key


state, _ = run_steps(advance, (first, jax.random.PRNGKey(1)), 3)
warmup = blackjax.window_adaptation(blackjax.hmc, log_density, num_integration_steps=5)
(adapted, parameters), _ = warmup.run(jax.random.PRNGKey(2), jnp.zeros(2), 100)
show(first=first.position, accepted=info.acceptance_rate, position=state.position,
     log_density=log_density(state.position), close=jnp.all(jnp.abs(adapted.position) < 8.0),
     sensible=(parameters["step_size"] > 0.1) & (parameters["step_size"] < 4.0))

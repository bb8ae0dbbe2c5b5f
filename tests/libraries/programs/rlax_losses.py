"""Evaluate temporal differences, returns and policy gradients of reinforcement learning."""
import jax
import jax.numpy as jnp
import rlax
from _report import show

q = jnp.array([[0.1, 0.5, -0.2], [0.3, 0.2, 0.9]])
errors = jax.vmap(rlax.q_learning)(q, jnp.array([1, 2]), jnp.array([1.0, -1.0]), jnp.array([0.9, 0.9]), q + 0.1)
double = jax.vmap(rlax.double_q_learning)(q, jnp.array([1, 2]), jnp.array([1.0, -1.0]), jnp.array([0.9, 0.9]), q + 0.1, q)
rewards, discounts, values = jnp.array([1.0, 0.0, 2.0]), jnp.full(3, 0.9), jnp.array([0.5, 0.4, 0.3])
returns = rlax.lambda_returns(rewards, discounts, values, 0.8)
trace = rlax.vtrace(values, jnp.roll(values, 1), rewards, discounts, jnp.array([0.8, 1.5, 1.0]))
policy = jax.jit(jax.grad(lambda logits: rlax.policy_gradient_loss(logits, jnp.array([0, 1]), jnp.array([0.5, -0.5]),
                                                                  jnp.ones(2))))(q)
show(errors=errors, double=double, returns=returns, trace=trace, policy=policy,
     twohot=rlax.transform_to_2hot(jnp.float32(0.3), -1.0, 1.0, 5), entropy=rlax.softmax().entropy(q),
     action=rlax.epsilon_greedy(0.1).sample(jax.random.PRNGKey(0), q[0]))

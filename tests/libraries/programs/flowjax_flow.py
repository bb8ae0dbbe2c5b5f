"""Evaluate and train a masked autoregressive flow."""
import equinox as eqx
import jax
import jax.numpy as jnp
from _report import show
from flowjax.distributions import Normal
from flowjax.flows import masked_autoregressive_flow

flow = masked_autoregressive_flow(jax.random.key(0), base_dist=Normal(jnp.zeros(2)), flow_layers=2, nn_depth=1, nn_width=8)
x = jax.random.normal(jax.random.key(1), (6, 2)) + 1.0


@eqx.filter_jit
def step(flow):
    value, grads = eqx.filter_value_and_grad(lambda flow: -flow.log_prob(x).mean())(flow)
    return eqx.apply_updates(flow, jax.tree_util.tree_map(lambda g: -0.05 * g, grads)), value


for _ in range(3):
    flow, value = step(flow)
show(loss=value, log_prob=flow.log_prob(x))

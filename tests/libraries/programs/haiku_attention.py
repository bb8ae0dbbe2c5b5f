"""Train attention layers of haiku, with state, an average of parameters, and `hk.scan`."""
import haiku as hk
import jax
import jax.numpy as jnp
from _report import run_steps, show


def forward(x):
    x = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(1.0))(x, x, x)
    x = hk.LayerNorm(-1, True, True)(x)
    x = hk.BatchNorm(True, True, 0.9)(x, is_training=True)
    core = hk.VanillaRNN(6)
    out, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
    return hk.nets.MLP([8, 1])(out) * hk.get_parameter("scale", (), init=jnp.ones)


net = hk.without_apply_rng(hk.transform_with_state(forward))
x = jax.random.normal(jax.random.PRNGKey(0), (5, 3, 4))
params, state = net.init(jax.random.PRNGKey(1), x)


@jax.jit
def step(carry):
    params, state, _ = carry

    def loss(params):
        out, new = net.apply(params, state, x)
        return jnp.mean((out - 1.0) ** 2), new

    (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads), state, value


params, state, value = run_steps(step, (params, state, jnp.zeros(())), 6)
show(loss=value, out=net.apply(params, state, x)[0], size=hk.data_structures.tree_size(params))

"""Run an LSTM with `nn.RNN`, self-attention, and a stack of layers with `nn.scan` and `nn.remat`."""
import flax.linen as nn
import jax
import jax.numpy as jnp
from _report import run_steps, show


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        x = x + nn.MultiHeadDotProductAttention(num_heads=2)(nn.LayerNorm()(x), nn.LayerNorm()(x))
        return x + nn.Dense(8)(nn.gelu(nn.Dense(16)(x))), None


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.RNN(nn.OptimizedLSTMCell(8))(x)
        layers = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        x, _ = layers()(x, None)
        return nn.Dense(2)(x)


x = jax.random.normal(jax.random.PRNGKey(0), (2, 6, 4))
params = Net().init(jax.random.PRNGKey(1), x)


@jax.jit
def step(params):
    grads = jax.grad(lambda p: jnp.mean(Net().apply(p, x) ** 2))(params)
    return jax.tree_util.tree_map(lambda p, g: p - 0.005 * g, params, grads)


params = run_steps(step, params, 4)
leaves = jax.tree_util.tree_leaves(params)
show(out=Net().apply(params, x), norm=sum(jnp.sum(leaf ** 2) for leaf in leaves), leaves=len(leaves))

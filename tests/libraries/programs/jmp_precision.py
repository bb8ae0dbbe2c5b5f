"""Train in mixed precision with a dynamic loss scale."""
import jax
import jax.numpy as jnp
import jmp
from _report import run_steps, show

policy = jmp.get_policy("params=float32,compute=float16,output=float32")
x = jax.random.normal(jax.random.PRNGKey(0), (16, 4))


def loss(params, scale):
    p, data = policy.cast_to_compute((params, x))
    return scale.scale(policy.cast_to_output(jnp.mean((data @ p - 1.0) ** 2)))


@jax.jit
def step(state):
    params, scale = state
    grads = scale.unscale(jax.grad(loss)(params, scale))
    finite = jmp.all_finite(grads)
    return jmp.select_tree(finite, params - 0.1 * grads, params), scale.adjust(finite)


params, scale = run_steps(step, (jnp.zeros((4, 1)), jmp.DynamicLossScale(jnp.float32(2 ** 8), period=3)), 8)
show(params=params, scale=scale.loss_scale, smaller=scale.adjust(jnp.array(False)).loss_scale)

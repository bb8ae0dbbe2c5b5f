"""Search a tree of actions with MuZero's and Gumbel MuZero's policies."""
import jax
import jax.numpy as jnp
import mctx
from _report import show


def recurrent(params, key, action, embedding):
    value = jnp.tanh(embedding.sum(-1))
    logits = embedding[:, :3] * params
    output = mctx.RecurrentFnOutput(reward=0.1 * action.astype(jnp.float32), discount=jnp.full_like(value, 0.9),
                                    prior_logits=logits, value=value)
    return output, embedding * 0.9 + 0.05 * action[:, None]


embedding = jax.random.normal(jax.random.PRNGKey(0), (2, 4))
root = mctx.RootFnOutput(prior_logits=embedding[:, :3], value=jnp.zeros(2), embedding=embedding)
search = jax.jit(lambda key: mctx.muzero_policy(jnp.float32(1.0), key, root, recurrent, num_simulations=12))
gumbel = mctx.gumbel_muzero_policy(jnp.float32(1.0), jax.random.PRNGKey(1), root, recurrent, num_simulations=8)
out = search(jax.random.PRNGKey(2))
show(weights=out.action_weights, action=out.action, gumbel=gumbel.action_weights, chosen=gumbel.action,
     visits=out.search_tree.summary().visit_counts)

"""Pass messages in a graph, in batches and with padding."""
import jax
import jax.numpy as jnp
import jraph
from _report import show

graph = jraph.GraphsTuple(nodes=jnp.arange(6.0).reshape(3, 2), edges=jnp.ones((4, 1)), globals=jnp.zeros((1, 1)),
                          senders=jnp.array([0, 1, 2, 0]), receivers=jnp.array([1, 2, 0, 2]),
                          n_node=jnp.array([3]), n_edge=jnp.array([4]))
batch = jraph.pad_with_graphs(jraph.batch([graph, graph]), 8, 10, 3)
net = jraph.GraphNetwork(
    update_edge_fn=lambda e, s, r, g: jnp.concatenate([e, s * 0.5, r], -1),
    update_node_fn=lambda n, s, r, g: jnp.tanh(jnp.concatenate([n, s.sum(-1, keepdims=True), r], -1)),
    update_global_fn=lambda n, e, g: g + n.sum(-1, keepdims=True))
out = jax.jit(net)(batch)
show(nodes=out.nodes, edges=out.edges, globals=out.globals, softmax=jraph.segment_softmax(
    jnp.arange(4.0), graph.receivers, 3), sizes=[g.nodes.shape[0] for g in jraph.unbatch(batch)])

"""Use data classes, assertions inside jitted functions, and the check of the number of traces."""
import chex
import jax
import jax.numpy as jnp
from _report import show


@chex.dataclass
class State:
    x: chex.Array
    count: chex.Array


@jax.jit
@chex.assert_max_traces(n=1)
def advance(state: State) -> State:
    chex.assert_rank(state.x, 1)
    chex.assert_shape(state.x, (3,))
    chex.assert_type(state.x, jnp.float32)
    return state.replace(x=jnp.cumsum(state.x) + 1.0, count=state.count + 1)


state = State(x=jnp.arange(3.0), count=jnp.zeros((), jnp.int32))
for _ in range(3):
    state = advance(state)
failures = 0
for check in (lambda: chex.assert_equal_shape([state.x, state.count]), lambda: chex.assert_tree_all_finite({"a": jnp.nan}),
              lambda: chex.assert_trees_all_close(state, state.replace(x=state.x + 1.0))):
    try:
        check()
    except AssertionError:
        failures += 1


@chex.chexify
@jax.jit
def positive(x):
    chex.assert_tree_all_finite(x)
    return jnp.log(x)


logs = positive(jnp.arange(1.0, 4.0))
chex.block_until_chexify_assertions_complete()
show(x=state.x, count=state.count, failures=failures, logs=logs)

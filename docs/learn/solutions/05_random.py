"""Solutions of chapter 5."""
import lamina
import lamina.numpy as jnp
from lamina import random

# 1. Draw a permutation of the indices, and use it twice.
matrix, vector = jnp.arange(12.0).reshape(4, 3), jnp.arange(4.0)
order = random.permutation(random.key(0), 4)
assert (matrix[order][:, 0] == 3 * vector[order]).all()

# 2. The end of a walk is the sum of its steps. Its mean square is the number of steps, so it ends about 8 from 0.
steps = random.rademacher(random.key(1), (1000, 100))
ends = steps.sum(axis=1)
assert 6 < jnp.abs(ends).mean() < 10
assert 80 < (ends ** 2).mean() < 120


# 3. Keep an element with probability 1 - rate, and divide by this probability.
def dropout(key, x, rate):
    is_kept = random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(is_kept, x / (1 - rate), 0.0)


dropped = dropout(random.key(2), jnp.ones(10_000), 0.25)
assert abs(float((dropped == 0).mean()) - 0.25) < 0.02
assert abs(float(dropped.mean()) - 1) < 0.03
assert (dropped == dropout(random.key(2), jnp.ones(10_000), 0.25)).all()
assert lamina.vmap(dropout, (0, None, None))(random.split(random.key(3), 4), jnp.ones(5), 0.5).shape == (4, 5)

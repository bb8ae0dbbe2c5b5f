"""Solutions of chapter 6."""
import lamina
import lamina.numpy as jnp
from lamina import lax


# 1. The carry is the pair of the last two numbers; the output is the first of them.
def fibonacci(n):
    def body(pair, _):
        a, b = pair
        return (b, a + b), a
    return lax.scan(body, (0, 1), None, length=n)[1]


assert fibonacci(10).tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


# 2. A while_loop for one number; vmap for all.
@lamina.vmap
def collatz(n):
    def is_not_done(state):
        return state[0] != 1

    def body(state):
        n, count = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1
    return lax.while_loop(is_not_done, body, (n, 0))[1]


counts = collatz(jnp.arange(1, 31))
assert counts[:6].tolist() == [0, 1, 7, 2, 5, 8]
assert counts[26] == 111  # 27 takes long


# 3. The carry is the mean so far.
@lamina.jit
def moving_average(x):
    def body(mean, element):
        mean = 0.9 * mean + 0.1 * element
        return mean, mean
    return lax.scan(body, 0.0, x)[1]


x = jnp.sin(jnp.arange(20.0))
mean, expected = 0.0, []
for element in x.tolist():
    mean = 0.9 * mean + 0.1 * element
    expected.append(mean)
assert jnp.allclose(moving_average(x), jnp.array(expected), atol=1e-6)

"""Solutions of chapter 3."""
import lamina
import lamina.numpy as jnp

# 1. The function body runs once for each shape.
traces = []


@lamina.jit
def total(x):
    traces.append(x.shape)
    return x.sum()


for call in range(10):
    total(jnp.ones(1 + call % 3))
assert traces == [(1,), (2,), (3,)]


# 2. Both sides are differentiated. The root of a negative number is NaN, and NaN times 0 is NaN. Give it a safe argument.
def unsafe(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


def safe(x):
    positive = jnp.where(x > 0, x, 1.0)
    return jnp.where(x > 0, jnp.sqrt(positive), 0.0)


assert jnp.isnan(lamina.grad(unsafe)(-1.0))
assert lamina.grad(safe)(-1.0) == 0
assert lamina.grad(safe)(4.0) == 0.25

# 3. The value was read while tracing. It is a constant of the program, so a change has no effect until the next trace.
factor = 2.0
scale = lamina.jit(lambda x: x * factor)
assert scale(jnp.float32(3)) == 6
factor = 10.0
assert scale(jnp.float32(3)) == 6
assert scale(jnp.ones(1)) == 10  # another shape, another trace

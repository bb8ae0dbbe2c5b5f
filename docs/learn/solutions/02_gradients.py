"""Solutions of chapter 2."""
import lamina
import lamina.numpy as jnp


# 1. The derivative is 4 x ** 3 - 3, whose root is the cube root of 3/4.
def f(x):
    return x ** 4 - 3 * x


x = 0.0
for _ in range(100):
    x = x - 0.05 * lamina.grad(f)(x)
assert abs(x - 0.75 ** (1 / 3)) < 1e-4

# 2. A parabola has one parameter more. The line is the case a = 0, so the loss cannot be larger.
x = jnp.linspace(-1, 1, 20)
y = 2 * x - 1 + 0.3 * jnp.sin(17 * x)


def loss(a, b, c):
    return jnp.mean((a * x ** 2 + b * x + c - y) ** 2)


def fit(arguments, steps=300):
    parameters = [0.0, 0.0, 0.0]
    gradient = lamina.jit(lamina.grad(loss, argnums=(0, 1, 2)))
    for _ in range(steps):
        moves = gradient(*parameters)
        parameters = [p - 0.2 * m if number in arguments else p for number, (p, m) in enumerate(zip(parameters, moves))]
    return parameters


assert loss(*fit({0, 1, 2})) <= loss(*fit({1, 2})) + 1e-6

# 3. grad returns the sign, and the sign of 0 is 0.
assert lamina.grad(jnp.abs)(0.0) == 0
assert lamina.grad(jnp.abs)(-2.0) == -1

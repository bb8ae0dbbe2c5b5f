"""Find roots and fixed points, minimize, and differentiate through the solutions."""
import jax
import jax.numpy as jnp
import optimistix as optx
from _report import show


def system(y, a):
    return jnp.array([y[0] ** 2 + y[1] - a, y[1] ** 2 - y[0]])


newton = optx.Newton(rtol=1e-6, atol=1e-6)
root = optx.root_find(system, newton, jnp.array([1.0, 0.5]), 1.5).value
derivative = jax.jacrev(lambda a: optx.root_find(system, newton, jnp.array([1.0, 0.5]), a).value)(1.5)
fixed = optx.fixed_point(lambda y, _: jnp.cos(y), optx.FixedPointIteration(rtol=1e-6, atol=1e-6), jnp.float32(0.5)).value
t = jnp.linspace(0.0, 1.0, 12)
fit = optx.least_squares(lambda p, _: p[0] * jnp.exp(-p[1] * t) - 2.0 * jnp.exp(-0.7 * t),
                         optx.LevenbergMarquardt(rtol=1e-5, atol=1e-5), jnp.array([1.0, 1.0])).value
low = optx.minimise(lambda y, _: jnp.sum((y - 1.0) ** 4 + (y - 1.0) ** 2), optx.BFGS(rtol=1e-4, atol=1e-4), jnp.zeros(3)).value
bisect = optx.root_find(lambda y, _: y ** 3 - 2.0, optx.Bisection(rtol=1e-5, atol=1e-5), jnp.float32(1.0),
                        options={"lower": 0.0, "upper": 2.0}).value
show(root=root, derivative=derivative, fixed=fixed, fit=jnp.round(fit, 2), low=jnp.round(low, 2), bisect=jnp.round(bisect, 3))

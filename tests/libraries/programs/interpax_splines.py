"""Interpolate in one and two dimensions with several methods, and differentiate."""
import interpax
import jax
import jax.numpy as jnp
from _report import show

x = jnp.linspace(0.0, 3.0, 9)
f = jnp.sin(x)
at = jnp.array([0.1, 0.77, 1.9, 2.95])
values = {m: interpax.interp1d(at, x, f, method=m) for m in ("nearest", "linear", "cubic", "cubic2", "cardinal", "monotonic")}
surface = interpax.interp2d(at, at[::-1], x, x, f[:, None] * f[None], method="cubic")
spline = interpax.Interpolator1D(x, f, method="cubic2")
derivative = jax.jit(jax.vmap(jax.grad(lambda q: interpax.interp1d(q, x, f, method="cubic"))))(at)
show(**values, surface=surface, derivative=derivative, spline=spline(at, dx=1),
     period=interpax.interp1d(at + 3.0, x, f, period=3.2))

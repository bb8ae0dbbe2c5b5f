"""Overload primitives for a custom array type, under jit and grad."""
import equinox as eqx
import jax
import jax.numpy as jnp
import quax
from _report import show


class Scaled(quax.ArrayValue):
    array: jax.Array
    scale: float = eqx.field(static=True)

    def aval(self):
        return jax.core.ShapedArray(self.array.shape, self.array.dtype)

    def materialise(self):
        return self.array * self.scale

    default = None


@quax.register(jax.lax.mul_p)
def _(x: Scaled, y: Scaled, **kwargs):
    return Scaled(x.array * y.array, x.scale * y.scale)


@quax.register(jax.lax.sin_p)
def _(x: Scaled, **kwargs):
    return jnp.sin(x.materialise())


x = Scaled(jnp.arange(3.0), 2.0)
product = quax.quaxify(lambda a, b: a * b)(x, x)
lora = quax.quaxify(jax.jit(lambda a: jnp.sin(a)))(x)
show(product=product.materialise(), scale=product.scale, sine=lora)
